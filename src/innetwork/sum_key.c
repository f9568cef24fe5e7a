#include "sum_key.h"

#include <openssl/evp.h>

#include "fail.h"
#include "fixed.h"

__extension__ typedef unsigned __int128 wide;

enum banyan_status by_sum_key_init(struct by_sum_key *key, const void *secret, size_t bytes) {
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  int made = hash && EVP_DigestInit_ex(hash, EVP_shake256(), NULL) && EVP_DigestUpdate(hash, secret, bytes) &&
             EVP_DigestFinalXOF(hash, (unsigned char *)key, sizeof *key);
  EVP_MD_CTX_free(hash);
  return made ? BANYAN_OK : by_fail(BANYAN_ERR_SYSTEM, "libcrypto has no SHAKE256; install a libcrypto that has it");
}

enum banyan_status by_sum_key_init_open(struct by_sum_key *key) {
  static const char text[] = "banyan: checks of one hop";
  return by_sum_key_init(key, text, sizeof text - 1);
}

static uint64_t folded(uint64_t a, uint64_t b) {
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Odd, so that no worker's tag vanishes. */
static uint64_t mixed(const struct by_sum_key *key, const struct by_fragment *f) {
  uint64_t where = (uint64_t)f->epoch << 32 | (uint64_t)f->slot << 16 | f->job;
  uint64_t what = (uint64_t)f->call << 32 | (uint64_t)f->key << 16 | f->exponent;
  uint64_t shape = (uint64_t)f->dtype << 8 | f->lines;
  uint64_t mix = folded(key->mix[0] ^ where, key->mix[1] ^ what);
  return folded(key->mix[2] ^ mix, key->mix[3] ^ shape) | 1;
}

uint64_t by_sum_tag(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers) {
  uint64_t sum = 0;
  for (; workers; workers &= workers - 1) sum += key->worker[__builtin_ctzll(workers)];
  return sum * mixed(key, fragment);
}

uint64_t by_sum_check(const struct by_sum_key *key, const struct by_fragment *fragment, uint64_t workers) {
  size_t numbers = (size_t)fragment->lines * BY_FRAGMENT_LINE / 4;
  return by_fixed_check(fragment + 1, numbers, key->number) + by_sum_tag(key, fragment, workers);
}
