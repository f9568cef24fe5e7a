#include "packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "leader.h"
#include "rates.h"

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the trees that are packed");
  return BANYAN_ERR_NO_MEMORY;
}

#define bad(...) by_fail(BANYAN_ERR_PLAN, __VA_ARGS__)

static const double slack = 1e-9;       /* of the check, relative */
static const double full = 1 - 0x1p-40; /* how full the worst resource is made: rounding must not push it over */

void by_packing_destroy(struct by_packing *packing) {
  if (!packing) return;
  by_arena_fini(&packing->arena);
  free(packing);
}

/* --- make --- */

void by_graph_add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load) {
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) load[graph->uses[edge->first + j]] += rate;
  }
}

/* What rates must be multiplied by. */
static enum banyan_status find_scale(const struct by_pool *pool, const double *rate, double *out) {
  const struct by_graph *graph = pool->graph;
  double *load = calloc(graph->n_resources, sizeof *load), worst = 0;
  if (!load) return no_memory();
  for (uint32_t t = 0; t < pool->n_trees; t++)
    if (rate[t] > 0) by_graph_add_load(graph, pool->trees[t]->edges, pool->trees[t]->n, rate[t], load);
  for (uint32_t r = 0; r < graph->n_resources; r++) worst = fmax(worst, load[r] / graph->capacity[r]);
  free(load);
  *out = full / worst;
  return worst > 0 && isfinite(*out) ? BANYAN_OK : bad("no tree of the packing has a rate");
}

static int compare_rates(const void *a, const void *b) {
  const struct by_packed *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return (x->edges > y->edges) - (x->edges < y->edges); /* in one array, in the pool's order */
}

static enum banyan_status fill(const struct by_pool *pool, const double *rate, double scale,
                               struct by_packing *packing) {
  size_t n_edges = 0;
  uint32_t n = 0;
  for (uint32_t t = 0; t < pool->n_trees; t++)
    if (rate[t] > 0) n++, n_edges += pool->trees[t]->n;
  uint32_t *edges = BY_ARENA_ARRAY(&packing->arena, uint32_t, n_edges);
  packing->trees = BY_ARENA_ARRAY(&packing->arena, struct by_packed, n);
  if (packing->arena.failed) return no_memory();
  for (uint32_t t = 0; t < pool->n_trees; t++) {
    uint32_t size = pool->trees[t]->n;
    if (!(rate[t] > 0)) continue;
    memcpy(edges, pool->trees[t]->edges, size * sizeof *edges);
    packing->trees[packing->n_trees++] = (struct by_packed){.n = size, .edges = edges, .rate = rate[t] * scale};
    edges += size;
  }
  qsort(packing->trees, n, sizeof *packing->trees, compare_rates);
  for (uint32_t i = 0; i < n; i++) packing->throughput += packing->trees[i].rate;
  return BANYAN_OK;
}

enum banyan_status by_packing_make(const struct by_pool *pool, const double *rate, double bound,
                                   struct by_packing **out) {
  double scale;
  BY_TRY(find_scale(pool, rate, &scale));
  struct by_packing *packing = calloc(1, sizeof *packing);
  if (!packing) return no_memory();
  by_arena_init(&packing->arena);
  enum banyan_status status = fill(pool, rate, scale, packing);
  if (status != BANYAN_OK) {
    by_packing_destroy(packing);
    return status;
  }
  packing->bound = bound;
  packing->limit = INFINITY;
  *out = packing;
  return BANYAN_OK;
}

/* --- check --- */

struct check {
  const struct by_graph *graph;
  uint32_t *above; /* of each vertex: towards the leader of its part */
  bool *touched;
  double *load;
};

static enum banyan_status join(struct check *check, uint32_t tree, uint32_t e) {
  const struct by_graph_edge *edge = &check->graph->edges[e];
  uint32_t a = by_leader(check->above, edge->a), b = by_leader(check->above, edge->b);
  if (a == b) return bad("packed tree %u: its edge %u closes a cycle", tree, e);
  check->above[a] = b;
  check->touched[edge->a] = check->touched[edge->b] = true;
  return BANYAN_OK;
}

static enum banyan_status check_tree(struct check *check, uint32_t t, const struct by_packed *tree) {
  const struct by_graph *graph = check->graph;
  for (uint32_t v = 0; v < graph->n_vertices; v++) {
    check->above[v] = v;
    check->touched[v] = v < graph->n_terminals;
  }
  for (uint32_t i = 0; i < tree->n; i++) {
    if (tree->edges[i] >= graph->n_edges || (i > 0 && tree->edges[i] <= tree->edges[i - 1]))
      return bad("packed tree %u: edge %u of %u is out of order or not in the graph", t, tree->edges[i],
                 graph->n_edges);
    BY_TRY(join(check, t, tree->edges[i]));
  }
  for (uint32_t v = 1; v < graph->n_vertices; v++)
    if (check->touched[v] && by_leader(check->above, v) != by_leader(check->above, 0))
      return bad("packed tree %u does not join vertex %u to the others", t, v);
  if (!(tree->rate > 0) || !isfinite(tree->rate)) return bad("packed tree %u has a rate of %g", t, tree->rate);
  by_graph_add_load(graph, tree->edges, tree->n, tree->rate, check->load);
  return BANYAN_OK;
}

static enum banyan_status check_packing(struct check *check, const struct by_packing *packing) {
  const struct by_graph *graph = check->graph;
  double sum = 0;
  for (uint32_t t = 0; t < packing->n_trees; t++) {
    BY_TRY(check_tree(check, t, &packing->trees[t]));
    sum += packing->trees[t].rate;
    if (t > 0 && packing->trees[t].rate > packing->trees[t - 1].rate)
      return bad("packed tree %u carries more than the one before it", t);
  }
  for (uint32_t r = 0; r < graph->n_resources; r++)
    if (check->load[r] > graph->capacity[r] * (1 + slack))
      return bad("resource %u of the graph carries %.15g bit/s of %.15g", r, check->load[r], graph->capacity[r]);
  if (!(fabs(packing->throughput - sum) <= slack * sum))
    return bad("the packing says %.15g bit/s, and its trees carry %.15g", packing->throughput, sum);
  if (!(packing->throughput <= packing->bound * (1 + slack)))
    return bad("the packing carries %.15g bit/s, above its bound of %.15g", packing->throughput, packing->bound);
  return BANYAN_OK;
}

enum banyan_status by_packing_check(const struct by_graph *graph, const struct by_packing *packing) {
  struct by_arena arena;
  by_arena_init(&arena);
  struct check check = {.graph = graph,
                        .above = BY_ARENA_ARRAY(&arena, uint32_t, graph->n_vertices),
                        .touched = BY_ARENA_ARRAY(&arena, bool, graph->n_vertices),
                        .load = BY_ARENA_ARRAY(&arena, double, graph->n_resources)};
  enum banyan_status status = arena.failed ? no_memory() : check_packing(&check, packing);
  by_arena_fini(&arena);
  return status;
}

enum banyan_status by_packing_height(const struct by_graph *graph, const struct by_packing *packing, bool hops,
                                     double *height) {
  struct by_grower grower;
  *height = 0;
  BY_TRY(by_grower_init(&grower, graph, hops));
  for (uint32_t t = 0; t < packing->n_trees; t++) {
    uint32_t root;
    double of_tree;
    by_tree_centre(&grower, packing->trees[t].edges, packing->trees[t].n, &root, &of_tree);
    *height = fmax(*height, of_tree);
  }
  by_grower_fini(&grower);
  return BANYAN_OK;
}

/* --- one low tree --- */

enum { ROOTS_TRIED = 32 };

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

enum banyan_status by_pack_low(const struct by_graph *graph, bool hops, struct by_packing **out) {
  struct by_grower grower;
  struct by_pool pool;
  uint32_t tree;
  double reach, rate = 1;
  *out = NULL;
  BY_TRY(by_grower_init(&grower, graph, hops));
  by_pool_init(&pool, graph);
  uint32_t middle = find_middle(&grower, graph->n_terminals, &reach);
  enum banyan_status status = BANYAN_OK;
  if (by_grow(&grower, &(struct by_price){.of = no_price}, middle, reach)) {
    status = by_pool_add(&pool, grower.edges, grower.n_edges, &tree);
    if (status == BANYAN_OK) status = by_packing_make(&pool, &rate, INFINITY, out);
  }
  by_pool_fini(&pool);
  by_grower_fini(&grower);
  return status;
}
