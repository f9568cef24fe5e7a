#include "timeline_message.h"

#include <string.h>

#include "fields.h"
#include "text.h"

enum { RECORD_LEAST = 8 + 8 + 8 * BY_TRACE_STATES + 8 + 8 + 4 + 4 + 3 + 4 };

static const struct by_field limit[] = {BY_FIELD(by_timeline_message, most, BY_FIELD_U64)};
static const struct by_field times[] = {BY_FIELD(by_timeline_message, sent, BY_FIELD_U64),
                                        BY_FIELD(by_timeline_message, now, BY_FIELD_U64)};
static const struct by_field records[] = {BY_FIELD(by_timeline_message, n, BY_FIELD_U32)};
static const struct by_field end[] = {BY_FIELD(by_timeline_message, missing, BY_FIELD_U64),
                                      BY_FIELD(by_timeline_message, error, BY_FIELD_U64),
                                      BY_FIELD(by_timeline_message, totals, BY_FIELD_U64)};

/* By kind: what follows it. */
static const struct {
  const struct by_field *fields;
  size_t n;
} forms[] = {[BY_TIMELINE_ON] = {limit, 1},   [BY_TIMELINE_OFF] = {limit, 1},       [BY_TIMELINE_PING] = {times, 1},
             [BY_TIMELINE_PONG] = {times, 2}, [BY_TIMELINE_RECORDS] = {records, 1}, [BY_TIMELINE_END] = {end, 3},
             [BY_TIMELINE_TAKEN] = {NULL, 0}};

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
