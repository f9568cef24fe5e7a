/* Plan switches in whole jobs in one thread. Ranks set plans by hand at the same place among their calls, at moments of
 * their own, while other plans are proposed. All ranks must make each call, and each submitted operation, under the
 * same plan. A manager's plan must never replace one that was set by hand.
 *
 * The tests of rank 0's proposals use the test's clock: the place of the switch is not reached, a rank cannot prepare
 * the plan yet, or a rank does not answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "contexts.h"

#include "comm.h"
#include "control_object.h"
#include "feature.h"
#include "job_events.h"
#include "loop.h"
#include "plan_switch.h"
#include "submitter.h"

enum { RANKS = 3, STEPS = 24, MESSAGES = 256, ID = 1 };

/* Steps of the program, the same on all ranks. */
enum step { CALL, SET, SUBMIT, WAIT, MARK, STEP_KINDS };

struct queue {
  struct by_plan_switch_message messages[MESSAGES];
  uint32_t n, taken;
};

struct rank {
  struct by_job job;
  struct banyan_comm *comm;
  uint32_t step, open; /* open: requests */
  struct banyan_request *requests[STEPS];
  int32_t values[STEPS];
  struct queue messages, answers;
};

struct job {
  struct world world;
  struct rank ranks[RANKS];
  enum step steps[STEPS];
  const char *plans[STEPS];
  /* The fields below belong to the leader. */
  struct by_agreement agreement;
  bool moving, managers; /* managers: it is a manager's plan */
  uint32_t number, taken;
  uint64_t started;
};

static const char *const plans[] = {"ring", "sharded", "double-tree", "star"};

static uint32_t below(struct job *job, uint64_t n) {
  return (uint32_t)by_rng_below(&job->world.rng, n);
}

static void choose_steps(struct job *job) {
  for (uint32_t i = 0; i < STEPS; i++) {
    job->steps[i] = below(job, 3) ? CALL : (enum step)below(job, STEP_KINDS);
    job->plans[i] = below(job, 3) ? plans[below(job, 4)] : NULL; /* NULL: the default again */
  }
  for (uint32_t i = 0; i < STEPS; i++) /* a plan switch is refused while a submitted operation has not ended */
    if (job->steps[i] == SET) job->steps[i ? i - 1 : 0] = i ? WAIT : CALL;
}

static struct job *make_job(uint64_t seed) {
  struct job *job = calloc(1, sizeof *job);
  struct by_sim_options net;
  struct by_engine_options engine;
  uint32_t all[RANKS];
  assert_non_null(job);
  world_options(seed, &net, &engine);
  world_init(&job->world, 2 + (uint32_t)(seed % (RANKS - 1)), "ring", &net, &engine, seed);
  for (uint32_t r = 0; r < job->world.n; r++) all[r] = r;
  for (uint32_t r = 0; r < job->world.n; r++) {
    struct rank *rank = &job->ranks[r];
    context_make(&rank->job, &job->world, r, 1 + (uint32_t)seed % job->world.n);
    by_job_lock(&rank->job);
    assert_ok(by_comm_open(&rank->job, ID, r, job->world.n, all, &rank->comm));
    by_job_unlock(&rank->job);
  }
  choose_steps(job);
  return job;
}

static void free_job(struct job *job) {
  uint32_t n = job->world.n;
  for (uint32_t r = 0; r < n; r++) context_end_comms(&job->ranks[r].job);
  world_fini(&job->world);
  for (uint32_t r = 0; r < n; r++) context_fini(&job->ranks[r].job);
  free(job);
}

/* ---- messages */

static void push(struct queue *queue, const struct by_plan_switch_message *message) {
  assert_true(queue->n < MESSAGES);
  queue->messages[queue->n++] = *message;
}

static void notify_all(struct job *job, enum by_plan_switch_kind kind, const char *plan) {
  struct by_plan_switch_message message = {
      .kind = kind, .comm = ID, .number = job->number, .at = job->agreement.at, .text = plan, .length = strlen(plan)};
  message.origin = (struct by_plan_origin){job->managers ? BANYAN_PLAN_MANAGER : BANYAN_PLAN_BUILTIN, !job->managers};
  for (uint32_t r = 0; r < job->world.n; r++) push(&job->ranks[r].messages, &message);
}

static bool propose(struct job *job, const char *plan) {
  const struct rank *leader = &job->ranks[0];
  if (job->moving || leader->comm->plans.plan_switch.state == BY_PLAN_SWITCH_IS_TAKEN ||
      leader->messages.n + 8 > MESSAGES)
    return false;
  job->moving = true;
  job->managers = !by_team_plan(leader->comm->team)->origin.supplied && below(job, 4) > 0; /* as rank 0 does */
  job->number++;
  job->started = leader->comm->plans.started;
  by_agreement_init(&job->agreement, job->world.n);
  notify_all(job, BY_PLAN_SWITCH_PROPOSE, plan);
  return true;
}

static void give_up(struct job *job) {
  job->moving = false;
  notify_all(job, BY_PLAN_SWITCH_DROP, "");
}

static void decide(struct job *job) {
  job->moving = false;
  job->taken++;
  notify_all(job, BY_PLAN_SWITCH_TAKE, "");
}

static bool lead(struct job *job, struct queue *answers) {
  if (answers->taken == answers->n) return false;
  const struct by_plan_switch_message *message = &answers->messages[answers->taken++];
  if (!job->moving || message->number != job->number) return true;
  if (message->kind == BY_PLAN_SWITCH_REFUSED) fail_msg("%.*s", (int)message->length, message->text);
  if (message->kind == BY_PLAN_SWITCH_NOT_YET) {
    give_up(job);
    return true;
  }
  uint64_t ahead = job->ranks[0].comm->plans.started - job->started;
  enum by_agreement_next next = by_agreement_handle(&job->agreement, message->at, &message->iteration, ahead);
  if (next == BY_AGREEMENT_FIX) notify_all(job, BY_PLAN_SWITCH_FIX, "");
  if (next == BY_AGREEMENT_TAKE) decide(job);
  return true;
}

static bool receive(struct rank *rank) {
  struct by_plan_switch_message answer;
  char text[400];
  if (rank->messages.taken == rank->messages.n) return false;
  const struct by_plan_switch_message *message = &rank->messages.messages[rank->messages.taken++];
  if (by_plan_switches_handle(&rank->job, message, &answer, text, sizeof text)) push(&rank->answers, &answer);
  return true;
}

/* ---- actions of a rank */

static void call(struct rank *rank, uint32_t i) {
  rank->values[i] = (int32_t)rank->job.rank + 1;
  struct banyan_call what = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_INT32,
                             .op = BANYAN_SUM,
                             .send = &rank->values[i],
                             .recv = &rank->values[i],
                             .count = 1};
  assert_ok(banyan_start(rank->comm, &what, &rank->requests[i]));
  rank->open++;
}

static void submit(struct rank *rank, uint32_t i) {
  char name[16];
  snprintf(name, sizeof name, "%u", i);
  rank->values[i] = (int32_t)rank->job.rank + 1;
  assert_ok(banyan_submit_allreduce(rank->comm, name, &rank->values[i], &rank->values[i], 1, BANYAN_INT32, BANYAN_SUM,
                                    &rank->requests[i]));
  rank->open++;
}

/* Whether the step would wait for a message. */
static bool waits(const struct rank *rank, enum step step) {
  bool counts = step == CALL || step == SET;
  return counts &&
         by_plan_switch_next(&rank->comm->plans.plan_switch, rank->comm->plans.started) == BY_PLAN_SWITCH_WAITS;
}

static bool go_on(const struct job *job, struct rank *rank) {
  uint32_t i = rank->step;
  if (i == STEPS || waits(rank, job->steps[i])) return false;
  switch (job->steps[i]) {
  case CALL: call(rank, i); break;
  case SET: assert_ok(banyan_comm_set_plan(rank->comm, job->plans[i])); break;
  case SUBMIT: submit(rank, i); break;
  case MARK: assert_ok(banyan_step(rank->comm, i)); break;
  default:
    if (rank->open) return false;
  }
  rank->step++;
  return true;
}

static bool collect(const struct job *job, struct rank *rank) {
  bool any = false;
  for (uint32_t i = 0; i < STEPS; i++) {
    bool done = false;
    if (!rank->requests[i]) continue;
    enum banyan_status status = banyan_test(rank->requests[i], &done);
    if (!done) continue;
    if (status != BANYAN_OK) fail_msg("seed %llu: %s", (unsigned long long)job->world.seed, banyan_error_text());
    assert_int_equal(rank->values[i], job->world.n * (job->world.n + 1) / 2);
    rank->requests[i] = NULL;
    rank->open--;
    any = true;
  }
  return any;
}

static bool progress(struct rank *rank) {
  by_job_lock(&rank->job);
  bool progressed = by_progress_advance(&rank->job);
  by_job_unlock(&rank->job);
  return progressed;
}

static const struct by_plan *inner_plan(const struct rank *rank) {
  const struct by_submitter *submitter = by_named_submitter(rank->comm);
  return submitter && submitter->log.inner ? by_team_plan(submitter->log.inner->team) : NULL;
}

static struct by_plan_origin origin_of(const struct by_plan *plan) {
  return plan ? plan->origin : (struct by_plan_origin){0};
}

/* Checks that all plans that were set by hand stay, unless this step has taken them back. */
static void check_pinned(const struct job *job, const struct rank *rank, struct by_plan_origin before,
                         struct by_plan_origin inner_before, uint32_t step) {
  bool taken_back = rank->step > step && job->steps[step] == SET && !job->plans[step];
  if (taken_back) return;
  struct by_plan_origin now = by_team_plan(rank->comm->team)->origin, inner = origin_of(inner_plan(rank));
  if ((before.supplied && now.source == BANYAN_PLAN_MANAGER) ||
      (before.supplied && inner_before.supplied && inner.source == BANYAN_PLAN_MANAGER))
    fail_msg("seed %llu: a manager's plan has replaced the user's on rank %u at step %u",
             (unsigned long long)job->world.seed, rank->job.rank, rank->step);
}

static bool act_unchecked(struct job *job, struct rank *rank, bool eager) {
  bool progressed = collect(job, rank);
  if (eager || below(job, 6) == 0) progressed |= receive(rank);
  if (eager || below(job, 6) == 0) progressed |= lead(job, &rank->answers);
  if (eager || below(job, 6) == 0) progressed |= go_on(job, rank);
  if (!eager && below(job, 20) == 0) progressed |= propose(job, plans[below(job, 4)]);
  return progress(rank) || progressed;
}

static bool act(struct job *job, struct rank *rank, bool eager) {
  struct by_plan_origin before = by_team_plan(rank->comm->team)->origin, inner = origin_of(inner_plan(rank));
  uint32_t step = rank->step;
  bool progressed = act_unchecked(job, rank, eager);
  check_pinned(job, rank, before, inner, step);
  return progressed;
}

static void run(struct job *job) {
  uint32_t n = job->world.n;
  for (uint32_t still = 0; still < 1000;) {
    still = act(job, &job->ranks[below(job, n)], still > 100) ? 0 : still + 1;
    if (still > 2 + below(job, 4ull * n) && by_sim_step(job->world.sim)) still = 0;
  }
}

/* ---- results */

static void check(const struct job *job) {
  const struct banyan_comm *first = job->ranks[0].comm;
  bool noted = true;
  for (uint32_t r = 0; r < job->world.n; r++) noted &= !job->ranks[r].comm->plans.announces;
  for (uint32_t r = 0; r < job->world.n; r++) {
    const struct rank *rank = &job->ranks[r];
    const struct banyan_comm *comm = rank->comm;
    if (rank->step < STEPS || rank->open)
      fail_msg("seed %llu: rank %u waits for ever at step %u", (unsigned long long)job->world.seed, r, rank->step);
    assert_int_equal(comm->plans.started, first->plans.started);
    assert_int_equal(comm->plans.decided, first->plans.decided);
    assert_string_equal(by_team_plan(comm->team)->name, by_team_plan(first->team)->name);
    if (noted && by_named_submitter(comm) && by_named_submitter(comm)->log.inner)
      assert_string_equal(by_team_plan(by_named_submitter(comm)->log.inner->team)->name,
                          by_team_plan(by_named_submitter(first)->log.inner->team)->name);
  }
}

static void test_race(void **state) {
  uint32_t taken = 0;
  (void)state;
  for (uint64_t seed = check_first_seed(), n = check_seeds(1000); n; seed++, n--) {
    struct job *job = make_job(seed);
    run(job);
    check(job);
    taken += job->taken;
    free_job(job);
  }
  assert_true(taken > 0);
}

/* ---- a rank that reads no messages for long, as its program computes, knows the plan of each note */

static void plan_switch(struct job *job, const char *plan) {
  bool more = propose(job, plan);
  assert_true(more);
  while (more) {
    more = false;
    for (uint32_t r = 0; r < job->world.n; r++) {
      if (receive(&job->ranks[r])) more = true;
      if (lead(job, &job->ranks[r].answers)) more = true;
    }
  }
}

static void run_both(struct job *job) {
  for (bool more = true; more;) {
    more = by_sim_step(job->world.sim);
    for (uint32_t r = 0; r < 2; r++) {
      if (collect(job, &job->ranks[r])) more = true;
      if (progress(&job->ranks[r])) more = true;
    }
  }
}

static void test_late_reader(void **state) {
  struct job *job = make_job(2);
  struct rank *root = &job->ranks[0], *late = &job->ranks[1];
  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    assert_ok(banyan_step(root->comm, i));
    submit(root, i);
    if (i == 0) plan_switch(job, "sharded"); /* the switch is noted at once, the next ones when this iteration ends */
    progress(root);
  }
  for (uint32_t i = 0; i < 3; i++) plan_switch(job, plans[i]);
  assert_int_equal(job->taken, 4);
  plan_switch(job, "star"); /* this would be the fourth switch that is not noted */
  assert_int_equal(job->taken, 4);
  for (uint32_t i = 0; i < 2; i++) submit(late, i);
  run_both(job);
  assert_int_equal(root->open + late->open, 0);
  assert_string_equal(by_team_plan(by_named_submitter(late->comm)->log.inner->team)->name, "sharded");
  free_job(job);
}

/* Where nothing is submitted, no note is awaited. Later submissions have the last plan. */
static void test_no_log(void **state) {
  struct job *job = make_job(2);
  (void)state;
  for (uint32_t i = 0; i < 9; i++) plan_switch(job, plans[i % 4]);
  assert_int_equal(job->taken, 9);
  for (uint32_t r = 2; r-- > 0;) {
    submit(&job->ranks[r], 0);
    run_both(job);
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(job->ranks[r].open, 0);
    assert_string_equal(by_team_plan(by_named_submitter(job->ranks[r].comm)->log.inner->team)->name, plans[0]);
  }
  free_job(job);
}

enum { CLOCKED_ID = 1, MOST = 8 };

struct outcome {
  bool notified, switched;
  char why[200];
};

struct clocked_job {
  struct world world;
  struct by_job job;
  struct banyan_comm *comm;
  struct by_control control;
  struct by_control_peer peer; /* the peer through which rank 1 answers; no peer receives what is sent to it */
  struct by_clock clock;
  uint64_t now;
  struct outcome outcomes[MOST];
  uint32_t n;
};

static uint64_t now_of(void *context) {
  return ((struct clocked_job *)context)->now;
}

static void init(struct clocked_job *clocked_job) {
  struct by_sim_options net;
  struct by_engine_options engine;
  static const uint32_t all[] = {0, 1};
  memset(clocked_job, 0, sizeof *clocked_job);
  world_options(1, &net, &engine);
  world_init(&clocked_job->world, 2, "ring", &net, &engine, 1);
  context_make(&clocked_job->job, &clocked_job->world, 0, 2);
  clocked_job->clock = (struct by_clock){now_of, clocked_job};
  assert_ok(by_loop_create(&clocked_job->clock, &clocked_job->job.loop));
  clocked_job->job.control = &clocked_job->control;
  struct by_control_events events = by_job_events.control;
  events.context = &clocked_job->job;
  struct by_control_join_options options = {.job = &clocked_job->job, .events = events};
  assert_ok(by_control_object_init(&clocked_job->control, &options));
  assert_ok(by_control_peers_make_room(&clocked_job->control.peers, 0, 2));
  clocked_job->peer = (struct by_control_peer){.peers = &clocked_job->control.peers, .rank = 1};
  by_job_lock(&clocked_job->job);
  assert_ok(by_comm_open(&clocked_job->job, CLOCKED_ID, 0, 2, all, &clocked_job->comm));
  by_job_unlock(&clocked_job->job);
}

static void fini(struct clocked_job *clocked_job) {
  by_control_object_fini(&clocked_job->control);
  context_end_comms(&clocked_job->job);
  by_features_detach(&clocked_job->job);
  by_loop_destroy(clocked_job->job.loop);
  world_fini(&clocked_job->world);
  context_fini(&clocked_job->job);
}

static void notified(void *context, uint64_t at, const char *why) {
  struct outcome *outcome = context;
  (void)at;
  assert_false(outcome->notified);
  outcome->notified = true;
  outcome->switched = !why;
  snprintf(outcome->why, sizeof outcome->why, "%s", why ? why : "");
}

static const struct outcome *propose_by_rank_0(struct clocked_job *clocked_job, const char *name) {
  struct outcome *outcome = &clocked_job->outcomes[clocked_job->n++];
  struct by_plan *plan = NULL;
  assert_ok(by_plan_builtin(name, 2, &plan));
  plan->origin.supplied = true; /* as of banyan_comm_propose_plan */
  assert_ok(by_plan_switches_propose(&clocked_job->job, CLOCKED_ID, 2, clocked_job->comm->processes, plan, NULL,
                                     &(struct by_plan_switch_observer){notified, outcome}));
  return outcome;
}

static void run_clock(struct clocked_job *clocked_job, double seconds) {
  uint64_t end = clocked_job->now + by_clock_from_seconds(seconds);
  for (; clocked_job->now < end; clocked_job->now += 10 * BY_MILLISECOND)
    assert_ok(by_loop_run_once(clocked_job->job.loop, 0));
}

static void answer(struct clocked_job *clocked_job, enum by_plan_switch_kind kind, uint64_t started, const char *text) {
  uint8_t bytes[300];
  struct by_writer writer;
  struct by_plan_switch_message message = {.kind = kind,
                                           .comm = CLOCKED_ID,
                                           .number = clocked_job->control.plan_switches.n,
                                           .at = started,
                                           .text = text,
                                           .length = strlen(text)};
  by_writer_init(&writer, bytes, sizeof bytes);
  by_plan_switch_message_write(&writer, &message);
  assert_false(writer.failed);
  by_plan_switching_handle(&clocked_job->control.plan_switches, &(struct by_received){.peer = &clocked_job->peer,
                                                                                      .type = PLAN_SWITCH,
                                                                                      .payload = bytes,
                                                                                      .length = writer.length});
}

static void agree(struct clocked_job *clocked_job, uint64_t started) {
  answer(clocked_job, BY_PLAN_SWITCH_PREPARED, started, "");
  answer(clocked_job, BY_PLAN_SWITCH_FIXED, started, "");
}

/* The rank is asked again, at growing intervals, until its time is up. */
static void test_not_yet(void **state) {
  struct clocked_job clocked_job;
  (void)state;
  init(&clocked_job);
  const struct outcome *outcome = propose_by_rank_0(&clocked_job, "star");
  uint32_t asked = 0;
  for (; clocked_job.now < 60 * BY_SECOND && !outcome->notified; run_clock(&clocked_job, 0.01)) {
    if (clocked_job.control.plan_switches.n == asked) continue;
    asked = clocked_job.control.plan_switches.n;
    answer(&clocked_job, BY_PLAN_SWITCH_NOT_YET, 0, "too early");
  }
  assert_string_equal(outcome->why, "rank 1: too early");
  assert_in_range(clocked_job.now / BY_SECOND, 9, 12);
  assert_in_range(asked, 5, 20);
  run_clock(&clocked_job, 60);
  assert_int_equal(clocked_job.control.plan_switches.n, asked);
  fini(&clocked_job);
}

/* The call before the plan switch does not come at first; then it does. */
static void test_waits_for_call(void **state) {
  struct clocked_job clocked_job;
  (void)state;
  init(&clocked_job);
  const struct outcome *first = propose_by_rank_0(&clocked_job, "star");
  run_clock(&clocked_job, 0.1);
  agree(&clocked_job, 3);
  assert_true(first->switched);
  const struct outcome *second = propose_by_rank_0(&clocked_job, "tree");
  run_clock(&clocked_job, 50);
  assert_false(second->notified);
  run_clock(&clocked_job, 30);
  assert_non_null(strstr(second->why, "has not come into use"));
  const struct outcome *third = propose_by_rank_0(&clocked_job, "tree");
  run_clock(&clocked_job, 20);
  for (int i = 0; i < 3; i++) assert_ok(banyan_comm_set_plan(clocked_job.comm, "ring")); /* each counts as a call */
  assert_string_equal(by_team_plan(clocked_job.comm->team)->name, "star");
  run_clock(&clocked_job, 2);
  agree(&clocked_job, 3);
  assert_true(third->switched);
  fini(&clocked_job);
}

/* A rank that does not answer does not block the others for ever. */
static void test_silent(void **state) {
  struct clocked_job clocked_job;
  (void)state;
  init(&clocked_job);
  const struct outcome *first = propose_by_rank_0(&clocked_job, "star");
  run_clock(&clocked_job, 50);
  const struct outcome *second = propose_by_rank_0(&clocked_job, "tree");
  run_clock(&clocked_job, 0.1);
  assert_false(first->notified);
  run_clock(&clocked_job, 20);
  assert_non_null(strstr(first->why, "rank 1"));
  agree(&clocked_job, 0);
  assert_true(second->switched);
  assert_string_equal(by_team_plan(clocked_job.comm->team)->name, "tree");
  fini(&clocked_job);
}

/* The first rank has postponed its answer, so it may stay silent for longer than the second one waits. */
static void test_behind_silent(void **state) {
  struct clocked_job clocked_job;
  (void)state;
  init(&clocked_job);
  const struct outcome *first = propose_by_rank_0(&clocked_job, "star");
  run_clock(&clocked_job, 0.1);
  const struct outcome *second = propose_by_rank_0(&clocked_job, "tree");
  for (uint32_t asked = 0; clocked_job.now < 8 * BY_SECOND; run_clock(&clocked_job, 0.01)) {
    if (clocked_job.control.plan_switches.n == asked) continue;
    asked = clocked_job.control.plan_switches.n;
    answer(&clocked_job, BY_PLAN_SWITCH_NOT_YET, 0, "too early");
  }
  while (!second->notified) run_clock(&clocked_job, 1);
  assert_false(first->notified);
  assert_non_null(strstr(second->why, "rank 1 does not answer"));
  run_clock(&clocked_job, 20);
  assert_non_null(strstr(first->why, "rank 1 has not answered"));
  fini(&clocked_job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_race),          cmocka_unit_test(test_late_reader),    cmocka_unit_test(test_no_log),
      cmocka_unit_test(test_not_yet),       cmocka_unit_test(test_waits_for_call), cmocka_unit_test(test_silent),
      cmocka_unit_test(test_behind_silent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
