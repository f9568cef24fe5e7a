/* A byte that selects how to plan, and a small topology. The planner refuses it or makes a valid plan. The plan is the
 * same when it is printed and read again, has a throughput above 0 and not above its bound, and can be explained, drawn
 * and predicted. The placement of sums in switches and the control tree are tested likewise. */
#include <math.h>

#include "control_tree.h"
#include "placement.h"
#include "plan_load.h"
#include "planner.h"
#include "text.h"
#include "topology_draw.h"
#include "topology_fuzz.h"

enum { MOST_NODES = 16, MOST_LINKS = 32 };

/* Bits of the first byte. */
enum { METHOD = 3, WEIGHING_SHIFT = 2, LOW = 16, BY_DELAY = 32, HELPED = 64, MANY = 128 };

static void require(bool condition) {
  if (!condition) abort();
}

static void check_text(struct by_text *text) {
  require(!text->failed);
  by_text_fini(text);
}

static void print_and_parse(const struct by_plan *plan) {
  struct by_plan *again = NULL;
  struct by_text text;
  by_text_init(&text);
  by_plan_print(plan, &text);
  require(!text.failed && by_plan_parse("again", by_text_get(&text), text.length, &again) == BANYAN_OK);
  require(again->version == plan->version);
  by_plan_destroy(again);
  by_text_fini(&text);
}

static void draw(const struct by_topology *topology, const struct by_plan *plan) {
  struct by_plan_load load;
  struct by_text text;
  for (uint32_t c = 0; c < plan->n_classes; c++) {
    require(by_plan_load_init(&load, plan, &plan->classes[c], topology) == BANYAN_OK);
    double rate = isfinite(load.rate) ? load.rate : 0;
    for (uint32_t i = 0; i < 2 * topology->n_links; i++) load.link[i / 2][i % 2] *= rate;
    struct by_draw_options options = {.all = true, .load = (const double(*)[2])load.link, .load_name = "plan"};
    by_text_init(&text);
    require(by_topology_draw(topology, &options, &text) == BANYAN_OK);
    require(by_topology_svg(topology, &options, &text) == BANYAN_OK);
    check_text(&text);
    by_plan_load_fini(&load);
  }
}

static void check_times(const struct by_weighed *weighed) {
  for (uint32_t i = 0; i < weighed->n; i++)
    for (uint32_t k = 0; k < BY_WEIGH_SIZES; k++) require(weighed->candidates[i].seconds[k] >= 0);
}

static void check_planned(const struct by_planned *planned, const struct by_topology *topology) {
  const struct by_plan_facts *facts = &planned->plan->facts;
  struct by_text text;
  require(by_plan_validate(planned->plan) == BANYAN_OK);
  if (planned->embedding) require(by_plan_check_switches(planned->plan) == BANYAN_OK);
  require(facts->throughput > 0 && isfinite(facts->bound) && facts->throughput <= facts->bound * (1 + 1e-6));
  print_and_parse(planned->plan);
  by_text_init(&text);
  by_planned_explain(planned, topology, &text);
  check_text(&text);
  check_times(&planned->weighed);
  draw(topology, planned->plan);
}

static uint32_t list_helpers(const struct by_topology *topology, bool switches, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].may_help || (switches && topology->nodes[v].aggregates)) out[n++] = v;
  return n;
}

static uint32_t list_hosts(const struct by_topology *topology, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].kind == BY_NODE_HOST) out[n++] = v;
  return n;
}

static void plan_trees(const struct by_topology *topology, uint8_t how) {
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  uint32_t helpers[MOST_NODES], servers[MOST_NODES];
  options.method = (enum by_planner_method)(how & METHOD);
  options.weighing = (enum by_planner_weighing)((how >> WEIGHING_SHIFT & 3) % 3);
  options.by_delay = how & BY_DELAY;
  if (how & LOW) options.max_height = options.by_delay ? 0.02 : 3;
  if (how & MANY) options.max_trees = 32;
  options.choice.helpers = helpers;
  bool cluster = options.method == BY_PLANNER_CLUSTER;
  if (how & HELPED) options.choice.n_helpers = list_helpers(topology, !cluster, helpers);
  options.servers = servers;
  if (cluster) options.n_servers = list_hosts(topology, servers);
  if (by_planner_run("fuzz", topology, &options, &planned) != BANYAN_OK) return;
  check_planned(&planned, topology);
  by_planned_fini(&planned);
}

static void place_sums(const struct by_topology *topology) {
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  struct by_text text;
  uint32_t workers[MOST_NODES], aggregators[MOST_NODES], server;
  struct by_placement_job job = {.workers = workers, .servers = &server, .n_servers = 1, .aggregators = aggregators};
  for (uint32_t v = 0; v < topology->n_nodes; v++) {
    if (topology->nodes[v].takes_part) workers[job.n_workers++] = v;
    if (topology->nodes[v].may_help && !topology->nodes[v].takes_part) aggregators[job.n_aggregators++] = v;
  }
  if (by_placement_best_server(topology, &job, &options, &server) != BANYAN_OK) return;
  if (by_placement_make(topology, &job, &options, &placement) != BANYAN_OK) return;
  by_text_init(&text);
  require(by_placement_draw(placement, topology, &job, &text) == BANYAN_OK);
  require(by_placement_print(placement, topology, &job, &text) == BANYAN_OK);
  check_text(&text);
  by_placement_destroy(placement);
}

static void plan_control(const struct by_topology *topology, bool by_delay) {
  struct by_control_options options = {.limits.by_delay = by_delay, .seed = 1};
  struct by_controller_trees control;
  struct by_text text;
  if (by_control_make(topology, &options, &control) != BANYAN_OK) return;
  by_text_init(&text);
  require(by_control_draw(&control, &text) == BANYAN_OK);
  by_control_print(&control, &text);
  check_text(&text);
  by_control_fini(&control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  quiet();
  struct by_topology *topology = size ? small_topology(data + 1, size - 1, MOST_NODES, MOST_LINKS) : NULL;
  if (!topology) return 0;
  plan_trees(topology, *data);
  place_sums(topology);
  plan_control(topology, *data & BY_DELAY);
  use_topology(topology);
  return 0;
}
