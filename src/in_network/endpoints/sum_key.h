/* The keyed check word of sums inside the network, which the ends know and
 * switches do not: sum over numbers of key * number, another over the exponents
 * that workers send each other, and a tag for each worker whose term is in,
 * modulo 2^64. All add up as terms do. Who finds the check right for some
 * workers has got the term of each of them once, of this fragment, unchanged;
 * otherwise it is right with a probability of 2^-32. What has no terms carries a
 * MAC of its header instead. Whoever holds the secret can make any; what remains
 * open to a host that does not is in docs/in-network.md. Immutable once made;
 * any thread. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SUM_KEY_H
#define BY_IN_NETWORK_ENDPOINTS_SUM_KEY_H

#include <stddef.h>
#include <stdint.h>

#include <banyan/status.h>

#include "fragment.h"

enum { BY_SUM_NUMBERS = BY_FRAGMENT_LINES * BY_FRAGMENT_LINE / 4 };

struct by_sum_key {
  struct {
    int32_t number[BY_SUM_NUMBERS]; /* for by_fixed_quantise and its kin */
    uint64_t exponents[BY_FRAGMENT_WORKERS / 4];
    uint64_t worker[BY_FRAGMENT_WORKERS];
    uint64_t mix[4];
    uint64_t header[2];
    uint64_t group[BY_FRAGMENT_GROUPS]; /* factors of their workers' tags, where a tree has several groups */
  } derived;                            /* from the secret */
  uint64_t whole[BY_FRAGMENT_GROUPS];   /* the tags of a group's workers before they are mixed */
  uint64_t all;                         /* of all groups */
  struct by_worker_groups groups;
  uint32_t words;   /* of exponents, at the end of each payload */
  uint32_t opening; /* bytes in openings for the exponents of one fragment */
};

/* All ends of a job give the same secret. `exponents`: terms hold them. */
BANYAN_CHECK enum banyan_status by_sum_key_init(struct by_sum_key *key, const void *secret, size_t bytes,
                                                const struct by_worker_groups *groups, bool exponents);

/* The key of checks that switches verify and make anew, where sums cannot be checked from end to end; known to all. */
BANYAN_CHECK enum banyan_status by_sum_key_init_open(struct by_sum_key *key);

/* Bytes of the payload before the exponents. */
size_t by_sum_number_bytes(const struct by_sum_key *key, const struct by_fragment *fragment);

/* Writes what this worker needs for a later fragment; the exponents were all 0. */
void by_sum_put_exponent(const struct by_sum_key *key, struct by_fragment *fragment, unsigned worker, uint8_t exponent);
/* The largest of all workers'; in trees of several groups one that may be larger by 7, or by more where all are far
 * below the fragment's own, see sum_key.c. Of a fragment that has been verified. */
uint8_t by_sum_largest_exponent(const struct by_sum_key *key, const struct by_fragment *fragment);

/* Openings hold exponents of many fragments, where others have numbers: how many have room in `lines`. */
uint32_t by_sum_opening_room(const struct by_sum_key *key, uint32_t lines);
/* Writes what this worker needs for the opening's fragment `which`, over zeros. */
void by_sum_put_opening(const struct by_sum_key *key, struct by_fragment *fragment, uint32_t which, unsigned worker,
                        uint8_t exponent);
uint8_t by_sum_largest_of_opening(const struct by_sum_key *key, const struct by_fragment *fragment, uint32_t which);

/* The check but for the numbers: of exponents, and the tags of `workers` of the fragment's group in this fragment,
 * which depend on job, key epoch, slot, epoch, call, dtype, lines and exponent. */
uint64_t by_sum_tag(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers);

/* The check of terms of `workers` of the fragment's group that lie behind the header. */
uint64_t by_sum_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers);

/* The check of a PROBE, PROBE_REPLY or NACK with this sequence number, which is its lower half. The upper half is of a
 * MAC over what their receiver acts on. Records of switches, the stack and CE change on the way and are not in it. */
uint64_t by_sum_header_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint32_t sequence);
bool by_sum_header_is_valid(const struct by_sum_key *key, const struct by_fragment *fragment);

#endif
