#include <errno.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <string.h>

#include "datagram.h"
#include "log.h"

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

struct letter {
  struct sockaddr_in to;
  struct control control;
};

static void write_control(struct control *control, const struct by_outgoing *outgoing) {
  *control = (struct control){.info_head = {CMSG_LEN(sizeof control->info), SOL_IP, IP_PKTINFO},
                              .info.ipi_spec_dst.s_addr = outgoing->way.from,
                              .ttl_head = {CMSG_LEN(sizeof control->ttl), SOL_IP, IP_TTL},
                              .ttl = outgoing->way.ttl,
                              .tos_head = {CMSG_LEN(sizeof control->tos), SOL_IP, IP_TOS},
                              .tos = outgoing->way.tos,
                              .segment_head = {CMSG_LEN(sizeof control->segment), SOL_UDP, UDP_SEGMENT},
                              .segment = (uint16_t)outgoing->pieces[0].iov_len};
}

static void address(struct msghdr *head, struct letter *letter, const struct by_outgoing *outgoing) {
  letter->to = (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = outgoing->way.to_port, .sin_addr.s_addr = outgoing->way.to};
  write_control(&letter->control, outgoing);
  *head = (struct msghdr){.msg_name = &letter->to,
                          .msg_namelen = sizeof letter->to,
                          .msg_iov = (struct iovec *)outgoing->pieces,
                          .msg_iovlen = outgoing->n,
                          .msg_control = &letter->control,
                          .msg_controllen =
                              outgoing->n > 1 ? sizeof letter->control : offsetof(struct control, segment_head)};
}

static void send_singly(struct by_mailer *mailer, const struct by_outgoing *outgoing) {
  for (unsigned i = 0; i < outgoing->n; i++) {
    struct by_outgoing one = {.way = outgoing->way, .pieces = &outgoing->pieces[i], .n = 1};
    struct letter letter;
    struct msghdr head;
    address(&head, &letter, &one);
    *(sendmsg(mailer->fd, &head, MSG_DONTWAIT) < 0 ? &mailer->unsent : &mailer->sent) += 1;
  }
}

/* This one could not be sent. The kernel refuses many pieces in one where the way has no room even for one of them,
 * or transforms packets. If each can go by itself, as it may be cut then, all do from now on. */
static void give_up(struct by_mailer *mailer, const struct by_outgoing *outgoing, int reason) {
  uint64_t before = mailer->sent;
  if (outgoing->n == 1 || (reason != EINVAL && reason != EIO && reason != EOPNOTSUPP && reason != EMSGSIZE)) {
    mailer->unsent += outgoing->n;
    return;
  }
  send_singly(mailer, outgoing);
  if (mailer->sent == before || mailer->single) return;
  mailer->single = true;
  by_info("net", "UDP sends pieces one by one: %s", strerror(reason));
}

/* The socket is full. */
static bool keep_rest(struct by_mailer *mailer, unsigned at, unsigned n) {
  if (mailer->patient) {
    mailer->length = n - at;
    memmove(mailer->waiting, mailer->waiting + at, mailer->length * sizeof *mailer->waiting);
    return false;
  }
  for (; at < n; at++) mailer->unsent += mailer->waiting[at].n;
  return true;
}

bool by_mailer_flush(struct by_mailer *mailer) {
  struct mmsghdr messages[BY_MAILER_LENGTH];
  struct letter letters[BY_MAILER_LENGTH];
  unsigned n = mailer->length;
  mailer->length = 0;
  for (unsigned i = 0; i < n; i++) address(&messages[i].msg_hdr, &letters[i], &mailer->waiting[i]);
  unsigned at = 0;
  while (at < n) {
    int gone = sendmmsg(mailer->fd, messages + at, n - at, MSG_DONTWAIT);
    for (int i = 0; i < gone; i++) mailer->sent += mailer->waiting[at++].n;
    if (gone > 0) continue;
    if (errno == EAGAIN) return keep_rest(mailer, at, n);
    give_up(mailer, &mailer->waiting[at++], errno);
  }
  return true;
}

static void add(struct by_mailer *mailer, const struct by_outgoing *outgoing) {
  if (mailer->length == BY_MAILER_LENGTH && !by_mailer_flush(mailer) && mailer->length == BY_MAILER_LENGTH)
    mailer->unsent += outgoing->n;
  else
    mailer->waiting[mailer->length++] = *outgoing;
}

void by_mailer_add(struct by_mailer *mailer, const struct by_datagram_way *way, const struct iovec *pieces,
                   unsigned n) {
  unsigned step = mailer->single ? 1 : n;
  for (unsigned i = 0; i < n; i += step)
    add(mailer, &(struct by_outgoing){.way = *way, .pieces = pieces + i, .n = (uint16_t)step});
}
