/* Simulated times against known values: bytes divided by rates, and the effect of pipelines and delays. */
#include "simulate.h"

#include <math.h>
#include <stdio.h>

#include "check.h"
#include "topology_formats.h"

enum { MIB = 1 << 20, KIB = 1 << 10 };

static struct by_topology *topology;
static struct by_plan *plan;
static struct by_simulator simulator;
static struct by_simulation simulation;

static uint32_t count_ranks(void) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < topology->n_nodes; i++) n += topology->nodes[i].takes_part;
  return n;
}

static double run(const char *network, const char *plan_text, uint64_t bytes, const struct by_simulate_options *how) {
  struct by_simulate_options standard = {.chunk = 64 * KIB};
  assert_ok(by_topology_named(network, &topology));
  assert_ok(by_plan_named(plan_text, count_ranks(), &plan));
  assert_ok(by_simulator_init(&simulator, plan, plan->classes, topology, 0));
  assert_ok(by_simulator_run(&simulator, bytes, how ? how : &standard, &simulation));
  return simulation.seconds;
}

static void end(void) {
  by_simulation_fini(&simulation);
  by_simulator_fini(&simulator);
  by_plan_destroy(plan);
  by_topology_destroy(topology);
}

static void assert_near(double got, double wanted, double tolerance) {
  if (!(fabs(got - wanted) <= tolerance * wanted)) fail_msg("%.12g is not %.12g", got, wanted);
}

#define EXACT 1e-9
static const double rate = 1e9 / 8; /* The rate is the bytes per second of nic=1g. */

static void test_one_chunk_there_and_back(void **state) {
  (void)state;
  assert_near(run("star:2,nic=1g", "star", 64 * KIB, NULL), 2 * 64 * KIB / rate, EXACT);
  end();
  assert_near(run("star:2,nic=1g,delay=3ms", "star", 64 * KIB, NULL), 2 * (64 * KIB / rate + 6e-3), EXACT);
  end();
  struct by_simulate_options how = {.chunk = 64 * KIB, .chunk_cost = 1e-3};
  assert_near(run("star:2,nic=1g", "star", 64 * KIB, &how), 2 * (64 * KIB / rate + 1e-3), EXACT);
  end();
}

/* The centre receives three messages at a third of its link each, and sends three. */
static void test_star_shares_its_centre(void **state) {
  (void)state;
  assert_near(run("star:4,nic=1g", "star", 64 * KIB, NULL), 6 * 64 * KIB / rate, EXACT);
  end();
}

/* Chunks follow each other through a chain: k chunks over h hops take k - 1 + h turns. */
static void test_chain_is_a_pipeline(void **state) {
  (void)state;
  double turn = 64 * KIB / rate;
  assert_near(run("ring:5,link=1g", "chain", 4 * MIB, NULL), (64 - 1 + 8) * turn, EXACT);
  end();
  assert_near(run("ring:5,link=1g,delay=1ms", "chain", 4 * MIB, NULL), (64 - 1 + 8) * turn + 8e-3, EXACT);
  end();
  double got = run("star:5,nic=1g", "chain", 4 * MIB, NULL); /* Up and down leave a host by one link. */
  assert_true(got >= 2 * 64 * turn && got <= (2 * 64 + 8) * turn);
  end();
}

static void test_ring_is_optimal_on_an_even_star(void **state) {
  (void)state;
  for (uint32_t n = 3; n <= 9; n += 2) {
    char network[32];
    double bytes = (double)n * MIB;
    snprintf(network, sizeof network, "star:%u,nic=1g", n);
    assert_near(run(network, "ring", n * MIB, NULL), 2.0 * (n - 1) / n * bytes / rate, 1e-6);
    end();
  }
  /* The pieces have one chunk, so nothing overlaps the delays of the rounds. */
  assert_near(run("star:4,nic=1g,delay=1ms", "ring", 4 * 64 * KIB, NULL), 6 * (64 * KIB / rate + 2e-3), EXACT);
  end();
  /* The pieces take longer than the delay, so only the delay of the last piece is visible. */
  double last = 64 * KIB / rate + 2e-3, piece = 4 * MIB / rate;
  double got = run("star:4,nic=1g,delay=1ms", "ring", 16 * MIB, NULL);
  assert_true(got >= 6 * piece && got <= 6 * piece + last);
  end();
}

static void test_shared_links(void **state) {
  (void)state;
  /* The ring crosses the WAN once in each direction. */
  assert_near(run("sites:2x2,lan=1g,wan=200m", "ring", 16 * MIB, NULL), 1.5 * 16 * MIB / 25e6, 1e-3);
  end();
  /* Capacity that others use is not available. */
  assert_near(
      run("{\"format\": \"banyan-topology 1\", \"nodes\": [\"x\", \"y\"], \"links\": [{\"a\": \"x\", \"b\": \"y\","
          "\"capacity\": 8e6, \"used\": {\"ab\": 4e6}}]}",
          "star", 64 * KIB, NULL),
      64 * KIB / 1e6 + 64 * KIB / .5e6, EXACT);
  end();
}

/* A doubling over 8 ranks is three exchanges of the whole buffer, each of which follows the previous one chunk by
 * chunk. */
static void test_exchange(void **state) {
  (void)state;
  double got = run("star:8,nic=1g", "doubling", 4 * MIB, NULL);
  assert_true(got >= 3.0 * 4 * MIB / rate * (1 - EXACT) && got <= 3.0 * 4 * MIB / rate + 2 * 64 * KIB / rate);
  end();
}

static void test_one_rank_and_no_bytes(void **state) {
  (void)state;
  assert_true(run("star:1", "star", 64 * KIB, NULL) == 0);
  end();
  assert_true(run("star:4", "ring", 0, NULL) == 0);
  end();
}

/* One schedule and one rank represent all ranks of a symmetric topology. */
static void test_symmetry(void **state) {
  (void)state;
  run("ring:4096", "ring", 64 * MIB, NULL);
  assert_int_equal(simulation.n_actors, 1);
  assert_near(simulation.seconds, 2.0 * 4095 * 16 * KIB / 1.25e9, EXACT);
  end();
  run("clos:racks=8,hosts=16", "ring", 64 * MIB, NULL);
  assert_int_equal(simulation.n_actors, 16);
  end();
}

/* A bounded amount of work gives an approximate result. */
static void test_bounded_work(void **state) {
  (void)state;
  double exact = run("ring:64", "chain", 4 * MIB, NULL);
  end();
  struct by_simulate_options few = {.chunk = 64 * KIB, .max_work = 2500};
  assert_near(run("ring:64", "chain", 4 * MIB, &few), exact, 1e-6);
  assert_true(simulation.simulated_chunk > simulation.chunk);
  end();
  const char *unequal = "star:64,nic=200m/1g"; /* No two hosts are equally far from the slow one. */
  exact = run(unequal, "ring", 4 * MIB, NULL);
  end();
  assert_near(run(unequal, "ring", 4 * MIB, &few), exact, 0.02);
  assert_true(simulation.run < simulation.levels);
  end();
}

/* Two trees leave host 0 by one link and separate behind it, where capacity matches their needs: a quarter and
 * three quarters. With equal turns the large tree would get half and be late. */
static const char *const unequal_net =
    "{\"format\": \"banyan-topology 1\", \"nodes\": [\"x\", \"y\", \"z\"], \"links\": ["
    "{\"a\": \"x\", \"b\": \"y\", \"capacity\": 1e9},"
    "{\"a\": \"y\", \"b\": \"z\", \"capacity\": {\"ab\": 75e7, \"ba\": 1e9}},"
    "{\"a\": \"z\", \"b\": \"x\", \"capacity\": {\"ab\": 1e9, \"ba\": 25e7}}]}";
static const char *const unequal_plan =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 3, \"trees\": ["
    "{\"share\": 0.25, \"root\": \"1\", \"up\": {\"2\": \"0\", \"0\": \"1\"}, \"down\": {\"0\": \"1\", \"2\": \"0\"}},"
    "{\"share\": 0.75, \"root\": \"2\", \"up\": {\"0\": \"1\", \"1\": \"2\"}, \"down\": {\"1\": \"2\", \"0\": "
    "\"1\"}}]}";

static void test_messages_advance_alike(void **state) {
  (void)state;
  assert_near(run(unequal_net, unequal_plan, 64 * MIB, NULL), 64 * MIB / rate, 0.03);
  end();
}

/* Two ranks have slow links for half each, and a helper adds the other half. */
static void test_helpers(void **state) {
  (void)state;
  const char *helped =
      "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"h0\": {\"kind\": \"rank\","
      "\"rank\": 0}, \"h1\": {\"kind\": \"rank\", \"rank\": 1}, \"helper0\": {\"kind\": \"helper\"}},"
      "\"trees\": [{\"share\": 1, \"root\": \"helper0\", \"up\": {\"h0\": \"helper0\", \"h1\": \"helper0\"}}]}";
  assert_near(run("star:2,nic=1g/1g/2g,helpers=1", helped, 64 * KIB, NULL), 2 * 64 * KIB / rate, EXACT);
  assert_int_equal(simulation.n_actors, 3);
  end();
}

/* A chunk of each rank goes up its own link, and their sum over one more link. The result returns the same way.
 * Without aggregation on the switch, four chunks would cross the server's link. */
static void test_switches(void **state) {
  (void)state;
  const char *net =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"h0\", \"h1\", \"h2\", \"h3\","
      "{\"name\": \"server\", \"takes_part\": false}, {\"name\": \"s\", \"kind\": \"switch\"}], \"links\": ["
      "{\"a\": \"h0\", \"b\": \"s\", \"capacity\": 1e9}, {\"a\": \"h1\", \"b\": \"s\", \"capacity\": 1e9},"
      "{\"a\": \"h2\", \"b\": \"s\", \"capacity\": 1e9}, {\"a\": \"h3\", \"b\": \"s\", \"capacity\": 1e9},"
      "{\"a\": \"server\", \"b\": \"s\", \"capacity\": 1e9}]}";
  const char *switched = "{\"format\": \"banyan-plan 1\", \"ranks\": 4, \"vertices\": {\"s\": {\"kind\": \"switch\"},"
                         "\"server/0\": {\"kind\": \"server\"}}, \"trees\": [{\"share\": 1, \"root\": \"server/0\","
                         "\"up\": {\"0\": \"s\", \"1\": \"s\", \"2\": \"s\", \"3\": \"s\", \"s\": \"server/0\"}}]}";
  assert_near(run(net, switched, 64 * KIB, NULL), 4 * 64 * KIB / rate, EXACT);
  assert_int_equal(plan->vertices[plan->n_ranks].kind, BY_VERTEX_SWITCH); /* The plan is unchanged. */
  end();
  struct by_simulate_options how = {.chunk = 4 * KIB};
  assert_near(run(net, switched, 4 * MIB, &how), (4 * MIB + 3 * 4 * KIB) / rate, EXACT);
  end();
}

static void test_refusals(void **state) {
  (void)state;
  struct by_plan *other;
  assert_ok(by_topology_named("star:4", &topology));
  assert_ok(by_plan_named("ring", 5, &other));
  assert_status(by_simulator_init(&simulator, other, other->classes, topology, 0), BANYAN_ERR_PLAN);
  by_plan_destroy(other);
  by_topology_destroy(topology);
}

/* --- Fair shares of small networks that can be computed by hand --- */

static struct by_fair fair;

static void begin(struct by_fair_net *net) {
  assert_ok(by_fair_init(&fair, net));
  for (uint32_t f = 0; f < net->n_flows; f++) by_fair_start(&fair, f);
  by_fair_share(&fair);
}

static void assert_rate(uint32_t flow, double wanted) {
  if (!(fabs(fair.rate[flow] - wanted) <= 1e-9 * wanted))
    fail_msg("%u has %.12g, not %.12g", flow, fair.rate[flow], wanted);
}

static void test_one_resource(void **state) {
  (void)state;
  uint32_t first[] = {0, 1, 2, 3};
  struct by_fair_use uses[] = {{0, 1}, {0, 1}, {0, 1}};
  double capacity[] = {12};
  struct by_fair_net net = {.n_flows = 3, .n_resources = 1, .first = first, .uses = uses, .capacity = capacity};
  begin(&net);
  for (uint32_t f = 0; f < 3; f++) assert_rate(f, 4);
  by_fair_stop(&fair, 1);
  by_fair_share(&fair);
  assert_int_equal(fair.n_changed, 2);
  assert_rate(0, 6);
  assert_rate(2, 6);
  by_fair_start(&fair, 1);
  by_fair_share(&fair);
  assert_rate(1, 4);
  by_fair_fini(&fair);
}

/* Flow 0 uses both resources, flow 1 the first, and flow 2 the second. */
static void test_a_long_flow_and_two_short_ones(void **state) {
  (void)state;
  uint32_t first[] = {0, 2, 3, 4};
  struct by_fair_use uses[] = {{0, 1}, {1, 1}, {0, 1}, {1, 1}};
  double capacity[] = {10, 4};
  struct by_fair_net net = {.n_flows = 3, .n_resources = 2, .first = first, .uses = uses, .capacity = capacity};
  begin(&net);
  assert_rate(0, 2);
  assert_rate(1, 8); /* This is what the long flow leaves. */
  assert_rate(2, 2);
  by_fair_stop(&fair, 2); /* The first resource limits it then, and the short flow there has less. */
  by_fair_share(&fair);
  assert_rate(0, 4);
  assert_rate(1, 6);
  by_fair_stop(&fair, 1);
  by_fair_share(&fair);
  assert_int_equal(fair.n_changed, 0);
  by_fair_fini(&fair);
}

/* One flow represents three flows, of which each resource carries two. */
static void test_weights(void **state) {
  (void)state;
  uint32_t first[] = {0, 1, 2};
  struct by_fair_use uses[] = {{0, 2}, {0, 1}};
  double capacity[] = {9};
  struct by_fair_net net = {.n_flows = 2, .n_resources = 1, .first = first, .uses = uses, .capacity = capacity};
  begin(&net);
  assert_rate(0, 3);
  assert_rate(1, 3);
  by_fair_fini(&fair);
}

static void test_nothing_in_the_way(void **state) {
  (void)state;
  uint32_t first[] = {0, 0};
  struct by_fair_net net = {.n_flows = 1, .first = first};
  begin(&net);
  assert_true(isinf(fair.rate[0]));
  by_fair_fini(&fair);
}

/* --- Use over time, read back in slots of another width: a change that spans two slots is divided by time --- */

static void assert_nearly(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-2 * (1 + fabs(wanted)))) fail_msg("%.12g is not %.12g", got, wanted);
}

static void test_halves(void **state) {
  (void)state;
  struct by_use_log log;
  double slots[4];
  assert_ok(by_use_log_init(&log, 2));
  by_use_log_change(&log, 1, 0, 10);
  by_use_log_change(&log, 1, 8, -6); /* The use is 10 per second for 8 s, then 4 for 8 s. */
  by_use_log_change(&log, 1, 16, -4);
  by_use_log_read(&log, 1, 16, 4, slots);
  assert_nearly(slots[0], 40);
  assert_nearly(slots[1], 40);
  assert_nearly(slots[2], 16);
  assert_nearly(slots[3], 16);
  by_use_log_read(&log, 0, 16, 4, slots);
  for (int i = 0; i < 4; i++) assert_nearly(slots[i], 0);
  by_use_log_fini(&log);
}

/* Nothing is lost for any length and any division. */
static void test_nothing_is_lost(void **state) {
  (void)state;
  for (double seconds = 1e-7; seconds < 1e5; seconds *= 7) {
    struct by_use_log log;
    double slots[48], sum = 0;
    assert_ok(by_use_log_init(&log, 1));
    for (int i = 0; i < 100; i++) by_use_log_change(&log, 0, seconds * i / 100, i % 2 ? -3 / seconds : 3 / seconds);
    by_use_log_read(&log, 0, seconds, 48, slots);
    for (int i = 0; i < 48; i++) sum += slots[i];
    if (fabs(sum - 1.5) > 1e-3) fail_msg("%.9g of 1.5 over %g s", sum, seconds);
    by_use_log_fini(&log);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_chunk_there_and_back),
      cmocka_unit_test(test_star_shares_its_centre),
      cmocka_unit_test(test_chain_is_a_pipeline),
      cmocka_unit_test(test_ring_is_optimal_on_an_even_star),
      cmocka_unit_test(test_shared_links),
      cmocka_unit_test(test_exchange),
      cmocka_unit_test(test_one_rank_and_no_bytes),
      cmocka_unit_test(test_symmetry),
      cmocka_unit_test(test_bounded_work),
      cmocka_unit_test(test_messages_advance_alike),
      cmocka_unit_test(test_helpers),
      cmocka_unit_test(test_switches),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_one_resource),
      cmocka_unit_test(test_a_long_flow_and_two_short_ones),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_nothing_in_the_way),
      cmocka_unit_test(test_halves),
      cmocka_unit_test(test_nothing_is_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
