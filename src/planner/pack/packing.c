#include "packing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "leader.h"

enum { FIRST_TREES = 64, FIRST_SLOTS = 256 /* a power of two */ };

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the trees that are packed");
  return BANYAN_ERR_NO_MEMORY;
}

enum banyan_status by_pool_init(struct by_pool *pool, const struct by_graph *graph) {
  *pool = (struct by_pool){.graph = graph, .room_trees = FIRST_TREES, .n_slots = FIRST_SLOTS};
  pool->at = calloc(FIRST_TREES + 1, sizeof *pool->at);
  pool->slots = calloc(FIRST_SLOTS, sizeof *pool->slots);
  if (pool->at && pool->slots) return BANYAN_OK;
  by_pool_fini(pool);
  return no_memory();
}

void by_pool_fini(struct by_pool *pool) {
  free(pool->at);
  free(pool->edges);
  free(pool->slots);
  *pool = (struct by_pool){0};
}

/* FNV-1a, a word at a time. */
static uint64_t hash_of(const uint32_t *edges, uint32_t n) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint32_t i = 0; i < n; i++) hash = (hash ^ edges[i]) * 0x100000001b3ull;
  return hash ^ hash >> 29;
}

/* Where the tree is in the table, or would be. */
static size_t find_slot(const struct by_pool *pool, const uint32_t *edges, uint32_t n) {
  size_t mask = pool->n_slots - 1, slot = hash_of(edges, n) & mask;
  for (; pool->slots[slot]; slot = (slot + 1) & mask) {
    uint32_t t = pool->slots[slot] - 1;
    if (by_pool_size(pool, t) == n && memcmp(by_pool_edges(pool, t), edges, n * sizeof *edges) == 0) break;
  }
  return slot;
}

static bool grow_slots(struct by_pool *pool) {
  uint32_t *slots = calloc(pool->n_slots * 2, sizeof *slots);
  if (!slots) return false;
  free(pool->slots);
  pool->slots = slots;
  pool->n_slots *= 2;
  for (uint32_t t = 0; t < pool->n_trees; t++)
    slots[find_slot(pool, by_pool_edges(pool, t), by_pool_size(pool, t))] = t + 1;
  return true;
}

static bool grow_trees(struct by_pool *pool) {
  size_t *at = realloc(pool->at, (2 * pool->room_trees + 1) * sizeof *at);
  if (!at) return false;
  pool->at = at;
  pool->room_trees *= 2;
  return true;
}

static bool grow_edges(struct by_pool *pool, uint32_t n) {
  size_t used = pool->at[pool->n_trees], room = pool->room_edges + pool->room_edges / 2 + n;
  if (used + n <= pool->room_edges) return true;
  uint32_t *edges = realloc(pool->edges, room * sizeof *edges);
  if (!edges) return false;
  pool->edges = edges;
  pool->room_edges = room;
  return true;
}

enum banyan_status by_pool_add(struct by_pool *pool, const uint32_t *edges, uint32_t n, uint32_t *out) {
  size_t slot = find_slot(pool, edges, n);
  *out = pool->slots[slot] - 1;
  if (pool->slots[slot]) return BANYAN_OK;
  if (pool->n_trees == pool->room_trees && !grow_trees(pool)) return no_memory();
  if (!grow_edges(pool, n)) return no_memory();
  if (2 * (size_t)(pool->n_trees + 1) > pool->n_slots) {
    if (!grow_slots(pool)) return no_memory();
    slot = find_slot(pool, edges, n);
  }
  size_t at = pool->at[pool->n_trees];
  if (n) memcpy(pool->edges + at, edges, n * sizeof *edges);
  pool->at[pool->n_trees + 1] = at + n;
  *out = pool->n_trees++;
  pool->slots[slot] = pool->n_trees;
  return BANYAN_OK;
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

static void add_load(const struct by_graph *graph, const uint32_t *edges, uint32_t n, double rate, double *load) {
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
    if (rate[t] > 0) add_load(graph, by_pool_edges(pool, t), by_pool_size(pool, t), rate[t], load);
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
    if (rate[t] > 0) n++, n_edges += by_pool_size(pool, t);
  uint32_t *edges = BY_ARENA_ARRAY(&packing->arena, uint32_t, n_edges);
  packing->trees = BY_ARENA_ARRAY(&packing->arena, struct by_packed, n);
  if (!edges || !packing->trees) return no_memory();
  for (uint32_t t = 0; t < pool->n_trees; t++) {
    uint32_t size = by_pool_size(pool, t);
    if (!(rate[t] > 0)) continue;
    memcpy(edges, by_pool_edges(pool, t), size * sizeof *edges);
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
  add_load(graph, tree->edges, tree->n, tree->rate, check->load);
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
  struct check check = {.graph = graph};
  check.above = malloc(graph->n_vertices * sizeof *check.above);
  check.touched = malloc(graph->n_vertices * sizeof *check.touched);
  check.load = calloc(graph->n_resources, sizeof *check.load);
  enum banyan_status status = BANYAN_ERR_NO_MEMORY;
  if (check.above && check.touched && check.load)
    status = check_packing(&check, packing);
  else
    (void)no_memory();
  free(check.above);
  free(check.touched);
  free(check.load);
  return status;
}
