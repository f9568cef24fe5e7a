/* What a program says when it joins, and what it is told about its place. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "job.h"

static void rank_options(struct job *job, int rank) {
  (void)job;
  (void)rank;
  struct banyan_comm *world = NULL;
  struct banyan_options options = {.deadline = -1};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_create(&options, &world));
  options.size_of_struct = sizeof options + 8; /* of a later version */
  must_fail(BANYAN_ERR_UNSUPPORTED, banyan_comm_create(&options, &world));
  options.size_of_struct = offsetof(struct banyan_options, deadline); /* of an earlier one, without deadlines */
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

/* Ranks 0, 2, 4 say that they are on one host, 1 and 3 on another. */
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
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_places),
  };
  return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
