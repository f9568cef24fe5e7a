#include <stdlib.h>
#include <string.h>

#include "check.h"

#include "address.h"
#include "text.h"

/* A realistic host: each row has name, subnet and Mbit/s. */
static const struct {
  const char *name, *subnet;
  double megabits;
} host[] = {
    {"lo", "127.0.0.1/8", 0},           {"lo", "::1/128", 0},
    {"eth0", "192.0.2.2/24", 1000},     {"eth0", "fe80::1/64", 1000},
    {"eth1", "10.1.0.2/16", 25000},     {"eth1", "fd00::2/64", 25000},
    {"docker0", "172.17.0.1/16", 0},    {"br-0123456789ab", "172.18.0.1/16", 0},
    {"virbr0", "192.168.122.1/24", 0},  {"wlan0", "192.168.1.5/24", 0},
    {"usb0", "169.254.7.7/16", 100000},
};

static size_t make_host(struct by_interface *out, size_t first, size_t n) {
  for (size_t i = 0; i < n; i++) {
    memset(&out[i], 0, sizeof out[i]);
    strcpy(out[i].name, host[first + i].name);
    out[i].speed = host[first + i].megabits * 1e6;
    assert_ok(by_subnet_parse(host[first + i].subnet, &out[i].address, &out[i].bits));
    for (size_t j = 0; j < sizeof host / sizeof *host; j++) /* Each name has one index. */
      if (!out[i].index && strcmp(host[j].name, out[i].name) == 0) out[i].index = (unsigned)j + 1;
  }
  return n;
}

static void check_names(const struct by_interface *all, size_t n, const char *expected) {
  struct by_text text;
  by_text_init(&text);
  for (size_t i = 0; i < n; i++)
    by_text_add(&text, "%s%s%s", i ? " " : "", all[i].name, by_address_family(&all[i].address) == AF_INET ? "" : "/6");
  assert_string_equal(by_text_get(&text), expected);
  by_text_fini(&text);
}

static void check_choice(const char *filter, bool loopback, const char *expected) {
  struct by_interface all[16];
  size_t n = make_host(all, 0, sizeof host / sizeof *host);
  assert_ok(by_interface_choose(filter, loopback, all, &n));
  check_names(all, n, expected);
}

static void test_choice(void **state) {
  (void)state;
  check_choice(NULL, false, "eth1 eth1/6 eth0 wlan0 usb0 eth0/6");
  check_choice("", true, "eth1 eth1/6 eth0 wlan0 lo lo/6 usb0 eth0/6");
  check_choice("eth0", false, "eth0 eth0/6");
  check_choice("eth0,eth1", false, "eth0 eth0/6 eth1 eth1/6");
  check_choice("docker0,lo", false, "docker0 lo lo/6");
  check_choice("eth*,!eth1", false, "eth0 eth0/6");
  check_choice("!eth1", false, "eth0 wlan0 usb0 eth0/6");
  check_choice("!10.0.0.0/8,!169.254.0.0/16,!fe80::/10", false, "eth1/6 eth0 wlan0");
  check_choice("10.0.0.0/8,wlan0", false, "eth1 wlan0");
  check_choice("fd00::2,192.0.2.2", false, "eth1/6 eth0");
  check_choice(",wlan0,,", false, "wlan0");
  check_choice("ib0", false, "");
}

static void test_loopback_if_there_is_nothing_else(void **state) {
  (void)state;
  struct by_interface all[16];
  size_t n = make_host(all, 0, 2);
  assert_ok(by_interface_choose("", false, all, &n));
  check_names(all, n, "lo lo/6");
  n = make_host(all, 6, 3);
  assert_ok(by_interface_choose("", false, all, &n));
  check_names(all, n, "");
  n = 0;
  assert_ok(by_interface_choose("", false, all, &n));
  assert_int_equal(n, 0);
}

static void test_bad_filters(void **state) {
  (void)state;
  static const char *const bad[] = {"!", "eth0,!", "10.0.0.0/40", "x/y", "fd00::/999", "10.0.0.0/8/8"};
  struct by_interface *out;
  size_t n;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_status(by_interface_list(bad[i], false, &out, &n), BANYAN_ERR_PARSE);
  char many[1000] = "";
  for (int i = 0; i < 65; i++) strcat(many, "eth0,");
  assert_status(by_interface_list(many, false, &out, &n), BANYAN_ERR_PARSE);
  assert_status(by_interface_list("nosuch0", false, &out, &n), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "nosuch0"));
  /* The name appears once, even if the interface has several addresses. */
  const char *lo = strstr(banyan_error_text(), "lo");
  assert_non_null(lo);
  assert_null(strstr(lo + 1, "lo,"));
}

static void test_this_host(void **state) {
  (void)state;
  struct by_interface *all;
  size_t n;
  assert_ok(by_interface_list("lo", false, &all, &n));
  assert_in_range(n, 1, 100);
  assert_string_equal(all[0].name, "lo");
  assert_true(by_address_is_loopback(&all[0].address));
  assert_int_equal(by_address_port(&all[0].address), 0);
  assert_int_equal(all[0].bits, by_address_family(&all[0].address) == AF_INET ? 8 : 128);
  free(all);
  assert_ok(by_interface_list(NULL, true, &all, &n));
  assert_in_range(n, 1, 1000);
  free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_choice),
      cmocka_unit_test(test_loopback_if_there_is_nothing_else),
      cmocka_unit_test(test_bad_filters),
      cmocka_unit_test(test_this_host),
  };
  return cmocka_run_group_tests_name("interface", tests, NULL, NULL);
}
