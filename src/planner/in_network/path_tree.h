/* The paths of a job's workers to a server as a tree, and which switches on it add best: for the placement on switches,
 * and for planners that compare in-network trees with others. */
#ifndef BY_PLANNER_IN_NETWORK_PATH_TREE_H
#define BY_PLANNER_IN_NETWORK_PATH_TREE_H

#include "placement.h"

/* A tree in which some vertices can add: workers' gradients flow along it to the server at its root. A vertex that adds
 * sends one gradient on, another one sends all that came; the result takes the same paths back. Pure, without names.
 * All loads are gradients: at rate x each of them takes x bit/s of a link, in both directions. */
struct by_rooted_flow {
  uint32_t n;       /* number of vertices; 0 is the server, parents come before children */
  uint32_t *parent; /* of each vertex; parent[0] = 0 */
  uint32_t *own;    /* of each vertex: gradients that begin there; those of the server do not travel */
  bool *able;       /* of each vertex: whether it may add */
  double *capacity; /* of each vertex: bit/s > 0 to and from the parent, the smaller one; not used for the server */
  double *limit;    /* of each vertex: bit/s that it may send, and receive, over all links; INFINITY: any */
  double *hold;     /* of each vertex, seconds per bit: if it adds, its memory, or the link of its aggregator, allows no
                       higher rate than 1 / hold; 0: any */
};

/* Returns the seconds per bit of a choice: the largest of load / capacity, load / limit, and the holds of the adders.
 * out[v] (NULL: not wanted): gradients that v sends to its parent. Cost: n. */
double by_flow_theta(const struct by_rooted_flow *flow, const bool *adds, uint32_t *out);

/* Finds the fewest vertices, at most `max`, that must add so that theta is no larger than given: *found says whether
 * there are any, and then adds[] is filled. Tree knapsack: g_v(k) is the minimum that v sends if k vertices of its
 * subtree add. Exact, since sending less never makes it worse. Cost: n x min(max, able ones). BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_flow_find_fewest(const struct by_rooted_flow *flow, double theta, uint32_t max,
                                                    bool *adds, bool *found);
/* Finds the smallest theta with at most `max` adders, to 1e-12, and the fewest adders that reach it, by bisection.
 * *theta is that of adds[]. */
BANYAN_CHECK enum banyan_status by_flow_find_min(const struct by_rooted_flow *flow, uint32_t max, bool *adds,
                                                 double *theta);
/* Finds the choice of least cost, where each gradient sent by v costs price[v] >= 0 and adding at v costs rent[v] >= 0;
 * exact, by the next adder above. *cost is the total. Cost: n x depth. */
BANYAN_CHECK enum banyan_status by_flow_find_cheapest(const struct by_rooted_flow *flow, const double *price,
                                                      const double *rent, bool *adds, double *cost);

/* The paths of a job's workers to one of its servers, before the adders are chosen. */
struct by_path_tree {
  uint32_t server; /* an index into the job's servers */
  double round_trip;
  uint32_t *node, *link, *workers, *start,
      *aggregator;  /* as in by_placed_tree; `aggregator` of vertices that are able */
  uint32_t *detour; /* of each vertex: its aggregator's link */
  struct by_rooted_flow flow;
};

/* Returns the gradients that an aggregator's link carries in each direction: those of its workers and one result, or
 * one sum and their results. */
static inline uint32_t by_aggregator_load(const struct by_path_tree *tree, uint32_t v) {
  return tree->workers[v] + 1;
}

/* Returns the bit/s left in the smaller direction of a link. */
double by_link_min_left(const struct by_topology *topology, uint32_t link);

struct by_placement_paths {
  const struct by_topology *topology;
  const struct by_placement_job *job;
  uint32_t n_trees;
  struct by_path_tree *trees; /* one for each server */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_placement_paths_init(struct by_placement_paths *paths,
                                                        const struct by_topology *topology,
                                                        const struct by_placement_job *job, double turnaround);
void by_placement_paths_fini(struct by_placement_paths *paths);

#endif
