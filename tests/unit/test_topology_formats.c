/* Reading topologies: the detection of a text's format, edge lists, and Banyan's own JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "text.h"
#include "topology.h"
#include "topology_data.h"
#include "topology_formats.h"
#include "topology_same.h"

/* --- topology formats --- */

/* The reader of a text is chosen by each format's beginning, then by the file's name. */

static void test_by_content(void **state) {
  (void)state;
  static const struct {
    const char *source, *text;
    uint32_t nodes;
  } good[] = {
      {"x", "{\"format\": \"banyan-topology 1\", \"nodes\": [\"a\"], \"links\": []}", 1},
      {"x", "\xef\xbb\xbf \n{\"nodes\": [\"a\"], \"links\": [], \"format\": \"banyan-topology 1\"}", 1},
      {"x.json", "2 1\n0 1 1 1", 2},
      {"x", "  2 1 # two\n0 1 1 1", 2},
      {"x", "# two\n2 1\n0 1 1", 2},
      {"x", "1 0", 1},
      {"x.json", "<?xml version=\"1.0\"?><graphml><graph><node id=\"a\"/></graph></graphml>", 1},
      {"x", "src_region,dst_region,bps_sent\na,b,1\n", 2},
      {"x", "{\"lldp\": [{\"interface\": [{\"name\": \"e\", \"chassis\": [{\"name\": [{\"value\": \"s\"}]}]}]}]}", 2},
      {"x", "<system><cpu numaid=\"0\"><pci busid=\"1\" class=\"0x03\"/></cpu></system>", 2},
      {"x",
       "\xef\xbb\xbf"
       "1 0",
       1},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct by_topology *topology;
    assert_ok(by_topology_parse_any(good[i].source, good[i].text, strlen(good[i].text), "", &topology));
    assert_int_equal(topology->n_nodes, good[i].nodes);
    by_topology_destroy(topology);
  }
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *source, *text, *error;
  } cases[] = {
      {"x", "", "x: is empty; topologies are read as json"},
      {"x.json.bak", "hello", "x.json.bak: is in no known format; topologies are read as json"},
      {"x", "12 13 14\n", "x: is in no known format"},
      {"x.json", "hello", "x.json:1:"},
      {"x.json", "", "x.json:1:"},
      {"x.graphml", "hello", "x.graphml:1: not well-formed XML"},
      {"x.xml", "<other/>", "x.xml:1: <other>: not NCCL topology XML"},
      {"x.csv", "a,b\n", "x.csv:1: the columns must be named"},
      {"x.lldp", "{}", "x.lldp: no machine there received a neighbor"},
      {"x.el", "hello", "x.el:1: must be \"n m\""},
      {".el", "hello", ".el: is in no known format"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    assert_status(by_topology_parse_any(cases[i].source, cases[i].text, strlen(cases[i].text), "", &topology),
                  BANYAN_ERR_PARSE);
    if (!strstr(banyan_error_text(), cases[i].error)) fail_msg("case %zu: %s", i, banyan_error_text());
  }
}

static void test_list(void **state) {
  (void)state;
  uint32_t n = 0;
  for (const struct by_topology_format *format; (format = by_topology_format_list(n)); n++)
    assert_true(*format->name && *format->help && format->parse && !format->fits != !format->words[0]);
  assert_true(n >= 2);
  assert_null(by_topology_format_list(UINT32_MAX));
}

static void test_files(void **state) {
  (void)state;
  char path[] = "/tmp/banyan-topology-XXXXXX";
  struct by_topology *topology;
  int fd = mkstemp(path);
  assert_int_equal(write(fd, "2 1\n0 1 1 1\n", 12), 12);
  close(fd);
  assert_ok(by_topology_read(path, &topology));
  assert_int_equal(topology->n_nodes, 2);
  by_topology_destroy(topology);
  unlink(path);
  assert_status(by_topology_read(path, &topology), BANYAN_ERR_SYSTEM);
  assert_non_null(strstr(banyan_error_text(), "cannot open topology /tmp/banyan-topology-"));
}

/* The part after "?" goes to the reader, unless the file's name contains it. */
static void test_options(void **state) {
  (void)state;
  char path[] = "/tmp/banyan-topology-XXXXXX", text[64];
  struct by_topology *topology;
  int fd = mkstemp(path);
  static const char pairs[] = "src_region,dst_region,bps_sent\na,b,1\nb,c,1\n", edges[] = "2 1\n0 1 1 1\n";
  assert_int_equal(write(fd, pairs, sizeof pairs - 1), sizeof pairs - 1);
  snprintf(text, sizeof text, "%s?select=a+b", path);
  assert_ok(by_topology_read(text, &topology));
  assert_int_equal(topology->n_nodes, 2);
  by_topology_destroy(topology);
  snprintf(text, sizeof text, "%s?color=red", path);
  assert_status(by_topology_read(text, &topology), BANYAN_ERR_ARGUMENT);
  assert_int_equal(rename(path, text), 0);
  assert_ok(by_topology_read(text, &topology));
  assert_int_equal(topology->n_nodes, 3);
  by_topology_destroy(topology);
  unlink(text);
  assert_int_equal(pwrite(fd, edges, sizeof edges, 0), sizeof edges);
  assert_int_equal(ftruncate(fd, sizeof edges - 1), 0);
  snprintf(text, sizeof text, "/proc/self/fd/%d?rate=1g", fd);
  assert_status(by_topology_read(text, &topology), BANYAN_ERR_ARGUMENT);
  assert_string_equal(banyan_error_text(), "there are no options for this format, such as \"rate\"");
  close(fd);
}

/* --- topology_edges --- */

static struct by_topology *parsed(const char *text) {
  struct by_topology *topology = NULL;
  assert_ok(by_topology_parse_any("t.el", text, strlen(text), "", &topology));
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

static void test_errors_of_edges(void **state) {
  (void)state;
  char long_line[1000];
  memset(long_line, '1', sizeof long_line - 1);
  long_line[sizeof long_line - 1] = '\0';
  struct {
    const char *text, *error;
    enum banyan_status status; /* The value 0 stands for BANYAN_ERR_PARSE. */
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
      {"2 1\n0 1 1 1\n0 1 1 1", "t.el:3: is one link more than the 1 that the first line announces", 0},
      {"2 1\n0 1 1 1\nnic 0", "t.el:3: must be \"nic v capacity\"", 0},
      {"2 1\n0 1 1 1\nnic 2 1", "t.el:3: the node is 2, must be 0 to 1", 0},
      {"2 1\n0 1 1 1\nnic 0 0", "t.el:3: the capacity is 0", 0},
      {long_line, "t.el:1: is no line of an edge list: it is too long", 0},
      {"3 1\n0 1 1 1\n", "t.el: \"0\" and \"2\" take part but cannot reach each other", BANYAN_ERR_TOPOLOGY},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    enum banyan_status wanted = cases[i].status ? cases[i].status : BANYAN_ERR_PARSE;
    if (by_topology_parse_any("t.el", cases[i].text, strlen(cases[i].text), "", &topology) != wanted ||
        !strstr(banyan_error_text(), cases[i].error) || strchr(banyan_error_text(), '\n'))
      fail_msg("case %zu: %s\n  wanted: %s\n  got:    %s", i, cases[i].text, cases[i].error, banyan_error_text());
  }
}

static void test_nul(void **state) {
  (void)state;
  struct by_topology *topology;
  assert_status(by_topology_parse_any("t.el", "1 0\n\0", 5, "", &topology), BANYAN_ERR_PARSE);
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

/* --- Options of other programs' formats, and the folder with the output of LLDP --- */

#define GRAPH "<graphml><graph><node id=\"a\"/><node id=\"b\"/><edge source=\"a\" target=\"b\"/></graph></graphml>"
#define PAIRS "src_region,dst_region,bps_sent\naws:a,gcp:b,1\ngcp:b,gcp:c,1\n"
#define RECEIVES(name)                                                                                                 \
  "{\"lldp\": [{\"interface\": [{\"name\": \"e\", \"chassis\": [{\"name\": [{\"value\": \"" name "\"}]}]}]}]}"

static struct by_topology *parsed_as(by_topology_parser *parse, const char *text, const char *options) {
  struct by_topology *topology;
  assert_ok(parse("t", text, strlen(text), options, &topology));
  return topology;
}

static enum banyan_status parse_lldp(const char *source, const char *text, size_t length, const char *options,
                                     struct by_topology **out) {
  return by_topology_parse_lldp(&(struct by_lldp_file){source, text, length}, 1, options, out);
}

static void test_foreign_options(void **state) {
  (void)state;
  struct by_topology *topology = parsed_as(by_topology_parse_graphml, GRAPH, "rate=10g,delay=2ms");
  assert_true(topology->links[0].capacity[BY_AB].all == 1e10 && topology->links[0].delay == 2e-3);
  by_topology_destroy(topology);
  topology = parsed_as(by_topology_parse_pairs, PAIRS, "limits=gcp=2g+aws=3g,select=*:a+gcp:b");
  assert_int_equal(topology->n_nodes, 2);
  assert_true(topology->nodes[0].out.all == 3e9 && topology->nodes[1].out.all == 2e9);
  by_topology_destroy(topology);
  topology = parsed_as(by_topology_parse_pairs, PAIRS, "");
  assert_int_equal(topology->n_nodes, 3);
  by_topology_destroy(topology);
  topology = parsed_as(parse_lldp, RECEIVES("s"), "hosts=x+s,rate=5g");
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
      {by_topology_parse_graphml, "rat=5g", "no option \"rat\"; did you mean \"rate\"?; there are rate=, delay="},
      {by_topology_parse_graphml, "x", "no option \"x\"; there are rate=, delay="},
      {by_topology_parse_graphml, "rate", "the option \"rate\" must have a value: rate=..."},
      {by_topology_parse_graphml, "rate=fast", "\"fast\" is not a rate"},
      {by_topology_parse_graphml, "rate=0", "the rate is 0, must be more than 0"},
      {by_topology_parse_graphml, "delay=soon", "\"soon\" is not a time"},
      {by_topology_parse_pairs, "limits=aws", "limits must be like"},
      {parse_lldp, "rate=-1", "\"-1\" is not a rate"},
      {by_topology_parse_nccl, "rate=1g", "there are no options for this format, such as \"rate\""},
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
  char folder[] = "/tmp/banyan-lldp-XXXXXX", with_options[64];
  struct by_topology *topology;
  assert_non_null(mkdtemp(folder));
  assert_status(by_topology_read(folder, &topology), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "holds 0 files of LLDP"));
  put(folder, "b.lldp", RECEIVES("s"));
  put(folder, "a.json", RECEIVES("s"));
  put(folder, "notes.txt", "not read");
  snprintf(with_options, sizeof with_options, "%s?rate=25g", folder);
  assert_ok(by_topology_read(with_options, &topology));
  assert_int_equal(topology->n_nodes, 3);
  assert_string_equal(topology->nodes[0].name, "a"); /* The order is that of the names. */
  assert_true(topology->links[0].capacity[BY_AB].all == 25e9);
  by_topology_destroy(topology);
  put(folder, "a.json", "{");
  assert_status(by_topology_read(folder, &topology), BANYAN_ERR_PARSE);
  assert_non_null(
      strstr(banyan_error_text(), " is a folder, so its files must be what lldpcli printed on each host: a.json:1:"));
  drop(folder, "a.json");
  drop(folder, "b.lldp");
  drop(folder, "notes.txt");
  assert_int_equal(rmdir(folder), 0);
  assert_status(by_topology_read(folder, &topology), BANYAN_ERR_SYSTEM);
}

/* --- topology json --- */

#define HEAD "{\"format\": \"banyan-topology 1\", "

static struct by_topology *parsed_json(const char *text) {
  struct by_topology *topology = NULL;
  assert_ok(by_topology_parse("t.json", text, strlen(text), &topology));
  return topology;
}

/* A topology that is printed and parsed again is the same and prints the same text. */
static void assert_round_trip(const struct by_topology *topology) {
  struct by_text first, second;
  by_text_init(&first);
  by_text_init(&second);
  by_topology_print(topology, &first);
  assert_null(strchr(by_text_get(&first), '\n'));
  struct by_topology *again = parsed_json(by_text_get(&first));
  assert_true(same_topology(topology, again));
  by_topology_print(again, &second);
  assert_string_equal(by_text_get(&first), by_text_get(&second));
  by_topology_destroy(again);
  by_text_fini(&first);
  by_text_fini(&second);
}

static void test_everything_of_json(void **state) {
  (void)state;
  struct by_topology *t = parsed_json(
      HEAD
      "\"name\": \"all of it\", \"nodes\": [\"plain\", {\"name\": \"a \\\"\\u00e9\\\\\", \"takes_part\": false, "
      "\"helps\": true, \"group\": \"rack 1\", \"capacity\": {\"out\": \"5g\"}, \"used\": {\"in\": 7}, \"x\": -1.5, "
      "\"y\": 52}, {\"name\": \"s\", \"kind\": \"switch\", \"aggregates\": true, \"memory\": \"4M\", "
      "\"capacity\": \"1t\", \"used\": \"1g\"}, {\"kind\": \"host\", \"name\": \"last\", \"takes_part\": true}], "
      "\"links\": [{\"a\": \"plain\", \"b\": \"s\", \"capacity\": \"10g\"}, "
      "{\"b\": \"last\", \"a\": \"s\", \"capacity\": {\"ab\": 1e9, \"ba\": \"200m\"}, \"used\": {\"ba\": \"100m\"}, "
      "\"delay\": \"20ms\", \"loss\": 0.001, \"rough\": true, \"ports\": {\"a\": \"swp1\", \"b\": \"eth0\"}}, "
      "{\"a\": \"plain\", \"b\": \"last\", \"capacity\": 5, \"used\": 1, \"delay\": 0.5, "
      "\"ports\": {\"b\": \"eth1\"}}]}");
  assert_string_equal(t->name, "all of it");
  assert_int_equal(t->n_nodes, 4);
  assert_int_equal(t->n_links, 3);
  const struct by_node *plain = &t->nodes[0], *helper = &t->nodes[1], *s = &t->nodes[2];
  assert_true(plain->takes_part && !plain->may_help && plain->kind == BY_NODE_HOST && isnan(plain->x));
  assert_true(isinf(plain->out.all) && isinf(plain->in.all) && plain->in.used == 0);
  assert_string_equal(helper->name, "a \"\xc3\xa9\\");
  assert_string_equal(helper->group, "rack 1");
  assert_true(!helper->takes_part && helper->may_help && helper->x == -1.5 && helper->y == 52);
  assert_true(helper->out.all == 5e9 && isinf(helper->in.all) && helper->in.used == 7 && helper->out.used == 0);
  assert_true(s->kind == BY_NODE_SWITCH && s->aggregates && s->memory == 4 << 20 && !s->takes_part);
  assert_true(s->out.all == 1e12 && s->in.all == 1e12 && s->out.used == 1e9 && s->in.used == 1e9);
  const struct by_link *first = &t->links[0], *link = &t->links[1];
  assert_true(first->a == 0 && first->b == 2 && first->capacity[BY_AB].all == 1e10 &&
              first->capacity[BY_BA].all == 1e10);
  assert_true(first->delay == 0 && first->loss == 0 && !*first->port[0]);
  assert_true(link->a == 2 && link->b == 3 && link->capacity[BY_AB].all == 1e9 && link->capacity[BY_BA].all == 2e8);
  assert_true(link->capacity[BY_AB].used == 0 && link->capacity[BY_BA].used == 1e8);
  assert_true(link->delay == 0.02 && link->loss == 0.001 && link->rough && !first->rough);
  assert_string_equal(link->port[0], "swp1");
  assert_string_equal(t->links[2].port[1], "eth1");
  assert_round_trip(t);
  by_topology_destroy(t);
}

static void test_printed(void **state) {
  (void)state;
  struct by_text text;
  struct by_topology *t =
      parsed_json(HEAD "\"links\": [{\"a\": \"h\", \"b\": \"s\", \"capacity\": 1e9, \"delay\": 0.1}],"
                       "\"nodes\": [\"h\", {\"name\": \"s\", \"kind\": \"switch\"}]}");
  by_text_init(&text);
  by_topology_print(t, &text);
  assert_string_equal(by_text_get(&text), "{\"format\": \"banyan-topology 1\", \"nodes\": [{\"name\": \"h\"}, "
                                          "{\"name\": \"s\", \"kind\": \"switch\"}], \"links\": [{\"a\": \"h\", "
                                          "\"b\": \"s\", \"capacity\": 1000000000, \"delay\": 0.1}]}");
  by_text_fini(&text);
  by_topology_destroy(t);
}

#define AB HEAD "\"nodes\": [\"a\", \"b\"], \"links\": ["
#define LINK(x) AB "{\"a\": \"a\", \"b\": \"b\", " x "}]}"
#define NODE(x) HEAD "\"nodes\": [\"a\", {\"name\": \"b\", " x "}], \"links\": []}"

static void test_errors_of_json(void **state) {
  (void)state;
  struct {
    const char *text, *error;
    enum banyan_status status; /* The value 0 stands for BANYAN_ERR_PARSE. */
  } cases[] = {
      {"", "t.json:1:0: ", 0},
      {"{\n  \"format\": 1,,", "t.json:2:15: ", 0},
      {"{\"format\": \"a\",\n \"format\": \"a\"}", "duplicate object key", 0},
      {"[]", "t.json: must be an object, is an array", 0},
      {"{}", "t.json: the field \"format\" is missing: write \"format\": \"banyan-topology 1\"", 0},
      {"{\"format\": \"banyan-topology 2\"}", "t.json: format: is \"banyan-topology 2\", this version reads", 0},
      {"{\"format\": \"banyan-plan 1\", \"ranks\": 2}", "t.json: format: is \"banyan-plan 1\", so this is a plan", 0},
      {HEAD "\"node\": []}", "t.json: unknown field \"node\"; did you mean \"nodes\"?", 0},
      {HEAD "\"links\": []}", "t.json: the field \"nodes\" is missing", 0},
      {HEAD "\"nodes\": []}", "t.json: the field \"links\" is missing", 0},
      {HEAD "\"nodes\": {}}", "t.json: nodes: must be an array, is an object", 0},
      {HEAD "\"nodes\": [3]}", "t.json: nodes[0]: must be an object, is a whole number", 0},
      {HEAD "\"nodes\": [{}]}", "t.json: nodes[0]: the field \"name\" is missing: write \"name\": \"h0\"", 0},
      {HEAD "\"nodes\": [{\"name\": 3}]}", "t.json: nodes[0].name: must be a string: write \"3\"", 0},
      {HEAD "\"nodes\": [\"a\", \"a\"]}", "t.json: nodes[1]: two nodes are named \"a\"", 0},
      {HEAD "\"nodes\": [\"a\", {\"name\": \"a\"}]}", "t.json: nodes[1].name: two nodes are named \"a\"", 0},
      {NODE("\"kind\": \"router\""), "t.json: nodes[1].kind: is \"router\", must be host or switch", 0},
      {NODE("\"speed\": 3"), "t.json: nodes[1]: unknown field \"speed\"; there are name, kind", 0},
      {NODE("\"takes_part\": 1"), "t.json: nodes[1].takes_part: must be true or false, is a whole number", 0},
      {NODE("\"aggregates\": true"), "t.json: nodes[1].aggregates: is not for a host", 0},
      {NODE("\"memory\": 3"), "t.json: nodes[1].memory: is not for a host", 0},
      {NODE("\"kind\": \"switch\", \"takes_part\": true"), "nodes[1].takes_part: is not for a switch", 0},
      {NODE("\"kind\": \"switch\", \"helps\": false"), "nodes[1].helps: is not for a switch", 0},
      {NODE("\"kind\": \"switch\", \"memory\": \"2 parsecs\""), "nodes[1].memory: \"2 parsecs\" is not", 0},
      {NODE("\"group\": 3"), "t.json: nodes[1].group: must be a string", 0},
      {NODE("\"x\": 3"), "t.json: nodes[1]: has only one of \"x\" and \"y\"", 0},
      {NODE("\"x\": 3, \"y\": \"4\""), "t.json: nodes[1].y: must be a number, is a string", 0},
      {NODE("\"capacity\": 0"), "t.json: nodes[1].capacity: is 0, must be more than 0", 0},
      {NODE("\"capacity\": {\"out\": 1e-300}"), "t.json: nodes[1].capacity.out: is 1e-300 bit/s, must be 1 to 1e+18",
       0},
      {NODE("\"capacity\": {\"out\": -1}"), "t.json: nodes[1].capacity.out: is -1, must be 0 or more", 0},
      {NODE("\"capacity\": {\"ab\": 1}"), "t.json: nodes[1].capacity: unknown field \"ab\"; there are out, in", 0},
      {NODE("\"capacity\": 1, \"used\": 2"), "t.json: nodes[1].used: is 2, but the capacity is 1", 0},
      {AB "7]}", "t.json: links[0]: must be an object, is a whole number", 0},
      {AB "{}]}", "t.json: links[0]: the field \"a\" is missing", 0},
      {AB "{\"a\": \"a\"}]}", "t.json: links[0]: the field \"b\" is missing", 0},
      {AB "{\"a\": \"a\", \"b\": \"xyzzy\"}]}", "t.json: links[0].b: there is no node \"xyzzy\"", 0},
      {HEAD "\"nodes\": [\"spine\"], \"links\": [{\"a\": \"spien\", \"b\": \"spine\"}]}", "did you mean \"spine\"?", 0},
      {AB "{\"a\": \"b\", \"b\": \"b\"}]}", "t.json: links[0]: leads from \"b\" to itself", 0},
      {LINK("\"delay\": 1"), "t.json: links[0]: the field \"capacity\" is missing", 0},
      {LINK("\"capacity\": 0"), "t.json: links[0].capacity: is 0, must be more than 0", 0},
      {LINK("\"capacity\": -3"), "t.json: links[0].capacity: is -3, must be 0 or more", 0},
      {LINK("\"capacity\": 1e-300"), "t.json: links[0].capacity: is 1e-300 bit/s, must be 1 to 1e+18 bit/s", 0},
      {LINK("\"capacity\": {\"ab\": 1, \"ba\": 1e300}"), "t.json: links[0].capacity.ba: is 1e+300 bit/s", 0},
      {LINK("\"capacity\": \"1e7t\""), "t.json: links[0].capacity: \"1e7t\" is 1e+19 bit/s, must be 1 to", 0},
      {LINK("\"capacity\": NaN"), "t.json:1:", 0},
      {LINK("\"capacity\": 1e999"), "t.json:1:", 0},
      {LINK("\"capacity\": \"inf\""), "t.json: links[0].capacity: \"inf\" is not a rate", 0},
      {LINK("\"capacity\": {\"ab\": 1}"), "t.json: links[0].capacity: the field \"ba\" is missing", 0},
      {LINK("\"capacity\": {\"ab\": 1, \"ba\": 0}"), "t.json: links[0].capacity.ba: is 0", 0},
      {LINK("\"capacity\": 1, \"used\": {\"ba\": 2}"), "t.json: links[0].used: is 2, but the capacity is 1", 0},
      {LINK("\"capacity\": 1, \"delay\": -1"), "t.json: links[0].delay: is -1", 0},
      {LINK("\"capacity\": 1, \"delay\": \"3 moons\""), "t.json: links[0].delay: \"3 moons\" is not a time", 0},
      {LINK("\"capacity\": 1, \"loss\": 2"), "t.json: links[0].loss: is 2, must be 0 to 1", 0},
      {LINK("\"capacity\": 1, \"rough\": 1"), "t.json: links[0].rough: must be true or false", 0},
      {LINK("\"capacity\": 1, \"ports\": [1]"), "t.json: links[0].ports: must be an object", 0},
      {LINK("\"capacity\": 1, \"ports\": {\"c\": \"x\"}"), "t.json: links[0].ports: unknown field \"c\"", 0},
      {HEAD "\"nodes\": [], \"links\": []}", "t.json: there are no nodes", BANYAN_ERR_TOPOLOGY},
      {NODE("\"takes_part\": true"), "t.json: \"a\" and \"b\" take part but cannot reach", BANYAN_ERR_TOPOLOGY},
      {HEAD "\"nodes\": [\"a\\nb\"], \"links\": []}", "t.json: node number 0: its name must be", BANYAN_ERR_TOPOLOGY},
      {LINK("\"capacity\": 1, \"used\": 1"), "cannot reach each other", BANYAN_ERR_TOPOLOGY},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    enum banyan_status wanted = cases[i].status ? cases[i].status : BANYAN_ERR_PARSE;
    if (by_topology_parse("t.json", cases[i].text, strlen(cases[i].text), &topology) != wanted ||
        !strstr(banyan_error_text(), cases[i].error) || strchr(banyan_error_text(), '\n'))
      fail_msg("case %zu: %s\n  wanted: %s\n  got:    %s", i, cases[i].text, cases[i].error, banyan_error_text());
  }
}

/* Every prefix of a file is rejected, and the error names the place. */
static void test_truncated(void **state) {
  (void)state;
  static const char text[] = LINK("\"capacity\": {\"ab\": \"1g\", \"ba\": 5}, \"delay\": \"1ms\"");
  struct by_topology *topology;
  for (size_t length = 0; length + 1 < sizeof text - 1; length++) {
    assert_status(by_topology_parse("t.json", text, length, &topology), BANYAN_ERR_PARSE);
    assert_ptr_equal(strstr(banyan_error_text(), "t.json:1:"), banyan_error_text());
  }
  by_topology_destroy(parsed_json(text));
}

static void test_too_large(void **state) {
  (void)state;
  enum { BYTES = 4 << 20 };
  struct by_topology *topology;
  char *text = test_malloc(BYTES);
  memset(text, '[', BYTES);
  assert_status(by_topology_parse("t.json", text, BYTES, &topology), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "too large"));
  /* The text is deeply nested, not large. */
  assert_status(by_topology_parse("t.json", text, 100000, &topology), BANYAN_ERR_PARSE);
  size_t length = (size_t)snprintf(text, BYTES, HEAD "\"nodes\": [\"a\"");
  for (int i = 0; i < BY_TOPOLOGY_MAX_NODES; i++)
    length += (size_t)snprintf(text + length, BYTES - length, ",\"%d\"", i);
  length += (size_t)snprintf(text + length, BYTES - length, "]}");
  assert_status(by_topology_parse("t.json", text, length, &topology), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "t.json: nodes: has 65537 elements, must have 0 to 65536");
  test_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_content),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_list),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_everything),
      cmocka_unit_test(test_errors_of_edges),
      cmocka_unit_test(test_nul),
      cmocka_unit_test(test_real_ones),
      cmocka_unit_test(test_foreign_options),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_folder),
      cmocka_unit_test(test_everything_of_json),
      cmocka_unit_test(test_printed),
      cmocka_unit_test(test_errors_of_json),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_too_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
