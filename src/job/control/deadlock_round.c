/* Every answer becomes a list of calls; sorted by communicator and number, those that must be alike stand together. */
#include "deadlock_round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum { TEXT = 256, MOST_CULPRITS = 4, WAY = 200, SILENT_MS = 3000 /* counts where somebody is late */ };

struct team {
  uint32_t rank, id, members, first, next_call;
  uint32_t plan;    /* its version */
  const char *name; /* and its name, without an end, in the answer */
  size_t name_length;
};

struct called {
  struct team in; /* of the rank that made it */
  struct by_frame descriptor;
  uint8_t kind;
  uint32_t n_awaited;
  const uint8_t *awaited; /* processes, in the answer */
};

/* The longest silence that was reported. */
struct apart {
  uint32_t from, to, milliseconds;
  char way[WAY];
};

enum state { SILENT, LEFT, ANSWERED };

struct by_deadlock_round {
  struct by_job *job;
  enum state *states; /* rank -> */
  uint32_t *running;  /* rank -> calls under way there */
  uint8_t **answers;
  uint32_t awaited; /* answers still to come */
  struct called *calls;
  size_t n_calls, calls_room;
  struct team *teams;
  size_t n_teams, teams_room;
  struct apart apart;
  bool late;
  char passed[TEXT], waits_for[TEXT];
};

enum banyan_status by_deadlock_round_create(struct by_job *job, struct by_deadlock_round **out) {
  struct by_deadlock_round *round = calloc(1, sizeof *round);
  if (round) {
    round->job = job;
    round->awaited = job->size;
    round->states = calloc(job->size, sizeof *round->states);
    round->running = calloc(job->size, sizeof *round->running);
    round->answers = calloc(job->size, sizeof(uint8_t *));
  }
  if (!round || !round->states || !round->running || !round->answers) {
    by_deadlock_round_destroy(round);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for an inquiry");
  }
  *out = round;
  return BANYAN_OK;
}

void by_deadlock_round_destroy(struct by_deadlock_round *round) {
  if (!round) return;
  for (uint32_t r = 0; round->answers && r < round->job->size; r++) free(round->answers[r]);
  free(round->answers);
  free(round->states);
  free(round->running);
  free(round->calls);
  free(round->teams);
  free(round);
}

bool by_deadlock_round_left(struct by_deadlock_round *round, uint32_t rank) {
  if (round->states[rank] == SILENT) round->awaited--;
  if (round->states[rank] == SILENT) round->states[rank] = LEFT;
  return round->awaited == 0;
}

void by_deadlock_round_late(struct by_deadlock_round *round, const char *passed, const char *awaited) {
  if (round->late) return;
  round->late = true;
  snprintf(round->passed, sizeof round->passed, "%s", passed);
  snprintf(round->waits_for, sizeof round->waits_for, "%s", awaited);
}

/* ---- reading answers */

/* Room for one more element; false: out of memory. */
static bool reserve(void **array, size_t n, size_t *room, size_t element) {
  if (n < *room) return true;
  size_t more = *room ? 2 * *room : 64;
  void *grown = realloc(*array, more * element);
  if (!grown) return false;
  *array = grown;
  *room = more;
  return true;
}

static bool read_call(struct by_deadlock_round *round, struct by_reader *reader, const struct team *in) {
  if (!reserve((void **)&round->calls, round->n_calls, &round->calls_room, sizeof *round->calls)) return false;
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
  if (c->kind != BY_DESCRIBED_ENDED) round->running[in->rank]++;
  return true;
}

static bool read_team(struct by_deadlock_round *round, struct by_reader *reader, uint32_t rank) {
  void **teams = (void **)&round->teams;
  if (!reserve(teams, round->n_teams, &round->teams_room, sizeof *round->teams)) return false;
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

/* Behind the domains; not there: everybody can be reached. */
static bool read_apart(struct by_deadlock_round *round, struct by_reader *reader, uint32_t rank) {
  uint32_t n = by_reader_left(reader) ? by_read_count(reader, 3 * sizeof(uint32_t)) : 0;
  for (uint32_t i = 0; i < n; i++) {
    struct apart apart = {.from = rank, .to = by_read_u32(reader)};
    apart.milliseconds = by_read_u32(reader);
    by_read_string(reader, apart.way, sizeof apart.way);
    if (reader->failed) return false;
    if (apart.to < round->job->processes && apart.milliseconds > round->apart.milliseconds) round->apart = apart;
  }
  return true;
}

bool by_deadlock_round_answer(struct by_deadlock_round *round, uint32_t rank, const void *answer, size_t length) {
  struct by_reader reader;
  if (round->states[rank] != SILENT) return round->awaited == 0;
  round->states[rank] = ANSWERED;
  round->awaited--;
  round->answers[rank] = malloc(length + 1);
  if (!round->answers[rank]) return round->awaited == 0;
  memcpy(round->answers[rank], answer, length);
  by_reader_init(&reader, round->answers[rank], length);
  uint32_t n = by_read_count(&reader, 28);
  bool well = true;
  for (uint32_t i = 0; i < n && well; i++) well = read_team(round, &reader, rank);
  if (well) well = read_apart(round, &reader, rank);
  if (!well) by_warn("control", "%s: malformed answer; ignored", by_job_name(round->job, rank));
  return round->awaited == 0;
}

/* ---- judging */

static int compare_teams(const struct team *a, const struct team *b) {
  if (a->id != b->id) return a->id < b->id ? -1 : 1;
  if (a->members != b->members) return a->members < b->members ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

static int by_place(const void *a, const void *b) {
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

/* NULL: the call was made under an earlier plan. */
static const char *name_plan(const struct called *call, char *text, size_t room) {
  if (call->descriptor.plan != call->in.plan) return NULL;
  snprintf(text, room, "%.*s", (int)call->in.name_length, call->in.name);
  return text;
}

static bool find_difference(const struct by_deadlock_round *round, uint32_t *culprit, char *text, size_t room) {
  if (round->n_calls) qsort(round->calls, round->n_calls, sizeof *round->calls, by_place);
  for (size_t i = 1; i < round->n_calls; i++) {
    const struct called *a = &round->calls[i - 1], *b = &round->calls[i];
    if (!differ(a, b)) continue;
    char plans[2][BY_PLAN_MOST_NAME + 1];
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

/* Whether a rank that answered has made this collective call. */
static bool has_made(const struct by_deadlock_round *round, uint32_t rank, const struct called *call) {
  if (call->kind == BY_DESCRIBED_PAIR) return round->running[rank] > 0;
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
  if (round->states[rank] == SILENT) return STOPPED;
  if (round->states[rank] == LEFT) return GONE;
  if (has_made(round, rank, call)) return NONE;
  return round->running[rank] ? ELSEWHERE : IDLE;
}

static const char *const reasons[] = {
    "which does not answer: is it stopped, or its machine overloaded?",
    "which has left",
    "which has not made this call: is it slow, or does it not make it at all?",
    "which waits in another call and has not made this one: do all ranks make their calls in the same order?",
};

/* No call waits, as where operations are submitted: whoever does not answer is the reason. */
static uint32_t list_silent(const struct by_deadlock_round *round, uint32_t *named) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < round->job->size && n < MOST_CULPRITS; r++)
    if (round->states[r] == SILENT) named[n++] = r;
  return n;
}

static void name_late(const struct by_deadlock_round *round, uint32_t *culprit, char *text, size_t room) {
  enum fault worst = NONE;
  uint32_t named[MOST_CULPRITS], n = 0;
  for (size_t i = 0; i < round->n_calls; i++) {
    const struct called *call = &round->calls[i];
    for (uint32_t j = 0; call->kind != BY_DESCRIBED_ENDED && j < call->n_awaited; j++) {
      uint32_t rank = by_get_u32(call->awaited + sizeof(uint32_t) * j);
      enum fault fault = fault_of(round, rank, call);
      if (fault < worst) n = 0;
      if (fault < worst) worst = fault;
      bool known = fault != worst || worst == NONE;
      for (uint32_t k = 0; k < n; k++) known |= named[k] == rank;
      if (!known && n < MOST_CULPRITS) named[n++] = rank;
    }
  }
  if (!n && (n = list_silent(round, named))) worst = STOPPED;
  *culprit = n ? named[0] : UINT32_MAX;
  int used = snprintf(text, room, "%s while waiting for ", round->passed);
  for (uint32_t k = 0; k < n && (size_t)used < room; k++)
    used += snprintf(text + used, room - (size_t)used, "%s%s", k ? ", " : "", by_job_name(round->job, named[k]));
  if ((size_t)used < room)
    snprintf(text + used, room - (size_t)used, "%s%s", n ? ", " : round->waits_for, n ? reasons[worst] : "");
}

bool by_deadlock_round_find_apart(const struct by_deadlock_round *round, uint32_t least, uint32_t *culprit, char *text,
                                  size_t room) {
  const struct apart *apart = &round->apart;
  if (!apart->milliseconds || apart->milliseconds < least) return false;
  if (apart->to < round->job->size && round->states[apart->to] != ANSWERED) return false; /* stopped, or gone */
  struct by_job *job = round->job;
  snprintf(
      text, room,
      "%s and %s cannot reach each other%s: %s, nothing for %u s; check the network and the firewalls between the two",
      by_job_name(job, apart->from), by_job_name(job, apart->to),
      apart->from && apart->to ? ", though both reach rank 0" : "", apart->way, apart->milliseconds / 1000);
  *culprit = apart->to;
  return true;
}

enum banyan_status by_deadlock_round_judge(const struct by_deadlock_round *round, uint32_t *culprit, char *text,
                                           size_t room) {
  if (find_difference(round, culprit, text, room)) return BANYAN_ERR_MISMATCH;
  if (!round->late) return BANYAN_OK;
  int used = snprintf(text, room, "%s: ", round->passed);
  if ((size_t)used < room && by_deadlock_round_find_apart(round, SILENT_MS, culprit, text + used, room - (size_t)used))
    return BANYAN_ERR_CONNECT;
  name_late(round, culprit, text, room);
  return BANYAN_ERR_TIMEOUT;
}
