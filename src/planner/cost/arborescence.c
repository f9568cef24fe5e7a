/* Finds the lightest arborescence: every host takes its lightest arc. If that gives cycles, each becomes one vertex,
 * whose arcs from outside weigh what they would add when they break it, and the search continues with fewer vertices.
 * On the way back, a cycle keeps all its arcs but the one into the vertex by which the tree enters it. */
#include "arborescence.h"

#include <math.h>

#define NONE UINT32_MAX

/* An arc between the vertices of a level. */
struct edge {
  uint32_t from, to;
  uint32_t below; /* its edge of the previous level; for the first level: the arc */
  double weight;
};

struct by_contraction {
  uint32_t n, n_edges, root;
  struct edge *edges;
  uint32_t *best;  /* for each vertex: the lightest edge into it, later that of the tree; NONE: the root */
  uint32_t *above; /* for each vertex: its vertex of the next level */
};

enum banyan_status by_arborescence_init(struct by_arborescence *search, const struct by_directed *net) {
  uint32_t n = net->n;
  *search = (struct by_arborescence){.net = net};
  struct by_arena *arena = &search->arena;
  search->arc = BY_ARENA_ARRAY(arena, uint32_t, n);
  search->mark = BY_ARENA_ARRAY(arena, uint32_t, n);
  search->levels = BY_ARENA_ARRAY(arena, struct by_contraction, n);
  for (uint32_t i = 0; i < n && !arena->failed; i++) { /* A level has fewer vertices than the previous one. */
    search->levels[i].edges = BY_ARENA_ARRAY(arena, struct edge, net->n_arcs);
    search->levels[i].best = BY_ARENA_ARRAY(arena, uint32_t, n - i);
    search->levels[i].above = BY_ARENA_ARRAY(arena, uint32_t, n - i);
  }
  if (!arena->failed) return BANYAN_OK;
  by_arborescence_fini(search);
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory to look for trees among %u hosts", n);
}

void by_arborescence_fini(struct by_arborescence *search) {
  by_arena_fini(&search->arena);
  *search = (struct by_arborescence){0};
}

/* Selects the lightest edge into every vertex. Returns the sum of their weights; INFINITY: a vertex has none. */
static double select_lightest(struct by_contraction *level) {
  double sum = 0;
  for (uint32_t v = 0; v < level->n; v++) level->best[v] = NONE;
  for (uint32_t e = 0; e < level->n_edges; e++) {
    uint32_t v = level->edges[e].to;
    if (v == level->root) continue;
    if (level->best[v] == NONE || level->edges[e].weight < level->edges[level->best[v]].weight) level->best[v] = e;
  }
  for (uint32_t v = 0; v < level->n; v++) {
    if (v == level->root) continue;
    if (level->best[v] == NONE) return INFINITY;
    sum += level->edges[level->best[v]].weight;
  }
  return sum;
}

/* Numbers the vertices of the next level, cycles first. Returns their number; `cycles`: how many of them are cycles. */
static uint32_t number_next_level(const struct by_contraction *level, uint32_t *mark, uint32_t *cycles) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < level->n; v++) mark[v] = level->above[v] = NONE;
  for (uint32_t v = 0; v < level->n; v++) {
    uint32_t u = v;
    for (; u != level->root && mark[u] == NONE; u = level->edges[level->best[u]].from) mark[u] = v;
    if (u == level->root || mark[u] != v || level->above[u] != NONE) continue;
    for (; level->above[u] == NONE; u = level->edges[level->best[u]].from) level->above[u] = n;
    n++;
  }
  *cycles = n;
  for (uint32_t v = 0; v < level->n; v++)
    if (level->above[v] == NONE) level->above[v] = n++;
  return n;
}

static void contract_cycles(const struct by_contraction *level, uint32_t n, struct by_contraction *next) {
  next->n = n;
  next->n_edges = 0;
  next->root = level->above[level->root];
  for (uint32_t e = 0; e < level->n_edges; e++) {
    const struct edge *edge = &level->edges[e];
    uint32_t from = level->above[edge->from], to = level->above[edge->to];
    if (from == to || to == next->root) continue;
    next->edges[next->n_edges++] = (struct edge){
        .from = from, .to = to, .below = e, .weight = edge->weight - level->edges[level->best[edge->to]].weight};
  }
}

/* Replaces the lightest edges of this level by those of the tree above. */
static void expand_cycles(const struct by_contraction *above, struct by_contraction *level) {
  for (uint32_t v = 0; v < above->n; v++) {
    if (above->best[v] == NONE) continue;
    uint32_t e = above->edges[above->best[v]].below;
    level->best[level->edges[e].to] = e;
  }
}

double by_arborescence_find(struct by_arborescence *search, uint32_t root, const double *weight) {
  const struct by_directed *net = search->net;
  struct by_contraction *level = search->levels;
  level->n = net->n;
  level->n_edges = net->n_arcs;
  level->root = root;
  for (uint32_t a = 0; a < net->n_arcs; a++)
    level->edges[a] = (struct edge){.from = net->arcs[a].from, .to = net->arcs[a].to, .below = a, .weight = weight[a]};
  for (;; level++) {
    uint32_t cycles;
    if (isinf(select_lightest(level))) return INFINITY;
    uint32_t n = number_next_level(level, search->mark, &cycles);
    if (!cycles) break;
    contract_cycles(level, n, level + 1);
  }
  for (; level > search->levels; level--) expand_cycles(level, level - 1);
  double sum = 0;
  for (uint32_t v = 0; v < net->n; v++) {
    if (v == root) continue;
    search->arc[v] = level->edges[level->best[v]].below;
    sum += weight[search->arc[v]];
  }
  return sum;
}
