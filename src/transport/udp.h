/* An end of trees through switches, on UDP: one socket for all trees that this
 * process has part in, as a worker or as a server. Fragments are collected and
 * leave together; what comes is handed out by job. IPv4 and IPv6, by one port.
 * Never blocks; all memory is there from the start. One thread at a time. */
#ifndef BY_TRANSPORT_UDP_H
#define BY_TRANSPORT_UDP_H

#include "address.h"
#include "clock.h"
#include "fabric.h"
#include "fragment_mac.h"
#include "lane.h"
#include "socket.h"
#include "worker.h"

enum { BY_UDP_JOBS = 256 };

struct by_udp;
struct by_udp_peer; /* a receiver of fragments */

typedef void (*by_udp_take)(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now);

struct by_udp_counters {
  uint64_t sent, unsent; /* fragments; unsent: no route, or no room for too long */
  uint64_t received;
  uint64_t strange;          /* no fragment, or of a job that nobody takes */
  uint64_t forged, replayed; /* which workers on this socket have dropped */
};

/* On the first port of the range that is free on all interfaces; 0: one that the kernel chooses. The caller owns *out.
 */
BANYAN_CHECK enum banyan_status by_udp_create(struct by_port_range ports, struct by_udp **out);
/* Peers and receivers are gone by then. NULL is allowed. */
void by_udp_destroy(struct by_udp *udp);
int by_udp_port(const struct by_udp *udp);
/* Readable when something has come, writable when there is room for what had none. */
int by_udp_fd(const struct by_udp *udp);

/* Calls `take` with each packet that comes for the job, at an address divisible by 64, marked where queues are filling;
 * whether it is a fragment otherwise is not looked at. BANYAN_ERR_ARGUMENT: somebody has that job already, or
 * BY_UDP_JOBS are there. */
BANYAN_CHECK enum banyan_status by_udp_listen(struct by_udp *udp, uint16_t job, by_udp_take take, void *context);
/* The job's fragments have MACs under this key, which is borrowed until the job is forgotten: those that are marked are
 * signed again. */
void by_udp_authenticate(struct by_udp *udp, uint16_t job, const struct by_hop_key *key);
void by_udp_forget(struct by_udp *udp, uint16_t job);
/* Of what is sent from now on, the ToS byte: as it goes with each datagram, the kernel takes their priority from it. */
void by_udp_set_mark(struct by_udp *udp, const struct by_mark *mark);
/* Hands out what has come, some megabytes at most, and sends what is collected. True if anything came. */
bool by_udp_progress(struct by_udp *udp, uint64_t now);

/* To this address. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_udp_peer_create(struct by_udp *udp, const struct by_address *to,
                                                   struct by_udp_peer **out);
/* What it is sent comes from this address of the host; of length 0: from one that the kernel chooses. */
void by_udp_peer_set_source(struct by_udp_peer *peer, const struct by_address *source);
/* NULL is allowed. */
void by_udp_peer_destroy(struct by_udp_peer *peer);
/* A copy of it leaves with the next flush, or before. */
void by_udp_send(struct by_udp_peer *peer, const struct by_fragment *packet);
/* The same without a copy: the packet stays where it is until the next flush that returns true, or the peer is gone. It
 * may become another packet meanwhile, which is then sent in its place, or arrives as something malformed. */
void by_udp_lend(struct by_udp_peer *peer, const struct by_fragment *packet);
/* Sends what is collected. False: some of it found no room in the socket and stays for the next time. */
bool by_udp_flush(struct by_udp *udp);
/* A worker has dropped so many more of what it was given. */
void by_udp_note_dropped(struct by_udp *udp, uint64_t forged, uint64_t replayed);
void by_udp_count(const struct by_udp *udp, struct by_udp_counters *out);

/* Where a worker's fragments go. */
struct by_udp_path {
  struct by_address server;
  struct by_address source; /* see by_udp_peer_set_source; for what goes to the server */
  bool has_aggregator;      /* then terms and probes go there that are for what adds on the way, until it is lost */
  uint32_t process;         /* the aggregator's */
  struct by_address aggregator;
};

/* A fabric to a server; `config` but for emit and context. The socket must outlive it. */
BANYAN_CHECK enum banyan_status by_udp_fabric_create(struct by_udp *udp, const struct by_udp_path *path,
                                                     const struct by_worker_config *config,
                                                     const struct by_clock *clock, struct by_fabric **out);

#endif
