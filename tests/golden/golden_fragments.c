/* Golden bytes of fragments, each of which is sealed and valid: all types, as two real workers and a real server send
 * them to each other, also through a real switch; and the layouts of a header and of a probe's payload with a
 * different value in each field. The messages are UP, RESULT and RESULT_MC of numbers in fixed point, as they are, and
 * in exact mode; PROBE, PROBE_REPLY and the repeated result after a loss; and NACK for a damaged term and for calls
 * that differ. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "golden.h"
#include "server.h"
#include "step.h"
#include "worker.h"

enum { WORKERS = 2, SLOTS = 4, LINES = 2, COUNT = 12, QUEUE = 64, MOST = (1 + LINES + 8) * BY_FRAGMENT_LINE };

static const char *const type_names[] = {"NONE", "UP", "RESULT", "RESULT_MC", "PROBE", "PROBE_REPLY", "NACK"};
static bool types_seen[BY_FRAGMENT_NACK + 1];

struct packet {
  int from, to; /* A worker, SERVER, or BY_SERVER_ALL for a result to all workers. */
  size_t bytes;
  _Alignas(BY_FRAGMENT_LINE) unsigned char data[MOST];
};

/* The ports belong to the switch; PORT_DOWN leads to worker 0. */
enum { SERVER = WORKERS, PORT_UP = 5, PORT_DOWN = 8 };

static struct {
  const char *name;
  unsigned n_named;
  struct by_server *server;
  struct by_worker *workers[WORKERS];
  unsigned index[WORKERS]; /* The arguments of callbacks. */
  uint64_t now;
  struct packet queue[QUEUE];
  unsigned n_queue, taken;
  int lose_type, lose_to; /* The next packet of this type to this end is lost; 0: none. */
  bool spoil;             /* The next term is changed on its way. */
  bool has_switch;
  struct by_cell cells[SLOTS];
  uint64_t cell_sums[SLOTS][BY_CELL_PAIRS];
  float of_float[WORKERS][COUNT], sums[WORKERS][COUNT];
} net;

/* ---- packets ---- */

static void print_flags(uint8_t flags, char *out, size_t room) {
  static const struct {
    uint8_t flag;
    const char *name;
  } names[] = {
      {BY_FRAGMENT_AGGREGATED, " aggregated"}, {BY_FRAGMENT_RETX, " retx"}, {BY_FRAGMENT_ESCALATE, " escalate"},
      {BY_FRAGMENT_STALE, " stale"},           {BY_FRAGMENT_BUSY, " busy"}, {BY_FRAGMENT_CE, " ce"}};
  size_t used = 0;
  out[0] = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (flags & names[i].flag) used += (size_t)snprintf(out + used, room - used, "%s", names[i].name);
}

static void check_sound(const struct by_fragment *packet, size_t bytes) {
  struct by_fragment again = *packet;
  assert_int_equal(by_fragment_check(packet, (uint32_t)bytes), BY_FRAGMENT_SOUND);
  by_fragment_seal(&again);
  assert_int_equal(again.mac, packet->mac);
}

static void keep(const struct packet *packet, const char *where) {
  const struct by_fragment *fragment = (const struct by_fragment *)(const void *)packet->data;
  char name[160], flags[64], receiver[32];
  int worker = packet->from == SERVER ? packet->to : packet->from;
  check_sound(fragment, packet->bytes);
  types_seen[fragment->type] = true;
  print_flags(fragment->flags, flags, sizeof flags);
  snprintf(receiver, sizeof receiver,
           worker == BY_SERVER_ALL  ? "to all"
           : packet->from == SERVER ? "to worker %d"
                                    : "from worker %d",
           worker);
  snprintf(name, sizeof name, "%s, packet %u%s, %s%s %s", net.name, ++net.n_named, where, type_names[fragment->type],
           flags, receiver);
  golden_bytes(name, packet->data, packet->bytes);
}

static void emit(int from, int to, const struct by_fragment *fragment) {
  assert_true(net.n_queue < QUEUE);
  struct packet *packet = &net.queue[net.n_queue++];
  *packet = (struct packet){.from = from, .to = to, .bytes = by_fragment_bytes(fragment)};
  assert_true(packet->bytes <= MOST);
  memcpy(packet->data, fragment, packet->bytes);
  keep(packet, "");
}

static void worker_emits(void *context, const struct by_fragment *packet) {
  emit((int)*(const unsigned *)context, SERVER, packet);
}

static void server_emits(void *context, const struct by_fragment *packet, int to) {
  (void)context;
  emit(SERVER, to, packet);
}

static bool is_lost(const struct packet *packet, int to) {
  const struct by_fragment *fragment = (const struct by_fragment *)(const void *)packet->data;
  bool lost = net.lose_type == fragment->type && net.lose_to == to;
  if (lost) net.lose_type = 0;
  return lost;
}

static void deliver_to(struct packet *packet, int to) {
  const struct by_fragment *fragment = (const struct by_fragment *)(const void *)packet->data;
  if (is_lost(packet, to)) return;
  if (net.spoil && fragment->type == BY_FRAGMENT_UP) {
    packet->data[sizeof *fragment] ^= 1;
    net.spoil = false;
  }
  if (to == SERVER)
    by_server_take(net.server, fragment, packet->bytes);
  else
    by_worker_take(net.workers[to], fragment, packet->bytes, net.now);
}

/* Passes the packet through the switch between the workers and the server, if there is one. Returns false if the
 * switch keeps it. */
static bool pass_switch(struct packet *packet) {
  static const struct by_grant grant = {.below = 3 << PORT_DOWN,
                                        .above = 1ull << PORT_UP,
                                        .count = SLOTS,
                                        .job = 0x0102,
                                        .key = 0x0304,
                                        .dtype = BY_FRAGMENT_PAIRS};
  const struct by_cells cells = {net.cells, net.cell_sums, SLOTS, NULL};
  uint32_t from = packet->from == SERVER ? PORT_UP : PORT_DOWN + (uint32_t)packet->from;
  struct by_fragment *fragment = (struct by_fragment *)(void *)packet->data;
  if (!net.has_switch) return true;
  struct by_verdict verdict = by_switch_step(&grant, NULL, NULL, &cells, fragment, (uint32_t)packet->bytes, from, 1);
  if (verdict.kind == BY_VERDICT_DROP) return false;
  keep(packet, " behind the switch");
  return true;
}

/* Delivers packets until no end has anything to send at this time. */
static void settle(void) {
  do {
    while (net.taken < net.n_queue) {
      struct packet *packet = &net.queue[net.taken++];
      if (!pass_switch(packet)) continue;
      if (packet->to != BY_SERVER_ALL) deliver_to(packet, packet->to);
      for (int w = 0; packet->to == BY_SERVER_ALL && w < WORKERS; w++) deliver_to(packet, w);
    }
    for (int w = 0; w < WORKERS; w++) by_worker_progress(net.workers[w], net.now);
  } while (net.taken < net.n_queue);
}

/* Advances the time until a worker has something to do. */
static void wait_for_workers(void) {
  uint64_t next = UINT64_MAX;
  for (int w = 0; w < WORKERS; w++)
    if (by_worker_deadline(net.workers[w]) < next) next = by_worker_deadline(net.workers[w]);
  assert_int_not_equal(next, UINT64_MAX);
  net.now = next;
  settle();
}

/* ---- the ends ---- */

static void begin(const char *name, bool multicast, bool exact) {
  static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";
  struct by_server_path ways[WORKERS] = {{0}};
  memset(&net, 0, sizeof net);
  net.name = name;
  net.now = BY_SECOND;
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_worker_config config = {
        .job = 0x0102,
        .key = 0x0304,
        .rank = w,
        .groups = by_one_group(WORKERS),
        .slots = SLOTS,
        .lines = LINES,
        .exact = exact,
        .hops = 2,
        .stack = {{.port = PORT_UP, .workers = 2}, {.port = (uint8_t)(6 + w), .workers = 0}},
        .below = {{3, 0}, {1ull << w, 0}},
        .timeout = 3 * BY_SECOND,
        .emit = worker_emits,
        .context = &net.index[w]};
    ways[w] = (struct by_server_path){.hops = 1, .stack = {{.port = (uint8_t)(PORT_DOWN + w), .workers = 2}}};
    net.index[w] = w;
    memcpy(config.secret, secret, sizeof secret);
    assert_ok(by_worker_create(&config, &net.workers[w]));
    for (int i = 0; i < COUNT; i++) net.of_float[w][i] = (float)(i + 1) * (w ? -0.25F : 1.5F);
  }
  struct by_server_config config = {.job = 0x0102,
                                    .key = 0x0304,
                                    .groups = by_one_group(WORKERS),
                                    .slots = SLOTS,
                                    .lines = LINES,
                                    .multicast = multicast,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .paths = ways,
                                    .exact = exact,
                                    .emit = server_emits};
  assert_ok(by_server_create(&config, &net.server));
}

static void finish(void) {
  for (int w = 0; w < WORKERS; w++) by_worker_destroy(net.workers[w]);
  by_server_destroy(net.server);
}

static uint32_t start(int worker, enum banyan_dtype dtype, size_t count) {
  uint32_t number;
  assert_ok(
      by_worker_begin(net.workers[worker], dtype, BANYAN_SUM, net.of_float[worker], net.sums[worker], count, &number));
  by_worker_advance(net.workers[worker], number, count);
  return number;
}

/* Asserts that all sums of a call have arrived. */
static void check_sums(uint32_t number, size_t count) {
  for (int w = 0; w < WORKERS; w++) {
    assert_ok(by_worker_state(net.workers[w]));
    assert_int_equal(by_worker_done(net.workers[w], number), count);
    for (size_t i = 0; i < count; i++) assert_true(net.sums[w][i] == net.of_float[0][i] + net.of_float[1][i]);
  }
}

/* ---- conversations ---- */

static void sum(const char *name, bool multicast, bool exact) {
  begin(name, multicast, exact);
  uint32_t number = start(0, BANYAN_FLOAT32, COUNT);
  assert_int_equal(start(1, BANYAN_FLOAT32, COUNT), number);
  settle();
  check_sums(number, COUNT);
  finish();
}

static void test_sums(void **state) {
  (void)state;
  sum("fixed point", true, false);
  sum("fixed point for each", false, false);
  sum("exact", true, true);
}

/* These numbers are not float32. */
static void test_types_of_numbers(void **state) {
  static const enum banyan_dtype dtypes[] = {BANYAN_INT32, BANYAN_FLOAT16, BANYAN_BFLOAT16};
  static const char *const names[] = {"int32", "float16", "bfloat16"};
  (void)state;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    begin(names[i], true, false);
    memset(net.of_float, 0, sizeof net.of_float);
    for (int w = 0; w < WORKERS; w++) net.of_float[w][0] = w ? 2 : 1;
    uint32_t number = start(0, dtypes[i], 4);
    start(1, dtypes[i], 4);
    settle();
    for (int w = 0; w < WORKERS; w++) assert_int_equal(by_worker_done(net.workers[w], number), 4);
    finish();
  }
}

/* Infinity has no fixed-point form: all terms of its fragment are sent as they are. */
static void test_no_fixed_point(void **state) {
  (void)state;
  begin("infinity", true, false);
  for (int w = 0; w < WORKERS; w++) net.of_float[w][3] = 1.0F / 0.0F;
  uint32_t number = start(0, BANYAN_FLOAT32, COUNT);
  start(1, BANYAN_FLOAT32, COUNT);
  settle();
  check_sums(number, COUNT);
  finish();
}

/* The first result for worker 1 is lost: the worker asks for it. */
static void test_lost_result(void **state) {
  (void)state;
  begin("lost result", true, false);
  net.lose_type = BY_FRAGMENT_RESULT_MC;
  net.lose_to = 1;
  uint32_t number = start(0, BANYAN_FLOAT32, COUNT);
  start(1, BANYAN_FLOAT32, COUNT);
  settle();
  for (int i = 0; i < 8 && by_worker_done(net.workers[1], number) < COUNT; i++) wait_for_workers();
  check_sums(number, COUNT);
  finish();
}

/* Worker 0 is late: worker 1 is notified that its own term has arrived, and that others have not. */
static void test_late_worker(void **state) {
  (void)state;
  begin("late worker", true, false);
  uint32_t number = start(1, BANYAN_FLOAT32, COUNT);
  settle();
  for (int i = 0; i < 8 && !types_seen[BY_FRAGMENT_PROBE_REPLY]; i++) wait_for_workers();
  start(0, BANYAN_FLOAT32, COUNT);
  settle();
  check_sums(number, COUNT);
  finish();
}

static void test_spoiled_term(void **state) {
  (void)state;
  begin("spoiled term", true, false);
  net.spoil = true;
  uint32_t number = start(0, BANYAN_FLOAT32, COUNT);
  start(1, BANYAN_FLOAT32, COUNT);
  settle();
  for (int i = 0; i < 8 && by_worker_done(net.workers[0], number) < COUNT; i++) wait_for_workers();
  check_sums(number, COUNT);
  finish();
}

static void test_mismatch(void **state) {
  (void)state;
  begin("different calls", true, false);
  start(0, BANYAN_FLOAT32, COUNT);
  start(1, BANYAN_FLOAT32, COUNT - 1);
  settle();
  bool found = false;
  for (int w = 0; w < WORKERS; w++) found |= by_worker_state(net.workers[w]) == BANYAN_ERR_MISMATCH;
  assert_true(found);
  finish();
}

/* A switch adds the terms; it changes the headers of probes and of terms that it forwards unmerged. */
static void test_switch(void **state) {
  (void)state;
  begin("through a switch", true, false);
  net.has_switch = true;
  uint32_t number = start(0, BANYAN_FLOAT32, COUNT);
  start(1, BANYAN_FLOAT32, COUNT);
  settle();
  check_sums(number, COUNT);
  net.lose_type = BY_FRAGMENT_RESULT_MC;
  net.lose_to = 1;
  net.name = "result lost behind a switch";
  number = start(0, BANYAN_FLOAT32, COUNT);
  start(1, BANYAN_FLOAT32, COUNT);
  settle();
  for (int i = 0; i < 8 && by_worker_done(net.workers[1], number) < COUNT; i++) wait_for_workers();
  check_sums(number, COUNT);
  finish();
}

static void test_all_types(void **state) {
  (void)state;
  for (int type = BY_FRAGMENT_UP; type <= BY_FRAGMENT_NACK; type++)
    if (!types_seen[type]) fail_msg("no conversation has a message %s", type_names[type]);
}

/* ---- layouts ---- */

static void test_layouts(void **state) {
  struct by_probe_payload probe = {.newest = 0x4142434445464748, .asked = 0x5152535455565758};
  struct by_fragment fragment;
  (void)state;
  by_fragment_begin(&fragment, BY_FRAGMENT_UP, 5);
  fragment.flags = BY_FRAGMENT_AGGREGATED | BY_FRAGMENT_CE;
  fragment.hop = 3;
  fragment.job = 0x0102;
  fragment.key = 0x0304;
  fragment.slot = 0x0506;
  fragment.workers = 0x1112131415161718 | 1ull << 5;
  fragment.check = 0x2122232425262728;
  fragment.epoch = 0x31323334;
  fragment.call = 0x41424344;
  fragment.dtype = BY_FRAGMENT_PAIRS;
  fragment.lines = BY_FRAGMENT_LINES;
  fragment.exponent = 0x95;
  for (uint32_t i = 0; i < BY_FRAGMENT_HOPS; i++) assert_true(by_fragment_push(&fragment, 0x20 + i, 0x38 + i));
  by_fragment_seal(&fragment);
  golden_bytes("layout of a header", &fragment, sizeof fragment);
  check_sound(&fragment, by_fragment_bytes(&fragment));
  for (uint8_t i = 0; i < BY_FRAGMENT_HOPS; i++)
    probe.records[i] = (struct by_probe){
        .seen = 1, .state = i % 4, .granted = 1, .epoch = 0x51525354u + i, .workers = 0x6162636465666768 + i};
  golden_bytes("layout of a probe's payload", &probe, sizeof probe);
}

int golden_fragments(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),           cmocka_unit_test(test_types_of_numbers),
      cmocka_unit_test(test_no_fixed_point), cmocka_unit_test(test_lost_result),
      cmocka_unit_test(test_late_worker),    cmocka_unit_test(test_spoiled_term),
      cmocka_unit_test(test_mismatch),       cmocka_unit_test(test_switch),
      cmocka_unit_test(test_all_types),      cmocka_unit_test(test_layouts),
      cmocka_unit_test(golden_end),
  };
  golden_begin("fragments", "Fragments between workers and the server of a tree through switches.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
