/* Each flow is a stream of messages of one size, a few of them under way at any time. Where many flows meet, each
 * message is answered, and the answer lets the next one go: else megabytes would wait in sockets and queues, be lost
 * there and have to drain. The receiver reckons the rate from the messages that arrive while it counts, by its own
 * clock; the sender goes on a little longer. The last DEPTH messages say that they are, as many as the receiver may
 * still wait for then, and have no answer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"

enum { DEPTH = BY_MEASURE_DEPTH, GOES_ON = 0, LAST = 1 };

static const double still = 0.3; /* of the time: a flow to which nothing comes for so long stands still */

struct stream {
  uint32_t flow; /* its order */
  bool sends;
  char *memory;                   /* of a receiver: DEPTH blocks */
  double from, until, bytes, gap; /* a receiver's time, what came in it, and how long nothing came at most */
};

/* Of the DEPTH slots of a stream, each is a message or its answer at any time. */
struct slot {
  bool answers, over; /* the answer's turn; no more comes behind the message */
  char answer;
};

struct session {
  struct banyan_comm *comm, *answers;
  const struct by_experiment *experiment;
  const struct by_flow_order *orders;
  struct stream *streams;
  struct banyan_request **requests; /* DEPTH for each stream, as slots */
  struct slot *slots;
  uint32_t n, open;
  char *more, *last; /* what is sent */
  uint64_t start;
};

static char *memory_of(const struct session *s, uint32_t slot) {
  const struct stream *stream = &s->streams[slot / DEPTH];
  return stream->memory + (size_t)(slot % DEPTH) * s->orders[stream->flow].block;
}

static bool time_is_over(const struct session *s) {
  const struct by_experiment *e = s->experiment;
  return by_seconds_since(s->start) > e->warm_up + e->lasts + e->margin;
}

/* A message, or its answer. */
static enum banyan_status begin(struct session *s, uint32_t slot) {
  const struct stream *stream = &s->streams[slot / DEPTH];
  const struct by_flow_order *order = &s->orders[stream->flow];
  struct slot *at = &s->slots[slot];
  bool sends = stream->sends != at->answers;
  struct banyan_call call = {.collective = sends ? BANYAN_SEND : BANYAN_RECV,
                             .dtype = BANYAN_UINT8,
                             .count = at->answers ? 1 : order->block,
                             .root = (int)(stream->sends ? order->to : order->from)};
  if (stream->sends && !at->answers) at->over = time_is_over(s);
  if (sends)
    call.send = at->over ? s->last : s->more;
  else
    call.recv = at->answers ? &at->answer : memory_of(s, slot);
  BY_TRY(banyan_start(at->answers ? s->answers : s->comm, &call, &s->requests[slot]));
  s->open++;
  return BANYAN_OK;
}

/* What comes behind what has ended in this slot. */
static enum banyan_status go_on(struct session *s, uint32_t slot) {
  struct slot *at = &s->slots[slot];
  if (!s->streams[slot / DEPTH].sends && !at->answers) at->over = *memory_of(s, slot) == LAST;
  if (at->over) return BANYAN_OK;
  at->answers = s->orders[s->streams[slot / DEPTH].flow].answered && !at->answers;
  return begin(s, slot);
}

static void count(struct session *s, uint32_t slot) {
  struct stream *stream = &s->streams[slot / DEPTH];
  const struct by_experiment *e = s->experiment;
  double now = by_seconds_since(s->start);
  if (stream->sends || s->slots[slot].answers || stream->until > e->warm_up + e->lasts) return;
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
  uint32_t n = s->n * DEPTH, found = UINT32_MAX;
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
    status = banyan_wait_any(s->requests, (size_t)s->n * DEPTH, &index);
  }
  *slot = (uint32_t)index;
  s->open--;
  return status;
}

static enum banyan_status begin_all(struct session *s, bool sends) {
  for (uint32_t slot = 0; slot < s->n * DEPTH; slot++)
    if (s->streams[slot / DEPTH].sends == sends) BY_TRY(begin(s, slot));
  return BANYAN_OK;
}

static enum banyan_status flow(struct session *s) {
  uint32_t slot = 0;
  BY_TRY(begin_all(s, false));
  BY_TRY(banyan_barrier(s->comm));
  s->start = by_clock_now(&by_clock_system);
  BY_TRY(begin_all(s, true));
  while (s->open) {
    BY_TRY(wait_for_one(s, &slot));
    count(s, slot);
    BY_TRY(go_on(s, slot));
  }
  return BANYAN_OK;
}

/* Of what this rank received: the rates of all flows, and behind them which of them stood still for long. */
static void reckon(const struct session *s, double *out) {
  const struct by_experiment *e = s->experiment;
  for (uint32_t i = 0; i < s->n; i++) {
    const struct stream *stream = &s->streams[i];
    if (stream->sends) continue;
    out[stream->flow] = 8 * stream->bytes / fmax(stream->until - stream->from, 1e-9);
    out[e->n + stream->flow] = stream->gap > still * e->lasts;
  }
}

static enum banyan_status make_streams(struct session *s) {
  uint32_t rank = s->comm->rank;
  for (uint32_t k = 0; k < s->experiment->n; k++) {
    const struct by_flow_order *order = &s->orders[k];
    if (order->from != rank && order->to != rank) continue;
    struct stream *stream = &s->streams[s->n++];
    *stream = (struct stream){.flow = k, .sends = order->from == rank};
    if (!stream->sends) stream->memory = calloc(DEPTH, order->block);
    if (!stream->sends && !stream->memory) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  }
  return BANYAN_OK;
}

static enum banyan_status session_init(struct session *s) {
  size_t most = s->experiment->n, block = s->experiment->most_block;
  s->streams = calloc(most, sizeof *s->streams);
  s->requests = calloc(most * DEPTH, sizeof(struct banyan_request *));
  s->slots = calloc(most * DEPTH, sizeof *s->slots);
  s->more = calloc(2, block);
  if (!s->streams || !s->requests || !s->slots || !s->more)
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  memset(s->more, GOES_ON, block);
  s->last = s->more + block;
  memset(s->last, LAST, block);
  return make_streams(s);
}

/* After a failure the job is over, and so are all requests. */
static void session_fini(struct session *s) {
  if (s->requests && banyan_wait_all(s->requests, (size_t)s->n * DEPTH) != BANYAN_OK)
    by_debug("measure", "%s", banyan_error_text());
  for (uint32_t i = 0; i < s->n; i++) free(s->streams[i].memory);
  free(s->streams);
  free(s->requests);
  free(s->slots);
  free(s->more);
}

enum banyan_status by_measure_flows(struct banyan_comm *comm, struct banyan_comm *answers,
                                    const struct by_experiment *experiment, const struct by_flow_order *orders,
                                    double *rates) {
  struct session s = {.comm = comm, .answers = answers, .experiment = experiment, .orders = orders};
  double *own = calloc(2 * (size_t)experiment->n, sizeof *own);
  enum banyan_status status = own ? session_init(&s) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  if (status == BANYAN_OK) status = flow(&s);
  if (status == BANYAN_OK) {
    reckon(&s, own);
    status = banyan_reduce(comm, own, rates, 2 * (size_t)experiment->n, BANYAN_FLOAT64, BANYAN_SUM, 0);
  }
  if (status != BANYAN_OK) banyan_comm_abort(comm, banyan_error_text()); /* nobody waits for the others' messages */
  session_fini(&s);
  free(own);
  return status;
}
