/* Makes topologies from a command line: from a file, or from a short text: "star:4,nic=500m",
 * "clos:racks=8,hosts=8,nic=100g,oversub=4". The size comes first, options follow by name. Only "random" is random, and
 * repeatable. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_SYNTH_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_SYNTH_H

#include "topology.h"

/* Makes a topology from JSON, which begins with "{"; a kind with its size and options, such as "star:4,nic=500m"; or a
 * file in any known format (topology_formats.h). To read a file that is named like a kind, write "./ring". The caller
 * owns *out. Errors are those of these readers; BANYAN_ERR_ARGUMENT also: it is neither a kind nor a file. */
BANYAN_CHECK enum banyan_status by_topology_named(const char *text, struct by_topology **out);

struct by_topology_kind {
  const char *name;  /* such as "star" */
  const char *usage; /* such as "star:N[,nic=RATES][,helpers=K]" */
  const char *help;  /* one line */
};

/* Returns the i-th kind; NULL beyond the last. Static storage. */
const struct by_topology_kind *by_topology_kind_list(uint32_t i);
/* Whether a text is the name of a kind, or begins with one and ":". */
bool by_topology_is_kind(const char *text);
/* Makes a topology whose name is the text. The caller owns *out. BANYAN_ERR_ARGUMENT: the text is invalid; the error
 * names what is possible. */
BANYAN_CHECK enum banyan_status by_topology_synthesise(const char *text, struct by_topology **out);

#endif
