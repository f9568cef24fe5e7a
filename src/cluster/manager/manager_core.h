/* What all parts of a manager share: its options, the time, and where messages and rows go. Each part keeps its own
 * state behind a pointer, which only its header explains. */
#ifndef BY_MANAGER_MANAGER_CORE_H
#define BY_MANAGER_MANAGER_CORE_H

#include "manager.h"

enum { BY_MANAGER_WHY = 256 };
#define BY_NOWHERE UINT32_MAX

struct by_manager {
  struct by_manager_options options;
  const struct by_topology *topology;
  double now, began;
  bool restoring; /* what is to be kept is kept already */
  struct by_manager_counters counters;

  struct by_manager_peers *peers; /* manager_peers.h */
  struct by_manager_hosts *hosts; /* manager_hosts.h */
  struct by_manager_links *links; /* manager_links.h */
  struct by_link_seen *seen;      /* link_seen.h */
  struct by_job_index *index;     /* manager_job.h, as is the next */
  struct by_manager_job *jobs;
};

/* Inline, so that analysers see that it is never BANYAN_OK. */
static inline enum banyan_status by_manager_no_memory(void) {
  (void)by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the cluster's hosts and jobs");
  return BANYAN_ERR_NO_MEMORY;
}

/* NULL: the peer has gone, and nothing is sent. */
void by_manager_send(const struct by_manager *m, const struct by_manager_peer *peer,
                     const struct by_cluster_message *message);
void by_manager_keep_row(const struct by_manager *m, const struct by_manager_row *row);
/* Seconds after which a peer or job of which nothing is heard is taken for gone. */
double by_manager_timeout(const struct by_manager *m);

#endif
