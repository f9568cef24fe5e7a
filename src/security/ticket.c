/* Tickets of helpers and servers: derives their keys, issues, parses and checks them. */
#include "ticket.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "refusal.h"
#include "text.h"

enum { AT_EXPIRY = 0, AT_NUMBER = 8, AT_SUBJECT = 16, SUBJECT = 32, HEX = 2 * (BY_TICKET_HEAD + 32) };

_Static_assert(BY_TICKET_TEXT == sizeof BY_TICKET_PREFIX + HEX, "a ticket's text");
_Static_assert(BY_TICKET_TEXT <= BY_JOB_KEY_MAX, "a file of a key has room for a ticket");
_Static_assert(AT_SUBJECT + SUBJECT == BY_TICKET_HEAD, "a ticket's head");

static const char digits[] = "0123456789abcdef";

static enum banyan_status crypto_failed(void) {
  return by_fail(BANYAN_ERR_SYSTEM, "OpenSSL failed; is its installation complete?");
}

enum banyan_status by_ticket_key_derive(const char *job_key, char *out) {
  static const char label[] = "banyan helpers and servers";
  struct by_job_key parts;
  struct by_key key = {{0}}, derived = {{0}};
  enum banyan_status status = by_job_key_split(job_key, &parts);
  if (status == BANYAN_OK) status = by_key_derive(parts.now, &key);
  if (status == BANYAN_OK && !HMAC(EVP_sha256(), key.bytes, sizeof key.bytes, (const unsigned char *)label,
                                   strlen(label), derived.bytes, NULL))
    status = crypto_failed();
  strcpy(out, BY_TICKET_KEY_PREFIX);
  by_print_hex(derived.bytes, sizeof derived.bytes, out + strlen(BY_TICKET_KEY_PREFIX));
  OPENSSL_cleanse(&parts, sizeof parts);
  OPENSSL_cleanse(&key, sizeof key);
  OPENSSL_cleanse(&derived, sizeof derived);
  return status;
}

static bool hash_subject(const struct by_ticket_subject *subject, uint8_t *out) {
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool done =
      hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 && EVP_DigestUpdate(hash, &subject->kind, 1) == 1 &&
      EVP_DigestUpdate(hash, subject->name, strlen(subject->name)) == 1 && EVP_DigestFinal_ex(hash, out, NULL) == 1;
  EVP_MD_CTX_free(hash);
  return done;
}

enum banyan_status by_ticket_prove(const struct by_key *parent, const uint8_t *head, struct by_key *out) {
  static const char label[16] = "banyan ticket";
  uint8_t text[sizeof label + BY_TICKET_HEAD];
  memcpy(text, label, sizeof label);
  memcpy(text + sizeof label, head, BY_TICKET_HEAD);
  bool made = HMAC(EVP_sha256(), parent->bytes, sizeof parent->bytes, text, sizeof text, out->bytes, NULL);
  return made ? BANYAN_OK : crypto_failed();
}

enum banyan_status by_ticket_begin(const struct by_ticket_subject *subject, uint64_t expires, uint8_t *out) {
  by_put_u64(out + AT_EXPIRY, expires);
  if (RAND_bytes(out + AT_NUMBER, AT_SUBJECT - AT_NUMBER) != 1 || !hash_subject(subject, out + AT_SUBJECT))
    return crypto_failed();
  return BANYAN_OK;
}

enum banyan_status by_ticket_begin_links(const struct by_ticket_subject *subject, uint32_t process, uint8_t *out) {
  by_put_u64(out + AT_EXPIRY, BY_TICKET_NEVER);
  by_put_u64(out + AT_NUMBER, process);
  return hash_subject(subject, out + AT_SUBJECT) ? BANYAN_OK : crypto_failed();
}

enum banyan_status by_ticket_issue(const struct by_key *ticket_key, const struct by_ticket_subject *subject,
                                   uint64_t expires, char *out) {
  struct by_ticket ticket;
  BY_TRY(by_ticket_begin(subject, expires, ticket.head));
  enum banyan_status status = by_ticket_prove(ticket_key, ticket.head, &ticket.secret);
  if (status == BANYAN_OK) by_ticket_print(&ticket, out);
  OPENSSL_cleanse(&ticket, sizeof ticket);
  return status;
}

void by_ticket_print(const struct by_ticket *ticket, char *out) {
  strcpy(out, BY_TICKET_PREFIX);
  by_print_hex(ticket->head, sizeof ticket->head, out + strlen(BY_TICKET_PREFIX));
  by_print_hex(ticket->secret.bytes, sizeof ticket->secret.bytes,
               out + strlen(BY_TICKET_PREFIX) + 2 * sizeof ticket->head);
}

bool by_ticket_is_text(const char *text) {
  return strncmp(text, BY_TICKET_PREFIX, strlen(BY_TICKET_PREFIX)) == 0;
}

enum banyan_status by_ticket_parse(const char *text, struct by_ticket *out) {
  const char *at = text + strlen(BY_TICKET_PREFIX);
  if (!by_ticket_is_text(text) || strspn(at, digits) != HEX || at[HEX])
    return by_fail(BANYAN_ERR_ARGUMENT, "the ticket is damaged: there are %d hexadecimal digits behind \"%s\"", HEX,
                   BY_TICKET_PREFIX);
  (void)by_parse_hex(at, BY_TICKET_HEAD, out->head);
  (void)by_parse_hex(at + (size_t)2 * BY_TICKET_HEAD, sizeof out->secret.bytes, out->secret.bytes);
  return BANYAN_OK;
}

bool by_ticket_is_for(const uint8_t *head, const struct by_ticket_subject *subject) {
  uint8_t expected[SUBJECT];
  return hash_subject(subject, expected) && memcmp(expected, head + AT_SUBJECT, SUBJECT) == 0;
}

enum banyan_status by_ticket_check(const uint8_t *head, const struct by_ticket_subject *subject, uint64_t now) {
  uint64_t expires = by_get_u64(head + AT_EXPIRY);
  if (!by_ticket_is_for(head, subject))
    return by_refuse(BY_REFUSED_IDENTITY, BANYAN_ERR_AUTH, "the ticket of another helper or server than %s",
                     subject->name);
  if (now <= expires) return BANYAN_OK;
  return by_refuse(
      BY_REFUSED_EXPIRED, BANYAN_ERR_AUTH,
      "a ticket that expired %llu s ago: was it issued more than %d s before that, or do the clocks of the "
      "hosts differ?",
      (unsigned long long)(now - expires), BY_TICKET_SECONDS);
}
