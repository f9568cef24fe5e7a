/* Which jobs are to be planned for, and which first. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "manager_parts.h"

static const double much = 0.1;    /* of what a plan carried: it has lost that */
static const double dwelling = 5;  /* intervals with a plan, before another is looked for; */
static const double unsettled = 8; /* intervals after others began or ceased to go before it, or behind, */
static const double restless =
    24;                        /* but so many at most since it was planned: in a large cluster somebody always does */
static const double awful = 2; /* but not where the old one carried so many times as much, */
static const double failing = 1.2; /* or so many, and a link has changed since */
static const double alone = 3;     /* intervals in which the agent of a job's host may come yet */

void by_due_mark(struct by_manager_job *job, enum by_job_due due, const char *format, ...) {
  if (due >= job->due && job->due != BY_DUE_NONE) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(job->reason, sizeof job->reason, format, arguments);
  va_end(arguments);
  job->due = due;
}

static bool share_a_step(const struct by_link_shares *a, const struct by_link_shares *b) {
  uint32_t i = 0, j = 0;
  while (i < a->n && j < b->n && a->items[i].step != b->items[j].step)
    if (a->items[i].step < b->items[j].step)
      i++;
    else
      j++;
  return i < a->n && j < b->n;
}

void by_due_mark_sharers(struct by_manager *m, const struct by_link_shares *shares, const char *why) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!job->left && share_a_step(by_use_shares(job), shares)) by_due_mark(job, BY_DUE_CHANGE, "%s", why);
}

void by_due_mark_all(struct by_manager *m, const char *format, ...) {
  char why[BY_MANAGER_WHY];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (!job->left) by_due_mark(job, BY_DUE_CHANGE, "%s", why);
}

/* ---- looking */

static void look_at_rate(struct by_manager *m, struct by_manager_job *job) {
  char before[32], now[32];
  double rate = by_use_rate(m, job, &job->plan->shares);
  bool settled = m->now - m->began >= dwelling * m->options.interval; /* the rates of jobs are known again */
  if (!job->rate_then && settled) job->rate_then = rate;
  job->worse = job->rate_then / rate;
  if (rate < (1 - much) * job->rate_then)
    by_due_mark(job, BY_DUE_LESS, "its trees carry %s, no longer %s", by_print_rate(rate, now),
                by_print_rate(job->rate_then, before));
}

static void look_at(struct by_manager *m, struct by_manager_job *job) {
  const struct by_manager_options *o = &m->options;
  if (!job->plan) {
    by_due_mark(job, BY_DUE_NEW, job->planned > 0 ? "it has no plan yet" : "the job is new");
    return;
  }
  look_at_rate(m, job);
  if (m->now - job->planned >= o->replan) by_due_mark(job, BY_DUE_TIME, "%.0f s have passed", o->replan);
  if (o->replan_iterations && job->iterations >= job->planned_at + o->replan_iterations)
    by_due_mark(job, BY_DUE_TIME, "%llu iterations have passed", (unsigned long long)o->replan_iterations);
}

/* Planning takes everybody's time, and one user may say that a job is on all hosts. So each of their agents must have
 * reported a rank of it; of hosts that have none its word is taken. */
static bool is_confirmed(const struct by_manager *m, const struct by_manager_job *job, uint32_t h) {
  const struct by_manager_host *host = &m->hosts[job->nodes[h]];
  if (job->heard[h]) return true;
  return !host->agent && m->now - fmax(job->since, host->parted) >= alone * m->options.interval;
}

static bool are_confirmed(const struct by_manager *m, struct by_manager_job *job) {
  if (job->n_confirmed == job->n_hosts) return true;
  while (job->n_confirmed < job->n_hosts && is_confirmed(m, job, job->n_confirmed)) job->n_confirmed++;
  *job->trouble = 0;
  if (job->n_confirmed == job->n_hosts) return true;
  snprintf(
      job->trouble, sizeof job->trouble,
      "the agent on \"%.64s\" has not heard of its ranks there: have they BANYAN_AGENT=off, or do they not reach the "
      "agent's socket?",
      job->hosts[job->n_confirmed]);
  return false;
}

static bool can_be_planned(const struct by_manager_job *job) {
  bool waits = job->proposed && !job->late;
  return !job->left && !job->own_plan && job->placed && job->n_hosts > 1 && job->peer && !job->planning && !waits;
}

/* A job that runs a plan of its user's counts as a ring. Looked for once: without memory it counts as nothing. */
static void assume_ring(struct by_manager *m, struct by_manager_job *job) {
  struct by_plan *ring = NULL;
  enum banyan_status status = by_plan_ring_over(m->topology, job->nodes, job->n_hosts, &ring);
  if (status == BANYAN_OK) status = by_link_shares_find(ring, m->topology, &job->ring);
  if (status != BANYAN_OK) {
    by_warn("manager", "what job %s (%s) puts on links is not known: %s", job->id, job->name, banyan_error_text());
    job->ring = (struct by_link_shares){.items = calloc(1, sizeof *job->ring.items)};
  }
  by_plan_destroy(ring);
  m->stale = true;
}

static bool needs_ring(const struct by_manager_job *job) {
  return job->own_plan && !job->left && job->placed && job->n_hosts > 1 && !job->planning && !job->ring.items;
}

void by_due_look(struct by_manager *m) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (can_be_planned(job) && are_confirmed(m, job)) look_at(m, job);
    if (needs_ring(job) && are_confirmed(m, job)) assume_ring(m, job);
  }
}

/* ---- choosing */

/* A new plan shows what it is worth when the rates of late are its own, and those that go before the job have rates of
 * late when they have done so for a while. What has happened to a link meanwhile is known at once, also where the order
 * has changed since: as it does when another job moves off the same link. */
static bool dwells(const struct by_manager *m, const struct by_manager_job *job) {
  if (!job->plan || job->due <= BY_DUE_HELPER) return false;
  bool known = m->changed > fmin(job->ordered, job->planned);
  bool rests = m->now - job->ordered >= unsettled * m->options.interval ||
               m->now - job->planned >= restless * m->options.interval;
  if (!known && !rests) return true;
  double bad = m->changed > job->planned ? failing : awful;
  return job->worse < bad && m->now - job->plan->made < dwelling * m->options.interval;
}

/* What comes by itself waits until an interval has passed; what was refused, until then. */
static bool is_ripe(const struct by_manager *m, const struct by_manager_job *job) {
  if (job->due == BY_DUE_NONE || !can_be_planned(job) || job->n_confirmed < job->n_hosts) return false;
  if (m->now < job->not_before || dwells(m, job)) return false;
  return job->due <= BY_DUE_HELPER || m->now - job->planned >= m->options.interval;
}

static bool goes_before(const struct by_manager_job *a, const struct by_manager_job *b) {
  return a->due != b->due ? a->due < b->due : a->worse > b->worse;
}

/* ---- who may help it */

enum { HELPERS = 4, HELPED = 3 };   /* most; fewest hosts that gain by one */
static const double to_spare = 0.5; /* of its link, in both directions */

struct candidate {
  uint32_t node;
  double left;
};

/* Of its links together, in the direction that has less; and what there would be if nobody used them. */
static double spare(const struct by_paths *of_node, const struct by_topology *t, uint32_t node, double *all) {
  double left[2] = {0, 0}, most[2] = {0, 0};
  for (uint32_t i = of_node->first[node]; i < of_node->first[node + 1]; i++) {
    const struct by_link *link = &t->links[of_node->links[i]];
    for (int way = 0; way < 2; way++) {
      left[way == (link->a == node)] += by_residual(link->capacity[way]);
      most[way == (link->a == node)] += link->capacity[way].all;
    }
  }
  *all = fmin(most[0], most[1]);
  return fmin(left[0], left[1]);
}

static bool is_in(const struct by_manager_job *job, uint32_t node) {
  for (uint32_t h = 0; h < job->n_hosts; h++)
    if (job->nodes[h] == node) return true;
  return false;
}

static bool is_barred(const struct by_manager *m, const struct by_manager_job *job, uint32_t node) {
  for (uint32_t i = 0; i < job->n_helpers; i++)
    if (job->helpers[i].host == node)
      return job->helpers[i].state == BY_HELPER_BARRED && m->now < job->helpers[i].until;
  return false;
}

/* Those with most to spare, the first of equals. Helpers take seconds to come, so a job's first plan does without. */
static uint32_t find_helpers(const struct by_manager *m, const struct by_manager_job *job,
                             const struct by_topology *left, uint32_t *out) {
  struct candidate best[HELPERS];
  uint32_t n = 0;
  bool some = job->plan && job->key && job->n_hosts >= HELPED;
  for (uint32_t v = 0; some && v < m->topology->n_nodes; v++) {
    const struct by_manager_host *host = &m->hosts[v];
    if (!host->agent || !host->may_help || is_in(job, v) || is_barred(m, job, v)) continue;
    double all, rate = spare(&m->ways.paths, left, v, &all);
    if (rate < to_spare * all) continue;
    uint32_t at = n < HELPERS ? n++ : HELPERS;
    for (; at > 0 && best[at - 1].left < rate; at--)
      if (at < HELPERS) best[at] = best[at - 1];
    if (at < HELPERS) best[at] = (struct candidate){v, rate};
  }
  for (uint32_t i = 0; i < n; i++) out[i] = best[i].node;
  return n;
}

/* ---- the snapshot */

static enum banyan_status fill(struct by_manager *m, struct by_manager_job *job, struct by_plan_wish *wish) {
  BY_TRY(by_use_residual(m, job, true, &wish->residual));
  if (by_use_may_give_way(m, job)) BY_TRY(by_use_residual(m, job, false, &wish->calm));
  wish->sways = m->changed <= job->planned && by_use_sways(m, job); /* what has happened to a link is known */
  wish->nodes = calloc(job->n_hosts, sizeof *wish->nodes);
  wish->helpers = calloc(HELPERS, sizeof *wish->helpers);
  if (!wish->nodes || !wish->helpers) return by_manager_no_memory();
  for (uint32_t h = 0; h < job->n_hosts; h++) wish->nodes[wish->n_nodes++] = job->nodes[h];
  wish->n_helpers = find_helpers(m, job, &wish->residual, wish->helpers);
  wish->job = job;
  if (!job->plan) return BANYAN_OK;
  wish->current = job->plan->plan;
  wish->old = job->plan->embedding;
  job->plan->embedding = NULL;
  return BANYAN_OK;
}

bool by_manager_next(struct by_manager *m, double now, struct by_plan_wish **out) {
  struct by_manager_job *first = NULL;
  m->now = now;
  for (struct by_manager_job *job = m->jobs; job; job = job->next)
    if (is_ripe(m, job) && (!first || goes_before(job, first))) first = job;
  struct by_plan_wish *wish = first ? calloc(1, sizeof *wish) : NULL;
  if (!wish) return false;
  if (fill(m, first, wish) != BANYAN_OK) {
    by_plan_wish_destroy(wish);
    return false;
  }
  first->planning = true;
  first->due = BY_DUE_NONE; /* what comes meanwhile counts */
  *out = wish;
  return true;
}
