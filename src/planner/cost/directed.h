/* The network in both directions, lightest trees in it, and packings of such trees. */
#ifndef BY_PLANNER_COST_DIRECTED_H
#define BY_PLANNER_COST_DIRECTED_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "topology.h"

/* The network into which directed trees are packed: hosts, arcs between them along the paths of packets
 * (topology_paths.h), and the resources that arcs load: each direction of a link, and what a node with a limit sends
 * and receives. A path through another of the hosts is not an arc, since a tree uses that host instead. It does not
 * change once made; any number of threads may read it. */

struct by_arc {
  uint32_t from, to;
  uint32_t first, n; /* The arc's resources are uses[first .. first + n), ascending. */
  double delay;      /* Seconds along the path. */
};

struct by_directed {
  uint32_t n, n_arcs, n_resources, n_uses;
  struct by_arc *arcs; /* The arcs, sorted by `to` and `from`. */
  uint32_t *uses;      /* Allocated by malloc. */
  double *capacity;    /* The capacity of each resource in bit/s, > 0 where an arc uses it. */
  struct by_arena arena;
};

/* Reports that memory is exhausted. It is inline so that analysers see that it never returns BANYAN_OK. */
static inline enum banyan_status by_directed_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for directed trees");
  return BANYAN_ERR_NO_MEMORY;
}

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

/* Packings of pairs of directed trees for an AllReduce. A pair has one root: sums go to it along one tree, and results
 * leave it along the other. Where directions of links differ, pairs can carry more than trees that are used both ways.
 */

struct by_tree_pair {
  uint32_t root;
  uint32_t *up, *down; /* The parent of each host in both trees. The root is its own parent. */
  double rate;         /* In bit/s. */
};

struct by_pairs {
  uint32_t n_pairs;
  struct by_tree_pair *pairs; /* The pairs, those of the largest rates first. */
  double throughput;          /* The sum of the rates in bit/s. */
  double bound;               /* A proven rate in bit/s that no set of pairs over these arcs exceeds. */
  double height;              /* The height of the highest tree, in hops or seconds. */
  double *price; /* What the whole capacity of each resource is worth in the proof of the bound; they sum to 1. */
  struct by_arena arena;
};

struct by_pairs_options {
  uint32_t max_trees; /* The largest number of pairs; 0: as many as the largest throughput needs. */
  bool by_delay;      /* Heights are in seconds of delay; if false, in hops. */
  double max_height;  /* The limit of each tree's height; INFINITY: none. */
  double tolerance;   /* The part of the bound, 0 to 1, that may be lost. */
  double min_rate;    /* The smallest rate of a pair in bit/s; not used without a largest number. */
  uint64_t seed;
};

/* Packs pairs of trees. The network must not be reversed. The result is repeatable. BANYAN_ERR_TOPOLOGY: no host can
 * reach all others and be reached by them; BANYAN_ERR_PLAN: no pair meets the limits; BANYAN_ERR_UNSUPPORTED: there is
 * no solver of linear programs. Cost: some hundred rounds, each with 2 * hosts searches for a tree. */
BANYAN_CHECK enum banyan_status by_pairs_pack(const struct by_directed *net, const struct by_pairs_options *options,
                                              struct by_pairs *out);
/* Frees a packing, which may be all zeros. */
static inline void by_pairs_fini(struct by_pairs *pairs) {
  by_arena_fini(&pairs->arena);
  *pairs = (struct by_pairs){0};
}

#endif
