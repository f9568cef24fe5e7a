#include "repeats.h"

#include <string.h>

/* FNV-1a: it need not withstand anybody, as a text that is taken for another one is only not logged. */
static uint64_t add(uint64_t hash, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
  return hash;
}

bool by_repeats_take(struct by_repeats *repeats, const char *place, size_t length, const char *text, double now) {
  uint64_t hash = add(add(0xcbf29ce484222325, place, length), text, strlen(text));
  struct by_repeat *oldest = repeats->latest;
  for (struct by_repeat *one = repeats->latest; one < repeats->latest + BY_REPEATS; one++) {
    if (one->hash == hash && one->until > now) return false;
    if (one->until < oldest->until) oldest = one;
  }
  *oldest = (struct by_repeat){hash, now + BY_REPEATS_SECONDS};
  return true;
}
