/* Graphs: what the builder makes, what it refuses, and what trees leave of them. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "graph.h"
#include "graph_make.h"

/* A square of links of 10 with one diagonal of 4; vertex 0 is limited to 15. */
static struct by_graph *square(void) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 4, 4);
  assert_int_equal(by_graph_add_limit(&builder, 0, 15), 0);
  for (uint32_t v = 0; v < 4; v++) assert_int_equal(by_graph_add_link(&builder, v, (v + 1) % 4, 10, 1e-3), v);
  assert_int_equal(by_graph_add_link(&builder, 0, 2, 4, 0), 4);
  assert_ok(by_graph_finish(&builder, &graph));
  return graph;
}

static void assert_list(const uint32_t *got, uint32_t n, const uint32_t *wanted, uint32_t n_wanted) {
  assert_int_equal(n, n_wanted);
  assert_memory_equal(got, wanted, n * sizeof *got);
}

static void test_builder(void **state) {
  (void)state;
  struct by_graph *graph = square();
  const struct by_graph_edge *first = &graph->edges[0], *second = &graph->edges[1];
  assert_int_equal(graph->n_edges, 5);
  assert_int_equal(graph->n_resources, 6);
  assert_int_equal(graph->n_uses, 8);
  assert_list(graph->uses + first->first, first->n, (const uint32_t[]){1, 0}, 2);
  assert_list(graph->uses + second->first, second->n, (const uint32_t[]){2}, 1);
  assert_list(graph->incident + graph->edge_at[0], graph->edge_at[1] - graph->edge_at[0], (const uint32_t[]){0, 3, 4},
              3);
  assert_list(graph->incident + graph->edge_at[3], graph->edge_at[4] - graph->edge_at[3], (const uint32_t[]){2, 3}, 2);
  assert_int_equal(by_graph_other_end(graph, 3, 0), 3);
  by_graph_destroy(graph);
  by_graph_destroy(NULL);
}

static void test_many_edges(void **state) {
  (void)state;
  enum { VERTICES = 1000 };
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, VERTICES, VERTICES);
  for (uint32_t v = 1; v < VERTICES; v++) by_graph_add_link(&builder, v - 1, v, v, 0);
  assert_ok(by_graph_finish(&builder, &graph));
  for (uint32_t e = 0; e + 1 < VERTICES; e++) {
    assert_int_equal(graph->edges[e].b, e + 1);
    assert_true(graph->capacity[graph->uses[graph->edges[e].first]] == e + 1);
  }
  by_graph_destroy(graph);
}

static void assert_refused(struct by_graph_builder *builder, const char *words) {
  struct by_graph *graph = NULL;
  assert_status(by_graph_finish(builder, &graph), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), words));
  assert_null(graph);
}

/* Two terminals and a third vertex with good links; what is added must be the reason. */
static void start(struct by_graph_builder *builder) {
  by_graph_builder_init(builder, 2, 3);
  by_graph_add_link(builder, 0, 1, 1, 0);
  by_graph_add_link(builder, 1, 2, 1, 0);
}

static void test_refusals(void **state) {
  (void)state;
  struct by_graph_builder builder;
  start(&builder);
  by_graph_add_link(&builder, 0, 3, 1, 0);
  assert_refused(&builder, "edge 2 of the graph goes from vertex 0 to 3, and there are 3");
  start(&builder);
  by_graph_add_link(&builder, 2, 2, 1, 0);
  assert_refused(&builder, "edge 2 of the graph goes from vertex 2 to 2");
  start(&builder);
  by_graph_add_link(&builder, 0, 2, 0, 0);
  assert_refused(&builder, "resource 2 of the graph has a capacity of 0 bit/s");
  start(&builder);
  by_graph_add_limit(&builder, 2, NAN);
  assert_refused(&builder, "resource 2 of the graph has a capacity of nan bit/s");
  start(&builder);
  by_graph_add_link(&builder, 0, 2, 1, -1);
  assert_refused(&builder, "edge 2 of the graph has a delay of -1 s");
  start(&builder);
  by_graph_add_edge(&builder, 0, 2, 0, (const uint32_t[]){7}, 1);
  assert_refused(&builder, "edge 2 of the graph loads resource 7, and there are 2");
  start(&builder);
  by_graph_add_edge(&builder, 0, 2, 0, NULL, 0);
  assert_refused(&builder, "edge 2 of the graph loads resources 2 to 2 of 2");
  start(&builder);
  by_graph_add_limit(&builder, 5, 1);
  assert_refused(&builder, "a limit of vertex 5");
  by_graph_builder_init(&builder, 3, 4);
  by_graph_add_link(&builder, 0, 3, 1, 0);
  by_graph_add_link(&builder, 3, 1, 1, 0);
  assert_refused(&builder, "terminals 0 and 2 of the graph cannot reach each other");
  by_graph_builder_init(&builder, 1, 4);
  assert_refused(&builder, "4 vertices, 1 of them terminals");
  by_graph_builder_init(&builder, 3, 2);
  assert_refused(&builder, "2 vertices, 3 of them terminals");
  by_graph_builder_init(&builder, 3, BY_GRAPH_MOST_VERTICES + 1);
  assert_refused(&builder, "65537 vertices");
}

/* A limit alone is enough for an edge. */
static void test_limits_only(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 2, 2);
  by_graph_add_edge(&builder, 0, 1, 0, NULL, 0);
  by_graph_add_limit(&builder, 1, 8);
  by_graph_add_limit(&builder, 0, 9);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_list(graph->uses, graph->n_uses, (const uint32_t[]){1, 0}, 2);
  by_graph_destroy(graph);
}

static void test_residual(void **state) {
  (void)state;
  static const uint32_t star[] = {0, 3, 4}, path[] = {0, 1, 2};
  struct by_graph *graph = square();
  struct by_residual residual;
  assert_ok(by_residual_init(&residual, graph));
  assert_true(by_residual_of_edge(&residual, 0) == 10);
  assert_true(by_residual_of_tree(&residual, star, 3) == 4);
  by_residual_take(&residual, path, 3, 6);
  assert_true(by_residual_of_edge(&residual, 0) == 4);
  assert_true(by_residual_of_edge(&residual, 3) == 9);
  assert_true(by_residual_of_tree(&residual, star, 3) == 3); /* 9 left at vertex 0, for three edges */
  by_residual_take(&residual, star, 3, 3);
  by_residual_take(&residual, path, 1, 1e-9);
  assert_true(by_residual_of_tree(&residual, star, 3) == 0);
  assert_true(isinf(by_residual_of_tree(&residual, star, 0)));
  by_residual_fini(&residual);
  by_graph_destroy(graph);
}

/* An edge may load a resource twice. */
static void test_loaded_twice(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  struct by_residual residual;
  by_graph_builder_init(&builder, 2, 2);
  by_graph_add_resource(&builder, 10);
  by_graph_add_edge(&builder, 0, 1, 0, (const uint32_t[]){0, 0}, 2);
  assert_ok(by_graph_finish(&builder, &graph));
  assert_ok(by_residual_init(&residual, graph));
  assert_true(by_residual_of_edge(&residual, 0) == 5);
  assert_true(by_residual_of_tree(&residual, (const uint32_t[]){0}, 1) == 5);
  by_residual_take(&residual, (const uint32_t[]){0}, 1, 2);
  assert_true(by_residual_of_edge(&residual, 0) == 3);
  by_residual_fini(&residual);
  by_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_builder),     cmocka_unit_test(test_many_edges), cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_limits_only), cmocka_unit_test(test_residual),   cmocka_unit_test(test_loaded_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
