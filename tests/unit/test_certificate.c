#include <stdio.h>
#include <string.h>

#include "certificate.h"
#include "check.h"
#include "tls_identity.h"

enum { DAY = 24 * 60 * 60 };

static const int64_t now = 2000000000; /* This is in 2033. Nothing here reads the system clock. */

static void make_authority(struct by_key_authority *out) {
  assert_ok(by_certificate_make_authority(NULL, now, 100, out));
}

static struct by_certificate_request request_for(const char *name) {
  return (struct by_certificate_request){.role = BY_TLS_AGENT, .name = name, .now = now, .days = 30};
}

static void test_what_is_requested_is_there(void **state) {
  (void)state;
  static const char *const addresses[] = {"10.1.2.3", "h1", "x.example", "fd00::7"};
  struct by_key_authority authority;
  struct by_certificate_request request = request_for("h1");
  struct by_certificate_facts facts;
  struct by_text text;
  request.addresses = addresses;
  request.address_count = 4;
  make_authority(&authority);
  assert_ok(by_certificate_make(&authority, &request, &text));
  assert_ok(by_certificate_read(by_text_get(&text), &facts));
  assert_false(facts.authority);
  assert_int_equal(facts.who.role, BY_TLS_AGENT);
  assert_string_equal(facts.who.name, "h1");
  assert_int_equal(facts.who.expires, now + 30 * DAY);
  assert_true(facts.begins < now && facts.begins > now - DAY);
  assert_string_equal(by_text_get(&facts.addresses), "10.1.2.3 x.example fd00::7");
  by_certificate_facts_fini(&facts);
  by_certificate_wipe(&text);
  assert_null(text.data);
  assert_ok(by_certificate_read(by_text_get(&authority.certificate), &facts));
  assert_true(facts.authority);
  assert_int_equal(facts.who.expires, now + 100 * DAY);
  by_certificate_facts_fini(&facts);
  by_key_authority_fini(&authority);
}

static void test_nothing_outlives_its_authority(void **state) {
  (void)state;
  struct by_key_authority authority;
  struct by_certificate_request request = request_for("h1");
  struct by_certificate_facts facts;
  struct by_text text;
  make_authority(&authority);
  request.now = now + 90 * DAY;
  assert_ok(by_certificate_make(&authority, &request, &text));
  assert_ok(by_certificate_read(by_text_get(&text), &facts));
  assert_int_equal(facts.who.expires, now + 100 * DAY);
  by_certificate_facts_fini(&facts);
  by_certificate_wipe(&text);
  request.now = now + 100 * DAY;
  assert_status(by_certificate_make(&authority, &request, &text), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "has expired"));
  by_certificate_wipe(&text);
  by_key_authority_fini(&authority);
}

static void test_a_renewed_authority(void **state) {
  (void)state;
  struct by_key_authority authority, renewed, other;
  struct by_certificate_request request = request_for("h1");
  struct by_tls_identity *identity;
  struct by_text text;
  make_authority(&authority);
  make_authority(&other);
  assert_ok(by_certificate_make(&authority, &request, &text));
  assert_ok(by_certificate_make_authority(&authority, now + 50 * DAY, 100, &renewed));
  assert_string_not_equal(by_text_get(&renewed.certificate), by_text_get(&authority.certificate));
  assert_string_equal(by_text_get(&renewed.key), by_text_get(&authority.key));
  assert_ok(by_tls_identity_make(by_text_get(&renewed.certificate), NULL, by_text_get(&text), &identity));
  by_tls_identity_destroy(identity);
  assert_status(by_tls_identity_make(by_text_get(&other.certificate), NULL, by_text_get(&text), &identity),
                BANYAN_ERR_AUTH);
  by_certificate_wipe(&text);
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
    struct by_certificate_request request = request_for(names[i]);
    assert_status(by_certificate_make(&authority, &request, &text), BANYAN_ERR_ARGUMENT);
  }
  for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
    struct by_certificate_request request = request_for("h1");
    request.addresses = &addresses[i];
    request.address_count = 1;
    assert_status(by_certificate_make(&authority, &request, &text), BANYAN_ERR_ARGUMENT);
    assert_non_null(strstr(banyan_error_text(), "neither an IP address nor a host's name"));
  }
  by_key_authority_fini(&authority);
}

static void test_authorities_that_are_none(void **state) {
  (void)state;
  struct by_key_authority a, b, mixed;
  struct by_certificate_request request = request_for("h1");
  struct by_certificate_facts facts;
  struct by_text text;
  make_authority(&a);
  make_authority(&b);
  mixed = (struct by_key_authority){.certificate = a.certificate, .key = b.key};
  assert_status(by_certificate_make(&mixed, &request, &text), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "do not belong together"));
  mixed = (struct by_key_authority){.certificate = a.key, .key = a.certificate};
  assert_status(by_certificate_make(&mixed, &request, &text), BANYAN_ERR_SYSTEM);
  assert_status(by_certificate_read("nothing", &facts), BANYAN_ERR_PARSE);
  assert_status(by_certificate_read(by_text_get(&a.key), &facts), BANYAN_ERR_PARSE);
  by_key_authority_fini(&a);
  by_key_authority_fini(&b);
}

/* ---- lists of revoked certificates ---- */

static struct by_key_authority authority, other;
static struct by_text certificates[3];

static int make_all(void **state) {
  (void)state;
  assert_ok(by_certificate_make_authority(NULL, now, 100, &authority));
  assert_ok(by_certificate_make_authority(NULL, now, 100, &other));
  for (int i = 0; i < 3; i++) {
    struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = now, .days = 30};
    assert_ok(by_certificate_make(&authority, &request, &certificates[i]));
  }
  return 0;
}

static int drop_all(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) by_certificate_wipe(&certificates[i]);
  by_key_authority_fini(&authority);
  by_key_authority_fini(&other);
  return 0;
}

static void revoke(const struct by_text *old, int certificate, struct by_text *out) {
  const char *text = certificate < 0 ? NULL : by_text_get(&certificates[certificate]);
  assert_ok(by_revocation_list_make(&authority, old ? by_text_get(old) : NULL, &text, text ? 1 : 0, now + DAY, out));
}

static void assert_names(const struct by_text *list, size_t count) {
  size_t n;
  int64_t made;
  assert_ok(by_revocation_list_read(by_text_get(list), &n, &made));
  assert_int_equal(n, count);
  assert_int_equal(made, now + DAY);
}

/* Asserts how a process that has the list judges its own certificate. */
static void assert_verdict(const struct by_text *list, int certificate, enum banyan_status status, const char *text) {
  struct by_tls_identity *identity = NULL;
  assert_status(by_tls_identity_make(by_text_get(&authority.certificate), by_text_get(list),
                                     by_text_get(&certificates[certificate]), &identity),
                status);
  if (status != BANYAN_OK) assert_non_null(strstr(banyan_error_text(), text));
  by_tls_identity_destroy(identity);
}

static void test_lists_grow(void **state) {
  (void)state;
  struct by_text none, one, two, same;
  revoke(NULL, -1, &none);
  assert_names(&none, 0);
  revoke(&none, 1, &one);
  assert_names(&one, 1);
  revoke(&one, 0, &two);
  assert_names(&two, 2);
  revoke(&two, 1, &same);
  assert_names(&same, 2);
  assert_verdict(&none, 1, BANYAN_OK, "");
  assert_verdict(&one, 0, BANYAN_OK, "");
  assert_verdict(&one, 1, BANYAN_ERR_AUTH, "it was revoked");
  for (int i = 0; i < 3; i++) assert_verdict(&same, i, i < 2 ? BANYAN_ERR_AUTH : BANYAN_OK, "it was revoked");
  by_text_fini(&none);
  by_text_fini(&one);
  by_text_fini(&two);
  by_text_fini(&same);
}

/* A list signed by the renewed authority is accepted by hosts with either of the authority's certificates. */
static void test_a_list_of_a_renewed_authority(void **state) {
  (void)state;
  struct by_key_authority renewed;
  struct by_text list, again;
  struct by_tls_identity *identity;
  const char *third = by_text_get(&certificates[2]);
  revoke(NULL, 1, &list);
  assert_ok(by_certificate_make_authority(&authority, now + 50 * DAY, 100, &renewed));
  assert_ok(by_revocation_list_make(&renewed, by_text_get(&list), NULL, 0, now + DAY, &again));
  assert_names(&again, 1);
  assert_verdict(&again, 1, BANYAN_ERR_AUTH, "it was revoked");
  assert_ok(by_tls_identity_make(by_text_get(&renewed.certificate), by_text_get(&list), third, &identity));
  assert_int_equal(identity->revoked, 1);
  by_tls_identity_destroy(identity);
  by_text_fini(&list);
  by_text_fini(&again);
  by_key_authority_fini(&renewed);
}

static void test_lists_that_are_none(void **state) {
  (void)state;
  struct by_key_authority mixed = {.certificate = authority.certificate, .key = other.key};
  struct by_text list, foreign, cut;
  size_t n;
  int64_t made;
  const char *nothing = "nothing";
  revoke(NULL, 0, &list);
  assert_ok(by_revocation_list_make(&other, NULL, NULL, 0, now, &foreign));
  assert_verdict(&foreign, 2, BANYAN_ERR_AUTH, "not of the authority in ca.crt");
  by_text_init(&cut);
  by_text_add(&cut, "%s%.*s", by_text_get(&list), 200, by_text_get(&list));
  assert_verdict(&cut, 2, BANYAN_ERR_AUTH, "is cut off");
  assert_verdict(&authority.certificate, 2, BANYAN_ERR_AUTH, "no list of revoked certificates");
  assert_status(by_revocation_list_read("", &n, &made), BANYAN_ERR_PARSE);
  by_text_fini(&cut);
  assert_status(by_revocation_list_make(&authority, "nothing", NULL, 0, now, &cut), BANYAN_ERR_PARSE);
  by_text_fini(&cut);
  assert_status(by_revocation_list_make(&authority, NULL, &nothing, 1, now, &cut), BANYAN_ERR_PARSE);
  by_text_fini(&cut);
  assert_status(by_revocation_list_make(&mixed, NULL, NULL, 0, now, &cut), BANYAN_ERR_ARGUMENT);
  by_text_fini(&cut);
  by_text_fini(&list);
  by_text_fini(&foreign);
}

/* Where two authorities are trusted, each may revoke only its own certificates. */
static void test_two_authorities(void **state) {
  (void)state;
  struct by_text both, list, lists, foreign;
  struct by_tls_identity *identity;
  by_text_init(&both);
  by_text_init(&lists);
  by_text_add(&both, "%s%s", by_text_get(&other.certificate), by_text_get(&authority.certificate));
  const char *first = by_text_get(&certificates[0]), *second = by_text_get(&certificates[1]);
  assert_ok(by_revocation_list_make(&other, NULL, &first, 1, now, &foreign));
  /* The list revokes no certificate of the authority of `first`. */
  assert_ok(by_tls_identity_make(by_text_get(&both), by_text_get(&foreign), first, &identity));
  by_tls_identity_destroy(identity);
  revoke(NULL, 0, &list);
  by_text_add(&lists, "%s%s", by_text_get(&foreign), by_text_get(&list));
  assert_ok(by_tls_identity_make(by_text_get(&both), by_text_get(&lists), second, &identity));
  assert_int_equal(identity->revoked, 2);
  by_tls_identity_destroy(identity);
  assert_status(by_tls_identity_make(by_text_get(&both), by_text_get(&lists), first, &identity), BANYAN_ERR_AUTH);
  by_text_fini(&both);
  by_text_fini(&list);
  by_text_fini(&lists);
  by_text_fini(&foreign);
}

int main(void) {
  const struct CMUnitTest certificate[] = {
      cmocka_unit_test(test_what_is_requested_is_there), cmocka_unit_test(test_nothing_outlives_its_authority),
      cmocka_unit_test(test_a_renewed_authority),        cmocka_unit_test(test_bad_names),
      cmocka_unit_test(test_authorities_that_are_none),
  };
  const struct CMUnitTest revocation_list[] = {
      cmocka_unit_test(test_lists_grow),
      cmocka_unit_test(test_a_list_of_a_renewed_authority),
      cmocka_unit_test(test_lists_that_are_none),
      cmocka_unit_test(test_two_authorities),
  };
  int failed = cmocka_run_group_tests_name("certificate", certificate, NULL, NULL);
  return failed + cmocka_run_group_tests_name("revocation_list", revocation_list, make_all, drop_all);
}
