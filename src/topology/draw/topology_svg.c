/* Draws a topology as SVG, and trees over it in the same form as the manager's web page (topology.js). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "svg_trees.h"
#include "text.h"
#include "topology_draw.h"
#include "topology_make.h"

/* --- Arcs of trees. --- */

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

/* Whether some of the trees hang below a row of hosts. */
static bool has_arcs(const struct by_svg_trees *trees) {
  for (uint32_t i = 0; i < trees->n; i++)
    if (is_drawn(&trees->trees[i]) && !is_through(trees, &trees->trees[i])) return true;
  return false;
}

/* Draws the trees over a network: as arcs below a row of hosts, at most BY_SVG_ARCS high, and as curves elsewhere.
 * Exchanges are omitted, and trees beyond the number of colours. */
static void add_arcs(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text) {
  for (uint32_t i = 0; i < trees->n; i++)
    if (is_drawn(&trees->trees[i])) add_tree(trees, &trees->trees[i], network, text);
}

/* Draws the roots of the trees, above the nodes. */
static void add_roots(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text) {
  for (uint32_t i = 0; i < trees->n; i++) {
    const struct by_svg_tree *tree = &trees->trees[i];
    struct end root;
    if (!is_drawn(tree) || !find_end(trees, network, tree->vertex[tree->root], is_through(trees, tree), &root))
      continue;
    by_text_add(text, "<circle class=\"w t%u l\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.6\" stroke-width=\"2.2\"/>\n",
                tree->number, root.x + (root.below ? 2.5 * tree->number : 0), root.y);
  }
}

enum { WIDTH = BY_SVG_WIDTH, MARGIN = 60, HEAD = 56, FOOT = 64, MIN_HEIGHT = 260, MAX_HEIGHT = 1000 };
enum { MAX_LABELLED_NODES = 160, MAX_LABELLED_LINKS = 40, LABEL_HEIGHT = 12, MAX_LABEL = 16, MAX_TITLE = 92 };

struct drawing {
  const struct by_topology *topology;
  const struct by_draw_options *options;
  struct by_text *text;
  struct by_spot *spots; /* the nodes' positions in pixels */
  enum by_layout_kind layout;
  double height, radius;
  double min, max; /* the range of the links' capacities */
  double shortest; /* the length of the shortest link in pixels */
  bool used;       /* some link is used */
  /* These fields are for layers: */
  double floor;  /* the y of the hosts */
  bool slanted;  /* the hosts' names are slanted */
  uint32_t each; /* only every each-th name is written */
  double arcs;   /* the y below the hosts' names from which trees hang; 0: none are drawn */
  double foot;   /* the y of the legend's top */
};

/* The quadratic curve of a link, for placing its label. */
struct curve {
  struct by_spot a, c, b;
};

struct box {
  double x, y, half; /* the middle, and half the width */
};

#define add(drawing, ...) by_text_add((drawing)->text, __VA_ARGS__)

static void add_escaped(const struct drawing *d, const char *string) {
  by_svg_add(d->text, string, SIZE_MAX);
}

/* --- Values. --- */

static double get_use(const struct drawing *d, uint32_t link, int direction) {
  struct by_capacity capacity = d->topology->links[link].capacity[direction];
  double load = d->options->load ? d->options->load[link][direction] : 0;
  return (capacity.used + load) / capacity.all;
}

/* Returns a link's width by the logarithm of its capacity, from 1.5 to 8 pixels; thinner if there are many links. */
static double get_width(const struct drawing *d, uint32_t link) {
  const struct by_link *l = &d->topology->links[link];
  double range = log(d->max) - log(d->min), at = log(fmax(l->capacity[0].all, l->capacity[1].all)) - log(d->min);
  double thin = d->topology->n_links > 400 ? 0.4 : d->topology->n_links > 120 ? 0.65 : 1;
  double max = range < 2.5 ? 1.5 + 2.6 * range : 8;
  return thin * (range > 1e-9 ? 1.5 + (max - 1.5) * at / range : 3);
}

/* --- Links. --- */

static void add_direction(const struct drawing *d, uint32_t link, int direction) {
  const struct by_link *l = &d->topology->links[link];
  char rate[32], used[32];
  add_escaped(d, d->topology->nodes[direction == BY_AB ? l->a : l->b].name);
  add(d, " to ");
  add_escaped(d, d->topology->nodes[direction == BY_AB ? l->b : l->a].name);
  add(d, ": %s", by_print_rate(l->capacity[direction].all, rate));
  if (l->capacity[direction].used > 0) add(d, ", others use %s", by_print_rate(l->capacity[direction].used, used));
  if (d->options->load) add(d, ", the plan %s", by_print_rate(d->options->load[link][direction], used));
  add(d, ", %.0f %% full&#10;", 100 * get_use(d, link, direction));
}

/* hypot would require glibc 2.35. */
static double get_distance(struct by_spot a, struct by_spot b) {
  return sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y));
}

/* Returns how far a link bends: links along a layer or a grid would otherwise pass through the nodes between, and
 * parallel ones would coincide. */
static double get_bend(const struct drawing *d, uint32_t link) {
  const struct by_link *l = &d->topology->links[link];
  struct by_spot a = d->spots[l->a], b = d->spots[l->b];
  double bend = 0;
  if (d->layout == BY_LAYOUT_LAYERS && fabs(a.y - b.y) < 1) bend = -0.12 * (b.x - a.x);
  bool straight = fabs(a.x - b.x) < 1 || fabs(a.y - b.y) < 1;
  if (d->layout == BY_LAYOUT_PLACES && straight && get_distance(a, b) > 1.5 * d->shortest) bend = 40;
  for (uint32_t i = link; i-- > 0 && link - i < 16;) {
    const struct by_link *before = &d->topology->links[i];
    if ((before->a == l->a && before->b == l->b) || (before->a == l->b && before->b == l->a)) bend += 14;
  }
  return bend;
}

static void add_line(const struct drawing *d, struct by_spot a, struct by_spot c, struct by_spot b, const char *use,
                     double width) {
  add(d, "<path d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\" class=\"%s\" stroke-width=\"%.1f\"/>", a.x, a.y, c.x, c.y, b.x,
      b.y, use, width);
}

static struct by_spot get_middle(struct by_spot a, struct by_spot b) {
  return (struct by_spot){(a.x + b.x) / 2, (a.y + b.y) / 2};
}

/* Draws a link as a quadratic curve that is cut in the middle; each half has the colour of the direction that leaves
 * its end. */
static struct curve add_curve(const struct drawing *d, uint32_t link) {
  const struct by_link *l = &d->topology->links[link];
  struct by_spot a = d->spots[l->a], b = d->spots[l->b], c = get_middle(a, b);
  double far = get_distance(a, b) + 1e-9, bend = get_bend(d, link), width = get_width(d, link);
  c.x -= (b.y - a.y) / far * bend;
  c.y += (b.x - a.x) / far * bend;
  struct by_spot ac = get_middle(a, c), cb = get_middle(c, b), middle = get_middle(ac, cb);
  const char *ab = by_svg_use(get_use(d, link, BY_AB)), *ba = by_svg_use(get_use(d, link, BY_BA));
  if (ab == ba) {
    add_line(d, a, c, b, ab, width);
  } else {
    add_line(d, a, ac, middle, ab, width);
    add_line(d, middle, cb, b, ba, width);
  }
  return (struct curve){a, c, b};
}

static const char *print_short_rate(double rate, char *out) {
  by_print_rate(rate, out);
  char *unit = strchr(out, ' ');
  if (unit) memmove(unit, unit + 1, strlen(unit));
  unit = strstr(out, "bit/s");
  if (unit) *unit = '\0';
  return out;
}

static bool is_free(const struct drawing *d, struct box box, const struct box *taken, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (fabs(box.x - taken[i].x) < box.half + taken[i].half && fabs(box.y - taken[i].y) < LABEL_HEIGHT) return false;
  for (uint32_t i = 0; i < d->topology->n_nodes; i++)
    if (fabs(box.x - d->spots[i].x) < box.half + 12 && fabs(box.y - d->spots[i].y) < LABEL_HEIGHT + 12) return false;
  return true;
}

/* Writes a label in the middle of its link, or elsewhere on it where space is free, or not at all. */
static uint32_t add_link_label(const struct drawing *d, uint32_t link, const struct curve *curve, struct box *taken,
                               uint32_t n) {
  static const double parts[] = {0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78};
  char label[72];
  const struct by_link *l = &d->topology->links[link];
  int direction = get_use(d, link, BY_BA) > get_use(d, link, BY_AB) ? BY_BA : BY_AB;
  double load = l->capacity[direction].used + (d->options->load ? d->options->load[link][direction] : 0);
  char used[32], all[32];
  snprintf(label, sizeof label, "%s%s%s", load > 0 ? print_short_rate(load, used) : "", load > 0 ? " of " : "",
           print_short_rate(l->capacity[direction].all, all));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    double t = parts[i], u = 1 - t;
    struct box box = {u * u * curve->a.x + 2 * u * t * curve->c.x + t * t * curve->b.x,
                      u * u * curve->a.y + 2 * u * t * curve->c.y + t * t * curve->b.y,
                      2.7 * (double)strlen(label) + 3};
    if (!is_free(d, box, taken, n)) continue;
    add(d, "<text class=\"r\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", box.x, box.y + 3, label);
    taken[n++] = box;
    break;
  }
  return n;
}

static void add_links(const struct drawing *d, struct curve *curves) {
  const struct by_topology *t = d->topology;
  add(d, "<g fill=\"none\"%s>\n", d->options->trees ? " opacity=\"0.55\"" : "");
  for (uint32_t i = 0; i < t->n_links; i++) {
    char delay[32];
    add(d, "<g><title>");
    add_direction(d, i, BY_AB);
    add_direction(d, i, BY_BA);
    if (t->links[i].delay > 0) add(d, "%s one way", by_print_seconds(t->links[i].delay, delay));
    add(d, "</title>");
    struct curve curve = add_curve(d, i);
    if (t->n_links <= MAX_LABELLED_LINKS) curves[i] = curve;
    add(d, "</g>\n");
  }
  add(d, "</g>\n");
}

static void add_link_labels(const struct drawing *d, const struct curve *curves) {
  const struct by_topology *t = d->topology;
  struct box taken[MAX_LABELLED_LINKS];
  uint32_t n = 0;
  if (t->n_links > MAX_LABELLED_LINKS || (!d->used && d->max <= d->min))
    return; /* The legend states the common capacity. */
  for (uint32_t i = 0; i < t->n_links; i++) n = add_link_label(d, i, &curves[i], taken, n);
}

/* --- Nodes. --- */

static const char *get_role(const struct by_node *node) {
  if (node->kind == BY_NODE_SWITCH) return node->aggregates ? "switch that adds" : "switch";
  if (node->takes_part) return node->may_help ? "takes part and helps" : "takes part";
  return node->may_help ? "helps" : "does not take part";
}

static const char *get_class(const struct by_node *node) {
  if (node->kind == BY_NODE_SWITCH) return node->aggregates ? "a" : "s";
  return node->takes_part ? "h" : node->may_help ? "p" : "i";
}

static void add_limit(const struct drawing *d, const char *what, struct by_capacity limit) {
  char rate[32];
  if (isfinite(limit.all)) add(d, "&#10;%s up to %s", what, by_print_rate(limit.all, rate));
  if (limit.used > 0) add(d, ", others use %s", by_print_rate(limit.used, rate));
}

static void add_node_tip(const struct drawing *d, const struct by_node *node) {
  add(d, "<title>");
  add_escaped(d, node->name);
  add(d, ": %s", get_role(node));
  if (*node->group) {
    add(d, ", in ");
    add_escaped(d, node->group);
  }
  add_limit(d, "sends", node->out);
  add_limit(d, "receives", node->in);
  add(d, "</title>");
}

/* A rectangle that a name takes. */
struct name_box {
  double left, top, right, bottom;
};

/* The names written so far. */
struct labels {
  struct name_box boxes[MAX_LABELLED_NODES];
  uint32_t n;
};

static bool boxes_meet(const struct name_box *a, const struct name_box *b) {
  return a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
}

static bool hides_name(const struct labels *labels, const struct name_box *box) {
  for (uint32_t i = 0; i < labels->n; i++)
    if (boxes_meet(box, &labels->boxes[i])) return true;
  return false;
}

static bool hides_node(const struct drawing *d, uint32_t node, const struct name_box *box) {
  for (uint32_t i = 0; i < d->topology->n_nodes; i++) {
    struct by_spot at = d->spots[i];
    struct name_box of_node = {at.x - d->radius, at.y - d->radius, at.x + d->radius, at.y + d->radius};
    if (i != node && boxes_meet(box, &of_node)) return true;
  }
  return false;
}

/* Finds where a name covers no other one, and if possible no node: below its node, above it, or beside it; for switches
 * in layers only above. *x and *y are the middle of the name's base line. Returns false if there is no such place. */
static bool find_place(const struct drawing *d, struct labels *labels, uint32_t node, bool above, double *x,
                       double *y) {
  struct by_spot at = d->spots[node];
  double r = d->radius, half = by_svg_width(d->topology->nodes[node].name, MAX_LABEL, 11) / 2;
  const struct by_spot places[] = {
      {at.x, at.y + r + 13}, {at.x, at.y - r - 6}, {at.x + r + half + 6, at.y + 4}, {at.x - r - half - 6, at.y + 4}};
  uint32_t first = above ? 1 : 0, end = above ? 2 : sizeof places / sizeof *places;
  for (int strict = above ? 0 : 1; strict >= 0; strict--)
    for (uint32_t i = first; i < end; i++) {
      struct name_box box = {places[i].x - half, places[i].y - 9, places[i].x + half, places[i].y + 2};
      bool outside = box.left < 0 || box.right > BY_SVG_WIDTH;
      if (hides_name(labels, &box) || (strict && (outside || hides_node(d, node, &box)))) continue;
      labels->boxes[labels->n++] = box;
      *x = places[i].x;
      *y = places[i].y;
      return true;
    }
  return false;
}

/* Writes a name below its node, or above it for switches in layers, where links to hosts go down. Names in rows are
 * slanted where hosts are close; where they are closer than the height of letters, and where a name would cover
 * another one, some appear only in tooltips. */
static void add_label(const struct drawing *d, struct labels *labels, uint32_t node, uint32_t index) {
  struct by_spot at = d->spots[node];
  bool in_layers = d->layout == BY_LAYOUT_LAYERS, above = in_layers && d->topology->nodes[node].kind == BY_NODE_SWITCH;
  double x, y;
  bool in_row = in_layers && !above && fabs(at.y - d->floor) < 1;
  if (in_row && index % d->each) return;
  if (in_row && d->slanted)
    add(d, "<text class=\"n e\" transform=\"translate(%.1f %.1f) rotate(-60)\">", at.x + 3, at.y + d->radius + 8);
  else if (in_row)
    add(d, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\">", at.x, at.y + d->radius + 13);
  else if (find_place(d, labels, node, above, &x, &y))
    add(d, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\">", x, y);
  else
    return;
  by_svg_add_name(d->text, d->topology->nodes[node].name, MAX_LABEL);
  add(d, "</text>");
}

/* Returns the node's index in the row of hosts, from the left. */
static uint32_t get_row_index(const struct drawing *d, uint32_t node) {
  uint32_t index = 0;
  for (uint32_t i = 0; i < d->topology->n_nodes && d->each > 1; i++)
    index += fabs(d->spots[i].y - d->floor) < 1 && d->spots[i].x < d->spots[node].x;
  return index;
}

static void add_nodes(const struct drawing *d) {
  struct labels labels;
  labels.n = 0;
  const struct by_topology *t = d->topology;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    const struct by_node *node = &t->nodes[i];
    struct by_spot at = d->spots[i];
    double r = d->radius;
    if (node->kind == BY_NODE_SWITCH)
      add(d, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2.5\">", get_class(node),
          at.x - 1.25 * r, at.y - 0.8 * r, 2.5 * r, 1.6 * r);
    else
      add(d, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", get_class(node), at.x, at.y, r);
    add_node_tip(d, node);
    add(d, node->kind == BY_NODE_SWITCH ? "</rect>" : "</circle>");
    if (t->n_nodes <= MAX_LABELLED_NODES) add_label(d, &labels, i, get_row_index(d, i));
    add(d, "\n");
  }
}

/* --- The frame. --- */

static void add_head(const struct drawing *d) {
  const struct by_topology *t = d->topology;
  uint32_t part = 0, helpers = 0, switches = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) {
    part += t->nodes[i].takes_part;
    helpers += t->nodes[i].may_help && !t->nodes[i].takes_part;
    switches += t->nodes[i].kind == BY_NODE_SWITCH;
  }
  const char *title = d->options->title ? d->options->title : t->name;
  add(d, "<text class=\"t\" x=\"24\" y=\"30\">");
  by_svg_add(d->text, *title ? title : "topology", MAX_TITLE);
  add(d, "</text>\n<text class=\"u\" x=\"24\" y=\"48\">%u host%s take%s part", part, part == 1 ? "" : "s",
      part == 1 ? "s" : "");
  if (helpers) add(d, ", %u may help", helpers);
  if (switches) add(d, ", %u switch%s", switches, switches == 1 ? "" : "es");
  add(d, ", %u link%s", t->n_links, t->n_links == 1 ? "" : "s");
  if (d->options->load) {
    add(d, "; load by ");
    by_svg_add(d->text, d->options->load_name, MAX_TITLE);
  }
  add(d, "</text>\n");
}

/* Draws a legend of widths and colours, if they differ. */
static void add_foot(const struct drawing *d) {
  double y = d->foot + 26, x = 24;
  char rate[32];
  if (d->max > d->min) {
    add(d, "<path class=\"u0\" d=\"M%.0f %.1fh30\" stroke-width=\"1.5\"/>", x, y);
    add(d, "<text class=\"k\" x=\"%.0f\" y=\"%.1f\">%s</text>", x + 36, y + 4, by_print_rate(d->min, rate));
    add(d, "<path class=\"u0\" d=\"M%.0f %.1fh30\" stroke-width=\"6\"/>", x + 130, y);
    add(d, "<text class=\"k\" x=\"%.0f\" y=\"%.1f\">%s</text>\n", x + 166, y + 4, by_print_rate(d->max, rate));
    x += 280;
  } else if (d->topology->n_links) {
    add(d, "<text class=\"k\" x=\"%.0f\" y=\"%.1f\">all links: %s</text>\n", x, y + 4, by_print_rate(d->max, rate));
    x += 200;
  }
  for (int i = 0; d->used && i <= 10; i++)
    add(d, "<path class=\"%s\" d=\"M%.0f %.1fh14\" stroke-width=\"8\"/>", by_svg_use(i / 10.0), x + 30 + 14 * i, y);
  if (d->used)
    add(d, "<text class=\"k\" x=\"%.0f\" y=\"%.1f\">idle</text><text class=\"k\" x=\"%.0f\" y=\"%.1f\">full</text>\n",
        x, y + 4, x + 190, y + 4);
  if (d->options->trees)
    add(d, "<text class=\"k\" x=\"%.0f\" y=\"%.1f\">trees: sums go up to the root, results come down</text>\n",
        x + (d->used ? 250 : 0), y + 4);
}

/* --- From the layout to pixels. --- */

static void fit_to_page(struct drawing *d) {
  struct by_spot min = {INFINITY, INFINITY}, max = {-INFINITY, -INFINITY};
  uint32_t n = d->topology->n_nodes;
  for (uint32_t i = 0; i < n; i++) {
    min = (struct by_spot){fmin(min.x, d->spots[i].x), fmin(min.y, d->spots[i].y)};
    max = (struct by_spot){fmax(max.x, d->spots[i].x), fmax(max.y, d->spots[i].y)};
  }
  double wide = max.x - min.x, high = max.y - min.y, available = WIDTH - 2 * MARGIN;
  double scale = fmin(wide > 0 ? available / wide : INFINITY, high > 0 ? (MAX_HEIGHT - HEAD - FOOT) / high : INFINITY);
  if (isinf(scale)) scale = 1;
  double drawn = fmax(high * scale, MIN_HEIGHT - HEAD - FOOT - 2 * MARGIN);
  d->height = drawn + HEAD + FOOT + 2 * MARGIN;
  struct by_spot from = {(WIDTH - wide * scale) / 2, HEAD + MARGIN + (drawn - high * scale) / 2};
  for (uint32_t i = 0; i < n; i++)
    d->spots[i] = (struct by_spot){from.x + (d->spots[i].x - min.x) * scale, from.y + (d->spots[i].y - min.y) * scale};
  d->floor = from.y + high * scale;
  d->foot = d->height - FOOT + 12;
  d->radius = n <= 40 ? 9 : n <= 120 ? 7 : n <= 400 ? 5 : 3;
}

/* Reserves space for the names in the row of hosts, and for the trees below them. */
static void allocated_make(struct drawing *d) {
  uint32_t n = 0;
  double longest = 0, left = INFINITY, right = -INFINITY;
  for (uint32_t i = 0; i < d->topology->n_nodes && d->layout == BY_LAYOUT_LAYERS; i++) {
    if (fabs(d->spots[i].y - d->floor) >= 1) continue;
    n++;
    longest = fmax(longest, by_svg_width(d->topology->nodes[i].name, MAX_LABEL, 11));
    left = fmin(left, d->spots[i].x);
    right = fmax(right, d->spots[i].x);
  }
  double apart = n > 1 ? (right - left) / (n - 1) : WIDTH;
  d->slanted = longest + 6 > apart;
  d->each = d->slanted && apart < LABEL_HEIGHT ? (uint32_t)ceil(LABEL_HEIGHT / fmax(apart, 0.1)) : 1;
  double names = d->radius + (d->slanted ? 14 + 0.87 * longest : 20);
  if (n && d->options->trees && has_arcs(d->options->trees)) d->arcs = d->floor + names;
  d->foot = fmax(d->foot, n ? d->floor + names + (d->arcs > 0 ? BY_SVG_ARCS : 0) : 0);
  d->height = d->foot + FOOT - 12;
}

static void measure_links(struct drawing *d) {
  const struct by_topology *t = d->topology;
  d->min = d->shortest = INFINITY;
  for (uint32_t i = 0; i < t->n_links; i++) {
    struct by_spot a = d->spots[t->links[i].a], b = d->spots[t->links[i].b];
    d->shortest = fmin(d->shortest, get_distance(a, b));
    double capacity = fmax(t->links[i].capacity[0].all, t->links[i].capacity[1].all);
    d->min = fmin(d->min, capacity);
    d->max = fmax(d->max, capacity);
    d->used = d->used || get_use(d, i, BY_AB) > 0 || get_use(d, i, BY_BA) > 0;
  }
}

/* Draws the network. Names and numbers come last, so that they are on top. */
static void add_network(const struct drawing *d) {
  const struct by_svg_network network = {.spots = d->spots, .radius = d->radius, .floor = d->floor, .arcs = d->arcs};
  struct curve curves[MAX_LABELLED_LINKS];
  add_head(d);
  add_links(d, curves);
  if (d->options->trees) add_arcs(d->options->trees, &network, d->text);
  add_nodes(d);
  if (d->options->trees) add_roots(d->options->trees, &network, d->text);
  add_link_labels(d, curves);
  add_foot(d);
}

enum banyan_status by_topology_svg(const struct by_topology *topology, const struct by_draw_options *options,
                                   struct by_text *text) {
  struct drawing d = {.topology = topology, .options = options, .text = text};
  struct by_text panels = {0};
  d.spots = calloc(topology->n_nodes, sizeof *d.spots);
  if (!d.spots) return by_topology_no_memory();
  enum banyan_status status = by_topology_layout(topology, d.spots, &d.layout);
  if (status == BANYAN_OK) {
    fit_to_page(&d);
    allocated_make(&d);
    measure_links(&d);
    if (options->trees) status = by_svg_add_panels(options->trees, d.height, &panels, &d.height);
  }
  if (status == BANYAN_OK) {
    by_svg_begin(text, WIDTH, d.height, options->dark);
    add_network(&d);
    by_text_add_bytes(text, by_text_get(&panels), panels.length);
    by_text_add(text, "</svg>\n");
    if (text->failed || panels.failed) status = by_topology_no_memory();
  }
  by_text_fini(&panels);
  free(d.spots);
  return status;
}
