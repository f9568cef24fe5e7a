/* Vertices 0 .. n_from - 1 take, n_from .. n - 1 are taken. An arc leads from a taker to one it may take, and back
 * where the pair carries something. Potentials keep all reduced costs at 0 or above, and those of carrying pairs at 0;
 * along arcs of reduced cost 0 the flow grows until no way is left, then the potentials rise by the next path's cost.
 */
#include <stdlib.h>
#include <string.h>

#include "control_tree.h"
#include "heap.h"
#include "plan_make.h"

#define NONE UINT32_MAX

struct net {
  const struct by_assign *a;
  uint32_t *flow;
  uint32_t n;
  bool cheaply;        /* costs count; else all are 0 */
  uint32_t *left;      /* supply or demand that is not used yet */
  uint32_t *first;     /* of each vertex: its arcs are arcs[first[v] .. first[v + 1]) */
  uint32_t *arcs;      /* pairs */
  uint64_t *potential; /* of each vertex */
  uint64_t *distance;  /* from the takers with something left */
  struct by_heap heap; /* of vertices by distances, which are sums of costs below 2^53 */
  uint32_t *queue;
  uint32_t *level; /* along arcs of reduced cost 0; NONE: not reached */
  uint32_t *at;    /* of each vertex: the next of its arcs to be tried */
  uint32_t *path;  /* arcs from a taker on */
  struct by_arena arena;
};

static uint32_t end_of(const struct net *net, uint32_t pair, bool at_taken) {
  return at_taken ? net->a->n_from + net->a->pairs[pair].to : net->a->pairs[pair].from;
}

static bool takes(const struct net *net, uint32_t v) {
  return v < net->a->n_from;
}

/* Whether the arc may be used from v, which is one of its ends. */
static bool is_open(const struct net *net, uint32_t pair, uint32_t v) {
  return takes(net, v) || net->flow[pair] > 0;
}

static uint64_t reduced(const struct net *net, uint32_t pair) {
  if (!net->cheaply) return 0;
  return net->a->pairs[pair].cost + net->potential[end_of(net, pair, false)] - net->potential[end_of(net, pair, true)];
}

static void list_arcs(struct net *net) {
  for (uint32_t i = 0; i < net->a->n_pairs; i++) {
    net->first[end_of(net, i, false) + 1]++;
    net->first[end_of(net, i, true) + 1]++;
  }
  for (uint32_t v = 0; v < net->n; v++) net->first[v + 1] += net->first[v];
  memcpy(net->at, net->first, net->n * sizeof *net->at);
  for (uint32_t i = 0; i < net->a->n_pairs; i++) {
    net->arcs[net->at[end_of(net, i, false)]++] = i;
    net->arcs[net->at[end_of(net, i, true)]++] = i;
  }
}

static enum banyan_status prepare(struct net *net) {
  const struct by_assign *a = net->a;
  size_t n = net->n;
  net->left = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->first = BY_ARENA_ARRAY(&net->arena, uint32_t, n + 1);
  net->arcs = BY_ARENA_ARRAY(&net->arena, uint32_t, 2 * (size_t)a->n_pairs);
  net->potential = BY_ARENA_ARRAY(&net->arena, uint64_t, n);
  net->distance = BY_ARENA_ARRAY(&net->arena, uint64_t, n);
  net->queue = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->heap.items = BY_ARENA_ARRAY(&net->arena, struct by_heap_item, net->cheaply ? n + 2 * (size_t)a->n_pairs : 0);
  net->level = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->at = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->path = BY_ARENA_ARRAY(&net->arena, uint32_t, n + 1);
  if (net->arena.failed) return by_plan_no_memory();
  for (uint32_t v = 0; v < net->n; v++) net->left[v] = takes(net, v) ? a->supply[v] : a->demand[v - a->n_from];
  list_arcs(net);
  return BANYAN_OK;
}

/* --- distances: Dijkstra's algorithm --- */

static void reach(struct net *net, uint32_t v, uint64_t distance) {
  if (distance >= net->distance[v]) return;
  net->distance[v] = distance;
  by_heap_push(&net->heap, (double)distance, v);
}

/* The distance of the nearest that can still be taken; UINT64_MAX: none can be reached. */
static uint64_t find_distances(struct net *net) {
  net->heap.n = 0;
  for (uint32_t v = 0; v < net->n; v++) net->distance[v] = UINT64_MAX;
  for (uint32_t v = 0; v < net->a->n_from; v++)
    if (net->left[v]) reach(net, v, 0);
  while (net->heap.n) {
    struct by_heap_item next = by_heap_pop(&net->heap);
    uint32_t v = next.number;
    if (next.key > (double)net->distance[v]) continue;
    if (!takes(net, v) && net->left[v]) return net->distance[v];
    for (uint32_t i = net->first[v]; i < net->first[v + 1]; i++)
      if (is_open(net, net->arcs[i], v))
        reach(net, end_of(net, net->arcs[i], takes(net, v)), net->distance[v] + reduced(net, net->arcs[i]));
  }
  return UINT64_MAX;
}

/* --- flow along arcs of reduced cost 0 --- */

/* Breadth first; whether one that can still be taken is reached. */
static bool find_levels(struct net *net) {
  uint32_t n = 0;
  bool found = false;
  for (uint32_t v = 0; v < net->n; v++) {
    net->at[v] = net->first[v];
    net->level[v] = takes(net, v) && net->left[v] ? 0 : NONE;
    if (!net->level[v]) net->queue[n++] = v;
  }
  for (uint32_t done = 0; done < n; done++) {
    uint32_t v = net->queue[done];
    found = found || (!takes(net, v) && net->left[v]);
    for (uint32_t i = net->first[v]; i < net->first[v + 1]; i++) {
      uint32_t to = end_of(net, net->arcs[i], takes(net, v));
      if (net->level[to] != NONE || !is_open(net, net->arcs[i], v) || reduced(net, net->arcs[i])) continue;
      net->level[to] = net->level[v] + 1;
      net->queue[n++] = to;
    }
  }
  return found;
}

/* Carries as much as fits along the path from `start`, whose last vertex is `end`. */
static void carry(struct net *net, uint32_t start, uint32_t end, uint32_t n) {
  uint32_t most = net->left[start] < net->left[end] ? net->left[start] : net->left[end];
  for (uint32_t i = 1; i < n; i += 2)
    if (net->flow[net->path[i]] < most) most = net->flow[net->path[i]];
  for (uint32_t i = 0; i < n; i++) net->flow[net->path[i]] += i % 2 ? 0 - most : most;
  net->left[start] -= most;
  net->left[end] -= most;
}

/* One step on from v, or NONE: no way on from here. */
static uint32_t step(struct net *net, uint32_t v) {
  for (; net->at[v] < net->first[v + 1]; net->at[v]++) {
    uint32_t pair = net->arcs[net->at[v]], to = end_of(net, pair, takes(net, v));
    if (net->level[to] == net->level[v] + 1 && is_open(net, pair, v) && !reduced(net, pair)) return to;
  }
  return NONE;
}

/* Depth first from one taker until it has nothing left or there is no way on. */
static void block_from(struct net *net, uint32_t start) {
  uint32_t v = start, n = 0;
  while (net->left[start]) {
    if (!takes(net, v) && net->left[v]) {
      carry(net, start, v, n);
      v = start;
      n = 0;
      continue;
    }
    uint32_t to = step(net, v);
    if (to != NONE) {
      net->path[n++] = net->arcs[net->at[v]];
      v = to;
    } else if (n) {
      n--;
      v = end_of(net, net->path[n], n % 2);
      net->at[v]++;
    } else {
      return;
    }
  }
}

/* --- both ways --- */

static void grow(struct net *net) {
  while (find_levels(net))
    for (uint32_t v = 0; v < net->a->n_from; v++) block_from(net, v);
}

static void solve_cheaply(struct net *net) {
  for (uint64_t nearest; (nearest = find_distances(net)) != UINT64_MAX;) {
    for (uint32_t v = 0; v < net->n; v++) net->potential[v] += net->distance[v] < nearest ? net->distance[v] : nearest;
    grow(net);
  }
}

static enum banyan_status solve_quickly(struct net *net) {
  struct by_heap_item *order = BY_ARENA_ARRAY(&net->arena, struct by_heap_item, net->a->n_pairs);
  if (!order) return by_plan_no_memory();
  for (uint32_t i = 0; i < net->a->n_pairs; i++) order[i] = (struct by_heap_item){net->a->pairs[i].cost, i};
  qsort(order, net->a->n_pairs, sizeof *order, by_heap_compare);
  for (uint32_t i = 0; i < net->a->n_pairs; i++) {
    uint32_t pair = net->path[0] = order[i].number;
    carry(net, end_of(net, pair, false), end_of(net, pair, true), 1);
  }
  grow(net);
  return BANYAN_OK;
}

enum banyan_status by_assign_solve(const struct by_assign *assign, uint32_t *flow) {
  struct net net = {.a = assign, .flow = flow, .n = assign->n_from + assign->n_to};
  net.cheaply = assign->n_pairs <= BY_ASSIGN_EXACT;
  by_arena_init(&net.arena);
  memset(flow, 0, assign->n_pairs * sizeof *flow);
  enum banyan_status status = prepare(&net);
  if (status == BANYAN_OK && net.cheaply) solve_cheaply(&net);
  if (status == BANYAN_OK && !net.cheaply) status = solve_quickly(&net);
  by_arena_fini(&net.arena);
  return status;
}
