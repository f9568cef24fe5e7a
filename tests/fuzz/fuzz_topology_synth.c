/* Arbitrary bytes as the short text of a topology. A topology that is made from it is valid. Sizes of more than three
 * digits are skipped, as they are slow and test nothing more. */
#include "topology_fuzz.h"

enum { MOST_DIGITS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_topology *topology;
  char text[BY_FUZZ_MOST_TEXT + 1];
  if (size > BY_FUZZ_MOST_TEXT) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  if (!has_large_number(text, MOST_DIGITS) && by_topology_synthesise(text, &topology) == BANYAN_OK)
    use_topology(topology);
  return 0;
}
