/* Drawings of topologies for people: as text, and as SVG. Both show how full links are: by others, or with `load` by a
 * plan. */
#ifndef BY_TOPOLOGY_DRAW_TOPOLOGY_DRAW_H
#define BY_TOPOLOGY_DRAW_TOPOLOGY_DRAW_H

#include "topology.h"

struct by_svg_trees;

struct by_draw_options {
  const char *title;       /* NULL: the topology's name */
  const double (*load)[2]; /* bit/s in each direction of each link, beside what others use; NULL: none */
  const char *load_name;   /* such as "plan ring"; with `load` */
  bool all;                /* text: leave nothing out */
  /* SVG: trees of a plan, on the network and in panels below it (svg_trees.h); NULL: none. */
  const struct by_svg_trees *trees;
  bool dark; /* SVG: for a dark background, whatever the reader's setting is */
};

/* A line about the whole, a table of the nodes, one of the links, and a tree of the nodes by the fewest links from the
 * middle. Long ones are cut short unless all is asked for. */
BANYAN_CHECK enum banyan_status by_topology_draw(const struct by_topology *topology,
                                                 const struct by_draw_options *options, struct by_text *text);
/* A whole SVG document: a link's width shows what it can carry, its colour how full it is (each half for the direction
 * that leaves that end), and the tip that appears over a node or link gives the numbers. */
BANYAN_CHECK enum banyan_status by_topology_svg(const struct by_topology *topology,
                                                const struct by_draw_options *options, struct by_text *text);

/* Where the nodes of a drawing go: by their places where these are known; in layers, hosts below the switches they are
 * at, where hosts are joined by switches; else so that linked nodes are near each other. The same topology always has
 * the same layout. */
struct by_spot {
  double x, y; /* y grows downwards; in units of their own, at least one of the two spans more than 0 unless n is 1 */
};

enum by_layout_kind { BY_LAYOUT_PLACES, BY_LAYOUT_LAYERS, BY_LAYOUT_SPRINGS };

/* Fills n_nodes of `out`. Cost: links, and for springs nodes x nodes a step, with fewer steps for more nodes. */
BANYAN_CHECK enum banyan_status by_topology_layout(const struct by_topology *topology, struct by_spot *out,
                                                   enum by_layout_kind *kind);

#endif
