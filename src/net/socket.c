/* TCP sockets: listening, connecting, and their options. */
#include "socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "descriptor.h"
#include "text.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Of Linux 6.15; headers may be older. */
#endif

enum {
  A_DAY = 24 * 60 * 60 * 1000, /* Milliseconds. */
  PROBES = 12,     /* Probes within the silence after which a host counts as vanished; one per second at most. */
  MAX_RETRY = 1000 /* Milliseconds. Classes delay lower ones, which must go on as soon as they may. */
};

enum banyan_status by_port_range_parse(const char *text, struct by_port_range *out) {
  char low[8];
  const char *dash = strchr(text, '-');
  size_t length = dash ? (size_t)(dash - text) : strlen(text);
  long first, last;
  if (length >= sizeof low) return by_fail(BANYAN_ERR_PARSE, "\"%.64s\" is not a port range such as 29500-29600", text);
  memcpy(low, text, length);
  low[length] = '\0';
  BY_TRY(by_parse_int("port range's start", low, dash ? 1 : 0, 65535, &first));
  last = first;
  if (dash) BY_TRY(by_parse_int("port range's end", dash + 1, first, 65535, &last));
  *out = (struct by_port_range){(int)first, (int)last};
  return BANYAN_OK;
}

static const struct sockaddr *as_sockaddr(const struct by_address *address) {
  return (const struct sockaddr *)&address->storage;
}

static enum banyan_status set_option(int fd, int level, int option, int value, const char *what) {
  if (setsockopt(fd, level, option, &value, sizeof value) == 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot set %s to %d", what, value);
}

static enum banyan_status get_option(int fd, int level, int option, int *value, const char *what) {
  socklen_t length = sizeof *value;
  if (getsockopt(fd, level, option, value, &length) == 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read %s", what);
}

static int open_socket(int family) {
  return BY_DESCRIPTOR(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static int set_flag(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) < 0 ? errno : 0;
}

/* Binds a port, and listens. Returns 0 or an errno. A port can turn out to be used as late as in listen(). One that
 * is shared may be held by another process, or have old connections. Whatever it was bound with, others may share it
 * afterwards while no process listens. */
static int take_port(const struct by_address *at, bool listens, bool shares, int *out) {
  int error = 0, fd = open_socket(by_address_family(at));
  if (fd < 0) return errno;
  if (shares) error = set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (!error && by_address_family(at) == AF_INET6 && by_address_is_any(at))
    error = set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (!error && bind(fd, as_sockaddr(at), at->length) < 0) error = errno;
  if (!error && !shares) error = set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (!error && listens && listen(fd, SOMAXCONN) < 0) error = errno;
  if (error)
    by_close(fd);
  else
    *out = fd;
  return error;
}

static bool is_spared(const int spared[BY_SPARED_PORTS], int port) {
  for (int i = 0; spared && i < BY_SPARED_PORTS; i++)
    if (spared[i] == port) return true;
  return false;
}

/* Takes a port of a range. Spared ports come last, and before them those that are in use: by a process that holds
 * them without listening, or by past connections. A port that is only held is searched from anywhere in the range, so
 * that jobs that start at the same time do not all try the same ones. */
static enum banyan_status take_in_range(struct by_address at, struct by_port_range ports, const int *spared,
                                        bool listens, int *out) {
  char text[BY_ADDRESS_TEXT];
  unsigned begin = 0;
  if (ports.low == 0) ports.low = ports.high = by_address_port(&at);
  int error = EADDRINUSE, n = ports.high - ports.low + 1;
  if (!listens && getrandom(&begin, sizeof begin, 0) != sizeof begin) begin = (unsigned)getpid();
  for (int pass = 0; pass < 4; pass++) {
    bool last = pass >= 2, shares = pass % 2 || n == 1;
    for (int i = 0; i < n && error == EADDRINUSE; i++) {
      int port = ports.low + (int)((begin % (unsigned)n + (unsigned)i) % (unsigned)n);
      if (is_spared(spared, port) != last) continue;
      by_address_set_port(&at, port);
      error = take_port(&at, listens, shares, out);
    }
  }
  if (!error) return BANYAN_OK;
  by_address_print_host(&at, text);
  if (error == EADDRINUSE && ports.low != ports.high)
    return by_fail(BANYAN_ERR_SYSTEM, "cannot listen on %s: all ports from %d to %d are in use: choose a larger range",
                   text, ports.low, ports.high);
  if (error == EADDRINUSE)
    return by_fail(BANYAN_ERR_SYSTEM, "cannot listen on %s port %d: %s: choose another, or end what listens there",
                   text, by_address_port(&at), strerror(error));
  return by_fail_errno(BANYAN_ERR_SYSTEM, error, "cannot listen on %s port %d", text, by_address_port(&at));
}

static enum banyan_status open_port(const struct by_address *at, struct by_port_range ports, const int *spared,
                                    bool listens, int *fd, struct by_address *bound) {
  struct by_address any;
  int socket = -1;
  if (!at) {
    int v6 = open_socket(AF_INET6);
    by_address_any(&any, v6 >= 0 ? AF_INET6 : AF_INET, 0);
    if (v6 >= 0) by_close(v6);
    at = &any;
  }
  BY_TRY(take_in_range(*at, ports, spared, listens, &socket));
  enum banyan_status status = by_socket_get_local(socket, bound);
  if (status != BANYAN_OK)
    by_close(socket);
  else
    *fd = socket;
  return status;
}

enum banyan_status by_socket_listen(const struct by_address *at, struct by_port_range ports, int *fd,
                                    struct by_address *bound) {
  return open_port(at, ports, NULL, true, fd, bound);
}

enum banyan_status by_socket_listen_sparing(struct by_port_range ports, const int spared[BY_SPARED_PORTS], int *fd,
                                            struct by_address *bound) {
  return open_port(NULL, ports, spared, true, fd, bound);
}

enum banyan_status by_socket_hold(struct by_port_range ports, const int spared[BY_SPARED_PORTS], int *fd,
                                  struct by_address *bound) {
  return open_port(NULL, ports, spared, false, fd, bound);
}

/* Whether the error belongs to one connection that ended in the queue, not to the listener. */
static bool is_of_one_connection(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == ECONNABORTED || error == EINTR || error == EPROTO ||
         error == EPERM || error == ENETDOWN || error == EHOSTDOWN || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == ENOPROTOOPT || error == ENONET;
}

enum banyan_status by_socket_accept(int listener, int *fd, struct by_address *peer) {
  struct sockaddr_storage from;
  socklen_t length = sizeof from;
  *fd = BY_DESCRIPTOR(accept4(listener, (struct sockaddr *)&from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (*fd < 0 && !is_of_one_connection(errno))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot accept a connection");
  if (*fd >= 0 && peer) by_address_set(peer, (struct sockaddr *)&from, length);
  return BANYAN_OK;
}

static enum banyan_status cannot_connect(const struct by_address *to, int error) {
  char text[BY_ADDRESS_TEXT];
  if (error == EMFILE || error == ENFILE)
    return by_fail_errno(BANYAN_ERR_SYSTEM, error, "cannot make a connection to %s", by_address_print(to, text));
  const char *hint = error == ECONNREFUSED ? " (nobody listens there)"
                     : error == ETIMEDOUT  ? " (no answer; does a firewall drop it?)"
                                           : "";
  enum banyan_status status =
      by_fail(BANYAN_ERR_CONNECT, "cannot connect to %s: %s%s", by_address_print(to, text), strerror(error), hint);
  errno = error;
  return status;
}

enum banyan_status by_socket_connect_start(const struct by_address *to, int *fd) {
  int socket = open_socket(by_address_family(to));
  if (socket < 0) return cannot_connect(to, errno);
  if (by_address_is_loopback(to)) (void)!by_socket_set_congestion(socket, BY_CONGESTION_WITHIN_HOST);
  if (connect(socket, as_sockaddr(to), to->length) == 0 || errno == EINPROGRESS || errno == EINTR) {
    *fd = socket;
    return BANYAN_OK;
  }
  int error = errno;
  by_close(socket);
  return cannot_connect(to, error);
}

enum banyan_status by_socket_connect_finish(int fd, const struct by_address *to, bool *done) {
  struct by_address local, peer;
  int error = 0;
  *done = false;
  BY_TRY(get_option(fd, SOL_SOCKET, SO_ERROR, &error, "a connection's state"));
  if (error) return cannot_connect(to, error);
  if (by_socket_get_peer(fd, &peer) != BANYAN_OK) return BANYAN_OK;
  /* A free local port can, by chance, be the one that is connected to: the socket then talks to itself. */
  if (by_socket_get_local(fd, &local) == BANYAN_OK && by_address_compare(&local, &peer) == 0)
    return cannot_connect(to, ECONNREFUSED);
  *done = true;
  return BANYAN_OK;
}

/* Linux repeats the first packet after 1 s. */
bool by_socket_connected_late(int fd) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_total_retrans > 0 &&
         info.tcpi_rtt >= 900000;
}

enum banyan_status by_socket_get_local(int fd, struct by_address *out) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  if (getsockname(fd, (struct sockaddr *)&storage, &length) < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read a socket's own address");
  by_address_set(out, (struct sockaddr *)&storage, length);
  return BANYAN_OK;
}

enum banyan_status by_socket_get_peer(int fd, struct by_address *out) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  if (getpeername(fd, (struct sockaddr *)&storage, &length) < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read a socket's peer address");
  by_address_set(out, (struct sockaddr *)&storage, length);
  return BANYAN_OK;
}

bool by_socket_is_within_host(int fd) {
  struct by_address peer, local;
  if (by_socket_get_peer(fd, &peer) != BANYAN_OK || by_socket_get_local(fd, &local) != BANYAN_OK) return false;
  bool is_ip = peer.length > 0;
  return !is_ip || by_address_is_loopback(&peer) || by_address_compare_host(&peer, &local) == 0;
}

enum banyan_status by_socket_set(int fd, enum by_socket_option option, int value) {
  static const struct {
    int level, name;
    const char *what;
  } options[] = {
      [BY_SOCKET_NODELAY] = {IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY"},
      [BY_SOCKET_THIN] = {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS"},
      [BY_SOCKET_UNSENT] = {IPPROTO_TCP, TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT"},
      [BY_SOCKET_PRIORITY] = {SOL_SOCKET, SO_PRIORITY, "the socket's priority"},
      [BY_SOCKET_USER_TIMEOUT] = {IPPROTO_TCP, TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT"},
  };
  return set_option(fd, options[option].level, options[option].name, value, options[option].what);
}

enum banyan_status by_socket_set_congestion(int fd, const char *name) {
  char allowed[128];
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0) return BANYAN_OK;
  int error = errno;
  FILE *file = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "re");
  if (!file || !fgets(allowed, sizeof allowed, file)) strcpy(allowed, "unknown");
  allowed[strcspn(allowed, "\n")] = '\0';
  if (file) fclose(file);
  return by_fail(BANYAN_ERR_UNSUPPORTED, "congestion control \"%.32s\" cannot be used: %s; allowed here: %s", name,
                 strerror(error), allowed);
}

enum banyan_status by_socket_get_congestion(int fd, char *out) {
  socklen_t length = BY_CONGESTION_TEXT;
  memset(out, 0, BY_CONGESTION_TEXT);
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, out, &length) < 0)
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot read the congestion control");
  out[BY_CONGESTION_TEXT - 1] = '\0';
  return BANYAN_OK;
}

/* Sets a buffer's size, first in the privileged form, which is not bound by the host's limit. */
static enum banyan_status set_buffer(int fd, int forced, int plain, int bytes, const char *what) {
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) == 0) return BANYAN_OK;
  return set_option(fd, SOL_SOCKET, plain, bytes, what);
}

enum banyan_status by_socket_set_buffers(int fd, int send, int receive) {
  if (send) BY_TRY(set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, send, "the send buffer"));
  if (receive) BY_TRY(set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, receive, "the receive buffer"));
  return BANYAN_OK;
}

enum banyan_status by_socket_set_tos(int fd, int tos) {
  int family = AF_UNSPEC;
  BY_TRY(get_option(fd, SOL_SOCKET, SO_DOMAIN, &family, "a socket's family"));
  if (family != AF_INET6) return set_option(fd, IPPROTO_IP, IP_TOS, tos, "the ToS byte");
  /* An IPv6 socket may carry IPv4, which has a byte of its own. */
  (void)setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
  return set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, tos, "the traffic class");
}

enum banyan_status by_socket_set_max_retry(int fd, int milliseconds) {
  int old;
  socklen_t length = sizeof old;
  if (getsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &old, &length)) return BANYAN_OK;
  BY_TRY(by_socket_set(fd, BY_SOCKET_USER_TIMEOUT, A_DAY));
  return set_option(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, milliseconds, "TCP_RTO_MAX_MS");
}

enum banyan_status by_socket_set_keepalive(int fd, int idle, int interval, int count) {
  BY_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle, "TCP_KEEPIDLE"));
  BY_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval, "TCP_KEEPINTVL"));
  BY_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, count, "TCP_KEEPCNT"));
  return set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
}

static int probe_interval(double silence) {
  return silence < 2 * PROBES ? 1 : (int)(silence / PROBES);
}

uint32_t by_silence_limit(double silence) {
  return (uint32_t)(silence * 1000) + 1000 * (uint32_t)probe_interval(silence);
}

/* With a user timeout, probes are not counted: it also limits how long they stay unanswered. */
enum banyan_status by_socket_set_vigilant(int fd, double silence) {
  int interval = probe_interval(silence);
  BY_TRY(by_socket_set_max_retry(fd, MAX_RETRY));
  BY_TRY(by_socket_set(fd, BY_SOCKET_USER_TIMEOUT, (int)by_silence_limit(silence)));
  return by_socket_set_keepalive(fd, interval, interval, PROBES);
}

/* Uses no short user timeout, which would count while the peer's window is closed. Where the kernel counts probes,
 * the connection lasts longer than a vigilant one. */
enum banyan_status by_socket_set_patient(int fd, double silence) {
  int interval = probe_interval(silence);
  BY_TRY(by_socket_set_max_retry(fd, MAX_RETRY));
  return by_socket_set_keepalive(fd, 5 * interval, 2 * interval, PROBES);
}

bool by_socket_get_quiet(int fd, struct by_quiet *out) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info, min = offsetof(struct tcp_info, tcpi_last_ack_recv) + sizeof(uint32_t);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || length < min) return false;
  bool data = info.tcpi_last_data_recv < info.tcpi_last_ack_recv;
  *out = (struct by_quiet){.milliseconds = data ? info.tcpi_last_data_recv : info.tcpi_last_ack_recv,
                           .unanswered = info.tcpi_retransmits || info.tcpi_probes > 1};
  return true;
}
