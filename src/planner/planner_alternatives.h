/* Plans that are predicted to be nearly as fast as the chosen one: for each size of buffer, the best other candidates.
 * Predictions are inaccurate by some percent, so calls have to decide between them (trial.h). */
#ifndef BY_PLANNER_PLANNER_ALTERNATIVES_H
#define BY_PLANNER_PLANNER_ALTERNATIVES_H

#include "planner.h"

enum { BY_ALTERNATIVES_MAX = 2, BY_ALTERNATIVE_PLANS = 1 + BY_ALTERNATIVES_MAX };

/* A range of sizes that have the same candidates. */
struct by_alternative_range {
  uint64_t above, up_to;                  /* in bytes: above < size <= up_to; the last range has no limit */
  uint32_t n;                             /* the number of alternatives */
  char what[BY_ALTERNATIVE_PLANS][48];    /* the chosen candidate and the alternatives, for users */
  double predicted[BY_ALTERNATIVE_PLANS]; /* in seconds, at up_to bytes or at the largest size that was weighed */
};

/* Free it with by_alternatives_fini. */
struct by_alternatives {
  uint32_t n_plans;                            /* 1: there are no alternatives */
  struct by_plan *plans[BY_ALTERNATIVE_PLANS]; /* the chosen plan; then that with the k-th alternative for all sizes
                                                  that have one */
  double max_rate;                             /* bit/s of input for large buffers that no plan exceeds; 0: not known */
  uint32_t n_ranges;
  struct by_alternative_range ranges[BY_WEIGH_SIZES];
};

/* Finds the candidates that are predicted to take at most `within` times as long, as plans over the same ranks with the
 * same control tree and own classes. Cost: the plans' size. */
BANYAN_CHECK enum banyan_status by_alternatives_find(const struct by_planned *planned, double within,
                                                     struct by_alternatives *out);
void by_alternatives_fini(struct by_alternatives *alternatives);
/* Makes a plan that has for each range the classes of one of these plans, by its index; it has the name of the first.
 * The caller owns *out. */
BANYAN_CHECK enum banyan_status by_alternatives_join(const struct by_alternatives *alternatives,
                                                     const uint32_t *choices, struct by_plan **out);

#endif
