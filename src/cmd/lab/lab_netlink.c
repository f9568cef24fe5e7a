/* Requests to the kernel for the lab's interfaces, routes, queues and programs. */
#include "lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/gen_stats.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <linux/veth.h>
#include <math.h>
#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netlink.h"
#include "priority.h"

enum {
  RELAY_PACKETS = 4096, /* Packets that may wait to be read by a process. */
  LAST_METRIC = 1 << 16 /* Metric of routes, plus the interface's index; smaller ones take precedence. */
};

static void put_end(struct by_netlink_request *request, const struct by_netlink_end *end, const uint8_t mac[6],
                    long mtu) {
  mnl_attr_put_strz(request->header, IFLA_IFNAME, end->name);
  mnl_attr_put_u32(request->header, IFLA_NET_NS_FD, (uint32_t)end->namespace_fd);
  mnl_attr_put(request->header, IFLA_ADDRESS, 6, mac);
  mnl_attr_put_u32(request->header, IFLA_MTU, (uint32_t)mtu);
  mnl_attr_put_u32(request->header, IFLA_GSO_MAX_SIZE, end->at_once);
  if (end->cut) mnl_attr_put_u32(request->header, IFLA_GSO_MAX_SEGS, 1);
}

enum banyan_status by_netlink_add_pair(struct by_netlink *netlink, const struct by_netlink_end ends[2],
                                       const uint8_t mac[6], long mtu) {
  struct by_netlink_request request;
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof *link), *other;
  link->ifi_index = (int)ends[0].interface;
  put_end(&request, &ends[0], mac, mtu);
  struct nlattr *info = mnl_attr_nest_start(request.header, IFLA_LINKINFO);
  mnl_attr_put_strz(request.header, IFLA_INFO_KIND, "veth");
  struct nlattr *data = mnl_attr_nest_start(request.header, IFLA_INFO_DATA);
  struct nlattr *peer = mnl_attr_nest_start(request.header, VETH_INFO_PEER);
  other = mnl_nlmsg_put_extra_header(request.header, sizeof *other);
  other->ifi_index = (int)ends[1].interface;
  put_end(&request, &ends[1], mac, mtu);
  mnl_attr_nest_end(request.header, peer);
  mnl_attr_nest_end(request.header, data);
  mnl_attr_nest_end(request.header, info);
  return by_netlink_command(netlink, &request, "make a pair of interfaces (veth)");
}

enum banyan_status by_netlink_fit(struct by_netlink *netlink, const struct by_netlink_end *end, const uint8_t mac[6],
                                  long mtu) {
  struct by_netlink_request request;
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_NEWLINK, 0, sizeof *link);
  link->ifi_index = (int)end->interface;
  mnl_attr_put(request.header, IFLA_ADDRESS, 6, mac);
  mnl_attr_put_u32(request.header, IFLA_MTU, (uint32_t)mtu);
  mnl_attr_put_u32(request.header, IFLA_GSO_MAX_SIZE, end->at_once);
  mnl_attr_put_u32(request.header, IFLA_TXQLEN, RELAY_PACKETS);
  return by_netlink_command(netlink, &request, "change an interface");
}

enum banyan_status by_netlink_up(struct by_netlink *netlink, unsigned interface, bool resolves) {
  struct by_netlink_request request;
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_NEWLINK, 0, sizeof *link);
  link->ifi_index = (int)interface;
  link->ifi_change = IFF_UP | (resolves ? 0 : IFF_NOARP);
  link->ifi_flags = link->ifi_change;
  return by_netlink_command(netlink, &request, "put an interface up");
}

enum banyan_status by_netlink_add_address(struct by_netlink *netlink, unsigned interface,
                                          const struct in6_addr *address) {
  struct by_netlink_request request;
  struct ifaddrmsg *body = by_netlink_begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof *body);
  body->ifa_family = by_netlink_family(address);
  body->ifa_prefixlen = by_netlink_host_bits(address);
  body->ifa_flags = IFA_F_NODAD; /* No other host has it, so it is ready at once. */
  body->ifa_index = interface;
  by_netlink_put_host(&request, IFA_LOCAL, address);
  by_netlink_put_host(&request, IFA_ADDRESS, address);
  return by_netlink_command(netlink, &request, "take an address");
}

enum banyan_status by_netlink_add_route(struct by_netlink *netlink, unsigned interface,
                                        const struct by_netlink_route *route) {
  struct by_netlink_request request;
  struct rtmsg *body = by_netlink_begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof *body);
  body->rtm_family = route->ipv6 ? AF_INET6 : AF_INET;
  body->rtm_dst_len = route->to ? by_netlink_host_bits(route->to) : 0;
  body->rtm_table = RT_TABLE_MAIN;
  body->rtm_protocol = RTPROT_STATIC;
  body->rtm_scope = RT_SCOPE_LINK;
  body->rtm_type = RTN_UNICAST;
  if (route->to) by_netlink_put_host(&request, RTA_DST, route->to);
  if (route->last) mnl_attr_put_u32(request.header, RTA_PRIORITY, LAST_METRIC + interface);
  if (route->source) by_netlink_put_host(&request, RTA_PREFSRC, route->source);
  mnl_attr_put_u32(request.header, RTA_OIF, interface);
  return by_netlink_command(netlink, &request, "take a route");
}

/* ---- incoming packets */

/* Priorities of filters. */
enum { LOSES = 1, REDIRECTS = 2 };

/* Adds the queue of incoming packets, unless there is one. */
static enum banyan_status add_ingress(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  by_tc_begin(&request, RTM_NEWQDISC, interface, TC_H_INGRESS, TC_H_MAKE(TC_H_INGRESS, 0), "ingress");
  int reason = by_netlink_ask(netlink, &request, NULL, NULL);
  if (!reason || reason == EEXIST) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "the kernel cannot filter incoming packets (CONFIG_NET_SCH_INGRESS)");
}

/* Begins a filter of all packets. */
static void begin_filter(struct by_netlink_request *request, unsigned interface, uint32_t priority, const char *kind) {
  struct tcmsg *body = by_tc_begin(request, RTM_NEWTFILTER, interface, TC_H_MAKE(TC_H_INGRESS, 0), 0, kind);
  body->tcm_info = TC_H_MAKE(priority << 16, htons(ETH_P_ALL));
}

/* Adds the first action of a filter. */
static void put_mirred(struct by_netlink_request *request, unsigned to) {
  struct tc_mirred mirred = {.action = TC_ACT_STOLEN, .eaction = TCA_EGRESS_REDIR, .ifindex = to};
  struct nlattr *actions = mnl_attr_nest_start(request->header, TCA_U32_ACT);
  struct nlattr *action = mnl_attr_nest_start(request->header, 1);
  mnl_attr_put_strz(request->header, TCA_ACT_KIND, "mirred");
  struct nlattr *options = mnl_attr_nest_start(request->header, TCA_ACT_OPTIONS);
  mnl_attr_put(request->header, TCA_MIRRED_PARMS, sizeof mirred, &mirred);
  mnl_attr_nest_end(request->header, options);
  mnl_attr_nest_end(request->header, action);
  mnl_attr_nest_end(request->header, actions);
}

enum banyan_status by_netlink_redirect(struct by_netlink *netlink, unsigned from, unsigned to) {
  struct by_netlink_request request;
  static const struct tc_u32_key everything; /* No bit has to match. */
  BY_TRY(add_ingress(netlink, from));
  begin_filter(&request, from, REDIRECTS, "u32");
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  by_tc_put_keys(&request, &everything, 1);
  put_mirred(&request, to);
  mnl_attr_nest_end(request.header, options);
  return by_netlink_command(netlink, &request, "carry packets over (CONFIG_NET_CLS_U32, CONFIG_NET_ACT_MIRRED)");
}

enum banyan_status by_netlink_lose(struct by_netlink *netlink, unsigned interface, int program) {
  struct by_netlink_request request;
  BY_TRY(add_ingress(netlink, interface));
  begin_filter(&request, interface, LOSES, "bpf");
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put_u32(request.header, TCA_BPF_FD, (uint32_t)program);
  mnl_attr_put_strz(request.header, TCA_BPF_NAME, "lose");
  mnl_attr_put_u32(request.header, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
  mnl_attr_nest_end(request.header, options);
  return by_netlink_command(netlink, &request, "lose packets of a link (CONFIG_NET_CLS_BPF)");
}

enum banyan_status by_netlink_attach(struct by_netlink *netlink, unsigned interface, int program) {
  struct by_netlink_request request;
  struct ifinfomsg *link = by_netlink_begin(&request, RTM_NEWLINK, 0, sizeof *link);
  link->ifi_index = (int)interface;
  struct nlattr *xdp = mnl_attr_nest_start(request.header, IFLA_XDP);
  mnl_attr_put_u32(request.header, IFLA_XDP_FD, (uint32_t)program);
  mnl_attr_put_u32(request.header, IFLA_XDP_FLAGS, XDP_FLAGS_DRV_MODE);
  mnl_attr_nest_end(request.header, xdp);
  return by_netlink_command(netlink, &request, "let an interface take an XDP program");
}

/* ---- interfaces */

struct running {
  unsigned first, n;
};

static int take_interface(const struct nlmsghdr *header, void *context) {
  struct running *running = context;
  const struct ifinfomsg *link = mnl_nlmsg_get_payload(header);
  running->n += (unsigned)link->ifi_index >= running->first && (link->ifi_flags & IFF_RUNNING);
  return MNL_CB_OK;
}

enum banyan_status by_netlink_count_running(struct by_netlink *netlink, unsigned first, unsigned *out) {
  struct running running = {.first = first};
  int reason = by_netlink_list(netlink, RTM_GETLINK, sizeof(struct ifinfomsg), take_interface, &running);
  *out = running.n;
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot list the interfaces of the links") : BANYAN_OK;
}

/* ---- counters */

struct reading {
  struct by_netlink_counters *out;
  unsigned n;
};

static int take_queue(const struct nlmsghdr *header, void *context) {
  const struct reading *reading = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  struct gnet_stats_basic basic;
  struct gnet_stats_queue queue;
  bool ingress = body->tcm_parent == TC_H_INGRESS;
  if ((body->tcm_parent != TC_H_ROOT && !ingress) || (unsigned)body->tcm_ifindex >= reading->n) return MNL_CB_OK;
  struct by_netlink_counters *out = &reading->out[body->tcm_ifindex];
  by_tc_read(header, &basic, &queue);
  if (ingress)
    out->lost = queue.drops;
  else
    out->bytes = basic.bytes, out->packets = basic.packets, out->drops = queue.drops;
  return MNL_CB_OK;
}

enum banyan_status by_netlink_read(struct by_netlink *netlink, struct by_netlink_counters *out, unsigned n) {
  struct reading reading = {.out = out, .n = n};
  int reason = by_netlink_list(netlink, RTM_GETQDISC, sizeof(struct tcmsg), take_queue, &reading);
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot read the counters of the links") : BANYAN_OK;
}

/* An htb queue with a class for the link's rate. The classes below borrow their bandwidth from it; acknowledgements
 * first, then everything else, each in a bfifo:
 *
 *   1: -- 1:1, the rate -+- 1:2, acknowledgements
 *                        +- 1:3, unmarked packets
 *                        +- 1:4, packets marked with class 0, and so on down to
 *                        +- 1:7, if links sort by ToS */
enum {
  ROOT_HANDLE = 0x10000, /* "1:" */
  LINK_CLASS = 0x10001,  /* "1:1" */
  ACK_CLASS = 0x10002,
  DATA_CLASS = 0x10003,
  MARKED_CLASS = 0x10004, /* Class of packets with priority class 0. */
  QUANTUM = 60000,        /* Bytes in turn, among classes of the same priority. */
  ACKS_FIRST = 1,         /* Priorities of filters. */
  BY_MARK
};

static const double guarantee = 0.05; /* Share of the link that each class of marks is guaranteed. */

static enum banyan_status add_class(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t handle,
                                    uint64_t rate, uint32_t early, const struct by_netlink_shape *shape) {
  struct by_tc_class class_ = {.parent = parent,
                               .handle = handle,
                               .rate = rate,
                               .ceil = by_tc_bytes(shape->rate),
                               .burst = shape->burst,
                               .quantum = QUANTUM,
                               .early = early,
                               .there = shape->there};
  return by_netlink_status(by_tc_add_class(netlink, interface, &class_), "shape a link to its rate");
}

/* Gives precedence to TCP packets of less than 128 bytes, for IPv6 after its header, with no flag except ACK. Short
 * packets with data also have PSH, and stay behind earlier ones. */
static enum banyan_status let_overtake(struct by_netlink *netlink, unsigned interface, bool ipv6) {
  const struct tc_u32_key keys[3] = {
      {.mask = htonl(0x0f00ff80), .val = htonl(0x05000000)},                  /* Header length 20, and the length. */
      {.mask = htonl(0x00ff0000), .val = htonl(IPPROTO_TCP << 16), .off = 8}, /* The protocol. */
      {.mask = htonl(0x00ff0000), .val = htonl(0x00100000), .off = 32},       /* The flags. */
  };
  const struct tc_u32_key six[2] = {
      {.mask = htonl(0xff80ff00), .val = htonl(IPPROTO_TCP << 8), .off = 4}, /* The length, and the next header. */
      {.mask = htonl(0x00ff0000), .val = htonl(0x00100000), .off = 52},      /* The flags. */
  };
  const struct by_tc_filter filters[2] = {{ROOT_HANDLE, ACK_CLASS, ACKS_FIRST, ETH_P_IP, keys, 3},
                                          {ROOT_HANDLE, ACK_CLASS, ACKS_FIRST, ETH_P_IPV6, six, 2}};
  return by_netlink_status(by_tc_add_filter(netlink, interface, &filters[ipv6]),
                           "let acknowledgements overtake: it has no u32 filter (CONFIG_NET_CLS_U32); use --fifo");
}

static enum banyan_status add_queue(struct by_netlink *netlink, unsigned interface, uint32_t class_,
                                    const struct by_netlink_shape *shape) {
  struct by_netlink_request request;
  struct tc_fifo_qopt limit = {.limit = (uint32_t)shape->queue};
  by_tc_begin(&request, RTM_NEWQDISC, interface, class_, 0, "bfifo");
  mnl_attr_put(request.header, TCA_OPTIONS, sizeof limit, &limit);
  return by_netlink_command(netlink, &request, "give a link its queue (bfifo)");
}

static enum banyan_status sort_by_tos(struct by_netlink *netlink, unsigned interface,
                                      const struct by_netlink_shape *shape) {
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++) {
    uint32_t class_ = MARKED_CLASS + c;
    BY_TRY(add_queue(netlink, interface, class_, shape));
    BY_TRY(by_netlink_status(by_tc_add_mark(netlink, interface, ROOT_HANDLE, class_, BY_MARK, by_priority_tos(c)),
                             "sort by ToS: it has no u32 filter (CONFIG_NET_CLS_U32)"));
  }
  return BANYAN_OK;
}

static enum banyan_status set_rates(struct by_netlink *netlink, unsigned interface,
                                    const struct by_netlink_shape *shape) {
  uint64_t min = by_tc_bytes(guarantee * shape->rate), others = shape->by_tos ? min : 1;
  BY_TRY(add_class(netlink, interface, ROOT_HANDLE, LINK_CLASS, by_tc_bytes(shape->rate), 0, shape));
  BY_TRY(add_class(netlink, interface, LINK_CLASS, ACK_CLASS, 1, 0, shape));
  BY_TRY(add_class(netlink, interface, LINK_CLASS, DATA_CLASS, others, 1, shape));
  for (uint32_t c = 0; shape->by_tos && c < BY_PRIORITY_CLASSES; c++)
    BY_TRY(add_class(netlink, interface, LINK_CLASS, MARKED_CLASS + c, min, 1 + c, shape));
  return BANYAN_OK;
}

enum banyan_status by_netlink_shape(struct by_netlink *netlink, unsigned interface,
                                    const struct by_netlink_shape *shape) {
  if (shape->there) return set_rates(netlink, interface, shape);
  BY_TRY(by_netlink_status(by_tc_add_htb(netlink, interface, ROOT_HANDLE, DATA_CLASS & 0xffff),
                           "shape a link: it has no htb queue (CONFIG_NET_SCH_HTB)"));
  BY_TRY(set_rates(netlink, interface, shape));
  if (!shape->fifo) BY_TRY(let_overtake(netlink, interface, shape->ipv6));
  BY_TRY(add_queue(netlink, interface, DATA_CLASS, shape));
  return shape->by_tos ? sort_by_tos(netlink, interface, shape) : BANYAN_OK;
}

#define RETURN(value)                                                                                                  \
  {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = (value)}, {                                       \
    .code = BPF_JMP | BPF_EXIT                                                                                         \
  }

static enum banyan_status load_program(enum bpf_prog_type type, const char *name, const struct bpf_insn *code, size_t n,
                                       int *out) {
  union bpf_attr attributes = {
      .prog_type = type, .insn_cnt = (uint32_t)n, .insns = (uintptr_t)code, .license = (uintptr_t) "Apache-2.0"};
  snprintf(attributes.prog_name, sizeof attributes.prog_name, "%s", name);
  *out = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes);
  if (*out >= 0) return BANYAN_OK;
  return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "the kernel does not take the program \"%s\" (bpf)", name);
}

enum banyan_status by_program_pass(int *out) {
  static const struct bpf_insn code[] = {RETURN(XDP_PASS)};
  return load_program(BPF_PROG_TYPE_XDP, "banyan_pass", code, sizeof code / sizeof *code, out);
}

enum banyan_status by_program_lose(double share, int *out) {
  uint32_t limit = (uint32_t)fmin(share * 4294967296., 4294967295.);
  const struct bpf_insn code[] = {
      {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_prandom_u32},
      {.code = BPF_JMP32 | BPF_JLT | BPF_K, .dst_reg = BPF_REG_0, .imm = (int32_t)limit, .off = 2}, /* Jumps to SHOT. */
      RETURN(TC_ACT_UNSPEC),
      RETURN(TC_ACT_SHOT)};
  return load_program(BPF_PROG_TYPE_SCHED_CLS, "banyan_lose", code, sizeof code / sizeof *code, out);
}
