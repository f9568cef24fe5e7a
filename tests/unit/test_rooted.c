/* Directed trees: the lightest ones against all trees, packings against the bound that no algorithm exceeds, and the
 * classes that a plan gets from them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <banyan/types.h>

#include "check.h"

#include "collective.h"
#include "collective_bound.h"
#include "directed.h"
#include "own_classes.h"
#include "plan.h"
#include "plan_make.h"
#include "planner.h"
#include "rng.h"
#include "text.h"
#include "topology.h"
#include "topology_formats.h"
#include "topology_make.h"

enum { MOST = 64 };
static const double gbit = 1e9;
static const enum banyan_collective all[] = {BANYAN_ALLGATHER, BANYAN_REDUCE_SCATTER, BANYAN_BROADCAST, BANYAN_REDUCE};

/* --- lightest trees --- */

/* The next choice of an arc into each host but the root; false: that was the last. */
static bool next_choice(const struct by_directed *net, uint32_t root, uint32_t *arc) {
  for (uint32_t v = 0; v < net->n; v++) {
    if (v == root) continue;
    for (arc[v]++; arc[v] < net->n_arcs && net->arcs[arc[v]].to != v;) arc[v]++;
    if (arc[v] < net->n_arcs) return true;
    for (arc[v] = 0; net->arcs[arc[v]].to != v;) arc[v]++;
  }
  return false;
}

static bool is_tree(const struct by_directed *net, uint32_t root, const uint32_t *arc) {
  for (uint32_t v = 0; v < net->n; v++) {
    uint32_t u = v, steps = 0;
    while (u != root && steps++ < net->n) u = net->arcs[arc[u]].from;
    if (u != root) return false;
  }
  return true;
}

static double lightest_of_all(const struct by_directed *net, uint32_t root, const double *weight) {
  uint32_t arc[MOST];
  double least = INFINITY;
  for (uint32_t v = 0; v < net->n; v++)
    for (arc[v] = 0; v != root && net->arcs[arc[v]].to != v;) arc[v]++;
  do {
    double sum = 0;
    for (uint32_t v = 0; v < net->n; v++) sum += v == root ? 0 : weight[arc[v]];
    if (sum < least && is_tree(net, root, arc)) least = sum;
  } while (next_choice(net, root, arc));
  return least;
}

/* A ring of hosts, so that all are reached, and chords; rates differ by direction. */
static struct by_topology *draw(struct by_rng *rng, uint32_t n) {
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_link *link;
  char name[16];
  assert_ok(by_topology_builder_init(&builder, "random"));
  for (uint32_t v = 0; v < n; v++) {
    snprintf(name, sizeof name, "h%u", v);
    assert_ok(by_topology_builder_add(&builder, BY_NODE_HOST, name, NULL));
  }
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t w = v + 1; w < n; w++) {
      if (w != v + 1 && (v || w + 1 < n) && by_rng_below(rng, 2)) continue;
      assert_ok(by_topology_builder_add_link(&builder, v, w, gbit, 0, &link));
      for (int way = 0; way < 2; way++) link->capacity[way].all = gbit * (double)(1 + by_rng_below(rng, 9));
    }
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  return topology;
}

static void test_lightest_tree(void **state) {
  (void)state;
  uint64_t first = check_first_seed();
  for (uint64_t seed = first; seed < first + check_seeds(200); seed++) {
    struct by_rng rng;
    struct by_directed net;
    struct by_arborescence search;
    double weight[MOST];
    by_rng_init(&rng, seed);
    uint32_t n = 2 + (uint32_t)by_rng_below(&rng, 4), hosts[] = {0, 1, 2, 3, 4};
    struct by_topology *t = draw(&rng, n);
    assert_ok(by_directed_init(&net, t, hosts, n, false));
    assert_ok(by_arborescence_init(&search, &net));
    for (uint32_t a = 0; a < net.n_arcs; a++) weight[a] = (double)by_rng_below(&rng, 6);
    for (uint32_t root = 0; root < n; root++) {
      double got = by_arborescence_find(&search, root, weight), wanted = lightest_of_all(&net, root, weight);
      if (got != wanted) fail_msg("seed %lu, root %u: %g, not %g", (unsigned long)seed, root, got, wanted);
      search.arc[root] = 0;
      assert_true(is_tree(&net, root, search.arc));
    }
    by_arborescence_fini(&search);
    by_directed_fini(&net);
    by_topology_destroy(t);
  }
}

/* --- packings --- */

static uint32_t find_hosts(const struct by_topology *topology, uint32_t *hosts) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++)
    if (topology->nodes[v].takes_part) hosts[n++] = v;
  assert_true(n <= MOST);
  return n;
}

static double bound_of(const struct by_topology *topology, enum banyan_collective collective, const double *blocks,
                       uint32_t root) {
  struct by_collective_bound bound;
  uint32_t hosts[MOST], n = find_hosts(topology, hosts);
  const struct by_bound_request request = {collective, hosts, n, blocks, root};
  assert_ok(by_collective_bound_find(topology, &request, &bound));
  double rate = bound.rate;
  by_collective_bound_fini(&bound);
  return rate;
}

/* Trees from their roots to all hosts, whose shares of each owner sum to 1. */
static void check_packing(const struct by_rooted_packing *packing, uint32_t n, const double *part) {
  double sum[MOST] = {0};
  for (uint32_t t = 0; t < packing->n_trees; t++) {
    const struct by_rooted_tree *tree = &packing->trees[t];
    assert_true(tree->share > 0 && part[tree->root] > 0);
    sum[tree->root] += tree->share;
    for (uint32_t v = 0; v < n; v++) {
      uint32_t u = v, steps = 0;
      while (u != tree->root && steps++ < n) u = tree->parent[u];
      assert_int_equal(u, tree->root);
    }
  }
  for (uint32_t v = 0; v < n; v++)
    if (fabs(sum[v] - (part[v] > 0)) > 1e-9) fail_msg("shares of %u sum to %g", v, sum[v]);
}

/* What trees carry in an allgather or from one root. */
static double pack(const struct by_topology *topology, bool reversed, const double *part) {
  struct by_directed net;
  struct by_rooted_packing packing;
  uint32_t hosts[MOST], n = find_hosts(topology, hosts);
  assert_ok(by_directed_init(&net, topology, hosts, n, reversed));
  assert_ok(by_rooted_pack(&net, part, &packing));
  check_packing(&packing, n, part);
  double throughput = packing.throughput;
  assert_true(throughput <= packing.bound * (1 + 1e-9));
  by_rooted_packing_fini(&packing);
  by_directed_fini(&net);
  return throughput;
}

static void expect_near(const char *what, uint64_t seed, double got, double bound) {
  if (got > bound * (1 + 1e-9) || got < 0.97 * bound)
    fail_msg("%s, seed %lu: %g of at most %g", what, (unsigned long)seed, got, bound);
}

/* Among hosts alone the best packing is equal to the bound (Edmonds), in both directions and with unequal blocks. */
static void test_packings_reach_the_bound(void **state) {
  (void)state;
  uint64_t first = check_first_seed();
  for (uint64_t seed = first; seed < first + check_seeds(40); seed++) {
    struct by_rng rng;
    double blocks[MOST], part[MOST], only[MOST] = {0}, sum = 0;
    by_rng_init(&rng, seed);
    uint32_t n = 2 + (uint32_t)by_rng_below(&rng, 6), root = (uint32_t)by_rng_below(&rng, n);
    struct by_topology *t = draw(&rng, n);
    for (uint32_t h = 0; h < n; h++) sum += blocks[h] = (double)(by_rng_below(&rng, 4) + (h == 0));
    for (uint32_t h = 0; h < n; h++) part[h] = blocks[h] / sum;
    only[root] = 1;
    expect_near("allgather", seed, pack(t, false, part), bound_of(t, BANYAN_ALLGATHER, blocks, 0));
    expect_near("reduce_scatter", seed, pack(t, true, part), bound_of(t, BANYAN_REDUCE_SCATTER, blocks, 0));
    expect_near("broadcast", seed, pack(t, false, only), bound_of(t, BANYAN_BROADCAST, NULL, root));
    expect_near("reduce", seed, pack(t, true, only), bound_of(t, BANYAN_REDUCE, NULL, root));
    by_topology_destroy(t);
  }
}

/* --- plans --- */

/* The class of each collective against its bound; the rate as it is promised, and as its traffic has it. Takes the
 * topology. */
static void expect_plan(const char *text, struct by_topology *topology, double least) {
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  double part[MOST];
  assert_ok(by_planner_run("plan", topology, &options, &planned));
  uint32_t n = planned.plan->n_ranks;
  for (uint32_t r = 0; r < n; r++) part[r] = 1.0 / n;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const struct by_class *class_ = by_plan_class_of(planned.plan, all[i], UINT64_MAX);
    double rate, bound = bound_of(topology, all[i], NULL, 1);
    assert_ok(by_class_rate(topology, planned.graph->node, planned.plan, class_, all[i], part, 1, &rate));
    if (rate < least * bound || rate > bound * (1 + 1e-9))
      fail_msg("%s, %s: %g of at most %g", text, banyan_collective_name(all[i]), rate, bound);
    if (class_->collectives && (class_->throughput > rate * (1 + 1e-9) || class_->bound < rate * (1 - 1e-9)))
      fail_msg("%s, %s: promises %g of %g, but is %g", text, banyan_collective_name(all[i]), class_->throughput,
               class_->bound, rate);
  }
  by_planned_fini(&planned);
  by_topology_destroy(topology);
}

static void test_known_networks(void **state) {
  (void)state;
  static const char *const texts[] = {
      "ring:5",
      "ring:8,link=1g",
      "torus:4x4",
      "star:4,nic=1g/1g/1g/200m",
      "clos:racks=4,hosts=4,nic=1g,oversub=4",
      "random:12,degree=4,link=1g",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct by_topology *topology;
    assert_ok(by_topology_synthesise(texts[i], &topology));
    expect_plan(texts[i], topology, 0.98);
  }
}

/* The example of ForestColl (Zhao et al. 2024), whose bound test_collective_bound.c knows: two boxes of four hosts,
 * each at a switch of its own and at one that all share. Trees reach its optimum. Packets within a box go over the
 * box's switch, which is nearer. */
static void test_forestcoll(void **state) {
  (void)state;
  struct by_topology_builder builder;
  struct by_topology *topology;
  char name[16];
  uint32_t node;
  assert_ok(by_topology_builder_init(&builder, "boxes"));
  for (int v = 0; v < 11; v++) {
    snprintf(name, sizeof name, "n%d", v);
    assert_ok(by_topology_builder_add(&builder, v < 8 ? BY_NODE_HOST : BY_NODE_SWITCH, name, &node));
  }
  for (uint32_t h = 0; h < 8; h++) {
    assert_ok(by_topology_builder_add_link(&builder, h, 8 + h / 4, 10 * gbit, 1e-6, NULL));
    assert_ok(by_topology_builder_add_link(&builder, h, 10, gbit, 5e-6, NULL));
  }
  assert_ok(by_topology_builder_end(&builder, BANYAN_OK, NULL, &topology));
  assert_true(fabs(bound_of(topology, BANYAN_ALLGATHER, NULL, 0) / (8 * gbit) - 1) < 1e-9);
  expect_plan("boxes", topology, 0.98);
}

static struct by_plan *plan_of(const char *text, const double *ranks_on, uint32_t n) {
  struct by_topology *topology;
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  assert_ok(by_topology_synthesise(text, &topology));
  options.ranks_on = ranks_on;
  assert_ok(by_planner_run("plan", topology, &options, &planned));
  struct by_plan *plan = planned.plan;
  assert_int_equal(plan->n_ranks, n);
  planned.plan = NULL;
  by_planned_fini(&planned);
  by_topology_destroy(topology);
  return plan;
}

/* Small buffers use the trees of every collective, and a plan that is printed has all that it had. */
static void test_sizes_and_text(void **state) {
  (void)state;
  struct by_plan *plan = plan_of("star:4,nic=1g/1g/1g/200m", NULL, 4), *read;
  struct by_text text = {0};
  const struct by_class *large = by_plan_class_of(plan, BANYAN_ALLGATHER, 1 << 20);
  assert_true(large->per_root && large->above > 0);
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_REDUCE_SCATTER, 1 << 20), large); /* both directions are alike */
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_ALLGATHER, large->above), by_plan_class(plan, large->above));
  assert_ptr_equal(by_plan_class_of(plan, BANYAN_ALLREDUCE, 1 << 20), by_plan_class(plan, 1 << 20));
  by_plan_print(plan, &text);
  assert_ok(by_plan_parse("text", by_text_get(&text), text.length, &read));
  assert_int_equal(read->version, plan->version);
  assert_int_equal(read->n_own, plan->n_own);
  for (uint32_t i = 0; i < plan->n_own; i++) {
    const struct by_class *a = &plan->classes[plan->n_classes + i], *b = &read->classes[read->n_classes + i];
    assert_int_equal(a->collectives, b->collectives);
    assert_int_equal(a->above, b->above);
    assert_int_equal(a->per_root, b->per_root);
    assert_true(a->throughput == b->throughput && a->bound == b->bound);
  }
  by_text_fini(&text);
  by_plan_destroy(read);
  by_plan_destroy(plan);
}

/* What a manager plans for a job has the same trees, and helpers are in none of them. */
static void test_shared_clusters(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_planner_options options = by_planner_defaults();
  struct by_planned planned;
  const uint32_t helper = 4;
  double rate, part[] = {0.25, 0.25, 0.25, 0.25};
  options.method = BY_PLANNER_CLUSTER;
  options.weighing = BY_PLANNER_WEIGH_SMALL;
  options.choice.helpers = &helper;
  options.choice.n_helpers = 1;
  assert_ok(by_topology_synthesise("star:4,nic=1g/1g/1g/200m,helpers=1", &topology));
  assert_ok(by_planner_run("cluster", topology, &options, &planned));
  const struct by_class *class_ = by_plan_class_of(planned.plan, BANYAN_REDUCE_SCATTER, UINT64_MAX);
  assert_true(class_->per_root);
  assert_ok(by_class_rate(topology, planned.graph->node, planned.plan, class_, BANYAN_REDUCE_SCATTER, part, 0, &rate));
  expect_near("reduce_scatter", 0, rate, bound_of(topology, BANYAN_REDUCE_SCATTER, NULL, 0));
  by_planned_fini(&planned);
  by_topology_destroy(topology);
}

/* Two ranks on one host, one on each of two others: over ranks, each rank owns trees of its host. */
static void test_several_ranks_on_a_host(void **state) {
  (void)state;
  const double ranks_on[] = {2, 1, 1};
  const uint32_t host_of[] = {0, 1, 0, 2};
  struct by_plan *hosts = plan_of("star:3,nic=1g/500m/500m", ranks_on, 3), *plan;
  assert_ok(by_plan_expand(hosts, host_of, 4, &plan));
  const struct by_class *class_ = by_plan_class_of(plan, BANYAN_ALLGATHER, UINT64_MAX);
  assert_true(class_->per_root);
  assert_true(class_->throughput == hosts->classes[hosts->n_classes].throughput);
  for (uint32_t r = 0; r < 4; r++) {
    double sum = 0;
    for (uint32_t g = 0; g < class_->n_groups; g++)
      if (by_group_is_of(&class_->groups[g], r)) sum += class_->groups[g].share;
    assert_true(fabs(sum - 1) < 1e-6);
  }
  by_plan_destroy(plan);
  by_plan_destroy(hosts);
}

/* Above the size for which trees are packed, the best candidate serves; above that of candidates, none does. */
static void test_large_networks(void **state) {
  (void)state;
  struct by_plan *plan = plan_of("clos:racks=5,hosts=8,nic=1g,oversub=4", NULL, 40);
  const struct by_class *class_ = by_plan_class_of(plan, BANYAN_BROADCAST, UINT64_MAX);
  for (uint32_t i = 0; i < plan->n_own; i++) assert_false(plan->classes[plan->n_classes + i].per_root);
  assert_true(class_->collectives >> BANYAN_BROADCAST & 1);
  by_plan_destroy(plan);
  plan = plan_of("star:130,nic=1g", NULL, 130);
  assert_int_equal(plan->n_own, 0);
  by_plan_destroy(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lightest_tree),           cmocka_unit_test(test_packings_reach_the_bound),
      cmocka_unit_test(test_known_networks),          cmocka_unit_test(test_forestcoll),
      cmocka_unit_test(test_sizes_and_text),          cmocka_unit_test(test_shared_clusters),
      cmocka_unit_test(test_several_ranks_on_a_host), cmocka_unit_test(test_large_networks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
