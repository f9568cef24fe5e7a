/* Statements of agents. The lowest bit of the first byte selects what is read: the rest of the input unchanged; or an
 * honest statement that the rest alters: the first byte of that says how much is cut off, and then pairs of bytes say
 * how many bytes to leave, and a value to XOR with the next one. Keys are made at the start, so an input does not
 * always meet the same bytes. Nothing but the honest statement is believed. */
#include "statement.h"

#include <stdlib.h>
#include <string.h>

#include "tls_keys.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define JOB "0123456789abcdef0123456789abcdef"

static const struct by_fingerprint process = {{7}};
static struct by_tls_identity *agent;
static uint8_t honest[BY_STATEMENT_MAX];
static size_t honest_length;

static void make_honest(void) {
  struct by_statement statement = {.job = JOB, .host = "h1", .process = process, .user = 1000};
  if (agent) return;
  make_authorities();
  agent = identity_of(0, BY_TLS_AGENT, "h1");
  must(by_statement_sign(agent, &statement, (uint64_t)keys_made, honest, &honest_length));
}

static size_t alter(uint8_t *bytes, const uint8_t *data, size_t size) {
  size_t length = honest_length - (size ? data[0] : 0);
  memcpy(bytes, honest, honest_length);
  for (size_t i = 1, at = 0; i + 1 < size; i += 2) {
    at += data[i];
    if (at < length) bytes[at++] ^= data[i + 1];
  }
  return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_statement_claim claim = {.job = JOB, .host = "h1", .process = &process};
  struct by_statement read;
  struct by_stated stated;
  if (!size) return 0;
  make_honest();
  bool raw = data[0] & 1;
  size_t length = raw ? size - 1 : honest_length;
  uint8_t *bytes = malloc(length + 1); /* as long as it is, so that reading on is noticed */
  assert(bytes);
  if (raw)
    memcpy(bytes, data + 1, length);
  else
    length = alter(bytes, data + 1, size - 1);
  uint8_t *exact = realloc(bytes, length + !length);
  assert(exact);
  bool same = length == honest_length && !memcmp(exact, honest, length);
  if (by_statement_read(exact, length, &read) == BANYAN_OK)
    assert(strlen(read.job) == BY_STATEMENT_JOB && strlen(read.host) < BY_TLS_NAME);
  enum banyan_status status = by_statement_check(exact, length, agent, &claim, (uint64_t)keys_made, &stated);
  assert((status == BANYAN_OK) == same && (status == BANYAN_OK) == (stated.certificate != NULL));
  by_stated_fini(&stated);
  free(exact);
  return 0;
}
