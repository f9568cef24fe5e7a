/* Column generation over trees (Gilmore and Gomory 1961; for trees, Barahona
 * 1995). The prices of a program swing wildly while few trees are known, so
 * trees are also priced at a point between them and the best prices so far
 * (Wentges 1997), where most of the progress comes from. */
#include "pack_exact.h"

#include <math.h>
#include <stdlib.h>

#include "rates.h"
#include "slots.h"
#include "span.h"

enum { SLOTS = 16, SWEEPS = 7, PATIENCE = 10 };
static const double worth_waiting = 1e-3, good_enough = 0.99; /* of the ratio */

static const double smoothing = 0.7; /* how far towards the best prices */

struct exact {
  const struct by_graph *graph;
  struct by_rates rates;
  struct by_span span;
  double bound;
  double *best; /* prices that proved the bound, worth 1 together */
  double *price;
};

struct by_exact_options by_exact_defaults(void) {
  return (struct by_exact_options){.ratio = 0.9999, .rounds = 2000, .bound = INFINITY};
}

/* What all resources are worth together at prices. */
static double worth(const struct by_graph *graph, const double *price) {
  double sum = 0;
  for (uint32_t r = 0; r < graph->n_resources; r++) sum += graph->capacity[r] * price[r];
  return sum;
}

/* Adds the lightest tree at x->price; *added: it is new. A better bound keeps the prices. */
static enum banyan_status price_tree(struct exact *x, bool *added) {
  uint32_t before = x->rates.pool.n_trees;
  by_span_set_prices(&x->span, x->price);
  double least = by_span_lightest(&x->span), all = worth(x->graph, x->price);
  BY_TRY(by_rates_add(&x->rates, x->span.tree, x->span.n_tree, NULL));
  *added = x->rates.pool.n_trees > before;
  if (!by_span_is_exact(&x->span)) least = by_span_least(&x->span);
  if (!(least > 0) || all / least >= x->bound) return BANYAN_OK;
  x->bound = all / least;
  for (uint32_t r = 0; r < x->graph->n_resources; r++) x->best[r] = x->price[r] / all;
  return BANYAN_OK;
}

/* Trees at the program's prices, and before them at smoothed ones. */
static enum banyan_status price_trees(struct exact *x, bool *added) {
  double all = worth(x->graph, x->rates.lp->price);
  bool smooth;
  for (uint32_t r = 0; r < x->graph->n_resources; r++)
    x->price[r] = smoothing * x->best[r] + (1 - smoothing) * x->rates.lp->price[r] / all;
  BY_TRY(price_tree(x, &smooth));
  for (uint32_t r = 0; r < x->graph->n_resources; r++) x->price[r] = x->rates.lp->price[r] / all;
  BY_TRY(price_tree(x, added));
  *added |= smooth;
  return BANYAN_OK;
}

/* Prices of what is full when the slots have settled, which prove a bound too. */
static void price_loads(struct exact *x, const struct by_slots *slots) {
  for (uint32_t r = 0; r < x->graph->n_resources; r++)
    x->price[r] = (exp(slots->steep * (slots->load[r] - 1)) + 1e-9) / x->graph->capacity[r];
}

/* Trees and prices to begin with: a few sweeps of slots come near the optimum. */
static enum banyan_status sweep(struct exact *x, struct by_slots *slots) {
  bool added;
  slots->target = fmin(x->bound, x->rates.lp->unit);
  for (uint32_t i = 1; i <= SWEEPS; i++) {
    slots->steep = 1u << i;
    if (!by_slots_sweep(slots)) return BANYAN_OK;
    for (uint32_t t = 0; t < slots->n; t++)
      BY_TRY(by_rates_add(&x->rates, slots->slots[t].edges, slots->slots[t].n, NULL));
    slots->target = by_slots_throughput(slots);
    by_slots_recount(slots);
    price_loads(x, slots);
    BY_TRY(price_tree(x, &added));
  }
  return BANYAN_OK;
}

static enum banyan_status warm_up(struct exact *x) {
  struct by_grower grower;
  struct by_slots slots;
  BY_TRY(by_grower_init(&grower, x->graph, true));
  enum banyan_status status = by_slots_init(&slots, &grower, SLOTS, 1);
  if (status == BANYAN_OK) {
    status = sweep(x, &slots);
    by_slots_fini(&slots);
  }
  by_grower_fini(&grower);
  return status;
}

static enum banyan_status begin(struct exact *x, const struct by_packing *start) {
  bool added;
  for (uint32_t t = 0; start && t < start->n_trees; t++)
    BY_TRY(by_rates_add(&x->rates, start->trees[t].edges, start->trees[t].n, NULL));
  for (uint32_t r = 0; r < x->graph->n_resources; r++) {
    x->price[r] = 1 / x->graph->capacity[r];
    x->best[r] = x->price[r] / x->graph->n_resources;
  }
  BY_TRY(price_tree(x, &added));
  return start ? BANYAN_OK : warm_up(x);
}

/* Degenerate programs, of tori for instance, can go on for thousands of rounds without getting better. */
static bool stalls(const struct exact *x, double *before, uint32_t *idle) {
  double ratio = x->rates.throughput / x->bound;
  *idle = ratio > *before + worth_waiting ? 0 : *idle + 1;
  if (*idle == 0) *before = ratio;
  return *idle >= PATIENCE && ratio >= good_enough;
}

static enum banyan_status generate(struct exact *x, const struct by_exact_options *o) {
  double before = 0;
  uint32_t idle = 0;
  for (uint32_t round = 0; round < o->rounds; round++) {
    bool added;
    BY_TRY(by_rates_solve(&x->rates));
    if (x->rates.throughput >= o->ratio * x->bound || stalls(x, &before, &idle)) return BANYAN_OK;
    BY_TRY(price_trees(x, &added));
    if (!added) return BANYAN_OK; /* no tree is worth more than it costs */
  }
  return BANYAN_OK;
}

static enum banyan_status run(struct exact *x, const struct by_exact_options *o, struct by_packing **out) {
  BY_TRY(by_span_init(&x->span, x->graph));
  BY_TRY(by_rates_init(&x->rates, x->graph));
  BY_TRY(begin(x, o->start));
  BY_TRY(generate(x, o));
  return by_rates_packing(&x->rates, x->bound, out);
}

enum banyan_status by_pack_exact(const struct by_graph *graph, const struct by_exact_options *options,
                                 struct by_packing **out) {
  struct exact x = {.graph = graph, .bound = options->bound};
  x.best = calloc(graph->n_resources, sizeof *x.best);
  x.price = calloc(graph->n_resources, sizeof *x.price);
  enum banyan_status status = BANYAN_OK;
  if (!x.best || !x.price)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the prices of %u links", graph->n_resources);
  if (status == BANYAN_OK) status = run(&x, options, out);
  by_rates_fini(&x.rates);
  by_span_fini(&x.span);
  free(x.best);
  free(x.price);
  return status;
}
