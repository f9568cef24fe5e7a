/* Sending on a link: first reports of messages to their senders, then data. Calls take turns, and the message of a
 * call that is furthest behind sends a chunk. The chunks of large messages use whichever lane takes one, all other
 * frames use the first lane in order.
 *
 * Flow control: several trees and calls share one ordered stream, so nothing may be sent that the receiver may be
 * unable to take. A message may send its first `eager_limit` bytes freely (within the link's credit, since the
 * receiver can store that much for calls it has not made yet), and the rest as granted. */
#include "transfer_link.h"

#include <sys/param.h>

#include "arena.h"

enum {
  MIN_FRAME = 16 << 10,
  MORE_EVERY = 64 << 10,
  PROBE_BYTES = 64 << 10,
  MAX_COMPARED = 16,
  MAX_NOTICES = 1 << 14, /* Notices for a peer that takes none. */
  FRAME_BYTES = sizeof(struct by_frame)
};

enum sent { SENT_MORE, SENT_ALL, SENT_NOT };

void by_link_queue(struct by_out *out) {
  struct by_transfer_link *link = out->link;
  if (out->queued) return;
  by_link_touch(link);
  out->queued = true;
  TAILQ_INSERT_TAIL(&link->outs, out, queue);
}

/* Whether `a` is further behind than `b`. The trees of a plan share a link in proportion to their sizes, so that none
 * of them is late because of bytes that another one does not need yet. */
static bool is_behind(const struct by_out *a, const struct by_out *b) {
  return (double)a->sent * (double)b->length < (double)b->sent * (double)a->length;
}

static struct by_out *unqueue_message(struct by_transfer_link *link, struct by_out *out) {
  TAILQ_REMOVE(&link->outs, out, queue);
  out->queued = false;
  return out;
}

/* Removes the next message to send from the queue. Calls take turns. The call whose turn it is sends the message that
 * is furthest behind, and its first message takes that one's position. */
static inline struct by_out *unqueue_next(struct by_transfer_link *link) {
  struct by_out *first = TAILQ_FIRST(&link->outs), *best = first, *out = TAILQ_NEXT(first, queue);
  for (int i = 1; i < MAX_COMPARED && out; i++, out = TAILQ_NEXT(out, queue))
    if (out->exchange->family == first->exchange->family && is_behind(out, best)) best = out;
  if (best != first) {
    TAILQ_REMOVE(&link->outs, first, queue);
    TAILQ_INSERT_BEFORE(best, first, queue);
  }
  return unqueue_message(link, best);
}

void by_link_note(struct by_in *in) {
  struct by_transfer_link *link = in->link;
  if (in->noted) return;
  by_link_touch(link);
  in->noted = true;
  in->exchange->notes++;
  TAILQ_INSERT_TAIL(&link->notes, in, notes);
}

bool by_link_send_small(struct by_transfer_link *link, struct by_frame *frame, const void *payload) {
  if (link->lane->ops->send(link->lane, frame, payload) == BY_LANE_FULL) return false;
  link->holds = true;
  link->transfer->counters.frames_sent++;
  link->transfer->moved = true;
  return true;
}

static struct by_frame describe_frame(const struct by_exchange *exchange, enum by_frame_type type, uint32_t tag,
                                      uint64_t offset) {
  struct by_frame frame = exchange->descriptor;
  frame.type = (uint8_t)type;
  frame.offset = offset;
  if (!exchange->pair) frame.tag = tag;
  return frame;
}

static bool notify_one(struct by_in *in, bool *flag, enum by_frame_type type, uint64_t offset) {
  if (!*flag) return true;
  struct by_frame frame = describe_frame(in->exchange, type, in->tag, offset);
  if (!by_link_send_small(in->link, &frame, NULL)) return false;
  *flag = false;
  return true;
}

static bool send_notes(struct by_transfer_link *link) {
  for (struct by_in *in; (in = TAILQ_FIRST(&link->notes));) {
    if (!notify_one(in, &in->send_grant, BY_FRAME_GRANT, in->granted) ||
        !notify_one(in, &in->send_refuse, BY_FRAME_REFUSE, in->consumed) ||
        !notify_one(in, &in->send_done, BY_FRAME_DONE, in->length))
      return false;
    TAILQ_REMOVE(&link->notes, in, notes);
    in->noted = false;
    by_exchange_end_note(in->exchange);
  }
  return true;
}

/* Reports credit early if data follows that carries it. */
static bool report_credit(struct by_transfer_link *link) {
  size_t credit = link->transfer->options.link_credit;
  if (link->taken < credit / (TAILQ_EMPTY(&link->outs) ? 2 : 8)) return true;
  struct by_frame frame = {.type = BY_FRAME_CREDIT, .offset = link->taken};
  if (!by_link_send_small(link, &frame, NULL)) return false;
  link->taken = 0;
  return true;
}

static bool send_notices(struct by_transfer_link *link) {
  while (link->n_notices) {
    if (!by_link_send_small(link, &link->notices[link->n_notices - 1], NULL)) return false;
    link->n_notices--;
  }
  return true;
}

/* Returns false if there is no memory for a notice, or the peer has not taken many. */
static bool keep_notice(struct by_transfer_link *link, struct by_frame frame) {
  if (link->n_notices == MAX_NOTICES) return false;
  if (!BY_ARRAY_GROW(&link->notices, &link->notices_capacity, link->n_notices + 1)) return false;
  link->notices[link->n_notices++] = frame;
  by_link_touch(link);
  return true;
}

void by_link_forget(struct by_transfer_link *link, uint32_t region) {
  if (!link->lane || !link->lane->ops->reads_memory) return;
  /* Without memory for the notice, the peer keeps the region mapped until the link ends. */
  (void)keep_notice(link, (struct by_frame){.type = BY_FRAME_FORGET, .offset = region});
}

void by_link_let_come(const struct by_in *in) {
  bool offered = by_in_is_offered(in);
  if (in->consumed == in->length) {
    if (in->send_done) by_link_owe(in); /* Otherwise it has been reported. */
    return;
  }
  /* Without memory for the notice, the sender's call ends with its deadline. */
  if (in->held) (void)keep_notice(in->link, describe_frame(in->exchange, BY_FRAME_DONE, in->tag, 0));
  if (in->arrived < in->length || offered)
    (void)keep_notice(in->link, describe_frame(in->exchange, BY_FRAME_GRANT, in->tag, in->length));
  if (offered || in->send_refuse)
    (void)keep_notice(in->link, describe_frame(in->exchange, BY_FRAME_REFUSE, in->tag, in->consumed));
}

void by_link_decline(struct by_transfer_link *link, const struct by_frame *frame) {
  struct by_frame notice = *frame;
  bool held = frame->type == BY_FRAME_DATA && frame->flags & BY_FRAME_HELD && !frame->offset;
  if (frame->type != BY_FRAME_OFFER && !held) return;
  notice.type = held ? BY_FRAME_DONE : BY_FRAME_REFUSE;
  notice.flags &= BY_FRAME_PAIR;
  notice.size = notice.length_check = 0;
  (void)keep_notice(link, notice);
}

void by_link_owe(const struct by_in *in) {
  /* Without memory for the notice, the sender's call ends with its deadline. */
  (void)keep_notice(in->link, describe_frame(in->exchange, BY_FRAME_DONE, in->tag, in->length));
}

/* Whether the receiver is to read the message where it lies. This is decided once per message. */
bool by_link_offers(struct by_out *out) {
  const struct by_lane_ops *ops = out->link->lane->ops;
  const struct by_transfer_options *options = &out->link->transfer->options;
  if (out->decided) return out->by_offer;
  out->decided = true;
  out->by_offer = false;
  if (!ops->reads_memory || out->length < ops->offer_from || out->unoffered) return false;
  out->offer = (struct by_offer){.address = (uint64_t)(uintptr_t)out->base};
  if (options->locate) options->locate(options->context, out->base, out->length, &out->offer);
  out->by_offer = out->offer.region != 0;
  return out->by_offer;
}

static enum sent send_offer(struct by_out *out) {
  if (!out->offered) {
    out->offer.ready = out->ready;
    struct by_frame frame = describe_frame(out->exchange, BY_FRAME_OFFER, out->tag, 0);
    frame.size = sizeof out->offer;
    frame.length_check = (uint32_t)out->length;
    if (!by_link_send_small(out->link, &frame, &out->offer)) return SENT_NOT;
    out->offered = true;
    by_exchange_wire(out->exchange);
  } else if (out->ready > out->announced && (out->ready == out->length || out->ready - out->announced >= MORE_EVERY)) {
    struct by_frame frame = describe_frame(out->exchange, BY_FRAME_MORE, out->tag, out->ready);
    if (!by_link_send_small(out->link, &frame, NULL)) return SENT_NOT;
  } else {
    return SENT_ALL;
  }
  out->announced = out->ready;
  return SENT_ALL;
}

/* The number of bytes that may be sent now; *eager tells whether they count against the link's credit. */
static uint64_t count_sendable(const struct by_out *out, bool *eager) {
  const struct by_transfer_options *options = &out->link->transfer->options;
  uint64_t max = out->granted, n;
  *eager = out->sent >= out->granted;
  if (*eager) {
    uint64_t used = out->link->eager + FRAME_BYTES;
    if (used >= options->link_credit || out->sent >= options->eager_limit) return 0;
    max = out->sent + options->link_credit - used;
    if (max > options->eager_limit) max = options->eager_limit;
  }
  if (max > out->ready) max = out->ready;
  n = max > out->sent ? max - out->sent : 0;
  if (max == out->ready && out->ready < out->length && n < MIN_FRAME) return 0;
  return n;
}

/* Asks for a grant if nothing can be sent for lack of the link's credit, which calls not made yet may hold. */
static enum sent ask_for_grant(struct by_out *out, uint32_t full) {
  bool within = out->sent >= out->granted && out->sent < out->link->transfer->options.eager_limit;
  bool worth = out->ready == out->length ? out->sent < out->length : out->ready - out->sent >= MIN_FRAME;
  if (out->asked || !within || !worth) return SENT_ALL;
  if (full & 1) return SENT_NOT;
  struct by_frame frame = describe_frame(out->exchange, BY_FRAME_DATA, out->tag, out->sent);
  frame.flags |= BY_FRAME_ASK;
  frame.length_check = (uint32_t)out->length;
  if (!by_link_send_small(out->link, &frame, NULL)) return SENT_NOT;
  out->asked = true;
  return SENT_ALL;
}

/* Updates the bytes that no lane needs any more, after bytes were sent or a lane released some. */
static void update_settled(struct by_out *out) {
  const struct by_transfer_link *link = out->link;
  uint64_t settled = out->sent;
  for (uint32_t i = 0; link->kept && i < link->n_ends; i++)
    if (link->ends[i].kept == out && link->ends[i].kept_at < settled) settled = link->ends[i].kept_at;
  if (settled == out->settled) return;
  out->settled = settled;
  link->transfer->ops->sent(out);
}

static enum by_lane_sent send_payload(struct by_out *out, struct by_lane *lane, struct by_frame *frame) {
  const char *payload = out->base + out->sent;
  if (out->sent == 0)
    out->held = lane->ops->send_in_place && out->length >= lane->ops->in_place_from && !out->copied &&
                !out->link->transfer->options.keeps_lanes;
  if (!out->held) return lane->ops->send(lane, frame, payload);
  frame->flags |= BY_FRAME_HELD;
  return lane->ops->send_in_place(lane, frame, payload);
}

/* The maximum of bytes in the next frame. Data that is granted in steps is cut so that every lane gets a part. Frames
 * that may overtake each other have a minimum size, since the receiver notes each of them. */
static size_t frame_limit(const struct by_out *out) {
  const struct by_transfer_link *link = out->link;
  const struct by_transfer_options *options = &link->transfer->options;
  size_t max = link->lane->ops->frame_bytes;
  if (out->exchange->chunk < max) max = out->exchange->chunk;
  if (link->n_ends == 1) return max;
  if (max < BY_PART_BYTES) max = BY_PART_BYTES;
  if (out->granted >= out->length) return max;
  size_t part = options->eager_limit / (2 * link->n_ends);
  if (part < MIN_FRAME) part = MIN_FRAME;
  return part < max ? part : max;
}

/* Notes that a lane took a frame without sending all of it. */
static void note_rest(struct by_end *end, struct by_out *out, enum by_lane_sent sent) {
  if (sent == BY_LANE_REST) {
    end->link->holds = true;
    return;
  }
  end->kept = out;
  end->kept_at = out->sent;
  end->link->kept++;
}

static inline enum sent send_part(struct by_out *out, struct by_end *end, uint64_t n, bool eager) {
  struct by_transfer_link *link = out->link;
  struct by_frame frame = describe_frame(out->exchange, BY_FRAME_DATA, out->tag, out->sent);
  frame.size = (uint32_t)n;
  frame.length_check = (uint32_t)out->length;
  if (eager) frame.flags |= BY_FRAME_EAGER;
  enum by_lane_sent sent = send_payload(out, end->lane, &frame);
  if (sent == BY_LANE_FULL) return SENT_NOT;
  by_exchange_wire(out->exchange);
  link->transfer->counters.frames_sent++;
  link->transfer->counters.bytes_sent += n;
  link->transfer->moved = true;
  if (eager) link->eager += n + FRAME_BYTES;
  if (sent != BY_LANE_SENT) note_rest(end, out, sent);
  out->sent += n;
  update_settled(out);
  return out->sent < out->length ? SENT_MORE : SENT_ALL;
}

/* The lane for the next frame of a large message: lanes take turns. At least one is not full. */
static __attribute__((noinline)) uint32_t next_lane(struct by_transfer_link *link, uint32_t full) {
  do link->turn = link->turn + 1 < link->n_ends ? link->turn + 1 : 0;
  while (full & 1u << link->turn);
  return link->turn;
}

static inline enum sent send_data(struct by_out *out, uint32_t *full) {
  struct by_transfer_link *link = out->link;
  bool eager;
  uint64_t n = count_sendable(out, &eager);
  if (!n) return ask_for_grant(out, *full);
  size_t max = frame_limit(out);
  if (n > max) n = max;
  bool spread = link->n_ends > 1 && out->length >= link->transfer->options.spread;
  uint32_t lane = spread ? next_lane(link, *full) : 0;
  if (*full & 1u << lane) return SENT_NOT;
  enum sent sent = send_part(out, &link->ends[lane], n, eager);
  if (sent == SENT_NOT || link->ends[lane].kept) *full |= 1u << lane;
  return sent == SENT_NOT && spread ? SENT_MORE : sent; /* Another lane may take it. */
}

/* Sends what the lanes still hold. Returns a bit for each lane that takes no more now. */
static inline uint32_t flush_ends(struct by_transfer_link *link) {
  uint32_t full = 0;
  for (uint32_t i = 0; i < link->n_ends; i++) {
    struct by_end *end = &link->ends[i];
    struct by_out *out = end->kept;
    if (end->lane->status != BANYAN_OK || !end->lane->ops->flush(end->lane)) {
      full |= 1u << i;
    } else if (out) {
      end->kept = NULL;
      link->kept--;
      link->transfer->moved = true;
      update_settled(out);
    }
  }
  return full;
}

void by_link_probe(struct by_transfer_link *link, uint64_t bytes) {
  link->probe = bytes;
  by_link_want(link);
  by_link_touch(link);
}

/* Returns false if the lane takes no more now. */
static bool send_probe(struct by_transfer_link *link) {
  static char nothing[PROBE_BYTES];
  while (link->probe) {
    struct by_frame frame = {.type = BY_FRAME_PROBE, .size = (uint32_t)MIN(link->probe, sizeof nothing)};
    enum by_lane_sent sent = link->lane->ops->send(link->lane, &frame, nothing);
    if (sent == BY_LANE_FULL) return false;
    if (sent != BY_LANE_SENT) link->holds = true;
    link->probe -= frame.size;
    link->transfer->counters.frames_sent++;
    link->transfer->moved = true;
  }
  return true;
}

bool by_link_flush(struct by_transfer_link *link) {
  if (!link->lane || link->in_network) return true; /* by_link_attach causes a flush, or the fabric sends. */
  if (link->lane->status != BANYAN_OK || link->transfer->status != BANYAN_OK) return true;
  uint32_t full = flush_ends(link), all = (1u << link->n_ends) - 1;
  if (!(full & 1) &&
      (!send_notes(link) || !report_credit(link) || !send_notices(link) || !by_control_messages_send(link)))
    full |= 1;
  const struct by_out *blocked = NULL;
  while (!TAILQ_EMPTY(&link->outs) && full != all) {
    struct by_out *out = blocked ? unqueue_message(link, TAILQ_FIRST(&link->outs)) : unqueue_next(link);
    bool by_offer = by_link_offers(out);
    enum sent sent = SENT_NOT;
    if (!by_offer)
      sent = send_data(out, &full);
    else if (!(full & 1))
      sent = send_offer(out);
    if (sent != SENT_ALL)
      by_link_queue(out);
    else if (blocked == out)
      blocked = NULL; /* It waits for an answer now, so another message marks the end of the round. */
    if (sent != SENT_NOT) continue;
    full |= 1;                 /* Large messages behind it may still use the other lanes. */
    if (blocked == out) break; /* All messages of the queue have been tried. */
    if (!blocked) blocked = out;
  }
  if (link->probe && TAILQ_EMPTY(&link->outs) && !(full & 1) && !send_probe(link)) full |= 1;
  if (link->holds) {
    link->holds = false;
    full |= flush_ends(link);
  }
  return !full;
}

/* Withdraws from a fabric that adds a message of the exchange. */
static void drop_begun(struct by_link_tree *tree, const struct by_exchange *exchange) {
  bool adding = false;
  for (struct by_out *out = TAILQ_FIRST(&tree->begun), *next; out; out = next) {
    next = TAILQ_NEXT(out, in_hand);
    if (out->exchange != exchange) continue;
    TAILQ_REMOVE(&tree->begun, out, in_hand);
    adding = true;
  }
  if (adding) tree->fabric->ops->withdraw(tree->fabric);
}

void by_link_drop(struct by_transfer_link *link, struct by_exchange *exchange) {
  for (struct by_out *out = TAILQ_FIRST(&link->outs), *next; out; out = next) {
    next = TAILQ_NEXT(out, queue);
    if (out->exchange == exchange) unqueue_message(link, out);
  }
  struct by_link_tree *tree;
  LIST_FOREACH(tree, &link->trees, in_link) drop_begun(tree, exchange);
  for (struct by_in *in = TAILQ_FIRST(&link->notes), *next; in; in = next) {
    next = TAILQ_NEXT(in, notes);
    if (in->exchange == exchange) TAILQ_REMOVE(&link->notes, in, notes);
  }
  for (uint32_t i = 0; i < link->n_ends; i++) {
    struct by_end *end = &link->ends[i];
    if (end->in && end->in->exchange == exchange) {
      end->in = NULL;
      end->receiving = BY_RECEIVE_DISCARD;
    }
    if (!end->kept || end->kept->exchange != exchange) continue;
    bool goes_on = link->transfer->status == BANYAN_OK || link->transfer->options.keeps_lanes;
    if (goes_on) end->lane->ops->let_go(end->lane); /* Otherwise nothing more is sent. */
    end->kept = NULL;
    link->kept--;
  }
}

bool by_links_goodbye(struct by_transfer *transfer) {
  bool all = true;
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_end *end = transfer->ends[i];
    struct by_transfer_link *link = end->link;
    if (end->lane->status != BANYAN_OK || end->parting || by_link_is_lost(link)) continue;
    link->probe = 0;
    by_link_flush(link);
    struct by_frame frame = {.type = BY_FRAME_GOODBYE};
    bool clear =
        !link->kept && TAILQ_EMPTY(&link->notes) && TAILQ_EMPTY(&link->outs) && !link->n_notices && !link->messages;
    if (clear && end->lane->ops->send(end->lane, &frame, NULL) != BY_LANE_FULL)
      end->parting = true;
    else
      all = false;
  }
  for (uint32_t i = 0; i < transfer->active; i++) {
    struct by_lane *lane = transfer->ends[i]->lane;
    if (lane->status != BANYAN_OK || by_link_is_lost(transfer->ends[i]->link))
      continue; /* A stopped process takes nothing. */
    if (!lane->ops->flush(lane) || (lane->ops->arrived && !lane->ops->arrived(lane))) all = false;
  }
  return all;
}
