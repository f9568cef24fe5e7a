/* The largest packing, exactly: column generation. A linear program gives
 * rates to the trees that are known and prices to resources; the lightest tree
 * under the prices is the next to join; the prices prove a bound as well. For
 * graphs of up to some hundred vertices, and for those dense ones with node
 * limits on which multiplicative weights are slow. */
#ifndef BY_PLAN_PACK_EXACT_H
#define BY_PLAN_PACK_EXACT_H

#include "packing.h"

struct by_exact_options {
  double ratio;                   /* stop when throughput / bound reaches it */
  uint32_t rounds;                /* and after so many programs, whatever is reached */
  double bound;                   /* what is known already, bit/s; INFINITY: nothing */
  const struct by_packing *start; /* trees to begin with; NULL: none */
};

/* 0.9999, 2000 rounds, no bound, no trees. */
struct by_exact_options by_exact_defaults(void);
/* Packs trees; it also stops near the optimum when rounds no longer bring anything. *out has a throughput and a
 * certified bound, whose ratio says how good it is. Where optional vertices are many, trees come from a heuristic and
 * the ratio stays lower. The caller owns *out and gives it to by_packing_destroy. Cost: about as many rounds as
 * vertices to 3 times resources, each a tree and a few pivots of resources^2. BANYAN_ERR_UNSUPPORTED: CLP is not
 * installed. */
BANYAN_CHECK enum banyan_status by_pack_exact(const struct by_graph *graph, const struct by_exact_options *options,
                                              struct by_packing **out);

#endif
