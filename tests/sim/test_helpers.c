/* Plans with helpers in memory: results, deaths of helpers at any moment, and the same bits on all ranks, in whatever
 * order the ranks learn of the deaths. */
#include <stdlib.h>
#include <string.h>

#include "../prop/schedule_plans.h"
#include "check.h"
#include "history.h"
#include "world.h"

struct shape {
  uint64_t seed;
  uint32_t n, n_helpers;
};

static struct by_plan *make_plan(void *context) {
  const struct shape *shape = context;
  struct by_rng rng;
  by_rng_init(&rng, shape->seed);
  return random_helped_plan(&rng, shape->n, shape->n_helpers);
}

static void choose_operation(struct world *world, struct operation *operation, size_t most, bool rough) {
  struct by_rng *rng = &world->rng;
  static const enum banyan_collective often[] = {BANYAN_ALLREDUCE, BANYAN_ALLREDUCE, BANYAN_REDUCE, BANYAN_BROADCAST,
                                                 BANYAN_BARRIER};
  enum banyan_collective collective = often[by_rng_below(rng, 5)];
  if (by_rng_below(rng, 6) == 0) collective = (enum banyan_collective)by_rng_below(rng, BANYAN_BARRIER + 1);
  size_t count = by_rng_below(rng, 4) ? by_rng_below(rng, most) : by_rng_below(rng, 5);
  if (collective >= BANYAN_REDUCE_SCATTER && collective != BANYAN_BARRIER) count /= world->n;
  *operation =
      (struct operation){.call = {.collective = collective, .count = count, .root = (int)by_rng_below(rng, world->n)}};
  static const enum banyan_op ops[] = {BANYAN_SUM, BANYAN_SUM, BANYAN_MAX, BANYAN_AVERAGE};
  operation->call.op = ops[by_rng_below(rng, 4)];
  operation->call.dtype = by_rng_below(rng, 2) ? BANYAN_FLOAT32 : BANYAN_FLOAT64;
  if (!rough && by_rng_below(rng, 3) == 0) operation->call.dtype = BANYAN_INT32;
  if (operation->call.dtype == BANYAN_INT32) operation->call.op = BANYAN_SUM;
  if (operation->call.dtype != BANYAN_INT32 && collective <= BANYAN_REDUCE && operation->call.op == BANYAN_SUM &&
      by_rng_below(rng, 3) == 0)
    operation->call.scale = 0.5;
  operation->in_place = collective <= BANYAN_REDUCE && by_rng_below(rng, 2);
}

/* Helpers keep no data once the ranks have finished. */
static void check_helpers(struct world *world) {
  for (int i = 0; i < 100; i++) {
    for (uint32_t h = world->n; h < world->n + world->n_helpers; h++)
      if (!world->nodes[h].dead) by_engine_progress(world->nodes[h].engine);
    for (uint32_t r = 0; r < world->n; r++) by_engine_progress(world->nodes[r].engine);
    by_sim_step(world->sim);
  }
  for (uint32_t h = world->n; h < world->n + world->n_helpers; h++) {
    const struct by_engine *engine = world->nodes[h].engine;
    if (world->nodes[h].dead) continue;
    if (by_engine_status(engine) != BANYAN_OK)
      fail_msg("seed %llu: helper %u: %s", (unsigned long long)world->seed, h, by_engine_get_state(engine)->error);
    if (by_engine_get_state(engine)->pending)
      fail_msg("seed %llu: helper %u still works", (unsigned long long)world->seed, h);
  }
}

static void run_world(struct world *world) {
  unsigned long long seed = world->seed;
  if (!world_run(world)) fail_msg("seed %llu: deadlock with %u ranks", seed, world->n);
  for (uint32_t r = 0; r < world->n; r++)
    if (by_engine_status(world->nodes[r].engine) != BANYAN_OK)
      fail_msg("seed %llu: rank %u: %s", seed, r, by_engine_get_state(world->nodes[r].engine)->error);
  world_check(world);
}

/* Runs calls with `deaths` deaths of helpers at random moments. */
static void one_seed(uint64_t seed, uint32_t deaths) {
  struct by_sim_options net;
  struct by_engine_options engine;
  struct by_rng rng;
  by_rng_init(&rng, seed);
  world_options(seed, &net, &engine);
  engine.relay_memory = by_rng_below(&rng, 2) ? 0 : 1 + by_rng_below(&rng, 20000);
  struct shape shape = {
      .seed = seed, .n = 1 + (uint32_t)by_rng_below(&rng, 7), .n_helpers = 1 + (uint32_t)by_rng_below(&rng, 3)};
  struct world *world = calloc(1, sizeof *world);
  world_init_helped(world, shape.n, shape.n_helpers, make_plan, &shape, &net, &engine, seed);
  world->most_lanes = by_rng_below(&rng, 2) ? 4 : 1;
  world->rough = by_rng_below(&rng, 2);
  world->deaths = deaths ? deaths - 1 : 0;
  if (deaths) {
    world->kill_rank = shape.n + (uint32_t)by_rng_below(&rng, shape.n_helpers);
    world->kill_turn = by_rng_below(&rng, by_rng_below(&rng, 2) ? 100 : 600);
  }
  for (int round = 0; round < 3; round++) {
    world->n_operations = 1 + (uint32_t)by_rng_below(&rng, 5);
    for (uint32_t d = 0; d < world->n_operations; d++)
      choose_operation(world, &world->operations[d], 6000, world->rough);
    run_world(world);
    if (round == 2) check_helpers(world);
    world_clear(world);
  }
  world_fini(world);
  free(world);
}

static void test_helpers(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(150); seed++) one_seed(seed, 0);
}

static void test_deaths(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(300); seed++) one_seed(seed, 1 + (uint32_t)(seed % 3));
}

/* A rank dies: the others' calls fail, and whatever helpers had of them, world_clear finds their inputs unchanged. */
static void test_rank_dies(void **state) {
  (void)state;
  uint32_t failed = 0;
  for (uint64_t seed = 1; seed <= check_seeds(200); seed++) {
    struct by_sim_options net;
    struct by_engine_options engine;
    struct by_rng rng;
    by_rng_init(&rng, seed);
    world_options(seed, &net, &engine);
    struct shape shape = {
        .seed = seed, .n = 2 + (uint32_t)by_rng_below(&rng, 6), .n_helpers = 1 + (uint32_t)by_rng_below(&rng, 3)};
    struct world *world = calloc(1, sizeof *world);
    world_init_helped(world, shape.n, shape.n_helpers, make_plan, &shape, &net, &engine, seed);
    world->kill_rank = (uint32_t)by_rng_below(&rng, shape.n);
    world->kill_turn = by_rng_below(&rng, 400);
    world->n_operations = 3;
    for (uint32_t d = 0; d < 3; d++) choose_operation(world, &world->operations[d], 6000, false);
    if (!world_run(world)) fail_msg("seed %llu: hangs after a death", (unsigned long long)seed);
    for (uint32_t r = 0; r < shape.n; r++)
      failed += !world->nodes[r].dead && by_engine_status(world->nodes[r].engine) != BANYAN_OK;
    world_fini(world);
    free(world);
  }
  assert_true(failed > 0);
}

/* Repeated calls allocate nothing on ranks and helpers, except memory for frames that arrive before their call. The
 * number of such frames depends on timing. */
static void test_no_allocation(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  for (uint64_t seed = 1; seed <= check_seeds(10); seed++) {
    struct shape shape = {.seed = seed, .n = 4, .n_helpers = 2};
    struct world *world = calloc(1, sizeof *world);
    world_init_helped(world, 4, 2, make_plan, &shape, &net, &engine, seed);
    struct banyan_counters warm[6], after;
    for (int round = 0; round < 8; round++) {
      world->n_operations = 1;
      world->operations[0] =
          (struct operation){.call = {.collective = BANYAN_ALLREDUCE, .count = 300000}, .in_place = true};
      run_world(world);
      world_clear(world);
      for (uint32_t r = 0; r < 6 && round == 3; r++) by_engine_counters(world->nodes[r].engine, &warm[r]);
    }
    for (uint32_t r = 0; r < 6; r++) {
      by_engine_counters(world->nodes[r].engine, &after);
      if (after.allocations > warm[r].allocations + 4)
        fail_msg("seed %llu, node %u: %llu allocations in warm calls", (unsigned long long)seed, r,
                 (unsigned long long)(after.allocations - warm[r].allocations));
    }
    world_fini(world);
    free(world);
  }
}

/* Small calls are made among ranks alone. */
static struct by_plan *make_partly_helped_plan(void *context) {
  const struct shape *shape = context;
  struct by_rng rng;
  struct by_plan *made, *plan;
  by_rng_init(&rng, shape->seed);
  assert_ok(by_plan_create("partly helped", &made));
  assert_ok(by_plan_add_vertices(made, shape->n, 1));
  made->vertices[shape->n].name = "h0";
  assert_ok(by_plan_add_classes(made, 2, 0));
  made->classes[0].up_to = 1024;
  for (int c = 0; c < 2; c++) {
    assert_ok(by_plan_add_groups(made, &made->classes[c], 1));
    (c ? random_helped_group : random_group)(&rng, made, made->classes[c].groups);
    made->classes[c].groups[0].share = 1;
  }
  assert_ok(by_plan_end(made, BANYAN_OK, &plan));
  return plan;
}

/* Calls are noted by the plan in use, also those of sizes for which it has no helpers. */
static void test_times(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  for (uint64_t seed = 1; seed <= check_seeds(10); seed++) {
    struct shape shape = {.seed = seed, .n = 4, .n_helpers = 1};
    struct world *world = calloc(1, sizeof *world);
    world_init_helped(world, 4, 1, make_partly_helped_plan, &shape, &net, &engine, seed);
    struct by_clock clock = by_sim_clock(world->sim);
    struct by_call_times times = {.clock = &clock};
    by_engine_time_calls(world->nodes[0].engine, &times);
    for (uint32_t i = 0, count = 1; i < 6; i++, count *= 10) {
      world->n_operations = 1;
      world->operations[0] = (struct operation){.call = {.collective = BANYAN_ALLREDUCE, .count = count}};
      run_world(world);
      world_clear(world);
      assert_int_equal(times.n, i + 1);
      assert_int_equal(times.last[i].plan, by_team_plan(world->nodes[0].team)->version);
    }
    by_engine_time_calls(world->nodes[0].engine, NULL);
    world_fini(world);
    free(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_helpers),       cmocka_unit_test(test_deaths), cmocka_unit_test(test_rank_dies),
      cmocka_unit_test(test_no_allocation), cmocka_unit_test(test_times),
  };
  return cmocka_run_group_tests_name("helpers over simulated links", tests, NULL, NULL);
}
