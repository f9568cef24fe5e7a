/* UDP sockets of trees through switches: collects fragments into runs of datagrams, and passes received ones on. */
#include "udp.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "datagram.h"
#include "descriptor.h"
#include "fail.h"

enum {
  RUNS = 128,        /* Runs of datagrams that are being filled, or have found no space in the socket. */
  MAX_ROUNDS = 4,    /* Rounds of receiving before other work has its turn. */
  HOPS = 64,         /* IP's time to live. */
  CAN_BE_MARKED = 2, /* IP's ECT(0). */
  MARKED = 3,        /* IP's CE. */
  ECN = 3            /* The bits of ECN. */
};

/* Fragments for one peer, which have one size except for the last. */
struct run {
  struct iovec ranges[BY_DATAGRAM_SEGMENTS];
  uint32_t n_ranges, n, size, bytes;
  uint32_t copied; /* Bytes of `memory` that are used. */
  _Alignas(64) unsigned char memory[BY_DATAGRAM_MAX / 64 * 64];
};

struct by_udp_peer {
  struct by_udp *udp;
  struct by_datagram_path path;
  struct run *run; /* NULL: nothing is collected. */
  TAILQ_ENTRY(by_udp_peer) link;
};

struct receiver {
  uint16_t job;
  by_udp_take take;
  void *context;
  const struct by_hop_key *key;
};

struct by_udp {
  int fd, port;
  uint32_t n_receivers, last; /* last: the receiver of the last packet. */
  struct receiver receivers[BY_UDP_JOBS];
  uint8_t tos;
  TAILQ_HEAD(, by_udp_peer) collecting; /* In the order in which their runs were begun. */
  uint32_t n_free, n_waiting;           /* Runs. Those that wait belong to the mailer. */
  struct run *free[RUNS], *waiting[RUNS];
  struct by_udp_counters counters;
  struct by_mailer mailer;
  struct by_mailbox mailbox;
  struct run runs[RUNS];
};

/* --- one socket --- */

/* Binds the first port of the range that is free. */
static bool bind_in(int fd, int family, struct by_port_range ports) {
  struct by_address local;
  for (int port = ports.low; port <= ports.high; port++) {
    by_address_any(&local, family, port);
    if (bind(fd, (struct sockaddr *)&local.storage, local.length) == 0) return true;
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

static int open_family(int family) {
  return BY_DESCRIPTOR(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/* Opens a socket, for IPv4 only if the kernel has no IPv6. */
static enum banyan_status open_socket(struct by_udp *udp, struct by_port_range ports) {
  struct by_address local;
  int family = AF_INET6, both = 0;
  udp->fd = open_family(family);
  if (udp->fd >= 0 && setsockopt(udp->fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP socket for IPv4 and IPv6");
  if (udp->fd < 0) udp->fd = open_family(family = AF_INET);
  if (udp->fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP socket for trees through switches");
  BY_TRY(by_datagram_prepare(udp->fd));
  if (!bind_in(udp->fd, family, ports))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP port of %d to %d for trees through switches", ports.low,
                         ports.high);
  BY_TRY(by_socket_get_local(udp->fd, &local));
  udp->port = by_address_port(&local);
  return BANYAN_OK;
}

enum banyan_status by_udp_create(struct by_port_range ports, struct by_udp **out) {
  /* Most of it is never touched, since runs used last are used first. */
  struct by_udp *udp = aligned_alloc(64, (sizeof *udp + 63) / 64 * 64);
  if (!udp) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for trees through switches");
  memset(udp, 0, offsetof(struct by_udp, mailbox));
  TAILQ_INIT(&udp->collecting);
  udp->tos = CAN_BE_MARKED;
  udp->mailer.keeps = true;
  udp->n_free = RUNS;
  for (uint32_t i = 0; i < RUNS; i++) udp->free[i] = &udp->runs[RUNS - 1 - i];
  enum banyan_status status = open_socket(udp, ports);
  if (status != BANYAN_OK) {
    by_udp_destroy(udp);
    return status;
  }
  udp->mailer.fd = udp->fd;
  by_mailbox_init(&udp->mailbox);
  *out = udp;
  return BANYAN_OK;
}

void by_udp_destroy(struct by_udp *udp) {
  if (!udp) return;
  if (udp->fd >= 0) by_close(udp->fd);
  free(udp);
}

int by_udp_port(const struct by_udp *udp) {
  return udp->port;
}

int by_udp_fd(const struct by_udp *udp) {
  return udp->fd;
}

void by_udp_note_dropped(struct by_udp *udp, uint64_t forged, uint64_t replayed) {
  udp->counters.forged += forged;
  udp->counters.replayed += replayed;
}

void by_udp_count(const struct by_udp *udp, struct by_udp_counters *out) {
  *out = udp->counters;
  out->sent = udp->mailer.sent;
  out->unsent += udp->mailer.unsent;
}

/* --- sending --- */

void by_udp_set_mark(struct by_udp *udp, const struct by_mark *mark) {
  if (mark->tos >= 0) udp->tos = (uint8_t)((mark->tos & ~ECN) | CAN_BE_MARKED);
}

enum banyan_status by_udp_peer_create(struct by_udp *udp, const struct by_address *to, struct by_udp_peer **out) {
  struct by_udp_peer *peer = calloc(1, sizeof *peer);
  if (!peer) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for trees through switches");
  peer->udp = udp;
  peer->path = (struct by_datagram_path){
      .to = by_address_host(to), .to_port = htons((uint16_t)by_address_port(to)), .ttl = HOPS};
  *out = peer;
  return BANYAN_OK;
}

void by_udp_peer_set_source(struct by_udp_peer *peer, const struct by_address *source) {
  peer->path.from = by_address_host(source);
}

/* Completes a peer's run, which then belongs to the mailer. */
static void end_run(struct by_udp_peer *peer) {
  struct by_udp *udp = peer->udp;
  const struct run *run = peer->run;
  assert(run); /* All peers in the queue have one. */
  TAILQ_REMOVE(&udp->collecting, peer, link);
  udp->waiting[udp->n_waiting++] = peer->run;
  peer->run = NULL;
  peer->path.tos = udp->tos;
  by_mailer_add(&udp->mailer, &peer->path, run->ranges, run->n_ranges, run->size);
}

static void free_runs(struct by_udp *udp) {
  while (udp->n_waiting) udp->free[udp->n_free++] = udp->waiting[--udp->n_waiting];
}

static bool send_waiting(struct by_udp *udp) {
  bool sent = by_mailer_flush(&udp->mailer);
  if (sent) free_runs(udp);
  return sent;
}

bool by_udp_flush(struct by_udp *udp) {
  if (TAILQ_EMPTY(&udp->collecting) && !udp->n_waiting) return true;
  while (!TAILQ_EMPTY(&udp->collecting)) end_run(TAILQ_FIRST(&udp->collecting));
  return send_waiting(udp);
}

static bool begin_run(struct by_udp_peer *peer, uint32_t size) {
  struct by_udp *udp = peer->udp;
  if (!udp->n_free) (void)by_udp_flush(udp);
  if (!udp->n_free) return false;
  peer->run = udp->free[--udp->n_free];
  peer->run->n_ranges = peer->run->n = peer->run->bytes = peer->run->copied = 0;
  peer->run->size = size;
  TAILQ_INSERT_TAIL(&udp->collecting, peer, link);
  return true;
}

static bool continues_run(const struct run *run, uint32_t bytes) {
  return run->bytes == run->n * run->size && bytes <= run->size && run->bytes + bytes <= sizeof run->memory &&
         run->n < BY_DATAGRAM_SEGMENTS;
}

/* The run for so many bytes; NULL: there is none. */
static struct run *run_for(struct by_udp_peer *peer, uint32_t bytes) {
  if (peer->run && !continues_run(peer->run, bytes)) end_run(peer);
  if (peer->run || begin_run(peer, bytes)) return peer->run;
  peer->udp->counters.unsent++;
  return NULL;
}

static void append_bytes(struct by_udp_peer *peer, void *packet, uint32_t bytes) {
  struct run *run = peer->run;
  run->n_ranges = by_ranges_append(run->ranges, run->n_ranges, packet, bytes);
  run->n++;
  run->bytes += bytes;
  if (continues_run(run, run->size)) return;
  end_run(peer); /* Sent at once: the receiver can begin, and the run's memory is still in the cache when it is used
                    again. */
  (void)send_waiting(peer->udp);
}

void by_udp_send(struct by_udp_peer *peer, const struct by_fragment *packet) {
  uint32_t bytes = by_fragment_bytes(packet);
  struct run *run = run_for(peer, bytes);
  if (!run) return;
  void *copy = memcpy(run->memory + run->copied, packet, bytes);
  run->copied += bytes;
  append_bytes(peer, copy, bytes);
}

void by_udp_lend(struct by_udp_peer *peer, const struct by_fragment *packet) {
  uint32_t bytes = by_fragment_bytes(packet);
  if (run_for(peer, bytes)) append_bytes(peer, (void *)(uintptr_t)packet, bytes);
}

void by_udp_peer_destroy(struct by_udp_peer *peer) {
  if (!peer) return;
  if (!by_udp_flush(peer->udp)) { /* Packets that were lent end with the peer. */
    by_mailer_drop(&peer->udp->mailer);
    free_runs(peer->udp);
  }
  free(peer);
}

/* --- receiving --- */

static struct receiver *find_receiver(struct by_udp *udp, uint16_t job) {
  if (udp->last < udp->n_receivers && udp->receivers[udp->last].job == job) return &udp->receivers[udp->last];
  for (uint32_t i = 0; i < udp->n_receivers; i++)
    if (udp->receivers[i].job == job) return &udp->receivers[udp->last = i];
  return NULL;
}

enum banyan_status by_udp_listen(struct by_udp *udp, uint16_t job, by_udp_take take, void *context) {
  if (find_receiver(udp, job) || udp->n_receivers == BY_UDP_JOBS)
    return by_fail(BANYAN_ERR_ARGUMENT, "UDP port %d takes job %u already, or %d others", udp->port, job, BY_UDP_JOBS);
  udp->receivers[udp->n_receivers++] = (struct receiver){.job = job, .take = take, .context = context};
  return BANYAN_OK;
}

void by_udp_authenticate(struct by_udp *udp, uint16_t job, const struct by_hop_key *key) {
  struct receiver *receiver = find_receiver(udp, job);
  if (receiver) receiver->key = key;
}

void by_udp_forget(struct by_udp *udp, uint16_t job) {
  struct receiver *receiver = find_receiver(udp, job);
  if (receiver) *receiver = udp->receivers[--udp->n_receivers];
}

/* Whether more than half of the socket's buffer is used, so that senders should send less. */
static bool is_filling(const struct by_udp *udp) {
  uint32_t info[SK_MEMINFO_VARS];
  socklen_t length = sizeof info;
  if (getsockopt(udp->fd, SOL_SOCKET, SO_MEMINFO, info, &length) || length <= SK_MEMINFO_RCVBUF * sizeof *info)
    return false;
  return info[SK_MEMINFO_RMEM_ALLOC] > info[SK_MEMINFO_RCVBUF] / 2;
}

static void take_packet(struct by_udp *udp, struct by_fragment *packet, uint32_t bytes, bool mark, uint64_t now) {
  const struct receiver *receiver = bytes < sizeof *packet ? NULL : find_receiver(udp, packet->job);
  udp->counters.received++;
  if (!receiver) {
    udp->counters.strange++;
    return;
  }
  if (mark) by_fragment_mark(packet, bytes, receiver->key);
  receiver->take(receiver->context, packet, bytes, now);
}

static void take_datagram(struct by_udp *udp, const struct by_datagram *datagram, bool filling, uint64_t now) {
  bool mark = filling || (datagram->path.tos & 3) == MARKED;
  if (datagram->size == 0 || datagram->size % BY_FRAGMENT_LINE) {
    udp->counters.strange++;
    return;
  }
  for (uint32_t at = 0; at < datagram->n; at += datagram->size) {
    uint32_t left = datagram->n - at, bytes = left < datagram->size ? left : datagram->size;
    take_packet(udp, (struct by_fragment *)(void *)(datagram->bytes + at), bytes, mark, now);
  }
}

bool by_udp_progress(struct by_udp *udp, uint64_t now) {
  int rounds = 0, n = BY_DATAGRAMS;
  for (; rounds < MAX_ROUNDS && n == BY_DATAGRAMS; rounds++) {
    n = by_mailbox_receive(&udp->mailbox, udp->fd);
    if (n == 0) break;
    bool filling = is_filling(udp);
    for (int i = 0; i < n; i++) {
      struct by_datagram datagram = by_mailbox_get(&udp->mailbox, i);
      take_datagram(udp, &datagram, filling, now);
    }
    (void)by_udp_flush(udp);
  }
  if (!rounds) (void)by_udp_flush(udp);
  return rounds > 0;
}
