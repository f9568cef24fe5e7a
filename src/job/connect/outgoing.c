/* Outgoing connections: the attempts to reach one process, over its addresses one after the other, and each attempt
 * from connecting to the end of its handshake. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "descriptor.h"
#include "job_state.h"
#include "key_ring.h"
#include "log.h"
#include "socket.h"

enum {
  OTHER_MS = 1000, /* Time for a further connection of a link, before another address is tried. */
  STAGGER_MS = 100,
  LACKING_S = 5,     /* Time without descriptors: the program may close some. */
  VERDICT_MS = 1000, /* Wait for rank 0's verdict: longer than control waits for the name of a dead rank. */
  SILENT_MS = 6000   /* Wait for rank 0's verdict on a helper: longer than rank 0 waits for its sign of life. */
};

/* One address that is being tried, or a local socket. */
struct attempt {
  LIST_ENTRY(attempt) entry;
  struct by_connect_target *target;
  struct by_address to;
  struct by_watch *watch;
  struct by_greet *greet;
  struct by_timer late; /* For later connections: when it expires, the first one's address is tried. */
  int fd;
  uint64_t connected_at;
  uint32_t lane;           /* Lane of the link; all attempts for lane 0 race. */
  bool connected, greeted; /* connected: it waits for its turn to shake hands. */
  bool renewed;            /* Its turn came late, so the connection was made anew. */
};

/* ---- one attempt */

static void free_attempt(struct attempt *attempt) {
  LIST_REMOVE(attempt, entry);
  attempt->target->open--;
  by_greet_cancel(attempt->greet);
  by_loop_unwatch(attempt->watch);
  by_loop_cancel_timer(&attempt->late);
  if (attempt->fd >= 0) by_close(attempt->fd);
  free(attempt);
}

static void greet_attempt(struct attempt *attempt, bool local);
static void connect_attempt(struct attempt *attempt, const struct by_address *to);
static void retry_lane(struct by_connect_target *target, uint32_t lane);
static void connect_lane(struct by_connect_target *target, uint32_t lane, const struct by_address *to);
static void try_next(struct by_connect_target *target);
static struct by_address address_after(const struct by_connect_target *target, uint32_t places);
static void note_status(struct by_connect_target *target, enum banyan_status status);

static void renew(struct attempt *attempt) {
  struct by_loop *loop = attempt->target->connector->job->loop;
  by_close(attempt->fd);
  attempt->fd = -1;
  attempt->connected = false;
  by_loop_set_delay(loop, &attempt->late, GREET_S * BY_SECOND);
  connect_attempt(attempt, &attempt->to);
}

/* Begins the handshake. The other end closes connections without a greeting after GREET_S, so one that has waited for
 * long is made anew. */
static void take_turn(struct attempt *attempt) {
  if (by_loop_now(attempt->target->connector->job->loop) - attempt->connected_at < GREET_S * BY_SECOND / 2)
    greet_attempt(attempt, false);
  else
    renew(attempt);
}

static void attempt_failed(struct attempt *attempt, enum banyan_status status) {
  struct by_connect_target *target = attempt->target;
  if (attempt->greeted) target->greeting = false;
  bool closed = attempt->greeted && (status == BANYAN_ERR_TIMEOUT || status == BANYAN_ERR_PEER_DEAD);
  bool own = status == BANYAN_ERR_SYSTEM; /* This process lacks a resource, which the program may free. */
  note_status(target, status);
  if (closed || own) target->again = true;
  snprintf(target->last_error, sizeof target->last_error, "%s", banyan_error_text());
  by_debug("net", "trying %s: %s", by_job_name(target->connector->job, target->process), target->last_error);
  uint32_t lane = attempt->lane;
  bool at_winner = lane && by_address_compare(&attempt->to, &target->winner) == 0;
  free_attempt(attempt);
  if (lane && at_winner && (closed || own)) {
    retry_lane(target, lane);
    return;
  }
  if (lane && at_winner) by_target_fail(target, "the first connection was taken, a further one was not");
  if (lane && !at_winner) connect_lane(target, lane, &target->winner);
  if (lane) return;
  struct attempt *other;
  LIST_FOREACH(other, &target->attempts, entry) {
    if (target->greeting || !other->connected || other->greeted) continue;
    take_turn(other);
    return;
  }
  try_next(target);
}

/* Handles a new connection of the link. The address of the first one is used for the others. */
static void connected_lane(struct attempt *attempt, const struct by_greeted *greeted) {
  struct by_connect_target *target = attempt->target;
  struct by_link_hello ours = {.lane = (uint8_t)attempt->lane, .lanes = (uint8_t)target->lanes};
  bool first = !attempt->lane;
  if (first) target->winner = attempt->to;
  free_attempt(attempt);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (first && !LIST_EMPTY(&target->attempts)) free_attempt(LIST_FIRST(&target->attempts));
  by_loop_cancel_timer(&target->stagger);
  if (by_target_add_connection(target, &ours, greeted)) {
    by_target_finish(target);
    return;
  }
  for (uint32_t i = 1; first && i < target->lanes && target->state == BY_TARGET_CONNECTING; i++) {
    struct by_address to = address_after(target, i);
    connect_lane(target, i, &to);
  }
}

static void attempt_greeted(void *context, enum banyan_status status, const struct by_greeted *greeted) {
  struct attempt *attempt = context;
  struct by_connect_target *target = attempt->target;
  struct by_link_hello theirs = {0};
  attempt->greet = NULL;
  attempt->fd = greeted->fd;
  if (status == BANYAN_OK) status = by_hello_read(target->connector->job, greeted->hello, greeted->length, &theirs);
  if (status == BANYAN_OK && theirs.from != target->process)
    status = by_fail(BANYAN_ERR_CONNECT, "rank %u answered there", theirs.from);
  if (status != BANYAN_OK) {
    by_tls_destroy(greeted->tls);
    attempt_failed(attempt, status);
    return;
  }
  attempt->fd = -1;
  if ((greeted->purpose & ~BY_PURPOSE_HELPER) == PURPOSE_TCP) {
    connected_lane(attempt, greeted);
    return;
  }
  by_target_finish(target);
  by_incoming_exchange(target, greeted->fd);
}

static void greet_attempt(struct attempt *attempt, bool local) {
  struct by_connector *connector = attempt->target->connector;
  struct by_connect_target *target = attempt->target;
  struct by_job_keys keys;
  uint8_t hello[HELLO],
      lanes = attempt->lane ? (uint8_t)target->lanes : by_connector_lanes_to(connector->job, &attempt->to);
  attempt->greeted = target->greeting = true;
  if (!attempt->lane) target->lanes = local ? 1 : lanes;
  by_hello_write(&(struct by_link_hello){.from = connector->job->rank,
                                         .to = target->process,
                                         .lane = (uint8_t)attempt->lane,
                                         .lanes = (uint8_t)target->lanes,
                                         .membership = connector->job->membership},
                 hello);
  by_greet_get_keys(connector, target->process, &keys);
  struct by_greet_options options = {
      .loop = connector->job->loop,
      .fd = attempt->fd,
      .packets = local,
      .timeout = GREET_S * BY_SECOND,
      .handshake = {.role = BY_ROLE_CLIENT,
                    .purpose = (local ? PURPOSE_LOCAL : PURPOSE_TCP) | keys.purpose,
                    .identity = connector->job->identity,
                    .encryption = local ? BY_ENCRYPT_OFF : by_encryption_of(connector->job->settings.encrypt),
                    .expected = &connector->job->members[target->process].fingerprint,
                    .hello = hello,
                    .hello_length = sizeof hello},
      .done = attempt_greeted,
      .context = attempt};
  attempt->fd = -1;
  by_job_keys_use(&keys, false, &options.handshake);
  enum banyan_status status = by_greet_start(&options, &attempt->greet);
  explicit_bzero(&keys, sizeof keys);
  if (status != BANYAN_OK) attempt_failed(attempt, status);
}

static void attempt_writable(void *context, uint32_t events) {
  struct attempt *attempt = context;
  bool done = false;
  (void)events;
  enum banyan_status status = by_socket_connect_finish(attempt->fd, &attempt->to, &done);
  if (status == BANYAN_OK && !done) return;
  by_loop_unwatch(attempt->watch);
  attempt->watch = NULL;
  if (status != BANYAN_OK) {
    attempt_failed(attempt, status);
    return;
  }
  if (!attempt->renewed && by_socket_connected_late(attempt->fd)) {
    attempt->renewed = true;
    renew(attempt);
    return;
  }
  attempt->connected = true;
  attempt->connected_at = by_loop_now(attempt->target->connector->job->loop);
  by_loop_cancel_timer(&attempt->late);
  if (attempt->lane || !attempt->target->greeting) greet_attempt(attempt, false);
}

static void attempt_late(void *context) {
  struct attempt *attempt = context;
  attempt_failed(attempt, by_fail(BANYAN_ERR_CONNECT, "no answer in time"));
}

static struct attempt *new_attempt(struct by_connect_target *target, uint32_t lane) {
  struct attempt *attempt = calloc(1, sizeof *attempt);
  if (!attempt) {
    by_target_broken(target, by_fail(BANYAN_ERR_NO_MEMORY, "out of memory"), "connecting could not begin");
    return NULL;
  }
  *attempt = (struct attempt){.target = target, .fd = -1, .lane = lane};
  by_timer_init(&attempt->late, attempt_late, attempt);
  LIST_INSERT_HEAD(&target->attempts, attempt, entry);
  target->open++;
  return attempt;
}

static void connect_attempt(struct attempt *attempt, const struct by_address *to) {
  struct by_loop *loop = attempt->target->connector->job->loop;
  attempt->to = *to;
  enum banyan_status status = by_socket_connect_start(to, &attempt->fd);
  if (status == BANYAN_OK)
    status = by_loop_watch(loop, attempt->fd, EPOLLOUT, attempt_writable, attempt, &attempt->watch);
  if (status != BANYAN_OK) attempt_failed(attempt, status);
}

static void connect_lane(struct by_connect_target *target, uint32_t lane, const struct by_address *to) {
  struct attempt *attempt = new_attempt(target, lane);
  if (!attempt) return;
  if (by_address_compare(to, &target->winner))
    by_loop_set_delay(target->connector->job->loop, &attempt->late, OTHER_MS * BY_MILLISECOND);
  connect_attempt(attempt, to);
}

static void lane_again(void *context) {
  struct attempt *attempt = context;
  connect_attempt(attempt, &attempt->target->winner);
}

/* Retries a lane: the other end had more connections than it takes at once. The link's timeout ends this. */
static void retry_lane(struct by_connect_target *target, uint32_t lane) {
  struct attempt *attempt = new_attempt(target, lane);
  if (!attempt) return;
  by_timer_init(&attempt->late, lane_again, attempt);
  by_loop_set_delay(target->connector->job->loop, &attempt->late, AGAIN_MS * BY_MILLISECOND);
}

static void connect_local(struct by_connect_target *target) {
  struct attempt *attempt = new_attempt(target, 0);
  if (!attempt) return;
  const char *name = target->connector->job->members[target->process].local;
  enum banyan_status status = by_local_connect(name, &attempt->fd);
  if (status != BANYAN_OK)
    attempt_failed(attempt, status);
  else
    greet_attempt(attempt, true);
}

/* ---- all attempts to reach a process */

static void set_state(struct by_connect_target *target, enum by_target_state to) {
  static const char *const names[] = {"idle", "connecting", "done"};
  assert(to == target->state || to == target->state + 1 || to == BY_TARGET_DONE);
  if (to != target->state)
    by_debug("net", "connecting to %s: %s -> %s", by_job_name(target->connector->job, target->process),
             names[target->state], names[to]);
  target->state = to;
}

void by_target_finish(struct by_connect_target *target) {
  set_state(target, BY_TARGET_DONE);
  by_loop_cancel_timer(&target->stagger);
  by_loop_cancel_timer(&target->timeout);
  by_loop_cancel_timer(&target->lacking);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&target->attempts)) free_attempt(LIST_FIRST(&target->attempts));
  if (target->winner.length) by_target_forget_connections(target); /* The connections that were made from here. */
}

/* Ends the calls here; control then notifies all other ranks, the peer among them. Only helpers connect to helpers: one
 * that cannot reach another helper leaves the job itself, as others may reach that one. If the peer is lost already,
 * the link is not needed. */
static void give_verdict(void *argument) {
  struct by_connect_target *target = argument;
  struct by_job *job = target->connector->job;
  bool own = target->last_status == BANYAN_ERR_SYSTEM; /* It is not the peer's fault. */
  char text[900];
  snprintf(text, sizeof text, "%s has no link to %s: %s", by_job_name(job, job->rank),
           by_job_name(job, target->process), target->last_error);
  by_job_lock(job);
  if (job->left[target->process])
    by_engine_left(job->engine, target->process, true);
  else if (by_engine_peer(job->engine, target->process).attached)
    by_debug("net", "a verdict that came too late: %s", text);
  else if (by_engine_peer(job->engine, target->process).lost)
    by_debug("net", "a verdict on who is lost: %s", text);
  else
    by_engine_fail(job->engine, BANYAN_ERR_CONNECT, own ? job->rank : target->process, text);
  by_job_changed(job);
}

static bool has_left(const struct by_connect_target *target) {
  struct by_job *job = target->connector->job;
  by_job_lock(job);
  bool left = job->left[target->process];
  by_job_unlock(job);
  return left;
}

/* Asks rank 0 whether a helper is alive. */
static bool ask(const struct by_connect_target *target) {
  const struct by_connector_events *events = &target->connector->events;
  return events->ask(events->context);
}

/* Waits for rank 0's verdict. If the process died, or ended because the job failed, rank 0 reports that first. Rank 0
 * may not know yet that a helper's host is gone, so it is asked to find out. */
static void await_verdict(struct by_connect_target *target) {
  const struct by_job *job = target->connector->job;
  by_target_finish(target);
  if (has_left(target)) {
    give_verdict(target);
    return;
  }
  bool asked = target->process >= job->size && ask(target);
  by_loop_set_delay(job->loop, &target->verdict, (asked ? SILENT_MS : VERDICT_MS) * BY_MILLISECOND);
}

void by_connector_left(struct by_connector *connector, uint32_t process) {
  struct by_connect_target *target = connector->targets[process];
  if (!by_timer_is_set(&target->verdict)) return;
  by_loop_cancel_timer(&target->verdict);
  give_verdict(target);
}

void by_target_fail(struct by_connect_target *target, const char *why) {
  char reason[sizeof target->last_error];
  snprintf(reason, sizeof reason, "%s", target->last_error[0] ? target->last_error : why);
  snprintf(target->last_error, sizeof target->last_error,
           "%.300s; check the firewall between the hosts, and set BANYAN_IFACE if the wrong interface was used",
           reason);
  await_verdict(target);
}

static void note_status(struct by_connect_target *target, enum banyan_status status) {
  target->last_status = status;
  if (status != BANYAN_ERR_SYSTEM)
    by_loop_cancel_timer(&target->lacking);
  else if (!by_timer_is_set(&target->lacking))
    by_loop_set_delay(target->connector->job->loop, &target->lacking, LACKING_S * BY_SECOND);
}

static void lacks_for_long(void *context) {
  struct by_connect_target *target = context;
  by_target_finish(target);
  give_verdict(target);
}

void by_target_broken(struct by_connect_target *target, enum banyan_status status, const char *what) {
  target->last_status = status;
  snprintf(target->last_error, sizeof target->last_error, "%s: %s", what, banyan_error_text());
  if (status == BANYAN_ERR_PEER_DEAD) {
    await_verdict(target);
  } else {
    by_target_finish(target);
    give_verdict(target);
  }
}

static bool usable_from_here(const struct by_job *job, const struct by_member *peer, const struct by_address *a) {
  return !by_address_is_loopback(a) || by_member_same_network(peer, &job->members[job->rank]);
}

/* Returns whether an address is of the winner's interface: its loopback, or another family. */
static bool is_like(const struct by_address *a, const struct by_address *b) {
  return by_address_family(a) == by_address_family(b) && by_address_is_loopback(a) == by_address_is_loopback(b) &&
         by_address_is_link_local(a) == by_address_is_link_local(b);
}

static struct by_address address_after(const struct by_connect_target *target, uint32_t places) {
  const struct by_job *job = target->connector->job;
  const struct by_member *peer = &job->members[target->process];
  const struct by_address *usable[BY_MEMBER_ADDRESSES];
  uint32_t n = 0, won = 0;
  for (uint32_t i = 0; i < peer->n_addresses && n < BY_MEMBER_ADDRESSES; i++) {
    const struct by_address *a = &peer->addresses[i];
    if (!usable_from_here(job, peer, a) || !is_like(a, &target->winner)) continue;
    if (by_address_compare(a, &target->winner) == 0) won = n;
    usable[n++] = a;
  }
  return n ? *usable[(won + places) % n] : target->winner;
}

/* Ends a round over all addresses. If a process answered and did not shake hands in time, it is tried again: it may be
 * held up. */
static void end_round(struct by_connect_target *target) {
  if (target->open) return;
  struct by_job *job = target->connector->job;
  if (!target->again) {
    by_target_fail(target, "it offers no address that can be used from here");
    return;
  }
  by_loop_set_delay(job->loop, &target->stagger, AGAIN_MS * BY_MILLISECOND);
  if (target->process >= job->size) (void)!ask(target); /* Rank 0 finds out whether it is stopped. */
}

static void try_next(struct by_connect_target *target) {
  struct by_job *job = target->connector->job;
  const struct by_member *peer = &job->members[target->process];
  if (target->state != BY_TARGET_CONNECTING) return;
  while (target->next_address < peer->n_addresses &&
         !usable_from_here(job, peer, &peer->addresses[target->next_address]))
    target->next_address++;
  if (target->next_address >= peer->n_addresses) {
    end_round(target);
    return;
  }
  const struct by_address *to = &peer->addresses[target->next_address++];
  by_loop_set_delay(job->loop, &target->stagger, STAGGER_MS * BY_MILLISECOND);
  struct attempt *attempt = new_attempt(target, 0);
  if (attempt) connect_attempt(attempt, to);
}

static void begin_round(struct by_connect_target *target) {
  const struct by_job *job = target->connector->job;
  const struct by_member *peer = &job->members[target->process], *self = &job->members[job->rank];
  target->again = false;
  target->next_address = 0;
  if (*peer->local && *self->local && by_member_same_host(peer, self)) {
    target->next_address = UINT32_MAX; /* No addresses are tried: only shared memory is possible. */
    connect_local(target);
  } else {
    try_next(target);
  }
}

static void stagger_over(void *context) {
  struct by_connect_target *target = context;
  if (target->again && !target->open)
    begin_round(target);
  else
    try_next(target);
}

/* Writes a text such as "no connection to 10.0.0.1:4000, [fd00::1]:4000". */
static void describe_tried(const struct by_connect_target *target, char *text, size_t room) {
  const struct by_job *job = target->connector->job;
  const struct by_member *peer = &job->members[target->process];
  char address[BY_ADDRESS_TEXT];
  size_t used = (size_t)snprintf(text, room, "no connection to");
  const char *between = " ";
  for (uint32_t i = 0; i < peer->n_addresses && i < target->next_address; i++) {
    if (!usable_from_here(job, peer, &peer->addresses[i])) continue;
    int n = snprintf(text + used, room - used, "%s%s", between, by_address_print(&peer->addresses[i], address));
    if (n < 0 || (size_t)n >= room - used) break;
    used += (size_t)n;
    between = ", ";
  }
  text[used] = 0;
}

void by_connector_visit_tried(const struct by_connector *connector,
                              void (*visit)(void *context, uint32_t process, uint32_t milliseconds, const char *way),
                              void *context) {
  uint64_t now = by_loop_now(connector->job->loop);
  for (uint32_t p = 0; p < connector->n_targets; p++) {
    const struct by_connect_target *target = connector->targets[p];
    char way[150];
    if (!by_timer_is_set(&target->timeout) || target->again || target->greeting) continue; /* Its host answers. */
    describe_tried(target, way, sizeof way);
    visit(context, p, (uint32_t)((now + TIMEOUT_S * BY_SECOND - target->timeout.at) / BY_MILLISECOND), way);
  }
}

static void timed_out(void *context) {
  struct by_connect_target *target = context;
  char tried[150], why[200];
  describe_tried(target, tried, sizeof tried);
  snprintf(why, sizeof why, "%s within %d s", tried, TIMEOUT_S);
  by_target_fail(target, why);
}

void by_target_begin(struct by_connect_target *target) {
  if (target->state != BY_TARGET_IDLE || by_target_awaits_kept(target)) return;
  set_state(target, BY_TARGET_CONNECTING);
  by_loop_set_delay(target->connector->job->loop, &target->timeout, TIMEOUT_S * BY_SECOND);
  begin_round(target);
}

static void kept_ended(struct by_connect_target *target, bool attached) {
  if (attached)
    by_target_finish(target);
  else
    by_target_begin(target);
}

void by_target_init(struct by_connect_target *target, struct by_connector *connector, uint32_t process) {
  target->connector = connector;
  target->process = process;
  target->kept_ended = kept_ended;
  memset(target->fds, 0xff, sizeof target->fds);
  by_timer_init(&target->stagger, stagger_over, target);
  by_timer_init(&target->timeout, timed_out, target);
  by_timer_init(&target->lacking, lacks_for_long, target);
  by_timer_init(&target->verdict, give_verdict, target);
}

void by_target_fini(struct by_connect_target *target) {
  by_target_forget_kept(target);
  by_target_finish(target);
  by_loop_cancel_timer(&target->verdict);
  by_target_forget_connections(target);
}
