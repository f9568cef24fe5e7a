/* Checks the statements of hosts' agents on control connections, again and again. */
#include "control_trust.h"

#include <stdio.h>

#include "formation.h"
#include "job_state.h"
#include "log.h"
#include "refusal.h"

/* Reports a distrusted peer, so that elastic groups go on without it. */
static void distrust(const struct by_control_trust *trust, const struct by_control_peer *peer) {
  const struct by_job *job = trust->peers->job;
  const struct by_fingerprint *process = by_stream_get_fingerprint(peer->stream);
  if (job->service && process) job->service_ops->distrust(job->service, process);
}

/* Ends a peer whose statement is not, or no longer, believed; the error text has the reason. */
static void end_peer(const struct by_control_trust *trust, struct by_control_peer *peer) {
  char text[TEXT_MOST];
  snprintf(text, sizeof text, "%s", banyan_error_text());
  by_stated_fini(&peer->stated);
  distrust(trust, peer);
  by_warn("control", "%s: %s", by_stream_get_name(peer->stream), text);
  if (*trust->met && peer->rank >= 0)
    by_deaths_disconnected(trust->deaths, (uint32_t)peer->rank, text);
  else
    by_control_peer_send_text(peer, REFUSED, BANYAN_ERR_AUTH, 0, text);
  by_stream_refuse(peer->stream);
}

/* Sends this process's statement to peers that connected before it had this one. */
static void show_own(const struct by_control_trust *trust) {
  uint8_t bytes[BY_STATEMENT_MAX];
  uint32_t version;
  size_t length = by_own_statement_get(trust->peers->job->statement, bytes, &version);
  for (struct by_control_peer *peer = trust->peers->all; peer && length && *trust->met; peer = peer->next)
    if (by_control_peer_stays(peer) && peer->shown != version && by_stream_get_fingerprint(peer->stream) &&
        by_control_peer_try_send(peer, STATEMENT, bytes, length) == BANYAN_OK)
      peer->shown = version;
}

static void looked(void *context) {
  const struct by_control_trust *trust = context;
  for (struct by_control_peer *peer = trust->peers->all, *next; peer; peer = next) {
    next = peer->next;
    if (peer->state != BY_PEER_LEAVING && by_host_trust_judge(trust->hosts, &peer->stated) != BANYAN_OK)
      end_peer(trust, peer);
  }
  show_own(trust);
}

static enum banyan_status check(struct by_control_trust *trust, struct by_control_peer *peer,
                                const struct by_trust_peer *shown) {
  struct by_stated stated;
  enum banyan_status status = by_host_trust_check(trust->hosts, shown, &stated);
  if (status != BANYAN_OK) {
    distrust(trust, peer);
    return status;
  }
  by_stated_fini(&peer->stated);
  peer->stated = stated;
  return BANYAN_OK;
}

enum banyan_status by_control_trust_check(struct by_control_trust *trust, struct by_control_peer *peer,
                                          const struct by_join *hello, bool is_helper) {
  return check(trust, peer,
               &(struct by_trust_peer){.process = by_stream_get_fingerprint(peer->stream),
                                       .host = hello->member.host,
                                       .is_helper = is_helper,
                                       .statement = hello->statement,
                                       .length = hello->statement_length});
}

void by_control_trust_handle(void *argument, const struct by_received *message) {
  struct by_control_trust *trust = argument;
  struct by_control_peer *peer = message->peer;
  const struct by_job *job = trust->peers->job;
  if (peer->rank < 0 || peer->state == BY_PEER_LEAVING) return;
  const struct by_trust_peer shown = {.process = by_stream_get_fingerprint(peer->stream),
                                      .host = job->members[peer->rank].host,
                                      .is_helper = by_control_peers_is_helper(trust->peers, peer->rank),
                                      .statement = message->payload,
                                      .length = message->length};
  enum banyan_status status = message->length ? check(trust, peer, &shown)
                                              : by_refuse(BY_REFUSED_PROTOCOL, BANYAN_ERR_PROTOCOL,
                                                          "it has sent an empty statement about itself");
  if (status != BANYAN_OK) end_peer(trust, peer);
}

enum banyan_status by_control_trust_init(struct by_control_trust *trust, struct by_deaths *deaths, const bool *met) {
  struct by_job *job = deaths->peers->job;
  *trust = (struct by_control_trust){.peers = deaths->peers, .deaths = deaths, .met = met};
  return by_host_trust_create(job->loop, job->statement, looked, trust, &trust->hosts);
}

void by_control_trust_fini(struct by_control_trust *trust) {
  by_host_trust_destroy(trust->hosts);
  trust->hosts = NULL;
}
