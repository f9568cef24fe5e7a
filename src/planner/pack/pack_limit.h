/* What a number of trees can carry at all, which may be less than any number
 * of them can: eight trees over twenty-four hosts use 184 of the 276 links that
 * a full mesh has. From counting links; so it holds for every choice of trees,
 * and seldom can it be reached. */
#ifndef BY_PLAN_PACK_LIMIT_H
#define BY_PLAN_PACK_LIMIT_H

#include "graph.h"

enum { BY_LIMIT_MOST_TREES = 64 };

/* No n trees of equal rates, n >= 1, carry more together, bit/s. INFINITY: not known, since edges share resources or
 * some vertices are optional, or there are too many trees and edges to count. Cost: edges * 30. */
double by_limit_of_equal_trees(const struct by_graph *graph, uint32_t n);
/* No n trees of any rates carry more together, bit/s; INFINITY: as above. Cost: n times as much. BANYAN_ERR_NO_MEMORY.
 */
BANYAN_CHECK enum banyan_status by_limit_of_trees(const struct by_graph *graph, uint32_t n, double *out);

#endif
