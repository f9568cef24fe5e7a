/* Tests of addresses and of looking them up by name. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "check.h"

static struct by_address parse(const char *text) {
  struct by_address address;
  assert_ok(by_address_parse(text, &address));
  return address;
}

static void test_print_is_what_parse_reads(void **state) {
  (void)state;
  static const char *const texts[] = {"127.0.0.1:0",    "10.0.0.1:5000", "255.255.255.255:65535",
                                      "[::1]:29500",    "[fd00::2]:1",   "[2001:db8:1:2:3:4:5:6]:443",
                                      "[fe80::1%lo]:7", "0.0.0.0:80",    "[::]:80"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char out[BY_ADDRESS_TEXT];
    struct by_address address = parse(texts[i]);
    assert_string_equal(by_address_print(&address, out), texts[i]);
  }
}

static void test_bad_addresses(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "10.0.0.1",
                                    ":80",
                                    "[::1]",
                                    "::1:80",
                                    "[::1]:",
                                    "10.0.0.1:",
                                    "10.0.0.1:-1",
                                    "10.0.0.1:65536",
                                    "10.0.0.1:x",
                                    "10.0.0:1",
                                    "[10.0.0.1:1",
                                    "[]:1",
                                    "[::1]]:1",
                                    "[:1",
                                    "]:1",
                                    "host:1",
                                    "10.0.0.1.2:1",
                                    "[::g]:1",
                                    "[fe80::1%nosuchif]:1",
                                    "[::1:2:3:4:5:6:7:8]:1",
                                    "[::1]x:1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct by_address address;
    if (by_address_parse(bad[i], &address) != BANYAN_ERR_PARSE) fail_msg("\"%s\" was accepted", bad[i]);
  }
  char long_host[400];
  memset(long_host, 'a', sizeof long_host);
  strcpy(long_host + sizeof long_host - 4, ":80");
  struct by_address address;
  size_t n;
  assert_status(by_address_resolve(long_host, &address, 1, &n), BANYAN_ERR_PARSE);
}

static void test_parts(void **state) {
  (void)state;
  char host[BY_HOST_TEXT], text[BY_ADDRESS_TEXT];
  int port;
  assert_ok(by_address_split("node-7.cluster:29500", host, &port));
  assert_string_equal(host, "node-7.cluster");
  assert_int_equal(port, 29500);
  assert_ok(by_address_split("[fd00::2]:1", host, &port));
  assert_string_equal(host, "fd00::2");
  struct by_address address = parse("[fd00::2]:1");
  by_address_set_port(&address, 77);
  assert_int_equal(by_address_port(&address), 77);
  assert_int_equal(by_address_family(&address), AF_INET6);
  assert_string_equal(by_address_print_host(&address, text), "fd00::2");
  struct by_address none = {0};
  assert_int_equal(by_address_family(&none), AF_UNSPEC);
  assert_string_equal(by_address_print(&none, text), "none");
  assert_int_equal(by_address_port(&none), 0);
}

static void test_a_mapped_address_is_ipv4(void **state) {
  (void)state;
  char text[BY_ADDRESS_TEXT];
  struct by_address mapped = parse("[::ffff:10.1.2.3]:9"), plain = parse("10.1.2.3:9");
  assert_int_equal(by_address_compare(&mapped, &plain), 0);
  assert_string_equal(by_address_print(&mapped, text), "10.1.2.3:9");
}

static void test_only_ip_is_an_address(void **state) {
  (void)state;
  struct sockaddr local = {.sa_family = AF_UNIX};
  struct sockaddr_in cut = {.sin_family = AF_INET};
  struct by_address address;
  by_address_set(&address, &local, sizeof local);
  assert_int_equal(address.length, 0);
  by_address_set(&address, (struct sockaddr *)&cut, 7);
  assert_int_equal(address.length, 0);
  by_address_set(&address, NULL, 0);
  assert_int_equal(address.length, 0);
}

static void test_kinds(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool loopback, local, any;
  } cases[] = {{"127.0.0.1:1", true, false, false},  {"127.9.9.9:1", true, false, false},
               {"[::1]:1", true, false, false},      {"169.254.3.4:1", false, true, false},
               {"[fe80::5]:1", false, true, false},  {"[febf::5]:1", false, true, false},
               {"[fec0::5]:1", false, false, false}, {"10.0.0.1:1", false, false, false},
               {"0.0.0.0:1", false, false, true},    {"[::]:1", false, false, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_address address = parse(cases[i].text);
    assert_int_equal(by_address_is_loopback(&address), cases[i].loopback);
    assert_int_equal(by_address_is_link_local(&address), cases[i].local);
    assert_int_equal(by_address_is_any(&address), cases[i].any);
  }
  struct by_address any4, any6;
  by_address_any(&any4, AF_INET, 5);
  by_address_any(&any6, AF_INET6, 5);
  struct by_address want4 = parse("0.0.0.0:5"), want6 = parse("[::]:5");
  assert_int_equal(by_address_compare(&any4, &want4), 0);
  assert_int_equal(by_address_compare(&any6, &want6), 0);
}

static void test_order(void **state) {
  (void)state;
  static const char *const ascending[] = {"9.255.0.1:9", "10.0.0.1:1",  "10.0.0.1:2",    "10.0.0.2:1",   "200.0.0.1:1",
                                          "[::1]:1",     "[fd00::1]:1", "[fe80::1%1]:5", "[fe80::1%2]:4"};
  size_t n = sizeof ascending / sizeof *ascending;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      struct by_address a = parse(ascending[i]), b = parse(ascending[j]);
      int order = by_address_compare(&a, &b);
      assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
    }
  }
  struct by_address a = parse("10.0.0.1:1"), b = parse("10.0.0.1:2");
  assert_int_equal(by_address_compare_host(&a, &b), 0);
}

static void test_subnets(void **state) {
  (void)state;
  static const struct {
    const char *subnet, *address;
    bool inside;
  } cases[] = {
      {"10.0.0.0/8", "10.255.1.2:1", true},  {"10.0.0.0/8", "11.0.0.1:1", false},  {"10.0.0.0/9", "10.127.0.1:1", true},
      {"10.0.0.0/9", "10.128.0.1:1", false}, {"0.0.0.0/0", "200.1.1.1:1", true},   {"0.0.0.0/0", "[::1]:1", false},
      {"10.0.0.7", "10.0.0.7:9", true},      {"10.0.0.7/32", "10.0.0.6:9", false}, {"fd00::/16", "[fd00:1::9]:1", true},
      {"fd00::/16", "[fd01::9]:1", false},   {"fd00::1/127", "[fd00::]:1", true},  {"fd00::1", "[fd00::1]:1", true},
      {"fd00::/126", "[fd00::4]:1", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_address subnet, address = parse(cases[i].address);
    int bits;
    assert_ok(by_subnet_parse(cases[i].subnet, &subnet, &bits));
    assert_int_equal(by_address_same_subnet(&subnet, &address, bits), cases[i].inside);
  }
  static const char *const bad[] = {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "fd00::/129", "eth0", "10/8"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct by_address subnet;
    int bits;
    if (by_subnet_parse(bad[i], &subnet, &bits) != BANYAN_ERR_PARSE) fail_msg("\"%s\" was accepted", bad[i]);
  }
  struct by_address a = parse("10.0.0.1:1"), none = {0};
  assert_false(by_address_same_subnet(&a, &a, 33));
  assert_false(by_address_same_subnet(&a, &a, -1));
  assert_false(by_address_same_subnet(&none, &none, 0));
}

static void test_resolve(void **state) {
  (void)state;
  struct by_address out[4];
  size_t n;
  assert_ok(by_address_resolve("[::1]:80", out, 4, &n));
  assert_int_equal(n, 1);
  assert_status(by_address_resolve("localhost", out, 4, &n), BANYAN_ERR_PARSE);
  /* The name is invalid, so no server is asked. */
  assert_status(by_address_resolve("rank..zero:1", out, 4, &n), BANYAN_ERR_CONNECT);
  assert_non_null(strstr(banyan_error_text(), "rank..zero"));
}

static void test_resolve_localhost(void **state) {
  (void)state;
  struct by_address out[4];
  size_t n;
  check_localhost();
  assert_ok(by_address_resolve("localhost:29500", out, 4, &n));
  assert_in_range(n, 1, 4);
  for (size_t i = 0; i < n; i++) {
    assert_true(by_address_is_loopback(&out[i]));
    assert_int_equal(by_address_port(&out[i]), 29500);
  }
  assert_ok(by_address_resolve("localhost:29500", out, 1, &n));
  assert_int_equal(n, 1);
}

static enum banyan_status look_up(const char *text, unsigned turn, struct by_address *out) {
  struct by_resolving *resolving;
  bool done = false;
  size_t n;
  enum banyan_status status = BANYAN_OK;
  assert_ok(by_resolving_start(text, turn, &resolving));
  while (status == BANYAN_OK && !done) {
    status = by_resolving_look(resolving, out, 1, &n, &done);
    if (!done) usleep(1000);
  }
  by_resolving_destroy(resolving);
  return status;
}

static void test_look_up(void **state) {
  (void)state;
  struct by_address address;
  char text[BY_ADDRESS_TEXT];
  assert_ok(look_up("10.1.2.3:7613", 0, &address));
  assert_string_equal(by_address_print(&address, text), "10.1.2.3:7613");
}

/* Every address of a name is returned: `localhost` has one or two. */
static void test_addresses_in_turn(void **state) {
  (void)state;
  struct by_address all[8], address;
  size_t n;
  check_localhost();
  assert_ok(by_address_resolve("localhost:1", all, 8, &n));
  for (unsigned turn = 0; turn < 2 * n; turn++) {
    char wanted[BY_ADDRESS_TEXT], found[BY_ADDRESS_TEXT];
    assert_ok(look_up("localhost:1", turn, &address));
    assert_string_equal(by_address_print(&address, found), by_address_print(&all[turn % n], wanted));
  }
}

static void test_look_up_of_a_bad_text(void **state) {
  (void)state;
  struct by_address address;
  assert_status(look_up("10.1.2.3", 0, &address), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "write host:port"));
}

/* The thread that looks up the name may still be running. */
static void test_look_up_given_up(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    struct by_resolving *resolving;
    assert_ok(by_resolving_start("127.0.0.1:1", 0, &resolving));
    by_resolving_destroy(resolving);
  }
  by_resolving_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_print_is_what_parse_reads),
      cmocka_unit_test(test_bad_addresses),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_a_mapped_address_is_ipv4),
      cmocka_unit_test(test_only_ip_is_an_address),
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_subnets),
      cmocka_unit_test(test_resolve),
      cmocka_unit_test(test_resolve_localhost),
      cmocka_unit_test(test_look_up),
      cmocka_unit_test(test_addresses_in_turn),
      cmocka_unit_test(test_look_up_of_a_bad_text),
      cmocka_unit_test(test_look_up_given_up),
  };
  return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
