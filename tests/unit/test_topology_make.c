#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "topology_make.h"

static void test_what_is_added(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_link *link;
  uint32_t a, b, s;
  char name[] = "a";
  assert_ok(by_topology_builder_init(&builder, "pair"));
  assert_int_equal(by_topology_builder_find(&builder, "a"), UINT32_MAX);
  assert_ok(by_topology_builder_add_host(&builder, name, &a));
  name[0] = 'b';
  assert_ok(by_topology_builder_add_host(&builder, name, &b));
  assert_ok(by_topology_builder_add_switch(&builder, "s", &s));
  assert_ok(by_topology_builder_keep(&builder, "rack 1", &by_topology_builder_node(&builder, a)->group));
  by_topology_builder_node(&builder, b)->out.all = 5e8;
  assert_ok(by_topology_builder_add_link(&builder, a, s, 1e9, 0.001, NULL));
  assert_ok(by_topology_builder_add_link(&builder, s, b, 1e9, 0, &link));
  link->capacity[BY_BA].used = 1e8;
  assert_ok(by_topology_builder_keep(&builder, "eth0", &link->port[1]));
  assert_int_equal(by_topology_builder_find(&builder, "s"), s);
  assert_ok(by_topology_builder_finish(&builder, &topology));
  by_topology_builder_fini(&builder);
  assert_string_equal(topology->name, "pair");
  assert_int_equal(topology->n_nodes, 3);
  assert_int_equal(topology->n_links, 2);
  assert_string_equal(topology->nodes[0].name, "a");
  assert_string_equal(topology->nodes[0].group, "rack 1");
  assert_true(topology->nodes[0].takes_part && !topology->nodes[0].may_help && isnan(topology->nodes[0].x));
  assert_true(isinf(topology->nodes[0].out.all) && topology->nodes[1].out.all == 5e8);
  assert_int_equal(topology->nodes[2].kind, BY_NODE_SWITCH);
  assert_true(!topology->nodes[2].takes_part && !topology->nodes[2].aggregates);
  assert_true(topology->links[0].delay == 0.001 && topology->links[0].capacity[BY_BA].all == 1e9);
  assert_true(by_residual(topology->links[1].capacity[BY_BA]) == 9e8);
  assert_true(by_residual(topology->links[1].capacity[BY_AB]) == 1e9);
  assert_string_equal(topology->links[1].port[0], "");
  assert_string_equal(topology->links[1].port[1], "eth0");
  assert_int_equal(by_topology_find(topology, "b"), 1);
  assert_int_equal(by_topology_find(topology, "c"), UINT32_MAX);
  by_topology_destroy(topology);
}

static void test_growth(void **state) {
  (void)state;
  enum { NODES = 3000 };
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, NULL));
  for (uint32_t i = 0; i < NODES; i++) {
    uint32_t at;
    snprintf(name, sizeof name, "n%u", i);
    assert_ok(by_topology_builder_add_host(&builder, name, &at));
    assert_int_equal(at, i);
    if (i) assert_ok(by_topology_builder_add_link(&builder, i - 1, i, i, 0, NULL));
  }
  for (uint32_t i = 0; i < NODES; i++) {
    snprintf(name, sizeof name, "n%u", i);
    assert_int_equal(by_topology_builder_find(&builder, name), i);
  }
  assert_int_equal(by_topology_builder_find(&builder, "n3000"), UINT32_MAX);
  assert_ok(by_topology_builder_finish(&builder, &topology));
  assert_string_equal(topology->name, "");
  assert_string_equal(topology->nodes[NODES - 1].name, "n2999");
  assert_true(topology->links[NODES - 2].capacity[BY_AB].all == NODES - 1);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_ok(by_topology_builder_add_host(&builder, "a", NULL));
  assert_status(by_topology_builder_add_switch(&builder, "a", NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "two nodes are named \"a\"");
  by_topology_builder_fini(&builder);
  assert_ok(by_topology_builder_init(&builder, ""));
  assert_status(by_topology_builder_finish(&builder, &topology), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "there are no nodes");
  by_topology_builder_fini(&builder);
}

static void test_limits(void **state) {
  (void)state;
  struct by_topology_builder builder;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, ""));
  for (uint32_t i = 0; i < BY_TOPOLOGY_MOST_NODES; i++) {
    snprintf(name, sizeof name, "%u", i);
    assert_ok(by_topology_builder_add_host(&builder, name, NULL));
  }
  assert_status(by_topology_builder_add_host(&builder, "one more", NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "more than 65536 nodes");
  for (uint32_t i = 0; i < BY_TOPOLOGY_MOST_LINKS; i++)
    assert_ok(by_topology_builder_add_link(&builder, 0, 1, 1, 0, NULL));
  assert_status(by_topology_builder_add_link(&builder, 0, 1, 1, 0, NULL), BANYAN_ERR_TOPOLOGY);
  assert_string_equal(banyan_error_text(), "more than 4194304 links");
  by_topology_builder_fini(&builder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_added),
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
