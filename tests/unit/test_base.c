/* Tests of the base module: memory, bytes, random numbers, clocks and the names of types. */
#include <banyan/types.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "bytes.h"
#include "check.h"
#include "clock.h"
#include "rng.h"

/* --- arena --- */

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
  for (int i = 0; i < PIECES; i++) /* No piece overlaps another piece. */
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

/* --- bytes --- */

static void test_numbers_are_little_endian(void **state) {
  (void)state;
  uint8_t data[64];
  struct by_writer writer;
  by_writer_init(&writer, data, sizeof data);
  by_write_u8(&writer, 1);
  by_write_u32(&writer, 0x05040302);
  by_write_u64(&writer, 0x0d0c0b0a09080706u);
  by_write_string(&writer, "ab");
  static const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 2, 0, 0, 0, 'a', 'b'};
  assert_false(writer.failed);
  assert_int_equal(writer.length, sizeof expected);
  assert_memory_equal(data, expected, sizeof expected);
}

static size_t write_all(void *data, size_t room, bool *failed) {
  struct by_writer writer;
  by_writer_init(&writer, data, room);
  by_write_u8(&writer, 0xff);
  by_write_u32(&writer, 0xffeeddcc);
  by_write_u64(&writer, 0xffeeddccbbaa9988u);
  by_write_string(&writer, "host");
  by_write_blob(&writer, "\0\1\2", 3);
  by_write_string(&writer, "");
  by_write_bytes(&writer, "end", 3);
  *failed = writer.failed;
  return writer.length;
}

static bool read_all(const void *data, size_t length) {
  struct by_reader reader;
  char host[8];
  size_t n;
  by_reader_init(&reader, data, length);
  bool same = by_read_u8(&reader) == 0xff;
  same &= by_read_u32(&reader) == 0xffeeddcc;
  same &= by_read_u64(&reader) == 0xffeeddccbbaa9988u;
  by_read_string(&reader, host, sizeof host);
  same &= strcmp(host, "host") == 0;
  const uint8_t *blob = by_read_blob(&reader, &n);
  same &= n == 3 && memcmp(blob, "\0\1\2", 3) == 0;
  by_read_string(&reader, host, sizeof host);
  same &= strcmp(host, "") == 0;
  const uint8_t *end = by_read_bytes(&reader, 3);
  same &= end && memcmp(end, "end", 3) == 0;
  assert_int_equal(by_reader_left(&reader), 0);
  assert_int_equal(reader.failed, by_reader_check(&reader, "x") != BANYAN_OK);
  return same && !reader.failed;
}

static void test_every_length(void **state) {
  (void)state;
  bool failed;
  size_t whole = write_all(NULL, 0, &failed);
  assert_true(failed);
  /* Each block has exactly the size that is used, so that a sanitizer detects an access outside it. */
  for (size_t room = 0; room <= whole; room++) {
    uint8_t *data = malloc(room ? room : 1), *all = malloc(whole);
    assert_int_equal(write_all(data, room, &failed), whole);
    assert_int_equal(failed, room < whole);
    write_all(all, whole, &failed);
    uint8_t *cut = malloc(room ? room : 1);
    memcpy(cut, all, room);
    assert_int_equal(read_all(cut, room), room == whole);
    free(data);
    free(all);
    free(cut);
  }
}

static void test_a_failed_reader_stays_at_the_end(void **state) {
  (void)state;
  struct by_reader reader;
  by_reader_init(&reader, "\1\2\3", 3);
  assert_int_equal(by_read_u32(&reader), 0);
  assert_true(reader.failed);
  assert_int_equal(by_read_u8(&reader), 0);
  assert_int_equal(by_reader_left(&reader), 0);
  assert_null(by_read_bytes(&reader, 0));
  assert_status(by_reader_check(&reader, "welcome message"), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "welcome message"));
}

static void test_a_failed_writer_takes_no_more(void **state) {
  (void)state;
  uint8_t data[4] = {0};
  struct by_writer writer;
  by_writer_init(&writer, data, 3);
  by_write_u8(&writer, 1);
  by_write_u32(&writer, 0xffffffff);
  by_write_u8(&writer, 2);
  assert_true(writer.failed);
  assert_int_equal(writer.length, 6);
  assert_memory_equal(data, "\1\0\0\0", 4);
}

static void test_bad_strings(void **state) {
  (void)state;
  char out[4] = "zzz";
  struct by_reader reader;
  by_reader_init(&reader, "\4\0\0\0abcd", 8);
  by_read_string(&reader, out, sizeof out);
  assert_true(reader.failed);
  assert_string_equal(out, "");
  by_reader_init(&reader, "\3\0\0\0a\0c", 7);
  by_read_string(&reader, out, sizeof out);
  assert_true(reader.failed);
  by_reader_init(&reader, "\3\0\0\0abc", 7);
  by_read_string(&reader, out, sizeof out);
  assert_string_equal(out, "abc");
  assert_ok(by_reader_check(&reader, "text"));
  by_reader_init(&reader, "\xff\xff\xff\xff", 4);
  by_read_string(&reader, out, sizeof out);
  assert_true(reader.failed);
}

static void test_strings_in_an_arena(void **state) {
  (void)state;
  struct by_arena arena;
  struct by_reader reader;
  by_arena_init(&arena);
  by_reader_init(&reader, "\3\0\0\0abc\0\0\0\0x", 12);
  assert_string_equal(by_read_string_in(&reader, &arena, 3), "abc");
  assert_string_equal(by_read_string_in(&reader, &arena, 3), "");
  assert_status(by_reader_check(&reader, "names"), BANYAN_ERR_PROTOCOL);
  by_reader_init(&reader, "\3\0\0\0abc", 7);
  assert_null(by_read_string_in(&reader, &arena, 2));
  assert_true(reader.failed);
  by_arena_fini(&arena);
}

static void test_counts_are_believable(void **state) {
  (void)state;
  struct by_reader reader;
  by_reader_init(&reader, "\2\0\0\0aabb", 8);
  assert_int_equal(by_read_count(&reader, 2), 2);
  by_reader_init(&reader, "\3\0\0\0aabb", 8);
  assert_int_equal(by_read_count(&reader, 2), 0);
  assert_true(reader.failed);
  by_reader_init(&reader, "\xff\xff\xff\xff", 4);
  assert_int_equal(by_read_count(&reader, SIZE_MAX), 0);
  assert_true(reader.failed);
  by_reader_init(&reader, NULL, 0);
  assert_ok(by_reader_check(&reader, "nothing"));
  assert_int_equal(by_read_u8(&reader), 0);
  assert_true(reader.failed);
}

/* Random bytes are read by random reads: nothing outside the range is accessed, and the position never goes back. */
static void test_random_reads(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 5);
  for (int round = 0; round < 20000; round++) {
    size_t length = by_rng_below(&rng, 40), n = 0;
    uint8_t *data = malloc(length ? length : 1);
    for (size_t i = 0; i < length; i++) data[i] = (uint8_t)by_rng_below(&rng, by_rng_below(&rng, 2) ? 4 : 256);
    struct by_reader reader;
    char text[16] = "";
    by_reader_init(&reader, data, length);
    while (!reader.failed) {
      size_t left = by_reader_left(&reader);
      switch (by_rng_below(&rng, 6)) {
      case 0: by_read_u8(&reader); break;
      case 1: by_read_u32(&reader); break;
      case 2: by_read_u64(&reader); break;
      case 3: by_read_blob(&reader, &n); break;
      case 4: by_read_string(&reader, text, sizeof text); break;
      default: by_read_count(&reader, 1);
      }
      assert_true(reader.failed ? by_reader_left(&reader) == 0 : by_reader_left(&reader) < left);
    }
    free(data);
  }
}

/* --- rng --- */

/* These are the first numbers of the authors' xoshiro256** from the state {1, 2, 3, 4}. */
static void test_reference_numbers(void **state) {
  (void)state;
  static const uint64_t expected[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u};
  struct by_rng rng = {{1, 2, 3, 4}};
  for (int i = 0; i < 5; i++) assert_true(by_rng_next(&rng) == expected[i]);
}

/* These are the numbers of the authors' splitmix64 from the state 0. */
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

/* --- clock --- */

static void system_clock_never_goes_back(void **state) {
  uint64_t before = by_clock_now(&by_clock_system);
  for (int i = 0; i < 1000; i++) {
    uint64_t now = by_clock_now(&by_clock_system);
    assert_true(now >= before);
    before = now;
  }
}

static void seconds_become_nanoseconds(void **state) {
  assert_int_equal(by_clock_from_seconds(1.5), 1500 * BY_MILLISECOND);
  assert_int_equal(by_clock_from_seconds(20e-6), 20 * BY_MICROSECOND);
  assert_int_equal(by_clock_from_seconds(0), 0);
}

static void odd_seconds_are_clamped(void **state) {
  assert_int_equal(by_clock_from_seconds(-1), 0);
  assert_int_equal(by_clock_from_seconds(NAN), 0);
  uint64_t most = by_clock_from_seconds(INFINITY);
  assert_int_equal(by_clock_from_seconds(1e300), most);
  /* A deadline with the greatest delay must not wrap round. */
  assert_true(most + by_clock_now(&by_clock_system) > most);
}

static uint64_t turned_by_hand(void *context) {
  return *(uint64_t *)context;
}

static void a_clock_is_handed_in(void **state) {
  uint64_t time = 7;
  struct by_clock clock = {turned_by_hand, &time};
  assert_int_equal(by_clock_now(&clock), 7);
  time = 9;
  assert_int_equal(by_clock_now(&clock), 9);
}

/* --- types --- */

static void test_sizes(void **state) {
  static const size_t wanted[BANYAN_DTYPES] = {4, 8, 2, 2, 1, 1, 4, 8};
  for (int i = 0; i < BANYAN_DTYPES; i++) assert_int_equal(banyan_dtype_size((enum banyan_dtype)i), wanted[i]);
  assert_int_equal(banyan_dtype_size(BANYAN_DTYPES), 0);
  assert_int_equal(banyan_dtype_size((enum banyan_dtype) - 1), 0);
}

static void test_names_parse_back(void **state) {
  for (int i = 0; i < BANYAN_DTYPES; i++) {
    enum banyan_dtype got = BANYAN_DTYPES;
    assert_ok(banyan_dtype_parse(banyan_dtype_name((enum banyan_dtype)i), &got));
    assert_int_equal(got, i);
  }
  for (int i = 0; i < BANYAN_OPS; i++) {
    enum banyan_op got = BANYAN_OPS;
    assert_ok(banyan_op_parse(banyan_op_name((enum banyan_op)i), &got));
    assert_int_equal(got, i);
  }
  for (int i = 0; i < BANYAN_COLLECTIVES; i++) {
    enum banyan_collective got = BANYAN_COLLECTIVES;
    assert_ok(banyan_collective_parse(banyan_collective_name((enum banyan_collective)i), &got));
    assert_int_equal(got, i);
  }
}

/* The names are written in files and on command lines, so they must not change. */
static void test_names(void **state) {
  assert_string_equal(banyan_dtype_name(BANYAN_FLOAT32), "f32");
  assert_string_equal(banyan_dtype_name(BANYAN_BFLOAT16), "bf16");
  assert_string_equal(banyan_dtype_name(BANYAN_UINT8), "u8");
  assert_string_equal(banyan_op_name(BANYAN_AVERAGE), "avg");
  assert_string_equal(banyan_op_name(BANYAN_PRODUCT), "prod");
  assert_string_equal(banyan_collective_name(BANYAN_REDUCE_SCATTER), "reduce_scatter");
  assert_string_equal(banyan_collective_name(BANYAN_RECV), "recv");
}

static void test_long_names(void **state) {
  static const char *const long_names[BANYAN_DTYPES] = {"float32", "float64", "float16", "bfloat16",
                                                        "int8",    "uint8",   "int32",   "int64"};
  for (int i = 0; i < BANYAN_DTYPES; i++) {
    enum banyan_dtype got = BANYAN_DTYPES;
    assert_ok(banyan_dtype_parse(long_names[i], &got));
    assert_int_equal(got, i);
  }
  enum banyan_op op = BANYAN_OPS;
  assert_ok(banyan_op_parse("average", &op));
  assert_int_equal(op, BANYAN_AVERAGE);
  assert_ok(banyan_op_parse("product", &op));
  assert_int_equal(op, BANYAN_PRODUCT);
}

static void test_no_such_number(void **state) {
  assert_string_equal(banyan_dtype_name(BANYAN_DTYPES), "?");
  assert_string_equal(banyan_dtype_name((enum banyan_dtype) - 1), "?");
  assert_string_equal(banyan_op_name(BANYAN_OPS), "?");
  assert_string_equal(banyan_collective_name(BANYAN_COLLECTIVES), "?");
}

static void test_no_such_name(void **state) {
  enum banyan_dtype dtype = BANYAN_INT8;
  enum banyan_op op = BANYAN_XOR;
  enum banyan_collective collective = BANYAN_BARRIER;
  assert_status(banyan_dtype_parse("F32", &dtype), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "F32"));
  assert_non_null(strstr(banyan_error_text(), "bf16, i8")); /* The error lists the valid names. */
  assert_status(banyan_dtype_parse("", &dtype), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_dtype_parse(NULL, &dtype), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_op_parse("sum ", &op), BANYAN_ERR_ARGUMENT);
  assert_status(banyan_collective_parse("allreduc", &collective), BANYAN_ERR_ARGUMENT);
  assert_int_equal(dtype, BANYAN_INT8);
  assert_int_equal(op, BANYAN_XOR);
  assert_int_equal(collective, BANYAN_BARRIER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zeroed_aligned_and_apart),
      cmocka_unit_test(test_large_pieces),
      cmocka_unit_test(test_overflow_gives_null),
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_numbers_are_little_endian),
      cmocka_unit_test(test_every_length),
      cmocka_unit_test(test_a_failed_reader_stays_at_the_end),
      cmocka_unit_test(test_a_failed_writer_takes_no_more),
      cmocka_unit_test(test_bad_strings),
      cmocka_unit_test(test_strings_in_an_arena),
      cmocka_unit_test(test_counts_are_believable),
      cmocka_unit_test(test_random_reads),
      cmocka_unit_test(test_reference_numbers),
      cmocka_unit_test(test_reference_seed),
      cmocka_unit_test(test_same_seed_same_numbers),
      cmocka_unit_test(test_below_is_even),
      cmocka_unit_test(test_unit_is_in_range),
      cmocka_unit_test(system_clock_never_goes_back),
      cmocka_unit_test(seconds_become_nanoseconds),
      cmocka_unit_test(odd_seconds_are_clamped),
      cmocka_unit_test(a_clock_is_handed_in),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_names_parse_back),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_long_names),
      cmocka_unit_test(test_no_such_number),
      cmocka_unit_test(test_no_such_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
