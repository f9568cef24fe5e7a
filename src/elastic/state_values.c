/* Named values of a state, and all of them as one message. */
#include "state_values.h"

#include <stdlib.h>
#include <string.h>

#include "state_layout.h"
#include "text.h"

enum { EACH = 4 + 4 /* Encoded bytes of an empty value with an empty name. */ };

void by_state_values_fini(struct by_state_values *values) {
  for (size_t i = 0; i < values->n; i++) free(values->all[i].name);
  free(values->all);
  *values = (struct by_state_values){0};
}

static struct by_state_value *find(const struct by_state_values *values, const char *name) {
  for (size_t i = 0; i < values->n; i++)
    if (!strcmp(values->all[i].name, name)) return &values->all[i];
  return NULL;
}

const struct by_state_value *by_state_values_find(const struct by_state_values *values, const char *name) {
  return find(values, name);
}

static bool make(const char *name, const void *bytes, size_t length, struct by_state_value *out) {
  size_t before = strlen(name) + 1;
  out->name = malloc(before + length);
  if (!out->name) return false;
  memcpy(out->name, name, before);
  out->bytes = (uint8_t *)out->name + before;
  out->length = length;
  if (length) memcpy(out->bytes, bytes, length);
  return true;
}

enum banyan_status by_state_values_set(struct by_state_values *values, const char *name, const void *bytes,
                                       size_t length) {
  struct by_state_value value, *place = find(values, name);
  struct by_writer writer;
  if (!*name || !by_is_printable(name, BY_STATE_NAME_MOST))
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of a value of the state must have 1 to %d bytes of printable UTF-8",
                   BY_STATE_NAME_MOST);
  by_writer_init(&writer, NULL, 0);
  by_state_values_write(&writer, values);
  size_t others = writer.length - (place ? place->length : 0);
  if (length > BY_STATE_VALUES_MOST || others + EACH + strlen(name) + length > BY_STATE_VALUES_MOST)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "value \"%s\" has %zu bytes: all values of a state together may have %u; use a buffer", name, length,
                   BY_STATE_VALUES_MOST);
  if (!place && values->n == BY_STATE_VALUES_COUNT)
    return by_fail(BANYAN_ERR_ARGUMENT, "value \"%s\": a state may have %d values", name, BY_STATE_VALUES_COUNT);
  if (!BY_ARRAY_GROW(&values->all, &values->room, values->n + 1) || !make(name, bytes, length, &value))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for value \"%s\" of %zu bytes", name, length);
  place = find(values, name);
  if (place)
    free(place->name);
  else
    place = &values->all[values->n++];
  *place = value;
  return BANYAN_OK;
}

void by_state_values_write(struct by_writer *writer, const struct by_state_values *values) {
  by_write_u32(writer, (uint32_t)values->n);
  for (size_t i = 0; i < values->n; i++) {
    by_write_string(writer, values->all[i].name);
    by_write_blob(writer, values->all[i].bytes, values->all[i].length);
  }
}

enum banyan_status by_state_values_read(const uint8_t *bytes, size_t length, struct by_state_values *values) {
  struct by_state_values found = {0};
  struct by_reader reader;
  char name[BY_STATE_NAME_MOST + 1];
  enum banyan_status status = BANYAN_OK;
  by_reader_init(&reader, bytes, length);
  uint32_t n = by_read_count(&reader, EACH);
  for (uint32_t i = 0; i < n && !reader.failed && status == BANYAN_OK; i++) {
    size_t size;
    by_read_string(&reader, name, sizeof name);
    const uint8_t *value = by_read_blob(&reader, &size);
    if (reader.failed) break;
    if (find(&found, name)) status = by_fail(BANYAN_ERR_PROTOCOL, "values of a state: \"%s\" is there twice", name);
    if (status == BANYAN_OK) status = by_state_values_set(&found, name, value, size);
  }
  if (status == BANYAN_OK) status = by_reader_check(&reader, "values of a state");
  if (status != BANYAN_OK) {
    by_state_values_fini(&found);
    return status;
  }
  by_state_values_fini(values);
  *values = found;
  return BANYAN_OK;
}
