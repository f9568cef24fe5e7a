/* Each flow is a stream of messages of one size. Each is answered, and its first byte says how many go when the answer
 * has come: none to two, so that more are under way where answers come soon, and fewer where a way is slower than was
 * expected. Else megabytes would wait in sockets and queues, be lost there and have to drain. The receiver reckons the
 * rate from the messages that arrive while it counts, by its own clock; the sender goes on a little longer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "order.h"
#include "request.h"

/* As many as are allowed may go while as many wait for their answers. */
enum { SLOTS = 2 * BY_MEASURE_DEPTH, LEAST = 2, MOST_MORE = 2 };

enum { METERED = 16, LEAST_METERED = 32 << 10 }; /* bytes: shapers let the first ones through */

static const double still = 0.3; /* of the time: a flow to which nothing comes for so long stands still */

struct stream {
  uint32_t flow; /* its order */
  bool sends;
  uint32_t allowed, due;         /* of a sender: messages that may be under way; that go when all answers have come */
  char *memory;                  /* of a receiver: SLOTS blocks */
  uint64_t before, taken;        /* bytes that the other host had taken of a sender's lanes at first, and now */
  double seen, metered[METERED]; /* bit/s by the kernel, now, and what it said last */
  uint32_t n_metered;
  double took;                    /* seconds of a sender's last message and its answer */
  double from, until, bytes, gap; /* a receiver's time, what came in it, and how long nothing came at most */
};

/* Each slot of a stream holds a message, then its answer. */
struct slot {
  enum { FREE, MESSAGE, ANSWER } holds;
  uint8_t more; /* messages behind the answer */
  char answer;
  double begun;
};

struct session {
  struct banyan_comm *comm, *answers;
  const struct by_experiment *experiment;
  const struct by_flow_order *orders;
  struct stream *streams;
  struct banyan_request **requests; /* SLOTS for each stream, as slots */
  struct slot *slots;
  uint32_t n, open;
  char *blocks; /* what is sent: a block for each number that its first byte may say */
  uint64_t start;
};

static char *memory_of(const struct session *s, uint32_t slot) {
  const struct stream *stream = &s->streams[slot / SLOTS];
  return stream->memory + (size_t)(slot % SLOTS) * s->orders[stream->flow].block;
}

/* ---- what the kernel knows of the ways on which this rank sends: a busy machine may keep ranks from running, but
 * the kernel goes on with what it was given */

static void look_at(void *context, uint32_t process, const struct by_meter *meter) {
  struct session *s = context;
  for (uint32_t i = 0; i < s->n; i++) {
    struct stream *stream = &s->streams[i];
    if (!stream->sends || s->comm->processes[s->orders[stream->flow].to] != process) continue;
    stream->taken += meter->bytes;
    if (meter->full) stream->seen += 8 * (double)meter->rate;
  }
}

/* The kernel knows of what it had last, and small messages seem fast: so it is asked often. */
static void read_meters(struct session *s) {
  if (!s->experiment->one_way) return;
  for (uint32_t i = 0; i < s->n; i++) s->streams[i].taken = 0, s->streams[i].seen = 0;
  by_context_lock(s->comm->context);
  by_engine_meter(s->comm->context->job.engine, look_at, s);
  by_context_unlock(s->comm->context);
  for (uint32_t i = 0; i < s->n; i++) {
    struct stream *stream = &s->streams[i];
    if (!stream->before) stream->before = stream->taken;
    if (stream->seen > 0 && stream->taken - stream->before >= LEAST_METERED)
      stream->metered[stream->n_metered++ % METERED] = stream->seen;
  }
}

/* ---- messages */

/* What the slot holds. */
static enum banyan_status begin(struct session *s, uint32_t slot) {
  const struct stream *stream = &s->streams[slot / SLOTS];
  const struct by_flow_order *order = &s->orders[stream->flow];
  struct slot *at = &s->slots[slot];
  bool answer = at->holds == ANSWER, sends = stream->sends != answer;
  struct banyan_call call = {.collective = sends ? BANYAN_SEND : BANYAN_RECV,
                             .dtype = BANYAN_UINT8,
                             .count = answer ? 1 : order->block,
                             .root = (int)(stream->sends ? order->to : order->from)};
  if (sends)
    call.send = answer ? &at->answer : s->blocks + (size_t)at->more * s->experiment->most_block;
  else
    call.recv = answer ? &at->answer : memory_of(s, slot);
  BY_TRY(banyan_start(answer ? s->answers : s->comm, &call, &s->requests[slot]));
  s->open++;
  return BANYAN_OK;
}

static enum banyan_status begin_messages(struct session *s, uint32_t index, uint32_t n) {
  struct stream *stream = &s->streams[index];
  const struct by_experiment *e = s->experiment;
  for (uint32_t slot = index * SLOTS; slot < (index + 1) * SLOTS && n; slot++) {
    struct slot *at = &s->slots[slot];
    if (at->holds != FREE) continue;
    *at = (struct slot){.holds = MESSAGE, .begun = by_seconds_since(s->start)};
    /* A message that begins to be sent carries how many follow it, so that as many will be in flight as are allowed.
     * These begin when its answer comes, and arrive as much later again. */
    double end = e->warm_up + e->lasts + e->margin - (e->one_way ? 2 * stream->took : 0);
    if (stream->sends && at->begun <= end && stream->due < stream->allowed)
      at->more = (uint8_t)MIN(stream->allowed - stream->due, MOST_MORE);
    stream->due += at->more;
    BY_TRY(begin(s, slot));
    n--;
  }
  return n ? by_fail(BANYAN_ERR_PROTOCOL, "a rank announced more than %d messages while measuring", SLOTS) : BANYAN_OK;
}

/* Answers to messages that went since are still to come, so it stops growing early. */
static void take_answer(const struct session *s, struct stream *stream, const struct slot *at) {
  double took = by_seconds_since(s->start) - at->begun, late = s->experiment->late;
  if (took <= late / 2) stream->allowed = MIN(stream->allowed + 1, s->experiment->depth);
  stream->took = took;
  if (took > late) stream->allowed = MAX(stream->allowed - 1, LEAST);
  stream->due -= at->more;
}

/* What comes behind what has ended in this slot. */
static enum banyan_status go_on(struct session *s, uint32_t slot) {
  struct stream *stream = &s->streams[slot / SLOTS];
  struct slot *at = &s->slots[slot];
  if (at->holds == MESSAGE) {
    if (!stream->sends) at->more = *(uint8_t *)memory_of(s, slot);
    at->holds = ANSWER;
    return begin(s, slot);
  }
  at->holds = FREE;
  if (stream->sends) take_answer(s, stream, at);
  return begin_messages(s, slot / SLOTS, at->more);
}

static void count(struct session *s, uint32_t slot) {
  struct stream *stream = &s->streams[slot / SLOTS];
  const struct by_experiment *e = s->experiment;
  double now = by_seconds_since(s->start);
  if (stream->sends || s->slots[slot].holds == ANSWER || stream->until > e->warm_up + e->lasts) return;
  if (now < e->warm_up) {
    stream->from = stream->until = now;
    return;
  }
  stream->gap = fmax(stream->gap, now - stream->until);
  stream->until = now;
  stream->bytes += s->orders[stream->flow].block;
}

/* The next request behind `slot` that has ended, round and round; UINT32_MAX: none. */
static uint32_t find_ended(const struct session *s, uint32_t slot) {
  uint32_t n = s->n * SLOTS, found = UINT32_MAX;
  by_context_lock(s->comm->context);
  for (uint32_t k = 0; k < n && found == UINT32_MAX; k++) {
    uint32_t i = (slot + 1 + k) % n;
    if (s->requests[i] && by_call_ended(s->requests[i]->call)) found = i;
  }
  by_context_unlock(s->comm->context);
  return found;
}

static enum banyan_status wait_for_one(struct session *s, uint32_t *slot) {
  size_t index = find_ended(s, *slot);
  enum banyan_status status;
  if (index != UINT32_MAX) {
    status = banyan_wait(s->requests[index]);
    s->requests[index] = NULL;
  } else {
    status = banyan_wait_any(s->requests, (size_t)s->n * SLOTS, &index);
  }
  *slot = (uint32_t)index;
  s->open--;
  return status;
}

static enum banyan_status begin_all(struct session *s, bool sends) {
  for (uint32_t i = 0; i < s->n; i++)
    if (s->streams[i].sends == sends) BY_TRY(begin_messages(s, i, s->experiment->first));
  return BANYAN_OK;
}

static enum banyan_status flow(struct session *s) {
  uint32_t slot = 0;
  BY_TRY(begin_all(s, false));
  read_meters(s);
  BY_TRY(banyan_barrier(s->comm));
  s->start = by_clock_now(&by_clock_system);
  BY_TRY(begin_all(s, true));
  while (s->open) {
    BY_TRY(wait_for_one(s, &slot));
    read_meters(s);
    count(s, slot);
    BY_TRY(go_on(s, slot));
  }
  return BANYAN_OK;
}

/* Of what this rank received: the rates of all flows, and behind them which of them stood still for long. Behind these,
 * of what it sent: the kernel's rates. */
static void reckon(const struct session *s, double *out) {
  const struct by_experiment *e = s->experiment;
  for (uint32_t i = 0; i < s->n; i++) {
    struct stream *stream = &s->streams[i];
    if (stream->sends) {
      out[2 * e->n + stream->flow] = by_median(stream->metered, MIN(stream->n_metered, METERED));
      continue;
    }
    out[stream->flow] = 8 * stream->bytes / fmax(stream->until - stream->from, e->lasts / 2);
    double gap = e->one_way ? fmax(stream->gap, e->warm_up + e->lasts - stream->until) : stream->gap;
    out[e->n + stream->flow] = gap > still * e->lasts;
  }
}

static enum banyan_status make_streams(struct session *s) {
  uint32_t rank = s->comm->rank;
  for (uint32_t k = 0; k < s->experiment->n; k++) {
    const struct by_flow_order *order = &s->orders[k];
    if (order->from != rank && order->to != rank) continue;
    struct stream *stream = &s->streams[s->n++];
    *stream = (struct stream){.flow = k, .sends = order->from == rank, .allowed = s->experiment->first};
    if (!stream->sends) stream->memory = calloc(SLOTS, order->block);
    if (!stream->sends && !stream->memory) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  }
  return BANYAN_OK;
}

static enum banyan_status session_init(struct session *s) {
  size_t most = s->experiment->n, block = s->experiment->most_block;
  s->streams = calloc(most, sizeof *s->streams);
  s->requests = calloc(most * SLOTS, sizeof(struct banyan_request *));
  s->slots = calloc(most * SLOTS, sizeof *s->slots);
  s->blocks = calloc(MOST_MORE + 1, block);
  if (!s->streams || !s->requests || !s->slots || !s->blocks)
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  for (size_t more = 0; more <= MOST_MORE; more++) s->blocks[more * block] = (char)more;
  return make_streams(s);
}

/* After a failure the job is over, and so are all requests. */
static void session_fini(struct session *s) {
  if (s->requests && banyan_wait_all(s->requests, (size_t)s->n * SLOTS) != BANYAN_OK)
    by_debug("measure", "%s", banyan_error_text());
  for (uint32_t i = 0; i < s->n; i++) free(s->streams[i].memory);
  free(s->streams);
  free(s->requests);
  free(s->slots);
  free(s->blocks);
}

enum banyan_status by_measure_flows(struct banyan_comm *comm, struct banyan_comm *answers,
                                    const struct by_experiment *experiment, const struct by_flow_order *orders,
                                    double *rates) {
  struct session s = {.comm = comm, .answers = answers, .experiment = experiment, .orders = orders};
  double *own = calloc(BY_MEASURE_FOUND * (size_t)experiment->n, sizeof *own);
  enum banyan_status status = own ? session_init(&s) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  if (status == BANYAN_OK) status = flow(&s);
  if (status == BANYAN_OK) {
    reckon(&s, own);
    status = banyan_reduce(comm, own, rates, BY_MEASURE_FOUND * (size_t)experiment->n, BANYAN_FLOAT64, BANYAN_SUM, 0);
  }
  if (status != BANYAN_OK) banyan_comm_abort(comm, banyan_error_text()); /* no rank waits for the others' messages */
  session_fini(&s);
  free(own);
  return status;
}
