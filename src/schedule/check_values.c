/* Values: what stands where after the steps of a piece have run on symbols. A
 * symbol is the hash of an expression and the set of ranks whose terms it has:
 * equal hashes mean added alike, hence equal bits. */
#include "check_parts.h"

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

/* What the caller put there. */
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
  if (!operand->terms) return by_check_wrong(slot->check, step, "piece %u: adds what nobody wrote", slot->piece);
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

/* Whose block ends in a rank's piece, where nothing is added. */
static uint64_t expected_block(const struct by_check *check, uint32_t rank, uint32_t piece) {
  switch (check->collective) {
  case BANYAN_BROADCAST:
  case BANYAN_SCATTER: return hash_of_term(check->root, piece);
  case BANYAN_ALLTOALL: return hash_of_term(piece, rank);
  default: return hash_of_term(piece / check->per_block, piece);
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

enum banyan_status by_check_values(struct by_slot *slot) {
  uint32_t n_places = slot->check->n * BY_BUFFERS * slot->width;
  slot->words = (slot->check->n + 63) / 64;
  slot->places = BY_ARENA_ARRAY(&slot->arena, struct by_value, n_places);
  slot->sent = BY_ARENA_ARRAY(&slot->arena, struct by_value, slot->n);
  if (!slot->places || !slot->sent || !put_terms(slot)) return by_check_no_memory();
  for (uint32_t i = 0; i < slot->n; i++) BY_TRY(run_step(slot, slot->order[i]));
  return check_results(slot);
}
