/* Arbitrary bytes as GraphML. A topology that can be read is valid. */
#include "topology_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_topology *topology;
  quiet();
  if (by_topology_parse_graphml("fuzz", (const char *)data, size, "", &topology) != BANYAN_OK) return 0;
  use_topology(topology);
  return 0;
}
