/* The session with the manager: connects with increasing delays, sends lines, and determines when reports are due. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "agent_state.h"
#include "clock.h"

static const double first_delay = 0.1, min_longest = 0.5, max_refused = 60; /* Seconds. */

/* Changes within `soon` are reported together, and reports are at least a tenth of an interval apart. */
static const uint64_t soon = 50 * BY_MILLISECOND;
static const double apart = 0.1;

static void set_state(struct by_agent_session *session, enum by_agent_session_state state) {
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
    by_warn("agent", "no manager at %s: %s; jobs go on as they are, it is tried again", agent->options.manager,
            session->why);
    session->announced = false;
  }
  session->delay = fmin(session->delay > 0 ? 2 * session->delay : first_delay, longest_delay(session));
  set_state(session, BY_SESSION_WAITING);
  connect_after(session, session->delay, now);
}

void by_agent_session_renew(struct by_agent *agent, uint64_t now) {
  if (!by_agent_session_is_open(agent)) return;
  agent->options.calls->disconnect(agent->options.context);
  set_state(&agent->session, BY_SESSION_WAITING);
  agent->session.connect_at = now;
}

void by_agent_session_tick(struct by_agent *agent, uint64_t now) {
  if (agent->session.state != BY_SESSION_WAITING || now < agent->session.connect_at) return;
  set_state(&agent->session, BY_SESSION_CONNECTING);
  if (agent->options.calls->connect(agent->options.context) != BANYAN_OK)
    by_agent_manager_gone(agent, banyan_error_text(), now);
}

void by_agent_session_opened(struct by_agent *agent, uint64_t now) {
  set_state(&agent->session, BY_SESSION_OPEN);
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

void by_agent_session_take_welcome(struct by_agent *agent, const struct by_cluster_message *welcome, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  set_state(session, BY_SESSION_WELCOME);
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
void by_agent_session_refused(struct by_agent *agent, bool understood, const char *why, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  bool went_well = session->state == BY_SESSION_WELCOME && now - session->since > by_clock_from_seconds(max_refused);
  bool first = went_well || !(session->refused_delay > 0);
  char text[BY_AGENT_TEXT];
  if (!understood) session->n_refused++;
  snprintf(text, sizeof text, "%s: %.150s",
           understood ? "it refuses this agent" : "it sends what no manager sends (is it one, of this version?)", why);
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

bool by_agent_session_take_due(struct by_agent *agent, uint64_t now) {
  struct by_agent_session *session = &agent->session;
  if (now < session->report_at && now < session->change_at) return false;
  if (now >= session->report_at) session->report_at = now + by_clock_from_seconds(session->interval);
  session->change_at = UINT64_MAX;
  session->ticked_at = now;
  return true;
}

void by_agent_session_init(struct by_agent *agent, uint64_t now) {
  const struct by_agent_options *options = &agent->options;
  agent->session = (struct by_agent_session){.state = options->manager ? BY_SESSION_WAITING : BY_SESSION_NONE,
                                             .connect_at = now,
                                             .since = now,
                                             .interval = options->interval,
                                             .report_at = now + by_clock_from_seconds(options->interval),
                                             .change_at = UINT64_MAX};
  by_rng_init(&agent->session.rng, options->seed);
}
