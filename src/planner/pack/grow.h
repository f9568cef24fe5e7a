/* Growing one tree over a graph: Prim's algorithm with prices that may rise
 * while it grows, kept within a height by looking ahead, over the terminals and
 * those of the other vertices that are allowed. Prices that differ by less than
 * a part in 64 may count as equal: buckets are much faster than a heap. A
 * grower is the working memory for one graph; it lives in its own arena; not
 * for several threads. */
#ifndef BY_PLAN_GROW_H
#define BY_PLAN_GROW_H

#include <stdbool.h>

#include "buckets.h"
#include "fail.h"
#include "graph.h"

/* What an edge costs now, >= 0; less is better; INFINITY: it may not be used. It may only rise when edges are taken. */
struct by_price {
  double (*of)(void *context, uint32_t edge);
  void (*take)(void *context, uint32_t edge); /* the edge is in the tree from now on; NULL: changes nothing */
  void *context;
};

struct by_grow_entry { /* a way to a vertex, for searches by delay */
  double depth;
  uint32_t edge, to;
};

struct by_around { /* the edges at each vertex of one tree */
  uint32_t *at, *edges;
};

struct by_grower {
  const struct by_graph *graph;
  bool hops;            /* heights count edges; else they are seconds */
  const double *length; /* of each edge, what heights are made of */
  bool *allowed;        /* vertices; true for terminals; set it for the others */
  /* The tree that was grown last. */
  uint32_t n_edges;
  uint32_t *edges; /* ascending */
  double cost;     /* what its edges cost when they were taken */
  /* Working memory. */
  bool *in;
  uint32_t *via, *order, *degree;
  double *depth, *latest, *below;
  uint64_t *chosen;           /* of each edge one bit, 0 between calls */
  struct by_buckets offers;   /* edges that lead out of the tree */
  struct by_grow_entry *heap; /* by delay only */
  uint32_t n_heap;
  struct by_around around;
  struct by_arena arena;
};

/* `hops`: heights count edges; else they are seconds of delay. The graph must outlive the grower. */
BANYAN_CHECK enum banyan_status by_grower_init(struct by_grower *grower, const struct by_graph *graph, bool hops);
void by_grower_fini(struct by_grower *grower);
/* Grows a tree in which no vertex is further than `most_height` from `root`, an allowed vertex; false: there is none,
 * since a terminal is too far away over edges that may be used, or cannot be reached. Without a height and with prices
 * that stay, it is a cheapest tree, to within a part in 64, over the allowed vertices less its useless leaves. Cost:
 * edges, and as much again for those whose price rises before they are taken; by delay, edges * log(edges). */
bool by_grow(struct by_grower *grower, const struct by_price *price, uint32_t root, double most_height);

/* How far the furthest terminal is from `root` over allowed vertices; INFINITY: cannot be reached. Cost: as above. */
double by_grower_reach(struct by_grower *grower, uint32_t root);
/* The vertex of the tree from which the furthest one is nearest, and how far that is. Cost: vertices + edges. */
void by_tree_centre(struct by_grower *grower, const uint32_t *edges, uint32_t n_edges, uint32_t *root, double *height);
/* The largest height of a packing's trees when each hangs from its centre; `hops` as above. BANYAN_ERR_NO_MEMORY. */
BANYAN_CHECK enum banyan_status by_packing_height(const struct by_graph *graph, const struct by_packing *packing,
                                                  bool hops, double *height);

#endif
