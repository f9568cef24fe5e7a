/* Receives frames: finds their messages, stores or adds their payload, and handles grants and offers. */
#include "deliver.h"

#include <stdio.h>
#include <string.h>

#include "reduce.h"

enum { FRAME_BYTES = sizeof(struct by_frame), FUTURE_CONTROL = 1 << 16, STREAM_FROM = 4 << 20 };
enum { AHEAD_PART = 8, LEAD = 2 }; /* AHEAD_PART divides, and LEAD multiplies, the eager limit. */

bool by_deliver_broken(struct by_transfer_link *link, const char *what) {
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES];
  if (by_transfer_is_relay(link->transfer, link->process)) { /* Calls go on without a lost helper. */
    for (uint32_t i = 0; i < link->n_ends; i++)
      (void)by_lane_fail(link->ends[i].lane, BANYAN_ERR_PROTOCOL, "it sent %s", what);
    return false;
  }
  snprintf(text, sizeof text, "%s sent %s; are all ranks using the same version?",
           by_transfer_name(link->transfer, link->process, name), what);
  by_transfer_fail(link->transfer, BANYAN_ERR_PROTOCOL, link->process, text);
  return false;
}

static inline void note_taken(struct by_transfer_link *link, uint32_t size) {
  link->taken += size + FRAME_BYTES;
  if (link->taken >= link->transfer->options.link_credit / 2) by_link_touch(link);
}

/* ---- messages: what their senders may send, and where their bytes are stored */

/* How far the sender may be ahead of the bytes consumed. Messages that need no memory here would wait in the lane. If
 * they filled a socket's buffer, the kernel would drop some data and take 200 ms to have it sent again. */
static uint64_t max_ahead(const struct by_in *in) {
  const struct by_transfer_options *options = &in->exchange->transfer->options;
  uint64_t lead = LEAD * options->eager_limit;
  return by_in_runs_free(in) && lead > options->window ? lead : options->window;
}

/* Not inlined, since small messages need no grants. */
static __attribute__((noinline)) void grant_more(struct by_in *in) {
  uint64_t capacity = max_ahead(in), target = in->consumed + capacity;
  if (target > in->length) target = in->length;
  if (target <= in->granted || (target < in->length && target - in->granted < capacity / 2)) return;
  in->granted = target;
  in->send_grant = true;
  by_link_note(in);
}

void by_in_consumed(struct by_in *in) {
  struct by_transfer *transfer = in->exchange->transfer;
  bool offered = by_in_is_offered(in);
  if ((offered || in->held) && in->consumed == in->length) {
    in->send_done = true;
    by_link_note(in);
  }
  if (offered) return;
  if (in->stage && in->arrived == in->consumed && in->arrived == in->length) {
    by_transfer_give_stage(transfer, in->stage);
    in->stage = NULL;
  }
  if (in->granted >= in->length || (in->length <= transfer->options.eager_limit && !in->asked)) return;
  grant_more(in);
}

bool by_in_is_worth_granting_ahead(const struct by_transfer *transfer, uint64_t length) {
  return length >= transfer->options.eager_limit / AHEAD_PART;
}

void by_in_grant_ahead(struct by_in *in) {
  const struct by_transfer *transfer = in->exchange->transfer;
  const struct by_lane *lane = in->link->lane;
  if (!by_in_is_worth_granting_ahead(transfer, in->length) || !lane || lane->ops->reads_memory || !by_in_runs_free(in))
    return;
  if (by_transfer_is_relay(transfer, in->link->process)) return; /* A helper has no call before data arrives for it. */
  uint64_t capacity = max_ahead(in);
  in->granted = in->length < capacity ? in->length : capacity;
  in->send_grant = true;
  by_link_note(in);
}

char *by_in_target(struct by_in *in, uint64_t at, size_t *n) {
  struct by_transfer *transfer = in->exchange->transfer;
  if (!in->adds) {
    if (*n > in->length - at) *n = in->length - at;
    return in->to + at;
  }
  uint64_t ring = transfer->options.window, capacity = ring - (at - in->consumed);
  uint64_t to_edge = ring - (at & (ring - 1));
  if (to_edge < capacity) capacity = to_edge;
  if (!in->stage) in->stage = by_transfer_take_stage(transfer);
  if (*n > capacity) *n = capacity;
  return in->stage ? in->stage + (at & (ring - 1)) : NULL;
}

/* ---- messages over several lanes: bytes that arrive before their turn */

/* Whether n bytes at `from` belong to the message and have neither arrived nor are arriving over another lane. */
static bool is_missing(const struct by_in *in, uint64_t from, uint64_t n) {
  const struct by_transfer_link *link = in->link;
  uint64_t to = from + n;
  if (from < in->arrived || from > in->length || n > in->length - from) return false;
  if (by_byte_ranges_overlap(&in->ahead, from, to)) return false;
  for (uint32_t i = 0; i < link->n_ends; i++) {
    const struct by_end *end = &link->ends[i];
    if (end->in == in && from < end->at + end->lane->left && end->at < to) return false;
  }
  return true;
}

/* Moves `arrived` past ranges that arrived before their turn, once nothing is missing in front of them. */
static void catch_up(struct by_in *in) {
  if (!in->ahead.n) return;
  uint64_t to = by_byte_ranges_take(&in->ahead, in->arrived);
  if (to > in->arrived) in->exchange->transfer->ops->arrived(in, to - in->arrived);
}

/* Notes that bytes at .. at + n are stored. */
static void note_placed(struct by_in *in, uint64_t at, size_t n) {
  struct by_transfer *transfer = in->exchange->transfer;
  uint32_t capacity = in->ahead.capacity;
  if (at == in->arrived) {
    transfer->ops->arrived(in, n);
    catch_up(in);
  } else if (in->ahead.n > in->length / BY_PART_BYTES + BY_LANES) {
    (void)by_deliver_broken(in->link, "a message in too many parts");
  } else if (!by_byte_ranges_add(&in->ahead, at, at + n)) {
    by_transfer_fail(transfer, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for the parts of a message");
  }
  if (in->ahead.capacity != capacity) transfer->counters.allocations++;
}

/* ---- frames for calls that are not made yet */

static void store_frame(struct by_end *end, const struct by_frame *frame) {
  struct by_transfer_link *link = end->link;
  const struct by_transfer_options *options = &link->transfer->options;
  if (link->stored_bytes + frame->size > options->link_credit + FUTURE_CONTROL * 64) {
    by_deliver_broken(link, "more eager data than its credit allows");
    return;
  }
  struct by_stored *stored = by_transfer_take_stored(link->transfer, frame->size);
  if (!stored) {
    by_transfer_fail(link->transfer, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for data of calls not made yet");
    return;
  }
  *stored = (struct by_stored){.frame = *frame};
  link->stored_bytes += sizeof *stored + frame->size;
  TAILQ_INSERT_TAIL(&link->stored, stored, next);
  end->filling = stored;
  end->receiving = BY_RECEIVE_STORED;
}

/* ---- frames without data */

static void handle_offer(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame,
                         const void *payload) {
  struct by_offer offer;
  memcpy(&offer, payload, sizeof offer);
  if (!link->lane->ops->reads_memory) {
    by_deliver_broken(link, "an offer of memory that cannot be read here");
    return;
  }
  struct by_in *in = link->transfer->ops->incoming(link, exchange, frame);
  if (!in) return;
  if (frame->length_check != (uint32_t)in->length) {
    link->transfer->ops->mismatch(link, exchange, frame);
    return;
  }
  if (in->source != BY_IN_NOTHING || offer.ready < in->consumed || offer.ready > in->length) {
    by_deliver_broken(link, "an offer twice, or of what it does not have");
    return;
  }
  in->offer = offer;
  in->mapped = offer.region ? link->lane->ops->map(link->lane, &offer, in->length) : NULL;
  if (!in->mapped) {
    in->send_refuse = true;
    by_link_note(in);
    by_in_consumed(in); /* What comes as data has to be granted. */
    return;
  }
  in->source = BY_IN_MAPPED;
  in->arrived = offer.ready;
  by_exchange_wire(exchange);
  link->transfer->ops->offered(in);
}

static void handle_more(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame) {
  struct by_in *in = link->transfer->ops->incoming(link, exchange, frame);
  if (!in || !by_in_is_offered(in)) return;
  if (frame->offset < in->arrived || frame->offset > in->length) {
    by_deliver_broken(link, "an offer that shrinks");
    return;
  }
  in->arrived = frame->offset;
  link->transfer->ops->offered(in);
}

static void handle_done(struct by_transfer_link *link, struct by_out *out, bool all) {
  if (out->held && !all) {
    out->held = false; /* The receiver discards it, so bytes still to be sent may change. */
    link->transfer->ops->sent(out);
    return;
  }
  if (out->held ? out->settled < out->length : !out->by_offer || out->announced < out->length) {
    by_deliver_broken(link, "an answer to what it has not got yet");
    return;
  }
  out->held = false;
  out->sent = out->settled = out->length;
  link->transfer->ops->sent(out);
}

static void handle_answer(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame) {
  struct by_out *out = link->transfer->ops->outgoing(link, exchange, frame);
  if (!out || frame->offset > out->length) {
    by_deliver_broken(link, "an answer to a message that it was not sent");
    return;
  }
  if (frame->type == BY_FRAME_DONE) {
    handle_done(link, out, frame->offset == out->length);
    return;
  }
  if (frame->type == BY_FRAME_REFUSE && out->offered && out->by_offer) {
    out->by_offer = false;
    out->sent = frame->offset;
  }
  if (frame->type == BY_FRAME_GRANT && frame->offset > out->granted) out->granted = frame->offset;
  if (frame->type == BY_FRAME_GRANT) out->asked = false;
  if (out->sent < out->length) by_link_queue(out);
}

static void handle_ask(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame) {
  struct by_in *in = link->transfer->ops->incoming(link, exchange, frame);
  if (!in) return;
  if (frame->length_check != (uint32_t)in->length) {
    link->transfer->ops->mismatch(link, exchange, frame);
    return;
  }
  if (in->arrived == in->length) return; /* Other lanes were faster. */
  in->asked = true;
  by_in_consumed(in);
}

/* Handles a frame of an exchange that is not data. `offer` is the payload of an offer. */
static void handle_frame(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_frame *frame,
                         const void *offer) {
  switch (frame->type) {
  case BY_FRAME_DATA: handle_ask(link, exchange, frame); break;
  case BY_FRAME_MORE: handle_more(link, exchange, frame); break;
  case BY_FRAME_OFFER:
    if (frame->size == sizeof(struct by_offer))
      handle_offer(link, exchange, frame, offer);
    else
      by_deliver_broken(link, "an offer of the wrong size");
    break;
  default: handle_answer(link, exchange, frame);
  }
}

/* ---- the payload of a data frame */

/* The message of a data frame; NULL: the frame does not fit, and the link has failed. */
static inline struct by_in *data_in(struct by_transfer_link *link, struct by_exchange *exchange,
                                    const struct by_frame *frame) {
  struct by_in *in = link->transfer->ops->incoming(link, exchange, frame);
  uint64_t at = frame->offset;
  if (!in) return NULL;
  if (frame->length_check != (uint32_t)in->length) return link->transfer->ops->mismatch(link, exchange, frame), NULL;
  bool fits = frame->size <= in->length - in->arrived && at == in->arrived;
  if (link->n_ends > 1) fits = is_missing(in, at, frame->size);
  if (in->source == BY_IN_NOTHING) in->source = BY_IN_DATA;
  if (frame->flags & BY_FRAME_HELD) in->held = true;
  if (!fits || in->source != BY_IN_DATA)
    return by_deliver_broken(link, "data that does not follow what it sent before"), NULL;
  size_t eager = link->transfer->options.eager_limit;
  if (!by_in_runs_free(in) && at + frame->size > in->granted && at + frame->size > eager && in->granted < in->length)
    return by_deliver_broken(link, "more than it was granted"), NULL;
  return in;
}

static size_t read_streaming(struct by_lane *lane, char *to, size_t max) {
  const void *bytes;
  size_t n = lane->ops->view(lane, &bytes);
  if (n > max) n = max;
  by_kernel_copy_streaming(to, bytes, n);
  lane->ops->take(lane, n);
  return n;
}

static inline bool move_into(struct by_end *end, struct by_in *in) {
  struct by_lane *lane = end->lane;
  size_t left = lane->left, n = left;
  const struct by_exchange *exchange = in->exchange;
  bool in_turn = end->at == in->arrived;
  if (in_turn && in->adds) {
    const void *bytes;
    size_t have = lane->ops->view(lane, &bytes);
    size_t used = have ? exchange->transfer->ops->add(in, bytes, have) : 0;
    if (used) {
      lane->ops->take(lane, used);
      end->at += used;
      catch_up(in);
      return true;
    }
    if (have < exchange->element && have < left) return false; /* Wait for a whole element. */
  }
  char *to = by_in_target(in, end->at, &n);
  if (!to || !n) return false;
  n = lane->ops->reads_memory && !in->adds && in->length >= STREAM_FROM ? read_streaming(lane, to, n)
                                                                        : lane->ops->read(lane, to, n);
  if (!n) return false;
  end->at += n;
  note_placed(in, end->at - n, n);
  return true;
}

static bool move_stored(struct by_end *end) {
  struct by_stored *stored = end->filling;
  size_t n = end->lane->ops->read(end->lane, stored->payload + stored->filled, stored->frame.size - stored->filled);
  stored->filled += (uint32_t)n;
  return n > 0;
}

static bool discard_payload(struct by_end *end) {
  const void *bytes;
  size_t n = end->lane->ops->view(end->lane, &bytes);
  if (n) end->lane->ops->take(end->lane, n);
  return n > 0;
}

/* Handles a frame that belongs to no call. If the peer is in another membership, the rest of the lane is not for this
 * engine, see lane.h. */
static bool handle_link_frame(struct by_end *end, const struct by_frame *frame) {
  struct by_transfer_link *link = end->link;
  const struct by_lane_ops *ops = end->lane->ops;
  if (frame->type == BY_FRAME_CONTROL) {
    const char *wrong = by_control_messages_begin(link, frame);
    if (wrong) return by_deliver_broken(link, wrong);
    end->receiving = BY_RECEIVE_CONTROL;
    return true;
  }
  if (frame->type == BY_FRAME_MEMBERSHIP) return false;
  if (frame->type == BY_FRAME_PROBE) return true; /* Its payload is discarded. */
  if (frame->type == BY_FRAME_CREDIT)
    link->eager -= frame->offset < link->eager ? frame->offset : link->eager;
  else if (frame->type == BY_FRAME_GOODBYE)
    end->leaving = true;
  else if (ops->unmap && !link->transfer->ops->reads(link, frame->offset))
    ops->unmap(end->lane, (uint32_t)frame->offset);
  return true;
}

/* Begins a frame. Returns false if it has failed, or cannot be handled before its payload has arrived. */
static inline bool begin_frame(struct by_end *end, const struct by_frame *frame) {
  struct by_transfer_link *link = end->link;
  struct by_lane *lane = end->lane;
  if (frame->type == BY_FRAME_NONE || frame->type >= BY_FRAME_TYPES || frame->size > BY_FRAME_MAX)
    return by_deliver_broken(link, "a frame of no known type");
  if (frame->type >= BY_FRAME_CREDIT) return handle_link_frame(end, frame);
  const struct by_transfer_ops *ops = link->transfer->ops;
  struct by_exchange *exchange = ops->find(link, frame);
  bool answers = frame->type == BY_FRAME_GRANT || frame->type == BY_FRAME_DONE || frame->type == BY_FRAME_REFUSE;
  if (!exchange) {
    enum by_unmatched verdict = ops->classify(link, frame, answers, &exchange);
    if (verdict == BY_UNMATCHED_WAIT) return false;
    if (verdict == BY_UNMATCHED_KEEP) store_frame(end, frame);
    if (verdict == BY_UNMATCHED_DECLINE) by_link_decline(link, frame);
    if (verdict != BY_UNMATCHED_FOUND) return link->transfer->status == BANYAN_OK;
  }
  if (frame->type == BY_FRAME_DATA && !(frame->flags & BY_FRAME_ASK)) {
    struct by_in *in = data_in(link, exchange, frame);
    end->in = in;
    end->at = frame->offset;
    end->receiving = BY_RECEIVE_MESSAGE;
    return in != NULL;
  }
  unsigned char offer[sizeof(struct by_offer)];
  const void *bytes;
  if (frame->type == BY_FRAME_OFFER && frame->size == sizeof offer) {
    if (lane->ops->view(lane, &bytes) < sizeof offer) return false;
    memcpy(offer, bytes, sizeof offer);
    lane->ops->take(lane, sizeof offer);
  }
  handle_frame(link, exchange, frame, offer);
  return link->transfer->status == BANYAN_OK;
}

/* Takes payload that has arrived. Returns false if there is none, or none can be taken now. */
static inline bool receive_payload(struct by_end *end) {
  switch ((enum by_receiving)end->receiving) {
  case BY_RECEIVE_MESSAGE: return move_into(end, end->in);
  case BY_RECEIVE_STORED: return move_stored(end);
  case BY_RECEIVE_CONTROL: return by_control_messages_receive(end);
  default: return discard_payload(end);
  }
}

bool by_deliver(struct by_end *end) {
  struct by_transfer_link *link = end->link;
  struct by_transfer *transfer = link->transfer;
  struct by_lane *lane = end->lane;
  const struct by_frame *frame = lane->ops->peek(lane);
  if (!frame) return false;
  if (end->receiving == BY_RECEIVE_NOTHING) {
    if (!begin_frame(end, frame)) {
      end->receiving = BY_RECEIVE_NOTHING;
      return false;
    }
    if (end->receiving == BY_RECEIVE_NOTHING) end->receiving = BY_RECEIVE_DISCARD;
  }
  bool moved = true;
  while (moved && lane->left) {
    size_t before = lane->left;
    moved = receive_payload(end);
    transfer->counters.bytes_received += before - lane->left;
  }
  if (lane->left) return false;
  const struct by_stored *stored = end->filling;
  if (frame->flags & BY_FRAME_EAGER && !stored) note_taken(link, frame->size);
  transfer->counters.frames_received++;
  if (end->receiving == BY_RECEIVE_CONTROL) by_control_messages_end(link);
  end->receiving = BY_RECEIVE_NOTHING;
  end->filling = NULL;
  end->in = NULL;
  lane->ops->next(lane);
  if (!stored) return true;
  /* Its call may have been made while the rest arrived. */
  struct by_exchange *exchange = transfer->ops->find(link, &stored->frame);
  if (exchange) by_deliver_stored(link, exchange);
  transfer->ops->kept(transfer);
  return true;
}

/* ---- stored frames, once their call is made */

/* The end at which the rest of a frame still arrives; NULL: it is complete. */
static struct by_end *end_of(struct by_transfer_link *link, const struct by_stored *stored) {
  for (uint32_t i = 0; i < link->n_ends; i++)
    if (link->ends[i].filling == stored) return &link->ends[i];
  return NULL;
}

/* Stores or adds what has arrived of a frame. The rest goes straight to its message: on a slow link a frame takes
 * long, and the call would wait for all of it. */
static void replay_data(struct by_transfer_link *link, struct by_exchange *exchange, const struct by_stored *stored) {
  struct by_end *end = end_of(link, stored);
  struct by_in *in = data_in(link, exchange, &stored->frame);
  if (end) {
    end->filling = NULL;
    end->in = in;
    end->at = stored->frame.offset + stored->filled;
    end->receiving = in ? BY_RECEIVE_MESSAGE : BY_RECEIVE_DISCARD;
  }
  if (!in) return;
  for (size_t done = 0; done < stored->filled;) {
    size_t n = stored->filled - done;
    uint64_t at = stored->frame.offset + done;
    char *to = by_in_target(in, at, &n);
    if (!to || !n) {
      by_deliver_broken(link, "more eager data than a message may hold");
      return;
    }
    memcpy(to, stored->payload + done, n);
    note_placed(in, at, n);
    done += n;
  }
  if (!end && stored->frame.flags & BY_FRAME_EAGER) note_taken(link, stored->frame.size);
}

/* Whether a stored frame can be handled: data in parts, other frames only as a whole. */
static bool can_replay(const struct by_stored *stored) {
  const struct by_frame *frame = &stored->frame;
  return stored->filled == frame->size || (frame->type == BY_FRAME_DATA && !(frame->flags & BY_FRAME_ASK));
}

static void unstore_frame(struct by_transfer_link *link, struct by_stored *stored) {
  TAILQ_REMOVE(&link->stored, stored, next);
  link->stored_bytes -= sizeof *stored + stored->frame.size;
}

void by_deliver_stored(struct by_transfer_link *link, struct by_exchange *exchange) {
  for (struct by_stored *stored = TAILQ_FIRST(&link->stored), *next; stored && link->transfer->status == BANYAN_OK;
       stored = next) {
    next = TAILQ_NEXT(stored, next);
    if (!can_replay(stored) || link->transfer->ops->find(link, &stored->frame) != exchange) continue;
    unstore_frame(link, stored);
    if (stored->frame.type == BY_FRAME_DATA && !(stored->frame.flags & BY_FRAME_ASK))
      replay_data(link, exchange, stored);
    else
      handle_frame(link, exchange, &stored->frame, stored->payload);
    by_transfer_give_stored(link->transfer, stored);
  }
}

static bool is_of(const struct by_frame *frame, uint32_t call, uint32_t version) {
  return !(frame->flags & BY_FRAME_PAIR) && frame->call == call && (!version || frame->plan == version);
}

void by_deliver_forget(struct by_transfer_link *link, uint32_t team, const uint32_t *call, uint32_t version) {
  for (struct by_stored *stored = TAILQ_FIRST(&link->stored), *next; stored; stored = next) {
    next = TAILQ_NEXT(stored, next);
    if (stored->frame.team != team || (call && !is_of(&stored->frame, *call, version))) continue;
    struct by_end *end = end_of(link, stored);
    if (end) { /* The rest of it still arrives. */
      end->filling = NULL;
      end->receiving = BY_RECEIVE_DISCARD;
    }
    if (!call) by_link_decline(link, &stored->frame);
    unstore_frame(link, stored);
    if (!end && stored->frame.flags & BY_FRAME_EAGER) note_taken(link, stored->frame.size);
    by_transfer_give_stored(link->transfer, stored);
  }
}
