/* Plans the classes of a plan for the collectives other than allreduce. Their parts are the network in both directions,
 * lightest trees in it, packings of such trees, and the rate of a collective over a class. */
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
 * and receives. A path through another of the hosts is not an arc, since a tree uses that host instead. It does not
 * change once made; any number of threads may read it. */

struct by_arc {
  uint32_t from, to;
  uint32_t first, n; /* The arc's resources are uses[first .. first + n), ascending. */
};

struct by_directed {
  uint32_t n, n_arcs, n_resources, n_uses;
  struct by_arc *arcs; /* The arcs, sorted by `to` and `from`. */
  uint32_t *uses;      /* Allocated by malloc. */
  double *capacity;    /* The capacity of each resource in bit/s, > 0 where an arc uses it. */
  struct by_arena arena;
};

/* Makes the network of n hosts, which are nodes and differ. If `reversed`, the arc from u to v stands for the traffic
 * from v to u, so that a tree away from its root carries sums towards it; a network that is the same in both directions
 * gives equal values. BANYAN_ERR_TOPOLOGY: some of them cannot reach each other. Cost: for each host a search over all
 * links. */
BANYAN_CHECK enum banyan_status by_directed_init(struct by_directed *net, const struct by_topology *topology,
                                                 const uint32_t *hosts, uint32_t n, bool reversed);
/* Frees a network, which may be all zeros. */
void by_directed_fini(struct by_directed *net);
/* Returns whether both networks are the same. */
bool by_directed_equal(const struct by_directed *a, const struct by_directed *b);

/* Finds the lightest tree away from a root, for packing directed trees. */

/* Scratch memory for searches in one network, which it borrows; not thread-safe. */
struct by_arborescence {
  const struct by_directed *net;
  uint32_t *arc; /* The arc by which the last tree reaches each host but the root. */
  /* The following fields are private. */
  struct by_contraction *levels;
  uint32_t *mark;
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_arborescence_init(struct by_arborescence *search, const struct by_directed *net);
/* Frees a search, which may be all zeros. */
static inline void by_arborescence_fini(struct by_arborescence *search) {
  by_arena_fini(&search->arena);
  *search = (struct by_arborescence){0};
}
/* Finds the lightest tree from `root` to all hosts with weights weight[a] >= 0 of arcs (Chu and Liu 1965, Edmonds
 * 1967), fills `arc`, and returns its weight. INFINITY: the root cannot reach all. Cost: at most hosts * arcs. */
double by_arborescence_find(struct by_arborescence *search, uint32_t root, const double *weight);

/* Packings of directed trees: for every host that owns a part of a buffer, trees away from it that carry this part to
 * all others, with rates at which no resource is overloaded and the whole buffer moves as fast as possible. This is an
 * allgather; with one owner a broadcast; on the reversed network a reduce_scatter or a reduce. */

struct by_rooted_tree {
  uint32_t root;
  uint32_t *parent; /* The parent of each host. The root is its own parent. */
  double share;     /* The part of the root's data. The shares of a root's trees sum to 1. */
};

struct by_rooted_packing {
  uint32_t n_trees;
  struct by_rooted_tree *trees; /* The trees, sorted by root and share, largest shares first. */
  double throughput;            /* The rate of the whole buffer in bit/s. */
  double bound;                 /* A certified rate in bit/s that no packing over these arcs exceeds. */
  struct by_arena arena;
};

/* Packs trees. part[h] is the part of the buffer that host h owns, >= 0; the parts sum to 1. Column generation finds
 * the lightest trees under prices; of two packings that are nearly as good, the one of few and low trees is taken. The
 * result is repeatable. BANYAN_ERR_TOPOLOGY: an owner does not reach all hosts; BANYAN_ERR_UNSUPPORTED: there is no
 * solver of linear programs. Cost: rounds * owners * hosts * arcs; 0.05 s for 12 hosts and 40 arcs. */
BANYAN_CHECK enum banyan_status by_rooted_pack(const struct by_directed *net, const double *part,
                                               struct by_rooted_packing *out);
/* Frees a packing, which may be all zeros. */
static inline void by_rooted_packing_fini(struct by_rooted_packing *packing) {
  by_arena_fini(&packing->arena);
  *packing = (struct by_rooted_packing){0};
}

/* Computes the rate of a collective over a class of a plan: what its ranks send each other along its trees, and which
 * link or node is full first (by_routed_rate). */

/* *rate is in bit/s of the whole buffer; 0: not known, since a group is an exchange or has vertices that are not ranks.
 * hosts[r] is the node of rank r, part[r] its part of the buffer (for allgather and reduce_scatter). For the
 * collectives of BY_PLAN_OWN_COLLECTIVES; `root` is for broadcast and reduce. Cost: ranks^2 for each group, and for
 * each rank a search over all links. */
BANYAN_CHECK enum banyan_status by_class_rate(const struct by_topology *topology, const uint32_t *hosts,
                                              const struct by_plan *plan, const struct by_class *class_,
                                              enum banyan_collective collective, const double *part, uint32_t root,
                                              double *rate);

/* Classes of a plan for the collectives other than allreduce: directed trees packed for each root (by_rooted_pack) if
 * the network is small enough, otherwise the best of the planner's candidates. */

enum {
  BY_OWN_MAX_PACKED = 32,  /* The largest number of hosts for which trees are packed. */
  BY_OWN_MAX_WEIGHED = 128 /* The largest number of hosts for which candidates are compared. */
};

struct by_own_request {
  const struct by_topology *topology;
  const uint32_t *hosts;  /* The nodes of the plan's ranks. */
  const double *ranks_on; /* The number of ranks on each host; NULL: one on each. */
  const struct by_plan *const *candidates;
  uint32_t n_candidates;
  double message, hop; /* The seconds that a host needs for a message, and those of a hop. */
};

/* Makes a copy of the plan with those classes, for buffers that are large enough for their messages. A collective has
 * no class if it cannot be planned, because some rank reaches others in one direction only or there is no solver, or if
 * the usual class is as fast. In this case its rates are in the plan's facts, for up to BY_OWN_MAX_PACKED hosts. The
 * caller owns *out. NULL: there is nothing to add. Cost: some tenths of a second for 32 hosts. */
BANYAN_CHECK enum banyan_status by_own_classes_add(const struct by_own_request *request, struct by_plan *plan,
                                                   struct by_plan **out);

#endif
