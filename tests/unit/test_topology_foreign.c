/* Options of other programs' formats, and the folder of what LLDP gave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "topology_foreign.h"

#define GRAPH "<graphml><graph><node id=\"a\"/><node id=\"b\"/><edge source=\"a\" target=\"b\"/></graph></graphml>"
#define PAIRS "src_region,dst_region,bps_sent\naws:a,gcp:b,1\ngcp:b,gcp:c,1\n"
#define HEARS(name)                                                                                                    \
  "{\"lldp\": [{\"interface\": [{\"name\": \"e\", \"chassis\": [{\"name\": [{\"value\": \"" name "\"}]}]}]}]}"

static struct by_topology *parsed(by_topology_parser *parse, const char *text, const char *options) {
  struct by_topology *topology;
  assert_ok(parse("t", text, strlen(text), options, &topology));
  return topology;
}

static void test_options(void **state) {
  (void)state;
  struct by_topology *topology = parsed(by_foreign_graphml, GRAPH, "rate=10g,delay=2ms");
  assert_true(topology->links[0].capacity[BY_AB].all == 1e10 && topology->links[0].delay == 2e-3);
  by_topology_destroy(topology);
  topology = parsed(by_foreign_pairs, PAIRS, "limits=gcp=2g+aws=3g,select=*:a+gcp:b");
  assert_int_equal(topology->n_nodes, 2);
  assert_true(topology->nodes[0].out.all == 3e9 && topology->nodes[1].out.all == 2e9);
  by_topology_destroy(topology);
  topology = parsed(by_foreign_pairs, PAIRS, "");
  assert_int_equal(topology->n_nodes, 3);
  by_topology_destroy(topology);
  topology = parsed(by_foreign_lldp, HEARS("s"), "hosts=x+s,rate=5g");
  assert_true(topology->nodes[1].takes_part && topology->nodes[0].kind == BY_NODE_SWITCH);
  assert_true(topology->links[0].capacity[BY_AB].all == 5e9);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
  (void)state;
  static const struct {
    by_topology_parser *parse;
    const char *options, *error;
  } cases[] = {
      {by_foreign_graphml, "rat=5g", "no option \"rat\"; did you mean \"rate\"?; there are rate=, delay="},
      {by_foreign_graphml, "x", "no option \"x\"; there are rate=, delay="},
      {by_foreign_graphml, "rate", "the option \"rate\" must have a value: rate=..."},
      {by_foreign_graphml, "rate=fast", "\"fast\" is not a rate"},
      {by_foreign_graphml, "rate=0", "the rate is 0, must be more than 0"},
      {by_foreign_graphml, "delay=soon", "\"soon\" is not a time"},
      {by_foreign_pairs, "limits=aws", "limits must be like"},
      {by_foreign_lldp, "rate=-1", "\"-1\" is not a rate"},
      {by_foreign_nccl, "rate=1g", "there are no options for this format, such as \"rate\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    assert_int_not_equal(cases[i].parse("t", "x", 1, cases[i].options, &topology), BANYAN_OK);
    if (!strstr(banyan_error_text(), cases[i].error)) fail_msg("case %zu: %s", i, banyan_error_text());
  }
}

static void put(const char *folder, const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  fclose(file);
}

static void drop(const char *folder, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  unlink(path);
}

static void test_folder(void **state) {
  (void)state;
  char folder[] = "/tmp/banyan-lldp-XXXXXX";
  struct by_topology *topology;
  assert_non_null(mkdtemp(folder));
  assert_status(by_foreign_lldp_folder(folder, "", &topology), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "holds 0 files of LLDP"));
  put(folder, "b.lldp", HEARS("s"));
  put(folder, "a.json", HEARS("s"));
  put(folder, "notes.txt", "not read");
  assert_ok(by_foreign_lldp_folder(folder, "rate=25g", &topology));
  assert_int_equal(topology->n_nodes, 3);
  assert_string_equal(topology->nodes[0].name, "a"); /* in the order of the names */
  assert_true(topology->links[0].capacity[BY_AB].all == 25e9);
  by_topology_destroy(topology);
  put(folder, "a.json", "{");
  assert_status(by_foreign_lldp_folder(folder, "", &topology), BANYAN_ERR_PARSE);
  assert_memory_equal(banyan_error_text(), "a.json:1:", 9);
  drop(folder, "a.json");
  drop(folder, "b.lldp");
  drop(folder, "notes.txt");
  assert_int_equal(rmdir(folder), 0);
  assert_status(by_foreign_lldp_folder(folder, "", &topology), BANYAN_ERR_SYSTEM);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_folder),
  };
  return cmocka_run_group_tests_name("topology_foreign", tests, NULL, NULL);
}
