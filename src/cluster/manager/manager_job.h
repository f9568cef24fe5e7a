/* The manager, and a job as it knows it: found by its ID, and by the host of its rank 0. Each part of them belongs to
 * the file that its comment names, and is changed there only. */
#ifndef BY_CLUSTER_MANAGER_MANAGER_JOB_H
#define BY_CLUSTER_MANAGER_MANAGER_JOB_H

#include <sys/queue.h>

#include "link_seen.h"
#include "manager.h"
#include "priority.h"

enum { BY_MANAGER_WHY = 256, BY_MANAGER_BUCKETS = 2048 };
#define BY_NOWHERE UINT32_MAX

struct by_manager {
  struct by_manager_options options;
  const struct by_topology *topology;
  double now, began;
  bool restoring; /* what is to be kept is kept already */
  struct by_manager_counters counters;

  TAILQ_HEAD(, by_manager_peer) peers;    /* manager_hosts.h, manager_peers.c */
  uint64_t n_joined;                      /* peers that ever were */
  struct by_manager_hosts *hosts;         /* manager_hosts.h */
  struct by_manager_links *links;         /* manager_links.h */
  struct by_link_seen *seen;              /* link_seen.h */
  LIST_HEAD(, by_meeting_point) meetings; /* manager_meetings.c */
  struct by_manager_job *jobs;
  LIST_HEAD(, by_manager_job) by_id[BY_MANAGER_BUCKETS], by_root[BY_MANAGER_BUCKETS]; /* manager_job.c */
};

/* Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_manager_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the cluster's hosts and jobs");
  return BANYAN_ERR_NO_MEMORY;
}

/* NULL: the peer has gone, and nothing is sent. */
void by_manager_send(const struct by_manager *m, const struct by_manager_peer *peer,
                     const struct by_cluster_message *message);
void by_manager_keep_row(const struct by_manager *m, const struct by_manager_row *row);

/* ---- jobs */

enum {
  BY_MANAGER_HISTORY = 32, /* rows of a job that are shown */
  BY_MANAGER_OWNER = 80,
};

/* What one host, or rank without an agent, last reported of its ranks of a job. */
struct by_manager_part {
  struct by_manager_peer *peer; /* NULL: it has reported nothing yet, or has gone */
  bool reported;                /* a report of the job has come from there */
  uint64_t sent;
  struct by_seen_paths paths;
};

/* A host that helps a job or runs a server of its, or is to, or did not; manager_helpers.c.
 *
 *   state    next states       meaning
 *   BARRED   ASKED, JOINED     not to be asked again until a while has passed
 *   ASKED    JOINED, BARRED    the agent is to start it until its deadline
 *   JOINED   BARRED, ASKED     the agent has reported that it joined; ASKED: a server is to serve more trees */
enum by_helper_state { BY_HELPER_BARRED, BY_HELPER_ASKED, BY_HELPER_JOINED };
struct by_manager_helper {
  uint32_t host;
  bool server;
  uint32_t trees; /* of a server */
  enum by_helper_state state;
  double until; /* of ASKED and BARRED */
  uint64_t by;  /* the agent's connection on which it reported that it joined; 0: none of this manager's */
};

/* How many cells a plan gets.
 *
 *   AMPLE   a plan of its own: all that it wants, where there is room
 *   FAIR    the plan that the job has, on other cells: no more than others that use the switch could have
 *   LEAST   the same, with its guarantees only */
enum by_grants_share { BY_GRANTS_AMPLE, BY_GRANTS_FAIR, BY_GRANTS_LEAST };

struct by_manager_plan {
  uint64_t number;
  struct by_plan *plan;
  struct by_embedding *embedding; /* NULL: not known any more */
  struct by_link_shares shares;
  struct by_plan_needs needs; /* of cells */
  enum by_grants_share share;
  double rate, made; /* bit/s that it was to carry */
  double carries;    /* beside higher classes, when it was made; 0: not known */
  double before;     /* what the one before would have; 0: nothing was known */
  char *topology;    /* as JSON, for the job's groups; NULL: it is not sent */
  char why[BY_MANAGER_WHY];
};

/* What becomes of a plan that was made for a job.
 *
 *   state     next states           meaning
 *   NONE      JOINING, LATE         nothing is proposed
 *   JOINING   ASKED, NONE           helpers and servers are to join and cells to become free until its deadline
 *   ASKED     LATE, NONE            the job is to answer until its deadline
 *   LATE      NONE                  it has not; or the manager has begun again. An answer may still come, until its
 *                                   deadline if the connection on which it was sent has ended */
enum by_proposal_state { BY_PROPOSAL_NONE, BY_PROPOSAL_JOINING, BY_PROPOSAL_ASKED, BY_PROPOSAL_LATE };

/* The plans and helpers of a job; manager_plans.c, manager_proposal.c, manager_user_plan.c, manager_helpers.c. */
struct by_managed_plans {
  char *own;        /* the plan that its user set, which stays in use; NULL: none */
  char *own_trees;  /* the same as JSON; NULL: not known */
  uint64_t numbers; /* the last one that a plan got */
  struct by_manager_plan *current, *proposed;
  uint64_t ran;                    /* number of the last plan that it ran before `current`; 0: none is known */
  struct by_manager_plan *retired; /* what the job had when its planning began, and has no more */
  enum by_proposal_state proposal;
  double deadline;            /* in all states but NONE */
  uint64_t asked_by;          /* the connection on which it was sent; 0: none of this manager's */
  double strict_until;        /* Until then it is planned with cells that are free at once. */
  double switchless_until;    /* Until then it is planned without cells. */
  bool running;               /* A planner's thread is making one. */
  const uint32_t *candidates; /* The request's: hosts from which that plan takes helpers. */
  uint32_t n_candidates;
  double planned;                /* when it last did; 0: never */
  uint64_t planned_at;           /* iterations then */
  double rate_then;              /* what its plan carried then; 0: not known */
  double not_before;             /* after a refusal, */
  uint32_t refusals;             /* of which there were so many in a row */
  uint32_t unknown;              /* times that it has reported a plan that is not known */
  uint32_t gains;                /* plannings in a row that have found better trees, beside others */
  struct by_link_shares assumed; /* what it is taken to put on links without a plan of the manager's */
  uint32_t n_helpers;
  uint32_t helpers_room;
  struct by_manager_helper *helpers;
};

/* Its class, and the order of those that it meets; manager_links.c. */
struct by_job_order {
  uint32_t class_;
  uint32_t above, behind;
  double changed; /* when one of these two last changed */
};

/* What the manager has given one of a job's trees at a switch. */
struct by_manager_grant {
  uint64_t number; /* of the plan */
  uint32_t node;   /* the switch's */
  char *server;    /* the tree's root */
  uint32_t slots, guarantee;
};

/* manager_grants.c; those of an earlier plan come first. */
struct by_job_grants {
  uint32_t n, room;
  struct by_manager_grant *all;
};

/* What the job's user prefers for its plans; 0: what the manager's options say. manager_jobs.c. */
struct by_job_preferences {
  uint32_t ways; /* plan_ways.h */
  double penalty;
  uint32_t steps, trees;
};

/* What one of a job's trees requests at a switch. */
struct by_manager_cells {
  uint32_t node; /* the switch's; BY_NOWHERE: not known */
  char *at, *server;
  uint32_t requested, given; /* slots */
  uint32_t bytes;            /* of memory that a slot takes */
  bool settled;              /* the job has reported what it has there */
  double on_ways;            /* bytes on their way to its server and back at the job's rate; 0: not known */
  double need;               /* the same, or a guess */
};

/* manager_cells.c; none, once the job has left. */
struct by_job_cells {
  uint32_t n;
  struct by_manager_cells *all;
};

struct by_manager_event {
  uint64_t number;
  double time, before, after;
  char why[BY_MANAGER_WHY];
};

/* What makes a job due to be planned for, the most urgent first. */
enum by_job_due { BY_DUE_NEW, BY_DUE_HELPER, BY_DUE_SWITCH, BY_DUE_LESS, BY_DUE_CHANGE, BY_DUE_TIME, BY_DUE_NONE };

/* manager_job.c. */
struct by_job_notes {
  enum by_job_due due;
  char reason[BY_MANAGER_WHY];  /* of being due */
  char trouble[BY_MANAGER_WHY]; /* why there is no plan, or no better one; "" */
  uint32_t n_history;
  struct by_manager_event history[BY_MANAGER_HISTORY]; /* the last ones, the oldest first */
};

/* manager.c. */
struct by_job_check {
  uint32_t n_confirmed; /* hosts from the first on that are known to be its own */
  double worse;         /* what its plan carried when it was planned over what it carries now */
};

/* Where a job is in its life.
 *
 *   state      next states   meaning
 *   RUNS       LEFT          a peer speaks for it
 *   LEFT       REPLACED      it has ended, and is still shown
 *   REPLACED   -             another one has its ID, and a planner's thread still reads it */
enum by_job_state { BY_JOB_RUNS, BY_JOB_LEFT, BY_JOB_REPLACED };

/* One of a job's hosts, by its name. */
struct by_manager_name {
  const char *name;
  uint32_t host;
};

/* All else belongs to manager_jobs.c. */
struct by_manager_job {
  struct by_manager_job *next;
  LIST_ENTRY(by_manager_job) by_id, by_root; /* manager_job.c */
  char id[BY_CLUSTER_JOB_ID + 1];            /* "" once it is REPLACED */
  char *name, *root, *key;                   /* key: NULL where helpers may not join */
  uint32_t n_ranks, n_hosts;
  struct by_arena arena;           /* of the lists that follow */
  const char **hosts;              /* different ones, by their first rank */
  uint32_t *nodes;                 /* in the topology; BY_NOWHERE: not there */
  uint32_t *of_rank;               /* which of these each rank is on */
  struct by_manager_name *by_name; /* these in the order of their names */
  bool placed;                     /* all are there */
  struct by_manager_peer *peer;    /* which speaks for rank 0, */
  char owner[BY_MANAGER_OWNER];    /* with which certificate; "": not known since the manager began */
  struct by_manager_part *parts;   /* of each of the hosts */
  uint64_t parts_sent;             /* bytes that these have sent */
  double began;                    /* as rank 0 states; 0: it does not */
  double since, seen;              /* seen: when a peer last spoke for it */
  enum by_job_state state;
  double gone_at; /* when it left */

  uint64_t iterations, sent, input;
  bool has_calls;
  uint64_t calls[BY_PLAN_CALLS]; /* of rank 0's host, by log2 of their bytes */
  struct by_job_length length;   /* as it states */
  double iteration_time;
  double input_rate; /* bit/s; smoothed */
  double rated;      /* when `input` was last looked at */
  uint64_t rated_input;
  struct by_priority_place place;
  uint32_t notified; /* the class that was last sent to its hosts */

  struct by_job_notes notes;
  struct by_job_order order;
  struct by_managed_plans plans;
  struct by_job_check check;
  struct by_job_cells cells;
  struct by_job_grants grants;
  struct by_job_preferences preferences;
};

static inline bool by_job_has_left(const struct by_manager_job *job) {
  return job->state != BY_JOB_RUNS;
}

struct by_manager_job *by_jobs_find(const struct by_manager *m, const char *id);
/* Those whose rank 0 is on a host. */
struct by_manager_job *by_jobs_first_of(const struct by_manager *m, const char *host);
struct by_manager_job *by_jobs_next_of(const struct by_manager_job *job);
void by_jobs_index(struct by_manager *m, struct by_manager_job *job);
void by_jobs_unindex(struct by_manager_job *job);

/* Has its row kept. */
void by_job_keep(const struct by_manager *m, const struct by_manager_job *job);
void by_job_add_event(const struct by_manager *m, struct by_manager_job *job, const struct by_manager_event *event);
/* Why there is no plan, or no better one. */
void by_job_set_trouble(struct by_manager_job *job, const char *format, ...) BY_PRINTF(2, 3);

/* Whether the host runs a server of any job. */
bool by_jobs_have_server(const struct by_manager *m, uint32_t host);
/* Of each node of the topology, who uses it: the caller frees it. NULL: out of memory. */
enum by_node_use { BY_NODE_HAS_RANKS = 1, BY_NODE_HELPS = 2 /* other jobs than `job`, or may soon */ };
uint8_t *by_jobs_find_uses(const struct by_manager *m, const struct by_manager_job *job);
/* What it puts on the network: by its plan, its user's, or the ring that it is taken to have. */
const struct by_link_shares *by_job_shares(const struct by_manager_job *job);
/* A plan was proposed, and is waited for. */
bool by_job_is_moving(const struct by_manager_job *job);

void by_due_mark(struct by_manager_job *job, enum by_job_due due, const char *format, ...) BY_PRINTF(3, 4);
void by_due_clear(struct by_manager_job *job);
void by_due_mark_all(const struct by_manager *m, enum by_job_due due, const char *why);
/* All jobs that share a step with these shares. NULL: all jobs. */
void by_due_mark_sharers(const struct by_manager *m, const struct by_link_shares *shares, const char *why);

/* ---- when they come and go, and what their hosts report of them: manager_jobs.c */

/* A job as rank 0 describes it; hosts: of each rank. One of the same ID on other hosts leaves. */
BANYAN_CHECK enum banyan_status by_jobs_begin(struct by_manager *m, const struct by_cluster_message *message,
                                              struct by_manager_job **out);
/* From a row that was kept. */
BANYAN_CHECK enum banyan_status by_jobs_restore(struct by_manager *m, const struct by_manager_row *row);
/* The peer speaks for its rank 0, with the certificate that `owner` names. */
void by_jobs_set_speaker(const struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                         const char *owner);
void by_jobs_report(struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                    const struct by_cluster_job *message);
void by_jobs_leave(struct by_manager *m, struct by_manager_job *job, const char *why);
void by_jobs_forget_peer(struct by_manager *m, struct by_manager_peer *peer);
/* Rates, classes, and those that nobody speaks for any more. */
void by_jobs_tick(struct by_manager *m);
void by_jobs_free_all(struct by_manager *m);

#endif
