/* Lanes over connected stream sockets (TCP, or a socket pair). */
#ifndef BY_TRANSPORT_TCP_H
#define BY_TRANSPORT_TCP_H

#include "lane.h"

/* Takes over a connected, non-blocking stream socket on which nothing but
 * frames will come. `frame_bytes`: most payload in a frame, 0 for 1 MiB. */
BANYAN_CHECK enum banyan_status by_tcp_create(int fd, size_t frame_bytes, struct by_lane **out);

#endif
