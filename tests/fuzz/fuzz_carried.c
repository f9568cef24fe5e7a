/* What is carried into a membership: what can be read is written as the same bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "carry.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_carried_message message;
  struct by_arena arena;
  uint8_t *bytes;
  size_t length;
  by_arena_init(&arena);
  if (by_carried_message_read(data, size, &arena, &message) == BANYAN_OK) {
    assert(by_carried_message_write(&message, &bytes, &length) == BANYAN_OK);
    assert(length == size && !memcmp(bytes, data, size));
    free(bytes);
  }
  by_arena_fini(&arena);
  return 0;
}
