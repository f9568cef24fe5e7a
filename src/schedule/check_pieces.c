#include "check_parts.h"

enum banyan_status by_check_no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the checker");
}

uint32_t by_slot_place(const struct by_slot *slot, uint32_t rank, enum by_buffer buffer, uint32_t piece) {
  if (slot->check->in_place && buffer == BY_BUFFER_SEND) {
    uint32_t first, last;
    by_check_extent(slot->check, rank, BY_BUFFER_RECV, &first, &last);
    if (piece >= first && piece < last) buffer = BY_BUFFER_RECV;
  }
  return (rank * BY_BUFFERS + buffer) * slot->width + piece - slot->piece;
}

const struct by_step *by_slot_step(const struct by_slot *slot, uint32_t node) {
  return by_check_step(slot->check, slot->steps[node]);
}

uint32_t by_slot_piece(const struct by_slot *slot, const struct by_step *step) {
  return slot->width > 1 ? step->first : slot->piece;
}

static enum banyan_status check_slot(struct by_slot *slot) {
  BY_TRY(by_check_order(slot));
  BY_TRY(by_check_races(slot));
  return by_check_values(slot);
}

/* Lists for every piece the steps that cover it. */
static bool list_steps(const struct by_check *check, struct by_arena *arena, uint32_t **first, uint32_t **steps) {
  uint32_t n = check->n_pieces, n_steps = check->first_step[check->n];
  *first = BY_ARENA_ARRAY(arena, uint32_t, (size_t)n + 2);
  if (!*first) return false;
  for (uint32_t step = 0; step < n_steps; step++) {
    const struct by_step *s = by_check_step(check, step);
    for (uint32_t piece = s->first; piece < s->last; piece++) (*first)[piece + 2]++;
  }
  for (uint32_t i = 2; i < n + 2; i++) (*first)[i] += (*first)[i - 1];
  *steps = BY_ARENA_ARRAY(arena, uint32_t, (*first)[n + 1]);
  if (!*steps) return false;
  for (uint32_t step = 0; step < n_steps; step++) {
    const struct by_step *s = by_check_step(check, step);
    for (uint32_t piece = s->first; piece < s->last; piece++) (*steps)[(*first)[piece + 1]++] = step;
  }
  return true;
}

static enum banyan_status check_all(const struct by_check *check, struct by_arena *arena) {
  uint32_t *first, *steps, *node = BY_ARENA_ARRAY(arena, uint32_t, check->first_step[check->n]);
  if (!node || !list_steps(check, arena, &first, &steps)) return by_check_no_memory();
  uint32_t width = check->collective == BANYAN_ALLTOALL ? check->n_pieces : 1;
  for (uint32_t piece = 0; piece < check->n_pieces; piece += width) {
    struct by_slot slot = {.check = check,
                           .piece = piece,
                           .width = width,
                           .n = first[piece + width] - first[piece],
                           .steps = steps + first[piece],
                           .node = node};
    by_arena_init(&slot.arena);
    enum banyan_status status = check_slot(&slot);
    by_arena_fini(&slot.arena);
    BY_TRY(status);
  }
  return BANYAN_OK;
}

enum banyan_status by_check_pieces(const struct by_check *check) {
  struct by_arena arena;
  by_arena_init(&arena);
  enum banyan_status status = check_all(check, &arena);
  by_arena_fini(&arena);
  return status;
}
