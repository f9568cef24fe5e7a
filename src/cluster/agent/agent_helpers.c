#include "agent_helpers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static void set_state(struct by_agent_helper *helper, enum by_agent_helper_state state) {
  static const char *const names[] = {"starting", "joined", "cancelled", "leaving"};
  static const unsigned next[] = {
      [BY_AGENT_HELPER_STARTING] = 1 << BY_AGENT_HELPER_JOINED | 1 << BY_AGENT_HELPER_CANCELLED,
      [BY_AGENT_HELPER_JOINED] = 1 << BY_AGENT_HELPER_LEAVING,
      [BY_AGENT_HELPER_CANCELLED] = 0,
      [BY_AGENT_HELPER_LEAVING] = 0,
  };
  by_debug("agent", "helper of job %s: %s -> %s", helper->job, names[helper->state], names[state]);
  assert(next[helper->state] >> state & 1);
  helper->state = state;
}

static bool is_leaving(const struct by_agent_helper *helper) {
  return helper->state == BY_AGENT_HELPER_CANCELLED || helper->state == BY_AGENT_HELPER_LEAVING;
}

bool by_agent_helper_has_joined(const struct by_agent_helper *helper) {
  return helper->state == BY_AGENT_HELPER_JOINED || helper->state == BY_AGENT_HELPER_LEAVING;
}

/* Where the helper of a job is in the list; *it is NULL where there is none. */
static struct by_agent_helper **find(struct by_agent_helpers *helpers, const char *job) {
  struct by_agent_helper **at = &helpers->all;
  while (*at && strcmp((*at)->job, job) != 0) at = &(*at)->next;
  return at;
}

static void drop(struct by_agent_helpers *helpers, struct by_agent_helper **at) {
  struct by_agent_helper *helper = *at;
  *at = helper->next;
  helpers->n--;
  free(helper->name);
  free(helper->again);
  free(helper);
}

void by_agent_helpers_fini(struct by_agent_helpers *helpers) {
  while (helpers->all) drop(helpers, &helpers->all);
}

static void send_helping(const struct by_agent_helpers *helpers, const char *job, const char *name, bool joined,
                         const char *why, uint64_t now) {
  struct by_cluster_message message = {.say = BY_SAY_HELPING, .job = job, .helper = name, .joined = joined, .why = why};
  by_agent_session_send(helpers->session, &message, now);
}

void by_agent_helpers_send(const struct by_agent_helpers *helpers, uint64_t now) {
  for (const struct by_agent_helper *helper = helpers->all; helper; helper = helper->next)
    if (helper->state == BY_AGENT_HELPER_JOINED) send_helping(helpers, helper->job, helper->name, true, NULL, now);
}

/* ---- what the manager asks for */

static enum banyan_status start(struct by_agent_helpers *helpers, const struct by_cluster_message *help) {
  if (!helpers->options->may_help) return by_fail(BANYAN_ERR_UNSUPPORTED, "this host's agent runs with --no-helpers");
  if (helpers->n == BY_AGENT_HELPERS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host helps %d jobs already", BY_AGENT_HELPERS);
  struct by_agent_helper *helper = calloc(1, sizeof *helper);
  if (!helper || !(helper->name = strdup(help->helper))) {
    free(helper);
    return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  }
  enum banyan_status status = helpers->options->calls->help(helpers->options->context, help);
  if (status != BANYAN_OK) {
    free(helper->name);
    free(helper);
    return status;
  }
  strcpy(helper->job, help->job);
  helper->next = helpers->all;
  helpers->all = helper;
  helpers->n++;
  return BANYAN_OK;
}

/* One that is about to end does not help any more: another one comes in its place. */
static void start_later(struct by_agent_helper *helper, const struct by_cluster_message *help) {
  struct by_text line;
  by_text_init(&line);
  by_cluster_message_print(help, &line);
  free(helper->again);
  helper->again = line.failed ? NULL : strdup(by_text_get(&line));
  if (!helper->again) by_error("agent", "out of memory; what was said is lost");
  by_text_fini(&line);
}

/* A manager that was started again asks for what it has already. */
void by_agent_helpers_start(struct by_agent_helpers *helpers, const struct by_cluster_message *help, uint64_t now) {
  struct by_agent_helper *helper = *find(helpers, help->job);
  if (helper && is_leaving(helper)) {
    start_later(helper, help);
  } else if (helper && strcmp(helper->name, help->helper) != 0) {
    send_helping(helpers, help->job, help->helper, false, "this host helps the job already, by another name", now);
  } else if (helper) {
    if (helper->state == BY_AGENT_HELPER_JOINED) send_helping(helpers, help->job, help->helper, true, NULL, now);
  } else if (start(helpers, help) != BANYAN_OK) {
    by_warn("agent", "job %s is not helped: %s", help->job, banyan_error_text());
    send_helping(helpers, help->job, help->helper, false, banyan_error_text(), now);
  }
}

void by_agent_helpers_stop(struct by_agent_helpers *helpers, const char *job) {
  struct by_agent_helper *helper = *find(helpers, job);
  if (!helper) return;
  if (!is_leaving(helper))
    set_state(helper, helper->state == BY_AGENT_HELPER_JOINED ? BY_AGENT_HELPER_LEAVING : BY_AGENT_HELPER_CANCELLED);
  free(helper->again);
  helper->again = NULL;
  helpers->options->calls->rest(helpers->options->context, job);
}

/* ---- what helpers do */

void by_agent_helpers_joined(struct by_agent_helpers *helpers, const char *job, uint64_t now) {
  struct by_agent_helper *helper = *find(helpers, job);
  if (!helper || is_leaving(helper)) return;
  if (helper->state != BY_AGENT_HELPER_JOINED) set_state(helper, BY_AGENT_HELPER_JOINED);
  send_helping(helpers, helper->job, helper->name, true, NULL, now);
}

static void start_again(struct by_agent_helpers *helpers, const char *line, uint64_t now) {
  struct by_cluster_message help;
  if (by_cluster_message_read(line, strlen(line), &help) != BANYAN_OK) {
    by_error("agent", "%s", banyan_error_text());
    return;
  }
  by_agent_helpers_start(helpers, &help, now);
  by_cluster_message_fini(&help);
}

void by_agent_helpers_ended(struct by_agent_helpers *helpers, const char *job, const char *why, uint64_t now) {
  struct by_agent_helper **at = find(helpers, job);
  if (!*at) return;
  char *again = (*at)->again;
  (*at)->again = NULL;
  if (!again) send_helping(helpers, (*at)->job, (*at)->name, false, why, now);
  drop(helpers, at);
  if (again) start_again(helpers, again, now);
  free(again);
}
