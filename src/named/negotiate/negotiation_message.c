/* Encodes and decodes the entries of controllers' messages. */
#include "negotiation_message.h"

#include <stdlib.h>

#include <banyan/collectives.h>

#include "text.h"

enum { MOST_ENTRY = 512 };
_Static_assert(sizeof(struct by_subject) + sizeof(struct by_stall) < MOST_ENTRY, "the longest entry has room");

/* --- writing --- */

void by_list_writer_fini(struct by_list_writer *list) {
  free(list->out.data);
}

void by_list_writer_clear(struct by_list_writer *list) {
  list->out.length = 0;
  list->out.failed = false;
  list->n = 0;
}

static struct by_writer *add_entry(struct by_list_writer *list, size_t bytes) {
  if (!BY_ARRAY_GROW(&list->out.data, &list->out.capacity, list->out.length + bytes)) list->out.failed = true;
  list->n++;
  return &list->out;
}

struct by_writer *by_list_entry(struct by_list_writer *list) {
  return add_entry(list, MOST_ENTRY);
}

void by_list_add(struct by_list_writer *to, const struct by_list_writer *list) {
  size_t length = list->out.failed ? 0 : list->out.length;
  struct by_writer *out = add_entry(to, sizeof list->n + length);
  by_write_u32(out, list->n);
  by_write_bytes(out, list->out.data, length);
  out->failed |= list->out.failed;
}

static void write_operation(struct by_writer *writer, const struct by_operation *operation) {
  by_write_u8(writer, operation->collective);
  by_write_u8(writer, operation->dtype);
  by_write_u8(writer, operation->op);
  by_write_u32(writer, operation->root);
  by_write_u64(writer, operation->count);
  by_write_u64(writer, operation->rest);
}

void by_write_subject(struct by_writer *writer, const char *name, const struct by_operation *operation) {
  by_write_string(writer, name);
  write_operation(writer, operation);
}

void by_write_refusal(struct by_writer *writer, const struct by_refused_operation *refusal) {
  by_write_string(writer, refusal->name);
  for (int i = 0; i < 2; i++) {
    by_write_u32(writer, refusal->ranks[i]);
    write_operation(writer, &refusal->operations[i]);
  }
}

void by_write_stall(struct by_writer *writer, const struct by_stall *stall) {
  by_write_subject(writer, stall->name, &stall->operation);
  by_write_u32(writer, stall->top);
  by_write_u32(writer, stall->more);
  by_write_u32(writer, stall->silent);
  by_write_u32(writer, stall->n_ranges);
  for (uint32_t i = 0; i < stall->n_ranges; i++) {
    by_write_u32(writer, stall->ranges[i].first);
    by_write_u32(writer, stall->ranges[i].last);
  }
}

/* --- reading --- */

bool by_operation_name_fits(const char *name) {
  return *name && by_is_printable(name, BY_OPERATION_NAME);
}

static void read_name(struct by_reader *reader, char *name) {
  by_read_string(reader, name, BY_OPERATION_NAME + 1);
  if (!by_operation_name_fits(name)) reader->failed = true;
}

static void read_operation(struct by_reader *reader, struct by_operation *out) {
  out->collective = by_read_u8(reader);
  out->dtype = by_read_u8(reader);
  out->op = by_read_u8(reader);
  out->root = by_read_u32(reader);
  out->count = by_read_u64(reader);
  out->rest = by_read_u64(reader);
  if (banyan_dtype_size((enum banyan_dtype)out->dtype) == 0) reader->failed = true;
}

void by_read_subject(struct by_reader *reader, struct by_subject *out) {
  read_name(reader, out->name);
  read_operation(reader, &out->operation);
}

void by_read_refusal(struct by_reader *reader, struct by_subject *subject, struct by_refused_operation *out) {
  read_name(reader, subject->name);
  out->name = subject->name;
  for (int i = 0; i < 2; i++) {
    out->ranks[i] = by_read_u32(reader);
    read_operation(reader, &out->operations[i]);
  }
}

void by_read_stall(struct by_reader *reader, struct by_subject *subject, struct by_stall *out) {
  by_read_subject(reader, subject);
  *out = (struct by_stall){.name = subject->name, .operation = subject->operation};
  out->top = by_read_u32(reader);
  out->more = by_read_u32(reader);
  out->silent = by_read_u32(reader);
  out->n_ranges = by_read_u32(reader);
  if (out->n_ranges > BY_LACK_RANGES) reader->failed = true;
  for (uint32_t i = 0; i < out->n_ranges && !reader->failed; i++) {
    out->ranges[i].first = by_read_u32(reader);
    out->ranges[i].last = by_read_u32(reader);
    if (out->ranges[i].first > out->ranges[i].last) reader->failed = true;
  }
}
