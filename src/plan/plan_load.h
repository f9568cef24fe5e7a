/* What a plan asks of a topology: how much of each link and node an AllReduce
 * by it takes. Packets go the ways of topology_paths.h. */
#ifndef BY_PLAN_PLAN_LOAD_H
#define BY_PLAN_PLAN_LOAD_H

#include "plan.h"
#include "topology.h"

/* --- how much each pair of nodes sends --- */

/* What one node sends to another, up and down, of all trees together. */
struct by_plan_pair {
  uint32_t from, to; /* nodes, different */
  double share;      /* of the buffer; may be above 1 */
  /* The way, filled by by_plan_load_init: seconds, the least bit/s left on it, and its links. */
  double delay, capacity;
  size_t step;
  uint32_t n_steps;
};

/* The pairs of a class, by `to`, then `from`. node_of[] gives the node on which each vertex of the plan is; what a node
 * would send to itself is left out. Trees of a rotated group are not gone through one by one: an edge of its template
 * stands for one between every position and the one as far on. The caller frees *out. BANYAN_ERR_UNSUPPORTED: more
 * pairs than fit in memory (BY_PLAN_MOST_PAIRS). Cost: pairs, edges of templates. */
BANYAN_CHECK enum banyan_status by_plan_pairs_list(const struct by_plan *plan, const struct by_class *class_,
                                                   const uint32_t *node_of, struct by_plan_pair **out, size_t *n);
/* The order of pairs, for qsort and bsearch. */
int by_plan_pairs_compare(const void *a, const void *b);

enum { BY_PLAN_MOST_PAIRS = 2 << 20 };

/* --- what that takes --- */

/* Loads are per unit of input: a link of load 2 carries every byte of the buffer twice. */
struct by_plan_load {
  double (*link)[2];          /* of each link, by direction */
  double (*node)[2];          /* of each node: sent, received */
  double rate;                /* bit/s of input at which something has nothing left; INFINITY: nothing is ever sent */
  uint32_t tightest_link;     /* what that is: a link and direction; UINT32_MAX: none, */
  uint32_t tightest_way;      /* 0 or 1, of the link or node */
  uint32_t tightest_node;     /* or a node */
  uint32_t n_vertices;        /* of the plan, */
  uint32_t *node_of;          /* and where each is */
  struct by_plan_pair *pairs; /* which nodes send to which, as by_plan_pairs_list has them, with their ways */
  size_t n_pairs;
  uint32_t *steps; /* the ways of all pairs: 2 * link + direction */
  size_t n_steps;
  struct by_arena arena; /* of arrays by link, node and vertex */
};

/* Which node each of a plan's n_vertices is: the one of its name; where the ranks have no such names, rank r is the
 * r-th host that takes part. BANYAN_ERR_PLAN: they do not fit, and why. Cost: ranks times nodes. */
BANYAN_CHECK enum banyan_status by_plan_place(const struct by_plan *plan, const struct by_topology *topology,
                                              uint32_t *node_of);
/* by_plan_place assigns vertices to nodes. BANYAN_ERR_PLAN: the plan does not fit the topology, and why. Cost: the
 * pairs that send to each other, and for each vertex a search of the topology as far as those that send to it. Free it
 * with by_plan_load_fini. */
BANYAN_CHECK enum banyan_status by_plan_load_init(struct by_plan_load *load, const struct by_plan *plan,
                                                  const struct by_class *class_, const struct by_topology *topology);
/* The same, where it is known which node each vertex of the plan is; NULL: it is not. */
BANYAN_CHECK enum banyan_status by_plan_load_init_at(struct by_plan_load *load, const struct by_plan *plan,
                                                     const struct by_class *class_, const struct by_topology *topology,
                                                     const uint32_t *node_of);
void by_plan_load_fini(struct by_plan_load *load);
/* What vertex `from` of the plan sends to vertex `to`; NULL: nothing, or they are on one node. Cost: log(pairs). */
const struct by_plan_pair *by_plan_load_pair(const struct by_plan_load *load, uint32_t from, uint32_t to);

#endif
