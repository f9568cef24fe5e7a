#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "topology_formats.h"

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

static struct by_topology *parsed(const char *text) {
  struct by_topology *topology;
  assert_ok(by_topology_parse_nccl("t.xml", text, strlen(text), "", &topology));
  return topology;
}

static uint32_t number(const struct by_topology *topology, const char *name) {
  uint32_t node = by_topology_find(topology, name);
  if (node == UINT32_MAX) fail_msg("there is no node \"%s\"", name);
  return node;
}

/* The first link between two nodes carries so many Gbit/s there and back. */
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
  struct by_topology *topology = parsed(
      SYSTEM(CPU("0", BRIDGE("0000:10:00.0", GPU("0000:11:00.0", "0", "1", NVLINK("0000:21:00.0", "4", "0x030200"))
                                                 NIC("0000:12:00.0", "mlx5_0", "0", "200000")))
                 CPU("1", GPU("0000:21:00.0", "1", "0", NVLINK("0000:11:00.0", "3", "0x030200")))));
  assert_int_equal(topology->n_nodes, 2 + 2 + 1 + 2);
  assert_string_equal(topology->nodes[0].name, "gpu1"); /* its rank is 0 */
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

/* Six NVSwitches are one; one way only is both. */
static void test_nvswitch(void **state) {
  (void)state;
  struct by_topology *topology =
      parsed(SYSTEM(CPU("0", GPU("0000:01:00.0", "0", "0",
                                 NVLINK("0000:c1:00.0", "2", "0x068000") NVLINK("0000:c2:00.0", "2", "0x068000"))
                                 GPU("0000:02:00.0", "1", "1", NVLINK("fffffff:ffff:ff", "4", "0x068000"))
                                     GPU("0000:03:00.0", "2", "2", NVLINK("0000:99:00.0", "1", "0x030200")))));
  check_link(topology, "gpu0", "nvswitch", 4 * 160, 4 * 160);
  check_link(topology, "gpu1", "nvswitch", 4 * 160, 4 * 160);
  assert_int_equal(topology->n_links, 5); /* what leads out of the file is left out */
  by_topology_destroy(topology);
}

static void check_pci(const char *speed, const char *width, double gigabits) {
  char text[1024];
  snprintf(text, sizeof text,
           SYSTEM("<cpu numaid=\"0\"><pci busid=\"1\" class=\"0x030000\" %s %s><gpu dev=\"0\"/></pci></cpu>"), speed,
           width);
  struct by_topology *topology = parsed(text);
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
  struct by_topology *topology = parsed(text);
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

/* Two levels of one Broadcom switch, two ranks on one device, a GPU without a rank, a link of a GPU to its CPU. */
static void test_particulars(void **state) {
  (void)state;
#define BROADCOM(bus, body)                                                                                            \
  "<pci busid=\"" bus "\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xC010\" link_speed=\"16 GT/s\" "              \
  "link_width=\"16\">" body "</pci>"
  struct by_topology *topology = parsed(SYSTEM(CPU(
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
  struct by_topology *topology = parsed(SYSTEM(ON_HOST("0xaa", "0") ON_HOST("0xbb", "1")));
  assert_string_equal(topology->nodes[0].name, "h0/gpu0");
  assert_string_equal(topology->nodes[1].name, "h1/gpu0");
  check_link(topology, "h0/e", "network", 100, 100);
  check_link(topology, "h1/nic 2", "h1/e", 100, 100);
  by_topology_destroy(topology);
}

/* A file for NCCL to read may tell GPUs and NICs by their class only. */
static void test_by_class(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      SYSTEM(CPU("0", BRIDGE("ffff:ff:01.0", PCI("0001:00:00.0", "0x030200", "") PCI("0002:00:00.0", "0x030200", "")
                                                 PCI("0101:00:00.0", "0x020700", "")))));
  assert_string_equal(topology->nodes[1].name, "gpu1");
  assert_true(topology->nodes[1].takes_part);
  check_link(topology, "nic 0101:00:00.0", "pci ffff:ff:01.0", 192, 192);
  by_topology_destroy(topology);
}

static void test_amd(void **state) {
  (void)state;
  struct by_topology *topology = parsed(
      SYSTEM("<cpu numaid=\"0\"><pci busid=\"1\" class=\"0x038000\"><gpu dev=\"0\" gcn=\"gfx942\"><xgmi target=\"2\" "
             "count=\"1\" tclass=\"0x038000\"/></gpu></pci><pci busid=\"2\" class=\"0x120000\"><gpu dev=\"1\" "
             "gcn=\"910\"><xgmi target=\"1\" count=\"2\" tclass=\"0x038000\"/></gpu></pci></cpu>"));
  check_link(topology, "gpu0", "gpu1", 384, 576);
  by_topology_destroy(topology);
}

static void test_refusals(void **state) {
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
      {SYSTEM(CPU("0", GPU("a", "0", "0", NVLINK("a", "1", "0x03")))), "leads from a device to itself"},
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
  setenv("BANYAN_LOG", "error", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_server),     cmocka_unit_test(test_nvswitch),    cmocka_unit_test(test_pci_speeds),
      cmocka_unit_test(test_cpu_speeds), cmocka_unit_test(test_particulars), cmocka_unit_test(test_hosts),
      cmocka_unit_test(test_by_class),   cmocka_unit_test(test_amd),         cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("topology_nccl", tests, NULL, NULL);
}
