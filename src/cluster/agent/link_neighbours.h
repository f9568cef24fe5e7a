/* The neighbours of this host's links: sends LLDP on each interface, at once when it comes up or an unknown neighbour
 * is received, then every few seconds, and remembers what the other ends send. Needs CAP_NET_RAW; without it nothing is
 * known, which is logged once. On the thread of its loop. */
#ifndef BY_CLUSTER_AGENT_LINK_NEIGHBOURS_H
#define BY_CLUSTER_AGENT_LINK_NEIGHBOURS_H

#include "lldp.h"
#include "loop.h"

struct by_link_neighbours;

struct by_link_neighbours_options {
  struct by_loop *loop;           /* Must outlive it. */
  const char *filter;             /* Which interfaces, in the form of BANYAN_IFACE; borrowed. */
  const char *host;               /* This host's name in the cluster; borrowed. */
  void (*changed)(void *context); /* A neighbour has changed. */
  void *context;
};

BANYAN_CHECK enum banyan_status by_link_neighbours_create(const struct by_link_neighbours_options *options,
                                                          struct by_link_neighbours **out);
/* NULL is allowed. */
void by_link_neighbours_destroy(struct by_link_neighbours *all);
/* Lists the interfaces again after a change, and sends on new ones. NULL is allowed here and below. */
void by_link_neighbours_look(struct by_link_neighbours *all);
/* Returns the neighbour of an interface; NULL: unknown. Borrowed until the loop continues. */
const struct by_lldp *by_link_neighbours_get(const struct by_link_neighbours *all, const char *interface);

#endif
