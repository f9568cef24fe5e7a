#include "manager_plans.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "log.h"
#include "manager_hosts.h"
#include "manager_links.h"

static const double least_wait = 30, most_wait = 3600, iterations_waited = 20; /* s, and iterations, for an answer */
static const double join_wait = 10;                                            /* s for a helper */
static const double barred_for = 300;                                          /* s, a helper that did not come */
static const double silence = 10;           /* s, and intervals twice, of an agent that is there */
static const double swaying = 4;            /* times the gain, beside others */
enum { ENOUGH = 3 };                        /* times in a row that they must find it */
static const size_t beside_plan = 256;      /* bytes of a message that brings one */
static const uint64_t much_later = 1 << 20; /* plans: no job has had so many meanwhile */

static void free_plan(struct by_manager_plan *plan) {
  if (!plan) return;
  by_plan_destroy(plan->plan);
  by_embedding_destroy(plan->embedding);
  free(plan->shares.items);
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

static void keep_helper(const struct by_manager *m, const struct by_manager_job *job,
                        const struct by_manager_helper *helper, bool gone) {
  struct by_manager_row row = {
      .table = BY_ROW_HELPER, .gone = gone, .job = job->id, .name = m->hosts->all[helper->host].name};
  row.helper.joined = helper->state == BY_HELPER_JOINED;
  by_manager_keep_row(m, &row);
}

void by_plans_keep(const struct by_manager *m, const struct by_manager_job *job) {
  if (job->plans.current) keep_plan(m, job, job->plans.current, true);
  if (job->plans.proposed) keep_plan(m, job, job->plans.proposed, false);
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) keep_helper(m, job, &job->plans.helpers[i], false);
}

/* ---- helpers */

static struct by_manager_helper *find_helper(const struct by_manager_job *job, uint32_t host) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++)
    if (job->plans.helpers[i].host == host) return &job->plans.helpers[i];
  return NULL;
}

static struct by_manager_helper *add_helper(struct by_manager_job *job, uint32_t host, enum by_helper_state state) {
  struct by_job_plans *plans = &job->plans;
  if (!BY_ARRAY_GROW(&plans->helpers, &plans->helpers_room, (size_t)plans->n_helpers + 1)) return NULL;
  plans->helpers[plans->n_helpers] = (struct by_manager_helper){.host = host, .state = state};
  return &plans->helpers[plans->n_helpers++];
}

static void set_helper(const struct by_manager *m, const struct by_manager_job *job, struct by_manager_helper *helper,
                       enum by_helper_state state) {
  static const char *const names[] = {"barred", "asked", "joined"};
  const double lasts[] = {barred_for, join_wait, 0};
  by_debug("manager", "helper \"%s\" of job %s: %s -> %s", m->hosts->all[helper->host].name, job->id,
           names[helper->state], names[state]);
  assert(state != BY_HELPER_ASKED || helper->state == BY_HELPER_BARRED);
  helper->state = state;
  helper->until = m->now + lasts[state];
  keep_helper(m, job, helper, false);
}

static bool uses_helper(const struct by_manager *m, const struct by_manager_plan *plan, uint32_t host) {
  for (uint32_t v = plan ? plan->plan->n_ranks : 0; plan && v < plan->plan->n_vertices; v++)
    if (!strcmp(plan->plan->vertices[v].name, m->hosts->all[host].name)) return true;
  return false;
}

/* Ends the help of those that neither plan uses. */
static void rest(struct by_manager *m, struct by_manager_job *job, bool all) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper helper = job->plans.helpers[i];
    bool used =
        !all && (uses_helper(m, job->plans.current, helper.host) || uses_helper(m, job->plans.proposed, helper.host));
    bool barred = helper.state == BY_HELPER_BARRED;
    if (used || (barred && !all && m->now < helper.until)) {
      job->plans.helpers[kept++] = helper;
      continue;
    }
    if (!barred)
      by_manager_send(m, m->hosts->all[helper.host].agent,
                      &(struct by_cluster_message){.type = BY_MESSAGE_REST, .job = job->id});
    keep_helper(m, job, &helper, true);
  }
  job->plans.n_helpers = kept;
}

void by_plans_end(struct by_manager *m, struct by_manager_job *job) {
  rest(m, job, true);
  if (job->plans.current) forget_row(m, job, job->plans.current);
  if (job->plans.proposed) forget_row(m, job, job->plans.proposed);
}

static bool ask(struct by_manager *m, struct by_manager_job *job, uint32_t host) {
  struct by_manager_helper *helper = find_helper(job, host);
  if (!helper && !(helper = add_helper(job, host, BY_HELPER_BARRED))) return false;
  if (helper->state != BY_HELPER_BARRED) return true;
  set_helper(m, job, helper, BY_HELPER_ASKED);
  by_manager_send(m, m->hosts->all[host].agent,
                  &(struct by_cluster_message){.type = BY_MESSAGE_HELP,
                                               .job = job->id,
                                               .root = job->root,
                                               .key = job->key,
                                               .helper = m->hosts->all[host].name});
  return true;
}

/* ---- what becomes of a proposal */

static void add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                      const char *before, const char *why) {
  struct by_manager_event event = {.number = plan->number, .time = m->now, .before = plan->before, .after = plan->rate};
  snprintf(event.why, sizeof event.why, "%s%.200s", before, why);
  by_job_add_event(m, job, &event);
}

static void drop(struct by_manager *m, struct by_manager_job *job) {
  if (!job->plans.proposed) return;
  forget_row(m, job, job->plans.proposed);
  free_plan(job->plans.proposed);
  job->plans.proposed = NULL;
  set_proposal(job, BY_PROPOSAL_NONE);
  by_use_set_stale(m);
  rest(m, job, false);
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

static void send_plan(struct by_manager *m, struct by_manager_job *job) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(job->plans.proposed->plan, &text);
  if (text.length > BY_CLUSTER_LINE_DOWN - beside_plan) {
    give_up(m, job, m->options.replan, "its plan is longer than a message may be");
  } else if (!text.failed) {
    double iterations = iterations_waited * job->iteration_time;
    set_proposal(job, BY_PROPOSAL_ASKED);
    job->plans.deadline = m->now + fmin(fmax(iterations, least_wait), most_wait);
    by_manager_send(m, job->peer,
                    &(struct by_cluster_message){.type = BY_MESSAGE_PLAN,
                                                 .job = job->id,
                                                 .number = job->plans.proposed->number,
                                                 .plan = by_text_get(&text)});
  }
  by_text_fini(&text);
}

/* Whether all helpers of the proposal are there; one that does not come ends it. */
static bool has_helpers(struct by_manager *m, struct by_manager_job *job) {
  bool all = true;
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper *helper = &job->plans.helpers[i];
    if (!uses_helper(m, job->plans.proposed, helper->host)) continue;
    if (helper->state == BY_HELPER_ASKED && m->now >= helper->until) set_helper(m, job, helper, BY_HELPER_BARRED);
    if (helper->state == BY_HELPER_BARRED) {
      char why[BY_MANAGER_WHY];
      snprintf(why, sizeof why, "helper \"%.64s\" has not come", m->hosts->all[helper->host].name);
      give_up(m, job, 0, why);
      by_due_mark(job, BY_DUE_HELPER, "%s", why);
      return false;
    }
    all &= helper->state == BY_HELPER_JOINED;
  }
  return all;
}

static void stop_waiting(struct by_manager *m, struct by_manager_job *job) {
  by_warn("manager", "job %s (%s) has not answered to plan %llu; it may still come", job->id, job->name,
          (unsigned long long)job->plans.proposed->number);
  add_event(m, job, job->plans.proposed, "", "no answer within its deadline");
  by_job_set_trouble(job, "rank 0 has not answered to a plan");
  set_proposal(job, BY_PROPOSAL_LATE);
  by_use_set_stale(m);
  job->plans.not_before = m->now + m->options.replan;
}

void by_plans_advance(struct by_manager *m, struct by_manager_job *job) {
  if (job->plans.proposal == BY_PROPOSAL_JOINING && has_helpers(m, job) && job->peer)
    send_plan(m, job);
  else if (job->plans.proposal == BY_PROPOSAL_ASKED && m->now >= job->plans.deadline)
    stop_waiting(m, job);
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
                                   .rate = request->rate,
                                   .carries = request->carries,
                                   .before = job->plans.current ? request->rate_before : 0,
                                   .made = m->now};
  memcpy(plan->why, job->notes.reason, sizeof plan->why);
  request->plan = NULL;
  request->embedding = NULL;
  request->shares = (struct by_link_shares){0};
  return plan;
}

static void propose(struct by_manager *m, struct by_manager_job *job, struct by_plan_request *request) {
  drop(m, job); /* a late one */
  job->plans.proposed = take_plan(m, job, request);
  if (!job->plans.proposed) return;
  set_proposal(job, BY_PROPOSAL_JOINING);
  by_use_set_stale(m);
  m->counters.plans++;
  by_job_keep(m, job); /* the number, before it is sent */
  keep_plan(m, job, job->plans.proposed, false);
  const struct by_plan *plan = job->plans.proposed->plan;
  for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) {
    uint32_t host = by_manager_hosts_find(m, plan->vertices[v].name);
    if (host == BY_NOWHERE || !ask(m, job, host)) {
      drop(m, job);
      return;
    }
  }
  by_plans_advance(m, job);
}

/* The planner may still be reading it. */
static void retire(struct by_manager_job *job) {
  if (job->plans.running && !job->plans.retired)
    job->plans.retired = job->plans.current;
  else
    free_plan(job->plans.current);
  job->plans.current = NULL;
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
    free(job->plans.ring.items);
    job->plans.ring = request->before;
    request->before = (struct by_link_shares){0};
    by_use_set_stale(m);
  }
  return !by_job_has_left(job) && !job->plans.own;
}

/* Its plan names a helper that is not there: ranks repeat such trees among themselves, whatever the network carries. */
static bool misses_helper(const struct by_manager *m, const struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++)
    if (job->plans.helpers[i].state == BY_HELPER_BARRED &&
        uses_helper(m, job->plans.current, job->plans.helpers[i].host))
      return true;
  return false;
}

/* Rates of late are not those to come: so a gain beside others must be large, and be found again and again. */
static bool is_worth_it(const struct by_manager *m, struct by_manager_job *job, const struct by_plan_request *request) {
  double gain = request->sways ? swaying * m->options.gain : m->options.gain;
  if (!job->plans.current || misses_helper(m, job)) return true;
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
    if (is_worth_it(m, job, request)) propose(m, job, request);
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
    by_use_set_stale(m);
    /* Once it may be, as after a manager has lost what it kept. */
    bool waits = m->now < job->plans.not_before;
    if (!waits && job->plans.unknown++) job->plans.not_before = m->now + longer_each_time(m, job->plans.unknown - 2);
    by_due_mark(job, BY_DUE_NEW, "it runs a plan that is not known");
    return;
  }
  add_event(m, job, job->plans.proposed, "", job->plans.proposed->why);
  if (job->plans.current)
    forget_row(m, job, job->plans.current);
  else if (job->key)
    by_due_mark(job, BY_DUE_HELPER, "helpers may join");
  retire(job);
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
  rest(m, job, false);
}

void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why) {
  if (!job->plans.proposed || job->plans.proposed->number != number) return;
  give_up(m, job, longer_each_time(m, job->plans.refusals++), why);
}

void by_plans_set_own(struct by_manager *m, struct by_manager_job *job, const char *own_plan) {
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
    rest(m, job, false);
  }
  by_due_clear(job);
  if (!own_plan) by_due_mark(job, BY_DUE_NEW, "%s", event.why);
  by_job_set_trouble(job, "%s", "");
  by_use_set_stale(m);
  by_job_keep(m, job);
}

void by_plans_helping(struct by_manager *m, struct by_manager_job *job, uint32_t host, const struct by_manager_peer *by,
                      const char *why) {
  struct by_manager_helper *helper = find_helper(job, host);
  if (!helper) {
    if (by)
      by_manager_send(m, m->hosts->all[host].agent,
                      &(struct by_cluster_message){.type = BY_MESSAGE_REST, .job = job->id});
    return;
  }
  set_helper(m, job, helper, by ? BY_HELPER_JOINED : BY_HELPER_BARRED);
  helper->by = by ? by->number : 0;
  if (!by) {
    by_info("manager", "\"%s\" helps job %s (%s) no longer: %s", m->hosts->all[host].name, job->id, job->name,
            why ? why : "");
    if (uses_helper(m, job->plans.current, host))
      by_due_mark(job, BY_DUE_HELPER, "helper \"%.64s\" is gone", m->hosts->all[host].name);
  }
  by_plans_advance(m, job);
}

/* An agent reports that a helper has joined, and again on each connection before its first report. */
void by_plans_end_unreported(struct by_manager *m, const struct by_manager_peer *agent) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    const struct by_manager_helper *helper = by_job_has_left(job) ? NULL : find_helper(job, agent->index);
    if (helper && helper->state == BY_HELPER_JOINED && helper->by != agent->number)
      by_plans_helping(m, job, agent->index, NULL, "its agent does not know it");
  }
}

/* An agent whose host has lost power is not seen to close its connection. */
void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->plans.n_helpers; i++) {
    struct by_manager_helper helper = job->plans.helpers[i];
    const struct by_manager_host *host = &m->hosts->all[helper.host];
    double last = host->agent ? host->agent->last_message : host->parted;
    if (helper.state == BY_HELPER_JOINED && m->now - last > fmax(silence, 2 * m->options.interval))
      by_plans_helping(m, job, helper.host, NULL, "nothing is received from its host any more");
  }
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

/* A job that runs a plan of its user's counts as a ring. Looked for once: without memory it counts as nothing. */
void by_plans_assume_ring(struct by_manager *m, struct by_manager_job *job) {
  struct by_plan *ring = NULL;
  enum banyan_status status = by_plan_ring_over(m->topology, job->nodes, job->n_hosts, &ring);
  if (status == BANYAN_OK) status = by_link_shares_find(ring, m->topology, &job->plans.ring, NULL);
  if (status != BANYAN_OK) {
    by_warn("manager", "what job %s (%s) puts on links is not known: %s", job->id, job->name, banyan_error_text());
    job->plans.ring = (struct by_link_shares){.items = calloc(1, sizeof *job->plans.ring.items)};
  }
  by_plan_destroy(ring);
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
  if (job->plans.proposed) set_proposal(job, BY_PROPOSAL_LATE);
  job->plans.not_before = m->now + m->options.interval;
  by_use_set_stale(m);
  return BANYAN_OK;
}

void by_plans_restore_job(struct by_manager_job *job, uint64_t numbers, const char *own_plan) {
  job->plans.numbers = numbers;
  job->plans.own = own_plan ? strdup(own_plan) : NULL;
  if (job->plans.own) by_due_clear(job);
}

enum banyan_status by_plans_restore_helper(struct by_manager *m, struct by_manager_job *job,
                                           const struct by_manager_row *row) {
  uint32_t host = by_manager_hosts_find(m, row->name);
  if (host == BY_NOWHERE || !row->helper.joined) return BANYAN_OK;
  return add_helper(job, host, BY_HELPER_JOINED) ? BANYAN_OK : by_manager_no_memory();
}

/* ---- end */

void by_plans_free(struct by_manager_job *job) {
  free_plan(job->plans.current);
  free_plan(job->plans.proposed);
  free_plan(job->plans.retired);
  free(job->plans.helpers);
  free(job->plans.ring.items);
  free(job->plans.own);
}
