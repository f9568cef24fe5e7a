/* Statements of agents about processes: what is believed, and what is refused with which reason. */
#include "statement.h"

#include <string.h>

#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "check.h"
#include "refusal.h"
#include "tls_keys.h"

#define JOB "0123456789abcdef0123456789abcdef"
#define OTHER_JOB "1123456789abcdef0123456789abcdef"

static struct by_tls_identity *agent, *job, *foreign, *nobody;
static uint64_t now;

static struct by_tls_identity *judge_of(int cluster, const char *revoked) {
  struct by_tls_identity *identity;
  must(by_tls_identity_make(by_text_get(&authorities[cluster].certificate), revoked, NULL, &identity));
  return identity;
}

static int make_keys(void **state) {
  (void)state;
  make_authorities();
  now = (uint64_t)keys_made;
  agent = identity_of(0, BY_TLS_AGENT, "h1");
  job = identity_of(0, BY_TLS_JOB, "h1");
  foreign = identity_of(1, BY_TLS_AGENT, "h1");
  nobody = judge_of(0, NULL);
  return 0;
}

static int drop_keys(void **state) {
  (void)state;
  by_tls_identity_destroy(agent);
  by_tls_identity_destroy(job);
  by_tls_identity_destroy(foreign);
  by_tls_identity_destroy(nobody);
  drop_authorities();
  return 0;
}

static const struct by_fingerprint process = {{7}}, other_process = {{8}};

struct shown {
  uint8_t bytes[BY_STATEMENT_MAX];
  size_t length;
};

static struct shown signed_by(const struct by_tls_identity *identity, const char *host) {
  struct by_statement statement = {.job = JOB, .process = process, .user = 1000};
  struct shown shown;
  snprintf(statement.host, sizeof statement.host, "%s", host);
  assert_ok(by_statement_sign(identity, &statement, now, shown.bytes, &shown.length));
  return shown;
}

static enum banyan_status check_at(const struct shown *shown, const struct by_statement_claim *claim, uint64_t time) {
  struct by_stated stated;
  enum banyan_status status = by_statement_check(shown->bytes, shown->length, nobody, claim, time, &stated);
  if (status == BANYAN_OK) assert_int_equal(stated.user, 1000);
  if (status != BANYAN_OK) assert_null(stated.certificate);
  by_stated_fini(&stated);
  return status;
}

static void refused(const struct shown *shown, const struct by_statement_claim *claim, uint64_t time,
                    enum by_refusal reason, const char *text) {
  uint64_t before = by_refusals(reason);
  assert_status(check_at(shown, claim, time), BANYAN_ERR_AUTH);
  if (!strstr(banyan_error_text(), text)) print_error("%s\n", banyan_error_text());
  assert_non_null(strstr(banyan_error_text(), text));
  assert_int_equal(by_refusals(reason), before + 1);
}

static const struct by_statement_claim right = {.job = JOB, .host = "h1", .process = &process};

static void test_what_is_believed(void **state) {
  (void)state;
  struct shown shown = signed_by(agent, "h1");
  struct by_statement read;
  assert_ok(check_at(&shown, &right, now));
  assert_ok(check_at(&shown, &(struct by_statement_claim){.host = "h1", .process = &process}, now));
  assert_ok(check_at(&shown, &right, now + BY_STATEMENT_SECONDS));
  assert_ok(check_at(&shown, &right, now - BY_STATEMENT_CLOCKS));
  assert_ok(by_statement_read(shown.bytes, shown.length, &read));
  assert_string_equal(read.host, "h1");
  assert_int_equal(read.expires, now + BY_STATEMENT_SECONDS);
}

static void test_other_claims(void **state) {
  (void)state;
  struct shown shown = signed_by(agent, "h1");
  refused(&shown, &(struct by_statement_claim){OTHER_JOB, "h1", &process}, now, BY_REFUSED_IDENTITY, "of another job");
  refused(&shown, &(struct by_statement_claim){JOB, "h2", &process}, now, BY_REFUSED_IDENTITY,
          "of host h1, which says it is on h2");
  refused(&shown, &(struct by_statement_claim){JOB, "h1", &other_process}, now, BY_REFUSED_IDENTITY,
          "about another process");
}

static void test_times(void **state) {
  (void)state;
  struct shown shown = signed_by(agent, "h1");
  refused(&shown, &right, now + BY_STATEMENT_SECONDS + 1, BY_REFUSED_EXPIRED, "is its clock right");
  refused(&shown, &right, now - BY_STATEMENT_CLOCKS - 1, BY_REFUSED_EXPIRED, "compare the clock of host h1");
  refused(&shown, &right, now + (TEST_DAYS + 1) * (uint64_t)TEST_DAY, BY_REFUSED_CERTIFICATE,
          "if this host's clock is right");
}

/* What an agent that does not keep to the hour signs: the same with another end. */
static struct shown signed_until(uint64_t expires) {
  struct shown shown = signed_by(agent, "h1");
  uint8_t text[BY_STATEMENT_MAX + 32] = "banyan statement 1", *fields = text + 19, *from = NULL;
  size_t signature_length = BY_STATEMENT_MAX;
  uint8_t bytes[8];
  by_put_u64(bytes, now + BY_STATEMENT_SECONDS);
  from = memmem(shown.bytes, shown.length, bytes, sizeof bytes);
  assert_non_null(from);
  by_put_u64(from, expires);
  size_t certificate = (size_t)(from - shown.bytes) + 8,
         length = certificate + 4 + by_get_u32(shown.bytes + certificate);
  memcpy(fields, shown.bytes, length);
  EVP_PKEY *key = SSL_CTX_get0_privatekey(agent->context);
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  const EVP_MD *hash = EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
  signature_length -= length + 4;
  assert_int_equal(EVP_DigestSignInit(context, NULL, hash, NULL, key), 1);
  assert_int_equal(EVP_DigestSign(context, shown.bytes + length + 4, &signature_length, text, 19 + length), 1);
  EVP_MD_CTX_free(context);
  by_put_u32(shown.bytes + length, (uint32_t)signature_length);
  shown.length = length + 4 + signature_length;
  return shown;
}

static void test_long_statements(void **state) {
  (void)state;
  static const uint64_t ends[] = {2 * BY_STATEMENT_SECONDS, TEST_DAYS * TEST_DAY, UINT64_MAX - 2000000000};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    struct shown shown = signed_until(now + ends[i]);
    assert_ok(check_at(&shown, &right, now));
    assert_ok(check_at(&shown, &right, now + BY_STATEMENT_SECONDS));
    refused(&shown, &right, now + BY_STATEMENT_SECONDS + 1, BY_REFUSED_EXPIRED, "it expired 1 s ago");
  }
  struct shown brief = signed_until(now + 60);
  refused(&brief, &right, now + 61, BY_REFUSED_EXPIRED, "it expired 1 s ago");
}

static void test_signers(void **state) {
  (void)state;
  struct shown shown = signed_by(job, "h1");
  refused(&shown, &right, now, BY_REFUSED_CERTIFICATE, "the certificate of job h1, and only agents make statements");
  shown = signed_by(foreign, "h1");
  refused(&shown, &right, now, BY_REFUSED_CERTIFICATE, "another authority");
  shown = signed_by(agent, "h2"); /* an agent speaks for its own host only */
  refused(&shown, &(struct by_statement_claim){JOB, "h2", &process}, now, BY_REFUSED_IDENTITY,
          "agent h1 makes it for host h2");
}

/* Each byte counts, and so does the length. */
static void test_altered(void **state) {
  (void)state;
  struct shown shown = signed_by(agent, "h1");
  for (size_t i = 0; i < shown.length; i++) {
    shown.bytes[i] ^= (uint8_t)(1 << i % 8);
    assert_int_not_equal(check_at(&shown, &right, now), BANYAN_OK);
    shown.bytes[i] ^= (uint8_t)(1 << i % 8);
  }
  for (shown.length--; shown.length; shown.length--) assert_status(check_at(&shown, &right, now), BANYAN_ERR_PROTOCOL);
}

static void test_revoked_later(void **state) {
  (void)state;
  struct by_certificate_request request = {.role = BY_TLS_AGENT, .name = "h1", .now = keys_made, .days = TEST_DAYS};
  struct by_text own, list;
  struct by_tls_identity *signer;
  struct by_stated stated;
  uint64_t before = by_refusals(BY_REFUSED_CERTIFICATE);
  assert_ok(by_certificate_make(&authorities[0], &request, &own));
  const char *revoked = by_text_get(&own);
  assert_ok(by_tls_identity_make(by_text_get(&authorities[0].certificate), NULL, revoked, &signer));
  struct shown shown = signed_by(signer, "h1");
  assert_ok(by_statement_check(shown.bytes, shown.length, nobody, &right, now, &stated));
  assert_int_equal(stated.until, keys_made + TEST_DAYS * TEST_DAY);
  assert_ok(by_stated_judge(&stated, nobody, now));
  assert_ok(by_revocation_list_make(&authorities[0], NULL, &revoked, 1, keys_made, &list));
  struct by_tls_identity *informed = judge_of(0, by_text_get(&list));
  assert_status(by_stated_judge(&stated, informed, now), BANYAN_ERR_AUTH);
  assert_non_null(strstr(banyan_error_text(), "(agent h1) was revoked"));
  assert_status(by_stated_judge(&stated, nobody, now + (TEST_DAYS + 1) * (uint64_t)TEST_DAY), BANYAN_ERR_AUTH);
  assert_int_equal(by_refusals(BY_REFUSED_CERTIFICATE), before + 2);
  assert_ok(by_stated_judge(&stated, nobody, now));
  by_tls_identity_destroy(informed);
  by_tls_identity_destroy(signer);
  by_certificate_wipe(&own);
  by_text_fini(&list);
  by_stated_fini(&stated);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_believed), cmocka_unit_test(test_other_claims), cmocka_unit_test(test_times),
      cmocka_unit_test(test_long_statements),  cmocka_unit_test(test_signers),      cmocka_unit_test(test_altered),
      cmocka_unit_test(test_revoked_later),
  };
  return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
