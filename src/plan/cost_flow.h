/* For cost.c: the chunks of plain trees on their way, one event after the
 * other. Trees that share a link wait for each other there, which no sum over
 * links and heights knows. */
#ifndef BY_PLAN_COST_FLOW_H
#define BY_PLAN_COST_FLOW_H

#include "cost.h"

struct by_flow_edge {
  const struct by_plan_pair *way; /* NULL: within one node */
  uint32_t place, vertex;         /* where it leads */
  uint32_t beside;                /* another one whose way begins with the same link; UINT32_MAX: none */
  double share;
  bool up;
};

/* A vertex in a tree. */
struct by_flow_place {
  uint32_t needs;        /* edges into it on the way up */
  uint32_t above;        /* the one from it; UINT32_MAX: the root has none */
  uint32_t down, n_down; /* those from it on the way down stand in downs[] */
};

struct by_cost_flow {
  uint32_t n_edges;
  uint32_t n_places;
  struct by_flow_edge *edges;
  struct by_flow_place *places;
  uint32_t *downs;
  uint32_t *first; /* of each direction of a link: an edge whose way begins there */
  double share;    /* the largest of all edges */
};

/* Lists the edges of a cost that has its trees. Unless all are plain and their edges are some thousands at most, there
 * will be no flow. */
BANYAN_CHECK enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_);
/* Seconds until all chunks are where they are needed: the first ones of each tree are followed, the others come at the
 * rate of the load. NAN: no memory. Cost: some thousand events at most. */
double by_cost_flow_time(const struct by_cost *cost, const struct by_cost_rates *rates, double bytes);

#endif
