/* A communicator: some processes of a job, with calls and a plan of their own. Those that share two members have
 * different numbers; calls on one do not wait for those on another.
 *
 * Under the context's lock unless a function says otherwise. What a higher module keeps here is in a struct that only
 * its file changes. */
#ifndef BY_JOB_COMM_H
#define BY_JOB_COMM_H

#include <stdatomic.h>

#include "job_life.h"
#include "plan_switch_message.h"

/* A plan that a plan switch brings. */
struct by_kept_plan {
  uint32_t number;
  struct by_plan *plan;
  uint32_t *helpers; /* See by_plans_set; always in the plan's arena. */
  uint32_t trees;    /* The version of the in-network trees; see by_plans_set. */
};

/* Whether the communicator's first rank asks rank 0 of the job for a plan, which it does at its first call. */
enum by_plan_wanted { BY_PLAN_NOT_WANTED, BY_PLAN_WANTED_AT_FIRST_CALL, BY_PLAN_ASKED_FOR };

/* plan_switch.c: how a communicator changes plans. */
struct by_plan_changes {
  uint64_t started;                  /* Collective and sparse calls that have started, and plans set by hand. */
  uint64_t set_by_hand;              /* Plans set by hand. */
  enum by_plan_wanted wanted;        /* plan_wanted.c */
  struct by_plan_switch plan_switch; /* The plan switch in progress. */
  struct by_kept_plan next;          /* The plan of that switch. */
  struct by_marks marks;             /* Marks of the beginnings of iterations. */
  const struct by_submit_log *log;   /* The log of submitted operations; NULL: there is none. */
  bool announces;                    /* A note for that log waits for the next iteration. */
  uint64_t marked, each;   /* Numbers of operations submitted: until the last mark, and in the iteration before it. */
  uint32_t decided, noted; /* The last plan switch decided on, and the last one noted in the log. */
  struct by_kept_plan kept[5]; /* Plans of the last switches for submitted operations, oldest first. */
  uint32_t n_kept;
  uint32_t used;  /* Plans that have come into use. */
  uint64_t since; /* Calls that had started when the plan came into use; raised later, so that old calls count less. */
  uint64_t operations; /* Rank 0 of the job: calls of submitted operations since then. */
  bool for_operations; /* Rank 0 of the job: operations make most calls, or did at the last count. */
  bool asked;          /* Rank 0 of the job: the plan was proposed again, to give operations its in-network trees. */
  struct by_kept_plan before; /* The plan before the first note in the log; NULL: none has been made. */
};

struct by_ledger;

struct banyan_comm {
  struct by_job *job;
  struct banyan_comm *next; /* Next in the context's list. */
  struct by_team *team;
  uint32_t *processes; /* Rank in the job of each rank. */
  uint32_t rank, size;
  uint32_t local_size, local_rank;
  uint64_t deadline; /* Default deadline of calls, in nanoseconds. */
  _Atomic uint32_t splits;
  bool hidden; /* The inner communicator of another one, in which submitted operations run. */
  struct by_plan_changes plans;
  void *features[BY_FEATURES_MAX]; /* What it keeps for capabilities, by their places in by_features; see feature.h. */
};

/* Numbers of communicators within another one: splits are counted from 1, and what else a communicator has within it
 * has the number of no split, and one of these as its first rank. Members of a
 * membership have one of their own for what they exchange about the one before. */
enum { BY_OF_NO_SPLIT = 0, BY_OF_SPARSE = 1, BY_OF_SUBMITTED = 2, BY_OF_SUBSETS = 3, BY_OF_MEMBERS = 4 };

/* Checks a communicator: BANYAN_ERR_ARGUMENT if it is NULL, or of a parent process. Without the lock. */
BANYAN_CHECK enum banyan_status by_comm_check(const struct banyan_comm *comm);
/* A communicator over these processes; its team gets the default plan. The capabilities are not notified. */
BANYAN_CHECK enum banyan_status by_comm_make(struct by_job *job, uint32_t team_id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct banyan_comm **out);
/* Sends the confirmations of received data for which peers may wait: blocks for up to a second. */
void by_comm_pay_debts(struct banyan_comm *comm);
/* Adds the outcomes of calls of the program's communicators to the ledger of a membership that has failed, and returns
 * it. Called once. */
struct by_ledger *by_comm_complete_ledger(struct by_job *job);
/* Returns the ledger that must keep the communicator's outcomes once it is destroyed, since it belongs to a membership
 * that has failed; NULL: none must. */
struct by_ledger *by_comm_find_ledger(const struct banyan_comm *comm);
/* Frees a communicator of by_comm_make, with its team. */
void by_comm_end(struct banyan_comm *comm);
/* Makes a communicator of the program, of which the capabilities are notified. */
BANYAN_CHECK enum banyan_status by_comm_open(struct by_job *job, uint32_t team_id, uint32_t rank, uint32_t n,
                                             const uint32_t *processes, struct banyan_comm **out);
/* Frees one of by_comm_open, which is not the last of the job, unless the caller holds the context. */
void by_comm_close(struct banyan_comm *comm);
/* A number for a team within another one, from the number of splits of that one and the part's first rank. */
uint32_t by_comm_number(uint32_t parent, uint32_t splits, uint32_t first);
/* Returns the duration in nanoseconds of a call with a deadline in seconds; 0: the default. */
static inline uint64_t by_comm_lasts(const struct banyan_comm *comm, double deadline) {
  return deadline > 0 ? by_clock_from_seconds(deadline) : comm->deadline;
}
/* The first communicator of the job, to visit all by `next`; NULL: there is none. */
struct banyan_comm *by_comm_first(const struct by_job *job);
/* The job's communicator of this number; NULL: there is none. */
struct banyan_comm *by_comm_find(const struct by_job *job, uint32_t id);

#endif
