/* Computes the load that a plan puts on a topology: how much of each link and node an AllReduce uses. Packets take the
 * paths of topology_paths.h. */
#ifndef BY_PLAN_PLAN_LOAD_H
#define BY_PLAN_PLAN_LOAD_H

#include "plan.h"
#include "topology.h"

/* --- Pairs of nodes that send to each other. --- */

/* What one node sends to another in all trees together. */
struct by_plan_pair {
  uint32_t from, to; /* distinct nodes */
  double share;      /* in units of the buffer; may exceed 1 */
  /* The path, filled in by by_plan_load_init: seconds, the smallest residual bit/s, and the steps in
   * by_plan_load.steps. */
  double delay, capacity;
  size_t step;
  uint32_t n_steps;
};

/* Lists the pairs of a class, sorted by `to`, then `from`. node_of[] is the node of each vertex of the plan; what a
 * node would send to itself is omitted. Trees of a rotated group are not traversed individually: an edge of the
 * template stands for one edge from every position, with the same digit offset. The caller frees *out.
 * BANYAN_ERR_UNSUPPORTED: more than BY_PLAN_MAX_PAIRS pairs. Cost: pairs, plus edges of templates. */
BANYAN_CHECK enum banyan_status by_plan_pairs_list(const struct by_plan *plan, const struct by_class *class_,
                                                   const uint32_t *node_of, struct by_plan_pair **out, size_t *n);
/* Orders pairs, for qsort and bsearch. */
int by_plan_pairs_compare(const void *a, const void *b);

enum { BY_PLAN_MAX_PAIRS = 2 << 20 };

/* --- The load. --- */

/* Loads are per unit of input: a link of load 2 carries every byte of the buffer twice. */
struct by_plan_load {
  double (*link)[2];           /* of each link, by direction */
  double (*node)[2];           /* of each node: sent, received */
  double rate;                 /* the bit/s of input at which some link or node is full; INFINITY: nothing is sent */
  uint32_t tightest_link;      /* the link that is full first; UINT32_MAX: it is a node, or none */
  uint32_t tightest_direction; /* the direction of that link, or 0 (sends) or 1 (receives) for a node */
  uint32_t tightest_node;      /* the node that is full first; UINT32_MAX: it is a link, or none */
  uint32_t n_vertices;         /* the number of the plan's vertices */
  uint32_t *node_of;           /* the node of each vertex */
  struct by_plan_pair *pairs;  /* as by_plan_pairs_list returns them, with their paths */
  size_t n_pairs;
  uint32_t *steps; /* the paths of all pairs: 2 * link + direction */
  size_t n_steps;
  struct by_arena arena; /* memory of the arrays by link, node and vertex */
};

/* Finds the node of each of a plan's n_vertices: by name, or, if the ranks' names are not in the topology, rank r is
 * the r-th host that takes part. BANYAN_ERR_PLAN: plan and topology do not match; the error says why. Cost: ranks times
 * nodes. */
BANYAN_CHECK enum banyan_status by_plan_locate(const struct by_plan *plan, const struct by_topology *topology,
                                               uint32_t *node_of);
/* Like by_plan_load_init, with the known node of each vertex of the plan; NULL: by_plan_locate finds them. */
BANYAN_CHECK enum banyan_status by_plan_load_init_at(struct by_plan_load *load, const struct by_plan *plan,
                                                     const struct by_class *class_, const struct by_topology *topology,
                                                     const uint32_t *node_of);
/* Computes the load of a class. BANYAN_ERR_PLAN: the plan does not match the topology; the error says why. Cost: pairs,
 * and for each receiving vertex a path search up to its senders. Free it with by_plan_load_fini. */
BANYAN_CHECK static inline enum banyan_status by_plan_load_init(struct by_plan_load *load, const struct by_plan *plan,
                                                                const struct by_class *class_,
                                                                const struct by_topology *topology) {
  return by_plan_load_init_at(load, plan, class_, topology, NULL);
}
void by_plan_load_fini(struct by_plan_load *load);
/* Returns what vertex `from` sends to vertex `to`; NULL: nothing, or both are on one node. Cost: log(pairs). */
const struct by_plan_pair *by_plan_load_pair(const struct by_plan_load *load, uint32_t from, uint32_t to);

#endif
