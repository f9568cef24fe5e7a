/* Runs a simulation. Pending events are in two heaps: streams whose chunk leaves at a time that changes with their
 * rates, and parcels that arrive at fixed times. */
#include "simulate.h"

#include <math.h>
#include <stdlib.h>

#include "arena.h"

/* A heap of streams by the times at which their chunks leave. Of equal times the lower stream comes first. */
struct departures {
  /* The heap, and the index of each stream in it; UINT32_MAX: it is not in the heap. */
  uint32_t n, *heap, *index;
  double *at;
};

/* A parcel that arrives or has been added. Of equal times the one that was put in first comes first. */
struct arrival {
  double at;
  uint64_t number;
  bool added; /* It has been added; if false, it has only arrived. */
  struct by_parcel parcel;
};

struct arrivals {
  size_t n, allocated;
  uint64_t next_number;
  struct arrival *heap;
};

#define NO_MEMORY by_fail(BANYAN_ERR_NO_MEMORY, "no memory for what happens in a simulation")

/* --- Streams that leave. --- */

static bool leaves_before(const struct departures *l, uint32_t a, uint32_t b) {
  double at_a = l->at[a], at_b = l->at[b];
  return at_a < at_b || (at_a == at_b && a < b);
}

static void put_stream(struct departures *l, uint32_t index, uint32_t stream) {
  l->heap[index] = stream;
  l->index[stream] = index;
}

static void sift_up(struct departures *l, uint32_t index, uint32_t stream) {
  for (; index && leaves_before(l, stream, l->heap[(index - 1) / 2]); index = (index - 1) / 2)
    put_stream(l, index, l->heap[(index - 1) / 2]);
  put_stream(l, index, stream);
}

static void sift_down(struct departures *l, uint32_t index, uint32_t stream) {
  for (uint32_t child; (child = 2 * index + 1) < l->n; index = child) {
    if (child + 1 < l->n && leaves_before(l, l->heap[child + 1], l->heap[child])) child++;
    if (leaves_before(l, stream, l->heap[child])) break;
    put_stream(l, index, l->heap[child]);
  }
  put_stream(l, index, stream);
}

/* Adds a stream, or moves it. */
static void set_departure(struct departures *l, uint32_t stream, double at) {
  if (l->index[stream] == UINT32_MAX) {
    l->at[stream] = at;
    sift_up(l, l->n++, stream);
    return;
  }
  bool later = at > l->at[stream];
  l->at[stream] = at;
  if (later)
    sift_down(l, l->index[stream], stream);
  else
    sift_up(l, l->index[stream], stream);
}

/* Removes and returns the first stream. The heap is not empty. */
static uint32_t pop_departure(struct departures *l) {
  uint32_t first = l->heap[0], last = l->heap[--l->n];
  l->index[first] = UINT32_MAX;
  if (l->n) sift_down(l, 0, last);
  return first;
}

/* --- Parcels that arrive. --- */

static bool arrives_before(const struct arrival *a, const struct arrival *b) {
  return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static enum banyan_status add_arrival(struct arrivals *a, double at, bool added, const struct by_parcel *parcel) {
  if (!BY_ARRAY_GROW(&a->heap, &a->allocated, a->n + 1)) return NO_MEMORY;
  struct arrival arrival = {at, a->next_number++, added, *parcel};
  size_t index = a->n++;
  for (; index && arrives_before(&arrival, &a->heap[(index - 1) / 2]); index = (index - 1) / 2)
    a->heap[index] = a->heap[(index - 1) / 2];
  a->heap[index] = arrival;
  return BANYAN_OK;
}

static struct arrival pop_arrival(struct arrivals *a) {
  struct arrival first = a->heap[0], last = a->heap[--a->n];
  size_t index = 0;
  for (size_t child; (child = 2 * index + 1) < a->n; index = child) {
    if (child + 1 < a->n && arrives_before(&a->heap[child + 1], &a->heap[child])) child++;
    if (arrives_before(&last, &a->heap[child])) break;
    a->heap[index] = a->heap[child];
  }
  if (a->n) a->heap[index] = last;
  return first;
}

/* Between two events every stream that sends does so at a fixed rate. Events of one moment are handled together: first
 * departures and arrivals, next the streams that may send start, and finally shares are computed, once. A stream whose
 * next chunk is ready continues without that. */

#define SAME 1e-12 /* Times that differ by less than this part are equal but for rounding. */

struct sender {
  bool flows;        /* It has a share of the links. */
  double left, rate; /* The bytes left of its chunk at time `since`, and its rate in bytes/s. */
  double since, begun;
};

struct run {
  const struct by_simulator *simulator;
  const struct by_cast *cast;
  const struct by_simulate_options *options;
  struct by_simulation *out;
  struct by_traffic traffic;
  struct by_fair fair;
  struct departures departures;
  struct arrivals arrivals;
  struct sender *senders;
  double *free_at;          /* For each actor: the time when it has added all chunks that have arrived. */
  uint32_t *ended, n_ended; /* The streams whose chunk has left at this moment. */
  double now;
  struct by_arena arena;
};

/* --- Rates. --- */

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
  set_departure(&run->departures, stream, run->now + s->left / rate);
}

static void start_chunk(struct run *run, uint32_t stream, uint64_t bytes) {
  struct sender *s = &run->senders[stream];
  s->left = (double)bytes;
  s->since = s->begun = run->now;
  if (!s->flows) {
    by_fair_start(&run->fair, stream);
    s->flows = true;
    s->rate = 0;
    if (isinf(run->fair.rate[stream])) s->rate = INFINITY; /* The stream stays within a node. */
  }
  if (s->rate > 0) set_departure(&run->departures, stream, run->now + s->left / s->rate);
}

/* Starts streams that may send, stops those that have nothing more to send, and updates the shares. */
static void update_shares(struct run *run) {
  while (run->traffic.n_woken) {
    uint32_t stream = run->traffic.woken[run->traffic.n_woken - 1];
    uint64_t bytes = by_traffic_take(&run->traffic, stream);
    if (bytes) start_chunk(run, stream, bytes);
  }
  for (uint32_t i = 0; i < run->n_ended; i++) {
    uint32_t stream = run->ended[i];
    struct sender *s = &run->senders[stream];
    if (run->traffic.streams[stream].sending != BY_CAST_NONE) continue;
    by_fair_stop(&run->fair, stream);
    if (isfinite(s->rate)) log_change(run, stream, -s->rate);
    s->rate = 0;
    s->flows = false;
  }
  run->n_ended = 0;
  by_fair_share(&run->fair);
  for (uint32_t i = 0; i < run->fair.n_changed; i++) {
    uint32_t stream = run->fair.changed[i];
    if (run->senders[stream].flows) set_rate(run, stream, run->fair.rate[stream]);
  }
}

/* --- Events. --- */

static enum banyan_status handle_arrival(struct run *run, const struct by_parcel *parcel) {
  double cost = run->options->chunk_cost, *free_at = &run->free_at[parcel->actor];
  if (!(cost > 0)) {
    by_traffic_arrive(&run->traffic, parcel);
    return BANYAN_OK;
  }
  *free_at = fmax(*free_at, run->now) + cost;
  return add_arrival(&run->arrivals, *free_at, true, parcel);
}

static void report_transfer(const struct run *run, uint32_t stream, uint64_t bytes) {
  const struct by_cast_stream *s = &run->cast->streams[stream];
  const struct by_stream_paths *paths = &run->simulator->paths;
  uint32_t from = run->cast->rank[s->actor], number = paths->first_stream[from] + s->peer;
  struct by_simulated_chunk transfer = {.from = from,
                                        .to = by_roles_peer(run->cast->roles, from, s->peer),
                                        .stream = number,
                                        .begin = run->senders[stream].begun,
                                        .end = run->now,
                                        .bytes = bytes,
                                        .resources = paths->resources + paths->first[number],
                                        .n_resources = paths->first[number + 1] - paths->first[number]};
  run->options->transfer(run->options->context, &transfer);
}

static enum banyan_status handle_departure(struct run *run, uint32_t stream) {
  const struct by_fair_net *net = &run->cast->net;
  struct by_parcel parcel = by_traffic_leave(&run->traffic, stream);
  double delay = run->cast->streams[stream].delay;
  for (uint32_t u = net->first[stream]; u < net->first[stream + 1]; u++)
    run->out->carried[net->uses[u].resource] += net->uses[u].weight * (double)parcel.bytes;
  if (run->options->transfer) report_transfer(run, stream, parcel.bytes);
  run->ended[run->n_ended++] = stream;
  return delay > 0 ? add_arrival(&run->arrivals, run->now + delay, false, &parcel) : handle_arrival(run, &parcel);
}

/* Handles the events of one moment: first departures, then arrivals. */
static enum banyan_status handle_moment(struct run *run) {
  double until = run->now * (1 + SAME);
  while (run->departures.n && run->departures.at[run->departures.heap[0]] <= until)
    BY_TRY(handle_departure(run, pop_departure(&run->departures)));
  while (run->arrivals.n && run->arrivals.heap[0].at <= until) {
    struct arrival arrival = pop_arrival(&run->arrivals);
    if (arrival.added)
      by_traffic_arrive(&run->traffic, &arrival.parcel);
    else
      BY_TRY(handle_arrival(run, &arrival.parcel));
  }
  return run->traffic.failed ? NO_MEMORY : BANYAN_OK;
}

static enum banyan_status run_events(struct run *run) {
  for (;;) {
    double at = INFINITY;
    update_shares(run);
    if (run->departures.n) at = run->departures.at[run->departures.heap[0]];
    if (run->arrivals.n) at = fmin(at, run->arrivals.heap[0].at);
    if (!isfinite(at)) break;
    run->now = fmax(run->now, at);
    BY_TRY(handle_moment(run));
  }
  if (!run->traffic.steps_left) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PLAN,
                 "a simulated AllReduce stopped with %llu steps left: this is a fault of the simulator",
                 (unsigned long long)run->traffic.steps_left);
}

/* --- Running. --- */

static enum banyan_status prepare_run(struct run *run) {
  const struct by_cast *cast = run->cast;
  run->senders = BY_ARENA_ARRAY(&run->arena, struct sender, cast->n_streams);
  run->free_at = BY_ARENA_ARRAY(&run->arena, double, cast->n_actors);
  run->ended = BY_ARENA_ARRAY(&run->arena, uint32_t, cast->n_streams);
  run->departures = (struct departures){.heap = BY_ARENA_ARRAY(&run->arena, uint32_t, cast->n_streams),
                                        .index = BY_ARENA_ARRAY(&run->arena, uint32_t, cast->n_streams),
                                        .at = BY_ARENA_ARRAY(&run->arena, double, cast->n_streams)};
  run->out->carried = calloc((size_t)cast->net.n_resources + 1, sizeof *run->out->carried);
  if (run->arena.failed || !run->out->carried) return NO_MEMORY;
  for (uint32_t i = 0; i < cast->n_streams; i++) run->departures.index[i] = UINT32_MAX;
  return by_use_log_init(&run->out->use, cast->net.n_resources);
}

/* Runs the messages of levels 0 .. max_level over chunks of `chunk` bytes and fills in seconds, work, carried and use.
 * The simulator's bounds are set. */
static enum banyan_status run_levels(const struct by_simulator *simulator, const struct by_simulate_options *options,
                                     uint64_t chunk, uint32_t max_level, struct by_simulation *out) {
  struct run run = {.simulator = simulator, .cast = &simulator->cast, .options = options, .out = out};
  *out = (struct by_simulation){.simulated_chunk = chunk, .n_resources = run.cast->net.n_resources, .cast = run.cast};
  enum banyan_status status = prepare_run(&run);
  if (status == BANYAN_OK) status = by_traffic_init(&run.traffic, run.cast, chunk, max_level);
  if (status == BANYAN_OK) status = by_fair_init(&run.fair, &run.cast->net);
  if (status == BANYAN_OK) status = run_events(&run);
  out->seconds = out->use_seconds = run.now;
  out->work = run.traffic.n_chunks;
  out->n_actors = run.cast->n_actors;
  by_fair_fini(&run.fair);
  by_traffic_fini(&run.traffic);
  free(run.arrivals.heap);
  by_arena_fini(&run.arena);
  if (status != BANYAN_OK) by_simulation_fini(out);
  return status;
}

enum { CHUNK = 64 << 10, MAX_WORK = 1 << 20, MIN_LEVELS = 8 };

enum banyan_status by_simulator_init(struct by_simulator *simulator, const struct by_plan *plan,
                                     const struct by_class *class_, const struct by_topology *topology,
                                     uint32_t rotate_from) {
  *simulator = (struct by_simulator){0};
  enum banyan_status status = by_roles_init(&simulator->roles, plan, class_, rotate_from);
  if (status == BANYAN_OK) status = by_stream_paths_init(&simulator->paths, &simulator->roles, plan, topology);
  if (status == BANYAN_OK) status = by_cast_init(&simulator->cast, &simulator->paths);
  if (status != BANYAN_OK) by_simulator_fini(simulator);
  return status;
}

void by_simulator_fini(struct by_simulator *simulator) {
  by_cast_fini(&simulator->cast);
  by_stream_paths_fini(&simulator->paths);
  by_roles_fini(&simulator->roles);
}

void by_simulation_fini(struct by_simulation *simulation) {
  free(simulation->carried);
  by_use_log_fini(&simulation->use);
  *simulation = (struct by_simulation){0};
}

/* --- The amount of work. --- */

static uint64_t count_actor_chunks(const struct by_simulator *s, uint32_t actor, uint64_t chunk) {
  const struct by_schedule *schedule = by_roles_schedule(&s->roles, s->cast.rank[actor]);
  uint64_t n = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind == BY_STEP_SEND)
      n += (s->roles.bounds[step->last] - s->roles.bounds[step->first] + chunk - 1) / chunk;
  }
  return n;
}

/* Returns the number of chunks that all actors send. One rotated actor stands for all. */
static uint64_t count_chunks(const struct by_simulator *s, uint64_t chunk) {
  if (s->roles.rotated) return s->cast.n_actors * count_actor_chunks(s, 0, chunk);
  uint64_t n = 0;
  for (uint32_t a = 0; a < s->cast.n_actors; a++) n += count_actor_chunks(s, a, chunk);
  return n;
}

static uint32_t count_levels(const struct by_simulator *s) {
  uint32_t max = 0;
  for (uint32_t r = 0; r < (s->roles.rotated ? 1 : s->roles.n); r++) {
    const struct by_schedule *schedule = by_roles_schedule(&s->roles, s->roles.rotated ? s->cast.rank[0] : r);
    for (uint32_t i = 0; i < schedule->n_steps; i++)
      if (schedule->steps[i].level >= max) max = schedule->steps[i].level + 1u;
  }
  return max;
}

/* --- Approximations. --- */

/* Simulates larger chunks. The time until pipelines are full grows evenly with the size of chunks, so two sizes above
 * the requested one predict it. */
static enum banyan_status run_coarsely(const struct by_simulator *s, const struct by_simulate_options *options,
                                       uint64_t chunk, uint64_t max, struct by_simulation *out) {
  uint64_t bytes = s->roles.bounds[by_roles_schedule(&s->roles, s->cast.rank[0])->n_pieces], larger = 2 * chunk;
  struct by_simulate_options silent = *options;
  struct by_simulation twice;
  silent.transfer = NULL;
  while (larger < bytes && count_chunks(s, larger) > max) larger *= 2;
  BY_TRY(run_levels(s, &silent, 2 * larger, UINT32_MAX, &twice));
  enum banyan_status status = run_levels(s, options, larger, UINT32_MAX, out);
  if (status == BANYAN_OK) {
    double less = (twice.seconds - out->seconds) * (double)(larger - chunk) / (double)larger;
    out->seconds -= less;
    for (uint32_t i = 0; i < out->n_resources; i++) /* No link carries more than its capacity. */
      out->seconds = fmax(out->seconds, out->carried[i] / out->cast->net.capacity[i]);
    out->simulated_chunk = larger;
  }
  by_simulation_fini(&twice);
  return status;
}

/* Simulates the first rounds. A ring whose ranks differ runs at the pace of its slowest link from the start, so the
 * second half of the simulated rounds shows how long all others take. */
static enum banyan_status run_rounds(const struct by_simulator *s, const struct by_simulate_options *options,
                                     uint64_t chunk, uint32_t levels, uint32_t run, struct by_simulation *out) {
  struct by_simulate_options silent = *options;
  struct by_simulation half;
  silent.transfer = NULL;
  BY_TRY(run_levels(s, &silent, chunk, run / 2 - 1, &half));
  enum banyan_status status = run_levels(s, options, chunk, run - 1, out);
  if (status == BANYAN_OK) {
    uint32_t last_half = run - run / 2;
    double more = (double)(levels - run) / last_half;
    out->seconds += more * (out->seconds - half.seconds);
    for (uint32_t i = 0; i < out->n_resources; i++) out->carried[i] += more * (out->carried[i] - half.carried[i]);
  }
  by_simulation_fini(&half);
  return status;
}

enum banyan_status by_simulator_run(struct by_simulator *simulator, uint64_t bytes,
                                    const struct by_simulate_options *options, struct by_simulation *out) {
  uint64_t chunk = options->chunk ? options->chunk : CHUNK, max = options->max_work ? options->max_work : MAX_WORK;
  by_roles_cut(&simulator->roles, bytes);
  uint32_t levels = count_levels(simulator), run = levels;
  uint64_t work = count_chunks(simulator, chunk);
  if (work <= max) {
    BY_TRY(run_levels(simulator, options, chunk, UINT32_MAX, out));
  } else if (simulator->roles.rotated && levels > MIN_LEVELS) {
    run = (uint32_t)((double)levels * (double)max / (double)work);
    if (run < MIN_LEVELS) run = MIN_LEVELS;
    BY_TRY(run_rounds(simulator, options, chunk, levels, run, out));
  } else {
    BY_TRY(run_coarsely(simulator, options, chunk, max, out));
  }
  out->bytes = bytes;
  out->chunk = chunk;
  out->levels = levels;
  out->run = run;
  return BANYAN_OK;
}
