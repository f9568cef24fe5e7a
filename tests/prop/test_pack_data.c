/* Few trees on real networks: eight reach 0.95 of the optimum and sixteen 0.99, with and without less height, and
 * column generation reaches all of it. Prints what it found. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "graph_topology.h"
#include "grow.h"
#include "packing.h"
#include "topology_data.h"
#include "topology_formats.h"

/* At most k trees must reach `least` of the bound. Returns how high they are. */
static double check_few(const struct by_graph *graph, struct by_few_options options, double least) {
  struct by_packing *packing;
  assert_ok(by_pack_few(graph, &options, &packing));
  assert_ok(by_packing_check(graph, packing));
  assert_true(packing->n_trees <= options.most_trees);
  double height, ratio = packing->throughput / options.bound;
  assert_ok(by_packing_height(graph, packing, true, &height));
  print_message("  at most %2u trees, height <= %g: %.4f with %u, height %g\n", options.most_trees, options.most_height,
                ratio, packing->n_trees, height);
  assert_true(height <= options.most_height);
  if (ratio < least) fail_msg("%.4f of the optimum, not %.4f", ratio, least);
  by_packing_destroy(packing);
  return height;
}

/* The bound of a packing that reaches it within 1 %. */
static double check_exact(const char *name, const struct by_graph *graph, double optimum) {
  const struct by_exact_options options = by_exact_defaults();
  struct by_packing *packing;
  assert_ok(by_pack_exact(graph, &options, &packing));
  assert_ok(by_packing_check(graph, packing));
  double bound = packing->bound, height;
  assert_ok(by_packing_height(graph, packing, true, &height));
  print_message("%s: %.6g Gbit/s, at most %.6g, with %u trees, height %g\n", name, packing->throughput / 1e9,
                bound / 1e9, packing->n_trees, height);
  assert_true(packing->throughput >= 0.99 * bound);
  if (optimum > 0) assert_true(fabs(bound - optimum) <= 2e-4 * optimum && packing->throughput >= 0.9998 * optimum);
  by_packing_destroy(packing);
  return bound;
}

static void check_network(const char *name, const struct by_graph *graph, double optimum) {
  struct by_few_options options = by_few_defaults();
  options.bound = check_exact(name, graph, optimum);
  double lowest = check_few(graph, options, 0.95);
  options.tolerance = -1;
  (void)check_few(graph, options, 0.95);
  options.most_height = lowest; /* where something was found it is found again, or nearly */
  (void)check_few(graph, options, 0.9);
  options.most_height = INFINITY;
  options.most_trees = 16;
  (void)check_few(graph, options, 0.99);
}

static void check_file(const char *file, double optimum) {
  char path[DATA_PATH_BYTES];
  struct by_topology *topology;
  struct by_graph *graph;
  assert_ok(by_topology_read(data_path(file, path), &topology));
  assert_ok(by_graph_of_topology(topology, NULL, &graph));
  check_network(file, graph, optimum);
  by_graph_destroy(graph);
  by_topology_destroy(topology);
}

/* Every line of optimum.csv: name, nodes, edges, Gbit/s, unit, how. */
static void test_known_optima(void **state) {
  (void)state;
  char path[DATA_PATH_BYTES], line[512], name[64], file[128];
  FILE *list = fopen(data_path("edgelists/optimum.csv", path), "r");
  double optimum;
  uint32_t n = 0;
  assert_non_null(list);
  assert_non_null(fgets(line, sizeof line, list));
  while (fgets(line, sizeof line, list)) {
    assert_int_equal(sscanf(line, "%63[^,],%*u,%*u,%lf", name, &optimum), 2);
    snprintf(file, sizeof file, "edgelists/%s.el", name);
    check_file(file, optimum * 1e9);
    n++;
  }
  assert_true(n > 0);
  fclose(list);
}

/* Without an entry in the list: a torus has 512 links of 10 Gbit/s and trees of 255; the others are certified. */
static void test_others(void **state) {
  (void)state;
  check_file("edgelists/torus16x16.el", 0);
  check_file("edgelists/zoo-GtsCe.el", 0);
  check_file("edgelists/zoo-Kdl.el", 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_optima), cmocka_unit_test(test_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
