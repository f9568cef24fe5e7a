#include "manager_plans.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"
#include "manager_grants.h"
#include "manager_helpers.h"
#include "manager_hosts.h"
#include "manager_links.h"

static const double least_wait = 30, most_wait = 3600, iterations_waited = 20; /* s, and iterations, for an answer */
static const double join_wait = 15;         /* s for helpers, and for cells to become free */
static const double strict_for = 60;        /* s in which no cells are counted on that others are to give back */
static const double grace = 0.5;            /* s in which a switch's agent may connect again */
static const double settled = 2;            /* intervals with a plan, before it gets other cells that are free */
static const double begun_wait = 6;         /* s in which agents find a manager that was started again */
static const double silence = 10;           /* s, and intervals twice, of an agent that is there */
static const double swaying = 4;            /* times the gain, beside others */
enum { ENOUGH = 3 };                        /* times in a row that they must find it */
enum { TRIED = 3 };                         /* hosts whose servers do not come: neither will those of others, for now */
static const size_t beside_plan = 256;      /* bytes of a message that brings one */
static const uint64_t much_later = 1 << 20; /* plans: no job has had so many meanwhile */

static void free_plan(struct by_manager_plan *plan) {
  if (!plan) return;
  by_plan_destroy(plan->plan);
  by_embedding_destroy(plan->embedding);
  free(plan->shares.items);
  free(plan->needs.all);
  free(plan);
}

static void set_proposal(struct by_manager_job *job, enum by_proposal_state state) {
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

/* ---- kept rows */

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

static void forget_row(const struct by_manager *m, const struct by_manager_job *job,
                       const struct by_manager_plan *plan) {
  by_manager_keep_row(
      m, &(struct by_manager_row){.table = BY_ROW_PLAN, .gone = true, .job = job->id, .plan.number = plan->number});
}

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
  if (job->plans.current) forget_row(m, job, job->plans.current);
  if (job->plans.proposed) forget_row(m, job, job->plans.proposed);
}

static const struct by_plan *plan_of(const struct by_manager_plan *plan) {
  return plan ? plan->plan : NULL;
}

static void release_helpers(struct by_manager *m, struct by_manager_job *job) {
  by_helpers_release(m, job, plan_of(job->plans.current), plan_of(job->plans.proposed), false);
}

/* ---- what becomes of a proposal */

static void add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                      const char *before, const char *why) {
  struct by_manager_event event = {.number = plan->number, .time = m->now, .before = plan->before, .after = plan->rate};
  snprintf(event.why, sizeof event.why, "%s%.200s", before, why);
  by_job_add_event(m, job, &event);
}

/* Cells of a plan that rank 0 has not been sent are free; of another one it acquires them, or answers that it does
 * not. */
static void drop(struct by_manager *m, struct by_manager_job *job) {
  if (!job->plans.proposed) return;
  if (job->plans.proposal == BY_PROPOSAL_JOINING) by_grants_return(m, job, job->plans.proposed->number, false);
  forget_row(m, job, job->plans.proposed);
  free_plan(job->plans.proposed);
  job->plans.proposed = NULL;
  set_proposal(job, BY_PROPOSAL_NONE);
  by_use_set_stale(m);
  release_helpers(m, job);
}

/* Not taken: it is tried again when it is due, but not at once. */
static void give_up(struct by_manager *m, struct by_manager_job *job, double wait, const char *why) {
  by_info("manager", "job %s (%s) keeps its plan: %s", job->id, job->name, why);
  add_event(m, job, job->plans.proposed, "kept: ", why);
  by_job_set_trouble(job, "%s", why);
  m->counters.kept++;
  job->plans.not_before = m->now + wait;
  drop(m, job);
}

/* How rank 0 reaches the switches of the plan's trees. The caller frees it. NULL: no memory. */
static struct by_cluster_switch *list_switches(const struct by_manager *m, const struct by_plan *plan, uint32_t *n) {
  struct by_cluster_switch *out = calloc((size_t)plan->n_vertices + 1, sizeof *out);
  *n = 0;
  for (uint32_t v = plan->n_ranks; out && v < plan->n_vertices; v++) {
    uint32_t host =
        plan->vertices[v].kind == BY_VERTEX_SWITCH ? by_manager_hosts_find(m, plan->vertices[v].name) : BY_NOWHERE;
    const struct by_manager_adds *adds = host == BY_NOWHERE ? NULL : m->hosts->all[host].adds;
    if (adds) out[(*n)++] = (struct by_cluster_switch){plan->vertices[v].name, adds->address, adds->key};
  }
  return out;
}

static void send_message(struct by_manager *m, struct by_manager_job *job, const char *plan) {
  struct by_cluster_message message = {.type = BY_MESSAGE_PLAN,
                                       .job = job->id,
                                       .number = job->plans.proposed->number,
                                       .plan = plan,
                                       .replace_plan = m->options.replaces};
  struct by_cluster_switch *switches = list_switches(m, job->plans.proposed->plan, &message.n_switches);
  struct by_cluster_cells *cells = by_grants_list(m, job, message.number, &message.n_cells);
  message.switches = switches;
  message.cells = cells;
  if (message.n_cells > BY_CLUSTER_CELLS || message.n_switches > BY_CLUSTER_CELLS) {
    give_up(m, job, m->options.replan, "its plan has trees over more switches than a message may name");
  } else if (switches && cells) {
    double iterations = iterations_waited * job->iteration_time;
    set_proposal(job, BY_PROPOSAL_ASKED);
    job->plans.asked_by = job->peer->number;
    job->plans.deadline = m->now + fmin(fmax(iterations, least_wait), most_wait);
    by_manager_send(m, job->peer, &message);
  }
  free(switches);
  free(cells);
}

static void send_plan(struct by_manager *m, struct by_manager_job *job) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(job->plans.proposed->plan, &text);
  if (text.length > BY_CLUSTER_LINE_DOWN - beside_plan)
    give_up(m, job, m->options.replan, "its plan is longer than a message may be");
  else if (!text.failed)
    send_message(m, job, by_text_get(&text));
  by_text_fini(&text);
}

/* ---- what it needs before it is sent */

static void BY_PRINTF(4, 5)
    propose_fresh(struct by_manager *m, struct by_manager_job *job, enum by_grants_share share, const char *why, ...);

/* Whether all helpers and servers of the proposal are there; one that does not come ends it. */
static bool has_helpers(struct by_manager *m, struct by_manager_job *job) {
  const struct by_manager_helper *lost;
  char why[BY_MANAGER_WHY], name[96];
  if (by_helpers_have_joined(m, job, job->plans.proposed->plan, &lost)) return true;
  if (!lost) return false;
  snprintf(why, sizeof why, "%s has not come", by_helpers_name(m, lost, name));
  if (lost->server && by_helpers_count_barred_servers(job) >= TRIED) job->plans.switchless_until = m->now + strict_for;
  give_up(m, job, 0, why);
  by_due_mark(job, BY_DUE_HELPER, "%s", why);
  return false;
}

/* Others change one after the other: to their guarantees while the job waits. */
static void make_room(struct by_manager *m, const struct by_manager_job *job, bool waits) {
  enum by_grants_share share = waits ? BY_GRANTS_LEAST : BY_GRANTS_FAIR;
  struct by_manager_job *victim = by_grants_find_victim(m, job, &job->plans.proposed->needs, share);
  if (victim) propose_fresh(m, victim, share, "fewer cells, as job %.12s needs some", job->id);
}

/* Whether the proposal has its cells, all of them. Where others have more than they are guaranteed, they change first;
 * where they do not in time, it is planned again with what is free. */
static bool has_cells(struct by_manager *m, struct by_manager_job *job) {
  struct by_manager_plan *plan = job->plans.proposed;
  enum by_grants_result result = by_grants_give(m, job, plan->number, &plan->needs, plan->share);
  bool waits = result == BY_GRANTS_WAIT && m->now < job->plans.deadline;
  if (plan->share == BY_GRANTS_AMPLE && result != BY_GRANTS_NONE) make_room(m, job, result == BY_GRANTS_WAIT);
  if (result == BY_GRANTS_GIVEN || waits) return !waits;
  double *until = m->now < job->plans.strict_until ? &job->plans.switchless_until : &job->plans.strict_until;
  *until = m->now + strict_for;
  give_up(m, job, 0, result == BY_GRANTS_NONE ? "switches have no room for its trees" : "cells have not become free");
  if (job->plans.current)
    by_due_mark(job, BY_DUE_CHANGE, "its plan found no cells");
  else
    by_due_mark(job, BY_DUE_NEW, "its plan found no cells");
  return false;
}

static void stop_waiting(struct by_manager *m, struct by_manager_job *job) {
  by_warn("manager", "job %s (%s) has not answered to plan %llu; it may still come", job->id, job->name,
          (unsigned long long)job->plans.proposed->number);
  add_event(m, job, job->plans.proposed, "", "no answer within its deadline");
  by_job_set_trouble(job, "rank 0 has not answered to a plan");
  set_proposal(job, BY_PROPOSAL_LATE);
  by_use_set_stale(m);
  job->plans.not_before = job->plans.deadline = m->now + m->options.replan;
}

/* No answer has come for long since the connection on which it was sent has ended: rank 0 has none of its cells. */
static void lose_late(struct by_manager *m, struct by_manager_job *job) {
  by_warn("manager", "job %s (%s) has not got plan %llu", job->id, job->name,
          (unsigned long long)job->plans.proposed->number);
  add_event(m, job, job->plans.proposed, "", "lost on its way to rank 0");
  by_grants_return(m, job, job->plans.proposed->number, false);
  drop(m, job);
}

void by_plans_advance(struct by_manager *m, struct by_manager_job *job) {
  if (job->plans.proposal == BY_PROPOSAL_JOINING) {
    bool cells = has_cells(m, job);
    if (job->plans.proposed && has_helpers(m, job) && cells && job->peer) send_plan(m, job);
    return;
  }
  bool passed = m->now >= job->plans.deadline;
  if (job->plans.proposal == BY_PROPOSAL_ASKED && passed)
    stop_waiting(m, job);
  else if (job->plans.proposal == BY_PROPOSAL_LATE && passed && job->peer && job->peer->number != job->plans.asked_by)
    lose_late(m, job);
}

/* ---- judging */

static struct by_manager_plan *take_plan(const struct by_manager *m, struct by_manager_job *job,
                                         struct by_plan_request *request) {
  struct by_manager_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return NULL;
  *plan = (struct by_manager_plan){.number = ++job->plans.numbers,
                                   .plan = request->plan,
                                   .embedding = request->embedding,
                                   .shares = request->shares,
                                   .needs = request->needs,
                                   .rate = request->rate,
                                   .carries = request->carries,
                                   .before = job->plans.current ? request->rate_before : 0,
                                   .made = m->now};
  memcpy(plan->why, job->notes.reason, sizeof plan->why);
  request->plan = NULL;
  request->embedding = NULL;
  request->shares = (struct by_link_shares){0};
  request->needs = (struct by_plan_needs){0};
  return plan;
}

/* Takes over the plan. */
static void propose(struct by_manager *m, struct by_manager_job *job, struct by_manager_plan *plan) {
  drop(m, job); /* a late one */
  job->plans.proposed = plan;
  set_proposal(job, BY_PROPOSAL_JOINING);
  job->plans.deadline = m->now + join_wait;
  by_use_set_stale(m);
  m->counters.plans++;
  by_job_keep(m, job); /* the number, before it is sent */
  keep_plan(m, job, plan, false);
  if (by_helpers_ask(m, job, plan->plan))
    by_plans_advance(m, job);
  else
    drop(m, job);
}

/* The plan that it has, with other cells. */
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
  propose(m, job, plan);
}

static bool waits_for_cells(const struct by_manager_job *job) {
  return !by_job_has_left(job) && job->plans.proposal == BY_PROPOSAL_JOINING && job->plans.proposed->needs.n &&
         !by_grants_has(job, job->plans.proposed->number);
}

void by_plans_grow(struct by_manager *m, struct by_manager_job *job) {
  const struct by_manager_plan *plan = job->plans.current;
  if (!plan || !job->peer || job->plans.running || by_job_is_moving(job) || m->now < job->plans.not_before) return;
  if (m->now - plan->made < settled * m->options.interval) return;
  if (!by_grants_may_grow(m, job, plan->number, &plan->needs)) return;
  for (const struct by_manager_job *other = m->jobs; other; other = other->next)
    if (waits_for_cells(other)) return;
  propose_fresh(m, job, BY_GRANTS_FAIR, "more cells, which nobody else uses");
}

/* The planner may still be reading it. */
static void retire(struct by_manager_job *job) {
  if (job->plans.current) job->plans.ran = job->plans.current->number;
  if (job->plans.running && !job->plans.retired)
    job->plans.retired = job->plans.current;
  else
    free_plan(job->plans.current);
  job->plans.current = NULL;
}

static void assume(struct by_manager_job *job, struct by_link_shares shares) {
  free(job->plans.assumed.items);
  job->plans.assumed = shares;
}

/* What the job has now is known from the request. False: it has moved meanwhile, and the request is about what it had.
 */
static bool take_back(struct by_manager *m, struct by_manager_job *job, struct by_plan_request *request) {
  job->plans.running = false;
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
    assume(job, request->before);
    request->before = (struct by_link_shares){0};
    by_use_set_stale(m);
  }
  return !by_job_has_left(job) && !job->plans.own;
}

/* Its plan names a helper, server or switch that is not there, or has lost its cells: ranks repeat such trees among
 * themselves, or send past the switch, whatever the network carries. */
static bool misses_any(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t node;
  return by_helpers_are_missing(m, job, job->plans.current->plan) ||
         by_grants_miss_switch(m, job->plans.current->plan, &node) || by_grants_are_lost(m, job->plans.current, &node);
}

/* Rates of late are not those to come: so a gain beside others must be large, and be found again and again. */
static bool is_worth_it(const struct by_manager *m, struct by_manager_job *job, const struct by_plan_request *request) {
  double gain = request->sways ? swaying * m->options.gain : m->options.gain;
  if (!job->plans.current || misses_any(m, job)) return true;
  job->plans.gains = request->gain > 1 + gain ? job->plans.gains + 1 : 0;
  if (job->plans.gains && request->sways && job->plans.gains < ENOUGH) {
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
  bool counts = take_back(m, job, request);
  if (counts && request->status != BANYAN_OK) {
    by_warn("manager", "no plan for job %s (%s): %s", job->id, job->name, request->why);
    by_job_set_trouble(job, "%s", request->why);
    job->plans.not_before = m->now + m->options.replan;
  } else if (counts) {
    by_job_set_trouble(job, "%s", "");
    struct by_manager_plan *plan = is_worth_it(m, job, request) ? take_plan(m, job, request) : NULL;
    if (plan) propose(m, job, plan);
  }
  by_plan_request_destroy(request);
}

/* ---- answers */

/* So that a job that sends nonsense, or takes no plan, costs others no planning. */
static double longer_each_time(const struct by_manager *m, uint32_t times) {
  return fmin(m->options.interval * (double)(1u << (times < 10 ? times : 10)), m->options.replan);
}

void by_plans_switched(struct by_manager *m, struct by_manager_job *job, uint64_t number) {
  if (job->plans.own || (job->plans.current && job->plans.current->number == number && number)) return;
  if (!job->plans.proposed || job->plans.proposed->number != number) {
    by_warn("manager", "job %s (%s) runs plan %llu, which is not known any more: it is planned again", job->id,
            job->name, (unsigned long long)number);
    if (number > job->plans.numbers && number - job->plans.numbers < much_later) job->plans.numbers = number;
    if (job->plans.current) forget_row(m, job, job->plans.current);
    retire(job);
    job->plans.ran = number;
    by_use_set_stale(m);
    /* Once it may be, as after a manager has lost what it kept. */
    bool waits = m->now < job->plans.not_before;
    if (!waits && job->plans.unknown++) job->plans.not_before = m->now + longer_each_time(m, job->plans.unknown - 2);
    by_due_mark(job, BY_DUE_NEW, "it runs a plan that is not known");
    return;
  }
  add_event(m, job, job->plans.proposed, "", job->plans.proposed->why);
  if (job->plans.current) forget_row(m, job, job->plans.current);
  retire(job);
  /* Rank 0 takes plans in their order, so those between have been lost on their way: it has none of their cells. */
  by_grants_return_between(m, job, job->plans.ran, number);
  job->plans.current = job->plans.proposed;
  job->plans.proposed = NULL;
  job->plans.gains = 0;
  set_proposal(job, BY_PROPOSAL_NONE);
  job->plans.rate_then = job->plans.current->carries;
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  job->plans.refusals = 0;
  m->counters.plan_switches++;
  keep_plan(m, job, job->plans.current, true);
  release_helpers(m, job);
}

/* Others may wait for what it had; servers that its calls still used may rest. */
void by_plans_released(struct by_manager *m, struct by_manager_job *job, uint64_t number) {
  by_grants_return(m, job, number, true);
  release_helpers(m, job);
  for (struct by_manager_job *other = m->jobs; other; other = other->next)
    if (!by_job_has_left(other) && other->plans.proposal == BY_PROPOSAL_JOINING) by_plans_advance(m, other);
}

void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why) {
  by_grants_return(m, job, number, false); /* it has acquired none of its cells */
  if (!job->plans.proposed || job->plans.proposed->number != number) return;
  if (job->plans.proposed->needs.n && job->plans.refusals) job->plans.switchless_until = m->now + strict_for;
  give_up(m, job, longer_each_time(m, job->plans.refusals++), why);
}

/* What it puts on links is found out once it is known that the job is where it says. */
static bool keep_trees(struct by_manager_job *job, const char *trees) {
  bool same = trees ? job->plans.own_trees && !strcmp(job->plans.own_trees, trees) : !job->plans.own_trees;
  if (same) return false;
  free(job->plans.own_trees);
  job->plans.own_trees = trees ? strdup(trees) : NULL;
  assume(job, (struct by_link_shares){0});
  return true;
}

void by_plans_set_own(struct by_manager *m, struct by_manager_job *job, const char *own_plan, const char *trees) {
  if (keep_trees(job, own_plan ? trees : NULL)) by_use_set_stale(m);
  if (own_plan ? job->plans.own && !strcmp(job->plans.own, own_plan) : !job->plans.own) return;
  char *copy = own_plan ? strdup(own_plan) : NULL;
  if (own_plan && !copy) return; /* rank 0 uses no plan of the manager's anyway */
  struct by_manager_event event = {.number = job->plans.numbers, .time = m->now};
  if (own_plan) {
    char name[65];
    by_keep_printable(own_plan, name, sizeof name);
    snprintf(event.why, sizeof event.why, "its user set plan \"%s\", which stays in use", name);
  } else {
    snprintf(event.why, sizeof event.why, "its user no longer sets a plan");
  }
  by_info("manager", "job %s (%s): %s", job->id, job->name, event.why);
  by_job_add_event(m, job, &event);
  free(job->plans.own);
  job->plans.own = copy;
  if (own_plan) {
    drop(m, job);
    if (job->plans.current) forget_row(m, job, job->plans.current);
    retire(job);
    release_helpers(m, job);
  }
  by_due_clear(job);
  if (!own_plan) by_due_mark(job, BY_DUE_NEW, "%s", event.why);
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  by_job_keep(m, job);
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
    if (by_helpers_are_used(m, plan_of(job->plans.current), helper))
      by_due_mark(job, BY_DUE_HELPER, "%s is gone", name);
  }
  by_plans_advance(m, job);
}

/* An agent reports that a helper has joined, and again on each connection before its first report. */
void by_plans_end_unreported(struct by_manager *m, const struct by_manager_peer *agent) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    for (int server = 0; server < 2; server++) {
      const struct by_manager_helper *helper = by_job_has_left(job) ? NULL : by_helpers_find(job, agent->index, server);
      if (helper && helper->state == BY_HELPER_JOINED && helper->by != agent->number)
        by_plans_helping(m, job, agent->index, server, NULL, "its agent does not know it");
    }
}

/* An agent whose host has lost power is not seen to close its connection. */
void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper helper = job->plans.helpers[i];
    const struct by_manager_host *host = &m->hosts->all[helper.host];
    double last = host->agent ? host->agent->last_message : host->parted;
    if (helper.state == BY_HELPER_JOINED && m->now - last > fmax(silence, 2 * m->options.interval))
      by_plans_helping(m, job, helper.host, helper.server, NULL, "nothing is received from its host any more");
  }
}

/* A plan is made without a switch that is not there, once its agent has had time to connect again, and with fresh cells
 * at one that has begun again. */
void by_plans_miss_switches(const struct by_manager *m, struct by_manager_job *job) {
  uint32_t node;
  if (!job->plans.current || job->plans.running || by_job_is_moving(job) || m->now - m->began < begun_wait) return;
  if (by_grants_are_lost(m, job->plans.current, &node))
    by_due_mark(job, BY_DUE_HELPER, "switch \"%.64s\" has begun again, without its cells", m->hosts->all[node].name);
  if (!by_grants_miss_switch(m, job->plans.current->plan, &node)) return;
  if (!m->hosts->all[node].agent && m->now - m->hosts->all[node].parted < grace) return;
  by_due_mark(job, BY_DUE_HELPER, "switch \"%.64s\" is gone", m->hosts->all[node].name);
}

/* ---- beside proposals */

void by_plans_note_rate(struct by_manager_job *job, double rate) {
  job->plans.rate_then = rate;
}

void by_plans_begin(struct by_manager_job *job, struct by_plan_request *request) {
  job->plans.running = true;
  request->job = job;
  if (!job->plans.current) return;
  request->current = job->plans.current->plan;
  request->old = job->plans.current->embedding;
  job->plans.current->embedding = NULL;
}

/* The user's plan is over ranks; what counts is which hosts they are on. */
static enum banyan_status load_own(const struct by_manager *m, const struct by_manager_job *job,
                                   struct by_link_shares *out) {
  struct by_plan *plan;
  BY_TRY(by_plan_parse("the user's plan", job->plans.own_trees, strlen(job->plans.own_trees), &plan));
  bool over_hosts = plan->n_ranks != job->n_ranks;
  enum banyan_status status = BANYAN_OK;
  if (plan->n_ranks != (over_hosts ? job->n_hosts : job->n_ranks))
    status = by_fail(BANYAN_ERR_PLAN, "it is for %u ranks, the job has %u on %u hosts", plan->n_ranks, job->n_ranks,
                     job->n_hosts);
  for (uint32_t r = 0; r < plan->n_ranks && status == BANYAN_OK; r++) {
    plan->vertices[r].name = by_arena_string(&plan->arena, job->hosts[over_hosts ? r : job->of_rank[r]]);
    if (!plan->vertices[r].name) status = by_manager_no_memory();
  }
  if (status == BANYAN_OK) status = by_link_shares_find(plan, m->topology, out, NULL);
  by_plan_destroy(plan);
  return status;
}

static enum banyan_status load_ring(const struct by_manager *m, const struct by_manager_job *job,
                                    struct by_link_shares *out) {
  struct by_plan *ring;
  BY_TRY(by_plan_ring_over(m->topology, job->nodes, job->n_hosts, &ring));
  enum banyan_status status = by_link_shares_find(ring, m->topology, out, NULL);
  by_plan_destroy(ring);
  return status;
}

void by_plans_assume(struct by_manager *m, struct by_manager_job *job) {
  struct by_link_shares shares = {0};
  enum banyan_status status = BANYAN_ERR_PLAN;
  if (job->plans.own_trees) {
    status = load_own(m, job, &shares);
    if (status != BANYAN_OK)
      by_info("manager", "job %s (%s) counts as a ring: %s", job->id, job->name, banyan_error_text());
  }
  if (status != BANYAN_OK) status = load_ring(m, job, &shares);
  if (status != BANYAN_OK) {
    by_warn("manager", "what job %s (%s) puts on links is not known: %s", job->id, job->name, banyan_error_text());
    shares = (struct by_link_shares){.items = calloc(1, sizeof *shares.items)};
  }
  assume(job, shares);
  by_use_set_stale(m);
}

/* ---- when a manager begins again */

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
  job->plans.rate_then = 0; /* what it carried beside others is not kept */
  job->plans.planned = m->now;
  by_due_clear(job);
  if (!job->plans.current) by_due_mark(job, BY_DUE_NEW, "the job is new");
  /* Whether the job was asked and whether it has moved is not known: its agent reports it when it is back. */
  if (job->plans.proposed) {
    set_proposal(job, BY_PROPOSAL_LATE);
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
