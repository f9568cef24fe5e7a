/* First which vertices are joined, then over what, one destination after the other, then the edges. Ways are
 * kept as the directed bundles of links that they use, two numbers a bundle: 2 * bundle + direction. */
#include "graph_topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "topology_paths.h"

/* Vertices a < b as one number, so that pairs sort by a, then b. */
struct pairs {
  uint64_t *keys;
  size_t n, room;
};

/* All links between the same two nodes. Direction 0 goes from low to high. */
struct bundle {
  uint32_t low, high;   /* nodes */
  uint32_t first;       /* of its links */
  double left[2];       /* bit/s */
  double delay;         /* the least of links that carry; packets take that one */
  uint32_t resource[2]; /* of each direction; UINT32_MAX: not made yet */
  bool uneven;          /* some edge uses one direction more often than the other */
};

struct overlay {
  const struct by_topology *topology;
  struct by_paths paths;
  uint32_t n_terminals, n_vertices;
  uint32_t *node;   /* of each vertex */
  uint32_t *vertex; /* of each node; UINT32_MAX: it only forwards */
  uint32_t most_meshed;
  uint32_t n_bundles;
  struct bundle *bundles;
  uint32_t *bundle_of;          /* of each link */
  struct pairs direct, distant; /* with a link between them; round the same forwarding nodes. Sorted, each once */
  struct by_arena arena;        /* of what is as long as the topology */
};

/* Whether packets between others may pass the node. */
static bool forwards(const struct overlay *overlay, uint32_t node) {
  return overlay->vertex[node] == UINT32_MAX;
}

/* --- which vertices get an edge --- */

static bool add_pair(struct pairs *pairs, uint32_t a, uint32_t b) {
  if (!BY_ARRAY_GROW(&pairs->keys, &pairs->room, pairs->n + 1)) return false;
  pairs->keys[pairs->n++] = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
  return true;
}

static int compare_keys(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Sorts them and leaves each once, without those of `except`, which is sorted. */
static void tidy(struct pairs *pairs, const struct pairs *except) {
  size_t kept = 0, at = 0;
  if (pairs->n) qsort(pairs->keys, pairs->n, sizeof *pairs->keys, compare_keys);
  for (size_t i = 0; i < pairs->n; i++) {
    uint64_t key = pairs->keys[i];
    while (except && at < except->n && except->keys[at] < key) at++;
    bool known = except && at < except->n && except->keys[at] == key;
    if (!known && (!kept || pairs->keys[kept - 1] != key)) pairs->keys[kept++] = key;
  }
  pairs->n = kept;
}

static bool find_direct(struct overlay *overlay) {
  for (uint32_t b = 0; b < overlay->n_bundles; b++) {
    const struct bundle *bundle = &overlay->bundles[b];
    uint32_t v = overlay->vertex[bundle->low], w = overlay->vertex[bundle->high];
    bool joined = v != UINT32_MAX && w != UINT32_MAX && bundle->left[0] > 0 && bundle->left[1] > 0;
    if (joined && !add_pair(&overlay->direct, v, w)) return false;
  }
  tidy(&overlay->direct, NULL);
  return true;
}

/* --- vertices round the same forwarding nodes --- */

/* A walk through forwarding nodes that lists the vertices beside them, rack by rack: deep first, and of the nodes
 * beside one those first that are nearer to some vertex. */
struct walk {
  struct overlay *overlay;
  uint32_t *level;  /* of each forwarding node: links to the nearest vertex; UINT32_MAX: not known */
  bool *done;       /* of each node: the walk has passed it */
  bool *listed;     /* of each vertex, for this walk only */
  uint32_t *stack;  /* forwarding nodes; one waits once for each link */
  uint32_t *queue;  /* for the levels */
  uint32_t *beside; /* the vertices found */
  uint32_t n_stack, n_beside;
};

static uint32_t other_at(const struct overlay *overlay, uint32_t node, uint32_t i) {
  return by_link_other(&overlay->topology->links[overlay->paths.links[i]], node);
}

/* Breadth first from all vertices that do not forward. */
static void find_levels(struct walk *walk) {
  const struct overlay *overlay = walk->overlay;
  uint32_t n = 0;
  for (uint32_t node = 0; node < overlay->topology->n_nodes; node++) walk->level[node] = UINT32_MAX;
  for (uint32_t v = 0; v < overlay->n_vertices; v++) {
    if (forwards(overlay, overlay->node[v])) continue;
    walk->level[overlay->node[v]] = 0;
    walk->queue[n++] = overlay->node[v];
  }
  for (uint32_t at = 0; at < n; at++) {
    uint32_t node = walk->queue[at];
    for (uint32_t i = overlay->paths.first[node]; i < overlay->paths.first[node + 1]; i++) {
      uint32_t other = other_at(overlay, node, i);
      if (walk->level[other] != UINT32_MAX) continue;
      walk->level[other] = walk->level[node] + 1;
      walk->queue[n++] = other;
    }
  }
}

static void list_beside(struct walk *walk, uint32_t node) {
  const struct overlay *overlay = walk->overlay;
  for (uint32_t i = overlay->paths.first[node]; i < overlay->paths.first[node + 1]; i++) {
    uint32_t v = overlay->vertex[other_at(overlay, node, i)];
    if (v == UINT32_MAX || walk->listed[v]) continue;
    walk->listed[v] = true;
    walk->beside[walk->n_beside++] = v;
  }
}

static void push_beside(struct walk *walk, uint32_t node) {
  const struct overlay *overlay = walk->overlay;
  for (uint32_t up = 2; up-- > 0;) /* the nearer ones last, so that they come off first */
    for (uint32_t i = overlay->paths.first[node + 1]; i-- > overlay->paths.first[node];) {
      uint32_t other = other_at(overlay, node, i);
      bool farther = walk->level[other] > walk->level[node];
      if (forwards(overlay, other) && !walk->done[other] && farther == up) walk->stack[walk->n_stack++] = other;
    }
}

static void go(struct walk *walk, uint32_t start) {
  walk->n_beside = 0;
  walk->stack[walk->n_stack++] = start;
  while (walk->n_stack) {
    uint32_t node = walk->stack[--walk->n_stack];
    if (walk->done[node]) continue;
    walk->done[node] = true;
    list_beside(walk, node);
    push_beside(walk, node);
  }
  for (uint32_t i = 0; i < walk->n_beside; i++) walk->listed[walk->beside[i]] = false;
}

static bool find_distant(struct walk *walk) {
  struct overlay *overlay = walk->overlay;
  find_levels(walk);
  for (uint32_t node = 0; node < overlay->topology->n_nodes; node++) {
    if (!forwards(overlay, node) || walk->done[node] || walk->level[node] != 1) continue;
    go(walk, node);
    uint32_t n = walk->n_beside, *beside = walk->beside;
    bool meshed = n <= overlay->most_meshed;
    for (uint32_t i = 0; i < n && meshed; i++)
      for (uint32_t j = 0; j < i; j++)
        if (!add_pair(&overlay->distant, beside[j], beside[i])) return false;
    /* Else each with those 1, 2, 4, ... places on, round and round. */
    for (uint32_t step = 1; step <= n / 2 && !meshed; step *= 2)
      for (uint32_t i = 0; i < n; i++)
        if (!add_pair(&overlay->distant, beside[i], beside[(i + step) % n])) return false;
  }
  tidy(&overlay->distant, &overlay->direct);
  return true;
}

/* Fills `direct` and `distant`. False: no memory. */
static bool find_pairs(struct overlay *overlay) {
  size_t n = overlay->topology->n_nodes, m = overlay->topology->n_links;
  struct walk walk = {.overlay = overlay,
                      .level = BY_ARENA_ARRAY(&overlay->arena, uint32_t, n),
                      .done = BY_ARENA_ARRAY(&overlay->arena, bool, n),
                      .listed = BY_ARENA_ARRAY(&overlay->arena, bool, overlay->n_vertices),
                      .stack = BY_ARENA_ARRAY(&overlay->arena, uint32_t, 2 * m + 1),
                      .queue = BY_ARENA_ARRAY(&overlay->arena, uint32_t, n),
                      .beside = BY_ARENA_ARRAY(&overlay->arena, uint32_t, n)};
  return !overlay->arena.failed && find_direct(overlay) && find_distant(&walk);
}

enum { MESHED = 300 };
#define NONE UINT32_MAX

/* A way from one vertex of a pair to the other. */
struct way {
  size_t at;  /* in `steps` */
  uint32_t n; /* 0: there is none, or another vertex is on it */
  double delay;
};

struct make {
  struct overlay overlay;
  struct by_graph_builder *builder;
  struct way *ways; /* of distant pair p: ways[2p] from its smaller vertex, ways[2p + 1] back */
  uint32_t *steps;
  size_t n_steps, room_steps;
  uint32_t *pair_at; /* distant pairs of vertex v: pairs[pair_at[v] .. pair_at[v + 1]) */
  uint32_t *pairs;
  struct by_next_hop *hops;
  uint32_t *limit;          /* of each node: the resource of its limit; NONE: not made */
  uint32_t *uses;           /* of the edge that is made */
  struct by_origin *origin; /* of each resource */
  uint32_t n_origins;
};

#define bad(...) by_fail(BANYAN_ERR_ARGUMENT, __VA_ARGS__)

/* --- vertices --- */

static const char *name_of(const struct overlay *o, uint32_t node) {
  return o->topology->nodes[node].name;
}

/* What a node may still send and receive. */
static double limit_of(const struct overlay *o, uint32_t node) {
  return fmin(by_residual(o->topology->nodes[node].out), by_residual(o->topology->nodes[node].in));
}

static enum banyan_status add_vertices(struct overlay *o, const uint32_t *nodes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= o->topology->n_nodes) return bad("node number %u is not in the topology", nodes[i]);
    if (o->vertex[nodes[i]] != NONE) return bad("node \"%.64s\" is chosen twice", name_of(o, nodes[i]));
    o->vertex[nodes[i]] = o->n_vertices;
    o->node[o->n_vertices++] = nodes[i];
  }
  return BANYAN_OK;
}

static enum banyan_status choose(struct overlay *o, const struct by_graph_choice *choice) {
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) o->vertex[node] = NONE;
  for (uint32_t node = 0; node < o->topology->n_nodes && !choice->participants; node++)
    if (o->topology->nodes[node].takes_part) BY_TRY(add_vertices(o, &node, 1));
  if (choice->participants) BY_TRY(add_vertices(o, choice->participants, choice->n_participants));
  o->n_terminals = o->n_vertices;
  o->most_meshed = choice->most_meshed ? choice->most_meshed : MESHED;
  if (o->n_terminals < 2) return bad("%u of the hosts take part: trees need two or more", o->n_terminals);
  return add_vertices(o, choice->helpers, choice->helpers ? choice->n_helpers : 0);
}

/* --- links --- */

/* The node's links to nodes of higher numbers. last[]: the bundle made last with such a node. */
static void bundle_links(struct overlay *o, uint32_t node, uint32_t *last) {
  for (uint32_t i = o->paths.first[node]; i < o->paths.first[node + 1]; i++) {
    uint32_t l = o->paths.links[i], other = by_link_other(&o->topology->links[l], node);
    if (other < node) continue;
    if (last[other] == NONE || o->bundles[last[other]].low != node) {
      last[other] = o->n_bundles++;
      o->bundles[last[other]] =
          (struct bundle){.low = node, .high = other, .first = l, .delay = INFINITY, .resource = {NONE, NONE}};
    }
    struct bundle *bundle = &o->bundles[last[other]];
    const struct by_link *link = &o->topology->links[l];
    double there = by_residual(link->capacity[link->a == node ? BY_AB : BY_BA]);
    double back = by_residual(link->capacity[link->a == node ? BY_BA : BY_AB]);
    bundle->left[0] += there;
    bundle->left[1] += back;
    if (there > 0 || back > 0) bundle->delay = fmin(bundle->delay, link->delay);
    o->bundle_of[l] = last[other];
  }
}

/* --- ways --- */

/* Which pairs a vertex is in. */
static enum banyan_status list_pairs(struct make *make) {
  const struct pairs *distant = &make->overlay.distant;
  uint32_t *at = make->pair_at, n = make->overlay.n_vertices;
  make->pairs = BY_ARENA_ARRAY(&make->overlay.arena, uint32_t, 2 * distant->n);
  make->ways = BY_ARENA_ARRAY(&make->overlay.arena, struct way, 2 * distant->n);
  if (!make->pairs || !make->ways) return by_graph_no_memory();
  for (size_t p = 0; p < distant->n; p++) {
    at[distant->keys[p] >> 32]++;
    at[(uint32_t)distant->keys[p]]++;
  }
  for (uint32_t v = 0; v < n; v++) at[v + 1] += at[v];
  for (size_t p = distant->n; p-- > 0;) {
    make->pairs[--at[distant->keys[p] >> 32]] = (uint32_t)p;
    make->pairs[--at[(uint32_t)distant->keys[p]]] = (uint32_t)p;
  }
  return BANYAN_OK;
}

/* Follows the hops from `node` to `to`. A node in between must forward and have something left. */
static enum banyan_status walk(struct make *make, uint32_t node, uint32_t to, struct way *way) {
  const struct overlay *o = &make->overlay;
  *way = (struct way){.at = make->n_steps, .delay = make->hops[node].delay};
  while (node != to) {
    const struct by_next_hop *hop = &make->hops[node];
    bool open = hop->link != NONE && (hop->next == to || (forwards(o, hop->next) && limit_of(o, hop->next) > 0));
    if (!open) {
      make->n_steps = way->at;
      way->n = 0;
      return BANYAN_OK;
    }
    if (!BY_ARRAY_GROW(&make->steps, &make->room_steps, make->n_steps + 1)) return by_graph_no_memory();
    make->steps[make->n_steps++] = 2 * o->bundle_of[hop->link] + (hop->next < node);
    way->n++;
    node = hop->next;
  }
  return BANYAN_OK;
}

static enum banyan_status find_ways(struct make *make) {
  const struct overlay *o = &make->overlay;
  BY_TRY(list_pairs(make));
  for (uint32_t v = 0; v < o->n_vertices; v++) {
    if (make->pair_at[v] == make->pair_at[v + 1]) continue;
    BY_TRY(by_paths_between(&o->paths, o->node[v], o->node, o->n_vertices, make->hops));
    for (uint32_t i = make->pair_at[v]; i < make->pair_at[v + 1]; i++) {
      uint32_t p = make->pairs[i], a = (uint32_t)(o->distant.keys[p] >> 32), b = (uint32_t)o->distant.keys[p];
      BY_TRY(walk(make, o->node[v == a ? b : a], o->node[v], &make->ways[2 * (size_t)p + (v == a)]));
    }
  }
  return BANYAN_OK;
}

/* Where a pair's two ways do not use the same links in both directions, those have two resources. */
static void mark_uneven(struct make *make, size_t p) {
  const struct way *there = &make->ways[2 * p], *back = &make->ways[2 * p + 1];
  for (int turn = 0; turn < 2; turn++) {
    const struct way *one = turn ? back : there, *other = turn ? there : back;
    for (uint32_t i = 0; i < one->n; i++) {
      uint32_t step = make->steps[one->at + i], j = 0;
      while (j < other->n && make->steps[other->at + j] != (step ^ 1)) j++;
      if (j == other->n) make->overlay.bundles[step / 2].uneven = true;
    }
  }
}

/* --- edges --- */

static uint32_t add_resource(struct make *make, double capacity, struct by_origin origin) {
  uint32_t r = by_graph_add_resource(make->builder, capacity);
  if (r == make->n_origins) make->origin[make->n_origins++] = origin;
  return r;
}

/* The resource of a directed bundle; NONE: its other direction stands for both. */
static uint32_t resource_of(struct make *make, uint32_t step) {
  struct bundle *bundle = &make->overlay.bundles[step / 2];
  uint32_t way = step % 2;
  bool uneven = bundle->uneven, back = (make->overlay.topology->links[bundle->first].a == bundle->high) != way;
  if (!uneven && way) return NONE;
  if (bundle->resource[way] == NONE)
    bundle->resource[way] = add_resource(
        make, uneven ? bundle->left[way] : fmin(bundle->left[0], bundle->left[1]),
        (struct by_origin){.kind = BY_ORIGIN_LINK, .index = bundle->first, .way = {!uneven || !back, !uneven || back}});
  return bundle->resource[way];
}

static void use_node(struct make *make, uint32_t node, uint32_t *n) {
  double limit = limit_of(&make->overlay, node);
  if (isinf(limit)) return;
  if (make->limit[node] == NONE)
    make->limit[node] = add_resource(make, limit, (struct by_origin){.kind = BY_ORIGIN_NODE, .index = node});
  make->uses[(*n)++] = make->limit[node];
}

/* A way as its steps. */
struct route {
  const uint32_t *steps;
  uint32_t n;
  double delay;
};

/* Adds what a way loads: its links, and the nodes between them, each once for what it sends and receives this way. */
static void use_way(struct make *make, const struct route *route, uint32_t *n) {
  for (uint32_t i = 0; i < route->n; i++) {
    const struct bundle *bundle = &make->overlay.bundles[route->steps[i] / 2];
    uint32_t r = resource_of(make, route->steps[i]);
    if (r != NONE) make->uses[(*n)++] = r;
    if (i > 0) use_node(make, route->steps[i] % 2 ? bundle->high : bundle->low, n);
  }
}

static void add_edge(struct make *make, uint32_t a, uint32_t b, struct route there, struct route back) {
  const struct overlay *o = &make->overlay;
  uint32_t n = 0;
  if (!there.n || !back.n || !(limit_of(o, o->node[a]) > 0) || !(limit_of(o, o->node[b]) > 0)) return;
  use_way(make, &there, &n);
  use_way(make, &back, &n);
  use_node(make, o->node[a], &n);
  use_node(make, o->node[b], &n);
  by_graph_add_edge(make->builder, a, b, fmax(there.delay, back.delay), make->uses, n);
}

static struct route route_of(const struct make *make, size_t way) {
  const struct way *of = &make->ways[way];
  return (struct route){.steps = of->n ? make->steps + of->at : NULL, .n = of->n, .delay = of->delay};
}

static void add_edges(struct make *make) {
  const struct overlay *o = &make->overlay;
  const struct pairs *distant = &o->distant;
  for (size_t p = 0; p < distant->n; p++)
    if (make->ways[2 * p].n && make->ways[2 * p + 1].n) mark_uneven(make, p);
  for (uint32_t i = 0; i < o->n_bundles; i++) {
    const struct bundle *bundle = &o->bundles[i];
    uint32_t v = o->vertex[bundle->low], w = o->vertex[bundle->high], steps[] = {2 * i, 2 * i + 1};
    if (v == NONE || w == NONE || !(bundle->left[0] > 0) || !(bundle->left[1] > 0)) continue;
    add_edge(make, v, w, (struct route){.steps = steps, .n = 1, .delay = bundle->delay},
             (struct route){.steps = steps + 1, .n = 1, .delay = bundle->delay});
  }
  for (size_t p = 0; p < distant->n; p++)
    add_edge(make, (uint32_t)(distant->keys[p] >> 32), (uint32_t)distant->keys[p], route_of(make, 2 * p),
             route_of(make, 2 * p + 1));
}

/* --- all of it --- */

static enum banyan_status take_arrays(struct make *make) {
  struct overlay *o = &make->overlay;
  size_t n = o->topology->n_nodes, m = o->topology->n_links;
  o->node = BY_ARENA_ARRAY(&o->arena, uint32_t, n);
  o->vertex = BY_ARENA_ARRAY(&o->arena, uint32_t, n);
  o->bundles = BY_ARENA_ARRAY(&o->arena, struct bundle, m);
  o->bundle_of = BY_ARENA_ARRAY(&o->arena, uint32_t, m);
  make->pair_at = BY_ARENA_ARRAY(&o->arena, uint32_t, n + 1);
  make->hops = BY_ARENA_ARRAY(&o->arena, struct by_next_hop, n);
  make->limit = BY_ARENA_ARRAY(&o->arena, uint32_t, n);
  /* Two ways, each over every node and link at most once. */
  make->uses = BY_ARENA_ARRAY(&o->arena, uint32_t, 4 * n + 4);
  make->origin = BY_ARENA_ARRAY(&o->arena, struct by_origin, 2 * m + n);
  if (o->arena.failed) return by_graph_no_memory();
  for (size_t node = 0; node < n; node++) make->limit[node] = NONE;
  return BANYAN_OK;
}

/* The graph would be refused too, but only here there are names. Uses pair_at, which is not needed any more. */
static enum banyan_status check_reach(struct make *make) {
  const struct overlay *o = &make->overlay;
  const struct by_graph_builder *builder = make->builder;
  uint32_t lost =
      by_graph_find_unreached(builder->edges, builder->n_edges, o->n_terminals, o->n_vertices, make->pair_at);
  if (!lost) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TOPOLOGY,
                 "hosts \"%.64s\" and \"%.64s\" are to take part, but cannot reach each other in both directions "
                 "with what others leave of links and machines",
                 name_of(o, o->node[0]), name_of(o, o->node[lost]));
}

static enum banyan_status make_graph(struct make *make, const struct by_graph_choice *choice, struct by_graph **out) {
  struct overlay *o = &make->overlay;
  BY_TRY(take_arrays(make));
  BY_TRY(by_paths_init(&o->paths, o->topology));
  BY_TRY(choose(o, choice));
  uint32_t *last = BY_ARENA_ARRAY(&o->arena, uint32_t, o->topology->n_nodes);
  if (!last) return by_graph_no_memory();
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) last[node] = NONE;
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) bundle_links(o, node, last);
  if (!find_pairs(o)) return by_graph_no_memory();
  BY_TRY(find_ways(make));
  by_graph_builder_init(make->builder, o->n_terminals, o->n_vertices);
  add_edges(make);
  if (make->builder->status == BANYAN_OK) BY_TRY(check_reach(make));
  BY_TRY(by_graph_finish(make->builder, out));
  struct by_graph *graph = *out;
  graph->node = BY_ARENA_ARRAY(&graph->arena, uint32_t, graph->n_vertices);
  graph->origin = BY_ARENA_ARRAY(&graph->arena, struct by_origin, graph->n_resources);
  if (!graph->node || !graph->origin) return by_graph_no_memory();
  memcpy(graph->node, o->node, graph->n_vertices * sizeof *graph->node);
  memcpy(graph->origin, make->origin, graph->n_resources * sizeof *graph->origin);
  return BANYAN_OK;
}

enum banyan_status by_graph_of_topology(const struct by_topology *topology, const struct by_graph_choice *choice,
                                        struct by_graph **out) {
  static const struct by_graph_choice none = {0};
  struct by_graph_builder builder = {0};
  struct make make = {.overlay = {.topology = topology}, .builder = &builder};
  struct by_graph *graph = NULL;
  enum banyan_status status = make_graph(&make, choice ? choice : &none, &graph);
  by_paths_fini(&make.overlay.paths);
  by_graph_builder_fini(&builder);
  by_arena_fini(&make.overlay.arena);
  free(make.overlay.direct.keys);
  free(make.overlay.distant.keys);
  free(make.steps);
  if (status == BANYAN_OK)
    *out = graph;
  else
    by_graph_destroy(graph);
  return status;
}

static bool has_equal_directions(const struct by_topology *topology) {
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_capacity *way = topology->links[i].capacity;
    if (by_residual(way[BY_AB]) != by_residual(way[BY_BA])) return false;
  }
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (by_residual(topology->nodes[v].out) != by_residual(topology->nodes[v].in)) return false;
  return true;
}

/* A vertex with several links, of which one leads to a node that forwards. True where memory is out, since it may be
 * so. */
static bool has_interfaces(const struct by_graph *graph, const struct by_topology *topology) {
  enum { VERTEX = 1, LINKED = 2, SEVERAL = 4, FORWARDED = 8 };
  uint8_t *seen = calloc(topology->n_nodes, sizeof *seen);
  bool found = !seen;
  for (uint32_t i = 0; seen && i < graph->n_vertices; i++) seen[graph->node[i]] = VERTEX;
  for (uint32_t i = 0; seen && i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    const uint32_t ends[2] = {link->a, link->b};
    for (int end = 0; end < 2 && by_link_carries(link, link->a) && by_link_carries(link, link->b); end++) {
      seen[ends[end]] |= seen[ends[end]] & LINKED ? SEVERAL : LINKED;
      if (!(seen[ends[!end]] & VERTEX)) seen[ends[end]] |= FORWARDED;
    }
  }
  for (uint32_t i = 0; seen && i < graph->n_vertices; i++)
    found = found || (seen[graph->node[i]] & (SEVERAL | FORWARDED)) == (SEVERAL | FORWARDED);
  free(seen);
  return found;
}

const char *by_graph_bound_scope(const struct by_graph *graph, const struct by_topology *topology) {
  bool all = has_equal_directions(topology) && !has_interfaces(graph, topology);
  return all ? NULL : "plans of undirected trees over one path between hosts";
}
