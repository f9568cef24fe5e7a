#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent_state.h"
#include "clock.h"
#include "json_doc.h"

/* The agent: handles the manager's messages, gives classes without a manager, and prints its status. It also runs
 * helpers of other hosts' jobs and servers of trees through switches for the manager. A job has at most one of each;
 * "helper" means either.
 *
 *   state      next states        meaning
 *   STARTING   JOINED, CANCELLED  its job has not admitted it yet
 *   JOINED     LEAVING            it takes part
 *   CANCELLED  -                  it must leave before it has joined
 *   LEAVING    -                  it must leave
 *
 * In each state it may end, and is then removed. */

enum by_agent_helper_state {
  BY_AGENT_HELPER_STARTING,
  BY_AGENT_HELPER_JOINED,
  BY_AGENT_HELPER_CANCELLED,
  BY_AGENT_HELPER_LEAVING
};

struct by_agent_helper {
  LIST_ENTRY(by_agent_helper) entry;
  char job[BY_CLUSTER_JOB_ID + 1];
  bool server;
  uint32_t trees; /* Trees of a server. */
  char *name;
  enum by_agent_helper_state state;
  char *next_request; /* Line of the manager's next request for it, to be run after it has ended; NULL: none. */
};

static const char *kind_of(bool server) {
  return server ? "server" : "helper";
}

static void set_state(struct by_agent_helper *helper, enum by_agent_helper_state state) {
  static const char *const names[] = {"starting", "joined", "cancelled", "leaving"};
  static const unsigned next[] = {
      [BY_AGENT_HELPER_STARTING] = 1 << BY_AGENT_HELPER_JOINED | 1 << BY_AGENT_HELPER_CANCELLED,
      [BY_AGENT_HELPER_JOINED] = 1 << BY_AGENT_HELPER_LEAVING,
      [BY_AGENT_HELPER_CANCELLED] = 0,
      [BY_AGENT_HELPER_LEAVING] = 0,
  };
  by_debug("agent", "%s of job %s: %s -> %s", kind_of(helper->server), helper->job, names[helper->state], names[state]);
  assert(next[helper->state] >> state & 1);
  helper->state = state;
}

static bool is_leaving(const struct by_agent_helper *helper) {
  return helper->state == BY_AGENT_HELPER_CANCELLED || helper->state == BY_AGENT_HELPER_LEAVING;
}

/* Returns NULL if the job has none. */
static struct by_agent_helper *find_helper(const struct by_agent *agent, const char *job, bool server) {
  struct by_agent_helper *helper;
  LIST_FOREACH(helper, &agent->helpers, entry) {
    if (helper->server == server && !strcmp(helper->job, job)) break;
  }
  return helper;
}

static void drop_helper(struct by_agent *agent, struct by_agent_helper *helper) {
  LIST_REMOVE(helper, entry);
  agent->n_helpers--;
  free(helper->name);
  free(helper->next_request);
  free(helper);
}

static void send_helping(struct by_agent *agent, const char *job, const char *name, bool server, const char *why,
                         uint64_t now) {
  struct by_cluster_message message = {
      .type = BY_MESSAGE_HELPING, .job = job, .helper = name, .server = server, .joined = !why, .why = why};
  by_agent_session_send(agent, &message, now);
}

static void send_joined(struct by_agent *agent, const struct by_agent_helper *helper, uint64_t now) {
  send_helping(agent, helper->job, helper->name, helper->server, NULL, now);
}

/* ---- the manager's requests */

static enum banyan_status add_helper(struct by_agent *agent, const struct by_cluster_message *help) {
  if (help->server ? !agent->options.may_serve : !agent->options.may_help)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host's agent runs with --no-%ss", kind_of(help->server));
  if (agent->n_helpers == BY_AGENT_HELPERS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "this host runs %d helpers and servers already", BY_AGENT_HELPERS);
  struct by_agent_helper *helper = calloc(1, sizeof *helper);
  if (!helper) return by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  strcpy(helper->job, help->job);
  helper->server = help->server;
  helper->trees = help->trees;
  LIST_INSERT_HEAD(&agent->helpers, helper, entry);
  agent->n_helpers++;
  helper->name = strdup(help->helper);
  enum banyan_status status = helper->name ? agent->options.calls->help(agent->options.context, help)
                                           : by_fail(BANYAN_ERR_NO_MEMORY, "the agent is out of memory");
  if (status != BANYAN_OK) drop_helper(agent, helper);
  return status;
}

/* Stores a request until the old process, which is about to end, has ended. */
static void start_later(struct by_agent_helper *helper, const struct by_cluster_message *help) {
  struct by_text line = by_cluster_message_line(help);
  free(helper->next_request);
  helper->next_request = line.failed ? NULL : strdup(by_text_get(&line));
  if (!helper->next_request) by_error("agent", "out of memory; a request for a helper is lost");
  by_text_fini(&line);
}

static void stop_helper(struct by_agent *agent, const char *job, bool server) {
  struct by_agent_helper *helper = find_helper(agent, job, server);
  if (!helper) return;
  if (!is_leaving(helper))
    set_state(helper, helper->state == BY_AGENT_HELPER_JOINED ? BY_AGENT_HELPER_LEAVING : BY_AGENT_HELPER_CANCELLED);
  free(helper->next_request);
  helper->next_request = NULL;
  agent->options.calls->rest(agent->options.context, job, server);
}

/* A restarted manager requests helpers that run already. A server that must serve more trees is restarted. */
static void start_helper(struct by_agent *agent, const struct by_cluster_message *help, uint64_t now) {
  struct by_agent_helper *helper = find_helper(agent, help->job, help->server);
  if (helper && !is_leaving(helper) && helper->trees < help->trees) stop_helper(agent, help->job, help->server);
  if (helper && is_leaving(helper)) {
    start_later(helper, help);
  } else if (helper && strcmp(helper->name, help->helper) != 0) {
    send_helping(agent, help->job, help->helper, help->server, "it runs on this host already, by another name", now);
  } else if (helper) {
    if (helper->state == BY_AGENT_HELPER_JOINED) send_joined(agent, helper, now);
  } else if (add_helper(agent, help) != BANYAN_OK) {
    by_warn("agent", "job %s gets no %s: %s", help->job, kind_of(help->server), banyan_error_text());
    send_helping(agent, help->job, help->helper, help->server, banyan_error_text(), now);
  }
}

static void start_again(struct by_agent *agent, const char *line, uint64_t now) {
  struct by_cluster_message help;
  if (by_cluster_message_read(line, strlen(line), &help) != BANYAN_OK) {
    by_error("agent", "%s", banyan_error_text());
    return;
  }
  start_helper(agent, &help, now);
  by_cluster_message_fini(&help);
}

/* ---- classes without a manager */

/* Sorts the jobs without a class of the manager's that are past their first iterations; *steps: equals count as one. */
static uint32_t sort_jobs(struct by_agent *agent, uint64_t now, struct by_agent_job **out, uint32_t *steps) {
  uint32_t n = 0;
  for (struct by_agent_job *job = TAILQ_FIRST(&agent->ranks.jobs); job; job = TAILQ_NEXT(job, entry)) {
    if (job->managed) continue;
    by_agent_job_update_position(agent, job, now);
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

/* Gives classes by what this host knows, to jobs without a class of the manager's. All jobs meet on the host's link. */
static void set_classes(struct by_agent *agent, uint64_t now) {
  struct by_agent_job **order = calloc((size_t)agent->ranks.n_jobs + 1, sizeof(struct by_agent_job *));
  uint32_t steps, lowest = 0, above = 0;
  if (!order) return; /* Without memory they keep their classes. */
  uint32_t n = sort_jobs(agent, now, order, &steps);
  for (uint32_t i = 0; i < n; i++) {
    if (i == 0 || !by_priority_are_equals(&agent->options.rules, &order[i - 1]->place, &order[i]->place))
      steps--, above = lowest;
    lowest = by_priority_class(order[i]->place.queue, above, steps);
    by_agent_job_set_class(agent, order[i], lowest, false);
  }
  free(order);
}

/* ---- time */

void by_agent_tick(struct by_agent *agent, uint64_t now) {
  by_agent_session_tick(agent, now);
  by_repeats_flush(&agent->ranks.rejections, "agent", by_clock_to_seconds(now));
  by_log_report_omitted();
  if (!by_agent_session_take_due(agent, now)) return;
  by_agent_reports_count(agent, now);
  if (agent->reports.renew) by_agent_session_renew(agent, now);
  set_classes(agent, now);
  by_agent_jobs_send(agent, false, now);
  by_agent_meetings_send(agent, false, now);
  by_agent_reports_send(agent, now);
}

/* ---- reports of helpers */

void by_agent_helper_joined(struct by_agent *agent, const char *job, bool server, uint64_t now) {
  struct by_agent_helper *helper = find_helper(agent, job, server);
  if (!helper || is_leaving(helper)) return;
  if (helper->state != BY_AGENT_HELPER_JOINED) set_state(helper, BY_AGENT_HELPER_JOINED);
  send_joined(agent, helper, now);
}

void by_agent_helper_ended(struct by_agent *agent, const char *job, bool server, const char *why, uint64_t now) {
  struct by_agent_helper *helper = find_helper(agent, job, server);
  if (!helper) return;
  char *next_request = helper->next_request;
  helper->next_request = NULL;
  if (!next_request) send_helping(agent, helper->job, helper->name, server, why, now);
  drop_helper(agent, helper);
  if (next_request) start_again(agent, next_request, now);
  free(next_request);
}

/* ---- the manager */

/* Repeats which helpers have joined, since the manager may have been away or be a new one. */
void by_agent_manager_came(struct by_agent *agent, uint64_t now) {
  const struct by_agent_helper *helper;
  by_agent_session_opened(agent, now);
  by_agent_reports_send_hello(agent, now);
  by_agent_jobs_send(agent, true, now);
  by_agent_meetings_send(agent, true, now);
  LIST_FOREACH(helper, &agent->helpers, entry) {
    if (helper->state == BY_AGENT_HELPER_JOINED) send_joined(agent, helper, now);
  }
  by_agent_reports_send(agent, now);
}

static void handle_welcome(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message welcome = *message;
  welcome.host = agent->options.host;
  by_agent_session_take_welcome(agent, message, now);
  by_agent_ranks_send(agent, &welcome);
}

static void set_managed_classes(struct by_agent *agent, const struct by_cluster_message *message) {
  for (uint32_t i = 0; i < message->n_jobs; i++) {
    struct by_agent_job *job = by_agent_jobs_find(agent, message->jobs[i].job);
    if (job) by_agent_job_set_class(agent, job, message->jobs[i].class_, true);
  }
}

/* Forwards a plan to rank 0, which answers it. */
static void forward_plan(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  struct by_cluster_message kept = {.type = BY_MESSAGE_KEPT,
                                    .job = message->job,
                                    .number = message->number,
                                    .why = "rank 0 of the job is not connected to this host's agent"};
  if (!by_agent_ranks_send_root(agent, message)) by_agent_session_send(agent, &kept, now);
}

static void handle_message(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  switch (message->type) {
  case BY_MESSAGE_WELCOME: handle_welcome(agent, message, now); break;
  case BY_MESSAGE_CLASSES: set_managed_classes(agent, message); break;
  case BY_MESSAGE_PLAN: forward_plan(agent, message, now); break;
  case BY_MESSAGE_CELLS: (void)by_agent_ranks_send_root(agent, message); break;
  case BY_MESSAGE_OFFERED: by_agent_meetings_send_offer(agent, message); break;
  case BY_MESSAGE_MEMBERS: by_agent_meetings_send_list(agent, message); break;
  case BY_MESSAGE_HELP: start_helper(agent, message, now); break;
  case BY_MESSAGE_REST: stop_helper(agent, message->job, message->server); break;
  case BY_MESSAGE_AGAIN: by_agent_session_renew(agent, now); break;
  case BY_MESSAGE_REFUSED: by_agent_session_refused(agent, true, message->why, now); break;
  default: break;
  }
}

void by_agent_handle_manager(struct by_agent *agent, const char *line, size_t length, uint64_t now) {
  struct by_cluster_message message;
  enum banyan_status status = by_cluster_message_read(line, length, &message);
  if (status == BANYAN_OK && by_cluster_type_is_up(message.type))
    status = by_fail(BANYAN_ERR_PROTOCOL, "sends \"%s\", as agents do", by_cluster_type_name(message.type));
  if (status == BANYAN_OK)
    handle_message(agent, &message, now);
  else
    by_agent_session_refused(agent, false, banyan_error_text(), now);
  by_cluster_message_fini(&message);
}

/* ---- what `banyan agent status` shows */

enum { SOME_DIGITS = 12 /* Printed digits of the ID of another user's job. */ };

static void print_manager(const struct by_agent *agent, uint64_t now, struct by_text *text) {
  if (!agent->options.manager) return;
  by_text_add(text, ",\"manager\":{");
  by_json_put_string(text, "address", agent->options.manager);
  by_json_put_bool(text, "connected", agent->session.state == BY_SESSION_WELCOME);
  by_json_put_real(text, "for", by_clock_to_seconds(now - agent->session.since));
  if (agent->options.calls->expires)
    by_text_add(text, ",\"certificate_expires\":%lld",
                (long long)agent->options.calls->expires(agent->options.context));
  if (agent->session.why[0]) by_json_put_string(text, "why", agent->session.why);
  by_text_add(text, "}");
}

static void print_interfaces(const struct by_agent *agent, struct by_text *text) {
  struct by_cluster_interface interfaces[BY_AGENT_INTERFACES];
  by_agent_reports_list_interfaces(agent, interfaces);
  for (uint32_t i = 0; i < agent->reports.n; i++) {
    const struct by_cluster_interface *interface = &interfaces[i];
    by_json_separate(text);
    by_text_add(text, "{");
    by_json_put_string(text, "name", interface->name);
    by_json_put_string(text, "address", interface->address);
    by_json_put_real(text, "rate", interface->rate);
    by_json_put_real(text, "sent", interface->sent);
    by_json_put_real(text, "received", interface->received);
    by_json_put_real(text, "ours_sent", interface->ours_sent);
    by_json_put_real(text, "ours_received", interface->ours_received);
    by_json_put_bool(text, "queues", agent->reports.interfaces[i].counter.queues);
    if (interface->neighbour) by_json_put_string(text, "neighbour", interface->neighbour);
    if (interface->neighbour_port) by_json_put_string(text, "neighbour_port", interface->neighbour_port);
    by_text_add(text, "}");
  }
}

static void print_job(const struct by_agent_job *job, const struct by_cluster_job *usage, bool all,
                      struct by_text *text) {
  by_json_separate(text);
  by_text_add(text, "{\"job\":\"%.*s\"", all ? BY_CLUSTER_JOB_ID : SOME_DIGITS, job->id);
  if (job->name) by_json_put_string(text, "name", job->name);
  by_json_put_count(text, "class", job->class_);
  by_json_put_string(text, "classed_by", job->managed ? "manager" : "agent");
  by_text_add(text, ",\"ranks\":[");
  for (uint32_t i = 0; i < usage->n_ranks; i++) by_text_add(text, "%s%u", i ? "," : "", usage->ranks[i]);
  by_text_add(text, "]");
  by_json_put_count(text, "iterations", usage->iterations);
  if (usage->expected) by_json_put_count(text, "expected", usage->expected);
  by_json_put_real(text, "iteration_time", usage->iteration_time);
  by_cluster_paths_print(usage, text);
  by_json_put_count(text, "sent", usage->sent);
  by_json_put_count(text, "calls", usage->calls);
  by_text_add(text, "}");
}

static void print_jobs(const struct by_agent *agent, unsigned uid, uint64_t now, struct by_text *text) {
  struct by_arena arena;
  struct by_cluster_job *usage;
  by_arena_init(&arena);
  if (by_agent_reports_list_jobs(agent, now, &arena, &usage) == BANYAN_OK)
    for (const struct by_agent_job *job = TAILQ_FIRST(&agent->ranks.jobs); job; job = TAILQ_NEXT(job, entry))
      print_job(job, usage++, uid == 0 || uid == job->user->uid, text);
  by_arena_fini(&arena);
}

static void print_helpers(const struct by_agent *agent, bool server, bool all, struct by_text *text) {
  const struct by_agent_helper *helper;
  LIST_FOREACH(helper, &agent->helpers, entry) {
    if (helper->server != server) continue;
    by_json_separate(text);
    by_text_add(text, "{\"job\":\"%.*s\"", all ? BY_CLUSTER_JOB_ID : SOME_DIGITS, helper->job);
    by_json_put_string(text, "name", helper->name);
    if (server) by_json_put_count(text, "trees", helper->trees);
    by_json_put_bool(text, "joined",
                     helper->state == BY_AGENT_HELPER_JOINED || helper->state == BY_AGENT_HELPER_LEAVING);
    by_text_add(text, "}");
  }
}

void by_agent_print(const struct by_agent *agent, unsigned uid, uint64_t now, struct by_text *text) {
  by_text_add(text, "{");
  by_json_put_string(text, "host", agent->options.host);
  by_json_put_string(text, "version", BANYAN_VERSION);
  by_json_put_real(text, "seconds", by_clock_to_seconds(now - agent->reports.started));
  by_json_put_real(text, "interval", agent->session.interval);
  by_json_put_bool(text, "may_help", agent->options.may_help);
  by_json_put_bool(text, "may_serve", agent->options.may_serve);
  print_manager(agent, now, text);
  by_text_add(text, ",\"interfaces\":[");
  print_interfaces(agent, text);
  by_text_add(text, "],\"jobs\":[");
  print_jobs(agent, uid, now, text);
  by_text_add(text, "],\"helpers\":[");
  print_helpers(agent, false, uid == 0, text);
  by_text_add(text, "],\"servers\":[");
  print_helpers(agent, true, uid == 0, text);
  by_text_add(text, "],\"counters\":{\"reports\":%llu,\"refused\":%llu}}", (unsigned long long)agent->reports.n_sent,
              (unsigned long long)agent->ranks.n_refused + agent->session.n_refused);
}

/* ---- beginning and end */

enum banyan_status by_agent_create(const struct by_agent_options *options, uint64_t now, struct by_agent **out) {
  struct by_agent *agent = calloc(1, sizeof *agent);
  *out = agent;
  if (!agent) return by_fail(BANYAN_ERR_NO_MEMORY, "agent: out of memory");
  agent->options = *options;
  by_agent_session_init(agent, now);
  by_agent_ranks_init(agent, now);
  agent->reports.started = now;
  by_agent_reports_count(agent, now);
  return BANYAN_OK;
}

void by_agent_destroy(struct by_agent *agent) {
  if (!agent) return;
  by_agent_ranks_fini(agent);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed has left the list */
  while (!LIST_EMPTY(&agent->helpers)) drop_helper(agent, LIST_FIRST(&agent->helpers));
  free(agent);
}
