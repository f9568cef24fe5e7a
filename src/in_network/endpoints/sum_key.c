/* Computes the keyed checks of sums and headers, encodes exponents in payloads, and derives the keys of MACs. */
#include "sum_key.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#include "fail.h"
#include "reduce.h"

__extension__ typedef unsigned __int128 wide;

/* Exponents in openings are checked as numbers. A fourth byte of a lane would be its sign, and a sum of lanes could
 * overflow. */
enum { IN_LANE = 3 };

/* Trees of one group have a byte for each worker's exponent. In larger trees each worker increments one of some
 * counters of 16 bits, and the highest nonzero one shows the maximum:
 *
 *   an opening, for each fragment         256 counters, of the exponents 0 to 255
 *   pairs                                 32, of exponents relative to the fragment's own, by:
 *                                         -44 -36 -28 -20, -12 -11 ... 7, 15 23 ... 63, BY_FIXED_NOT_FINITE
 *   unchanged numbers                     32, of 0 8 16 ... 240, BY_FIXED_NOT_FINITE
 *
 * A worker uses the next one that is not below its exponent. So numbers that differ a lot from the preceding ones have
 * up to 7 bits less for one window. */
enum { COUNTERS = BY_FRAGMENT_LINE / 2, ALL_COUNTERS = 256, STEP = 8 };

/* Returns an odd factor, so that no tag vanishes. */
static uint64_t factor_of(const struct by_sum_key *key, uint32_t group) {
  return group ? key->derived.group[group & (BY_FRAGMENT_GROUPS - 1)] | 1 : 1;
}

static uint64_t add_tags(const struct by_sum_key *key, uint64_t workers) {
  uint64_t sum = 0;
  for (; workers; workers &= workers - 1) sum += key->derived.worker[__builtin_ctzll(workers)];
  return sum;
}

enum banyan_status by_sum_key_init(struct by_sum_key *key, const void *secret, size_t bytes,
                                   const struct by_worker_groups *groups, bool exponents) {
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  int made = hash && EVP_DigestInit_ex(hash, EVP_shake256(), NULL) && EVP_DigestUpdate(hash, secret, bytes) &&
             EVP_DigestFinalXOF(hash, (unsigned char *)&key->derived, sizeof key->derived);
  EVP_MD_CTX_free(hash);
  key->groups = *groups;
  key->words = exponents ? by_fragment_exponent_words(by_workers_of(groups)) : 0;
  key->opening = groups->n > 1 ? ALL_COUNTERS * 2 : (by_workers_of(groups) + 2 * IN_LANE - 1) / (2 * IN_LANE) * 8;
  key->all = 0;
  for (uint32_t g = 0; g < groups->n; g++) {
    key->whole[g] = factor_of(key, g) * add_tags(key, by_low_bits(by_group_size(groups, g)));
    key->all += key->whole[g];
  }
  return made ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "libcrypto has no SHAKE256; install a libcrypto that has it");
}

/* Switches do not know the sizes of groups, so a group's tag is that of one worker. */
enum banyan_status by_sum_key_init_open(struct by_sum_key *key) {
  static const char text[] = "banyan: checks of one hop";
  struct by_worker_groups groups = {.n = BY_FRAGMENT_GROUPS};
  for (uint32_t g = 0; g <= groups.n; g++) groups.first[g] = (uint16_t)g;
  return by_sum_key_init(key, text, sizeof text - 1, &groups, false);
}

/* --- exponents --- */

static bool has_counters(const struct by_sum_key *key) {
  return key->words && key->groups.n > 1;
}

size_t by_sum_number_bytes(const struct by_sum_key *key, const struct by_fragment *fragment) {
  size_t bytes = (size_t)fragment->lines * BY_FRAGMENT_LINE, taken = (size_t)key->words * 8;
  return bytes > taken ? bytes - taken : 0;
}

static unsigned char *exponents_of(const struct by_sum_key *key, const struct by_fragment *fragment) {
  return (unsigned char *)(uintptr_t)(fragment + 1) + by_sum_number_bytes(key, fragment);
}

/* Returns the exponent of a counter. */
static uint32_t exponent_of(const struct by_fragment *fragment, uint32_t counter) {
  int n = (int)counter, by = n < 4 ? STEP * n - 44 : n < 24 ? n - 16 : 7 + STEP * (n - 23);
  if (counter == COUNTERS - 1) return BY_FIXED_NOT_FINITE;
  if (fragment->dtype != BY_FRAGMENT_PAIRS) return counter * STEP;
  int exponent = fragment->exponent + by;
  return exponent < 0 ? 0 : exponent < BY_FIXED_NOT_FINITE ? (uint32_t)exponent : BY_FIXED_NOT_FINITE;
}

/* Returns the lowest counter whose exponent is not below this one. */
static uint32_t counter_for(const struct by_fragment *fragment, uint32_t exponent) {
  uint32_t counter = 0;
  while (exponent_of(fragment, counter) < exponent) counter++;
  return counter;
}

void by_sum_put_exponent(const struct by_sum_key *key, struct by_fragment *fragment, unsigned worker,
                         uint8_t exponent) {
  unsigned char *at = exponents_of(key, fragment);
  if (has_counters(key))
    at[counter_for(fragment, exponent) * 2] = 1;
  else
    at[worker] = exponent;
}

static uint8_t largest_of(const unsigned char *bytes, uint32_t n) {
  uint8_t largest = 0;
  for (uint32_t i = 0; i < n; i++)
    if (bytes[i] > largest) largest = bytes[i];
  return largest;
}

static uint32_t highest_counter(const unsigned char *counters, uint32_t n) {
  while (n > 1 && !counters[2 * n - 2] && !counters[2 * n - 1]) n--;
  return n - 1;
}

uint8_t by_sum_largest_exponent(const struct by_sum_key *key, const struct by_fragment *fragment) {
  const unsigned char *at = exponents_of(key, fragment);
  if (has_counters(key)) return (uint8_t)exponent_of(fragment, highest_counter(at, COUNTERS));
  return largest_of(at, key->words * 8);
}

uint32_t by_sum_opening_room(const struct by_sum_key *key, uint32_t lines) {
  uint32_t bytes = lines * BY_FRAGMENT_LINE, taken = key->words * 8;
  return key->opening && bytes > taken ? (bytes - taken) / key->opening : 0;
}

void by_sum_put_opening(const struct by_sum_key *key, struct by_fragment *fragment, uint32_t which, unsigned worker,
                        uint8_t exponent) {
  unsigned char *at = (unsigned char *)(fragment + 1) + (size_t)which * key->opening;
  if (has_counters(key))
    at[exponent * 2] = 1;
  else
    at[worker / IN_LANE * 4 + worker % IN_LANE] = exponent;
}

uint8_t by_sum_largest_of_opening(const struct by_sum_key *key, const struct by_fragment *fragment, uint32_t which) {
  const unsigned char *at = (const unsigned char *)(fragment + 1) + (size_t)which * key->opening;
  return has_counters(key) ? (uint8_t)highest_counter(at, ALL_COUNTERS) : largest_of(at, key->opening);
}

/* Sums up halves of words, without sign: if each byte is one worker's, these add up without a carry. */
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

static uint64_t multiply_fold(uint64_t a, uint64_t b) {
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns an odd factor, so that no worker's tag vanishes. */
static uint64_t mix_fields(const struct by_sum_key *key, const struct by_fragment *f) {
  const uint64_t *by = key->derived.mix;
  uint64_t where = (uint64_t)f->epoch << 32 | (uint64_t)f->slot << 16 | f->job;
  uint64_t what = (uint64_t)f->call << 32 | (uint64_t)f->key << 16 | f->exponent;
  uint64_t shape = (uint64_t)f->dtype << 8 | f->lines;
  uint64_t mix = multiply_fold(by[0] ^ where, by[1] ^ what);
  return multiply_fold(by[2] ^ mix, by[3] ^ shape) | 1;
}

/* Whole groups count as all of their workers. */
static uint64_t tags_of(const struct by_sum_key *key, uint32_t group, uint64_t workers) {
  if (group != BY_FRAGMENT_UNITED) return factor_of(key, group) * add_tags(key, workers);
  if (workers == by_low_bits(key->groups.n)) return key->all;
  uint64_t sum = 0;
  for (; workers; workers &= workers - 1) sum += key->whole[__builtin_ctzll(workers)];
  return sum;
}

uint64_t by_sum_tag(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers) {
  return tags_of(key, fragment->group, workers) * mix_fields(key, fragment) + check_exponents(key, fragment);
}

uint64_t by_sum_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers) {
  size_t numbers = by_sum_number_bytes(key, fragment) / 4;
  return by_fixed_check(fragment + 1, numbers, key->derived.number) + by_sum_tag(key, fragment, workers);
}

/* --- headers: SipHash-2-4 of whole words --- */

static uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4]) {
  v[0] += v[1], v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1], v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

static uint64_t siphash(const uint64_t key[2], const uint64_t *words, size_t n) {
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

uint64_t by_sum_header_check(const struct by_sum_key *key, const struct by_fragment *f, uint32_t sequence) {
  uint64_t flags = f->flags & ~(uint32_t)BY_FRAGMENT_CE, newest = 0;
  if (by_fragment_is_probe(f)) newest = ((const struct by_probe_payload *)(const void *)(f + 1))->newest;
  const uint64_t words[] = {(uint64_t)f->type << 48 | flags << 32 | (uint64_t)f->group << 24 | (uint64_t)f->rank << 16 |
                                f->slot,
                            (uint64_t)f->job << 48 | (uint64_t)f->key << 32 | f->epoch,
                            f->workers,
                            (uint64_t)sequence << 32 | f->call,
                            newest,
                            (uint64_t)f->dtype << 8 | f->exponent};
  return (siphash(key->derived.header, words, sizeof words / sizeof *words) & ~(uint64_t)UINT32_MAX) | sequence;
}

bool by_sum_header_is_valid(const struct by_sum_key *key, const struct by_fragment *f) {
  return f->check == by_sum_header_check(key, f, (uint32_t)f->check);
}

/* ---- keys of fragments' MACs, derived with libcrypto's HKDF */

static enum banyan_status derive(const void *secret, size_t bytes, void *info, size_t length, void *out,
                                 size_t capacity) {
  EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
  EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)(uintptr_t) "SHA256", 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret, bytes),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, length),
      OSSL_PARAM_construct_end(),
  };
  bool made = context && EVP_KDF_derive(context, out, capacity, parameters) == 1;
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return made ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "libcrypto has no HKDF; install a libcrypto that has it");
}

enum banyan_status by_hop_secret_derive(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                        unsigned char out[BY_HOP_SECRET]) {
  unsigned char info[] = {
      'h', 'o', 'p', (unsigned char)job, (unsigned char)(job >> 8), (unsigned char)key, (unsigned char)(key >> 8)};
  return derive(secret, bytes, info, sizeof info, out, BY_HOP_SECRET);
}

enum banyan_status by_hop_key_derive(const unsigned char secret[BY_HOP_SECRET], struct by_hop_key *out) {
  char info[] = "fragments";
  return derive(secret, BY_HOP_SECRET, info, sizeof info - 1, out, sizeof *out);
}

enum banyan_status by_hop_key_of_tree(const void *secret, size_t bytes, uint16_t job, uint16_t key,
                                      struct by_hop_key *out) {
  unsigned char hop[BY_HOP_SECRET];
  BY_TRY(by_hop_secret_derive(secret, bytes, job, key, hop));
  enum banyan_status status = by_hop_key_derive(hop, out);
  explicit_bzero(hop, sizeof hop);
  return status;
}
