/* A state: the program's buffers and values, and two copies of them that are written in turn. One thread at a time. */
#ifndef BY_ELASTIC_STATE_COPIES_H
#define BY_ELASTIC_STATE_COPIES_H

#include "state_contents.h"

struct by_state_copy {
  struct by_state_layout *layout; /* NULL if the copy was never used. */
  int64_t version;                /* -1 while the copy is incomplete; single chunks may be complete. */
  uint8_t *area;                  /* The buffers at the layout's offsets; the padding is 0. */
  size_t room;
  uint8_t *values; /* The encoded values. */
  size_t values_bytes;
  bool receives;    /* A transfer into the copy has begun, so it may contain chunks of the version that others have. */
  bool hashed;      /* Whether `hashes` and `digest` are valid. */
  uint64_t *hashes; /* Hash of each chunk. */
  uint64_t digest;  /* Hash over the layout, the chunks' hashes and the values. */
};

struct banyan_state {
  struct by_state_layout *layout; /* Layout of the program's buffers. */
  struct by_state_values values;
  struct by_state_copy copies[2];
  int current; /* Index of the complete copy; -1 if there is none. */
};

/* Returns the complete copy; NULL if there is none. */
static inline struct by_state_copy *by_state_current(struct banyan_state *state) {
  return state->current < 0 ? NULL : &state->copies[state->current];
}
/* Returns the copy that is written next. */
static inline struct by_state_copy *by_state_spare(struct banyan_state *state) {
  return &state->copies[state->current == 0 ? 1 : 0];
}
/* Allocates a copy's memory for a layout. The contents are kept if the copy had this layout before. */
BANYAN_CHECK enum banyan_status by_state_copy_prepare(struct by_state_copy *copy, struct by_state_layout *layout);
/* Copies the program's buffers, which `from` describes, into the copy. */
void by_state_copy_fill(struct by_state_copy *copy, const struct by_state_layout *from);
BANYAN_CHECK enum banyan_status by_state_copy_set_values(struct by_state_copy *copy, const void *bytes, size_t length);
/* Computes hashes and digest unless they are valid. */
void by_state_copy_hash(struct by_state_copy *copy);
/* Makes the spare copy the current one. */
void by_state_complete(struct banyan_state *state, int64_t version);

#endif
