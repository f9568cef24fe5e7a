/* Pieces: how the buffer is cut, and where a call's bytes start and end.
 *
 *   share layout   | group 0    | group 1: t0 | t1 | t2 |      a tree or exchange is one piece, rotated trees n
 *   block layout   | rank 0: g0 | g1 | rank 1: g0 | g1 | ...   every block is cut by the groups' shares */
#include <math.h>

#include "schedule_compile.h"

enum { MOST_PIECES = 1 << 26, CUT_BYTES = 64 };

static bool too_wide(const struct by_group *group) {
  for (uint32_t i = 0; i < group->n_radix; i++)
    if (group->radix[i] - 1 > BY_SCHEDULE_MOST_IN) return true;
  return false;
}

bool by_group_exchanges(const struct by_group *group, enum banyan_collective collective) {
  return group->kind == BY_GROUP_EXCHANGE && by_collective_is_everywhere(collective) && !too_wide(group);
}

/* Pieces of a group in the share layout. For reduce and broadcast an exchange is a single tree. */
static uint32_t trees_of(const struct by_group *group, enum banyan_collective collective) {
  if (group->kind == BY_GROUP_TREE || by_group_exchanges(group, collective)) return 1;
  return group->kind == BY_GROUP_ROTATED || by_collective_is_everywhere(collective) ? group->n : 1;
}

static enum banyan_status count_pieces(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  uint64_t n = 0;
  if (by_collective(schedule->collective)->direct)
    n = schedule->n_ranks;
  else if (by_collective(schedule->collective)->blocks)
    n = (uint64_t)schedule->n_ranks * compile->class_->n_groups;
  else
    for (uint32_t i = 0; i < compile->class_->n_groups; i++) {
      compile->base[i] = (uint32_t)n;
      compile->trees[i] = trees_of(&compile->class_->groups[i], schedule->collective);
      n += compile->trees[i];
      if (n > MOST_PIECES) break;
    }
  if (n > MOST_PIECES)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "the plan cuts the buffer into more than %d pieces", MOST_PIECES);
  schedule->n_pieces = (uint32_t)n;
  return BANYAN_OK;
}

/* Fractions at which the groups start, each cut into trees[i] (NULL: 1) even parts. Written so that every machine
 * rounds alike: no product is added to anything, so none can be fused. */
static void fill_cuts(const struct by_class *class_, const uint32_t *trees, double *cut) {
  double start = 0;
  uint32_t piece = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    uint32_t n = trees ? trees[i] : 1;
    for (uint32_t t = 0; t < n; t++) {
      double at = start + class_->groups[i].share * t / n;
      cut[piece++] = at < 1 ? at : 1;
    }
    start += class_->groups[i].share;
  }
  cut[piece] = 1;
}

static void fill_origins(struct by_schedule *schedule) {
  uint32_t own = schedule->rank * schedule->per_block;
  switch (schedule->collective) {
  case BANYAN_REDUCE_SCATTER:
  case BANYAN_SCATTER: schedule->origin[BY_BUFFER_RECV] = own; break;
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: schedule->origin[BY_BUFFER_SEND] = own; break;
  default: break;
  }
}

enum banyan_status by_layout_make(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  const struct by_class *class_ = compile->class_;
  compile->base = BY_ARENA_ARRAY(&compile->work, uint32_t, class_->n_groups);
  compile->trees = BY_ARENA_ARRAY(&compile->work, uint32_t, class_->n_groups);
  if (!compile->base || !compile->trees) return by_schedule_no_memory();
  BY_TRY(count_pieces(compile));
  if (!by_collective(schedule->collective)->blocks) {
    schedule->cut = BY_ARENA_ARRAY(&schedule->arena, double, (size_t)schedule->n_pieces + 1);
    if (!schedule->cut) return by_schedule_no_memory();
    fill_cuts(class_, compile->trees, schedule->cut);
    return BANYAN_OK;
  }
  bool direct = by_collective(schedule->collective)->direct;
  schedule->per_block = direct ? 1 : class_->n_groups;
  schedule->block_cut = BY_ARENA_ARRAY(&schedule->arena, double, (size_t)schedule->per_block + 1);
  if (!schedule->block_cut) return by_schedule_no_memory();
  if (direct)
    schedule->block_cut[1] = 1;
  else
    fill_cuts(class_, NULL, schedule->block_cut);
  fill_origins(schedule);
  return BANYAN_OK;
}

/* The element at which a cut falls. One product, rounded to the nearest: the same on every machine. */
static uint64_t cut_at(double cut, uint64_t count) {
  uint64_t at = (uint64_t)rint(cut * (double)count);
  return at < count ? at : count;
}

/* Fills bounds[0 .. n - 1], the starts of n pieces of `count` elements from byte `start` on. A cut moves to the next
 * multiple of 64 bytes if both its pieces have that much, which leaves cuts in order: each moves by half that. */
static void fill_bounds(const double *cut, uint32_t n, uint64_t start, uint64_t count, size_t element,
                        uint64_t *bounds) {
  uint64_t unit = CUT_BYTES / element, before = 0, at = cut_at(cut[0], count);
  if (!unit) unit = 1;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t after = i + 1 < n ? cut_at(cut[i + 1], count) : count, placed = at;
    if (i > 0 && at - before >= unit && after - at >= unit) placed = (at + unit / 2) / unit * unit;
    bounds[i] = start + placed * element;
    before = at;
    at = after;
  }
}

void by_schedule_bounds(const struct by_schedule *schedule, size_t count, const size_t *counts, size_t element,
                        uint64_t *bounds) {
  if (schedule->cut) {
    fill_bounds(schedule->cut, schedule->n_pieces, 0, count, element, bounds);
    bounds[schedule->n_pieces] = (uint64_t)count * element;
    return;
  }
  uint64_t start = 0;
  for (uint32_t rank = 0; rank < schedule->n_ranks; rank++) {
    uint64_t block = counts ? counts[rank] : count;
    fill_bounds(schedule->block_cut, schedule->per_block, start, block, element,
                bounds + (size_t)rank * schedule->per_block);
    start += block * element;
  }
  bounds[schedule->n_pieces] = start;
}
