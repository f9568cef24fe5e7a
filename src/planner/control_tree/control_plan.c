/* Makes a tree and a ring for control messages, computes the times of messages along each, and prints them as text and
 * JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_tree.h"
#include "json_doc.h"
#include "plan_load.h"
#include "plan_make.h"
#include "text.h"
#include "topology.h"
#include "tree_draw.h"

/* --- A ring through neighbours. --- */

#define NONE UINT32_MAX

/* The seconds that a link counts for in addition to its delay, so that of paths of equal delay the one with fewer links
 * is shorter. */
static const float per_link = 1e-6F;

/* The search for neighbours. An island is a set of connected nodes that forward; its shores are the links between it
 * and ranks. */
struct work {
  const struct by_topology *topology;
  const struct by_nearness *near;
  struct by_adjacency graph;
  uint32_t *rank;   /* The rank of each node; NONE: it forwards. */
  uint32_t *island; /* For each node that forwards: another node of its island (by_find_leader). */
  uint32_t *first;  /* The first shore of each island; NONE: it has none. */
  uint32_t *next;   /* The next shore of the island of each shore. */
  uint64_t *row;    /* The bits of the ranks around one island. */
  struct by_arena arena;
};

/* --- Neighbours. --- */

static void find_islands(struct work *w) {
  for (uint32_t v = 0; v < w->topology->n_nodes; v++) {
    w->rank[v] = w->first[v] = NONE;
    w->island[v] = v;
  }
  for (uint32_t r = 0; r < w->near->n_ranks; r++) w->rank[w->near->node[r]] = r;
  for (uint32_t i = 0; i < w->topology->n_links; i++) {
    const struct by_link *link = &w->topology->links[i];
    if (!by_link_carries_both(link) || w->rank[link->a] != NONE || w->rank[link->b] != NONE) continue;
    uint32_t a = by_find_leader(w->island, link->a), b = by_find_leader(w->island, link->b);
    w->island[a > b ? a : b] = a > b ? b : a;
  }
}

/* Joins ranks with a link between them, and lists the shores. */
static void join_over_links(struct work *w) {
  for (uint32_t i = 0; i < w->topology->n_links; i++) {
    const struct by_link *link = &w->topology->links[i];
    uint32_t a = w->rank[link->a], b = w->rank[link->b];
    if (!by_link_carries_both(link) || (a == NONE && b == NONE)) continue;
    if (a != NONE && b != NONE) {
      by_adjacency_join(&w->graph, a, b);
      continue;
    }
    uint32_t island = by_find_leader(w->island, a == NONE ? link->a : link->b);
    w->next[i] = w->first[island];
    w->first[island] = i;
  }
}

static uint32_t get_shore_rank(const struct work *w, uint32_t link) {
  uint32_t a = w->rank[w->topology->links[link].a];
  return a != NONE ? a : w->rank[w->topology->links[link].b];
}

/* Makes all ranks around an island neighbours. */
static void join_island(struct work *w, uint32_t island) {
  memset(w->row, 0, w->graph.words * sizeof *w->row);
  for (uint32_t i = w->first[island]; i != NONE; i = w->next[i]) {
    uint32_t r = get_shore_rank(w, i);
    w->row[r / 64] |= 1ull << r % 64;
  }
  for (uint32_t i = w->first[island]; i != NONE; i = w->next[i]) {
    uint32_t r = get_shore_rank(w, i);
    uint64_t *bits = w->graph.bits + (size_t)r * w->graph.words;
    for (uint32_t k = 0; k < w->graph.words; k++) bits[k] |= w->row[k];
    bits[r / 64] &= ~(1ull << r % 64);
  }
}

static enum banyan_status find_neighbours(struct work *w) {
  size_t nodes = w->topology->n_nodes;
  w->rank = BY_ARENA_ARRAY(&w->arena, uint32_t, nodes);
  w->island = BY_ARENA_ARRAY(&w->arena, uint32_t, nodes);
  w->first = BY_ARENA_ARRAY(&w->arena, uint32_t, nodes);
  w->next = BY_ARENA_ARRAY(&w->arena, uint32_t, w->topology->n_links);
  w->row = BY_ARENA_ARRAY(&w->arena, uint64_t, w->graph.words);
  if (w->arena.failed) return by_plan_no_memory();
  find_islands(w);
  join_over_links(w);
  for (uint32_t v = 0; v < w->topology->n_nodes; v++)
    if (w->first[v] != NONE) join_island(w, v);
  return BANYAN_OK;
}

/* --- The preferred order. --- */

static float get_length(const struct by_nearness *near, uint32_t a, uint32_t b) {
  size_t cell = (size_t)a * near->n_classes + b;
  return near->delay[cell] + near->hops[cell] * per_link;
}

/* Lists all ranks of a class, followed by those of the nearest class that is left. Cost: classes^2. */
static enum banyan_status sort_by_nearness(const struct by_nearness *near, uint32_t *order) {
  bool *done = calloc((size_t)near->n_classes + 1, sizeof *done);
  uint32_t n = 0;
  if (!done) return by_plan_no_memory();
  for (uint32_t c = 0; n < near->n_ranks;) {
    uint32_t next = NONE;
    for (uint32_t i = near->first[c]; i < near->first[c + 1]; i++) order[n++] = near->ranks[i];
    done[c] = true;
    for (uint32_t other = 0; other < near->n_classes; other++)
      if (!done[other] && (next == NONE || get_length(near, c, other) < get_length(near, c, next))) next = other;
    c = next;
  }
  free(done);
  return BANYAN_OK;
}

/* --- The ring. --- */

static enum banyan_status find_ring(struct work *w, uint64_t seed, struct by_controller_trees *control) {
  const struct by_nearness *near = w->near;
  float length[BY_HAMILTON_EXACT * BY_HAMILTON_EXACT];
  uint32_t n = near->n_ranks;
  BY_TRY(find_neighbours(w));
  BY_TRY(sort_by_nearness(near, control->order));
  for (uint32_t a = 0; a < n && n <= BY_HAMILTON_EXACT; a++)
    for (uint32_t b = 0; b < n; b++) length[a * n + b] = get_length(near, near->class_of[a], near->class_of[b]);
  return by_hamilton_find(&w->graph, length, seed, control->order, &control->ring);
}

/* Finds the ring: fills in `ring`, `order` and `ring_time`. `near` is set. */
static enum banyan_status control_find_ring(struct by_controller_trees *control, uint64_t seed) {
  struct work w = {.topology = control->topology, .near = &control->near};
  control->ring_time = INFINITY;
  control->order = calloc((size_t)control->near.n_ranks + 1, sizeof *control->order);
  if (!control->order) return by_plan_no_memory();
  BY_TRY(by_adjacency_init(&w.graph, control->near.n_ranks));
  enum banyan_status status = find_ring(&w, seed, control);
  by_arena_fini(&w.arena);
  by_adjacency_fini(&w.graph);
  if (status == BANYAN_OK && control->ring.answer == BY_HAMILTON_YES)
    control->ring_time = by_control_ring_time(control->order, control->near.n_ranks, &control->near, &control->costs);
  return status;
}

/* Replaces the tree by the ring, cut open, if that is faster, since trees are made for few links, which may have long
 * delays. */
static enum banyan_status cut_ring_if_faster(struct by_controller_trees *control) {
  struct by_control_tree *cut;
  double seconds;
  BY_TRY(by_control_tree_cut(control->order, &control->near, &control->costs, &control->tree->kept, &cut));
  enum banyan_status status = by_control_tree_time(cut, &control->near, &control->costs, &seconds);
  control->cut = status == BANYAN_OK && seconds < control->tree_time;
  if (control->cut) control->tree_time = seconds;
  by_control_tree_destroy(control->cut ? control->tree : cut);
  if (control->cut) control->tree = cut;
  return status;
}

static enum banyan_status make_trees(struct by_controller_trees *control, const struct by_control_options *options) {
  control->costs = by_control_costs_of(&control->near);
  BY_TRY(by_control_tree_make(&control->near, &options->limits, &control->costs, &control->tree));
  BY_TRY(by_control_tree_time(control->tree, &control->near, &control->costs, &control->tree_time));
  BY_TRY(control_find_ring(control, options->seed));
  const struct by_control_limits *limits = &options->limits;
  bool limited = limits->fan_out || limits->height || limits->distance > 0;
  return limited || control->ring.answer != BY_HAMILTON_YES ? BANYAN_OK : cut_ring_if_faster(control);
}

enum banyan_status by_control_make(const struct by_topology *topology, const struct by_control_options *options,
                                   struct by_controller_trees *out) {
  *out = (struct by_controller_trees){.topology = topology};
  BY_TRY(by_nearness_init(&out->near, topology, options->participants, options->n_participants));
  enum banyan_status status = make_trees(out, options);
  if (status != BANYAN_OK) by_control_fini(out);
  return status;
}

void by_control_fini(struct by_controller_trees *control) {
  by_control_tree_destroy(control->tree);
  free(control->order);
  by_nearness_fini(&control->near);
  *control = (struct by_controller_trees){0};
}

enum banyan_status by_control_give(const struct by_controller_trees *control, struct by_plan *plan) {
  const struct by_control_tree *tree = control->tree;
  const struct by_plan_control own = {.parent = tree->parent,
                                      .ring = control->ring.answer == BY_HAMILTON_YES ? control->order : NULL,
                                      .fan_out = tree->kept.fan_out};
  if (tree->n != plan->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "a control tree of %u ranks is not for a plan of %u", tree->n, plan->n_ranks);
  return by_plan_set_control(plan, &own);
}

enum banyan_status by_control_add(const struct by_topology *topology, const struct by_control_options *options,
                                  struct by_plan *plan) {
  struct by_control_options own = *options;
  struct by_controller_trees control = {0};
  uint32_t *node_of = calloc(plan->n_vertices, sizeof *node_of);
  if (!node_of) return by_plan_no_memory();
  own.participants = node_of;
  own.n_participants = plan->n_ranks;
  enum banyan_status status = by_plan_locate(plan, topology, node_of);
  if (status == BANYAN_OK) {
    status = by_control_make(topology, &own, &control);
    if (status == BANYAN_OK)
      status = by_control_give(&control, plan);
    else if (status != BANYAN_ERR_NO_MEMORY)
      status = BANYAN_OK;
  }
  by_control_fini(&control);
  free(node_of);
  return status;
}

static const char *get_name(const struct by_controller_trees *control, uint32_t rank) {
  return control->topology->nodes[control->near.node[rank]].name;
}

static void label_rank(const void *owner, uint32_t rank, char *out, size_t bytes) {
  snprintf(out, bytes, "%s", get_name(owner, rank));
  by_trim_label(out, bytes);
}

/* --- Text for people. --- */

/* Adds a distance such as "4 links" or "12 ms". */
static void add_distance(const struct by_controller_trees *control, double distance, struct by_text *text) {
  char shown[32];
  if (control->tree->kept.by_delay)
    by_text_add(text, "%s", by_print_seconds(distance, shown));
  else
    by_text_add(text, "%g link%s", distance, distance == 1 ? "" : "s");
}

static void add_tree_summary(const struct by_controller_trees *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  char shown[32];
  by_text_add(text, "control tree: %u rank%s, height %u, at most %u children, ", tree->n, tree->n == 1 ? "" : "s",
              tree->height, tree->fan_out);
  add_distance(control, tree->distance, text);
  by_text_add(text, " to a parent at most, %s up and down\n", by_print_seconds(control->tree_time, shown));
  if (tree->higher) by_text_add(text, "  The height had to be raised to %u.\n", tree->kept.height);
  if (!tree->farther) return;
  by_text_add(text, "  The distance had to be raised to ");
  add_distance(control, tree->kept.distance, text);
  by_text_add(text, ".\n");
}

static void name_reason(const struct by_controller_trees *control, char *out, size_t bytes) {
  const char *name = get_name(control, control->ring.where);
  switch (control->ring.reason) {
  case BY_HAMILTON_FOUND: snprintf(out, bytes, "found"); break;
  case BY_HAMILTON_LONELY: snprintf(out, bytes, "%.64s has fewer than two neighbours", name); break;
  case BY_HAMILTON_CUT: snprintf(out, bytes, "without %.64s the others are disconnected", name); break;
  case BY_HAMILTON_SIDES: snprintf(out, bytes, "the ranks are on two sides of unequal size"); break;
  case BY_HAMILTON_FORCED:
    snprintf(out, bytes, "what %.64s and others with two neighbours need is no ring", name);
    break;
  case BY_HAMILTON_TRIED_ALL: snprintf(out, bytes, "no order of the ranks forms one"); break;
  case BY_HAMILTON_GAVE_UP: snprintf(out, bytes, "none was found, but there may be one"); break;
  }
}

/* Adds the ranks in their order, as many as fit on a line. */
static void add_order(const struct by_controller_trees *control, struct by_text *text) {
  size_t column = BY_DRAW_INDENT;
  by_text_add(text, "%*s", BY_DRAW_INDENT - 1, "");
  for (uint32_t i = 0; i < control->near.n_ranks; i++) {
    const char *name = get_name(control, control->order[i]);
    column += 1 + by_columns_of(name);
    by_text_add(text, " %s", column < BY_DRAW_WIDTH ? name : "…");
    if (column >= BY_DRAW_WIDTH) break;
  }
  by_text_add(text, "\n");
}

static void add_ring_summary(const struct by_controller_trees *control, struct by_text *text) {
  char reason[128], shown[32];
  name_reason(control, reason, sizeof reason);
  if (control->ring.answer != BY_HAMILTON_YES) {
    by_text_add(text, "ring: %s: %s\n", control->ring.answer == BY_HAMILTON_NO ? "none" : "unknown", reason);
    return;
  }
  by_text_add(text, "ring: %s round twice\n", by_print_seconds(control->ring_time, shown));
  add_order(control, text);
}

enum banyan_status by_control_draw(const struct by_controller_trees *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  uint32_t *scratch = calloc(2 * (size_t)tree->n, sizeof *scratch);
  if (!scratch) return by_plan_no_memory();
  struct by_tree_drawing drawing = {.n = tree->n, .root = tree->root, .parent = tree->parent, .label = label_rank};
  drawing.owner = control;
  drawing.child = scratch;
  drawing.sibling = scratch + tree->n;
  add_tree_summary(control, text);
  by_tree_draw(&drawing, "", text);
  free(scratch);
  add_ring_summary(control, text);
  if (control->cut) by_text_add(text, "The tree is the ring, cut open, with its root in the middle.\n");
  return BANYAN_OK;
}

/* --- JSON. --- */

static void add_real(struct by_text *text, const char *key, double value) {
  by_text_add(text, ", \"%s\": ", key);
  by_json_add_real(text, value);
}

static void add_limits(const struct by_controller_trees *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  by_text_add(text, "\"limits\": {\"fan_out\": %u, \"height\": %u", tree->kept.fan_out, tree->kept.height);
  add_real(text, "distance", tree->kept.distance);
  by_text_add(text, ", \"metric\": \"%s\"}, \"relaxed\": [", tree->kept.by_delay ? "delay" : "hops");
  by_text_add(text, "%s%s%s]", tree->higher ? "\"height\"" : "", tree->higher && tree->farther ? ", " : "",
              tree->farther ? "\"distance\"" : "");
}

static void add_tree(const struct by_controller_trees *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  const char *comma = "";
  by_text_add(text, ", \"tree\": {\"root\": ");
  by_json_add_string(text, get_name(control, tree->root));
  by_text_add(text, ", \"height\": %u, \"fan_out\": %u", tree->height, tree->fan_out);
  add_real(text, "distance", tree->distance);
  add_real(text, "total_distance", tree->sum);
  add_real(text, "seconds", control->tree_time);
  by_text_add(text, ", \"parent\": {");
  for (uint32_t r = 0; r < tree->n; r++) {
    if (r == tree->root) continue;
    by_text_add(text, "%s", comma);
    by_json_add_string(text, get_name(control, r));
    by_text_add(text, ": ");
    by_json_add_string(text, get_name(control, tree->parent[r]));
    comma = ", ";
  }
  by_text_add(text, "}}");
}

static void add_ring(const struct by_controller_trees *control, struct by_text *text) {
  static const char *const answers[] = {"yes", "no", "unknown"};
  char reason[128];
  name_reason(control, reason, sizeof reason);
  by_text_add(text, ", \"ring\": {\"answer\": \"%s\", \"reason\": ", answers[control->ring.answer]);
  by_json_add_string(text, reason);
  if (control->ring.answer == BY_HAMILTON_YES) {
    add_real(text, "seconds", control->ring_time);
    by_text_add(text, ", \"order\": [");
    for (uint32_t i = 0; i < control->near.n_ranks; i++) {
      by_text_add(text, "%s", i ? ", " : "");
      by_json_add_string(text, get_name(control, control->order[i]));
    }
    by_text_add(text, "]");
  }
  by_text_add(text, "}");
}

void by_control_print(const struct by_controller_trees *control, struct by_text *text) {
  by_text_add(text, "{\"format\": \"banyan-control 1\", \"ranks\": %u, ", control->tree->n);
  add_limits(control, text);
  add_tree(control, text);
  add_ring(control, text);
  by_text_add(text, ", \"cut\": %s}", control->cut ? "true" : "false");
}
