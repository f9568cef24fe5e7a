/* Classes of a plan for the collectives other than allreduce, and what they are made of: the network in both
 * directions, lightest trees in it, packings of such trees, and the rate of a collective over a class. */
#ifndef BY_PLANNER_COST_OWN_CLASSES_H
#define BY_PLANNER_COST_OWN_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include <banyan/types.h>

#include "arena.h"
#include "fail.h"
#include "plan.h"
#include "topology.h"

/* The network into which directed trees are packed: hosts, arcs between them along the paths of packets
 * (topology_paths.h), and the resources that arcs load: each direction of a link, and what a node with a limit sends
 * and receives. A path through another of the hosts is no arc, since a tree goes through that host. It is not changed
 * once made; any number of threads may read it. */

struct by_arc {
  uint32_t from, to;
  uint32_t first, n; /* its resources: uses[first .. first + n), ascending */
};

struct by_directed {
  uint32_t n, n_arcs, n_resources, n_uses;
  struct by_arc *arcs; /* sorted by `to`, then `from` */
  uint32_t *uses;      /* allocated by malloc */
  double *capacity;    /* of each resource, bit/s, > 0 where an arc uses it */
  struct by_arena arena;
};

/* Makes the network of n hosts, which are nodes and differ. `reversed`: the arc from u to v stands for the traffic from
 * v to u, so that a tree away from its root carries sums towards it; a network that is the same in both directions
 * gives equal values. BANYAN_ERR_TOPOLOGY: some of them cannot reach each other. Cost: for each host a search over all
 * links. */
BANYAN_CHECK enum banyan_status by_directed_init(struct by_directed *net, const struct by_topology *topology,
                                                 const uint32_t *hosts, uint32_t n, bool reversed);
/* Frees a network; one that is all zeros is allowed. */
void by_directed_fini(struct by_directed *net);
/* Returns whether both networks are the same. */
bool by_directed_equal(const struct by_directed *a, const struct by_directed *b);

/* Finds the lightest tree away from a root, for packing directed trees. */

/* Scratch memory for searches in one network, which it borrows; not thread-safe. */
struct by_arborescence {
  const struct by_directed *net;
  uint32_t *arc; /* for each host but the root: the arc by which the last tree reaches it */
  /* The following fields are private. */
  struct by_contraction *levels;
  uint32_t *mark;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_arborescence_init(struct by_arborescence *search, const struct by_directed *net);
/* It may be all zeros. */
static inline void by_arborescence_fini(struct by_arborescence *search) {
  by_arena_fini(&search->arena);
  *search = (struct by_arborescence){0};
}
/* Finds the lightest tree from `root` to all hosts with weights weight[a] >= 0 of arcs (Chu and Liu 1965, Edmonds
 * 1967), fills `arc`, and returns its weight. INFINITY: the root cannot reach all. Cost: hosts x arcs at most. */
double by_arborescence_find(struct by_arborescence *search, uint32_t root, const double *weight);

/* Packings of directed trees: for every host that owns a part of a buffer, trees away from it that carry this part to
 * all others, with rates at which no resource is overloaded and the whole buffer moves as fast as possible. This is an
 * allgather; with one owner a broadcast; on the reversed network a reduce_scatter or a reduce. */

struct by_rooted_tree {
  uint32_t root;
  uint32_t *parent; /* of each host; of the root: itself */
  double share;     /* the part of what the root owns; the shares of a root's trees sum to 1 */
};

struct by_rooted_packing {
  uint32_t n_trees;
  struct by_rooted_tree *trees; /* sorted by root, then share, largest first */
  double throughput;            /* bit/s of the whole buffer */
  double bound;                 /* certified: no packing over these arcs exceeds it */
  struct by_arena arena;
};

/* Packs trees. part[h] is the part of the buffer that host h owns, >= 0; the parts sum to 1. Column generation whose
 * oracle is the lightest tree under prices; of two packings that are nearly as good, the one of few and low trees is
 * taken. The result is repeatable. BANYAN_ERR_TOPOLOGY: an owner does not reach all hosts; BANYAN_ERR_UNSUPPORTED: no
 * solver of linear programs. Cost: rounds x owners x hosts x arcs; 0.05 s for 12 hosts of 40 arcs. */
BANYAN_CHECK enum banyan_status by_rooted_pack(const struct by_directed *net, const double *part,
                                               struct by_rooted_packing *out);
/* Frees a packing; one that is all zeros is allowed. */
static inline void by_rooted_packing_fini(struct by_rooted_packing *packing) {
  by_arena_fini(&packing->arena);
  *packing = (struct by_rooted_packing){0};
}

/* Computes how fast a collective can be over a class of a plan: what its ranks send each other along its trees, and
 * which link or node is full first (by_routed_rate). */

/* *rate is in bit/s of the whole buffer; 0: not known, since a group is an exchange or has vertices that are no ranks.
 * hosts[r] is rank r's node, part[r] what it owns of the buffer (for allgather and reduce_scatter). For the collectives
 * of BY_PLAN_OWN_COLLECTIVES; `root` is for broadcast and reduce. Cost: ranks^2 for each group, and for each rank a
 * search over all links. */
BANYAN_CHECK enum banyan_status by_class_rate(const struct by_topology *topology, const uint32_t *hosts,
                                              const struct by_plan *plan, const struct by_class *class_,
                                              enum banyan_collective collective, const double *part, uint32_t root,
                                              double *rate);

/* Classes of a plan for the collectives other than allreduce: directed trees packed for each root (by_rooted_pack)
 * where the network is small enough, else the best of the candidates that the planner has weighed. */

enum {
  BY_OWN_MAX_PACKED = 32,  /* the largest number of hosts for which trees are packed */
  BY_OWN_MAX_WEIGHED = 128 /* the largest number of hosts for which the candidates are weighed */
};

struct by_own_request {
  const struct by_topology *topology;
  const uint32_t *hosts;  /* the nodes of the plan's ranks */
  const double *ranks_on; /* the number of ranks of each host; NULL: one on each */
  const struct by_plan *const *candidates;
  uint32_t n_candidates;
  double message, hop; /* seconds: the overhead of a message on a host, and of a hop */
};

/* Makes a copy of the plan with those classes, for buffers that are large enough for their messages. A collective has
 * no class if it cannot be planned, because some rank reaches others in one direction only or there is no solver, or if
 * the usual class is as fast; then its rates are in the plan's facts, for up to BY_OWN_MAX_PACKED hosts. The caller
 * owns *out. NULL: there is nothing to add. Cost: some tenths of a second for 32 hosts. */
BANYAN_CHECK enum banyan_status by_own_classes_add(const struct by_own_request *request, struct by_plan *plan,
                                                   struct by_plan **out);

#endif
