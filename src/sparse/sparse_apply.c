/* Gradient steps on the rows that are there. */
#include <math.h>

#include "sparse_tensor.h"

struct step {
  const struct banyan_sparse *gradient;
  void *table, *sums; /* sums: those of Adagrad. */
  double rate, epsilon;
};

static void sgd_f32(const struct step *step, size_t place, size_t to) {
  const float *from = (const float *)step->gradient->values + place * step->gradient->width;
  float *table = (float *)step->table + to, rate = (float)step->rate;
  for (size_t i = 0; i < step->gradient->width; i++) table[i] -= rate * from[i];
}

static void sgd_f64(const struct step *step, size_t place, size_t to) {
  const double *from = (const double *)step->gradient->values + place * step->gradient->width;
  double *table = (double *)step->table + to;
  for (size_t i = 0; i < step->gradient->width; i++) table[i] -= step->rate * from[i];
}

static void adagrad_f32(const struct step *step, size_t place, size_t to) {
  const float *from = (const float *)step->gradient->values + place * step->gradient->width;
  float *table = (float *)step->table + to, *sums = (float *)step->sums + to;
  float rate = (float)step->rate, epsilon = (float)step->epsilon;
  for (size_t i = 0; i < step->gradient->width; i++) {
    sums[i] += from[i] * from[i];
    table[i] -= rate * from[i] / (sqrtf(sums[i]) + epsilon);
  }
}

static void adagrad_f64(const struct step *step, size_t place, size_t to) {
  const double *from = (const double *)step->gradient->values + place * step->gradient->width;
  double *table = (double *)step->table + to, *sums = (double *)step->sums + to;
  for (size_t i = 0; i < step->gradient->width; i++) {
    sums[i] += from[i] * from[i];
    table[i] -= step->rate * from[i] / (sqrt(sums[i]) + step->epsilon);
  }
}

static enum banyan_status apply(const char *what, const struct step *step,
                                void (*f32)(const struct step *step, size_t place, size_t to),
                                void (*f64)(const struct step *step, size_t place, size_t to)) {
  const struct banyan_sparse *gradient = step->gradient;
  if (!gradient || !step->table) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the gradient or a table is NULL", what);
  if (gradient->dtype > BANYAN_FLOAT64)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: the dtype is %s, must be f32 or f64", what,
                   banyan_dtype_name(gradient->dtype));
  BY_TRY(by_sparse_check(what, gradient));
  for (size_t i = 0; i < gradient->count; i++)
    (gradient->dtype == BANYAN_FLOAT32 ? f32 : f64)(step, i, (size_t)by_sparse_row_at(gradient, i) * gradient->width);
  return BANYAN_OK;
}

enum banyan_status banyan_sparse_apply_sgd(const struct banyan_sparse *gradient, void *table, double rate) {
  struct step step = {.gradient = gradient, .table = table, .rate = rate};
  return apply("sparse SGD", &step, sgd_f32, sgd_f64);
}

enum banyan_status banyan_sparse_apply_adagrad(const struct banyan_sparse *gradient, void *table, void *sums,
                                               double rate, double epsilon) {
  struct step step = {
      .gradient = gradient, .table = sums ? table : NULL, .sums = sums, .rate = rate, .epsilon = epsilon};
  return apply("sparse Adagrad", &step, adagrad_f32, adagrad_f64);
}
