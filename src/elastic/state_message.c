/* Encodes and decodes the messages of members before and while a state is sent. */
#include "state_message.h"

#include <stdio.h>

#include "bytes.h"
#include "state_contents.h"
#include "text.h"

enum { MAGIC = 0x54535942 /* "BYST" */, STATUS_MOST = 97 };

static const struct by_field summary_fields[] = {
    BY_FIELD(by_state_summary, layout, BY_FIELD_U64),
    BY_FIELD(by_state_summary, copy_layout, BY_FIELD_U64),
    BY_FIELD(by_state_summary, digest, BY_FIELD_U64),
    BY_FIELD(by_state_summary, values, BY_FIELD_U32, .max = BY_STATE_VALUES_MOST),
    BY_FIELD(by_state_summary, layout_bytes, BY_FIELD_U32, .max = BY_STATE_LAYOUT_MOST),
};

void by_state_summary_write(uint8_t bytes[BY_STATE_SUMMARY_BYTES], const struct by_state_summary *summary) {
  struct by_writer writer;
  by_writer_init(&writer, bytes, BY_STATE_SUMMARY_BYTES);
  by_write_u32(&writer, MAGIC);
  by_write_u32(&writer, BY_STATE_FORMAT);
  by_write_u64(&writer, (uint64_t)summary->version);
  by_fields_write(&writer, BY_FIELDS(summary_fields), summary);
}

enum banyan_status by_state_summary_read(const uint8_t bytes[BY_STATE_SUMMARY_BYTES], struct by_state_summary *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, BY_STATE_SUMMARY_BYTES);
  if (by_read_u32(&reader) != MAGIC) return by_fail(BANYAN_ERR_PROTOCOL, "not a description of a state");
  uint32_t format = by_read_u32(&reader);
  if (format != BY_STATE_FORMAT)
    return by_fail(BANYAN_ERR_MISMATCH,
                   "its library sends states in format %u, this one in format %d: install the same version", format,
                   BY_STATE_FORMAT);
  out->version = (int64_t)by_read_u64(&reader);
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(summary_fields), "description of a state", out));
  if (out->version < -1) return by_fail(BANYAN_ERR_PROTOCOL, "malformed description of a state");
  return by_reader_check(&reader, "description of a state");
}

void by_state_outcome_write(uint8_t bytes[BY_STATE_OUTCOME_BYTES], const struct by_state_outcome *outcome) {
  struct by_writer writer;
  by_writer_init(&writer, bytes, BY_STATE_OUTCOME_BYTES);
  by_write_u32(&writer, outcome->status);
  by_write_u32(&writer, 0);
  by_write_bytes(&writer, outcome->text, sizeof outcome->text);
}

enum banyan_status by_state_outcome_read(const uint8_t bytes[BY_STATE_OUTCOME_BYTES], struct by_state_outcome *out) {
  struct by_reader reader;
  char text[sizeof out->text];
  by_reader_init(&reader, bytes, BY_STATE_OUTCOME_BYTES);
  out->status = by_read_u32(&reader);
  uint32_t zero = by_read_u32(&reader);
  const uint8_t *found = by_read_bytes(&reader, sizeof text);
  BY_TRY(by_reader_check(&reader, "outcome of a state"));
  if (zero || out->status > STATUS_MOST) return by_fail(BANYAN_ERR_PROTOCOL, "malformed outcome of a state");
  snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, (const char *)found);
  by_keep_printable(text, out->text, sizeof out->text);
  return BANYAN_OK;
}

void by_state_request_write(uint8_t bytes[BY_STATE_REQUEST_BYTES], uint32_t chunk, uint64_t digest) {
  by_put_u32(bytes, MAGIC);
  by_put_u32(bytes + 4, chunk);
  by_put_u64(bytes + 8, digest);
}

enum banyan_status by_state_request_read(const uint8_t bytes[BY_STATE_REQUEST_BYTES], uint32_t n_chunks,
                                         uint64_t digest, uint32_t *chunk) {
  uint32_t found = by_get_u32(bytes + 4);
  if (by_get_u32(bytes) != MAGIC || by_get_u64(bytes + 8) != digest || found >= n_chunks)
    return by_fail(BANYAN_ERR_PROTOCOL, "malformed request for a part of a state");
  *chunk = found;
  return BANYAN_OK;
}
