/* Reads files that hold a secret. */
#include "secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "text.h"

static enum banyan_status check_file(int fd) {
  struct stat file;
  if (fstat(fd, &file)) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read it");
  if (!S_ISREG(file.st_mode)) return by_fail(BANYAN_ERR_ARGUMENT, "this is no file");
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

static enum banyan_status read_opened(int fd, char *text, size_t size, size_t *length) {
  ssize_t n = 0;
  BY_TRY(check_file(fd));
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
  enum banyan_status status = read_opened(fd, text, size, length);
  if (status == BANYAN_OK) status = by_check_no_nul(text, *length);
  by_close(fd);
  return status;
}
