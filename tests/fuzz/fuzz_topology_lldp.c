/* Arbitrary bytes as the LLDP neighbours of two machines, divided at the first byte 0. A topology that can be read is
 * valid. */
#include <string.h>

#include "topology_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_topology *topology;
  const char *text = (const char *)data, *cut = size ? memchr(text, 0, size) : NULL;
  size_t first = cut ? (size_t)(cut - text) : size;
  struct by_lldp_file files[] = {{"a.json", text, first}, {"b.json", cut ? cut + 1 : "", cut ? size - first - 1 : 0}};
  quiet();
  if (by_topology_parse_lldp(files, cut ? 2 : 1, "", &topology) != BANYAN_OK) return 0;
  use_topology(topology);
  return 0;
}
