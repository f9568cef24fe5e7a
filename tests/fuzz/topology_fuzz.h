/* What the fuzz targets of topology readers share. */
#ifndef BY_TESTS_TOPOLOGY_FUZZ_H
#define BY_TESTS_TOPOLOGY_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was assumed is no news here. */
static inline void quiet(void) {
  setenv("BANYAN_LOG", "error", 1);
}

/* A reader's result is valid; takes it. */
static inline void use_topology(struct by_topology *topology) {
  if (by_topology_validate(topology) != BANYAN_OK) abort();
  by_topology_destroy(topology);
}

#endif
