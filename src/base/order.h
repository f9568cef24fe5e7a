/* Orders for qsort and bsearch. */
#ifndef BY_BASE_ORDER_H
#define BY_BASE_ORDER_H

/* Of doubles, ascending. */
static inline int by_order_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#endif
