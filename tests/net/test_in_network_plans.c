/* Plans with in-network trees that come and go while calls are made, in real processes. Servers join the running job.
 * The switches are control connections in front of an idle data plane: they grant cells, and sums bypass them. Each
 * plan's trees have cells of their own, which are free again when no rank uses the plan any more, when a proposal is in
 * vain, and when a server or a rank dies during the switch. Operations get the trees when they make most calls. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "check.h"
#include "comm.h"
#include "loop.h"
#include "net_operations.h"
#include "plan_switch.h"
#include "plans.h"
#include "serve.h"
#include "switch_control.h"

enum {
  RANKS = 3,
  S1 = RANKS,
  S2,
  H,
  G,
  TEST,
  PROCESSES = TEST,
  FORGET = 98 /* the other communicator is destroyed */,
  LAST = 99,
  CELLS = 2000,
  APART = 9 /* proposals from here on are for another communicator */,
  LATE = 11 /* and this one is for a call that it does not make any more */,
  PAIR = 12 /* a proposal for two of the ranks */,
  NOT_USED = 100,
  FAILED = 1000
};

/* Trees to h/0 and g/0. Small buffers go among ranks. */
#define HEAD(name)                                                                                                     \
  "{\"format\": \"banyan-plan 1\", \"name\": \"" name                                                                  \
  "\", \"ranks\": 3, \"vertices\": {\"h/0\": {\"kind\": \"server\"}, "                                                 \
  "\"g/0\": {\"kind\": \"server\"}, \"s1\": {\"kind\": \"switch\"}, \"s2\": {\"kind\": \"switch\"}, "                  \
  "\"s3\": {\"kind\": \"switch\"}}, \"classes\": [{\"up_to\": 64, \"trees\": [{\"share\": 1, \"root\": \"0\", "        \
  "\"up\": {\"1\": \"0\", \"2\": \"1\"}}]}, "
#define STAR(share, server)                                                                                            \
  "{\"share\": " share ", \"root\": \"" server "\", \"up\": {\"0\": \"" server "\", \"1\": \"" server                  \
  "\", \"2\": \"" server "\"}}"
#define OVER(share, server, s)                                                                                         \
  "{\"share\": " share ", \"root\": \"" server "\", \"up\": {\"0\": \"" s "\", \"1\": \"" s "\", \"2\": \"" s "\", "   \
  "\"" s "\": \"" server "\"}, \"ports\": {\"" s "\": {\"0\": \"lo\", \"1\": \"lo\", \"2\": \"lo\", \"" server         \
  "\": \"lo\"}}}"
#define CHAIN(share) "{\"share\": " share ", \"root\": \"2\", \"up\": {\"1\": \"2\", \"0\": \"1\"}}"

static const char one[] = HEAD("one") "{\"trees\": [" OVER("0.6", "h/0", "s1") ", " CHAIN("0.4") "]}]}";
/* Both larger classes have the same tree over s2. */
static const char two[] = HEAD("two") "{\"up_to\": 4000, \"trees\": [" OVER("1", "h/0", "s2") "]}, {\"trees\": [" OVER(
    "0.5", "h/0", "s2") ", " STAR("0.5", "g/0") "]}]}";
static const char other[] = HEAD("other") "{\"trees\": [" OVER("0.5", "g/0", "s1") ", " OVER("0.5", "h/0", "s2") "]}]}";
static const char vain[] = HEAD("vain") "{\"trees\": [" OVER("0.5", "h/0", "s1") ", " OVER("0.5", "g/0", "s3") "]}]}";
/* No tree goes to its servers. */
static const char idle[] = HEAD("idle") "{\"trees\": [" CHAIN("1") "]}]}";

/* Of two ranks, whose small buffers take the tree, too. */
static const char pair[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"pair\", \"ranks\": 2, \"vertices\": {\"h/0\": {\"kind\": "
    "\"server\"}, \"s1\": {\"kind\": \"switch\"}}, \"trees\": [{\"share\": 1, \"root\": \"h/0\", \"up\": "
    "{\"0\": \"s1\", \"1\": \"s1\", \"s1\": \"h/0\"}, \"ports\": {\"s1\": {\"0\": \"lo\", \"1\": \"lo\", "
    "\"h/0\": \"lo\"}}}]}";

static const char *const plans[] = {NULL, one, two, "ring", other, one, vain, other, idle, one, "ring", one, pair};

/* ---- switches ---- */

struct plane {
  struct job *job;
  int process;
};

static enum banyan_status do_clear(void *self, uint32_t base, uint32_t count) {
  (void)self;
  (void)base;
  (void)count;
  return BANYAN_OK;
}

/* The report's number is how many trees have cells. */
static enum banyan_status do_grant(void *self, const struct by_grant *grant, const struct by_plane_ends *ends) {
  const struct plane *plane = self;
  (void)grant;
  (void)ends;
  atomic_fetch_add(&plane->job->reports[plane->process].number, 1);
  return BANYAN_OK;
}

static enum banyan_status do_revoke(void *self, uint16_t job) {
  const struct plane *plane = self;
  (void)job;
  atomic_fetch_sub(&plane->job->reports[plane->process].number, 1);
  return BANYAN_OK;
}

static enum banyan_status do_group(void *self, uint16_t group, const struct by_switch_target *targets, uint32_t n) {
  (void)self;
  (void)group;
  (void)targets;
  (void)n;
  return BANYAN_OK;
}

static enum banyan_status do_count(const void *self, struct by_plane_counts *out) {
  (void)self;
  memset(out, 0, sizeof *out);
  return BANYAN_OK;
}

static int ports[3]; /* of s1, s2, and s3, where nothing listens */

static void run_switch(struct job *job, int process) {
  static const struct by_plane_ops ops = {.name = "idle",
                                          .clear = do_clear,
                                          .grant = do_grant,
                                          .revoke = do_revoke,
                                          .set_group = do_group,
                                          .count = do_count};
  static const char *const interfaces[] = {"lo"};
  struct plane self = {job, process};
  struct by_plane plane = {&ops, &self};
  struct by_loop *loop;
  struct by_switch_control *control;
  struct by_address address;
  must(by_loop_create(&by_clock_system, &loop));
  struct by_switch_control_options options = {
      .loop = loop, .plane = &plane, .cells = CELLS, .n_ports = 1, .ports = interfaces};
  must(by_switch_control_create(&options, &control));
  must(by_address_parse_host("127.0.0.1", ports[process - S1], &address));
  must(by_switch_control_listen(control, &address));
  job_set_stage(job, process, 1);
  for (;;) must(by_loop_run_once(loop, 100 * BY_MILLISECOND));
}

/* ---- servers ---- */

static volatile sig_atomic_t stop;
static struct job *joins;
static int joins_as;

static void joined(const char *name, unsigned trees) {
  (void)name;
  (void)trees;
  job_set_stage(joins, joins_as, 1);
}

static void run_server(struct job *job, int process) {
  struct by_serve_options options = {
      .joining = {.host = process == H ? "h" : "g"}, .trees = 1, .udp_port = job_free_port(), .joined = joined};
  joins = job;
  joins_as = process;
  if (by_serve(&options, &stop) != BANYAN_OK) rank_fail("server %d: %s", process, banyan_error_text());
}

/* ---- ranks ---- */

/* What came of the proposal that the test has asked for: its number, plus NOT_USED where the plan stays. */
struct outcome {
  int under_way;
  _Atomic int settled;
};

static void notified(void *context, uint64_t at, const char *why) {
  struct outcome *outcome = context;
  (void)at;
  if (why) fprintf(stderr, "proposal %d: %s\n", outcome->under_way, why);
  atomic_store(&outcome->settled, outcome->under_way + (why ? NOT_USED : 0));
}

static void propose(struct banyan_comm *comm, int number, struct outcome *outcome) {
  struct by_plan *plan = NULL;
  uint32_t n = (uint32_t)banyan_comm_size(comm);
  must(by_plan_named(plans[number], n, &plan));
  plan->origin.supplied = true;
  outcome->under_way = number;
  struct by_plan_switch_observer observer = {notified, outcome};
  must(by_plan_switches_propose(comm->job, by_team_id(comm->team), n, comm->processes, plan, NULL, &observer));
}

/* Rank 0 follows the test; the others follow rank 0. Returns the number that all follow. *submits: whether calls are
 * submitted. */
static int follow(struct job *job, struct banyan_comm *world, struct banyan_comm *apart, struct outcome *outcome,
                  bool *submits) {
  int32_t numbers[2] = {0};
  if (banyan_comm_rank(world) == 0) {
    int number = numbers[0] = atomic_load(&job->reports[TEST].stage);
    numbers[1] = (int32_t)atomic_load(&job->reports[TEST].number);
    int settled = atomic_load(&outcome->settled);
    if (number < LATE && number != outcome->under_way) propose(number < APART ? world : apart, number, outcome);
    if (settled % NOT_USED == number) job_set_stage(job, 0, settled);
  }
  must(banyan_broadcast(world, numbers, 2, BANYAN_INT32, 0));
  *submits = numbers[1];
  return numbers[0];
}

static void make_calls(struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own) {
  struct operation operation;
  bool sums = by_rng_below(rng, 4);
  operation_choose(rng, RANKS, sums ? BANYAN_ALLREDUCE : -1, by_rng_below(rng, 3) ? 3000 : 60000, &operation);
  operation_do(comm, &operation, (unsigned)by_rng_below(own, 4));
}

/* Proposes a plan in the midst of an iteration of the other communicator, which comes into use when the next one
 * begins.
 */
static void propose_late(struct banyan_comm *apart, struct outcome *outcome) {
  static float number[1];
  for (uint64_t i = 0; i < 4; i++) {
    must(banyan_step(apart, i));
    for (int k = 0; k < (i < 3 ? 20 : 1); k++)
      must(banyan_allreduce(apart, number, number, 1, BANYAN_FLOAT32, BANYAN_SUM));
  }
  if (banyan_comm_rank(apart) == RANKS - 1) propose(apart, LATE, outcome); /* rank 0 of the job */
}

/* A call of two of the ranks, of which the third knows nothing; reports how many went over trees to servers. */
static void make_pair_call(struct job *job, struct banyan_comm *some, struct by_rng *own) {
  struct banyan_counters before, after;
  struct operation operation;
  struct by_rng rng;
  int rank = banyan_comm_rank(some);
  banyan_comm_counters(some, &before);
  int32_t seed = (int32_t)by_rng_below(own, 1 << 20);
  must(banyan_broadcast(some, &seed, 1, BANYAN_INT32, 0));
  by_rng_init(&rng, (uint64_t)seed);
  operation_choose(&rng, 2, by_rng_below(&rng, 3) ? BANYAN_ALLREDUCE : -1, 3000, &operation);
  operation_do(some, &operation, (unsigned)by_rng_below(own, 4));
  banyan_comm_counters(some, &after);
  atomic_fetch_add(&job->reports[2 * rank].number, after.in_network - before.in_network);
}

/* Operations that switches add and others, one after the other and several at a time. */
static void submit_calls(struct banyan_comm *comm, struct by_rng *rng) {
  enum { NAMES = 3, MOST = 20000 };
  static const char *const names[NAMES] = {"a", "b", "c"};
  static double values[NAMES][MOST];
  struct banyan_request *requests[NAMES];
  int n = banyan_comm_size(comm), mine = banyan_comm_rank(comm) + 1;
  for (int round = 0; round < 6; round++) {
    enum banyan_dtype dtype = by_rng_below(rng, 4) ? BANYAN_INT32 : BANYAN_FLOAT64;
    uint64_t counts[NAMES], together = 1 + by_rng_below(rng, NAMES);
    for (uint64_t i = 0; i < together; i++) {
      counts[i] = 100 + by_rng_below(rng, MOST - 100);
      for (uint64_t k = 0; k < counts[i]; k++) {
        if (dtype == BANYAN_INT32) ((int32_t *)values[i])[k] = mine * (int32_t)(k + i);
        if (dtype == BANYAN_FLOAT64) values[i][k] = mine * (double)(k + i);
      }
      must(banyan_submit_allreduce(comm, names[i], values[i], values[i], counts[i], dtype, BANYAN_SUM, &requests[i]));
    }
    for (uint64_t i = 0; i < together; i++) {
      must(banyan_wait(requests[i]));
      for (uint64_t k = 0; k < counts[i]; k++) {
        double value = dtype == BANYAN_INT32 ? ((int32_t *)values[i])[k] : values[i][k];
        must_hold(value == n * (n + 1) / 2 * (double)(k + i));
      }
    }
  }
}

/* Proposes what the test asks for while rank 0 waits in a call. */
struct proposer {
  struct job *job;
  struct banyan_comm *comm;
  struct outcome outcome;
};

static void *propose_all(void *argument) {
  struct proposer *proposer = argument;
  struct job *job = proposer->job;
  for (int number; (number = atomic_load(&job->reports[TEST].stage)) != LAST; usleep(1000)) {
    if (number != proposer->outcome.under_way) propose(proposer->comm, number, &proposer->outcome);
    int settled = atomic_load(&proposer->outcome.settled);
    bool taken = by_plan_switches_view(proposer->comm->job, by_team_id(proposer->comm->team)).taken;
    if (!taken) atomic_store(&job->reports[0].number, (uint64_t)settled); /* else its first call is still to come */
  }
  return NULL;
}

/* Makes calls until one fails, and keeps the communicator until the test ends. */
static void run_until_failure(struct job *job, int rank, struct banyan_comm *world) {
  static float numbers[50000];
  struct proposer proposer = {.job = job, .comm = world};
  enum banyan_status status = BANYAN_OK;
  pthread_t thread;
  if (rank == 0) must_hold(!pthread_create(&thread, NULL, propose_all, &proposer));
  while (status == BANYAN_OK) status = banyan_allreduce(world, numbers, numbers, 50000, BANYAN_FLOAT32, BANYAN_SUM);
  job_report_status(job, rank, status);
  while (atomic_load(&job->reports[TEST].stage) != LAST) usleep(1000);
  if (rank == 0) must_hold(!pthread_join(thread, NULL));
}

static void run_rank(struct job *job, int rank) {
  struct by_rng rng, own;
  struct outcome outcome = {0};
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join(), *apart = NULL, *some = NULL;
  must(banyan_comm_split(world, 0, -rank, &apart));
  must(banyan_comm_split(world, rank == 1 ? -1 : 0, rank, &some));
  if (job->argument) run_until_failure(job, rank, world);
  bool submits = false, late = false;
  struct banyan_counters before, after;
  banyan_comm_counters(world, &before);
  for (int number; !job->argument && (number = follow(job, world, apart, &outcome, &submits)) != LAST;) {
    if (submits) { /* reports how many of these went over trees to servers */
      submit_calls(world, &rng);
      banyan_comm_counters(world, &after);
      atomic_store(&job->reports[rank].number, after.in_network - before.in_network);
      continue;
    }
    if (number == PAIR) {
      if (rank == 0 && outcome.under_way != PAIR) propose(some, PAIR, &outcome);
      if (some) make_pair_call(job, some, &own);
      continue;
    }
    if (number == LATE) { /* no more calls over the other communicator */
      if (!late) propose_late(apart, &outcome);
      late = true;
      continue;
    }
    if (number == FORGET) {
      banyan_comm_destroy(apart);
      apart = NULL;
    }
    if (by_rng_below(&own, 8) == 0) job_doze(&own, 400);
    make_calls(by_rng_below(&rng, 3) || !apart ? world : apart, &rng, &own);
    banyan_comm_counters(world, &before);
  }
  banyan_comm_destroy(apart);
  banyan_comm_destroy(some);
  banyan_comm_destroy(world);
}

static void run(struct job *job, int process) {
  char text[96];
  snprintf(text, sizeof text, "%d", RANKS);
  setenv("BANYAN_SIZE", text, 1);
  snprintf(text, sizeof text, "s1=127.0.0.1:%d,s2=127.0.0.1:%d,s3=127.0.0.1:%d", ports[0], ports[1], ports[2]);
  setenv("BANYAN_SWITCHES", text, 1);
  if (process < RANKS)
    run_rank(job, process);
  else if (process < H)
    run_switch(job, process);
  else
    run_server(job, process);
}

/* ---- the test ---- */

static void start(struct job *job) {
  for (int i = 0; i < 3; i++) ports[i] = job_free_port();
  job_prepare(job);
  for (int p = 0; p < H; p++) job_start_rank(job, p);
  for (int p = S1; p < H; p++) job_wait_stage(job, p, 1);
  for (int p = H; p <= G; p++) {
    usleep(20000); /* while the job starts, or later */
    job_start_rank(job, p);
  }
  for (int p = H; p <= G; p++) job_wait_stage(job, p, 1);
}

static void request(struct job *job, int number) {
  job_set_stage(job, TEST, number);
}

/* Waits until rank 0 reports exactly this about a proposal. */
static void expect(struct job *job, int outcome) {
  for (double until = job_now() + 60; atomic_load(&job->reports[0].stage) != outcome; usleep(1000))
    if (job_now() > until) job_fail(job, "rank 0 is at %d, not %d", atomic_load(&job->reports[0].stage), outcome);
}

/* Waits until a plan is used that is proposed by a thread of rank 0. */
static void expect_proposed(struct job *job, uint64_t outcome) {
  for (double until = job_now() + 60; atomic_load(&job->reports[0].number) != outcome; usleep(1000))
    if (job_now() > until) job_fail(job, "plan %llu is not used", (unsigned long long)outcome);
}

/* Waits until so many trees have cells at the two switches. */
static void expect_cells(struct job *job, uint64_t first, uint64_t second) {
  for (double until = job_now() + 60;; usleep(1000)) {
    uint64_t a = atomic_load(&job->reports[S1].number), b = atomic_load(&job->reports[S2].number);
    if (a == first && b == second) return;
    if (job_now() > until)
      job_fail(job, "%llu and %llu trees have cells, not %llu and %llu", (unsigned long long)a, (unsigned long long)b,
               (unsigned long long)first, (unsigned long long)second);
  }
}

static void use(struct job *job, int number, uint64_t first, uint64_t second) {
  request(job, number);
  expect(job, number);
  expect_cells(job, first, second);
}

static void finish(struct job *job) {
  request(job, LAST);
  for (int r = 0; r < RANKS; r++) job_wait_rank(job, r);
  for (int r = 0; r < RANKS; r++) job_check_exit(job, r);
  expect_cells(job, 0, 0); /* switches notice that rank 0 has gone */
  for (int p = S1; p < H; p++) job_signal(job, p, SIGKILL);
}

static struct job make_job(uint64_t seed) {
  return (struct job){.n = PROCESSES, .run = run, .seed = seed};
}

static void test_plans(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(2); i++) {
    struct job job = make_job(job_seed(i));
    start(&job);
    expect_cells(&job, 0, 0);
    use(&job, 1, 1, 0);
    use(&job, 2, 0, 1);
    use(&job, 3, 0, 0);
    use(&job, 4, 1, 1);
    use(&job, 5, 1, 0);
    use(&job, 8, 0, 0);
    use(&job, 7, 1, 1);
    use(&job, 9, 2, 1);
    use(&job, 10, 1, 1);
    use(&job, 9, 2, 1);
    request(&job, FORGET);
    expect_cells(&job, 1, 1);
    request(&job, LAST);
    for (int p = 0; p < RANKS; p++) job_wait_rank(&job, p);
    expect_cells(&job, 0, 0);
    for (int p = S1; p < H; p++) job_signal(&job, p, SIGKILL);
    for (int p = 0; p < PROCESSES; p++) job_wait_rank(&job, p);
    for (int p = 0; p < PROCESSES; p++)
      if (p != S1 && p != S2) job_check_exit(&job, p);
    job_check_log(&job, "has no part", 0);
    job_end(&job, false);
  }
}

/* The next plan of a communicator is agreed on, and it is destroyed before the call that would have used it. */
static void test_destroyed_before(void **state) {
  (void)state;
  struct job job = make_job(7);
  start(&job);
  use(&job, 1, 1, 0);
  use(&job, LATE, 2, 0);
  request(&job, FORGET);
  expect_cells(&job, 1, 0);
  finish(&job);
  job_end(&job, false);
}

/* Two of the ranks have a communicator of their own, with a tree beside that of the whole job. */
static void test_some_ranks(void **state) {
  (void)state;
  struct job job = make_job(8);
  start(&job);
  use(&job, 1, 1, 0);
  use(&job, PAIR, 2, 0);
  uint64_t before = atomic_load(&job.reports[2].number);
  for (double until = job_now() + 60; atomic_load(&job.reports[2].number) < before + 5; usleep(1000))
    if (job_now() > until) job_fail(&job, "calls of two ranks go among these");
  finish(&job);
  job_check_log(&job, "has no part", 0);
  job_end(&job, false);
}

/* One of two switches is not there: the other one's cells are given back, and the plan before stays. */
static void test_all_or_none(void **state) {
  (void)state;
  struct job job = make_job(3);
  start(&job);
  use(&job, 1, 1, 0);
  request(&job, 6);
  expect(&job, 6 + NOT_USED);
  expect_cells(&job, 1, 0);
  job_check_log(&job, "switch s3 grants nothing", -1);
  use(&job, 2, 0, 1);
  finish(&job);
  job_end(&job, false);
}

/* A server is stopped, so that the plan waits for it, and dies. */
static void test_server_dies(void **state) {
  (void)state;
  struct job job = make_job(4);
  start(&job);
  use(&job, 1, 1, 0);
  job_signal(&job, G, SIGSTOP);
  request(&job, 4);
  expect_cells(&job, 2, 1);
  job_signal(&job, G, SIGKILL);
  expect(&job, 4 + NOT_USED);
  expect_cells(&job, 1, 0);
  job_check_log(&job, "(host g) is lost", -1);
  use(&job, 3, 0, 0);
  finish(&job);
  job_end(&job, false);
}

/* A rank is stopped, so that the others cannot switch, and dies. The cells are free while the others still have their
 * communicators. */
static void test_rank_dies(void **state) {
  static const bool ends = true;
  struct job job = make_job(5);
  (void)state;
  job.argument = &ends;
  start(&job);
  request(&job, 1);
  expect_proposed(&job, 1);
  expect_cells(&job, 1, 0);
  job_signal(&job, 2, SIGSTOP);
  request(&job, 4);
  expect_cells(&job, 2, 1);
  job_signal(&job, 2, SIGKILL);
  expect_cells(&job, 0, 0);
  for (int r = 0; r < 2; r++) job_wait_stage(&job, r, FAILED);
  for (int r = 0; r < 2; r++) assert_int_equal(job.reports[r].status, BANYAN_ERR_PEER_DEAD);
  request(&job, LAST);
  for (int r = 0; r < 2; r++) job_wait_rank(&job, r);
  for (int r = 0; r < 2; r++) job_check_exit(&job, r);
  for (int p = S1; p < H; p++) job_signal(&job, p, SIGKILL);
  job_end(&job, false);
}

/* Waits until all ranks have made more operations over trees to servers. */
static void expect_in_network(struct job *job) {
  uint64_t before[RANKS];
  for (int r = 0; r < RANKS; r++) before[r] = atomic_load(&job->reports[r].number);
  for (int r = 0; r < RANKS; r++)
    for (double until = job_now() + 60; atomic_load(&job->reports[r].number) < before[r] + 5; usleep(1000))
      if (job_now() > until) job_fail(job, "operations of rank %d go among ranks", r);
}

/* Direct calls have the trees, then operations, which get those of later plans at once, and direct calls again. */
static void test_operations(void **state) {
  (void)state;
  struct job job = make_job(6);
  start(&job);
  use(&job, 1, 1, 0);
  atomic_store(&job.reports[TEST].number, 1);
  expect_in_network(&job);
  expect_cells(&job, 1, 0);
  use(&job, 3, 0, 0);
  use(&job, 4, 1, 1);
  expect_in_network(&job);
  use(&job, 5, 1, 0);
  expect_in_network(&job);
  atomic_store(&job.reports[TEST].number, 0);
  use(&job, 2, 0, 1);
  finish(&job);
  job_check_log(&job, "has no part", 0);
  job_end(&job, false);
}

/* Operations come to make most calls while another plan waits for its trees: the plan before it does not come back. */
static void test_operations_during_switch(void **state) {
  (void)state;
  struct job job = make_job(9);
  setenv("BANYAN_LOG", "info", 1);
  start(&job);
  unsetenv("BANYAN_LOG");
  use(&job, 1, 1, 0);
  job_signal(&job, G, SIGSTOP);
  request(&job, 4);
  expect_cells(&job, 2, 1);
  atomic_store(&job.reports[TEST].number, 1);
  for (double until = job_now() + 60; !job_count_log(&job, "make most calls"); usleep(1000))
    if (job_now() > until) job_fail(&job, "operations do not ask for trees");
  job_signal(&job, G, SIGCONT);
  expect(&job, 4);
  expect_in_network(&job);
  atomic_store(&job.reports[TEST].number, 0);
  use(&job, 3, 0, 0);
  finish(&job);
  job_check_log(&job, "plan 'one' from call", 1);
  job_end(&job, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans),
                                     cmocka_unit_test(test_all_or_none),
                                     cmocka_unit_test(test_operations),
                                     cmocka_unit_test(test_operations_during_switch),
                                     cmocka_unit_test(test_destroyed_before),
                                     cmocka_unit_test(test_some_ranks),
                                     cmocka_unit_test(test_server_dies),
                                     cmocka_unit_test(test_rank_dies)};
  return cmocka_run_group_tests_name("plans with in-network trees", tests, NULL, NULL);
}
