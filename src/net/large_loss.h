/* Finds connections on which large packets are lost though small ones pass: the path has a lower MTU than its ends,
 * and no ICMP message tells them. The kernel repeats such a packet without success. Another connection to the same
 * host, whose packets are small, distinguishes this from an outage: it is accepted or refused. On one loop's thread. */
#ifndef BY_NET_LARGE_LOSS_H
#define BY_NET_LARGE_LOSS_H

#include "address.h"
#include "loop.h"

enum { BY_LARGE_LOSS_SUSPECTS = 16 };

/* Advice for users. */
#define BY_LARGE_LOSS_ADVICE                                                                                           \
  "lower the MTU of their interfaces to that of the path, let ICMP \"fragmentation needed\" pass, or set the "         \
  "sysctl net.ipv4.tcp_mtu_probing to 1"

struct by_large_loss_finder {
  struct by_loop *loop;
  struct by_large_loss_suspect {
    struct by_address local, peer; /* The ends of the connection; peer.length 0: unused. */
    uint64_t acknowledged;         /* Bytes acknowledged when it became a suspect. */
    uint64_t since;                /* When it became a suspect, ns. */
    uint64_t bytes;                /* Bytes sent, including repetitions, when the other connection was begun. */
    uint32_t packets;              /* Packets that carried `bytes`. */
    bool small_pass;
    int fd; /* The other connection; -1: none. */
    struct by_watch *watch;
  } suspects[BY_LARGE_LOSS_SUSPECTS];
  uint32_t next; /* The suspect to be replaced next. */
};

struct by_large_loss {
  struct by_address peer;
  uint32_t packet;       /* Bytes of data in each of the lost packets. */
  uint32_t mtu;          /* Bytes of a packet that the kernel sends to this host. */
  uint32_t milliseconds; /* Milliseconds for which at least nothing was acknowledged. */
};

void by_large_loss_init(struct by_large_loss_finder *finder, struct by_loop *loop);
void by_large_loss_fini(struct by_large_loss_finder *finder);
/* Checks a TCP connection; to be called every few seconds while something waits for it. Returns true if its large
 * packets are lost: small ones passed, and afterwards large ones were lost at least twice. `port` is where the host
 * listens; 0: the connection's. Does not block. */
bool by_large_loss_look(struct by_large_loss_finder *finder, int fd, int port, struct by_large_loss *out);

/* Describes data that a TCP connection, which may have timed out, repeated without success. Returns false if there is
 * none, or its packets were small. Whether small ones passed is not known. */
bool by_large_loss_hint(int fd, char *text, size_t capacity);
/* Appends that description to an error of by_fail. Returns `status`. */
enum banyan_status by_large_loss_add_hint(int fd, enum banyan_status status);

#endif
