/* Ranks that fork. A child that lives on holds no connection of its parent, can do nothing with its parent's
 * communicators, and disturbs nothing when it ends. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

enum {
  CHILD_LIVES_S = 60 /* longer than the ranks' deadline, so that only the child's death would end a wait for it */
};

/* How a rank creates a child. BARE: by a system call that fork handlers do not see. */
enum way { FORK, FORK_IN_CALLS, SPAWN, BARE, WAYS };

struct parent {
  int rank;
  enum way way;
};

extern char **environ;

static void allreduce(struct banyan_comm *world, uint32_t salt) {
  struct operation operation = {.call = {.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .count = 5000},
                                .salt = salt};
  operation_do(world, &operation, salt % 4);
}

/* ---- a rank dies and its child lives */

static _Noreturn void linger(void) {
  alarm(CHILD_LIVES_S);
  for (;;) pause();
}

static pid_t spawn_sleep(void) {
  char seconds[16];
  pid_t pid = -1;
  snprintf(seconds, sizeof seconds, "%d", CHILD_LIVES_S);
  char *arguments[] = {(char[]){"sleep"}, seconds, NULL};
  must_hold(posix_spawnp(&pid, "sleep", NULL, NULL, arguments, environ) == 0);
  return pid;
}

static pid_t make_child(enum way way) {
  if (way == SPAWN) return spawn_sleep();
  pid_t pid = way == BARE ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  if (pid == 0) linger();
  return pid;
}

static void rank_outlived(struct job *job, int rank) {
  const struct parent *parent = job->argument;
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_DEADLINE", "20", 1);
  struct banyan_comm *world = job_join();
  float in[4000] = {0}, out[4000];
  struct banyan_request *request = NULL;
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = in, .recv = out, .count = 4000};
  for (uint32_t i = 0; i < 5; i++) allreduce(world, i);
  if (rank == parent->rank) {
    if (parent->way == FORK_IN_CALLS) must(banyan_start(world, &call, &request));
    job->reports[rank].number = (uint64_t)make_child(parent->way);
  }
  job_set_stage(job, rank, 1);
  enum banyan_status status = request ? banyan_wait(request) : BANYAN_OK;
  while (status == BANYAN_OK) status = banyan_run(world, &call);
  job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

static void outlive(int rank, enum way way, const char *transport) {
  struct parent parent = {.rank = rank, .way = way};
  struct job job = {.n = 3, .run = rank_outlived, .transport = transport, .argument = &parent};
  char name[64];
  snprintf(name, sizeof name, "rank %d (host here)", rank);
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, 1);
  pid_t child = (pid_t)job.reports[rank].number;
  job_signal(&job, rank, SIGKILL);
  for (int r = 0; r < job.n; r++) {
    const struct job_report *report = &job.reports[r];
    job_wait_rank(&job, r);
    if (r == rank) continue;
    job_check_exit(&job, r);
    if (report->status != BANYAN_ERR_PEER_DEAD || !strstr(report->text, name))
      job_fail(&job, "way %d over %s: rank %d ended with \"%s\"", way, transport, r, report->text);
  }
  if (kill(child, SIGKILL) != 0) job_fail(&job, "way %d: the child had ended before it was to", way);
  job_end(&job, false);
}

static void test_child_outlives(void **state) {
  (void)state;
  for (int way = 0; way < WAYS; way++)
    for (int i = 0; i < 2; i++) outlive((way + i) % 3, (enum way)way, i ? "shm" : "tcp");
}

/* The same with the rank that all others ask about deaths. */
static void test_child_outlives_rank_0(void **state) {
  (void)state;
  outlive(0, FORK, "tcp");
  outlive(0, BARE, "shm");
}

/* ---- what a child may do */

/* Ends a child with _exit(1) if the condition does not hold. The rank checks the exit status. */
static void child_holds(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "in the child: not so: %s; last error: %s\n", what, banyan_error_text());
  _exit(1);
}
#define CHILD_HOLDS(condition) child_holds(condition, #condition)
#define CHILD_REFUSED(call) child_holds((call) == BANYAN_ERR_ARGUMENT && strstr(banyan_error_text(), "fork()"), #call)

static void try_all(struct banyan_comm *world, struct banyan_request *pending, struct banyan_request *other) {
  float in = 1, out = 0;
  bool done;
  size_t index;
  int ranks[] = {0}, source;
  void *memory = NULL;
  struct banyan_comm *part = NULL;
  struct banyan_request *request = NULL, *requests[] = {other};
  struct banyan_counters counters;
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = &in, .recv = &out, .count = 1};
  CHILD_REFUSED(banyan_run(world, &call));
  CHILD_REFUSED(banyan_start(world, &call, &request));
  CHILD_REFUSED(banyan_barrier(world));
  CHILD_REFUSED(banyan_recv_any(world, &call, &source, &request));
  CHILD_REFUSED(banyan_test(pending, &done));
  CHILD_REFUSED(banyan_wait(pending));
  CHILD_REFUSED(banyan_wait_any(requests, 1, &index));
  CHILD_REFUSED(banyan_wait_all(requests, 1));
  CHILD_REFUSED(banyan_comm_split(world, 0, 0, &part));
  CHILD_REFUSED(banyan_comm_subset(world, ranks, 1, 0, &part));
  CHILD_REFUSED(banyan_comm_state(world));
  CHILD_REFUSED(banyan_comm_set_plan(world, "ring"));
  CHILD_REFUSED(banyan_comm_propose_plan(world, "ring"));
  CHILD_REFUSED(banyan_comm_set_deadline(world, 1));
  CHILD_REFUSED(banyan_alloc(world, 1, &memory));
  CHILD_REFUSED(banyan_step(world, 1));
  CHILD_REFUSED(banyan_timeline_start(world, "/dev/null"));
  CHILD_REFUSED(banyan_timeline_stop(world));
  CHILD_HOLDS(banyan_comm_size(world) == 3); /* works without other ranks */
  banyan_comm_counters(world, &counters);
  banyan_comm_abort(world, "the child wants it");
  banyan_comm_destroy(world);
}

/* Makes a job of one rank in the child. */
static void be_alone(void) {
  struct banyan_comm *alone = NULL;
  float in = 3, out = 0;
  struct banyan_options options = {.size_of_struct = sizeof options, .rank_plus_1 = 1, .size = 1};
  CHILD_HOLDS(banyan_comm_create(&options, &alone) == BANYAN_OK);
  CHILD_HOLDS(banyan_allreduce(alone, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM) == BANYAN_OK && out == 3);
  banyan_comm_destroy(alone);
}

/* Exits with all exit handlers. A child lacks the threads that own some memory, which LeakSanitizer would report. */
static _Noreturn void end_child(void) {
#ifdef __SANITIZE_ADDRESS__
  fflush(NULL);
  _exit(0);
#else
  exit(0);
#endif
}

static void wait_child(pid_t child) {
  int status = -1;
  must_hold(child > 0 && waitpid(child, &status, 0) == child);
  must_hold(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void rank_forks(struct job *job, int rank) {
  int before = job_count_fds();
  float in[4000] = {0}, out[4000];
  struct banyan_request *requests[2];
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = in, .recv = out, .count = 4000};
  void *memory = NULL;
  struct banyan_comm *world = job_join();
  must(banyan_alloc(world, 1 << 16, &memory));
  for (uint32_t i = 0; i < 20; i++) {
    allreduce(world, i);
    for (int k = 0; k < 2; k++) must(banyan_start(world, &call, &requests[k])); /* threads work meanwhile */
    int own = open("/dev/null", O_RDONLY); /* not the library's; a child keeps it */
    pid_t child = fork();
    if (child == 0) {
      CHILD_HOLDS(job_count_fds() == before + 1 && fcntl(own, F_GETFD) >= 0);
      try_all(world, requests[0], requests[1]);
      banyan_free(world, memory);
      if (i % 4 == 0) be_alone();
      end_child();
    }
    close(own);
    must(banyan_wait_all(requests, 2));
    wait_child(child);
  }
  allreduce(world, 100 + 0 * (uint32_t)rank);
  banyan_free(world, memory);
  banyan_comm_destroy(world);
  must_hold(job_count_fds() == before);
  (void)job;
}

static void test_child_does_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_forks, .transport = i ? "shm" : "tcp"};
    job_run(&job);
  }
}

/* ---- the timeline's file is written once */

static char timeline[] = "/tmp/banyan-test-timeline-XXXXXX";

static void rank_keeps_timeline(struct job *job, int rank) {
  (void)job;
  (void)rank;
  setenv("BANYAN_TIMELINE", timeline, 1);
  struct banyan_comm *world = job_join();
  for (uint32_t i = 0; i < 5; i++) {
    allreduce(world, i);
    pid_t child = fork();
    if (child == 0) end_child();
    wait_child(child);
  }
  banyan_comm_destroy(world);
}

static int count_in_file(const char *path, const char *what) {
  static char text[1 << 20];
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  size_t n = fread(text, 1, sizeof text - 1, file);
  int found = 0;
  text[n] = 0;
  for (const char *at = text; (at = strstr(at, what)); at++) found++;
  fclose(file);
  return found;
}

static void test_timeline(void **state) {
  (void)state;
  int fd = mkostemp(timeline, O_CLOEXEC);
  assert_true(fd >= 0);
  close(fd);
  struct job job = {.n = 3, .run = rank_keeps_timeline};
  job_run(&job);
  int heads = count_in_file(timeline, "displayTimeUnit"), names = count_in_file(timeline, "process_name");
  unlink(timeline);
  assert_int_equal(heads, 1);
  assert_int_equal(names, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_child_outlives),
      cmocka_unit_test(test_child_outlives_rank_0),
      cmocka_unit_test(test_child_does_nothing),
      cmocka_unit_test(test_timeline),
  };
  return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
