/* Whose messages the frames are that come in on links, and what becomes of messages: what the transfer asks. */
#include <string.h>

#include "deliver.h"
#include "engine_parts.h"
#include "work.h"

/* `ours` is what this rank calls, or called, under the same number; NULL: no longer known. */
static void differs(struct by_transfer_link *link, const struct by_frame *ours, const struct by_frame *frame) {
  char text[BY_TEXT_BYTES], name[BY_NAME_BYTES], self[BY_NAME_BYTES];
  const struct by_transfer *transfer = link->transfer;
  const struct by_team *team = by_team_of(by_runner_of(transfer), frame->team);
  struct by_differing a = {by_transfer_name(transfer, link->process, name), frame,
                           by_team_name_plan(team, frame->plan)};
  struct by_differing b = {by_transfer_name(transfer, transfer->options.self, self), ours,
                           ours ? by_team_name_plan(team, ours->plan) : NULL};
  by_engine_differ_text(&a, &b, text, sizeof text);
  by_transfer_fail(link->transfer, BANYAN_ERR_MISMATCH, link->process, text);
}

static void mismatch(struct by_transfer_link *link, const struct by_exchange *exchange, const struct by_frame *frame) {
  differs(link, &exchange->descriptor, frame);
}

static bool same_call(const struct by_exchange *exchange, const struct by_frame *frame) {
  const struct by_frame *descriptor = &exchange->descriptor;
  bool same = frame->collective == descriptor->collective && frame->root == descriptor->root;
  return (exchange->pair || same) && frame->dtype_op == descriptor->dtype_op && frame->count == descriptor->count &&
         frame->plan == descriptor->plan;
}

static struct by_exchange *find(struct by_transfer_link *link, const struct by_frame *frame) {
  const struct by_team *d = by_team_of(by_runner_of(link->transfer), frame->team);
  if (!d) return NULL;
  struct by_call *call = by_call_find(d, frame, d->rank_of[link->process]);
  if (call && call->recoverable)
    call = by_recoverable_find(call, frame);
  else if (!call && !(frame->flags & BY_FRAME_PAIR))
    call = by_relay_find(d, frame);
  return call ? &call->exchange : NULL;
}

static struct by_in *incoming(struct by_transfer_link *link, struct by_exchange *exchange,
                              const struct by_frame *frame) {
  const struct by_call *call = by_call_of(exchange);
  const struct by_peer *peer = by_program_peer(call->program, link);
  uint32_t tag = exchange->pair ? 0 : frame->tag;
  if (!same_call(exchange, frame)) {
    mismatch(link, exchange, frame);
    return NULL;
  }
  if (!peer || tag >= peer->n_in) {
    (void)by_deliver_broken(link, "a message that the schedule does not have");
    return NULL;
  }
  return &call->ins[call->schedule->lookup[peer->first_in + tag]];
}

static struct by_out *outgoing(struct by_transfer_link *link, struct by_exchange *exchange,
                               const struct by_frame *frame) {
  const struct by_call *call = by_call_of(exchange);
  const struct by_peer *peer = by_program_peer(call->program, link);
  uint32_t tag = exchange->pair ? 0 : frame->tag;
  if (frame->type == BY_FRAME_GRANT && !same_call(exchange, frame)) {
    mismatch(link, exchange, frame);
    return NULL;
  }
  if (!peer || tag >= peer->n_out) return NULL;
  return &call->outs[call->program->first_out[peer - call->schedule->peers] + tag];
}

/* ---- frames of no call under way */

/* More than this rank's call of that number had to receive. */
static void surplus(struct by_transfer_link *link, const struct by_team *team, const struct by_frame *frame) {
  const struct by_frame *ours = &team->past[frame->call % BY_PAST];
  bool known = !(frame->flags & BY_FRAME_PAIR) && ours->call == frame->call;
  differs(link, known ? ours : NULL, frame);
}

/* Of a rank, which makes its calls itself. */
static enum by_unmatched classify_at_rank(struct by_transfer_link *link, const struct by_frame *frame, bool answers) {
  const struct by_runner *runner = by_runner_of(link->transfer);
  const struct by_team *d = by_team_of(runner, frame->team);
  if (d && d->recovery.relayed && !(frame->flags & BY_FRAME_PAIR)) {
    enum by_unmatched verdict = by_recoverable_classify(d, frame);
    if (verdict != BY_UNMATCHED_FOUND) return verdict;
  }
  bool past = d && by_team_is_past(d, frame, d->rank_of[link->process]);
  bool early = frame->type == BY_FRAME_GRANT && !(frame->flags & BY_FRAME_PAIR); /* the peer was faster */
  if (answers && (!early || past)) return BY_UNMATCHED_HANDLED;                  /* it came too late to matter */
  if (past) {
    bool late = link->n_ends > 1 && frame->flags & BY_FRAME_ASK; /* other lanes were faster */
    if (!late) surplus(link, d, frame);
    return BY_UNMATCHED_HANDLED;
  }
  if (by_team_is_gone(runner, frame->team)) return BY_UNMATCHED_DECLINE;
  return link->running || link->expects_messages ? BY_UNMATCHED_KEEP : BY_UNMATCHED_WAIT;
}

static enum by_unmatched classify_frame(struct by_transfer_link *link, const struct by_frame *frame, bool answers,
                                        struct by_exchange **exchange) {
  struct by_recovery *recovery = &by_engine_of(link->transfer)->recovery;
  if (!recovery->relays) return classify_at_rank(link, frame, answers);
  struct by_call *call = NULL;
  bool keep = false;
  if (by_relay_take(recovery, link, frame, &call, &keep) != BANYAN_OK) {
    (void)by_deliver_broken(link, banyan_error_text());
    return BY_UNMATCHED_HANDLED;
  }
  if (call) *exchange = &call->exchange;
  return call ? BY_UNMATCHED_FOUND : keep ? BY_UNMATCHED_KEEP : BY_UNMATCHED_HANDLED;
}

/* What was in its way may be gone. */
static void kept(struct by_transfer *transfer) {
  struct by_recovery *recovery = &by_engine_of(transfer)->recovery;
  if (recovery->relays) recovery->retry = true;
}

/* What the peer offered has been read, unless it gave up a call that goes on here. Then the region stays
 * mapped until the link ends, and that will be soon. */
static bool reads(const struct by_transfer_link *link, uint64_t region) {
  for (const struct by_call *call = LIST_FIRST(&by_runner_of(link->transfer)->running); call;
       call = LIST_NEXT(call, next))
    for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
      const struct by_in *in = &call->ins[i];
      bool mapped = in->link == link && in->source == BY_IN_MAPPED && in->offer.region == region;
      if (mapped && in->consumed < in->length) return true;
    }
  return false;
}

static void idle(struct by_exchange *exchange) {
  by_call_drop(by_call_of(exchange));
}

static void failed(struct by_transfer *transfer, uint32_t process) {
  by_engine_failed(by_engine_of(transfer), process);
}

const struct by_transfer_ops by_engine_ops = {.find = find,
                                              .classify = classify_frame,
                                              .incoming = incoming,
                                              .outgoing = outgoing,
                                              .mismatch = mismatch,
                                              .kept = kept,
                                              .reads = reads,
                                              .add = by_work_add,
                                              .arrived = by_work_arrived,
                                              .offered = by_work_offered,
                                              .summed = by_work_summed,
                                              .sent = by_work_sent,
                                              .idle = idle,
                                              .failed = failed};
