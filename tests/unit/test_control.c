/* Rings through real shapes of networks, which way is taken, and what is printed. */
#include "control_plan.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_rack_after_rack),
      cmocka_unit_test(test_rank_between_switches),
      cmocka_unit_test(test_choice),
      cmocka_unit_test(test_printed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
