/* Two cores send two workers' terms of the same cells at about the same time, so that many want a cell while the other
 * has it. The third worker's term must come out with the sum of all three. The test is skipped where XDP programs
 * cannot be loaded. */
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "data_plane.h"
#include "xdp_frames.h"

enum { BATCHES = 20, ROUNDS = 2000, LINES = 48, WORKERS = 3, CORES = 2 }; /* an epoch, and its slots */

struct core {
  pthread_t thread;
  atomic_uint *own, *other; /* rounds that are done */
  int program;
  unsigned interface;
  uint8_t rank;
  uint32_t epoch;
  uint32_t failed, wrong; /* runs that the kernel refused, and terms that were not dropped */
};

static uint64_t pair_of(const struct by_fragment *head, uint32_t word) {
  return ((uint64_t)head->slot << 40 | (uint64_t)head->epoch << 32 | word << 8) * head->workers;
}

static void make_term(struct frame *frame, uint32_t epoch, uint32_t round, uint8_t rank) {
  static _Thread_local struct packet packet;
  by_fragment_begin(&packet.head, BY_FRAGMENT_UP, rank);
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.lines = LINES;
  packet.head.slot = (uint16_t)round;
  packet.head.epoch = epoch;
  (void)by_fragment_push(&packet.head, 1, WORKERS);
  for (uint32_t i = 0; i < LINES * 8; i++) packet.pairs[i] = pair_of(&packet.head, i);
  by_fragment_seal(&packet.head);
  wrap(frame, false, &packet, by_fragment_bytes(&packet.head), by_fragment_bytes(&packet.head));
}

static void *send_terms(void *context) {
  struct core *core = context;
  struct frame frame;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    make_term(&frame, core->epoch, round, core->rank);
    atomic_store(core->own, round);
    for (unsigned turn = 0; atomic_load(core->other) < round; turn++)
      if (turn % 1000 == 999) (void)sched_yield();
    uint32_t length, action = run_program(core->program, core->interface, &frame, &length);
    core->failed += action == XDP_ABORTED;
    core->wrong += action != XDP_DROP;
  }
  atomic_store(core->own, ROUNDS);
  return NULL;
}

static unsigned add_port(const struct by_plane *xdp, uint32_t number) {
  const uint8_t neighbour[6] = {4};
  char name[8];
  snprintf(name, sizeof name, "p%u", number);
  assert_true(make_pair(number));
  assert_ok(xdp->ops->add_port(xdp->self, number, name));
  assert_ok(xdp->ops->set_neighbour(xdp->self, number, NULL, neighbour));
  return if_nametoindex(name);
}

static void send_together(int program, unsigned interface, uint32_t epoch) {
  atomic_uint done[CORES] = {0};
  struct core cores[CORES];
  for (uint8_t i = 0; i < CORES; i++)
    cores[i] = (struct core){
        .own = &done[i], .other = &done[1 - i], .program = program, .interface = interface, .rank = i, .epoch = epoch};
  for (int i = 0; i < CORES; i++) assert_int_equal(pthread_create(&cores[i].thread, NULL, send_terms, &cores[i]), 0);
  for (int i = 0; i < CORES; i++) assert_int_equal(pthread_join(cores[i].thread, NULL), 0);
  for (int i = 0; i < CORES; i++) {
    assert_int_equal(cores[i].failed, 0);
    assert_int_equal(cores[i].wrong, 0);
  }
}

/* With the last worker's terms, all sums must be complete, but for those of which a term was dropped: a core that the
 * hypervisor stops while it has a cell makes the other give up. Returns how many were not. */
static uint32_t check_sums(int program, unsigned interface, uint32_t epoch) {
  static struct frame frame;
  static struct packet sum;
  uint32_t incomplete = 0;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    make_term(&frame, epoch, round, WORKERS - 1);
    uint32_t length;
    if (run_program(program, interface, &frame, &length) != XDP_REDIRECT) {
      incomplete++;
      continue;
    }
    memcpy(&sum, frame.bytes + fragment_at(&frame), (1 + LINES) * BY_FRAGMENT_LINE);
    assert_int_equal(sum.head.workers, (1 << WORKERS) - 1);
    for (uint32_t i = 0; i < LINES * 8; i++) assert_true(sum.pairs[i] == pair_of(&sum.head, i));
  }
  return incomplete;
}

static void test_cores(void **state) {
  (void)state;
  struct by_plane xdp;
  struct by_plane_counts counts;
  uint32_t incomplete = 0;
  const struct by_plane_options options = {.cells = ROUNDS};
  const struct by_grant grant = {.below = 1, .above = 2, .count = ROUNDS, .dtype = BY_FRAGMENT_PAIRS};
  const struct by_plane_ends ends = {.server.end.port = htons(BY_FRAGMENT_PORT)};
  if (unshare(CLONE_NEWNET)) skip();
  enum banyan_status status = by_xdp_open(&options, by_xdp_object, by_xdp_object_bytes, &xdp);
  if (status == BANYAN_ERR_UNSUPPORTED) print_message("skipped: %s\n", banyan_error_text());
  if (status == BANYAN_ERR_UNSUPPORTED) skip();
  assert_ok(status);
  unsigned interface = add_port(&xdp, 0);
  (void)add_port(&xdp, 1);
  assert_ok(xdp.ops->grant(xdp.self, &grant, &ends));
  int program = by_xdp_program(xdp.self, "by_xdp_switch");
  for (uint32_t epoch = 1; epoch <= BATCHES; epoch++) {
    send_together(program, interface, epoch);
    incomplete += check_sums(program, interface, epoch);
  }
  assert_ok(xdp.ops->count(xdp.self, &counts));
  assert_true(incomplete <= counts.events[BY_EVENT_NO_CELL]);
  assert_in_range(counts.events[BY_EVENT_NO_CELL], 0, BATCHES * ROUNDS / 100);
  by_plane_close(&xdp);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cores)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
