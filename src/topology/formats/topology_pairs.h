/* Measured pairs of places as CSV, as Skyplane publishes them: one row for each
 * direction with throughput and round-trip time. docs/topology-format.md says
 * what is read and what is assumed. */
#ifndef BY_TOPOLOGY_TOPOLOGY_PAIRS_H
#define BY_TOPOLOGY_TOPOLOGY_PAIRS_H

#include "topology.h"

struct by_pairs_options {
  /* Which regions: shell patterns such as "aws:us-*,gcp:europe-*", with "!" before those to leave out ("+" also
   * separates); a tier other than the premium one is asked for by "gcp:*" "/STANDARD". NULL or "": all. */
  const char *select;
  /* What a machine may send in all, by provider (what stands before the colon): "aws=5g,gcp=7g,azure=16g" where NULL,
   * "" for no limits. */
  const char *limits;
};

/* `source` names the text in errors. NULL: the default options. The caller owns *out, whose nodes are sorted by name.
 */
BANYAN_CHECK enum banyan_status by_topology_parse_pairs(const char *source, const char *text, size_t length,
                                                        const struct by_pairs_options *options,
                                                        struct by_topology **out);

#endif
