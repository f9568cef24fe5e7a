/* Detects lost large packets. Suspects are connections that retransmit large packets. Data that is lost again after
 * small packets have passed is the proof, however long the kernel waits between attempts. */
#include "large_loss.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

#include "descriptor.h"
#include "socket.h"

enum {
  LARGE = 536, /* Bytes of data that every path carries in a packet. */
  PROOF = 2    /* Attempts that fail after small packets have passed. */
};

struct attempts {
  uint64_t acknowledged, bytes, resent_bytes; /* bytes: all that were sent, including repetitions. */
  uint32_t packets, resent;                   /* The packets of these bytes. */
  uint32_t probes, mtu, segment;
  bool in_vain; /* More was sent than was acknowledged, and not for the first time. */
};

/* Reads a connection's attempts, also if it has just ended by a timeout. Returns false if it is no TCP connection, or
 * the kernel is too old. A device of this host may drop large packets, too: the kernel then takes them back, and
 * probes. A closed window is probed without data. */
static bool get_attempts(int fd, struct attempts *out) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info, min = offsetof(struct tcp_info, tcpi_bytes_retrans) + sizeof(uint64_t);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || length < min) return false;
  *out = (struct attempts){.acknowledged = info.tcpi_bytes_acked,
                           .bytes = info.tcpi_bytes_sent,
                           .resent_bytes = info.tcpi_bytes_retrans,
                           .packets = info.tcpi_data_segs_out,
                           .resent = info.tcpi_total_retrans,
                           .probes = info.tcpi_probes,
                           .mtu = info.tcpi_pmtu,
                           .segment = info.tcpi_snd_mss};
  out->in_vain = (info.tcpi_retransmits || info.tcpi_probes) && out->bytes >= out->acknowledged + LARGE;
  return true;
}

static uint32_t mean_size(uint64_t bytes, uint32_t packets) {
  return packets ? (uint32_t)(bytes / packets) : 0;
}

/* ---- small packets */

static void end_other(struct by_large_loss_suspect *suspect) {
  by_loop_unwatch(suspect->watch);
  suspect->watch = NULL;
  if (suspect->fd >= 0) by_close(suspect->fd);
  suspect->fd = -1;
}

static void forget_suspect(struct by_large_loss_suspect *suspect) {
  end_other(suspect);
  suspect->peer.length = 0;
  suspect->small_pass = false;
}

/* Notes the answer to the other connection, which may be a refusal. One that arrived only after the first packet was
 * repeated does not tell when packets began to pass. */
static void note_answer(void *context, uint32_t events) {
  struct by_large_loss_suspect *suspect = context;
  struct attempts attempts;
  int error = 0;
  socklen_t length = sizeof error;
  (void)events;
  if (getsockopt(suspect->fd, SOL_SOCKET, SO_ERROR, &error, &length)) error = errno;
  suspect->small_pass = (!error || error == ECONNREFUSED) && get_attempts(suspect->fd, &attempts) && !attempts.resent;
  end_other(suspect);
}

/* Begins the other connection, with the marks of the first one, so that queues treat it alike. */
static void connect_other(struct by_large_loss_finder *finder, struct by_large_loss_suspect *suspect,
                          const struct attempts *attempts, int like, int port) {
  struct by_address to = suspect->peer;
  int v6 = by_address_family(&to) == AF_INET6, value;
  socklen_t length = sizeof value;
  suspect->bytes = attempts->bytes;
  suspect->packets = attempts->packets;
  if (port) by_address_set_port(&to, port);
  suspect->fd = BY_DESCRIPTOR(socket(by_address_family(&to), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (suspect->fd < 0) return;
  if (!getsockopt(like, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS, &value, &length))
    (void)!by_socket_set_tos(suspect->fd, value);
  if (!getsockopt(like, SOL_SOCKET, SO_PRIORITY, &value, &length))
    (void)!by_socket_set(suspect->fd, BY_SOCKET_PRIORITY, value);
  bool begun = connect(suspect->fd, (const struct sockaddr *)&to.storage, to.length) == 0 || errno == EINPROGRESS;
  if (!begun || by_loop_watch(finder->loop, suspect->fd, EPOLLOUT, note_answer, suspect, &suspect->watch) != BANYAN_OK)
    end_other(suspect);
}

/* ---- suspects */

/* The suspect of a connection. `peer` NULL: the connection has ended, and the kernel no longer tells its peer. */
static struct by_large_loss_suspect *find_suspect(struct by_large_loss_finder *finder, const struct by_address *local,
                                                  const struct by_address *peer) {
  for (int i = 0; i < BY_LARGE_LOSS_SUSPECTS; i++) {
    struct by_large_loss_suspect *suspect = &finder->suspects[i];
    if (suspect->peer.length && (!peer || !by_address_compare(&suspect->peer, peer)) &&
        !by_address_compare(&suspect->local, local))
      return suspect;
  }
  return NULL;
}

static struct by_large_loss_suspect *add_suspect(struct by_large_loss_finder *finder, const struct by_address *local,
                                                 const struct by_address *peer, const struct attempts *attempts) {
  struct by_large_loss_suspect *suspect = &finder->suspects[finder->next++ % BY_LARGE_LOSS_SUSPECTS];
  forget_suspect(suspect);
  suspect->local = *local;
  suspect->peer = *peer;
  suspect->acknowledged = attempts->acknowledged;
  suspect->since = by_loop_now(finder->loop);
  return suspect;
}

/* The bytes of data in packets that were lost since small ones passed; 0: that is not proved. */
static uint32_t lost_size(const struct by_large_loss_suspect *suspect, const struct attempts *attempts) {
  uint32_t packets = attempts->packets - suspect->packets;
  return suspect->small_pass && packets >= PROOF ? mean_size(attempts->bytes - suspect->bytes, packets) : 0;
}

bool by_large_loss_look(struct by_large_loss_finder *finder, int fd, int port, struct by_large_loss *out) {
  struct attempts attempts;
  struct by_address local, peer;
  if (!get_attempts(fd, &attempts) || by_socket_get_local(fd, &local) != BANYAN_OK) return false;
  bool lives = by_socket_get_peer(fd, &peer) == BANYAN_OK;
  struct by_large_loss_suspect *suspect = find_suspect(finder, &local, lives ? &peer : NULL);
  if (suspect && suspect->acknowledged != attempts.acknowledged) {
    forget_suspect(suspect);
    suspect = NULL;
  }
  if (!suspect && (!attempts.in_vain || !lives)) return false;
  if (!suspect) suspect = add_suspect(finder, &local, &peer, &attempts);
  if (!suspect->small_pass && suspect->fd < 0) connect_other(finder, suspect, &attempts, fd, port);
  *out =
      (struct by_large_loss){.peer = suspect->peer,
                             .packet = lost_size(suspect, &attempts),
                             .mtu = attempts.mtu,
                             .milliseconds = (uint32_t)((by_loop_now(finder->loop) - suspect->since) / BY_MILLISECOND)};
  return out->packet >= LARGE;
}

void by_large_loss_init(struct by_large_loss_finder *finder, struct by_loop *loop) {
  *finder = (struct by_large_loss_finder){.loop = loop};
  for (int i = 0; i < BY_LARGE_LOSS_SUSPECTS; i++) finder->suspects[i].fd = -1;
}

void by_large_loss_fini(struct by_large_loss_finder *finder) {
  for (int i = 0; i < BY_LARGE_LOSS_SUSPECTS; i++) forget_suspect(&finder->suspects[i]);
}

bool by_large_loss_hint(int fd, char *text, size_t capacity) {
  struct attempts attempts;
  if (!get_attempts(fd, &attempts) || attempts.bytes - attempts.resent_bytes < attempts.acknowledged + LARGE)
    return false;
  uint32_t times = attempts.resent + attempts.probes;
  uint32_t size = attempts.resent ? mean_size(attempts.resent_bytes, attempts.resent) : attempts.segment;
  if (size < LARGE || times < PROOF) return false;
  snprintf(text, capacity,
           "packets with %u bytes of data were sent %u times without an answer (MTU %u): if small ones "
           "pass, " BY_LARGE_LOSS_ADVICE,
           size, times + 1, attempts.mtu);
  return true;
}

enum banyan_status by_large_loss_add_hint(int fd, enum banyan_status status) {
  char text[1024], hint[512];
  if (!by_large_loss_hint(fd, hint, sizeof hint)) return status;
  snprintf(text, sizeof text, "%s", banyan_error_text());
  return by_fail(status, "%s; %s", text, hint);
}
