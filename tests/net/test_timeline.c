/* Timelines of real jobs. The file is JSON whatever happens to the ranks, and has each call of each rank. All ranks use
 * one time base: no rank's AllReduce ends before those of all ranks have begun. */
#include <banyan/timeline.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

enum { RANKS = 3, CALLS = 40, PART = 10, COUNT = 5000 };

struct paths {
  char folder[32], whole[64], part[64];
};

static void make_paths(struct paths *paths) {
  strcpy(paths->folder, "/tmp/banyan-timeline-XXXXXX");
  assert_non_null(mkdtemp(paths->folder));
  snprintf(paths->whole, sizeof paths->whole, "%s/whole.json", paths->folder);
  snprintf(paths->part, sizeof paths->part, "%s/part.json", paths->folder);
}

static void remove_paths(const struct paths *paths) {
  remove(paths->whole);
  remove(paths->part);
  rmdir(paths->folder);
}

static void add(struct banyan_comm *world, int rounds) {
  static float values[COUNT];
  for (int i = 0; i < rounds; i++) must(banyan_allreduce(world, values, values, COUNT, BANYAN_FLOAT32, BANYAN_SUM));
}

/* --- contents of a file --- */

struct span {
  double begin, end;
  bool failed;
};

struct seen {
  struct span spans[RANKS][2 * CALLS]; /* by rank and call; begin 0: none */
  int calls[RANKS], losses[RANKS];
};

static uint32_t id_of(const json_t *event) {
  const char *text = json_string_value(json_object_get(json_object_get(event, "id2"), "local"));
  assert_non_null(text);
  return (uint32_t)strtoul(text, NULL, 16);
}

/* Spans of an id are nested and in the order of time. */
static void check_nesting(const json_t *events) {
  static char open[RANKS][4096][4][32];
  static int depth[RANKS][4096];
  static double last[RANKS][4096];
  memset(depth, 0, sizeof depth);
  memset(last, 0, sizeof last);
  size_t i;
  const json_t *event;
  json_array_foreach(events, i, event) {
    const char *kind = json_string_value(json_object_get(event, "ph"));
    const char *name = json_string_value(json_object_get(event, "name"));
    size_t process = (size_t)json_integer_value(json_object_get(event, "pid"));
    if (strchr("Mi", *kind)) continue;
    uint32_t id = id_of(event);
    double at = json_number_value(json_object_get(event, "ts"));
    assert_true(process < RANKS && id < 4096 && at > 0);
    bool adds = strcmp(name, "adding") == 0; /* recorded within the span on the wire, so its time may be earlier */
    if (!adds) assert_true(at >= last[process][id]);
    if (!adds) last[process][id] = at;
    int *level = &depth[process][id];
    if (*kind == 'b') {
      assert_true(*level < 4);
      snprintf(open[process][id][(*level)++], sizeof open[0][0][0], "%s", name);
    } else {
      assert_string_equal(kind, "e");
      assert_true(*level > 0);
      assert_string_equal(open[process][id][--*level], name);
    }
  }
}

static bool is_allreduce(const char *title) {
  return strncmp(title, "allreduce", strlen("allreduce")) == 0;
}

/* Who was lost is told on its track. */
static void note_loss(struct seen *seen, const json_t *event, size_t process) {
  char expected[64];
  snprintf(expected, sizeof expected, "rank %zu (host ", process);
  const char *title = json_string_value(json_object_get(event, "name"));
  assert_memory_equal(title, expected, strlen(expected));
  assert_non_null(strstr(title, ") is gone: "));
  seen->losses[process]++;
}

static void note_begin(struct seen *seen, int64_t calls[RANKS][4096], const json_t *event, size_t process) {
  const json_t *args = json_object_get(event, "args"), *call = json_object_get(args, "call");
  if (!call) return;
  size_t number = (size_t)json_integer_value(call);
  const char *title = json_string_value(json_object_get(event, "name"));
  if (!is_allreduce(title)) return;
  assert_true(number < sizeof seen->spans[0] / sizeof *seen->spans[0]);
  struct span *span = &seen->spans[process][number];
  assert_true(span->begin == 0);
  span->begin = json_number_value(json_object_get(event, "ts"));
  span->failed = json_object_get(args, "failed") != NULL;
  assert_string_equal(title, span->failed ? "allreduce (failed: peer dead)" : "allreduce");
  calls[process][id_of(event)] = (int64_t)number + 1;
  seen->calls[process]++;
}

static void read_file(const char *path, struct seen *seen) {
  static int64_t calls[RANKS][4096];
  json_error_t error;
  json_t *file = json_load_file(path, 0, &error);
  if (!file) fail_msg("%s:%d: %s", path, error.line, error.text);
  const json_t *events = json_object_get(file, "traceEvents"), *event;
  assert_true(json_is_array(events));
  memset(calls, 0, sizeof calls);
  memset(seen, 0, sizeof *seen);
  check_nesting(events);
  size_t i;
  json_array_foreach(events, i, event) {
    size_t process = (size_t)json_integer_value(json_object_get(event, "pid"));
    const char *kind = json_string_value(json_object_get(event, "ph"));
    const char *name = json_string_value(json_object_get(event, "name"));
    if (*kind == 'b') note_begin(seen, calls, event, process);
    if (*kind == 'i') note_loss(seen, event, process);
    if (*kind == 'e' && is_allreduce(name))
      seen->spans[process][calls[process][id_of(event)] - 1].end = json_number_value(json_object_get(event, "ts"));
  }
  for (int r = 0; r < RANKS; r++) {
    char process[8];
    snprintf(process, sizeof process, "%d", r);
    const json_t *rest = json_object_get(json_object_get(file, "otherData"), process);
    if (rest) assert_int_equal(json_integer_value(json_object_get(rest, "missing")), 0);
  }
  json_decref(file);
}

/* Checks the calls that all ranks have: the last rank begins before the first rank ends. */
static int check_order(const struct seen *seen) {
  int n = 0;
  for (int call = 0; call < 2 * CALLS; call++) {
    double last_begin = 0, first_end = 1e300;
    bool all = true;
    for (int r = 0; r < RANKS; r++) {
      const struct span *span = &seen->spans[r][call];
      all &= span->begin > 0 && span->end > 0 && !span->failed;
      if (span->begin > last_begin) last_begin = span->begin;
      if (span->end < first_end) first_end = span->end;
    }
    if (!all) continue;
    assert_true(last_begin <= first_end);
    n++;
  }
  return n;
}

/* --- jobs --- */

static void whole_and_part(struct job *job, int rank) {
  const struct paths *paths = job->argument;
  setenv("BANYAN_TIMELINE", paths->whole, 1);
  struct banyan_comm *world = job_join();
  add(world, CALLS - PART);
  must(banyan_barrier(world)); /* so that all calls have ended on all ranks */
  if (rank == 0) {
    must_fail(BANYAN_ERR_ARGUMENT, banyan_timeline_start(world, paths->part));
    must(banyan_timeline_stop(world));
    must_fail(BANYAN_ERR_ARGUMENT, banyan_timeline_stop(world));
  }
  must(banyan_barrier(world));
  add(world, PART); /* not recorded */
  must(banyan_timeline_start(world, paths->part));
  must(banyan_barrier(world));
  add(world, PART);
  must(banyan_barrier(world));
  must(banyan_timeline_stop(world)); /* rank 0 asks the ranks that have gone on */
  add(world, 1);
  banyan_comm_destroy(world);
}

static void test_whole_and_part(void **state) {
  (void)state;
  const char *const transports[] = {"shm", "tcp"};
  for (int t = 0; t < 2; t++) {
    struct paths paths;
    struct seen seen;
    make_paths(&paths);
    struct job job = {.n = RANKS, .run = whole_and_part, .transport = transports[t], .argument = &paths};
    job_run(&job);
    read_file(paths.whole, &seen);
    for (int r = 0; r < RANKS; r++) assert_true(seen.calls[r] >= CALLS - PART);
    assert_int_equal(check_order(&seen), CALLS - PART);
    read_file(paths.part, &seen);
    for (int r = 0; r < RANKS; r++) assert_true(seen.calls[r] >= PART);
    assert_true(check_order(&seen) >= PART);
    remove_paths(&paths);
  }
}

/* A job of one rank, which receives no requests. */
static void alone(struct job *job, int rank) {
  (void)rank;
  const struct paths *paths = job->argument;
  struct banyan_comm *world = job_join();
  char metrics[8192];
  must_fail(BANYAN_ERR_SYSTEM, banyan_timeline_start(world, "/nonexistent/timeline.json"));
  must(banyan_timeline_start(world, paths->whole));
  add(world, 3);
  size_t n = banyan_comm_metrics(world, metrics, sizeof metrics);
  must_hold(n == strlen(metrics));
  must_hold(strstr(metrics, "\nbanyan_calls_total{rank=\"0\"} 3\n") != NULL);
  must_hold(strstr(metrics, "\nbanyan_state_operations_total{rank=\"0\",state=\"done\"} 3\n") != NULL);
  must_hold(strstr(metrics, "\nbanyan_state_bytes_total{rank=\"0\",state=\"done\"} 60000\n") != NULL);
  must_hold(strstr(metrics, "\nbanyan_refused_connections_total{rank=\"0\",reason=\"key\"} 0\n") != NULL);
  must_hold(banyan_comm_metrics(world, metrics, 10) == n && strlen(metrics) == 9);
  banyan_comm_destroy(world);
}

static void test_alone(void **state) {
  (void)state;
  struct paths paths;
  struct seen seen;
  make_paths(&paths);
  struct job job = {.n = 1, .run = alone, .argument = &paths};
  job_run(&job);
  read_file(paths.whole, &seen);
  assert_int_equal(seen.calls[0], 3);
  remove_paths(&paths);
}

/* Rank 2 leaves early, and its records are in the file nevertheless. */
static void one_leaves(struct job *job, int rank) {
  const struct paths *paths = job->argument;
  setenv("BANYAN_TIMELINE", paths->whole, 1);
  struct banyan_comm *world = job_join();
  add(world, PART);
  if (rank < 2) usleep(200000);
  banyan_comm_destroy(world);
}

static void test_one_leaves(void **state) {
  (void)state;
  struct paths paths;
  struct seen seen;
  make_paths(&paths);
  struct job job = {.n = RANKS, .run = one_leaves, .argument = &paths};
  job_run(&job);
  read_file(paths.whole, &seen);
  assert_int_equal(check_order(&seen), PART);
  remove_paths(&paths);
}

/* Counts the ended calls in a file that is being written. */
static int count_ended(const char *path) {
  json_t *file = json_load_file(path, 0, NULL), *event;
  int n = 0;
  size_t i;
  json_array_foreach(json_object_get(file, "traceEvents"), i, event) n +=
      strcmp(json_string_value(json_object_get(event, "name")), "allreduce") == 0 &&
      strcmp(json_string_value(json_object_get(event, "ph")), "e") == 0;
  json_decref(file);
  return n;
}

static void one_dies(struct job *job, int rank) {
  const struct paths *paths = job->argument;
  setenv("BANYAN_TIMELINE", paths->whole, 1);
  struct banyan_comm *world = job_join();
  static float values[COUNT];
  struct banyan_call call = {
      .collective = BANYAN_ALLREDUCE, .send = values, .recv = values, .count = COUNT, .dtype = BANYAN_FLOAT32};
  struct banyan_request *request = NULL;
  add(world, PART);
  if (rank == (int)job->seed) { /* calls that have ended are written before any rank dies */
    for (double until = job_now() + 30; count_ended(paths->whole) < RANKS * PART; usleep(10000))
      must_hold(job_now() < until);
    for (int r = 0; r < RANKS; r++) /* the others are in their next call */
      while (r != rank && atomic_load(&job->reports[r].stage) < 1) usleep(1000);
    raise(SIGKILL);
  }
  must(banyan_start(world, &call, &request));
  job_set_stage(job, rank, 1);
  must_fail(BANYAN_ERR_PEER_DEAD, banyan_wait(request));
  banyan_comm_destroy(world);
}

static void test_one_dies(void **state) {
  (void)state;
  for (int victim = 0; victim < RANKS; victim += 2) {
    struct paths paths;
    struct seen seen;
    make_paths(&paths);
    struct job job = {.n = RANKS, .run = one_dies, .argument = &paths, .seed = (uint64_t)victim};
    job_start(&job);
    job_wait(&job);
    job_check_killed(&job, victim, SIGKILL);
    job_end(&job, false);
    read_file(paths.whole, &seen);
    for (int r = 0; r < RANKS; r++) {
      bool there = victim != 0 && r != victim; /* without rank 0 no rank writes later records */
      assert_true(seen.calls[r] >= PART);
      if (there) assert_true(seen.spans[r][PART].failed);
      assert_int_equal(seen.losses[r], victim != 0 && r == victim);
    }
    remove_paths(&paths);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_and_part), cmocka_unit_test(test_alone),
                                     cmocka_unit_test(test_one_leaves), cmocka_unit_test(test_one_dies)};
  return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
