/* How the clocks of two processes differ, from words that went there and back. */
#include "timeline_parts.h"

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
