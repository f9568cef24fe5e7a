/* Contains what the files of the cost model share: the trees of a class, in-network trees, and the flow of chunks
 * through plain trees. */
#ifndef BY_PLANNER_COST_COST_TREE_H
#define BY_PLANNER_COST_COST_TREE_H

#include <math.h>

#include "cost.h"

struct by_cost_edge {
  uint32_t from, to;               /* The vertices of the plan that the edge joins. */
  double share;                    /* The part of the buffer in its message. */
  const struct by_plan_pair *path; /* The path of its packets; NULL: within one node. */
};

/* A tree as lists of edges in the order of data flow: for sums the edges to a vertex come before the one from it, for
 * results after it. An exchange is a chain of the slowest edges of its steps, with messages as long as all of a step
 * together; it has no edges for results. */
struct by_cost_tree {
  uint32_t n_up, n_down;
  struct by_cost_edge *up, *down;
  bool exchange;
};

/* Returns the size of a message's chunks in bytes: a quarter of it, at most `grain`, and at least half of `grain`. */
static inline double by_cost_chunk(const struct by_cost_rates *rates, double message) {
  return fmin(message, fmin(rates->grain, fmax(message / 4, rates->grain / 2)));
}

/* Adds the class's trees and messages to a cost that has its load. In-network trees have no edges. */
BANYAN_CHECK enum banyan_status by_cost_add_trees(struct by_cost *cost, const struct by_plan *plan,
                                                  const struct by_class *class_);

/* --- In-network trees. --- */

/* The links of a worker's path to the server and back, without processing at the ends. */
struct by_cost_trip {
  double delay;   /* The sum of the links' delays in seconds. */
  uint32_t links; /* The number of links passed. */
  double byte;    /* The sum of the seconds for a byte on each link. */
};

struct by_cost_network {
  double share; /* The part of the buffer. */
  uint32_t workers;
  struct by_cost_trip trip; /* The longest trip of all workers. */
  /* The seconds for a byte of input on the fullest link, including everything that the class sends. */
  double slowest;
  bool twigs;
};

/* Returns the seconds of the tree in a call over this many bytes. */
double by_cost_network_time(const struct by_cost_network *network, const struct by_cost_rates *rates, double bytes);

/* --- Plain trees. --- */

/* Lists the edges of a cost that has its trees. There is no flow unless all are plain trees among hosts with at most a
 * thousand edges. */
BANYAN_CHECK enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_);
/* Prepares for large buffers: their first chunks are simulated, and the others follow at the pace of the second half of
 * these chunks. */
BANYAN_CHECK enum banyan_status by_cost_flow_find_pace(struct by_cost *cost);
/* Returns the seconds from the end of one call to that of the next; NAN: no memory. Cost: at most some thousand
 * events. */
double by_cost_flow_time(const struct by_cost *cost, double bytes);

#endif
