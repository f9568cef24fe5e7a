/* Checks that need no execution. Every number is within its range, all ranks have the same layout, and both ends of
 * every message agree. There is an order of all steps, without races. */
#include <string.h>

#include "schedule_check_parts.h"

static enum banyan_status bad(const struct by_check *check, uint32_t rank, const char *what) {
  return by_fail(BANYAN_ERR_PLAN, "%s, rank %u: %s", banyan_collective_name(check->collective), rank, what);
}

static bool same_cuts(const double *a, const double *b, uint32_t n) {
  if (!a || !b) return a == b;
  return memcmp(a, b, ((size_t)n + 1) * sizeof *a) == 0;
}

/* Whether the cuts rise from 0 to 1. */
static bool good_cuts(const double *cut, uint32_t n) {
  if (!cut) return true;
  for (uint32_t i = 0; i < n; i++)
    if (!(cut[i] <= cut[i + 1])) return false;
  return n > 0 && cut[0] == 0 && cut[n] == 1;
}

/* Whether the cuts of every block rise from 0 to at most 1. */
static bool good_block_cuts(const struct by_schedule *schedule) {
  for (uint32_t r = 0; schedule->block && r < schedule->n_ranks; r++) {
    uint32_t first = schedule->block[r], last = schedule->block[r + 1];
    if (first >= last || schedule->block_cut[first] != 0 || !(schedule->block_cut[last - 1] <= 1)) return false;
    for (uint32_t p = first + 1; p < last; p++)
      if (!(schedule->block_cut[p - 1] <= schedule->block_cut[p])) return false;
  }
  return true;
}

static bool same_blocks(const struct by_schedule *a, const struct by_schedule *b) {
  if (!a->block || !b->block) return a->block == b->block;
  return memcmp(a->block, b->block, (a->n_ranks + 1) * sizeof *a->block) == 0 &&
         memcmp(a->block_cut, b->block_cut, a->n_pieces * sizeof *a->block_cut) == 0;
}

static enum banyan_status check_layout(const struct by_check *check, uint32_t rank) {
  const struct by_schedule *own = check->schedules[rank], *first = check->schedules[0];
  if (own->n_ranks != first->n_ranks || own->rank != rank || own->collective != first->collective ||
      own->root != first->root || own->n_pieces != first->n_pieces || own->plan_version != first->plan_version)
    return bad(check, rank, "the schedule is of another rank, call or plan");
  if (!own->cut == !own->block_cut) return bad(check, rank, "the layout has shares and blocks, or neither");
  if (own->block_cut && own->n_pieces != own->block[own->n_ranks])
    return bad(check, rank, "the blocks' pieces do not sum to all pieces");
  if (check->collective == BANYAN_ALLTOALL && own->n_pieces != own->n_ranks)
    return bad(check, rank, "blocks are cut, but they change places");
  if (!same_cuts(own->cut, first->cut, own->n_pieces) || !same_blocks(own, first))
    return bad(check, rank, "the layout is not that of rank 0");
  if (!good_cuts(own->cut, own->n_pieces) || !good_block_cuts(own))
    return bad(check, rank, "the cuts do not rise from 0 to 1");
  for (uint32_t buffer = 0; buffer < BY_BUFFERS; buffer++) {
    uint32_t start, end;
    by_check_extent(check, rank, (enum by_buffer)buffer, &start, &end);
    if (end && own->origin[buffer] != start) return bad(check, rank, "a buffer's origin is not its first piece");
  }
  return BANYAN_OK;
}

static enum banyan_status check_peers(const struct by_check *check, uint32_t rank) {
  const struct by_schedule *schedule = check->schedules[rank];
  uint32_t n_in = 0;
  for (uint32_t i = 0; i < schedule->n_peers; i++) {
    const struct by_peer *peer = &schedule->peers[i];
    if (peer->rank >= check->n || peer->rank == rank || (i && peer->rank <= peer[-1].rank))
      return bad(check, rank, "peers are not ascending ranks");
    if (peer->first_in != n_in || peer->n_in > schedule->n_incoming - n_in)
      return bad(check, rank, "the peers' messages do not follow each other");
    for (uint32_t tag = 0; tag < peer->n_in; tag++) {
      uint32_t in = schedule->lookup[n_in + tag];
      if (in >= schedule->n_incoming || schedule->incoming[in].peer != i || schedule->incoming[in].tag != tag)
        return bad(check, rank, "the lookup finds another message");
    }
    n_in += peer->n_in;
  }
  if (n_in != schedule->n_incoming) return bad(check, rank, "a message comes from no peer");
  return BANYAN_OK;
}

/* Whether a step may use pieces of this buffer. */
static bool within(const struct by_check *check, uint32_t rank, uint32_t buffer, const struct by_step *step) {
  if (buffer >= BY_BUFFERS) return false;
  uint32_t start, end;
  by_check_extent(check, rank, (enum by_buffer)buffer, &start, &end);
  return step->first >= start && step->last <= end;
}

static enum banyan_status check_buffers(const struct by_check *check, uint32_t step) {
  const struct by_step *s = by_check_step(check, step);
  uint32_t rank = check->rank_of[step];
  if (s->kind > BY_STEP_COPY) return by_check_wrong(check, step, "there is no such kind of step");
  if (s->first >= s->last || s->last > check->n_pieces || s->from_first != s->first)
    return by_check_wrong(check, step, "pieces %u to %u of %u", s->first, s->last, check->n_pieces);
  bool reads = s->kind != BY_STEP_RECEIVE && (s->kind != BY_STEP_REDUCE || s->own != BY_NO_OWN);
  if (reads && !within(check, rank, s->from, s)) return by_check_wrong(check, step, "reads outside of the buffer");
  if (s->kind != BY_STEP_SEND && (s->to == BY_BUFFER_SEND || !within(check, rank, s->to, s)))
    return by_check_wrong(check, step, "writes outside of the buffer");
  if (s->divide && s->kind != BY_STEP_REDUCE && s->kind != BY_STEP_COPY)
    return by_check_wrong(check, step, "cannot divide");
  return BANYAN_OK;
}

static enum banyan_status check_takes(const struct by_check *check, uint32_t step, uint32_t *n_taken) {
  const struct by_step *s = by_check_step(check, step);
  uint32_t rank = check->rank_of[step];
  const struct by_schedule *schedule = check->schedules[rank];
  bool takes = s->kind == BY_STEP_RECEIVE || s->kind == BY_STEP_REDUCE;
  if (!takes) return s->n_in ? by_check_wrong(check, step, "cannot take messages") : BANYAN_OK;
  uint32_t most = s->kind == BY_STEP_RECEIVE ? 1 : BY_SCHEDULE_MAX_IN;
  if (s->n_in < 1 || s->n_in > most || s->in > schedule->n_incoming || s->n_in > schedule->n_incoming - s->in)
    return by_check_wrong(check, step, "takes %u messages", s->n_in);
  if (s->kind == BY_STEP_REDUCE && s->own > s->n_in && s->own != BY_NO_OWN)
    return by_check_wrong(check, step, "its own operand has place %u", s->own);
  for (uint32_t i = s->in; i < s->in + s->n_in; i++) {
    const struct by_incoming *in = &schedule->incoming[i];
    if (in->step != step - check->first_step[rank])
      return by_check_wrong(check, step, "takes a message that is for another step");
    if (in->first != s->first || in->last != s->last)
      return by_check_wrong(check, step, "takes a message of other pieces");
  }
  *n_taken += s->n_in;
  return BANYAN_OK;
}

static bool has_next(const struct by_schedule *schedule, const struct by_step *step, uint32_t after) {
  for (uint32_t i = 0; i < step->n_next; i++)
    if (schedule->nexts[step->next + i] == after) return true;
  return false;
}

static enum banyan_status check_order(const struct by_check *check, uint32_t step) {
  const struct by_step *s = by_check_step(check, step);
  const struct by_schedule *schedule = check->schedules[check->rank_of[step]];
  uint32_t index = step - check->first_step[check->rank_of[step]];
  if (s->dep > schedule->n_deps || s->n_dep > schedule->n_deps - s->dep || s->next > schedule->n_nexts ||
      s->n_next > schedule->n_nexts - s->next)
    return by_check_wrong(check, step, "its dependencies are outside of the list");
  for (uint32_t i = 0; i < s->n_dep; i++) {
    uint32_t before = schedule->deps[s->dep + i];
    if (before >= index) return by_check_wrong(check, step, "depends on step %u, which comes later", before);
    if (!has_next(schedule, &schedule->steps[before], index))
      return by_check_wrong(check, step, "is not notified when step %u progresses", before);
  }
  return BANYAN_OK;
}

static enum banyan_status check_steps(const struct by_check *check, uint32_t rank) {
  const struct by_schedule *schedule = check->schedules[rank];
  uint32_t n_taken = 0, n_sent = 0;
  for (uint32_t i = 0; i < schedule->n_peers; i++) n_sent += schedule->peers[i].n_out;
  for (uint32_t step = check->first_step[rank]; step < check->first_step[rank + 1]; step++) {
    n_sent -= by_check_step(check, step)->kind == BY_STEP_SEND;
    BY_TRY(check_buffers(check, step));
    BY_TRY(check_takes(check, step, &n_taken));
    BY_TRY(check_order(check, step));
  }
  if (n_sent) return bad(check, rank, "messages are announced that no step sends, or the reverse");
  if (n_taken != schedule->n_incoming) return bad(check, rank, "a message is taken by no step or by two");
  return BANYAN_OK;
}

static const struct by_peer *find_peer(const struct by_schedule *schedule, uint32_t rank) {
  uint32_t low = 0, high = schedule->n_peers;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (schedule->peers[middle].rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low < schedule->n_peers && schedule->peers[low].rank == rank ? &schedule->peers[low] : NULL;
}

/* Joins a SEND with the step at the other end. */
static enum banyan_status join(struct by_check *check, uint32_t step) {
  const struct by_step *s = by_check_step(check, step);
  uint32_t rank = check->rank_of[step];
  const struct by_schedule *here = check->schedules[rank];
  if (s->peer >= here->n_peers || s->tag >= here->peers[s->peer].n_out)
    return by_check_wrong(check, step, "sends message %u to peer %u, which is not announced", s->tag, s->peer);
  uint32_t to = here->peers[s->peer].rank;
  const struct by_schedule *there = check->schedules[to];
  const struct by_peer *peer = find_peer(there, rank);
  if (!peer || s->tag >= peer->n_in)
    return by_check_wrong(check, step, "sends message %u to rank %u, which does not expect it", s->tag, to);
  uint32_t in = there->lookup[peer->first_in + s->tag];
  const struct by_incoming *incoming = &there->incoming[in];
  bool alike = incoming->first == s->first && incoming->last == s->last;
  if (check->collective == BANYAN_ALLTOALL)
    alike = s->first == to && s->last == to + 1 && incoming->first == rank && incoming->last == rank + 1;
  if (!alike) return by_check_wrong(check, step, "sends pieces to rank %u that are others there", to);
  uint32_t *sent_by = &check->sent_by[check->first_in[to] + in];
  if (*sent_by != UINT32_MAX) return by_check_wrong(check, step, "sends message %u to rank %u again", s->tag, to);
  *sent_by = step;
  check->taken_by[step] = check->first_step[to] + incoming->step;
  return BANYAN_OK;
}

enum banyan_status by_check_links(struct by_check *check) {
  for (uint32_t rank = 0; rank < check->n; rank++) {
    BY_TRY(check_layout(check, rank));
    BY_TRY(check_peers(check, rank));
    BY_TRY(check_steps(check, rank));
  }
  for (uint32_t i = 0; i < check->first_in[check->n]; i++) check->sent_by[i] = UINT32_MAX;
  for (uint32_t step = 0; step < check->first_step[check->n]; step++) {
    check->taken_by[step] = UINT32_MAX;
    if (by_check_step(check, step)->kind == BY_STEP_SEND) BY_TRY(join(check, step));
  }
  for (uint32_t rank = 0; rank < check->n; rank++)
    for (uint32_t i = check->first_in[rank]; i < check->first_in[rank + 1]; i++)
      if (check->sent_by[i] == UINT32_MAX) return bad(check, rank, "waits for a message that no rank sends");
  return BANYAN_OK;
}

/* --- order --- */

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
    if (s->kind == BY_STEP_COPY && from == to && !s->divide) continue; /* touches no bytes */
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
