/* Which of a few plans a job is to use, by the times of its own calls. Plans whose predictions are nearly equal are
 * tried one after the other, each for a few calls of every size that the job calls, and the first plan again after
 * each that seems better, so that a network that changes meanwhile decides nothing:
 *
 *   FIRST -> RIVAL   the first plan has been timed, and another one may be faster
 *   RIVAL -> AGAIN   the rival seems faster for some sizes
 *   RIVAL -> RIVAL   it does not: the next one; also at once where it is much slower, or its calls are too few
 *   AGAIN -> RIVAL   the next one
 *   any   -> OVER    there is no other; or the first plan cannot be timed, or is faster than what was before it
 *
 * Where calls are long, a few of them tell as much as many, and cost as much: a phase ends with those that agree, and a
 * rival's with those none of which was faster. A rival has no calls of a size that it cannot win: the first plan takes
 * what the network's bound allows; or they are long, and it is predicted to lose more than a winner has to gain.
 *
 * A value: no I/O and no clock. */
#ifndef BY_ADAPTATION_TRIAL_H
#define BY_ADAPTATION_TRIAL_H

#include "call_times.h"
#include "planner_alternatives.h"

enum {
  BY_TRIAL_CALLS = 7,    /* Calls of a size that count in a phase: their median is used. */
  BY_TRIAL_LEAST = 3,    /* Calls that are enough if they agree, or if more are rare. */
  BY_TRIAL_SKIPPED = 2,  /* Calls before them, which make connections; 1 if calls are long. */
  BY_TRIAL_SIZES = 32,   /* Maximum of different sizes; others do not count. */
  BY_TRIAL_WAITS = 1024, /* Calls in which the first plan must have been timed. */
  BY_TRIAL_MOST = 256    /* Maximum of calls with any other plan. */
};

enum by_trial_phase { BY_TRIAL_FIRST, BY_TRIAL_RIVAL, BY_TRIAL_AGAIN, BY_TRIAL_OVER };

/* Calls of one size in one phase. */
struct by_trial_times {
  uint32_t seen, n;
  double seconds[BY_TRIAL_CALLS];
};

struct by_trial {
  enum by_trial_phase phase;
  uint32_t n_plans, rival; /* rival: the plan that is tried. */
  double rate;             /* Bytes/s that no plan exceeds; 0: unknown. */
  uint64_t calls;          /* Calls in this phase, counted or not. */
  bool dropped;            /* The rival is much slower. */
  bool better;             /* The first plan is faster than the plan before it. */
  bool doubts;             /* See by_trial_doubt. */
  uint32_t n_ranges;
  struct by_trial_range {
    uint64_t up_to;
    uint32_t rivals;
    double slower[BY_ALTERNATIVE_PLANS]; /* times as long as by the first plan, as predicted; 0: not known */
    uint32_t choice;                     /* The best plan so far; 0: the first plan. */
    double ratio;                        /* Ratio of its time to that of the first plan. */
  } ranges[BY_WEIGH_SIZES];
  uint32_t n_sizes;
  struct by_trial_size {
    struct by_call_bytes bytes;
    uint32_t range;                          /* of the largest of those at the same time */
    double before;                           /* s: what calls took before the first plan was in use; 0: not known */
    struct by_trial_times of[BY_TRIAL_OVER]; /* by phase */
  } sizes[BY_TRIAL_SIZES];
};

void by_trial_init(struct by_trial *trial, const struct by_alternatives *rivals);
/* The first plan has to be faster than the rival: in doubt the rival is chosen. */
void by_trial_doubt(struct by_trial *trial);
/* Calls of so many bytes took so long before the first plan came into use; before anything is added. If that is faster,
 * no rival is tried. */
void by_trial_set_before(struct by_trial *trial, struct by_call_bytes bytes, double seconds);
/* A call of so many bytes by the plan that is tried took so long. */
void by_trial_add(struct by_trial *trial, struct by_call_bytes bytes, double seconds);
/* So many calls of the job have begun since the plan of this phase came into use. True: the phase is over, and the next
 * one has begun: by_trial_plan may be another one now, and calls count once it is in use. */
bool by_trial_step(struct by_trial *trial, uint64_t calls);
/* The plan of this phase, by its index among those of the rivals. */
uint32_t by_trial_plan(const struct by_trial *trial);
/* Whether calls of this range are made by that plan, which may be the fastest there; else by the first one. */
bool by_trial_tries(const struct by_trial *trial, uint32_t range);
/* How many times as long calls of this range took by the rival as by the first plan, in the phases RIVAL and FIRST; 0:
 * it is not known. Of the rival that is, or was last, tried. */
double by_trial_ratio(const struct by_trial *trial, uint32_t range);

/* What is known of the first plan once all is over. */
enum by_trial_verdict {
  BY_TRIAL_UNKNOWN, /* It was not timed. */
  BY_TRIAL_BETTER,  /* It is faster than the plan before it, or than the last rival. */
  BY_TRIAL_NO_BETTER
};
enum by_trial_verdict by_trial_judge(const struct by_trial *trial);

#endif
