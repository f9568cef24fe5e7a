/* What a worker does about results that do not come:
 *
 *   overtaken by later ones, or the last: PROBE with RETX, which asks for the
 *          result if there is one; a cell in which the term waits for others
 *          swallows it, otherwise there is a reply
 *   time is up -> PROBE -> reply: my term is at the server, or in a cell that
 *                                still fills: others are late, wait
 *                         the sum is finished: if its result does not come
 *                                after all, ask for it
 *                         my term is nowhere, or in a full cell whose sum got
 *                                lost: send it again
 *                         terms have come past the switches, so cells may
 *                                never fill: send it past them too; so if what
 *                                my cell waits for is further up
 *                         no reply, four times: send past the switches, and
 *                                without their stack, for the rest of the call
 *
 * Who sees that others overtake something names the newest result that it has: what was sent later is on its way.
 *
 * While most answers are "wait", few are asked about at once. From the third time on
 * without success, the next wait doubles. */
#include <stdarg.h>
#include <stdio.h>

#include "clock.h"
#include "fail.h"
#include "log.h"
#include "worker_parts.h"

enum { UNANSWERED = 4, RESENT = 3, DOUBLED_FROM = 3, OVERTAKEN = 8 };
enum { FILLING = 1, RELEASED = 3 }; /* cells in a probe's records */

static const double first_wait = 20e6, least_wait = 10e6, most_wait = 200e6, reorder = 1e6; /* ns */
static const double idle_wait = 3e6;                                                        /* beside round trips */
static const uint64_t moment = BY_MILLISECOND;        /* in which a result comes that was sent beside a reply */
static const uint64_t silence = 150 * BY_MILLISECOND; /* before a way counts as dead */
/* Terms may wait for each other in cells on different ways: a slot that has waited so long does not rely on cells. */
static const uint64_t torn_after = 3 * BY_SECOND;

/* --- the list of deadlines: waits are alike, so the place of a new one is near its end --- */

void by_worker_unlink(struct by_worker *w, struct slot *slot) {
  if (slot->linked) TAILQ_REMOVE(&w->deadlines, slot, link);
  slot->linked = false;
}

static void link_at(struct by_worker *w, struct slot *slot, uint64_t deadline) {
  by_worker_unlink(w, slot);
  struct slot *before = TAILQ_LAST(&w->deadlines, deadlines);
  while (before && before->deadline > deadline) before = TAILQ_PREV(before, deadlines, link);
  if (before)
    TAILQ_INSERT_AFTER(&w->deadlines, before, slot, link);
  else
    TAILQ_INSERT_HEAD(&w->deadlines, slot, link);
  slot->deadline = deadline;
  slot->linked = true;
}

/* Too few will be sent after it to overtake it. */
static bool is_last(const struct by_worker *w, const struct slot *slot) {
  return slot->number + (uint64_t)(w->window / 2) + 1 >= w->end;
}

/* The first wait is longer: while the window doubles, so do queues. Round trips that were long because others waited
 * for something that was lost must not make this worker wait as long for what it has lost itself. Who has looked for a
 * result waits for two round trips, as another worker may have to find out that its term was lost, and to send it. */
static uint64_t wait_of(const struct by_worker *w, const struct slot *slot) {
  double wait = w->srtt > 0 ? w->srtt + 4 * w->rttvar : first_wait;
  if (w->least > 0 && wait > 2 * (w->least + BY_WORKER_QUEUED)) wait = 2 * (w->least + BY_WORKER_QUEUED);
  if (!slot->timeouts && is_last(w, slot) && w->srtt > 0) return (uint64_t)(w->srtt + 2 * w->rttvar + reorder);
  /* Nothing more is to be sent, so that queues are short, and whatever is late keeps the call from ending. */
  if (slot->timeouts && slot->timeouts <= DOUBLED_FROM && w->least > 0 && by_worker_first_ready(w) >= w->end)
    return (uint64_t)(2 * w->least + idle_wait);
  if (!slot->timeouts) wait += wait < least_wait ? least_wait : w->srtt;
  if (slot->timeouts == 1 && slot->asked) wait *= 2;
  unsigned doublings = slot->timeouts < DOUBLED_FROM ? 0 : slot->timeouts - DOUBLED_FROM;
  wait *= (double)(1u << (doublings < 8 ? doublings : 8));
  if (wait < least_wait) wait = least_wait;
  return (uint64_t)(wait < most_wait ? wait : most_wait);
}

/* Smoothed as TCP does (RFC 6298). A result that has let others wait shows nothing of the network, but the reply to a
 * probe does. */
void by_worker_sample(struct by_worker *w, uint64_t rtt) {
  double sample = (double)rtt < most_wait / 2 ? (double)rtt : most_wait / 2;
  double error = sample > w->srtt ? sample - w->srtt : w->srtt - sample;
  if (w->srtt > 0) {
    w->rttvar += (error - w->rttvar) / 4;
    w->srtt += (sample - w->srtt) / 8;
  } else {
    w->srtt = sample;
    w->rttvar = sample / 2;
  }
}

/* --- sending --- */

static void put_stack(struct by_worker *w, const struct call *call, struct by_fragment *packet) {
  packet->hop = packet->hops = 0;
  if (call->direct) return;
  for (unsigned i = 0; i < w->config.hops; i++) packet->stack[i] = w->config.stack[i];
  packet->hops = w->config.hops & 15;
}

void by_worker_send(struct by_worker *w, struct slot *slot, uint8_t flags, uint64_t now) {
  struct by_fragment *packet = packet_of(w, slot->number);
  const struct call *call = by_worker_call_of(w, slot->number);
  put_stack(w, call, packet);
  slot->straight = call->direct;
  packet->flags |= flags | (call->direct || slot->past ? BY_FRAGMENT_ESCALATE : 0);
  by_fragment_seal(packet);
  by_worker_answered(w, slot);
  if (flags & BY_FRAGMENT_RETX)
    w->counters.retransmitted++;
  else
    w->counters.sent++;
  link_at(w, slot, now + wait_of(w, slot));
  w->config.emit(w->config.context, packet);
}

/* Past the switches, to the server alone. */
static void escalate(struct by_worker *w, struct slot *slot, uint64_t now) {
  w->counters.escalated++;
  if (slot->resent < UINT8_MAX) slot->resent++;
  by_worker_send(w, slot, BY_FRAGMENT_ESCALATE | BY_FRAGMENT_RETX, now);
}

static void send_again(struct by_worker *w, struct slot *slot, uint64_t now) {
  if (slot->sent > w->halved) w->lost++;
  if (slot->resent >= RESENT) {
    escalate(w, slot, now);
    return;
  }
  slot->resent++;
  by_worker_send(w, slot, BY_FRAGMENT_RETX, now);
}

/* --- questions --- */

void by_worker_answered(struct by_worker *w, struct slot *slot) {
  if (slot->questioned) w->questioned--;
  slot->questioned = false;
}

/* With RETX it asks for the result, with STALE one that is known to be there, with ESCALATE for this worker alone; and
 * if `after` is not 0, only if it was sent before that fragment's, minus 1. */
static void send_probe(struct by_worker *w, struct slot *slot, uint8_t flags, uint64_t after, uint64_t now) {
  struct {
    struct by_fragment head;
    struct by_probe_payload payload;
  } probe = {.payload = {.newest = after}};
  const struct by_fragment *packet = packet_of(w, slot->number);
  by_fragment_begin(&probe.head, BY_FRAGMENT_PROBE, packet->rank);
  probe.head.job = packet->job;
  probe.head.key = packet->key;
  probe.head.slot = packet->slot;
  probe.head.epoch = packet->epoch;
  probe.head.call = packet->call;
  probe.head.flags = flags;
  probe.head.check = by_sum_header_check(&w->key, &probe.head);
  put_stack(w, by_worker_call_of(w, slot->number), &probe.head);
  by_fragment_seal(&probe.head);
  w->counters.probes++;
  slot->probed = now;
  link_at(w, slot, now + wait_of(w, slot));
  w->config.emit(w->config.context, &probe.head);
}

/* --- time is up --- */

static void BY_PRINTF(3, 4) fail(struct by_worker *w, enum banyan_status status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(w->text, sizeof w->text, format, values);
  va_end(values);
  w->status = status;
}

/* Neither the switches nor the server have answered. */
static void go_straight(struct by_worker *w, struct slot *slot, uint64_t now) {
  struct call *call = by_worker_call_of(w, slot->number);
  if (!call->direct)
    by_warn("innetwork", "worker %u of tree %u: no answer along the switches; sending straight to the server",
            w->config.rank, w->config.job);
  call->direct = true;
  slot->unanswered = 0;
  escalate(w, slot, now);
}

/* If there is a result, several workers may lack it: the first time the answer is for all. */
static void ask_for_result(struct by_worker *w, struct slot *slot, uint8_t flags, uint64_t after, uint64_t now) {
  if (slot->asked) flags |= BY_FRAGMENT_ESCALATE;
  if (slot->asked < UINT8_MAX) slot->asked++;
  send_probe(w, slot, BY_FRAGMENT_RETX | flags, after, now);
}

void by_worker_ask_again(struct by_worker *w, struct slot *slot, uint64_t now) {
  ask_for_result(w, slot, BY_FRAGMENT_STALE, 0, now);
}

/* A slot that has to wait for others' answers comes before these again: otherwise the same few ask for ever, for what
 * waits for the others. */
static void ask_what_happened(struct by_worker *w, struct slot *slot, uint64_t now) {
  if (!slot->questioned && w->questioned >= (uint32_t)w->questions) {
    if (slot->timeouts > 1) slot->timeouts--;
    link_at(w, slot, now + (uint64_t)least_wait);
    return;
  }
  w->questioned += !slot->questioned;
  slot->questioned = true;
  if (slot->unanswered < UINT8_MAX) slot->unanswered++;
  send_probe(w, slot, 0, 0, now);
}

static void expire(struct by_worker *w, struct slot *slot, bool last, uint64_t after, uint64_t now) {
  if (now - w->received > w->config.timeout && now > w->received) {
    fail(w, BANYAN_ERR_PEER_DEAD,
         "the aggregation server of tree %u has been silent for %.1f s; see whether it runs and can be reached",
         w->config.job, by_clock_to_seconds(now - w->received));
    return;
  }
  if (!slot->timeouts) w->flying--; /* lost or waiting somewhere: it leaves room for others */
  if (slot->timeouts < UINT8_MAX) slot->timeouts++;
  if ((slot->unanswered >= UNANSWERED && now - w->received >= silence) ||
      (by_worker_call_of(w, slot->number)->direct && !slot->straight)) {
    go_straight(w, slot, now);
  } else if (slot->finished) {
    if (slot->unanswered < UINT8_MAX) slot->unanswered++;
    if (!slot->asked && slot->sent > w->halved) w->lost++;
    ask_for_result(w, slot, BY_FRAGMENT_STALE, 0, now);
  } else if (last) {
    ask_for_result(w, slot, 0, after, now);
  } else {
    ask_what_happened(w, slot, now);
  }
}

/* Results come in the order of terms, or nearly so: one whose successors are answered, so that it is overtaken, has
 * lost something, or waits for a worker that has. */
void by_worker_expire(struct by_worker *w, uint64_t now) {
  struct slot *slot, *next;
  while (!w->status && (slot = TAILQ_FIRST(&w->deadlines)) && slot->deadline <= now)
    expire(w, slot, !slot->timeouts && is_last(w, slot), 0, now);
  slot = TAILQ_FIRST(&w->deadlines);
  for (int i = 0; i < OVERTAKEN && slot && !w->status; i++, slot = next) {
    uint64_t margin = (uint64_t)(w->srtt / 4 > reorder ? w->srtt / 4 : reorder);
    next = TAILQ_NEXT(slot, link);
    if (!slot->timeouts && slot->sent + margin < w->answered) expire(w, slot, true, w->newest, now);
  }
}

/* --- what the server replies --- */

/* The switch nearest to the server that knows anything of this worker's term decides. *torn: a cell on the way waits
 * for terms that are further up already: they went past it, while a switch was away. */
static bool waits_in_a_cell(const struct by_worker *w, const struct by_fragment *reply, const struct slot *slot,
                            bool *torn) {
  const struct by_probe *r = (const struct by_probe *)(const void *)(reply + 1);
  uint64_t above = reply->workers;
  bool known = false, waits = false;
  *torn = false;
  for (unsigned i = 0; i < w->config.hops; i++, r++) {
    if (!r->seen || !r->granted || r->epoch != (uint32_t)(slot->number / w->config.slots)) continue;
    bool has_mine = r->workers >> w->config.rank & 1;
    if (has_mine && !known) waits = r->state == FILLING;
    known |= has_mine;
    if (r->state == RELEASED) continue;
    if (r->state == FILLING && (w->config.below[i] & ~r->workers & above)) *torn = true;
    above |= r->workers;
  }
  return waits;
}

/* The more terms and results turn out to be lost, the more questions are asked. */
static void learn(struct by_worker *w, bool lost) {
  w->questions = lost ? 2 * w->questions : w->questions * 3 / 4;
  if (w->questions < QUESTIONS) w->questions = QUESTIONS;
  if (w->questions > w->config.slots) w->questions = w->config.slots;
}

void by_worker_take_reply(struct by_worker *w, const struct by_fragment *reply, uint64_t now) {
  struct slot *slot = &w->slots[reply->slot];
  slot->unanswered = 0;
  by_worker_answered(w, slot);
  if (slot->probed) by_worker_sample(w, now - slot->probed);
  slot->probed = 0;
  if (reply->workers == w->all) {
    learn(w, true);
    slot->finished = true;
    link_at(w, slot, now + moment);
    return;
  }
  if (reply->workers >> w->config.rank & 1) {
    learn(w, false);
    return;
  }
  bool torn, waits = waits_in_a_cell(w, reply, slot, &torn), past = reply->flags & BY_FRAGMENT_ESCALATE || torn;
  learn(w, !waits || past);
  if (past)
    escalate(w, slot, now);
  else if (now > slot->sent + torn_after)
    by_worker_send(w, slot, BY_FRAGMENT_ESCALATE | BY_FRAGMENT_RETX, now);
  else if (!waits)
    send_again(w, slot, now);
}

/* "1, 3 and 7"; as many as fit. */
static void print_workers(char *out, size_t room, uint64_t workers) {
  size_t at = 0;
  for (out[0] = 0; workers && at < room; workers &= workers - 1) {
    const char *gap = !at ? "" : workers & (workers - 1) ? ", " : " and ";
    at += (size_t)snprintf(out + at, room - at, "%s%d", gap, __builtin_ctzll(workers));
  }
}

void by_worker_take_nack(struct by_worker *w, const struct by_fragment *nack, uint64_t now) {
  struct slot *slot = &w->slots[nack->slot];
  if (nack->flags & BY_FRAGMENT_ESCALATE) {
    by_worker_answered(w, slot);
    if (!slot->nacked) escalate(w, slot, now);
    slot->nacked = true;
    return;
  }
  if (nack->call == packet_of(w, slot->number)->call) return; /* it was for those that have made the other call */
  char others[100];
  const struct call *call = by_worker_call_of(w, slot->number);
  print_workers(others, sizeof others, nack->workers);
  fail(w, BANYAN_ERR_MISMATCH, "worker %u sums %zu elements of %s (%s) over tree %u while %s made another call",
       w->config.rank, call->count, banyan_dtype_name(call->dtype), banyan_op_name(call->op), w->config.job, others);
}
