/* A whole switch in memory: what cell.h needs, for user
 * space and for tests. One thread at a time; the tables belong to the caller. */
#ifndef BY_SWITCH_STEP_H
#define BY_SWITCH_STEP_H

#include "cell.h"
#include "float_sums.h"

struct by_cells {
  struct by_cell *cells;
  uint64_t (*sums)[BY_CELL_PAIRS];
  uint32_t count;
  struct by_float_sums *floats; /* NULL: no grant is for float32 */
};

/* A UDP payload of `bytes` has come in by port `from`; `grant` is the one of its job, or NULL; `now` is in ms, and may
 * wrap. Changes the packet, all of which must be writable and its first byte aligned to 8. The verdict is never
 * BY_VERDICT_CELL. */
struct by_verdict by_switch_step(const struct by_grant *grant, const struct by_cells *cells, struct by_fragment *packet,
                                 uint32_t bytes, uint32_t from, uint32_t now);

#endif
