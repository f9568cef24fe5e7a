/* Sends the chunks of a copy from those that have it to those that do not. Receivers request them: from each holder as
 * many at a time as it brings in a quarter of a second, so faster paths carry more. All members count in rounds what is
 * missing, and so end together. */
#ifndef BY_ELASTIC_STATE_TRANSFER_H
#define BY_ELASTIC_STATE_TRANSFER_H

#include "state_copies.h"
#include "state_sources.h"

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
