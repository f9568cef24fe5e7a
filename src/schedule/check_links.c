/* What can be seen without running anything: every number within its range,
 * all ranks the same layout, every message with two ends that agree. */
#include <string.h>

#include "check_parts.h"

static enum banyan_status bad(const struct by_check *check, uint32_t rank, const char *what) {
  return by_fail(BANYAN_ERR_PLAN, "%s, rank %u: %s", banyan_collective_name(check->collective), rank, what);
}

static bool same_cuts(const double *a, const double *b, uint32_t n) {
  if (!a || !b) return a == b;
  return memcmp(a, b, ((size_t)n + 1) * sizeof *a) == 0;
}

/* Rising from 0 to 1. */
static bool good_cuts(const double *cut, uint32_t n) {
  if (!cut) return true;
  for (uint32_t i = 0; i < n; i++)
    if (!(cut[i] <= cut[i + 1])) return false;
  return n > 0 && cut[0] == 0 && cut[n] == 1;
}

static enum banyan_status check_layout(const struct by_check *check, uint32_t rank) {
  const struct by_schedule *own = check->schedules[rank], *first = check->schedules[0];
  if (own->n_ranks != first->n_ranks || own->rank != rank || own->collective != first->collective ||
      own->root != first->root || own->n_pieces != first->n_pieces || own->per_block != first->per_block ||
      own->plan_version != first->plan_version)
    return bad(check, rank, "the schedule is of another rank, call or plan");
  if (!own->cut == !own->block_cut) return bad(check, rank, "the layout has shares and blocks, or neither");
  if (own->block_cut && own->n_pieces != own->n_ranks * own->per_block)
    return bad(check, rank, "the blocks' pieces do not sum to all pieces");
  if (check->collective == BANYAN_ALLTOALL && own->per_block != 1)
    return bad(check, rank, "blocks are cut, but they change places");
  if (!same_cuts(own->cut, first->cut, own->n_pieces) || !same_cuts(own->block_cut, first->block_cut, own->per_block))
    return bad(check, rank, "the layout is not that of rank 0");
  if (!good_cuts(own->cut, own->n_pieces) || !good_cuts(own->block_cut, own->per_block))
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
  uint32_t most = s->kind == BY_STEP_RECEIVE ? 1 : BY_SCHEDULE_MOST_IN;
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
      return by_check_wrong(check, step, "is not told when step %u moves", before);
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
      if (check->sent_by[i] == UINT32_MAX) return bad(check, rank, "waits for a message that nobody sends");
  return BANYAN_OK;
}
