/* What comes in on a link. A frame belongs to a message of a call that was
 * made here, or it is kept until the call is made; its payload goes where it
 * is needed: added straight from the lane's memory if its turn has come, into
 * the user's buffer if nothing is to be added, else into the message's ring. */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_BYTES = sizeof(struct by_frame), FUTURE_CONTROL = 1 << 16 };

static bool broken(struct by_link *link, const char *what) {
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES];
  snprintf(text, sizeof text, "%s sent %s; are all ranks using the same version?",
           by_engine_name(link->engine, link->process, name), what);
  by_engine_fail(link->engine, BANYAN_ERR_PROTOCOL, link->process, text);
  return false;
}

/* `ours` is what this rank calls, or called, under the same number; NULL: no longer known. */
static bool differs(struct by_link *link, const struct by_frame *ours, const struct by_frame *frame) {
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES], self[BY_NAME_BYTES];
  const struct by_engine *engine = link->engine;
  const struct by_domain *domain = by_engine_domain(engine, frame->domain);
  struct by_differing a = {by_engine_name(engine, link->process, name), frame,
                           by_domain_name_plan(domain, frame->plan)};
  struct by_differing b = {by_engine_name(engine, engine->options.self, self), ours,
                           ours ? by_domain_name_plan(domain, ours->plan) : NULL};
  by_engine_differ_text(&a, &b, text, sizeof text);
  by_engine_fail(link->engine, BANYAN_ERR_MISMATCH, link->process, text);
  return false;
}

static bool mismatch(struct by_link *link, const struct by_call *call, const struct by_frame *frame) {
  return differs(link, &call->stamp, frame);
}

static bool same_call(const struct by_call *call, const struct by_frame *frame) {
  const struct by_frame *stamp = &call->stamp;
  bool kind = call->pair ? frame->dtype_op == stamp->dtype_op : frame->collective == stamp->collective;
  return kind && frame->dtype_op == stamp->dtype_op && frame->count == stamp->count && frame->plan == stamp->plan &&
         (call->pair || frame->root == stamp->root);
}

static const struct by_peer *peer_of(const struct by_call *call, const struct by_link *link) {
  const struct by_program *program = call->program;
  uint32_t n = program->schedule->n_peers;
  if (n <= 8 || by_is_aid(link->engine, link->process)) { /* helpers have other vertices in other plans */
    for (uint32_t i = 0; i < n; i++)
      if (program->links[i] == link) return &program->schedule->peers[i];
    return NULL;
  }
  uint32_t rank = call->domain->rank_of[link->process], low = 0;
  while (n > 1) {
    uint32_t half = n / 2;
    if (program->schedule->peers[low + half].rank <= rank) low += half;
    n -= half;
  }
  return program->schedule->peers[low].rank == rank ? &program->schedule->peers[low] : NULL;
}

/* The message a frame belongs to, or NULL after a failure. */
static inline struct by_in *message_in(struct by_link *link, struct by_call *call, const struct by_frame *frame) {
  const struct by_peer *peer = peer_of(call, link);
  uint32_t tag = call->pair ? 0 : frame->tag;
  if (!same_call(call, frame)) return mismatch(link, call, frame), NULL;
  if (!peer || tag >= peer->n_in) return broken(link, "a message that the schedule does not have"), NULL;
  return &call->ins[call->schedule->lookup[peer->first_in + tag]];
}

static struct by_out *message_out(struct by_link *link, struct by_call *call, const struct by_frame *frame) {
  const struct by_peer *peer = peer_of(call, link);
  uint32_t tag = call->pair ? 0 : frame->tag;
  if (!peer || tag >= peer->n_out) return NULL;
  return &call->outs[call->program->first_out[peer - call->schedule->peers] + tag];
}

static inline void took(struct by_link *link, uint32_t size) {
  link->taken += size + FRAME_BYTES;
  if (link->taken >= link->engine->options.link_credit / 2) by_link_touch(link);
}

/* ---- frames for calls that are not made yet */

static void store(struct by_end *end, const struct by_frame *frame) {
  struct by_link *link = end->link;
  const struct by_engine_options *options = &link->engine->options;
  if (link->stored_bytes + frame->size > options->link_credit + FUTURE_CONTROL * 64) {
    broken(link, "more unasked data than its credit allows");
    return;
  }
  struct by_stored *stored = by_engine_take_stored(link->engine, frame->size);
  if (!stored) {
    by_engine_fail(link->engine, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for data of calls not made yet");
    return;
  }
  *stored = (struct by_stored){.frame = *frame};
  link->stored_bytes += sizeof *stored + frame->size;
  *link->stored_end = stored;
  link->stored_end = &stored->next;
  end->filling = stored;
}

static bool is_past(const struct by_engine *engine, const struct by_link *link, const struct by_frame *frame) {
  for (const struct by_domain *d = engine->domains; d; d = d->next) {
    if (d->id != frame->domain) continue;
    if (!(frame->flags & BY_FRAME_PAIR)) return (int32_t)(frame->call - d->next_call) < 0;
    for (const struct by_pair *p = d->pairs; p; p = p->next)
      if (!p->sends && p->peer == d->rank_of[link->process] && p->tag == frame->tag)
        return (int32_t)(frame->call - p->number) < 0;
  }
  return false;
}

/* Of a domain that was destroyed here, though peers may not be through with it. */
static bool is_gone(const struct by_engine *engine, uint32_t domain) {
  for (uint32_t i = engine->n_gone; i; i--)
    if (engine->gone[i - 1] == domain) return true;
  return false;
}

/* More than this rank's call of that number had to receive. */
static bool surplus(struct by_link *link, const struct by_frame *frame) {
  const struct by_frame *ours = NULL;
  for (const struct by_domain *d = link->engine->domains; d && !(frame->flags & BY_FRAME_PAIR); d = d->next)
    if (d->id == frame->domain) ours = &d->past[frame->call % BY_PAST];
  return differs(link, ours && ours->call == frame->call ? ours : NULL, frame);
}

static inline struct by_call *find_call(struct by_link *link, const struct by_frame *frame) {
  for (struct by_domain *d = link->engine->domains; d; d = d->next)
    if (d->id == frame->domain) return by_domain_find(d, frame, d->rank_of[link->process]);
  return NULL;
}

/* ---- frames without data */

static void handle_offer(struct by_link *link, struct by_call *call, const struct by_frame *frame,
                         const struct by_offer *offer) {
  if (!link->lane->ops->reads_memory) {
    broken(link, "an offer of memory that cannot be read here");
    return;
  }
  struct by_in *in = message_in(link, call, frame);
  if (!in) return;
  if (frame->length_check != (uint32_t)in->length) {
    mismatch(link, call, frame);
    return;
  }
  if (in->source != BY_IN_NOTHING || offer->ready < in->consumed || offer->ready > in->length) {
    broken(link, "an offer twice, or of what it does not have");
    return;
  }
  in->offer = *offer;
  in->mapped = offer->region ? link->lane->ops->map(link->lane, offer, in->length) : NULL;
  in->source = in->mapped ? BY_IN_MAPPED : BY_IN_PULLED;
  by_engine_block(call->engine, call->schedule->steps[call->schedule->incoming[in->incoming].step].n_in);
  in->arrived = offer->ready;
  by_call_wire(call);
  by_work_queue(call, call->schedule->incoming[in->incoming].step);
}

static void handle_more(struct by_link *link, struct by_call *call, const struct by_frame *frame) {
  struct by_in *in = message_in(link, call, frame);
  if (!in || (in->source != BY_IN_MAPPED && in->source != BY_IN_PULLED)) return;
  if (frame->offset < in->arrived || frame->offset > in->length) {
    broken(link, "an offer that shrinks");
    return;
  }
  in->arrived = frame->offset;
  by_work_queue(call, call->schedule->incoming[in->incoming].step);
}

static void handle_done(struct by_link *link, struct by_out *out, bool all) {
  if (out->held && !all) {
    out->held = false; /* it is thrown away there: what is still to be sent need not stay as it is */
    by_work_sent(out);
    return;
  }
  if (out->held ? out->settled < out->length : !out->by_offer || out->announced < out->length) {
    broken(link, "an answer to what it has not got yet");
    return;
  }
  out->held = false;
  out->sent = out->settled = out->length;
  by_work_sent(out);
}

static void handle_answer(struct by_link *link, struct by_call *call, const struct by_frame *frame) {
  struct by_out *out = message_out(link, call, frame);
  if (frame->type == BY_FRAME_GRANT && !same_call(call, frame)) {
    mismatch(link, call, frame);
    return;
  }
  if (!out || frame->offset > out->length) {
    broken(link, "an answer to a message that it was not sent");
    return;
  }
  if (frame->type == BY_FRAME_DONE) {
    handle_done(link, out, frame->offset == out->length);
    return;
  }
  if (frame->type == BY_FRAME_REFUSE && out->offered && out->by_offer) {
    out->by_offer = false;
    link->refuses = true;
    out->sent = frame->offset;
  }
  if (frame->type == BY_FRAME_GRANT && frame->offset > out->granted) out->granted = frame->offset;
  if (frame->type == BY_FRAME_GRANT) out->asked = false;
  if (out->sent < out->length) by_link_queue(out);
}

static void handle_ask(struct by_link *link, struct by_call *call, const struct by_frame *frame) {
  struct by_in *in = message_in(link, call, frame);
  if (!in) return;
  if (frame->length_check != (uint32_t)in->length) {
    mismatch(link, call, frame);
    return;
  }
  if (in->arrived == in->length) return; /* other lanes were faster */
  in->asked = true;
  by_work_granting(in);
}

/* ---- messages over several lanes: what comes before its turn */

/* So many bytes from there on belong to the message and are not there yet, nor on their way over another lane. */
static bool is_missing(const struct by_link *link, const struct by_in *in, uint64_t from, uint64_t n) {
  uint64_t to = from + n;
  if (from < in->arrived || from > in->length || n > in->length - from) return false;
  if (by_byte_ranges_overlap(&in->ahead, from, to)) return false;
  for (uint32_t i = 0; i < link->n_ends; i++) {
    const struct by_end *end = &link->ends[i];
    if (end->in == in && from < end->at + end->lane->ops->left(end->lane) && end->at < to) return false;
  }
  return true;
}

/* The bytes in front may have closed the gap to the first range. */
static void catch_up(struct by_in *in) {
  uint64_t to = by_byte_ranges_take(&in->ahead, in->arrived);
  if (to > in->arrived) by_work_arrived(in, to - in->arrived);
}

static bool note_ahead(struct by_in *in, uint64_t from, uint64_t to) {
  uint32_t room = in->ahead.room;
  bool added = by_byte_ranges_add(&in->ahead, from, to);
  if (in->ahead.room != room) by_engine_count_allocation(in->call->engine);
  return added;
}

/* Bytes at .. at + n of a message have been put into their place. */
static void placed(struct by_in *in, uint64_t at, size_t n) {
  if (at == in->arrived) {
    by_work_arrived(in, n);
    if (in->ahead.n) catch_up(in);
  } else if (!note_ahead(in, at, at + n)) {
    by_engine_fail(in->call->engine, BANYAN_ERR_NO_MEMORY, UINT32_MAX, "out of memory for the parts of a message");
  }
}

/* ---- the payload of a data frame */

/* The message that a data frame fits; NULL after a failure. */
static inline struct by_in *data_in(struct by_link *link, struct by_call *call, const struct by_frame *frame) {
  struct by_in *in = message_in(link, call, frame);
  uint64_t at = frame->offset;
  if (!in) return NULL;
  if (frame->length_check != (uint32_t)in->length) return mismatch(link, call, frame), NULL;
  bool fits = frame->size <= in->length - in->arrived && at == in->arrived;
  if (link->n_ends > 1) fits = is_missing(link, in, at, frame->size);
  if (in->source == BY_IN_NOTHING) in->source = BY_IN_DATA;
  if (frame->flags & BY_FRAME_HELD) in->held = true;
  if (!fits || in->source != BY_IN_DATA) return broken(link, "data that does not follow what it sent before"), NULL;
  size_t unasked = link->engine->options.unasked;
  if (!by_work_runs_free(in) && at + frame->size > in->granted && at + frame->size > unasked &&
      in->granted < in->length)
    return broken(link, "more than it was granted"), NULL;
  return in;
}

static size_t read_streaming(struct by_lane *lane, char *to, size_t most) {
  const void *bytes;
  size_t n = lane->ops->view(lane, &bytes);
  if (n > most) n = most;
  by_kernel_copy_streaming(to, bytes, n);
  lane->ops->take(lane, n);
  return n;
}

static inline bool move_into(struct by_end *end, struct by_in *in) {
  struct by_lane *lane = end->lane;
  size_t left = lane->ops->left(lane), n = left;
  struct by_call *call = in->call;
  bool in_turn = end->at == in->arrived;
  if (in_turn && call->schedule->steps[call->schedule->incoming[in->incoming].step].kind == BY_STEP_REDUCE) {
    const void *bytes;
    size_t have = lane->ops->view(lane, &bytes);
    size_t used = have ? by_work_direct(in, bytes, have) : 0;
    if (used) {
      lane->ops->take(lane, used);
      end->at += used;
      if (in->ahead.n) catch_up(in);
      return true;
    }
    if (have < call->element && have < left) return false; /* wait for a whole element */
  }
  char *to = by_work_target(in, end->at, &n);
  if (!to || !n) return false;
  n = lane->ops->reads_memory && by_work_streams(in) ? read_streaming(lane, to, n) : lane->ops->read(lane, to, n);
  if (!n) return false;
  end->at += n;
  placed(in, end->at - n, n);
  return true;
}

static bool move_stored(struct by_end *end) {
  struct by_stored *stored = end->filling;
  size_t n = end->lane->ops->read(end->lane, stored->payload + stored->filled, stored->frame.size - stored->filled);
  stored->filled += (uint32_t)n;
  return n > 0;
}

static bool discard(struct by_end *end) {
  const void *bytes;
  size_t n = end->lane->ops->view(end->lane, &bytes);
  if (n) end->lane->ops->take(end->lane, n);
  return n > 0;
}

/* What the peer told us to read has been read, unless it gave up a call that goes on here. Then the region stays
 * mapped until the link ends, and that will be soon. */
static bool still_reads(const struct by_link *link, uint64_t region) {
  for (const struct by_call *call = link->engine->running; call; call = call->next)
    for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
      const struct by_in *in = &call->ins[i];
      bool reads = in->link == link && in->source == BY_IN_MAPPED && in->offer.region == region;
      if (reads && in->consumed < in->length) return true;
    }
  return false;
}

/* Frames that belong to no call. */
static bool of_link(struct by_end *end, const struct by_frame *frame) {
  struct by_link *link = end->link;
  const struct by_lane_ops *ops = end->lane->ops;
  if (frame->type == BY_FRAME_LETTER) {
    const char *wrong = by_letter_begin(link, frame);
    if (wrong) return broken(link, wrong);
    end->letter = true;
    return true;
  }
  if (frame->type == BY_FRAME_CREDIT)
    link->unasked -= frame->offset < link->unasked ? frame->offset : link->unasked;
  else if (frame->type == BY_FRAME_GOODBYE)
    end->leaving = true;
  else if (ops->unmap && !still_reads(link, frame->offset))
    ops->unmap(end->lane, (uint32_t)frame->offset);
  return true;
}

/* Of a plan with helpers: a part that is not under way yet, or no longer. */
static enum by_stray stray_of(const struct by_engine *engine, const struct by_frame *frame) {
  for (const struct by_domain *d = engine->domains; d; d = d->next)
    if (d->id == frame->domain && d->aided && !(frame->flags & BY_FRAME_PAIR)) return by_joint_stray(d, frame);
  return BY_STRAY_NONE;
}

/* Where the frame that just began goes. False: it cannot be handled yet (its payload is not there) or failed. */
static inline bool begin(struct by_end *end, const struct by_frame *frame) {
  struct by_link *link = end->link;
  struct by_lane *lane = end->lane;
  if (frame->type == BY_FRAME_NONE || frame->type >= BY_FRAME_TYPES || frame->size > BY_FRAME_MOST)
    return broken(link, "a frame of no known type");
  if (frame->type >= BY_FRAME_CREDIT) return of_link(end, frame);
  struct by_call *call = find_call(link, frame);
  bool answers = frame->type == BY_FRAME_GRANT || frame->type == BY_FRAME_DONE || frame->type == BY_FRAME_REFUSE;
  if (!call && link->engine->aids) {
    bool keep = false;
    if (by_aid_take(link, frame, &call, &keep) != BANYAN_OK) return broken(link, banyan_error_text());
    if (keep) store(end, frame);
    if (!call) return link->engine->status == BANYAN_OK;
  }
  if (!call) {
    enum by_stray stray = stray_of(link->engine, frame);
    if (stray == BY_STRAY_KEEP) store(end, frame);
    if (stray != BY_STRAY_NONE) return link->engine->status == BANYAN_OK;
    bool early = frame->type == BY_FRAME_GRANT && !(frame->flags & BY_FRAME_PAIR); /* the peer was faster */
    if (answers && (!early || is_past(link->engine, link, frame))) return true;    /* it came too late to matter */
    bool late = link->n_ends > 1 && frame->flags & BY_FRAME_ASK;                   /* other lanes were faster */
    if (is_past(link->engine, link, frame)) return late || surplus(link, frame);
    if (is_gone(link->engine, frame->domain)) {
      by_link_decline(link, frame);
      return true;
    }
    if (!link->running && !link->lettered)
      return false; /* nobody needs what comes behind it: it may stay in the lane */
    store(end, frame);
    return link->engine->status == BANYAN_OK;
  }
  if (frame->type == BY_FRAME_DATA && !(frame->flags & BY_FRAME_ASK)) {
    struct by_in *in = data_in(link, call, frame);
    end->in = in;
    end->at = frame->offset;
    return in != NULL;
  }
  if (frame->type == BY_FRAME_DATA) handle_ask(link, call, frame);
  if (frame->type == BY_FRAME_MORE) handle_more(link, call, frame);
  if (answers) handle_answer(link, call, frame);
  if (frame->type == BY_FRAME_OFFER) {
    struct by_offer offer;
    const void *bytes;
    if (frame->size != sizeof offer) return broken(link, "an offer of the wrong size");
    if (lane->ops->view(lane, &bytes) < sizeof offer) return false;
    memcpy(&offer, bytes, sizeof offer);
    lane->ops->take(lane, sizeof offer);
    handle_offer(link, call, frame, &offer);
  }
  return link->engine->status == BANYAN_OK;
}

bool by_deliver(struct by_end *end) {
  struct by_link *link = end->link;
  struct by_lane *lane = end->lane;
  const struct by_frame *frame = lane->ops->peek(lane);
  if (!frame) return false;
  if (!end->receiving) {
    if (!begin(end, frame)) return false;
    end->receiving = true;
  }
  bool moved = true;
  while (moved && lane->ops->left(lane)) {
    size_t before = lane->ops->left(lane);
    if (end->in)
      moved = move_into(end, end->in);
    else
      moved = end->filling ? move_stored(end) : end->letter ? by_letter_receive(end) : discard(end);
    link->engine->counters.bytes_received += before - lane->ops->left(lane);
  }
  if (lane->ops->left(lane)) return false;
  const struct by_stored *stored = end->filling;
  if (frame->flags & BY_FRAME_UNASKED && !stored) took(link, frame->size);
  link->engine->counters.frames_received++;
  if (end->letter) by_letter_end(link);
  end->receiving = false;
  end->letter = false;
  end->filling = NULL;
  end->in = NULL;
  lane->ops->next(lane);
  /* its call may have been made while the rest of it arrived */
  struct by_call *call = stored ? find_call(link, &stored->frame) : NULL;
  if (call) by_deliver_stored(call, link);
  if (stored && link->engine->aids) link->engine->retry = true; /* what was in its way may be gone */
  return true;
}

/* ---- what was stored, once its call is made */

/* The end at which a frame is still coming in; NULL: it is all there. */
static struct by_end *end_of(struct by_link *link, const struct by_stored *stored) {
  for (uint32_t i = 0; i < link->n_ends; i++)
    if (link->ends[i].filling == stored) return &link->ends[i];
  return NULL;
}

/* What is still to come of it goes straight to its message: on a slow link a frame takes long, and the call would stand
 * still until all of it is there. */
static void replay_data(struct by_link *link, struct by_call *call, const struct by_stored *stored) {
  struct by_end *end = end_of(link, stored);
  struct by_in *in = data_in(link, call, &stored->frame);
  if (end) {
    end->filling = NULL;
    end->in = in;
    end->at = stored->frame.offset + stored->filled;
  }
  if (!in) return;
  for (size_t done = 0; done < stored->filled;) {
    size_t n = stored->filled - done;
    uint64_t at = stored->frame.offset + done;
    char *to = by_work_target(in, at, &n);
    if (!to || !n) {
      broken(link, "more unasked data than a message may hold");
      return;
    }
    memcpy(to, stored->payload + done, n);
    placed(in, at, n);
    done += n;
  }
  if (!end && stored->frame.flags & BY_FRAME_UNASKED) took(link, stored->frame.size);
}

static void replay(struct by_link *link, struct by_call *call, const struct by_stored *stored) {
  const struct by_frame *frame = &stored->frame;
  if (frame->type == BY_FRAME_OFFER) {
    struct by_offer offer;
    if (frame->size != sizeof offer) {
      broken(link, "an offer of the wrong size");
      return;
    }
    memcpy(&offer, stored->payload, sizeof offer);
    handle_offer(link, call, frame, &offer);
  } else if (frame->type == BY_FRAME_MORE) {
    handle_more(link, call, frame);
  } else if (frame->type == BY_FRAME_GRANT) {
    handle_answer(link, call, frame);
  } else if (frame->flags & BY_FRAME_ASK) {
    handle_ask(link, call, frame);
  } else {
    replay_data(link, call, stored);
  }
}

/* Of data what has come will do; of anything else all is needed. */
static bool can_replay(const struct by_stored *stored) {
  const struct by_frame *frame = &stored->frame;
  return stored->filled == frame->size || (frame->type == BY_FRAME_DATA && !(frame->flags & BY_FRAME_ASK));
}

void by_deliver_stored(struct by_call *call, struct by_link *link) {
  struct by_stored **place = &link->stored;
  while (*place && link->engine->status == BANYAN_OK) {
    struct by_stored *stored = *place;
    if (!can_replay(stored) || find_call(link, &stored->frame) != call) {
      place = &stored->next;
      continue;
    }
    *place = stored->next;
    if (!*place) link->stored_end = place;
    link->stored_bytes -= sizeof *stored + stored->frame.size;
    replay(link, call, stored);
    by_engine_give_stored(link->engine, stored);
  }
}

static bool is_of(const struct by_frame *frame, uint32_t call, uint32_t version) {
  return !(frame->flags & BY_FRAME_PAIR) && frame->call == call && (!version || frame->plan == version);
}

/* `call` NULL: all of the domain. */
static void forget_stored(struct by_link *link, uint32_t domain, const uint32_t *call, uint32_t version) {
  struct by_stored **place = &link->stored;
  while (*place) {
    struct by_stored *stored = *place;
    if (stored->frame.domain != domain || (call && !is_of(&stored->frame, *call, version))) {
      place = &stored->next;
      continue;
    }
    bool whole = true; /* else the rest of it still comes */
    for (uint32_t i = 0; i < link->n_ends; i++) {
      if (link->ends[i].filling != stored) continue;
      link->ends[i].filling = NULL;
      whole = false;
    }
    if (!call) by_link_decline(link, &stored->frame);
    *place = stored->next;
    link->stored_bytes -= sizeof *stored + stored->frame.size;
    if (whole && stored->frame.flags & BY_FRAME_UNASKED) took(link, stored->frame.size);
    by_engine_give_stored(link->engine, stored);
  }
  link->stored_end = place;
}

void by_deliver_forget(struct by_link *link, uint32_t domain) {
  forget_stored(link, domain, NULL, 0);
}

void by_deliver_forget_call(struct by_link *link, uint32_t domain, uint32_t call, uint32_t version) {
  if (link->stored) forget_stored(link, domain, &call, version);
}
