/* The keyed check word of sums inside the network, which the ends know and
 * switches do not: sum over numbers of key * number, and a tag for each worker
 * whose term is in, modulo 2^64. Both add up as terms do. Who finds the check
 * right for all workers has got each term once, of this fragment, unchanged;
 * otherwise it is right with a probability of 2^-32. It is made against faults:
 * whoever holds the secret can make any. Immutable once made; any thread. */
#ifndef BY_INNETWORK_SUM_KEY_H
#define BY_INNETWORK_SUM_KEY_H

#include <stddef.h>
#include <stdint.h>

#include <banyan/status.h>

#include "fragment.h"

enum { BY_SUM_NUMBERS = BY_FRAGMENT_LINES * BY_FRAGMENT_LINE / 4 };

struct by_sum_key {
  int32_t number[BY_SUM_NUMBERS]; /* for by_fixed_quantise and its kin */
  uint64_t worker[BY_FRAGMENT_WORKERS];
  uint64_t mix[4];
};

/* All ends of a job give the same secret. */
BANYAN_CHECK enum banyan_status by_sum_key_init(struct by_sum_key *key, const void *secret, size_t bytes);

/* The key of checks that switches verify and make anew, where sums cannot be checked from end to end; known to all. */
BANYAN_CHECK enum banyan_status by_sum_key_init_open(struct by_sum_key *key);

/* The tags of `workers` in this fragment: depends on job, key epoch, slot, epoch, call, dtype, lines and exponent. */
uint64_t by_sum_tag(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers);

/* The check of terms of `workers` that lie behind the header. */
uint64_t by_sum_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers);

#endif
