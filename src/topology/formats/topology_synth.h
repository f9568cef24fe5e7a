/* What a command line gives as a topology: a file, or a short text for trying things out: "star:4,nic=500m",
 * "clos:racks=8,hosts=8,nic=100g,oversub=4". What comes first is the size, and options follow by name. Nothing is
 * random but "random", which is repeatable. */
#ifndef BY_TOPOLOGY_FORMATS_TOPOLOGY_SYNTH_H
#define BY_TOPOLOGY_FORMATS_TOPOLOGY_SYNTH_H

#include "topology.h"

/* One of: JSON itself, which begins with "{"; a kind with its size and options, "star:4,nic=500m" (topology_synth.h);
 * or a file in any known format (topology_formats.h). A file that is named like a kind is written "./ring". The caller
 * owns *out. Errors as of those; BANYAN_ERR_ARGUMENT also: it is neither a kind nor a file. */
BANYAN_CHECK enum banyan_status by_topology_named(const char *text, struct by_topology **out);

struct by_topology_kind {
  const char *name;  /* "star" */
  const char *usage; /* "star:N[,nic=RATES][,helpers=K]" */
  const char *help;  /* one line */
};

/* The i-th kind; NULL beyond the last. Static storage. */
const struct by_topology_kind *by_topology_kind_list(uint32_t i);
/* Whether a text is one of these: it is a kind's name, or begins with it and ":". */
bool by_topology_is_kind(const char *text);
/* The caller owns *out, whose name is the text. BANYAN_ERR_ARGUMENT: the text is not possible; the error
 * names what would be. */
BANYAN_CHECK enum banyan_status by_topology_synthesise(const char *text, struct by_topology **out);

#endif
