/* Maximum flows by Dinic's algorithm. */
#include "max_flow.h"

#include <string.h>

#define NONE UINT32_MAX

enum banyan_status by_flow_init(struct by_flow_network *flow, uint32_t n_vertices, uint32_t max_arcs) {
  size_t n = n_vertices, m = max_arcs;
  *flow = (struct by_flow_network){.n_vertices = n_vertices, .max_arcs = max_arcs};
  by_arena_init(&flow->arena);
  flow->capacity = BY_ARENA_ARRAY(&flow->arena, double, m);
  flow->left = BY_ARENA_ARRAY(&flow->arena, double, 2 * m);
  flow->head = BY_ARENA_ARRAY(&flow->arena, uint32_t, 2 * m);
  flow->leaving = BY_ARENA_ARRAY(&flow->arena, uint32_t, 2 * m);
  flow->first = BY_ARENA_ARRAY(&flow->arena, uint32_t, n + 1);
  flow->level = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  flow->next = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  flow->queue = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  flow->path = BY_ARENA_ARRAY(&flow->arena, uint32_t, n);
  if (!flow->arena.failed) return BANYAN_OK;
  by_flow_fini(flow);
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for flows between %u vertices", n_vertices);
}

void by_flow_fini(struct by_flow_network *flow) {
  by_arena_fini(&flow->arena);
  *flow = (struct by_flow_network){0};
}

uint32_t by_flow_add(struct by_flow_network *flow, uint32_t from, uint32_t to, double capacity) {
  size_t arc = flow->n_arcs++;
  flow->capacity[arc] = capacity;
  flow->head[2 * arc] = to;
  flow->head[2 * arc + 1] = from;
  return (uint32_t)arc;
}

uint32_t by_flow_tail(const struct by_flow_network *flow, uint32_t arc) {
  return flow->head[2 * (size_t)arc + 1];
}

uint32_t by_flow_head(const struct by_flow_network *flow, uint32_t arc) {
  return flow->head[2 * (size_t)arc];
}

void by_flow_seal(struct by_flow_network *flow) {
  uint32_t *first = flow->first, n = 2 * flow->n_arcs;
  for (uint32_t d = 0; d < n; d++) first[flow->head[d ^ 1]]++;
  for (uint32_t v = 0; v < flow->n_vertices; v++) first[v + 1] += first[v];
  for (uint32_t d = n; d-- > 0;) flow->leaving[--first[flow->head[d ^ 1]]] = d;
}

/* Numbers vertices breadth first over all arcs with residual capacity. */
static void find_levels(struct by_flow_network *flow, uint32_t from) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < flow->n_vertices; v++) flow->level[v] = NONE;
  flow->level[from] = 0;
  flow->queue[n++] = from;
  for (uint32_t at = 0; at < n; at++) {
    uint32_t v = flow->queue[at];
    for (uint32_t i = flow->first[v]; i < flow->first[v + 1]; i++) {
      uint32_t d = flow->leaving[i], w = flow->head[d];
      if (flow->left[d] <= 0 || flow->level[w] != NONE) continue;
      flow->level[w] = flow->level[v] + 1;
      flow->queue[n++] = w;
    }
  }
}

/* Returns the next arc from v to the level below, or NONE. */
static uint32_t find_next_down(struct by_flow_network *flow, uint32_t v) {
  for (; flow->next[v] < flow->first[v + 1]; flow->next[v]++) {
    uint32_t d = flow->leaving[flow->next[v]];
    if (flow->left[d] > 0 && flow->level[flow->head[d]] == flow->level[v] + 1) return d;
  }
  return NONE;
}

/* Fills a path up to the residual capacity of its narrowest arc, which has exactly 0 left then. Returns the index of
 * that arc in the path. */
static uint32_t fill_path(struct by_flow_network *flow, uint32_t length, double *total) {
  uint32_t narrow = 0;
  for (uint32_t i = 1; i < length; i++)
    if (flow->left[flow->path[i]] < flow->left[flow->path[narrow]]) narrow = i;
  double amount = flow->left[flow->path[narrow]];
  for (uint32_t i = 0; i < length; i++) {
    flow->left[flow->path[i]] -= amount;
    flow->left[flow->path[i] ^ 1] += amount;
  }
  *total += amount;
  return narrow;
}

/* Sends all that fits down the levels, and returns how much. Depth first without recursion, since paths may be as long
 * as the network. */
static double fill_levels(struct by_flow_network *flow, uint32_t from, uint32_t to) {
  double total = 0;
  uint32_t v = from, length = 0;
  memcpy(flow->next, flow->first, flow->n_vertices * sizeof *flow->next);
  for (;;) {
    uint32_t d = v == to ? NONE : find_next_down(flow, v);
    if (v == to) {
      length = fill_path(flow, length, &total);
      v = flow->head[flow->path[length] ^ 1];
    } else if (d != NONE) {
      flow->path[length++] = d;
      v = flow->head[d];
    } else if (v == from) {
      return total;
    } else {
      v = flow->head[flow->path[--length] ^ 1];
      flow->next[v]++;
    }
  }
}

double by_flow_run(struct by_flow_network *flow, uint32_t from, uint32_t to) {
  double total = 0;
  for (size_t a = 0; a < flow->n_arcs; a++) {
    flow->left[2 * a] = flow->capacity[a];
    flow->left[2 * a + 1] = 0;
  }
  for (;;) {
    find_levels(flow, from);
    if (flow->level[to] == NONE) return total;
    total += fill_levels(flow, from, to);
  }
}

bool by_flow_is_inside(const struct by_flow_network *flow, uint32_t vertex) {
  return flow->level[vertex] != NONE;
}
