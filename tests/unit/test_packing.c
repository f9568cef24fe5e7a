/* Pools and packings: each tree once, rates that fill the worst resource, and a check that sees every lie. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "graph.h"
#include "packing_check.h"
#include "rates.h"

/* A triangle of links of 10, 20 and 30 with a fourth vertex that need not be in, beyond vertex 2. */
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

/* Trees 0-1-2, 1-2-0 and 2-0-1 at 1 : 0 : 3 load the third link, of 30, by 3 and the first, of 10, by 4. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pool),
      cmocka_unit_test(test_make),
      cmocka_unit_test(test_no_rates),
      cmocka_unit_test(test_check),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
