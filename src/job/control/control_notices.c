/* Notices between processes that need no answer: leaving, the job's class, and the request to listen. */
#include "control_notices.h"

#include <stdlib.h>

#include "job_state.h"
#include "log.h"

enum { TOGETHER_MS = 50 };

/* ---- leaving */

enum banyan_status by_notices_make_room(struct by_notices *notices, uint32_t ranks) {
  return BY_ARRAY_GROW(&notices->leavers, &notices->room, ranks)
             ? BANYAN_OK
             : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
}

void by_notices_handle_leaving(struct by_notices *notices, uint32_t rank) {
  struct by_control_peers *peers = notices->peers;
  if (!by_control_peers_set_member(peers, rank, BY_MEMBER_LEAVING)) return;
  notices->leavers[notices->n_leavers++] = rank;
  by_deadlock_check_left(notices->check, rank);
  if (by_timer_is_set(&notices->due)) return;
  bool gathers = by_control_peers_is_root(peers) && !atomic_load(&peers->leaving); /* Who leaves sends at once. */
  by_loop_set_delay(peers->job->loop, &notices->due, gathers ? TOGETHER_MS * BY_MILLISECOND : 0);
}

void by_notices_handle_left(void *argument, const struct by_received *message) {
  struct by_notices *notices = argument;
  const struct by_job *job = notices->peers->job;
  struct by_reader reader;
  by_reader_init(&reader, message->payload, message->length);
  uint32_t n = by_read_count(&reader, sizeof(uint32_t));
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = by_read_u32(&reader);
    if (rank < job->size && rank != job->rank) by_notices_handle_leaving(notices, rank);
  }
  if (reader.failed)
    by_warn("control", "%s: malformed list of ranks that left", by_stream_get_name(message->peer->stream));
}

void by_notices_send_left(struct by_notices *notices) {
  struct by_writer writer;
  uint32_t n = notices->n_leavers - notices->done;
  size_t room = sizeof n * ((size_t)n + 1);
  uint8_t *bytes = n && by_control_peers_is_root(notices->peers) ? malloc(room) : NULL;
  if (!bytes) return;
  by_writer_init(&writer, bytes, room);
  by_write_u32(&writer, n);
  for (uint32_t i = notices->done; i < notices->n_leavers; i++) by_write_u32(&writer, notices->leavers[i]);
  for (struct by_control_peer *peer = notices->peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer))
      (void)!by_control_peer_try_send(peer, LEFT, bytes, writer.length); /* A peer that is gone does not need it. */
  free(bytes);
}

static void leavers_due(void *argument) {
  struct by_notices *notices = argument;
  struct by_job *job = notices->peers->job;
  if (!job->engine) { /* The job is still being made here. */
    by_loop_set_delay(job->loop, &notices->due, TOGETHER_MS * BY_MILLISECOND);
    return;
  }
  by_notices_send_left(notices);
  for (; notices->done < notices->n_leavers; notices->done++) {
    uint32_t rank = notices->leavers[notices->done];
    (void)by_control_peers_set_member(notices->peers, rank, BY_MEMBER_LEFT);
    by_job_lock(job);
    notices->events->left(notices->events->context, rank);
    by_job_unlock(job);
    by_connector_left(notices->connector, rank);
  }
  by_job_wake(job);
}

void by_notices_send_leaving(void *context) {
  struct by_notices *notices = context;
  by_notices_send_left(notices); /* Nobody sends them after this. */
  for (struct by_control_peer *peer = notices->peers->all; peer; peer = peer->next)
    if (peer->rank >= 0) (void)!by_control_peer_try_send(peer, LEAVING, NULL, 0);
  atomic_store(&notices->peers->leaving, true);
}

/* ---- LISTEN */

void by_notices_send_listen(void *argument) {
  struct by_notices *notices = argument;
  if (notices->listens) return;
  notices->listens = true;
  for (const struct by_control_peer *peer = notices->peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer) && !by_control_peers_is_helper(notices->peers, peer->rank) &&
        by_control_peer_try_send(peer, LISTEN, NULL, 0) != BANYAN_OK)
      by_warn("control", "%s: LISTEN could not be sent: %s", by_stream_get_name(peer->stream), banyan_error_text());
  if (notices->peers->job->engine) notices->events->listen(notices->events->context);
}

void by_notices_handle_listen(void *argument, const struct by_received *message) {
  struct by_notices *notices = argument;
  (void)message;
  if (by_control_peers_is_root(notices->peers))
    by_notices_send_listen(notices);
  else if (notices->peers->job->engine)
    notices->events->listen(notices->events->context);
}

/* ---- CLASS */

void by_notices_send_class_to(const struct by_notices *notices, const struct by_control_peer *peer) {
  uint8_t class_ = (uint8_t)notices->class_;
  bool takes = notices->class_for_ranks || by_control_peers_is_helper(notices->peers, peer->rank);
  if (!notices->has_class || !by_control_peer_stays(peer) || !takes) return;
  if (by_control_peer_try_send(peer, CLASS, &class_, 1) != BANYAN_OK)
    by_warn("control", "%s: its class could not be sent: %s", by_stream_get_name(peer->stream), banyan_error_text());
}

void by_notices_send_class(struct by_notices *notices, uint32_t class_, bool ranks) {
  notices->class_ = class_;
  notices->class_for_ranks = ranks;
  notices->has_class = true;
  for (const struct by_control_peer *peer = notices->peers->all; peer; peer = peer->next)
    by_notices_send_class_to(notices, peer);
}

void by_notices_handle_class(void *argument, const struct by_received *message) {
  const struct by_notices *notices = argument;
  if (message->length == 1)
    by_job_set_class(notices->peers->job, *(const uint8_t *)message->payload);
  else
    by_warn("control", "rank 0: malformed message about a class; ignored");
}

/* ---- NETWORK */

void by_notices_init(struct by_notices *notices, struct by_deadlock_check *check, struct by_connector *connector,
                     const struct by_control_events *events) {
  *notices = (struct by_notices){.peers = check->peers, .connector = connector, .check = check, .events = events};
  by_timer_init(&notices->due, leavers_due, notices);
}

void by_notices_fini(struct by_notices *notices) {
  by_loop_cancel_timer(&notices->due);
  free(notices->leavers);
}
