/* Whatever ends a job, every rank reports the same reason: also where programs end as soon as a call has failed,
 * without destroying anything, and whichever way they make their calls. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "job.h"

enum { RANKS = 4, COUNT = 1000, LARGE = 100000 };

static float memory[LARGE + 1];
static size_t count = COUNT;

/* ---- the ways to make a call: each returns OK, or ends with the reason */

static struct banyan_call usual_call(void) {
  return (struct banyan_call){
      .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .send = memory, .recv = memory, .count = count};
}

static enum banyan_status call_and_wait(struct job *job, int rank, struct banyan_comm *world) {
  struct banyan_call call = usual_call();
  (void)job, (void)rank;
  return banyan_run(world, &call);
}

static enum banyan_status call_and_test(struct job *job, int rank, struct banyan_comm *world) {
  struct banyan_call call = usual_call();
  struct banyan_request *request;
  enum banyan_status status = banyan_start(world, &call, &request);
  bool done = false;
  (void)job, (void)rank;
  while (status == BANYAN_OK && !done) status = banyan_test(request, &done);
  return status;
}

static struct {
  struct job *job;
  int rank;
  atomic_bool ended;
} noted;

static void note_end(void *argument, enum banyan_status status, const char *text) {
  (void)argument, (void)text;
  if (status != BANYAN_OK) {
    job_report_status(noted.job, noted.rank, status);
    _exit(0);
  }
  atomic_store(&noted.ended, true);
}

static enum banyan_status call_and_be_notified(struct job *job, int rank, struct banyan_comm *world) {
  struct banyan_call call = usual_call();
  struct banyan_request *request;
  noted.job = job;
  noted.rank = rank;
  atomic_store(&noted.ended, false);
  BY_TRY(banyan_start(world, &call, &request));
  BY_TRY(banyan_then(request, note_end, NULL));
  while (!atomic_load(&noted.ended)) usleep(100);
  return BANYAN_OK;
}

static enum banyan_status submit_and_wait(struct job *job, int rank, struct banyan_comm *world) {
  struct banyan_request *request;
  (void)job, (void)rank;
  BY_TRY(banyan_submit_allreduce(world, "gradient", memory, memory, count, BANYAN_FLOAT32, BANYAN_SUM, &request));
  return banyan_wait(request);
}

/* ---- what one rank does in place of the calls of the others */

static enum banyan_status wait_for_failure(const struct banyan_comm *world) {
  enum banyan_status status;
  while ((status = banyan_comm_state(world)) == BANYAN_OK) usleep(500);
  return status;
}

static enum banyan_status call_with_more(struct banyan_comm *world) {
  enum banyan_status status = BANYAN_OK;
  count++;
  while (status == BANYAN_OK) status = call_and_wait(NULL, 0, world);
  return status;
}

static enum banyan_status call_barriers(struct banyan_comm *world) {
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) status = banyan_barrier(world);
  return status;
}

static enum banyan_status call_under_another_plan(struct banyan_comm *world) {
  enum banyan_status status = banyan_comm_set_plan(world, "ring");
  while (status == BANYAN_OK) status = call_and_wait(NULL, 0, world);
  return status;
}

static enum banyan_status abort_job(struct banyan_comm *world) {
  banyan_comm_abort(world, "the loss is not a number");
  return banyan_comm_state(world);
}

/* It leaves without destroying the communicator, but is no failure: its exit handlers do not run. */
static enum banyan_status die(struct banyan_comm *world) {
  (void)world;
  raise(SIGKILL);
  return BANYAN_OK;
}

static enum banyan_status leave(struct banyan_comm *world) {
  banyan_comm_destroy(world);
  _exit(0);
}

static enum banyan_status make_no_call(struct banyan_comm *world) {
  return wait_for_failure(world);
}

/* The process can make no connection to other ranks any more. */
static enum banyan_status lack_descriptors(struct banyan_comm *world) {
  struct rlimit limit = {1, 1};
  if (setrlimit(RLIMIT_NOFILE, &limit)) rank_fail("setrlimit failed");
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK) status = call_and_wait(NULL, 0, world);
  return status;
}

struct kind {
  const char *name;
  enum banyan_status status;
  const char *text; /* in every rank's reason; %d: the odd rank */
  enum banyan_status (*odd)(struct banyan_comm *world);
  enum banyan_status (*call)(struct job *job, int rank, struct banyan_comm *world); /* the others' */
  size_t count;
  bool ends;        /* the odd rank reports nothing */
  bool first_calls; /* there is no barrier before */
  bool slow;        /* takes seconds: one rank is the odd one, else several in turn */
  const char *deadline;
};

static const struct kind kinds[] = {
    {.name = "another count",
     .status = BANYAN_ERR_MISMATCH,
     .text = "call 1 differs between ranks",
     .odd = call_with_more,
     .call = call_and_wait,
     .count = COUNT},
    {.name = "another large count",
     .status = BANYAN_ERR_MISMATCH,
     .text = "call 1 differs",
     .odd = call_with_more,
     .call = call_and_test,
     .count = LARGE},
    {.name = "another collective",
     .status = BANYAN_ERR_MISMATCH,
     .text = "rank %d (host here) calls barrier",
     .odd = call_barriers,
     .call = call_and_be_notified,
     .count = COUNT},
    {.name = "another plan",
     .status = BANYAN_ERR_MISMATCH,
     .text = "plans differ between ranks",
     .odd = call_under_another_plan,
     .call = call_and_wait,
     .count = LARGE},
    {.name = "abort",
     .status = BANYAN_ERR_ABORTED,
     .text = "rank %d (host here) aborted: the loss is not a number",
     .odd = abort_job,
     .call = call_and_wait,
     .count = COUNT},
    {.name = "abort while others submit",
     .status = BANYAN_ERR_ABORTED,
     .text = "rank %d (host here) aborted",
     .odd = abort_job,
     .call = submit_and_wait,
     .count = COUNT},
    {.name = "death",
     .status = BANYAN_ERR_PEER_DEAD,
     .text = "rank %d (host here) is gone",
     .odd = die,
     .call = call_and_wait,
     .count = LARGE,
     .ends = true},
    {.name = "leaving",
     .status = BANYAN_ERR_PEER_DEAD,
     .text = "rank %d (host here) left",
     .odd = leave,
     .call = call_and_wait,
     .count = COUNT,
     .ends = true},
    {.name = "no call",
     .status = BANYAN_ERR_TIMEOUT,
     .text = "rank %d (host here), which has not made this call",
     .odd = make_no_call,
     .call = call_and_test,
     .count = COUNT,
     .slow = true,
     .deadline = "1"},
    {.name = "no submission",
     .status = BANYAN_ERR_TIMEOUT,
     .text = "waits for 1 of 4 ranks, which have not submitted it: %d",
     .odd = make_no_call,
     .call = submit_and_wait,
     .count = COUNT,
     .slow = true,
     .deadline = "1"},
    {.name = "no descriptors",
     .status = BANYAN_ERR_CONNECT,
     .text = "Too many open files",
     .odd = lack_descriptors,
     .call = call_and_wait,
     .count = COUNT,
     .first_calls = true,
     .slow = true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct setup {
  const struct kind *kind;
  int odd;
};

static void run_rank(struct job *job, int rank) {
  const struct setup *setup = job->argument;
  const struct kind *kind = setup->kind;
  setenv("BANYAN_HOST", "here", 1);
  if (kind->deadline) setenv("BANYAN_DEADLINE", kind->deadline, 1);
  struct banyan_comm *world = job_join();
  enum banyan_status status = kind->first_calls ? BANYAN_OK : banyan_barrier(world);
  count = kind->count;
  if (rank == setup->odd && status == BANYAN_OK) status = kind->odd(world);
  while (status == BANYAN_OK) status = kind->call(job, rank, world);
  job_report_status(job, rank, status);
  _exit(0);
}

/* Where rank 0 dies, the others decide alone, and agree on the beginning of the text. */
static void check_reports(struct job *job, const struct setup *setup) {
  const struct kind *kind = setup->kind;
  char text[200];
  int first = setup->odd == 0 && kind->ends ? 1 : 0;
  bool decide_alone = setup->odd == 0 && kind->ends;
  snprintf(text, sizeof text, kind->text, setup->odd);
  for (int r = 0; r < RANKS; r++) {
    const struct job_report *report = &job->reports[r];
    if (r == setup->odd && kind->ends) continue;
    bool same = decide_alone || !strcmp(report->text, job->reports[first].text);
    if (report->status != kind->status || !strstr(report->text, text) || !same)
      job_fail(job, "%s of rank %d: rank %d ended with \"%s\": %s\nwhere rank %d has: %s", kind->name, setup->odd, r,
               banyan_status_name(report->status), report->text, first, job->reports[first].text);
  }
}

static void test_reasons(void **state) {
  (void)state;
  static const int odd[] = {1, 0, RANKS - 1};
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < (kinds[k].slow ? 1 : 3); i++) {
      struct setup setup = {&kinds[k], odd[i]};
      struct job job = {.n = RANKS, .run = run_rank, .transport = (k + i) % 2 ? "shm" : "tcp", .argument = &setup};
      job_start(&job);
      job_wait(&job);
      check_reports(&job, &setup);
      job_end(&job, false);
    }
}

/* ---- a rank that does not call, while others wait */

/* The odd rank calls when the test requests it. */
static void run_late_rank(struct job *job, int rank) {
  const struct setup *setup = job->argument;
  setenv("BANYAN_HOST", rank == setup->odd ? "slow" : "quick", 1);
  setenv("BANYAN_STALL", "0.3", 1);
  struct banyan_comm *world = job_join();
  while (rank == setup->odd && !atomic_load(&job->reports[0].stage)) usleep(500);
  must(banyan_barrier(world));
  banyan_comm_destroy(world);
}

static void test_late_ranks(void **state) {
  (void)state;
  for (int odd = 0; odd < 3; odd++) {
    struct setup setup = {.odd = odd};
    struct job job = {.n = 3, .run = run_late_rank, .transport = "tcp", .argument = &setup};
    char text[120];
    snprintf(text, sizeof text, " for rank %d (host slow), which has not made this call: is it slow", odd);
    job_start(&job);
    for (double until = job_now() + 30; !job_count_log(&job, text) && job_now() < until; usleep(10000)) {
    }
    atomic_store(&job.reports[0].stage, 1);
    job_wait(&job);
    job_check_log(&job, "control: call 0, barrier", -1);
    job_check_log(&job, text, -1);
    job_end(&job, true);
  }
}

/* ---- what one rank alone cannot do when the job starts */

static void run_with_setting(struct job *job, int rank) {
  const char *const *setting = job->argument;
  setenv("BANYAN_HOST", "here", 1);
  if (rank == 0) setenv(setting[0], setting[1], 1);
  struct banyan_comm *world = NULL;
  enum banyan_status status = banyan_comm_create(NULL, &world);
  while (status == BANYAN_OK) status = banyan_barrier(world);
  job_report_status(job, rank, status);
  _exit(0);
}

static void test_settings(void **state) {
  (void)state;
  static const char *const settings[][3] = {
      {"BANYAN_PLANNER", "nonsense=1", "cannot use BANYAN_PLANNER"},
      {"BANYAN_TOPOLOGY", "/nowhere/net.json", "/nowhere/net.json"},
      {"BANYAN_TIMELINE", "/nowhere/timeline.json", "/nowhere/timeline.json"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    struct job job = {.n = RANKS, .run = run_with_setting, .argument = settings[i]};
    job_start(&job);
    job_wait(&job);
    for (int r = 0; r < RANKS; r++)
      if (!strstr(job.reports[r].text, settings[i][2]) || job.reports[r].status != job.reports[0].status)
        job_fail(&job, "%s: rank %d ended with \"%s\": %s", settings[i][0], r,
                 banyan_status_name(job.reports[r].status), job.reports[r].text);
    job_end(&job, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reasons), cmocka_unit_test(test_late_ranks),
                                     cmocka_unit_test(test_settings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
