/* Plans again while a job runs, where links have become slower or faster, and proposes the new plan to all ranks. */

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adaptation.h"
#include "clock.h"
#include "control.h"
#include "control_paths.h"
#include "descriptor.h"
#include "engine.h"
#include "log.h"
#include "network_estimate.h"
#include "plan_load.h"
#include "plan_switch.h"
#include "planning.h"
#include "thresholds.h"
#include "trial.h"

enum {
  WORLD = 0, /* The job's own communicator. */
  INTERVAL_MS = 1000,
  TICK_MS = 250,
  FIRST_CALLS = 16 /* Calls after which plans are tried. */
};

/* Planning on a thread in the background. */
struct planning {
  pthread_t thread;
  struct by_job_network *network;
  struct by_plan *current; /* A copy of the plan in use, over ranks. */
  struct by_text text;     /* The new plan, over hosts. */
  double rate, rate_before;
  atomic_bool over; /* The thread has finished. */
  enum banyan_status status;
  char error[256];
};

/* Where it stands; set_state alone changes it, from one to the next:
 *
 *   WATCHES  -> PLANS      links carry less or more than the plan was made for
 *   PLANS    -> WATCHES    the new plan is not so much better
 *   PLANS    -> PROPOSES   it is, and is proposed
 *   PROPOSES -> WATCHES    it has been decided on */
enum state { WATCHES, PLANS, PROPOSES, STATES };

struct by_replanner {
  struct by_job *job;
  struct by_job_network *base; /* The topology that was measured or given. */
  struct by_job_network *kept; /* The current estimate, which the context keeps; NULL: the given topology. */
  struct by_network_estimate *estimate;
  enum state state;
  bool due;                     /* Links have changed since the last planning. */
  double since;                 /* Seconds: time of that change. */
  bool failed;                  /* The last proposal failed. */
  bool repairs;                 /* The last plan was for links that only seemed slow. */
  double quiet, until;          /* Seconds: the pause after the next plan switch; the end of the current pause. */
  double reported;              /* Seconds: time of the last report. */
  uint64_t ended;               /* Calls so far. */
  double called;                /* Seconds: when that number last changed. */
  bool alone;                   /* No call was in progress when a probe to refine the network was sent. */
  uint64_t alone_since;         /* Calls that had ended by then. */
  uint32_t refined;             /* Refinements by such probes that the file has. */
  struct by_network_file *file; /* NULL: there is no file. */
  uint32_t watched;             /* Processes that have been asked to watch their connections. */
  struct by_trial_calls *trials;
  struct by_followers *followers;
  struct by_trial_pair pair; /* The proposed plan and the plan in use, in state PROPOSES. */
  bool needs_trial;          /* Calls have to show which plan is faster. */
  double trial_since;        /* Seconds: when the trial in progress began; -INFINITY: none. */
  bool tried, tries;         /* Plans predicted to be as fast: they were tried, or are being tried. */
  struct by_timer tick;
  struct planning planning;
};

static double now(const struct by_replanner *r) {
  return by_clock_to_seconds(by_loop_now(by_job_loop(r->job)));
}

static void set_state(struct by_replanner *r, enum state state) {
  static const char *const names[] = {"watches", "plans", "proposes"};
  by_debug("plan", "replanning: %s -> %s", names[r->state], names[state]);
  r->state = state;
}

/* ---- reports */

/* Returns the node of a process; a helper is at the node of its name. */
static uint32_t node_of(const struct by_replanner *r, uint32_t process) {
  const struct by_job *job = r->job;
  if (process < by_job_size(job)) return r->base->nodes[by_job_hosts(job)->of[process]];
  return process < by_job_processes(job) ? by_planning_node_of(r->base->topology, by_job_members(job)[process].host)
                                         : UINT32_MAX;
}

/* No call is under way here; *ended: how many have been. */
static bool is_idle(const struct by_replanner *r, uint64_t *ended) {
  const struct by_engine *engine = by_job_engine(r->job);
  by_job_lock(r->job);
  *ended = by_engine_get_state(engine)->ended;
  bool idle = !by_engine_has_work(engine);
  by_job_unlock(r->job);
  return idle;
}

static void take_probed(struct by_replanner *r, uint32_t process, const struct by_path_message *message) {
  uint64_t ended;
  bool alone = is_idle(r, &ended) && r->alone && ended == r->alone_since;
  by_debug("plan", "the way from process %u to process %u took %.3g Mbit/s of a probe%s", process, message->process,
           (double)message->bandwidth * 1e-6, alone ? ", between calls" : "");
  by_network_estimate_handle_probe(r->estimate, node_of(r, process), node_of(r, message->process),
                                   (double)message->bandwidth, alone, now(r));
}

static void take_report(void *context, uint32_t process, const struct by_path_message *message) {
  struct by_replanner *r = context;
  if (message->kind == BY_PATH_PROBED) {
    take_probed(r, process, message);
    return;
  }
  struct by_seen_rate rates[BY_PATH_REPORT_MAX];
  uint32_t to[BY_PATH_REPORT_MAX], n = 0, from = node_of(r, process);
  for (uint32_t i = 0; from != UINT32_MAX && i < message->n; i++) {
    const struct by_path_rate *rate = &message->rates[i];
    to[n] = node_of(r, rate->process);
    rates[n] = (struct by_seen_rate){(double)rate->sent, (double)rate->busy * 1e-6, (double)rate->bandwidth};
    n += to[n] != UINT32_MAX;
  }
  if (from != UINT32_MAX) by_network_estimate_report(r->estimate, process, from, n, to, rates, now(r));
  r->reported = now(r);
  if (!by_timer_is_set(&r->tick)) by_loop_set_delay(by_job_loop(r->job), &r->tick, TICK_MS * BY_MILLISECOND);
}

/* ---- planning */

/* Computes the rate of input, in bit/s, that large calls by the plan get. */
static enum banyan_status find_rate(const struct by_job *job, const struct by_job_network *network,
                                    const struct by_plan *plan, double *out) {
  struct by_plan_load load;
  bool over_ranks = plan->n_ranks == by_job_size(job);
  uint32_t *nodes = calloc(plan->n_vertices, sizeof *nodes);
  if (!nodes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  enum banyan_status status = BANYAN_OK;
  for (uint32_t v = 0; v < plan->n_vertices && status == BANYAN_OK; v++) {
    nodes[v] = v >= plan->n_ranks ? by_topology_find(network->topology, plan->vertices[v].name)
               : over_ranks       ? network->nodes[by_job_hosts(job)->of[v]]
                                  : network->nodes[v];
    if (nodes[v] == UINT32_MAX)
      status = by_fail(BANYAN_ERR_PLAN, "\"%.64s\" is no node of the topology", plan->vertices[v].name);
  }
  if (status == BANYAN_OK)
    status = by_plan_load_init_at(&load, plan, &plan->classes[plan->n_classes - 1], network->topology, nodes);
  if (status == BANYAN_OK) {
    *out = load.rate;
    by_plan_load_fini(&load);
  }
  free(nodes);
  return status;
}

static enum banyan_status rate_text(const struct by_job *job, const struct by_job_network *network,
                                    const struct by_text *text, double *out) {
  struct by_plan *plan = NULL;
  BY_TRY(by_plan_named(by_text_get(text), by_job_size(job), &plan));
  enum banyan_status status = find_rate(job, network, plan, out);
  by_plan_destroy(plan);
  return status;
}

static enum banyan_status plan(const struct by_job *job, struct planning *p) {
  BY_TRY(find_rate(job, p->network, p->current, &p->rate_before));
  BY_TRY(by_planning_print(job, p->network, &p->text));
  return rate_text(job, p->network, &p->text, &p->rate);
}

static void look_whether_planned(void *context);

/* Plans on the thread. If the loop has no capacity for a task, the next tick sees the result. */
static void *plan_main(void *argument) {
  struct by_replanner *r = argument;
  struct planning *p = &r->planning;
  p->status = plan(r->job, p);
  if (p->status != BANYAN_OK) snprintf(p->error, sizeof p->error, "%s", banyan_error_text());
  atomic_store(&p->over, true);
  (void)!by_loop_post(by_job_loop(r->job), look_whether_planned, r);
  return NULL;
}

static void free_planning(struct planning *p) {
  by_job_network_release(p->network);
  by_plan_destroy(p->current);
  by_text_fini(&p->text);
  *p = (struct planning){0};
}

/* Groups that are made from now on are planned for by it, too. */
static enum banyan_status keep_estimate(struct by_replanner *r) {
  struct by_topology *topology;
  BY_TRY(by_network_estimate_copy(r->estimate, &topology));
  BY_TRY(by_job_network_keep(r->job, topology, r->base->nodes, r->base->source));
  by_job_network_release(r->kept);
  r->kept = by_job_network_hold(r->job);
  return BANYAN_OK;
}

static enum banyan_status begin_planning(struct by_replanner *r) {
  struct planning *p = &r->planning;
  BY_TRY(keep_estimate(r));
  by_text_init(&p->text);
  BY_TRY(by_plan_switches_copy(r->job, WORLD, &p->current));
  p->network = by_job_network_hold(r->job);
  int error = by_thread_start(&p->thread, plan_main, r);
  return error ? by_fail_errno(BANYAN_ERR_SYSTEM, error, "starting a thread that plans") : BANYAN_OK;
}

/* ---- proposing */

static void be_quiet(struct by_replanner *r) {
  if (now(r) > r->until + by_limit_no_gain * r->quiet) r->quiet = by_limit_first_quiet;
  r->until = now(r) + r->quiet;
  r->quiet = fmin(2 * r->quiet, by_limit_max_quiet);
}

/* Other communicators of all ranks get the plan that the job has now, or has agreed on. */
static void lead_followers(const struct by_replanner *r) {
  struct by_plan *plan;
  if (by_plan_switches_copy(r->job, WORLD, &plan) != BANYAN_OK) {
    by_warn("plan", "communicators of all ranks keep their plan: %s", banyan_error_text());
    return;
  }
  by_followers_lead(r->followers, plan);
  by_plan_destroy(plan);
}

/* Calls have to become faster by it, else it goes back: another job on the same links takes about half of each, and the
 * plan in use is faster than it seems. */
static void decided(void *context, uint64_t at, const char *why) {
  struct by_replanner *r = context;
  (void)at;
  set_state(r, WATCHES);
  if (!r->repairs) be_quiet(r);
  r->failed = why != NULL;
  if (!why && !r->needs_trial) lead_followers(r);
  if (why || !r->needs_trial)
    by_trial_pair_fini(&r->pair);
  else
    by_trial_calls_compare(r->trials, &r->pair);
  r->pair = (struct by_trial_pair){0};
}

/* Handles the end of a trial. A plan switch that makes no call faster is for links that others use, too, and that only
 * seem slow. */
static void trial_over(void *context, enum by_trial_verdict verdict, bool second) {
  struct by_replanner *r = context;
  bool at_start = r->tries;
  r->tries = false;
  if (at_start == second) lead_followers(r);
  if (at_start || (!second && verdict != BY_TRIAL_NO_BETTER)) return;
  r->quiet = fmin(by_limit_no_gain * r->quiet, by_limit_max_no_gain);
  r->until = now(r) + r->quiet;
  by_info("plan", "calls are no faster by the new plan%s: for %.0f s there is no other",
          second ? ", which is not used any more" : "", r->quiet);
}

static enum banyan_status propose(struct by_replanner *r, struct planning *p) {
  struct by_plan *plan = NULL;
  r->pair = (struct by_trial_pair){
      .plans = {NULL, p->current}, .used = by_plan_switches_view(r->job, WORLD).used, .source = p->network->source};
  p->current = NULL;
  r->needs_trial = p->rate < by_limit_certain * p->rate_before && by_network_estimate_may_be_shared(r->estimate) &&
                   by_trial_calls_can_compare(r->trials);
  enum banyan_status status = by_plan_named(by_text_get(&p->text), by_job_size(r->job), &plan);
  if (status == BANYAN_OK) status = by_plan_copy(plan, &r->pair.plans[0]);
  if (status == BANYAN_OK)
    status = by_planning_propose(r->job, plan, p->network->source, &(struct by_plan_switch_observer){decided, r});
  else
    by_plan_destroy(plan);
  if (status != BANYAN_OK) by_trial_pair_fini(&r->pair);
  return status;
}

static bool is_leaving(struct by_job *job) {
  by_job_lock(job);
  bool leaves = by_job_is_leaving(job);
  by_job_unlock(job);
  return leaves;
}

/* Handles a failure, after which planning is tried again. */
static void fail(struct by_replanner *r, const char *what, const char *why) {
  by_warn("plan", "%s: %s", what, why);
  be_quiet(r);
  r->failed = true;
}

static void planned(struct by_replanner *r) {
  struct planning *p = &r->planning;
  char rates[2][32];
  pthread_join(p->thread, NULL);
  bool leaves = is_leaving(r->job);
  bool better = !leaves && p->status == BANYAN_OK && p->rate >= by_limit_gain * p->rate_before;
  by_print_rate(p->rate, rates[0]);
  by_print_rate(p->rate_before, rates[1]);
  if (p->status != BANYAN_OK && !leaves)
    fail(r, "links have changed, and the plan stays", p->error);
  else if (!leaves)
    by_info("plan", "links have changed: a new plan would carry %s, the one in use %s%s", rates[0], rates[1],
            better ? "" : ", which stays");
  enum banyan_status status = better ? propose(r, p) : BANYAN_OK;
  if (status != BANYAN_OK) fail(r, "the new plan is not proposed", banyan_error_text());
  set_state(r, better && status == BANYAN_OK ? PROPOSES : WATCHES);
  free_planning(p);
}

static void look_whether_planned(void *context) {
  struct by_replanner *r = context;
  if (r->state == PLANS && atomic_load(&r->planning.over)) planned(r);
}

/* ---- watching */

static enum banyan_status watch_from(struct by_replanner *r, struct by_job_network *base) {
  struct by_network_estimate *estimate;
  bool measured = base->source == BANYAN_PLAN_MEASURED;
  BY_TRY(by_network_estimate_create(base->topology, measured, by_job_processes(r->job), INTERVAL_MS * 1e-3, &estimate));
  by_network_estimate_destroy(r->estimate);
  by_job_network_release(r->base);
  by_job_network_release(r->kept);
  r->estimate = estimate;
  r->base = base;
  r->kept = NULL;
  return BANYAN_OK;
}

/* Another topology may have been measured since. */
static void look_for_another(struct by_replanner *r) {
  struct by_job_network *network = by_job_network_hold(r->job);
  if (network && network != r->base && network != r->kept && watch_from(r, network) == BANYAN_OK) {
    by_network_file_destroy(r->file); /* The file belongs to the topology before. */
    r->file = NULL;
    return;
  }
  by_job_network_release(network);
}

static void ask_for_probe(const struct by_replanner *r, const struct by_path_probe *probe) {
  const struct by_job *job = r->job;
  uint32_t from = UINT32_MAX, to = UINT32_MAX;
  for (uint32_t rank = by_job_size(job); rank-- > 0;) {
    uint32_t node = r->base->nodes[by_job_hosts(job)->of[rank]];
    if (node == probe->from) from = rank;
    if (node == probe->to) to = rank;
  }
  if (from == UINT32_MAX || to == UINT32_MAX) return;
  by_debug("plan", "probing the way from rank %u to rank %u by %llu bytes", from, to, (unsigned long long)probe->first);
  struct by_path_message message = {.kind = BY_PATH_PROBE,
                                    .process = to,
                                    .test = {.first = probe->first,
                                             .within = (uint32_t)lround(probe->within * 1e3),
                                             .bytes = probe->bytes,
                                             .lasts = (uint32_t)lround(probe->lasts * 1e3)}};
  by_control_paths_probe(r->job, from, &message);
}

/* Probes would distort a trial, unless it takes long since there are few calls. */
static bool trial_goes_first(struct by_replanner *r) {
  if (!by_trial_calls_busy(r->trials))
    r->trial_since = -INFINITY;
  else if (isinf(r->trial_since))
    r->trial_since = now(r);
  return now(r) < r->trial_since + by_limit_shared_for;
}

/* Sends probes while calls are made, for a plan that may change. */
static void send_probes(struct by_replanner *r, const struct by_plan_switches_view *view) {
  struct by_path_probe probe;
  uint64_t ended;
  bool idle = is_idle(r, &ended);
  if (ended != r->ended) r->called = now(r);
  r->ended = ended;
  if (view->supplied || now(r) > r->called + by_limit_refine_timeout) return;
  while (by_network_estimate_next_probe(r->estimate, r->base->nodes, r->base->n_hosts, now(r), &probe)) {
    ask_for_probe(r, &probe);
  }
  if (trial_goes_first(r) ||
      !by_network_estimate_next_refinement(r->estimate, r->base->nodes, r->base->n_hosts, idle, now(r), &probe))
    return;
  r->alone = idle;
  r->alone_since = ended;
  ask_for_probe(r, &probe);
}

/* Stores refined links in the cache. */
static void keep_refined(struct by_replanner *r) {
  struct by_topology *topology;
  uint32_t refined = by_network_estimate_count_refinements(r->estimate);
  if (!r->file || refined == r->refined || by_network_file_is_busy(r->file)) return;
  r->refined = refined;
  enum banyan_status status = by_network_estimate_copy_refined(r->estimate, &topology);
  if (status == BANYAN_OK) status = by_network_file_refine(r->file, topology);
  if (status != BANYAN_OK) by_info("plan", "what was found of links is not kept: %s", banyan_error_text());
}

/* The user's plan stays, and one that is agreed on comes into use first. A plan for links that only seemed slow is not
 * kept for a while. */
static bool may_plan(const struct by_replanner *r, const struct by_plan_switches_view *view) {
  bool quiet = now(r) < r->until && !by_network_estimate_was_mistaken(r->estimate);
  return r->state == WATCHES && r->due && !quiet && *view->plan && !view->supplied && !view->taken &&
         !by_trial_calls_busy(r->trials);
}

/* Plans that are predicted to be nearly as fast as the first one are tried once, while the network is as it was taken
 * to be. */
static void try_others(struct by_replanner *r, const struct by_plan_switches_view *view) {
  if (r->due && r->tries) by_trial_calls_stop(r->trials);
  if (r->tried || r->due || r->state != WATCHES || r->kept || view->started < FIRST_CALLS) return;
  r->tried = true;
  r->tries = *view->plan && !view->supplied && !view->taken;
  struct by_job_network *network = r->tries ? by_job_network_hold(r->job) : NULL;
  if (network) by_trial_calls_begin(r->trials, network);
  r->tries = by_trial_calls_busy(r->trials);
}

/* Asks all to watch their connections; again, once helpers have come. */
static void watch_paths(struct by_replanner *r) {
  uint32_t processes = by_job_processes(r->job);
  if (by_network_estimate_grow(r->estimate, processes) != BANYAN_OK)
    by_warn("plan", "what helpers that have come see does not count: %s", banyan_error_text());
  r->watched = processes;
  by_control_paths_watch(r->job, INTERVAL_MS, &(struct by_path_sink){take_report, r});
}

static void tick(void *context) {
  struct by_replanner *r = context;
  look_whether_planned(r);
  if (r->watched < by_job_processes(r->job)) watch_paths(r);
  if (r->state == WATCHES) look_for_another(r);
  bool settled, due = by_network_estimate_tick(r->estimate, now(r), &settled) || r->failed;
  if (due && !r->due) r->since = now(r);
  r->due = due;
  struct by_plan_switches_view view = by_plan_switches_view(r->job, WORLD);
  if (r->state == WATCHES) send_probes(r, &view);
  keep_refined(r);
  try_others(r, &view);
  if ((settled || now(r) > r->since + INTERVAL_MS * 1e-3) && may_plan(r, &view)) {
    r->failed = false;
    r->repairs = now(r) < r->until;
    set_state(r, PLANS);
    if (begin_planning(r) != BANYAN_OK) {
      fail(r, "links have changed, and the plan stays", banyan_error_text());
      set_state(r, WATCHES);
      free_planning(&r->planning);
    }
  }
  if (r->due || r->state != WATCHES || now(r) < r->reported + by_limit_refine_timeout)
    by_loop_set_delay(by_job_loop(r->job), &r->tick, TICK_MS * BY_MILLISECOND);
}

static void begin(void *context) {
  struct by_replanner *r = context;
  by_debug("plan", "replanning: watches the network");
  r->reported = now(r);
  tick(r);
}

/* ---- its life; the loop runs no more when it ends */

void by_replan_destroy(struct by_replanner *r) {
  if (!r) return;
  by_loop_cancel_timer(&r->tick);
  if (r->state == PLANS) {
    pthread_join(r->planning.thread, NULL);
    free_planning(&r->planning);
  }
  by_trial_calls_destroy(r->trials);
  by_followers_destroy(r->followers);
  by_trial_pair_fini(&r->pair);
  by_network_estimate_destroy(r->estimate);
  by_network_file_destroy(r->file);
  by_job_network_release(r->base);
  by_job_network_release(r->kept);
  free(r);
}

/* Posts the start; a busy loop may have no capacity for it for a while. */
static enum banyan_status post_begin(struct by_replanner *r) {
  enum { TRIES = 100, PAUSE_US = 10000 };
  for (int i = 1;; i++) {
    enum banyan_status status = by_loop_post(by_job_loop(r->job), begin, r);
    if (status == BANYAN_OK || i == TRIES) return status;
    usleep(PAUSE_US);
  }
}

/* Known before it begins, for communicators that another rank makes now. It ends with the context, whatever comes. */
static enum banyan_status publish_and_begin(struct by_replanner *r) {
  by_job_lock(r->job);
  by_adaptation_of(r->job)->replanner = r;
  by_plan_wanted_follow(r->job);
  by_job_unlock(r->job);
  return post_begin(r);
}

static bool is_all_of_the_job(const struct by_job *job, const struct by_plan_want *want) {
  uint32_t r = 0;
  while (r < want->n && want->processes[r] == r) r++;
  return r == by_job_size(job);
}

bool by_replan_want(struct by_job *job, const struct by_plan_want *want) {
  by_job_lock(job);
  struct by_replanner *r = by_adaptation_of(job)->replanner;
  by_job_unlock(job);
  if (!r) return false;
  if (!want->n) return by_followers_remove(r->followers, want->comm);
  if (!is_all_of_the_job(job, want)) return false;
  by_followers_add(r->followers, want->comm);
  return true;
}

enum banyan_status by_replan_begin(struct by_job *job, struct by_network_file *file) {
  struct by_job_network *network = by_job_network_hold(job);
  struct by_replanner *r = NULL;
  bool wanted = network && by_job_rank(job) == 0 && !by_job_is_managed(job) && !by_job_settings(job)->deterministic &&
                !by_adaptation_of(job)->replanner;
  enum banyan_status status = BANYAN_OK;
  if (wanted && !(r = calloc(1, sizeof *r))) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for replanning");
  if (r) {
    *r = (struct by_replanner){.job = job, .quiet = by_limit_first_quiet, .trial_since = -INFINITY, .file = file};
    file = NULL;
    by_timer_init(&r->tick, tick, r);
    status = watch_from(r, network);
    if (status == BANYAN_OK) network = NULL;
    if (status == BANYAN_OK)
      status = by_trial_calls_create(job, &(struct by_trial_observer){trial_over, r}, &r->trials);
    if (status == BANYAN_OK) status = by_followers_create(job, &r->followers);
    if (status == BANYAN_OK)
      status = publish_and_begin(r);
    else
      by_replan_destroy(r);
  }
  by_network_file_destroy(file);
  by_job_network_release(network);
  return status;
}
