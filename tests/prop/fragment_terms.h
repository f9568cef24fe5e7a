/* Terms whose sums are known: what each worker contributes to a fragment is derived from the fragment's name, so that
 * a test can state what any packet must hold without having followed it. */
#ifndef BY_TESTS_FRAGMENT_TERMS_H
#define BY_TESTS_FRAGMENT_TERMS_H

#include <stdbool.h>
#include <string.h>

#include "fragment.h"

struct packet {
  struct by_fragment head;
  uint64_t pairs[BY_FRAGMENT_LINES * 8];
};

/* Returns a number that looks random, for the i-th of this worker's terms. */
static inline uint64_t term_of(const struct by_fragment *name, uint32_t worker, uint32_t i) {
  uint64_t x = ((uint64_t)name->job << 48) ^ ((uint64_t)name->key << 32) ^ ((uint64_t)name->slot << 16) ^ name->epoch;
  x = (x + 0x9e3779b97f4a7c15u * (i * 64 + worker + 1)) * 0xbf58476d1ce4e5b9u;
  return (x ^ x >> 29) * 0x94d049bb133111ebu;
}

/* Returns both int32 of pair i, summed over the workers one by one. Values stay below 2^31 / 64. */
static inline uint64_t pair_sum(const struct by_fragment *name, uint64_t workers, uint32_t i) {
  int64_t high = 0, low = 0;
  for (uint32_t worker = 0; worker < 64; worker++)
    if (workers >> worker & 1) {
      uint64_t term = term_of(name, worker, i);
      high += (int64_t)(term >> 39) - (1 << 24);
      low += (int64_t)(term & 0x1ffffff) - (1 << 24);
    }
  return (uint64_t)(high * 4294967296 + low);
}

static inline uint64_t check_sum(const struct by_fragment *name, uint64_t workers) {
  uint64_t sum = 0;
  for (uint32_t worker = 0; worker < 64; worker++)
    if (workers >> worker & 1) sum += term_of(name, worker, 4000);
  return sum;
}

/* Fills the packet with the sum of the terms of these workers. */
static inline void fill_terms(struct packet *packet, uint64_t workers) {
  packet->head.workers = workers;
  packet->head.check = check_sum(&packet->head, workers);
  for (uint32_t i = 0; i < packet->head.lines * 8u; i++) packet->pairs[i] = pair_sum(&packet->head, workers, i);
}

static inline bool holds_its_terms(const struct packet *packet) {
  const struct by_fragment *head = &packet->head;
  for (uint32_t i = 0; i < head->lines * 8u; i++)
    if (packet->pairs[i] != pair_sum(head, head->workers, i)) return false;
  return head->check == check_sum(head, head->workers);
}

#endif
