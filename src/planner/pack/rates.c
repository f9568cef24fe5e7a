#include "rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the rates of trees");
  return BANYAN_ERR_NO_MEMORY;
}

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
  enum banyan_status status = by_pool_init(&rates->pool, graph);
  rates->load = calloc(graph->n_resources, sizeof *rates->load);
  if (status == BANYAN_OK && !rates->load) status = no_memory();
  if (status == BANYAN_OK) {
    for (uint32_t r = 0; r < graph->n_resources; r++) rates->load[r] = graph->capacity[r] / unit;
    status = by_lp_create(graph->n_resources, rates->load, unit, &rates->lp);
  }
  if (status != BANYAN_OK) by_rates_fini(rates);
  return status;
}

void by_rates_fini(struct by_rates *rates) {
  by_lp_destroy(rates->lp);
  by_pool_fini(&rates->pool);
  free(rates->load);
  *rates = (struct by_rates){0};
}

/* Adds what a tree at this rate loads. */
static void add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load) {
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) load[graph->uses[edge->first + j]] += rate;
  }
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
  add_load(graph, edges, n, 1, rates->load);
  return by_lp_add(rates->lp, 1, rates->load);
}

/* How far the fullest resource is beyond its capacity, as a factor >= 1. */
static double excess(struct by_rates *rates) {
  const struct by_graph *graph = rates->pool.graph;
  double most = 1;
  memset(rates->load, 0, graph->n_resources * sizeof *rates->load);
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (rates->lp->rate[t] > 0)
      add_load(graph, by_pool_edges(&rates->pool, t), by_pool_size(&rates->pool, t), rates->lp->rate[t], rates->load);
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

static uint32_t count_used(const struct by_rates *rates) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < rates->pool.n_trees; t++) n += rates->lp->rate[t] > 0;
  return n;
}

/* Drops what has no rate, and the n smallest of the others. */
static void drop_smallest(struct by_rates *rates, uint32_t n) {
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (rates->lp->rate[t] == 0) by_lp_allow(rates->lp, t, false);
  for (; n > 0; n--) by_lp_allow(rates->lp, smallest(rates), false);
}

enum banyan_status by_rates_keep(struct by_rates *rates, uint32_t most, double least) {
  for (;;) {
    BY_TRY(by_rates_solve(rates));
    uint32_t n = count_used(rates);
    uint32_t too_many = most && n > most ? n - most : 0;
    if (!too_many && n > 0 && rates->lp->rate[smallest(rates)] < least) too_many = 1;
    if (!too_many) return BANYAN_OK;
    drop_smallest(rates, (too_many + 7) / 8); /* a part of them: those that stay will take more */
  }
}

enum banyan_status by_rates_packing(const struct by_rates *rates, double bound, struct by_packing **out) {
  if (!(rates->throughput > 0)) return by_fail(BANYAN_ERR_PLAN, "no tree has a rate");
  return by_packing_make(&rates->pool, rates->lp->rate, bound, out);
}
