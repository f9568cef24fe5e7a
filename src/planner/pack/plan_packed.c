/* Makes plans from trees over a graph: a packing's trees are rooted at their centres, and vertices get the names of the
 * topology's nodes. */
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "packing.h"
#include "plan_make.h"
#include "topology.h"

#define NONE UINT32_MAX

struct planning {
  const struct by_graph *graph;
  const struct by_vertex *vertices; /* one for each vertex of the graph */
  struct by_plan *plan;
  uint32_t *vertex;   /* for each vertex of the graph: that of the plan; NONE: it is not used */
  uint32_t *helper;   /* the used optional vertices, by name */
  uint32_t *position; /* for each vertex of the plan: its position in the present group; NONE: not in it */
  uint32_t n_helpers;
  struct by_arena arena;
};

/* ---- Vertices. */

static void find_helpers(struct planning *p, const struct by_group *groups, uint32_t n) {
  uint32_t terminals = p->graph->n_terminals;
  for (uint32_t v = 0; v < p->graph->n_vertices; v++) p->vertex[v] = v < terminals ? v : NONE;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t u = 0; u < groups[i].n; u++) {
      uint32_t v = groups[i].order[u], at = p->n_helpers;
      if (p->vertex[v] != NONE) continue;
      p->vertex[v] = 0; /* Its number is known when all helpers are. */
      for (; at > 0 && strcmp(p->vertices[p->helper[at - 1]].name, p->vertices[v].name) > 0; at--)
        p->helper[at] = p->helper[at - 1];
      p->helper[at] = v;
      p->n_helpers++;
    }
  for (uint32_t i = 0; i < p->n_helpers; i++) p->vertex[p->helper[i]] = terminals + i;
}

static enum banyan_status name_vertices(struct planning *p) {
  BY_TRY(by_plan_add_vertices(p->plan, p->graph->n_terminals, p->n_helpers));
  for (uint32_t v = 0; v < p->graph->n_vertices; v++) {
    if (p->vertex[v] == NONE) continue;
    struct by_vertex *vertex = &p->plan->vertices[p->vertex[v]];
    vertex->name = by_arena_string(&p->plan->arena, p->vertices[v].name);
    if (!vertex->name) return by_plan_no_memory();
    if (p->vertices[v].kind == BY_VERTEX_SWITCH) vertex->kind = BY_VERTEX_SWITCH;
  }
  return BANYAN_OK;
}

/* ---- Groups. */

/* Adds a group. A tree's positions follow the plan's order of vertices, so that ranks come first; those of a rotated
 * group have a meaning and stay. */
static enum banyan_status add_group(struct planning *p, const struct by_group *from, struct by_group *to) {
  bool rotated = from->kind == BY_GROUP_ROTATED;
  uint32_t n = 0;
  BY_TRY(by_group_init(p->plan, to, from->kind, from->n, false));
  if (rotated) BY_TRY(by_group_set_radix(p->plan, to, from->radix, from->n_radix));
  for (uint32_t v = 0; v < p->plan->n_vertices; v++) p->position[v] = NONE;
  for (uint32_t u = 0; u < from->n; u++) p->position[p->vertex[from->order[u]]] = u;
  for (uint32_t v = 0; !rotated && v < p->plan->n_vertices; v++)
    if (p->position[v] != NONE) p->position[v] = n++;
  for (uint32_t u = 0; u < from->n; u++) {
    uint32_t self = p->position[p->vertex[from->order[u]]];
    to->order[self] = p->vertex[from->order[u]];
    to->up[self] = p->position[p->vertex[from->order[from->up[u]]]];
    if (u == from->root) to->root = self;
  }
  to->rate = from->rate;
  to->share = from->share;
  return BANYAN_OK;
}

static enum banyan_status fill_plan(struct planning *p, const struct by_group *groups, uint32_t n) {
  uint32_t **const arrays[] = {&p->vertex, &p->helper, &p->position};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    *arrays[i] = BY_ARENA_ARRAY(&p->arena, uint32_t, p->graph->n_vertices);
  if (p->arena.failed) return by_plan_no_memory();
  find_helpers(p, groups, n);
  BY_TRY(name_vertices(p));
  BY_TRY(by_plan_add_classes(p->plan, 1, 0));
  BY_TRY(by_plan_add_groups(p->plan, p->plan->classes, n));
  for (uint32_t i = 0; i < n; i++) BY_TRY(add_group(p, &groups[i], &p->plan->classes->groups[i]));
  return BANYAN_OK;
}

enum banyan_status by_plan_of_groups(const char *name, const struct by_graph *graph, const struct by_vertex *vertices,
                                     const struct by_group *groups, uint32_t n, struct by_plan_facts facts,
                                     struct by_plan **out) {
  struct planning p = {.graph = graph, .vertices = vertices};
  BY_TRY(by_plan_create(name, &p.plan));
  p.plan->facts = facts;
  p.plan->facts.ratio = facts.throughput / facts.bound;
  enum banyan_status status = fill_plan(&p, groups, n);
  by_arena_fini(&p.arena);
  if (status == BANYAN_OK) return by_plan_finish(p.plan, out);
  by_plan_destroy(p.plan);
  return status;
}

/* ---- Packings. */

enum banyan_status by_graph_name_vertices(const struct by_graph *graph, const struct by_topology *topology,
                                          struct by_arena *arena, struct by_vertex **out) {
  struct by_vertex *vertices = *out = BY_ARENA_ARRAY(arena, struct by_vertex, graph->n_vertices);
  for (uint32_t v = 0; v < graph->n_vertices && !arena->failed; v++) {
    const struct by_node *node = &topology->nodes[graph->node[v]];
    vertices[v].name = by_arena_string(arena, node->name);
    vertices[v].kind = node->kind == BY_NODE_SWITCH ? BY_VERTEX_SWITCH : BY_VERTEX_HELPER;
  }
  return arena->failed ? by_plan_no_memory() : BANYAN_OK;
}

enum banyan_status by_plan_of_packing(const char *name, const struct by_topology *topology,
                                      const struct by_graph *graph, const struct by_packing *packing, bool by_delay,
                                      struct by_plan **out) {
  struct by_grower grower;
  BY_TRY(by_grower_init(&grower, graph, !by_delay));
  struct by_arena *arena = &grower.arena;
  struct by_group *groups = BY_ARENA_ARRAY(arena, struct by_group, packing->n_trees);
  struct by_vertex *vertices;
  enum banyan_status status = by_graph_name_vertices(graph, topology, arena, &vertices);
  for (uint32_t t = 0; status == BANYAN_OK && t < packing->n_trees; t++) {
    const struct by_packed *tree = &packing->trees[t];
    groups[t] = (struct by_group){.kind = BY_GROUP_TREE,
                                  .n = tree->n + 1,
                                  .order = BY_ARENA_ARRAY(arena, uint32_t, tree->n + 1),
                                  .up = BY_ARENA_ARRAY(arena, uint32_t, tree->n + 1),
                                  .rate = tree->rate,
                                  .share = tree->rate / packing->throughput};
    if (arena->failed)
      status = by_plan_no_memory();
    else
      by_tree_root_at_centre(&grower, tree->edges, tree->n, groups[t].order, groups[t].up);
  }
  struct by_plan_facts facts = {
      .throughput = packing->throughput, .bound = packing->bound, .seconds = packing->seconds};
  if (status == BANYAN_OK) status = by_plan_of_groups(name, graph, vertices, groups, packing->n_trees, facts, out);
  by_grower_fini(&grower);
  return status;
}
