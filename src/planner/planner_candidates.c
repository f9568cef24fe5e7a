/* The ways to sum that are weighed beside the packed trees: one low tree, rings and other built-ins in a good order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "plan_join.h"
#include "plan_make.h"
#include "plan_order.h"
#include "plan_packed.h"
#include "planner_parts.h"
#include "ring_search.h"

/* Beyond so many searches over so many links only what is near is weighed, and few roots are tried. */
enum { MOST_WORK = 1 << 18, ROOTS_TRIED = 32, MOST_AS_GIVEN = 64 };

struct weighing {
  const struct by_topology *topology;
  const struct by_planner_options *options;
  struct by_planned *planned;
  const struct by_plan *names; /* a plan over the ranks with their names */
  uint32_t n;                  /* ranks */
  uint32_t *order, *other;     /* the good order, and scratch for one made of it */
};

/* --- one low tree --- */

static double no_price(void *context, uint32_t edge) {
  (void)context;
  (void)edge;
  return 0;
}

/* The middle: of some vertices the one whose furthest terminal is nearest. */
static uint32_t find_middle(struct by_grower *grower, uint32_t n, double *reach) {
  uint32_t tried = n < ROOTS_TRIED ? n : ROOTS_TRIED, middle = 0;
  *reach = INFINITY;
  for (uint32_t i = 0; i < tried; i++) {
    uint32_t root = (uint32_t)((uint64_t)i * n / tried);
    double far = by_grower_reach(grower, root);
    if (far >= *reach) continue;
    *reach = far;
    middle = root;
  }
  return middle;
}

static enum banyan_status pack_low_tree(const struct by_graph *graph, bool hops, struct by_packing **out) {
  struct by_grower grower;
  struct by_pool pool;
  struct by_price price = {.of = no_price};
  uint32_t tree;
  double reach, rate = 1;
  *out = NULL;
  BY_TRY(by_grower_init(&grower, graph, hops));
  enum banyan_status status = by_pool_init(&pool, graph);
  if (status == BANYAN_OK) {
    uint32_t middle = find_middle(&grower, graph->n_terminals, &reach);
    if (by_grow(&grower, &price, middle, reach)) {
      status = by_pool_add(&pool, grower.edges, grower.n_edges, &tree);
      if (status == BANYAN_OK) status = by_packing_make(&pool, &rate, INFINITY, out);
    }
    by_pool_fini(&pool);
  }
  by_grower_fini(&grower);
  return status;
}

static enum banyan_status add(struct weighing *w, const char *what, struct by_plan *plan) {
  return by_weighed_add(&w->planned->weighed, what, plan, w->topology, &w->options->rates);
}

static enum banyan_status add_low_tree(struct weighing *w, bool hops, const char *what) {
  const struct by_graph *graph = w->planned->graph;
  struct by_packing *packing;
  struct by_plan *plan;
  BY_TRY(pack_low_tree(graph, hops, &packing));
  if (!packing) return BANYAN_OK;
  packing->bound = packing->throughput;
  enum banyan_status status = by_plan_of_packing("tree", w->topology, graph, packing, !hops, &plan);
  by_packing_destroy(packing);
  return status == BANYAN_OK ? add(w, what, plan) : status;
}

static bool has_delays(const struct by_graph *graph) {
  for (uint32_t e = 0; e < graph->n_edges; e++)
    if (graph->edges[e].delay > 0) return true;
  return false;
}

/* --- built-ins --- */

static enum banyan_status add_builtin(struct weighing *w, const char *name, const uint32_t *order, const char *what) {
  struct by_plan *plan, *ordered;
  BY_TRY(by_plan_builtin(name, w->n, &plan));
  enum banyan_status status = by_plan_reorder(plan, order, w->names, &ordered);
  by_plan_destroy(plan);
  return status == BANYAN_OK ? add(w, what, ordered) : status;
}

static bool is_given(const struct weighing *w) {
  for (uint32_t r = 0; r < w->n; r++)
    if (w->order[r] != r) return false;
  return true;
}

/* In the good order, and where that is another one in the order that the ranks have: what is good for a ring need not
 * be good for all. */
static enum banyan_status add_in_orders(struct weighing *w, const char *name, const char *what) {
  uint32_t before = w->planned->weighed.n;
  char as_given[64];
  BY_TRY(add_builtin(w, name, w->order, what));
  if (w->n > MOST_AS_GIVEN || is_given(w)) return BANYAN_OK;
  for (uint32_t r = 0; r < w->n; r++) w->other[r] = r;
  snprintf(as_given, sizeof as_given, "%s, as given", what);
  BY_TRY(add_builtin(w, name, w->other, as_given));
  if (w->planned->weighed.n == before + 2) by_weighed_drop_slower(&w->planned->weighed);
  return BANYAN_OK;
}

/* In halving the furthest positions exchange most: the bits of positions are turned round, so that these are near. */
static void turn_bits(const struct weighing *w) {
  uint32_t bits = 0;
  while (1u << bits < w->n) bits++;
  for (uint32_t u = 0; u < w->n; u++) {
    uint32_t turned = 0;
    for (uint32_t i = 0; i < bits; i++) turned |= (u >> i & 1) << (bits - 1 - i);
    w->other[turned] = w->order[u];
  }
}

static const char *group_of(const struct weighing *w, uint32_t rank) {
  return w->topology->nodes[w->planned->graph->node[rank]].group;
}

/* Racks one behind the other, in the order of their first host. Returns how many hosts each has; 0: unequal, or one. */
static uint32_t gather_racks(const struct weighing *w) {
  uint32_t placed = 0, of_rack = 0;
  bool *done = calloc(w->n, sizeof *done);
  for (uint32_t i = 0; done && i < w->n; i++) {
    uint32_t begin = placed;
    const char *rack = group_of(w, w->order[i]);
    for (uint32_t k = i; !done[i] && k < w->n; k++)
      if (!done[k] && (k == i || (*rack && strcmp(group_of(w, w->order[k]), rack) == 0))) {
        w->other[placed++] = w->order[k];
        done[k] = k != i;
      }
    if (placed == begin) continue;
    done[i] = true;
    if (of_rack && placed - begin != of_rack) {
      of_rack = 0;
      break;
    }
    of_rack = placed - begin;
  }
  free(done);
  return placed == w->n && of_rack > 1 && of_rack < w->n ? of_rack : 0;
}

static enum banyan_status add_rings(struct weighing *w) {
  char name[32];
  for (uint32_t i = 0; i < w->n; i++) w->other[i] = w->order[i];
  BY_TRY(by_ring_search(w->topology, w->planned->graph, w->other));
  BY_TRY(add_builtin(w, "ring", w->other, "ring"));
  uint32_t of_rack = gather_racks(w);
  if (!of_rack) return BANYAN_OK;
  snprintf(name, sizeof name, "ring2d:%ux%u", of_rack, w->n / of_rack);
  return add_builtin(w, name, w->other, "rings in racks, then across");
}

static enum banyan_status add_few_steps(struct weighing *w) {
  if (w->n <= 256) {
    BY_TRY(add_in_orders(w, "halving", "halving"));
    if ((w->n & (w->n - 1)) == 0 && w->n > 4) {
      turn_bits(w);
      BY_TRY(add_builtin(w, "halving", w->other, "halving, near ones most"));
    }
    BY_TRY(add_in_orders(w, "doubling", "doubling"));
  }
  if (w->n <= 64) BY_TRY(add_builtin(w, "sharded", w->order, "sharded"));
  if (w->n <= 16) BY_TRY(add_in_orders(w, "exchange", "exchange"));
  return BANYAN_OK;
}

static enum banyan_status add_trees_by_position(struct weighing *w) {
  BY_TRY(add_in_orders(w, "tree:2", "tree of two children"));
  BY_TRY(add_in_orders(w, "tree:4", "tree of four children"));
  return add_in_orders(w, "double-tree", "double binary tree");
}

static enum banyan_status add_all(struct weighing *w) {
  const struct by_graph *graph = w->planned->graph;
  bool large = (uint64_t)w->n * graph->n_edges > MOST_WORK;
  BY_TRY(by_plan_order(w->topology, graph, w->options->seed, w->order));
  BY_TRY(add_low_tree(w, true, "one tree of few hops"));
  if (has_delays(graph)) BY_TRY(add_low_tree(w, false, "one tree of little delay"));
  BY_TRY(add_rings(w));
  if (large) return BANYAN_OK;
  BY_TRY(add_trees_by_position(w));
  return add_few_steps(w);
}

enum banyan_status by_planned_add_candidates(struct by_planned *planned, const struct by_topology *topology,
                                             const struct by_planner_options *options) {
  struct weighing w = {.topology = topology, .options = options, .planned = planned};
  w.names = planned->weighed.candidates[0].plan;
  w.n = planned->graph->n_terminals;
  w.order = calloc(2 * (size_t)w.n, sizeof *w.order);
  if (!w.order) return by_plan_no_memory();
  w.other = w.order + w.n;
  enum banyan_status status = add_all(&w);
  free(w.order);
  return status;
}
