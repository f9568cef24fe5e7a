/* Once a call of a kind was made, others like it allocate nothing. With two ranks that is so whatever the timing: data
 * cannot come before its call while another one goes on over the same link. */
#include <stdlib.h>

#include "check.h"
#include "job.h"

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
  must_hold(warm > 0); /* they are counted at all */
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
      cmocka_unit_test(test_repeats),
  };
  return cmocka_run_group_tests_name("no allocation", tests, NULL, NULL);
}
