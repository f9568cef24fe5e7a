/* A job's timeline: records are collected from all ranks, converted to rank 0's time, and written to its file. */
#include "timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "job_state.h"
#include "log.h"
#include "membership.h"
#include "timeline_file.h"
#include "timeline_records.h"

enum {
  PINGS = 8,
  MOST_TOGETHER = 1 << 19, /* The maximum of records that rank 0 takes from all processes at the end. */
  LEAST_EACH = 512,
  LEAVE_MS = 5000,
  HURRIED_MS = 300, /* The time in place of LEAVE_MS if others wait for this process in the next membership. */
  PERIOD_MS = 500,
  AT_ONCE = 4096, /* Records of all ranks in a period: about 20 ms of work for rank 0, and 4 MB. */
  LEAST_AT_ONCE = 16,
  TIMEOUT_MS = 10000,
  CALLS_MS = 200,
  LOOK_MS = 2,
  HURRY_MS = 10, /* The time within which the calls of a failed job end. */
  REEL_BYTES = 64 << 10,
  RECORD_MOST = 512,
  MESSAGE_MOST = 256,
  TITLE = BY_MEMBERSHIP_TITLE + BY_MEMBER_STRING + 64
};

/* A process that was lost. */
struct loss {
  uint64_t at; /* The time of the loss in nanoseconds; 0: none. */
  uint32_t process, track;
  char text[512];
};

static const uint64_t MOST_BYTES = 1 << 30;

enum phase {
  IDLE,     /* No timeline is recorded. */
  EXPECTED, /* Other processes: rank 0 has not announced yet that it records one. */
  KEPT,     /* A timeline is recorded. */
  CLOSING,  /* Rank 0 waits for the others, which measure their clocks once more. */
  SENT      /* Other processes: rank 0 has not confirmed yet that it has all records. */
};

struct by_timeline {
  struct by_job *job;
  struct by_timeline_peers peers; /* Its `send` is NULL if this process is alone. */
  _Atomic int phase;              /* An enum phase, changed on the loop's thread, except when a timeline begins. */
  uint64_t most;                  /* The maximum of records that rank 0 takes from each process at the end. */
  uint64_t from;                  /* The oldest record of this process that may still have to be written or sent. */
  struct by_timer late, tick;     /* Timers: for records that others have not sent, and for the next records. */
  /* Members that processes other than rank 0 use. */
  struct by_clock_point points[2];
  uint32_t point, pings, looks;
  uint64_t error;   /* The maximum error of the times sent so far, in nanoseconds. */
  uint64_t unsent;  /* The number of ended records that were lost because they could not be sent. */
  struct loss loss; /* The last lost process. */
  /* Members that rank 0 uses. */
  struct by_timeline_file *file;
  uint32_t *tracks;          /* The track of each process in the file. */
  uint32_t patience;         /* Milliseconds that the others have to send their records. */
  bool continues;            /* The file was begun by an earlier membership. */
  struct loss inherited;     /* The loss in the previous membership, which this one writes. */
  bool begun;                /* The loop's thread has the file. */
  bool *notified;            /* By process: all its records have arrived. */
  enum banyan_status status; /* The result of closing the file. */
  char text[512];
};

static bool send_message(const struct by_timeline *timeline, uint32_t process,
                         const struct by_timeline_message *message) {
  uint8_t bytes[MESSAGE_MOST];
  struct by_writer writer;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, message);
  if (timeline->peers.send(timeline->peers.context, process, bytes, writer.length) == BANYAN_OK) return true;
  by_warn("timeline", "%s: a message could not be sent: %s", by_job_name(timeline->job, process), banyan_error_text());
  return false;
}

static bool is_there(const struct by_timeline *timeline, uint32_t process) {
  return timeline->peers.is_there && timeline->peers.is_there(timeline->peers.context, process);
}

/* The period of a rank grows with the number of ranks, to limit the requests to rank 0. */
static uint64_t period_of(const struct by_timeline *timeline) {
  return PERIOD_MS * BY_MILLISECOND * MAX(timeline->job->founders / 32, 1);
}

/* Begins with records that were not given before: a limited number of the oldest, or at the end the newest. */
static void begin_reel(struct by_timeline *timeline, bool at_end, struct by_timeline_reel *out) {
  uint64_t founders = MAX(timeline->job->founders, 1);
  const struct by_clock_point *points = timeline->job->rank == 0 ? NULL : timeline->points;
  by_timeline_reel_begin(out, &timeline->job->tracer, points, timeline->from, MAX(AT_ONCE / founders, LEAST_AT_ONCE));
  if (at_end) by_timeline_reel_keep_newest(out, timeline->most);
}

/* --- rank 0: the file --- */

/* Writes records of rank 0. Returns the number of missing ones. */
static uint64_t write_own(struct by_timeline *timeline, bool at_end) {
  struct by_timeline_reel reel;
  struct by_trace_record record;
  begin_reel(timeline, at_end, &reel);
  while (by_timeline_reel_next(&reel, &record))
    by_timeline_file_record(timeline->file, timeline->tracks[timeline->job->rank], &record);
  timeline->from = by_timeline_reel_resume(&reel);
  return reel.missing;
}

/* A member has the same track in each membership. */
static uint32_t track_of(const struct by_job *job, uint32_t process) {
  if (!job->formed || process >= job->size) return process;
  return by_get_u32(job->formed->members[process].fingerprint.bytes) & INT32_MAX;
}

static void write_loss(struct by_timeline *timeline, const struct loss *loss) {
  if (!timeline->file || !loss->at) return;
  by_timeline_file_event(timeline->file, loss->track, loss->at, loss->text);
}

/* A job's ranks are known by their numbers; members of several memberships by what they are in each. */
static void end_process(struct by_timeline *timeline, uint32_t process, uint64_t missing, uint64_t error,
                        const struct by_trace_totals totals[BY_TRACE_STATES]) {
  const struct by_membership *formed = timeline->job->formed;
  char name[BY_MEMBERSHIP_NAME + 32];
  if (formed)
    snprintf(name, sizeof name, "%s: %u", formed->name, process);
  else
    snprintf(name, sizeof name, "%u", process);
  by_timeline_file_end(timeline->file, name, missing, error, totals);
}

/* Writes rank 0's own records into the file and closes it. Called on the loop's thread, if there is one. */
static void finish(struct by_timeline *timeline) {
  struct by_trace_totals totals[BY_TRACE_STATES];
  uint64_t missing = write_own(timeline, true);
  by_tracer_totals(&timeline->job->tracer, totals);
  end_process(timeline, timeline->job->rank, missing, 0, totals);
  timeline->status = by_timeline_file_close(timeline->file);
  if (timeline->status != BANYAN_OK) snprintf(timeline->text, sizeof timeline->text, "%s", banyan_error_text());
  timeline->file = NULL;
  timeline->begun = false;
  atomic_store(&timeline->phase, IDLE);
}

/* --- rank 0: the others --- */

/* Whether the timeline has a track for the process. Helpers that joined later have none. */
static bool is_noted(const struct by_timeline *timeline, uint32_t process) {
  return timeline->notified && process > 0 && process < timeline->job->founders;
}

static bool is_awaited(const struct by_timeline *timeline, uint32_t process) {
  return is_there(timeline, process) && !timeline->notified[process];
}

static void finish_if_all(struct by_timeline *timeline) {
  if (atomic_load(&timeline->phase) != CLOSING) return;
  for (uint32_t p = 1; p < timeline->job->founders; p++)
    if (is_awaited(timeline, p)) return;
  by_loop_cancel_timer(&timeline->late);
  finish(timeline);
}

static void await_others(struct by_timeline *timeline) {
  by_loop_set_delay(timeline->job->loop, &timeline->late, timeline->patience * BY_MILLISECOND);
}

static void others_are_late(struct by_timeline *timeline) {
  for (uint32_t p = 1; p < timeline->job->founders; p++)
    if (is_awaited(timeline, p))
      by_warn("timeline", "%s has not sent its records within %u ms; they are missing", by_job_name(timeline->job, p),
              timeline->patience);
  finish(timeline);
}

static void notify_all(const struct by_timeline *timeline, enum by_timeline_kind kind) {
  struct by_timeline_message message = {.kind = kind, .most = timeline->most};
  for (uint32_t p = 1; p < timeline->job->founders; p++)
    if (is_there(timeline, p)) (void)send_message(timeline, p, &message);
}

static void begin_here(void *context) {
  struct by_timeline *timeline = context;
  memset(timeline->notified, 0, timeline->job->founders * sizeof *timeline->notified);
  timeline->begun = true;
  write_loss(timeline, &timeline->loss); /* The process may have been lost just before. */
  notify_all(timeline, BY_TIMELINE_ON);
  by_loop_set_delay(timeline->job->loop, &timeline->tick, period_of(timeline));
}

static void end_here(struct by_timeline *timeline) {
  by_loop_cancel_timer(&timeline->tick); /* The next timeline sets the timer again once it has a file. */
  notify_all(timeline, BY_TIMELINE_OFF);
  await_others(timeline);
  finish_if_all(timeline);
}

static void take_records(struct by_timeline *timeline, uint32_t process, struct by_reader *reader, uint32_t n) {
  struct by_trace_record record;
  for (uint32_t i = 0; i < n; i++) {
    if (!by_timeline_read_record(reader, &record)) {
      by_warn("timeline", "%s sent a malformed record; the rest of its frame is missing",
              by_job_name(timeline->job, process));
      break;
    }
    by_timeline_file_record(timeline->file, timeline->tracks[process], &record);
  }
  by_timeline_file_flush(timeline->file);
}

static void handle_at_rank_0(struct by_timeline *timeline, uint32_t process, const struct by_timeline_message *message,
                             struct by_reader *reader) {
  bool kept = atomic_load(&timeline->phase) != IDLE && timeline->file;
  if (message->kind == BY_TIMELINE_PING) {
    uint64_t now = by_clock_now(&by_clock_system);
    (void)send_message(timeline, process,
                       &(struct by_timeline_message){.kind = BY_TIMELINE_PONG, .sent = message->sent, .now = now});
  }
  if (message->kind == BY_TIMELINE_RECORDS && kept) take_records(timeline, process, reader, message->n);
  if (message->kind == BY_TIMELINE_END) {
    (void)send_message(timeline, process, &(struct by_timeline_message){.kind = BY_TIMELINE_TAKEN});
    if (kept && !timeline->notified[process])
      end_process(timeline, process, message->missing, message->error, message->totals);
    timeline->notified[process] = true;
  }
  if (atomic_load(&timeline->phase) != CLOSING) return;
  await_others(timeline);
  finish_if_all(timeline);
}

/* --- others --- */

static void ping(struct by_timeline *timeline) {
  struct by_timeline_message message = {.kind = BY_TIMELINE_PING, .sent = by_clock_now(&by_clock_system)};
  timeline->pings++;
  if (!is_there(timeline, 0) || !send_message(timeline, 0, &message)) atomic_store(&timeline->phase, IDLE);
}

static void measure(struct by_timeline *timeline, uint32_t point) {
  timeline->point = point;
  timeline->pings = timeline->looks = 0;
  timeline->points[point] = (struct by_clock_point){0};
  ping(timeline);
}

/* Sends as many records as fit into a frame. Returns false if none are left or they cannot be sent. */
static bool send_some(struct by_timeline *timeline, struct by_timeline_reel *reel, uint8_t *bytes) {
  struct by_timeline_message message = {.kind = BY_TIMELINE_RECORDS};
  struct by_trace_record record;
  struct by_writer writer, head;
  by_writer_init(&writer, bytes, REEL_BYTES);
  by_timeline_message_write(&writer, &message);
  reel->given = reel->given_ended = 0;
  while (writer.length + RECORD_MOST <= REEL_BYTES && by_timeline_reel_next(reel, &record)) {
    by_timeline_write_record(&writer, &record);
    message.n++;
  }
  by_writer_init(&head, bytes, REEL_BYTES);
  by_timeline_message_write(&head, &message);
  if (!message.n) return false;
  if (timeline->peers.send(timeline->peers.context, 0, bytes, writer.length) == BANYAN_OK) return true;
  timeline->unsent += by_timeline_reel_lose(reel);
  return false;
}

/* Whether calls are running. If the other ranks have ended them, this rank soon will too. */
static bool has_calls(struct by_job *job) {
  if (!job->engine) return false;
  by_job_lock(job);
  bool has = by_engine_get_state(job->engine)->pending > 0;
  by_job_unlock(job);
  return has;
}

/* Sends records to rank 0. Returns the number of missing ones. */
static uint64_t send_records(struct by_timeline *timeline, bool at_end) {
  struct by_timeline_reel reel;
  uint8_t *bytes = malloc(REEL_BYTES);
  begin_reel(timeline, at_end, &reel);
  while (bytes && is_there(timeline, 0) && send_some(timeline, &reel, bytes)) continue;
  free(bytes);
  for (int i = 0; i < 2; i++) timeline->error = MAX(timeline->error, timeline->points[i].error);
  timeline->from = by_timeline_reel_resume(&reel);
  return timeline->unsent + reel.missing + reel.end - reel.next;
}

static void send_all(struct by_timeline *timeline) {
  struct by_timeline_message message = {.kind = BY_TIMELINE_END, .missing = send_records(timeline, true)};
  message.error = timeline->error;
  by_tracer_totals(&timeline->job->tracer, message.totals);
  bool sent = is_there(timeline, 0) && send_message(timeline, 0, &message);
  atomic_store(&timeline->phase, sent ? SENT : IDLE);
}

static void send_soon(struct by_timeline *timeline) {
  if (timeline->looks++ < CALLS_MS / LOOK_MS && has_calls(timeline->job))
    by_loop_set_delay(timeline->job->loop, &timeline->late, LOOK_MS * BY_MILLISECOND);
  else
    send_all(timeline);
}

static void handle_pong(struct by_timeline *timeline, const struct by_timeline_message *message) {
  uint64_t now = by_clock_now(&by_clock_system);
  int phase = atomic_load(&timeline->phase);
  if (phase == EXPECTED)
    atomic_store(&timeline->phase, IDLE); /* Messages are in order, so rank 0 has announced no timeline. */
  if (message->sent > now || timeline->pings == 0 || phase == IDLE || phase == EXPECTED || phase == SENT) return;
  struct by_clock_point *point = &timeline->points[timeline->point];
  by_clock_point_add(point, message->sent, message->now, now);
  const struct by_job *job = timeline->job;
  if (!strcmp(job->members[0].machine, job->members[job->rank].machine)) by_clock_point_same(point);
  if (timeline->pings < PINGS) {
    ping(timeline);
    return;
  }
  timeline->pings = 0;
  if (timeline->point == 0) return;
  if (phase == CLOSING)
    send_soon(timeline);
  else
    (void)send_records(timeline, false);
}

static void turn_on(struct by_timeline *timeline, uint64_t most) {
  if (atomic_load(&timeline->phase) > EXPECTED) return;
  if (by_tracer_start(&timeline->job->tracer) != BANYAN_OK) {
    by_warn("timeline", "%s", banyan_error_text());
    return;
  }
  timeline->most = most;
  timeline->from = timeline->error = timeline->unsent = 0;
  atomic_store(&timeline->phase, KEPT);
  measure(timeline, 0);
  by_loop_set_delay(timeline->job->loop, &timeline->tick, period_of(timeline));
}

static void turn_off(struct by_timeline *timeline) {
  by_tracer_stop(&timeline->job->tracer);
  if (atomic_load(&timeline->phase) == KEPT) {
    atomic_store(&timeline->phase, CLOSING);
    measure(timeline, 1);
  } else if (is_there(timeline, 0) && atomic_load(&timeline->phase) == IDLE) {
    (void)send_message(timeline, 0, &(struct by_timeline_message){.kind = BY_TIMELINE_END});
  }
}

static void handle_from_rank_0(struct by_timeline *timeline, const struct by_timeline_message *message) {
  if (message->kind == BY_TIMELINE_ON) turn_on(timeline, message->most);
  if (message->kind == BY_TIMELINE_OFF) turn_off(timeline);
  if (message->kind == BY_TIMELINE_PONG) handle_pong(timeline, message);
  if (message->kind == BY_TIMELINE_TAKEN && atomic_load(&timeline->phase) == SENT) atomic_store(&timeline->phase, IDLE);
}

/* --- what happens at the connections --- */

void by_timeline_handle(struct by_timeline *timeline, uint32_t process, const void *payload, size_t length) {
  struct by_timeline_message message;
  struct by_reader reader;
  by_reader_init(&reader, payload, length);
  if (by_timeline_message_read(&reader, &message) != BANYAN_OK)
    by_warn("timeline", "%s: malformed message; ignored", by_job_name(timeline->job, process));
  else if (timeline->job->rank != 0)
    handle_from_rank_0(timeline, &message);
  else if (is_noted(timeline, process))
    handle_at_rank_0(timeline, process, &message, &reader);
}

void by_timeline_lost(struct by_timeline *timeline) {
  if (timeline->job->rank == 0)
    finish_if_all(timeline);
  else if (!is_there(timeline, 0))
    atomic_store(&timeline->phase, IDLE);
}

static void late(void *context) {
  struct by_timeline *timeline = context;
  if (timeline->job->rank == 0)
    others_are_late(timeline);
  else if (atomic_load(&timeline->phase) == CLOSING)
    send_soon(timeline);
}

static void tick(void *context) {
  struct by_timeline *timeline = context;
  uint64_t first, next, missing;
  if (atomic_load(&timeline->phase) != KEPT) return;
  if (timeline->job->rank == 0) {
    write_own(timeline, false);
    by_timeline_file_flush(timeline->file);
  } else if (timeline->pings == 0) {
    by_tracer_range(&timeline->job->tracer, &first, &next, &missing);
    if (timeline->from < next) measure(timeline, 1); /* The records are sent once the clocks are measured. */
  }
  by_loop_set_delay(timeline->job->loop, &timeline->tick, period_of(timeline));
}

void by_timeline_note_loss(struct by_timeline *timeline, uint32_t process, const char *text) {
  struct by_job *job = timeline->job;
  uint32_t shown = process < job->founders ? process : 0; /* Processes that joined later have no track. */
  struct loss loss = {.at = by_clock_now(&by_clock_system), .process = process, .track = track_of(job, shown)};
  by_keep_printable(text, loss.text, sizeof loss.text); /* The text may come from another member. */
  by_job_lock(job);
  timeline->loss = loss;
  by_job_unlock(job);
  if (timeline->begun) write_loss(timeline, &loss);
}

void by_timeline_inherit(struct by_timeline *timeline, const struct by_timeline *before) {
  by_job_lock(before->job);
  if (before->loss.at && before->loss.process == 0) timeline->inherited = before->loss;
  by_job_unlock(before->job);
}

void by_timeline_hurry(struct by_timeline *timeline) {
  if (by_timer_is_set(&timeline->tick))
    by_loop_set_delay(timeline->job->loop, &timeline->tick, HURRY_MS * BY_MILLISECOND);
}

/* --- beginning and ending, in any thread --- */

/* The same rank may be another process in each membership. */
static void print_title(const struct by_job *job, uint32_t process, char out[TITLE]) {
  char membership[BY_MEMBERSHIP_TITLE] = "";
  if (job->formed) by_membership_print(job->formed, membership);
  snprintf(out, TITLE, "%s%s%s", by_job_name(job, process), *membership ? ", " : "", membership);
}

static void name_processes(struct by_timeline *timeline) {
  const struct by_job *job = timeline->job;
  char title[TITLE];
  write_loss(timeline, &timeline->inherited);
  timeline->inherited.at = 0;
  for (uint32_t p = 0; p < job->founders; p++) {
    timeline->tracks[p] = track_of(job, p);
    print_title(job, p, title);
    by_timeline_file_name(timeline->file, timeline->tracks[p], p, title);
  }
  if (!job->formed) return;
  by_membership_print(job->formed, title);
  by_timeline_file_membership(timeline->file, title, job->formed->name, by_clock_now(&by_clock_system), job->size,
                              timeline->tracks);
}

/* Opens the file. If another membership of the same processes continues the file, this one gets its own. */
static enum banyan_status open_or_continue(struct by_timeline *timeline, const char *path) {
  char own[PATH_MAX];
  enum banyan_status status = by_timeline_file_open(path, MOST_BYTES, timeline->continues, &timeline->file);
  if (status != BANYAN_ERR_ARGUMENT) return status;
  snprintf(own, sizeof own, "%s.%016llx", path, (unsigned long long)timeline->job->membership);
  by_info("timeline", "%s; the timeline is in %s from here on", banyan_error_text(), own);
  return by_timeline_file_open(own, MOST_BYTES, false, &timeline->file);
}

static enum banyan_status open_file(struct by_timeline *timeline, const char *path) {
  struct by_job *job = timeline->job;
  BY_TRY(by_tracer_start(&job->tracer));
  BY_TRY(open_or_continue(timeline, path));
  timeline->continues = false;
  timeline->from = 0;
  name_processes(timeline);
  timeline->most = MAX(MOST_TOGETHER / MAX(job->founders, 1), LEAST_EACH);
  return timeline->peers.send ? by_loop_post(job->loop, begin_here, timeline) : BANYAN_OK;
}

enum banyan_status by_timeline_begin(struct by_timeline *timeline, const char *path) {
  int idle = IDLE;
  if (!atomic_compare_exchange_strong(&timeline->phase, &idle, KEPT))
    return by_fail(BANYAN_ERR_ARGUMENT, "a timeline is kept already");
  enum banyan_status status = open_file(timeline, path);
  if (status == BANYAN_OK) return status;
  by_tracer_stop(&timeline->job->tracer);
  atomic_store(&timeline->phase, IDLE);
  return status;
}

static void stop_here(void *context) {
  struct by_timeline *timeline = context;
  if (timeline->job->rank == 0)
    end_here(timeline);
  else if (atomic_load(&timeline->phase) == KEPT)
    turn_off(timeline);
}

static bool wait_until_idle(struct by_timeline *timeline, int milliseconds) {
  for (int i = 0; milliseconds < 0 || i < milliseconds; i++) {
    if (atomic_load(&timeline->phase) == IDLE) return true;
    usleep(1000);
  }
  return false;
}

static void ask_here(void *context) {
  struct by_timeline *timeline = context;
  if (atomic_load(&timeline->phase) == EXPECTED) ping(timeline);
}

/* A rank may leave before its loop has received rank 0's announcement. Rank 0 answers in order, so that the
 * announcement, if there is one, has arrived before the answer. */
static void settle_expected(struct by_timeline *timeline) {
  if (by_loop_post(timeline->job->loop, ask_here, timeline) != BANYAN_OK) return;
  for (int i = 0; i < LEAVE_MS && atomic_load(&timeline->phase) == EXPECTED; i++) usleep(1000);
}

/* Closes the timeline without waiting until it is written. */
static enum banyan_status close_timeline(struct by_timeline *timeline) {
  int kept = KEPT;
  if (!atomic_compare_exchange_strong(&timeline->phase, &kept, CLOSING))
    return by_fail(BANYAN_ERR_ARGUMENT, "no timeline is kept");
  by_tracer_stop(&timeline->job->tracer);
  if (timeline->peers.send) return by_loop_post(timeline->job->loop, stop_here, timeline);
  finish(timeline);
  return BANYAN_OK;
}

enum banyan_status by_timeline_end(struct by_timeline *timeline) {
  BY_TRY(close_timeline(timeline));
  wait_until_idle(timeline, -1); /* The wait ends at the latest with the timeout of rank 0. */
  return timeline->status == BANYAN_OK ? BANYAN_OK : by_fail(timeline->status, "%s", timeline->text);
}

void by_timeline_leave(struct by_timeline *timeline, bool hurries) {
  int patience = hurries ? HURRIED_MS : LEAVE_MS;
  if (hurries) timeline->patience = HURRIED_MS;
  if (atomic_load(&timeline->phase) == EXPECTED) settle_expected(timeline);
  int phase = atomic_load(&timeline->phase);
  if (phase == IDLE || phase == EXPECTED) return;
  if (timeline->job->rank == 0 && phase == KEPT) {
    if (by_timeline_end(timeline) != BANYAN_OK) by_error("timeline", "%s", banyan_error_text());
    return;
  }
  if (phase == KEPT && by_loop_post(timeline->job->loop, stop_here, timeline) != BANYAN_OK) return;
  if (!wait_until_idle(timeline, patience))
    by_warn("timeline", "rank 0 has not taken the records of this rank within %d ms", patience);
}

/* --- life --- */

enum banyan_status by_timeline_create(struct by_job *job, struct by_timeline **out) {
  struct by_timeline *timeline = *out = BY_ARENA_NEW(&job->arena, struct by_timeline);
  if (!timeline) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a timeline");
  timeline->job = job;
  timeline->patience = TIMEOUT_MS;
  by_timer_init(&timeline->late, late, timeline);
  by_timer_init(&timeline->tick, tick, timeline);
  return BANYAN_OK;
}

void by_timeline_connect(struct by_timeline *timeline, const struct by_timeline_peers *peers) {
  timeline->peers = *peers;
}

enum banyan_status by_timeline_open(struct by_timeline *timeline, bool continues) {
  struct by_job *job = timeline->job;
  const char *path = job->settings.timeline;
  timeline->continues = continues;
  timeline->notified = BY_ARENA_ARRAY(&job->arena, bool, job->founders);
  timeline->tracks = BY_ARENA_ARRAY(&job->arena, uint32_t, job->founders);
  if (!timeline->notified || !timeline->tracks) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a timeline");
  if (!path || !*path || job->role.kind != BY_MEMBER_RANK) return BANYAN_OK;
  if (job->rank != 0) {
    int idle = IDLE;
    (void)atomic_compare_exchange_strong(&timeline->phase, &idle, EXPECTED);
    return by_tracer_start(&job->tracer);
  }
  enum banyan_status status = by_timeline_begin(timeline, path);
  return status == BANYAN_OK ? status : by_fail_within(status, "BANYAN_TIMELINE");
}

void by_timeline_destroy(struct by_timeline *timeline) {
  if (!timeline) return;
  by_loop_cancel_timer(&timeline->late);
  by_loop_cancel_timer(&timeline->tick);
}
