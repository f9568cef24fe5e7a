/* Explains a bound: the rate, and what has to pass where, as text and as JSON. */
#include <math.h>

#include "collective.h"
#include "collective_bound.h"
#include "json_doc.h"
#include "text.h"

enum { MAX_NAMED = 8 };

static void add_side(const struct by_collective_bound *bound, const struct by_topology *topology,
                     struct by_text *text) {
  for (uint32_t i = 0; i < bound->n_side && i < MAX_NAMED; i++)
    by_text_add(text, "%s %s", i ? "," : "", topology->nodes[bound->side[i]].name);
  if (bound->n_side > MAX_NAMED) by_text_add(text, " and %u more", bound->n_side - MAX_NAMED);
}

void by_bound_limit_explain(const struct by_bound_limit *limit, const struct by_topology *topology,
                            struct by_text *text) {
  char rate[32];
  if (limit->kind == BY_BOUND_LINK) {
    const struct by_link *link = &topology->links[limit->index];
    by_text_add(text, "  link %s to %s", topology->nodes[limit->direction == BY_AB ? link->a : link->b].name,
                topology->nodes[limit->direction == BY_AB ? link->b : link->a].name);
  } else {
    by_text_add(text, "  all that %s may %s", topology->nodes[limit->index].name,
                limit->kind == BY_BOUND_OUT ? "send" : "receive");
  }
  by_text_add(text, ": %s\n", by_print_rate(limit->capacity, rate));
}

void by_collective_bound_explain(const struct by_collective_bound *bound, const struct by_topology *topology,
                                 struct by_text *text) {
  const char *name = by_collective(bound->collective)->name;
  char rate[32];
  if (isinf(bound->rate)) {
    by_text_add(text, "%s: nothing has to pass any link.\n", name);
    return;
  }
  by_text_add(text, "%s: no algorithm%s exceeds %s of the whole buffer.\n", name,
              bound->n_side ? "" : " without relaying", by_print_rate(bound->rate, rate));
  if (bound->n_side) {
    by_text_add(text, "%.3g %% of it must %s", 100 * bound->part, bound->leaves ? "leave" : "enter");
    add_side(bound, topology, text);
    by_text_add(text, " over\n");
  } else {
    by_text_add(text, "Along the ways of packets, %.3g times a rank's buffer must pass\n", bound->part);
  }
  for (uint32_t i = 0; i < bound->n_limits && i < MAX_NAMED; i++)
    by_bound_limit_explain(&bound->limits[i], topology, text);
  if (bound->n_limits > MAX_NAMED) by_text_add(text, "  and %u more\n", bound->n_limits - MAX_NAMED);
}

/* --- JSON. --- */

void by_bound_limit_put_json(const struct by_bound_limit *limit, const struct by_topology *topology,
                             struct by_text *text) {
  by_text_add(text, "{");
  if (limit->kind == BY_BOUND_LINK) {
    const struct by_link *link = &topology->links[limit->index];
    by_json_put_string(text, "from", topology->nodes[limit->direction == BY_AB ? link->a : link->b].name);
    by_json_put_string(text, "to", topology->nodes[limit->direction == BY_AB ? link->b : link->a].name);
  } else {
    by_json_put_string(text, limit->kind == BY_BOUND_OUT ? "from" : "to", topology->nodes[limit->index].name);
  }
  by_json_put_real(text, "capacity", limit->capacity);
  by_text_add(text, "}");
}

void by_collective_bound_put_json(const struct by_collective_bound *bound, const struct by_topology *topology,
                                  struct by_text *text) {
  by_json_put_string(text, "collective", by_collective(bound->collective)->name);
  by_json_put_real(text, "bound", bound->rate);
  by_json_put_real(text, "part", bound->part);
  by_json_put_bool(text, "leaves", bound->leaves);
  by_json_begin_member(text, "side");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < bound->n_side; i++) {
    by_json_separate(text);
    by_json_add_string(text, topology->nodes[bound->side[i]].name);
  }
  by_text_add(text, "]");
  by_json_begin_member(text, "limits");
  by_text_add(text, "[");
  for (uint32_t i = 0; i < bound->n_limits; i++) {
    by_json_separate(text);
    by_bound_limit_put_json(&bound->limits[i], topology, text);
  }
  by_text_add(text, "]");
}
