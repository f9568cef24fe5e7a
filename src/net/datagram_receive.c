#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "datagram.h"

enum { ROOM = 8 << 20 }; /* of each socket and direction, in the kernel */

/* With privileges, more than the system's limit. */
static void make_room(int fd, int forced, int asked) {
  int room = ROOM;
  if (setsockopt(fd, SOL_SOCKET, forced, &room, sizeof room))
    (void)setsockopt(fd, SOL_SOCKET, asked, &room, sizeof room);
}

enum banyan_status by_datagram_prepare(int fd) {
  int one = 1;
  if (setsockopt(fd, SOL_IP, IP_RECVTOS, &one, sizeof one))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP socket with IP_RECVTOS");
  /* Without these it is slower. */
  (void)setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
  make_room(fd, SO_RCVBUFFORCE, SO_RCVBUF);
  make_room(fd, SO_SNDBUFFORCE, SO_SNDBUF);
  return BANYAN_OK;
}

void by_mailbox_init(struct by_mailbox *mailbox) {
  for (int i = 0; i < BY_DATAGRAMS; i++) {
    mailbox->pieces[i] = (struct iovec){mailbox->bytes[i], BY_DATAGRAM_BYTES};
    mailbox->messages[i].msg_hdr = (struct msghdr){.msg_name = &mailbox->from[i],
                                                   .msg_iov = &mailbox->pieces[i],
                                                   .msg_iovlen = 1,
                                                   .msg_control = mailbox->control[i]};
  }
}

int by_mailbox_receive(struct by_mailbox *mailbox, int fd) {
  for (int i = 0; i < BY_DATAGRAMS; i++) {
    mailbox->messages[i].msg_hdr.msg_namelen = sizeof mailbox->from[i];
    mailbox->messages[i].msg_hdr.msg_controllen = sizeof mailbox->control[i];
  }
  int n = recvmmsg(fd, mailbox->messages, BY_DATAGRAMS, MSG_DONTWAIT, NULL);
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

struct by_datagram by_mailbox_get(struct by_mailbox *mailbox, int i) {
  struct msghdr *head = &mailbox->messages[i].msg_hdr;
  uint32_t n = mailbox->messages[i].msg_len;
  struct by_datagram datagram = {
      .bytes = mailbox->bytes[i], .n = n, .size = n, .way.from = mailbox->from[i].sin_addr.s_addr};
  for (struct cmsghdr *at = CMSG_FIRSTHDR(head); at; at = CMSG_NXTHDR(head, at)) read_control(&datagram, at);
  if (datagram.size == 0 || datagram.size > n) datagram.size = n;
  if (head->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) datagram.n = datagram.size = 0;
  return datagram;
}
