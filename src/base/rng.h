/* xoshiro256** with a splitmix64 seed (Blackman and Vigna, public domain algorithms). Repeatable; not for secrets. */
#ifndef BY_BASE_RNG_H
#define BY_BASE_RNG_H

#include <stdint.h>

struct by_rng {
  uint64_t s[4];
};

static inline uint64_t by_rotate_left(uint64_t x, int k) {
  return (x << k) | (x >> (64 - k));
}

static inline void by_rng_init(struct by_rng *rng, uint64_t seed) {
  for (int i = 0; i < 4; i++) { /* This is splitmix64. */
    uint64_t z = (seed += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    rng->s[i] = z ^ (z >> 31);
  }
}

static inline uint64_t by_rng_next(struct by_rng *rng) {
  uint64_t *s = rng->s, result = by_rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = by_rotate_left(s[3], 45);
  return result;
}

/* A uniform number of 0 .. n - 1; 0 for n = 0. */
static inline uint64_t by_rng_below(struct by_rng *rng, uint64_t n) {
  return (uint64_t)((__extension__(unsigned __int128) by_rng_next(rng) * n) >> 64);
}

/* A uniform number in [0, 1). */
static inline double by_rng_unit(struct by_rng *rng) {
  return (double)(by_rng_next(rng) >> 11) * 0x1p-53;
}

#endif
