/* For cost.c: the trees of a class as the cost model looks at them, in-network trees, and the flow of chunks through
 * plain trees. */
#ifndef BY_PLANNER_COST_COST_TREE_H
#define BY_PLANNER_COST_COST_TREE_H

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

/* Bytes of a message that go at a time: a quarter of it, but `grain` at most, and half of that at least. */
static inline double by_cost_chunk(const struct by_cost_rates *rates, double message) {
  return fmin(message, fmin(rates->grain, fmax(message / 4, rates->grain / 2)));
}

/* Adds the class's trees and messages to a cost that has its load; in-network trees without edges. */
BANYAN_CHECK enum banyan_status by_cost_add_trees(struct by_cost *cost, const struct by_plan *plan,
                                                  const struct by_class *class_);

/* --- in-network trees --- */

/* There and back over all links of a worker's way to the server, without what ends take. */
struct by_cost_trip {
  double delay;   /* seconds */
  uint32_t links; /* passed */
  double byte;    /* seconds of a byte on all links, one after the other */
};

struct by_cost_network {
  double share; /* of the buffer */
  uint32_t workers;
  struct by_cost_trip trip; /* the longest of a worker */
  double slowest;           /* seconds for a byte of input on the fullest link of the ways, all of the class included */
  bool twigs;
};

/* Of a group whose root is a server, of a plan of so many ranks, and a cost that has its load. */
struct by_cost_network by_cost_network_of(const struct by_cost *cost, const struct by_group *group, uint32_t n_ranks);
/* Seconds of its part of a call over so many bytes. */
double by_cost_network_time(const struct by_cost_network *network, const struct by_cost_rates *rates, double bytes);

/* --- plain trees --- */

/* Lists the edges of a cost that has its trees. Unless all are plain trees among hosts and their edges are a thousand
 * at most, there will be no flow. */
BANYAN_CHECK enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_);
/* For large buffers: their first chunks are followed, the others come at the pace of the second half of these. */
BANYAN_CHECK enum banyan_status by_cost_flow_find_pace(struct by_cost *cost);
/* Seconds from the end of one call to that of the next. NAN: no memory. Cost: some thousand events at most. */
double by_cost_flow_time(const struct by_cost *cost, double bytes);

#endif
