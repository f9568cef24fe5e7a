/* Compiles schedules: it calls the stages, merges and numbers messages, and copies the result into the schedule. */
#include <stdlib.h>
#include <string.h>

#include "schedule_compile.h"

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
  BY_TRY(by_layout_make(compile));
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
  by_arena_init(&schedule->arena);
  struct by_compile compile = {.plan = plan, .class_ = class_, .part = part, .schedule = schedule};
  by_arena_init(&compile.work);
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
  enum { LARGE = 64 << 10 }; /* the bytes of a block's part in a tree */
  bool sums = by_collective(collective)->blocks && by_collective(collective)->up;
  return sums && bytes / LARGE >= (uint64_t)plan->n_ranks * class_->n_groups ? BY_PART_APART : BY_PART_ALL;
}

void by_schedule_destroy(struct by_schedule *schedule) {
  if (!schedule) return;
  by_arena_fini(&schedule->arena);
  free(schedule);
}
