/* Costs are found again from times that were predicted with them. */
#include <math.h>

#include "check.h"
#include "cost_fit.h"
#include "topology_named.h"

enum { PLANS = 4, SIZES = 6 };
static const char *const plans[PLANS] = {"star", "tree:2", "ring", "exchange"};
static const double sizes[SIZES] = {256, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20};

static void make_sample(struct by_cost_sample *sample, const char *name, const struct by_topology *topology,
                        const struct by_cost_rates *rates) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin(name, 6, &plan));
  assert_ok(by_cost_init(&sample->cost, plan, plan->classes, topology, rates));
  by_plan_destroy(plan);
  sample->n = SIZES;
  sample->bytes = test_calloc(2 * SIZES, sizeof *sample->bytes);
  sample->seconds = sample->bytes + SIZES;
  for (int i = 0; i < SIZES; i++) {
    sample->bytes[i] = sizes[i];
    sample->seconds[i] = by_cost_time(&sample->cost, sizes[i]);
  }
}

static void find_again(double cores) {
  struct by_topology *topology;
  struct by_cost_sample samples[PLANS];
  struct by_cost_rates rates = by_cost_defaults(), found = rates;
  double error;
  rates.message = 17e-6;
  rates.hop = 9e-6;
  rates.byte = 0.6e-9;
  rates.cores = found.cores = cores;
  assert_ok(by_topology_named("star:6,nic=1g", &topology));
  for (int i = 0; i < PLANS; i++) make_sample(&samples[i], plans[i], topology, &rates);
  assert_ok(by_cost_fit(samples, PLANS, &found, &error));
  if (!(error < 0.03)) fail_msg("times differ by %g", error);
  /* hops and messages are much alike */
  if (!(fabs(log(found.message / rates.message)) < 0.35)) fail_msg("a message costs %g s", found.message);
  for (int i = 0; i < PLANS; i++) {
    by_cost_fini(&samples[i].cost);
    test_free(samples[i].bytes);
  }
  by_topology_destroy(topology);
}

static void test_own_cores(void **state) {
  (void)state;
  find_again(INFINITY);
}

static void test_two_cores(void **state) {
  (void)state;
  find_again(2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_cores), cmocka_unit_test(test_two_cores)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
