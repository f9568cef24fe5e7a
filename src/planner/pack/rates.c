#include "rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 16 };
static const double least_part = 1e-9; /* of the unit: what is less is the solver's rounding */

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

static enum banyan_status take_arrays(struct by_rates *rates, uint32_t n_resources) {
  rates->price = calloc(n_resources, sizeof *rates->price);
  rates->load = calloc(n_resources, sizeof *rates->load);
  rates->values = calloc(n_resources, sizeof *rates->values);
  rates->rows = calloc(n_resources, sizeof *rates->rows);
  return rates->price && rates->load && rates->values && rates->rows ? BANYAN_OK : no_memory();
}

enum banyan_status by_rates_init(struct by_rates *rates, const struct by_graph *graph) {
  *rates = (struct by_rates){.unit = unit_of(graph)};
  enum banyan_status status = by_pool_init(&rates->pool, graph);
  if (status == BANYAN_OK) status = take_arrays(rates, graph->n_resources);
  if (status == BANYAN_OK) {
    for (uint32_t r = 0; r < graph->n_resources; r++) rates->values[r] = graph->capacity[r] / rates->unit;
    status = by_lp_create(graph->n_resources, rates->values, &rates->lp);
  }
  if (status != BANYAN_OK) by_rates_fini(rates);
  return status;
}

void by_rates_fini(struct by_rates *rates) {
  by_lp_destroy(rates->lp);
  by_pool_fini(&rates->pool);
  free(rates->rate);
  free(rates->out);
  free(rates->price);
  free(rates->load);
  free(rates->values);
  free(rates->rows);
  *rates = (struct by_rates){0};
}

/* Adds what a tree at this rate loads. */
static void add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load) {
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) load[graph->uses[edge->first + j]] += rate;
  }
}

static enum banyan_status add_column(struct by_rates *rates, const uint32_t *edges, uint32_t n) {
  const struct by_graph *graph = rates->pool.graph;
  uint32_t n_rows = 0;
  memset(rates->load, 0, graph->n_resources * sizeof *rates->load);
  add_load(graph, edges, n, 1, rates->load);
  for (uint32_t r = 0; r < graph->n_resources; r++) {
    if (rates->load[r] == 0) continue;
    rates->rows[n_rows] = r;
    rates->values[n_rows++] = rates->load[r];
  }
  return by_lp_add(rates->lp, 1, n_rows, rates->rows, rates->values);
}

static enum banyan_status make_room(struct by_rates *rates) {
  if (rates->pool.n_trees < rates->room) return BANYAN_OK;
  size_t room = rates->room ? 2 * rates->room : FIRST_ROOM;
  double *rate = realloc(rates->rate, room * sizeof *rate);
  if (rate) rates->rate = rate;
  bool *out = realloc(rates->out, room * sizeof *out);
  if (out) rates->out = out;
  if (!rate || !out) return no_memory();
  rates->room = room;
  return BANYAN_OK;
}

enum banyan_status by_rates_add(struct by_rates *rates, const uint32_t *edges, uint32_t n, uint32_t *index) {
  uint32_t before = rates->pool.n_trees, tree;
  BY_TRY(make_room(rates));
  BY_TRY(by_pool_add(&rates->pool, edges, n, &tree));
  if (tree == before) {
    rates->rate[tree] = 0;
    BY_TRY(add_column(rates, edges, n));
  } else {
    by_lp_allow(rates->lp, tree, true);
  }
  rates->out[tree] = false;
  if (index) *index = tree;
  return BANYAN_OK;
}

/* How far the fullest resource is beyond its capacity, as a factor >= 1. */
static double excess(struct by_rates *rates) {
  const struct by_graph *graph = rates->pool.graph;
  double most = 1;
  memset(rates->load, 0, graph->n_resources * sizeof *rates->load);
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (rates->rate[t] > 0)
      add_load(graph, by_pool_edges(&rates->pool, t), by_pool_size(&rates->pool, t), rates->rate[t], rates->load);
  for (uint32_t r = 0; r < graph->n_resources; r++) most = fmax(most, rates->load[r] / graph->capacity[r]);
  return most;
}

static void read_rates(struct by_rates *rates) {
  const double *values = by_lp_values(rates->lp), *duals = by_lp_duals(rates->lp);
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    rates->rate[t] = values[t] > least_part && !rates->out[t] ? values[t] * rates->unit : 0;
  for (uint32_t r = 0; r < rates->pool.graph->n_resources; r++) rates->price[r] = fmax(duals[r], 0);
  double most = excess(rates);
  rates->throughput = 0;
  for (uint32_t t = 0; t < rates->pool.n_trees; t++) rates->throughput += rates->rate[t] /= most;
}

enum banyan_status by_rates_solve(struct by_rates *rates) {
  if (!rates->pool.n_trees) return BANYAN_OK;
  BY_TRY(by_lp_solve(rates->lp));
  read_rates(rates);
  return BANYAN_OK;
}

static void drop(struct by_rates *rates, uint32_t tree) {
  rates->out[tree] = true;
  rates->rate[tree] = 0;
  by_lp_allow(rates->lp, tree, false);
}

static uint32_t smallest(const struct by_rates *rates) {
  uint32_t found = UINT32_MAX;
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (rates->rate[t] > 0 && (found == UINT32_MAX || rates->rate[t] < rates->rate[found])) found = t;
  return found;
}

static uint32_t count_used(const struct by_rates *rates) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < rates->pool.n_trees; t++) n += rates->rate[t] > 0;
  return n;
}

/* Drops what has no rate, and the n smallest of the others. */
static void drop_smallest(struct by_rates *rates, uint32_t n) {
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (!rates->out[t] && rates->rate[t] == 0) drop(rates, t);
  for (; n > 0; n--) drop(rates, smallest(rates));
}

enum banyan_status by_rates_keep(struct by_rates *rates, uint32_t most, double least) {
  for (;;) {
    BY_TRY(by_rates_solve(rates));
    uint32_t n = count_used(rates);
    uint32_t too_many = most && n > most ? n - most : 0;
    if (!too_many && n > 0 && rates->rate[smallest(rates)] < least) too_many = 1;
    if (!too_many) return BANYAN_OK;
    drop_smallest(rates, (too_many + 7) / 8); /* a part of them: those that stay will take more */
  }
}

enum banyan_status by_rates_packing(const struct by_rates *rates, double bound, struct by_packing **out) {
  if (!(rates->throughput > 0)) return by_fail(BANYAN_ERR_PLAN, "no tree has a rate");
  return by_packing_make(&rates->pool, rates->rate, bound, out);
}
