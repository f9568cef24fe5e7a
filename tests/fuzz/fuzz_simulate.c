/* A byte that selects a plan and a size, and a small topology. The simulator refuses them, or every link carries at
 * most its capacity, the time is finite, and the result can be printed as a table and as JSON. */
#include <math.h>

#include "plan.h"
#include "plan_topology.h"
#include "simulate.h"
#include "text.h"
#include "topology_fuzz.h"

enum { MOST_NODES = 16, MOST_LINKS = 32, MOST_WORK = 2000 };

static void require(bool condition) {
  if (!condition) abort();
}

static void check_simulation(const struct by_simulate_subject *subject, const struct by_simulation *simulation) {
  struct by_text text;
  require(isfinite(simulation->seconds) && simulation->seconds >= 0);
  for (uint32_t i = 0; i < simulation->n_resources; i++) {
    double able = simulation->cast->net.capacity[i] * simulation->seconds;
    require(simulation->carried[i] <= able * (1 + 1e-6) + 1e-6);
  }
  by_text_init(&text);
  by_simulate_add_head(subject, &text);
  by_simulate_add_row(subject, simulation, &text);
  by_simulate_add_links(subject, simulation, &text);
  by_simulate_add_json(subject, simulation, &text);
  require(!text.failed);
  by_text_fini(&text);
}

static void simulate(const struct by_topology *topology, const struct by_plan *plan, uint64_t bytes) {
  struct by_simulate_subject subject = {.topology = topology, .plan = plan, .bound = 1e9, .all = true};
  struct by_simulate_options options = {.max_work = MOST_WORK};
  struct by_simulator simulator;
  struct by_simulation simulation;
  if (by_simulator_init(&simulator, plan, by_plan_class(plan, bytes), topology, 0) != BANYAN_OK) return;
  for (int costly = 0; costly < 2; costly++) {
    options.chunk_cost = costly * 1e-5;
    if (by_simulator_run(&simulator, bytes, &options, &simulation) != BANYAN_OK) continue;
    check_simulation(&subject, &simulation);
    by_simulation_fini(&simulation);
  }
  by_simulator_fini(&simulator);
}

static uint32_t count_ranks(const struct by_topology *topology) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) n += topology->nodes[v].takes_part;
  return n;
}

static enum banyan_status make_plan(const struct by_topology *topology, uint32_t choice, struct by_plan **out) {
  static const char *const names[] = {"ring",  "tree:2",      "star",    "sharded",
                                      "chain", "double-tree", "halving", "exchange"};
  return by_plan_builtin(names[choice % (sizeof names / sizeof *names)], count_ranks(topology), out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint64_t sizes[] = {0, 1, 4099, 1000003};
  struct by_plan *plan;
  quiet();
  struct by_topology *topology = size ? small_topology(data + 1, size - 1, MOST_NODES, MOST_LINKS) : NULL;
  if (!topology) return 0;
  if (make_plan(topology, *data % 8, &plan) == BANYAN_OK) {
    simulate(topology, plan, sizes[*data / 8 % 4]);
    by_plan_destroy(plan);
  }
  use_topology(topology);
  return 0;
}
