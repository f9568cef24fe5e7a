/* Reading topologies from XML: GraphML, and the interior of GPU servers. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "file.h"
#include "text.h"
#include "topology_data.h"
#include "topology_formats.h"
#include "topology_reader.h"

/* --- topology graphml --- */

#define KEYS                                                                                                           \
  "<key attr.name=\"label\" for=\"node\" id=\"n\"/><key attr.name=\"Latitude\" for=\"node\" id=\"la\"/>"               \
  "<key attr.name=\"Longitude\" for=\"node\" id=\"lo\"/><key attr.name=\"LinkSpeedRaw\" for=\"edge\" id=\"s\"/>"       \
  "<key attr.name=\"capacity\" for=\"edge\" id=\"c\"/><key attr.name=\"delay\" for=\"edge\" id=\"d\"/>"                \
  "<key attr.name=\"loss\" for=\"edge\" id=\"l\"/><key attr.name=\"kind\" for=\"node\" id=\"k\"/>"                     \
  "<key attr.name=\"label\" for=\"graph\" id=\"g\"/>\n"
#define GRAPH(body) "<graphml>" KEYS "<graph edgedefault=\"undirected\">\n" body "</graph></graphml>"
#define DIRECTED(body) "<graphml>" KEYS "<graph edgedefault=\"directed\">\n" body "</graph></graphml>"
#define NODES "<node id=\"a\"/><node id=\"b\"/><node id=\"c\"/>\n"
#define AB "<edge source=\"a\" target=\"b\"><data key=\"s\">2000</data></edge>\n"

static struct by_topology *parsed(const char *text) {
  struct by_topology *topology;
  assert_ok(by_topology_parse_graphml("t.graphml", text, strlen(text), "", &topology));
  return topology;
}

/* Asserts that the error begins with the source and contains `part`. */
static void check_refused(const char *text, const char *part) {
  struct by_topology *topology;
  enum banyan_status status = by_topology_parse_graphml("t.graphml", text, strlen(text), "", &topology);
  assert_int_not_equal(status, BANYAN_OK);
  if (!strstr(banyan_error_text(), part) || strncmp(banyan_error_text(), "t.graphml:", 10) != 0)
    fail_msg("the error is \"%s\", must hold \"%s\"", banyan_error_text(), part);
}

static void test_zoo(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      GRAPH("<data key=\"g\">Two</data><node id=\"0\"><data key=\"n\">Amsterdam</data><data key=\"la\">52.37403</data>"
            "<data key=\"lo\">4.88969</data></node><node id=\"1\"><data key=\"n\">Brussels</data><data key=\"la\">"
            "50.85045</data><data key=\"lo\">4.34878</data></node><edge source=\"0\" target=\"1\"><data key=\"s\">"
            "10000000000.0</data></edge>"));
  assert_string_equal(topology->name, "Two");
  assert_int_equal(topology->n_nodes, 2);
  assert_string_equal(topology->nodes[0].name, "Amsterdam");
  assert_true(topology->nodes[0].kind == BY_NODE_HOST && topology->nodes[0].takes_part);
  assert_true(topology->nodes[0].x == 4.88969 && topology->nodes[0].y == 52.37403);
  assert_int_equal(topology->n_links, 1);
  assert_true(topology->links[0].capacity[BY_AB].all == 1e10 && topology->links[0].capacity[BY_BA].all == 1e10);
  assert_true(fabs(topology->links[0].delay - 0.8674e-3) < 1e-7); /* The distance is 173.5 km. */
  by_topology_destroy(topology);
}

static void test_names(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      GRAPH("<node id=\"7\"><data key=\"n\">None</data></node><node id=\"8\"><data key=\"n\"> None\n</data></node>"
            "<node id=\"9\"/><edge source=\"7\" target=\"8\"/><edge source=\"8\" target=\"9\"/>"));
  assert_string_equal(topology->nodes[0].name, "None (7)");
  assert_string_equal(topology->nodes[1].name, "None (8)");
  assert_string_equal(topology->nodes[2].name, "9");
  by_topology_destroy(topology);
}

static void test_missing_speeds(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      GRAPH(NODES AB "<edge source=\"b\" target=\"c\"/><edge source=\"b\" target=\"c\"><data key=\"s\">10</data></edge>"
                     "<edge source=\"a\" target=\"c\"><data key=\"s\">3000</data></edge>"));
  assert_int_equal(topology->n_links, 4); /* Parallel links are kept. */
  assert_true(topology->links[1].capacity[BY_BA].all == 2000);
  by_topology_destroy(topology);
  topology = parsed(GRAPH(NODES "<edge source=\"a\" target=\"b\"/><edge source=\"b\" target=\"c\"/>"));
  assert_true(topology->links[0].capacity[BY_AB].all == 1e9 && topology->links[0].delay == 0);
  by_topology_destroy(topology);
}

static void test_options(void **state) {
  (void)state;
  static const char text[] = GRAPH(NODES "<edge source=\"a\" target=\"b\"/><edge source=\"b\" target=\"c\"/>");
  struct by_topology *topology;
  assert_ok(by_topology_parse_graphml("t", text, strlen(text), "rate=5g,delay=1ms", &topology));
  assert_true(topology->links[1].capacity[BY_AB].all == 5e9 && topology->links[1].delay == 1e-3);
  by_topology_destroy(topology);
}

/* One place has no coordinates: its delay is the median of the other links. */
static void test_missing_places(void **state) {
  (void)state;
  struct by_topology *topology =
      parsed(GRAPH("<node id=\"a\"><data key=\"la\">0</data><data key=\"lo\">0</data></node><node id=\"b\"><data "
                   "key=\"la\">0</data><data key=\"lo\">-1</data></node><node id=\"c\"><data key=\"la\">3</data></node>"
                   "<edge source=\"a\" target=\"b\"/><edge source=\"b\" target=\"c\"/>"));
  assert_true(fabs(topology->links[0].delay - 111.19e3 / 2e8) < 1e-6);
  assert_true(topology->links[1].delay == topology->links[0].delay);
  assert_true(isnan(topology->nodes[2].x) && isnan(topology->nodes[2].y));
  by_topology_destroy(topology);
}

static void test_generic(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      GRAPH("<node id=\"a\"/><node id=\"b\"/><node id=\"sw\"><data key=\"k\">switch</data></node><edge source=\"a\" "
            "target=\"sw\"><data key=\"c\">10g</data><data key=\"d\">20us</data><data key=\"l\">0.01</data></edge>"
            "<edge source=\"sw\" target=\"b\"><data key=\"c\">200 mbit/s</data><data key=\"d\">2</data></edge>"));
  assert_true(topology->nodes[2].kind == BY_NODE_SWITCH && !topology->nodes[2].takes_part);
  assert_true(topology->links[0].capacity[BY_AB].all == 1e10 && topology->links[0].loss == 0.01);
  assert_true(fabs(topology->links[0].delay - 20e-6) < 1e-12 && topology->links[1].delay == 0.002);
  assert_true(topology->links[1].capacity[BY_BA].all == 2e8);
  by_topology_destroy(topology);
}

static void test_key_defaults(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\"><key id=\"c\" for=\"all\" attr.name=\"Capacity\">"
      "<default>3g</default></key><graph>" NODES "<edge source=\"a\" target=\"b\"/><edge source=\"b\" "
      "target=\"c\"><data key=\"c\">1g</data></edge></graph></graphml>");
  assert_true(topology->links[0].capacity[BY_AB].all == 3e9 && topology->links[1].capacity[BY_AB].all == 1e9);
  by_topology_destroy(topology);
}

static void test_directed(void **state) {
  (void)state;
#define WAY(from, to, rate) "<edge source=\"" from "\" target=\"" to "\"><data key=\"c\">" rate "</data></edge>"
  struct by_topology *topology = parsed(DIRECTED(NODES WAY("a", "b", "1g") WAY("c", "b", "2g") WAY("b", "a", "4g") WAY(
      "a", "b", "8g") "<edge source=\"c\" target=\"a\" directed=\"false\"><data key=\"c\">3g</data></edge>"));
  assert_int_equal(topology->n_links, 4);
  assert_true(topology->links[0].capacity[BY_AB].all == 1e9 && topology->links[0].capacity[BY_BA].all == 4e9);
  assert_true(topology->links[1].capacity[BY_AB].all == 2e9 && topology->links[1].capacity[BY_BA].all == 2e9);
  assert_true(topology->links[2].capacity[BY_AB].all == 8e9 && topology->links[2].capacity[BY_BA].all == 8e9);
  assert_true(topology->links[3].capacity[BY_AB].all == 3e9);
  by_topology_destroy(topology);
}

static void test_loops_are_left_out(void **state) {
  (void)state;
  struct by_topology *topology =
      parsed(GRAPH("<node id=\"a\"/><node id=\"b\"/>" AB "<edge source=\"a\" target=\"a\"/>"));
  assert_int_equal(topology->n_links, 1);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "is empty"},
      {"{\"nodes\": []}", "t.graphml:1: not well-formed XML"},
      {"<graphml><graph>", "not well-formed XML"},
      {"<system version=\"1\"/>", "t.graphml:1: <system version=\"1\">: not GraphML"},
      {"<graphml/>", "holds no <graph>"},
      {"<graphml><graph><node id=\"a\"/></graph><graph/></graphml>", "a second graph"},
      {GRAPH(""), "t.graphml:2: <graph edgedefault=\"undirected\">: has 0 nodes"},
      {GRAPH("<node/>"), "t.graphml:3: <node>: the attribute id is missing"},
      {GRAPH("<node id=\"a\"/>\n<node id=\"a\"/>"),
       "t.graphml:4: <node id=\"a\">: another node has that id, on line 3"},
      {GRAPH(NODES "<edge source=\"a\"/>"), "t.graphml:4: <edge source=\"a\">: the attribute target is missing"},
      {GRAPH(NODES "<edge source=\"a\" target=\"x\"/>"), "there is no node with the id \"x\""},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"s\">-5</data></edge>"),
       "t.graphml:4: <edge source=\"a\" target=\"b\">: its capacity: \"-5\" is not a rate"},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"c\">0</data></edge>"), "must be more than 0"},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"c\">1e-300</data></edge>"),
       "its capacity is 1e-294 bit/s, must be 1 to 1e+18 bit/s"},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"d\">1e8</data></edge>"), "delay is 100000 s"},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"c\">1e999</data></edge>"), "is not a rate"},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"d\">soon</data></edge>"), "its delay: \"soon\""},
      {GRAPH(NODES "<edge source=\"a\" target=\"b\"><data key=\"l\">-0.5</data></edge>"), "\"-0.5\" is not a share"},
      {GRAPH("<node id=\"a\"><data key=\"la\">91</data></node>"), "its latitude is 91, must be -90 to 90"},
      {GRAPH("<node id=\"a\"><data key=\"lo\">west</data></node>"), "its longitude: \"west\" is not a number"},
      {GRAPH("<node id=\"a\"><data key=\"k\">cat</data></node>"), "its kind is \"cat\", must be host or switch"},
      {GRAPH("<node id=\"a\"><graph/></node>"), "a graph inside a node"},
      {GRAPH(NODES "<hyperedge/>"), "<hyperedge>: is not read"},
      {GRAPH(NODES AB), "\"a\" and \"c\" take part but cannot reach each other"},
      {"<!DOCTYPE graphml [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;\">]><graphml>&b;</graphml>", "<!DOCTYPE>"},
      {"<!DOCTYPE graphml [<!ATTLIST node id CDATA \"x\">]>" GRAPH("<node/>"), "<!DOCTYPE>"},
      {"<!DOCTYPE graphml SYSTEM \"file:///etc/passwd\" [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><graphml/>",
       "<!DOCTYPE>"},
      {GRAPH("<node id=\"&who;\"/>"), "not well-formed XML: Entity 'who' not defined"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_refused(cases[i][0], cases[i][1]);
}

/* A type that is only named is neither fetched nor a problem. */
static void test_named_type(void **state) {
  (void)state;
  struct by_topology *topology =
      parsed("<!DOCTYPE graphml SYSTEM \"http://graphml.graphdrawing.org/dtds/graphml.dtd\">" GRAPH(
          "<node id=\"a\"/><node id=\"b\"/>" AB));
  assert_int_equal(topology->n_nodes, 2);
  by_topology_destroy(topology);
}

static char *repeated(const char *head, const char *part, size_t n, const char *tail, size_t *length) {
  size_t step = strlen(part), used = strlen(head);
  char *text = malloc(used + n * step + strlen(tail) + 1);
  assert_non_null(text);
  memcpy(text, head, used);
  for (size_t i = 0; i < n; i++) memcpy(text + used + i * step, part, step);
  strcpy(text + used + n * step, tail);
  *length = used + n * step + strlen(tail);
  return text;
}

static void check_huge(const char *head, const char *part, size_t n, const char *tail, const char *wanted) {
  struct by_topology *topology;
  size_t length;
  char *text = repeated(head, part, n, tail, &length);
  assert_status(by_topology_parse_graphml("t.graphml", text, length, "", &topology), BANYAN_ERR_PARSE);
  if (!strstr(banyan_error_text(), wanted)) fail_msg("the error is \"%s\"", banyan_error_text());
  free(text);
}

static void test_huge(void **state) {
  (void)state;
  check_huge("<graphml>", "<a/>", 1100000, "</graphml>", "more than 1048576 elements and attributes");
  check_huge("<graphml>", "<a>", 100000, "", "not well-formed XML");
  check_huge("<graphml><graph>", "<node id=\"a\"/>", 70000, "</graph></graphml>", "has 70000 nodes");
  check_huge("<graphml>", "                                ", 1100000, "</graphml>",
             "GraphML may have 33554432 at most");
  check_huge("<graphml>", "<key id=\"x\" attr.name=\"x\"/>", 65, "</graphml>", "more than 64 such keys");
}

static void check_file(const char *folder, const char *name) {
  char path[2 * DATA_PATH_BYTES], *text;
  size_t length;
  struct by_topology *topology;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_ok(by_read_file("topology", path, BY_TOPOLOGY_MAX_FILE, &text, &length));
  assert_ok(by_topology_parse_graphml(name, text, length, "", &topology));
  for (uint32_t i = 0; i < topology->n_links; i++) assert_true(topology->links[i].delay < 0.1);
  if (strcmp(name, "Geant2009.graphml") == 0) assert_true(topology->n_nodes == 34 && topology->n_links == 52);
  if (strcmp(name, "Kdl.graphml") == 0) assert_true(topology->n_nodes == 754 && topology->n_links == 899);
  by_topology_destroy(topology);
  for (size_t cut = 0; cut < length; cut += length / 16 + 1)
    assert_status(by_topology_parse_graphml(name, text, cut, "", &topology), BANYAN_ERR_PARSE);
  free(text);
}

static void test_zoo_files(void **state) {
  (void)state;
  char folder[DATA_PATH_BYTES];
  if (!data_path("topology-zoo", folder)) return;
  DIR *files = opendir(folder);
  size_t n = 0;
  assert_non_null(files);
  for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
    const char *end = strrchr(entry->d_name, '.');
    if (!end || strcmp(end, ".graphml") != 0) continue;
    check_file(folder, entry->d_name);
    n++;
  }
  closedir(files);
  assert_true(n > 0);
}

/* The same graph as an edge list rounds to four digits. */
static void test_zoo_as_edges(void **state) {
  (void)state;
  char path[DATA_PATH_BYTES];
  struct by_topology *graph, *edges;
  if (!data_path("edgelists/zoo-Geant2009.el", path)) return;
  assert_ok(by_topology_read(path, &edges));
  assert_ok(by_topology_read(data_path("topology-zoo/Geant2009.graphml", path), &graph));
  assert_int_equal(graph->n_links, edges->n_links);
  for (uint32_t i = 0; i < graph->n_links; i++) {
    const struct by_link *link = &graph->links[i], *same = edges->links;
    while (same->a + same->b != link->a + link->b || (same->a != link->a && same->a != link->b))
      assert_true(++same < edges->links + edges->n_links);
    assert_true(fabs(link->capacity[BY_AB].all / same->capacity[BY_AB].all - 1) < 1e-3);
    assert_true(fabs(link->delay / same->delay - 1) < 1e-3);
  }
  by_topology_destroy(graph);
  by_topology_destroy(edges);
}

/* --- topology_xml --- */

static struct by_xml parsed_xml(const char *text) {
  struct by_xml xml;
  assert_ok(by_xml_parse(&xml, "t.xml", text, strlen(text), "root", "a test"));
  return xml;
}

static void check_refused_xml(const char *text, const char *error) {
  struct by_xml xml;
  assert_status(by_xml_parse(&xml, "t.xml", text, strlen(text), "root", "a test"), BANYAN_ERR_PARSE);
  if (strncmp(banyan_error_text(), error, strlen(error)) != 0)
    fail_msg("the error is \"%s\", must begin with \"%s\"", banyan_error_text(), error);
}

static void test_library(void **state) {
  (void)state;
  struct by_xml one, other; /* The second document finds the library loaded. */
  assert_ok(by_xml_parse(&one, "t.xml", "<root/>", 7, "root", "a test"));
  assert_ok(by_xml_parse(&other, "t.xml", "<root/>", 7, "root", "a test"));
  assert_ptr_not_equal(one.doc, other.doc);
  assert_non_null(other.root);
  by_xml_fini(&one);
  by_xml_fini(&other);
}

static void test_attributes(void **state) {
  (void)state;
  struct by_xml xml = parsed_xml("<root a='1' b='' xmlns:n='urn:n' n:c='2' d='&lt;&#65;&amp;'/>");
  const char *value;
  assert_string_equal(by_xml_attribute(xml.root, "a"), "1");
  assert_string_equal(by_xml_attribute(xml.root, "b"), "");
  assert_null(by_xml_attribute(xml.root, "c")); /* The attribute belongs to another program. */
  assert_string_equal(by_xml_attribute(xml.root, "d"), "<A&");
  assert_ok(by_xml_need(&xml, xml.root, "a", &value));
  assert_status(by_xml_need(&xml, xml.root, "e", &value), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(),
                      "t.xml:1: <root a=\"1\" b=\"\">: the attribute e is missing: write e=\"...\"");
  by_xml_fini(&xml);
}

static void test_text(void **state) {
  (void)state;
  struct by_xml xml = parsed_xml("<root><a>  one<!-- and -->\n two <b>no</b><![CDATA[<three> ]]></a><c/></root>");
  struct by_arena arena;
  by_arena_init(&arena);
  const xmlNode *a = by_xml_find(xml.root->children, NULL);
  assert_true(by_xml_is(a, "a"));
  assert_string_equal(by_xml_text(&arena, a), "one\n two <three>");
  assert_string_equal(by_xml_text(&arena, by_xml_find(a->next, NULL)), "");
  assert_null(by_xml_find(by_xml_find(a->next, NULL)->next, NULL));
  by_arena_fini(&arena);
  by_xml_fini(&xml);
}

static void test_places(void **state) {
  (void)state;
  enum { LINES = 70000 }; /* The text is longer than libxml2 keeps in a node. */
  static char text[LINES + 64];
  size_t used = (size_t)snprintf(text, sizeof text, "<root>");
  memset(text + used, '\n', LINES);
  snprintf(text + used + LINES, sizeof text - used - LINES, "<a x='1&#10;'>t</a></root>");
  struct by_xml xml = parsed_xml(text);
  assert_int_equal(by_xml_line(by_xml_find(xml.root->children, NULL)), LINES + 1);
  (void)by_xml_fail(&xml, by_xml_find(xml.root->children, NULL), "bad\n%d", 5);
  assert_string_equal(banyan_error_text(), "t.xml:70001: <a x=\"1?\">: bad?5");
  by_xml_fini(&xml);
}

static void test_refused_xml(void **state) {
  (void)state;
  static const char entities[] = "t.xml: has entities of its own, or a <!DOCTYPE> that declares such things";
  check_refused_xml("", "t.xml: is empty, must be a test");
  check_refused_xml("<root>\n</a>", "t.xml:2: not well-formed XML: ");
  check_refused_xml("<other/>", "t.xml:1: <other>: not a test, whose outermost element is <root>");
  check_refused_xml("<root>&who;</root>", "t.xml:1: not well-formed XML: Entity 'who' not defined");
  check_refused_xml("<!DOCTYPE root [<!ENTITY a 'aaaaaaaaaaaaaa'>]><root>&a;</root>", entities);
  check_refused_xml("<!DOCTYPE root [<!ATTLIST a b CDATA 'long'>]><root><a/></root>", entities);
  check_refused_xml("<!DOCTYPE root SYSTEM 'file:///etc/passwd'><root>&a;</root>", entities);
}

/* --- topology nccl --- */

#define CPU(id, body)                                                                                                  \
  "<cpu numaid=\"" id                                                                                                  \
  "\" affinity=\"00ff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\">\n" body "</cpu>\n"
#define PCI(bus, class, body)                                                                                          \
  "<pci busid=\"" bus "\" class=\"" class "\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" body "</pci>\n"
#define BRIDGE(bus, body) PCI(bus, "0x060400", body)
#define GPU(bus, dev, rank, links)                                                                                     \
  PCI(bus, "0x030200", "<gpu dev=\"" dev "\" sm=\"80\" rank=\"" rank "\" gdr=\"1\">" links "</gpu>")
#define NVLINK(target, count, class) "<nvlink target=\"" target "\" count=\"" count "\" tclass=\"" class "\"/>"
#define NIC(bus, name, dev, speed)                                                                                     \
  PCI(bus, "0x020700",                                                                                                 \
      "<nic><net name=\"" name "\" dev=\"" dev "\" speed=\"" speed "\" port=\"1\" latency=\"1.5\" gdr=\"1\"/></nic>")
#define SYSTEM(body) "<system version=\"1\">\n" body "</system>\n"

static struct by_topology *parsed_nccl(const char *text) {
  struct by_topology *topology;
  assert_ok(by_topology_parse_nccl("t.xml", text, strlen(text), "", &topology));
  return topology;
}

static uint32_t number(const struct by_topology *topology, const char *name) {
  uint32_t node = by_topology_find(topology, name);
  if (node == UINT32_MAX) fail_msg("there is no node \"%s\"", name);
  return node;
}

/* Checks that the first link between two nodes carries this many Gbit/s each way. */
static void check_link(const struct by_topology *topology, const char *from, const char *to, double forth,
                       double back) {
  uint32_t a = number(topology, from), b = number(topology, to);
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    bool straight = link->a == a && link->b == b;
    if (!straight && (link->a != b || link->b != a)) continue;
    double got_forth = link->capacity[straight ? BY_AB : BY_BA].all / 1e9;
    double got_back = link->capacity[straight ? BY_BA : BY_AB].all / 1e9;
    if (fabs(got_forth - forth) > 1e-6 || fabs(got_back - back) > 1e-6)
      fail_msg("%s - %s carries %g and %g, must carry %g and %g", from, to, got_forth, got_back, forth, back);
    return;
  }
  fail_msg("there is no link between %s and %s", from, to);
}

static void test_server(void **state) {
  (void)state;
  struct by_topology *topology = parsed_nccl(
      SYSTEM(CPU("0", BRIDGE("0000:10:00.0", GPU("0000:11:00.0", "0", "1", NVLINK("0000:21:00.0", "4", "0x030200"))
                                                 NIC("0000:12:00.0", "mlx5_0", "0", "200000")))
                 CPU("1", GPU("0000:21:00.0", "1", "0", NVLINK("0000:11:00.0", "3", "0x030200")))));
  assert_int_equal(topology->n_nodes, 2 + 2 + 1 + 2);
  assert_string_equal(topology->nodes[0].name, "gpu1"); /* Its rank is 0. */
  assert_string_equal(topology->nodes[1].name, "gpu0");
  assert_true(topology->nodes[0].takes_part && topology->nodes[0].kind == BY_NODE_HOST);
  assert_true(topology->nodes[number(topology, "mlx5_0")].kind == BY_NODE_SWITCH);
  assert_int_equal(topology->n_links, 7);
  check_link(topology, "gpu0", "gpu1", 4 * 160, 3 * 160);
  check_link(topology, "cpu0", "cpu1", 80, 80);
  check_link(topology, "gpu0", "pci 0000:10:00.0", 192, 192);
  check_link(topology, "cpu1", "gpu1", 192, 192);
  check_link(topology, "nic 0000:12:00.0", "mlx5_0", 200, 200);
  for (uint32_t i = 0; i < topology->n_links; i++) {
    bool net = topology->links[i].b == number(topology, "mlx5_0");
    assert_true(fabs(topology->links[i].delay - (net ? 1.5e-6 : 0)) < 1e-12);
  }
  by_topology_destroy(topology);
}

/* Six NVSwitches become one, and a rate for one direction applies to both. */
static void test_nvswitch(void **state) {
  (void)state;
  struct by_topology *topology =
      parsed_nccl(SYSTEM(CPU("0", GPU("0000:01:00.0", "0", "0",
                                      NVLINK("0000:c1:00.0", "2", "0x068000") NVLINK("0000:c2:00.0", "2", "0x068000"))
                                      GPU("0000:02:00.0", "1", "1", NVLINK("fffffff:ffff:ff", "4", "0x068000"))
                                          GPU("0000:03:00.0", "2", "2", NVLINK("0000:99:00.0", "1", "0x030200")))));
  check_link(topology, "gpu0", "nvswitch", 4 * 160, 4 * 160);
  check_link(topology, "gpu1", "nvswitch", 4 * 160, 4 * 160);
  assert_int_equal(topology->n_links, 5); /* Links that lead out of the file are ignored. */
  by_topology_destroy(topology);
}

static void check_pci(const char *speed, const char *width, double gigabits) {
  char text[1024];
  snprintf(text, sizeof text,
           SYSTEM("<cpu numaid=\"0\"><pci busid=\"1\" class=\"0x030000\" %s %s><gpu dev=\"0\"/></pci></cpu>"), speed,
           width);
  struct by_topology *topology = parsed_nccl(text);
  check_link(topology, "gpu0", "cpu0", gigabits, gigabits);
  by_topology_destroy(topology);
}

static void test_pci_speeds(void **state) {
  (void)state;
  check_pci("link_speed=\"2.5 GT/s\"", "link_width=\"1\"", 1.5);
  check_pci("link_speed=\"5.0 GT/s PCIe\"", "link_width=\"4\"", 12);
  check_pci("link_speed=\"8 GT/s\"", "link_width=\"16\"", 96);
  check_pci("link_speed=\"32.0 GT/s PCIe\"", "link_width=\"16\"", 384);
  check_pci("link_speed=\"64.0 GT/s PCIe\"", "link_width=\"8\"", 384);
  check_pci("link_speed=\"Unknown\"", "link_width=\"0\"", 96);
  check_pci("", "link_width=\"255\"", 96);
  check_pci("", "", 96);
}

static void check_cpus(const char *attributes, double gigabytes) {
  char text[1024];
  snprintf(text, sizeof text,
           SYSTEM("<cpu numaid=\"0\" %s><pci busid=\"1\" class=\"0x03\"><gpu/></pci></cpu><cpu numaid=\"1\" %s/>"),
           attributes, attributes);
  struct by_topology *topology = parsed_nccl(text);
  check_link(topology, "cpu0", "cpu1", gigabytes * 8, gigabytes * 8);
  by_topology_destroy(topology);
}

static void test_cpu_speeds(void **state) {
  (void)state;
#define X86(vendor, family, model) "arch=\"x86_64\" vendor=\"" vendor "\" familyid=\"" family "\" modelid=\"" model "\""
  check_cpus("", 5000);
  check_cpus("arch=\"ppc64\"", 32);
  check_cpus("arch=\"arm64\"", 6);
  check_cpus(X86("GenuineIntel", "6", "79"), 6);
  check_cpus(X86("GenuineIntel", "6", "106"), 10);
  check_cpus(X86("GenuineIntel", "6", "143"), 22);
  check_cpus(X86("GenuineIntel", "6", "173"), 40);
  check_cpus(X86("GenuineIntel", "6", "207"), 40);
  check_cpus(X86("AuthenticAMD", "23", "49"), 16);
  check_cpus(X86("AuthenticAMD", "25", "1"), 24);
  check_cpus(X86("AuthenticAMD", "143", "49"), 16);
  check_cpus(X86("AuthenticAMD", "175", "49"), 24);
  check_cpus(X86("  Shanghai  ", "7", "91"), 9);
}

/* The file has two levels of one Broadcom switch, two ranks on one device, a GPU without a rank, and a link from a
 * GPU to its CPU. */
static void test_particulars(void **state) {
  (void)state;
#define BROADCOM(bus, body)                                                                                            \
  "<pci busid=\"" bus "\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xC010\" link_speed=\"16 GT/s\" "              \
  "link_width=\"16\">" body "</pci>"
  struct by_topology *topology = parsed_nccl(SYSTEM(CPU(
      "0", BROADCOM("a0", BROADCOM("a1", PCI("a2", "0x030200",
                                             "<gpu dev=\"0\" sm=\"90\" rank=\"0\"><c2c bw=\"25000\" "
                                             "count=\"10\"/></gpu><gpu dev=\"0\" sm=\"90\" rank=\"1\"/>")))
               GPU("a3", "1", "-1", "") "<nic><net name=\"eth0\" dev=\"0\" speed=\"-1\"/><net name=\"part\"/></nic>")));
  check_link(topology, "pci a0", "pci a1", 40000, 40000);
  check_link(topology, "cpu0", "pci a0", 192, 192);
  check_link(topology, "pci a1", "pci a2", 192, 192);
  check_link(topology, "pci a2", "gpu0", 40000, 40000);
  check_link(topology, "pci a2", "gpu0 (a2)", 40000, 40000);
  check_link(topology, "pci a2", "cpu0", 2000, 2000);
  check_link(topology, "nic 0 of cpu0", "eth0", 10, 10);
  assert_false(topology->nodes[number(topology, "gpu1")].takes_part);
  assert_int_equal(by_topology_find(topology, "part"), UINT32_MAX);
  by_topology_destroy(topology);
}

static void test_hosts(void **state) {
  (void)state;
#define ON_HOST(hash, rank)                                                                                            \
  "<cpu host_hash=\"" hash "\" numaid=\"0\"><pci busid=\"1\" class=\"0x030200\"><gpu dev=\"0\" rank=\"" rank           \
  "\"/></pci><pci busid=\"2\" class=\"0x020000\"><nic><net name=\"e\" dev=\"0\" speed=\"100000\"/></nic></pci></cpu>"
  struct by_topology *topology = parsed_nccl(SYSTEM(ON_HOST("0xaa", "0") ON_HOST("0xbb", "1")));
  assert_string_equal(topology->nodes[0].name, "h0/gpu0");
  assert_string_equal(topology->nodes[1].name, "h1/gpu0");
  check_link(topology, "h0/e", "network", 100, 100);
  check_link(topology, "h1/nic 2", "h1/e", 100, 100);
  by_topology_destroy(topology);
}

/* A file for NCCL may identify GPUs and NICs by their class only. */
static void test_by_class(void **state) {
  (void)state;
  struct by_topology *topology = parsed_nccl(
      SYSTEM(CPU("0", BRIDGE("ffff:ff:01.0", PCI("0001:00:00.0", "0x030200", "") PCI("0002:00:00.0", "0x030200", "")
                                                 PCI("0101:00:00.0", "0x020700", "")))));
  assert_string_equal(topology->nodes[1].name, "gpu1");
  assert_true(topology->nodes[1].takes_part);
  check_link(topology, "nic 0101:00:00.0", "pci ffff:ff:01.0", 192, 192);
  by_topology_destroy(topology);
}

static void test_amd(void **state) {
  (void)state;
  struct by_topology *topology = parsed_nccl(
      SYSTEM("<cpu numaid=\"0\"><pci busid=\"1\" class=\"0x038000\"><gpu dev=\"0\" gcn=\"gfx942\"><xgmi target=\"2\" "
             "count=\"1\" tclass=\"0x038000\"/></gpu></pci><pci busid=\"2\" class=\"0x120000\"><gpu dev=\"1\" "
             "gcn=\"910\"><xgmi target=\"1\" count=\"2\" tclass=\"0x038000\"/></gpu></pci></cpu>"));
  check_link(topology, "gpu0", "gpu1", 384, 576);
  by_topology_destroy(topology);
}

static void test_refusals_of_nccl(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "t.xml: is empty"},
      {"<system", "t.xml:1: not well-formed XML"},
      {"<graphs version=\"1\"/>", "t.xml:1: <graphs version=\"1\">: not NCCL topology XML"},
      {SYSTEM(""), "<system version=\"1\">: holds no <cpu>"},
      {SYSTEM(CPU("0", "")), "holds no GPU"},
      {SYSTEM("<cpu><pci busid=\"1\" class=\"0x03\"/></cpu>"), "t.xml:2: <cpu>: the attribute numaid is missing"},
      {SYSTEM(CPU("0", "\n<pci class=\"0x03\"/>")), "t.xml:4: <pci class=\"0x03\">: the attribute busid is missing"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "") GPU("A", "1", "1", ""))), "two devices have that busid"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "") GPU("b", "1", "0", ""))), "another GPU has the rank 0"},
      {SYSTEM(CPU("0", GPU("a", "0", "x", ""))), "rank is \"x\", must be a whole number"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "")) CPU("0", "")), "two nodes are named \"cpu0\""},
      {SYSTEM(CPU("0", GPU("a", "0", "0", NVLINK("b", "-1", "0x068000")))), "count is -1, must be 1 to 1024"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "<c2c count=\"1\"/>"))), "count is 1 and bw 0"},
      {SYSTEM("<cpu numaid=\"0\"><pci busid=\"1\" class=\"0x03\" link_width=\"-4\"/></cpu>"), "link_width is -4"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "") NIC("b", "n", "0", "99999999999999999999"))), "must be a whole number"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "") "<nic><net dev=\"0\" latency=\"-1\"/></nic>")), "latency is \"-1\""},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "") "<nic><net dev=\"0\" latency=\"1e300\"/></nic>")),
       "its delay is 1e+294 s, must be 0 to 3600 s"},
      {SYSTEM(CPU("0", GPU("a", "0", "0", "") NIC("b", "n", "0", "9000000000000000000"))),
       "its capacity from the first to the second is 9e+24 bit/s, must be 1 to 1e+18"},
      {"<!DOCTYPE system [<!ENTITY a \"aaaa\">]><system/>", "<!DOCTYPE>"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct by_topology *topology;
    assert_int_not_equal(by_topology_parse_nccl("t.xml", cases[i][0], strlen(cases[i][0]), "", &topology), BANYAN_OK);
    if (!strstr(banyan_error_text(), cases[i][1]))
      fail_msg("the error is \"%s\", must hold \"%s\"", banyan_error_text(), cases[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zoo),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_missing_speeds),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_missing_places),
      cmocka_unit_test(test_generic),
      cmocka_unit_test(test_key_defaults),
      cmocka_unit_test(test_directed),
      cmocka_unit_test(test_loops_are_left_out),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_named_type),
      cmocka_unit_test(test_huge),
      cmocka_unit_test(test_zoo_files),
      cmocka_unit_test(test_zoo_as_edges),
      cmocka_unit_test(test_library),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_refused_xml),
      cmocka_unit_test(test_server),
      cmocka_unit_test(test_nvswitch),
      cmocka_unit_test(test_pci_speeds),
      cmocka_unit_test(test_cpu_speeds),
      cmocka_unit_test(test_particulars),
      cmocka_unit_test(test_hosts),
      cmocka_unit_test(test_by_class),
      cmocka_unit_test(test_amd),
      cmocka_unit_test(test_refusals_of_nccl),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
