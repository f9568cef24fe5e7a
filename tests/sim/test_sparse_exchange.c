/* Sparse calls over simulated lanes with loss, delay and small frames, and with ranks that are late or die. The result
 * must be right, or all living ranks must receive an error. Work on rows is done under the lock, by another thread, or
 * by one that attends to the exchange. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "sparse_case.h"
#include "sparse_exchange.h"
#include "world.h"

enum { CALLS = 3 };

struct party {
  struct world world;
  struct by_offload offload; /* of all ranks */
  struct sparse_case cases[CALLS];
  struct {
    struct by_sparse_queue *queue;
    struct by_sparse_exchange *exchanges[CALLS];
    struct banyan_sparse ins[CALLS], outs[CALLS];
    uint32_t started;
  } ranks[WORLD_MOST];
};

static const char *const plans[] = {"star", "sharded", "tree:2", "ring", "halving", "doubling", "chain"};

static void task_done(void *context) {
  (void)context;
}

static void party_init(struct party *party, uint64_t seed) {
  struct by_sim_options net;
  struct by_engine_options engine;
  struct by_rng rng;
  by_rng_init(&rng, seed);
  world_options(seed, &net, &engine);
  static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 16};
  uint32_t n = sizes[by_rng_below(&rng, sizeof sizes / sizeof sizes[0])], all[WORLD_MOST];
  bool power = (n & (n - 1)) == 0;
  world_init(&party->world, n, plans[by_rng_below(&rng, power ? 6 : 4)], &net, &engine, seed);
  for (uint32_t r = 0; r < WORLD_MOST; r++) all[r] = r;
  by_offload_init(&party->offload, task_done, NULL);
  for (uint32_t i = 0; i < CALLS; i++) sparse_case_choose(&rng, n, SPARSE_CASE_KINDS, &party->cases[i]);
  for (uint32_t r = 0; r < n; r++) {
    struct by_sparse_options options = {.engine = party->world.nodes[r].engine,
                                        .team = party->world.nodes[r].team,
                                        .id = 7,
                                        .n = n,
                                        .processes = all,
                                        .memory = (size_t)1 << 30,
                                        .crowd = 1,
                                        .far = seed % 2,
                                        .clock = by_sim_clock(party->world.sim),
                                        .offload = seed % 3 ? &party->offload : NULL,
                                        .offloads = seed % 5 * 200};
    assert_ok(by_sparse_queue_create(&options, &party->ranks[r].queue));
  }
}

static void party_fini(struct party *party) {
  for (uint32_t r = 0; r < party->world.n; r++) {
    by_sparse_queue_destroy(party->ranks[r].queue);
    for (uint32_t i = 0; i < CALLS; i++) {
      if (party->ranks[r].exchanges[i]) by_sparse_release(party->ranks[r].exchanges[i]);
      banyan_sparse_free(&party->ranks[r].outs[i]);
      free(party->ranks[r].ins[i].rows);
      free(party->ranks[r].ins[i].values);
    }
  }
  world_fini(&party->world);
  assert_int_equal(party->offload.open, 0);
  by_offload_fini(&party->offload);
}

static bool start_next(struct party *party, uint32_t r) {
  uint32_t i = party->ranks[r].started;
  if (i == CALLS) return false;
  party->ranks[r].started++;
  party->ranks[r].ins[i] = sparse_case_input(&party->cases[i], r);
  struct banyan_sparse_call call =
      sparse_case_call(&party->cases[i], &party->ranks[r].ins[i], &party->ranks[r].outs[i]);
  struct by_sparse_exchange *exchange = by_sparse_take(party->ranks[r].queue);
  assert_non_null(exchange);
  by_sparse_prepare(exchange, &call);
  enum banyan_status status = by_sparse_start(exchange, 0);
  if (status == BANYAN_OK)
    party->ranks[r].exchanges[i] = exchange;
  else
    assert_true(by_engine_status(party->world.nodes[r].engine) != BANYAN_OK);
  if (status == BANYAN_OK && (r + i) % 3 == 0) by_sparse_attend(exchange);
  return true;
}

static bool over(const struct party *party, uint32_t r) {
  if (party->world.nodes[r].dead) return true;
  if (party->ranks[r].started < CALLS) return false;
  for (uint32_t i = 0; i < CALLS; i++)
    if (party->ranks[r].exchanges[i] && !by_sparse_ended(party->ranks[r].exchanges[i])) return false;
  return true;
}

static bool all_over(const struct party *party) {
  for (uint32_t r = 0; r < party->world.n; r++)
    if (!over(party, r)) return false;
  return true;
}

static void die(void *context, uint32_t process, struct by_lane *lane) {
  (void)process;
  (void)context;
  by_sim_kill(lane);
}

/* What a thread that waits for the calls would do, now and then. */
static bool attend(struct party *party, uint32_t r) {
  for (uint32_t i = 0; i < party->ranks[r].started; i++) {
    struct by_sparse_exchange *exchange = party->ranks[r].exchanges[i];
    struct by_task *task = exchange && by_rng_below(&party->world.rng, 4) ? by_sparse_offered(exchange) : NULL;
    if (!task || !by_offload_claim(&party->offload, task)) continue;
    by_offload_do(&party->offload, task);
    return true;
  }
  return false;
}

static bool one_turn(struct party *party, bool eager) {
  struct world *world = &party->world;
  bool progressed = false;
  for (uint32_t k = 0; k < world->n; k++) {
    uint32_t r = (uint32_t)by_rng_below(&world->rng, world->n);
    struct node *node = &world->nodes[r];
    if (node->dead) continue;
    if (eager || by_rng_below(&world->rng, 8) == 0) progressed |= start_next(party, r);
    progressed |= by_engine_progress(node->engine);
    progressed |= attend(party, r);
    progressed |= by_sparse_progress(party->ranks[r].queue);
    if (world->turns++ != world->kill_turn || world->kill_rank == UINT32_MAX) continue;
    world->nodes[world->kill_rank].dead = true;
    by_engine_visit_lanes(world->nodes[world->kill_rank].engine, die, NULL);
    progressed = true;
  }
  return progressed;
}

static bool run(struct party *party) {
  for (uint32_t still = 0; !all_over(party);) {
    still = one_turn(party, still > 100) ? 0 : still + 1;
    if (still > 1000 && party->offload.open) usleep(1000); /* the other thread works in real time */
    if (still > 50 && !by_sim_step(party->world.sim) && still > 2000) return false;
  }
  return true;
}

static void check_results(const struct party *party, uint64_t seed) {
  for (uint32_t r = 0; r < party->world.n; r++)
    for (uint32_t i = 0; i < CALLS; i++) {
      if (by_sparse_result(party->ranks[r].exchanges[i]) != BANYAN_OK)
        fail_msg("seed %llu, rank %u: %s", (unsigned long long)seed, r, banyan_error_text());
      const char *wrong = sparse_case_check(&party->cases[i], &party->ranks[r].outs[i]);
      if (wrong) fail_msg("world %llu, rank %u: %s", (unsigned long long)seed, r, wrong);
    }
}

static void test_values(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= check_seeds(250); seed++) {
    struct party *party = calloc(1, sizeof *party);
    party_init(party, seed);
    if (!run(party)) fail_msg("seed %llu: no progress", (unsigned long long)seed);
    check_results(party, seed);
    party_fini(party);
    free(party);
  }
}

/* All living ranks end, with success or an error. */
static void test_deaths(void **state) {
  (void)state;
  uint32_t failed = 0;
  for (uint64_t seed = 1; seed <= check_seeds(150); seed++) {
    struct party *party = calloc(1, sizeof *party);
    party_init(party, seed);
    struct world *world = &party->world;
    world->kill_rank = (uint32_t)by_rng_below(&world->rng, world->n);
    world->kill_turn = by_rng_below(&world->rng, 40 * world->n);
    if (!run(party)) fail_msg("seed %llu: no progress", (unsigned long long)seed);
    for (uint32_t r = 0; r < world->n; r++) failed += by_engine_status(world->nodes[r].engine) != BANYAN_OK;
    party_fini(party);
    free(party);
  }
  assert_true(failed > check_seeds(150) / 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_deaths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
