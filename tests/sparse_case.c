#include "sparse_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void draw_shape(struct by_rng *rng, struct sparse_case *c) {
  static const enum banyan_dtype dtypes[] = {BANYAN_FLOAT32, BANYAN_FLOAT64, BANYAN_INT32, BANYAN_INT64};
  c->dtype = dtypes[by_rng_below(rng, 4)];
  c->row_dtype = by_rng_below(rng, 2) ? BANYAN_INT32 : BANYAN_INT64;
  c->range = 1 + by_rng_below(rng, (uint64_t)1 << (1 + by_rng_below(rng, 9)));
  c->width = 1 + by_rng_below(rng, by_rng_below(rng, 3) ? 8 : 70);
  if (c->kind == SPARSE_CASE_LOW) c->range = 1;
  if (c->kind == SPARSE_CASE_DUPLICATES) c->range = 1 + by_rng_below(rng, 5);
  if (c->kind == SPARSE_CASE_WIDE) c->width = 1000 + by_rng_below(rng, 3000);
  if (c->kind == SPARSE_CASE_WIDE && c->range > 20) c->range = 20;
  if (c->kind == SPARSE_CASE_FAR) c->row_dtype = BANYAN_INT64, c->base = ((int64_t)1 << 33) + 17;
  c->height = (size_t)c->base + c->range;
  if (c->kind == SPARSE_CASE_ANY && by_rng_below(rng, 3) == 0) c->height += by_rng_below(rng, 1000);
}

void sparse_case_choose(struct by_rng *rng, uint32_t n, enum sparse_case_kind kind, struct sparse_case *out) {
  *out = (struct sparse_case){.seed = by_rng_next(rng), .n = n, .kind = kind};
  if (kind == SPARSE_CASE_KINDS) out->kind = (enum sparse_case_kind)by_rng_below(rng, SPARSE_CASE_KINDS);
  out->collective = by_rng_below(rng, 4) ? BANYAN_ALLREDUCE : BANYAN_ALLGATHER;
  out->op = by_rng_below(rng, 3) ? BANYAN_SUM : BANYAN_AVERAGE;
  draw_shape(rng, out);
  bool merges = out->collective == BANYAN_ALLREDUCE;
  out->way = (enum banyan_sparse_way)by_rng_below(rng, merges ? BANYAN_SPARSE_WAYS : BANYAN_SPARSE_MERGE);
  if (out->kind == SPARSE_CASE_FAR && out->way == BANYAN_SPARSE_DENSE) out->way = BANYAN_SPARSE_MERGE;
}

static size_t count_of(const struct sparse_case *of, struct by_rng *rng, uint32_t rank) {
  struct by_rng common;
  by_rng_init(&common, of->seed);
  switch (of->kind) {
  case SPARSE_CASE_NONE: return 0;
  case SPARSE_CASE_ALL: return of->range;
  case SPARSE_CASE_ONE_ROW: return 1;
  case SPARSE_CASE_EQUAL: return by_rng_below(&common, 2 * of->range);
  case SPARSE_CASE_DUPLICATES: return by_rng_below(rng, 300);
  case SPARSE_CASE_SOME_NONE: return rank % 2 ? 0 : by_rng_below(rng, of->range + 1);
  default: return by_rng_below(rng, of->range + of->range / 2 + 1);
  }
}

static void put_value(const struct sparse_case *of, void *values, size_t i, int value) {
  switch (of->dtype) {
  case BANYAN_FLOAT32: ((float *)values)[i] = (float)value; break;
  case BANYAN_FLOAT64: ((double *)values)[i] = value; break;
  case BANYAN_INT32: ((int32_t *)values)[i] = value; break;
  default: ((int64_t *)values)[i] = value;
  }
}

static double get_value(const struct sparse_case *of, const void *values, size_t i) {
  switch (of->dtype) {
  case BANYAN_FLOAT32: return (double)((const float *)values)[i];
  case BANYAN_FLOAT64: return ((const double *)values)[i];
  case BANYAN_INT32: return ((const int32_t *)values)[i];
  default: return (double)((const int64_t *)values)[i];
  }
}

static int64_t get_row(const struct banyan_sparse *tensor, size_t i) {
  return tensor->row_dtype == BANYAN_INT32 ? ((const int32_t *)tensor->rows)[i] : ((const int64_t *)tensor->rows)[i];
}

struct banyan_sparse sparse_case_input(const struct sparse_case *of, uint32_t rank) {
  struct by_rng rng;
  by_rng_init(&rng, of->seed + 1 + rank);
  struct banyan_sparse in = {.dtype = of->dtype, .row_dtype = of->row_dtype, .height = of->height, .width = of->width};
  in.count = count_of(of, &rng, rank);
  bool each_once = in.count <= of->range && (of->kind == SPARSE_CASE_ALL || by_rng_below(&rng, 3) == 0);
  bool down = by_rng_below(&rng, 2);
  in.unique = each_once && by_rng_below(&rng, 2);
  in.rows = malloc(in.count * 8 + 8);
  in.values = malloc(in.count * in.width * 8 + 8);
  for (size_t i = 0; i < in.count; i++) {
    int64_t row = of->base + (int64_t)(each_once ? (down ? in.count - 1 - i : i) : by_rng_below(&rng, of->range));
    if (of->row_dtype == BANYAN_INT32)
      ((int32_t *)in.rows)[i] = (int32_t)row;
    else
      ((int64_t *)in.rows)[i] = row;
  }
  for (size_t i = 0; i < in.count * in.width; i++) put_value(of, in.values, i, (int)by_rng_below(&rng, 11) - 5);
  return in;
}

struct banyan_sparse_call sparse_case_call(const struct sparse_case *of, const struct banyan_sparse *in,
                                           struct banyan_sparse *out) {
  return (struct banyan_sparse_call){.collective = of->collective, .op = of->op, .way = of->way, .in = in, .out = out};
}

const char *sparse_case_print(const struct sparse_case *of, char *text) {
  snprintf(text, SPARSE_CASE_TEXT,
           "seed %llu, kind %d: %s, %s, way %s over %u ranks, range %zu, height %zu, width %zu of %s, rows of %s",
           (unsigned long long)of->seed, (int)of->kind, banyan_collective_name(of->collective), banyan_op_name(of->op),
           banyan_sparse_way_name(of->way), of->n, of->range, of->height, of->width, banyan_dtype_name(of->dtype),
           banyan_dtype_name(of->row_dtype));
  return text;
}

static char wrong[SPARSE_CASE_TEXT + 200];

static const char *report_wrong(const struct sparse_case *of, const char *what, size_t at, double got, double wanted) {
  char text[SPARSE_CASE_TEXT];
  snprintf(wrong, sizeof wrong, "%s: %s at %zu is %g, must be %g", sparse_case_print(of, text), what, at, got, wanted);
  return wrong;
}

static double average(const struct sparse_case *of, double sum) {
  if (of->op != BANYAN_AVERAGE) return sum;
  if (of->dtype == BANYAN_FLOAT32) return (double)((float)sum / (float)of->n);
  if (of->dtype == BANYAN_FLOAT64) return sum / of->n;
  return (double)((int64_t)sum / (int64_t)of->n);
}

static const char *check_merged(const struct sparse_case *of, const struct banyan_sparse *out, const double *sums,
                                const bool *there) {
  size_t next = 0;
  for (size_t r = 0; r < of->range; r++) {
    if (!there[r]) continue;
    if (next >= out->count) return report_wrong(of, "the count", 0, (double)out->count, (double)next + 1);
    if (get_row(out, next) != of->base + (int64_t)r)
      return report_wrong(of, "row", next, (double)get_row(out, next), (double)of->base + (double)r);
    for (size_t k = 0; k < of->width; k++) {
      double wanted = average(of, sums[r * of->width + k]), got = get_value(of, out->values, next * of->width + k);
      if (got != wanted) return report_wrong(of, "value", next * of->width + k, got, wanted);
    }
    next++;
  }
  return next == out->count ? NULL : report_wrong(of, "the count", 0, (double)out->count, (double)next);
}

static const char *check_all(const struct sparse_case *of, const struct banyan_sparse *out, size_t first,
                             const struct banyan_sparse *in) {
  for (size_t i = 0; i < in->count; i++) {
    if (first + i >= out->count) return report_wrong(of, "the count", 0, (double)out->count, (double)(first + i) + 1);
    if (get_row(out, first + i) != get_row(in, i))
      return report_wrong(of, "row", first + i, (double)get_row(out, first + i), (double)get_row(in, i));
    for (size_t k = 0; k < of->width; k++) {
      double got = get_value(of, out->values, (first + i) * of->width + k);
      double wanted = get_value(of, in->values, i * of->width + k);
      if (got != wanted) return report_wrong(of, "value", (first + i) * of->width + k, got, wanted);
    }
  }
  return NULL;
}

const char *sparse_case_check(const struct sparse_case *of, const struct banyan_sparse *out) {
  double *sums = calloc(of->range * of->width, sizeof *sums);
  bool *there = calloc(of->range, sizeof *there);
  const char *bad = NULL;
  size_t total = 0;
  for (uint32_t rank = 0; rank < of->n && !bad; rank++) {
    struct banyan_sparse in = sparse_case_input(of, rank);
    if (of->collective == BANYAN_ALLGATHER) bad = check_all(of, out, total, &in);
    total += in.count;
    for (size_t i = 0; i < in.count; i++) {
      size_t row = (size_t)(get_row(&in, i) - of->base);
      there[row] = true;
      for (size_t k = 0; k < of->width; k++) sums[row * of->width + k] += get_value(of, in.values, i * of->width + k);
    }
    free(in.rows);
    free(in.values);
  }
  if (!bad && of->collective == BANYAN_ALLREDUCE) bad = check_merged(of, out, sums, there);
  if (!bad && of->collective == BANYAN_ALLGATHER && out->count != total)
    bad = report_wrong(of, "the count", 0, (double)out->count, (double)total);
  free(sums);
  free(there);
  return bad;
}
