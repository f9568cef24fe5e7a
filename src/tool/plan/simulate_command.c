/* `banyan simulate`: how long an AllReduce takes on a topology, and which links it keeps busy. Sends nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_sizes.h"
#include "commands.h"
#include "fragment.h"
#include "options.h"
#include "plan.h"
#include "plan_load.h"
#include "planner.h"
#include "simulate_print.h"
#include "simulate_trace.h"
#include "topology_draw.h"
#include "topology_named.h"
#include "write.h"

struct simulate_options {
  const char *plan, *builtin, *sizes, *trace, *svg;
  uint64_t chunk;
  double chunk_cost;
  bool json, all, no_bound;
};

#define NO_CHUNK UINT64_MAX /* none is asked for */

#define AT(member) offsetof(struct simulate_options, member)

static const struct by_option options[] = {
    {"plan", 'p', BY_OPTION_TEXT, AT(plan), "PLAN",
     "a plan file, or a built-in plan's name; default: plan for\nthe topology", 0, 0},
    {"builtin", 'b', BY_OPTION_TEXT, AT(builtin), "NAME", "a built-in plan, see banyan plan --list", 0, 0},
    {"sizes", 's', BY_OPTION_TEXT, AT(sizes), "LIST", "buffers, \"64K,16M\" or \"4K..64M\"; default 4K,64K,1M,16M,64M",
     0, 0},
    {"size", 0, BY_OPTION_TEXT, AT(sizes), "LIST", NULL, 0, 0},
    {"chunk", 0, BY_OPTION_BYTES, AT(chunk), "SIZE",
     "most that is sent, and passed on, at a time; default: the\nplan's, or 32K, as `banyan plan` predicts; of sums "
     "through\nswitches a fragment",
     0, 0},
    {"chunk-cost", 0, BY_OPTION_SECONDS, AT(chunk_cost), "TIME",
     "what a rank takes for each chunk that it receives, \"20us\";\ndefault 0", 0, 0},
    {"json", 0, BY_OPTION_FLAG, AT(json), NULL, "print one line of JSON for each size", 0, 0},
    {"all", 'a', BY_OPTION_FLAG, AT(all), NULL, "show all links, not the busiest alone", 0, 0},
    {"no-bound", 0, BY_OPTION_FLAG, AT(no_bound), NULL, "do not work out what no plan exceeds, which may take\nseconds",
     0, 0},
    {"trace", 't', BY_OPTION_TEXT, AT(trace), "FILE",
     "write each chunk on each link as a trace for\nui.perfetto.dev; of the last size", 0, 0},
    {"svg", 0, BY_OPTION_TEXT, AT(svg), "FILE", "draw the links' use into this file; of the last size", 0, 0},
    {.name = NULL},
};

static const struct by_command command = {
    .name = "banyan simulate",
    .usage = "TOPOLOGY [options]",
    .about = "Predicts how long an AllReduce takes on a topology, a file or a short text (see\n"
             "banyan topo), by running the plan's messages over links that they share fairly.\n"
             "Says which links are busiest and when, a column a moment.\n"
             "Times are of one call on an idle network, with delays and with waiting for\n"
             "links. Not in them are headers of TCP and Ethernet, which take 4.6 % more (of\n"
             "sums through switches about 10 %), and what hosts take, but for --chunk-cost;\n"
             "`banyan plan TOPOLOGY --explain` predicts with both, `banyan bench` measures.",
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
  double bound; /* bit/s of input; 0: not known */
  struct by_simulate_subject subject;
  struct by_simulator simulator;
  const struct by_class *class_; /* that the simulator was made for; NULL: none */
  struct by_text text;
};

/* --- the plan and the bound --- */

static uint32_t count_ranks(const struct by_topology *topology) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < topology->n_nodes; i++) n += topology->nodes[i].takes_part;
  return n;
}

static uint64_t choose_chunk(const struct session *s) {
  if (s->asked->chunk != NO_CHUNK) return s->asked->chunk;
  if (by_simulate_has_switches(s->plan)) return BY_FRAGMENT_LINES * BY_FRAGMENT_LINE;
  return s->plan->chunk ? s->plan->chunk : (uint64_t)by_cost_defaults().grain;
}

/* Plans for the topology: for the bound, and for the plan if none is there. */
static enum banyan_status run_planner(struct session *s, const struct by_graph_choice *choice) {
  struct by_planner_options wanted = by_planner_defaults();
  struct by_planned planned;
  const char *name = s->topology->name[0] ? s->topology->name : "trees";
  wanted.choice = *choice;
  BY_TRY(by_planner_run(name, s->topology, &wanted, &planned));
  s->bound = planned.plan->facts.bound;
  if (!s->plan) {
    s->plan = planned.plan;
    planned.plan = NULL;
  }
  by_planned_fini(&planned);
  return BANYAN_OK;
}

/* What no plan over the same hosts exceeds. */
static enum banyan_status find_bound(struct session *s) {
  uint32_t n = s->plan->n_ranks, *nodes = calloc(s->plan->n_vertices, sizeof *nodes);
  if (!nodes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the hosts of a plan");
  enum banyan_status status = by_plan_place(s->plan, s->topology, nodes);
  struct by_graph_choice choice = {
      .participants = nodes, .n_participants = n, .helpers = nodes + n, .n_helpers = s->plan->n_vertices - n};
  if (status == BANYAN_OK) status = run_planner(s, &choice);
  free(nodes);
  return status;
}

static enum banyan_status find_plan(struct session *s) {
  const struct simulate_options *asked = s->asked;
  uint32_t n = count_ranks(s->topology);
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
  s->subject = (struct by_simulate_subject){
      .topology = s->topology, .plan = s->plan, .bound = asked->no_bound ? 0 : s->bound, .all = asked->all};
  return BANYAN_OK;
}

/* --- simulating --- */

/* Size classes have trees of their own. */
static enum banyan_status prepare(struct session *s, uint64_t bytes) {
  const struct by_class *class_ = by_plan_class(s->plan, bytes);
  if (class_ == s->class_) return BANYAN_OK;
  if (s->class_) by_simulator_fini(&s->simulator);
  s->class_ = NULL;
  BY_TRY(by_simulator_init(&s->simulator, s->plan, class_, s->topology, 0));
  s->class_ = class_;
  return BANYAN_OK;
}

static enum banyan_status run_traced(struct session *s, uint64_t bytes, const struct by_simulate_options *how,
                                     struct by_simulation *out) {
  struct by_trace trace;
  struct by_simulate_options traced = *how;
  BY_TRY(by_trace_open(&trace, s->asked->trace, s->plan, s->topology, &s->simulator.ways));
  traced.transfer = by_trace_transfer;
  traced.context = &trace;
  enum banyan_status status = by_simulator_run(&s->simulator, bytes, &traced, out);
  enum banyan_status closed = by_trace_close(&trace);
  if (status != BANYAN_OK || closed == BANYAN_OK) return status;
  by_simulation_fini(out);
  return closed;
}

static enum banyan_status run(struct session *s, uint64_t bytes, bool traced, struct by_simulation *out) {
  struct by_simulate_options how = {.chunk = choose_chunk(s), .chunk_cost = s->asked->chunk_cost};
  BY_TRY(prepare(s, bytes));
  return traced ? run_traced(s, bytes, &how, out) : by_simulator_run(&s->simulator, bytes, &how, out);
}

/* --- output --- */

static enum banyan_status flush(struct session *s) {
  if (s->text.failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text");
  fputs(by_text_get(&s->text), stdout);
  fflush(stdout);
  by_text_fini(&s->text);
  by_text_init(&s->text);
  return BANYAN_OK;
}

/* The topology with what its links carried on average. */
static enum banyan_status write_svg(const struct session *s, const struct by_simulation *simulation) {
  uint32_t n = s->topology->n_links;
  char name[BY_PLAN_MOST_NAME + 64], size[32];
  double(*load)[2] = calloc((size_t)n + 1, sizeof *load);
  if (!load) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the drawing");
  for (uint32_t i = 0; i < 2 * n; i++) {
    uint32_t class_ = by_simulation_class(simulation, i);
    if (class_ != UINT32_MAX && simulation->seconds > 0)
      load[i / 2][i % 2] = 8 * simulation->carried[class_] / simulation->seconds;
  }
  snprintf(name, sizeof name, "plan %s, %s, on average", s->plan->name, by_print_bytes(simulation->bytes, size));
  struct by_draw_options draw = {.load = (const double(*)[2])load, .load_name = name};
  enum banyan_status status = by_write_svg(s->asked->svg, s->topology, &draw);
  free(load);
  return status;
}

static enum banyan_status show(struct session *s, const struct by_simulation *simulation, bool last) {
  if (s->asked->json)
    by_simulate_add_json(&s->subject, simulation, &s->text);
  else
    by_simulate_add_row(&s->subject, simulation, &s->text);
  if (last && !s->asked->json) {
    by_simulate_add_meaning(&s->subject, simulation->chunk, s->asked->chunk_cost, &s->text);
    BY_TRY(by_simulate_add_links(&s->subject, simulation, &s->text));
  }
  if (last && s->asked->svg) BY_TRY(write_svg(s, simulation));
  return flush(s);
}

static enum banyan_status run_sizes(struct session *s, const char *topology, const struct by_bench_sizes *sizes) {
  BY_TRY(by_topology_named(topology, &s->topology));
  BY_TRY(find_plan(s));
  if (!s->asked->json) by_simulate_add_head(&s->subject, &s->text);
  for (size_t i = 0; i < sizes->count; i++) {
    struct by_simulation simulation;
    bool last = i + 1 == sizes->count;
    BY_TRY(run(s, sizes->bytes[i], last && s->asked->trace, &simulation));
    enum banyan_status status = show(s, &simulation, last);
    by_simulation_fini(&simulation);
    if (status != BANYAN_OK) return status;
  }
  return BANYAN_OK;
}

int by_cli_simulate(int argc, char **argv) {
  struct simulate_options asked = {.sizes = "4K,64K,1M,16M,64M", .chunk = NO_CHUNK};
  struct session session = {.asked = &asked};
  struct by_bench_sizes sizes;
  struct by_operands operands;
  int exit_code;
  if (!by_options_parse(&command, argc, argv, &asked, &operands, &exit_code)) return exit_code;
  if (by_bench_parse_sizes(asked.sizes, &sizes) != BANYAN_OK)
    return by_options_misuse(&command, "--sizes: %s", banyan_error_text());
  if (asked.chunk == 0) return by_options_misuse(&command, "--chunk is 0, must be 1 byte or more");
  by_text_init(&session.text);
  enum banyan_status status = run_sizes(&session, operands.items[0], &sizes);
  if (session.class_) by_simulator_fini(&session.simulator);
  by_text_fini(&session.text);
  by_plan_destroy(session.plan);
  by_topology_destroy(session.topology);
  if (status == BANYAN_OK) return 0;
  if (status == BANYAN_ERR_ARGUMENT) return by_options_misuse(&command, "%s", banyan_error_text());
  return by_options_failure(&command, banyan_error_text());
}
