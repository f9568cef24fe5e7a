/* What the agent reports to the manager: how this host's interfaces are used, and what the ranks of each job have done
 * together. */
#ifndef BY_AGENT_AGENT_REPORTS_H
#define BY_AGENT_AGENT_REPORTS_H

#include "agent_ranks.h"

struct by_agent_interface {
  struct by_agent_counter counter;                             /* when it was last looked at */
  double sent, received, marked, helped_sent, helped_received; /* bit/s before that */
};

struct by_agent_reports {
  const struct by_agent_options *options; /* borrowed, like the next two */
  struct by_agent_session *session;
  const struct by_agent_ranks *ranks;
  uint64_t started, counted_at;
  uint32_t n;
  struct by_agent_interface interfaces[BY_AGENT_INTERFACES];
  bool renew;      /* there is an interface that the last hello did not name */
  uint64_t n_sent; /* reports */
};

/* Reads the interfaces' counters, too. */
void by_agent_reports_init(struct by_agent_reports *reports, const struct by_agent_options *options,
                           struct by_agent_session *session, const struct by_agent_ranks *ranks, uint64_t now);
/* Reads the interfaces' counters. */
void by_agent_reports_count(struct by_agent_reports *reports, uint64_t now);
void by_agent_reports_send_hello(struct by_agent_reports *reports, uint64_t now);
void by_agent_reports_send(struct by_agent_reports *reports, uint64_t now);
/* All jobs, in the order of the list; they lie in the arena. */
BANYAN_CHECK enum banyan_status by_agent_reports_list_jobs(const struct by_agent_reports *reports, uint64_t now,
                                                           struct by_arena *arena, struct by_cluster_job **out);
/* The interfaces with what jobs send and receive over each. */
void by_agent_reports_list_interfaces(const struct by_agent_reports *reports, struct by_cluster_interface *out);

#endif
