#include "tree_message.h"

#include <string.h>

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

void by_tree_message_write(struct by_writer *writer, const struct by_tree_message *message) {
  by_write_u32(writer, message->server);
  by_write_u32(writer, message->job);
  by_write_u32(writer, message->key);
  by_write_u32(writer, message->slots);
  by_write_u32(writer, message->lines);
  by_write_bytes(writer, message->secret, sizeof message->secret);
  by_write_u8(writer, message->exact);
  by_write_u32(writer, message->workers);
  by_write_u32(writer, message->worker);
  by_write_u64(writer, message->spread);
  by_write_u32(writer, message->n_sets);
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

static bool is_sensible(const struct by_tree_message *message, struct by_roster roster, uint32_t job, uint32_t key) {
  uint64_t all = message->workers - 1 < BY_FRAGMENT_WORKERS ? ~0ull >> (64 - message->workers) : 0;
  return message->server >= roster.ranks && message->server < roster.processes && job <= UINT16_MAX &&
         key <= UINT16_MAX && message->slots - 1 < BY_TREE_SLOTS && message->lines - 1 < BY_FRAGMENT_LINES &&
         message->n_sets <= BY_FRAGMENT_WORKERS && all && !(message->spread & ~all) &&
         (for_server(message) || message->worker < message->workers);
}

static enum banyan_status read_head(struct by_reader *reader, struct by_roster roster, struct by_tree_message *out) {
  out->server = by_read_u32(reader);
  uint32_t job = by_read_u32(reader), key = by_read_u32(reader);
  out->job = (uint16_t)job;
  out->key = (uint16_t)key;
  out->slots = by_read_u32(reader);
  out->lines = by_read_u32(reader);
  const uint8_t *secret = by_read_bytes(reader, sizeof out->secret);
  if (secret) memcpy(out->secret, secret, sizeof out->secret);
  out->exact = by_read_u8(reader) != 0;
  out->workers = by_read_u32(reader);
  out->worker = by_read_u32(reader);
  out->spread = by_read_u64(reader);
  out->n_sets = by_read_u32(reader);
  for (uint32_t i = 0; i < out->n_sets && i < BY_FRAGMENT_WORKERS; i++) out->sets[i] = by_read_u64(reader);
  if (reader->failed || !is_sensible(out, roster, job, key))
    return by_fail(BANYAN_ERR_PROTOCOL, "a tree through switches that cannot be");
  return BANYAN_OK;
}

enum banyan_status by_tree_message_read(const void *bytes, size_t length, struct by_roster roster,
                                        struct by_tree_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  *out = (struct by_tree_message){0};
  BY_TRY(read_head(&reader, roster, out));
  for (uint32_t i = 0; i < count_ways(out); i++) BY_TRY(read_way(&reader, &out->ways[i], !for_server(out)));
  return by_reader_check(&reader, "a tree through switches");
}
