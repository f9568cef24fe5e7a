/* The Unix socket of a switch. Any thread. */
#ifndef BY_SWITCH_CONTROL_SOCKET_H
#define BY_SWITCH_CONTROL_SOCKET_H

#include "fail.h"

enum { BY_CONTROL_PATH = 108 };

/* For this user only. Makes the folder, and replaces a socket that nobody listens at; BANYAN_ERR_ARGUMENT if somebody
 * does. *fd is the caller's, who removes the file. */
BANYAN_CHECK enum banyan_status by_control_socket_listen(const char *path, int *fd);
/* Non-blocking. BANYAN_ERR_CONNECT: there is none, or it may not be used. */
BANYAN_CHECK enum banyan_status by_control_socket_connect(const char *path, int *fd);

#endif
