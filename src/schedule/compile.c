/* Compiles schedules: it cuts buffers, calls the stages, merges and numbers messages, and copies the result into the
 * schedule. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "schedule_compile.h"

/* --- The layout. --- */

/* A layout says how the buffer is cut into pieces, and where a call's bytes start and end.
 *
 *   share layout   | group 0    | group 1: t0 | t1 | t2 |      a tree or exchange is one piece, rotated trees n
 *   block layout   | rank 0: g0 | g1 | rank 1: g0 | g1 | ...   every block is cut by the groups' shares
 *
 * Of a class per root, only the trees of the call's root, or of the block's owner, have a piece. */

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

/* Makes pieces, cuts and origins. */
static enum banyan_status make_layout(struct by_compile *compile) {
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

/* --- Tags. --- */

/* Orders messages. Both ends of a pair list the same edges and sort them equally, so a message's index in that order is
 * its tag, and no rank needs another rank's schedule. */

static int compare_tags(const void *left, const void *right) {
  const struct by_message *a = left, *b = right;
  const uint32_t x[] = {a->peer, a->out, a->phase, a->level, a->group, a->first};
  const uint32_t y[] = {b->peer, b->out, b->phase, b->level, b->group, b->first};
  return by_compare_keys(x, y, sizeof x / sizeof *x);
}

static void merge_messages(struct by_compile *compile) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    const struct by_message *message = &compile->messages[i];
    if (n && by_message_continues(compile, &compile->messages[n - 1], message))
      compile->messages[n - 1].last = message->last;
    else
      compile->messages[n++] = *message;
  }
  compile->n_messages = n;
}

/* Sorts the messages by peer, incoming ones first, and merges and numbers them; fills in the schedule's peers. */
static enum banyan_status assign_tags(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  if (compile->n_messages > 1) qsort(compile->messages, compile->n_messages, sizeof *compile->messages, compare_tags);
  merge_messages(compile);
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    struct by_message *message = &compile->messages[i];
    bool new_peer = i == 0 || message[-1].peer != message->peer;
    message->tag = !new_peer && message[-1].out == message->out ? message[-1].tag + 1 : 0;
    message->peer_index = new_peer ? schedule->n_peers++ : message[-1].peer_index;
    if (!message->out) schedule->n_incoming++;
  }
  schedule->peers = BY_ARENA_ARRAY(&schedule->arena, struct by_peer, schedule->n_peers);
  if (!schedule->peers) return by_schedule_no_memory();
  uint32_t first_in = 0;
  for (uint32_t i = 0; i < compile->n_messages; i++) {
    const struct by_message *message = &compile->messages[i];
    struct by_peer *peer = &schedule->peers[message->peer_index];
    peer->rank = message->peer;
    if (!peer->n_out && !peer->n_in) peer->first_in = first_in;
    if (message->out)
      peer->n_out++;
    else {
      peer->n_in++;
      first_in++;
    }
  }
  return BANYAN_OK;
}

static enum banyan_status check_arguments(const struct by_plan *plan, enum banyan_collective collective, uint32_t root,
                                          uint32_t rank) {
  if (!by_collective(collective)->up && !by_collective(collective)->down && !by_collective(collective)->direct)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s has no schedule by a plan", banyan_collective_name(collective));
  bool helper = rank >= plan->n_ranks;
  if (rank >= plan->n_vertices)
    return by_fail(BANYAN_ERR_ARGUMENT, "rank is %u, must be below %u", rank, plan->n_ranks);
  if (helper && !by_collective(collective)->helpers)
    return by_fail(BANYAN_ERR_ARGUMENT, "helpers have no part in %s", banyan_collective_name(collective));
  if (by_collective(collective)->rooted && root >= plan->n_ranks)
    return by_fail(BANYAN_ERR_ARGUMENT, "root is %u, must be below %u", root, plan->n_ranks);
  return BANYAN_OK;
}

/* Fills in the reverse of deps. */
static void fill_nexts(struct by_schedule *schedule) {
  for (uint32_t i = 0; i < schedule->n_deps; i++) schedule->steps[schedule->deps[i]].n_next++;
  uint32_t next = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    schedule->steps[i].next = next;
    next += schedule->steps[i].n_next;
    schedule->steps[i].n_next = 0;
  }
  for (uint32_t i = 0; i < schedule->n_steps; i++)
    for (uint32_t k = 0; k < schedule->steps[i].n_dep; k++) {
      struct by_step *before = &schedule->steps[schedule->deps[schedule->steps[i].dep + k]];
      schedule->nexts[before->next + before->n_next++] = i;
    }
}

/* Finds the pieces for which TMP needs memory. */
static void find_scratch(struct by_schedule *schedule) {
  uint32_t first = UINT32_MAX, last = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    bool reads = step->from == BY_BUFFER_TMP && step->kind != BY_STEP_RECEIVE;
    if (!reads && step->to != BY_BUFFER_TMP) continue;
    if (step->first < first) first = step->first;
    if (step->last > last) last = step->last;
  }
  schedule->needs_tmp = last > 0;
  schedule->origin[BY_BUFFER_TMP] = last ? first : 0;
  schedule->tmp_last = last;
}

static enum banyan_status copy_steps(struct by_compile *compile) {
  struct by_schedule *schedule = compile->schedule;
  struct by_arena *arena = &schedule->arena;
  schedule->n_nexts = schedule->n_deps;
  schedule->steps = BY_ARENA_ARRAY(arena, struct by_step, schedule->n_steps);
  schedule->lookup = BY_ARENA_ARRAY(arena, uint32_t, schedule->n_incoming);
  schedule->deps = BY_ARENA_ARRAY(arena, uint32_t, schedule->n_deps);
  schedule->nexts = BY_ARENA_ARRAY(arena, uint32_t, schedule->n_nexts);
  if (arena->failed) return by_schedule_no_memory();
  memcpy(schedule->steps, compile->steps, schedule->n_steps * sizeof *schedule->steps);
  if (schedule->n_deps) memcpy(schedule->deps, compile->deps, schedule->n_deps * sizeof *schedule->deps);
  find_scratch(schedule);
  for (uint32_t i = 0, n = 0; i < compile->n_messages; i++)
    if (!compile->messages[i].out) schedule->lookup[n++] = compile->messages[i].incoming;
  fill_nexts(schedule);
  return BANYAN_OK;
}

static enum banyan_status compile_steps(struct by_compile *compile) {
  BY_TRY(make_layout(compile));
  BY_TRY(by_routes_list(compile));
  if (compile->failed) return by_schedule_no_memory();
  BY_TRY(assign_tags(compile));
  BY_TRY(by_steps_build(compile));
  return copy_steps(compile);
}

enum banyan_status by_schedule_compile_part(const struct by_plan *plan, const struct by_class *class_, uint32_t part,
                                            uint32_t version, enum banyan_collective collective, uint32_t root,
                                            uint32_t rank, struct by_schedule **out) {
  BY_TRY(check_arguments(plan, collective, root, rank));
  struct by_schedule *schedule = calloc(1, sizeof *schedule);
  if (!schedule) return by_schedule_no_memory();
  *schedule = (struct by_schedule){.collective = collective,
                                   .n_ranks = plan->n_ranks,
                                   .rank = rank,
                                   .root = by_collective(collective)->rooted ? root : 0,
                                   .plan_version = version};
  struct by_compile compile = {.plan = plan, .class_ = class_, .part = part, .schedule = schedule};
  enum banyan_status status = compile_steps(&compile);
  by_arena_fini(&compile.work);
  free(compile.messages);
  free(compile.deps);
  if (status != BANYAN_OK) {
    by_schedule_destroy(schedule);
    return status;
  }
  *out = schedule;
  return BANYAN_OK;
}

enum banyan_status by_schedule_compile(const struct by_plan *plan, const struct by_class *class_,
                                       enum banyan_collective collective, uint32_t root, uint32_t rank,
                                       struct by_schedule **out) {
  return by_schedule_compile_part(plan, class_, BY_PART_ALL, plan->version, collective, root, rank, out);
}

uint32_t by_schedule_part(const struct by_plan *plan, const struct by_class *class_, enum banyan_collective collective,
                          uint64_t bytes) {
  enum { LARGE = 64 << 10 }; /* Bytes of a block's part in a tree from which on a message of its own costs little. */
  bool sums = by_collective(collective)->blocks && by_collective(collective)->up;
  return sums && bytes / LARGE >= (uint64_t)plan->n_ranks * class_->n_groups ? BY_PART_APART : BY_PART_ALL;
}

void by_schedule_destroy(struct by_schedule *schedule) {
  if (!schedule) return;
  by_arena_fini(&schedule->arena);
  free(schedule);
}
