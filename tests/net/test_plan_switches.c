/* Plan switches while calls go on. Rank 0 proposes plans at any time, from the thread that calls or from another
 * thread. All ranks use a new plan from the same call on, and nothing is lost. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job_life.h"
#include "net_operations.h"
#include "plan_switch.h"
#include "serve.h"

static const char *const plans[] = {"ring", "tree", "tree:3", NULL, "halving", "doubling"};

enum { PLANS = sizeof plans / sizeof *plans, RANKS = 4 };

struct plot {
  int ranks, calls;
  bool apart; /* a separate thread proposes */
};

/* ---- proposing plans */

struct proposer {
  struct banyan_comm *comms[2];
  uint64_t seed;
  _Atomic bool stop;
};

static void *propose_on(void *argument) {
  struct proposer *proposer = argument;
  struct by_rng rng;
  by_rng_init(&rng, proposer->seed);
  while (!atomic_load(&proposer->stop)) {
    must(banyan_comm_propose_plan(proposer->comms[by_rng_below(&rng, 2)], plans[by_rng_below(&rng, PLANS)]));
    job_doze(&rng, by_rng_below(&rng, 2) ? 500 : 20000);
  }
  return NULL;
}

/* ---- calls of all kinds */

static void make_sparse(struct banyan_comm *comm, int rank) {
  int64_t rows[2] = {rank, 7};
  float values[2] = {1, 2};
  struct banyan_sparse in = {.rows = rows,
                             .values = values,
                             .count = 2,
                             .height = 9,
                             .width = 1,
                             .row_dtype = BANYAN_INT64,
                             .dtype = BANYAN_FLOAT32},
                       out = {0};
  struct banyan_sparse_call call = {.in = &in, .out = &out};
  must(banyan_sparse_run(comm, &call));
  int n = banyan_comm_size(comm);
  must_hold(out.count == (size_t)n + 1 && ((float *)out.values)[n] == 2.0f * (float)n);
  banyan_sparse_free(&out);
}

/* ---- operations that each rank submits in another order and waits for some calls later */

enum { NAMES = 5, MOST = 3000 };

struct bundle {
  struct banyan_comm *comm;
  struct banyan_request *requests[NAMES];
  int32_t values[NAMES][MOST];
  size_t counts[NAMES];
};

static void submit_all(struct bundle *bundle, struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own) {
  static const char *const names[NAMES] = {"a", "b", "c", "d", "e"};
  int32_t mine = banyan_comm_rank(comm) + 1;
  bool done[NAMES] = {false};
  bundle->comm = comm;
  for (int i = 0; i < NAMES; i++) bundle->counts[i] = 1 + by_rng_below(rng, by_rng_below(rng, 2) ? 10 : MOST);
  for (int left = NAMES; left; left--) {
    uint64_t i = by_rng_below(own, NAMES);
    while (done[i]) i = (i + 1) % NAMES;
    done[i] = true;
    for (size_t k = 0; k < bundle->counts[i]; k++) bundle->values[i][k] = mine * (int32_t)(k + 1);
    must(banyan_submit_allreduce(comm, names[i], bundle->values[i], bundle->values[i], bundle->counts[i], BANYAN_INT32,
                                 BANYAN_SUM, &bundle->requests[i]));
    if (by_rng_below(own, 6) == 0) job_doze(own, 500);
  }
}

static void finish_all(struct bundle *bundle) {
  int32_t n = bundle->comm ? banyan_comm_size(bundle->comm) : 0;
  for (int i = 0; bundle->comm && i < NAMES; i++) {
    must(banyan_wait(bundle->requests[i]));
    for (size_t k = 0; k < bundle->counts[i]; k++)
      must_hold(bundle->values[i][k] == n * (n + 1) / 2 * (int32_t)(k + 1));
  }
  bundle->comm = NULL;
}

static void make_call(struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own, int rank) {
  struct banyan_request *requests[3] = {NULL};
  struct operation operations[3];
  uint64_t kind = by_rng_below(rng, 12);
  if (kind == 0) {
    make_sparse(comm, rank);
    return;
  }
  int n = kind < 8 ? 1 : 3;
  for (int i = 0; i < n; i++) {
    operation_choose(rng, banyan_comm_size(comm), kind < 4 ? BANYAN_ALLREDUCE : -1,
                     by_rng_below(rng, 6) ? 5000 : 200000, &operations[i]);
    operation_prepare(comm, &operations[i], (unsigned)by_rng_below(own, 4));
    if (n == 1)
      must(banyan_run(comm, &operations[i].call));
    else
      must(banyan_start(comm, &operations[i].call, &requests[i]));
  }
  must(banyan_wait_all(requests, 3));
  for (int i = 0; i < n; i++) {
    operation_check(&operations[i]);
    operation_free(&operations[i]);
  }
}

/* Splits a communicator while a plan switch of it may be under way. */
static void use_part(struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own) {
  struct banyan_comm *part;
  struct by_rng parts; /* subcommunicators of other sizes draw as often from `rng` */
  struct operation operation;
  by_rng_init(&parts, by_rng_next(rng));
  must(banyan_comm_split(comm, banyan_comm_rank(comm) % 2, banyan_comm_rank(comm), &part));
  operation_choose(&parts, banyan_comm_size(part), BANYAN_ALLREDUCE, 5000, &operation);
  operation_do(part, &operation, (unsigned)by_rng_below(own, 4));
  banyan_comm_destroy(part);
}

static uint64_t count_plan_switches(const struct banyan_comm *comm) {
  struct banyan_counters counters;
  banyan_comm_counters(comm, &counters);
  return counters.plan_switches;
}

/* When nothing is under way any more, all ranks have made the same number of plan switches. */
static uint64_t compare_plan_switches(struct banyan_comm *world) {
  int64_t least, most;
  for (int tries = 0; tries < 20000; tries++) {
    int64_t mine = (int64_t)count_plan_switches(world);
    must(banyan_allreduce(world, &mine, &least, 1, BANYAN_INT64, BANYAN_MIN));
    must(banyan_allreduce(world, &mine, &most, 1, BANYAN_INT64, BANYAN_MAX));
    if (least == most && tries > 50) return (uint64_t)least;
    usleep(2000);
  }
  rank_fail("some ranks have made %lld plan switches, others %lld", (long long)least, (long long)most);
}

static void rank_plan_switches(struct job *job, int rank) {
  const struct plot *plot = job->argument;
  struct by_rng rng, own;
  pthread_t thread;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct proposer proposer = {.seed = job->seed};
  struct banyan_comm *world = proposer.comms[0] = job_join();
  must(banyan_comm_split(world, 0, -rank, &proposer.comms[1]));
  static struct bundle bundle;
  bool apart = plot->apart && rank == 0;
  int submits_from = (int)by_rng_below(&rng, (uint64_t)plot->calls); /* not earlier, as ranks may be late with it */
  if (apart) must_hold(!pthread_create(&thread, NULL, propose_on, &proposer));
  for (int i = 0; i < plot->calls; i++) {
    if (by_rng_below(&own, 8) == 0) job_doze(&own, 2000);
    uint64_t which = by_rng_below(&rng, 3) ? 0 : 1;
    if (rank == 0 && !apart && by_rng_below(&own, 4) == 0)
      must(banyan_comm_propose_plan(proposer.comms[which], plans[by_rng_below(&own, PLANS)]));
    make_call(proposer.comms[which], &rng, &own, rank);
    if (by_rng_below(&rng, 16) == 0) use_part(proposer.comms[which], &rng, &own);
    if (i >= submits_from && by_rng_below(&rng, 3) == 0) {
      finish_all(&bundle);
      submit_all(&bundle, proposer.comms[by_rng_below(&rng, 2)], &rng, &own);
    }
  }
  finish_all(&bundle);
  atomic_store(&proposer.stop, true);
  if (apart) must_hold(!pthread_join(thread, NULL));
  uint64_t plan_switches = compare_plan_switches(world);
  if (rank == 0) job->reports[0].number = plan_switches;
  banyan_comm_destroy(proposer.comms[1]);
  banyan_comm_destroy(world);
}

static void test_plan_switch(void **state) {
  (void)state;
  uint64_t plan_switches = 0;
  for (int i = 0; i < job_rounds(6); i++) {
    struct plot plot = {.ranks = 1 + i % RANKS, .calls = 120, .apart = i / 2 % 2};
    struct job job = {.n = plot.ranks,
                      .run = rank_plan_switches,
                      .transport = i % 2 ? "tcp" : NULL,
                      .argument = &plot,
                      .seed = job_seed(i)};
    job_start(&job);
    job_wait(&job);
    if (plot.ranks > 1) plan_switches += job.reports[0].number;
    job_end(&job, true);
  }
  assert_true(plan_switches > 0);
}

/* ---- with a helper, which dies */

static const char helped[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"helped\", \"ranks\": 3, \"vertices\": {\"h\": {\"kind\": \"helper\"}},"
    "\"trees\": [{\"share\": 0.6, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}},"
    "{\"share\": 0.4, \"root\": \"2\", \"up\": {\"1\": \"2\", \"0\": \"1\"}}]}";

static void rank_helped(struct job *job, int rank) {
  volatile sig_atomic_t stop = 0;
  struct by_rng rng, own;
  setenv("BANYAN_SIZE", "3", 1);
  setenv("BANYAN_PLAN", helped, 1);
  if (rank == 3) {
    struct banyan_options options = {.host = "h"};
    must(by_helper_run(&options, &stop, NULL));
    return;
  }
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  for (int i = 0; i < 150; i++) {
    if (rank == 0 && by_rng_below(&own, 3) == 0) {
      enum banyan_status status = banyan_comm_propose_plan(world, by_rng_below(&own, 2) ? helped : "ring");
      must_hold(status == BANYAN_OK || (status == BANYAN_ERR_PLAN && strstr(banyan_error_text(), "is not here")));
    }
    make_call(world, &rng, &own, rank);
    job_set_stage(job, rank, i + 1);
  }
  uint64_t plan_switches = compare_plan_switches(world);
  if (rank == 0) job->reports[0].number = plan_switches;
  banyan_comm_destroy(world);
}

static void test_helper(void **state) {
  uint64_t plan_switches = 0;
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) {
    struct job job = {
        .n = 4, .run = rank_helped, .transport = i % 2 ? "tcp" : NULL, .argument = NULL, .seed = job_seed(i)};
    job_start(&job);
    job_wait_stage(&job, 0, 20 + 10 * i);
    if (i >= 2) job_signal(&job, 3, SIGKILL);
    job_wait(&job);
    for (int r = 0; r < 3; r++) job_check_exit(&job, r);
    plan_switches += job.reports[0].number;
    job_end(&job, i < 2);
  }
  assert_true(plan_switches > 0);
}

/* ---- plans proposed faster than control messages travel: plan switches still happen, ending with the last plan */

enum { HASTE = 5 };

static bool uses(struct banyan_comm *comm, const char *name) {
  struct by_plan *plan = NULL;
  must(by_plan_named(name, (uint32_t)banyan_comm_size(comm), &plan));
  by_job_lock(comm->job);
  bool same = by_team_plan(comm->team)->version == plan->version;
  by_job_unlock(comm->job);
  by_plan_destroy(plan);
  return same;
}

/* So many proposals may be queued for the loop's thread that it accepts no more. */
static void propose_in_haste(struct banyan_comm *comm, const char *plan) {
  enum banyan_status status = banyan_comm_propose_plan(comm, plan);
  must_hold(status == BANYAN_OK || status == BANYAN_ERR_NO_MEMORY);
}

static void rank_hurries(struct job *job, int rank) {
  static const char *const both[] = {"ring", "tree"};
  struct banyan_comm *world = job_join();
  (void)job;
  for (int32_t i = 0, done = 0; !done; i++) {
    bool enough = count_plan_switches(world) >= HASTE;
    if (rank == 0) propose_in_haste(world, enough ? "star" : both[i % 2]);
    done = rank == 0 && enough && uses(world, "star");
    must(banyan_broadcast(world, &done, 1, BANYAN_INT32, 0));
  }
  banyan_comm_destroy(world);
}

static void test_haste(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_hurries, .transport = "tcp", .seed = 1};
  job_run(&job);
}

/* ---- A rank submits its first operation only after the communicator's plan switch, while the log's root still waits
 *  for the end of an iteration before it notes the plan switch. The operations before the note have the same plan on
 *  all ranks. */

static void submit_step(struct banyan_comm *comm, uint64_t step, const char *name, int32_t *value,
                        struct banyan_request **request) {
  must(banyan_step(comm, step));
  *value = banyan_comm_rank(comm) + 1;
  must(banyan_submit_allreduce(comm, name, value, value, 1, BANYAN_INT32, BANYAN_SUM, request));
}

static void rank_submits_late(struct job *job, int rank) {
  static const char *const names[] = {"a", "b", "c"};
  struct banyan_request *requests[3];
  struct banyan_comm *world = job_join();
  int32_t values[3];
  (void)job;
  for (uint64_t i = 0; rank == 0 && i < 2; i++) submit_step(world, i, names[i], &values[i], &requests[i]);
  if (rank == 0) must(banyan_comm_propose_plan(world, "ring"));
  while (count_plan_switches(world) == 0) usleep(1000);
  for (uint64_t i = 0; rank != 0 && i < 2; i++) submit_step(world, i, names[i], &values[i], &requests[i]);
  for (uint64_t i = 0; i < 3; i++) {
    if (i == 2) submit_step(world, i, names[i], &values[i], &requests[i]);
    must(banyan_wait(requests[i]));
    must_hold(values[i] == 3);
  }
  banyan_comm_destroy(world);
}

static void test_late_submitter(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_submits_late, .seed = 1};
  job_run(&job);
}

/* A request that arrives for another communicator of the same number is answered too. */
static void test_stray_question(void **state) {
  struct banyan_comm *comm = NULL;
  struct by_plan_switch_message answer, message = {.kind = BY_PLAN_SWITCH_FIX, .number = 3, .at = 1};
  char text[400];
  (void)state;
  setenv("BANYAN_AGENT", "off", 1);
  assert_int_equal(banyan_comm_create(&(struct banyan_options){.size = 1, .rank_plus_1 = 1}, &comm), BANYAN_OK);
  for (uint32_t id = 0; id < 2; id++) { /* communicator 0 has no such plan switch, and communicator 1 does not exist */
    message.comm = id;
    assert_true(by_plan_switches_handle(comm->job, &message, &answer, text, sizeof text));
    assert_int_equal(answer.kind, BY_PLAN_SWITCH_NOT_YET);
    assert_int_equal(answer.number, 3);
  }
  banyan_comm_destroy(comm);
}

/* ---- back to the default */

/* What the program proposes takes the place of a plan that it has set, also where that is the default plan. */
static void rank_goes_back(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_plan_info plan;
  int back = 0;
  must(banyan_comm_set_plan(world, "ring"));
  if (rank == 0) must(banyan_comm_propose_plan(world, NULL));
  for (int i = 0; back < job->n; i++) {
    must_hold(i < 1000000);
    must(banyan_comm_plan(world, 0, &plan));
    back = strcmp(plan.name, "ring") != 0;
    must(banyan_allreduce(world, &back, &back, 1, BANYAN_INT32, BANYAN_SUM));
  }
  banyan_comm_destroy(world);
}

static void test_default(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_goes_back, .limit = 20};
  job_run(&job);
}

/* ---- deaths and refusals */

static void rank_proposes_on(struct job *job, int rank) {
  struct by_rng rng;
  by_rng_init(&rng, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  enum banyan_status status = BANYAN_OK;
  for (int i = 0; status == BANYAN_OK; i++) {
    float value = 1;
    if (rank == 0) must(banyan_comm_propose_plan(world, plans[i % PLANS]));
    job_set_stage(job, rank, i + 1);
    status = banyan_allreduce(world, &value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM);
  }
  job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

static void test_death(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(6); i++) {
    struct job job = {.n = 4, .run = rank_proposes_on, .transport = i % 2 ? "tcp" : NULL, .seed = job_seed(i)};
    int victim = 1 + i % 3;
    job_start(&job);
    job_wait_stage(&job, victim, 10 + 7 * i);
    job_signal(&job, victim, SIGKILL);
    job_wait(&job);
    for (int r = 0; r < 4; r++) {
      char name[16];
      snprintf(name, sizeof name, "rank %d ", victim);
      if (r == victim) continue;
      job_check_exit(&job, r);
      assert_int_equal(job.reports[r].status, BANYAN_ERR_PEER_DEAD);
      assert_non_null(strstr(job.reports[r].text, name));
    }
    job_end(&job, false);
  }
}

/* A plan that cannot be used is refused at once. A communicator that only some ranks still have blocks no rank. */
static void rank_refuses(struct job *job, int rank) {
  struct by_rng own;
  struct banyan_comm *world = job_join(), *part;
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  must_fail(rank ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_PLAN, banyan_comm_propose_plan(world, helped));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_propose_plan(NULL, "ring"));
  if (rank == 0) must_hold(banyan_comm_propose_plan(world, "no such plan") != BANYAN_OK);
  for (int i = 0; i < 20; i++) {
    must(banyan_comm_split(world, 0, rank, &part));
    if (rank == 0) must(banyan_comm_propose_plan(part, "ring"));
    if (by_rng_below(&own, 2)) job_doze(&own, 3000);
    if (i % 2) must(banyan_barrier(part));
    banyan_comm_destroy(part);
  }
  must(banyan_barrier(world));
  banyan_comm_destroy(world);
}

static void test_refuse(void **state) {
  struct job job = {.n = 2, .run = rank_refuses, .seed = 1};
  (void)state;
  job_run(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan_switch),    cmocka_unit_test(test_helper),
                                     cmocka_unit_test(test_haste),          cmocka_unit_test(test_late_submitter),
                                     cmocka_unit_test(test_stray_question), cmocka_unit_test(test_death),
                                     cmocka_unit_test(test_refuse),         cmocka_unit_test(test_default)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
