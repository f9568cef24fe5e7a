/* Keys of jobs: makes, parses, replaces, reads and shares them; and the tickets of helpers and servers. */
#include "job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"
#include "descriptor.h"
#include "file.h"
#include "refusal.h"
#include "text.h"

enum { BYTES = 32, IDENTIFIER = 4, MAX_FILE = 4096, DIGITS_AT = 11, IDENTIFIER_AT = DIGITS_AT + 2 * BYTES + 1 };

static const char prefix[] = "banyan_key_", digits[] = "0123456789abcdef";

static enum banyan_status crypto_failed(void) {
  return by_fail(BANYAN_ERR_SYSTEM, "OpenSSL failed; is its installation complete?");
}

enum banyan_status by_key_derive(const char *text, struct by_key *out) {
  bool done = EVP_Digest(text, strlen(text), out->bytes, NULL, EVP_sha256(), NULL) == 1;
  return done ? BANYAN_OK : crypto_failed();
}

enum banyan_status by_key_hash(const struct by_key *key, const char *text, struct by_key *out) {
  const uint8_t *bytes = (const uint8_t *)text;
  bool done = HMAC(EVP_sha256(), key->bytes, sizeof key->bytes, bytes, strlen(text), out->bytes, NULL);
  return done ? BANYAN_OK : crypto_failed();
}

enum banyan_status by_key_random(char *out) {
  uint8_t bytes[(BY_KEY_TEXT - 1) / 2];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return crypto_failed();
  by_print_hex(bytes, sizeof bytes, out);
  OPENSSL_cleanse(bytes, sizeof bytes);
  return BANYAN_OK;
}

/* The 8 digits of the identifier of a key, whose digits are at `key`. */
static enum banyan_status identify_key(const char *key, char *out) {
  char text[sizeof prefix - 1 + 2 * BYTES];
  uint8_t hash[EVP_MAX_MD_SIZE];
  memcpy(text, prefix, sizeof prefix - 1);
  memcpy(text + sizeof prefix - 1, key, 2 * BYTES);
  int done = EVP_Digest(text, sizeof text, hash, NULL, EVP_sha256(), NULL);
  OPENSSL_cleanse(text, sizeof text);
  if (done != 1) return crypto_failed();
  by_print_hex(hash, IDENTIFIER, out);
  return BANYAN_OK;
}

enum banyan_status by_job_key_create(char *out) {
  uint8_t bytes[BYTES];
  if (RAND_bytes(bytes, sizeof bytes) != 1)
    return by_fail(BANYAN_ERR_SYSTEM, "the system has no randomness for the job's key");
  strcpy(out, prefix);
  by_print_hex(bytes, sizeof bytes, out + DIGITS_AT);
  OPENSSL_cleanse(bytes, sizeof bytes);
  out[IDENTIFIER_AT - 1] = '_';
  return identify_key(out + DIGITS_AT, out + IDENTIFIER_AT);
}

static bool is_generated(const char *text) {
  return strlen(text) == BY_JOB_KEY_TEXT - 1 && !strncmp(text, prefix, sizeof prefix - 1) &&
         strspn(text + DIGITS_AT, digits) == 2 * BYTES && text[IDENTIFIER_AT - 1] == '_' &&
         strspn(text + IDENTIFIER_AT, digits) == 2 * IDENTIFIER;
}

static enum banyan_status refuse_key(void) {
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "the job's key is not a generated one: others could guess it from a recorded connection. Generate a "
                 "key with `banyan keys job FILE`, and set BANYAN_KEY_FILE=FILE in all processes");
}

static enum banyan_status check_one(const char *text) {
  char identifier[2 * IDENTIFIER + 1];
  if (!is_generated(text)) return refuse_key();
  BY_TRY(identify_key(text + DIGITS_AT, identifier));
  if (!strcmp(identifier, text + IDENTIFIER_AT)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "the job's key is damaged, as its last %d digits show: copy it again from `banyan keys job`",
                 2 * IDENTIFIER);
}

/* ---- keys in place of others */

/* The name of a job whose key has not been replaced. No key is computed from it. */
static enum banyan_status name_job(const char *key, uint8_t *out) {
  static const char label[] = "banyan job";
  if (HMAC(EVP_sha256(), key, (int)strlen(key), (const uint8_t *)label, strlen(label), out, NULL)) return BANYAN_OK;
  return crypto_failed();
}

/* Offsets of the parts behind a key in its text. */
enum { JOB_AT = BY_JOB_KEY_TEXT - 1, OLD_AT = JOB_AT + 5 + 2 * BYTES, UNTIL_AT = OLD_AT + 5 + BY_JOB_KEY_TEXT - 1 };
static const char until_format[] = " until %Y-%m-%dT%H:%M:%SZ";

static enum banyan_status split_key(const char *text, struct by_job_key *out) {
  struct tm until = {0};
  const char *end = NULL;
  if (strlen(text) >= BY_JOB_KEY_MAX) return refuse_key();
  memcpy(out->now, text, strnlen(text, sizeof out->now - 1)); /* `out` is all zeros. */
  BY_TRY(check_one(out->now));
  if (!text[JOB_AT]) return name_job(out->now, out->job);
  bool named =
      strlen(text) >= OLD_AT && !strncmp(text + JOB_AT, " job ", 5) && by_parse_hex(text + JOB_AT + 5, BYTES, out->job);
  if (named && !text[OLD_AT]) return BANYAN_OK;
  bool whole = named && strlen(text) > UNTIL_AT && !strncmp(text + OLD_AT, " old ", 5);
  if (whole) end = strptime(text + UNTIL_AT, until_format, &until);
  if (!whole || !end || *end)
    return by_fail(BANYAN_ERR_ARGUMENT, "what follows the job's key is damaged: write it by `banyan keys rotate` only");
  memcpy(out->old, text + OLD_AT + 5, BY_JOB_KEY_TEXT - 1);
  out->old[BY_JOB_KEY_TEXT - 1] = '\0';
  out->until = timegm(&until);
  return check_one(out->old);
}

enum banyan_status by_job_key_split(const char *text, struct by_job_key *out) {
  *out = (struct by_job_key){.now = ""};
  return split_key(text, out);
}

static enum banyan_status print_key(const struct by_job_key *key, char *out) {
  char time[32];
  struct tm until;
  time_t seconds = (time_t)key->until;
  if (!gmtime_r(&seconds, &until) || !strftime(time, sizeof time, until_format, &until))
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no such time");
  strcpy(out, key->now);
  strcpy(out + JOB_AT, " job ");
  by_print_hex(key->job, sizeof key->job, out + JOB_AT + 5);
  int n = snprintf(out + OLD_AT, BY_JOB_KEY_MAX - OLD_AT, " old %s%s", key->old, time);
  return n < BY_JOB_KEY_MAX - OLD_AT ? by_job_key_check(out) : by_fail(BANYAN_ERR_ARGUMENT, "there is no such time");
}

enum banyan_status by_job_key_rotate(const char *text, int64_t now, int64_t until, char *out) {
  struct by_job_key key;
  enum banyan_status status = by_job_key_split(text, &key);
  if (status == BANYAN_OK && key.old[0] && key.until > now)
    status = by_fail(BANYAN_ERR_ARGUMENT,
                     "the key before this one is accepted for another %lld s, and processes may have no other one yet: "
                     "wait for that",
                     (long long)(key.until - now));
  if (status == BANYAN_OK) {
    memcpy(key.old, key.now, sizeof key.old);
    key.until = until;
    status = by_job_key_create(key.now);
  }
  if (status == BANYAN_OK) status = print_key(&key, out);
  OPENSSL_cleanse(&key, sizeof key);
  return status;
}

bool by_job_key_drop_ended(char *text, int64_t now) {
  struct by_job_key key;
  bool ended = by_job_key_split(text, &key) == BANYAN_OK && key.old[0] && key.until <= now;
  OPENSSL_cleanse(&key, sizeof key);
  if (ended) OPENSSL_cleanse(text + OLD_AT, strlen(text + OLD_AT));
  return ended;
}

enum banyan_status by_job_key_check(const char *text) {
  struct by_job_key key;
  enum banyan_status status = by_job_key_split(text, &key);
  OPENSSL_cleanse(&key, sizeof key);
  return status;
}

enum banyan_status by_switch_secret_check(const char *where, const char *text) {
  if (check_one(text) == BANYAN_OK) return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT,
                 "%s: this secret of switches was not generated, or is damaged; others could guess one from a recorded "
                 "connection. `banyan keys job FILE` generates one, for switches and jobs",
                 where);
}

/* ---- files */

enum banyan_status by_job_key_parse(const char *text, size_t length, char *out) {
  bool found = false;
  for (const char *line = text, *end = text + length, *next; line < end; line = next + 1) {
    next = memchr(line, '\n', (size_t)(end - line));
    if (!next) next = end;
    size_t n = (size_t)(next - line);
    if (n && line[n - 1] == '\r') n--;
    if (!n || *line == '#') continue;
    if (found) return by_fail(BANYAN_ERR_PARSE, "there is more than one line with a key");
    if (n >= BY_JOB_KEY_MAX || memchr(line, '\0', n)) return refuse_key();
    memcpy(out, line, n);
    out[n] = '\0';
    found = true;
  }
  if (!found) return by_fail(BANYAN_ERR_PARSE, "there is no key; generate one with `banyan keys job FILE`");
  struct by_ticket ticket;
  if (!by_ticket_is_text(out)) return by_job_key_check(out);
  enum banyan_status status = by_ticket_parse(out, &ticket);
  OPENSSL_cleanse(&ticket, sizeof ticket);
  return status;
}

enum banyan_status by_job_key_read(const char *path, char *out) {
  char text[MAX_FILE + 1];
  size_t length;
  enum banyan_status status = by_secret_file_read(path, text, sizeof text, &length);
  if (status == BANYAN_OK) status = by_job_key_parse(text, length, out);
  OPENSSL_cleanse(text, sizeof text);
  return status == BANYAN_OK ? status : by_fail_within(status, "key file %s", path);
}

enum banyan_status by_switch_secret_read(const char *path, char *out) {
  enum banyan_status status = by_job_key_read(path, out);
  /* The reason describes the key of a job. */
  return status == BANYAN_OK || status == BANYAN_ERR_ARGUMENT ? by_switch_secret_check(path, out) : status;
}

enum banyan_status by_job_key_share(const char *text, int *fd) {
  size_t length = strlen(text);
  *fd = BY_DESCRIPTOR(memfd_create("banyan-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  bool made = *fd >= 0 && write(*fd, text, length) == (ssize_t)length && !fchmod(*fd, 0400) &&
              !fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  if (made) return BANYAN_OK;
  int reason = errno;
  if (*fd >= 0) by_close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot keep the job's key in memory");
}

/* ---- tickets */

enum { AT_EXPIRY = 0, AT_NUMBER = 8, AT_SUBJECT = 16, SUBJECT = 32, HEX = 2 * (BY_TICKET_HEAD + 32) };

_Static_assert(BY_TICKET_TEXT == sizeof BY_TICKET_PREFIX + HEX, "a ticket's text");
_Static_assert(BY_TICKET_TEXT <= BY_JOB_KEY_MAX, "a file of a key has room for a ticket");
_Static_assert(AT_SUBJECT + SUBJECT == BY_TICKET_HEAD, "a ticket's head");

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
