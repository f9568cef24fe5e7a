#include "key_maker.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

enum { DAY = 24 * 60 * 60 };

static const int64_t now = 2000000000; /* 2033: nothing here asks what time it is */

static void make_authority(struct by_key_authority *out) {
  assert_ok(by_key_maker_authority(NULL, now, 100, out));
}

static struct by_key_request request_for(const char *name) {
  return (struct by_key_request){.role = BY_TLS_AGENT, .name = name, .now = now, .days = 30};
}

static void test_what_is_requested_is_there(void **state) {
  (void)state;
  static const char *const addresses[] = {"10.1.2.3", "h1", "x.example", "fd00::7"};
  struct by_key_authority authority;
  struct by_key_request request = request_for("h1");
  struct by_key_facts facts;
  struct by_text text;
  request.addresses = addresses;
  request.address_count = 4;
  make_authority(&authority);
  assert_ok(by_key_maker_make(&authority, &request, &text));
  assert_ok(by_key_maker_read(by_text_get(&text), &facts));
  assert_false(facts.authority);
  assert_int_equal(facts.who.role, BY_TLS_AGENT);
  assert_string_equal(facts.who.name, "h1");
  assert_int_equal(facts.who.expires, now + 30 * DAY);
  assert_true(facts.begins < now && facts.begins > now - DAY);
  assert_string_equal(by_text_get(&facts.addresses), "10.1.2.3 x.example fd00::7");
  by_text_fini(&facts.addresses);
  by_key_maker_wipe(&text);
  assert_null(text.data);
  assert_ok(by_key_maker_read(by_text_get(&authority.certificate), &facts));
  assert_true(facts.authority);
  assert_int_equal(facts.who.expires, now + 100 * DAY);
  by_text_fini(&facts.addresses);
  by_key_authority_fini(&authority);
}

static void test_nothing_outlives_its_authority(void **state) {
  (void)state;
  struct by_key_authority authority;
  struct by_key_request request = request_for("h1");
  struct by_key_facts facts;
  struct by_text text;
  make_authority(&authority);
  request.now = now + 90 * DAY;
  assert_ok(by_key_maker_make(&authority, &request, &text));
  assert_ok(by_key_maker_read(by_text_get(&text), &facts));
  assert_int_equal(facts.who.expires, now + 100 * DAY);
  by_text_fini(&facts.addresses);
  by_key_maker_wipe(&text);
  request.now = now + 100 * DAY;
  assert_status(by_key_maker_make(&authority, &request, &text), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "has expired"));
  by_key_maker_wipe(&text);
  by_key_authority_fini(&authority);
}

static void test_a_renewed_authority(void **state) {
  (void)state;
  struct by_key_authority authority, renewed, other;
  struct by_key_request request = request_for("h1");
  struct by_tls_identity *identity;
  struct by_text text;
  make_authority(&authority);
  make_authority(&other);
  assert_ok(by_key_maker_make(&authority, &request, &text));
  assert_ok(by_key_maker_authority(&authority, now + 50 * DAY, 100, &renewed));
  assert_string_not_equal(by_text_get(&renewed.certificate), by_text_get(&authority.certificate));
  assert_string_equal(by_text_get(&renewed.key), by_text_get(&authority.key));
  assert_ok(by_tls_identity_make(by_text_get(&renewed.certificate), NULL, by_text_get(&text), &identity));
  by_tls_identity_destroy(identity);
  assert_status(by_tls_identity_make(by_text_get(&other.certificate), NULL, by_text_get(&text), &identity),
                BANYAN_ERR_AUTH);
  by_key_maker_wipe(&text);
  by_key_authority_fini(&other);
  by_key_authority_fini(&renewed);
  by_key_authority_fini(&authority);
}

static void test_bad_names(void **state) {
  (void)state;
  static const char *const names[] = {
      "",   "-h",      ".h",        "a b",  "a/b",
      "..", "a,DNS:b", "h\xc3\xa4", "a\nb", "a2345678901234567890123456789012345678901234567890123456789012345"};
  static const char *const addresses[] = {"", "a,IP:1.1.1.1", "1.2.3.4,5", "-x", "fd00::g", "*.example", "a b"};
  struct by_key_authority authority;
  struct by_text text;
  make_authority(&authority);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_key_request request = request_for(names[i]);
    assert_status(by_key_maker_make(&authority, &request, &text), BANYAN_ERR_ARGUMENT);
  }
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
    struct by_key_request request = request_for("h1");
    request.addresses = &addresses[i];
    request.address_count = 1;
    assert_status(by_key_maker_make(&authority, &request, &text), BANYAN_ERR_ARGUMENT);
    assert_non_null(strstr(banyan_error_text(), "neither an IP address nor a host's name"));
  }
  by_key_authority_fini(&authority);
}

static void test_authorities_that_are_none(void **state) {
  (void)state;
  struct by_key_authority a, b, mixed;
  struct by_key_request request = request_for("h1");
  struct by_key_facts facts;
  struct by_text text;
  make_authority(&a);
  make_authority(&b);
  mixed = (struct by_key_authority){.certificate = a.certificate, .key = b.key};
  assert_status(by_key_maker_make(&mixed, &request, &text), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "do not belong together"));
  mixed = (struct by_key_authority){.certificate = a.key, .key = a.certificate};
  assert_status(by_key_maker_make(&mixed, &request, &text), BANYAN_ERR_SYSTEM);
  assert_status(by_key_maker_read("nothing", &facts), BANYAN_ERR_PARSE);
  assert_status(by_key_maker_read(by_text_get(&a.key), &facts), BANYAN_ERR_PARSE);
  by_key_authority_fini(&a);
  by_key_authority_fini(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_requested_is_there), cmocka_unit_test(test_nothing_outlives_its_authority),
      cmocka_unit_test(test_a_renewed_authority),        cmocka_unit_test(test_bad_names),
      cmocka_unit_test(test_authorities_that_are_none),
  };
  return cmocka_run_group_tests_name("key_maker", tests, NULL, NULL);
}
