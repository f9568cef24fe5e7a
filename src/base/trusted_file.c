/* The file is judged after it is opened, so that no other one takes its place in between. */
#include "trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "arena.h"
#include "descriptor.h"

enum banyan_status by_trusted_check(const char *what, const char *path, const struct stat *about) {
  if (about->st_uid != geteuid() && about->st_uid != 0)
    return by_fail(BANYAN_ERR_AUTH, "%s %s belongs to user %u, who may have changed it: take one of user %u or root",
                   what, path, (unsigned)about->st_uid, (unsigned)geteuid());
  if (about->st_mode & (S_IWGRP | S_IWOTH))
    return by_fail(BANYAN_ERR_AUTH,
                   "others may write to %s %s (mode %03o): remove it, or run `chmod go-w` on it if they have not", what,
                   path, (unsigned)about->st_mode & 0777);
  return BANYAN_OK;
}

static enum banyan_status read_opened(int fd, const char *what, const char *path, size_t most, char **text,
                                      size_t *length) {
  struct stat about;
  size_t room = 0;
  ssize_t n = 1;
  if (fstat(fd, &about)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s %s", what, path);
  if (!S_ISREG(about.st_mode)) return by_fail(BANYAN_ERR_SYSTEM, "%s %s is no file", what, path);
  BY_TRY(by_trusted_check(what, path, &about));
  while (n > 0 && *length <= most) {
    if (!by_array_grow((void **)text, &room, *length + 4096, 1))
      return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for %s %s", what, path);
    size_t left = room - 1 - *length;
    n = read(fd, *text + *length, left < most + 1 - *length ? left : most + 1 - *length);
    if (n > 0) *length += (size_t)n;
  }
  if (n < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s %s", what, path);
  (*text)[*length] = '\0';
  return BANYAN_OK;
}

enum banyan_status by_trusted_read(const char *what, const char *path, size_t most, char **text, size_t *length) {
  int fd = BY_DESCRIPTOR(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s %s", what, path);
  *text = NULL;
  *length = 0;
  enum banyan_status status = read_opened(fd, what, path, most, text, length);
  by_close(fd);
  if (status == BANYAN_OK) return status;
  free(*text);
  *text = NULL;
  return status;
}
