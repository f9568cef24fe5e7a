/* UDP datagrams: receives and sends many in one system call. */
#include "datagram.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "address.h"
#include "log.h"
#include "socket.h"

enum { CAPACITY = 8 << 20 }; /* Bytes of each socket and direction in the kernel. */

enum banyan_status by_datagram_prepare(int fd) {
  int one = 1, family = AF_INET;
  socklen_t length = sizeof family;
  if (setsockopt(fd, SOL_IP, IP_RECVTOS, &one, sizeof one))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP socket with IP_RECVTOS");
  (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length);
  if (family == AF_INET6 && (setsockopt(fd, SOL_IPV6, IPV6_RECVTCLASS, &one, sizeof one) ||
                             setsockopt(fd, SOL_UDP, UDP_NO_CHECK6_RX, &one, sizeof one)))
    return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "no UDP socket with IPV6_RECVTCLASS and UDP_NO_CHECK6_RX");
  /* These only make it faster. */
  (void)setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
  (void)!by_socket_set_buffers(fd, CAPACITY, CAPACITY);
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
  int level = control->cmsg_level, type = control->cmsg_type, number = *CMSG_DATA(control);
  if (level == SOL_IP && type == IP_TOS) { /* This is a byte; all others are integers. */
    datagram->path.tos = (uint8_t)number;
    return;
  }
  memcpy(&number, CMSG_DATA(control), sizeof number);
  if (level == SOL_UDP && type == UDP_GRO)
    datagram->size = (uint32_t)number;
  else if ((level == SOL_IP && type == IP_TTL) || (level == SOL_IPV6 && type == IPV6_HOPLIMIT))
    datagram->path.ttl = (uint8_t)number;
  else if (level == SOL_IPV6 && type == IPV6_TCLASS)
    datagram->path.tos = (uint8_t)number;
}

/* Reads the sender. */
static void read_name(struct by_datagram_path *path, const struct sockaddr_in6 *name) {
  struct sockaddr_in in;
  path->from = name->sin6_addr;
  path->from_port = name->sin6_port;
  if (name->sin6_family != AF_INET) return;
  memcpy(&in, name, sizeof in);
  path->from = by_host_of_ipv4(in.sin_addr);
}

struct by_datagram by_mailbox_get(struct by_mailbox *mailbox, int i) {
  struct msghdr *head = &mailbox->messages[i].msg_hdr;
  uint32_t n = mailbox->messages[i].msg_len;
  struct by_datagram datagram = {.bytes = mailbox->bytes[i], .n = n, .size = n};
  read_name(&datagram.path, &mailbox->from[i]);
  for (struct cmsghdr *at = CMSG_FIRSTHDR(head); at; at = CMSG_NXTHDR(head, at)) read_control(&datagram, at);
  if (datagram.size == 0 || datagram.size > n) datagram.size = n;
  if (head->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) datagram.n = datagram.size = 0;
  return datagram;
}

/* ---- sending */

/* The buffers of a message header: the receiver, and the control data of a datagram. */
struct header {
  union {
    struct sockaddr_in four;
    struct sockaddr_in6 six;
  } to;
  _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int))];
};

static void put_option(struct msghdr *head, int level, int type, const void *value, size_t bytes) {
  const struct cmsghdr control = {.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = type};
  uint8_t *at = (uint8_t *)head->msg_control + head->msg_controllen;
  memset(at, 0, CMSG_SPACE(bytes));
  memcpy(at, &control, sizeof control);
  memcpy(at + CMSG_LEN(0), value, bytes);
  head->msg_controllen += CMSG_SPACE(bytes);
}

static void address_four(struct msghdr *head, struct header *header, const struct by_datagram_path *path) {
  const struct in_pktinfo info = {.ipi_spec_dst = by_host_to_ipv4(&path->from)};
  const int ttl = path->ttl, tos = path->tos;
  header->to.four =
      (struct sockaddr_in){.sin_family = AF_INET, .sin_port = path->to_port, .sin_addr = by_host_to_ipv4(&path->to)};
  head->msg_namelen = sizeof header->to.four;
  put_option(head, SOL_IP, IP_PKTINFO, &info, sizeof info);
  put_option(head, SOL_IP, IP_TTL, &ttl, sizeof ttl);
  put_option(head, SOL_IP, IP_TOS, &tos, sizeof tos);
}

static void address_six(struct msghdr *head, struct header *header, const struct by_datagram_path *path) {
  const struct in6_pktinfo info = {.ipi6_addr = path->from};
  const int limit = path->ttl, class_ = path->tos;
  header->to.six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = path->to_port, .sin6_addr = path->to};
  head->msg_namelen = sizeof header->to.six;
  put_option(head, SOL_IPV6, IPV6_PKTINFO, &info, sizeof info);
  put_option(head, SOL_IPV6, IPV6_HOPLIMIT, &limit, sizeof limit);
  put_option(head, SOL_IPV6, IPV6_TCLASS, &class_, sizeof class_);
}

/* Sets the receiver. IPv6 sockets send to IPv4 addresses with the options of IPv4. */
static void set_receiver(struct msghdr *head, struct header *header, const struct by_outgoing *outgoing) {
  *head = (struct msghdr){.msg_name = &header->to,
                          .msg_iov = (struct iovec *)(outgoing->ranges ? outgoing->ranges : &outgoing->own),
                          .msg_iovlen = outgoing->n,
                          .msg_control = header->control};
  if (by_host_is_ipv4(&outgoing->path.to))
    address_four(head, header, &outgoing->path);
  else
    address_six(head, header, &outgoing->path);
  if (outgoing->pieces > 1) put_option(head, SOL_UDP, UDP_SEGMENT, &outgoing->size, sizeof outgoing->size);
}

/* The piece at `*at` in range `*range` as a datagram of its own; false: there is none. Moves on to the next. */
static bool next_piece(const struct by_outgoing *outgoing, unsigned *range, size_t *at, struct by_outgoing *one) {
  const struct iovec *ranges = outgoing->ranges ? outgoing->ranges : &outgoing->own;
  if (*range == outgoing->n) return false;
  size_t left = ranges[*range].iov_len - *at, bytes = left < outgoing->size ? left : outgoing->size;
  *one = (struct by_outgoing){.path = outgoing->path,
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

/* Handles a datagram that could not be sent. The kernel refuses several pieces in one where the path has no room even
 * for one of them, or packets are transformed. If each piece can be sent alone, as it may be fragmented then, all are
 * from now on. */
static void handle_failure(struct by_mailer *mailer, const struct by_outgoing *outgoing, int reason) {
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
    set_receiver(&head, &header, &one);
    *(sendmsg(mailer->fd, &head, MSG_DONTWAIT) < 0 ? &mailer->unsent : &mailer->sent) += 1;
  }
  if (mailer->sent == before || mailer->single) return;
  mailer->single = true;
  by_info("net", "UDP sends pieces one by one: %s", strerror(reason));
}

/* Keeps or drops the rest, since the socket is full. */
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
  for (unsigned i = 0; i < n; i++) set_receiver(&messages[i].msg_hdr, &headers[i], &mailer->waiting[i]);
  unsigned at = 0;
  while (at < n) {
    int gone = sendmmsg(mailer->fd, messages + at, n - at, MSG_DONTWAIT);
    for (int i = 0; i < gone; i++) mailer->sent += mailer->waiting[at++].pieces;
    if (gone > 0) continue;
    if (errno == EAGAIN) return keep_rest(mailer, at, n);
    handle_failure(mailer, &mailer->waiting[at++], errno);
  }
  return true;
}

void by_mailer_drop(struct by_mailer *mailer) {
  for (unsigned i = 0; i < mailer->length; i++) mailer->unsent += mailer->waiting[i].pieces;
  mailer->length = 0;
}

static void add_datagram(struct by_mailer *mailer, const struct by_outgoing *outgoing) {
  if (mailer->length == BY_MAILER_LENGTH && !by_mailer_flush(mailer) && mailer->length == BY_MAILER_LENGTH)
    mailer->unsent += outgoing->pieces;
  else
    mailer->waiting[mailer->length++] = *outgoing;
}

void by_mailer_add(struct by_mailer *mailer, const struct by_datagram_path *path, const struct iovec *ranges,
                   unsigned n, uint32_t size) {
  struct by_outgoing one, all = {.path = *path, .ranges = ranges, .n = (uint16_t)n, .size = (uint16_t)size};
  for (unsigned i = 0; i < n; i++) all.pieces += (uint16_t)((ranges[i].iov_len + size - 1) / size);
  if (!mailer->single) {
    add_datagram(mailer, &all);
    return;
  }
  unsigned range = 0;
  size_t at = 0;
  while (next_piece(&all, &range, &at, &one)) add_datagram(mailer, &one);
}
