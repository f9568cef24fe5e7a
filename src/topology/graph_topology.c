/* Makes the graph of a topology: first it selects the pairs of vertices that get an edge, then finds the paths of one
 * destination after the other, then adds the edges. A path is a list of steps, one for each bundle of links on it: 2 *
 * bundle + direction. */
#include "graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "topology_paths.h"

/* Pairs of vertices a < b, each as one number that sorts by a, then b. */
struct pairs {
  uint64_t *keys;
  size_t n, allocated;
};

/* All links between the same two nodes. Direction 0 leads from `low` to `high`. */
struct bundle {
  uint32_t low, high;   /* nodes */
  uint32_t first;       /* its first link */
  double left[2];       /* the residual capacity in each direction, in bit/s */
  double delay;         /* the smallest delay of the usable links, which packets take */
  uint32_t resource[2]; /* the resource of each direction; UINT32_MAX: none yet */
  bool uneven;          /* Some edge uses one direction more often than the other. */
};

struct overlay {
  const struct by_topology *topology;
  struct by_paths paths;
  uint32_t n_terminals, n_vertices;
  uint32_t *node;   /* the node of each vertex */
  uint32_t *vertex; /* the vertex of each node; UINT32_MAX: the node only forwards */
  uint32_t max_meshed;
  uint32_t n_bundles;
  struct bundle *bundles;
  uint32_t *bundle_of;          /* the bundle of each link */
  struct pairs direct, distant; /* Pairs with a link between them, and pairs around the same forwarding nodes. Sorted,
                                   without repetitions. */
  struct by_arena arena;        /* memory for the arrays that are as long as the topology */
};

/* Whether packets between other nodes may pass the node. */
static bool only_forwards(const struct overlay *overlay, uint32_t node) {
  return overlay->vertex[node] == UINT32_MAX;
}

/* --- Selects the pairs that get an edge. --- */

static bool add_pair(struct pairs *pairs, uint32_t a, uint32_t b) {
  if (!BY_ARRAY_GROW(&pairs->keys, &pairs->allocated, pairs->n + 1)) return false;
  pairs->keys[pairs->n++] = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
  return true;
}

static int compare_keys(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Sorts the pairs, and removes repetitions and those of `except`, which is sorted. */
static void sort_and_deduplicate(struct pairs *pairs, const struct pairs *except) {
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

static bool find_direct_pairs(struct overlay *overlay) {
  for (uint32_t b = 0; b < overlay->n_bundles; b++) {
    const struct bundle *bundle = &overlay->bundles[b];
    uint32_t v = overlay->vertex[bundle->low], w = overlay->vertex[bundle->high];
    bool joined = v != UINT32_MAX && w != UINT32_MAX && bundle->left[0] > 0 && bundle->left[1] > 0;
    if (joined && !add_pair(&overlay->direct, v, w)) return false;
  }
  sort_and_deduplicate(&overlay->direct, NULL);
  return true;
}

/* --- Vertices around the same forwarding nodes. --- */

/* A depth-first walk through forwarding nodes that lists the vertices beside them, rack by rack. Of the neighbours of a
 * node those come first that are nearer to some vertex. */
struct walk {
  struct overlay *overlay;
  uint32_t *level;  /* the number of links to the nearest vertex, for each forwarding node; UINT32_MAX: not known */
  bool *done;       /* for each node: the walk has passed it */
  bool *listed;     /* for each vertex: this walk has listed it */
  uint32_t *stack;  /* forwarding nodes to visit, one entry for each link */
  uint32_t *queue;  /* the queue of the search for levels */
  uint32_t *beside; /* the vertices found */
  uint32_t n_stack, n_beside;
};

static uint32_t get_neighbour(const struct overlay *overlay, uint32_t node, uint32_t i) {
  return by_link_other(&overlay->topology->links[overlay->paths.links[i]], node);
}

/* Sets the levels, breadth first from all vertices that do not forward. */
static void find_levels(struct walk *walk) {
  const struct overlay *overlay = walk->overlay;
  uint32_t n = 0;
  for (uint32_t node = 0; node < overlay->topology->n_nodes; node++) walk->level[node] = UINT32_MAX;
  for (uint32_t v = 0; v < overlay->n_vertices; v++) {
    if (only_forwards(overlay, overlay->node[v])) continue;
    walk->level[overlay->node[v]] = 0;
    walk->queue[n++] = overlay->node[v];
  }
  for (uint32_t at = 0; at < n; at++) {
    uint32_t node = walk->queue[at];
    for (uint32_t i = overlay->paths.first[node]; i < overlay->paths.first[node + 1]; i++) {
      uint32_t other = get_neighbour(overlay, node, i);
      if (walk->level[other] != UINT32_MAX) continue;
      walk->level[other] = walk->level[node] + 1;
      walk->queue[n++] = other;
    }
  }
}

static void list_beside(struct walk *walk, uint32_t node) {
  const struct overlay *overlay = walk->overlay;
  for (uint32_t i = overlay->paths.first[node]; i < overlay->paths.first[node + 1]; i++) {
    uint32_t v = overlay->vertex[get_neighbour(overlay, node, i)];
    if (v == UINT32_MAX || walk->listed[v]) continue;
    walk->listed[v] = true;
    walk->beside[walk->n_beside++] = v;
  }
}

static void push_beside(struct walk *walk, uint32_t node) {
  const struct overlay *overlay = walk->overlay;
  for (uint32_t up = 2; up-- > 0;) /* The nearer nodes are pushed last and thus visited first. */
    for (uint32_t i = overlay->paths.first[node + 1]; i-- > overlay->paths.first[node];) {
      uint32_t other = get_neighbour(overlay, node, i);
      bool farther = walk->level[other] > walk->level[node];
      if (only_forwards(overlay, other) && !walk->done[other] && farther == up) walk->stack[walk->n_stack++] = other;
    }
}

static void walk_from(struct walk *walk, uint32_t start) {
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

static bool find_distant_pairs(struct walk *walk) {
  struct overlay *overlay = walk->overlay;
  find_levels(walk);
  for (uint32_t node = 0; node < overlay->topology->n_nodes; node++) {
    if (!only_forwards(overlay, node) || walk->done[node] || walk->level[node] != 1) continue;
    walk_from(walk, node);
    uint32_t n = walk->n_beside, *beside = walk->beside;
    bool meshed = n <= overlay->max_meshed;
    for (uint32_t i = 0; i < n && meshed; i++)
      for (uint32_t j = 0; j < i; j++)
        if (!add_pair(&overlay->distant, beside[j], beside[i])) return false;
    /* Many vertices are each joined with those 1, 2, 4, ... positions on, in a circle. */
    for (uint32_t step = 1; step <= n / 2 && !meshed; step *= 2)
      for (uint32_t i = 0; i < n; i++)
        if (!add_pair(&overlay->distant, beside[i], beside[(i + step) % n])) return false;
  }
  sort_and_deduplicate(&overlay->distant, &overlay->direct);
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
  return !overlay->arena.failed && find_direct_pairs(overlay) && find_distant_pairs(&walk);
}

enum { MESHED = 300 };
#define NONE UINT32_MAX

/* The path from one vertex of a pair to the other. */
struct stored_route {
  size_t at;  /* the index of its first step in `steps` */
  uint32_t n; /* the number of steps; 0: there is no path, or another vertex is on it */
  double delay;
};

struct make {
  struct overlay overlay;
  struct by_graph_builder *builder;
  struct stored_route
      *routes; /* the paths of distant pair p: routes[2p] from its smaller vertex, routes[2p + 1] back */
  uint32_t *steps;
  size_t n_steps, allocated_steps;
  uint32_t *pair_at; /* the distant pairs of vertex v: pairs[pair_at[v] .. pair_at[v + 1]) */
  uint32_t *pairs;
  struct by_next_hop *hops;
  uint32_t *limit;          /* the resource of each node's limit; NONE: not made */
  uint32_t *uses;           /* the resources of the edge that is being made */
  struct by_origin *origin; /* what each resource stands for */
  uint32_t n_origins;
};

#define bad(...) by_fail(BANYAN_ERR_ARGUMENT, __VA_ARGS__)

static const char *get_name(const struct overlay *o, uint32_t node) {
  return o->topology->nodes[node].name;
}

/* Returns how much a node can still send and receive. */
static double get_limit(const struct overlay *o, uint32_t node) {
  return fmin(by_residual(o->topology->nodes[node].out), by_residual(o->topology->nodes[node].in));
}

static enum banyan_status add_vertices(struct overlay *o, const uint32_t *nodes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= o->topology->n_nodes) return bad("node number %u is not in the topology", nodes[i]);
    if (o->vertex[nodes[i]] != NONE) return bad("node \"%.64s\" is chosen twice", get_name(o, nodes[i]));
    o->vertex[nodes[i]] = o->n_vertices;
    o->node[o->n_vertices++] = nodes[i];
  }
  return BANYAN_OK;
}

static enum banyan_status choose_vertices(struct overlay *o, const struct by_graph_choice *choice) {
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) o->vertex[node] = NONE;
  for (uint32_t node = 0; node < o->topology->n_nodes && !choice->participants; node++)
    if (o->topology->nodes[node].takes_part) BY_TRY(add_vertices(o, &node, 1));
  if (choice->participants) BY_TRY(add_vertices(o, choice->participants, choice->n_participants));
  o->n_terminals = o->n_vertices;
  o->max_meshed = choice->max_meshed ? choice->max_meshed : MESHED;
  if (o->n_terminals < 2) return bad("%u of the hosts take part: trees need two or more", o->n_terminals);
  return add_vertices(o, choice->helpers, choice->helpers ? choice->n_helpers : 0);
}

/* Adds the node's links to nodes of higher numbers to bundles. */
static void bundle_links(struct overlay *o, uint32_t node) {
  for (uint32_t i = o->paths.first[node]; i < o->paths.first[node + 1]; i++) {
    uint32_t l = o->paths.links[i], other = by_link_other(&o->topology->links[l], node), first = o->paths.bundle[l];
    if (other < node) continue;
    if (first == l)
      o->bundles[o->n_bundles++] =
          (struct bundle){.low = node, .high = other, .first = l, .delay = INFINITY, .resource = {NONE, NONE}};
    o->bundle_of[l] = first == l ? o->n_bundles - 1 : o->bundle_of[first];
    struct bundle *bundle = &o->bundles[o->bundle_of[l]];
    const struct by_link *link = &o->topology->links[l];
    double there = by_residual(link->capacity[link->a == node ? BY_AB : BY_BA]);
    double back = by_residual(link->capacity[link->a == node ? BY_BA : BY_AB]);
    bundle->left[0] += there;
    bundle->left[1] += back;
    if (there > 0 || back > 0) bundle->delay = fmin(bundle->delay, link->delay);
  }
}

/* --- Paths. --- */

/* Lists the pairs of each vertex. */
static enum banyan_status list_pairs(struct make *make) {
  const struct pairs *distant = &make->overlay.distant;
  uint32_t *at = make->pair_at, n = make->overlay.n_vertices;
  make->pairs = BY_ARENA_ARRAY(&make->overlay.arena, uint32_t, 2 * distant->n);
  make->routes = BY_ARENA_ARRAY(&make->overlay.arena, struct stored_route, 2 * distant->n);
  if (!make->pairs || !make->routes) return by_graph_no_memory();
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

/* Follows the hops from `node` to `to`. Nodes between them must forward and have residual capacity. */
static enum banyan_status store_route(struct make *make, uint32_t node, uint32_t to, struct stored_route *route) {
  const struct overlay *o = &make->overlay;
  *route = (struct stored_route){.at = make->n_steps, .delay = make->hops[node].delay};
  while (node != to) {
    const struct by_next_hop *hop = &make->hops[node];
    bool open = hop->link != NONE && (hop->next == to || (only_forwards(o, hop->next) && get_limit(o, hop->next) > 0));
    if (!open) {
      make->n_steps = route->at;
      route->n = 0;
      return BANYAN_OK;
    }
    if (!BY_ARRAY_GROW(&make->steps, &make->allocated_steps, make->n_steps + 1)) return by_graph_no_memory();
    make->steps[make->n_steps++] = 2 * o->bundle_of[hop->link] + (hop->next < node);
    route->n++;
    node = hop->next;
  }
  return BANYAN_OK;
}

static enum banyan_status find_routes(struct make *make) {
  const struct overlay *o = &make->overlay;
  BY_TRY(list_pairs(make));
  for (uint32_t v = 0; v < o->n_vertices; v++) {
    if (make->pair_at[v] == make->pair_at[v + 1]) continue;
    BY_TRY(by_paths_between(&o->paths, o->node[v], o->node, o->n_vertices, make->hops));
    for (uint32_t i = make->pair_at[v]; i < make->pair_at[v + 1]; i++) {
      uint32_t p = make->pairs[i], a = (uint32_t)(o->distant.keys[p] >> 32), b = (uint32_t)o->distant.keys[p];
      BY_TRY(store_route(make, o->node[v == a ? b : a], o->node[v], &make->routes[2 * (size_t)p + (v == a)]));
    }
  }
  return BANYAN_OK;
}

/* Links that a pair's two paths do not use equally in both directions get two resources. */
static void mark_uneven(struct make *make, size_t p) {
  const struct stored_route *there = &make->routes[2 * p], *back = &make->routes[2 * p + 1];
  for (int turn = 0; turn < 2; turn++) {
    const struct stored_route *one = turn ? back : there, *other = turn ? there : back;
    for (uint32_t i = 0; i < one->n; i++) {
      uint32_t step = make->steps[one->at + i], j = 0;
      while (j < other->n && make->steps[other->at + j] != (step ^ 1)) j++;
      if (j == other->n) make->overlay.bundles[step / 2].uneven = true;
    }
  }
}

/* --- Edges. --- */

static uint32_t add_resource(struct make *make, double capacity, struct by_origin origin) {
  uint32_t r = by_graph_add_resource(make->builder, capacity);
  if (r == make->n_origins) make->origin[make->n_origins++] = origin;
  return r;
}

/* Returns the resource of a directed bundle; NONE: that of the other direction stands for both. */
static uint32_t get_resource(struct make *make, uint32_t step) {
  struct bundle *bundle = &make->overlay.bundles[step / 2];
  uint32_t direction = step % 2;
  bool uneven = bundle->uneven, back = (make->overlay.topology->links[bundle->first].a == bundle->high) != direction;
  if (!uneven && direction) return NONE;
  if (bundle->resource[direction] == NONE)
    bundle->resource[direction] = add_resource(
        make, uneven ? bundle->left[direction] : fmin(bundle->left[0], bundle->left[1]),
        (struct by_origin){
            .kind = BY_ORIGIN_LINK, .index = bundle->first, .direction = {!uneven || !back, !uneven || back}});
  return bundle->resource[direction];
}

static void add_node_use(struct make *make, uint32_t node, uint32_t *n) {
  double limit = get_limit(&make->overlay, node);
  if (isinf(limit)) return;
  if (make->limit[node] == NONE)
    make->limit[node] = add_resource(make, limit, (struct by_origin){.kind = BY_ORIGIN_NODE, .index = node});
  make->uses[(*n)++] = make->limit[node];
}

/* The steps of a path. */
struct route {
  const uint32_t *steps;
  uint32_t n;
  double delay;
};

/* Adds what a path loads: its links, and the nodes between them, each once for what it sends and once for what it
 * receives. */
static void add_route_uses(struct make *make, const struct route *route, uint32_t *n) {
  for (uint32_t i = 0; i < route->n; i++) {
    const struct bundle *bundle = &make->overlay.bundles[route->steps[i] / 2];
    uint32_t r = get_resource(make, route->steps[i]);
    if (r != NONE) make->uses[(*n)++] = r;
    if (i > 0) add_node_use(make, route->steps[i] % 2 ? bundle->high : bundle->low, n);
  }
}

static void add_edge(struct make *make, uint32_t a, uint32_t b, struct route there, struct route back) {
  const struct overlay *o = &make->overlay;
  uint32_t n = 0;
  if (!there.n || !back.n || !(get_limit(o, o->node[a]) > 0) || !(get_limit(o, o->node[b]) > 0)) return;
  add_route_uses(make, &there, &n);
  add_route_uses(make, &back, &n);
  add_node_use(make, o->node[a], &n);
  add_node_use(make, o->node[b], &n);
  by_graph_add_edge(make->builder, a, b, fmax(there.delay, back.delay), make->uses, n);
}

static struct route get_route(const struct make *make, size_t i) {
  const struct stored_route *of = &make->routes[i];
  return (struct route){.steps = of->n ? make->steps + of->at : NULL, .n = of->n, .delay = of->delay};
}

static void add_edges(struct make *make) {
  const struct overlay *o = &make->overlay;
  const struct pairs *distant = &o->distant;
  for (size_t p = 0; p < distant->n; p++)
    if (make->routes[2 * p].n && make->routes[2 * p + 1].n) mark_uneven(make, p);
  for (uint32_t i = 0; i < o->n_bundles; i++) {
    const struct bundle *bundle = &o->bundles[i];
    uint32_t v = o->vertex[bundle->low], w = o->vertex[bundle->high], steps[] = {2 * i, 2 * i + 1};
    if (v == NONE || w == NONE || !(bundle->left[0] > 0) || !(bundle->left[1] > 0)) continue;
    add_edge(make, v, w, (struct route){.steps = steps, .n = 1, .delay = bundle->delay},
             (struct route){.steps = steps + 1, .n = 1, .delay = bundle->delay});
  }
  for (size_t p = 0; p < distant->n; p++)
    add_edge(make, (uint32_t)(distant->keys[p] >> 32), (uint32_t)distant->keys[p], get_route(make, 2 * p),
             get_route(make, 2 * p + 1));
}

/* --- The graph. --- */

static enum banyan_status allocate_arrays(struct make *make) {
  struct overlay *o = &make->overlay;
  size_t n = o->topology->n_nodes, m = o->topology->n_links;
  o->node = BY_ARENA_ARRAY(&o->arena, uint32_t, n);
  o->vertex = BY_ARENA_ARRAY(&o->arena, uint32_t, n);
  o->bundles = BY_ARENA_ARRAY(&o->arena, struct bundle, m);
  o->bundle_of = BY_ARENA_ARRAY(&o->arena, uint32_t, m);
  make->pair_at = BY_ARENA_ARRAY(&o->arena, uint32_t, n + 1);
  make->hops = BY_ARENA_ARRAY(&o->arena, struct by_next_hop, n);
  make->limit = BY_ARENA_ARRAY(&o->arena, uint32_t, n);
  /* An edge has two paths, each over every node and link at most once. */
  make->uses = BY_ARENA_ARRAY(&o->arena, uint32_t, 4 * n + 4);
  make->origin = BY_ARENA_ARRAY(&o->arena, struct by_origin, 2 * m + n);
  if (o->arena.failed) return by_graph_no_memory();
  for (size_t node = 0; node < n; node++) make->limit[node] = NONE;
  return BANYAN_OK;
}

/* Checks that all terminals are connected, here where the nodes' names are known. It overwrites pair_at, which is not
 * needed any more. */
static enum banyan_status check_reach(struct make *make) {
  const struct overlay *o = &make->overlay;
  const struct by_graph_builder *builder = make->builder;
  uint32_t lost =
      by_graph_find_unreached(builder->edges, builder->n_edges, o->n_terminals, o->n_vertices, make->pair_at);
  if (!lost) return BANYAN_OK;
  return by_fail(BANYAN_ERR_TOPOLOGY,
                 "hosts \"%.64s\" and \"%.64s\" are to take part, but cannot reach each other in both directions "
                 "with what others leave of links and machines",
                 get_name(o, o->node[0]), get_name(o, o->node[lost]));
}

static enum banyan_status make_graph(struct make *make, const struct by_graph_choice *choice, struct by_graph **out) {
  struct overlay *o = &make->overlay;
  BY_TRY(allocate_arrays(make));
  BY_TRY(by_paths_init(&o->paths, o->topology));
  BY_TRY(choose_vertices(o, choice));
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) bundle_links(o, node);
  if (!find_pairs(o)) return by_graph_no_memory();
  BY_TRY(find_routes(make));
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
    const struct by_capacity *capacity = topology->links[i].capacity;
    if (by_residual(capacity[BY_AB]) != by_residual(capacity[BY_BA])) return false;
  }
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (by_residual(topology->nodes[v].out) != by_residual(topology->nodes[v].in)) return false;
  return true;
}

/* Whether a vertex has several links, one of them to a forwarding node. Without memory the answer is true, to be safe.
 */
static bool has_interfaces(const struct by_graph *graph, const struct by_topology *topology) {
  enum { VERTEX = 1, LINKED = 2, SEVERAL = 4, FORWARDED = 8 };
  uint8_t *seen = calloc(topology->n_nodes, sizeof *seen);
  bool found = !seen;
  for (uint32_t i = 0; seen && i < graph->n_vertices; i++) seen[graph->node[i]] = VERTEX;
  for (uint32_t i = 0; seen && i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    const uint32_t ends[2] = {link->a, link->b};
    for (int end = 0; end < 2 && by_link_carries_both(link); end++) {
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
