/* Carries out a proposal: waits for helpers and cells, sends the plan, and ends it on refusal or timeout. */
#include "manager_plans.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"

static const double min_wait = 30, max_wait = 3600,
                    iterations_waited = 20; /* Seconds, and iterations, to wait for an answer. */
static const double join_wait = 15;         /* Seconds for helpers to join and for cells to become free. */
static const double strict_for = 60;        /* Seconds in which only free cells, or no switches, are planned. */
static const double settled = 2;            /* Intervals with a plan before it gets more cells. */
enum { MAX_TRIED = 3 }; /* Hosts whose servers did not join, after which other hosts are not tried for now. */
static const size_t overhead = 256; /* Bytes of a message besides its plan. */

/* ---- plans */

void by_manager_plan_free(struct by_manager_plan *plan) {
  if (!plan) return;
  by_plan_destroy(plan->plan);
  by_embedding_destroy(plan->embedding);
  free(plan->shares.items);
  free(plan->needs.all);
  free(plan->topology);
  free(plan);
}

void by_manager_plan_keep(const struct by_manager *m, const struct by_manager_job *job,
                          const struct by_manager_plan *plan, bool moved) {
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

void by_manager_plan_add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
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
    by_manager_plan_free(job->plans.current);
  job->plans.current = NULL;
}

/* ---- end of a proposal */

void by_proposal_set_state(struct by_manager_job *job, enum by_proposal_state state) {
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
  by_manager_plan_free(job->plans.proposed);
  job->plans.proposed = NULL;
  by_proposal_set_state(job, BY_PROPOSAL_NONE);
  by_use_set_stale(m);
  by_manager_plan_release_helpers(m, job);
}

void by_proposal_give_up(struct by_manager *m, struct by_manager_job *job, double wait, const char *why) {
  by_info("manager", "job %s (%s) keeps its plan: %s", job->id, job->name, why);
  by_manager_plan_add_event(m, job, job->plans.proposed, "kept: ", why);
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
    by_proposal_give_up(m, job, m->options.replan, "its plan has trees over more switches than a message may name");
  } else if (switches && cells) {
    double iterations = iterations_waited * job->iteration_time;
    by_proposal_set_state(job, BY_PROPOSAL_ASKED);
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
    by_proposal_give_up(m, job, m->options.replan, "its plan is longer than a message may be");
  else if (!text.failed)
    send_message(m, job, by_text_get(&text));
  by_text_fini(&text);
}

/* ---- conditions for sending */

void by_proposal_avoid_switches(const struct by_manager *m, struct by_manager_job *job) {
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
  if (lost->server && by_helpers_count_barred_servers(job) >= MAX_TRIED) by_proposal_avoid_switches(m, job);
  by_proposal_give_up(m, job, 0, why);
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
  by_proposal_give_up(m, job, 0,
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
  by_manager_plan_add_event(m, job, job->plans.proposed, "", "no answer within its deadline");
  by_job_set_trouble(job, "rank 0 has not answered to a plan");
  by_proposal_set_state(job, BY_PROPOSAL_LATE);
  by_use_set_stale(m);
  job->plans.not_before = job->plans.deadline = m->now + m->options.replan;
}

/* The connection on which it was sent has ended and no answer came, so rank 0 has none of its cells. */
static void end_lost(struct by_manager *m, struct by_manager_job *job) {
  by_warn("manager", "job %s (%s) has not got plan %llu", job->id, job->name,
          (unsigned long long)job->plans.proposed->number);
  by_manager_plan_add_event(m, job, job->plans.proposed, "", "lost on its way to rank 0");
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

void by_proposal_begin(struct by_manager *m, struct by_manager_job *job, struct by_manager_plan *plan) {
  by_proposal_drop(m, job); /* There may be a late proposal. */
  job->plans.proposed = plan;
  by_proposal_set_state(job, BY_PROPOSAL_JOINING);
  job->plans.deadline = m->now + join_wait;
  by_use_set_stale(m);
  m->counters.plans++;
  by_job_keep(m, job); /* Stores the number before the plan is sent. */
  by_manager_plan_keep(m, job, plan, false);
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
    by_manager_plan_free(plan);
    return;
  }
  plan->shares.n = old->shares.n;
  if (old->shares.n) memcpy(plan->shares.items, old->shares.items, old->shares.n * sizeof *plan->shares.items);
  plan->number = ++job->plans.numbers;
  by_proposal_begin(m, job, plan);
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
