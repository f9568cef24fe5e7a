#include "agent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"
#include "log.h"

/* Changes that come together are reported together, and those that never end a tenth of an interval apart. */
static const uint64_t soon = 50 * BY_MILLISECOND;
static const double apart = 0.1;

struct by_agent_job *by_agent_find_job(const struct by_agent *agent, const char *id) {
  for (struct by_agent_job *job = agent->jobs; job; job = job->next)
    if (!strcmp(job->id, id)) return job;
  return NULL;
}

void by_agent_note_change(struct by_agent *agent, uint64_t now) {
  uint64_t earliest = agent->ticked_at + by_clock_from_seconds(apart * agent->interval);
  if (agent->change_at == UINT64_MAX) agent->change_at = now + soon > earliest ? now + soon : earliest;
}

void by_agent_links_changed(struct by_agent *agent, uint64_t now) {
  by_agent_note_change(agent, now);
}

char *by_agent_copy_text(const char *text) {
  char *copy = strdup(text);
  if (!copy) by_error("agent", "out of memory; what was said is lost");
  return copy;
}

/* ---- time */

static uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

uint64_t by_agent_next(const struct by_agent *agent) {
  uint64_t next = earlier(agent->report_at, agent->change_at);
  return agent->link == BY_AGENT_LINK_WAITING ? earlier(next, agent->connect_at) : next;
}

/* One that has not said how long it is never goes back up: ranks that leave take what they have sent with them. */
static void find_place(const struct by_agent *agent, struct by_agent_job *job) {
  struct by_agent_deeds deeds;
  uint32_t before = job->place.queue;
  by_agent_merge(agent, job, &deeds);
  by_job_length_hear(&job->length, deeds.expected, deeds.iterations);
  job->place = by_priority_find(&agent->options.rules, 1, deeds.iterations, deeds.sent, &job->length);
  if (!job->length.expected && job->place.queue < before) job->place.queue = before;
}

/* Jobs that have no class by the manager and are past their first iterations, in order; and how many steps that are, as
 * equals go together. */
static uint32_t put_in_order(struct by_agent *agent, struct by_agent_job **out, uint32_t *steps) {
  uint32_t n = 0;
  for (struct by_agent_job *job = agent->jobs; job; job = job->next) {
    if (job->managed) continue;
    find_place(agent, job);
    if (!job->place.queue) continue;
    uint32_t at = n++;
    for (; at > 0 && by_priority_compare(&job->place, &out[at - 1]->place) < 0; at--) out[at] = out[at - 1];
    out[at] = job;
  }
  *steps = n;
  for (uint32_t i = 1; i < n; i++)
    *steps -= by_priority_are_equals(&agent->options.rules, &out[i - 1]->place, &out[i]->place);
  return n;
}

/* Without a manager that has said it, the host decides by what it sees. All jobs meet, on its link. */
static void set_classes(struct by_agent *agent) {
  struct by_agent_job **order = calloc((size_t)agent->n_jobs + 1, sizeof(struct by_agent_job *));
  uint32_t steps, lowest = 0, above = 0;
  if (!order) return; /* they keep those that they have */
  uint32_t n = put_in_order(agent, order, &steps);
  for (uint32_t i = 0; i < n; i++) {
    if (i == 0 || !by_priority_are_equals(&agent->options.rules, &order[i - 1]->place, &order[i]->place))
      steps--, above = lowest;
    lowest = by_priority_class(order[i]->place.queue, above, steps);
    if (lowest != order[i]->class_) by_agent_set_class(agent, order[i], lowest);
  }
  free(order);
}

void by_agent_tick(struct by_agent *agent, uint64_t now) {
  by_agent_tick_link(agent, now);
  by_repeats_flush(&agent->rejected, "agent", by_clock_to_seconds(now));
  if (now < agent->report_at && now < agent->change_at) return;
  if (now >= agent->report_at) agent->report_at = now + by_clock_from_seconds(agent->interval);
  agent->change_at = UINT64_MAX;
  agent->ticked_at = now;
  by_agent_count(agent, now);
  by_agent_renew_link(agent, now);
  set_classes(agent);
  by_agent_say_unsaid(agent, now);
  by_agent_report(agent, now);
}

/* ---- helpers */

struct by_agent_helper **by_agent_find_helper(struct by_agent *agent, const char *job) {
  struct by_agent_helper **at = &agent->helpers;
  while (*at && strcmp((*at)->job, job) != 0) at = &(*at)->next;
  return at;
}

static void drop_helper(struct by_agent *agent, struct by_agent_helper **at) {
  struct by_agent_helper *helper = *at;
  *at = helper->next;
  agent->n_helpers--;
  free(helper->name);
  free(helper->again);
  free(helper);
}

static void tell_helping(struct by_agent *agent, const struct by_agent_helper *helper, bool joined, const char *why,
                         uint64_t now) {
  struct by_cluster_message message = {
      .say = BY_SAY_HELPING, .job = helper->job, .helper = helper->name, .joined = joined, .why = why};
  by_agent_tell_manager(agent, &message, now);
}

void by_agent_helper_joined(struct by_agent *agent, const char *job, uint64_t now) {
  struct by_agent_helper *helper = *by_agent_find_helper(agent, job);
  if (!helper || helper->resting) return;
  helper->joined = true;
  tell_helping(agent, helper, true, NULL, now);
}

void by_agent_helper_ended(struct by_agent *agent, const char *job, const char *why, uint64_t now) {
  struct by_agent_helper **at = by_agent_find_helper(agent, job);
  if (!*at) return;
  char *again = (*at)->again;
  (*at)->again = NULL;
  if (!again) tell_helping(agent, *at, false, why, now);
  drop_helper(agent, at);
  if (again) by_agent_manager_hear(agent, again, strlen(again), now);
  free(again);
}

/* ---- all */

enum banyan_status by_agent_create(const struct by_agent_options *options, uint64_t now, struct by_agent **out) {
  struct by_agent *agent = calloc(1, sizeof *agent);
  *out = agent;
  if (!agent) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  agent->options = *options;
  agent->interval = options->interval;
  agent->started = agent->link_since = now;
  agent->report_at = now + by_clock_from_seconds(agent->interval);
  agent->change_at = UINT64_MAX;
  agent->link = options->manager ? BY_AGENT_LINK_WAITING : BY_AGENT_LINK_NONE;
  agent->connect_at = now;
  by_agent_users_init(agent, now);
  by_rng_init(&agent->rng, options->seed);
  by_agent_count(agent, now);
  return BANYAN_OK;
}

void by_agent_destroy(struct by_agent *agent) {
  if (!agent) return;
  while (agent->ranks) by_agent_drop_rank(agent, agent->ranks);
  while (agent->jobs) by_agent_drop_job(agent, agent->jobs);
  while (agent->helpers) drop_helper(agent, &agent->helpers);
  by_agent_users_free(agent);
  by_repeats_flush(&agent->rejected, "agent", INFINITY);
  free(agent);
}
