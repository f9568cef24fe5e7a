/* Prints the result of a simulation as a table and as JSON. */
#include "simulate_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cost.h"
#include "json_doc.h"
#include "process.h"

enum { MOST_ROWS = 8, COLUMNS = 48, JSON_SLOTS = 32, NAME_COLUMNS = 20 };

static double algorithm_rate(const struct by_simulation *s) {
  return s->seconds > 0 ? 8 * (double)s->bytes / s->seconds : 0;
}

static double bus_rate(const struct by_simulate_subject *subject, const struct by_simulation *s) {
  double n = subject->plan->n_ranks;
  return algorithm_rate(s) * 2 * (n - 1) / n;
}

/* --- the table --- */

/* Prints ", 2 switches, 1 server". */
static void add_others(const struct by_plan *plan, struct by_text *text) {
  static const struct {
    enum by_vertex_kind kind;
    const char *one, *more;
  } kinds[] = {{BY_VERTEX_HELPER, "helper", "helpers"},
               {BY_VERTEX_SWITCH, "switch", "switches"},
               {BY_VERTEX_SERVER, "server", "servers"}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    uint32_t n = 0;
    for (uint32_t v = plan->n_ranks; v < plan->n_vertices; v++) n += plan->vertices[v].kind == kinds[k].kind;
    if (n) by_text_add(text, ", %u %s", n, n == 1 ? kinds[k].one : kinds[k].more);
  }
}

void by_simulate_add_head(const struct by_simulate_subject *subject, struct by_text *text) {
  char rate[32];
  const struct by_plan *plan = subject->plan;
  by_text_add(text, "plan %s over %u ranks", plan->name, plan->n_ranks);
  add_others(plan, text);
  if (subject->bound > 0 && subject->bound_scope)
    by_text_add(text, "; %s do not exceed %s", subject->bound_scope, by_print_rate(subject->bound, rate));
  else if (subject->bound > 0)
    by_text_add(text, "; no plan exceeds %s", by_print_rate(subject->bound, rate));
  by_text_add(text, "\n\n  %10s  %10s  %14s  %14s  %8s\n", "size", "time", "algbw", "busbw", "of bound");
}

void by_simulate_add_row(const struct by_simulate_subject *subject, const struct by_simulation *s,
                         struct by_text *text) {
  char size[32], time[32], rate[32], bus[32], part[32] = "-";
  if (subject->bound > 0) snprintf(part, sizeof part, "%.1f %%", 100 * algorithm_rate(s) / subject->bound);
  by_text_add(text, "  %10s  %10s  %14s  %14s  %8s", by_print_bytes(s->bytes, size), by_print_seconds(s->seconds, time),
              by_print_rate(algorithm_rate(s), rate), by_print_rate(bus_rate(subject, s), bus), part);
  if (s->run < s->levels) by_text_add(text, "  %u of %u rounds simulated, the rest extrapolated", s->run, s->levels);
  if (s->simulated_chunk > s->chunk)
    by_text_add(text, "  from chunks of %s and twice that", by_print_bytes(s->simulated_chunk, size));
  by_text_add(text, "\n");
}

bool by_simulate_has_switches(const struct by_plan *plan) {
  uint32_t v = plan->n_ranks;
  while (v < plan->n_vertices && plan->vertices[v].kind != BY_VERTEX_SWITCH) v++;
  return v < plan->n_vertices;
}

void by_simulate_add_meaning(const struct by_simulate_subject *subject, uint64_t chunk, double chunk_cost,
                             struct by_text *text) {
  char size[32], time[32], hosts[64] = "the work of hosts", headers[40] = "fragments: about x 1.1";
  if (!by_simulate_has_switches(subject->plan))
    snprintf(headers, sizeof headers, "TCP, Ethernet: x %.3f", by_cost_defaults().wire);
  if (chunk_cost > 0)
    snprintf(hosts, sizeof hosts, "hosts' work beyond %s a chunk", by_print_seconds(chunk_cost, time));
  by_text_add(text,
              "\n  Times are of one call on an idle network, in chunks of %s, with delays and with\n"
              "  waiting for links. Without headers (%s) and %s,\n"
              "  which `banyan plan --explain` adds and `banyan bench` measures.\n",
              by_print_bytes(chunk, size), headers, hosts);
}

/* --- links --- */

/* A direction of a link, or the traffic that a node sends or receives. */
struct row {
  uint32_t resource;
  double carried, use; /* Bytes; fraction of the capacity. */
};

static int by_use(const void *left, const void *right) {
  const struct row *a = left, *b = right;
  if (a->use != b->use) return a->use < b->use ? 1 : -1;
  return (a->resource > b->resource) - (a->resource < b->resource);
}

static bool is_link(const struct by_topology *t, uint32_t resource) {
  return resource < 2 * t->n_links;
}

/* Lists rows with traffic. The caller frees *out. */
static uint32_t list_rows(const struct by_simulate_subject *subject, const struct by_simulation *s, struct row **out) {
  const struct by_topology *t = subject->topology;
  uint32_t n = 0, most = 2 * (t->n_links + t->n_nodes);
  *out = by_cli_alloc(NULL, most * sizeof **out);
  for (uint32_t i = 0; i < most; i++) {
    uint32_t class_ = by_simulation_class(s, i);
    if (class_ == UINT32_MAX) continue;
    double carried = s->carried[class_], able = s->cast->net.capacity[class_] * s->seconds;
    (*out)[n++] = (struct row){i, carried, able > 0 ? carried / able : 0};
  }
  return n;
}

/* Returns the end of a link to which a direction leads, or from which it comes. */
static const char *name_end(const struct by_topology *t, uint32_t resource, bool to) {
  const struct by_link *link = &t->links[resource / 2];
  return t->nodes[(resource % 2 == BY_AB) == to ? link->b : link->a].name;
}

static const char *name_node(const struct by_topology *t, uint32_t resource) {
  return t->nodes[(resource - 2 * t->n_links) / 2].name;
}

static void add_drawing(const struct by_simulation *s, uint32_t resource, struct by_text *text) {
  static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  uint32_t class_ = by_simulation_class(s, resource);
  double slots[COLUMNS], able = s->cast->net.capacity[class_] * s->use_seconds / COLUMNS;
  by_use_log_read(&s->use, class_, s->use_seconds, COLUMNS, slots);
  by_text_add(text, "|");
  for (int i = 0; i < COLUMNS; i++) {
    double part = able > 0 ? slots[i] / able : 0;
    int bar = (int)fmin(fmax(part * 8 + 0.5, 0), 8);
    if (bar == 0 && part > 0.005) bar = 1;
    by_text_add(text, "%s", bars[bar]);
  }
  by_text_add(text, "|");
}

static void add_row(const struct by_topology *t, const struct by_simulation *s, const struct row *row,
                    struct by_text *text) {
  char carried[32];
  if (is_link(t, row->resource))
    by_text_add(text, "  %-*.*s -> %-*.*s", NAME_COLUMNS, NAME_COLUMNS, name_end(t, row->resource, false), NAME_COLUMNS,
                NAME_COLUMNS, name_end(t, row->resource, true));
  else
    by_text_add(text, "  %-*.*s %-*s", NAME_COLUMNS, NAME_COLUMNS, name_node(t, row->resource), NAME_COLUMNS + 3,
                row->resource % 2 ? "receives in all" : "sends in all");
  by_text_add(text, "  %10s  %4.0f %%  ", by_print_bytes((uint64_t)(row->carried + 0.5), carried), 100 * row->use);
  add_drawing(s, row->resource, text);
  by_text_add(text, "\n");
}

void by_simulate_add_links(const struct by_simulate_subject *subject, const struct by_simulation *s,
                           struct by_text *text) {
  struct row *rows;
  char size[32], time[32];
  uint32_t n = list_rows(subject, s, &rows), shown = n;
  if (n) qsort(rows, n, sizeof *rows, by_use);
  if (!subject->all && n > MOST_ROWS) shown = MOST_ROWS;
  by_text_add(text, "\n  busiest at %s, and how full over %s%s:\n\n", by_print_bytes(s->bytes, size),
              by_print_seconds(s->use_seconds, time), s->run < s->levels ? " (the rounds simulated)" : "");
  for (uint32_t i = 0; i < shown; i++) add_row(subject->topology, s, &rows[i], text);
  if (shown < n) by_text_add(text, "  ... and %u more; --all shows them\n", n - shown);
  if (s->n_actors < subject->plan->n_vertices)
    by_text_add(text, "\n  %u of %u ranks simulated; each of the others does what one of these does\n", s->n_actors,
                subject->plan->n_vertices);
  free(rows);
}

/* --- JSON --- */

static void add_member(const char *name, double value, struct by_text *text) {
  by_text_add(text, ", \"%s\": ", name);
  by_json_add_real(text, value);
}

static void add_json_ends(const struct by_topology *t, uint32_t resource, struct by_text *text) {
  if (is_link(t, resource)) {
    by_text_add(text, "{\"from\": ");
    by_json_add_string(text, name_end(t, resource, false));
    by_text_add(text, ", \"to\": ");
    by_json_add_string(text, name_end(t, resource, true));
    by_text_add(text, ", \"link\": %u", resource / 2);
    return;
  }
  by_text_add(text, "{\"node\": ");
  by_json_add_string(text, name_node(t, resource));
  by_text_add(text, ", \"way\": \"%s\"", resource % 2 ? "in" : "out");
}

static void add_json_row(const struct by_topology *t, const struct by_simulation *s, uint32_t resource,
                         struct by_text *text) {
  uint32_t class_ = by_simulation_class(s, resource);
  double slots[JSON_SLOTS], capacity = s->cast->net.capacity[class_];
  add_json_ends(t, resource, text);
  add_member("rate", 8 * capacity, text);
  add_member("bytes", s->carried[class_], text);
  add_member("use", s->seconds > 0 ? s->carried[class_] / (capacity * s->seconds) : 0, text);
  by_use_log_read(&s->use, class_, s->use_seconds, JSON_SLOTS, slots);
  by_text_add(text, ", \"over_time\": [");
  for (int i = 0; i < JSON_SLOTS; i++) {
    double able = capacity * s->use_seconds / JSON_SLOTS;
    by_text_add(text, "%s%.3g", i ? ", " : "", able > 0 ? slots[i] / able : 0);
  }
  by_text_add(text, "]}");
}

void by_simulate_add_json(const struct by_simulate_subject *subject, const struct by_simulation *s,
                          struct by_text *text) {
  const struct by_topology *t = subject->topology;
  by_text_add(text, "{\"topology\": ");
  by_json_add_string(text, t->name);
  by_text_add(text, ", \"plan\": ");
  by_json_add_string(text, subject->plan->name);
  by_text_add(text, ", \"ranks\": %u, \"bytes\": %llu", subject->plan->n_ranks, (unsigned long long)s->bytes);
  add_member("seconds", s->seconds, text);
  add_member("algbw", algorithm_rate(s), text);
  add_member("busbw", bus_rate(subject, s), text);
  if (subject->bound > 0) {
    add_member("bound", subject->bound, text);
    add_member("ratio", algorithm_rate(s) / subject->bound, text);
  }
  by_text_add(text,
              ", \"chunk\": %llu, \"simulated\": {\"chunk\": %llu, \"chunks\": %llu, \"ranks\": %u, \"rounds\": %u, "
              "\"of_rounds\": %u",
              (unsigned long long)s->chunk, (unsigned long long)s->simulated_chunk, (unsigned long long)s->work,
              s->n_actors, s->run, s->levels);
  add_member("seconds", s->use_seconds, text);
  by_text_add(text, "}, \"links\": [");
  const char *between = "";
  for (uint32_t i = 0; i < 2 * (t->n_links + t->n_nodes); i++) {
    if (by_simulation_class(s, i) == UINT32_MAX) continue;
    by_text_add(text, "%s", between);
    add_json_row(t, s, i, text);
    between = ", ";
  }
  by_text_add(text, "]}\n");
}
