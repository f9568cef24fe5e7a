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
#include "serve.h"

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

/* Process 0 was lost, which another one has written; each process has a title of its own, and every membership a short
 * one. */
static void check_titles(const json_t *root) {
  const char *titles[3] = {NULL};
  int losses = 0;
  size_t i, n = 0;
  int64_t tracks[3] = {0};
  json_t *event;
  json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
    const char *name = json_string_value(json_object_get(event, "name"));
    int64_t track = json_integer_value(json_object_get(event, "pid"));
    losses += strncmp(name, "rank 0 (host ", 13) == 0 && strstr(name, ") is gone: ") && track == tracks[0];
    if (strcmp(name, "process_name") != 0) continue;
    size_t at = 0;
    while (at < n && tracks[at] != track) at++;
    assert_true(at < 3);
    n = at == n ? n + 1 : n;
    tracks[at] = track;
    titles[at] = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
  }
  assert_int_equal(losses, 1);
  assert_non_null(strstr(titles[0], "), membership 1"));
  assert_non_null(strstr(titles[1], "), membership 2"));
  assert_non_null(strstr(titles[2], "), membership 3"));
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
  check_titles(root);
  json_t *others = json_object_get(root, "otherData");
  assert_non_null(json_object_get(others, "2: 1"));
  assert_non_null(json_object_get(others, "3: 0"));
  assert_true(count_events(root, "e", "allreduce") >= 3 + 2 + 1);
  json_decref(root);
  close(file);
  unlink(path);
  job_end(&job, false);
}

/* ---- what must not be carried: whatever waits in a membership ends with it */

enum { PENDING = 4, NAMED = 2, GROUPS = 3, ROWS = 100 };

static const char *const names[NAMED] = {"gradient 0", "gradient 1"};

/* Calls that some process waits for in vain, on the communicator and on groups of it. */
struct pending {
  struct banyan_comm *comm, *groups[GROUPS];
  struct banyan_request *requests[PENDING];
  int values[PENDING], rows[1];
  float gradient[1];
  struct banyan_sparse in, out;
};

static void make_groups(struct banyan_comm *comm, struct banyan_comm **groups) {
  static const int both[] = {0, 1};
  must(banyan_comm_split(comm, 0, -banyan_comm_rank(comm), &groups[0]));
  must(banyan_comm_duplicate(comm, &groups[1]));
  groups[2] = NULL;
  if (banyan_comm_rank(comm) < 2) must(banyan_comm_subset(comm, both, 2, 5, &groups[2]));
  for (int g = 0; g < GROUPS; g++)
    if (groups[g]) check_sum(groups[g]);
}

static struct banyan_sparse sparse_of(int *row, float *value, int from) {
  *row = from;
  *value = 1;
  return (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                .row_dtype = BANYAN_INT32,
                                .height = ROWS,
                                .width = 1,
                                .count = 1,
                                .rows = row,
                                .values = value};
}

static enum banyan_status submit(struct banyan_comm *comm, int k, int *value, struct banyan_request **out) {
  return banyan_submit_allreduce(comm, names[k], value, value, 1, BANYAN_INT32, BANYAN_SUM, out);
}

/* The last process begins none of it. Operations are sent in different orders. */
static void begin_pending(struct pending *p, struct self *self) {
  bool first = self->id == 0;
  p->comm = self->comm;
  self->comm = NULL;
  make_groups(p->comm, p->groups);
  must(banyan_step(p->comm, 7));
  if (first) must(banyan_comm_propose_plan(p->comm, "chain"));
  if (self->id == self->job->n - 1) return;
  for (int k = 0; k < NAMED; k++) must(submit(p->comm, first ? k : !k, &p->values[k], &p->requests[k]));
  p->in = sparse_of(p->rows, p->gradient, self->id);
  struct banyan_sparse_call sparse = {.in = &p->in, .out = &p->out};
  must(banyan_sparse_start(p->groups[0], &sparse, &p->requests[2]));
  struct banyan_call call = {
      .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_INT32, .send = &p->values[3], .recv = &p->values[3], .count = 1};
  must(banyan_start(p->groups[1], &call, &p->requests[3]));
}

/* All of it has ended, and says where to go on; so do later calls of each group. */
static void end_pending(struct pending *p) {
  int one = 1;
  for (int i = 0; i < PENDING; i++) {
    if (!p->requests[i]) continue;
    enum banyan_status status = banyan_wait(p->requests[i]);
    must_hold(status == BANYAN_ERR_CLOSED || status == BANYAN_ERR_PEER_DEAD);
  }
  for (int g = -1; g < GROUPS; g++) {
    struct banyan_comm *comm = g < 0 ? p->comm : p->groups[g];
    if (!comm) continue;
    enum banyan_status status = banyan_allreduce(comm, &one, &one, 1, BANYAN_INT32, BANYAN_SUM);
    const char *text = banyan_error_text();
    must_hold(status == BANYAN_ERR_CLOSED || status == BANYAN_ERR_PEER_DEAD);
    if (!strstr(text, "use the communicator of that, and make groups of it anew")) rank_fail("it says: %s", text);
    banyan_comm_destroy(comm);
  }
  banyan_sparse_free(&p->out);
}

/* The same names, numbers and steps, with other values: nothing of the membership before is counted. */
static void check_anew(struct self *self) {
  struct banyan_comm *comm = self->comm, *groups[GROUPS];
  int n = banyan_comm_size(comm), rank = banyan_comm_rank(comm), values[NAMED] = {100, 200}, row;
  float value;
  struct banyan_request *requests[NAMED];
  make_groups(comm, groups);
  must(banyan_step(comm, 7));
  for (int k = 0; k < NAMED; k++) must(submit(comm, k, &values[k], &requests[k]));
  must(banyan_wait_all(requests, NAMED));
  must_hold(values[0] == 100 * n && values[1] == 200 * n);
  struct banyan_sparse in = sparse_of(&row, &value, 10 + rank), out = {0};
  must(banyan_sparse_allreduce(groups[0], &in, &out, BANYAN_SUM));
  must_hold(out.count == (size_t)n && ((const int *)out.rows)[0] == 10 && ((const int *)out.rows)[n - 1] == 9 + n);
  banyan_sparse_free(&out);
  if (rank == 0) must(banyan_comm_propose_plan(comm, "ring"));
  for (int g = 0; g < GROUPS; g++) {
    if (groups[g]) check_sum(groups[g]);
    banyan_comm_destroy(groups[g]);
  }
  check_sum(comm);
}

static void pending(struct job *job, int id) {
  static const int turned[] = {2, 0, 1};
  struct pending pending = {0};
  struct self self = begin(job, id);
  form(&self, 3);
  begin_pending(&pending, &self);
  form_of(&self, turned, 3);
  end_pending(&pending);
  check_anew(&self);
  end(&self);
}

/* Process 3, the last one, is killed while all of it waits for it. */
static void pending_at_death(struct job *job, int id) {
  static const int turned[] = {2, 0, 1};
  struct pending pending = {0};
  struct self self = begin(job, id);
  form(&self, 4);
  begin_pending(&pending, &self);
  job_set_stage(job, id, FORMED);
  while (id == 3) pause();
  while (banyan_comm_state(pending.comm) == BANYAN_OK) usleep(500);
  form_of(&self, turned, 3);
  end_pending(&pending);
  check_anew(&self);
  end(&self);
}

static void test_pending(void **state) {
  static const char *const transports[] = {"auto", "tcp"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    memset(board, 0, sizeof *board);
    struct job job = {.n = 3, .run = pending, .transport = transports[i]};
    job_run(&job);
    memset(board, 0, sizeof *board);
    struct job dying = {.n = 4, .run = pending_at_death, .transport = transports[i]};
    job_start(&dying);
    for (int r = 0; r < dying.n; r++) job_wait_stage(&dying, r, FORMED);
    job_signal(&dying, 3, SIGKILL);
    job_wait(&dying);
    for (int r = 0; r < 3; r++) job_check_exit(&dying, r);
    job_end(&dying, false);
  }
}

/* ---- helpers */

enum { RANKS = 3 };

static const char with_helper[] =
    "{\"format\": \"banyan-plan 1\", \"name\": \"one\", \"ranks\": 3, \"vertices\": {\"h\": {\"kind\": \"helper\"}}, "
    "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\", \"2\": \"h\"}}]}";

/* The last process: comes to the first membership that one of the members forms. */
static void help(void) {
  volatile sig_atomic_t stop = 0;
  char members[RANKS * HANDLE];
  setenv("BANYAN_LOG", "communicator:info", 1);
  unsetenv("BANYAN_ROOT");
  while (atomic_load(&board->published) < RANKS) usleep(500);
  snprintf(members, sizeof members, "%s,%s,%s", board->handles[0], board->handles[1], board->handles[2]);
  setenv("BANYAN_MEMBERS", members, 1);
  struct banyan_options options = {.host = "h"};
  must(by_helper_run(&options, &stop, NULL));
  setenv("BANYAN_MEMBERS", "banyan2:nothing", 1);
  must_fail(BANYAN_ERR_ARGUMENT, by_helper_run(&options, &stop, NULL));
}

static struct self begin_with_helper(struct job *job, int id) {
  struct self self = {.job = job, .id = id};
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_PLAN", with_helper, 1);
  setenv("BANYAN_HELPERS", "1", 1);
  must(banyan_member_create(NULL, &self.member));
  snprintf(board->handles[id], HANDLE, "%s", banyan_member_handle(self.member));
  atomic_fetch_add(&board->published, 1);
  while (atomic_load(&board->published) < RANKS) usleep(500);
  return self;
}

/* Sums through the helper. */
static void check_helped(const struct self *self) {
  enum { MANY = 100000 };
  struct banyan_plan_info plan;
  int *numbers = malloc(MANY * sizeof *numbers), n = banyan_comm_size(self->comm);
  must_hold(numbers);
  must(banyan_comm_plan(self->comm, MANY * sizeof *numbers, &plan));
  must_hold(!strcmp(plan.name, "one"));
  for (int i = 0; i < MANY; i++) numbers[i] = i;
  must(banyan_allreduce(self->comm, numbers, numbers, MANY, BANYAN_INT32, BANYAN_SUM));
  for (int i = 0; i < MANY; i++) must_hold(numbers[i] == n * i);
  free(numbers);
}

/* Rank 0 moves in healthy groups, which notify the helper. */
static void helped(struct job *job, int id) {
  static const int turned[] = {1, 2, 0};
  if (id == RANKS) {
    help();
    return;
  }
  struct self self = begin_with_helper(job, id);
  form(&self, RANKS);
  check_helped(&self);
  form(&self, RANKS);
  check_helped(&self);
  form_of(&self, turned, RANKS);
  check_helped(&self);
  end(&self);
}

static void test_helped(void **state) {
  (void)state;
  memset(board, 0, sizeof *board);
  struct job job = {.n = RANKS + 1, .run = helped};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "helper \"h\" of plan 'one' is not there", 0);
  job_check_log(&job, " helps 3 ranks", 3);
  job_end(&job, true);
}

/* A rank dies; the helper follows the others, also without rank 0. */
static void helped_at_death(struct job *job, int id) {
  int victim = *(const int *)job->argument, one = 1;
  const int others[] = {victim == 0 ? 1 : 0, victim == 2 ? 1 : 2};
  if (id == RANKS) {
    help();
    return;
  }
  struct self self = begin_with_helper(job, id);
  form(&self, RANKS);
  check_helped(&self);
  job_set_stage(job, id, FORMED);
  while (id == victim) pause();
  while (banyan_allreduce(self.comm, &one, &one, 1, BANYAN_INT32, BANYAN_MAX) == BANYAN_OK) continue;
  form_of(&self, others, 2);
  end(&self);
}

static void test_helped_at_death(void **state) {
  (void)state;
  for (int victim = 0; victim < RANKS; victim++) {
    memset(board, 0, sizeof *board);
    struct job job = {.n = RANKS + 1, .run = helped_at_death, .argument = &victim};
    job_start(&job);
    for (int r = 0; r < RANKS; r++) job_wait_stage(&job, r, FORMED);
    job_signal(&job, victim, SIGKILL);
    job_wait(&job);
    for (int r = 0; r <= RANKS; r++)
      if (r != victim) job_check_exit(&job, r);
    job_check_log(&job, " helps 2 ranks", 1);
    job_end(&job, false);
  }
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
      cmocka_unit_test(test_set_plans),       cmocka_unit_test(test_given_plan),  cmocka_unit_test(test_wrong_plan),
      cmocka_unit_test(test_timeline),        cmocka_unit_test(test_pending),     cmocka_unit_test(test_helped),
      cmocka_unit_test(test_helped_at_death), cmocka_unit_test(test_go_and_come),
  };
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (board == MAP_FAILED) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
