#include "address.h"

#include <string.h>
#include <unistd.h>

#include "check.h"

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

static void test_found(void **state) {
  (void)state;
  struct by_address address;
  char text[BY_ADDRESS_TEXT];
  assert_ok(look_up("10.1.2.3:7613", 0, &address));
  assert_string_equal(by_address_print(&address, text), "10.1.2.3:7613");
}

/* Every address of a name comes up: `localhost` has one or two. */
static void test_in_turn(void **state) {
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

static void test_not_found(void **state) {
  (void)state;
  struct by_address address;
  assert_status(look_up("10.1.2.3", 0, &address), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "write host:port"));
}

/* The thread may still be at it. */
static void test_not_wanted(void **state) {
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
      cmocka_unit_test(test_found),
      cmocka_unit_test(test_in_turn),
      cmocka_unit_test(test_not_found),
      cmocka_unit_test(test_not_wanted),
  };
  return cmocka_run_group_tests_name("resolve", tests, NULL, NULL);
}
