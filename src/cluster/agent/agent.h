/* What an agent knows and does, without I/O: the jobs and ranks of its host, the
 * use of its interfaces, the link to the manager. Ranks and the manager are
 * received through the functions below; what is to be sent, connected or started is
 * asked of the owner through the calls in the options. The clock is handed in:
 * nanoseconds, the same or later with each call.
 *
 *   rank --hello, job, report--> agent --hello, job, report--> manager
 *        <--welcome, classes, plan--   <--welcome, classes, plan, help--
 *
 * Without a manager it classes the jobs by what their ranks here have sent. With
 * one that is away, jobs keep the classes they were given. */
#ifndef BY_CLUSTER_AGENT_AGENT_H
#define BY_CLUSTER_AGENT_AGENT_H

#include "cluster_message.h"
#include "priority.h"

enum {
  BY_AGENT_INTERFACES = 64,
  BY_AGENT_RANKS = 1024, /* connections of this host's; half of them of one user, but root */
  BY_AGENT_JOBS = 512,   /* as well */
  BY_AGENT_HELPERS = 64, /* and servers */
  BY_AGENT_TEXT = 256
};

struct by_agent;
struct by_statement;
struct by_agent_rank; /* a connection of this host's, until it is gone or ended */

/* Bytes since some beginning. */
struct by_agent_counter {
  char name[32], address[BY_AGENT_TEXT];                        /* address: "" without one */
  char neighbour[BY_AGENT_TEXT], neighbour_port[BY_AGENT_TEXT]; /* at the other end of the link; "": not known */
  double rate;                                                  /* bit/s, 0: not known */
  uint64_t sent, received;
  bool queues;                           /* the agent has set some, and: */
  uint64_t marked;                       /* what left marked as of a job */
  uint64_t helped_sent, helped_received; /* by this host's helpers */
};

/* None of these may call back. */
struct by_agent_calls {
  /* False: it is not taken; the agent then has the link ended. */
  bool (*send_to_manager)(void *context, const char *line, size_t length);
  /* Answered by by_agent_manager_came or by_agent_manager_gone, later; or fails. */
  enum banyan_status (*connect)(void *context);
  /* The link is to be ended, and nothing more reported about it. */
  void (*disconnect)(void *context);
  void (*send_to_rank)(void *context, void *connection, const char *line, size_t length);
  /* The connection is to be finished behind what was sent. */
  void (*end_rank)(void *context, void *connection);
  /* The counters of interfaces now, at most BY_AGENT_INTERFACES. */
  size_t (*count)(void *context, struct by_agent_counter *out);
  /* The manager states the rate of this host's link, bit/s. */
  void (*take_rate)(void *context, double rate);
  /* A helper or server is to join, answered by by_agent_helper_joined and _ended, later; or fails. */
  enum banyan_status (*help)(void *context, const struct by_cluster_message *help);
  /* It is to leave, answered by by_agent_helper_ended. */
  void (*rest)(void *context, const char *job, bool server);
  /* Cells of this switch that are granted; 0 if it is none. NULL: it is none. */
  uint32_t (*used_cells)(void *context);
  /* States something about a process of this host, signed with its certificate; see by_statement_sign. NULL: it has
   * none.
   */
  enum banyan_status (*certify)(void *context, const struct by_statement *statement, uint8_t *out, size_t *length);
  /* When this host's certificate ends, s since 1970. NULL: it has none. */
  int64_t (*expires)(void *context);
};

struct by_agent_options {
  const char *host;    /* borrowed, like the next */
  const char *manager; /* its address, for people; NULL: there is none */
  bool may_help, may_serve;
  const struct by_cluster_aggregates *aggregates; /* borrowed; NULL: this host is no switch that aggregates */
  double interval;                                /* seconds between reports, until the manager sets another */
  struct by_priority_rules rules;
  uint64_t seed; /* of how long it waits before it connects again */
  const struct by_agent_calls *calls;
  void *context;
};

BANYAN_CHECK enum banyan_status by_agent_create(const struct by_agent_options *options, uint64_t now,
                                                struct by_agent **out);
/* Calls nothing. NULL is allowed. */
void by_agent_destroy(struct by_agent *agent);

/* When by_agent_tick is to be called next. */
uint64_t by_agent_next(const struct by_agent *agent);
void by_agent_tick(struct by_agent *agent, uint64_t now);
/* Something of the interfaces has changed: it looks and reports soon. */
void by_agent_links_changed(struct by_agent *agent, uint64_t now);

/* A connection of a process of user `uid`. BANYAN_ERR_NO_MEMORY, BANYAN_ERR_UNSUPPORTED: there are too many. */
BANYAN_CHECK enum banyan_status by_agent_rank_came(struct by_agent *agent, void *connection, unsigned uid, uint64_t now,
                                                   struct by_agent_rank **out);
/* False: it has ended (what is to be sent was sent), and `rank` is no more; its connection is to be finished. */
bool by_agent_handle_rank(struct by_agent *agent, struct by_agent_rank *rank, const char *line, size_t length,
                          uint64_t now);
/* Its connection has closed. */
void by_agent_rank_gone(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now);

void by_agent_manager_came(struct by_agent *agent, uint64_t now);
void by_agent_handle_manager(struct by_agent *agent, const char *line, size_t length, uint64_t now);
/* It could not be reached, or has closed. */
void by_agent_manager_gone(struct by_agent *agent, const char *why, uint64_t now);

/* The helper or the server of a job. */
void by_agent_helper_joined(struct by_agent *agent, const char *job, bool server, uint64_t now);
void by_agent_helper_ended(struct by_agent *agent, const char *job, bool server, const char *why, uint64_t now);

/* Logs what a process of this user does wrong: a few lines a minute, and how many were left out; see by_repeats_warn.
 */
void by_agent_log_user(struct by_agent *agent, unsigned uid, const char *what, uint64_t now);

/* What `banyan agent status` shows: one line of JSON. Of other users' jobs `uid` gets the beginning of the ID only:
 * all of it allows to speak for the job. */
void by_agent_print(const struct by_agent *agent, unsigned uid, uint64_t now, struct by_text *text);

#endif
