#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "user_datagram.h"

enum { ROOM = 8 << 20 }; /* of each socket and direction, in the kernel */

/* How the socket must be. */
static enum banyan_status set(int fd, int level, int option, int value, const char *what) {
  if (setsockopt(fd, level, option, &value, sizeof value) == 0) return BANYAN_OK;
  return by_fail_errno(errno == EPERM ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, errno, "switch: no socket with %s",
                       what);
}

static enum banyan_status set_up(int fd, const char *interface) {
  int one = 1, room = ROOM;
  BY_TRY(set(fd, SOL_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT (run as root)"));
  BY_TRY(set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  BY_TRY(set(fd, SOL_IP, IP_PKTINFO, 1, "IP_PKTINFO"));
  BY_TRY(set(fd, SOL_IP, IP_RECVTTL, 1, "IP_RECVTTL"));
  BY_TRY(set(fd, SOL_IP, IP_RECVTOS, 1, "IP_RECVTOS"));
  /* Without these it is slower. */
  (void)setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  if (!interface || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0)
    return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_ARGUMENT, errno, "switch: interface %s", interface);
}

enum banyan_status by_datagram_open(const char *interface, uint32_t address, uint16_t udp_port, int *out) {
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

void by_inbox_init(struct by_inbox *inbox) {
  for (int i = 0; i < BY_DATAGRAMS; i++) {
    inbox->pieces[i] = (struct iovec){inbox->bytes[i], BY_DATAGRAM_BYTES};
    inbox->messages[i].msg_hdr = (struct msghdr){
        .msg_name = &inbox->from[i], .msg_iov = &inbox->pieces[i], .msg_iovlen = 1, .msg_control = inbox->control[i]};
  }
}

int by_inbox_receive(struct by_inbox *inbox, int fd) {
  for (int i = 0; i < BY_DATAGRAMS; i++) {
    inbox->messages[i].msg_hdr.msg_namelen = sizeof inbox->from[i];
    inbox->messages[i].msg_hdr.msg_controllen = sizeof inbox->control[i];
  }
  int n = recvmmsg(fd, inbox->messages, BY_DATAGRAMS, MSG_DONTWAIT, NULL);
  return n > 0 ? n : 0;
}

static void read_control(struct by_datagram *datagram, const struct cmsghdr *control) {
  struct in_pktinfo info;
  int number;
  if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO) {
    memcpy(&number, CMSG_DATA(control), sizeof number);
    datagram->size = (uint32_t)number;
  } else if (control->cmsg_level == SOL_IP && control->cmsg_type == IP_PKTINFO) {
    memcpy(&info, CMSG_DATA(control), sizeof info);
    datagram->way.to = info.ipi_addr.s_addr;
  } else if (control->cmsg_level == SOL_IP && control->cmsg_type == IP_TTL) {
    memcpy(&number, CMSG_DATA(control), sizeof number);
    datagram->way.ttl = (uint8_t)number;
  } else if (control->cmsg_level == SOL_IP && control->cmsg_type == IP_TOS) {
    datagram->way.tos = *CMSG_DATA(control);
  }
}

struct by_datagram by_inbox_get(struct by_inbox *inbox, int i) {
  struct msghdr *head = &inbox->messages[i].msg_hdr;
  uint32_t n = inbox->messages[i].msg_len;
  struct by_datagram datagram = {
      .bytes = inbox->bytes[i], .n = n, .size = n, .way.from = inbox->from[i].sin_addr.s_addr};
  for (struct cmsghdr *at = CMSG_FIRSTHDR(head); at; at = CMSG_NXTHDR(head, at)) read_control(&datagram, at);
  if (datagram.size == 0 || datagram.size > n) datagram.size = n;
  if (head->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) datagram.n = datagram.size = 0;
  return datagram;
}
