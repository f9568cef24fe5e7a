#include "job_network.h"

#include <stdlib.h>
#include <string.h>

enum banyan_status by_job_network_keep(struct by_context *context, struct by_topology *topology, const uint32_t *nodes,
                                       enum banyan_plan_source source) {
  uint32_t n_hosts = context->job.n_hosts;
  struct by_job_network *network = calloc(1, sizeof *network);
  uint32_t *copy = calloc(n_hosts, sizeof *copy);
  if (!network || !copy) {
    by_topology_destroy(topology);
    free(network);
    free(copy);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the topology of a job");
  }
  memcpy(copy, nodes, n_hosts * sizeof *copy);
  *network = (struct by_job_network){
      .topology = topology, .nodes = copy, .n_hosts = n_hosts, .source = source, .references = 1};
  by_context_lock(context);
  struct by_job_network *before = context->network;
  context->network = network;
  by_context_unlock(context);
  by_job_network_release(before);
  if (context->planning.network_kept) context->planning.network_kept(context);
  return BANYAN_OK;
}

void by_job_network_drop(struct by_context *context) {
  by_context_lock(context);
  struct by_job_network *before = context->network;
  context->network = NULL;
  by_context_unlock(context);
  by_job_network_release(before);
}

struct by_job_network *by_job_network_hold(struct by_context *context) {
  by_context_lock(context);
  struct by_job_network *network = context->network;
  if (network) network->references++;
  by_context_unlock(context);
  return network;
}

void by_job_network_release(struct by_job_network *network) {
  if (!network || --network->references) return;
  by_topology_destroy(network->topology);
  free(network->nodes);
  free(network);
}
