/* Reports to rank 0 the connections that helpers and servers have refused. */
#include "control_refusals.h"

#include <stdlib.h>
#include <string.h>

#include "job_state.h"
#include "log.h"

enum { LOOK_S = 5 };

static void look(void *argument) {
  struct by_control_refusals *refusals = argument;
  const struct by_control_peer *root = by_control_peers_root(refusals->peers);
  struct by_refusals_message now = {0};
  uint8_t bytes[BY_REFUSALS_BYTES];
  struct by_writer writer;
  by_loop_set_delay(refusals->peers->job->loop, &refusals->due, LOOK_S * BY_SECOND);
  for (int r = 0; r < BY_REFUSAL_REASONS; r++) now.counts[r] = by_refusals((enum by_refusal)r);
  if (!root || memcmp(&now, &refusals->sent, sizeof now) == 0) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_refusals_message_write(&writer, &now);
  if (by_control_peer_try_send(root, REFUSALS, bytes, writer.length) == BANYAN_OK) refusals->sent = now;
}

static enum banyan_status keep(struct by_control_refusals *refusals, uint32_t process,
                               const struct by_refusals_message *message) {
  uint32_t before = refusals->room;
  if (process >= before) {
    if (!BY_ARRAY_GROW(&refusals->received, &refusals->room, process + 1))
      return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for counts of refusals");
    for (uint32_t p = before; p < refusals->room; p++) refusals->received[p] = NULL;
  }
  if (!refusals->received[process]) refusals->received[process] = malloc(sizeof *message);
  if (!refusals->received[process]) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for counts of refusals");
  *refusals->received[process] = *message;
  return BANYAN_OK;
}

void by_control_refusals_handle(void *argument, const struct by_received *received) {
  struct by_control_refusals *refusals = argument;
  const struct by_control_peers *peers = refusals->peers;
  struct by_refusals_message message;
  enum banyan_status status = by_refusals_message_read(received->payload, received->length, &message);
  if (status == BANYAN_OK && !by_control_peers_is_helper(peers, received->peer->rank))
    status = by_fail(BANYAN_ERR_PROTOCOL, "only helpers and servers send what they have refused");
  if (status == BANYAN_OK) {
    by_job_lock(peers->job);
    status = keep(refusals, (uint32_t)received->peer->rank, &message);
    by_job_unlock(peers->job);
  }
  if (status != BANYAN_OK)
    by_warn("control", "%s: %s; ignored", by_stream_get_name(received->peer->stream), banyan_error_text());
}

void by_control_refusals_init(struct by_control_refusals *refusals, struct by_control_peers *peers) {
  *refusals = (struct by_control_refusals){.peers = peers};
  by_timer_init(&refusals->due, look, refusals);
  if (peers->job->role.kind != BY_MEMBER_RANK) by_loop_set_delay(peers->job->loop, &refusals->due, LOOK_S * BY_SECOND);
}

void by_control_refusals_fini(struct by_control_refusals *refusals) {
  by_loop_cancel_timer(&refusals->due);
  for (uint32_t p = 0; p < refusals->room; p++) free(refusals->received[p]);
  free(refusals->received);
}
