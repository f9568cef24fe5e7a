#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "launch.h"

static void test_fills_in_order(void **state) {
  (void)state;
  struct by_launch_hosts hosts;
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "a:2,user@b:1,c,a:1,d:5"));
  assert_int_equal(hosts.count, 4);
  assert_int_equal(by_hosts_slots(&hosts), 10);
  assert_ok(by_hosts_place(&hosts, 5));
  assert_int_equal(hosts.count, 3); /* d stays empty */
  static const struct {
    const char *name, *destination;
    int first, ranks;
  } wanted[] = {{"a", "a", 0, 3}, {"b", "user@b", 3, 1}, {"c", "c", 4, 1}};
  for (int i = 0; i < 3; i++) {
    assert_string_equal(hosts.items[i].name, wanted[i].name);
    assert_string_equal(hosts.items[i].destination, wanted[i].destination);
    assert_int_equal(hosts.items[i].first, wanted[i].first);
    assert_int_equal(hosts.items[i].ranks, wanted[i].ranks);
    assert_false(hosts.items[i].local);
  }
  by_hosts_fini(&hosts);
}

static void test_too_few_slots(void **state) {
  (void)state;
  struct by_launch_hosts hosts;
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "a:2,b:1"));
  assert_status(by_hosts_place(&hosts, 4), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "hold 3 ranks, not 4"));
  by_hosts_fini(&hosts);
}

static void test_what_is_local(void **state) {
  (void)state;
  char own[256] = "";
  struct by_launch_hosts hosts;
  gethostname(own, sizeof own - 1);
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "localhost,127.0.0.1:2,127.3.2.1,[::1]:3"));
  assert_ok(by_hosts_parse(&hosts, own));
  assert_true(by_hosts_all_local(&hosts));
  assert_string_equal(hosts.items[3].name, "::1");
  assert_int_equal(hosts.items[3].slots, 3);
  assert_ok(by_hosts_parse(&hosts, "me@[2001:db8::77]:3"));
  assert_false(by_hosts_all_local(&hosts));
  assert_string_equal(hosts.items[5].destination, "me@2001:db8::77");
  by_hosts_fini(&hosts);
}

static void test_what_is_no_host(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",       ":2",  "a:",    "a:0",  "a:-1",          "a:b", "a,,b", "-oProxyCommand=x", "a b", "a;b",
      "u@-v:1", "::1", "a:1:2", "$(x)", "a:99999999999", "a'b", "@",    "a:2,b\n:1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct by_launch_hosts hosts;
    by_hosts_init(&hosts);
    if (by_hosts_parse(&hosts, bad[i]) == BANYAN_OK) fail_msg("\"%s\" is taken", bad[i]);
    by_hosts_fini(&hosts);
  }
}

static void test_too_many(void **state) {
  (void)state;
  struct by_launch_hosts hosts;
  by_hosts_init(&hosts);
  assert_ok(by_hosts_parse(&hosts, "a:65536"));
  assert_status(by_hosts_parse(&hosts, "a:1"), BANYAN_ERR_ARGUMENT);
  by_hosts_fini(&hosts);
  by_hosts_init(&hosts);
  enum banyan_status status = BANYAN_OK;
  char name[16];
  int n = 0;
  for (; status == BANYAN_OK && n < 100000; n++) {
    snprintf(name, sizeof name, "h%d", n);
    status = by_hosts_parse(&hosts, name);
  }
  assert_int_equal(hosts.count, BY_MOST_HOSTS);
  by_hosts_fini(&hosts);
}

static enum banyan_status enter_nowhere(void *context, const struct by_launch_host *host) {
  (void)context;
  (void)host;
  return BANYAN_OK;
}

/* Numbered behind the ranks, host by host, and kept when the list they came from is gone. */
static void test_helpers(void **state) {
  (void)state;
  int place = 0;
  struct by_launch_hosts hosts, helpers;
  by_hosts_init(&hosts);
  by_hosts_init(&helpers);
  assert_ok(by_hosts_parse(&hosts, "a:2,b:4,c:4"));
  assert_ok(by_hosts_place(&hosts, 5)); /* c stays empty */
  assert_ok(by_hosts_parse(&helpers, "me@x:2,a"));
  assert_ok(by_hosts_add_place(&helpers, "y", 1, enter_nowhere, &place));
  assert_ok(by_hosts_add_beside(&hosts, &helpers, BY_HELPERS, 5));
  by_hosts_fini(&helpers);
  static const struct by_launch_host expected[] = {
      {.name = "a", .destination = "a", .first = 0, .ranks = 2},
      {.name = "b", .destination = "b", .first = 2, .ranks = 3},
      {.name = "x", .destination = "me@x", .first = 5, .ranks = 2, .beside = BY_HELPERS},
      {.name = "a", .destination = "a", .first = 7, .ranks = 1, .beside = BY_HELPERS},
      {.name = "y", .destination = "y", .first = 8, .ranks = 1, .beside = BY_HELPERS}};
  assert_int_equal(hosts.count, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(hosts.items[i].name, expected[i].name);
    assert_string_equal(hosts.items[i].destination, expected[i].destination);
    assert_int_equal(hosts.items[i].first, expected[i].first);
    assert_int_equal(hosts.items[i].ranks, expected[i].ranks);
    assert_int_equal(hosts.items[i].beside, expected[i].beside);
  }
  assert_ptr_equal(hosts.items[4].enter, enter_nowhere);
  assert_ptr_equal(hosts.items[4].context, &place);
  assert_true(hosts.items[4].local);
  by_hosts_fini(&hosts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fills_in_order), cmocka_unit_test(test_too_few_slots),
      cmocka_unit_test(test_what_is_local),  cmocka_unit_test(test_what_is_no_host),
      cmocka_unit_test(test_too_many),       cmocka_unit_test(test_helpers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
