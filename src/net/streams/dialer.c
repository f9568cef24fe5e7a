/* Connects to one process at several addresses, see dialer.h. */
#include "dialer.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "descriptor.h"
#include "log.h"
#include "socket.h"

enum {
  MAX_TARGETS = 16,
  MAX_ADDRESSES = 32,
  TARGET_BYTES = BY_HOST_TEXT + 8,
  TICK_MS = 10,
  STAGGER_MS = 100, /* Between two attempts of which the first has no answer yet. */
  RETRY_MS = 20,    /* For an address that refused: its process may be starting. */
  ANSWER_MS = 5000, /* For the answer of an address. */
  SILENT_MS = 8000, /* After which an address without any answer is given up, if others have answered. */
  UNKNOWN_MS = 500, /* Until an unknown name is looked up again. */
  KNOWN_MS = 3000,  /* Until a known name is looked up again: its address may change if a container is restarted. */
  REASON_BYTES = 256
};

/* A target given by the user or a launcher. */
struct target {
  char text[TARGET_BYTES];
  struct by_resolving *resolving; /* NULL: it is not being looked up. */
  uint64_t look_up_at;            /* UINT64_MAX: it is an address. */
  char error[REASON_BYTES];       /* "": its addresses are known. */
};

enum attempt { RESTING, TRYING, CONNECTED, HELD, ATTEMPTS };

struct candidate {
  struct by_address to;
  uint32_t target; /* The index of its target. */
  enum attempt attempt;
  int fd;                 /* For TRYING and CONNECTED. */
  struct by_watch *watch; /* For TRYING. */
  bool renewed;           /* It was connected late, and is therefore tried again. */
  bool silent;            /* The last attempt had no answer at all, not even a refusal. */
  uint64_t late_at;       /* When the attempt is late. */
  uint64_t next_at;       /* It is not tried before. */
  enum banyan_status status;
  char reason[REASON_BYTES]; /* The reason of the last failure; "": there was none. */
};

struct by_dialer {
  struct by_dialer_options options;
  struct by_timer tick;
  struct target targets[MAX_TARGETS];
  struct candidate candidates[MAX_ADDRESSES];
  uint32_t n_targets, n_candidates;
  struct candidate *held; /* The candidate whose connection was handed over; NULL: none. */
  uint64_t begun_at;      /* When all attempts began. */
  uint64_t started_at;    /* When the latest attempt began. */
  bool busy;              /* `connected` is being called. */
};

static void advance_dialer(struct by_dialer *dialer);
static void start_attempt(struct by_dialer *dialer, struct candidate *c);

/* ---- attempts */

static void set_attempt(struct candidate *c, enum attempt to) {
  static const char *const names[] = {"not being tried", "being tried", "connected", "handed over"};
  static const bool allowed[ATTEMPTS][ATTEMPTS] = {[RESTING] = {[TRYING] = true},
                                                   [TRYING] = {[RESTING] = true, [CONNECTED] = true},
                                                   [CONNECTED] = {[RESTING] = true, [HELD] = true},
                                                   [HELD] = {[RESTING] = true}};
  char address[BY_ADDRESS_TEXT];
  assert(allowed[c->attempt][to]);
  by_debug("net", "%s: %s, was %s", by_address_print(&c->to, address), names[to], names[c->attempt]);
  if (c->attempt == TRYING) by_loop_unwatch(c->watch);
  c->attempt = to;
}

/* Closes the attempt of a candidate that was not handed over. */
static void close_attempt(struct candidate *c) {
  if (c->attempt != TRYING && c->attempt != CONNECTED) return;
  set_attempt(c, RESTING);
  by_close(c->fd);
}

/* Notes a failure. The address precedes `reason` unless that names it. */
static void note_failure(const struct by_dialer *dialer, struct candidate *c, enum banyan_status status,
                         const char *reason, uint64_t pause) {
  char address[BY_ADDRESS_TEXT];
  bool named = strstr(reason, by_address_print(&c->to, address)) != NULL;
  c->status = status;
  c->next_at = by_loop_now(dialer->options.loop) + pause;
  snprintf(c->reason, sizeof c->reason, "%s%s%s", named ? "" : address, named ? "" : ": ", reason);
}

/* Ends an attempt with this errno. */
static void fail_attempt(const struct by_dialer *dialer, struct candidate *c, enum banyan_status status, int error) {
  close_attempt(c);
  c->silent = status == BANYAN_ERR_CONNECT && error != ECONNREFUSED;
  note_failure(dialer, c, status, banyan_error_text(), RETRY_MS * BY_MILLISECOND);
}

/* Finishes attempts. All are checked, since they are few. */
static void finish_attempts(void *context, uint32_t events) {
  struct by_dialer *dialer = context;
  for (uint32_t i = 0; i < dialer->n_candidates; i++) {
    struct candidate *c = &dialer->candidates[i];
    bool done = false;
    if (c->attempt != TRYING) continue;
    enum banyan_status status = by_socket_connect_finish(c->fd, &c->to, &done);
    if (status != BANYAN_OK) {
      fail_attempt(dialer, c, status, errno);
    } else if (done && !c->renewed && by_socket_connected_late(c->fd)) {
      c->renewed = true;
      close_attempt(c);
      start_attempt(dialer, c);
    } else if (done) {
      set_attempt(c, CONNECTED);
    }
  }
  advance_dialer(dialer);
}

static void start_attempt(struct by_dialer *dialer, struct candidate *c) {
  struct by_loop *loop = dialer->options.loop;
  uint64_t now = by_loop_now(loop);
  enum banyan_status status = by_socket_connect_start(&c->to, &c->fd);
  c->late_at = now + ANSWER_MS * BY_MILLISECOND;
  dialer->started_at = now;
  if (status == BANYAN_OK) {
    c->watch = NULL;
    set_attempt(c, TRYING);
    status = by_loop_watch(loop, c->fd, EPOLLOUT, finish_attempts, dialer, &c->watch);
  }
  if (status != BANYAN_OK) fail_attempt(dialer, c, status, errno);
}

static bool is_under_way(const struct by_dialer *dialer) {
  for (uint32_t i = 0; i < dialer->n_candidates; i++)
    if (dialer->candidates[i].attempt == TRYING) return true;
  return false;
}

/* The candidate that has waited longest. */
static struct candidate *next_due(struct by_dialer *dialer) {
  struct candidate *found = NULL;
  uint64_t now = by_loop_now(dialer->options.loop);
  for (uint32_t i = 0; i < dialer->n_candidates; i++) {
    struct candidate *c = &dialer->candidates[i];
    if (c->attempt == RESTING && c->next_at <= now && (!found || c->next_at < found->next_at)) found = c;
  }
  return found;
}

static void start_due_attempts(struct by_dialer *dialer) {
  struct candidate *c;
  while ((!is_under_way(dialer) ||
          by_loop_now(dialer->options.loop) - dialer->started_at >= STAGGER_MS * BY_MILLISECOND) &&
         (c = next_due(dialer)))
    start_attempt(dialer, c);
}

static void hand_over(struct by_dialer *dialer) {
  for (uint32_t i = 0; i < dialer->n_candidates && !dialer->held; i++) {
    struct candidate *c = &dialer->candidates[i];
    if (c->attempt != CONNECTED) continue;
    set_attempt(c, HELD);
    dialer->held = c;
    dialer->options.connected(dialer->options.context, c->fd, &c->to);
  }
}

/* ---- names */

/* Adds a candidate unless its address is known. */
static void add_candidate(struct by_dialer *dialer, uint32_t target, const struct by_address *to) {
  for (uint32_t i = 0; i < dialer->n_candidates; i++)
    if (!by_address_compare(&dialer->candidates[i].to, to)) return;
  if (dialer->n_candidates == MAX_ADDRESSES) return;
  dialer->candidates[dialer->n_candidates++] = (struct candidate){.to = *to, .target = target};
}

/* Removes addresses that a name no longer has, unless they are in use. Not from within `connected`. */
static void drop_outdated(struct by_dialer *dialer, uint32_t target, const struct by_address *now, size_t n) {
  for (uint32_t i = dialer->n_candidates; i-- > 0;) {
    struct candidate *c = &dialer->candidates[i];
    bool stays = c->target != target || c->attempt != RESTING;
    for (size_t k = 0; k < n && !stays; k++) stays = !by_address_compare(&now[k], &c->to);
    if (stays || dialer->held) continue;
    memmove(c, c + 1, (--dialer->n_candidates - i) * sizeof *c);
  }
}

static void take_answer(struct by_dialer *dialer, uint32_t index) {
  struct target *target = &dialer->targets[index];
  struct by_address found[MAX_ADDRESSES];
  uint64_t now = by_loop_now(dialer->options.loop);
  size_t n = 0;
  bool done;
  enum banyan_status status = by_resolving_look(target->resolving, found, MAX_ADDRESSES, &n, &done);
  if (!done) return;
  by_resolving_destroy(target->resolving);
  target->resolving = NULL;
  target->look_up_at = now + (status == BANYAN_OK ? KNOWN_MS : UNKNOWN_MS) * BY_MILLISECOND;
  snprintf(target->error, sizeof target->error, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  if (status == BANYAN_OK) drop_outdated(dialer, index, found, n);
  for (size_t i = 0; i < n; i++) add_candidate(dialer, index, &found[i]);
}

static void look_names_up(struct by_dialer *dialer) {
  uint64_t now = by_loop_now(dialer->options.loop);
  for (uint32_t i = 0; i < dialer->n_targets; i++) {
    struct target *target = &dialer->targets[i];
    if (target->resolving) {
      take_answer(dialer, i);
    } else if (now >= target->look_up_at && by_resolving_start(target->text, 0, &target->resolving) != BANYAN_OK) {
      snprintf(target->error, sizeof target->error, "%s", banyan_error_text());
      target->look_up_at = now + UNKNOWN_MS * BY_MILLISECOND;
    }
  }
}

/* ---- the whole */

static void advance_dialer(struct by_dialer *dialer) {
  if (dialer->busy) return;
  dialer->busy = true;
  if (!dialer->held) hand_over(dialer);
  if (!dialer->held) start_due_attempts(dialer);
  dialer->busy = false;
}

static void step_on_timer(void *context) {
  struct by_dialer *dialer = context;
  by_loop_set_delay(dialer->options.loop, &dialer->tick, TICK_MS * BY_MILLISECOND);
  if (!dialer->held) look_names_up(dialer);
  for (uint32_t i = 0; i < dialer->n_candidates; i++) {
    struct candidate *c = &dialer->candidates[i];
    if (c->attempt == TRYING && by_loop_now(dialer->options.loop) >= c->late_at)
      fail_attempt(dialer, c, by_fail(BANYAN_ERR_CONNECT, "no answer within %d s", ANSWER_MS / 1000), ETIMEDOUT);
  }
  advance_dialer(dialer);
}

/* Copies the next target of "a:1,b:2#fingerprint" to `out`; false: there is none. */
static bool next_target(const char **list, char *out) {
  size_t length = strcspn(*list, ",#");
  if (!**list || **list == '#') return false;
  snprintf(out, TARGET_BYTES, "%.*s", (int)length, *list);
  *list += length + ((*list)[length] == ',');
  return true;
}

bool by_dialer_fingerprint(const char *targets, struct by_fingerprint *out) {
  const char *mark = strchr(targets, '#');
  return mark && by_fingerprint_parse(mark + 1, out);
}

enum banyan_status by_dialer_check(const char *targets, int *port) {
  char text[TARGET_BYTES], host[BY_HOST_TEXT];
  int n = 0, one = 0;
  struct by_fingerprint fingerprint;
  if (!*targets || *targets == '#') return by_fail(BANYAN_ERR_PARSE, "it is empty: write host:port");
  if (strchr(targets, '#') && !by_dialer_fingerprint(targets, &fingerprint))
    return by_fail(BANYAN_ERR_PARSE, "what follows its # is no fingerprint of 64 hexadecimal digits");
  for (const char *rest = targets; next_target(&rest, text); n++) {
    if (n == MAX_TARGETS) return by_fail(BANYAN_ERR_PARSE, "it has more than %d places", MAX_TARGETS);
    BY_TRY(by_address_split(text, host, &one));
    if (n == 0) *port = one;
  }
  return BANYAN_OK;
}

enum banyan_status by_dialer_create(const struct by_dialer_options *options, struct by_dialer **out) {
  int port;
  BY_TRY(by_dialer_check(options->targets, &port));
  struct by_dialer *dialer = calloc(1, sizeof *dialer);
  if (!dialer) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for connecting to %s", options->targets);
  dialer->options = *options;
  dialer->options.targets = NULL;
  dialer->begun_at = by_loop_now(options->loop);
  by_timer_init(&dialer->tick, step_on_timer, dialer);
  for (const char *rest = options->targets; next_target(&rest, dialer->targets[dialer->n_targets].text);) {
    struct target *target = &dialer->targets[dialer->n_targets];
    struct by_address address;
    if (by_address_parse(target->text, &address) == BANYAN_OK) {
      target->look_up_at = UINT64_MAX;
      add_candidate(dialer, dialer->n_targets, &address);
    }
    dialer->n_targets++;
  }
  by_loop_set_delay(options->loop, &dialer->tick, 0);
  *out = dialer;
  return BANYAN_OK;
}

void by_dialer_destroy(struct by_dialer *dialer) {
  if (!dialer) return;
  by_loop_cancel_timer(&dialer->tick);
  for (uint32_t i = 0; i < dialer->n_candidates; i++) close_attempt(&dialer->candidates[i]);
  for (uint32_t i = 0; i < dialer->n_targets; i++) by_resolving_destroy(dialer->targets[i].resolving);
  free(dialer);
}

void by_dialer_failed(struct by_dialer *dialer, enum banyan_status status, const char *reason, uint64_t pause) {
  struct candidate *c = dialer->held;
  if (!c) return;
  dialer->held = NULL;
  set_attempt(c, RESTING);
  c->silent = false;
  note_failure(dialer, c, status, reason, pause);
  advance_dialer(dialer);
}

void by_dialer_keep(struct by_dialer *dialer) {
  for (uint32_t i = 0; i < dialer->n_candidates; i++) close_attempt(&dialer->candidates[i]);
}

/* A silent address is given up if another address has answered, sooner than if all were silent. If no process listens
 * at an address it may be starting, and the one that answered may belong to another job. */
enum banyan_status by_dialer_refusal(const struct by_dialer *dialer) {
  enum banyan_status refusal = BANYAN_OK;
  bool long_ago = by_loop_now(dialer->options.loop) - dialer->begun_at >= SILENT_MS * BY_MILLISECOND;
  if (dialer->held) return BANYAN_OK;
  for (uint32_t i = 0; i < dialer->n_targets; i++) {
    bool is_name = dialer->targets[i].look_up_at != UINT64_MAX;
    bool found = false;
    for (uint32_t k = 0; k < dialer->n_candidates && !found; k++) found = dialer->candidates[k].target == i;
    if (is_name && !found) return BANYAN_OK;
  }
  for (uint32_t i = 0; i < dialer->n_candidates; i++) {
    const struct candidate *c = &dialer->candidates[i];
    bool may_pass = c->status == BANYAN_OK || c->status == BANYAN_ERR_CONNECT || c->status == BANYAN_ERR_PEER_DEAD ||
                    c->status == BANYAN_ERR_TIMEOUT;
    if (!may_pass)
      refusal = refusal ? refusal : c->status;
    else if (!c->silent || !long_ago)
      return BANYAN_OK;
  }
  return refusal;
}

/* Prints a candidate's failure. If a name has an address of this host, that is a common cause of jobs that do not
 * start. */
static void print_candidate(const struct by_dialer *dialer, const struct candidate *c, struct by_text *out) {
  const struct target *target = &dialer->targets[c->target];
  char address[BY_ADDRESS_TEXT];
  if (target->look_up_at != UINT64_MAX)
    by_text_add(out, "%s means %s%s: ", target->text, by_address_print(&c->to, address),
                by_address_is_loopback(&c->to) ? ", which is this machine itself" : "");
  by_text_add(out, "%s", c->reason[0] ? c->reason : "not tried yet");
}

void by_dialer_print(const struct by_dialer *dialer, size_t max, struct by_text *out) {
  size_t begin = out->length;
  uint32_t left = 0;
  for (uint32_t i = 0; i < dialer->n_targets + dialer->n_candidates; i++) {
    const struct target *target = i < dialer->n_targets ? &dialer->targets[i] : NULL;
    struct by_text one;
    by_text_init(&one);
    if (!target)
      print_candidate(dialer, &dialer->candidates[i - dialer->n_targets], &one);
    else if (target->error[0])
      by_text_add(&one, "%s: %s", target->text, target->error);
    bool first = out->length == begin, fits = first || out->length - begin + one.length <= max;
    if (one.length && fits) by_text_add(out, "%s%s", first ? "" : "; ", by_text_get(&one));
    left += !fits;
    by_text_fini(&one);
  }
  if (left) by_text_add(out, "; and %u more", left);
}
