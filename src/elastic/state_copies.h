/* A state: the program's buffers and values, and two copies of them that are written in turn. One thread at a time. */
#ifndef BY_ELASTIC_STATE_COPIES_H
#define BY_ELASTIC_STATE_COPIES_H

#include "state_layout.h"
#include "state_values.h"

struct by_state_copy {
  struct by_state_layout *layout; /* NULL: the copy was never used */
  int64_t version;                /* -1: it is not complete; chunks may be */
  uint8_t *area;                  /* the buffers, as the layout says; the rest is 0 */
  size_t room;
  uint8_t *values; /* the message of the values */
  size_t values_bytes;
  bool receives;    /* it is not complete, but some chunks may be of the version that others have */
  bool hashed;      /* the next two hold */
  uint64_t *hashes; /* of the chunks */
  uint64_t digest;  /* of the layout, the hashes and the values */
};

struct banyan_state {
  struct by_state_layout *layout; /* of the buffers of the program */
  struct by_state_values values;
  struct by_state_copy copies[2];
  int current; /* the complete copy; -1: there is none */
};

/* NULL: there is no complete copy. */
static inline struct by_state_copy *by_state_current(struct banyan_state *state) {
  return state->current < 0 ? NULL : &state->copies[state->current];
}
/* The one that is written next. */
static inline struct by_state_copy *by_state_spare(struct banyan_state *state) {
  return &state->copies[state->current == 0 ? 1 : 0];
}
/* Gives a copy memory for a layout. What it holds stays if it had that layout before. */
BANYAN_CHECK enum banyan_status by_state_copy_prepare(struct by_state_copy *copy, struct by_state_layout *layout);
/* Copies the program's buffers. */
void by_state_copy_fill(struct by_state_copy *copy, const struct by_state_layout *from);
BANYAN_CHECK enum banyan_status by_state_copy_set_values(struct by_state_copy *copy, const void *bytes, size_t length);
/* Computes hashes and digest unless they are there. */
void by_state_copy_hash(struct by_state_copy *copy);
/* From now on the spare copy is the current one. */
void by_state_complete(struct banyan_state *state, int64_t version);

#endif
