/* What comes of a placement: a plan, and what each worker is told. */
#include <stdio.h>
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

/* A vertex of the plan that is no rank: a switch, or the server of one tree. */
struct other {
  const char *name;
  enum by_vertex_kind kind;
  uint32_t at; /* the node, or the tree among all of the placement */
};

struct build {
  const struct by_topology *topology;
  const struct by_placement *placement;
  const struct by_placement_job *job;
  uint32_t number;
  struct by_plan *plan;
  struct other *others;
  uint32_t n_others;
  uint32_t *vertex;   /* of each node: a programmable switch's in the plan; NONE */
  uint32_t *server;   /* of each tree */
  uint32_t *position; /* of each of the plan's vertices, in the group being made */
};

static bool is_mine(const struct build *b, uint32_t t) {
  return b->placement->trees[t].job == b->number;
}

/* Ordinary switches, and hosts that forward for others, know nothing of trees. */
static bool is_programmable(const struct build *b, const struct by_placed_tree *tree, uint32_t v) {
  return v && b->topology->nodes[tree->node[v]].aggregates;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct other *)a)->name, ((const struct other *)b)->name);
}

static void find_switches(struct build *b, const struct by_placed_tree *tree) {
  for (uint32_t v = 0; v < tree->n; v++) {
    uint32_t node = tree->node[v];
    if (!is_programmable(b, tree, v) || b->vertex[node] != NONE) continue;
    b->vertex[node] = 0; /* its place follows */
    b->others[b->n_others++] = (struct other){b->topology->nodes[node].name, BY_VERTEX_SWITCH, node};
  }
}

/* "HOST/0", "HOST/1", ... */
static enum banyan_status name_server(struct build *b, uint32_t t) {
  const struct by_placed_tree *trees = b->placement->trees;
  char name[BY_TOPOLOGY_MOST_NAME + 16];
  uint32_t before = 0;
  for (uint32_t i = 0; i < t; i++) before += is_mine(b, i) && trees[i].server == trees[t].server;
  snprintf(name, sizeof name, "%s/%u", b->topology->nodes[trees[t].node[0]].name, before);
  const char *copy = by_arena_string(&b->plan->arena, name);
  if (!copy) return by_plan_no_memory();
  b->others[b->n_others++] = (struct other){copy, BY_VERTEX_SERVER, t};
  return BANYAN_OK;
}

static enum banyan_status find_others(struct build *b) {
  for (uint32_t i = 0; i < b->topology->n_nodes; i++) b->vertex[i] = NONE;
  for (uint32_t t = 0; t < b->placement->n_trees; t++) {
    if (!is_mine(b, t)) continue;
    find_switches(b, &b->placement->trees[t]);
    BY_TRY(name_server(b, t));
  }
  qsort(b->others, b->n_others, sizeof *b->others, by_name);
  for (uint32_t i = 0; i < b->n_others; i++) {
    const struct other *other = &b->others[i];
    *(other->kind == BY_VERTEX_SWITCH ? &b->vertex[other->at] : &b->server[other->at]) = b->job->n_workers + i;
  }
  return BANYAN_OK;
}

static enum banyan_status name_vertex(struct build *b, uint32_t vertex, const char *name) {
  b->plan->vertices[vertex].name = by_arena_string(&b->plan->arena, name);
  return b->plan->vertices[vertex].name ? BANYAN_OK : by_plan_no_memory();
}

static enum banyan_status add_vertices(struct build *b) {
  uint32_t n = b->job->n_workers;
  BY_TRY(by_plan_add_vertices(b->plan, n, b->n_others));
  for (uint32_t r = 0; r < n; r++) BY_TRY(name_vertex(b, r, b->topology->nodes[b->job->workers[r]].name));
  for (uint32_t i = 0; i < b->n_others; i++) {
    BY_TRY(name_vertex(b, n + i, b->others[i].name));
    b->plan->vertices[n + i].kind = b->others[i].kind;
  }
  return BANYAN_OK;
}

static int compare_numbers(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Positions follow the plan's order of vertices, so that ranks come first. */
static enum banyan_status take_positions(struct build *b, uint32_t t, struct by_group *group) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  uint32_t ranks = b->job->n_workers, n = ranks;
  for (uint32_t v = 0; v < tree->n; v++) n += !v || is_programmable(b, tree, v);
  BY_TRY(by_group_init(b->plan, group, BY_GROUP_TREE, n, false));
  n = ranks;
  group->order[n++] = b->server[t];
  for (uint32_t v = 1; v < tree->n; v++)
    if (is_programmable(b, tree, v)) group->order[n++] = b->vertex[tree->node[v]];
  qsort(group->order + ranks, n - ranks, sizeof *group->order, compare_numbers);
  for (uint32_t u = 0; u < n; u++) b->position[group->order[u]] = u;
  group->root = b->position[b->server[t]];
  group->up[group->root] = group->root;
  return BANYAN_OK;
}

static enum banyan_status add_port(struct build *b, struct by_group *group, uint32_t node, uint32_t link,
                                   uint32_t towards) {
  char name[BY_TOPOLOGY_MOST_NAME + 1];
  by_topology_interface(b->topology, link, node, name, sizeof name);
  struct by_group_port *port = &group->ports[group->n_ports++];
  *port = (struct by_group_port){b->vertex[node], towards, by_arena_string(&b->plan->arena, name)};
  return port->interface ? BANYAN_OK : by_plan_no_memory();
}

/* Hangs what is at v of the tree on the first programmable switch above, or on the server. */
static enum banyan_status hang(struct build *b, uint32_t t, uint32_t v, uint32_t vertex, struct by_group *group) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  uint32_t below = v, above = v ? tree->parent[v] : 0;
  for (; above && !is_programmable(b, tree, above); above = tree->parent[above]) below = above;
  uint32_t parent = above ? b->vertex[tree->node[above]] : b->server[t];
  group->up[b->position[vertex]] = b->position[parent];
  if (above) BY_TRY(add_port(b, group, tree->node[above], tree->link[below], vertex));
  if (vertex < b->job->n_workers) return BANYAN_OK;
  if (!tree->adds[v]) group->forwards[group->n_forwards++] = vertex;
  return add_port(b, group, tree->node[v], tree->link[v], parent);
}

static enum banyan_status add_tree(struct build *b, uint32_t t, struct by_group *group) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  BY_TRY(take_positions(b, t, group));
  group->share = tree->share;
  group->rate = tree->rate;
  group->forwards = BY_ARENA_ARRAY(&b->plan->arena, uint32_t, group->n);
  group->ports = BY_ARENA_ARRAY(&b->plan->arena, struct by_group_port, 2 * (size_t)group->n);
  if (!group->forwards || !group->ports) return by_plan_no_memory();
  for (uint32_t w = 0; w < b->job->n_workers; w++) BY_TRY(hang(b, t, tree->start[w], w, group));
  for (uint32_t v = 1; v < tree->n; v++)
    if (is_programmable(b, tree, v)) BY_TRY(hang(b, t, v, b->vertex[tree->node[v]], group));
  by_group_sort_ports(group);
  return BANYAN_OK;
}

static enum banyan_status fill(struct build *b) {
  struct by_class *class_;
  uint32_t n = 0;
  BY_TRY(find_others(b));
  BY_TRY(add_vertices(b));
  BY_TRY(by_plan_add_classes(b->plan, 1));
  class_ = b->plan->classes;
  for (uint32_t t = 0; t < b->placement->n_trees; t++) n += is_mine(b, t);
  BY_TRY(by_plan_add_groups(b->plan, class_, n));
  n = 0;
  for (uint32_t t = 0; t < b->placement->n_trees; t++)
    if (is_mine(b, t)) BY_TRY(add_tree(b, t, &class_->groups[n++]));
  double weight = b->job->weight;
  b->plan->facts.throughput = b->placement->rate * weight;
  b->plan->facts.bound = b->placement->bound * weight;
  b->plan->facts.ratio = b->placement->rate / b->placement->bound;
  return BANYAN_OK;
}

enum banyan_status by_plan_of_placement(const char *name, const struct by_topology *topology,
                                        const struct by_placement *placement, uint32_t job,
                                        const struct by_placement_job *jobs, struct by_plan **out) {
  struct build b = {.topology = topology, .placement = placement, .job = &jobs[job], .number = job};
  size_t nodes = topology->n_nodes, trees = placement->n_trees;
  struct by_arena scratch;
  BY_TRY(by_plan_create(name, &b.plan));
  by_arena_init(&scratch);
  b.vertex = BY_ARENA_ARRAY(&scratch, uint32_t, nodes);
  b.server = BY_ARENA_ARRAY(&scratch, uint32_t, trees);
  b.others = BY_ARENA_ARRAY(&scratch, struct other, nodes + trees);
  b.position = BY_ARENA_ARRAY(&scratch, uint32_t, nodes + trees + b.job->n_workers);
  enum banyan_status status = by_plan_no_memory();
  if (b.vertex && b.server && b.others && b.position) status = fill(&b);
  by_arena_fini(&scratch);
  if (status == BANYAN_OK) return by_plan_finish(b.plan, out);
  by_plan_destroy(b.plan);
  return status;
}
