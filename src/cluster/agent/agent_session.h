/* An agent's session with the manager, without I/O: when it connects, what it sends, and when the next report is due.
 *
 *   state        next states         meaning
 *   NONE         -                   there is no manager
 *   WAITING      CONNECTING          until connect_at
 *   CONNECTING   OPEN, WAITING       the owner tries
 *   OPEN         WELCOME, WAITING    hello was sent
 *   WELCOME      WAITING             the manager has answered */
#ifndef BY_AGENT_AGENT_SESSION_H
#define BY_AGENT_AGENT_SESSION_H

#include "agent.h"
#include "log.h"
#include "rng.h"

enum by_agent_session_state {
  BY_SESSION_NONE,
  BY_SESSION_WAITING,
  BY_SESSION_CONNECTING,
  BY_SESSION_OPEN,
  BY_SESSION_WELCOME
};

struct by_agent_session {
  const struct by_agent_options *options; /* borrowed */
  struct by_rng rng;
  enum by_agent_session_state state;
  uint64_t connect_at;       /* in WAITING */
  double delay;              /* seconds before the next attempt but one */
  double refused_delay;      /* the same after a refusal; 0: there was none */
  uint64_t since;            /* when it was opened or closed */
  double rate;               /* bit/s of the host's link, as the manager says; 0: not known */
  bool announced;            /* it was logged that the manager is there, since it was logged that it is not */
  struct by_repeats reasons; /* that have been logged since */
  char why[BY_AGENT_TEXT];   /* it is not open; "" while it is */
  uint64_t n_refused;        /* lines of the manager's that were not taken */

  double interval;    /* seconds between reports */
  uint64_t report_at; /* the next report, changes or not */
  uint64_t change_at; /* one because of a change; UINT64_MAX: none */
  uint64_t ticked_at; /* the last report was due */
};

/* `options` must outlive it. */
void by_agent_session_init(struct by_agent_session *session, const struct by_agent_options *options, uint64_t now);
bool by_agent_session_is_open(const struct by_agent_session *session);

/* Sends where the session is open; else the message is forgotten: what counts is sent again in a new session. */
void by_agent_session_send(struct by_agent_session *session, const struct by_cluster_message *message, uint64_t now);
/* The same of what was printed before. */
void by_agent_session_send_line(struct by_agent_session *session, const char *line, uint64_t now);

/* When it has something to do next. */
uint64_t by_agent_session_next(const struct by_agent_session *session);
/* Connects where that is due. */
void by_agent_session_tick(struct by_agent_session *session, uint64_t now);
void by_agent_session_opened(struct by_agent_session *session, uint64_t now);
/* It could not be opened, or has closed. */
void by_agent_session_closed(struct by_agent_session *session, const char *why, uint64_t now);
/* Closes it, to send hello anew. */
void by_agent_session_renew(struct by_agent_session *session, uint64_t now);
void by_agent_session_take_welcome(struct by_agent_session *session, const struct by_cluster_message *welcome,
                                   uint64_t now);
/* The manager refuses this agent, or is not understood: the session is closed, for longer each time. */
void by_agent_session_refused(struct by_agent_session *session, const char *why, uint64_t now);
/* A line was not understood: counts it, too. */
void by_agent_session_reject(struct by_agent_session *session, uint64_t now);

/* A report is due soon. */
void by_agent_session_note_change(struct by_agent_session *session, uint64_t now);
/* Whether a report is due now; the next one is then later. */
bool by_agent_session_take_due(struct by_agent_session *session, uint64_t now);

#endif
