/* Draws topologies for people, as text and as SVG. Both show how full links are: by others, and with `load` by a plan.
 */
#ifndef BY_TOPOLOGY_DRAW_TOPOLOGY_DRAW_H
#define BY_TOPOLOGY_DRAW_TOPOLOGY_DRAW_H

#include "topology.h"

struct by_svg_trees;

struct by_draw_options {
  const char *title; /* NULL: the topology's name */
  const double (
      *load)[2]; /* the plan's bit/s in each direction of each link, in addition to what others use; NULL: none */
  const char *load_name; /* the name of the load, such as "plan ring" */
  bool all;              /* for text: long tables are complete */
  /* For SVG: the trees of a plan, on the network and in panels below it (svg_trees.h); NULL: none. */
  const struct by_svg_trees *trees;
  bool dark; /* for SVG: use dark colours regardless of the reader's setting */
};

/* Prints a summary, a table of the nodes, one of the links, and a breadth-first tree of the nodes from the middle. Long
 * tables are shortened unless `all` is set. */
BANYAN_CHECK enum banyan_status by_topology_draw(const struct by_topology *topology,
                                                 const struct by_draw_options *options, struct by_text *text);
/* Writes an SVG document. A link's width shows its capacity, its colour how full it is (each half for the direction
 * that leaves that end); tooltips of nodes and links give the numbers. */
BANYAN_CHECK enum banyan_status by_topology_svg(const struct by_topology *topology,
                                                const struct by_draw_options *options, struct by_text *text);

/* A position in a drawing. Nodes are placed by their known locations; else in layers, hosts below their switches, if
 * switches join the hosts; else so that linked nodes are near each other. Equal topologies have equal layouts. */
struct by_spot {
  double x, y; /* Any unit; y grows downwards. If n > 1, at least one coordinate differs between nodes. */
};

enum by_layout_kind { BY_LAYOUT_PLACES, BY_LAYOUT_LAYERS, BY_LAYOUT_SPRINGS };

/* Fills n_nodes elements of `out`. Cost: links; for springs nodes x nodes in each step, with fewer steps for more
 * nodes. */
BANYAN_CHECK enum banyan_status by_topology_layout(const struct by_topology *topology, struct by_spot *out,
                                                   enum by_layout_kind *kind);

#endif
