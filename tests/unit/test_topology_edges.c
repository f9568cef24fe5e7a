#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "topology_data.h"
#include "topology_formats.h"

static struct by_topology *parsed(const char *text) {
  struct by_topology *topology = NULL;
  assert_ok(by_topology_parse_edges("t.el", text, strlen(text), &topology));
  return topology;
}

static void test_everything(void **state) {
  (void)state;
  struct by_topology *t = parsed("# made by hand\n\n 3\t3 # nodes, links\r\n0 1 10 1\nnic 2 16\n1 2 0.045 9.893\n"
                                 "0 1 2.5   # a second one, without latency");
  assert_int_equal(t->n_nodes, 3);
  assert_int_equal(t->n_links, 3);
  for (uint32_t i = 0; i < 3; i++) assert_true(t->nodes[i].kind == BY_NODE_HOST && t->nodes[i].takes_part);
  assert_string_equal(t->nodes[2].name, "2");
  assert_true(t->nodes[2].out.all == 16e9 && t->nodes[2].in.all == 16e9 && isinf(t->nodes[1].out.all));
  assert_true(t->links[0].a == 0 && t->links[0].b == 1 && t->links[0].capacity[BY_BA].all == 1e10);
  assert_true(t->links[0].delay == 0.001 && fabs(t->links[1].delay - 0.009893) < 1e-15);
  assert_true(fabs(t->links[1].capacity[BY_AB].all - 45e6) < 1e-3);
  assert_true(t->links[2].capacity[BY_AB].all == 2.5e9 && t->links[2].delay == 0);
  by_topology_destroy(t);
}

static void test_errors(void **state) {
  (void)state;
  char long_line[1000];
  memset(long_line, '1', sizeof long_line - 1);
  long_line[sizeof long_line - 1] = '\0';
  struct {
    const char *text, *error;
    enum banyan_status status; /* 0: BANYAN_ERR_PARSE */
  } cases[] = {
      {"", "t.el:0: must be \"n m\"", 0},
      {"\n# nothing\n", "t.el:2: must be \"n m\"", 0},
      {"2", "t.el:1: must be \"n m\"", 0},
      {"2 1 0", "t.el:1: must be \"n m\"", 0},
      {"0 0", "t.el:1: the number of nodes is 0, must be 1 to 65536", 0},
      {"70000 1", "t.el:1: the number of nodes is 70000", 0},
      {"2 99999999", "t.el:1: the number of links is 99999999, must be 0 to 4194304", 0},
      {"2 -1", "t.el:1: the number of links is -1", 0},
      {"2 x", "t.el:1: the number of links: \"x\" is not a whole number", 0},
      {"2 1\n0 1", "t.el:2: must be \"u v capacity latency\"", 0},
      {"2 1\n0 1 1 1 1", "t.el:2: must be \"u v capacity latency\"", 0},
      {"2 1\n\n0 2 1 1", "t.el:3: the second node is 2, must be 0 to 1", 0},
      {"2 1\na 1 1 1", "t.el:2: the first node: \"a\" is not a whole number", 0},
      {"2 1\n1 1 1 1", "t.el:2: leads from node 1 to itself", 0},
      {"2 1\n0 1 0 1", "t.el:2: the capacity is 0 Gbit/s, must be more than 0", 0},
      {"2 1\n0 1 1e-300 1", "t.el:2: the capacity is 1e-291 bit/s, must be 1 to 1e+18 bit/s", 0},
      {"2 1\n0 1 1e300 1", "t.el:2: the capacity is inf bit/s, must be 1 to", 0},
      {"2 1\n0 1 1 1e300", "t.el: link 0 (\"0\" - \"1\"): its delay is 1e+297 s", BANYAN_ERR_TOPOLOGY},
      {"2 1\n0 1 -1 1", "t.el:2: the capacity: \"-1\" is not a number of 0 or more", 0},
      {"2 1\n0 1 nan 1", "t.el:2: the capacity: \"nan\" is not", 0},
      {"2 1\n0 1 1e999 1", "t.el:2: the capacity: \"1e999\" is not", 0},
      {"2 1\n0 1 10g 1", "t.el:2: the capacity: \"10g\" is not", 0},
      {"2 1\n0 1 1 -5", "t.el:2: the latency: \"-5\" is not", 0},
      {"2 2\n0 1 1 1\n", "t.el:2: ends after 1 of 2 links", 0},
      {"2 1\n0 1 1 1\n0 1 1 1", "t.el:3: is one link more than the 1 that the first line says", 0},
      {"2 1\n0 1 1 1\nnic 0", "t.el:3: must be \"nic v capacity\"", 0},
      {"2 1\n0 1 1 1\nnic 2 1", "t.el:3: the node is 2, must be 0 to 1", 0},
      {"2 1\n0 1 1 1\nnic 0 0", "t.el:3: the capacity is 0", 0},
      {long_line, "t.el:1: is no line of an edge list: it is too long", 0},
      {"3 1\n0 1 1 1\n", "t.el: \"0\" and \"2\" take part but cannot reach each other", BANYAN_ERR_TOPOLOGY},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    enum banyan_status wanted = cases[i].status ? cases[i].status : BANYAN_ERR_PARSE;
    if (by_topology_parse_edges("t.el", cases[i].text, strlen(cases[i].text), &topology) != wanted ||
        !strstr(banyan_error_text(), cases[i].error) || strchr(banyan_error_text(), '\n'))
      fail_msg("case %zu: %s\n  wanted: %s\n  got:    %s", i, cases[i].text, cases[i].error, banyan_error_text());
  }
}

static void test_nul(void **state) {
  (void)state;
  struct by_topology *topology;
  assert_status(by_topology_parse_edges("t.el", "1 0\n\0", 5, &topology), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.el:2: is no line of an edge list: it holds a NUL");
}

static void test_real_ones(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t nodes, links;
    double nic;
  } files[] = {{"edgelists/zoo-Kdl.el", 754, 895, INFINITY},
               {"edgelists/zoo-Geant2009.el", 34, 52, INFINITY},
               {"edgelists/cloud-azure.el", 15, 105, 16e9}};
  char path[DATA_PATH_BYTES];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    struct by_topology *topology;
    assert_ok(by_topology_read(data_path(files[i].name, path), &topology));
    assert_int_equal(topology->n_nodes, files[i].nodes);
    assert_int_equal(topology->n_links, files[i].links);
    for (uint32_t v = 0; v < topology->n_nodes; v++) assert_true(topology->nodes[v].out.all == files[i].nic);
    by_topology_destroy(topology);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_everything),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_nul),
      cmocka_unit_test(test_real_ones),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
