/* Between processes of one host: sockets in the abstract AF_UNIX namespace that
 * carry whole messages (SOCK_SEQPACKET) and file descriptors with them, and a
 * descriptor that becomes readable when a process ends. Anybody in the same
 * network namespace can connect: check the peer. Non-blocking and closed on exec;
 * whoever receives a descriptor closes it. Any thread. */
#ifndef BY_NET_LOCALSOCKET_H
#define BY_NET_LOCALSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fail.h"

/* Most descriptors in one message. */
#define BY_LOCAL_FDS 64

/* `name` is up to 100 bytes, without the leading NUL. It is free again when the
 * last copy of the descriptor is closed; nothing stays in the file system.
 * by_socket_accept takes what comes. */
enum banyan_status by_local_listen(const char *name, int *fd) BANYAN_CHECK;
enum banyan_status by_local_connect(const char *name, int *fd) BANYAN_CHECK;
/* Process and user at the other end when it connected. */
enum banyan_status by_local_get_peer(int fd, pid_t *pid, uid_t *uid) BANYAN_CHECK;

/* Sends one message of `length` > 0 bytes with copies of n <= BY_LOCAL_FDS
 * descriptors, whole or not at all: *sent false if there is no room just now. */
enum banyan_status by_local_send(int fd, const void *data, size_t length, const int *fds, size_t n,
                                 bool *sent) BANYAN_CHECK;
/* Receives one message: *length = 0 if none is there. The caller owns the *n
 * descriptors in `fds`. A message longer than `capacity` or with more than `max`
 * descriptors is BANYAN_ERR_PROTOCOL and nothing of it is left open; a peer that
 * is gone is BANYAN_ERR_PEER_DEAD. */
enum banyan_status by_local_receive(int fd, void *data, size_t capacity, size_t *length, int *fds, size_t max,
                                    size_t *n) BANYAN_CHECK;

/* A descriptor that becomes readable when the process at the other end of a connection ends: the one that listened, if
 * this end connected. On Linux before 6.5 it is opened by the process's number; had that been reused, the process would
 * have ended before. BANYAN_ERR_PEER_DEAD: it has ended; _UNSUPPORTED: the kernel cannot; _SYSTEM. */
enum banyan_status by_local_open_peer(int fd, int *process) BANYAN_CHECK;
/* A descriptor that becomes readable when the process ends. BANYAN_ERR_PEER_DEAD
 * if it has ended already, BANYAN_ERR_UNSUPPORTED before Linux 5.3. */
enum banyan_status by_pidfd_open(pid_t pid, int *fd) BANYAN_CHECK;
/* Whether all threads of a process have ended, even if its parent has not been notified. False also where that cannot
 * be found out. */
bool by_process_has_ended(pid_t pid);

/* Unix sockets that lie in the file system, as daemons listen at for their own
 * machine. Non-blocking and closed on exec. Any thread. */

enum { BY_PATH_SOCKET = 108 }; /* bytes of a path, with its NUL */

struct by_path_socket {
  const char *path;
  const char *program; /* listens there, for errors: "switch" */
  const char *option;  /* that names another place: "--control PATH" */
  mode_t mode;         /* of the file: users that may write to it may connect */
};

/* Makes the folder and, for a moment, PATH.lock; may wait 5 s for one that starts at once. Replaces a socket that
 * nobody listens at; BANYAN_ERR_ARGUMENT if somebody does. *fd is the caller's, which removes the file. */
BANYAN_CHECK enum banyan_status by_path_socket_listen(const struct by_path_socket *place, int *fd);
/* BANYAN_ERR_CONNECT: nobody (`program`) listens there, or it may not be used. BANYAN_ERR_AUTH: another user does, who
 * is not root and does not own the folder alone, in one of root. */
BANYAN_CHECK enum banyan_status by_path_socket_connect(const char *path, const char *program, int *fd);

#endif
