/* From whom a receiver gets each chunk of a state, so that what holders send goes to each host once: receivers on hosts
 * without a holder share the chunks. A chunk belongs to one of these hosts, and there to one receiver, which gets it
 * from the holders. On each other host one receiver gets it from that one, and the rest from the receiver on their own
 * host. Receivers on a host with holders get all chunks from those. Values; no I/O. */
#ifndef BY_ELASTIC_STATE_SOURCES_H
#define BY_ELASTIC_STATE_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"

enum { BY_STATE_MOST_HOLDERS = 8 /* Maximum holders that one receiver asks. */ };
#define BY_STATE_FROM_HOLDERS UINT32_MAX

struct by_state_sources {
  uint32_t rank;
  uint32_t holders[BY_STATE_MOST_HOLDERS]; /* Ranks that this receiver asks, on different hosts where possible. */
  uint32_t n_holders;
  bool local;       /* The holders are on this receiver's host. */
  uint32_t n_hosts; /* Number of hosts with receivers and without holders. */
  uint32_t host;    /* Index of this rank's host among them. */
  /* Index in `receivers` of the first receiver of each of the n_hosts hosts, followed by their total. */
  uint32_t *first;
  uint32_t *receivers;
};

/* Chooses the sources of a receiver; memory comes from the arena. `host_of` maps ranks to numbers below n_hosts. At
 * least one rank must hold the state. */
BANYAN_CHECK enum banyan_status by_state_sources_init(struct by_state_sources *sources, struct by_arena *arena,
                                                      uint32_t rank, uint32_t n, const bool *holds,
                                                      const bool *receives, const uint32_t *host_of, uint32_t n_hosts);
/* Returns the rank that this receiver asks for a chunk, or BY_STATE_FROM_HOLDERS. */
uint32_t by_state_source_of(const struct by_state_sources *sources, uint32_t chunk);

#endif
