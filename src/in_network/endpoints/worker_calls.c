/* Calls as fragments:
 *
 *   number   base         base + openings                end of the call
 *            |  openings  |  fragments with elements     |
 *            | e0 e1 e2   | 0:e3 1:e4 2:e5 3:e6 ...      |     e: the exponent that it tells the others
 *
 * Openings are as many as the slots, or as the fragments if those are fewer, so
 * that what fragment j needs was told `openings` fragments before. */
#include <assert.h>
#include <string.h>

#include "fail.h"
#include "fixed.h"
#include "worker_parts.h"

struct call *by_worker_call_of(struct by_worker *w, uint64_t number) {
  uint32_t id = w->next - 1;
  while (id != w->first && w->calls[id % BY_WORKER_CALLS].base > number) id--;
  return &w->calls[id % BY_WORKER_CALLS];
}

/* Which of the call's fragments with elements it is, or tells of. */
static uint64_t index_of(const struct call *call, uint64_t number) {
  uint64_t at = number - call->base;
  return at < call->openings ? at : at - call->openings;
}

bool by_worker_is_opening(const struct call *call, uint64_t number) {
  return number - call->base < call->openings;
}

static size_t elements_of(const struct by_worker *w, const struct call *call, uint64_t index) {
  size_t left = call->count - index * w->elements;
  return left < w->elements ? left : w->elements;
}

static const unsigned char *source_of(const struct by_worker *w, const struct call *call, uint64_t index) {
  return call->src + index * w->elements * banyan_dtype_size(call->dtype);
}

/* --- what may be sent --- */

static bool is_done(const struct by_worker *w, uint64_t number) {
  const struct slot *slot = slot_of(w, number);
  int64_t passed = (int64_t)(slot->number - number);
  return number < w->head || passed > 0 || (passed == 0 && slot->state == SLOT_DONE);
}

static bool is_free_for(const struct by_worker *w, uint64_t number) {
  const struct slot *slot = slot_of(w, number);
  return slot->state == SLOT_DONE && slot->number + w->config.slots == number;
}

void by_worker_make_ready(struct by_worker *w, uint64_t number) {
  if (number >= w->end || number >= w->head + AHEAD * (uint64_t)w->config.slots || !is_free_for(w, number)) return;
  const struct call *call = by_worker_call_of(w, number);
  if (!by_worker_is_opening(call, number) && call->openings && !is_done(w, number - call->openings)) return;
  struct slot *slot = slot_of(w, number);
  slot->number = number;
  slot->state = SLOT_READY;
  uint64_t bit = number % (AHEAD * (uint64_t)w->config.slots);
  w->ready[bit / 64] |= 1ull << bit % 64;
}

/* The first bit from `from` on, below `end`; `end` if there is none. */
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

bool by_worker_has_elements(const struct call *call, const struct by_worker *w, uint64_t number) {
  uint64_t last = index_of(call, number);
  if (!by_worker_is_opening(call, number)) last += call->openings; /* whose exponent it tells */
  if (last >= call->fragments) last = call->fragments - 1;
  return call->available >= last * w->elements + elements_of(w, call, last);
}

/* --- packets out --- */

static unsigned raw_dtype(enum banyan_dtype dtype) {
  switch (dtype) {
  case BANYAN_INT32: return BY_FRAGMENT_INT32;
  case BANYAN_FLOAT16: return BY_FRAGMENT_FLOAT16;
  case BANYAN_BFLOAT16: return BY_FRAGMENT_BFLOAT16;
  default: return BY_FRAGMENT_FLOAT32;
  }
}

static uint8_t own_exponent(const struct by_worker *w, const struct call *call, uint64_t index) {
  if (index >= call->fragments) return 0;
  return (uint8_t)by_fixed_exponent(call->dtype, source_of(w, call, index), elements_of(w, call, index), w->bits);
}

static uint8_t agreed_exponent(const struct by_worker *w, uint64_t number) {
  return w->exponents[number % (2 * AHEAD * (uint64_t)w->config.slots)];
}

/* Zeros behind `bytes` of numbers up to the end of the last line, but for the exponent that this worker tells there. */
static void close_payload(const struct by_worker *w, struct by_fragment *packet, size_t bytes, uint8_t exponent) {
  size_t needed = bytes + (size_t)w->key.words * 8;
  packet->lines = (uint8_t)((needed + BY_FRAGMENT_LINE - 1) / BY_FRAGMENT_LINE);
  memset((unsigned char *)(packet + 1) + bytes, 0, (size_t)packet->lines * BY_FRAGMENT_LINE - bytes);
  if (w->key.words) by_sum_put_exponent(&w->key, packet, w->config.rank, exponent);
}

static void fill_elements(struct by_worker *w, const struct call *call, uint64_t number, struct by_fragment *packet) {
  uint64_t index = index_of(call, number);
  size_t elements = elements_of(w, call, index);
  uint8_t ahead = call->openings ? own_exponent(w, call, index + call->openings) : 0;
  if (call->openings) packet->exponent = agreed_exponent(w, number);
  if (call->openings && packet->exponent < BY_FIXED_NOT_FINITE) {
    close_payload(w, packet, by_fixed_bytes(elements), ahead);
    uint64_t sum = by_fixed_quantise(call->dtype, packet + 1, source_of(w, call, index), elements, packet->exponent,
                                     w->bits, w->key.derived.number);
    packet->check = sum + by_sum_tag(&w->key, packet, packet->workers);
    return;
  }
  size_t bytes = elements * banyan_dtype_size(call->dtype);
  packet->dtype = (uint8_t)raw_dtype(call->dtype);
  if (call->openings) packet->flags |= BY_FRAGMENT_ESCALATE;
  close_payload(w, packet, bytes, ahead);
  memcpy(packet + 1, source_of(w, call, index), bytes);
  packet->check = by_sum_check(w->config.exact ? &w->open : &w->key, packet, packet->workers);
}

void by_worker_fill(struct by_worker *w, struct call *call, uint64_t number) {
  struct by_fragment *packet = packet_of(w, number);
  by_fragment_begin(packet, BY_FRAGMENT_UP, (uint16_t)w->config.rank);
  packet->job = w->config.job;
  packet->key = w->config.key;
  packet->slot = (uint16_t)(number % w->config.slots);
  packet->epoch = (uint32_t)(number / w->config.slots);
  packet->call = call->hash;
  packet->dtype = BY_FRAGMENT_PAIRS;
  if (by_worker_is_opening(call, number)) {
    close_payload(w, packet, 0, own_exponent(w, call, index_of(call, number)));
    packet->check = by_sum_tag(&w->key, packet, packet->workers);
    return;
  }
  fill_elements(w, call, number, packet);
}

/* --- results in --- */

bool by_worker_store(struct by_worker *w, struct call *call, const struct by_fragment *result) {
  const struct slot *slot = &w->slots[result->slot];
  uint64_t index = index_of(call, slot->number);
  if (by_worker_is_opening(call, slot->number)) return result->check == by_sum_check(&w->key, result, w->all);
  size_t elements = elements_of(w, call, index);
  unsigned char *to = call->dst + index * w->elements * banyan_dtype_size(call->dtype);
  if (result->dtype == BY_FRAGMENT_PAIRS) { /* a wrong one is overwritten by the next: the packet has what src had */
    uint64_t sum =
        by_fixed_dequantise(call->dtype, to, result + 1, elements, result->exponent, w->bits, w->key.derived.number);
    return sum + by_sum_tag(&w->key, result, w->all) == result->check;
  }
  if (by_sum_check(&w->key, result, w->all) != result->check) return false;
  memcpy(to, result + 1, elements * banyan_dtype_size(call->dtype));
  return true;
}

/* Moves the head over what is done; what was too far ahead of it may become ready. */
static void advance_head(struct by_worker *w) {
  while (w->head < w->end && is_done(w, w->head)) {
    w->head++;
    by_worker_make_ready(w, w->head + AHEAD * (uint64_t)w->config.slots - 1);
  }
  while (w->first != w->next) {
    const struct call *call = &w->calls[w->first % BY_WORKER_CALLS];
    if (w->head < call->base + call->openings + call->fragments) break;
    w->first++;
  }
}

void by_worker_finish(struct by_worker *w, struct call *call, uint64_t number, unsigned ahead) {
  slot_of(w, number)->state = SLOT_DONE;
  uint64_t told = number + call->openings;
  if (call->openings && told < call->base + call->openings + call->fragments) {
    w->exponents[told % (2 * AHEAD * (uint64_t)w->config.slots)] = (uint8_t)ahead;
    by_worker_make_ready(w, told);
  }
  by_worker_make_ready(w, number + w->config.slots);
  if (number == w->head) advance_head(w);
}

/* --- the caller's side --- */

static uint32_t hash_of(uint32_t number, const struct call *call) {
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
  struct call *call = &w->calls[w->next % BY_WORKER_CALLS];
  *call = (struct call){.src = src, .dst = dst, .count = count, .dtype = dtype, .op = op, .base = w->end};
  call->fragments = (count + w->elements - 1) / w->elements;
  if (!w->config.exact) call->openings = call->fragments < w->config.slots ? call->fragments : w->config.slots;
  call->hash = hash_of(w->next, call);
  *number = w->next++;
  w->end += call->openings + call->fragments;
  for (uint64_t n = call->base; n < w->end && n < w->head + AHEAD * (uint64_t)w->config.slots; n++)
    by_worker_make_ready(w, n);
  advance_head(w); /* an empty call ends at once */
  return BANYAN_OK;
}

void by_worker_advance(struct by_worker *w, uint32_t number, size_t elements) {
  struct call *call = &w->calls[number % BY_WORKER_CALLS];
  assert(number - w->first < w->next - w->first && elements >= call->available && elements <= call->count);
  call->available = elements;
}

size_t by_worker_done(const struct by_worker *w, uint32_t number) {
  const struct call *call = &w->calls[number % BY_WORKER_CALLS];
  assert(w->next - number - 1 < BY_WORKER_CALLS);
  uint64_t begin = call->base + call->openings;
  if (w->head >= begin + call->fragments) return call->count;
  return w->head <= begin ? 0 : (size_t)(w->head - begin) * w->elements;
}
