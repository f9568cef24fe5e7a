/* Makes the products of a placement: a plan, the information for each worker, a drawing, and JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "placement.h"
#include "plan_make.h"
#include "text.h"
#include "tree_draw.h"

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

/* --- The plan. --- */

/* A vertex of the plan that is not a rank: a switch, or the server or an aggregator of one tree. */
struct other {
  const char *name;
  enum by_vertex_kind kind;
  uint32_t *vertex; /* The place where its number is stored. */
};

struct build {
  const struct by_topology *topology;
  const struct by_placement *placement;
  const struct by_placement_job *job;
  struct by_plan *plan;
  struct other *others;
  uint32_t n_others;
  uint32_t *vertex;   /* The vertex of each node that is a programmable switch; NONE for others. */
  uint32_t *server;   /* The server of each tree. */
  uint32_t **beside;  /* The aggregator in the plan for each vertex of each tree; NONE: there is none. */
  uint32_t *served;   /* The number of servers and aggregators on each node that have a name. */
  uint32_t *position; /* The position of each of the plan's vertices in the current group. */
};

/* Returns whether the vertex is in trees of the plan. Ordinary switches, and hosts that forward for others, are not. */
static bool is_programmable(const struct build *b, const struct by_placed_tree *tree, uint32_t v) {
  return v && b->topology->nodes[tree->node[v]].aggregates;
}

static bool has_aggregator(const struct by_placed_tree *tree, uint32_t v) {
  return tree->adds[v] && tree->aggregator[v] != NONE;
}

/* Returns the vertex of the plan that adds or may add at v of the tree. Returns NONE if there is none. */
static uint32_t get_vertex(const struct build *b, uint32_t t, uint32_t v) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  return is_programmable(b, tree, v) ? b->vertex[tree->node[v]] : b->beside[t][v];
}

static int compare_names(const void *a, const void *b) {
  return strcmp(((const struct other *)a)->name, ((const struct other *)b)->name);
}

static void find_switches(struct build *b, const struct by_placed_tree *tree) {
  for (uint32_t v = 0; v < tree->n; v++) {
    uint32_t node = tree->node[v];
    if (!is_programmable(b, tree, v) || b->vertex[node] != NONE) continue;
    b->vertex[node] = 0; /* Its number is set below. */
    b->others[b->n_others++] = (struct other){b->topology->nodes[node].name, BY_VERTEX_SWITCH, &b->vertex[node]};
  }
}

/* Adds a server with the name "HOST/0", "HOST/1", ... */
static enum banyan_status name_server(struct build *b, uint32_t host, uint32_t *vertex) {
  char name[BY_TOPOLOGY_MAX_NAME + 16];
  snprintf(name, sizeof name, "%s/%u", b->topology->nodes[host].name, b->served[host]++);
  const char *copy = by_arena_string(&b->plan->arena, name);
  if (!copy) return by_plan_no_memory();
  b->others[b->n_others++] = (struct other){copy, BY_VERTEX_SERVER, vertex};
  return BANYAN_OK;
}

static enum banyan_status find_others(struct build *b) {
  for (uint32_t i = 0; i < b->topology->n_nodes; i++) b->vertex[i] = NONE;
  for (uint32_t t = 0; t < b->placement->n_trees; t++) {
    const struct by_placed_tree *tree = &b->placement->trees[t];
    find_switches(b, tree);
    BY_TRY(name_server(b, tree->node[0], &b->server[t]));
    for (uint32_t v = 0; v < tree->n; v++) {
      b->beside[t][v] = NONE;
      if (has_aggregator(tree, v)) BY_TRY(name_server(b, tree->aggregator[v], &b->beside[t][v]));
    }
  }
  qsort(b->others, b->n_others, sizeof *b->others, compare_names);
  for (uint32_t i = 0; i < b->n_others; i++) *b->others[i].vertex = b->job->n_workers + i;
  return BANYAN_OK;
}

static enum banyan_status add_vertices(struct build *b) {
  uint32_t n = b->job->n_workers;
  BY_TRY(by_plan_add_vertices(b->plan, n, b->n_others));
  for (uint32_t v = 0; v < b->plan->n_vertices; v++) {
    const char *name = v < n ? b->topology->nodes[b->job->workers[v]].name : b->others[v - n].name;
    b->plan->vertices[v].name = by_arena_string(&b->plan->arena, name);
    if (!b->plan->vertices[v].name) return by_plan_no_memory();
    if (v >= n) b->plan->vertices[v].kind = b->others[v - n].kind;
  }
  return BANYAN_OK;
}

/* Sets the positions of a group. They follow the plan's order of vertices, so that ranks come first. */
static enum banyan_status set_positions(struct build *b, uint32_t t, struct by_group *group) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  uint32_t ranks = b->job->n_workers, n = ranks;
  for (uint32_t v = 0; v < tree->n; v++) n += !v || get_vertex(b, t, v) != NONE;
  BY_TRY(by_group_init(b->plan, group, BY_GROUP_TREE, n, false));
  n = ranks;
  group->order[n++] = b->server[t];
  for (uint32_t v = 1; v < tree->n; v++)
    if (get_vertex(b, t, v) != NONE) group->order[n++] = get_vertex(b, t, v);
  qsort(group->order + ranks, n - ranks, sizeof *group->order, by_compare_numbers);
  for (uint32_t u = 0; u < n; u++) b->position[group->order[u]] = u;
  group->root = b->position[b->server[t]];
  group->up[group->root] = group->root;
  return BANYAN_OK;
}

static enum banyan_status add_group_port(struct build *b, struct by_group *group, uint32_t node, uint32_t link,
                                         uint32_t towards) {
  char name[BY_TOPOLOGY_MAX_NAME + 1];
  by_topology_interface(b->topology, link, node, name, sizeof name);
  struct by_group_port *port = &group->ports[group->n_ports++];
  *port = (struct by_group_port){b->vertex[node], towards, by_arena_string(&b->plan->arena, name)};
  return port->interface ? BANYAN_OK : by_plan_no_memory();
}

/* Makes the vertex at v of the tree a child of the first programmable switch or aggregator above, or of the server. */
static enum banyan_status attach_vertex(struct build *b, uint32_t t, uint32_t v, uint32_t vertex,
                                        struct by_group *group) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  uint32_t below = v, above = v ? tree->parent[v] : 0;
  for (; above && get_vertex(b, t, above) == NONE; above = tree->parent[above]) below = above;
  uint32_t parent = above ? get_vertex(b, t, above) : b->server[t];
  group->up[b->position[vertex]] = b->position[parent];
  if (is_programmable(b, tree, above)) BY_TRY(add_group_port(b, group, tree->node[above], tree->link[below], vertex));
  if (vertex < b->job->n_workers || !is_programmable(b, tree, v)) return BANYAN_OK;
  if (!tree->adds[v]) group->forwards[group->n_forwards++] = vertex;
  return add_group_port(b, group, tree->node[v], tree->link[v], parent);
}

static enum banyan_status add_group(struct build *b, uint32_t t, struct by_group *group) {
  const struct by_placed_tree *tree = &b->placement->trees[t];
  BY_TRY(set_positions(b, t, group));
  group->share = tree->share;
  group->rate = tree->rate;
  group->forwards = BY_ARENA_ARRAY(&b->plan->arena, uint32_t, group->n);
  group->ports = BY_ARENA_ARRAY(&b->plan->arena, struct by_group_port, 2 * (size_t)group->n);
  if (!group->forwards || !group->ports) return by_plan_no_memory();
  for (uint32_t w = 0; w < b->job->n_workers; w++) BY_TRY(attach_vertex(b, t, tree->start[w], w, group));
  for (uint32_t v = 1; v < tree->n; v++)
    if (get_vertex(b, t, v) != NONE) BY_TRY(attach_vertex(b, t, v, get_vertex(b, t, v), group));
  by_group_sort_ports(group);
  return BANYAN_OK;
}

static enum banyan_status fill_plan(struct build *b) {
  uint32_t n = b->placement->n_trees;
  BY_TRY(find_others(b));
  BY_TRY(add_vertices(b));
  BY_TRY(by_plan_add_classes(b->plan, 1, 0));
  struct by_class *class_ = b->plan->classes;
  BY_TRY(by_plan_add_groups(b->plan, class_, n));
  for (uint32_t t = 0; t < n; t++) BY_TRY(add_group(b, t, &class_->groups[t]));
  b->plan->facts = (struct by_plan_facts){.throughput = b->placement->rate,
                                          .bound = b->placement->bound,
                                          .ratio = b->placement->rate / b->placement->bound};
  return BANYAN_OK;
}

enum banyan_status by_plan_of_placement(const char *name, const struct by_topology *topology,
                                        const struct by_placement *placement, const struct by_placement_job *job,
                                        struct by_plan **out) {
  struct build b = {.topology = topology, .placement = placement, .job = job};
  size_t nodes = topology->n_nodes, trees = placement->n_trees, max = nodes + trees;
  struct by_arena scratch = {0};
  BY_TRY(by_plan_create(name, &b.plan));
  b.vertex = BY_ARENA_ARRAY(&scratch, uint32_t, nodes);
  b.server = BY_ARENA_ARRAY(&scratch, uint32_t, trees);
  b.served = BY_ARENA_ARRAY(&scratch, uint32_t, nodes);
  b.beside = BY_ARENA_ARRAY(&scratch, uint32_t *, trees);
  for (size_t t = 0; t < trees && b.beside; t++) {
    b.beside[t] = BY_ARENA_ARRAY(&scratch, uint32_t, placement->trees[t].n);
    max += placement->trees[t].n;
  }
  b.others = BY_ARENA_ARRAY(&scratch, struct other, max);
  b.position = BY_ARENA_ARRAY(&scratch, uint32_t, max + b.job->n_workers);
  enum banyan_status status = by_plan_no_memory();
  if (!scratch.failed) status = fill_plan(&b);
  by_arena_fini(&scratch);
  if (status == BANYAN_OK) return by_plan_end(b.plan, BANYAN_OK, out);
  by_plan_destroy(b.plan);
  return status;
}

/* --- Text for people. --- */

struct subject {
  const struct by_topology *topology;
  const struct by_placement_job *job;
  const struct by_placed_tree *tree;
};

static const struct by_node *get_node(const struct subject *s, uint32_t v) {
  return &s->topology->nodes[s->tree->node[v]];
}

/* Returns the bytes of cells that a switch needs to add. */
static double get_cells(const struct by_placed_tree *tree) {
  return tree->rate * tree->round_trip / 8;
}

/* Prints a label such as "leaf1 adds 4", "h7 beside leaf1 adds 4", "spine0 forwards 2" or "h3". */
static void label_vertex(const void *owner, uint32_t v, char *out, size_t bytes) {
  const struct subject *s = owner;
  const struct by_placed_tree *tree = s->tree;
  if (!v)
    snprintf(out, bytes, "%s (server)", get_node(s, v)->name);
  else if (has_aggregator(tree, v))
    snprintf(out, bytes, "%s beside %s adds %u", s->topology->nodes[tree->aggregator[v]].name, get_node(s, v)->name,
             tree->workers[v]);
  else if (tree->adds[v])
    snprintf(out, bytes, "%s adds %u", get_node(s, v)->name, tree->workers[v]);
  else if (tree->out[v] > 1)
    snprintf(out, bytes, "%s forwards %u", get_node(s, v)->name, tree->out[v]);
  else
    snprintf(out, bytes, "%s", get_node(s, v)->name);
  by_trim_label(out, bytes);
}

static void draw_tree(const struct subject *s, uint32_t *scratch, struct by_text *text) {
  const struct by_placed_tree *tree = s->tree;
  struct by_tree_drawing drawing = {.n = tree->n, .parent = tree->parent, .label = label_vertex, .owner = s};
  char shown[32];
  uint32_t adding = 0, beside = 0;
  for (uint32_t v = 0; v < tree->n; v++) adding += tree->adds[v] && tree->aggregator[v] == NONE;
  for (uint32_t v = 0; v < tree->n; v++) beside += has_aggregator(tree, v);
  by_text_add(text, "  tree to %s: %.3g %%, %s", get_node(s, 0)->name, 100 * tree->share,
              by_print_rate(tree->rate, shown));
  if (adding)
    by_text_add(text, ", %u switch%s with cells of %s", adding, adding == 1 ? " adds" : "es add",
                by_print_bytes((uint64_t)get_cells(tree), shown));
  if (beside) by_text_add(text, ", %u aggregator%s", beside, beside == 1 ? "" : "s");
  by_text_add(text, "\n");
  drawing.child = scratch;
  drawing.sibling = scratch + tree->n;
  by_tree_draw(&drawing, "", text);
}

enum banyan_status by_placement_draw(const struct by_placement *placement, const struct by_topology *topology,
                                     const struct by_placement_job *job, struct by_text *text) {
  struct subject subject = {.topology = topology, .job = job};
  char shown[3][32];
  by_text_add(text, "in-network aggregation: %u workers, %s each; %s with no switch adding, %s at most\n",
              job->n_workers, by_print_rate(placement->rate, shown[0]), by_print_rate(placement->without, shown[1]),
              by_print_rate(placement->bound, shown[2]));
  for (uint32_t t = 0; t < placement->n_trees; t++) {
    uint32_t *scratch = calloc(2 * (size_t)placement->trees[t].n, sizeof *scratch);
    if (!scratch) return by_plan_no_memory();
    subject.tree = &placement->trees[t];
    draw_tree(&subject, scratch, text);
    free(scratch);
  }
  return BANYAN_OK;
}

/* --- JSON. --- */

static void add_real(struct by_text *text, const char *key, double value) {
  by_text_add(text, ", \"%s\": ", key);
  by_json_add_real(text, value);
}

/* Adds the port by which a link leaves a node: its name if it has one, and the node at the other end. */
static void add_port(const struct subject *s, const char *key, uint32_t node, uint32_t number, struct by_text *text) {
  const struct by_link *link = &s->topology->links[number];
  const char *port = link->port[link->a == node ? 0 : 1];
  by_text_add(text, ", \"%s\": {\"to\": ", key);
  by_json_add_string(text, s->topology->nodes[by_link_other(link, node)].name);
  if (*port) {
    by_text_add(text, ", \"name\": ");
    by_json_add_string(text, port);
  }
  by_text_add(text, "}");
}

static void add_hop(const struct subject *s, const struct by_placed_hop *hop, bool up, struct by_text *text) {
  by_text_add(text, "{\"switch\": ");
  by_json_add_string(text, s->topology->nodes[hop->node].name);
  by_text_add(text, ", \"adds\": %s", hop->adds ? "true" : "false");
  if (up) by_text_add(text, ", \"expected\": %u", hop->expected);
  add_port(s, "port", hop->node, up ? hop->up : hop->down, text);
  by_text_add(text, "}");
}

static void add_worker(const struct subject *s, uint32_t worker, struct by_placed_hop *hops, struct by_text *text) {
  uint32_t n = by_placed_stack(s->tree, s->topology, worker, hops);
  by_json_add_string(text, s->topology->nodes[s->job->workers[worker]].name);
  by_text_add(text, ": {\"up\": [");
  for (uint32_t i = 0; i < n; i++) {
    by_text_add(text, "%s", i ? ", " : "");
    add_hop(s, &hops[i], true, text);
  }
  by_text_add(text, "], \"down\": [");
  for (uint32_t i = n; i-- > 0;) {
    by_text_add(text, "%s", i + 1 < n ? ", " : "");
    add_hop(s, &hops[i], false, text);
  }
  by_text_add(text, "]}");
}

/* Adds the links towards the workers, over which a result is multicast. */
static void add_branches(const struct subject *s, uint32_t v, struct by_text *text) {
  const char *comma = "";
  by_text_add(text, ", \"branches\": [");
  for (uint32_t child = v + 1; child < s->tree->n; child++) {
    if (s->tree->parent[child] != v) continue;
    by_text_add(text, "%s{\"workers\": %u", comma, s->tree->workers[child]);
    add_port(s, "port", s->tree->node[v], s->tree->link[child], text);
    by_text_add(text, "}");
    comma = ", ";
  }
  by_text_add(text, "]");
}

static void add_switches(const struct subject *s, struct by_text *text) {
  const char *comma = "";
  by_text_add(text, ", \"switches\": {");
  for (uint32_t v = 1; v < s->tree->n; v++) {
    if (!get_node(s, v)->aggregates) continue;
    by_text_add(text, "%s", comma);
    by_json_add_string(text, get_node(s, v)->name);
    by_text_add(text, ": {\"adds\": %s, \"expected\": %u", s->tree->adds[v] ? "true" : "false", s->tree->workers[v]);
    add_real(text, "cells", s->tree->adds[v] ? get_cells(s->tree) : 0);
    add_port(s, "port", s->tree->node[v], s->tree->link[v], text);
    add_branches(s, v, text);
    by_text_add(text, "}");
    comma = ", ";
  }
  by_text_add(text, "}");
}

static void add_aggregators(const struct subject *s, struct by_text *text) {
  const char *comma = "";
  by_text_add(text, ", \"aggregators\": {");
  for (uint32_t v = 1; v < s->tree->n; v++) {
    if (!has_aggregator(s->tree, v)) continue;
    by_text_add(text, "%s", comma);
    by_json_add_string(text, s->topology->nodes[s->tree->aggregator[v]].name);
    by_text_add(text, ": {\"beside\": ");
    by_json_add_string(text, get_node(s, v)->name);
    by_text_add(text, ", \"expected\": %u}", s->tree->workers[v]);
    comma = ", ";
  }
  by_text_add(text, "}");
}

static void add_tree(const struct subject *s, struct by_placed_hop *hops, struct by_text *text) {
  by_text_add(text, "{\"server\": ");
  by_json_add_string(text, get_node(s, 0)->name);
  add_real(text, "share", s->tree->share);
  add_real(text, "rate", s->tree->rate);
  add_real(text, "round_trip", s->tree->round_trip);
  add_switches(s, text);
  add_aggregators(s, text);
  by_text_add(text, ", \"workers\": {");
  for (uint32_t i = 0; i < s->job->n_workers; i++) {
    by_text_add(text, "%s", i ? ", " : "");
    add_worker(s, i, hops, text);
  }
  by_text_add(text, "}}");
}

static enum banyan_status add_trees(const struct by_placement *placement, struct subject *s, struct by_text *text) {
  const char *comma = "";
  for (uint32_t t = 0; t < placement->n_trees; t++) {
    s->tree = &placement->trees[t];
    struct by_placed_hop *hops = calloc(s->tree->n, sizeof *hops);
    if (!hops) return by_plan_no_memory();
    by_text_add(text, "%s", comma);
    add_tree(s, hops, text);
    free(hops);
    comma = ", ";
  }
  return BANYAN_OK;
}

enum banyan_status by_placement_print(const struct by_placement *placement, const struct by_topology *topology,
                                      const struct by_placement_job *job, struct by_text *text) {
  struct subject subject = {.topology = topology, .job = job};
  struct by_plan *plan;
  BY_TRY(by_plan_of_placement("in-network", topology, placement, job, &plan));
  by_text_add(text, "{\"format\": \"banyan-placement 1\"");
  add_real(text, "rate", placement->rate);
  add_real(text, "bound", placement->bound);
  add_real(text, "without", placement->without);
  add_real(text, "theta", 1 / placement->rate);
  add_real(text, "theta_without", 1 / placement->without);
  by_text_add(text, ", \"plan\": ");
  by_plan_print(plan, text);
  by_plan_destroy(plan);
  by_text_add(text, ", \"trees\": [");
  BY_TRY(add_trees(placement, &subject, text));
  by_text_add(text, "]}");
  return BANYAN_OK;
}
