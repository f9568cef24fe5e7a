/* How a worker recovers from results that do not arrive:
 *
 *   overtaken by results of later terms, or silence -> PROBE with RETX, which
 *          asks for the result if there is one. A cell in which the term waits
 *          for others drops it, and so does the server. Otherwise:
 *          the result
 *          reply: my term is nowhere, or in a full cell whose sum was lost:
 *                 send it again
 *   silence before the end of the call, long silence, and every fourth time -> PROBE, which the server always answers:
 *          my term is at the server, or in an incomplete cell: others are
 *                 late, wait
 *          the sum is complete: ask for it
 *          terms have bypassed switches, so cells may never fill: send it
 *                 past them, too; also if the cell waits for terms further up
 *          no reply, eight times, for much longer than the recent maximum, while
 *          probes past the switches are answered: send past the switches,
 *                 and without their stack, until a probe along them is answered
 *
 * A worker whose packets are overtaken names its newest result: results sent later are on their way. */
#include <stdarg.h>
#include <stdio.h>

#include "clock.h"
#include "fail.h"
#include "log.h"
#include "worker_parts.h"

enum {
  UNANSWERED = 8, /* Unanswered probes before a path counts as dead. */
  SILENCES = 4,   /* Factor of the recent maximum by which its silence must be longer. */
  TEARS = 32,     /* Maximum of answers that a term may wait for in cells, in addition to torn_after. */
  TRIALS = 3,     /* Probes past the switches in that time. */
  RESENT = 3,     /* Repetitions along the switches before those past them. */
  OVERTAKEN = 8,  /* Slots that are checked in a step. */
  ANSWERED = 4,   /* One of so many probes is always answered. */
  LONG = 2,       /* Rounds of silence after which each probe is always answered. */
  DOUBLINGS = 7,
  BACKED_OFF = 8,
  ALONE = 20 /* Consecutive results for this worker only, after which multicasts count as lost. */
};
enum { FILLING = 1, RELEASED = 3 }; /* States of cells in a probe's records. */

static const double first_wait = 20e6, max_wait = 200e6, unanswered_wait = 20e6, reorder = 250e3; /* Nanoseconds. */
static const double min_silence = 10e6; /* Minimum ns of silence while more is to be sent, since processes may pause. */
/* Limits of the silence before a path counts as dead. */
static const uint64_t min_death = 150 * BY_MILLISECOND, max_death = 2 * BY_SECOND;
static const uint64_t trial_every = 100 * BY_MILLISECOND; /* Interval of checks whether it works again. */
static const double forgotten_after = 60e9;               /* Nanoseconds after which slow answers are forgotten. */
/* Terms may wait for each other in cells of different paths: a slot that has waited so long does not rely on cells. */
static const uint64_t torn_after = 3 * BY_SECOND;

/* --- timeouts --- */

/* Returns by how much later a packet must have been sent to overtake another, as in RFC 8985. */
static uint64_t margin_of(const struct by_worker *w) {
  double margin = w->min_rtt / 4;
  return (uint64_t)(margin > reorder ? margin : reorder);
}

/* Returns a round trip with short queues. */
static double round_of(const struct by_worker *w) {
  double jitter = w->rttvar < w->queued / 8 ? w->rttvar : w->queued / 8;
  return w->min_rtt > 0 ? 1.5 * w->min_rtt + 2 * jitter + 2 * reorder : first_wait;
}

/* Doubles a timeout for each silent round; without answers, up to the recent maximum. */
static uint64_t double_timeout(const struct by_worker *w, double wait) {
  double max = !w->path.unanswered                         ? max_wait
               : (double)w->path.slowest > unanswered_wait ? (double)w->path.slowest
                                                           : unanswered_wait;
  if (max > max_wait) max = max_wait;
  wait *= (double)(1u << w->silent);
  return (uint64_t)(wait < max ? wait : max);
}

/* Increases the timeout by a tenth for each probe about a slot, since late answers must not fill the queues in which
 * they wait. */
static double add_backoff(const struct by_worker_slot *slot, double wait) {
  for (unsigned i = 1; i < slot->asked && i < BACKED_OFF; i++) wait *= 1.1;
  return wait;
}

/* Returns the timeout of a slot. Round trips that were long because other workers lost something must not delay the
 * recovery of this worker's losses. If nothing more is to be sent, queues are short, and every late slot delays the end
 * of the call. */
static uint64_t wait_of(const struct by_worker *w, const struct by_worker_slot *slot, bool more) {
  double wait = round_of(w) > 1.25 * w->repair + reorder ? round_of(w) : 1.25 * w->repair + reorder;
  double usual = w->srtt + 4 * w->rttvar + (double)margin_of(w);
  if (!slot->late || more) wait = w->srtt > 0 ? usual : first_wait;
  if (w->min_rtt > 0 && wait > 2 * (w->min_rtt + w->queued)) wait = 2 * (w->min_rtt + w->queued);
  return double_timeout(w, add_backoff(slot, wait));
}

/* --- the list by `due`: most are due when they are sent, so new ones are inserted near its end --- */

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

/* Records that a packet about the slot is sent; `later`, ns: how much later sent terms must be to overtake it. */
static void note_sent(struct by_worker *w, struct by_worker_slot *slot, double later, uint64_t now) {
  slot->touched = now;
  link_at(w, slot, now + (uint64_t)later);
  if (w->timer > now + (uint64_t)round_of(w)) w->timer = now + (uint64_t)round_of(w);
}

/* Smooths the round-trip time as TCP does (RFC 6298). A result that waited for other workers shows nothing about the
 * network, but the reply to a probe does. */
void by_worker_sample(struct by_worker *w, uint64_t rtt) {
  double sample = (double)rtt < max_wait / 2 ? (double)rtt : max_wait / 2;
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
  put_stack(w, w->path.dead, packet);
  slot->straight |= w->path.dead;
  packet->flags |= flags | (w->path.dead || slot->past ? BY_FRAGMENT_ESCALATE : 0);
  by_fragment_sign(packet, w->hop);
  if (flags & BY_FRAGMENT_RETX)
    w->counters.retransmitted++;
  else
    w->counters.sent++;
  note_sent(w, slot, 0, now);
  w->config.emit(w->config.context, packet);
}

/* Sends a term past the switches. */
static void send_past_switches(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  w->counters.escalated++;
  if (slot->resent < UINT8_MAX) slot->resent++;
  by_worker_send(w, slot, BY_FRAGMENT_ESCALATE | BY_FRAGMENT_RETX, now);
}

static void send_again(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  if (slot->sent > w->halved) w->lost++;
  if (slot->resent >= RESENT) {
    send_past_switches(w, slot, now);
    return;
  }
  slot->resent++;
  by_worker_send(w, slot, BY_FRAGMENT_RETX, now);
}

/* --- probes --- */

/* Sends a probe. RETX asks for the result, STALE for one that is known to exist; unless `quiet`, only if it was sent
 * before the newest received one. `straight`: past the switches, without their stack. */
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
  /* A cell may drop it, and another worker may need two round trips to detect that its term was lost and send it. */
  bool answered = flags & BY_FRAGMENT_STALE || !(flags & BY_FRAGMENT_RETX);
  if (answered && !w->path.dead && !w->path.unanswered++) w->path.asked = now;
  note_sent(w, slot, (add_backoff(slot, answered ? 1 : 2.5) - 1) * w->srtt, now);
  put_probe(w, slot, flags, quiet, w->path.dead, now);
}

/* --- failures --- */

static void BY_PRINTF(3, 4) set_failed(struct by_worker *w, enum banyan_status status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(w->text, sizeof w->text, format, values);
  va_end(values);
  w->status = status;
}

/* --- the path --- */

/* A path is slow if processes wait for processors, or links are full; terms sent past it would increase the load. So it
 * counts as dead only if it is silent for much longer than before, while probes past it are answered. */
static uint64_t death_of(const struct by_worker *w) {
  uint64_t wait = SILENCES * w->path.slowest;
  return wait < min_death ? min_death : wait > max_death ? max_death : wait;
}

void by_worker_take_sign(struct by_worker *w, uint64_t sent, uint64_t now) {
  if (w->path.dead && sent < w->path.asked) return;     /* It was sent before the path became silent. */
  uint64_t since = w->path.dead ? sent : w->path.asked; /* The time for which a path was dead does not make it slow. */
  uint64_t took = (w->path.dead || w->path.unanswered) && now > since ? now - since : 0;
  double left = 1 - (double)(now - w->path.sign) / forgotten_after;
  double slowest = left > 0 ? (double)w->path.slowest * left : 0;
  w->path.slowest = (double)took > slowest ? took : (uint64_t)slowest;
  w->path.sign = now;
  w->path.unanswered = 0;
  if (w->path.dead)
    by_info("innetwork", "worker %u of tree %u: the switches answer again", w->config.rank, w->config.job);
  w->path.dead = false;
}

static void judge_path(struct by_worker *w, uint64_t now) {
  struct by_worker_path *path = &w->path;
  if (path->dead || path->unanswered < UNANSWERED || now - path->asked < death_of(w) || path->passed <= path->asked)
    return;
  by_warn("innetwork", "worker %u of tree %u: no answer along the switches; sending straight to the server",
          w->config.rank, w->config.job);
  path->dead = true;
  w->window /= by_workers_of(&w->config.groups);
  w->congested = true;
}

/* Sends a probe about the head past the switches while they are silent, or along them while they count as dead, even
 * while results arrive. */
static void try_other_path(struct by_worker *w, uint64_t now) {
  struct by_worker_slot *head = slot_of(w, w->head);
  struct by_worker_path *path = &w->path;
  uint64_t every = path->dead ? trial_every : death_of(w) / TRIALS;
  bool waits = head->number == w->head && head->state == SLOT_SENT;
  if (!waits || (!path->unanswered && !path->dead)) return;
  if (now - (path->tried > path->asked ? path->tried : path->asked) < every) return;
  path->tried = now;
  put_probe(w, head, 0, true, !path->dead, now);
}

static void increment_count(uint8_t *count) {
  if (*count < UINT8_MAX) (*count)++;
}

/* A result is known to exist. */
void by_worker_ask_again(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  increment_count(&slot->asked);
  send_probe(w, slot, BY_FRAGMENT_RETX | BY_FRAGMENT_STALE, true, now);
}

static void send_question(struct by_worker *w, struct by_worker_slot *slot, bool quiet, uint64_t now) {
  if (slot->finished) {
    by_worker_ask_again(w, slot, now);
  } else if (w->silent >= LONG || slot->asked % ANSWERED == ANSWERED - 1 ||
             (quiet && by_worker_first_ready(w) < w->end)) {
    increment_count(&slot->asked);
    send_probe(w, slot, 0, quiet, now);
  } else {
    uint8_t again = slot->asked ? BY_FRAGMENT_AGGREGATED : 0;
    increment_count(&slot->asked);
    send_probe(w, slot, BY_FRAGMENT_RETX | again, quiet, now);
  }
}

/* --- timeouts have passed --- */

/* The slot is lost or waits somewhere, so others may be sent. */
static void count_late(struct by_worker *w, struct by_worker_slot *slot) {
  if (!slot->late) w->flying--;
  slot->late = true;
}

/* Limits probes: silence usually means that one worker is late, which all others see for their entire windows. In a
 * round trip few probes are sent, and without a result each round takes twice as long as the last; unless even probes
 * that are always answered get no answer. */
static bool may_ask(struct by_worker *w, uint64_t now) {
  if (now >= w->round + double_timeout(w, round_of(w))) {
    if (w->flowing < w->round && w->silent < DOUBLINGS) w->silent++;
    w->round = now;
    w->asked = 0;
  }
  return w->asked++ < (uint32_t)w->questions;
}

/* Sends probes about slots whose timeout has passed, the first ones first: every worker waits for the first slot that
 * is not done everywhere, so one of them finds out what is missing. While results arrive, other slots will be
 * overtaken, or are next. Returns when to check again. */
static uint64_t check_slots(struct by_worker *w, uint64_t now) {
  bool more = by_worker_first_ready(w) < w->end;
  double usual = more && round_of(w) < min_silence ? min_silence : round_of(w);
  uint64_t quiet = w->flowing + (uint64_t)usual, next = UINT64_MAX;
  bool flows = now < quiet;
  if (w->path.dead || !flows || !more) try_other_path(w, now);
  if (flows && more) return quiet;
  uint64_t max = w->head + AHEAD * (uint64_t)w->config.slots;
  judge_path(w, now);
  for (uint64_t n = w->head; n < w->end && n < max && !w->status; n++) {
    struct by_worker_slot *slot = slot_of(w, n);
    if (slot->number != n || slot->state != SLOT_SENT) continue;
    uint64_t at = slot->touched + wait_of(w, slot, more);
    if (!slot->late && at < quiet) at = quiet;
    if (at <= now && w->path.dead && !slot->straight) {
      count_late(w, slot);
      send_past_switches(w, slot, now);
    } else if (at <= now && may_ask(w, now)) {
      count_late(w, slot);
      send_question(w, slot, true, now);
    } else if (at <= now) {
      return w->round + double_timeout(w, round_of(w));
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
    set_failed(w, BANYAN_ERR_PEER_DEAD,
               "the aggregation server of tree %u has been silent for %.1f s; see whether it runs and can be reached",
               w->config.job, by_clock_to_seconds(now - w->received));
    return;
  }
  uint64_t next = check_slots(w, now), earliest = now + (uint64_t)reorder;
  if (next < earliest) next = earliest;
  if (next < w->timer) w->timer = next;
}

/* A packet that was sent after the slot's last packet is answered: that one, or its answer, is lost, or its term waits
 * for a worker that has lost something. All workers see that, so one of them asks first, which may help the others,
 * too. */
static void handle_overtaken(struct by_worker *w, struct by_worker_slot *slot, uint64_t now) {
  count_late(w, slot);
  bool first = slot->number % by_workers_of(&w->config.groups) == w->config.rank;
  if (!slot->deferred && !first && by_worker_first_ready(w) < w->end) {
    slot->deferred = true;
    link_at(w, slot, slot->due + (uint64_t)(1.25 * w->srtt));
  } else {
    slot->deferred = true;
    send_question(w, slot, false, now);
  }
}

void by_worker_expire(struct by_worker *w, uint64_t now) {
  struct by_worker_slot *slot;
  uint64_t margin = margin_of(w);
  if (w->timer <= now) time_is_up(w, now);
  for (int i = 0; i < OVERTAKEN && !w->status && (slot = TAILQ_FIRST(&w->order)); i++) {
    if (slot->due + margin >= w->answered) break;
    handle_overtaken(w, slot, now);
  }
}

/* --- replies of the server --- */

/* Tells whether this worker's term waits in a cell; the record of the switch nearest to the server that knows the term
 * decides. *torn: a cell on the path waits for terms that are further up already, since they bypassed it while a switch
 * was away. Cells nearer to the server may hold sums of groups. */
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
    if (in.group != below.group) continue; /* The record is inconsistent. */
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

/* Adapts the number of probes to the share of terms and results that were lost. */
static void adapt_questions(struct by_worker *w, bool lost) {
  double max = w->pace * round_of(w); /* Results in a round trip. */
  w->questions = lost ? 2 * w->questions : w->questions * 3 / 4;
  if (w->questions > max) w->questions = max;
  if (w->questions < QUESTIONS) w->questions = QUESTIONS;
}

void by_worker_note_way(struct by_worker *w, const struct by_fragment *reply, uint64_t now) {
  const struct by_probe_payload *payload = (const struct by_probe_payload *)(const void *)(reply + 1);
  if (!(payload->asked & 1))
    by_worker_take_sign(w, payload->asked >> 1, now);
  else if (payload->asked >> 1 > w->path.passed)
    w->path.passed = payload->asked >> 1;
}

void by_worker_take_reply(struct by_worker *w, const struct by_fragment *reply, uint64_t now) {
  struct by_worker_slot *slot = &w->slots[reply->slot];
  if (slot->probed) {
    by_worker_sample(w, now - slot->probed);
    by_worker_repaired(w, slot, now);
  }
  slot->probed = 0;
  if (reply->workers == w->all.workers && reply->group == w->all.group) {
    adapt_questions(w, true);
    if (!slot->asked && slot->sent > w->halved) w->lost++;
    slot->finished = true;
    by_worker_ask_again(w, slot, now);
    return;
  }
  if (reply->workers & w->own.workers) {
    adapt_questions(w, false);
    link_at(w, slot, now + (uint64_t)(2 * w->srtt));
    return;
  }
  bool torn, waits = waits_in_a_cell(w, reply, slot, &torn), past = reply->flags & BY_FRAGMENT_ESCALATE || torn;
  adapt_questions(w, !waits || past);
  if (!waits || past) w->silent = 0;
  if (past)
    send_past_switches(w, slot, now);
  else if (now > slot->sent + torn_after + TEARS * w->path.slowest)
    by_worker_send(w, slot, BY_FRAGMENT_ESCALATE | BY_FRAGMENT_RETX, now);
  else if (!waits)
    send_again(w, slot, now);
}

/* Prints "1, 3 and 7", as many as fit. `first`: the number of the lowest bit. */
static void print_workers(char *out, size_t capacity, uint32_t first, uint64_t workers) {
  size_t at = 0;
  for (out[0] = 0; workers && at < capacity; workers &= workers - 1) {
    const char *gap = !at ? "" : workers & (workers - 1) ? ", " : " and ";
    at += (size_t)snprintf(out + at, capacity - at, "%s%u", gap, first + (uint32_t)__builtin_ctzll(workers));
  }
}

void by_worker_take_nack(struct by_worker *w, const struct by_fragment *nack, uint64_t now) {
  struct by_worker_slot *slot = &w->slots[nack->slot];
  if (nack->flags & BY_FRAGMENT_ESCALATE) {
    if (!slot->nacked) send_past_switches(w, slot, now);
    slot->nacked = true;
    return;
  }
  if (nack->call == packet_of(w, slot->number)->call) return; /* It is for those that have made the other call. */
  char others[100];
  const struct by_worker_call *call = by_worker_call_of(w, slot->number);
  if (!by_set_is_within(&w->config.groups, by_set_of_packet(nack)) || nack->group == BY_FRAGMENT_UNITED) return;
  print_workers(others, sizeof others, w->config.groups.first[nack->group], nack->workers);
  set_failed(w, BANYAN_ERR_MISMATCH, "worker %u sums %zu elements of %s (%s) over tree %u while %s made another call",
             w->config.rank, call->count, banyan_dtype_name(call->dtype), banyan_op_name(call->op), w->config.job,
             others);
}
