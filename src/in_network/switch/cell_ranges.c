#include "cell_ranges.h"

#include <stdlib.h>
#include <string.h>

void by_ranges_init(struct by_ranges *ranges, uint32_t cells) {
  *ranges = (struct by_ranges){.cells = cells};
}

void by_ranges_fini(struct by_ranges *ranges) {
  free(ranges->taken);
}

/* The cells before the i-th that is taken; with i = n those behind the last. */
static struct by_range gap_before(const struct by_ranges *ranges, uint32_t i) {
  uint32_t start = i ? ranges->taken[i - 1].base + ranges->taken[i - 1].count : 0;
  uint32_t end = i < ranges->n ? ranges->taken[i].base : ranges->cells;
  return (struct by_range){start, end - start};
}

/* Whether a is the better of the two for so many. */
static bool is_better(const struct by_range *a, const struct by_range *b, uint32_t wanted) {
  if (a->count >= wanted) return b->count < wanted || a->count < b->count;
  return b->count < wanted && a->count > b->count;
}

static enum banyan_status insert(struct by_ranges *ranges, uint32_t at, struct by_range range) {
  if (ranges->n == ranges->room) {
    uint32_t room = ranges->room ? 2 * ranges->room : 16;
    struct by_range *taken = realloc(ranges->taken, room * sizeof *taken);
    if (!taken) return by_fail(BANYAN_ERR_NO_MEMORY, "switch: out of memory");
    ranges->taken = taken;
    ranges->room = room;
  }
  memmove(ranges->taken + at + 1, ranges->taken + at, (ranges->n - at) * sizeof *ranges->taken);
  ranges->taken[at] = range;
  ranges->n++;
  ranges->used += range.count;
  return BANYAN_OK;
}

enum banyan_status by_ranges_take(struct by_ranges *ranges, uint32_t wanted, struct by_range *out) {
  struct by_range best = gap_before(ranges, 0);
  uint32_t at = 0;
  for (uint32_t i = 1; i <= ranges->n; i++) {
    struct by_range gap = gap_before(ranges, i);
    if (!is_better(&gap, &best, wanted)) continue;
    best = gap;
    at = i;
  }
  if (best.count > wanted) best.count = wanted;
  *out = best;
  return best.count ? insert(ranges, at, best) : BANYAN_OK;
}

void by_ranges_give(struct by_ranges *ranges, const struct by_range *range) {
  for (uint32_t i = 0; i < ranges->n && range->count; i++) {
    if (ranges->taken[i].base != range->base) continue;
    ranges->used -= ranges->taken[i].count;
    ranges->n--;
    memmove(ranges->taken + i, ranges->taken + i + 1, (ranges->n - i) * sizeof *ranges->taken);
    return;
  }
}
