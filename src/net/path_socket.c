#include "path_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"

enum { LOCK_TRIES = 250, LOCK_WAIT_NS = 20000000 };

static enum banyan_status name_socket(const char *path, const char *who, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address->sun_path)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the socket's name %s is too long; %zu bytes are possible", who, path,
                   sizeof address->sun_path - 1);
  strcpy(address->sun_path, path);
  return BANYAN_OK;
}

static enum banyan_status open_socket(const char *who, int *fd) {
  *fd = BY_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return *fd >= 0 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "%s: no socket", who);
}

enum banyan_status by_path_socket_connect(const char *path, const char *who, int *fd) {
  struct sockaddr_un address;
  BY_TRY(name_socket(path, who, &address));
  BY_TRY(open_socket(who, fd));
  if (connect(*fd, (const struct sockaddr *)&address, sizeof address) == 0) return BANYAN_OK;
  int reason = errno;
  by_close(*fd);
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
    by_close(fd);
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

/* The file that was locked may be one that its holder has just removed. */
static bool is_there(int fd, const char *path) {
  struct stat ours, theirs;
  return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino;
}

/* Two that start at once must not both find nobody there. *fd = -1: no such file can be made, and nothing is locked. */
static enum banyan_status lock(const struct by_path_socket *place, const char *path, int *fd) {
  for (int tried = 0; tried < LOCK_TRIES; tried++) {
    *fd = BY_DESCRIPTOR(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (*fd < 0 || (flock(*fd, LOCK_EX | LOCK_NB) == 0 && is_there(*fd, path))) return BANYAN_OK;
    by_close(*fd);
    nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
  }
  return by_fail(BANYAN_ERR_ARGUMENT, "%s: another one is starting, and holds %s", place->who, path);
}

static enum banyan_status take_place(const struct by_path_socket *place, const struct sockaddr_un *address, int *fd) {
  BY_TRY(make_room(place));
  BY_TRY(open_socket(place->who, fd));
  if (bind_for(*fd, address, place->mode) == 0 && listen(*fd, SOMAXCONN) == 0) return BANYAN_OK;
  int reason = errno;
  by_close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "%s: cannot listen at %s", place->who, place->path);
}

enum banyan_status by_path_socket_listen(const struct by_path_socket *place, int *fd) {
  struct sockaddr_un address;
  char path[BY_PATH_SOCKET + sizeof ".lock"];
  int locked;
  BY_TRY(name_socket(place->path, place->who, &address));
  BY_TRY(make_folder(place));
  snprintf(path, sizeof path, "%s.lock", place->path);
  BY_TRY(lock(place, path, &locked));
  enum banyan_status status = take_place(place, &address, fd);
  if (locked >= 0) {
    unlink(path);
    by_close(locked);
  }
  return status;
}
