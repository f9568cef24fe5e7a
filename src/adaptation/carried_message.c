/* Encodes and decodes the knowledge that a process transfers from one membership into the next. */
#include "carried_message.h"

#include <stdlib.h>

#include "fields.h"
#include "member.h"

static const struct by_field fields[] = {
    BY_FIELD(by_carried_message, decision, BY_FIELD_U8, .max = BY_CARRIED_DECISIONS - 1),
    BY_FIELD(by_carried_message, source, BY_FIELD_U8, .max = BANYAN_PLAN_SOURCES - 1),
    BY_FIELD(by_carried_message, plan_ranks, BY_FIELD_U32),
    BY_FIELD(by_carried_message, plan_of.bytes, BY_FIELD_BYTES)};

enum { LEAST_HOST = 4 + 4 };

static void write(struct by_writer *writer, const struct by_carried_message *message) {
  by_fields_write(writer, BY_FIELDS(fields), message);
  by_write_u32(writer, message->n_hosts);
  for (uint32_t h = 0; h < message->n_hosts; h++) {
    by_write_string(writer, message->hosts[h].machine);
    by_write_u32(writer, message->hosts[h].node);
  }
  by_write_blob(writer, message->topology, message->topology_length);
  by_write_blob(writer, message->plan, message->plan_length);
}

enum banyan_status by_carried_message_write(const struct by_carried_message *message, uint8_t **out, size_t *length) {
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  write(&writer, message);
  *length = writer.length;
  *out = malloc(*length);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for what is known of a network");
  by_writer_init(&writer, *out, *length);
  write(&writer, message);
  return BANYAN_OK;
}

enum banyan_status by_carried_message_read(const void *bytes, size_t length, struct by_arena *arena,
                                           struct by_carried_message *out) {
  static const char what[] = "what is carried into a membership";
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_carried_message){0};
  BY_TRY(by_fields_read(&reader, arena, BY_FIELDS(fields), what, out));
  out->n_hosts = by_read_count(&reader, LEAST_HOST);
  out->hosts = BY_ARENA_ARRAY(arena, struct by_carried_host, (size_t)out->n_hosts + 1);
  if (!out->hosts) return by_fail(BANYAN_ERR_NO_MEMORY, "%s: out of memory for %u hosts", what, out->n_hosts);
  for (uint32_t h = 0; h < out->n_hosts; h++) {
    out->hosts[h].machine = by_read_string_in(&reader, arena, BY_MEMBER_STRING);
    out->hosts[h].node = by_read_u32(&reader);
  }
  out->topology = (const char *)by_read_blob(&reader, &out->topology_length);
  out->plan = (const char *)by_read_blob(&reader, &out->plan_length);
  return by_reader_check(&reader, what);
}
