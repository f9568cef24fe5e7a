/* The text of a key file. What is accepted must be a whole key that stands in the text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job_key.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_job_key parts;
  char key[BY_JOB_KEY_MAX], *text = calloc(1, size + 1), *exact = malloc(size + !size);
  assert(text && exact);
  if (size) memcpy(text, data, size);
  if (size) memcpy(exact, data, size); /* without a NUL, so that reading on is noticed */
  if (by_job_key_parse(exact, size, key) == BANYAN_OK) {
    assert(strlen(key) < sizeof key && memmem(text, size, key, strlen(key)));
    struct by_ticket ticket;
    assert((by_ticket_is_text(key) ? by_ticket_parse(key, &ticket) : by_job_key_check(key)) == BANYAN_OK);
  }
  if (by_job_key_split(text, &parts) == BANYAN_OK) {
    assert(memmem(text, size, parts.now, strlen(parts.now)) && memmem(text, size, parts.old, strlen(parts.old)));
    assert(by_job_key_check(parts.now) == BANYAN_OK && (!parts.old[0] || by_job_key_check(parts.old) == BANYAN_OK));
  }
  free(exact);
  free(text);
  return 0;
}
