/* Encodes and decodes the messages between processes and the `banyan run` that started them. */
#include "directory_message.h"

#include <string.h>

#include "text.h"

/* Which side sends a message of each type, and which fields it uses. */
static const struct {
  bool from_process, numbered, counted, worded;
} types[] = {
    [BY_DIRECTORY_REGISTER] = {.from_process = true, .numbered = true, .counted = true, .worded = true},
    [BY_DIRECTORY_MEMBER] = {.from_process = true, .numbered = true, .counted = true, .worded = true},
    [BY_DIRECTORY_FAILED] = {.from_process = true, .numbered = true, .worded = true},
    [BY_DIRECTORY_PEER] = {.numbered = true, .worded = true},
    [BY_DIRECTORY_FIRST] = {.numbered = true, .counted = true},
    [BY_DIRECTORY_JOIN] = {.counted = true},
    [BY_DIRECTORY_DEAD] = {.worded = true},
    [BY_DIRECTORY_LEAVE] = {.worded = true},
    [BY_DIRECTORY_REFUSED] = {.worded = true},
    [BY_DIRECTORY_LEAVING] = {.from_process = true},
};

size_t by_directory_write(const struct by_directory_message *message, void *out) {
  struct by_writer writer;
  char text[BY_DIRECTORY_TEXT];
  by_keep_printable(message->text, text, sizeof text);
  by_writer_init(&writer, out, BY_DIRECTORY_MOST);
  by_write_u8(&writer, (uint8_t)message->type);
  by_write_u32(&writer, message->number);
  by_write_u32(&writer, message->count);
  by_write_string(&writer, text);
  return writer.length;
}

enum banyan_status by_directory_read(const void *data, size_t length, bool from_process,
                                     struct by_directory_message *out) {
  struct by_reader reader;
  by_reader_init(&reader, data, length);
  uint8_t type = by_read_u8(&reader);
  *out = (struct by_directory_message){.number = by_read_u32(&reader), .count = by_read_u32(&reader)};
  by_read_string(&reader, out->text, sizeof out->text);
  BY_TRY(by_reader_check(&reader, "a message of banyan run's directory"));
  if (type < BY_DIRECTORY_REGISTER || type >= BY_DIRECTORY_TYPES || types[type].from_process != from_process)
    return by_fail(BANYAN_ERR_PROTOCOL, "a message of type %u in banyan run's directory", type);
  out->type = (enum by_directory_type)type;
  if ((!types[type].numbered && out->number) || (!types[type].counted && out->count) ||
      types[type].worded != (*out->text != 0) || out->number >= BY_DIRECTORY_PROCESSES ||
      out->count >= BY_DIRECTORY_PROCESSES || !by_is_printable(out->text, sizeof out->text))
    return by_fail(BANYAN_ERR_PROTOCOL, "a message of type %u in banyan run's directory is malformed", type);
  return BANYAN_OK;
}
