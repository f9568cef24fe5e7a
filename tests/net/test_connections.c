/* Links of several TCP connections: every collective's values, alone and with many calls at once. */
#include <stdlib.h>

#include "check.h"
#include "net_operations.h"

enum { AT_ONCE = 8, MOST = 300000 };

static const char *const plans[] = {NULL, "star", "ring", "chain", "halving", "exchange"};
enum { PLANS = sizeof plans / sizeof *plans };

/* Large enough to be spread, mostly; the small ones go between them. */
static void choose(struct by_rng *rng, int ranks, int collective, struct operation *operation) {
  operation_choose(rng, ranks, collective, MOST, operation);
  if (collective == BANYAN_BARRIER) return;
  if (by_rng_below(rng, 4)) operation->call.count = MOST / 2 + by_rng_below(rng, MOST / 2);
  for (int r = 0; r < ranks && operation->call.counts; r++) operation->counts[r] = by_rng_below(rng, MOST);
}

static void one_by_one(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) {
    struct operation operation;
    choose(rng, banyan_comm_size(world), c, &operation);
    operation_do(world, &operation, (unsigned)by_rng_below(own, 4));
  }
}

static void many_at_once(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  struct operation operations[AT_ONCE];
  struct banyan_request *requests[AT_ONCE];
  for (int i = 0; i < AT_ONCE; i++) {
    choose(rng, banyan_comm_size(world), -1, &operations[i]);
    operation_prepare(world, &operations[i], (unsigned)by_rng_below(own, 4));
    must(banyan_start(world, &operations[i].call, &requests[i]));
    job_doze(own, 300);
  }
  must(banyan_wait_all(requests, AT_ONCE));
  for (int i = 0; i < AT_ONCE; i++) {
    operation_check(&operations[i]);
    operation_free(&operations[i]);
  }
}

static void rank_values(struct job *job, int rank) {
  struct by_rng rng, own; /* the same on all ranks, and this rank's */
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  setenv("BANYAN_CONNECTIONS", job->argument, 1);
  setenv("BANYAN_LOG", "info", 1);
  struct banyan_comm *world = job_join();
  for (int p = 0; p < PLANS; p++) {
    must(banyan_comm_set_plan(world, plans[p]));
    one_by_one(world, &rng, &own);
    for (int i = 0; i < job_rounds(2); i++) many_at_once(world, &rng, &own);
  }
  banyan_comm_destroy(world);
}

/* Both ends of each of the links' connections are logged. */
static void values(int n, const char *connections, int ends) {
  struct job job = {
      .n = n, .run = rank_values, .transport = "tcp", .seed = (uint64_t)n, .argument = connections, .limit = 120};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "over TCP", ends);
  job_end(&job, true);
}

static void test_two_ranks(void **state) {
  (void)state;
  values(2, "4", 8);
}

static void test_by_address(void **state) {
  (void)state;
  values(2, "5@10.0.0.0/8,8@127.0.0.0/8,3", 16);
}

static void test_four_ranks(void **state) {
  (void)state;
  values(4, "3", 2 * 6 * 3);
}

/* Of a pair, the higher rank says how many. */
static void rank_differs(struct job *job, int rank) {
  setenv("BANYAN_CONNECTIONS", rank == 2 ? "4" : rank == 1 ? "2" : "7", 1);
  setenv("BANYAN_LOG", "info", 1);
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, (uint64_t)rank);
  struct banyan_comm *world = job_join();
  must(banyan_comm_set_plan(world, "exchange")); /* needs all links */
  one_by_one(world, &rng, &own);
  banyan_comm_destroy(world);
}

static void test_ranks_differ(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_differs, .transport = "tcp", .seed = 5};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "over TCP", 2 * (4 + 4 + 2));
  job_end(&job, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_ranks),
      cmocka_unit_test(test_by_address),
      cmocka_unit_test(test_four_ranks),
      cmocka_unit_test(test_ranks_differ),
  };
  return cmocka_run_group_tests_name("connections", tests, NULL, NULL);
}
