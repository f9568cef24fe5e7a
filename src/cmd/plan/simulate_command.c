/* `banyan simulate`: predicts how long an AllReduce takes on a topology, and which links it uses. Sends nothing. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "cost.h"
#include "fragment.h"
#include "json_doc.h"
#include "log.h"
#include "output.h"
#include "plan.h"
#include "plan_load.h"
#include "plan_topology.h"
#include "planner.h"
#include "process.h"
#include "simulate.h"
#include "text.h"
#include "topology_draw.h"
#include "topology_formats.h"

/* ---- printing */

enum { MAX_ROWS = 8, COLUMNS = 48, JSON_SLOTS = 32, NAME_COLUMNS = 20 };

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

/* Tells whether the plan has sums through switches, which use fragments; their bound is taken from the plan. */
static bool has_switches(const struct by_plan *plan) {
  uint32_t v = plan->n_ranks;
  while (v < plan->n_vertices && plan->vertices[v].kind != BY_VERTEX_SWITCH) v++;
  return v < plan->n_vertices;
}

/* Appends what the times include and what not. */
static void add_meaning(const struct by_simulate_subject *subject, uint64_t chunk, double chunk_cost,
                        struct by_text *text) {
  char size[32], time[32], hosts[64] = "the work of hosts", headers[40] = "fragments: about x 1.1";
  if (!has_switches(subject->plan)) snprintf(headers, sizeof headers, "TCP, Ethernet: x %.3f", by_cost_defaults().wire);
  if (chunk_cost > 0)
    snprintf(hosts, sizeof hosts, "hosts' work beyond %s a chunk", by_print_seconds(chunk_cost, time));
  by_text_add(text,
              "\n"
              "  Times are for one call on an idle network, in chunks of %s, including delays and\n"
              "  waiting for links. They do not include headers (%s) or %s,\n"
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
  uint32_t n = 0, max = 2 * (t->n_links + t->n_nodes);
  *out = by_cli_alloc(NULL, max * sizeof **out);
  for (uint32_t i = 0; i < max; i++) {
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
  if (!subject->all && n > MAX_ROWS) shown = MAX_ROWS;
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

struct simulate_options {
  const char *plan, *builtin, *sizes, *trace, *svg;
  uint64_t chunk;
  double chunk_cost;
  bool json, all, no_bound, dark;
};

#define NO_CHUNK UINT64_MAX /* Not given. */

#define VALUES struct simulate_options

static const struct by_option options[] = {
    BY_TEXT("plan", 'p', plan, "PLAN", "a plan file, or a built-in plan's name; default: plan for\nthe topology"),
    BY_TEXT("builtin", 'b', builtin, "NAME", "a built-in plan, see banyan plan --list"),
    BY_TEXT("sizes", 's', sizes, "LIST", "buffers, \"64K,16M\" or \"4K..64M\"; default 4K,64K,1M,16M,64M"),
    BY_TEXT("size", 0, sizes, "LIST", NULL),
    BY_BYTES("chunk", 0, chunk, "SIZE",
             "largest number of bytes sent and forwarded at a time; default:\nthe plan's chunk, or 32K, as `banyan "
             "plan` assumes; for sums\nthrough switches a fragment"),
    BY_SECONDS("chunk-cost", 0, chunk_cost, "TIME",
               "time that a rank needs for each chunk that it receives,\n\"20us\"; default 0"),
    BY_FLAG("json", 0, json, "print one line of JSON for each size"),
    BY_FLAG("all", 'a', all, "show all links, not only the busiest"),
    BY_FLAG("no-bound", 0, no_bound, "do not compute the upper bound of all plans, which may take\nseconds"),
    BY_TEXT("trace", 0, trace, "FILE",
            "write each chunk on each link as a trace for ui.perfetto.dev,\nfor the last size"),
    BY_TEXT("svg", 0, svg, "FILE", "draw the use of links into this file, for the last size"),
    BY_FLAG("dark", 0, dark, "with --svg: light on dark; default: as the viewer is set"),
    {.name = NULL},
};

/* A letter that means something else in other commands. */
static const struct by_habit habits[] = {{"-t", "--trace FILE"}, {NULL, NULL}};

static const struct by_command command = {
    .name = "banyan simulate",
    .usage = "TOPOLOGY [options]",
    .about = "Predicts how long an AllReduce takes on a topology, a file or a short text (see\n"
             "banyan topo). It simulates the plan's messages over links that they share\n"
             "fairly, and shows which links are busiest, with time from left to right.\n"
             "\n"
             "Times are for one call on an idle network, with delays and with waiting for\n"
             "links. They do not include headers of TCP and Ethernet, which take 4.6 % more\n"
             "(for sums through switches about 10 %), nor the work of hosts, except for\n"
             "--chunk-cost. `banyan plan TOPOLOGY --explain` predicts with both, and `banyan\n"
             "bench` measures.",
    .options = options,
    .habits = habits,
    .min_operands = 1,
    .missing = "no topology: give a file, or a text such as star:4",
    .max_operands = 1,
};

/* A run of the command. */
struct session {
  const struct simulate_options *asked;
  struct by_topology *topology;
  struct by_plan *plan;
  double bound; /* bit/s of input; 0: unknown. */
  const char *bound_scope;
  struct by_simulate_subject subject;
  struct by_simulator simulator;
  const struct by_class *class_; /* Class of the simulation; NULL: none. */
  struct by_text text;
  /* ---- The members that follow are for the trace. */
  FILE *file;
  bool *named; /* By resource, then by index in its paths: whether the trace knows its name. */
  uint64_t events, left_out;
};

/* --- the plan and the bound --- */

static uint64_t choose_chunk(const struct session *s) {
  if (s->asked->chunk != NO_CHUNK) return s->asked->chunk;
  if (has_switches(s->plan)) return BY_FRAGMENT_LINES * BY_FRAGMENT_LINE;
  return s->plan->chunk ? s->plan->chunk : (uint64_t)by_cost_defaults().grain;
}

/* Plans for the topology: for the bound, and for the plan if none is given. */
static enum banyan_status run_planner(struct session *s, const struct by_graph_choice *choice) {
  struct by_planner_options wanted = by_planner_defaults();
  struct by_planned planned;
  const char *name = s->topology->name[0] ? s->topology->name : "trees";
  wanted.choice = *choice;
  BY_TRY(by_planner_run(name, s->topology, &wanted, &planned));
  s->bound = planned.plan->facts.bound;
  s->bound_scope = by_graph_bound_scope(planned.graph, s->topology);
  if (!s->plan) {
    s->plan = planned.plan;
    planned.plan = NULL;
  }
  by_planned_fini(&planned);
  return BANYAN_OK;
}

/* Finds the bound of all plans over the same hosts. */
static enum banyan_status find_bound(struct session *s) {
  uint32_t n = s->plan->n_ranks, *nodes = by_cli_zeroed(s->plan->n_vertices, sizeof *nodes);
  enum banyan_status status = by_plan_locate(s->plan, s->topology, nodes);
  struct by_graph_choice choice = {
      .participants = nodes, .n_participants = n, .helpers = nodes + n, .n_helpers = s->plan->n_vertices - n};
  if (status == BANYAN_OK) status = run_planner(s, &choice);
  free(nodes);
  return status;
}

static enum banyan_status find_plan(struct session *s) {
  const struct simulate_options *asked = s->asked;
  uint32_t n = by_plan_count_ranks(s->topology);
  if (asked->plan && asked->builtin)
    return by_fail(BANYAN_ERR_ARGUMENT, "--plan and --builtin exclude each other: give one");
  if (asked->plan) BY_TRY(by_plan_named(asked->plan, n, &s->plan));
  if (asked->builtin) BY_TRY(by_plan_builtin(asked->builtin, n, &s->plan));
  if (!s->plan)
    BY_TRY(run_planner(s, &(struct by_graph_choice){0}));
  else if (has_switches(s->plan))
    s->bound = s->plan->facts.bound;
  else if (!asked->no_bound && s->plan->n_ranks > 1)
    BY_TRY(find_bound(s));
  s->subject = (struct by_simulate_subject){.topology = s->topology,
                                            .plan = s->plan,
                                            .bound = asked->no_bound ? 0 : s->bound,
                                            .bound_scope = s->bound_scope,
                                            .all = asked->all};
  return BANYAN_OK;
}

/* --- simulating --- */

/* ---- A simulation as a trace: Chrome's JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open. A process is
 * a direction of a link or a limit of a node, a thread a pair of ranks or helpers, an event a chunk. */

enum { MAX_EVENTS = 1 << 20 };

static void write_name(struct session *s, const char *what, uint32_t process, uint32_t thread, const char *name) {
  struct by_text text = {0};
  by_json_add_string(&text, name);
  fprintf(s->file, "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"args\": {\"name\": %s}},\n", what,
          process, thread, by_text_get(&text));
  s->text.failed |= text.failed;
  by_text_fini(&text);
}

static void name_process(struct session *s, uint32_t resource) {
  const struct by_topology *t = s->topology;
  char name[2 * BY_TOPOLOGY_MAX_NAME + 32];
  if (s->named[resource]) return;
  s->named[resource] = true;
  if (resource < 2 * t->n_links) {
    const struct by_link *link = &t->links[resource / 2];
    bool back = resource % 2 == BY_BA;
    snprintf(name, sizeof name, "%s -> %s", t->nodes[back ? link->b : link->a].name,
             t->nodes[back ? link->a : link->b].name);
  } else {
    snprintf(name, sizeof name, "%s %s", t->nodes[(resource - 2 * t->n_links) / 2].name,
             resource % 2 ? "receives" : "sends");
  }
  write_name(s, "process_name", resource + 1, 0, name);
}

/* `out` has 32 bytes. */
static const char *print_end(const struct session *s, uint32_t vertex, char *out) {
  uint32_t ranks = s->plan->n_ranks;
  if (vertex < ranks)
    snprintf(out, 32, "rank %u", vertex);
  else
    snprintf(out, 32, "%s %u", by_vertex_kind_name(s->plan->vertices[vertex].kind), vertex - ranks);
  return out;
}

/* Callback of by_simulate_options; the context is the session. */
static void trace_transfer(void *context, const struct by_simulated_chunk *transfer) {
  struct session *s = context;
  char pair[80], from[32], to[32];
  if (s->events >= MAX_EVENTS) {
    s->left_out++;
    return;
  }
  snprintf(pair, sizeof pair, "%s -> %s", print_end(s, transfer->from, from), print_end(s, transfer->to, to));
  for (uint32_t i = 0; i < transfer->n_resources; i++) {
    uint32_t resource = transfer->resources[i],
             place = (uint32_t)(&transfer->resources[i] - s->simulator.paths.resources);
    name_process(s, resource);
    if (!s->named[s->simulator.paths.n_resources + place])
      write_name(s, "thread_name", resource + 1, transfer->stream + 1, pair);
    s->named[s->simulator.paths.n_resources + place] = true;
    fprintf(s->file,
            "{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %u, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, \"args\": "
            "{\"bytes\": %llu}},\n",
            pair, resource + 1, transfer->stream + 1, transfer->begin * 1e6, (transfer->end - transfer->begin) * 1e6,
            (unsigned long long)transfer->bytes);
    s->events++;
  }
}

static enum banyan_status run_traced(struct session *s, uint64_t bytes, struct by_simulate_options *how,
                                     struct by_simulation *out) {
  const char *path = s->asked->trace;
  const struct by_stream_paths *ways = &s->simulator.paths;
  s->file = fopen(path, "we");
  if (!s->file) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s for writing", path);
  s->named = by_cli_zeroed((size_t)ways->n_resources + ways->first[ways->n_streams], sizeof *s->named);
  fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", s->file);
  how->transfer = trace_transfer;
  how->context = s;
  enum banyan_status status = by_simulator_run(&s->simulator, bytes, how, out);
  /* Ends the list, so that no comma is left. */
  fputs("{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"tid\": 0, \"args\": {\"name\": \"banyan "
        "simulate\"}}\n]}\n",
        s->file);
  enum banyan_status closed = by_close_file(s->file, path);
  free(s->named);
  if (status != BANYAN_OK) return status;
  if (s->left_out && closed == BANYAN_OK)
    by_warn("simulate", "%s holds the first %llu events; %llu chunks that came later are not in it", path,
            (unsigned long long)s->events, (unsigned long long)s->left_out);
  if (closed != BANYAN_OK) by_simulation_fini(out);
  return closed;
}

static enum banyan_status run_simulation(struct session *s, uint64_t bytes, bool traced, struct by_simulation *out) {
  struct by_simulate_options how = {.chunk = choose_chunk(s), .chunk_cost = s->asked->chunk_cost};
  const struct by_class *class_ = by_plan_class(s->plan, bytes);
  if (class_ != s->class_) { /* Size classes have separate trees. */
    if (s->class_) by_simulator_fini(&s->simulator);
    s->class_ = NULL;
    BY_TRY(by_simulator_init(&s->simulator, s->plan, class_, s->topology, 0));
    s->class_ = class_;
  }
  return traced ? run_traced(s, bytes, &how, out) : by_simulator_run(&s->simulator, bytes, &how, out);
}

/* --- output --- */

/* Draws the topology with the average use of its links. */
static enum banyan_status write_svg(const struct session *s, const struct by_simulation *simulation) {
  uint32_t n = s->topology->n_links;
  char name[BY_PLAN_MAX_NAME + 64], size[32];
  double(*load)[2] = by_cli_zeroed(n, sizeof *load);
  for (uint32_t i = 0; i < 2 * n; i++) {
    uint32_t class_ = by_simulation_class(simulation, i);
    if (class_ != UINT32_MAX && simulation->seconds > 0)
      load[i / 2][i % 2] = 8 * simulation->carried[class_] / simulation->seconds;
  }
  snprintf(name, sizeof name, "plan %s, %s, on average", s->plan->name, by_print_bytes(simulation->bytes, size));
  struct by_draw_options draw = {.load = (const double(*)[2])load, .load_name = name, .dark = s->asked->dark};
  enum banyan_status status = by_write_svg(s->asked->svg, s->topology, &draw);
  free(load);
  return status;
}

static enum banyan_status show_result(struct session *s, const struct by_simulation *simulation, bool last) {
  if (s->asked->json)
    by_simulate_add_json(&s->subject, simulation, &s->text);
  else
    by_simulate_add_row(&s->subject, simulation, &s->text);
  if (last && !s->asked->json) {
    add_meaning(&s->subject, simulation->chunk, s->asked->chunk_cost, &s->text);
    by_simulate_add_links(&s->subject, simulation, &s->text);
  }
  if (last && s->asked->svg) BY_TRY(write_svg(s, simulation));
  BY_TRY(by_print_text(&s->text, BANYAN_OK, stdout));
  fflush(stdout);
  return BANYAN_OK;
}

static enum banyan_status run_sizes(struct session *s, const char *topology, const struct by_sizes *sizes) {
  BY_TRY(by_topology_named(topology, &s->topology));
  BY_TRY(find_plan(s));
  if (!s->asked->json) by_simulate_add_head(&s->subject, &s->text);
  for (size_t i = 0; i < sizes->count; i++) {
    struct by_simulation simulation;
    bool last = i + 1 == sizes->count;
    BY_TRY(run_simulation(s, sizes->bytes[i], last && s->asked->trace, &simulation));
    enum banyan_status status = show_result(s, &simulation, last);
    by_simulation_fini(&simulation);
    if (status != BANYAN_OK) return status;
  }
  return BANYAN_OK;
}

int by_cli_simulate(int argc, char **argv) {
  struct simulate_options asked = {.sizes = "4K,64K,1M,16M,64M", .chunk = NO_CHUNK};
  struct session session = {.asked = &asked};
  struct by_sizes sizes;
  struct by_operands operands;
  int exit_code = by_options_parse(&command, argc, argv, &asked, &operands);
  if (exit_code >= 0) return exit_code;
  if (by_parse_sizes(asked.sizes, &sizes) != BANYAN_OK)
    return by_options_misuse(&command, "--sizes: %s", banyan_error_text());
  if (asked.chunk == 0) return by_options_misuse(&command, "--chunk is 0, must be 1 byte or more");
  enum banyan_status status = run_sizes(&session, operands.items[0], &sizes);
  if (session.class_) by_simulator_fini(&session.simulator);
  by_text_fini(&session.text);
  by_plan_destroy(session.plan);
  by_topology_destroy(session.topology);
  return status == BANYAN_ERR_ARGUMENT ? by_command_misused(&command) : by_command_end(&command, status);
}
