/* Pairs of directed trees: known optima, loads that are counted anew, and bounds against cuts on random networks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#include "directed.h"
#include "rng.h"
#include "topology.h"
#include "topology_formats.h"

enum { MAX_HOSTS = 10 };
static const double mbit = 1e6;

/* Another path is wide in each direction: ring 66.7, best undirected plan 20, optimum 110 Mbit/s. */
static const char crossed[] =
    "{\"format\":\"banyan-topology 1\",\"name\":\"crossed\",\"nodes\":[\"a0\",\"a1\",\"b0\",\"b1\"],\"links\":["
    "{\"a\":\"a0\",\"b\":\"a1\",\"capacity\":\"1g\"},{\"a\":\"b0\",\"b\":\"b1\",\"capacity\":\"1g\"},"
    "{\"a\":\"a0\",\"b\":\"b0\",\"capacity\":{\"ab\":\"100m\",\"ba\":\"10m\"}},"
    "{\"a\":\"a1\",\"b\":\"b1\",\"capacity\":{\"ab\":\"10m\",\"ba\":\"100m\"}}]}";

static const struct by_pairs_options any = {.max_height = INFINITY, .seed = 1};

static void make_network(const char *text, struct by_topology **topology, struct by_directed *net) {
  uint32_t hosts[MAX_HOSTS];
  assert_ok(by_topology_parse("test", text, strlen(text), topology));
  for (uint32_t h = 0; h < (*topology)->n_nodes; h++) hosts[h] = h;
  assert_ok(by_directed_init(net, *topology, hosts, (*topology)->n_nodes, false));
}

/* Adds what one edge of a tree loads. */
static void load_edge(const struct by_directed *net, uint32_t from, uint32_t to, double rate, double *load) {
  uint32_t found = 0;
  for (uint32_t a = 0; a < net->n_arcs; a++) {
    const struct by_arc *arc = &net->arcs[a];
    if (arc->from != from || arc->to != to) continue;
    for (uint32_t i = 0; i < arc->n; i++) load[net->uses[arc->first + i]] += rate;
    found++;
  }
  assert_int_equal(found, 1);
}

static void check_tree(const struct by_directed *net, const struct by_tree_pair *pair, const uint32_t *parent, bool up,
                       double max_height, double *load) {
  for (uint32_t v = 0; v < net->n; v++) {
    uint32_t u = v, hops = 0;
    for (; u != pair->root && hops <= net->n; hops++) u = parent[u];
    assert_int_equal(u, pair->root);
    assert_true(hops <= max_height);
    if (v != pair->root) load_edge(net, up ? v : parent[v], up ? parent[v] : v, pair->rate, load);
  }
}

/* Checks trees, loads and sums of a packing. */
static void check_pairs(const struct by_directed *net, const struct by_pairs *pairs,
                        const struct by_pairs_options *options) {
  double load[1024] = {0}, sum = 0;
  assert_true(net->n_resources <= 1024);
  assert_true(!options->max_trees || pairs->n_pairs <= options->max_trees);
  for (uint32_t p = 0; p < pairs->n_pairs; p++) {
    check_tree(net, &pairs->pairs[p], pairs->pairs[p].up, true, options->max_height, load);
    check_tree(net, &pairs->pairs[p], pairs->pairs[p].down, false, options->max_height, load);
    sum += pairs->pairs[p].rate;
  }
  assert_true(fabs(sum - pairs->throughput) <= 1e-9 * sum);
  assert_true(pairs->throughput <= pairs->bound);
  for (uint32_t r = 0; r < net->n_resources; r++) assert_true(load[r] <= net->capacity[r] * (1 + 1e-9));
}

static void test_known_optimum(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_directed net;
  struct by_pairs pairs;
  make_network(crossed, &topology, &net);
  assert_ok(by_pairs_pack(&net, &any, &pairs));
  check_pairs(&net, &pairs, &any);
  assert_true(pairs.throughput > 109.9 * mbit && pairs.bound < 110.1 * mbit);
  double worth = 0;
  for (uint32_t r = 0; r < net.n_resources; r++) worth += pairs.price[r];
  assert_true(fabs(worth - 1) < 1e-6);
  by_pairs_fini(&pairs);
  const struct by_pairs_options one = {.max_trees = 1, .max_height = INFINITY, .seed = 1};
  assert_ok(by_pairs_pack(&net, &one, &pairs));
  check_pairs(&net, &pairs, &one);
  assert_true(pairs.throughput > 99 * mbit);
  by_pairs_fini(&pairs);
  by_directed_fini(&net);
  by_topology_destroy(topology);
}

static void test_limits(void **state) {
  (void)state;
  struct by_topology *topology;
  struct by_directed net;
  struct by_pairs pairs;
  make_network(crossed, &topology, &net);
  const struct by_pairs_options low = {.max_trees = 4, .max_height = 2, .seed = 1};
  assert_ok(by_pairs_pack(&net, &low, &pairs));
  check_pairs(&net, &pairs, &low);
  by_pairs_fini(&pairs);
  const struct by_pairs_options too_low = {.max_trees = 4, .max_height = 1, .seed = 1};
  assert_status(by_pairs_pack(&net, &too_low, &pairs), BANYAN_ERR_PLAN);
  const struct by_pairs_options too_wide = {.max_trees = 4, .max_height = INFINITY, .min_rate = 200 * mbit, .seed = 1};
  assert_status(by_pairs_pack(&net, &too_wide, &pairs), BANYAN_ERR_PLAN);
  by_directed_fini(&net);
  by_topology_destroy(topology);
}

/* --- Random networks. --- */

static size_t print_random(struct by_rng *rng, uint32_t n, char *text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "{\"format\":\"banyan-topology 1\",\"name\":\"random\",\"nodes\":[");
  for (uint32_t v = 0; v < n; v++) at += (size_t)snprintf(text + at, size - at, "%s\"h%u\"", v ? "," : "", v);
  at += (size_t)snprintf(text + at, size - at, "],\"links\":[");
  const char *comma = "";
  for (uint32_t v = 1; v < n; v++)
    for (uint32_t u = 0; u < v; u++) {
      if (u != v - 1 && by_rng_below(rng, 3)) continue;
      at += (size_t)snprintf(text + at, size - at, "%s{\"a\":\"h%u\",\"b\":\"h%u\",\"capacity\":{\"ab\":%u,\"ba\":%u}}",
                             comma, u, v, 1000000 * (1 + (unsigned)by_rng_below(rng, 8)),
                             1000000 * (1 + (unsigned)by_rng_below(rng, 8)));
      comma = ",";
    }
  at += (size_t)snprintf(text + at, size - at, "]}");
  assert_true(at < size);
  return at;
}

/* Returns the capacity of the narrowest cut in either direction, which limits every AllReduce. */
static double find_min_cut(const struct by_topology *t) {
  double min = INFINITY;
  for (uint32_t set = 1; set + 1 < 1u << t->n_nodes; set++) {
    double out = 0;
    for (uint32_t l = 0; l < t->n_links; l++) {
      bool a = set >> t->links[l].a & 1, b = set >> t->links[l].b & 1;
      if (a != b) out += by_residual(t->links[l].capacity[a ? 0 : 1]);
    }
    min = fmin(min, out);
  }
  return min;
}

static void test_random(void **state) {
  (void)state;
  static char text[8192];
  struct by_rng rng;
  by_rng_init(&rng, 5);
  for (int i = 0; i < 40; i++) {
    struct by_topology *topology;
    struct by_directed net;
    struct by_pairs all, few;
    const struct by_pairs_options four = {.max_trees = 4, .max_height = INFINITY, .tolerance = 0.05, .seed = 1};
    print_random(&rng, 3 + (uint32_t)by_rng_below(&rng, 6), text, sizeof text);
    make_network(text, &topology, &net);
    assert_ok(by_pairs_pack(&net, &any, &all));
    check_pairs(&net, &all, &any);
    assert_true(all.throughput > 0.99 * all.bound);
    assert_true(all.throughput <= find_min_cut(topology) * (1 + 1e-9));
    assert_ok(by_pairs_pack(&net, &four, &few));
    check_pairs(&net, &few, &four);
    assert_true(few.throughput <= all.bound * (1 + 1e-9) && few.bound <= all.bound * (1 + 1e-3));
    by_pairs_fini(&all);
    by_pairs_fini(&few);
    by_directed_fini(&net);
    by_topology_destroy(topology);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_optimum), cmocka_unit_test(test_limits),
                                     cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
