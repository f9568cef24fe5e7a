/* Draws plans and control trees as SVG. */
#include "plan_topology.h"

#include <stdio.h>
#include <string.h>

#include "output.h"
#include "plan_load.h"
#include "process.h"
#include "svg_trees.h"
#include "text.h"
#include "topology_draw.h"

enum { MAX_TREES = 24, TITLE = 200 };

/* The trees of a size class. */
struct drawn {
  struct by_svg_trees trees;
  struct by_svg_vertex *vertices;
  struct by_svg_tree *list;
  uint32_t n;
};

/* ---- vertices */

/* Finds the host of a vertex: "h0/1" is the second server on host h0. */
static uint32_t find_node(const struct by_topology *topology, const struct by_vertex *vertex) {
  char host[BY_TOPOLOGY_MAX_NAME + 1];
  uint32_t node = by_topology_find(topology, vertex->name);
  const char *slash = strrchr(vertex->name, '/');
  if (node < topology->n_nodes || vertex->kind != BY_VERTEX_SERVER || !slash) return node;
  snprintf(host, sizeof host, "%.*s", (int)(slash - vertex->name), vertex->name);
  return by_topology_find(topology, host);
}

static void add_vertices(struct drawn *drawn, const struct by_plan *plan, const struct by_topology *topology) {
  static const enum by_svg_vertex_kind kinds[] = {[BY_VERTEX_RANK] = BY_SVG_RANK,
                                                  [BY_VERTEX_HELPER] = BY_SVG_HELPER,
                                                  [BY_VERTEX_SWITCH] = BY_SVG_SWITCH,
                                                  [BY_VERTEX_SERVER] = BY_SVG_SERVER};
  drawn->vertices = by_cli_zeroed(plan->n_vertices, sizeof *drawn->vertices);
  for (uint32_t v = 0; v < plan->n_vertices; v++) {
    const struct by_vertex *vertex = &plan->vertices[v];
    uint32_t node = topology ? find_node(topology, vertex) : UINT32_MAX;
    drawn->vertices[v] = (struct by_svg_vertex){.name = vertex->name,
                                                .node = topology && node < topology->n_nodes ? node : UINT32_MAX,
                                                .kind = kinds[vertex->kind]};
  }
}

/* ---- trees */

/* Prints "tree 1: 25 %, 67 Mbit/s, rotated over 4 positions, of which the first is shown". */
static const char *make_title(const struct by_group *group, uint32_t number, const char *way) {
  char rate[32], *title = by_cli_zeroed(TITLE, 1);
  int n = snprintf(title, TITLE, "tree %u%s: %.3g %%", number, way, 100 * group->share);
  if (group->rate > 0) n += snprintf(title + n, (size_t)(TITLE - n), ", %s", by_print_rate(group->rate, rate));
  if (group->kind == BY_GROUP_ROTATED)
    snprintf(title + n, (size_t)(TITLE - n), "; the first of %u, rotated", group->n);
  else if (group->kind == BY_GROUP_EXCHANGE)
    snprintf(title + n, (size_t)(TITLE - n), "; exchange in %u step%s", group->n_radix, group->n_radix == 1 ? "" : "s");
  return title;
}

/* Adds vertices that are leaves of the same vertex in every tree after the positions. */
static void add_twigs(const struct by_group *group, uint32_t *vertex, uint32_t *parent) {
  for (uint32_t i = 0; i < group->n_twigs; i++) {
    uint32_t at = 0;
    while (at < group->n && group->order[at] != group->twigs[i].parent) at++;
    vertex[group->n + i] = group->twigs[i].child;
    parent[group->n + i] = at < group->n ? at : group->root;
  }
}

static void add_tree(struct drawn *drawn, const struct by_group *group, uint32_t number, const uint32_t *ways,
                     const char *way) {
  uint32_t n = group->n + (ways ? group->n_twigs : 0);
  uint32_t *vertex = by_cli_zeroed(n, sizeof *vertex), *parent = by_cli_zeroed(n, sizeof *parent);
  memcpy(vertex, group->order, group->n * sizeof *vertex);
  if (ways) memcpy(parent, ways, group->n * sizeof *parent);
  if (ways) add_twigs(group, vertex, parent);
  drawn->list[drawn->n++] = (struct by_svg_tree){.title = make_title(group, number, way),
                                                 .number = number,
                                                 .n = n,
                                                 .root = group->root,
                                                 .vertex = vertex,
                                                 .parent = parent,
                                                 .n_radix = group->n_radix,
                                                 .radix = group->radix,
                                                 .downwards = ways && ways == group->down && ways != group->up};
  if (ways) return;
  free(parent);
  drawn->list[drawn->n - 1].parent = NULL;
}

static void add_group(struct drawn *drawn, const struct by_group *group, uint32_t number) {
  if (group->kind == BY_GROUP_EXCHANGE) {
    add_tree(drawn, group, number, NULL, "");
    return;
  }
  bool same = memcmp(group->up, group->down, group->n * sizeof *group->up) == 0;
  add_tree(drawn, group, number, group->up, same ? "" : ", up");
  if (!same) add_tree(drawn, group, number, group->down, ", down");
}

static void init_drawing(struct drawn *drawn, const struct by_svg_request *request, const struct by_plan *plan,
                         const struct by_class *class_, const struct by_topology *topology) {
  uint32_t n = request->tree >= 0 ? 1 : class_->n_groups < MAX_TREES ? class_->n_groups : MAX_TREES;
  uint32_t first = request->tree >= 0 ? (uint32_t)request->tree : 0;
  *drawn = (struct drawn){.list = by_cli_zeroed((size_t)2 * n, sizeof *drawn->list)};
  add_vertices(drawn, plan, topology);
  for (uint32_t i = first; i < first + n; i++) add_group(drawn, &class_->groups[i], i);
  drawn->trees = (struct by_svg_trees){.vertices = drawn->vertices,
                                       .trees = drawn->list,
                                       .n = drawn->n,
                                       .left_out = request->tree >= 0 ? 0 : class_->n_groups - n};
}

static void fini_drawing(struct drawn *drawn) {
  for (uint32_t i = 0; i < drawn->n; i++) {
    free((void *)(uintptr_t)drawn->list[i].title);
    free((void *)(uintptr_t)drawn->list[i].vertex);
    free((void *)(uintptr_t)drawn->list[i].parent);
  }
  free(drawn->list);
  free(drawn->vertices);
}

/* ---- documents */

static enum banyan_status write_with_network(const struct by_svg_request *request, const struct by_plan *plan,
                                             const struct by_topology *topology, const struct drawn *drawn) {
  struct by_plan_load load;
  char name[BY_PLAN_MAX_NAME + 64], size[32];
  BY_TRY(by_plan_find_load(&load, plan, request->bytes, topology));
  snprintf(name, sizeof name, "plan %s, %s", plan->name, by_print_bytes(request->bytes, size));
  const struct by_draw_options options = {
      .load = (const double(*)[2])load.link, .load_name = name, .trees = &drawn->trees, .dark = request->dark};
  enum banyan_status status = by_write_svg(request->path, topology, &options);
  by_plan_load_fini(&load);
  return status;
}

static enum banyan_status write_trees(const struct by_svg_request *request, const struct by_plan *plan,
                                      const struct drawn *drawn) {
  char title[BY_PLAN_MAX_NAME + 16], note[160], size[32];
  struct by_text text = {0};
  snprintf(title, sizeof title, "plan %s", plan->name);
  snprintf(note, sizeof note, "%u rank%s; trees for buffers of %s; sums go up to the root, results come down",
           plan->n_ranks, plan->n_ranks == 1 ? "" : "s", by_print_bytes(request->bytes, size));
  enum banyan_status status = by_svg_print_trees(&drawn->trees, title, note, request->dark, &text);
  if (status == BANYAN_OK) status = by_write_text(request->path, &text);
  by_text_fini(&text);
  return status;
}

enum banyan_status by_plan_write_svg(const struct by_svg_request *request, const struct by_plan *plan,
                                     const struct by_topology *topology) {
  struct drawn drawn;
  const struct by_class *class_ = by_plan_class(plan, request->bytes);
  if (request->tree >= (long)class_->n_groups)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "there is no tree %ld: the plan has %u for buffers of this size, from tree 0 on", request->tree,
                   class_->n_groups);
  init_drawing(&drawn, request, plan, class_, topology);
  enum banyan_status status =
      topology ? write_with_network(request, plan, topology, &drawn) : write_trees(request, plan, &drawn);
  fini_drawing(&drawn);
  return status;
}

enum banyan_status by_plan_write_control_svg(const struct by_svg_request *request,
                                             const struct by_controller_trees *control) {
  const struct by_control_tree *tree = control->tree;
  const struct by_topology *topology = control->topology;
  struct by_svg_vertex *vertices = by_cli_zeroed(tree->n, sizeof *vertices);
  uint32_t *vertex = by_cli_zeroed(tree->n, sizeof *vertex);
  char title[TITLE];
  snprintf(title, sizeof title, "control tree: height %u, at most %u children", tree->height, tree->fan_out);
  for (uint32_t r = 0; r < tree->n; r++) {
    uint32_t node = control->near.node[r];
    vertex[r] = r;
    vertices[r] = (struct by_svg_vertex){.name = topology->nodes[node].name, .node = node, .kind = BY_SVG_RANK};
  }
  const struct by_svg_tree one = {
      .title = title, .n = tree->n, .root = tree->root, .vertex = vertex, .parent = tree->parent};
  const struct by_svg_trees trees = {.vertices = vertices, .trees = &one, .n = 1};
  const struct by_draw_options options = {.trees = &trees, .dark = request->dark};
  enum banyan_status status = by_write_svg(request->path, topology, &options);
  free(vertices);
  free(vertex);
  return status;
}
