/* What a command line says for a topology. */
#ifndef BY_TOPOLOGY_TOPOLOGY_NAMED_H
#define BY_TOPOLOGY_TOPOLOGY_NAMED_H

#include "topology.h"

/* One of: JSON itself, which begins with "{"; a kind with its size and options, "star:4,nic=500m" (topology_synth.h);
 * or a file in any known format (topology_formats.h). A file that is named like a kind is written "./ring". The caller
 * owns *out. Errors as of those; BANYAN_ERR_ARGUMENT also: it is neither a kind nor a file. */
BANYAN_CHECK enum banyan_status by_topology_named(const char *text, struct by_topology **out);

#endif
