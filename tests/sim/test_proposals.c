/* Rank 0's part in moves, by a clock of the test's: what becomes of proposals whose turn does not come, which a rank
 * cannot prepare yet, or which it does not answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "comms.h"
#include "context_events.h"
#include "contexts.h"
#include "control_object.h"
#include "events.h"
#include "loop.h"
#include "plan_switch.h"

enum { ID = 1, MOST = 8 };

struct outcome {
  bool notified, moved;
  char why[200];
};

struct job {
  struct world world;
  struct by_context context;
  struct banyan_comm *comm;
  struct by_control control;
  struct by_control_peer peer; /* by which rank 1 answers; none receives what it is sent */
  struct by_clock clock;
  uint64_t now;
  struct outcome outcomes[MOST];
  uint32_t n;
};

static uint64_t now_of(void *context) {
  return ((struct job *)context)->now;
}

static void init(struct job *job) {
  struct by_sim_options net;
  struct by_engine_options engine;
  static const uint32_t all[] = {0, 1};
  memset(job, 0, sizeof *job);
  world_options(1, &net, &engine);
  world_init(&job->world, 2, "ring", &net, &engine, 1);
  context_make(&job->context, &job->world, 0, 2);
  job->clock = (struct by_clock){now_of, job};
  assert_ok(by_loop_create(&job->clock, &job->context.job.loop));
  job->context.control = &job->control;
  struct by_control_events events = by_context_events.control;
  events.context = &job->context;
  struct by_control_options options = {.job = &job->context.job, .key = &(struct by_key){{0}}, .events = events};
  assert_ok(by_control_object_init(&job->control, &options));
  assert_ok(by_control_peers_make_room(&job->control.peers, 0, 2));
  job->peer = (struct by_control_peer){.peers = &job->control.peers, .rank = 1};
  by_context_lock(&job->context);
  assert_ok(by_comm_open(&job->context, ID, 0, 2, all, &job->comm));
  by_context_unlock(&job->context);
}

static void fini(struct job *job) {
  by_control_object_fini(&job->control);
  context_end_comms(&job->context);
  by_loop_destroy(job->context.job.loop);
  world_fini(&job->world);
  context_fini(&job->context);
}

static void notified(void *context, uint64_t at, const char *why) {
  struct outcome *outcome = context;
  (void)at;
  assert_false(outcome->notified);
  outcome->notified = true;
  outcome->moved = !why;
  snprintf(outcome->why, sizeof outcome->why, "%s", why ? why : "");
}

static const struct outcome *propose(struct job *job, const char *name) {
  struct outcome *outcome = &job->outcomes[job->n++];
  struct by_plan *plan = NULL;
  assert_ok(by_plan_builtin(name, 2, &plan));
  assert_ok(by_plan_switches_propose(&job->context, ID, 2, job->comm->processes, plan,
                                     &(struct by_plan_switch_observer){notified, outcome}));
  return outcome;
}

static void run(struct job *job, double seconds) {
  uint64_t end = job->now + by_clock_from_seconds(seconds);
  for (; job->now < end; job->now += 10 * BY_MILLISECOND) assert_ok(by_loop_run_once(job->context.job.loop, 0));
}

static void answer(struct job *job, enum by_plan_switch_kind kind, uint64_t started, const char *text) {
  uint8_t bytes[300];
  struct by_writer writer;
  struct by_plan_switch_message word = {.kind = kind,
                                        .comm = ID,
                                        .number = job->control.plan_switches.n,
                                        .at = started,
                                        .text = text,
                                        .length = strlen(text)};
  by_writer_init(&writer, bytes, sizeof bytes);
  by_plan_switch_message_write(&writer, &word);
  assert_false(writer.failed);
  by_control_moves_handle(&job->control.plan_switches, &job->peer, bytes, writer.length);
}

static void agree(struct job *job, uint64_t started) {
  answer(job, BY_PLAN_SWITCH_PREPARED, started, "");
  answer(job, BY_PLAN_SWITCH_FIXED, started, "");
}

/* It is asked again, later each time, until it has had its time. */
static void test_not_yet(void **state) {
  struct job job;
  (void)state;
  init(&job);
  const struct outcome *outcome = propose(&job, "star");
  uint32_t asked = 0;
  for (; job.now < 60 * BY_SECOND && !outcome->notified; run(&job, 0.01)) {
    if (job.control.plan_switches.n == asked) continue;
    asked = job.control.plan_switches.n;
    answer(&job, BY_PLAN_SWITCH_NOT_YET, 0, "too early");
  }
  assert_string_equal(outcome->why, "rank 1: too early");
  assert_in_range(job.now / BY_SECOND, 9, 12);
  assert_in_range(asked, 5, 20);
  run(&job, 60);
  assert_int_equal(job.control.plan_switches.n, asked);
  fini(&job);
}

/* The call of the move before does not come; it does. */
static void test_waits_for_call(void **state) {
  struct job job;
  (void)state;
  init(&job);
  const struct outcome *first = propose(&job, "star");
  run(&job, 0.1);
  agree(&job, 3);
  assert_true(first->moved);
  const struct outcome *second = propose(&job, "tree");
  run(&job, 50);
  assert_false(second->notified);
  run(&job, 30);
  assert_non_null(strstr(second->why, "has not come into use"));
  const struct outcome *third = propose(&job, "tree");
  run(&job, 20);
  for (int i = 0; i < 3; i++) assert_ok(banyan_comm_set_plan(job.comm, "ring")); /* each counts as a call */
  assert_string_equal(by_team_plan(job.comm->team)->name, "star");
  run(&job, 2);
  agree(&job, 3);
  assert_true(third->moved);
  fini(&job);
}

/* One that does not answer holds up nobody for ever. */
static void test_silent(void **state) {
  struct job job;
  (void)state;
  init(&job);
  const struct outcome *first = propose(&job, "star");
  run(&job, 50);
  const struct outcome *second = propose(&job, "tree");
  run(&job, 0.1);
  assert_false(first->notified);
  run(&job, 20);
  assert_non_null(strstr(first->why, "rank 1"));
  agree(&job, 0);
  assert_true(second->moved);
  assert_string_equal(by_team_plan(job.comm->team)->name, "tree");
  fini(&job);
}

/* The one in front was put off first, so that it may be silent for longer than the one behind waits. */
static void test_behind_silent(void **state) {
  struct job job;
  (void)state;
  init(&job);
  const struct outcome *first = propose(&job, "star");
  run(&job, 0.1);
  const struct outcome *second = propose(&job, "tree");
  for (uint32_t asked = 0; job.now < 8 * BY_SECOND; run(&job, 0.01)) {
    if (job.control.plan_switches.n == asked) continue;
    asked = job.control.plan_switches.n;
    answer(&job, BY_PLAN_SWITCH_NOT_YET, 0, "too early");
  }
  while (!second->notified) run(&job, 1);
  assert_false(first->notified);
  assert_non_null(strstr(second->why, "rank 1 does not answer"));
  run(&job, 20);
  assert_non_null(strstr(first->why, "rank 1 has not answered"));
  fini(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_yet), cmocka_unit_test(test_waits_for_call),
                                     cmocka_unit_test(test_silent), cmocka_unit_test(test_behind_silent)};
  return cmocka_run_group_tests_name("proposals", tests, NULL, NULL);
}
