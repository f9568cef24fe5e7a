#include "message_fields.h"

#include <inttypes.h>
#include <string.h>

static uint64_t load(const struct by_field *field, const void *at) {
  switch (field->size) {
  case sizeof(uint8_t): return *(const uint8_t *)at;
  case sizeof(uint16_t): return *(const uint16_t *)at;
  case sizeof(uint32_t): return *(const uint32_t *)at;
  default: return *(const uint64_t *)at;
  }
}

static void store(const struct by_field *field, void *at, uint64_t value) {
  if (field->flag)
    *(bool *)at = value != 0;
  else if (field->size == sizeof(uint8_t))
    *(uint8_t *)at = (uint8_t)value;
  else if (field->size == sizeof(uint16_t))
    *(uint16_t *)at = (uint16_t)value;
  else if (field->size == sizeof(uint32_t))
    *(uint32_t *)at = (uint32_t)value;
  else
    *(uint64_t *)at = value;
}

void by_fields_write(struct by_writer *writer, const struct by_field *fields, size_t n, const void *from) {
  for (const struct by_field *field = fields; field < fields + n; field++) {
    const void *at = (const uint8_t *)from + field->offset;
    switch (field->form) {
    case BY_FIELD_U8: by_write_u8(writer, (uint8_t)load(field, at)); break;
    case BY_FIELD_U32: by_write_u32(writer, (uint32_t)load(field, at)); break;
    case BY_FIELD_U64: by_write_u64(writer, load(field, at)); break;
    case BY_FIELD_BYTES: by_write_bytes(writer, at, field->size); break;
    case BY_FIELD_STRING: by_write_string(writer, at); break;
    }
  }
}

static uint64_t read_number(struct by_reader *reader, const struct by_field *field) {
  if (field->form == BY_FIELD_U8) return by_read_u8(reader);
  return field->form == BY_FIELD_U32 ? by_read_u32(reader) : by_read_u64(reader);
}

enum banyan_status by_fields_read(struct by_reader *reader, const struct by_field *fields, size_t n, const char *what,
                                  void *to) {
  for (const struct by_field *field = fields; field < fields + n; field++) {
    void *at = (uint8_t *)to + field->offset;
    if (field->form == BY_FIELD_STRING) {
      by_read_string(reader, at, field->size);
    } else if (field->form == BY_FIELD_BYTES) {
      const uint8_t *bytes = by_read_bytes(reader, field->size);
      if (bytes) memcpy(at, bytes, field->size);
    } else {
      uint64_t value = read_number(reader, field);
      if (!reader->failed && (value < field->least || value > field->most))
        return by_fail(BANYAN_ERR_PROTOCOL, "%s: %s is %" PRIu64 ", but must be %" PRIu64 " to %" PRIu64, what,
                       field->name, value, field->least, field->most);
      store(field, at, value);
    }
  }
  return reader->failed ? by_reader_check(reader, what) : BANYAN_OK;
}
