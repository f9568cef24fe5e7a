#include "rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The error for memory that is out. */
static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the trees that are packed");
  return BANYAN_ERR_NO_MEMORY;
}

/* --- the trees --- */

void by_pool_init(struct by_pool *pool, const struct by_graph *graph) {
  *pool = (struct by_pool){.graph = graph};
}

void by_pool_fini(struct by_pool *pool) {
  HASH_CLEAR(hh, pool->table);
  free(pool->trees);
  by_arena_fini(&pool->arena);
  *pool = (struct by_pool){0};
}

enum banyan_status by_pool_add(struct by_pool *pool, const uint32_t *edges, uint32_t n, uint32_t *out) {
  struct by_pool_tree *tree;
  HASH_FIND(hh, pool->table, edges, n * sizeof *edges, tree);
  if (!tree) {
    tree = BY_ARENA_NEW(&pool->arena, struct by_pool_tree);
    uint32_t *copy = BY_ARENA_ARRAY(&pool->arena, uint32_t, n);
    if (pool->arena.failed || !BY_ARRAY_GROW(&pool->trees, &pool->room, pool->n_trees + 1)) return no_memory();
    memcpy(copy, edges, n * sizeof *edges);
    *tree = (struct by_pool_tree){.number = pool->n_trees, .n = n, .edges = copy};
    HASH_ADD_KEYPTR(hh, pool->table, tree->edges, n * sizeof *edges, tree);
    if (!tree->hh.tbl) return no_memory();
    pool->trees[pool->n_trees++] = tree;
  }
  *out = tree->number;
  return BANYAN_OK;
}

/* --- the program --- */

/* What no tree exceeds, near what all together do: the least that a terminal's edges carry. */
static double unit_of(const struct by_graph *graph) {
  double least = INFINITY;
  for (uint32_t v = 0; v < graph->n_terminals; v++) {
    double sum = 0;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++)
      sum += graph->capacity[graph->uses[graph->edges[graph->incident[i]].first]];
    if (sum < least) least = sum;
  }
  return isfinite(least) && least > 0 ? least : 1;
}

enum banyan_status by_rates_init(struct by_rates *rates, const struct by_graph *graph) {
  double unit = unit_of(graph);
  *rates = (struct by_rates){0};
  by_pool_init(&rates->pool, graph);
  rates->load = calloc(graph->n_resources, sizeof *rates->load);
  if (!rates->load) return no_memory();
  for (uint32_t r = 0; r < graph->n_resources; r++) rates->load[r] = graph->capacity[r] / unit;
  enum banyan_status status = by_lp_create(graph->n_resources, rates->load, unit, &rates->lp);
  if (status != BANYAN_OK) by_rates_fini(rates);
  return status;
}

void by_rates_fini(struct by_rates *rates) {
  by_lp_destroy(rates->lp);
  by_pool_fini(&rates->pool);
  free(rates->load);
  *rates = (struct by_rates){0};
}

enum banyan_status by_rates_add(struct by_rates *rates, const uint32_t *edges, uint32_t n, uint32_t *index) {
  const struct by_graph *graph = rates->pool.graph;
  uint32_t before = rates->pool.n_trees, tree;
  BY_TRY(by_pool_add(&rates->pool, edges, n, &tree));
  if (index) *index = tree;
  if (tree < before) {
    by_lp_allow(rates->lp, tree, true);
    return BANYAN_OK;
  }
  memset(rates->load, 0, graph->n_resources * sizeof *rates->load);
  by_graph_add_load(graph, edges, n, 1, rates->load);
  return by_lp_add(rates->lp, 1, rates->load);
}

/* How far the fullest resource is beyond its capacity, as a factor >= 1. */
static double excess(struct by_rates *rates) {
  const struct by_graph *graph = rates->pool.graph;
  double most = 1;
  memset(rates->load, 0, graph->n_resources * sizeof *rates->load);
  for (uint32_t t = 0; t < rates->pool.n_trees; t++) {
    const struct by_pool_tree *tree = rates->pool.trees[t];
    if (rates->lp->rate[t] > 0) by_graph_add_load(graph, tree->edges, tree->n, rates->lp->rate[t], rates->load);
  }
  for (uint32_t r = 0; r < graph->n_resources; r++) most = fmax(most, rates->load[r] / graph->capacity[r]);
  return most;
}

enum banyan_status by_rates_solve(struct by_rates *rates) {
  if (!rates->pool.n_trees) return BANYAN_OK;
  BY_TRY(by_lp_solve(rates->lp));
  rates->throughput = by_lp_scale(rates->lp, excess(rates));
  return BANYAN_OK;
}

static uint32_t smallest(const struct by_rates *rates) {
  uint32_t found = UINT32_MAX;
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (rates->lp->rate[t] > 0 && (found == UINT32_MAX || rates->lp->rate[t] < rates->lp->rate[found])) found = t;
  return found;
}

enum banyan_status by_rates_keep(struct by_rates *rates, uint32_t most, double least) {
  for (;;) {
    BY_TRY(by_rates_solve(rates));
    uint32_t n = 0;
    for (uint32_t t = 0; t < rates->pool.n_trees; t++) n += rates->lp->rate[t] > 0;
    uint32_t too_many = most && n > most ? n - most : 0;
    if (!too_many && n > 0 && rates->lp->rate[smallest(rates)] < least) too_many = 1;
    if (!too_many) return BANYAN_OK;
    for (uint32_t t = 0; t < rates->pool.n_trees; t++)
      if (rates->lp->rate[t] == 0) by_lp_allow(rates->lp, t, false);
    /* A part of them: those that stay will take more. */
    for (uint32_t i = (too_many + 7) / 8; i > 0; i--) by_lp_allow(rates->lp, smallest(rates), false);
  }
}

enum banyan_status by_rates_packing(const struct by_rates *rates, double bound, struct by_packing **out) {
  if (!(rates->throughput > 0)) return by_fail(BANYAN_ERR_PLAN, "no tree has a rate");
  return by_packing_make(&rates->pool, rates->lp->rate, bound, out);
}

/* --- prices --- */

static const double smoothing = 0.7; /* how far towards the best prices */

/* What all resources are worth together. */
static double worth(const struct by_pricing *pricing, const double *price) {
  double sum = 0;
  for (uint32_t r = 0; r < pricing->graph->n_resources; r++)
    sum += pricing->in_parts ? price[r] : pricing->graph->capacity[r] * price[r];
  return sum;
}

enum banyan_status by_pricing_init(struct by_pricing *pricing, const struct by_graph *graph, bool in_parts,
                                   double bound) {
  *pricing = (struct by_pricing){.graph = graph, .in_parts = in_parts, .bound = bound};
  BY_TRY(by_span_init(&pricing->span, graph));
  pricing->best = BY_ARENA_ARRAY(&pricing->span.arena, double, graph->n_resources);
  pricing->price = BY_ARENA_ARRAY(&pricing->span.arena, double, graph->n_resources);
  if (!pricing->best || !pricing->price) return no_memory();
  for (uint32_t r = 0; r < graph->n_resources; r++)
    pricing->best[r] = (in_parts ? 1.0 : 1 / graph->capacity[r]) / graph->n_resources;
  return BANYAN_OK;
}

void by_pricing_mix(struct by_pricing *pricing, const double *price, bool near_best) {
  const struct by_graph *graph = pricing->graph;
  double all = worth(pricing, price), part = near_best ? smoothing : 0;
  for (uint32_t r = 0; r < graph->n_resources; r++) {
    double mixed = part * pricing->best[r] + (1 - part) * price[r] / all;
    pricing->price[r] = pricing->in_parts ? mixed / graph->capacity[r] : mixed;
  }
}

double by_pricing_find(struct by_pricing *pricing) {
  by_span_set_prices(&pricing->span, pricing->price);
  return by_span_lightest(&pricing->span);
}

void by_pricing_prove(struct by_pricing *pricing, double least) {
  const struct by_graph *graph = pricing->graph;
  double all = pricing->in_parts ? 1 : worth(pricing, pricing->price);
  if (!(least > 0) || all / least >= pricing->bound) return;
  pricing->bound = all / least;
  for (uint32_t r = 0; r < graph->n_resources; r++)
    pricing->best[r] = pricing->in_parts ? pricing->price[r] * graph->capacity[r] : pricing->price[r] / all;
}
