#include <string.h>

#include "check.h"
#include "plan.h"

static const struct by_twig *find_twig(const struct by_group *group, uint32_t child) {
  for (uint32_t i = 0; i < group->n_twigs; i++)
    if (group->twigs[i].child == child) return &group->twigs[i];
  return NULL;
}

/* Three hosts with 2, 3 and 2 ranks, not in a row: the ring over them becomes two rings of one rank per host. */
static void test_expand_ring(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 1, 2, 2, 1, 1, 0};
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_builtin("ring", 3, &hosts));
  assert_ok(by_plan_expand(hosts, host_of, 7, &plan));
  by_plan_destroy(hosts);
  assert_ok(by_plan_validate(plan));
  assert_int_equal(plan->n_ranks, 7);
  assert_int_equal(plan->classes[0].n_groups, 2);
  const uint32_t leaders[2][3] = {{0, 1, 2}, {6, 4, 3}};
  for (uint32_t j = 0; j < 2; j++) {
    const struct by_group *group = &plan->classes[0].groups[j];
    assert_int_equal(group->kind, BY_GROUP_ROTATED);
    assert_true(group->share == 0.5);
    assert_int_equal(group->n, 3);
    assert_int_equal(group->up[1], 2);
    assert_int_equal(group->down[1], 0);
    assert_int_equal(group->n_twigs, 4);
    for (uint32_t h = 0; h < 3; h++) assert_int_equal(group->order[h], leaders[j][h]);
    for (uint32_t r = 0; r < 7; r++) {
      const struct by_twig *twig = find_twig(group, r);
      if (r == leaders[j][host_of[r]])
        assert_null(twig);
      else
        assert_int_equal(twig->parent, leaders[j][host_of[r]]);
    }
  }
  by_plan_destroy(plan);
}

static const char with_helper[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"chunk\": 4096, \"vertices\": {\"h\": {\"kind\": \"helper\"}},"
    "\"classes\": [{\"up_to\": 100, \"trees\": [{\"kind\": \"exchange\", \"share\": 1, \"order\": [\"0\", \"2\"],"
    " \"twigs\": {\"1\": \"2\"}}]},"
    "{\"trees\": [{\"share\": 1, \"rate\": 4e9, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\"},"
    " \"twigs\": {\"2\": \"h\"}}]}]}";

/* Hosts that are twigs: all their ranks hang on the leader they hung on, or on the helper. */
static void test_expand_twigs_and_helpers(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 0, 1, 1, 2, 2};
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_parse("p", with_helper, strlen(with_helper), &hosts));
  assert_ok(by_plan_expand(hosts, host_of, 6, &plan));
  by_plan_destroy(hosts);
  assert_int_equal(plan->n_classes, 2);
  assert_int_equal(plan->chunk, 4096);
  assert_int_equal(plan->classes[0].up_to, 100);
  assert_string_equal(plan->vertices[6].name, "h");
  const struct by_group *exchange = &plan->classes[0].groups[1];
  assert_int_equal(exchange->order[0], 1);
  assert_int_equal(exchange->order[1], 5);
  const uint32_t wanted[] = {1, 0, 5, 5, 5, 0};
  for (uint32_t r = 0; r < 6; r++)
    if (r != 1 && r != 5) assert_int_equal(find_twig(exchange, r)->parent, wanted[r]);
  const struct by_group *tree = &plan->classes[1].groups[0];
  assert_true(tree->rate == 2e9);
  assert_int_equal(tree->order[tree->root], 6);
  assert_int_equal(find_twig(tree, 1)->parent, 0);
  assert_int_equal(find_twig(tree, 3)->parent, 2);
  assert_int_equal(find_twig(tree, 4)->parent, 6);
  assert_int_equal(find_twig(tree, 5)->parent, 6);
  by_plan_destroy(plan);
}

static const char with_servers[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"vertices\": {\"h/0\": {\"kind\": \"server\"}, "
    "\"h/10\": {\"kind\": \"server\"}, \"k\": {\"kind\": \"server\"}, \"x\": {\"kind\": \"switch\"}}, \"trees\": ["
    "{\"share\": 0.5, \"root\": \"h/0\", \"up\": {\"x\": \"h/0\", \"0\": \"x\", \"1\": \"x\", \"2\": \"h/0\"}, "
    "\"forwards\": [\"x\"], \"ports\": {\"x\": {\"h/0\": \"e0\", \"0\": \"e1\", \"1\": \"e2\"}}},"
    "{\"share\": 0.25, \"root\": \"h/10\", \"up\": {\"0\": \"h/10\", \"1\": \"h/10\", \"2\": \"h/10\"}},"
    "{\"share\": 0.25, \"root\": \"k\", \"up\": {\"0\": \"k\", \"1\": \"k\", \"2\": \"k\"}}]}";

/* Each tree of each leader has a server of its own; switches serve all, by the same interfaces. */
static void test_expand_servers(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 0, 1, 1, 2, 2, 2};
  const char *servers[] = {"h/0.0", "h/0.1", "h/10.0", "h/10.1", "k/0", "k/1"};
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_parse("p", with_servers, strlen(with_servers), &hosts));
  assert_ok(by_plan_check_switches(hosts));
  assert_ok(by_plan_expand(hosts, host_of, 7, &plan));
  by_plan_destroy(hosts);
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->n_vertices, 7 + 6 + 1);
  for (uint32_t g = 0; g < 6; g++) {
    const struct by_group *group = &plan->classes[0].groups[g];
    assert_string_equal(plan->vertices[group->order[group->root]].name, servers[g]);
    if (g >= 2) assert_true(group->n_forwards == 0 && group->n_ports == 0);
  }
  const struct by_group *second = &plan->classes[0].groups[1]; /* led by ranks 1, 3 and 5 */
  uint32_t x = second->forwards[0];
  assert_string_equal(plan->vertices[x].name, "x");
  assert_string_equal(by_group_interface(second, x, 1), "e1");
  assert_string_equal(by_group_interface(second, x, 3), "e2");
  assert_string_equal(by_group_interface(second, x, second->order[second->root]), "e0");
  assert_null(by_group_interface(second, x, 0));
  by_plan_destroy(plan);
}

static void test_expand_refuses(void **state) {
  (void)state;
  struct by_plan *hosts, *plan;
  assert_ok(by_plan_builtin("ring", 3, &hosts));
  assert_status(by_plan_expand(hosts, (uint32_t[]){0, 1, 3}, 3, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_expand(hosts, (uint32_t[]){0, 1, 1}, 3, &plan), BANYAN_ERR_ARGUMENT);
  assert_status(by_plan_expand(hosts, (uint32_t[]){0}, 0, &plan), BANYAN_ERR_ARGUMENT);
  by_plan_destroy(hosts);
}

/* With one rank per host a plan stays what it is. */
static void test_expand_to_itself(void **state) {
  (void)state;
  const uint32_t host_of[] = {0, 1, 2, 3, 4};
  const char *names[] = {"ring", "doubling", "double-tree", "exchange:2", "star:3"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *hosts, *plan;
    assert_ok(by_plan_builtin(names[i], 5, &hosts));
    assert_ok(by_plan_expand(hosts, host_of, 5, &plan));
    assert_int_equal(plan->version, hosts->version);
    by_plan_destroy(hosts);
    by_plan_destroy(plan);
  }
}

static void test_default_on_one_host(void **state) {
  (void)state;
  const uint32_t same[] = {9, 9, 9, 9};
  for (uint32_t n = 1; n <= 65; n++) {
    struct by_plan *plan;
    assert_ok(by_plan_default(n, NULL, false, &plan));
    assert_ok(by_plan_validate(plan));
    assert_int_equal(by_plan_class(plan, 0)->groups[0].kind, BY_GROUP_EXCHANGE);
    for (uint32_t i = 0; i < plan->n_classes; i++) assert_int_equal(plan->classes[i].n_groups, 1);
    if (n == 4) {
      struct by_plan *again;
      assert_ok(by_plan_default(n, same, false, &again));
      assert_int_equal(again->version, plan->version);
      by_plan_destroy(again);
    }
    by_plan_destroy(plan);
  }
  struct by_plan *plan;
  assert_status(by_plan_default(0, NULL, false, &plan), BANYAN_ERR_ARGUMENT);
}

/* Large buffers: every rank leads a slice, and nobody sends to another host but the leaders. */
static void test_default_on_several_hosts(void **state) {
  (void)state;
  const uint32_t host_of[] = {70, 5, 70, 5, 70, 5, 1000000, 1000000, 1000000};
  struct by_plan *plan;
  assert_ok(by_plan_default(9, host_of, false, &plan));
  assert_ok(by_plan_validate(plan));
  const struct by_class *small = by_plan_class(plan, 8), *large = by_plan_class(plan, 1 << 30);
  assert_int_equal(small->n_groups, 1);
  assert_int_equal(large->n_groups, 3);
  bool leads[9] = {false};
  for (uint32_t g = 0; g < 3; g++) {
    const struct by_group *group = &large->groups[g];
    assert_int_equal(group->n, 3);
    for (uint32_t i = 0; i < 3; i++) leads[group->order[i]] = true;
    for (uint32_t i = 0; i < group->n_twigs; i++)
      assert_int_equal(host_of[group->twigs[i].child], host_of[group->twigs[i].parent]);
  }
  for (uint32_t r = 0; r < 9; r++) assert_true(leads[r]);
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_expand_ring),
      cmocka_unit_test(test_expand_twigs_and_helpers),
      cmocka_unit_test(test_expand_servers),
      cmocka_unit_test(test_expand_refuses),
      cmocka_unit_test(test_expand_to_itself),
      cmocka_unit_test(test_default_on_one_host),
      cmocka_unit_test(test_default_on_several_hosts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
