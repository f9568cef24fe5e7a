/* What each user of this host may have of the agent, and have passed on to the manager: nobody uses up what is meant
 * for all. Root is not limited, as it could have everything anyway. */
#ifndef BY_AGENT_AGENT_USERS_H
#define BY_AGENT_AGENT_USERS_H

#include "budget.h"
#include "fail.h"
#include "repeats.h"

struct by_agent_user {
  struct by_agent_user *next;
  unsigned uid;
  uint32_t n_ranks, n_jobs;  /* n_ranks: connections */
  size_t kept;               /* bytes of its jobs' lines */
  struct by_budget forwards; /* of what is passed on to the manager */
  struct by_budget received; /* of what all its connections send together, those that have ended among them */
  struct by_budget news;     /* of what makes a report come before its time */
};

struct by_agent_users {
  struct by_agent_user *all;    /* that have ranks here, or have used up something */
  size_t kept;                  /* bytes of all jobs' lines */
  struct by_budget forwards;    /* of what is sent to the manager by all */
  struct by_repeats rejections; /* the log of what users do wrong */
};

/* Full budgets. */
void by_agent_users_init(struct by_agent_users *users, uint64_t now);
void by_agent_users_fini(struct by_agent_users *users);
/* Counts a connection of a user. BANYAN_ERR_UNSUPPORTED: it has too many. */
BANYAN_CHECK enum banyan_status by_agent_users_connect(struct by_agent_users *users, unsigned uid, uint64_t now,
                                                       struct by_agent_user **out);
void by_agent_users_disconnect(struct by_agent_user *user);
/* Counts a job of a user. BANYAN_ERR_UNSUPPORTED: it has too many. */
BANYAN_CHECK enum banyan_status by_agent_users_add_job(struct by_agent_user *user);
void by_agent_users_remove_job(struct by_agent_user *user);
/* Whether its connections may send so much more: BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_agent_users_may_send(struct by_agent_user *user, size_t length, uint64_t now);
/* Whether what one of its ranks does is worth an early report: it may not have had too many of late. */
bool by_agent_users_may_report_early(struct by_agent_user *user, uint64_t now);
/* Whether a line may be passed on to the manager now. NULL: one of the agent's own. */
bool by_agent_users_may_forward(struct by_agent_users *users, struct by_agent_user *user, size_t length, uint64_t now);
/* Counts bytes of a line that is kept for a user. BANYAN_ERR_UNSUPPORTED: it would be too much. */
BANYAN_CHECK enum banyan_status by_agent_users_keep(struct by_agent_users *users, struct by_agent_user *user,
                                                    size_t length);
void by_agent_users_release(struct by_agent_users *users, struct by_agent_user *user, size_t length);
/* Logs what a process of a user does wrong: a few lines a minute, and how many were left out; see by_repeats_warn. */
void by_agent_users_log(struct by_agent_users *users, unsigned uid, const char *what, uint64_t now);

#endif
