/* Shares of a switch's memory: they are fair, fit, and leave something to who comes later. */
#include "cells.h"

#include "check.h"
#include "rng.h"

static struct by_cells_claim claim(double wish) {
  return (struct by_cells_claim){.wish = wish, .weight = by_cells_weight(1, 0)};
}

static void assert_about(double value, double wanted) {
  assert_float_equal(value, wanted, 1e-9 * (1 + wanted));
}

static double share_of(double memory, double given, const struct by_cells_claim *claims, uint32_t n, uint32_t which) {
  double share;
  by_cells_share(memory, given, claims, n, which, 1, &share);
  return share;
}

/* As jobs come, the last of them asks. */
static double share_of_last(double memory, double given, const struct by_cells_claim *claims, uint32_t n) {
  return share_of(memory, given, claims, n, n - 1);
}

static void test_all_fit(void **state) {
  const struct by_cells_claim claims[] = {claim(20), claim(30), claim(25)};
  (void)state;
  double given = 0;
  for (uint32_t n = 1; n <= 3; n++) {
    assert_about(share_of_last(100, given, claims, n), claims[n - 1].wish);
    given += claims[n - 1].wish;
  }
}

/* The first may not have all; the second gets what was left for it, and the third finds nothing. */
static void test_too_small(void **state) {
  const struct by_cells_claim claims[] = {claim(500), claim(500), claim(500)};
  (void)state;
  assert_about(share_of_last(100, 0, claims, 1), 75);
  assert_about(share_of_last(100, 75, claims, 2), 25);
  assert_about(share_of_last(100, 100, claims, 3), 0);
  assert_about(share_of_last(100, 140, claims, 3), 0); /* somebody took more than it was given */
}

/* Whoever wishes for little leaves the rest to the others. */
static void test_max_min(void **state) {
  const struct by_cells_claim claims[] = {claim(5), claim(60), claim(60)};
  (void)state;
  assert_about(share_of(100, 0, claims, 3, 0), 5);
  assert_about(share_of(100, 0, claims, 3, 1), 35);
  assert_about(share_of(100, 0, claims, 3, 2), 35);
}

/* After two of three have left, the next one has as much as it would have had beside one. */
static void test_leaving_frees(void **state) {
  const struct by_cells_claim claims[] = {claim(60), claim(60)};
  (void)state;
  assert_about(share_of_last(100, 37.5, claims, 2), 37.5);
}

/* Trees of one job share what is left for it, as they would have shared more. */
static void test_several_trees(void **state) {
  const struct by_cells_claim claims[] = {claim(200), claim(10), {.wish = 200, .weight = by_cells_weight(1, 1)}};
  double shares[2];
  (void)state;
  by_cells_share(100, 0, claims, 3, 1, 2, shares);
  assert_about(shares[0], 10);
  assert_about(shares[1], 65.0 / 3);
  by_cells_share(100, 90.5, claims, 3, 1, 2, shares);
  assert_about(shares[0], 3);
  assert_about(shares[1], 6.5);
}

static void test_weights(void **state) {
  const struct by_cells_claim claims[] = {{.wish = 100, .weight = by_cells_weight(1, 0)},
                                          {.wish = 100, .weight = by_cells_weight(1, 1)},
                                          {.wish = 100, .weight = by_cells_weight(2, 3)}};
  (void)state;
  assert_about(share_of(70, 0, claims, 3, 0), 30);
  assert_about(share_of(70, 0, claims, 3, 1), 15);
  assert_about(share_of(70, 0, claims, 3, 2), 7.5);
}

/* Of random claims: together they have what there is to share, and only who has its wish has less than its weight's. */
static void test_random(void **state) {
  struct by_cells_claim claims[20];
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 1);
  for (int round = 0; round < 2000; round++) {
    uint32_t n = 1 + (uint32_t)by_rng_below(&rng, 20);
    double memory = 1 + 1000 * by_rng_unit(&rng), wishes = 0, sum = 0, level = 0;
    for (uint32_t i = 0; i < n; i++) {
      claims[i] =
          (struct by_cells_claim){.wish = 1 + 100 * by_rng_unit(&rng),
                                  .weight = by_cells_weight(0.1 + by_rng_unit(&rng), (uint32_t)by_rng_below(&rng, 4))};
      wishes += claims[i].wish;
    }
    for (uint32_t i = 0; i < n; i++) {
      double share = share_of(memory, 0, claims, n, i);
      sum += share;
      if (share / claims[i].weight > level) level = share / claims[i].weight;
    }
    assert_about(sum, wishes <= 0.75 * memory ? wishes : 0.75 * memory);
    for (uint32_t i = 0; i < n; i++) {
      double share = share_of(memory, 0, claims, n, i);
      assert_true(share <= claims[i].wish * (1 + 1e-9));
      if (share < claims[i].wish * (1 - 1e-9)) assert_about(share / claims[i].weight, level);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_fit),       cmocka_unit_test(test_too_small),
                                     cmocka_unit_test(test_max_min),       cmocka_unit_test(test_leaving_frees),
                                     cmocka_unit_test(test_several_trees), cmocka_unit_test(test_weights),
                                     cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
