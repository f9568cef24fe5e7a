/* Sockets between processes of one host, in the abstract namespace and in the file system, and pidfds. */
#include "socket.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "descriptor.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Of Linux 6.5; headers may be older. */
#endif

enum { MAX_NAME = 100 };

static enum banyan_status open_named(const char *name, bool listens, int *fd) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const struct sockaddr *generic = (const struct sockaddr *)&address;
  size_t n = strlen(name);
  if (n == 0 || n > MAX_NAME)
    return by_fail(BANYAN_ERR_ARGUMENT, "local socket name \"%.128s\" must have 1 to %d bytes", name, MAX_NAME);
  memcpy(address.sun_path + 1, name, n);
  socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
  int made = BY_DESCRIPTOR(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot make local socket \"%s\"", name);
  *fd = made;
  if (listens ? bind(made, generic, length) == 0 && listen(made, SOMAXCONN) == 0 : connect(made, generic, length) == 0)
    return BANYAN_OK;
  int error = errno;
  by_close(made);
  return by_fail_errno(listens ? BANYAN_ERR_SYSTEM : BANYAN_ERR_CONNECT, error, "cannot %s local socket \"%s\"",
                       listens ? "listen on" : "connect to", name);
}

enum banyan_status by_local_listen(const char *name, int *fd) {
  return open_named(name, true, fd);
}

enum banyan_status by_local_connect(const char *name, int *fd) {
  return open_named(name, false, fd);
}

enum banyan_status by_local_get_peer(int fd, pid_t *pid, uid_t *uid) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read which process is at the other end of a local socket");
  *pid = peer.pid;
  *uid = peer.uid;
  return BANYAN_OK;
}

union control {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(BY_LOCAL_FDS * sizeof(int))];
};

static void attach_fds(struct msghdr *message, union control *control, const int *fds, size_t n) {
  memset(control, 0, sizeof *control);
  message->msg_control = control->bytes;
  message->msg_controllen = CMSG_SPACE(n * sizeof(int));
  struct cmsghdr *header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(n * sizeof(int));
  memcpy(CMSG_DATA(header), fds, n * sizeof(int));
}

enum banyan_status by_local_send(int fd, const void *data, size_t length, const int *fds, size_t n, bool *sent) {
  union control control;
  struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = length};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  ssize_t done;
  assert(length > 0 && n <= BY_LOCAL_FDS); /* An empty message would look like the end. */
  if (n) attach_fds(&message, &control, fds, n);
  do done = sendmsg(fd, &message, MSG_NOSIGNAL);
  while (done < 0 && errno == EINTR);
  *sent = done >= 0;
  if (done >= 0 || errno == EAGAIN || errno == EWOULDBLOCK) return BANYAN_OK;
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
    return by_fail(BANYAN_ERR_PEER_DEAD, "the other end of a local socket is closed");
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot send %zu bytes and %zu descriptors", length, n);
}

/* Takes the descriptors of a message, under their lock. Returns their number. */
static size_t take_fds(struct msghdr *message, int fds[BY_LOCAL_FDS]) {
  size_t came = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n && came < BY_LOCAL_FDS; i++, came++) { /* A message holds no more. */
      int one;
      memcpy(&one, CMSG_DATA(header) + i * sizeof one, sizeof one);
      fds[came] = by_descriptor_own(one);
    }
  }
  return came;
}

enum banyan_status by_local_receive(int fd, void *data, size_t capacity, size_t *length, int *fds, size_t max,
                                    size_t *n) {
  union control control;
  int all[BY_LOCAL_FDS];
  struct iovec part = {.iov_base = data, .iov_len = capacity};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  *length = *n = 0;
  by_descriptors_lock();
  ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  int error = errno;
  size_t came = got > 0 ? take_fds(&message, all) : 0;
  by_descriptors_unlock();
  errno = error;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return BANYAN_OK;
  if (got < 0 && errno != ECONNRESET) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot receive");
  if (got <= 0) return by_fail(BANYAN_ERR_PEER_DEAD, "the other end of a local socket is closed");
  bool refused = came < max && message.msg_flags & MSG_CTRUNC;
  bool complete = came <= max && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  for (size_t i = 0; i < came; i++) {
    if (complete)
      fds[i] = all[i];
    else
      by_close(all[i]);
  }
  if (refused)
    return by_fail_errno(BANYAN_ERR_SYSTEM, EMFILE, "cannot take the descriptors that came on a local socket");
  if (!complete)
    return by_fail(BANYAN_ERR_PROTOCOL, "a local message has more than %zu bytes or %zu descriptors", capacity, max);
  *length = (size_t)got;
  *n = came;
  return BANYAN_OK;
}

enum banyan_status by_pidfd_open(pid_t pid, int *fd) {
  int result = (int)syscall(SYS_pidfd_open, pid, 0);
  if (result < 0 && errno == ESRCH) return by_fail(BANYAN_ERR_PEER_DEAD, "process %d has ended", (int)pid);
  if (result < 0 && errno == ENOSYS) return by_fail(BANYAN_ERR_UNSUPPORTED, "this kernel has no pidfd_open");
  if (result < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open process %d", (int)pid);
  *fd = result;
  return BANYAN_OK;
}

static enum banyan_status open_by_number(int fd, int *process) {
  pid_t pid = 0;
  uid_t uid;
  BY_TRY(by_local_get_peer(fd, &pid, &uid));
  if (!pid) return by_fail(BANYAN_ERR_UNSUPPORTED, "the process at the other end has no number in this namespace");
  return by_pidfd_open(pid, process);
}

static enum banyan_status open_peer(int fd, int *process) {
  socklen_t length = sizeof *process;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, process, &length) == 0) return BANYAN_OK;
  if (errno == ENOPROTOOPT) return open_by_number(fd, process);
  if (errno == ESRCH || errno == EINVAL) return by_fail(BANYAN_ERR_PEER_DEAD, "the process at the other end has ended");
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open the process at the other end");
}

enum banyan_status by_local_open_peer(int fd, int *process) {
  by_descriptors_lock();
  enum banyan_status status = open_peer(fd, process);
  (void)by_descriptor_own_and_unlock(status == BANYAN_OK ? *process : -1);
  return status;
}

bool by_process_has_ended(pid_t pid) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return errno == ESRCH;
  struct pollfd exit = {.fd = fd, .events = POLLIN};
  bool ended = poll(&exit, 1, 0) == 1 && exit.revents & POLLIN;
  by_close(fd);
  return ended;
}

/* ---- paths */

enum { LOCK_TRIES = 250, LOCK_WAIT_NS = 20000000 };

static enum banyan_status name_socket(const char *path, const char *program, struct sockaddr_un *address) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address->sun_path)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the socket's name %s is too long; %zu bytes are possible", program, path,
                   sizeof address->sun_path - 1);
  strcpy(address->sun_path, path);
  return BANYAN_OK;
}

static enum banyan_status open_socket(const char *program, int *fd) {
  *fd = BY_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return *fd >= 0 ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, errno, "%s: no socket", program);
}

/* Whether only root and `user` can make a socket there, and only root the folder. */
static bool is_safe_folder(uid_t user, const char *path) {
  char folder[BY_PATH_SOCKET];
  struct stat about[2];
  snprintf(folder, sizeof folder, "%s", path);
  for (int i = 0; i < 2; i++) {
    char *slash = strrchr(folder, '/');
    if (!slash) return false;
    slash[slash == folder] = '\0';
    if (stat(folder, &about[i]) || about[i].st_mode & (S_IWGRP | S_IWOTH)) return false;
  }
  return about[0].st_uid == user && about[1].st_uid == 0;
}

/* Checks the user at the other end, since the caller may send secrets and trusts the answers. */
static enum banyan_status check_listener(const char *path, const char *program, int fd) {
  pid_t pid;
  uid_t uid = (uid_t)-1;
  BY_TRY(by_local_get_peer(fd, &pid, &uid));
  if (uid == 0 || uid == geteuid() || is_safe_folder(uid, path)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_AUTH, "user %u listens at %s, where any user may, in place of the %s", (unsigned)uid, path,
                 program);
}

enum banyan_status by_path_socket_connect(const char *path, const char *program, int *fd) {
  struct sockaddr_un address;
  BY_TRY(name_socket(path, program, &address));
  BY_TRY(open_socket(program, fd));
  enum banyan_status status = connect(*fd, (const struct sockaddr *)&address, sizeof address) == 0
                                  ? check_listener(path, program, *fd)
                                  : by_fail_errno(BANYAN_ERR_CONNECT, errno, "no %s at %s", program, path);
  if (status == BANYAN_OK) return status;
  by_close(*fd);
  *fd = -1;
  return status;
}

static enum banyan_status make_folder(const struct by_path_socket *listener) {
  char folder[BY_PATH_SOCKET];
  const char *slash = strrchr(listener->path, '/');
  if (!slash || slash == listener->path) return BANYAN_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - listener->path), listener->path);
  if (mkdir(folder, 0755) == 0 || errno == EEXIST) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "%s: cannot make %s for its socket; name another place with %s",
                       listener->program, folder, listener->option);
}

/* Removes a socket that a killed process has left. */
static enum banyan_status remove_stale(const struct by_path_socket *listener) {
  struct stat before;
  int fd;
  if (by_path_socket_connect(listener->path, listener->program, &fd) == BANYAN_OK) {
    by_close(fd);
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "%s: one runs here already and listens at %s; stop it, or name another place with %s",
                   listener->program, listener->path, listener->option);
  }
  if (lstat(listener->path, &before) == 0 && S_ISSOCK(before.st_mode)) unlink(listener->path);
  return BANYAN_OK;
}

/* Locks a path, since of two processes that start at once both might find no listener. *fd = -1: the file cannot be
 * made, and nothing is locked. */
static enum banyan_status lock_path(const struct by_path_socket *listener, const char *path, int *fd) {
  for (int tried = 0; tried < LOCK_TRIES; tried++) {
    struct stat ours, theirs; /* The file that was locked may be one that its holder has just removed. */
    *fd = BY_DESCRIPTOR(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (*fd < 0 || (flock(*fd, LOCK_EX | LOCK_NB) == 0 && fstat(*fd, &ours) == 0 && stat(path, &theirs) == 0 &&
                    ours.st_ino == theirs.st_ino))
      return BANYAN_OK;
    by_close(*fd);
    nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
  }
  return by_fail(BANYAN_ERR_ARGUMENT, "%s: another one is starting, and holds %s", listener->program, path);
}

static enum banyan_status bind_path(const struct by_path_socket *listener, const struct sockaddr_un *address, int *fd) {
  BY_TRY(remove_stale(listener));
  BY_TRY(open_socket(listener->program, fd));
  mode_t mask =
      umask(~listener->mode & 0777); /* The socket never admits more users than `mode`, not even for a moment. */
  int bound = bind(*fd, (const struct sockaddr *)address, sizeof *address);
  umask(mask);
  if (bound == 0 && listen(*fd, SOMAXCONN) == 0) return BANYAN_OK;
  int reason = errno;
  by_close(*fd);
  *fd = -1;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "%s: cannot listen at %s", listener->program, listener->path);
}

enum banyan_status by_path_socket_listen(const struct by_path_socket *listener, int *fd) {
  struct sockaddr_un address;
  char path[BY_PATH_SOCKET + sizeof ".lock"];
  int locked;
  BY_TRY(name_socket(listener->path, listener->program, &address));
  BY_TRY(make_folder(listener));
  snprintf(path, sizeof path, "%s.lock", listener->path);
  BY_TRY(lock_path(listener, path, &locked));
  enum banyan_status status = bind_path(listener, &address, fd);
  if (locked >= 0) {
    unlink(path);
    by_close(locked);
  }
  return status;
}
