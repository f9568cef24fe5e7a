#include "check.h"

#include <string.h>

#include "reduce.h"

enum { MOST = 1000, MARGIN = 64 };

static unsigned char from[MOST + 2 * MARGIN], to[MOST + 2 * MARGIN];

/* Exactly the bytes asked for arrive, from and to any address. */
static void check(size_t source, size_t target, size_t bytes) {
  memset(to, 0xee, sizeof to);
  by_kernel_copy_streaming(to + target, from + source, bytes);
  assert_memory_equal(to + target, from + source, bytes);
  for (size_t i = 0; i < target; i++) assert_int_equal(to[i], 0xee);
  for (size_t i = target + bytes; i < sizeof to; i++) assert_int_equal(to[i], 0xee);
}

static void test_every_length_and_place(void **state) {
  for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i % 251 % 0xee);
  for (size_t bytes = 0; bytes <= MOST; bytes += bytes < 300 ? 1 : 77) {
    for (size_t place = 0; place < MARGIN; place += 3) check(place * 7 % MARGIN, place, bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_length_and_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
