/* Fixed parts of control messages, described by tables: each field is in a member of a struct, and has a form on the
 * wire and a range. The same table serves the writer and the reader, in the order of the wire. No I/O. */
#ifndef BY_JOB_CONTROL_MESSAGE_FIELDS_H
#define BY_JOB_CONTROL_MESSAGE_FIELDS_H

#include "bytes.h"

struct by_field {
  const char *name; /* for error texts */
  enum { BY_FIELD_U8, BY_FIELD_U32, BY_FIELD_U64, BY_FIELD_BYTES, BY_FIELD_STRING } form;
  size_t offset, size;  /* of the member: an array of bytes, an array of chars, or an unsigned number of any size */
  bool flag;            /* the member is a bool, which is true for every number but 0 */
  uint64_t least, most; /* of a number */
};

/* A row of a table: struct, member and form, then what else differs from 0 as designated initialisers. */
#define BY_FIELD(type, member, ...)                                                                                    \
  {                                                                                                                    \
    .name = #member, .offset = offsetof(struct type, member), .size = sizeof(((struct type *)NULL)->member),           \
    .form = __VA_ARGS__                                                                                                \
  }
#define BY_FIELDS(table) table, sizeof(table) / sizeof *(table)

void by_fields_write(struct by_writer *writer, const struct by_field *fields, size_t n, const void *from);
/* Fills members of `to`. BANYAN_ERR_PROTOCOL names the first field that is out of range, with `what` before it. */
BANYAN_CHECK enum banyan_status by_fields_read(struct by_reader *reader, const struct by_field *fields, size_t n,
                                               const char *what, void *to);

#endif
