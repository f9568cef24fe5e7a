/* The supervisor of processes that come and go, in virtual time: who is started again and when, who gets which list,
 * and how a job ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"
#include "clock.h"
#include "elastic_job.h"

enum { MOST = 8, LOG = 1 << 14 };

/* What the supervisor has asked for. */
struct world {
  struct by_supervisor *supervisor;
  uint64_t now;
  char log[LOG];          /* "start 1 1;send 0 FIRST 1/2;end 3;" since it was looked at last */
  char printed[LOG];      /* lines */
  int peers[MOST];        /* of the list that is being sent to each */
  char handles[MOST][64]; /* of those lists, one after the other */
};

static void add(char *log, const char *format, ...) BY_PRINTF(2, 3);

static void add(char *log, const char *format, ...) {
  size_t used = strlen(log);
  va_list args;
  va_start(args, format);
  vsnprintf(log + used, LOG - used, format, args);
  va_end(args);
}

static void start(void *context, int process, int starts) {
  struct world *w = context;
  add(w->log, "start %d %d;", process, starts);
}

static void take(void *context, int process, const struct by_directory_message *message) {
  struct world *w = context;
  switch (message->type) {
  case BY_DIRECTORY_PEER:
    for (int i = process < 0 ? 0 : process; i < (process < 0 ? MOST : process + 1); i++) {
      if (message->number == 0) w->peers[i] = *w->handles[i] = 0;
      assert_int_equal(message->number, w->peers[i]++);
      strcat(w->handles[i], message->text);
    }
    break;
  case BY_DIRECTORY_FIRST:
  case BY_DIRECTORY_JOIN:
    assert_int_equal(message->count, w->peers[process]);
    add(w->log, "%s %d %s;", message->type == BY_DIRECTORY_FIRST ? "first" : "join", process, w->handles[process]);
    w->peers[process] = 0;
    *w->handles[process] = 0;
    break;
  case BY_DIRECTORY_DEAD: add(w->log, "dead %d %s;", process, message->text); break;
  case BY_DIRECTORY_LEAVE: add(w->log, "leave %d;", process); break;
  case BY_DIRECTORY_REFUSED: add(w->log, "refused %d;", process); break;
  default: fail_msg("a message of type %d to a process", (int)message->type);
  }
}

static void print(void *context, const char *line) {
  struct world *w = context;
  add(w->printed, "%s\n", line);
}

static void end(void *context, int exit_code) {
  struct world *w = context;
  add(w->log, "end %d;", exit_code);
}

static void tick(struct world *w, uint64_t nanoseconds) {
  w->now += nanoseconds;
  by_supervisor_tick(w->supervisor, w->now);
}

/* What has been asked for since the last time. */
static void expect(struct world *w, const char *log) {
  assert_string_equal(w->log, log);
  *w->log = 0;
}

static void expect_line(struct world *w, const char *part) {
  if (!strstr(w->printed, part)) fail_msg("not printed: %s; but:\n%s", part, w->printed);
  *w->printed = 0;
}

static struct world *begin(int n, struct by_supervisor_options options) {
  static struct world world;
  const struct by_supervisor_events events = {&world, start, take, print, end};
  world = (struct world){.now = 100 * BY_SECOND};
  options.title = "run";
  if (!options.min) options.min = n;
  options.min_timeout = 60 * BY_SECOND;
  options.formation = 30 * BY_SECOND;
  world.supervisor = by_supervisor_create(&options, &events, world.now);
  for (int i = 0; i < n; i++) by_supervisor_add(world.supervisor, i < 2 ? "a" : "b", world.now);
  return &world;
}

static void finish(struct world *w, int exit_code) {
  assert_false(by_supervisor_waits(w->supervisor));
  assert_int_equal(by_supervisor_exit_code(w->supervisor), exit_code);
  assert_int_equal(by_supervisor_next(w->supervisor), UINT64_MAX);
  by_supervisor_destroy(w->supervisor);
}

static void receive(struct world *w, int process, enum by_directory_type type, int number, int count,
                    const char *text) {
  struct by_directory_message message = {.type = type, .number = (uint32_t)number, .count = (uint32_t)count};
  snprintf(message.text, sizeof message.text, "%s", text);
  by_supervisor_received(w->supervisor, process, &message, w->now);
}

/* Its handle is a letter for each process, and a digit for the start. */
static void enrol(struct world *w, int process, int starts) {
  char handle[] = {(char)('a' + process), (char)('0' + starts), 0};
  receive(w, process, BY_DIRECTORY_REGISTER, process, starts, handle);
}

static void join(struct world *w, int process, const char *name, int size) {
  receive(w, process, BY_DIRECTORY_MEMBER, process, size, name);
}

static void die(struct world *w, int process, int signal_number) {
  by_supervisor_ended(w->supervisor, process, signal_number, w->now);
}

static void leave_well(struct world *w, int process) {
  by_supervisor_ended(w->supervisor, process, 0, w->now);
}

/* n processes in their first membership. */
static struct world *form(int n, struct by_supervisor_options options) {
  struct world *w = begin(n, options);
  for (int i = 0; i < n; i++) enrol(w, i, 0);
  for (int i = 0; i < n; i++) join(w, i, "1", n);
  *w->log = *w->printed = 0;
  tick(w, 10 * BY_SECOND);
  return w;
}

/* ---- lists */

static void test_first_membership(void **state) {
  (void)state;
  struct world *w = begin(3, (struct by_supervisor_options){.min = 2});
  enrol(w, 2, 0);
  enrol(w, 0, 0);
  tick(w, 29 * BY_SECOND);
  expect(w, "");
  enrol(w, 1, 0);
  expect(w, "first 0 a0b0c0;first 1 a0b0c0;first 2 a0b0c0;");
  for (int i = 0; i < 3; i++) join(w, i, "1", 3);
  expect_line(w, "membership \"1\": 3 processes");
  for (int i = 0; i < 3; i++) leave_well(w, i);
  finish(w, 0);
}

static void test_without_those_that_do_not_come(void **state) {
  (void)state;
  struct world *w = begin(3, (struct by_supervisor_options){.min = 2});
  enrol(w, 0, 0);
  enrol(w, 2, 0);
  assert_int_equal(by_supervisor_next(w->supervisor), w->now + 30 * BY_SECOND);
  tick(w, 30 * BY_SECOND);
  expect(w, "first 0 a0c0;first 2 a0c0;");
  enrol(w, 1, 0); /* a newcomer, once there is somebody to ask */
  expect(w, "");
  join(w, 2, "1", 2);
  expect(w, "join 1 c0;");
  join(w, 0, "1", 2);
  join(w, 1, "auto-2-1", 3);
  for (int i = 0; i < 3; i++) leave_well(w, i);
  finish(w, 0);
}

static void test_failed_attempt(void **state) {
  (void)state;
  struct world *w = begin(3, (struct by_supervisor_options){.min = 2, .restarts = 1});
  for (int i = 0; i < 3; i++) enrol(w, i, 0);
  *w->log = 0;
  die(w, 1, SIGKILL);
  expect(w, "dead 0 b0;dead 2 b0;start 1 1;");
  receive(w, 0, BY_DIRECTORY_FAILED, 1, 0, "timeout");
  receive(w, 0, BY_DIRECTORY_FAILED, 7, 0, "of another attempt");
  enrol(w, 1, 1);
  expect(w, ""); /* 2 may still succeed */
  receive(w, 2, BY_DIRECTORY_FAILED, 1, 0, "timeout");
  expect(w, "first 0 a0b1c0;first 1 a0b1c0;first 2 a0b1c0;");
  for (int i = 0; i < 3; i++) join(w, i, "2", 3);
  for (int i = 0; i < 3; i++) leave_well(w, i);
  finish(w, 0);
}

/* Nobody is left that could be asked: those that are started again begin anew. */
static void test_all_die(void **state) {
  (void)state;
  struct world *w = form(2, (struct by_supervisor_options){.restarts = 5});
  die(w, 0, SIGKILL);
  die(w, 1, SIGKILL);
  expect(w, "dead 1 a0;start 0 1;start 1 1;");
  enrol(w, 1, 1);
  expect(w, "");
  enrol(w, 0, 1);
  expect(w, "first 0 a1b1;first 1 a1b1;");
  for (int i = 0; i < 2; i++) leave_well(w, i);
  finish(w, 0);
}

/* The last member dies when a newcomer has been told to ask it. */
static void test_nobody_left_to_ask(void **state) {
  (void)state;
  struct world *w = form(2, (struct by_supervisor_options){.restarts = 5});
  die(w, 0, SIGKILL);
  enrol(w, 0, 1);
  expect(w, "dead 1 a0;start 0 1;join 0 b0;");
  die(w, 1, SIGKILL);
  enrol(w, 1, 1);
  expect(w, "dead 0 b0;start 1 1;");
  receive(w, 0, BY_DIRECTORY_FAILED, 0, 0, "nobody answers");
  expect(w, "first 0 a1b1;first 1 a1b1;");
  for (int i = 0; i < 2; i++) leave_well(w, i);
  finish(w, 0);
}

static void test_refused(void **state) {
  (void)state;
  struct world *w = form(2, (struct by_supervisor_options){.restarts = 1});
  enrol(w, 1, 0);
  expect(w, "refused 1;");
  die(w, 0, SIGKILL);
  expect(w, "dead 1 a0;start 0 1;");
  enrol(w, 0, 0); /* of the process that has died: it comes late */
  expect(w, "");
  enrol(w, 0, 1);
  expect(w, "join 0 b0;");
  leave_well(w, 0);
  leave_well(w, 1);
  finish(w, 0);
}

/* ---- deaths */

static void test_restarts(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 2, .restarts = 2});
  die(w, 2, SIGKILL);
  expect(w, "dead 0 c0;dead 1 c0;start 2 1;");
  expect_line(w, "run: rank 2 on host b: killed by signal 9 (Killed): started again, 1 of 2 restarts\n");
  enrol(w, 2, 1);
  expect(w, "join 2 a0b0;");
  join(w, 2, "auto-1-0", 3);
  die(w, 2, SIGSEGV); /* soon: there is a pause */
  expect(w, "dead 0 c1;dead 1 c1;");
  expect_line(w, "started again in 500 ms, 2 of 2 restarts");
  assert_int_equal(by_supervisor_next(w->supervisor), w->now + 500 * BY_MILLISECOND);
  tick(w, 499 * BY_MILLISECOND);
  expect(w, "");
  tick(w, BY_MILLISECOND);
  expect(w, "start 2 2;");
  tick(w, BY_SECOND);
  by_supervisor_ended(w->supervisor, 2, 3 << 8, w->now);
  expect(w, "");
  expect_line(w, "rank 2 on host b: exit code 3: not started again, since all 2 restarts are used up");
  leave_well(w, 0);
  leave_well(w, 1);
  finish(w, 0);
}

static void test_pauses_grow_and_end(void **state) {
  (void)state;
  static const int wanted[] = {0, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
  struct world *w = begin(1, (struct by_supervisor_options){.restarts = 20});
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    die(w, 0, SIGABRT);
    if (wanted[i]) expect(w, "");
    if (wanted[i]) assert_int_equal(by_supervisor_next(w->supervisor), w->now + (uint64_t)wanted[i] * BY_MILLISECOND);
    tick(w, (uint64_t)wanted[i] * BY_MILLISECOND);
    assert_non_null(strstr(w->log, "start 0 "));
    *w->log = 0;
  }
  tick(w, 3 * BY_SECOND); /* it lived: the next end is like the first */
  die(w, 0, SIGABRT);
  expect(w, "start 0 10;");
  leave_well(w, 0);
  finish(w, 0);
}

static void test_too_few(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 2});
  die(w, 0, SIGKILL);
  expect(w, "dead 1 a0;dead 2 a0;");
  by_supervisor_ended(w->supervisor, 1, 4 << 8, w->now);
  expect(w, "dead 2 b0;end 4;");
  expect_line(w, "only 1 of --min 2 processes are left: ending the job");
  die(w, 2, SIGTERM);
  finish(w, 128 + SIGTERM);
}

static void test_waits_for_hosts(void **state) {
  (void)state;
  struct world *w = form(2, (struct by_supervisor_options){.may_grow = true});
  by_supervisor_lost(w->supervisor, 1, w->now); /* which proves nothing */
  expect(w, "");
  expect_line(w, "only 1 of --min 2 processes are left: the job ends unless others join within 60 s");
  tick(w, 59 * BY_SECOND);
  by_supervisor_add(w->supervisor, "c", w->now);
  tick(w, BY_SECOND);
  expect(w, "");
  die(w, 2, SIGKILL);
  tick(w, 60 * BY_SECOND);
  expect(w, "end 137;");
  by_supervisor_ended(w->supervisor, 0, 0, w->now);
  finish(w, 0);
}

static void test_finishing(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 1, .restarts = 1});
  by_supervisor_ended(w->supervisor, 0, 5 << 8, w->now);
  enrol(w, 0, 1);
  expect(w, "dead 1 a0;dead 2 a0;start 0 1;join 0 b0c0;");
  leave_well(w, 1);
  assert_false(by_supervisor_goes_on(w->supervisor));
  expect(w, "dead 0 b0;dead 2 b0;leave 0;"); /* a newcomer comes too late now, however it ends */
  by_supervisor_ended(w->supervisor, 0, 7 << 8, w->now);
  by_supervisor_ended(w->supervisor, 2, 6 << 8, w->now);
  finish(w, 6);
}

/* A process that the others have excluded, and of whose end nobody knows. */
static void test_over(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 1});
  join(w, 0, "auto-1-0", 2);
  join(w, 1, "auto-1-0", 2);
  leave_well(w, 0);
  leave_well(w, 1);
  assert_true(by_supervisor_waits(w->supervisor));
  assert_int_equal(by_supervisor_next(w->supervisor), w->now + 5 * BY_SECOND);
  tick(w, 5 * BY_SECOND);
  expect_line(w, "rank 2 on host b is terminated: the others continue without it");
  finish(w, 0);
}

/* Members of the last group may take their time. */
static void test_slow_end(void **state) {
  (void)state;
  struct world *w = form(2, (struct by_supervisor_options){.min = 1});
  leave_well(w, 1);
  tick(w, 1000 * BY_SECOND);
  assert_true(by_supervisor_waits(w->supervisor));
  leave_well(w, 0);
  finish(w, 0);
}

/* ---- departure */

static void test_leaving(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 2, .restarts = 9});
  assert_true(by_supervisor_leave(w->supervisor, 2, "its host is taken away"));
  assert_false(by_supervisor_leave(w->supervisor, 2, "again"));
  expect(w, "leave 2;");
  assert_false(by_supervisor_holds(w->supervisor, 2));
  assert_false(by_supervisor_withdrew(w->supervisor, 2));
  leave_well(w, 2);
  expect(w, "dead 0 c0;dead 1 c0;");
  expect_line(w, "rank 2 on host b has left\n");
  assert_true(by_supervisor_goes_on(w->supervisor));
  for (int i = 0; i < 2; i++) assert_true(by_supervisor_leave(w->supervisor, i, "SIGUSR1"));
  *w->log = 0;
  leave_well(w, 0);
  die(w, 1, SIGKILL); /* which is not started again either */
  expect(w, "dead 1 a0;");
  finish(w, BY_EXIT_LEFT);
}

/* Hosts that were lost before do not change what the exit code says of those that were asked to leave. */
static void test_leaving_after_loss(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 1, .restarts = 9, .may_grow = true});
  by_supervisor_lost(w->supervisor, 2, w->now);
  for (int i = 0; i < 2; i++) assert_true(by_supervisor_leave(w->supervisor, i, "SIGUSR1"));
  for (int i = 0; i < 2; i++) leave_well(w, i);
  finish(w, BY_EXIT_LEFT);
  w = form(3, (struct by_supervisor_options){.min = 1, .restarts = 9});
  for (int i = 0; i < 3; i++) by_supervisor_lost(w->supervisor, i, w->now);
  assert_int_equal(by_supervisor_exit_code(w->supervisor), 1);
  by_supervisor_destroy(w->supervisor);
}

/* A process that leaves by itself is not the first to finish. */
static void test_own_wish(void **state) {
  (void)state;
  struct world *w = form(3, (struct by_supervisor_options){.min = 1, .restarts = 1});
  receive(w, 1, BY_DIRECTORY_LEAVING, 0, 0, "");
  expect_line(w, "rank 1 on host a wants to leave");
  leave_well(w, 1);
  assert_true(by_supervisor_withdrew(w->supervisor, 1));
  assert_true(by_supervisor_goes_on(w->supervisor));
  expect(w, "dead 0 b0;dead 2 b0;");
  die(w, 2, SIGKILL);
  expect(w, "dead 0 c0;start 2 1;");
  leave_well(w, 0);
  leave_well(w, 2);
  finish(w, 0);
}

/* Whoever was asked before it had registered is told when it does. */
static void test_early_leave(void **state) {
  (void)state;
  struct world *w = begin(1, (struct by_supervisor_options){.restarts = 9});
  by_supervisor_leave(w->supervisor, 0, "SIGUSR1");
  expect(w, "");
  enrol(w, 0, 0);
  expect(w, "leave 0;");
  leave_well(w, 0);
  finish(w, BY_EXIT_LEFT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_membership),
      cmocka_unit_test(test_without_those_that_do_not_come),
      cmocka_unit_test(test_failed_attempt),
      cmocka_unit_test(test_all_die),
      cmocka_unit_test(test_nobody_left_to_ask),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_restarts),
      cmocka_unit_test(test_pauses_grow_and_end),
      cmocka_unit_test(test_too_few),
      cmocka_unit_test(test_waits_for_hosts),
      cmocka_unit_test(test_finishing),
      cmocka_unit_test(test_over),
      cmocka_unit_test(test_slow_end),
      cmocka_unit_test(test_leaving),
      cmocka_unit_test(test_leaving_after_loss),
      cmocka_unit_test(test_own_wish),
      cmocka_unit_test(test_early_leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
