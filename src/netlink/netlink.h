/* Requests to the kernel's network, over rtnetlink. A by_netlink belongs to the
 * network namespace that it was opened in, whatever the thread enters later.
 * Blocks for the kernel's answer, which comes at once. Not for several threads. */
#ifndef BY_NETLINK_NETLINK_H
#define BY_NETLINK_NETLINK_H

#include <libmnl/libmnl.h>
#include <stdbool.h>

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
/* To ask about sockets (sock_diag), not links. */
BANYAN_CHECK enum banyan_status by_netlink_open_sockets(struct by_netlink *netlink);
/* For by_netlink_look alone: the kernel tells of changes in `groups` (RTMGRP_...). */
BANYAN_CHECK enum banyan_status by_netlink_open_news(struct by_netlink *netlink, uint32_t groups);
/* To wait for them with. */
int by_netlink_get_fd(const struct by_netlink *netlink);
/* Takes all that has come, without waiting; whether there was any. Some may be lost: look at what they are about. */
bool by_netlink_look(struct by_netlink *netlink);
/* One that could not be opened, too. */
void by_netlink_close(struct by_netlink *netlink);

/* Begins a request of a type (RTM_...) with flags beside NLM_F_REQUEST; returns its fixed part, of so many bytes,
 * zeroed. */
void *by_netlink_begin(struct by_netlink_request *request, uint16_t type, uint16_t flags, size_t fixed);
/* Sends it and hears what comes until the kernel's last word; `take` (or NULL) gets each message. 0, or errno. */
int by_netlink_ask(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context);
/* The same for a request to change something; the error is "the kernel does not " and what. */
BANYAN_CHECK enum banyan_status by_netlink_tell(struct by_netlink *netlink, struct by_netlink_request *request,
                                                const char *what);
/* That error, from an answer; BANYAN_OK: it is 0. */
BANYAN_CHECK enum banyan_status by_netlink_told(int reason, const char *what);
/* The same for a list that is begun with NLM_F_DUMP, since what it is of stands in its fixed part. */
int by_netlink_hear(struct by_netlink *netlink, struct by_netlink_request *request, mnl_cb_t take, void *context);
/* `take` gets each thing of a kind: RTM_GETLINK and the like, whose fixed part of so many bytes is zeroed. 0, or
 * errno. */
int by_netlink_list(struct by_netlink *netlink, uint16_t type, size_t fixed, mnl_cb_t take, void *context);

#endif
