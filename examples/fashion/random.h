/* splitmix64 (Steele, Lea and Flood 2014): small, repeatable, the same on
 * every machine. Not for secrets. */
#ifndef FASHION_RANDOM_H
#define FASHION_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double random_unit(uint64_t *state) {
  return (double)(random_next(state) >> 11) * 0x1p-53;
}

#endif
