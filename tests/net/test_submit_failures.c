/* Named operations that fail. Ranks submit something else, late or never, die or leave, or send malformed messages.
 * Deaths also happen at chosen moments of a negotiation, just before or after a rank sends a message or starts a group:
 * all other ranks get an error for their submitted operations that names the dead rank. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

#include "controller_parts.h"
#include "job_life.h"
#include "job_state.h"
#include "submitter.h"

enum { MOST = 1000, NEVER = 1 << 20 };

static float values[64][MOST];

static enum banyan_status submit(struct banyan_comm *comm, const char *name, float *at, size_t count,
                                 struct banyan_request **out) {
  return banyan_submit_allreduce(comm, name, at, at, count, BANYAN_FLOAT32, BANYAN_SUM, out);
}

static enum banyan_status submit_and_wait(struct banyan_comm *comm, const char *name, size_t count) {
  struct banyan_request *request = NULL;
  enum banyan_status status = submit(comm, name, values[0], count, &request);
  return status == BANYAN_OK ? banyan_wait(request) : status;
}

static void must_contain(const char *part) {
  if (!strstr(banyan_error_text(), part)) rank_fail("'%s' is not in '%s'", part, banyan_error_text());
}

static void wait_for_stage(const struct job *job, int rank, int stage) {
  for (double until = job_now() + 30; atomic_load(&job->reports[rank].stage) < stage; usleep(1000))
    must_hold(job_now() < until);
}

/* Waits until all ranks are here. */
static void meet(struct job *job, int rank, int stage) {
  job_set_stage(job, rank, stage);
  for (int r = 0; r < job->n; r++) wait_for_stage(job, r, stage);
}

/* ---- different operations under one name */

static void rank_differs(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  bool odd = rank == job->n - 1;
  char name[32];
  for (int i = 0; i < 20; i++) {
    if (odd == i % 2) usleep(2000); /* sometimes the odd rank submits first, sometimes last */
    snprintf(name, sizeof name, "gradient %d", i % 3);
    must_fail(BANYAN_ERR_MISMATCH, submit_and_wait(world, name, odd ? 11 : 10));
    must_contain(name);
    must_contain("allreduce of 10 f32, sum");
    must_contain("allreduce of 11 f32, sum");
    must(submit_and_wait(world, "other", 10)); /* the job goes on */
    must(submit_and_wait(world, name, 12));    /* the name is free again */
  }
  struct banyan_negotiation counts;
  banyan_comm_negotiation(world, &counts);
  must_hold(counts.refused <= 20);
  banyan_comm_destroy(world);
}

static void test_differ(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {.n = 2 + i, .run = rank_differs, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* ---- invalid arguments */

/* Rank 1, while its operation "twice" waits. If one of them is invalid, none is submitted; if one is rejected, those
 * before it are. */
static void submit_some(struct banyan_comm *world, struct banyan_request **out) {
  const char *names[] = {"thrice", "twice", "never"};
  struct banyan_call call = {.dtype = BANYAN_FLOAT32, .send = values[2], .recv = values[2], .count = 1};
  struct banyan_submission what[] = {{.calls = &call, .n_calls = 1}, {.calls = &call, .n_calls = 1}, {.n_calls = 1}};
  struct banyan_request *requests[3] = {0};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_submit_all(world, names, what, 3, requests));
  must_hold(!requests[0] && !requests[1] && !requests[2]);
  what[2].calls = &call;
  what[2].size_of_struct = sizeof call;
  must_fail(BANYAN_ERR_ARGUMENT, banyan_submit_all(world, names, what, 3, requests));
  must_contain("size_of_struct");
  must_hold(!requests[0] && !requests[1] && !requests[2]);
  what[2].size_of_struct = 0;
  must_fail(BANYAN_ERR_ARGUMENT, banyan_submit_all(world, names, what, 3, requests));
  must_contain("\"twice\"");
  must_hold(requests[0] && !requests[1] && !requests[2]);
  *out = requests[0];
}

static void rank_errs(struct job *job, int rank) {
  (void)job;
  struct banyan_comm *world = job_join();
  struct banyan_request *request = NULL, *again = NULL;
  struct banyan_call call = {.collective = BANYAN_SEND, .send = values, .count = 1, .root = !rank};
  struct banyan_submission none = {0}, pair = {.calls = &call, .n_calls = 1}, late = {.size_of_struct = 1000};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_submit(world, "none", &none, &request));
  must_fail(BANYAN_ERR_UNSUPPORTED, banyan_submit(world, "pair", &pair, &request));
  must_fail(BANYAN_ERR_UNSUPPORTED, banyan_submit(world, "late", &late, &request));
  must_fail(BANYAN_ERR_ARGUMENT, banyan_submit(world, NULL, &pair, &request));
  must_fail(BANYAN_ERR_ARGUMENT, submit(world, "", values[0], 1, &request));
  must_fail(BANYAN_ERR_ARGUMENT, submit(world, "no buffer", NULL, 1, &request));
  must(submit(world, "twice", values[0], 1, &request));
  if (rank) {
    must_fail(BANYAN_ERR_ARGUMENT, submit(world, "twice", values[1], 1, &again));
    must_contain("twice");
    must_fail(BANYAN_ERR_ARGUMENT, banyan_comm_set_plan(world, "ring"));
    must_contain("twice");
    submit_some(world, &again);
    job_set_stage(job, 1, 1);
  } else {
    must(banyan_wait(request));
  }
  if (rank) must(banyan_wait(request));
  if (rank) must(banyan_wait(again));
  must(banyan_comm_set_plan(world, "ring"));
  must(submit_and_wait(world, "round the ring", 100));
  banyan_comm_destroy(world);
}

static void rank_errs_in_turn(struct job *job, int rank) {
  if (!rank) {
    struct banyan_comm *world = job_join();
    wait_for_stage(job, 1, 1);
    must(submit_and_wait(world, "twice", 1));
    must(submit_and_wait(world, "thrice", 1));
    must(banyan_comm_set_plan(world, "ring"));
    must(submit_and_wait(world, "round the ring", 100));
    banyan_comm_destroy(world);
  } else {
    rank_errs(job, rank);
  }
}

static void test_errors(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_errs_in_turn};
  job_run(&job);
}

/* ---- ranks that make others wait */

/* The last rank submits when the test requests it. In jobs with an argument it has done nothing but join before. */
static void rank_waits(struct job *job, int rank) {
  setenv("BANYAN_STALL", "0.2", 1);
  setenv("BANYAN_HOST", rank == job->n - 1 ? "slow" : "quick", 1);
  struct banyan_comm *world = job_join();
  if (!job->argument) must(submit_and_wait(world, "first", 10));
  if (rank == job->n - 1) wait_for_stage(job, 0, 7);
  must(submit_and_wait(world, "layer.3/weight", 10));
  banyan_comm_destroy(world);
}

static void test_stall(void **state) {
  (void)state;
  for (int i = 0; i < 8; i++) {
    char text[200];
    struct job job = {.n = 2 + i / 2, .run = rank_waits, .transport = "tcp", .argument = i % 2 ? "only joins" : NULL};
    job_start(&job);
    snprintf(
        text, sizeof text,
        "operation \"layer.3/weight\" (allreduce of 10 f32, sum) waits for 1 of %d ranks, which have not submitted "
        "it: %d (host slow)",
        job.n, job.n - 1);
    for (double until = job_now() + 30; !job_count_log(&job, text) && job_now() < until; usleep(10000)) {
    }
    atomic_store(&job.reports[0].stage, 7);
    job_wait(&job);
    job_check_log(&job, text, -1);
    job_check_log(&job, "not answer", 0);
    job_end(&job, true);
  }
}

/* The first or the last rank never submits. */
static void rank_never_comes(struct job *job, int rank) {
  int quiet = job->seed % 2 ? 0 : job->n - 1;
  char text[64];
  setenv("BANYAN_DEADLINE", "0.4", 1);
  struct banyan_comm *world = job_join();
  if (rank == quiet) {
    for (double until = job_now() + 30; banyan_comm_state(world) == BANYAN_OK && job_now() < until;) usleep(1000);
    must_fail(BANYAN_ERR_TIMEOUT, submit_and_wait(world, "lost", 10));
  } else {
    must_fail(BANYAN_ERR_TIMEOUT, submit_and_wait(world, "lost", 10));
  }
  must_contain("operation \"lost\"");
  snprintf(text, sizeof text, "of %d ranks, which have not submitted it: ", job->n); /* others may be late as well */
  must_contain(text);
  snprintf(text, sizeof text, " %d (host", quiet);
  must_contain(text);
  banyan_comm_destroy(world);
}

static void test_never(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    struct job job = {.n = 2 + i / 2, .run = rank_never_comes, .transport = i % 2 ? "tcp" : "shm", .seed = (uint64_t)i};
    job_run(&job);
  }
}

/* ---- communicators that end */

static void rank_destroys(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *other = NULL;
  struct banyan_request *requests[3] = {NULL};
  must(banyan_comm_duplicate(world, &other));
  for (int i = 0; i < 3; i++) {
    char name[32];
    snprintf(name, sizeof name, "only of rank %d, %d", rank, i);
    must(submit(other, name, values[i], 10, &requests[i]));
  }
  must(banyan_barrier(world));
  banyan_comm_destroy(other);
  for (int i = 0; i < 3; i++) {
    must_fail(BANYAN_ERR_CLOSED, banyan_wait(requests[i]));
    must_contain("was destroyed while operation \"only of rank");
  }
  must(banyan_barrier(world));
  must(submit_and_wait(world, "afterwards", 10));
  banyan_comm_destroy(world);
  (void)job;
}

static void test_destroy(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {.n = 2 + i, .run = rank_destroys, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* A rank leaves the job on purpose. The operations of the others cannot start. */
static void rank_leaves(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  must(submit_and_wait(world, "first", 10));
  if (rank != job->n - 1) {
    enum banyan_status status = submit_and_wait(world, "second", 10);
    must_hold(status != BANYAN_OK);
    must_contain("left the job");
  }
  banyan_comm_destroy(world);
}

static void test_leave(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3 + i, .run = rank_leaves, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* ---- deaths */

/* Each rank submits in its own order, over and over. Some operations are submitted by only some ranks in a step, and by
 * the others in the next step. */
static enum banyan_status go_on(struct banyan_comm *world, struct by_rng *own, uint64_t step) {
  enum { N = 12 };
  struct banyan_request *requests[N] = {NULL};
  enum banyan_status first = banyan_step(world, step);
  uint32_t shift = (uint32_t)by_rng_below(own, N);
  for (uint32_t i = 0; i < N && first == BANYAN_OK; i++) {
    uint32_t k = (i * 5 + shift) % N;
    char name[32];
    snprintf(name, sizeof name, "gradient %u", k);
    if (by_rng_below(own, 20) == 0) job_doze(own, 500);
    first = submit(world, name, values[k], k % 4 ? 10 * k : MOST, &requests[k]);
  }
  for (uint32_t k = 0; k < N; k++) {
    enum banyan_status status = requests[k] ? banyan_wait(requests[k]) : BANYAN_OK;
    if (first == BANYAN_OK) first = status;
  }
  return first;
}

static void rank_survives(struct job *job, int rank) {
  int mode = *(const int *)job->argument;
  struct by_rng own;
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  job_set_stage(job, rank, 1);
  enum banyan_status status = BANYAN_OK;
  if (mode == 1 && rank == (int)(job->seed % (uint64_t)job->n)) pause(); /* dies before it has submitted anything */
  for (uint64_t step = 0; status == BANYAN_OK && step < NEVER; step++) {
    if (mode == 2 && step == 3) { /* all ranks but the victim wait for something that it lacks */
      if (rank == (int)(job->seed % (uint64_t)job->n)) pause();
      status = submit_and_wait(world, "what the victim lacks", 10);
    }
    if (status == BANYAN_OK) status = go_on(world, &own, step);
  }
  job_report_status(job, rank, status);
  must_fail(status, submit_and_wait(world, "after the end", 10));
  banyan_comm_destroy(world);
}

static void check_survivor(const struct job *job, int rank, int victim) {
  char name[32];
  const struct job_report *report = &job->reports[rank];
  snprintf(name, sizeof name, "rank %d (host", victim);
  if (report->status != BANYAN_ERR_PEER_DEAD || !strstr(report->text, name))
    job_fail(job, "rank %d: %s: %s", rank, banyan_status_name(report->status), report->text);
}

static void test_deaths(void **state) {
  (void)state;
  static const char *const shapes[] = {"control=auto", "control=ring", "control=star", "control=tree:1"};
  for (int i = 0; i < job_rounds(15); i++) {
    int mode = i % 3, n = 2 + i % 5;
    struct job job = {
        .n = n, .run = rank_survives, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i), .argument = &mode};
    int victim = (int)(job.seed % (uint64_t)n);
    struct by_rng rng;
    by_rng_init(&rng, job.seed);
    setenv("BANYAN_ENGINE", shapes[i % 4], 1);
    job_start(&job);
    for (int r = 0; r < n; r++) job_wait_stage(&job, r, 1);
    usleep((unsigned)(mode ? 100000 : by_rng_below(&rng, 50000)));
    job_signal(&job, victim, SIGKILL);
    job_wait(&job);
    for (int r = 0; r < n; r++) {
      if (r == victim) continue;
      job_check_exit(&job, r);
      check_survivor(&job, r, victim);
    }
    job_end(&job, false);
  }
  unsetenv("BANYAN_ENGINE");
}

static void rank_aborts(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_request *request = NULL;
  must(submit_and_wait(world, "first", 10));
  job_set_stage(job, rank, 1);
  if (rank == job->n - 1) {
    for (int r = 0; r < rank; r++) /* or their first submission may end like this */
      while (atomic_load(&job->reports[r].stage) < 1) usleep(1000);
    banyan_comm_abort(world, "enough");
  } else {
    if (submit(world, "second", values[0], 10, &request) == BANYAN_OK)
      must_fail(BANYAN_ERR_ABORTED, banyan_wait(request));
    must_contain("enough");
  }
  banyan_comm_destroy(world);
}

static void test_abort(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {.n = 2 + i, .run = rank_aborts, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* ---- control messages */

static void write_message(struct banyan_comm *comm, uint32_t to, const void *bytes, size_t n) {
  by_job_lock(comm->job);
  must(by_engine_write(comm->job->engine, to, by_named_submitter(comm)->id, bytes, n));
  by_progress_kick(comm->job);
  by_job_unlock(comm->job);
}

/* Rank 1 sends malformed messages to rank 0, which counts them, and everything goes on. */
static void rank_sends_malformed_messages(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_negotiation counts;
  unsigned char bytes[300];
  struct by_rng rng;
  by_rng_init(&rng, 1);
  must(submit_and_wait(world, "first", 10));
  for (int i = 0; i < 100; i++) {
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (unsigned char)by_rng_next(&rng);
    bytes[0] = (unsigned char)(i % 4);
    if (rank == 1) write_message(world, 0, bytes, 1 + by_rng_below(&rng, sizeof bytes));
    if (i % 10 == 0) must(submit_and_wait(world, "meanwhile", 10));
  }
  must(submit_and_wait(world, "last", 10));
  banyan_comm_negotiation(world, &counts);
  must_hold(counts.malformed == (rank ? 0 : 100));
  banyan_comm_destroy(world);
  (void)job;
}

static void test_control_messages(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_sends_malformed_messages, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* ---- idle jobs */

#ifdef __SANITIZE_THREAD__
enum { MOST_SWITCHES = INT_MAX }; /* a thread of the sanitizer wakes all the time */
#else
enum { MOST_SWITCHES = 3 }; /* this thread wakes too, to report its stage */
#endif

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

/* Whether nothing happens for a second. */
static bool all_is_quiet(struct banyan_comm *world) {
  struct banyan_counters before, after;
  banyan_comm_counters(world, &before);
  long then = switches();
  usleep(1000000);
  long now = switches();
  banyan_comm_counters(world, &after);
  return after.frames_sent == before.frames_sent && after.frames_received == before.frames_received &&
         after.sleeps == before.sleeps && after.wakes_sent == before.wakes_sent && now - then <= MOST_SWITCHES;
}

/* No rank submits anything. After some time nothing is sent and no thread wakes. */
static void rank_idles(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  for (int i = 0; i < 5; i++) must(submit_and_wait(world, "gradient", 10));
  meet(job, rank, 1);
  usleep(200000);
  for (int tries = 0; !all_is_quiet(world); tries++) must_hold(tries < 20);
  meet(job, rank, 2); /* no rank wakes those that still wait */
  must(submit_and_wait(world, "gradient", 10));
  meet(job, rank, 3);
  banyan_comm_destroy(world);
}

static void test_idle(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_idles, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

enum { RANKS = 4, OPERATIONS = 12, LARGE = 2000 };
enum { NAMED = 0, BY_BITS = 4 /* steps in which operations are named, or have bits */ };
enum moment { NOTIFIES, HAS_NOTIFIED, ANSWERS, HAS_ANSWERED, STARTS, HAS_STARTED };

struct death {
  const char *control;
  int victim;
  enum moment moment;
  int step;     /* the first step in which the failure may happen */
  int times;    /* the number of the moment: the first, the second ... */
  bool fused;   /* counts only starts of fused operations */
  bool stalled; /* another rank lacks something, and the victim answers which rank it is */
};

static const struct death deaths[] = {
    /* The victim dies before it sends anything, with names and with bits: at the end of a chain, or in a star. */
    {"tree:1", 3, NOTIFIES, NAMED, 1, false, false},
    {"tree:1", 3, NOTIFIES, BY_BITS, 1, false, false},
    {"star", 2, NOTIFIES, BY_BITS, 1, false, false},
    /* A child has reported to the victim, which dies before it sends its own message, or just after. */
    {"tree:1", 1, NOTIFIES, NAMED, 1, false, false},
    {"tree:1", 1, HAS_NOTIFIED, NAMED, 1, false, false},
    {"tree:1", 2, HAS_NOTIFIED, BY_BITS, 2, false, false},
    {"ring", 1, HAS_NOTIFIED, BY_BITS, 1, false, false},
    /* The root dies once it knows all submissions, when some of its children know what starts, or when all do. */
    {"star", 0, ANSWERS, NAMED, 1, false, false},
    {"star", 0, ANSWERS, NAMED, 2, false, false},
    {"star", 0, ANSWERS, BY_BITS, 3, false, false},
    {"star", 0, HAS_ANSWERED, BY_BITS, 3, false, false},
    {"ring", 3, ANSWERS, BY_BITS, 1, false, false},
    /* The victim dies while the decision travels down the tree. */
    {"tree:1", 1, ANSWERS, NAMED, 1, false, false},
    {"tree:1", 2, HAS_ANSWERED, BY_BITS, 1, false, false},
    {"ring", 0, ANSWERS, BY_BITS, 1, false, false},
    /* The victim dies before it begins a call of several operations, or while the call is under way. */
    {"tree:1", 2, STARTS, NAMED, 1, true, false},
    {"auto", 3, STARTS, BY_BITS, 1, true, false},
    {"auto", 1, HAS_STARTED, BY_BITS, 1, true, false},
    {"star", 0, HAS_STARTED, BY_BITS, 1, true, false},
    /* The victim dies while it is asked which rank lacks an operation. */
    {"tree:1", 2, NOTIFIES, BY_BITS, 1, false, true},
    {"star", 0, ANSWERS, BY_BITS, 1, false, true},
};

/* ---- the victim */

static struct {
  const struct death *death;
  int times;
  void (*send)(void *context, uint32_t to, const void *message, size_t bytes);
  void (*start)(void *context, void *const *cookies, uint32_t n);
} plot;

static void pass(enum moment moment) {
  if (plot.death->moment == moment && ++plot.times == plot.death->times) kill(getpid(), SIGKILL);
}

static void send_or_die(void *context, uint32_t to, const void *message, size_t bytes) {
  bool up = *(const uint8_t *)message == BY_NEGOTIATION_UP;
  pass(up ? NOTIFIES : ANSWERS);
  plot.send(context, to, message, bytes);
  pass(up ? HAS_NOTIFIED : HAS_ANSWERED);
}

static void start_or_die(void *context, void *const *cookies, uint32_t n) {
  bool counts = n > 1 || !plot.death->fused;
  if (counts) pass(STARTS);
  plot.start(context, cookies, n);
  if (counts) pass(HAS_STARTED);
}

static void lay_plot(const struct banyan_comm *comm, const struct death *death) {
  by_job_lock(comm->job);
  struct by_controller_config *config = &by_named_submitter(comm)->controller->config;
  plot.death = death;
  plot.send = config->send;
  plot.start = config->start;
  config->send = send_or_die;
  config->start = start_or_die;
  by_job_unlock(comm->job);
}

/* ---- all ranks */

static enum banyan_status run_step(struct banyan_comm *world, struct by_rng *own, uint64_t step) {
  static float buffers[OPERATIONS][LARGE];
  struct banyan_request *requests[OPERATIONS] = {NULL};
  enum banyan_status first = banyan_step(world, step);
  uint32_t shift = (uint32_t)by_rng_below(own, OPERATIONS);
  for (uint32_t i = 0; i < OPERATIONS && first == BANYAN_OK; i++) {
    uint32_t k = (i * 5 + shift) % OPERATIONS;
    char name[32];
    snprintf(name, sizeof name, "gradient %u", k);
    first = banyan_submit_allreduce(world, name, buffers[k], buffers[k], k % 4 ? 10 * k : LARGE, BANYAN_FLOAT32,
                                    BANYAN_SUM, &requests[k]);
  }
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    enum banyan_status status = requests[k] ? banyan_wait(requests[k]) : BANYAN_OK;
    if (first == BANYAN_OK) first = status;
  }
  return first;
}

static enum banyan_status lack_one(struct banyan_comm *world, bool lacks) {
  static float value;
  struct banyan_request *request;
  while (lacks && banyan_comm_state(world) == BANYAN_OK) usleep(1000);
  enum banyan_status status =
      banyan_submit_allreduce(world, "lacked", &value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM, &request);
  return status == BANYAN_OK ? banyan_wait(request) : status;
}

static void rank_runs(struct job *job, int rank) {
  const struct death *death = job->argument;
  struct by_rng own;
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  meet(job, rank, 1); /* a death ends calls, no join */
  enum banyan_status status = BANYAN_OK;
  for (int step = 0; status == BANYAN_OK && step < (int)NEVER; step++) {
    if (step == death->step && rank == death->victim) {
      must(banyan_step(world, (uint64_t)step)); /* makes a controller */
      lay_plot(world, death);
    }
    if (step == death->step && death->stalled)
      status = lack_one(world, rank == (death->victim + 1) % RANKS);
    else
      status = run_step(world, &own, (uint64_t)step);
  }
  job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

static void check_who_died(struct job *job, int rank, int victim) {
  char name[32];
  const struct job_report *report = &job->reports[rank];
  snprintf(name, sizeof name, "rank %d (host", victim);
  job_check_exit(job, rank);
  if (report->status != BANYAN_ERR_PEER_DEAD || !strstr(report->text, name))
    job_fail(job, "rank %d: %s: %s", rank, banyan_status_name(report->status), report->text);
}

static void test_deaths_at_moments(void **state) {
  (void)state;
  setenv("BANYAN_STALL", "0.2", 1);
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
    const struct death *death = &deaths[i];
    struct job job = {
        .n = RANKS, .run = rank_runs, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed((int)i), .argument = death};
    job_set_engine("control", death->control);
    job_start(&job);
    job_wait(&job);
    job_check_killed(&job, death->victim, SIGKILL);
    for (int r = 0; r < RANKS; r++)
      if (r != death->victim) check_who_died(&job, r, death->victim);
    job_end(&job, false);
    unsetenv("BANYAN_ENGINE");
  }
  unsetenv("BANYAN_STALL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_differ),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_stall),
      cmocka_unit_test(test_never),
      cmocka_unit_test(test_destroy),
      cmocka_unit_test(test_leave),
      cmocka_unit_test(test_abort),
      cmocka_unit_test(test_control_messages),
      cmocka_unit_test(test_idle),
      cmocka_unit_test(test_deaths),
      cmocka_unit_test(test_deaths_at_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
