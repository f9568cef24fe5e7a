/* Packing by multiplicative weights: near the optimum, with a bound that proves
 * it, on graphs of thousands of vertices. Deterministic, no clock: effort is
 * counted in trees. */
#ifndef BY_PLAN_PACK_WEIGHTS_H
#define BY_PLAN_PACK_WEIGHTS_H

#include "graph.h"

struct by_weights_options {
  double goal;         /* stops when throughput / bound is that; 0: 0.995 */
  uint32_t most_trees; /* to look for; 0: as many as keep 4000 vertices and 14000 edges to some seconds */
};

/* Looks for light trees under prices that grow with the load of resources (Garg and Koenemann 1998; Fleischer 2000),
 * with steps that shrink by phases. The packing's trees are many, hundreds; its bound holds also with optional vertices
 * (span.h). Options may be NULL. The caller owns *out.
 * Cost: a tree takes O(edges + uses); 300 to 3000 of them are usual. Memory: the trees. */
BANYAN_CHECK enum banyan_status by_pack_weights(const struct by_graph *graph, const struct by_weights_options *options,
                                                struct by_packing **out);

#endif
