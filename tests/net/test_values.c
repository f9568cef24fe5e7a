/* Every collective on every plan with every type, over shared memory and TCP, with real processes. After one call of a
 * kind, similar calls allocate nothing. With two ranks this holds for any timing: data cannot come before its call
 * while another call uses the same link. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "job.h"

#include "net_operations.h"

static const char *const plans[] = {NULL,     "star",    "sharded",  "ring",        "chain",
                                    "tree:3", "halving", "doubling", "double-tree", "exchange"};
enum { PLANS = sizeof plans / sizeof *plans };

/* Makes a blocking and a nonblocking call. Both must give the same result. */
static void do_operation(struct banyan_comm *world, struct by_rng *own, struct operation *operation, bool start) {
  if (!start) {
    operation_do(world, operation, (unsigned)by_rng_below(own, 4));
    return;
  }
  struct banyan_request *request = NULL;
  operation_prepare(world, operation, (unsigned)by_rng_below(own, 4));
  must(banyan_start(world, &operation->call, &request));
  must(banyan_wait(request));
  operation_check(operation);
  operation_free(operation);
}

/* Tries every type and count on this plan. */
static void all_types(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  int n = banyan_comm_size(world);
  const size_t counts[] = {0, 1, (size_t)n - 1, 1003};
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++)
    for (int d = 0; d < (c == BANYAN_BARRIER ? 1 : (int)BANYAN_DTYPES); d++)
      for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct operation operation = {.call = {.collective = (enum banyan_collective)c, .dtype = (enum banyan_dtype)d}};
        operation.call.count = counts[i];
        operation_vary(rng, n, &operation);
        do_operation(world, own, &operation, by_rng_below(rng, 2));
      }
}

static void large_ones(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  for (int c = BANYAN_ALLREDUCE; c < BANYAN_BARRIER; c++) {
    struct operation operation;
    operation_choose(rng, banyan_comm_size(world), c, 100000, &operation);
    operation.call.count = operation.call.count < 1000 ? 100000 : operation.call.count;
    for (int r = 0; r < banyan_comm_size(world) && operation.call.counts; r++)
      operation.counts[r] = by_rng_below(rng, 100000);
    do_operation(world, own, &operation, by_rng_below(rng, 2));
  }
}

static void rank_values(struct job *job, int rank) {
  struct by_rng rng, own; /* rng is the same on all ranks, own differs */
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  for (int p = 0; p < PLANS; p++) {
    must(banyan_comm_set_plan(world, plans[p]));
    all_types(world, &rng, &own);
    for (int i = 0; i < job_rounds(1); i++) large_ones(world, &rng, &own);
  }
  banyan_comm_destroy(world);
}

static void values_over(const char *transport) {
  for (int n = 2; n <= 5; n++) {
    struct job job = {.n = n, .run = rank_values, .transport = transport, .seed = 100 + (uint64_t)n};
    job_run(&job);
  }
}

static void test_shm(void **state) {
  (void)state;
  values_over("shm");
}

static void test_tcp(void **state) {
  (void)state;
  values_over("tcp");
}

/* In a job of one rank, every call is a copy. */
static void rank_alone(struct job *job, int rank) {
  (void)rank;
  struct by_rng rng;
  by_rng_init(&rng, job->seed);
  struct banyan_comm *world = job_join();
  all_types(world, &rng, &rng);
  large_ones(world, &rng, &rng);
  banyan_comm_destroy(world);
}

static void test_alone(void **state) {
  (void)state;
  struct job job = {.n = 1, .run = rank_alone};
  job_run(&job);
}

/* Random numbers are not integers, so the sum depends on the order of addition. It must be the same on all ranks. */
static void rank_bits(struct job *job, int rank) {
  enum { COUNT = 20011 };
  float *own = malloc(COUNT * sizeof *own), *all = malloc(COUNT * sizeof *all);
  uint64_t *sums = malloc((size_t)job->n * sizeof *sums);
  must_hold(own && all && sums);
  struct by_rng rng;
  by_rng_init(&rng, (uint64_t)rank);
  for (int i = 0; i < COUNT; i++) own[i] = (float)(by_rng_unit(&rng) - 0.5);
  struct banyan_comm *world = job_join();
  for (int p = 0; p < PLANS; p++) {
    must(banyan_comm_set_plan(world, plans[p]));
    uint64_t first = 0;
    for (int round = 0; round < 2; round++) {
      must(banyan_allreduce(world, own, all, COUNT, BANYAN_FLOAT32, BANYAN_AVERAGE));
      uint64_t hash = 1;
      for (int i = 0; i < COUNT; i++) {
        uint32_t bits;
        __builtin_memcpy(&bits, &all[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3ull;
      }
      if (!round) first = hash;
      must_hold(hash == first);
      must(banyan_allgather(world, &hash, sums, 1, BANYAN_INT64));
      for (int r = 0; r < job->n; r++) must_hold(sums[r] == hash);
    }
  }
  banyan_comm_destroy(world);
  free(own);
  free(all);
  free(sums);
}

static void test_same_bits(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 5, .run = rank_bits, .transport = i ? "tcp" : "shm"};
    job_run(&job);
  }
}

enum { MOST = 2000000, SIZES = 4, ROUNDS = 8 };
static const size_t counts[SIZES] = {1, 5000, 100000, MOST};

static float *take(struct banyan_comm *world, bool shared) {
  void *memory = NULL;
  if (shared)
    must(banyan_alloc(world, MOST * sizeof(float), &memory));
  else
    memory = calloc(MOST, sizeof(float));
  must_hold(memory != NULL);
  return memory;
}

static uint64_t allocations(const struct banyan_comm *world) {
  struct banyan_counters counters;
  banyan_comm_counters(world, &counters);
  return counters.allocations;
}

static void one_of_each(struct banyan_comm *world, float *send, float *recv) {
  for (int i = 0; i < SIZES; i++) {
    must(banyan_allreduce(world, send, recv, counts[i], BANYAN_FLOAT32, BANYAN_SUM));
    must(banyan_broadcast(world, recv, counts[i], BANYAN_FLOAT32, 1));
    must(banyan_reduce_scatter(world, send, recv, counts[i] / 2, BANYAN_FLOAT32, BANYAN_SUM));
    must(banyan_allgather(world, send, recv, counts[i] / 2, BANYAN_FLOAT32));
  }
}

static void rank_repeats(struct job *job, int rank) {
  (void)rank;
  struct banyan_comm *world = job_join();
  bool shared = *(const bool *)job->argument;
  float *send = take(world, shared), *recv = take(world, shared);
  one_of_each(world, send, recv);
  uint64_t warm = allocations(world);
  must_hold(warm > 0); /* allocations are counted */
  for (int round = 0; round < ROUNDS; round++) one_of_each(world, send, recv);
  if (allocations(world) != warm) rank_fail("%d allocations in warm calls", (int)(allocations(world) - warm));
  banyan_comm_destroy(world);
  if (shared) return;
  free(send);
  free(recv);
}

static void test_repeats(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    bool shared = i & 1;
    struct job job = {.n = 2, .run = rank_repeats, .transport = i & 2 ? "tcp" : "shm", .argument = &shared};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shm),       cmocka_unit_test(test_tcp),     cmocka_unit_test(test_alone),
      cmocka_unit_test(test_same_bits), cmocka_unit_test(test_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
