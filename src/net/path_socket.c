#include "path_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static enum banyan_status name_socket(const char *path, const char *who, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address->sun_path)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the socket's name %s is too long; %zu bytes are possible", who, path,
                   sizeof address->sun_path - 1);
  strcpy(address->sun_path, path);
  return BANYAN_OK;
}

static enum banyan_status open_socket(const char *who, int *fd) {
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return *fd >= 0 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "%s: no socket", who);
}

enum banyan_status by_path_socket_connect(const char *path, const char *who, int *fd) {
  struct sockaddr_un address;
  BY_TRY(name_socket(path, who, &address));
  BY_TRY(open_socket(who, fd));
  if (connect(*fd, (const struct sockaddr *)&address, sizeof address) == 0) return BANYAN_OK;
  int reason = errno;
  close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_CONNECT, reason, "no %s at %s", who, path);
}

static enum banyan_status make_folder(const struct by_path_socket *place) {
  char folder[BY_PATH_SOCKET];
  const char *slash = strrchr(place->path, '/');
  if (!slash || slash == place->path) return BANYAN_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - place->path), place->path);
  if (mkdir(folder, 0755) == 0 || errno == EEXIST) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "%s: cannot make %s for its socket; name another place with %s",
                       place->who, folder, place->option);
}

/* What one that was killed has left there. */
static enum banyan_status make_room(const struct by_path_socket *place) {
  struct stat before;
  int fd;
  if (by_path_socket_connect(place->path, place->who, &fd) == BANYAN_OK) {
    close(fd);
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "%s: one runs here already and listens at %s; stop it, or name another place with %s", place->who,
                   place->path, place->option);
  }
  if (lstat(place->path, &before) == 0 && S_ISSOCK(before.st_mode)) unlink(place->path);
  return BANYAN_OK;
}

/* It never lets in more than `mode` says, not for a moment. */
static int bind_for(int fd, const struct sockaddr_un *address, mode_t mode) {
  mode_t mask = umask(~mode & 0777);
  int result = bind(fd, (const struct sockaddr *)address, sizeof *address);
  umask(mask);
  return result;
}

enum banyan_status by_path_socket_listen(const struct by_path_socket *place, int *fd) {
  struct sockaddr_un address;
  BY_TRY(name_socket(place->path, place->who, &address));
  BY_TRY(make_folder(place));
  BY_TRY(make_room(place));
  BY_TRY(open_socket(place->who, fd));
  if (bind_for(*fd, &address, place->mode) == 0 && listen(*fd, SOMAXCONN) == 0) return BANYAN_OK;
  int reason = errno;
  close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "%s: cannot listen at %s", place->who, place->path);
}
