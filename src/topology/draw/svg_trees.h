/* Drawings of a plan's trees: as arcs on a network, like those of the manager's web page, and each in a panel of its
 * own. */
#ifndef BY_TOPOLOGY_DRAW_SVG_TREES_H
#define BY_TOPOLOGY_DRAW_SVG_TREES_H

#include <stdint.h>

#include "svg_text.h"
#include "topology_draw.h"

/* A vertex of a plan. */
struct by_svg_vertex {
  const char *name;
  uint32_t node; /* of the topology, where it is drawn; UINT32_MAX: not there */
  enum by_svg_vertex_kind { BY_SVG_RANK, BY_SVG_HELPER, BY_SVG_SWITCH, BY_SVG_SERVER } kind;
};

/* A tree, or an exchange. */
struct by_svg_tree {
  const char *title; /* one line: its share, its rate */
  uint32_t number;   /* of its colour */
  uint32_t n, root;
  const uint32_t *vertex; /* at each position */
  const uint32_t *parent; /* of each position, the root's is itself; NULL: an exchange */
  uint32_t n_radix;       /* of an exchange: see struct by_group */
  const uint32_t *radix;
  bool downwards; /* the ways of results, which are not drawn on the network */
};

struct by_svg_trees {
  const struct by_svg_vertex *vertices;
  const struct by_svg_tree *trees;
  uint32_t n;
  uint32_t left_out; /* trees that are not among these */
};

/* Where a network is drawn. */
struct by_svg_network {
  const struct by_spot *spots; /* of each node, in pixels */
  double radius;
  double floor; /* y of the lowest hosts */
  double arcs;  /* y below their names, from which arcs hang; 0: there is no row of hosts */
};

enum { BY_SVG_WIDTH = 1000, BY_SVG_ARCS = 104 /* pixels below a row of hosts */ };

/* The trees over a network: arcs below a row of hosts, which are at most BY_SVG_ARCS high, curves elsewhere. Exchanges
 * are left out, and trees beyond the colours that there are. */
void by_svg_add_arcs(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text);
/* Whether some of them hangs below a row of hosts. */
bool by_svg_has_arcs(const struct by_svg_trees *trees);
/* Their roots, which are above the nodes. */
void by_svg_add_roots(const struct by_svg_trees *trees, const struct by_svg_network *network, struct by_text *text);

/* Panels with one tree each, from y on. *end: where they end. */
BANYAN_CHECK enum banyan_status by_svg_add_panels(const struct by_svg_trees *trees, double y, struct by_text *text,
                                                  double *end);

/* A whole document of panels, for a plan without a network. `note`: the second line. */
BANYAN_CHECK enum banyan_status by_svg_print_trees(const struct by_svg_trees *trees, const char *title,
                                                   const char *note, bool dark, struct by_text *text);

#endif
