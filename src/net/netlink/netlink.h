/* Requests to the kernel's network over rtnetlink, and its traffic control: queues, their classes and filters, and
 * what has left by them. A by_netlink belongs to the network namespace that it was opened in, whatever the thread
 * enters later. Each request blocks for the kernel's answer, which comes at once. Not for several threads. */
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

/* One that is being put together. */
struct by_netlink_request {
  char bytes[1024];
  struct nlmsghdr *header; /* for mnl_attr_put and the like */
};

BANYAN_CHECK enum banyan_status by_netlink_open(struct by_netlink *netlink);
/* Of another protocol, such as NETLINK_SOCK_DIAG; or with groups (RTMGRP_...) for by_netlink_look alone: then the
 * kernel notifies of changes in these. */
BANYAN_CHECK enum banyan_status by_netlink_open_protocol(struct by_netlink *netlink, int protocol, uint32_t groups);
/* Takes all that has come, without waiting; whether there was any. Some may be lost: look at what they are about. */
bool by_netlink_look(struct by_netlink *netlink);
/* One that could not be opened, too. */
void by_netlink_close(struct by_netlink *netlink);

/* Begins a request of a type (RTM_...) with flags beside NLM_F_REQUEST; returns its fixed part, of so many bytes,
 * zeroed. */
void *by_netlink_begin(struct by_netlink_request *request, uint16_t type, uint16_t flags, size_t fixed);
/* Of a host as by_address_host has it: AF_INET or AF_INET6, and how many bits it has there. */
uint8_t by_netlink_family(const struct in6_addr *host);
uint8_t by_netlink_host_bits(const struct in6_addr *host);
/* Adds it as an attribute. */
void by_netlink_put_host(struct by_netlink_request *request, uint16_t type, const struct in6_addr *host);
/* Sends it and receives until the kernel's last message; `take` (or NULL) gets each. 0, or errno. */
int by_netlink_ask(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context);
/* The same for a request to change something; the error is "the kernel does not " and what. */
BANYAN_CHECK enum banyan_status by_netlink_command(struct by_netlink *netlink, struct by_netlink_request *request,
                                                   const char *what);
/* That error, from an answer; BANYAN_OK: it is 0. */
BANYAN_CHECK enum banyan_status by_netlink_status(int reason, const char *what);
/* The same for a list that is begun with NLM_F_DUMP, since what it is of stands in its fixed part. */
int by_netlink_receive(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context);
/* `take` gets each thing of a kind: RTM_GETLINK and the like, whose fixed part of so many bytes is zeroed. 0, or
 * errno. */
int by_netlink_list(struct by_netlink *netlink, uint16_t type, size_t fixed, mnl_cb_t take, void *context);

/* An attribute behind the fixed part of a message, which has so many bytes. NULL: it is not there. */
const struct nlattr *by_netlink_find(const struct nlmsghdr *header, size_t fixed, uint16_t type);
/* The same inside an attribute, which may be NULL. */
const struct nlattr *by_netlink_find_nested(const struct nlattr *nest, uint16_t type);
/* Copies what an attribute holds, which may be shorter or longer than `size`, as kernels differ; zeros for what is
 * missing, and for NULL. */
void by_netlink_copy(const struct nlattr *attribute, void *out, size_t size);

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

/* The counters (TCA_STATS2) of a queue or class; zeros where there are none. */
void by_tc_read(const struct nlmsghdr *header, struct gnet_stats_basic *basic, struct gnet_stats_queue *queue);

#endif
