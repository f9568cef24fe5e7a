/* Manages pools of trees, their linear program and its prices, and makes packings and plans of them. */
#include "packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "plan_make.h"
#include "rates.h"
#include "topology.h"

/* The load of the fullest resource. It is slightly below 1, so that rounding does not exceed the capacity. */
static const double full = 1 - 0x1p-40;

void by_packing_destroy(struct by_packing *packing) {
  if (!packing) return;
  by_arena_fini(&packing->arena);
  free(packing);
}

/* --- Trees. --- */

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
    if (pool->arena.failed || !BY_ARRAY_GROW(&pool->trees, &pool->allocated, pool->n_trees + 1))
      return by_plan_no_memory();
    memcpy(copy, edges, n * sizeof *edges);
    *tree = (struct by_pool_tree){.number = pool->n_trees, .n = n, .edges = copy};
    HASH_ADD_KEYPTR(hh, pool->table, tree->edges, n * sizeof *edges, tree);
    if (!tree->hh.tbl) return by_plan_no_memory();
    pool->trees[pool->n_trees++] = tree;
  }
  *out = tree->number;
  return BANYAN_OK;
}

/* --- Packings. --- */

void by_graph_add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load) {
  for (uint32_t i = 0; i < n; i++) {
    const struct by_graph_edge *edge = &graph->edges[edges[i]];
    for (uint32_t j = 0; j < edge->n; j++) load[graph->uses[edge->first + j]] += rate;
  }
}

/* Returns the largest load of a resource as a part of its capacity. Uses load[] as scratch memory. */
static double get_max_load(const struct by_pool *pool, const double *rate, double *load) {
  const struct by_graph *graph = pool->graph;
  double max = 0;
  memset(load, 0, graph->n_resources * sizeof *load);
  for (uint32_t t = 0; t < pool->n_trees; t++)
    if (rate[t] > 0) by_graph_add_load(graph, pool->trees[t]->edges, pool->trees[t]->n, rate[t], load);
  for (uint32_t r = 0; r < graph->n_resources; r++) max = fmax(max, load[r] / graph->capacity[r]);
  return max;
}

static int compare_rates(const void *a, const void *b) {
  const struct by_packed *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  return (x->edges > y->edges) - (x->edges < y->edges); /* The edges are in one array, in the pool's order. */
}

static enum banyan_status fill_packing(const struct by_pool *pool, const double *rate, struct by_packing *packing) {
  double *load = BY_ARENA_ARRAY(&packing->arena, double, pool->graph->n_resources);
  size_t n_edges = 0;
  uint32_t n = 0;
  for (uint32_t t = 0; t < pool->n_trees; t++)
    if (rate[t] > 0) n++, n_edges += pool->trees[t]->n;
  uint32_t *edges = BY_ARENA_ARRAY(&packing->arena, uint32_t, n_edges);
  packing->trees = BY_ARENA_ARRAY(&packing->arena, struct by_packed, n);
  if (packing->arena.failed) return by_plan_no_memory();
  double scale = full / get_max_load(pool, rate, load);
  if (!(scale > 0) || isinf(scale)) return by_fail(BANYAN_ERR_PLAN, "no tree of the packing has a rate");
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
  struct by_packing *packing = calloc(1, sizeof *packing);
  enum banyan_status status = packing ? fill_packing(pool, rate, packing) : by_plan_no_memory();
  if (status != BANYAN_OK) {
    by_packing_destroy(packing);
    return status;
  }
  packing->bound = bound;
  packing->limit = INFINITY;
  *out = packing;
  return BANYAN_OK;
}

/* --- The linear program. --- */

/* Returns the smallest sum of capacities in bit/s at a terminal: an upper bound of a tree's rate that is near the rate
 * of all trees. */
static double get_unit(const struct by_graph *graph) {
  double min = INFINITY;
  for (uint32_t v = 0; v < graph->n_terminals; v++) {
    double sum = 0;
    for (uint32_t i = graph->edge_at[v]; i < graph->edge_at[v + 1]; i++)
      sum += graph->capacity[graph->uses[graph->edges[graph->incident[i]].first]];
    if (sum < min) min = sum;
  }
  return isfinite(min) && min > 0 ? min : 1;
}

enum banyan_status by_rates_init(struct by_rates *rates, const struct by_graph *graph) {
  double unit = get_unit(graph);
  *rates = (struct by_rates){0};
  by_pool_init(&rates->pool, graph);
  rates->load = calloc(graph->n_resources, sizeof *rates->load);
  if (!rates->load) return by_plan_no_memory();
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

enum banyan_status by_rates_solve(struct by_rates *rates) {
  if (!rates->pool.n_trees) return BANYAN_OK;
  BY_TRY(by_lp_solve(rates->lp));
  rates->throughput = by_lp_scale(rates->lp, fmax(1, get_max_load(&rates->pool, rates->lp->rate, rates->load)));
  return BANYAN_OK;
}

static uint32_t find_smallest(const struct by_rates *rates) {
  uint32_t found = UINT32_MAX;
  for (uint32_t t = 0; t < rates->pool.n_trees; t++)
    if (rates->lp->rate[t] > 0 && (found == UINT32_MAX || rates->lp->rate[t] < rates->lp->rate[found])) found = t;
  return found;
}

enum banyan_status by_rates_keep(struct by_rates *rates, uint32_t max, double min) {
  for (;;) {
    BY_TRY(by_rates_solve(rates));
    uint32_t n = 0;
    for (uint32_t t = 0; t < rates->pool.n_trees; t++) n += rates->lp->rate[t] > 0;
    uint32_t too_many = max && n > max ? n - max : 0;
    if (!too_many && n > 0 && rates->lp->rate[find_smallest(rates)] < min) too_many = 1;
    if (!too_many) return BANYAN_OK;
    for (uint32_t t = 0; t < rates->pool.n_trees; t++)
      if (rates->lp->rate[t] == 0) by_lp_allow(rates->lp, t, false);
    /* Only some trees are dropped, since the rates of the others will grow. */
    for (uint32_t i = (too_many + 7) / 8; i > 0; i--) by_lp_allow(rates->lp, find_smallest(rates), false);
  }
}

/* --- Prices. --- */

static const double smoothing = 0.7; /* The weight of the best prices in a mixture. */

/* Returns the value of all resources together. */
static double sum_prices(const struct by_pricing *pricing, const double *price) {
  double sum = 0;
  for (uint32_t r = 0; r < pricing->n_rows; r++)
    sum += pricing->in_parts ? price[r] : pricing->graph->capacity[r] * price[r];
  return sum;
}

enum banyan_status by_pricing_init(struct by_pricing *pricing, const struct by_graph *graph, uint32_t n_rows,
                                   bool in_parts, double bound) {
  *pricing = (struct by_pricing){.graph = graph, .n_rows = n_rows, .in_parts = in_parts, .bound = bound};
  BY_TRY(by_span_init(&pricing->span, graph));
  pricing->best = BY_ARENA_ARRAY(&pricing->span.arena, double, n_rows);
  pricing->price = BY_ARENA_ARRAY(&pricing->span.arena, double, n_rows);
  if (!pricing->best || !pricing->price) return by_plan_no_memory();
  for (uint32_t r = 0; r < n_rows; r++) pricing->best[r] = (in_parts ? 1.0 : 1 / graph->capacity[r]) / n_rows;
  return BANYAN_OK;
}

void by_pricing_mix(struct by_pricing *pricing, const double *price, bool near_best) {
  const struct by_graph *graph = pricing->graph;
  double all = sum_prices(pricing, price), part = near_best ? smoothing : 0;
  for (uint32_t r = 0; r < pricing->n_rows; r++) {
    double mixed = part * pricing->best[r] + (1 - part) * price[r] / all;
    pricing->price[r] = pricing->in_parts && r < graph->n_resources ? mixed / graph->capacity[r] : mixed;
  }
}

void by_pricing_prove(struct by_pricing *pricing, double min) {
  const struct by_graph *graph = pricing->graph;
  double all = pricing->in_parts ? 1 : sum_prices(pricing, pricing->price);
  if (!(min > 0) || all / min >= pricing->bound) return;
  pricing->bound = all / min;
  for (uint32_t r = 0; r < pricing->n_rows; r++)
    pricing->best[r] = !pricing->in_parts       ? pricing->price[r] / all
                       : r < graph->n_resources ? pricing->price[r] * graph->capacity[r]
                                                : pricing->price[r];
}

/* --- One low tree. --- */

enum { ROOTS_TRIED = 32 };

static double get_no_price(void *context, uint32_t edge) {
  (void)context;
  (void)edge;
  return 0;
}

/* Returns among some vertices the one whose farthest terminal is nearest. */
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
  if (by_grow(&grower, &(struct by_price){.of = get_no_price}, middle, reach)) {
    status = by_pool_add(&pool, grower.edges, grower.n_edges, &tree);
    if (status == BANYAN_OK) status = by_packing_make(&pool, &rate, INFINITY, out);
  }
  by_pool_fini(&pool);
  by_grower_fini(&grower);
  return status;
}

/* --- Plans. --- */

/* A packing's trees are rooted at their centres, and vertices get the names of the topology's nodes. */

#define NONE UINT32_MAX

struct planning {
  const struct by_graph *graph;
  const struct by_vertex *vertices; /* One element for each vertex of the graph. */
  struct by_plan *plan;
  uint32_t *vertex;   /* The vertex of the plan for each vertex of the graph; NONE: it is not used. */
  uint32_t *helper;   /* The used optional vertices, sorted by name. */
  uint32_t *position; /* The position of each vertex of the plan in the present group; NONE: it is not in the group. */
  uint32_t n_helpers;
  struct by_arena arena;
};

/* ---- Vertices. */

static void find_helpers(struct planning *p, const struct by_group *groups, uint32_t n) {
  uint32_t terminals = p->graph->n_terminals;
  for (uint32_t v = 0; v < p->graph->n_vertices; v++) p->vertex[v] = v < terminals ? v : NONE;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t u = 0; u < groups[i].n; u++) {
      uint32_t v = groups[i].order[u], at = p->n_helpers;
      if (p->vertex[v] != NONE) continue;
      p->vertex[v] = 0; /* The numbers of helpers are known only when all are found. */
      for (; at > 0 && strcmp(p->vertices[p->helper[at - 1]].name, p->vertices[v].name) > 0; at--)
        p->helper[at] = p->helper[at - 1];
      p->helper[at] = v;
      p->n_helpers++;
    }
  for (uint32_t i = 0; i < p->n_helpers; i++) p->vertex[p->helper[i]] = terminals + i;
}

static enum banyan_status name_vertices(struct planning *p) {
  BY_TRY(by_plan_add_vertices(p->plan, p->graph->n_terminals, p->n_helpers));
  for (uint32_t v = 0; v < p->graph->n_vertices; v++) {
    if (p->vertex[v] == NONE) continue;
    struct by_vertex *vertex = &p->plan->vertices[p->vertex[v]];
    vertex->name = by_arena_string(&p->plan->arena, p->vertices[v].name);
    if (!vertex->name) return by_plan_no_memory();
    if (p->vertices[v].kind == BY_VERTEX_SWITCH) vertex->kind = BY_VERTEX_SWITCH;
  }
  return BANYAN_OK;
}

/* ---- Groups. */

/* Adds a group. A tree's positions follow the plan's order of vertices, so that ranks come first. Positions in a
 * rotated group have a meaning and stay. */
static enum banyan_status add_group(struct planning *p, const struct by_group *from, struct by_group *to) {
  bool rotated = from->kind == BY_GROUP_ROTATED;
  uint32_t n = 0;
  BY_TRY(by_group_init(p->plan, to, from->kind, from->n, false));
  if (rotated) BY_TRY(by_group_set_radix(p->plan, to, from->radix, from->n_radix));
  for (uint32_t v = 0; v < p->plan->n_vertices; v++) p->position[v] = NONE;
  for (uint32_t u = 0; u < from->n; u++) p->position[p->vertex[from->order[u]]] = u;
  for (uint32_t v = 0; !rotated && v < p->plan->n_vertices; v++)
    if (p->position[v] != NONE) p->position[v] = n++;
  for (uint32_t u = 0; u < from->n; u++) {
    uint32_t self = p->position[p->vertex[from->order[u]]];
    to->order[self] = p->vertex[from->order[u]];
    to->up[self] = p->position[p->vertex[from->order[from->up[u]]]];
    if (u == from->root) to->root = self;
  }
  to->rate = from->rate;
  to->share = from->share;
  return BANYAN_OK;
}

static enum banyan_status fill_plan(struct planning *p, const struct by_group *groups, uint32_t n) {
  uint32_t **const arrays[] = {&p->vertex, &p->helper, &p->position};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    *arrays[i] = BY_ARENA_ARRAY(&p->arena, uint32_t, p->graph->n_vertices);
  if (p->arena.failed) return by_plan_no_memory();
  find_helpers(p, groups, n);
  BY_TRY(name_vertices(p));
  BY_TRY(by_plan_add_classes(p->plan, 1, 0));
  BY_TRY(by_plan_add_groups(p->plan, p->plan->classes, n));
  for (uint32_t i = 0; i < n; i++) BY_TRY(add_group(p, &groups[i], &p->plan->classes->groups[i]));
  return BANYAN_OK;
}

enum banyan_status by_plan_of_groups(const char *name, const struct by_graph *graph, const struct by_vertex *vertices,
                                     const struct by_group *groups, uint32_t n, struct by_plan_facts facts,
                                     struct by_plan **out) {
  struct planning p = {.graph = graph, .vertices = vertices};
  BY_TRY(by_plan_create(name, &p.plan));
  p.plan->facts = facts;
  p.plan->facts.ratio = facts.throughput / facts.bound;
  enum banyan_status status = fill_plan(&p, groups, n);
  by_arena_fini(&p.arena);
  if (status == BANYAN_OK) return by_plan_end(p.plan, BANYAN_OK, out);
  by_plan_destroy(p.plan);
  return status;
}

/* ---- Packings. */

enum banyan_status by_graph_name_vertices(const struct by_graph *graph, const struct by_topology *topology,
                                          struct by_arena *arena, struct by_vertex **out) {
  struct by_vertex *vertices = *out = BY_ARENA_ARRAY(arena, struct by_vertex, graph->n_vertices);
  for (uint32_t v = 0; v < graph->n_vertices && !arena->failed; v++) {
    const struct by_node *node = &topology->nodes[graph->node[v]];
    vertices[v].name = by_arena_string(arena, node->name);
    vertices[v].kind = node->kind == BY_NODE_SWITCH ? BY_VERTEX_SWITCH : BY_VERTEX_HELPER;
  }
  return arena->failed ? by_plan_no_memory() : BANYAN_OK;
}

enum banyan_status by_plan_of_packing(const char *name, const struct by_topology *topology,
                                      const struct by_graph *graph, const struct by_packing *packing, bool by_delay,
                                      struct by_plan **out) {
  struct by_grower grower;
  BY_TRY(by_grower_init(&grower, graph, !by_delay));
  struct by_arena *arena = &grower.arena;
  struct by_group *groups = BY_ARENA_ARRAY(arena, struct by_group, packing->n_trees);
  struct by_vertex *vertices;
  enum banyan_status status = by_graph_name_vertices(graph, topology, arena, &vertices);
  for (uint32_t t = 0; status == BANYAN_OK && t < packing->n_trees; t++) {
    const struct by_packed *tree = &packing->trees[t];
    groups[t] = (struct by_group){.kind = BY_GROUP_TREE,
                                  .n = tree->n + 1,
                                  .order = BY_ARENA_ARRAY(arena, uint32_t, tree->n + 1),
                                  .up = BY_ARENA_ARRAY(arena, uint32_t, tree->n + 1),
                                  .rate = tree->rate,
                                  .share = tree->rate / packing->throughput};
    if (arena->failed)
      status = by_plan_no_memory();
    else
      by_tree_root_at_centre(&grower, tree->edges, tree->n, groups[t].order, groups[t].up);
  }
  struct by_plan_facts facts = {
      .throughput = packing->throughput, .bound = packing->bound, .seconds = packing->seconds};
  if (status == BANYAN_OK) status = by_plan_of_groups(name, graph, vertices, groups, packing->n_trees, facts, out);
  by_grower_fini(&grower);
  return status;
}
