/* Functions that the fuzz targets of topology readers share. */
#ifndef BY_TESTS_TOPOLOGY_FUZZ_H
#define BY_TESTS_TOPOLOGY_FUZZ_H

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "topology.h"
#include "topology_formats.h"

enum { BY_FUZZ_MOST_TEXT = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ignores messages about assumptions. */
static inline void quiet(void) {
  setenv("BANYAN_LOG", "error", 1);
}

/* Checks that a reader's result is valid, and takes ownership of it. */
static inline void use_topology(struct by_topology *topology) {
  if (by_topology_validate(topology) != BANYAN_OK) abort();
  by_topology_destroy(topology);
}

/* Whether a short text has a number of more than this many digits. Large sizes are slow and test nothing more. */
static inline bool has_large_number(const char *text, size_t most_digits) {
  for (size_t digits = 0; *text; text++) {
    digits = isdigit((unsigned char)*text) ? digits + 1 : 0;
    if (digits > most_digits) return true;
  }
  return false;
}

/* Reads a topology as a short text or as a file in any format, for functions that take long for large topologies.
 * Returns NULL if there is none or if it is larger than the limit. */
static inline struct by_topology *small_topology(const uint8_t *data, size_t size, uint32_t most_nodes,
                                                 uint32_t most_links) {
  struct by_topology *topology = NULL;
  char text[BY_FUZZ_MOST_TEXT + 1] = "";
  if (size <= BY_FUZZ_MOST_TEXT && size) memcpy(text, data, size);
  enum banyan_status status = by_topology_is_kind(text) && !has_large_number(text, 2)
                                  ? by_topology_synthesise(text, &topology)
                                  : by_topology_parse_any("fuzz", (const char *)data, size, "", &topology);
  if (status != BANYAN_OK) return NULL;
  if (topology->n_nodes <= most_nodes && topology->n_links <= most_links) return topology;
  by_topology_destroy(topology);
  return NULL;
}

#endif
