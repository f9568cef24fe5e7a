/* Measures how many fragments per second a switch adds on one core:
 *
 *   switch_bench [WORKERS]           default: 4; needs root
 *   switch_bench WORKERS queues      the user-space switch with one queue and with two, instead (under taskset)
 *
 * Each line is one payload size. `xdp` is the program alone, in the kernel's test runs (BPF_PROG_TEST_RUN), without
 * the time to generate the terms. `live` includes making and dropping frames, and sending sums over a veth pair to
 * a program that drops them, all on one core. `user` is the same logic as a function, without sockets. The last
 * rows are the whole user-space switch, from its sockets, where terms wait in datagrams of 44 or one by one, to the
 * server's socket: system calls and the path over a veth pair, without what happens before terms wait there. Each
 * figure is the best of several batches, taken in turns. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "data_plane.h"
#include "step.h"
#include "switch_bench_object.h"
#include "switch_sockets.h"

enum { BATCHES = 20, REPEAT = 1 << 16, SLOTS = 64, HEADERS = 14 + 20 + 8 };

static const uint8_t lines[] = {1, 16, 22, 48};

struct bench {
  struct by_plane xdp;
  unsigned in;
  uint32_t workers;
  struct by_cell cells[SLOTS];
  uint64_t sums[SLOTS][BY_CELL_PAIRS];
};

static void insist(bool well, const char *what) {
  if (well) return;
  fprintf(stderr, "switch_bench: %s: %s\n", what, banyan_error_text());
  exit(1);
}

static struct by_hop_key key;
static struct by_grant grant = {.below = 1, .above = 2, .count = SLOTS, .dtype = BY_FRAGMENT_PAIRS};
static const struct by_plane_ends ends = {.key = &key, .server.end.port = __builtin_bswap16(BY_FRAGMENT_PORT)};

static uint32_t make_frame(uint8_t *bytes, uint8_t n, uint32_t workers) {
  struct by_fragment fragment;
  by_fragment_begin(&fragment, BY_FRAGMENT_UP, 0);
  fragment.job = grant.job;
  fragment.dtype = BY_FRAGMENT_PAIRS;
  fragment.lines = n;
  insist(by_fragment_push(&fragment, 1, workers), "there may be 1 to 64 workers");
  uint16_t length = (uint16_t)(by_fragment_bytes(&fragment) + 8);
  struct ethhdr eth = {.h_proto = htons(ETH_P_IP)};
  struct iphdr ip = {
      .version = 4, .ihl = 5, .ttl = 9, .protocol = IPPROTO_UDP, .tot_len = htons((uint16_t)(length + 20))};
  struct udphdr udp = {.dest = htons(BY_FRAGMENT_PORT), .len = htons(length)};
  memcpy(bytes, &eth, sizeof eth);
  memcpy(bytes + 14, &ip, sizeof ip);
  memcpy(bytes + 34, &udp, sizeof udp);
  memcpy(bytes + HEADERS, &fragment, sizeof fragment);
  return HEADERS + by_fragment_bytes(&fragment);
}

/* Returns ns per run, by the kernel's clock. */
static double run(const struct bench *bench, const char *program, uint8_t n, bool live) {
  uint8_t frame[4096] = {0};
  uint32_t length = make_frame(frame, n, bench->workers);
  struct xdp_md context = {.data_end = length, .ingress_ifindex = bench->in};
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = length, .ctx_in = &context,
              .ctx_size_in = sizeof context, .repeat = REPEAT, .flags = live ? BPF_F_TEST_XDP_LIVE_FRAMES : 0);
  insist(bpf_prog_test_run_opts(by_xdp_program(bench->xdp.self, program), &options) == 0, "the kernel ran no test");
  return options.duration;
}

/* Runs the same terms through the same logic, without the kernel. */
static double run_here(struct bench *bench, uint8_t n) {
  static uint64_t memory[512];
  uint8_t frame[4096];
  struct by_fragment *packet = (struct by_fragment *)(void *)memory;
  struct by_cells cells = {bench->cells, bench->sums, SLOTS, NULL};
  uint32_t bytes = make_frame(frame, n, bench->workers) - HEADERS;
  memcpy(packet, frame + HEADERS, sizeof *packet);
  memset(bench->cells, 0, sizeof bench->cells); /* Otherwise all batches but the first would be stale. */
  uint64_t start = by_clock_now(&by_clock_system);
  for (uint32_t turn = 0; turn < REPEAT; turn++) {
    packet->flags = packet->hop = 0;
    packet->rank = (uint8_t)(turn % bench->workers);
    packet->workers = 1ull << packet->rank;
    packet->slot = (uint16_t)(turn / bench->workers % SLOTS);
    packet->epoch = turn / bench->workers / SLOTS;
    by_fragment_sign(packet, grant.keyed ? &key : NULL);
    insist(by_switch_step(&grant, grant.keyed ? &key : NULL, NULL, &cells, packet, bytes, 0, 0).kind <=
               BY_VERDICT_FORWARD,
           "no term");
  }
  return (double)(by_clock_now(&by_clock_system) - start) / REPEAT;
}

static double least(double a, double b) {
  return a == 0 || b < a ? b : a;
}

/* Checks that every term was merged. Otherwise something else would have been timed. */
static void check_all_merged(const struct bench *bench) {
  uint64_t merged = 0, all = 0;
  struct by_plane_counts counts;
  insist(bench->xdp.ops->count(bench->xdp.self, &counts) == BANYAN_OK, "counters");
  for (int i = 0; i < BY_EVENTS; i++) all += counts.events[i];
  for (int i = BY_EVENT_STORED; i <= BY_EVENT_COMPLETED; i++) merged += counts.events[i];
  if (merged == all) return;
  fprintf(stderr, "switch_bench: of %llu terms only %llu were merged\n", (unsigned long long)all,
          (unsigned long long)merged);
  exit(1);
}

static void time_size(struct bench *bench, uint8_t n) {
  double make = 0, xdp = 0, live = 0, user = 0;
  for (int batch = 0; batch < BATCHES; batch++) {
    make = least(make, run(bench, "by_bench_make", n, false));
    xdp = least(xdp, run(bench, "by_bench_switch", n, false));
    live = least(live, run(bench, "by_bench_switch", n, true));
    user = least(user, run_here(bench, n));
  }
  check_all_merged(bench);
  printf(
      "%s %4u B  xdp %6.1f ns (and %4.1f to make the term) %5.2f M/s   live %6.1f ns %5.2f M/s   user %6.1f ns %5.2f "
      "M/s\n",
      grant.keyed ? "MAC " : "seal", n * BY_FRAGMENT_LINE, xdp - make, make, 1e3 / (xdp - make), live, 1e3 / live, user,
      1e3 / user);
  fflush(stdout);
}

/* Replaces the wire: the other end takes frames and drops them. */
static void drop_behind(const char *interface) {
  const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_DROP},
                                  {.code = BPF_JMP | BPF_EXIT}};
  LIBBPF_OPTS(bpf_link_create_opts, native, .flags = XDP_FLAGS_DRV_MODE);
  int program = bpf_prog_load(BPF_PROG_TYPE_XDP, "drop", "Apache-2.0", code, 2, NULL);
  insist(program >= 0 && bpf_link_create(program, (int)if_nametoindex(interface), BPF_XDP, &native) >= 0,
         "no XDP program behind the port");
}

static void add_port(const struct bench *bench, uint32_t number, const char *name) {
  char command[100];
  const uint8_t neighbour[6] = {4, 0, 0, 0, 0, 1};
  snprintf(command, sizeof command, "ip link add %s mtu 3506 type veth peer name %s_far mtu 3506", name, name);
  insist(system(command) == 0, command); /* NOLINT: the command is a constant */
  snprintf(command, sizeof command, "ip link set %s up; ip link set %s_far up", name, name);
  insist(system(command) == 0, command); /* NOLINT: the command is a constant */
  insist(bench->xdp.ops->add_port(bench->xdp.self, number, name) == BANYAN_OK, "port");
  insist(bench->xdp.ops->set_neighbour(bench->xdp.self, number, 0, neighbour) == BANYAN_OK, "neighbour");
}

int main(int argc, char **argv) {
  static struct bench bench;
  struct by_plane_options options = {.cells = SLOTS};
  cpu_set_t one;
  bench.workers = argc > 1 ? (uint32_t)atoi(argv[1]) : 4; /* NOLINT: a bench's own argument */
  if (argc > 2) {
    by_bench_queues(bench.workers);
    return 0;
  }
  for (int i = 0; i < BY_MAC_WORDS; i++) key.hash[i] = 0x9e3779b97f4a7c15 * ((uint64_t)i + 1); /* any numbers do */
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  insist(sched_setaffinity(0, sizeof one, &one) == 0 && unshare(CLONE_NEWNET) == 0, "not root");
  insist(by_xdp_open(&options, by_bench_object, by_bench_object_bytes, &bench.xdp) == BANYAN_OK, "XDP");
  add_port(&bench, 0, "in");
  add_port(&bench, 1, "out");
  drop_behind("out_far");
  bench.in = if_nametoindex("in");
  for (int keyed = 0; keyed < 2; keyed++) {
    grant.keyed = keyed != 0;
    grant.job = (uint16_t)keyed; /* whose cells are free */
    insist(bench.xdp.ops->grant(bench.xdp.self, &grant, &ends) == BANYAN_OK, "grant");
    for (size_t i = 0; i < sizeof lines; i++) time_size(&bench, lines[i]);
  }
  by_plane_close(&bench.xdp);
  by_bench_sockets(bench.workers);
  return 0;
}
