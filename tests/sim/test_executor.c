/* Whole collectives in memory: every plan family, size and network, many calls at once, ranks that come late, tiny
 * buffers, and deaths at every point. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "history.h"
#include "world.h"

static const char *const families[] = {"star",        "sharded", "ring",     "chain",    "tree:2",
                                       "double-tree", "halving", "doubling", "exchange", "exchange:3"};
enum { FAMILIES = sizeof families / sizeof *families };

static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_INT32, BANYAN_INT64, BANYAN_FLOAT64, BANYAN_UINT8};

static void choose_operation(struct world *world, struct operation *operation, size_t most) {
  struct by_rng *rng = &world->rng;
  enum banyan_collective collective = (enum banyan_collective)by_rng_below(rng, BANYAN_BARRIER + 1);
  size_t count = by_rng_below(rng, 4) ? by_rng_below(rng, most) : by_rng_below(rng, 5);
  bool blocks =
      collective == BANYAN_REDUCE_SCATTER || (collective >= BANYAN_ALLGATHER && collective <= BANYAN_ALLTOALL);
  if (blocks) count = count / world->n + by_rng_below(rng, 2);
  *operation = (struct operation){.call = {.collective = collective, .count = count}};
  operation->call.dtype = dtypes[by_rng_below(rng, sizeof dtypes / sizeof *dtypes)];
  static const enum banyan_op ops[] = {BANYAN_SUM, BANYAN_SUM, BANYAN_MIN, BANYAN_MAX, BANYAN_AVERAGE};
  operation->call.op = ops[by_rng_below(rng, 5)];
  if (operation->call.dtype == BANYAN_UINT8 || operation->call.dtype == BANYAN_INT32 ||
      operation->call.dtype == BANYAN_INT64) {
    if (operation->call.op == BANYAN_AVERAGE || operation->call.dtype == BANYAN_UINT8) operation->call.op = BANYAN_SUM;
  } else if (collective <= BANYAN_REDUCE && operation->call.op == BANYAN_SUM && by_rng_below(rng, 3) == 0) {
    operation->call.scale = 0.5;
  }
  operation->call.root = (int)by_rng_below(rng, world->n);
  operation->in_place = collective <= BANYAN_REDUCE && by_rng_below(rng, 2);
  bool variable = blocks && collective != BANYAN_ALLTOALL && by_rng_below(rng, 2);
  for (uint32_t r = 0; r < world->n && variable; r++) operation->counts[r] = by_rng_below(rng, 2 * count + 2);
  if (variable) operation->call.counts = operation->counts;
}

static void run_world(struct world *world, uint64_t seed) {
  if (!world_run(world)) fail_msg("seed %llu: deadlock with %u ranks", (unsigned long long)seed, world->n);
  for (uint32_t r = 0; r < world->n; r++)
    if (by_engine_status(world->nodes[r].engine) != BANYAN_OK)
      fail_msg("seed %llu: rank %u: %s", (unsigned long long)seed, r,
               by_engine_get_state(world->nodes[r].engine)->error);
  world_check(world);
}

static uint32_t random_lanes(struct by_rng *rng) {
  return by_rng_below(rng, 2) ? 4 : 1;
}

static void one_seed(uint64_t seed, uint32_t most_ranks, size_t most_count) {
  struct by_sim_options net;
  struct by_engine_options engine;
  world_options(seed, &net, &engine);
  struct by_rng rng;
  by_rng_init(&rng, seed);
  uint32_t n = 1 + (uint32_t)by_rng_below(&rng, most_ranks);
  struct world *world = calloc(1, sizeof *world);
  world_init(world, n, families[by_rng_below(&rng, FAMILIES)], &net, &engine, seed);
  world->most_lanes = random_lanes(&rng);
  for (int round = 0; round < 2; round++) {
    world->n_operations = 1 + (uint32_t)by_rng_below(&rng, 6);
    for (uint32_t d = 0; d < world->n_operations; d++) choose_operation(world, &world->operations[d], most_count);
    run_world(world, seed);
    world_clear(world);
  }
  world_fini(world);
  free(world);
}

static void test_random_calls(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(400); seed++) one_seed(seed, 9, 6000);
}

static void test_many_ranks(void **state) {
  (void)state;
  for (uint64_t seed = 100001; seed <= 100000 + check_seeds(400) / 20; seed++) one_seed(seed, 33, 20000);
}

/* Tries every plan family and every collective, with rank counts around powers of two. */
static void test_all_families(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9};
  for (int f = 0; f < FAMILIES; f++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      struct world *world = calloc(1, sizeof *world);
      world_init(world, sizes[s], families[f], &net, &engine, 7);
      world->n_operations = BANYAN_BARRIER + 1;
      for (uint32_t d = 0; d < world->n_operations; d++)
        world->operations[d] = (struct operation){.call = {.collective = (enum banyan_collective)d,
                                                           .count = 1003,
                                                           .dtype = BANYAN_FLOAT32,
                                                           .root = (int)sizes[s] / 2}};
      run_world(world, 7);
      world_fini(world);
      free(world);
    }
}

/* Large blocks of sums are messages of their own, small ones are not; calls of both kinds are under way at once, one of
 * them with blocks of different sizes, some empty. */
static void test_large_blocks(void **state) {
  enum { RANKS = 5, LARGE = 40000 };
  static const char *const trees[] = {"star", "chain", "tree:2", "double-tree"};
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  (void)state;
  for (size_t t = 0; t < sizeof trees / sizeof *trees; t++) {
    struct world *world = calloc(1, sizeof *world);
    world_init(world, RANKS, trees[t], &net, &engine, 9);
    world->n_operations = 4;
    for (uint32_t d = 0; d < world->n_operations; d++)
      world->operations[d] = (struct operation){
          .call = {.collective = BANYAN_REDUCE_SCATTER, .count = d % 2 ? LARGE : 100, .dtype = BANYAN_FLOAT32}};
    struct operation *uneven = &world->operations[2];
    for (uint32_t r = 0; r < RANKS; r++) uneven->counts[r] = r % 2 ? 0 : 2 * LARGE;
    uneven->call.counts = uneven->counts;
    run_world(world, 9);
    world_fini(world);
    free(world);
  }
}

static void set_chunk(struct world *world, size_t chunk) {
  for (uint32_t r = 0; r < world->n; r++) {
    struct by_plan *plan = NULL;
    assert_int_equal(by_plan_builtin("double-tree", world->n, &plan), BANYAN_OK);
    plan->chunk = chunk;
    by_team_set_plan(world->nodes[r].team, plan);
  }
}

/* A plan's chunk size limits the payload of a frame. */
static void test_chunk(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  static const size_t chunks[] = {0, 1000, 3, 1 << 30};
  for (int i = 0; i < 4; i++) {
    struct world *world = calloc(1, sizeof *world);
    world_init(world, 4, "double-tree", &net, &engine, 5);
    set_chunk(world, chunks[i]);
    world->n_operations = 1;
    world->operations[0] =
        (struct operation){.call = {.collective = BANYAN_ALLREDUCE, .count = 3000, .dtype = BANYAN_FLOAT32}};
    run_world(world, 5);
    for (uint32_t r = 0; r < 4; r++) {
      struct banyan_counters counters;
      by_engine_counters(world->nodes[r].engine, &counters);
      size_t most = chunks[i] && chunks[i] < 16 << 10 ? chunks[i] : 16 << 10;
      assert_true(counters.frames_sent * most >= counters.bytes_sent);
      if (most > 10000) assert_true(counters.frames_sent < 10);
    }
    world_fini(world);
    free(world);
  }
}

/* Nobody takes the parts of a message for too many, though a plan wants small ones, which overtake each other. */
static void test_small_parts(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
    struct by_engine_options engine = {.spread = 512};
    struct world *world = calloc(1, sizeof *world);
    world_init(world, 2, "double-tree", &net, &engine, seed);
    world->most_lanes = BY_LANES;
    set_chunk(world, 3);
    world->n_operations = 1;
    world->operations[0] =
        (struct operation){.call = {.collective = BANYAN_ALLREDUCE, .count = 20000, .dtype = BANYAN_FLOAT32}};
    run_world(world, seed);
    world_fini(world);
    free(world);
  }
}

/* A rank dies at any moment. All others end with an error that names it, and none hangs. */
static void test_deaths(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(400); seed++) {
    struct by_sim_options net;
    struct by_engine_options engine;
    world_options(seed, &net, &engine);
    struct by_rng rng;
    by_rng_init(&rng, seed);
    uint32_t n = 2 + (uint32_t)by_rng_below(&rng, 7);
    struct world *world = calloc(1, sizeof *world);
    world_init(world, n, families[by_rng_below(&rng, FAMILIES)], &net, &engine, seed);
    world->most_lanes = random_lanes(&rng);
    world->n_operations = 3;
    for (uint32_t d = 0; d < 3; d++) choose_operation(world, &world->operations[d], 6000);
    world->kill_rank = (uint32_t)by_rng_below(&rng, n);
    world->kill_turn = by_rng_below(&rng, 400);
    if (!world_run(world)) fail_msg("seed %llu: hangs after a death", (unsigned long long)seed);
    char name[32];
    snprintf(name, sizeof name, "rank %u ", world->kill_rank);
    for (uint32_t r = 0; r < n; r++) {
      const struct by_engine *e = world->nodes[r].engine;
      if (world->nodes[r].dead || by_engine_status(e) == BANYAN_OK) continue;
      assert_int_equal(by_engine_status(e), BANYAN_ERR_PEER_DEAD);
      assert_non_null(strstr(by_engine_get_state(e)->error, name));
    }
    world_fini(world);
    free(world);
  }
}

/* The second and later calls of a kind allocate nothing. */
static void test_no_allocation(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  for (int f = 0; f < FAMILIES; f++) {
    struct world *world = calloc(1, sizeof *world);
    world_init(world, 4, families[f], &net, &engine, 3);
    struct banyan_counters warm[4], after;
    for (int round = 0; round < 6; round++) {
      world->n_operations = 1;
      world->operations[0] =
          (struct operation){.call = {.collective = BANYAN_ALLREDUCE, .count = 300000, .dtype = BANYAN_FLOAT32}};
      run_world(world, 3);
      world_clear(world);
      for (uint32_t r = 0; r < 4 && round == 0; r++) by_engine_counters(world->nodes[r].engine, &warm[r]);
    }
    uint64_t more = 0;
    for (uint32_t r = 0; r < 4; r++) {
      by_engine_counters(world->nodes[r].engine, &after);
      more += after.allocations - warm[r].allocations;
    }
    if (more) fail_msg("%s: %llu allocations in a warm call", families[f], (unsigned long long)more);
    world_fini(world);
    free(world);
  }
}

/* Five calls at once, the third of which is this one; the bytes of those that were timed, of which no largest one is
 * more than 40000. */
static uint64_t time_five(struct world *world, const struct by_call_times *times, enum banyan_collective third) {
  uint64_t n = times->n, all = 0;
  world->n_operations = 5;
  for (uint32_t k = 0; k < 5; k++)
    world->operations[k] = (struct operation){.call = {.collective = k == 2 ? third : BANYAN_ALLREDUCE,
                                                       .count = k == 3 ? 5000 : 4000,
                                                       .dtype = BANYAN_FLOAT64}};
  run_world(world, 5);
  world_clear(world);
  for (; n < times->n; n++) {
    const struct by_call_bytes *bytes = &times->last[n].bytes;
    assert_true(bytes->max == 32000 || bytes->max == 40000);
    all += bytes->all;
  }
  return all;
}

/* AllReduces are timed, with their plan and size; those at the same time as one, and not with other calls among them.
 */
static void test_times(void **state) {
  (void)state;
  struct by_sim_options net = {.delay = 10 * BY_MICROSECOND};
  struct by_engine_options engine = {0};
  static const enum banyan_collective collectives[] = {BANYAN_ALLREDUCE, BANYAN_BROADCAST, BANYAN_ALLREDUCE};
  struct world *world = calloc(1, sizeof *world);
  world_init(world, 4, "ring", &net, &engine, 5);
  struct by_clock clock = by_sim_clock(world->sim);
  struct by_call_times times = {.clock = &clock};
  by_engine_time_calls(world->nodes[1].engine, &times);
  for (int i = 0; i < 3; i++) {
    uint64_t before = by_clock_now(&clock);
    world->n_operations = 1;
    world->operations[0] = (struct operation){
        .call = {.collective = collectives[i], .count = 1000 * (size_t)(i + 1), .dtype = BANYAN_FLOAT64}};
    run_world(world, 5);
    world_clear(world);
    uint64_t lasted = by_clock_now(&clock) - before;
    const struct by_call_time *last = &times.last[times.n - 1];
    assert_int_equal(times.n, i < 2 ? 1 : 2);
    assert_int_equal(last->team, by_team_id(world->nodes[1].team));
    assert_true(last->bytes.all == (i < 2 ? 8000 : 24000) && last->bytes.max == last->bytes.all);
    assert_int_equal(last->plan, by_team_plan(world->nodes[1].team)->version);
    if (i != 1) assert_true(last->lasted >= 60 * BY_MICROSECOND && last->lasted <= lasted); /* six steps */
  }
  uint64_t all = time_five(world, &times, BANYAN_ALLREDUCE);
  assert_int_equal(all, 4 * 32000 + 40000);
  assert_true(times.n < 7); /* some were at the same time */
  assert_true(time_five(world, &times, BANYAN_BROADCAST) < all);
  by_engine_time_calls(world->nodes[1].engine, NULL);
  world_fini(world);
  free(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_families), cmocka_unit_test(test_random_calls),  cmocka_unit_test(test_many_ranks),
      cmocka_unit_test(test_large_blocks), cmocka_unit_test(test_chunk),         cmocka_unit_test(test_small_parts),
      cmocka_unit_test(test_deaths),       cmocka_unit_test(test_no_allocation), cmocka_unit_test(test_times),
  };
  return cmocka_run_group_tests_name("executor over simulated links", tests, NULL, NULL);
}
