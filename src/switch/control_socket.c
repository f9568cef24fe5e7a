#include "control_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static enum banyan_status name_socket(const char *path, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address->sun_path)
    return by_fail(BANYAN_ERR_ARGUMENT, "switch: the socket's name %s is too long; %zu bytes are possible", path,
                   sizeof address->sun_path - 1);
  strcpy(address->sun_path, path);
  return BANYAN_OK;
}

static enum banyan_status open_socket(int *fd) {
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return *fd >= 0 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no socket");
}

enum banyan_status by_control_socket_connect(const char *path, int *fd) {
  struct sockaddr_un address;
  BY_TRY(name_socket(path, &address));
  BY_TRY(open_socket(fd));
  if (connect(*fd, (const struct sockaddr *)&address, sizeof address) == 0) return BANYAN_OK;
  int reason = errno;
  close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_CONNECT, reason, "no switch at %s", path);
}

static enum banyan_status make_folder(const char *path) {
  char folder[BY_CONTROL_PATH];
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return BANYAN_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
  if (mkdir(folder, 0755) == 0 || errno == EEXIST) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno,
                       "switch: cannot make %s for its socket; name another place with "
                       "--control PATH",
                       folder);
}

/* What one that was killed has left there. */
static enum banyan_status make_room(const char *path) {
  struct stat before;
  int fd;
  if (by_control_socket_connect(path, &fd) == BANYAN_OK) {
    close(fd);
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "switch: one runs here already and listens at %s; stop it, or name another "
                   "place with --control PATH",
                   path);
  }
  if (lstat(path, &before) == 0 && S_ISSOCK(before.st_mode)) unlink(path);
  return BANYAN_OK;
}

static int bind_for_us(int fd, const struct sockaddr_un *address) {
  mode_t mask = umask(0177);
  int result = bind(fd, (const struct sockaddr *)address, sizeof *address);
  umask(mask);
  return result;
}

enum banyan_status by_control_socket_listen(const char *path, int *fd) {
  struct sockaddr_un address;
  BY_TRY(name_socket(path, &address));
  BY_TRY(make_folder(path));
  BY_TRY(make_room(path));
  BY_TRY(open_socket(fd));
  if (bind_for_us(*fd, &address) == 0 && listen(*fd, 16) == 0) return BANYAN_OK;
  int reason = errno;
  close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "switch: cannot listen at %s", path);
}
