/* Packs trees by multiplicative weights.
 *
 * Every resource has a load, relative to its capacity, and a price that grows exponentially with it. The lightest tree
 * under the prices gets a rate that raises the load of its narrowest resource by a fraction, the step, of the largest
 * load. At the end, all loads are scaled down together, so that only their evenness matters:
 *
 *   load  ^  ____        ____       full resources are expensive, so trees avoid them and the others catch up;
 *         | |    |__  __|    |      small steps make loads even, large ones are fast and outweigh earlier trees
 *         +--------------------> resources
 *
 * So steps start large. When the largest load has grown fourfold, most of the rate is of this phase, and the step is
 * halved. Garg and Koenemann (1998) keep one step throughout and prove (1 - e) of the optimum after edges * log(edges)
 * / e^2 trees; phases and the bounds below need far fewer trees.
 *
 * Bounds (by_span_certify) result from the prices of every tree; from the running average of prices, which evens out
 * what one step does to equal resources; and from prices that are 1 for loads above a threshold and 0 below. The latter
 * are the partitions of Tutte and Nash-Williams if every edge has one resource. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_make.h"
#include "rates.h"

enum {
  /* The number of trees before the first check for better bounds. Later checks follow after an eighth more each time.
   */
  FIRST_CHECK = 32,
  FIRST_STEINER = 128,    /* FIRST_CHECK for graphs with optional vertices, where bounds cost more. */
  EDGES_IN_ALL = 1 << 26, /* The default limit of trees is this divided by the number of edges. */
  MIN_TREES = 1000,
  MAX_TREES = 40000,
};

static const double first_step = 0.2, last_step = 0x1p-10, growth = 4, default_goal = 0.995;
static const double weight_of_prices = 0.03; /* The weight of one tree's prices in their average. */
static const double min_exponent = 0x1p-6;
static const double too_large = 0x1p300; /* Loads above this are scaled down. */
/* Rates below this part of the sum are dropped, such as those of early trees. */
static const double negligible = 1e-7;
/* A gain is kept if it closes this part of the distance to the goal. */
static const double worth_keeping = 0.1;

struct weights {
  const struct by_graph *graph;
  struct by_span span;
  struct by_pool pool;
  double goal;
  double *load;    /* The load of each resource, relative to its capacity. */
  double *price;   /* The price of each resource at the present load. */
  double *average; /* The running average of the prices, each set scaled to sum 1. */
  /* The sum of all prices of this phase, each set scaled to sum 1 and weighted by the tree's part of the rate. */
  double *phase;
  double *other;   /* Prices from which a bound is computed. */
  uint32_t *times; /* Scratch weight_of_prices, 0 between calls. */
  double *rate;    /* The rate of each tree of the pool. */
  double *kept;    /* The rates when their throughput was highest. */
  uint32_t allocated_rate, allocated_kept;
  uint32_t n_kept;
  double total, largest; /* The sum of the rates, and the largest load. */
  double step, phase_end;
  double exponent;    /* A step multiplies the price of a resource by at most exp(exponent). */
  double best, bound; /* The throughput of the kept rates, and the proven bound. */
};

static enum banyan_status init_weights(struct weights *w) {
  size_t n = w->graph->n_resources;
  BY_TRY(by_span_init(&w->span, w->graph));
  by_pool_init(&w->pool, w->graph);
  struct by_arena *arena = &w->pool.arena;
  w->load = BY_ARENA_ARRAY(arena, double, n);
  w->price = BY_ARENA_ARRAY(arena, double, n);
  w->average = BY_ARENA_ARRAY(arena, double, n);
  w->phase = BY_ARENA_ARRAY(arena, double, n);
  w->other = BY_ARENA_ARRAY(arena, double, n);
  w->times = BY_ARENA_ARRAY(arena, uint32_t, n);
  return arena->failed ? by_plan_no_memory() : BANYAN_OK;
}

/* --- Prices and bounds. --- */

static void set_prices(struct weights *w) {
  double sharpness = w->largest > 0 ? w->exponent / (w->step * w->largest) : 0;
  double narrowest = INFINITY; /* This factor keeps prices near 1. */
  for (uint32_t r = 0; r < w->graph->n_resources; r++) narrowest = fmin(narrowest, w->graph->capacity[r]);
  for (uint32_t r = 0; r < w->graph->n_resources; r++)
    w->price[r] = exp(sharpness * (w->load[r] - w->largest)) * narrowest / w->graph->capacity[r];
}

static double sum_prices(const struct weights *w, const double *price) {
  double sum = 0;
  for (uint32_t r = 0; r < w->graph->n_resources; r++) sum += w->graph->capacity[r] * price[r];
  return sum;
}

static void add_to_average(struct weights *w, double rate) {
  double one = 1 / sum_prices(w, w->price), share = rate / w->total;
  for (uint32_t r = 0; r < w->graph->n_resources; r++) {
    w->average[r] += weight_of_prices * (one * w->price[r] - w->average[r]);
    w->phase[r] += share * one * w->price[r];
  }
}

static void try_bound(struct weights *w, const double *price) {
  w->bound = fmin(w->bound, by_span_certify(&w->span, price, false));
}

static void find_bounds(struct weights *w) {
  const double thresholds[] = {1 - 2 * w->step, 1 - 8 * w->step, 0.9, 0.7, 0.5, 0.2};
  try_bound(w, w->average);
  try_bound(w, w->phase);
  if (w->span.steiner) try_bound(w, w->price);
  for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
    for (uint32_t r = 0; r < w->graph->n_resources; r++) w->other[r] = w->load[r] >= thresholds[i] * w->largest;
    try_bound(w, w->other);
  }
}

/* --- Trees. --- */

/* Returns the rate at which the first of the tree's resources would be full. */
static double get_narrowest(struct weights *w) {
  const struct by_graph *graph = w->graph;
  double min = INFINITY;
  for (uint32_t i = 0; i < w->span.n_tree; i++) {
    const struct by_graph_edge *edge = &graph->edges[w->span.tree[i]];
    for (uint32_t j = 0; j < edge->n; j++) {
      uint32_t r = graph->uses[edge->first + j];
      double max = graph->capacity[r] / ++w->times[r];
      if (max < min) min = max;
    }
  }
  return min;
}

/* Adds the tree's loads, and clears `times`. */
static void add_loads(struct weights *w, double rate) {
  const struct by_graph *graph = w->graph;
  for (uint32_t i = 0; i < w->span.n_tree; i++) {
    const struct by_graph_edge *edge = &graph->edges[w->span.tree[i]];
    for (uint32_t j = 0; j < edge->n; j++) {
      uint32_t r = graph->uses[edge->first + j];
      w->times[r] = 0;
      w->load[r] += rate / graph->capacity[r];
      if (w->load[r] > w->largest) w->largest = w->load[r];
    }
  }
}

static enum banyan_status add_rate(struct weights *w, double rate) {
  uint32_t tree, before = w->pool.n_trees;
  BY_TRY(by_pool_add(&w->pool, w->span.tree, w->span.n_tree, &tree));
  if (!BY_ARRAY_GROW(&w->rate, &w->allocated_rate, w->pool.n_trees) ||
      !BY_ARRAY_GROW(&w->kept, &w->allocated_kept, w->pool.n_trees))
    return by_plan_no_memory();
  if (tree == before) w->rate[tree] = 0;
  w->rate[tree] += rate;
  w->total += rate;
  return BANYAN_OK;
}

static void scale_down(struct weights *w) {
  double by = 1 / w->largest;
  for (uint32_t r = 0; r < w->graph->n_resources; r++) w->load[r] *= by;
  for (uint32_t t = 0; t < w->pool.n_trees; t++) w->rate[t] *= by;
  w->total *= by;
  w->phase_end *= by;
  w->largest = 1;
}

/* Keeps the rates if they are the best so far, since loads are uneven while trees are added over equal resources. */
static void keep_best(struct weights *w) {
  double now = w->total / w->largest;
  if (!(now > w->best * (1 + worth_keeping * (1 - w->goal)))) return;
  w->best = now;
  w->n_kept = w->pool.n_trees;
  for (uint32_t t = 0; t < w->n_kept; t++) w->kept[t] = w->rate[t] > negligible * w->total ? w->rate[t] : 0;
}

/* Adds a tree. The weight of a spanning tree also gives a bound; that of a Steiner tree needs another search. */
static enum banyan_status add_tree(struct weights *w) {
  BY_TRY(by_graph_check_cancelled(w->graph));
  set_prices(w);
  by_span_set_prices(&w->span, w->price);
  double weight = by_span_lightest(&w->span);
  if (!w->span.steiner && weight > 0) w->bound = fmin(w->bound, sum_prices(w, w->price) / weight * (1 + 0x1p-36));
  double rate = get_narrowest(w) * (w->largest > 0 ? w->step * w->largest : 1);
  BY_TRY(add_rate(w, rate));
  add_to_average(w, rate);
  add_loads(w, rate);
  keep_best(w);
  return BANYAN_OK;
}

static void end_phase(struct weights *w) {
  if (w->largest > too_large) scale_down(w);
  if (w->largest < w->phase_end) return;
  try_bound(w, w->phase);
  memset(w->phase, 0, w->graph->n_resources * sizeof *w->phase);
  if (w->step <= last_step)
    w->exponent = fmax(w->exponent / 2, min_exponent);
  else if (w->phase_end > 0)
    w->step = fmax(w->step / 2, last_step);
  w->phase_end = growth * w->largest;
}

static enum banyan_status add_trees(struct weights *w, uint32_t max_trees) {
  uint32_t check = w->span.steiner ? FIRST_STEINER : FIRST_CHECK, min = check;
  for (uint32_t i = 1; i <= max_trees && w->best < w->goal * w->bound; i++) {
    BY_TRY(add_tree(w));
    end_phase(w);
    if (i < check && i < max_trees) continue;
    find_bounds(w);
    check = i + (i / 8 > min ? i / 8 : min);
  }
  find_bounds(w); /* The last prices may prove a better bound. */
  return BANYAN_OK;
}

enum banyan_status by_pack_weights(const struct by_graph *graph, const struct by_weights_options *options,
                                   struct by_packing **out) {
  uint32_t max = (uint32_t)fmin(fmax((double)EDGES_IN_ALL / graph->n_edges, MIN_TREES), MAX_TREES);
  struct weights w = {.graph = graph, .goal = default_goal, .step = first_step, .exponent = 1, .bound = INFINITY};
  if (options && options->max_trees) max = options->max_trees;
  if (options && options->goal > 0) w.goal = options->goal;
  enum banyan_status status = init_weights(&w);
  if (status == BANYAN_OK) status = add_trees(&w, max);
  if (status == BANYAN_OK) {
    for (uint32_t t = w.n_kept; t < w.pool.n_trees; t++) w.kept[t] = 0;
    status = by_packing_make(&w.pool, w.kept, w.bound, out);
  }
  by_span_fini(&w.span);
  by_pool_fini(&w.pool);
  free(w.rate);
  free(w.kept);
  return status;
}
