/* Values that depend on the peer's address. */
#include "choose.h"

#include <string.h>

#include "check.h"

static const char *chosen(const char *list, const char *peer) {
  static char value[BY_CHOICE_TEXT];
  struct by_address address;
  assert_ok(by_address_parse_host(peer, 5000, &address));
  assert_ok(by_choose(list, &address, value));
  return value;
}

static void test_first_match_counts(void **state) {
  (void)state;
  const char *list = "reno@127.0.0.0/8,bbr@10.8.0.0/16,dctcp@10.0.0.0/8,vegas@fd00::/8,cubic";
  assert_string_equal(chosen(list, "127.0.0.1"), "reno");
  assert_string_equal(chosen(list, "10.8.3.4"), "bbr");
  assert_string_equal(chosen(list, "10.9.3.4"), "dctcp");
  assert_string_equal(chosen(list, "fd12::1"), "vegas");
  assert_string_equal(chosen(list, "192.168.0.1"), "cubic");
  assert_string_equal(chosen("cubic,reno@127.0.0.0/8", "127.0.0.1"), "cubic");
  assert_string_equal(chosen("4@10.0.0.7", "10.0.0.7"), "4");
}

static void test_no_match(void **state) {
  (void)state;
  assert_string_equal(chosen("bbr@10.8.0.0/16", "10.9.0.1"), "");
  assert_string_equal(chosen("bbr@10.8.0.0/16", "fd00::1"), "");
  assert_string_equal(chosen("", "10.9.0.1"), "");
  assert_string_equal(chosen(NULL, "10.9.0.1"), "");
}

static enum banyan_status short_ones(const char *value) {
  return strlen(value) < 6 ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "%s is long", value);
}

static void test_check_reads_everything(void **state) {
  (void)state;
  assert_ok(by_choose_check("reno@127.0.0.0/8,cubic", short_ones));
  assert_ok(by_choose_check(NULL, short_ones));
  assert_ok(by_choose_check("", short_ones));
  assert_status(by_choose_check("reno,westwood@10.0.0.0/8", short_ones), BANYAN_ERR_ARGUMENT);
  static const char *const bad[] = {
      ",",
      "a,",
      ",a",
      "@10.0.0.0/8",
      "a@",
      "a@here",
      "a@10.0.0.0/33",
      "a@10.0.0.0/8@b",
      "a@fd00::/129",
      "0123456789012345678901234567890123456789",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (by_choose_check(bad[i], short_ones) != BANYAN_ERR_PARSE) fail_msg("\"%s\" is accepted", bad[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_match_counts),
      cmocka_unit_test(test_no_match),
      cmocka_unit_test(test_check_reads_everything),
  };
  return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
