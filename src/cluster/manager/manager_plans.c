/* Judges the plans of the planner, handles the answers of jobs, and notices helpers and switches that are lost. */
#include "manager_plans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"
#include "manager_cells.h"
#include "manager_hosts.h"
#include "manager_links.h"

static const double grace = 0.5;      /* Seconds in which a switch's agent may reconnect. */
static const double restart_wait = 6; /* Seconds in which agents find a restarted manager. */
static const double silence = 10;     /* Seconds, and intervals twice, after which a connected agent counts as gone. */
static const double busy_factor = 4;  /* Factor for the required gain while others are sending. */
enum { ENOUGH = 3 };                  /* Consecutive plannings that must find the gain then. */
static const uint64_t max_skip = 1 << 20; /* A number of a plan that is higher by so much is not plausible. */

void by_plans_keep(const struct by_manager *m, const struct by_manager_job *job) {
  if (job->plans.current) by_manager_plan_keep(m, job, job->plans.current, true);
  if (job->plans.proposed) by_manager_plan_keep(m, job, job->plans.proposed, false);
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
static void take_shares(struct by_manager_job *job, struct by_link_shares shares) {
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
    by_manager_plan_free(job->plans.retired);
    job->plans.retired = NULL;
    return false;
  }
  if (request->status == BANYAN_OK) job->plans.rate_then = request->rate_now;
  if (job->plans.current) {
    job->plans.current->embedding = request->old;
    request->old = NULL;
  } else if (request->before.items) {
    take_shares(job, request->before);
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
    if (plan) by_proposal_begin(m, job, plan);
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
  by_manager_plan_add_event(m, job, job->plans.proposed, "", job->plans.proposed->why);
  if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
  by_manager_plan_retire(job);
  /* Rank 0 receives plans in their order, so those in between were lost and it has none of their cells. */
  by_grants_return_between(m, job, job->plans.ran, number);
  job->plans.current = job->plans.proposed;
  job->plans.proposed = NULL;
  job->plans.gains = 0;
  by_proposal_set_state(job, BY_PROPOSAL_NONE);
  job->plans.rate_then = job->plans.current->carries;
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  job->plans.refusals = 0;
  m->counters.plan_switches++;
  by_manager_plan_keep(m, job, job->plans.current, true);
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
  if (job->plans.proposed->needs.n && job->plans.refusals) by_proposal_avoid_switches(m, job);
  by_proposal_give_up(m, job, backoff(m, job->plans.refusals++), why);
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
    by_manager_plan_free(plan);
    return status;
  }
  by_manager_plan_free(*to);
  *to = plan;
  job->plans.rate_then = 0; /* The rate beside others is not stored. */
  job->plans.planned = m->now;
  by_due_clear(job);
  if (!job->plans.current) by_due_mark(job, BY_DUE_NEW, "the job is new");
  /* Nobody knows whether the job was asked and has switched; its agent reports that when it reconnects. */
  if (job->plans.proposed) {
    by_proposal_set_state(job, BY_PROPOSAL_LATE);
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
  by_manager_plan_free(job->plans.current);
  by_manager_plan_free(job->plans.proposed);
  by_manager_plan_free(job->plans.retired);
  free(job->plans.helpers);
  free(job->plans.assumed.items);
  free(job->plans.own);
  free(job->plans.own_trees);
}

/* ---- the plan that a job's user set, and the load of a job without a plan of the manager's */

/* Its load on links is computed when the hosts of the job are confirmed. */
static bool set_trees(struct by_manager_job *job, const char *trees) {
  bool same = trees ? job->plans.own_trees && !strcmp(job->plans.own_trees, trees) : !job->plans.own_trees;
  if (same) return false;
  free(job->plans.own_trees);
  job->plans.own_trees = trees ? strdup(trees) : NULL;
  take_shares(job, (struct by_link_shares){0});
  return true;
}

void by_user_plan_set(struct by_manager *m, struct by_manager_job *job, const char *own_plan, const char *trees) {
  if (set_trees(job, own_plan ? trees : NULL)) by_use_set_stale(m);
  if (own_plan ? job->plans.own && !strcmp(job->plans.own, own_plan) : !job->plans.own) return;
  char *copy = own_plan ? strdup(own_plan) : NULL;
  if (own_plan && !copy) return; /* It does not matter, as rank 0 uses no plan of the manager's. */
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
    by_proposal_drop(m, job);
    if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
    by_manager_plan_retire(job);
    by_manager_plan_release_helpers(m, job);
  }
  by_due_clear(job);
  if (!own_plan) by_due_mark(job, BY_DUE_NEW, "%s", event.why);
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  by_job_keep(m, job);
}

/* Computes the load of the user's plan, which is over ranks, from the hosts of the ranks. */
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

void by_user_plan_assume(struct by_manager *m, struct by_manager_job *job) {
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
  take_shares(job, shares);
  by_use_set_stale(m);
}
