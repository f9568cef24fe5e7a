#include "user_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "datagram.h"

/* How the socket must be. */
static enum banyan_status set(int fd, int level, int option, int value, const char *what) {
  if (setsockopt(fd, level, option, &value, sizeof value) == 0) return BANYAN_OK;
  return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno, "switch: no socket with %s",
                       what);
}

static enum banyan_status set_up(int fd, const char *interface) {
  BY_TRY(set(fd, SOL_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT (run as root)"));
  BY_TRY(set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  BY_TRY(set(fd, SOL_IP, IP_PKTINFO, 1, "IP_PKTINFO"));
  BY_TRY(set(fd, SOL_IP, IP_RECVTTL, 1, "IP_RECVTTL"));
  BY_TRY(by_datagram_prepare(fd));
  if (!interface || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0)
    return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: interface %s", interface);
}

enum banyan_status by_user_open(const char *interface, uint32_t address, uint16_t udp_port, int *out) {
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(udp_port), .sin_addr.s_addr = address};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *out = -1;
  if (fd < 0) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: no UDP socket");
  enum banyan_status status = set_up(fd, interface);
  if (status == BANYAN_OK && bind(fd, (struct sockaddr *)&local, sizeof local))
    status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "switch: UDP port %u on %s", udp_port,
                           interface ? interface : "this host");
  if (status == BANYAN_OK)
    *out = fd;
  else
    close(fd);
  return status;
}
