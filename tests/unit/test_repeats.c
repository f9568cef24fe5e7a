/* What is said again and again: once a minute from each place, with little memory. */
#include "repeats.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

static bool take(struct by_repeats *repeats, const char *place, const char *text, double now) {
  return by_repeats_take(repeats, place, strlen(place), text, now);
}

static void test_once_a_minute(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  assert_true(take(&repeats, "10.0.0.1", "expired", 1));
  assert_false(take(&repeats, "10.0.0.1", "expired", 2));
  assert_false(take(&repeats, "10.0.0.1", "expired", 60.5));
  assert_true(take(&repeats, "10.0.0.1", "expired", 61.5));
  assert_false(take(&repeats, "10.0.0.1", "expired", 62));
}

static void test_another_place_or_text_is_new(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  assert_true(take(&repeats, "10.0.0.1", "expired", 1));
  assert_true(take(&repeats, "10.0.0.2", "expired", 1));
  assert_true(take(&repeats, "10.0.0.1", "revoked", 1));
  assert_false(take(&repeats, "10.0.0.2", "expired", 1));
}

/* A port that differs each time is no news. */
static void test_only_the_first_bytes_of_a_place_count(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  assert_true(by_repeats_take(&repeats, "10.0.0.1:4000", 8, "expired", 1));
  assert_false(by_repeats_take(&repeats, "10.0.0.1:4001", 8, "expired", 1));
}

static void test_the_oldest_is_forgotten(void **state) {
  (void)state;
  struct by_repeats repeats = {0};
  char text[16];
  for (int i = 0; i <= BY_REPEATS; i++) {
    snprintf(text, sizeof text, "%d", i);
    assert_true(take(&repeats, "a", text, 1 + i));
  }
  assert_false(take(&repeats, "a", "1", 50));
  assert_true(take(&repeats, "a", "0", 50));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_once_a_minute),
      cmocka_unit_test(test_another_place_or_text_is_new),
      cmocka_unit_test(test_only_the_first_bytes_of_a_place_count),
      cmocka_unit_test(test_the_oldest_is_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
