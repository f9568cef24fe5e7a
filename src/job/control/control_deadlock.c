/* Deadlock checks. Every answer becomes a list of calls; sorted by communicator and number, calls that must be alike
 * are adjacent. */
#include "control_deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "job_state.h"
#include "log.h"
#include "socket.h"

enum {
  APART_MS = 10000,  /* A network that heals within this time is not worth a warning. */
  SILENT_MS = 3000,  /* Silence of this length counts if a rank is late. */
  ANSWERS_MS = 1500, /* Time for the answers of ranks. */
  BEGINNING = 256,   /* Bytes of the beginning of an error's text. */
  MOST_CULPRITS = 4,
  MOST_ANSWER = 8 << 20 /* Maximum bytes of an answer. */
};

struct team {
  uint32_t rank, id, members, first, next_call;
  uint32_t plan;    /* The plan's version. */
  const char *name; /* The plan's name, without a NUL, in the answer. */
  size_t name_length;
};

struct called {
  struct team in; /* The team at the rank that made the call. */
  struct by_frame descriptor;
  uint8_t kind;
  uint32_t n_awaited;
  const uint8_t *awaited; /* The awaited processes, in the answer. */
};

enum state { SILENT, AWAY, ANSWERED };

struct by_deadlock_round {
  struct by_job *job;
  uint32_t awaited; /* Answers that have not come yet. */
  struct called *calls;
  size_t n_calls, calls_room;
  struct team *teams;
  size_t n_teams, teams_room;
  struct by_unreached apart; /* The worst reported pair of processes that cannot reach each other. */
  bool late, stalled;
  char passed[BEGINNING], waits_for[BEGINNING];
  struct {
    enum state state;
    uint32_t running; /* Calls in progress at that rank. */
    uint8_t *answer;
  } ranks[];
};

enum banyan_status by_deadlock_round_create(struct by_job *job, struct by_deadlock_round **out) {
  struct by_deadlock_round *round = calloc(1, sizeof *round + job->size * sizeof *round->ranks);
  if (!round) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a deadlock check");
  round->job = job;
  round->awaited = job->size;
  *out = round;
  return BANYAN_OK;
}

void by_deadlock_round_destroy(struct by_deadlock_round *round) {
  if (!round) return;
  for (uint32_t r = 0; r < round->job->size; r++) free(round->ranks[r].answer);
  free(round->calls);
  free(round->teams);
  free(round);
}

bool by_deadlock_round_left(struct by_deadlock_round *round, uint32_t rank) {
  if (round->ranks[rank].state == SILENT) {
    round->ranks[rank].state = AWAY;
    round->awaited--;
  }
  return round->awaited == 0;
}

void by_deadlock_round_late(struct by_deadlock_round *round, const char *passed, const char *awaited) {
  if (round->late) return;
  round->late = true;
  snprintf(round->passed, sizeof round->passed, "%s", passed);
  snprintf(round->waits_for, sizeof round->waits_for, "%s", awaited);
}

void by_deadlock_round_stalled(struct by_deadlock_round *round, const char *waits) {
  if (round->late || round->stalled) return;
  round->stalled = true;
  snprintf(round->passed, sizeof round->passed, "%s", waits);
}

/* ---- one check: reading answers */

static bool read_call(struct by_deadlock_round *round, struct by_reader *reader, const struct team *in) {
  if (!BY_ARRAY_GROW(&round->calls, &round->calls_room, round->n_calls + 1)) return false;
  struct called *c = &round->calls[round->n_calls];
  *c = (struct called){.in = *in};
  c->descriptor.call = by_read_u32(reader);
  c->kind = by_read_u8(reader);
  c->descriptor.collective = by_read_u8(reader);
  c->descriptor.dtype_op = by_read_u8(reader);
  c->descriptor.root = by_read_u32(reader);
  c->descriptor.count = by_read_u64(reader);
  c->descriptor.plan = by_read_u32(reader);
  c->n_awaited = by_read_count(reader, sizeof(uint32_t));
  c->awaited = by_read_bytes(reader, sizeof(uint32_t) * c->n_awaited);
  if (reader->failed) return false;
  round->n_calls++;
  if (c->kind != BY_DESCRIBED_ENDED) round->ranks[in->rank].running++;
  return true;
}

static bool read_team(struct by_deadlock_round *round, struct by_reader *reader, uint32_t rank) {
  if (!BY_ARRAY_GROW(&round->teams, &round->teams_room, round->n_teams + 1)) return false;
  struct team d = {.rank = rank};
  d.id = by_read_u32(reader);
  d.members = by_read_u32(reader);
  d.first = by_read_u32(reader);
  d.next_call = by_read_u32(reader);
  d.plan = by_read_u32(reader);
  d.name = (const char *)by_read_blob(reader, &d.name_length);
  round->teams[round->n_teams++] = d;
  uint32_t n = by_read_count(reader, 27);
  for (uint32_t i = 0; i < n; i++)
    if (!read_call(round, reader, &d)) return false;
  return !reader->failed;
}

bool by_deadlock_round_answer(struct by_deadlock_round *round, uint32_t rank, const void *answer, size_t length) {
  struct by_reader reader;
  if (round->ranks[rank].state != SILENT) return round->awaited == 0;
  round->ranks[rank].state = ANSWERED;
  round->awaited--;
  bool well = length <= MOST_ANSWER;
  round->ranks[rank].answer = well ? malloc(length + 1) : NULL;
  if (well && !round->ranks[rank].answer) return round->awaited == 0;
  if (well) memcpy(round->ranks[rank].answer, answer, length);
  by_reader_init(&reader, round->ranks[rank].answer, well ? length : 0);
  uint32_t n = by_read_count(&reader, 28);
  for (uint32_t i = 0; i < n && well; i++) well = read_team(round, &reader, rank);
  /* The processes that cannot be reached follow the groups; absent: all can be reached. */
  if (well) well = by_unreached_read(&reader, rank, round->job->processes, &round->apart);
  if (!well) by_warn("control", "%s: malformed answer; ignored", by_job_name(round->job, rank));
  return round->awaited == 0;
}

/* ---- one check: judging */

static int compare_teams(const struct team *a, const struct team *b) {
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  if (a->members != b->members) return a->members < b->members ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

static int by_doc_path(const void *a, const void *b) {
  const struct called *x = a, *y = b;
  bool x_pair = x->kind == BY_DESCRIBED_PAIR, y_pair = y->kind == BY_DESCRIBED_PAIR;
  if (x_pair != y_pair) return x_pair ? 1 : -1;
  int order = compare_teams(&x->in, &y->in);
  if (order) return order;
  if (x->descriptor.call != y->descriptor.call) return x->descriptor.call < y->descriptor.call ? -1 : 1;
  return x->in.rank < y->in.rank ? -1 : x->in.rank > y->in.rank;
}

static bool differ(const struct called *a, const struct called *b) {
  if (b->kind == BY_DESCRIBED_PAIR || compare_teams(&a->in, &b->in) || a->descriptor.call != b->descriptor.call)
    return false;
  return a->descriptor.collective != b->descriptor.collective || a->descriptor.dtype_op != b->descriptor.dtype_op ||
         a->descriptor.root != b->descriptor.root || a->descriptor.count != b->descriptor.count ||
         a->descriptor.plan != b->descriptor.plan;
}

/* Returns the plan's name. NULL: the call was made under an earlier plan. */
static const char *name_plan(const struct called *call, char *text, size_t room) {
  if (call->descriptor.plan != call->in.plan) return NULL;
  snprintf(text, room, "%.*s", (int)call->in.name_length, call->in.name);
  return text;
}

static bool find_difference(const struct by_deadlock_round *round, uint32_t *culprit, char *text, size_t room) {
  if (round->n_calls) qsort(round->calls, round->n_calls, sizeof *round->calls, by_doc_path);
  for (size_t i = 1; i < round->n_calls; i++) {
    const struct called *a = &round->calls[i - 1], *b = &round->calls[i];
    if (!differ(a, b)) continue;
    char plans[2][BY_PLAN_MAX_NAME + 1];
    struct by_differing one = {by_job_name(round->job, a->in.rank), &a->descriptor,
                               name_plan(a, plans[0], sizeof plans[0])};
    struct by_differing other = {by_job_name(round->job, b->in.rank), &b->descriptor,
                                 name_plan(b, plans[1], sizeof plans[1])};
    by_engine_differ_text(&one, &other, text, room);
    *culprit = b->in.rank;
    return true;
  }
  return false;
}

/* Returns whether a rank that answered has made this collective call. */
static bool has_made(const struct by_deadlock_round *round, uint32_t rank, const struct called *call) {
  if (call->kind == BY_DESCRIBED_PAIR) return round->ranks[rank].running > 0;
  for (size_t i = 0; i < round->n_teams; i++) {
    const struct team *d = &round->teams[i];
    if (d->rank == rank && !compare_teams(d, &call->in)) return d->next_call > call->descriptor.call;
  }
  return false;
}

/* Why others wait for a rank; the first that occurs is the reason. */
enum fault { STOPPED, GONE, IDLE, ELSEWHERE, NONE };

static enum fault fault_of(const struct by_deadlock_round *round, uint32_t rank, const struct called *call) {
  if (rank >= round->job->size) return NONE;
  if (round->ranks[rank].state == SILENT) return STOPPED;
  if (round->ranks[rank].state == AWAY) return GONE;
  if (has_made(round, rank, call)) return NONE;
  return round->ranks[rank].running ? ELSEWHERE : IDLE;
}

/* Texts for each fault. `%s`: the call. */
static const char *const reasons[] = {
    "which does not answer: is it stopped, or its machine overloaded?",
    "which has left",
    "which has not made %s: is it slow, or does it not make it at all?",
    "which waits in another call and has not made %s: do all ranks make their calls in the same order?",
};

/* Ranks for which others wait, with the same fault. */
struct culprits {
  enum fault fault;
  uint32_t n, ranks[MOST_CULPRITS];
  const struct called *call; /* The call that the first of them lacks; NULL: no call waits. */
};

/* Lists silent ranks, for when no call waits, as where operations are submitted: a rank that does not answer is the
 * reason. */
static void list_silent(const struct by_deadlock_round *round, struct culprits *out) {
  for (uint32_t r = 0; r < round->job->size && out->n < MOST_CULPRITS; r++)
    if (round->ranks[r].state == SILENT) out->ranks[out->n++] = r;
  if (out->n) out->fault = STOPPED;
}

static void find_culprits(const struct by_deadlock_round *round, struct culprits *out) {
  *out = (struct culprits){.fault = NONE};
  for (size_t i = 0; i < round->n_calls; i++) {
    const struct called *call = &round->calls[i];
    for (uint32_t j = 0; call->kind != BY_DESCRIBED_ENDED && j < call->n_awaited; j++) {
      uint32_t rank = by_get_u32(call->awaited + sizeof(uint32_t) * j);
      enum fault fault = fault_of(round, rank, call);
      if (fault < out->fault) *out = (struct culprits){.fault = fault, .call = call};
      bool known = fault != out->fault || out->fault == NONE;
      for (uint32_t k = 0; k < out->n; k++) known |= out->ranks[k] == rank;
      if (!known && out->n < MOST_CULPRITS) out->ranks[out->n++] = rank;
    }
  }
  if (!out->n) list_silent(round, out);
}

/* Adds those ranks, and why others wait for them. The call that they lack may differ from the reported one. */
static void add_culprits(const struct by_deadlock_round *round, const struct culprits *culprits, char *text,
                         size_t room) {
  char call[200] = "this call";
  int used = 0;
  for (uint32_t k = 0; k < culprits->n && (size_t)used < room; k++)
    used += snprintf(text + used, room - (size_t)used, "%s, ", by_job_name(round->job, culprits->ranks[k]));
  if (culprits->call) by_engine_call_text(&culprits->call->descriptor, call, sizeof call);
  if (strstr(round->passed, call)) snprintf(call, sizeof call, "this call");
  if (culprits->n && (size_t)used < room) snprintf(text + used, room - (size_t)used, reasons[culprits->fault], call);
}

static void name_late(const struct by_deadlock_round *round, uint32_t *culprit, char *text, size_t room) {
  struct culprits culprits;
  find_culprits(round, &culprits);
  *culprit = culprits.n ? culprits.ranks[0] : UINT32_MAX;
  int used = snprintf(text, room, "%s while waiting for %s", round->passed, culprits.n ? "" : round->waits_for);
  if ((size_t)used < room) add_culprits(round, &culprits, text + used, room - (size_t)used);
}

bool by_deadlock_round_report(const struct by_deadlock_round *round, char *text, size_t room) {
  struct culprits culprits;
  if (!round->stalled) return false;
  find_culprits(round, &culprits);
  int used = snprintf(text, room, "%s for ", round->passed);
  if ((size_t)used < room) add_culprits(round, &culprits, text + used, room - (size_t)used);
  return culprits.n > 0;
}

/* Finds two processes that cannot reach each other though both still answer: the worst reported pair, if nothing
 * has passed for at least `least` milliseconds, or large packets are lost. Sets one of them and the text, which
 * names both. */
static bool find_apart(const struct by_deadlock_round *round, uint32_t least, uint32_t *culprit, char *text,
                       size_t room) {
  const struct by_unreached *apart = &round->apart;
  bool answers =
      apart->to >= round->job->size || round->ranks[apart->to].state == ANSWERED; /* Otherwise it is stopped or gone. */
  if (!apart->packet && (!apart->milliseconds || apart->milliseconds < least || !answers)) return false;
  by_unreached_print(apart, round->job, text, room);
  *culprit = apart->to;
  return true;
}

enum banyan_status by_deadlock_round_judge(const struct by_deadlock_round *round, uint32_t *culprit, char *text,
                                           size_t room) {
  if (find_difference(round, culprit, text, room)) return BANYAN_ERR_MISMATCH;
  if (!round->late) return BANYAN_OK;
  int used = snprintf(text, room, "%s: ", round->passed);
  if ((size_t)used < room && find_apart(round, SILENT_MS, culprit, text + used, room - (size_t)used))
    return BANYAN_ERR_CONNECT;
  name_late(round, culprit, text, room);
  return BANYAN_ERR_TIMEOUT;
}

/* ---- over the control connections */

/* Logs a report. Each waiting rank asks, but one report per period is enough. */
static void report(struct by_deadlock_check *check, const char *text) {
  const struct by_job *job = check->peers->job;
  uint64_t now = by_loop_now(job->loop), stall = by_clock_from_seconds(job->settings.stall);
  if (!stall || (check->reported && now - check->reported < stall - stall / 8)) return;
  check->reported = now;
  by_warn("control", "%s", text);
}

/* Gives the verdict, when all have answered or their time is over. */
static void give_verdict(void *context) {
  struct by_deadlock_check *check = context;
  char text[TEXT_MOST];
  uint32_t culprit = UINT32_MAX;
  enum banyan_status status = by_deadlock_round_judge(check->round, &culprit, text, sizeof text);
  bool apart = status == BANYAN_OK && find_apart(check->round, APART_MS, &culprit, text, sizeof text);
  if (apart && !check->apart) by_warn("control", "%s; calls wait for it until their deadline", text);
  check->apart = apart;
  if (status == BANYAN_OK && !apart && by_deadlock_round_report(check->round, text, sizeof text)) report(check, text);
  by_loop_cancel_timer(&check->answers);
  by_deadlock_round_destroy(check->round);
  check->round = NULL;
  if (status != BANYAN_OK) by_deaths_handle_failure(check->deaths, status, culprit, text);
}

/* Returns this rank's own answer, with space for a number before it; the caller frees it. NULL: no memory. */
static uint8_t *describe_self(struct by_deadlock_check *check, size_t *length) {
  struct by_job *job = check->peers->job;
  struct by_writer measure, writer;
  struct by_unreached_list unreached;
  by_unreached_find(check->peers, check->connector, &check->finder, &unreached);
  by_writer_init(&measure, NULL, 0);
  by_job_lock(job);
  by_engine_describe(job->engine, &measure);
  by_unreached_write(&measure, &unreached);
  uint8_t *bytes = malloc(sizeof(uint32_t) + measure.length);
  if (bytes) {
    by_writer_init(&writer, bytes + sizeof(uint32_t), measure.length);
    by_engine_describe(job->engine, &writer);
    by_unreached_write(&writer, &unreached);
  }
  by_job_unlock(job);
  *length = measure.length;
  return bytes;
}

static void notify(const struct by_control_peer *peer, enum message type, const void *bytes, size_t length) {
  if (by_control_peer_try_send(peer, type, bytes, length) != BANYAN_OK)
    by_debug("control", "%s: nothing could be sent: %s", by_stream_get_name(peer->stream), banyan_error_text());
}

/* Suspects dead ranks of this machine. A rank may be dead though its connections are open, if another process holds
 * them, made in a way that fork handlers do not see. A rank that leaves notifies rank 0 before it ends. */
static void suspect_ended(struct by_deadlock_check *check) {
  const struct by_job *job = check->peers->job;
  const char *machine = job->members[job->rank].machine;
  for (uint32_t r = 0; r < job->size; r++) {
    const struct by_member *member = &job->members[r];
    if (r == job->rank || strcmp(member->machine, machine) != 0 || by_control_peers_has_left(check->peers, r)) continue;
    if (!by_process_has_ended((pid_t)member->pid)) continue;
    char text[TEXT_MOST];
    snprintf(text, sizeof text,
             "rank %u (host %s) is gone: its process ended, though another process that it made still "
             "holds its connections",
             r, member->host);
    by_deaths_suspect(check->deaths, r, text);
  }
}

static void answer(struct by_deadlock_check *check, const struct by_control_peer *peer, const void *payload,
                   size_t length) {
  size_t n;
  uint8_t *bytes = length == sizeof(uint32_t) ? describe_self(check, &n) : NULL;
  if (!bytes) return;
  memcpy(bytes, payload, sizeof(uint32_t));
  notify(peer, DESCRIPTION, bytes, sizeof(uint32_t) + n);
  free(bytes);
  suspect_ended(check);
}

static void handle_answer(struct by_deadlock_check *check, struct by_control_peer *peer, const uint8_t *payload,
                          size_t length) {
  size_t skip = sizeof(uint32_t);
  peer->silent = false;
  if (by_control_peers_is_helper(check->peers, peer->rank)) return; /* A helper's answer only shows that it lives. */
  if (!check->round || peer->rank < 0 || length < skip || by_get_u32(payload) != check->rounds) return;
  if (by_deadlock_round_answer(check->round, (uint32_t)peer->rank, payload + skip, length - skip)) give_verdict(check);
}

void by_deadlock_check_left(struct by_deadlock_check *check, uint32_t rank) {
  if (check->round && by_deadlock_round_left(check->round, rank)) give_verdict(check);
}

/* ---- helpers that are stopped: the kernel answers for such a process, so its connections stay */

static bool may_answer(const struct by_control_peers *peers, uint32_t process) {
  const struct by_control_peer *peer = peers->of_process[process];
  return peer && by_control_peer_stays(peer) && !by_control_peers_has_lost(peers, process);
}

static void ask_helpers(struct by_deadlock_check *check) {
  struct by_control_peers *peers = check->peers;
  const struct by_job *job = peers->job;
  uint8_t number[sizeof(uint32_t)];
  by_put_u32(number, check->rounds);
  for (uint32_t p = job->size; p < job->processes; p++) {
    struct by_control_peer *peer = peers->of_process[p];
    if (!may_answer(peers, p) || peer->silent) continue;
    peer->silent = by_control_peer_try_send(peer, DESCRIBE, number, sizeof number) == BANYAN_OK;
    peer->asked_at = by_loop_now(job->loop);
  }
  if (!by_timer_is_set(&check->silence)) by_loop_set_delay(job->loop, &check->silence, SILENCE_MS * BY_MILLISECOND);
}

/* Ends the wait for helpers' answers; those that were asked later have more time. */
static void silence_over(void *argument) {
  struct by_deadlock_check *check = argument;
  struct by_control_peers *peers = check->peers;
  const struct by_job *job = peers->job;
  uint64_t now = by_loop_now(job->loop), next = UINT64_MAX;
  for (uint32_t p = job->size; p < job->processes; p++) {
    if (!may_answer(peers, p) || !peers->of_process[p]->silent) continue;
    uint64_t until = peers->of_process[p]->asked_at + SILENCE_MS * BY_MILLISECOND;
    if (until <= now)
      by_deaths_lose_silent(check->deaths, p);
    else if (until < next)
      next = until;
  }
  if (next != UINT64_MAX) by_loop_set_timer(job->loop, &check->silence, next);
}

/* ---- asking */

static void begin_round(struct by_deadlock_check *check) {
  const struct by_control_peers *peers = check->peers;
  uint8_t number[sizeof(uint32_t)];
  if (by_deadlock_round_create(peers->job, &check->round) != BANYAN_OK) return;
  by_put_u32(number, ++check->rounds);
  for (uint32_t r = 1; r < peers->job->size; r++) {
    const struct by_control_peer *peer = peers->of_process[r];
    if (!peer || !by_control_peer_stays(peer))
      (void)by_deadlock_round_left(check->round, r); /* This rank itself has not answered yet. */
    else
      notify(peer, DESCRIBE, number, sizeof number);
  }
  by_loop_set_delay(peers->job->loop, &check->answers, ANSWERS_MS * BY_MILLISECOND);
}

/* Asks all ranks and helpers. Helpers are asked each time: one that has answered may be gone since. */
static void ask_all(struct by_deadlock_check *check, const char *late, const char *awaited) {
  bool fresh = !check->round;
  if (fresh) {
    suspect_ended(check);
    begin_round(check);
  }
  ask_helpers(check);
  if (check->round && *late) by_deadlock_round_late(check->round, late, awaited);
  if (check->round && !*late && *awaited) by_deadlock_round_stalled(check->round, awaited);
  size_t length;
  uint8_t *own = fresh && check->round ? describe_self(check, &length) : NULL;
  if (own && by_deadlock_round_answer(check->round, 0, own + sizeof(uint32_t), length)) give_verdict(check);
  free(own);
}

void by_deadlock_check_ask(struct by_deadlock_check *check, const char *late, const char *awaited) {
  struct by_control_peers *peers = check->peers;
  uint8_t bytes[2 * TEXT_MOST];
  struct by_writer writer;
  if (check->deaths->spread || atomic_load(&peers->leaving)) return;
  if (by_control_peers_is_root(peers)) {
    ask_all(check, late, awaited);
    return;
  }
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_string(&writer, late);
  by_write_string(&writer, awaited);
  const struct by_control_peer *root = by_control_peers_root(peers);
  if (root && !writer.failed) notify(root, ASK, bytes, writer.length);
  suspect_ended(check); /* Rank 0 may be the dead one. */
}

static void handle_ask(struct by_deadlock_check *check, const struct by_control_peer *peer, const void *payload,
                       size_t length) {
  struct by_reader reader;
  char late[TEXT_MOST], awaited[TEXT_MOST];
  by_reader_init(&reader, payload, length);
  by_read_string(&reader, late, sizeof late);
  by_read_string(&reader, awaited, sizeof awaited);
  if (by_reader_check(&reader, "a question") == BANYAN_OK && peer->rank > 0)
    by_deadlock_check_ask(check, late, awaited);
}

void by_deadlock_check_handle(void *argument, const struct by_received *message) {
  struct by_deadlock_check *check = argument;
  if (message->type == ASK)
    handle_ask(check, message->peer, message->payload, message->length);
  else if (message->type == DESCRIPTION)
    handle_answer(check, message->peer, message->payload, message->length);
  else if (check->peers->job->engine)
    answer(check, message->peer, message->payload, message->length);
}

void by_deadlock_check_init(struct by_deadlock_check *check, struct by_deaths *deaths,
                            const struct by_connector *connector) {
  *check = (struct by_deadlock_check){.peers = deaths->peers, .deaths = deaths, .connector = connector};
  by_large_loss_init(&check->finder, deaths->peers->job->loop);
  by_timer_init(&check->answers, give_verdict, check);
  by_timer_init(&check->silence, silence_over, check);
}

void by_deadlock_check_fini(struct by_deadlock_check *check) {
  by_loop_cancel_timer(&check->answers);
  by_loop_cancel_timer(&check->silence);
  by_large_loss_fini(&check->finder);
  by_deadlock_round_destroy(check->round);
}
