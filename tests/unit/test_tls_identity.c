/* Identities from key files, and following changes of these files. */
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "certificate.h"
#include "check.h"
#include "tls_identity.h"
#include "tls_keys.h"

static char folder[64];

/* Replaces the file by a new one, as cp and other tools do. */
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

static void write_certificate(const char *name, int cluster, enum by_tls_role role, const char *owner, long days) {
  struct by_certificate_request request = {.role = role, .name = owner, .now = keys_made, .days = days};
  struct by_text text;
  assert_ok(by_certificate_make(&authorities[cluster], &request, &text));
  write_file(name, by_text_get(&text), 0600);
  by_certificate_wipe(&text);
}

static int make_folder(void **state) {
  (void)state;
  make_authorities();
  snprintf(folder, sizeof folder, "/tmp/banyan-identity-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  write_file("ca.crt", by_text_get(&authorities[0].certificate), 0644);
  return 0;
}

static int drop_folder(void **state) {
  char command[100];
  (void)state;
  drop_authorities();
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static void refused(enum by_tls_role role, const char *name, enum banyan_status status, const char *text) {
  struct by_tls_identity *identity;
  assert_status(by_tls_identity_load(folder, role, name, &identity), status);
  if (!strstr(banyan_error_text(), text)) print_error("%s\n", banyan_error_text());
  assert_non_null(strstr(banyan_error_text(), text));
}

static void accepted(const char *in, enum by_tls_role role, const char *name, const char *owner) {
  struct by_tls_identity *identity;
  assert_ok(by_tls_identity_load(in, role, name, &identity));
  assert_int_equal(identity->subject.role, role);
  assert_string_equal(identity->subject.name, owner);
  by_tls_identity_destroy(identity);
}

static void test_by_name_and_the_only_one(void **state) {
  (void)state;
  refused(BY_TLS_AGENT, NULL, BANYAN_ERR_SYSTEM, "`banyan keys make agent NAME` makes it");
  refused(BY_TLS_AGENT, "h1", BANYAN_ERR_SYSTEM, "agent-h1.pem; `banyan keys make agent h1` makes it");
  write_certificate("agent-h1.pem", 0, BY_TLS_AGENT, "h1", 20);
  write_certificate("job-h1.pem", 0, BY_TLS_JOB, "h1", 5); /* A warning is logged for this one. */
  accepted(folder, BY_TLS_AGENT, NULL, "h1");
  accepted(folder, BY_TLS_AGENT, "h1", "h1");
  accepted(folder, BY_TLS_JOB, NULL, "h1");
  accepted(folder, BY_TLS_NOBODY, NULL, ""); /* It judges others, and needs no certificate. */
  write_certificate("agent-h2.pem", 0, BY_TLS_AGENT, "h2", 20);
  refused(BY_TLS_AGENT, NULL, BANYAN_ERR_AUTH, "there are 2 files agent-*.pem in ");
  accepted(folder, BY_TLS_AGENT, "h2", "h2");
  setenv("BANYAN_KEYS", folder, 1);
  accepted(NULL, BY_TLS_AGENT, "h1", "h1");
  unsetenv("BANYAN_KEYS");
  assert_string_equal(by_tls_folder(), BY_TLS_FOLDER);
}

static void test_files_that_are_refused(void **state) {
  (void)state;
  write_certificate("client-a.pem", 0, BY_TLS_CLIENT, "b", 20);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "client-a.pem: it is a certificate for client b");
  write_certificate("client-a.pem", 0, BY_TLS_JOB, "a", 20);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "it is a certificate for job a");
  write_certificate("client-a.pem", 1, BY_TLS_CLIENT, "a", 20);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "client-a.pem: it is not from the authority in ca.crt beside it");
  write_file("client-a.pem", by_text_get(&authorities[0].certificate), 0600);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "there is no key for its certificate");
  write_file("client-a.pem", by_text_get(&authorities[0].key), 0600);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "there is no certificate in it");
  write_file("client-a.pem", "", 0600);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "there is no certificate in it");
  write_certificate("client-a.pem", 0, BY_TLS_CLIENT, "a", 20);
  write_file("ca.crt", "not a certificate", 0644);
  refused(BY_TLS_CLIENT, "a", BANYAN_ERR_AUTH, "ca.crt holds no certificate");
  write_file("ca.crt", by_text_get(&authorities[0].certificate), 0644);
  accepted(folder, BY_TLS_CLIENT, "a", "a");
}

static void test_keys_that_others_can_read(void **state) {
  (void)state;
  char path[200];
  write_certificate("manager-m.pem", 0, BY_TLS_MANAGER, "m", 20);
  snprintf(path, sizeof path, "%s/manager-m.pem", folder);
  for (unsigned mode = 1; mode < 0100; mode <<= 1) {
    chmod(path, 0600 | mode);
    refused(BY_TLS_MANAGER, "m", BANYAN_ERR_AUTH, "manager-m.pem: others may read or change this key");
  }
  chmod(path, 0400);
  accepted(folder, BY_TLS_MANAGER, "m", "m");
  if (geteuid() != 0) return;
  assert_int_equal(chown(path, 65534, 65534), 0);
  refused(BY_TLS_MANAGER, "m", BANYAN_ERR_AUTH, "user 65534 owns this file");
}

/* A new authority is added beside the old one: both are trusted while certificates are exchanged. */
static void test_two_authorities(void **state) {
  (void)state;
  struct by_text both;
  by_text_init(&both);
  by_text_add(&both, "%s%s", by_text_get(&authorities[0].certificate), by_text_get(&authorities[1].certificate));
  write_file("ca.crt", by_text_get(&both), 0644);
  write_certificate("agent-x.pem", 0, BY_TLS_AGENT, "x", 20);
  write_certificate("agent-y.pem", 1, BY_TLS_AGENT, "y", 20);
  accepted(folder, BY_TLS_AGENT, "x", "x");
  accepted(folder, BY_TLS_AGENT, "y", "y");
  both.data[both.length - 40] = '\0'; /* the second one is cut */
  write_file("ca.crt", by_text_get(&both), 0644);
  refused(BY_TLS_AGENT, "x", BANYAN_ERR_AUTH, "ca.crt holds a damaged certificate");
  by_text_fini(&both);
}

static void test_roles(void **state) {
  (void)state;
  for (unsigned role = BY_TLS_MANAGER; role <= BY_TLS_CLIENT; role <<= 1)
    assert_int_equal(by_tls_role_parse(by_tls_role_name((enum by_tls_role)role)), role);
  assert_null(by_tls_role_name((enum by_tls_role)(BY_TLS_AGENT | BY_TLS_JOB)));
  assert_int_equal(by_tls_role_parse("Agent"), 0);
}

/* A part of a subject, in UTF-8, with any content. */
struct part {
  const char *kind, *value;
  int length;
};

static enum banyan_status read_subject(const struct part *parts, size_t n, struct by_tls_subject *out) {
  X509 *certificate = X509_new();
  X509_NAME *subject = X509_get_subject_name(certificate);
  for (size_t i = 0; i < n && parts[i].kind; i++)
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, parts[i].kind, MBSTRING_UTF8,
                                                (const unsigned char *)parts[i].value, parts[i].length, -1, 0),
                     1);
  enum banyan_status status = by_tls_subject_read(certificate, out);
  X509_free(certificate);
  return status;
}

static void test_odd_subjects(void **state) {
  (void)state;
  static const struct part good[] = {{"O", "Company", 7}, {"OU", "agent", 5}, {"CN", "h\xc3\xa4user", 7}};
  static const struct part odd[][3] = {
      {{"OU", "agent", 5}},
      {{"CN", "h1", 2}},
      {{"OU", "AGENT", 5}, {"CN", "h1", 2}},
      {{"OU", "agent\0", 6}, {"CN", "h1", 2}},
      {{"OU", "agent", 5}, {"CN", "h1\0.example", 11}},
      {{"OU", "agent", 5}, {"CN", "h1\n", 3}},
      {{"OU", "agent", 5}, {"CN", "\x1b[2J", 4}},
      {{"OU", "agent", 5}, {"CN", "h1", 2}, {"CN", "h2", 2}},
      {{"OU", "job", 3}, {"OU", "manager", 7}, {"CN", "h1", 2}},
  };
  struct by_tls_subject subject;
  assert_ok(read_subject(good, 3, &subject));
  assert_int_equal(subject.role, BY_TLS_AGENT);
  assert_string_equal(subject.name, "h\xc3\xa4user");
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    assert_status(read_subject(odd[i], 3, &subject), BANYAN_ERR_AUTH);
}

static uint64_t hand_time;

static uint64_t read_hand(void *context) {
  (void)context;
  return hand_time;
}

static const struct by_clock hand_clock = {read_hand, NULL};

static struct by_loop *loop;
static struct by_tls_watch *watch;
static int changes;

static void changed(void *context) {
  (void)context;
  changes++;
}

static void renew(long days, struct by_text *out) {
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = days};
  assert_ok(by_certificate_make(&authorities[0], &request, out));
  write_file("agent-h1.pem", by_text_get(out), 0600);
}

static int set_up(void **state) {
  struct by_text text;
  if (make_folder(state)) return 1;
  renew(TEST_DAYS, &text);
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
  by_tls_watch_destroy(watch);
  by_loop_destroy(loop);
  return drop_folder(state);
}

static void look(void) {
  hand_time += BY_TLS_LOOK;
  assert_ok(by_loop_run_once(loop, 0));
}

static long days_of(void) {
  return (long)((by_tls_watch_get(watch)->expires - keys_made) / TEST_DAY);
}

static void test_a_new_certificate_is_taken_when_it_stays(void **state) {
  struct by_text text;
  (void)state;
  look();
  look();
  assert_int_equal(changes, 0);
  renew(3, &text);
  look(); /* The file may still be in the process of being written. */
  assert_int_equal(changes, 0);
  look();
  assert_int_equal(changes, 1);
  assert_int_equal(days_of(), 3);
  look();
  look();
  assert_int_equal(changes, 1);
  by_certificate_wipe(&text);
  renew(4, &text);
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
  renew(3, &text);
  write_file("ca.crt", by_text_get(&authorities[1].certificate), 0644);
  look();
  look();
  by_tls_watch_read(watch);
  assert_int_equal(changes, 0);
  assert_int_equal(days_of(), TEST_DAYS);
  write_file("ca.crt", by_text_get(&authorities[0].certificate), 0644);
  write_file("agent-h1.pem", by_text_get(&text), 0644); /* Others may read the file. */
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
  assert_int_equal(by_tls_watch_get(watch)->revoked, -1);
  write_file("ca.crl", by_text_get(&list), 0644);
  look();
  look();
  assert_int_equal(by_tls_watch_get(watch)->revoked, 0);
  assert_int_equal(unlink(path), 0); /* A revoked certificate is not accepted for that reason. */
  look();
  look();
  assert_int_equal(changes, 1);
  renew(3, &text);
  const char *revoked = by_text_get(&text);
  assert_ok(by_revocation_list_make(&authorities[0], by_text_get(&list), &revoked, 1, keys_made, &own));
  write_file("ca.crl", by_text_get(&own), 0644); /* The error names the certificate beside it. */
  look();
  look();
  assert_int_equal(changes, 1);
  assert_int_equal(days_of(), TEST_DAYS);
  by_certificate_wipe(&text);
  renew(4, &text);
  look();
  look();
  assert_int_equal(changes, 2);
  assert_int_equal(by_tls_watch_get(watch)->revoked, 1);
  assert_int_equal(days_of(), 4);
  write_file("ca.crl", by_text_get(&list), 0644); /* This is the first list, as from a backup. */
  by_tls_watch_read(watch);
  assert_int_equal(changes, 2);
  assert_int_equal(by_tls_watch_get(watch)->revoked, 1);
  write_file("ca.crl", by_text_get(&own), 0644);
  by_tls_watch_read(watch);
  assert_int_equal(changes, 3);
  by_certificate_wipe(&text);
  by_text_fini(&list);
  by_text_fini(&own);
}

/* Lists of another authority have numbers of their own, also if both have the same name. */
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
  by_tls_watch_read(watch); /* The first one is still trusted. */
  assert_int_equal(changes, 1);
  write_file("ca.crt", by_text_get(&authorities[1].certificate), 0644);
  by_tls_watch_read(watch);
  assert_int_equal(changes, 2);
  assert_int_equal(days_of(), 7);
  by_certificate_wipe(&text);
  by_text_fini(&list);
}

/* One host still has the authority's certificate from before its renewal. */
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
  setenv("BANYAN_LOG", "error", 1); /* A warning is logged for certificates that expire soon. */
  const struct CMUnitTest tls_identity_tests[] = {
      cmocka_unit_test(test_by_name_and_the_only_one),
      cmocka_unit_test(test_files_that_are_refused),
      cmocka_unit_test(test_keys_that_others_can_read),
      cmocka_unit_test(test_two_authorities),
      cmocka_unit_test(test_odd_subjects),
      cmocka_unit_test(test_roles),
  };
  const struct CMUnitTest tls_watch_tests[] = {
      cmocka_unit_test_setup_teardown(test_a_new_certificate_is_taken_when_it_stays, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_is_bad_is_not_taken, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_list_stays, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_another_authority_needs_no_list, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_authority_may_end_first, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("tls_identity", tls_identity_tests, make_folder, drop_folder) +
         cmocka_run_group_tests_name("tls_watch", tls_watch_tests, NULL, NULL);
}
