/* Helpers that join running jobs and leave them. None of them was known at the start. Plans that name them come into
 * use while calls go on. When helpers are killed in the middle of calls, or asked to leave, the job continues without
 * them, with the right sums. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "comm.h"
#include "net_operations.h"
#include "serve.h"

enum { RANKS = 3, TEST = 7 /* the report that no process uses, for requests to rank 0 */, LAST = 99 };

#define HEAD(name, vertices)                                                                                           \
  "{\"format\": \"banyan-plan 1\", \"name\": \"" name "\", \"ranks\": 3, \"vertices\": {" vertices "}, \"trees\": ["
#define HELPER(name) "\"" name "\": {\"kind\": \"helper\"}"

static const char one[] =
    HEAD("one", HELPER("g")) "{\"share\": 0.7, \"root\": \"g\", \"up\": {\"0\": \"g\", \"1\": \"g\", "
                             "\"2\": \"g\"}}, {\"share\": 0.3, \"root\": \"2\", \"up\": "
                             "{\"1\": \"2\", \"0\": \"1\"}}]}";
static const char two[] = HEAD("two", HELPER("g") ", " HELPER("h")) //
    "{\"share\": 0.5, \"root\": \"h\", \"up\": {\"0\": \"h\", \"g\": \"h\", \"1\": \"g\", \"2\": \"g\"}},"
    "{\"share\": 0.5, \"root\": \"g\", \"up\": {\"0\": \"g\", \"1\": \"0\", \"2\": \"g\"}}]}";

/* Rank 0 proposes the plan until it is in use or, where it is to be refused, until the proposal fails. */
struct proposal {
  const char *plan;
  bool refused;
};

static const struct proposal coming[] = {{NULL, false}, {one, false},    {one, true}, {two, false},
                                         {two, true},   {"ring", false}, {one, false}};
static const struct proposal apart[] = {{NULL, false}, {two, true}, {one, false}, {"ring", false}};

struct plot {
  const struct proposal *proposals;
  const char *names[4]; /* names of the helpers, in the order of their starts */
  bool unreachable;     /* the first helper accepts no links */
};

static volatile sig_atomic_t stop;

static void leave(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static struct job *joins; /* the job that a helper's process joins, as its rank joins_as */
static int joins_as;

/* No process can connect to this process any more, as if it were behind a firewall. */
static void close_listeners(void) {
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (int fd = 3; fd < 1024; fd++) {
    int listens = 0;
    socklen_t length = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens)
      must_hold(dup3(nothing, fd, O_CLOEXEC) == fd);
  }
  close(nothing);
}

static void joined(const char *name, uint32_t ranks) {
  const struct plot *plot = joins->argument;
  (void)name;
  (void)ranks;
  if (plot->unreachable && joins_as == RANKS) close_listeners();
  job_set_stage(joins, joins_as, 1);
}

static void rank_helps(struct job *job, int rank) {
  const struct plot *plot = job->argument;
  signal(SIGTERM, leave);
  joins = job;
  joins_as = rank;
  struct banyan_options options = {.host = plot->names[rank - RANKS]};
  if (by_helper_run(&options, &stop, joined) != BANYAN_OK) rank_fail("helper %d: %s", rank, banyan_error_text());
}

static bool uses(struct banyan_comm *comm, const char *plan) {
  struct by_plan *wanted = NULL;
  must(by_plan_named(plan, RANKS, &wanted));
  by_job_lock(comm->job);
  bool same = by_team_plan(comm->team)->version == wanted->version;
  by_job_unlock(comm->job);
  by_plan_destroy(wanted);
  return same;
}

/* Whether the proposal that the test proposals has been settled. */
static bool pursue(struct banyan_comm *comm, const struct proposal *proposal) {
  if (!proposal->plan || (!proposal->refused && uses(comm, proposal->plan))) return true;
  enum banyan_status status = banyan_comm_propose_plan(comm, proposal->plan);
  if (status == BANYAN_OK) return false;
  must_hold(status == BANYAN_ERR_PLAN && strstr(banyan_error_text(), "is not here"));
  return proposal->refused;
}

static void make_calls(struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own) {
  static const int often[] = {BANYAN_ALLREDUCE, BANYAN_REDUCE, BANYAN_BROADCAST, BANYAN_ALLREDUCE};
  struct operation operation;
  uint64_t kind = by_rng_below(rng, 6);
  operation_choose(rng, RANKS, kind < 4 ? often[kind] : -1, by_rng_below(rng, 6) ? 5000 : 300000, &operation);
  operation_do(comm, &operation, (unsigned)by_rng_below(own, 4));
}

/* Returns whether to go on. */
static bool ask_test(struct job *job, struct banyan_comm *world, struct banyan_comm *other) {
  const struct plot *plot = job->argument;
  const struct proposal *proposals = plot->proposals;
  int32_t number = 0;
  if (banyan_comm_rank(world) == 0) {
    number = atomic_load(&job->reports[TEST].stage);
    bool come = number < LAST && pursue(world, &proposals[number]);
    if (come && pursue(other, &proposals[number])) job_set_stage(job, 0, number);
  }
  must(banyan_broadcast(world, &number, 1, BANYAN_INT32, 0));
  return number != LAST;
}

struct namer {
  struct by_job *job;
  _Atomic bool stop;
};

/* Any thread may ask for names while helpers join. */
static void *ask_names(void *argument) {
  struct namer *namer = argument;
  for (uint32_t i = 0; !atomic_load(&namer->stop); i++) {
    must_hold(by_job_name(namer->job, i % 8)[0] != '\0');
    usleep(500);
  }
  return NULL;
}

static void rank_runs(struct job *job, int rank) {
  struct by_rng rng, own;
  char size[16];
  snprintf(size, sizeof size, "%d", RANKS);
  setenv("BANYAN_SIZE", size, 1);
  if (rank >= RANKS) {
    rank_helps(job, rank);
    return;
  }
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join(), *other = NULL;
  must(banyan_comm_split(world, 0, -rank, &other));
  struct namer namer = {.job = world->job};
  pthread_t thread;
  must_hold(!pthread_create(&thread, NULL, ask_names, &namer));
  while (ask_test(job, world, other)) {
    if (by_rng_below(&own, 8) == 0) job_doze(&own, 400);
    make_calls(by_rng_below(&rng, 3) ? world : other, &rng, &own);
  }
  atomic_store(&namer.stop, true);
  must_hold(!pthread_join(thread, NULL));
  banyan_comm_destroy(other);
  banyan_comm_destroy(world);
}

static void request(struct job *job, int number) {
  job_set_stage(job, TEST, number);
  if (number != LAST) job_wait_stage(job, 0, number);
}

static void one_job(int seed) {
  struct plot plot = {.proposals = coming, .names = {"g", "g", "h", "g"}};
  struct by_rng rng;
  by_rng_init(&rng, (uint64_t)seed);
  struct job job = {.n = RANKS + 4,
                    .run = rank_runs,
                    .transport = seed % 2 ? "tcp" : NULL,
                    .argument = &plot,
                    .seed = (uint64_t)seed};
  job_prepare(&job);
  for (int r = 0; r < RANKS; r++) job_start_rank(&job, r);
  if (seed % 3) job_doze(&rng, 20000);
  job_start_rank(&job, RANKS); /* g, perhaps while the job starts */
  request(&job, 1);
  job_doze(&rng, 20000);
  job_signal(&job, RANKS, SIGKILL);
  request(&job, 2);
  job_start_rank(&job, RANKS + 1); /* g again; it leaves with the job */
  job_start_rank(&job, RANKS + 2); /* h */
  request(&job, 3);
  job_doze(&rng, 20000);
  job_signal(&job, RANKS + 2, by_rng_below(&rng, 2) ? SIGKILL : SIGTERM);
  request(&job, 4);
  request(&job, 5);
  request(&job, 6);
  job_start_rank(&job, RANKS + 3); /* g, though a helper of this name exists; perhaps too late */
  request(&job, LAST);
  for (int r = 0; r < RANKS; r++) job_wait_rank(&job, r);
  for (int r = 0; r < RANKS; r++) job_check_exit(&job, r);
  job_wait_rank(&job, RANKS + 1);
  job_check_exit(&job, RANKS + 1);
  job_signal(&job, RANKS + 3, SIGKILL);
  job_wait(&job);
  job_check_log(&job, "(host g) is lost", -1);
  job_check_log(&job, "(host h) is lost", -1);
  job_check_log(&job, "what went through it goes among ranks", 2);
  job_end(&job, false);
}

static void test_newcomers(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) one_job((int)job_seed(i));
}

/* A newcomer cannot connect to a helper that all others can reach. The newcomer leaves and the helper stays. Later the
 * helper is stopped while no plan needs it. The next newcomer waits for it no longer than it takes to find that it does
 * not answer. */
static void test_apart(void **state) {
  struct plot plot = {.proposals = apart, .names = {"g", "h", "h"}, .unreachable = true};
  struct job job = {.n = RANKS + 3, .run = rank_runs, .argument = &plot, .seed = 1};
  (void)state;
  job_prepare(&job);
  for (int r = 0; r < RANKS; r++) job_start_rank(&job, r);
  job_start_rank(&job, RANKS);
  job_wait_stage(&job, RANKS, 1);
  job_start_rank(&job, RANKS + 1);
  job_wait_stage(&job, RANKS + 1, 1);
  request(&job, 1); /* the second helper would need a link to the first */
  job_check_log(&job, "(host h) is lost (helper 1 (host h) has no link to helper 0 (host g)", -1);
  request(&job, 2);
  job_check_log(&job, "(host g) is lost", 0);
  request(&job, 3);
  job_signal(&job, RANKS, SIGSTOP);
  job_start_rank(&job, RANKS + 2);
  job_wait_stage(&job, RANKS + 2, 1);
  job_check_log(&job, "(host g) is lost (it does not answer", -1);
  job_signal(&job, RANKS, SIGKILL);
  request(&job, LAST);
  for (int r = 0; r < RANKS; r++) job_wait_rank(&job, r);
  for (int r = 0; r < RANKS; r++) job_check_exit(&job, r);
  job_end(&job, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_newcomers), cmocka_unit_test(test_apart)};
  return cmocka_run_group_tests_name("newcomers", tests, NULL, NULL);
}
