/* Packings: the pool of their trees, what the check rejects, and exact and approximate maximum packings. */
#include "packing.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "graph.h"
#include "graph_limits.h"
#include "packing_check.h"
#include "rates.h"
#include "rng.h"
#include "topology_data.h"
#include "topology_formats.h"

/* A triangle has links of 10, 20 and 30, and a fourth, optional vertex behind vertex 2. */
static struct by_graph *triangle(void) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 3, 4);
  by_graph_add_link(&builder, 0, 1, 10, 0);
  by_graph_add_link(&builder, 1, 2, 20, 0);
  by_graph_add_link(&builder, 2, 0, 30, 0);
  by_graph_add_link(&builder, 2, 3, 5, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

static void test_pool(void **state) {
  (void)state;
  enum { TREES = 3000, SIZE = 3 };
  struct by_graph *graph = triangle();
  struct by_pool pool;
  uint32_t t;
  by_pool_init(&pool, graph);
  for (uint32_t round = 0; round < 2; round++)
    for (uint32_t i = 0; i < TREES; i++) {
      assert_ok(by_pool_add(&pool, (const uint32_t[]){i % 7, 10 + i, 5000 + i % 3}, SIZE - i % 2, &t));
      assert_int_equal(t, i);
    }
  assert_int_equal(pool.n_trees, TREES);
  for (uint32_t i = 0; i < TREES; i++) {
    assert_int_equal(pool.trees[i]->n, SIZE - i % 2);
    assert_int_equal(pool.trees[i]->edges[1], 10 + i);
  }
  by_pool_fini(&pool);
  by_graph_destroy(graph);
}

/* The trees 0-1-2, 1-2-0 and 2-0-1 at 1 : 0 : 3 load the third link (30) by 3 and the first (10) by 4. */
static struct by_packing *packed(const struct by_graph *graph) {
  static const uint32_t trees[][2] = {{0, 1}, {1, 2}, {0, 2}};
  static const double rate[] = {1, 0, 3};
  struct by_pool pool;
  struct by_packing *packing;
  uint32_t t;
  by_pool_init(&pool, graph);
  for (int i = 0; i < 3; i++) assert_ok(by_pool_add(&pool, trees[i], 2, &t));
  assert_ok(by_packing_make(&pool, rate, 30, &packing));
  by_pool_fini(&pool);
  return packing;
}

static void test_make(void **state) {
  (void)state;
  struct by_graph *graph = triangle();
  struct by_packing *packing = packed(graph);
  assert_ok(packing_check(graph, packing));
  assert_int_equal(packing->n_trees, 2);
  assert_true(fabs(packing->throughput - 10) < 1e-9 && packing->throughput <= 10);
  assert_true(fabs(packing->trees[0].rate - 7.5) < 1e-9);
  assert_int_equal(packing->trees[0].edges[1], 2);
  assert_int_equal(packing->trees[1].edges[1], 1);
  by_packing_destroy(packing);
  by_packing_destroy(NULL);
  by_graph_destroy(graph);
}

static void test_no_rates(void **state) {
  (void)state;
  struct by_graph *graph = triangle();
  struct by_pool pool;
  struct by_packing *packing = NULL;
  uint32_t t;
  by_pool_init(&pool, graph);
  assert_ok(by_pool_add(&pool, (const uint32_t[]){0, 1}, 2, &t));
  assert_status(by_packing_make(&pool, (const double[]){0}, 1, &packing), BANYAN_ERR_PLAN);
  assert_null(packing);
  by_pool_fini(&pool);
  by_graph_destroy(graph);
}

static void assert_refused(const struct by_graph *graph, struct by_packing *packing, const char *words) {
  assert_status(packing_check(graph, packing), BANYAN_ERR_PLAN);
  if (!strstr(banyan_error_text(), words)) fail_msg("\"%s\" has no \"%s\"", banyan_error_text(), words);
  by_packing_destroy(packing);
}

static void test_check(void **state) {
  (void)state;
  struct by_graph *graph = triangle();
  struct by_packing *p = packed(graph);
  p->trees[1].edges[1] = 0;
  assert_refused(graph, p, "packed tree 1: edge 0 of 4 is out of order");
  p = packed(graph);
  p->trees[1].edges[1] = 4;
  assert_refused(graph, p, "packed tree 1: edge 4 of 4 is");
  p = packed(graph);
  p->trees[1].n = 1;
  assert_refused(graph, p, "packed tree 1 does not join vertex 2");
  p = packed(graph);
  p->trees[0].edges = (uint32_t[]){0, 1, 2};
  p->trees[0].n = 3;
  assert_refused(graph, p, "packed tree 0: its edge 2 closes a cycle");
  p = packed(graph);
  p->trees[0].edges = (uint32_t[]){0, 3};
  assert_refused(graph, p, "packed tree 0 does not join vertex 2");
  p = packed(graph);
  p->trees[0].rate *= 1.00001;
  p->throughput *= 1.0000075;
  assert_refused(graph, p, "resource 0 of the graph carries 10.0000");
  p = packed(graph);
  p->trees[1].rate = NAN;
  assert_refused(graph, p, "packed tree 1 has a rate of nan");
  p = packed(graph);
  p->throughput = 11;
  assert_refused(graph, p, "the packing says 11 bit/s, and its trees carry");
  p = packed(graph);
  p->bound = 9.99;
  assert_refused(graph, p, "above its bound of 9.99");
  p = packed(graph);
  p->bound = NAN;
  assert_refused(graph, p, "above its bound of nan");
  p = packed(graph);
  p->trees[0].rate -= 6;
  p->trees[1].rate += 6;
  assert_refused(graph, p, "packed tree 1 carries more");
  by_graph_destroy(graph);
}

/* --- Column generation: optima that are known in closed form, and their bounds --- */

/* Packs, checks, and returns the throughput, which the bound must prove. */
static double pack_exactly(struct by_graph *graph, const struct by_exact_options *options) {
  struct by_packing *packing;
  assert_ok(by_pack_exact(graph, options, &packing));
  assert_ok(packing_check(graph, packing));
  double throughput = packing->throughput;
  assert_true(throughput >= options->ratio * packing->bound);
  by_packing_destroy(packing);
  by_graph_destroy(graph);
  return throughput;
}

static void assert_packed(struct by_graph *graph, double wanted) {
  const struct by_exact_options options = by_exact_defaults();
  double got = pack_exactly(graph, &options);
  if (fabs(got - wanted) > 1e-4 * wanted) fail_msg("%.9g, not %.9g", got, wanted);
}

/* Makes n hosts and k helpers, each limited to 100. All pairs are joined except helpers among each other. */
static struct by_graph *hosts(uint32_t n, uint32_t k) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n, n + k);
  for (uint32_t b = 0; b < n + k; b++)
    for (uint32_t a = 0; a < b && a < n; a++) by_graph_add_edge(&builder, a, b, 0, NULL, 0);
  for (uint32_t v = 0; v < n + k; v++) add_limit(&builder, v, 100);
  assert_ok(finish_limited(&builder, &graph));
  return graph;
}

/* A ring of n is optimal: 2 (n - 1) / n times the buffer passes each host's interface. */
static void test_hosts_alone(void **state) {
  (void)state;
  assert_packed(hosts(2, 0), 100);
  assert_packed(hosts(7, 0), 100 * 7 / 12.0);
  assert_packed(hosts(64, 0), 100 / 1.96875);
}

static double with_helpers(double n, double k) {
  return (n * n + k * n - 2 * k) / (2 * n * (n - 1)) * 100;
}

/* Each helper is the hub of a star, and the hosts use the rest for a ring. Nothing is better. */
static void test_exact_helpers(void **state) {
  (void)state;
  assert_packed(hosts(4, 1), with_helpers(4, 1));
  assert_packed(hosts(8, 3), with_helpers(8, 3));
  assert_packed(hosts(16, 4), with_helpers(16, 4));
}

static void test_64_hosts_with_8_helpers(void **state) {
  (void)state;
  assert_true(fabs(100 / with_helpers(64, 8) - 1.7561) < 1e-4);
  assert_packed(hosts(64, 8), with_helpers(64, 8));
}

/* Without limits the optimum of a torus is its number of edges divided by that of a tree. Its linear program is
 * degenerate, so the packer may stop slightly below the optimum, but what it claims is proved. */
static void test_exact_torus(void **state) {
  (void)state;
  enum { SIDE = 8, N = SIDE * SIDE };
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, N, N);
  for (uint32_t v = 0; v < N; v++) {
    by_graph_add_link(&builder, v, v / SIDE * SIDE + (v + 1) % SIDE, 10, 0);
    by_graph_add_link(&builder, v, (v + SIDE) % N, 10, 0);
  }
  assert_ok(by_graph_finish(&builder, &graph));
  struct by_exact_options options = by_exact_defaults();
  options.ratio = 0.99;
  assert_true(pack_exactly(graph, &options) >= 0.99 * 10 * 2 * N / (N - 1));
}

/* An initial packing is never lost, and few rounds give less throughput but no wrong result. */
static void test_start_and_rounds(void **state) {
  (void)state;
  struct by_graph *graph = hosts(12, 0);
  struct by_exact_options options = by_exact_defaults();
  struct by_packing *first, *second;
  options.rounds = 1;
  assert_ok(by_pack_exact(graph, &options, &first));
  assert_ok(packing_check(graph, first));
  options.start = first;
  options.bound = first->bound;
  options.rounds = 200;
  assert_ok(by_pack_exact(graph, &options, &second));
  assert_ok(packing_check(graph, second));
  assert_true(second->throughput >= first->throughput * (1 - 1e-9));
  assert_true(second->bound <= first->bound);
  assert_true(second->throughput >= 0.9999 * second->bound);
  by_packing_destroy(first);
  by_packing_destroy(second);
  by_graph_destroy(graph);
}

/* --- Multiplicative weights against known answers, on real graphs and on large ones --- */

static struct by_packing *pack(const struct by_graph *graph, double goal) {
  const struct by_weights_options options = {.goal = goal};
  struct by_packing *packing;
  assert_ok(by_pack_weights(graph, &options, &packing));
  assert_ok(packing_check(graph, packing));
  assert_true(packing->throughput >= goal * packing->bound);
  return packing;
}

/* Asserts that the throughput is within the goal of the optimum, and that the bound is not below it. Frees the
 * graph. */
static void assert_optimum(struct by_graph *graph, double goal, double optimum) {
  struct by_packing *packing = pack(graph, goal);
  if (packing->throughput < goal * optimum || packing->throughput > optimum * (1 + 1e-9) ||
      packing->bound < optimum * (1 - 1e-9))
    fail_msg("throughput %.9g, bound %.9g, optimum %.9g", packing->throughput, packing->bound, optimum);
  by_packing_destroy(packing);
  by_graph_destroy(graph);
}

/* Makes a full mesh in which every vertex is limited to 100, also optional ones. */
static struct by_graph *mesh(uint32_t n, uint32_t helpers) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, n, n + helpers);
  for (uint32_t a = 0; a < n + helpers; a++) {
    add_limit(&builder, a, 100);
    for (uint32_t b = 0; b < a; b++) by_graph_add_edge(&builder, a, b, 0, NULL, 0);
  }
  assert_ok(finish_limited(&builder, &graph));
  return graph;
}

/* The optimum is n B / (2 (n - 1)) for every mesh. */
static void test_even_mesh(void **state) {
  (void)state;
  for (uint32_t n = 2; n <= 64; n = n * 3 / 2 + 1) assert_optimum(mesh(n, 0), 0.99, 100.0 * n / (2 * (n - 1)));
}

/* The optimum is (n^2 + kn - 2k) B / (2 n (n - 1)), up to n helpers. */
static void test_helpers(void **state) {
  (void)state;
  static const uint32_t cases[][2] = {{4, 1}, {4, 4}, {8, 3}, {12, 4}, {24, 8}, {24, 17}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double n = cases[i][0], k = cases[i][1];
    assert_optimum(mesh(cases[i][0], cases[i][1]), 0.98, 100 * (n * n + k * n - 2 * k) / (2 * n * (n - 1)));
  }
}

/* Three ranks around a hub with links of 8 reach 8, although a spanning tree of their metric closure would suggest
 * 6. */
static void test_hub(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 3, 4);
  for (uint32_t v = 0; v < 3; v++) by_graph_add_link(&builder, v, 3, 8, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_optimum(graph, 0.999, 8);
}

/* Makes a ring, and uses the remaining edges as chords between vertices near each other. */
static struct by_graph *large(uint32_t n, uint32_t m, bool even, bool limits) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_rng rng;
  by_rng_init(&rng, n);
  by_graph_builder_init(&builder, n, n);
  for (uint32_t e = 0; e < m; e++) {
    uint32_t a = e < n ? e : (uint32_t)by_rng_below(&rng, n);
    uint32_t b = (a + 1 + (e < n ? 0 : 1 + (uint32_t)by_rng_below(&rng, 30))) % n;
    by_graph_add_link(&builder, a, b, even ? 1e10 : 1e9 * (1 + 99 * by_rng_unit(&rng)), 0);
  }
  for (uint32_t v = 0; v < n && limits; v++) add_limit(&builder, v, 1e9 * (20 + 180 * by_rng_unit(&rng)));
  assert_ok(finish_limited(&builder, &graph));
  return graph;
}

static void test_large(void **state) {
  (void)state;
  for (int kind = 0; kind < 4; kind++) {
    struct by_graph *graph = large(1000, 3500, kind & 1, kind & 2);
    by_packing_destroy(pack(graph, 0.98));
    by_graph_destroy(graph);
  }
  struct by_graph *graph = large(4000, 14000, true, false);
  by_packing_destroy(pack(graph, 0.98));
  by_graph_destroy(graph);
}

static void test_same_each_time(void **state) {
  (void)state;
  struct by_graph *graph = large(100, 350, false, true);
  struct by_packing *one = pack(graph, 0.99), *two = pack(graph, 0.99);
  assert_int_equal(one->n_trees, two->n_trees);
  assert_memory_equal(&one->throughput, &two->throughput, sizeof one->throughput);
  assert_memory_equal(&one->bound, &two->bound, sizeof one->bound);
  for (uint32_t t = 0; t < one->n_trees; t++) {
    assert_memory_equal(&one->trees[t].rate, &two->trees[t].rate, sizeof one->trees[t].rate);
    assert_memory_equal(one->trees[t].edges, two->trees[t].edges, one->trees[t].n * sizeof *one->trees[t].edges);
  }
  by_packing_destroy(one);
  by_packing_destroy(two);
  by_graph_destroy(graph);
}

/* However few trees are allowed, the reported result is true. */
static void test_few_trees(void **state) {
  (void)state;
  struct by_graph *graph = large(50, 150, false, true);
  double before = 0, optimum;
  struct by_packing *packing = pack(graph, 0.995);
  optimum = packing->bound;
  by_packing_destroy(packing);
  for (uint32_t most = 1; most <= 1000; most *= 10) {
    const struct by_weights_options options = {.goal = 1, .max_trees = most};
    assert_ok(by_pack_weights(graph, &options, &packing));
    assert_ok(packing_check(graph, packing));
    assert_true(packing->n_trees <= most);
    assert_true(packing->throughput >= before && packing->bound >= 0.995 * optimum);
    before = packing->throughput;
    by_packing_destroy(packing);
  }
  by_graph_destroy(graph);
}

/* The topology is a ring of five with a second link beside one of its links. */
static void test_topology(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_graph *graph;
  static const char text[] = "5 6\n0 1 4 1\n1 2 4 1\n2 3 4 1\n3 4 4 1\n4 0 4 1\n0 1 2 1\n";
  assert_ok(by_topology_parse_any("ring", text, sizeof text - 1, "", &topology));
  assert_ok(by_graph_of_topology(topology, NULL, &graph));
  assert_optimum(graph, 0.999, 16e9 / 3); /* There are four parts: 0 and 1 are one part and cost nothing. */
  by_topology_destroy(topology);
}

/* Checks an optimum of ../shared/data/edgelists/optimum.csv: name, nodes, edges, Gbit/s, unit, how. */
static void check_data(const char *line) {
  char name[64], file[128], path[DATA_PATH_BYTES];
  double optimum;
  struct by_topology *topology;
  struct by_graph *graph;
  assert_int_equal(sscanf(line, "%63[^,],%*u,%*u,%lf", name, &optimum), 2);
  snprintf(file, sizeof file, "edgelists/%s.el", name);
  assert_ok(by_topology_read(data_path(file, path), &topology));
  assert_ok(by_graph_of_topology(topology, NULL, &graph));
  struct by_packing *packing = pack(graph, 0.99);
  print_message("%s: %.5g Gbit/s, at most %.5g, optimum %.5g, %u trees\n", name, packing->throughput / 1e9,
                packing->bound / 1e9, optimum, packing->n_trees);
  assert_true(packing->bound >= optimum * 1e9 * (1 - 1e-6) && packing->bound <= optimum * 1e9 * 1.01);
  assert_true(packing->throughput >= optimum * 1e9 * 0.99);
  by_packing_destroy(packing);
  by_graph_destroy(graph);
  by_topology_destroy(topology);
}

static void test_data(void **state) {
  (void)state;
  char path[DATA_PATH_BYTES], line[512];
  FILE *file = fopen(data_path("edgelists/optimum.csv", path), "r");
  int n = 0;
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  while (fgets(line, sizeof line, file)) {
    check_data(line);
    n++;
  }
  assert_true(n > 0);
  fclose(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pool),
      cmocka_unit_test(test_make),
      cmocka_unit_test(test_no_rates),
      cmocka_unit_test(test_check),
      cmocka_unit_test(test_hosts_alone),
      cmocka_unit_test(test_exact_helpers),
      cmocka_unit_test(test_64_hosts_with_8_helpers),
      cmocka_unit_test(test_exact_torus),
      cmocka_unit_test(test_start_and_rounds),
      cmocka_unit_test(test_even_mesh),
      cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_hub),
      cmocka_unit_test(test_large),
      cmocka_unit_test(test_same_each_time),
      cmocka_unit_test(test_few_trees),
      cmocka_unit_test(test_topology),
      cmocka_unit_test(test_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
