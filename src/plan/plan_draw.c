/* Draws trees and plans as text. */
#include "tree_draw.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static const uint32_t none = UINT32_MAX;

/* --- Trees. --- */

enum { STEP = 6, LABEL_BYTES = 48 };

/* The state of a tree that is being drawn. */
struct canvas {
  const struct by_tree_drawing *drawing;
  struct by_text *text;
  uint32_t lines;
};

void by_trim_label(char *text, size_t size) {
  size_t length = strlen(text);
  while (length + 1 == size && length > 0 && ((unsigned char)text[length - 1] & 0x80)) text[--length] = '\0';
}

static void end_line(struct canvas *canvas) {
  by_text_add(canvas->text, "\n");
  canvas->lines++;
}

static void draw_vertex(struct canvas *canvas, uint32_t u, const char *before, size_t column);

/* Draws the children of a vertex whose label has just been written and ends before `column`. */
static void draw_children(struct canvas *canvas, uint32_t u, const char *before, int width, size_t column) {
  const struct by_tree_drawing *drawing = canvas->drawing;
  struct by_text *text = canvas->text;
  char below[3 * BY_DRAW_WIDTH + 64];
  for (uint32_t child = drawing->child[u]; child != none; child = drawing->sibling[child]) {
    bool first = child == drawing->child[u], last = drawing->sibling[child] == none;
    if (first)
      by_text_add(text, last ? " ─── " : " ─┬─ ");
    else
      by_text_add(text, "%s%*s", before, width + 2, "");
    if (!first && canvas->lines > BY_DRAW_LINES) {
      by_text_add(text, "└─ …");
      end_line(canvas);
      return;
    }
    if (!first) by_text_add(text, last ? "└─ " : "├─ ");
    snprintf(below, sizeof below, "%s%*s%s", before, width + 2, "", last ? "   " : "│  ");
    draw_vertex(canvas, child, below, column + STEP - 1);
  }
}

/* Draws the subtree of u from `column` on; `before` is the text left of it in further lines. The recursion is at most
 * BY_DRAW_WIDTH / STEP deep. */
static void draw_vertex(struct canvas *canvas, uint32_t u, const char *before, size_t column) {
  char shown[LABEL_BYTES];
  canvas->drawing->label(canvas->drawing->owner, u, shown, sizeof shown);
  size_t width = by_columns_of(shown);
  bool is_leaf = canvas->drawing->child[u] == none;
  by_text_add(canvas->text, "%s", shown);
  column += width;
  if (!is_leaf && column + 2 * STEP <= BY_DRAW_WIDTH) {
    draw_children(canvas, u, before, (int)width, column);
    return;
  }
  if (!is_leaf) by_text_add(canvas->text, " ─ …");
  end_line(canvas);
}

void by_tree_draw(const struct by_tree_drawing *drawing, const char *title, struct by_text *text) {
  struct canvas canvas = {.drawing = drawing, .text = text};
  char before[BY_DRAW_INDENT + 64];
  snprintf(before, sizeof before, "%*s", (int)(BY_DRAW_INDENT + by_columns_of(title)), "");
  by_text_add(text, "%*s%s", BY_DRAW_INDENT, "", title);
  memset(drawing->child, 0xff, drawing->n * sizeof *drawing->child);
  for (uint32_t i = drawing->n; i-- > 0;) {
    if (i == drawing->root) continue;
    drawing->sibling[i] = drawing->child[drawing->parent[i]];
    drawing->child[drawing->parent[i]] = i;
  }
  draw_vertex(&canvas, drawing->root, before, strlen(before));
}

/* --- Plans. --- */

struct drawing {
  const struct by_plan *plan;
  struct by_text *text;
};

/* Writes a vertex as "3" or "sw (switch)", cut at the end of a character. */
static void show_vertex(const struct by_plan *plan, uint32_t vertex, char *out, size_t size) {
  const struct by_vertex *v = &plan->vertices[vertex];
  if (v->kind == BY_VERTEX_RANK)
    snprintf(out, size, "%s", v->name);
  else
    snprintf(out, size, "%s (%s)", v->name, by_vertex_kind_name(v->kind));
  by_trim_label(out, size);
}

/* --- Lists that end in "…" at the end of the line. --- */

struct list {
  const struct drawing *drawing;
  size_t column;
};

static struct list start_list(const struct drawing *drawing, const char *title) {
  by_text_add(drawing->text, "%*s%s", BY_DRAW_INDENT, "", title);
  return (struct list){.drawing = drawing, .column = BY_DRAW_INDENT + by_columns_of(title)};
}

/* Adds an item. False: the line is full, and "…" is written instead. */
static bool add_item(struct list *list, const char *item) {
  list->column += 1 + by_columns_of(item);
  bool fits = list->column < BY_DRAW_WIDTH;
  by_text_add(list->drawing->text, " %s", fits ? item : "…");
  return fits;
}

static bool add_vertex(struct list *list, uint32_t vertex) {
  char shown[64];
  show_vertex(list->drawing->plan, vertex, shown, sizeof shown);
  return add_item(list, shown);
}

/* --- Trees of a plan. --- */

/* Computes the depths of all positions. Returns the height. O(n) */
static uint32_t compute_depths(const struct by_group *group, const uint32_t *parent, uint32_t *depth) {
  uint32_t height = 0;
  for (uint32_t i = 0; i < group->n; i++) depth[i] = i == group->root ? 0 : none;
  for (uint32_t i = 0; i < group->n; i++) {
    uint32_t steps = 0, u = i;
    for (; depth[u] == none; u = parent[u]) steps++;
    uint32_t d = depth[u] + steps;
    if (d > height) height = d;
    for (u = i; depth[u] == none; u = parent[u]) depth[u] = d--;
  }
  return height;
}

/* A group whose tree is drawn. */
struct subject {
  const struct by_plan *plan;
  const struct by_group *group;
};

static void label_position(const void *owner, uint32_t position, char *out, size_t size) {
  const struct subject *subject = owner;
  uint32_t vertex = subject->group->order[position];
  if (by_group_adds(subject->group, vertex)) {
    show_vertex(subject->plan, vertex, out, size);
    return;
  }
  snprintf(out, size, "%s (forwards)", subject->plan->vertices[vertex].name);
  by_trim_label(out, size);
}

/* --- Exchanges. --- */

/* Draws the sets of positions that exchange in the step of a digit with this weight: "{0 4} {1 5}". */
static void draw_step(const struct drawing *drawing, const struct by_group *group, uint32_t digit, uint32_t weight) {
  char title[32];
  uint32_t radix = group->radix[digit];
  snprintf(title, sizeof title, "step %u:", digit + 1);
  struct list list = start_list(drawing, title);
  bool fits = true;
  for (uint32_t lowest = 0; fits && lowest < group->n; lowest++) {
    if (lowest / weight % radix) continue;
    fits = add_item(&list, "{");
    for (uint32_t i = 0; fits && i < radix; i++) fits = add_vertex(&list, group->order[lowest + i * weight]);
    if (fits) by_text_add(drawing->text, " }");
    list.column += 2;
  }
  by_text_add(drawing->text, "\n");
}

/* --- Groups. --- */

static void draw_twigs(const struct drawing *drawing, const struct by_group *group) {
  if (!group->n_twigs) return;
  struct list list = start_list(drawing, "first up and last down:");
  bool fits = true;
  for (uint32_t i = 0; fits && i < group->n_twigs; i++) {
    char child[48], parent[48], both[112];
    show_vertex(drawing->plan, group->twigs[i].child, child, sizeof child);
    show_vertex(drawing->plan, group->twigs[i].parent, parent, sizeof parent);
    snprintf(both, sizeof both, "%s→%s", child, parent);
    fits = add_item(&list, both);
  }
  by_text_add(drawing->text, "\n");
}

static void draw_order(const struct drawing *drawing, const struct by_group *group) {
  bool usual = true;
  for (uint32_t i = 0; i < group->n; i++) usual = usual && group->order[i] == i;
  if (usual) return;
  struct list list = start_list(drawing, "order:");
  bool fits = true;
  for (uint32_t i = 0; fits && i < group->n; i++) fits = add_vertex(&list, group->order[i]);
  by_text_add(drawing->text, "\n");
}

static enum banyan_status draw_tree(const struct drawing *drawing, const struct by_group *group) {
  uint32_t *scratch = calloc(2 * (size_t)group->n, sizeof *scratch);
  if (!scratch) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory to draw the plan");
  uint32_t up = compute_depths(group, group->up, scratch), down = compute_depths(group, group->down, scratch);
  by_text_add(drawing->text, ", height %u", up);
  if (up != down) by_text_add(drawing->text, " (down %u)", down);
  if (group->kind == BY_GROUP_ROTATED) {
    /* The text is such as "rotated over 2 x 2 x 2 positions, 12.5 % each; the first is". */
    by_text_add(drawing->text, ", rotated over ");
    for (uint32_t i = 0; i < group->n_radix; i++) by_text_add(drawing->text, "%s%u", i ? " x " : "", group->radix[i]);
    by_text_add(drawing->text, "%s positions, %.3g %% each; the first is", group->n_radix ? "" : "1",
                100 * group->share / group->n);
  }
  by_text_add(drawing->text, "\n");
  if (group->kind == BY_GROUP_ROTATED) draw_order(drawing, group);
  struct subject subject = {.plan = drawing->plan, .group = group};
  struct by_tree_drawing tree = {.n = group->n, .root = group->root, .label = label_position, .owner = &subject};
  bool same = memcmp(group->up, group->down, group->n * sizeof *group->up) == 0;
  tree.child = scratch;
  tree.sibling = scratch + group->n;
  tree.parent = group->up;
  by_tree_draw(&tree, same ? "" : "up:   ", drawing->text);
  tree.parent = group->down;
  if (!same) by_tree_draw(&tree, "down: ", drawing->text);
  free(scratch);
  return BANYAN_OK;
}

static enum banyan_status draw_group(const struct drawing *drawing, const struct by_group *group, uint32_t number) {
  char rate[32];
  enum banyan_status status = BANYAN_OK;
  by_text_add(drawing->text, "  tree %u: %.3g %%", number, 100 * group->share);
  if (group->rate > 0) by_text_add(drawing->text, ", %s", by_print_rate(group->rate, rate));
  if (group->kind == BY_GROUP_EXCHANGE) {
    by_text_add(drawing->text, ", exchange among %u in %u step%s\n", group->n, group->n_radix,
                group->n_radix == 1 ? "" : "s");
    if (group->n == 1) draw_order(drawing, group); /* Otherwise the steps show the order. */
    for (uint32_t digit = 0, weight = 1; digit < group->n_radix; weight *= group->radix[digit++])
      draw_step(drawing, group, digit, weight);
  } else {
    status = draw_tree(drawing, group);
  }
  draw_twigs(drawing, group);
  return status;
}

/* --- The plan. --- */

static enum banyan_status draw_groups(const struct drawing *drawing, const struct by_class *class_) {
  uint32_t drawn = 0, left = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    bool shown = !class_->per_root || by_group_is_of(&class_->groups[i], 0);
    if (!shown || drawn == BY_DRAW_LINES) {
      left++;
      continue;
    }
    BY_TRY(draw_group(drawing, &class_->groups[i], i));
    drawn++;
  }
  if (left)
    by_text_add(drawing->text, "  … %u more trees%s\n", left,
                class_->per_root ? ", most of them for what other ranks own" : "");
  return BANYAN_OK;
}

static enum banyan_status draw_class(const struct drawing *drawing, uint32_t number) {
  const struct by_plan *plan = drawing->plan;
  const struct by_class *class_ = &plan->classes[number];
  char bytes[32];
  bool last = number + 1 == plan->n_classes;
  by_text_add(drawing->text, "\n%s%s\n",
              plan->n_classes == 1 ? "all buffers"
              : last               ? "larger buffers"
                                   : "buffers up to ",
              last ? "" : by_print_bytes(class_->up_to, bytes));
  return draw_groups(drawing, class_);
}

/* Draws an own class, such as "allgather, reduce_scatter, buffers above 64 KiB: 5 trees for each root". */
static enum banyan_status draw_own_class(const struct drawing *drawing, const struct by_class *class_) {
  struct by_text *text = drawing->text;
  const char *between = "\n";
  char number[32];
  for (enum banyan_collective c = 0; c < BANYAN_COLLECTIVES; c++) {
    if (!(class_->collectives >> c & 1)) continue;
    by_text_add(text, "%s%s", between, banyan_collective_name(c));
    between = ", ";
  }
  if (class_->above) by_text_add(text, ", buffers above %s", by_print_bytes(class_->above, number));
  if (class_->throughput > 0) by_text_add(text, ", planned for %s", by_print_rate(class_->throughput, number));
  if (class_->throughput > 0 && class_->bound > 0)
    by_text_add(text, " of at most %s", by_print_rate(class_->bound, number));
  by_text_add(text, "%s\n", class_->per_root ? "; what rank 0 owns:" : "");
  return draw_groups(drawing, class_);
}

/* Lists the ranks' names, if they are not their numbers. */
static void draw_names(const struct drawing *drawing) {
  const struct by_plan *plan = drawing->plan;
  bool usual = true, fits = true;
  char shown[80];
  for (uint32_t r = 0; r < plan->n_ranks && usual; r++) {
    snprintf(shown, sizeof shown, "%u", r);
    usual = strcmp(shown, plan->vertices[r].name) == 0;
  }
  if (usual) return;
  struct list list = start_list(drawing, "ranks:");
  for (uint32_t r = 0; r < plan->n_ranks && fits; r++) {
    char name[64];
    show_vertex(plan, r, name, sizeof name);
    snprintf(shown, sizeof shown, "%s=%u", name, r);
    fits = add_item(&list, shown);
  }
  by_text_add(drawing->text, "\n");
}

enum banyan_status by_plan_draw(const struct by_plan *plan, struct by_text *text) {
  struct drawing drawing = {.plan = plan, .text = text};
  char number[32];
  by_text_add(text, "plan %s: %u rank%s", plan->name, plan->n_ranks, plan->n_ranks == 1 ? "" : "s");
  if (plan->n_vertices > plan->n_ranks) by_text_add(text, ", %u others", plan->n_vertices - plan->n_ranks);
  if (plan->chunk) by_text_add(text, ", chunks of %s", by_print_bytes(plan->chunk, number));
  if (plan->facts.throughput > 0) by_text_add(text, ", planned for %s", by_print_rate(plan->facts.throughput, number));
  if (plan->facts.bound > 0) by_text_add(text, " of at most %s", by_print_rate(plan->facts.bound, number));
  by_text_add(text, ", version %08" PRIx32 "\n", plan->version);
  draw_names(&drawing);
  for (uint32_t i = 0; i < plan->n_classes; i++) BY_TRY(draw_class(&drawing, i));
  for (uint32_t i = 0; i < plan->n_own; i++) BY_TRY(draw_own_class(&drawing, &plan->classes[plan->n_classes + i]));
  return BANYAN_OK;
}
