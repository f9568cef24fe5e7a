/* For cost.c: the chunks of plain trees on their way, one event after the
 * other. Trees that share a link wait for each other there, and vertices that
 * share cores for these, which no sum over links and heights knows. */
#ifndef BY_PLAN_COST_FLOW_H
#define BY_PLAN_COST_FLOW_H

#include "cost.h"

struct by_flow_edge {
  const struct by_plan_pair *way; /* NULL: within one node */
  uint32_t from, to, tree;
  uint32_t beside; /* another one whose way begins with the same link; UINT32_MAX: none */
  uint32_t sister; /* another one to the same place; UINT32_MAX: none */
  bool up;
};

/* A vertex in a tree. */
struct by_flow_place {
  bool used;
  uint32_t needs;        /* edges into it on the way up */
  uint32_t below;        /* one of these; UINT32_MAX: none */
  uint32_t above;        /* the one from it; UINT32_MAX: the root has none */
  uint32_t down, n_down; /* those from it on the way down stand in downs[] */
};

struct by_cost_flow {
  uint32_t n_edges;
  uint32_t n_trees;
  struct by_flow_edge *edges;
  struct by_flow_place *places; /* of each tree as many as there are vertices */
  double *share;                /* of each tree */
  uint32_t *downs;
  uint32_t *first;         /* of each direction of a link: an edge whose way begins there */
  double longest, seconds; /* the longest buffer that is followed takes so long, */
  double pace;             /* and each byte beyond */
};

/* Lists the edges of a cost that has its trees. Unless all are plain and their edges are a thousand at most, there
 * will be no flow. */
BANYAN_CHECK enum banyan_status by_cost_flow_init(struct by_cost *cost, const struct by_class *class_);
/* For large buffers: their first chunks are followed, the others come at the pace of the second half of these. */
BANYAN_CHECK enum banyan_status by_cost_flow_find_pace(struct by_cost *cost);
/* Seconds from the end of one call to that of the next. NAN: no memory. Cost: some thousand events at most. */
double by_cost_flow_time(const struct by_cost *cost, double bytes);

#endif
