/* Requests to the kernel over rtnetlink, and traffic control. */
#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/param.h>

enum { READ_BYTES = 1 << 16 };

enum banyan_status by_netlink_open_protocol(struct by_netlink *netlink, int protocol, uint32_t groups) {
  *netlink = (struct by_netlink){.socket = mnl_socket_open2(protocol, SOCK_CLOEXEC | (groups ? SOCK_NONBLOCK : 0))};
  if (netlink->socket && mnl_socket_bind(netlink->socket, groups, MNL_SOCKET_AUTOPID) >= 0) return BANYAN_OK;
  int reason = errno;
  by_netlink_close(netlink);
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot speak to the kernel's network");
}

enum banyan_status by_netlink_open(struct by_netlink *netlink) {
  return by_netlink_open_protocol(netlink, NETLINK_ROUTE, 0);
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

uint8_t by_netlink_family(const struct in6_addr *host) {
  return by_host_is_ipv4(host) ? AF_INET : AF_INET6;
}

uint8_t by_netlink_host_bits(const struct in6_addr *host) {
  return by_host_is_ipv4(host) ? 32 : 128;
}

void by_netlink_put_host(struct by_netlink_request *request, uint16_t type, const struct in6_addr *host) {
  const struct in_addr four = by_host_to_ipv4(host);
  if (by_host_is_ipv4(host))
    mnl_attr_put(request->header, type, sizeof four, &four);
  else
    mnl_attr_put(request->header, type, sizeof *host, host);
}

int by_netlink_receive(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context) {
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
  return by_netlink_receive(netlink, request, take, context);
}

enum banyan_status by_netlink_command(struct by_netlink *netlink, struct by_netlink_request *request,
                                      const char *what) {
  return by_netlink_status(by_netlink_ask(netlink, request, NULL, NULL), what);
}

enum banyan_status by_netlink_status(int reason, const char *what) {
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "the kernel does not %s", what) : BANYAN_OK;
}

int by_netlink_list(struct by_netlink *netlink, uint16_t type, size_t fixed, mnl_cb_t take, void *context) {
  struct by_netlink_request request;
  by_netlink_begin(&request, type, NLM_F_DUMP, fixed);
  return by_netlink_receive(netlink, &request, take, context);
}

const struct nlattr *by_netlink_find(const struct nlmsghdr *header, size_t fixed, uint16_t type) {
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, fixed) {
    if (mnl_attr_get_type(attribute) == type) return attribute;
  }
  return NULL;
}

const struct nlattr *by_netlink_find_nested(const struct nlattr *nest, uint16_t type) {
  const struct nlattr *attribute;
  if (!nest) return NULL;
  mnl_attr_for_each_nested(attribute, nest) {
    if (mnl_attr_get_type(attribute) == type) return attribute;
  }
  return NULL;
}

void by_netlink_copy(const struct nlattr *attribute, void *out, size_t size) {
  memset(out, 0, size);
  if (attribute) memcpy(out, mnl_attr_get_payload(attribute), MIN(size, mnl_attr_get_payload_len(attribute)));
}

enum { TICK_NANOSECONDS = 64, /* The unit of a bucket's depth. */ MAX_KEYS = 3 };

struct tcmsg *by_tc_begin(struct by_netlink_request *request, uint16_t type, unsigned interface, uint32_t parent,
                          uint32_t handle, const char *kind) {
  struct tcmsg *body = by_netlink_begin(request, type, NLM_F_CREATE | NLM_F_EXCL, sizeof *body);
  body->tcm_family = AF_UNSPEC;
  body->tcm_ifindex = (int)interface;
  body->tcm_parent = parent;
  body->tcm_handle = handle;
  mnl_attr_put_strz(request->header, TCA_KIND, kind);
  return body;
}

void by_tc_put_keys(struct by_netlink_request *request, const struct tc_u32_key *keys, uint8_t n) {
  const struct tc_u32_sel head = {.flags = TC_U32_TERMINAL, .nkeys = n};
  char match[sizeof head + MAX_KEYS * sizeof *keys];
  memcpy(match, &head, sizeof head);
  memcpy(match + sizeof head, keys, n * sizeof *keys);
  mnl_attr_put(request->header, TCA_U32_SEL, sizeof head + n * sizeof *keys, match);
}

int by_tc_add_filter(struct by_netlink *netlink, unsigned interface, const struct by_tc_filter *filter) {
  struct by_netlink_request request;
  struct tcmsg *body = by_tc_begin(&request, RTM_NEWTFILTER, interface, filter->parent, 0, "u32");
  body->tcm_info = TC_H_MAKE((uint32_t)filter->priority << 16, htons(filter->protocol));
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put_u32(request.header, TCA_U32_CLASSID, filter->class_);
  by_tc_put_keys(&request, filter->keys, filter->n);
  mnl_attr_nest_end(request.header, options);
  return by_netlink_ask(netlink, &request, NULL, NULL);
}

/* Both headers have the byte in their first word. */
int by_tc_add_mark(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t class_, uint16_t priority,
                   uint8_t tos) {
  uint32_t mark = tos & 0xfcu;
  const struct tc_u32_key four = {.mask = htonl(0xfcu << 16), .val = htonl(mark << 16)};
  const struct tc_u32_key six = {.mask = htonl(0xfcu << 20), .val = htonl(mark << 20)};
  int reason =
      by_tc_add_filter(netlink, interface, &(struct by_tc_filter){parent, class_, priority, ETH_P_IP, &four, 1});
  if (reason) return reason;
  return by_tc_add_filter(netlink, interface,
                          &(struct by_tc_filter){parent, class_, (uint16_t)(priority + 1), ETH_P_IPV6, &six, 1});
}

int by_tc_add_htb(struct by_netlink *netlink, unsigned interface, uint32_t handle, uint16_t others) {
  struct by_netlink_request request;
  struct tc_htb_glob glob = {.version = 3, .rate2quantum = 10, .defcls = others};
  by_tc_begin(&request, RTM_NEWQDISC, interface, TC_H_ROOT, handle, "htb");
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put(request.header, TCA_HTB_INIT, sizeof glob, &glob);
  mnl_attr_nest_end(request.header, options);
  return by_netlink_ask(netlink, &request, NULL, NULL);
}

uint64_t by_tc_bytes(double rate) {
  return (uint64_t)MAX(rate / 8, 1);
}

static struct tc_ratespec ratespec(uint64_t rate) {
  return (struct tc_ratespec){.linklayer = TC_LINKLAYER_ETHERNET, .rate = (uint32_t)MIN(rate, UINT32_MAX)};
}

int by_tc_add_class(struct by_netlink *netlink, unsigned interface, const struct by_tc_class *class_) {
  struct by_netlink_request request;
  uint32_t depth = (uint32_t)MIN(class_->burst * 1e9 / TICK_NANOSECONDS, (double)UINT32_MAX);
  struct tc_htb_opt opt = {.rate = ratespec(class_->rate),
                           .ceil = ratespec(class_->ceil),
                           .buffer = depth,
                           .cbuffer = depth,
                           .quantum = class_->quantum,
                           .prio = class_->early};
  by_tc_begin(&request, RTM_NEWTCLASS, interface, class_->parent, class_->handle, "htb");
  if (class_->there) request.header->nlmsg_flags &= (uint16_t) ~(NLM_F_CREATE | NLM_F_EXCL);
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put(request.header, TCA_HTB_PARMS, sizeof opt, &opt);
  if (class_->rate > UINT32_MAX) mnl_attr_put(request.header, TCA_HTB_RATE64, sizeof class_->rate, &class_->rate);
  if (class_->ceil > UINT32_MAX) mnl_attr_put(request.header, TCA_HTB_CEIL64, sizeof class_->ceil, &class_->ceil);
  mnl_attr_nest_end(request.header, options);
  return by_netlink_ask(netlink, &request, NULL, NULL);
}

void by_tc_read(const struct nlmsghdr *header, struct gnet_stats_basic *basic, struct gnet_stats_queue *queue) {
  const struct nlattr *statistics = by_netlink_find(header, sizeof(struct tcmsg), TCA_STATS2);
  by_netlink_copy(by_netlink_find_nested(statistics, TCA_STATS_BASIC), basic, sizeof *basic);
  by_netlink_copy(by_netlink_find_nested(statistics, TCA_STATS_QUEUE), queue, sizeof *queue);
}
