/* What members send each other of a state: what is read is in range, and is the same when it is written and read again.
 * The first byte of the input chooses the message: s(ummary), o(utcome), r(equest), l(ayout), v(alues). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "state_contents.h"
#include "state_message.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHUNKS = 1000 };
static const uint64_t digest = 0x3736353433323130; /* "01234567" */

static void check_summary(const uint8_t *bytes) {
  struct by_state_summary summary;
  uint8_t again[BY_STATE_SUMMARY_BYTES];
  if (by_state_summary_read(bytes, &summary) != BANYAN_OK) return;
  assert(summary.version >= -1 && summary.values <= BY_STATE_VALUES_MOST);
  by_state_summary_write(again, &summary);
  assert(!memcmp(again, bytes, sizeof again));
}

static void check_outcome(const uint8_t *bytes) {
  struct by_state_outcome outcome, second;
  uint8_t again[BY_STATE_OUTCOME_BYTES];
  if (by_state_outcome_read(bytes, &outcome) != BANYAN_OK) return;
  by_state_outcome_write(again, &outcome);
  assert(by_state_outcome_read(again, &second) == BANYAN_OK);
  assert(second.status == outcome.status && !strcmp(second.text, outcome.text));
}

static void check_request(const uint8_t *bytes) {
  uint32_t chunk;
  uint8_t again[BY_STATE_REQUEST_BYTES];
  if (by_state_request_read(bytes, CHUNKS, digest, &chunk) != BANYAN_OK) return;
  assert(chunk < CHUNKS);
  by_state_request_write(again, chunk, digest);
  assert(!memcmp(again, bytes, sizeof again));
}

static void check_layout(const uint8_t *bytes, size_t size) {
  struct by_state_layout *layout, *second;
  struct by_writer writer;
  char text[400];
  if (by_state_layout_read(bytes, size, &layout) != BANYAN_OK) return;
  uint8_t *again = malloc(size);
  assert(again);
  by_writer_init(&writer, again, size);
  by_state_layout_write(&writer, layout);
  assert(writer.length == size && !memcmp(again, bytes, size));
  assert(by_state_layout_read(again, size, &second) == BANYAN_OK && second->hash == layout->hash);
  by_state_layout_compare(layout, "a", second, "b", text, sizeof text);
  assert(!strcmp(text, "the states of a and b have the same buffers"));
  by_state_layout_release(second);
  assert(by_state_layout_create(layout->buffers, layout->n ? layout->n - 1 : 0, false, &second) == BANYAN_OK);
  by_state_layout_compare(second, "a", layout, "b", text, sizeof text);
  if (layout->n) assert(strstr(text, "is in the state of b only, not in that of a"));
  by_state_layout_release(second);
  by_state_layout_release(layout);
  free(again);
}

static void check_values(const uint8_t *bytes, size_t size) {
  struct by_state_values values = {0};
  struct by_writer writer;
  assert(by_state_values_set(&values, "before", "12", 2) == BANYAN_OK);
  if (by_state_values_read(bytes, size, &values) != BANYAN_OK) {
    assert(values.n == 1 && by_state_values_find(&values, "before"));
  } else {
    uint8_t *again = malloc(size);
    assert(again);
    by_writer_init(&writer, again, size);
    by_state_values_write(&writer, &values);
    assert(writer.length == size && !memcmp(again, bytes, size));
    free(again);
  }
  by_state_values_fini(&values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  const uint8_t *bytes = data + 1;
  size--;
  switch (data[0]) {
  case 's':
    if (size == BY_STATE_SUMMARY_BYTES) check_summary(bytes);
    break;
  case 'o':
    if (size == BY_STATE_OUTCOME_BYTES) check_outcome(bytes);
    break;
  case 'r':
    if (size == BY_STATE_REQUEST_BYTES) check_request(bytes);
    break;
  case 'l': check_layout(bytes, size); break;
  case 'v': check_values(bytes, size); break;
  default: break;
  }
  return 0;
}
