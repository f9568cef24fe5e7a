/* What members tell each other before and while a state is sent: fixed messages, little endian. docs/wire.md has them.
 * No I/O. */
#ifndef BY_ELASTIC_STATE_MESSAGE_H
#define BY_ELASTIC_STATE_MESSAGE_H

#include "bytes.h"

enum { BY_STATE_FORMAT = 1, BY_STATE_SUMMARY_BYTES = 48, BY_STATE_OUTCOME_BYTES = 512, BY_STATE_REQUEST_BYTES = 16 };

/* What a member has. */
struct by_state_summary {
  int64_t version;       /* of its copy; -1: none */
  uint64_t layout;       /* hash of its buffers now */
  uint64_t copy_layout;  /* the same of its copy; 0 without one */
  uint64_t digest;       /* of its copy; 0 without one */
  uint32_t values;       /* bytes of the copy's values */
  uint32_t layout_bytes; /* of the description of the copy's buffers */
};

void by_state_summary_write(uint8_t bytes[BY_STATE_SUMMARY_BYTES], const struct by_state_summary *summary);
/* BANYAN_ERR_PROTOCOL: malformed; BANYAN_ERR_MISMATCH: of a library with another format. */
BANYAN_CHECK enum banyan_status by_state_summary_read(const uint8_t bytes[BY_STATE_SUMMARY_BYTES],
                                                      struct by_state_summary *out);

/* How a part of the work ended on a member. */
struct by_state_outcome {
  uint32_t status; /* enum banyan_status */
  char text[BY_STATE_OUTCOME_BYTES - 8];
};

void by_state_outcome_write(uint8_t bytes[BY_STATE_OUTCOME_BYTES], const struct by_state_outcome *outcome);
BANYAN_CHECK enum banyan_status by_state_outcome_read(const uint8_t bytes[BY_STATE_OUTCOME_BYTES],
                                                      struct by_state_outcome *out);

/* "Send this chunk of the copy with this digest." */
void by_state_request_write(uint8_t bytes[BY_STATE_REQUEST_BYTES], uint32_t chunk, uint64_t digest);
/* BANYAN_ERR_PROTOCOL: malformed, of another copy, or there are not so many chunks. */
BANYAN_CHECK enum banyan_status by_state_request_read(const uint8_t bytes[BY_STATE_REQUEST_BYTES], uint32_t n_chunks,
                                                      uint64_t digest, uint32_t *chunk);

#endif
