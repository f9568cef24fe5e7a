/* Which cells are whose: ranges of them, given out and taken back. A range is
 * known by where it begins. Not for several threads. */
#ifndef BY_SWITCH_CELL_RANGES_H
#define BY_SWITCH_CELL_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "fail.h"

struct by_range {
  uint32_t base, count;
};

struct by_ranges {
  uint32_t cells;
  uint32_t used;
  struct by_range *taken; /* ascending */
  uint32_t n, room;
};

void by_ranges_init(struct by_ranges *ranges, uint32_t cells);
void by_ranges_fini(struct by_ranges *ranges);
/* The smallest gap that holds `wanted`, or else the largest, all of it: out->count may be less, and 0. */
BANYAN_CHECK enum banyan_status by_ranges_take(struct by_ranges *ranges, uint32_t wanted, struct by_range *out);
/* What was taken; nothing happens for one without cells. */
void by_ranges_give(struct by_ranges *ranges, const struct by_range *range);

#endif
