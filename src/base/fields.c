/* Reads and writes fixed parts of messages by their tables. */
#include "fields.h"

#include <inttypes.h>
#include <string.h>
#include <sys/param.h>

static uint64_t load_number(size_t size, const void *at) {
  switch (size) {
  case sizeof(uint8_t): return *(const uint8_t *)at;
  case sizeof(uint16_t): return *(const uint16_t *)at;
  case sizeof(uint32_t): return *(const uint32_t *)at;
  default: return *(const uint64_t *)at;
  }
}

static void store_number(size_t size, void *at, uint64_t value) {
  switch (size) {
  case sizeof(uint8_t): *(uint8_t *)at = (uint8_t)value; break;
  case sizeof(uint16_t): *(uint16_t *)at = (uint16_t)value; break;
  case sizeof(uint32_t): *(uint32_t *)at = (uint32_t)value; break;
  default: *(uint64_t *)at = value;
  }
}

static void write_numbers(struct by_writer *writer, const struct by_field *field, const uint8_t *at) {
  size_t size = MIN(field->size, sizeof(uint64_t));
  for (const uint8_t *end = at + field->size; at < end; at += size) {
    uint64_t value = load_number(size, at);
    if (field->form == BY_FIELD_U8)
      by_write_u8(writer, (uint8_t)value);
    else if (field->form == BY_FIELD_U32)
      by_write_u32(writer, (uint32_t)value);
    else
      by_write_u64(writer, value);
  }
}

void by_fields_write(struct by_writer *writer, const struct by_field *fields, size_t n, const void *from) {
  for (const struct by_field *field = fields; field < fields + n; field++) {
    const void *at = (const uint8_t *)from + field->offset;
    const char *text = field->form == BY_FIELD_TEXT ? *(const char *const *)at : at;
    if (field->form == BY_FIELD_BYTES)
      by_write_bytes(writer, at, field->size);
    else if (field->form == BY_FIELD_STRING || field->form == BY_FIELD_TEXT)
      by_write_string(writer, text ? text : "");
    else
      write_numbers(writer, field, at);
  }
}

static enum banyan_status read_numbers(struct by_reader *reader, const struct by_field *field, const char *what,
                                       uint8_t *at) {
  size_t size = MIN(field->size, sizeof(uint64_t));
  uint64_t max = field->max ? field->max : UINT64_MAX;
  for (const uint8_t *end = at + field->size; at < end; at += size) {
    uint64_t value = field->form == BY_FIELD_U8    ? by_read_u8(reader)
                     : field->form == BY_FIELD_U32 ? by_read_u32(reader)
                                                   : by_read_u64(reader);
    if (!reader->failed && (value < field->min || value > max))
      return by_fail(BANYAN_ERR_PROTOCOL, "%s: %s is %" PRIu64 ", but must be %" PRIu64 " to %" PRIu64, what,
                     field->name, value, field->min, max);
    store_number(size, at, field->flag ? value != 0 : value);
  }
  return BANYAN_OK;
}

enum banyan_status by_fields_read(struct by_reader *reader, struct by_arena *arena, const struct by_field *fields,
                                  size_t n, const char *what, void *to) {
  for (const struct by_field *field = fields; field < fields + n; field++) {
    void *at = (uint8_t *)to + field->offset;
    if (field->form == BY_FIELD_STRING) {
      by_read_string(reader, at, field->size);
    } else if (field->form == BY_FIELD_TEXT) {
      *(const char **)at = by_read_string_in(reader, arena, field->max);
    } else if (field->form == BY_FIELD_BYTES) {
      const uint8_t *bytes = by_read_bytes(reader, field->size);
      if (bytes) memcpy(at, bytes, field->size);
    } else {
      BY_TRY(read_numbers(reader, field, what, at));
    }
  }
  return reader->failed ? by_reader_check(reader, what) : BANYAN_OK;
}
