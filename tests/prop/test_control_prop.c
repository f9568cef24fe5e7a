/* The parts of the control tree and the ring are compared with brute force: assignments, and rings of small graphs.
 * Trees in random topologies must keep their limits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "control_tree.h"
#include "rng.h"
#include "topology_formats.h"

enum { PROBLEMS = 1500, MOST = 4, GRAPHS = 3000, TREES = 60 };

static uint32_t below(struct by_rng *rng, uint32_t n) {
  return (uint32_t)by_rng_below(rng, n);
}

/* --- assignments --- */

struct problem {
  uint32_t supply[MOST], demand[MOST], flow[MOST * MOST];
  struct by_assign_pair pairs[MOST * MOST];
  struct by_assign assign;
};

static void random_problem(struct by_rng *rng, struct problem *p) {
  uint32_t density = 1 + below(rng, 4), costs = 1 + below(rng, 6);
  p->assign = (struct by_assign){.n_from = 1 + below(rng, MOST), .n_to = 1 + below(rng, MOST)};
  p->assign.supply = p->supply;
  p->assign.demand = p->demand;
  p->assign.pairs = p->pairs;
  for (uint32_t i = 0; i < MOST; i++) {
    p->supply[i] = below(rng, 4);
    p->demand[i] = below(rng, 3);
  }
  for (uint32_t i = 0; i < p->assign.n_from; i++)
    for (uint32_t j = 0; j < p->assign.n_to; j++)
      if (below(rng, 4) < density)
        p->pairs[p->assign.n_pairs++] = (struct by_assign_pair){.from = i, .to = j, .cost = below(rng, costs)};
}

struct best {
  uint32_t taken, cost;
};

/* Tries all flows of the pairs from `at` on. */
static void try_all(struct problem *p, uint32_t at, struct best now, struct best *best) {
  if (at == p->assign.n_pairs) {
    if (now.taken > best->taken || (now.taken == best->taken && now.cost < best->cost)) *best = now;
    return;
  }
  const struct by_assign_pair *pair = &p->pairs[at];
  uint32_t most = p->supply[pair->from] < p->demand[pair->to] ? p->supply[pair->from] : p->demand[pair->to];
  for (uint32_t x = 0; x <= most; x++) {
    p->supply[pair->from] -= x;
    p->demand[pair->to] -= x;
    try_all(p, at + 1, (struct best){now.taken + x, now.cost + x * pair->cost}, best);
    p->supply[pair->from] += x;
    p->demand[pair->to] += x;
  }
}

static void test_assignments(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 1);
  for (int i = 0; i < (int)check_seeds(PROBLEMS); i++) {
    struct problem p;
    struct best best = {0, 0}, got = {0, 0};
    uint32_t from[MOST] = {0}, to[MOST] = {0};
    random_problem(&rng, &p);
    assert_ok(by_assign_solve(&p.assign, p.flow));
    for (uint32_t k = 0; k < p.assign.n_pairs; k++) {
      from[p.pairs[k].from] += p.flow[k];
      to[p.pairs[k].to] += p.flow[k];
      got.taken += p.flow[k];
      got.cost += p.flow[k] * p.pairs[k].cost;
    }
    for (uint32_t k = 0; k < MOST; k++) assert_true(from[k] <= p.supply[k] && to[k] <= p.demand[k]);
    try_all(&p, 0, (struct best){0, 0}, &best);
    assert_int_equal(got.taken, best.taken);
    assert_int_equal(got.cost, best.cost);
  }
}

/* There are more pairs than are assigned at least cost: as many are still taken. Taker i may take only i and above. */
static void test_large_assignment(void **state) {
  (void)state;
  enum { N = 220 };
  static struct by_assign_pair pairs[N * N];
  static uint32_t ones[N], flow[N * N];
  struct by_assign assign = {.n_from = N, .n_to = N, .supply = ones, .demand = ones, .pairs = pairs};
  for (uint32_t i = 0; i < N; i++) {
    ones[i] = 1;
    for (uint32_t j = i; j < N; j++) pairs[assign.n_pairs++] = (struct by_assign_pair){i, j, N - (j - i)};
  }
  assert_true(assign.n_pairs > BY_ASSIGN_EXACT);
  assert_ok(by_assign_solve(&assign, flow));
  for (uint32_t i = 0; i < assign.n_pairs; i++) assert_int_equal(flow[i], pairs[i].from == pairs[i].to);
}

/* --- rings --- */

enum { SMALL = 8 };

static struct by_adjacency random_adjacency(struct by_rng *rng, uint32_t n) {
  struct by_adjacency graph;
  assert_ok(by_adjacency_init(&graph, n));
  uint32_t density = 2 + below(rng, 7);
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t w = 0; w < v; w++)
      if (below(rng, 10) < density) by_adjacency_join(&graph, v, w);
  return graph;
}

/* Returns the least length of a ring that continues after order[0 .. n_done - 1]. */
static float shortest_ring(const struct by_adjacency *graph, const float *length, uint32_t *order, uint32_t n_done,
                           float so_far) {
  uint32_t n = graph->n, end = order[n_done - 1];
  float least = INFINITY;
  if (n_done >= n) return by_adjacent(graph, end, order[0]) ? so_far + length[end * n + order[0]] : INFINITY;
  for (uint32_t v = 0; v < n; v++) {
    bool used = false;
    for (uint32_t i = 0; i < n_done; i++) used = used || order[i] == v;
    if (used || !by_adjacent(graph, end, v)) continue;
    order[n_done] = v;
    least = fminf(least, shortest_ring(graph, length, order, n_done + 1, so_far + length[end * n + v]));
  }
  return least;
}

static float length_of(const uint32_t *order, const float *length, uint32_t n) {
  float sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += length[order[i] * n + order[(i + 1) % n]];
  return sum;
}

static void check_ring(const struct by_adjacency *graph, const uint32_t *order) {
  bool seen[64] = {false};
  assert_true(by_hamilton_is_ring(graph, order));
  for (uint32_t i = 0; i < graph->n; i++) {
    assert_false(seen[order[i]]);
    seen[order[i]] = true;
  }
}

/* Compares the results of each part for a small graph with brute force. */
static void check_small(struct by_rng *rng, uint64_t seed) {
  uint32_t n = 3 + below(rng, SMALL - 2), order[2 * SMALL] = {0};
  struct by_adjacency graph = random_adjacency(rng, n);
  struct by_hamilton answer;
  float length[SMALL * SMALL];
  bool found;
  for (uint32_t v = 0; v < n; v++)
    for (uint32_t w = 0; w <= v; w++) length[v * n + w] = length[w * n + v] = (float)below(rng, 100);
  float least = shortest_ring(&graph, length, order, 1, 0);
  for (uint32_t v = 0; v < n; v++) order[v] = v;
  assert_ok(by_hamilton_refute(&graph, &answer));
  assert_true(answer.answer == BY_HAMILTON_UNKNOWN || isinf(least));
  if (isfinite(least)) {
    assert_ok(by_hamilton_rotate(&graph, seed, order, &found));
    assert_true(found);
    check_ring(&graph, order);
  }
  assert_ok(by_hamilton_find(&graph, length, seed, order, &answer));
  assert_int_equal(answer.answer, isinf(least) ? BY_HAMILTON_NO : BY_HAMILTON_YES);
  if (isfinite(least)) {
    check_ring(&graph, order);
    assert_true(fabsf(length_of(order, length, n) - least) < 0.5F);
  }
  by_adjacency_fini(&graph);
}

static void test_small_rings(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 2);
  for (uint64_t i = 0; i < check_seeds(GRAPHS); i++) check_small(&rng, i);
}

/* One graph has a hidden ring of 60 and few more edges; in the other one, too few edges leave the larger side. */
static void test_larger_rings(void **state) {
  (void)state;
  enum { N = 60 };
  struct by_rng rng;
  by_rng_init(&rng, 3);
  for (uint64_t i = 0; i < 40; i++) {
    struct by_adjacency graph;
    struct by_hamilton answer;
    uint32_t order[N];
    assert_ok(by_adjacency_init(&graph, N));
    for (uint32_t v = 0; v < N; v++) {
      by_adjacency_join(&graph, v * 7 % N, (v + 1) * 7 % N);
      by_adjacency_join(&graph, below(&rng, N), below(&rng, N));
      order[v] = v;
    }
    assert_ok(by_hamilton_find(&graph, NULL, i, order, &answer));
    assert_int_equal(answer.answer, BY_HAMILTON_YES);
    check_ring(&graph, order);
    by_adjacency_fini(&graph);
    assert_ok(by_adjacency_init(&graph, N + 1));
    for (uint32_t v = 0; v < N / 2; v++)
      for (uint32_t w = N / 2; w <= N; w++) by_adjacency_join(&graph, v, w);
    assert_ok(by_hamilton_refute(&graph, &answer));
    assert_int_equal(answer.reason, BY_HAMILTON_SIDES);
    by_adjacency_fini(&graph);
  }
}

/* --- trees --- */

static void check_tree(const struct by_controller_trees *control, const struct by_control_limits *asked) {
  const struct by_control_tree *tree = control->tree;
  uint32_t children[256] = {0};
  for (uint32_t r = 0; r < tree->n; r++) {
    uint32_t depth = 0;
    for (uint32_t v = r; v != tree->root; v = tree->parent[v]) assert_true(++depth <= tree->kept.height);
    if (r != tree->root) assert_true(++children[tree->parent[r]] <= tree->kept.fan_out);
    assert_true(by_hops_between(&control->near, r, tree->parent[r]) <= tree->kept.distance);
  }
  assert_true(tree->higher || !asked->height || tree->kept.height == asked->height);
  assert_true(tree->farther || !(asked->distance > 0) || tree->kept.distance == asked->distance);
  assert_true(!asked->fan_out || tree->kept.fan_out == asked->fan_out);
}

static void test_trees(void **state) {
  (void)state;
  struct by_rng rng;
  by_rng_init(&rng, 4);
  for (uint32_t i = 0; i < (uint32_t)check_seeds(TREES); i++) {
    char text[128];
    struct by_topology *topology;
    struct by_controller_trees control, again;
    struct by_control_options options = {.seed = i};
    if (i % 2)
      snprintf(text, sizeof text, "random:%u,degree=%u,seed=%u", 6 + below(&rng, 100), 2 + below(&rng, 3), i);
    else
      snprintf(text, sizeof text, "clos:racks=%u,hosts=%u", 1 + below(&rng, 12), 2 + below(&rng, 12));
    options.limits.fan_out = below(&rng, 6);
    options.limits.height = below(&rng, 6);
    options.limits.distance = below(&rng, 5);
    assert_ok(by_topology_named(text, &topology));
    assert_ok(by_control_make(topology, &options, &control));
    assert_ok(by_control_make(topology, &options, &again));
    check_tree(&control, &options.limits);
    assert_memory_equal(control.tree->parent, again.tree->parent, control.tree->n * sizeof *control.tree->parent);
    assert_memory_equal(control.order, again.order, control.tree->n * sizeof *control.order);
    by_control_fini(&control);
    by_control_fini(&again);
    by_topology_destroy(topology);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_assignments), cmocka_unit_test(test_large_assignment),
      cmocka_unit_test(test_small_rings), cmocka_unit_test(test_larger_rings),
      cmocka_unit_test(test_trees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
