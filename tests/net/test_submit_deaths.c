/* A rank dies at a chosen moment of a negotiation: just before or after a letter or a start of its own. All others hear
 * of it from what they have submitted, with its name. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "context.h"
#include "controller_parts.h"
#include "job.h"
#include "submitter.h"

enum { RANKS = 4, OPERATIONS = 12, LARGE = 2000, NEVER = 1 << 20 };
enum { NAMED = 0, BY_BITS = 4 /* steps */ };
enum moment { NOTIFIES, HAS_NOTIFIED, ANSWERS, HAS_ANSWERED, STARTS, HAS_STARTED };

struct death {
  const char *control;
  int victim;
  enum moment moment;
  int step;     /* from which on it is to happen */
  int times;    /* at the first such moment, the second ... */
  bool fused;   /* of starts, those of several operations */
  bool stalled; /* another rank lacks something, and the victim answers who does */
};

static const struct death deaths[] = {
    /* with nothing said, by name and by bits: at the end of a chain, in its middle, among many */
    {"tree:1", 3, NOTIFIES, NAMED, 1, false, false},
    {"tree:1", 3, NOTIFIES, BY_BITS, 1, false, false},
    {"star", 2, NOTIFIES, BY_BITS, 1, false, false},
    /* a child has told it, and it tells nobody; or has just written the letter */
    {"tree:1", 1, NOTIFIES, NAMED, 1, false, false},
    {"tree:1", 1, HAS_NOTIFIED, NAMED, 1, false, false},
    {"tree:1", 2, HAS_NOTIFIED, BY_BITS, 2, false, false},
    {"ring", 1, HAS_NOTIFIED, BY_BITS, 1, false, false},
    /* the root, once everything is known to it; when some of its children know what starts; when all do */
    {"star", 0, ANSWERS, NAMED, 1, false, false},
    {"star", 0, ANSWERS, NAMED, 2, false, false},
    {"star", 0, ANSWERS, BY_BITS, 3, false, false},
    {"star", 0, HAS_ANSWERED, BY_BITS, 3, false, false},
    {"ring", 3, ANSWERS, BY_BITS, 1, false, false},
    /* on the way down */
    {"tree:1", 1, ANSWERS, NAMED, 1, false, false},
    {"tree:1", 2, HAS_ANSWERED, BY_BITS, 1, false, false},
    {"ring", 0, ANSWERS, BY_BITS, 1, false, false},
    /* the call of several operations: not begun here, and under way */
    {"tree:1", 2, STARTS, NAMED, 1, true, false},
    {"auto", 3, STARTS, BY_BITS, 1, true, false},
    {"auto", 1, HAS_STARTED, BY_BITS, 1, true, false},
    {"star", 0, HAS_STARTED, BY_BITS, 1, true, false},
    /* asked for who lacks something */
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
  by_context_lock(comm->context);
  struct by_controller_config *config = &comm->submitter->controller->config;
  plot.death = death;
  plot.send = config->send;
  plot.start = config->start;
  config->send = send_or_die;
  config->start = start_or_die;
  by_context_unlock(comm->context);
}

/* ---- all ranks */

static enum banyan_status run_step(struct banyan_comm *world, struct by_rng *own, uint64_t step) {
  static float values[OPERATIONS][LARGE];
  struct banyan_request *requests[OPERATIONS] = {NULL};
  enum banyan_status first = banyan_step(world, step);
  uint32_t shift = (uint32_t)by_rng_below(own, OPERATIONS);
  for (uint32_t i = 0; i < OPERATIONS && first == BANYAN_OK; i++) {
    uint32_t k = (i * 5 + shift) % OPERATIONS;
    char name[32];
    snprintf(name, sizeof name, "gradient %u", k);
    first = banyan_submit_allreduce(world, name, values[k], values[k], k % 4 ? 10 * k : LARGE, BANYAN_FLOAT32,
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
  enum banyan_status status = BANYAN_OK;
  for (int step = 0; status == BANYAN_OK && step < NEVER; step++) {
    if (step == death->step && rank == death->victim) {
      must(banyan_step(world, (uint64_t)step)); /* so that there is a controller */
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

static void check_survivor(struct job *job, int rank, int victim) {
  char name[32];
  const struct job_report *report = &job->reports[rank];
  snprintf(name, sizeof name, "rank %d (host", victim);
  job_check_exit(job, rank);
  if (report->status != BANYAN_ERR_PEER_DEAD || !strstr(report->text, name))
    job_fail(job, "rank %d: %s: %s", rank, banyan_status_name(report->status), report->text);
}

static void test_deaths(void **state) {
  (void)state;
  setenv("BANYAN_STALL", "0.2", 1);
  for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
    const struct death *death = &deaths[i];
    struct job job = {
        .n = RANKS, .run = rank_runs, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed((int)i), .argument = death};
    setenv("BANYAN_CONTROL", death->control, 1);
    job_start(&job);
    job_wait(&job);
    job_check_killed(&job, death->victim, SIGKILL);
    for (int r = 0; r < RANKS; r++)
      if (r != death->victim) check_survivor(&job, r, death->victim);
    job_end(&job, false);
  }
  unsetenv("BANYAN_CONTROL");
  unsetenv("BANYAN_STALL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deaths),
  };
  return cmocka_run_group_tests_name("deaths in negotiations", tests, NULL, NULL);
}
