/* The interfaces of this host: their rates and counters from the kernel, and the
 * queues that an agent sets on them. One thread. */
#ifndef BY_AGENT_HOST_LINKS_H
#define BY_AGENT_HOST_LINKS_H

#include "agent.h"
#include "host_queues.h"

struct by_host_links_options {
  const char *filter; /* which, as of BANYAN_IFACE; borrowed, like the next */
  const char *queues; /* which get queues: "none"; "IF,IF"; or "auto": the one that `rate` or the manager's is for */
  double rate;        /* bit/s; 0: what the manager says, or the kernel knows */
};

struct by_host_links;

BANYAN_CHECK enum banyan_status by_host_links_create(const struct by_host_links_options *options,
                                                     struct by_host_links **out);
/* Removes the queues. NULL is allowed. */
void by_host_links_destroy(struct by_host_links *links);
/* Becomes readable when links or addresses change; by_host_links_look then takes that, and says whether any did. */
int by_host_links_get_fd(const struct by_host_links *links);
bool by_host_links_look(struct by_host_links *links);
/* At most BY_AGENT_INTERFACES, those that are up and have an address. */
size_t by_host_links_count(struct by_host_links *links, struct by_agent_counter *out);
/* What the manager says. */
void by_host_links_set_rate(struct by_host_links *links, double rate);
/* Sets the queues that are wanted and whose rate is known; what cannot be done is logged once. */
void by_host_links_set_queues(struct by_host_links *links);

#endif
