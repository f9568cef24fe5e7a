#include "sum_key.h"

#include <openssl/evp.h>
#include <string.h>

#include "fail.h"
#include "fixed.h"

__extension__ typedef unsigned __int128 wide;

/* Exponents in openings are checked as numbers. Were a lane's fourth byte used, it would be one with a sign, and a sum
 * of lanes could be larger than a lane. */
enum { IN_LANE = 3 };

enum banyan_status by_sum_key_init(struct by_sum_key *key, const void *secret, size_t bytes, unsigned workers) {
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  int made = hash && EVP_DigestInit_ex(hash, EVP_shake256(), NULL) && EVP_DigestUpdate(hash, secret, bytes) &&
             EVP_DigestFinalXOF(hash, (unsigned char *)&key->derived, sizeof key->derived);
  EVP_MD_CTX_free(hash);
  key->words = by_fragment_exponent_words(workers);
  key->opening = (workers + 2 * IN_LANE - 1) / (2 * IN_LANE) * 8;
  return made ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "libcrypto has no SHAKE256; install a libcrypto that has it");
}

enum banyan_status by_sum_key_init_open(struct by_sum_key *key) {
  static const char text[] = "banyan: checks of one hop";
  return by_sum_key_init(key, text, sizeof text - 1, 0);
}

/* --- exponents --- */

size_t by_sum_number_bytes(const struct by_sum_key *key, const struct by_fragment *fragment) {
  size_t bytes = (size_t)fragment->lines * BY_FRAGMENT_LINE, taken = (size_t)key->words * 8;
  return bytes > taken ? bytes - taken : 0;
}

static unsigned char *exponents_of(const struct by_sum_key *key, const struct by_fragment *fragment) {
  return (unsigned char *)(uintptr_t)(fragment + 1) + by_sum_number_bytes(key, fragment);
}

void by_sum_put_exponent(const struct by_sum_key *key, struct by_fragment *fragment, unsigned worker,
                         uint8_t exponent) {
  exponents_of(key, fragment)[worker] = exponent;
}

uint8_t by_sum_largest_exponent(const struct by_sum_key *key, const struct by_fragment *fragment) {
  const unsigned char *exponents = exponents_of(key, fragment);
  uint8_t largest = 0;
  for (uint32_t i = 0; i < key->words * 8; i++)
    if (exponents[i] > largest) largest = exponents[i];
  return largest;
}

uint32_t by_sum_opening_room(const struct by_sum_key *key, uint32_t lines) {
  uint32_t bytes = lines * BY_FRAGMENT_LINE, taken = key->words * 8;
  return key->opening && bytes > taken ? (bytes - taken) / key->opening : 0;
}

void by_sum_put_opening(const struct by_sum_key *key, struct by_fragment *fragment, uint32_t which, unsigned worker,
                        uint8_t exponent) {
  unsigned char *at = (unsigned char *)(fragment + 1) + (size_t)which * key->opening;
  at[worker / IN_LANE * 4 + worker % IN_LANE] = exponent;
}

uint8_t by_sum_largest_of_opening(const struct by_sum_key *key, const struct by_fragment *fragment, uint32_t which) {
  const unsigned char *at = (const unsigned char *)(fragment + 1) + (size_t)which * key->opening;
  uint8_t largest = 0;
  for (uint32_t i = 0; i < key->opening; i++)
    if (at[i] > largest) largest = at[i];
  return largest;
}

/* By halves of words, without sign: where each byte is one worker's, those add up without a carry. */
static uint64_t check_exponents(const struct by_sum_key *key, const struct by_fragment *fragment) {
  const unsigned char *at = exponents_of(key, fragment);
  uint64_t sum = 0;
  if (fragment->lines * (uint32_t)BY_FRAGMENT_LINE < key->words * 8) return 0;
  for (uint32_t i = 0; i < key->words * 2; i++) {
    uint32_t half;
    memcpy(&half, at + (size_t)i * 4, 4);
    sum += key->derived.exponents[i] * half;
  }
  return sum;
}

/* --- tags --- */

static uint64_t folded(uint64_t a, uint64_t b) {
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Odd, so that no worker's tag vanishes. */
static uint64_t mixed(const struct by_sum_key *key, const struct by_fragment *f) {
  const uint64_t *by = key->derived.mix;
  uint64_t where = (uint64_t)f->epoch << 32 | (uint64_t)f->slot << 16 | f->job;
  uint64_t what = (uint64_t)f->call << 32 | (uint64_t)f->key << 16 | f->exponent;
  uint64_t shape = (uint64_t)f->dtype << 8 | f->lines;
  uint64_t mix = folded(by[0] ^ where, by[1] ^ what);
  return folded(by[2] ^ mix, by[3] ^ shape) | 1;
}

uint64_t by_sum_tag(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers) {
  uint64_t sum = 0;
  for (; workers; workers &= workers - 1) sum += key->derived.worker[__builtin_ctzll(workers)];
  return sum * mixed(key, fragment) + check_exponents(key, fragment);
}

uint64_t by_sum_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers) {
  size_t numbers = by_sum_number_bytes(key, fragment) / 4;
  return by_fixed_check(fragment + 1, numbers, key->derived.number) + by_sum_tag(key, fragment, workers);
}

/* --- headers: SipHash-2-4 of whole words --- */

static uint64_t turned(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4]) {
  v[0] += v[1], v[2] += v[3];
  v[1] = turned(v[1], 13) ^ v[0], v[3] = turned(v[3], 16) ^ v[2];
  v[0] = turned(v[0], 32);
  v[2] += v[1], v[0] += v[3];
  v[1] = turned(v[1], 17) ^ v[2], v[3] = turned(v[3], 21) ^ v[0];
  v[2] = turned(v[2], 32);
}

static uint64_t sip(const uint64_t key[2], const uint64_t *words, size_t n) {
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                   key[1] ^ 0x7465646279746573};
  for (size_t i = 0; i <= n; i++) {
    uint64_t word = i < n ? words[i] : (uint64_t)n * 8 << 56;
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
  }
  v[2] ^= 0xff;
  for (int i = 0; i < 4; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t by_sum_header_check(const struct by_sum_key *key, const struct by_fragment *f) {
  uint64_t flags = f->flags & ~(uint32_t)BY_FRAGMENT_CE, newest = 0;
  if (by_fragment_is_probe(f)) newest = ((const struct by_probe_payload *)(const void *)(f + 1))->newest;
  const uint64_t words[] = {(uint64_t)f->type << 48 | flags << 32 | (uint64_t)f->rank << 16 | f->slot,
                            (uint64_t)f->job << 48 | (uint64_t)f->key << 32 | f->epoch, f->workers, f->call, newest};
  return sip(key->derived.header, words, sizeof words / sizeof *words);
}
