/* What a state contains: the layout of its buffers, its named values, and hashes of both. */
#include "state_contents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* ---- hashes */

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t by_state_hash(const void *bytes, size_t n) {
  return XXH3_64bits(bytes, n);
}

/* ---- layouts */

enum { ALIGN = 64, BUFFER_BYTES = 4 + 1 + 8 /* Encoded bytes of a buffer with an empty name. */ };

static enum banyan_status check(const struct banyan_state_buffer *buffer, size_t i, bool has_memory) {
  if (!buffer->name || !*buffer->name || !by_is_printable(buffer->name, BY_STATE_NAME_MOST))
    return by_fail(BANYAN_ERR_ARGUMENT, "buffer %zu of the state: its name must have 1 to %d bytes of printable UTF-8",
                   i, BY_STATE_NAME_MOST);
  size_t size = banyan_dtype_size(buffer->dtype);
  if (!size)
    return by_fail(BANYAN_ERR_ARGUMENT, "buffer \"%s\": there is no dtype %d", buffer->name, (int)buffer->dtype);
  if (has_memory && !buffer->data && buffer->count)
    return by_fail(BANYAN_ERR_ARGUMENT, "buffer \"%s\": its memory is NULL", buffer->name);
  if (buffer->count > (SIZE_MAX / 2 - ALIGN) / size)
    return by_fail(BANYAN_ERR_ARGUMENT, "buffer \"%s\": %zu elements exceed addressable memory", buffer->name,
                   buffer->count);
  return BANYAN_OK;
}

/* Computes offsets and hash of a layout from its buffers. */
static enum banyan_status complete(struct by_state_layout *layout) {
  size_t n = layout->n, at = 0;
  layout->offsets = BY_ARENA_ARRAY(&layout->arena, size_t, n + 1);
  const char **scratch = BY_ARENA_ARRAY(&layout->arena, const char *, n);
  if (layout->arena.failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a state of %zu buffers", n);
  const char *twice = by_find_twice(layout->buffers, n, sizeof *layout->buffers, scratch);
  if (twice) return by_fail(BANYAN_ERR_ARGUMENT, "two buffers of the state have the name \"%s\"", twice);
  for (size_t i = 0; i < n; i++) {
    const struct banyan_state_buffer *buffer = &layout->buffers[i];
    size_t bytes = by_state_buffer_bytes(buffer);
    layout->offsets[i] = at;
    if (bytes > SIZE_MAX / 2 - ALIGN - at)
      return by_fail(BANYAN_ERR_ARGUMENT, "buffer \"%s\": the state exceeds addressable memory", buffer->name);
    at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  }
  layout->offsets[n] = at;
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  by_state_layout_write(&writer, layout);
  if (writer.length > BY_STATE_LAYOUT_MOST)
    return by_fail(BANYAN_ERR_ARGUMENT, "the %zu buffers of the state have too long names", n);
  uint8_t *bytes = by_arena_alloc(&layout->arena, writer.length, 1);
  if (!bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a state of %zu buffers", n);
  by_writer_init(&writer, bytes, writer.length);
  by_state_layout_write(&writer, layout);
  layout->hash = by_state_hash(bytes, writer.length);
  return BANYAN_OK;
}

static struct by_state_layout *begin(size_t n) {
  struct by_state_layout *layout = calloc(1, sizeof *layout);
  if (!layout) return NULL;
  layout->users = 1;
  layout->n = n;
  by_arena_init(&layout->arena);
  layout->buffers = BY_ARENA_ARRAY(&layout->arena, struct banyan_state_buffer, n);
  return layout;
}

static enum banyan_status end(enum banyan_status status, struct by_state_layout *layout, struct by_state_layout **out) {
  if (status == BANYAN_OK) status = complete(layout);
  if (status == BANYAN_OK)
    *out = layout;
  else
    by_state_layout_release(layout);
  return status;
}

enum banyan_status by_state_layout_create(const struct banyan_state_buffer *buffers, size_t n, bool has_memory,
                                          struct by_state_layout **out) {
  if (n && !buffers) return by_fail(BANYAN_ERR_ARGUMENT, "the list of buffers is NULL");
  for (size_t i = 0; i < n; i++) BY_TRY(check(&buffers[i], i, has_memory));
  struct by_state_layout *layout = begin(n);
  if (!layout) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a state of %zu buffers", n);
  for (size_t i = 0; i < n && !layout->arena.failed; i++) {
    layout->buffers[i] = buffers[i];
    layout->buffers[i].name = by_arena_string(&layout->arena, buffers[i].name);
  }
  return end(BANYAN_OK, layout, out);
}

struct by_state_layout *by_state_layout_hold(struct by_state_layout *layout) {
  layout->users++;
  return layout;
}

void by_state_layout_release(struct by_state_layout *layout) {
  if (!layout || --layout->users) return;
  by_arena_fini(&layout->arena);
  free(layout);
}

const struct banyan_state_buffer *by_state_layout_at(const struct by_state_layout *layout, size_t offset) {
  size_t low = 0, high = layout->n;
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (layout->offsets[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  return &layout->buffers[low];
}

/* ---- as a message */

void by_state_layout_write(struct by_writer *writer, const struct by_state_layout *layout) {
  by_write_u32(writer, (uint32_t)layout->n);
  for (size_t i = 0; i < layout->n; i++) {
    by_write_string(writer, layout->buffers[i].name);
    by_write_u8(writer, (uint8_t)layout->buffers[i].dtype);
    by_write_u64(writer, layout->buffers[i].count);
  }
}

static enum banyan_status read_buffers(struct by_reader *reader, struct by_state_layout *layout) {
  for (size_t i = 0; i < layout->n; i++) {
    struct banyan_state_buffer *buffer = &layout->buffers[i];
    buffer->name = by_read_string_in(reader, &layout->arena, BY_STATE_NAME_MOST);
    buffer->dtype = (enum banyan_dtype)by_read_u8(reader);
    buffer->count = by_read_u64(reader);
    if (reader->failed) break;
    BY_TRY(check(buffer, i, false));
  }
  return by_reader_check(reader, "description of a state");
}

enum banyan_status by_state_layout_read(const uint8_t *bytes, size_t length, struct by_state_layout **out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  struct by_state_layout *layout = begin(by_read_count(&reader, BUFFER_BYTES));
  if (!layout || layout->arena.failed) {
    by_state_layout_release(layout);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the description of a state");
  }
  return end(read_buffers(&reader, layout), layout, out);
}

/* ---- differences */

void by_state_layout_compare(const struct by_state_layout *a, const char *name_a, const struct by_state_layout *b,
                             const char *name_b, char *out, size_t room) {
  size_t least = a->n < b->n ? a->n : b->n, i = 0;
  const struct banyan_state_buffer *x = a->buffers, *y = b->buffers;
  while (i < least && !strcmp(x[i].name, y[i].name) && x[i].dtype == y[i].dtype && x[i].count == y[i].count) i++;
  if (i == least && a->n == b->n)
    snprintf(out, room, "the states of %s and %s have the same buffers", name_a, name_b);
  else if (i == least)
    snprintf(out, room, "buffer \"%.100s\" is in the state of %s only, not in that of %s",
             a->n > b->n ? x[i].name : y[i].name, a->n > b->n ? name_a : name_b, a->n > b->n ? name_b : name_a);
  else if (strcmp(x[i].name, y[i].name) != 0)
    snprintf(out, room, "buffer %zu of the state is \"%.60s\" on %s and \"%.60s\" on %s", i, x[i].name, name_a,
             y[i].name, name_b);
  else
    snprintf(out, room, "buffer \"%.100s\" has %zu elements of %s on %s and %zu elements of %s on %s", x[i].name,
             x[i].count, banyan_dtype_name(x[i].dtype), name_a, y[i].count, banyan_dtype_name(y[i].dtype), name_b);
}

/* ---- values */

enum { VALUE_BYTES = 4 + 4 /* Encoded bytes of an empty value with an empty name. */ };

void by_state_values_fini(struct by_state_values *values) {
  for (size_t i = 0; i < values->n; i++) free(values->all[i].name);
  free(values->all);
  *values = (struct by_state_values){0};
}

struct by_state_value *by_state_values_find(const struct by_state_values *values, const char *name) {
  for (size_t i = 0; i < values->n; i++)
    if (!strcmp(values->all[i].name, name)) return &values->all[i];
  return NULL;
}

static bool make_value(const char *name, const void *bytes, size_t length, struct by_state_value *out) {
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
  struct by_state_value value, *place = by_state_values_find(values, name);
  struct by_writer writer;
  if (!*name || !by_is_printable(name, BY_STATE_NAME_MOST))
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of a value of the state must have 1 to %d bytes of printable UTF-8",
                   BY_STATE_NAME_MOST);
  by_writer_init(&writer, NULL, 0);
  by_state_values_write(&writer, values);
  size_t others = writer.length - (place ? place->length : 0);
  if (length > BY_STATE_VALUES_MOST || others + VALUE_BYTES + strlen(name) + length > BY_STATE_VALUES_MOST)
    return by_fail(BANYAN_ERR_ARGUMENT,
                   "value \"%s\" has %zu bytes: all values of a state together may have %u; use a buffer", name, length,
                   BY_STATE_VALUES_MOST);
  if (!place && values->n == BY_STATE_VALUES_COUNT)
    return by_fail(BANYAN_ERR_ARGUMENT, "value \"%s\": a state may have %d values", name, BY_STATE_VALUES_COUNT);
  if (!BY_ARRAY_GROW(&values->all, &values->room, values->n + 1) || !make_value(name, bytes, length, &value))
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for value \"%s\" of %zu bytes", name, length);
  place = by_state_values_find(values, name);
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
  uint32_t n = by_read_count(&reader, VALUE_BYTES);
  for (uint32_t i = 0; i < n && !reader.failed && status == BANYAN_OK; i++) {
    size_t size;
    by_read_string(&reader, name, sizeof name);
    const uint8_t *value = by_read_blob(&reader, &size);
    if (reader.failed) break;
    if (by_state_values_find(&found, name))
      status = by_fail(BANYAN_ERR_PROTOCOL, "values of a state: \"%s\" is there twice", name);
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
