/* The keyed check of sums inside the network, which the ends can compute and switches cannot: the sum over numbers of
 * key * number, the same over the exponents that workers send each other, and a tag for each worker whose term is
 * included, modulo 2^64. All of these add up as terms do. If the check is right for some workers, then the sum has the
 * term of each of them once, of this fragment, unchanged; otherwise it is right with a probability of 2^-32. Packets
 * without terms carry a MAC of their header instead. Whoever holds the secret can make any of them; docs/in-network.md
 * tells what a host without it can do. Immutable once made; any thread. */
#ifndef BY_IN_NETWORK_ENDPOINTS_SUM_KEY_H
#define BY_IN_NETWORK_ENDPOINTS_SUM_KEY_H

#include <stddef.h>
#include <stdint.h>

#include <banyan/status.h>

#include "fragment.h"
#include "fragment_mac.h"

enum { BY_SUM_NUMBERS = BY_FRAGMENT_LINES * BY_FRAGMENT_LINE / 4 };

struct by_sum_key {
  struct {
    int32_t number[BY_SUM_NUMBERS]; /* For by_fixed_quantise and similar functions. */
    uint64_t exponents[BY_FRAGMENT_WORKERS / 4];
    uint64_t worker[BY_FRAGMENT_WORKERS];
    uint64_t mix[4];
    uint64_t header[2];
    uint64_t group[BY_FRAGMENT_GROUPS]; /* Factors of their workers' tags, if a tree has several groups. */
  } derived;                            /* From the secret. */
  uint64_t whole[BY_FRAGMENT_GROUPS];   /* Sums of a group's tags before mixing. */
  uint64_t all;                         /* Sum of all groups' tags. */
  struct by_worker_groups groups;
  uint32_t words;   /* Words of exponents at the end of each payload. */
  uint32_t opening; /* Bytes in openings for the exponents of one fragment. */
};

/* All ends of a job must pass the same secret. `exponents`: terms contain them. */
BANYAN_CHECK enum banyan_status by_sum_key_init(struct by_sum_key *key, const void *secret, size_t bytes,
                                                const struct by_worker_groups *groups, bool exponents);

/* Makes the key of checks that switches verify and compute again, if sums cannot be checked from end to end; it is
 * public. */
BANYAN_CHECK enum banyan_status by_sum_key_init_open(struct by_sum_key *key);

/* Returns the bytes of the payload before the exponents. */
size_t by_sum_number_bytes(const struct by_sum_key *key, const struct by_fragment *fragment);

/* Writes this worker's exponent for a later fragment; all exponents were 0. */
void by_sum_put_exponent(const struct by_sum_key *key, struct by_fragment *fragment, unsigned worker, uint8_t exponent);
/* Returns the maximum of all workers' exponents; in trees of several groups it may be larger by 7, or by more if all
 * are far below the fragment's own, see sum_key.c. The fragment must be verified. */
uint8_t by_sum_largest_exponent(const struct by_sum_key *key, const struct by_fragment *fragment);

/* Returns for how many fragments an opening of `lines` holds exponents. An opening has them in place of numbers. */
uint32_t by_sum_opening_room(const struct by_sum_key *key, uint32_t lines);
/* Writes this worker's exponent for the opening's fragment `which`, over zeros. */
void by_sum_put_opening(const struct by_sum_key *key, struct by_fragment *fragment, uint32_t which, unsigned worker,
                        uint8_t exponent);
uint8_t by_sum_largest_of_opening(const struct by_sum_key *key, const struct by_fragment *fragment, uint32_t which);

/* Returns the check without the numbers: of exponents, and the tags of `workers` of the fragment's group in this
 * fragment, which depend on job, key epoch, slot, epoch, call, dtype, lines and exponent. */
uint64_t by_sum_tag(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers);

/* Returns the check of the terms of `workers` of the fragment's group behind the header. */
uint64_t by_sum_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers);

/* Returns the check of a PROBE, PROBE_REPLY or NACK with this sequence number, which is its lower half. The upper half
 * is a MAC over the fields that its receiver uses. Records of switches, the stack and CE change on the path and are
 * excluded. */
uint64_t by_sum_header_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint32_t sequence);
bool by_sum_header_is_valid(const struct by_sum_key *key, const struct by_fragment *fragment);

/* ---- keys of fragments' MACs. The ends of a tree derive its hop secret from the tree's secret; switches get it with
 * their grants. It reveals nothing about the tree's secret, with which the ends verify each other. All derivations are
 * HKDF-Expand with SHA-256, with the labels of decision 166. */

/* Derives the hop secret for the grant with this job number and key epoch. BANYAN_ERR_SYSTEM. */
BANYAN_CHECK enum banyan_status by_hop_secret_derive(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                                     unsigned char out[BY_HOP_SECRET]);
/* Derives the key from a hop secret. */
BANYAN_CHECK enum banyan_status by_hop_key_derive(const unsigned char secret[BY_HOP_SECRET], struct by_hop_key *out);
/* Derives the key from the tree's secret, at an end. */
BANYAN_CHECK enum banyan_status by_hop_key_of_tree(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                                   struct by_hop_key *out);

#endif
