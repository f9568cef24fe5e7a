#include "netlink.h"

#include <errno.h>
#include <linux/rtnetlink.h>

enum { READ_BYTES = 1 << 16 };

static enum banyan_status open_for(struct by_netlink *netlink, int bus, int flags, uint32_t groups) {
  *netlink = (struct by_netlink){.socket = mnl_socket_open2(bus, SOCK_CLOEXEC | flags)};
  if (netlink->socket && mnl_socket_bind(netlink->socket, groups, MNL_SOCKET_AUTOPID) >= 0) return BANYAN_OK;
  int reason = errno;
  by_netlink_close(netlink);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot speak to the kernel's network");
}

enum banyan_status by_netlink_open(struct by_netlink *netlink) {
  return open_for(netlink, NETLINK_ROUTE, 0, 0);
}

enum banyan_status by_netlink_open_sockets(struct by_netlink *netlink) {
  return open_for(netlink, NETLINK_SOCK_DIAG, 0, 0);
}

enum banyan_status by_netlink_open_news(struct by_netlink *netlink, uint32_t groups) {
  return open_for(netlink, NETLINK_ROUTE, SOCK_NONBLOCK, groups);
}

int by_netlink_get_fd(const struct by_netlink *netlink) {
  return mnl_socket_get_fd(netlink->socket);
}

bool by_netlink_look(struct by_netlink *netlink) {
  char news[READ_BYTES];
  bool any = false;
  for (;;) {
    ssize_t n = mnl_socket_recvfrom(netlink->socket, news, sizeof news);
    if (n < 0 && errno != EINTR && errno != ENOBUFS && errno != ENOSPC) return any;
    any = true;
  }
}

void by_netlink_close(struct by_netlink *netlink) {
  if (netlink->socket) mnl_socket_close(netlink->socket);
  netlink->socket = NULL;
}

void *by_netlink_begin(struct by_netlink_request *request, uint16_t type, uint16_t flags, size_t fixed) {
  request->header = mnl_nlmsg_put_header(request->bytes);
  request->header->nlmsg_type = type;
  request->header->nlmsg_flags = NLM_F_REQUEST | flags;
  return mnl_nlmsg_put_extra_header(request->header, fixed);
}

int by_netlink_hear(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context) {
  char answer[READ_BYTES];
  unsigned port = mnl_socket_get_portid(netlink->socket);
  request->header->nlmsg_seq = ++netlink->sequence;
  if (mnl_socket_sendto(netlink->socket, request->header, request->header->nlmsg_len) < 0) return errno;
  for (;;) {
    ssize_t n = mnl_socket_recvfrom(netlink->socket, answer, sizeof answer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    int more = mnl_cb_run(answer, (size_t)n, netlink->sequence, port, take, context);
    if (more < 0) return errno;
    if (more == MNL_CB_STOP) return 0;
  }
}

int by_netlink_ask(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context) {
  request->header->nlmsg_flags |= NLM_F_ACK;
  return by_netlink_hear(netlink, request, take, context);
}

enum banyan_status by_netlink_tell(struct by_netlink *netlink, struct by_netlink_request *request, const char *what) {
  return by_netlink_told(by_netlink_ask(netlink, request, NULL, NULL), what);
}

enum banyan_status by_netlink_told(int reason, const char *what) {
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "the kernel does not %s", what) : BANYAN_OK;
}

int by_netlink_list(struct by_netlink *netlink, uint16_t type, size_t fixed, mnl_cb_t take, void *context) {
  struct by_netlink_request request;
  by_netlink_begin(&request, type, NLM_F_DUMP, fixed);
  return by_netlink_hear(netlink, &request, take, context);
}
