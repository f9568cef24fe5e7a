/* What hosts and switches hear from their neighbours: the JSON of `lldpcli -f
 * json0 show neighbors details`, of one machine or many.
 * docs/topology-format.md says what is read and what is assumed. */
#ifndef BY_TOPOLOGY_TOPOLOGY_LLDP_H
#define BY_TOPOLOGY_TOPOLOGY_LLDP_H

#include "topology.h"

struct by_lldp_options {
  double default_rate; /* bit/s of links whose speed no end tells; 0: 1 Gbit/s */
  const char
      *hosts; /* shell patterns of the names that are hosts, such as "gpu*,node-*"; NULL or "": by what they tell */
};

struct by_lldp_file {
  const char *source, *text; /* the source's name without folder and ending names the machine, unless the text does */
  size_t length;
};

/* Merges what several machines heard; a cable that both its ends tell of is one link. NULL: the default options. The
 * caller owns *out. */
BANYAN_CHECK enum banyan_status by_topology_parse_lldp(const struct by_lldp_file *files, size_t n,
                                                       const struct by_lldp_options *options, struct by_topology **out);

#endif
