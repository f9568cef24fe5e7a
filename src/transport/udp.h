/* An end of trees through switches, on UDP: one socket for all trees in which this process is a worker or a server.
 * Fragments are collected and sent together; received ones are passed on by job. IPv4 and IPv6 use one port. It never
 * blocks, and allocates all memory at the start. One thread at a time. */
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
struct by_udp_peer; /* A receiver of fragments. */

typedef void (*by_udp_take)(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now);

struct by_udp_counters {
  uint64_t sent, unsent; /* Fragments; unsent: without a route, or without space for too long. */
  uint64_t received;
  uint64_t strange;          /* Packets that are no fragments, or belong to no job here. */
  uint64_t forged, replayed; /* Fragments that workers on this socket have dropped. */
};

/* Binds the first port of the range that is free on all interfaces; 0: one that the kernel chooses. The caller owns
 * *out. */
BANYAN_CHECK enum banyan_status by_udp_create(struct by_port_range ports, struct by_udp **out);
/* Destroys the socket, after its peers and receivers. NULL is allowed. */
void by_udp_destroy(struct by_udp *udp);
int by_udp_port(const struct by_udp *udp);
/* The socket, which is readable when packets have arrived, and writable when packets that had no space can be sent. */
int by_udp_fd(const struct by_udp *udp);

/* Calls `take` with each packet that arrives for the job, at an address divisible by 64, with a mark if queues are
 * filling. Nothing else is checked. BANYAN_ERR_ARGUMENT: the job has a receiver, or there are BY_UDP_JOBS. */
BANYAN_CHECK enum banyan_status by_udp_listen(struct by_udp *udp, uint16_t job, by_udp_take take, void *context);
/* The job's fragments have MACs under this key, which is borrowed until the job is forgotten. Fragments that get a
 * mark are signed again. */
void by_udp_authenticate(struct by_udp *udp, uint16_t job, const struct by_hop_key *key);
void by_udp_forget(struct by_udp *udp, uint16_t job);
/* Sets the ToS byte of what is sent from now on. It is passed with each datagram, and the kernel derives the
 * priority. */
void by_udp_set_mark(struct by_udp *udp, const struct by_mark *mark);
/* Passes received packets on, some megabytes at most, and sends collected ones. Returns whether anything arrived. */
bool by_udp_progress(struct by_udp *udp, uint64_t now);

/* Makes a peer at this address. The caller owns *out. */
BANYAN_CHECK enum banyan_status by_udp_peer_create(struct by_udp *udp, const struct by_address *to,
                                                   struct by_udp_peer **out);
/* Sets the address of this host from which packets to the peer are sent; length 0: the kernel chooses. */
void by_udp_peer_set_source(struct by_udp_peer *peer, const struct by_address *source);
/* Destroys a peer; NULL is allowed. */
void by_udp_peer_destroy(struct by_udp_peer *peer);
/* Copies a packet, which is sent with the next flush or before. */
void by_udp_send(struct by_udp_peer *peer, const struct by_fragment *packet);
/* Sends a packet without a copy: it must stay until the next flush that returns true, or until the peer is destroyed.
 * It may become another packet meanwhile, which is then sent instead, or arrives malformed. */
void by_udp_lend(struct by_udp_peer *peer, const struct by_fragment *packet);
/* Sends collected packets. Returns false if some had no space in the socket and stay. */
bool by_udp_flush(struct by_udp *udp);
/* Counts fragments that a worker has dropped. */
void by_udp_note_dropped(struct by_udp *udp, uint64_t forged, uint64_t replayed);
void by_udp_count(const struct by_udp *udp, struct by_udp_counters *out);

/* The receivers of a worker's fragments. */
struct by_udp_path {
  struct by_address server;
  struct by_address source; /* The source of packets to the server, see by_udp_peer_set_source. */
  bool has_aggregator; /* Terms and probes that may be merged in the network go to the aggregator, until it is lost. */
  uint32_t process;    /* The process of the aggregator. */
  struct by_address aggregator;
};

/* A fabric to a server. `config` needs no emit and context. The socket must outlive it. */
BANYAN_CHECK enum banyan_status by_udp_fabric_create(struct by_udp *udp, const struct by_udp_path *path,
                                                     const struct by_worker_config *config,
                                                     const struct by_clock *clock, struct by_fabric **out);

#endif
