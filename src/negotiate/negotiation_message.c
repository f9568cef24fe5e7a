#include "negotiation_message.h"

#include <stdlib.h>
#include <string.h>

#include <banyan/collectives.h>

#include "arena.h"
#include "text.h"

enum { OPERATION_BYTES = 3 + 4 + 8 + 8 };

void by_list_writer_fini(struct by_list_writer *list_writer) {
  free(list_writer->data);
}

void by_list_writer_clear(struct by_list_writer *list_writer) {
  list_writer->length = 0;
  list_writer->n = 0;
  list_writer->failed = false;
}

/* Room for an entry of at most so many bytes. */
static bool open_entry(struct by_list_writer *list_writer, size_t bytes, struct by_writer *writer) {
  if (!BY_ARRAY_GROW(&list_writer->data, &list_writer->room, list_writer->length + bytes)) {
    list_writer->failed = true;
    return false;
  }
  by_writer_init(writer, list_writer->data + list_writer->length, bytes);
  return true;
}

static void close_entry(struct by_list_writer *list_writer, const struct by_writer *writer) {
  list_writer->length += writer->length;
  list_writer->n++;
}

/* --- writing --- */

static void write_operation(struct by_writer *writer, const struct by_operation *operation) {
  by_write_u8(writer, operation->collective);
  by_write_u8(writer, operation->dtype);
  by_write_u8(writer, operation->op);
  by_write_u32(writer, operation->root);
  by_write_u64(writer, operation->count);
  by_write_u64(writer, operation->rest);
}

static size_t subject_bytes(const char *name) {
  return 4 + strlen(name) + OPERATION_BYTES;
}

static void write_subject(struct by_writer *writer, const char *name, const struct by_operation *operation) {
  by_write_string(writer, name);
  write_operation(writer, operation);
}

void by_list_writer_number(struct by_list_writer *list_writer, uint32_t number) {
  struct by_writer writer;
  if (!open_entry(list_writer, 4, &writer)) return;
  by_write_u32(&writer, number);
  close_entry(list_writer, &writer);
}

void by_list_writer_wanted(struct by_list_writer *list_writer, uint32_t rank, const char *name,
                           const struct by_operation *operation) {
  struct by_writer writer;
  if (!open_entry(list_writer, 4 + subject_bytes(name), &writer)) return;
  by_write_u32(&writer, rank);
  write_subject(&writer, name, operation);
  close_entry(list_writer, &writer);
}

void by_list_writer_subject(struct by_list_writer *list_writer, const char *name,
                            const struct by_operation *operation) {
  struct by_writer writer;
  if (!open_entry(list_writer, subject_bytes(name), &writer)) return;
  write_subject(&writer, name, operation);
  close_entry(list_writer, &writer);
}

void by_list_writer_stalled(struct by_list_writer *list_writer, const char *name, const struct by_operation *operation,
                            bool late) {
  struct by_writer writer;
  if (!open_entry(list_writer, 1 + subject_bytes(name), &writer)) return;
  by_write_u8(&writer, late);
  write_subject(&writer, name, operation);
  close_entry(list_writer, &writer);
}

void by_list_writer_refusal(struct by_list_writer *list_writer, const struct by_refusal *refusal) {
  struct by_writer writer;
  if (!open_entry(list_writer, subject_bytes(refusal->name) + OPERATION_BYTES + 8, &writer)) return;
  by_write_string(&writer, refusal->name);
  for (int i = 0; i < 2; i++) {
    by_write_u32(&writer, refusal->ranks[i]);
    write_operation(&writer, &refusal->operations[i]);
  }
  close_entry(list_writer, &writer);
}

void by_list_writer_stall(struct by_list_writer *list_writer, const struct by_stall *stall) {
  struct by_writer writer;
  if (!open_entry(list_writer, subject_bytes(stall->name) + 16 + (size_t)stall->n_ranges * 8, &writer)) return;
  write_subject(&writer, stall->name, &stall->operation);
  by_write_u32(&writer, stall->top);
  by_write_u32(&writer, stall->more);
  by_write_u32(&writer, stall->silent);
  by_write_u32(&writer, stall->n_ranges);
  for (uint32_t i = 0; i < stall->n_ranges; i++) {
    by_write_u32(&writer, stall->ranges[i].first);
    by_write_u32(&writer, stall->ranges[i].last);
  }
  close_entry(list_writer, &writer);
}

void by_list_writer_started(struct by_list_writer *list_writer, uint32_t bit, uint32_t id, const char *name,
                            const struct by_operation *operation) {
  struct by_writer writer;
  if (!open_entry(list_writer, 5 + subject_bytes(name), &writer)) return;
  by_write_u8(&writer, bit == UINT32_MAX);
  by_write_u32(&writer, bit == UINT32_MAX ? id : bit);
  if (bit == UINT32_MAX) write_subject(&writer, name, operation);
  close_entry(list_writer, &writer);
}

void by_list_writer_word(struct by_list_writer *list_writer, uint64_t word) {
  struct by_writer writer;
  if (!open_entry(list_writer, 8, &writer)) return;
  by_write_u64(&writer, word);
  close_entry(list_writer, &writer);
}

void by_list_writer_bytes(struct by_list_writer *list_writer, const void *bytes, size_t n) {
  struct by_writer writer;
  if (!open_entry(list_writer, n, &writer)) return;
  by_write_bytes(&writer, bytes, n);
  list_writer->length += writer.length;
}

void by_list_writer_list(struct by_list_writer *list_writer, const struct by_list_writer *list) {
  uint8_t n[4];
  by_put_u32(n, list->n);
  by_list_writer_bytes(list_writer, n, sizeof n);
  by_list_writer_bytes(list_writer, list->data, list->length);
  if (list->failed) list_writer->failed = true;
}

void by_list_writer_group(struct by_list_writer *list_writer, const struct by_list_writer *list) {
  by_list_writer_list(list_writer, list);
  list_writer->n++;
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

bool by_read_stalled(struct by_reader *reader, struct by_subject *out) {
  uint8_t late = by_read_u8(reader);
  if (late > 1) reader->failed = true;
  by_read_subject(reader, out);
  return late != 0;
}

void by_read_refusal(struct by_reader *reader, struct by_subject *subject, struct by_refusal *out) {
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
