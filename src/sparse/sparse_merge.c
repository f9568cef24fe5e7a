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

/* Room for the places, twice. */
static struct by_sparse_place *need(struct by_sparse_scratch *scratch, size_t n) {
  size_t bytes;
  if (__builtin_mul_overflow(n, 2 * sizeof(struct by_sparse_place), &bytes)) return NULL;
  if (bytes > scratch->bytes) {
    by_sparse_scratch_fini(scratch);
    scratch->memory = malloc(bytes);
    scratch->bytes = scratch->memory ? bytes : 0;
  }
  return scratch->memory;
}

static void fill(const struct banyan_sparse *in, struct by_sparse_place *places) {
  if (in->row_dtype == BANYAN_INT32)
    for (size_t i = 0; i < in->count; i++)
      places[i] = (struct by_sparse_place){(uint64_t)((const int32_t *)in->rows)[i], i};
  else
    for (size_t i = 0; i < in->count; i++)
      places[i] = (struct by_sparse_place){(uint64_t)((const int64_t *)in->rows)[i], i};
}

static size_t count_rows(const struct by_sparse_place *places, size_t n) {
  size_t rows = n > 0;
  for (size_t i = 1; i < n; i++) rows += places[i].row != places[i - 1].row;
  return rows;
}

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

static inline void copy_row(char *to, const char *from, size_t bytes) {
  if (bytes == 4)
    memcpy(to, from, 4);
  else if (bytes == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, bytes);
}

static void add_runs(const struct adder *adder, const struct by_sparse_place *places, size_t n,
                     struct banyan_sparse *out) {
  char *to = out->values;
  size_t row = 0;
  for (size_t i = 0, run; i < n; i += run, row++, to += adder->bytes) {
    for (run = 1; i + run < n && places[i + run].row == places[i].row;) run++;
    for (size_t k = i; k < i + run && k + AHEAD < n; k++) fetch(adder, &places[k + AHEAD]);
    by_sparse_put_row(out, row, (int64_t)places[i].row);
    if (run == 1)
      copy_row(to, adder->values + places[i].at * adder->bytes, adder->bytes);
    else
      add_run(adder, &places[i], run, to);
  }
  out->count = row;
}

static enum banyan_status copy(const struct banyan_sparse *in, struct banyan_sparse *out) {
  BY_TRY(by_sparse_make(in, in->count, out));
  if (in->count) memcpy(out->rows, in->rows, in->count * banyan_dtype_size(in->row_dtype));
  if (in->count) memcpy(out->values, in->values, in->count * in->width * banyan_dtype_size(in->dtype));
  out->count = in->count;
  return BANYAN_OK;
}

enum banyan_status by_sparse_merge(const struct banyan_sparse *in, struct by_sparse_scratch *scratch,
                                   struct banyan_sparse *out) {
  size_t bad;
  bool ascending;
  by_sparse_scan(in, &bad, &ascending);
  if (ascending) return copy(in, out);
  struct by_sparse_place *places = need(scratch, in->count);
  if (!places) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for merging %zu rows", in->count);
  fill(in, places);
  places = by_sparse_sort(places, places + in->count, in->count);
  BY_TRY(by_sparse_make(in, count_rows(places, in->count), out));
  struct adder adder = {.add = by_kernel_reduce(in->dtype, BANYAN_SUM),
                        .values = in->values,
                        .width = in->width,
                        .bytes = in->width * banyan_dtype_size(in->dtype)};
  add_runs(&adder, places, in->count, out);
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
