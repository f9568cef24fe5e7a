/* Between two events every stream that sends does so at a fixed rate. Events of
 * one moment are taken together: first what leaves and what arrives, then the
 * streams that may send begin, then shares are worked out, once. A stream that
 * has its next chunk ready goes on without that. */
#include "run.h"

#include <math.h>
#include <stdlib.h>

#define SAME 1e-12 /* relative: times that rounding alone keeps apart */

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a simulation")

struct sender {
  bool flows;        /* has a share of the links */
  double left, rate; /* bytes of its chunk, as of `since`; bytes a second */
  double since, begun;
};

struct run {
  const struct by_simulator *simulator;
  const struct by_cast *cast;
  const struct by_simulate_options *options;
  struct by_simulation *out;
  struct by_traffic traffic;
  struct by_fair fair;
  struct by_leavings leavings;
  struct by_arrivals arrivals;
  struct sender *senders;
  double *free_at;          /* of each actor: when it has added all that came so far */
  uint32_t *ended, n_ended; /* streams whose chunk has left at this moment */
  double now;
  struct by_arena arena;
};

/* --- rates --- */

static void log_change(struct run *run, uint32_t stream, double change) {
  const struct by_fair_net *net = &run->cast->net;
  for (uint32_t u = net->first[stream]; u < net->first[stream + 1]; u++)
    by_use_log_change(&run->out->use, net->uses[u].resource, run->now, change * net->uses[u].weight);
}

static void set_rate(struct run *run, uint32_t stream, double rate) {
  struct sender *s = &run->senders[stream];
  s->left -= s->rate * (run->now - s->since);
  if (s->left < 0) s->left = 0;
  s->since = run->now;
  log_change(run, stream, rate - s->rate);
  s->rate = rate;
  by_leavings_set(&run->leavings, stream, run->now + s->left / rate);
}

static void begin(struct run *run, uint32_t stream, uint64_t bytes) {
  struct sender *s = &run->senders[stream];
  s->left = (double)bytes;
  s->since = s->begun = run->now;
  if (!s->flows) {
    by_fair_start(&run->fair, stream);
    s->flows = true;
    s->rate = 0;
    if (isinf(run->fair.rate[stream])) s->rate = INFINITY; /* within a node */
  }
  if (s->rate > 0) by_leavings_set(&run->leavings, stream, run->now + s->left / s->rate);
}

static void stop(struct run *run, uint32_t stream) {
  struct sender *s = &run->senders[stream];
  by_fair_stop(&run->fair, stream);
  if (isfinite(s->rate)) log_change(run, stream, -s->rate);
  s->rate = 0;
  s->flows = false;
}

/* Streams that may send begin, those that have nothing more stop, and shares follow. */
static void settle(struct run *run) {
  while (run->traffic.n_woken) {
    uint32_t stream = run->traffic.woken[run->traffic.n_woken - 1];
    uint64_t bytes = by_traffic_take(&run->traffic, stream);
    if (bytes) begin(run, stream, bytes);
  }
  for (uint32_t i = 0; i < run->n_ended; i++)
    if (run->traffic.streams[run->ended[i]].sending == BY_CAST_NONE) stop(run, run->ended[i]);
  run->n_ended = 0;
  by_fair_share(&run->fair);
  for (uint32_t i = 0; i < run->fair.n_changed; i++) {
    uint32_t stream = run->fair.changed[i];
    if (run->senders[stream].flows) set_rate(run, stream, run->fair.rate[stream]);
  }
}

/* --- events --- */

static enum banyan_status arrive(struct run *run, const struct by_parcel *parcel) {
  double cost = run->options->chunk_cost, *free_at = &run->free_at[parcel->actor];
  if (!(cost > 0)) {
    by_traffic_arrive(&run->traffic, parcel);
    return BANYAN_OK;
  }
  *free_at = fmax(*free_at, run->now) + cost;
  return by_arrivals_add(&run->arrivals, *free_at, true, parcel);
}

static void tell(const struct run *run, uint32_t stream, uint64_t bytes) {
  const struct by_cast_stream *s = &run->cast->streams[stream];
  const struct by_ways *ways = &run->simulator->ways;
  uint32_t from = run->cast->rank[s->actor], way = ways->first_stream[from] + s->peer;
  struct by_transfer transfer = {.from = from,
                                 .to = by_roles_peer(run->cast->roles, from, s->peer),
                                 .stream = way,
                                 .begin = run->senders[stream].begun,
                                 .end = run->now,
                                 .bytes = bytes,
                                 .resources = ways->resources + ways->first[way],
                                 .n_resources = ways->first[way + 1] - ways->first[way]};
  run->options->transfer(run->options->context, &transfer);
}

static enum banyan_status leave(struct run *run, uint32_t stream) {
  const struct by_fair_net *net = &run->cast->net;
  struct by_parcel parcel = by_traffic_leave(&run->traffic, stream);
  double delay = run->cast->streams[stream].delay;
  for (uint32_t u = net->first[stream]; u < net->first[stream + 1]; u++)
    run->out->carried[net->uses[u].resource] += net->uses[u].weight * (double)parcel.bytes;
  if (run->options->transfer) tell(run, stream, parcel.bytes);
  run->ended[run->n_ended++] = stream;
  return delay > 0 ? by_arrivals_add(&run->arrivals, run->now + delay, false, &parcel) : arrive(run, &parcel);
}

static enum banyan_status take_arrival(struct run *run) {
  struct by_arrival arrival = by_arrivals_take(&run->arrivals);
  if (!arrival.added) return arrive(run, &arrival.parcel);
  by_traffic_arrive(&run->traffic, &arrival.parcel);
  return BANYAN_OK;
}

/* Everything that happens next, and at the same time. False: nothing does. */
static bool next_time(struct run *run) {
  double at = INFINITY;
  if (run->leavings.n) at = run->leavings.at[run->leavings.heap[0]];
  if (run->arrivals.n && run->arrivals.heap[0].at < at) at = run->arrivals.heap[0].at;
  if (!isfinite(at)) return false;
  if (at > run->now) run->now = at;
  return true;
}

static enum banyan_status take_moment(struct run *run) {
  double until = run->now * (1 + SAME);
  while (run->leavings.n && run->leavings.at[run->leavings.heap[0]] <= until)
    BY_TRY(leave(run, by_leavings_take(&run->leavings)));
  while (run->arrivals.n && run->arrivals.heap[0].at <= until) BY_TRY(take_arrival(run));
  return run->traffic.failed ? NO_MEMORY : BANYAN_OK;
}

static enum banyan_status run_all(struct run *run) {
  settle(run);
  while (next_time(run)) {
    BY_TRY(take_moment(run));
    settle(run);
  }
  if (!run->traffic.steps_left) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PLAN,
                 "a simulated AllReduce stopped with %llu steps left: this is a fault of the simulator",
                 (unsigned long long)run->traffic.steps_left);
}

/* --- all of it --- */

static enum banyan_status prepare(struct run *run) {
  const struct by_cast *cast = run->cast;
  run->senders = BY_ARENA_ARRAY(&run->arena, struct sender, cast->n_streams);
  run->free_at = BY_ARENA_ARRAY(&run->arena, double, cast->n_actors);
  run->ended = BY_ARENA_ARRAY(&run->arena, uint32_t, cast->n_streams);
  run->out->carried = calloc((size_t)cast->net.n_resources + 1, sizeof *run->out->carried);
  if (!run->senders || !run->free_at || !run->ended || !run->out->carried) return NO_MEMORY;
  BY_TRY(by_leavings_init(&run->leavings, cast->n_streams, &run->arena));
  return by_use_log_init(&run->out->use, cast->net.n_resources);
}

enum banyan_status by_run(const struct by_simulator *simulator, const struct by_simulate_options *options,
                          uint64_t chunk, uint32_t most_level, struct by_simulation *out) {
  struct run run = {.simulator = simulator, .cast = &simulator->cast, .options = options, .out = out};
  *out = (struct by_simulation){.simulated_chunk = chunk, .n_resources = run.cast->net.n_resources, .cast = run.cast};
  by_arena_init(&run.arena);
  enum banyan_status status = prepare(&run);
  if (status == BANYAN_OK) status = by_traffic_init(&run.traffic, run.cast, chunk, most_level);
  if (status == BANYAN_OK) status = by_fair_init(&run.fair, &run.cast->net);
  if (status == BANYAN_OK) status = run_all(&run);
  out->seconds = out->use_seconds = run.now;
  out->work = run.traffic.n_chunks;
  out->n_actors = run.cast->n_actors;
  by_fair_fini(&run.fair);
  by_traffic_fini(&run.traffic);
  by_arrivals_fini(&run.arrivals);
  by_arena_fini(&run.arena);
  if (status != BANYAN_OK) by_simulation_fini(out);
  return status;
}
