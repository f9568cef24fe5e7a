/* Random jobs. They make collectives and messages of all sizes over several communicators, which are split, duplicated
 * and destroyed between the calls, on every plan and transport, with unusual settings. One or several threads make the
 * calls, and wait for them in all ways or leave them to the progress thread. Ranks pause, or one rank dies. All values
 * are checked. A seed repeats a job. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

enum { SLOTS = 5, PENDING = 24, THREADS = 3, STEPS = 60, AFTERWARDS = 40 };

static const char *const plans[] = {NULL,     "star",        "sharded", "ring",     "chain",    "tree",
                                    "tree:3", "double-tree", "halving", "doubling", "exchange", "exchange:2"};
enum { PLANS = sizeof plans / sizeof *plans };

struct death {
  int rank, how; /* how: a signal, ABORT, or 0 if no rank dies */
};
enum { ABORT = 1000 };

struct pending {
  struct operation operation;
  struct banyan_request *request; /* NULL: unused */
  int slot;
};

/* What one thread of a rank does. Everything but `own` is the same on all ranks. */
struct script {
  struct job *job;
  int rank;
  uint64_t seed;
  bool tiny;
  struct by_rng rng, own;
  struct banyan_comm *comms[SLOTS]; /* the first exists throughout; the others only on their members */
  struct pending pending[PENDING];
  enum banyan_status status; /* status of the first call that failed */
  char text[JOB_TEXT];
  pthread_t thread;
};

/* ---- calls under way */

static void note(struct script *s, enum banyan_status status) {
  if (status == BANYAN_OK || s->status != BANYAN_OK) return;
  s->status = status;
  snprintf(s->text, sizeof s->text, "%s", banyan_error_text());
  fprintf(stderr, "rank %d: %s: %s\n", s->rank, banyan_status_name(status), s->text);
}

static void ended(struct script *s, struct pending *p, enum banyan_status status) {
  note(s, status);
  if (status == BANYAN_OK) operation_check(&p->operation);
  operation_free(&p->operation);
  p->request = NULL;
}

static void wait_for(struct script *s, struct pending *p) {
  if (p->request) ended(s, p, banyan_wait(p->request));
}

/* No thread waits for the call: only the progress thread advances it. */
static void sleep_for(struct script *s, struct pending *p) {
  bool done = false;
  while (p->request && !done) {
    job_doze(&s->own, 3000);
    enum banyan_status status = banyan_test(p->request, &done);
    if (done) ended(s, p, status);
  }
}

static void wait_for_any(struct script *s) {
  struct banyan_request *requests[PENDING];
  size_t index = 0;
  for (int i = 0; i < PENDING; i++) requests[i] = s->pending[i].request;
  enum banyan_status status = banyan_wait_any(requests, PENDING, &index);
  if (index < PENDING) ended(s, &s->pending[index], status);
}

static void wait_for_all(struct script *s, int slot) {
  for (int i = 0; i < PENDING; i++)
    if (slot < 0 || s->pending[i].slot == slot) wait_for(s, &s->pending[i]);
}

static struct pending *free_place(struct script *s) {
  for (int i = 0; i < PENDING; i++)
    if (!s->pending[i].request) return &s->pending[i];
  struct pending *p = &s->pending[by_rng_below(&s->own, PENDING)];
  wait_for(s, p);
  return p;
}

static void start(struct script *s, int slot, const struct operation *operation) {
  struct pending *p = free_place(s);
  p->operation = *operation;
  p->slot = slot;
  operation_prepare(s->comms[slot], &p->operation, (unsigned)by_rng_below(&s->own, 4));
  enum banyan_status status = banyan_start(s->comms[slot], &p->operation.call, &p->request);
  if (status != BANYAN_OK) ended(s, p, status);
}

static void run(struct script *s, int slot, struct operation *operation) {
  operation_prepare(s->comms[slot], operation, (unsigned)by_rng_below(&s->own, 4));
  enum banyan_status status = banyan_run(s->comms[slot], &operation->call);
  note(s, status);
  if (status == BANYAN_OK) operation_check(operation);
  operation_free(operation);
}

/* ---- steps of a script */

static size_t most_elements(struct script *s) {
  if (s->tiny) return 60;
  return by_rng_below(&s->rng, 6) ? 3000 : by_rng_below(&s->rng, 4) ? 60000 : 400000;
}

static void call(struct script *s, int slot) {
  struct operation operation;
  if (!s->comms[slot]) return;
  operation_choose(&s->rng, banyan_comm_size(s->comms[slot]), -1, most_elements(s), &operation);
  if (by_rng_below(&s->own, 3))
    start(s, slot, &operation);
  else
    run(s, slot, &operation);
}

static void messages(struct script *s, int slot) {
  struct banyan_comm *comm = s->comms[slot];
  int n = banyan_comm_size(comm), self = banyan_comm_rank(comm);
  if (n < 2) return;
  for (uint64_t left = 1 + by_rng_below(&s->rng, 8); left; left--) {
    int from = (int)by_rng_below(&s->rng, (uint64_t)n);
    int to = (from + 1 + (int)by_rng_below(&s->rng, (uint64_t)n - 1)) % n;
    struct operation operation;
    operation_choose(&s->rng, n, BANYAN_RECV, most_elements(s), &operation);
    operation.call.tag = (uint32_t)by_rng_below(&s->rng, 2);
    operation.call.collective = self == from ? BANYAN_SEND : BANYAN_RECV;
    operation.call.root = self == from ? to : from;
    if (self == from || self == to) start(s, slot, &operation);
  }
}

static void drop(struct script *s, int slot) {
  wait_for_all(s, slot);
  banyan_comm_destroy(s->comms[slot]);
  s->comms[slot] = NULL;
}

static void divide(struct script *s, int slot) {
  int to = (slot + 1 + (int)by_rng_below(&s->rng, SLOTS - 1)) % SLOTS, colour = 0;
  if (to == 0) return;
  bool all = by_rng_below(&s->rng, 3) == 0;
  for (int r = 0; r <= s->rank; r++) colour = (int)by_rng_below(&s->rng, 4) - 1;
  drop(s, to);
  if (!s->comms[slot]) return;
  note(s, all ? banyan_comm_duplicate(s->comms[slot], &s->comms[to])
              : banyan_comm_split(s->comms[slot], colour, (int)by_rng_below(&s->own, 5), &s->comms[to]));
}

static void dawdle(struct script *s) {
  switch (by_rng_below(&s->own, 6)) {
  case 0: wait_for_any(s); break;
  case 1: wait_for(s, &s->pending[by_rng_below(&s->own, PENDING)]); break;
  case 2: sleep_for(s, &s->pending[by_rng_below(&s->own, PENDING)]); break;
  case 3: wait_for_all(s, -1); break;
  default: job_doze(&s->own, 2000);
  }
}

static void take_step(struct script *s, uint64_t number) {
  by_rng_init(&s->rng, s->seed * 100003 + number);
  int slot = (int)by_rng_below(&s->rng, SLOTS);
  switch (by_rng_below(&s->rng, 12)) {
  case 0: divide(s, slot); break;
  case 1:
    if (slot) drop(s, slot);
    break;
  case 2:
    if (s->comms[slot]) note(s, banyan_comm_set_plan(s->comms[slot], plans[by_rng_below(&s->rng, PLANS)]));
    break;
  case 3:
    if (s->comms[slot]) messages(s, slot);
    break;
  case 4:
  case 5: dawdle(s); break;
  default: call(s, slot);
  }
}

static void *play(void *argument) {
  struct script *s = argument;
  const struct death *death = s->job->argument;
  uint64_t end = death->how ? UINT64_MAX : (uint64_t)STEPS, last = 10 + by_rng_below(&s->own, 100);
  for (uint64_t i = 0; i < end && s->status == BANYAN_OK; i++) {
    if (death->how == ABORT && death->rank == s->rank && i == last) banyan_comm_abort(s->comms[0], "the loss is NaN");
    take_step(s, i);
  }
  wait_for_all(s, -1);
  for (int i = SLOTS - 1; i >= 0; i--) drop(s, i);
  return NULL;
}

/* ---- a rank's process */

static void choose_settings(struct by_rng *rng, bool *tiny) {
  static const char *const connections[] = {"1", "1", "2", "4", "8"}, *const chunks[] = {"0", "0", "5000", "64K"};
  *tiny = by_rng_below(rng, 8) == 0;
  setenv("BANYAN_CONNECTIONS", connections[by_rng_below(rng, 5)], 1);
  job_set_engine("chunk", chunks[by_rng_below(rng, 4)]);
  setenv("BANYAN_SOCKET_BUFFER", *tiny ? "4K" : by_rng_below(rng, 2) ? "64K" : "0", 1);
  if (by_rng_below(rng, 2)) job_set_engine("eager-limit", by_rng_below(rng, 2) ? "4K" : "64K");
  if (by_rng_below(rng, 2)) job_set_engine("credit", by_rng_below(rng, 2) ? "1M" : "2M");
  if (by_rng_below(rng, 3) == 0) job_set_engine("block", "4K");
  if (by_rng_below(rng, 3) == 0) job_set_engine("spin", "0");
  const char *plan = plans[by_rng_below(rng, PLANS)];
  if (plan) setenv("BANYAN_PLAN", plan, 1);
}

static void rank_plays(struct job *job, int rank) {
  static struct script scripts[THREADS];
  const struct death *death = job->argument;
  struct by_rng rng;
  bool tiny;
  by_rng_init(&rng, job->seed);
  choose_settings(&rng, &tiny);
  setenv("BANYAN_HOST", "here", 1);
  if (death->how == SIGSTOP) setenv("BANYAN_DEADLINE", "8", 1);
  int threads = by_rng_below(&rng, 3) ? 1 : THREADS;
  struct banyan_comm *world = job_join();
  for (int t = 0; t < threads; t++) {
    scripts[t] = (struct script){.job = job, .rank = rank, .seed = job->seed * 10 + (uint64_t)t, .tiny = tiny};
    by_rng_init(&scripts[t].own, job->seed * 1000 + (uint64_t)(rank * 10 + t));
    must(banyan_comm_duplicate(world, &scripts[t].comms[0]));
  }
  job_set_stage(job, rank, 1);
  for (int r = 0; r < job->n; r++) /* no rank aborts a call that another rank still begins */
    while (atomic_load(&job->reports[r].stage) < 1) usleep(200);
  banyan_comm_destroy(world);
  for (int t = 1; t < threads; t++) must_hold(pthread_create(&scripts[t].thread, NULL, play, &scripts[t]) == 0);
  play(&scripts[0]);
  for (int t = 1; t < threads; t++) must_hold(pthread_join(scripts[t].thread, NULL) == 0);
  struct job_report *report = &job->reports[rank];
  report->status = scripts[0].status;
  snprintf(report->text, sizeof report->text, "%s", scripts[0].text);
}

/* ---- the test's process */

static struct job choose_job(uint64_t seed, const struct death *death, struct by_rng *rng) {
  static const char *const transports[] = {NULL, "shm", "tcp", "tcp"};
  by_rng_init(rng, seed + 1000000);
  return (struct job){.n = 2 + (int)by_rng_below(rng, 4),
                      .run = rank_plays,
                      .transport = transports[by_rng_below(rng, 4)],
                      .argument = death,
                      .seed = seed};
}

static void check_reports(struct job *job, enum banyan_status wanted, const char *text) {
  for (int r = 0; r < job->n; r++) {
    const struct job_report *report = &job->reports[r];
    const struct death *death = job->argument;
    if (death->how && death->how != ABORT && r == death->rank) continue;
    job_wait_rank(job, r);
    job_check_exit(job, r);
    if (report->status != wanted || !strstr(report->text, text))
      job_fail(job, "rank %d ended with %s, \"%s\", and not with %s, %s", r, banyan_status_name(report->status),
               report->text, banyan_status_name(wanted), text);
  }
}

/* Random ranks pause now and then. */
static void test_all_live(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(24); i++) {
    struct by_rng rng;
    struct death death = {0};
    struct job job = choose_job(job_seed(i), &death, &rng);
    job_start(&job);
    for (uint64_t left = by_rng_below(&rng, 4); left; left--) {
      int rank = (int)by_rng_below(&rng, (uint64_t)job.n);
      job_doze(&rng, 50000);
      job_signal(&job, rank, SIGSTOP);
      job_doze(&rng, 50000);
      job_signal(&job, rank, SIGCONT);
    }
    check_reports(&job, BANYAN_OK, "");
    job_end(&job, true);
  }
}

static void die(uint64_t seed, int how, enum banyan_status wanted) {
  struct by_rng rng;
  struct death death = {.how = how};
  struct job job = choose_job(seed, &death, &rng);
  char name[64];
  death.rank = (int)by_rng_below(&rng, (uint64_t)job.n);
  snprintf(name, sizeof name, "rank %d (host here)", death.rank);
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, 1);
  job_doze(&rng, 100000);
  if (how != ABORT) job_signal(&job, death.rank, how);
  job.limit = AFTERWARDS;
  check_reports(&job, wanted, name);
  if (how != ABORT) job_signal(&job, death.rank, SIGKILL);
  job_end(&job, false);
}

static void test_killed(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(12); i++) die(job_seed(100 + i), SIGKILL, BANYAN_ERR_PEER_DEAD);
}

static void test_aborts(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) die(job_seed(200 + i), ABORT, BANYAN_ERR_ABORTED);
}

static void test_stopped(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(2); i++) die(job_seed(300 + i), SIGSTOP, BANYAN_ERR_TIMEOUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_live),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_aborts),
      cmocka_unit_test(test_stopped),
  };
  return cmocka_run_group_tests_name("stress", tests, NULL, NULL);
}
