/* The ways of a job's workers to a server as a tree, and which switches on it add best: for the placement on switches,
 * and for planners that weigh in-network trees against others. */
#ifndef BY_PLANNER_IN_NETWORK_WAY_TREE_H
#define BY_PLANNER_IN_NETWORK_WAY_TREE_H

#include "placement.h"

/* Where a tree adds: workers' gradients flow along a rooted tree to a server, and some vertices can add what comes to
 * them. A vertex that adds sends one gradient on, another one sends all that came; the result goes back the same ways.
 * Pure, without names. All loads are gradients: at rate x each of them takes x bit/s of a link, in both directions. */
struct by_rooted_flow {
  uint32_t n;       /* vertices; 0 is the server, parents come before children */
  uint32_t *parent; /* parent[0] = 0 */
  uint32_t *own;    /* gradients that begin at a vertex; those of the server do not travel */
  bool *able;       /* may add */
  double *capacity; /* bit/s > 0 towards the parent and back, the smaller one; of the server: no matter */
  double *limit;    /* what a vertex may send, and receive, over all links; INFINITY: any */
  double *hold;     /* seconds per bit: where it adds, its memory, or the link of the aggregator in its place, allows no
                       higher rate than 1 / hold; 0: any */
};

/* Seconds per bit that the choice needs: the largest of load / capacity, load / limit, and the holds of those that add.
 * out[v] (NULL: not wanted): gradients that v sends to its parent. Cost: n. */
double by_flow_theta(const struct by_rooted_flow *flow, const bool *adds, uint32_t *out);

/* The fewest vertices that add, at most `most`, so that theta is no larger than given: *found says whether there are
 * any, and then adds[] is filled. Tree knapsack: g_v(k) is the least that v sends if k vertices of its subtree add.
 * Exact, since to send less never hurts. Cost: n x min(most, able ones). BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_flow_fewest(const struct by_rooted_flow *flow, double theta, uint32_t most,
                                               bool *adds, bool *found);
/* The least theta that at most `most` vertices that add allow, to 1e-12, and the fewest with which it is reached, by
 * bisection. *theta is that of adds[]. */
BANYAN_CHECK enum banyan_status by_flow_least(const struct by_rooted_flow *flow, uint32_t most, bool *adds,
                                              double *theta);
/* The choice of least cost, where each gradient sent by v costs price[v] >= 0 and adding at v costs rent[v] >= 0;
 * exact, by the next vertex above that adds. *cost is the whole. Cost: n x depth. */
BANYAN_CHECK enum banyan_status by_flow_cheapest(const struct by_rooted_flow *flow, const double *price,
                                                 const double *rent, bool *adds, double *cost);

/* The ways of a job's workers to one of its servers, before it is known who adds. */
struct by_way_tree {
  uint32_t server; /* a place among the job's */
  double round_trip;
  uint32_t *node, *link, *workers, *start, *aggregator; /* as of by_placed_tree; `aggregator` of who is able */
  uint32_t *detour;                                     /* its link */
  struct by_rooted_flow flow;
};

/* What an aggregator's link carries each way, in gradients: those of its workers and one result, or one sum and their
 * results. */
static inline uint32_t by_aggregator_load(const struct by_way_tree *tree, uint32_t v) {
  return tree->workers[v] + 1;
}

/* bit/s that it has left in its smaller direction. */
double by_link_least(const struct by_topology *topology, uint32_t link);

struct by_placement_ways {
  const struct by_topology *topology;
  const struct by_placement_job *job;
  uint32_t n_trees;
  struct by_way_tree *trees; /* one for each server */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_placement_ways_init(struct by_placement_ways *ways,
                                                       const struct by_topology *topology,
                                                       const struct by_placement_job *job, double turnaround);
void by_placement_ways_fini(struct by_placement_ways *ways);

#endif
