/* What a process carries from one membership into the next, and what it does not: real processes on one machine. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

enum { HANDLE = 2048 };

static struct board {
  char handles[JOB_RANKS][HANDLE];
  _Atomic int published;
} * board;

struct self {
  struct job *job;
  int id, formed;
  struct banyan_member *member;
  struct banyan_comm *comm;
};

static struct self begin(struct job *job, int id) {
  struct self self = {.job = job, .id = id};
  setenv("BANYAN_HOST", "here", 1);
  must(banyan_member_create(NULL, &self.member));
  snprintf(board->handles[id], HANDLE, "%s", banyan_member_handle(self.member));
  atomic_fetch_add(&board->published, 1);
  while (atomic_load(&board->published) < job->n) usleep(500);
  return self;
}

static void end(struct self *self) {
  banyan_comm_destroy(self->comm);
  banyan_member_destroy(self->member);
}

static void check_sum(struct banyan_comm *comm) {
  int one = 1;
  must(banyan_allreduce(comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM));
  must_hold(one == banyan_comm_size(comm));
}

static const int every[JOB_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

/* The next membership, of these n processes. Others only count it. */
static void form_of(struct self *self, const int *ids, int n) {
  const char *handles[JOB_RANKS];
  char name[16];
  struct banyan_comm *comm;
  bool is_in = false;
  snprintf(name, sizeof name, "%d", ++self->formed);
  for (int i = 0; i < n; i++) {
    handles[i] = board->handles[ids[i]];
    is_in |= ids[i] == self->id;
  }
  if (!is_in) return;
  must(banyan_member_reconfigure(self->member, name, handles, n, 30, &comm));
  banyan_comm_destroy(self->comm);
  self->comm = comm;
  check_sum(comm);
}

static void form(struct self *self, int n) {
  form_of(self, every, n);
}

static void run(int n, void (*rank)(struct job *job, int id)) {
  memset(board, 0, sizeof *board);
  struct job job = {.n = n, .run = rank};
  job_start(&job);
  job_wait(&job);
  job_end(&job, true);
}

/* ---- plans */

static void check_plan(const struct self *self, const char *name, bool supplied) {
  struct banyan_plan_info plan;
  must(banyan_comm_plan(self->comm, 1 << 20, &plan));
  if (strcmp(plan.name, name) != 0 || plan.supplied != supplied)
    rank_fail("process %d, membership %d: the plan is \"%s\"", self->id, self->formed, plan.name);
}

static const char star[] = "{\"format\": \"banyan-plan 1\", \"name\": \"star3\", \"ranks\": 3, \"trees\": [{\"kind\": "
                           "\"tree\", \"share\": 1, \"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"0\"}}]}";

/* A plan that the program has set is used wherever it fits, also by processes that were not there when it was set. */
static void set_plans(struct job *job, int id) {
  struct self self = begin(job, id);
  form(&self, 2);
  if (id < 2) must(banyan_comm_set_plan(self.comm, "ring"));
  form(&self, 3);
  check_plan(&self, "ring", true);
  must(banyan_comm_set_plan(self.comm, star));
  form(&self, 3);
  check_plan(&self, "star3", true);
  form(&self, 2);
  if (id < 2) check_plan(&self, "default", false);
  form(&self, 2);
  if (id < 2) check_plan(&self, "default", false);
  form(&self, 3);
  check_plan(&self, "star3", true);
  must(banyan_comm_set_plan(self.comm, NULL));
  form(&self, 3);
  check_plan(&self, "default", false);
  end(&self);
}

static void test_set_plans(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 3, .run = set_plans};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "the plan that the program has set for other hosts is not used in this membership of 2 ranks", 2);
  job_end(&job, true);
}

static void given_plan(struct job *job, int id) {
  setenv("BANYAN_PLAN", star, 1);
  struct self self = begin(job, id);
  form(&self, 3);
  check_plan(&self, "star3", true);
  form(&self, 2);
  if (id < 2) check_plan(&self, "default", false);
  form(&self, 3);
  check_plan(&self, "star3", true);
  end(&self);
}

static void test_given_plan(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 3, .run = given_plan};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "the plan in BANYAN_PLAN is not used in this membership of 2 ranks on 1 hosts: it is for 3", 1);
  job_end(&job, true);
}

/* Names that are wrong for any size are errors still. */
static void wrong_plan(struct job *job, int id) {
  struct banyan_comm *comm;
  setenv("BANYAN_PLAN", "rign", 1);
  struct self self = begin(job, id);
  const char *handles[] = {board->handles[0], board->handles[1]};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_member_reconfigure(self.member, "1", handles, 2, 30, &comm));
  must_hold(strstr(banyan_error_text(), "there is no built-in plan \"rign\""));
  end(&self);
}

static void test_wrong_plan(void **state) {
  (void)state;
  run(2, wrong_plan);
}

/* ---- timelines and metrics */

enum { FORMED = 1 };

static bool has_metric(const struct banyan_comm *comm, const char *line) {
  char text[16384];
  must_hold(banyan_comm_metrics(comm, text, sizeof text) < sizeof text);
  return strstr(text, line);
}

/* Process 0, which writes the file, dies; another one goes on with it. */
static void timeline(struct job *job, int id) {
  static const int two[] = {2, 1};
  int one = 1;
  setenv("BANYAN_TIMELINE", job->argument, 1);
  struct self self = begin(job, id);
  form(&self, 3);
  must_hold(has_metric(self.comm, ",membership=\"1\"} 1\n"));
  usleep(700000); /* the records of the first sum come to rank 0 */
  job_set_stage(job, id, FORMED);
  while (id == 0) pause();
  while (banyan_allreduce(self.comm, &one, &one, 1, BANYAN_INT32, BANYAN_MAX) == BANYAN_OK) continue;
  form_of(&self, two, 2);
  must_hold(has_metric(self.comm, ",membership=\"2\"} 2\n"));
  form_of(&self, two, 1);
  if (id == 2) must_hold(has_metric(self.comm, "banyan_memberships_total{rank=\"0\",membership=\"3\"} 3\n"));
  end(&self);
}

static int count_events(const json_t *root, const char *kind, const char *name) {
  int n = 0;
  size_t i;
  json_t *event;
  json_array_foreach(json_object_get(root, "traceEvents"), i, event) n +=
      !strcmp(json_string_value(json_object_get(event, "name")), name) &&
      !strcmp(json_string_value(json_object_get(event, "ph")), kind);
  return n;
}

static void test_timeline(void **state) {
  char path[64] = "/tmp/banyan-carry-XXXXXX";
  int file = mkstemp(path);
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 3, .run = timeline, .argument = path};
  assert_true(file >= 0);
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, FORMED);
  job_signal(&job, 0, SIGKILL);
  job_wait(&job);
  job_check_killed(&job, 0, SIGKILL);
  for (int r = 1; r < job.n; r++) job_check_exit(&job, r);
  json_t *root = json_load_file(path, 0, NULL);
  assert_non_null(root);
  for (int m = 1; m <= 3; m++) {
    char name[32];
    snprintf(name, sizeof name, "membership %d", m);
    assert_int_equal(count_events(root, "i", name), 1);
  }
  assert_int_equal(count_events(root, "M", "process_name"), 3 + 2 + 1);
  json_t *others = json_object_get(root, "otherData");
  assert_non_null(json_object_get(others, "2: 1"));
  assert_non_null(json_object_get(others, "3: 0"));
  assert_true(count_events(root, "e", "allreduce") >= 3 + 2 + 1);
  json_decref(root);
  close(file);
  unlink(path);
  job_end(&job, false);
}

/* ---- connections */

/* Process 0 was alone in between, and has no lanes to give; its communicators are all still there. Process 1 has lanes
 * of the first membership, and must not wait for process 0 to go on with them. */
static void go_and_come(struct job *job, int id) {
  struct banyan_comm *first, *alone = NULL;
  setenv("BANYAN_LOG", "net:info", 1);
  struct self self = begin(job, id);
  form(&self, 2);
  first = self.comm;
  self.comm = NULL;
  form(&self, 1);
  alone = self.comm;
  self.comm = NULL;
  form(&self, 2);
  banyan_comm_destroy(first);
  banyan_comm_destroy(alone);
  end(&self);
}

static void test_go_and_come(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = 2, .run = go_and_come, .transport = "tcp"};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "its other end has not changed to this membership in time", 0);
  job_end(&job, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_set_plans), cmocka_unit_test(test_given_plan),  cmocka_unit_test(test_wrong_plan),
      cmocka_unit_test(test_timeline),  cmocka_unit_test(test_go_and_come),
  };
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
