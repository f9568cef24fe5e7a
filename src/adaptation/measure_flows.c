/* Runs experiments: flows that go at the same time. Each flow is a stream of messages of one size, and each message is
 * answered. The first byte of a message says how many messages follow its answer: none to two, so that more are in
 * flight where answers come soon, and fewer where a path is slower than expected. Otherwise megabytes would wait in
 * sockets and queues, be lost there and have to drain. The receiver computes the rate from the messages that arrive
 * while it counts, by its own clock; the sender goes on a little longer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "log.h"
#include "measure_parts.h"
#include "order.h"
#include "request.h"
#include "thresholds.h"

/* Messages in flight, and as many that wait for their answers. */
enum {
  SLOTS = 2 * BY_MEASURE_DEPTH,
  MIN_ALLOWED = 2,
  MAX_MORE = 2,
  FOUND = 3,  /* Values that are found of a flow. */
  ANSWERS = 1 /* Number of the subset that answers. */
};

enum {
  METERED = 16,
  MIN_METERED = 32 << 10
}; /* Bytes after which the kernel's rates count, since shapers let the first ones through; and how many rates are kept.
    */

struct stream {
  uint32_t flow; /* Index of its order. */
  bool sends;
  uint32_t allowed,
      due;      /* The sender's messages that may be in flight, and those that start when all answers have come. */
  char *memory; /* The receiver's memory, SLOTS blocks. */
  uint64_t before, taken;        /* Bytes that the other host had received from the sender at first, and now. */
  double seen, metered[METERED]; /* The kernel's rate in bit/s now, and its last rates. */
  uint32_t n_metered;
  double took; /* Seconds of the sender's last message and its answer. */
  double from, until, bytes,
      gap; /* The receiver's first and last time, the bytes that arrived between them, and the longest pause. */
};

/* Each slot of a stream holds a message, and then its answer. */
struct slot {
  enum { FREE, MESSAGE, ANSWER } holds;
  uint8_t more; /* Number of messages that follow the answer. */
  char answer;
  double begun;
};

struct session {
  struct banyan_comm *comm, *answers;
  const struct by_experiment *experiment;
  const struct by_flow_order *orders;
  struct stream *streams;
  struct banyan_request **requests; /* SLOTS for each stream, in the order of the slots. */
  struct slot *slots;
  uint32_t n, open;
  char *blocks; /* The messages that are sent: one block for each number that the first byte may have. */
  uint64_t start;
};

static char *memory_of(const struct session *s, uint32_t slot) {
  const struct stream *stream = &s->streams[slot / SLOTS];
  return stream->memory + (size_t)(slot % SLOTS) * s->orders[stream->flow].block;
}

/* ---- what the kernel knows of the ways on which this rank sends: a busy machine may keep ranks from running, but
 * the kernel goes on with what it was given */

static void look_at(void *context, uint32_t process, struct by_lane *lane) {
  struct session *s = context;
  struct by_meter meter;
  if (!by_lane_meter(lane, &meter)) return;
  for (uint32_t i = 0; i < s->n; i++) {
    struct stream *stream = &s->streams[i];
    if (!stream->sends || s->comm->processes[s->orders[stream->flow].to] != process) continue;
    stream->taken += meter.bytes;
    if (meter.full) stream->seen += 8 * (double)meter.rate;
  }
}

/* Reads the kernel's rates. It keeps only the last one, and small messages seem fast, so it is asked often. */
static void read_meters(struct session *s) {
  if (!s->experiment->one_way) return;
  for (uint32_t i = 0; i < s->n; i++) s->streams[i].taken = 0, s->streams[i].seen = 0;
  by_job_lock(s->comm->job);
  by_engine_visit_lanes(by_job_engine(s->comm->job), look_at, s);
  by_job_unlock(s->comm->job);
  for (uint32_t i = 0; i < s->n; i++) {
    struct stream *stream = &s->streams[i];
    if (!stream->before) stream->before = stream->taken;
    if (stream->seen > 0 && stream->taken - stream->before >= MIN_METERED)
      stream->metered[stream->n_metered++ % METERED] = stream->seen;
  }
}

/* ---- messages */

/* Starts to send or receive what the slot holds. */
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
    call.send = answer ? &at->answer : s->blocks + (size_t)at->more * s->experiment->max_block;
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
    /* The message carries how many follow its answer, so that as many will be in flight as are allowed. These begin
     * when its answer comes, and arrive as much later again. */
    double end = e->warm_up + e->duration + e->margin - (e->one_way ? 2 * stream->took : 0);
    if (stream->sends && at->begun <= end && stream->due < stream->allowed)
      at->more = (uint8_t)MIN(stream->allowed - stream->due, MAX_MORE);
    stream->due += at->more;
    BY_TRY(begin(s, slot));
    n--;
  }
  return n ? by_fail(BANYAN_ERR_PROTOCOL, "a rank announced more than %d messages while measuring", SLOTS) : BANYAN_OK;
}

/* Adapts the number of messages in flight to the time of an answer. Answers to later messages are still to come, so
 * growth ends early. */
static void take_answer(const struct session *s, struct stream *stream, const struct slot *at) {
  double took = by_seconds_since(s->start) - at->begun, late = s->experiment->late;
  if (took <= late / 2) stream->allowed = MIN(stream->allowed + 1, s->experiment->depth);
  stream->took = took;
  if (took > late) stream->allowed = MAX(stream->allowed - 1, MIN_ALLOWED);
  stream->due -= at->more;
}

/* Continues in a slot whose message or answer has ended. */
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
  if (stream->sends || s->slots[slot].holds == ANSWER || stream->until > e->warm_up + e->duration) return;
  if (now < e->warm_up) {
    stream->from = stream->until = now;
    return;
  }
  stream->gap = fmax(stream->gap, now - stream->until);
  stream->until = now;
  stream->bytes += s->orders[stream->flow].block;
}

/* Returns the next request after `slot`, in a circle, that has ended; UINT32_MAX: there is none. */
static uint32_t find_ended(const struct session *s, uint32_t slot) {
  uint32_t n = s->n * SLOTS, found = UINT32_MAX;
  by_job_lock(s->comm->job);
  for (uint32_t k = 0; k < n && found == UINT32_MAX; k++) {
    uint32_t i = (slot + 1 + k) % n;
    if (s->requests[i] && by_call_ended(s->requests[i]->call)) found = i;
  }
  by_job_unlock(s->comm->job);
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

/* Fills in this rank's results, in the order of run_flows: the rates and stalls of what it received, and the kernel's
 * rates of what it sent. */
static void reckon(const struct session *s, double *out) {
  const struct by_experiment *e = s->experiment;
  for (uint32_t i = 0; i < s->n; i++) {
    struct stream *stream = &s->streams[i];
    if (stream->sends) {
      out[2 * e->n + stream->flow] = by_median(stream->metered, MIN(stream->n_metered, METERED));
      continue;
    }
    out[stream->flow] = 8 * stream->bytes / fmax(stream->until - stream->from, e->duration / 2);
    double gap = e->one_way ? fmax(stream->gap, e->warm_up + e->duration - stream->until) : stream->gap;
    out[e->n + stream->flow] = gap > by_limit_stalled * e->duration;
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
  size_t max = s->experiment->n, block = s->experiment->max_block;
  s->streams = calloc(max, sizeof *s->streams);
  s->requests = calloc(max * SLOTS, sizeof(struct banyan_request *));
  s->slots = calloc(max * SLOTS, sizeof *s->slots);
  s->blocks = calloc(MAX_MORE + 1, block);
  if (!s->streams || !s->requests || !s->slots || !s->blocks)
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  for (size_t more = 0; more <= MAX_MORE; more++) s->blocks[more * block] = (char)more;
  return make_streams(s);
}

/* Releases the session. After a failure the job is over, and so are all requests. */
static void session_fini(struct session *s) {
  if (s->requests && banyan_wait_all(s->requests, (size_t)s->n * SLOTS) != BANYAN_OK)
    by_debug("measure", "%s", banyan_error_text());
  for (uint32_t i = 0; i < s->n; i++) free(s->streams[i].memory);
  free(s->streams);
  free(s->requests);
  free(s->slots);
  free(s->blocks);
}

/* Collective over `comm`; `answers` has the same ranks. Rank 0 gets the rate of each of n flows in bit/s; after these n
 * values that are above 0 for flows that stood still for a good part of the time; and after these n rates that the
 * senders' kernels found, 0 where they are not known. Those are rougher, but do not depend on when ranks run. */
static enum banyan_status run_flows(struct banyan_comm *comm, struct banyan_comm *answers,
                                    const struct by_experiment *experiment, const struct by_flow_order *orders,
                                    double *rates) {
  struct session s = {.comm = comm, .answers = answers, .experiment = experiment, .orders = orders};
  double *own = calloc(FOUND * (size_t)experiment->n, sizeof *own);
  enum banyan_status status = own ? session_init(&s) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring flows");
  if (status == BANYAN_OK) status = flow(&s);
  if (status == BANYAN_OK) {
    reckon(&s, own);
    status = banyan_reduce(comm, own, rates, FOUND * (size_t)experiment->n, BANYAN_FLOAT64, BANYAN_SUM, 0);
  }
  if (status != BANYAN_OK)
    banyan_comm_abort(comm, banyan_error_text()); /* Ends the job, so that no rank waits for messages of the others. */
  session_fini(&s);
  free(own);
  return status;
}

/* ---- experiments */

/* Seconds of a call: what the program allows for its own ones, within these, since ranks also wait for rank 0 to
 * compute; and of an experiment, of which one of the longest round trips takes 20. */
enum { MIN_DEADLINE = 10, MAX_DEADLINE = 120, MAX_TIME = 60 };

static bool takes(double seconds) {
  return seconds >= 0 && seconds <= MAX_TIME;
}

enum banyan_status by_experiment_check(const struct by_experiment *e, const struct by_flow_order *orders,
                                       uint32_t n_ranks, uint32_t max_flows) {
  if (e->n > max_flows || e->max_block > BY_PROBE_MAX_BLOCK || e->depth > BY_MEASURE_DEPTH ||
      e->first > BY_MEASURE_DEPTH || !takes(e->warm_up) || !takes(e->duration) || !takes(e->margin) || !takes(e->late))
    return by_fail(BANYAN_ERR_PROTOCOL,
                   "rank 0 asked for an experiment of %u flows with %u messages of %u bytes, for %g, %g and %g s; at "
                   "most %u flows with %d messages of %d bytes can be",
                   e->n, MAX(e->depth, e->first), e->max_block, e->warm_up, e->duration, e->margin, max_flows,
                   BY_MEASURE_DEPTH, BY_PROBE_MAX_BLOCK);
  for (uint32_t k = 0; orders && k < e->n; k++)
    if (orders[k].from >= n_ranks || orders[k].to >= n_ranks || orders[k].from == orders[k].to || !orders[k].block ||
        orders[k].block > e->max_block)
      return by_fail(BANYAN_ERR_PROTOCOL,
                     "rank 0 asked for a flow from host %u to host %u of %u with messages of %u bytes; they may have 1 "
                     "to %u",
                     orders[k].from, orders[k].to, n_ranks, orders[k].block, e->max_block);
  return BANYAN_OK;
}

static enum banyan_status agree(struct by_measurement *m, struct by_experiment *experiment) {
  BY_TRY(banyan_broadcast(m->leaders, experiment, sizeof *experiment, BANYAN_UINT8, 0));
  BY_TRY(by_experiment_check(experiment, NULL, m->n, m->max_flows));
  if (!experiment->n) return BANYAN_OK;
  BY_TRY(banyan_broadcast(m->leaders, m->orders, experiment->n * sizeof *m->orders, BANYAN_UINT8, 0));
  return by_experiment_check(experiment, m->orders, m->n, m->max_flows);
}

enum banyan_status by_measure_run(struct by_measurement *m, const struct by_experiment *experiment) {
  struct by_experiment sent = *experiment;
  uint64_t start = by_clock_now(&by_clock_system);
  BY_TRY(agree(m, &sent));
  BY_TRY(run_flows(m->leaders, m->answers, experiment, m->orders, m->tried));
  double more = by_seconds_since(start) - experiment->warm_up - experiment->duration - experiment->margin;
  m->experiments++;
  m->overhead += (more - m->overhead) / m->experiments;
  return BANYAN_OK;
}

enum banyan_status by_measure_follow(struct by_measurement *m) {
  for (;;) {
    struct by_experiment experiment = {0};
    BY_TRY(agree(m, &experiment));
    if (!experiment.n) return BANYAN_OK;
    BY_TRY(run_flows(m->leaders, m->answers, &experiment, m->orders, m->tried));
  }
}

enum banyan_status by_measure_end(struct by_measurement *m, enum banyan_status status) {
  struct by_experiment none = {0};
  char text[400];
  snprintf(text, sizeof text, "%s", status == BANYAN_OK ? "" : banyan_error_text());
  enum banyan_status ended = agree(m, &none);
  if (status == BANYAN_OK) return ended;
  return by_fail(status, "%s", text);
}

/* ---- life */

/* Several hosts of one name get numbers, since ranks over TCP count as hosts of their own. */
static void name_hosts(struct by_measurement *m) {
  for (uint32_t h = 0; h < m->n; h++) {
    const char *name = banyan_comm_host(m->leaders, (int)h);
    uint32_t before = 0, after = 0;
    for (uint32_t k = 0; k < m->n; k++)
      if (k != h && strcmp(banyan_comm_host(m->leaders, (int)k), name) == 0) *(k < h ? &before : &after) += 1;
    if (before + after)
      snprintf(m->texts[h], sizeof m->texts[h], "%.200s:%u", name, before);
    else
      snprintf(m->texts[h], sizeof m->texts[h], "%s", name);
    m->names[h] = m->texts[h];
  }
}

static enum banyan_status allocate_arrays(struct by_measurement *m) {
  size_t n = m->n;
  bool leads = !m->leaders->rank;
  m->max_flows = MAX(2 * BY_MEASURE_LINKS_PER_HOST * m->n, by_sites_max_flows(MIN(m->n, BY_SITES_MAX)));
  m->orders = calloc(m->max_flows, sizeof *m->orders);
  m->tried = calloc(FOUND * (size_t)m->max_flows, sizeof *m->tried);
  if (leads) {
    m->rates = calloc(m->max_flows, sizeof *m->rates);
    m->direct = calloc(n * n, 1);
    m->pairs.delay = calloc(3 * n * n + 2 * n, sizeof *m->pairs.delay);
    m->texts = calloc(n, sizeof *m->texts);
    m->names = calloc(n, sizeof *m->names);
  }
  m->pairs.rate = m->pairs.delay ? m->pairs.delay + n * n : NULL;
  m->best = m->pairs.delay ? m->pairs.rate + n * n : NULL;
  m->sent = m->pairs.delay ? m->best + n * n : NULL;
  m->received = m->pairs.delay ? m->sent + n : NULL;
  bool led = m->rates && m->direct && m->pairs.delay && m->texts && m->names;
  if (!m->orders || !m->tried || (leads && !led))
    return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring %u hosts", m->n);
  if (leads) name_hosts(m);
  return BANYAN_OK;
}

enum banyan_status by_measurement_begin(struct by_measurement *m) {
  int *all = malloc(m->leaders->size * sizeof *all);
  m->n = m->leaders->size;
  for (uint32_t r = 0; all && r < m->n; r++) all[r] = (int)r;
  enum banyan_status status =
      all ? allocate_arrays(m) : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for measuring %u hosts", m->n);
  if (status == BANYAN_OK) status = banyan_comm_subset(m->leaders, all, (int)m->n, ANSWERS, &m->answers);
  free(all);
  BY_TRY(status);
  double deadline = by_clock_to_seconds(m->leaders->deadline);
  deadline = fmin(fmax(deadline, MIN_DEADLINE), MAX_DEADLINE);
  BY_TRY(banyan_comm_set_deadline(m->leaders, deadline));
  return banyan_comm_set_deadline(m->answers, deadline);
}

void by_measurement_fini(struct by_measurement *m) {
  free(m->orders);
  free(m->tried);
  free(m->rates);
  free(m->direct);
  free(m->pairs.delay);
  free(m->texts);
  free(m->names);
  banyan_comm_destroy(m->answers);
  banyan_comm_destroy(m->leaders);
}
