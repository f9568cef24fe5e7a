/* Communicators of subsets of ranks. Only their members make them, at any time. A rank can belong to several of them
 * with different numbers. The tests also cover the address at which a program joins, and its host and position in the
 * job. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "comm.h"
#include "job.h"
#include "job_state.h"

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

/* ---- plans for groups, from the topology of the job */

enum { PLAN_CALLS = 200000 /* at most; a plan comes after some hundred */, HELD_UP = 2 /* seconds */ };

/* Calls until the group has a plan of the topology on all its ranks, and checks every sum. False: it has none after so
 * many calls. */
static bool call_until_planned(struct banyan_comm *comm, int calls) {
  struct banyan_plan_info plan = {0};
  int planned = 0, all = 0, size = banyan_comm_size(comm), element[3];
  for (int i = 0; i < calls && all < size; i++) {
    must(banyan_comm_plan(comm, 0, &plan));
    planned = plan.source == BANYAN_PLAN_TOPOLOGY;
    element[0] = planned;
    element[1] = banyan_comm_rank(comm) + i;
    element[2] = 1;
    must(banyan_allreduce(comm, element, element, 3, BANYAN_INT32, BANYAN_SUM));
    must_hold(element[1] == size * (size - 1) / 2 + size * i && element[2] == size);
    all = element[0];
  }
  return all == size;
}

static void check_plan(const struct banyan_comm *comm, enum banyan_plan_source source, const char *name) {
  struct banyan_plan_info plan;
  must(banyan_comm_plan(comm, 16 << 20, &plan));
  must_hold(plan.source == source && !plan.supplied == (source != BANYAN_PLAN_BUILTIN || !strcmp(name, "default")));
  must_hold(strcmp(plan.name, name) == 0);
}

/* Large enough for several chunks in each tree, on a plan that has just come into use. */
static void sum_much(struct banyan_comm *comm) {
  enum { COUNT = 100003 };
  static int values[COUNT];
  int size = banyan_comm_size(comm);
  for (int i = 0; i < COUNT; i++) values[i] = i + banyan_comm_rank(comm);
  must(banyan_allreduce(comm, values, values, COUNT, BANYAN_INT32, BANYAN_SUM));
  for (int i = 0; i < COUNT; i++) must_hold(values[i] == size * i + size * (size - 1) / 2);
}

#define TOPOLOGY "sites:2x2,lan=1g,wan=200m,rtt=20ms"

/* The groups of a mesh, rows and columns; and one over all ranks in another order. */
static void rank_gets_plans(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *row, *column, *turned, *again;
  check_plan(world, BANYAN_PLAN_TOPOLOGY, TOPOLOGY);
  must(banyan_comm_split(world, rank / 2, 0, &row));
  must(banyan_comm_split(world, rank % 2, 0, &column));
  must(banyan_comm_split(world, 0, -rank, &turned));
  check_plan(row, BANYAN_PLAN_BUILTIN, "default");
  check_plan(turned, BANYAN_PLAN_BUILTIN, "default");
  must_hold(call_until_planned(row, PLAN_CALLS));
  must_hold(call_until_planned(column, PLAN_CALLS));
  must_hold(call_until_planned(turned, PLAN_CALLS));
  check_plan(row, BANYAN_PLAN_TOPOLOGY, TOPOLOGY);
  check_plan(world, BANYAN_PLAN_TOPOLOGY, TOPOLOGY);
  struct banyan_plan_info plan;
  must(banyan_comm_plan(turned, 0, &plan));
  must_hold(plan.bound > 190e6 && plan.bound < 210e6);
  sum_much(row);
  sum_much(column);
  sum_much(turned);
  /* A group on the same hosts shares the plan; one that is made anew begins anew. */
  banyan_comm_destroy(row);
  must(banyan_comm_duplicate(column, &again));
  must(banyan_comm_split(world, rank / 2, 0, &row));
  check_plan(again, BANYAN_PLAN_BUILTIN, "default");
  must_hold(call_until_planned(again, PLAN_CALLS));
  must_hold(call_until_planned(row, PLAN_CALLS));
  sum_much(again);
  sum_much(row);
  must_hold(sum_over(world, 1) == job->n);
  banyan_comm_destroy(again);
  banyan_comm_destroy(turned);
  banyan_comm_destroy(column);
  banyan_comm_destroy(row);
  banyan_comm_destroy(world);
}

static void run_planned(struct job *job) {
  setenv("BANYAN_TOPOLOGY", TOPOLOGY, 1);
  job_start(job);
  unsetenv("BANYAN_TOPOLOGY");
}

static void test_plans(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_gets_plans, .transport = "tcp"};
  run_planned(&job);
  job_end(&job, true);
}

/* Rank 0 of the job is not in this group, whose first rank asks; and what is submitted to it follows its plan. */
static void rank_gets_plan_of_subset(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *part = NULL;
  const int ranks[] = {3, 1, 2};
  if (rank > 0) {
    must(banyan_comm_subset(world, ranks, 3, 5, &part));
    for (int done = 0, i = 0; !done && i < PLAN_CALLS; i++) {
      struct banyan_plan_info plan;
      struct banyan_request *request;
      int element[] = {0, 1};
      must(banyan_comm_plan(part, 0, &plan));
      element[0] = plan.source == BANYAN_PLAN_TOPOLOGY;
      must(banyan_submit_allreduce(part, "x", element, element, 2, BANYAN_INT32, BANYAN_SUM, &request));
      must(banyan_wait(request));
      must_hold(element[1] == 3);
      done = element[0] == 3;
    }
    check_plan(part, BANYAN_PLAN_TOPOLOGY, TOPOLOGY);
    sum_much(part);
  }
  must_hold(sum_over(world, 1) == job->n);
  banyan_comm_destroy(part);
  banyan_comm_destroy(world);
}

static void test_plan_of_subset(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_gets_plan_of_subset, .transport = "tcp"};
  run_planned(&job);
  job_end(&job, true);
}

/* The user's plan stays, whether it is set before the group asks or while its plan is made. */
static void rank_keeps_its_plan(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *mine, *later, *other;
  must(banyan_comm_split(world, rank / 2, 0, &mine));
  must(banyan_comm_split(world, rank / 2, 0, &later));
  must(banyan_comm_split(world, rank % 2, 0, &other));
  must(banyan_comm_set_plan(mine, "ring"));
  sum_much(mine);
  sum_much(later);
  must(banyan_comm_set_plan(later, "ring"));
  sum_much(later);
  must_hold(call_until_planned(other, PLAN_CALLS)); /* planned behind the others, had they been */
  must_hold(!call_until_planned(mine, 100));
  must_hold(!call_until_planned(later, 100));
  check_plan(mine, BANYAN_PLAN_BUILTIN, "ring");
  check_plan(later, BANYAN_PLAN_BUILTIN, "ring");
  must_hold(sum_over(world, 1) == job->n);
  banyan_comm_destroy(other);
  banyan_comm_destroy(later);
  banyan_comm_destroy(mine);
  banyan_comm_destroy(world);
}

/* The control thread is held up while rank 0 asks for a plan and leaves: it comes to that when all else has ended. */
static void hold_up(void *context) {
  (void)context;
  sleep(HELD_UP);
}

static void rank_leaves_early(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *row;
  must_hold(sum_over(world, 1) == job->n);
  must(banyan_comm_split(world, rank / 2, 0, &row));
  if (rank == 0) must(by_loop_post(world->job->loop, hold_up, NULL));
  must_hold(sum_over(row, 1) == 2);
  banyan_comm_destroy(row);
  banyan_comm_destroy(world);
  usleep(100000); /* for what goes on in spite of it */
}

static void test_leaves_early(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_leaves_early, .transport = "tcp"};
  run_planned(&job);
  job_end(&job, true);
}

static void test_users_plan(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_keeps_its_plan, .transport = "tcp"};
  run_planned(&job);
  job_end(&job, true);
  struct job again = {.n = 4, .run = rank_keeps_its_plan, .transport = "tcp"};
  run_planned(&again);
  job_end(&again, true);
}

/* Without a topology groups keep their built-in plans. */
static void rank_has_no_topology(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *row;
  must(banyan_comm_split(world, rank / 2, 0, &row));
  must_hold(!call_until_planned(row, 100));
  check_plan(row, BANYAN_PLAN_BUILTIN, "default");
  must_hold(sum_over(world, 1) == job->n);
  banyan_comm_destroy(row);
  banyan_comm_destroy(world);
}

static void test_no_topology(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_has_no_topology, .transport = "tcp"};
  job_run(&job);
}

/* When a group's plan comes is a matter of time, and so would be the order in which floats are added. */
static void rank_is_deterministic(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *row;
  must(banyan_comm_split(world, rank / 2, 0, &row));
  must_hold(!call_until_planned(row, 3000));
  check_plan(row, BANYAN_PLAN_BUILTIN, "default");
  check_plan(world, BANYAN_PLAN_TOPOLOGY, TOPOLOGY);
  must_hold(sum_over(world, 1) == job->n);
  banyan_comm_destroy(row);
  banyan_comm_destroy(world);
}

static void test_deterministic(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_is_deterministic, .transport = "tcp"};
  setenv("BANYAN_DETERMINISTIC", "1", 1);
  run_planned(&job);
  unsetenv("BANYAN_DETERMINISTIC");
  job_end(&job, true);
}

/* Groups that go at once, before their plans come, and a job that ends meanwhile: no error, and no warning. */
static void rank_is_short(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *row, *column;
  for (int i = 0; i < 20; i++) {
    must(banyan_comm_split(world, rank / 2, 0, &row));
    must_hold(sum_over(row, 1) == 2);
    banyan_comm_destroy(row);
  }
  must(banyan_comm_split(world, rank % 2, 0, &column));
  must_hold(sum_over(column, 1) == job->n / 2);
  banyan_comm_destroy(column);
  banyan_comm_destroy(world);
}

static void test_short(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_is_short, .transport = "tcp"};
  run_planned(&job);
  job_wait(&job);
  job_check_log(&job, "plan is not used", 0);
  job_end(&job, true);
}

/* The first rank of a group dies, which has asked for a plan: all others learn which. */
enum { DIES = 2 };

static void rank_survives_its_leader(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *part;
  enum banyan_status status = BANYAN_OK;
  must(banyan_comm_split(world, rank / 2, 0, &part));
  must_hold(sum_over(part, 1) == 2);
  job_set_stage(job, rank, 1);
  for (int i = 0; status == BANYAN_OK; i++) {
    int value = 1;
    status = banyan_allreduce(rank / 2 == DIES / 2 ? part : world, &value, &value, 1, BANYAN_INT32, BANYAN_SUM);
  }
  job_report_status(job, rank, status);
  banyan_comm_destroy(part);
  banyan_comm_destroy(world);
}

static void test_leader_dies(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) {
    struct by_rng rng;
    struct job job = {.n = 4, .run = rank_survives_its_leader, .transport = "tcp"};
    by_rng_init(&rng, job_seed(i));
    run_planned(&job);
    for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, 1);
    job_doze(&rng, 60000); /* while it is planned, proposed or in use */
    job_signal(&job, DIES, SIGKILL);
    job_wait(&job);
    for (int r = 0; r < job.n; r++) {
      if (r == DIES) continue;
      job_check_exit(&job, r);
      if (job.reports[r].status != BANYAN_ERR_PEER_DEAD || !strstr(job.reports[r].text, "rank 2"))
        job_fail(&job, "rank %d learnt: %s", r, job.reports[r].text);
    }
    job_end(&job, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_make),         cmocka_unit_test(test_refused),     cmocka_unit_test(test_options),
      cmocka_unit_test(test_places),       cmocka_unit_test(test_plans),       cmocka_unit_test(test_plan_of_subset),
      cmocka_unit_test(test_leaves_early), cmocka_unit_test(test_users_plan),  cmocka_unit_test(test_no_topology),
      cmocka_unit_test(test_short),        cmocka_unit_test(test_leader_dies), cmocka_unit_test(test_deterministic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
