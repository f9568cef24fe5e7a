/* Pieces: how the buffer is cut, and where a call's bytes start and end.
 *
 *   share layout   | group 0    | group 1: t0 | t1 | t2 |      a tree or exchange is one piece, rotated trees n
 *   block layout   | rank 0: g0 | g1 | rank 1: g0 | g1 | ...   every block is cut by the groups' shares
 *
 * Of a class per root, only the trees of the call's root, or of the block's owner, have a piece. */

#include <math.h>

#include "arena.h"
#include "schedule_compile.h"

enum { MAX_PIECES = 1 << 26, CUT_BYTES = 64 };

static bool is_too_wide(const struct by_group *group) {
  for (uint32_t i = 0; i < group->n_radix; i++)
    if (group->radix[i] - 1 > BY_SCHEDULE_MAX_IN) return true;
  return false;
}

/* Only an AllReduce over an exchange that can be folded at once; every other use of an exchange runs over trees, see
 * routes.c. */
bool by_group_exchanges(const struct by_group *group, enum banyan_collective collective) {
  return group->kind == BY_GROUP_EXCHANGE && by_collective_is_everywhere(collective) && !is_too_wide(group);
}

/* Returns the number of pieces of a group in the share layout. For reduce and broadcast an exchange is a single tree.
 */
static uint32_t count_group_trees(const struct by_group *group, enum banyan_collective collective) {
  if (group->kind == BY_GROUP_TREE || by_group_exchanges(group, collective)) return 1;
  return group->kind == BY_GROUP_ROTATED || by_collective_is_everywhere(collective) ? group->n : 1;
}

static enum banyan_status check_pieces(uint64_t n) {
  if (n <= MAX_PIECES) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "the plan cuts the buffer into more than %d pieces", MAX_PIECES);
}

static enum banyan_status count_shares(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  const struct by_class *class_ = compile->class_;
  uint64_t n = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    const struct by_group *group = &class_->groups[i];
    compile->base[i] = (uint32_t)n;
    compile->trees[i] =
        class_->per_root ? by_group_is_of(group, schedule->root) : count_group_trees(group, schedule->collective);
    n += compile->trees[i];
    BY_TRY(check_pieces(n));
  }
  schedule->n_pieces = (uint32_t)n;
  return BANYAN_OK;
}

/* Fills block[r + 1] with the number of rank r's trees in a per-root class. */
static void count_trees(const struct by_class *class_, uint32_t *block) {
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    const struct by_group *group = &class_->groups[i];
    uint32_t root = group->order[group->root];
    block[root + 1]++;
    for (uint32_t t = 0; t < group->n_twigs; t++)
      if (group->twigs[t].parent == root) block[group->twigs[t].child + 1]++;
  }
}

static enum banyan_status count_blocks(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  const struct by_class *class_ = compile->class_;
  uint32_t n = schedule->n_ranks, *block = BY_ARENA_ARRAY(&schedule->arena, uint32_t, (size_t)n + 1);
  bool direct = by_collective(schedule->collective)->direct, per_root = class_->per_root && !direct;
  uint64_t pieces = 0;
  if (!block) return by_schedule_no_memory();
  if (per_root) count_trees(class_, block);
  for (uint32_t r = 0; r < n; r++) {
    pieces += per_root ? block[r + 1] : direct ? 1 : class_->n_groups;
    BY_TRY(check_pieces(pieces));
    block[r + 1] = (uint32_t)pieces;
  }
  schedule->block = block;
  schedule->n_pieces = (uint32_t)pieces;
  return BANYAN_OK;
}

/* Computes the fractions at which the groups start, each cut into trees[i] even parts. No product is added to anything,
 * so no operation can be fused and every machine rounds equally. */
static void fill_cuts(const struct by_class *class_, const uint32_t *trees, double *cut) {
  double start = 0;
  uint32_t piece = 0;
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    uint32_t n = trees[i];
    for (uint32_t t = 0; t < n; t++) {
      double at = start + class_->groups[i].share * t / n;
      cut[piece++] = at < 1 ? at : 1;
    }
    if (n) start += class_->groups[i].share;
  }
  cut[piece] = 1;
}

/* Cuts one piece in the block of a rank that owns the group. */
static void cut_block(const struct by_schedule *schedule, const struct by_group *group, uint32_t rank, double *start,
                      uint32_t *next) {
  schedule->block_cut[next[rank]++] = start[rank] < 1 ? start[rank] : 1;
  start[rank] += group->share;
}

static enum banyan_status fill_block_cuts(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  const struct by_class *class_ = compile->class_;
  uint32_t n = schedule->n_ranks, *next = BY_ARENA_ARRAY(&compile->work, uint32_t, n);
  double *start = BY_ARENA_ARRAY(&compile->work, double, n);
  schedule->block_cut = BY_ARENA_ARRAY(&schedule->arena, double, schedule->n_pieces);
  if (!next || !start || !schedule->block_cut) return by_schedule_no_memory();
  if (by_collective(schedule->collective)->direct) return BANYAN_OK;
  for (uint32_t r = 0; r < n; r++) next[r] = schedule->block[r];
  for (uint32_t i = 0; i < class_->n_groups; i++) {
    const struct by_group *group = &class_->groups[i];
    uint32_t root = class_->per_root ? group->order[group->root] : 0;
    if (class_->per_root) cut_block(schedule, group, root, start, next);
    for (uint32_t t = 0; class_->per_root && t < group->n_twigs; t++)
      if (group->twigs[t].parent == root) cut_block(schedule, group, group->twigs[t].child, start, next);
    for (uint32_t r = 0; !class_->per_root && r < n; r++) cut_block(schedule, group, r, start, next);
  }
  return BANYAN_OK;
}

static void fill_origins(struct by_schedule *schedule) {
  uint32_t own = schedule->block[schedule->rank];
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
  if (compile->work.failed) return by_schedule_no_memory();
  if (!by_collective(schedule->collective)->blocks) {
    BY_TRY(count_shares(compile));
    schedule->cut = BY_ARENA_ARRAY(&schedule->arena, double, (size_t)schedule->n_pieces + 1);
    if (!schedule->cut) return by_schedule_no_memory();
    fill_cuts(class_, compile->trees, schedule->cut);
    return BANYAN_OK;
  }
  BY_TRY(count_blocks(compile));
  BY_TRY(fill_block_cuts(compile));
  fill_origins(schedule);
  return BANYAN_OK;
}

/* Returns the element at a cut. It is a single product, rounded to the nearest: the same on every machine. */
static uint64_t get_cut_element(double cut, uint64_t count) {
  uint64_t at = (uint64_t)rint(cut * (double)count);
  return at < count ? at : count;
}

/* Fills bounds[0 .. n - 1], the starts of n pieces of `count` elements from byte `start` on. A cut moves to the nearest
 * multiple of 64 bytes if both its pieces are that large. Cuts stay in order, since each moves by half that at most. */
static void fill_bounds(const double *cut, uint32_t n, uint64_t start, uint64_t count, size_t element,
                        uint64_t *bounds) {
  uint64_t unit = CUT_BYTES / element, before = 0, at = get_cut_element(cut[0], count);
  if (!unit) unit = 1;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t after = i + 1 < n ? get_cut_element(cut[i + 1], count) : count, placed = at;
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
    uint32_t first = schedule->block[rank];
    fill_bounds(schedule->block_cut + first, schedule->block[rank + 1] - first, start, block, element, bounds + first);
    start += block * element;
  }
  bounds[schedule->n_pieces] = start;
}
