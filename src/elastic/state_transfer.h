/* Sends the chunks of a copy from members that have it to those that do not. Receivers request from each holder as many
 * chunks at a time as it sends in a quarter of a second, so faster paths carry more. All members count in rounds what
 * is missing, and so end together. */
#ifndef BY_ELASTIC_STATE_TRANSFER_H
#define BY_ELASTIC_STATE_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"
#include "state_copies.h"

/* ---- sources, so chosen that holders send each chunk to each host once: receivers on hosts without a holder share
 * the chunks. A chunk belongs to one of these hosts, and there to one receiver, which requests it from the holders. On
 * each other host one receiver requests it from that one, and the rest from the receiver on their own host. Receivers
 * on a host with holders request all chunks from those. Values, without I/O. */

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

/* ---- transfers */

struct by_state_transfer {
  struct banyan_comm *comm;                              /* Used by the transfer only, which destroys it. */
  const char *(*name_of)(void *argument, uint32_t rank); /* Returns the name of a rank for texts. */
  void *argument;
  const struct by_state_layout *layout;
  int64_t version;
  uint8_t *area;          /* Memory of the copy. */
  const uint64_t *hashes; /* Expected hash of each chunk. */
  uint64_t digest;
  bool *have;                             /* Which chunks are present. */
  const struct by_state_sources *sources; /* NULL if this member receives nothing. */
  uint64_t bytes;                         /* Result: bytes received. */
};

/* Runs the transfer; a collective call that blocks. An error that ends the job ends it on all members. If one member
 * cannot go on, it returns BANYAN_ERR_PROTOCOL or BANYAN_ERR_NO_MEMORY, and the others return BANYAN_ERR_CLOSED. */
BANYAN_CHECK enum banyan_status by_state_transfer(struct by_state_transfer *transfer);

#endif
