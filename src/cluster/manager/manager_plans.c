/* A plan's way to its job: judged, its helpers asked, proposed, moved to or
 * not.
 *
 *     wish -> planned: for a gain -> helpers asked -> all joined -> plan sent -> moved
 *                 \                      \                              \-> kept, or no answer
 *                  it stays               one does not come
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager_parts.h"

static const double least_wait = 30, most_wait = 3600, iterations_waited = 20; /* s, and iterations, for an answer */
static const double join_wait = 10;                                            /* s for a helper */
static const double barred_for = 300;                                          /* s, a helper that did not come */
static const double silence = 10;           /* s, and intervals twice, of an agent that is there */
static const double swaying = 4;            /* times the gain, beside others */
enum { ENOUGH = 3 };                        /* times in a row that they must find it */
static const size_t beside_plan = 256;      /* bytes of a message that brings one */
static const uint64_t much_later = 1 << 20; /* plans: no job has had so many meanwhile */

void by_plans_free(struct by_manager_plan *plan) {
  if (!plan) return;
  by_plan_destroy(plan->plan);
  by_embedding_destroy(plan->embedding);
  free(plan->shares.items);
  free(plan);
}

/* ---- kept rows */

static void keep_plan(struct by_manager *m, const struct by_manager_job *job, const struct by_manager_plan *plan,
                      bool moved) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan->plan, &text);
  struct by_manager_row row = {.table = BY_ROW_PLAN, .job = job->id};
  row.plan.number = plan->number;
  row.plan.plan = by_text_get(&text);
  row.plan.throughput = plan->rate;
  row.plan.made = plan->made;
  row.plan.moved = moved;
  if (!text.failed) by_manager_keep_row(m, &row);
  by_text_fini(&text);
}

static void forget_row(struct by_manager *m, const struct by_manager_job *job, const struct by_manager_plan *plan) {
  struct by_manager_row row = {.table = BY_ROW_PLAN, .gone = true, .job = job->id};
  row.plan.number = plan->number;
  by_manager_keep_row(m, &row);
}

static void keep_helper(struct by_manager *m, const struct by_manager_job *job, const struct by_manager_helper *helper,
                        bool gone) {
  struct by_manager_row row = {
      .table = BY_ROW_HELPER, .gone = gone, .job = job->id, .name = m->hosts[helper->host].name};
  row.helper.joined = helper->state == BY_HELPER_JOINED;
  by_manager_keep_row(m, &row);
}

void by_manager_keep_all(struct by_manager *m) {
  for (const struct by_manager_job *job = m->jobs; job; job = job->next) {
    if (*job->id) by_jobs_keep(m, job);
    if (job->left) continue;
    if (job->plan) keep_plan(m, job, job->plan, true);
    if (job->proposed) keep_plan(m, job, job->proposed, false);
    for (uint32_t i = 0; i < job->n_helpers; i++) keep_helper(m, job, &job->helpers[i], false);
    by_cells_keep(m, job);
  }
}

/* ---- helpers */

static struct by_manager_helper *find_helper(const struct by_manager_job *job, uint32_t host) {
  for (uint32_t i = 0; i < job->n_helpers; i++)
    if (job->helpers[i].host == host) return &job->helpers[i];
  return NULL;
}

static struct by_manager_helper *add_helper(struct by_manager_job *job, uint32_t host) {
  struct by_manager_helper *grown = realloc(job->helpers, (job->n_helpers + 1) * sizeof *grown);
  if (!grown) return NULL;
  job->helpers = grown;
  job->helpers[job->n_helpers] = (struct by_manager_helper){.host = host, .state = BY_HELPER_BARRED};
  return &job->helpers[job->n_helpers++];
}

static bool uses_helper(const struct by_manager *m, const struct by_manager_plan *plan, uint32_t host) {
  for (uint32_t v = plan ? plan->plan->n_ranks : 0; plan && v < plan->plan->n_vertices; v++)
    if (!strcmp(plan->plan->vertices[v].name, m->hosts[host].name)) return true;
  return false;
}

/* Ends the help of those that neither plan uses. */
static void rest(struct by_manager *m, struct by_manager_job *job, bool all) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < job->n_helpers; i++) {
    struct by_manager_helper helper = job->helpers[i];
    bool used = !all && (uses_helper(m, job->plan, helper.host) || uses_helper(m, job->proposed, helper.host));
    bool barred = helper.state == BY_HELPER_BARRED;
    if (used || (barred && !all && m->now < helper.until)) {
      job->helpers[kept++] = helper;
      continue;
    }
    if (!barred)
      by_manager_send_to(m, m->hosts[helper.host].agent,
                         &(struct by_cluster_message){.say = BY_SAY_REST, .job = job->id});
    keep_helper(m, job, &helper, true);
  }
  job->n_helpers = kept;
}

void by_plans_end(struct by_manager *m, struct by_manager_job *job) {
  rest(m, job, true);
  if (job->plan) forget_row(m, job, job->plan);
  if (job->proposed) forget_row(m, job, job->proposed);
}

static bool ask(struct by_manager *m, struct by_manager_job *job, uint32_t host) {
  struct by_manager_helper *helper = find_helper(job, host);
  if (!helper && !(helper = add_helper(job, host))) return false;
  if (helper->state != BY_HELPER_BARRED) return true;
  helper->state = BY_HELPER_ASKED;
  helper->until = m->now + join_wait;
  keep_helper(m, job, helper, false);
  by_manager_send_to(
      m, m->hosts[host].agent,
      &(struct by_cluster_message){
          .say = BY_SAY_HELP, .job = job->id, .root = job->root, .key = job->key, .helper = m->hosts[host].name});
  return true;
}

/* ---- what becomes of a proposal */

static void add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                      const char *format, ...) BY_PRINTF(4, 5);
static void add_event(struct by_manager *m, struct by_manager_job *job, const struct by_manager_plan *plan,
                      const char *format, ...) {
  struct by_manager_event event = {.number = plan->number, .time = m->now, .before = plan->before, .after = plan->rate};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(event.why, sizeof event.why, format, arguments);
  va_end(arguments);
  by_jobs_add_event(m, job, &event, true);
}

static void drop(struct by_manager *m, struct by_manager_job *job) {
  if (!job->proposed) return;
  forget_row(m, job, job->proposed);
  by_plans_free(job->proposed);
  job->proposed = NULL;
  job->asked = job->late = false;
  m->stale = true;
  rest(m, job, false);
}

/* Not taken: it is tried again when it is due, but not at once. */
static void give_up(struct by_manager *m, struct by_manager_job *job, double wait, const char *why) {
  by_info("manager", "job %s (%s) keeps its plan: %s", job->id, job->name, why);
  add_event(m, job, job->proposed, "kept: %.200s", why);
  snprintf(job->trouble, sizeof job->trouble, "%s", why);
  m->counters.kept++;
  job->not_before = m->now + wait;
  drop(m, job);
}

static void send_plan(struct by_manager *m, struct by_manager_job *job) {
  struct by_text text;
  by_text_init(&text);
  by_plan_print(job->proposed->plan, &text);
  if (text.length > BY_CLUSTER_LINE_DOWN - beside_plan) {
    give_up(m, job, m->options.replan, "its plan is longer than a message may be");
  } else if (!text.failed) {
    double iterations = iterations_waited * job->iteration_time;
    job->asked = true;
    job->deadline = m->now + fmin(fmax(iterations, least_wait), most_wait);
    by_manager_send_to(
        m, job->peer,
        &(struct by_cluster_message){
            .say = BY_SAY_PLAN, .job = job->id, .number = job->proposed->number, .plan = by_text_get(&text)});
  }
  by_text_fini(&text);
}

/* Whether all helpers of the proposal are there; one that does not come ends it. */
static bool has_helpers(struct by_manager *m, struct by_manager_job *job) {
  bool all = true;
  for (uint32_t i = 0; i < job->n_helpers; i++) {
    struct by_manager_helper *helper = &job->helpers[i];
    if (!uses_helper(m, job->proposed, helper->host)) continue;
    if (helper->state == BY_HELPER_ASKED && m->now >= helper->until) {
      helper->state = BY_HELPER_BARRED;
      helper->until = m->now + barred_for;
    }
    if (helper->state == BY_HELPER_BARRED) {
      char why[BY_MANAGER_WHY];
      snprintf(why, sizeof why, "helper \"%.64s\" has not come", m->hosts[helper->host].name);
      give_up(m, job, 0, why);
      by_due_mark(job, BY_DUE_HELPER, "%s", why);
      return false;
    }
    all &= helper->state == BY_HELPER_JOINED;
  }
  return all;
}

void by_plans_advance(struct by_manager *m, struct by_manager_job *job) {
  if (!job->proposed || job->late) return;
  if (!job->asked) {
    if (has_helpers(m, job) && job->peer) send_plan(m, job);
    return;
  }
  if (m->now < job->deadline) return;
  by_warn("manager", "job %s (%s) has not answered to plan %llu; it may still come", job->id, job->name,
          (unsigned long long)job->proposed->number);
  add_event(m, job, job->proposed, "no answer within its deadline");
  snprintf(job->trouble, sizeof job->trouble, "rank 0 has not answered to a plan");
  job->late = true;
  m->stale = true;
  job->not_before = m->now + m->options.replan;
}

/* ---- judging */

static struct by_manager_plan *take_plan(const struct by_manager *m, struct by_manager_job *job,
                                         struct by_plan_wish *wish) {
  struct by_manager_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return NULL;
  *plan = (struct by_manager_plan){.number = ++job->numbers,
                                   .plan = wish->plan,
                                   .embedding = wish->embedding,
                                   .shares = wish->shares,
                                   .rate = wish->rate,
                                   .carries = wish->carries,
                                   .before = job->plan ? wish->rate_before : 0,
                                   .made = m->now};
  memcpy(plan->why, job->reason, sizeof plan->why);
  wish->plan = NULL;
  wish->embedding = NULL;
  wish->shares = (struct by_link_shares){0};
  return plan;
}

static void propose(struct by_manager *m, struct by_manager_job *job, struct by_plan_wish *wish) {
  drop(m, job); /* a late one */
  job->proposed = take_plan(m, job, wish);
  if (!job->proposed) return;
  job->asked = job->late = false;
  m->stale = true;
  m->counters.plans++;
  by_jobs_keep(m, job); /* the number, before anybody hears of it */
  keep_plan(m, job, job->proposed, false);
  const struct by_plan *plan = job->proposed->plan;
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
  if (job->planning && !job->retired)
    job->retired = job->plan;
  else
    by_plans_free(job->plan);
  job->plan = NULL;
}

/* What the job has now is known from the wish. False: it has moved meanwhile, and the wish is about what it had. */
static bool take_back(struct by_manager *m, struct by_manager_job *job, struct by_plan_wish *wish) {
  job->planning = false;
  job->planned = m->now;
  job->planned_at = job->iterations;
  if (job->retired) {
    by_plans_free(job->retired);
    job->retired = NULL;
    return false;
  }
  if (wish->status == BANYAN_OK) job->rate_then = wish->rate_now;
  if (job->plan) {
    job->plan->embedding = wish->old;
    wish->old = NULL;
  } else if (wish->before.items) {
    free(job->ring.items);
    job->ring = wish->before;
    wish->before = (struct by_link_shares){0};
    m->stale = true;
  }
  return !job->left && !job->own_plan;
}

/* Its plan names a helper that is not there: ranks repeat such trees among themselves, whatever the network carries. */
static bool misses_helper(const struct by_manager *m, const struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->n_helpers; i++)
    if (job->helpers[i].state == BY_HELPER_BARRED && uses_helper(m, job->plan, job->helpers[i].host)) return true;
  return false;
}

/* Rates of late are not those to come: so a gain beside others must be large, and be found again and again. */
static bool is_worth_it(const struct by_manager *m, struct by_manager_job *job, const struct by_plan_wish *wish) {
  double gain = wish->sways ? swaying * m->options.gain : m->options.gain;
  if (!job->plan || misses_helper(m, job)) return true;
  job->gains = wish->gain > 1 + gain ? job->gains + 1 : 0;
  if (job->gains && wish->sways && job->gains < ENOUGH) {
    char why[BY_MANAGER_WHY];
    memcpy(why, job->reason, sizeof why);
    by_due_mark(job, BY_DUE_CHANGE, "%s", why);
    return false;
  }
  return job->gains > 0;
}

void by_manager_planned(struct by_manager *m, struct by_plan_wish *wish, double now) {
  struct by_manager_job *job = wish->job;
  m->now = now;
  m->counters.planned++;
  if (!take_back(m, job, wish)) {
    by_plan_wish_destroy(wish);
    return;
  }
  if (wish->status != BANYAN_OK) {
    by_warn("manager", "no plan for job %s (%s): %s", job->id, job->name, wish->why);
    snprintf(job->trouble, sizeof job->trouble, "%s", wish->why);
    job->not_before = now + m->options.replan;
  } else {
    *job->trouble = 0;
    if (is_worth_it(m, job, wish)) propose(m, job, wish);
  }
  by_plan_wish_destroy(wish);
}

/* ---- answers */

/* So that a job that says nonsense, or takes no plan, costs others no planning. */
static double longer_each_time(const struct by_manager *m, uint32_t times) {
  return fmin(m->options.interval * (double)(1u << (times < 10 ? times : 10)), m->options.replan);
}

/* Once it may be, as after a manager has lost what it kept. */
static void doubt_unknown(const struct by_manager *m, struct by_manager_job *job) {
  if (m->now < job->not_before) return; /* it is waited for already */
  if (job->unknown) job->not_before = m->now + longer_each_time(m, job->unknown - 1);
  job->unknown++;
}

void by_plans_moved(struct by_manager *m, struct by_manager_job *job, uint64_t number) {
  if (job->own_plan || (job->plan && job->plan->number == number && number)) return;
  if (!job->proposed || job->proposed->number != number) {
    by_warn("manager", "job %s (%s) runs plan %llu, which is not known any more: it is planned again", job->id,
            job->name, (unsigned long long)number);
    if (number > job->numbers && number - job->numbers < much_later) job->numbers = number;
    if (job->plan) forget_row(m, job, job->plan);
    retire(job);
    m->stale = true;
    doubt_unknown(m, job);
    by_due_mark(job, BY_DUE_NEW, "it runs a plan that is not known");
    return;
  }
  add_event(m, job, job->proposed, "%.200s", job->proposed->why);
  if (job->plan)
    forget_row(m, job, job->plan);
  else if (job->key)
    by_due_mark(job, BY_DUE_HELPER, "helpers may join");
  retire(job);
  job->plan = job->proposed;
  job->proposed = NULL;
  job->gains = 0;
  job->asked = job->late = false;
  job->rate_then = job->plan->carries;
  *job->trouble = 0;
  m->stale = true;
  job->refusals = 0;
  m->counters.moves++;
  keep_plan(m, job, job->plan, true);
  rest(m, job, false);
}

void by_plans_kept(struct by_manager *m, struct by_manager_job *job, uint64_t number, const char *why) {
  if (!job->proposed || job->proposed->number != number) return;
  give_up(m, job, longer_each_time(m, job->refusals++), why);
}

static void drop_all(struct by_manager *m, struct by_manager_job *job) {
  drop(m, job);
  if (job->plan) forget_row(m, job, job->plan);
  retire(job);
  rest(m, job, false);
}

void by_plans_set_own(struct by_manager *m, struct by_manager_job *job, const char *own_plan) {
  if (own_plan ? job->own_plan && !strcmp(job->own_plan, own_plan) : !job->own_plan) return;
  char *copy = own_plan ? strdup(own_plan) : NULL;
  if (own_plan && !copy) return; /* rank 0 uses no plan of the manager's anyway */
  struct by_manager_event event = {.number = job->numbers, .time = m->now};
  if (own_plan) {
    char name[65];
    by_keep_printable(own_plan, name, sizeof name);
    snprintf(event.why, sizeof event.why, "its user set plan \"%s\", which stays in use", name);
  } else {
    snprintf(event.why, sizeof event.why, "its user no longer sets a plan");
  }
  by_info("manager", "job %s (%s): %s", job->id, job->name, event.why);
  by_jobs_add_event(m, job, &event, true);
  free(job->own_plan);
  job->own_plan = copy;
  if (own_plan) drop_all(m, job);
  job->due = BY_DUE_NONE;
  if (!own_plan) by_due_mark(job, BY_DUE_NEW, "%s", event.why);
  *job->trouble = 0;
  m->stale = true;
}

void by_plans_helping(struct by_manager *m, struct by_manager_job *job, uint32_t host, const struct by_manager_peer *by,
                      const char *why) {
  struct by_manager_helper *helper = find_helper(job, host);
  if (!helper) {
    if (by)
      by_manager_send_to(m, m->hosts[host].agent, &(struct by_cluster_message){.say = BY_SAY_REST, .job = job->id});
    return;
  }
  helper->state = by ? BY_HELPER_JOINED : BY_HELPER_BARRED;
  helper->until = by ? 0 : m->now + barred_for;
  helper->by = by ? by->number : 0;
  keep_helper(m, job, helper, false);
  if (!by) {
    by_info("manager", "\"%s\" helps job %s (%s) no longer: %s", m->hosts[host].name, job->id, job->name,
            why ? why : "");
    if (uses_helper(m, job->plan, host))
      by_due_mark(job, BY_DUE_HELPER, "helper \"%.64s\" is gone", m->hosts[host].name);
  }
  by_plans_advance(m, job);
}

/* A helper joins by an agent's word, and says so again on each connection before the first report. */
void by_plans_end_unsaid(struct by_manager *m, const struct by_manager_peer *agent) {
  for (struct by_manager_job *job = m->jobs; job; job = job->next) {
    const struct by_manager_helper *helper = job->left ? NULL : find_helper(job, agent->index);
    if (helper && helper->state == BY_HELPER_JOINED && helper->by != agent->number)
      by_plans_helping(m, job, agent->index, NULL, "its agent does not know it");
  }
}

/* One whose host has lost power is not seen to close its connection. */
static bool is_silent(const struct by_manager *m, const struct by_manager_host *host) {
  double heard = host->agent ? host->agent->heard : host->parted;
  return m->now - heard > fmax(silence, 2 * m->options.interval);
}

void by_plans_end_silent(struct by_manager *m, struct by_manager_job *job) {
  for (uint32_t i = 0; i < job->n_helpers; i++) {
    struct by_manager_helper helper = job->helpers[i];
    if (helper.state == BY_HELPER_JOINED && is_silent(m, &m->hosts[helper.host]))
      by_plans_helping(m, job, helper.host, NULL, "nothing is heard of its host any more");
  }
}
