#include "schedule_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "check_parts.h"

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

/* Whose bytes a user's buffer holds. */
enum extent { NOTHING, OWN_BLOCK, EVERYTHING, EVERYTHING_AT_ROOT };

static const uint8_t extents[BANYAN_COLLECTIVES][2] = {
    [BANYAN_ALLREDUCE] = {EVERYTHING, EVERYTHING},      [BANYAN_BARRIER] = {EVERYTHING, EVERYTHING},
    [BANYAN_REDUCE] = {EVERYTHING, EVERYTHING_AT_ROOT}, [BANYAN_BROADCAST] = {NOTHING, EVERYTHING},
    [BANYAN_REDUCE_SCATTER] = {EVERYTHING, OWN_BLOCK},  [BANYAN_ALLGATHER] = {OWN_BLOCK, EVERYTHING},
    [BANYAN_GATHER] = {OWN_BLOCK, EVERYTHING_AT_ROOT},  [BANYAN_SCATTER] = {EVERYTHING_AT_ROOT, OWN_BLOCK},
    [BANYAN_ALLTOALL] = {EVERYTHING, EVERYTHING},
};

void by_check_extent(const struct by_check *check, uint32_t rank, enum by_buffer buffer, uint32_t *first,
                     uint32_t *last) {
  enum extent extent = NOTHING;
  const struct by_schedule *schedule = check->schedules[rank];
  if (buffer == BY_BUFFER_TMP) {
    *first = schedule->needs_tmp ? schedule->origin[BY_BUFFER_TMP] : 0;
    *last = schedule->needs_tmp ? schedule->tmp_last : 0;
    return;
  }
  if (rank < check->n_ranks) extent = (enum extent)extents[check->collective][buffer];
  if (extent == EVERYTHING_AT_ROOT) extent = rank == check->root ? EVERYTHING : NOTHING;
  *first = extent == OWN_BLOCK ? rank * check->per_block : 0;
  *last = extent == OWN_BLOCK ? *first + check->per_block : extent == EVERYTHING ? check->n_pieces : 0;
}

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

static enum banyan_status run(struct by_check *check) {
  if (!number(check)) return by_check_no_memory();
  BY_TRY(by_check_links(check));
  BY_TRY(by_check_pieces(check));
  check->in_place = true;
  return has_in_place(check->collective) ? by_check_pieces(check) : BANYAN_OK;
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
  uint32_t n = by_collective_takes_helpers(collective) ? plan->n_vertices : plan->n_ranks, made = 0;
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
