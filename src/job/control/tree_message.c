#include "tree_message.h"

#include "message_fields.h"

static bool for_server(const struct by_tree_message *message) {
  return message->worker == BY_TREE_FOR_SERVER;
}

static uint32_t count_ways(const struct by_tree_message *message) {
  return for_server(message) ? message->workers : 1;
}

static void write_way(struct by_writer *writer, const struct by_tree_way *way, bool below) {
  char text[BY_ADDRESS_TEXT];
  by_write_string(writer, by_address_print(&way->address, text));
  by_write_u8(writer, way->alone);
  by_write_u8(writer, (uint8_t)way->hops);
  for (unsigned i = 0; i < way->hops; i++) {
    by_write_u8(writer, way->stack[i].port);
    by_write_u8(writer, way->stack[i].workers);
    if (below) by_write_u64(writer, way->below[i]);
  }
}

static const struct by_field tree_fields[] = {
    BY_FIELD(by_tree_message, server, BY_FIELD_U32, .most = UINT32_MAX),
    BY_FIELD(by_tree_message, job, BY_FIELD_U32, .most = UINT16_MAX),
    BY_FIELD(by_tree_message, key, BY_FIELD_U32, .most = UINT16_MAX),
    BY_FIELD(by_tree_message, slots, BY_FIELD_U32, .least = 1, .most = BY_TREE_SLOTS),
    BY_FIELD(by_tree_message, lines, BY_FIELD_U32, .least = 1, .most = BY_FRAGMENT_LINES),
    BY_FIELD(by_tree_message, secret, BY_FIELD_BYTES),
    BY_FIELD(by_tree_message, exact, BY_FIELD_U8, .flag = true, .most = UINT8_MAX),
    BY_FIELD(by_tree_message, workers, BY_FIELD_U32, .least = 1, .most = BY_FRAGMENT_WORKERS),
    BY_FIELD(by_tree_message, worker, BY_FIELD_U32, .most = UINT32_MAX),
    BY_FIELD(by_tree_message, spread, BY_FIELD_U64, .most = UINT64_MAX),
    BY_FIELD(by_tree_message, n_sets, BY_FIELD_U32, .most = BY_FRAGMENT_WORKERS),
};

void by_tree_message_write(struct by_writer *writer, const struct by_tree_message *message) {
  by_fields_write(writer, BY_FIELDS(tree_fields), message);
  for (uint32_t i = 0; i < message->n_sets; i++) by_write_u64(writer, message->sets[i]);
  for (uint32_t i = 0; i < count_ways(message); i++) write_way(writer, &message->ways[i], !for_server(message));
}

static enum banyan_status read_way(struct by_reader *reader, struct by_tree_way *way, bool below) {
  char text[BY_ADDRESS_TEXT];
  by_read_string(reader, text, sizeof text);
  way->alone = by_read_u8(reader) != 0;
  way->hops = by_read_u8(reader);
  if (way->hops > BY_FRAGMENT_HOPS) return by_fail(BANYAN_ERR_PROTOCOL, "a way over %u switches", way->hops);
  for (unsigned i = 0; i < way->hops; i++) {
    way->stack[i].port = by_read_u8(reader);
    way->stack[i].workers = by_read_u8(reader);
    if (below) way->below[i] = by_read_u64(reader);
    if (way->stack[i].port >= BY_FRAGMENT_PORTS || way->stack[i].workers > BY_FRAGMENT_WORKERS)
      return by_fail(BANYAN_ERR_PROTOCOL, "a way by port %u", way->stack[i].port);
  }
  if (by_address_parse(text, &way->address) != BANYAN_OK)
    return by_fail(BANYAN_ERR_PROTOCOL, "a way to \"%s\", which is no address", text);
  return BANYAN_OK;
}

enum banyan_status by_tree_message_read(const void *bytes, size_t length, struct by_roster roster,
                                        struct by_tree_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_tree_message){0};
  BY_TRY(by_fields_read(&reader, BY_FIELDS(tree_fields), "an in-network tree", out));
  if (out->server < roster.ranks || out->server >= roster.processes)
    return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree: process %u is no server", out->server);
  if ((!for_server(out) && out->worker >= out->workers) || out->spread & ~(~0ull >> (64 - out->workers)))
    return by_fail(BANYAN_ERR_PROTOCOL, "an in-network tree names more than its %u workers", out->workers);
  for (uint32_t i = 0; i < out->n_sets; i++) out->sets[i] = by_read_u64(&reader);
  for (uint32_t i = 0; i < count_ways(out); i++) BY_TRY(read_way(&reader, &out->ways[i], !for_server(out)));
  return by_reader_check(&reader, "an in-network tree");
}
