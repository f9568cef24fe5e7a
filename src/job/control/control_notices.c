#include "control_notices.h"

#include "log.h"

/* ---- LISTEN */

static void listen_here(const struct by_notices *notices) {
  if (notices->peers->job->engine) notices->events->listen(notices->events->context);
}

/* Rank 0 notifies everybody, others notify rank 0; once. */
static void begin(void *argument) {
  struct by_notices *notices = argument;
  if (notices->listens) return;
  notices->listens = true;
  for (const struct by_control_peer *peer = notices->peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer) && !by_control_peers_is_helper(notices->peers, peer->rank) &&
        by_stream_send(peer->stream, LISTEN, NULL, 0) != BANYAN_OK)
      by_warn("control", "%s: telling it to listen failed: %s", by_stream_get_name(peer->stream), banyan_error_text());
  listen_here(notices);
}

void by_notices_post_listen(struct by_notices *notices) {
  if (by_loop_post(notices->peers->job->loop, begin, notices) != BANYAN_OK)
    by_warn("control", "telling other ranks to listen failed: %s", banyan_error_text());
}

void by_notices_handle_listen(struct by_notices *notices) {
  if (by_control_peers_is_root(notices->peers))
    begin(notices);
  else
    listen_here(notices);
}

/* ---- CLASS */

void by_notices_send_class_to(const struct by_notices *notices, const struct by_control_peer *peer) {
  uint8_t class_ = (uint8_t)notices->class_;
  bool takes = notices->class_for_ranks || by_control_peers_is_helper(notices->peers, peer->rank);
  if (!notices->has_class || !by_control_peer_stays(peer) || !takes) return;
  if (by_stream_send(peer->stream, CLASS, &class_, 1) != BANYAN_OK)
    by_warn("control", "telling %s its class failed: %s", by_stream_get_name(peer->stream), banyan_error_text());
}

void by_notices_send_class(struct by_notices *notices, uint32_t class_, bool ranks) {
  notices->class_ = class_;
  notices->class_for_ranks = ranks;
  notices->has_class = true;
  for (const struct by_control_peer *peer = notices->peers->all; peer; peer = peer->next)
    by_notices_send_class_to(notices, peer);
}

void by_notices_handle_class(const struct by_notices *notices, const void *payload, size_t length) {
  if (length == 1)
    by_job_set_class(notices->peers->job, *(const uint8_t *)payload);
  else
    by_warn("control", "rank 0: a malformed word about a class; ignored");
}
