/* Order and races, one piece of the layout at a time.
 *
 * What happens to piece i depends on pieces <= i only: a step goes from low to
 * high and waits for a step before it just as far as that one is below it. So
 * if the steps can be put in an order for each piece alone, (piece, order) is
 * an order of everything, and nothing deadlocks. For a piece:
 *
 *   nodes   the steps of all ranks that cover it
 *   edges   dependency -> step; SEND -> the step that takes the message;
 *           and if a step depends on a SEND that is not `copied`, the taker
 *           too comes before it, for such a SEND may end as late as that.
 *
 * Two uses of the same bytes, one of them a write, must have a path from the
 * end of one to the start of the other; a SEND's read ends with its taker. If
 * that holds, every order of running gives the same, and running the steps
 * once, in any order the edges allow, on symbols shows what it gives. */
#include "check_parts.h"

#define NOTHING UINT32_MAX

static bool covers(const struct by_slot *slot, const struct by_step *step) {
  return slot->width > 1 || (step->first <= slot->piece && slot->piece < step->last);
}

static void add_edge(struct by_slot *slot, uint32_t from_step, uint32_t to_node) {
  if (slot->edge_from) {
    slot->edge_from[slot->n_edges] = slot->node[from_step];
    slot->edge_to[slot->n_edges] = to_node;
  }
  slot->n_edges++;
}

static void add_edges(struct by_slot *slot, uint32_t node) {
  const struct by_check *check = slot->check;
  uint32_t step = slot->steps[node], rank = check->rank_of[step];
  const struct by_step *s = by_check_step(check, step);
  for (uint32_t i = 0; i < s->n_dep; i++) {
    uint32_t before = check->first_step[rank] + check->schedules[rank]->deps[s->dep + i];
    const struct by_step *b = by_check_step(check, before);
    if (!covers(slot, b)) continue;
    add_edge(slot, before, node);
    if (b->kind == BY_STEP_SEND && !b->copied) add_edge(slot, check->taken_by[before], node);
  }
  for (uint32_t i = 0; i < s->n_in; i++) add_edge(slot, check->sent_by[check->first_in[rank] + s->in + i], node);
}

static bool make_edges(struct by_slot *slot) {
  for (uint32_t i = 0; i < slot->n; i++) slot->node[slot->steps[i]] = i;
  for (uint32_t i = 0; i < slot->n; i++) add_edges(slot, i);
  uint32_t n_edges = slot->n_edges;
  slot->edge_from = BY_ARENA_ARRAY(&slot->arena, uint32_t, n_edges);
  slot->edge_to = BY_ARENA_ARRAY(&slot->arena, uint32_t, n_edges);
  slot->first_after = BY_ARENA_ARRAY(&slot->arena, uint32_t, (size_t)slot->n + 2);
  slot->after = BY_ARENA_ARRAY(&slot->arena, uint32_t, n_edges);
  if (!slot->edge_from || !slot->edge_to || !slot->first_after || !slot->after) return false;
  slot->n_edges = 0;
  for (uint32_t i = 0; i < slot->n; i++) add_edges(slot, i);
  uint32_t *first = slot->first_after;
  for (uint32_t i = 0; i < n_edges; i++) first[slot->edge_from[i] + 2]++;
  for (uint32_t i = 2; i < slot->n + 2; i++) first[i] += first[i - 1];
  for (uint32_t i = 0; i < n_edges; i++) slot->after[first[slot->edge_from[i] + 1]++] = slot->edge_to[i];
  return true;
}

enum banyan_status by_check_order(struct by_slot *slot) {
  uint32_t *waits = BY_ARENA_ARRAY(&slot->arena, uint32_t, slot->n), done = 0;
  slot->order = BY_ARENA_ARRAY(&slot->arena, uint32_t, slot->n);
  if (!waits || !slot->order || !make_edges(slot)) return by_check_no_memory();
  for (uint32_t i = 0; i < slot->n_edges; i++) waits[slot->edge_to[i]]++;
  for (uint32_t i = 0; i < slot->n; i++)
    if (!waits[i]) slot->order[done++] = i;
  for (uint32_t i = 0; i < done; i++) {
    uint32_t node = slot->order[i];
    for (uint32_t k = slot->first_after[node]; k < slot->first_after[node + 1]; k++)
      if (!--waits[slot->after[k]]) slot->order[done++] = slot->after[k];
  }
  for (uint32_t i = 0; i < slot->n; i++)
    if (waits[i])
      return by_check_wrong(slot->check, slot->steps[i], "piece %u: deadlock, never gets here", slot->piece);
  return BANYAN_OK;
}

static bool make_reach(struct by_slot *slot) {
  slot->reach_words = (slot->n + 63) / 64;
  slot->reach = BY_ARENA_ARRAY(&slot->arena, uint64_t, (size_t)slot->n * slot->reach_words);
  if (!slot->reach) return false;
  for (uint32_t i = slot->n; i-- > 0;) {
    uint32_t node = slot->order[i];
    uint64_t *own = slot->reach + (size_t)node * slot->reach_words;
    for (uint32_t k = slot->first_after[node]; k < slot->first_after[node + 1]; k++) {
      uint32_t next = slot->after[k];
      const uint64_t *further = slot->reach + (size_t)next * slot->reach_words;
      for (uint32_t w = 0; w < slot->reach_words; w++) own[w] |= further[w];
      own[next / 64] |= (uint64_t)1 << next % 64;
    }
  }
  return true;
}

static bool comes_before(const struct by_slot *slot, uint32_t a, uint32_t b) {
  return slot->reach[(size_t)a * slot->reach_words + b / 64] >> b % 64 & 1;
}

static void add_use(struct by_slot *slot, uint32_t place, uint32_t start, uint32_t end, bool writes) {
  slot->uses[slot->n_uses] =
      (struct by_use){.start = start, .end = end, .next = slot->first_use[place], .writes = writes};
  slot->first_use[place] = slot->n_uses++;
}

static void list_uses(struct by_slot *slot) {
  const struct by_check *check = slot->check;
  for (uint32_t i = 0; i < slot->n; i++) {
    const struct by_step *s = by_slot_step(slot, i);
    uint32_t rank = check->rank_of[slot->steps[i]], piece = by_slot_piece(slot, s), end = i;
    uint32_t from = by_slot_place(slot, rank, s->from, piece), to = by_slot_place(slot, rank, s->to, piece);
    if (s->kind == BY_STEP_COPY && from == to && !s->divide) continue; /* touches nothing */
    if (s->kind == BY_STEP_SEND && !s->copied) end = slot->node[check->taken_by[slot->steps[i]]];
    bool reads = s->kind != BY_STEP_RECEIVE && (s->kind != BY_STEP_REDUCE || s->own != BY_NO_OWN);
    if (reads) add_use(slot, from, i, end, false);
    if (s->kind != BY_STEP_SEND) add_use(slot, to, i, i, true);
  }
}

static enum banyan_status check_pair(struct by_slot *slot, const struct by_use *a, const struct by_use *b) {
  if (a->start == b->start || !(a->writes || b->writes)) return BANYAN_OK;
  if (!slot->reach && !make_reach(slot)) return by_check_no_memory();
  if (comes_before(slot, a->end, b->start) || comes_before(slot, b->end, a->start)) return BANYAN_OK;
  const struct by_use *write = a->writes ? a : b, *other = a->writes ? b : a;
  uint32_t rank = slot->check->rank_of[slot->steps[other->start]];
  return by_check_wrong(slot->check, slot->steps[write->start], "piece %u: may write while step %u still %s it",
                        by_slot_piece(slot, by_slot_step(slot, write->start)),
                        slot->steps[other->start] - slot->check->first_step[rank], other->writes ? "writes" : "reads");
}

enum banyan_status by_check_races(struct by_slot *slot) {
  uint32_t n_places = slot->check->n * BY_BUFFERS * slot->width;
  slot->first_use = BY_ARENA_ARRAY(&slot->arena, uint32_t, n_places);
  slot->uses = BY_ARENA_ARRAY(&slot->arena, struct by_use, 2 * (size_t)slot->n);
  if (!slot->first_use || !slot->uses) return by_check_no_memory();
  for (uint32_t i = 0; i < n_places; i++) slot->first_use[i] = NOTHING;
  list_uses(slot);
  for (uint32_t place = 0; place < n_places; place++)
    for (uint32_t a = slot->first_use[place]; a != NOTHING; a = slot->uses[a].next)
      for (uint32_t b = slot->uses[a].next; b != NOTHING; b = slot->uses[b].next)
        BY_TRY(check_pair(slot, &slot->uses[a], &slot->uses[b]));
  return BANYAN_OK;
}
