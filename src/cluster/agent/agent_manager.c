/* The link to the manager: what is said on it, what it brings, and when it is made anew. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent_parts.h"
#include "log.h"

static const double first_delay = 0.1, least_longest = 0.5, most_refused = 60; /* seconds */

/* ---- saying */

/* What it cannot take it must be told anew: that is what a new connection is for. */
static void break_link(struct by_agent *agent, const char *why, uint64_t now) {
  agent->options.calls->disconnect(agent->options.context);
  by_agent_manager_gone(agent, why, now);
}

void by_agent_tell_line(struct by_agent *agent, const char *line, uint64_t now) {
  if (agent->link != BY_AGENT_LINK_OPEN) return;
  if (!agent->options.calls->say_manager(agent->options.context, line, strlen(line)))
    break_link(agent, "it does not read what it is told", now);
}

void by_agent_tell_manager(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  struct by_text text;
  if (agent->link != BY_AGENT_LINK_OPEN) return;
  by_text_init(&text);
  by_cluster_message_print(message, &text);
  if (text.failed || text.length > BY_CLUSTER_LINE_UP)
    by_error("agent", "\"%s\" of %zu bytes cannot be said", by_cluster_say_name(message->say), text.length);
  else
    by_agent_tell_line(agent, by_text_get(&text), now);
  by_text_fini(&text);
}

static void say_hello(struct by_agent *agent, uint64_t now) {
  agent->renew = false;
  struct by_cluster_interface interfaces[BY_AGENT_INTERFACES] = {0};
  struct by_cluster_message hello = {.say = BY_SAY_HELLO,
                                     .version = BY_CLUSTER_VERSION,
                                     .host = agent->options.host,
                                     .may_help = agent->options.may_help,
                                     .age = by_clock_to_seconds(now - agent->started),
                                     .n_interfaces = agent->n_interfaces,
                                     .interfaces = interfaces};
  for (uint32_t i = 0; i < agent->n_interfaces; i++) {
    const struct by_agent_counter *counter = &agent->interfaces[i].counter;
    interfaces[i] =
        (struct by_cluster_interface){.name = counter->name, .address = counter->address, .rate = counter->rate};
  }
  by_agent_tell_manager(agent, &hello, now);
}

/* A manager that was away has missed it, and one that is new has never heard it. */
static void say_all(struct by_agent *agent, uint64_t now) {
  say_hello(agent, now);
  for (struct by_agent_job *job = agent->jobs; job; job = job->next)
    for (int i = 0; i < BY_AGENT_LINES; i++) job->unsaid[i] = job->lines[i] != NULL;
  by_agent_say_unsaid(agent, now);
  for (const struct by_agent_helper *helper = agent->helpers; helper; helper = helper->next) {
    struct by_cluster_message helping = {
        .say = BY_SAY_HELPING, .job = helper->job, .helper = helper->name, .joined = true};
    if (helper->joined && !helper->resting) by_agent_tell_manager(agent, &helping, now);
  }
  by_agent_report(agent, now);
}

/* ---- connecting */

static double longest_delay(const struct by_agent *agent) {
  return fmax(agent->interval / 2, least_longest);
}

/* Longer each time, and not the same for all agents, who lose a manager at the same moment. */
static void wait_to_connect(struct by_agent *agent, uint64_t now) {
  agent->delay = fmin(agent->delay > 0 ? 2 * agent->delay : first_delay, longest_delay(agent));
  agent->link = BY_AGENT_LINK_WAITING;
  agent->connect_at = now + by_clock_from_seconds(agent->delay * (0.5 + by_rng_unit(&agent->rng) / 2));
}

void by_agent_manager_gone(struct by_agent *agent, const char *why, uint64_t now) {
  /* A name with two addresses fails in two ways, in turn: each is said once until the manager is there again. */
  bool fresh = by_repeats_take(&agent->reasons, "", 0, why, 1);
  bool news = agent->link == BY_AGENT_LINK_OPEN || fresh;
  if (agent->link == BY_AGENT_LINK_OPEN) agent->link_since = now;
  by_keep_printable(why, agent->why, sizeof agent->why);
  if (news) {
    by_warn("agent", "no manager at %s: %s; jobs go on as they are, it is tried again", agent->options.manager,
            agent->why);
    agent->told = false;
  }
  agent->welcome = false;
  wait_to_connect(agent, now);
}

/* Which interfaces there are is said with hello only. */
void by_agent_renew_link(struct by_agent *agent, uint64_t now) {
  if (!agent->renew || agent->link != BY_AGENT_LINK_OPEN) return;
  agent->options.calls->disconnect(agent->options.context);
  agent->welcome = false;
  agent->link = BY_AGENT_LINK_WAITING;
  agent->connect_at = now;
}

void by_agent_tick_link(struct by_agent *agent, uint64_t now) {
  if (agent->link != BY_AGENT_LINK_WAITING || now < agent->connect_at) return;
  agent->link = BY_AGENT_LINK_CONNECTING;
  if (agent->options.calls->connect(agent->options.context) != BANYAN_OK)
    by_agent_manager_gone(agent, banyan_error_text(), now);
}

void by_agent_manager_came(struct by_agent *agent, uint64_t now) {
  agent->link = BY_AGENT_LINK_OPEN;
  agent->link_since = now;
  agent->why[0] = '\0';
  say_all(agent, now);
}

/* ---- what it says */

static void hear_welcome(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message welcome = *message;
  welcome.host = agent->options.host;
  agent->welcome = true;
  agent->delay = 0;
  agent->interval = message->interval;
  agent->report_at = now + by_clock_from_seconds(agent->interval);
  agent->manager_rate = message->rate;
  by_log(agent->told ? BY_LOG_INFO : BY_LOG_WARN, "agent", "the manager at %s is there; reports go every %g s",
         agent->options.manager, agent->interval);
  agent->told = true;
  agent->reasons = (struct by_repeats){0};
  if (message->rate > 0) agent->options.calls->take_rate(agent->options.context, message->rate);
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    if (rank->job) by_agent_tell_rank(agent, rank, &welcome);
}

static void hear_classes(struct by_agent *agent, const struct by_cluster_message *message) {
  for (uint32_t i = 0; i < message->n_jobs; i++) {
    struct by_agent_job *job = by_agent_find_job(agent, message->jobs[i].job);
    if (!job) continue;
    job->managed = true;
    if (job->class_ != message->jobs[i].class_) by_agent_set_class(agent, job, message->jobs[i].class_);
  }
}

/* To rank 0, which answers itself. */
static void hear_plan(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message kept = {.say = BY_SAY_KEPT,
                                    .job = message->job,
                                    .number = message->number,
                                    .why = "rank 0 of the job is not connected to this host's agent"};
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next) {
    if (!rank->job || rank->rank != 0 || strcmp(rank->job->id, message->job) != 0) continue;
    by_agent_tell_rank(agent, rank, message);
    return;
  }
  by_agent_tell_manager(agent, &kept, now);
}

/* To who has waited for it. */
static void hear_cells(const struct by_agent *agent, const struct by_cluster_message *message) {
  for (const struct by_agent_rank *rank = agent->ranks; rank; rank = rank->next)
    if (rank->job && rank->rank == 0 && !strcmp(rank->job->id, message->job)) by_agent_tell_rank(agent, rank, message);
}

static void say_helping(struct by_agent *agent, const struct by_cluster_message *help, bool joined, const char *why,
                        uint64_t now) {
  struct by_cluster_message helping = {
      .say = BY_SAY_HELPING, .job = help->job, .helper = help->helper, .joined = joined, .why = why};
  by_agent_tell_manager(agent, &helping, now);
}

static enum banyan_status start_helper(struct by_agent *agent, const struct by_cluster_message *help) {
  if (!agent->options.may_help) return by_fail(BANYAN_ERR_UNSUPPORTED, "this host's agent runs with --no-helpers");
  if (agent->n_helpers == BY_AGENT_HELPERS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host helps %d jobs already", BY_AGENT_HELPERS);
  struct by_agent_helper *helper = calloc(1, sizeof *helper);
  if (!helper || !(helper->name = by_agent_copy_text(help->helper))) {
    free(helper);
    return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  }
  enum banyan_status status = agent->options.calls->help(agent->options.context, help);
  if (status != BANYAN_OK) {
    free(helper->name);
    free(helper);
    return status;
  }
  strcpy(helper->job, help->job);
  helper->next = agent->helpers;
  agent->helpers = helper;
  agent->n_helpers++;
  return BANYAN_OK;
}

static void hear_rest(struct by_agent *agent, const char *job) {
  struct by_agent_helper *helper = *by_agent_find_helper(agent, job);
  if (!helper) return;
  helper->resting = true;
  free(helper->again);
  helper->again = NULL;
  agent->options.calls->rest(agent->options.context, job);
}

/* One that is about to end does not help any more: another one comes in its place. */
static void help_later(struct by_agent_helper *helper, const struct by_cluster_message *help) {
  struct by_text line;
  by_text_init(&line);
  by_cluster_message_print(help, &line);
  free(helper->again);
  helper->again = line.failed ? NULL : by_agent_copy_text(by_text_get(&line));
  by_text_fini(&line);
}

/* A manager that was started again asks for what it has already. */
static void hear_help(struct by_agent *agent, const struct by_cluster_message *help, uint64_t now) {
  struct by_agent_helper *helper = *by_agent_find_helper(agent, help->job);
  if (helper) {
    if (helper->resting)
      help_later(helper, help);
    else if (strcmp(helper->name, help->helper) != 0)
      say_helping(agent, help, false, "this host helps the job already, by another name", now);
    else if (helper->joined)
      say_helping(agent, help, true, NULL, now);
    return;
  }
  if (start_helper(agent, help) != BANYAN_OK) {
    by_warn("agent", "job %s is not helped: %s", help->job, banyan_error_text());
    say_helping(agent, help, false, banyan_error_text(), now);
  }
}

/* What it does not like will not pass soon: twice as long each time, until it has gone well for a while. */
static void stay_away(struct by_agent *agent, const char *why, uint64_t now) {
  bool went_well = agent->welcome && now - agent->link_since > by_clock_from_seconds(most_refused);
  agent->away = went_well || !(agent->away > 0) ? longest_delay(agent) : fmin(2 * agent->away, most_refused);
  break_link(agent, why, now);
  agent->connect_at = now + by_clock_from_seconds(agent->away * (0.5 + by_rng_unit(&agent->rng) / 2));
}

static void hear_refusal(struct by_agent *agent, const char *why, uint64_t now) {
  char text[BY_AGENT_TEXT];
  snprintf(text, sizeof text, "it refuses this agent: %.200s", why);
  stay_away(agent, text, now);
}

static void hear(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  switch (message->say) {
  case BY_SAY_WELCOME: hear_welcome(agent, message, now); break;
  case BY_SAY_CLASSES: hear_classes(agent, message); break;
  case BY_SAY_PLAN: hear_plan(agent, message, now); break;
  case BY_SAY_CELLS: hear_cells(agent, message); break;
  case BY_SAY_HELP: hear_help(agent, message, now); break;
  case BY_SAY_REST: hear_rest(agent, message->job); break;
  case BY_SAY_REFUSED: hear_refusal(agent, message->why, now); break;
  default: break;
  }
}

void by_agent_manager_hear(struct by_agent *agent, const char *line, size_t length, uint64_t now) {
  struct by_cluster_message message;
  char why[BY_AGENT_TEXT];
  enum banyan_status status = by_cluster_message_read(line, length, &message);
  if (status == BANYAN_OK && by_cluster_say_is_up(message.say))
    status = by_fail(BANYAN_ERR_PROTOCOL, "says \"%s\", as agents do", by_cluster_say_name(message.say));
  if (status == BANYAN_OK) {
    hear(agent, &message, now);
  } else {
    agent->refused++;
    snprintf(why, sizeof why, "it says what no manager says (is it one, of this version?): %.150s",
             banyan_error_text());
    stay_away(agent, why, now);
  }
  by_cluster_message_fini(&message);
}
