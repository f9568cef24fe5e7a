/* Ranks that die, hang or abort at any moment. All other ranks must end soon with the right rank's name and the right
 * error. Another test has a call past its deadline, which ends the job even while other calls continue and no rank
 * sleeps. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

#include "net_operations.h"

enum { AFTERWARDS = 40 }; /* seconds for the others to end, which takes milliseconds */

static const char *const plans[] = {"", "ring", "star", "halving", "double-tree", "exchange", "tree:3", "sharded"};
enum { PLANS = sizeof plans / sizeof *plans };

struct death {
  int rank, how; /* how: a signal, or one of the values below */
  const char *plan;
  bool forks; /* a child of this rank lives on */
};

enum { CHILD_LIVES_S = 70 /* longer than the ranks' deadline */ };
enum { EXIT = 1000, ABORT, LEAVE };

/* ---- what ranks do until the failure */

static enum banyan_status call_once(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  struct operation operation;
  operation_choose(rng, banyan_comm_size(world), -1, by_rng_below(rng, 8) ? 3000 : 300000, &operation);
  if (by_rng_below(own, 6) == 0) job_doze(own, 400);
  operation_prepare(world, &operation, (unsigned)by_rng_below(own, 4));
  enum banyan_status status = banyan_run(world, &operation.call);
  if (status == BANYAN_OK) operation_check(&operation);
  operation_free(&operation);
  return status;
}

/* Starts three calls at once. The program never waits for some of them explicitly. */
static enum banyan_status call_thrice(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  struct operation operations[3];
  struct banyan_request *requests[3] = {NULL};
  enum banyan_status first = BANYAN_OK;
  char text[JOB_TEXT] = "";
  for (int i = 0; i < 3; i++) {
    operation_choose(rng, banyan_comm_size(world), -1, 20000, &operations[i]);
    operation_prepare(world, &operations[i], (unsigned)by_rng_below(own, 4));
  }
  for (int i = 0; i < 3; i++) {
    enum banyan_status status = banyan_start(world, &operations[i].call, &requests[i]);
    if (first == BANYAN_OK) first = status;
  }
  for (int i = 0; i < 3; i++) {
    enum banyan_status status = requests[i] ? banyan_wait(requests[i]) : BANYAN_OK;
    if (first == BANYAN_OK) first = status;
    if (status != BANYAN_OK) snprintf(text, sizeof text, "%s", banyan_error_text());
  }
  for (int i = 0; i < 3; i++) operation_free(&operations[i]);
  if (text[0]) must_hold(!strcmp(text, banyan_error_text())); /* all calls end with the same error text */
  return first;
}

/* Every later call fails with the same error. */
static void check_final(struct banyan_comm *world, enum banyan_status status) {
  char text[JOB_TEXT];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  must_fail(status, banyan_barrier(world));
  must_hold(!strcmp(text, banyan_error_text()));
  must_fail(status, banyan_comm_state(world));
  must_hold(!strcmp(text, banyan_error_text()));
  struct banyan_comm *part = NULL;
  must_fail(status, banyan_comm_split(world, 0, 0, &part));
  must_hold(!part);
}

static void fork_child(struct job *job, int rank) {
  pid_t child = fork();
  if (child == 0) {
    alarm(CHILD_LIVES_S);
    for (;;) pause();
  }
  job->reports[rank].number = (uint64_t)child;
}

static void rank_survives(struct job *job, int rank) {
  const struct death *death = job->argument;
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  setenv("BANYAN_PLAN", death->plan, 1);
  setenv("BANYAN_HOST", "here", 1);
  struct banyan_comm *world = job_join();
  enum banyan_status status = BANYAN_OK;
  if (death->forks) status = call_thrice(world, &rng, &own); /* links exist */
  if (death->forks && rank == death->rank) fork_child(job, rank);
  job_set_stage(job, rank, 1);
  uint64_t last = by_rng_below(&own, 200);
  for (uint64_t i = 0; status == BANYAN_OK; i++) {
    if (rank == death->rank && i == last && death->how == EXIT) _exit(0);
    if (rank == death->rank && i == last && death->how == LEAVE) exit(0);
    if (rank == death->rank && i == last && death->how == ABORT) banyan_comm_abort(world, "the loss is NaN");
    status = by_rng_below(&rng, 3) ? call_once(world, &rng, &own) : call_thrice(world, &rng, &own);
  }
  job_report_status(job, rank, status);
  check_final(world, status);
  banyan_comm_destroy(world);
}

/* The same, but joining may fail too. */
static void rank_survives_start(struct job *job, int rank) {
  const struct death *death = job->argument;
  struct banyan_comm *world = NULL;
  setenv("BANYAN_PLAN", death->plan, 1);
  enum banyan_status status = banyan_comm_create(NULL, &world);
  float in = 1, out = 0;
  while (status == BANYAN_OK) status = banyan_allreduce(world, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM);
  bool known =
      status == BANYAN_ERR_PEER_DEAD || (!world && (status == BANYAN_ERR_ARGUMENT || status == BANYAN_ERR_TIMEOUT));
  if (!known || !banyan_error_text()[0])
    rank_fail("rank %d ended with %s: %s", rank, banyan_status_name(status), banyan_error_text());
  banyan_comm_destroy(world);
}

/* ---- the test's process */

/* When the survivors learned of the death, over all of them. */
static double worst, total;
static int notified, deaths, children;

static void begin_counting(void) {
  worst = total = 0;
  notified = deaths = children = 0;
}

static void print_counts(void) {
  print_message(
      "%d deaths, %d of a rank whose child lives on: all others knew after %.1f ms on average, %.0f ms at most\n",
      deaths, children, notified ? 1e3 * total / notified : 0, 1e3 * worst);
}

static void check_survivor(struct job *job, int rank, enum banyan_status wanted, const char *name, double since) {
  const struct job_report *report = &job->reports[rank];
  job_wait_rank(job, rank);
  job_check_exit(job, rank);
  if (report->status != wanted || !strstr(report->text, name))
    job_fail(job, "rank %d ended with \"%s\" and not with %s, %s", rank, report->text, banyan_status_name(wanted),
             name);
  if (report->at - since > worst) worst = report->at - since;
  total += report->at - since;
  notified++;
}

static void check_survivors(struct job *job, int victim, enum banyan_status wanted, double since) {
  char name[64];
  snprintf(name, sizeof name, "rank %d (host here)", victim);
  job->limit = AFTERWARDS;
  for (int r = 0; r < job->n; r++)
    if (r != victim) check_survivor(job, r, wanted, name, since);
}

static void make_death(struct by_rng *rng, int n, int how, struct death *death) {
  *death =
      (struct death){.rank = (int)by_rng_below(rng, (uint64_t)n), .how = how, .plan = plans[by_rng_below(rng, PLANS)]};
}

/* A rank is killed from outside at a random moment during its calls. */
static void kill_one(int seed, int signal) {
  struct by_rng rng;
  struct death death;
  by_rng_init(&rng, (uint64_t)seed);
  int n = 2 + (int)by_rng_below(&rng, 4);
  make_death(&rng, n, signal, &death);
  death.forks = seed % 2;
  deaths++;
  children += death.forks;
  struct job job = {.n = n,
                    .run = rank_survives,
                    .transport = seed % 3 == 0   ? NULL
                                 : seed % 3 == 1 ? "shm"
                                                 : "tcp",
                    .argument = &death,
                    .seed = (uint64_t)seed};
  job_start(&job);
  for (int r = 0; r < n; r++) job_wait_stage(&job, r, 1);
  job_doze(&rng, by_rng_below(&rng, 2) ? 3000 : 60000);
  double since = job_now();
  job_signal(&job, death.rank, signal);
  check_survivors(&job, death.rank, BANYAN_ERR_PEER_DEAD, since);
  job_wait(&job);
  if (death.forks && kill((pid_t)job.reports[death.rank].number, SIGKILL) != 0)
    job_fail(&job, "its child was not there");
  job_check_killed(&job, death.rank, signal);
  job_end(&job, false);
}

static void test_killed(void **state) {
  (void)state;
  begin_counting();
  for (int i = 0; i < job_rounds(24); i++) kill_one((int)job_seed(i), SIGKILL);
  print_counts();
}

/* A rank is killed while the job starts. All others end, whatever their state. */
static void test_killed_early(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(12); i++) {
    struct by_rng rng;
    struct death death;
    by_rng_init(&rng, job_seed(i) + 5000);
    int n = 2 + (int)by_rng_below(&rng, 4);
    make_death(&rng, n, 0, &death);
    setenv("BANYAN_JOIN_DEADLINE", "3", 1);
    struct job job = {.n = n,
                      .run = rank_survives_start,
                      .transport = i % 2 ? "shm" : "tcp",
                      .argument = &death,
                      .seed = job_seed(i)};
    job_start(&job);
    job_doze(&rng, i % 3 ? 8000 : 30000);
    job_signal(&job, death.rank, SIGKILL);
    job.limit = AFTERWARDS;
    job_wait(&job);
    unsetenv("BANYAN_JOIN_DEADLINE");
    for (int r = 0; r < n; r++)
      if (r != death.rank) job_check_exit(&job, r);
    job_end(&job, false);
  }
}

static void test_crashed(void **state) {
  (void)state;
  begin_counting();
  for (int i = 0; i < job_rounds(6); i++) kill_one((int)job_seed(100 + i), SIGTERM); /* SIGSEGV without a core file */
  print_counts();
}

/* A rank ends by itself: it exits at once, exits without destroying its communicator, or aborts the job. */
static void end_one(int seed, int how, enum banyan_status wanted) {
  struct by_rng rng;
  struct death death;
  by_rng_init(&rng, (uint64_t)seed);
  int n = 2 + (int)by_rng_below(&rng, 4);
  make_death(&rng, n, how, &death);
  struct job job = {
      .n = n, .run = rank_survives, .transport = seed % 2 ? "shm" : "tcp", .argument = &death, .seed = (uint64_t)seed};
  job_start(&job);
  job_wait_rank(&job, death.rank);
  check_survivors(&job, death.rank, wanted, job_now());
  for (int r = 0; r < n && wanted == BANYAN_ERR_ABORTED; r++)
    if (!strstr(job.reports[r].text, "the loss is NaN"))
      job_fail(&job, "rank %d received \"%s\"", r, job.reports[r].text);
  job_end(&job, true);
}

static void test_exits(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(6); i++) end_one((int)job_seed(200 + i), i % 2 ? EXIT : LEAVE, BANYAN_ERR_PEER_DEAD);
}

static void test_aborts(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(6); i++) end_one((int)job_seed(300 + i), ABORT, BANYAN_ERR_ABORTED);
}

/* ---- stopped ranks */

static void rank_is_patient(struct job *job, int rank) {
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_PLAN", ((const struct death *)job->argument)->plan, 1);
  struct banyan_comm *world = job_join();
  float in[4000] = {0}, out[4000];
  must(banyan_barrier(world));
  must(banyan_allreduce(world, in, out, 4000, BANYAN_FLOAT32, BANYAN_SUM));
  must(banyan_comm_set_deadline(world, 4));
  double since = job_now();
  enum banyan_status status = BANYAN_OK;
  job_set_stage(job, rank, 1);
  while (status == BANYAN_OK) {
    since = job_now();
    status = banyan_allreduce(world, in, out, 4000, BANYAN_FLOAT32, BANYAN_SUM);
  }
  job_report_status(job, rank, status);
  job->reports[rank].number = (uint64_t)(1e3 * (job_now() - since));
  banyan_comm_destroy(world);
}

static void test_stopped(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(2); i++) {
    struct death death = {.rank = i % 3, .plan = plans[i % PLANS]};
    struct job job = {.n = 3, .run = rank_is_patient, .transport = i % 2 ? "shm" : "tcp", .argument = &death};
    job_start(&job);
    for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, 1);
    usleep(20000);
    job_signal(&job, death.rank, SIGSTOP);
    double since = job_now();
    check_survivors(&job, death.rank, BANYAN_ERR_TIMEOUT, since);
    for (int r = 0; r < job.n; r++)
      if (r != death.rank && job.reports[r].number < 3000)
        job_fail(&job, "rank %d gave up after %d ms already", r, (int)job.reports[r].number);
    job_signal(&job, death.rank, SIGKILL);
    job_end(&job, false);
  }
}

/* A stopped rank that continues in time was only slow. */
static void rank_goes_on(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  for (int i = 0; i < 300; i++) {
    struct operation operation = {.call = {.collective = BANYAN_ALLREDUCE, .count = 5000}, .salt = (uint32_t)i};
    operation_do(world, &operation, 0);
    job_set_stage(job, rank, i + 1);
    usleep(500);
  }
  banyan_comm_destroy(world);
}

static void test_goes_on(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_goes_on, .transport = i ? "shm" : "tcp"};
    job_start(&job);
    job_wait_stage(&job, 2, 20);
    job_signal(&job, i + 1, SIGSTOP);
    usleep(1200000);
    job_signal(&job, i + 1, SIGCONT);
    job_end(&job, true);
  }
}

/* ---- a split that one rank cannot make */

static void write_plan(const char *path) {
  FILE *file = fopen(path, "we");
  must_hold(file != NULL);
  must_hold(fputs("{\"format\": \"banyan-plan 1\", \"name\": \"chain\", \"ranks\": 2, \"trees\": [{\"kind\": \"tree\", "
                  "\"share\": 1, \"root\": \"0\", \"up\": {\"1\": \"0\"}}]}",
                  file) >= 0);
  must_hold(fclose(file) == 0);
}

/* Every rank has its own plan file. The file of rank 1 no longer exists when it is read again. */
static void rank_splits(struct job *job, int rank) {
  char path[64];
  float in = 1, out = 0;
  struct banyan_comm *part = NULL;
  snprintf(path, sizeof path, "/tmp/banyan-test-%d.json", (int)getpid());
  write_plan(path);
  setenv("BANYAN_PLAN", path, 1);
  setenv("BANYAN_HOST", "here", 1);
  struct banyan_comm *world = job_join();
  if (rank == 1) unlink(path);
  enum banyan_status status = banyan_comm_duplicate(world, &part);
  must_hold((status == BANYAN_OK) == (part != NULL));
  while (status == BANYAN_OK) status = banyan_allreduce(part, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM);
  job_report_status(job, rank, status);
  check_final(world, status);
  banyan_comm_destroy(part);
  banyan_comm_destroy(world);
  unlink(path);
}

static void test_split_fails(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_splits, .limit = AFTERWARDS};
  job_start(&job);
  job_wait(&job);
  for (int r = 0; r < job.n; r++)
    if (!strstr(job.reports[r].text, "rank 1 (host here) could not make its part of a split"))
      job_fail(&job, "rank %d received \"%s\"", r, job.reports[r].text);
  job_end(&job, true);
}

static void *barriers(void *argument) {
  struct banyan_comm *world = argument;
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) status = banyan_barrier(world);
  return NULL;
}

/* Rank 0 waits for a call that rank 1 does not make, and meanwhile advances the calls of its other thread. */
static void rank_busy(struct job *job, int rank) {
  job_set_engine("spin", "60");
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
        job_fail(&job, "rank %d received \"%s\"", r, job.reports[r].text);
    job_end(&job, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed),  cmocka_unit_test(test_killed_early), cmocka_unit_test(test_crashed),
      cmocka_unit_test(test_exits),   cmocka_unit_test(test_aborts),       cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_goes_on), cmocka_unit_test(test_split_fails),  cmocka_unit_test(test_busy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
