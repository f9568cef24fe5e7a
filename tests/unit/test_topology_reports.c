/* Reading topologies from reports: neighbours by LLDP, and measured pairs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "file.h"
#include "text.h"
#include "topology_data.h"
#include "topology_formats.h"

/* --- topology lldp --- */

/* Makes one neighbour in the format of `lldpcli -f json0 show neighbors details`, without members that are not
 * read. */
#define CHASSIS(name, bridge)                                                                                          \
  "\"chassis\": [{\"id\": [{\"type\": \"local\", \"value\": \"" name "\"}], \"name\": [{\"value\": \"" name            \
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

/* The switch receives the same announcements as the hosts. The two ends of one cable agree by name, and those of
 * the other only by number. */
static void test_both_ends_report(void **state) {
  (void)state;
  struct by_lldp_file files[] = {
      file("h", SELF("a.org") NEIGHBORS(SWITCH_BY("swp1")) SELF("b.org") NEIGHBORS(SWITCH_BY("swp2"))),
      file("sw.json", NEIGHBORS(RECEIVES("swp1", "a.org", "false", "02:00", "eth0", "1000BaseTFD - UTP") "," RECEIVES(
                          "port 2", "b.org", "false", "02:01", "uplink", FAST)))};
  struct by_topology *topology = parsed(files, 2, "");
  assert_int_equal(topology->n_nodes, 3);
  assert_int_equal(topology->n_links, 2);
  assert_true(topology->links[0].capacity[BY_AB].all == 1e9); /* The slower of the two reported rates counts. */
  assert_true(topology->links[1].capacity[BY_AB].all == 1e10);
  assert_true(node(topology, "a.org")->takes_part);
  by_topology_destroy(topology);
}

/* Two cables in any order are two links, and the same port by two protocols is one. */
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
  assert_string_equal(topology->nodes[0].name, "n1.x.org");
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
      {"{}", "t.json: no machine there received a neighbor"},
      {"{\"lldp\": [{}]}", "t.json: no machine there received a neighbor"},
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
      {SELF("a") NEIGHBORS("{\"name\": \"e\", " CHASSIS("a", "false") "}"), "no machine there received a neighbor"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], cases[i][1]);
}

/* --- topology pairs --- */

#define HEAD "src_region,src_tier,src_instance,dst_region,dst_tier,dst_instance,bps_sent,bps_received,avg_rtt_ms\n"

static struct by_topology *parsed_pairs(const char *text, const char *options) {
  struct by_topology *topology;
  assert_ok(by_topology_parse_pairs("t.csv", text, strlen(text), options, &topology));
  return topology;
}

static const struct by_link *link_of(const struct by_topology *topology, const char *a, const char *b) {
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    if (strcmp(topology->nodes[link->a].name, a) == 0 && strcmp(topology->nodes[link->b].name, b) == 0) return link;
  }
  fail_msg("there is no link from %s to %s", a, b);
  return NULL;
}

static void check_link(const struct by_topology *topology, const char *a, const char *b, double forth, double back,
                       double delay) {
  const struct by_link *link = link_of(topology, a, b);
  assert_true(link->capacity[BY_AB].all == forth);
  assert_true(link->capacity[BY_BA].all == back);
  assert_true(fabs(link->delay - delay) < 1e-9);
}

static void test_directions(void **state) {
  (void)state;
  /* This is the same pair again, with a better rate. */
  struct by_topology *topology = parsed_pairs(HEAD "gcp:b,PREMIUM,n2,aws:a,PREMIUM,m5,900,800,20.0\r\n"
                                                   "aws:a,PREMIUM,m5,gcp:b,PREMIUM,n2,700,600,21.0\n"
                                                   "\naws:a,PREMIUM,m5,gcp:b,PREMIUM,n2,700,650,\n"
                                                   "aws:a,PREMIUM,m5,aws:a,PREMIUM,m5,1,1,1\n",
                                              "");
  assert_int_equal(topology->n_nodes, 2);
  assert_int_equal(topology->n_links, 1);
  assert_string_equal(topology->nodes[0].name, "aws:a"); /* The order is by name, not by appearance. */
  assert_string_equal(topology->nodes[0].group, "aws");
  check_link(topology, "aws:a", "gcp:b", 650, 800, 0.010);
  by_topology_destroy(topology);
}

static void test_limits(void **state) {
  (void)state;
  static const char text[] =
      "src_region,dst_region,bps_received\naws:a,gcp:b,1e9\ngcp:b,azure:c,1e9\nplain,gcp:b,1e9\n";
  struct by_topology *topology = parsed_pairs(text, "");
  assert_true(topology->nodes[0].out.all == 5e9 && topology->nodes[1].out.all == 16e9 &&
              topology->nodes[2].out.all == 7e9 && isinf(topology->nodes[3].out.all));
  assert_true(isinf(topology->nodes[0].in.all)); /* Only the sending direction is limited. */
  by_topology_destroy(topology);
  topology = parsed_pairs(text, "limits=gcp=100m");
  assert_true(isinf(topology->nodes[0].out.all) && topology->nodes[2].out.all == 1e8);
  by_topology_destroy(topology);
  topology = parsed_pairs(text, "limits=");
  assert_true(isinf(topology->nodes[0].out.all));
  by_topology_destroy(topology);
}

#define TIERS                                                                                                          \
  HEAD "gcp:x,PREMIUM,,aws:y,PREMIUM,,9,8,10\ngcp:x,STANDARD,,aws:y,PREMIUM,,7,6,10\n"                                 \
       "gcp:z,STANDARD,,aws:y,PREMIUM,,5,4,10\ngcp:x,PREMIUM,,gcp:x,STANDARD,,3,2,10\n"                                \
       "aws:y,PREMIUM,,azure:v,PREMIUM,,3,2,10\n"

static void check_selected(const char *select, const char *names) {
  char options[256];
  snprintf(options, sizeof options, "%s%s", select ? "select=" : "", select ? select : "");
  struct by_topology *topology = parsed_pairs(TIERS, options);
  char all[256] = "";
  for (uint32_t i = 0; i < topology->n_nodes; i++)
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", topology->nodes[i].name);
  assert_string_equal(all, names);
  by_topology_destroy(topology);
}

static void test_select(void **state) {
  (void)state;
  check_selected(NULL, "aws:y azure:v gcp:x");
  check_selected("", "aws:y azure:v gcp:x");
  check_selected("gcp:*+aws:*", "aws:y gcp:x");
  check_selected("!azure:*", "aws:y gcp:x");
  check_selected("*+!a*:v", "aws:y gcp:x");
  check_selected("aws:*+ gcp:*/STANDARD", "aws:y gcp:x/STANDARD gcp:z/STANDARD");
  check_selected("*/*+!azure:*", "aws:y gcp:x gcp:x/STANDARD gcp:z/STANDARD");
}

static void test_missing_direction(void **state) {
  (void)state;
  struct by_topology *topology = parsed_pairs("dst_region,src_region,bps_sent\na,b,5\n", "");
  check_link(topology, "a", "b", 5, 5, 0);
  by_topology_destroy(topology);
}

/* The pair a - c is not measured: the path over b takes 10 + 5 ms. No other node reaches d, so it gets the usual
 * value. */
static void test_missing_round_trips(void **state) {
  (void)state;
  struct by_topology *topology =
      parsed_pairs("src_region,dst_region,bps_received,avg_rtt_ms\na,b,1,20\nb,c,1,10\na,c,1,\n"
                   "b,a,1,\nc,d,1,\nb,e,1,200\n",
                   "");
  check_link(topology, "a", "b", 1, 1, 0.010);
  check_link(topology, "a", "c", 1, 1, 0.015);
  check_link(topology, "c", "d", 1, 1, 0.010);
  by_topology_destroy(topology);
}

static void test_quotes(void **state) {
  (void)state;
  static const char text[] = "\xef\xbb\xbfsrc_region,\"dst_region\",bps_received\n\"a, \"\"the\"\" first\",b,5\n";
  struct by_topology *topology;
  assert_ok(by_topology_parse_any("t.csv", text, strlen(text), "", &topology));
  assert_string_equal(topology->nodes[0].name, "a, \"the\" first");
  assert_int_equal(topology->n_links, 1);
  by_topology_destroy(topology);
}

static void check_refused_pairs(const char *text, const char *options, const char *part) {
  struct by_topology *topology;
  enum banyan_status status = by_topology_parse_pairs("t.csv", text, strlen(text), options, &topology);
  assert_int_not_equal(status, BANYAN_OK);
  if (!strstr(banyan_error_text(), part)) fail_msg("the error is \"%s\", must hold \"%s\"", banyan_error_text(), part);
}

#define SHORT "src_region,dst_region,bps_received,avg_rtt_ms\n"

static void test_refusals_of_pairs(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "t.csv: is empty"},
      {"\n\n", "t.csv: is empty"},
      {"{\"nodes\": []}", "t.csv:1: the columns must be named"},
      {"src_region,dst_region\na,b\n", "t.csv:1: there must be a column bps_received or bps_sent"},
      {"src_region,dst_region,src_region,bps_sent\n", "t.csv:1: two columns are named src_region"},
      {SHORT, "t.csv: no pair is measured"},
      {SHORT "a,b,,\n", "no pair is measured"},
      {SHORT "a,b,-5,1\n", "t.csv:2: bps_received is -5, must be more than 0"},
      {SHORT "a,b,1e-300,1\n", "t.csv:2: bps_received is 1e-300 bit/s, must be 1 to 1e+18 bit/s"},
      {SHORT "a,b,1e300,1\n", "t.csv:2: bps_received is 1e+300 bit/s"},
      {SHORT "a,b,5,1e300\n", "its delay is 5e+296 s, must be 0 to 3600 s"},
      {SHORT "a,b,5,1\na,b,0,1\n", "t.csv:3: bps_received is 0"},
      {SHORT "a,b,fast,1\n", "t.csv:2: bps_received: \"fast\" is not a number"},
      {SHORT "a,b,5,1e999\n", "t.csv:2: avg_rtt_ms: "},
      {SHORT "a,b,5,0\n", "t.csv:2: avg_rtt_ms is 0"},
      {SHORT "a,,5,1\n", "t.csv:2: dst_region is empty"},
      {SHORT "\"a,b,5,1\n", "t.csv:2: a quote is not closed"},
      {SHORT "\"a\"b,b,5,1\n", "t.csv:2: text behind a closing quote"},
      {SHORT "a\tb,c,5,1\n", "t.csv:2: src_region must be at most"},
      {SHORT "a,b,5,1\na,c", "t.csv:3: the file ends in this row, at field 2 of 4; is it whole?"},
      {SHORT "a,b,5,1\nc", "t.csv:3: the file ends in this row, at field 1 of 4"},
      {SHORT "a,b,5,1\nc,d,5,1\n", "t.csv: \"a\" and \"c\" take part but cannot reach each other"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused_pairs(cases[i][0], "", cases[i][1]);
}

static void test_refused_options(void **state) {
  (void)state;
  check_refused_pairs(SHORT "a,b,5,1\n", "select=a+azur:*", "no region is like \"azur:*\"");
  check_refused_pairs(SHORT "a,b,5,1\n", "limits=aws", "limits must be like aws=5g");
  check_refused_pairs(SHORT "a,b,5,1\n", "limits=aws=0", "the limit of aws is 0");
  check_refused_pairs(SHORT "a,b,5,1\n", "limits=aws=x", "\"x\" is not a rate");
}

static void test_long_rows(void **state) {
  (void)state;
  enum { LENGTH = 20000 };
  char *text = malloc(LENGTH + 1);
  struct by_topology *topology;
  assert_non_null(text);
  memset(text, 'x', LENGTH);
  assert_status(by_topology_parse_pairs("t.csv", text, LENGTH, "", &topology), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.csv:1: is 20000 bytes long, must be at most 16384");
  memset(text, ',', LENGTH);
  assert_status(by_topology_parse_pairs("t.csv", text, 100, "", &topology), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.csv:1: more than 64 fields");
  assert_status(by_topology_parse_pairs("t.csv", "a\0b\n", 4, "", &topology), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.csv:1: holds a byte 0; is this a text?");
  free(text);
}

/* Reads every region, and every provider with every tier, of the measurements of Skyplane. */
static void test_skyplane(void **state) {
  (void)state;
  static const struct {
    const char *options;
    uint32_t nodes, links;
  } cases[] = {
      {"", 63, 63 * 62 / 2}, {"select=azure:*", 15, 105}, {"select=aws:*", 21, 210}, {"select=gcp:*", 27, 351}};
  char path[DATA_PATH_BYTES], *text;
  size_t length;
  struct by_topology *topology;
  if (!data_path("cloud/skyplane-2022-01.csv", path)) return;
  assert_ok(by_read_file("topology", path, BY_TOPOLOGY_MAX_FILE, &text, &length));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_ok(by_topology_parse_pairs("skyplane", text, length, cases[i].options, &topology));
    assert_int_equal(topology->n_nodes, cases[i].nodes);
    assert_int_equal(topology->n_links, cases[i].links);
    for (uint32_t l = 0; l < topology->n_links; l++) assert_true(topology->links[l].delay < 0.3);
    by_topology_destroy(topology);
  }
  assert_ok(by_topology_parse_pairs("skyplane", text, length, "select=*/*", &topology));
  assert_true(topology->n_nodes > 63);
  by_topology_destroy(topology);
  free(text);
}

/* Reads the edge list of the same regions, in which the slower direction of a pair counts for both. */
static void test_skyplane_as_edges(void **state) {
  (void)state;
  char path[DATA_PATH_BYTES], with[DATA_PATH_BYTES + 32];
  struct by_topology *pairs, *edges;
  if (!data_path("edgelists/cloud-azure.el", path)) return;
  assert_ok(by_topology_read(path, &edges));
  snprintf(with, sizeof with, "%s?select=azure:*", data_path("cloud/skyplane-2022-01.csv", path));
  assert_ok(by_topology_read(with, &pairs));
  assert_int_equal(pairs->n_links, edges->n_links);
  for (uint32_t i = 0; i < pairs->n_links; i++) {
    const struct by_link *link = &pairs->links[i], *same = &edges->links[i];
    assert_true(link->a == same->a && link->b == same->b);
    double slower = fmin(link->capacity[BY_AB].all, link->capacity[BY_BA].all);
    assert_true(fabs(slower / same->capacity[BY_AB].all - 1) < 1e-4);
  }
  for (uint32_t i = 0; i < pairs->n_nodes; i++) assert_true(pairs->nodes[i].out.all == edges->nodes[i].out.all);
  by_topology_destroy(pairs);
  by_topology_destroy(edges);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hosts_and_a_switch),
      cmocka_unit_test(test_both_ends_report),
      cmocka_unit_test(test_parallel_cables),
      cmocka_unit_test(test_short_names_of_files),
      cmocka_unit_test(test_one_object_of_hosts),
      cmocka_unit_test(test_only_a_switch_reports),
      cmocka_unit_test(test_hosts_by_option),
      cmocka_unit_test(test_rates),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_directions),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_select),
      cmocka_unit_test(test_missing_direction),
      cmocka_unit_test(test_missing_round_trips),
      cmocka_unit_test(test_quotes),
      cmocka_unit_test(test_refusals_of_pairs),
      cmocka_unit_test(test_refused_options),
      cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_skyplane),
      cmocka_unit_test(test_skyplane_as_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
