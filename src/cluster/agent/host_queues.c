#include "host_queues.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "netlink.h"

enum {
  LINK = 1,       /* the class of the link's rate; */
  OTHERS = 2,     /* of what nobody marked, */
  FIRST = 3,      /* of class 0 and so on */
  BURST_MS = 2,   /* a class may send so much at once, at the link's rate */
  QUANTUM = 30000 /* bytes in turn, among classes that go equally early */
};

static uint32_t id(uint32_t minor) {
  return (uint32_t)BY_HOST_QUEUES_MAJOR << 16 | minor;
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
  if (reason == EPERM)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "queues of %s: this process may not change them: run it as root, or give it "
                   "CAP_NET_ADMIN",
                   name_of(interface, name));
  return by_fail_errno(BANYAN_ERR_SYSTEM, reason, "queues of %s: the kernel %s", name_of(interface, name), what);
}

static enum banyan_status told(int reason, unsigned interface, const char *what) {
  return reason ? refused(reason, interface, what) : BANYAN_OK;
}

/* ---- putting them up */

static enum banyan_status add_root(struct by_netlink *netlink, unsigned interface) {
  return told(by_tc_add_htb(netlink, interface, id(0), OTHERS), interface, "makes no htb queue (CONFIG_NET_SCH_HTB)");
}

static enum banyan_status add_class(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t minor,
                                    double rate, double ceil, uint32_t early) {
  struct by_tc_class class_ = {.parent = parent,
                               .handle = id(minor),
                               .rate = by_tc_bytes(rate),
                               .ceil = by_tc_bytes(ceil),
                               .burst = BURST_MS * 1e-3,
                               .quantum = QUANTUM,
                               .early = early};
  return told(by_tc_add_class(netlink, interface, &class_), interface, "makes no class of an htb queue");
}

static enum banyan_status add_all(struct by_netlink *netlink, unsigned interface, const struct by_host_queues *queues) {
  double rate = queues->rate, least = rate * queues->guarantee;
  BY_TRY(add_root(netlink, interface));
  BY_TRY(add_class(netlink, interface, id(0), LINK, rate, rate, 0));
  BY_TRY(add_class(netlink, interface, id(LINK), OTHERS, least, rate, 0));
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++) {
    BY_TRY(add_class(netlink, interface, id(LINK), FIRST + c, least, rate, c));
    BY_TRY(told(by_tc_add_mark(netlink, interface, id(0), id(FIRST + c), 1, by_priority_tos(c)), interface,
                "makes no filter by marks (CONFIG_NET_CLS_U32)"));
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
  return told(by_netlink_ask(netlink, &request, NULL, NULL), interface, "does not give them back");
}

/* ---- what has left by them */

struct reading {
  unsigned interface;
  struct by_host_queues_sent *out;
  bool found;
};

static int take_class(const struct nlmsghdr *header, void *context) {
  struct reading *reading = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  const struct nlattr *attribute;
  struct gnet_stats_basic basic;
  struct gnet_stats_queue queue;
  uint32_t minor = body->tcm_handle - id(0);
  if ((unsigned)body->tcm_ifindex != reading->interface || minor < OTHERS || minor >= FIRST + BY_PRIORITY_CLASSES)
    return MNL_CB_OK;
  reading->found = true;
  uint32_t at = minor == OTHERS ? BY_PRIORITY_CLASSES : minor - FIRST;
  mnl_attr_for_each(attribute, header, sizeof *body) {
    if (mnl_attr_get_type(attribute) != TCA_STATS2) continue;
    by_tc_read(attribute, &basic, &queue);
    reading->out->bytes[at] = basic.bytes;
    reading->out->drops[at] = queue.drops;
  }
  return MNL_CB_OK;
}

/* Classes are listed of one interface at a time. */
enum banyan_status by_host_queues_read(struct by_netlink *netlink, unsigned interface,
                                       struct by_host_queues_sent *out) {
  struct by_netlink_request request;
  struct reading reading = {.interface = interface, .out = out};
  char name[IF_NAMESIZE];
  *out = (struct by_host_queues_sent){0};
  struct tcmsg *body = by_netlink_begin(&request, RTM_GETTCLASS, NLM_F_DUMP, sizeof *body);
  body->tcm_ifindex = (int)interface;
  int reason = by_netlink_hear(netlink, &request, take_class, &reading);
  BY_TRY(told(reason, interface, "does not tell what has left by them"));
  if (reading.found) return BANYAN_OK;
  return by_fail(BANYAN_ERR_UNSUPPORTED, "queues of %s: somebody has removed or replaced them",
                 name_of(interface, name));
}

/* ---- the queues of others: to what rate they shape what leaves */

struct shape {
  unsigned interface;
  double rate;
};

static bool is_kind(const struct nlmsghdr *header, const char *kind) {
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, sizeof(struct tcmsg)) {
    if (mnl_attr_get_type(attribute) == TCA_KIND) return !strcmp(mnl_attr_get_str(attribute), kind);
  }
  return false;
}

/* bytes a second: those of 64 bits, where the others are too small for it. */
static uint64_t read_rate(const struct nlattr *options, uint16_t narrow, size_t offset, uint16_t wide) {
  const struct nlattr *attribute;
  struct tc_ratespec spec = {0};
  uint64_t all = 0;
  mnl_attr_for_each_nested(attribute, options) {
    const char *bytes = mnl_attr_get_payload(attribute);
    size_t length = mnl_attr_get_payload_len(attribute);
    if (mnl_attr_get_type(attribute) == narrow && length >= offset + sizeof spec)
      memcpy(&spec, bytes + offset, sizeof spec);
    if (mnl_attr_get_type(attribute) == wide && length >= sizeof all) memcpy(&all, bytes, sizeof all);
  }
  return all ? all : spec.rate;
}

static void take_rate(const struct nlmsghdr *header, struct shape *shape, uint16_t narrow, size_t offset,
                      uint16_t wide) {
  const struct nlattr *attribute;
  mnl_attr_for_each(attribute, header, sizeof(struct tcmsg)) {
    if (mnl_attr_get_type(attribute) != TCA_OPTIONS) continue;
    double rate = 8 * (double)read_rate(attribute, narrow, offset, wide);
    if (rate > shape->rate) shape->rate = rate;
  }
}

static bool is_ours(const struct tcmsg *body) {
  return body->tcm_handle >> 16 == BY_HOST_QUEUES_MAJOR;
}

/* The classes above all others limit the link together. */
static int take_shaped_class(const struct nlmsghdr *header, void *context) {
  struct shape *shape = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  if ((unsigned)body->tcm_ifindex == shape->interface && body->tcm_parent == TC_H_ROOT && !is_ours(body) &&
      is_kind(header, "htb"))
    take_rate(header, shape, TCA_HTB_PARMS, offsetof(struct tc_htb_opt, ceil), TCA_HTB_CEIL64);
  return MNL_CB_OK;
}

static int take_shaped_root(const struct nlmsghdr *header, void *context) {
  struct shape *shape = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  if ((unsigned)body->tcm_ifindex == shape->interface && body->tcm_parent == TC_H_ROOT && is_kind(header, "tbf"))
    take_rate(header, shape, TCA_TBF_PARMS, offsetof(struct tc_tbf_qopt, rate), TCA_TBF_RATE64);
  return MNL_CB_OK;
}

double by_host_queues_find_shape(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  struct shape shape = {.interface = interface};
  (void)by_netlink_list(netlink, RTM_GETQDISC, sizeof(struct tcmsg), take_shaped_root, &shape);
  if (shape.rate > 0) return shape.rate;
  struct tcmsg *body = by_netlink_begin(&request, RTM_GETTCLASS, NLM_F_DUMP, sizeof *body);
  body->tcm_ifindex = (int)interface;
  (void)by_netlink_hear(netlink, &request, take_shaped_class, &shape);
  return shape.rate;
}
