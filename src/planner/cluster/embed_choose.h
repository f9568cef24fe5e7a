/* The linear program over an embedding's candidates: rates of the largest sum that keep to all capacities; new
 * candidates by its prices; and choosing few of them: the integer program
 *
 *     min theta + penalty * (number of candidates used) + flat * (the highest and widest of them)
 *         + thrift * (how full links between switches get, and the fullest part of the network if nobody else used it)
 *
 * theta being the time with the best weights for those that are used. A ring and trees from rack to rack may be as fast
 * for a job alone; the trees leave more of the uplinks to others. Used by the files of embed.h alone. */
#ifndef BY_PLAN_EMBED_CHOOSE_H
#define BY_PLAN_EMBED_CHOOSE_H

#include "embed.h"
#include "embed_candidate.h"
#include "lp.h"

struct by_embed_master {
  struct by_embed_candidates *list; /* grows by pricing */
  struct by_lp *lp;  /* a column for each candidate, in bit/s; a row for each resource, whose price is for all of it */
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
/* Column generation (Gilmore and Gomory 1961): adds lightest trees under the prices, and under prices between them and
 * the best so far (Wentges 1997), until the rates reach `ratio` of the bound, nothing new helps, or so many rounds are
 * over. *bound: no set of trees of the graph carries more, bit/s. Rates and prices are solved. Cost: two trees and a
 * few pivots a round. */
BANYAN_CHECK enum banyan_status by_embed_master_price(struct by_embed_master *master, double ratio, uint32_t rounds,
                                                      double *bound);

enum { BY_EMBED_MOST_LATER = 64 };

struct by_embed_limits {
  uint32_t most;     /* candidates, >= 1 */
  double least_rate; /* of each, bit/s */
  double penalty;    /* for each, of the least time of any number of them */
};

struct by_embed_pick {
  uint32_t candidate;
  double rate; /* bit/s */
};

struct by_embed_picks {
  uint32_t n;
  struct by_embed_pick *items; /* by rate, largest first */
  double throughput;           /* bit/s */
  double score;                /* what is minimised, in parts of the least time */
};

/* The master must be solved with everything allowed, and is left with what was tried last. Weights in steps of 1/Z, for
 * Z = 1, 2, 4, 8, 16, cannot use more than Z candidates, so that each Z stands for a number of them without a binary
 * variable for each; a local search moves one step at a time, and each result is solved as a linear program over just
 * its candidates. Then single candidates are dropped and exchanged. The caller frees picks->items. BANYAN_ERR_PLAN: no
 * candidate has the least rate. Cost: some hundred small programs, and 16 * 256 * resources a sweep. */
BANYAN_CHECK enum banyan_status by_embed_choose(struct by_embed_master *master, const struct by_embed_limits *limits,
                                                struct by_embed_picks *picks);
/* The same for candidates that have come since, BY_EMBED_MOST_LATER at most, all of that set: alone, with what was
 * picked, and exchanged with it one by one. `best` is what all could before. The picks only get better. */
BANYAN_CHECK enum banyan_status by_embed_choose_more(struct by_embed_master *master,
                                                     const struct by_embed_limits *limits, double best, uint32_t set,
                                                     struct by_embed_picks *picks);
/* What is minimised for n candidates that carry so much together, each its rate; `best` is what all could. */
double by_embed_score(const struct by_embed_candidates *list, const struct by_embed_pick *picks, uint32_t n,
                      double throughput, double best, double penalty);

struct by_embedding {
  struct by_graph *graph;
  struct by_embed_net net; /* its topology is not looked at any more */
  struct by_embed_candidates candidates;
  struct by_embed_picks picks;
  const char **name; /* of each vertex */
  bool *is_switch;   /* of each vertex */
  double bound, any_number;
  struct by_arena arena;
};

#endif
