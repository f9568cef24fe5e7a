#include "timeline_records.h"

/* --- clocks --- */

void by_clock_point_add(struct by_clock_point *point, uint64_t sent, uint64_t theirs, uint64_t now) {
  uint64_t half = (now - sent + 1) / 2;
  if (point->at && half >= point->error) return;
  *point = (struct by_clock_point){.at = now, .offset = theirs - (sent + half), .error = half};
}

void by_clock_point_same(struct by_clock_point *point) {
  if (point->offset + point->error > 2 * point->error) return;
  point->offset = point->error = 0;
}

uint64_t by_clock_points_apply(const struct by_clock_point points[2], uint64_t at) {
  const struct by_clock_point *a = &points[0], *b = &points[1];
  if (!b->at || b->at <= a->at) return at + a->offset;
  if (!a->at) return at + b->offset;
  int64_t drift = (int64_t)(b->offset - a->offset);
  double part = (double)(int64_t)(at - a->at) / (double)(b->at - a->at);
  return at + a->offset + (uint64_t)(int64_t)((double)drift * part);
}

/* --- records --- */

void by_timeline_reel_begin(struct by_timeline_reel *reel, struct by_tracer *tracer,
                            const struct by_clock_point *points, uint64_t from, uint64_t most) {
  *reel = (struct by_timeline_reel){.tracer = tracer, .points = points, .left = most, .left_open = most};
  by_tracer_range(tracer, &reel->next, &reel->end, &reel->missing);
  if (reel->next < from) reel->next = from;
}

void by_timeline_reel_keep_newest(struct by_timeline_reel *reel, uint64_t most) {
  uint64_t n = by_tracer_count_untaken(reel->tracer, reel->next, reel->end);
  reel->left = reel->left_open = most;
  if (n > most) reel->skip = n - most;
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
    bool has_ended = out->at[BY_TRACE_DONE];
    if (!has_ended && !reel->open) reel->open = id;
    uint64_t *left = has_ended ? &reel->left : &reel->left_open;
    if (!*left) continue; /* given later: it has not ended */
    --*left;
    reel->given++;
    reel->given_ended += has_ended;
    if (reel->points) to_rank_0(reel->points, out);
    return true;
  }
  return false;
}

uint64_t by_timeline_reel_lose(struct by_timeline_reel *reel) {
  reel->missing += reel->given - reel->given_ended;
  return reel->given_ended;
}

uint64_t by_timeline_reel_resume(const struct by_timeline_reel *reel) {
  return reel->open ? reel->open : reel->next;
}
