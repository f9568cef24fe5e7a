/* Memory of banyan_alloc. Freed memory is unmapped, here and in the ranks that have mapped it, but not before the calls
 * that use it have ended. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

#include "net_operations.h"

enum { COUNT = 300000, ROUNDS = 12 };

/* Counts the regions that this process has mapped, its own and those of others. */
static int count_mapped(void) {
  char line[512];
  int n = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  must_hold(maps != NULL);
  while (fgets(line, sizeof line, maps)) n += strstr(line, "/memfd:banyan (deleted)") != NULL;
  fclose(maps);
  return n;
}

static float *take(struct banyan_comm *world, float value) {
  void *memory = NULL;
  must(banyan_alloc(world, COUNT * sizeof(float), &memory));
  float *floats = memory;
  for (int i = 0; i < COUNT; i++) floats[i] = value;
  return floats;
}

static void check_sum(const float *sum, float wanted) {
  for (int i = 0; i < COUNT; i++)
    if (sum[i] != wanted) rank_fail("element %d is %g, not %g", i, (double)sum[i], (double)wanted);
}

/* A barrier's messages arrive after the notice that memory was freed. Enough barriers reach every pair of ranks. */
static void settle(struct banyan_comm *world) {
  must(banyan_comm_set_plan(world, "exchange"));
  for (int i = 0; i < 3; i++) must(banyan_barrier(world));
  must(banyan_comm_set_plan(world, NULL));
}

static void rank_frees(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  int of_all = job->n * (job->n + 1) / 2;
  float wanted = (float)of_all;
  int most = 0;
  for (int round = 0; round < ROUNDS; round++) {
    float *send = take(world, (float)(rank + 1)), *recv = take(world, 0);
    must(banyan_allreduce(world, send, recv, COUNT, BANYAN_FLOAT32, BANYAN_SUM));
    int mapped = count_mapped();
    check_sum(recv, wanted);
    if (mapped > most) most = mapped;
    must(banyan_barrier(world)); /* all ranks have counted */
    banyan_free(world, send);
    banyan_free(world, recv);
    settle(world);
    must_hold(count_mapped() == 0);
  }
  must_hold(most > 2); /* memory of other ranks was mapped */
  banyan_comm_destroy(world);
}

static void test_frees(void **state) {
  (void)state;
  for (int n = 2; n <= 4; n++) {
    struct job job = {.n = n, .run = rank_frees, .transport = "shm"};
    job_run(&job);
  }
}

/* Rank 0 frees its buffers while its call waits for rank 1. */
static void rank_frees_early(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_request *request = NULL;
  float *send = take(world, (float)(rank + 1)), *recv = take(world, 0);
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM,
                             .send = send,
                             .recv = recv,
                             .count = COUNT};
  must(banyan_barrier(world));
  if (rank == 0) {
    must(banyan_start(world, &call, &request));
    banyan_free(world, send);
    banyan_free(world, recv);
    banyan_free(world, recv);
    must_hold(count_mapped() == 2);
    job_set_stage(job, 0, 1);
    must(banyan_wait(request));
  } else {
    while (atomic_load(&job->reports[0].stage) < 1) usleep(1000);
    must(banyan_run(world, &call));
    check_sum(recv, 3);
    banyan_free(world, send);
    banyan_free(world, recv);
  }
  settle(world);
  must_hold(count_mapped() == 0);
  banyan_comm_destroy(world);
}

static void test_frees_early(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 2, .run = rank_frees_early, .transport = i ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* Memory that the program did not free is released with the job, neither earlier nor with another communicator of the
 * job. */
static void rank_forgets(struct job *job, int rank) {
  (void)job;
  (void)rank;
  struct banyan_comm *world = job_join(), *other = NULL;
  must(banyan_comm_duplicate(world, &other));
  float *kept = take(other, 1);
  banyan_comm_destroy(other);
  must(banyan_allreduce(world, kept, kept, COUNT, BANYAN_FLOAT32, BANYAN_SUM));
  check_sum(kept, 2);
  banyan_free(world, kept + 1); /* no region begins there */
  check_sum(kept, 2);
  banyan_comm_destroy(world);
  must_hold(count_mapped() == 0);
}

static void test_forgets(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_forgets};
  job_run(&job);
}

/* Rank 1 sends, aborts the job and uses its memory again while rank 0, which would notify rank 2, is stopped. Rank 2,
 * which receives, finds other bytes in rank 1's memory and must not take them for the message. */
static void rank_withdraws(struct job *job, int rank) {
  enum { BYTES = 1 << 20 }; /* smaller messages are copied where ranks share cores */
  struct banyan_comm *world = job_join();
  struct banyan_call call = {.root = 3 - rank, .dtype = BANYAN_UINT8, .count = BYTES};
  struct banyan_request *request = NULL;
  void *memory = NULL;
  must(banyan_alloc(world, BYTES, &memory));
  memset(memory, 1, BYTES);
  settle(world); /* makes all links */
  call.send = call.recv = memory;
  call.collective = rank == 0 ? BANYAN_BARRIER : rank == 1 ? BANYAN_SEND : BANYAN_RECV;
  job_set_stage(job, rank, 1);
  while (rank && atomic_load(&job->reports[rank - 1].stage) < 2) usleep(100);
  must(banyan_start(world, &call, &request));
  if (rank == 1) {
    banyan_comm_abort(world, "enough");
    memset(memory, 2, BYTES);
    job_set_stage(job, 1, 2);
  }
  must_fail(BANYAN_ERR_ABORTED, banyan_wait(request));
  job_set_stage(job, rank, 3);
  for (double until = job_now() + 5; rank == 1 && job_now() < until; usleep(100)) /* waits until the memory is mapped */
    if (atomic_load(&job->reports[2].stage) == 3) break;
  banyan_free(world, memory);
  banyan_comm_destroy(world);
}

static void test_withdrawn(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_withdraws, .transport = "shm"};
  job_start(&job);
  for (int r = 0; r < 3; r++) job_wait_stage(&job, r, 1);
  job_signal(&job, 0, SIGSTOP);
  usleep(50000); /* time for rank 0 to stop, or less is tested */
  job_set_stage(&job, 0, 2);
  job_wait_stage(&job, 1, 2);
  usleep(200000); /* time for rank 2 to read */
  job_signal(&job, 0, SIGCONT);
  job_end(&job, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frees),
      cmocka_unit_test(test_frees_early),
      cmocka_unit_test(test_forgets),
      cmocka_unit_test(test_withdrawn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
