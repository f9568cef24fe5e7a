#include "float_sums.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum { PARTS = 8 }; /* for each cell, on average; touched only where terms come */

enum banyan_status by_float_sums_init(struct by_float_sums *sums, uint32_t cells) {
  *sums = (struct by_float_sums){.first = malloc(cells * sizeof *sums->first)};
  if (!by_parts_init(&sums->parts, cells * PARTS, (size_t)BY_FRAGMENT_LINES * BY_FRAGMENT_LINE) || !sums->first)
    return by_fail(BANYAN_ERR_NO_MEMORY, "switch: no memory for float32 in %u cells", cells);
  for (uint32_t i = 0; i < cells; i++) sums->first[i] = BY_NO_PART;
  return by_sum_key_init_open(&sums->key);
}

void by_float_sums_fini(struct by_float_sums *sums) {
  by_parts_fini(&sums->parts);
  free(sums->first);
}

void by_float_sums_clear(struct by_float_sums *sums, uint32_t base, uint32_t count) {
  for (uint32_t i = base; i < base + count; i++) by_parts_clear(&sums->parts, &sums->first[i]);
}

/* A term of one worker, or all that the next adding switch below waits for. */
static bool is_whole(const struct by_fragment *packet, uint32_t place) {
  uint32_t expected = 1;
  for (uint32_t at = BY_FRAGMENT_HOPS - 1; at > place; at--)
    if (at < packet->hops && packet->stack[at].workers) expected = packet->stack[at].workers;
  return by_worker_count(packet->workers) == expected;
}

static size_t bytes_of(const struct by_fragment *packet) {
  return (size_t)packet->lines * BY_FRAGMENT_LINE;
}

/* The payload is still what came: `workers` of the head may be those of the sum already. */
static void keep(struct by_float_sums *sums, uint32_t at, struct by_fragment *packet, uint64_t came, bool first) {
  uint64_t workers = packet->workers;
  if (first) by_parts_clear(&sums->parts, &sums->first[at]);
  packet->workers = came;
  (void)by_parts_add(&sums->parts, &sums->first[at], packet); /* there is room, and nothing of it is there yet */
  packet->workers = workers;
}

static void add_up(struct by_float_sums *sums, uint32_t at, const struct by_fragment *packet, uint64_t *sum) {
  uint32_t *list = &sums->first[at];
  by_parts_fold(&sums->parts, list, ~0ull, BANYAN_FLOAT32, bytes_of(packet) / 4);
  memcpy(sum, by_parts_payload(&sums->parts, *list), bytes_of(packet));
  by_parts_clear(&sums->parts, list);
}

void by_float_sums_take(struct by_float_sums *sums, const struct by_grant *grant, struct by_cell *cell, uint32_t at,
                        uint64_t *sum, struct by_fragment *packet, uint32_t now, struct by_verdict *verdict) {
  if (packet->check != by_sum_check(&sums->key, packet, packet->workers)) {
    *verdict = by_verdict_drop(BY_EVENT_MALFORMED);
    return;
  }
  if (!is_whole(packet, grant->place) || sums->parts.free == BY_NO_PART) {
    verdict->kind = BY_VERDICT_FORWARD;
    (void)by_cell_refuse(packet, BY_FRAGMENT_BUSY, BY_EVENT_CONFLICT, verdict);
    return;
  }
  uint64_t came = packet->workers;
  enum by_cell_action action = by_cell_decide(cell, packet, now, verdict);
  if (action == BY_CELL_LEAVE) return;
  if (action != BY_CELL_EMIT) keep(sums, at, packet, came, action == BY_CELL_STORE);
  if (verdict->kind == BY_VERDICT_DROP) return;
  if (action != BY_CELL_EMIT) add_up(sums, at, packet, sum);
  memcpy(packet + 1, sum, bytes_of(packet));
  packet->check = by_sum_check(&sums->key, packet, packet->workers);
}
