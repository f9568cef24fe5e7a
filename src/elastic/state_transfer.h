/* Sends the chunks of a copy from those that have it to those that do not. Receivers request them: from each holder as
 * many at a time as it brings in a quarter of a second, so faster paths carry more. All members count in rounds what is
 * missing, and so end together. */
#ifndef BY_ELASTIC_STATE_TRANSFER_H
#define BY_ELASTIC_STATE_TRANSFER_H

#include "state_copies.h"
#include "state_sources.h"

struct by_state_transfer {
  struct banyan_comm *comm;                              /* for this alone; destroyed by the transfer */
  const char *(*name_of)(void *argument, uint32_t rank); /* for texts */
  void *argument;
  const struct by_state_layout *layout;
  int64_t version;
  uint8_t *area;          /* of the copy */
  const uint64_t *hashes; /* that its chunks must have */
  uint64_t digest;
  bool *have;                             /* which chunks are there already */
  const struct by_state_sources *sources; /* NULL: this member receives nothing */
  uint64_t bytes;                         /* out: received */
};

/* Collective; blocks. An error that ends the job ends it on all members. BANYAN_ERR_PROTOCOL or _NO_MEMORY of a member
 * that cannot go on: all end, this one with the error, the others with BANYAN_ERR_CLOSED. */
BANYAN_CHECK enum banyan_status by_state_transfer(struct by_state_transfer *transfer);

#endif
