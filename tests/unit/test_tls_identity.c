#include "tls_identity.h"

#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "tls_keys.h"

static char folder[64];

static void write_file(const char *name, const char *text, unsigned mode) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(path, mode), 0);
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
  assert_int_equal(by_tls_identity_who(identity)->role, role);
  assert_string_equal(by_tls_identity_who(identity)->name, owner);
  by_tls_identity_destroy(identity);
}

static void test_by_name_and_the_only_one(void **state) {
  (void)state;
  refused(BY_TLS_AGENT, NULL, BANYAN_ERR_SYSTEM, "`banyan keys make agent NAME` makes it");
  refused(BY_TLS_AGENT, "h1", BANYAN_ERR_SYSTEM, "agent-h1.pem; `banyan keys make agent h1` makes it");
  write_certificate("agent-h1.pem", 0, BY_TLS_AGENT, "h1", 20);
  write_certificate("job-h1.pem", 0, BY_TLS_JOB, "h1", 5); /* warned of */
  accepted(folder, BY_TLS_AGENT, NULL, "h1");
  accepted(folder, BY_TLS_AGENT, "h1", "h1");
  accepted(folder, BY_TLS_JOB, NULL, "h1");
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
    refused(BY_TLS_MANAGER, "m", BANYAN_ERR_AUTH, "manager-m.pem holds a private key, and others may read it");
  }
  chmod(path, 0400);
  accepted(folder, BY_TLS_MANAGER, "m", "m");
}

/* A new authority beside the old one: both are believed while certificates are exchanged. */
static void test_two_authorities(void **state) {
  (void)state;
  struct by_text both;
  by_text_init(&both);
  by_text_add(&both, "%s%s", by_text_get(&authorities[0].certificate), by_text_get(&authorities[1].certificate));
  write_file("ca.crt", by_text_get(&both), 0644);
  by_text_fini(&both);
  write_certificate("agent-x.pem", 0, BY_TLS_AGENT, "x", 20);
  write_certificate("agent-y.pem", 1, BY_TLS_AGENT, "y", 20);
  accepted(folder, BY_TLS_AGENT, "x", "x");
  accepted(folder, BY_TLS_AGENT, "y", "y");
}

static void test_roles(void **state) {
  (void)state;
  for (unsigned role = BY_TLS_MANAGER; role <= BY_TLS_CLIENT; role <<= 1)
    assert_int_equal(by_tls_role_parse(by_tls_role_name((enum by_tls_role)role)), role);
  assert_null(by_tls_role_name((enum by_tls_role)(BY_TLS_AGENT | BY_TLS_JOB)));
  assert_int_equal(by_tls_role_parse("Agent"), 0);
}

/* A part of a subject; of UTF-8, and it may hold anything. */
struct part {
  const char *kind, *value;
  int length;
};

static enum banyan_status read_subject(const struct part *parts, size_t n, struct by_tls_who *out) {
  X509 *certificate = X509_new();
  X509_NAME *subject = X509_get_subject_name(certificate);
  for (size_t i = 0; i < n && parts[i].kind; i++)
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, parts[i].kind, MBSTRING_UTF8,
                                                (const unsigned char *)parts[i].value, parts[i].length, -1, 0),
                     1);
  enum banyan_status status = by_tls_who_read(certificate, out);
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
  struct by_tls_who who;
  assert_ok(read_subject(good, 3, &who));
  assert_int_equal(who.role, BY_TLS_AGENT);
  assert_string_equal(who.name, "h\xc3\xa4user");
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) assert_status(read_subject(odd[i], 3, &who), BANYAN_ERR_AUTH);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1); /* what expires soon is warned of */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_name_and_the_only_one),
      cmocka_unit_test(test_files_that_are_refused),
      cmocka_unit_test(test_keys_that_others_can_read),
      cmocka_unit_test(test_two_authorities),
      cmocka_unit_test(test_odd_subjects),
      cmocka_unit_test(test_roles),
  };
  return cmocka_run_group_tests_name("tls_identity", tests, make_folder, drop_folder);
}
