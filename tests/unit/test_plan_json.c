#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan.h"
#include "text.h"

#define HEAD "{\"format\": \"banyan-plan 1\", "

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan = NULL;
  assert_ok(by_plan_parse("p.json", text, strlen(text), &plan));
  return plan;
}

/* Printed and read again, it is the same plan, and prints the same. */
static void assert_round_trip(const struct by_plan *plan) {
  struct by_text first, second;
  by_text_init(&first);
  by_text_init(&second);
  by_plan_print(plan, &first);
  assert_null(strchr(by_text_get(&first), '\n'));
  struct by_plan *again = parsed(by_text_get(&first));
  assert_int_equal(again->version, plan->version);
  by_plan_print(again, &second);
  assert_string_equal(by_text_get(&first), by_text_get(&second));
  by_plan_destroy(again);
  by_text_fini(&first);
  by_text_fini(&second);
}

static void test_everything(void **state) {
  (void)state;
  struct by_plan *plan =
      parsed(HEAD "\"name\": \"two sites\", \"chunk\": \"256K\", \"throughput\": \"5g\", \"ratio\": 0.9,"
                  "\"vertices\": {\"sw\": {\"kind\": \"switch\"}, \"b\": {\"kind\": \"rank\", \"rank\": 1},"
                  " \"a\": {\"kind\": \"rank\", \"rank\": 0}, \"h\": {\"kind\": \"helper\"},"
                  " \"c \\\"\\u00e9\\\\\": {\"kind\": \"rank\", \"rank\": 2}, \"s\": {\"kind\": \"server\"}},"
                  "\"classes\": [{\"up_to\": \"8K\", \"trees\": [{\"kind\": \"exchange\", \"share\": 1,"
                  " \"order\": [\"b\", \"a\"], \"twigs\": {\"c \\\"\\u00e9\\\\\": \"b\"}}]},"
                  "{\"trees\": [{\"share\": 0.25, \"rate\": 1e9, \"height\": 2, \"root\": \"sw\","
                  " \"up\": {\"a\": \"h\", \"h\": \"sw\", \"b\": \"sw\", \"c \\\"\\u00e9\\\\\": \"sw\"}},"
                  "{\"kind\": \"rotated\", \"share\": 0.75, \"root\": \"a\","
                  " \"up\": {\"b\": \"a\", \"c \\\"\\u00e9\\\\\": \"b\"},"
                  " \"down\": {\"b\": \"c \\\"\\u00e9\\\\\", \"c \\\"\\u00e9\\\\\": \"a\"}}]}]}");
  assert_string_equal(plan->name, "two sites");
  assert_int_equal(plan->chunk, 256 << 10);
  assert_true(plan->facts.throughput == 5e9 && plan->facts.ratio == 0.9);
  assert_int_equal(plan->n_ranks, 3);
  const char *names[] = {"a", "b", "c \"\xc3\xa9\\", "h", "s", "sw"}; /* ranks in order, then the others by name */
  assert_int_equal(plan->n_vertices, 6);
  for (uint32_t i = 0; i < 6; i++) assert_string_equal(plan->vertices[i].name, names[i]);
  assert_int_equal(plan->vertices[3].kind, BY_VERTEX_HELPER);
  assert_int_equal(plan->vertices[4].kind, BY_VERTEX_SERVER);
  assert_int_equal(plan->vertices[5].kind, BY_VERTEX_SWITCH);
  assert_int_equal(plan->n_classes, 2);
  assert_ptr_equal(by_plan_class(plan, 8192), &plan->classes[0]);
  assert_ptr_equal(by_plan_class(plan, 8193), &plan->classes[1]);
  assert_ptr_equal(by_plan_class(plan, UINT64_MAX), &plan->classes[1]);
  const struct by_group *exchange = &plan->classes[0].groups[0], *tree = &plan->classes[1].groups[0];
  assert_int_equal(exchange->order[0], 1);
  assert_int_equal(exchange->n_radix, 1);
  assert_int_equal(exchange->twigs[0].child, 2);
  assert_int_equal(exchange->twigs[0].parent, 1);
  assert_int_equal(tree->n, 5);
  assert_int_equal(tree->order[tree->root], 5);
  assert_int_equal(tree->order[tree->up[0]], 3);
  assert_ptr_equal(tree->up, tree->down);
  assert_true(tree->rate == 1e9);
  const struct by_group *rotated = &plan->classes[1].groups[1];
  assert_int_equal(rotated->up[2], 1);
  assert_int_equal(rotated->down[1], 2);
  assert_round_trip(plan);
  by_plan_destroy(plan);
}

static void test_ranks_without_names(void **state) {
  (void)state;
  struct by_plan *plan = parsed(HEAD "\"ranks\": 3, \"vertices\": {\"x\": {\"kind\": \"helper\"}}, "
                                     "\"trees\": [{\"share\": 1, \"root\": \"x\", \"up\": "
                                     "{\"2\": \"x\", \"0\": \"x\", \"1\": \"x\"}}]}");
  assert_int_equal(plan->n_vertices, 4);
  assert_string_equal(plan->vertices[2].name, "2");
  assert_int_equal(plan->classes[0].groups[0].root, 3);
  assert_round_trip(plan);
  by_plan_destroy(plan);
}

#define SWITCHES                                                                                                       \
  "\"ranks\": 2, \"vertices\": {\"s\": {\"kind\": \"server\"}, \"x\": {\"kind\": \"switch\"}, \"y\": {\"kind\": "      \
  "\"switch\"}}, \"trees\": [{\"share\": 1, \"root\": \"s\", \"up\": {\"x\": \"s\", \"y\": \"x\", \"0\": \"y\", "      \
  "\"1\": \"x\"}"
#define SWITCHED(more) HEAD SWITCHES more "}]}"

static void test_ports(void **state) {
  (void)state;
  struct by_plan *without = parsed(SWITCHED(""));
  struct by_plan *plan = parsed(SWITCHED(", \"forwards\": [\"y\"], \"ports\": {\"y\": {\"0\": \"eth\\u00e9\"}, "
                                         "\"x\": {\"y\": \"eth3\", \"s\": \"eth0\", \"1\": \"eth3\"}}"));
  const struct by_group *group = &plan->classes[0].groups[0];
  assert_int_equal(group->n_ports, 4);
  assert_string_equal(by_group_interface(group, 3, 4), "eth3");
  assert_string_equal(by_group_interface(group, 3, 2), "eth0");
  assert_string_equal(by_group_interface(group, 4, 0), "eth\xc3\xa9");
  assert_null(by_group_interface(group, 4, 3));
  assert_true(by_group_adds(group, 3) && !by_group_adds(group, 4));
  assert_true(by_group_adds(&without->classes[0].groups[0], 4));
  assert_int_not_equal(plan->version, without->version);
  assert_round_trip(plan);
  struct by_plan *same = parsed(SWITCHED(", \"down\": {\"x\": \"s\", \"y\": \"x\", \"0\": \"y\", \"1\": \"x\"}"));
  assert_int_equal(same->version, without->version);
  assert_ok(by_plan_check_switches(same)); /* the way down is the way up, though written down */
  by_plan_destroy(same);
  by_plan_destroy(without);
  by_plan_destroy(plan);
}

/* The order of members in a JSON map means nothing. */
static void test_order_of_members(void **state) {
  (void)state;
  struct by_plan *one = parsed(HEAD "\"ranks\": 4, \"trees\": [{\"share\": 1, \"root\": \"3\", \"up\": "
                                    "{\"0\": \"1\", \"1\": \"3\", \"2\": \"3\"}}]}");
  struct by_plan *two = parsed("{\"trees\": [{\"up\": {\"2\": \"3\", \"1\": \"3\", \"0\": \"1\"}, \"root\": \"3\","
                               "\"share\": 1}], \"ranks\": 4, \"format\": \"banyan-plan 1\"}");
  assert_int_equal(one->version, two->version);
  by_plan_destroy(one);
  by_plan_destroy(two);
}

/* The trees of the last class may stand by themselves, as they do where there are no classes. */
static void test_trees_behind_classes(void **state) {
  (void)state;
#define ONE_TREE "\"trees\": [{\"share\": 1, \"root\": \"0\", \"up\": {\"1\": \"0\"}}]"
#define SMALL "{\"up_to\": 100, \"trees\": [{\"kind\": \"exchange\", \"share\": 1}]}"
  struct by_plan *within = parsed(HEAD "\"ranks\": 2, \"classes\": [" SMALL ", {" ONE_TREE "}]}");
  struct by_plan *behind = parsed(HEAD "\"ranks\": 2, \"classes\": [" SMALL "], " ONE_TREE "}");
  assert_int_equal(behind->n_classes, 2);
  assert_int_equal(behind->classes[0].up_to, 100);
  assert_int_equal(behind->classes[1].groups[0].kind, BY_GROUP_TREE);
  assert_int_equal(within->version, behind->version);
  assert_round_trip(behind);
  by_plan_destroy(within);
  by_plan_destroy(behind);
}

/* An order that is written down decides in which order children are added, so it is part of the plan. */
static void test_order_of_a_tree(void **state) {
  (void)state;
  struct by_plan *usual = parsed(HEAD "\"ranks\": 3, \"trees\": [{\"share\": 1, \"root\": \"0\", \"up\": "
                                      "{\"1\": \"0\", \"2\": \"0\"}}]}");
  struct by_plan *other = parsed(HEAD "\"ranks\": 3, \"trees\": [{\"share\": 1, \"order\": [\"0\", \"2\", \"1\"], "
                                      "\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"0\"}}]}");
  assert_int_not_equal(usual->version, other->version);
  assert_round_trip(other);
  by_plan_destroy(usual);
  by_plan_destroy(other);
}

static void test_shares(void **state) {
  (void)state;
  struct by_plan *plan = parsed(HEAD "\"ranks\": 1, \"trees\": [{\"share\": 0.333333, \"root\": \"0\", \"up\": {}},"
                                     "{\"share\": 0.333333, \"root\": \"0\", \"up\": {}},"
                                     "{\"share\": 0.333333, \"root\": \"0\", \"up\": {}}]}");
  assert_true(plan->classes[0].groups[0].share == 1.0 / 3);
  assert_round_trip(plan);
  by_plan_destroy(plan);
}

#define TREE(x) HEAD "\"ranks\": 3, \"trees\": [{\"share\": 1, " x "}]}"
#define UP "\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"1\"}"

static void test_errors(void **state) {
  (void)state;
  struct {
    const char *text, *error;
    enum banyan_status status; /* 0: BANYAN_ERR_PARSE */
  } cases[] = {
      {"", "p.json:1:0: ", 0},
      {"{\n  \"format\": 1,,", "p.json:2:15: ", 0},
      {"{\"format\": \"a\",\n \"format\": \"a\"}", "duplicate object key", 0},
      {"[]", "p.json: must be an object, is an array", 0},
      {"{}", "p.json: the field \"format\" is missing", 0},
      {"{\"format\": \"banyan-plan 2\"}", "p.json: format: is \"banyan-plan 2\"", 0},
      {HEAD "\"rank\": 3}", "unknown field \"rank\"; did you mean \"ranks\"?", 0},
      {HEAD "\"zzzzzzz\": 3}", "unknown field \"zzzzzzz\"; there are format, name", 0},
      {HEAD "\"trees\": []}", "p.json: the field \"ranks\" is missing", 0},
      {HEAD "\"ranks\": 0, \"trees\": []}", "p.json: ranks: is 0, must be 1 to 65536", 0},
      {HEAD "\"ranks\": 70000, \"trees\": []}", "p.json: ranks: is 70000", 0},
      {HEAD "\"ranks\": 1.5, \"trees\": []}", "p.json: ranks: must be a whole number, is a number", 0},
      {HEAD "\"ranks\": 1}", "p.json: the field \"trees\" is missing", 0},
      {HEAD "\"ranks\": 1, \"trees\": []}", "p.json: trees: has 0 elements", 0},
      {HEAD "\"ranks\": 1, \"trees\": [7]}", "p.json: trees[0]: must be an object, is a whole number", 0},
      {HEAD "\"ranks\": 1, \"trees\": [], \"classes\": []}", "p.json: classes: has 0 elements", 0},
      {HEAD "\"ranks\": 1, \"trees\": [], \"classes\": [{\"trees\": []}]}", "classes[0]: the field \"up_to\"", 0},
      {HEAD "\"ranks\": 1, \"chunk\": \"2 parsecs\", \"trees\": []}", "p.json: chunk: \"2 parsecs\" is not", 0},
      {HEAD "\"ranks\": 1, \"chunk\": \"2G\", \"trees\": []}", "p.json: chunk: is 2G, most is", 0},
      {HEAD "\"vertices\": 4}", "p.json: vertices: must be an object", 0},
      {HEAD "\"vertices\": {\"a\": {}}}", "p.json: vertices[\"a\"]: the field \"kind\" is missing", 0},
      {HEAD "\"vertices\": {\"a\": {\"kind\": \"rnk\"}}}", "p.json: vertices[\"a\"].kind: is \"rnk\"", 0},
      {HEAD "\"vertices\": {\"a\": {\"kind\": \"helper\", \"rank\": 0}}}", "vertices[\"a\"].rank: only", 0},
      {HEAD "\"vertices\": {\"a\": {\"kind\": \"rank\", \"rank\": 1}}}", "vertices[\"a\"]: is rank 1, but", 0},
      {HEAD "\"vertices\": {\"a\": {\"kind\": \"rank\", \"rank\": 0}, \"b\": {\"kind\": \"rank\", \"rank\": 0}}}",
       "p.json: vertices[\"b\"]: is rank 0, and so is \"a\"", 0},
      {HEAD "\"ranks\": 2, \"vertices\": {\"1\": {\"kind\": \"helper\"}}}", "\"1\" is also the name of the rank", 0},
      {HEAD "\"ranks\": 65536, \"vertices\": {\"h\": {\"kind\": \"helper\"}}}", "more than 65536 in all", 0},
      {TREE("\"root\": 0, \"up\": {}"), "p.json: trees[0].root: must be a string: write \"0\"", 0},
      {TREE("\"up\": {}"), "p.json: trees[0]: the field \"root\" is missing", 0},
      {TREE("\"root\": \"0\""), "p.json: trees[0]: the field \"up\" is missing", 0},
      {TREE("\"root\": \"9\", \"up\": {}"), "p.json: trees[0].root: there is no vertex \"9\"", 0},
      {TREE("\"root\": \"0\", \"up\": []"), "p.json: trees[0].up: must be an object", 0},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": 1}"), "trees[0].up[\"2\"]: must be a string", 0},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\", \"x\": \"1\"}"), "trees[0].up[\"x\"]: there is no vertex", 0},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"2\"}"), "trees[0].up[\"1\"]: vertex \"2\" is not in this tree", 0},
      {TREE("\"root\": \"0\", \"up\": {\"0\": \"1\", \"1\": \"0\", \"2\": \"1\"}"), "up[\"0\"]: the root has no", 0},
      {TREE(UP ", \"down\": {\"1\": \"0\"}"), "p.json: trees[0].down: vertex \"2\" has no parent", 0},
      {TREE(UP ", \"order\": [\"0\", \"1\", \"1\"]"), "trees[0].order[2]: vertex \"1\" stands in it twice", 0},
      {TREE(UP ", \"radix\": [3]"), "p.json: trees[0]: unknown field \"radix\"", 0},
      {TREE(UP ", \"kind\": \"ring\""), "p.json: trees[0].kind: is \"ring\", must be", 0},
      {TREE(UP ", \"rate\": -1"), "p.json: trees[0].rate: is -1", 0},
      {TREE(UP ", \"twigs\": {\"2\": \"7\"}"), "p.json: trees[0].twigs[\"2\"]: there is no vertex \"7\"", 0},
      {TREE("\"kind\": \"exchange\", \"up\": {}"), "p.json: trees[0]: unknown field \"up\"", 0},
      {TREE("\"kind\": \"exchange\", \"radix\": [0]"), "p.json: trees[0].radix[0]: is 0", 0},
      {TREE("\"kind\": \"exchange\", \"order\": []"), "p.json: trees[0].order: has 0 elements", 0},
      {HEAD "\"ranks\": 1, \"classes\": [{\"up_to\": 1, \"trees\": []}]}", "classes[0].up_to: the last class", 0},
      {HEAD "\"ranks\": 1, \"classes\": [{\"trees\": []}, {\"trees\": []}]}", "classes[0]: the field \"up_to\"", 0},
      {TREE("\"root\": \"0\\n\", \"up\": {}"), "there is no vertex \"0?\"", 0},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\"}"), "p.json: tree 0: vertex \"2\" (rank 2) is missing",
       BANYAN_ERR_PLAN},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"2\", \"2\": \"1\"}"), "tree 0: way up: vertex \"1\" lies on a cycle",
       BANYAN_ERR_PLAN},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"2\"}"), "vertex \"2\" is its own parent",
       BANYAN_ERR_PLAN},
      {TREE(UP ", \"twigs\": {\"2\": \"0\"}"), "tree 0: vertex \"2\" stands in it twice", BANYAN_ERR_PLAN},
      {TREE("\"kind\": \"exchange\", \"radix\": [2]"), "tree 0: the radix must multiply to 3", BANYAN_ERR_PLAN},
      {SWITCHED(", \"forwards\": [\"w\"]"), "trees[0].forwards[0]: there is no vertex \"w\"", 0},
      {SWITCHED(", \"forwards\": {}"), "trees[0].forwards: must be an array", 0},
      {SWITCHED(", \"ports\": []"), "trees[0].ports: must be an object", 0},
      {SWITCHED(", \"ports\": {\"x\": []}"), "trees[0].ports[\"x\"]: must be an object", 0},
      {SWITCHED(", \"ports\": {\"w\": {}}"), "trees[0].ports[\"w\"]: there is no vertex", 0},
      {SWITCHED(", \"ports\": {\"x\": {\"y\": 3}}"), "trees[0].ports[\"x\"][\"y\"]: must be a string", 0},
      {TREE("\"kind\": \"exchange\", \"ports\": {}"), "p.json: trees[0]: unknown field \"ports\"", 0},
      {SWITCHED(", \"forwards\": [\"0\"]"), "tree 0: forwards: vertex \"0\" is no switch", BANYAN_ERR_PLAN},
      {SWITCHED(", \"forwards\": [\"y\", \"y\"]"), "forwards: \"y\" is out of order or stands", BANYAN_ERR_PLAN},
      {SWITCHED(", \"ports\": {\"y\": {\"s\": \"e\"}}"), "\"s\" is neither parent nor child of \"y\"", BANYAN_ERR_PLAN},
      {SWITCHED(", \"ports\": {\"0\": {\"y\": \"e\"}}"), "ports: vertex \"0\" is no switch", BANYAN_ERR_PLAN},
      {SWITCHED(", \"ports\": {\"y\": {\"0\": \"\"}}"), "ports: the interface of \"y\" towards \"0\" must be",
       BANYAN_ERR_PLAN},
      {HEAD "\"ranks\": 1, \"name\": \"a\\nb\", \"trees\": [{\"share\": 1, \"root\": \"0\", \"up\": {}}]}",
       "the plan's name must be", BANYAN_ERR_PLAN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_plan *plan;
    enum banyan_status wanted = cases[i].status ? cases[i].status : BANYAN_ERR_PARSE;
    if (by_plan_parse("p.json", cases[i].text, strlen(cases[i].text), &plan) != wanted ||
        !strstr(banyan_error_text(), cases[i].error) || strchr(banyan_error_text(), '\n'))
      fail_msg("case %zu: %s\n  wanted: %s\n  got:    %s", i, cases[i].text, cases[i].error, banyan_error_text());
  }
}

static void test_limits(void **state) {
  (void)state;
  struct by_plan *plan;
  size_t length = (16 << 20) + 1;
  char *text = test_malloc(length);
  memset(text, ' ', length);
  assert_status(by_plan_parse("p.json", text, length, &plan), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "too large"));
  memset(text, '[', 300000);
  assert_status(by_plan_parse("p.json", text, 300000, &plan), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "too large"));
  assert_status(by_plan_parse("p.json", text, 100000, &plan), BANYAN_ERR_PARSE); /* deep, not large */
  test_free(text);
}

/* 4096 exchanges over 65536 ranks are 120 KiB of text, and would be a GiB of plan. */
static void test_trees_that_name_no_vertex(void **state) {
  (void)state;
  struct by_plan *plan;
  enum { TREES = 4096, ROOM = 40 * TREES };
  char *text = test_malloc(ROOM);
  size_t length = (size_t)snprintf(text, ROOM, HEAD "\"ranks\": 65536, \"trees\": [");
  for (int i = 0; i < TREES; i++)
    length += (size_t)snprintf(text + length, ROOM - length, "%s{\"kind\":\"exchange\",\"share\":1}", i ? "," : "");
  length += (size_t)snprintf(text + length, ROOM - length, "]}");
  assert_status(by_plan_parse("p.json", text, length, &plan), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "p.json: trees[64]: more than 4194304 vertices in all trees"));
  test_free(text);
}

static void test_files(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_status(by_plan_read("/nowhere/plan.json", &plan), BANYAN_ERR_SYSTEM);
  assert_non_null(strstr(banyan_error_text(), "/nowhere/plan.json"));
  assert_status(by_plan_read("/", &plan), BANYAN_ERR_SYSTEM);
  assert_status(by_plan_read("/dev/null", &plan), BANYAN_ERR_PARSE);
  assert_status(by_plan_read("/dev/zero", &plan), BANYAN_ERR_PARSE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_everything),
      cmocka_unit_test(test_ranks_without_names),
      cmocka_unit_test(test_ports),
      cmocka_unit_test(test_order_of_members),
      cmocka_unit_test(test_trees_behind_classes),
      cmocka_unit_test(test_order_of_a_tree),
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_trees_that_name_no_vertex),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
