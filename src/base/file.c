#include "file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_ROOM = 65536 };

/* False: memory is out. A read error is left in `file`. */
static bool read_all(FILE *file, size_t most, char **text, size_t *length) {
  for (size_t room = 0, n = 1; n > 0 && *length <= most; *length += n) {
    if (*length == room) {
      char *more = realloc(*text, room = room ? 2 * room : FIRST_ROOM);
      if (!more) return false;
      *text = more;
    }
    size_t wanted = room - *length;
    n = fread(*text + *length, 1, wanted <= most + 1 - *length ? wanted : most + 1 - *length, file);
  }
  return true;
}

enum banyan_status by_read_file(const char *what, const char *path, size_t most, char **text, size_t *length) {
  FILE *file = fopen(path, "rbe");
  if (!file) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s %s", what, path);
  *text = NULL;
  *length = 0;
  bool held = read_all(file, most, text, length);
  bool bad = ferror(file);
  int why = errno;
  fclose(file);
  if (held && !bad) return BANYAN_OK;
  free(*text);
  *text = NULL;
  if (!held) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %s %s", what, path);
  return by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot read %s %s", what, path);
}
