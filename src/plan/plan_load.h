/* What a plan asks of a topology: how much of each link and node an AllReduce
 * by it takes. Packets go the ways of topology_paths.h. */
#ifndef BY_PLAN_PLAN_LOAD_H
#define BY_PLAN_PLAN_LOAD_H

#include "plan.h"
#include "plan_pairs.h"
#include "topology.h"

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
  struct by_plan_pair *pairs; /* who sends to whom, as by_plan_pairs_list has them, with their ways */
  size_t n_pairs;
  uint32_t *steps; /* the ways of all pairs: 2 * link + direction */
  size_t n_steps;
};

/* Which node each of a plan's n_vertices is: the one of its name; where the ranks have no such names, rank r is the
 * r-th host that takes part. BANYAN_ERR_PLAN: they do not fit, and why. Cost: ranks times nodes. */
BANYAN_CHECK enum banyan_status by_plan_place(const struct by_plan *plan, const struct by_topology *topology,
                                              uint32_t *node_of);
/* Vertices are nodes as by_plan_place says. BANYAN_ERR_PLAN: the plan does not fit the topology, and why. Cost: the
 * pairs that send to each other, and for each vertex a search of the topology as far as those that send to it. Free it
 * with by_plan_load_fini. */
BANYAN_CHECK enum banyan_status by_plan_load_init(struct by_plan_load *load, const struct by_plan *plan,
                                                  const struct by_class *class_, const struct by_topology *topology);
void by_plan_load_fini(struct by_plan_load *load);
/* What vertex `from` of the plan sends to vertex `to`; NULL: nothing, or they are on one node. Cost: log(pairs). */
const struct by_plan_pair *by_plan_load_pair(const struct by_plan_load *load, uint32_t from, uint32_t to);

#endif
