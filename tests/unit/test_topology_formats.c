/* Which reader a text goes to: each format's beginning, then the file's name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "topology_data.h"
#include "topology_formats.h"

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
      {"x.json.bak", "hello", "x.json.bak: is in no format that is known; topologies are read as json"},
      {"x", "12 13 14\n", "x: is in no format"},
      {"x.json", "hello", "x.json:1:"},
      {"x.json", "", "x.json:1:"},
      {"x.graphml", "hello", "x.graphml:1: not well-formed XML"},
      {"x.xml", "<other/>", "x.xml:1: <other>: not NCCL topology XML"},
      {"x.csv", "a,b\n", "x.csv:1: the columns must be named"},
      {"x.lldp", "{}", "x.lldp: nobody there hears a neighbor"},
      {"x.el", "hello", "x.el:1: must be \"n m\""},
      {".el", "hello", ".el: is in no format"},
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
    assert_true(*format->name && *format->help && format->fits && format->parse);
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

/* What stands behind "?" goes to the reader, unless the file is named so. */
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
  assert_ok(by_topology_parse_edges("t.el", text, strlen(text), "", &topology));
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
    if (by_topology_parse_edges("t.el", cases[i].text, strlen(cases[i].text), "", &topology) != wanted ||
        !strstr(banyan_error_text(), cases[i].error) || strchr(banyan_error_text(), '\n'))
      fail_msg("case %zu: %s\n  wanted: %s\n  got:    %s", i, cases[i].text, cases[i].error, banyan_error_text());
  }
}

static void test_nul(void **state) {
  (void)state;
  struct by_topology *topology;
  assert_status(by_topology_parse_edges("t.el", "1 0\n\0", 5, "", &topology), BANYAN_ERR_PARSE);
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

/* --- Options of other programs' formats, and the folder of what LLDP gave --- */

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
  assert_string_equal(topology->nodes[0].name, "a"); /* in the order of the names */
  assert_true(topology->links[0].capacity[BY_AB].all == 25e9);
  by_topology_destroy(topology);
  put(folder, "a.json", "{");
  assert_status(by_topology_read(folder, &topology), BANYAN_ERR_PARSE);
  assert_memory_equal(banyan_error_text(), "a.json:1:", 9);
  drop(folder, "a.json");
  drop(folder, "b.lldp");
  drop(folder, "notes.txt");
  assert_int_equal(rmdir(folder), 0);
  assert_status(by_topology_read(folder, &topology), BANYAN_ERR_SYSTEM);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_content),      cmocka_unit_test(test_errors),   cmocka_unit_test(test_list),
      cmocka_unit_test(test_files),           cmocka_unit_test(test_options),  cmocka_unit_test(test_everything),
      cmocka_unit_test(test_errors_of_edges), cmocka_unit_test(test_nul),      cmocka_unit_test(test_real_ones),
      cmocka_unit_test(test_foreign_options), cmocka_unit_test(test_refusals), cmocka_unit_test(test_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
