/* Timelines: the public functions, and what rank 0 does for them. */
#include <banyan/timeline.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "context.h"
#include "control.h"
#include "log.h"
#include "timeline_parts.h"

enum {
  MOST_TOGETHER = 1 << 19,
  LEAST_EACH = 512,
  LEAVE_MS = 5000,
  PERIOD_MS = 500,
  AT_ONCE = 4096, /* records of all ranks in a period: about 20 ms of work for rank 0, and 4 MB */
  LEAST_AT_ONCE = 16
};
static const uint64_t MOST_BYTES = 1 << 30;

/* --- records --- */

void by_timeline_reel_begin(struct by_timeline_reel *reel, struct by_context *context, bool at_end) {
  const struct by_timeline *timeline = context->timeline;
  uint64_t founders = context->founders ? context->founders : 1;
  *reel = (struct by_timeline_reel){.tracer = &context->tracer,
                                    .points = context->rank == 0 ? NULL : timeline->points,
                                    .left = MAX(AT_ONCE / founders, LEAST_AT_ONCE)};
  by_tracer_range(reel->tracer, &reel->next, &reel->end, &reel->missing);
  if (reel->next < timeline->from) reel->next = timeline->from;
  if (!at_end) return;
  uint64_t n = by_tracer_count_untaken(reel->tracer, reel->next, reel->end);
  reel->left = timeline->most;
  if (n > timeline->most) reel->skip = n - timeline->most;
}

static void to_rank_0(const struct by_clock_point *points, struct by_trace_record *record) {
  for (int s = 0; s < BY_TRACE_STATES; s++)
    if (record->at[s]) record->at[s] = by_clock_points_apply(points, record->at[s]);
  if (record->added) record->added = by_clock_points_apply(points, record->added);
}

bool by_timeline_reel_next(struct by_timeline_reel *reel, struct by_trace_record *out) {
  while (reel->next < reel->end && reel->left) {
    uint64_t id = reel->next++;
    if (!by_tracer_take(reel->tracer, id, out)) continue;
    if (reel->skip) {
      reel->skip--;
      reel->missing++;
      continue;
    }
    reel->left--;
    if (!out->at[BY_TRACE_DONE] && !reel->open) reel->open = id;
    if (reel->points) to_rank_0(reel->points, out);
    return true;
  }
  return false;
}

void by_timeline_reel_end(const struct by_timeline_reel *reel, struct by_timeline *timeline) {
  timeline->from = reel->open ? reel->open : reel->next;
}

/* Where there are many ranks, rank 0 is asked for the time less often by each. */
uint64_t by_timeline_period(const struct by_context *context) {
  return PERIOD_MS * BY_MILLISECOND * MAX(context->founders / 32, 1);
}

/* --- rank 0 --- */

/* Returns how many are missing. */
static uint64_t write_own(struct by_context *context, bool at_end) {
  struct by_timeline *timeline = context->timeline;
  struct by_timeline_reel reel;
  struct by_trace_record record;
  by_timeline_reel_begin(&reel, context, at_end);
  while (by_timeline_reel_next(&reel, &record)) by_timeline_file_record(timeline->file, context->rank, &record);
  by_timeline_reel_end(&reel, timeline);
  return reel.missing;
}

void by_timeline_write_new(struct by_context *context) {
  write_own(context, false);
  by_timeline_file_flush(context->timeline->file);
}

void by_timeline_finish(struct by_context *context) {
  struct by_timeline *timeline = context->timeline;
  struct by_trace_totals totals[BY_TRACE_STATES];
  uint64_t missing = write_own(context, true);
  by_tracer_totals(&context->tracer, totals);
  by_timeline_file_end(timeline->file, context->rank, missing, 0, totals);
  timeline->status = by_timeline_file_close(timeline->file);
  if (timeline->status != BANYAN_OK) snprintf(timeline->text, sizeof timeline->text, "%s", banyan_error_text());
  timeline->file = NULL;
  atomic_store(&timeline->phase, BY_TIMELINE_IDLE);
}

static enum banyan_status open_file(struct by_context *context, const char *path) {
  struct by_timeline *timeline = context->timeline;
  BY_TRY(by_tracer_start(&context->tracer));
  BY_TRY(by_timeline_file_open(path, MOST_BYTES, &timeline->file));
  timeline->from = 0;
  for (uint32_t p = 0; p < context->founders; p++)
    by_timeline_file_name(timeline->file, p, by_context_name(context, p));
  timeline->most = context->founders ? MOST_TOGETHER / context->founders : 0;
  if (timeline->most < LEAST_EACH) timeline->most = LEAST_EACH;
  return context->control ? by_control_timeline_on(context->control) : BANYAN_OK;
}

enum banyan_status by_timeline_begin(struct by_context *context, const char *path) {
  struct by_timeline *timeline = context->timeline;
  int idle = BY_TIMELINE_IDLE;
  if (!atomic_compare_exchange_strong(&timeline->phase, &idle, BY_TIMELINE_KEPT))
    return by_fail(BANYAN_ERR_ARGUMENT, "a timeline is kept already");
  enum banyan_status status = open_file(context, path);
  if (status == BANYAN_OK) return status;
  by_tracer_stop(&context->tracer);
  atomic_store(&timeline->phase, BY_TIMELINE_IDLE);
  return status;
}

static bool wait_until_idle(struct by_timeline *timeline, int milliseconds) {
  for (int i = 0; milliseconds < 0 || i < milliseconds; i++) {
    if (atomic_load(&timeline->phase) == BY_TIMELINE_IDLE) return true;
    usleep(1000);
  }
  return false;
}

enum banyan_status by_timeline_close(struct by_context *context) {
  struct by_timeline *timeline = context->timeline;
  int kept = BY_TIMELINE_KEPT;
  if (!atomic_compare_exchange_strong(&timeline->phase, &kept, BY_TIMELINE_CLOSING))
    return by_fail(BANYAN_ERR_ARGUMENT, "no timeline is kept");
  by_tracer_stop(&context->tracer);
  if (!context->control)
    by_timeline_finish(context);
  else
    BY_TRY(by_control_timeline_off(context->control));
  return BANYAN_OK;
}

enum banyan_status by_timeline_end(struct by_context *context) {
  struct by_timeline *timeline = context->timeline;
  BY_TRY(by_timeline_close(context));
  wait_until_idle(timeline, -1); /* rank 0's patience ends it */
  return timeline->status == BANYAN_OK ? BANYAN_OK : by_fail(timeline->status, "%s", timeline->text);
}

/* --- both --- */

void by_timeline_leave(struct by_context *context) {
  struct by_timeline *timeline = context->timeline;
  int phase = atomic_load(&timeline->phase);
  if (phase == BY_TIMELINE_IDLE) return;
  if (context->rank == 0 && phase == BY_TIMELINE_KEPT) {
    if (by_timeline_end(context) != BANYAN_OK) by_error("timeline", "%s", banyan_error_text());
    return;
  }
  if (phase == BY_TIMELINE_KEPT && by_control_timeline_off(context->control) != BANYAN_OK) return;
  if (!wait_until_idle(timeline, LEAVE_MS))
    by_warn("timeline", "rank 0 has not taken what this rank noted within %d s", LEAVE_MS / 1000);
}

enum banyan_status banyan_timeline_start(struct banyan_comm *comm, const char *path) {
  BY_TRY(by_comm_check(comm));
  struct by_context *context = comm->context;
  if (context->rank != 0) return by_tracer_start(&context->tracer);
  if (!path) return by_fail(BANYAN_ERR_ARGUMENT, "the timeline's path is NULL");
  return by_timeline_begin(context, path);
}

enum banyan_status banyan_timeline_stop(struct banyan_comm *comm) {
  BY_TRY(by_comm_check(comm));
  return comm->context->rank == 0 ? by_timeline_end(comm->context) : BANYAN_OK;
}
