/* Arbitrary bytes as a topology file in any format. A topology that can be read is valid, is the same when it is
 * printed and read again, and can be drawn if it is small. */
#include <string.h>

#include "text.h"
#include "topology_draw.h"
#include "topology_formats.h"
#include "topology_fuzz.h"

enum { MOST_DRAWN = 64 };

static void require(bool condition) {
  if (!condition) abort();
}

static void print_and_parse(const struct by_topology *topology) {
  struct by_topology *again = NULL;
  struct by_text first, second;
  by_text_init(&first);
  by_text_init(&second);
  by_topology_print(topology, &first);
  require(!first.failed && by_topology_parse("again", by_text_get(&first), first.length, &again) == BANYAN_OK);
  by_topology_print(again, &second);
  require(strcmp(by_text_get(&first), by_text_get(&second)) == 0);
  by_text_fini(&first);
  by_text_fini(&second);
  by_topology_destroy(again);
}

static void draw(const struct by_topology *topology) {
  static const struct by_draw_options options = {.all = true};
  struct by_text text;
  by_text_init(&text);
  require(by_topology_draw(topology, &options, &text) == BANYAN_OK && !text.failed);
  by_text_fini(&text);
  require(by_topology_svg(topology, &options, &text) == BANYAN_OK && !text.failed);
  by_text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct by_topology *topology;
  quiet();
  if (by_topology_parse_any("fuzz", (const char *)data, size, "", &topology) != BANYAN_OK) return 0;
  print_and_parse(topology);
  if (topology->n_nodes <= MOST_DRAWN && topology->n_links <= MOST_DRAWN) draw(topology);
  use_topology(topology);
  return 0;
}
