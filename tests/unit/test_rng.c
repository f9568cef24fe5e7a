#include "check.h"
#include "rng.h"

/* The first numbers of the authors' xoshiro256** from the state {1, 2, 3, 4}. */
static void test_reference_numbers(void **state) {
  (void)state;
  static const uint64_t expected[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u};
  struct by_rng rng = {{1, 2, 3, 4}};
  for (int i = 0; i < 5; i++) assert_true(by_rng_next(&rng) == expected[i]);
}

/* The authors' splitmix64 from the state 0. */
static void test_reference_seed(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 0);
  assert_true(rng.s[0] == 0xe220a8397b1dcdafu);
  assert_true(rng.s[1] == 0x6e789e6aa1b965f4u);
  assert_true(rng.s[2] == 0x06c45d188009454fu);
}

static void test_same_seed_same_numbers(void **state) {
  (void)state;
  struct by_rng a, b, c;
  by_rng_init(&a, 42);
  by_rng_init(&b, 42);
  by_rng_init(&c, 43);
  int same = 0;
  for (int i = 0; i < 100; i++) {
    uint64_t next = by_rng_next(&a);
    assert_true(next == by_rng_next(&b));
    same += next == by_rng_next(&c);
  }
  assert_int_equal(same, 0);
}

static void test_below_is_even(void **state) {
  (void)state;
  struct by_rng rng;
  int seen[7] = {0};
  by_rng_init(&rng, 1);
  for (int i = 0; i < 70000; i++) {
    uint64_t x = by_rng_below(&rng, 7);
    assert_in_range(x, 0, 6);
    seen[x]++;
  }
  for (int i = 0; i < 7; i++) assert_in_range(seen[i], 9500, 10500);
  assert_int_equal(by_rng_below(&rng, 1), 0);
  assert_int_equal(by_rng_below(&rng, 0), 0);
}

static void test_unit_is_in_range(void **state) {
  (void)state;
  struct by_rng rng;
  double sum = 0;
  by_rng_init(&rng, 2);
  for (int i = 0; i < 100000; i++) {
    double x = by_rng_unit(&rng);
    assert_true(x >= 0 && x < 1);
    sum += x;
  }
  assert_true(sum > 49500 && sum < 50500);
  struct by_rng most = {{0, 0, 0, 0}};
  assert_true(by_rng_unit(&most) == 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference_numbers),      cmocka_unit_test(test_reference_seed),
      cmocka_unit_test(test_same_seed_same_numbers), cmocka_unit_test(test_below_is_even),
      cmocka_unit_test(test_unit_is_in_range),
  };
  return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
