/* Packs trees exactly, by column generation (Barahona 1995) that starts with the trees of a few sweeps of slots. */
#include <math.h>

#include "grow.h"
#include "rates.h"

enum { SLOTS = 16, SWEEPS = 7, IDLE_LIMIT = 10 };
static const double min_progress = 1e-3,
                    /* Parts of the bound: the gain of a round that counts as progress, and the throughput that suffices
                     * without progress. */
    good_enough = 0.99;

struct exact {
  const struct by_graph *graph;
  struct by_rates rates;
  struct by_pricing pricing;
};

/* Adds a light tree at the present prices. A better bound keeps these prices. */
static enum banyan_status price_tree(struct exact *x) {
  const struct by_span *span = &x->pricing.span;
  BY_TRY(by_graph_check_cancelled(x->graph));
  double min = by_pricing_find(&x->pricing);
  BY_TRY(by_rates_add(&x->rates, span->tree, span->n_tree, NULL));
  by_pricing_prove(&x->pricing, span->exact ? min : by_span_find_min(&x->pricing.span));
  return BANYAN_OK;
}

/* Computes first trees and prices: a few sweeps of slots come near the optimum. The prices of full resources also prove
 * a bound. */
static enum banyan_status run_sweeps(struct exact *x, struct by_slots *slots) {
  slots->target = fmin(x->pricing.bound, x->rates.lp->unit);
  for (uint32_t i = 1; i <= SWEEPS; i++) {
    slots->steep = 1u << i;
    if (!by_slots_sweep(slots)) return BANYAN_OK;
    for (uint32_t t = 0; t < slots->n; t++)
      BY_TRY(by_rates_add(&x->rates, slots->slots[t].edges, slots->slots[t].n, NULL));
    slots->target = by_slots_throughput(slots);
    by_slots_recount(slots);
    for (uint32_t r = 0; r < x->graph->n_resources; r++)
      x->pricing.price[r] = (exp(slots->steep * (slots->load[r] - 1)) + 1e-9) / x->graph->capacity[r];
    BY_TRY(price_tree(x));
  }
  return BANYAN_OK;
}

static enum banyan_status add_first_trees(struct exact *x) {
  struct by_grower grower;
  struct by_slots slots;
  BY_TRY(by_grower_init(&grower, x->graph, true));
  enum banyan_status status = by_slots_init(&slots, &grower, SLOTS, 1);
  if (status == BANYAN_OK) {
    status = run_sweeps(x, &slots);
    by_slots_fini(&slots);
  }
  by_grower_fini(&grower);
  return status;
}

static enum banyan_status solve_rates(void *context, double *throughput) {
  struct exact *x = context;
  BY_TRY(by_rates_solve(&x->rates));
  *throughput = x->rates.throughput;
  return BANYAN_OK;
}

static enum banyan_status add_columns(void *context, double *bound, bool *added) {
  struct exact *x = context;
  uint32_t before = x->rates.pool.n_trees;
  for (int i = 0; i < 2; i++) {
    by_pricing_mix(&x->pricing, x->rates.lp->price, i == 0);
    BY_TRY(price_tree(x));
  }
  *added = x->rates.pool.n_trees > before;
  *bound = x->pricing.bound;
  return BANYAN_OK;
}

static enum banyan_status pack_exactly(struct exact *x, const struct by_exact_options *o, struct by_packing **out) {
  /* Degenerate programs, such as those of tori, could continue for thousands of rounds without progress. */
  const struct by_lp_rounds rounds = {.ratio = o->ratio,
                                      .max = o->rounds,
                                      .progress = min_progress,
                                      .idle_limit = IDLE_LIMIT,
                                      .good_enough = good_enough,
                                      .solve = solve_rates,
                                      .price = add_columns};
  BY_TRY(by_pricing_init(&x->pricing, x->graph, x->graph->n_resources, false, o->bound));
  BY_TRY(by_rates_init(&x->rates, x->graph));
  for (uint32_t t = 0; o->start && t < o->start->n_trees; t++)
    BY_TRY(by_rates_add(&x->rates, o->start->trees[t].edges, o->start->trees[t].n, NULL));
  for (uint32_t r = 0; r < x->graph->n_resources; r++) x->pricing.price[r] = 1 / x->graph->capacity[r];
  BY_TRY(price_tree(x));
  if (!o->start) BY_TRY(add_first_trees(x));
  BY_TRY(by_lp_generate(&rounds, x, &x->pricing.bound));
  return by_packing_make(&x->rates.pool, x->rates.lp->rate, x->pricing.bound, out);
}

enum banyan_status by_pack_exact(const struct by_graph *graph, const struct by_exact_options *options,
                                 struct by_packing **out) {
  struct exact x = {.graph = graph};
  const struct by_exact_options usual = by_exact_defaults();
  enum banyan_status status = pack_exactly(&x, options ? options : &usual, out);
  by_rates_fini(&x.rates);
  by_span_fini(&x.pricing.span);
  return status;
}
