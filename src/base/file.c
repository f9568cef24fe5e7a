/* Reads files of text, trusted files and secrets, and writes the files of the cache. A file is checked after it is
 * opened, so that it cannot be replaced in between. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "descriptor.h"

enum { FIRST_CAPACITY = 65536, MAX_PATH = 4096 };

/* ---- text */

/* Returns false if memory is out. A read error is left in `file`. */
static bool read_all(FILE *file, size_t max, char **text, size_t *length) {
  for (size_t capacity = 0, n = 1; n > 0 && *length <= max; *length += n) {
    size_t need = MAX(*length + 2, (size_t)FIRST_CAPACITY); /* Including a NUL. */
    if (!by_array_grow((void **)text, &capacity, need, 1)) return false;
    size_t wanted = capacity - 1 - *length;
    n = fread(*text + *length, 1, wanted <= max + 1 - *length ? wanted : max + 1 - *length, file);
    (*text)[*length + n] = '\0';
  }
  return true;
}

static enum banyan_status check_no_nul(const char *text, size_t length) {
  const char *nul = memchr(text, 0, length);
  size_t line = 1;
  if (!nul) return BANYAN_OK;
  for (const char *c = text; c < nul; c++) line += *c == '\n';
  return by_fail(BANYAN_ERR_PARSE, "line %zu has a NUL byte: this is not a text file, or it is damaged", line);
}

/* Whether a text is in UTF-16, as XML may be. No other text begins with these bytes, so all other readers refuse it
 * at once. */
static bool is_utf16(const char *text, size_t length) {
  return length >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}

/* Reads an open file and closes it, but at most `max` + 1 bytes. NUL bytes are read, too. */
static enum banyan_status read_stream(const char *what, const char *path, FILE *file, size_t max, char **text,
                                      size_t *length) {
  *text = NULL;
  *length = 0;
  bool held = read_all(file, max, text, length);
  bool bad = ferror(file);
  int why = errno;
  fclose(file);
  if (held && !bad) return BANYAN_OK;
  free(*text);
  *text = NULL;
  return held ? by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot read %s %s", what, path)
              : by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %s %s", what, path);
}

enum banyan_status by_read_file(const char *what, const char *path, size_t max, char **text, size_t *length) {
  FILE *file = fopen(path, "rbe");
  if (!file) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s %s", what, path);
  BY_TRY(read_stream(what, path, file, max, text, length));
  enum banyan_status status = BANYAN_OK;
  if (*length > max)
    status = by_fail(BANYAN_ERR_PARSE, "%s %s is too large: at most %zu bytes", what, path, max);
  else if (!is_utf16(*text, *length) && (status = check_no_nul(*text, *length)) != BANYAN_OK)
    status = by_fail_within(status, "%s", path);
  if (status == BANYAN_OK) return BANYAN_OK;
  free(*text);
  *text = NULL;
  return status;
}

/* ---- trusted files */

enum banyan_status by_trusted_check(const char *what, const char *path, const struct stat *about) {
  if (about->st_uid != geteuid() && about->st_uid != 0)
    return by_fail(BANYAN_ERR_AUTH, "%s %s belongs to user %u, who may have changed it: use a file of user %u or root",
                   what, path, (unsigned)about->st_uid, (unsigned)geteuid());
  if (about->st_mode & (S_IWGRP | S_IWOTH))
    return by_fail(BANYAN_ERR_AUTH,
                   "others may write to %s %s (mode %03o): remove it, or run `chmod go-w` on it if they have not", what,
                   path, (unsigned)about->st_mode & 0777);
  return BANYAN_OK;
}

static enum banyan_status check_open(const char *what, const char *path, FILE *file) {
  struct stat about;
  if (fstat(fileno(file), &about)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s %s", what, path);
  if (!S_ISREG(about.st_mode)) return by_fail(BANYAN_ERR_SYSTEM, "%s %s is not a file", what, path);
  return by_trusted_check(what, path, &about);
}

enum banyan_status by_trusted_read(const char *what, const char *path, size_t max, char **text, size_t *length) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "rb");
  *text = NULL;
  *length = 0;
  if (!file) {
    enum banyan_status status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s %s", what, path);
    if (fd >= 0) by_close(fd);
    return status;
  }
  enum banyan_status status = check_open(what, path, file);
  if (status == BANYAN_OK) return read_stream(what, path, file, max, text, length);
  fclose(file);
  return status;
}

/* ---- secrets */

static enum banyan_status check_secret(int fd) {
  struct stat file;
  if (fstat(fd, &file)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read it");
  if (!S_ISREG(file.st_mode)) return by_fail(BANYAN_ERR_ARGUMENT, "this is not a file");
  if (file.st_uid != geteuid() && file.st_uid != 0)
    return by_fail(BANYAN_ERR_AUTH,
                   "user %u owns this file, and could read and replace the key; copy it to a file of user %u",
                   (unsigned)file.st_uid, (unsigned)geteuid());
  if (file.st_mode & 077)
    return by_fail(BANYAN_ERR_AUTH,
                   "others may read or change this key (mode %03o): run `chmod 600` on it, and make another one if "
                   "they could have read it",
                   (unsigned)file.st_mode & 0777);
  return BANYAN_OK;
}

static enum banyan_status read_secret(int fd, char *text, size_t size, size_t *length) {
  ssize_t n = 0;
  BY_TRY(check_secret(fd));
  while (*length < size && (n = read(fd, text + *length, size - *length)) > 0) *length += (size_t)n;
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read it");
  if (*length == size) return by_fail(BANYAN_ERR_PARSE, "it has more than %zu bytes", size - 1);
  text[*length] = '\0';
  return BANYAN_OK;
}

enum banyan_status by_secret_file_read(const char *path, char *text, size_t size, size_t *length) {
  *length = 0;
  int fd = BY_DESCRIPTOR(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open it");
  enum banyan_status status = read_secret(fd, text, size, length);
  if (status == BANYAN_OK) status = check_no_nul(text, *length);
  by_close(fd);
  return status;
}

/* ---- the cache */

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
