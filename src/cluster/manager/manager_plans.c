#include "manager_plans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_grants.h"
#include "manager_helpers.h"
#include "manager_hosts.h"
#include "manager_links.h"
#include "manager_proposal.h"
#include "manager_user_plan.h"

static const double grace = 0.5;            /* s in which a switch's agent may connect again */
static const double begun_wait = 6;         /* s in which agents find a manager that was started again */
static const double silence = 10;           /* s, and intervals twice, of an agent that is there */
static const double swaying = 4;            /* times the gain, beside others */
enum { ENOUGH = 3 };                        /* times in a row that they must find it */
static const uint64_t much_later = 1 << 20; /* plans: no job has had so many meanwhile */

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

/* What the job has now is known from the request. False: it has moved meanwhile, and the request is about what it had.
 */
static bool take_back(struct by_manager *m, struct by_manager_job *job, struct by_plan_request *request) {
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
    by_user_plan_take(job, request->before);
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
    if (plan) by_proposal_begin(m, job, plan);
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
    if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
    by_manager_plan_retire(job);
    job->plans.ran = number;
    by_use_set_stale(m);
    /* Once it may be, as after a manager has lost what it kept. */
    bool waits = m->now < job->plans.not_before;
    if (!waits && job->plans.unknown++) job->plans.not_before = m->now + longer_each_time(m, job->plans.unknown - 2);
    by_due_mark(job, BY_DUE_NEW, "it runs a plan that is not known");
    return;
  }
  by_manager_plan_add_event(m, job, job->plans.proposed, "", job->plans.proposed->why);
  if (job->plans.current) by_manager_plan_forget(m, job, job->plans.current);
  by_manager_plan_retire(job);
  /* Rank 0 takes plans in their order, so those between have been lost on their way: it has none of their cells. */
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

/* Others may wait for what it had; servers that its calls still used may rest. */
void by_plans_released(struct by_manager *m, struct by_manager_job *job, uint64_t number) {
  by_grants_return(m, job, number, true);
  by_manager_plan_release_helpers(m, job);
  for (struct by_manager_job *other = m->jobs; other; other = other->next)
    if (!by_job_has_left(other) && other->plans.proposal == BY_PROPOSAL_JOINING) by_proposal_advance(m, other);
}

void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why) {
  by_grants_return(m, job, number, false); /* it has acquired none of its cells */
  if (!job->plans.proposed || job->plans.proposed->number != number) return;
  if (job->plans.proposed->needs.n && job->plans.refusals) by_proposal_avoid_switches(m, job);
  by_proposal_give_up(m, job, longer_each_time(m, job->plans.refusals++), why);
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
  job->plans.candidates = request->helpers;
  job->plans.n_candidates = request->n_helpers;
  request->job = job;
  if (!job->plans.current) return;
  request->current = job->plans.current->plan;
  request->old = job->plans.current->embedding;
  job->plans.current->embedding = NULL;
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
    by_manager_plan_free(plan);
    return status;
  }
  by_manager_plan_free(*to);
  *to = plan;
  job->plans.rate_then = 0; /* what it carried beside others is not kept */
  job->plans.planned = m->now;
  by_due_clear(job);
  if (!job->plans.current) by_due_mark(job, BY_DUE_NEW, "the job is new");
  /* Whether the job was asked and whether it has moved is not known: its agent reports it when it is back. */
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
