/* Rings through real shapes of networks, which way is taken, and what is printed. */
#include "control_plan.h"
#include "control_ways.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "text.h"
#include "topology_named.h"

struct opened {
  struct by_topology *topology;
  struct by_control control;
};

static struct opened make(const char *text) {
  struct opened it;
  struct by_control_options options = {.seed = 1};
  assert_ok(by_topology_named(text, &it.topology));
  assert_ok(by_control_make(it.topology, &options, &it.control));
  return it;
}

static void shut(struct opened *it) {
  by_control_fini(&it->control);
  by_topology_destroy(it->topology);
}

static void check_answer(const char *text, enum by_hamilton_answer answer, enum by_hamilton_reason reason) {
  struct opened it = make(text);
  if (it.control.ring.answer != answer || it.control.ring.reason != reason)
    fail_msg("%s: answer %d, reason %d", text, it.control.ring.answer, it.control.ring.reason);
  assert_true(isinf(it.control.ring_time) == (answer != BY_HAMILTON_YES));
  shut(&it);
}

static void test_answers(void **state) {
  (void)state;
  check_answer("star:2", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("star:40", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("torus:4x4", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("torus:12x13", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("ring:100", BY_HAMILTON_YES, BY_HAMILTON_FOUND);
  check_answer("line:5", BY_HAMILTON_NO, BY_HAMILTON_LONELY);
  check_answer("line:50", BY_HAMILTON_NO, BY_HAMILTON_LONELY);
}

static uint32_t count_changes_of_rack(const struct by_control *control) {
  uint32_t n = control->near.n_ranks, changes = 0;
  for (uint32_t i = 0; i < n; i++)
    changes += control->near.class_of[control->order[i]] != control->near.class_of[control->order[(i + 1) % n]];
  return changes;
}

static void test_rack_after_rack(void **state) {
  (void)state;
  struct opened it = make("clos:racks=4,hosts=4");
  assert_int_equal(count_changes_of_rack(&it.control), 4);
  shut(&it);
  it = make("clos:racks=9,hosts=5");
  assert_int_equal(count_changes_of_rack(&it.control), 9);
  shut(&it);
}

/* Switches between two sites that only a rank joins: it is on every ring twice, so there is none. */
static void test_rank_between_switches(void **state) {
  (void)state;
  check_answer("{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", \"d\", \"e\","
               "{\"name\": \"s\", \"kind\": \"switch\"}, {\"name\": \"t\", \"kind\": \"switch\"}], \"links\": ["
               "{\"a\": \"a\", \"b\": \"s\", \"capacity\": 1}, {\"a\": \"b\", \"b\": \"s\", \"capacity\": 1},"
               "{\"a\": \"c\", \"b\": \"s\", \"capacity\": 1}, {\"a\": \"c\", \"b\": \"t\", \"capacity\": 1},"
               "{\"a\": \"d\", \"b\": \"t\", \"capacity\": 1}, {\"a\": \"e\", \"b\": \"t\", \"capacity\": 1}]}",
               BY_HAMILTON_NO, BY_HAMILTON_CUT);
}

static void test_choice(void **state) {
  (void)state;
  struct opened it = make("star:2");
  assert_true(it.control.use_ring);
  assert_true(it.control.ring_time <= it.control.tree_time);
  shut(&it);
  it = make("star:16");
  assert_false(it.control.use_ring);
  shut(&it);
}

static void test_printed(void **state) {
  (void)state;
  struct opened it = make("star:3");
  struct by_text text;
  by_text_init(&text);
  by_control_print(&it.control, &text);
  assert_non_null(strstr(by_text_get(&text), "\"parent\": {\"h1\": \"h0\", \"h2\": \"h0\"}"));
  assert_non_null(strstr(by_text_get(&text), "\"order\": [\"h0\", \"h"));
  assert_non_null(strstr(by_text_get(&text), "\"relaxed\": []"));
  by_text_fini(&text);
  by_text_init(&text);
  assert_ok(by_control_draw(&it.control, &text));
  assert_non_null(strstr(by_text_get(&text), "    h0 ─┬─ h1\n        └─ h2\n"));
  by_text_fini(&text);
  shut(&it);
}

/* Upward all come to one root; downward the root's word comes to all. */
static void check_ways(const char *text, uint32_t hosts) {
  enum { HOSTS = 16 };
  struct by_topology *topology;
  uint32_t nodes[HOSTS], up[HOSTS], down[HOSTS], n = 0, root = 0;
  assert_ok(by_topology_named(text, &topology));
  for (uint32_t v = 0; v < topology->n_nodes && n < HOSTS; v++)
    if (topology->nodes[v].takes_part) nodes[n++] = v;
  assert_int_equal(n, hosts);
  assert_ok(by_control_ways_make(topology, nodes, n, up, down));
  while (up[root] != root) root = up[root];
  assert_int_equal(down[root], root);
  for (uint32_t r = 0; r < n; r++) {
    uint32_t above = r, told_by = r;
    for (uint32_t i = 0; i < n; i++) above = up[above], told_by = down[told_by];
    assert_true(above == root && told_by == root);
  }
  by_topology_destroy(topology);
}

static void test_ways(void **state) {
  (void)state;
  check_ways("clos:racks=4,hosts=4", 16);
  check_ways("star:16", 16);
  check_ways("star:2", 2); /* a ring */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_rack_after_rack),
      cmocka_unit_test(test_rank_between_switches),
      cmocka_unit_test(test_choice),
      cmocka_unit_test(test_printed),
      cmocka_unit_test(test_ways),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
