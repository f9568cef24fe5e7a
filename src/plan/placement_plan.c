/* What comes of a placement: a plan, and what each worker is told. */
#include <stdlib.h>
#include <string.h>

#include "placement_parts.h"
#include "plan_make.h"

#define NONE UINT32_MAX

uint32_t by_placed_stack(const struct by_placed_tree *tree, const struct by_topology *topology, uint32_t worker,
                         struct by_placed_hop *hops) {
  uint32_t n = 0;
  for (uint32_t below = tree->start[worker], v = tree->parent[below]; v; below = v, v = tree->parent[v])
    if (topology->nodes[tree->node[v]].aggregates)
      hops[n++] = (struct by_placed_hop){.node = tree->node[v],
                                         .adds = tree->adds[v],
                                         .expected = tree->workers[v],
                                         .up = tree->link[v],
                                         .down = tree->link[below]};
  return n;
}

/* --- the plan --- */

struct build {
  const struct by_topology *topology;
  const struct by_placement *placement;
  const struct by_placement_job *job;
  uint32_t number;
  struct by_plan *plan;
  uint32_t *vertex; /* of each node: the plan's; NONE: in no tree */
  const struct by_node **others;
  uint32_t n_others;
  uint32_t *position; /* of each of a tree's vertices, in its group; NONE: it only forwards */
};

static bool is_mine(const struct build *b, uint32_t t) {
  return b->placement->trees[t].job == b->number;
}

/* Workers, the server and switches that add stand in the tree. */
static bool stands(const struct build *b, const struct by_placed_tree *tree, uint32_t v) {
  uint32_t vertex = b->vertex[tree->node[v]];
  return !v || tree->adds[v] || (vertex != NONE && vertex < b->job->n_workers);
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const struct by_node *const *)a)->name, (*(const struct by_node *const *)b)->name);
}

static void find_others(struct build *b) {
  for (uint32_t i = 0; i < b->topology->n_nodes; i++) b->vertex[i] = NONE;
  for (uint32_t r = 0; r < b->job->n_workers; r++) b->vertex[b->job->workers[r]] = r;
  for (uint32_t t = 0; t < b->placement->n_trees; t++) {
    const struct by_placed_tree *tree = &b->placement->trees[t];
    for (uint32_t v = 0; is_mine(b, t) && v < tree->n; v++) {
      if (!stands(b, tree, v) || b->vertex[tree->node[v]] != NONE) continue;
      b->vertex[tree->node[v]] = b->job->n_workers; /* its place follows */
      b->others[b->n_others++] = &b->topology->nodes[tree->node[v]];
    }
  }
  qsort(b->others, b->n_others, sizeof *b->others, by_name);
  for (uint32_t i = 0; i < b->n_others; i++) b->vertex[b->others[i] - b->topology->nodes] = b->job->n_workers + i;
}

static enum banyan_status name_vertex(struct build *b, uint32_t vertex, const struct by_node *node) {
  b->plan->vertices[vertex].name = by_arena_string(&b->plan->arena, node->name);
  if (vertex >= b->job->n_workers)
    b->plan->vertices[vertex].kind = node->kind == BY_NODE_SWITCH ? BY_VERTEX_SWITCH : BY_VERTEX_SERVER;
  return b->plan->vertices[vertex].name ? BANYAN_OK : by_plan_no_memory();
}

static enum banyan_status add_vertices(struct build *b) {
  BY_TRY(by_plan_add_vertices(b->plan, b->job->n_workers, b->n_others));
  for (uint32_t r = 0; r < b->job->n_workers; r++) BY_TRY(name_vertex(b, r, &b->topology->nodes[b->job->workers[r]]));
  for (uint32_t i = 0; i < b->n_others; i++) BY_TRY(name_vertex(b, b->job->n_workers + i, b->others[i]));
  return BANYAN_OK;
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Positions follow the plan's order of vertices, so that ranks come first. */
static void take_positions(struct build *b, const struct by_placed_tree *tree, struct by_group *group) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < tree->n; v++)
    if (stands(b, tree, v)) group->order[n++] = b->vertex[tree->node[v]];
  qsort(group->order, n, sizeof *group->order, compare_numbers);
  for (uint32_t v = 0; v < tree->n; v++) {
    b->position[v] = NONE;
    for (uint32_t i = 0; i < n && stands(b, tree, v); i++)
      if (group->order[i] == b->vertex[tree->node[v]]) b->position[v] = i;
  }
}

/* A worker that forwards for others does not add for them: what passes it goes on to the next that does. */
static void find_parents(const struct build *b, const struct by_placed_tree *tree, struct by_group *group) {
  group->root = group->up[b->position[0]] = b->position[0];
  for (uint32_t v = 1; v < tree->n; v++) {
    uint32_t above = tree->parent[v];
    while (above && !tree->adds[above]) above = tree->parent[above];
    if (b->position[v] != NONE) group->up[b->position[v]] = b->position[above];
  }
}

static enum banyan_status add_tree(struct build *b, const struct by_placed_tree *tree, struct by_group *group) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < tree->n; v++) n += stands(b, tree, v);
  BY_TRY(by_group_init(b->plan, group, BY_GROUP_TREE, n, false));
  take_positions(b, tree, group);
  find_parents(b, tree, group);
  group->share = tree->share;
  group->rate = tree->rate;
  return BANYAN_OK;
}

static enum banyan_status fill(struct build *b) {
  struct by_class *class_;
  uint32_t n = 0;
  find_others(b);
  BY_TRY(add_vertices(b));
  BY_TRY(by_plan_add_classes(b->plan, 1));
  class_ = b->plan->classes;
  for (uint32_t t = 0; t < b->placement->n_trees; t++) n += is_mine(b, t);
  BY_TRY(by_plan_add_groups(b->plan, class_, n));
  n = 0;
  for (uint32_t t = 0; t < b->placement->n_trees; t++)
    if (is_mine(b, t)) BY_TRY(add_tree(b, &b->placement->trees[t], &class_->groups[n++]));
  double weight = b->job->weight;
  b->plan->facts.throughput = b->placement->rate * weight;
  b->plan->facts.bound = b->placement->bound * weight;
  b->plan->facts.ratio = b->placement->rate / b->placement->bound;
  return BANYAN_OK;
}

static uint32_t largest_tree(const struct by_placement *placement) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < placement->n_trees; t++) n = placement->trees[t].n > n ? placement->trees[t].n : n;
  return n;
}

enum banyan_status by_plan_of_placement(const char *name, const struct by_topology *topology,
                                        const struct by_placement *placement, uint32_t job,
                                        const struct by_placement_job *jobs, struct by_plan **out) {
  struct build b = {.topology = topology, .placement = placement, .job = &jobs[job], .number = job};
  struct by_arena scratch;
  BY_TRY(by_plan_create(name, &b.plan));
  by_arena_init(&scratch);
  b.vertex = BY_ARENA_ARRAY(&scratch, uint32_t, topology->n_nodes);
  b.others = BY_ARENA_ARRAY(&scratch, const struct by_node *, topology->n_nodes);
  b.position = BY_ARENA_ARRAY(&scratch, uint32_t, largest_tree(placement));
  enum banyan_status status = by_plan_no_memory();
  if (b.vertex && b.others && b.position) status = fill(&b);
  by_arena_fini(&scratch);
  if (status == BANYAN_OK) return by_plan_finish(b.plan, out);
  by_plan_destroy(b.plan);
  return status;
}
