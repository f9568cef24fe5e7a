/* The manager and its record of a job, which is found by its ID and by the host of its rank 0. Each part belongs to the
 * file that its comment names, and is changed there only. */
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
  bool restoring; /* Rows come from the store, so they are not stored again. */
  struct by_manager_counters counters;

  TAILQ_HEAD(, by_manager_peer) peers;    /* manager_peers.c */
  uint64_t n_joined;                      /* Number of peers so far. */
  struct by_manager_hosts *hosts;         /* manager_hosts.h */
  struct by_manager_links *links;         /* manager_links.h */
  struct by_link_seen *seen;              /* link_seen.h */
  LIST_HEAD(, by_meeting_point) meetings; /* manager_meetings.c */
  struct by_manager_job *jobs;
  LIST_HEAD(, by_manager_job) by_id[BY_MANAGER_BUCKETS], by_root[BY_MANAGER_BUCKETS]; /* manager_job.c */
};

/* Inline, so that static analysers see that it never returns BANYAN_OK. */
static inline enum banyan_status by_manager_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the cluster's hosts and jobs");
  return BANYAN_ERR_NO_MEMORY;
}

/* Sends to a peer. NULL: the peer has gone, and nothing is sent. */
void by_manager_send(const struct by_manager *m, const struct by_manager_peer *peer,
                     const struct by_cluster_message *message);
void by_manager_keep_row(const struct by_manager *m, const struct by_manager_row *row);

/* ---- jobs */

enum {
  BY_MANAGER_HISTORY = 32, /* Events of a job that are shown. */
  BY_MANAGER_OWNER = 80,
};

/* The last report of one host, or of a rank without an agent, about its ranks of a job. */
struct by_manager_part {
  struct by_manager_peer *peer; /* NULL: it has not reported yet, or has gone. */
  bool reported;                /* It has reported the job. */
  uint64_t sent;
  struct by_seen_paths paths;
};

/* A host for a helper or a server of a job; manager_helpers.c.
 *
 *   state    next states       meaning
 *   BARRED   ASKED, JOINED     not asked again before `until`
 *   ASKED    JOINED, BARRED    the agent must start it before `until`
 *   JOINED   BARRED, ASKED     the agent has reported that it joined; ASKED: a server must serve more trees */
enum by_helper_state { BY_HELPER_BARRED, BY_HELPER_ASKED, BY_HELPER_JOINED };
struct by_manager_helper {
  uint32_t host;
  bool server;
  uint32_t trees; /* Trees of a server. */
  enum by_helper_state state;
  double until; /* End of ASKED or BARRED. */
  uint64_t by;  /* Connection of the agent that reported that it joined; 0: none of this manager's. */
};

/* How many cells a plan gets.
 *
 *   AMPLE   a new plan: all that it wants, if they are free
 *   FAIR    the job's current plan on other cells: at most an equal share of the switch
 *   LEAST   the job's current plan on other cells: its guarantees only */
enum by_grants_share { BY_GRANTS_AMPLE, BY_GRANTS_FAIR, BY_GRANTS_LEAST };

struct by_manager_plan {
  uint64_t number;
  struct by_plan *plan;
  struct by_embedding *embedding; /* NULL: unknown. */
  struct by_link_shares shares;
  struct by_plan_needs needs; /* Cells that it needs. */
  enum by_grants_share share;
  double rate, made; /* Predicted bit/s; when it was made. */
  double carries;    /* Predicted bit/s beside higher classes, when it was made; 0: unknown. */
  double before;     /* Predicted bit/s of the previous plan at that time; 0: unknown. */
  char *topology;    /* Topology for the job's groups, as JSON; NULL: not sent. */
  char why[BY_MANAGER_WHY];
};

/* State of a plan that was made for a job.
 *
 *   state     next states           meaning
 *   NONE      JOINING, LATE         nothing is proposed
 *   JOINING   ASKED, NONE           waits until its deadline for helpers and servers to join and cells to become free
 *   ASKED     LATE, NONE            waits until its deadline for the job's answer
 *   LATE      NONE                  the answer is late, or the manager was restarted. It may still come; if the
 *                                   connection on which the plan was sent has ended, until the deadline */
enum by_proposal_state { BY_PROPOSAL_NONE, BY_PROPOSAL_JOINING, BY_PROPOSAL_ASKED, BY_PROPOSAL_LATE };

/* The plans and helpers of a job; manager_plans.c, manager_user_plan.c, manager_helpers.c. */
struct by_managed_plans {
  char *own;        /* Name of the plan that the user set, which stays in use; NULL: none. */
  char *own_trees;  /* That plan as JSON; NULL: unknown. */
  uint64_t numbers; /* Number of the latest plan. */
  struct by_manager_plan *current, *proposed;
  uint64_t ran;                    /* Number of the plan that ran before `current`; 0: unknown. */
  struct by_manager_plan *retired; /* The job's plan when its planning began, if it was replaced since. */
  enum by_proposal_state proposal;
  double deadline;            /* For all states but NONE. */
  uint64_t asked_by;          /* Connection on which the proposal was sent; 0: none of this manager's. */
  double strict_until;        /* Time until which only free cells are planned. */
  double switchless_until;    /* Time until which no cells are planned. */
  bool running;               /* A planner thread is making a plan. */
  const uint32_t *candidates; /* Hosts from which that plan may take helpers; owned by the request. */
  uint32_t n_candidates;
  double planned;                /* When the last planning ended; 0: never. */
  uint64_t planned_at;           /* Iterations at that time. */
  double rate_then;              /* Rate of its plan at that time; 0: unknown. */
  double not_before;             /* No planning before this time, after a refusal. */
  uint32_t refusals;             /* Consecutive refusals. */
  uint32_t unknown;              /* Reports of a plan that the manager does not know. */
  uint32_t gains;                /* Consecutive plannings that found better trees while others were sending. */
  struct by_link_shares assumed; /* Assumed load on links of a job without a plan of the manager's. */
  uint32_t n_helpers;
  uint32_t helpers_capacity;
  struct by_manager_helper *helpers;
};

/* A job's class, and its order among jobs that it meets; manager_links.c. */
struct by_job_order {
  uint32_t class_;
  uint32_t above, behind;
  double changed; /* When `above` or `behind` last changed. */
};

/* Cells of a switch that one of a job's trees was given. */
struct by_manager_grant {
  uint64_t number; /* Number of the plan. */
  uint32_t node;   /* The switch. */
  char *server;    /* The tree's root. */
  uint32_t slots, guarantee;
};

/* manager_grants.c. Grants of earlier plans come first. */
struct by_job_grants {
  uint32_t n, capacity;
  struct by_manager_grant *all;
};

/* The user's preferences for plans; 0: as the manager's options say. manager_jobs.c. */
struct by_job_preferences {
  uint32_t ways; /* The allowed methods, enum by_plan_method. */
  double penalty;
  uint32_t steps, trees;
};

/* Cells of a switch that one of a job's trees requests. */
struct by_manager_cells {
  uint32_t node; /* The switch; BY_NOWHERE: unknown. */
  char *at, *server;
  uint32_t requested, given; /* Numbers of slots. */
  uint32_t bytes;            /* Bytes of memory that a slot takes. */
  bool settled;              /* The job has reported what it has there. */
  double in_flight;          /* Bytes in flight to its server and back at the job's rate; 0: unknown. */
  double need;               /* `on_ways` if known, else an estimate. */
};

/* manager_cells.c. Empty after the job has left. */
struct by_job_cells {
  uint32_t n;
  struct by_manager_cells *all;
};

struct by_manager_event {
  uint64_t number;
  double time, before, after;
  char why[BY_MANAGER_WHY];
};

/* The reason for planning a job again, the most urgent first. */
enum by_job_due { BY_DUE_NEW, BY_DUE_HELPER, BY_DUE_SWITCH, BY_DUE_LESS, BY_DUE_CHANGE, BY_DUE_TIME, BY_DUE_NONE };

/* manager_job.c. */
struct by_job_notes {
  enum by_job_due due;
  char reason[BY_MANAGER_WHY];  /* Reason for `due`, for people. */
  char trouble[BY_MANAGER_WHY]; /* Why there is no plan, or no better one; "": no trouble. */
  uint32_t n_history;
  struct by_manager_event history[BY_MANAGER_HISTORY]; /* The latest events, oldest first. */
};

/* What manager.c checks about a job. */
struct by_job_check {
  uint32_t n_confirmed; /* The first so many hosts are known to run ranks of the job. */
  double worse;         /* Rate of its plan at the last planning, divided by the current rate. */
};

/* Life of a job.
 *
 *   state      next states   meaning
 *   RUNS       LEFT          it runs
 *   LEFT       REPLACED      it has ended, and is still shown
 *   REPLACED   -             another job has its ID, but a planner thread still reads it */
enum by_job_state { BY_JOB_RUNS, BY_JOB_LEFT, BY_JOB_REPLACED };

/* One of a job's hosts, sorted by name. */
struct by_manager_name {
  const char *name;
  uint32_t host;
};

/* A job. Members without another file's name belong to manager_jobs.c. */
struct by_manager_job {
  struct by_manager_job *next;
  LIST_ENTRY(by_manager_job) by_id, by_root; /* manager_job.c */
  char id[BY_CLUSTER_JOB_ID + 1];            /* "" in state REPLACED. */
  char *name, *root, *key;                   /* The key is NULL where helpers may not join. */
  uint32_t n_ranks, n_hosts;
  struct by_arena arena;           /* Memory of the lists that follow. */
  const char **hosts;              /* Names without duplicates, by their first rank. */
  uint32_t *nodes;                 /* Nodes of the topology; BY_NOWHERE: not in it. */
  uint32_t *of_rank;               /* Index of each rank's host. */
  struct by_manager_name *by_name; /* The hosts sorted by name. */
  bool in_topology;                /* All hosts are in the topology. */
  struct by_manager_peer *peer;    /* Connection that speaks for rank 0, or NULL. */
  char owner[BY_MANAGER_OWNER];    /* Certificate of the peer that announced the job; "": unknown since the manager was
                                      restarted. */
  struct by_manager_part *parts;   /* One for each host. */
  uint64_t parts_sent;             /* Sum of the bytes that the parts have sent. */
  double began;                    /* As rank 0 states, in seconds since 1970; 0: not stated. */
  double since, seen;              /* `seen`: when a peer last sent a message about it. */
  enum by_job_state state;
  double gone_at; /* When it left. */

  uint64_t iterations, sent, input;
  bool has_calls;
  uint64_t calls[BY_PLAN_CALLS]; /* Calls on rank 0's host by log2 of their bytes. */
  struct by_job_length length;   /* As the job states. */
  double iteration_time;
  double input_rate; /* bit/s, smoothed. */
  double rated;      /* When `input` was last read. */
  uint64_t rated_input;
  struct by_priority_position position;
  uint32_t notified; /* Class that was last sent to its hosts. */

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
/* Iterate over jobs whose rank 0 is on a host. */
struct by_manager_job *by_jobs_first_of(const struct by_manager *m, const char *host);
struct by_manager_job *by_jobs_next_of(const struct by_manager_job *job);
void by_jobs_index(struct by_manager *m, struct by_manager_job *job);
void by_jobs_unindex(struct by_manager_job *job);

/* Stores the job's row. */
void by_job_keep(const struct by_manager *m, const struct by_manager_job *job);
void by_job_add_event(const struct by_manager *m, struct by_manager_job *job, const struct by_manager_event *event);
/* Sets why there is no plan, or no better one. */
void by_job_set_trouble(struct by_manager_job *job, const char *format, ...) BY_PRINTF(2, 3);

/* Tells whether the host runs a server of any job. */
bool by_jobs_have_server(const struct by_manager *m, uint32_t host);
/* Returns the uses of each node of the topology; the caller frees it. NULL: out of memory. HELPS means other jobs than
 * `job`, now or soon. */
enum by_node_use { BY_NODE_HAS_RANKS = 1, BY_NODE_HELPS = 2 };
uint8_t *by_jobs_find_uses(const struct by_manager *m, const struct by_manager_job *job);
/* Returns the load that a job puts on the network: by its plan, its user's, or an assumed ring. */
const struct by_link_shares *by_job_shares(const struct by_manager_job *job);
/* Tells whether a plan was proposed and is not decided. */
bool by_job_is_moving(const struct by_manager_job *job);

void by_due_mark(struct by_manager_job *job, enum by_job_due due, const char *format, ...) BY_PRINTF(3, 4);
void by_due_clear(struct by_manager_job *job);
void by_due_mark_all(const struct by_manager *m, enum by_job_due due, const char *why);
/* Marks jobs that share a step with these shares. NULL: all jobs. */
void by_due_mark_sharers(const struct by_manager *m, const struct by_link_shares *shares, const char *why);

/* ---- manager_jobs.c: jobs begin and end, and hosts report on them */

/* Adds a job as rank 0 describes it, with the host of each rank. A job of the same ID on other hosts leaves. */
BANYAN_CHECK enum banyan_status by_jobs_begin(struct by_manager *m, const struct by_cluster_message *message,
                                              struct by_manager_job **out);
/* Restores a job from its row. */
BANYAN_CHECK enum banyan_status by_jobs_restore(struct by_manager *m, const struct by_manager_row *row);
/* Makes the peer speak for the job's rank 0, with the certificate that `owner` names. */
void by_jobs_set_speaker(const struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                         const char *owner);
void by_jobs_report(struct by_manager *m, struct by_manager_job *job, struct by_manager_peer *peer,
                    const struct by_cluster_job *message);
void by_jobs_leave(struct by_manager *m, struct by_manager_job *job, const char *why);
void by_jobs_forget_peer(struct by_manager *m, struct by_manager_peer *peer);
/* Updates rates and classes, and ends jobs without recent messages. */
void by_jobs_tick(struct by_manager *m);
void by_jobs_free_all(struct by_manager *m);

#endif
