/* Helpers that come and go in memory: random sequences of newcomers, deaths at any moment, switches to plans with the
 * living helpers, and calls, in jobs that began without helpers. All sums are right, and nothing hangs. */
#include <stdlib.h>
#include <string.h>

#include "../prop/schedule_plans.h"
#include "check.h"
#include "world.h"

enum { ROUNDS = 12, MOST_HELPERS = 8, MOST_IN_PLAN = 3 };

static struct by_plan *make_ring(void *context) {
  struct by_plan *plan = NULL;
  assert_int_equal(by_plan_builtin("ring", *(const uint32_t *)context, &plan), BANYAN_OK);
  return plan;
}

static void set_plan(struct node *node, uint64_t seed, uint32_t n_helpers, const uint32_t *helpers) {
  struct by_rng rng;
  by_rng_init(&rng, seed);
  struct by_plan *plan = n_helpers ? random_helped_plan(&rng, node->world->n, n_helpers) : make_ring(&node->world->n);
  if (plan->n_vertices > plan->n_ranks)
    assert_int_equal(by_team_set_helped_plan(node->team, plan, helpers, 0), BANYAN_OK);
  else
    by_team_set_plan(node->team, plan);
}

/* Proposes a plan for all ranks and its helpers, in any order. It is often the same plan with other processes at its
 * vertices. */
static void switch_plan(struct world *world) {
  uint32_t alive[WORLD_MOST], n = 0;
  uint64_t plan = by_rng_below(&world->rng, 3);
  for (uint32_t h = world->n; h < world->n + world->n_helpers; h++)
    if (!world->nodes[h].dead) alive[n++] = h;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = (uint32_t)by_rng_below(&world->rng, i), kept = alive[i - 1];
    alive[i - 1] = alive[j];
    alive[j] = kept;
  }
  if (n > MOST_IN_PLAN) n = MOST_IN_PLAN;
  for (uint32_t r = 0; r < world->n; r++) set_plan(&world->nodes[r], plan, n, alive);
  for (uint32_t i = 0; i < n; i++) set_plan(&world->nodes[alive[i]], plan, n, alive);
}

static void kill_some_time(struct world *world) {
  uint32_t victim = world->n + (uint32_t)by_rng_below(&world->rng, world->n_helpers);
  if (world->nodes[victim].dead) return;
  world->kill_rank = victim;
  world->kill_turn = world->turns + by_rng_below(&world->rng, 300);
}

static void call(struct world *world) {
  static const enum banyan_collective often[] = {BANYAN_ALLREDUCE, BANYAN_ALLREDUCE, BANYAN_REDUCE, BANYAN_BROADCAST};
  world->n_operations = 1 + (uint32_t)by_rng_below(&world->rng, 4);
  for (uint32_t d = 0; d < world->n_operations; d++) {
    struct banyan_call *made = &world->operations[d].call;
    *made = (struct banyan_call){.collective = often[by_rng_below(&world->rng, 4)],
                                 .dtype = by_rng_below(&world->rng, 2) ? BANYAN_INT32 : BANYAN_FLOAT64,
                                 .count = by_rng_below(&world->rng, 5000),
                                 .root = (int)by_rng_below(&world->rng, world->n)};
    world->operations[d].in_place = made->collective <= BANYAN_REDUCE && by_rng_below(&world->rng, 2);
  }
  if (!world_run(world)) fail_msg("seed %llu: deadlock with %u ranks", (unsigned long long)world->seed, world->n);
  world_check(world);
  world_clear(world);
}

static void count_one(void *context, uint32_t process, struct by_lane *lane) {
  (void)process;
  (void)lane;
  ++*(uint32_t *)context;
}

/* A job may have many helpers, one after the other. No lane to a helper that is known to be gone stays open. */
static void check_lanes(const struct world *world, const struct node *node) {
  uint32_t lanes = 0, most = world->n - 1;
  for (uint32_t h = world->n; h < world->n + world->n_helpers; h++) most += !by_engine_peer(node->engine, h).lost;
  (void)by_engine_progress(node->engine);
  by_engine_visit_lanes(node->engine, count_one, &lanes);
  if (lanes > most)
    fail_msg("seed %llu: rank %u has %u lanes, to %u others", (unsigned long long)world->seed, node->rank, lanes, most);
}

static void one_seed(uint64_t seed) {
  struct by_sim_options net;
  struct by_engine_options engine;
  struct by_rng rng;
  by_rng_init(&rng, seed);
  uint32_t n = 2 + (uint32_t)by_rng_below(&rng, 4);
  world_options(seed, &net, &engine);
  struct world *world = calloc(1, sizeof *world);
  world_init_helped(world, n, 0, make_ring, &n, &net, &engine, seed);
  for (int round = 0; round < ROUNDS; round++) {
    if (world->n_helpers < MOST_HELPERS && by_rng_below(&rng, 2)) (void)world_add_helper(world, &engine);
    if (by_rng_below(&rng, 3)) switch_plan(world);
    if (world->n_helpers && by_rng_below(&rng, 3) == 0) kill_some_time(world);
    call(world);
  }
  for (uint32_t r = 0; r < n; r++)
    if (by_engine_status(world->nodes[r].engine) != BANYAN_OK)
      fail_msg("seed %llu: rank %u: %s", (unsigned long long)seed, r,
               by_engine_get_state(world->nodes[r].engine)->error);
  for (uint32_t r = 0; r < n; r++) check_lanes(world, &world->nodes[r]);
  world_fini(world);
  free(world);
}

static void test_come_and_go(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(150); seed++) one_seed(seed);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_come_and_go)};
  return cmocka_run_group_tests_name("newcomers over simulated links", tests, NULL, NULL);
}
