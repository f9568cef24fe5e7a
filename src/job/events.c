/* What the job does about control messages and for progress. */
#include <string.h>

#include "calls.h"
#include "feature.h"
#include "formation.h"
#include "job_events.h"
#include "job_life.h"
#include "job_state.h"
#include "plan_switch.h"
#include "request.h"

/* ---- progress */

static __attribute__((noinline)) bool advance_all(struct by_job *job, bool notifies) {
  bool moved = job->anys && by_any_advance(job);
  if (by_engine_get_state(job->engine)->messages && by_features_take_messages(job)) moved = true;
  if (by_features_advance(job)) moved = true;
  if (notifies && job->given.first) by_requests_notify(job);
  return moved;
}

/* Advances what goes on beside the calls of the engine, mostly nothing; a call of 8 bytes takes a few rounds. */
static bool advance(void *argument, bool notifies) {
  struct by_job *job = argument;
  bool none = !job->anys && !job->features.active && !job->given.first && !by_engine_get_state(job->engine)->messages;
  return !none && advance_all(job, notifies);
}

static bool has_work(const void *argument) {
  const struct by_job *job = argument;
  return job->anys || by_features_have_work(job) || by_requests_have_ended(job);
}

static uint64_t find_deadline(const void *context) {
  return by_features_deadline(context);
}

static void check_deadlines(void *context) {
  by_features_check_deadlines(context);
}

/* ---- control messages */

/* Handles a process that has left. A link from it, as a higher rank, would exist by now if ever. To a lower rank, the
 * connector may still be making a link that brings what the rank sent before it left, or finds nothing. */
static void left(void *argument, uint32_t process) {
  struct by_job *job = argument;
  job->left[process] = true;
  by_engine_left(job->engine, process, process > job->rank);
  by_features_process_left(job);
}

static void begin_listening(void *context) {
  by_features_listen(context);
}

static void want_plan(void *context, const struct by_plan_want *want) {
  by_features_plan_wanted(context, want);
}

static const struct by_control_rule *find_rule(void *context, uint16_t type) {
  (void)context;
  return by_features_find_rule(type);
}

static void made(void *context, struct by_control *control) {
  by_features_control_made(context, control);
}

static void handle_tree(void *context, const struct by_received *received) {
  const struct by_tree_service *trees = by_features_trees(context);
  if (trees) trees->handle(context, received);
}

static void lose_process(void *context, uint32_t process) {
  const struct by_tree_service *trees = by_features_trees(context);
  if (trees) trees->process_lost(context, process);
}

static void end_trees(void *context) {
  const struct by_tree_service *trees = by_features_trees(context);
  if (trees) trees->job_failed(context);
}

static enum banyan_status prepare_trees(void *context, const struct by_tree_wanted *wanted) {
  const struct by_tree_service *trees = by_features_trees(context);
  return trees ? trees->prepare(context, wanted) : by_fail(BANYAN_ERR_CLOSED, "the job is over");
}

static void withdraw_trees(void *context, uint32_t version) {
  const struct by_tree_service *trees = by_features_trees(context);
  if (trees) trees->withdraw(context, version);
}

static bool has_manager(void *argument) {
  const struct by_job *job = argument;
  return job->managed;
}

static void reservation(void *context, const struct by_cluster_cells *cells, uint32_t n) {
  by_features_cells_wanted(context, cells, n);
}

/* The host of this process does not answer any more: suspects all its processes, so that nobody waits for them when the
 * next group is decided. Any thread. */
static void suspect_host(void *argument, uint32_t process) {
  const struct by_job *job = argument;
  for (uint32_t r = 0; job->service && process < job->size && r < job->size; r++)
    if (!strcmp(job->members[r].machine, job->members[process].machine))
      job->service_ops->suspect(job->service, &job->formed->members[r].fingerprint);
}

static bool may_answer(void *context) {
  return by_features_cells_may_come(context);
}

static void released(void *context, uint64_t number) {
  by_features_cells_released(context, number);
}

const struct by_job_events by_job_events = {
    .control = {.find_rule = find_rule,
                .want_plan = want_plan,
                .made = made,
                .handle_tree = handle_tree,
                .process_lost = lose_process,
                .failed = end_trees,
                .prepare_trees = prepare_trees,
                .withdraw_trees = withdraw_trees,
                .left = left,
                .listen = begin_listening,
                .handle_plan_switch = by_plan_switches_handle,
                .view_plan_switches = by_plan_switches_view,
                .vanished = suspect_host,
                .has_manager = has_manager,
                .reservation = reservation,
                .may_answer = may_answer,
                .released = released},
    .progress = {
        .advance = advance, .has_work = has_work, .deadline = find_deadline, .check_deadlines = check_deadlines}};

enum banyan_status by_job_create(const struct banyan_options *options, const struct by_job_role *role,
                                 struct by_job **out) {
  return by_job_create_with(options, role, &by_job_events, out);
}
