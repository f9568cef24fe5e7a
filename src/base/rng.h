/* xoshiro256** with a splitmix64 seed (Blackman and Vigna, public domain algorithms). Repeatable; not for secrets. */
#ifndef BY_BASE_RNG_H
#define BY_BASE_RNG_H

#include <stdint.h>

struct by_rng {
  uint64_t s[4];
};

void by_rng_init(struct by_rng *rng, uint64_t seed);
uint64_t by_rng_next(struct by_rng *rng);
/* A uniform number of 0 .. n - 1; 0 for n = 0. */
uint64_t by_rng_below(struct by_rng *rng, uint64_t n);
/* A uniform number in [0, 1). */
double by_rng_unit(struct by_rng *rng);

#endif
