#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plan.h"

#define MUST(expression)                                                                                               \
  do {                                                                                                                 \
    if ((expression) != BANYAN_OK) fail_msg("%s: %s", #expression, banyan_error_text());                               \
  } while (0)

/* ---- choosing networks and engines */

void world_options(uint64_t seed, struct by_sim_options *net, struct by_engine_options *engine) {
  struct by_rng rng;
  by_rng_init(&rng, seed ^ 0xabcdef);
  *net = (struct by_sim_options){.delay = by_rng_below(&rng, 3) * 20 * BY_MICROSECOND,
                                 .jitter = by_rng_below(&rng, 2) * 100 * BY_MICROSECOND,
                                 .loss = by_rng_below(&rng, 3) ? 0 : 0.02,
                                 .bandwidth = by_rng_below(&rng, 2) ? 1e9 : 0,
                                 .buffer = (size_t)256 << by_rng_below(&rng, 9),
                                 .frame_bytes = (size_t)256 << by_rng_below(&rng, 7),
                                 .split = by_rng_below(&rng, 2),
                                 .offer_from = by_rng_below(&rng, 3) ? 0 : 2048,
                                 .in_place_from = by_rng_below(&rng, 2) ? 0 : 1024,
                                 .map_fails = by_rng_below(&rng, 2) ? 0 : 0.1,
                                 .keeps = by_rng_below(&rng, 2) ? 0 : 0.3,
                                 .holds = by_rng_below(&rng, 2)};
  *engine = (struct by_engine_options){.eager_limit = (size_t)4096 << by_rng_below(&rng, 4),
                                       .block = (size_t)4096 << by_rng_below(&rng, 3)};
  engine->link_credit = engine->eager_limit * (1 + by_rng_below(&rng, 4));
  engine->window = engine->eager_limit << by_rng_below(&rng, 3);
  engine->spread = (size_t)512 << by_rng_below(&rng, 5);
}

/* ---- making a world */

static void connect_nodes(void *context, uint32_t process) {
  struct node *node = context, *other = &node->world->nodes[process];
  if (by_engine_peer(node->engine, process).attached) return;
  struct world *world = node->world;
  if (world->fabric && process >= world->n) {
    MUST(by_engine_attach_fabric(node->engine, process, 0, world->fabric(world->fabric_context, node->rank)));
    return;
  }
  struct by_lane *here[BY_LANES], *there[BY_LANES];
  uint32_t n = world->most_lanes > 1 ? 1 + (uint32_t)by_rng_below(&world->rng, world->most_lanes) : 1;
  for (uint32_t i = 0; i < n; i++) {
    MUST(by_sim_link(world->sim, &here[i], &there[i]));
    if (n > 1)
      by_sim_shape(here[i], by_rng_below(&world->rng, 200) * BY_MICROSECOND,
                   1e7 * (1 + 100 * by_rng_unit(&world->rng)));
    if (node->dead) by_sim_kill(here[i]);
    if (other->dead) by_sim_kill(there[i]);
  }
  by_engine_attach(node->engine, process, here, n);
  by_engine_attach(other->engine, node->rank, there, n);
}

/* Stands for the control connections: all ranks learn of the failure. */
static bool notify_all(void *context, enum banyan_status status, uint32_t process, const char *text) {
  struct node *node = context;
  char copy[512];
  snprintf(copy, sizeof copy, "%s", text);
  for (uint32_t r = 0; r < node->world->n; r++)
    if (!node->world->nodes[r].dead) by_engine_fail(node->world->nodes[r].engine, status, process, copy);
  return false;
}

/* Stands for rank 0's notice: all ranks learn of the death some time later, from outside of the engine. */
static bool suspect(void *context, uint32_t process, const char *text) {
  const struct node *node = context;
  struct world *world = node->world;
  (void)text;
  if (process < world->n) return false;
  for (uint32_t i = 0; i < world->n + world->n_helpers; i++) world->nodes[i].learns[process] = true;
  return true;
}

static void make_team(struct node *node, struct by_plan *plan) {
  struct world *world = node->world;
  uint32_t all[WORLD_MOST];
  for (uint32_t r = 0; r < WORLD_MOST; r++) all[r] = r;
  MUST(by_team_create(node->engine, 0, node->rank, world->n, all, &node->team));
  if (plan->vertices[node->rank].kind == BY_VERTEX_SERVER) /* the server runs no schedule */
    by_plan_destroy(plan);
  else if (plan->n_vertices > plan->n_ranks)
    MUST(by_team_set_helped_plan(node->team, plan, all + world->n, 0));
  else
    by_team_set_plan(node->team, plan);
}

struct named {
  const char *name;
  uint32_t n;
};

static struct by_plan *make_builtin(void *context) {
  const struct named *named = context;
  struct by_plan *plan = NULL;
  MUST(by_plan_builtin(named->name, named->n, &plan));
  return plan;
}

static void make_node(struct world *world, uint32_t r, const struct by_engine_options *engine) {
  struct node *node = &world->nodes[r];
  node->world = world;
  node->rank = r;
  struct by_engine_options options = *engine;
  options.clock = by_sim_clock(world->sim);
  options.locate = by_sim_locate;
  options.processes = world->n + world->n_helpers;
  options.ranks = world->n;
  options.suspects = suspect;
  options.self = r;
  options.connect = connect_nodes;
  options.failed = notify_all;
  options.context = node;
  MUST(by_engine_create(&options, &node->engine));
}

uint32_t world_add_helper(struct world *world, const struct by_engine_options *engine) {
  uint32_t ranks[WORLD_MOST], helper = world->n + world->n_helpers++;
  for (uint32_t r = 0; r < world->n; r++) ranks[r] = r;
  for (uint32_t r = 0; r < helper; r++) MUST(by_engine_add(world->nodes[r].engine));
  make_node(world, helper, engine);
  MUST(by_team_create(world->nodes[helper].engine, 0, helper, world->n, ranks, &world->nodes[helper].team));
  return helper;
}

void world_init(struct world *world, uint32_t n, const char *plan, const struct by_sim_options *net,
                const struct by_engine_options *engine, uint64_t seed) {
  struct named named = {plan, n};
  world_init_helped(world, n, 0, make_builtin, &named, net, engine, seed);
}

void world_init_helped(struct world *world, uint32_t n, uint32_t n_helpers, struct by_plan *(*plan)(void *context),
                       void *context, const struct by_sim_options *net, const struct by_engine_options *engine,
                       uint64_t seed) {
  memset(world, 0, sizeof *world);
  world->n = n;
  world->n_helpers = n_helpers;
  world->seed = seed;
  world->kill_rank = UINT32_MAX;
  world->most_lanes = 1;
  by_rng_init(&world->rng, seed);
  struct by_sim_options net_options = *net;
  net_options.seed = seed;
  MUST(by_sim_create(&net_options, &world->sim));
  for (uint32_t r = 0; r < n + n_helpers; r++) make_node(world, r, engine);
  for (uint32_t r = 0; r < n + n_helpers; r++) make_team(&world->nodes[r], plan(context));
}

/* ---- values: every rank and element has a small number of its own; sums are exact in all types */

static int value(uint32_t operation, uint32_t rank, size_t element) {
  uint64_t x = (uint64_t)operation * 1000003u + rank * 7919u + element * 31u;
  x ^= x >> 7;
  return (int)(x % 11) - 3;
}

static void put(enum banyan_dtype dtype, char *at, size_t i, double v) {
  if (dtype == BANYAN_FLOAT32) ((float *)(void *)at)[i] = (float)v;
  if (dtype == BANYAN_FLOAT64) ((double *)(void *)at)[i] = v;
  if (dtype == BANYAN_INT32) ((int32_t *)(void *)at)[i] = (int32_t)v;
  if (dtype == BANYAN_INT64) ((int64_t *)(void *)at)[i] = (int64_t)v;
  if (dtype == BANYAN_INT8) ((int8_t *)at)[i] = (int8_t)v;
  if (dtype == BANYAN_UINT8) ((uint8_t *)at)[i] = (uint8_t)(int)v;
}

static double get(enum banyan_dtype dtype, const char *at, size_t i) {
  if (dtype == BANYAN_FLOAT32) return (double)((const float *)(const void *)at)[i];
  if (dtype == BANYAN_FLOAT64) return ((const double *)(const void *)at)[i];
  if (dtype == BANYAN_INT32) return ((const int32_t *)(const void *)at)[i];
  if (dtype == BANYAN_INT64) return (double)((const int64_t *)(const void *)at)[i];
  if (dtype == BANYAN_INT8) return ((const int8_t *)at)[i];
  return ((const uint8_t *)at)[i];
}

/* Scales a value so that no floating type holds it exactly. Integer types truncate it. */
static double roughen(const struct world *world, double v) {
  return world->rough ? v * (1 + 1.0 / 3) : v;
}

static bool is_float(enum banyan_dtype dtype) {
  return dtype == BANYAN_FLOAT32 || dtype == BANYAN_FLOAT64;
}

static size_t block_of(const struct operation *operation, uint32_t rank) {
  return operation->call.counts ? operation->counts[rank] : operation->call.count;
}

static size_t before(const struct operation *operation, uint32_t rank) {
  size_t sum = 0;
  for (uint32_t r = 0; r < rank; r++) sum += block_of(operation, r);
  return sum;
}

static size_t send_count(const struct world *world, const struct operation *operation, uint32_t rank) {
  switch (operation->call.collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_ALLTOALL:
  case BANYAN_SCATTER: return before(operation, world->n);
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: return block_of(operation, rank);
  default: return operation->call.count;
  }
}

static size_t recv_count(const struct world *world, const struct operation *operation, uint32_t rank) {
  switch (operation->call.collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_SCATTER: return block_of(operation, rank);
  case BANYAN_ALLTOALL:
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: return before(operation, world->n);
  default: return operation->call.count;
  }
}

static double fold(const struct world *world, const struct operation *operation, uint32_t index, size_t element) {
  double sum = operation->call.op == BANYAN_MIN ? 1e9 : operation->call.op == BANYAN_MAX ? -1e9 : 0;
  for (uint32_t r = 0; r < world->n; r++) {
    double v = value(index, r, element);
    if (operation->call.op == BANYAN_MIN) sum = v < sum ? v : sum;
    if (operation->call.op == BANYAN_MAX) sum = v > sum ? v : sum;
    if (operation->call.op == BANYAN_SUM || operation->call.op == BANYAN_AVERAGE)
      sum += v * (operation->call.scale ? operation->call.scale : 1);
  }
  return operation->call.op == BANYAN_AVERAGE ? sum / world->n : sum;
}

/* Computes what element i of a rank's result must be. Returns false if this rank gets no result. */
static bool expected(const struct world *world, uint32_t index, uint32_t rank, size_t i, double *out) {
  const struct operation *operation = &world->operations[index];
  uint32_t root = (uint32_t)operation->call.root;
  uint32_t owner = 0;
  switch (operation->call.collective) {
  case BANYAN_REDUCE: *out = fold(world, operation, index, i); return rank == root;
  case BANYAN_ALLREDUCE: *out = fold(world, operation, index, i); return true;
  case BANYAN_REDUCE_SCATTER: *out = fold(world, operation, index, before(operation, rank) + i); return true;
  case BANYAN_BROADCAST: *out = value(index, root, i); return true;
  case BANYAN_SCATTER: *out = value(index, root, before(operation, rank) + i); return true;
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER:
    while (before(operation, owner + 1) <= i) owner++;
    *out = value(index, owner, i - before(operation, owner));
    return operation->call.collective == BANYAN_ALLGATHER || rank == root;
  case BANYAN_ALLTOALL:
    owner = (uint32_t)(i / operation->call.count);
    *out = value(index, owner, rank * operation->call.count + i % operation->call.count);
    return true;
  default: return false;
  }
}

/* ---- the end of calls, and of a world */

/* Whatever became of a call, its input is as it was, unless it was in place. */
static void check_input(const struct world *world, uint32_t d, const struct node *node) {
  const struct operation *operation = &world->operations[d];
  const struct banyan_call *call = &operation->call;
  if (!node->send[d] || operation->in_place || call->collective == BANYAN_BROADCAST) return;
  size_t count = send_count(world, operation, node->rank), size = banyan_dtype_size(call->dtype);
  char *wanted = malloc(count * size + 1);
  assert_non_null(wanted);
  for (size_t i = 0; i < count; i++) put(call->dtype, wanted, i, roughen(world, value(d, node->rank, i)));
  if (memcmp(wanted, node->send[d], count * size) != 0)
    fail_msg("seed %llu, operation %u (%s), n %u, rank %u: the input was changed", (unsigned long long)world->seed, d,
             banyan_collective_name(call->collective), world->n, node->rank);
  free(wanted);
}

void world_clear(struct world *world) {
  for (uint32_t d = 0; d < world->n_operations; d++)
    for (uint32_t r = 0; r < world->n; r++) check_input(world, d, &world->nodes[r]);
  for (uint32_t r = 0; r < world->n; r++) {
    struct node *node = &world->nodes[r];
    for (uint32_t d = 0; d < world->n_operations; d++) {
      if (node->calls[d]) by_call_release(node->calls[d]);
      node->calls[d] = NULL;
      if (node->recv[d] != node->send[d]) free(node->recv[d]);
      free(node->send[d]);
      node->send[d] = node->recv[d] = NULL;
    }
    node->started = 0;
  }
}

void world_fini(struct world *world) {
  world_clear(world);
  for (uint32_t r = 0; r < world->n + world->n_helpers; r++) by_engine_destroy(world->nodes[r].engine);
  by_sim_destroy(world->sim);
}

/* ---- running calls */

static void start_operation(struct world *world, struct node *node) {
  uint32_t index = node->started++;
  struct operation *operation = &world->operations[index];
  struct banyan_call call = operation->call;
  size_t element = banyan_dtype_size(call.dtype), out = send_count(world, operation, node->rank),
         in = recv_count(world, operation, node->rank);
  size_t most = out > in ? out : in;
  node->send[index] = malloc(most * element + 8);
  node->recv[index] = operation->in_place ? node->send[index] : malloc(most * element + 8);
  if (!operation->in_place) memset(node->recv[index], 0x5a, most * element + 8);
  bool broadcast = call.collective == BANYAN_BROADCAST;
  char *fill = broadcast ? node->recv[index] : node->send[index];
  for (size_t i = 0; i < out && !(broadcast && (uint32_t)call.root != node->rank); i++)
    put(call.dtype, fill, i, roughen(world, value(index, node->rank, i)));
  call.send = node->send[index];
  call.recv = node->recv[index];
  if (call.counts) call.counts = operation->counts;
  enum banyan_status status = by_engine_start(node->team, &call, 0, &node->calls[index]);
  if (status != BANYAN_OK && by_engine_status(node->engine) == BANYAN_OK)
    fail_msg("seed %llu: start: %s", (unsigned long long)world->seed, banyan_error_text());
}

static bool finished(const struct world *world) {
  for (uint32_t r = 0; r < world->n; r++) {
    const struct node *node = &world->nodes[r];
    if (node->dead || by_engine_status(node->engine) != BANYAN_OK) continue;
    if (node->started < world->n_operations) return false;
    for (uint32_t d = 0; d < world->n_operations; d++)
      if (node->calls[d] && !by_call_ended(node->calls[d])) return false;
  }
  return true;
}

static void die(void *context, uint32_t process, struct by_lane *lane) {
  (void)process;
  (void)context;
  by_sim_kill(lane);
}

static bool receive(struct world *world, struct node *node, bool eager) {
  bool received = false;
  for (uint32_t i = world->n; i < world->n + world->n_helpers; i++) {
    if (!node->learns[i]) continue;
    received = true; /* the node has something to do */
    if (!eager && by_rng_below(&world->rng, 6)) continue;
    node->learns[i] = false;
    by_engine_lost(node->engine, i);
  }
  return received;
}

static void kill_one(struct world *world) {
  struct node *victim = &world->nodes[world->kill_rank];
  victim->dead = true;
  by_engine_visit_lanes(victim->engine, die, NULL);
  if (!world->deaths) return;
  world->deaths--;
  world->kill_rank = world->n + (uint32_t)by_rng_below(&world->rng, world->n_helpers);
  world->kill_turn = world->turns + by_rng_below(&world->rng, 200);
}

static bool one_turn(struct world *world, bool eager) {
  bool progressed = false;
  uint32_t all = world->n + world->n_helpers;
  for (uint32_t i = 0; i < all; i++) {
    struct node *node = &world->nodes[by_rng_below(&world->rng, all)];
    if (node->dead) continue;
    progressed |= receive(world, node, eager);
    if (node->rank < world->n && node->started < world->n_operations && (eager || by_rng_below(&world->rng, 8) == 0)) {
      start_operation(world, node);
      progressed = true;
    }
    progressed |= by_engine_progress(node->engine);
    if (world->take_turn) progressed |= world->take_turn(world->turn_context, node);
    if (world->turns++ == world->kill_turn && world->kill_rank != UINT32_MAX) {
      kill_one(world);
      progressed = true;
    }
  }
  return progressed;
}

bool world_run(struct world *world) {
  uint32_t still = 0;
  while (!finished(world)) {
    if (one_turn(world, still > 200)) {
      still = 0;
      continue;
    }
    if (++still < 50) continue;
    uint64_t next = world->next ? world->next(world->fabric_context) : UINT64_MAX;
    if (by_sim_step_to(world->sim, next)) continue;
    if (still > (next == UINT64_MAX ? 2000 : 100000)) return false; /* pending work needs the node's turn */
  }
  return true;
}

/* Compares the bits of results that all ranks get. */
static void check_bits(struct world *world, uint32_t d) {
  const struct operation *operation = &world->operations[d];
  size_t bytes = operation->call.count * banyan_dtype_size(operation->call.dtype);
  if (operation->call.collective != BANYAN_ALLREDUCE || !is_float(operation->call.dtype)) return;
  for (uint32_t r = 1; r < world->n; r++)
    if (memcmp(world->nodes[0].recv[d], world->nodes[r].recv[d], bytes) != 0)
      fail_msg("seed %llu, operation %u: ranks 0 and %u have other bits", (unsigned long long)world->seed, d, r);
}

void world_check(struct world *world) {
  for (uint32_t d = 0; d < world->n_operations; d++) check_bits(world, d);
  for (uint32_t r = 0; r < world->n; r++) {
    struct node *node = &world->nodes[r];
    for (uint32_t d = 0; d < world->n_operations; d++) {
      const struct operation *operation = &world->operations[d];
      if (by_call_result(node->calls[d]) != BANYAN_OK) fail_msg("rank %u: %s", r, banyan_error_text());
      for (size_t i = 0; i < recv_count(world, operation, r); i++) {
        double want, got = get(operation->call.dtype, node->recv[d], i);
        if (!expected(world, d, r, i, &want)) break;
        want = roughen(world, want);
        if (operation->call.dtype == BANYAN_UINT8) want = (double)(uint8_t)(int)want;
        double error = operation->call.op == BANYAN_AVERAGE || operation->call.scale != 0 ? 1e-5 : 0;
        if (world->rough) error = 1e-3;
        if (got - want > error || want - got > error)
          fail_msg("seed %llu, operation %u (%s), n %u, rank %u: element %zu of %zu is %g, must be %g",
                   (unsigned long long)world->seed, d, banyan_collective_name(operation->call.collective), world->n, r,
                   i, recv_count(world, operation, r), got, want);
      }
    }
  }
}
