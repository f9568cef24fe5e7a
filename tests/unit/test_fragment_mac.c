/* The MAC of fragments against a straightforward computation, published values of SipHash, and changes of each bit. */
#include "fragment_mac.h"

#include "check.h"
#include "rng.h"
#include "sum_key.h"

#include <string.h>

struct packet {
  _Alignas(64) struct by_fragment head;
  unsigned char payload[BY_FRAGMENT_LINES * BY_FRAGMENT_LINE];
};

static void fill_key(struct by_hop_key *key, uint64_t seed) {
  struct by_rng rng;
  by_rng_init(&rng, seed);
  uint64_t *words = (uint64_t *)(void *)key;
  for (size_t i = 0; i < sizeof *key / 8; i++) words[i] = by_rng_next(&rng);
}

static struct packet random_packet(struct by_rng *rng, uint8_t lines) {
  struct packet packet;
  for (size_t i = 0; i < sizeof packet; i++) ((unsigned char *)&packet)[i] = (unsigned char)by_rng_next(rng);
  by_fragment_begin(&packet.head, BY_FRAGMENT_UP, (uint8_t)by_rng_below(rng, 64));
  packet.head.lines = lines;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.exponent = (uint8_t)by_rng_next(rng);
  packet.head.slot = (uint16_t)by_rng_next(rng);
  packet.head.epoch = (uint32_t)by_rng_next(rng);
  packet.head.call = (uint32_t)by_rng_next(rng);
  packet.head.check = by_rng_next(rng);
  packet.head.job = (uint16_t)by_rng_next(rng);
  packet.head.key = (uint16_t)by_rng_next(rng);
  for (uint64_t n = by_rng_below(rng, 9); n; n--)
    assert_true(by_fragment_push(&packet.head, (uint32_t)by_rng_below(rng, 64), (uint32_t)by_rng_below(rng, 65)));
  return packet;
}

/* ---- the reference: bytes, and SipHash-2-4 as in its paper */

#define TURN(x, b) (uint64_t)(((x) << (b)) | ((x) >> (64 - (b))))
#define ROUND                                                                                                          \
  v0 += v1, v1 = TURN(v1, 13), v1 ^= v0, v0 = TURN(v0, 32), v2 += v3, v3 = TURN(v3, 16), v3 ^= v2, v0 += v3,           \
            v3 = TURN(v3, 21), v3 ^= v0, v2 += v1, v1 = TURN(v1, 17), v1 ^= v2, v2 = TURN(v2, 32)

static uint64_t siphash(const uint64_t key[2], const unsigned char *in, size_t bytes) {
  uint64_t v0 = 0x736f6d6570736575 ^ key[0], v1 = 0x646f72616e646f6d ^ key[1], v2 = 0x6c7967656e657261 ^ key[0],
           v3 = 0x7465646279746573 ^ key[1];
  for (size_t at = 0; at <= bytes; at += 8) {
    uint64_t m = 0;
    for (size_t i = 0; i < 8 && at + i < bytes; i++) m |= (uint64_t)in[at + i] << 8 * i;
    if (at + 8 > bytes) m |= (uint64_t)bytes << 56;
    v3 ^= m;
    ROUND;
    ROUND;
    v0 ^= m;
  }
  v2 ^= 0xff;
  ROUND;
  ROUND;
  ROUND;
  ROUND;
  return v0 ^ v1 ^ v2 ^ v3;
}

static uint64_t load(const unsigned char *at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
  return value;
}

static void store(unsigned char *at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* By the offsets of docs/wire.md. */
static uint64_t reference(const struct by_hop_key *key, const unsigned char *packet) {
  unsigned char hashed[5 * 8 + BY_FRAGMENT_LINES * BY_FRAGMENT_LINE], sip[23];
  size_t lines = packet[15], n = 5 + lines * 8;
  memcpy(hashed, packet + 16, 16);     /* workers, check */
  memcpy(hashed + 16, packet + 36, 4); /* call */
  memcpy(hashed + 20, packet + 8, 4);  /* job, key */
  memcpy(hashed + 24, packet + 48, 16);
  memcpy(hashed + 40, packet + 64, lines * 64);
  uint64_t hash = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t sum = load(hashed + 8 * i, 8) + key->hash[i];
    hash += (sum & 0xffffffff) * (sum >> 32);
  }
  memcpy(sip, packet + 12, 2);    /* slot */
  memcpy(sip + 2, packet + 2, 6); /* type to exponent */
  store(sip + 8, hash, 8);
  memcpy(sip + 16, packet + 32, 4); /* epoch */
  memcpy(sip + 20, packet + 14, 2); /* dtype, lines */
  sip[22] = 0;
  return siphash(key->sip, sip, sizeof sip);
}

/* The vector of the paper's appendix. */
static void test_siphash(void **state) {
  (void)state;
  unsigned char key[16], in[15];
  for (unsigned char i = 0; i < 16; i++) key[i] = i;
  for (unsigned char i = 0; i < 15; i++) in[i] = i;
  const uint64_t words[2] = {load(key, 8), load(key + 8, 8)};
  assert_true(siphash(words, in, 15) == 0xa129ca6149be45e5);
  struct by_sip sip = by_sip_word(by_sip_begin(words), load(in, 8));
  assert_true(by_sip_end(sip, 15ull << 56 | load(in + 8, 7)) == 0xa129ca6149be45e5);
}

static void test_reference(void **state) {
  (void)state;
  struct by_rng rng;
  struct by_hop_key key;
  by_rng_init(&rng, 3);
  for (unsigned i = 0; i < 20000; i++) {
    fill_key(&key, i);
    struct packet packet = random_packet(&rng, (uint8_t)(i % (BY_FRAGMENT_LINES + 1)));
    by_fragment_sign(&packet.head, &key);
    assert_true(packet.head.mac == reference(&key, (const unsigned char *)&packet));
    assert_int_equal(by_fragment_verify(&packet.head, by_fragment_bytes(&packet.head), &key), BY_FRAGMENT_SOUND);
  }
}

/* Each bit that changes, alone and with others, is detected; so is each other key. */
static void test_changes(void **state) {
  (void)state;
  struct by_rng rng;
  struct by_hop_key key, other;
  by_rng_init(&rng, 4);
  fill_key(&key, 1);
  fill_key(&other, 2);
  for (unsigned round = 0; round < 4; round++) {
    struct packet packet = random_packet(&rng, (uint8_t)(round * 17));
    uint32_t bytes = by_fragment_bytes(&packet.head);
    by_fragment_sign(&packet.head, &key);
    assert_int_equal(by_fragment_verify(&packet.head, bytes, &other), BY_FRAGMENT_FORGED);
    for (uint32_t bit = 0; bit < bytes * 8; bit++) {
      struct packet changed = packet;
      unsigned char *at = (unsigned char *)&changed;
      at[bit / 8] ^= (unsigned char)(1 << bit % 8);
      assert_int_not_equal(by_fragment_verify(&changed.head, bytes, &key), BY_FRAGMENT_SOUND);
      uint32_t more = (uint32_t)by_rng_below(&rng, bytes * 8ull);
      at[more / 8] ^= (unsigned char)(1 << more % 8);
      if (more != bit) assert_int_not_equal(by_fragment_verify(&changed.head, bytes, &key), BY_FRAGMENT_SOUND);
    }
  }
}

/* What is marked is signed as if it had been sent so; what has another MAC stays as it is. */
static void test_mark(void **state) {
  (void)state;
  struct by_rng rng;
  struct by_hop_key key, other;
  by_rng_init(&rng, 6);
  fill_key(&key, 1);
  fill_key(&other, 2);
  for (unsigned i = 0; i < 200; i++) {
    const struct by_hop_key *keys[2] = {&key, NULL}, *signer = keys[i % 2];
    struct packet packet = random_packet(&rng, (uint8_t)(i % (BY_FRAGMENT_LINES + 1))), marked, wanted;
    uint32_t bytes = by_fragment_bytes(&packet.head);
    by_fragment_sign(&packet.head, signer);
    marked = wanted = packet;
    wanted.head.flags |= BY_FRAGMENT_CE;
    by_fragment_sign(&wanted.head, signer);
    by_fragment_mark(&marked.head, bytes, signer);
    assert_memory_equal(&marked, &wanted, bytes);
    by_fragment_sign(&packet.head, &other);
    marked = packet;
    by_fragment_mark(&marked.head, bytes, signer);
    assert_memory_equal(&marked, &packet, bytes);
  }
}

/* Words that are exchanged or moved, lines that are cut off, and changes that cancel in a plain sum. */
static void test_structure(void **state) {
  (void)state;
  struct by_rng rng;
  struct by_hop_key key;
  by_rng_init(&rng, 5);
  for (unsigned i = 0; i < 2000; i++) {
    fill_key(&key, i);
    struct packet packet = random_packet(&rng, 4), changed;
    uint64_t *words = (uint64_t *)(void *)changed.payload;
    by_fragment_sign(&packet.head, &key);
    changed = packet;
    uint64_t first = words[0];
    words[0] = words[1];
    words[1] = first;
    assert_int_equal(by_fragment_verify(&changed.head, 320, &key), BY_FRAGMENT_FORGED);
    changed = packet;
    words[2] += 1ull << i % 64;
    words[3] -= 1ull << i % 64;
    assert_int_equal(by_fragment_verify(&changed.head, 320, &key), BY_FRAGMENT_FORGED);
    changed = packet;
    changed.head.lines = 3;
    assert_int_equal(by_fragment_verify(&changed.head, 256, &key), BY_FRAGMENT_FORGED);
    changed.head.lines = 5;
    memset(changed.payload + 256, 0, 64);
    assert_int_equal(by_fragment_verify(&changed.head, 384, &key), BY_FRAGMENT_FORGED);
  }
}

/* Over words of 3 + 3 bits in place of 32 + 32, for all keys and pairs of words: at most 2 of 8 in place of 2^-31. */
static void test_bound(void **state) {
  (void)state;
  unsigned most = 0;
  for (unsigned difference = 1; difference < 64; difference++) {
    unsigned counts[64] = {0};
    for (unsigned sum = 0; sum < 64; sum++) {
      unsigned other = (sum + difference) & 63;
      unsigned count = ++counts[((sum & 7) * (sum >> 3) - (other & 7) * (other >> 3)) & 63];
      if (count > most) most = count;
    }
  }
  assert_in_range(most, 1, 2 * 8);
}

/* Keys depend on secret, job and key epoch, and are those of the RFC's HKDF-Expand, by `openssl kdf`. */
static void test_keys(void **state) {
  (void)state;
  static const unsigned char tree[32] = "a secret of 32 bytes of a tree..";
  static const unsigned char wanted[BY_HOP_SECRET] = {0xb2, 0x82, 0x50, 0x43, 0x2f, 0x36, 0x14, 0x52, 0xca, 0xbc, 0x7a,
                                                      0x47, 0x29, 0xbe, 0x1d, 0x17, 0x9a, 0xd3, 0x34, 0x68, 0x2d, 0x76,
                                                      0x6c, 0xf4, 0xe9, 0xef, 0xdf, 0xd2, 0x36, 0x64, 0x0d, 0xac};
  unsigned char hop[BY_HOP_SECRET], other[BY_HOP_SECRET];
  struct by_hop_key key, same;
  assert_ok(by_hop_secret_derive(tree, sizeof tree, 0x1234, 0x0506, hop));
  assert_memory_equal(hop, wanted, sizeof hop);
  assert_ok(by_hop_secret_derive(tree, sizeof tree, 0x1234, 0x0507, other));
  assert_memory_not_equal(hop, other, sizeof hop);
  assert_ok(by_hop_secret_derive(tree, sizeof tree, 0x1235, 0x0506, other));
  assert_memory_not_equal(hop, other, sizeof hop);
  assert_ok(by_hop_key_derive(hop, &key));
  assert_ok(by_hop_key_of_tree(tree, sizeof tree, 0x1234, 0x0506, &same));
  assert_memory_equal(&key, &same, sizeof key);
  assert_true(key.sip[0] != key.sip[1] && key.hash[0] != key.hash[BY_MAC_WORDS - 1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_siphash),   cmocka_unit_test(test_reference), cmocka_unit_test(test_changes),
      cmocka_unit_test(test_structure), cmocka_unit_test(test_bound),     cmocka_unit_test(test_mark),
      cmocka_unit_test(test_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
