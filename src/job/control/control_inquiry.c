/* Inquiries over the control connections: any rank asks rank 0, rank 0 asks all, all answer, rank 0 decides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connector.h"
#include "control_parts.h"
#include "localsocket.h"
#include "log.h"
#include "socket.h"

/* A network that heals within ten seconds is not worth a word. */
enum { APART_MS = 10000, MOST_SILENT = 16, WAY_BYTES = 200 };

void by_control_give_verdict(void *context) {
  struct by_control *control = context;
  char text[TEXT_MOST];
  uint32_t culprit = UINT32_MAX;
  enum banyan_status status = by_inquiry_judge(control->inquiry, &culprit, text, sizeof text);
  bool apart = status == BANYAN_OK && by_inquiry_find_apart(control->inquiry, APART_MS, &culprit, text, sizeof text);
  if (apart && !control->apart) by_warn("control", "%s; calls wait for it until their deadline", text);
  control->apart = apart;
  by_loop_cancel_timer(&control->answers);
  by_inquiry_destroy(control->inquiry);
  control->inquiry = NULL;
  if (status != BANYAN_OK) by_control_heard_failure(control, status, culprit, text);
}

/* Who cannot be reached from here. */
struct silent {
  uint32_t n, processes[MOST_SILENT], milliseconds[MOST_SILENT];
  char ways[MOST_SILENT][WAY_BYTES];
};

static void note_silent(void *context, uint32_t process, uint32_t milliseconds, const char *way) {
  struct silent *silent = context;
  if (!milliseconds || silent->n == MOST_SILENT) return;
  silent->processes[silent->n] = process;
  silent->milliseconds[silent->n] = milliseconds;
  snprintf(silent->ways[silent->n++], WAY_BYTES, "%s", way);
}

static void note_lane(void *context, uint32_t process, const struct by_meter *meter) {
  char from[BY_ADDRESS_TEXT] = "?", to[BY_ADDRESS_TEXT] = "?", way[WAY_BYTES];
  struct by_address local, peer;
  if (!meter->silent) return;
  if (by_socket_get_local(meter->fd, &local) == BANYAN_OK) by_address_print(&local, from);
  if (by_socket_get_peer(meter->fd, &peer) == BANYAN_OK) by_address_print(&peer, to);
  snprintf(way, sizeof way, "on the connection from %.70s to %.70s", from, to);
  note_silent(context, process, meter->silent, way);
}

static void write_silent(struct by_writer *writer, const struct silent *silent) {
  if (!silent->n) return;
  by_write_u32(writer, silent->n);
  for (uint32_t i = 0; i < silent->n; i++) {
    by_write_u32(writer, silent->processes[i]);
    by_write_u32(writer, silent->milliseconds[i]);
    by_write_string(writer, silent->ways[i]);
  }
}

/* What by_engine_describe writes and who is silent, to be freed, with room for a number before it; NULL: no memory. */
static uint8_t *describe_self(const struct by_control *control, size_t *length) {
  struct by_job *job = control->job;
  struct by_writer measure, writer;
  struct silent silent = {.n = 0};
  if (control->connector) by_connector_visit_tried(control->connector, note_silent, &silent);
  by_writer_init(&measure, NULL, 0);
  by_job_lock(job);
  by_engine_meter(job->engine, note_lane, &silent);
  by_engine_describe(job->engine, &measure);
  write_silent(&measure, &silent);
  uint8_t *bytes = malloc(sizeof(uint32_t) + measure.length);
  if (bytes) {
    by_writer_init(&writer, bytes + sizeof(uint32_t), measure.length);
    by_engine_describe(job->engine, &writer);
    write_silent(&writer, &silent);
  }
  by_job_unlock(job);
  *length = measure.length;
  return bytes;
}

static void tell(struct end *end, enum message type, const void *bytes, size_t length) {
  if (by_stream_send(end->stream, (uint16_t)type, bytes, length) != BANYAN_OK)
    by_debug("control", "telling %s failed: %s", by_stream_get_name(end->stream), banyan_error_text());
}

static void suspect_dead(struct by_control *control, uint32_t rank) {
  char text[TEXT_MOST];
  snprintf(text, sizeof text,
           "rank %u (host %s) is gone: its process ended, though another process that it made still "
           "holds its connections",
           rank, control->job->members[rank].host);
  by_control_suspect_here(control, rank, text);
}

/* A rank may be dead though its connections are open, where another one holds them: one that it made in a way that
 * fork handlers do not see. Those of this machine are looked at; one that has left says so to rank 0 before it ends. */
static void suspect_ended(struct by_control *control) {
  const struct by_job *job = control->job;
  const char *machine = job->members[job->rank].machine;
  for (uint32_t r = 0; r < job->size; r++) {
    const struct by_member *member = &job->members[r];
    if (r == job->rank || strcmp(member->machine, machine) != 0 || by_control_has_left(control, r)) continue;
    if (by_process_has_ended((pid_t)member->pid)) suspect_dead(control, r);
  }
}

static void answer_inquiry(struct end *end, const void *payload, size_t length) {
  size_t n;
  uint8_t *bytes = length == sizeof(uint32_t) ? describe_self(end->control, &n) : NULL;
  if (!bytes) return;
  memcpy(bytes, payload, sizeof(uint32_t));
  tell(end, DESCRIPTION, bytes, sizeof(uint32_t) + n);
  free(bytes);
  suspect_ended(end->control);
}

static void heard_answer(struct end *end, const uint8_t *payload, size_t length) {
  struct by_control *control = end->control;
  size_t skip = sizeof(uint32_t);
  end->silent = false;
  if (by_control_is_helper(control, end->rank)) return; /* that it answers is all that counts */
  if (!control->inquiry || end->rank < 0 || length < skip || by_get_u32(payload) != control->inquiries) return;
  if (by_inquiry_answer(control->inquiry, (uint32_t)end->rank, payload + skip, length - skip))
    by_control_give_verdict(control);
}

static void begin_inquiry(struct by_control *control) {
  uint8_t number[sizeof(uint32_t)];
  if (by_inquiry_create(control->job, &control->inquiry) != BANYAN_OK) return;
  by_put_u32(number, ++control->inquiries);
  for (uint32_t r = 1; r < control->job->size; r++) {
    struct end *end = control->of_rank[r];
    if (!end || end->leaving || end->over)
      (void)by_inquiry_left(control->inquiry, r); /* this rank itself is still to answer */
    else
      tell(end, DESCRIBE, number, sizeof number);
  }
  by_loop_set_delay(control->job->loop, &control->answers, ANSWERS_MS * BY_MILLISECOND);
}

static void ask_helpers(struct by_control *control) {
  uint8_t number[sizeof(uint32_t)];
  by_put_u32(number, control->inquiries);
  by_control_ask_helpers(control, number, sizeof number);
}

/* Helpers are asked each time: one that has answered may have gone since. */
static void ask_all(struct by_control *control, const char *late, const char *awaited) {
  bool fresh = !control->inquiry;
  if (fresh) suspect_ended(control);
  if (fresh) begin_inquiry(control);
  ask_helpers(control);
  if (control->inquiry && *late) by_inquiry_late(control->inquiry, late, awaited);
  size_t length;
  uint8_t *own = fresh && control->inquiry ? describe_self(control, &length) : NULL;
  if (own && by_inquiry_answer(control->inquiry, 0, own + sizeof(uint32_t), length)) by_control_give_verdict(control);
  free(own);
}

void by_control_ask_here(struct by_control *control, const char *late, const char *awaited) {
  uint8_t bytes[2 * TEXT_MOST];
  struct by_writer writer;
  if (control->told || atomic_load(&control->leaving)) return;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_string(&writer, late);
  by_write_string(&writer, awaited);
  if (control->job->rank == 0)
    ask_all(control, late, awaited);
  else if (control->ends && !writer.failed)
    tell(control->ends, ASK, bytes, writer.length);
  if (control->job->rank != 0) suspect_ended(control); /* rank 0 may be the one */
}

static void heard_ask(struct end *end, const void *payload, size_t length) {
  struct by_reader reader;
  char late[TEXT_MOST], awaited[TEXT_MOST];
  by_reader_init(&reader, payload, length);
  by_read_string(&reader, late, sizeof late);
  by_read_string(&reader, awaited, sizeof awaited);
  if (by_reader_check(&reader, "a question") == BANYAN_OK && end->rank > 0)
    by_control_ask_here(end->control, late, awaited);
}

void by_control_heard_inquiry(struct end *end, uint16_t type, const void *payload, size_t length) {
  bool root = end->control->job->rank == 0;
  if (type == ASK && root)
    heard_ask(end, payload, length);
  else if (type == DESCRIPTION && root)
    heard_answer(end, payload, length);
  else if (type == DESCRIBE && !root && end->control->job->engine)
    answer_inquiry(end, payload, length);
}
