#include <stdlib.h>

#include "json_print.h"
#include "topology_layout.h"
#include "web_texts.h"

static void add_spots(const struct by_topology *topology, const struct by_spot *spots, struct by_text *out) {
  for (uint32_t i = 0; i < topology->n_nodes; i++) {
    by_text_add(out, "%s", i ? "," : "");
    by_json_add_string(out, topology->nodes[i].name);
    by_text_add(out, ":[%.3f,%.3f]", spots[i].x, spots[i].y);
  }
}

enum banyan_status by_web_layout_print(const struct by_topology *topology, struct by_text *out) {
  static const char *const kinds[] = {
      [BY_LAYOUT_PLACES] = "places", [BY_LAYOUT_LAYERS] = "layers", [BY_LAYOUT_SPRINGS] = "springs"};
  enum by_layout_kind kind;
  struct by_spot *spots = calloc(topology->n_nodes, sizeof *spots);
  if (!spots) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a drawing of %u nodes", topology->n_nodes);
  enum banyan_status status = by_topology_layout(topology, spots, &kind);
  if (status == BANYAN_OK) {
    by_text_add(out, "{\"kind\":\"%s\",\"spots\":{", kinds[kind]);
    add_spots(topology, spots, out);
    by_text_add(out, "}}");
    if (out->failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a drawing");
  }
  free(spots);
  return status;
}
