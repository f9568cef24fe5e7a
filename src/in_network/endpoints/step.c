/* Processes packets as a switch does: adds float32 terms in the order of workers, and checks grants. */
#include "step.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

enum { PARTS = 8 }; /* Average number of parts for each cell; memory is used only when terms arrive. */

enum banyan_status by_float_sums_init(struct by_float_sums *sums, uint32_t cells) {
  *sums = (struct by_float_sums){.first = malloc(cells * sizeof *sums->first)};
  if (!by_parts_init(&sums->parts, NULL, cells * PARTS, (size_t)BY_FRAGMENT_LINES * BY_FRAGMENT_LINE) || !sums->first)
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

static size_t payload_bytes(const struct by_fragment *packet) {
  return (size_t)packet->lines * BY_FRAGMENT_LINE;
}

/* Tells whether a packet is a term of one worker, or everything that the next adding switch below waits for, which may
 * be one group now. */
static bool is_whole(const struct by_fragment *packet, uint32_t place) {
  uint32_t expected = 1;
  for (uint32_t at = BY_FRAGMENT_HOPS - 1; at > place; at--) {
    uint32_t workers = at < packet->hops ? packet->stack[at].workers : 0;
    if (workers) expected = by_hop_kind_of(workers) == BY_HOP_WHOLE ? 1 : by_hop_count(workers);
  }
  return by_worker_count(packet->workers) == expected;
}

/* Adds a float32 term to cell number `at`, whose sum is in `sum`, as by_cell_decide and by_cell_apply do for other
 * types; `verdict` requires the cell. */
static void add_float(struct by_float_sums *sums, const struct by_grant *grant, struct by_cell *cell, uint32_t at,
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
  struct by_worker_set came = by_set_of_packet(packet);
  uint32_t *list = &sums->first[at];
  enum by_cell_action action = by_cell_decide(cell, packet, now, verdict);
  if (action == BY_CELL_LEAVE) return;
  if (action != BY_CELL_EMIT) {
    if (action == BY_CELL_STORE) by_parts_clear(&sums->parts, list);
    /* The header may be the sum's already, while the payload is still the packet's. Memory is available, and nothing of
     * it is in the list yet. */
    (void)by_parts_add(&sums->parts, list, came, packet);
  }
  if (verdict->kind == BY_VERDICT_DROP) return;
  if (action != BY_CELL_EMIT) {
    by_parts_fold(&sums->parts, list, (struct by_worker_set){~0ull, came.group}, BANYAN_FLOAT32,
                  payload_bytes(packet) / 4);
    memcpy(sum, by_parts_payload(&sums->parts, *list), payload_bytes(packet));
    by_parts_clear(&sums->parts, list);
  }
  memcpy(packet + 1, sum, payload_bytes(packet));
  packet->check = by_sum_check(&sums->key, packet, packet->workers);
}

/* A packet without a grant is unchanged, as nobody here can verify its MAC. */
struct by_verdict by_switch_step(const struct by_grant *grant, const struct by_hop_key *key,
                                 struct by_replay_window *windows, const struct by_cells *cells,
                                 struct by_fragment *packet, uint32_t bytes, uint32_t from, uint32_t now) {
  enum by_fragment_fault fault =
      grant ? by_fragment_verify(packet, bytes, key) : by_fragment_check_fields(packet, bytes);
  if (fault != BY_FRAGMENT_SOUND)
    return by_verdict_drop(fault == BY_FRAGMENT_FORGED ? BY_EVENT_FORGED : BY_EVENT_MALFORMED);
  if (!grant) return by_switch_enter(NULL, packet, from);
  return by_switch_pass(grant, key, windows, cells, packet, from, now);
}

struct by_verdict by_switch_pass(const struct by_grant *grant, const struct by_hop_key *key,
                                 struct by_replay_window *windows, const struct by_cells *cells,
                                 struct by_fragment *packet, uint32_t from, uint32_t now) {
  if (key && by_fragment_is_numbered(packet) &&
      !by_replay_take(&windows[by_replay_sender(packet)], by_fragment_sequence(packet)))
    return by_verdict_drop(BY_EVENT_REPLAYED);
  struct by_verdict verdict = by_switch_enter(grant, packet, from);
  struct by_cell *cell = NULL;
  uint64_t *payload = (uint64_t *)(void *)(packet + 1);
  const void *end = (const char *)packet + by_fragment_bytes(packet);
  if (verdict.kind == BY_VERDICT_CELL) {
    uint64_t at = (uint64_t)grant->base + packet->slot;
    if (at >= cells->count) return by_verdict_drop(BY_EVENT_NO_CELL); /* The grant excludes that. */
    cell = &cells->cells[at];
    if (cells->floats && packet->type == BY_FRAGMENT_UP && packet->dtype == BY_FRAGMENT_FLOAT32) {
      add_float(cells->floats, grant, cell, (uint32_t)at, cells->sums[at], packet, now, &verdict);
    } else {
      enum by_cell_action action = by_cell_decide(cell, packet, now, &verdict);
      by_cell_apply(action, cells->sums[at], payload, packet->lines, end);
    }
  }
  if (packet->type == BY_FRAGMENT_PROBE && verdict.kind == BY_VERDICT_FORWARD)
    by_probe_write((struct by_probe_payload *)(void *)payload, end, packet, grant->place, cell);
  if (verdict.kind != BY_VERDICT_DROP) by_fragment_sign(packet, key);
  return verdict;
}

enum banyan_status by_grant_check(const struct by_grant *grant, uint32_t cells, uint32_t groups) {
  if (grant->base > cells || grant->count > cells - grant->base)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u wants cells %u to %llu; there are %u", grant->job, grant->base,
                   (unsigned long long)grant->base + grant->count, cells);
  if (grant->dtype != BY_FRAGMENT_PAIRS && grant->dtype != BY_FRAGMENT_FLOAT32)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "switch: job %u wants cells of type %u; there are pairs of int32 and float32", grant->job,
                   grant->dtype);
  if (grant->place >= BY_FRAGMENT_HOPS)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "switch: job %u has %u switches between this one and the server; at most %d are possible",
                   grant->job, grant->place, BY_FRAGMENT_HOPS - 1);
  if (grant->group >= groups)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: job %u names group %u; groups are numbered 0 to %u", grant->job,
                   grant->group, groups - 1);
  return BANYAN_OK;
}
