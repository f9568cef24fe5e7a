#include "schedule_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "schedule_check_parts.h"

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
  *first = extent == BY_EXTENT_BLOCK ? check->block[rank] : 0;
  *last = extent == BY_EXTENT_BLOCK ? check->block[rank + 1] : extent == BY_EXTENT_ALL ? check->n_pieces : 0;
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

/* --- values --- */

/* Values: the contents of the buffers after the steps of a piece have run on symbols. A symbol is the hash of an
 * expression and the set of ranks whose terms it contains. Equal hashes mean the same order of addition and hence equal
 * bits. */

static uint64_t mix(uint64_t hash, uint64_t with) {
  hash = (hash ^ with) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 32;
}

static uint64_t hash_of_term(uint32_t rank, uint32_t piece) {
  return mix(mix(0x7465726d, rank), piece);
}

static struct by_value *place_at(struct by_slot *slot, uint32_t rank, enum by_buffer buffer, uint32_t piece) {
  return &slot->places[by_slot_place(slot, rank, buffer, piece)];
}

/* Writes what the caller has put into the buffer. */
static bool put_term(struct by_slot *slot, uint32_t rank, enum by_buffer buffer, uint32_t piece) {
  struct by_value *place = place_at(slot, rank, buffer, piece);
  place->terms = BY_ARENA_ARRAY(&slot->arena, uint64_t, slot->words);
  if (!place->terms) return false;
  place->terms[rank / 64] |= (uint64_t)1 << rank % 64;
  place->hash = hash_of_term(rank, piece);
  place->written = true;
  return true;
}

static bool put_terms(struct by_slot *slot) {
  const struct by_check *check = slot->check;
  for (uint32_t rank = 0; rank < check->n; rank++) {
    uint32_t first, last;
    by_check_extent(check, rank, BY_BUFFER_SEND, &first, &last);
    for (uint32_t piece = slot->piece; piece < slot->piece + slot->width; piece++)
      if (piece >= first && piece < last && !put_term(slot, rank, BY_BUFFER_SEND, piece)) return false;
    if (check->collective == BANYAN_BROADCAST && rank == check->root &&
        !put_term(slot, rank, BY_BUFFER_RECV, slot->piece))
      return false;
  }
  return true;
}

/* Adds an operand to a sum. */
static enum banyan_status add(struct by_slot *slot, uint32_t node, struct by_value *sum,
                              const struct by_value *operand) {
  uint32_t step = slot->steps[node];
  if (!operand->terms) return by_check_wrong(slot->check, step, "piece %u: adds what no step has written", slot->piece);
  if (operand->divided) return by_check_wrong(slot->check, step, "piece %u: adds what is divided already", slot->piece);
  for (uint32_t w = 0; w < slot->words; w++) {
    uint64_t twice = sum->terms[w] & operand->terms[w];
    if (twice)
      return by_check_wrong(slot->check, step, "piece %u: adds the term of rank %u twice", slot->piece,
                            w * 64 + (uint32_t)__builtin_ctzll(twice));
    sum->terms[w] |= operand->terms[w];
  }
  sum->hash = mix(sum->hash, operand->hash);
  return BANYAN_OK;
}

static enum banyan_status reduce(struct by_slot *slot, uint32_t node, const struct by_value *own,
                                 struct by_value *sum) {
  const struct by_check *check = slot->check;
  const struct by_step *s = by_slot_step(slot, node);
  const uint32_t *sent_by = &check->sent_by[check->first_in[check->rank_of[slot->steps[node]]] + s->in];
  *sum =
      (struct by_value){.hash = s->n_in, .written = true, .terms = BY_ARENA_ARRAY(&slot->arena, uint64_t, slot->words)};
  if (!sum->terms) return by_check_no_memory();
  for (uint32_t i = 0; i < s->n_in + (s->own != BY_NO_OWN); i++) {
    const struct by_value *operand = i == s->own ? own : &slot->sent[slot->node[sent_by[i - (i > s->own)]]];
    BY_TRY(add(slot, node, sum, operand));
  }
  return BANYAN_OK;
}

static enum banyan_status run_step(struct by_slot *slot, uint32_t node) {
  const struct by_check *check = slot->check;
  const struct by_step *s = by_slot_step(slot, node);
  uint32_t step = slot->steps[node], rank = check->rank_of[step], piece = by_slot_piece(slot, s);
  struct by_value value = {0};
  if (s->kind == BY_STEP_RECEIVE)
    value = slot->sent[slot->node[check->sent_by[check->first_in[rank] + s->in]]];
  else if (s->kind != BY_STEP_REDUCE || s->own != BY_NO_OWN) {
    value = *place_at(slot, rank, s->from, piece);
    if (!value.written) return by_check_wrong(check, step, "piece %u: reads what nobody has written", piece);
  }
  if (s->kind == BY_STEP_SEND) {
    slot->sent[node] = value;
    return BANYAN_OK;
  }
  if (s->kind == BY_STEP_REDUCE) {
    struct by_value own = value;
    BY_TRY(reduce(slot, node, &own, &value));
  }
  if (s->divide) {
    if (value.divided) return by_check_wrong(check, step, "piece %u: divides twice", piece);
    value.divided = true;
  }
  *place_at(slot, rank, s->to, piece) = value;
  return BANYAN_OK;
}

static enum banyan_status wrong_result(const struct by_slot *slot, uint32_t rank, uint32_t piece, const char *what) {
  return by_fail(BANYAN_ERR_PLAN, "%s, rank %u, piece %u: the result %s%s",
                 banyan_collective_name(slot->check->collective), rank, piece, what,
                 slot->check->in_place ? " (in place)" : "");
}

static enum banyan_status check_sum(const struct by_slot *slot, uint32_t rank, const struct by_value *value,
                                    uint64_t *hash) {
  for (uint32_t other = 0; other < slot->check->n_ranks; other++)
    if (!(value->terms[other / 64] >> other % 64 & 1))
      return by_fail(BANYAN_ERR_PLAN, "%s, rank %u, piece %u: the result lacks the term of rank %u",
                     banyan_collective_name(slot->check->collective), rank, slot->piece, other);
  if (value->divided != (slot->check->n_ranks > 1)) return wrong_result(slot, rank, slot->piece, "is not divided");
  if (*hash && *hash != value->hash)
    return wrong_result(slot, rank, slot->piece, "is added in another order than on other ranks");
  *hash = value->hash;
  return BANYAN_OK;
}

/* Returns the rank whose block must end in a rank's piece, for collectives that add nothing. */
static uint64_t expected_block(const struct by_check *check, uint32_t rank, uint32_t piece) {
  uint32_t owner = 0;
  switch (check->collective) {
  case BANYAN_BROADCAST:
  case BANYAN_SCATTER: return hash_of_term(check->root, piece);
  case BANYAN_ALLTOALL: return hash_of_term(piece, rank);
  default:
    while (check->block[owner + 1] <= piece) owner++;
    return hash_of_term(owner, piece);
  }
}

static enum banyan_status check_results(struct by_slot *slot) {
  const struct by_check *check = slot->check;
  uint64_t hash = 0;
  for (uint32_t rank = 0; rank < check->n; rank++) {
    uint32_t first, last;
    by_check_extent(check, rank, BY_BUFFER_RECV, &first, &last);
    for (uint32_t piece = slot->piece; piece < slot->piece + slot->width; piece++) {
      if (piece < first || piece >= last) continue;
      const struct by_value *value = place_at(slot, rank, BY_BUFFER_RECV, piece);
      if (!value->written) return wrong_result(slot, rank, piece, "is missing");
      if (by_collective(check->collective)->up)
        BY_TRY(check_sum(slot, rank, value, &hash));
      else if (value->hash != expected_block(check, rank, piece) || value->divided)
        return wrong_result(slot, rank, piece, "is another block");
    }
  }
  return BANYAN_OK;
}

/* Runs the steps on symbols, in the order that was found. */
static enum banyan_status check_values(struct by_slot *slot) {
  uint32_t n_places = slot->check->n * BY_BUFFERS * slot->width;
  slot->words = (slot->check->n + 63) / 64;
  slot->places = BY_ARENA_ARRAY(&slot->arena, struct by_value, n_places);
  slot->sent = BY_ARENA_ARRAY(&slot->arena, struct by_value, slot->n);
  if (!slot->places || !slot->sent || !put_terms(slot)) return by_check_no_memory();
  for (uint32_t i = 0; i < slot->n; i++) BY_TRY(run_step(slot, slot->order[i]));
  return check_results(slot);
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

static enum banyan_status check_slot(struct by_slot *slot) {
  BY_TRY(by_check_order(slot));
  BY_TRY(by_check_races(slot));
  return check_values(slot);
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
                           .block = first->block};
  by_arena_init(&check.arena);
  enum banyan_status status = run(&check);
  by_arena_fini(&check.arena);
  return status;
}

static enum banyan_status check_part(const struct by_plan *plan, const struct by_class *class_, uint32_t part,
                                     enum banyan_collective collective, uint32_t root) {
  uint32_t n = by_collective(collective)->helpers ? plan->n_vertices : plan->n_ranks, made = 0;
  struct by_schedule **schedules = calloc(n ? n : 1, sizeof(struct by_schedule *));
  if (!schedules) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %u schedules", n);
  enum banyan_status status = BANYAN_OK;
  while (made < n && status == BANYAN_OK) {
    status = by_schedule_compile_part(plan, class_, part, plan->version, collective, root, made, &schedules[made]);
    if (status == BANYAN_OK) made++;
  }
  if (status == BANYAN_OK) status = by_schedule_check_all(schedules, n);
  for (uint32_t i = 0; i < made; i++) by_schedule_destroy(schedules[i]);
  free(schedules);
  return status;
}

enum banyan_status by_schedule_check(const struct by_plan *plan, const struct by_class *class_,
                                     enum banyan_collective collective, uint32_t root) {
  BY_TRY(check_part(plan, class_, BY_PART_ALL, collective, root));
  uint32_t part = by_schedule_part(plan, class_, collective, UINT64_MAX);
  return part == BY_PART_ALL ? BANYAN_OK : check_part(plan, class_, part, collective, root);
}
