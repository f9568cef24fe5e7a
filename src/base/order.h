/* Orders for qsort and bsearch, and medians. */
#ifndef BY_BASE_ORDER_H
#define BY_BASE_ORDER_H

#include <stdbool.h>
#include <stdint.h>
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

/* A binary heap of numbers with keys: the smallest key comes first, of equal keys the smallest number, so that the
 * order is always the same. It may contain a number several times. Not for several threads. */

struct by_heap_item {
  double key;
  uint32_t number;
};

/* All zeros is an empty heap. The caller provides the memory for all items. */
struct by_heap {
  struct by_heap_item *items;
  uint32_t n;
};

static inline bool by_heap_before(struct by_heap_item a, struct by_heap_item b) {
  return a.key < b.key || (a.key <= b.key && a.number < b.number);
}

/* The same order for qsort. */
static inline int by_heap_compare(const void *a, const void *b) {
  const struct by_heap_item *x = a, *y = b;
  return by_heap_before(*x, *y) ? -1 : by_heap_before(*y, *x);
}

/* Adds a number. Cost: log(n). */
static inline void by_heap_push(struct by_heap *heap, double key, uint32_t number) {
  struct by_heap_item item = {key, number};
  uint32_t at = heap->n++;
  for (; at && by_heap_before(item, heap->items[(at - 1) / 2]); at = (at - 1) / 2)
    heap->items[at] = heap->items[(at - 1) / 2];
  heap->items[at] = item;
}

/* Removes and returns the first item; there must be one. Cost: log(n). */
static inline struct by_heap_item by_heap_pop(struct by_heap *heap) {
  struct by_heap_item first = heap->items[0], last = heap->items[--heap->n];
  uint32_t at = 0, child;
  for (; (child = 2 * at + 1) < heap->n; at = child) {
    if (child + 1 < heap->n && by_heap_before(heap->items[child + 1], heap->items[child])) child++;
    if (!by_heap_before(heap->items[child], last)) break;
    heap->items[at] = heap->items[child];
  }
  heap->items[at] = last;
  return first;
}

#endif
