/* Bounded readers and writers of control messages, and of their fixed parts by tables. */
#include "bytes.h"

#include <inttypes.h>
#include <string.h>
#include <sys/param.h>

static void run_over(struct by_reader *reader) {
  reader->at = reader->end;
  reader->failed = true;
}

const uint8_t *by_read_bytes(struct by_reader *reader, size_t n) {
  static const uint8_t nothing[1];
  if (reader->failed || by_reader_left(reader) < n) {
    run_over(reader);
    return NULL;
  }
  if (n == 0) return reader->at ? reader->at : nothing;
  const uint8_t *from = reader->at;
  reader->at += n;
  return from;
}

uint8_t by_read_u8(struct by_reader *reader) {
  const uint8_t *from = by_read_bytes(reader, 1);
  return from ? *from : 0;
}

uint32_t by_read_u32(struct by_reader *reader) {
  const uint8_t *from = by_read_bytes(reader, 4);
  return from ? by_get_u32(from) : 0;
}

uint64_t by_read_u64(struct by_reader *reader) {
  const uint8_t *from = by_read_bytes(reader, 8);
  return from ? by_get_u64(from) : 0;
}

const uint8_t *by_read_blob(struct by_reader *reader, size_t *n) {
  size_t length = by_read_u32(reader);
  const uint8_t *from = by_read_bytes(reader, length);
  *n = from ? length : 0;
  return from;
}

/* Reads a string's bytes; NULL if it is longer than `max` or contains a NUL. */
static const uint8_t *read_text(struct by_reader *reader, size_t max, size_t *n) {
  const uint8_t *from = by_read_blob(reader, n);
  if (from && (*n > max || (*n && memchr(from, 0, *n)))) {
    run_over(reader);
    from = NULL;
  }
  if (!from) *n = 0;
  return from;
}

void by_read_string(struct by_reader *reader, char *out, size_t capacity) {
  size_t n;
  const uint8_t *from = read_text(reader, capacity - 1, &n);
  if (n) memcpy(out, from, n);
  out[n] = '\0';
}

char *by_read_string_in(struct by_reader *reader, struct by_arena *arena, size_t max) {
  size_t n;
  const uint8_t *from = read_text(reader, max, &n);
  char *copy = from ? by_arena_copy(arena, from, n) : NULL;
  if (!copy) run_over(reader);
  return copy;
}

uint32_t by_read_count(struct by_reader *reader, size_t each) {
  uint32_t count = by_read_u32(reader);
  if (count <= by_reader_left(reader) / each) return count;
  run_over(reader);
  return 0;
}

enum banyan_status by_reader_check(const struct by_reader *reader, const char *what) {
  if (reader->failed) return by_fail(BANYAN_ERR_PROTOCOL, "%s is cut short or malformed", what);
  if (by_reader_left(reader))
    return by_fail(BANYAN_ERR_PROTOCOL, "%s has %zu bytes too many", what, by_reader_left(reader));
  return BANYAN_OK;
}

void by_write_bytes(struct by_writer *writer, const void *bytes, size_t n) {
  bool fits = !writer->failed && n <= writer->capacity - writer->length;
  if (fits && n) memcpy(writer->data + writer->length, bytes, n);
  if (!fits) writer->failed = true;
  writer->length += n;
}

void by_write_u8(struct by_writer *writer, uint8_t value) {
  by_write_bytes(writer, &value, 1);
}

void by_write_u32(struct by_writer *writer, uint32_t value) {
  uint8_t bytes[4];
  by_put_u32(bytes, value);
  by_write_bytes(writer, bytes, sizeof bytes);
}

void by_write_u64(struct by_writer *writer, uint64_t value) {
  uint8_t bytes[8];
  by_put_u64(bytes, value);
  by_write_bytes(writer, bytes, sizeof bytes);
}

void by_write_blob(struct by_writer *writer, const void *bytes, size_t n) {
  if (n > UINT32_MAX) writer->failed = true;
  by_write_u32(writer, (uint32_t)n);
  by_write_bytes(writer, bytes, n);
}

void by_write_string(struct by_writer *writer, const char *text) {
  by_write_blob(writer, text, strlen(text));
}

/* ---- fields */

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
