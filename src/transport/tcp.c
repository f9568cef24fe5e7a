/* Large payloads are not copied into the kernel: their pages go through a pipe
 * into the socket (vmsplice, splice), where the receiver's kernel, or a network
 * card, reads them. Loopback, 16 MiB: 3.7 to 4.7 ms against 5.4 to 12 with
 * send(), which stores over pages that the other core has just read. How slow
 * that is depends on where the cores are, and changes when a virtual machine
 * is moved: so copying is timed, and pages are mapped while it is slow.
 *
 * What comes in passes through a buffer that stays in the cache: headers and
 * what is added are used from there; what only has to be stored is received
 * behind it straight into its place. */
#include "lane.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"
#include "fail.h"
#include "large_loss.h"
#include "send_queue.h"
#include "socket.h"
#include "tls_socket.h"

enum { RX_BYTES = 256 << 10, HEADER_READ = 8 << 10, HEADER = sizeof(struct by_frame), REST = 8 };
enum { FRAME_MAX = 1 << 20 }; /* a pipe of 1 MiB, which everybody may have, takes it if it begins with a page */
enum { HELD_MAX = 512 };      /* bytes of frames without payload that wait for what goes with them */
enum { TIME_FROM = 32 << 10, TIME_EVERY = 64, MAP_FROM = 64 << 10, MAP_ALWAYS = 4 << 20, SLOW_COPYING = 300 };

struct tcp {
  struct by_lane lane;
  struct by_lane_ops ops; /* own copy: frame_bytes differs */
  int fd;
  struct by_tls_socket *secure; /* through which everything goes; NULL: in plain text */
  /* sending: frames held back, what is left of a header and of small payloads; then of a kept payload */
  char small[HELD_MAX + HEADER + BY_LANE_SMALL];
  size_t small_first, small_left;
  const char *kept;
  size_t kept_left;
  char *own;       /* a copy of a kept payload that went away */
  int pipe[2];     /* -1: not made yet; -2: cannot be made */
  size_t piped;    /* bytes in it: they go before what is kept */
  uint32_t rest;   /* flushes to leave out: the socket was full just now */
  double copying;  /* picoseconds a byte that send() took lately */
  uint32_t mapped; /* frames since it was last timed: one in TIME_EVERY is copied to see */
  struct by_pace pace;
  struct by_send_queue queue;
  size_t frame_max; /* on a fast link */
  int unsent_max;   /* TCP_NOTSENT_LOWAT when the lane was made; 0: the system's */
  /* receiving */
  struct by_frame frame;
  bool in_frame, dry; /* dry: the socket had no more when last asked */
  size_t first, last;
  char rx[RX_BYTES];
};

static struct tcp *tcp_of(const struct by_lane *lane) {
  return (struct tcp *)(uintptr_t)lane;
}

static void broke(struct tcp *tcp, int error) {
  enum banyan_status status = by_fail(BANYAN_ERR_PEER_DEAD, "its connection broke: %s", strerror(error));
  if (error == ETIMEDOUT) status = by_large_loss_add_hint(tcp->fd, status);
  by_lane_fail(&tcp->lane, status, "%s", banyan_error_text());
}

/* ---- sending */

/* A peer that is through closes its end, and may have sent before all that is needed from it: that is read to its end,
 * which is the lane's. */
static void cannot_send(struct tcp *tcp, int error) {
  bool full = error == EAGAIN || error == EINTR || error == ENOBUFS, closed = error == EPIPE || error == ECONNRESET;
  if (!full && !closed) broke(tcp, error);
}

/* The connection has ended, or what it carried was altered. The peer is no worse than if it had broken: another
 * connection may do, where there can be one. */
static void check_secure(struct tcp *tcp) {
  const char *why;
  enum banyan_status status = by_tls_socket_status(tcp->secure, &why);
  if (status == BANYAN_OK || tcp->lane.status != BANYAN_OK) return;
  const char *broken = status == BANYAN_ERR_PEER_DEAD ? "" : "its connection broke: ";
  by_lane_fail(&tcp->lane, BANYAN_ERR_PEER_DEAD, "%s%s", broken, why);
}

static ssize_t push_encrypted(struct tcp *tcp, const struct iovec *parts, size_t n) {
  size_t taken = by_tls_socket_send(tcp->secure, parts, n);
  int error = errno;
  check_secure(tcp);
  if (!taken && tcp->lane.status == BANYAN_OK) cannot_send(tcp, error);
  tcp->lane.sent += taken;
  return (ssize_t)taken;
}

static ssize_t push(struct tcp *tcp, struct iovec *parts, size_t n, int flags) {
  if (tcp->secure) return push_encrypted(tcp, parts, n);
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};
  ssize_t sent = sendmsg(tcp->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
  if (sent >= 0) {
    tcp->lane.sent += (uint64_t)sent;
    return sent;
  }
  cannot_send(tcp, errno);
  return 0;
}

/* splice() has no MSG_NOSIGNAL: into a broken connection it would end the process. The signal may have come whatever it
 * returned: that shows what went before the connection was found broken. */
static ssize_t splice_quietly(struct tcp *tcp, unsigned flags) {
  sigset_t pipe_only, before;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  ssize_t n = splice(tcp->pipe[0], NULL, tcp->fd, NULL, tcp->piped, flags);
  int error = errno;
  if (!sigismember(&before, SIGPIPE)) sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return n;
}

/* From the pipe into the socket. True when the pipe is empty. */
static bool drain_pipe(struct tcp *tcp) {
  while (tcp->piped) {
    unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK | (tcp->kept_left ? SPLICE_F_MORE : 0u);
    ssize_t n = splice_quietly(tcp, flags);
    if (n < 0) cannot_send(tcp, errno);
    if (n <= 0) return false;
    tcp->piped -= (size_t)n;
    tcp->lane.sent += (uint64_t)n;
  }
  return true;
}

/* What went of the parts in front of a payload. Returns how many bytes of it went too. */
static size_t account_small(struct tcp *tcp, size_t sent) {
  size_t small = sent < tcp->small_left ? sent : tcp->small_left;
  tcp->small_left -= small;
  tcp->small_first = tcp->small_left ? tcp->small_first + small : 0;
  return sent - small;
}

/* Messages from which on pages are mapped: few while copying is fast, and none where the link is slower than both. */
static void choose_mapping(struct tcp *tcp) {
  if (tcp->secure) return;
  size_t from = tcp->copying > SLOW_COPYING ? MAP_FROM : MAP_ALWAYS;
  tcp->ops.in_place_from = by_pace_is_slow(&tcp->pace) ? SIZE_MAX : from;
}

/* What was kept has gone: how fast that was decides what the link is given from now on. */
static void note_pace(struct tcp *tcp) {
  bool was_slow = by_pace_is_slow(&tcp->pace);
  by_pace_drained(&tcp->pace, by_clock_now(&by_clock_system));
  tcp->ops.frame_bytes = by_pace_frame(&tcp->pace, tcp->frame_max);
  choose_mapping(tcp);
  bool slow = by_pace_is_slow(&tcp->pace);
  int unsent = slow ? BY_PACE_UNSENT : tcp->unsent_max;
  if (slow != was_slow) (void)setsockopt(tcp->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static enum by_lane_sent keep(struct tcp *tcp) {
  by_pace_wait(&tcp->pace, tcp->piped + tcp->kept_left, by_clock_now(&by_clock_system));
  return BY_LANE_KEPT;
}

/* Small frames and headers, then what is in the pipe, then what is kept. True when all of it went. */
static bool push_rest(struct tcp *tcp) {
  if (tcp->piped && tcp->small_left) {
    struct iovec part = {tcp->small + tcp->small_first, tcp->small_left};
    account_small(tcp, (size_t)push(tcp, &part, 1, 0));
    if (tcp->small_left) return false;
  }
  if (tcp->rest) {
    tcp->rest--;
    return false;
  }
  if (!drain_pipe(tcp)) {
    tcp->rest = REST;
    return false;
  }
  if (!tcp->small_left && !tcp->kept_left) return true;
  struct iovec parts[2] = {{tcp->small + tcp->small_first, tcp->small_left},
                           {(void *)(uintptr_t)tcp->kept, tcp->kept_left}};
  size_t sent = account_small(tcp, (size_t)push(tcp, parts, 2, 0));
  if (sent) tcp->kept += sent; /* it may be NULL, to which nothing may be added */
  tcp->kept_left -= sent;
  return !tcp->small_left && !tcp->kept_left;
}

/* Whether nothing is left of what was encrypted. */
static bool flush_encrypted(struct tcp *tcp) {
  if (!tcp->secure || by_tls_socket_flush(tcp->secure)) return true;
  cannot_send(tcp, errno);
  return false;
}

static bool tcp_flush(struct by_lane *lane) {
  struct tcp *tcp = tcp_of(lane);
  bool waits = tcp->small_left || tcp->piped || tcp->kept_left;
  if (waits && (lane->status != BANYAN_OK || !push_rest(tcp))) return false;
  if (!flush_encrypted(tcp)) return false;
  if (tcp->pace.since) note_pace(tcp);
  return true;
}

static void append_small(struct tcp *tcp, const void *bytes, size_t n) {
  if (tcp->small_first) memmove(tcp->small, tcp->small + tcp->small_first, tcp->small_left);
  tcp->small_first = 0;
  if (n) memcpy(tcp->small + tcp->small_left, bytes, n);
  tcp->small_left += n;
}

/* Sends what is held back and a frame; `sent` counts the frame's bytes. False: not taken, nothing of it went. */
static bool push_frame(struct tcp *tcp, const struct by_frame *frame, const void *payload, size_t size, int flags,
                       size_t *sent) {
  struct iovec parts[3] = {{tcp->small + tcp->small_first, tcp->small_left},
                           {(void *)(uintptr_t)frame, HEADER},
                           {(void *)(uintptr_t)payload, size}};
  bool held = tcp->small_left > 0;
  *sent = account_small(tcp, (size_t)push(tcp, parts + !held, (size > 0) + 1u + held, flags));
  return *sent > 0;
}

/* Whether the lane takes a frame now: nothing but frames held back, which go with it, is before it. */
static bool takes(struct tcp *tcp) {
  if (tcp->lane.status != BANYAN_OK) return false;
  bool only_held = !tcp->pace.since && !tcp->piped && !tcp->kept_left && tcp->small_left <= HELD_MAX - HEADER;
  return only_held || tcp_flush(&tcp->lane);
}

static void look_at_queue(struct tcp *tcp, size_t bytes) {
  by_send_queue_look(&tcp->queue, tcp->fd, bytes);
  tcp->lane.rate = tcp->queue.rate;
}

static enum by_lane_sent tcp_send(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  struct tcp *tcp = tcp_of(lane);
  if (!takes(tcp)) return BY_LANE_FULL;
  if (!frame->size) {
    append_small(tcp, frame, HEADER);
    return BY_LANE_SENT;
  }
  look_at_queue(tcp, HEADER + (size_t)frame->size);
  bool timed = frame->size >= TIME_FROM;
  uint64_t before = timed ? by_clock_now(&by_clock_system) : 0;
  size_t sent = 0, all = HEADER + (size_t)frame->size;
  if (!push_frame(tcp, frame, payload, frame->size, 0, &sent)) return BY_LANE_FULL;
  if (timed && sent >= TIME_FROM) {
    double now = 1000 * (double)(by_clock_now(&by_clock_system) - before) / (double)sent;
    tcp->copying += (now - tcp->copying) / 4;
    choose_mapping(tcp);
  }
  if (sent == all) return tcp->secure && !flush_encrypted(tcp) ? BY_LANE_REST : BY_LANE_SENT;
  size_t of_header = sent < HEADER ? sent : HEADER, of_payload = sent - of_header;
  append_small(tcp, (const char *)frame + of_header, HEADER - of_header);
  if (frame->size <= BY_LANE_SMALL) {
    append_small(tcp, (const char *)payload + of_payload, frame->size - of_payload);
    return BY_LANE_REST;
  }
  tcp->kept = (const char *)payload + of_payload;
  tcp->kept_left = frame->size - of_payload;
  return keep(tcp);
}

/* What is in the pipe are the payload's pages, not copies. */
static void tcp_let_go(struct by_lane *lane) {
  struct tcp *tcp = tcp_of(lane);
  size_t bytes = tcp->piped + tcp->kept_left, got = 0;
  if (!bytes || lane->status != BANYAN_OK) return;
  char *own = malloc(bytes);
  for (ssize_t n = 1; own && got < tcp->piped && n > 0; got += n > 0 ? (size_t)n : 0)
    n = read(tcp->pipe[0], own + got, tcp->piped - got);
  if (!own || got < tcp->piped) {
    free(own);
    by_lane_fail(lane, BANYAN_ERR_NO_MEMORY, "no copy of %zu bytes that are still to be sent could be made", bytes);
    return;
  }
  memcpy(own + got, tcp->kept, tcp->kept_left);
  free(tcp->own);
  tcp->own = own;
  tcp->kept = own;
  tcp->kept_left = bytes;
  tcp->piped = 0;
}

/* A pipe with room for a frame's pages. False: there is none to be had. */
static bool has_pipe(struct tcp *tcp) {
  if (tcp->pipe[0] != -1) return tcp->pipe[0] >= 0;
  size_t bytes = tcp->frame_max;
  by_descriptors_lock();
  bool made = pipe2(tcp->pipe, O_NONBLOCK | O_CLOEXEC) == 0;
  for (int i = 0; i < 2 && made; i++) (void)by_descriptor_own(tcp->pipe[i]);
  by_descriptors_unlock();
  if (made) {
    if (fcntl(tcp->pipe[0], F_SETPIPE_SZ, (int)bytes) >= (int)bytes) return true;
    by_close(tcp->pipe[0]);
    by_close(tcp->pipe[1]);
  }
  tcp->pipe[0] = tcp->pipe[1] = -2;
  return false;
}

static enum by_lane_sent tcp_send_in_place(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  struct tcp *tcp = tcp_of(lane);
  if (!takes(tcp)) return BY_LANE_FULL;
  if (!has_pipe(tcp) || ++tcp->mapped >= TIME_EVERY) {
    tcp->mapped = 0;
    return tcp_send(lane, frame, payload);
  }
  size_t sent = 0;
  look_at_queue(tcp, HEADER + (size_t)frame->size);
  if (!push_frame(tcp, frame, NULL, 0, MSG_MORE, &sent)) return BY_LANE_FULL;
  append_small(tcp, (const char *)frame + sent, HEADER - sent);
  struct iovec part = {(void *)(uintptr_t)payload, frame->size};
  ssize_t mapped = vmsplice(tcp->pipe[1], &part, 1, SPLICE_F_NONBLOCK);
  tcp->piped = mapped > 0 ? (size_t)mapped : 0;
  tcp->kept = (const char *)payload + tcp->piped; /* what did not fit is copied */
  tcp->kept_left = frame->size - tcp->piped;
  return tcp_flush(lane) ? BY_LANE_SENT : keep(tcp);
}

/* ---- receiving */

static size_t pull_from_socket(struct tcp *tcp, void *to, size_t max) {
  if (tcp->lane.status != BANYAN_OK || !max) return 0;
  if (tcp->secure) {
    size_t got = by_tls_socket_receive(tcp->secure, to, max);
    tcp->dry = got < max;
    check_secure(tcp);
    return got;
  }
  ssize_t n = recv(tcp->fd, to, max, MSG_DONTWAIT);
  if (n > 0) {
    tcp->dry = (size_t)n < max;
    return (size_t)n;
  }
  tcp->dry = true;
  if (n == 0) by_lane_fail(&tcp->lane, BANYAN_ERR_PEER_DEAD, "it closed its connection");
  if (n < 0 && errno != EAGAIN && errno != EINTR) broke(tcp, errno);
  return 0;
}

static size_t buffered(const struct tcp *tcp) {
  return tcp->last - tcp->first;
}

static void fill(struct tcp *tcp, size_t max) {
  size_t have = buffered(tcp);
  if (!have) tcp->first = tcp->last = 0;
  if (have && RX_BYTES - tcp->last < max) {
    memmove(tcp->rx, tcp->rx + tcp->first, have);
    tcp->first = 0;
    tcp->last = have;
  }
  if (max > RX_BYTES - tcp->last) max = RX_BYTES - tcp->last;
  tcp->last += pull_from_socket(tcp, tcp->rx + tcp->last, max);
}

static const struct by_frame *tcp_peek(struct by_lane *lane) {
  struct tcp *tcp = tcp_of(lane);
  if (tcp->in_frame) return &tcp->frame;
  if (buffered(tcp) < HEADER && !tcp->dry) fill(tcp, HEADER_READ);
  if (buffered(tcp) < HEADER) {
    tcp->dry = false;
    return NULL;
  }
  memcpy(&tcp->frame, tcp->rx + tcp->first, HEADER);
  tcp->first += HEADER;
  tcp->lane.left = tcp->frame.size;
  tcp->in_frame = true;
  return &tcp->frame;
}

static size_t tcp_view(struct by_lane *lane, const void **payload) {
  struct tcp *tcp = tcp_of(lane);
  if (buffered(tcp) < tcp->lane.left && buffered(tcp) < HEADER_READ) fill(tcp, RX_BYTES);
  *payload = tcp->rx + tcp->first;
  return buffered(tcp) < tcp->lane.left ? buffered(tcp) : tcp->lane.left;
}

static void tcp_take(struct by_lane *lane, size_t bytes) {
  struct tcp *tcp = tcp_of(lane);
  tcp->first += bytes;
  tcp->lane.left -= bytes;
}

static size_t tcp_read(struct by_lane *lane, void *to, size_t max) {
  struct tcp *tcp = tcp_of(lane);
  if (max > tcp->lane.left) max = tcp->lane.left;
  size_t n = buffered(tcp) < max ? buffered(tcp) : max;
  memcpy(to, tcp->rx + tcp->first, n);
  tcp->first += n;
  if (n < max) n += pull_from_socket(tcp, (char *)to + n, max - n);
  tcp->lane.left -= n;
  return n;
}

static void tcp_next(struct by_lane *lane) {
  tcp_of(lane)->in_frame = false;
}

/* Before sleeping the socket has to be tried, or its getting writable might go unnoticed. */
static void tcp_sleeping(struct by_lane *lane, bool asleep) {
  (void)asleep;
  tcp_of(lane)->rest = 0;
}

/* What the kernel refuses leaves the connection as it is. */
static void tcp_set_mark(struct by_lane *lane, const struct by_mark *mark) {
  int fd = tcp_of(lane)->fd;
  if (mark->tos >= 0) (void)!by_socket_set_tos(fd, mark->tos);
  if (mark->priority >= 0) (void)!by_socket_set_priority(fd, mark->priority);
}

/* A host whose program does not read answers probes of its closed window, one each; so more than one counts. */
static uint32_t silence(const struct tcp_info *info) {
  if (!info->tcpi_retransmits && info->tcpi_probes < 2) return 0;
  bool data = info->tcpi_last_data_recv < info->tcpi_last_ack_recv;
  return data ? info->tcpi_last_data_recv : info->tcpi_last_ack_recv;
}

/* A kernel that reports less knows nothing of the time in which it was busy (4.10 is the first that does). A buffer
 * that was limited holds more than the network takes at once, so it is the network that one waits for. */
static bool tcp_meter(const struct by_lane *lane, struct by_meter *out) {
  bool limited = tcp_of(lane)->queue.state == BY_SEND_QUEUE_LIMITED;
  int fd = tcp_of(lane)->fd;
  struct tcp_info info = {0};
  socklen_t length = sizeof info, min = offsetof(struct tcp_info, tcpi_sndbuf_limited) + sizeof(uint64_t);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || length < min) return false;
  *out = (struct by_meter){.bytes = info.tcpi_bytes_acked,
                           .busy = info.tcpi_busy_time,
                           .held = info.tcpi_rwnd_limited + (limited ? 0 : info.tcpi_sndbuf_limited),
                           .rate = info.tcpi_delivery_rate,
                           .full = info.tcpi_delivery_rate > 0 && !info.tcpi_delivery_rate_app_limited,
                           .trip = info.tcpi_min_rtt != UINT32_MAX ? info.tcpi_min_rtt : info.tcpi_rtt,
                           .recent = info.tcpi_rtt,
                           .flying = info.tcpi_unacked,
                           .silent = silence(&info),
                           .fd = fd};
  return true;
}

static bool tcp_arrived(const struct by_lane *lane) {
  int left = 0;
  return ioctl(tcp_of(lane)->fd, SIOCOUTQ, &left) != 0 || left == 0;
}

static void tcp_destroy(struct by_lane *lane) {
  struct tcp *tcp = tcp_of(lane);
  by_tls_socket_destroy(tcp->secure);
  by_close(tcp->fd);
  if (tcp->pipe[0] >= 0) {
    by_close(tcp->pipe[0]);
    by_close(tcp->pipe[1]);
  }
  free(tcp->own);
  free(tcp);
}

static const struct by_lane_ops tcp_ops = {
    .name = "tcp",
    .frame_bytes = FRAME_MAX,
    .in_place_from = MAP_ALWAYS,
    .send = tcp_send,
    .send_in_place = tcp_send_in_place,
    .flush = tcp_flush,
    .let_go = tcp_let_go,
    .peek = tcp_peek,
    .view = tcp_view,
    .take = tcp_take,
    .read = tcp_read,
    .next = tcp_next,
    .sleeping = tcp_sleeping,
    .set_mark = tcp_set_mark,
    .meter = tcp_meter,
    .arrived = tcp_arrived,
    .destroy = tcp_destroy,
};

/* Pages that are mapped cannot be encrypted: everything is sent from where it lies. */
static enum banyan_status encrypt(struct tcp *tcp, struct by_tls *tls) {
  tcp->ops.send_in_place = NULL;
  tcp->ops.in_place_from = SIZE_MAX;
  return by_tls_socket_create(tls, tcp->fd, &tcp->secure);
}

enum banyan_status by_tcp_create(int fd, struct by_tls *tls, size_t frame_bytes, struct by_lane **out) {
  struct tcp *tcp = aligned_alloc(64, (sizeof *tcp + 63) & ~(size_t)63);
  if (!tcp) {
    by_tls_destroy(tls);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a connection");
  }
  memset(tcp, 0, offsetof(struct tcp, rx));
  tcp->ops = tcp_ops;
  tcp->pipe[0] = tcp->pipe[1] = -1;
  if (frame_bytes) tcp->ops.frame_bytes = frame_bytes;
  tcp->frame_max = tcp->ops.frame_bytes;
  socklen_t length = sizeof tcp->unsent_max;
  (void)getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &tcp->unsent_max, &length);
  tcp->lane.ops = &tcp->ops;
  tcp->lane.poll_fd = tcp->fd = fd;
  enum banyan_status status = tls ? encrypt(tcp, tls) : BANYAN_OK;
  if (status != BANYAN_OK) {
    free(tcp);
    return status;
  }
  *out = &tcp->lane;
  return BANYAN_OK;
}
