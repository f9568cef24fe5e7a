/* The jobs that have ranks on this host, in the order in which they came, with what rank 0 last said of each: the agent
 * keeps these lines, and sends them in every session with the manager.
 *
 * What each user of this host may have of the agent, and have passed on to the manager: nobody uses up what is meant
 * for all. Root is not limited, as it could have everything anyway. */
#ifndef BY_AGENT_AGENT_JOBS_H
#define BY_AGENT_AGENT_JOBS_H

#include <sys/queue.h>

#include "agent_session.h"
#include "budget.h"
#include "fail.h"
#include "log.h"

struct by_agent_user {
  LIST_ENTRY(by_agent_user) entry;
  unsigned uid;
  uint32_t n_ranks, n_jobs;  /* n_ranks: connections */
  size_t kept;               /* bytes of its jobs' lines */
  struct by_budget forwards; /* of what is passed on to the manager */
  struct by_budget received; /* of what all its connections send together, those that have ended among them */
  struct by_budget news;     /* of what makes a report come before its time */
};

struct by_agent_users {
  LIST_HEAD(, by_agent_user) all; /* that have ranks here, or have used up something */
  size_t kept;                    /* bytes of all jobs' lines */
  struct by_budget forwards;      /* of what is sent to the manager by all */
  struct by_repeats rejections;   /* the log of what users do wrong */
};

/* Full budgets. */
void by_agent_users_init(struct by_agent_users *users, uint64_t now);
void by_agent_users_fini(struct by_agent_users *users);
/* Counts a connection of a user. BANYAN_ERR_UNSUPPORTED: it has too many. */
BANYAN_CHECK enum banyan_status by_agent_users_connect(struct by_agent_users *users, unsigned uid, uint64_t now,
                                                       struct by_agent_user **out);
void by_agent_users_disconnect(struct by_agent_user *user);
/* Whether its connections may send so much more: BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_agent_users_may_send(struct by_agent_user *user, size_t length, uint64_t now);
/* Whether a line may be passed on to the manager now. NULL: one of the agent's own. */
bool by_agent_users_may_forward(struct by_agent_users *users, struct by_agent_user *user, size_t length, uint64_t now);
/* Logs what a process of a user does wrong: a few lines a minute, and how many were left out; see by_repeats_warn. */
void by_agent_users_log(struct by_agent_users *users, unsigned uid, const char *what, uint64_t now);

/* What rank 0 said last, in the order in which it is sent; KEEPS: after MOVED. */
enum by_agent_line { BY_AGENT_JOB, BY_AGENT_RESERVE, BY_AGENT_SWITCHED, BY_AGENT_KEEPS, BY_AGENT_LINES };

struct by_agent_job {
  TAILQ_ENTRY(by_agent_job) entry;
  char id[BY_CLUSTER_JOB_ID + 1];
  struct by_agent_user *user;  /* whose it is */
  char *name;                  /* NULL: rank 0 is not here, or has not sent it yet */
  char *lines[BY_AGENT_LINES]; /* NULL as `name` */
  bool unsent[BY_AGENT_LINES]; /* in this session with the manager */
  uint32_t ranks;              /* that are here */
  struct by_job_length length; /* by the word of rank 0, if it is here */
  struct by_priority_place place;
  uint32_t class_;
  bool managed; /* the manager has said the class */
};

struct by_agent_jobs {
  struct by_agent_users *users;     /* borrowed, like the next */
  struct by_agent_session *session; /* where the lines go */
  TAILQ_HEAD(, by_agent_job) all;
  uint32_t n;
};

void by_agent_jobs_init(struct by_agent_jobs *jobs, struct by_agent_users *users, struct by_agent_session *session);
void by_agent_jobs_fini(struct by_agent_jobs *jobs);
/* NULL: it has no rank here. */
struct by_agent_job *by_agent_jobs_find(const struct by_agent_jobs *jobs, const char *id);
/* Counts a rank of a job, which begins with the first one. BANYAN_ERR_PROTOCOL: it is another user's;
 * BANYAN_ERR_UNSUPPORTED: there are too many. */
BANYAN_CHECK enum banyan_status by_agent_jobs_join(struct by_agent_jobs *jobs, const char *id,
                                                   struct by_agent_user *user, struct by_agent_job **out);
/* The job is no more after its last rank. */
void by_agent_jobs_leave(struct by_agent_jobs *jobs, struct by_agent_job *job);
/* Something of a job is worth a report soon, if its user has not had too many of late. */
void by_agent_jobs_note_news(struct by_agent_jobs *jobs, struct by_agent_user *user, uint64_t now);

/* Takes over `name`, and forgets the lines that an earlier rank 0 has sent. */
void by_agent_jobs_begin(struct by_agent_jobs *jobs, struct by_agent_job *job, char *name);
/* Keeps a line in place of the one before, and sends what was not sent as far as that is allowed now. */
BANYAN_CHECK enum banyan_status by_agent_jobs_keep(struct by_agent_jobs *jobs, struct by_agent_job *job,
                                                   enum by_agent_line which, const struct by_cluster_message *message,
                                                   uint64_t now);
/* Sends what was not sent of all jobs; in a new session all lines are sent again. */
void by_agent_jobs_send(struct by_agent_jobs *jobs, bool all, uint64_t now);

/* Finds its place in the order by what its ranks have done. */
void by_agent_job_find_place(struct by_agent_job *job, const struct by_priority_rules *rules, uint64_t iterations,
                             uint64_t sent, uint64_t expected);
/* True: it had another class. */
bool by_agent_job_set_class(struct by_agent_job *job, uint32_t class_, bool managed);

#endif
