/* The folder of measurements: finds it, and writes its files. */
#include "cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"

enum { MAX_PATH = 4096 };

bool by_cache_folder(const char *given, char *out, size_t capacity) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = -1;
  if (given && *given)
    length = strcmp(given, "off") == 0 ? -1 : snprintf(out, capacity, "%s", given);
  else if (cache && *cache == '/')
    length = snprintf(out, capacity, "%s/banyan", cache);
  else if (home && *home == '/')
    length = snprintf(out, capacity, "%s/.cache/banyan", home);
  return length >= 0 && (size_t)length < capacity;
}

double by_cache_date(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Makes all folders of a path. `path` is unchanged afterwards. */
static enum banyan_status make_folders(char *path) {
  for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
    *at = '\0';
    bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    if (!made) (void)by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make the folder %s", path);
    *at = '/';
    if (!made) return BANYAN_ERR_SYSTEM;
  }
  return BANYAN_OK;
}

enum banyan_status by_cache_write(const char *path, const char *text, size_t length) {
  char draft[MAX_PATH + 8];
  if (!*path || (size_t)snprintf(draft, sizeof draft, "%s.XXXXXX", path) >= sizeof draft)
    return by_fail(BANYAN_ERR_ARGUMENT, "the path of a file to keep is empty or too long");
  BY_TRY(make_folders(draft));
  int fd = BY_DESCRIPTOR(mkostemp(draft, O_CLOEXEC));
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make %s", draft);
  bool written = write(fd, text, length) == (ssize_t)length;
  int error = errno;
  by_close(fd); /* If it is incomplete then, its reader notices. */
  if (written && rename(draft, path) == 0) return BANYAN_OK;
  if (written) error = errno;
  unlink(draft);
  return by_fail_errno(BANYAN_ERR_SYSTEM, error, "cannot write %s", path);
}
