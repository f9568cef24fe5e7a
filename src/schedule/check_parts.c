#include "check_parts.h"

#include <stdarg.h>
#include <stdio.h>

enum banyan_status by_check_no_memory(void) {
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the checker");
}

enum banyan_status by_check_wrong(const struct by_check *check, uint32_t step, const char *format, ...) {
  char reason[200];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  uint32_t rank = check->rank_of[step];
  return by_fail(BANYAN_ERR_PLAN, "%s, rank %u, step %u: %s%s", banyan_collective_name(check->collective), rank,
                 step - check->first_step[rank], reason, check->in_place ? " (in place)" : "");
}

const struct by_step *by_check_step(const struct by_check *check, uint32_t step) {
  uint32_t rank = check->rank_of[step];
  return &check->schedules[rank]->steps[step - check->first_step[rank]];
}

void by_check_extent(const struct by_check *check, uint32_t rank, enum by_buffer buffer, uint32_t *first,
                     uint32_t *last) {
  enum by_extent extent = BY_EXTENT_NOTHING;
  const struct by_schedule *schedule = check->schedules[rank];
  if (buffer == BY_BUFFER_TMP) {
    *first = schedule->needs_tmp ? schedule->origin[BY_BUFFER_TMP] : 0;
    *last = schedule->needs_tmp ? schedule->tmp_last : 0;
    return;
  }
  const struct by_collective *collective = by_collective(check->collective);
  if (rank < check->n_ranks) extent = buffer == BY_BUFFER_SEND ? collective->send : collective->recv;
  if (extent == BY_EXTENT_ALL_AT_ROOT) extent = rank == check->root ? BY_EXTENT_ALL : BY_EXTENT_NOTHING;
  *first = extent == BY_EXTENT_BLOCK ? rank * check->per_block : 0;
  *last = extent == BY_EXTENT_BLOCK ? *first + check->per_block : extent == BY_EXTENT_ALL ? check->n_pieces : 0;
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
