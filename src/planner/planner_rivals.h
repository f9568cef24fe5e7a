/* Plans that are predicted to be nearly as fast as the one that was chosen: for each size of buffer, the best of the
 * other candidates. Predictions are off by some percent, so that calls have to decide between them (trial.h). */
#ifndef BY_PLANNER_PLANNER_RIVALS_H
#define BY_PLANNER_PLANNER_RIVALS_H

#include "planner.h"

enum { BY_RIVALS_MOST = 2, BY_RIVAL_PLANS = 1 + BY_RIVALS_MOST };

/* Sizes that have the same candidates. */
struct by_rival_range {
  uint64_t above, up_to;            /* bytes: above < size <= up_to; the last one has no limit */
  uint32_t n;                       /* rivals */
  char what[BY_RIVAL_PLANS][48];    /* what was chosen, and the rivals, for people */
  double predicted[BY_RIVAL_PLANS]; /* seconds, at up_to bytes, or at the largest size that was weighed */
};

/* Emptied by by_rivals_fini. */
struct by_rivals {
  uint32_t n_plans; /* 1: there are no rivals */
  struct by_plan
      *plans[BY_RIVAL_PLANS]; /* what was chosen; then that with the k-th rival for all sizes that have one */
  double most_rate;           /* bit/s of input for large buffers that no plan exceeds; 0: not known */
  uint32_t n_ranges;
  struct by_rival_range ranges[BY_WEIGH_SIZES];
};

/* Those that are predicted to take at most `within` times as long, over the same ranks and with the same control tree
 * and classes of collectives' own. Cost: the plans' size. */
BANYAN_CHECK enum banyan_status by_rivals_find(const struct by_planned *planned, double within, struct by_rivals *out);
void by_rivals_fini(struct by_rivals *rivals);
/* The plan that has for each range the classes of one of these plans, by its index; named as the first. The caller owns
 * *out. */
BANYAN_CHECK enum banyan_status by_rivals_join(const struct by_rivals *rivals, const uint32_t *choices,
                                               struct by_plan **out);

#endif
