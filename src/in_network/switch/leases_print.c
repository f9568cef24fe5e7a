#include <string.h>

#include "json_doc.h"
#include "leases_parts.h"

static void print_below(const struct lease *lease, struct by_text *text) {
  for (unsigned i = 0; i < lease->wish.n_below; i++) {
    const struct by_wish_below *below = &lease->wish.below[i];
    by_text_add(text, "%s{\"interface\": ", i ? ", " : "");
    by_json_add_string(text, below->interface);
    by_text_add(text, ", \"switch\": %s, \"workers\": %u}", below->is_switch ? "true" : "false", below->n);
  }
}

static void print_lease(const struct lease *lease, uint64_t now, struct by_text *text) {
  char end[BY_UDP_END_TEXT];
  by_text_add(
      text, "{\"job\": %u, \"key\": %u, \"place\": %u, \"wanted\": %u, \"cells\": %u, \"first\": %u, \"granted\": %s, ",
      lease->wish.job, lease->wish.key, lease->wish.place, lease->wish.slots, lease->cells.count, lease->cells.base,
      lease->active ? "true" : "false");
  if (!lease->owner)
    by_text_add(text, "\"lapses_in\": %.1f, ",
                lease->timer.at > now ? by_clock_to_seconds(lease->timer.at - now) : 0.0);
  by_text_add(text, "\"server\": \"%s\", \"up\": ", by_udp_end_print(&lease->wish.server, end));
  by_json_add_string(text, lease->wish.up);
  by_text_add(text, ", \"below\": [");
  print_below(lease, text);
  by_text_add(text, "]}");
}

void by_leases_print(const struct by_leases *leases, struct by_text *text) {
  uint64_t now = by_loop_now(leases->options.loop);
  const char *between = "";
  by_text_add(text, ", \"cells\": {\"all\": %u, \"used\": %u}, \"ports\": [", leases->cells.cells, leases->cells.used);
  for (uint32_t i = 0; i < leases->options.n_ports; i++) {
    if (i) by_text_add(text, ", ");
    by_json_add_string(text, leases->interfaces[i]);
  }
  by_text_add(text, "], \"jobs\": [");
  for (int i = 0; i < BY_PLANE_GROUPS; i++) {
    if (!leases->table[i]) continue;
    by_text_add(text, "%s", between);
    print_lease(leases->table[i], now, text);
    between = ", ";
  }
  by_text_add(text, "]");
}
