/* The kernel's traffic control over rtnetlink: queues, their classes and filters, and what has left by them. */
#ifndef BY_NETLINK_TC_H
#define BY_NETLINK_TC_H

#include <linux/gen_stats.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>

#include "netlink.h"

/* Begins a request to make something that is not there yet. */
struct tcmsg *by_tc_begin(struct by_netlink_request *request, uint16_t type, unsigned interface, uint32_t parent,
                          uint32_t handle, const char *kind);
/* What a u32 filter looks for, inside its options: all of these, up to 3. */
void by_tc_put_keys(struct by_netlink_request *request, const struct tc_u32_key *keys, uint8_t n);

/* Which packets go to a class of an htb queue. */
struct by_tc_filter {
  uint32_t parent, class_;     /* handles */
  uint16_t priority, protocol; /* filters of one priority are of one protocol (ETH_P_IP, ...); a lower one goes first */
  const struct tc_u32_key *keys; /* what all must match */
  uint8_t n;
};

/* 0, or errno, like the next ones. */
int by_tc_add_filter(struct by_netlink *netlink, unsigned interface, const struct by_tc_filter *filter);
/* What has this ToS byte (IPv4) or traffic class (IPv6) but for its lower two bits, by filters of `priority` and of
 * the next one. */
int by_tc_add_mark(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t class_, uint16_t priority,
                   uint8_t tos);

/* An htb queue at the interface's root; what no filter takes goes to class `others`. */
int by_tc_add_htb(struct by_netlink *netlink, unsigned interface, uint32_t handle, uint16_t others);

struct by_tc_class {
  uint32_t parent, handle;
  uint64_t rate, ceil; /* bytes a second: its own, and with what others leave */
  double burst;        /* seconds; so long it may send without a pause */
  uint32_t quantum;    /* bytes in turn, among classes that go equally early */
  uint32_t early;      /* 0: the earliest */
  bool there;          /* it is, and is changed */
};

int by_tc_add_class(struct by_netlink *netlink, unsigned interface, const struct by_tc_class *class_);

/* bit/s as bytes a second, at least 1. */
uint64_t by_tc_bytes(double rate);

/* What stands in a TCA_STATS2; zeros where it does not say. */
void by_tc_read(const struct nlattr *nest, struct gnet_stats_basic *basic, struct gnet_stats_queue *queue);

#endif
