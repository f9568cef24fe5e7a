/* Encodes and decodes the messages of processes of elastic groups, except those of Paxos. */
#include "member_message.h"

#include <string.h>

void by_member_hello_write(struct by_writer *writer, const struct by_member_hello *hello) {
  by_write_bytes(writer, hello->to.bytes, sizeof hello->to.bytes);
  by_write_string(writer, hello->handle);
  by_write_blob(writer, hello->statement, hello->statement_length);
}

enum banyan_status by_member_hello_read(const void *bytes, size_t length, struct by_arena *arena,
                                        struct by_member_hello *out) {
  struct by_reader reader;
  *out = (struct by_member_hello){0};
  by_reader_init(&reader, bytes, length);
  const uint8_t *to = by_read_bytes(&reader, sizeof out->to.bytes);
  if (to) memcpy(out->to.bytes, to, sizeof out->to.bytes);
  out->handle = by_read_string_in(&reader, arena, BY_MEMBER_HANDLE);
  out->statement = by_read_blob(&reader, &out->statement_length);
  return by_reader_check(&reader, "a member's hello");
}

void by_member_welcome_write(struct by_writer *writer, const struct by_member_welcome *welcome) {
  by_write_u32(writer, welcome->n);
  for (uint32_t i = 0; i < welcome->n; i++) by_write_string(writer, welcome->handles[i]);
  by_write_blob(writer, welcome->paxos, welcome->length);
}

enum banyan_status by_member_welcome_read(const void *bytes, size_t length, struct by_arena *arena,
                                          struct by_member_welcome *out) {
  struct by_reader reader;
  *out = (struct by_member_welcome){0};
  by_reader_init(&reader, bytes, length);
  out->n = by_read_count(&reader, 4);
  if (out->n > BY_WELCOME_HANDLES)
    return by_fail(BANYAN_ERR_PROTOCOL, "a welcome has %u handles, at most %d may be", out->n, BY_WELCOME_HANDLES);
  for (uint32_t i = 0; i < out->n; i++) out->handles[i] = by_read_string_in(&reader, arena, BY_MEMBER_HANDLE);
  out->paxos = by_read_blob(&reader, &out->length);
  return by_reader_check(&reader, "a welcome to a group");
}

void by_member_suspicion_write(struct by_writer *writer, const struct by_member_suspicion *suspicion) {
  by_write_u64(writer, suspicion->number);
  by_write_u32(writer, suspicion->rank);
}

enum banyan_status by_member_suspicion_read(const void *bytes, size_t length, struct by_member_suspicion *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  out->number = by_read_u64(&reader);
  out->rank = by_read_u32(&reader);
  return by_reader_check(&reader, "a suspicion of a member");
}

void by_member_list_write(struct by_writer *writer, const struct by_member_list *list) {
  by_write_u64(writer, list->name);
  by_write_u64(writer, list->number);
  by_write_string(writer, list->text);
}

enum banyan_status by_member_list_read(const void *bytes, size_t length, struct by_arena *arena,
                                       struct by_member_list *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  out->name = by_read_u64(&reader);
  out->number = by_read_u64(&reader);
  out->text = by_read_string_in(&reader, arena, BY_MEMBER_LIST_TEXT - 1);
  return by_reader_check(&reader, "the list of a membership");
}
