/* Weighing ways to sum against each other by predicted time, size by size. */
#ifndef BY_PLAN_PLANNER_WEIGH_H
#define BY_PLAN_PLANNER_WEIGH_H

#include "cost.h"

enum { BY_WEIGH_SIZES = 23, BY_WEIGH_MOST = 24 };

/* One way to sum everything, over the ranks that take part. */
struct by_candidate {
  struct by_plan *plan; /* of one class; owned */
  char what[48];        /* for people: "ring in a good order" */
  double rate;          /* bit/s of input for large buffers */
  double seconds[BY_WEIGH_SIZES];
};

struct by_weighed {
  uint32_t n;
  struct by_candidate *candidates; /* BY_WEIGH_MOST of room */
  uint64_t sizes[BY_WEIGH_SIZES];  /* bytes, ascending */
  uint32_t used[BY_WEIGH_SIZES];   /* which candidate, for each size and all between it and the one before */
};

BANYAN_CHECK enum banyan_status by_weighed_init(struct by_weighed *weighed);
void by_weighed_fini(struct by_weighed *weighed);
/* Predicts the plan's times and keeps it; takes it over, also on failure. A plan whose load cannot be worked out
 * (BANYAN_ERR_UNSUPPORTED: too many pairs) is no candidate. */
BANYAN_CHECK enum banyan_status by_weighed_add(struct by_weighed *weighed, const char *what, struct by_plan *plan,
                                               const struct by_topology *topology, const struct by_cost_rates *rates);
/* Of the last two candidates, which are one way to sum in two orders, drops the one that is nowhere faster. */
void by_weighed_drop_slower(struct by_weighed *weighed);
/* Chooses for every size, from the largest down: what is fastest for the largest, or the first candidate if nothing
 * else is wanted; then another one where it is faster by more than a little, so that classes are few. Of those that are
 * nearly alike the one of the fewest groups is taken, then the first. */
void by_weighed_choose(struct by_weighed *weighed, bool any_for_largest);
/* The plan of what was chosen, neighbouring sizes of one choice as one class. */
BANYAN_CHECK enum banyan_status by_weighed_plan(const struct by_weighed *weighed, const char *name,
                                                struct by_plan **out);

#endif
