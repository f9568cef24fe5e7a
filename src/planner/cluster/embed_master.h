/* The linear program over an embedding's candidates: rates of the largest sum that keep to all capacities; and new
 * candidates by its prices, trees of the graph's edges that are hung up at their centre. Used by the files of embed.h
 * alone. */
#ifndef BY_PLAN_EMBED_MASTER_H
#define BY_PLAN_EMBED_MASTER_H

#include "embed_candidate.h"
#include "grow.h"
#include "lp.h"

struct by_hanger {
  struct by_grower grower;
  struct by_draft draft;
  uint32_t *first, *next, *position; /* ends of the edges by vertex; of each vertex in the draft */
  struct by_arena arena;
};

/* The graph must outlive it. */
BANYAN_CHECK enum banyan_status by_hanger_init(struct by_hanger *hanger, const struct by_graph *graph);
/* Also of one that is all zeros. */
void by_hanger_fini(struct by_hanger *hanger);
/* Adds the tree of these n edges to the list; see by_embed_candidates_add. Cost: vertices. */
BANYAN_CHECK enum banyan_status by_hanger_add(struct by_hanger *hanger, struct by_embed_candidates *list,
                                              const uint32_t *edges, uint32_t n, uint32_t *found);

struct by_embed_master {
  struct by_embed_candidates *list; /* grows by pricing */
  struct by_lp
      *lp; /* a column for each candidate, in bit/s; a row for each resource, whose price is what all of it costs */
  double throughput; /* the sum of the rates of the last solve */
  double *fair;      /* prices that proved the bound, 1 together; nothing is cheaper than throughput / bound at it */
  double *load;      /* working memory */
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
