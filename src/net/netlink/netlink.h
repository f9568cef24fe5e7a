/* Requests to the kernel's network over rtnetlink, and its traffic control: queues, their classes and filters, and
 * their counters. A by_netlink belongs to the network namespace in which it was opened, whichever the thread enters
 * later. Each request blocks for the kernel's answer, which comes at once. Not for several threads. */
#ifndef BY_NET_NETLINK_NETLINK_H
#define BY_NET_NETLINK_NETLINK_H

#include <libmnl/libmnl.h>
#include <linux/gen_stats.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>

#include "address.h"
#include "fail.h"

struct by_netlink {
  struct mnl_socket *socket;
  uint32_t sequence;
};

/* A request that is being built. */
struct by_netlink_request {
  char bytes[1024];
  struct nlmsghdr *header; /* For mnl_attr_put and the like. */
};

BANYAN_CHECK enum banyan_status by_netlink_open(struct by_netlink *netlink);
/* Opens another protocol, such as NETLINK_SOCK_DIAG; or groups (RTMGRP_...) for by_netlink_look alone, of whose
 * changes the kernel then notifies. */
BANYAN_CHECK enum banyan_status by_netlink_open_protocol(struct by_netlink *netlink, int protocol, uint32_t groups);
/* Discards all notifications without waiting. Returns whether there were any. Some may be lost, so check the state
 * itself. */
bool by_netlink_look(struct by_netlink *netlink);
/* Closes it. It may be one that could not be opened. */
void by_netlink_close(struct by_netlink *netlink);

/* Begins a request of a type (RTM_...) with flags besides NLM_F_REQUEST. Returns its fixed part of `fixed` bytes,
 * zeroed. */
void *by_netlink_begin(struct by_netlink_request *request, uint16_t type, uint16_t flags, size_t fixed);
/* AF_INET or AF_INET6 for a host in the form of by_address_host, and the number of bits in that family. */
uint8_t by_netlink_family(const struct in6_addr *host);
uint8_t by_netlink_host_bits(const struct in6_addr *host);
/* Adds a host as an attribute. */
void by_netlink_put_host(struct by_netlink_request *request, uint16_t type, const struct in6_addr *host);
/* Sends a request and receives up to the kernel's last message; `take` (or NULL) gets each. Returns 0 or an errno. */
int by_netlink_ask(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context);
/* Makes a request to change something. The error's text is "the kernel does not " and `what`. */
BANYAN_CHECK enum banyan_status by_netlink_command(struct by_netlink *netlink, struct by_netlink_request *request,
                                                   const char *what);
/* Makes that error from an answer; BANYAN_OK if `reason` is 0. */
BANYAN_CHECK enum banyan_status by_netlink_status(int reason, const char *what);
/* Makes a request for a list that was begun with NLM_F_DUMP, which needs a fixed part to select the list. */
int by_netlink_receive(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context);
/* Lists all objects of a kind for `take`: RTM_GETLINK and the like, whose fixed part of `fixed` bytes is zeroed.
 * Returns 0 or an errno. */
int by_netlink_list(struct by_netlink *netlink, uint16_t type, size_t fixed, mnl_cb_t take, void *context);

/* An attribute behind the fixed part of a message, which has `fixed` bytes; NULL: there is none. */
const struct nlattr *by_netlink_find(const struct nlmsghdr *header, size_t fixed, uint16_t type);
/* An attribute inside another one, which may be NULL; NULL: there is none. */
const struct nlattr *by_netlink_find_nested(const struct nlattr *nest, uint16_t type);
/* Copies an attribute's value, which may be shorter or longer than `size`, as kernels differ. Missing bytes, and
 * those of NULL, are zeros. */
void by_netlink_copy(const struct nlattr *attribute, void *out, size_t size);

/* Begins a request to create something. */
struct tcmsg *by_tc_begin(struct by_netlink_request *request, uint16_t type, unsigned interface, uint32_t parent,
                          uint32_t handle, const char *kind);
/* Adds the keys of a u32 filter, inside its options. All of them must match; at most 3. */
void by_tc_put_keys(struct by_netlink_request *request, const struct tc_u32_key *keys, uint8_t n);

/* Selects the packets of a class of an htb queue. */
struct by_tc_filter {
  uint32_t parent, class_;       /* Handles. */
  uint16_t priority, protocol;   /* Filters of one priority have one protocol (ETH_P_IP, ...); lower ones come first. */
  const struct tc_u32_key *keys; /* All must match. */
  uint8_t n;
};

/* Adds a filter. Returns 0 or an errno, like the functions below. */
int by_tc_add_filter(struct by_netlink *netlink, unsigned interface, const struct by_tc_filter *filter);
/* Adds filters of `priority` and of the next one for packets with this ToS byte (IPv4) or traffic class (IPv6), whose
 * lower two bits are ignored. */
int by_tc_add_mark(struct by_netlink *netlink, unsigned interface, uint32_t parent, uint32_t class_, uint16_t priority,
                   uint8_t tos);

/* Adds an htb queue at the interface's root; packets without a filter go to class `others`. */
int by_tc_add_htb(struct by_netlink *netlink, unsigned interface, uint32_t handle, uint16_t others);

struct by_tc_class {
  uint32_t parent, handle;
  uint64_t rate, ceil; /* Bytes per second: its own, and with bandwidth that others leave. */
  double burst;        /* Seconds for which it may send without a pause. */
  uint32_t quantum;    /* Bytes in turn among classes of equal `early`. */
  uint32_t early;      /* Its priority; 0 is served first. */
  bool there;          /* It exists and is changed. */
};

int by_tc_add_class(struct by_netlink *netlink, unsigned interface, const struct by_tc_class *class_);

/* Converts bit/s to bytes per second, at least 1. */
uint64_t by_tc_bytes(double rate);

/* The counters (TCA_STATS2) of a queue or class; zeros if there are none. */
void by_tc_read(const struct nlmsghdr *header, struct gnet_stats_basic *basic, struct gnet_stats_queue *queue);

#endif
