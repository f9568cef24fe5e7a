#include "meter.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

/* A host whose program does not read answers probes of its closed window, one each; so more than one counts. */
static uint32_t silence(const struct tcp_info *info) {
  if (!info->tcpi_retransmits && info->tcpi_probes < 2) return 0;
  bool data = info->tcpi_last_data_recv < info->tcpi_last_ack_recv;
  return data ? info->tcpi_last_data_recv : info->tcpi_last_ack_recv;
}

/* A kernel that says less knows nothing of the time in which it was busy (4.10 is the first that does). */
bool by_meter_read(int fd, struct by_meter *out) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info, least = offsetof(struct tcp_info, tcpi_sndbuf_limited) + sizeof(uint64_t);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) || length < least) return false;
  *out = (struct by_meter){.bytes = info.tcpi_bytes_acked,
                           .busy = info.tcpi_busy_time,
                           .held = info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited,
                           .answer = info.tcpi_min_rtt == UINT32_MAX ? 0 : info.tcpi_min_rtt,
                           .rate = info.tcpi_delivery_rate,
                           .full = info.tcpi_delivery_rate > 0 && !info.tcpi_delivery_rate_app_limited,
                           .flying = info.tcpi_unacked,
                           .silent = silence(&info),
                           .fd = fd};
  return true;
}
