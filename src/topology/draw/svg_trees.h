/* What drawings of topologies and of trees as SVG share. */
#ifndef BY_TOPOLOGY_DRAW_SVG_TREES_H
#define BY_TOPOLOGY_DRAW_SVG_TREES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"
#include "topology_draw.h"

/* What all SVG drawings share: the document's head with its colours, and text that is well-formed whatever it contains.
 * The colours are those of the manager's web page. No state. */

enum { BY_SVG_TREE_COLOURS = 8 };

/* Begins a document of this size in pixels. It follows the reader's setting of light or dark colours, unless `dark`.
 * Classes: bg for the background; t u k n e r for texts; h p i s a for nodes; u0 .. u9, o for strokes by use; t0 .. t7
 * for strokes of trees, f0 .. f7 for areas in their colours; b for boxes. */
void by_svg_begin(struct by_text *text, double width, double height, bool dark);
/* Returns the class of the stroke of a link of which this part is used. */
const char *by_svg_use(double part);

/* Adds a string as text or as a quoted value, cut with "…" to `max` characters. */
void by_svg_add(struct by_text *text, const char *string, size_t max);
/* Adds a name like by_svg_add. A name that is too long loses its domain, and then its middle, since names often differ
 * at their ends. */
void by_svg_add_name(struct by_text *text, const char *name, size_t max);
/* Returns the approximate width in pixels of a string, cut to `max` characters, in letters of this size. */
double by_svg_width(const char *string, size_t max, double size);

/* Draws the trees of a plan: as arcs on a network, like those of the manager's web page, and each in a panel of its
 * own. */

/* A vertex of a plan, as it is drawn. */
struct by_svg_vertex {
  const char *name;
  uint32_t node; /* the topology's node at which it is drawn; UINT32_MAX: none */
  enum by_svg_vertex_kind { BY_SVG_RANK, BY_SVG_HELPER, BY_SVG_SWITCH, BY_SVG_SERVER } kind;
};

/* A tree or an exchange, as it is drawn. */
struct by_svg_tree {
  const char *title; /* one line, such as its share and rate */
  uint32_t number;   /* selects the colour */
  uint32_t n, root;
  const uint32_t *vertex; /* the vertex at each position */
  const uint32_t *parent; /* The parent of each position; the root's is itself. NULL: an exchange. */
  uint32_t n_radix;       /* the steps of an exchange; see struct by_group */
  const uint32_t *radix;
  bool downwards; /* It distributes results. Such trees are not drawn on the network. */
};

struct by_svg_trees {
  const struct by_svg_vertex *vertices;
  const struct by_svg_tree *trees;
  uint32_t n;
  uint32_t left_out; /* how many further trees are not listed */
};

/* How a network is drawn. */
struct by_svg_network {
  const struct by_spot *spots; /* the position of each node, in pixels */
  double radius;
  double floor; /* the y of the lowest hosts */
  double arcs;  /* the y below the hosts' names from which arcs hang; 0: there is no row of hosts */
};

enum { BY_SVG_WIDTH = 1000, BY_SVG_ARCS = 104 /* the height in pixels of the arcs below a row of hosts */ };

/* Draws panels with one tree each, from y on. *end is the y at their end. */
BANYAN_CHECK enum banyan_status by_svg_add_panels(const struct by_svg_trees *trees, double y, struct by_text *text,
                                                  double *end);

/* Writes a document of panels for a plan without a network. `note` is its second line. */
BANYAN_CHECK enum banyan_status by_svg_print_trees(const struct by_svg_trees *trees, const char *title,
                                                   const char *note, bool dark, struct by_text *text);

#endif
