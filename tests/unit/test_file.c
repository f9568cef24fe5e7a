#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "text.h"

static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/banyan-file-XXXXXX", *text;
  size_t length;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  enum { BYTES = 300000 };
  char *wrote = test_malloc(BYTES);
  for (size_t i = 0; i < BYTES; i++) wrote[i] = (char)(i % 251);
  assert_int_equal(write(fd, wrote, BYTES), BYTES);
  close(fd);
  assert_ok(by_read_file("thing", path, BYTES, &text, &length));
  assert_int_equal(length, BYTES);
  assert_memory_equal(text, wrote, BYTES);
  free(text);
  assert_ok(by_read_file("thing", path, 1000, &text, &length)); /* one byte more than allowed says so */
  assert_int_equal(length, 1001);
  free(text);
  unlink(path);
  test_free(wrote);
}

static void test_empty_endless_and_none(void **state) {
  (void)state;
  char *text;
  size_t length;
  assert_ok(by_read_file("thing", "/dev/null", 10, &text, &length));
  assert_int_equal(length, 0);
  free(text);
  assert_ok(by_read_file("thing", "/dev/zero", 1 << 20, &text, &length));
  assert_int_equal(length, (1 << 20) + 1);
  free(text);
  assert_status(by_read_file("thing", "/nowhere/x", 10, &text, &length), BANYAN_ERR_SYSTEM);
  assert_string_equal(banyan_error_text(), "cannot open thing /nowhere/x: No such file or directory");
  assert_status(by_read_file("thing", "/", 10, &text, &length), BANYAN_ERR_SYSTEM);
  assert_string_equal(banyan_error_text(), "cannot read thing /: Is a directory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_empty_endless_and_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
