#include "survey.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "measure_parts.h"
#include "rng.h"
#include "survey_parts.h"

static const double no_delay[9] = {0};
static const char *const names[] = {"a", "b", "switch0"};

static void test_misuse(void **state) {
  (void)state;
  struct by_survey *survey;
  struct by_topology *topology;
  const struct by_survey_flow *flows;
  double rates[8] = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
  assert_status(by_survey_create(1, no_delay, 1, 0, &survey), BANYAN_ERR_ARGUMENT);
  assert_status(by_survey_create(BY_SURVEY_MAX_HOSTS + 1, no_delay, 1, 0, &survey), BANYAN_ERR_ARGUMENT);
  by_survey_destroy(NULL);
  assert_ok(by_survey_create(3, no_delay, 1, 0, &survey));
  assert_int_equal(by_survey_next(survey, &flows), 4);
  assert_status(by_survey_infer(survey, "", names, &topology), BANYAN_ERR_ARGUMENT);
  rates[1] = NAN;
  assert_status(by_survey_record(survey, rates), BANYAN_ERR_ARGUMENT);
  rates[1] = -1;
  assert_status(by_survey_record(survey, rates), BANYAN_ERR_ARGUMENT);
  rates[1] = INFINITY;
  assert_status(by_survey_record(survey, rates), BANYAN_ERR_ARGUMENT);
  assert_int_equal(by_survey_next(survey, &flows), 4); /* It is still the same question. */
  by_survey_destroy(survey);
}

/* Answers every question with the same rate and infers the topology. */
static enum banyan_status answer(double rate, const char *const *hosts, uint32_t n, struct by_topology **topology) {
  struct by_survey *survey;
  const struct by_survey_flow *flows;
  double rates[8];
  assert_ok(by_survey_create(n, no_delay, 1, 0, &survey));
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

/* A host has a name that a switch would get. */
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

/* --- tournament --- */

enum { MOST = 33 };

static void test_circle(void **state) {
  (void)state;
  assert_int_equal(by_tournament_rounds(0), 0);
  assert_int_equal(by_tournament_rounds(1), 0);
  for (uint32_t n = 2; n <= MOST; n++) {
    bool met[MOST][MOST] = {{false}};
    assert_int_equal(by_tournament_rounds(n), n - 1 + n % 2);
    for (uint32_t r = 0; r < by_tournament_rounds(n); r++) {
      uint32_t idle = 0;
      for (uint32_t i = 0; i < n; i++) {
        uint32_t j = by_tournament_peer(n, r, i);
        assert_true(j < n);
        assert_int_equal(by_tournament_peer(n, r, j), i);
        assert_true(j == i || !met[i][j]);
        met[i][j] = true;
        idle += j == i;
      }
      assert_int_equal(idle, n % 2);
    }
    for (uint32_t i = 0; i < n; i++)
      for (uint32_t j = 0; j < n; j++) assert_true(i == j || met[i][j]);
  }
}

/* Checks that every pair occurs once, and that rounds consist of disjoint pairs, all inside groups or all across
 * groups. */
static void check(const struct by_tournament *t, uint32_t n, const uint32_t *group_of) {
  bool met[MOST][MOST] = {{false}};
  uint32_t pairs = 0;
  for (uint32_t r = 0; r < t->n_rounds; r++) {
    bool busy[MOST] = {false};
    assert_true(t->first[r] < t->first[r + 1]);
    bool inside = group_of[t->meetings[t->first[r]].a] == group_of[t->meetings[t->first[r]].b];
    for (uint32_t k = t->first[r]; k < t->first[r + 1]; k++, pairs++) {
      uint32_t a = t->meetings[k].a, b = t->meetings[k].b;
      assert_true(a < b && b < n && !busy[a] && !busy[b] && !met[a][b]);
      busy[a] = busy[b] = met[a][b] = true;
      assert_int_equal(group_of[a] == group_of[b], inside);
    }
  }
  assert_int_equal(pairs, n * (n - 1) / 2);
}

static void test_groups(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int round = 0; round < 300; round++) {
    uint32_t n = 2 + (uint32_t)by_rng_below(&rng, MOST - 1), groups = 1 + (uint32_t)by_rng_below(&rng, n);
    uint32_t group_of[MOST], order[MOST];
    for (uint32_t i = 0; i < n; i++) {
      uint32_t j = (uint32_t)by_rng_below(&rng, i + 1);
      group_of[i] = (uint32_t)by_rng_below(&rng, groups);
      order[i] = order[j];
      order[j] = i;
    }
    struct by_tournament t;
    assert_ok(by_tournament_init(&t, n, group_of, order));
    check(&t, n, group_of);
    by_tournament_fini(&t);
  }
}

/* Two groups of four need three rounds inside both, then four rounds across. */
static void test_two_groups(void **state) {
  (void)state;
  static const uint32_t group_of[] = {5, 2, 5, 2, 5, 2, 5, 2}, order[] = {0, 1, 2, 3, 4, 5, 6, 7};
  struct by_tournament t;
  assert_ok(by_tournament_init(&t, 8, group_of, order));
  assert_int_equal(t.n_rounds, 7);
  for (uint32_t r = 0; r < 7; r++) assert_int_equal(t.first[r + 1] - t.first[r], 4);
  check(&t, 8, group_of);
  by_tournament_fini(&t);
}

/* Open pairs meet, one of two groups in a round; the others meet those of other groups; no pair meets twice. */
static void test_open_pairs(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (int trial = 0; trial < 50; trial++) {
    uint32_t n = 4 + (uint32_t)by_rng_below(&rng, MOST - 3), group_of[MOST], order[MOST], left = 0;
    uint8_t open[MOST * MOST] = {0};
    bool met[MOST][MOST] = {{false}};
    for (uint32_t i = 0; i < n; i++) {
      group_of[i] = (uint32_t)by_rng_below(&rng, 4);
      order[i] = i;
    }
    for (uint32_t a = 0; a < n; a++)
      for (uint32_t b = a + 1; b < n; b++) left += open[a * n + b] = by_rng_below(&rng, 8) == 0;
    struct by_tournament t;
    assert_ok(by_tournament_init_open(&t, n, group_of, open, order, n * n));
    for (uint32_t r = 0; r < t.n_rounds; r++) {
      bool busy[MOST] = {false}, groups[4][4] = {{false}};
      uint32_t n_open = 0;
      for (uint32_t k = t.first[r]; k < t.first[r + 1]; k++) {
        uint32_t a = t.meetings[k].a, b = t.meetings[k].b, g = group_of[a], h = group_of[b];
        assert_true(a < b && b < n && !busy[a] && !busy[b] && !met[a][b]);
        busy[a] = busy[b] = met[a][b] = true;
        if (open[a * n + b]) {
          assert_false(groups[g][h]);
          groups[g][h] = groups[h][g] = true;
          n_open++;
        } else {
          assert_int_not_equal(g, h);
        }
      }
      assert_true(n_open > 0);
      left -= n_open;
    }
    assert_int_equal(left, 0);
    by_tournament_fini(&t);
  }
}

/* What rank 0 asks of the others while it measures is bounded. */
static void test_experiments(void **state) {
  (void)state;
  const struct by_experiment good = {
      .n = 2, .max_block = 1 << 20, .depth = 16, .warm_up = 0.1, .duration = 5, .margin = 0.01, .late = 0.2};
  const struct by_flow_order orders[] = {{0, 2, 1 << 20}, {2, 0, 1}};
  assert_ok(by_experiment_check(&good, orders, 3, 2));
  assert_ok(by_experiment_check(&(struct by_experiment){0}, NULL, 3, 2));
  struct by_experiment bad[9];
  for (size_t i = 0; i < 9; i++) bad[i] = good;
  bad[0].n = 3;
  bad[1].n = UINT32_MAX;
  bad[2].max_block = (1 << 20) + 1;
  bad[3].depth = 17;
  bad[4].warm_up = 1e9;
  bad[5].duration = NAN;
  bad[6].margin = -1;
  bad[7].late = INFINITY;
  bad[8].first = 17;
  for (size_t i = 0; i < 9; i++) assert_status(by_experiment_check(&bad[i], NULL, 3, 2), BANYAN_ERR_PROTOCOL);
  static const struct by_flow_order wrong[] = {
      {0, 3, 1}, {UINT32_MAX, 1, 1}, {1, 1, 1}, {0, 1, 0}, {0, 1, (1 << 20) + 1}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const struct by_flow_order with[] = {{0, 1, 1}, wrong[i]};
    assert_status(by_experiment_check(&good, with, 3, 2), BANYAN_ERR_PROTOCOL);
    assert_non_null(strstr(banyan_error_text(), "rank 0 asked for a flow from host"));
  }
}

static double rate_of(const struct by_link_tries *tries, int way) {
  bool agreed;
  return by_link_tries_rate(tries, way, &agreed);
}

/* Tries that are late get less, and what is taken late seems faster than the link: neither counts. */
static void test_link_tries(void **state) {
  (void)state;
  struct by_link_tries tries = {0};
  by_link_tries_add(&tries, 12, 92);
  assert_true(by_link_tries_open(&tries) && !by_link_tries_lack(&tries));
  by_link_tries_add(&tries, 95, 1);
  assert_true(by_link_tries_open(&tries)); /* too few */
  by_link_tries_add(&tries, 40, 60);
  assert_false(by_link_tries_open(&tries)); /* 95 there and 92 back */
  assert_true(rate_of(&tries, 0) == 95 && rate_of(&tries, 1) == 95);

  struct by_link_tries wrong = {0};
  by_link_tries_add(&wrong, 120, 50);
  by_link_tries_add(&wrong, 0, 51);
  by_link_tries_add(&wrong, 3, 97);
  assert_true(by_link_tries_open(&wrong)); /* 50 and 51 agree, but much less than 97 and 120 */
  assert_true(rate_of(&wrong, 0) == 97 && rate_of(&wrong, 1) == 97);
  by_link_tries_add(&wrong, 2000, 110);
  assert_true(by_link_tries_open(&wrong)); /* 120 and 110 */
  by_link_tries_add(&wrong, 109, 0);
  assert_false(by_link_tries_open(&wrong));
  assert_true(rate_of(&wrong, 0) == 110);
}

/* A link whose ways differ takes more tries, of each. */
static void test_unequal_ways(void **state) {
  (void)state;
  struct by_link_tries tries = {0};
  for (int i = 0; i < 3; i++) {
    by_link_tries_add(&tries, 100, 20);
    assert_true(by_link_tries_open(&tries));
  }
  by_link_tries_add(&tries, 70, 20.5);
  assert_false(by_link_tries_open(&tries));
  assert_true(rate_of(&tries, 0) == 100 && rate_of(&tries, 1) == 20.5);

  struct by_link_tries dead = {0};
  for (int i = 0; i < BY_LINK_TRIES; i++) by_link_tries_add(&dead, 100, 0);
  assert_true(by_link_tries_open(&dead) && by_link_tries_lack(&dead));
  assert_true(rate_of(&dead, 0) == 100 && rate_of(&dead, 1) == 0);
}

/* Links of one kind differ by what was measured, here by up to 8 % and each by little from another: they become alike.
 * Those of another kind stay what they are, and a chain of ever faster links does not become one. */
static void test_alike(void **state) {
  static const char *const hosts[] = {"a", "b", "c", "d"};
  static const struct by_survey_link links[] = {
      {0, 1, 100e6, 97e6, 1e-5}, {1, 2, 103e6, 95.5e6, 1e-5}, {2, 3, 48e6, 49e6, 1e-5}, {3, 0, 99e6, 101e6, 1e-5}};
  struct by_survey_link chain[4];
  struct by_topology *topology;
  (void)state;
  assert_ok(by_survey_infer_links(4, links, 4, "", hosts, &topology));
  for (uint32_t l = 0; l < 4; l++)
    for (int way = 0; way < 2; way++)
      assert_float_equal(topology->links[l].capacity[way].all / 1e6, l == 2 ? 48.5 : 99.3, 0.01);
  by_topology_destroy(topology);
  for (uint32_t i = 0; i < 4; i++)
    chain[i] = (struct by_survey_link){i, (i + 1) % 4, 100e6 * pow(1.05, 2 * i), 0, 1e-5};
  for (uint32_t i = 0; i < 4; i++) chain[i].back = 1.05 * chain[i].there;
  assert_ok(by_survey_infer_links(4, chain, 4, "", hosts, &topology));
  for (uint32_t l = 0; l < 4; l++)
    assert_true(fabs(log(topology->links[l].capacity[BY_AB].all / chain[l].there)) <= 0.1);
  assert_true(topology->links[3].capacity[BY_BA].all > 1.2 * topology->links[0].capacity[BY_AB].all);
  by_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_misuse),          cmocka_unit_test(test_names),        cmocka_unit_test(test_two_hosts),
      cmocka_unit_test(test_nothing_arrives), cmocka_unit_test(test_circle),       cmocka_unit_test(test_groups),
      cmocka_unit_test(test_two_groups),      cmocka_unit_test(test_open_pairs),   cmocka_unit_test(test_experiments),
      cmocka_unit_test(test_link_tries),      cmocka_unit_test(test_unequal_ways), cmocka_unit_test(test_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
