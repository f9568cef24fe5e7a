/* Has a job's own calls decide between two plans, of which one is in use or coming into use. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "descriptor.h"
#include "history.h"
#include "log.h"
#include "order.h"
#include "plan_switch.h"
#include "plans.h"
#include "thresholds.h"
#include "trial.h"

enum {
  WORLD = 0,         /* The job's own communicator. */
  LOOK_MS = 20,      /* Pause between looks at the calls while they are made. */
  MAX_LOOK_MS = 500, /* Maximum pause, without calls. */
  AGAIN_MS = 250,    /* Pause after a failed proposal. */
  RECENT = 3,        /* Calls of a size before a plan switch that are kept. */
  PROPOSALS = 5      /* Failed proposals after which the plan in use stays. */
};

/* Where a trial stands; set_state alone changes it, from one to the next:
 *
 *   IDLE     -> FINDS      another plan is looked for
 *   IDLE     -> SWITCHES   two plans are given, of which the first is coming into use
 *   FINDS    -> TRIES      there is one, and the plan in use is timed
 *   SWITCHES -> TRIES      the plan is in use
 *   TRIES    -> SWITCHES   the other plan is to be used for the next phase, or from now on
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
  uint32_t n_recent;
  struct recent { /* How long the last calls of a size took. */
    struct by_call_bytes bytes;
    uint32_t n;
    double seconds[RECENT];
  } recent[BY_TRIAL_SIZES];
  struct by_trial_pair pair;
  struct by_trial trial;
  bool second, wants_second; /* The second plan is in use, or is to come into use. */
  bool ends;                 /* The trial is over once that is so. */
  bool stops;                /* The trial is to end with the first plan. */
  uint32_t version;          /* Version of the plan in use. */
  uint64_t since;            /* Calls that had started when it came into use. */
  bool decided, refused;     /* The plan switch in progress was decided on, and refused. */
  uint32_t failures;         /* Failures in a row. */
  /* The fields below are for finding another plan. */
  pthread_t thread;
  struct by_job_network *network;
  double rate; /* Bit/s that no plan exceeds. */
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
  by_loop_set_delay(by_job_loop(calls->job), &calls->timer, calls->look_ms * BY_MILLISECOND);
}

/* ---- times */

static struct recent *find_recent(struct by_trial_calls *calls, struct by_call_bytes bytes) {
  for (uint32_t i = 0; i < calls->n_recent; i++)
    if (calls->recent[i].bytes.all == bytes.all && calls->recent[i].bytes.max == bytes.max) return &calls->recent[i];
  if (calls->n_recent == BY_TRIAL_SIZES) return NULL;
  calls->recent[calls->n_recent] = (struct recent){.bytes = bytes};
  return &calls->recent[calls->n_recent++];
}

/* Finds the communicator in which operations that are submitted to the job's own one run; the job's own one if none
 * are. Under lock. */
static uint32_t find_inner(const struct by_trial_calls *calls) {
  const struct banyan_comm *comm = by_comm_find(calls->job, WORLD);
  const struct by_submit_log *log = comm ? comm->plans.log : NULL;
  return log && log->inner ? by_team_id(log->inner->team) : WORLD;
}

/* Reads what calls have taken since the last look; those by the plan that is tried count for the trial. Returns whether
 * there were some. */
static bool read_times(struct by_trial_calls *calls) {
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
    struct recent *recent = find_recent(calls, last[i].bytes);
    if (recent) recent->seconds[recent->n++ % RECENT] = seconds;
    if (calls->state == TRIES && last[i].plan == calls->version) by_trial_add(&calls->trial, last[i].bytes, seconds);
  }
  return n > first;
}

/* ---- the end */

void by_trial_pair_fini(struct by_trial_pair *pair) {
  for (int i = 0; i < 2; i++) by_plan_destroy(pair->plans[i]);
  *pair = (struct by_trial_pair){0};
}

static void finish(struct by_trial_calls *calls) {
  double ratio = by_trial_ratio(&calls->trial);
  if (ratio > 0)
    by_info("plan", "trial calls: %s took %.3f times as long as the %s%s",
            calls->trial.cautious ? "another plan" : "the plan before it", ratio,
            calls->trial.cautious ? "one in use" : "new one", calls->second ? ", and is used" : "");
  by_trial_pair_fini(&calls->pair);
  by_loop_cancel_timer(&calls->timer);
  set_state(calls, IDLE);
  calls->observer.over(calls->observer.context, by_trial_judge(&calls->trial), calls->second);
}

/* ---- changing plans */

static void note_decision(void *context, uint64_t at, const char *why) {
  struct by_trial_calls *calls = context;
  (void)at;
  calls->decided = true;
  calls->refused = why != NULL;
}

/* Changes to the wanted plan; if that is not possible, it is tried again a few times. */
static void change_plan(struct by_trial_calls *calls) {
  struct by_plan *plan;
  calls->pair.used = by_plan_switches_view(calls->job, WORLD).used;
  calls->decided = calls->refused = false;
  if (calls->state != SWITCHES) set_state(calls, SWITCHES);
  enum banyan_status status = by_plan_copy(calls->pair.plans[calls->wants_second], &plan);
  if (status == BANYAN_OK)
    status = by_planning_propose(calls->job, plan, calls->pair.source,
                                 &(struct by_plan_switch_observer){note_decision, calls});
  if (status == BANYAN_OK) return;
  by_info("plan", "trial calls: %s", banyan_error_text());
  calls->decided = calls->refused = true;
}

static void use(struct by_trial_calls *calls, bool second, bool ends) {
  calls->wants_second = second;
  calls->ends = ends;
  if (second != calls->second)
    change_plan(calls);
  else
    finish(calls);
}

/* Handles a plan that has come into use: calls by it count from now on. */
static void handle_change(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  calls->second = calls->wants_second;
  calls->version = view->version;
  calls->since = view->started;
  calls->failures = 0;
  if (calls->ends || (calls->stops && !calls->second))
    finish(calls);
  else if (calls->stops)
    use(calls, false, true);
  else
    set_state(calls, TRIES);
}

static void handle_refusal(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  bool gives_up = view->supplied || view->used != calls->pair.used || ++calls->failures == PROPOSALS;
  if (gives_up || (calls->stops && !calls->second)) {
    calls->second = false;
    finish(calls);
    return;
  }
  calls->look_ms = AGAIN_MS;
  change_plan(calls);
}

/* ---- looking */

static void step(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  if (view->version != calls->version || view->supplied) { /* The plan was changed by someone else. */
    calls->second = false;
    finish(calls);
    return;
  }
  if (!by_trial_step(&calls->trial, view->started - calls->since)) return;
  bool over = calls->trial.phase == BY_TRIAL_OVER;
  use(calls, over ? calls->trial.takes_second : true, over);
}

static void begin_trial(struct by_trial_calls *calls, const struct by_plan_switches_view *view);

static void look(void *argument) {
  struct by_trial_calls *calls = argument;
  struct by_plan_switches_view view = by_plan_switches_view(calls->job, WORLD);
  if (calls->state == SWITCHES && calls->decided) {
    if (calls->refused)
      handle_refusal(calls, &view);
    else if (!view.taken && view.used != calls->pair.used)
      handle_change(calls, &view);
  }
  bool news = read_times(calls);
  if (calls->state == FINDS && atomic_load(&calls->found)) begin_trial(calls, &view);
  if (calls->state == TRIES) step(calls, &view);
  bool waits = calls->failures || (calls->state == TRIES && calls->trial.phase == BY_TRIAL_FIRST);
  calls->look_ms = news && !waits ? LOOK_MS : calls->look_ms * 2 < MAX_LOOK_MS ? calls->look_ms * 2 : MAX_LOOK_MS;
  if (calls->state != IDLE) look_soon(calls);
}

/* ---- beginning */

/* Starts a trial with the first plan in use, or coming into use. */
static void prepare(struct by_trial_calls *calls, bool cautious) {
  calls->trial = (struct by_trial){.cautious = cautious, .rate = cautious ? calls->rate / 8 : 0};
  calls->second = calls->wants_second = calls->ends = false;
  calls->failures = 0;
  calls->look_ms = LOOK_MS;
}

static void *find_main(void *argument) {
  struct by_trial_calls *calls = argument;
  calls->status =
      by_planning_alternative(calls->job, calls->network, by_limit_error, &calls->pair.plans[1], &calls->rate);
  if (calls->status != BANYAN_OK) snprintf(calls->error, sizeof calls->error, "%s", banyan_error_text());
  atomic_store(&calls->found, true);
  return NULL;
}

static void end_thread(struct by_trial_calls *calls) {
  pthread_join(calls->thread, NULL);
  by_job_network_release(calls->network);
  calls->network = NULL;
}

static void begin_trial(struct by_trial_calls *calls, const struct by_plan_switches_view *view) {
  end_thread(calls);
  prepare(calls, true);
  if (calls->status != BANYAN_OK)
    by_info("plan", "no other plan is tried: %s", calls->error);
  else
    by_info("plan", "%s is predicted to be nearly as fast as the one in use",
            calls->pair.plans[1] ? "trial calls: another plan" : "no other plan");
  if (!calls->pair.plans[1] || calls->stops || view->taken ||
      by_plan_switches_copy(calls->job, WORLD, &calls->pair.plans[0]) != BANYAN_OK) {
    finish(calls);
    return;
  }
  calls->version = view->version;
  calls->since = view->started;
  set_state(calls, TRIES);
}

void by_trial_calls_begin(struct by_trial_calls *calls, struct by_job_network *network) {
  calls->pair = (struct by_trial_pair){.source = network->source};
  calls->network = network;
  calls->stops = false;
  calls->look_ms = LOOK_MS;
  atomic_store(&calls->found, false);
  int error = by_thread_start(&calls->thread, find_main, calls);
  if (error) {
    by_info("plan", "no other plan is tried: no thread could be started");
    by_job_network_release(network);
    calls->network = NULL;
    return;
  }
  set_state(calls, FINDS);
  look_soon(calls);
}

void by_trial_calls_compare(struct by_trial_calls *calls, const struct by_trial_pair *pair) {
  read_times(calls);
  calls->pair = *pair;
  prepare(calls, false);
  for (uint32_t i = 0; i < calls->n_recent; i++) {
    struct recent *recent = &calls->recent[i];
    if (recent->n >= RECENT) by_trial_set_recent(&calls->trial, recent->bytes, by_median(recent->seconds, RECENT));
  }
  calls->n_recent = 0;
  calls->stops = calls->refused = false;
  calls->decided = true;
  set_state(calls, SWITCHES);
  look_soon(calls);
}

bool by_trial_calls_can_compare(struct by_trial_calls *calls) {
  read_times(calls);
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
  if (calls->state == TRIES) use(calls, false, true);
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
  by_engine_time_calls(by_job_engine(job), &calls->times);
  by_job_unlock(job);
  return BANYAN_OK;
}

void by_trial_calls_destroy(struct by_trial_calls *calls) {
  if (!calls) return;
  by_loop_cancel_timer(&calls->timer);
  if (calls->state == FINDS) end_thread(calls);
  by_job_lock(calls->job);
  by_engine_time_calls(by_job_engine(calls->job), NULL);
  by_job_unlock(calls->job);
  by_trial_pair_fini(&calls->pair);
  free(calls);
}
