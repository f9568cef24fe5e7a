/* Limits the send buffers of TCP connections with a short round trip and a long queue. */
#include "send_queue.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum {
  EVERY = 1 << 20,       /* Bytes between measurements. */
  NEAR = 1000,           /* A short round trip, in microseconds at most. */
  LONG = 4000,           /* A long queue: a round trip of at least so many microseconds. */
  DRAIN_TIME = 5000,     /* Microseconds: the data sent in this time may wait. */
  MIN_LIMIT = 384 << 10, /* The minimum of a limit in bytes. */
  FASTEST = 1250,        /* Bytes in a microsecond at 10 Gbit/s, for which the limit must be sufficient. */
  TRIPS = 2,             /* Round trips at that rate. */
  MUCH_LONGER = 4
};

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif
enum { SEND_BUFFER_LOCKED = 1 };

/* The bytes that 10 Gbit/s need over this round trip. */
static uint64_t enough_for(const struct by_send_queue_seen *seen) {
  return (uint64_t)FASTEST * TRIPS * seen->min_trip;
}

size_t by_send_queue_judge(struct by_send_queue *queue, const struct by_send_queue_seen *seen) {
  if (queue->state == BY_SEND_QUEUE_LEFT) return 0;
  bool near = seen->min_trip <= NEAR;
  if (queue->state == BY_SEND_QUEUE_LIMITED) {
    if (!near || seen->trip / MUCH_LONGER >= queue->drain_time) queue->state = BY_SEND_QUEUE_LEFT;
    return 0;
  }
  if (!near || seen->trip < LONG || !seen->flying) return 0;
  uint64_t limit = seen->flying * DRAIN_TIME / seen->trip;
  if (limit < enough_for(seen)) limit = enough_for(seen);
  if (limit < MIN_LIMIT) limit = MIN_LIMIT;
  if (limit >= seen->flying) return 0;
  queue->state = BY_SEND_QUEUE_LIMITED;
  queue->drain_time = (uint32_t)(limit * seen->trip / seen->flying);
  return limit;
}

/* It is this code alone that may limit the buffer: one that the user has set stays, and kernels before 5.15 do not
 * tell.
 */
static bool is_tuned(int fd) {
  unsigned locked = SEND_BUFFER_LOCKED;
  socklen_t length = sizeof locked;
  return getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &length) == 0 && !(locked & SEND_BUFFER_LOCKED);
}

/* The kernel counts what it needs for a segment, half as much again as its data, and doubles what it is given, which is
 * at most net.core.wmem_max. False: that is less than may be necessary later. */
static bool limit_buffer(int fd, size_t data, uint64_t enough) {
  int bytes = (int)(data / 4 * 3), given = 0;
  socklen_t length = sizeof given;
  return setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0 &&
         getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &given, &length) == 0 && (uint64_t)given / 3 * 2 >= enough;
}

/* The kernel lets it grow again. */
static void leave_buffer(int fd) {
  unsigned locked = 0;
  socklen_t length = sizeof locked;
  if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, &length)) return;
  locked &= ~(unsigned)SEND_BUFFER_LOCKED;
  (void)setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locked, sizeof locked);
}

void by_send_queue_look(struct by_send_queue *queue, int fd, size_t bytes) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  queue->unseen += bytes;
  if (queue->unseen < EVERY) return;
  queue->unseen = 0;
  bool told = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
              length >= offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate;
  if (told && info.tcpi_delivery_rate && !info.tcpi_delivery_rate_app_limited) queue->rate = info.tcpi_delivery_rate;
  if (queue->state == BY_SEND_QUEUE_LEFT) return;
  if (!told || (queue->state == BY_SEND_QUEUE_OPEN && !is_tuned(fd))) {
    queue->state = BY_SEND_QUEUE_LEFT;
    return;
  }
  struct by_send_queue_seen seen = {
      .min_trip = info.tcpi_min_rtt, .trip = info.tcpi_rtt, .flying = (uint64_t)info.tcpi_unacked * info.tcpi_snd_mss};
  size_t limit = by_send_queue_judge(queue, &seen);
  if (limit && !limit_buffer(fd, limit, enough_for(&seen))) queue->state = BY_SEND_QUEUE_LEFT;
  if (queue->state == BY_SEND_QUEUE_LEFT) leave_buffer(fd);
}
