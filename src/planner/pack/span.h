/* Lightest trees under prices of resources: the oracle of every packing method, and the bound that prices prove. An
 * edge weighs the sum of the prices of the resources it lists. Keeps its scratch between calls; borrows the graph; not
 * for several threads.
 *
 * Where all vertices are terminals, the tree is a minimum spanning tree: by Prim's algorithm on dense graphs,
 * O(vertices^2 + edges), else by Kruskal's with a radix sort, O(edges). With optional vertices it is a Steiner tree,
 * whose lightest is NP-hard to find: with few of them every set of them is tried, else heuristics give a good tree, and
 * a lower bound stands in for the lightest one. */
#ifndef BY_PLAN_SPAN_H
#define BY_PLAN_SPAN_H

#include "graph.h"

struct by_span_key {
  uint64_t weight; /* the bits of a double >= 0, which order as it does */
  uint32_t edge;
};

struct by_steiner;
struct by_span {
  const struct by_graph *graph;
  double *weight; /* of each edge under the prices that were set */
  uint32_t *tree; /* edges of the last tree found, ascending */
  uint32_t n_tree;
  bool exact; /* the lightest tree is found, and its weight is the true least one */
  /* private */
  bool dense, sorted;         /* Prim's; keys are in order */
  struct by_span_key *keys;   /* edges by weight, and room for sorting them */
  uint32_t *ends;             /* beside graph->incident: where each edge leads */
  uint32_t *above;            /* Kruskal's parts */
  uint32_t *via;              /* Prim's: the edge by which a vertex would come in */
  double *near;               /* and its weight */
  uint32_t *waiting;          /* vertices that are not in yet */
  uint64_t *chosen;           /* of each edge one bit, 0 between calls */
  struct by_steiner *steiner; /* NULL without optional vertices */
  struct by_arena arena;
};

BANYAN_CHECK enum banyan_status by_span_init(struct by_span *span, const struct by_graph *graph);
/* Also of one that is all zeros. */
void by_span_fini(struct by_span *span);
/* Weighs all edges; prices are >= 0 and finite. Cost: uses. */
void by_span_set_prices(struct by_span *span, const double *price);
/* Lists the edges whose bits are set, ascending, and clears these bits. Returns how many there are. */
uint32_t by_take_chosen(const struct by_graph *graph, uint64_t *chosen, uint32_t *edges);
/* Finds a light tree under the prices, leaves it in `tree`; its weight. The lightest, unless there are many optional
 * vertices (`exact`). None of its leaves is an optional vertex. */
double by_span_lightest(struct by_span *span);
/* A weight that no tree is below: the lightest tree's where that is known, else the larger of the bounds by dual ascent
 * (Wong 1984) and by half the metric closure's spanning tree. May change `tree`. */
double by_span_least(struct by_span *span);
/* What these prices prove: no packing carries more than sum(capacity * price) / least. Sets them. INFINITY: nothing.
 * `well`: with the true least weight also where trying every set of optional vertices takes long, up to a tenth of a
 * second. */
double by_span_certify(struct by_span *span, const double *price, bool well);

#endif
