/* Texts: numbers with units, printable strings, misspelt words, and whole files. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "file.h"
#include "text.h"

/* --- text --- */

static void test_text_grows(void **state) {
  (void)state;
  struct by_text text;
  by_text_init(&text);
  assert_string_equal(by_text_get(&text), "");
  char all[20000] = "";
  for (int i = 0; i < 3000; i++) {
    by_text_add(&text, "%d,", i);
    sprintf(all + strlen(all), "%d,", i);
  }
  assert_string_equal(by_text_get(&text), all);
  assert_int_equal(text.length, strlen(all));
  by_text_add(&text, "%s", all);
  assert_int_equal(text.length, 2 * strlen(all));
  by_text_add_bytes(&text, all, strlen(all));
  by_text_add_bytes(&text, "", 0);
  assert_int_equal(text.length, 3 * strlen(all));
  assert_string_equal(by_text_get(&text) + 2 * strlen(all), all);
  assert_false(text.failed);
  by_text_fini(&text);
  assert_string_equal(by_text_get(&text), "");
}

static void test_text_exact_fit(void **state) {
  (void)state;
  char piece[600];
  for (int n = 250; n < 262; n++) { /* These lengths are around the initial capacity. */
    struct by_text text;
    by_text_init(&text);
    memset(piece, 'a', (size_t)n);
    piece[n] = '\0';
    by_text_add(&text, "%s", piece);
    by_text_add(&text, "%s", "");
    by_text_add(&text, "b");
    assert_int_equal(strlen(by_text_get(&text)), n + 1);
    assert_int_equal(text.data[n], 'b');
    by_text_fini(&text);
  }
}

static void test_numbers_ignore_the_locale(void **state) {
  (void)state;
  const char *names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "fr_FR"};
  for (int i = 0; i < 4 && !setlocale(LC_NUMERIC, names[i]); i++) continue;
  struct by_text text;
  by_text_init(&text);
  by_text_add(&text, "%g", 1.5);
  assert_string_equal(by_text_get(&text), "1.5");
  by_text_fini(&text);
  double seconds;
  assert_ok(by_parse_seconds("1.5ms", &seconds));
  assert_float_equal(seconds, 1.5e-3, 1e-12);
  setlocale(LC_NUMERIC, "C");
}

static void test_bytes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t value;
  } good[] = {
      {"0", 0},
      {"4096", 4096},
      {"64K", 65536},
      {"64k", 65536},
      {"16M", 16777216},
      {"2G", 2147483648u},
      {"1.5K", 1536},
      {"64KiB", 65536},
      {"64 KiB", 65536},
      {".5K", 512},
      {"3T", 3298534883328},
      {"1e3", 1000},
      {"9007199254740993", 9007199254740993u},
      {"18446744073709551615", UINT64_MAX},
  };
  static const char *const bad[] = {
      "",    "K",   "-1",   "+1",    " 1",   "1 ",    "0x10",         "nan",
      "inf", "1Kx", "1  K", "1.2.3", "1,5K", "1e400", "17179869184G", "18446744073709551616",
      "1s"};
  uint64_t value;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_ok(by_parse_bytes(good[i].text, &value));
    assert_int_equal(value, good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (by_parse_bytes(bad[i], &value) != BANYAN_ERR_PARSE) fail_msg("\"%s\" was taken", bad[i]);
}

static void test_rates_and_seconds(void **state) {
  (void)state;
  double value;
  assert_ok(by_parse_rate("10g", &value));
  assert_true(value == 1e10);
  assert_ok(by_parse_rate("200m", &value));
  assert_true(value == 2e8);
  assert_ok(by_parse_rate("9600", &value));
  assert_true(value == 9600);
  assert_ok(by_parse_rate("9.41 Gbit/s", &value));
  assert_float_equal(value, 9.41e9, 1);
  assert_status(by_parse_rate("10ms", &value), BANYAN_ERR_PARSE);
  assert_status(by_parse_rate("1e308t", &value), BANYAN_ERR_PARSE);
  assert_ok(by_parse_rate("0", &value));
  assert_ok(by_parse_rate("1", &value));
  assert_ok(by_parse_rate("1e6t", &value));
  assert_status(by_parse_rate("0.999", &value), BANYAN_ERR_PARSE);
  assert_status(by_parse_rate("1.1e6t", &value), BANYAN_ERR_PARSE);
  assert_ok(by_parse_seconds("20ms", &value));
  assert_float_equal(value, 0.02, 1e-12);
  assert_ok(by_parse_seconds("3us", &value));
  assert_float_equal(value, 3e-6, 1e-15);
  assert_ok(by_parse_seconds("2min", &value));
  assert_true(value == 120);
  assert_ok(by_parse_seconds("10", &value));
  assert_true(value == 10);
  assert_status(by_parse_seconds("-3s", &value), BANYAN_ERR_PARSE);
  assert_status(by_parse_seconds("3m", &value), BANYAN_ERR_PARSE);
  assert_status(by_parse_seconds("1e300", &value), BANYAN_ERR_PARSE);
}

static void test_int(void **state) {
  (void)state;
  long value = 7;
  assert_ok(by_parse_int("port", "65535", 0, 65535, &value));
  assert_int_equal(value, 65535);
  assert_ok(by_parse_int("offset", "-12", -12, 5, &value));
  assert_int_equal(value, -12);
  static const char *const bad[] = {"", "-", "1x", "x", " 1", "1 ", "+1", "1.0", "65536", "-1", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_status(by_parse_int("port", bad[i], 0, 65535, &value), BANYAN_ERR_PARSE);
    assert_non_null(strstr(banyan_error_text(), "port"));
  }
  assert_status(by_parse_int("any", "9223372036854775808", INT64_MIN, INT64_MAX, &value), BANYAN_ERR_PARSE);
  assert_int_equal(value, -12);
}

static void test_print(void **state) {
  (void)state;
  char out[32];
  assert_string_equal(by_print_bytes(0, out), "0 B");
  assert_string_equal(by_print_bytes(1023, out), "1023 B");
  assert_string_equal(by_print_bytes(65536, out), "64 KiB");
  assert_string_equal(by_print_bytes(1536, out), "1.5 KiB");
  assert_string_equal(by_print_bytes(1048575, out), "1 MiB");
  assert_string_equal(by_print_bytes(UINT64_MAX, out), "1.68e+07 TiB");
  assert_string_equal(by_print_rate(9.41e9, out), "9.41 Gbit/s");
  assert_string_equal(by_print_rate(999.6e6, out), "1 Gbit/s");
  assert_string_equal(by_print_rate(100e6, out), "100 Mbit/s");
  assert_string_equal(by_print_seconds(12.3e-6, out), "12.3 us");
  assert_string_equal(by_print_seconds(0, out), "0 s");
  assert_string_equal(by_print_seconds(600, out), "600 s");
  assert_string_equal(by_print_seconds(-0.0025, out), "-2.5 ms");
  assert_true(strlen(by_print_seconds(1e300, out)) < 32);
  assert_non_null(strstr(by_print_seconds((double)NAN, out), "nan"));
}

static void test_print_reads_back(void **state) {
  (void)state;
  char out[32];
  for (uint64_t bytes = 1; bytes < UINT64_MAX / 3; bytes *= 3) {
    uint64_t back;
    assert_ok(by_parse_bytes(by_print_bytes(bytes, out), &back));
    assert_true(fabs((double)back - (double)bytes) <= 0.005 * (double)bytes);
  }
  for (double rate = 1; rate < 1e15; rate *= 1.7) {
    double back;
    assert_ok(by_parse_rate(by_print_rate(rate, out), &back));
    assert_true(fabs(back - rate) <= 0.005 * rate);
    assert_ok(by_parse_seconds(by_print_seconds(rate * 1e-9, out), &back));
    assert_true(fabs(back - rate * 1e-9) <= 0.005 * rate * 1e-9);
  }
}

static void test_printable(void **state) {
  (void)state;
  static const char *const good[] = {"", "a b", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xb3", "0123456789"};
  static const char *const bad[] = {"\n",   "a\x7f",    "\xc2\x85",     "\xc3",
                                    "\xff", "\xc0\xaf", "\xed\xa0\x80", "01234567890"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(by_is_printable(good[i], 10));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(by_is_printable(bad[i], 10));
}

static void check_kept(const char *text, size_t room, const char *wanted) {
  char out[16];
  by_keep_printable(text, out, room);
  assert_string_equal(out, wanted);
}

static void test_keep_printable(void **state) {
  (void)state;
  check_kept("", 1, "");
  check_kept("tree", 16, "tree");
  check_kept("tree", 4, "tre");
  check_kept("a\nb\xff", 16, "a?b?");
  check_kept("\xc3\xa9\xc3\xa9", 5, "\xc3\xa9\xc3\xa9");
  check_kept("\xc3\xa9\xc3\xa9", 4, "\xc3\xa9"); /* Half a character is not kept. */
}

static void test_number(void **state) {
  (void)state;
  static const char *const bad[] = {"", "-", "--1", "1x", " 1", "0x10", "nan", "inf", "1e999"};
  double value;
  assert_ok(by_parse_number("-12.5", &value));
  assert_true(value == -12.5);
  assert_ok(by_parse_number("2.5e9", &value));
  assert_true(value == 2.5e9);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_status(by_parse_number(bad[i], &value), BANYAN_ERR_PARSE);
}

/* --- suggest --- */

static const char *const names[] = {"run", "plan", "bench", "doctor", "version", "transport", "timeout", "help"};

static const char *suggest(const char *word) {
  const char *found = by_suggest(word, names, sizeof names / sizeof *names);
  return found ? found : "-";
}

static void test_near_names(void **state) {
  (void)state;
  assert_string_equal(suggest("rum"), "run");
  assert_string_equal(suggest("urn"), "run"); /* Two swapped letters are one mistake. */
  assert_string_equal(suggest("transprot"), "transport");
  assert_string_equal(suggest("tiemuot"), "timeout");
  assert_string_equal(suggest("vers"), "version"); /* It is a prefix. */
  assert_string_equal(suggest("bnch"), "bench");
  assert_string_equal(suggest("doctorr"), "doctor");
}

static void test_far_names(void **state) {
  (void)state;
  assert_string_equal(suggest("xyzzy"), "-");
  assert_string_equal(suggest(""), "-");
  assert_string_equal(suggest("a very long word that is no name of anything at all"), "-");
}

/* --- file --- */

static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/banyan-file-XXXXXX", *text;
  size_t length;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  enum { BYTES = 300000 };
  char *wrote = test_malloc(BYTES);
  for (size_t i = 0; i < BYTES; i++) wrote[i] = (char)(1 + i % 251);
  assert_int_equal(write(fd, wrote, BYTES), BYTES);
  close(fd);
  assert_ok(by_read_file("thing", path, BYTES, &text, &length));
  assert_int_equal(length, BYTES);
  assert_memory_equal(text, wrote, BYTES);
  free(text);
  assert_status(by_read_file("thing", path, BYTES - 1, &text, &length), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), " is too large: at most 299999 bytes"));
  assert_null(text);
  unlink(path);
  test_free(wrote);
}

/* Files that others may have written are not read, and a pipe in their place is not waited for. */
static void test_trusted_files(void **state) {
  (void)state;
  static const mode_t refused[] = {0620, 0602, 0666};
  char path[] = "/tmp/banyan-file-XXXXXX", *text;
  size_t length;
  int fd = mkstemp(path);
  assert_int_equal(write(fd, "trusted", 7), 7);
  assert_int_equal(fchmod(fd, 0644), 0);
  assert_ok(by_trusted_read("thing", path, 7, &text, &length));
  assert_string_equal(text, "trusted");
  free(text);
  assert_ok(by_trusted_read("thing", path, 3, &text, &length));
  assert_int_equal(length, 4);
  free(text);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    assert_int_equal(fchmod(fd, refused[i]), 0);
    assert_status(by_trusted_read("thing", path, 7, &text, &length), BANYAN_ERR_AUTH);
    assert_non_null(strstr(banyan_error_text(), "chmod go-w"));
    assert_null(text);
  }
  assert_int_equal(fchmod(fd, 0600), 0);
  if (fchown(fd, geteuid() + 1, (gid_t)-1) == 0) { /* needs root */
    assert_status(by_trusted_read("thing", path, 7, &text, &length), BANYAN_ERR_AUTH);
    assert_non_null(strstr(banyan_error_text(), "belongs to user"));
  }
  close(fd);
  unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_status(by_trusted_read("thing", path, 7, &text, &length), BANYAN_ERR_SYSTEM);
  unlink(path);
  assert_status(by_trusted_read("thing", path, 7, &text, &length), BANYAN_ERR_SYSTEM);
}

static void test_empty_endless_and_none(void **state) {
  (void)state;
  char *text;
  size_t length;
  assert_ok(by_read_file("thing", "/dev/null", 10, &text, &length));
  assert_int_equal(length, 0);
  free(text);
  assert_status(by_read_file("thing", "/dev/zero", 1 << 20, &text, &length), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "thing /dev/zero is too large: at most 1048576 bytes");
  assert_status(by_read_file("thing", "/nowhere/x", 10, &text, &length), BANYAN_ERR_SYSTEM);
  assert_string_equal(banyan_error_text(), "cannot open thing /nowhere/x: No such file or directory");
  assert_status(by_read_file("thing", "/", 10, &text, &length), BANYAN_ERR_SYSTEM);
  assert_string_equal(banyan_error_text(), "cannot read thing /: Is a directory");
}

/* What follows a NUL would not be read, also at the end of a pipe. */
static void test_nul(void **state) {
  static const char bytes[] = "one\ntwo\nthr\0ee\n";
  char path[32], *text;
  size_t length;
  int ends[2];
  (void)state;
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], bytes, sizeof bytes - 1), sizeof bytes - 1);
  close(ends[1]);
  snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
  assert_status(by_read_file("thing", path, 1000, &text, &length), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), ": line 3 has a NUL byte: this is not a text file, or it is damaged"));
  assert_null(text);
  close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_grows),
      cmocka_unit_test(test_text_exact_fit),
      cmocka_unit_test(test_numbers_ignore_the_locale),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_rates_and_seconds),
      cmocka_unit_test(test_int),
      cmocka_unit_test(test_print),
      cmocka_unit_test(test_print_reads_back),
      cmocka_unit_test(test_printable),
      cmocka_unit_test(test_keep_printable),
      cmocka_unit_test(test_number),
      cmocka_unit_test(test_near_names),
      cmocka_unit_test(test_far_names),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_trusted_files),
      cmocka_unit_test(test_empty_endless_and_none),
      cmocka_unit_test(test_nul),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
