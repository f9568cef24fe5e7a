/* Which reader a text goes to: each format's beginning, then the file's name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
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
    assert_ok(by_topology_parse_any(good[i].source, good[i].text, strlen(good[i].text), &topology));
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
    assert_status(by_topology_parse_any(cases[i].source, cases[i].text, strlen(cases[i].text), &topology),
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
  assert_string_equal(banyan_error_text(), "there are no options for this format, such as \"rate=1g\"");
  close(fd);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_content), cmocka_unit_test(test_errors),  cmocka_unit_test(test_list),
      cmocka_unit_test(test_files),      cmocka_unit_test(test_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
