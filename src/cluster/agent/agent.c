/* The session of an agent with the manager, what the manager sends, and the helpers that it requests. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "agent_state.h"
#include "clock.h"
#include "json_doc.h"

/* ---- the session with the manager */

static const double first_delay = 0.1, min_longest = 0.5, max_refused = 60; /* Seconds. */

/* Changes within `soon` are reported together, and reports are at least a tenth of an interval apart. */
static const uint64_t soon = 50 * BY_MILLISECOND;
static const double apart = 0.1;

static void set_session_state(struct by_agent_session *session, enum by_agent_session_state state) {
  static const char *const names[] = {"none", "waiting", "connecting", "open", "welcome"};
  static const unsigned next[] = {
      [BY_SESSION_WAITING] = 1 << BY_SESSION_CONNECTING,
      [BY_SESSION_CONNECTING] = 1 << BY_SESSION_OPEN | 1 << BY_SESSION_WAITING,
      [BY_SESSION_OPEN] = 1 << BY_SESSION_WELCOME | 1 << BY_SESSION_WAITING,
      [BY_SESSION_WELCOME] = 1 << BY_SESSION_WAITING,
  };
  if (state == session->state) return;
  by_debug("agent", "session with the manager: %s -> %s", names[session->state], names[state]);
  assert(next[session->state] >> state & 1);
  session->state = state;
}

bool by_agent_session_is_open(const struct by_agent *agent) {
  return agent->session.state >= BY_SESSION_OPEN;
}

/* ---- connecting */

static double longest_delay(const struct by_agent_session *session) {
  return fmax(session->interval / 2, min_longest);
}

/* Waits for a random part of the delay, since all agents lose a manager at the same moment. */
static void connect_after(struct by_agent_session *session, double delay, uint64_t now) {
  session->connect_at = now + by_clock_from_seconds(delay * (0.5 + by_rng_unit(&session->rng) / 2));
}

void by_agent_manager_gone(struct by_agent *agent, const char *why, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  /* A name with two addresses fails in two ways alternately: each is logged once until the manager is there again. */
  bool fresh = by_repeats_take(&session->reasons, "", 0, why, 1);
  bool was_open = by_agent_session_is_open(agent);
  size_t named = strlen(agent->options.manager);
  /* Where the manager has an address for a name, connections are called like it. */
  if (!strncmp(why, agent->options.manager, named) && !strncmp(why + named, ": ", 2)) why += named + 2;
  if (was_open) session->since = now;
  by_keep_printable(why, session->why, sizeof session->why);
  /* A session that ended before the manager's welcome was not announced. */
  if (session->announced || fresh) {
    by_warn("agent", "no manager at %s: %s; jobs continue as before, and the agent keeps trying",
            agent->options.manager, session->why);
    session->announced = false;
  }
  session->delay = fmin(session->delay > 0 ? 2 * session->delay : first_delay, longest_delay(session));
  set_session_state(session, BY_SESSION_WAITING);
  connect_after(session, session->delay, now);
}

/* Closes the session and opens a new one, with a new hello. */
static void renew_session(struct by_agent *agent, uint64_t now) {
  if (!by_agent_session_is_open(agent)) return;
  agent->options.calls->disconnect(agent->options.context);
  set_session_state(&agent->session, BY_SESSION_WAITING);
  agent->session.connect_at = now;
}

static void connect_if_due(struct by_agent *agent, uint64_t now) {
  if (agent->session.state != BY_SESSION_WAITING || now < agent->session.connect_at) return;
  set_session_state(&agent->session, BY_SESSION_CONNECTING);
  if (agent->options.calls->connect(agent->options.context) != BANYAN_OK)
    by_agent_manager_gone(agent, banyan_error_text(), now);
}

static void begin_session(struct by_agent *agent, uint64_t now) {
  set_session_state(&agent->session, BY_SESSION_OPEN);
  agent->session.since = now;
  agent->session.why[0] = '\0';
}

/* ---- sending */

static void end_session(struct by_agent *agent, const char *why, uint64_t now) {
  agent->options.calls->disconnect(agent->options.context);
  by_agent_manager_gone(agent, why, now);
}

/* Sends a line, or disconnects if that fails, since a new session sends everything that matters again. */
void by_agent_session_send_line(struct by_agent *agent, const char *line, uint64_t now) {
  if (!by_agent_session_is_open(agent)) return;
  if (!agent->options.calls->send_to_manager(agent->options.context, line, strlen(line)))
    end_session(agent, "it does not read what it is sent", now);
}

void by_agent_session_send(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now) {
  if (!by_agent_session_is_open(agent)) return;
  struct by_text text = by_cluster_message_line(message);
  if (text.failed || text.length > BY_CLUSTER_LINE_UP)
    by_error("agent", "\"%s\" of %zu bytes cannot be sent", by_cluster_type_name(message->type), text.length);
  else
    by_agent_session_send_line(agent, by_text_get(&text), now);
  by_text_fini(&text);
}

/* ---- the manager's answers */

static void take_welcome(struct by_agent *agent, const struct by_cluster_message *welcome, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  set_session_state(session, BY_SESSION_WELCOME);
  session->delay = 0;
  session->interval = welcome->interval;
  session->report_at = now + by_clock_from_seconds(session->interval);
  session->rate = welcome->rate;
  by_log(session->announced ? BY_LOG_INFO : BY_LOG_WARN, "agent", "the manager at %s is there; reports go every %g s",
         agent->options.manager, session->interval);
  session->announced = true;
  session->reasons = (struct by_repeats){0};
  if (welcome->rate > 0) agent->options.calls->take_rate(agent->options.context, welcome->rate);
}

/* A refusal does not pass soon, so the delay doubles each time, until a session has lasted for a while. */
static void end_refused(struct by_agent *agent, bool understood, const char *why, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  bool went_well = session->state == BY_SESSION_WELCOME && now - session->since > by_clock_from_seconds(max_refused);
  bool first = went_well || !(session->refused_delay > 0);
  char text[BY_AGENT_TEXT];
  if (!understood) session->n_refused++;
  snprintf(text, sizeof text, "%s: %.150s",
           understood ? "it refuses this agent" : "it sends unexpected messages (is it a manager of this version?)",
           why);
  session->refused_delay = first ? longest_delay(session) : fmin(2 * session->refused_delay, max_refused);
  end_session(agent, text, now);
  connect_after(session, session->refused_delay, now);
}

/* ---- when reports are due */

uint64_t by_agent_next(const struct by_agent *agent) {
  const struct by_agent_session *session = &agent->session;
  uint64_t next = MIN(session->report_at, session->change_at);
  return session->state == BY_SESSION_WAITING ? MIN(next, session->connect_at) : next;
}

void by_agent_links_changed(struct by_agent *agent, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  uint64_t earliest = session->ticked_at + by_clock_from_seconds(apart * session->interval);
  if (session->change_at == UINT64_MAX) session->change_at = MAX(now + soon, earliest);
}

/* Tells whether a report is due, and sets the time of the next one. */
static bool take_due_report(struct by_agent *agent, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  if (now < session->report_at && now < session->change_at) return false;
  if (now >= session->report_at) session->report_at = now + by_clock_from_seconds(session->interval);
  session->change_at = UINT64_MAX;
  session->ticked_at = now;
  return true;
}

static void init_session(struct by_agent *agent, uint64_t now) {
  const struct by_agent_options *options = &agent->options;
  agent->session = (struct by_agent_session){.state = options->manager ? BY_SESSION_WAITING : BY_SESSION_NONE,
                                             .connect_at = now,
                                             .since = now,
                                             .interval = options->interval,
                                             .report_at = now + by_clock_from_seconds(options->interval),
                                             .change_at = UINT64_MAX};
  by_rng_init(&agent->session.rng, options->seed);
}

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

static void set_helper_state(struct by_agent_helper *helper, enum by_agent_helper_state state) {
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
    set_helper_state(helper,
                     helper->state == BY_AGENT_HELPER_JOINED ? BY_AGENT_HELPER_LEAVING : BY_AGENT_HELPER_CANCELLED);
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
  connect_if_due(agent, now);
  by_repeats_flush(&agent->ranks.rejections, "agent", by_clock_to_seconds(now));
  by_log_report_omitted();
  if (!take_due_report(agent, now)) return;
  by_agent_reports_count(agent, now);
  if (agent->reports.renew) renew_session(agent, now);
  set_classes(agent, now);
  by_agent_jobs_send(agent, false, now);
  by_agent_meetings_send(agent, false, now);
  by_agent_reports_send(agent, now);
}

/* ---- reports of helpers */

void by_agent_helper_joined(struct by_agent *agent, const char *job, bool server, uint64_t now) {
  struct by_agent_helper *helper = find_helper(agent, job, server);
  if (!helper || is_leaving(helper)) return;
  if (helper->state != BY_AGENT_HELPER_JOINED) set_helper_state(helper, BY_AGENT_HELPER_JOINED);
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
  begin_session(agent, now);
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
  take_welcome(agent, message, now);
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
  case BY_MESSAGE_AGAIN: renew_session(agent, now); break;
  case BY_MESSAGE_REFUSED: end_refused(agent, true, message->why, now); break;
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
    end_refused(agent, false, banyan_error_text(), now);
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
  init_session(agent, now);
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
