/* Judges the plans of the planner, proposes them to jobs, handles the answers, and notices helpers and switches that
 * are lost. */
#include "manager_plans.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"

/* ---- proposals */

static const double min_wait = 30, max_wait = 3600,
                    iterations_waited = 20; /* Seconds, and iterations, to wait for an answer. */
static const double join_wait = 15;         /* Seconds for helpers to join and for cells to become free. */
static const double strict_for = 60;        /* Seconds in which only free cells, or no switches, are planned. */
static const double settled = 2;            /* Intervals with a plan before it gets more cells. */
enum { MAX_TRIED = 3 }; /* Hosts whose servers did not join, after which other hosts are not tried for now. */
static const size_t overhead = 256; /* Bytes of a message besides its plan. */

/* ---- plans */

static void free_plan(struct by_manager_plan *plan) {
  if (!plan) return;
  by_plan_destroy(plan->plan);
  by_embedding_destroy(plan->embedding);
  free(plan->shares.items);
  free(plan->needs.all);
  free(plan->topology);
  free(plan);
}

/* Stores its row. moved: the job runs it. */
static void keep_plan(const struct by_manager *m, const struct by_manager_job *job, const struct by_manager_plan *plan,
                      bool moved) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan->plan, &text);
  struct by_manager_row row = {
      .table = BY_ROW_PLAN, .job = job->id, .plan = {plan->number, by_text_get(&text), plan->rate, plan->made, moved}};
  if (!text.failed) by_manager_keep_row(m, &row);
  by_text_fini(&text);
}

void by_manager_plan_forget(const struct by_manager *m, const struct by_manager_job *job,
                            const struct by_manager_plan *plan) {
  by_manager_keep_row(
      m, &(struct by_manager_row){.table = BY_ROW_PLAN, .gone = true, .job = job->id, .plan.number = plan->number});
}

/* Adds an event to the job's history; `before` precedes the reason. */
static void add_plan_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                           const char *before, const char *why) {
  struct by_manager_event event = {.number = plan->number, .time = m->now, .before = plan->before, .after = plan->rate};
  snprintf(event.why, sizeof event.why, "%s%.200s", before, why);
  by_job_add_event(m, job, &event);
}

static const struct by_plan *plan_of(const struct by_manager_plan *plan) {
  return plan ? plan->plan : NULL;
}

void by_manager_plan_release_helpers(struct by_manager *m, struct by_manager_job *job) {
  by_helpers_release(m, job, plan_of(job->plans.current), plan_of(job->plans.proposed), false);
}

/* The planner may still be reading the plan. */
void by_manager_plan_retire(struct by_manager_job *job) {
  if (job->plans.current) job->plans.ran = job->plans.current->number;
  if (job->plans.running && !job->plans.retired)
    job->plans.retired = job->plans.current;
  else
    free_plan(job->plans.current);
  job->plans.current = NULL;
}

/* ---- end of a proposal */

static void set_proposal_state(struct by_manager_job *job, enum by_proposal_state state) {
  static const char *const names[] = {"none", "joining", "asked", "late"};
  static const unsigned next[] = {
      [BY_PROPOSAL_NONE] = 1 << BY_PROPOSAL_JOINING | 1 << BY_PROPOSAL_LATE,
      [BY_PROPOSAL_JOINING] = 1 << BY_PROPOSAL_ASKED | 1 << BY_PROPOSAL_NONE,
      [BY_PROPOSAL_ASKED] = 1 << BY_PROPOSAL_LATE | 1 << BY_PROPOSAL_NONE,
      [BY_PROPOSAL_LATE] = 1 << BY_PROPOSAL_NONE,
  };
  enum by_proposal_state before = job->plans.proposal;
  if (state == before) return;
  by_debug("manager", "proposal to job %s: %s -> %s", job->id, names[before], names[state]);
  assert(next[before] >> state & 1);
  job->plans.proposal = state;
}

/* Cells of a plan that was not sent become free; for a sent one rank 0 acquires them or answers that it does not. */
void by_proposal_drop(struct by_manager *m, struct by_manager_job *job) {
  if (!job->plans.proposed) return;
  if (job->plans.proposal == BY_PROPOSAL_JOINING) by_grants_return(m, job, job->plans.proposed->number, false);
  by_manager_plan_forget(m, job, job->plans.proposed);
  free_plan(job->plans.proposed);
  job->plans.proposed = NULL;
  set_proposal_state(job, BY_PROPOSAL_NONE);
  by_use_set_stale(m);
  by_manager_plan_release_helpers(m, job);
}

/* Ends the proposal without a switch; the job is planned again after `wait` seconds at the earliest. */
static void give_up_proposal(struct by_manager *m, struct by_manager_job *job, double wait, const char *why) {
  by_info("manager", "job %s (%s) keeps its plan: %s", job->id, job->name, why);
  add_plan_event(m, job, job->plans.proposed, "kept: ", why);
  by_job_set_trouble(job, "%s", why);
  m->counters.kept++;
  job->plans.not_before = m->now + wait;
  by_proposal_drop(m, job);
}

/* Lists how rank 0 reaches the switches of the plan's trees. The caller frees the list. NULL: no memory. */
static struct by_cluster_switch *list_switches(const struct by_manager *m, const struct by_plan *plan, uint32_t *n) {
  struct by_cluster_switch *out = calloc((size_t)plan->n_vertices + 1, sizeof *out);
  *n = 0;
  for (uint32_t v = plan->n_ranks; out && v < plan->n_vertices; v++) {
    uint32_t host =
        plan->vertices[v].kind == BY_VERTEX_SWITCH ? by_manager_hosts_find(m, plan->vertices[v].name) : BY_NOWHERE;
    const struct by_manager_aggregates *aggregates = host == BY_NOWHERE ? NULL : m->hosts->all[host].aggregates;
    if (aggregates)
      out[(*n)++] = (struct by_cluster_switch){plan->vertices[v].name, aggregates->address, aggregates->key};
  }
  return out;
}

/* The topology is optional, so it is omitted if it does not fit beside the plan. */
static const char *topology_beside(const struct by_manager_plan *plan, const char *text) {
  size_t capacity = BY_CLUSTER_LINE_DOWN - overhead, length = plan->topology ? strlen(plan->topology) : 0;
  return length + strlen(text) <= capacity ? plan->topology : NULL;
}

static void send_message(struct by_manager *m, struct by_manager_job *job, const char *plan) {
  struct by_cluster_message message = {.type = BY_MESSAGE_PLAN,
                                       .job = job->id,
                                       .number = job->plans.proposed->number,
                                       .plan = plan,
                                       .topology = topology_beside(job->plans.proposed, plan),
                                       .replace_plan = m->options.replaces};
  struct by_cluster_switch *switches = list_switches(m, job->plans.proposed->plan, &message.n_switches);
  struct by_cluster_cells *cells = by_grants_list(m, job, message.number, &message.n_cells);
  message.switches = switches;
  message.cells = cells;
  if (message.n_cells > BY_CLUSTER_CELLS || message.n_switches > BY_CLUSTER_CELLS) {
    give_up_proposal(m, job, m->options.replan, "its plan has trees over more switches than a message may name");
  } else if (switches && cells) {
    double iterations = iterations_waited * job->iteration_time;
    set_proposal_state(job, BY_PROPOSAL_ASKED);
    job->plans.asked_by = job->peer->number;
    job->plans.deadline = m->now + fmin(fmax(iterations, min_wait), max_wait);
    by_manager_send(m, job->peer, &message);
  }
  free(switches);
  free(cells);
}

static void send_plan(struct by_manager *m, struct by_manager_job *job) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(job->plans.proposed->plan, &text);
  if (text.length > BY_CLUSTER_LINE_DOWN - overhead)
    give_up_proposal(m, job, m->options.replan, "its plan is longer than a message may be");
  else if (!text.failed)
    send_message(m, job, by_text_get(&text));
  by_text_fini(&text);
}

/* ---- conditions for sending */

/* The next plans are made without switches. */
static void avoid_switches(const struct by_manager *m, struct by_manager_job *job) {
  job->plans.switchless_until = m->now + strict_for;
}

static void BY_PRINTF(4, 5)
    propose_fresh(struct by_manager *m, struct by_manager_job *job, enum by_grants_share share, const char *why, ...);

/* Tells whether all helpers and servers of the proposal have joined; ends the proposal if one does not join. */
static bool has_helpers(struct by_manager *m, struct by_manager_job *job) {
  const struct by_manager_helper *lost;
  char why[BY_MANAGER_WHY], name[96];
  if (by_helpers_have_joined(m, job, job->plans.proposed->plan, &lost)) return true;
  if (!lost) return false;
  snprintf(why, sizeof why, "%s has not come", by_helpers_name(m, lost, name));
  if (lost->server && by_helpers_count_barred_servers(job) >= MAX_TRIED) avoid_switches(m, job);
  give_up_proposal(m, job, 0, why);
  by_due_mark(job, BY_DUE_HELPER, "%s", why);
  return false;
}

/* Makes other jobs change one after the other: to their guarantees while this job waits. */
static void make_room(struct by_manager *m, const struct by_manager_job *job, bool must_wait) {
  enum by_grants_share share = must_wait ? BY_GRANTS_LEAST : BY_GRANTS_FAIR;
  struct by_manager_job *victim = by_grants_find_victim(m, job, &job->plans.proposed->needs, share);
  if (victim) propose_fresh(m, victim, share, "fewer cells, as job %.12s needs some", job->id);
}

/* Tells whether the proposal has all of its cells. Jobs with more than their guarantees change first; if they do not in
 * time, the job is planned again with free cells. */
static bool has_cells(struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_plan *plan = job->plans.proposed;
  enum by_grants_result result = by_grants_give(m, job, plan->number, &plan->needs, plan->share);
  bool must_wait = result == BY_GRANTS_WAIT && m->now < job->plans.deadline;
  if (plan->share == BY_GRANTS_AMPLE && result != BY_GRANTS_NONE) make_room(m, job, result == BY_GRANTS_WAIT);
  if (result == BY_GRANTS_GIVEN || must_wait) return !must_wait;
  double *until = m->now < job->plans.strict_until ? &job->plans.switchless_until : &job->plans.strict_until;
  *until = m->now + strict_for;
  give_up_proposal(m, job, 0,
                   result == BY_GRANTS_NONE ? "switches have no room for its trees" : "cells have not become free");
  if (job->plans.current)
    by_due_mark(job, BY_DUE_CHANGE, "its plan found no cells");
  else
    by_due_mark(job, BY_DUE_NEW, "its plan found no cells");
  return false;
}

/* ---- timeouts */

static void stop_waiting(struct by_manager *m, struct by_manager_job *job) {
  by_warn("manager", "job %s (%s) has not answered to plan %llu; it may still come", job->id, job->name,
          (unsigned long long)job->plans.proposed->number);
  add_plan_event(m, job, job->plans.proposed, "", "no answer within its deadline");
  by_job_set_trouble(job, "rank 0 has not answered to a plan");
  set_proposal_state(job, BY_PROPOSAL_LATE);
  by_use_set_stale(m);
  job->plans.not_before = job->plans.deadline = m->now + m->options.replan;
}

/* The connection on which it was sent has ended and no answer came, so rank 0 has none of its cells. */
static void end_lost(struct by_manager *m, struct by_manager_job *job) {
  by_warn("manager", "job %s (%s) has not got plan %llu", job->id, job->name,
          (unsigned long long)job->plans.proposed->number);
  add_plan_event(m, job, job->plans.proposed, "", "lost on its way to rank 0");
  by_grants_return(m, job, job->plans.proposed->number, false);
  by_proposal_drop(m, job);
}

void by_proposal_advance(struct by_manager *m, struct by_manager_job *job) {
  if (job->plans.proposal == BY_PROPOSAL_JOINING) {
    bool cells = has_cells(m, job);
    if (job->plans.proposed && has_helpers(m, job) && cells && job->peer) send_plan(m, job);
    return;
  }
  bool passed = m->now >= job->plans.deadline;
  if (job->plans.proposal == BY_PROPOSAL_ASKED && passed)
    stop_waiting(m, job);
  else if (job->plans.proposal == BY_PROPOSAL_LATE && passed && job->peer && job->peer->number != job->plans.asked_by)
    end_lost(m, job);
}

/* ---- new proposals */

/* Begins a proposal, and takes ownership of the plan. */
static void begin_proposal(struct by_manager *m, struct by_manager_job *job, struct by_manager_plan *plan) {
  by_proposal_drop(m, job); /* There may be a late proposal. */
  job->plans.proposed = plan;
  set_proposal_state(job, BY_PROPOSAL_JOINING);
  job->plans.deadline = m->now + join_wait;
  by_use_set_stale(m);
  m->counters.plans++;
  by_job_keep(m, job); /* Stores the number before the plan is sent. */
  keep_plan(m, job, plan, false);
  if (by_helpers_ask(m, job, plan->plan))
    by_proposal_advance(m, job);
  else
    by_proposal_drop(m, job);
}

/* Proposes the job's current plan with other cells. */
static void propose_fresh(struct by_manager *m, struct by_manager_job *job, enum by_grants_share share, const char *why,
                          ...) {
  const struct by_manager_plan *old = job->plans.current;
  struct by_manager_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return;
  *plan = (struct by_manager_plan){
      .share = share, .rate = old->rate, .made = m->now, .carries = old->carries, .before = old->rate};
  va_list values;
  va_start(values, why);
  vsnprintf(plan->why, sizeof plan->why, why, values);
  va_end(values);
  enum banyan_status status = by_plan_copy(old->plan, &plan->plan);
  if (status == BANYAN_OK) status = by_plan_needs_find(plan->plan, m->topology, &plan->needs);
  plan->shares.items = status == BANYAN_OK ? calloc((size_t)old->shares.n + 1, sizeof *plan->shares.items) : NULL;
  if (!plan->shares.items) {
    free_plan(plan);
    return;
  }
  plan->shares.n = old->shares.n;
  if (old->shares.n) memcpy(plan->shares.items, old->shares.items, old->shares.n * sizeof *plan->shares.items);
  plan->number = ++job->plans.numbers;
  begin_proposal(m, job, plan);
}

static bool waits_for_cells(const struct by_manager_job *job) {
  return !by_job_has_left(job) && job->plans.proposal == BY_PROPOSAL_JOINING && job->plans.proposed->needs.n &&
         !by_grants_has(job, job->plans.proposed->number);
}

void by_proposal_grow(struct by_manager *m, struct by_manager_job *job) {
  const struct by_manager_plan *plan = job->plans.current;
  if (!plan || !job->peer || job->plans.running || by_job_is_moving(job) || m->now < job->plans.not_before) return;
  if (m->now - plan->made < settled * m->options.interval) return;
  bool grows = by_grants_may_grow(m, job, plan->number, &plan->needs);
  struct by_manager_job *rich = grows ? NULL : by_grants_find_rich(m, job, &plan->needs);
  if (!grows && !rich) return;
  for (const struct by_manager_job *other = m->jobs; other; other = other->next)
    if (waits_for_cells(other)) return;
  if (grows)
    propose_fresh(m, job, BY_GRANTS_FAIR, "more cells, which nobody else uses");
  else
    propose_fresh(m, rich, BY_GRANTS_FAIR, "fewer cells, as job %.12s has less than half as many", job->id);
}

static const double grace = 0.5;      /* Seconds in which a switch's agent may reconnect. */
static const double restart_wait = 6; /* Seconds in which agents find a restarted manager. */
static const double silence = 10;     /* Seconds, and intervals twice, after which a connected agent counts as gone. */
static const double busy_factor = 4;  /* Factor for the required gain while others are sending. */
enum { ENOUGH = 3 };                  /* Consecutive plannings that must find the gain then. */
static const uint64_t max_skip = 1 << 20; /* A number of a plan that is higher by so much is not plausible. */

void by_plans_keep(const struct by_manager *m, const struct by_manager_job *job) {
  if (job->plans.current) keep_plan(m, job, job->plans.current, true);
  if (job->plans.proposed) keep_plan(m, job, job->plans.proposed, false);
  by_helpers_keep(m, job);
  by_grants_keep(m, job);
}

/* ---- the job leaves */

void by_plans_end(struct by_manager *m, struct by_manager_job *job) {
  by_helpers_release(m, job, NULL, NULL, true);
  by_grants_end(m, job);
  if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
  if (job->plans.proposed) by_manager_plan_forget(m, job, job->plans.proposed);
}

/* ---- results of the planner */

static struct by_manager_plan *create_plan(const struct by_manager *m, struct by_manager_job *job,
                                           struct by_plan_request *request) {
  struct by_manager_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return NULL;
  *plan = (struct by_manager_plan){.number = ++job->plans.numbers,
                                   .plan = request->plan,
                                   .embedding = request->embedding,
                                   .shares = request->shares,
                                   .needs = request->needs,
                                   .topology = request->topology,
                                   .rate = request->rate,
                                   .carries = request->carries,
                                   .before = job->plans.current ? request->rate_before : 0,
                                   .made = m->now};
  memcpy(plan->why, job->notes.reason, sizeof plan->why);
  request->plan = NULL;
  request->embedding = NULL;
  request->shares = (struct by_link_shares){0};
  request->needs = (struct by_plan_needs){0};
  request->topology = NULL;
  return plan;
}

/* Sets the assumed load of a job and takes ownership of the shares. */
void by_user_plan_take(struct by_manager_job *job, struct by_link_shares shares) {
  free(job->plans.assumed.items);
  job->plans.assumed = shares;
}

/* Ends a planning and stores what the request found about the current plan. Returns false if the job has switched
 * meanwhile, so that the request is about an old plan. */
static bool end_planning(struct by_manager *m, struct by_manager_job *job, struct by_plan_request *request) {
  job->plans.running = false;
  job->plans.candidates = NULL;
  job->plans.n_candidates = 0;
  job->plans.planned = m->now;
  job->plans.planned_at = job->iterations;
  if (job->plans.retired) {
    free_plan(job->plans.retired);
    job->plans.retired = NULL;
    return false;
  }
  if (request->status == BANYAN_OK) job->plans.rate_then = request->rate_now;
  if (job->plans.current) {
    job->plans.current->embedding = request->old;
    request->old = NULL;
  } else if (request->before.items) {
    by_user_plan_take(job, request->before);
    request->before = (struct by_link_shares){0};
    by_use_set_stale(m);
  }
  return !by_job_has_left(job) && !job->plans.own;
}

/* Tells whether a job's plan names a helper, server or switch that is gone, or has lost its cells. Ranks then do the
 * work of such trees themselves, or fragments pass the switch unmerged, so its rate does not matter. */
static bool is_incomplete(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t node;
  return by_helpers_are_missing(m, job, job->plans.current->plan) ||
         by_grants_miss_switch(m, job->plans.current->plan, &node) || by_grants_are_lost(m, job->plans.current, &node);
}

/* Recent rates may not last. So a gain while others are sending must be large, and be found several times in a row. */
static bool is_worth_it(const struct by_manager *m, struct by_manager_job *job, const struct by_plan_request *request) {
  double gain = request->is_shared ? busy_factor * m->options.gain : m->options.gain;
  if (!job->plans.current || is_incomplete(m, job)) return true;
  job->plans.gains = request->gain > 1 + gain ? job->plans.gains + 1 : 0;
  if (job->plans.gains && request->is_shared && job->plans.gains < ENOUGH) {
    char why[BY_MANAGER_WHY];
    memcpy(why, job->notes.reason, sizeof why);
    by_due_mark(job, BY_DUE_CHANGE, "%s", why);
    return false;
  }
  return job->plans.gains > 0;
}

void by_manager_planned(struct by_manager *m, struct by_plan_request *request, double now) {
  struct by_manager_job *job = request->job;
  m->now = now;
  m->counters.planned++;
  bool counts = end_planning(m, job, request);
  if (counts && request->status != BANYAN_OK) {
    by_warn("manager", "no plan for job %s (%s): %s", job->id, job->name, request->why);
    by_job_set_trouble(job, "%s", request->why);
    job->plans.not_before = m->now + m->options.replan;
  } else if (counts) {
    by_job_set_trouble(job, "%s", "");
    struct by_manager_plan *plan = is_worth_it(m, job, request) ? create_plan(m, job, request) : NULL;
    if (plan) begin_proposal(m, job, plan);
  }
  by_plan_request_destroy(request);
}

/* ---- answers */

/* Grows with each refusal, so that a job that sends nonsense or refuses plans does not use much planning time. */
static double backoff(const struct by_manager *m, uint32_t times) {
  return fmin(m->options.interval * (double)(1u << (times < 10 ? times : 10)), m->options.replan);
}

void by_plans_switched(struct by_manager *m, struct by_manager_job *job, uint64_t number) {
  if (job->plans.own || (job->plans.current && job->plans.current->number == number && number)) return;
  if (!job->plans.proposed || job->plans.proposed->number != number) {
    by_warn("manager", "job %s (%s) runs plan %llu, which is not known any more: it is planned again", job->id,
            job->name, (unsigned long long)number);
    if (number > job->plans.numbers && number - job->plans.numbers < max_skip) job->plans.numbers = number;
    if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
    by_manager_plan_retire(job);
    job->plans.ran = number;
    by_use_set_stale(m);
    /* The first unknown plan is planned again at once, as when a manager has lost its rows. */
    bool waits = m->now < job->plans.not_before;
    if (!waits && job->plans.unknown++) job->plans.not_before = m->now + backoff(m, job->plans.unknown - 2);
    by_due_mark(job, BY_DUE_NEW, "it runs a plan that is not known");
    return;
  }
  add_plan_event(m, job, job->plans.proposed, "", job->plans.proposed->why);
  if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
  by_manager_plan_retire(job);
  /* Rank 0 receives plans in their order, so those in between were lost and it has none of their cells. */
  by_grants_return_between(m, job, job->plans.ran, number);
  job->plans.current = job->plans.proposed;
  job->plans.proposed = NULL;
  job->plans.gains = 0;
  set_proposal_state(job, BY_PROPOSAL_NONE);
  job->plans.rate_then = job->plans.current->carries;
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  job->plans.refusals = 0;
  m->counters.plan_switches++;
  keep_plan(m, job, job->plans.current, true);
  by_manager_plan_release_helpers(m, job);
}

/* Other jobs may wait for the cells; servers that its calls still used can be released. */
void by_plans_released(struct by_manager *m, struct by_manager_job *job, uint64_t number) {
  by_grants_return(m, job, number, true);
  by_manager_plan_release_helpers(m, job);
  for (struct by_manager_job *other = m->jobs; other; other = other->next)
    if (!by_job_has_left(other) && other->plans.proposal == BY_PROPOSAL_JOINING) by_proposal_advance(m, other);
}

void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why) {
  by_grants_return(m, job, number, false); /* The job has acquired none of the plan's cells. */
  if (!job->plans.proposed || job->plans.proposed->number != number) return;
  if (job->plans.proposed->needs.n && job->plans.refusals) avoid_switches(m, job);
  give_up_proposal(m, job, backoff(m, job->plans.refusals++), why);
}

void by_plans_helping(struct by_manager *m, struct by_manager_job *job, uint32_t host, bool server,
                      const struct by_manager_peer *by, const char *why) {
  struct by_manager_helper *helper = by_helpers_find(job, host, server);
  char name[96];
  if (!helper) {
    if (by) by_helpers_send_release(m, job, host, server);
    return;
  }
  by_helpers_set_joined(m, job, helper, by);
  if (!by) {
    by_helpers_name(m, helper, name);
    by_info("manager", "%s for job %s (%s) is gone: %s", name, job->id, job->name, why ? why : "");
    if (job->plans.current && by_helpers_are_used(m, job->plans.current->plan, helper))
      by_due_mark(job, BY_DUE_HELPER, "%s is gone", name);
  }
  by_proposal_advance(m, job);
}

/* An agent repeats on each connection, before its first report, which helpers have joined; others have ended. */
void by_plans_end_unreported(struct by_manager *m, const struct by_manager_peer *agent) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    for (int server = 0; server < 2; server++) {
      const struct by_manager_helper *helper = by_job_has_left(job) ? NULL : by_helpers_find(job, agent->index, server);
      if (helper && helper->state == BY_HELPER_JOINED && helper->by != agent->number)
        by_plans_helping(m, job, agent->index, server, NULL, "its agent does not know it");
    }
}

/* The connection of an agent whose host has lost power does not end by itself. */
void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper helper = job->plans.helpers[i];
    const struct by_manager_host *host = &m->hosts->all[helper.host];
    double last = host->agent ? host->agent->last_message : host->parted;
    if (helper.state == BY_HELPER_JOINED && m->now - last > fmax(silence, 2 * m->options.interval))
      by_plans_helping(m, job, helper.host, helper.server, NULL, "nothing is received from its host any more");
  }
}

/* A plan without a lost switch is made once its agent has had time to reconnect, and one with new cells at a switch
 * that has restarted. */
void by_plans_check_switches(const struct by_manager *m, struct by_manager_job *job) {
  uint32_t node;
  if (!job->plans.current || job->plans.running || by_job_is_moving(job) || m->now - m->began < restart_wait) return;
  if (by_grants_are_lost(m, job->plans.current, &node))
    by_due_mark(job, BY_DUE_HELPER, "switch \"%.64s\" has begun again, without its cells", m->hosts->all[node].name);
  if (!by_grants_miss_switch(m, job->plans.current->plan, &node)) return;
  if (!m->hosts->all[node].agent && m->now - m->hosts->all[node].parted < grace) return;
  by_due_mark(job, BY_DUE_HELPER, "switch \"%.64s\" is gone", m->hosts->all[node].name);
}

/* ---- planning begins */

void by_plans_note_rate(struct by_manager_job *job, double rate) {
  job->plans.rate_then = rate;
}

void by_plans_begin(struct by_manager_job *job, struct by_plan_request *request) {
  job->plans.running = true;
  job->plans.candidates = request->helpers;
  job->plans.n_candidates = request->n_helpers;
  request->job = job;
  if (!job->plans.current) return;
  request->current = job->plans.current->plan;
  request->old = job->plans.current->embedding;
  job->plans.current->embedding = NULL;
}

/* ---- restart of the manager */

enum banyan_status by_plans_restore(struct by_manager *m, struct by_manager_job *job,
                                    const struct by_manager_row *row) {
  struct by_manager_plan *plan = calloc(1, sizeof *plan),
                         **to = row->plan.moved ? &job->plans.current : &job->plans.proposed;
  if (!plan) return by_manager_no_memory();
  *plan = (struct by_manager_plan){.number = row->plan.number, .rate = row->plan.throughput, .made = row->plan.made};
  snprintf(plan->why, sizeof plan->why, "asked for before the manager began again");
  enum banyan_status status = by_plan_parse("plan", row->plan.plan, strlen(row->plan.plan), &plan->plan);
  if (status == BANYAN_OK) status = by_link_shares_find(plan->plan, m->topology, &plan->shares, NULL);
  if (status == BANYAN_OK) status = by_plan_needs_find(plan->plan, m->topology, &plan->needs);
  if (status != BANYAN_OK) {
    free_plan(plan);
    return status;
  }
  free_plan(*to);
  *to = plan;
  job->plans.rate_then = 0; /* The rate beside others is not stored. */
  job->plans.planned = m->now;
  by_due_clear(job);
  if (!job->plans.current) by_due_mark(job, BY_DUE_NEW, "the job is new");
  /* Nobody knows whether the job was asked and has switched; its agent reports that when it reconnects. */
  if (job->plans.proposed) {
    set_proposal_state(job, BY_PROPOSAL_LATE);
    job->plans.deadline = m->now + m->options.replan;
  }
  job->plans.not_before = m->now + m->options.interval;
  by_use_set_stale(m);
  return BANYAN_OK;
}

void by_plans_restore_job(struct by_manager_job *job, uint64_t numbers, const char *own_plan) {
  job->plans.numbers = numbers;
  job->plans.own = own_plan ? strdup(own_plan) : NULL;
  if (job->plans.own) by_due_clear(job);
}

/* ---- end */

void by_plans_free(struct by_manager_job *job) {
  free_plan(job->plans.current);
  free_plan(job->plans.proposed);
  free_plan(job->plans.retired);
  free(job->plans.helpers);
  free(job->plans.assumed.items);
  free(job->plans.own);
  free(job->plans.own_trees);
}
