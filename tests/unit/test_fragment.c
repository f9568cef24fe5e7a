#include "fragment.h"

#include "check.h"
#include "rng.h"

static struct by_fragment term(void) {
  struct by_fragment fragment;
  by_fragment_begin(&fragment, BY_FRAGMENT_UP, 5);
  fragment.job = 0x1234;
  fragment.key = 3;
  fragment.slot = 17;
  fragment.epoch = 9;
  fragment.check = 0x0102030405060708;
  fragment.call = 77;
  fragment.dtype = BY_FRAGMENT_PAIRS;
  fragment.lines = 16;
  fragment.exponent = 149;
  assert_true(by_fragment_push(&fragment, 3, 4));
  assert_true(by_fragment_push(&fragment, 63, 0));
  by_fragment_seal(&fragment);
  return fragment;
}

static enum by_fragment_fault sealed(struct by_fragment fragment) {
  by_fragment_seal(&fragment);
  return by_fragment_check(&fragment, by_fragment_bytes(&fragment));
}

/* Checks the layout of docs/wire.md byte by byte. */
static void test_layout(void **state) {
  (void)state;
  static const uint8_t wanted[64] = {0x59, 4, 1, 0, 2, 5, 0, 0x95, 0x34, 0x12, 3, 0, 17, 0, 1,  16, 0x20, 0,
                                     0,    0, 0, 0, 0, 0, 8, 7,    6,    5,    4, 3, 2,  1, 9,  0,  0,    0,
                                     77,   0, 0, 0, 0, 0, 0, 0,    0,    0,    0, 0, 3,  4, 63, 0};
  struct by_fragment fragment = term();
  assert_int_not_equal(fragment.mac, 0);
  fragment.mac = 0;
  assert_memory_equal(&fragment, wanted, sizeof wanted);
  assert_int_equal(by_fragment_bytes(&fragment), 1088);
  assert_int_equal(by_fragment_number(&fragment, 100), 917);
}

static void test_lengths(void **state) {
  (void)state;
  struct by_fragment fragment = term();
  assert_int_equal(by_fragment_check(&fragment, 1088), BY_FRAGMENT_SOUND);
  assert_int_equal(by_fragment_check(&fragment, 0), BY_FRAGMENT_SHORT);
  assert_int_equal(by_fragment_check(&fragment, 63), BY_FRAGMENT_SHORT);
  assert_int_equal(by_fragment_check(&fragment, 1087), BY_FRAGMENT_SHORT);
  assert_int_equal(by_fragment_check(&fragment, 1089), BY_FRAGMENT_LONG);
}

/* A header in which one, two or three bits have changed is rejected. */
static void test_changed_bits(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (uint32_t i = 0; i < 512; i++)
    for (uint32_t j = 0; j < 512; j++) {
      struct by_fragment fragment = term();
      uint8_t *bytes = (uint8_t *)&fragment;
      uint32_t k = (uint32_t)by_rng_below(&rng, 512);
      bytes[i / 8] ^= (uint8_t)(1u << i % 8);
      if (j > i) bytes[j / 8] ^= (uint8_t)(1u << j % 8);
      if (j > i && k > j) bytes[k / 8] ^= (uint8_t)(1u << k % 8);
      assert_int_not_equal(by_fragment_check(&fragment, 1088), BY_FRAGMENT_SOUND);
    }
}

static void test_foreign(void **state) {
  (void)state;
  struct by_fragment fragment = term();
  fragment.version++;
  assert_int_equal(sealed(fragment), BY_FRAGMENT_FOREIGN);
  fragment = term();
  fragment.magic = 0;
  assert_int_equal(sealed(fragment), BY_FRAGMENT_FOREIGN);
}

static void absurd(struct by_fragment fragment) {
  assert_int_equal(sealed(fragment), BY_FRAGMENT_ABSURD);
}

#define WITH(field, value) (changed = term(), changed.field = (value), changed)

static void test_absurd_fields(void **state) {
  (void)state;
  struct by_fragment changed;
  assert_int_equal(sealed(WITH(lines, BY_FRAGMENT_LINES)), BY_FRAGMENT_SOUND);
  assert_int_equal(sealed(WITH(lines, 0)), BY_FRAGMENT_SOUND);
  assert_int_equal(sealed(WITH(hop, BY_FRAGMENT_HOPS)), BY_FRAGMENT_SOUND);
  absurd(WITH(type, 0));
  absurd(WITH(type, BY_FRAGMENT_NACK + 1));
  absurd(WITH(flags, 64));
  absurd(WITH(hops, BY_FRAGMENT_HOPS + 1));
  absurd(WITH(hop, BY_FRAGMENT_HOPS + 1));
  absurd(WITH(rank, 6));
  absurd(WITH(rank, 64));
  absurd(WITH(rank, 64 + 5));
  absurd(WITH(workers, 0));
  absurd(WITH(lines, BY_FRAGMENT_LINES + 1));
  absurd(WITH(dtype, 0));
  assert_int_equal(sealed(WITH(group, BY_FRAGMENT_GROUPS - 1)), BY_FRAGMENT_SOUND);
  assert_int_equal(sealed(WITH(group, BY_FRAGMENT_UNITED)), BY_FRAGMENT_SOUND);
  absurd(WITH(group, BY_FRAGMENT_GROUPS));
  absurd(WITH(group, BY_FRAGMENT_UNITED - 1));
  absurd(WITH(dtype, BY_FRAGMENT_DTYPES));
}

/* Each kind of fragment has its own size. */
static void test_kinds(void **state) {
  (void)state;
  struct by_fragment fragment;
  by_fragment_begin(&fragment, BY_FRAGMENT_PROBE, 63);
  assert_int_equal(fragment.workers, 1ull << 63);
  assert_int_equal(by_fragment_bytes(&fragment), 256);
  assert_int_equal(sealed(fragment), BY_FRAGMENT_SOUND);
  fragment.lines = by_probe_lines(3);
  assert_int_equal(by_fragment_bytes(&fragment), 128);
  assert_int_equal(by_probe_records(fragment.lines), 3);
  assert_int_equal(sealed(fragment), BY_FRAGMENT_SOUND);
  assert_int_equal(by_probe_lines(4), 2);
  assert_int_equal(by_probe_lines(BY_FRAGMENT_HOPS), BY_PROBE_LINES);
  fragment.lines = 0;
  absurd(fragment);
  fragment.lines = BY_PROBE_LINES + 1;
  absurd(fragment);
  by_fragment_begin(&fragment, BY_FRAGMENT_PROBE_REPLY, 63);
  fragment.workers = 0;
  assert_int_equal(sealed(fragment), BY_FRAGMENT_SOUND);
  by_fragment_begin(&fragment, BY_FRAGMENT_NACK, 0);
  assert_int_equal(by_fragment_bytes(&fragment), 64);
  assert_int_equal(sealed(fragment), BY_FRAGMENT_SOUND);
  fragment.lines = 1;
  absurd(fragment);
  fragment = term();
  fragment.type = BY_FRAGMENT_RESULT_MC;
  absurd(fragment);
  fragment.hops = 0;
  fragment.hop = 8;
  assert_int_equal(sealed(fragment), BY_FRAGMENT_SOUND);
  fragment.hop = 9;
  absurd(fragment);
}

static void test_stack(void **state) {
  (void)state;
  struct by_fragment fragment;
  by_fragment_begin(&fragment, BY_FRAGMENT_NACK, 0);
  assert_false(by_fragment_push(&fragment, BY_FRAGMENT_PORTS, 1));
  assert_false(by_fragment_push(&fragment, 0, BY_HOP_MAX + 1));
  for (uint32_t i = 0; i < BY_FRAGMENT_HOPS; i++) assert_true(by_fragment_push(&fragment, 63 - i, 64 - i));
  assert_false(by_fragment_push(&fragment, 0, 0));
  assert_int_equal(fragment.hops, BY_FRAGMENT_HOPS);
  assert_int_equal(fragment.stack[7].port, 56);
  assert_int_equal(fragment.stack[7].workers, 57);
}

static void test_entries(void **state) {
  (void)state;
  static const uint8_t first[] = {1, 65, 129};
  for (enum by_hop_kind kind = BY_HOP_WORKERS; kind <= BY_HOP_GROUPS; kind++)
    for (uint32_t count = 1; count <= 64; count++) {
      uint8_t workers = by_hop_add(kind, count);
      assert_int_equal(workers, first[kind] + count - 1);
      assert_int_equal(by_hop_count(workers), count);
      assert_int_equal(by_hop_kind_of(workers), kind);
    }
}

static void test_epochs_wrap(void **state) {
  (void)state;
  assert_int_equal(by_epoch_distance(5, 3), 2);
  assert_int_equal(by_epoch_distance(2, UINT32_MAX), 3);
  assert_int_equal(by_epoch_distance(UINT32_MAX, 2), -3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_layout),  cmocka_unit_test(test_lengths),       cmocka_unit_test(test_changed_bits),
      cmocka_unit_test(test_foreign), cmocka_unit_test(test_absurd_fields), cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_stack),   cmocka_unit_test(test_entries),       cmocka_unit_test(test_epochs_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
