/* Divides calls into fragments, sends them within a window, and assembles results.
 *
 *   number   base         base + openings                end of the call
 *            |  openings  |  fragments with elements     |
 *            | e0..e2     | 0:e3 1:e4 2:e5 3:e6 ...      |     e: the exponent that it sends to the others
 *
 * Fragment j sends what fragment j + ahead needs, and openings what the first `ahead` ones need: as many as there are
 * slots, or all if those are fewer. */
#include "worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "reduce.h"
#include "worker_parts.h"

struct by_worker_call *by_worker_call_of(struct by_worker *w, uint64_t number) {
  uint32_t id = w->next - 1;
  while (id != w->first && w->calls[id % BY_WORKER_CALLS].base > number) id--;
  return &w->calls[id % BY_WORKER_CALLS];
}

/* Returns the fragment's index among those with elements. */
static uint64_t index_of(const struct by_worker_call *call, uint64_t number) {
  return number - call->base - call->openings;
}

/* Tells whether it has no elements and only agrees on exponents. */
static bool is_opening(const struct by_worker_call *call, uint64_t number) {
  return number - call->base < call->openings;
}

/* Return the first fragment of an opening, and the number of its fragments. */
static uint64_t first_of_opening(const struct by_worker *w, const struct by_worker_call *call, uint64_t number) {
  return (number - call->base) * w->per_opening;
}

static uint32_t count_of_opening(const struct by_worker *w, const struct by_worker_call *call, uint64_t number) {
  uint64_t left = call->ahead - first_of_opening(w, call, number);
  return left < w->per_opening ? (uint32_t)left : w->per_opening;
}

static size_t elements_of(const struct by_worker *w, const struct by_worker_call *call, uint64_t index) {
  size_t left = call->count - index * w->elements;
  return left < w->elements ? left : w->elements;
}

static const unsigned char *source_of(const struct by_worker *w, const struct by_worker_call *call, uint64_t index) {
  return call->src + index * w->elements * banyan_dtype_size(call->dtype);
}

/* --- fragments that may be sent --- */

static bool is_done(const struct by_worker *w, uint64_t number) {
  const struct by_worker_slot *slot = slot_of(w, number);
  int64_t passed = (int64_t)(slot->number - number);
  return number < w->head || passed > 0 || (passed == 0 && slot->state == SLOT_DONE);
}

/* Marks a fragment as ready if its slot is free and its exponent is agreed on. */
static void make_ready(struct by_worker *w, uint64_t number) {
  struct by_worker_slot *slot = slot_of(w, number);
  bool is_free = slot->state == SLOT_DONE && slot->number + w->config.slots == number;
  if (number >= w->end || number >= w->head + AHEAD * (uint64_t)w->config.slots || !is_free) return;
  const struct by_worker_call *call = by_worker_call_of(w, number);
  if (call->ahead && !is_opening(call, number)) { /* Another fragment contains its exponent. */
    uint64_t index = index_of(call, number);
    if (!is_done(w, index < call->ahead ? call->base + index / w->per_opening : number - call->ahead)) return;
  }
  slot->number = number;
  slot->state = SLOT_READY;
  uint64_t bit = number % (AHEAD * (uint64_t)w->config.slots);
  w->ready[bit / 64] |= 1ull << bit % 64;
}

/* Returns the first bit from `from` on, below `end`; `end` if there is none. */
static uint64_t first_bit(const uint64_t *bits, uint64_t from, uint64_t end) {
  if (from >= end) return end;
  uint64_t word = bits[from / 64] & ~0ull << from % 64;
  for (uint64_t i = from / 64;; word = bits[++i]) {
    if (word) {
      uint64_t bit = i * 64 + (uint64_t)__builtin_ctzll(word);
      return bit < end ? bit : end;
    }
    if ((i + 1) * 64 >= end) return end;
  }
}

uint64_t by_worker_first_ready(const struct by_worker *w) {
  uint64_t ring = AHEAD * (uint64_t)w->config.slots, at = w->head % ring, bit = first_bit(w->ready, at, ring);
  if (bit < ring) return w->head + bit - at;
  bit = first_bit(w->ready, 0, at);
  return bit < at ? w->head + ring - at + bit : w->end;
}

/* Tells whether the elements for its packet are available. */
static bool has_elements(const struct by_worker *w, const struct by_worker_call *call, uint64_t number) {
  uint64_t last; /* The last fragment whose exponent it contains. */
  if (is_opening(call, number))
    last = first_of_opening(w, call, number) + count_of_opening(w, call, number) - 1;
  else
    last = index_of(call, number) + call->ahead;
  if (last >= call->fragments) last = call->fragments - 1;
  return call->available >= last * w->elements + elements_of(w, call, last);
}

/* --- sending packets --- */

static unsigned raw_dtype(enum banyan_dtype dtype) {
  switch (dtype) {
  case BANYAN_INT32: return BY_FRAGMENT_INT32;
  case BANYAN_FLOAT16: return BY_FRAGMENT_FLOAT16;
  case BANYAN_BFLOAT16: return BY_FRAGMENT_BFLOAT16;
  default: return BY_FRAGMENT_FLOAT32;
  }
}

static uint8_t own_exponent(const struct by_worker *w, const struct by_worker_call *call, uint64_t index) {
  if (index >= call->fragments) return 0;
  return (uint8_t)by_fixed_exponent(call->dtype, source_of(w, call, index), elements_of(w, call, index), w->bits);
}

/* Writes zeros behind `bytes` of numbers up to the end of the last line. */
static void close_payload(const struct by_worker *w, struct by_fragment *packet, size_t bytes, size_t capacity) {
  size_t needed = bytes + capacity + (size_t)w->key.words * 8;
  packet->lines = (uint8_t)((needed + BY_FRAGMENT_LINE - 1) / BY_FRAGMENT_LINE);
  memset((unsigned char *)(packet + 1) + bytes, 0, (size_t)packet->lines * BY_FRAGMENT_LINE - bytes);
}

static void fill_opening(const struct by_worker *w, const struct by_worker_call *call, uint64_t number,
                         struct by_fragment *packet) {
  uint64_t first = first_of_opening(w, call, number);
  uint32_t count = count_of_opening(w, call, number);
  close_payload(w, packet, 0, (size_t)count * w->key.opening);
  for (uint32_t i = 0; i < count; i++)
    by_sum_put_opening(&w->key, packet, i, w->config.rank, own_exponent(w, call, first + i));
  packet->check = by_sum_check(&w->key, packet, packet->workers);
}

static void fill_elements(struct by_worker *w, const struct by_worker_call *call, uint64_t number,
                          struct by_fragment *packet) {
  uint64_t index = index_of(call, number);
  size_t elements = elements_of(w, call, index);
  uint8_t ahead = call->ahead ? own_exponent(w, call, index + call->ahead) : 0;
  if (call->ahead) packet->exponent = w->exponents[number % (2 * AHEAD * (uint64_t)w->config.slots)];
  if (call->ahead && packet->exponent < BY_FIXED_NOT_FINITE) {
    close_payload(w, packet, by_fixed_bytes(elements), 0);
    by_sum_put_exponent(&w->key, packet, w->config.rank, ahead);
    uint64_t sum = by_fixed_quantise(call->dtype, packet + 1, source_of(w, call, index), elements, packet->exponent,
                                     w->bits, w->key.derived.number);
    packet->check = sum + by_sum_tag(&w->key, packet, packet->workers);
    return;
  }
  size_t bytes = elements * banyan_dtype_size(call->dtype);
  packet->dtype = (uint8_t)raw_dtype(call->dtype);
  if (call->ahead) packet->flags |= BY_FRAGMENT_ESCALATE;
  close_payload(w, packet, bytes, 0);
  if (call->ahead) by_sum_put_exponent(&w->key, packet, w->config.rank, ahead);
  memcpy(packet + 1, source_of(w, call, index), bytes);
  packet->check = by_sum_check(w->config.exact ? &w->open : &w->key, packet, packet->workers);
}

/* Makes the packet of a fragment. */
static void fill_packet(struct by_worker *w, struct by_worker_call *call, uint64_t number) {
  struct by_fragment *packet = packet_of(w, number);
  by_fragment_begin(packet, BY_FRAGMENT_UP, (uint8_t)__builtin_ctzll(w->own.workers));
  packet->group = w->own.group;
  packet->job = w->config.job;
  packet->key = w->config.key;
  packet->slot = (uint16_t)(number % w->config.slots);
  packet->epoch = (uint32_t)(number / w->config.slots);
  packet->call = call->hash;
  packet->dtype = BY_FRAGMENT_PAIRS;
  if (is_opening(call, number))
    fill_opening(w, call, number, packet);
  else
    fill_elements(w, call, number, packet);
}

/* --- results --- */

/* Stores a result. Returns false if its check is wrong. */
static bool store_result(struct by_worker *w, struct by_worker_call *call, const struct by_fragment *result) {
  const struct by_worker_slot *slot = &w->slots[result->slot];
  if (is_opening(call, slot->number)) return result->check == by_sum_check(&w->key, result, w->all.workers);
  uint64_t index = index_of(call, slot->number);
  size_t elements = elements_of(w, call, index);
  unsigned char *to = call->dst + index * w->elements * banyan_dtype_size(call->dtype);
  if (result->dtype ==
      BY_FRAGMENT_PAIRS) { /* A wrong one is overwritten by the next one: the packet has the contents of src. */
    uint64_t sum =
        by_fixed_dequantise(call->dtype, to, result + 1, elements, result->exponent, w->bits, w->key.derived.number);
    return sum + by_sum_tag(&w->key, result, w->all.workers) == result->check;
  }
  if (by_sum_check(&w->key, result, w->all.workers) != result->check) return false;
  memcpy(to, result + 1, elements * banyan_dtype_size(call->dtype));
  return true;
}

/* Advances the head over fragments that are done; later ones may become ready. */
static void advance_head(struct by_worker *w) {
  while (w->head < w->end && is_done(w, w->head)) {
    w->head++;
    make_ready(w, w->head + AHEAD * (uint64_t)w->config.slots - 1);
  }
  while (w->first != w->next) {
    const struct by_worker_call *call = &w->calls[w->first % BY_WORKER_CALLS];
    if (w->head < call->base + call->openings + call->fragments) break;
    w->first++;
  }
}

static void set_exponent(struct by_worker *w, uint64_t number, uint8_t exponent) {
  w->exponents[number % (2 * AHEAD * (uint64_t)w->config.slots)] = exponent;
  make_ready(w, number);
}

/* A fragment is done, so fragments that waited for it become ready. */
static void finish_fragment(struct by_worker *w, struct by_worker_call *call, uint64_t number,
                            const struct by_fragment *result) {
  slot_of(w, number)->state = SLOT_DONE;
  if (is_opening(call, number)) {
    uint64_t first = call->base + call->openings + first_of_opening(w, call, number);
    for (uint32_t i = 0; i < count_of_opening(w, call, number); i++)
      set_exponent(w, first + i, by_sum_largest_of_opening(&w->key, result, i));
  } else if (call->ahead && index_of(call, number) + call->ahead < call->fragments) {
    set_exponent(w, number + call->ahead, by_sum_largest_exponent(&w->key, result));
  }
  make_ready(w, number + w->config.slots);
  if (number == w->head) advance_head(w);
}

/* --- functions for the caller --- */

static uint32_t hash_of(uint32_t number, const struct by_worker_call *call) {
  uint64_t hash = (uint64_t)number << 16 | (uint64_t)call->dtype << 8 | (uint64_t)call->op;
  for (int i = 0; i < 2; i++) {
    hash = (hash ^ hash >> 31 ^ (i ? 0 : call->count)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return (uint32_t)(hash >> 32);
}

enum banyan_status by_worker_begin(struct by_worker *w, enum banyan_dtype dtype, enum banyan_op op, const void *src,
                                   void *dst, size_t count, uint32_t *number) {
  if (w->status) return by_worker_state(w);
  if (!by_fixed_has(dtype) || (op != BANYAN_SUM && op != BANYAN_AVERAGE))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "switches do not add %s of %s; use an ordinary tree", banyan_op_name(op),
                   banyan_dtype_name(dtype));
  if (w->next - w->first == BY_WORKER_CALLS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%d sums are under way over one tree; wait for one", BY_WORKER_CALLS);
  struct by_worker_call *call = &w->calls[w->next % BY_WORKER_CALLS];
  *call = (struct by_worker_call){.src = src, .dst = dst, .count = count, .dtype = dtype, .op = op, .base = w->end};
  call->fragments = (count + w->elements - 1) / w->elements;
  if (!w->config.exact) {
    call->ahead = call->fragments < w->config.slots ? call->fragments : w->config.slots;
    call->openings = (call->ahead + w->per_opening - 1) / w->per_opening;
  }
  call->hash = hash_of(w->next, call);
  *number = w->next++;
  w->end += call->openings + call->fragments;
  for (uint64_t n = call->base; n < w->end && n < w->head + AHEAD * (uint64_t)w->config.slots; n++) make_ready(w, n);
  advance_head(w); /* An empty call ends at once. */
  return BANYAN_OK;
}

void by_worker_advance(struct by_worker *w, uint32_t number, size_t elements) {
  struct by_worker_call *call = &w->calls[number % BY_WORKER_CALLS];
  assert(number - w->first < w->next - w->first && elements >= call->available && elements <= call->count);
  call->available = elements;
}

size_t by_worker_done(const struct by_worker *w, uint32_t number) {
  const struct by_worker_call *call = &w->calls[number % BY_WORKER_CALLS];
  assert(w->next - number - 1 < BY_WORKER_CALLS);
  uint64_t begin = call->base + call->openings;
  if (w->head >= begin + call->fragments) return call->count;
  return w->head <= begin ? 0 : (size_t)(w->head - begin) * w->elements;
}

/* Losses alone do not reduce the window below FIRST_WINDOW, so that late detections do not trigger each other. */
enum { FIRST_WINDOW = 32, MIN_WINDOW = 2, JUDGED = 64 };

/* Maximum time in ns that packets may wait in queues that do not mark; the minimum applies if many are lost. */
static const double max_queued = 10e6, min_queued = 1e6;
static const double measured_every = 10e6; /* Interval in ns of measuring throughput. */
/* Growth of the minimum round trip with each result, in case the path has become longer. With a thousandth, it would
 * become the usual one within a second, and queues would grow by 10 ms repeatedly. */
static const double growth = 1.0001;

static enum banyan_status check_config(const struct by_worker_config *c) {
  uint32_t workers = by_groups_are_valid(&c->groups) ? by_workers_of(&c->groups) : 0;
  if (c->rank >= workers)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "worker %u of %u: trees through switches have 1 to %d groups of up to %d workers", c->rank, workers,
                   BY_FRAGMENT_GROUPS, BY_FRAGMENT_WORKERS);
  if (c->slots < 1 || c->slots > BY_WORKER_SLOTS || c->lines < 1 || c->lines > BY_FRAGMENT_LINES)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u slots of %u lines: give 1 to %d slots, 1 to %d lines", c->slots, c->lines,
                   BY_WORKER_SLOTS, BY_FRAGMENT_LINES);
  if (c->hops > BY_FRAGMENT_HOPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%u switches on the way: fragments have room for %d", c->hops,
                   BY_FRAGMENT_HOPS);
  return BANYAN_OK;
}

enum banyan_status by_worker_create(const struct by_worker_config *config, struct by_worker **out) {
  BY_TRY(check_config(config));
  struct by_worker *w = calloc(1, sizeof *w);
  if (!w) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a worker of %u slots", config->slots);
  size_t slots = config->slots;
  w->config = *config;
  uint32_t workers = by_workers_of(&config->groups);
  w->own = by_set_of_worker(&config->groups, config->rank);
  w->group = by_group_of(&config->groups, config->rank);
  w->all = by_set_of_all(&config->groups);
  w->bits = by_fixed_bits(workers);
  w->elements = (size_t)config->lines * BY_FRAGMENT_LINE / 4;
  if (!config->exact) w->elements -= (size_t)by_fragment_exponent_words(workers) * 2;
  w->stride = (1 + (size_t)config->lines) * BY_FRAGMENT_LINE;
  w->slots = calloc(slots, sizeof *w->slots);
  w->packets = aligned_alloc(BY_FRAGMENT_LINE, slots * w->stride);
  w->ready = calloc(AHEAD * slots / 64 + 1, sizeof *w->ready);
  w->exponents = calloc(2 * AHEAD * slots, 1);
  TAILQ_INIT(&w->order);
  w->timer = UINT64_MAX;
  w->queued = max_queued;
  w->questions = QUESTIONS;
  w->window = slots < FIRST_WINDOW ? (double)slots : FIRST_WINDOW;
  enum banyan_status status = BANYAN_OK;
  if (!w->slots || !w->packets || !w->ready || !w->exponents)
    status = by_fail(BANYAN_ERR_NO_MEMORY, "no memory for a worker of %zu slots", slots);
  else
    status = by_sum_key_init(&w->key, config->secret, sizeof config->secret, &config->groups, !config->exact);
  if (status == BANYAN_OK && config->exact) status = by_sum_key_init_open(&w->open);
  if (status == BANYAN_OK && config->keyed)
    status = by_hop_key_of_tree(config->secret, sizeof config->secret, config->job, config->key, &w->hop_key);
  if (config->keyed) w->hop = &w->hop_key;
  w->per_opening = by_sum_opening_room(&w->key, config->lines);
  if (status == BANYAN_OK && !config->exact && !w->per_opening)
    status = by_fail(BANYAN_ERR_ARGUMENT, "%u lines have no room for the exponents of %u workers: give more",
                     config->lines, workers);
  if (status) {
    by_worker_destroy(w);
    return status;
  }
  for (size_t s = 0; s < slots; s++) w->slots[s].number = s - slots; /* As if earlier fragments were done. */
  *out = w;
  return BANYAN_OK;
}

void by_worker_destroy(struct by_worker *w) {
  if (!w) return;
  free(w->slots);
  free(w->packets);
  free(w->ready);
  free(w->exponents);
  explicit_bzero(w, sizeof *w);
  free(w);
}

/* --- sending --- */

static void send_first(struct by_worker *w, struct by_worker_call *call, uint64_t number, uint64_t now) {
  uint64_t bit = number % (AHEAD * (uint64_t)w->config.slots);
  w->ready[bit / 64] &= ~(1ull << bit % 64);
  struct by_worker_slot *slot = slot_of(w, number);
  *slot = (struct by_worker_slot){.number = number, .state = SLOT_SENT, .past = slot->past, .sent = now};
  fill_packet(w, call, number);
  if (TAILQ_EMPTY(&w->order)) { /* No packet was expected before. */
    if (w->received < now) w->received = now;
    w->flowing = now;
    w->silent = 0;
    w->path.unanswered = 0;
  }
  w->flying++;
  by_worker_send(w, slot, 0, now);
}

/* The head may always be sent: the windows of different workers are full of different fragments, which would wait for
 * each other in a circle. So the first fragment that is not done everywhere is in flight from everywhere. */
void by_worker_progress(struct by_worker *w, uint64_t now) {
  if (w->status) return;
  by_worker_expire(w, now);
  while (!w->status) {
    uint64_t number = by_worker_first_ready(w);
    if (number >= w->end || (w->flying >= (uint32_t)w->window && number != w->head)) return;
    struct by_worker_call *call = by_worker_call_of(w, number);
    if (!has_elements(w, call, number)) return;
    send_first(w, call, number, now);
  }
}

/* --- the window --- */

/* If no switch adds terms, they share the server's link. */
static double first_window_of(const struct by_worker *w) {
  double share = w->path.dead ? (double)FIRST_WINDOW / by_workers_of(&w->config.groups) : FIRST_WINDOW;
  return share > MIN_WINDOW ? share : MIN_WINDOW;
}

/* Returns how long queues may be in ns, if many packets are lost. Processes that wait for processors need more. */
static double min_queued_of(const struct by_worker *w) {
  double min = 2 * w->rttvar > min_queued ? 2 * w->rttvar : min_queued;
  return min < max_queued ? min : max_queued;
}

/* Adjusts the window. All workers see the same results, marked by any congested queue, and make the same changes: half
 * a fragment less for a marked one, a fraction more for another. So windows stay equal. With a fraction less, smaller
 * windows, which are adjusted more often, would vanish beside larger ones, for which these workers would wait. A few
 * losses are caused by links; many by a queue that does not mark. */
static void adjust_window(struct by_worker *w, bool marked, uint64_t now) {
  double min = 1.5 * w->pace * w->min_rtt; /* A smaller window would not fill the path. */
  if (min < MIN_WINDOW) min = MIN_WINDOW;
  if (marked) {
    if (w->window > min + 0.5) w->window -= 0.5;
    w->congested = true;
  } else {
    w->window += w->congested ? 2 / w->window : 1;
  }
  if (++w->came == JUDGED) {
    if (w->lost * 8 > JUDGED) {
      if (min < first_window_of(w)) min = first_window_of(w);
      if (w->window > min) w->window = w->window > 2 * min ? w->window / 2 : min;
      w->congested = true;
      w->halved = now;
      w->queued /= 2;
      if (w->queued < min_queued_of(w)) w->queued = min_queued_of(w);
    } else if (w->queued < max_queued) {
      w->queued *= 1.05;
    }
    w->came = w->lost = 0;
  }
  if (w->window < MIN_WINDOW) w->window = MIN_WINDOW;
  if (w->window > w->config.slots) w->window = w->config.slots;
}

/* Most switches mark nothing, and XDP does not see queues. So the window is limited to the throughput in the minimum
 * round trip plus a little, which limits queues. Idle times, or waiting for a worker that computes, show nothing about
 * the network, so the maximum throughput decays slowly. */
static double limit_window(struct by_worker *w, const struct by_worker_slot *slot, uint64_t now) {
  double rtt = (double)(now - slot->sent), lasted = (double)(now - w->since);
  if (!slot->resent && !slot->late)
    w->min_rtt = w->min_rtt > 0 && w->min_rtt * growth < rtt ? w->min_rtt * growth : rtt;
  w->counted++;
  if (lasted >= measured_every) {
    double pace = (double)w->counted / lasted;
    w->pace = pace > w->pace * 0.98 ? pace : w->pace * 0.98;
    w->counted = 0;
    w->since = now;
  }
  if (!(w->pace > 0) || !(w->min_rtt > 0)) return (double)w->config.slots;
  double max = w->pace * (w->min_rtt + w->queued);
  double min = first_window_of(w);
  return max > min ? max : min;
}

static void count_result(struct by_worker *w, const struct by_worker_call *call, const struct by_worker_slot *slot,
                         const struct by_fragment *result, uint64_t now) {
  bool marked = result->flags & BY_FRAGMENT_CE;
  w->counters.results++;
  w->counters.marked += marked;
  if (now - slot->sent > w->counters.longest) w->counters.longest = now - slot->sent;
  by_worker_repaired(w, slot, now);
  if (!slot->late && slot->due > w->answered) w->answered = slot->due;
  if (!slot->late) w->newest = slot->number + 1;
  if (!slot->resent && !slot->late) by_worker_sample(w, now - slot->sent);
  if (is_opening(call, slot->number)) return; /* An opening shows nothing about the capacity of the network. */
  adjust_window(w, marked, now);
  double max = limit_window(w, slot, now);
  if (w->window > max) w->window = max;
}

/* --- handling packets --- */

/* Returns the slot that waits for this packet; NULL: it is late, or unexpected. */
static struct by_worker_slot *slot_waiting(struct by_worker *w, const struct by_fragment *packet) {
  if (packet->slot >= w->config.slots) return NULL;
  struct by_worker_slot *slot = &w->slots[packet->slot];
  bool same = (uint32_t)(slot->number / w->config.slots) == packet->epoch;
  return slot->state == SLOT_SENT && same ? slot : NULL;
}

static void handle_result(struct by_worker *w, const struct by_fragment *result, uint64_t now) {
  struct by_worker_slot *slot = slot_waiting(w, result);
  const struct by_fragment *term = slot ? packet_of(w, slot->number) : NULL;
  bool of_term = term && result->workers == w->all.workers && result->group == w->all.group &&
                 result->call == term->call && result->dtype == term->dtype && result->lines == term->lines &&
                 result->exponent == term->exponent;
  if (!of_term) {
    w->counters.late++;
    return;
  }
  struct by_worker_call *call = by_worker_call_of(w, slot->number);
  if (!store_result(w, call, result)) {
    w->counters.failed_checks++;
    if (!slot->asked)
      by_worker_ask_again(w, slot,
                          now); /* The path from the server was at fault, as the server has verified its own result. */
    return;
  }
  if (now > w->received) w->received = now; /* It certainly came from the server. */
  w->flowing = now;
  w->silent = 0;
  w->alone = result->type == BY_FRAGMENT_RESULT ? w->alone + 1 : 0;
  if (!slot->straight && !slot->passed) by_worker_take_sign(w, slot->sent, now);
  by_worker_unlink(w, slot);
  if (!slot->late) w->flying--;
  count_result(w, call, slot, result, now);
  slot->past = result->flags & BY_FRAGMENT_ESCALATE;
  finish_fragment(w, call, slot->number, result);
}

static void handle_answer(struct by_worker *w, const struct by_fragment *answer, uint64_t now) {
  if (answer->dtype != w->own.group || answer->exponent != (unsigned)__builtin_ctzll(w->own.workers)) {
    w->counters.foreign++; /* It is for another worker. */
    return;
  }
  if (!by_sum_header_is_valid(&w->key, answer)) {
    w->counters.failed_checks++;
    return;
  }
  if (!by_replay_take(&w->answers, by_fragment_sequence(answer))) {
    w->counters.replayed++;
    return;
  }
  struct by_worker_slot *slot = slot_waiting(w, answer);
  bool reply = answer->type == BY_FRAGMENT_PROBE_REPLY && answer->rank == (unsigned)__builtin_ctzll(w->own.workers);
  if (reply) by_worker_note_way(w, answer, now); /* While results arrive, answers past the switches are faster. */
  if (!slot) return;                             /* Somebody may have stored it. */
  if (now > w->received) w->received = now;
  if (answer->type == BY_FRAGMENT_NACK)
    by_worker_take_nack(w, answer, now);
  else if (reply)
    by_worker_take_reply(w, answer, now);
}

void by_worker_take(struct by_worker *w, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  enum by_fragment_fault fault = by_fragment_verify(packet, bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes, w->hop);
  if (fault != BY_FRAGMENT_SOUND) {
    w->counters.forged += fault == BY_FRAGMENT_FORGED;
    w->counters.malformed += fault != BY_FRAGMENT_FORGED;
    return;
  }
  if (packet->job != w->config.job || packet->key != w->config.key) {
    w->counters.foreign++;
    return;
  }
  switch (packet->type) {
  case BY_FRAGMENT_RESULT:
  case BY_FRAGMENT_RESULT_MC: handle_result(w, packet, now); break;
  case BY_FRAGMENT_PROBE_REPLY:
  case BY_FRAGMENT_NACK: handle_answer(w, packet, now); break;
  default: w->counters.foreign++; /* It is of another worker. */
  }
}

uint64_t by_worker_deadline(const struct by_worker *w) {
  return TAILQ_EMPTY(&w->order) || w->status ? UINT64_MAX : w->timer;
}

enum banyan_status by_worker_state(const struct by_worker *w) {
  return w->status ? by_fail(w->status, "%s", w->text) : BANYAN_OK;
}

const struct by_worker_counters *by_worker_counters(const struct by_worker *w) {
  return &w->counters;
}
