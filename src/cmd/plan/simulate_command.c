/* `banyan simulate`: predicts how long an AllReduce takes on a topology, and which links it uses. Sends nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
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
#include "simulate_print.h"
#include "text.h"
#include "topology_draw.h"
#include "topology_synth.h"

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
             "most bytes that are sent and forwarded at a time; default:\nthe plan's chunk, or 32K, as `banyan plan` "
             "predicts; for sums\nthrough switches a fragment"),
    BY_SECONDS("chunk-cost", 0, chunk_cost, "TIME",
               "time that a rank needs for each chunk that it receives,\n\"20us\"; default 0"),
    BY_FLAG("json", 0, json, "print one line of JSON for each size"),
    BY_FLAG("all", 'a', all, "show all links, not only the busiest"),
    BY_FLAG("no-bound", 0, no_bound, "do not compute the rate that no plan exceeds, which may take\nseconds"),
    BY_TEXT("trace", 't', trace, "FILE",
            "write each chunk on each link as a trace for ui.perfetto.dev,\nfor the last size"),
    BY_TEXT("svg", 0, svg, "FILE", "draw the use of links into this file, for the last size"),
    BY_FLAG("dark", 0, dark, "for --svg: light on dark; default: as the reader's setting is"),
    {.name = NULL},
};

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
    .least_operands = 1,
    .missing = "which topology? Give a file, or a text such as star:4",
    .most_operands = 1,
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
  if (by_simulate_has_switches(s->plan)) return BY_FRAGMENT_LINES * BY_FRAGMENT_LINE;
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
    return by_fail(BANYAN_ERR_ARGUMENT, "--plan and --builtin cannot both be given: name one");
  if (asked->plan) BY_TRY(by_plan_named(asked->plan, n, &s->plan));
  if (asked->builtin) BY_TRY(by_plan_builtin(asked->builtin, n, &s->plan));
  if (!s->plan)
    BY_TRY(run_planner(s, &(struct by_graph_choice){0}));
  else if (by_simulate_has_switches(s->plan))
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

enum { MOST_EVENTS = 1 << 20 };

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
static const char *name_end(const struct session *s, uint32_t vertex, char *out) {
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
  if (s->events >= MOST_EVENTS) {
    s->left_out++;
    return;
  }
  snprintf(pair, sizeof pair, "%s -> %s", name_end(s, transfer->from, from), name_end(s, transfer->to, to));
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
    by_simulate_add_meaning(&s->subject, simulation->chunk, s->asked->chunk_cost, &s->text);
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
