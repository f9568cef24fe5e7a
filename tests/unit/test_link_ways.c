/* Ways that are kept by destination are those that packets take, and are searched for a few at a time. */
#include "check.h"
#include "link_ways.h"
#include "topology_named.h"

static struct by_topology *topology;
static struct by_link_ways ways;

static void begin(const char *network) {
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_link_ways_init(&ways, topology));
}

static void end(void) {
  by_link_ways_fini(&ways);
  by_topology_destroy(topology);
}

static void find(uint32_t from, uint32_t to, uint32_t **steps, uint32_t *n) {
  if (by_link_ways_find(&ways, from, to, steps, n)) return;
  by_link_ways_allow(&ways);
  assert_true(by_link_ways_find(&ways, from, to, steps, n));
}

static void test_all(void **state) {
  static const char *const networks[] = {"clos:racks=3,hosts=4,spines=2", "mesh:5", "torus:3x4", "star:1"};
  (void)state;
  for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
    begin(networks[i]);
    struct by_hop *hops = calloc(topology->n_nodes, sizeof *hops);
    for (uint32_t to = 0; to < topology->n_nodes; to++) {
      assert_ok(by_paths_to(&ways.paths, to, hops));
      for (uint32_t from = 0; from < topology->n_nodes; from++) {
        uint32_t *steps, n, v = from;
        find(from, to, &steps, &n);
        assert_int_equal(n, hops[from].hops);
        for (uint32_t s = 0; s < n; v = hops[v].next, s++) {
          assert_int_equal(steps[s] / 2, hops[v].link);
          assert_int_equal(topology->links[steps[s] / 2].a == v ? BY_AB : BY_BA, steps[s] % 2);
        }
        free(steps);
      }
    }
    assert_int_equal(ways.searched, topology->n_nodes); /* each but once */
    free(hops);
    end();
  }
}

/* Whoever names all hosts of a large network has few searched for at a time. */
static void test_bounded(void **state) {
  uint32_t *steps, n, later = 0;
  (void)state;
  begin("clos:racks=32,hosts=32");
  for (uint32_t to = 1; to < topology->n_nodes; to++) {
    later += !by_link_ways_find(&ways, 0, to, &steps, &n);
    free(steps);
  }
  assert_true(ways.searched < 100);
  assert_int_equal(ways.searched + later, topology->n_nodes - 1);
  end();
}

/* What does not fit any more is searched for again. */
static void test_few_kept(void **state) {
  uint32_t *steps, n;
  (void)state;
  begin("star:8");
  ways.most = 3;
  for (uint32_t i = 0; i < 40; i++) {
    find(8, i % 8, &steps, &n);
    assert_int_equal(n, 1);
    free(steps);
    assert_true(ways.n <= 3);
  }
  assert_int_equal(ways.searched, 40);
  end();
}

static void test_no_way(void **state) {
  uint32_t *steps, n;
  (void)state;
  begin("star:2");
  for (uint32_t l = 0; l < topology->n_links; l++) topology->links[l].capacity[BY_AB].all = 0;
  for (uint32_t l = 0; l < topology->n_links; l++) topology->links[l].capacity[BY_BA].all = 0;
  find(0, 1, &steps, &n);
  assert_null(steps);
  assert_int_equal(n, 0);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_bounded),
                                     cmocka_unit_test(test_few_kept), cmocka_unit_test(test_no_way)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
