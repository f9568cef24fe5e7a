/* Rows are sorted, then each result row is made at once from all that go into
 * it: values are read once and written once, whatever the number of duplicates.
 *
 *   rows     7  3  7  5        places, sorted   3@1  5@3  7@0  7@2
 *   values   a  b  c  d        out              3:b  5:d  7:a+c                */
#include "sparse_tensor.h"

#include <stdlib.h>
#include <string.h>

#include "reduce.h"

enum { MOST_SOURCES = 64, AHEAD = 12, LINE = 64, MOST_FETCHED = 512 };

void by_sparse_scratch_fini(struct by_sparse_scratch *scratch) {
  free(scratch->memory);
  *scratch = (struct by_sparse_scratch){0};
}

void *by_sparse_scratch_need(struct by_sparse_scratch *scratch, size_t bytes) {
  if (bytes > scratch->bytes) {
    by_sparse_scratch_fini(scratch);
    scratch->memory = malloc(bytes);
    scratch->bytes = scratch->memory ? bytes : 0;
  }
  return scratch->memory;
}

/* ---- which row stands where */

enum { DIGIT = 11, MOST_PASSES = 3, FEW = 24, KEY_BITS = 32, SPARE_BITS = 14 };

struct sorter {
  const void *rows;
  bool wide; /* Row numbers have 64 bits. */
};

/* The functions below are compiled once for each type of row numbers. */
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

/* Writes the keys of n places to `to`, and counts how often each digit occurs. `from` NULL: the rows in their present
 * order. */
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

/* Sorts by keys alone, for rows from `least` to `most`. Returns the number of bits of a row that its key does not have.
 */
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

/* Returns the first index after those with the key of index `i`. */
static inline size_t end_of_key(const struct by_sparse_place *places, size_t i, size_t n) {
  size_t end = i + 1;
  while (end < n && places[end].key == places[i].key) end++;
  return end;
}

/* Sorts places of one key by the bits below the key. Recursion is at most eight deep, since some bits fewer remain each
 * time. */
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

/* Numbers sorted places by their keys, if keys hold all bits of the rows. */
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

/* Reverses rows in descending order, whose digits would hit the same cache lines again and again. */
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

/* ---- rows of several elements */

struct adder {
  by_kernel_reduce_fn add;
  const char *values;
  size_t width, bytes; /* Elements and bytes of a row. */
};

/* Prefetches a row's values: the sources are scattered, so the CPU cannot predict them. */
static inline void fetch(const struct adder *adder, const struct by_sparse_place *place) {
  const char *from = adder->values + place->at * adder->bytes;
  for (size_t at = 0; at < adder->bytes && at < MOST_FETCHED; at += LINE) __builtin_prefetch(from + at);
}

static void add_run(const struct adder *adder, const struct by_sparse_place *places, size_t n, char *to) {
  const void *sources[MOST_SOURCES];
  size_t used = 0;
  for (size_t done = 0; done < n;) {
    for (; used < MOST_SOURCES && done < n; used++, done++)
      sources[used] = adder->values + places[done].at * adder->bytes;
    adder->add(to, sources, used, adder->width);
    sources[0] = to;
    used = 1;
  }
}

static void add_runs(const struct adder *adder, const struct by_sparse_place *places, size_t n, char *to) {
  for (size_t i = 0, run; i < n; i += run, to += adder->bytes) {
    for (run = 1; i + run < n && places[i + run].key == places[i].key;) run++;
    for (size_t k = i; k < i + run && k + AHEAD < n; k++) fetch(adder, &places[k + AHEAD]);
    if (run == 1)
      memcpy(to, adder->values + places[i].at * adder->bytes, adder->bytes);
    else
      add_run(adder, &places[i], run, to);
  }
}

/* ---- rows of one: adding costs less than finding out whether there is something to add */

#define ADD_ONES(name, type)                                                                                           \
  static void name(const struct by_sparse_place *places, size_t n, const void *from, void *to) {                       \
    const type *values = from;                                                                                         \
    uint32_t before = UINT32_MAX;                                                                                      \
    type sum = 0;                                                                                                      \
    for (size_t i = 0; i < n; i++) {                                                                                   \
      type value = values[places[i].at], more = (type)(sum + value);                                                   \
      sum = places[i].key == before ? more : value;                                                                    \
      before = places[i].key;                                                                                          \
      ((type *)to)[before] = sum;                                                                                      \
    }                                                                                                                  \
  }

ADD_ONES(add_f32, float)
ADD_ONES(add_f64, double)
ADD_ONES(add_32, uint32_t)
ADD_ONES(add_64, uint64_t)

static void (*const add_ones[BANYAN_DTYPES])(const struct by_sparse_place *places, size_t n, const void *from,
                                             void *to) = {
    [BANYAN_FLOAT32] = add_f32, [BANYAN_FLOAT64] = add_f64, [BANYAN_INT32] = add_32, [BANYAN_INT64] = add_64};

/* ---- all of it */

static void put_rows(const struct banyan_sparse *in, const struct by_sparse_place *places, struct banyan_sparse *out) {
  if (in->row_dtype == BANYAN_INT32)
    for (size_t i = 0; i < in->count; i++)
      ((int32_t *)out->rows)[places[i].key] = ((const int32_t *)in->rows)[places[i].at];
  else
    for (size_t i = 0; i < in->count; i++)
      ((int64_t *)out->rows)[places[i].key] = ((const int64_t *)in->rows)[places[i].at];
}

enum banyan_status by_sparse_merge(const struct banyan_sparse *in, struct by_sparse_scratch *scratch,
                                   struct banyan_sparse *out) {
  struct by_sparse_range range = by_sparse_scan(in);
  if (range.ascending) {
    BY_TRY(by_sparse_make(in, in->count, out));
    by_sparse_copy(in, out, 0);
    out->count = in->count;
    return BANYAN_OK;
  }
  if (in->count > BY_SPARSE_MOST_ROWS)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%zu rows are too many to merge at once, at most %llu are possible",
                   in->count, (unsigned long long)BY_SPARSE_MOST_ROWS);
  struct by_sparse_place *places = by_sparse_scratch_need(scratch, 2 * in->count * sizeof *places);
  if (!places) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for merging %zu rows", in->count);
  size_t rows = by_sparse_sort(in, &range, places, places + in->count);
  BY_TRY(by_sparse_make(in, rows, out));
  out->count = rows;
  put_rows(in, places, out);
  struct adder adder = {.add = by_kernel_reduce(in->dtype, BANYAN_SUM),
                        .values = in->values,
                        .width = in->width,
                        .bytes = in->width * banyan_dtype_size(in->dtype)};
  if (in->width == 1 && add_ones[in->dtype])
    add_ones[in->dtype](places, in->count, in->values, out->values);
  else
    add_runs(&adder, places, in->count, out->values);
  return BANYAN_OK;
}

enum banyan_status banyan_sparse_merge(const struct banyan_sparse *in, struct banyan_sparse *out) {
  if (!in || !out || in == out)
    return by_fail(BANYAN_ERR_ARGUMENT, "sparse merge: the tensors are NULL, or the same one");
  BY_TRY(by_sparse_check("sparse merge", in));
  struct by_sparse_scratch scratch = {0};
  enum banyan_status status = by_sparse_merge(in, &scratch, out);
  by_sparse_scratch_fini(&scratch);
  return status;
}
