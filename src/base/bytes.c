/* Bounded readers and writers of control messages. */
#include "bytes.h"

#include <string.h>

void by_reader_init(struct by_reader *reader, const void *data, size_t length) {
  *reader = (struct by_reader){.at = data, .end = length ? (const uint8_t *)data + length : data};
}

size_t by_reader_left(const struct by_reader *reader) {
  return reader->at ? (size_t)(reader->end - reader->at) : 0;
}

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

void by_writer_init(struct by_writer *writer, void *data, size_t capacity) {
  *writer = (struct by_writer){.data = data, .capacity = capacity};
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
