/* GraphML, as of the Internet Topology Zoo and plain; docs/topology-format.md
 * says what is read and what is assumed. */
#ifndef BY_TOPOLOGY_TOPOLOGY_GRAPHML_H
#define BY_TOPOLOGY_TOPOLOGY_GRAPHML_H

#include "topology.h"

struct by_graphml_options {
  double default_rate;  /* bit/s of links where no link of the graph has a speed; 0: 1 Gbit/s */
  double default_delay; /* seconds of links where neither a delay nor any distance is known */
};

/* `source` names the text in errors. The median speed of the links that have one stands for those that do not, which is
 * said in the log. NULL: the default options. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_topology_parse_graphml(const char *source, const char *text, size_t length,
                                                          const struct by_graphml_options *options,
                                                          struct by_topology **out);

#endif
