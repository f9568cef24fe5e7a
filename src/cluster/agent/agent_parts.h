/* What the parts of an agent share: its memory. See agent.h. */
#ifndef BY_AGENT_AGENT_PARTS_H
#define BY_AGENT_AGENT_PARTS_H

#include "agent.h"
#include "budget.h"
#include "clock.h"
#include "repeats.h"
#include "rng.h"

/* What a rank has done since its job began. */
struct by_agent_deeds {
  uint64_t iterations, calls, sent, input;
  uint64_t expected; /* iterations in all, by rank 0's word; 0: there is none */
  double iteration_time;
  uint64_t sizes[BY_CLUSTER_SIZES]; /* calls, by log2 of their bytes */
};

struct by_agent_user {
  struct by_agent_user *next;
  unsigned uid;
  uint32_t n_ranks, n_jobs; /* n_ranks: connections */
  size_t kept;              /* bytes of its jobs' lines */
  struct by_budget budget;  /* of what is passed on to the manager, */
  struct by_budget words;   /* what all its connections say together, those that have ended among them, */
  struct by_budget news;    /* and what makes a report come before its time */
};

/* What rank 0 said last, in the order in which it is said on every new connection; KEPT: after MOVED. */
enum by_agent_line { BY_AGENT_JOB, BY_AGENT_WISH, BY_AGENT_MOVED, BY_AGENT_KEEPS, BY_AGENT_LINES };

/* Of a rank or of all of a job's here: what their connections saw; `to` of a rank's own are its own. */
struct by_agent_paths {
  uint32_t n;
  struct by_cluster_path all[BY_CLUSTER_PATHS];
};

/* In a list in the order in which they came. */
struct by_agent_job {
  struct by_agent_job *next;
  char id[BY_CLUSTER_JOB_ID + 1];
  struct by_agent_user *user; /* whose it is */
  char *name;                 /* NULL: rank 0 is not here, or has not said it yet; so are: */
  char *lines[BY_AGENT_LINES];
  bool unsaid[BY_AGENT_LINES]; /* to the manager that is there */
  uint32_t ranks;              /* that are here */
  struct by_job_length length; /* by the word of rank 0, if it is here */
  struct by_priority_place place;
  uint32_t class_;
  bool managed; /* the manager has said the class */
};

struct by_agent_rank {
  struct by_agent_rank *next;
  void *connection;
  struct by_agent_user *user;
  struct by_budget budget;  /* of what it says */
  struct by_agent_job *job; /* NULL: no hello yet */
  uint32_t rank;
  struct by_agent_deeds deeds;
  uint64_t rated_at, rated_sent; /* from where on its rate is measured */
  double rate;                   /* bit/s that it sends */
  struct by_agent_paths *paths;  /* NULL: it has said none */
  uint64_t paths_at;
};

struct by_agent_helper {
  struct by_agent_helper *next;
  char job[BY_CLUSTER_JOB_ID + 1];
  char *name;
  bool joined, resting;
  char *again; /* it is wanted once more, after it has ended: the manager's line; NULL: not */
};

struct by_agent_interface {
  struct by_agent_counter counter;                             /* when it was last looked at */
  double sent, received, marked, helped_sent, helped_received; /* bit/s before that */
};

enum by_agent_link { BY_AGENT_LINK_NONE, BY_AGENT_LINK_WAITING, BY_AGENT_LINK_CONNECTING, BY_AGENT_LINK_OPEN };

struct by_agent {
  struct by_agent_options options;
  struct by_rng rng;
  uint64_t started;
  struct by_agent_job *jobs;
  struct by_agent_rank *ranks;
  struct by_agent_helper *helpers;
  struct by_agent_user *users; /* that have ranks here, or have used up something */
  uint32_t n_jobs, n_ranks, n_helpers;

  double interval;    /* seconds */
  uint64_t report_at; /* the next report, changes or not */
  uint64_t change_at; /* one because of a change; UINT64_MAX: none */
  uint64_t ticked_at; /* the last report was due */
  uint64_t counted_at;
  uint32_t n_interfaces;
  struct by_agent_interface interfaces[BY_AGENT_INTERFACES];
  bool renew; /* there is one that the last hello did not name */

  enum by_agent_link link;
  bool welcome;              /* since the link is open */
  uint64_t connect_at;       /* in WAITING */
  double delay;              /* seconds before the next attempt but one */
  double away;               /* the same after a refusal; 0: there was none */
  uint64_t link_since;       /* open, or closed */
  double manager_rate;       /* bit/s of the host's link; 0: not known */
  bool told;                 /* that the manager is there, since it was said that it is not */
  struct by_repeats reasons; /* that has been said since */
  char why[BY_AGENT_TEXT];   /* the link is not there; "" while it is */

  uint64_t reports, refused;  /* said; lines that were not taken */
  size_t kept;                /* bytes of all jobs' lines */
  struct by_budget budget;    /* of what is said to the manager, */
  struct by_repeats rejected; /* and the log of what local users do wrong */
};

/* ---- agent.c */

struct by_agent_job *by_agent_find_job(const struct by_agent *agent, const char *id);
/* Where the helper of a job hangs in the list; *it is NULL where there is none. */
struct by_agent_helper **by_agent_find_helper(struct by_agent *agent, const char *job);
/* A report is due soon. */
void by_agent_note_change(struct by_agent *agent, uint64_t now);
/* NULL when memory is out, which is logged. */
char *by_agent_copy_text(const char *text);

/* ---- agent_ranks.c */

void by_agent_drop_rank(struct by_agent *agent, struct by_agent_rank *rank);
void by_agent_drop_job(struct by_agent *agent, struct by_agent_job *job);
void by_agent_tell_rank(const struct by_agent *agent, const struct by_agent_rank *rank,
                        const struct by_cluster_message *message);
/* To all ranks of it here; the class is given to the job too. */
void by_agent_set_class(struct by_agent *agent, struct by_agent_job *job, uint32_t class_);
/* What its ranks here have done together, in `*out`. */
void by_agent_merge(const struct by_agent *agent, const struct by_agent_job *job, struct by_agent_deeds *out);

/* ---- agent_users.c */

enum { BY_AGENT_KEPT = 8 << 20 /* bytes of all jobs' lines; a quarter of that of one user */ };

/* A connection of a user that is to be counted off n_ranks when it goes. BANYAN_ERR_UNSUPPORTED: it has too many. */
BANYAN_CHECK enum banyan_status by_agent_user_came(struct by_agent *agent, unsigned uid, uint64_t now,
                                                   struct by_agent_user **out);
BANYAN_CHECK enum banyan_status by_agent_user_may_have_job(const struct by_agent_user *user);
/* Full budgets. */
void by_agent_users_init(struct by_agent *agent, uint64_t now);
void by_agent_users_free(struct by_agent *agent);
/* Whether its connections may say so much more: BANYAN_ERR_PROTOCOL. */
BANYAN_CHECK enum banyan_status by_agent_user_may_speak(struct by_agent_user *user, size_t length, uint64_t now);
/* What one of its ranks does is worth a report soon, unless it has been too often of late. */
void by_agent_note_news(struct by_agent *agent, struct by_agent_user *user, uint64_t now);
/* Keeps it in place of the one before, to be said. */
BANYAN_CHECK enum banyan_status by_agent_keep_line(struct by_agent *agent, struct by_agent_job *job,
                                                   enum by_agent_line which, const struct by_cluster_message *message);
void by_agent_drop_line(struct by_agent *agent, struct by_agent_job *job, enum by_agent_line which);
void by_agent_drop_lines(struct by_agent *agent, struct by_agent_job *job);
/* What is not said yet, of one job or all, as far as it may be said now; the rest with the next report. */
void by_agent_say_kept(struct by_agent *agent, struct by_agent_job *job, uint64_t now);
void by_agent_say_unsaid(struct by_agent *agent, uint64_t now);
void by_agent_say_left(struct by_agent *agent, const struct by_agent_rank *rank, uint64_t now);
/* Whether a line of the agent's own may be said now. */
bool by_agent_may_say(struct by_agent *agent, size_t length, uint64_t now);

/* ---- agent_paths.c */

/* What a rank says of its connections. True: it says so before its time, or one of them is much slower or faster than
 * it was. */
bool by_agent_take_paths(const struct by_agent *agent, struct by_agent_rank *rank, const struct by_cluster_job *said,
                         uint64_t now);
void by_agent_free_paths(struct by_agent_rank *rank);
/* Those of all ranks of a job that have said some of late, those that carry most first; `to` is theirs. */
BANYAN_CHECK enum banyan_status by_agent_merge_paths(const struct by_agent *agent, const struct by_agent_job *job,
                                                     uint64_t now, struct by_arena *arena, struct by_agent_paths *out);

/* ---- agent_manager.c */

/* Where the link is open; else it is forgotten: what counts is said again on a new connection. */
void by_agent_tell_manager(struct by_agent *agent, const struct by_cluster_message *message, uint64_t now);
/* The same of what was printed before. */
void by_agent_tell_line(struct by_agent *agent, const char *line, uint64_t now);
void by_agent_tick_link(struct by_agent *agent, uint64_t now);
/* Ends it, to say hello anew, where interfaces have come. */
void by_agent_renew_link(struct by_agent *agent, uint64_t now);

/* ---- agent_report.c */

/* Reads the interfaces' counters where that is due. */
void by_agent_count(struct by_agent *agent, uint64_t now);
void by_agent_report(struct by_agent *agent, uint64_t now);
/* All jobs, in the order of the list; they lie in the arena. */
BANYAN_CHECK enum banyan_status by_agent_describe(const struct by_agent *agent, uint64_t now, struct by_arena *arena,
                                                  struct by_cluster_job **out);
/* The interfaces with what jobs send and receive over each. */
void by_agent_share_ours(const struct by_agent *agent, struct by_cluster_interface *out);

#endif
