/* The MAC by which the next receiver of a fragment, a switch or an end, knows that it comes from a holder of the key
 * of its grant: SipHash-2-4 under that key over a hash of workers, check, call, job, key epoch, stack and payload,
 * and the rest of the header. docs/wire.md has its layout, docs/in-network.md what it protects.
 *
 * The hash is NH of UMAC, except for a carry: each word of 64 bits is added to one of the key, and the halves of the
 * sum are multiplied. Two different messages have the same hash with a probability of at most 2^-31, whatever they
 * are. To see this, vary the key's word for a message word in which they differ: the difference of the products must
 * equal a value that the other words determine.
 * - The lower halves of the two sums are equal. Then the upper ones differ, whatever the lower half is, and the
 *   difference of the products is the lower half times a number that is not 0 and below 2^32: for each upper half, at
 *   most one lower half gives the required value.
 * - They differ. Then, for a given lower half, and so a given carry, the difference of the products is linear in the
 *   upper half, with a slope that is not 0 and below 2^32, on each side of the point where one of the two upper halves
 *   wraps: at most two upper halves give the required value.
 * This also holds if only one message has the word. The fields that distinguish the fragments of a grant are not
 * hashed, but input of SipHash, so MACs reveal nothing of the hashes. So a forgery succeeds with a probability of at
 * most 2^-31 + 2^-64.
 *
 * Compiled for the ends, for the switch in user space and for XDP, as fragment.h: no calls, no unbounded loop. */
#ifndef BY_NET_WIRE_FRAGMENT_MAC_H
#define BY_NET_WIRE_FRAGMENT_MAC_H

#include "fragment.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
  BY_HOP_SECRET = 32, /* Bytes of the secret that ends and switches receive, from which the key below is derived. */
  BY_MAC_HEADER_WORDS = 5,
  BY_MAC_WORDS = BY_MAC_HEADER_WORDS + BY_FRAGMENT_LINES * 8,
  BY_MAC_BYTES_SIGNED = 23, /* Bytes of SipHash's input. */
};

/* The key of one grant, derived by by_hop_key_derive. Uniformly random. */
struct by_hop_key {
  uint64_t sip[2];
  uint64_t hash[BY_MAC_WORDS];
};

/* What a word adds to the hash. */
static inline uint64_t by_mac_hash_word(uint64_t word, uint64_t key) {
  uint64_t sum = word + key;
  uint32_t low = (uint32_t)sum;
#ifdef __bpf__ /* For this clang takes two shifts, and the hash is most of XDP's time. */
  __asm__("%0 = %1" : "=w"(low) : "w"((uint32_t)sum)); /* NOLINT */
#endif
  return low * (sum >> 32);
}

/* The payload's part of the hash, limited by `lines` and by the packet's `end`, see by_cell_apply. */
#ifdef __SSE2__
static inline uint64_t by_mac_hash_payload(const uint64_t *key, const uint64_t *payload, uint32_t lines,
                                           const void *end) {
  __m128i hash = _mm_setzero_si128();
  for (uint32_t line = 0; line < BY_FRAGMENT_LINES; line++) {
    if (line >= lines || (const void *)(payload + 8) > end) break;
    for (int i = 0; i < 4; i++, key += 2, payload += 2) {
      __m128i sum = _mm_add_epi64(_mm_loadu_si128((const void *)payload), _mm_loadu_si128((const void *)key));
      hash = _mm_add_epi64(hash, _mm_mul_epu32(sum, _mm_srli_epi64(sum, 32)));
    }
  }
  return (uint64_t)_mm_cvtsi128_si64(hash) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(hash, hash));
}
#else

/* Keeps the compiler for XDP, which has few registers, from reordering the sums of many words, and from counting
 * lines in ways that a verifier cannot follow. */
#ifdef __bpf__
#define BY_MAC_IN_ORDER(value) __asm__ volatile("" : "+r"(value)) /* NOLINT */
#else
#define BY_MAC_IN_ORDER(value) (void)0
#endif

static inline uint64_t by_mac_hash_line(const uint64_t *key, const uint64_t *payload, uint64_t hash) {
  for (int i = 0; i < 8; i++) {
    hash += by_mac_hash_word(payload[i], key[i]);
    BY_MAC_IN_ORDER(hash);
  }
  return hash;
}

static inline uint64_t by_mac_hash_four_lines(const uint64_t *key, const uint64_t *payload, uint64_t hash) {
  hash = by_mac_hash_line(key, payload, hash);
  hash = by_mac_hash_line(key + 8, payload + 8, hash);
  hash = by_mac_hash_line(key + 16, payload + 16, hash);
  return by_mac_hash_line(key + 24, payload + 24, hash);
}

/* XDP checks after four lines whether there are more. */
static inline uint64_t by_mac_hash_payload(const uint64_t *key, const uint64_t *payload, uint32_t lines,
                                           const void *end) {
  uint64_t hash = 0;
  uint32_t line = 0;
  for (; line + 4 <= BY_FRAGMENT_LINES; line += 4, key += 32, payload += 32) {
    if (line + 4 > lines || (const void *)(payload + 32) > end) break;
    hash = by_mac_hash_four_lines(key, payload, hash);
    BY_MAC_IN_ORDER(line);
  }
  for (; line < BY_FRAGMENT_LINES; line++, key += 8, payload += 8) {
    if (line >= lines || (const void *)(payload + 8) > end) break;
    hash = by_mac_hash_line(key, payload, hash);
    BY_MAC_IN_ORDER(line);
  }
  return hash;
}
#endif

/* ---- SipHash-2-4 */

struct by_sip {
  uint64_t v0, v1, v2, v3;
};

static inline uint64_t by_sip_turn(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static inline struct by_sip by_sip_round(struct by_sip s) {
  s.v0 += s.v1, s.v2 += s.v3;
  s.v1 = by_sip_turn(s.v1, 13) ^ s.v0, s.v3 = by_sip_turn(s.v3, 16) ^ s.v2;
  s.v0 = by_sip_turn(s.v0, 32);
  s.v2 += s.v1, s.v0 += s.v3;
  s.v1 = by_sip_turn(s.v1, 17) ^ s.v2, s.v3 = by_sip_turn(s.v3, 21) ^ s.v0;
  s.v2 = by_sip_turn(s.v2, 32);
  return s;
}

static inline struct by_sip by_sip_begin(const uint64_t key[2]) {
  return (struct by_sip){key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                         key[1] ^ 0x7465646279746573};
}

static inline struct by_sip by_sip_word(struct by_sip s, uint64_t word) {
  s.v3 ^= word;
  s = by_sip_round(by_sip_round(s));
  s.v0 ^= word;
  return s;
}

/* `last`: the bytes behind the last whole word, and in the highest one their total number. */
static inline uint64_t by_sip_end(struct by_sip s, uint64_t last) {
  s = by_sip_word(s, last);
  s.v2 ^= 0xff;
  s = by_sip_round(by_sip_round(by_sip_round(by_sip_round(s))));
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* ---- the MAC */

/* The hash of the parts of the header that SipHash does not read itself, and of the payload, which has as many lines
 * as the header states and ends at `end` or before. */
static inline uint64_t by_mac_hash(const struct by_hop_key *key, const struct by_fragment *header,
                                   const uint64_t *payload, const void *end) {
  const uint64_t *w = (const uint64_t *)(const void *)header;
  const uint64_t *k = key->hash;
  uint64_t job = (uint64_t)header->key << 48 | (uint64_t)header->job << 32 | header->call;
  uint64_t hash = by_mac_hash_word(header->workers, k[0]) + by_mac_hash_word(header->check, k[1]) +
                  by_mac_hash_word(job, k[2]) + by_mac_hash_word(w[6], k[3]) + by_mac_hash_word(w[7], k[4]);
  return hash + by_mac_hash_payload(k + BY_MAC_HEADER_WORDS, payload, header->lines, end);
}

/* SipHash after its first word, which does not depend on the hash: from `type` to `exponent`, behind the slot. */
static inline struct by_sip by_mac_begin(const struct by_hop_key *key, const struct by_fragment *header) {
  const uint64_t *w = (const uint64_t *)(const void *)header;
  return by_sip_word(by_sip_begin(key->sip), (w[0] & ~0xffffull) | header->slot);
}

static inline uint64_t by_mac_end(struct by_sip sip, const struct by_fragment *header, uint64_t hash) {
  return by_sip_end(by_sip_word(sip, hash), (uint64_t)BY_MAC_BYTES_SIGNED << 56 | (uint64_t)header->lines << 40 |
                                                (uint64_t)header->dtype << 32 | header->epoch);
}

/* The MAC of a header, without its `mac`, and of the payload. */
static inline uint64_t by_fragment_mac_of(const struct by_hop_key *key, const struct by_fragment *header,
                                          const uint64_t *payload, const void *end) {
  struct by_sip sip = by_mac_begin(key, header);
  return by_mac_end(sip, header, by_mac_hash(key, header, payload, end));
}

/* Signs a whole fragment for its next hop. Without a key it gets the seal that anybody can compute. Nothing may
 * change afterwards. */
static inline void by_fragment_sign(struct by_fragment *fragment, const struct by_hop_key *key) {
  const char *end = (const char *)fragment + by_fragment_bytes(fragment);
  if (key)
    fragment->mac = by_fragment_mac_of(key, fragment, (const uint64_t *)(const void *)(fragment + 1), end);
  else
    by_fragment_seal(fragment);
}

/* As by_fragment_check, for a whole packet, all of which must be readable. BY_FRAGMENT_FORGED: its sender does not
 * have the key, or it was changed on its path. */
static inline enum by_fragment_fault by_fragment_verify(const struct by_fragment *fragment, uint32_t bytes,
                                                        const struct by_hop_key *key) {
  if (!key) return by_fragment_check(fragment, bytes);
  enum by_fragment_fault fault = by_fragment_check_fields(fragment, bytes);
  if (fault != BY_FRAGMENT_SOUND) return fault;
  const void *end = (const char *)fragment + bytes;
  uint64_t mac = by_fragment_mac_of(key, fragment, (const uint64_t *)(const void *)(fragment + 1), end);
  return mac == fragment->mac ? BY_FRAGMENT_SOUND : BY_FRAGMENT_FORGED;
}

/* Marks that a queue on its path was filling, as IP's header or a socket reports. Flags are SipHash's own input, so
 * the hash stays. */
static inline void by_fragment_mark(struct by_fragment *fragment, uint32_t bytes, const struct by_hop_key *key) {
  if (!key) {
    if (by_fragment_check(fragment, bytes) != BY_FRAGMENT_SOUND) return;
    fragment->flags |= BY_FRAGMENT_CE;
    by_fragment_seal(fragment);
    return;
  }
  if (by_fragment_check_fields(fragment, bytes) != BY_FRAGMENT_SOUND) return;
  const void *payload = fragment + 1;
  uint64_t hash = by_mac_hash(key, fragment, payload, (const char *)fragment + bytes);
  if (fragment->mac != by_mac_end(by_mac_begin(key, fragment), fragment, hash)) return;
  fragment->flags |= BY_FRAGMENT_CE;
  fragment->mac = by_mac_end(by_mac_begin(key, fragment), fragment, hash);
}

#endif
