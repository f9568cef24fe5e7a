/* Drawings of trees for people: they lie on their side, the root on the left.
 *
 *   4 ─┬─ 2 ─┬─ 1        Chains go on in their line. What does not fit in the width
 *      │     └─ 3        of a page or in its lines is left out and shown as "…". */
#ifndef BY_PLAN_TREE_DRAW_H
#define BY_PLAN_TREE_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include "text.h"

enum { BY_DRAW_WIDTH = 100, BY_DRAW_LINES = 40, BY_DRAW_INDENT = 4 };

struct by_tree_drawing {
  uint32_t n, root;
  const uint32_t *parent; /* the parent of each vertex; a tree */
  /* Writes the label of a vertex into `size` bytes, NUL-terminated. */
  void (*label)(const void *owner, uint32_t vertex, char *out, size_t size);
  const void *owner;
  uint32_t *child, *sibling; /* scratch memory for n elements each */
};

/* Adds the tree; its first line starts after BY_DRAW_INDENT columns and the title. Children are in the order of their
 * numbers. */
void by_tree_draw(const struct by_tree_drawing *drawing, const char *title, struct by_text *text);
/* Removes an incomplete character from the end of a text that snprintf has cut to `size` bytes. */
void by_trim_label(char *text, size_t size);

#endif
