/* Tests of what a job believes of its network: when links are taken to be slow or whole again, what its topology is
 * then, and which paths are probed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "network_estimate.h"
#include "rng.h"
#include "topology_formats.h"

/* Four hosts, each wired to each of the others at 100 Mbit/s. */
#define MESH                                                                                                           \
  "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}]," \
  "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"100m\"},{\"a\":\"a\",\"b\":\"c\",\"capacity\":\"100m\"},"        \
  "{\"a\":\"a\",\"b\":\"d\",\"capacity\":\"100m\"},{\"a\":\"b\",\"b\":\"c\",\"capacity\":\"100m\"},"                   \
  "{\"a\":\"b\",\"b\":\"d\",\"capacity\":\"100m\"},{\"a\":\"c\",\"b\":\"d\",\"capacity\":\"100m\"}]}"
enum { HOSTS = 4 };

static struct {
  struct by_topology *topology;
  struct by_network_estimate *estimate;
  uint32_t nodes[HOSTS], hosts;
  double now;
} world;

static void begin(const char *topology) {
  memset(&world, 0, sizeof world);
  assert_ok(by_topology_named(topology, &world.topology));
  assert_ok(by_network_estimate_create(world.topology, false, HOSTS, 1, &world.estimate));
  for (uint32_t v = 0, h = 0; v < world.topology->n_nodes && h < HOSTS; v++)
    if (world.topology->nodes[v].kind == BY_NODE_HOST) world.nodes[h++] = v;
  world.now = 100;
}

static void finish(void) {
  by_network_estimate_destroy(world.estimate);
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
    if (others || (h == 0 && n)) by_network_estimate_report(world.estimate, h, world.nodes[h], n, to, rates, world.now);
  }
  return by_network_estimate_tick(world.estimate, world.now, &settled);
}

/* What the link of the topology's copy carries from one host to another; both are its ends. */
static double carries(uint32_t from, uint32_t to) {
  struct by_topology *copy;
  double rate = 0;
  assert_ok(by_network_estimate_copy(world.estimate, &copy));
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
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
  assert_true(pass(1, 20e6, true)); /* It is still to be planned for, */
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  assert_true(carries(1, 0) == 100e6 && carries(0, 2) == 100e6 && carries(2, 1) == 100e6);
  assert_false(pass(1, 20e6, true)); /* and now it has been. */
  assert_false(pass(0.9, 90e6, true));
  assert_false(pass(0.9, 90e6, true));
  assert_true(pass(0.9, 90e6, true));
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
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
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
  (void)pass(0.9, 90e6, false);
  double since = world.now;
  while (!pass(1, 20e6, false)) assert_true(world.now < since + 4);
  assert_true(world.now >= since + 2 * 8 * 0.08);
  assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, 2, world.now, &probe));
  assert_true(probe.lasts >= 4 * 0.08 && probe.first >= (uint64_t)(20e6 / 8 * 8 * 0.08));
  since = world.now;
  do (void)pass(1, 20e6, false);
  while (!by_network_estimate_next_probe(world.estimate, world.nodes, 2, world.now, &probe));
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
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
  finish();
}

/* A link of which half is left may be shared with another job: it counts after ten seconds. One that carries much less
 * counts at once, as it does when it has recovered to a half. */
static void test_half(void **state) {
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) assert_false(pass(1, 50e6, true));
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
  for (int i = 0; i < 38; i++) assert_false(pass(1, 50e6, true));
  assert_true(by_network_estimate_may_be_shared(world.estimate));
  assert_true(carries(0, 1) == 100e6);
  for (int i = 0; i < 4; i++) (void)pass(1, 50e6, true);
  assert_true(pass(1, 50e6, true));
  assert_float_equal(carries(0, 1) / 1e6, 52.5, 0.1);
  assert_false(pass(1, 50e6, true));
  for (int i = 0; i < 8; i++) (void)pass(1, 20e6, true);
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  assert_false(by_network_estimate_may_be_shared(world.estimate));
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
  assert_ok(by_network_estimate_grow(world.estimate, HOSTS + 2));
  assert_true(pass(1, 20e6, false));
  for (int i = 0; i < 4; i++) {
    world.now += 0.25;
    rate.sent++;
    by_network_estimate_report(world.estimate, HOSTS + 1, world.nodes[2], 1, &world.nodes[3], &rate, world.now);
    (void)by_network_estimate_tick(world.estimate, world.now, &settled);
  }
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 2);
  assert_float_equal(carries(2, 3) / 1e6, 21, 0.1);
  finish();
}

/* Has the one probe that is due sent, which takes so much of its second part. */
static void probe_once(double bandwidth) {
  struct by_path_probe probe;
  assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  by_network_estimate_handle_probe(world.estimate, probe.from, probe.to, bandwidth, false, world.now);
  assert_false(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
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
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
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
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
  assert_false(pass(0.9, 90e6, true));
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
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
    by_network_estimate_report(world.estimate, 1, world.nodes[1], 1, &world.nodes[0], &back, world.now + 0.1);
    (void)pass(1, 20e6, false);
  }
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 2);
  for (int i = 0; i < 2; i++) {
    assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
    by_network_estimate_handle_probe(world.estimate, probe.from, probe.to, 0, false, world.now);
  }
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  (void)pass(0, 0, false);
  assert_true(settled);
  by_network_estimate_handle_probe(world.estimate, world.nodes[0], world.nodes[1], 90e6, false, world.now);
  assert_true(pass(0, 0, false) && !settled);
  assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  assert_true(probe.from == world.nodes[1] && probe.to == world.nodes[0]);
  by_network_estimate_handle_probe(world.estimate, probe.from, probe.to, 90e6, false, world.now);
  (void)pass(0, 0, false);
  assert_true(settled && by_network_estimate_count_slow(world.estimate) == 0);
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
  uint32_t slow = by_network_estimate_count_slow(world.estimate);
  assert_true(slow >= 2 && carries(4, 1) < 25e6);
  bool probed = false;
  while (by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe))
    probed |= probe.from == world.nodes[2] && probe.to == world.nodes[1];
  assert_true(probed); /* not from the host whose link seems slow */
  by_network_estimate_handle_probe(world.estimate, world.nodes[2], world.nodes[1], 180e6, false, world.now);
  (void)pass(0, 0, false);
  assert_int_equal(by_network_estimate_count_slow(world.estimate), slow - 1);
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
    assert_false(by_network_estimate_was_mistaken(world.estimate));
    for (int i = 0; i < 4 * seconds; i++) (void)pass(1, 20e6, true);
    by_network_estimate_handle_probe(world.estimate, world.nodes[0], world.nodes[1], 90e6, false, world.now);
    assert_int_equal(by_network_estimate_was_mistaken(world.estimate), seconds == 1);
    assert_true(carries(0, 1) == 100e6);
    assert_false(by_network_estimate_was_mistaken(world.estimate));
    finish();
  }
}

/* A link that is slow already and becomes a little slower explains a path; others of its way are not blamed as well. */
static void test_explained(void **state) {
  (void)state;
  begin_sites();
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, false);
  by_network_estimate_handle_probe(world.estimate, world.nodes[2], world.nodes[1], 180e6, false, world.now);
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
  for (int i = 0; i < 12; i++) (void)pass(1, 14e6, false);
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
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
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  double since = world.now;
  probe_once(0);
  assert_false(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  while (world.now < since + 200) {
    (void)pass(0, 0, true);
    if (!by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe)) continue;
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
  assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  assert_false(pass(0.2, 95e6, true));
  assert_true(pass(0.2, 95e6, true));
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
  (void)pass(0, 0, true);
  world.now += 100;
  assert_false(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  finish();
}

/* Pauses between probes are 30 first parts at first, and 30 s later. */
static void test_probe_periods(void **state) {
  struct by_path_probe probe;
  double last = 0, shortest = INFINITY, longest = 0;
  (void)state;
  begin(MESH);
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  (void)carries(0, 1);
  probe_once(0);
  for (int i = 0; i < 4 * 700; i++) {
    (void)(i % 400 == 399 ? pass(1, 20e6, true)
                          : pass(0, 0, true)); /* A call now and then shows that it is still slow. */
    if (!by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe)) continue;
    if (last > 0) shortest = fmin(shortest, world.now - last), longest = fmax(longest, world.now - last);
    last = world.now;
  }
  assert_true(shortest >= 30 * 0.06 && shortest <= 30 * 0.06 + 0.25);
  assert_true(longest >= 30 && longest <= 33);
  finish();
}

/* A probe has a first part of 0.06 s and a second one of 0.1 s, of 256 MB at most. */
static void test_probe_times(void **state) {
  static const char *const topologies[] = {MESH, "mesh:4,link=400g"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct by_path_probe probe;
    begin(topologies[i]);
    double rate = i ? 80e9 : 20e6;
    for (int k = 0; k < 3; k++) (void)pass(1, rate, !i);
    assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
    assert_float_equal(probe.lasts, 0.1, 1e-9);
    assert_float_equal((double)probe.first, i ? 256e6 : 1.05 * rate / 8 * 0.06, 1e3);
    assert_float_equal((double)probe.bytes, i ? 256e6 : 100e6 / 8 * 0.1, 1e3);
    finish();
  }
}

/* What a rough link is known to carry changes from 21 to 20 Mbit/s when its rate is settled: that is not worth a plan.
 */
static void test_gain(void **state) {
  (void)state;
  begin(MESH);
  by_network_estimate_destroy(world.estimate);
  for (uint32_t l = 0; l < world.topology->n_links; l++) world.topology->links[l].rough = true;
  assert_ok(by_network_estimate_create(world.topology, true, HOSTS, 1, &world.estimate));
  for (int i = 0; i < 3; i++) (void)pass(1, 20e6, true);
  probe_once(0);
  (void)pass(1, 20e6, true);
  assert_float_equal(carries(0, 1) / 1e6, 21, 0.1);
  for (int i = 0; i < 4 * 40; i++) assert_false(pass(1, 20e6, true));
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
  assert_float_equal(carries(0, 1) / 1e6, 20, 0.1);
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
    assert_false(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  }
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
  finish();
}

/* Hosts round a switch: what is slow is one of two links, and a pair of hosts over it is probed. */
static void test_behind_a_switch(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin("star:4,nic=100m");
  for (int i = 0; i < 12; i++) (void)pass(1, 20e6, false);
  uint32_t slow = by_network_estimate_count_slow(world.estimate);
  assert_in_range(slow, 1, 2);
  for (int i = 0; i < 20; i++) (void)pass(0, 0, false);
  assert_true(by_network_estimate_next_probe(world.estimate, world.nodes, HOSTS, world.now, &probe));
  assert_true(probe.from == world.nodes[0] || probe.to == world.nodes[1]);
  assert_true(probe.from != probe.to);
  finish();
}

/* Reports of nobody, and numbers that make no sense, do no harm. */
static void test_strange_reports(void **state) {
  struct by_seen_rate rate = {.sent = 1e30, .busy = 1, .bandwidth = 1e-30};
  (void)state;
  begin(MESH);
  by_network_estimate_report(world.estimate, HOSTS, 0, 1, &world.nodes[1], &rate, world.now);
  for (int i = 0; i < 20; i++) {
    rate.sent = i % 2 ? 0 : 1e30;
    world.now += 0.25;
    by_network_estimate_report(world.estimate, 0, 0, 1, &world.nodes[1], &rate, world.now);
    by_network_estimate_report(world.estimate, 0, 0, 1, &world.nodes[0], &rate, world.now);
    (void)by_network_estimate_tick(world.estimate, world.now, &settled);
  }
  assert_true(carries(0, 1) >= 1e6); /* A hundredth is left, whatever is reported. */
  finish();
}

/* ---- refinement of what was measured */

/* What each step of the topology really carries, and what probes have taken. */
static struct {
  double truth[2 * 64];
  uint32_t probes;
  double sent, probed; /* bytes */
  double least_noise;
  struct by_rng rng;
} field;

static void begin_refining(const char *topology, bool measured) {
  memset(&world, 0, sizeof world);
  memset(&field, 0, sizeof field);
  by_rng_init(&field.rng, 11);
  field.least_noise = 1;
  assert_ok(by_topology_named(topology, &world.topology));
  assert_ok(by_network_estimate_create(world.topology, measured, HOSTS, 1, &world.estimate));
  for (uint32_t v = 0; v < world.topology->n_nodes; v++)
    if (world.topology->nodes[v].kind == BY_NODE_HOST && world.hosts < HOSTS) world.nodes[world.hosts++] = v;
  for (uint32_t s = 0; s < 2 * world.topology->n_links; s++)
    field.truth[s] = world.topology->links[s / 2].capacity[s % 2].all;
  world.now = 100;
}

/* The step from one node to a neighbour. */
static uint32_t step_of(uint32_t from, uint32_t to) {
  for (uint32_t l = 0; l < world.topology->n_links; l++) {
    if (world.topology->links[l].a == from && world.topology->links[l].b == to) return 2 * l + BY_AB;
    if (world.topology->links[l].b == from && world.topology->links[l].a == to) return 2 * l + BY_BA;
  }
  fail();
  return 0;
}

static double least_between(const struct by_topology *topology, const double *rates, uint32_t from, uint32_t to) {
  struct by_path_cache ways;
  uint32_t *steps, n;
  double least = INFINITY;
  assert_ok(by_path_cache_init(&ways, topology));
  assert_true(by_path_cache_find(&ways, from, to, &steps, &n));
  for (uint32_t i = 0; i < n; i++)
    least = fmin(least, rates ? rates[steps[i]] : topology->links[steps[i] / 2].capacity[steps[i] % 2].all);
  free(steps);
  by_path_cache_fini(&ways);
  return least;
}

/* A second in which each host sends its neighbour `sent` bit/s, and at most one probe. */
static bool refine(double sent, bool idle, struct by_path_probe *probe) {
  world.now++;
  for (uint32_t h = 0; h < world.hosts; h++) {
    struct by_seen_rate rate = {.sent = sent + world.now, .busy = 0.5};
    uint32_t to = world.nodes[(h + 1) % world.hosts];
    if (sent > 0) by_network_estimate_report(world.estimate, h, world.nodes[h], 1, &to, &rate, world.now);
    if (world.now > 101) field.sent += rate.sent / 8;
  }
  (void)by_network_estimate_tick(world.estimate, world.now, &settled);
  if (!by_network_estimate_next_refinement(world.estimate, world.nodes, world.hosts, idle, world.now, probe))
    return false;
  field.probes++;
  field.probed += (double)(probe->first + probe->bytes);
  assert_true(field.probed <= 0.02 * (field.sent - field.probed) + 1);
  return true;
}

static void answer(const struct by_path_probe *probe, bool idle) {
  double noise = field.least_noise + (1 - field.least_noise) * by_rng_unit(&field.rng);
  double most = 8 * (double)probe->bytes / probe->lasts;
  double rate = noise * least_between(world.topology, field.truth, probe->from, probe->to);
  by_network_estimate_handle_probe(world.estimate, probe->from, probe->to, fmin(rate, most), idle, world.now);
}

static void refine_for(int seconds) {
  struct by_path_probe probe;
  for (int i = 0; i < seconds; i++)
    if (refine(40e6, true, &probe)) answer(&probe, true);
}

/* Tries every 50 ms to probe, and returns the seconds until there is a probe. */
static double wait_for_probe(struct by_path_probe *probe) {
  double since = world.now;
  do world.now += 0.05;
  while (!by_network_estimate_next_refinement(world.estimate, world.nodes, world.hosts, true, world.now, probe) &&
         world.now < since + 100);
  return world.now - since;
}

/* One probe a second, or 5 s after the end of one that is not answered. The first part of each takes a quarter of what
 * the path carries. */
static void test_refine_times(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin_refining("star:4,nic=100m", true);
  for (int i = 0; i < 100; i++) (void)refine(90e6, false, &probe);
  world.now += 20;
  assert_true(by_network_estimate_next_refinement(world.estimate, world.nodes, world.hosts, true, world.now, &probe));
  assert_float_equal((double)probe.first, 0.25 * 0.06 * 100e6 / 8, 1);
  answer(&probe, true);
  assert_float_equal(wait_for_probe(&probe), 1, 0.06);
  assert_float_equal(wait_for_probe(&probe), 5 + 0.06 + 0.1, 0.06);
  finish();
}

/* Over a long path the first part is half of what TCP's window lets through by its end. */
static void test_refine_window(void **state) {
  static const char far[] = "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
                            "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"100m\",\"delay\":0.04}]}";
  struct by_path_probe probe;
  (void)state;
  begin_refining(far, true);
  for (int i = 0; i < 200; i++) (void)refine(90e6, false, &probe);
  world.now += 20;
  assert_true(by_network_estimate_next_refinement(world.estimate, world.nodes, world.hosts, true, world.now, &probe));
  assert_float_equal((double)probe.first, 10e3 * 128, 1);
  finish();
}

/* A star that is as it was measured: each direction is probed twice, two at a time, and then no more. */
static void test_refine_nothing(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin_refining("star:4,nic=100m", true);
  assert_false(refine(0, true, &probe)); /* Nothing was sent yet. */
  refine_for(400);
  assert_int_equal(field.probes, 8);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 0);
  refine_for(400);
  assert_int_equal(field.probes, 8);
  finish();
}

/* A given topology is what it says, but for its rough links. */
static void test_refine_nothing_given(void **state) {
  (void)state;
  begin_refining("star:4,nic=100m", false);
  refine_for(400);
  assert_int_equal(field.probes, 0);
  finish();
}

/* One direction carries 0.7 of what was measured. It is found among all others, planned for, and kept. */
static void test_refine_less(void **state) {
  struct by_topology *kept;
  (void)state;
  begin_refining("star:4,nic=100m", true);
  uint32_t host = world.nodes[1], centre = world.topology->links[0].a ^ world.topology->links[0].b ^ world.nodes[0];
  field.truth[step_of(centre, host)] = 70e6;
  refine_for(800);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 1);
  assert_in_range(field.probes, 9, 16);
  assert_float_equal(carries(centre, host) / 1e6, 70, 1);
  assert_true(by_network_estimate_tick(world.estimate, world.now, &settled) == false && settled);
  for (uint32_t h = 0; h < HOSTS; h++) {
    assert_true(carries(world.nodes[h], centre) == 100e6);
    assert_true(h == 1 || carries(centre, world.nodes[h]) == 100e6);
  }
  assert_ok(by_network_estimate_copy_refined(world.estimate, &kept));
  assert_float_equal(least_between(kept, NULL, world.nodes[0], host) / 1e6, 70, 1);
  by_topology_destroy(kept);
  finish();
}

/* What is found is to be planned for. */
static void test_refined_is_news(void **state) {
  struct by_path_probe probe;
  bool news = false;
  (void)state;
  begin_refining("star:4,nic=100m", true);
  for (uint32_t s = 0; s < 2 * world.topology->n_links; s++) field.truth[s] = 130e6;
  for (int i = 0; i < 400 && !news; i++) {
    if (refine(40e6, true, &probe)) answer(&probe, true);
    news = by_network_estimate_tick(world.estimate, world.now, &settled);
    assert_true(news == (by_network_estimate_count_refinements(world.estimate) > 0));
  }
  assert_true(news);
  refine_for(400);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 8);
  assert_float_equal(least_between(world.topology, NULL, world.nodes[0], world.nodes[1]) / 1e6, 100, 0);
  finish();
}

/* Of two hosts nobody can tell whose link is slow. */
static void test_refine_together(void **state) {
  (void)state;
  begin_refining("star:2,nic=100m", true);
  uint32_t centre = world.topology->links[0].a ^ world.topology->links[0].b ^ world.nodes[0];
  field.truth[step_of(centre, world.nodes[1])] = 70e6;
  refine_for(800);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 2);
  assert_float_equal(carries(world.nodes[0], centre) / 1e6, 70, 1);
  assert_float_equal(carries(centre, world.nodes[1]) / 1e6, 70, 1);
  assert_true(carries(world.nodes[1], centre) == 100e6 && carries(centre, world.nodes[0]) == 100e6);
  finish();
}

/* Links carry what was measured with several flows at once, of which each path carries half only. */
static void test_refine_paths(void **state) {
  (void)state;
  begin_refining("star:4,nic=100m", true);
  for (uint32_t s = 0; s < 2 * world.topology->n_links; s++) field.truth[s] = 50e6;
  refine_for(2000);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 0);
  assert_int_equal(field.probes, 8);
  finish();
}

/* Probes beside calls show that a link carries more, but not that it carries less; and links of calls are not probed
 * while these go on. */
static void test_refine_beside_calls(void **state) {
  struct by_path_probe probe;
  (void)state;
  begin_refining(MESH, true);
  uint32_t n = 0;
  for (int i = 0; i < 800; i++) {
    if (!refine(40e6, false, &probe)) continue;
    assert_true(probe.to != (probe.from + 1) % HOSTS); /* That is where each sends. */
    answer(&probe, false);
    n++;
  }
  assert_int_equal(n, 2 * 8);
  finish();
  begin_refining(MESH, true);
  for (int i = 0; i < 800; i++)
    if (refine(40e6, true, &probe))
      by_network_estimate_handle_probe(world.estimate, probe.from, probe.to,
                                       probe.to == (probe.from + 1) % HOSTS ? 50e6 : 125e6, false, world.now);
  for (uint32_t from = 0; from < HOSTS; from++)
    for (uint32_t to = 0; to < HOSTS; to++) {
      bool used = to == (from + 1) % HOSTS;
      if (from != to) assert_true(carries(from, to) == (used ? 100e6 : 125e6));
    }
  finish();
}

/* The line between two far hosts was found too narrow. Calls show what it carries, or probes if there is time. */
static void test_refine_rough(void **state) {
  static const char far[] = "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
                            "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"60m\",\"delay\":0.04,"
                            "\"rough\":true}]}";
  struct by_topology *kept;
  (void)state;
  begin_refining(far, false);
  world.hosts = 0; /* reports only of calls, and no probes */
  for (uint32_t v = 0; v < 2; v++) world.nodes[v] = v;
  for (int i = 0; i < 40; i++) (void)pass(0.9, 95e6, false);
  assert_float_equal(carries(0, 1) / 1e6, 1.05 * 95, 0.1);
  assert_true(carries(1, 0) == 60e6);
  assert_ok(by_network_estimate_copy_refined(world.estimate, &kept));
  assert_true(kept->links[0].rough);
  by_topology_destroy(kept);
  finish();
  begin_refining(far, false);
  field.truth[0] = field.truth[1] = 100e6;
  refine_for(400);
  assert_true(carries(0, 1) >= 90e6 && carries(1, 0) >= 90e6);
  assert_true(carries(0, 1) <= 105e6 && carries(1, 0) <= 105e6);
  assert_ok(by_network_estimate_copy_refined(world.estimate, &kept));
  assert_false(kept->links[0].rough);
  by_topology_destroy(kept);
  finish();
}

/* Bursts after pauses get more than the link carries, and so does the kernel's rate of a moment: neither counts. */
static void test_refine_bursts(void **state) {
  static const char two[] = "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
                            "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"100m\"}]}";
  uint32_t b;
  (void)state;
  begin_refining(two, true);
  world.hosts = 0;
  for (uint32_t v = 0; v < 2; v++) world.nodes[v] = v;
  b = world.nodes[1];
  for (int i = 0; i < 40; i++) (void)pass(0.54, 130e6, false);
  assert_true(carries(0, 1) == 100e6);
  for (int i = 0; i < 40; i++) {
    struct by_seen_rate rate = {.sent = 85e6 + i, .busy = 0.9, .bandwidth = 2e9};
    world.now++;
    by_network_estimate_report(world.estimate, 0, world.nodes[0], 1, &b, &rate, world.now);
    (void)by_network_estimate_tick(world.estimate, world.now, &settled);
  }
  assert_true(carries(0, 1) == 100e6);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 0);
  finish();
}

/* Nothing was known of the line, and too much assumed. Once calls have shown less for half a minute, it is what they
 * show. */
static void test_refine_assumed(void **state) {
  static const char far[] = "{\"format\":\"banyan-topology 1\",\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
                            "\"links\":[{\"a\":\"a\",\"b\":\"b\",\"capacity\":\"300m\",\"rough\":true}]}";
  struct by_topology *kept;
  struct by_path_probe probe;
  (void)state;
  begin_refining(far, true);
  for (uint32_t v = 0; v < 2; v++) world.nodes[v] = v;
  for (int i = 0; i < 4 * 29; i++) {
    (void)pass(1, 84e6, false);
    if (by_network_estimate_next_probe(world.estimate, world.nodes, 2, world.now, &probe))
      by_network_estimate_handle_probe(world.estimate, probe.from, probe.to, 0, false, world.now);
  }
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 1);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 0);
  for (int i = 0; i < 4 * 3; i++) (void)pass(1, 84e6, false);
  assert_int_equal(by_network_estimate_count_slow(world.estimate), 0);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 1);
  assert_float_equal(carries(0, 1) / 1e6, 84, 0.1);
  assert_true(carries(1, 0) == 300e6);
  assert_ok(by_network_estimate_copy_refined(world.estimate, &kept));
  assert_float_equal(kept->links[0].capacity[BY_AB].all / 1e6, 84, 0.1);
  by_topology_destroy(kept);
  finish();
}

/* A probe that is not answered, or of which nothing arrives in time, shows nothing, and there is an end of them. */
static void test_refine_in_vain(void **state) {
  struct by_path_probe probe;
  double last = 0;
  (void)state;
  begin_refining("star:2,nic=100m", true);
  for (int i = 0; i < 2000; i++) {
    if (!refine(40e6, true, &probe)) continue;
    if (field.probes <= 3 && field.probes > 1) assert_true(world.now > last + 5);
    if (field.probes > 2) by_network_estimate_handle_probe(world.estimate, probe.from, probe.to, 0, true, world.now);
    last = world.now;
  }
  assert_int_equal(field.probes, 2 + 2 * 12);
  assert_int_equal(by_network_estimate_count_refinements(world.estimate), 0);
  finish();
}

/* Stars that were measured with errors of up to 30 %, and probes each of which shows up to a twentieth less: what is
 * believed of ways gets nearer to the truth. */
static void test_refine_random(void **state) {
  double off_before = 0, off_after = 0;
  uint32_t ways = 0, far_before = 0, far_after = 0;
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    struct by_topology *after;
    begin_refining("star:4,nic=100m", true);
    by_rng_init(&field.rng, seed);
    field.least_noise = 0.95;
    for (uint32_t s = 0; s < 2 * world.topology->n_links; s++) field.truth[s] *= 0.7 + 0.6 * by_rng_unit(&field.rng);
    refine_for(2000);
    assert_ok(by_network_estimate_copy_refined(world.estimate, &after));
    for (uint32_t i = 0; i < HOSTS * HOSTS; i++) {
      uint32_t from = world.nodes[i / HOSTS], to = world.nodes[i % HOSTS];
      if (from == to) continue;
      double truth = least_between(after, field.truth, from, to), now = least_between(after, NULL, from, to);
      off_before += fabs(log(100e6 / truth));
      off_after += fabs(log(now / truth));
      far_before += fabs(log(100e6 / truth)) > 0.25;
      far_after += fabs(log(now / truth)) > 0.25;
      ways++;
    }
    by_topology_destroy(after);
    finish();
  }
  print_message("off by %.3f before, %.3f after; more than a quarter: %u, %u of %u\n", off_before / ways,
                off_after / ways, far_before, far_after, ways);
  assert_true(off_after < 0.5 * off_before && far_after * 10 < far_before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slow_and_whole),
      cmocka_unit_test(test_half),
      cmocka_unit_test(test_newcomer),
      cmocka_unit_test(test_confirmed),
      cmocka_unit_test(test_not_confirmed),
      cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_long_trips),
      cmocka_unit_test(test_noise),
      cmocka_unit_test(test_probes),
      cmocka_unit_test(test_no_probe_of_what_is_used),
      cmocka_unit_test(test_behind_a_switch),
      cmocka_unit_test(test_strange_reports),
      cmocka_unit_test(test_narrow_way),
      cmocka_unit_test(test_partly_mended),
      cmocka_unit_test(test_mistaken),
      cmocka_unit_test(test_explained),
      cmocka_unit_test(test_refine_nothing),
      cmocka_unit_test(test_refine_nothing_given),
      cmocka_unit_test(test_refine_less),
      cmocka_unit_test(test_refined_is_news),
      cmocka_unit_test(test_refine_together),
      cmocka_unit_test(test_refine_beside_calls),
      cmocka_unit_test(test_refine_rough),
      cmocka_unit_test(test_refine_bursts),
      cmocka_unit_test(test_refine_random),
      cmocka_unit_test(test_refine_in_vain),
      cmocka_unit_test(test_refine_assumed),
      cmocka_unit_test(test_refine_paths),
      cmocka_unit_test(test_refine_times),
      cmocka_unit_test(test_refine_window),
      cmocka_unit_test(test_probe_periods),
      cmocka_unit_test(test_probe_times),
      cmocka_unit_test(test_gain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
