#include "host_shape.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>

#include "host_queues.h"

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
static int take_class(const struct nlmsghdr *header, void *context) {
  struct shape *shape = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  if ((unsigned)body->tcm_ifindex == shape->interface && body->tcm_parent == TC_H_ROOT && !is_ours(body) &&
      is_kind(header, "htb"))
    take_rate(header, shape, TCA_HTB_PARMS, offsetof(struct tc_htb_opt, ceil), TCA_HTB_CEIL64);
  return MNL_CB_OK;
}

static int take_root(const struct nlmsghdr *header, void *context) {
  struct shape *shape = context;
  const struct tcmsg *body = mnl_nlmsg_get_payload(header);
  if ((unsigned)body->tcm_ifindex == shape->interface && body->tcm_parent == TC_H_ROOT && is_kind(header, "tbf"))
    take_rate(header, shape, TCA_TBF_PARMS, offsetof(struct tc_tbf_qopt, rate), TCA_TBF_RATE64);
  return MNL_CB_OK;
}

double by_host_shape(struct by_netlink *netlink, unsigned interface) {
  struct by_netlink_request request;
  struct shape shape = {.interface = interface};
  (void)by_netlink_list(netlink, RTM_GETQDISC, sizeof(struct tcmsg), take_root, &shape);
  if (shape.rate > 0) return shape.rate;
  struct tcmsg *body = by_netlink_begin(&request, RTM_GETTCLASS, NLM_F_DUMP, sizeof *body);
  body->tcm_ifindex = (int)interface;
  (void)by_netlink_hear(netlink, &request, take_class, &shape);
  return shape.rate;
}
