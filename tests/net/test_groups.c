/* Communicators of subsets of ranks. Only their members make them, at any time. A rank can belong to several of them
 * with different numbers. The tests also cover the address at which a program joins, and its host and position in the
 * job. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

static int sum_over(struct banyan_comm *comm, int value) {
  must(banyan_allreduce(comm, &value, &value, 1, BANYAN_INT32, BANYAN_SUM));
  return value;
}

static void make(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *odd = NULL, *ends = NULL, *again = NULL;
  const int odds[] = {3, 1}, outer[] = {0, 3};
  if (rank % 2) must(banyan_comm_subset(world, odds, 2, 0, &odd));
  if (rank == 0) usleep(50000); /* rank 3's call comes before rank 0 can receive it */
  if (rank % 3 == 0) {
    must(banyan_comm_subset(world, outer, 2, 0, &ends));
    must_hold(sum_over(ends, rank + 1) == 5);
    must(banyan_comm_subset(world, outer, 2, 1, &again));
    must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_subset(world, outer, 2, 1, &again));
    must_hold(sum_over(again, rank) == 3);
  }
  if (odd) {
    must_hold(banyan_comm_rank(odd) == (rank == 3 ? 0 : 1) && banyan_comm_size(odd) == 2);
    must_hold(sum_over(odd, rank) == 4);
  }
  must_hold(sum_over(world, 1) == job->n);
  banyan_comm_destroy(odd);
  banyan_comm_destroy(ends);
  banyan_comm_destroy(again);
  must(banyan_barrier(world));
  banyan_comm_destroy(world);
}

static void test_make(void **state) {
  struct job job = {.n = 4, .run = make};
  job_run(&job);
}

static void refuse(struct job *job, int rank) {
  (void)job;
  struct banyan_comm *world = job_join(), *part = NULL;
  const int twice[] = {0, 1, 0}, strange[] = {0, 2}, others[] = {1 - rank};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_subset(world, twice, 3, 0, &part));
  must_hold(strstr(banyan_error_text(), "rank 0 twice"));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_subset(world, strange, 2, 0, &part));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_subset(world, others, 1, 0, &part));
  must_hold(strstr(banyan_error_text(), "not in the subset"));
  banyan_comm_destroy(world);
}

static void test_refused(void **state) {
  struct job job = {.n = 2, .run = refuse};
  job_run(&job);
}

static void rank_options(struct job *job, int rank) {
  (void)job;
  (void)rank;
  struct banyan_comm *world = NULL;
  struct banyan_options options = {.deadline = -1};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_create(&options, &world));
  options.size_of_struct = sizeof options + 8; /* as in a later version */
  must_fail(BANYAN_ERR_UNSUPPORTED, banyan_comm_create(&options, &world));
  options.size_of_struct = offsetof(struct banyan_options, deadline); /* as in an earlier version, without deadlines */
  must(banyan_comm_create(&options, &world));
  banyan_comm_destroy(world);
  options = (struct banyan_options){.transport = "pigeons"};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_create(&options, &world));
}

static void test_options(void **state) {
  (void)state;
  struct job job = {.n = 1, .run = rank_options};
  job_run(&job);
}

/* Ranks 0, 2 and 4 name one host, and ranks 1 and 3 another. */
static void rank_places(struct job *job, int rank) {
  struct banyan_comm *world = NULL, *upper = NULL;
  struct banyan_options options = {.host = rank % 2 ? "odd" : "even"};
  must(banyan_comm_create(&options, &world));
  must_hold(banyan_comm_local_rank(world) == rank / 2);
  must_hold(banyan_comm_local_size(world) == (job->n + 1 - rank % 2) / 2);
  must(banyan_comm_split(world, rank < 2 ? -1 : 0, 0, &upper));
  if (upper) must_hold(banyan_comm_local_rank(upper) == rank / 2 - 1);
  banyan_comm_destroy(upper);
  banyan_comm_destroy(world);
}

static void test_places(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 5, .run = rank_places, .transport = i ? "tcp" : NULL};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_make),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
