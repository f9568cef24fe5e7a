#include "cache_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool by_cache_folder(const char *given, char *out, size_t room) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = -1;
  if (given && *given)
    length = strcmp(given, "off") == 0 ? -1 : snprintf(out, room, "%s", given);
  else if (cache && *cache == '/')
    length = snprintf(out, room, "%s/banyan", cache);
  else if (home && *home == '/')
    length = snprintf(out, room, "%s/.cache/banyan", home);
  return length >= 0 && (size_t)length < room;
}
