/* Checks, slices and copies of row-sparse tensors. */
#include "sparse_tensor.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 64 };

size_t by_sparse_row_bytes(const struct banyan_sparse *tensor) {
  size_t values, all;
  if (__builtin_mul_overflow(tensor->width, banyan_dtype_size(tensor->dtype), &values)) return 0;
  return __builtin_add_overflow(values, banyan_dtype_size(tensor->row_dtype), &all) ? 0 : all;
}

enum banyan_status by_sparse_check_shape(const char *what, const struct banyan_sparse *tensor) {
  if (!banyan_dtype_size(tensor->dtype))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no dtype number %d", what, (int)tensor->dtype);
  if (tensor->row_dtype != BANYAN_INT32 && tensor->row_dtype != BANYAN_INT64)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: row numbers are %s, must be i32 or i64", what,
                   banyan_dtype_name(tensor->row_dtype));
  uint64_t most = tensor->row_dtype == BANYAN_INT32 ? (uint64_t)1 << 31 : (uint64_t)1 << 63;
  if (!tensor->height || tensor->height > most)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the height is %zu, must be 1 to %llu for rows of %s", what, tensor->height,
                   (unsigned long long)most, banyan_dtype_name(tensor->row_dtype));
  if (!tensor->width || !by_sparse_row_bytes(tensor))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the width is %zu, must be at least 1 and fit in memory", what,
                   tensor->width);
  return BANYAN_OK;
}

enum banyan_status by_sparse_check_count(const char *what, const struct banyan_sparse *tensor) {
  size_t bytes;
  if (tensor->count > (size_t)INT64_MAX)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the count is %lld, must not be negative", what, (long long)tensor->count);
  if (__builtin_mul_overflow(tensor->count, by_sparse_row_bytes(tensor), &bytes))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: %zu rows of %zu elements fit in no memory", what, tensor->count,
                   tensor->width);
  if (tensor->count && (!tensor->rows || !tensor->values))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: %s are NULL, though the count is %zu", what,
                   tensor->rows ? "the values" : "the rows", tensor->count);
  return BANYAN_OK;
}

int64_t by_sparse_row_at(const struct banyan_sparse *tensor, size_t place) {
  if (tensor->row_dtype == BANYAN_INT32) return ((const int32_t *)tensor->rows)[place];
  return ((const int64_t *)tensor->rows)[place];
}

size_t by_sparse_place_of(const struct banyan_sparse *rows, uint64_t row) {
  size_t low = 0, high = rows->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if ((uint64_t)by_sparse_row_at(rows, middle) < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

void by_sparse_put_row(struct banyan_sparse *tensor, size_t place, int64_t row) {
  if (tensor->row_dtype == BANYAN_INT32)
    ((int32_t *)tensor->rows)[place] = (int32_t)row;
  else
    ((int64_t *)tensor->rows)[place] = row;
}

static bool is_bad(int64_t row, size_t height) {
  return row < 0 || (uint64_t)row >= height;
}

/* Scans without branches, as this is one of the few passes over rows in a merge. */
#define SCAN(name, type)                                                                                               \
  static void name(const type *rows, size_t n, struct by_sparse_range *range) {                                        \
    size_t falls = 0, rises = 0;                                                                                       \
    type least = n ? rows[0] : 0, most = least;                                                                        \
    for (size_t i = 1; i < n; i++) {                                                                                   \
      least = rows[i] < least ? rows[i] : least;                                                                       \
      most = rows[i] > most ? rows[i] : most;                                                                          \
      falls += rows[i] < rows[i - 1];                                                                                  \
      rises += rows[i] > rows[i - 1];                                                                                  \
    }                                                                                                                  \
    range->least = (uint64_t)(int64_t)least;                                                                           \
    range->most = (uint64_t)(int64_t)most;                                                                             \
    range->ascending = !n || rises == n - 1;                                                                           \
    range->descending = !n || falls == n - 1;                                                                          \
  }

SCAN(scan_narrow, int32_t)
SCAN(scan_wide, int64_t)

struct by_sparse_range by_sparse_scan(const struct banyan_sparse *tensor) {
  struct by_sparse_range range = {.bad = tensor->count};
  if (tensor->row_dtype == BANYAN_INT32)
    scan_narrow(tensor->rows, tensor->count, &range);
  else
    scan_wide(tensor->rows, tensor->count, &range);
  if (!tensor->count || (!is_bad((int64_t)range.least, tensor->height) && !is_bad((int64_t)range.most, tensor->height)))
    return range;
  for (range.bad = 0; !is_bad(by_sparse_row_at(tensor, range.bad), tensor->height);) range.bad++;
  return range;
}

enum banyan_status by_sparse_check(const char *what, const struct banyan_sparse *tensor) {
  BY_TRY(by_sparse_check_shape(what, tensor));
  BY_TRY(by_sparse_check_count(what, tensor));
  size_t bad = by_sparse_scan(tensor).bad;
  if (bad == tensor->count) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "%s: row %lld, at place %zu of %zu, is not from 0 to %zu", what,
                 (long long)by_sparse_row_at(tensor, bad), bad, tensor->count, tensor->height - 1);
}

static size_t rounded(size_t bytes) {
  return (bytes + ALIGNED - 1) & ~(size_t)(ALIGNED - 1);
}

enum banyan_status by_sparse_make(const struct banyan_sparse *shape, size_t rows, struct banyan_sparse *out) {
  size_t row = by_sparse_row_bytes(shape), bytes, numbers = rows * banyan_dtype_size(shape->row_dtype);
  if (!row || __builtin_mul_overflow(rows, row, &bytes) || bytes > SIZE_MAX / 2)
    return by_fail(BANYAN_ERR_NO_MEMORY, "%zu rows of %zu elements fit in no memory", rows, shape->width);
  bytes = rounded(numbers) + rounded(bytes - numbers) + ALIGNED;
  if (bytes > out->room) {
    free(out->memory);
    out->room = 0;
    out->memory = aligned_alloc(ALIGNED, bytes);
    if (!out->memory)
      return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu rows of %zu elements", rows, shape->width);
    out->room = bytes;
  }
  out->dtype = shape->dtype;
  out->row_dtype = shape->row_dtype;
  out->height = shape->height;
  out->width = shape->width;
  out->count = 0;
  out->unique = true;
  out->rows = out->memory;
  out->values = (char *)out->memory + rounded(numbers);
  return BANYAN_OK;
}

struct banyan_sparse by_sparse_slice(const struct banyan_sparse *tensor, size_t first, size_t n) {
  struct banyan_sparse slice = *tensor;
  slice.rows = (char *)tensor->rows + first * banyan_dtype_size(tensor->row_dtype);
  slice.values = (char *)tensor->values + first * tensor->width * banyan_dtype_size(tensor->dtype);
  slice.count = n;
  slice.memory = NULL;
  slice.room = 0;
  return slice;
}

void by_sparse_copy(const struct banyan_sparse *from, const struct banyan_sparse *to, size_t first) {
  if (!from->count) return;
  struct banyan_sparse part = by_sparse_slice(to, first, from->count);
  by_sparse_copy_rows(from, &part);
  memcpy(part.values, from->values, from->count * from->width * banyan_dtype_size(from->dtype));
}

void by_sparse_copy_rows(const struct banyan_sparse *from, const struct banyan_sparse *to) {
  if (from->count) memcpy(to->rows, from->rows, from->count * banyan_dtype_size(from->row_dtype));
}

void banyan_sparse_free(struct banyan_sparse *tensor) {
  if (!tensor) return;
  free(tensor->memory);
  memset(tensor, 0, sizeof *tensor);
}
