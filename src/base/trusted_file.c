/* The file is checked after it is opened, so that it cannot be replaced in between. */
#include "trusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "descriptor.h"
#include "text.h"

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

static enum banyan_status check_open(const char *what, const char *path, FILE *file) {
  struct stat about;
  if (fstat(fileno(file), &about)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s %s", what, path);
  if (!S_ISREG(about.st_mode)) return by_fail(BANYAN_ERR_SYSTEM, "%s %s is no file", what, path);
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
  if (status == BANYAN_OK) return by_read_stream(what, path, file, max, text, length);
  fclose(file);
  return status;
}
