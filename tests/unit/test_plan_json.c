/* Plans as JSON, and which of them are valid. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan.h"
#include "text.h"

/* --- plan json --- */

#define HEAD "{\"format\": \"banyan-plan 1\", "

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan = NULL;
  assert_ok(by_plan_parse("p.json", text, strlen(text), &plan));
  return plan;
}

/* A plan that is printed and parsed again is the same plan and prints the same text. */
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
  /* Ranks come in order, then the other vertices by name. */
  const char *names[] = {"a", "b", "c \"\xc3\xa9\\", "h", "s", "sw"};
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
  assert_ok(by_plan_check_switches(same)); /* The way down equals the way up, although it is written in the file. */
  by_plan_destroy(same);
  by_plan_destroy(without);
  by_plan_destroy(plan);
}

/* The order of members in a JSON map has no meaning. */
#define CONTROLLED(control)                                                                                            \
  HEAD "\"ranks\": 3, \"control\": {" control "}, \"trees\": [{\"kind\": \"exchange\", \"share\": 1}]}"
#define PARENTS(fields) "\"use\": \"tree\", \"fan_out\": 2, \"root\": \"1\", \"parent\": {" fields "}"
#define HUNG PARENTS("\"0\": \"1\", \"2\": \"0\"")

static void test_control(void **state) {
  (void)state;
  struct by_plan *without = parsed(HEAD "\"ranks\": 3, \"trees\": [{\"kind\": \"exchange\", \"share\": 1}]}");
  struct by_plan *plan = parsed(CONTROLLED(HUNG ", \"ring\": [\"2\", \"0\", \"1\"]")), *copy;
  const struct by_plan_control *control = &plan->control;
  assert_null(without->control.parent);
  const uint32_t parent[] = {1, 1, 0}, ring[] = {2, 0, 1};
  assert_memory_equal(control->parent, parent, sizeof parent);
  assert_memory_equal(control->ring, ring, sizeof ring);
  assert_true(control->fan_out == 2 && !control->use_ring);
  assert_int_not_equal(plan->version, without->version);
  assert_round_trip(plan);
  assert_ok(by_plan_copy(plan, &copy));
  assert_int_equal(copy->version, plan->version);
  assert_memory_equal(copy->control.ring, ring, sizeof ring);
  /* Upward each sends to the next on the ring; downward the root's messages go round from the first. */
  uint32_t up[3], down[3];
  by_plan_control_parents(control, 3, true, up, down);
  const uint32_t ring_up[] = {1, 1, 0}, ring_down[] = {2, 1, 1};
  assert_memory_equal(up, ring_up, sizeof up);
  assert_memory_equal(down, ring_down, sizeof down);
  by_plan_control_parents(control, 3, false, up, down);
  assert_memory_equal(up, parent, sizeof up);
  assert_memory_equal(down, parent, sizeof down);
  by_plan_destroy(copy);
  by_plan_destroy(without);
  by_plan_destroy(plan);
}

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

/* The trees of the last class may stand outside a class, as in plans without classes. */
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

#define PER_ROOT                                                                                                       \
  "\"per_root\": true, \"trees\": [{\"share\": 0.25, \"root\": \"0\", \"up\": {\"1\": \"0\"}}, {\"share\": 1, "        \
  "\"root\": "                                                                                                         \
  "\"1\", \"up\": {\"0\": \"1\"}}, {\"share\": 0.75, \"root\": \"0\", \"up\": {\"1\": \"0\"}}]"

static void test_trees_for_some_collectives(void **state) {
  (void)state;
  struct by_plan *usual = parsed(HEAD "\"ranks\": 2, " ONE_TREE "}");
  struct by_plan *plan =
      parsed(HEAD "\"ranks\": 2, " ONE_TREE ", \"collectives\": [{\"for\": [\"broadcast\"], " ONE_TREE
                  "}, {\"for\": [\"all_gather\", \"reduce_scatter\"], \"above\": \"1K\", "
                  "\"throughput\": \"1g\", \"bound\": \"2g\", " PER_ROOT "}]}");
  const struct by_class *classes = plan->classes;
  assert_int_equal(plan->n_classes, 1);
  assert_int_equal(plan->n_own, 2);
  assert_int_not_equal(plan->version, usual->version);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_ALLREDUCE, 2000), &classes[0]);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_REDUCE, 2000), &classes[0]);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_BROADCAST, 1), &classes[1]);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_ALLGATHER, 1024), &classes[0]);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_ALLGATHER, 1025), &classes[2]);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_REDUCE_SCATTER, 1025), &classes[2]);
  assert_true(classes[2].per_root && classes[2].throughput == 1e9 && classes[2].bound == 2e9);
  assert_true(by_plan_rates_of(plan, BANYAN_ALLGATHER).bound == 2e9);
  assert_true(by_plan_rates_of(plan, BANYAN_REDUCE).bound == 0 && by_plan_rates_of(plan, BANYAN_ALLREDUCE).bound == 0);
  assert_int_equal(by_plan_class_end(plan, BANYAN_ALLGATHER, 1), 1024);
  assert_int_equal(by_plan_class_end(plan, BANYAN_ALLGATHER, 1024), 1024);
  assert_true(by_plan_class_end(plan, BANYAN_ALLGATHER, 1025) == UINT64_MAX);
  assert_true(by_plan_class_end(plan, BANYAN_ALLREDUCE, 1) == UINT64_MAX);
  assert_true(by_group_is_of(&classes[2].groups[1], 1) && !by_group_is_of(&classes[2].groups[1], 0));
  assert_round_trip(plan);
  by_plan_destroy(plan);
  by_plan_destroy(usual);
}

/* Those that have no trees of their own have rates in the plan, which change nothing else. */
static void test_rates_of_some_collectives(void **state) {
  (void)state;
  struct by_plan *usual = parsed(HEAD "\"ranks\": 2, " ONE_TREE "}");
  struct by_plan *plan = parsed(HEAD "\"ranks\": 2, \"rates\": {\"reduce\": {\"bound\": \"2g\"}, \"all_gather\": "
                                     "{\"throughput\": \"3g\", \"bound\": \"4g\"}}, " ONE_TREE "}");
  struct by_plan *copy;
  assert_int_equal(plan->version, usual->version);
  assert_round_trip(plan);
  assert_ok(by_plan_copy(plan, &copy));
  assert_true(by_plan_rates_of(copy, BANYAN_REDUCE).bound == 2e9);
  assert_true(by_plan_rates_of(copy, BANYAN_REDUCE).throughput == 0);
  assert_true(by_plan_rates_of(copy, BANYAN_ALLGATHER).throughput == 3e9);
  assert_true(by_plan_rates_of(copy, BANYAN_ALLGATHER).bound == 4e9);
  assert_true(by_plan_rates_of(copy, BANYAN_ALLREDUCE).bound == 0);
  by_plan_destroy(copy);
  by_plan_destroy(plan);
  by_plan_destroy(usual);
}

/* The parents of all ranks by number are the same tree, and what trees per root are printed as. */
static void test_parents_by_number(void **state) {
  (void)state;
  struct by_plan *named = parsed(HEAD "\"ranks\": 3, \"trees\": [{\"share\": 1, \"root\": \"1\", \"up\": "
                                      "{\"0\": \"2\", \"2\": \"1\"}}]}");
  struct by_plan *numbered =
      parsed(HEAD "\"ranks\": 3, \"trees\": [{\"share\": 1, \"root\": \"1\", \"up\": [2, 1, 1]}]}");
  struct by_plan *own =
      parsed(HEAD "\"ranks\": 2, " ONE_TREE ", \"collectives\": [{\"for\": [\"allgather\"], " PER_ROOT "}]}");
  struct by_text text = {0};
  assert_int_equal(named->version, numbered->version);
  assert_round_trip(numbered);
  by_plan_print(own, &text);
  assert_non_null(strstr(by_text_get(&text), "\"root\": \"1\", \"up\": [1,1]}"));
  by_text_fini(&text);
  assert_round_trip(own);
  by_plan_destroy(own);
  by_plan_destroy(numbered);
  by_plan_destroy(named);
}

/* An explicit order determines the order in which children are added, so it is part of the plan. */
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

#define OWN(x) HEAD "\"ranks\": 2, " ONE_TREE ", \"collectives\": [{" x "}]}"
#define TREE(x) HEAD "\"ranks\": 3, \"trees\": [{\"share\": 1, " x "}]}"
#define UP "\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"1\"}"

static void test_errors(void **state) {
  (void)state;
  struct {
    const char *text, *error;
    enum banyan_status status; /* The value 0 stands for BANYAN_ERR_PARSE. */
  } cases[] = {
      {"", "p.json:1:0: ", 0},
      {"{\n  \"format\": 1,,", "p.json:2:15: ", 0},
      {"{\"format\": \"a\",\n \"format\": \"a\"}", "duplicate object key", 0},
      {"[]", "p.json: must be an object, is an array", 0},
      {"{}", "p.json: the field \"format\" is missing: write \"format\": \"banyan-plan 1\"", 0},
      {"{\"format\": \"banyan-plan 2\"}", "p.json: format: is \"banyan-plan 2\"", 0},
      {"{\"format\": \"banyan-topology 1\", \"nodes\": []}",
       "p.json: format: is \"banyan-topology 1\", so this is a topology", 0},
      {HEAD "\"rank\": 3}", "unknown field \"rank\"; did you mean \"ranks\"?", 0},
      {HEAD "\"zzzzzzz\": 3}", "unknown field \"zzzzzzz\"; there are format, name", 0},
      {HEAD "\"trees\": []}", "p.json: the field \"ranks\" is missing: write \"ranks\": 4", 0},
      {HEAD "\"ranks\": 0, \"trees\": []}", "p.json: ranks: is 0, must be 1 to 65536", 0},
      {HEAD "\"ranks\": 70000, \"trees\": []}", "p.json: ranks: is 70000", 0},
      {HEAD "\"ranks\": 1.5, \"trees\": []}", "p.json: ranks: must be a whole number, is a number", 0},
      {HEAD "\"ranks\": 1}", "p.json: the field \"trees\" is missing: write \"trees\": [", 0},
      {HEAD "\"ranks\": 1, \"trees\": []}", "p.json: trees: has 0 elements", 0},
      {HEAD "\"ranks\": 1, \"trees\": [7]}", "p.json: trees[0]: must be an object, is a whole number", 0},
      {HEAD "\"ranks\": 1, \"trees\": [], \"classes\": []}", "p.json: classes: has 0 elements", 0},
      {HEAD "\"ranks\": 1, \"trees\": [], \"classes\": [{\"trees\": []}]}", "classes[0]: the field \"up_to\"", 0},
      {HEAD "\"ranks\": 1, \"chunk\": \"2 parsecs\", \"trees\": []}", "p.json: chunk: \"2 parsecs\" is not", 0},
      {HEAD "\"ranks\": 1, \"chunk\": \"2G\", \"trees\": []}", "p.json: chunk: is 2G, must be at most", 0},
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
      {TREE("\"root\": \"0\", \"up\": 1"), "p.json: trees[0].up: must be an object", 0},
      {TREE("\"root\": \"0\", \"up\": []"), "p.json: trees[0].up: has 0 elements", 0},
      {TREE("\"root\": \"0\", \"up\": [0, 0, 3]"), "p.json: trees[0].up[2]: is 3", 0},
      {TREE("\"root\": \"0\", \"up\": [0, 0, \"1\"]"), "p.json: trees[0].up[2]: must be", 0},
      {TREE("\"root\": \"0\", \"up\": [1, 0, 0]"), "p.json: trees[0].up[0]: the root has no parent but", 0},
      {TREE("\"root\": \"0\", \"order\": [\"0\", \"2\", \"1\"], \"up\": [0, 0, 0]"), "up: is by rank, and", 0},
      {TREE("\"root\": \"0\", \"up\": [0, 2, 1]"), "tree 0: edges up: vertex \"1\" lies on a cycle", BANYAN_ERR_PLAN},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": 1}"), "trees[0].up[\"2\"]: must be a string", 0},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\", \"x\": \"1\"}"), "trees[0].up[\"x\"]: there is no vertex", 0},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"2\"}"), "trees[0].up[\"1\"]: vertex \"2\" is not in this tree", 0},
      {TREE("\"root\": \"0\", \"up\": {\"0\": \"1\", \"1\": \"0\", \"2\": \"1\"}"), "up[\"0\"]: the root has no", 0},
      {TREE(UP ", \"down\": {\"1\": \"0\"}"), "p.json: trees[0].down: vertex \"2\" has no parent", 0},
      {TREE(UP ", \"order\": [\"0\", \"1\", \"1\"]"), "trees[0].order[2]: vertex \"1\" is listed twice", 0},
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
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"2\", \"2\": \"1\"}"), "tree 0: edges up: vertex \"1\" lies on a cycle",
       BANYAN_ERR_PLAN},
      {TREE("\"root\": \"0\", \"up\": {\"1\": \"0\", \"2\": \"2\"}"), "vertex \"2\" is its own parent",
       BANYAN_ERR_PLAN},
      {TREE(UP ", \"twigs\": {\"2\": \"0\"}"), "tree 0: vertex \"2\" is listed twice", BANYAN_ERR_PLAN},
      {TREE("\"kind\": \"exchange\", \"radix\": [2]"), "tree 0: the radix must multiply to 3", BANYAN_ERR_PLAN},
      {SWITCHED(", \"forwards\": [\"w\"]"), "trees[0].forwards[0]: there is no vertex \"w\"", 0},
      {SWITCHED(", \"forwards\": {}"), "trees[0].forwards: must be an array", 0},
      {SWITCHED(", \"ports\": []"), "trees[0].ports: must be an object", 0},
      {SWITCHED(", \"ports\": {\"x\": []}"), "trees[0].ports[\"x\"]: must be an object", 0},
      {SWITCHED(", \"ports\": {\"w\": {}}"), "trees[0].ports[\"w\"]: there is no vertex", 0},
      {SWITCHED(", \"ports\": {\"x\": {\"y\": 3}}"), "trees[0].ports[\"x\"][\"y\"]: must be a string", 0},
      {TREE("\"kind\": \"exchange\", \"ports\": {}"), "p.json: trees[0]: unknown field \"ports\"", 0},
      {SWITCHED(", \"forwards\": [\"0\"]"), "tree 0: forwards: vertex \"0\" is no switch", BANYAN_ERR_PLAN},
      {SWITCHED(", \"forwards\": [\"y\", \"y\"]"), "forwards: \"y\" is out of order or listed", BANYAN_ERR_PLAN},
      {SWITCHED(", \"ports\": {\"y\": {\"s\": \"e\"}}"), "\"s\" is neither parent nor child of \"y\"", BANYAN_ERR_PLAN},
      {SWITCHED(", \"ports\": {\"0\": {\"y\": \"e\"}}"), "ports: vertex \"0\" is no switch", BANYAN_ERR_PLAN},
      {SWITCHED(", \"ports\": {\"y\": {\"0\": \"\"}}"), "ports: the interface of \"y\" towards \"0\" must be",
       BANYAN_ERR_PLAN},
      {HEAD "\"ranks\": 1, \"name\": \"a\\nb\", \"trees\": [{\"share\": 1, \"root\": \"0\", \"up\": {}}]}",
       "the plan's name must be", BANYAN_ERR_PLAN},
      {CONTROLLED(""), "p.json: control: the field \"use\" is missing", 0},
      {CONTROLLED("\"use\": \"star\""), "p.json: control.use: is \"star\", must be tree or ring", 0},
      {CONTROLLED("\"use\": \"tree\", \"fan_out\": 0"), "p.json: control.fan_out: is 0", 0},
      {CONTROLLED(PARENTS("\"0\": \"1\"")), "p.json: control.parent: has 1 ranks, must have all 3 but the root", 0},
      {CONTROLLED(PARENTS("\"0\": \"1\", \"1\": \"0\"")), "control.parent[\"1\"]: the root has no parent", 0},
      {CONTROLLED(PARENTS("\"0\": \"1\", \"2\": \"3\"")), "control.parent[\"2\"]: there is no rank \"3\"", 0},
      {CONTROLLED(PARENTS("\"0\": \"2\", \"2\": \"0\"")), "control: rank \"0\" lies on a cycle", BANYAN_ERR_PLAN},
      {CONTROLLED(PARENTS("\"0\": \"0\", \"2\": \"1\"")), "control: the tree has 2 roots", BANYAN_ERR_PLAN},
      {CONTROLLED(HUNG ", \"ring\": [\"0\"]"), "p.json: control.ring: has 1 element", 0},
      {CONTROLLED(HUNG ", \"ring\": [\"0\", \"1\", \"1\"]"), "rank \"1\" is twice on the ring", BANYAN_ERR_PLAN},
      {CONTROLLED("\"use\": \"ring\", \"fan_out\": 2, \"root\": \"1\", \"parent\": {\"0\": \"1\", \"2\": \"1\"}"),
       "control: the ring is to be used, but none is given", BANYAN_ERR_PLAN},
      {HEAD "\"ranks\": 2, \"rates\": [], " ONE_TREE "}", "p.json: rates: must be an object", 0},
      {HEAD "\"ranks\": 2, \"rates\": {\"alltoall\": {\"bound\": 1}}, " ONE_TREE "}",
       "rates[\"alltoall\"]: is \"alltoall\", must be reduce", 0},
      {HEAD "\"ranks\": 2, \"rates\": {\"reduce\": {\"throughput\": 1}}, " ONE_TREE "}",
       "rates[\"reduce\"]: the field \"bound\" is missing", 0},
      {HEAD "\"ranks\": 2, \"rates\": {\"reduce\": {\"bound\": -1}}, " ONE_TREE "}", "rates[\"reduce\"].bound: ", 0},
      {OWN("\"for\": [], " ONE_TREE), "collectives[0].for: has 0 elements", 0},
      {OWN("\"for\": [\"broadcast\", \"allreduce\"], " ONE_TREE), "collectives[0].for[1]: is \"allreduce\"", 0},
      {OWN("\"for\": [\"nothing\"], " ONE_TREE), "for[0]: is \"nothing\", must be reduce", 0},
      {OWN("\"for\": [\"reduce\"], \"up_to\": 1, " ONE_TREE), "unknown field \"up_to\"", 0},
      {OWN("\"for\": [\"reduce\"], \"above\": -1, " ONE_TREE), "collectives[0].above: ", 0},
      {OWN("\"for\": [\"reduce\"], \"per_root\": 1, " ONE_TREE), "collectives[0].per_root: must be", 0},
      {OWN("\"for\": [\"reduce\"], \"per_root\": true, " ONE_TREE),
       "class 1: the shares of the trees of \"1\" sum to 0, must be 1", BANYAN_ERR_PLAN},
      {OWN("\"for\": [\"reduce\"], \"per_root\": true, \"trees\": [{\"kind\": \"rotated\", \"share\": 1, \"root\": "
           "\"0\", \"up\": "
           "{\"1\": \"0\"}}, {\"share\": 1, \"root\": \"1\", \"up\": {\"0\": \"1\"}}]"),
       "class 1, tree 0: trees for each root must be of kind \"tree\"", BANYAN_ERR_PLAN},
      {HEAD "\"ranks\": 2, \"vertices\": {\"h\": {\"kind\": \"helper\"}}, " ONE_TREE
            ", \"collectives\": [{\"for\": [\"reduce\"], "
            "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\"}}]}]}",
       "class 1, tree 0: vertex \"h\" is no rank", BANYAN_ERR_PLAN},
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
  /* The text is deeply nested, not large. */
  assert_status(by_plan_parse("p.json", text, 100000, &plan), BANYAN_ERR_PARSE);
  test_free(text);
}

/* In text, 4096 exchanges over 65536 ranks are 120 KiB, but the plan would be a GiB. */
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

/* --- plan check --- */

/* Asserts that the plan is rejected with this error. */
static void assert_bad(const struct by_plan *plan, const char *error, const char *file, int line) {
  enum banyan_status status = by_plan_validate(plan);
  if (status == BANYAN_ERR_PLAN && strstr(banyan_error_text(), error)) return;
  print_error("%s:%d: wanted: %s\n  got: %s\n", file, line, error,
              status == BANYAN_OK ? "no error" : banyan_error_text());
  _fail(file, line);
}

/* Changes the plan, checks it, restores it, and checks that it is valid again. */
#define BAD(plan, set, reset, error)                                                                                   \
  set;                                                                                                                 \
  assert_bad(plan, error, __FILE__, __LINE__);                                                                         \
  reset;                                                                                                               \
  assert_ok(by_plan_validate(plan))

/* This test runs first, so that no other test has left an error text. */
static void test_a_good_plan_leaves_no_error(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 4, &plan));
  assert_ok(by_plan_validate(plan));
  assert_string_equal(banyan_error_text(), "");
  by_plan_destroy(plan);
}

static void test_plan_and_vertices(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 4, &plan));
  struct by_vertex *v = plan->vertices, kept = v[2];
  char long_name[257];
  memset(long_name, 'x', 256);
  long_name[256] = '\0';
  BAD(plan, plan->n_vertices = 0, plan->n_vertices = 4, "0 vertices");
  BAD(plan, plan->n_vertices = 65537, plan->n_vertices = 4, "65537 vertices");
  BAD(plan, plan->n_ranks = 5, plan->n_ranks = 4, "5 ranks among 4 vertices");
  BAD(plan, plan->n_ranks = 3, plan->n_ranks = 4, "vertex number 3 (\"3\") must not be a rank");
  BAD(plan, plan->n_classes = 0, plan->n_classes = 1, "0 size classes");
  BAD(plan, plan->n_classes = 65, plan->n_classes = 1, "65 size classes");
  BAD(plan, plan->chunk = SIZE_MAX, plan->chunk = 0, "the chunk is");
  BAD(plan, v[2].kind = BY_VERTEX_SWITCH, v[2] = kept, "vertex number 2 (\"2\") must be rank 2");
  BAD(plan, v[2].rank = 3, v[2] = kept, "must be rank 2");
  BAD(plan, v[2].name = "3", v[2] = kept, "two vertices are named \"3\"");
  BAD(plan, v[2].name = "", v[2] = kept, "vertex number 2: its name");
  BAD(plan, v[2].name = NULL, v[2] = kept, "vertex number 2: its name");
  BAD(plan, v[2].name = long_name, v[2] = kept, "vertex number 2: its name");
  const char *wrong[] = {"a\nb",
                         "\x1b[2J",
                         "\x7f",
                         "\xc2\x85",
                         "\xff",
                         "\xc3",
                         "\xe2\x82",
                         "\xed\xa0\x80",
                         "\xc0\xaf",
                         "\xe0\x80\xaf",
                         "\x80",
                         "\xf5\x80\x80\x80",
                         "\xf0\x80\x80\xaf",
                         "a\xc3_"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    BAD(plan, v[2].name = wrong[i], v[2] = kept, "vertex number 2: its name");
  }
  v[2].name = "h\xc3\xb4te \xe2\x82\xac \xf0\x9f\x8c\xb3";
  assert_ok(by_plan_validate(plan));
  by_plan_destroy(plan);
}

static void test_classes(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_default(4, NULL, false, &plan));
  struct by_class *c = plan->classes;
  uint64_t kept = c[0].up_to;
  BAD(plan, c[1].up_to = 1 << 30, c[1].up_to = UINT64_MAX, "class 1: the last class must have no limit");
  BAD(plan, c[0].up_to = UINT64_MAX, c[0].up_to = kept, "class 0: its limit is too large");
  BAD(plan, c[0].n_groups = 0, c[0].n_groups = 1, "class 0: the shares of its 0 trees sum to 0");
  BAD(plan, c[1].n_groups = 4097, c[1].n_groups = 1, "more than 4096 trees");
  BAD(plan, c[1].groups->share = 0.5, c[1].groups->share = 1, "class 1: the shares of its 1 trees sum to 0.5");
  BAD(plan, c[1].groups->share = 1.00001, c[1].groups->share = 1, "class 1: the shares");
  BAD(plan, c[1].groups->share = 0, c[1].groups->share = 1, "class 1, tree 0: share is 0");
  BAD(plan, c[1].groups->share = -1, c[1].groups->share = 1, "class 1, tree 0: share is -1");
  BAD(plan, c[1].groups->share = NAN, c[1].groups->share = 1, "class 1, tree 0: share is");
  BAD(plan, c[1].groups->share = INFINITY, c[1].groups->share = 1, "class 1, tree 0: share is inf");
  BAD(plan, c[1].groups->up[2] = 2, c[1].groups->up[2] = 0, "class 1, tree 0: edges up: vertex \"2\" is its own");
  by_plan_destroy(plan);
}

static void test_trees(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", 5, &plan)); /* The tree is up: 1 2 3 4 0, down: 4 3 2 1 0. */
  struct by_group *g = plan->classes[0].groups;
  BAD(plan, g->up[4] = 2, g->up[4] = 0, "tree 0: edges up: vertex \"2\" lies on a cycle");
  BAD(plan, g->down[1] = 3, g->down[1] = 0, "tree 0: edges down: vertex \"1\" lies on a cycle");
  BAD(plan, g->up[3] = 3, g->up[3] = 4, "tree 0: edges up: vertex \"3\" is its own parent");
  BAD(plan, g->up[3] = 5, g->up[3] = 4, "tree 0: edges up: the parent of vertex \"3\" is not in the tree");
  BAD(plan, g->up[0] = 1, g->up[0] = 0, "tree 0: edges up: the root \"0\" has a parent");
  BAD(plan, g->down[0] = UINT32_MAX, g->down[0] = 0, "tree 0: edges down: the root \"0\" has a parent");
  BAD(plan, g->root = 5, g->root = 0, "tree 0: the root is position 5 of 5");
  BAD(plan, g->order[3] = 2, g->order[3] = 3, "tree 0: vertex \"2\" is listed twice");
  BAD(plan, g->order[3] = 9, g->order[3] = 3, "tree 0: vertex number 9 is not in the plan");
  BAD(plan, g->n = 4, g->n = 5, "tree 0: vertex \"4\" (rank 4) is missing");
  BAD(plan, g->n = 0, g->n = 5, "tree 0: has 0 vertices");
  BAD(plan, g->n = 6, g->n = 5, "tree 0: has 6 vertices");
  BAD(plan, g->radix[0] = 4, g->radix[0] = 5, "tree 0: the radix must multiply to 5");
  BAD(plan, g->radix[0] = 0, g->radix[0] = 5, "tree 0: radix[0] is 0");
  BAD(plan, g->n_radix = 0, g->n_radix = 1, "tree 0: the radix must multiply to 5");
  BAD(plan, g->n_radix = 17, g->n_radix = 1, "tree 0: 17 digits");
  uint32_t *up = g->up;
  BAD(plan, g->up = NULL, g->up = up, "tree 0: has no edges up");
  BAD(plan, g->down = NULL, g->down = up, "tree 0: has no edges down");
  BAD(plan, g->kind = (enum by_group_kind)3, g->kind = BY_GROUP_ROTATED, "tree 0: its kind is 3");
  by_plan_destroy(plan);
}

static void test_twigs(void **state) {
  (void)state;
  struct by_plan *plan;
  assert_ok(by_plan_builtin("doubling", 7, &plan)); /* The twigs are 4: 0, 5: 1, 6: 2. */
  struct by_group *g = plan->classes[0].groups;
  struct by_twig *t = g->twigs;
  BAD(plan, t[1].parent = 4, t[1].parent = 1, "tree 0: twig \"5\" hangs on vertex \"4\", which is not in the tree");
  BAD(plan, t[1].parent = 7, t[1].parent = 1, "tree 0: twig 1: vertex number not in the plan");
  BAD(plan, t[1].child = 7, t[1].child = 5, "tree 0: twig 1: vertex number not in the plan");
  BAD(plan, t[1].child = 4, t[1].child = 5, "tree 0: twig \"4\" is out of order");
  BAD(plan, t[0].child = 3, t[0].child = 4, "tree 0: vertex \"3\" is listed twice");
  BAD(plan, g->n_twigs = 2, g->n_twigs = 3, "tree 0: vertex \"6\" (rank 6) is missing");
  by_plan_destroy(plan);
}

static void test_kinds_of_vertices(void **state) {
  (void)state;
  const char text[] = "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"h\": {\"kind\": \"helper\"}},"
                      "\"trees\": [{\"kind\": \"exchange\", \"share\": 1}]}";
  struct by_plan *plan;
  assert_ok(by_plan_parse("p", text, strlen(text), &plan)); /* No tree uses this helper. */
  struct by_group *g = plan->classes[0].groups;
  struct by_twig twigs[] = {{.child = 1, .parent = 0}, {.child = 2, .parent = 0}};
  g->n = 1;
  g->n_radix = 0;
  g->twigs = twigs;
  g->n_twigs = 1;
  assert_ok(by_plan_validate(plan));
  BAD(plan, g->n_twigs = 2, g->n_twigs = 1, "tree 0: twig \"h\" is no rank");
  BAD(plan, g->order[0] = 2, g->order[0] = 0, "tree 0: vertex \"h\" is no rank and cannot exchange");
  by_plan_destroy(plan);
}

/* --- plan --- */

static struct by_plan *ring(uint32_t n) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin("ring", n, &plan));
  return plan;
}

static void test_destroy_nothing(void **state) {
  (void)state;
  by_plan_destroy(NULL);
}

/* The hash is pinned because ranks of different builds compare versions. */
static void test_hash_is_pinned(void **state) {
  (void)state;
  struct by_plan *plan = ring(4);
  assert_int_equal(plan->version, by_plan_hash(plan));
  assert_int_equal(plan->version, 0x4d8c9b08);
  by_plan_destroy(plan);
}

/* Every change of the computation changes the hash, and informational members do not. */
static void test_hash_sees_all(void **state) {
  (void)state;
  struct by_plan *plan = ring(4);
  struct by_group *group = &plan->classes[0].groups[0];
  struct by_twig twig = {.child = 1, .parent = 2};
  uint32_t down = group->down[1], hash = plan->version;
#define CHANGES(set, reset)                                                                                            \
  set;                                                                                                                 \
  assert_int_not_equal(by_plan_hash(plan), hash);                                                                      \
  reset;                                                                                                               \
  assert_int_equal(by_plan_hash(plan), hash)
  CHANGES(plan->chunk = 1, plan->chunk = 0);
  CHANGES(plan->vertices[0].name = "a", plan->vertices[0].name = "0");
  CHANGES(plan->vertices[0].kind = BY_VERTEX_HELPER, plan->vertices[0].kind = BY_VERTEX_RANK);
  CHANGES(plan->classes[0].up_to = 1, plan->classes[0].up_to = UINT64_MAX);
  CHANGES(group->kind = BY_GROUP_TREE, group->kind = BY_GROUP_ROTATED);
  CHANGES(group->share = 1 - 0x1p-53, group->share = 1);
  CHANGES(group->root = 1, group->root = 0);
  CHANGES(group->order[2] = 3, group->order[2] = 2);
  CHANGES(group->up[2] = 1, group->up[2] = 3);
  CHANGES(group->down[1] = 3, group->down[1] = down);
  CHANGES(group->n_radix = 0, group->n_radix = 1);
  CHANGES((group->twigs = &twig, group->n_twigs = 1), group->n_twigs = 0);
  uint32_t parent[] = {0, 0, 0, 0}, order[] = {3, 2, 1, 0};
  plan->control = (struct by_plan_control){.parent = parent, .fan_out = 3};
  hash = by_plan_hash(plan);
  assert_int_not_equal(hash, plan->version);
  CHANGES(parent[3] = 1, parent[3] = 0);
  CHANGES(plan->control.ring = order, plan->control.ring = NULL);
  CHANGES(plan->control.fan_out = 4, plan->control.fan_out = 3);
  CHANGES(plan->control.use_ring = true, plan->control.use_ring = false);
#undef CHANGES
  plan->name = "other";
  group->rate = 1;
  plan->facts.bound = 1;
  assert_int_equal(by_plan_hash(plan), hash);
  by_plan_destroy(plan);
}

static void test_class_by_size(void **state) {
  (void)state;
  struct by_class classes[] = {{.up_to = 0}, {.up_to = 100}, {.up_to = UINT64_MAX}};
  struct by_plan plan = {.n_classes = 3, .classes = classes};
  assert_ptr_equal(by_plan_class(&plan, 0), &classes[0]);
  assert_ptr_equal(by_plan_class(&plan, 1), &classes[1]);
  assert_ptr_equal(by_plan_class(&plan, 100), &classes[1]);
  assert_ptr_equal(by_plan_class(&plan, 101), &classes[2]);
  assert_ptr_equal(by_plan_class(&plan, UINT64_MAX), &classes[2]);
}

/* Translates digit by digit without carry, in the slow way. */
static uint32_t translate(const struct by_group *group, uint32_t u, uint32_t t) {
  uint32_t position = 0, weight = 1;
  for (uint32_t i = 0; i < group->n_radix; i++) {
    position += (u / weight + t / weight) % group->radix[i] * weight;
    weight *= group->radix[i];
  }
  return position;
}

static void test_translate(void **state) {
  (void)state;
  uint32_t shapes[][4] = {{0}, {2}, {7}, {12}, {2, 2}, {2, 2, 2}, {3, 2}, {2, 3}, {4, 3, 2}, {5, 5}, {2, 2, 3}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    struct by_group group = {.n = 1, .radix = shapes[s]};
    for (uint32_t i = 0; i < 4 && shapes[s][i]; i++, group.n_radix++) group.n *= shapes[s][i];
    for (uint32_t t = 0; t < group.n; t++) {
      assert_int_equal(by_group_translate(&group, 0, t), t);
      for (uint32_t u = 0; u < group.n; u++) {
        uint32_t position = by_group_translate(&group, u, t);
        assert_int_equal(position, translate(&group, u, t));
        assert_int_equal(by_group_untranslate(&group, position, t), u);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_good_plan_leaves_no_error), /* It is the first test, so there was no error before. */
      cmocka_unit_test(test_everything),
      cmocka_unit_test(test_ranks_without_names),
      cmocka_unit_test(test_ports),
      cmocka_unit_test(test_control),
      cmocka_unit_test(test_order_of_members),
      cmocka_unit_test(test_trees_behind_classes),
      cmocka_unit_test(test_parents_by_number),
      cmocka_unit_test(test_order_of_a_tree),
      cmocka_unit_test(test_shares),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_trees_that_name_no_vertex),
      cmocka_unit_test(test_plan_and_vertices),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_twigs),
      cmocka_unit_test(test_kinds_of_vertices),
      cmocka_unit_test(test_destroy_nothing),
      cmocka_unit_test(test_trees_for_some_collectives),
      cmocka_unit_test(test_rates_of_some_collectives),
      cmocka_unit_test(test_hash_is_pinned),
      cmocka_unit_test(test_hash_sees_all),
      cmocka_unit_test(test_class_by_size),
      cmocka_unit_test(test_translate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
