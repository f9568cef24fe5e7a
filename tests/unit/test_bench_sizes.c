#include "check.h"
#include "commands.h"

static void test_lists_and_ranges(void **state) {
  (void)state;
  static const size_t wanted[] = {8, 65536, 1 << 20, 2 << 20, 4 << 20, 3, 6, 12};
  struct by_sizes sizes;
  assert_ok(by_parse_sizes("8,64K,1M..4M,3..23", &sizes));
  assert_int_equal(sizes.count, 8);
  assert_memory_equal(sizes.bytes, wanted, sizeof wanted);
  assert_ok(by_parse_sizes("1..1024G", &sizes));
  assert_int_equal(sizes.count, 41);
}

static void test_misuse(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    ",",
                                    "8,",
                                    "0",
                                    "x",
                                    "8..",
                                    "..8",
                                    "16..8",
                                    "1025G",
                                    "8...9",
                                    "1..1G,1..1G,1..1G,1..1G,1..1G",
                                    "1111111111111111111111111111111111111111111111111111111111111111111"};
  struct by_sizes sizes;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (by_parse_sizes(bad[i], &sizes) == BANYAN_OK) fail_msg("\"%s\" is taken", bad[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lists_and_ranges),
      cmocka_unit_test(test_misuse),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
