#include "sparse_sort.h"

#include <string.h>

enum { DIGIT = 11, MOST_PASSES = 3, FEW = 24, KEY_BITS = 32, SPARE_BITS = 14 };

struct sorter {
  const void *rows;
  bool wide; /* rows of 64 bits */
};

/* What follows is compiled once for each kind of rows. */
#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t row_of(struct sorter sorter, uint32_t at) {
  return sorter.wide ? (uint64_t)((const int64_t *)sorter.rows)[at] : (uint64_t)((const int32_t *)sorter.rows)[at];
}

INLINE void sort_few(struct sorter sorter, struct by_sparse_place *places, size_t n) {
  for (size_t i = 1; i < n; i++) {
    struct by_sparse_place place = places[i];
    uint64_t row = row_of(sorter, place.at);
    size_t to = i;
    for (; to && row_of(sorter, places[to - 1].at) > row; to--) places[to] = places[to - 1];
    places[to] = place;
  }
}

static unsigned bits_of(uint64_t number) {
  return number ? 64 - (unsigned)__builtin_clzll(number) : 0;
}

/* A key is a row less the least one, without its last `shift` bits. It is sorted digit by digit, the least first. */
struct digits {
  uint64_t least;
  unsigned shift, passes, from[MOST_PASSES], mask[MOST_PASSES];
  uint32_t starts[MOST_PASSES][1 << DIGIT];
};

static void choose_digits(uint64_t least, uint64_t most, size_t n, struct digits *digits) {
  unsigned bits = bits_of(most - least), enough = bits_of(n - 1) + SPARE_BITS;
  if (enough > KEY_BITS) enough = KEY_BITS;
  unsigned taken = bits < enough ? bits : enough;
  digits->least = least;
  digits->shift = bits - taken;
  digits->passes = taken > DIGIT ? (taken + DIGIT - 1) / DIGIT : 1;
  for (unsigned p = 0; p < MOST_PASSES; p++) {
    unsigned from = taken * p / digits->passes, end = taken * (p + 1) / digits->passes;
    digits->from[p] = from;
    digits->mask[p] = p < digits->passes ? (1u << (end - from)) - 1 : 0;
    memset(digits->starts[p], 0, (digits->mask[p] + (size_t)1) * sizeof(uint32_t));
  }
}

/* Keys of n places into `to`, and how often each digit stands there. `from` NULL: those of the rows as they stand. */
INLINE void make_keys(struct sorter sorter, const struct by_sparse_place *from, size_t n, struct digits *digits,
                      struct by_sparse_place *to) {
  const uint64_t least = digits->least;
  const unsigned shift = digits->shift, passes = digits->passes, from1 = digits->from[1], from2 = digits->from[2];
  const uint32_t mask0 = digits->mask[0], mask1 = digits->mask[1], mask2 = digits->mask[2];
  for (size_t i = 0; i < n; i++) {
    uint32_t at = from ? from[i].at : (uint32_t)i, key = (uint32_t)((row_of(sorter, at) - least) >> shift);
    digits->starts[0][key & mask0]++;
    if (passes > 1) digits->starts[1][key >> from1 & mask1]++;
    if (passes > 2) digits->starts[2][key >> from2 & mask2]++;
    to[i] = (struct by_sparse_place){key, at};
  }
}

static void sort_digit(uint32_t *starts, unsigned shift, uint32_t mask, const struct by_sparse_place *from,
                       struct by_sparse_place *to, size_t n) {
  uint32_t sum = 0;
  for (size_t d = 0; d <= mask; d++) {
    uint32_t here = starts[d];
    starts[d] = sum;
    sum += here;
  }
  for (size_t i = 0; i < n; i++) {
    struct by_sparse_place place = from[i];
    to[starts[place.key >> shift & mask]++] = place;
  }
}

/* By keys alone, of rows from `least` to `most`. Returns the bits of a row that keys do not have. */
INLINE unsigned sort_keys(struct sorter sorter, const struct by_sparse_place *from, size_t n, uint64_t least,
                          uint64_t most, struct by_sparse_place *places, struct by_sparse_place *scratch) {
  struct digits digits;
  choose_digits(least, most, n, &digits);
  struct by_sparse_place *here = digits.passes % 2 ? scratch : places, *there = digits.passes % 2 ? places : scratch;
  make_keys(sorter, from, n, &digits, here);
  for (unsigned p = 0; p < digits.passes; p++) {
    sort_digit(digits.starts[p], digits.from[p], digits.mask[p], here, there, n);
    struct by_sparse_place *sorted = there;
    there = here;
    here = sorted;
  }
  return digits.shift;
}

/* The first behind those with the key of the one at `i`. */
static inline size_t end_of_key(const struct by_sparse_place *places, size_t i, size_t n) {
  size_t end = i + 1;
  while (end < n && places[end].key == places[i].key) end++;
  return end;
}

/* Places of one key, by the bits below it: at most eight deep, since each time there are some bits fewer. */
static void sort_tied(struct sorter sorter, struct by_sparse_place *places, struct by_sparse_place *scratch, size_t n) {
  uint64_t least = UINT64_MAX, most = 0;
  if (n <= FEW) {
    sort_few(sorter, places, n);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    uint64_t row = row_of(sorter, places[i].at);
    least = row < least ? row : least;
    most = row > most ? row : most;
  }
  if (least == most || !sort_keys(sorter, places, n, least, most, places, scratch)) return;
  for (size_t i = 0, end; i < n; i = end) {
    end = end_of_key(places, i, n);
    if (end - i > 1) sort_tied(sorter, places + i, scratch + i, end - i);
  }
}

/* Numbers sorted places by their rows, from `number` on. */
INLINE uint32_t number_rows(struct sorter sorter, struct by_sparse_place *places, size_t n, uint32_t number) {
  uint64_t before = row_of(sorter, places[0].at);
  for (size_t i = 0; i < n; i++) {
    uint64_t row = row_of(sorter, places[i].at);
    number += row != before;
    places[i].key = number;
    before = row;
  }
  return number + 1;
}

/* The same where keys are all that there is to rows. */
static uint32_t number_keys(struct by_sparse_place *places, size_t n) {
  uint32_t number = 0, before = places[0].key;
  for (size_t i = 0; i < n; i++) {
    uint32_t key = places[i].key;
    number += key != before;
    places[i].key = number;
    before = key;
  }
  return number + 1;
}

INLINE size_t sort(struct sorter sorter, size_t n, uint64_t least, uint64_t most, struct by_sparse_place *places,
                   struct by_sparse_place *scratch) {
  uint32_t number = 0;
  if (n <= FEW) {
    for (size_t i = 0; i < n; i++) places[i].at = (uint32_t)i;
    sort_few(sorter, places, n);
    return n ? number_rows(sorter, places, n, 0) : 0;
  }
  if (!sort_keys(sorter, NULL, n, least, most, places, scratch)) return number_keys(places, n);
  for (size_t i = 0, end; i < n; i = end) {
    end = end_of_key(places, i, n);
    if (end - i > 1) sort_tied(sorter, places + i, scratch + i, end - i);
    number = end - i > 1 ? number_rows(sorter, places + i, end - i, number) : (places[i].key = number, number + 1);
  }
  return number;
}

/* Digits of rows in descending order would fall on the same cache lines again and again. */
static size_t turn_round(struct by_sparse_place *places, size_t n) {
  for (size_t i = 0; i < n; i++) places[i] = (struct by_sparse_place){(uint32_t)i, (uint32_t)(n - 1 - i)};
  return n;
}

size_t by_sparse_sort(const struct banyan_sparse *tensor, const struct by_sparse_range *range,
                      struct by_sparse_place *places, struct by_sparse_place *scratch) {
  if (range->descending) return turn_round(places, tensor->count);
  struct sorter narrow = {.rows = tensor->rows}, wide = {.rows = tensor->rows, .wide = true};
  if (tensor->row_dtype == BANYAN_INT32) return sort(narrow, tensor->count, range->least, range->most, places, scratch);
  return sort(wide, tensor->count, range->least, range->most, places, scratch);
}
