/* Each flow is a stream of messages of one size, a few of them under way at any time. The receiver reckons the rate
 * from the messages that arrive while it counts, by its own clock; the sender goes on a little longer. The last DEPTH
 * messages say that they are, as many as the receiver may still wait for then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"

enum { DEPTH = 4, GOES_ON = 0, LAST = 1 };

static const double still = 0.3; /* of the time: a flow to which nothing comes for so long stands still */

struct stream {
  uint32_t flow; /* its order */
  bool sends;
  uint32_t lasts;                 /* last messages that were begun */
  char *memory;                   /* of a receiver: DEPTH blocks */
  double from, until, bytes, gap; /* a receiver's time, what came in it, and how long nothing came at most */
};

struct session {
  struct banyan_comm *comm;
  const struct by_experiment *experiment;
  const struct by_flow_order *orders;
  struct stream *streams;
  struct banyan_request **requests; /* DEPTH for each stream */
  uint32_t n, open;
  char *more, *last; /* what is sent */
  uint64_t start;
};

static enum banyan_status begin(struct session *s, uint32_t slot) {
  struct stream *stream = &s->streams[slot / DEPTH];
  const struct by_flow_order *order = &s->orders[stream->flow];
  struct banyan_call call = {.dtype = BANYAN_UINT8, .count = order->block};
  const struct by_experiment *e = s->experiment;
  if (stream->sends) {
    bool ends = s->start && by_seconds_since(s->start) > e->warm_up + e->lasts + e->margin;
    if (stream->lasts == DEPTH) return BANYAN_OK;
    stream->lasts += ends;
    call.collective = BANYAN_SEND;
    call.root = (int)order->to;
    call.send = ends ? s->last : s->more;
  } else {
    call.collective = BANYAN_RECV;
    call.root = (int)order->from;
    call.recv = stream->memory + (size_t)(slot % DEPTH) * order->block;
  }
  BY_TRY(banyan_start(s->comm, &call, &s->requests[slot]));
  s->open++;
  return BANYAN_OK;
}

/* Whether one more is to be received in this slot: for each that was not one of the last ones. */
static bool goes_on(const struct session *s, uint32_t slot) {
  const struct stream *stream = &s->streams[slot / DEPTH];
  return stream->sends || stream->memory[(size_t)(slot % DEPTH) * s->orders[stream->flow].block] == GOES_ON;
}

static void count(struct session *s, uint32_t slot) {
  struct stream *stream = &s->streams[slot / DEPTH];
  const struct by_experiment *e = s->experiment;
  double now = by_seconds_since(s->start);
  if (stream->sends || stream->until > e->warm_up + e->lasts) return;
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
    if (goes_on(s, slot)) BY_TRY(begin(s, slot));
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
  s->more = calloc(2, block);
  if (!s->streams || !s->requests || !s->more) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
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
  free(s->more);
}

enum banyan_status by_measure_flows(struct banyan_comm *comm, const struct by_experiment *experiment,
                                    const struct by_flow_order *orders, double *rates) {
  struct session s = {.comm = comm, .experiment = experiment, .orders = orders};
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
