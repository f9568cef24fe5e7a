/* Encodes and decodes the messages about watched and probed paths. */
#include "path_message.h"

#include "fields.h"

enum { RATE_BYTES = 4 + 8 + 8 + 4, WHOLE = 1000000, LONGEST_MS = 600000 };

static const struct by_field kind_field[] = {
    BY_FIELD(by_path_message, kind, BY_FIELD_U8, .min = BY_PATH_WATCH, .max = BY_PATH_PROBED)};
static const struct by_field watch_fields[] = {BY_FIELD(by_path_message, interval, BY_FIELD_U32, .max = LONGEST_MS)};
static const struct by_field probe_fields[] = {
    BY_FIELD(by_path_message, process, BY_FIELD_U32),
    BY_FIELD(by_path_message, test.first, BY_FIELD_U64),
    BY_FIELD(by_path_message, test.within, BY_FIELD_U32, .max = LONGEST_MS),
    BY_FIELD(by_path_message, test.bytes, BY_FIELD_U64),
    BY_FIELD(by_path_message, test.lasts, BY_FIELD_U32, .max = LONGEST_MS),
};
static const struct by_field probed_fields[] = {
    BY_FIELD(by_path_message, process, BY_FIELD_U32),
    BY_FIELD(by_path_message, bandwidth, BY_FIELD_U64),
};
static const struct by_field rate_fields[] = {
    BY_FIELD(by_path_rate, process, BY_FIELD_U32),
    BY_FIELD(by_path_rate, sent, BY_FIELD_U64),
    BY_FIELD(by_path_rate, bandwidth, BY_FIELD_U64),
    BY_FIELD(by_path_rate, busy, BY_FIELD_U32, .max = WHOLE),
};

void by_path_message_write(struct by_writer *writer, const struct by_path_message *message) {
  by_fields_write(writer, BY_FIELDS(kind_field), message);
  if (message->kind == BY_PATH_WATCH) by_fields_write(writer, BY_FIELDS(watch_fields), message);
  if (message->kind == BY_PATH_PROBE) by_fields_write(writer, BY_FIELDS(probe_fields), message);
  if (message->kind == BY_PATH_PROBED) by_fields_write(writer, BY_FIELDS(probed_fields), message);
  if (message->kind != BY_PATH_REPORT) return;
  by_write_u32(writer, message->n);
  for (uint32_t i = 0; i < message->n; i++) by_fields_write(writer, BY_FIELDS(rate_fields), &message->rates[i]);
}

static enum banyan_status read_rates(struct by_reader *reader, uint32_t processes, struct by_path_message *out) {
  out->n = by_read_count(reader, RATE_BYTES);
  if (out->n > BY_PATH_REPORT_MOST)
    return by_fail(BANYAN_ERR_PROTOCOL, "a report of paths names %u of them, at most %d are allowed", out->n,
                   BY_PATH_REPORT_MOST);
  for (uint32_t i = 0; i < out->n; i++) {
    BY_TRY(by_fields_read(reader, NULL, BY_FIELDS(rate_fields), "a report of paths", &out->rates[i]));
    if (out->rates[i].process >= processes)
      return by_fail(BANYAN_ERR_PROTOCOL, "a report of paths names process %u of %u", out->rates[i].process, processes);
  }
  return BANYAN_OK;
}

enum banyan_status by_path_message_read(const void *bytes, size_t length, uint32_t processes,
                                        struct by_path_message *out) {
  static const char what[] = "a message about paths";
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_path_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(kind_field), what, out));
  if (out->kind == BY_PATH_WATCH) BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(watch_fields), what, out));
  if (out->kind == BY_PATH_PROBE) BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(probe_fields), what, out));
  if (out->kind == BY_PATH_PROBED) BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(probed_fields), what, out));
  if (out->process >= processes)
    return by_fail(BANYAN_ERR_PROTOCOL, "a probe goes to process %u of %u", out->process, processes);
  if (out->kind == BY_PATH_REPORT) BY_TRY(read_rates(&reader, processes, out));
  return by_reader_check(&reader, what);
}
