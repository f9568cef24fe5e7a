/* Orders for qsort and bsearch, and medians. */
#ifndef BY_BASE_ORDER_H
#define BY_BASE_ORDER_H

#include <stdlib.h>

/* Orders doubles, ascending. */
static inline int by_order_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts numbers and returns their median; 0: there are none. */
static inline double by_median(double *values, size_t n) {
  if (!n) return 0;
  qsort(values, n, sizeof *values, by_order_numbers);
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

#endif
