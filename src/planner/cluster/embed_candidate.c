/* Finds the layers of the network for a job, and adds candidates with their shapes and loads. */
#include "embed_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "plan_make.h"
#include "topology.h"
#include "topology_paths.h"

#define NONE UINT32_MAX
/* A group with this part of the capacity that its terminals can use is not oversubscribed, since sums are rounded. */
static const double enough = 0.999;

struct finding {
  struct by_embed_net *net;
  struct by_paths paths;
  struct by_next_hop *hops; /* The next hops of each node to the last destination. */
  uint32_t *above;          /* The next terminal of each terminal towards the leader of its group. */
  uint32_t *number;         /* The number of the group of each terminal that leads one. */
  uint32_t *mark;           /* The last group inside of which each node was found. */
  uint32_t marks;
  struct by_arena arena;
};

/* --- Vertices. --- */

static double get_capacity(const struct by_embed_net *net, const struct by_paths *paths, uint32_t node) {
  const struct by_node *at = &net->topology->nodes[node];
  double out = 0, in = 0;
  for (uint32_t i = paths->first[node]; i < paths->first[node + 1]; i++) {
    const struct by_link *link = &net->topology->links[paths->links[i]];
    out += by_residual(link->capacity[by_link_direction(link, node)]);
    in += by_residual(link->capacity[link->a == node ? BY_BA : BY_AB]);
  }
  return fmin(fmin(out, in), fmin(by_residual(at->out), by_residual(at->in)));
}

static enum banyan_status measure_vertices(struct finding *f) {
  struct by_embed_net *net = f->net;
  const uint32_t *node = net->graph->node;
  size_t n = net->graph->n_vertices;
  for (size_t to = 0; to < n; to++) {
    BY_TRY(by_paths_between(&f->paths, node[to], node, (uint32_t)n, f->hops));
    net->capacity[to] = get_capacity(net, &f->paths, node[to]);
    for (size_t from = 0; from < n; from++) {
      uint32_t hops = f->hops[node[from]].hops, *there = &net->hops[from * n + to], *back = &net->hops[to * n + from];
      if (hops < *there && to > from) continue; /* The path in the opposite direction is longer. */
      *there = *back = hops;
    }
  }
  return BANYAN_OK;
}

static void list_edges(struct by_embed_net *net) {
  size_t n = net->graph->n_vertices;
  for (size_t i = 0; i < n * n; i++) net->edge[i] = NONE;
  for (uint32_t e = 0; e < net->graph->n_edges; e++) {
    const struct by_graph_edge *edge = &net->graph->edges[e];
    net->edge[edge->a * n + edge->b] = net->edge[edge->b * n + edge->a] = e;
  }
}

/* Returns the total capacity in bit/s of a direction of a link and of its parallel links. */
static double get_bundle_total(const struct by_paths *paths, const struct by_link *link, uint32_t direction) {
  const struct by_topology *topology = paths->topology;
  uint32_t from = direction == BY_AB ? link->a : link->b;
  double all = 0;
  for (uint32_t i = paths->first[from]; i < paths->first[from + 1]; i++) {
    const struct by_link *other = &topology->links[paths->links[i]];
    if (by_link_other(other, from) == by_link_other(link, from)) all += other->capacity[other->a != from].all;
  }
  return all;
}

/* Returns the total capacity in bit/s of a resource, in the direction that has less. */
static double get_total(const struct by_paths *paths, const struct by_origin *origin) {
  const struct by_topology *topology = paths->topology;
  double min = INFINITY;
  if (origin->kind == BY_ORIGIN_NODE)
    return fmin(topology->nodes[origin->index].in.all, topology->nodes[origin->index].out.all);
  for (uint32_t direction = 0; direction < 2; direction++)
    if (origin->direction[direction])
      min = fmin(min, get_bundle_total(paths, &topology->links[origin->index], direction));
  return min;
}

static void fill_resources(struct finding *f) {
  struct by_embed_net *net = f->net;
  const struct by_topology *topology = net->topology;
  for (uint32_t r = 0; r < net->graph->n_resources; r++) {
    const struct by_origin *origin = &net->graph->origin[r];
    net->left[r] = fmin(net->graph->capacity[r] / get_total(&f->paths, origin), 1);
    if (origin->kind != BY_ORIGIN_LINK) continue;
    const struct by_link *link = &topology->links[origin->index];
    net->shared[r] = topology->nodes[link->a].kind == BY_NODE_SWITCH && topology->nodes[link->b].kind == BY_NODE_SWITCH;
    net->n_shared += net->shared[r];
  }
}

/* --- Layers. --- */

/* Returns the smallest distance beyond `max` between terminals of different groups. Returns NONE if there is none. */
static uint32_t find_next_distance(struct finding *f, uint32_t max) {
  const struct by_embed_net *net = f->net;
  uint32_t n = net->graph->n_terminals, next = NONE;
  for (uint32_t u = 0; u < n; u++)
    for (uint32_t v = 0; v < u; v++) {
      uint32_t hops = net->hops[(size_t)u * net->graph->n_vertices + v];
      if (hops > max && hops < next && by_find_leader(f->above, u) != by_find_leader(f->above, v)) next = hops;
    }
  return next;
}

/* Returns the group whose terminals are nearest to an optional vertex, within `max` hops. Returns NONE if it is not one
 * group. */
static uint32_t find_nearest_group(const struct by_embed_net *net, const struct by_embed_layer *layer, uint32_t v,
                                   uint32_t max) {
  uint32_t min = NONE, found = NONE;
  for (uint32_t t = 0; t < net->graph->n_terminals; t++) {
    uint32_t hops = net->hops[(size_t)v * net->graph->n_vertices + t];
    if (hops > min || hops > max) continue;
    found = hops < min || found == layer->group[t] ? layer->group[t] : NONE;
    min = hops;
  }
  return found;
}

static enum banyan_status add_layer(struct finding *f, uint32_t max) {
  struct by_embed_net *net = f->net;
  struct by_embed_layer *layer = &net->layers[net->n_layers++];
  uint32_t n = net->graph->n_vertices, terminals = net->graph->n_terminals;
  layer->group = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  layer->oversubscribed = BY_ARENA_ARRAY(&net->arena, bool, terminals);
  if (net->arena.failed) return by_plan_no_memory();
  for (uint32_t v = 0; v < terminals; v++) f->number[v] = NONE;
  for (uint32_t v = 0; v < terminals; v++) {
    uint32_t leader = by_find_leader(f->above, v);
    if (f->number[leader] == NONE) f->number[leader] = layer->n_groups++;
    layer->group[v] = f->number[leader];
  }
  for (uint32_t v = terminals; v < n; v++)
    layer->group[v] = layer->n_groups == 1 ? 0 : find_nearest_group(net, layer, v, max);
  return BANYAN_OK;
}

/* Finds the layers, from the nearest terminals outwards. Beyond BY_EMBED_MAX_LAYERS, everything is in the last one. */
static enum banyan_status find_layers(struct finding *f) {
  const struct by_embed_net *net = f->net;
  uint32_t max = 0;
  for (uint32_t v = 0; v < net->graph->n_terminals; v++) f->above[v] = v;
  do {
    max = find_next_distance(f, max);
    uint32_t joined = net->n_layers + 1 < BY_EMBED_MAX_LAYERS ? max : NONE;
    for (uint32_t u = 0; u < net->graph->n_terminals; u++)
      for (uint32_t v = 0; v < u; v++)
        if (net->hops[(size_t)u * net->graph->n_vertices + v] <= joined)
          f->above[by_find_leader(f->above, u)] = by_find_leader(f->above, v);
    BY_TRY(add_layer(f, max));
  } while (net->layers[net->n_layers - 1].n_groups > 1);
  return BANYAN_OK;
}

/* --- Oversubscription. --- */

/* Marks the nodes inside a group: those on the paths of its terminals to the first of them. */
static enum banyan_status mark_inside(struct finding *f, const struct by_embed_layer *layer, uint32_t group,
                                      double *sends) {
  const struct by_embed_net *net = f->net;
  const uint32_t *node = net->graph->node;
  uint32_t first = 0;
  while (layer->group[first] != group) first++;
  BY_TRY(by_paths_between(&f->paths, node[first], node, net->graph->n_terminals, f->hops));
  f->marks++;
  *sends = 0;
  for (uint32_t v = first; v < net->graph->n_terminals; v++) {
    if (layer->group[v] != group) continue;
    *sends += net->capacity[v];
    for (uint32_t at = node[v]; at != node[first]; at = f->hops[at].next) f->mark[at] = f->marks;
  }
  f->mark[node[first]] = f->marks;
  return BANYAN_OK;
}

static double get_capacity_out(const struct finding *f) {
  const struct by_topology *topology = f->net->topology;
  double out = 0, in = 0;
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    bool a = f->mark[link->a] == f->marks, b = f->mark[link->b] == f->marks;
    if (a == b) continue;
    out += by_residual(link->capacity[a ? BY_AB : BY_BA]);
    in += by_residual(link->capacity[a ? BY_BA : BY_AB]);
  }
  return fmin(out, in);
}

static enum banyan_status find_oversubscribed(struct finding *f) {
  struct by_embed_net *net = f->net;
  for (uint32_t l = 0; l + 1 < net->n_layers; l++) {
    struct by_embed_layer *layer = &net->layers[l];
    for (uint32_t g = 0; g < layer->n_groups; g++) {
      double sends;
      BY_TRY(mark_inside(f, layer, g, &sends));
      layer->oversubscribed[g] = get_capacity_out(f) < enough * sends;
    }
  }
  return BANYAN_OK;
}

/* --- The order. --- */

/* Sorts stably by the groups of each layer, the smallest groups first, so that the groups of the largest layer decide
 * first. */
static void sort_terminals(struct finding *f) {
  struct by_embed_net *net = f->net;
  uint32_t n = net->graph->n_terminals, *from = net->order, *to = f->number;
  for (uint32_t v = 0; v < n; v++) from[v] = v;
  for (uint32_t l = 0; l + 1 < net->n_layers; l++) {
    uint32_t done = 0;
    for (uint32_t g = 0; g < net->layers[l].n_groups; g++)
      for (uint32_t i = 0; i < n; i++)
        if (net->layers[l].group[from[i]] == g) to[done++] = from[i];
    memcpy(from, to, n * sizeof *from);
  }
}

/* --- The network. --- */

static enum banyan_status find_network(struct finding *f) {
  struct by_embed_net *net = f->net;
  size_t n = net->graph->n_vertices, nodes = net->topology->n_nodes;
  net->edge = BY_ARENA_ARRAY(&net->arena, uint32_t, n * n);
  net->hops = BY_ARENA_ARRAY(&net->arena, uint32_t, n * n);
  net->capacity = BY_ARENA_ARRAY(&net->arena, double, n);
  net->order = BY_ARENA_ARRAY(&net->arena, uint32_t, n);
  net->shared = BY_ARENA_ARRAY(&net->arena, bool, net->graph->n_resources);
  net->left = BY_ARENA_ARRAY(&net->arena, double, net->graph->n_resources);
  f->hops = BY_ARENA_ARRAY(&f->arena, struct by_next_hop, nodes);
  f->above = BY_ARENA_ARRAY(&f->arena, uint32_t, n);
  f->number = BY_ARENA_ARRAY(&f->arena, uint32_t, n);
  f->mark = BY_ARENA_ARRAY(&f->arena, uint32_t, nodes);
  if (net->arena.failed || f->arena.failed) return by_plan_no_memory();
  BY_TRY(by_paths_init(&f->paths, net->topology));
  BY_TRY(measure_vertices(f));
  list_edges(net);
  fill_resources(f);
  BY_TRY(find_layers(f));
  BY_TRY(find_oversubscribed(f));
  sort_terminals(f);
  return BANYAN_OK;
}

enum banyan_status by_embed_net_init(struct by_embed_net *net, const struct by_topology *topology,
                                     const struct by_graph *graph) {
  if (graph->n_vertices > BY_EMBED_MAX_VERTICES)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "a job on a shared cluster is planned for %d hosts and helpers at most, not for %u",
                   BY_EMBED_MAX_VERTICES, graph->n_vertices);
  *net = (struct by_embed_net){.topology = topology, .graph = graph, .n_rows = graph->n_resources};
  struct finding f = {.net = net};
  enum banyan_status status = find_network(&f);
  by_paths_fini(&f.paths);
  by_arena_fini(&f.arena);
  return status;
}

void by_embed_net_fini(struct by_embed_net *net) {
  for (uint32_t s = 0; s < net->n_servers; s++) by_placement_paths_fini(&net->servers[s].paths);
  by_arena_fini(&net->arena);
  *net = (struct by_embed_net){0};
}

enum banyan_status by_embed_candidates_init(struct by_embed_candidates *list, const struct by_embed_net *net,
                                            uint32_t max_height, uint32_t allowed) {
  *list = (struct by_embed_candidates){.net = net, .max_height = max_height, .allowed = allowed};
  BY_TRY(by_grower_init(&list->grower, net->graph, true));
  struct by_arena *arena = &list->grower.arena;
  uint32_t n = net->graph->n_vertices;
  list->count = BY_ARENA_ARRAY(arena, uint32_t, n);
  list->height = BY_ARENA_ARRAY(arena, uint32_t, n);
  list->load = BY_ARENA_ARRAY(arena, double, net->n_rows);
  list->draft.order = BY_ARENA_ARRAY(arena, uint32_t, n);
  list->draft.up = BY_ARENA_ARRAY(arena, uint32_t, n);
  return arena->failed ? by_plan_no_memory() : BANYAN_OK;
}

void by_embed_candidates_fini(struct by_embed_candidates *list) {
  by_grower_fini(&list->grower);
  by_arena_fini(&list->arena);
  free(list->items);
  *list = (struct by_embed_candidates){0};
}

/* --- Shapes. --- */

/* Computes height and width of the template. */
static void measure_shape(struct by_embed_candidates *list, struct by_embed_candidate *out) {
  const struct by_draft *draft = &list->draft;
  uint32_t *depth = list->height, *children = list->count;
  for (uint32_t u = 0; u < draft->n; u++) {
    children[u] = 0;
    depth[u] = u == draft->root ? 0 : NONE;
  }
  for (uint32_t u = 0; u < draft->n; u++) {
    if (u == draft->root) continue;
    uint32_t max = ++children[draft->up[u]], above = 0, at = u;
    if (max > out->width) out->width = max;
    for (; depth[at] == NONE; at = draft->up[at]) above++;
    uint32_t here = depth[at] + above;
    if (here > out->height) out->height = here;
    for (at = u; depth[at] == NONE; at = draft->up[at]) depth[at] = here--;
  }
}

/* --- Loads. --- */

/* Adds the load of the edge between two vertices. Returns false if there is none. */
static bool add_edge(struct by_embed_candidates *list, uint32_t u, uint32_t v, double rate) {
  const struct by_graph *graph = list->net->graph;
  uint32_t e = by_embed_edge(list->net, u, v);
  if (e == NONE) return false;
  const uint32_t *uses = graph->uses + graph->edges[e].first;
  for (uint32_t i = 0; i < graph->edges[e].n; i++) list->load[uses[i]] += rate;
  return true;
}

static bool add_tree_load(struct by_embed_candidates *list) {
  const struct by_draft *draft = &list->draft;
  for (uint32_t u = 0; u < draft->n; u++)
    if (u != draft->root && !add_edge(list, draft->order[u], draft->order[draft->up[u]], 1)) return false;
  return true;
}

/* Adds the loads of a rotated template: each of its edges stands for one from every position to the position at its
 * distance, and edges of equal distance are one edge. */
static bool add_rotated_load(struct by_embed_candidates *list, const struct by_group *group) {
  const struct by_draft *draft = &list->draft;
  uint32_t *times = list->count;
  memset(times, 0, draft->n * sizeof *times);
  for (uint32_t u = 0; u < draft->n; u++)
    if (u != draft->root) times[by_group_untranslate(group, draft->up[u], u)]++;
  for (uint32_t far = 1; far < draft->n; far++)
    for (uint32_t u = 0; times[far] && u < draft->n; u++) {
      uint32_t v = by_group_translate(group, u, far);
      if (!add_edge(list, draft->order[u], draft->order[v], (double)times[far] / draft->n)) return false;
    }
  return true;
}

/* Computes list->load and theta. Returns false if an edge is missing. */
static bool compute_load(struct by_embed_candidates *list, struct by_embed_candidate *out) {
  const struct by_graph *graph = list->net->graph;
  memset(list->load, 0, list->net->n_rows * sizeof *list->load);
  if (!(list->draft.n_radix ? add_rotated_load(list, &out->group) : add_tree_load(list))) return false;
  for (uint32_t r = 0; r < graph->n_resources; r++) {
    list->load[r] /= graph->capacity[r];
    out->theta = fmax(out->theta, list->load[r]);
  }
  return true;
}

static uint32_t find_known(const struct by_embed_candidates *list, const struct by_embed_candidate *new) {
  size_t bytes = list->net->n_rows * sizeof *list->load;
  for (uint32_t i = 0; i < list->n; i++) {
    const struct by_embed_candidate *old = &list->items[i];
    if (old->theta == new->theta && old->height <= new->height && old->width <= new->width &&
        !memcmp(old->load, list->load, bytes))
      return i;
  }
  return NONE;
}

/* --- Adding candidates. --- */

static enum banyan_status copy_draft(struct by_embed_candidates *list, struct by_embed_candidate *new) {
  const struct by_draft *draft = &list->draft;
  struct by_group *group = &new->group;
  struct by_arena *arena = &list->arena;
  size_t bytes = draft->n * sizeof *group->order;
  group->order = BY_ARENA_ARRAY(arena, uint32_t, draft->n);
  group->up = group->down = BY_ARENA_ARRAY(arena, uint32_t, draft->n);
  group->radix = BY_ARENA_ARRAY(arena, uint32_t, draft->n_radix);
  if (arena->failed) return by_plan_no_memory();
  memcpy(group->order, draft->order, bytes);
  memcpy(group->up, draft->up, bytes);
  memcpy(group->radix, draft->radix, draft->n_radix * sizeof *group->radix);
  group->up[group->root] = group->root;
  return BANYAN_OK;
}

enum banyan_status by_embed_candidates_keep(struct by_embed_candidates *list, struct by_embed_candidate *new,
                                            uint32_t *found) {
  *found = find_known(list, new);
  if (*found != NONE) return BANYAN_OK;
  new->load = BY_ARENA_ARRAY(&list->arena, double, list->net->n_rows);
  if (!new->load || !BY_ARRAY_GROW(&list->items, &list->allocated, list->n + 1)) return by_plan_no_memory();
  memcpy(new->load, list->load, list->net->n_rows * sizeof *new->load);
  if (new->kind != BY_EMBED_NETWORK) BY_TRY(copy_draft(list, new));
  *found = list->n;
  list->items[list->n++] = *new;
  return BANYAN_OK;
}

/* Returns whether the options allow the draft. */
static bool is_allowed(const struct by_embed_candidates *list) {
  const struct by_draft *draft = &list->draft;
  bool helped = false;
  for (uint32_t u = 0; u < draft->n; u++) helped |= draft->order[u] >= list->net->graph->n_terminals;
  return list->allowed & (helped ? BY_PLAN_HELPERS : draft->kind == BY_EMBED_RING ? BY_PLAN_RING : BY_PLAN_TREE);
}

enum banyan_status by_embed_candidates_add(struct by_embed_candidates *list, uint32_t *found) {
  struct by_draft *draft = &list->draft;
  struct by_embed_candidate new = {.kind = draft->kind,
                                   .group = {.kind = draft->n_radix ? BY_GROUP_ROTATED : BY_GROUP_TREE,
                                             .n = draft->n,
                                             .root = draft->root,
                                             .n_radix = draft->n_radix,
                                             .radix = draft->radix}};
  uint32_t ignored;
  if (!found) found = &ignored;
  *found = NONE;
  measure_shape(list, &new);
  if (new.height > list->max_height || !is_allowed(list) || !compute_load(list, &new)) return BANYAN_OK;
  return by_embed_candidates_keep(list, &new, found);
}

enum banyan_status by_embed_candidates_add_tree(struct by_embed_candidates *list, const uint32_t *edges, uint32_t n,
                                                uint32_t *found) {
  struct by_draft *draft = &list->draft;
  by_tree_root_at_centre(&list->grower, edges, n, draft->order, draft->up);
  draft->kind = BY_EMBED_PACKED;
  draft->n_radix = draft->root = 0;
  draft->n = n + 1;
  return by_embed_candidates_add(list, found);
}

enum banyan_status by_embed_candidates_add_group(struct by_embed_candidates *list, const struct by_group *group,
                                                 const uint32_t *map, uint32_t *found) {
  struct by_draft *draft = &list->draft;
  draft->n = group->n;
  draft->root = group->root;
  draft->n_radix = group->n_radix;
  for (uint32_t i = 0; i < group->n_radix; i++) draft->radix[i] = group->radix[i];
  if (found) *found = NONE;
  for (uint32_t u = 0; u < group->n; u++) {
    draft->order[u] = map[group->order[u]];
    draft->up[u] = group->up[u];
    if (draft->order[u] == NONE) return BANYAN_OK;
  }
  return by_embed_candidates_add(list, found);
}
