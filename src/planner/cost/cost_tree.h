/* For cost.c: the trees of a class as the cost model looks at them, and how
 * the first bytes pass through one. */
#ifndef BY_PLAN_COST_TREE_H
#define BY_PLAN_COST_TREE_H

#include <math.h>

#include "cost.h"

struct by_cost_edge {
  uint32_t from, to;              /* vertices of the plan */
  double share;                   /* of the buffer, that its message carries */
  const struct by_plan_pair *way; /* NULL: within one node */
};

/* Edges stand in the order in which bytes go over them: on the way up those to a vertex before the one from it, on the
 * way down behind it. An exchange is a chain of its steps' slowest edges, whose messages are so many times as long as
 * there are of them in a step; it has no way down. */
struct by_cost_tree {
  uint32_t n_up, n_down;
  struct by_cost_edge *up, *down;
  bool exchange;
};

/* Working memory for one size. */
struct by_cost_wave {
  const struct by_cost *cost;
  const struct by_cost_rates *rates;
  double bytes;
  double *ready, *rest;   /* of each vertex: when it has the first bytes, and how long until all below have them */
  double *passed;         /* of each direction of a link: when the last message has passed */
  double *before, *after; /* of each pair: the least time until something goes its way, and from then to the end */
};

/* Bytes of a message that go at a time: a quarter of it, but `grain` at most, and half of that at least. */
static inline double by_cost_chunk(const struct by_cost_rates *rates, double message) {
  return fmin(message, fmin(rates->grain, fmax(message / 4, rates->grain / 2)));
}

/* Adds the class's trees and messages to a cost that has its load. */
BANYAN_CHECK enum banyan_status by_cost_add_trees(struct by_cost *cost, const struct by_plan *plan,
                                                  const struct by_class *class_);
/* When the first bytes are through the tree; lowers before[] and after[]. */
double by_cost_wave_run(struct by_cost_wave *wave, const struct by_cost_tree *tree);

#endif
