/* How what is sent is marked, for the queues on its way and those of this host. */
#ifndef BY_TRANSPORT_MARK_H
#define BY_TRANSPORT_MARK_H

struct by_mark {
  int tos;      /* the byte of IP: DSCP in the upper six bits, ECN stays the transport's; -1: left as it is */
  int priority; /* of the socket, inside this host; -1: left as it is */
};

#endif
