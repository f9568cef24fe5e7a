/* Random topologies with every possible feature, and one of every kind, are the same after printing and reading. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "rng.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_make.h"
#include "topology_same.h"

enum { ROUNDS = 500, MOST_NODES = 30, MOST_LINKS = 80 };

static double any_of(struct by_rng *rng, const double *values, uint32_t n) {
  return values[by_rng_below(rng, n)];
}

static bool chance(struct by_rng *rng) {
  return by_rng_below(rng, 3) == 0;
}

/* Returns rates that people write, and any others. */
static double rate(struct by_rng *rng) {
  static const double usual[] = {1, 1e9, 2.5e9, 1e10, 4.5e7, 1.25, 1e18};
  return chance(rng) ? by_rng_unit(rng) * 1e11 + 1 : any_of(rng, usual, 7);
}

static void any_capacity(struct by_rng *rng, struct by_capacity *out, bool may_be_endless) {
  if (!may_be_endless || chance(rng)) out->all = rate(rng);
  if (chance(rng)) out->used = isinf(out->all) ? rate(rng) : out->all * by_rng_unit(rng);
}

static void any_node(struct by_rng *rng, struct by_topology_builder *builder, uint32_t i) {
  static const char *const prefixes[] = {"", "host ", "\xc3\xa9", "\"quoted\" \\ ", "\xf0\x9f\x8c\xb3", "a/b.c:"};
  char name[64];
  bool host = i == 0 || !chance(rng);
  snprintf(name, sizeof name, "%s%u", prefixes[by_rng_below(rng, 6)], i);
  assert_ok(by_topology_builder_add(builder, host ? BY_NODE_HOST : BY_NODE_SWITCH, name, NULL));
  struct by_node *node = by_topology_builder_node(builder, i);
  node->takes_part = host && (i == 0 || !chance(rng));
  node->may_help = host && chance(rng);
  node->aggregates = !host && chance(rng);
  node->memory = host ? 0 : by_rng_next(rng) >> (1 + by_rng_below(rng, 63));
  if (chance(rng)) assert_ok(by_topology_builder_keep(builder, prefixes[by_rng_below(rng, 6)], &node->group));
  any_capacity(rng, &node->out, true);
  any_capacity(rng, &node->in, true);
  if (chance(rng)) node->x = (by_rng_unit(rng) - 0.5) * 360;
  node->y = isnan(node->x) ? NAN : (double)by_rng_below(rng, 90) - 45;
}

static void any_link(struct by_rng *rng, struct by_topology_builder *builder, uint32_t a, uint32_t b) {
  static const double delays[] = {0, 0.02, 1e-6, 1.0 / 3};
  struct by_link *link;
  assert_ok(by_topology_builder_add_link(builder, a, b, 1, any_of(rng, delays, 4), &link));
  any_capacity(rng, &link->capacity[BY_AB], false);
  any_capacity(rng, &link->capacity[BY_BA], false);
  if (chance(rng)) link->capacity[BY_BA] = link->capacity[BY_AB];
  if (chance(rng)) link->loss = by_rng_unit(rng);
  for (int i = 0; i < 2; i++)
    if (chance(rng)) assert_ok(by_topology_builder_keep(builder, "eth\"0", &link->port[i]));
}

/* Returns false if the result is invalid because the participants do not reach each other. */
static bool any_topology(struct by_rng *rng, struct by_topology **out) {
  struct by_topology_builder builder;
  uint32_t n = 1 + (uint32_t)by_rng_below(rng, MOST_NODES), links = n > 1 ? (uint32_t)by_rng_below(rng, MOST_LINKS) : 0;
  assert_ok(by_topology_builder_init(&builder, chance(rng) ? "" : "a \"name\""));
  for (uint32_t i = 0; i < n; i++) any_node(rng, &builder, i);
  for (uint32_t i = 1; i < n; i++) any_link(rng, &builder, (uint32_t)by_rng_below(rng, i), i);
  for (uint32_t i = 0; i < links; i++) {
    uint32_t a = (uint32_t)by_rng_below(rng, n), b = (uint32_t)by_rng_below(rng, n);
    if (a != b) any_link(rng, &builder, a, b);
  }
  enum banyan_status status = by_topology_builder_end(&builder, BANYAN_OK, NULL, out);
  if (status != BANYAN_OK) assert_non_null(strstr(banyan_error_text(), "reach"));
  return status == BANYAN_OK;
}

static void assert_round_trip(const struct by_topology *topology) {
  struct by_topology *again;
  struct by_text text;
  by_text_init(&text);
  by_topology_print(topology, &text);
  assert_false(text.failed);
  assert_ok(by_topology_parse("again", by_text_get(&text), text.length, &again));
  if (!same_topology(topology, again)) fail_msg("not the same when read again: %s", by_text_get(&text));
  by_topology_destroy(again);
  by_text_fini(&text);
}

static void test_any(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 20);
  uint32_t made = 0;
  for (int i = 0; i < (int)check_seeds(ROUNDS); i++) {
    struct by_topology *topology;
    if (!any_topology(&rng, &topology)) continue;
    assert_round_trip(topology);
    by_topology_destroy(topology);
    made++;
  }
  assert_true(made > check_seeds(ROUNDS) / 2);
}

static void test_kinds(void **state) {
  (void)state;
  static const char *const texts[] = {"star:5,nic=1g/200m,helpers=2",
                                      "clos:3x4,oversub=3,helpers=2,adds=all",
                                      "fattree:4",
                                      "tree:2x3,adds=leaf",
                                      "sites:3x2,rtt=20ms,helpers=1",
                                      "mesh:5,nic=3g/1g",
                                      "ring:5",
                                      "line:4",
                                      "torus:3x4x2",
                                      "random:20,degree=5"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct by_topology *topology;
    assert_ok(by_topology_synthesise(texts[i], &topology));
    assert_round_trip(topology);
    by_topology_destroy(topology);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any),
      cmocka_unit_test(test_kinds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
