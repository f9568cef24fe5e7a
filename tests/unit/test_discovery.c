/* Topologies from reports of agents: links on which both ends agree, switches without agents, claims that others
 * contradict, hosts that hear nobody, and the comparison with a topology that people have written. */
#include <stdio.h>
#include <string.h>

#include "check.h"

#include "manager_discovery.h"
#include "rng.h"

enum { NODES = 16, PORTS = 8, SENTENCES = 16 };

static struct {
  struct by_discovered_interface interfaces[NODES][PORTS];
  struct by_discovered_node nodes[NODES];
  uint32_t n;
  bool assume;
  uint32_t n_sentences;
  char sentences[SENTENCES][640];
} w;

static void begin(void) {
  memset(&w, 0, sizeof w);
}

static struct by_discovered_node *add(const char *name, uint64_t memory) {
  struct by_discovered_node *node = &w.nodes[w.n];
  assert_true(w.n < NODES);
  *node = (struct by_discovered_node){
      .name = name, .aggregates = memory > 0, .memory = memory, .interfaces = w.interfaces[w.n]};
  w.n++;
  return node;
}

static struct by_discovered_interface *says(struct by_discovered_node *node, const char *name, const char *neighbour,
                                            const char *port, double rate) {
  struct by_discovered_interface *interface = &w.interfaces[node - w.nodes][node->n_interfaces++];
  *interface =
      (struct by_discovered_interface){.name = name, .neighbour = neighbour, .neighbour_port = port, .rate = rate};
  return interface;
}

/* Both ends say that they are linked. */
static void wire(struct by_discovered_node *a, const char *port_a, double rate_a, struct by_discovered_node *b,
                 const char *port_b, double rate_b) {
  says(a, port_a, b->name, port_b, rate_a);
  says(b, port_b, a->name, port_a, rate_b);
}

static void keep_sentence(void *context, const char *text) {
  (void)context;
  assert_true(w.n_sentences < SENTENCES);
  snprintf(w.sentences[w.n_sentences++], sizeof *w.sentences, "%s", text);
}

static struct by_discovery_rules rules(void) {
  return (struct by_discovery_rules){.assume_network = w.assume, .contradiction = keep_sentence};
}

static struct by_topology *compose(void) {
  struct by_discovery_rules by = rules();
  struct by_topology *topology;
  w.n_sentences = 0;
  assert_ok(by_discovery_compose(w.nodes, w.n, &by, &topology));
  return topology;
}

static void must_say(const char *text) {
  for (uint32_t i = 0; i < w.n_sentences; i++)
    if (strstr(w.sentences[i], text)) return;
  fail_msg("no contradiction says \"%s\"", text);
}

/* "h1:eth0-s1:p0 ..." in the order of the links. */
static const char *links_of(const struct by_topology *t) {
  static char text[1024];
  size_t n = 0;
  text[0] = '\0';
  for (uint32_t l = 0; l < t->n_links; l++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%s-%s:%s", l ? " " : "", t->nodes[t->links[l].a].name,
                          t->links[l].port[0], t->nodes[t->links[l].b].name, t->links[l].port[1]);
  return text;
}

static const struct by_node *node_of(const struct by_topology *t, const char *name) {
  uint32_t v = by_topology_find(t, name);
  assert_true(v != UINT32_MAX);
  return &t->nodes[v];
}

static void test_rack(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *s1 = add("s1", 1 << 20), *h10 = add("h10", 0), *h2 = add("h2", 0);
  wire(h10, "eth0", 1e9, s1, "p0", 1e10);
  wire(h2, "eth0", 0, s1, "p1", 25e9);
  says(h2, "eth1", "", "", 1e8);
  struct by_topology *t = compose();
  assert_int_equal(w.n_sentences, 0);
  assert_string_equal(t->nodes[0].name, "h2"); /* as people count, hosts first */
  assert_string_equal(t->nodes[1].name, "h10");
  assert_string_equal(links_of(t), "h2:eth0-s1:p1 h10:eth0-s1:p0");
  assert_true(t->links[1].capacity[BY_AB].all == 1e9 && t->links[1].capacity[BY_BA].all == 1e9);
  assert_true(t->links[0].capacity[BY_AB].all == 25e9);
  assert_true(node_of(t, "s1")->aggregates && node_of(t, "s1")->kind == BY_NODE_SWITCH);
  assert_int_equal(node_of(t, "s1")->memory, 1 << 20);
  assert_true(node_of(t, "h2")->takes_part && !node_of(t, "h2")->aggregates);
  char name[64];
  by_topology_interface(t, 1, by_topology_find(t, "s1"), name, sizeof name); /* plans name these ports */
  assert_string_equal(name, "p0");
  by_topology_destroy(t);
}

/* The order of reports and the rates do not matter. */
static void test_same(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *a = add("a", 0), *s = add("s", 4096), *b = add("b", 0);
  wire(a, "eth0", 1e9, s, "p0", 1e9);
  wire(s, "p1", 1e9, b, "eth0", 1e9);
  struct by_topology *first = compose();
  begin();
  b = add("b", 0), a = add("a", 0), s = add("s", 4096);
  wire(s, "p0", 2e9, a, "eth0", 2e9);
  wire(b, "eth0", 2e9, s, "p1", 2e9);
  struct by_topology *second = compose();
  assert_true(by_discovery_is_same(first, second));
  by_topology_destroy(second);
  s->memory = 8192;
  second = compose();
  assert_false(by_discovery_is_same(first, second));
  by_topology_destroy(second);
  by_topology_destroy(first);
}

static void test_plain_switches(void **state) {
  (void)state;
  begin();
  says(add("h1", 0), "eth0", "leaf", "Ethernet1", 1e9);
  says(add("h2", 0), "eth0", "leaf", "Ethernet2", 1e10);
  says(add("s1", 4096), "p7", "leaf", "Ethernet48", 0);
  struct by_topology *t = compose();
  assert_int_equal(w.n_sentences, 0);
  assert_string_equal(links_of(t), "h1:eth0-leaf:Ethernet1 h2:eth0-leaf:Ethernet2 s1:p7-leaf:Ethernet48");
  assert_true(node_of(t, "leaf")->kind == BY_NODE_SWITCH && !node_of(t, "leaf")->aggregates);
  assert_true(t->links[1].capacity[BY_BA].all == 1e10);
  by_topology_destroy(t);
}

/* ---- lies and mistakes */

static void test_one_sided(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *h1 = add("h1", 0), *h2 = add("h2", 0), *s1 = add("s1", 4096), *liar = add("x", 0);
  wire(h1, "eth0", 1e9, s1, "p0", 1e9);
  wire(h2, "eth0", 1e9, s1, "p1", 1e9);
  says(liar, "eth0", "s1", "p0", 1e11); /* which is h1's */
  says(liar, "eth1", "h2", "eth9", 1e11);
  says(liar, "eth2", "x", "eth3", 1e11);
  says(s1, "p2", "", "", 1e9);
  says(liar, "eth4", "s1", "p2", 1e11);
  struct by_topology *t = compose();
  assert_string_equal(links_of(t), "h1:eth0-s1:p0 h2:eth0-s1:p1"); /* others lose nothing */
  assert_int_equal(w.n_sentences, 4);
  must_say("x says that its eth0 leads to p0 of s1, which says that it leads to eth0 of h1");
  must_say("x says that its eth1 leads to eth9 of h2, which has no such interface");
  must_say("x says that its eth2 leads to its own eth3");
  must_say("x says that its eth4 leads to p2 of s1, which hears nobody there");
  assert_false(node_of(t, "x")->takes_part);
  assert_true(node_of(t, "h1")->takes_part);
  by_topology_destroy(t);
}

static void test_crossed(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *a = add("a", 0), *b = add("b", 0);
  says(a, "eth0", "b", "eth0", 1e9);
  says(b, "eth0", "a", "eth1", 1e9); /* the ports do not fit */
  says(a, "eth1", "", "", 1e9);
  wire(a, "eth2", 1e9, b, "eth2", 1e9);
  struct by_topology *t = compose();
  assert_string_equal(links_of(t), "a:eth2-b:eth2");
  assert_int_equal(w.n_sentences, 2);
  must_say("a says that its eth0 leads to eth0 of b, which says that it leads to eth1 of a");
  must_say("b says that its eth0 leads to eth1 of a, which hears nobody there");
  by_topology_destroy(t);
}

static void test_same_port(void **state) {
  (void)state;
  begin();
  says(add("h1", 0), "eth0", "leaf", "1", 1e9);
  says(add("h2", 0), "eth0", "leaf", "2", 1e9);
  says(add("x", 0), "eth0", "leaf", "1", 1e9);
  struct by_topology *t = compose();
  assert_string_equal(links_of(t), "h1:eth0-leaf: h2:eth0-leaf:2 x:eth0-leaf:");
  assert_int_equal(w.n_sentences, 1);
  must_say("h1 and x both say that they are at port 1 of leaf");
  by_topology_destroy(t);
}

/* What is not reported any more holds until others say something else. */
static void test_stale(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *h1 = add("h1", 0), *h2 = add("h2", 0), *s1 = add("s1", 4096);
  wire(h1, "eth0", 1e9, s1, "p0", 1e9);
  wire(h2, "eth0", 1e9, s1, "p1", 1e9);
  says(h1, "eth1", "leaf", "1", 1e9)->stale = true;
  w.interfaces[0][0].stale = true; /* the agent of h1 is away */
  w.interfaces[2][0].stale = true;
  struct by_topology *t = compose();
  assert_string_equal(links_of(t), "h1:eth0-s1:p0 h1:eth1-leaf:1 h2:eth0-s1:p1");
  assert_int_equal(w.n_sentences, 0);
  by_topology_destroy(t);
  struct by_discovered_node *h3 = add("h3", 0); /* in its place */
  says(h3, "eth0", "s1", "p0", 1e9);
  says(h3, "eth1", "leaf", "1", 1e9);
  w.interfaces[2][0] =
      (struct by_discovered_interface){.name = "p0", .neighbour = "h3", .neighbour_port = "eth0", .rate = 1e9};
  t = compose();
  assert_string_equal(links_of(t), "h2:eth0-s1:p1 h3:eth0-s1:p0 h3:eth1-leaf:1");
  assert_int_equal(w.n_sentences, 0);
  assert_false(node_of(t, "h1")->takes_part);
  by_topology_destroy(t);
}

static bool has_link(const struct by_topology *t, const char *a, const char *port_a, const char *b,
                     const char *port_b) {
  for (uint32_t l = 0; l < t->n_links; l++) {
    const struct by_link *link = &t->links[l];
    const char *ends[2] = {t->nodes[link->a].name, t->nodes[link->b].name};
    for (int i = 0; i < 2; i++)
      if (!strcmp(ends[i], a) && !strcmp(link->port[i], port_a) && !strcmp(ends[!i], b) &&
          !strcmp(link->port[!i], port_b))
        return true;
  }
  return false;
}

static void count_sentence(void *context, const char *text) {
  (void)text;
  ++*(unsigned *)context;
}

/* Random wires between agents of which some say random things: links between the honest ones are all there, an honest
 * one has no other links to agents, and two that lie have some only where both say so. */
static void test_liars(void **state) {
  static const char *const names[NODES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
  static const char *const ports[PORTS] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"};
  enum { N = 12, LIARS = 3 /* the last ones */ };
  struct by_rng rng;
  (void)state;
  by_rng_init(&rng, 1);
  for (int round = 0; round < 300; round++) {
    unsigned contradictions = 0;
    struct by_discovery_rules by = {.contradiction = count_sentence, .context = &contradictions};
    struct by_topology *t;
    begin();
    for (int i = 0; i < N; i++) add(names[i], i % 3 ? 0 : 4096);
    for (int i = 0; i < 30; i++) {
      struct by_discovered_node *a = &w.nodes[by_rng_below(&rng, N)], *b = &w.nodes[by_rng_below(&rng, N)];
      if (a == b || a->n_interfaces == PORTS || b->n_interfaces == PORTS) continue;
      wire(a, ports[a->n_interfaces], 1e9, b, ports[b->n_interfaces], 1e9);
    }
    struct by_discovered_interface truth[NODES][PORTS];
    memcpy(truth, w.interfaces, sizeof truth);
    for (int i = N - LIARS; i < N; i++)
      for (uint32_t p = 0; p < w.nodes[i].n_interfaces; p++) {
        struct by_discovered_interface *said = &w.interfaces[i][p];
        if (by_rng_below(&rng, 2)) said->neighbour = by_rng_below(&rng, 4) ? names[by_rng_below(&rng, N)] : "made up";
        if (by_rng_below(&rng, 2)) said->neighbour_port = ports[by_rng_below(&rng, PORTS)];
        said->stale = !by_rng_below(&rng, 4);
      }
    assert_ok(by_discovery_compose(w.nodes, w.n, &by, &t));
    for (int i = 0; i < N; i++)
      for (uint32_t p = 0; p < w.nodes[i].n_interfaces; p++) {
        const struct by_discovered_interface *true_ = &truth[i][p];
        bool honest = i < N - LIARS && true_->neighbour[0] < 'a' + N - LIARS;
        if (honest) assert_true(has_link(t, names[i], ports[p], true_->neighbour, true_->neighbour_port));
      }
    for (uint32_t l = 0; l < t->n_links; l++) {
      const char *a = t->nodes[t->links[l].a].name, *b = t->nodes[t->links[l].b].name;
      if (strlen(a) > 1 || strlen(b) > 1) continue; /* made up */
      int i = a[0] - 'a', k = b[0] - 'a';
      const struct by_discovered_interface *here = &w.interfaces[i][t->links[l].port[0][1] - '0'],
                                           *there = &w.interfaces[k][t->links[l].port[1][1] - '0'];
      assert_string_equal(here->neighbour, b);
      assert_string_equal(there->neighbour, a);
      assert_string_equal(here->neighbour_port, t->links[l].port[1]);
      assert_string_equal(there->neighbour_port, t->links[l].port[0]);
    }
    by_topology_destroy(t);
  }
}

/* ---- hosts that hear nobody */

static void test_silent(void **state) {
  (void)state;
  begin();
  for (int i = 0; i < 3; i++) says(add(i ? i > 1 ? "c" : "b" : "a", 0), "eth0", "", "", 1e9);
  struct by_topology *t = compose();
  assert_int_equal(t->n_links, 0);
  assert_true(t->nodes[0].takes_part && !t->nodes[1].takes_part);
  assert_int_equal(w.n_sentences, 0);
  by_topology_destroy(t);
  w.assume = true;
  add("s", 4096);
  t = compose();
  assert_string_equal(links_of(t), "a:eth0-network: b:eth0-network: c:eth0-network:");
  assert_true(t->nodes[2].takes_part);
  by_topology_destroy(t);
  says(add("h", 0), "eth0", BY_DISCOVERY_NETWORK, "1", 1e9); /* a real switch of that name */
  t = compose();
  assert_string_equal(links_of(t), "h:eth0-network:1");
  by_topology_destroy(t);
}

static void test_parts(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *h1 = add("h1", 0), *h2 = add("h2", 0), *h3 = add("h3", 0), *s1 = add("s1", 4096),
                            *s2 = add("s2", 4096);
  wire(h1, "eth0", 1e9, s1, "p0", 1e9);
  wire(h2, "eth0", 1e9, s2, "p0", 1e9);
  wire(h3, "eth0", 1e9, s2, "p1", 1e9);
  struct by_topology *t = compose();
  assert_false(node_of(t, "h1")->takes_part);
  assert_true(node_of(t, "h2")->takes_part && node_of(t, "h3")->takes_part);
  must_say("h1 does not reach h2");
  by_topology_destroy(t);
}

static void test_no_host(void **state) {
  struct by_discovery_rules by = rules();
  struct by_topology *t;
  (void)state;
  begin();
  assert_int_equal(by_discovery_compose(w.nodes, 0, &by, &t), BANYAN_ERR_TOPOLOGY);
  add("s", 4096);
  assert_int_equal(by_discovery_compose(w.nodes, 1, &by, &t), BANYAN_ERR_TOPOLOGY);
  assert_null(t);
}

/* ---- a topology that people have written */

static uint32_t compare(const char *nodes, const char *links) {
  struct by_topology *written, *composed = compose();
  struct by_discovery_rules by = rules();
  char text[2048];
  snprintf(text, sizeof text, "{\"format\": \"banyan-topology 1\", \"nodes\": [%s], \"links\": [%s]}", nodes, links);
  assert_ok(by_topology_parse("written", text, strlen(text), &written));
  uint32_t n = by_discovery_compare(written, composed, &by);
  assert_int_equal(n, w.n_sentences);
  by_topology_destroy(written);
  by_topology_destroy(composed);
  return n;
}

#define SWITCH(memory) "\"h1\", \"h2\", {\"name\": \"s1\", \"kind\": \"switch\", \"aggregates\": true" memory "}"
#define LINK(a, b, ports) "{\"a\": \"" a "\", \"b\": \"" b "\", \"capacity\": \"1g\"" ports "}"
#define PORTS_OF(a, b) ", \"ports\": {\"a\": \"" a "\", \"b\": \"" b "\"}"

static void test_written(void **state) {
  (void)state;
  begin();
  struct by_discovered_node *h1 = add("h1", 0), *h2 = add("h2", 0), *s1 = add("s1", 8192);
  wire(h1, "eth0", 1e9, s1, "p0", 1e9);
  wire(h2, "eth0", 1e9, s1, "p1", 1e9);
  assert_int_equal(compare(SWITCH(""), LINK("h1", "s1", "") ", " LINK("s1", "h2", "")), 0);
  assert_int_equal(compare(SWITCH(", \"memory\": 8192"),
                           LINK("s1", "h1", PORTS_OF("p0", "eth0")) ", " LINK("h2", "s1", PORTS_OF("eth0", "p1"))),
                   0);
  assert_int_equal(compare("\"h1\", \"h2\", \"z\"", LINK("h1", "z", "") ", " LINK("h2", "z", "")), 0); /* other nodes */
  assert_int_equal(compare(SWITCH(", \"memory\": 9000"), LINK("h1", "s1", "") ", " LINK("s1", "h2", "")), 1);
  must_say("s1 has 8192 bytes of cells, and 9000 in the topology");
  assert_int_equal(compare(SWITCH(""), LINK("h1", "h2", "")), 2);
  must_say("eth0 of h1 leads to p0 of s1, which is no link of the topology");
  assert_int_equal(
      compare(SWITCH(""), LINK("h1", "s1", PORTS_OF("eth0", "p1")) ", " LINK("h2", "s1", PORTS_OF("eth0", "p0"))), 2);
  assert_int_equal(compare("\"h1\", \"h2\", \"s1\"", LINK("h1", "s1", "") ", " LINK("s1", "h2", "")), 1);
  must_say("s1 is a switch that aggregates, and a host in the topology");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rack),    cmocka_unit_test(test_same),      cmocka_unit_test(test_plain_switches),
      cmocka_unit_test(test_crossed), cmocka_unit_test(test_one_sided), cmocka_unit_test(test_same_port),
      cmocka_unit_test(test_stale),   cmocka_unit_test(test_liars),     cmocka_unit_test(test_silent),
      cmocka_unit_test(test_parts),   cmocka_unit_test(test_no_host),   cmocka_unit_test(test_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
