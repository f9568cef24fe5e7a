/* Unix sockets that lie in the file system, as daemons listen at for their own
 * machine. Non-blocking and closed on exec. Any thread. */
#ifndef BY_NET_PATH_SOCKET_H
#define BY_NET_PATH_SOCKET_H

#include <sys/types.h>

#include "fail.h"

enum { BY_PATH_SOCKET = 108 }; /* bytes of a path, with its NUL */

struct by_path_socket {
  const char *path;
  const char *who;    /* listens there, for errors: "switch" */
  const char *option; /* that names another place: "--control PATH" */
  mode_t mode;        /* of the file: who may write to it may connect */
};

/* Makes the folder and, for a moment, PATH.lock; may wait 5 s for one that starts at once. Replaces a socket that
 * nobody listens at; BANYAN_ERR_ARGUMENT if somebody does. *fd is the caller's, who removes the file. */
BANYAN_CHECK enum banyan_status by_path_socket_listen(const struct by_path_socket *place, int *fd);
/* BANYAN_ERR_CONNECT: nobody (`who`) listens there, or it may not be used. */
BANYAN_CHECK enum banyan_status by_path_socket_connect(const char *path, const char *who, int *fd);

#endif
