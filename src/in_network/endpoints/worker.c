#include "worker.h"

#include <stdlib.h>

#include "fail.h"
#include "fixed.h"
#include "worker_parts.h"

/* Losses alone leave a window of LOSSY_WINDOW, so that those that are found late do not find each other in turn. */
enum { FIRST_WINDOW = 32, LEAST_WINDOW = 2, LOSSY_WINDOW = 16, JUDGED = 64 };

static const double measured_every = 10e6; /* ns: what comes through */
/* The least round trip grows by this with each result, should the way have become longer. Were it a thousandth, it
 * would be the usual one within a second, and queues would grow by 10 ms again and again. */
static const double creep = 1.0001;

static void *zeroed(size_t count, size_t size, bool *failed) {
  void *memory = calloc(count, size);
  if (!memory) *failed = true;
  return memory;
}

static enum banyan_status check_config(const struct by_worker_config *c) {
  if (c->workers < 1 || c->workers > BY_FRAGMENT_WORKERS || c->rank >= c->workers)
    return by_fail(BANYAN_ERR_ARGUMENT, "worker %u of %u: trees through switches have 1 to %d workers", c->rank,
                   c->workers, BY_FRAGMENT_WORKERS);
  if (c->slots < 1 || c->slots > BY_WORKER_SLOTS || c->lines < 1 || c->lines > BY_FRAGMENT_LINES)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u slots of %u lines: give 1 to %d slots, 1 to %d lines", c->slots, c->lines,
                   BY_WORKER_SLOTS, BY_FRAGMENT_LINES);
  if (!c->exact && c->lines * (unsigned)BY_FRAGMENT_LINE <= 8 * by_fragment_exponent_words(c->workers))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "%u lines have no room for numbers beside the exponents of %u workers: give more", c->lines,
                   c->workers);
  if (c->hops > BY_FRAGMENT_HOPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u switches on the way: fragments have room for %d", c->hops,
                   BY_FRAGMENT_HOPS);
  return BANYAN_OK;
}

enum banyan_status by_worker_create(const struct by_worker_config *config, struct by_worker **out) {
  BY_TRY(check_config(config));
  bool failed = false;
  struct by_worker *w = zeroed(1, sizeof *w, &failed);
  if (!w) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a worker of %u slots", config->slots);
  size_t slots = config->slots;
  w->config = *config;
  w->all = ~0ull >> (64 - config->workers);
  w->bits = by_fixed_bits(config->workers);
  w->elements = (size_t)config->lines * BY_FRAGMENT_LINE / 4;
  if (!config->exact) w->elements -= (size_t)by_fragment_exponent_words(config->workers) * 2;
  w->stride = (1 + (size_t)config->lines) * BY_FRAGMENT_LINE;
  w->slots = zeroed(slots, sizeof *w->slots, &failed);
  w->packets = aligned_alloc(BY_FRAGMENT_LINE, slots * w->stride);
  w->ready = zeroed(AHEAD * slots / 64 + 1, sizeof *w->ready, &failed);
  w->exponents = zeroed(2 * AHEAD * slots, 1, &failed);
  w->earliest = w->latest = NOBODY;
  w->questions = QUESTIONS;
  w->window = slots < FIRST_WINDOW ? (double)slots : FIRST_WINDOW;
  enum banyan_status status = BANYAN_OK;
  if (failed || !w->packets)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a worker of %zu slots", slots);
  else
    status = by_sum_key_init(&w->key, config->secret, sizeof config->secret, config->exact ? 0 : config->workers);
  if (status == BANYAN_OK && config->exact) status = by_sum_key_init_open(&w->open);
  if (status) {
    by_worker_destroy(w);
    return status;
  }
  for (size_t s = 0; s < slots; s++) w->slots[s].number = s - slots; /* what would have been there before */
  *out = w;
  return BANYAN_OK;
}

void by_worker_destroy(struct by_worker *w) {
  if (!w) return;
  free(w->slots);
  free(w->packets);
  free(w->ready);
  free(w->exponents);
  free(w);
}

/* --- sending --- */

static void send_first(struct by_worker *w, struct call *call, uint64_t number, uint64_t now) {
  uint64_t bit = number % (AHEAD * (uint64_t)w->config.slots);
  w->ready[bit / 64] &= ~(1ull << bit % 64);
  struct slot *slot = slot_of(w, number);
  *slot = (struct slot){
      .number = number, .state = SLOT_SENT, .past = slot->past, .sent = now, .before = NOBODY, .after = NOBODY};
  by_worker_fill(w, call, number);
  if (w->earliest == NOBODY && w->heard < now) w->heard = now; /* nothing was expected until now */
  w->flying++;
  by_worker_send(w, slot, 0, now);
}

/* The head may always go: windows are full of different fragments with different workers, and would wait for each other
 * in a circle. So the first fragment that is not done everywhere is on its way from everywhere. */
static bool may_go(const struct by_worker *w, uint64_t number) {
  return w->flying < (uint32_t)w->window || number == w->head;
}

void by_worker_progress(struct by_worker *w, uint64_t now) {
  if (w->status) return;
  by_worker_expire(w, now);
  while (!w->status) {
    uint64_t number = by_worker_first_ready(w);
    if (number >= w->end || !may_go(w, number)) return;
    struct call *call = by_worker_call_of(w, number);
    if (!by_worker_has_elements(call, w, number)) return;
    send_first(w, call, number, now);
  }
}

/* --- the window --- */

/* Every worker sees the same results, marked by whoever's queue is filling, and takes the same steps: half a fragment
 * less for a marked one, a share of one more for another. So windows stay alike. Were it a share less, smaller windows,
 * which are adjusted more often, would vanish beside larger ones, and the workers with these would wait for those. A
 * few losses are the wires'; many are a queue's that does not mark. */
static void adjust_window(struct by_worker *w, bool marked, uint64_t now) {
  if (marked) {
    w->window -= 0.5;
    w->congested = true;
  } else {
    w->window += w->congested ? 2 / w->window : 1;
  }
  if (++w->came == JUDGED) {
    if (w->lost * 8 > JUDGED) {
      if (w->window > LOSSY_WINDOW) w->window = w->window > 2 * LOSSY_WINDOW ? w->window / 2 : LOSSY_WINDOW;
      w->congested = true;
      w->halved = now;
    }
    w->came = w->lost = 0;
  }
  if (w->window < LEAST_WINDOW) w->window = LEAST_WINDOW;
  if (w->window > w->config.slots) w->window = w->config.slots;
}

/* Most switches mark nothing, and XDP does not see queues. So the window is not larger than what has come through in
 * the least round trip and a little more: queues get no longer than that. What is idle, or waits for a worker that
 * computes, says nothing of what the network can carry, so the most that was measured fades slowly. */
static double limit_window(struct by_worker *w, const struct slot *slot, uint64_t now) {
  double rtt = (double)(now - slot->sent), lasted = (double)(now - w->since);
  if (!slot->resent && !slot->timeouts) w->least = w->least > 0 && w->least * creep < rtt ? w->least * creep : rtt;
  w->counted++;
  if (lasted >= measured_every) {
    double pace = (double)w->counted / lasted;
    w->pace = pace > w->pace * 0.98 ? pace : w->pace * 0.98;
    w->counted = 0;
    w->since = now;
  }
  if (!(w->pace > 0) || !(w->least > 0)) return (double)w->config.slots;
  double most = w->pace * (w->least + BY_WORKER_QUEUED);
  return most > FIRST_WINDOW ? most : FIRST_WINDOW;
}

static void count_result(struct by_worker *w, const struct call *call, const struct slot *slot,
                         const struct by_fragment *result, uint64_t now) {
  bool marked = result->flags & BY_FRAGMENT_CE;
  w->counters.results++;
  w->counters.marked += marked;
  if (now - slot->sent > w->counters.longest) w->counters.longest = now - slot->sent;
  if (!slot->timeouts && slot->sent > w->answered) w->answered = slot->sent;
  if (!slot->timeouts) w->newest = slot->number + 1;
  if (!slot->resent && !slot->timeouts) by_worker_sample(w, now - slot->sent);
  if (by_worker_is_opening(call, slot->number)) return; /* which says nothing of what the network can carry */
  adjust_window(w, marked, now);
  double most = limit_window(w, slot, now);
  if (w->window > most) w->window = most;
}

/* --- packets that come --- */

/* The slot that waits for this packet; NULL: it is late, or was never asked for. */
static struct slot *slot_waiting(struct by_worker *w, const struct by_fragment *packet) {
  if (packet->slot >= w->config.slots) return NULL;
  struct slot *slot = &w->slots[packet->slot];
  bool same = (uint32_t)(slot->number / w->config.slots) == packet->epoch;
  return slot->state == SLOT_SENT && same ? slot : NULL;
}

/* A result is of the same kind as the term. */
static bool answers(const struct by_worker *w, const struct by_fragment *result, const struct by_fragment *term) {
  return result->workers == w->all && result->call == term->call && result->dtype == term->dtype &&
         result->lines == term->lines && result->exponent == term->exponent;
}

/* Of the server, beyond doubt. */
static void note_server(struct by_worker *w, uint64_t now) {
  if (now > w->heard) w->heard = now;
}

static void take_result(struct by_worker *w, const struct by_fragment *result, uint64_t now) {
  struct slot *slot = slot_waiting(w, result);
  if (!slot || !answers(w, result, packet_of(w, slot->number))) {
    w->counters.late++;
    return;
  }
  struct call *call = by_worker_call_of(w, slot->number);
  if (!by_worker_store(w, call, result)) {
    w->counters.failed_checks++;
    if (!slot->asked) by_worker_ask_again(w, slot, now); /* the way down was at fault: the server has checked its own */
    return;
  }
  note_server(w, now);
  by_worker_unlink(w, slot);
  if (!slot->timeouts) w->flying--;
  by_worker_answered(w, slot);
  count_result(w, call, slot, result, now);
  slot->past = result->flags & BY_FRAGMENT_ESCALATE;
  by_worker_finish(w, call, slot->number, by_sum_largest_exponent(&w->key, result));
}

static void take_answer(struct by_worker *w, const struct by_fragment *answer, uint64_t now) {
  if (answer->check != by_sum_header_check(&w->key, answer)) {
    w->counters.failed_checks++;
    return;
  }
  struct slot *slot = slot_waiting(w, answer);
  if (!slot) return; /* it may be one that somebody has kept */
  note_server(w, now);
  if (answer->type == BY_FRAGMENT_NACK)
    by_worker_take_nack(w, answer, now);
  else if (answer->rank == w->config.rank)
    by_worker_take_reply(w, answer, now);
}

void by_worker_take(struct by_worker *w, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  if (by_fragment_check(packet, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes) != BY_FRAGMENT_SOUND) {
    w->counters.malformed++;
    return;
  }
  if (packet->job != w->config.job || packet->key != w->config.key) {
    w->counters.foreign++;
    return;
  }
  switch (packet->type) {
  case BY_FRAGMENT_RESULT:
  case BY_FRAGMENT_RESULT_MC: take_result(w, packet, now); break;
  case BY_FRAGMENT_PROBE_REPLY:
  case BY_FRAGMENT_NACK: take_answer(w, packet, now); break;
  default: w->counters.foreign++; /* of another worker */
  }
}

uint64_t by_worker_deadline(const struct by_worker *w) {
  return w->earliest == NOBODY || w->status ? UINT64_MAX : w->slots[w->earliest].deadline;
}

enum banyan_status by_worker_state(const struct by_worker *w) {
  return w->status ? by_fail(w->status, "%s", w->text) : BANYAN_OK;
}

const struct by_worker_counters *by_worker_counters(const struct by_worker *w) {
  return &w->counters;
}
