/* What was made of a topology for control messages, for people and as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "control_plan.h"
#include "control_tree.h"
#include "json_doc.h"
#include "text.h"
#include "tree_draw.h"

static const char *name_of(const struct by_control *control, uint32_t rank) {
  return control->topology->nodes[control->near.node[rank]].name;
}

static void label_rank(const void *owner, uint32_t rank, char *out, size_t room) {
  snprintf(out, room, "%s", name_of(owner, rank));
  by_trim_label(out, room);
}

/* --- words --- */

/* "4 links", "12 ms". */
static void add_distance(const struct by_control *control, double distance, struct by_text *text) {
  char shown[32];
  if (control->tree->kept.by_delay)
    by_text_add(text, "%s", by_print_seconds(distance, shown));
  else
    by_text_add(text, "%g link%s", distance, distance == 1 ? "" : "s");
}

static void add_tree_words(const struct by_control *control, struct by_text *text) {
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

static void name_reason(const struct by_control *control, char *out, size_t room) {
  const char *name = name_of(control, control->ring.where);
  switch (control->ring.reason) {
  case BY_HAMILTON_FOUND: snprintf(out, room, "found"); break;
  case BY_HAMILTON_LONELY: snprintf(out, room, "%.64s has fewer than two neighbours", name); break;
  case BY_HAMILTON_CUT: snprintf(out, room, "without %.64s the others fall apart", name); break;
  case BY_HAMILTON_SIDES: snprintf(out, room, "the ranks are on two sides of unequal size"); break;
  case BY_HAMILTON_FORCED:
    snprintf(out, room, "what %.64s and others with two neighbours need makes no ring", name);
    break;
  case BY_HAMILTON_TRIED_ALL: snprintf(out, room, "no order of the ranks is one"); break;
  case BY_HAMILTON_GAVE_UP: snprintf(out, room, "none was found, but there may be one"); break;
  }
}

/* The ranks in their order, as many as fit on a line. */
static void add_order(const struct by_control *control, struct by_text *text) {
  size_t column = BY_DRAW_INDENT;
  by_text_add(text, "%*s", BY_DRAW_INDENT - 1, "");
  for (uint32_t i = 0; i < control->near.n_ranks; i++) {
    const char *name = name_of(control, control->order[i]);
    column += 1 + by_columns_of(name);
    by_text_add(text, " %s", column < BY_DRAW_WIDTH ? name : "…");
    if (column >= BY_DRAW_WIDTH) break;
  }
  by_text_add(text, "\n");
}

static void add_ring_words(const struct by_control *control, struct by_text *text) {
  char reason[128], shown[32];
  name_reason(control, reason, sizeof reason);
  if (control->ring.answer != BY_HAMILTON_YES) {
    by_text_add(text, "ring: %s: %s\n", control->ring.answer == BY_HAMILTON_NO ? "none" : "unknown", reason);
    return;
  }
  by_text_add(text, "ring: %s round twice\n", by_print_seconds(control->ring_time, shown));
  add_order(control, text);
}

enum banyan_status by_control_draw(const struct by_control *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  uint32_t *scratch = calloc(2 * (size_t)tree->n, sizeof *scratch);
  if (!scratch) return by_control_no_memory();
  struct by_tree_drawing drawing = {.n = tree->n, .root = tree->root, .parent = tree->parent, .label = label_rank};
  drawing.owner = control;
  drawing.child = scratch;
  drawing.sibling = scratch + tree->n;
  add_tree_words(control, text);
  by_tree_draw(&drawing, "", text);
  free(scratch);
  add_ring_words(control, text);
  by_text_add(text, "faster: the %s\n", control->use_ring ? "ring" : "tree");
  return BANYAN_OK;
}

/* --- JSON --- */

static void add_real(struct by_text *text, const char *key, double value) {
  by_text_add(text, ", \"%s\": ", key);
  by_json_add_real(text, value);
}

static void add_limits(const struct by_control *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  by_text_add(text, "\"limits\": {\"fan_out\": %u, \"height\": %u", tree->kept.fan_out, tree->kept.height);
  add_real(text, "distance", tree->kept.distance);
  by_text_add(text, ", \"metric\": \"%s\"}, \"relaxed\": [", tree->kept.by_delay ? "delay" : "hops");
  by_text_add(text, "%s%s%s]", tree->higher ? "\"height\"" : "", tree->higher && tree->farther ? ", " : "",
              tree->farther ? "\"distance\"" : "");
}

static void add_tree(const struct by_control *control, struct by_text *text) {
  const struct by_control_tree *tree = control->tree;
  const char *comma = "";
  by_text_add(text, ", \"tree\": {\"root\": ");
  by_json_add_string(text, name_of(control, tree->root));
  by_text_add(text, ", \"height\": %u, \"fan_out\": %u", tree->height, tree->fan_out);
  add_real(text, "distance", tree->distance);
  add_real(text, "total_distance", tree->sum);
  add_real(text, "seconds", control->tree_time);
  by_text_add(text, ", \"parent\": {");
  for (uint32_t r = 0; r < tree->n; r++) {
    if (r == tree->root) continue;
    by_text_add(text, "%s", comma);
    by_json_add_string(text, name_of(control, r));
    by_text_add(text, ": ");
    by_json_add_string(text, name_of(control, tree->parent[r]));
    comma = ", ";
  }
  by_text_add(text, "}}");
}

static void add_ring(const struct by_control *control, struct by_text *text) {
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
      by_json_add_string(text, name_of(control, control->order[i]));
    }
    by_text_add(text, "]");
  }
  by_text_add(text, "}");
}

void by_control_print(const struct by_control *control, struct by_text *text) {
  by_text_add(text, "{\"format\": \"banyan-control 1\", \"ranks\": %u, ", control->tree->n);
  add_limits(control, text);
  add_tree(control, text);
  add_ring(control, text);
  by_text_add(text, ", \"use\": \"%s\"}", control->use_ring ? "ring" : "tree");
}
