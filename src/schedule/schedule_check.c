#include "schedule_check.h"

#include <stdlib.h>

#include "check_parts.h"

static bool has_in_place(enum banyan_collective collective) {
  return collective == BANYAN_ALLREDUCE || collective == BANYAN_BARRIER || collective == BANYAN_REDUCE ||
         collective == BANYAN_ALLGATHER || collective == BANYAN_GATHER;
}

static bool number(struct by_check *check) {
  uint32_t n = check->n;
  check->first_step = BY_ARENA_ARRAY(&check->arena, uint32_t, n + 1);
  check->first_in = BY_ARENA_ARRAY(&check->arena, uint32_t, n + 1);
  if (!check->first_step || !check->first_in) return false;
  for (uint32_t rank = 0; rank < n; rank++) {
    check->first_step[rank + 1] = check->first_step[rank] + check->schedules[rank]->n_steps;
    check->first_in[rank + 1] = check->first_in[rank] + check->schedules[rank]->n_incoming;
  }
  check->taken_by = BY_ARENA_ARRAY(&check->arena, uint32_t, check->first_step[n]);
  check->sent_by = BY_ARENA_ARRAY(&check->arena, uint32_t, check->first_in[n]);
  check->rank_of = BY_ARENA_ARRAY(&check->arena, uint32_t, check->first_step[n]);
  if (!check->taken_by || !check->sent_by || !check->rank_of) return false;
  for (uint32_t rank = 0; rank < n; rank++)
    for (uint32_t step = check->first_step[rank]; step < check->first_step[rank + 1]; step++)
      check->rank_of[step] = rank;
  return true;
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

static enum banyan_status check_pieces_in(const struct by_check *check, struct by_arena *arena) {
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

static enum banyan_status check_pieces(const struct by_check *check) {
  struct by_arena arena;
  by_arena_init(&arena);
  enum banyan_status status = check_pieces_in(check, &arena);
  by_arena_fini(&arena);
  return status;
}

static enum banyan_status run(struct by_check *check) {
  if (!number(check)) return by_check_no_memory();
  BY_TRY(by_check_links(check));
  BY_TRY(check_pieces(check));
  check->in_place = true;
  return has_in_place(check->collective) ? check_pieces(check) : BANYAN_OK;
}

enum banyan_status by_schedule_check_all(struct by_schedule *const *schedules, uint32_t n) {
  if (n == 0 || schedules[0]->n_ranks > n) return by_fail(BANYAN_ERR_ARGUMENT, "there is no schedule to check");
  const struct by_schedule *first = schedules[0];
  struct by_check check = {.schedules = schedules,
                           .n = n,
                           .n_ranks = first->n_ranks,
                           .collective = first->collective,
                           .root = first->root,
                           .n_pieces = first->n_pieces,
                           .per_block = first->per_block};
  by_arena_init(&check.arena);
  enum banyan_status status = run(&check);
  by_arena_fini(&check.arena);
  return status;
}

enum banyan_status by_schedule_check(const struct by_plan *plan, const struct by_class *class_,
                                     enum banyan_collective collective, uint32_t root) {
  uint32_t n = by_collective(collective)->helpers ? plan->n_vertices : plan->n_ranks, made = 0;
  struct by_schedule **schedules = calloc(n ? n : 1, sizeof(struct by_schedule *));
  if (!schedules) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %u schedules", n);
  enum banyan_status status = BANYAN_OK;
  while (made < n && status == BANYAN_OK) {
    status = by_schedule_compile(plan, class_, collective, root, made, &schedules[made]);
    if (status == BANYAN_OK) made++;
  }
  if (status == BANYAN_OK) status = by_schedule_check_all(schedules, n);
  for (uint32_t i = 0; i < made; i++) by_schedule_destroy(schedules[i]);
  free(schedules);
  return status;
}
