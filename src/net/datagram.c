#include "datagram.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>

#include "log.h"
#include "socket.h"

enum { ROOM = 8 << 20 }; /* of each socket and direction, in the kernel */

enum banyan_status by_datagram_prepare(int fd) {
  int one = 1;
  if (setsockopt(fd, SOL_IP, IP_RECVTOS, &one, sizeof one))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP socket with IP_RECVTOS");
  /* Without these it is slower. */
  (void)setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
  (void)!by_socket_set_buffers(fd, ROOM, ROOM);
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
  int number;
  if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO) {
    memcpy(&number, CMSG_DATA(control), sizeof number);
    datagram->size = (uint32_t)number;
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
      .bytes = mailbox->bytes[i],
      .n = n,
      .size = n,
      .way = {.from = mailbox->from[i].sin_addr.s_addr, .from_port = mailbox->from[i].sin_port}};
  for (struct cmsghdr *at = CMSG_FIRSTHDR(head); at; at = CMSG_NXTHDR(head, at)) read_control(&datagram, at);
  if (datagram.size == 0 || datagram.size > n) datagram.size = n;
  if (head->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) datagram.n = datagram.size = 0;
  return datagram;
}

/* ---- sending */

/* A cmsghdr without room behind it. */
struct control_head {
  size_t length;
  int level, type;
};

_Static_assert(sizeof(struct control_head) == sizeof(struct cmsghdr), "the same");

/* What stands beside a datagram. The last one only where it has several fragments. */
struct control {
  struct control_head info_head;
  struct in_pktinfo info;
  uint32_t fill;
  struct control_head ttl_head;
  int ttl, fill_ttl;
  struct control_head tos_head;
  int tos, fill_tos;
  struct control_head segment_head;
  uint16_t segment, fill_segment[3];
};

_Static_assert(sizeof(struct control) == CMSG_SPACE(sizeof(struct in_pktinfo)) + 3 * CMSG_SPACE(sizeof(int)),
               "laid out as the macros do");

/* What a message header points to. */
struct header {
  struct sockaddr_in to;
  struct control control;
};

static void address(struct msghdr *head, struct header *header, const struct by_outgoing *outgoing) {
  struct control *control = &header->control;
  header->to = (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = outgoing->way.to_port, .sin_addr.s_addr = outgoing->way.to};
  *control = (struct control){.info_head = {CMSG_LEN(sizeof control->info), SOL_IP, IP_PKTINFO},
                              .info.ipi_spec_dst.s_addr = outgoing->way.from,
                              .ttl_head = {CMSG_LEN(sizeof control->ttl), SOL_IP, IP_TTL},
                              .ttl = outgoing->way.ttl,
                              .tos_head = {CMSG_LEN(sizeof control->tos), SOL_IP, IP_TOS},
                              .tos = outgoing->way.tos,
                              .segment_head = {CMSG_LEN(sizeof control->segment), SOL_UDP, UDP_SEGMENT},
                              .segment = outgoing->size};
  *head = (struct msghdr){.msg_name = &header->to,
                          .msg_namelen = sizeof header->to,
                          .msg_iov = (struct iovec *)(outgoing->ranges ? outgoing->ranges : &outgoing->own),
                          .msg_iovlen = outgoing->n,
                          .msg_control = control,
                          .msg_controllen =
                              outgoing->pieces > 1 ? sizeof *control : offsetof(struct control, segment_head)};
}

/* The piece at `*at` in range `*range`, by itself; false: there is none. Moves on to the next. */
static bool next_piece(const struct by_outgoing *outgoing, unsigned *range, size_t *at, struct by_outgoing *one) {
  const struct iovec *ranges = outgoing->ranges ? outgoing->ranges : &outgoing->own;
  if (*range == outgoing->n) return false;
  size_t left = ranges[*range].iov_len - *at, bytes = left < outgoing->size ? left : outgoing->size;
  *one = (struct by_outgoing){.way = outgoing->way,
                              .own = {(char *)ranges[*range].iov_base + *at, bytes},
                              .n = 1,
                              .size = (uint16_t)bytes,
                              .pieces = 1};
  *at += bytes;
  if (left == bytes) {
    *at = 0;
    ++*range;
  }
  return true;
}

/* This one could not be sent. The kernel refuses many pieces in one where the way has no room even for one of them,
 * or transforms packets. If each can go by itself, as it may be cut then, all do from now on. */
static void give_up(struct by_mailer *mailer, const struct by_outgoing *outgoing, int reason) {
  uint64_t before = mailer->sent;
  if (outgoing->pieces == 1 || (reason != EINVAL && reason != EIO && reason != EOPNOTSUPP && reason != EMSGSIZE)) {
    mailer->unsent += outgoing->pieces;
    return;
  }
  struct by_outgoing one;
  unsigned range = 0;
  size_t at = 0;
  while (next_piece(outgoing, &range, &at, &one)) {
    struct header header;
    struct msghdr head;
    address(&head, &header, &one);
    *(sendmsg(mailer->fd, &head, MSG_DONTWAIT) < 0 ? &mailer->unsent : &mailer->sent) += 1;
  }
  if (mailer->sent == before || mailer->single) return;
  mailer->single = true;
  by_info("net", "UDP sends pieces one by one: %s", strerror(reason));
}

/* The socket is full. */
static bool keep_rest(struct by_mailer *mailer, unsigned at, unsigned n) {
  if (mailer->keeps) {
    mailer->length = n - at;
    memmove(mailer->waiting, mailer->waiting + at, mailer->length * sizeof *mailer->waiting);
    return false;
  }
  for (; at < n; at++) mailer->unsent += mailer->waiting[at].pieces;
  return true;
}

bool by_mailer_flush(struct by_mailer *mailer) {
  struct mmsghdr messages[BY_MAILER_LENGTH];
  struct header headers[BY_MAILER_LENGTH];
  unsigned n = mailer->length;
  mailer->length = 0;
  for (unsigned i = 0; i < n; i++) address(&messages[i].msg_hdr, &headers[i], &mailer->waiting[i]);
  unsigned at = 0;
  while (at < n) {
    int gone = sendmmsg(mailer->fd, messages + at, n - at, MSG_DONTWAIT);
    for (int i = 0; i < gone; i++) mailer->sent += mailer->waiting[at++].pieces;
    if (gone > 0) continue;
    if (errno == EAGAIN) return keep_rest(mailer, at, n);
    give_up(mailer, &mailer->waiting[at++], errno);
  }
  return true;
}

void by_mailer_drop(struct by_mailer *mailer) {
  for (unsigned i = 0; i < mailer->length; i++) mailer->unsent += mailer->waiting[i].pieces;
  mailer->length = 0;
}

static void add(struct by_mailer *mailer, const struct by_outgoing *outgoing) {
  if (mailer->length == BY_MAILER_LENGTH && !by_mailer_flush(mailer) && mailer->length == BY_MAILER_LENGTH)
    mailer->unsent += outgoing->pieces;
  else
    mailer->waiting[mailer->length++] = *outgoing;
}

void by_mailer_add(struct by_mailer *mailer, const struct by_datagram_way *way, const struct iovec *ranges, unsigned n,
                   uint32_t size) {
  struct by_outgoing one, all = {.way = *way, .ranges = ranges, .n = (uint16_t)n, .size = (uint16_t)size};
  for (unsigned i = 0; i < n; i++) all.pieces += (uint16_t)((ranges[i].iov_len + size - 1) / size);
  if (!mailer->single) {
    add(mailer, &all);
    return;
  }
  unsigned range = 0;
  size_t at = 0;
  while (next_piece(&all, &range, &at, &one)) add(mailer, &one);
}
