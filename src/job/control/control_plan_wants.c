/* Passes the requests of communicators for plans to rank 0. */
#include "control_plan_wants.h"

#include <stdlib.h>

#include "job_state.h"
#include "log.h"

/* ---- rank 0 */

/* Returns whether the members are different ranks of the job, the asking one first. */
static bool fits(const struct by_job *job, const struct by_plan_want *want) {
  bool *taken = calloc(job->size, sizeof *taken), fits = taken && want->n != 1 && want->n <= job->size;
  for (uint32_t i = 0; fits && i < want->n; i++) {
    uint32_t process = want->processes[i];
    fits = process < job->size && !taken[process] && (i || process == want->process);
    if (fits) taken[process] = true;
  }
  free(taken);
  return fits;
}

/* Takes a request. False: it is invalid. */
static bool take(struct by_plan_switching *switching, uint32_t process, const struct by_plan_switch_message *message) {
  const struct by_control_events *events = switching->events;
  size_t n = message->n_processes;
  if (n > switching->peers->job->size) return false;
  uint32_t *processes = calloc(n + 1, sizeof *processes);
  struct by_plan_want want = {.comm = message->comm, .process = process, .n = (uint32_t)n, .processes = processes};
  for (size_t i = 0; processes && i < n; i++) processes[i] = by_plan_switch_message_process(message, i);
  bool is_one = processes && fits(switching->peers->job, &want);
  if (is_one && !n) by_plan_switching_withdraw(switching, want.comm);
  if (is_one && events->want_plan) events->want_plan(events->context, &want);
  free(processes);
  return is_one;
}

void by_plan_wants_handle(void *argument, const struct by_received *received) {
  struct by_plan_switching *switching = argument;
  const struct by_control_peers *peers = switching->peers;
  const struct by_control_peer *peer = received->peer;
  struct by_plan_switch_message message;
  bool wanted = by_plan_switch_message_read(received->payload, received->length, &message) == BANYAN_OK &&
                message.kind == BY_PLAN_SWITCH_WANTED;
  if (!wanted) {
    by_plan_switching_handle(argument, received);
    return;
  }
  bool may = by_control_peers_is_root(peers) && peer->rank >= 0 && !by_control_peers_is_helper(peers, peer->rank);
  if (!may || !take(switching, (uint32_t)peer->rank, &message))
    by_warn("control", "%s: malformed request for a plan; ignored", by_stream_get_name(peer->stream));
}

/* ---- the rank that asks */

static void send_want(const struct by_control_report *report) {
  struct by_plan_switching *switching = report->context;
  const struct by_control_peers *peers = switching->peers;
  const struct by_plan_switch_message message = {.kind = BY_PLAN_SWITCH_WANTED,
                                                 .comm = report->process,
                                                 .processes = report->bytes,
                                                 .n_processes = report->length / 4,
                                                 .text = ""};
  const struct by_control_peer *root = by_control_peers_is_root(peers) ? NULL : by_control_peers_root(peers);
  if (by_control_peers_is_root(peers))
    (void)take(switching, 0, &message);
  else if (root && !atomic_load(&peers->leaving))
    by_control_send_plan_switch(root, &message);
}

void by_plan_wants_post(struct by_plan_switching *switching, uint32_t comm, uint32_t n, const uint32_t *processes) {
  struct by_control_report report = {
      .handle = send_want, .context = switching, .process = comm, .length = 4 * (size_t)n};
  struct by_writer writer;
  uint8_t *bytes = malloc(report.length + 1);
  by_writer_init(&writer, bytes, bytes ? report.length : 0);
  for (uint32_t i = 0; i < n; i++) by_write_u32(&writer, processes[i]);
  if (bytes) (void)by_control_peers_post(switching->peers, &report, bytes, "the request for a communicator's plan");
  free(bytes);
}
