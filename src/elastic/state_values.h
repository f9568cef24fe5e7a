/* Named values of a state: bytes of any length, and all of them as one message. Not for several threads. */
#ifndef BY_ELASTIC_STATE_VALUES_H
#define BY_ELASTIC_STATE_VALUES_H

#include "bytes.h"

#define BY_STATE_VALUES_MOST (16u << 20) /* Maximum bytes of the encoded values. */
enum { BY_STATE_VALUES_COUNT = 4096 };

struct by_state_value {
  char *name;
  uint8_t *bytes; /* Allocated in one piece with the name. */
  size_t length;
};

/* Values in the order in which they were first set. Zero-initialised, it is empty. */
struct by_state_values {
  struct by_state_value *all;
  size_t n, room;
};

void by_state_values_fini(struct by_state_values *values);
/* Returns NULL if there is no such value. */
const struct by_state_value *by_state_values_find(const struct by_state_values *values, const char *name);
/* Returns BANYAN_ERR_ARGUMENT if the name is invalid, or the values become too long or too many. */
BANYAN_CHECK enum banyan_status by_state_values_set(struct by_state_values *values, const char *name, const void *bytes,
                                                    size_t length);
void by_state_values_write(struct by_writer *writer, const struct by_state_values *values);
/* Replaces all values; after an error they are unchanged. */
BANYAN_CHECK enum banyan_status by_state_values_read(const uint8_t *bytes, size_t length,
                                                     struct by_state_values *values);

#endif
