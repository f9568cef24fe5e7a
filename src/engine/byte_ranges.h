/* A set of bytes as ranges: sorted, apart from each other, neither overlapping
 * nor touching. Plain data without a lock. A zeroed struct is the empty set. */
#ifndef BY_ENGINE_BYTE_RANGES_H
#define BY_ENGINE_BYTE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct by_byte_range {
  uint64_t from, to; /* The first byte, and the byte behind the last one. */
};

struct by_byte_ranges {
  struct by_byte_range *ranges;
  uint32_t n, capacity;
};

void by_byte_ranges_fini(struct by_byte_ranges *set);
/* Adds bytes from .. to, of which the set has none. Costs as much as there are ranges behind them: none where bytes
 * mostly come in order. False: there is no memory, and the set is as before. */
bool by_byte_ranges_add(struct by_byte_ranges *set, uint64_t from, uint64_t to);
/* Whether the set has any of these bytes. */
bool by_byte_ranges_overlap(const struct by_byte_ranges *set, uint64_t from, uint64_t to);
/* Removes the lowest range if it begins at `at`. Returns its end, or `at` if there is no such range. */
uint64_t by_byte_ranges_take(struct by_byte_ranges *set, uint64_t at);

#endif
