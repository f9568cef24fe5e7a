#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "text.h"
#include "topology_formats.h"
#include "topology_same.h"

static struct by_topology *made(const char *text) {
  struct by_topology *topology = NULL;
  assert_true(by_topology_is_kind(text));
  assert_ok(by_topology_synthesise(text, &topology));
  assert_string_equal(topology->name, text);
  assert_ok(by_topology_validate(topology));
  return topology;
}

static uint32_t node(const struct by_topology *t, const char *name) {
  uint32_t at = by_topology_find(t, name);
  if (at == UINT32_MAX) fail_msg("%s has no node %s", t->name, name);
  return at;
}

/* Returns the only link between two nodes. */
static const struct by_link *between(const struct by_topology *t, const char *a, const char *b) {
  uint32_t u = node(t, a), v = node(t, b), n = 0;
  const struct by_link *found = NULL;
  for (uint32_t i = 0; i < t->n_links; i++) {
    const struct by_link *link = &t->links[i];
    if ((link->a != u || link->b != v) && (link->a != v || link->b != u)) continue;
    found = link;
    n++;
  }
  if (n != 1) fail_msg("%s has %u links between %s and %s", t->name, n, a, b);
  return found;
}

static void assert_rate(const struct by_topology *t, const char *a, const char *b, double rate) {
  const struct by_link *link = between(t, a, b);
  if (fabs(link->capacity[BY_AB].all - rate) > 1e-6 * rate || link->capacity[BY_BA].all != link->capacity[BY_AB].all)
    fail_msg("%s: %s - %s carries %g, not %g", t->name, a, b, link->capacity[BY_AB].all, rate);
}

static void assert_size(const struct by_topology *t, uint32_t hosts, uint32_t switches, uint32_t links) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) n += t->nodes[i].kind == BY_NODE_HOST;
  assert_int_equal(n, hosts);
  assert_int_equal(t->n_nodes - n, switches);
  assert_int_equal(t->n_links, links);
}

static uint32_t n_adding(const struct by_topology *t) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_nodes; i++) n += t->nodes[i].aggregates;
  return n;
}

static void test_star(void **state) {
  (void)state;
  struct by_topology *t = made("star:4,nic=1g/1g/1g/200m,helpers=1,delay=50us,adds=all");
  assert_size(t, 5, 1, 5);
  assert_rate(t, "h2", "switch", 1e9);
  assert_rate(t, "h3", "switch", 2e8);
  assert_rate(t, "helper0", "switch", 2e8); /* The last rate applies to all that follow. */
  const struct by_node *helper = &t->nodes[node(t, "helper0")];
  assert_true(helper->may_help && !helper->takes_part && t->nodes[3].takes_part && !t->nodes[3].may_help);
  assert_true(fabs(t->links[0].delay - 5e-5) < 1e-18 && n_adding(t) == 1);
  by_topology_destroy(t);
  t = made("star:1");
  assert_rate(t, "h0", "switch", 10e9);
  by_topology_destroy(t);
}

static void test_clos(void **state) {
  (void)state;
  struct by_topology *t = made("clos:racks=8,hosts=8,nic=100g,oversub=4");
  assert_size(t, 64, 10, 64 + 16);
  assert_rate(t, "r7h7", "leaf7", 100e9);
  assert_rate(t, "leaf3", "spine1", 100e9);
  assert_string_equal(t->nodes[node(t, "r7h7")].group, "rack7");
  assert_string_equal(t->nodes[node(t, "leaf7")].group, "rack7");
  assert_int_equal(node(t, "r0h1"), 1);
  assert_int_equal(n_adding(t), 0);
  by_topology_destroy(t);
  t = made("clos:2x3,spines=4,helpers=3,adds=leaf");
  assert_size(t, 9, 6, 9 + 8);
  assert_rate(t, "leaf1", "spine3", 7.5e9);
  assert_rate(t, "helper1", "leaf1", 10e9);
  assert_rate(t, "helper2", "leaf0", 10e9);
  assert_true(n_adding(t) == 2 && t->nodes[node(t, "leaf1")].aggregates);
  by_topology_destroy(t);
  t = made("clos:2x2,oversub=8"); /* There is at least one spine. */
  assert_rate(t, "leaf1", "spine0", 2.5e9);
  by_topology_destroy(t);
}

static void test_trees(void **state) {
  (void)state;
  struct by_topology *t = made("tree:2x3x4,nic=1g,oversub=2,adds=spine");
  assert_size(t, 24, 1 + 2 + 6, 24 + 6 + 2);
  assert_rate(t, "h0", "s2-0", 1e9);
  assert_rate(t, "h23", "s2-5", 1e9);
  assert_rate(t, "s2-5", "s1-1", 2e9);
  assert_rate(t, "s1-1", "s0-0", 3e9);
  assert_true(n_adding(t) == 3 && !t->nodes[node(t, "s2-0")].aggregates);
  assert_string_equal(t->nodes[23].group, "rack5");
  by_topology_destroy(t);
  t = made("tree:3");
  assert_size(t, 3, 1, 3);
  by_topology_destroy(t);
  t = made("fattree:4,nic=1g");
  assert_size(t, 16, 20, 48);
  assert_rate(t, "p3e1h1", "p3e1", 1e9);
  assert_rate(t, "p3e1", "p3a0", 1e9);
  assert_rate(t, "p3a0", "c1", 1e9); /* Upper switch i of each pod has the cores from i k / 2 on. */
  assert_rate(t, "p0a1", "c2", 1e9);
  by_topology_destroy(t);
}

static void test_sites(void **state) {
  (void)state;
  struct by_topology *t = made("sites:3x2,lan=1g,wan=200m,rtt=20ms,helpers=1");
  assert_size(t, 7, 3, 7 + 3);
  assert_rate(t, "s1h1", "router1", 1e9);
  assert_rate(t, "helper0", "router0", 1e9);
  assert_rate(t, "router0", "router2", 2e8);
  assert_true(fabs(between(t, "router1", "router2")->delay - 0.01) < 1e-12 &&
              between(t, "s1h1", "router1")->delay == 0);
  assert_string_equal(t->nodes[node(t, "s2h0")].group, "site2");
  by_topology_destroy(t);
}

static void test_grids(void **state) {
  (void)state;
  struct by_topology *t = made("torus:16x16,link=10g,delay=1ms");
  assert_size(t, 256, 0, 512);
  assert_rate(t, "h0-0", "h0-15", 10e9);
  assert_rate(t, "h0-7", "h15-7", 10e9);
  assert_rate(t, "h3-7", "h4-7", 10e9);
  assert_true(t->links[9].delay == 0.001 && t->nodes[node(t, "h3-7")].x == 7 && t->nodes[node(t, "h3-7")].y == -3);
  by_topology_destroy(t);
  t = made("torus:3x2x4"); /* In a dimension of 2 a wrap-around link would be the same link again. */
  assert_size(t, 24, 0, 24 + 12 + 24);
  assert_rate(t, "h1-0-3", "h1-0-0", 10e9);
  assert_rate(t, "h1-0-3", "h1-1-3", 10e9);
  by_topology_destroy(t);
  t = made("torus:1x5");
  assert_size(t, 5, 0, 5);
  by_topology_destroy(t);
  t = made("ring:8,link=1g/2g");
  assert_size(t, 8, 0, 8);
  assert_rate(t, "h0", "h1", 1e9);
  assert_rate(t, "h7", "h0", 2e9);
  by_topology_destroy(t);
  t = made("line:3");
  assert_size(t, 3, 0, 2);
  by_topology_destroy(t);
}

static void test_mesh(void **state) {
  (void)state;
  struct by_topology *t = made("mesh:4,nic=10g/5g,helpers=1");
  assert_size(t, 5, 0, 10);
  assert_rate(t, "h0", "h1", 5e9);
  assert_true(t->nodes[0].out.all == 10e9 && t->nodes[0].in.all == 10e9 && t->nodes[4].out.all == 5e9);
  by_topology_destroy(t);
  t = made("mesh:3,nic=10g,link=1g");
  assert_rate(t, "h0", "h2", 1e9);
  by_topology_destroy(t);
}

static void test_random(void **state) {
  (void)state;
  struct by_topology *one = made("random:40,degree=4,link=1g/10g,seed=7"), *other;
  assert_size(one, 40, 0, 80);
  for (uint32_t i = 0; i < one->n_links; i++) { /* No two links join the same two hosts. */
    assert_true(one->links[i].capacity[0].all == 1e9 || one->links[i].capacity[0].all == 10e9);
    for (uint32_t j = 0; j < i; j++)
      assert_false(one->links[i].a == one->links[j].a && one->links[i].b == one->links[j].b);
  }
  assert_ok(by_topology_synthesise("random:40,degree=4,link=1g/10g,seed=7", &other));
  assert_true(same_topology(one, other)); /* The topology is repeatable. */
  by_topology_destroy(other);
  other = made("random:40,degree=4,link=1g/10g,seed=8");
  assert_false(same_topology(one, other));
  by_topology_destroy(other);
  by_topology_destroy(one);
  one = made("random:9,degree=8"); /* All possible links exist. */
  assert_size(one, 9, 0, 36);
  by_topology_destroy(one);
  one = made("random:10,degree=1,helpers=2"); /* The number of links suffices to connect all nodes. */
  assert_size(one, 12, 0, 11);
  assert_true(one->nodes[11].may_help);
  by_topology_destroy(one);
  by_topology_destroy(made("random:2"));
}

static void test_largest(void **state) {
  (void)state;
  struct by_topology *t = made("fattree:62");
  assert_int_equal(t->n_nodes, 62 * 62 * 62 / 4 + 62 * 62 * 5 / 4);
  by_topology_destroy(t);
  by_topology_destroy(made("ring:65536"));
  by_topology_destroy(made("random:65536"));
}

static void test_errors(void **state) {
  (void)state;
  char long_text[400] = "star:4,nic=1g";
  while (strlen(long_text) < 300) strcat(long_text, "/1g");
  const struct {
    const char *text, *error;
  } cases[] = {
      {"torsu:4x4", "there is no topology \"torsu\"; did you mean torus? there are star, clos"},
      {"xyzzy", "there is no topology \"xyzzy\"; there are star, clos, fattree"},
      {"", "there is no topology \"\""},
      {"star", "star: which size? Write it as star:N[,nic=RATES]"},
      {"star:", "star: which size?"},
      {"clos:racks=4", "clos: which size? Write it as clos:racks=R,hosts=H"},
      {"clos:4", "clos: which size?"},
      {"star:0", "star: the size is 0, must be 1 to 65536"},
      {"star:-1", "star: the size is -1"},
      {"star:four", "star: the size: \"four\" is not a whole number"},
      {"star:4x4", "star: too many sizes; write it as star:N"},
      {"torus:4", "torus: which size? Write it as torus:AxB[xC]"},
      {"torus:2x2x2x2", "torus: too many sizes"},
      {"ring:2", "ring: the size is 2, must be 3 to"},
      {"line:1", "line: the size is 1, must be 2 to"},
      {"fattree:5", "fattree: the number of ports is 5, must be even"},
      {"star:4,nic", "star: \"nic\" is no option: write name=value"},
      {"star:4,5", "star: \"5\" is no option: write name=value"},
      {"star:4,nick=1g", "star: there is no option \"nick\"; did you mean \"nic\"?"},
      {"star:4,zzz=1g", "star: there is no option \"zzz\"; write it as star:N[,nic=RATES]"},
      {"star:4,oversub=4", "star: there is no option \"oversub\"; write it as"},
      {"star:4,nic=", "star: nic: is empty"},
      {"star:4,nic=0", "star: nic: is 0, must be more than 0"},
      {"star:4,nic=1e-300", "star: nic: \"1e-300\" is 1e-300 bit/s, must be 1 to 1e+18 bit/s"},
      {"star:4,nic=2e6t", "star: nic: \"2e6t\" is 2e+18 bit/s, must be 1 to"},
      {"clos:2x2,nic=1,oversub=9", "its capacity from the first to the second is 0.222222 bit/s, must be 1 to"},
      {"sites:2x2,rtt=1e8", "its delay is 5e+07 s, must be 0 to 3600 s"},
      {"star:4,nic=-1g", "star: nic: \"-1g\" is not a rate"},
      {"star:4,nic=nan", "star: nic: \"nan\" is not a rate"},
      {"star:4,nic=1g/x", "star: nic: \"x\" is not a rate"},
      {"sites:2x2,rtt=1g", "sites: rtt: \"1g\" is not a time"},
      {"sites:2x2,wan=0", "sites: wan: is 0"},
      {"clos:2x2,oversub=0.5", "clos: oversub: is 0.5, must be 1 to 1000000"},
      {"clos:2x2,oversub=x", "clos: oversub: \"x\" is not a number"},
      {"clos:2x2,spines=0", "clos: spines is 0, must be 1 to"},
      {"clos:2x2,adds=most", "clos: adds: is \"most\", must be none, leaf, spine or all"},
      {"random:3,degree=3", "random: the degree is 3, but a host has only 2 others"},
      {"star:65536", "star: 65537 nodes and 0 links are too many: at most 65536 and 4194304 are possible"},
      {"mesh:65536", "mesh: 65536 nodes and 2147450880 links are too many"},
      {"clos:65536x65536", "clos: 4295032848 nodes"},
      {"tree:60000x60000x60000x60000", "tree: 1296021600"},
      {long_text, "star: the text is too long: at most 255 bytes"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    if (by_topology_synthesise(cases[i].text, &topology) != BANYAN_ERR_ARGUMENT ||
        !strstr(banyan_error_text(), cases[i].error))
      fail_msg("%s\n  wanted: %s\n  got:    %s", cases[i].text, cases[i].error, banyan_error_text());
  }
}

static void test_list(void **state) {
  (void)state;
  const struct by_topology_kind *kind;
  uint32_t n = 0;
  for (; (kind = by_topology_kind_list(n)); n++) {
    assert_true(by_topology_is_kind(kind->name));
    assert_ptr_equal(strstr(kind->usage, kind->name), kind->usage);
    assert_true(*kind->help);
  }
  assert_true(n >= 10);
  assert_false(by_topology_is_kind("sta"));
  assert_false(by_topology_is_kind("stars:4"));
}

static void test_named(void **state) {
  (void)state;
  struct by_topology *t;
  assert_ok(by_topology_named("star:3,delay=1.5ms", &t));
  assert_int_equal(t->n_nodes, 4);
  by_topology_destroy(t);
  assert_ok(by_topology_named(" {\"format\": \"banyan-topology 1\", \"nodes\": [\"a\"], \"links\": []}", &t));
  by_topology_destroy(t);
  assert_status(by_topology_named("{}", &t), BANYAN_ERR_PARSE);
  assert_status(by_topology_named("./star:3", &t), BANYAN_ERR_SYSTEM);
  assert_string_equal(banyan_error_text(), "cannot open topology ./star:3: No such file or directory");
  assert_status(by_topology_named("net.json", &t), BANYAN_ERR_SYSTEM);
  assert_status(by_topology_named("stra:3,delay=1.5ms", &t), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "there is no topology \"stra\"; did you mean star?"));
  assert_non_null(strstr(banyan_error_text(), ", and there is no file of that name"));
  assert_status(by_topology_named("", &t), BANYAN_ERR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_star),   cmocka_unit_test(test_clos),    cmocka_unit_test(test_trees),
      cmocka_unit_test(test_sites),  cmocka_unit_test(test_grids),   cmocka_unit_test(test_mesh),
      cmocka_unit_test(test_random), cmocka_unit_test(test_largest), cmocka_unit_test(test_errors),
      cmocka_unit_test(test_list),   cmocka_unit_test(test_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
