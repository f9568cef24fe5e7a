#include "tls_identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "certificate.h"
#include "check.h"
#include "tls_keys.h"

static uint64_t hand_time;

static uint64_t read_hand(void *context) {
  (void)context;
  return hand_time;
}

static const struct by_clock hand_clock = {read_hand, NULL};

static char folder[64];
static struct by_loop *loop;
static struct by_tls_watch *watch;
static int changes;

static void changed(void *context) {
  (void)context;
  changes++;
}

/* As cp and the tools of people do it: another file in the place of the old one. */
static void write_file(const char *name, const char *text, unsigned mode) {
  char draft[200], path[200];
  snprintf(draft, sizeof draft, "%s/draft", folder);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(draft, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(draft, mode) + rename(draft, path), 0);
}

static void write_certificate(long days, struct by_text *out) {
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = days};
  assert_ok(by_certificate_make(&authorities[0], &request, out));
  write_file("agent-h1.pem", by_text_get(out), 0600);
}

static int set_up(void **state) {
  struct by_text text;
  (void)state;
  make_authorities();
  snprintf(folder, sizeof folder, "/tmp/banyan-watch-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  write_file("ca.crt", by_text_get(&authorities[0].certificate), 0644);
  write_certificate(TEST_DAYS, &text);
  by_certificate_wipe(&text);
  hand_time = BY_SECOND;
  changes = 0;
  assert_ok(by_loop_create(&hand_clock, &loop));
  const struct by_tls_watch_options options = {
      .loop = loop, .folder = folder, .role = BY_TLS_AGENT, .changed = changed};
  assert_ok(by_tls_watch_create(&options, &watch));
  return 0;
}

static int tear_down(void **state) {
  char command[100];
  (void)state;
  by_tls_watch_destroy(watch);
  by_loop_destroy(loop);
  drop_authorities();
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static void look(void) {
  hand_time += BY_TLS_LOOK;
  assert_ok(by_loop_run_once(loop, 0));
}

static long days_of(void) {
  return (long)((by_tls_identity_expires(by_tls_watch_get(watch)) - keys_made) / TEST_DAY);
}

static void test_a_new_certificate_is_taken_when_it_stays(void **state) {
  struct by_text text;
  (void)state;
  look();
  look();
  assert_int_equal(changes, 0);
  write_certificate(3, &text);
  look(); /* it may still be written */
  assert_int_equal(changes, 0);
  look();
  assert_int_equal(changes, 1);
  assert_int_equal(days_of(), 3);
  look();
  look();
  assert_int_equal(changes, 1);
  by_certificate_wipe(&text);
  write_certificate(4, &text);
  by_tls_watch_read(watch);
  assert_int_equal(changes, 2);
  assert_int_equal(days_of(), 4);
  look();
  look();
  assert_int_equal(changes, 2);
  by_certificate_wipe(&text);
}

static void test_what_is_bad_is_not_taken(void **state) {
  struct by_text text;
  (void)state;
  write_certificate(3, &text);
  write_file("ca.crt", by_text_get(&authorities[1].certificate), 0644);
  look();
  look();
  by_tls_watch_read(watch);
  assert_int_equal(changes, 0);
  assert_int_equal(days_of(), TEST_DAYS);
  write_file("ca.crt", by_text_get(&authorities[0].certificate), 0644);
  write_file("agent-h1.pem", by_text_get(&text), 0644); /* others may read it */
  look();
  look();
  assert_int_equal(changes, 0);
  write_file("agent-h1.pem", by_text_get(&text), 0600);
  look();
  look();
  assert_int_equal(changes, 1);
  assert_int_equal(days_of(), 3);
  by_certificate_wipe(&text);
}

static void test_a_list_stays(void **state) {
  struct by_text list, own, text;
  char path[200];
  (void)state;
  snprintf(path, sizeof path, "%s/ca.crl", folder);
  assert_ok(by_revocation_list_make(&authorities[0], NULL, NULL, 0, keys_made, &list));
  assert_int_equal(by_tls_identity_revoked(by_tls_watch_get(watch)), -1);
  write_file("ca.crl", by_text_get(&list), 0644);
  look();
  look();
  assert_int_equal(by_tls_identity_revoked(by_tls_watch_get(watch)), 0);
  assert_int_equal(unlink(path), 0); /* who was revoked is not let in because of that */
  look();
  look();
  assert_int_equal(changes, 1);
  write_certificate(3, &text);
  const char *revoked = by_text_get(&text);
  assert_ok(by_revocation_list_make(&authorities[0], by_text_get(&list), &revoked, 1, keys_made, &own));
  write_file("ca.crl", by_text_get(&own), 0644); /* names the certificate beside it */
  look();
  look();
  assert_int_equal(changes, 1);
  assert_int_equal(days_of(), TEST_DAYS);
  by_certificate_wipe(&text);
  write_certificate(4, &text);
  look();
  look();
  assert_int_equal(changes, 2);
  assert_int_equal(by_tls_identity_revoked(by_tls_watch_get(watch)), 1);
  assert_int_equal(days_of(), 4);
  write_file("ca.crl", by_text_get(&list), 0644); /* the first one, as from a backup */
  by_tls_watch_read(watch);
  assert_int_equal(changes, 2);
  assert_int_equal(by_tls_identity_revoked(by_tls_watch_get(watch)), 1);
  write_file("ca.crl", by_text_get(&own), 0644);
  by_tls_watch_read(watch);
  assert_int_equal(changes, 3);
  by_certificate_wipe(&text);
  by_text_fini(&list);
  by_text_fini(&own);
}

/* Another authority's lists are counted anew, also where both are called the same. */
static void test_another_authority_needs_no_list(void **state) {
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = 7};
  struct by_text list, text;
  char path[200], both[16384];
  (void)state;
  assert_ok(by_revocation_list_make(&authorities[0], NULL, NULL, 0, keys_made, &list));
  write_file("ca.crl", by_text_get(&list), 0644);
  by_tls_watch_read(watch);
  assert_int_equal(changes, 1);
  snprintf(path, sizeof path, "%s/ca.crl", folder);
  assert_int_equal(unlink(path), 0);
  assert_ok(by_certificate_make(&authorities[1], &request, &text));
  write_file("agent-h1.pem", by_text_get(&text), 0600);
  snprintf(both, sizeof both, "%s%s", by_text_get(&authorities[0].certificate),
           by_text_get(&authorities[1].certificate));
  write_file("ca.crt", both, 0644);
  by_tls_watch_read(watch); /* the first one is still believed */
  assert_int_equal(changes, 1);
  write_file("ca.crt", by_text_get(&authorities[1].certificate), 0644);
  by_tls_watch_read(watch);
  assert_int_equal(changes, 2);
  assert_int_equal(days_of(), 7);
  by_certificate_wipe(&text);
  by_text_fini(&list);
}

/* A host that still has the authority's certificate of before it was renewed. */
static void test_the_authority_may_end_first(void **state) {
  struct by_key_authority renewed;
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = 50};
  struct by_text text;
  (void)state;
  assert_ok(by_certificate_make_authority(&authorities[0], keys_made, 100, &renewed));
  assert_ok(by_certificate_make(&renewed, &request, &text));
  write_file("agent-h1.pem", by_text_get(&text), 0600);
  by_tls_watch_read(watch);
  assert_int_equal(days_of(), 2 * TEST_DAYS);
  write_file("ca.crt", by_text_get(&renewed.certificate), 0644);
  by_tls_watch_read(watch);
  assert_int_equal(days_of(), 50);
  by_certificate_wipe(&text);
  by_key_authority_fini(&renewed);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1); /* what is refused is warned of */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_a_new_certificate_is_taken_when_it_stays, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_is_bad_is_not_taken, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_list_stays, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_another_authority_needs_no_list, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_authority_may_end_first, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("tls_watch", tests, NULL, NULL);
}
