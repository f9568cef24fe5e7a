/* What is said again and again: once a minute from each place, with little memory. */
#include "log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* What by_repeats_warn writes to standard error. */
static void read_log(FILE *file, char *text, size_t room) {
  rewind(file);
  text[fread(text, 1, room - 1, file)] = '\0';
}

static unsigned count_lines(const char *text) {
  unsigned n = 0;
  while ((text = strchr(text, '\n'))) text++, n++;
  return n;
}

static void test_a_flood_is_a_few_lines_and_a_count(void **state) {
  struct by_repeats repeats = {0};
  char peer[64], text[64], log[4096];
  int before = dup(STDERR_FILENO);
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
  for (int i = 0; i < 100000; i++) { /* each from another host, for another reason */
    snprintf(peer, sizeof peer, "10.0.%d.%d:%d", i / 200, i % 200, 4000 + i % 1000);
    snprintf(text, sizeof text, "it sent %d", i);
    by_repeats_warn(&repeats, "net", peer, text, 1 + i * 1e-4);
  }
  by_repeats_flush(&repeats, "net", 11);
  read_log(file, log, sizeof log);
  unsigned flooded = count_lines(log);
  by_repeats_warn(&repeats, "net", "10.0.0.1:1", "10.0.0.1:1: late", 61.5);
  by_repeats_flush(&repeats, "net", 200);
  read_log(file, log, sizeof log);
  dup2(before, STDERR_FILENO);
  close(before);
  fclose(file);
  assert_int_equal(flooded, BY_REPEATS_LINES);
  assert_int_equal(count_lines(log), BY_REPEATS_LINES + 2);
  assert_non_null(strstr(log, "10.0.0.0:4000: it sent 0\n"));
  assert_non_null(strstr(log, " 99992 further connections were rejected"));
  assert_non_null(strstr(log, "net: 10.0.0.1:1: late\n"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_once_a_minute),
      cmocka_unit_test(test_another_place_or_text_is_new),
      cmocka_unit_test(test_only_the_first_bytes_of_a_place_count),
      cmocka_unit_test(test_the_oldest_is_forgotten),
      cmocka_unit_test(test_a_flood_is_a_few_lines_and_a_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
