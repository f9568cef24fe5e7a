/* Messages of `banyan run`'s directory, from either side: what is accepted must be the same bytes when it is sent
 * again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "directory_message.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t again[BY_DIRECTORY_MOST];
  struct by_directory_message message;
  for (int from_process = 0; from_process < 2; from_process++) {
    if (by_directory_read(data, size, from_process, &message)) continue;
    assert(size <= sizeof again);
    assert(by_directory_write(&message, again) == size);
    assert(!memcmp(again, data, size));
  }
  return 0;
}
