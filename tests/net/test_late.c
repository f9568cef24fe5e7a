/* A call that is late ends the job, also while other calls go on all the time and nobody ever sleeps. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "job.h"

static void *barriers(void *argument) {
  struct banyan_comm *world = argument;
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) status = banyan_barrier(world);
  return NULL;
}

/* Rank 0 waits for a call that rank 1 does not make, and meanwhile moves those of its other thread. */
static void rank_busy(struct job *job, int rank) {
  setenv("BANYAN_SPIN", "60", 1);
  struct banyan_comm *world = job_join(), *other = NULL;
  int in = 1, out = 0;
  must(banyan_comm_duplicate(world, &other));
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_INT32,
                             .op = BANYAN_SUM,
                             .send = &in,
                             .recv = &out,
                             .count = 1,
                             .deadline = 1};
  pthread_t thread;
  must_hold(pthread_create(&thread, NULL, barriers, world) == 0);
  if (rank == 0) job_report_status(job, rank, banyan_run(other, &call));
  pthread_join(thread, NULL);
  if (rank == 1) job_report_status(job, rank, banyan_comm_state(world));
  banyan_comm_destroy(other);
  banyan_comm_destroy(world);
}

static void test_busy(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 2, .run = rank_busy, .transport = i ? "tcp" : "shm", .limit = 30};
    job_start(&job);
    job_wait(&job);
    for (int r = 0; r < job.n; r++)
      if (job.reports[r].status != BANYAN_ERR_TIMEOUT || !strstr(job.reports[r].text, "allreduce"))
        job_fail(&job, "rank %d heard \"%s\"", r, job.reports[r].text);
    job_end(&job, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_busy),
  };
  return cmocka_run_group_tests_name("late calls", tests, NULL, NULL);
}
