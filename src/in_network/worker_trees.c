/* A rank's UDP socket, and its part in trees through switches. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "control_messages.h"
#include "in_network.h"
#include "log.h"
#include "udp.h"

const struct by_feature_key by_in_network_key = {.bytes = sizeof(struct by_in_network)};

enum { TIMEOUT_MS = 5000 /* Maximum time with silent servers. */ };

/* Opens the UDP port. Switches are sent it with each grant; if all jobs begin at the same port, switches need few
 * rules. */
static enum banyan_status open_udp(struct by_job *job) {
  struct by_in_network *state = by_in_network_of(job);
  struct by_port_range ports = {BY_FRAGMENT_PORT, UINT16_MAX};
  if (by_job_settings(job)->ports) BY_TRY(by_port_range_parse(by_job_settings(job)->ports, &ports));
  BY_TRY(by_udp_create(ports, &state->udp));
  if (by_progress_watch(job, by_udp_fd(state->udp), EPOLLIN | EPOLLOUT)) return BANYAN_OK;
  enum banyan_status status = by_fail_errno(BANYAN_ERR_SYSTEM, errno, "watching a UDP socket");
  by_udp_destroy(state->udp);
  state->udp = NULL;
  return status;
}

enum banyan_status by_worker_open_udp(struct by_job *job, uint32_t *port) {
  struct by_in_network *state = by_in_network_of(job);
  by_job_lock(job);
  enum banyan_status status = BANYAN_OK;
  if (!state->udp) status = open_udp(job);
  if (status == BANYAN_OK) *port = (uint32_t)by_udp_port(state->udp);
  by_job_unlock(job);
  return status;
}

void by_worker_count_dropped(struct by_job *job, uint64_t *forged, uint64_t *replayed) {
  const struct by_in_network *state = by_in_network_of(job);
  struct by_udp_counters counters = {0};
  by_job_lock(job);
  if (state->udp) by_udp_count(state->udp, &counters);
  by_job_unlock(job);
  *forged = counters.forged;
  *replayed = counters.replayed;
}

static enum banyan_status make_fabric(const struct by_job *job, const struct by_tree_message *message,
                                      struct by_fabric **out) {
  struct by_udp *udp = by_in_network_of(job)->udp;
  struct by_worker_config config = {.job = message->job,
                                    .key = message->key,
                                    .rank = message->worker,
                                    .groups = message->groups,
                                    .slots = message->slots,
                                    .lines = message->lines,
                                    .exact = message->exact,
                                    .keyed = message->keyed,
                                    .hops = message->ways[0].hops,
                                    .timeout = TIMEOUT_MS * BY_MILLISECOND};
  if (!udp) return by_fail(BANYAN_ERR_PROTOCOL, "this rank takes no part in trees through switches");
  memcpy(config.secret, message->secret, sizeof config.secret);
  memcpy(config.stack, message->ways[0].stack, sizeof config.stack);
  memcpy(config.below, message->below, sizeof config.below);
  struct by_udp_path way = {.server = message->ways[0].address, .has_aggregator = message->n_vias > 0};
  if (config.hops && !way.has_aggregator)
    way.source = by_member_source(&by_job_members(job)[by_job_rank(job)], &way.server);
  if (way.has_aggregator) way.process = message->vias[0].aggregator;
  if (way.has_aggregator) way.aggregator = message->vias[0].address;
  enum banyan_status status = by_udp_fabric_create(udp, &way, &config, &by_clock_system, out);
  explicit_bzero(config.secret, sizeof config.secret);
  return status;
}

enum banyan_status by_worker_attach_tree(struct by_job *job, const struct by_tree_message *message) {
  struct by_fabric *fabric = NULL;
  by_job_lock(job);
  enum banyan_status status = make_fabric(job, message, &fabric);
  if (status == BANYAN_OK) {
    by_info("communicator", "sums over %u %s with %s, as tree %u, %u fragments of %u bytes at once",
            message->ways[0].hops, message->n_vias ? "aggregator" : "switches", by_job_name(job, message->server),
            message->job, message->slots, message->lines * BY_FRAGMENT_LINE);
    status = by_engine_attach_fabric(by_job_engine(job), message->server, message->version, fabric);
    by_progress_kick(job);
  }
  by_job_unlock(job);
  by_job_wake(job);
  return status;
}
