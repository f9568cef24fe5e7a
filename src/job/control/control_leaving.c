/* Ranks that leave on purpose. Rank 0 hears it and tells the others, some at a time: whoever waits for a rank that has
 * left before there was a link would wait for nothing. A link that is there tells for itself, behind its data. */
#include <stdlib.h>
#include <unistd.h>

#include "connector.h"
#include "control_parts.h"
#include "log.h"

enum { TOGETHER_MS = 50 };

bool by_control_has_left(const struct by_control *control, uint32_t rank) {
  for (uint32_t i = 0; i < control->leavers.n; i++)
    if (control->leavers.ranks[i] == rank) return true;
  return false;
}

void by_control_heard_leaving(struct by_control *control, uint32_t rank) {
  struct by_leavers *leavers = &control->leavers;
  if (by_control_has_left(control, rank)) return;
  leavers->ranks[leavers->n++] = rank;
  if (control->inquiry && by_inquiry_left(control->inquiry, rank)) by_control_give_verdict(control);
  if (by_timer_is_set(&leavers->due)) return;
  bool gathers = control->job->rank == 0 && !atomic_load(&control->leaving); /* else soon nobody will tell */
  uint64_t delay = gathers ? TOGETHER_MS * BY_MILLISECOND : 0;
  by_loop_set_delay(control->job->loop, &leavers->due, delay);
}

void by_control_heard_left(struct end *end, const void *payload, size_t length) {
  struct by_control *control = end->control;
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  uint32_t n = by_read_count(&reader, sizeof(uint32_t));
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = by_read_u32(&reader);
    if (rank < control->job->size && rank != control->job->rank) by_control_heard_leaving(control, rank);
  }
  if (reader.failed) by_warn("control", "%s: malformed list of who left", by_stream_get_name(end->stream));
}

void by_control_tell_leavers(struct by_control *control) {
  const struct by_leavers *leavers = &control->leavers;
  struct by_writer writer;
  uint32_t n = leavers->n - leavers->told;
  size_t room = sizeof n * ((size_t)n + 1);
  uint8_t *bytes = n && control->job->rank == 0 ? malloc(room) : NULL;
  if (!bytes) return;
  by_writer_init(&writer, bytes, room);
  by_write_u32(&writer, n);
  for (uint32_t i = leavers->told; i < leavers->n; i++) by_write_u32(&writer, leavers->ranks[i]);
  for (struct end *end = control->ends; end; end = end->next)
    if (end->rank > 0 && !end->leaving && !end->over)
      (void)!by_stream_send(end->stream, LEFT, bytes, writer.length); /* it is not there, or does not read: no matter */
  free(bytes);
}

void by_control_leavers_due(void *argument) {
  struct by_control *control = argument;
  struct by_job *job = control->job;
  struct by_leavers *leavers = &control->leavers;
  if (!job->engine) { /* the job is still being made here */
    by_loop_set_delay(job->loop, &leavers->due, TOGETHER_MS * BY_MILLISECOND);
    return;
  }
  by_control_tell_leavers(control);
  for (; leavers->told < leavers->n; leavers->told++) {
    uint32_t rank = leavers->ranks[leavers->told];
    by_job_lock(job);
    control->events.left(control->events.context, rank);
    by_job_unlock(job);
    by_connector_left(control->connector, rank);
  }
  by_job_wake(job);
}

static void send_leaving(void *context) {
  struct by_control *control = context;
  by_control_tell_leavers(control); /* nobody will after this */
  for (struct end *end = control->ends; end; end = end->next)
    if (!end->over && end->rank >= 0) (void)!by_stream_send(end->stream, LEAVING, NULL, 0);
  atomic_store(&control->leaving, true);
}

void by_control_leave(struct by_control *control) {
  if (by_loop_post(control->job->loop, send_leaving, control) != BANYAN_OK) return;
  for (int i = 0; i < 1000 && !atomic_load(&control->leaving); i++) usleep(i < 100 ? 20 : 1000);
}
