/* Lines of the cluster protocol. A line that can be read is printed as one line with the same content. */
#include <stdint.h>
#include <string.h>

#include "cluster_message.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_again(const char *line, size_t length, struct by_text *text) {
  struct by_cluster_message message;
  assert(by_cluster_message_read(line, length, &message) == BANYAN_OK);
  by_cluster_message_print(&message, text);
  by_cluster_message_fini(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_cluster_message message;
  struct by_text first, second;
  if (by_cluster_message_read((const char *)data, size, &message) != BANYAN_OK) return 0;
  by_text_init(&first);
  by_text_init(&second);
  by_cluster_message_print(&message, &first);
  by_cluster_message_fini(&message);
  assert(!memchr(by_text_get(&first), '\n', first.length));
  print_again(by_text_get(&first), first.length, &second);
  assert(!strcmp(by_text_get(&first), by_text_get(&second)));
  by_text_fini(&first);
  by_text_fini(&second);
  return 0;
}
