/* Draws trees in panels: with the root on top if the leaves fit side by side, else as a list with a line for each
 * vertex. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "svg_trees.h"
#include "topology_make.h"

enum { MARGIN = 24, GAP = 30, HEAD = 28, LEVEL = 46, BOX = 20, ROW = 15, STEP = 16 };
enum {
  MAX_LABEL = 14,
  MAX_LISTED_LABEL = 40,
  MAX_LEVELS = 9,
  MAX_ROWS = 128,
  MAX_COLUMNS = 256,
  MAX_THICK = 48,
  MAX_LINES = 8192
};
static const double available = BY_SVG_WIDTH - 2 * MARGIN;

/* A tree that is being drawn. */
struct panel {
  const struct by_svg_trees *trees;
  const struct by_svg_tree *tree;
  uint32_t *child, *sibling; /* the first child and the next sibling of each position; UINT32_MAX: none */
  uint32_t *next;            /* the positions in the order of a list, parents first */
  uint32_t *depth;
  uint32_t *indent; /* for each position in a list: only children stay in the column of their parents, so that chains
                       are straight */
  double *x;        /* the x of each position if the root is on top */
  uint32_t levels, indents, leaves; /* the largest depth and indentation, and the number of leaves */
  double cell;                      /* the width of a leaf in pixels */
  double width, height;
  bool dense; /* The panel is an exchange with so many lines that they are drawn thin. */
  enum { ON_TOP, LISTED, EXCHANGE, TOO_LARGE } form;
};

static const struct by_svg_vertex *get_vertex(const struct panel *p, uint32_t position) {
  return &p->trees->vertices[p->tree->vertex[position]];
}

static double get_box_width(const struct panel *p, uint32_t position) {
  return fmax(by_svg_width(get_vertex(p, position)->name, MAX_LABEL, 11) + 10, 26);
}

/* ---- Layout. */

static void link_children(struct panel *p) {
  const struct by_svg_tree *tree = p->tree;
  memset(p->child, 0xff, tree->n * sizeof *p->child);
  for (uint32_t i = tree->n; i-- > 0;) {
    if (i == tree->root) continue;
    p->sibling[i] = p->child[tree->parent[i]];
    p->child[tree->parent[i]] = i;
  }
  p->sibling[tree->root] = UINT32_MAX;
}

/* Lists the positions depth first, without recursion, since a chain is as deep as it is long. */
static void list_positions(struct panel *p) {
  uint32_t u = p->tree->root, n = 0;
  p->depth[u] = p->indent[u] = 0;
  while (u != UINT32_MAX) {
    p->next[n++] = u;
    if (p->depth[u] > p->levels) p->levels = p->depth[u];
    if (p->indent[u] > p->indents) p->indents = p->indent[u];
    uint32_t child = p->child[u];
    if (child != UINT32_MAX) {
      p->depth[child] = p->depth[u] + 1;
      p->indent[child] = p->indent[u] + (p->sibling[child] != UINT32_MAX);
      u = child;
      continue;
    }
    p->leaves++;
    while (u != p->tree->root && p->sibling[u] == UINT32_MAX) u = p->tree->parent[u];
    uint32_t before = u;
    u = u == p->tree->root ? UINT32_MAX : p->sibling[u];
    if (u != UINT32_MAX) {
      p->depth[u] = p->depth[before];
      p->indent[u] = p->indent[before];
    }
  }
}

/* Places leaves side by side, and each parent in the middle between its first and last child. */
static void place_on_top(struct panel *p) {
  double at = p->cell / 2;
  for (uint32_t i = 0; i < p->tree->n; i++) {
    uint32_t u = p->next[i];
    if (p->child[u] != UINT32_MAX) continue;
    p->x[u] = at;
    at += p->cell;
  }
  for (uint32_t i = p->tree->n; i-- > 0;) {
    uint32_t u = p->next[i], last = p->child[u];
    if (last == UINT32_MAX) continue;
    while (p->sibling[last] != UINT32_MAX) last = p->sibling[last];
    p->x[u] = (p->x[p->child[u]] + p->x[last]) / 2;
  }
}

static void measure_tree(struct panel *p) {
  double longest = 0;
  link_children(p);
  list_positions(p);
  for (uint32_t i = 0; i < p->tree->n; i++) {
    p->cell = fmax(p->cell, get_box_width(p, i) + 6);
    longest = fmax(longest, by_svg_width(get_vertex(p, i)->name, MAX_LISTED_LABEL, 11));
  }
  p->form = p->leaves * p->cell <= available && p->levels <= MAX_LEVELS ? ON_TOP : LISTED;
  if (p->form == ON_TOP) {
    p->width = p->leaves * p->cell;
    p->height = p->levels * LEVEL + BOX;
    place_on_top(p);
    return;
  }
  p->cell = fmin(STEP, (available - longest - 16) / (p->indents + 1));
  p->width = (p->indents + 1) * p->cell + longest + 16;
  p->height = (fmin(p->tree->n, MAX_ROWS) + (p->tree->n > MAX_ROWS)) * ROW;
}

static void measure_exchange(struct panel *p) {
  double widest = 0;
  uint64_t lines = 0;
  for (uint32_t i = 0; i < p->tree->n; i++) widest = fmax(widest, get_box_width(p, i) + 6);
  for (uint32_t i = 0; i < p->tree->n_radix; i++) lines += (uint64_t)p->tree->n * p->tree->radix[i];
  p->dense = lines > MAX_THICK;
  p->form = p->tree->n > MAX_COLUMNS || lines > MAX_LINES ? TOO_LARGE : EXCHANGE;
  p->cell = fmin(widest, available / p->tree->n);
  p->leaves = (uint32_t)ceil(widest / p->cell); /* only every leaves-th position has a name */
  p->width = p->form == EXCHANGE ? p->tree->n * p->cell : 0;
  p->height = p->form == EXCHANGE ? p->tree->n_radix * LEVEL + 2 * BOX : ROW;
}

/* ---- Drawing. */

static void add_name(struct panel *p, uint32_t position, double x, double y, size_t max, const char *more,
                     struct by_text *text) {
  by_text_add(text, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\"%s>", x, y, more);
  by_svg_add_name(text, get_vertex(p, position)->name, max);
  by_text_add(text, "</text>");
}

static void add_tip(struct panel *p, uint32_t position, struct by_text *text) {
  static const char *const kinds[] = {"rank", "helper", "switch", "server"};
  by_text_add(text, "<title>");
  by_svg_add(text, get_vertex(p, position)->name, SIZE_MAX);
  by_text_add(text, ": %s</title>", kinds[get_vertex(p, position)->kind]);
}

static void add_box(struct panel *p, uint32_t u, struct by_text *text) {
  static const char *const classes[] = {"", " p", " s", " v"};
  double width = get_box_width(p, u), y = p->depth[u] * LEVEL;
  by_text_add(text, "<g><rect class=\"t%u l%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\">",
              p->tree->number % BY_SVG_TREE_COLOURS, classes[get_vertex(p, u)->kind], p->x[u] - width / 2, y, width,
              BOX);
  add_tip(p, u, text);
  by_text_add(text, "</rect>");
  add_name(p, u, p->x[u], y + 14, MAX_LABEL, "", text);
  by_text_add(text, "</g>\n");
}

static void add_on_top(struct panel *p, struct by_text *text) {
  uint32_t colour = p->tree->number % BY_SVG_TREE_COLOURS;
  for (uint32_t u = 0; u < p->tree->n; u++) {
    if (u == p->tree->root) continue;
    double x = p->x[u], y = p->depth[u] * LEVEL, to = p->x[p->tree->parent[u]], half = (LEVEL - BOX) / 2.0;
    by_text_add(text, "<path class=\"c t%u\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", colour, x, y, x,
                y - half, to, y - half, to, y - 2 * half);
  }
  for (uint32_t u = 0; u < p->tree->n; u++) add_box(p, u, text);
}

/* Draws a line with a dot and a name for each vertex, and an elbow to the parent's dot. */
static void add_list(struct panel *p, struct by_text *text) {
  uint32_t colour = p->tree->number % BY_SVG_TREE_COLOURS,
           *row = p->sibling; /* The siblings are not needed any more, so their array is reused. */
  uint32_t n = p->tree->n < MAX_ROWS ? p->tree->n : MAX_ROWS;
  for (uint32_t i = 0; i < p->tree->n; i++) row[p->next[i]] = i;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t u = p->next[i], up = p->tree->parent[u];
    double x = (p->indent[u] + 0.5) * p->cell, above = (row[up] + 0.5) * ROW + 3.5, y = (i + 0.5) * ROW,
           r = fmin(3.5, p->cell / 2);
    if (u != p->tree->root && p->indent[u] == p->indent[up])
      by_text_add(text, "<path class=\"c t%u\" d=\"M%.1f %.1fV%.1f\"/>", colour, x, above, y - r);
    else if (u != p->tree->root)
      by_text_add(text, "<path class=\"c t%u\" d=\"M%.1f %.1fV%.1fH%.1f\"/>", colour, x - p->cell, above, y, x - r);
    by_text_add(text, "<circle class=\"%s%u l\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">",
                get_vertex(p, u)->kind == BY_SVG_RANK ? "f" : "w t", colour, x, y, r);
    add_tip(p, u, text);
    by_text_add(text, "</circle>");
    add_name(p, u, x + r + 5, y + 4, MAX_LISTED_LABEL, " style=\"text-anchor:start\"", text);
    by_text_add(text, "\n");
  }
  if (p->tree->n > n)
    by_text_add(text, "<text class=\"k\" x=\"0\" y=\"%.1f\">… %u more</text>\n", (n + 0.5) * ROW + 4, p->tree->n - n);
}

/* Draws a butterfly: in each step, lines lead to the positions that receive what a position holds. */
static void add_exchange(struct panel *p, struct by_text *text) {
  const struct by_svg_tree *tree = p->tree;
  uint32_t colour = tree->number % BY_SVG_TREE_COLOURS;
  double dot = fmin(3, p->cell / 3);
  by_text_add(text, "<g%s>\n", p->dense ? " class=\"x\" opacity=\"0.5\"" : "");
  for (uint32_t step = 0, weight = 1; step < tree->n_radix; weight *= tree->radix[step++])
    for (uint32_t u = 0; u < tree->n; u++) {
      uint32_t first = u - u / weight % tree->radix[step] * weight;
      for (uint32_t i = 0; i < tree->radix[step]; i++)
        by_text_add(text, "<path class=\"c t%u l\" d=\"M%.1f %.1fL%.1f %.1f\"/>", colour, (u + 0.5) * p->cell,
                    BOX + (double)step * LEVEL, (first + i * weight + 0.5) * p->cell, BOX + (step + 1.0) * LEVEL);
      by_text_add(text, "\n");
    }
  by_text_add(text, "</g>\n");
  for (uint32_t u = 0; u < tree->n; u++) {
    double x = (u + 0.5) * p->cell;
    for (uint32_t step = 0; step <= tree->n_radix; step++)
      by_text_add(text, "<circle class=\"f%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", colour, x,
                  BOX + (double)step * LEVEL, dot);
    if (u % p->leaves == 0) add_name(p, u, x, 12, MAX_LABEL, "", text);
    by_text_add(text, "\n");
  }
}

static enum banyan_status init_panel(struct panel *p, const struct by_svg_trees *trees,
                                     const struct by_svg_tree *tree) {
  size_t n = tree->n;
  *p = (struct panel){.trees = trees, .tree = tree};
  p->child = calloc(5 * n, sizeof *p->child);
  p->x = calloc(n, sizeof *p->x);
  if (!p->child || !p->x) return by_topology_no_memory();
  p->sibling = p->child + n;
  p->next = p->sibling + n;
  p->depth = p->next + n;
  p->indent = p->depth + n;
  if (tree->parent)
    measure_tree(p);
  else
    measure_exchange(p);
  p->width = fmax(p->width, by_svg_width(tree->title, SIZE_MAX, 12) + 34);
  p->height += HEAD;
  return BANYAN_OK;
}

static void draw_panel(struct panel *p, double x, double y, struct by_text *text) {
  by_text_add(text, "<g class=\"b\" transform=\"translate(%.1f %.1f)\">\n", x, y);
  by_text_add(text, "<path class=\"t%u\" d=\"M0 10h24\" stroke-width=\"3\"/><text class=\"u\" x=\"32\" y=\"14\">",
              p->tree->number % BY_SVG_TREE_COLOURS);
  by_svg_add(text, p->tree->title, 140);
  by_text_add(text, "</text>\n<g transform=\"translate(0 %d)\">\n", HEAD);
  if (p->form == ON_TOP)
    add_on_top(p, text);
  else if (p->form == LISTED)
    add_list(p, text);
  else if (p->form == EXCHANGE)
    add_exchange(p, text);
  else
    by_text_add(text, "<text class=\"k\" x=\"32\" y=\"6\">too many lines for a drawing</text>");
  by_text_add(text, "</g></g>\n");
}

/* ---- All panels. */

enum banyan_status by_svg_add_panels(const struct by_svg_trees *trees, double y, struct by_text *text, double *end) {
  double x = MARGIN, highest = 0;
  enum banyan_status status = BANYAN_OK;
  for (uint32_t i = 0; i < trees->n && status == BANYAN_OK; i++) {
    struct panel p;
    status = init_panel(&p, trees, &trees->trees[i]);
    if (status == BANYAN_OK) {
      if (x > MARGIN && x + p.width > BY_SVG_WIDTH - MARGIN) {
        x = MARGIN;
        y += highest + GAP;
        highest = 0;
      }
      draw_panel(&p, x, y, text);
      x += p.width + GAP;
      highest = fmax(highest, p.height);
    }
    free(p.child);
    free(p.x);
  }
  *end = y + highest + GAP;
  if (trees->left_out) {
    by_text_add(text, "<text class=\"u\" x=\"%d\" y=\"%.1f\">… %u more tree%s</text>\n", MARGIN, *end, trees->left_out,
                trees->left_out == 1 ? "" : "s");
    *end += GAP;
  }
  return status;
}

enum banyan_status by_svg_print_trees(const struct by_svg_trees *trees, const char *title, const char *note, bool dark,
                                      struct by_text *text) {
  struct by_text panels = {0};
  double height;
  enum banyan_status status = by_svg_add_panels(trees, 76, &panels, &height);
  if (status == BANYAN_OK) {
    by_svg_begin(text, BY_SVG_WIDTH, height, dark);
    by_text_add(text, "<text class=\"t\" x=\"%d\" y=\"30\">", MARGIN);
    by_svg_add(text, title, 90);
    by_text_add(text, "</text>\n<text class=\"u\" x=\"%d\" y=\"50\">", MARGIN);
    by_svg_add(text, note, 150);
    by_text_add(text, "</text>\n");
    by_text_add_bytes(text, by_text_get(&panels), panels.length);
    by_text_add(text, "</svg>\n");
    if (text->failed || panels.failed) status = by_topology_no_memory();
  }
  by_text_fini(&panels);
  return status;
}
