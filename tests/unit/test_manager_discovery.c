/* What a manager makes of agents' reports over time: when a change counts, what a restart of an agent changes, which
 * contradictions are shown, and when a written topology is rejected. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#include "manager_discovery.h"

enum { MOST = 8 };

static struct {
  double now;
  struct by_manager_discovery *discovery;
  struct by_topology *topology; /* the last one */
  unsigned changes;
  bool rejected;
} w;

static void begin(const struct by_topology *written, bool trust) {
  const struct by_manager_discovery_options options = {.written = written, .trust = trust};
  memset(&w, 0, sizeof w);
  w.now = 1000;
  assert_ok(by_manager_discovery_create(&options, w.now, &w.discovery));
  assert_true(isinf(by_manager_discovery_next(w.discovery)));
}

static void end(void) {
  by_manager_discovery_destroy(w.discovery);
  by_topology_destroy(w.topology);
}

/* Lets time pass as the manager's loop does. */
static void pass(double seconds) {
  double until = w.now + seconds;
  for (int rounds = 0; by_manager_discovery_next(w.discovery) <= until; rounds++) {
    struct by_topology *fresh;
    assert_true(rounds < 100);
    w.now = fmax(w.now, by_manager_discovery_next(w.discovery));
    enum by_discovery_verdict verdict = by_manager_discovery_evaluate(w.discovery, w.now, &fresh);
    w.rejected |= verdict == BY_DISCOVERY_REJECTED;
    assert_int_equal(verdict == BY_DISCOVERY_CHANGED, fresh != NULL);
    if (!fresh) continue;
    by_topology_destroy(w.topology);
    w.topology = fresh;
    w.changes++;
  }
  w.now = until;
}

/* An agent with interfaces eth0, eth1, ...: "s1:p0" is a neighbour and its port, "" none. */
static void agent_sends(enum by_cluster_type type, const char *host, const struct by_cluster_aggregates *aggregates,
                        const char *const *neighbours) {
  struct by_cluster_interface interfaces[MOST] = {{.name = NULL}};
  char names[MOST][8], texts[MOST][64];
  struct by_cluster_message message = {.type = type, .host = host, .aggregates = aggregates, .interfaces = interfaces};
  for (uint32_t i = 0; neighbours[i]; i++, message.n_interfaces++) {
    char *port;
    snprintf(names[i], sizeof names[i], "%s%u", aggregates ? "p" : "eth", i);
    snprintf(texts[i], sizeof texts[i], "%s", neighbours[i]);
    interfaces[i] = (struct by_cluster_interface){.name = names[i], .address = "", .rate = 1e9};
    if (!(port = strchr(texts[i], ':'))) continue;
    *port++ = '\0';
    interfaces[i].neighbour = texts[i];
    interfaces[i].neighbour_port = port;
  }
  by_manager_discovery_handle(w.discovery, host, &message, w.now);
}

#define HELLO(host, ...) agent_sends(BY_MESSAGE_HELLO, host, NULL, (const char *const[]){__VA_ARGS__, NULL})
#define REPORT(host, ...) agent_sends(BY_MESSAGE_REPORT, host, NULL, (const char *const[]){__VA_ARGS__, NULL})
#define SWITCH(cells_, ...)                                                                                            \
  agent_sends(BY_MESSAGE_HELLO, "s1", &(const struct by_cluster_aggregates){.cells = (cells_), .bytes = 1000},         \
              (const char *const[]){__VA_ARGS__, NULL})

static void must_show(const char *wanted) {
  struct by_text text;
  by_text_init(&text);
  by_manager_discovery_print(w.discovery, &text);
  if (!strstr(by_text_get(&text), wanted)) fail_msg("%s does not hold %s", by_text_get(&text), wanted);
  by_text_fini(&text);
}

static void begin_rack(void) {
  begin(NULL, false);
  HELLO("h1", "s1:p0");
  HELLO("h2", "s1:p1");
  SWITCH(64, "h1:eth0", "h2:eth0");
  pass(1);
}

static void test_settling(void **state) {
  (void)state;
  begin(NULL, false);
  for (int i = 0; i < 10; i++) { /* in a short time after each other */
    char host[8];
    snprintf(host, sizeof host, "h%d", i);
    HELLO(host, "leaf:1");
    pass(0.05);
    assert_int_equal(w.changes, 0);
  }
  pass(0.5);
  assert_int_equal(w.changes, 1);
  assert_int_equal(w.topology->n_nodes, 11);
  for (int i = 10; i < 40; i++) { /* without an end: they do not have to wait for it */
    char host[8];
    snprintf(host, sizeof host, "h%d", i);
    HELLO(host, "leaf:1");
    pass(0.1);
  }
  assert_true(w.changes > 1);
  end();
}

static void test_restarts(void **state) {
  (void)state;
  begin_rack();
  assert_int_equal(w.changes, 1);
  assert_int_equal(w.topology->n_links, 2);
  assert_int_equal(w.topology->nodes[2].memory, 64000);
  by_manager_discovery_part(w.discovery, "h1", w.now);
  pass(20); /* its neighbour's time passes */
  SWITCH(64, "", "h2:eth0");
  pass(20);
  HELLO("h1", ""); /* it is back, and has heard nobody yet */
  pass(0.1);
  REPORT("h1", "s1:p0");
  SWITCH(64, "h1:eth0", "h2:eth0");
  pass(20);
  by_manager_discovery_part(w.discovery, "s1", w.now);
  pass(20);
  assert_int_equal(w.changes, 1);
  SWITCH(32, "h1:eth0", "h2:eth0"); /* another one, with fewer cells */
  pass(1);
  assert_int_equal(w.changes, 2);
  assert_int_equal(w.topology->nodes[2].memory, 32000);
  must_show("\"contradictions\":[]");
  end();
}

/* A manager that begins again has its network at once, although nobody has come yet. */
static void test_restored(void **state) {
  (void)state;
  begin_rack();
  REPORT("h2", "s1:p1", "leaf:7");
  HELLO("h3", "");
  HELLO("h4", "");
  pass(5);
  struct by_topology *kept = w.topology;
  by_manager_discovery_destroy(w.discovery);
  begin(NULL, false);
  by_manager_discovery_restore(w.discovery, kept, w.now);
  pass(0);
  assert_int_equal(w.changes, 1);
  assert_true(by_discovery_is_same(w.topology, kept));
  by_topology_destroy(kept);
  SWITCH(64, "", "h2:eth0");
  HELLO("h2", "", "leaf:7");
  HELLO("h3", "");
  pass(100);
  assert_int_equal(w.changes, 1);
  assert_int_equal(w.topology->n_links, 5);
  pass(600); /* h1 and h4 do not come back */
  assert_int_equal(w.changes, 2);
  assert_int_equal(w.topology->n_links, 2);
  must_show("\"contradictions\":[");
  end();
}

static void test_rates(void **state) {
  const struct by_cluster_interface slower = {.name = "eth0", .rate = 1e6, .neighbour = "s1", .neighbour_port = "p0"};
  const struct by_cluster_message report = {.type = BY_MESSAGE_REPORT, .n_interfaces = 1, .interfaces = &slower};
  (void)state;
  begin_rack();
  by_manager_discovery_handle(w.discovery, "h1", &report, w.now);
  pass(20);
  assert_int_equal(w.changes, 1);
  end();
}

static void test_moved(void **state) {
  (void)state;
  begin_rack();
  by_manager_discovery_part(w.discovery, "h1", w.now);
  HELLO("h3", "s1:p0"); /* where h1 was */
  SWITCH(64, "h3:eth0", "h2:eth0");
  pass(10);
  assert_int_equal(w.changes, 2);
  assert_int_equal(w.topology->n_links, 2);
  must_show("\"contradictions\":[]");
  end();
}

/* Both ends do not learn of each other at the same moment, so a contradiction is one after a while. */
static void test_contradictions(void **state) {
  (void)state;
  begin_rack();
  HELLO("x", "s1:p0");
  pass(1);
  must_show("\"contradictions\":[]");
  pass(5);
  must_show("\"contradictions\":[\"x says that its eth0 leads to p0 of s1, which says that it leads to eth0 of h1\"]");
  must_show("\"discovered\":true");
  assert_int_equal(w.topology->n_links, 2);
  REPORT("x", "leaf:1");
  pass(5);
  must_show("\"contradictions\":[\"x does not reach h1 over any link that both ends agree on\"]");
  REPORT("h2", "s1:p1", "leaf:2");
  pass(5);
  must_show("\"contradictions\":[]");
  end();
}

static void count(uint32_t used, uint64_t held) {
  by_manager_discovery_count(w.discovery, "s1", used, held, w.now);
}

static void test_cells(void **state) {
  (void)state;
  begin_rack();
  count(0, 32); /* a job is about to get them */
  pass(2);
  count(32, 32);
  pass(20);
  count(32, 0); /* it has gone, and the switch has not reported yet */
  pass(20);
  must_show("\"contradictions\":[]");
  count(16, 32);
  pass(20);
  must_show("\"contradictions\":[\"s1 says that it has granted fewer cells than jobs say that they hold there\"]");
  count(65, 32);
  pass(20);
  must_show("\"contradictions\":[\"s1 says that it has granted more cells than it has\"]");
  count(0, 0);
  pass(1);
  must_show("\"contradictions\":[]");
  by_manager_discovery_count(w.discovery, "h1", 1, 0, w.now); /* no switch */
  by_manager_discovery_count(w.discovery, "nobody", 1, 0, w.now);
  pass(20);
  must_show("\"contradictions\":[]");
  assert_int_equal(w.changes, 1);
  count(65, 32);
  pass(20);
  must_show("than it has");
  HELLO("s1", "h1:eth0", "h2:eth0"); /* it is no switch any more */
  REPORT("h1", "s1:eth0");
  REPORT("h2", "s1:eth1");
  pass(20);
  must_show("\"contradictions\":[]");
  end();
}

/* Who changes its mind all the time does not keep the manager busy. */
static void test_flapping(void **state) {
  (void)state;
  begin_rack();
  for (int i = 0; i < 600; i++) {
    REPORT("h1", i % 2 ? "s1:p0" : "leaf:1");
    pass(1);
  }
  assert_true(w.changes < 16 + 600 / 30 + 5);
  REPORT("h1", "s1:p0");
  pass(60);
  assert_int_equal(w.topology->n_links, 2);
  end();
}

static void test_silent_hosts(void **state) {
  (void)state;
  begin(NULL, false);
  HELLO("h1", "");
  HELLO("h2", "");
  pass(0.5);
  assert_int_equal(w.topology->n_links, 0);
  pass(2);
  assert_int_equal(w.changes, 2);
  assert_int_equal(w.topology->n_links, 2); /* something that speaks no LLDP joins them */
  REPORT("h1", "h2:eth0");
  REPORT("h2", "h1:eth0");
  pass(1);
  assert_int_equal(w.topology->n_links, 1);
  end();
}

static void test_written(void **state) {
  static const char text[] =
      "{\"format\": \"banyan-topology 1\", \"nodes\": [\"h1\", \"h2\"],"
      " \"links\": [{\"a\": \"h1\", \"b\": \"h2\", \"capacity\": \"1g\", \"ports\": {\"a\": \"eth1\"}}]}";
  struct by_topology *written;
  (void)state;
  assert_ok(by_topology_parse("t", text, strlen(text), &written));
  for (int trust = 0; trust < 2; trust++) {
    begin(written, trust);
    HELLO("h1", "h2:eth0");
    HELLO("h2", "h1:eth0");
    pass(5);
    assert_int_equal(w.rejected, !trust);
    assert_int_equal(w.changes, 0);
    must_show("\"discovered\":false,\"contradictions\":[\"eth0 of h1 leads to eth0 of h2, which is no link");
    end();
  }
  begin(written, false); /* which fits at first, and is not given up later */
  HELLO("h1", "", "h2:eth0");
  HELLO("h2", "h1:eth1");
  pass(100);
  HELLO("h1", "h2:eth0");
  HELLO("h2", "h1:eth0");
  pass(5);
  assert_false(w.rejected);
  must_show("eth0 of h1 leads to eth0 of h2, which is no link of the topology");
  end();
  by_topology_destroy(written);
}

/* What an agent may say of itself is bounded. */
static void test_many_interfaces(void **state) {
  static struct by_cluster_interface interfaces[BY_CLUSTER_INTERFACES];
  static char names[BY_CLUSTER_INTERFACES][16];
  struct by_cluster_message report = {
      .type = BY_MESSAGE_REPORT, .n_interfaces = BY_CLUSTER_INTERFACES, .interfaces = interfaces};
  (void)state;
  begin_rack();
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < BY_CLUSTER_INTERFACES; i++) {
      snprintf(names[i], sizeof names[i], "e%d", round * BY_CLUSTER_INTERFACES + i);
      interfaces[i] = (struct by_cluster_interface){.name = names[i], .neighbour = "leaf", .neighbour_port = names[i]};
    }
    by_manager_discovery_handle(w.discovery, "h1", &report, w.now);
    pass(1);
  }
  pass(60);
  assert_true(w.topology->n_links <= 2 * BY_CLUSTER_INTERFACES);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_settling),     cmocka_unit_test(test_restarts),        cmocka_unit_test(test_rates),
      cmocka_unit_test(test_moved),        cmocka_unit_test(test_contradictions),  cmocka_unit_test(test_flapping),
      cmocka_unit_test(test_written),      cmocka_unit_test(test_cells),           cmocka_unit_test(test_restored),
      cmocka_unit_test(test_silent_hosts), cmocka_unit_test(test_many_interfaces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
