#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "topology_formats.h"

/* One neighbor as `lldpcli -f json0 show neighbors details` prints it, without what is not read. */
#define CHASSIS(name, bridge)                                                                                          \
  "\"chassis\": [{\"id\": [{\"type\": \"mac\", \"value\": \"00:11:22:33:44:55\"}], \"name\": [{\"value\": \"" name     \
  "\"}], \"descr\": [{\"value\": \"Linux\"}], \"mgmt-ip\": [{\"value\": \"10.0.0.1\"}], \"capability\": [{\"type\": "  \
  "\"Bridge\", \"enabled\": " bridge "}, {\"type\": \"Router\", \"enabled\": false}, {\"type\": \"Station\", "         \
  "\"enabled\": true}]}]"
#define PORT(id, text, mau)                                                                                            \
  "\"port\": [{\"id\": [{\"type\": \"mac\", \"value\": \"" id "\"}], \"descr\": [{\"value\": \"" text                  \
  "\"}], \"ttl\": [{\"value\": \"120\"}], \"auto-negotiation\": [{\"supported\": true, \"enabled\": true, "            \
  "\"current\": [{\"value\": \"" mau "\"}]}]}]"
#define RECEIVES(port, name, bridge, id, text, mau)                                                                    \
  "{\"name\": \"" port "\", \"via\": \"LLDP\", \"rid\": \"1\", \"age\": \"0 day, 00:00:30\", " CHASSIS(                \
      name, bridge) ", " PORT(id, text, mau) "}"
#define NEIGHBORS(list) "{\"lldp\": [{\"interface\": [" list "]}]}\n"
#define SELF(name) "{\"local-chassis\": [{" CHASSIS(name, "false") "}]}\n"

#define FAST "10GigBaseSR - R fiber over 850 nm optics"
#define SWITCH_BY(port) RECEIVES("eth0", "sw", "true", port, port, FAST)

static struct by_topology *parsed(const struct by_lldp_file *files, size_t n, const char *options) {
  struct by_topology *topology;
  assert_ok(by_topology_parse_lldp(files, n, options, &topology));
  return topology;
}

static struct by_lldp_file file(const char *source, const char *text) {
  return (struct by_lldp_file){source, text, strlen(text)};
}

static const struct by_node *node(const struct by_topology *topology, const char *name) {
  uint32_t number = by_topology_find(topology, name);
  if (number == UINT32_MAX) fail_msg("there is no node %s", name);
  return &topology->nodes[number];
}

static void test_hosts_and_a_switch(void **state) {
  (void)state;
  struct by_lldp_file files[] = {file("/tmp/a.json", NEIGHBORS(SWITCH_BY("swp1"))),
                                 file("b.json", NEIGHBORS(SWITCH_BY("swp2")))};
  struct by_topology *topology = parsed(files, 2, "");
  assert_int_equal(topology->n_nodes, 3);
  assert_string_equal(topology->nodes[0].name, "a");
  assert_true(node(topology, "a")->takes_part && node(topology, "b")->takes_part);
  assert_true(node(topology, "sw")->kind == BY_NODE_SWITCH);
  assert_int_equal(topology->n_links, 2);
  assert_true(topology->links[0].capacity[BY_AB].all == 1e10);
  assert_string_equal(topology->links[0].port[0], "eth0");
  assert_string_equal(topology->links[0].port[1], "swp1");
  by_topology_destroy(topology);
}

/* The switch hears what the hosts hear; one cable's ends agree by name, the other's by nothing but their number. */
static void test_both_ends_tell(void **state) {
  (void)state;
  struct by_lldp_file files[] = {
      file("h", SELF("a.org") NEIGHBORS(SWITCH_BY("swp1")) SELF("b.org") NEIGHBORS(SWITCH_BY("swp2"))),
      file("sw.json", NEIGHBORS(RECEIVES("swp1", "a.org", "false", "02:00", "eth0", "1000BaseTFD - UTP") "," RECEIVES(
                          "port 2", "b.org", "false", "02:01", "uplink", FAST)))};
  struct by_topology *topology = parsed(files, 2, "");
  assert_int_equal(topology->n_nodes, 3);
  assert_int_equal(topology->n_links, 2);
  assert_true(topology->links[0].capacity[BY_AB].all == 1e9); /* the slower of what the ends say */
  assert_true(topology->links[1].capacity[BY_AB].all == 1e10);
  assert_true(node(topology, "a.org")->takes_part);
  by_topology_destroy(topology);
}

/* Two cables, in any order, are two links; the same port by two protocols is one. */
static void test_parallel_cables(void **state) {
  (void)state;
  struct by_lldp_file files[] = {
      file("a", NEIGHBORS(RECEIVES("eth0", "b", "false", "m", "eth5", "25GbaseSR") "," RECEIVES(
                    "eth1", "b", "false", "m", "eth4", "2p5GigT") "," RECEIVES("eth1", "b", "false", "m", "eth4", ""))),
      file("b", NEIGHBORS(RECEIVES("eth4", "a", "false", "m", "eth1", "") "," RECEIVES("eth5", "a", "false", "m",
                                                                                       "eth0", "")))};
  struct by_topology *topology = parsed(files, 2, "");
  assert_int_equal(topology->n_nodes, 2);
  assert_int_equal(topology->n_links, 2);
  assert_string_equal(topology->links[0].port[0], "eth0");
  assert_string_equal(topology->links[0].port[1], "eth5");
  assert_true(topology->links[0].capacity[BY_AB].all == 25e9);
  assert_string_equal(topology->links[1].port[1], "eth4");
  assert_true(fabs(topology->links[1].capacity[BY_AB].all - 2.5e9) < 1);
  by_topology_destroy(topology);
}

static void test_short_names_of_files(void **state) {
  (void)state;
  struct by_lldp_file files[] = {file("n1.json", NEIGHBORS(RECEIVES("e0", "n2.x.org", "false", "m", "e0", FAST))),
                                 file("n2.json", NEIGHBORS(RECEIVES("e0", "n1.x.org", "false", "m", "e0", FAST)))};
  struct by_topology *topology = parsed(files, 2, "");
  assert_int_equal(topology->n_nodes, 2);
  assert_int_equal(topology->n_links, 1);
  assert_string_equal(topology->nodes[0].name, "n2.x.org");
  by_topology_destroy(topology);
}

static void test_one_object_of_hosts(void **state) {
  (void)state;
  struct by_lldp_file all = file("all", "{\"a\": " NEIGHBORS(SWITCH_BY("1")) ", \"b\": " NEIGHBORS(SWITCH_BY("2")) "}");
  struct by_topology *topology = parsed(&all, 1, "");
  assert_int_equal(topology->n_nodes, 3);
  assert_true(node(topology, "a")->takes_part && node(topology, "sw")->kind == BY_NODE_SWITCH);
  by_topology_destroy(topology);
}

#define TWO_HOSTS RECEIVES("1", "a", "false", "m", "eth0", FAST) "," RECEIVES("2", "b", "false", "m", "eth0", FAST)
#define SELF_SWITCH "{\"local-chassis\": [{" CHASSIS("sw", "true") "}]}"

static void test_only_a_switch_reports(void **state) {
  (void)state;
  struct by_lldp_file one = file("sw", SELF_SWITCH NEIGHBORS(TWO_HOSTS));
  struct by_topology *topology = parsed(&one, 1, "");
  assert_true(node(topology, "sw")->kind == BY_NODE_SWITCH);
  assert_true(node(topology, "a")->takes_part && node(topology, "b")->takes_part);
  by_topology_destroy(topology);
}

static void test_hosts_by_option(void **state) {
  (void)state;
  struct by_lldp_file one = file("sw", SELF_SWITCH NEIGHBORS(TWO_HOSTS));
  struct by_topology *topology = parsed(&one, 1, "hosts=a+ s?");
  assert_true(node(topology, "sw")->takes_part);
  assert_true(node(topology, "a")->kind == BY_NODE_HOST && node(topology, "b")->kind == BY_NODE_SWITCH);
  by_topology_destroy(topology);
}

static void check_rate(const char *mau, double wanted) {
  char text[2048];
  snprintf(text, sizeof text,
           "{\"lldp\": [{\"interface\": [{\"name\": \"e\", \"chassis\": [{\"name\": [{\"value\": \"sw\"}]}], \"port\": "
           "[{\"auto-negotiation\": [{\"current\": [{\"value\": \"%s\"}]}]}]}]}]}",
           mau);
  struct by_lldp_file one = file("h", text);
  struct by_topology *topology = parsed(&one, 1, "rate=7");
  if (fabs(topology->links[0].capacity[BY_AB].all - wanted) > wanted * 1e-9)
    fail_msg("\"%s\" is %g, must be %g", mau, topology->links[0].capacity[BY_AB].all, wanted);
  by_topology_destroy(topology);
}

static void test_rates(void **state) {
  (void)state;
  check_rate("10BaseTFD - UTP MAU, full duplex mode", 1e7);
  check_rate("100BaseTXFD - 2 pair category 5 UTP", 1e8);
  check_rate("1000BaseTFD - Four-pair Category 5 UTP", 1e9);
  check_rate("10GigBaseCX4 - X copper over 8 pair 100-Ohm balanced cable", 1e10);
  check_rate("2p5GbaseX", 2.5e9);
  check_rate("5GigT", 5e9);
  check_rate("100GbaseSR4", 1e11);
  check_rate("400GbaseDR4", 4e11);
  check_rate("10Broad36", 1e7);
  check_rate("unknown", 7);
  check_rate("", 7);
  check_rate("10PassTS - Voice grade UTP copper", 7);
  check_rate("99999999999999999999GigBase", 7);
  check_rate("0GigBase", 7);
}

static void check_refused(const char *text, const char *part) {
  struct by_lldp_file one = file("t.json", text);
  struct by_topology *topology;
  assert_int_not_equal(by_topology_parse_lldp(&one, 1, "", &topology), BANYAN_OK);
  if (!strstr(banyan_error_text(), part)) fail_msg("the error is \"%s\", must hold \"%s\"", banyan_error_text(), part);
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "t.json:"},
      {"{\"lldp\": [", "t.json:1:"},
      {"[]", "t.json: must be an object with \"lldp\""},
      {"{}", "t.json: nobody there hears a neighbor"},
      {"{\"lldp\": [{}]}", "t.json: nobody there hears a neighbor"},
      {"{\"nodes\": [1]}", "t.json: [\"nodes\"]: must be an object with \"lldp\""},
      {"{\"lldp\": {\"interface\": {}}}", "t.json: lldp: must be an array, as `lldpcli -f json0`"},
      {"{\"lldp\": [{\"interface\": {\"eth0\": {}}}]}", "lldp[0].interface: must be an array, as"},
      {"{\"lldp\": [1]}", "lldp[0]: must be an object"},
      {NEIGHBORS("1"), "lldp[0].interface[0]: must be an object"},
      {NEIGHBORS("{\"via\": \"LLDP\"}"), "lldp[0].interface[0]: the field \"name\" is missing"},
      {NEIGHBORS("{\"name\": 1}"), "lldp[0].interface[0].name: must be a string"},
      {NEIGHBORS("{\"name\": \"e\"}"), "lldp[0].interface[0]: the field \"chassis\" is missing"},
      {NEIGHBORS("{\"name\": \"e\", \"chassis\": [{\"name\": []}]}"), "chassis: has neither a name nor an id"},
      {NEIGHBORS("{\"name\": \"e\", \"chassis\": [2]}"), "interface[0].chassis: must be an array of objects"},
      {NEIGHBORS("{\"name\": \"e\", \"chassis\": [{\"name\": [{\"value\": 5}]}]}"), "chassis.name: must be a string"},
      {NEIGHBORS("{\"name\": \"e\", \"status\": [], " CHASSIS("h", "false") "}"), "not `show interfaces`"},
      {SELF("a") NEIGHBORS("{\"name\": \"e\", " CHASSIS("a", "false") "}"), "nobody there hears a neighbor"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], cases[i][1]);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hosts_and_a_switch),
      cmocka_unit_test(test_both_ends_tell),
      cmocka_unit_test(test_parallel_cables),
      cmocka_unit_test(test_short_names_of_files),
      cmocka_unit_test(test_one_object_of_hosts),
      cmocka_unit_test(test_only_a_switch_reports),
      cmocka_unit_test(test_hosts_by_option),
      cmocka_unit_test(test_rates),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("topology_lldp", tests, NULL, NULL);
}
