#include "repeats.h"

#include <math.h>
#include <string.h>

#include "log.h"

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

static bool has_room(struct by_repeats *repeats, double now) {
  if (now >= repeats->minute) {
    repeats->minute = now + BY_REPEATS_SECONDS;
    repeats->lines = 0;
  }
  return repeats->lines < BY_REPEATS_LINES;
}

void by_repeats_warn(struct by_repeats *repeats, const char *module, const char *peer, const char *text, double now) {
  const char *port = strrchr(peer, ':');
  size_t whole = strlen(peer), host = port ? (size_t)(port - peer) : whole;
  bool named = strncmp(text, peer, whole) == 0;
  if (!has_room(repeats, now) || !by_repeats_take(repeats, peer, host, named ? text + whole : text, now)) {
    repeats->omitted++;
    return;
  }
  repeats->lines++;
  by_repeats_flush(repeats, module, INFINITY);
  by_warn(module, "%s%s%s", named ? "" : peer, named ? "" : ": ", text);
}

void by_repeats_flush(struct by_repeats *repeats, const char *module, double now) {
  if (!repeats->omitted || now < repeats->minute) return;
  by_warn(module, "%llu further connections were rejected without a line in this log",
          (unsigned long long)repeats->omitted);
  repeats->omitted = 0;
}
