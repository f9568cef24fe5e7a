/* The linear program over an embedding's candidates: rates of the largest sum
 * that keep to all capacities; and new candidates by its prices. Used by the
 * files of embed.h alone. */
#ifndef BY_PLAN_EMBED_MASTER_H
#define BY_PLAN_EMBED_MASTER_H

#include "embed_candidate.h"
#include "lp.h"

struct by_embed_master {
  struct by_embed_candidates *list; /* grows by pricing */
  struct by_lp *lp;
  double unit;       /* bit/s that are 1 in the program */
  double *rate;      /* of each candidate, bit/s, of the last solve */
  double throughput; /* their sum */
  double *price;     /* of each resource, of the last solve: what all of it is worth */
  double *fair;      /* the same that proved the bound, 1 together; nothing is cheaper than throughput / bound at it */
  uint32_t room;
  /* Working memory. */
  uint32_t *rows;
  double *values, *load;
};

/* Takes all candidates of the list, one at least, which must outlive it. */
BANYAN_CHECK enum banyan_status by_embed_master_init(struct by_embed_master *master, struct by_embed_candidates *list);
/* Also of one that is all zeros. */
void by_embed_master_fini(struct by_embed_master *master);
/* Takes those that the list has got since. */
BANYAN_CHECK enum banyan_status by_embed_master_add(struct by_embed_master *master);
/* Rates for the candidates that are allowed, never more than the capacities, and prices. Starts from the last basis. */
BANYAN_CHECK enum banyan_status by_embed_master_solve(struct by_embed_master *master);
/* The candidate's rate must be 0 from now on; or not. */
static inline void by_embed_master_allow(struct by_embed_master *master, uint32_t candidate, bool allowed) {
  by_lp_allow(master->lp, candidate, allowed);
}
/* Column generation (Gilmore and Gomory 1961): adds lightest trees under the prices, and under prices between them and
 * the best so far (Wentges 1997), until the rates reach `ratio` of the bound, nothing new helps, or so many rounds are
 * over. *bound: no set of trees of the graph carries more, bit/s. Rates and prices are solved. Cost: two trees and a
 * few pivots a round. */
BANYAN_CHECK enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds,
                                                      double *bound);

#endif
