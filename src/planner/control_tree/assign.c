/* Solves assignments. Vertices 0 .. n_from - 1 take, and vertices n_from .. n - 1 are taken. An arc leads from a taker
 * to a vertex that it may take, and back if the pair has flow. Potentials keep all reduced costs at 0 or above, and
 * those of pairs with flow at 0. Along arcs of reduced cost 0 the flow grows until no path is left; the potentials rise
 * by the next path's cost, and this is repeated. */
#include <stdlib.h>
#include <string.h>

#include "control_tree.h"
#include "order.h"
#include "plan_make.h"

#define NONE UINT32_MAX

struct net {
  const struct by_assign *a;
  uint32_t *flow;
  uint32_t n;
  bool minimise_cost;  /* Costs count; if false, all are 0. */
  uint32_t *left;      /* The supply or demand that is not used yet. */
  uint32_t *first;     /* The arcs of vertex v are arcs[first[v] .. first[v + 1]). */
  uint32_t *arcs;      /* The pairs, by vertex. */
  uint64_t *potential; /* The potential of each vertex. */
  uint64_t *distance;  /* The distance of each vertex from the takers with supply left. */
  struct by_heap heap; /* The vertices by distances, which are sums of costs below 2^53. */
  uint32_t *queue;
  uint32_t *level; /* The level of each vertex along arcs of reduced cost 0; NONE: not reached. */
  uint32_t *at;    /* The next arc of each vertex to be tried. */
  uint32_t *path;  /* The arcs of a path that begins at a taker. */
  struct by_arena arena;
};

static uint32_t get_end(const struct net *net, uint32_t pair, bool at_taken) {
  return at_taken ? net->a->n_from + net->a->pairs[pair].to : net->a->pairs[pair].from;
}

static bool is_taker(const struct net *net, uint32_t v) {
  return v < net->a->n_from;
}

/* Returns whether the arc may be used from v, which is one of its ends. */
static bool is_open(const struct net *net, uint32_t pair, uint32_t v) {
  return is_taker(net, v) || net->flow[pair] > 0;
}

static uint64_t get_reduced_cost(const struct net *net, uint32_t pair) {
  if (!net->minimise_cost) return 0;
  return net->a->pairs[pair].cost + net->potential[get_end(net, pair, false)] -
         net->potential[get_end(net, pair, true)];
}

static void list_arcs(struct net *net) {
  for (uint32_t i = 0; i < net->a->n_pairs; i++) {
    net->first[get_end(net, i, false) + 1]++;
    net->first[get_end(net, i, true) + 1]++;
  }
  for (uint32_t v = 0; v < net->n; v++) net->first[v + 1] += net->first[v];
  memcpy(net->at, net->first, net->n * sizeof *net->at);
  for (uint32_t i = 0; i < net->a->n_pairs; i++) {
    net->arcs[net->at[get_end(net, i, false)]++] = i;
    net->arcs[net->at[get_end(net, i, true)]++] = i;
  }
}

static enum banyan_status prepare_net(struct net *net) {
  const struct by_assign *a = net->a;
  size_t n = net->n;
  net->left = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->first = BY_ARENA_ARRAY(&net->arena, uint32_t, n + 1);
  net->arcs = BY_ARENA_ARRAY(&net->arena, uint32_t, 2 * (size_t)a->n_pairs);
  net->potential = BY_ARENA_ARRAY(&net->arena, uint64_t, n);
  net->distance = BY_ARENA_ARRAY(&net->arena, uint64_t, n);
  net->queue = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->heap.items =
      BY_ARENA_ARRAY(&net->arena, struct by_heap_item, net->minimise_cost ? n + 2 * (size_t)a->n_pairs : 0);
  net->level = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->at = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->path = BY_ARENA_ARRAY(&net->arena, uint32_t, n + 1);
  if (net->arena.failed) return by_plan_no_memory();
  for (uint32_t v = 0; v < net->n; v++) net->left[v] = is_taker(net, v) ? a->supply[v] : a->demand[v - a->n_from];
  list_arcs(net);
  return BANYAN_OK;
}

/* --- Distances, by Dijkstra's algorithm. --- */

static void update_distance(struct net *net, uint32_t v, uint64_t distance) {
  if (distance >= net->distance[v]) return;
  net->distance[v] = distance;
  by_heap_push(&net->heap, (double)distance, v);
}

/* Returns the distance of the nearest vertex that can still be taken. Returns UINT64_MAX if none can be reached. */
static uint64_t find_distances(struct net *net) {
  net->heap.n = 0;
  for (uint32_t v = 0; v < net->n; v++) net->distance[v] = UINT64_MAX;
  for (uint32_t v = 0; v < net->a->n_from; v++)
    if (net->left[v]) update_distance(net, v, 0);
  while (net->heap.n) {
    struct by_heap_item next = by_heap_pop(&net->heap);
    uint32_t v = next.number;
    if (next.key > (double)net->distance[v]) continue;
    if (!is_taker(net, v) && net->left[v]) return net->distance[v];
    for (uint32_t i = net->first[v]; i < net->first[v + 1]; i++)
      if (is_open(net, net->arcs[i], v))
        update_distance(net, get_end(net, net->arcs[i], is_taker(net, v)),
                        net->distance[v] + get_reduced_cost(net, net->arcs[i]));
  }
  return UINT64_MAX;
}

/* --- Flow along arcs of reduced cost 0. --- */

/* Numbers vertices breadth first, and returns whether one that can still be taken is reached. */
static bool find_levels(struct net *net) {
  uint32_t n = 0;
  bool found = false;
  for (uint32_t v = 0; v < net->n; v++) {
    net->at[v] = net->first[v];
    net->level[v] = is_taker(net, v) && net->left[v] ? 0 : NONE;
    if (!net->level[v]) net->queue[n++] = v;
  }
  for (uint32_t done = 0; done < n; done++) {
    uint32_t v = net->queue[done];
    found = found || (!is_taker(net, v) && net->left[v]);
    for (uint32_t i = net->first[v]; i < net->first[v + 1]; i++) {
      uint32_t to = get_end(net, net->arcs[i], is_taker(net, v));
      if (net->level[to] != NONE || !is_open(net, net->arcs[i], v) || get_reduced_cost(net, net->arcs[i])) continue;
      net->level[to] = net->level[v] + 1;
      net->queue[n++] = to;
    }
  }
  return found;
}

/* Adds as much flow as fits along the path from `start`, whose last vertex is `end`. */
static void add_flow(struct net *net, uint32_t start, uint32_t end, uint32_t n) {
  uint32_t max = net->left[start] < net->left[end] ? net->left[start] : net->left[end];
  for (uint32_t i = 1; i < n; i += 2)
    if (net->flow[net->path[i]] < max) max = net->flow[net->path[i]];
  for (uint32_t i = 0; i < n; i++) net->flow[net->path[i]] += i % 2 ? 0 - max : max;
  net->left[start] -= max;
  net->left[end] -= max;
}

/* Returns the next vertex after v. Returns NONE if there is none. */
static uint32_t find_step(struct net *net, uint32_t v) {
  for (; net->at[v] < net->first[v + 1]; net->at[v]++) {
    uint32_t pair = net->arcs[net->at[v]], to = get_end(net, pair, is_taker(net, v));
    if (net->level[to] == net->level[v] + 1 && is_open(net, pair, v) && !get_reduced_cost(net, pair)) return to;
  }
  return NONE;
}

/* Adds flow depth first from one taker until its supply is used or no path is left. */
static void add_flow_from(struct net *net, uint32_t start) {
  uint32_t v = start, n = 0;
  while (net->left[start]) {
    if (!is_taker(net, v) && net->left[v]) {
      add_flow(net, start, v, n);
      v = start;
      n = 0;
      continue;
    }
    uint32_t to = find_step(net, v);
    if (to != NONE) {
      net->path[n++] = net->arcs[net->at[v]];
      v = to;
    } else if (n) {
      n--;
      v = get_end(net, net->path[n], n % 2);
      net->at[v]++;
    } else {
      return;
    }
  }
}

/* --- Both methods. --- */

static void grow_flow(struct net *net) {
  while (find_levels(net))
    for (uint32_t v = 0; v < net->a->n_from; v++) add_flow_from(net, v);
}

static void solve_min_cost(struct net *net) {
  for (uint64_t nearest; (nearest = find_distances(net)) != UINT64_MAX;) {
    for (uint32_t v = 0; v < net->n; v++) net->potential[v] += net->distance[v] < nearest ? net->distance[v] : nearest;
    grow_flow(net);
  }
}

static enum banyan_status solve_quickly(struct net *net) {
  struct by_heap_item *order = BY_ARENA_ARRAY(&net->arena, struct by_heap_item, net->a->n_pairs);
  if (!order) return by_plan_no_memory();
  for (uint32_t i = 0; i < net->a->n_pairs; i++) order[i] = (struct by_heap_item){net->a->pairs[i].cost, i};
  qsort(order, net->a->n_pairs, sizeof *order, by_heap_compare);
  for (uint32_t i = 0; i < net->a->n_pairs; i++) {
    uint32_t pair = net->path[0] = order[i].number;
    add_flow(net, get_end(net, pair, false), get_end(net, pair, true), 1);
  }
  grow_flow(net);
  return BANYAN_OK;
}

enum banyan_status by_assign_solve(const struct by_assign *assign, uint32_t *flow) {
  struct net net = {.a = assign, .flow = flow, .n = assign->n_from + assign->n_to};
  net.minimise_cost = assign->n_pairs <= BY_ASSIGN_EXACT;
  memset(flow, 0, assign->n_pairs * sizeof *flow);
  enum banyan_status status = prepare_net(&net);
  if (status == BANYAN_OK && net.minimise_cost) solve_min_cost(&net);
  if (status == BANYAN_OK && !net.minimise_cost) status = solve_quickly(&net);
  by_arena_fini(&net.arena);
  return status;
}
