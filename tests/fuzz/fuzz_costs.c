/* Arbitrary bytes as the file of a machine's costs. Costs that can be read predict a time; of a file that is refused
 * none are taken. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "plan_make.h"
#include "topology_formats.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void predict(const struct by_cost_rates *rates) {
  static struct by_topology *topology;
  static struct by_plan *plan;
  struct by_cost cost;
  if (!topology) assert(by_topology_named("star:4,nic=1g", &topology) == BANYAN_OK);
  if (!plan) assert(by_plan_builtin("halving", 4, &plan) == BANYAN_OK);
  assert(by_cost_init(&cost, plan, plan->classes, topology, rates) == BANYAN_OK);
  assert(by_cost_time(&cost, 1 << 20) > 0);
  by_cost_fini(&cost);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct by_cost_machine machine = {.name = "machine", .processors = 2};
  const struct by_cost_rates before = by_cost_defaults();
  struct by_cost_rates rates = before;
  if (by_machine_costs_parse("costs.json", (const char *)data, size, 1e9, &machine, &rates) == BANYAN_OK)
    predict(&rates);
  else
    assert(memcmp(&rates, &before, sizeof rates) == 0);
  return 0;
}
