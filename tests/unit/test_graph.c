/* Tests of graphs: what the builder makes, and what it rejects. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "graph.h"
#include "graph_limits.h"
#include "topology_make.h"

/* Makes a square of links of 10 with one diagonal of 4. Vertex 0 is limited to 15. */
static struct by_graph *square(void) {
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 4, 4);
  assert_int_equal(add_limit(&builder, 0, 15), 0);
  for (uint32_t v = 0; v < 4; v++) assert_int_equal(by_graph_add_link(&builder, v, (v + 1) % 4, 10, 1e-3), v);
  assert_int_equal(by_graph_add_link(&builder, 0, 2, 4, 0), 4);
  assert_ok(finish_limited(&builder, &graph));
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

static void assert_refused(struct by_graph_builder *builder, const char *reason) {
  struct by_graph *graph = NULL;
  assert_status(by_graph_finish(builder, &graph), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), reason));
  assert_null(graph);
}

/* Starts a graph of two terminals and a third vertex with valid links, so that an error comes from what is added. */
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
  by_graph_add_resource(&builder, NAN);
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
  by_graph_builder_init(&builder, 3, 4);
  by_graph_add_link(&builder, 0, 3, 1, 0);
  by_graph_add_link(&builder, 3, 1, 1, 0);
  assert_refused(&builder, "terminals 0 and 2 of the graph cannot reach each other");
  by_graph_builder_init(&builder, 1, 4);
  assert_refused(&builder, "4 vertices, 1 of them terminals");
  by_graph_builder_init(&builder, 3, 2);
  assert_refused(&builder, "2 vertices, 3 of them terminals");
  by_graph_builder_init(&builder, 3, BY_GRAPH_MAX_VERTICES + 1);
  assert_refused(&builder, "65537 vertices");
}

/* A limit alone is enough for an edge. */
static void test_limits_only(void **state) {
  (void)state;
  struct by_graph_builder builder;
  struct by_graph *graph;
  by_graph_builder_init(&builder, 2, 2);
  by_graph_add_edge(&builder, 0, 1, 0, NULL, 0);
  add_limit(&builder, 1, 8);
  add_limit(&builder, 0, 9);
  assert_ok(finish_limited(&builder, &graph));
  assert_list(graph->uses, graph->n_uses, (const uint32_t[]){1, 0}, 2);
  by_graph_destroy(graph);
}

/* --- From topologies to graphs: which vertices have edges, and which resources these load --- */

struct net {
  struct by_topology_builder builder;
  struct by_topology *topology;
  struct by_graph *graph;
};

static void begin(struct net *net) {
  *net = (struct net){0};
  assert_ok(by_topology_builder_init(&net->builder, ""));
}

static uint32_t host(struct net *net, const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add(&net->builder, BY_NODE_HOST, name, &node));
  return node;
}

static uint32_t forwarder(struct net *net, const char *name) {
  uint32_t node;
  assert_ok(by_topology_builder_add(&net->builder, BY_NODE_SWITCH, name, &node));
  return node;
}

static struct by_link *join(struct net *net, uint32_t a, uint32_t b, double capacity) {
  struct by_link *link;
  assert_ok(by_topology_builder_add_link(&net->builder, a, b, capacity, 1e-3, &link));
  return link;
}

static void make(struct net *net, const struct by_graph_choice *choice) {
  assert_ok(by_topology_builder_end(&net->builder, BANYAN_OK, NULL, &net->topology));
  assert_ok(by_graph_of_topology(net->topology, choice, &net->graph));
}

static void make_badly(struct net *net, const struct by_graph_choice *choice, enum banyan_status status,
                       const char *reason) {
  assert_ok(by_topology_builder_end(&net->builder, BANYAN_OK, NULL, &net->topology));
  assert_status(by_graph_of_topology(net->topology, choice, &net->graph), status);
  if (!strstr(banyan_error_text(), reason)) fail_msg("\"%s\" has no \"%s\"", banyan_error_text(), reason);
  by_topology_destroy(net->topology);
}

static void end(struct net *net) {
  by_graph_destroy(net->graph);
  by_topology_destroy(net->topology);
}

/* Returns how often the edge between the vertices lists the link or the node; 0 if there is no edge. */
static uint32_t times(const struct net *net, uint32_t a, uint32_t b, enum by_origin_kind kind, uint32_t index) {
  const struct by_graph *graph = net->graph;
  uint32_t n = 0;
  for (uint32_t e = 0; e < graph->n_edges; e++) {
    const struct by_graph_edge *edge = &graph->edges[e];
    bool is_it = (edge->a == a && edge->b == b) || (edge->a == b && edge->b == a);
    for (uint32_t i = 0; i < edge->n && is_it; i++) {
      const struct by_origin *origin = &graph->origin[graph->uses[edge->first + i]];
      n += origin->kind == kind && origin->index == index;
    }
  }
  return n;
}

/* Returns the capacity of the origin's resource, or the smallest of several. */
static double capacity(const struct net *net, enum by_origin_kind kind, uint32_t index) {
  double least = INFINITY;
  for (uint32_t r = 0; r < net->graph->n_resources; r++)
    if (net->graph->origin[r].kind == kind && net->graph->origin[r].index == index)
      least = fmin(least, net->graph->capacity[r]);
  return least;
}

static void star(struct net *net, uint32_t n) {
  char name[16];
  begin(net);
  forwarder(net, "hub");
  for (uint32_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "h%u", i);
    join(net, 0, host(net, name), 100 + i);
  }
}

static void test_star(void **state) {
  (void)state;
  struct net net;
  star(&net, 4);
  make(&net, NULL);
  assert_int_equal(net.graph->n_terminals, 4);
  assert_int_equal(net.graph->n_vertices, 4);
  assert_int_equal(net.graph->n_edges, 6);
  assert_int_equal(net.graph->n_resources, 4);
  assert_int_equal(net.graph->n_uses, 12);
  assert_int_equal(net.graph->node[3], 4);
  assert_int_equal(times(&net, 1, 3, BY_ORIGIN_LINK, 1), 1);
  assert_int_equal(times(&net, 1, 3, BY_ORIGIN_LINK, 3), 1);
  assert_true(capacity(&net, BY_ORIGIN_LINK, 3) == 103);
  assert_true(net.graph->edges[0].delay == 2e-3);
  end(&net);
}

static void test_participants(void **state) {
  (void)state;
  struct net net;
  const struct by_graph_choice choice = {
      .participants = (uint32_t[]){4, 2}, .n_participants = 2, .helpers = (uint32_t[]){1}, .n_helpers = 1};
  star(&net, 4);
  make(&net, &choice);
  assert_int_equal(net.graph->n_terminals, 2);
  assert_int_equal(net.graph->n_vertices, 3);
  assert_memory_equal(net.graph->node, ((uint32_t[]){4, 2, 1}), 12);
  assert_int_equal(net.graph->n_edges, 3);
  assert_int_equal(times(&net, 0, 2, BY_ORIGIN_LINK, 0), 1);
  end(&net);
}

/* A switch that adds is a vertex with edges over its links; no edge passes through it. */
static void test_adding_switch(void **state) {
  (void)state;
  struct net net;
  const struct by_graph_choice choice = {.helpers = (uint32_t[]){0}, .n_helpers = 1};
  star(&net, 4);
  make(&net, &choice);
  assert_int_equal(net.graph->n_vertices, 5);
  assert_int_equal(net.graph->n_edges, 4);
  assert_int_equal(times(&net, 4, 2, BY_ORIGIN_LINK, 2), 1);
  end(&net);
}

static void test_what_is_left(void **state) {
  (void)state;
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b");
  struct by_link *link = join(&net, a, b, 100);
  link->capacity[BY_AB].used = 30;
  link->capacity[BY_BA].used = 40;
  make(&net, NULL);
  assert_true(capacity(&net, BY_ORIGIN_LINK, 0) == 60);
  end(&net);
}

/* Parallel links are one edge, with what all of them have left in each direction. */
static void test_parallel_links(void **state) {
  (void)state;
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), c = host(&net, "c");
  join(&net, a, b, 100);
  join(&net, b, c, 5);
  join(&net, b, a, 10)->capacity[BY_AB].used = 10;
  join(&net, b, a, 1)->delay = 2e-4;
  make(&net, NULL);
  assert_int_equal(net.graph->n_edges, 2);
  assert_true(capacity(&net, BY_ORIGIN_LINK, 0) == 101); /* From b to a, this is 100 + 0 + 1. */
  assert_true(net.graph->edges[0].delay == 2e-4);
  end(&net);
}

/* Nothing is left from b to a: b reaches a through the switch, so the edge uses one way over each. */
static void test_full_direction(void **state) {
  (void)state;
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), s = forwarder(&net, "s");
  join(&net, a, b, 100)->capacity[BY_BA].used = 100;
  join(&net, a, s, 7)->capacity[BY_AB].used = 6;
  join(&net, s, b, 8);
  make(&net, NULL);
  assert_int_equal(net.graph->n_edges, 1);
  assert_int_equal(net.graph->n_uses, 3);
  assert_true(capacity(&net, BY_ORIGIN_LINK, 0) == 100);
  assert_true(capacity(&net, BY_ORIGIN_LINK, 1) == 7);
  assert_true(capacity(&net, BY_ORIGIN_LINK, 2) == 8);
  end(&net);
}

/* An edge loads its end nodes once and a node in between twice, since that receives and sends both ways. */
static void test_node_limits(void **state) {
  (void)state;
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), s = forwarder(&net, "s");
  join(&net, a, s, 100);
  join(&net, s, b, 100);
  by_topology_builder_node(&net.builder, s)->in = (struct by_capacity){.all = 50, .used = 8};
  by_topology_builder_node(&net.builder, b)->out.all = 30;
  make(&net, NULL);
  assert_int_equal(times(&net, 0, 1, BY_ORIGIN_NODE, s), 2);
  assert_int_equal(times(&net, 0, 1, BY_ORIGIN_NODE, b), 1);
  assert_int_equal(times(&net, 0, 1, BY_ORIGIN_NODE, a), 0);
  assert_true(capacity(&net, BY_ORIGIN_NODE, s) == 42);
  assert_true(capacity(&net, BY_ORIGIN_NODE, b) == 30);
  end(&net);
}

/* The network is a - s - b - t - c: from a to c, trees go over b. */
static void test_vertex_between(void **state) {
  (void)state;
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), c = host(&net, "c");
  uint32_t s = forwarder(&net, "s"), t = forwarder(&net, "t");
  join(&net, a, s, 100);
  join(&net, s, b, 100);
  join(&net, b, t, 100);
  join(&net, t, c, 100);
  make(&net, NULL);
  assert_int_equal(net.graph->n_edges, 2);
  end(&net);
}

/* A host that does not take part forwards if no switch does. */
static void test_idle_host(void **state) {
  (void)state;
  struct net net;
  begin(&net);
  uint32_t a = host(&net, "a"), b = host(&net, "b"), idle = host(&net, "idle");
  join(&net, a, idle, 100);
  join(&net, idle, b, 50);
  by_topology_builder_node(&net.builder, idle)->takes_part = false;
  make(&net, NULL);
  assert_int_equal(net.graph->n_vertices, 2);
  assert_int_equal(times(&net, 0, 1, BY_ORIGIN_LINK, 1), 1);
  end(&net);
}

/* Makes two racks of `hosts` hosts and two spines. */
static void clos(struct net *net, uint32_t hosts) {
  char name[16];
  begin(net);
  for (uint32_t i = 0; i < 2 * hosts; i++) {
    snprintf(name, sizeof name, "h%u", i);
    host(net, name);
  }
  uint32_t leaf[] = {forwarder(net, "l0"), forwarder(net, "l1")};
  uint32_t spine[] = {forwarder(net, "s0"), forwarder(net, "s1")};
  for (uint32_t i = 0; i < 2 * hosts; i++) join(net, i, leaf[i / hosts], 100);
  for (uint32_t i = 0; i < 4; i++) join(net, leaf[i / 2], spine[i % 2], 50);
}

/* Ways are spread over the spines. Where the ways there and back differ, the directions of a link count separately. */
static void test_spines(void **state) {
  (void)state;
  struct net net;
  clos(&net, 2);
  make(&net, NULL);
  assert_int_equal(net.graph->n_edges, 6);
  assert_int_equal(times(&net, 0, 1, BY_ORIGIN_LINK, 0), 1);
  uint32_t both = 0;
  for (uint32_t l = 4; l < 8; l++) both += times(&net, 0, 3, BY_ORIGIN_LINK, l);
  assert_int_equal(both, 4); /* The way from h0 to h3 takes one spine, and the way back takes the other. */
  both = 0;
  for (uint32_t l = 4; l < 8; l++) both += times(&net, 0, 2, BY_ORIGIN_LINK, l);
  assert_int_equal(both, 4); /* This uses the same spine, whose links now have two resources. */
  assert_int_equal(net.graph->n_resources, 4 + 2 * 4);
  end(&net);
}

/* Racks stay together in the order of a sparse set, so that few of its shortest edges leave a rack. */
static void test_sparse(void **state) {
  (void)state;
  enum { HOSTS = 200 };
  struct net net;
  uint32_t steps = 0, crossing = 0;
  clos(&net, HOSTS);
  make(&net, NULL);
  for (uint32_t step = 1; step <= HOSTS; step *= 2) steps++;
  assert_int_equal(net.graph->n_edges, 2 * HOSTS * steps);
  for (uint32_t e = 0; e < net.graph->n_edges; e++)
    crossing += net.graph->edges[e].a / HOSTS != net.graph->edges[e].b / HOSTS;
  assert_int_equal(crossing, 2 * ((1u << steps) - 1)); /* Edges cross at both places where racks meet. */
  end(&net);
  const struct by_graph_choice choice = {.max_meshed = 2 * HOSTS};
  clos(&net, HOSTS);
  make(&net, &choice);
  assert_int_equal(net.graph->n_edges, HOSTS * (2 * HOSTS - 1));
  end(&net);
}

static void test_refused_topologies(void **state) {
  (void)state;
  struct net net;
  const struct by_graph_choice one = {.participants = (uint32_t[]){1}, .n_participants = 1};
  const struct by_graph_choice twice = {
      .participants = (uint32_t[]){1, 2}, .n_participants = 2, .helpers = (uint32_t[]){2}, .n_helpers = 1};
  const struct by_graph_choice beyond = {.participants = (uint32_t[]){1, 9}, .n_participants = 2};
  const struct by_graph_choice busy = {.participants = (uint32_t[]){1, 2}, .n_participants = 2};
  star(&net, 4);
  make_badly(&net, &one, BANYAN_ERR_ARGUMENT, "1 of the hosts take part");
  star(&net, 4);
  make_badly(&net, &twice, BANYAN_ERR_ARGUMENT, "node \"h1\" is chosen twice");
  star(&net, 4);
  make_badly(&net, &beyond, BANYAN_ERR_ARGUMENT, "node number 9 is not in the topology");
  star(&net, 3);
  struct by_node *node = by_topology_builder_node(&net.builder, 2);
  node->out = (struct by_capacity){.all = 10, .used = 10};
  node->takes_part = false; /* Without this, the topology itself would be rejected. */
  make_badly(&net, &busy, BANYAN_ERR_TOPOLOGY, "hosts \"h0\" and \"h1\" are to take part, but cannot reach");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_builder),        cmocka_unit_test(test_many_edges),
      cmocka_unit_test(test_refusals),       cmocka_unit_test(test_limits_only),
      cmocka_unit_test(test_star),           cmocka_unit_test(test_participants),
      cmocka_unit_test(test_adding_switch),  cmocka_unit_test(test_what_is_left),
      cmocka_unit_test(test_parallel_links), cmocka_unit_test(test_full_direction),
      cmocka_unit_test(test_node_limits),    cmocka_unit_test(test_vertex_between),
      cmocka_unit_test(test_idle_host),      cmocka_unit_test(test_spines),
      cmocka_unit_test(test_sparse),         cmocka_unit_test(test_refused_topologies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
