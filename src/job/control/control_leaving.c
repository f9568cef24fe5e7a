#include "control_leaving.h"

#include <stdlib.h>
#include <unistd.h>

#include "log.h"

enum { TOGETHER_MS = 50 };

enum banyan_status by_leaving_make_room(struct by_leaving *leaving, uint32_t ranks) {
  uint32_t *room = realloc(leaving->ranks, ((size_t)ranks + 1) * sizeof *room);
  if (!room) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for members");
  leaving->ranks = room;
  return BANYAN_OK;
}

void by_leaving_handle(struct by_leaving *leaving, uint32_t rank) {
  struct by_control_peers *peers = leaving->peers;
  if (!by_control_peers_set_member(peers, rank, BY_MEMBER_LEAVING)) return;
  leaving->ranks[leaving->n++] = rank;
  by_deadlock_check_left(leaving->check, rank);
  if (by_timer_is_set(&leaving->due)) return;
  bool gathers = by_control_peers_is_root(peers) && !atomic_load(&peers->leaving); /* else soon nobody sends it */
  by_loop_set_delay(peers->job->loop, &leaving->due, gathers ? TOGETHER_MS * BY_MILLISECOND : 0);
}

void by_leaving_handle_list(struct by_leaving *leaving, const struct by_control_peer *peer, const void *payload,
                            size_t length) {
  const struct by_job *job = leaving->peers->job;
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  uint32_t n = by_read_count(&reader, sizeof(uint32_t));
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = by_read_u32(&reader);
    if (rank < job->size && rank != job->rank) by_leaving_handle(leaving, rank);
  }
  if (reader.failed) by_warn("control", "%s: malformed list of who left", by_stream_get_name(peer->stream));
}

void by_leaving_send(struct by_leaving *leaving) {
  struct by_writer writer;
  uint32_t n = leaving->n - leaving->done;
  size_t room = sizeof n * ((size_t)n + 1);
  uint8_t *bytes = n && by_control_peers_is_root(leaving->peers) ? malloc(room) : NULL;
  if (!bytes) return;
  by_writer_init(&writer, bytes, room);
  by_write_u32(&writer, n);
  for (uint32_t i = leaving->done; i < leaving->n; i++) by_write_u32(&writer, leaving->ranks[i]);
  for (struct by_control_peer *peer = leaving->peers->all; peer; peer = peer->next)
    if (by_control_peer_stays(peer))
      (void)!by_stream_send(peer->stream, LEFT, bytes, writer.length); /* it is gone, or does not read: no matter */
  free(bytes);
}

static void leavers_due(void *argument) {
  struct by_leaving *leaving = argument;
  struct by_job *job = leaving->peers->job;
  if (!job->engine) { /* the job is still being made here */
    by_loop_set_delay(job->loop, &leaving->due, TOGETHER_MS * BY_MILLISECOND);
    return;
  }
  by_leaving_send(leaving);
  for (; leaving->done < leaving->n; leaving->done++) {
    uint32_t rank = leaving->ranks[leaving->done];
    (void)by_control_peers_set_member(leaving->peers, rank, BY_MEMBER_LEFT);
    by_job_lock(job);
    leaving->events->left(leaving->events->context, rank);
    by_job_unlock(job);
    by_connector_left(leaving->connector, rank);
  }
  by_job_wake(job);
}

static void send_leaving(void *context) {
  struct by_leaving *leaving = context;
  by_leaving_send(leaving); /* nobody does after this */
  for (struct by_control_peer *peer = leaving->peers->all; peer; peer = peer->next)
    if (peer->rank >= 0) (void)!by_stream_send(peer->stream, LEAVING, NULL, 0);
  atomic_store(&leaving->peers->leaving, true);
}

void by_leaving_leave(struct by_leaving *leaving) {
  _Atomic bool *sent = &leaving->peers->leaving;
  if (by_loop_post(leaving->peers->job->loop, send_leaving, leaving) != BANYAN_OK) return;
  for (int i = 0; i < 1000 && !atomic_load(sent); i++) usleep(i < 100 ? 20 : 1000);
}

void by_leaving_init(struct by_leaving *leaving, struct by_deadlock_check *check, struct by_connector *connector,
                     const struct by_control_events *events) {
  *leaving = (struct by_leaving){.peers = check->peers, .connector = connector, .check = check, .events = events};
  by_timer_init(&leaving->due, leavers_due, leaving);
}

void by_leaving_fini(struct by_leaving *leaving) {
  by_loop_cancel_timer(&leaving->due);
  free(leaving->ranks);
}
