/* First who is to be joined (graph_pairs.c), then over what, one destination after the other, then the edges. Ways are
 * kept as the directed bundles of links that they use, two numbers a bundle: 2 * bundle + direction. */
#include "graph_topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "graph_make.h"
#include "graph_overlay.h"
#include "leader.h"

enum { MESHED = 300 };
#define NONE UINT32_MAX

/* A way from one vertex of a pair to the other. */
struct way {
  size_t at;  /* in `steps` */
  uint32_t n; /* 0: there is none, or another vertex is on it */
  double delay;
};

struct make {
  struct by_overlay overlay;
  struct by_graph_builder *builder;
  struct way *ways; /* of distant pair p: ways[2p] from its smaller vertex, ways[2p + 1] back */
  uint32_t *steps;
  size_t n_steps, room_steps;
  uint32_t *pair_at; /* distant pairs of vertex v: pairs[pair_at[v] .. pair_at[v + 1]) */
  uint32_t *pairs;
  struct by_hop *hops;
  uint32_t *limit;          /* of each node: the resource of its limit; NONE: not made */
  uint32_t *uses;           /* of the edge that is made */
  struct by_origin *origin; /* of each resource */
  uint32_t n_origins;
};

static enum banyan_status no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the graph of the planner");
  return BANYAN_ERR_NO_MEMORY;
}

#define bad(...) by_fail(BANYAN_ERR_ARGUMENT, __VA_ARGS__)

/* --- vertices --- */

static const char *name_of(const struct by_overlay *o, uint32_t node) {
  return o->topology->nodes[node].name;
}

/* What a node may still send and receive. */
static double limit_of(const struct by_overlay *o, uint32_t node) {
  return fmin(by_residual(o->topology->nodes[node].out), by_residual(o->topology->nodes[node].in));
}

static enum banyan_status add_vertices(struct by_overlay *o, const uint32_t *nodes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (nodes[i] >= o->topology->n_nodes) return bad("node number %u is not in the topology", nodes[i]);
    if (o->vertex[nodes[i]] != NONE) return bad("node \"%.64s\" is chosen twice", name_of(o, nodes[i]));
    o->vertex[nodes[i]] = o->n_vertices;
    o->node[o->n_vertices++] = nodes[i];
  }
  return BANYAN_OK;
}

static enum banyan_status choose(struct by_overlay *o, const struct by_graph_choice *choice) {
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) o->vertex[node] = NONE;
  for (uint32_t node = 0; node < o->topology->n_nodes && !choice->participants; node++)
    if (o->topology->nodes[node].takes_part) BY_TRY(add_vertices(o, &node, 1));
  if (choice->participants) BY_TRY(add_vertices(o, choice->participants, choice->n_participants));
  o->n_terminals = o->n_vertices;
  o->switches_forward = choice->switches_forward;
  o->most_meshed = choice->most_meshed ? choice->most_meshed : MESHED;
  if (o->n_terminals < 2) return bad("%u of the hosts take part: trees need two or more", o->n_terminals);
  return add_vertices(o, choice->helpers, choice->helpers ? choice->n_helpers : 0);
}

/* --- links --- */

static void add_link(struct by_overlay *o, struct by_bundle *bundle, uint32_t l) {
  const struct by_link *link = &o->topology->links[l];
  double there = by_residual(link->capacity[link->a == bundle->low ? BY_AB : BY_BA]);
  double back = by_residual(link->capacity[link->a == bundle->low ? BY_BA : BY_AB]);
  bundle->left[0] += there;
  bundle->left[1] += back;
  if (there > 0 || back > 0) bundle->delay = fmin(bundle->delay, link->delay);
  o->bundle_of[l] = (uint32_t)(bundle - o->bundles);
}

/* The node's links to nodes of higher numbers. last[]: the bundle made last with such a node. */
static void bundle_links(struct by_overlay *o, uint32_t node, uint32_t *last) {
  for (uint32_t i = o->paths.first[node]; i < o->paths.first[node + 1]; i++) {
    uint32_t l = o->paths.links[i], other = by_link_other(&o->topology->links[l], node);
    if (other < node) continue;
    if (last[other] == NONE || o->bundles[last[other]].low != node) {
      last[other] = o->n_bundles++;
      o->bundles[last[other]] =
          (struct by_bundle){.low = node, .high = other, .first = l, .delay = INFINITY, .resource = {NONE, NONE}};
    }
    add_link(o, &o->bundles[last[other]], l);
  }
}

static enum banyan_status find_bundles(struct by_overlay *o) {
  uint32_t *last = malloc((size_t)o->topology->n_nodes * sizeof *last);
  if (!last) return no_memory();
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) last[node] = NONE;
  for (uint32_t node = 0; node < o->topology->n_nodes; node++) bundle_links(o, node, last);
  free(last);
  return BANYAN_OK;
}

/* --- ways --- */

/* Which pairs a vertex is in. */
static enum banyan_status list_pairs(struct make *make) {
  const struct by_pairs *distant = &make->overlay.distant;
  uint32_t *at = make->pair_at, n = make->overlay.n_vertices;
  make->pairs = calloc(2 * distant->n + 1, sizeof *make->pairs);
  make->ways = calloc(2 * distant->n + 1, sizeof *make->ways);
  if (!make->pairs || !make->ways) return no_memory();
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

static bool add_step(struct make *make, uint32_t step) {
  if (!BY_ARRAY_GROW(&make->steps, &make->room_steps, make->n_steps + 1)) return false;
  make->steps[make->n_steps++] = step;
  return true;
}

/* Follows the hops from `node` to `to`. A node in between must forward and have something left. */
static enum banyan_status walk(struct make *make, uint32_t node, uint32_t to, struct way *way) {
  const struct by_overlay *o = &make->overlay;
  *way = (struct way){.at = make->n_steps, .delay = make->hops[node].delay};
  while (node != to) {
    const struct by_hop *hop = &make->hops[node];
    bool open =
        hop->link != NONE && (hop->next == to || (by_overlay_forwards(o, hop->next) && limit_of(o, hop->next) > 0));
    if (!open) {
      make->n_steps = way->at;
      way->n = 0;
      return BANYAN_OK;
    }
    if (!add_step(make, 2 * o->bundle_of[hop->link] + (hop->next < node))) return no_memory();
    way->n++;
    node = hop->next;
  }
  return BANYAN_OK;
}

static enum banyan_status find_ways(struct make *make) {
  const struct by_overlay *o = &make->overlay;
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

static uint32_t add_bundle(struct make *make, const struct by_bundle *bundle, uint32_t way) {
  bool uneven = bundle->uneven, back = (make->overlay.topology->links[bundle->first].a == bundle->high) != way;
  double left = uneven ? bundle->left[way] : fmin(bundle->left[0], bundle->left[1]);
  return add_resource(
      make, left,
      (struct by_origin){.kind = BY_ORIGIN_LINK, .index = bundle->first, .way = {!uneven || !back, !uneven || back}});
}

/* The resource of a directed bundle; NONE: its other direction stands for both. */
static uint32_t resource_of(struct make *make, uint32_t step) {
  struct by_bundle *bundle = &make->overlay.bundles[step / 2];
  uint32_t way = step % 2;
  if (!bundle->uneven && way) return NONE;
  if (bundle->resource[way] == NONE) bundle->resource[way] = add_bundle(make, bundle, way);
  return bundle->resource[way];
}

static void use_node(struct make *make, uint32_t node, uint32_t *n) {
  double limit = limit_of(&make->overlay, node);
  if (isinf(limit)) return;
  if (make->limit[node] == NONE)
    make->limit[node] = add_resource(make, limit, (struct by_origin){.kind = BY_ORIGIN_NODE, .index = node});
  make->uses[(*n)++] = make->limit[node];
}

/* Adds what a way loads: its links, and the nodes between them, each once for what it sends and receives this way. */
static void use_way(struct make *make, const uint32_t *steps, uint32_t n_steps, uint32_t *n) {
  for (uint32_t i = 0; i < n_steps; i++) {
    const struct by_bundle *bundle = &make->overlay.bundles[steps[i] / 2];
    uint32_t r = resource_of(make, steps[i]);
    if (r != NONE) make->uses[(*n)++] = r;
    if (i > 0) use_node(make, steps[i] % 2 ? bundle->high : bundle->low, n);
  }
}

/* A way as its steps. */
struct route {
  const uint32_t *steps;
  uint32_t n;
  double delay;
};

static void add_edge(struct make *make, uint32_t a, uint32_t b, struct route there, struct route back) {
  const struct by_overlay *o = &make->overlay;
  uint32_t n = 0;
  if (!there.n || !back.n || !(limit_of(o, o->node[a]) > 0) || !(limit_of(o, o->node[b]) > 0)) return;
  use_way(make, there.steps, there.n, &n);
  use_way(make, back.steps, back.n, &n);
  use_node(make, o->node[a], &n);
  use_node(make, o->node[b], &n);
  by_graph_add_edge(make->builder, a, b, fmax(there.delay, back.delay), make->uses, n);
}

static void add_direct_edges(struct make *make) {
  const struct by_overlay *o = &make->overlay;
  for (uint32_t i = 0; i < o->n_bundles; i++) {
    const struct by_bundle *bundle = &o->bundles[i];
    uint32_t v = o->vertex[bundle->low], w = o->vertex[bundle->high], steps[] = {2 * i, 2 * i + 1};
    if (v == NONE || w == NONE || !(bundle->left[0] > 0) || !(bundle->left[1] > 0)) continue;
    add_edge(make, v, w, (struct route){.steps = steps, .n = 1, .delay = bundle->delay},
             (struct route){.steps = steps + 1, .n = 1, .delay = bundle->delay});
  }
}

static struct route route_of(const struct make *make, size_t way) {
  const struct way *of = &make->ways[way];
  return (struct route){.steps = of->n ? make->steps + of->at : NULL, .n = of->n, .delay = of->delay};
}

static void add_edges(struct make *make) {
  const struct by_pairs *distant = &make->overlay.distant;
  for (size_t p = 0; p < distant->n; p++)
    if (make->ways[2 * p].n && make->ways[2 * p + 1].n) mark_uneven(make, p);
  add_direct_edges(make);
  for (size_t p = 0; p < distant->n; p++)
    add_edge(make, (uint32_t)(distant->keys[p] >> 32), (uint32_t)distant->keys[p], route_of(make, 2 * p),
             route_of(make, 2 * p + 1));
}

/* --- all of it --- */

static enum banyan_status take_arrays(struct make *make) {
  struct by_overlay *o = &make->overlay;
  size_t n = o->topology->n_nodes, m = o->topology->n_links;
  o->node = calloc(n, sizeof *o->node);
  o->vertex = calloc(n, sizeof *o->vertex);
  o->bundles = calloc(m + 1, sizeof *o->bundles);
  o->bundle_of = calloc(m + 1, sizeof *o->bundle_of);
  make->pair_at = calloc(n + 1, sizeof *make->pair_at);
  make->hops = calloc(n, sizeof *make->hops);
  make->limit = calloc(n, sizeof *make->limit);
  make->uses = calloc(4 * n + 4, sizeof *make->uses); /* two ways, each over every node and link at most once */
  make->origin = calloc(2 * m + n, sizeof *make->origin);
  if (!o->node || !o->vertex || !o->bundles || !o->bundle_of || !make->pair_at || !make->hops || !make->limit ||
      !make->uses || !make->origin)
    return no_memory();
  for (size_t node = 0; node < n; node++) make->limit[node] = NONE;
  return BANYAN_OK;
}

static void free_arrays(struct make *make) {
  struct by_overlay *o = &make->overlay;
  by_paths_fini(&o->paths);
  by_graph_builder_fini(make->builder);
  free(o->node);
  free(o->vertex);
  free(o->bundles);
  free(o->bundle_of);
  free(o->direct.keys);
  free(o->distant.keys);
  free(make->ways);
  free(make->steps);
  free(make->pair_at);
  free(make->pairs);
  free(make->hops);
  free(make->limit);
  free(make->uses);
  free(make->origin);
}

static enum banyan_status keep_names(const struct make *make, struct by_graph *graph) {
  graph->node = BY_ARENA_ARRAY(&graph->arena, uint32_t, graph->n_vertices);
  graph->origin = BY_ARENA_ARRAY(&graph->arena, struct by_origin, graph->n_resources);
  if (!graph->node || !graph->origin) return no_memory();
  memcpy(graph->node, make->overlay.node, graph->n_vertices * sizeof *graph->node);
  memcpy(graph->origin, make->origin, graph->n_resources * sizeof *graph->origin);
  return BANYAN_OK;
}

/* The graph would be refused too, but only here there are names. Uses pair_at, which nobody needs any more. */
static enum banyan_status check_reach(struct make *make) {
  const struct by_overlay *o = &make->overlay;
  uint32_t *above = make->pair_at;
  for (uint32_t v = 0; v < o->n_vertices; v++) above[v] = v;
  for (size_t e = 0; e < make->builder->n_edges; e++)
    above[by_leader(above, make->builder->edges[e].a)] = by_leader(above, make->builder->edges[e].b);
  for (uint32_t v = 1; v < o->n_terminals; v++)
    if (by_leader(above, v) != by_leader(above, 0))
      return by_fail(BANYAN_ERR_TOPOLOGY,
                     "hosts \"%.64s\" and \"%.64s\" are to take part, but cannot reach each other in both directions "
                     "with what others leave of links and machines",
                     name_of(o, o->node[0]), name_of(o, o->node[v]));
  return BANYAN_OK;
}

static enum banyan_status make_graph(struct make *make, const struct by_graph_choice *choice, struct by_graph **out) {
  struct by_overlay *o = &make->overlay;
  BY_TRY(take_arrays(make));
  BY_TRY(by_paths_init(&o->paths, o->topology));
  BY_TRY(choose(o, choice));
  BY_TRY(find_bundles(o));
  if (!by_overlay_find_pairs(o)) return no_memory();
  BY_TRY(find_ways(make));
  by_graph_builder_init(make->builder, o->n_terminals, o->n_vertices);
  add_edges(make);
  if (make->builder->status == BANYAN_OK) BY_TRY(check_reach(make));
  return by_graph_finish(make->builder, out);
}

enum banyan_status by_graph_of_topology(const struct by_topology *topology, const struct by_graph_choice *choice,
                                        struct by_graph **out) {
  static const struct by_graph_choice none = {0};
  struct by_graph_builder builder = {0};
  struct make make = {.overlay = {.topology = topology}, .builder = &builder};
  struct by_graph *graph = NULL;
  enum banyan_status status = make_graph(&make, choice ? choice : &none, &graph);
  if (status == BANYAN_OK) status = keep_names(&make, graph);
  free_arrays(&make);
  if (status == BANYAN_OK)
    *out = graph;
  else
    by_graph_destroy(graph);
  return status;
}
