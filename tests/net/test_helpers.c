/* Helpers of real jobs, which add and forward. When helpers are killed at any moment, the ranks continue with the right
 * sums and the same bits everywhere. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "job_key.h"
#include "job_keys.h"
#include "key_files.h"
#include "net_operations.h"
#include "serve.h"

enum { RANKS = 3, LAST_CALLS = 4, DEAD = 1 };

/* The helpers have the numbers after the ranks. Small buffers need no helper. */
static const char one_helper[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"one\", \"ranks\": 3, \"vertices\": {\"h\": {\"kind\": \"helper\"}},"
    "\"classes\": [{\"up_to\": 64, \"trees\": [{\"share\": 1, \"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"0\"}}]},"
    "{\"trees\": [{\"share\": 0.5, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}},"
    "{\"share\": 0.2, \"root\": \"1\", \"up\": {\"h\": \"1\", \"0\": \"h\", \"2\": \"h\"}},"
    "{\"share\": 0.3, \"root\": \"2\", \"up\": {\"1\": \"2\", \"0\": \"1\"}}]}]}";
static const char two_helpers[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"two\", \"ranks\": 3,"
    "\"vertices\": {\"g\": {\"kind\": \"helper\"}, \"h\": {\"kind\": \"helper\"}}, \"trees\": ["
    "{\"share\": 0.4, \"root\": \"h\", \"up\": {\"0\": \"h\", \"g\": \"h\", \"1\": \"g\", \"2\": \"g\"}},"
    "{\"share\": 0.6, \"root\": \"g\", \"up\": {\"0\": \"g\", \"1\": \"0\", \"2\": \"g\"}}]}";

struct plot {
  const char *plan;
  int helpers;
  int calls;
  int deaths; /* deaths of the first helpers; the last calls come after the deaths */
};

static void rank_helps(const struct plot *plot, int number) {
  volatile sig_atomic_t stop = 0;
  char name[24];
  snprintf(name, sizeof name, "helper%d", number);
  struct banyan_options options = {.host = name};
  (void)plot;
  if (by_helper_run(&options, &stop, NULL) != BANYAN_OK) rank_fail("helper %d: %s", number, banyan_error_text());
}

/* All ranks must have the same bits of sums that no float holds exactly. */
static void check_bits(struct banyan_comm *world, const float *sum, size_t n) {
  uint32_t hash = 2166136261u, least = 0, most = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &sum[i], sizeof bits);
    hash = (hash ^ bits) * 16777619u;
  }
  int32_t mine = (int32_t)(hash >> 1);
  must(banyan_allreduce(world, &mine, &least, 1, BANYAN_INT32, BANYAN_MIN));
  must(banyan_allreduce(world, &mine, &most, 1, BANYAN_INT32, BANYAN_MAX));
  must_hold(least == most);
}

static void sum_roughly(struct banyan_comm *world, struct by_rng *rng, int rank) {
  size_t n = 1 + by_rng_below(rng, 400000);
  float *values = malloc(n * sizeof *values);
  must_hold(values != NULL);
  for (size_t i = 0; i < n; i++) values[i] = (float)(rank + 1) * 0.3f + (float)(i % 1000) * 0.1f;
  must(banyan_allreduce(world, values, values, n, BANYAN_FLOAT32, BANYAN_SUM));
  for (size_t i = 0; i < n; i++) {
    float wanted = 1.8f + 0.3f * (float)(i % 1000);
    if (values[i] < wanted - 0.01f || values[i] > wanted + 0.01f) rank_fail("element %zu is %g", i, (double)values[i]);
  }
  check_bits(world, values, n);
  free(values);
}

/* Ranks continue to call until the helpers are dead, however slow the test's process is. */
static void wait_for_deaths(struct job *job, struct by_rng *rng, int deaths) {
  for (int d = 0; d < deaths; d++)
    while (atomic_load(&job->reports[RANKS + d].stage) != DEAD) job_doze(rng, 1000);
}

static void kill_helper(struct job *job, int number, int signal_number) {
  job_signal(job, RANKS + number, signal_number);
  job_set_stage(job, RANKS + number, DEAD);
}

static void rank_calls(struct job *job, int rank) {
  const struct plot *plot = job->argument;
  struct by_rng rng, own;
  char size[16];
  snprintf(size, sizeof size, "%d", RANKS);
  setenv("BANYAN_SIZE", size, 1);
  setenv("BANYAN_PLAN", plot->plan, 1);
  if (rank >= RANKS) {
    rank_helps(plot, rank - RANKS);
    return;
  }
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  job_set_stage(job, rank, 1);
  for (int i = 0; i < plot->calls; i++) {
    if (by_rng_below(&own, 6) == 0) job_doze(&own, 400);
    if (i == plot->calls - LAST_CALLS) wait_for_deaths(job, &own, plot->deaths);
    struct operation operation;
    static const int collectives[] = {BANYAN_ALLREDUCE, BANYAN_REDUCE, BANYAN_BROADCAST, BANYAN_ALLREDUCE};
    uint64_t kind = by_rng_below(&rng, 6);
    operation_choose(&rng, RANKS, kind < 4 ? collectives[kind] : -1, by_rng_below(&rng, 4) ? 5000 : 300000, &operation);
    operation_do(world, &operation, (unsigned)by_rng_below(&own, 4));
    if (i % 4 == 0) sum_roughly(world, &rng, rank);
    job_set_stage(job, rank, i + 2);
  }
  banyan_comm_destroy(world);
}

static struct job make_job(const struct plot *plot, int seed) {
  return (struct job){.n = RANKS + plot->helpers,
                      .run = rank_calls,
                      .transport = seed % 2 ? "tcp" : NULL,
                      .argument = plot,
                      .seed = (uint64_t)seed};
}

static void test_help(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) {
    struct plot plot = {.plan = i / 2 % 2 ? two_helpers : one_helper, .helpers = 1 + i / 2 % 2, .calls = 60};
    struct job job = make_job(&plot, (int)job_seed(i));
    job_start(&job);
    job_wait(&job);
    job_check_log(&job, "is lost", 0);
    job_end(&job, true);
  }
}

/* Every call succeeds, and the loss is reported once. */
static void kill_helpers(int seed, const struct plot *plot, int signal_number) {
  struct by_rng rng;
  struct job job = make_job(plot, seed);
  by_rng_init(&rng, (uint64_t)seed);
  job_start(&job);
  job_wait_stage(&job, 0, 1 + (int)by_rng_below(&rng, 12));
  for (int i = 0; i < plot->deaths; i++) {
    job_doze(&rng, by_rng_below(&rng, 2) ? 3000 : 20000);
    kill_helper(&job, i, signal_number);
  }
  job_wait(&job);
  for (int r = 0; r < RANKS; r++) job_check_exit(&job, r);
  job_check_log(&job, "is lost", plot->deaths);
  job_check_log(&job, "goes among ranks from here on", plot->deaths);
  job_end(&job, false);
}

static void test_killed(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(16); i++) {
    int helpers = 1 + i % 2;
    const char *plan = helpers == 2 ? two_helpers : one_helper;
    struct plot plot = {.plan = plan, .helpers = helpers, .calls = 60, .deaths = 1 + i % 4 / 3};
    kill_helpers((int)job_seed(50 + i), &plot, SIGKILL);
  }
}

/* Helpers are killed while ranks and helpers connect. A dead helper either never took part or is lost, and its absence
 * is reported once. The same holds for helpers that come too late. */
static void test_killed_early(void **state) {
  (void)state;
  setenv("BANYAN_HELPERS", "deadline=0.3", 1);
  for (int i = 0; i < job_rounds(16); i++) {
    struct by_rng rng;
    int helpers = 1 + i % 2, deaths = 1 + i % 4 / 3;
    const char *plan = helpers == 2 ? two_helpers : one_helper;
    struct plot plot = {.plan = plan, .helpers = helpers, .calls = 10, .deaths = deaths};
    struct job job = make_job(&plot, (int)job_seed(150 + i));
    by_rng_init(&rng, job.seed);
    job_start(&job);
    for (int d = 0; d < deaths; d++) {
      job_doze(&rng, by_rng_below(&rng, 2) ? 5000 : 50000);
      kill_helper(&job, d, SIGKILL);
    }
    job_wait(&job);
    for (int r = 0; r < RANKS; r++) job_check_exit(&job, r);
    int missed = job_count_log(&job, "goes among ranks from here on") + job_count_log(&job, "is not there");
    if (missed < deaths || missed > helpers) job_fail(&job, "%d helpers were missed, not %d", missed, deaths);
    job_end(&job, false);
  }
  unsetenv("BANYAN_HELPERS");
}

/* A stopped helper keeps its connections. No connection ends meanwhile, so rank 0 runs its check and gives the helper
 * up. */
static void test_stopped(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(2); i++) {
    struct by_rng rng;
    struct plot plot = {.plan = i % 2 ? one_helper : two_helpers, .helpers = 2 - i % 2, .calls = 60};
    struct job job = make_job(&plot, (int)job_seed(120 + i));
    by_rng_init(&rng, job.seed);
    job_start(&job);
    job_wait_stage(&job, 0, 1 + (int)by_rng_below(&rng, 12));
    job_signal(&job, RANKS, SIGSTOP);
    for (int r = 0; r < RANKS; r++) job_wait_rank(&job, r);
    for (int r = 0; r < RANKS; r++) job_check_exit(&job, r);
    job_check_log(&job, "(host helper0) is lost (it does not answer", 1);
    job_signal(&job, RANKS, SIGKILL);
    job_wait(&job);
    job_end(&job, false);
  }
}

/* A helper does not come. The job starts without it and reports this. The other helper has enough time. */
static void test_missing(void **state) {
  (void)state;
  for (int helpers = 0; helpers < 2; helpers++) {
    setenv("BANYAN_HELPERS", helpers ? "deadline=4" : "deadline=0.3", 1);
    struct plot plot = {.plan = two_helpers, .helpers = helpers, .calls = 20};
    struct job job = make_job(&plot, 90 + helpers);
    job_start(&job);
    job_wait(&job);
    job_check_log(&job, "is not there", 2 - helpers);
    job_end(&job, true);
  }
  unsetenv("BANYAN_HELPERS");
}

/* ---- the job's key is replaced */

static char folder[] = "/tmp/banyan-helpers-XXXXXX";

static void write_file(const char *name, const char *text) {
  char path[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  write_key_file(path, text);
}

/* What an agent passes to the helper that it starts, and nobody replaces. */
static void write_ticket(const char *name) {
  char key_text[BY_TICKET_KEY_TEXT], text[BY_TICKET_TEXT];
  struct by_key key;
  assert_ok(by_ticket_key_derive(JOB_KEY, key_text));
  assert_ok(by_key_derive(key_text, &key));
  assert_ok(
      by_ticket_issue(&key, &(struct by_ticket_subject){BY_TICKET_HELPER, name}, (uint64_t)time(NULL) + 60, text));
  write_file(name, text);
}

static void rank_outlives_key(struct job *job, int rank) {
  char path[64], name[24] = "key";
  struct by_rng rng;
  by_rng_init(&rng, (uint64_t)rank);
  if (rank >= RANKS) snprintf(name, sizeof name, "helper%d", rank - RANKS);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  unsetenv("BANYAN_KEY");
  setenv("BANYAN_KEY_FILE", path, 1);
  setenv("BANYAN_SIZE", "3", 1);
  setenv("BANYAN_PLAN", two_helpers, 1);
  if (rank >= RANKS) {
    rank_helps(NULL, rank - RANKS);
    return;
  }
  struct banyan_comm *world = job_join();
  job_set_stage(job, rank, 1);
  wait_for_deaths(job, &rng, 1); /* of the key */
  by_rng_init(&rng, job->seed);
  for (int i = 0; i < 3; i++) sum_roughly(world, &rng, rank);
  banyan_comm_destroy(world);
}

/* The first links are opened when the key under which the helpers joined has ended. */
static void test_replaced_key(void **state) {
  (void)state;
  assert_non_null(mkdtemp(folder));
  for (int i = 0; i < 2; i++) {
    char next[BY_JOB_KEY_MAX];
    struct job job = {.n = RANKS + 2, .run = rank_outlives_key, .transport = i ? "tcp" : NULL, .seed = (uint64_t)i + 1};
    write_file("key", JOB_KEY);
    write_ticket("helper0");
    write_ticket("helper1");
    job_start(&job);
    for (int rank = 0; rank < RANKS; rank++) job_wait_stage(&job, rank, 1);
    int64_t until = time(NULL);
    assert_ok(by_job_key_rotate(JOB_KEY, until, until, next));
    write_file("key", next);
    while (time(NULL) <= until) usleep(10000);
    job_set_stage(&job, RANKS, DEAD);
    job_wait(&job);
    job_check_log(&job, "is lost", 0);
    job_end(&job, true);
  }
  static const char *const names[] = {"key", "helper0", "helper1"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help),    cmocka_unit_test(test_killed),  cmocka_unit_test(test_killed_early),
      cmocka_unit_test(test_stopped), cmocka_unit_test(test_missing), cmocka_unit_test(test_replaced_key),
  };
  return cmocka_run_group_tests_name("helpers", tests, NULL, NULL);
}
