/* Prints and parses handles, by which processes that form a membership name and reach each other. */
#include "handle.h"

#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define SCHEME "banyan2:"

enum {
  TAG = 8,
  HEAD = BY_FINGERPRINT_BYTES + TAG,
  MOST_BYTES = (BY_HANDLE_MOST - sizeof SCHEME) / 4 * 3,
};

/* ---- base64url, RFC 4648: OpenSSL's base64 with two other characters and without padding */

static void exchange(char *text, const char *from, const char *to) {
  for (; *text; text++) {
    const char *at = strchr(from, *text);
    if (at) *text = to[at - from];
  }
}

static void encode(const uint8_t *bytes, size_t n, char *out) {
  int length = EVP_EncodeBlock((unsigned char *)out, bytes, (int)n);
  while (length > 0 && out[length - 1] == '=') length--;
  out[length] = 0;
  exchange(out, "+/", "-_");
}

/* Whether `length` characters are base64url. */
static bool is_encoded(const char *text, size_t length) {
  static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  return length % 4 != 1 && strspn(text, all) == length;
}

/* Decodes `text` and returns the number of bytes; 0 if it is malformed or not as encode() writes it. `text` has at most
 * BY_HANDLE_MOST - 1 characters, and `out` holds 3 bytes for each 4 characters. */
static size_t decode(const char *text, uint8_t *out) {
  char padded[BY_HANDLE_MOST + 4], again[BY_HANDLE_MOST + 4];
  size_t length = strlen(text), padding = (4 - length % 4) % 4;
  if (!is_encoded(text, length)) return 0;
  snprintf(padded, sizeof padded, "%s%.*s", text, (int)padding, "===");
  exchange(padded, "-_", "+/");
  int n = EVP_DecodeBlock(out, (const unsigned char *)padded, (int)(length + padding));
  if (n < (int)padding) return 0;
  encode(out, (size_t)n - padding, again);
  return strcmp(text, again) ? 0 : (size_t)n - padding;
}

/* ---- the tag */

/* Computes the tag over the bytes without their tag, which follows the fingerprint. */
static enum banyan_status make_tag(const struct by_key *key, const uint8_t *bytes, size_t n, uint8_t *tag) {
  static const char label[] = "banyan handle 2";
  uint8_t all[sizeof label + MOST_BYTES], digest[EVP_MAX_MD_SIZE];
  size_t at = sizeof label;
  memcpy(all, label, sizeof label);
  memcpy(all + at, bytes, BY_FINGERPRINT_BYTES);
  memcpy(all + at + BY_FINGERPRINT_BYTES, bytes + HEAD, n - HEAD);
  if (!HMAC(EVP_sha256(), key->bytes, sizeof key->bytes, all, at + n - TAG, digest, NULL))
    return by_fail(BANYAN_ERR_SYSTEM, "HMAC-SHA256 does not work");
  memcpy(tag, digest, TAG);
  return BANYAN_OK;
}

enum banyan_status by_handle_print(const struct by_key *key, const struct by_handle *handle, char *out) {
  uint8_t bytes[MOST_BYTES];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_bytes(&writer, handle->fingerprint.bytes, BY_FINGERPRINT_BYTES);
  by_write_bytes(&writer, (const uint8_t[TAG]){0}, TAG);
  by_write_u32(&writer, handle->service_port);
  by_member_write_described(&writer, &handle->member);
  if (writer.failed)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "the handle of this process would have more than %d characters, with %u addresses: set BANYAN_IFACE "
                   "to those that others can reach",
                   BY_HANDLE_MOST - 1, handle->member.n_addresses);
  BY_TRY(make_tag(key, bytes, writer.length, bytes + BY_FINGERPRINT_BYTES));
  strcpy(out, SCHEME);
  encode(bytes, writer.length, out + strlen(SCHEME));
  return BANYAN_OK;
}

static enum banyan_status is_no_handle(const char *text) {
  if (!strncmp(text, "banyan", strlen("banyan")) && text[strlen("banyan")] && text[strlen("banyan") + 1] == ':' &&
      strncmp(text, SCHEME, strlen(SCHEME)))
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "the handle \"%.40s...\" is of another version of Banyan, handles of this one begin with \"" SCHEME
                   "\": use one version in all processes",
                   text);
  return by_fail(BANYAN_ERR_ARGUMENT, "\"%.40s%s\" is not the handle of a process", text,
                 strlen(text) > 40 ? "..." : "");
}

enum banyan_status by_handle_parse(const struct by_key *key, const char *text, struct by_arena *arena,
                                   struct by_handle *out) {
  uint8_t bytes[BY_HANDLE_MOST], tag[TAG];
  struct by_reader reader;
  *out = (struct by_handle){0};
  if (strncmp(text, SCHEME, strlen(SCHEME)) || strnlen(text, BY_HANDLE_MOST) == BY_HANDLE_MOST)
    return is_no_handle(text);
  size_t n = decode(text + strlen(SCHEME), bytes);
  if (n <= HEAD || n > MOST_BYTES) return is_no_handle(text);
  BY_TRY(make_tag(key, bytes, n, tag));
  if (CRYPTO_memcmp(tag, bytes + BY_FINGERPRINT_BYTES, TAG))
    return by_fail(BANYAN_ERR_ARGUMENT, "the handle \"%.40s...\" was damaged, or belongs to a job with another key",
                   text);
  memcpy(out->fingerprint.bytes, bytes, BY_FINGERPRINT_BYTES);
  by_reader_init(&reader, bytes + HEAD, n - HEAD);
  out->service_port = by_read_u32(&reader);
  reader.failed |= !out->service_port || out->service_port > UINT16_MAX;
  BY_TRY(by_member_read_described(&reader, arena, &out->member));
  return by_reader_check(&reader, "a handle");
}
