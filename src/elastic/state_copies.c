/* The two copies of a state, which are written in turn. */
#include "state_copies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "state_contents.h"

/* ---- copies */

static void release_area(struct by_state_copy *copy) {
  if (copy->area) munmap(copy->area, copy->room);
  copy->area = NULL;
  copy->room = 0;
}

static void copy_fini(struct by_state_copy *copy) {
  by_state_layout_release(copy->layout);
  release_area(copy);
  free(copy->values);
  free(copy->hashes);
}

/* Maps zeroed pages. Huge pages, if available, make the first copy faster. */
static enum banyan_status new_area(struct by_state_copy *copy, size_t bytes) {
  release_area(copy);
  if (!bytes) return BANYAN_OK;
  void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED)
    return by_fail_errno(BANYAN_ERR_NO_MEMORY, errno, "out of memory for a copy of a state of %zu bytes", bytes);
  (void)madvise(area, bytes, MADV_HUGEPAGE);
  copy->area = area;
  copy->room = bytes;
  return BANYAN_OK;
}

enum banyan_status by_state_copy_prepare(struct by_state_copy *copy, struct by_state_layout *layout) {
  copy->version = -1;
  copy->hashed = false;
  if (copy->layout && copy->layout->hash == layout->hash) return BANYAN_OK;
  copy->receives = false;
  by_state_layout_release(copy->layout);
  copy->layout = NULL;
  free(copy->hashes);
  size_t bytes = by_state_layout_bytes(layout), n = by_state_chunks(bytes);
  copy->hashes = calloc(n ? n : 1, sizeof *copy->hashes);
  if (!copy->hashes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu hashes", n);
  BY_TRY(new_area(copy, bytes));
  copy->layout = by_state_layout_hold(layout);
  return BANYAN_OK;
}

void by_state_copy_fill(struct by_state_copy *copy, const struct by_state_layout *from) {
  for (size_t i = 0; i < from->n && copy->area; i++) {
    size_t bytes = by_state_buffer_bytes(&from->buffers[i]);
    if (bytes) memcpy(copy->area + from->offsets[i], from->buffers[i].data, bytes);
  }
}

enum banyan_status by_state_copy_set_values(struct by_state_copy *copy, const void *bytes, size_t length) {
  uint8_t *values = malloc(length ? length : 1);
  if (!values) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the values of a state");
  memcpy(values, bytes, length);
  free(copy->values);
  copy->values = values;
  copy->values_bytes = length;
  return BANYAN_OK;
}

void by_state_copy_hash(struct by_state_copy *copy) {
  if (copy->hashed) return;
  size_t bytes = by_state_layout_bytes(copy->layout);
  for (size_t c = 0; c < by_state_chunks(bytes); c++)
    copy->hashes[c] = by_state_hash(copy->area + c * BY_STATE_CHUNK, by_state_chunk_bytes(bytes, c));
  const uint64_t all[] = {copy->layout->hash, by_state_hash(copy->values, copy->values_bytes),
                          by_state_hash(copy->hashes, by_state_chunks(bytes) * sizeof *copy->hashes)};
  copy->digest = by_state_hash(all, sizeof all);
  copy->hashed = true;
}

void by_state_complete(struct banyan_state *state, int64_t version) {
  struct by_state_copy *spare = by_state_spare(state);
  spare->version = version;
  state->current = (int)(spare - state->copies);
}

/* ---- the public functions without communication */

enum banyan_status banyan_state_create(const struct banyan_state_buffer *buffers, size_t n, struct banyan_state **out) {
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the state is NULL");
  struct banyan_state *state = calloc(1, sizeof *state);
  if (!state) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a state");
  state->current = -1;
  enum banyan_status status = by_state_layout_create(buffers, n, true, &state->layout);
  if (status == BANYAN_OK)
    *out = state;
  else
    free(state);
  return status;
}

void banyan_state_destroy(struct banyan_state *state) {
  if (!state) return;
  by_state_layout_release(state->layout);
  by_state_values_fini(&state->values);
  for (int i = 0; i < 2; i++) copy_fini(&state->copies[i]);
  free(state);
}

static enum banyan_status check_state(const struct banyan_state *state) {
  return state ? BANYAN_OK : by_fail(BANYAN_ERR_ARGUMENT, "the state is NULL");
}

enum banyan_status banyan_state_set_buffers(struct banyan_state *state, const struct banyan_state_buffer *buffers,
                                            size_t n) {
  BY_TRY(check_state(state));
  struct by_state_layout *layout;
  BY_TRY(by_state_layout_create(buffers, n, true, &layout));
  by_state_layout_release(state->layout);
  state->layout = layout;
  return BANYAN_OK;
}

enum banyan_status banyan_state_set_value(struct banyan_state *state, const char *name, const void *bytes,
                                          size_t length) {
  BY_TRY(check_state(state));
  if (!name || (length && !bytes)) return by_fail(BANYAN_ERR_ARGUMENT, "the name of the value or its bytes are NULL");
  return by_state_values_set(&state->values, name, bytes, length);
}

enum banyan_status banyan_state_get_value(const struct banyan_state *state, const char *name, const void **bytes,
                                          size_t *length) {
  BY_TRY(check_state(state));
  if (!name || !bytes || !length)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name of the value, or a place for it, is NULL");
  const struct by_state_value *value = by_state_values_find(&state->values, name);
  if (!value) return by_fail(BANYAN_ERR_ARGUMENT, "the state has no value \"%.100s\"", name);
  *bytes = value->bytes;
  *length = value->length;
  return BANYAN_OK;
}

static enum banyan_status copy_values(struct by_state_copy *copy, const struct by_state_values *values) {
  struct by_writer writer;
  by_writer_init(&writer, NULL, 0);
  by_state_values_write(&writer, values);
  size_t length = writer.length;
  uint8_t *bytes = malloc(length);
  if (!bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the values of a state");
  by_writer_init(&writer, bytes, length);
  by_state_values_write(&writer, values);
  free(copy->values);
  copy->values = bytes;
  copy->values_bytes = length;
  return BANYAN_OK;
}

enum banyan_status banyan_state_commit(struct banyan_state *state, int64_t version) {
  BY_TRY(check_state(state));
  int64_t before = banyan_state_version(state);
  if (version <= before || version < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "version %lld cannot be committed: it must be higher than %lld",
                   (long long)version, (long long)before);
  struct by_state_copy *copy = by_state_spare(state);
  BY_TRY(by_state_copy_prepare(copy, state->layout));
  copy->receives = false;
  BY_TRY(copy_values(copy, &state->values));
  by_state_copy_fill(copy, state->layout);
  by_state_complete(state, version);
  return BANYAN_OK;
}

int64_t banyan_state_version(const struct banyan_state *state) {
  return !state || state->current < 0 ? -1 : state->copies[state->current].version;
}

enum banyan_status banyan_state_restore(struct banyan_state *state) {
  BY_TRY(check_state(state));
  const struct by_state_copy *copy = by_state_current(state);
  const struct by_state_layout *layout = state->layout;
  char text[400];
  if (!copy) return by_fail(BANYAN_ERR_ARGUMENT, "the state has no copy: nothing was committed or received");
  if (copy->layout->hash != layout->hash) {
    by_state_layout_compare(copy->layout, "the copy", layout, "this process now", text, sizeof text);
    return by_fail(BANYAN_ERR_MISMATCH, "version %lld cannot be restored: %s", (long long)copy->version, text);
  }
  BY_TRY(by_state_values_read(copy->values, copy->values_bytes, &state->values));
  for (size_t i = 0; i < layout->n; i++) {
    size_t bytes = by_state_buffer_bytes(&layout->buffers[i]);
    if (bytes) memcpy(layout->buffers[i].data, copy->area + layout->offsets[i], bytes);
  }
  return BANYAN_OK;
}
