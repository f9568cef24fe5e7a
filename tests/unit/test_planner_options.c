/* What people ask of the planner, as options of a command and as one text. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "planner.h"

static struct by_planner_options parsed(const char *text) {
  struct by_planner_options options = by_planner_defaults();
  assert_ok(by_planner_options_parse(text, &options));
  return options;
}

static void test_nothing_given(void **state) {
  (void)state;
  struct by_planner_options usual = by_planner_defaults(), options = parsed(NULL);
  assert_int_equal(options.method, usual.method);
  assert_int_equal(options.weighing, usual.weighing);
  assert_int_equal(options.max_trees, usual.max_trees);
  assert_true(isinf(options.max_height) && isnan(options.tolerance));
}

static void test_all_keys(void **state) {
  (void)state;
  struct by_planner_options options =
      parsed("trees=3,max-height=20ms,height-metric=delay,min-rate=100m,tolerance=10%,seed=7,method=cluster,"
             "ways=ring+tree,tree-penalty=0.5,steps=4,cost=hop=1ms+wire=1.25");
  assert_int_equal(options.max_trees, 3);
  assert_true(options.by_delay && fabs(options.max_height - 0.02) < 1e-12);
  assert_true(options.min_rate == 100e6);
  assert_true(fabs(options.tolerance - 0.1) < 1e-12);
  assert_int_equal(options.seed, 7);
  assert_int_equal(options.method, BY_PLANNER_CLUSTER);
  assert_int_equal(options.allowed, BY_PLAN_RING | BY_PLAN_TREE);
  assert_true(options.penalty == 0.5);
  assert_int_equal(options.steps, 4);
  assert_true(fabs(options.rates.hop - 1e-3) < 1e-12 && options.rates.wire == 1.25);
}

/* The unit of the height may follow it, and "max-" may be left out. */
static void test_any_order(void **state) {
  (void)state;
  assert_true(parsed("height=4").max_height == 4);
  assert_true(parsed("rate=1g").min_rate == 1e9);
  assert_true(fabs(parsed("height=3s,height-metric=delay").max_height - 3) < 1e-12);
}

static void test_control(void **state) {
  (void)state;
  struct by_planner_options options = by_planner_defaults();
  const struct by_control_limits *limits = &options.control;
  assert_ok(by_planner_options_parse("fan-out=4,control-height=3,control-distance=2,seed=9", &options));
  assert_int_equal(limits->fan_out, 4);
  assert_int_equal(limits->height, 3);
  assert_true(limits->distance == 2 && !limits->by_delay);
  assert_int_equal(options.seed, 9);
  assert_ok(by_planner_options_parse("height-metric=delay,control-distance=5ms", &options));
  assert_true(limits->by_delay && fabs(limits->distance - 5e-3) < 1e-12);
  options = by_planner_defaults();
  assert_ok(by_planner_options_parse(NULL, &options));
  assert_true(limits->fan_out == 0 && limits->height == 0 && limits->distance == 0);
}

/* Those who ask for certain trees get them for the sizes that they ask for. */
static void test_weighing(void **state) {
  (void)state;
  assert_int_equal(parsed("seed=2,cost=hop=1ms").weighing, BY_PLANNER_WEIGH_ALL);
  assert_int_equal(parsed("trees=2").weighing, BY_PLANNER_WEIGH_SMALL);
  assert_int_equal(parsed("tolerance=0").weighing, BY_PLANNER_WEIGH_SMALL);
  assert_int_equal(parsed("method=cluster").weighing, BY_PLANNER_WEIGH_SMALL);
  assert_int_equal(parsed("method=cluster,height=2").weighing, BY_PLANNER_WEIGH_NONE);
  assert_int_equal(parsed("method=few").weighing, BY_PLANNER_WEIGH_NONE);
  assert_int_equal(parsed("min-rate=1m,trees=2").weighing, BY_PLANNER_WEIGH_NONE);
}

static void test_mistakes(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"trees=8,tres=4",
       "item 2: there is no \"tres\" (did you mean trees?); there are trees, max-height, "
       "height-metric, min-rate, tolerance, seed, method, ways, tree-penalty, steps, cost, fan-out, control-height, "
       "control-distance"},
      {"", "item 1: \"\" is not like trees=8"},
      {"trees=8,", "item 2: \"\" is not like trees=8"},
      {"seed=1,trees", "item 2: \"trees\" is not like trees=8"},
      {"trees=8,seed=1,trees=9", "item 3: trees is given twice"},
      {"height=8,max-height=9", "item 2: max-height is given twice"},
      {"trees=", "trees: \"\" is not a whole number"},
      {"trees=0", "trees is 0, must be 1 to 1024"},
      {"trees=1025", "trees is 1025, must be 1 to 1024"},
      {"max-height=20ms", "max-height is \"20ms\"; it is a number of hops, 1 to 65536, or a time with height-metric "
                          "delay"},
      {"height-metric=delay,max-height=0", "max-height is \"0\"; by delay it is a time above 0 such as 20ms"},
      {"height-metric=miles", "height-metric: \"miles\" is not one of hops|delay"},
      {"method=fe", "method: \"fe\" is not one of few|exact|weights|cluster|in-network"},
      {"min-rate=fast", "min-rate: \"fast\" is not a rate in bit/s such as 10g, 200m or 9600"},
      {"tolerance=1", "tolerance is \"1\"; it is a part of the throughput, such as 0.05 or 5%"},
      {"seed=-1", "seed is -1, must be 0 to 1073741824"},
      {"ways=ring", "ways, tree-penalty and steps are for method cluster"},
      {"method=cluster,ways=ring+trees", "ways: \"trees\" is not one of the ways ring,tree,helpers,switches"},
      {"method=cluster,tree-penalty=2", "tree-penalty is \"2\"; it is a part of the least time, from 0 to 1, such as "
                                        "0.01"},
      {"fan-out=0", "fan-out is 0, must be 1 to 65536"},
      {"control-distance=1ms", "control-distance: \"1ms\" is not a whole number"},
      {"height-metric=delay,control-distance=far", "control-distance: \"far\" is not a time such as 20ms, 3us, 1.5s or "
                                                   "2min"},
      {"method=cluster,steps=65", "steps is 65, must be 1 to 64"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct by_planner_options options = by_planner_defaults();
    assert_int_equal(by_planner_options_parse(wrong[i][0], &options), BANYAN_ERR_ARGUMENT);
    assert_string_equal(banyan_error_text(), wrong[i][1]);
  }
  struct by_planner_options options = by_planner_defaults();
  assert_int_equal(by_planner_options_parse("cost=hops=1s", &options), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "cost: there is no \"hops\" (did you mean hop?); there are wire"));
}

/* A command's options are read by the same rules, and errors name them as they were typed. */
static void test_options(void **state) {
  (void)state;
  struct by_planner_options options = by_planner_defaults();
  struct by_planner_texts texts = {.of = {[BY_PLANNER_TREES] = "2", [BY_PLANNER_WAYS] = "ring,tree"}};
  assert_int_equal(by_planner_options_read(&texts, "--", &options), BANYAN_ERR_ARGUMENT);
  assert_string_equal(banyan_error_text(), "--ways, --tree-penalty and --steps are for --method cluster");
  texts.of[BY_PLANNER_METHOD] = "cluster";
  assert_ok(by_planner_options_read(&texts, "--", &options));
  assert_int_equal(options.max_trees, 2);
  assert_int_equal(options.allowed, BY_PLAN_RING | BY_PLAN_TREE);
}

/* A manager is asked for what is given, and only if the text has its method. */
static void test_managed(void **state) {
  (void)state;
  struct by_planner_managed asked;
  assert_ok(by_planner_managed_parse("method=cluster,ways=ring+tree,tree-penalty=0.05,steps=8,trees=3", &asked));
  assert_int_equal(asked.ways, BY_PLAN_RING | BY_PLAN_TREE);
  assert_true(asked.tree_penalty == 0.05);
  assert_int_equal(asked.steps, 8);
  assert_int_equal(asked.trees, 3);
  static const char *const none[] = {NULL, "method=cluster", "trees=3", "method=exact,trees=3"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    assert_ok(by_planner_managed_parse(none[i], &asked));
    assert_true(!asked.ways && asked.tree_penalty == 0 && !asked.steps && !asked.trees);
  }
  assert_status(by_planner_managed_parse("method=cluster,ways=ring+tre", &asked), BANYAN_ERR_ARGUMENT);
  assert_status(by_planner_managed_parse("ways=ring", &asked), BANYAN_ERR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_managed),   cmocka_unit_test(test_nothing_given), cmocka_unit_test(test_all_keys),
      cmocka_unit_test(test_any_order), cmocka_unit_test(test_weighing),      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_options),   cmocka_unit_test(test_control),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
