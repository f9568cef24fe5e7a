/* Sets of ranks as bitmaps. */
#include "rank_set.h"

#include <stdlib.h>
#include <string.h>

static uint32_t words_of(const struct by_rank_set *set) {
  return (set->n + 63) / 64;
}

enum banyan_status by_rank_set_init(struct by_rank_set *set, uint32_t n) {
  set->n = n;
  set->words = calloc(words_of(set) + 1, sizeof *set->words);
  if (set->words) return BANYAN_OK;
  set->n = 0;
  return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a set of %u ranks", n);
}

void by_rank_set_fini(struct by_rank_set *set) {
  free(set->words);
  *set = (struct by_rank_set){0};
}

void by_rank_set_clear(struct by_rank_set *set) {
  memset(set->words, 0, words_of(set) * sizeof *set->words);
}

uint32_t by_rank_set_count(const struct by_rank_set *set) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < words_of(set); i++) count += (uint32_t)__builtin_popcountll(set->words[i]);
  return count;
}

bool by_rank_set_merge(struct by_rank_set *set, const struct by_rank_set *from) {
  bool fresh = false;
  for (uint32_t i = 0; i < words_of(set); i++) {
    fresh |= (from->words[i] & ~set->words[i]) != 0;
    set->words[i] |= from->words[i];
  }
  return fresh;
}

uint32_t by_rank_set_next(const struct by_rank_set *set, uint32_t from) {
  for (uint32_t i = from / 64; i < words_of(set); i++) {
    uint64_t word = set->words[i];
    if (i == from / 64) word &= UINT64_MAX << from % 64;
    if (word) return 64 * i + (uint32_t)__builtin_ctzll(word);
  }
  return set->n;
}

void by_rank_set_write(struct by_writer *writer, const struct by_rank_set *set) {
  for (uint32_t i = 0; i < (set->n + 7) / 8; i++) by_write_u8(writer, (uint8_t)(set->words[i / 8] >> i % 8 * 8));
}

void by_rank_set_read(struct by_reader *reader, struct by_rank_set *set) {
  by_rank_set_clear(set);
  uint32_t n = (set->n + 7) / 8;
  const uint8_t *bytes = by_read_bytes(reader, n);
  if (!bytes) return;
  if (set->n % 8 && bytes[n - 1] >> set->n % 8) {
    reader->failed = true;
    return;
  }
  for (uint32_t i = 0; i < n; i++) set->words[i / 8] |= (uint64_t)bytes[i] << i % 8 * 8;
}
