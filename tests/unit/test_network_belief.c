/* Tests of what a job believes of its network: when links are taken to be slow or whole again, what its topology is
 * then, and which paths are probed. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "network_belief.h"
#include "rng.h"
#include "topology_synth.h"

/* Four hosts, each wired to each of the others at 100 Mbit/s. */
#define MESH                                                                                                           \
  "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}]," \
  "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"100m\"},{\"a\":\"a\",\"b\":\"c\",\"capacity\":\"100m\"},"        \
  "{\"a\":\"a\",\"b\":\"d\",\"capacity\":\"100m\"},{\"a\":\"b\",\"b\":\"c\",\"capacity\":\"100m\"},"                   \
  "{\"a\":\"b\",\"b\":\"d\",\"capacity\":\"100m\"},{\"a\":\"c\",\"b\":\"d\",\"capacity\":\"100m\"}]}"
enum { HOSTS = 4 };

static struct {
  struct by_topology *topology;
  struct by_network_belief *belief;
  uint32_t nodes[HOSTS];
  double now;
} world;

static void begin(const char *topology) {
  memset(&world, 0, sizeof world);
  assert_ok(by_topology_named(topology, &world.topology));
  assert_ok(by_network_belief_create(world.topology, HOSTS, 1, &world.belief));
  for (uint32_t v = 0, h = 0; v < world.topology->n_nodes && h < HOSTS; v++)
    if (world.topology->nodes[v].kind == BY_NODE_HOST) world.nodes[h++] = v;
  world.now = 100;
}

static void finish(void) {
  by_network_belief_destroy(world.belief);
  by_topology_destroy(world.topology);
}

static bool settled;

/* Lets a quarter of an interval pass. Host 0 reports a path to host 1; `busy` 0: it has none. Others, where `others` is
 * so, report paths to all hosts that are as fast as they should be. */
static bool pass(double busy, double bandwidth, bool others) {
  static double more;
  world.now += 0.25;
  more++; /* No two reports are quite the same. */
  for (uint32_t h = 0; h < HOSTS; h++) {
    struct by_seen_rate rates[HOSTS];
    uint32_t to[HOSTS], n = 0;
    for (uint32_t other = 0; other < HOSTS; other++) {
      bool it = h == 0 && other == 1;
      if (other == h || !(it ? busy > 0 : others)) continue;
      double got = it ? bandwidth : 90e6, part = it ? busy : 0.9;
      rates[n] = (struct by_seen_rate){.sent = part * got + more, .busy = part, .bandwidth = got};
      to[n++] = world.nodes[other];
    }
    if (others || (h == 0 && n)) by_network_belief_report(world.belief, h, world.nodes[h], n, to, rates, world.now);
  }
  return by_network_belief_tick(world.belief, world.now, &settled);
}

/* What the link of the topology's copy carries from one host to another; both are its ends. */
static double carries(uint32_t from, uint32_t to) {
  struct by_topology *copy;
  double rate = 0;
  assert_ok(by_network_belief_copy(world.belief, &copy));
  assert_ok(by_topology_validate(copy));
  for (uint32_t l = 0; l < copy->n_links; l++) {
    const struct by_link *link = &copy->links[l];
    if (link->a == from && link->b == to) rate = by_residual(link->capacity[BY_AB]);
    if (link->b == from && link->a == to) rate = by_residual(link->capacity[BY_BA]);
  }
  by_topology_destroy(copy);
  return rate;
}

/* A link that carries a fifth is believed to be slow after three reports, in this direction, and whole again after
 * three. */
static void test_slow_and_whole(void **state) {
  (void)state;
  begin(MESH);
  for (int i = 0; i < 20; i++) assert_false(pass(0.9, 90e6, true));
  assert_false(pass(1, 20e6, true));
  assert_false(pass(1, 20e6, true));
  assert_true(pass(1, 20e6, true));
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  assert_true(pass(1, 20e6, true)); /* It is still to be planned for, */
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  assert_true(carries(1, 0) == 100e6 && carries(0, 2) == 100e6 && carries(2, 1) == 100e6);
  assert_false(pass(1, 20e6, true)); /* and now it has been. */
  assert_false(pass(0.9, 90e6, true));
  assert_false(pass(0.9, 90e6, true));
  assert_true(pass(0.9, 90e6, true));
  assert_int_equal(by_network_belief_count_slow(world.belief), 0);
  assert_true(carries(0, 1) == 100e6);
  assert_false(pass(0.9, 90e6, true));
  finish();
}

/* Two hosts 80 ms apart: reports of one slow stretch, which one loss explains, count once; in a row of them it is
 * believed. Probes take several round trips, and are far apart. */
static void test_long_trips(void **state) {
  static const char far[] = "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
                            "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"100m\",\"delay\":0.04}]}";
  struct by_path_probe probe;
  (void)state;
  begin(far);
  for (int i = 0; i < 50; i++) assert_false(i % 5 ? pass(1, 20e6, false) : pass(0.9, 90e6, false));
  assert_int_equal(by_network_belief_count_slow(world.belief), 0);
  (void)pass(0.9, 90e6, false);
  double since = world.now;
  while (!pass(1, 20e6, false)) assert_true(world.now < since + 4);
  assert_true(world.now >= since + 2 * 8 * 0.08);
  assert_true(by_network_belief_probe(world.belief, world.nodes, 2, world.now, &probe));
  assert_true(probe.lasts >= 4 * 0.08 && probe.first >= (uint64_t)(20e6 / 8 * 8 * 0.08));
  since = world.now;
  do (void)pass(1, 20e6, false);
  while (!by_network_belief_probe(world.belief, world.nodes, 2, world.now, &probe));
  assert_true(world.now >= since + 8 * 8 * 0.08);
  finish();
}

/* No link is believed to be slow while all paths sway by a third, nor while one of them stands still at times. */
static void test_noise(void **state) {
  struct by_rng rng;
  (void)state;
  begin(MESH);
  by_rng_init(&rng, 7);
  for (int i = 0; i < 4000; i++) {
    double rate = 90e6 * (0.67 + 0.33 * by_rng_unit(&rng));
    assert_false(i % 7 == 0 ? pass(1, 10e6, true) : pass(0.9, rate, true));
  }
  assert_int_equal(by_network_belief_count_slow(world.belief), 0);
  finish();
}

/* A link of which half is left may be shared with another job: it counts after ten seconds. One that carries much less
 * counts at once, as it does when it has recovered to a half. */
static void test_half(void **state) {
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) assert_false(pass(1, 50e6, true));
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  for (int i = 0; i < 38; i++) assert_false(pass(1, 50e6, true));
  assert_true(by_network_belief_may_be_shared(world.belief));
  assert_true(carries(0, 1) == 100e6);
  for (int i = 0; i < 4; i++) (void)pass(1, 50e6, true);
  assert_true(pass(1, 50e6, true));
  assert_float_equal(carries(0, 1) / 1e6, 52.5, 0.1);
  assert_false(pass(1, 50e6, true));
  for (int i = 0; i < 8; i++) (void)pass(1, 20e6, true);
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  assert_false(by_network_belief_may_be_shared(world.belief));
  for (int i = 0; i < 8; i++) (void)pass(1, 50e6, true);
  assert_float_equal(carries(0, 1) / 1e6, 52.5, 0.1);
  finish();
}

/* A process that comes later may report, too; what others have reported still counts. */
static void test_newcomer(void **state) {
  struct by_seen_rate rate = {.sent = 20e6, .busy = 1, .bandwidth = 20e6};
  (void)state;
  begin(MESH);
  for (int i = 0; i < 2; i++) assert_false(pass(1, 20e6, false));
  assert_ok(by_network_belief_grow(world.belief, HOSTS + 2));
  assert_true(pass(1, 20e6, false));
  for (int i = 0; i < 4; i++) {
    world.now += 0.25;
    rate.sent++;
    by_network_belief_report(world.belief, HOSTS + 1, world.nodes[2], 1, &world.nodes[3], &rate, world.now);
    (void)by_network_belief_tick(world.belief, world.now, &settled);
  }
  assert_int_equal(by_network_belief_count_slow(world.belief), 2);
  assert_float_equal(carries(2, 3) / 1e6, 21, 0.1);
  finish();
}

/* Has the one probe that is due sent, which takes so much of its second part. */
static void probe_once(double bandwidth) {
  struct by_path_probe probe;
  assert_true(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  by_network_belief_probed(world.belief, probe.from, probe.to, bandwidth, world.now);
  assert_false(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
}

/* A link that becomes slow is probed once before it is planned for. */
static void test_confirmed(void **state) {
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  assert_false(settled);
  assert_true(pass(1, 20e6, true) && !settled);
  probe_once(0);
  assert_true(pass(1, 20e6, true) && settled);
  assert_true(pass(1, 18e6, true) && settled);
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  /* It has become much slower, which is confirmed again. */
  for (int i = 0; i < 4; i++) (void)pass(1, 8e6, true);
  assert_false(settled);
  probe_once(0);
  assert_true(pass(1, 8e6, true) && settled);
  finish();
}

/* The link only seemed slow, as the job waited for another one; or it is half as fast as it should be. */
static void test_not_confirmed(void **state) {
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  probe_once(90e6);
  assert_int_equal(by_network_belief_count_slow(world.belief), 0);
  assert_false(pass(0.9, 90e6, true));
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  probe_once(40e6);
  assert_float_equal(carries(0, 1) / 1e6, 42, 0.1);
  assert_true(!pass(1, 40e6, true) && settled);
  finish();
}

/* Both directions were slow. When one of them is found to be whole, the other one is probed before it is planned for.
 */
static void test_both_ways(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) {
    struct by_seen_rate back = {.sent = 20e6 + i, .busy = 1, .bandwidth = 20e6};
    by_network_belief_report(world.belief, 1, world.nodes[1], 1, &world.nodes[0], &back, world.now + 0.1);
    (void)pass(1, 20e6, false);
  }
  assert_int_equal(by_network_belief_count_slow(world.belief), 2);
  for (int i = 0; i < 2; i++) {
    assert_true(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
    by_network_belief_probed(world.belief, probe.from, probe.to, 0, world.now);
  }
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  (void)pass(0, 0, false);
  assert_true(settled);
  by_network_belief_probed(world.belief, world.nodes[0], world.nodes[1], 90e6, world.now);
  assert_true(pass(0, 0, false) && !settled);
  assert_true(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  assert_true(probe.from == world.nodes[1] && probe.to == world.nodes[0]);
  by_network_belief_probed(world.belief, probe.from, probe.to, 90e6, world.now);
  (void)pass(0, 0, false);
  assert_true(settled && by_network_belief_count_slow(world.belief) == 0);
  finish();
}

/* Two sites with a slow line between them: each host's link carries more than any probe shows. */
static void begin_sites(void) {
  begin("{\"format\":\"banyan-topology "
        "1\",\"nodes\":[{\"name\":\"a0\"},{\"name\":\"a1\"},{\"name\":\"b0\"},{\"name\":\"b1\"},"
        "{\"name\":\"ra\",\"kind\":\"switch\"},{\"name\":\"rb\",\"kind\":\"switch\"}],\"links\":["
        "{\"a\":\"a0\",\"b\":\"ra\",\"capacity\":\"1g\"},{\"a\":\"a1\",\"b\":\"ra\",\"capacity\":\"1g\"},"
        "{\"a\":\"b0\",\"b\":\"rb\",\"capacity\":\"1g\"},{\"a\":\"b1\",\"b\":\"rb\",\"capacity\":\"1g\"},"
        "{\"a\":\"ra\",\"b\":\"rb\",\"capacity\":\"200m\"}]}");
}

/* A probe that gets nearly what the narrowest link of its way should carry finds no fault with any of its links. */
static void test_narrow_way(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin_sites();
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, false);
  uint32_t slow = by_network_belief_count_slow(world.belief);
  assert_true(slow >= 2 && carries(4, 1) < 25e6);
  bool probed = false;
  while (by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe))
    probed |= probe.from == world.nodes[2] && probe.to == world.nodes[1];
  assert_true(probed); /* not from the host whose link seems slow */
  by_network_belief_probed(world.belief, world.nodes[2], world.nodes[1], 180e6, world.now);
  (void)pass(0, 0, false);
  assert_int_equal(by_network_belief_count_slow(world.belief), slow - 1);
  assert_true(carries(4, 1) == 1e9 && carries(0, 4) < 25e6);
  finish();
}

/* A link that shows that it carries more is probed, since a plan that gives it little lets no path show how much. */
static void test_partly_mended(void **state) {
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  probe_once(0);
  assert_true(pass(1, 20e6, true) && settled);
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  for (int i = 0; i < 3; i++) (void)pass(1, 40e6, true);
  assert_float_equal(carries(0, 1) / 1e6, 42, 0.1);
  assert_false(settled);
  probe_once(90e6);
  assert_true(pass(1, 40e6, true) && settled);
  assert_true(carries(0, 1) == 100e6);
  finish();
}

/* A plan was made for a link that only seemed slow. It is none for one that was slow for long. */
static void test_mistaken(void **state) {
  (void)state;
  for (int seconds = 1; seconds <= 20; seconds += 19) {
    begin(MESH);
    for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
    assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
    assert_false(by_network_belief_was_mistaken(world.belief));
    for (int i = 0; i < 4 * seconds; i++) (void)pass(1, 20e6, true);
    by_network_belief_probed(world.belief, world.nodes[0], world.nodes[1], 90e6, world.now);
    assert_int_equal(by_network_belief_was_mistaken(world.belief), seconds == 1);
    assert_true(carries(0, 1) == 100e6);
    assert_false(by_network_belief_was_mistaken(world.belief));
    finish();
  }
}

/* A link that is slow already and becomes a little slower explains a path; others of its way are not blamed as well. */
static void test_explained(void **state) {
  (void)state;
  begin_sites();
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, false);
  by_network_belief_probed(world.belief, world.nodes[2], world.nodes[1], 180e6, world.now);
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  for (int i = 0; i < 12; i++) (void)pass(1, 14e6, false);
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  assert_float_equal(carries(0, 4) / 1e6, 14.7, 0.1);
  finish();
}

/* A slow link over which nobody sends is probed, the less often the longer it is slow. */
static void test_probes(void **state) {
  struct by_path_probe probe;
  double last = 0, apart = 0;
  int n = 0;
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  double since = world.now;
  probe_once(0);
  assert_false(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  while (world.now < since + 200) {
    (void)pass(0, 0, true);
    if (!by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe)) continue;
    assert_int_equal(probe.from, world.nodes[0]);
    assert_int_equal(probe.to, world.nodes[1]);
    assert_float_equal((double)probe.bytes * 8 / 100e6, probe.lasts, 1e-3);
    if (n++) assert_true(world.now - last >= 1);
    apart = world.now - last;
    last = world.now;
  }
  assert_in_range(n, 20, 60);
  assert_true(apart >= 10);
  /* One that shows more is repeated at once, until it is believed. */
  assert_false(pass(0.2, 95e6, true));
  (void)pass(0, 0, true);
  (void)pass(0, 0, true);
  assert_true(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  assert_false(pass(0.2, 95e6, true));
  assert_true(pass(0.2, 95e6, true));
  assert_int_equal(by_network_belief_count_slow(world.belief), 0);
  (void)pass(0, 0, true);
  world.now += 100;
  assert_false(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  finish();
}

/* A path that is in use shows what its links carry, and needs no probe. */
static void test_no_probe_of_what_is_used(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  probe_once(0);
  for (int i = 0; i < 400; i++) {
    (void)pass(1, 20e6, true);
    assert_false(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  }
  assert_int_equal(by_network_belief_count_slow(world.belief), 1);
  finish();
}

/* Hosts round a switch: what is slow is one of two links, and a pair of hosts over it is probed. */
static void test_behind_a_switch(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin("star:4,nic=100m");
  for (int i = 0; i < 12; i++) (void)pass(1, 20e6, false);
  uint32_t slow = by_network_belief_count_slow(world.belief);
  assert_in_range(slow, 1, 2);
  for (int i = 0; i < 20; i++) (void)pass(0, 0, false);
  assert_true(by_network_belief_probe(world.belief, world.nodes, HOSTS, world.now, &probe));
  assert_true(probe.from == world.nodes[0] || probe.to == world.nodes[1]);
  assert_true(probe.from != probe.to);
  finish();
}

/* Reports of nobody, and numbers that make no sense, do no harm. */
static void test_strange_reports(void **state) {
  struct by_seen_rate rate = {.sent = 1e30, .busy = 1, .bandwidth = 1e-30};
  (void)state;
  begin(MESH);
  by_network_belief_report(world.belief, HOSTS, 0, 1, &world.nodes[1], &rate, world.now);
  for (int i = 0; i < 20; i++) {
    rate.sent = i % 2 ? 0 : 1e30;
    world.now += 0.25;
    by_network_belief_report(world.belief, 0, 0, 1, &world.nodes[1], &rate, world.now);
    by_network_belief_report(world.belief, 0, 0, 1, &world.nodes[0], &rate, world.now);
    (void)by_network_belief_tick(world.belief, world.now, &settled);
  }
  assert_true(carries(0, 1) >= 1e6); /* A hundredth is left, whatever is reported. */
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slow_and_whole),  cmocka_unit_test(test_half),
      cmocka_unit_test(test_newcomer),        cmocka_unit_test(test_confirmed),
      cmocka_unit_test(test_not_confirmed),   cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_long_trips),      cmocka_unit_test(test_noise),
      cmocka_unit_test(test_probes),          cmocka_unit_test(test_no_probe_of_what_is_used),
      cmocka_unit_test(test_behind_a_switch), cmocka_unit_test(test_strange_reports),
      cmocka_unit_test(test_narrow_way),      cmocka_unit_test(test_partly_mended),
      cmocka_unit_test(test_mistaken),        cmocka_unit_test(test_explained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
