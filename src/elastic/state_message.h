/* What members tell each other before and while a state is sent: fixed messages, little endian. docs/wire.md has them.
 * No I/O. */
#ifndef BY_ELASTIC_STATE_MESSAGE_H
#define BY_ELASTIC_STATE_MESSAGE_H

#include "bytes.h"

enum { BY_STATE_FORMAT = 1, BY_STATE_SUMMARY_BYTES = 48, BY_STATE_OUTCOME_BYTES = 512, BY_STATE_REQUEST_BYTES = 16 };

/* The version and contents that a member has. */
struct by_state_summary {
  int64_t version;       /* Version of the member's copy; -1 if it has none. */
  uint64_t layout;       /* Hash of the layout of its current buffers. */
  uint64_t copy_layout;  /* Hash of the layout of its copy; 0 without a copy. */
  uint64_t digest;       /* Digest of its copy; 0 without a copy. */
  uint32_t values;       /* Bytes of the copy's encoded values. */
  uint32_t layout_bytes; /* Bytes of the copy's encoded layout. */
};

void by_state_summary_write(uint8_t bytes[BY_STATE_SUMMARY_BYTES], const struct by_state_summary *summary);
/* Returns BANYAN_ERR_PROTOCOL if the summary is malformed, and BANYAN_ERR_MISMATCH if its library uses another format.
 */
BANYAN_CHECK enum banyan_status by_state_summary_read(const uint8_t bytes[BY_STATE_SUMMARY_BYTES],
                                                      struct by_state_summary *out);

/* How a step of the synchronisation ended on a member. */
struct by_state_outcome {
  uint32_t status; /* An enum banyan_status. */
  char text[BY_STATE_OUTCOME_BYTES - 8];
};

void by_state_outcome_write(uint8_t bytes[BY_STATE_OUTCOME_BYTES], const struct by_state_outcome *outcome);
BANYAN_CHECK enum banyan_status by_state_outcome_read(const uint8_t bytes[BY_STATE_OUTCOME_BYTES],
                                                      struct by_state_outcome *out);

/* Encodes a request for a chunk of the copy with this digest. */
void by_state_request_write(uint8_t bytes[BY_STATE_REQUEST_BYTES], uint32_t chunk, uint64_t digest);
/* Returns BANYAN_ERR_PROTOCOL if the request is malformed, for another copy, or for a chunk beyond n_chunks. */
BANYAN_CHECK enum banyan_status by_state_request_read(const uint8_t bytes[BY_STATE_REQUEST_BYTES], uint32_t n_chunks,
                                                      uint64_t digest, uint32_t *chunk);

#endif
