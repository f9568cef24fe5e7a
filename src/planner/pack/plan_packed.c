/* From a packing to a plan that runs: each tree hung up at its centre, named after the topology's nodes. */
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "packing.h"
#include "plan_make.h"
#include "topology.h"

#define NONE UINT32_MAX

/* An optional vertex that some tree uses. */
struct helper {
  const char *name;
  uint32_t vertex; /* the graph's */
};

struct packed {
  const struct by_topology *topology;
  const struct by_graph *graph;
  struct by_plan *plan;
  struct by_grower grower;
  struct helper *helpers;
  uint32_t n_helpers;
  uint32_t *vertex;   /* of each of the graph's: the plan's; NONE: in no tree */
  uint32_t *position; /* of each of the plan's, in the tree at hand; NONE: not in it */
};

static const struct by_node *node_of(const struct packed *p, uint32_t vertex) {
  return &p->topology->nodes[p->graph->node[vertex]];
}

/* ---- vertices */

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct helper *)a)->name, ((const struct helper *)b)->name);
}

static void note_helper(struct packed *p, uint32_t v) {
  if (v < p->graph->n_terminals || p->vertex[v] != NONE) return;
  p->vertex[v] = 0;
  p->helpers[p->n_helpers++] = (struct helper){.name = node_of(p, v)->name, .vertex = v};
}

static void find_helpers(struct packed *p, const struct by_packing *packing) {
  for (uint32_t v = 0; v < p->graph->n_vertices; v++) p->vertex[v] = v < p->graph->n_terminals ? v : NONE;
  for (uint32_t t = 0; t < packing->n_trees; t++)
    for (uint32_t i = 0; i < packing->trees[t].n; i++) {
      const struct by_graph_edge *edge = &p->graph->edges[packing->trees[t].edges[i]];
      note_helper(p, edge->a);
      note_helper(p, edge->b);
    }
  if (p->n_helpers) qsort(p->helpers, p->n_helpers, sizeof *p->helpers, by_name);
  for (uint32_t i = 0; i < p->n_helpers; i++) p->vertex[p->helpers[i].vertex] = p->graph->n_terminals + i;
}

static enum banyan_status name_vertices(struct packed *p) {
  BY_TRY(by_plan_add_vertices(p->plan, p->graph->n_terminals, p->n_helpers));
  for (uint32_t v = 0; v < p->graph->n_vertices; v++) {
    if (p->vertex[v] == NONE) continue;
    struct by_vertex *vertex = &p->plan->vertices[p->vertex[v]];
    const struct by_node *node = node_of(p, v);
    vertex->name = by_arena_string(&p->plan->arena, node->name);
    if (!vertex->name) return by_plan_no_memory();
    if (node->kind == BY_NODE_SWITCH) vertex->kind = BY_VERTEX_SWITCH;
  }
  return BANYAN_OK;
}

/* ---- one tree */

/* Positions follow the plan's order of vertices, so that ranks come first. */
static enum banyan_status add_tree(struct packed *p, const struct by_packed *tree, double throughput,
                                   struct by_group *group) {
  struct by_grower *g = &p->grower;
  uint32_t root, n = 0;
  double height;
  BY_TRY(by_group_init(p->plan, group, BY_GROUP_TREE, tree->n + 1, false));
  by_tree_centre(g, tree->edges, tree->n, &root, &height);
  by_tree_walk(g, tree->edges, tree->n, root);
  for (uint32_t v = 0; v < p->plan->n_vertices; v++) p->position[v] = NONE;
  for (uint32_t i = 0; i <= tree->n; i++) p->position[p->vertex[g->order[i]]] = 0;
  for (uint32_t v = 0; v < p->plan->n_vertices; v++) {
    if (p->position[v] == NONE) continue;
    group->order[n] = v;
    p->position[v] = n++;
  }
  group->root = group->up[p->position[p->vertex[root]]] = p->position[p->vertex[root]];
  for (uint32_t i = 1; i <= tree->n; i++) {
    uint32_t v = g->order[i], parent = by_graph_other_end(p->graph, g->via[v], v);
    group->up[p->position[p->vertex[v]]] = p->position[p->vertex[parent]];
  }
  group->share = tree->rate / throughput;
  group->rate = tree->rate;
  return BANYAN_OK;
}

static enum banyan_status fill(struct packed *p, const struct by_packing *packing) {
  struct by_plan *plan = p->plan;
  struct by_arena *arena = &p->grower.arena;
  uint32_t n = p->graph->n_vertices;
  p->helpers = BY_ARENA_ARRAY(arena, struct helper, n);
  p->vertex = BY_ARENA_ARRAY(arena, uint32_t, n);
  p->position = BY_ARENA_ARRAY(arena, uint32_t, n);
  if (arena->failed) return by_plan_no_memory();
  find_helpers(p, packing);
  BY_TRY(name_vertices(p));
  BY_TRY(by_plan_add_classes(plan, 1));
  BY_TRY(by_plan_add_groups(plan, plan->classes, packing->n_trees));
  for (uint32_t t = 0; t < packing->n_trees; t++)
    BY_TRY(add_tree(p, &packing->trees[t], packing->throughput, &plan->classes->groups[t]));
  plan->facts = (struct by_plan_facts){
      .throughput = packing->throughput, .bound = packing->bound, .ratio = packing->throughput / packing->bound};
  plan->facts.seconds = packing->seconds;
  return BANYAN_OK;
}

enum banyan_status by_plan_of_packing(const char *name, const struct by_topology *topology,
                                      const struct by_graph *graph, const struct by_packing *packing, bool by_delay,
                                      struct by_plan **out) {
  struct packed p = {.topology = topology, .graph = graph};
  BY_TRY(by_plan_create(name, &p.plan));
  enum banyan_status status = by_grower_init(&p.grower, graph, !by_delay);
  if (status == BANYAN_OK) {
    status = fill(&p, packing);
    by_grower_fini(&p.grower);
  }
  if (status == BANYAN_OK) return by_plan_finish(p.plan, out);
  by_plan_destroy(p.plan);
  return status;
}
