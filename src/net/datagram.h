/* UDP datagrams, many in one system call, and where the kernel can, many pieces in one datagram (UDP_GRO,
 * UDP_SEGMENT). Addresses have the form of by_address_host, ports are in network order. Sockets are of IPv4, of IPv6,
 * or of both. All memory is allocated at the start. Nothing here blocks; one thread at a time. */
#ifndef BY_NET_DATAGRAM_H
#define BY_NET_DATAGRAM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fail.h"

enum {
  BY_DATAGRAMS = 16, /* Received in one call. */
  BY_DATAGRAM_BYTES = 1 << 16,
  BY_DATAGRAM_MAX = 65507, /* The maximum of bytes in a datagram of UDP over IPv4. */
  BY_DATAGRAM_SEGMENTS = 64,
  BY_DATAGRAM_CONTROL = 128,
  BY_MAILER_LENGTH = 128, /* Datagrams. */
};

/* The fields of the IP and UDP headers that are used here. */
struct by_datagram_path {
  struct in6_addr from; /* Of a datagram to be sent: the source; ::: the kernel chooses. */
  struct in6_addr to;   /* The destination and its port. A receiver knows its own port. */
  uint16_t from_port;   /* A datagram to be sent has the socket's port. */
  uint16_t to_port;
  uint8_t ttl; /* IPv6: the hop limit. */
  uint8_t tos; /* IPv6: the traffic class. */
};

/* Pieces of `size` bytes, except for the last, which may be shorter. */
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

/* Sets a socket's options so that it reports everything of struct by_datagram_path, merges pieces and has large
 * buffers. `ttl` additionally needs IP_RECVTTL and IPV6_RECVHOPLIMIT. Over IPv6 the socket also accepts datagrams
 * without a UDP checksum, which XDP switches send. */
enum banyan_status by_datagram_prepare(int fd) BANYAN_CHECK;
void by_mailbox_init(struct by_mailbox *mailbox);
/* Receives datagrams without waiting. Returns their number. They stay until the next call. */
int by_mailbox_receive(struct by_mailbox *mailbox, int fd);
/* Datagram i of those. One that was cut short is empty. */
struct by_datagram by_mailbox_get(struct by_mailbox *mailbox, int i);

/* Pieces of `size` bytes, except for the last, that lie in `n` ranges of memory. */
struct by_outgoing {
  struct by_datagram_path path;
  const struct iovec *ranges; /* NULL: `own`. */
  struct iovec own;
  uint16_t n, size, pieces;
};

/* Datagrams to be sent by one socket. */
struct by_mailer {
  int fd;
  bool keeps;  /* Datagrams without space in the socket stay for the next flush. If false, they are dropped. */
  bool single; /* One piece per datagram, since the kernel or the path takes no more. */
  unsigned length;
  uint64_t sent, unsent; /* Pieces. */
  struct by_outgoing waiting[BY_MAILER_LENGTH];
};

/* Appends `bytes` at `at` to a list of `n` ranges that has room for one more. Adjacent bytes extend the last range,
 * as the kernel takes one long range faster than many. Returns the new n. */
static inline unsigned by_ranges_append(struct iovec *ranges, unsigned n, void *at, size_t bytes) {
  if (n && (char *)ranges[n - 1].iov_base + ranges[n - 1].iov_len == (char *)at) {
    ranges[n - 1].iov_len += bytes;
    return n;
  }
  ranges[n] = (struct iovec){at, bytes};
  return n + 1;
}

/* Adds pieces of `size` bytes, of which the last may be shorter; at most BY_DATAGRAM_SEGMENTS with at most
 * BY_DATAGRAM_MAX bytes together. They lie in `n` ranges, each of whole pieces. The memory must stay until it was
 * flushed or dropped. */
void by_mailer_add(struct by_mailer *mailer, const struct by_datagram_path *path, const struct iovec *ranges,
                   unsigned n, uint32_t size);
/* Sends what the socket takes. Pieces without a route are counted and dropped. Returns whether nothing is left. */
bool by_mailer_flush(struct by_mailer *mailer);
/* Drops what is left. */
void by_mailer_drop(struct by_mailer *mailer);

#endif
