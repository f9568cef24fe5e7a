#include "lab.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum { MOST_COLUMN = 32, MOST_ROWS = 64 };

static const struct by_lab_space *end_of(const struct by_lab_layout *l, uint32_t wire, int end) {
  return &l->spaces[l->wires[wire].space[end]];
}

/* A host's own limit is a wire between it and its gate, which the report calls its network. */
static const char *name_of(const struct by_lab_layout *l, uint32_t wire, int end) {
  const struct by_lab_space *space = end_of(l, wire, end);
  return l->wires[wire].link == UINT32_MAX && space->gate ? "(its links)" : space->name;
}

static int widest_name(const struct by_lab_layout *l) {
  size_t widest = strlen("from");
  for (uint32_t i = 0; i < l->n_wires; i++)
    for (int end = 0; end < 2; end++) widest = MAX(widest, strlen(name_of(l, i, end)));
  return (int)MIN(widest, MOST_COLUMN);
}

/* ---- before */

static void print_space(const struct by_lab_layout *l, uint32_t s, int width, struct by_text *text) {
  const struct by_lab_space *space = &l->spaces[s];
  const struct by_node *node = &l->topology->nodes[space->node];
  char address[16];
  uint32_t n = l->spaces[space->outside].n_wires;
  if (space->gate || space->front) return;
  by_text_add(text, "%-6s %-*s %-15s %u interface%s%s%s\n", node->kind == BY_NODE_HOST ? "host" : "switch", width,
              space->name, space->address ? by_lab_print_address(space->address, address) : "-", n, n == 1 ? "" : "s",
              node->takes_part ? ", ranks" : "", node->kind == BY_NODE_SWITCH && node->aggregates ? ", adds" : "");
}

static void print_wire(const struct by_lab_layout *l, const struct by_lab_options *options, uint32_t i, int width,
                       struct by_text *text) {
  const struct by_lab_wire *wire = &l->wires[i];
  char rate[32], queue[32], delay[32];
  for (int end = 0; end < 2; end++) {
    by_text_add(text, "link   %-*s -> %-*s %-15s queue %s", width, name_of(l, i, end), width, name_of(l, i, !end),
                by_print_rate(wire->rate[end], rate),
                by_print_bytes((uint64_t)by_lab_queue_bytes(options, wire->rate[end]), queue));
    if (wire->delay > 0) by_text_add(text, ", delay %s", by_print_seconds(wire->delay, delay));
    if (wire->loss > 0) by_text_add(text, ", loss %g %%", 100 * wire->loss);
    by_text_add(text, "\n");
  }
}

void by_lab_print_layout(const struct by_lab_layout *l, const struct by_lab_options *options, struct by_text *text) {
  int width = widest_name(l);
  for (uint32_t s = 0; s < l->n_spaces; s++) print_space(l, s, width, text);
  for (uint32_t i = 0; i < l->n_wires; i++) print_wire(l, options, i, width, text);
  uint32_t pairs = l->n_wires;
  for (uint32_t s = 0; s < l->n_spaces; s++) pairs += l->spaces[s].front ? l->spaces[s].n_wires : 0;
  by_text_add(text, "%u network namespaces, %u pairs of interfaces, %u routes\n", l->n_spaces, pairs, l->n_routes);
}

/* ---- after */

static double share_used(const struct by_lab_wire *wire, int end, uint64_t bytes, double seconds) {
  return wire->rate[end] > 0 && seconds > 0 ? 8 * (double)bytes / (wire->rate[end] * seconds) : 0;
}

/* Of 2 * wire + end: those that carried something. */
struct ranking {
  const struct by_lab_layout *layout;
  const struct by_lab_traffic *traffic;
  double seconds;
  uint32_t *places;
  uint32_t n;
};

static int busiest_first(const void *x, const void *y, void *context) {
  const struct ranking *r = context;
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  double of_a = share_used(&r->layout->wires[a / 2], (int)(a % 2), r->traffic[a].bytes, r->seconds);
  double of_b = share_used(&r->layout->wires[b / 2], (int)(b % 2), r->traffic[b].bytes, r->seconds);
  return of_a != of_b ? (of_a < of_b) - (of_a > of_b) : (a > b) - (a < b);
}

static void print_row(const struct ranking *r, uint32_t place, int width, struct by_text *text) {
  const struct by_lab_layout *l = r->layout;
  const struct by_lab_traffic *t = &r->traffic[place];
  uint32_t i = place / 2;
  int end = (int)(place % 2);
  char rate[32], bytes[32];
  by_text_add(text, "%-*s -> %-*s %14s %12s %10llu %8llu %4.0f%%\n", width, name_of(l, i, end), width,
              name_of(l, i, !end), by_print_rate(l->wires[i].rate[end], rate), by_print_bytes(t->bytes, bytes),
              (unsigned long long)t->packets, (unsigned long long)t->drops,
              100 * share_used(&l->wires[i], end, t->bytes, r->seconds));
}

static void print_rows(struct ranking *r, struct by_text *text) {
  int width = widest_name(r->layout);
  bool some_only = r->n > MOST_ROWS;
  if (some_only) qsort_r(r->places, r->n, sizeof *r->places, busiest_first, r);
  by_text_add(text, "%-*s    %-*s %14s %12s %10s %8s %5s\n", width, "from", width, "to", "allowed", "sent", "packets",
              "lost", "used");
  for (uint32_t i = 0; i < r->n && i < MOST_ROWS; i++) print_row(r, r->places[i], width, text);
  if (some_only) by_text_add(text, "the busiest %d of %u directions that were used\n", MOST_ROWS, r->n);
}

void by_lab_print_traffic(const struct by_lab_layout *l, const struct by_lab_traffic *traffic, double seconds,
                          struct by_text *text) {
  struct ranking r = {.layout = l, .traffic = traffic, .seconds = seconds};
  char time[32];
  r.places = calloc(2 * (size_t)l->n_wires + 1, sizeof *r.places);
  if (!r.places) text->failed = true;
  for (uint32_t i = 0; r.places && i < 2 * l->n_wires; i++)
    if (traffic[i].packets || traffic[i].drops) r.places[r.n++] = i;
  if (r.n) print_rows(&r, text);
  by_text_add(text, "%u of %u directions of links carried something in %s%s\n", r.n, 2 * l->n_wires,
              by_print_seconds(seconds, time), r.n ? "; sent counts all headers from Ethernet's on" : "");
  free(r.places);
}

static json_t *direction(const struct by_lab_layout *l, uint32_t i, int end, const struct by_lab_traffic *t) {
  const struct by_lab_wire *wire = &l->wires[i];
  bool own = wire->link == UINT32_MAX;
  const struct by_lab_space *from = end_of(l, i, end), *to = end_of(l, i, !end);
  return json_pack("{s:s, s:s, s:o, s:f, s:I, s:I, s:I}", "from", own && from->gate ? "" : from->name, "to",
                   own && to->gate ? "" : to->name, "link", own ? json_null() : json_integer(wire->link), "rate",
                   wire->rate[end], "bytes", (json_int_t)t->bytes, "packets", (json_int_t)t->packets, "drops",
                   (json_int_t)t->drops);
}

enum banyan_status by_lab_print_json(const struct by_lab_layout *l, const struct by_lab_traffic *traffic,
                                     double seconds, struct by_text *text) {
  json_t *links = json_array(), *all;
  for (uint32_t i = 0; i < l->n_wires; i++)
    for (int end = 0; end < 2; end++)
      json_array_append_new(links, direction(l, i, end, &traffic[2 * i + (uint32_t)end]));
  all = json_pack("{s:s, s:f, s:o}", "lab", l->topology->name, "seconds", seconds, "links", links);
  char *line = all ? json_dumps(all, JSON_COMPACT) : NULL;
  json_decref(all);
  if (line) by_text_add(text, "%s", line);
  free(line);
  if (line && !text->failed) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the lab's report");
}
