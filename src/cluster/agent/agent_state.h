/* The parts of an agent. Each part belongs to the file that its comment names, and is changed there only.
 *
 * The session with the manager, without I/O: when the agent connects, what it sends, when the next report is due.
 *
 *   state        next states         meaning
 *   NONE         -                   there is no manager
 *   WAITING      CONNECTING          waits until connect_at
 *   CONNECTING   OPEN, WAITING       the owner is connecting
 *   OPEN         WELCOME, WAITING    hello was sent
 *   WELCOME      WAITING             the manager has answered */
#ifndef BY_CLUSTER_AGENT_AGENT_STATE_H
#define BY_CLUSTER_AGENT_AGENT_STATE_H

#include <sys/queue.h>

#include "agent.h"
#include "log.h"
#include "rng.h"

/* ---- the session with the manager: agent.c */

enum by_agent_session_state {
  BY_SESSION_NONE,
  BY_SESSION_WAITING,
  BY_SESSION_CONNECTING,
  BY_SESSION_OPEN,
  BY_SESSION_WELCOME
};

struct by_agent_session {
  struct by_rng rng;
  enum by_agent_session_state state;
  uint64_t connect_at;       /* In WAITING. */
  double delay;              /* Seconds before the attempt after the next one. */
  double refused_delay;      /* Seconds before the attempt after a refusal; 0: there was none. */
  uint64_t since;            /* When the session was opened or closed. */
  double rate;               /* bit/s of the host's link, as the manager states; 0: unknown. */
  bool announced;            /* The last message in the log was that the manager is there. */
  struct by_repeats reasons; /* Reasons that have been logged since then. */
  char why[BY_AGENT_TEXT];   /* Why the session is not open; "" while it is. */
  uint64_t n_refused;        /* Lines of the manager that were refused. */

  double interval;    /* Seconds between reports. */
  uint64_t report_at; /* Time of the next regular report. */
  uint64_t change_at; /* Time of the next report of a change; UINT64_MAX: none. */
  uint64_t ticked_at; /* Time of the last report. */
};

bool by_agent_session_is_open(const struct by_agent *agent);

/* Sends a message if the session is open. Otherwise it is dropped: a new session begins with all that matters. */
void by_agent_session_send(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now);
/* Sends a line that was printed before. */
void by_agent_session_send_line(struct by_agent *agent, const char *line, uint64_t now);

/* ---- this host's processes: agent_ranks.c */

/* The limits of a user of this host, so that none uses up what is meant for all. Root has no limits, since it could do
 * everything anyway. */
struct by_agent_user {
  LIST_ENTRY(by_agent_user) entry;
  unsigned uid;
  uint32_t n_ranks, n_jobs;  /* `n_ranks`: connections. */
  size_t kept;               /* Bytes of its jobs' stored lines. */
  struct by_budget forwards; /* Limits lines to the manager. */
  struct by_budget received; /* Limits lines of all its connections together, including closed ones. */
  struct by_budget news;     /* Limits reports before their time. */
};

/* The latest lines of rank 0, in the order in which they are forwarded; KEEPS: after SWITCHED. */
enum by_agent_line {
  BY_AGENT_JOB,
  BY_AGENT_RESERVE,
  BY_AGENT_SWITCHED,
  BY_AGENT_KEEPS,
  BY_AGENT_RELEASED,
  BY_AGENT_LINES
};

/* A job with ranks on this host. The agent stores the latest lines of its rank 0, and sends them in every session with
 * the manager. */
struct by_agent_job {
  TAILQ_ENTRY(by_agent_job) entry;
  char id[BY_CLUSTER_JOB_ID + 1];
  struct by_agent_user *user;  /* The owner. */
  char *name;                  /* NULL: rank 0 is not here, or has not sent it yet. */
  char *lines[BY_AGENT_LINES]; /* NULL: not sent by rank 0. */
  bool unsent[BY_AGENT_LINES]; /* Lines to send in this session with the manager. */
  uint32_t ranks;              /* Number of ranks on this host. */
  struct by_job_length length; /* As rank 0 states, if it is here. */
  struct by_priority_position place;
  uint32_t class_;
  bool managed; /* The manager has determined the class. */
};

/* What a rank, or all ranks of a job here, have done since the job began. */
struct by_agent_usage {
  uint64_t iterations, calls, sent, input;
  uint64_t expected; /* Total iterations, as rank 0 states; 0: unknown. */
  uint64_t ends;     /* Latest end by the launcher's limit, as rank 0 states; 0: unknown. */
  double iteration_time;
  uint64_t sizes[BY_CLUSTER_SIZES]; /* Calls by log2 of their bytes. */
};

/* Measurements of the connections of a rank, or of all ranks of a job here. A rank owns its names `to`. */
struct by_agent_paths {
  uint32_t n;
  struct by_cluster_path all[BY_CLUSTER_PATHS];
};

struct by_agent_rank {
  LIST_ENTRY(by_agent_rank) entry;
  void *connection;
  struct by_agent_user *user;
  struct by_budget budget;  /* Limits its lines. */
  struct by_agent_job *job; /* NULL: before hello. */
  uint64_t number;          /* Number of a launcher that asks for hosts, or a process that meets others; 0: neither. */
  char *meets, *handle;     /* The job whose other processes it meets, and its handle there. */
  char *meet;               /* Its latest line about that; NULL: it meets none. */
  bool unsent, known;       /* It is to be sent; it or an earlier one was sent in this session. */
  uint32_t rank;
  struct by_agent_usage usage;
  uint64_t rated_at, rated_sent; /* Time and bytes at the start of the measurement of its rate. */
  double rate;                   /* bit/s that it sends. */
  struct by_agent_paths *paths;  /* NULL: it has sent none. */
  uint64_t paths_at;
};

struct by_agent_ranks {
  LIST_HEAD(, by_agent_user) users; /* Users with connections, or with budgets that are not full. */
  size_t kept;                      /* Bytes of all jobs' stored lines. */
  struct by_budget forwards;        /* Limits lines of all users to the manager. */
  struct by_repeats rejections;     /* Limits the log of users' errors. */
  TAILQ_HEAD(, by_agent_job) jobs;  /* In the order in which they began. */
  uint32_t n_jobs;
  LIST_HEAD(, by_agent_rank) all;
  uint32_t n;
  uint64_t n_refused; /* Lines that were refused. */
  uint64_t n_numbers; /* Numbers given so far. */
};

void by_agent_ranks_init(struct by_agent *agent, uint64_t now);
/* Makes no calls. */
void by_agent_ranks_fini(struct by_agent *agent);

/* Sends a message to all ranks of jobs. */
void by_agent_ranks_send(const struct by_agent *agent, const struct by_cluster_message *message);
/* Sends a message to rank 0 of its job. False: it is not here. */
bool by_agent_ranks_send_root(const struct by_agent *agent, const struct by_cluster_message *message);

/* Returns NULL if the job has no rank here. */
struct by_agent_job *by_agent_jobs_find(const struct by_agent *agent, const char *id);
/* Sends the unsent lines of all jobs; all: every line, in a new session. */
void by_agent_jobs_send(struct by_agent *agent, bool all, uint64_t now);
/* Updates its position in the order by what its ranks have done. */
void by_agent_job_update_position(const struct by_agent *agent, struct by_agent_job *job, uint64_t now);
/* Sets its class, and notifies its ranks of a change. */
void by_agent_job_set_class(const struct by_agent *agent, struct by_agent_job *job, uint32_t class_, bool managed);

/* ---- users of these processes: agent_ranks.c */

static inline bool by_agent_user_is_root(const struct by_agent_user *user) {
  return user->uid == 0;
}
/* Tells whether a line may be sent to the manager now, and counts it. NULL: a line of the agent itself. */
bool by_agent_ranks_may_forward(struct by_agent *agent, struct by_agent_user *user, size_t length, uint64_t now);

/* ---- processes that are no ranks of a job, but ask the manager for something: agent_ranks.c */

/* Sends an offer to the launcher with its number, if that is still connected. */
void by_agent_meetings_send_offer(const struct by_agent *agent, const struct by_cluster_message *offer);
/* Sends a list to the process with its number, or to all processes in it. */
void by_agent_meetings_send_list(const struct by_agent *agent, const struct by_cluster_message *list);
/* Sends the unsent lines of processes that meet others; all: every line, in a new session. */
void by_agent_meetings_send(struct by_agent *agent, bool all, uint64_t now);

/* ---- reports about these and the host's interfaces: agent_reports.c */

struct by_agent_interface {
  struct by_agent_counter counter;                             /* The counters when they were last read. */
  double sent, received, marked, helped_sent, helped_received; /* bit/s before that. */
};

struct by_agent_reports {
  uint64_t started, counted_at;
  uint32_t n;
  struct by_agent_interface interfaces[BY_AGENT_INTERFACES];
  bool renew;      /* There is an interface that the last hello did not name. */
  uint64_t n_sent; /* Reports so far. */
};

/* Returns what the ranks of a job here have done together. */
struct by_agent_usage by_agent_usage_merge(const struct by_agent *agent, const struct by_agent_job *job);
/* Reads the interfaces' counters. */
void by_agent_reports_count(struct by_agent *agent, uint64_t now);
void by_agent_reports_send_hello(struct by_agent *agent, uint64_t now);
void by_agent_reports_send(struct by_agent *agent, uint64_t now);
/* Lists all jobs in their order, in memory of the arena. */
BANYAN_CHECK enum banyan_status by_agent_reports_list_jobs(const struct by_agent *agent, uint64_t now,
                                                           struct by_arena *arena, struct by_cluster_job **out);
/* Lists the interfaces with the traffic of jobs on each. */
void by_agent_reports_list_interfaces(const struct by_agent *agent, struct by_cluster_interface *out);

/* ---- the agent: agent.c */

struct by_agent {
  struct by_agent_options options;
  struct by_agent_session session;
  struct by_agent_ranks ranks;
  struct by_agent_reports reports;
  uint32_t n_helpers;
  LIST_HEAD(, by_agent_helper) helpers;
};

#endif
