/* Topologies as other programs write them: units, identities of machines, ports and duplicates. Each case is a small
 * text with the network that it describes, or with the reason for which it is refused. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "text.h"
#include "topology_formats.h"

enum { TEXT = 8192 };

static void add(char *out, const char *format, ...) BY_PRINTF(2, 3);
static void add(char *out, const char *format, ...) {
  size_t used = strlen(out);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out + used, TEXT - used, format, arguments);
  va_end(arguments);
}

/* The standard error stream goes to a file for the time of one case, and what was logged there is returned. */
static char logged[TEXT];

typedef enum banyan_status reader(const char *source, const char *text, struct by_topology **out);

static enum banyan_status read_any(const char *source, const char *text, struct by_topology **out) {
  return by_topology_parse_any(source, text, strlen(text), "", out);
}

static enum banyan_status read_logged(reader *read, const char *source, const char *text, struct by_topology **out) {
  FILE *file = tmpfile();
  assert_non_null(file);
  int before = dup(STDERR_FILENO);
  assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
  enum banyan_status status = read(source, text, out);
  assert_true(dup2(before, STDERR_FILENO) >= 0);
  (void)close(before);
  rewind(file);
  logged[fread(logged, 1, sizeof logged - 1, file)] = '\0';
  (void)fclose(file);
  return status;
}

/* "a(100/50) b [s] | a-b 1g 5ms": hosts and switches, with what they send and receive if it is limited, then links with
 * their capacity each way and their delay. */
static void describe(const struct by_topology *topology, char *out) {
  char rate[2][32], delay[32];
  *out = '\0';
  for (uint32_t v = 0; v < topology->n_nodes; v++) {
    const struct by_node *node = &topology->nodes[v];
    add(out, node->kind == BY_NODE_SWITCH ? "%s[%s]" : "%s%s", v ? " " : "", node->name);
    if (isfinite(node->out.all) || isfinite(node->in.all)) add(out, "(%g/%g)", node->out.all / 1e6, node->in.all / 1e6);
  }
  add(out, " |");
  for (uint32_t l = 0; l < topology->n_links; l++) {
    const struct by_link *link = &topology->links[l];
    for (int way = 0; way < 2; way++) snprintf(rate[way], sizeof rate[way], "%g", link->capacity[way].all / 1e6);
    add(out, " %s-%s %s", topology->nodes[link->a].name, topology->nodes[link->b].name, rate[BY_AB]);
    if (strcmp(rate[BY_AB], rate[BY_BA]) != 0) add(out, "/%s", rate[BY_BA]);
    if (link->delay > 0) add(out, " %s", by_print_seconds(link->delay, delay));
  }
}

/* A case is refused if `wanted` begins with "!"; the rest is a part of the error. `log` is a part of what is logged;
 * NULL means that nothing may be. */
struct wild {
  const char *text, *wanted, *log;
};

static bool check_case(reader *read, const char *source, const struct wild *wild) {
  static char got[TEXT];
  struct by_topology *topology;
  if (read_logged(read, source, wild->text, &topology) == BANYAN_OK) {
    describe(topology, got);
    by_topology_destroy(topology);
  } else {
    snprintf(got, sizeof got, "!%s", banyan_error_text());
  }
  bool right = *wild->wanted == '!' ? *got == '!' && strstr(got, wild->wanted + 1) : strcmp(got, wild->wanted) == 0;
  bool said = wild->log ? strstr(logged, wild->log) != NULL : !*logged;
  if (!right || !said)
    print_error("%s\n got    \"%s\"\n must be \"%s\"\n logged \"%s\"\n must hold \"%s\"\n", wild->text, got,
                wild->wanted, logged, wild->log ? wild->log : "nothing");
  return right && said;
}

/* Each case has a process of its own, since warnings of one kind are limited in each. */
static void check_all(reader *read, const char *source, const struct wild *cases, size_t n) {
  int wrong = 0, status;
  for (size_t i = 0; i < n; i++) {
    pid_t child = fork();
    if (child == 0) _exit(check_case(read, source, &cases[i]) ? 0 : 1);
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    wrong += status != 0;
  }
  assert_int_equal(wrong, 0);
}

#define check_cases(read, source, cases) check_all(read, source, cases, sizeof(cases) / sizeof *(cases))

/* --- units --- */

/* Of keys and of the graph, and what the two edges of three nodes hold. */
#define KEY(attributes, inside) "<key id=\"k\" for=\"edge\" " attributes ">" inside "</key>"
#define NAMED(name) KEY("attr.name=\"" name "\"", "")
#define GRAPH_WITH(keys, attributes, first, second)                                                                    \
  "<graphml>" keys "<graph edgedefault=\"undirected\" " attributes                                                     \
  "><node id=\"a\"/><node id=\"b\"/><node id=\"c\"/><edge source=\"a\" target=\"b\">" first                            \
  "</edge><edge source=\"b\" target=\"c\">" second "</edge></graph></graphml>"
#define GRAPH(keys, first, second)                                                                                     \
  GRAPH_WITH(keys, "", "<data key=\"k\">" first "</data>", "<data key=\"k\">" second "</data>")
#define RATES(one, other) "a b c | a-b " one " b-c " other
#define DELAYS(one, other) "a b c | a-b 1000 " one " b-c 1000 " other
#define NO_SPEED "2 of 2 links have no speed"

static void test_units(void **state) {
  (void)state;
  static const struct wild cases[] = {
      {GRAPH(NAMED("capacity"), "9920", "2480"), RATES("9920", "2480"),
       "capacity has no unit; Mbit/s are assumed: a-b is 9.92 Gbit/s"},
      {GRAPH(NAMED("capacity"), "10000000000", "1000000000"), RATES("10000", "1000"), "bit/s are assumed: a-b is 10"},
      {GRAPH(NAMED("Bandwidth"), "100", "40"), RATES("100", "40"), "Bandwidth has no unit; Mbit/s are assumed"},
      {GRAPH(NAMED("capacity_mbps"), "100", "40.5"), RATES("100", "40.5"), NULL},
      {GRAPH(NAMED("capacityGbps"), "100", "40"), RATES("100000", "40000"), NULL},
      {GRAPH(NAMED("Link Speed (Gbit/s)"), "1", "2.5"), RATES("1000", "2500"), NULL},
      {GRAPH(NAMED("bandwidth_kbps"), "1e6", "64"), RATES("1000", "0.064"), NULL},
      {GRAPH(NAMED("bandwidth_MBps"), "125", "1"), RATES("1000", "8"), NULL},
      {GRAPH(NAMED("bandwidth_MBPS"), "125", "1"), RATES("125", "1"), NULL},
      {GRAPH(NAMED("speed [MiB/s]"), "1", "2"), RATES("8.38861", "16.7772"), NULL},
      {GRAPH(KEY("attr.name=\"capacity\" unit=\"Mbit/s\"", ""), "100", "2g"), RATES("100", "2000"), NULL},
      {GRAPH(KEY("attr.name=\"capacity\" attr.units=\"gigabits per second\"", ""), "1", "2"), RATES("1000", "2000"),
       NULL},
      {GRAPH(KEY("attr.name=\"capacity\"", "<desc>The capacity, in Gbit/s.</desc>"), "1", "2"), RATES("1000", "2000"),
       NULL},
      {GRAPH(NAMED("capacity"), "10 Gbps", "100 Mbit/s"), RATES("10000", "100"), NULL},
      {GRAPH(NAMED("capacity"), "10G", "100"), RATES("10000", "100"), "Mbit/s are assumed: b-c is 100 Mbit/s"},
      {GRAPH_WITH(NAMED("capacity"), "unit=\"Gbps\"", "<data key=\"k\">1</data>", "<data key=\"k\">2</data>"),
       RATES("1000", "2000"), NULL},
      {GRAPH_WITH(NAMED("LinkSpeed") "<key id=\"u\" for=\"edge\" attr.name=\"LinkSpeedUnits\"/>", "",
                  "<data key=\"k\">2.5</data><data key=\"u\">G</data>",
                  "<data key=\"k\">155</data><data key=\"u\">M</data>"),
       RATES("2500", "155"), NULL},
      {GRAPH_WITH(NAMED("LinkSpeedRaw") "<key id=\"u\" for=\"edge\" attr.name=\"LinkSpeedUnits\"/>", "",
                  "<data key=\"k\">2500000000.0</data><data key=\"u\">G</data>", "<data key=\"k\">1e6</data>"),
       RATES("2500", "1"), NULL},
      {GRAPH_WITH(NAMED("capacity") "<key id=\"u\" for=\"graph\" attr.name=\"units\"/>", "", "<data key=\"k\">1</data>",
                  "<data key=\"k\" unit=\"kbit/s\">1</data></edge><edge source=\"a\" target=\"a\">"),
       RATES("1", "0.001"), "a node to itself"},
      {GRAPH(NAMED("latency"), "5.0", "50"), DELAYS("5 ms", "50 ms"),
       "latency has no unit; ms are assumed: a-b has 5 ms"},
      {GRAPH(NAMED("latency_us"), "5", "0.5"), DELAYS("5 us", "500 ns"), NO_SPEED},
      {GRAPH(NAMED("delay (s)"), "0.02", "1e-3"), DELAYS("20 ms", "1 ms"), NO_SPEED},
      {GRAPH(KEY("attr.name=\"delay\" units=\"microseconds\"", ""), "20", "1 ms"), DELAYS("20 us", "1 ms"), NO_SPEED},
      {GRAPH(NAMED("delay"), "20ms", "7 \xc2\xb5s"), DELAYS("20 ms", "7 us"), NO_SPEED},
      {GRAPH(NAMED("capacity"), "fast", "1"), "!its capacity: \"fast\" is not a rate", NULL},
      {GRAPH(NAMED("capacity"), "10 Erlang", "1"), "!its capacity: \"10 Erlang\" is not a rate", NULL},
      {GRAPH(NAMED("capacity"), "10,000", "1"), "!its capacity: \"10,000\" is not a rate", NULL},
      {GRAPH(KEY("attr.name=\"capacity\" unit=\"furlongs\"", ""), "1", "2"), "!the unit \"furlongs\" is not known",
       NULL},
      {GRAPH(KEY("attr.name=\"capacity_mbps\" unit=\"Gbps\"", ""), "1", "2"),
       "!its name and its unit \"Gbps\" contradict each other", NULL},
      {GRAPH_WITH(NAMED("bandwidth") "<key id=\"u\" for=\"edge\" attr.name=\"bandwidth_unit\"/>", "",
                  "<data key=\"k\">1</data><data key=\"u\">Erlang</data>", "<data key=\"k\">1</data>"),
       "!the unit declared for its capacity is not known", NULL},
      {GRAPH(NAMED("loss"), "1%", "150%"), "!its loss is 1.5, must be 0 to 1", NULL},
      {GRAPH(NAMED("delay_ms"), "-1", "2"), "!its delay: \"-1\" is not a time", NULL},
  };
  check_cases(read_any, "t.graphml", cases);
}

/* Of nodes with the keys "o" and "i", and one edge of 1000 Mbit/s. */
#define NODE_KEY(id, name) "<key id=\"" id "\" for=\"node\" attr.name=\"" name "\"/>"
#define TWO_NODES(keys, first, second)                                                                                 \
  "<graphml>" NAMED("capacity_mbps") keys "<graph edgedefault=\"undirected\"><node id=\"a\">" first                    \
                                          "</node><node id=\"b\">" second                                              \
                                          "</node><edge source=\"a\" target=\"b\"><data key=\"k\">1000</data></edge>"  \
                                          "</graph></graphml>"
#define UP(text) "<data key=\"o\">" text "</data>"
#define DOWN(text) "<data key=\"i\">" text "</data>"

static void test_capacities_of_nodes(void **state) {
  (void)state;
#define SHADOW_1 NODE_KEY("o", "bandwidthup") NODE_KEY("i", "bandwidthdown")
#define SHADOW_2 NODE_KEY("o", "host_bandwidth_up") NODE_KEY("i", "host_bandwidth_down")
  static const struct wild cases[] = {
      {TWO_NODES(SHADOW_1, UP("1000") DOWN("2000"), UP("125")), "a(8.192/16.384) b(1.024/inf) | a-b 1000", NULL},
      {TWO_NODES(SHADOW_1, UP("10 Mbit"), ""), "a(10/inf) b | a-b 1000", NULL},
      {TWO_NODES(SHADOW_2, UP("100 Mbit") DOWN("1 Gbit"), ""), "a(100/1000) b | a-b 1000", NULL},
      {TWO_NODES(SHADOW_2, UP("100"), DOWN("40")), "a(100/inf) b(inf/40) | a-b 1000",
       "host_bandwidth_up has no unit; Mbit/s are assumed: node a has 100 Mbit/s"},
      {TWO_NODES(SHADOW_2, UP("1 Gbit") DOWN("40"), ""), "a(1000/40) b | a-b 1000",
       "host_bandwidth_down has no unit; Mbit/s are assumed: node a has 40 Mbit/s"},
      {TWO_NODES(SHADOW_2, UP("100000000"), DOWN("40000000")), "a(100/inf) b(inf/40) | a-b 1000",
       "; bit/s are assumed"},
      {TWO_NODES(NODE_KEY("o", "capacity_gbps"), UP("1"), ""), "a(1000/1000) b | a-b 1000", NULL},
      {TWO_NODES(NODE_KEY("o", "capacity"), UP("0"), ""), "!its capacity is 0, must be more than 0", NULL},
      {TWO_NODES(SHADOW_1, UP("much"), ""), "!its capacity: \"much\" is not a rate", NULL},
  };
  check_cases(read_any, "t.graphml", cases);
}

/* --- machines, by LLDP --- */

/* Texts of LLDP are written short here: "file: port>name=id/port@mau ..." is a file whose machine receives these
 * neighbors, one for each ">"; a "*" behind the name of a neighbor says that it bridges, and "id:" that the file begins
 * with the chassis of its machine. */
static void write_chassis(char *out, const char *name, const char *id) {
  bool bridges = strchr(name, '*') != NULL;
  add(out, "\"chassis\": [{");
  if (*id) add(out, "\"id\": [{\"type\": \"%s\", \"value\": \"%s\"}], ", strchr(id, ':') ? "mac" : "local", id);
  add(out, "\"name\": [{\"value\": \"%.*s\"}], \"capability\": [{\"type\": \"Bridge\", \"enabled\": %s}]}]",
      (int)strcspn(name, "*"), name, bridges ? "true" : "false");
}

static void write_neighbor(char *out, const char *word, bool first) {
  char port[32] = "", name[64] = "", id[32] = "", far[32] = "", rate[32] = "1000BaseTFD";
  int n = sscanf(word, "%31[^>]>%63[^=/@]", port, name);
  assert_int_equal(n, 2);
  const char *equals = strchr(word, '='), *slash = strchr(word, '/'), *at = strchr(word, '@');
  if (equals) (void)sscanf(equals, "=%31[^/@]", id);
  if (slash) (void)sscanf(slash, "/%31[^@]", far);
  if (at) snprintf(rate, sizeof rate, "%s", at + 1);
  add(out, "%s{\"name\": \"%s\", \"via\": \"LLDP\", ", first ? "" : ", ", port);
  write_chassis(out, name, id);
  add(out, ", \"port\": [{\"id\": [{\"type\": \"ifname\", \"value\": \"%s\"}]", far);
  add(out, ", \"auto-negotiation\": [{\"current\": [{\"value\": \"%s\"}]}]", rate);
  add(out, "}]}");
}

enum { MOST_FILES = 8 };

/* Reads a case's files, which ";" separates. */
static enum banyan_status read_files(const char *unused, const char *text, struct by_topology **out) {
  static char texts[MOST_FILES][TEXT];
  struct by_lldp_file files[MOST_FILES];
  char copy[TEXT], sources[MOST_FILES][64], *kept = NULL, *inner;
  size_t n = 0;
  (void)unused;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *file = strtok_r(copy, ";", &kept); file; file = strtok_r(NULL, ";", &kept), n++) {
    char *word = strtok_r(file, " ", &inner);
    assert_true(n < MOST_FILES && word);
    char *id = strchr(word, '=');
    *texts[n] = '\0';
    if (id) {
      *id++ = '\0';
      add(texts[n], "{\"local-chassis\": [{");
      write_chassis(texts[n], word, id);
      add(texts[n], "}]}");
    }
    snprintf(sources[n], sizeof sources[n], "%.*s.json", (int)strcspn(word, "*"), word);
    add(texts[n], "{\"lldp\": [{\"interface\": [");
    for (bool first = true; (word = strtok_r(NULL, " ", &inner)); first = false) write_neighbor(texts[n], word, first);
    add(texts[n], "]}]}");
    files[n] = (struct by_lldp_file){sources[n], texts[n], strlen(texts[n])};
  }
  return by_topology_parse_lldp(files, n, "", out);
}

static void test_identities(void **state) {
  (void)state;
  static const struct wild cases[] = {
      /* The chassis id comes before the name. */
      {"sw*=0:9 1>ubuntu=0:1 2>ubuntu=0:2",
       "[sw] ubuntu (0:1) ubuntu (0:2) | sw-ubuntu (0:1) 1000 sw-ubuntu (0:2) 1000",
       "the machines named \"ubuntu\" have different chassis ids, 0:1 in sw.json"},
      {"sw*=0:9 1>a=0:1/e0;a e0>sw*=0:9/1;b=0:2 e0>sw*=0:9/2", "[sw] a b | sw-a 1000 b-sw 1000", NULL},
      {"sw*=0:9 1>a=0:1/e0 2>B=0:2/e0;A=0:1 e0>SW*=0:9/1;b=0:2 e0>Sw*=0:9/2", "[sw] a B | sw-a 1000 sw-B 1000", NULL},
      {"a=0:1 e0>sw*=0:9/1;a.x=0:2 e0>sw*=0:9/2", "a [sw] a.x | a-sw 1000 a.x-sw 1000", NULL},
      {"a=0:1 e0>b=0:2/e0;b=0:2 e0>old=0:1/e0", "a b | a-b 1000",
       "the chassis 0:1 is named \"a\" in a.json and \"old\" in b.json"},
      /* Names of files are matched without case and by their first label. */
      {"leaf.dc.net e0>a=0:1 e1>b=0:2;a e0>leaf*=0:9/e0;b e0>leaf*=0:9/e1", "[leaf] a b | leaf-a 1000 leaf-b 1000",
       NULL},
      {"leaf e0>a=0:1 e1>b=0:2;a e0>leaf.dc.net*=0:9/e0;b e0>leaf.dc.net*=0:9/e1",
       "[leaf.dc.net] a b | leaf.dc.net-a 1000 leaf.dc.net-b 1000", NULL},
      {"LEAF e0>A=0:1 e1>B=0:2;a e0>Leaf*=0:9/e0;b e0>leaf*=0:9/e1", "[Leaf] A B | Leaf-A 1000 Leaf-B 1000", NULL},
      {"A.x.org e0>b.x.org=0:2/e0;b e0>a.X.ORG=0:1/e0", "a.X.ORG b.x.org | a.X.ORG-b.x.org 1000", NULL},
      {"a.x e0>s*=0:9/1;a.y e0>s*=0:9/2", "a.x [s] a.y | a.x-s 1000 a.y-s 1000", NULL},
      {"a e0>s*=0:9/1;s e0>a.x=0:1/e9 e1>a.y=0:2/e9", "!\"a\" may be several machines", NULL},
      {"a e0>s*=0:9/e0;s e0>a.x=0:1/e0 e1>a.y=0:2/e0", "a.x [s] a.y | a.x-s 1000 s-a.y 1000", NULL},
      /* Three hosts are named ubuntu, and their files as somebody liked: they are known by where their ports lead. */
      {"one e0>s*=0:9/1;two e0>s*=0:9/2;s 1>ubuntu=0:1/e0 2>ubuntu=0:2/e0",
       "ubuntu (0:1) [s] ubuntu (0:2) | ubuntu (0:1)-s 1000 s-ubuntu (0:2) 1000", "the machines named \"ubuntu\""},
      {"ubuntu e0>s*=0:9/2;s 1>ubuntu=0:1/e0 2>ubuntu=0:2/e0",
       "ubuntu (0:2) [s] ubuntu (0:1) | ubuntu (0:2)-s 1000 s-ubuntu (0:1) 1000", "the machines named \"ubuntu\""},
      /* Without ids that are unique worldwide names decide. */
      {"a e0>s*=s/1;b e0>s*=s/2;s 1>a=a/e0 2>b=b/e0", "a [s] b | a-s 1000 s-b 1000", NULL},
      {"a e0>S*/1;b e0>s.x*/2", "a [s.x] b | a-s.x 1000 b-s.x 1000", NULL},
      {"s 1>a=0:1/e0 1>a=a/e0 2>b=0:2/e0 2>b.x=b.x/e0", "s a b | s-a 1000 s-b 1000", NULL},
      {"s 1>a=0:1/e0 2>a=0:2/e0 2>a=a/e0", "!\"a\" may be several machines, such as \"a\" of s.json, chassis id 0:1",
       "the machines named \"a\""},
      {"a=0:1 e0>0a=0:A;b=0:2 e0>0A=0:a", "a 0a b | a-0a 1000 b-0a 1000", NULL},
      {"local e0>s*=0:9/1;localhost e0>s*=0:9/2", "local [s] localhost | local-s 1000 localhost-s 1000", NULL},
      {"n1 e0>sw1*=0:9/1;n2 e0>sw2*=0:9/2;sw 1>n1=0:1/e0 2>n2=0:2/e0", "n1 [sw1] n2 | n1-sw1 1000 sw1-n2 1000",
       "\"sw1\" in n1.json and \"sw2\" in n2.json"},
  };
  check_cases(read_files, "", cases);
}

/* --- ports --- */

static void test_ports(void **state) {
  (void)state;
  static const struct wild cases[] = {
      /* An unmanaged switch is between machines of which one port receives several. */
      {"a e>b=0:2/e e>c=0:3/e;b e>a=0:1/e e>c=0:3/e;c e>a=0:1/e e>b=0:2/e",
       "a b c [unknown-switch-1] | a-unknown-switch-1 1000 c-unknown-switch-1 1000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      {"a e>b=0:2/e e>c=0:3/e",
       "a b c [unknown-switch-1] | a-unknown-switch-1 1000 c-unknown-switch-1 1000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      {"a e>b=0:2/e e>c=0:3/e@10GigBaseSR;b e>a=0:1/e@10GigBaseSR e>c=0:3/e@10GigBaseSR",
       "a b c [unknown-switch-1] | a-unknown-switch-1 10000 c-unknown-switch-1 10000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      {"a e>b=0:2/e@? e>c=0:3/e@?",
       "a b c [unknown-switch-1] | a-unknown-switch-1 1000 c-unknown-switch-1 1000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      {"a e>b=0:2/e e>c=0:3/e@?",
       "a b c [unknown-switch-1] | a-unknown-switch-1 1000 c-unknown-switch-1 1000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      /* Two such switches, and a host at both. */
      {"a e>b=0:2/e e>c=0:3/e f>d=0:4/e f>g=0:5/e",
       "a b c d g [unknown-switch-1] [unknown-switch-2] | a-unknown-switch-1 1000 c-unknown-switch-1 1000 "
       "b-unknown-switch-1 1000 a-unknown-switch-2 1000 g-unknown-switch-2 1000 d-unknown-switch-2 1000",
       "2 such switches are assumed in all"},
      /* It hangs at a switch that speaks. */
      {"s 1>a=0:1/e 1>b=0:2/e 2>c=0:3/e;a e>s*=0:9/1@10GigBaseSR e>b=0:2/e",
       "[s] a b c [unknown-switch-1] | s-unknown-switch-1 10000 b-unknown-switch-1 1000 a-unknown-switch-1 1000 s-c "
       "1000",
       "does not speak LLDP"},
      {"a=0:1 e>s*=0:9/1;b=0:2 e>s*=0:9/1;c=0:3 e>s*=0:9/2",
       "a [s] b c [unknown-switch-1] | a-unknown-switch-1 1000 s-unknown-switch-1 1000 b-unknown-switch-1 1000 c-s "
       "1000",
       "does not speak LLDP"},
      /* One machine with two ports there. */
      {"a=0:1 e>b=0:2/e e>b=0:2/f;b=0:2 e>a=0:1/e f>a=0:1/e",
       "a b [unknown-switch-1] | a-unknown-switch-1 1000 b-unknown-switch-1 1000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      /* A host that runs containers does not become a switch by it. */
      {"a=0:1 e>b=0:2/e e>c=0:3/e;b=0:2 e>a*=0:1/e;c=0:3 e>a*=0:1/e",
       "a b c [unknown-switch-1] | a-unknown-switch-1 1000 c-unknown-switch-1 1000 b-unknown-switch-1 1000",
       "does not speak LLDP"},
      {"s=0:9 1>a=0:1/e@? 2>b=0:2/e@?;a=0:1 e>s*=0:9/1@?;b=0:2 e>s*=0:9/2@?", "[s] a b | s-a 1000 s-b 1000",
       "no end reports the speed of 2 of 2"},
      /* The slower end of a cable counts. */
      {"a=0:1 e>b=0:2/e;b=0:2 e>a=0:1/e@10GigBaseSR", "a b | a-b 1000", NULL},
      {"a=0:1 e>b=0:2/e@10GigBaseSR;b=0:2 e>a=0:1/e@?", "a b | a-b 10000", NULL},
      {"a=0:1 e>b=0:2/e@2p5GigT", "a b | a-b 2500", NULL},
      /* Two cables are two links, and each has its rate. */
      {"a=0:1 e>b=0:2/x f>b=0:2/y@10GigBaseSR;b=0:2 x>a=0:1/e y>a=0:1/f@10GigBaseSR", "a b | a-b 1000 a-b 10000", NULL},
      {"a=0:1 e>b=0:2/y f>b=0:2/x@10GigBaseSR;b=0:2 x>a=0:1/f@10GigBaseSR y>a=0:1/e", "a b | a-b 1000 a-b 10000", NULL},
      {"a=0:1 e>b=0:2 f>b=0:2;b=0:2 x>a=0:1 y>a=0:1", "a b | a-b 1000 a-b 1000", NULL},
      {"a=0:1 e>s*=0:9/p@10GigBaseSR f>s*=0:9/p@10GigBaseSR",
       "a [s] [unknown-switch-1] | a-unknown-switch-1 10000 s-unknown-switch-1 10000 a-unknown-switch-1 10000",
       "does not speak LLDP"},
      {"a=0:1 e>s*=0:9@10GigBaseSR f>s*=0:9@10GigBaseSR", "a [s] | a-s 10000 a-s 10000", NULL},
      /* A name that is taken. */
      {"a=0:1 e>b=0:2/e e>unknown-switch-1=0:3/e",
       "a b unknown-switch-1 [unknown-switch-2] | a-unknown-switch-2 1000 unknown-switch-1-unknown-switch-2 1000 "
       "b-unknown-switch-2 1000",
       "named unknown-switch-2"},
      {"a=0:1 e>a=0:1/f f>a=0:1/e", "!no machine there received a neighbor", NULL},
  };
  check_cases(read_files, "", cases);
}

/* --- what is there twice --- */

static void test_duplicates(void **state) {
  (void)state;
  static const struct wild neighbors[] = {
      {"a=0:1 e>b=0:2/x;b=0:2 x>a=0:1/e", "a b | a-b 1000", NULL},
      {"a=0:1 e>b=0:2/x e>b=0:2/x", "a b | a-b 1000", NULL},
      {"a=0:1 e>b=0:2/x e>b=b;b=0:2 x>a=0:1/e x>a=a", "a b | a-b 1000", NULL},
      {"a=0:1 e>b=0:2/x;a=0:1 e>b=0:2/x", "a b | a-b 1000", NULL},
  };
  static const struct wild edges[] = {
      {"4 8\n0 1 10 1\n1 0 10 1\n1 2 10 1\n2 1 10 1\n2 3 10 1\n3 2 10 1\n3 0 10 1\n0 3 10 1\n",
       "0 1 2 3 | 0-1 10000 1 ms 0-3 10000 1 ms 1-2 10000 1 ms 2-3 10000 1 ms",
       "each two lines are taken as one link, 4 in all"},
      {"2 2\n0 1 10 1\n1 0 4 3\n", "0 1 | 0-1 10000/4000 2 ms", "1 in all"},
      {"2 4\n0 1 1\n1 0 2\n0 1 3\n1 0 4\n", "0 1 | 0-1 1000/2000 0-1 3000/4000", "2 in all"},
      {"2 2\n0 1 1\n0 1 1\n", "0 1 | 0-1 1000 0-1 1000", NULL},
      {"2 3\n0 1 1\n0 1 1\n1 0 1\n", "0 1 | 0-1 1000 0-1 1000 1-0 1000",
       "1 links are there in both directions, but not all"},
      {"3 3\n0 1 1\n1 2 1\n2 1 1\n", "0 1 2 | 0-1 1000 1-2 1000 2-1 1000",
       "1 links are there in both directions, but not all"},
      {"3 2\n1 0 1\n1 2 1\n", "0 1 2 | 1-0 1000 1-2 1000", NULL},
      {"1 0\n", "0 |", NULL},
      {"2 2\n0 1 10\n1 1 10\n", "!leads from node 1 to itself", NULL},
  };
#define UNDIRECTED "<graphml><key id=\"k\" for=\"edge\" attr.name=\"capacity_mbps\"/><graph edgedefault=\"undirected\">"
#define DIRECTED "<graphml><key id=\"k\" for=\"edge\" attr.name=\"capacity_mbps\"/><graph edgedefault=\"directed\">"
#define NODES "<node id=\"a\"/><node id=\"b\"/>"
#define EDGE(from, to, rate) "<edge source=\"" from "\" target=\"" to "\"><data key=\"k\">" rate "</data></edge>"
#define END "</graph></graphml>"
  static const struct wild graphs[] = {
      {UNDIRECTED NODES EDGE("a", "b", "5") EDGE("b", "a", "5") END, "a b | a-b 5 b-a 5", NULL},
      {DIRECTED NODES EDGE("a", "b", "5") EDGE("b", "a", "7") END, "a b | a-b 5/7", NULL},
      {DIRECTED NODES EDGE("a", "b", "5") EDGE("a", "b", "7") END, "a b | a-b 5 a-b 7",
       "2 directed edges lead one way only"},
      {UNDIRECTED NODES "<node id=\"b\"/>" END, "!another node has that id", NULL},
  };
#define GPU(bus, dev, links)                                                                                           \
  "<pci busid=\"" bus "\" class=\"0x030200\"><gpu dev=\"" dev "\" sm=\"80\">" links "</gpu></pci>"
#define LINK(bus) "<nvlink target=\"" bus "\" count=\"12\"/>"
#define CLASS(bus, class) "<nvlink target=\"" bus "\" count=\"12\" tclass=\"" class "\"/>"
#define SYSTEM(body) "<system><cpu numaid=\"0\">" body "</cpu></system>"
  static const struct wild servers[] = {
      {SYSTEM(GPU("0:1:0.0", "0", LINK("0:2:0.0")) GPU("0:2:0.0", "1", LINK("0:1:0.0"))),
       "gpu0 gpu1 [cpu0] | cpu0-gpu0 96000 cpu0-gpu1 96000 gpu0-gpu1 1.92e+06", NULL},
      {SYSTEM(GPU("0000:01:00.0", "0", LINK("00000000:02:00.0")) GPU("0000:02:00.0", "1", "")),
       "gpu0 gpu1 [cpu0] | cpu0-gpu0 96000 cpu0-gpu1 96000 gpu0-gpu1 1.92e+06", NULL},
      {SYSTEM(GPU("1:0:0.0", "0", CLASS("1:0:0.0", "0x030200")) GPU("2:0:0.0", "1", CLASS("2:0:0.0", "0x030200"))),
       "gpu0 gpu1 [cpu0] [nvswitch] | cpu0-gpu0 96000 cpu0-gpu1 96000 gpu0-nvswitch 1.92e+06 gpu1-nvswitch 1.92e+06",
       NULL},
      {SYSTEM(GPU("1:0:0.0", "0", CLASS("ffff:0:0.0", "0x068000"))
                  GPU("2:0:0.0", "1", CLASS("ffff:0:0.0", "0x068000"))),
       "gpu0 gpu1 [cpu0] [nvswitch] | cpu0-gpu0 96000 cpu0-gpu1 96000 gpu0-nvswitch 1.92e+06 gpu1-nvswitch 1.92e+06",
       NULL},
      {SYSTEM(GPU("1:0:0.0", "0", LINK("9:0:0.0")) GPU("2:0:0.0", "1", LINK("9:0:0.0"))),
       "gpu0 gpu1 [cpu0] [nvswitch] | cpu0-gpu0 96000 cpu0-gpu1 96000 gpu0-nvswitch 1.92e+06 gpu1-nvswitch 1.92e+06",
       NULL},
      {SYSTEM(GPU("1:0:0.0", "0", LINK("9:0:0.0")) GPU("2:0:0.0", "1", LINK("8:0:0.0"))),
       "gpu0 gpu1 [cpu0] | cpu0-gpu0 96000 cpu0-gpu1 96000", NULL},
      {SYSTEM(GPU("1:0:0.0", "0", LINK("9:0:0.0")) "<pci busid=\"9:0:0.0\" class=\"0x068000\"/>"),
       "gpu0 [cpu0] [pci 9:0:0.0] [nvswitch] | cpu0-gpu0 96000 cpu0-pci 9:0:0.0 96000 gpu0-nvswitch 1.92e+06", NULL},
      {SYSTEM(GPU("1:0:0.0", "0", "") GPU("1:0:0.0", "1", "")), "!two devices have that busid", NULL},
      {SYSTEM("<pci busid=\"0:1b:0.0\"/><pci busid=\"0:1c:0.0\"/>"), "!2 of 2 <pci> have no class", NULL},
      {SYSTEM("<pci busid=\"0:1b:0.0\" class=\"0x020000\"/>"), "!holds no GPU", NULL},
  };
  check_cases(read_files, "", neighbors);
  check_cases(read_any, "t.el", edges);
  check_cases(read_any, "t.graphml", graphs);
  check_cases(read_any, "t.xml", servers);
}

int main(void) {
  setenv("BANYAN_LOG", "warn", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_units), cmocka_unit_test(test_capacities_of_nodes), cmocka_unit_test(test_identities),
      cmocka_unit_test(test_ports), cmocka_unit_test(test_duplicates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
