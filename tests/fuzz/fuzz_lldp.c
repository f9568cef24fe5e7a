/* LLDP frames. What can be read has texts that can be shown and fit a message of the cluster. */
#include <stdint.h>
#include <string.h>

#include "cluster_message.h"
#include "host_links.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_lldp said;
  if (by_lldp_read(data, size, &said) != BANYAN_OK) return 0;
  assert(*by_lldp_name(&said) && by_is_printable(by_lldp_name(&said), BY_CLUSTER_NAME));
  assert(*said.port && by_is_printable(said.port, BY_CLUSTER_NAME));
  assert(by_is_printable(said.chassis, BY_CLUSTER_NAME));
  return 0;
}
