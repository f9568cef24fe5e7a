#include "incoming.h"

enum { AHEAD_PART = 8, LEAD = 2 }; /* parts and multiples of the eager limit */

/* How far the sender may be ahead of what is consumed. What needs no room here waits in the lane: were it to fill a
 * socket's buffer, the kernel would drop some of it and wait 200 ms to have it sent again. */
static uint64_t room_of(const struct by_in *in) {
  const struct by_transfer_options *options = &in->exchange->transfer->options;
  uint64_t lead = LEAD * options->eager_limit;
  return by_in_runs_free(in) && lead > options->window ? lead : options->window;
}

void by_in_consumed(struct by_in *in) {
  struct by_transfer *transfer = in->exchange->transfer;
  if (by_in_is_offered(in)) {
    if (in->consumed < in->length) return;
    in->send_done = true;
    by_link_note(in);
    return;
  }
  if (in->held && in->consumed == in->length) {
    in->send_done = true;
    by_link_note(in);
  }
  if (in->stage && in->arrived == in->consumed && in->arrived == in->length) {
    by_transfer_give_stage(transfer, in->stage);
    in->stage = NULL;
  }
  if (in->granted >= in->length || (in->length <= transfer->options.eager_limit && !in->asked)) return;
  uint64_t room = room_of(in), target = in->consumed + room;
  if (target > in->length) target = in->length;
  if (target <= in->granted || (target < in->length && target - in->granted < room / 2)) return;
  in->granted = target;
  in->send_grant = true;
  by_link_note(in);
}

bool by_in_is_worth_granting_ahead(const struct by_transfer *transfer, uint64_t length) {
  return length >= transfer->options.eager_limit / AHEAD_PART;
}

void by_in_grant_ahead(struct by_in *in) {
  const struct by_transfer *transfer = in->exchange->transfer;
  const struct by_lane *lane = in->link->lane;
  if (!by_in_is_worth_granting_ahead(transfer, in->length) || !lane || lane->ops->reads_memory || !by_in_runs_free(in))
    return;
  if (by_transfer_is_relay(transfer, in->link->process)) return; /* it has no call before there is data for it */
  uint64_t room = room_of(in);
  in->granted = in->length < room ? in->length : room;
  in->send_grant = true;
  by_link_note(in);
}

bool by_in_pull(struct by_in *in, uint64_t at, void *to, size_t n) {
  struct by_lane *lane = in->link->lane;
  if (to && lane && lane->ops->pull(lane, &in->offer, at, to, n)) return true;
  /* What was read so far stays; the rest comes as data. It has to be granted: so far on, the sender does not ask. */
  in->source = BY_IN_NOTHING;
  in->arrived = in->consumed;
  in->send_refuse = true;
  by_link_note(in);
  by_in_consumed(in);
  return false;
}

char *by_in_target(struct by_in *in, uint64_t at, size_t *n) {
  struct by_transfer *transfer = in->exchange->transfer;
  if (!in->adds) {
    if (*n > in->length - at) *n = in->length - at;
    return in->to + at;
  }
  uint64_t ring = transfer->options.window, room = ring - (at - in->consumed);
  uint64_t to_edge = ring - (at & (ring - 1));
  if (to_edge < room) room = to_edge;
  if (!in->stage) in->stage = by_transfer_take_stage(transfer);
  if (*n > room) *n = room;
  return in->stage ? in->stage + (at & (ring - 1)) : NULL;
}

/* ---- messages over several lanes: what comes before its turn */

bool by_in_is_missing(const struct by_in *in, uint64_t from, uint64_t n) {
  const struct by_link *link = in->link;
  uint64_t to = from + n;
  if (from < in->arrived || from > in->length || n > in->length - from) return false;
  if (by_byte_ranges_overlap(&in->ahead, from, to)) return false;
  for (uint32_t i = 0; i < link->n_ends; i++) {
    const struct by_end *end = &link->ends[i];
    if (end->in == in && from < end->at + end->lane->left && end->at < to) return false;
  }
  return true;
}

void by_in_catch_up(struct by_in *in) {
  if (!in->ahead.n) return;
  uint64_t to = by_byte_ranges_take(&in->ahead, in->arrived);
  if (to > in->arrived) in->exchange->transfer->ops->arrived(in, to - in->arrived);
}

static bool note_ahead(struct by_in *in, uint64_t from, uint64_t to) {
  uint32_t room = in->ahead.room;
  bool added = by_byte_ranges_add(&in->ahead, from, to);
  if (in->ahead.room != room) in->exchange->transfer->counters.allocations++;
  return added;
}

void by_in_placed(struct by_in *in, uint64_t at, size_t n) {
  struct by_transfer *transfer = in->exchange->transfer;
  if (at == in->arrived) {
    transfer->ops->arrived(in, n);
    by_in_catch_up(in);
  } else if (!note_ahead(in, at, at + n)) {
    by_transfer_fail(transfer, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for the parts of a message");
  }
}
