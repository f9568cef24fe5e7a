#include "step.h"

#include <stddef.h>

static uint64_t *payload_of(struct by_fragment *packet) {
  return (uint64_t *)(void *)(packet + 1);
}

/* NULL: the grant promises a cell that this switch does not have. */
static struct by_cell *find_cell(const struct by_grant *grant, const struct by_cells *cells, uint32_t slot) {
  uint64_t at = (uint64_t)grant->base + slot;
  return at < cells->count ? &cells->cells[at] : NULL;
}

struct by_verdict by_switch_step(const struct by_grant *grant, const struct by_cells *cells, struct by_fragment *packet,
                                 uint32_t bytes, uint32_t from, uint32_t now) {
  if (by_fragment_check(packet, bytes) != BY_FRAGMENT_SOUND) return by_verdict_drop(BY_EVENT_MALFORMED);
  struct by_verdict verdict = by_switch_enter(grant, packet, from);
  struct by_cell *cell = NULL;
  const void *end = (const char *)packet + bytes;
  if (verdict.kind == BY_VERDICT_CELL) {
    cell = find_cell(grant, cells, packet->slot);
    if (!cell) return by_verdict_drop(BY_EVENT_NO_CELL);
    uint32_t at = (uint32_t)(cell - cells->cells);
    if (cells->floats && packet->type == BY_FRAGMENT_UP && packet->dtype == BY_FRAGMENT_FLOAT32) {
      by_float_sums_take(cells->floats, grant, cell, at, cells->sums[at], packet, now, &verdict);
    } else {
      enum by_cell_action action = by_cell_decide(cell, packet, now, &verdict);
      by_cell_apply(action, cells->sums[at], payload_of(packet), packet->lines, end);
    }
  }
  if (packet->type == BY_FRAGMENT_PROBE && verdict.kind == BY_VERDICT_FORWARD)
    by_probe_write((struct by_probe *)(void *)payload_of(packet), end, packet, grant->place, cell);
  if (verdict.kind != BY_VERDICT_DROP) by_fragment_seal(packet);
  return verdict;
}
