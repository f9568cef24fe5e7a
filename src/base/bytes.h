/* Bounded reading and writing of control messages in a byte range: numbers are little endian, a string or blob is a
 * u32 length and its bytes. A reader that would pass its end stays there, sets `failed` and returns zeros from then
 * on, so that a whole message is read first and checked once, with by_reader_check. A writer does the same. The
 * caller owns the range, which must outlive what is borrowed from it. Not for several threads. */
#ifndef BY_BASE_BYTES_H
#define BY_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "fail.h"

struct by_reader {
  const uint8_t *at, *end;
  bool failed;
};

static inline void by_reader_init(struct by_reader *reader, const void *data, size_t length) {
  *reader = (struct by_reader){.at = data, .end = length ? (const uint8_t *)data + length : data};
}
/* The bytes not read yet; 0 once failed. */
static inline size_t by_reader_left(const struct by_reader *reader) {
  return reader->at ? (size_t)(reader->end - reader->at) : 0;
}
uint8_t by_read_u8(struct by_reader *reader);
uint32_t by_read_u32(struct by_reader *reader);
uint64_t by_read_u64(struct by_reader *reader);
/* Reads n bytes without a length, borrowed from the range; NULL if there are fewer. */
const uint8_t *by_read_bytes(struct by_reader *reader, size_t n);
/* Reads a blob, borrowed from the range; NULL and *n = 0 on failure. */
const uint8_t *by_read_blob(struct by_reader *reader, size_t *n);
/* Reads a string into `out`, which holds `capacity` > 0 bytes. It fails if the string does not fit or contains a NUL;
 * then `out` is "". */
void by_read_string(struct by_reader *reader, char *out, size_t capacity);
/* Reads a string of up to `max` bytes and copies it to the arena; NULL on failure. */
char *by_read_string_in(struct by_reader *reader, struct by_arena *arena, size_t max);
/* Reads a u32 that counts elements of at least `each` > 0 bytes. It fails and returns 0 if the range cannot contain
 * so many, so that it is safe to allocate for them. */
uint32_t by_read_count(struct by_reader *reader, size_t each);
/* Checks that everything was read and nothing is left; otherwise BANYAN_ERR_PROTOCOL with `what` (such as "welcome
 * message") in the text. */
enum banyan_status by_reader_check(const struct by_reader *reader, const char *what);

struct by_writer {
  uint8_t *data;
  size_t capacity;
  size_t length; /* The bytes of everything that was written. It exceeds `capacity` if not all fitted, so data NULL and
                    capacity 0 measure. */
  bool failed;   /* Not all of it fitted. */
};

static inline void by_writer_init(struct by_writer *writer, void *data, size_t capacity) {
  *writer = (struct by_writer){.data = data, .capacity = capacity};
}
void by_write_u8(struct by_writer *writer, uint8_t value);
void by_write_u32(struct by_writer *writer, uint32_t value);
void by_write_u64(struct by_writer *writer, uint64_t value);
/* Writes bytes without a length. */
void by_write_bytes(struct by_writer *writer, const void *bytes, size_t n);
void by_write_blob(struct by_writer *writer, const void *bytes, size_t n);
void by_write_string(struct by_writer *writer, const char *text);

/* The same numbers at an address, for fixed layouts. */
static inline uint16_t by_get_u16(const uint8_t *from) {
  return (uint16_t)(from[0] | from[1] << 8);
}
static inline uint32_t by_get_u32(const uint8_t *from) {
  return (uint32_t)by_get_u16(from) | (uint32_t)by_get_u16(from + 2) << 16;
}
static inline uint64_t by_get_u64(const uint8_t *from) {
  return (uint64_t)by_get_u32(from) | (uint64_t)by_get_u32(from + 4) << 32;
}
static inline void by_put_u16(uint8_t *to, uint16_t value) {
  to[0] = (uint8_t)value;
  to[1] = (uint8_t)(value >> 8);
}
static inline void by_put_u32(uint8_t *to, uint32_t value) {
  by_put_u16(to, (uint16_t)value);
  by_put_u16(to + 2, (uint16_t)(value >> 16));
}
static inline void by_put_u64(uint8_t *to, uint64_t value) {
  by_put_u32(to, (uint32_t)value);
  by_put_u32(to + 4, (uint32_t)(value >> 32));
}

/* Fixed parts of messages, described by tables: each field is in a member of a struct, and has a form on the wire and a
 * range. The same table serves the writer and the reader, in the order of the wire. No I/O. */

struct by_field {
  const char *name; /* For error texts. */
  /* The member's type: for U8 and U32, an unsigned number of any size; for U64, that or an array of uint64_t; for
   * BYTES and STRING, an array; for TEXT, a pointer to a string, which is read into an arena. */
  enum { BY_FIELD_U8, BY_FIELD_U32, BY_FIELD_U64, BY_FIELD_BYTES, BY_FIELD_STRING, BY_FIELD_TEXT } form;
  size_t offset, size;
  bool flag;         /* The member is a bool, which is true for every number but 0. */
  uint64_t min, max; /* The range of a number; max 0: as many as fit. Of a TEXT: max is in bytes. */
};

/* A row of a table: struct, member and form, then members that differ from 0 as designated initialisers. */
#define BY_FIELD(type, member, ...)                                                                                    \
  {                                                                                                                    \
    .name = #member, .offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member),           \
    .form = __VA_ARGS__                                                                                                \
  }
#define BY_FIELDS(table) table, sizeof(table) / sizeof *(table)

void by_fields_write(struct by_writer *writer, const struct by_field *fields, size_t n, const void *from);
/* Fills members of `to`. The arena may be NULL if there is no TEXT. BANYAN_ERR_PROTOCOL names the first field that is
 * out of range, preceded by `what`. */
BANYAN_CHECK enum banyan_status by_fields_read(struct by_reader *reader, struct by_arena *arena,
                                               const struct by_field *fields, size_t n, const char *what, void *to);

#endif
