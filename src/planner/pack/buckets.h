/* A queue of items by keys, least first to within a part in 64: items are
 * numbers below a limit, each in the queue at most once, and keys are doubles
 * >= 0. Keys that share their leading bits share a bucket, first in first out;
 * three levels of bits find the first bucket that is not empty. Adding and
 * taking cost a few steps whatever is in it. Borrows the arena's memory; not
 * for several threads.
 *
 *   top    1 word:      which words of mid are not 0
 *   mid    32 words:    which words of low are not 0
 *   low    2048 words:  which buckets are not empty
 */
#ifndef BY_PLAN_BUCKETS_H
#define BY_PLAN_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arena.h"

/* Buckets go by exponent and so many bits of the mantissa. */
enum { BY_BUCKET_DETAIL = 6, BY_BUCKETS = 2048 << BY_BUCKET_DETAIL };

struct by_bucket {
  uint32_t first, last; /* items, if the bucket's bit is set */
};

struct by_buckets {
  struct by_bucket *buckets;
  uint64_t top, *mid, *low;
  uint32_t *next; /* of each item */
  double *key;    /* of each item, as it was put in last */
};

/* For items 0 .. n_items - 1; empty. False: no memory. */
static inline bool by_buckets_init(struct by_buckets *queue, uint32_t n_items, struct by_arena *arena) {
  queue->buckets = BY_ARENA_ARRAY(arena, struct by_bucket, BY_BUCKETS);
  queue->low = BY_ARENA_ARRAY(arena, uint64_t, BY_BUCKETS / 64);
  queue->mid = BY_ARENA_ARRAY(arena, uint64_t, BY_BUCKETS / 64 / 64);
  queue->next = BY_ARENA_ARRAY(arena, uint32_t, n_items);
  queue->key = BY_ARENA_ARRAY(arena, double, n_items);
  queue->top = 0;
  return queue->buckets && queue->low && queue->mid && queue->next && queue->key;
}

static inline uint32_t by_bucket_of(double key) {
  uint64_t bits;
  memcpy(&bits, &key, sizeof bits);
  return (uint32_t)(bits >> (52 - BY_BUCKET_DETAIL)) % BY_BUCKETS; /* also of -0 and NaN there is one */
}

static inline bool by_buckets_any(const struct by_buckets *queue) {
  return queue->top != 0;
}

static inline void by_buckets_put(struct by_buckets *queue, uint32_t item, double key) {
  uint32_t b = by_bucket_of(key), word = b / 64;
  struct by_bucket *bucket = &queue->buckets[b];
  queue->key[item] = key;
  if (queue->low[word] >> b % 64 & 1) {
    queue->next[bucket->last] = item;
  } else {
    queue->low[word] |= 1ull << b % 64;
    queue->mid[word / 64] |= 1ull << word % 64;
    queue->top |= 1ull << word / 64;
    bucket->first = item;
  }
  bucket->last = item;
}

/* Takes an item out; there must be one. */
static inline uint32_t by_buckets_take(struct by_buckets *queue) {
  uint32_t high = (uint32_t)__builtin_ctzll(queue->top), word = high * 64 + (uint32_t)__builtin_ctzll(queue->mid[high]);
  struct by_bucket *bucket = &queue->buckets[word * 64 + (uint32_t)__builtin_ctzll(queue->low[word])];
  uint32_t item = bucket->first;
  if (item != bucket->last) {
    bucket->first = queue->next[item];
    return item;
  }
  queue->low[word] &= queue->low[word] - 1; /* its lowest bit */
  if (!queue->low[word]) queue->mid[high] &= queue->mid[high] - 1;
  if (!queue->mid[high]) queue->top &= queue->top - 1;
  return item;
}

/* Takes all out. Cost: the buckets that are not empty. */
static inline void by_buckets_clear(struct by_buckets *queue) {
  for (; queue->top; queue->top &= queue->top - 1) {
    uint32_t high = (uint32_t)__builtin_ctzll(queue->top);
    for (; queue->mid[high]; queue->mid[high] &= queue->mid[high] - 1)
      queue->low[high * 64 + (uint32_t)__builtin_ctzll(queue->mid[high])] = 0;
  }
}

#endif
