#include "timeline_message.h"

#include <string.h>

#include "text.h"

enum { RECORD_LEAST = 8 + 8 + 8 * BY_TRACE_STATES + 8 + 8 + 4 + 4 + 3 + 4 };

void by_timeline_message_write(struct by_writer *writer, const struct by_timeline_message *message) {
  by_write_u8(writer, (uint8_t)message->kind);
  switch (message->kind) {
  case BY_TIMELINE_ON:
  case BY_TIMELINE_OFF: by_write_u64(writer, message->most); break;
  case BY_TIMELINE_PING: by_write_u64(writer, message->sent); break;
  case BY_TIMELINE_PONG:
    by_write_u64(writer, message->sent);
    by_write_u64(writer, message->now);
    break;
  case BY_TIMELINE_RECORDS: by_write_u32(writer, message->n); break;
  case BY_TIMELINE_END:
    by_write_u64(writer, message->missing);
    by_write_u64(writer, message->error);
    for (int s = 0; s < BY_TRACE_STATES; s++) {
      by_write_u64(writer, message->totals[s].n);
      by_write_u64(writer, message->totals[s].bytes);
      by_write_u64(writer, message->totals[s].ns);
    }
    break;
  case BY_TIMELINE_TAKEN: break;
  }
}

void by_timeline_write_record(struct by_writer *writer, const struct by_trace_record *record) {
  by_write_u64(writer, record->id);
  by_write_u64(writer, record->bytes);
  for (int s = 0; s < BY_TRACE_STATES; s++) by_write_u64(writer, record->at[s]);
  by_write_u64(writer, record->added);
  by_write_u64(writer, record->adding);
  by_write_u32(writer, record->team);
  by_write_u32(writer, record->call);
  by_write_u8(writer, record->collective);
  by_write_u8(writer, record->status);
  by_write_u8(writer, record->has_call);
  by_write_string(writer, record->name);
}

static void read_rest(struct by_reader *reader, struct by_timeline_message *out) {
  switch (out->kind) {
  case BY_TIMELINE_ON:
  case BY_TIMELINE_OFF: out->most = by_read_u64(reader); break;
  case BY_TIMELINE_PING: out->sent = by_read_u64(reader); break;
  case BY_TIMELINE_PONG:
    out->sent = by_read_u64(reader);
    out->now = by_read_u64(reader);
    break;
  case BY_TIMELINE_RECORDS: out->n = by_read_count(reader, RECORD_LEAST); break;
  case BY_TIMELINE_END:
    out->missing = by_read_u64(reader);
    out->error = by_read_u64(reader);
    for (int s = 0; s < BY_TRACE_STATES; s++) {
      out->totals[s].n = by_read_u64(reader);
      out->totals[s].bytes = by_read_u64(reader);
      out->totals[s].ns = by_read_u64(reader);
    }
    break;
  case BY_TIMELINE_TAKEN: break;
  }
}

enum banyan_status by_timeline_message_read(struct by_reader *reader, struct by_timeline_message *out) {
  uint8_t kind = by_read_u8(reader);
  *out = (struct by_timeline_message){.kind = BY_TIMELINE_TAKEN};
  if (kind < BY_TIMELINE_ON || kind > BY_TIMELINE_TAKEN)
    return by_fail(BANYAN_ERR_PROTOCOL, "a timeline message of unknown kind %u", kind);
  out->kind = (enum by_timeline_kind)kind;
  read_rest(reader, out);
  if (out->kind == BY_TIMELINE_RECORDS && !reader->failed) return BANYAN_OK;
  return by_reader_check(reader, "timeline message");
}

bool by_timeline_read_record(struct by_reader *reader, struct by_trace_record *out) {
  *out = (struct by_trace_record){.id = by_read_u64(reader), .bytes = by_read_u64(reader)};
  for (int s = 0; s < BY_TRACE_STATES; s++) out->at[s] = by_read_u64(reader);
  out->added = by_read_u64(reader);
  out->adding = by_read_u64(reader);
  out->team = by_read_u32(reader);
  out->call = by_read_u32(reader);
  out->collective = by_read_u8(reader);
  out->status = by_read_u8(reader);
  out->has_call = by_read_u8(reader);
  by_read_string(reader, out->name, sizeof out->name);
  return !reader->failed && by_is_printable(out->name, BY_TRACE_NAME);
}
