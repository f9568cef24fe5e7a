/* What a worker does about results that do not come:
 *
 *   overtaken by results of later terms, or silence -> PROBE with RETX, which
 *          asks for the result if there is one. A cell in which the term waits
 *          for others swallows it, and so does the server. Otherwise:
 *          the result
 *          reply: my term is nowhere, or in a full cell whose sum got lost:
 *                 send it again
 *   silence before the end of the call, long silence, and every fourth time -> PROBE, which the server always answers:
 *          my term is at the server, or in a cell that still fills: others are
 *                 late, wait
 *          the sum is finished: ask for it
 *          terms have come past the switches, so cells may never fill: send it
 *                 past them too; so if what my cell waits for is further up
 *          no reply, eight times, for much longer than ever lately, while
 *          questions past the switches are answered: send past the switches,
 *                 and without their stack, until one along them is answered
 *
 * Who sees that others overtake something names the newest result that it has: what was sent later is on its way. */
#include <stdarg.h>
#include <stdio.h>

#include "clock.h"
#include "fail.h"
#include "log.h"
#include "worker_parts.h"

enum {
  UNANSWERED = 8, /* questions, before a way counts as dead */
  SILENCES = 4,   /* so much longer than ever lately has to be its silence */
  TEARS = 32,     /* so many answers may a term wait for in cells, beside torn_after */
  TRIALS = 3,     /* questions past the switches in that time */
  RESENT = 3,     /* times along the switches, then past them */
  OVERTAKEN = 8,  /* slots that are looked at in a step */
  ANSWERED = 4,   /* one of so many questions is always answered */
  LONG = 2,       /* rounds of silence, after which each is */
  DOUBLINGS = 7,
  BACKED_OFF = 8,
  ALONE = 20 /* own results in a row: those for all do not arrive */
};
enum { FILLING = 1, RELEASED = 3 }; /* cells in a probe's records */

static const double first_wait = 20e6, most_wait = 200e6, unanswered_wait = 20e6, reorder = 250e3; /* ns */
static const double least_silence = 10e6; /* while more is to be sent: processes may pause for so long */
/* Before a way counts as dead. */
static const uint64_t least_death = 150 * BY_MILLISECOND, most_death = 2 * BY_SECOND;
static const uint64_t trial_every = 100 * BY_MILLISECOND; /* whether it is alive again */
static const double forgotten_after = 60e9;               /* ns: slow answers */
/* Terms may wait for each other in cells on different ways: a slot that has waited so long does not rely on cells. */
static const uint64_t torn_after = 3 * BY_SECOND;

/* --- waits --- */

/* By how much what overtakes must have been sent later, as RFC 8985 has it. */
static uint64_t margin_of(const struct by_worker *w) {
  double margin = w->least / 4;
  return (uint64_t)(margin > reorder ? margin : reorder);
}

/* A round trip where queues are short. */
static double round_of(const struct by_worker *w) {
  double jitter = w->rttvar < w->queued / 8 ? w->rttvar : w->queued / 8;
  return w->least > 0 ? 1.5 * w->least + 2 * jitter + 2 * reorder : first_wait;
}

/* As long as nothing is answered, no longer than it took lately. */
static uint64_t doubled(const struct by_worker *w, double wait) {
  double most = !w->way.unanswered                         ? most_wait
                : (double)w->way.slowest > unanswered_wait ? (double)w->way.slowest
                                                           : unanswered_wait;
  if (most > most_wait) most = most_wait;
  wait *= (double)(1u << w->silent);
  return (uint64_t)(wait < most ? wait : most);
}

/* Each question about a slot is given a tenth longer than the one before it: those that are answered late must not fill
 * the queues in which the answers wait. */
static double backed_off(const struct by_worker_slot *slot, double wait) {
  for (unsigned i = 1; i < slot->asked && i < BACKED_OFF; i++) wait *= 1.1;
  return wait;
}

/* Round trips that were long because others waited for something that was lost must not make this worker wait as long
 * for what it has lost itself. When nothing more is to be sent, queues are short, and whatever is late keeps the call
 * from ending. */
static uint64_t wait_of(const struct by_worker *w, const struct by_worker_slot *slot, bool more) {
  double wait = round_of(w) > 1.25 * w->repair + reorder ? round_of(w) : 1.25 * w->repair + reorder;
  double usual = w->srtt + 4 * w->rttvar + (double)margin_of(w);
  if (!slot->late || more) wait = w->srtt > 0 ? usual : first_wait;
  if (w->least > 0 && wait > 2 * (w->least + w->queued)) wait = 2 * (w->least + w->queued);
  return doubled(w, backed_off(slot, wait));
}

/* --- the list by `due`: most are due as soon as they are sent, so the place of a new one is near its end --- */

void by_worker_unlink(struct by_worker *w, struct by_worker_slot *slot) {
  if (slot->linked) TAILQ_REMOVE(&w->order, slot, link);
  slot->linked = false;
}

static void link_at(struct by_worker *w, struct by_worker_slot *slot, uint64_t due) {
  by_worker_unlink(w, slot);
  struct by_worker_slot *before = TAILQ_LAST(&w->order, order);
  while (before && before->due > due) before = TAILQ_PREV(before, order, link);
  if (before)
    TAILQ_INSERT_AFTER(&w->order, before, slot, link);
  else
    TAILQ_INSERT_HEAD(&w->order, slot, link);
  slot->due = due;
  slot->linked = true;
}

/* Something is sent about the slot; `later`, ns: how much later sent terms have to be that overtake it. */
static void touch(struct by_worker *w, struct by_worker_slot *slot, double later, uint64_t now) {
  slot->touched = now;
  link_at(w, slot, now + (uint64_t)later);
  if (w->timer > now + (uint64_t)round_of(w)) w->timer = now + (uint64_t)round_of(w);
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

void by_worker_repaired(struct by_worker *w, const struct by_worker_slot *slot, uint64_t now) {
  if (slot->asked <= 1 && slot->probed) w->repair = (w->repair + (double)(now - slot->probed)) / 2;
}

/* --- sending --- */

static void put_stack(struct by_worker *w, bool straight, struct by_fragment *packet) {
  packet->hop = packet->hops = 0;
  if (straight) return;
  for (unsigned i = 0; i < w->config.hops; i++) packet->stack[i] = w->config.stack[i];
  packet->hops = w->config.hops & 15;
}

void by_worker_send(struct by_worker *w, struct by_worker_slot *slot, uint8_t flags, uint64_t now) {
  struct by_fragment *packet = packet_of(w, slot->number);
  put_stack(w, w->way.dead, packet);
  slot->straight |= w->way.dead;
  packet->flags |= flags | (w->way.dead || slot->past ? BY_FRAGMENT_ESCALATE : 0);
  by_fragment_sign(packet, w->hop);
  if (flags & BY_FRAGMENT_RETX)
    w->counters.retransmitted++;
  else
    w->counters.sent++;
  touch(w, slot, 0, now);
  w->config.emit(w->config.context, packet);
}

/* Past the switches, to the server alone. */
static void escalate(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  w->counters.escalated++;
  if (slot->resent < UINT8_MAX) slot->resent++;
  by_worker_send(w, slot, BY_FRAGMENT_ESCALATE | BY_FRAGMENT_RETX, now);
}

static void send_again(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  if (slot->sent > w->halved) w->lost++;
  if (slot->resent >= RESENT) {
    escalate(w, slot, now);
    return;
  }
  slot->resent++;
  by_worker_send(w, slot, BY_FRAGMENT_RETX, now);
}

/* --- questions --- */

/* With RETX it asks for the result, with STALE one that is known to be there; unless `quiet`, only if it was sent
 * before the newest that has come. `straight`: past the switches, without their stack. */
static void put_probe(struct by_worker *w, struct by_worker_slot *slot, uint8_t flags, bool quiet, bool straight,
                      uint64_t now) {
  struct {
    struct by_fragment head;
    struct by_probe_payload payload;
  } probe = {
      .payload = {.newest = w->newest | (quiet ? BY_PROBE_QUIET : 0) | (w->alone >= ALONE ? BY_PROBE_UNREACHED : 0),
                  .asked = now << 1 | straight}};
  const struct by_fragment *packet = packet_of(w, slot->number);
  by_fragment_begin(&probe.head, BY_FRAGMENT_PROBE, packet->rank);
  probe.head.lines = by_probe_lines(straight ? 0 : w->config.hops);
  probe.head.group = packet->group;
  probe.head.job = packet->job;
  probe.head.key = packet->key;
  probe.head.slot = packet->slot;
  probe.head.epoch = packet->epoch;
  probe.head.call = packet->call;
  probe.head.flags = flags;
  probe.head.check = by_sum_header_check(&w->key, &probe.head, ++w->sequence);
  put_stack(w, straight, &probe.head);
  by_fragment_sign(&probe.head, w->hop);
  w->counters.probes++;
  slot->passed |= straight;
  w->config.emit(w->config.context, &probe.head);
}

static void send_probe(struct by_worker *w, struct by_worker_slot *slot, uint8_t flags, bool quiet, uint64_t now) {
  slot->probed = now;
  /* A cell may swallow it, and another worker may need two round trips to find out that its term was lost and send it.
   */
  bool answered = flags & BY_FRAGMENT_STALE || !(flags & BY_FRAGMENT_RETX);
  if (answered && !w->way.dead && !w->way.unanswered++) w->way.asked = now;
  touch(w, slot, (backed_off(slot, answered ? 1 : 2.5) - 1) * w->srtt, now);
  put_probe(w, slot, flags, quiet, w->way.dead, now);
}

/* --- failures --- */

static void BY_PRINTF(3, 4) fail(struct by_worker *w, enum banyan_status status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(w->text, sizeof w->text, format, values);
  va_end(values);
  w->status = status;
}

/* --- the way --- */

/* A way is slow where processes wait for processors, or links are full; were terms sent past it then, they would fill
 * links and processors yet more. So it counts as dead only if it is silent for much longer than it was before, while
 * what is sent past it is answered. */
static uint64_t death_of(const struct by_worker *w) {
  uint64_t wait = SILENCES * w->way.slowest;
  return wait < least_death ? least_death : wait > most_death ? most_death : wait;
}

void by_worker_take_sign(struct by_worker *w, uint64_t sent, uint64_t now) {
  if (w->way.dead && sent < w->way.asked) return;     /* it was past the switches when these fell silent */
  uint64_t since = w->way.dead ? sent : w->way.asked; /* the time that a way was dead for does not make it slow */
  uint64_t took = (w->way.dead || w->way.unanswered) && now > since ? now - since : 0;
  double left = 1 - (double)(now - w->way.sign) / forgotten_after;
  double slowest = left > 0 ? (double)w->way.slowest * left : 0;
  w->way.slowest = (double)took > slowest ? took : (uint64_t)slowest;
  w->way.sign = now;
  w->way.unanswered = 0;
  if (w->way.dead)
    by_info("innetwork", "worker %u of tree %u: the switches answer again", w->config.rank, w->config.job);
  w->way.dead = false;
}

static void judge_way(struct by_worker *w, uint64_t now) {
  struct by_worker_path *way = &w->way;
  if (way->dead || way->unanswered < UNANSWERED || now - way->asked < death_of(w) || way->passed <= way->asked) return;
  by_warn("innetwork", "worker %u of tree %u: no answer along the switches; sending straight to the server",
          w->config.rank, w->config.job);
  way->dead = true;
  w->window /= by_workers_of(&w->config.groups);
  w->congested = true;
}

/* Asks about the head past the switches while they are silent, or along them while they count as dead, also while
 * results come. */
static void try_other_way(struct by_worker *w, uint64_t now) {
  struct by_worker_slot *head = slot_of(w, w->head);
  struct by_worker_path *way = &w->way;
  uint64_t every = way->dead ? trial_every : death_of(w) / TRIALS;
  bool waits = head->number == w->head && head->state == SLOT_SENT;
  if (!waits || (!way->unanswered && !way->dead)) return;
  if (now - (way->tried > way->asked ? way->tried : way->asked) < every) return;
  way->tried = now;
  put_probe(w, head, 0, true, !way->dead, now);
}

static void increment(uint8_t *count) {
  if (*count < UINT8_MAX) (*count)++;
}

/* It is known that there is a result. */
void by_worker_ask_again(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  increment(&slot->asked);
  send_probe(w, slot, BY_FRAGMENT_RETX | BY_FRAGMENT_STALE, true, now);
}

static void ask(struct by_worker *w, struct by_worker_slot *slot, bool quiet, uint64_t now) {
  if (slot->finished) {
    by_worker_ask_again(w, slot, now);
  } else if (w->silent >= LONG || slot->asked % ANSWERED == ANSWERED - 1 ||
             (quiet && by_worker_first_ready(w) < w->end)) {
    increment(&slot->asked);
    send_probe(w, slot, 0, quiet, now);
  } else {
    uint8_t again = slot->asked ? BY_FRAGMENT_AGGREGATED : 0;
    increment(&slot->asked);
    send_probe(w, slot, BY_FRAGMENT_RETX | again, quiet, now);
  }
}

/* --- time is up --- */

/* Lost or waiting somewhere: it leaves room for others. */
static void count_late(struct by_worker *w, struct by_worker_slot *slot) {
  if (!slot->late) w->flying--;
  slot->late = true;
}

/* Silence usually means that one worker is late, which all others see for their entire windows: few questions are asked
 * in a round trip, and as long as no result comes each round takes twice as long as the last; but not if even questions
 * that are to be answered are not. */
static bool may_ask(struct by_worker *w, uint64_t now) {
  if (now >= w->round + doubled(w, round_of(w))) {
    if (w->flowing < w->round && w->silent < DOUBLINGS) w->silent++;
    w->round = now;
    w->asked = 0;
  }
  return w->asked++ < (uint32_t)w->questions;
}

/* Asks about those that are due by time, the first ones first: every worker waits for the first that is not done
 * everywhere, so one of them finds out what that one lacks. While results come, others will be overtaken, or are next.
 * Returns when to look again. */
static uint64_t look(struct by_worker *w, uint64_t now) {
  bool more = by_worker_first_ready(w) < w->end;
  double usual = more && round_of(w) < least_silence ? least_silence : round_of(w);
  uint64_t quiet = w->flowing + (uint64_t)usual, next = UINT64_MAX;
  bool flows = now < quiet;
  if (w->way.dead || !flows || !more) try_other_way(w, now);
  if (flows && more) return quiet;
  uint64_t most = w->head + AHEAD * (uint64_t)w->config.slots;
  judge_way(w, now);
  for (uint64_t n = w->head; n < w->end && n < most && !w->status; n++) {
    struct by_worker_slot *slot = slot_of(w, n);
    if (slot->number != n || slot->state != SLOT_SENT) continue;
    uint64_t at = slot->touched + wait_of(w, slot, more);
    if (!slot->late && at < quiet) at = quiet;
    if (at <= now && w->way.dead && !slot->straight) {
      count_late(w, slot);
      escalate(w, slot, now);
    } else if (at <= now && may_ask(w, now)) {
      count_late(w, slot);
      ask(w, slot, true, now);
    } else if (at <= now) {
      return w->round + doubled(w, round_of(w));
    } else if (at < next) {
      next = at;
    }
  }
  return next;
}

static void time_is_up(struct by_worker *w, uint64_t now) {
  w->timer = UINT64_MAX;
  if (TAILQ_EMPTY(&w->order)) return;
  if (now > w->received && now - w->received > w->config.timeout) {
    fail(w, BANYAN_ERR_PEER_DEAD,
         "the aggregation server of tree %u has been silent for %.1f s; see whether it runs and can be reached",
         w->config.job, by_clock_to_seconds(now - w->received));
    return;
  }
  uint64_t next = look(w, now), least = now + (uint64_t)reorder;
  if (next < least) next = least;
  if (next < w->timer) w->timer = next;
}

/* What was sent after the slot's last packet is answered: that one, or the answer to it, is lost, or its term waits for
 * a worker that has lost something. All workers see that, so one of them asks first, which may help the others, too. */
static void overtaken(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  count_late(w, slot);
  bool first = slot->number % by_workers_of(&w->config.groups) == w->config.rank;
  if (!slot->deferred && !first && by_worker_first_ready(w) < w->end) {
    slot->deferred = true;
    link_at(w, slot, slot->due + (uint64_t)(1.25 * w->srtt));
  } else {
    slot->deferred = true;
    ask(w, slot, false, now);
  }
}

void by_worker_expire(struct by_worker *w, uint64_t now) {
  struct by_worker_slot *slot;
  uint64_t margin = margin_of(w);
  if (w->timer <= now) time_is_up(w, now);
  for (int i = 0; i < OVERTAKEN && !w->status && (slot = TAILQ_FIRST(&w->order)); i++) {
    if (slot->due + margin >= w->answered) break;
    overtaken(w, slot, now);
  }
}

/* --- what the server replies --- */

/* The switch nearest to the server that knows anything of this worker's term decides. *torn: a cell on the way waits
 * for terms that are further up already: they went past it, while a switch was away. Cells nearer to the server may
 * hold sums of groups. */
static bool waits_in_a_cell(const struct by_worker *w, const struct by_fragment *reply,
                            const struct by_worker_slot *slot, bool *torn) {
  const struct by_probe_payload *payload = (const struct by_probe_payload *)(const void *)(reply + 1);
  uint64_t groups_above = payload->groups, above = reply->workers;
  bool known = false, waits = false;
  *torn = false;
  for (unsigned i = 0; i < w->config.hops && i < by_probe_records(reply->lines); i++) {
    const struct by_probe *r = &payload->records[i];
    struct by_worker_set below = w->config.below[i], in = {r->workers, r->group};
    if (!r->seen || !r->granted || r->epoch != (uint32_t)(slot->number / w->config.slots)) continue;
    if (in.group != below.group) continue; /* it has been misled */
    bool of_groups = in.group == BY_FRAGMENT_UNITED;
    uint64_t *over = of_groups ? &groups_above : &above;
    bool has_mine = in.workers & (of_groups ? 1ull << w->group : w->own.workers);
    if (has_mine && !known) waits = r->state == FILLING;
    known |= has_mine;
    if (r->state == RELEASED) continue;
    if (r->state == FILLING && (below.workers & ~in.workers & *over)) *torn = true;
    *over |= in.workers;
    if (of_groups && has_mine) above = ~0ull;
  }
  return waits;
}

/* The more terms and results turn out to be lost, the more questions are asked. */
static void learn(struct by_worker *w, bool lost) {
  double most = w->pace * round_of(w); /* results */
  w->questions = lost ? 2 * w->questions : w->questions * 3 / 4;
  if (w->questions > most) w->questions = most;
  if (w->questions < QUESTIONS) w->questions = QUESTIONS;
}

void by_worker_note_way(struct by_worker *w, const struct by_fragment *reply, uint64_t now) {
  const struct by_probe_payload *payload = (const struct by_probe_payload *)(const void *)(reply + 1);
  if (!(payload->asked & 1))
    by_worker_take_sign(w, payload->asked >> 1, now);
  else if (payload->asked >> 1 > w->way.passed)
    w->way.passed = payload->asked >> 1;
}

void by_worker_take_reply(struct by_worker *w, const struct by_fragment *reply, uint64_t now) {
  struct by_worker_slot *slot = &w->slots[reply->slot];
  if (slot->probed) {
    by_worker_sample(w, now - slot->probed);
    by_worker_repaired(w, slot, now);
  }
  slot->probed = 0;
  if (reply->workers == w->all.workers && reply->group == w->all.group) {
    learn(w, true);
    if (!slot->asked && slot->sent > w->halved) w->lost++;
    slot->finished = true;
    by_worker_ask_again(w, slot, now);
    return;
  }
  if (reply->workers & w->own.workers) {
    learn(w, false);
    link_at(w, slot, now + (uint64_t)(2 * w->srtt));
    return;
  }
  bool torn, waits = waits_in_a_cell(w, reply, slot, &torn), past = reply->flags & BY_FRAGMENT_ESCALATE || torn;
  learn(w, !waits || past);
  if (!waits || past) w->silent = 0;
  if (past)
    escalate(w, slot, now);
  else if (now > slot->sent + torn_after + TEARS * w->way.slowest)
    by_worker_send(w, slot, BY_FRAGMENT_ESCALATE | BY_FRAGMENT_RETX, now);
  else if (!waits)
    send_again(w, slot, now);
}

/* "1, 3 and 7"; as many as fit. `first`: the number of the lowest bit. */
static void print_workers(char *out, size_t room, uint32_t first, uint64_t workers) {
  size_t at = 0;
  for (out[0] = 0; workers && at < room; workers &= workers - 1) {
    const char *gap = !at ? "" : workers & (workers - 1) ? ", " : " and ";
    at += (size_t)snprintf(out + at, room - at, "%s%u", gap, first + (uint32_t)__builtin_ctzll(workers));
  }
}

void by_worker_take_nack(struct by_worker *w, const struct by_fragment *nack, uint64_t now) {
  struct by_worker_slot *slot = &w->slots[nack->slot];
  if (nack->flags & BY_FRAGMENT_ESCALATE) {
    if (!slot->nacked) escalate(w, slot, now);
    slot->nacked = true;
    return;
  }
  if (nack->call == packet_of(w, slot->number)->call) return; /* it was for those that have made the other call */
  char others[100];
  const struct by_worker_call *call = by_worker_call_of(w, slot->number);
  if (!by_set_is_within(&w->config.groups, by_set_of_packet(nack)) || nack->group == BY_FRAGMENT_UNITED) return;
  print_workers(others, sizeof others, w->config.groups.first[nack->group], nack->workers);
  fail(w, BANYAN_ERR_MISMATCH, "worker %u sums %zu elements of %s (%s) over tree %u while %s made another call",
       w->config.rank, call->count, banyan_dtype_name(call->dtype), banyan_op_name(call->op), w->config.job, others);
}
