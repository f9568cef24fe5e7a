/* Arbitrary bytes as the short text of a topology: what is made is valid. Sizes of more than three digits are left
 * out: they are as good, and slow. */
#include <ctype.h>
#include <string.h>

#include "topology_fuzz.h"
#include "topology_synth.h"

enum { MOST_TEXT = 300, MOST_DIGITS = 3 };

static bool is_large(const char *text) {
  for (size_t digits = 0; *text; text++) {
    digits = isdigit((unsigned char)*text) ? digits + 1 : 0;
    if (digits > MOST_DIGITS) return true;
  }
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_topology *topology;
  char text[MOST_TEXT + 1];
  if (size > MOST_TEXT) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  if (!is_large(text) && by_topology_synthesise(text, &topology) == BANYAN_OK) use_topology(topology);
  return 0;
}
