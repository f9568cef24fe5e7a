/* Draws the trees of a plan: as arcs on a network, like those of the manager's web page, and each in a panel of its
 * own. */
#ifndef BY_TOPOLOGY_DRAW_SVG_TREES_H
#define BY_TOPOLOGY_DRAW_SVG_TREES_H

#include <stdint.h>

#include "svg_text.h"
#include "topology_draw.h"

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

/* Draws the trees over a network: as arcs below a row of hosts, at most BY_SVG_ARCS high, and as curves elsewhere.
 * Exchanges are omitted, and trees beyond the number of colours. */
void by_svg_add_arcs(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text);
/* Whether some of the trees hang below a row of hosts. */
bool by_svg_has_arcs(const struct by_svg_trees *trees);
/* Draws the roots of the trees, above the nodes. */
void by_svg_add_roots(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text);

/* Draws panels with one tree each, from y on. *end is the y at their end. */
BANYAN_CHECK enum banyan_status by_svg_add_panels(const struct by_svg_trees *trees, double y, struct by_text *text,
                                                  double *end);

/* Writes a document of panels for a plan without a network. `note` is its second line. */
BANYAN_CHECK enum banyan_status by_svg_print_trees(const struct by_svg_trees *trees, const char *title,
                                                   const char *note, bool dark, struct by_text *text);

#endif
