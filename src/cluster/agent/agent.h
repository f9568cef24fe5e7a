/* What an agent knows and does, without I/O: the jobs and ranks of its host, the traffic of its interfaces, the session
 * with the manager. Its owner passes lines of ranks and of the manager to the functions below; the agent sends,
 * connects and starts helpers through the calls in its options. The owner passes the time in nanoseconds, which never
 * goes back.
 *
 *   rank --hello, job, report--> agent --hello, job, report--> manager
 *        <--welcome, classes, plan--   <--welcome, classes, plan, help--
 *
 * Without a manager it gives jobs classes by what their ranks here have sent. While a manager is away, jobs keep the
 * classes that it gave them. */
#ifndef BY_CLUSTER_AGENT_AGENT_H
#define BY_CLUSTER_AGENT_AGENT_H

#include "cluster_message.h"
#include "priority.h"

enum {
  BY_AGENT_INTERFACES = 64,
  BY_AGENT_RANKS = 1024, /* Connections of this host's processes; at most half of them of one user, except root. */
  BY_AGENT_JOBS = 512,   /* Jobs, with the same limit for each user. */
  BY_AGENT_HELPERS = 64, /* Helpers and servers. */
  BY_AGENT_TEXT = 256
};

struct by_agent;
struct by_statement;
struct by_agent_rank; /* A connection of a process of this host, until it is gone or ended. */

/* Counters of an interface, in bytes since any time. */
struct by_agent_counter {
  char name[32], address[BY_AGENT_TEXT]; /* The address is "" if there is none. */
  char neighbour[BY_AGENT_TEXT],
      neighbour_port[BY_AGENT_TEXT]; /* The device and port at the other end of the link; "": unknown. */
  double rate;                       /* bit/s; 0: unknown. */
  uint64_t sent, received;
  bool queues;                           /* The agent has set queues, and `marked` is valid. */
  uint64_t marked;                       /* Bytes that left with the mark of a job. */
  uint64_t helped_sent, helped_received; /* Bytes of this host's helpers. */
};

/* The agent's calls to its owner. None of them may call the agent. */
struct by_agent_calls {
  /* Sends a line. Returns false if it was not accepted; the agent then disconnects. */
  bool (*send_to_manager)(void *context, const char *line, size_t length);
  /* Connects. On success by_agent_manager_came or by_agent_manager_gone is called later. */
  enum banyan_status (*connect)(void *context);
  /* Ends the connection, without another report about it. */
  void (*disconnect)(void *context);
  void (*send_to_rank)(void *context, void *connection, const char *line, size_t length);
  /* Ends a connection after sending what is queued. */
  void (*end_rank)(void *context, void *connection);
  /* Reads the counters of interfaces, at most BY_AGENT_INTERFACES. */
  size_t (*count)(void *context, struct by_agent_counter *out);
  /* Reports the rate of this host's link, as the manager states, in bit/s. */
  void (*take_rate)(void *context, double rate);
  /* Starts a helper or server. On success by_agent_helper_joined and _ended are called later. */
  enum banyan_status (*help)(void *context, const struct by_cluster_message *help);
  /* Makes it leave the job; by_agent_helper_ended is called later. */
  void (*rest)(void *context, const char *job, bool server);
  /* Returns the granted cells of this switch. NULL: the host is no switch. */
  uint32_t (*used_cells)(void *context);
  /* Signs a statement about a process of this host; see by_statement_sign. NULL: it has no certificate. */
  enum banyan_status (*certify)(void *context, const struct by_statement *statement, uint8_t *out, size_t *length);
  /* Returns when this host's certificate expires, in seconds since 1970. NULL: no certificate. */
  int64_t (*expires)(void *context);
};

struct by_agent_options {
  const char *host;    /* Borrowed, like `manager`. */
  const char *manager; /* Address of the manager, for people; NULL: none. */
  bool may_help, may_serve;
  const struct by_cluster_aggregates *aggregates; /* Borrowed; NULL: this host is no switch that aggregates. */
  double interval; /* Seconds between reports, until the manager sets another interval. */
  struct by_priority_rules rules;
  uint64_t seed; /* Seed of the random delays of connecting. */
  const struct by_agent_calls *calls;
  void *context;
};

BANYAN_CHECK enum banyan_status by_agent_create(const struct by_agent_options *options, uint64_t now,
                                                struct by_agent **out);
/* Makes no calls. NULL is allowed. */
void by_agent_destroy(struct by_agent *agent);

/* Returns when by_agent_tick is to be called next. */
uint64_t by_agent_next(const struct by_agent *agent);
void by_agent_tick(struct by_agent *agent, uint64_t now);
/* Interfaces have changed: the agent reads their counters and reports soon. */
void by_agent_links_changed(struct by_agent *agent, uint64_t now);

/* A process of user `uid` has connected. BANYAN_ERR_NO_MEMORY; BANYAN_ERR_UNSUPPORTED: too many. */
BANYAN_CHECK enum banyan_status by_agent_rank_came(struct by_agent *agent, void *connection, unsigned uid, uint64_t now,
                                                   struct by_agent_rank **out);
/* Handles a line. False: everything for the process was sent and `rank` was freed; the caller ends its connection. */
bool by_agent_handle_rank(struct by_agent *agent, struct by_agent_rank *rank, const char *line, size_t length,
                          uint64_t now);
/* The connection of a process has closed. */
void by_agent_rank_gone(struct by_agent *agent, struct by_agent_rank *rank, uint64_t now);

void by_agent_manager_came(struct by_agent *agent, uint64_t now);
void by_agent_handle_manager(struct by_agent *agent, const char *line, size_t length, uint64_t now);
/* The manager could not be reached, or its connection has closed. */
void by_agent_manager_gone(struct by_agent *agent, const char *why, uint64_t now);

/* The helper or the server of a job has joined, or has ended. */
void by_agent_helper_joined(struct by_agent *agent, const char *job, bool server, uint64_t now);
void by_agent_helper_ended(struct by_agent *agent, const char *job, bool server, const char *why, uint64_t now);

/* Logs an error of a process of this user: a few lines a minute, and how many were omitted; see by_repeats_warn. */
void by_agent_log_user(struct by_agent *agent, unsigned uid, const char *what, uint64_t now);

/* Prints the output of `banyan agent status`, one line of JSON. `uid` sees only the beginning of the IDs of other
 * users' jobs, since with a whole ID it could speak for the job. */
void by_agent_print(const struct by_agent *agent, unsigned uid, uint64_t now, struct by_text *text);

#endif
