#include "tree_draw.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STEP = 6, LABEL_BYTES = 48 };

static const uint32_t none = UINT32_MAX;

/* A tree being drawn. */
struct canvas {
  const struct by_tree_drawing *drawing;
  struct by_text *text;
  uint32_t lines;
};

size_t by_columns_of(const char *text) {
  size_t n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

void by_trim_label(char *text, size_t room) {
  size_t length = strlen(text);
  while (length + 1 == room && length > 0 && ((unsigned char)text[length - 1] & 0x80)) text[--length] = '\0';
}

static void link_children(const struct by_tree_drawing *drawing) {
  memset(drawing->child, 0xff, drawing->n * sizeof *drawing->child);
  for (uint32_t i = drawing->n; i-- > 0;) {
    if (i == drawing->root) continue;
    drawing->sibling[i] = drawing->child[drawing->parent[i]];
    drawing->child[drawing->parent[i]] = i;
  }
}

static void end_line(struct canvas *canvas) {
  by_text_add(canvas->text, "\n");
  canvas->lines++;
}

static void draw_vertex(struct canvas *canvas, uint32_t u, const char *before, size_t column);

/* The children of a vertex whose label has just been written and ends before `column`. */
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

/* Draws the subtree of u from `column` on; `before` is what stands left of it in further lines. The depth of the
 * recursion is at most BY_DRAW_WIDTH / STEP. */
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
  link_children(drawing);
  draw_vertex(&canvas, drawing->root, before, strlen(before));
}
