/* Placement of aggregation on switches: known answers, stacks, plans, several servers and jobs, limited memory, and
 * rejected inputs. */
#include "placement.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "plan_load.h"
#include "text.h"
#include "topology_formats.h"

static struct by_topology *named(const char *text) {
  struct by_topology *topology;
  assert_ok(by_topology_named(text, &topology));
  return topology;
}

static struct by_topology *example(const char *format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return named(text);
}

static const uint32_t first[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

static struct by_placement *place(const struct by_topology *topology, uint32_t n_workers, const uint32_t *servers,
                                  uint32_t n_servers, uint32_t most) {
  struct by_placement_job job = {.workers = first, .n_workers = n_workers, .servers = servers};
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  options.max_adding = most;
  job.n_servers = n_servers;
  assert_ok(by_placement_make(topology, &job, &options, &placement));
  return placement;
}

static void assert_near(double got, double wanted) {
  if (fabs(got - wanted) > 1e-6 * fabs(wanted)) fail_msg("%.12g, not %.12g", got, wanted);
}

/* Five hosts are at a switch, and the last one is the server: each gets a full link with aggregation and a quarter
 * without. */
static void test_star(void **state) {
  (void)state;
  struct by_topology *topology = named("star:5,nic=100m,adds=all");
  const uint32_t server = 4;
  struct by_placement *placement = place(topology, 4, &server, 1, UINT32_MAX);
  assert_near(placement->rate, 100e6);
  assert_near(placement->without, 25e6);
  assert_near(placement->bound, 100e6);
  assert_int_equal(placement->n_trees, 1);
  struct by_placed_hop hops[8];
  assert_int_equal(by_placed_stack(&placement->trees[0], topology, 2, hops), 1);
  assert_string_equal(topology->nodes[hops[0].node].name, "switch");
  assert_true(hops[0].adds && hops[0].expected == 4);
  assert_int_equal(by_link_other(&topology->links[hops[0].up], hops[0].node), server);
  assert_int_equal(by_link_other(&topology->links[hops[0].down], hops[0].node), 2);
  by_placement_destroy(placement);
  placement = place(topology, 5, &server, 1, 0);
  assert_near(placement->rate, 25e6); /* The server's own gradient does not travel. */
  assert_near(placement->bound, 100e6);
  assert_int_equal(by_placed_stack(&placement->trees[0], topology, 4, hops), 0);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* Only the spine cannot aggregate: the sums of two racks pass it over links of 15 Gbit/s. With one aggregating
 * switch, the server's rack is the best choice: six other terms enter it over 15 Gbit/s. */
static void test_racks(void **state) {
  (void)state;
  struct by_topology *topology = named("clos:racks=3,hosts=3,adds=leaf,oversub=2");
  const uint32_t server = 0;
  struct by_placement *placement = place(topology, 9, &server, 1, UINT32_MAX);
  assert_near(placement->rate, 7.5e9);
  struct by_placed_hop hops[8];
  assert_int_equal(by_placed_stack(&placement->trees[0], topology, 8, hops), 2);
  assert_true(hops[0].adds && hops[0].expected == 3 && hops[1].adds && hops[1].expected == 8);
  by_placement_destroy(placement);
  placement = place(topology, 9, &server, 1, 1);
  assert_near(placement->rate, 2.5e9);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* A switch that only forwards need not aggregate where links are wide enough: the fewest switches aggregate. */
static void test_fewest(void **state) {
  (void)state;
  struct by_topology *topology = named("tree:2x4,adds=all,nic=1g");
  const uint32_t server = 0;
  struct by_placement *placement = place(topology, 8, &server, 1, UINT32_MAX);
  uint32_t adding = 0;
  for (uint32_t v = 0; v < placement->trees[0].n; v++) adding += placement->trees[0].adds[v];
  assert_near(placement->rate, 1e9);
  assert_int_equal(adding, 1); /* Four workers of the other rack share 4 Gbit/s. */
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* There are two servers with half a link each and no aggregating switch, so both together take all incoming terms. */
static void test_servers(void **state) {
  (void)state;
  struct by_topology *topology = named("star:6,nic=1g/1g/1g/1g/3g/1g");
  const uint32_t servers[] = {4, 5};
  struct by_placement *placement = place(topology, 4, servers, 2, UINT32_MAX);
  assert_near(placement->rate, 1e9);
  assert_near(placement->bound, 1e9);
  assert_int_equal(placement->n_trees, 2);
  assert_near(placement->trees[0].share, 0.75);
  assert_int_equal(placement->trees[0].server, 0);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

#define SHORT_MEMORY                                                                                                   \
  "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", {\"name\": \"s\", \"kind\": \"switch\","       \
  "\"aggregates\": true, \"memory\": %d}], \"links\": [{\"a\": \"a\", \"b\": \"s\", \"capacity\": \"1g\"},"            \
  "{\"a\": \"b\", \"b\": \"s\", \"capacity\": \"1g\"}, {\"a\": \"s\", \"b\": \"c\", \"capacity\": \"1g\"}]}"

/* Cells for 1 Gbit/s over 100 us take 12500 bytes. Half of these cells could aggregate half of the rate, but shares
 * are better: x is aggregated and y is not, where x + 2 y fill the link. */
static void test_short_memory(void **state) {
  (void)state;
  const uint32_t server = 2;
  struct by_topology *topology = example(SHORT_MEMORY, 12500);
  struct by_placement *placement = place(topology, 2, &server, 1, UINT32_MAX);
  assert_near(placement->rate, 1e9);
  assert_int_equal(placement->n_trees, 1);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
  topology = example(SHORT_MEMORY, 6250);
  placement = place(topology, 2, &server, 1, UINT32_MAX);
  assert_near(placement->rate, 0.75e9);
  assert_near(placement->bound, 0.75e9);
  assert_int_equal(placement->n_trees, 2);
  assert_near(placement->trees[0].share, 2.0 / 3);
  by_placement_destroy(placement);
  placement = place(topology, 2, &server, 1, 1); /* Only one tree is allowed. */
  assert_near(placement->rate, 0.5e9);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

static void test_plan(void **state) {
  (void)state;
  struct by_topology *topology = named("clos:racks=2,hosts=3,adds=leaf");
  const uint32_t server = 5;
  struct by_placement_job job = {.workers = first, .n_workers = 5, .servers = &server, .n_servers = 1};
  struct by_placement *placement = place(topology, 5, &server, 1, UINT32_MAX);
  struct by_plan *plan;
  assert_ok(by_plan_of_placement("p", topology, placement, &job, &plan));
  assert_int_equal(plan->n_ranks, 5);
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->n_vertices, 8);
  assert_string_equal(plan->vertices[5].name, "leaf0");
  assert_string_equal(plan->vertices[6].name, "leaf1");
  assert_string_equal(plan->vertices[7].name, "r1h2/0");
  assert_int_equal(plan->vertices[6].kind, BY_VERTEX_SWITCH);
  assert_int_equal(plan->vertices[7].kind, BY_VERTEX_SERVER);
  const struct by_group *group = &plan->classes[0].groups[0];
  static const uint32_t up[] = {5, 5, 5, 6, 6, 6, 7, 7};
  assert_int_equal(group->n, 8);
  assert_int_equal(group->root, 7);
  for (uint32_t v = 0; v < 8; v++) assert_int_equal(group->up[v], up[v]);
  assert_int_equal(group->n_forwards, 0);
  assert_int_equal(group->n_ports, 4 + 4);
  assert_string_equal(by_group_interface(group, 5, 0), "eth0"); /* Hosts' links come first, then those to spines. */
  assert_string_equal(by_group_interface(group, 5, 2), "eth2");
  assert_string_equal(by_group_interface(group, 6, 4), "eth1");
  assert_string_equal(by_group_interface(group, 6, 7), "eth2");
  assert_string_equal(by_group_interface(group, 5, 6), by_group_interface(group, 6, 5));
  by_plan_destroy(plan);
  struct by_text text;
  by_text_init(&text);
  assert_ok(by_placement_print(placement, topology, &job, &text));
  assert_non_null(strstr(by_text_get(&text), "\"r0h0\": {\"up\": [{\"switch\": \"leaf0\", \"adds\": true, "
                                             "\"expected\": 3, \"port\": {\"to\": \"spine"));
  assert_non_null(strstr(by_text_get(&text), "\"down\": [{\"switch\": \"leaf1\", \"adds\": true, \"port\": "));
  by_text_fini(&text);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* One worker is also the server, and one forwards for others: each keeps its own gradient. */
static void test_hosts_on_the_way(void **state) {
  (void)state;
  struct by_topology *topology = named("line:4");
  const uint32_t server = 0;
  struct by_placement_job job = {.workers = first, .n_workers = 4, .servers = &server, .n_servers = 1};
  struct by_placement *placement = place(topology, 4, &server, 1, UINT32_MAX);
  struct by_plan *plan;
  assert_near(placement->rate, 10e9 / 3);
  assert_ok(by_plan_of_placement("p", topology, placement, &job, &plan));
  assert_int_equal(plan->n_vertices, 5);
  assert_string_equal(plan->vertices[4].name, "h0/0");
  for (uint32_t v = 0; v < 5; v++) assert_int_equal(plan->classes[0].groups[0].up[v], 4);
  assert_ok(by_plan_check_switches(plan));
  by_plan_destroy(plan);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* s1 aggregates, s2 could but need not, and s3 cannot. Two trees lead to the host that is also a worker. */
static void test_everything_on_the_way(void **state) {
  (void)state;
  struct by_topology *topology = example(
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\", \"b\", \"c\", {\"name\": \"s1\", \"kind\": \"switch\", "
      "\"aggregates\": true}, {\"name\": \"s2\", \"kind\": \"switch\", \"aggregates\": true}, {\"name\": \"s3\", "
      "\"kind\": "
      "\"switch\"}], \"links\": ["
      "{\"a\": \"a\", \"b\": \"s3\", \"capacity\": \"2g\"}, {\"a\": \"b\", \"b\": \"s3\", \"capacity\": \"1g\"},"
      "{\"a\": \"s1\", \"b\": \"s3\", \"capacity\": \"2g\", \"ports\": {\"a\": \"swp7\"}},"
      "{\"a\": \"s2\", \"b\": \"s1\", \"capacity\": \"1g\"}, {\"a\": \"s2\", \"b\": \"c\", \"capacity\": \"1g\"}]}");
  const uint32_t workers[] = {2, 1, 0}, server = 2;
  struct by_placement_job job = {.workers = workers, .n_workers = 3, .servers = &server, .n_servers = 1};
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  struct by_plan *plan;
  assert_ok(by_placement_make(topology, &job, &options, &placement));
  assert_ok(by_plan_of_placement("p", topology, placement, &job, &plan));
  const struct by_group *group = &plan->classes[0].groups[0];
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->n_vertices, 6);
  static const char *const names[] = {"c", "b", "a", "c/0", "s1", "s2"};
  for (uint32_t v = 0; v < 6; v++) assert_string_equal(plan->vertices[v].name, names[v]);
  static const uint32_t up[] = {3, 4, 4, 3, 5, 3};
  for (uint32_t v = 0; v < 6; v++) assert_int_equal(group->up[v], up[v]);
  assert_true(by_group_adds(group, 4) && !by_group_adds(group, 5));
  assert_string_equal(by_group_interface(group, 4, 1), "swp7"); /* Both are behind the switch that cannot aggregate. */
  assert_string_equal(by_group_interface(group, 4, 2), "swp7");
  assert_string_equal(by_group_interface(group, 4, 5), "eth1");
  assert_string_equal(by_group_interface(group, 5, 4), "eth0");
  assert_string_equal(by_group_interface(group, 5, 3), "eth1");
  by_plan_destroy(plan);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* For several queues each tree is there as often, with an equal share and endpoints of its own. */
static void test_queues(void **state) {
  (void)state;
  struct by_topology *topology = named("star:5,nic=100m,adds=all");
  const uint32_t server = 4;
  struct by_placement_job job = {.workers = first, .n_workers = 4, .servers = &server, .n_servers = 1};
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  struct by_plan *plan;
  options.queues = 3;
  assert_ok(by_placement_make(topology, &job, &options, &placement));
  assert_near(placement->rate, 100e6);
  assert_int_equal(placement->n_trees, 3);
  for (int t = 0; t < 3; t++) {
    assert_near(placement->trees[t].share, 1.0 / 3);
    assert_near(placement->trees[t].rate, 100e6 / 3);
  }
  assert_ok(by_plan_of_placement("p", topology, placement, &job, &plan));
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->classes[0].n_groups, 3);
  char name[8];
  for (uint32_t g = 0; g < 3; g++) {
    const struct by_group *group = &plan->classes[0].groups[g];
    snprintf(name, sizeof name, "h4/%u", g);
    assert_string_equal(plan->vertices[group->order[group->root]].name, name);
  }
  by_plan_destroy(plan);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* Where memory is limited a server has two trees, each with an endpoint of its own there. */
static void test_servers_of_trees(void **state) {
  (void)state;
  const uint32_t server = 2;
  struct by_topology *topology = example(SHORT_MEMORY, 6250);
  struct by_placement *placement = place(topology, 2, &server, 1, UINT32_MAX);
  struct by_placement_job job = {.workers = first, .n_workers = 2, .servers = &server, .n_servers = 1};
  struct by_plan *plan;
  assert_ok(by_plan_of_placement("p", topology, placement, &job, &plan));
  assert_ok(by_plan_check_switches(plan));
  assert_int_equal(plan->classes[0].n_groups, 2);
  const struct by_group *adding = &plan->classes[0].groups[0], *forwarding = &plan->classes[0].groups[1];
  assert_string_equal(plan->vertices[adding->order[adding->root]].name, "c/0");
  assert_string_equal(plan->vertices[forwarding->order[forwarding->root]].name, "c/1");
  assert_true(adding->n_forwards == 0 && forwarding->n_forwards == 1);
  by_plan_destroy(plan);
  by_placement_destroy(placement);
  by_topology_destroy(topology);
}

/* --- aggregators --- */

/* The placement's plan, whose own load on the links allows the same rate. */
static struct by_plan *check_off_path(const struct by_topology *topology, const struct by_placement_job *job,
                                      double rate, uint32_t n_trees) {
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  struct by_plan_load load;
  struct by_plan *plan;
  assert_ok(by_placement_make(topology, job, &options, &placement));
  assert_near(placement->rate, rate);
  assert_near(placement->bound, rate);
  assert_int_equal(placement->n_trees, n_trees);
  assert_ok(by_plan_of_placement("p", topology, placement, job, &plan));
  assert_ok(by_plan_check_switches(plan));
  assert_ok(by_plan_load_init(&load, plan, plan->classes, topology));
  assert_near(load.rate, rate);
  by_plan_load_fini(&load);
  by_placement_destroy(placement);
  return plan;
}

/* Beside the server, which takes four terms and sends four results, an aggregator of the same link takes four terms and
 * a result, sends four results and a sum. Each has a fifth of its link for the other's tree. */
static void test_aggregator_in_star(void **state) {
  (void)state;
  struct by_topology *topology = named("star:6,nic=100m");
  const uint32_t server = 4, aggregator = 5;
  struct by_placement_job job = {.workers = first,
                                 .n_workers = 4,
                                 .servers = &server,
                                 .n_servers = 1,
                                 .aggregators = &aggregator,
                                 .n_aggregators = 1};
  struct by_plan *plan = check_off_path(topology, &job, 40e6, 2);
  assert_int_equal(plan->n_vertices, 4 + 3); /* two servers on h4, and the aggregator */
  by_plan_destroy(plan);
  by_topology_destroy(topology);
  topology = named("star:6,nic=100m/100m/100m/100m/100m/500m"); /* the aggregator's link carries all */
  plan = check_off_path(topology, &job, 100e6, 1);
  assert_string_equal(plan->vertices[5].name, "h5/0");
  const struct by_group *group = &plan->classes[0].groups[0];
  for (uint32_t r = 0; r < 4; r++) assert_int_equal(group->order[group->up[r]], 5);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
}

/* Of two racks the one without the server sends a single sum up. Where a switch can add, no aggregator is used. */
static void test_aggregator_in_racks(void **state) {
  (void)state;
  for (int adds = 0; adds < 2; adds++) {
    struct by_topology *topology =
        named(adds ? "clos:racks=2,hosts=5,nic=1g,oversub=5,adds=leaf" : "clos:racks=2,hosts=5,nic=1g,oversub=5");
    const uint32_t workers[] = {0, 1, 2, 3, 5, 6, 7, 8}, server = 4, aggregator = 9;
    struct by_placement_job job = {.workers = workers,
                                   .n_workers = 8,
                                   .servers = &server,
                                   .n_servers = 1,
                                   .aggregators = &aggregator,
                                   .n_aggregators = 1};
    struct by_plan *plan = check_off_path(topology, &job, adds ? 1e9 : 200e6, 1);
    uint32_t servers = 0;
    for (uint32_t v = 8; v < plan->n_vertices; v++) servers += plan->vertices[v].kind == BY_VERTEX_SERVER;
    assert_int_equal(servers, adds ? 1 : 2);
    by_plan_destroy(plan);
    by_topology_destroy(topology);
  }
}

/* Through a switch that carries 600 Mbit/s in all, a tree with the aggregator takes ten times its rate, and four times
 * less of the server's link than one without, which takes eight times its rate. */
static void test_aggregator_at_limited_switch(void **state) {
  (void)state;
  const uint32_t server = 4, aggregator = 5;
  struct by_placement_job job = {.workers = first,
                                 .n_workers = 4,
                                 .servers = &server,
                                 .n_servers = 1,
                                 .aggregators = &aggregator,
                                 .n_aggregators = 1};
  struct by_topology *topology = named("star:6,nic=100m/100m/100m/100m/100m/500m");
  topology->nodes[6].out.all = topology->nodes[6].in.all = 600e6;
  by_plan_destroy(check_off_path(topology, &job, 62.5e6, 2));
  by_topology_destroy(topology);
}

static void test_best_server(void **state) {
  (void)state;
  struct by_topology *topology = named("star:4,nic=1g/1g/2g/1g");
  struct by_placement_options options = by_placement_defaults();
  uint32_t server = UINT32_MAX;
  struct by_placement_job job = {.workers = first, .n_workers = 4};
  assert_ok(by_placement_best_server(topology, &job, &options, &server));
  assert_int_equal(server, 2);
  by_topology_destroy(topology);
  topology = named("star:4,nic=1g/1g/2g/1g,helpers=2");
  assert_ok(by_placement_best_server(topology, &job, &options, &server));
  assert_true(topology->nodes[server].may_help);
  by_topology_destroy(topology);
}

static void test_refused(void **state) {
  (void)state;
  struct by_topology *topology = named("star:80,adds=all");
  uint32_t workers[80];
  for (uint32_t i = 0; i < 80; i++) workers[i] = i;
  const uint32_t servers[] = {70, 70}, switch_ = 80;
  struct by_placement_job job = {.workers = workers, .n_workers = 65, .servers = servers, .n_servers = 1};
  struct by_placement_options options = by_placement_defaults();
  struct by_placement *placement;
  assert_status(by_placement_make(topology, &job, &options, &placement), BANYAN_ERR_UNSUPPORTED);
  job.n_workers = 64;
  assert_ok(by_placement_make(topology, &job, &options, &placement));
  assert_near(placement->rate, 10e9);
  by_placement_destroy(placement);
  job.n_servers = 2;
  assert_status(by_placement_make(topology, &job, &options, &placement), BANYAN_ERR_ARGUMENT);
  job.servers = &switch_;
  job.n_servers = 1;
  assert_status(by_placement_make(topology, &job, &options, &placement), BANYAN_ERR_ARGUMENT);
  job.servers = workers;
  job.n_workers = 1;
  assert_status(by_placement_make(topology, &job, &options, &placement), BANYAN_ERR_ARGUMENT);
  by_topology_destroy(topology);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_star),
      cmocka_unit_test(test_racks),
      cmocka_unit_test(test_fewest),
      cmocka_unit_test(test_servers),
      cmocka_unit_test(test_short_memory),
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_hosts_on_the_way),
      cmocka_unit_test(test_everything_on_the_way),
      cmocka_unit_test(test_queues),
      cmocka_unit_test(test_servers_of_trees),
      cmocka_unit_test(test_aggregator_in_star),
      cmocka_unit_test(test_aggregator_in_racks),
      cmocka_unit_test(test_aggregator_at_limited_switch),
      cmocka_unit_test(test_best_server),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
