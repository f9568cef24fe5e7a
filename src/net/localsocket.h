/* Sockets between processes of one host, in the abstract AF_UNIX namespace, which carry whole messages
 * (SOCK_SEQPACKET) and file descriptors; and descriptors that become readable when a process ends. Every process in
 * the network namespace can connect, so check the peer. Non-blocking and closed on exec; the receiver of a descriptor
 * closes it. Any thread. */
#ifndef BY_NET_LOCALSOCKET_H
#define BY_NET_LOCALSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fail.h"

/* The maximum of descriptors in one message. */
#define BY_LOCAL_FDS 64

/* Listens at `name` of up to 100 bytes, without the leading NUL. The name is free again when the last copy of the
 * descriptor is closed; nothing stays in the file system. by_socket_accept takes connections. */
enum banyan_status by_local_listen(const char *name, int *fd) BANYAN_CHECK;
enum banyan_status by_local_connect(const char *name, int *fd) BANYAN_CHECK;
/* The process and user at the other end when it connected. */
enum banyan_status by_local_get_peer(int fd, pid_t *pid, uid_t *uid) BANYAN_CHECK;

/* Sends one message of `length` > 0 bytes with copies of n <= BY_LOCAL_FDS descriptors, completely or not at all:
 * *sent is false if there is no space now. */
enum banyan_status by_local_send(int fd, const void *data, size_t length, const int *fds, size_t n,
                                 bool *sent) BANYAN_CHECK;
/* Receives one message; *length is 0 if there is none. The caller owns the *n descriptors in `fds`. A message with
 * more than `capacity` bytes or `max` descriptors is BANYAN_ERR_PROTOCOL, and none of its descriptors stays open. A
 * closed peer is BANYAN_ERR_PEER_DEAD. */
enum banyan_status by_local_receive(int fd, void *data, size_t capacity, size_t *length, int *fds, size_t max,
                                    size_t *n) BANYAN_CHECK;

/* Opens a descriptor that becomes readable when the process at the other end of a connection ends: the one that
 * listened, if this end connected. Before Linux 6.5 the process is opened by its number; had that been reused, the
 * process would have ended before. BANYAN_ERR_PEER_DEAD: it has ended; _UNSUPPORTED: the kernel cannot do it;
 * _SYSTEM. */
enum banyan_status by_local_open_peer(int fd, int *process) BANYAN_CHECK;
/* Opens a descriptor that becomes readable when the process ends. BANYAN_ERR_PEER_DEAD if it has ended already,
 * BANYAN_ERR_UNSUPPORTED before Linux 5.3. */
enum banyan_status by_pidfd_open(pid_t pid, int *fd) BANYAN_CHECK;
/* Whether all threads of a process have ended, even if its parent has not been notified. False also if that cannot be
 * determined. */
bool by_process_has_ended(pid_t pid);

/* Unix sockets in the file system, at which daemons listen for their own host. Non-blocking and closed on exec. Any
 * thread. */

enum { BY_PATH_SOCKET = 108 }; /* Bytes of a path, with its NUL. */

struct by_path_socket {
  const char *path;
  const char *program; /* The program that listens, for errors: "switch". */
  const char *option;  /* The option that sets another path: "--control PATH". */
  mode_t mode;         /* The mode of the file: users that may write to it may connect. */
};

/* Listens at a path. Makes the folder and, for a moment, PATH.lock; may wait 5 s for a process that starts at the
 * same time. Replaces a socket at which no process listens; BANYAN_ERR_ARGUMENT if one does. The caller owns *fd and
 * removes the file. */
BANYAN_CHECK enum banyan_status by_path_socket_listen(const struct by_path_socket *listener, int *fd);
/* Connects to a path. BANYAN_ERR_CONNECT: no `program` listens there, or the user may not connect. BANYAN_ERR_AUTH:
 * another user listens, who is not root and does not own the folder alone, in a folder of root. */
BANYAN_CHECK enum banyan_status by_path_socket_connect(const char *path, const char *program, int *fd);

#endif
