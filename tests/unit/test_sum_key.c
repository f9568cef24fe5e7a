#include "sum_key.h"

#include <openssl/evp.h>
#include <openssl/params.h>
#include <string.h>

#include "check.h"
#include "rng.h"

enum { WORKERS = 20, LINES = 3, BYTES = LINES * BY_FRAGMENT_LINE };

struct packet {
  _Alignas(64) struct by_fragment head;
  unsigned char payload[BYTES];
};

static struct by_sum_key make_key(const char *secret) {
  struct by_sum_key key;
  struct by_worker_groups groups = by_one_group(WORKERS);
  assert_ok(by_sum_key_init(&key, secret, strlen(secret), &groups, true));
  return key;
}

static struct packet make_packet(enum by_fragment_type type) {
  struct packet packet = {.payload = {0}};
  by_fragment_begin(&packet.head, type, 5);
  packet.head.job = 0x1234;
  packet.head.key = 3;
  packet.head.slot = 17;
  packet.head.epoch = 9;
  packet.head.call = 77;
  packet.head.lines = type == BY_FRAGMENT_NACK ? 0 : LINES;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.exponent = 130;
  return packet;
}

/* Exponents have all sizes, including those for which a sum of int32 would carry. */
static void test_exponents_add_up(void **state) {
  (void)state;
  static const uint8_t some[] = {0, 1, 126, 127, 128, 254, 255};
  struct by_sum_key key = make_key("a secret");
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int round = 0; round < 20000; round++) {
    struct packet sum = make_packet(BY_FRAGMENT_UP);
    uint64_t check = 0, workers = 0;
    uint8_t largest = 0;
    for (unsigned w = 0; w < WORKERS; w++) {
      struct packet term = make_packet(BY_FRAGMENT_UP);
      uint8_t exponent = by_rng_below(&rng, 2) ? some[by_rng_below(&rng, sizeof some)] : (uint8_t)by_rng_next(&rng);
      by_sum_put_exponent(&key, &term.head, w, exponent);
      check += by_sum_check(&key, &term.head, 1ull << w);
      workers |= 1ull << w;
      if (exponent > largest) largest = exponent;
      for (int i = 0; i < BYTES; i += 8) {
        uint64_t a, b;
        memcpy(&a, sum.payload + i, 8);
        memcpy(&b, term.payload + i, 8);
        a += b;
        memcpy(sum.payload + i, &a, 8);
      }
    }
    assert_true(check == by_sum_check(&key, &sum.head, workers));
    assert_int_equal(by_sum_largest_exponent(&key, &sum.head), largest);
  }
}

/* An opening's exponents are added and checked as numbers are, for any number of workers. */
static void test_openings_add_up(void **state) {
  (void)state;
  static const uint8_t some[] = {0, 1, 127, 128, 255};
  static const unsigned trees[] = {1, 3, 4, 6, 7, WORKERS};
  struct by_rng rng;
  by_rng_init(&rng, 2);
  for (int round = 0; round < 3000; round++) {
    unsigned workers = trees[round % 6];
    struct by_worker_groups groups = by_one_group(workers);
    struct by_sum_key key;
    assert_ok(by_sum_key_init(&key, "a secret", 8, &groups, true));
    uint32_t room = by_sum_opening_room(&key, LINES);
    assert_true(room > 0 && (size_t)room * key.opening <= (size_t)BYTES - (size_t)key.words * 8);
    struct packet sum = make_packet(BY_FRAGMENT_UP);
    uint8_t largest[BYTES] = {0};
    uint64_t check = 0;
    for (unsigned w = 0; w < workers; w++) {
      struct packet term = make_packet(BY_FRAGMENT_UP);
      for (uint32_t i = 0; i < room; i++) {
        uint8_t exponent = some[by_rng_below(&rng, sizeof some)];
        by_sum_put_opening(&key, &term.head, i, w, exponent);
        if (exponent > largest[i]) largest[i] = exponent;
      }
      check += by_sum_check(&key, &term.head, 1ull << w);
      for (int i = 0; i < BYTES; i += 8) {
        uint64_t a, b;
        memcpy(&a, sum.payload + i, 8);
        memcpy(&b, term.payload + i, 8);
        a += b;
        memcpy(sum.payload + i, &a, 8);
      }
    }
    assert_true(check == by_sum_check(&key, &sum.head, ~0ull >> (64 - workers)));
    for (uint32_t i = 0; i < room; i++) assert_int_equal(by_sum_largest_of_opening(&key, &sum.head, i), largest[i]);
  }
}

/* Changes concern numbers, exponents, the set of added terms, and the fragment. */
static void test_changes_are_found(void **state) {
  (void)state;
  static const int covered[] = {7, 8, 10, 12, 14, 15, 32, 36}; /* These are offsets of bytes in the header. */
  struct by_sum_key key = make_key("a secret"), other = make_key("another secret");
  struct packet packet = make_packet(BY_FRAGMENT_UP);
  uint64_t check = by_sum_check(&key, &packet.head, 7);
  assert_true(check != by_sum_check(&key, &packet.head, 3));
  assert_true(check != by_sum_check(&other, &packet.head, 7));
  for (int bit = 0; bit < BYTES * 8; bit++) {
    struct packet changed = packet;
    changed.payload[bit / 8] ^= (unsigned char)(1 << bit % 8);
    assert_true(check != by_sum_check(&key, &changed.head, 7));
  }
  for (size_t i = 0; i < sizeof covered / sizeof *covered; i++) {
    struct packet changed = packet;
    ((unsigned char *)&changed)[covered[i]] ^= 1;
    assert_true(check != by_sum_check(&key, &changed.head, 7));
  }
}

/* In a tree of several groups, checks of terms add up to that of sums of whole groups, and of all; which terms are in
 * matters. */
static void test_groups(void **state) {
  (void)state;
  struct by_worker_groups groups = {.n = 3, .first = {0, 64, 65, 130 - 1}};
  struct by_sum_key key;
  assert_ok(by_sum_key_init(&key, "s", 1, &groups, true));
  assert_int_equal(key.words, 8);
  struct packet term = make_packet(BY_FRAGMENT_UP), sum = term;
  uint64_t check = 0;
  for (uint32_t w = 0; w < by_workers_of(&groups); w++) {
    struct by_worker_set own = by_set_of_worker(&groups, w);
    term.head.group = own.group;
    check += by_sum_check(&key, &term.head, own.workers);
  }
  sum.head.group = BY_FRAGMENT_UNITED;
  assert_true(check == by_sum_check(&key, &sum.head, 7));
  uint64_t parts = 0;
  for (uint32_t g = 0; g < 3; g++) parts += by_sum_check(&key, &sum.head, 1ull << g);
  assert_true(parts == check);
  term.head.group = 0;
  uint64_t first = by_sum_check(&key, &term.head, 1);
  term.head.group = 2;
  assert_true(by_sum_check(&key, &term.head, 1) != first);
  assert_true(by_sum_check(&key, &term.head, by_low_bits(63)) != by_sum_check(&key, &sum.head, 4));
}

/* Their exponents are counted. What all get is what the largest of them needs, exactly in an
 * opening and near the fragment's own; never less. */
static void test_counted_exponents(void **state) {
  (void)state;
  struct by_worker_groups groups = {.n = 2, .first = {0, 64, 128}};
  struct by_sum_key key;
  assert_ok(by_sum_key_init(&key, "s", 1, &groups, true));
  assert_int_equal(by_sum_opening_room(&key, 17), 2);
  for (unsigned own = 0; own < 255; own += 6)
    for (unsigned needed = 0; needed <= 255; needed++) {
      struct {
        _Alignas(64) struct by_fragment head;
        unsigned char payload[17 * BY_FRAGMENT_LINE];
      } opening = {.payload = {0}};
      struct packet pairs = make_packet(BY_FRAGMENT_UP), raw = pairs;
      pairs.head.exponent = (uint8_t)own;
      raw.head.dtype = BY_FRAGMENT_FLOAT32;
      raw.head.exponent = 255;
      by_sum_put_opening(&key, &opening.head, 1, 3, (uint8_t)needed);
      assert_int_equal(by_sum_largest_of_opening(&key, &opening.head, 1), needed);
      assert_int_equal(by_sum_largest_of_opening(&key, &opening.head, 0), 0);
      by_sum_put_exponent(&key, &pairs.head, 3, (uint8_t)needed);
      by_sum_put_exponent(&key, &raw.head, 3, (uint8_t)needed);
      unsigned from_pairs = by_sum_largest_exponent(&key, &pairs.head),
               from_raw = by_sum_largest_exponent(&key, &raw.head);
      assert_true(from_pairs >= needed && from_raw >= needed);
      if (needed + 12 >= own && needed <= own + 7) assert_int_equal(from_pairs, needed);
      if (needed + 44 >= own && needed <= own + 63) assert_true(from_pairs <= needed + 7 || from_pairs == 255);
      if (needed <= 240) assert_true(from_raw <= needed + 7);
      by_sum_put_exponent(&key, &pairs.head, 4, (uint8_t)(needed / 2));
      assert_int_equal(by_sum_largest_exponent(&key, &pairs.head), from_pairs);
    }
}

static uint64_t siphash(const uint64_t key[2], const void *bytes, size_t n) {
  unsigned int size = 8;
  uint64_t out = 0;
  size_t length = 0;
  EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
  EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
  OSSL_PARAM params[] = {OSSL_PARAM_construct_uint("size", &size), OSSL_PARAM_construct_end()};
  assert_int_equal(EVP_MAC_init(context, (const unsigned char *)key, 16, params), 1);
  assert_int_equal(EVP_MAC_update(context, bytes, n), 1);
  assert_int_equal(EVP_MAC_final(context, (unsigned char *)&out, &length, sizeof out), 1);
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
  assert_int_equal(length, 8);
  return out;
}

/* The header is as described in docs/wire.md. */
static void test_headers(void **state) {
  (void)state;
  struct by_sum_key key = make_key("a secret");
  struct packet packet = make_packet(BY_FRAGMENT_PROBE);
  packet.head.flags = BY_FRAGMENT_RETX | BY_FRAGMENT_CE;
  packet.payload[0] = 99;
  struct {
    uint16_t slot, rank, flags, type;
    uint32_t epoch;
    uint16_t key, job;
    uint64_t workers;
    uint32_t call, sequence;
    uint64_t newest, receiver;
  } header = {17, 5, BY_FRAGMENT_RETX, BY_FRAGMENT_PROBE, 9, 3, 0x1234, 1 << 5, 77, 0xabcdef01, 99, 0};
  assert_int_equal(sizeof header, 48);
  packet.head.dtype = packet.head.exponent = 0;
  uint64_t mac = siphash(key.derived.header, &header, sizeof header);
  packet.head.check = by_sum_header_check(&key, &packet.head, 0xabcdef01);
  assert_true(packet.head.check == (mac >> 32 << 32 | 0xabcdef01));
  assert_true(by_sum_header_is_valid(&key, &packet.head));
  packet.head.check++; /* another number needs another MAC */
  assert_false(by_sum_header_is_valid(&key, &packet.head));
  packet = make_packet(BY_FRAGMENT_NACK);
  header.flags = 0;
  header.type = BY_FRAGMENT_NACK;
  header.newest = 0;
  packet.head.dtype = 3;
  packet.head.exponent = 8;
  header.receiver = 0x308;
  mac = siphash(key.derived.header, &header, sizeof header);
  assert_true(by_sum_header_check(&key, &packet.head, 0xabcdef01) == (mac >> 32 << 32 | 0xabcdef01));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exponents_add_up),  cmocka_unit_test(test_openings_add_up),
      cmocka_unit_test(test_changes_are_found), cmocka_unit_test(test_groups),
      cmocka_unit_test(test_counted_exponents), cmocka_unit_test(test_headers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
