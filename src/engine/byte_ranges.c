/* A set of bytes as a sorted array of ranges. */
#include "byte_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "arena.h"

void by_byte_ranges_fini(struct by_byte_ranges *set) {
  free(set->ranges);
  *set = (struct by_byte_ranges){0};
}

static void remove_at(struct by_byte_ranges *set, uint32_t i) {
  set->n--;
  memmove(&set->ranges[i], &set->ranges[i + 1], (set->n - i) * sizeof *set->ranges);
}

bool by_byte_ranges_add(struct by_byte_ranges *set, uint64_t from, uint64_t to) {
  uint32_t i = set->n;
  while (i && set->ranges[i - 1].from > from) i--; /* The new range belongs before range i. */
  bool follows = i && set->ranges[i - 1].to == from, precedes = i < set->n && set->ranges[i].from == to;
  if (follows && precedes) {
    set->ranges[i - 1].to = set->ranges[i].to;
    remove_at(set, i);
  } else if (follows) {
    set->ranges[i - 1].to = to;
  } else if (precedes) {
    set->ranges[i].from = from;
  } else {
    if (!BY_ARRAY_GROW(&set->ranges, &set->capacity, set->n + 1)) return false;
    memmove(&set->ranges[i + 1], &set->ranges[i], (set->n - i) * sizeof *set->ranges);
    set->ranges[i] = (struct by_byte_range){from, to};
    set->n++;
  }
  return true;
}

bool by_byte_ranges_overlap(const struct by_byte_ranges *set, uint64_t from, uint64_t to) {
  for (uint32_t i = 0; i < set->n && set->ranges[i].from < to; i++)
    if (from < set->ranges[i].to) return true;
  return false;
}

uint64_t by_byte_ranges_take(struct by_byte_ranges *set, uint64_t at) {
  if (!set->n || set->ranges[0].from != at) return at;
  uint64_t to = set->ranges[0].to;
  remove_at(set, 0);
  return to;
}
