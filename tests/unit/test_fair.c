/* Fair shares of small nets that can be worked out by hand. */
#include <math.h>

#include "check.h"
#include "fair.h"

static struct by_fair fair;

static void begin(struct by_fair_net *net) {
  assert_ok(by_fair_init(&fair, net));
  for (uint32_t f = 0; f < net->n_flows; f++) by_fair_start(&fair, f);
  by_fair_share(&fair);
}

static void assert_rate(uint32_t flow, double wanted) {
  if (!(fabs(fair.rate[flow] - wanted) <= 1e-9 * wanted))
    fail_msg("%u has %.12g, not %.12g", flow, fair.rate[flow], wanted);
}

static void test_one_resource(void **state) {
  (void)state;
  uint32_t first[] = {0, 1, 2, 3};
  struct by_fair_use uses[] = {{0, 1}, {0, 1}, {0, 1}};
  double capacity[] = {12};
  struct by_fair_net net = {.n_flows = 3, .n_resources = 1, .first = first, .uses = uses, .capacity = capacity};
  begin(&net);
  for (uint32_t f = 0; f < 3; f++) assert_rate(f, 4);
  by_fair_stop(&fair, 1);
  by_fair_share(&fair);
  assert_int_equal(fair.n_changed, 2);
  assert_rate(0, 6);
  assert_rate(2, 6);
  by_fair_start(&fair, 1);
  by_fair_share(&fair);
  assert_rate(1, 4);
  by_fair_fini(&fair);
}

/*  flow 0 over both resources, 1 over the first, 2 over the second  */
static void test_a_long_flow_and_two_short_ones(void **state) {
  (void)state;
  uint32_t first[] = {0, 2, 3, 4};
  struct by_fair_use uses[] = {{0, 1}, {1, 1}, {0, 1}, {1, 1}};
  double capacity[] = {10, 4};
  struct by_fair_net net = {.n_flows = 3, .n_resources = 2, .first = first, .uses = uses, .capacity = capacity};
  begin(&net);
  assert_rate(0, 2);
  assert_rate(1, 8); /* what the long one leaves */
  assert_rate(2, 2);
  by_fair_stop(&fair, 2); /* it is held back by the first resource then, and the short one there has less */
  by_fair_share(&fair);
  assert_rate(0, 4);
  assert_rate(1, 6);
  by_fair_stop(&fair, 1);
  by_fair_share(&fair);
  assert_int_equal(fair.n_changed, 0);
  by_fair_fini(&fair);
}

/* A flow that stands for three, of which each resource carries two. */
static void test_weights(void **state) {
  (void)state;
  uint32_t first[] = {0, 1, 2};
  struct by_fair_use uses[] = {{0, 2}, {0, 1}};
  double capacity[] = {9};
  struct by_fair_net net = {.n_flows = 2, .n_resources = 1, .first = first, .uses = uses, .capacity = capacity};
  begin(&net);
  assert_rate(0, 3);
  assert_rate(1, 3);
  by_fair_fini(&fair);
}

static void test_nothing_in_the_way(void **state) {
  (void)state;
  uint32_t first[] = {0, 0};
  struct by_fair_net net = {.n_flows = 1, .first = first};
  begin(&net);
  assert_true(isinf(fair.rate[0]));
  by_fair_fini(&fair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_resource),
      cmocka_unit_test(test_a_long_flow_and_two_short_ones),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_nothing_in_the_way),
  };
  return cmocka_run_group_tests_name("fair", tests, NULL, NULL);
}
