/* Has a job's own calls made by each of several plans in turn, and keeps the fastest plan. */
#include "trial_calls.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_times.h"
#include "clock.h"
#include "descriptor.h"
#include "log.h"
#include "order.h"
#include "plan_switch.h"
#include "planning.h"
#include "plans.h"

enum {
  WORLD = 0,             /* The job's own communicator. */
  LOOK_MS = 20,          /* Pause between looks at the calls while other plans are in use. */
  LONGEST_LOOK_MS = 500, /* Maximum pause, without calls; and the pause while the first plan is in use. */
  AGAIN_MS = 250,        /* Pause after a failed proposal. */
  RECENT = 3,            /* Calls of a size before a plan switch that are kept. */
  PROPOSALS = 5          /* Failed proposals after which the plan in use stays. */
};
static const double within = 1.1; /* Factor of the best predicted time up to which plans are nearly as fast. */

/* Where a trial stands; set_state alone changes it, from one to the next:
 *
 *   IDLE     -> FINDS      rivals are looked for
 *   IDLE     -> SWITCHES   two plans are given, of which one comes into use
 *   FINDS    -> TRIES      there are some, and the first plan is timed
 *   TRIES    -> SWITCHES   another plan is to be used for the next phase, or from now on
 *   SWITCHES -> TRIES      it is in use
 *   any      -> IDLE       the trial is over */
enum state { IDLE, FINDS, TRIES, SWITCHES };

struct by_trial_calls {
  struct by_job *job;
  struct by_trial_observer observer;
  enum state state;
  struct by_timer timer;
  uint64_t look_ms;
  struct by_call_times times;
  uint64_t read; /* Number of calls that were read. */
  /* of all calls, by size: how long the last ones took */
  uint32_t n_recent;
  struct recent {
    struct by_call_bytes bytes;
    uint32_t n;
    double seconds[RECENT];
  } recent[BY_TRIAL_SIZES];
  /* the trial */
  struct by_alternatives rivals;
  struct by_trial trial;
  enum banyan_plan_source source;
  uint32_t wanted, in_use; /* The wanted plan and the plan in use, by their index. */
  uint32_t version;        /* Version of the plan in use. */
  uint64_t since;          /* Calls that had started when it came into use. */
  bool stops;              /* The trial is to end. */
  bool ends;               /* The first plan, or the chosen one, is used from now on. */
  bool changed;            /* That is another plan than the first. */
  uint32_t used;           /* See by_plan_switches_view: its value before the plan switch in progress. */
  bool decided;            /* The plan switch was decided on. */
  bool refused;            /* The plan switch was refused. */
  uint32_t failures;       /* Failures in a row. */
  /* looking for rivals */
  pthread_t thread;
  struct by_job_network *network;
  atomic_bool found;
  enum banyan_status status;
  char error[256];
};

static void set_state(struct by_trial_calls *calls, enum state state) {
  static const char *const names[] = {"idle", "finds", "tries", "switches"};
  by_debug("plan", "trial calls: %s -> %s", names[calls->state], names[state]);
  calls->state = state;
}

static void look_soon(struct by_trial_calls *calls) {
  by_loop_set_delay(calls->job->loop, &calls->timer, calls->look_ms * BY_MILLISECOND);
}

/* ---- times */

static struct recent *recent_of(struct by_trial_calls *calls, struct by_call_bytes bytes) {
  for (uint32_t i = 0; i < calls->n_recent; i++)
    if (calls->recent[i].bytes.all == bytes.all && calls->recent[i].bytes.max == bytes.max) return &calls->recent[i];
  if (calls->n_recent == BY_TRIAL_SIZES) return NULL;
  calls->recent[calls->n_recent] = (struct recent){.bytes = bytes};
  return &calls->recent[calls->n_recent++];
}

static double median_of_recent(const struct recent *recent) {
  double sorted[RECENT];
  memcpy(sorted, recent->seconds, sizeof sorted);
  return by_median(sorted, RECENT);
}

/* The communicator in which what is submitted to the job's own one runs; that itself: nothing is. Under lock. */
static uint32_t find_inner(const struct by_trial_calls *calls) {
  const struct banyan_comm *comm = by_comm_find(calls->job, WORLD);
  const struct by_submit_log *log = comm ? comm->plans.log : NULL;
  return log && log->inner ? by_team_id(log->inner->team) : WORLD;
}

/* What calls have taken since the last look; those by the plan that is tried count for the trial. True: there were
 * some. */
static bool take_times(struct by_trial_calls *calls) {
  struct by_call_time last[BY_CALL_TIMES] = {{0}};
  by_job_lock(calls->job);
  uint64_t n = calls->times.n, first = n > calls->read + BY_CALL_TIMES ? n - BY_CALL_TIMES : calls->read;
  for (uint64_t i = first; i < n; i++) last[i - first] = calls->times.last[i % BY_CALL_TIMES];
  uint32_t inner = find_inner(calls);
  by_job_unlock(calls->job);
  calls->read = n;
  for (uint64_t i = 0; i < n - first; i++) {
    double seconds = by_clock_to_seconds(last[i].lasted);
    if (last[i].team != WORLD && last[i].team != inner) continue;
    struct recent *recent = recent_of(calls, last[i].bytes);
    if (recent) recent->seconds[recent->n++ % RECENT] = seconds;
    if (calls->state == TRIES && last[i].plan == calls->version) by_trial_add(&calls->trial, last[i].bytes, seconds);
  }
  return n > first;
}

/* ---- the end */

static void log_range(const struct by_trial_calls *calls, uint32_t i, bool used) {
  const struct by_alternative_range *range = &calls->rivals.ranges[i];
  const struct by_trial_range *tried = &calls->trial.ranges[i];
  double ratio = tried->choice ? tried->ratio : by_trial_ratio(&calls->trial, i);
  uint32_t rival = tried->choice ? tried->choice : calls->trial.rival < range->n ? calls->trial.rival : range->n;
  char size[2][32];
  if (!ratio || !rival) return;
  by_info("plan", "trial calls of %s to %s: %s took %.3f times as long as %s%s",
          by_print_bytes(range->above + 1, size[0]),
          range->up_to == UINT64_MAX ? "any size" : by_print_bytes(range->up_to, size[1]), range->what[rival], ratio,
          range->what[0], tried->choice && used ? ", and is used" : "");
}

static void finish(struct by_trial_calls *calls) {
  enum by_trial_verdict verdict = by_trial_judge(&calls->trial);
  for (uint32_t i = 0; i < calls->rivals.n_ranges; i++) log_range(calls, i, calls->changed);
  by_alternatives_fini(&calls->rivals);
  by_loop_cancel_timer(&calls->timer);
  set_state(calls, IDLE);
  calls->observer.over(calls->observer.context, verdict, calls->changed);
}

/* ---- changing plans */

static void decided(void *context, uint64_t at, const char *why) {
  struct by_trial_calls *calls = context;
  (void)at;
  calls->decided = true;
  calls->refused = why != NULL;
}

/* Which plan's classes are wanted for a range. */
static uint32_t choose_for(const struct by_trial_calls *calls, uint32_t range) {
  if (calls->ends && calls->wanted) return calls->trial.ranges[range].choice;
  return by_trial_tries(&calls->trial, range) ? calls->wanted : 0;
}

static enum banyan_status make_wanted(const struct by_trial_calls *calls, struct by_plan **out) {
  uint32_t choices[BY_WEIGH_SIZES] = {0}, alike = 0;
  for (uint32_t i = 0; i < calls->trial.n_ranges; i++) {
    choices[i] = choose_for(calls, i);
    alike += choices[i] == choices[0];
  }
  if (alike == calls->trial.n_ranges) return by_plan_copy(calls->rivals.plans[choices[0]], out);
  return by_alternatives_join(&calls->rivals, choices, out);
}

static enum banyan_status propose(struct by_trial_calls *calls) {
  struct by_plan *plan;
  BY_TRY(make_wanted(calls, &plan));
  return by_planning_propose(calls->job, plan, calls->source, &(struct by_plan_switch_observer){decided, calls});
}

/* Changes the plan; if that is not possible, it is tried again a few times. */
static void change_plan(struct by_trial_calls *calls) {
  calls->used = by_plan_switches_view(calls->job, WORLD).used;
  calls->decided = calls->refused = false;
  if (calls->state != SWITCHES) set_state(calls, SWITCHES);
  if (propose(calls) == BANYAN_OK) return;
  by_info("plan", "trial calls: %s", banyan_error_text());
  calls->decided = calls->refused = true;
}

static void use(struct by_trial_calls *calls, uint32_t plan, bool ends) {
  calls->ends = ends;
  calls->wanted = plan;
  if (plan != calls->in_use)
    change_plan(calls);
  else if (ends)
    finish(calls);
}

/* Uses the best plan, as all plans have been tried. */
static void use_the_best(struct by_trial_calls *calls) {
  uint32_t best = calls->trial.ranges[0].choice;
  for (uint32_t i = 0; i < calls->trial.n_ranges; i++) {
    uint32_t choice = calls->trial.ranges[i].choice;
    calls->changed |= choice > 0;
    if (choice != best) best = BY_ALTERNATIVE_PLANS;
  }
  use(calls, best, true);
}

/* Handles a plan that has come into use: calls by it count from now on. */
static void has_changed(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  calls->in_use = calls->wanted;
  calls->version = view->version;
  calls->since = view->started;
  calls->failures = 0;
  if (calls->stops && calls->in_use && !calls->ends)
    use(calls, 0, true);
  else if (calls->stops || calls->ends)
    finish(calls);
  else
    set_state(calls, TRIES);
}

static void has_not_changed(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  bool gives_up = view->supplied || view->used != calls->used || ++calls->failures == PROPOSALS;
  if (gives_up || (calls->stops && !calls->in_use)) {
    calls->changed = false;
    finish(calls);
    return;
  }
  calls->look_ms = AGAIN_MS;
  change_plan(calls);
}

/* ---- looking */

static void step(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  if (view->version != calls->version || view->supplied) { /* The plan was changed by someone else. */
    finish(calls);
    return;
  }
  if (!by_trial_step(&calls->trial, view->started - calls->since)) return;
  calls->since = view->started;
  if (calls->trial.phase == BY_TRIAL_OVER)
    use_the_best(calls);
  else
    use(calls, by_trial_plan(&calls->trial), false);
}

static void begin_trial(struct by_trial_calls *calls);

static void look(void *argument) {
  struct by_trial_calls *calls = argument;
  struct by_plan_switches_view view = by_plan_switches_view(calls->job, WORLD);
  if (calls->state == SWITCHES && calls->decided) {
    if (calls->refused)
      has_not_changed(calls, &view);
    else if (!view.taken && view.used != calls->used)
      has_changed(calls, &view);
  }
  bool news = take_times(calls);
  uint64_t usual = calls->look_ms * 2 < LONGEST_LOOK_MS ? calls->look_ms * 2 : LONGEST_LOOK_MS;
  if (calls->state == FINDS && atomic_load(&calls->found)) begin_trial(calls);
  if (calls->state == TRIES) step(calls, &view);
  bool waits = calls->failures || (calls->state == TRIES && calls->trial.phase == BY_TRIAL_FIRST);
  calls->look_ms = news && !waits ? LOOK_MS : usual;
  if (calls->state != IDLE) look_soon(calls);
}

/* ---- beginning */

/* The trial starts from scratch: with plan `first` in use, or coming into use. */
static void prepare(struct by_trial_calls *calls) {
  by_trial_init(&calls->trial, &calls->rivals);
  calls->wanted = calls->in_use = 0;
  calls->failures = 0;
  calls->stops = calls->ends = calls->changed = false;
  calls->look_ms = LOOK_MS;
}

static void *find_main(void *argument) {
  struct by_trial_calls *calls = argument;
  calls->status = by_planning_rivals(calls->job, calls->network, within, &calls->rivals);
  if (calls->status != BANYAN_OK) snprintf(calls->error, sizeof calls->error, "%s", banyan_error_text());
  atomic_store(&calls->found, true);
  return NULL;
}

static void end_thread(struct by_trial_calls *calls) {
  pthread_join(calls->thread, NULL);
  by_job_network_release(calls->network);
  calls->network = NULL;
}

/* The version that a plan has over the job's ranks. */
static uint32_t version_over_ranks(const struct by_job *job, const struct by_plan *plan) {
  uint32_t n = job->size, *all = calloc(n, sizeof *all), version = 0;
  struct by_plan *copy, *fitted;
  for (uint32_t i = 0; all && i < n; i++) all[i] = i;
  if (all && by_plan_copy(plan, &copy) == BANYAN_OK && by_plans_fit(job, n, all, copy, &fitted) == BANYAN_OK) {
    version = fitted->version;
    by_plan_destroy(fitted);
  }
  free(all);
  return version;
}

static void begin_trial(struct by_trial_calls *calls) {
  struct by_plan_switches_view view = by_plan_switches_view(calls->job, WORLD);
  end_thread(calls);
  bool found = calls->status == BANYAN_OK && calls->rivals.n_plans > 1;
  bool same = found && !calls->stops && version_over_ranks(calls->job, calls->rivals.plans[0]) == view.version;
  if (calls->status != BANYAN_OK)
    by_info("plan", "no other plan is tried: %s", calls->error);
  else if (!found)
    by_info("plan", "no other plan is predicted to be nearly as fast as the one in use");
  prepare(calls);
  if (!same) {
    finish(calls);
    return;
  }
  by_info("plan", "trial calls: %u other plan%s predicted to be nearly as fast", calls->rivals.n_plans - 1,
          calls->rivals.n_plans > 2 ? "s are" : " is");
  calls->version = view.version;
  calls->since = view.started;
  set_state(calls, TRIES);
}

void by_trial_calls_begin(struct by_trial_calls *calls, struct by_job_network *network) {
  calls->source = network->source;
  calls->network = network;
  calls->stops = calls->ends = false;
  atomic_store(&calls->found, false);
  int error = by_thread_start(&calls->thread, find_main, calls);
  if (error) {
    by_info("plan", "no other plan is tried: no thread could be started");
    by_job_network_release(network);
    calls->network = NULL;
    return;
  }
  set_state(calls, FINDS);
  calls->look_ms = LOOK_MS;
  look_soon(calls);
}

void by_trial_calls_compare(struct by_trial_calls *calls, const struct by_trial_pair *pair) {
  take_times(calls);
  calls->rivals = (struct by_alternatives){.n_plans = 2, .plans = {pair->next, pair->before}, .n_ranges = 1};
  calls->rivals.ranges[0] =
      (struct by_alternative_range){.up_to = UINT64_MAX, .n = 1, .what = {"the new plan", "the plan before it"}};
  calls->source = pair->source;
  prepare(calls);
  by_trial_doubt(&calls->trial);
  for (uint32_t i = 0; i < calls->n_recent; i++)
    if (calls->recent[i].n >= RECENT)
      by_trial_set_before(&calls->trial, calls->recent[i].bytes, median_of_recent(&calls->recent[i]));
  calls->n_recent = 0;
  calls->used = pair->used;
  calls->decided = true;
  calls->refused = false;
  set_state(calls, SWITCHES);
  look_soon(calls);
}

bool by_trial_calls_can_compare(struct by_trial_calls *calls) {
  take_times(calls);
  for (uint32_t i = 0; i < calls->n_recent; i++)
    if (calls->recent[i].n >= RECENT) return true;
  return false;
}

bool by_trial_calls_busy(const struct by_trial_calls *calls) {
  return calls->state != IDLE;
}

void by_trial_calls_stop(struct by_trial_calls *calls) {
  if (calls->state == IDLE || calls->ends || calls->stops) return;
  calls->stops = true;
  for (uint32_t i = 0; i < calls->trial.n_ranges; i++) calls->trial.ranges[i].choice = 0;
  if (calls->state == TRIES) use(calls, 0, true);
}

/* ---- its life */

enum banyan_status by_trial_calls_create(struct by_job *job, const struct by_trial_observer *observer,
                                         struct by_trial_calls **out) {
  struct by_trial_calls *calls = calloc(1, sizeof *calls);
  *out = calls;
  if (!calls) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for trial calls");
  calls->job = job;
  calls->observer = *observer;
  calls->times.clock = &by_clock_system;
  by_timer_init(&calls->timer, look, calls);
  by_job_lock(job);
  by_engine_time_calls(job->engine, &calls->times);
  by_job_unlock(job);
  return BANYAN_OK;
}

void by_trial_calls_destroy(struct by_trial_calls *calls) {
  if (!calls) return;
  by_loop_cancel_timer(&calls->timer);
  if (calls->state == FINDS) end_thread(calls);
  by_job_lock(calls->job);
  by_engine_time_calls(calls->job->engine, NULL);
  by_job_unlock(calls->job);
  by_alternatives_fini(&calls->rivals);
  free(calls);
}
