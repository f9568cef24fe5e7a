/* Handles of processes: what is parsed prints as the same text, and what is damaged is not parsed. The first byte of
 * the input chooses: the text as it is, or as a member's description that is printed first, so that its tag is right.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct by_key key = {{1, 2, 3}};

static void check_text(const char *text, struct by_arena *arena) {
  struct by_handle handle, again;
  char printed[BY_HANDLE_MOST], printed_again[BY_HANDLE_MOST];
  if (by_handle_parse(&key, text, arena, &handle) != BANYAN_OK) return;
  assert(by_handle_print(&key, &handle, printed) == BANYAN_OK); /* addresses that mean nothing here are left out */
  assert(by_handle_parse(&key, printed, arena, &again) == BANYAN_OK);
  assert(by_handle_print(&key, &again, printed_again) == BANYAN_OK && !strcmp(printed, printed_again));
  assert(!memcmp(&handle.fingerprint, &again.fingerprint, sizeof handle.fingerprint));
  size_t at = 8 + (size_t)handle.fingerprint.bytes[0] % (strlen(printed) - 8);
  printed[at] = printed[at] == 'x' ? 'y' : 'x';
  assert(by_handle_parse(&key, printed, arena, &again) == BANYAN_ERR_ARGUMENT);
}

static void check_member(const uint8_t *data, size_t size, struct by_arena *arena) {
  struct by_handle handle = {.fingerprint = {{(uint8_t)size}}, .service_port = 1 + (uint32_t)size % UINT16_MAX};
  struct by_reader reader;
  char text[BY_HANDLE_MOST];
  by_reader_init(&reader, data, size);
  if (by_member_read_described(&reader, arena, &handle.member) != BANYAN_OK) return;
  if (by_handle_print(&key, &handle, text) == BANYAN_OK) check_text(text, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_arena arena;
  if (!size) return 0;
  by_arena_init(&arena);
  char *text = calloc(1, size);
  assert(text);
  memcpy(text, data + 1, size - 1);
  if (data[0] == 'm')
    check_member(data + 1, size - 1, &arena);
  else
    check_text(text, &arena);
  free(text);
  by_arena_fini(&arena);
  return 0;
}
