/* At most K trees under a height limit, for plans that run: few trees, as
 * shallow as throughput allows. A local search; what it gives is checked, how
 * good it is says the bound that it is given. The same options and seed give
 * the same trees. */
#ifndef BY_PLAN_PACK_FEW_H
#define BY_PLAN_PACK_FEW_H

#include "fail.h"
#include "graph.h"

struct by_few_options {
  uint32_t most_trees; /* K, >= 1 */
  bool by_delay;       /* heights are seconds of delay; else hops */
  double most_height;  /* of each tree from its centre; INFINITY: any */
  double tolerance;    /* of the bound, 0 .. 1: how much of it may be lost for less height; < 0: take any height */
  double least_rate;   /* of each tree, bit/s */
  double bound;        /* what no packing exceeds, bit/s; INFINITY: not known */
  /* Asked once for a better bound where trees do not reach this one; NULL: there is none to be had. */
  enum banyan_status (*tighten)(void *context, double *bound);
  void *context;
  uint64_t seed;
  uint32_t attempts; /* new starts of the search, at most; 0: 24 */
};

/* K = 8, a tolerance of 1 %, no limits, no bound, seed 1. */
struct by_few_options by_few_defaults(void);
/* Packs at most K trees. Throughput may stay below what is possible; heights never exceed most_height. Where less
 * height is looked for, throughput goes no lower than (1 - tolerance) * bound for it, nor at all if it is below that
 * already. The caller owns *out and gives it to by_packing_destroy. Cost: about 300 growths for each of the K trees,
 * times the logarithm of the heights that are tried. BANYAN_ERR_ARGUMENT: an option out of range; BANYAN_ERR_PLAN: no
 * tree keeps the height, or the least rate. */
BANYAN_CHECK enum banyan_status by_pack_few(const struct by_graph *graph, const struct by_few_options *options,
                                            struct by_packing **out);

#endif
