/* What is between a GraphML document and its topology: everything seen, nothing
 * named or filled in yet. Lives while one document is read. */
#ifndef BY_TOPOLOGY_TOPOLOGY_GRAPHML_DRAFT_H
#define BY_TOPOLOGY_TOPOLOGY_GRAPHML_DRAFT_H

#include "topology_graphml.h"
#include "topology_xml.h"

enum { BY_GRAPHML_MOST_KEYS = 64 };

struct by_graphml_node {
  const xmlNode *element;
  const char *id, *label, *group;
  double latitude, longitude, x, y; /* NAN: not known */
  bool is_switch, shares_label;
};

struct by_graphml_edge {
  const xmlNode *element;
  uint32_t a, b;
  double rate[2], delay, loss; /* NAN: not known */
  bool directed, done;         /* done: another one has it as its way back */
};

struct by_graphml_key {
  const char *id;
  int meaning, owners;
  const char *fallback; /* NULL: none */
};

struct by_graphml {
  struct by_xml xml;
  struct by_arena arena;
  struct by_graphml_options options;
  const xmlNode *element;
  const char *name; /* NULL: none */
  struct by_graphml_key keys[BY_GRAPHML_MOST_KEYS];
  size_t n_keys;
  struct by_graphml_node *nodes;
  uint32_t n_nodes, *by_id; /* nodes sorted by their id */
  struct by_graphml_edge *edges;
  uint32_t n_edges, n_loops; /* loops are not among the edges */
};

/* Fills in what is missing and makes the topology; the log says what was assumed. */
BANYAN_CHECK enum banyan_status by_graphml_make(struct by_graphml *graph, struct by_topology **out);

#endif
