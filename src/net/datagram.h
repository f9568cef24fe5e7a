/* UDP datagrams, many in one system call, and where the kernel can, many pieces
 * in one datagram (UDP_GRO, UDP_SEGMENT). Addresses as by_address_host has them,
 * ports as in packets. Sockets are of IPv4, of IPv6, or of both. All memory is
 * there from the start. Nothing here blocks; one thread at a time. */
#ifndef BY_NET_DATAGRAM_H
#define BY_NET_DATAGRAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fail.h"

enum {
  BY_DATAGRAMS = 16, /* received in one call */
  BY_DATAGRAM_BYTES = 1 << 16,
  BY_DATAGRAM_MAX = 65507, /* what UDP over IPv4 can carry */
  BY_DATAGRAM_SEGMENTS = 64,
  BY_DATAGRAM_CONTROL = 128,
  BY_MAILER_LENGTH = 128, /* datagrams */
};

/* What concerns us of the headers of IP and UDP. */
struct by_datagram_path {
  struct in6_addr from; /* sending, ::: what the kernel chooses */
  struct in6_addr to;   /* and its port: received, the caller's to know */
  uint16_t from_port;   /* sending, it is the socket's */
  uint16_t to_port;
  uint8_t ttl; /* IPv6: hop limit */
  uint8_t tos; /* IPv6: traffic class */
};

/* Pieces of `size` bytes, but for the last, which may be shorter. */
struct by_datagram {
  uint8_t *bytes;
  uint32_t n, size;
  struct by_datagram_path path;
};

struct by_mailbox {
  struct mmsghdr messages[BY_DATAGRAMS];
  struct iovec pieces[BY_DATAGRAMS];
  struct sockaddr_in6 from[BY_DATAGRAMS];
  _Alignas(struct cmsghdr) uint8_t control[BY_DATAGRAMS][BY_DATAGRAM_CONTROL];
  _Alignas(64) uint8_t bytes[BY_DATAGRAMS][BY_DATAGRAM_BYTES];
};

/* Makes a socket report to by_mailbox whatever it can, take pieces together and have room for many. It does not report
 * `ttl`, for which IP_RECVTTL and IPV6_RECVHOPLIMIT ask. Over IPv6 it takes datagrams without a checksum of UDP, too,
 * as XDP switches send them. */
enum banyan_status by_datagram_prepare(int fd) BANYAN_CHECK;
void by_mailbox_init(struct by_mailbox *mailbox);
/* How many datagrams have come; does not wait. They stay until the next call. */
int by_mailbox_receive(struct by_mailbox *mailbox, int fd);
/* The i-th of them; one that was cut short is empty. */
struct by_datagram by_mailbox_get(struct by_mailbox *mailbox, int i);

/* Pieces of `size` bytes, but for the last, that lie in `n` ranges of memory. */
struct by_outgoing {
  struct by_datagram_path path;
  const struct iovec *ranges; /* NULL: `own` */
  struct iovec own;
  uint16_t n, size, pieces;
};

/* Datagrams that are to leave by one socket. */
struct by_mailer {
  int fd;
  bool keeps;  /* what finds no room in the socket stays for the next flush; else it is lost */
  bool single; /* one piece a datagram: the kernel or the way takes no more */
  unsigned length;
  uint64_t sent, unsent; /* pieces */
  struct by_outgoing waiting[BY_MAILER_LENGTH];
};

/* Appends `bytes` to a list of `n` ranges that has room for one more; what follows the last one makes that longer, as
 * the kernel takes one long range faster than many. The new n. */
static inline unsigned by_ranges_append(struct iovec *ranges, unsigned n, void *at, size_t bytes) {
  if (n && (char *)ranges[n - 1].iov_base + ranges[n - 1].iov_len == (char *)at) {
    ranges[n - 1].iov_len += bytes;
    return n;
  }
  ranges[n] = (struct iovec){at, bytes};
  return n + 1;
}

/* Pieces of `size` bytes but for the last, which may be shorter; at most BY_DATAGRAM_SEGMENTS of at most
 * BY_DATAGRAM_MAX bytes together. They lie in `n` ranges, each of whole pieces. All of it stays as it is until it has
 * been flushed or dropped. */
void by_mailer_add(struct by_mailer *mailer, const struct by_datagram_path *path, const struct iovec *ranges,
                   unsigned n, uint32_t size);
/* Sends what goes. What finds no route is counted and lost. True: nothing is left. */
bool by_mailer_flush(struct by_mailer *mailer);
/* What waits is lost. */
void by_mailer_drop(struct by_mailer *mailer);

#endif
