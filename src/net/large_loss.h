/* Finds connections on which large packets are lost though small ones pass: the path has a lower MTU than its ends, and
 * no ICMP message says so. The kernel sends such a packet again and again. What tells this apart from an outage is
 * another connection to the same host, whose packets are small: it comes about or is refused. On one loop's thread. */
#ifndef BY_NET_LARGE_LOSS_H
#define BY_NET_LARGE_LOSS_H

#include "address.h"
#include "loop.h"

enum { BY_LARGE_LOSS_SUSPECTS = 16 };

/* What users can do about it. */
#define BY_LARGE_LOSS_ADVICE                                                                                           \
  "lower the MTU of their interfaces to what the path carries, let ICMP \"fragmentation needed\" pass, or set the "    \
  "sysctl net.ipv4.tcp_mtu_probing to 1"

struct by_large_loss_finder {
  struct by_loop *loop;
  struct by_large_loss_suspect {
    struct by_address local, peer; /* of the connection; peer.length 0: unused */
    uint64_t acknowledged;         /* Bytes acknowledged when it became a suspect. */
    uint64_t since;                /* When it became a suspect, ns. */
    uint64_t bytes;                /* Bytes sent, also again, when the other connection was begun. */
    uint32_t packets;              /* Packets that carried `bytes`. */
    bool small_pass;
    int fd; /* of the other connection; -1: none is being made */
    struct by_watch *watch;
  } suspects[BY_LARGE_LOSS_SUSPECTS];
  uint32_t next; /* to be replaced */
};

struct by_large_loss {
  struct by_address peer;
  uint32_t packet;       /* Bytes of data in each of the lost packets. */
  uint32_t mtu;          /* Bytes of a packet that the kernel sends to this host. */
  uint32_t milliseconds; /* At least so long nothing of it has been acknowledged. */
};

void by_large_loss_init(struct by_large_loss_finder *finder, struct by_loop *loop);
void by_large_loss_fini(struct by_large_loss_finder *finder);
/* Looks at a TCP connection; to be called every few seconds while something waits for it. True if its large packets are
 * lost: small ones passed, and since then large ones were sent twice in vain. `port`: where the host
 * listens; 0: the connection's. Does not block. */
bool by_large_loss_look(struct by_large_loss_finder *finder, int fd, int port, struct by_large_loss *out);

/* What is known of data that a TCP connection, which may have timed out, sent again in vain. False: there is none, or
 * its packets were small. Whether small ones passed is not known. */
bool by_large_loss_hint(int fd, char *text, size_t capacity);
/* Adds that to an error, made by by_fail. Returns `status`. */
enum banyan_status by_large_loss_add_hint(int fd, enum banyan_status status);

#endif
