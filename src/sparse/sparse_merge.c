/* Rows are sorted, then each result row is made at once from all that go into
 * it: values are read once and written once, whatever the number of duplicates.
 *
 *   rows     7  3  7  5        places, sorted   3@1  5@3  7@0  7@2
 *   values   a  b  c  d        out              3:b  5:d  7:a+c                */
#include "sparse_merge.h"

#include <stdlib.h>
#include <string.h>

#include "reduce.h"
#include "sparse_sort.h"

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

/* ---- rows of several elements */

struct adder {
  by_kernel_reduce_fn add;
  const char *values;
  size_t width, bytes; /* of a row */
};

/* The sources lie anywhere, so the CPU does not see them coming. */
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
