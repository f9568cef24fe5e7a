/* Converts a tracer's records to rank 0's time, and encodes the messages about timelines. */
#include "timeline_records.h"

#include "bytes.h"
#include "text.h"

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
    if (!*left) continue; /* It has not ended, and is given later. */
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

/* --- messages --- */

enum { RECORD_LEAST = 8 + 8 + 8 * BY_TRACE_STATES + 8 + 8 + 4 + 4 + 3 + 4 };

static const struct by_field limit[] = {BY_FIELD(by_timeline_message, most, BY_FIELD_U64)};
static const struct by_field times[] = {BY_FIELD(by_timeline_message, sent, BY_FIELD_U64),
                                        BY_FIELD(by_timeline_message, now, BY_FIELD_U64)};
static const struct by_field records[] = {BY_FIELD(by_timeline_message, n, BY_FIELD_U32)};
static const struct by_field end[] = {BY_FIELD(by_timeline_message, missing, BY_FIELD_U64),
                                      BY_FIELD(by_timeline_message, error, BY_FIELD_U64),
                                      BY_FIELD(by_timeline_message, totals, BY_FIELD_U64)};

/* The fields of each kind of message. */
static const struct {
  const struct by_field *fields;
  size_t n;
} forms[] = {[BY_TIMELINE_ON] = {limit, 1},   [BY_TIMELINE_OFF] = {limit, 1},       [BY_TIMELINE_PING] = {times, 1},
             [BY_TIMELINE_PONG] = {times, 2}, [BY_TIMELINE_RECORDS] = {records, 1}, [BY_TIMELINE_END] = {end, 3},
             [BY_TIMELINE_TAKEN] = {limit, 0}};

static const struct by_field record_fields[] = {
    BY_FIELD(by_trace_record, id, BY_FIELD_U64),      BY_FIELD(by_trace_record, bytes, BY_FIELD_U64),
    BY_FIELD(by_trace_record, at, BY_FIELD_U64),      BY_FIELD(by_trace_record, added, BY_FIELD_U64),
    BY_FIELD(by_trace_record, adding, BY_FIELD_U64),  BY_FIELD(by_trace_record, team, BY_FIELD_U32),
    BY_FIELD(by_trace_record, call, BY_FIELD_U32),    BY_FIELD(by_trace_record, collective, BY_FIELD_U8),
    BY_FIELD(by_trace_record, status, BY_FIELD_U8),   BY_FIELD(by_trace_record, has_call, BY_FIELD_U8, .flag = true),
    BY_FIELD(by_trace_record, name, BY_FIELD_STRING),
};

void by_timeline_message_write(struct by_writer *writer, const struct by_timeline_message *message) {
  by_write_u8(writer, (uint8_t)message->kind);
  by_fields_write(writer, forms[message->kind].fields, forms[message->kind].n, message);
}

void by_timeline_write_record(struct by_writer *writer, const struct by_trace_record *record) {
  by_fields_write(writer, BY_FIELDS(record_fields), record);
}

enum banyan_status by_timeline_message_read(struct by_reader *reader, struct by_timeline_message *out) {
  uint8_t kind = by_read_u8(reader);
  *out = (struct by_timeline_message){.kind = BY_TIMELINE_TAKEN};
  if (kind < BY_TIMELINE_ON || kind > BY_TIMELINE_TAKEN)
    return by_fail(BANYAN_ERR_PROTOCOL, "a timeline message of unknown kind %u", kind);
  out->kind = (enum by_timeline_kind)kind;
  BY_TRY(by_fields_read(reader, NULL, forms[kind].fields, forms[kind].n, "timeline message", out));
  if (kind != BY_TIMELINE_RECORDS) return by_reader_check(reader, "timeline message");
  if (out->n <= by_reader_left(reader) / RECORD_LEAST) return BANYAN_OK;
  return by_fail(BANYAN_ERR_PROTOCOL, "timeline message is cut short or malformed");
}

bool by_timeline_read_record(struct by_reader *reader, struct by_trace_record *out) {
  *out = (struct by_trace_record){0};
  return by_fields_read(reader, NULL, BY_FIELDS(record_fields), "a record of a timeline", out) == BANYAN_OK &&
         by_is_printable(out->name, BY_TRACE_NAME);
}
