/* Draws trees over a network, in the same form as the manager's web page (topology.js). */
#include <math.h>

#include "svg_trees.h"

/* The start or end of an arc. */
struct end {
  double x, y;
  bool below; /* The arc hangs from it. */
};

static bool find_end(const struct by_svg_trees *trees, const struct by_svg_network *network, uint32_t vertex,
                     bool through, struct end *out) {
  uint32_t node = trees->vertices[vertex].node;
  if (node == UINT32_MAX) return false;
  struct by_spot at = network->spots[node];
  *out = (struct end){at.x, at.y, network->arcs > 0 && !through && fabs(at.y - network->floor) < 1};
  if (out->below) out->y = network->arcs;
  return true;
}

/* Returns the control point of an arc that is bent to one side; the bend grows with `shift`, which separates trees. */
static struct end get_control_point(struct end *a, struct end *b, double shift) {
  double distance = sqrt((b->x - a->x) * (b->x - a->x) + (b->y - a->y) * (b->y - a->y)) + 1e-9;
  struct end middle = {(a->x + b->x) / 2, (a->y + b->y) / 2, false};
  if (a->below && b->below) {
    a->x += shift;
    b->x += shift;
    middle.x += shift;
    middle.y = a->y + fmin(fmin(2 * BY_SVG_ARCS - 40, 26 + 0.55 * distance) + 2 * shift, 2 * BY_SVG_ARCS - 24);
    return middle;
  }
  double bend = 0.14 * distance + 2 * shift;
  middle.x -= (b->y - a->y) / distance * bend;
  middle.y += (b->x - a->x) / distance * bend;
  return middle;
}

/* Draws an arrow from the child to the border of the parent. */
static void add_arc(struct end a, struct end b, double radius, uint32_t colour, struct by_text *text) {
  struct end middle = get_control_point(&a, &b, 2.5 * colour);
  double angle = atan2(b.y - middle.y, b.x - middle.x);
  if (!b.below) {
    b.x -= (radius + 1) * cos(angle);
    b.y -= (radius + 1) * sin(angle);
  }
  by_text_add(text, "<path class=\"c t%u\" d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\"/>", colour, a.x, a.y, middle.x,
              middle.y, b.x, b.y);
  by_text_add(text,
              "<path class=\"f%u\" d=\"M0 0L-7 3.2L-7 -3.2Z\" transform=\"translate(%.1f %.1f) rotate(%.0f)\"/>\n",
              colour, b.x, b.y, angle * 57.29577951308232);
}

static bool is_through(const struct by_svg_trees *trees, const struct by_svg_tree *tree) {
  return trees->vertices[tree->vertex[tree->root]].kind == BY_SVG_SERVER;
}

static void add_tree(const struct by_svg_trees *trees, const struct by_svg_tree *tree,
                     const struct by_svg_network *network, struct by_text *text) {
  bool through = is_through(trees, tree);
  struct end child, parent;
  by_text_add(text, "<g><title>");
  by_svg_add(text, tree->title, SIZE_MAX);
  by_text_add(text, "</title>\n");
  for (uint32_t i = 0; i < tree->n; i++)
    if (i != tree->root && find_end(trees, network, tree->vertex[i], through, &child) &&
        find_end(trees, network, tree->vertex[tree->parent[i]], through, &parent))
      add_arc(child, parent, network->radius, tree->number, text);
  by_text_add(text, "</g>\n");
}

static bool is_drawn(const struct by_svg_tree *tree) {
  return tree->parent && !tree->downwards && tree->number < BY_SVG_TREE_COLOURS;
}

bool by_svg_has_arcs(const struct by_svg_trees *trees) {
  for (uint32_t i = 0; i < trees->n; i++)
    if (is_drawn(&trees->trees[i]) && !is_through(trees, &trees->trees[i])) return true;
  return false;
}

void by_svg_add_arcs(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text) {
  for (uint32_t i = 0; i < trees->n; i++)
    if (is_drawn(&trees->trees[i])) add_tree(trees, &trees->trees[i], network, text);
}

void by_svg_add_roots(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text) {
  for (uint32_t i = 0; i < trees->n; i++) {
    const struct by_svg_tree *tree = &trees->trees[i];
    struct end root;
    if (!is_drawn(tree) || !find_end(trees, network, tree->vertex[tree->root], is_through(trees, tree), &root))
      continue;
    by_text_add(text, "<circle class=\"w t%u l\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\" stroke-width=\"2.2\"/>\n",
                tree->number, root.x + (root.below ? 2.5 * tree->number : 0), root.y);
  }
}
