/* Finds the calls and messages of the frames that arrive on links, for the transfer. */
#include <string.h>

#include "deliver.h"
#include "engine_parts.h"
#include "work.h"

/* Fails the link because of two different calls of one number. `ours` is this rank's; NULL: no longer known. */
static void fail_differing(struct by_transfer_link *link, const struct by_frame *ours, const struct by_frame *frame) {
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

static void fail_mismatch(struct by_transfer_link *link, const struct by_exchange *exchange,
                          const struct by_frame *frame) {
  fail_differing(link, &exchange->descriptor, frame);
}

static bool is_same_call(const struct by_exchange *exchange, const struct by_frame *frame) {
  const struct by_frame *descriptor = &exchange->descriptor;
  bool same = frame->collective == descriptor->collective && frame->root == descriptor->root;
  return (exchange->pair || same) && frame->dtype_op == descriptor->dtype_op && frame->count == descriptor->count &&
         frame->plan == descriptor->plan;
}

static struct by_exchange *find_exchange(struct by_transfer_link *link, const struct by_frame *frame) {
  const struct by_team *d = by_team_of(by_runner_of(link->transfer), frame->team);
  if (!d) return NULL;
  struct by_call *call = by_call_find(d, frame, d->rank_of[link->process]);
  if (call && call->recoverable)
    call = by_recoverable_find(call, frame);
  else if (!call && !(frame->flags & BY_FRAME_PAIR))
    call = by_relay_find(d, frame);
  return call ? &call->exchange : NULL;
}

static struct by_in *find_incoming(struct by_transfer_link *link, struct by_exchange *exchange,
                                   const struct by_frame *frame) {
  const struct by_call *call = by_call_of(exchange);
  const struct by_peer *peer = by_program_peer(call->program, link);
  uint32_t tag = exchange->pair ? 0 : frame->tag;
  if (!is_same_call(exchange, frame)) {
    fail_mismatch(link, exchange, frame);
    return NULL;
  }
  if (!peer || tag >= peer->n_in) {
    (void)by_deliver_broken(link, "a message that the schedule does not have");
    return NULL;
  }
  return &call->ins[call->schedule->lookup[peer->first_in + tag]];
}

static struct by_out *find_outgoing(struct by_transfer_link *link, struct by_exchange *exchange,
                                    const struct by_frame *frame) {
  const struct by_call *call = by_call_of(exchange);
  const struct by_peer *peer = by_program_peer(call->program, link);
  uint32_t tag = exchange->pair ? 0 : frame->tag;
  if (frame->type == BY_FRAME_GRANT && !is_same_call(exchange, frame)) {
    fail_mismatch(link, exchange, frame);
    return NULL;
  }
  if (!peer || tag >= peer->n_out) return NULL;
  return &call->outs[call->program->first_out[peer - call->schedule->peers] + tag];
}

/* ---- frames without a running call */

/* Fails the link, whose peer sent more than this rank's call of that number receives. */
static void fail_surplus(struct by_transfer_link *link, const struct by_team *team, const struct by_frame *frame) {
  const struct by_frame *ours = &team->past[frame->call % BY_PAST];
  bool known = !(frame->flags & BY_FRAME_PAIR) && ours->call == frame->call;
  fail_differing(link, known ? ours : NULL, frame);
}

/* Classifies a frame at a rank, which makes its calls itself. */
static enum by_unmatched classify_at_rank(struct by_transfer_link *link, const struct by_frame *frame, bool answers) {
  const struct by_runner *runner = by_runner_of(link->transfer);
  const struct by_team *d = by_team_of(runner, frame->team);
  if (d && d->recovery.relayed && !(frame->flags & BY_FRAME_PAIR)) {
    enum by_unmatched verdict = by_recoverable_classify(d, frame);
    if (verdict != BY_UNMATCHED_FOUND) return verdict;
  }
  bool past = d && by_team_is_past(d, frame, d->rank_of[link->process]);
  bool early = frame->type == BY_FRAME_GRANT && !(frame->flags & BY_FRAME_PAIR); /* The peer made its call earlier. */
  if (answers && (!early || past)) return BY_UNMATCHED_HANDLED;                  /* It came too late to matter. */
  if (past) {
    bool late = link->n_ends > 1 && frame->flags & BY_FRAME_ASK; /* Other lanes were faster. */
    if (!late) fail_surplus(link, d, frame);
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

/* Lets kept frames be retried, since what blocked them may have changed. */
static void note_kept(struct by_transfer *transfer) {
  struct by_recovery *recovery = &by_engine_of(transfer)->recovery;
  if (recovery->relays) recovery->retry = true;
}

/* Whether a running call still reads a region that the peer frees. It has been read, unless the peer gave up a call
 * that goes on here. Then it stays mapped until the link ends, which will be soon. */
static bool reads_region(const struct by_transfer_link *link, uint64_t region) {
  for (const struct by_call *call = LIST_FIRST(&by_runner_of(link->transfer)->running); call;
       call = LIST_NEXT(call, next))
    for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
      const struct by_in *in = &call->ins[i];
      bool mapped = in->link == link && in->source == BY_IN_MAPPED && in->offer.region == region;
      if (mapped && in->consumed < in->length) return true;
    }
  return false;
}

static void drop_exchange(struct by_exchange *exchange) {
  by_call_drop(by_call_of(exchange));
}

static void fail_engine(struct by_transfer *transfer, uint32_t process) {
  by_engine_failed(by_engine_of(transfer), process);
}

const struct by_transfer_ops by_engine_ops = {.find = find_exchange,
                                              .classify = classify_frame,
                                              .incoming = find_incoming,
                                              .outgoing = find_outgoing,
                                              .mismatch = fail_mismatch,
                                              .kept = note_kept,
                                              .reads = reads_region,
                                              .add = by_work_add,
                                              .arrived = by_work_arrived,
                                              .offered = by_work_offered,
                                              .summed = by_work_summed,
                                              .sent = by_work_sent,
                                              .idle = drop_exchange,
                                              .failed = fail_engine};
