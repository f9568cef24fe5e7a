/* Datagrams of a user-space switch as they pass its sockets, many in one
 * system call, and where the kernel can, many fragments in one datagram
 * (UDP_GRO, UDP_SEGMENT). Addresses and ports as in packets. All memory is there
 * from the start. One thread at a time. */
#ifndef BY_SWITCH_USER_DATAGRAM_H
#define BY_SWITCH_USER_DATAGRAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fail.h"

enum {
  BY_DATAGRAMS = 16, /* received in one call */
  BY_DATAGRAM_BYTES = 1 << 16,
  BY_DATAGRAM_MOST = 65507, /* what UDP over IPv4 can carry */
  BY_DATAGRAM_SEGMENTS = 64,
  BY_DATAGRAM_CONTROL = 128,
  BY_OUTBOX_LENGTH = 128, /* datagrams */
};

/* What a switch keeps of the headers of IP and UDP. */
struct by_datagram_way {
  uint32_t from; /* its port is the socket's */
  uint32_t to;
  uint16_t to_port;
  uint8_t ttl;
  uint8_t tos;
};

/* Pieces of `size` bytes, but for the last, which may be shorter. */
struct by_datagram {
  uint8_t *bytes;
  uint32_t n, size;
  struct by_datagram_way way; /* to_port is the caller's to know */
};

struct by_inbox {
  struct mmsghdr messages[BY_DATAGRAMS];
  struct iovec pieces[BY_DATAGRAMS];
  struct sockaddr_in from[BY_DATAGRAMS];
  _Alignas(struct cmsghdr) uint8_t control[BY_DATAGRAMS][BY_DATAGRAM_CONTROL];
  _Alignas(64) uint8_t bytes[BY_DATAGRAMS][BY_DATAGRAM_BYTES];
};

/* Receives what is for `udp_port`, on this interface only unless it is NULL (then `address` is the socket's own), and
 * sends by it, with others' addresses as its own. *out is the caller's. Needs CAP_NET_ADMIN. */
enum banyan_status by_datagram_open(const char *interface, uint32_t address, uint16_t udp_port, int *out) BANYAN_CHECK;
void by_inbox_init(struct by_inbox *inbox);
/* How many datagrams have come; does not wait. They stay until the next call. */
int by_inbox_receive(struct by_inbox *inbox, int fd);
/* The i-th of them; one that was cut short is empty. */
struct by_datagram by_inbox_get(struct by_inbox *inbox, int i);

struct by_outgoing {
  struct by_datagram_way way;
  const struct iovec *pieces;
  uint16_t n;
};

/* Datagrams that are to leave by one socket. */
struct by_outbox {
  int fd;
  bool single; /* one fragment a datagram: the kernel or the way takes no more */
  unsigned length;
  uint64_t sent, unsent; /* fragments */
  struct by_outgoing waiting[BY_OUTBOX_LENGTH];
};

/* A piece is a fragment. They stay the caller's until by_outbox_flush. */
void by_outbox_add(struct by_outbox *outbox, const struct by_datagram_way *way, const struct iovec *pieces, unsigned n);
/* Sends everything; does not wait. What finds no room or no route is counted and lost. */
void by_outbox_flush(struct by_outbox *outbox);

#endif
