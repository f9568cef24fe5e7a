/* Lanes over TCP. Large payloads are not copied into the kernel: their pages go through a pipe into the socket
 * (vmsplice, splice), where the receiver's kernel, or a network card, reads them. Loopback, 16 MiB: 3.7 to 4.7 ms
 * against 5.4 to 12 with send(), which stores over pages that the other core has just read. How slow that is depends
 * on where the cores are, and changes when a virtual machine is moved. So copying is timed, and pages are mapped
 * while it is slow.
 *
 * Received data passes through a buffer that stays in the cache: headers and terms to be added are used from there,
 * and payload behind it that only has to be stored is received into its destination. */
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
enum { FRAME_MAX = 1 << 20 }; /* A pipe of 1 MiB, which every user may have, holds it if it begins with a page. */
enum { HELD_MAX = 512 };      /* Bytes of frames without payload that wait for the next frame. */
enum { TIME_FROM = 32 << 10, TIME_EVERY = 64, MAP_FROM = 64 << 10, MAP_ALWAYS = 4 << 20, SLOW_COPYING = 300 };

struct tcp {
  struct by_lane lane;
  struct by_lane_ops ops; /* An own copy, since frame_bytes differs. */
  int fd;
  struct by_tls_socket *secure; /* The TLS connection; NULL: the lane sends plain text. */
  /* Sending: frames held back, the rest of a header and of small payloads; then of a kept payload. */
  char small[HELD_MAX + HEADER + BY_LANE_SMALL];
  size_t small_first, small_left;
  const char *kept;
  size_t kept_left;
  char *own;       /* A copy of a kept payload that went away. */
  int pipe[2];     /* -1: not made yet; -2: cannot be made. */
  size_t piped;    /* Bytes in the pipe, which precede the kept ones. */
  uint32_t rest;   /* Flushes to skip, since the socket was full just now. */
  double copying;  /* Picoseconds per byte that send() took recently. */
  uint32_t mapped; /* Frames since copying was last timed. One in TIME_EVERY is copied for that. */
  struct by_pace pace;
  struct by_send_queue queue;
  size_t frame_max; /* The frame size on a fast link. */
  int unsent_max;   /* TCP_NOTSENT_LOWAT when the lane was made; 0: the system's. */
  /* Receiving. */
  struct by_frame frame;
  bool in_frame, dry; /* dry: the socket had no more data at the last read. */
  size_t first, last;
  char rx[RX_BYTES];
};

static struct tcp *tcp_of(const struct by_lane *lane) {
  return (struct tcp *)(uintptr_t)lane;
}

static void fail_connection(struct tcp *tcp, int error) {
  enum banyan_status status = by_fail(BANYAN_ERR_PEER_DEAD, "its connection broke: %s", strerror(error));
  if (error == ETIMEDOUT) status = by_large_loss_add_hint(tcp->fd, status);
  by_lane_fail(&tcp->lane, status, "%s", banyan_error_text());
}

/* ---- sending */

/* Handles an error of sending. A peer that has finished closes its end, and may have sent all that is needed before.
 * That is read up to its end, which ends the lane. */
static void cannot_send(struct tcp *tcp, int error) {
  bool full = error == EAGAIN || error == EINTR || error == ENOBUFS, closed = error == EPIPE || error == ECONNRESET;
  if (!full && !closed) fail_connection(tcp, error);
}

/* Fails the lane if the TLS connection has ended, or its data was altered. It counts like a broken connection:
 * another one may be made, where that is possible. */
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

static ssize_t send_parts(struct tcp *tcp, struct iovec *parts, size_t n, int flags) {
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

/* Moves a pipe into a socket. splice() has no MSG_NOSIGNAL: into a broken connection it would end the process. The
 * signal may be raised whatever it returned, which tells what was sent before the connection was found broken. */
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

/* Moves the pipe into the socket. Returns whether the pipe is empty. */
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

/* Accounts for `sent` bytes. Returns how many of them belong to the payload behind the small parts. */
static size_t account_small(struct tcp *tcp, size_t sent) {
  size_t small = sent < tcp->small_left ? sent : tcp->small_left;
  tcp->small_left -= small;
  tcp->small_first = tcp->small_left ? tcp->small_first + small : 0;
  return sent - small;
}

/* Chooses the size of messages from which on pages are mapped: large while copying is fast, and unlimited where the
 * link is slower than both. */
static void choose_mapping(struct tcp *tcp) {
  if (tcp->secure) return;
  size_t from = tcp->copying > SLOW_COPYING ? MAP_FROM : MAP_ALWAYS;
  tcp->ops.in_place_from = by_pace_is_slow(&tcp->pace) ? SIZE_MAX : from;
}

/* Notes that the kept payload was sent. Its speed decides what the link is given from now on. */
static void note_pace(struct tcp *tcp) {
  bool was_slow = by_pace_is_slow(&tcp->pace);
  by_pace_drained(&tcp->pace, by_clock_now(&by_clock_system));
  tcp->ops.frame_bytes = by_pace_frame(&tcp->pace, tcp->frame_max);
  choose_mapping(tcp);
  bool slow = by_pace_is_slow(&tcp->pace);
  int unsent = slow ? BY_PACE_UNSENT : tcp->unsent_max;
  if (slow != was_slow) (void)setsockopt(tcp->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static enum by_lane_sent keep_payload(struct tcp *tcp) {
  by_pace_wait(&tcp->pace, tcp->piped + tcp->kept_left, by_clock_now(&by_clock_system));
  return BY_LANE_KEPT;
}

/* Sends small frames and headers, then the pipe, then the kept payload. Returns whether all of it was sent. */
static bool push_rest(struct tcp *tcp) {
  if (tcp->piped && tcp->small_left) {
    struct iovec part = {tcp->small + tcp->small_first, tcp->small_left};
    account_small(tcp, (size_t)send_parts(tcp, &part, 1, 0));
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
  size_t sent = account_small(tcp, (size_t)send_parts(tcp, parts, 2, 0));
  if (sent) tcp->kept += sent; /* It may be NULL, to which nothing may be added. */
  tcp->kept_left -= sent;
  return !tcp->small_left && !tcp->kept_left;
}

/* Returns whether all encrypted data was sent. */
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

/* Sends frames that are held back, and a frame; `sent` counts the frame's bytes. Returns false if none of it was
 * sent. */
static bool push_frame(struct tcp *tcp, const struct by_frame *frame, const void *payload, size_t size, int flags,
                       size_t *sent) {
  struct iovec parts[3] = {{tcp->small + tcp->small_first, tcp->small_left},
                           {(void *)(uintptr_t)frame, HEADER},
                           {(void *)(uintptr_t)payload, size}};
  bool held = tcp->small_left > 0;
  *sent = account_small(tcp, (size_t)send_parts(tcp, parts + !held, (size > 0) + 1u + held, flags));
  return *sent > 0;
}

/* Whether the lane takes a frame now: only frames held back, which are sent with it, precede it. */
static bool takes_frame(struct tcp *tcp) {
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
  if (!takes_frame(tcp)) return BY_LANE_FULL;
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
  return keep_payload(tcp);
}

/* Copies the kept payload, which goes away. The pipe holds its pages, not copies. */
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

/* Makes a pipe for a frame's pages. Returns false if there is none. */
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
  if (!takes_frame(tcp)) return BY_LANE_FULL;
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
  tcp->kept = (const char *)payload + tcp->piped; /* The part that did not fit is copied. */
  tcp->kept_left = frame->size - tcp->piped;
  return tcp_flush(lane) ? BY_LANE_SENT : keep_payload(tcp);
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
  if (n < 0 && errno != EAGAIN && errno != EINTR) fail_connection(tcp, errno);
  return 0;
}

static size_t count_buffered(const struct tcp *tcp) {
  return tcp->last - tcp->first;
}

static void fill_buffer(struct tcp *tcp, size_t max) {
  size_t have = count_buffered(tcp);
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
  if (count_buffered(tcp) < HEADER && !tcp->dry) fill_buffer(tcp, HEADER_READ);
  if (count_buffered(tcp) < HEADER) {
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
  if (count_buffered(tcp) < tcp->lane.left && count_buffered(tcp) < HEADER_READ) fill_buffer(tcp, RX_BYTES);
  *payload = tcp->rx + tcp->first;
  return count_buffered(tcp) < tcp->lane.left ? count_buffered(tcp) : tcp->lane.left;
}

static void tcp_take(struct by_lane *lane, size_t bytes) {
  struct tcp *tcp = tcp_of(lane);
  tcp->first += bytes;
  tcp->lane.left -= bytes;
}

static size_t tcp_read(struct by_lane *lane, void *to, size_t max) {
  struct tcp *tcp = tcp_of(lane);
  if (max > tcp->lane.left) max = tcp->lane.left;
  size_t n = count_buffered(tcp) < max ? count_buffered(tcp) : max;
  memcpy(to, tcp->rx + tcp->first, n);
  tcp->first += n;
  if (n < max) n += pull_from_socket(tcp, (char *)to + n, max - n);
  tcp->lane.left -= n;
  return n;
}

static void tcp_next(struct by_lane *lane) {
  tcp_of(lane)->in_frame = false;
}

/* Before sleeping the socket has to be tried, or it might become writable unnoticed. */
static void tcp_sleeping(struct by_lane *lane, bool asleep) {
  (void)asleep;
  tcp_of(lane)->rest = 0;
}

/* Sets the mark. If the kernel refuses it, the connection stays as it is. */
static void tcp_set_mark(struct by_lane *lane, const struct by_mark *mark) {
  int fd = tcp_of(lane)->fd;
  if (mark->tos >= 0) (void)!by_socket_set_tos(fd, mark->tos);
  if (mark->priority >= 0) (void)!by_socket_set(fd, BY_SOCKET_PRIORITY, mark->priority);
}

/* The milliseconds without a sign of the peer. A host whose program does not read answers each probe of its closed
 * window, so two probes are needed. */
static uint32_t get_silence(const struct tcp_info *info) {
  if (!info->tcpi_retransmits && info->tcpi_probes < 2) return 0;
  bool data = info->tcpi_last_data_recv < info->tcpi_last_ack_recv;
  return data ? info->tcpi_last_data_recv : info->tcpi_last_ack_recv;
}

/* Measures the connection. Kernels before 4.10 do not report busy times. A buffer that this code limited holds more
 * than the network takes at once, so the network is then the limit. */
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
                           .silent = get_silence(&info),
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

/* Sends through TLS. Mapped pages cannot be encrypted, so everything is read where it lies. */
static enum banyan_status use_tls(struct tcp *tcp, struct by_tls *tls) {
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
  enum banyan_status status = tls ? use_tls(tcp, tls) : BANYAN_OK;
  if (status != BANYAN_OK) {
    free(tcp);
    return status;
  }
  *out = &tcp->lane;
  return BANYAN_OK;
}
