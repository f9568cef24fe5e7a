/* Policies of hosts: an arbitrary text. What is accepted says the same with a further comment. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char comment[] = "\n# encrypt never\n";
  struct by_policy policy, again;
  char *text = malloc(size + sizeof comment);
  if (!text) abort();
  memcpy(text, data, size);
  text[size] = 0;
  if (by_policy_parse(text, &policy) == BANYAN_OK) {
    strcat(text, comment);
    assert(by_policy_parse(text, &again) == BANYAN_OK && policy.encryption_required == again.encryption_required);
  }
  free(text);
  return 0;
}
