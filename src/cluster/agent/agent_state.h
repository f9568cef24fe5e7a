/* An agent as its files see it. Each part belongs to the file that its comment names, and is changed there only.
 *
 * The session with the manager, without I/O: when the agent connects, what it sends, when the next report is due.
 *
 *   state        next states         meaning
 *   NONE         -                   there is no manager
 *   WAITING      CONNECTING          until connect_at
 *   CONNECTING   OPEN, WAITING       the owner tries
 *   OPEN         WELCOME, WAITING    hello was sent
 *   WELCOME      WAITING             the manager has answered */
#ifndef BY_CLUSTER_AGENT_AGENT_STATE_H
#define BY_CLUSTER_AGENT_AGENT_STATE_H

#include <sys/queue.h>

#include "agent.h"
#include "log.h"
#include "rng.h"

/* ---- the session with the manager: agent_session.c */

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
  uint64_t connect_at;       /* in WAITING */
  double delay;              /* seconds before the next attempt but one */
  double refused_delay;      /* the same after a refusal; 0: there was none */
  uint64_t since;            /* when it was opened or closed */
  double rate;               /* bit/s of the host's link, as the manager states; 0: not known */
  bool announced;            /* it was logged that the manager is there, since it was logged that it is not */
  struct by_repeats reasons; /* that have been logged since */
  char why[BY_AGENT_TEXT];   /* it is not open; "" while it is */
  uint64_t n_refused;        /* lines of the manager's that were not taken */

  double interval;    /* seconds between reports */
  uint64_t report_at; /* the next report, changes or not */
  uint64_t change_at; /* one because of a change; UINT64_MAX: none */
  uint64_t ticked_at; /* the last report was due */
};

void by_agent_session_init(struct by_agent *agent, uint64_t now);
bool by_agent_session_is_open(const struct by_agent *agent);

/* Sends where the session is open; else the message is forgotten: what counts is sent again in a new session. */
void by_agent_session_send(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now);
/* The same of what was printed before. */
void by_agent_session_send_line(struct by_agent *agent, const char *line, uint64_t now);

/* Connects where that is due. */
void by_agent_session_tick(struct by_agent *agent, uint64_t now);
void by_agent_session_opened(struct by_agent *agent, uint64_t now);
/* Closes it, to send hello anew. */
void by_agent_session_renew(struct by_agent *agent, uint64_t now);
void by_agent_session_take_welcome(struct by_agent *agent, const struct by_cluster_message *welcome, uint64_t now);
/* The manager refuses this agent, or a line of its was not understood, which counts: the session is closed, for longer
 * each time. */
void by_agent_session_refused(struct by_agent *agent, bool understood, const char *why, uint64_t now);
/* Whether a report is due now; the next one is then later. */
bool by_agent_session_take_due(struct by_agent *agent, uint64_t now);

/* ---- this host's processes: agent_ranks.c */

/* What a user of this host may have of the agent, and have passed on to the manager: none uses up what is meant for
 * all. Root is not limited, as it could have everything anyway. */
struct by_agent_user {
  LIST_ENTRY(by_agent_user) entry;
  unsigned uid;
  uint32_t n_ranks, n_jobs;  /* n_ranks: connections */
  size_t kept;               /* bytes of its jobs' lines */
  struct by_budget forwards; /* of what is passed on to the manager */
  struct by_budget received; /* of what all its connections send together, those that have ended among them */
  struct by_budget news;     /* of what makes a report come before its time */
};

/* What rank 0 sent last, in the order in which it is passed on; KEEPS: after SWITCHED. */
enum by_agent_line {
  BY_AGENT_JOB,
  BY_AGENT_RESERVE,
  BY_AGENT_SWITCHED,
  BY_AGENT_KEEPS,
  BY_AGENT_RELEASED,
  BY_AGENT_LINES
};

/* A job that has ranks on this host, with what rank 0 last sent of it: the agent keeps these lines, and sends them in
 * every session with the manager. */
struct by_agent_job {
  TAILQ_ENTRY(by_agent_job) entry;
  char id[BY_CLUSTER_JOB_ID + 1];
  struct by_agent_user *user;  /* whose it is */
  char *name;                  /* NULL: rank 0 is not here, or has not sent it yet */
  char *lines[BY_AGENT_LINES]; /* NULL as `name` */
  bool unsent[BY_AGENT_LINES]; /* in this session with the manager */
  uint32_t ranks;              /* that are here */
  struct by_job_length length; /* as rank 0 states it, if it is here */
  struct by_priority_place place;
  uint32_t class_;
  bool managed; /* the manager has determined the class */
};

/* What a rank, or all ranks of a job, have done since the job began. */
struct by_agent_usage {
  uint64_t iterations, calls, sent, input;
  uint64_t expected; /* iterations in all, as rank 0 states; 0: not known */
  uint64_t ends;     /* when its launcher ends it at the latest, as rank 0 states; 0: not known */
  double iteration_time;
  uint64_t sizes[BY_CLUSTER_SIZES]; /* calls, by log2 of their bytes */
};

/* What the connections of a rank, or of all of a job's here, showed; `to` of a rank's own are its own. */
struct by_agent_paths {
  uint32_t n;
  struct by_cluster_path all[BY_CLUSTER_PATHS];
};

struct by_agent_rank {
  LIST_ENTRY(by_agent_rank) entry;
  void *connection;
  struct by_agent_user *user;
  struct by_budget budget;  /* of what it sends */
  struct by_agent_job *job; /* NULL: no hello yet */
  uint64_t number;          /* of a launcher that asks for hosts, or a process that meets others; 0: it is neither */
  char *meets, *handle;     /* the job that it meets others of, and its handle there */
  char *meet;               /* what it has sent last about that; NULL: it meets none */
  bool unsent, known;       /* the manager has it not, and has it or an earlier one, from this session */
  uint32_t rank;
  struct by_agent_usage usage;
  uint64_t rated_at, rated_sent; /* from where on its rate is measured */
  double rate;                   /* bit/s that it sends */
  struct by_agent_paths *paths;  /* NULL: it has sent none */
  uint64_t paths_at;
};

struct by_agent_ranks {
  LIST_HEAD(, by_agent_user) users; /* that have ranks here, or have used up something */
  size_t kept;                      /* bytes of all jobs' lines */
  struct by_budget forwards;        /* of what is sent to the manager by all */
  struct by_repeats rejections;     /* the log of what users do wrong */
  TAILQ_HEAD(, by_agent_job) jobs;  /* in the order in which they came */
  uint32_t n_jobs;
  LIST_HEAD(, by_agent_rank) all;
  uint32_t n;
  uint64_t n_refused; /* lines that were not taken */
  uint64_t n_numbers; /* that were given so far */
};

void by_agent_ranks_init(struct by_agent *agent, uint64_t now);
/* Calls nothing. */
void by_agent_ranks_fini(struct by_agent *agent);

/* To all ranks of jobs. */
void by_agent_ranks_send(const struct by_agent *agent, const struct by_cluster_message *message);
/* To rank 0 of the message's job. False: it is not here. */
bool by_agent_ranks_send_root(const struct by_agent *agent, const struct by_cluster_message *message);

/* NULL: it has no rank here. */
struct by_agent_job *by_agent_jobs_find(const struct by_agent *agent, const char *id);
/* Sends what was not sent of all jobs; in a new session all lines are sent again. */
void by_agent_jobs_send(struct by_agent *agent, bool all, uint64_t now);
/* Finds its place in the order by what its ranks have done. */
void by_agent_job_find_place(const struct by_agent *agent, struct by_agent_job *job, uint64_t now);
/* Its ranks are notified if it had another class. */
void by_agent_job_set_class(const struct by_agent *agent, struct by_agent_job *job, uint32_t class_, bool managed);

/* ---- users of these processes: agent_users.c */

static inline bool by_agent_user_is_root(const struct by_agent_user *user) {
  return user->uid == 0;
}
/* Counts a connection of a user. BANYAN_ERR_UNSUPPORTED: it has too many. */
BANYAN_CHECK enum banyan_status by_agent_user_connect(struct by_agent *agent, unsigned uid, double seconds,
                                                      struct by_agent_user **out);
/* A line of one of its processes has come. BANYAN_ERR_PROTOCOL: they send too much. */
BANYAN_CHECK enum banyan_status by_agent_user_receive(struct by_agent_user *user, size_t length, uint64_t now);
/* Whether a line may be passed on to the manager now. NULL: one of the agent's own. */
bool by_agent_ranks_may_forward(struct by_agent *agent, struct by_agent_user *user, size_t length, uint64_t now);
/* Something of a user's job is worth a report soon, if the user has not had too many of late. */
void by_agent_note_news(struct by_agent *agent, struct by_agent_user *user, uint64_t now);

/* To one process. */
void by_agent_rank_send(const struct by_agent *agent, const struct by_agent_rank *rank,
                        const struct by_cluster_message *message);
/* Frees the text. */
void by_agent_rank_send_text(const struct by_agent *agent, const struct by_agent_rank *rank, struct by_text *text);

/* ---- those that are no ranks of a job, but ask the manager for something: agent_meetings.c */

/* A launcher asks for hosts. */
void by_agent_meeting_want(struct by_agent *agent, struct by_agent_rank *rank, const struct by_cluster_message *message,
                           uint64_t now);
/* A process meets others of its job. */
BANYAN_CHECK enum banyan_status by_agent_meeting_handle(struct by_agent *agent, struct by_agent_rank *rank,
                                                        const struct by_cluster_message *message, uint64_t now);
/* It ends, which the manager is notified of if it knows the process. */
void by_agent_meeting_end(struct by_agent *agent, const struct by_agent_rank *rank, uint64_t now);
/* To the launcher of its number, if that is still there. */
void by_agent_meetings_send_offer(const struct by_agent *agent, const struct by_cluster_message *offer);
/* To the process of its number, or to those in the list. */
void by_agent_meetings_send_list(const struct by_agent *agent, const struct by_cluster_message *list);
/* Sends what was not sent of processes that meet others; in a new session with the manager, all. */
void by_agent_meetings_send(struct by_agent *agent, bool all, uint64_t now);

/* ---- what is reported of these and of this host's interfaces: agent_reports.c */

struct by_agent_interface {
  struct by_agent_counter counter;                             /* when it was last looked at */
  double sent, received, marked, helped_sent, helped_received; /* bit/s before that */
};

struct by_agent_reports {
  uint64_t started, counted_at;
  uint32_t n;
  struct by_agent_interface interfaces[BY_AGENT_INTERFACES];
  bool renew;      /* there is an interface that the last hello did not name */
  uint64_t n_sent; /* reports */
};

/* What the ranks of a job have done together. */
struct by_agent_usage by_agent_usage_merge(const struct by_agent *agent, const struct by_agent_job *job);
/* Reads the interfaces' counters. */
void by_agent_reports_count(struct by_agent *agent, uint64_t now);
void by_agent_reports_send_hello(struct by_agent *agent, uint64_t now);
void by_agent_reports_send(struct by_agent *agent, uint64_t now);
/* All jobs, in the order of the list; they lie in the arena. */
BANYAN_CHECK enum banyan_status by_agent_reports_list_jobs(const struct by_agent *agent, uint64_t now,
                                                           struct by_arena *arena, struct by_cluster_job **out);
/* The interfaces with what jobs send and receive over each. */
void by_agent_reports_list_interfaces(const struct by_agent *agent, struct by_cluster_interface *out);

/* ---- all of it: agent.c */

struct by_agent {
  struct by_agent_options options;
  struct by_agent_session session;
  struct by_agent_ranks ranks;
  struct by_agent_reports reports;
  uint32_t n_helpers;
  LIST_HEAD(, by_agent_helper) helpers;
};

#endif
