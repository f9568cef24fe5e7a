/* Encodes and decodes what rank 0 knows of the network. */
#include "network_message.h"

#include "fields.h"

static const struct by_field fields[] = {
    BY_FIELD(by_network_message, source, BY_FIELD_U8, .max = BANYAN_PLAN_SOURCES - 1)};

void by_network_message_write(struct by_writer *writer, const struct by_network_message *message) {
  by_fields_write(writer, BY_FIELDS(fields), message);
  by_write_blob(writer, message->nodes, 4 * (size_t)message->n_hosts);
  by_write_blob(writer, message->text, message->length);
}

enum banyan_status by_network_message_read(const void *bytes, size_t length, struct by_network_message *out) {
  static const char what[] = "a message about the network";
  struct by_reader reader;
  size_t room;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_network_message){0};
  BY_TRY(by_fields_read(&reader, NULL, BY_FIELDS(fields), what, out));
  out->nodes = by_read_blob(&reader, &room);
  out->n_hosts = (uint32_t)(room / 4);
  out->text = (const char *)by_read_blob(&reader, &out->length);
  if (room % 4) return by_fail(BANYAN_ERR_PROTOCOL, "%s: its list of nodes has %zu bytes", what, room);
  return by_reader_check(&reader, what);
}

uint32_t by_network_message_node(const struct by_network_message *message, uint32_t host) {
  return by_get_u32(message->nodes + 4 * (size_t)host);
}
