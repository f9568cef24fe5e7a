/* Fixed parts of messages, described by tables: each field is in a member of a struct, and has a form on the wire and a
 * range. The same table serves the writer and the reader, in the order of the wire. No I/O. */
#ifndef BY_BASE_FIELDS_H
#define BY_BASE_FIELDS_H

#include "bytes.h"

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
