/* Offers free hosts to jobs that can use more. */
#include "manager_meetings.h"

#include <stdlib.h>

static const double kept_for = 30; /* Intervals in which a job can start on a host that it was offered. */

/* Its agent has reported everything, and no job that the manager does not know. */
static bool is_unused(const struct by_manager *m, const struct by_manager_host *host) {
  return host->agent && host->agent->state == BY_PEER_REPORTED && host->node != BY_NOWHERE &&
         m->topology->nodes[host->node].kind == BY_NODE_HOST && !host->n_unknown && m->now >= host->offered_until;
}

enum banyan_status by_manager_offer(struct by_manager *m, struct by_manager_peer *peer,
                                    const struct by_cluster_message *wanted) {
  const char *names[BY_CLUSTER_OFFER];
  struct by_cluster_message offer = {.type = BY_MESSAGE_OFFERED, .number = wanted->number, .hosts = names};
  if (peer->index == BY_NOWHERE) return by_fail(BANYAN_ERR_PROTOCOL, "only agents may request hosts for jobs");
  uint8_t *uses = by_jobs_find_uses(m, NULL);
  if (!uses) return by_manager_no_memory();
  for (uint32_t i = 0; i < m->hosts->n && offer.n_hosts < wanted->count; i++) {
    struct by_manager_host *host = &m->hosts->all[i];
    if (!is_unused(m, host) || uses[host->node] & BY_NODE_HAS_RANKS) continue;
    host->offered_until = m->now + kept_for * m->options.interval;
    names[offer.n_hosts++] = host->name;
  }
  free(uses);
  by_manager_send(m, peer, &offer);
  return BANYAN_OK;
}
