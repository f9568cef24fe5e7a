#include <string.h>

#include "arena.h"
#include "check.h"

static void test_zeroed_aligned_and_apart(void **state) {
  (void)state;
  enum { PIECES = 2000 };
  struct by_arena arena;
  unsigned char *piece[PIECES];
  size_t size[PIECES];
  by_arena_init(&arena);
  for (int i = 0; i < PIECES; i++) {
    size[i] = (size_t)(i * 37 % 700);
    piece[i] = by_arena_alloc(&arena, size[i], 1);
    assert_non_null(piece[i]);
    assert_int_equal((uintptr_t)piece[i] % 16, 0);
    for (size_t j = 0; j < size[i]; j++) assert_int_equal(piece[i][j], 0);
    memset(piece[i], i % 251 + 1, size[i]);
  }
  for (int i = 0; i < PIECES; i++) /* nobody wrote into anybody else */
    for (size_t j = 0; j < size[i]; j++) assert_int_equal(piece[i][j], i % 251 + 1);
  by_arena_fini(&arena);
  assert_null(arena.last);
  by_arena_fini(&arena);
}

static void test_large_pieces(void **state) {
  (void)state;
  struct by_arena arena;
  by_arena_init(&arena);
  char *small = by_arena_alloc(&arena, 10, 1);
  char *large = BY_ARENA_ARRAY(&arena, char, 5 << 20);
  assert_non_null(large);
  memset(large, 1, 5 << 20);
  assert_int_equal(small[9], 0);
  assert_true(arena.bytes >= 5 << 20);
  by_arena_fini(&arena);
}

static void test_overflow_gives_null(void **state) {
  (void)state;
  struct by_arena arena;
  by_arena_init(&arena);
  assert_false(arena.failed);
  assert_null(by_arena_alloc(&arena, SIZE_MAX / 2, 4));
  assert_true(arena.failed);
  assert_null(by_arena_alloc(&arena, SIZE_MAX, 1));
  assert_null(by_arena_alloc(&arena, 2, SIZE_MAX));
  assert_non_null(by_arena_alloc(&arena, 0, 8));
  assert_non_null(by_arena_alloc(&arena, 8, 0));
  assert_true(arena.failed);
  by_arena_fini(&arena);
  assert_false(arena.failed);
}

static void test_copies(void **state) {
  (void)state;
  struct by_arena arena;
  by_arena_init(&arena);
  char source[] = "helper";
  char *copy = by_arena_string(&arena, source), *part = by_arena_copy(&arena, source, 4);
  source[0] = 'H';
  assert_string_equal(copy, "helper");
  assert_string_equal(part, "help");
  assert_string_equal(by_arena_copy(&arena, NULL, 0), "");
  by_arena_fini(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zeroed_aligned_and_apart),
      cmocka_unit_test(test_large_pieces),
      cmocka_unit_test(test_overflow_gives_null),
      cmocka_unit_test(test_copies),
  };
  return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
