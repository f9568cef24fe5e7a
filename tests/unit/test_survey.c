#include "survey.h"

#include <math.h>
#include <string.h>

#include "check.h"

static const double no_delay[9] = {0};
static const char *const names[] = {"a", "b", "switch0"};

static void test_misuse(void **state) {
  (void)state;
  struct by_survey *survey;
  struct by_topology *topology;
  const struct by_flow *flows;
  double rates[8] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
  assert_status(by_survey_create(1, no_delay, 1, &survey), BANYAN_ERR_ARGUMENT);
  assert_status(by_survey_create(BY_SURVEY_MOST_HOSTS + 1, no_delay, 1, &survey), BANYAN_ERR_ARGUMENT);
  by_survey_destroy(NULL);
  assert_ok(by_survey_create(3, no_delay, 1, &survey));
  assert_int_equal(by_survey_next(survey, &flows), 4);
  assert_status(by_survey_infer(survey, "", names, &topology), BANYAN_ERR_ARGUMENT);
  rates[1] = NAN;
  assert_status(by_survey_record(survey, rates), BANYAN_ERR_ARGUMENT);
  rates[1] = -1;
  assert_status(by_survey_record(survey, rates), BANYAN_ERR_ARGUMENT);
  rates[1] = INFINITY;
  assert_status(by_survey_record(survey, rates), BANYAN_ERR_ARGUMENT);
  assert_int_equal(by_survey_next(survey, &flows), 4); /* still the same question */
  by_survey_destroy(survey);
}

/* Answers every question alike and infers. */
static enum banyan_status answer(double rate, const char *const *hosts, uint32_t n, struct by_topology **topology) {
  struct by_survey *survey;
  const struct by_flow *flows;
  double rates[8];
  assert_ok(by_survey_create(n, no_delay, 1, &survey));
  for (uint32_t k; (k = by_survey_next(survey, &flows)) != 0;) {
    for (uint32_t i = 0; i < k; i++) {
      assert_true(flows[i].from < n && flows[i].to < n && flows[i].from != flows[i].to);
      rates[i] = rate / (k > 2 ? 2 : 1);
    }
    assert_ok(by_survey_record(survey, rates));
  }
  enum banyan_status status = by_survey_infer(survey, "", hosts, topology);
  by_survey_destroy(survey);
  return status;
}

/* A host that is named like a switch would be. */
static void test_names(void **state) {
  (void)state;
  struct by_topology *topology;
  assert_ok(answer(1e9, names, 3, &topology));
  assert_int_equal(topology->n_nodes, 4);
  assert_string_equal(topology->nodes[2].name, "switch0");
  assert_string_equal(topology->nodes[3].name, "switch1");
  assert_true(topology->nodes[2].takes_part && topology->nodes[3].kind == BY_NODE_SWITCH);
  by_topology_destroy(topology);
}

static void test_two_hosts(void **state) {
  (void)state;
  struct by_topology *topology;
  assert_ok(answer(123456789, names, 2, &topology));
  assert_int_equal(topology->n_links, 1);
  assert_true(topology->links[0].capacity[BY_AB].all == 123e6 && topology->links[0].capacity[BY_BA].all == 123e6);
  by_topology_destroy(topology);
}

static void test_nothing_arrives(void **state) {
  (void)state;
  struct by_topology *topology;
  assert_status(answer(0, names, 2, &topology), BANYAN_ERR_TOPOLOGY);
  assert_non_null(strstr(banyan_error_text(), "\"a\" and \"b\""));
  assert_status(answer(0, names, 3, &topology), BANYAN_ERR_TOPOLOGY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_two_hosts),
      cmocka_unit_test(test_nothing_arrives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
