/* The XDP switch between interfaces. Workers send terms, and one sum comes out. The server sends one result, and a copy
 * for each worker comes out. The switch ends with its process. The test is skipped where XDP programs do not load. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "data_plane.h"
#include "xdp_frames.h"

enum { PORTS = 3, SERVER = 2, WORKERS = 3, TIMEOUT = 20000 };

struct wire {
  struct by_plane xdp;
  int sockets[PORTS]; /* sockets at the far ends */
};

static bool six; /* packets are of IPv6 */

/* Workers 0 and 1 are behind port 0, worker 2 is behind port 1. The addresses are fd00::a00:1 and so on; of IPv4, they
 * are 10.0.0.1 and so on. */
static struct by_switch_target targets[WORKERS] = {
    {.port = 0, .address = {{{0xfd, [12] = 10, [15] = 1}}}, .udp_port = 0x1111, .hardware = {4, 0, 0, 0, 0, 1}},
    {.port = 0, .address = {{{0xfd, [12] = 10, [15] = 2}}}, .udp_port = 0x2222, .hardware = {4, 0, 0, 0, 0, 2}},
    {.port = 1, .address = {{{0xfd, [12] = 10, [15] = 3}}}, .udp_port = 0x3333, .hardware = {4, 0, 0, 0, 0, 3}},
};
static const struct by_grant grant = {
    .below = 3, .above = 4, .count = 4, .job = 7, .key = 1, .group = 9, .dtype = BY_FRAGMENT_PAIRS};

static const struct by_plane_ends ends = {.server.end.port = __builtin_bswap16(BY_FRAGMENT_PORT)};

static bool make_xdp(struct by_plane *xdp) {
  struct by_plane_options options = {.cells = 4};
  enum banyan_status status = by_xdp_open(&options, by_xdp_object, by_xdp_object_bytes, xdp);
  if (status == BANYAN_ERR_UNSUPPORTED) print_message("skipped: %s\n", banyan_error_text());
  if (status == BANYAN_ERR_UNSUPPORTED) return false;
  assert_ok(status);
  return true;
}

/* Without a program there, a veth drops what XDP sends to it. */
static void let_pass(const char *interface) {
  const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS},
                                  {.code = BPF_JMP | BPF_EXIT}};
  struct bpf_link_create_opts native = {.sz = sizeof native, .flags = XDP_FLAGS_DRV_MODE};
  int program = bpf_prog_load(BPF_PROG_TYPE_XDP, "pass", "Apache-2.0", code, 2, NULL);
  assert_true(program >= 0);
  assert_true(bpf_link_create(program, (int)if_nametoindex(interface), BPF_XDP, &native) >= 0);
}

static int listen_at(const char *interface) {
  struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                .sll_protocol = htons(six ? ETH_P_IPV6 : ETH_P_IP),
                                .sll_ifindex = (int)if_nametoindex(interface)};
  int fd = socket(AF_PACKET, SOCK_RAW, htons(six ? ETH_P_IPV6 : ETH_P_IP));
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

static void open_port(struct wire *wire, uint32_t number) {
  char near[8], far[8];
  const uint8_t server[6] = {4, 0, 0, 0, 0, 9};
  snprintf(near, sizeof near, "p%u", number);
  snprintf(far, sizeof far, "q%u", number);
  assert_true(make_pair(number));
  let_pass(far);
  wire->sockets[number] = listen_at(far);
  assert_ok(wire->xdp.ops->add_port(wire->xdp.self, number, near));
  assert_ok(by_xdp_attach(wire->xdp.self, number));
  if (number == SERVER) assert_ok(wire->xdp.ops->set_neighbour(wire->xdp.self, number, NULL, server));
}

static void send_at(const struct wire *wire, uint32_t port, struct packet *packet) {
  struct frame frame;
  by_fragment_seal(&packet->head);
  wrap(&frame, six, packet, by_fragment_bytes(&packet->head), by_fragment_bytes(&packet->head));
  assert_int_equal(send(wire->sockets[port], frame.bytes, frame.length, 0), frame.length);
}

/* Receives the next frame of UDP that comes out at this port, except for frames that were sent into it. */
static bool receive_at(const struct wire *wire, uint32_t port, struct frame *frame, int timeout) {
  struct sockaddr_ll from = {0};
  struct pollfd ready = {.fd = wire->sockets[port], .events = POLLIN};
  for (;;) {
    socklen_t length = sizeof from;
    if (poll(&ready, 1, timeout) != 1) return false;
    ssize_t n = recvfrom(ready.fd, frame->bytes, sizeof frame->bytes, 0, (struct sockaddr *)&from, &length);
    frame->length = n > 0 ? (uint32_t)n : 0;
    frame->six = six;
    bool is_udp = frame->bytes[six ? 14 + 6 : 14 + 9] == IPPROTO_UDP;
    if (from.sll_pkttype != PACKET_OUTGOING && is_udp) return n > 0;
  }
}

static void fragment_in(const struct frame *frame, struct packet *packet) {
  uint32_t at = fragment_at(frame);
  memcpy(packet, frame->bytes + at, frame->length - at);
  assert_int_equal(by_fragment_check(&packet->head, frame->length - at), BY_FRAGMENT_SOUND);
}

static void send_term(const struct wire *wire, uint16_t rank) {
  struct packet packet;
  by_fragment_begin(&packet.head, BY_FRAGMENT_UP, rank);
  packet.head.job = grant.job;
  packet.head.key = grant.key;
  packet.head.epoch = 5;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.lines = 16;
  assert_true(by_fragment_push(&packet.head, SERVER, WORKERS));
  fill_terms(&packet, 1ull << rank);
  send_at(wire, targets[rank].port, &packet);
}

/* Checks that one sum of all terms comes to the server, and turns it into the result for all workers. */
static void expect_sum(const struct wire *wire, struct packet *result) {
  struct frame frame;
  assert_true(receive_at(wire, SERVER, &frame, TIMEOUT));
  assert_memory_equal(frame.bytes, "\4\0\0\0\0\11\2\0\0\0\0\2", 12);
  fragment_in(&frame, result);
  assert_int_equal(result->head.workers, 7);
  assert_true(holds_its_terms(result));
  assert_false(receive_at(wire, SERVER, &frame, 0));
  result->head.type = BY_FRAGMENT_RESULT_MC;
  result->head.flags = result->head.hops = result->head.hop = 0;
}

static uint16_t ip_sum(const uint8_t *ip) {
  uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += (uint32_t)ip[i] << 8 | ip[i + 1];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)sum;
}

/* Checks that a copy is addressed to this worker and otherwise equals what the server sent. */
static void expect_copy(const struct wire *wire, uint32_t rank, struct packet *result) {
  struct frame frame;
  struct packet copy;
  assert_true(receive_at(wire, targets[rank].port, &frame, TIMEOUT));
  assert_memory_equal(frame.bytes, targets[rank].hardware, 6);
  if (six)
    assert_memory_equal(frame.bytes + 14 + 24, &targets[rank].address, 16);
  else
    assert_memory_equal(frame.bytes + 14 + 16, &targets[rank].address.s6_addr[12], 4);
  assert_memory_equal(frame.bytes + udp_at(&frame) + 2, &targets[rank].udp_port, 2);
  if (!six) assert_int_equal(ip_sum(frame.bytes + 14), 0xffff);
  fragment_in(&frame, &copy);
  result->head.hop = 1;
  by_fragment_seal(&result->head);
  assert_memory_equal(&copy, result, by_fragment_bytes(&copy.head));
}

static void expect_counters(const struct by_plane *xdp) {
  struct by_plane_counts counts;
  assert_ok(xdp->ops->count(xdp->self, &counts));
  assert_int_equal(counts.events[BY_EVENT_STORED], 1);
  assert_int_equal(counts.events[BY_EVENT_ADDED], 1);
  assert_int_equal(counts.events[BY_EVENT_COMPLETED], 1);
  assert_int_equal(counts.events[BY_EVENT_RELEASED], 1);
  assert_int_equal(counts.unsent, 0);
}

static void test_sum_and_copies(void **state) {
  (void)state;
  struct wire wire;
  struct packet result;
  struct frame frame;
  if (unshare(CLONE_NEWNET) || !make_xdp(&wire.xdp)) skip();
  for (uint32_t port = 0; port < PORTS; port++) open_port(&wire, port);
  assert_ok(wire.xdp.ops->set_group(wire.xdp.self, grant.group, targets, WORKERS));
  assert_ok(wire.xdp.ops->grant(wire.xdp.self, &grant, &ends));
  for (uint16_t rank = 0; rank < WORKERS; rank++) send_term(&wire, rank);
  expect_sum(&wire, &result);
  for (int round = 0; round < 2; round++) {
    result.head.hop = 0;
    send_at(&wire, SERVER, &result);
    for (uint32_t rank = 0; rank < WORKERS; rank++) expect_copy(&wire, rank, &result);
  }
  for (uint32_t port = 0; port < PORTS; port++) assert_false(receive_at(&wire, port, &frame, 0));
  expect_counters(&wire.xdp);
  by_plane_close(&wire.xdp);
  for (uint32_t port = 0; port < PORTS; port++) close(wire.sockets[port]);
}

/* What a killed switch had attached is gone, so that the next switch can take its place. */
static void test_killed(void **state) {
  (void)state;
  struct by_plane xdp;
  if (unshare(CLONE_NEWNET) || !make_xdp(&xdp)) skip();
  assert_true(make_pair(0));
  pid_t child = fork();
  if (child == 0) {
    bool attached = xdp.ops->add_port(xdp.self, 0, "p0") == BANYAN_OK && by_xdp_attach(xdp.self, 0) == BANYAN_OK;
    (void)raise(attached ? SIGKILL : SIGTERM);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  assert_ok(xdp.ops->add_port(xdp.self, 0, "p0"));
  assert_ok(by_xdp_attach(xdp.self, 0));
  by_plane_close(&xdp);
}

static int use_ipv6(void **state) {
  (void)state;
  six = true;
  return 0;
}

static int use_ipv4(void **state) {
  (void)state;
  six = false;
  for (int i = 0; i < WORKERS; i++)
    targets[i].address = by_host_of_ipv4((struct in_addr){htonl(0x0a000001u + (unsigned)i)});
  return 0;
}

int main(void) {
  const struct CMUnitTest of_ipv6[] = {cmocka_unit_test(test_sum_and_copies)};
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum_and_copies), cmocka_unit_test(test_killed)};
  int failed = cmocka_run_group_tests(of_ipv6, use_ipv6, use_ipv4);
  return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
