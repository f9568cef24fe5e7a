#include "sparse_sort.h"

#include <string.h>

enum { DIGIT = 11, FEW = 48 };

static void sort_few(struct by_sparse_place *places, size_t n) {
  for (size_t i = 1; i < n; i++) {
    struct by_sparse_place place = places[i];
    size_t to = i;
    for (; to && places[to - 1].row > place.row; to--) places[to] = places[to - 1];
    places[to] = place;
  }
}

static void sort_digit(const struct by_sparse_place *from, struct by_sparse_place *to, size_t n, uint64_t least,
                       unsigned shift, unsigned bits) {
  size_t starts[1 << DIGIT] = {0}, sum = 0;
  uint64_t mask = ((uint64_t)1 << bits) - 1;
  for (size_t i = 0; i < n; i++) starts[(from[i].row - least) >> shift & mask]++;
  for (size_t d = 0; d <= mask; d++) {
    size_t here = starts[d];
    starts[d] = sum;
    sum += here;
  }
  for (size_t i = 0; i < n; i++) to[starts[(from[i].row - least) >> shift & mask]++] = from[i];
}

struct by_sparse_place *by_sparse_sort(struct by_sparse_place *places, struct by_sparse_place *scratch, size_t n) {
  uint64_t least = UINT64_MAX, most = 0;
  if (n <= FEW) {
    sort_few(places, n);
    return places;
  }
  for (size_t i = 0; i < n; i++) {
    if (places[i].row < least) least = places[i].row;
    if (places[i].row > most) most = places[i].row;
  }
  unsigned bits = most > least ? 64 - (unsigned)__builtin_clzll(most - least) : 0;
  unsigned passes = (bits + DIGIT - 1) / DIGIT;
  for (unsigned p = 0, done = 0; p < passes; p++) {
    unsigned digit = (bits - done + passes - p - 1) / (passes - p); /* even digits: fewer counters to clear */
    sort_digit(places, scratch, n, least, done, digit);
    struct by_sparse_place *sorted = scratch;
    scratch = places;
    places = sorted;
    done += digit;
  }
  return places;
}
