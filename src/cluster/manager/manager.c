/* Decides which job is planned next and fills in the request to the planner. */
#include "manager.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_job.h"
#include "manager_links.h"
#include "manager_plans.h"
#include "plan.h"

static const double much = 0.1;           /* Fraction of its rate that a plan must lose before it is planned again. */
static const double dwelling = 5;         /* Intervals with a plan before the next planning. */
static const double unsettled = 8;        /* Intervals without a change of the jobs before or behind this one. */
static const double max_unsettled = 24;   /* Maximum of intervals to wait for that since the last planning: in a large
                                             cluster the order always changes. */
static const double much_worse = 2;       /* No waiting if the old plan's rate was so many times as high. */
static const double slightly_worse = 1.2; /* The factor of much_worse if a link has changed since. */
static const double alone = 3;            /* Intervals in which the agent of a job's host may still connect. */

/* ---- detecting changes */

static void check_rate(struct by_manager *m, struct by_manager_job *job) {
  char before[32], now[32];
  double rate = by_use_rate(m, job, &job->plans.current->shares);
  bool settled =
      m->now - m->began >= dwelling * m->options.interval; /* The rates of jobs are known again after a restart. */
  if (!job->plans.rate_then && settled) by_plans_note_rate(job, rate);
  job->check.worse = job->plans.rate_then / rate;
  if (rate < (1 - much) * job->plans.rate_then)
    by_due_mark(job, BY_DUE_LESS, "its trees carry %s, no longer %s", by_print_rate(rate, now),
                by_print_rate(job->plans.rate_then, before));
}

static void check_job(struct by_manager *m, struct by_manager_job *job) {
  const struct by_manager_options *o = &m->options;
  if (!job->plans.current) {
    by_due_mark(job, BY_DUE_NEW, job->plans.planned > 0 ? "it has no plan yet" : "the job is new");
    return;
  }
  check_rate(m, job);
  if (m->now - job->plans.planned >= o->replan) by_due_mark(job, BY_DUE_TIME, "%.0f s have passed", o->replan);
  if (o->replan_iterations && job->iterations >= job->plans.planned_at + o->replan_iterations)
    by_due_mark(job, BY_DUE_TIME, "%llu iterations have passed", (unsigned long long)o->replan_iterations);
}

/* Planning takes time that all jobs share, and a user may claim that a job is on all hosts. So the agent of each host
 * must have reported one of its ranks; for hosts without an agent the claim is accepted. */
static bool is_confirmed(const struct by_manager *m, const struct by_manager_job *job, uint32_t h) {
  const struct by_manager_host *host = &m->hosts->all[job->nodes[h]];
  if (job->parts[h].reported) return true;
  return !host->agent && m->now - fmax(job->since, host->parted) >= alone * m->options.interval;
}

static bool are_confirmed(const struct by_manager *m, struct by_manager_job *job) {
  if (job->check.n_confirmed == job->n_hosts) return true;
  while (job->check.n_confirmed < job->n_hosts && is_confirmed(m, job, job->check.n_confirmed))
    job->check.n_confirmed++;
  by_job_set_trouble(job, "%s", "");
  if (job->check.n_confirmed == job->n_hosts) return true;
  by_job_set_trouble(
      job,
      "the agent on \"%.64s\" knows none of its ranks there: have they BANYAN_AGENT=off, or do they not reach the "
      "agent's socket?",
      job->hosts[job->check.n_confirmed]);
  return false;
}

static bool can_be_planned(const struct by_manager_job *job) {
  return !by_job_has_left(job) && !job->plans.own && job->in_topology && job->n_hosts > 1 && job->peer &&
         !job->plans.running && !by_job_is_moving(job);
}

/* ---- choosing a job */

/* Tells whether a job must wait: a new plan's rate is known only after some intervals, and so are the rates of jobs
 * that precede it. A change of a link is known at once, even if the order has changed since, as when another job leaves
 * it. */
static bool must_wait(const struct by_manager *m, const struct by_manager_job *job) {
  if (!job->plans.current || job->notes.due <= BY_DUE_SWITCH) return false;
  bool known = m->links->changed > fmin(job->order.changed, job->plans.planned);
  bool rests = m->now - job->order.changed >= unsettled * m->options.interval ||
               m->now - job->plans.planned >= max_unsettled * m->options.interval;
  if (!known && !rests) return true;
  double bad = m->links->changed > job->plans.planned ? slightly_worse : much_worse;
  return job->check.worse < bad && m->now - job->plans.current->made < dwelling * m->options.interval;
}

/* Changes without urgency wait for an interval since the last planning, and refused jobs until `not_before`. */
static bool is_ripe(const struct by_manager *m, const struct by_manager_job *job) {
  if (job->notes.due == BY_DUE_NONE || !can_be_planned(job) || job->check.n_confirmed < job->n_hosts) return false;
  if (m->now < job->plans.not_before || must_wait(m, job)) return false;
  if (job->notes.due == BY_DUE_SWITCH && by_manager_hosts_settle(m, job->plans.planned)) return false;
  return job->notes.due <= BY_DUE_SWITCH || m->now - job->plans.planned >= m->options.interval;
}

static bool goes_before(const struct by_manager_job *a, const struct by_manager_job *b) {
  if (a->notes.due != b->notes.due) return a->notes.due < b->notes.due;
  return a->check.worse > b->check.worse;
}

/* Returns the methods that both the user and the manager allow. */
static uint32_t ways_of(const struct by_manager *m, const struct by_manager_job *job) {
  uint32_t both = job->preferences.ways & m->options.ways, ways = both ? both : m->options.ways;
  return m->now < job->plans.switchless_until ? ways & ~(uint32_t)BY_PLAN_SWITCHES : ways;
}

/* ---- hosts that may help a job */

enum { HELPERS = 4, HELPED = 3 };   /* Maximum of helpers; minimum of hosts that benefit from one. */
static const double min_free = 0.5; /* Fraction of its links that a helper must have free in both directions. */

struct candidate {
  uint32_t node;
  double left;
};

/* Returns the free rate of a host's links in the direction that has less; *all is their total rate. */
static double find_free_rate(const struct by_paths *of_node, const struct by_topology *t, uint32_t node, double *all) {
  double left[2] = {0, 0}, total[2] = {0, 0};
  for (uint32_t i = of_node->first[node]; i < of_node->first[node + 1]; i++) {
    const struct by_link *link = &t->links[of_node->links[i]];
    for (int direction = 0; direction < 2; direction++) {
      left[direction == (link->a == node)] += by_residual(link->capacity[direction]);
      total[direction == (link->a == node)] += link->capacity[direction].all;
    }
  }
  *all = fmin(total[0], total[1]);
  return fmin(left[0], left[1]);
}

/* A host may help if its agent offers it and no job, even an unknown one, has ranks there. */
static bool may_help(const struct by_manager *m, const struct by_manager_job *job, uint32_t node, uint8_t uses) {
  const struct by_manager_host *host = &m->hosts->all[node];
  return host->agent && host->may_help && !host->n_unknown && !(uses & BY_NODE_HAS_RANKS) &&
         !by_helpers_is_barred(m, job, node, false);
}

/* Finds the hosts with the most free capacity. One that helps another job counts half, as that may need it any time. */
static uint32_t find_helpers(const struct by_manager *m, const struct by_manager_job *job,
                             const struct by_topology *left, uint32_t *out) {
  struct candidate best[HELPERS];
  uint32_t n = 0;
  uint8_t *uses = by_jobs_find_uses(m, job);
  bool some = uses && job->key && job->n_hosts >= HELPED && (ways_of(m, job) & BY_PLAN_HELPERS);
  for (uint32_t v = 0; some && v < m->topology->n_nodes; v++) {
    double all, rate;
    if (!may_help(m, job, v, uses[v])) continue;
    if ((rate = find_free_rate(by_seen_paths(m), left, v, &all)) < min_free * all) continue;
    if (uses[v] & BY_NODE_HELPS) rate /= 2;
    uint32_t at = n < HELPERS ? n++ : HELPERS;
    for (; at > 0 && best[at - 1].left < rate; at--)
      if (at < HELPERS) best[at] = best[at - 1];
    if (at < HELPERS) best[at] = (struct candidate){v, rate};
  }
  free(uses);
  for (uint32_t i = 0; i < n; i++) out[i] = best[i].node;
  return n;
}

/* Finds hosts that may run servers of the job's trees, including its own. The planner considers the load of their
 * links. */
static uint32_t find_servers(const struct by_manager *m, const struct by_manager_job *job, uint32_t *out) {
  uint32_t n = 0;
  bool some = job->key && (ways_of(m, job) & BY_PLAN_SWITCHES);
  for (uint32_t v = 0; some && v < m->topology->n_nodes; v++) {
    const struct by_manager_host *host = &m->hosts->all[v];
    bool is_host = m->topology->nodes[v].kind == BY_NODE_HOST;
    if (is_host && host->agent && host->may_serve && !by_helpers_is_barred(m, job, v, true)) out[n++] = v;
  }
  return n;
}

/* Marks the switches that are connected and have cells for the job. */
static void set_switches(const struct by_manager *m, const struct by_manager_job *job, struct by_topology *left) {
  bool strict = m->now < job->plans.strict_until;
  for (uint32_t v = 0; v < left->n_nodes; v++) {
    if (left->nodes[v].kind != BY_NODE_SWITCH) continue;
    left->nodes[v].memory = by_grants_available(m, job, v, strict);
    left->nodes[v].aggregates = left->nodes[v].memory > 0;
  }
}

/* ---- the snapshot */

static enum banyan_status fill_request(struct by_manager *m, struct by_manager_job *job,
                                       struct by_plan_request *request) {
  BY_TRY(by_use_residual(m, job, true, &request->residual));
  if (by_use_may_give_way(m, job)) BY_TRY(by_use_residual(m, job, false, &request->calm));
  set_switches(m, job, &request->residual);
  if (request->calm.nodes) set_switches(m, job, &request->calm);
  double changed =
      fmax(m->links->changed, m->hosts->switches_changed); /* A changed link makes current rates valid at once. */
  request->is_shared = changed <= job->plans.planned && by_use_sways(m, job);
  request->nodes = calloc(job->n_hosts, sizeof *request->nodes);
  request->helpers = calloc(HELPERS, sizeof *request->helpers);
  request->servers = calloc((size_t)m->topology->n_nodes + 1, sizeof *request->servers);
  if (!request->nodes || !request->helpers || !request->servers) return by_manager_no_memory();
  for (uint32_t h = 0; h < job->n_hosts; h++) request->nodes[request->n_nodes++] = job->nodes[h];
  request->n_helpers = find_helpers(m, job, &request->residual, request->helpers);
  request->n_servers = find_servers(m, job, request->servers);
  request->ways = ways_of(m, job);
  request->has_calls = job->has_calls;
  memcpy(request->calls, job->calls, sizeof request->calls);
  request->penalty = job->preferences.penalty > 0 ? job->preferences.penalty : m->options.penalty;
  request->steps = job->preferences.steps ? job->preferences.steps : m->options.steps;
  request->trees = job->preferences.trees ? job->preferences.trees : m->options.trees;
  request->queues = m->options.queues;
  request->rates = m->options.rates;
  by_plans_begin(job, request);
  return BANYAN_OK;
}

struct by_manager_options by_manager_defaults(void) {
  return (struct by_manager_options){.rules = by_priority_defaults(),
                                     .interval = 2,
                                     .replan = 60,
                                     .gain = 0.05,
                                     .helpers = "all",
                                     .servers = "all",
                                     .ways = BY_PLAN_ALL_METHODS,
                                     .rates = by_cost_defaults()};
}

/* ---- beginning and end */

enum banyan_status by_manager_create(const struct by_manager_options *options, double now, struct by_manager **out) {
  struct by_manager *m = calloc(1, sizeof *m);
  if (!m) return by_manager_no_memory();
  m->options = *options;
  m->topology = options->topology;
  m->now = m->began = now;
  TAILQ_INIT(&m->peers);
  enum banyan_status status = by_links_init(m);
  if (status == BANYAN_OK) status = by_seen_init(m);
  if (status == BANYAN_OK) status = by_manager_hosts_init(m);
  if (status == BANYAN_OK)
    *out = m;
  else
    by_manager_destroy(m);
  return status;
}

void by_manager_destroy(struct by_manager *m) {
  if (!m) return;
  by_jobs_free_all(m);
  by_meetings_free_all(m);
  by_manager_peers_fini(m);
  by_manager_hosts_fini(m);
  by_link_seen_destroy(m->seen);
  free(m->links);
  free(m);
}

/* ---- rows */

void by_manager_keep_all(struct by_manager *m) {
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (job->state != BY_JOB_REPLACED) by_job_keep(m, job);
    if (by_job_has_left(job)) continue;
    by_plans_keep(m, job);
    by_cells_keep(m, job);
  }
}

static void restore_event(const struct by_manager *m, struct by_manager_job *job, const struct by_manager_row *row) {
  struct by_manager_event event = {row->history.number, row->history.time, row->history.before, row->history.after, ""};
  snprintf(event.why, sizeof event.why, "%s", row->history.why);
  by_job_add_event(m, job, &event);
}

static enum banyan_status restore_row(struct by_manager *m, const struct by_manager_row *row) {
  struct by_manager_job *job = by_jobs_find(m, row->job);
  if (row->table == BY_ROW_JOB) return by_jobs_restore(m, row);
  if (!job) return BANYAN_OK;
  switch (row->table) {
  case BY_ROW_PLAN: return by_plans_restore(m, job, row);
  case BY_ROW_HISTORY: restore_event(m, job, row); return BANYAN_OK;
  case BY_ROW_CELLS: return by_cells_restore(m, job, row->cells.request);
  case BY_ROW_GRANT: return by_grants_restore(m, job, row);
  default: return by_helpers_restore(m, job, row);
  }
}

void by_manager_restore(struct by_manager *m, const struct by_manager_row *row, double now) {
  m->now = now;
  m->restoring = true;
  if (restore_row(m, row) != BANYAN_OK)
    by_warn("manager", "something that was kept of job %s does not fit any more: %s", row->job, banyan_error_text());
  m->restoring = false;
}

/* ---- time, plans */

void by_manager_tick(struct by_manager *m, double now) {
  m->now = now;
  by_jobs_tick(m);
  by_meetings_tick(m);
  by_seen_tick(m);
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (can_be_planned(job) && are_confirmed(m, job)) check_job(m, job);
    bool assumed = job->plans.own && !by_job_has_left(job) && job->in_topology && job->n_hosts > 1 &&
                   !job->plans.running && !job->plans.assumed.items;
    if (assumed && are_confirmed(m, job)) by_user_plan_assume(m, job);
  }
}

bool by_manager_next(struct by_manager *m, double now, struct by_plan_request **out) {
  struct by_manager_job *first = NULL;
  m->now = now;
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (is_ripe(m, job) && (!first || goes_before(job, first))) first = job;
  struct by_plan_request *request = first ? calloc(1, sizeof *request) : NULL;
  if (!request) return false;
  if (fill_request(m, first, request) != BANYAN_OK) {
    by_plan_request_destroy(request);
    return false;
  }
  by_due_clear(first); /* Changes from here on count. */
  *out = request;
  return true;
}

/* ---- counters */

struct by_manager_counters by_manager_get_counters(const struct by_manager *m) {
  return m->counters;
}

void by_manager_count_refused(struct by_manager *m) {
  m->counters.refused++;
}
