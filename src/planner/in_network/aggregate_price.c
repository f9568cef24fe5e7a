/* The cheapest choice. A gradient that v sends costs what all links up to the next vertex that adds cost, so a subtree
 * need only know which vertex above it adds next: cost[v][d] is the least for v's subtree if that is v's ancestor at
 * depth d. Rows are as long as their vertex is deep. */
#include <math.h>
#include <stdlib.h>

#include "aggregate.h"
#include "arena.h"

struct table {
  const struct by_flow *flow;
  const double *rent;
  double *above;   /* of each vertex: the price of all links up to the server */
  uint32_t *depth; /* of each vertex */
  size_t *row;     /* where its row begins */
  double *cost;    /* of v and all below for d = 0 .. depth - 1; at d = depth[v]: of all below if v adds */
  bool *adds;      /* likewise */
  double *reach;   /* of the vertex being looked at: above[] of its ancestor at each depth */
};

/* The price of the links above the ancestor of v at depth d is above[] of that ancestor. */
static void find_ancestors(struct table *t, uint32_t v) {
  for (uint32_t u = v;; u = t->flow->parent[u]) {
    t->reach[t->depth[u]] = t->above[u];
    if (!u) return;
  }
}

/* cost[v][d] holds the sum over v's children, for d up to v's own depth. */
static void close_vertex(struct table *t, uint32_t v) {
  double *cost = t->cost + t->row[v], below = cost[t->depth[v]];
  double *parent = t->cost + t->row[t->flow->parent[v]];
  find_ancestors(t, v);
  for (uint32_t d = 0; d < t->depth[v]; d++) {
    double price = t->above[v] - t->reach[d];
    double passing = cost[d] + t->flow->own[v] * price, adding = below + price + t->rent[v];
    bool adds = t->flow->able[v] && adding < passing;
    t->adds[t->row[v] + d] = adds;
    parent[d] += adds ? adding : passing;
  }
}

static void read_table(const struct table *t, bool *adds, uint32_t *next) {
  adds[0] = false;
  next[0] = 0; /* depth of the vertex that adds next above its children */
  for (uint32_t v = 1; v < t->flow->n; v++) {
    uint32_t d = next[t->flow->parent[v]];
    adds[v] = t->adds[t->row[v] + d];
    next[v] = adds[v] ? t->depth[v] : d;
  }
}

static size_t measure(struct table *t, const double *price) {
  size_t room = 1;
  for (uint32_t v = 1; v < t->flow->n; v++) {
    t->depth[v] = t->depth[t->flow->parent[v]] + 1;
    t->above[v] = t->above[t->flow->parent[v]] + price[v];
    t->row[v] = room;
    room += t->depth[v] + 1;
  }
  return room;
}

enum banyan_status by_flow_cheapest(const struct by_flow *flow, const double *price, const double *rent, bool *adds,
                                    double *cost) {
  struct table t = {.flow = flow, .rent = rent};
  struct by_arena arena;
  by_arena_init(&arena);
  t.above = BY_ARENA_ARRAY(&arena, double, flow->n);
  t.depth = BY_ARENA_ARRAY(&arena, uint32_t, flow->n);
  t.row = BY_ARENA_ARRAY(&arena, size_t, flow->n);
  t.reach = BY_ARENA_ARRAY(&arena, double, flow->n);
  uint32_t *next = BY_ARENA_ARRAY(&arena, uint32_t, flow->n);
  bool ready = t.above && t.depth && t.row && t.reach && next;
  size_t room = ready ? measure(&t, price) : 0;
  t.cost = BY_ARENA_ARRAY(&arena, double, room);
  t.adds = BY_ARENA_ARRAY(&arena, bool, room);
  ready = ready && t.cost && t.adds;
  if (ready) {
    for (uint32_t v = flow->n; v-- > 1;) close_vertex(&t, v);
    *cost = t.cost[0];
    read_table(&t, adds, next);
  }
  by_arena_fini(&arena);
  return ready ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "no memory to place aggregation");
}
