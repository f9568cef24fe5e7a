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

enum { BY_STATE_MOST_HOLDERS = 8 /* that one receiver asks */ };
#define BY_STATE_FROM_HOLDERS UINT32_MAX

struct by_state_sources {
  uint32_t rank;
  uint32_t holders[BY_STATE_MOST_HOLDERS]; /* that this receiver asks, each on a host of its own as far as possible */
  uint32_t n_holders;
  bool local;       /* they are on its own host */
  uint32_t n_hosts; /* with receivers and without holders */
  uint32_t host;    /* this rank's among them */
  uint32_t *first;  /* n_hosts + 1: where the receivers of each begin in the next */
  uint32_t *receivers;
};

/* For a receiver; its memory is the arena's. `host_of` gives numbers below n_hosts. There is a holder. */
BANYAN_CHECK enum banyan_status by_state_sources_init(struct by_state_sources *sources, struct by_arena *arena,
                                                      uint32_t rank, uint32_t n, const bool *holds,
                                                      const bool *receives, const uint32_t *host_of, uint32_t n_hosts);
/* The rank that this receiver asks for a chunk, or BY_STATE_FROM_HOLDERS. */
uint32_t by_state_source_of(const struct by_state_sources *sources, uint32_t chunk);

#endif
