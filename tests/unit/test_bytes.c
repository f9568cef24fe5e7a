#include <stdlib.h>
#include <string.h>

#include "check.h"

#include "bytes.h"
#include "rng.h"

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
  for (size_t room = 0; room <= whole; room++) { /* exact blocks, so that a sanitizer sees a step outside */
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

/* Random bytes through random reads: nothing outside the range is touched and the position never goes back. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_are_little_endian),
      cmocka_unit_test(test_every_length),
      cmocka_unit_test(test_a_failed_reader_stays_at_the_end),
      cmocka_unit_test(test_a_failed_writer_takes_no_more),
      cmocka_unit_test(test_bad_strings),
      cmocka_unit_test(test_strings_in_an_arena),
      cmocka_unit_test(test_counts_are_believable),
      cmocka_unit_test(test_random_reads),
  };
  return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
