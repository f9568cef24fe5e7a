/* The XDP program and step.c receive the same random packets and must emit the same packets. The test is skipped where
 * XDP programs cannot be loaded. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <sched.h>

#include "../prop/random_fragments.h"
#include "check.h"
#include "clock.h"
#include "data_plane.h"
#include "step.h"
#include "xdp_frames.h"
#include "xdp_maps.h"

enum { STEPS = 300000, PORTS = 4 };

struct world {
  struct source source;
  struct by_plane xdp;
  int program;
  unsigned interfaces[PORTS];
  struct by_cell cells[CELLS];
  uint64_t sums[CELLS][BY_CELL_PAIRS];
  uint64_t events[BY_EVENTS];
  uint64_t left; /* to the kernel: no fragments, or none of the grants' */
  struct by_hop_key key;
  struct by_replay_window windows[BY_REPLAY_SENDERS]; /* of both grants, which have one group */
};

static struct by_switch_target target = {.port = 0, .address = {{{0xfd}}}, .udp_port = 2, .hardware = {2, 9}};

/* Each job has a server's port of its own. */
static uint16_t port_of(uint32_t job) {
  return htons((uint16_t)(BY_FRAGMENT_PORT + job));
}

static void grant(struct world *world, uint32_t job) {
  const struct by_plane_ends ends = {.key = &world->key, .server.end.port = port_of(job)};
  renew_grant(&world->source, job);
  world->source.grants[job].keyed = pick(&world->source, 2) != 0;
  if (world->source.granted[job]) memset(world->windows, 0, sizeof world->windows);
  if (world->source.granted[job])
    assert_ok(world->xdp.ops->grant(world->xdp.self, &world->source.grants[job], &ends));
  else
    (void)!world->xdp.ops->revoke(world->xdp.self, (uint16_t)job);
}

/* Port n is p<n> with the address 2:0:0:0:0:n. The address of its neighbour is 4:0:0:0:0:n. */
static void add_port(struct world *world, uint32_t number) {
  char name[8];
  uint8_t neighbour[6] = {4, 0, 0, 0, 0, (uint8_t)number};
  snprintf(name, sizeof name, "p%u", number);
  assert_true(make_pair(number));
  world->interfaces[number] = if_nametoindex(name);
  assert_ok(world->xdp.ops->add_port(world->xdp.self, number, name));
  assert_ok(world->xdp.ops->set_neighbour(world->xdp.self, number, NULL, neighbour));
}

/* The time in the unit that the program uses. */
static uint32_t milliseconds(void) {
  return (uint32_t)(by_clock_coarse() >> 20);
}

static uint32_t run(const struct world *world, struct frame *frame, uint32_t from) {
  uint32_t length, action = run_program(world->program, world->interfaces[from], frame, &length);
  assert_int_equal(length, frame->length);
  return action;
}

static void check_forwarded(const struct frame *frame, uint32_t port) {
  uint8_t wanted[12] = {4, 0, 0, 0, 0, (uint8_t)port, 2, 0, 0, 0, 0, (uint8_t)port};
  assert_memory_equal(frame->bytes, wanted, sizeof wanted);
}

static const struct by_hop_key *key_of(const struct world *world, const struct by_grant *grant) {
  return grant && grant->keyed ? &world->key : NULL;
}

/* What is of no grant stays as it is. */
static void compare(const struct frame *frame, uint32_t action, const struct packet *packet,
                    struct by_verdict verdict) {
  static const uint32_t actions[] = {XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_REDIRECT};
  assert_int_equal(action, actions[verdict.kind]);
  if (verdict.kind == BY_VERDICT_DROP) return;
  if (verdict.kind == BY_VERDICT_FORWARD) check_forwarded(frame, verdict.port);
  if (verdict.event != BY_EVENT_NO_GRANT) assert_memory_equal(frame->bytes + udp_at(frame) + 6, "\0", 2);
  assert_memory_equal(frame->bytes + fragment_at(frame), packet, by_fragment_bytes(&packet->head));
}

/* Gives the frame the server's port of its job on one side, or rarely something else. True: the latter. */
static bool choose_ports(struct world *world, struct frame *frame, uint16_t job) {
  bool wrong = pick(&world->source, 20) == 0, back = pick(&world->source, 2);
  const uint16_t other = htons(9), port = wrong ? port_of(job + 1) : port_of(job);
  memcpy(frame->bytes + udp_at(frame), back ? &port : &other, 2);
  memcpy(frame->bytes + udp_at(frame) + 2, back ? &other : &port, 2);
  return wrong;
}

/* Whether the program looks at the fragment at all. */
static bool is_foreign(const struct packet *packet, uint32_t bytes) {
  return bytes < sizeof packet->head || by_fragment_check(&packet->head, UINT16_MAX) == BY_FRAGMENT_FOREIGN;
}

static void step(struct world *world) {
  static struct packet packet;
  static struct frame frame;
  uint64_t epoch;
  uint32_t from = random_packet(&world->source, &packet, &epoch) % PORTS, bytes = by_fragment_bytes(&packet.head);
  const struct by_grant *signer = grant_of(&world->source, packet.head.job);
  if (!rarely(&world->source)) by_fragment_sign(&packet.head, key_of(world, signer)); /* else it has a seal */
  if (rarely(&world->source)) bytes = spoil(&world->source, &packet, bytes);
  uint32_t claimed = bytes + (rarely(&world->source) ? pick(&world->source, 2000) : 0);
  wrap(&frame, pick(&world->source, 2), &packet, bytes, claimed);
  bool wrong = choose_ports(world, &frame, packet.head.job);
  uint32_t action = run(world, &frame, from);
  struct by_cells cells = {world->cells, world->sums, CELLS, NULL};
  const struct by_grant *grant = grant_of(&world->source, packet.head.job);
  bool is_left = is_foreign(&packet, bytes) || (grant && wrong) ||
                 (!grant && by_fragment_check_fields(&packet.head, claimed == bytes ? bytes : 0) != BY_FRAGMENT_SOUND);
  if (is_left) { /* to the kernel */
    assert_int_equal(action, XDP_PASS);
    assert_memory_equal(frame.bytes + fragment_at(&frame), &packet, bytes < sizeof packet ? bytes : sizeof packet);
    world->left++;
    return;
  }
  struct by_verdict verdict = by_switch_step(grant, key_of(world, grant), world->windows, &cells, &packet.head,
                                             claimed == bytes ? bytes : 0, from, milliseconds());
  world->events[verdict.event]++;
  compare(&frame, action, &packet, verdict);
}

/* Checks that packets without a known next hop are counted. */
static void check_unsent(struct world *world) {
  static struct packet packet;
  static struct frame frame;
  uint64_t epoch, wanted = 0;
  struct by_plane_counts counts;
  for (uint32_t port = 0; port < PORTS; port++)
    assert_ok(world->xdp.ops->set_neighbour(world->xdp.self, port, NULL, NULL));
  for (int i = 0; i < 1000; i++) {
    uint32_t from = random_packet(&world->source, &packet, &epoch) % PORTS, bytes = by_fragment_bytes(&packet.head);
    struct by_cells cells = {world->cells, world->sums, CELLS, NULL};
    by_fragment_sign(&packet.head, key_of(world, grant_of(&world->source, packet.head.job)));
    wrap(&frame, pick(&world->source, 2), &packet, bytes, bytes);
    if (choose_ports(world, &frame, packet.head.job)) continue;
    uint32_t action = run(world, &frame, from);
    const struct by_grant *grant = grant_of(&world->source, packet.head.job);
    struct by_verdict verdict =
        by_switch_step(grant, key_of(world, grant), world->windows, &cells, &packet.head, bytes, from, milliseconds());
    if (verdict.kind != BY_VERDICT_FORWARD) continue;
    assert_int_equal(action, XDP_DROP);
    wanted++;
  }
  assert_ok(world->xdp.ops->count(world->xdp.self, &counts));
  assert_int_equal(counts.unsent, wanted);
  assert_true(wanted > 0);
}

static void test_same_packets(void **state) {
  (void)state;
  static struct world world;
  struct by_plane_counts counts;
  struct by_plane_options options = {.cells = CELLS};
  if (unshare(CLONE_NEWNET)) skip();
  enum banyan_status status = by_xdp_open(&options, by_xdp_object, by_xdp_object_bytes, &world.xdp);
  if (status == BANYAN_ERR_UNSUPPORTED) print_message("skipped: %s\n", banyan_error_text());
  if (status == BANYAN_ERR_UNSUPPORTED) skip();
  assert_ok(status);
  world.program = by_xdp_program(world.xdp.self, "by_xdp_switch");
  for (uint32_t port = 0; port < PORTS; port++) add_port(&world, port);
  assert_ok(world.xdp.ops->set_group(world.xdp.self, 0, &target, 1));
  init_source(&world.source, 6);
  for (size_t i = 0; i < sizeof world.key; i++) ((unsigned char *)&world.key)[i] = (unsigned char)(i * 41 + 7);
  for (uint32_t job = 0; job < JOBS; job++) grant(&world, job);
  for (uint32_t i = 0; i < STEPS; i++) {
    if (pick(&world.source, 500) == 0) grant(&world, pick(&world.source, JOBS));
    step(&world);
  }
  assert_ok(world.xdp.ops->count(world.xdp.self, &counts));
  assert_int_equal(counts.unsent, 0);
  for (int i = 0; i < BY_EVENTS; i++) {
    assert_int_equal(counts.events[i], world.events[i]);
    assert_true(counts.events[i] > 20);
  }
  assert_true(world.left > 1000);
  check_unsent(&world);
  by_plane_close(&world.xdp);
}

static void test_refusals(void **state) {
  (void)state;
  struct by_plane xdp;
  struct by_plane_options options = {.cells = 10};
  struct by_grant grant = {.base = 5, .count = 6, .dtype = BY_FRAGMENT_PAIRS};
  const struct by_plane_ends ends = {.server.end.port = 1};
  struct by_switch_target targets[BY_XDP_MEMBERS + 1] = {{0}};
  if (by_xdp_open(&options, by_xdp_object, by_xdp_object_bytes, &xdp) == BANYAN_ERR_UNSUPPORTED) skip();
  assert_status(xdp.ops->grant(xdp.self, &grant, &ends), BANYAN_ERR_ARGUMENT);
  grant.base = UINT32_MAX;
  assert_status(xdp.ops->grant(xdp.self, &grant, &ends), BANYAN_ERR_ARGUMENT);
  grant = (struct by_grant){.count = 10, .dtype = BY_FRAGMENT_FLOAT32};
  assert_status(xdp.ops->grant(xdp.self, &grant, &ends), BANYAN_ERR_UNSUPPORTED);
  grant.dtype = BY_FRAGMENT_PAIRS;
  grant.place = BY_FRAGMENT_HOPS;
  assert_status(xdp.ops->grant(xdp.self, &grant, &ends), BANYAN_ERR_ARGUMENT);
  grant.place = 0;
  assert_ok(xdp.ops->grant(xdp.self, &grant, &ends));
  assert_ok(xdp.ops->revoke(xdp.self, 0));
  assert_status(xdp.ops->revoke(xdp.self, 0), BANYAN_ERR_ARGUMENT);
  assert_status(xdp.ops->add_port(xdp.self, 0, "no-such-port"), BANYAN_ERR_ARGUMENT);
  assert_status(xdp.ops->add_port(xdp.self, BY_FRAGMENT_PORTS, "lo"), BANYAN_ERR_ARGUMENT);
  assert_status(by_xdp_attach(xdp.self, 0), BANYAN_ERR_ARGUMENT);
  assert_status(xdp.ops->set_group(xdp.self, 0, targets, 1), BANYAN_ERR_ARGUMENT);
  assert_ok(xdp.ops->add_port(xdp.self, 0, "lo"));
  assert_status(xdp.ops->add_port(xdp.self, 0, "lo"), BANYAN_ERR_ARGUMENT);
  assert_ok(xdp.ops->set_group(xdp.self, 0, targets, BY_XDP_MEMBERS));
  assert_status(xdp.ops->set_group(xdp.self, 0, targets, BY_XDP_MEMBERS + 1), BANYAN_ERR_ARGUMENT);
  assert_status(xdp.ops->set_group(xdp.self, BY_XDP_GROUPS, targets, 1), BANYAN_ERR_ARGUMENT);
  assert_status(by_xdp_attach(xdp.self, 0), BANYAN_ERR_UNSUPPORTED); /* lo supports only generic XDP */
  by_plane_close(&xdp);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_packets), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
