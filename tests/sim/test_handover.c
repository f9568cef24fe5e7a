/* Lanes change membership: two engines are interrupted in the middle of calls, each at a moment of its own, and their
 * lanes go on in two new engines. What was under way must not be seen there, whatever it was: half-sent frames, eager
 * data, grants, credits, and memory that its owner has overwritten. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine.h"
#include "lane.h"
#include "rng.h"
#include "simulated_lanes.h"

enum { SEEDS = 600, MOST = 1 << 15, LANES = 3, CALLS = 3, TURNS = 200000, MEMBERSHIPS = 3 };

/* One process: its engine in the membership that it is in, or handovers on the way to the next one. */
struct end {
  uint32_t rank, membership;
  struct by_engine *engine;
  struct by_call *calls[CALLS];
  struct by_lane *lanes[LANES];
  struct by_handover handovers[LANES];
  float *send, *recv[CALLS];
  uint64_t leaves_at; /* turn */
  bool done;
};

static struct {
  struct by_rng rng;
  struct by_sim *sim;
  struct end ends[2];
  uint32_t n_lanes, n_calls;
  size_t counts[MEMBERSHIPS][CALLS];
  const char *plans[MEMBERSHIPS];
  uint64_t seed;
} world;

static float value(uint32_t rank, uint32_t membership, size_t i) {
  return (float)((i * 7 + membership * 31) % 1000 + rank);
}

static void start_calls(struct end *end, struct by_team *team) {
  for (size_t i = 0; i < MOST; i++) end->send[i] = value(end->rank, end->membership, i);
  for (uint32_t c = 0; c < world.n_calls; c++) {
    struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                               .dtype = BANYAN_FLOAT32,
                               .op = BANYAN_SUM,
                               .count = world.counts[end->membership][c],
                               .send = end->send,
                               .recv = end->recv[c]};
    assert_ok(by_engine_start(team, &call, 0, &end->calls[c]));
  }
}

static void begin_membership(struct end *end) {
  static const uint32_t all[2] = {0, 1};
  struct by_engine_options options = {.clock = by_sim_clock(world.sim),
                                      .processes = 2,
                                      .self = end->rank,
                                      .eager_limit = 4096,
                                      .link_credit = 16384,
                                      .spread = 8192,
                                      .keeps_lanes = true};
  struct by_team *team;
  struct by_plan *plan;
  assert_ok(by_engine_create(&options, &end->engine));
  assert_ok(by_team_create(end->engine, 0, end->rank, 2, all, &team));
  assert_ok(by_plan_builtin(world.plans[end->membership], 2, &plan));
  by_team_set_plan(team, plan);
  by_engine_attach(end->engine, 1 - end->rank, end->lanes, world.n_lanes);
  start_calls(end, team);
}

static bool has_ended(const struct end *end) {
  for (uint32_t c = 0; c < world.n_calls; c++)
    if (!by_call_ended(end->calls[c])) return false;
  return true;
}

/* Of the calls that have ended. */
static void check_sums(const struct end *end) {
  for (uint32_t c = 0; c < world.n_calls; c++) {
    if (!by_call_ended(end->calls[c])) continue;
    assert_ok(by_call_result(end->calls[c]));
    for (size_t i = 0; i < world.counts[end->membership][c]; i++)
      if (end->recv[c][i] != value(0, end->membership, i) + value(1, end->membership, i))
        fail_msg("seed %llu: rank %u, membership %u, call %u: element %zu is %g", (unsigned long long)world.seed,
                 end->rank, end->membership, c, i, (double)end->recv[c][i]);
  }
}

/* The call's buffers are the program's again, which uses them at once. */
static void leave(struct end *end) {
  check_sums(end);
  end->membership++;
  by_engine_fail(end->engine, BANYAN_ERR_CLOSED, UINT32_MAX, "interrupted");
  for (uint32_t c = 0; c < world.n_calls; c++) {
    assert_true(by_call_ended(end->calls[c]));
    by_call_release(end->calls[c]);
    memset(end->recv[c], 0xee, MOST * sizeof(float));
  }
  memset(end->send, 0xee, MOST * sizeof(float));
  assert_int_equal(by_engine_take_lanes(end->engine, 1 - end->rank, end->lanes), world.n_lanes);
  by_engine_destroy(end->engine);
  end->engine = NULL;
  for (uint32_t i = 0; i < world.n_lanes; i++)
    by_handover_init(&end->handovers[i], end->lanes[i], end->membership, end->rank);
}

static void advance(struct end *end, uint64_t turn) {
  if (!end->engine) {
    uint32_t through = 0;
    for (uint32_t i = 0; i < world.n_lanes; i++) through += by_handover_progress(&end->handovers[i]);
    if (through == world.n_lanes) begin_membership(end);
    return;
  }
  by_engine_progress(end->engine);
  if (by_engine_status(end->engine) != BANYAN_OK)
    fail_msg("seed %llu: rank %u, membership %u: %s", (unsigned long long)world.seed, end->rank, end->membership,
             by_engine_get_state(end->engine)->error);
  if (end->membership + 1 < MEMBERSHIPS) {
    if (turn < end->leaves_at) return;
    leave(end);
    end->leaves_at = turn + by_rng_below(&world.rng, 400);
  } else if (has_ended(end) && !end->done) {
    check_sums(end);
    end->done = true;
  }
}

static void prepare(uint64_t seed) {
  static const char *const plans[] = {"star", "ring", "sharded"};
  by_rng_init(&world.rng, seed);
  struct by_rng *rng = &world.rng;
  struct by_sim_options net = {.seed = seed,
                               .delay = by_rng_below(rng, 50) * BY_MICROSECOND,
                               .jitter = by_rng_below(rng, 50) * BY_MICROSECOND,
                               .bandwidth = by_rng_below(rng, 2) ? 1e9 : 0,
                               .buffer = 1u << (11 + by_rng_below(rng, 7)),
                               .frame_bytes = 1u << (9 + by_rng_below(rng, 6)),
                               .split = by_rng_below(rng, 2),
                               .keeps = by_rng_unit(rng),
                               .holds = by_rng_below(rng, 2),
                               .in_place_from = by_rng_below(rng, 2) ? 4096 : 0};
  world.seed = seed;
  world.n_lanes = 1 + (uint32_t)by_rng_below(rng, LANES);
  world.n_calls = 1 + (uint32_t)by_rng_below(rng, CALLS);
  assert_ok(by_sim_create(&net, &world.sim));
  for (int m = 0; m < MEMBERSHIPS; m++) {
    world.plans[m] = plans[by_rng_below(rng, 3)];
    for (int c = 0; c < CALLS; c++) world.counts[m][c] = 1 + by_rng_below(rng, by_rng_below(rng, 2) ? 100 : MOST);
  }
}

static void run(uint64_t seed) {
  struct end *ends = world.ends;
  prepare(seed);
  memset(ends, 0, sizeof world.ends);
  for (uint32_t i = 0; i < world.n_lanes; i++) assert_ok(by_sim_link(world.sim, &ends[0].lanes[i], &ends[1].lanes[i]));
  for (uint32_t r = 0; r < 2; r++) {
    ends[r].rank = r;
    ends[r].send = malloc(MOST * sizeof(float));
    for (int c = 0; c < CALLS; c++) ends[r].recv[c] = malloc(MOST * sizeof(float));
    ends[r].leaves_at = by_rng_below(&world.rng, 400);
    begin_membership(&ends[r]);
  }
  for (uint64_t turn = 0; !ends[0].done || !ends[1].done; turn++) {
    for (int r = 0; r < 2; r++) advance(&ends[r], turn);
    by_sim_step(world.sim);
    if (turn == TURNS)
      fail_msg("seed %llu does not end: rank 0 in %u, rank 1 in %u", (unsigned long long)seed, ends[0].membership,
               ends[1].membership);
  }
  for (int r = 0; r < 2; r++) {
    for (uint32_t c = 0; c < world.n_calls; c++) by_call_release(ends[r].calls[c]);
    by_engine_destroy(ends[r].engine);
    free(ends[r].send);
    for (int c = 0; c < CALLS; c++) free(ends[r].recv[c]);
  }
  by_sim_destroy(world.sim);
}

static void test_interrupted_calls(void **state) {
  const char *first = getenv("BANYAN_TEST_SEED"), *longer = getenv("BANYAN_TEST_LONGER");
  uint64_t n = first ? 1 : (uint64_t)SEEDS * (longer ? (uint64_t)atoi(longer) : 1);
  (void)state;
  for (uint64_t i = 0; i < n; i++) run((first ? strtoull(first, NULL, 10) : 1) + i);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_interrupted_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
