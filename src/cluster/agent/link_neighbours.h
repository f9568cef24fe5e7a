/* The neighbours of this host's links: sends LLDP at each interface, at once when it comes up and when an unknown
 * neighbour is heard, then every few seconds, and remembers what the other ends send. Needs CAP_NET_RAW; without it
 * nothing is known, which is logged once. On the thread of its loop. */
#ifndef BY_CLUSTER_AGENT_LINK_NEIGHBOURS_H
#define BY_CLUSTER_AGENT_LINK_NEIGHBOURS_H

#include "lldp.h"
#include "loop.h"

struct by_link_neighbours;

struct by_link_neighbours_options {
  struct by_loop *loop;           /* must outlive it */
  const char *filter;             /* which interfaces, as of BANYAN_IFACE; borrowed */
  const char *host;               /* as this host is called in the cluster; borrowed */
  void (*changed)(void *context); /* a neighbour is another one than before */
  void *context;
};

BANYAN_CHECK enum banyan_status by_link_neighbours_create(const struct by_link_neighbours_options *options,
                                                          struct by_link_neighbours **out);
/* NULL is allowed. */
void by_link_neighbours_destroy(struct by_link_neighbours *all);
/* Interfaces have come, gone or changed: looks which there are, and sends at new ones. NULL is allowed here and below:
 * nothing is known. */
void by_link_neighbours_look(struct by_link_neighbours *all);
/* What the other end of an interface says; NULL: nothing is known. Borrowed until the loop goes on. */
const struct by_lldp *by_link_neighbours_get(const struct by_link_neighbours *all, const char *interface);

#endif
