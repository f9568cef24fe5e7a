/* Which of two plans is faster, by the times of calls.
 *
 * When a job starts, a plan for a measured network is tried against the built-in one by a few calls of its own. Later
 * the job's own calls decide between the plan in use and another one that is predicted to be nearly as fast, and, after
 * a replanning that another job on the same links may explain, between the new plan and the plan before it:
 *
 *   FIRST  -> SECOND  the first plan has been timed
 *   FIRST  -> OVER    it is faster than what was before it, or is at the network's bound, or cannot be timed
 *   SECOND -> OVER    the second plan has been timed, or is much slower, or its calls are too few
 *
 * Where calls are long, a few of them tell as much as many, and cost as much: a phase ends with those that agree. */
#ifndef BY_ADAPTATION_TRIAL_H
#define BY_ADAPTATION_TRIAL_H

#include "comm.h"
#include "history.h"
#include "planning.h"

/* ---- the trial when a job starts */

/* The two smallest times of calls with one plan, in seconds; INFINITY: there were fewer. */
struct by_plan_times {
  double min, next;
};

/* Calls with the plan, then as many with the built-in one, in some rounds. */
struct by_plan_rounds {
  struct by_plan_times ours, builtin;
  uint32_t n, won; /* Number of rounds, and of those in which the plan was faster. */
  bool single;     /* Each round has one call, which is long. */
};

/* Returns whether the plan is certainly faster: in most rounds, by 3 % at least (with single calls by a tenth, if it is
 * not `sure`, predicted to be clearly faster), and by more than calls with one plan differ, or in so many rounds that
 * these do not matter. Pure. */
bool by_plan_trial_won(const struct by_plan_rounds *rounds, bool sure);

/* Returns whether the rounds so far suffice: the plan is slower by a tenth, twice if it is predicted to be clearly
 * faster; or it is predicted so, and has won; or it has won or lost after three rounds; or there are no more. Pure. */
bool by_plan_trial_is_over(const struct by_plan_rounds *rounds, bool sure);

/* Collective over the job's own communicator, before its first call, while it has the plan that by_planning_for_all
 * gave it; rank 0's forecast counts. *won: that plan is faster, and stays set; else the job has its built-in plans
 * again, and keeps no topology. Blocks for some calls of the forecast's length. Errors of calls, which end the job. */
BANYAN_CHECK enum banyan_status by_plan_trial(struct banyan_comm *comm, const struct by_forecast *forecast, bool *won);

/* ---- the trial by the job's own calls: a value without I/O and without a clock */

enum {
  BY_TRIAL_CALLS = 7,        /* Calls of a size that count in a phase: their median is used. */
  BY_TRIAL_MIN_CALLS = 3,    /* Calls that are enough if they agree, or if more are rare. */
  BY_TRIAL_SKIPPED = 2,      /* Calls before them, which make connections; 1 if calls are long. */
  BY_TRIAL_SIZES = 32,       /* Maximum of different sizes; others do not count. */
  BY_TRIAL_MAX_FIRST = 1024, /* Calls in which the first plan must have been timed. */
  BY_TRIAL_MAX_SECOND = 256, /* Maximum of calls with the second plan. */
};

enum by_trial_phase { BY_TRIAL_FIRST, BY_TRIAL_SECOND, BY_TRIAL_OVER };

/* Calls of one size in one phase. */
struct by_trial_times {
  uint32_t seen, n;
  double seconds[BY_TRIAL_CALLS];
};

/* A trial begins with zeros but for `cautious` and `rate`. */
struct by_trial {
  bool cautious; /* The second plan is used if it is faster; else also if it is not slower. */
  double rate;   /* Bytes/s that no plan exceeds; 0: not known. */
  enum by_trial_phase phase;
  uint64_t calls;    /* Calls in this phase, counted or not. */
  bool better;       /* Calls were slower before the first plan was in use. */
  bool dropped;      /* The second plan is much slower. */
  bool takes_second; /* The second plan is to be used. */
  uint32_t n_sizes;
  struct by_trial_size {
    struct by_call_bytes bytes;
    double recent; /* Seconds that calls took before the first plan was in use; 0: not known. */
    struct by_trial_times of[BY_TRIAL_OVER];
  } sizes[BY_TRIAL_SIZES];
};

/* Notes what calls of a size took before the new plan was in use; before any call is added. If the new plan is faster
 * than that, the plan before it is not tried. */
void by_trial_set_recent(struct by_trial *trial, struct by_call_bytes bytes, double seconds);
/* Adds a call by the plan that is tried. */
void by_trial_add(struct by_trial *trial, struct by_call_bytes bytes, double seconds);
/* Notes how many calls of the job have begun since the plan of this phase came into use. Returns whether the phase is
 * over, and the next one has begun: calls count once its plan is in use. */
bool by_trial_step(struct by_trial *trial, uint64_t calls);
/* Returns how many times as long calls took by the second plan as by the first one; 0: not known. */
double by_trial_ratio(const struct by_trial *trial);

/* What is known of the first plan once all is over. */
enum by_trial_verdict {
  BY_TRIAL_UNKNOWN, /* It was not timed. */
  BY_TRIAL_BETTER,  /* It is faster than the plan before it, or than the second one. */
  BY_TRIAL_NO_BETTER
};
enum by_trial_verdict by_trial_judge(const struct by_trial *trial);

/* ---- running such a trial at rank 0
 *
 * The times are those of rank 0's AllReduces; several at the same time count as one. One that ends later elsewhere
 * makes the next one of rank 0 longer by as much, so that medians of several in a row are those of the job. */

struct by_trial_calls;

/* Called on the loop's thread when a trial is over, and its plan is in use. `second`: that is the second plan. */
struct by_trial_observer {
  void (*over)(void *context, enum by_trial_verdict verdict, bool second);
  void *context;
};

/* Any thread, before the loop's thread calls any of the functions below. From now on calls are timed. */
BANYAN_CHECK enum banyan_status by_trial_calls_create(struct by_job *job, const struct by_trial_observer *observer,
                                                      struct by_trial_calls **out);
/* Called when the loop runs no more; waits for a plan that is being made. NULL is allowed. */
void by_trial_calls_destroy(struct by_trial_calls *calls);
/* Compares the plan in use, which was planned from this network when the job started, with another one that is
 * predicted to be nearly as fast; a thread of its own makes that. Logs the reason if there is no trial. Takes over the
 * reference. */
void by_trial_calls_begin(struct by_trial_calls *calls, struct by_job_network *network);
/* Two plans, over hosts or ranks. */
struct by_trial_pair {
  struct by_plan *plans[2]; /* The first and the second plan. */
  uint32_t used;            /* Number of plans that had come into use before the proposal (by_plan_switches_view). */
  enum banyan_plan_source source; /* Source of both plans. */
};
void by_trial_pair_fini(struct by_trial_pair *pair);
/* Returns whether calls of the job's own communicator are timed, so that they can tell which of two plans is faster:
 * not if it has made none recently, or never ends all that are in flight. */
bool by_trial_calls_can_compare(struct by_trial_calls *calls);
/* Compares the plan that all ranks have just agreed on, and change to now, with the plan that they change from. The
 * second one is not tried if calls become faster by the first; otherwise it is used again, unless it is slower. Takes
 * the plans over. */
void by_trial_calls_compare(struct by_trial_calls *calls, const struct by_trial_pair *pair);
/* Returns whether there is a trial, so that others propose no plan. */
bool by_trial_calls_busy(const struct by_trial_calls *calls);
/* Ends a trial that is in progress, once the first plan is in use. */
void by_trial_calls_stop(struct by_trial_calls *calls);

#endif
