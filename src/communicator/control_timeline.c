/* Timelines over the control connections: see timeline_parts.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_parts.h"
#include "log.h"
#include "timeline_parts.h"

enum {
  PATIENCE_MS = 10000,
  CALLS_MS = 200,
  LOOK_MS = 2,
  HURRY_MS = 10, /* in which the calls of a job that has failed end */
  REEL_BYTES = 64 << 10,
  RECORD_MOST = 512,
  WORD_MOST = 256
};

static struct by_timeline *timeline_of(const struct by_control *control) {
  return control->context->timeline;
}

static bool say(struct end *end, const struct by_timeline_word *word) {
  uint8_t bytes[WORD_MOST];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_write(&writer, word);
  if (end->over || by_stream_send(end->stream, TIMELINE, bytes, writer.length) == BANYAN_OK) return true;
  by_warn("timeline", "telling %s failed: %s", by_stream_get_name(end->stream), banyan_error_text());
  return false;
}

/* --- rank 0 --- */

/* Helpers that came later are in no timeline: it has a place for each process from its start. */
static bool is_noted(const struct by_control *control, const struct end *end) {
  return end->rank > 0 && end->rank < (int64_t)control->context->founders;
}

static bool is_awaited(const struct by_control *control, const struct end *end) {
  return is_noted(control, end) && !end->over && !end->leaving && !timeline_of(control)->told[end->rank];
}

static void finish_if_all(struct by_control *control) {
  if (atomic_load(&timeline_of(control)->phase) != BY_TIMELINE_CLOSING) return;
  for (const struct end *end = control->ends; end; end = end->next)
    if (is_awaited(control, end)) return;
  by_loop_cancel_timer(&control->timeline_late);
  by_timeline_finish(control->context);
}

static void be_patient(struct by_control *control) {
  by_loop_set_delay(control->context->loop, &control->timeline_late, PATIENCE_MS * BY_MILLISECOND);
}

static void others_are_late(struct by_control *control) {
  for (const struct end *end = control->ends; end; end = end->next)
    if (is_awaited(control, end))
      by_warn("timeline", "%s has not sent what it noted within %d s; it is missing",
              by_context_name(control->context, (uint32_t)end->rank), PATIENCE_MS / 1000);
  by_timeline_finish(control->context);
}

static void tell_all(struct by_control *control, enum by_timeline_kind kind) {
  struct by_timeline_word word = {.kind = kind, .most = timeline_of(control)->most};
  for (struct end *end = control->ends; end; end = end->next)
    if (is_noted(control, end) && !end->leaving) (void)say(end, &word);
}

static void set_tick(struct by_control *control, uint64_t ns) {
  by_loop_set_delay(control->context->loop, &control->timeline_tick, ns);
}

static void begin_here(void *context) {
  struct by_control *control = context;
  const struct by_timeline *timeline = timeline_of(control);
  memset(timeline->told, 0, control->context->founders * sizeof *timeline->told);
  tell_all(control, BY_TIMELINE_ON);
  set_tick(control, by_timeline_period(control->context));
}

static void end_here(struct by_control *control) {
  by_loop_cancel_timer(&control->timeline_tick); /* the next timeline sets it again, once it has a file */
  tell_all(control, BY_TIMELINE_OFF);
  be_patient(control);
  finish_if_all(control);
}

static void take_records(struct end *end, struct by_reader *reader, uint32_t n) {
  struct by_timeline *timeline = timeline_of(end->control);
  struct by_trace_record record;
  for (uint32_t i = 0; i < n; i++) {
    if (!by_timeline_read_record(reader, &record)) {
      by_warn("timeline", "%s sent a malformed record; the rest of its frame is missing",
              by_stream_get_name(end->stream));
      break;
    }
    by_timeline_file_record(timeline->file, (uint32_t)end->rank, &record);
  }
  by_timeline_file_flush(timeline->file);
}

static void heard_at_rank_0(struct end *end, const struct by_timeline_word *word, struct by_reader *reader) {
  struct by_control *control = end->control;
  struct by_timeline *timeline = timeline_of(control);
  bool kept = atomic_load(&timeline->phase) != BY_TIMELINE_IDLE && timeline->file;
  if (word->kind == BY_TIMELINE_PING) {
    uint64_t now = by_clock_now(&by_clock_system);
    (void)say(end, &(struct by_timeline_word){.kind = BY_TIMELINE_PONG, .sent = word->sent, .now = now});
  }
  if (word->kind == BY_TIMELINE_RECORDS && kept) take_records(end, reader, word->n);
  if (word->kind == BY_TIMELINE_END) {
    (void)say(end, &(struct by_timeline_word){.kind = BY_TIMELINE_TAKEN});
    if (kept && !timeline->told[end->rank])
      by_timeline_file_end(timeline->file, (uint32_t)end->rank, word->missing, word->error, word->totals);
    timeline->told[end->rank] = true;
  }
  if (atomic_load(&timeline->phase) != BY_TIMELINE_CLOSING) return;
  be_patient(control);
  finish_if_all(control);
}

/* --- others --- */

static struct end *end_to_root(const struct by_control *control) {
  for (struct end *end = control->ends; end; end = end->next)
    if (end->rank == 0 && !end->over) return end;
  return NULL;
}

static void ping(struct by_control *control) {
  struct end *end = end_to_root(control);
  struct by_timeline_word word = {.kind = BY_TIMELINE_PING, .sent = by_clock_now(&by_clock_system)};
  timeline_of(control)->pings++;
  if (!end || !say(end, &word)) atomic_store(&timeline_of(control)->phase, BY_TIMELINE_IDLE);
}

static void measure(struct by_control *control, uint32_t point) {
  struct by_timeline *timeline = timeline_of(control);
  timeline->point = point;
  timeline->pings = timeline->looks = 0;
  timeline->points[point] = (struct by_clock_point){0};
  ping(control);
}

/* As many as fit into a frame. False: none was left, or it cannot be sent. */
static bool send_some(struct end *end, struct by_timeline_reel *reel, uint8_t *bytes) {
  struct by_timeline_word word = {.kind = BY_TIMELINE_RECORDS};
  struct by_trace_record record;
  struct by_writer writer, head;
  by_writer_init(&writer, bytes, REEL_BYTES);
  by_timeline_write(&writer, &word);
  while (writer.length + RECORD_MOST <= REEL_BYTES && by_timeline_reel_next(reel, &record)) {
    by_timeline_write_record(&writer, &record);
    word.n++;
  }
  by_writer_init(&head, bytes, REEL_BYTES);
  by_timeline_write(&head, &word);
  if (!word.n) return false;
  if (by_stream_send(end->stream, TIMELINE, bytes, writer.length) == BANYAN_OK) return true;
  reel->missing += word.n;
  return false;
}

/* Where the others end first, this rank's part of their calls soon does too. */
static bool has_calls(const struct by_control *control) {
  struct by_context *context = control->context;
  if (!context->engine) return false;
  by_context_lock(context);
  bool has = by_engine_pending(context->engine) > 0;
  by_context_unlock(context);
  return has;
}

static void send_records(struct end *end, struct by_timeline_reel *reel, struct by_timeline *timeline) {
  uint8_t *bytes = malloc(REEL_BYTES);
  while (bytes && end && send_some(end, reel, bytes)) continue;
  free(bytes);
  for (int i = 0; i < 2; i++)
    if (timeline->points[i].error > timeline->error) timeline->error = timeline->points[i].error;
  by_timeline_reel_end(reel, timeline);
}

static void send_new(struct by_control *control) {
  struct by_timeline_reel reel;
  by_timeline_reel_begin(&reel, control->context, false);
  send_records(end_to_root(control), &reel, timeline_of(control));
}

static void send_all(struct by_control *control) {
  struct by_timeline *timeline = timeline_of(control);
  struct end *end = end_to_root(control);
  struct by_timeline_reel reel;
  by_timeline_reel_begin(&reel, control->context, true);
  send_records(end, &reel, timeline);
  struct by_timeline_word word = {
      .kind = BY_TIMELINE_END, .missing = reel.missing + reel.end - reel.next, .error = timeline->error};
  by_tracer_totals(&control->context->tracer, word.totals);
  bool sent = end && say(end, &word);
  atomic_store(&timeline->phase, sent ? BY_TIMELINE_SENT : BY_TIMELINE_IDLE);
}

static void send_soon(struct by_control *control) {
  struct by_timeline *timeline = timeline_of(control);
  if (timeline->looks++ < CALLS_MS / LOOK_MS && has_calls(control))
    by_loop_set_delay(control->context->loop, &control->timeline_late, LOOK_MS * BY_MILLISECOND);
  else
    send_all(control);
}

static bool is_beside_rank_0(const struct by_context *context) {
  return strcmp(context->members[0].machine, context->members[context->rank].machine) == 0;
}

static void pong(struct by_control *control, const struct by_timeline_word *word) {
  struct by_timeline *timeline = timeline_of(control);
  uint64_t now = by_clock_now(&by_clock_system);
  int phase = atomic_load(&timeline->phase);
  if (word->sent > now || timeline->pings == 0 || phase == BY_TIMELINE_IDLE || phase == BY_TIMELINE_SENT) return;
  struct by_clock_point *point = &timeline->points[timeline->point];
  by_clock_point_add(point, word->sent, word->now, now);
  if (is_beside_rank_0(control->context)) by_clock_point_same(point);
  if (timeline->pings < BY_TIMELINE_PINGS) {
    ping(control);
    return;
  }
  timeline->pings = 0;
  if (timeline->point == 0) return;
  if (phase == BY_TIMELINE_CLOSING)
    send_soon(control);
  else
    send_new(control);
}

static void turn_on(struct by_control *control, uint64_t most) {
  struct by_timeline *timeline = timeline_of(control);
  if (atomic_load(&timeline->phase) != BY_TIMELINE_IDLE) return;
  if (by_tracer_start(&control->context->tracer) != BANYAN_OK) {
    by_warn("timeline", "%s", banyan_error_text());
    return;
  }
  timeline->most = most;
  timeline->from = timeline->error = 0;
  atomic_store(&timeline->phase, BY_TIMELINE_KEPT);
  measure(control, 0);
  set_tick(control, by_timeline_period(control->context));
}

static void turn_off(struct by_control *control) {
  struct by_timeline *timeline = timeline_of(control);
  struct end *end = end_to_root(control);
  by_tracer_stop(&control->context->tracer);
  if (atomic_load(&timeline->phase) == BY_TIMELINE_KEPT) {
    atomic_store(&timeline->phase, BY_TIMELINE_CLOSING);
    measure(control, 1);
  } else if (end && atomic_load(&timeline->phase) == BY_TIMELINE_IDLE) {
    (void)say(end, &(struct by_timeline_word){.kind = BY_TIMELINE_END});
  }
}

static void heard_from_rank_0(struct by_control *control, const struct by_timeline_word *word) {
  struct by_timeline *timeline = timeline_of(control);
  if (word->kind == BY_TIMELINE_ON) turn_on(control, word->most);
  if (word->kind == BY_TIMELINE_OFF) turn_off(control);
  if (word->kind == BY_TIMELINE_PONG) pong(control, word);
  if (word->kind == BY_TIMELINE_TAKEN && atomic_load(&timeline->phase) == BY_TIMELINE_SENT)
    atomic_store(&timeline->phase, BY_TIMELINE_IDLE);
}

/* --- both --- */

void by_control_heard_timeline(struct end *end, const void *payload, size_t length) {
  struct by_control *control = end->control;
  struct by_timeline_word word;
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  if (by_timeline_read(&reader, &word) != BANYAN_OK)
    by_warn("timeline", "%s: malformed message; ignored", by_stream_get_name(end->stream));
  else if (control->context->rank != 0)
    heard_from_rank_0(control, &word);
  else if (is_noted(control, end))
    heard_at_rank_0(end, &word, &reader);
}

void by_control_timeline_lost(struct by_control *control) {
  if (control->context->rank == 0)
    finish_if_all(control);
  else if (!end_to_root(control))
    atomic_store(&timeline_of(control)->phase, BY_TIMELINE_IDLE);
}

void by_control_timeline_late(void *argument) {
  struct by_control *control = argument;
  if (control->context->rank == 0)
    others_are_late(control);
  else if (atomic_load(&timeline_of(control)->phase) == BY_TIMELINE_CLOSING)
    send_soon(control);
}

static bool has_new(struct by_control *control) {
  uint64_t first, next, missing;
  by_tracer_range(&control->context->tracer, &first, &next, &missing);
  return timeline_of(control)->from < next;
}

void by_control_timeline_tick(void *argument) {
  struct by_control *control = argument;
  struct by_timeline *timeline = timeline_of(control);
  if (atomic_load(&timeline->phase) != BY_TIMELINE_KEPT) return;
  if (control->context->rank == 0)
    by_timeline_write_new(control->context);
  else if (timeline->pings == 0 && has_new(control))
    measure(control, 1); /* then sends */
  set_tick(control, by_timeline_period(control->context));
}

void by_control_timeline_hurry(struct by_control *control) {
  if (by_timer_is_set(&control->timeline_tick)) set_tick(control, HURRY_MS * BY_MILLISECOND);
}

static void stop_here(void *context) {
  struct by_control *control = context;
  if (control->context->rank == 0)
    end_here(control);
  else if (atomic_load(&timeline_of(control)->phase) == BY_TIMELINE_KEPT)
    turn_off(control);
}

enum banyan_status by_control_timeline_on(struct by_control *control) {
  return by_loop_post(control->context->loop, begin_here, control);
}

enum banyan_status by_control_timeline_off(struct by_control *control) {
  return by_loop_post(control->context->loop, stop_here, control);
}
