/* Certified bounds of collectives: rates that no algorithm over a topology's links exceeds, and the cuts that prove
 * them.
 *
 * In an allgather, a set S of nodes that does not contain all hosts must send the blocks of its hosts out of S once,
 * whatever hosts and switches forward or copy. So the rate is at most capacity(S) / part(S), where part(S) is the part
 * of the buffer that the hosts in S own. Maximum flows find the cut with the smallest such quotient. If all nodes are
 * hosts, or each switch can receive as much as it can send, packings of directed trees reach it (Edmonds 1973;
 * ForestColl, Zhao et al. 2024). A broadcast is an allgather in which the root owns everything, and a gather is one in
 * which only the root receives; a reduce_scatter, reduce and scatter are the reverse of these. Directions of a link and
 * limits of nodes count separately.
 *
 * An alltoall without relaying has no choice: each block follows its packets' path (topology_paths.h), and the busiest
 * link, or the busiest limit of a node, bounds it.
 *
 * Rates are in bit/s of a rank's whole buffer: the result of an allgather, the input of a reduce_scatter or
 * alltoall. */
#ifndef BY_PLANNER_COST_COLLECTIVE_BOUND_H
#define BY_PLANNER_COST_COLLECTIVE_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

#include "arena.h"
#include "fail.h"
#include "topology.h"

struct by_bound_request {
  enum banyan_collective collective;
  const uint32_t *hosts; /* The numbers of the participating nodes, all different. */
  uint32_t n_hosts;
  /* The relative parts of the buffer that each host's ranks own, >= 0; for alltoall the number of ranks on each host;
   * NULL: all equal. Ignored by broadcast and reduce. */
  const double *blocks;
  uint32_t root; /* For collectives with a root: its index among the hosts. */
};

struct by_collective_bound {
  enum banyan_collective collective;
  double rate; /* The bound in bit/s; INFINITY: nothing has to pass any link. */
  /* The part of the buffer that passes the limits below: rate * part is the sum of their capacities. */
  double part;
  uint32_t n_side, *side; /* The hosts, as nodes, on the smaller side of the cut; none for an alltoall. */
  bool leaves;            /* The part leaves that side; if false, it enters that side. */
  uint32_t n_limits;
  struct by_bound_limit *limits;
  struct by_arena arena;
};

/* Returns whether such a bound exists. It does for all collectives but allreduce, whose trees have a bound of their own
 * (packing.h), barrier, send and recv. */
bool by_collective_has_bound(enum banyan_collective collective);
/* Computes the bound. The caller calls by_collective_bound_fini. BANYAN_ERR_ARGUMENT: the request is not valid;
 * BANYAN_ERR_TOPOLOGY: a host cannot be reached. Cost: a maximum flow for each host that receives, and some more; for
 * an alltoall the sum of the paths' lengths. */
BANYAN_CHECK enum banyan_status by_collective_bound_find(const struct by_topology *topology,
                                                         const struct by_bound_request *request,
                                                         struct by_collective_bound *out);
/* Frees a bound, which may be all zeros. */
static inline void by_collective_bound_fini(struct by_collective_bound *bound) {
  by_arena_fini(&bound->arena);
  *bound = (struct by_collective_bound){0};
}

struct by_text;
/* Adds text for people: the bound, and the cut that proves it. */
void by_collective_bound_explain(const struct by_collective_bound *bound, const struct by_topology *topology,
                                 struct by_text *text);
/* Adds the bound as members of a JSON object. A rate of 0 means that nothing has to pass any link. */
void by_collective_bound_put_json(const struct by_collective_bound *bound, const struct by_topology *topology,
                                  struct by_text *text);
/* Adds a line that describes a limit, with its capacity. */
void by_bound_limit_explain(const struct by_bound_limit *limit, const struct by_topology *topology,
                            struct by_text *text);
/* Adds a limit as a JSON object. */
void by_bound_limit_put_json(const struct by_bound_limit *limit, const struct by_topology *topology,
                             struct by_text *text);

/* The rate at which a link or node is full when every host sends to every other along the paths of packets
 * (topology_paths.h). Parallel links share the traffic between their nodes. */

/* The kinds of limits. */
enum by_bound_kind { BY_BOUND_LINK, BY_BOUND_OUT, BY_BOUND_IN };
struct by_bound_limit {
  enum by_bound_kind kind; /* A direction of a link, or everything that a node may send, or may receive. */
  uint32_t index;          /* The number of the link, of any of parallel links, or of the node. */
  uint8_t direction;       /* For a link: BY_AB or BY_BA. */
  double capacity;         /* The capacity in bit/s. */
};

struct by_routed {
  const uint32_t *hosts; /* The numbers of the nodes, all different. */
  uint32_t n_hosts;
  /* Returns how often the buffer passes between two of the hosts, given by their indices, >= 0. */
  double (*sent)(const void *context, uint32_t from, uint32_t to);
  const void *context;
};

/* Computes *rate in bit/s of the buffer, and the limit that is full at this rate. INFINITY: nothing is sent, and *limit
 * is unchanged. BANYAN_ERR_TOPOLOGY: there is no path. Cost: the sum of the paths' lengths. */
BANYAN_CHECK enum banyan_status by_routed_rate(const struct by_topology *topology, const struct by_routed *routed,
                                               double *rate, struct by_bound_limit *limit);

#endif
