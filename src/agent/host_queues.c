#include "host_queues.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

enum {
  OURS = 0xba11,
  LINK = 1,       /* the class of the link's rate; */
  OTHERS = 2,     /* of what nobody marked, */
  FIRST = 3,      /* of class 0 and so on */
  BURST_MS = 2,   /* a class may send so much at once, at the link's rate, */
  TICK_NS = 64,   /* in this unit */
  QUANTUM = 30000 /* bytes in turn, among classes that go equally early */
};

static uint32_t id(uint32_t minor) {
  return (uint32_t)OURS << 16 | minor;
}

static struct tcmsg *begin(struct by_netlink_request *request, uint16_t type, unsigned interface, uint32_t parent,
                           const char *kind) {
  struct tcmsg *body = by_netlink_begin(request, type, NLM_F_CREATE | NLM_F_EXCL, sizeof *body);
  body->tcm_family = AF_UNSPEC;
  body->tcm_ifindex = (int)interface;
  body->tcm_parent = parent;
  mnl_attr_put_strz(request->header, TCA_KIND, kind);
  return body;
}

/* ---- what is there */

struct root {
  unsigned interface;
  uint32_t handle; /* 0: the kernel's own choice */
  char kind[16];
};

static int take_root(const struct nlmsghdr *header, void *context) {
  struct root *root = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  if ((unsigned)body->tcm_ifindex != root->interface || body->tcm_parent != TC_H_ROOT) return MNL_CB_OK;
  root->handle = body->tcm_handle;
  mnl_attr_for_each(attribute, header, sizeof *body) {
    if (mnl_attr_get_type(attribute) == TCA_KIND)
      snprintf(root->kind, sizeof root->kind, "%s", mnl_attr_get_str(attribute));
  }
  return MNL_CB_OK;
}

static const char *name_of(unsigned interface, char name[IF_NAMESIZE]) {
  return if_indextoname(interface, name) ? name : "?";
}

static enum banyan_status look(struct by_netlink *netlink, unsigned interface, struct root *out) {
  *out = (struct root){.interface = interface};
  int reason = by_netlink_list(netlink, RTM_GETQDISC, sizeof(struct tcmsg), take_root, out);
  return reason ? by_fail_errno(BANYAN_ERR_SYSTEM, reason, "cannot list the queues of interfaces") : BANYAN_OK;
}

static enum banyan_status refused(int reason, unsigned interface, const char *what) {
  char name[IF_NAMESIZE];
  bool forbidden = reason == EPERM;
  return by_fail_errno(forbidden ? BANYAN_ERR_UNSUPPORTED : BANYAN_ERR_SYSTEM, reason, "queues of %s: the kernel %s%s",
                       name_of(interface, name), what, forbidden ? "; the agent needs CAP_NET_ADMIN for that" : "");
}

static enum banyan_status tell(struct by_netlink *netlink, struct by_netlink_request *request, unsigned interface,
                               const char *what) {
  int reason = by_netlink_ask(netlink, request, NULL, NULL);
  return reason ? refused(reason, interface, what) : BANYAN_OK;
}

/* ---- putting them up */

static enum banyan_status add_root(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  struct tc_htb_glob glob = {.version = 3, .rate2quantum = 10, .defcls = OTHERS};
  begin(&request, RTM_NEWQDISC, interface, TC_H_ROOT, "htb")->tcm_handle = id(0);
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put(request.header, TCA_HTB_INIT, sizeof glob, &glob);
  mnl_attr_nest_end(request.header, options);
  return tell(netlink, &request, interface, "makes no htb queue (CONFIG_NET_SCH_HTB)");
}

static struct tc_ratespec ratespec(uint64_t rate) {
  return (struct tc_ratespec){.linklayer = TC_LINKLAYER_ETHERNET, .rate = (uint32_t)MIN(rate, UINT32_MAX)};
}

static enum banyan_status add_class(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t minor,
                                    double rate, double ceil, uint32_t early) {
  struct by_netlink_request request;
  uint64_t least = (uint64_t)MAX(rate / 8, 1), most = (uint64_t)MAX(ceil / 8, 1);
  struct tc_htb_opt opt = {.rate = ratespec(least),
                           .ceil = ratespec(most),
                           .buffer = BURST_MS * 1000000 / TICK_NS,
                           .cbuffer = BURST_MS * 1000000 / TICK_NS,
                           .quantum = QUANTUM,
                           .prio = early};
  begin(&request, RTM_NEWTCLASS, interface, parent, "htb")->tcm_handle = id(minor);
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put(request.header, TCA_HTB_PARMS, sizeof opt, &opt);
  if (least > UINT32_MAX) mnl_attr_put(request.header, TCA_HTB_RATE64, sizeof least, &least);
  if (most > UINT32_MAX) mnl_attr_put(request.header, TCA_HTB_CEIL64, sizeof most, &most);
  mnl_attr_nest_end(request.header, options);
  return tell(netlink, &request, interface, "makes no class of an htb queue");
}

/* What has the class's mark in its first word goes to it. */
static enum banyan_status add_mark(struct by_netlink *netlink, unsigned interface, uint16_t protocol, uint32_t mask,
                                   uint32_t value, uint32_t minor) {
  struct by_netlink_request request;
  static const struct tc_u32_sel head = {.flags = TC_U32_TERMINAL, .nkeys = 1};
  const struct tc_u32_key key = {.mask = htonl(mask), .val = htonl(value)};
  char match[sizeof head + sizeof key];
  memcpy(match, &head, sizeof head);
  memcpy(match + sizeof head, &key, sizeof key);
  /* filters of one priority are of one protocol */
  begin(&request, RTM_NEWTFILTER, interface, id(0), "u32")->tcm_info =
      TC_H_MAKE((protocol == ETH_P_IP ? 1u : 2u) << 16, htons(protocol));
  struct nlattr *options = mnl_attr_nest_start(request.header, TCA_OPTIONS);
  mnl_attr_put_u32(request.header, TCA_U32_CLASSID, id(minor));
  mnl_attr_put(request.header, TCA_U32_SEL, sizeof match, match);
  mnl_attr_nest_end(request.header, options);
  return tell(netlink, &request, interface, "makes no filter by marks (CONFIG_NET_CLS_U32)");
}

static enum banyan_status add_all(struct by_netlink *netlink, unsigned interface, const struct by_host_queues *queues) {
  double rate = queues->rate, least = rate * queues->guarantee;
  BY_TRY(add_root(netlink, interface));
  BY_TRY(add_class(netlink, interface, id(0), LINK, rate, rate, 0));
  BY_TRY(add_class(netlink, interface, id(LINK), OTHERS, least, rate, 0));
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++) {
    uint32_t mark = by_priority_tos(c) & 0xfcu;
    BY_TRY(add_class(netlink, interface, id(LINK), FIRST + c, least, rate, c));
    BY_TRY(add_mark(netlink, interface, ETH_P_IP, 0x00fc0000, mark << 16, FIRST + c));
    BY_TRY(add_mark(netlink, interface, ETH_P_IPV6, 0x0fc00000, mark << 20, FIRST + c));
  }
  return BANYAN_OK;
}

enum banyan_status by_host_queues_set(struct by_netlink *netlink, unsigned interface,
                                      const struct by_host_queues *queues) {
  struct root root;
  char name[IF_NAMESIZE];
  BY_TRY(look(netlink, interface, &root));
  if (root.handle && root.handle != id(0))
    return by_fail(
        BANYAN_ERR_UNSUPPORTED,
        "queues of %s: somebody else has made one there (%s %x:); remove it with `tc qdisc del dev %s root`, "
        "or leave this interface to it",
        name_of(interface, name), root.kind, root.handle >> 16, name_of(interface, name));
  BY_TRY(by_host_queues_remove(netlink, interface));
  enum banyan_status status = add_all(netlink, interface, queues);
  if (status == BANYAN_OK) return BANYAN_OK;
  char text[400]; /* half of them would shape without an order */
  snprintf(text, sizeof text, "%s", banyan_error_text());
  (void)!by_host_queues_remove(netlink, interface);
  return by_fail(status, "%s", text);
}

enum banyan_status by_host_queues_remove(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  struct root root;
  BY_TRY(look(netlink, interface, &root));
  if (root.handle != id(0)) return BANYAN_OK;
  struct tcmsg *body = by_netlink_begin(&request, RTM_DELQDISC, 0, sizeof *body);
  body->tcm_ifindex = (int)interface;
  body->tcm_parent = TC_H_ROOT;
  body->tcm_handle = root.handle;
  return tell(netlink, &request, interface, "does not give them back");
}

/* ---- what has left by them */

struct reading {
  unsigned interface;
  struct by_host_queues_sent *out;
};

static void copy_statistics(const struct nlattr *nest, uint64_t *bytes, uint64_t *drops) {
  const struct nlattr *attribute;
  mnl_attr_for_each_nested(attribute, nest) {
    const void *from = mnl_attr_get_payload(attribute);
    size_t length = mnl_attr_get_payload_len(attribute);
    struct gnet_stats_basic basic = {0};
    struct gnet_stats_queue queue = {0};
    if (mnl_attr_get_type(attribute) == TCA_STATS_BASIC) {
      memcpy(&basic, from, MIN(length, sizeof basic));
      *bytes = basic.bytes;
    } else if (mnl_attr_get_type(attribute) == TCA_STATS_QUEUE) {
      memcpy(&queue, from, MIN(length, sizeof queue));
      *drops = queue.drops;
    }
  }
}

static int take_class(const struct nlmsghdr *header, void *context) {
  const struct reading *reading = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  uint32_t minor = body->tcm_handle - id(0);
  if ((unsigned)body->tcm_ifindex != reading->interface || minor < OTHERS || minor >= FIRST + BY_PRIORITY_CLASSES)
    return MNL_CB_OK;
  uint32_t at = minor == OTHERS ? BY_PRIORITY_CLASSES : minor - FIRST;
  mnl_attr_for_each(attribute, header, sizeof *body) {
    if (mnl_attr_get_type(attribute) == TCA_STATS2)
      copy_statistics(attribute, &reading->out->bytes[at], &reading->out->drops[at]);
  }
  return MNL_CB_OK;
}

/* Classes are listed of one interface at a time. */
enum banyan_status by_host_queues_read(struct by_netlink *netlink, unsigned interface,
                                       struct by_host_queues_sent *out) {
  struct by_netlink_request request;
  struct reading reading = {interface, out};
  *out = (struct by_host_queues_sent){0};
  struct tcmsg *body = by_netlink_begin(&request, RTM_GETTCLASS, NLM_F_DUMP, sizeof *body);
  body->tcm_ifindex = (int)interface;
  int reason = by_netlink_hear(netlink, &request, take_class, &reading);
  return reason ? refused(reason, interface, "does not tell what has left by them") : BANYAN_OK;
}
