/* Golden bytes of the messages between controllers. Three ranks form a line: 2 is below 1, and 1 is below 0, which is
 * the root. Real controllers write all messages, which arrive at once and are read by the next controllers; the
 * results are checked.
 *
 * Upward messages have operations by name, as bits (as numbers and as machine words), submitted differently, waiting
 * too long, and the ranks that lack them. Downward messages have groups that start by name and by bit, the table,
 * refusals, questions and notes. One has another tree. */
#include <stdlib.h>
#include <string.h>

#include "controller_parts.h"
#include "golden.h"

enum { RANKS = 3, MOST_MESSAGES = 64, MANY = 66 };

struct message {
  uint32_t from, to;
  size_t bytes;
  uint8_t *data;
};

static struct {
  const char *name; /* The name of the current step; while it is NULL, messages are not kept. */
  uint32_t n_named;
  struct by_controller *controllers[RANKS];
  struct message messages[MOST_MESSAGES];
  uint32_t n_messages, n_taken;
  uint64_t now;
  uint32_t started[RANKS], groups[RANKS], refused[RANKS], stalls, notes;
} job;

/* ---- callbacks; the context is the rank's number of operations that have started ---- */

static uint32_t rank_of(const void *context) {
  return (uint32_t)((const uint32_t *)context - job.started);
}

static void on_send(void *context, uint32_t to, const void *bytes, size_t n) {
  char title[128];
  assert_true(job.n_messages < MOST_MESSAGES);
  struct message *message = &job.messages[job.n_messages++];
  *message = (struct message){.from = rank_of(context), .to = to, .bytes = n, .data = malloc(n)};
  assert_non_null(message->data);
  memcpy(message->data, bytes, n);
  if (!job.name) return;
  snprintf(title, sizeof title, "%s, message %u, %u to %u", job.name, ++job.n_named, message->from, to);
  golden_bytes(title, bytes, n);
}

static void on_start(void *context, void *const *cookies, uint32_t n) {
  (void)cookies;
  job.started[rank_of(context)] += n;
  job.groups[rank_of(context)]++;
}

static void on_refused(void *context, void *cookie, const struct by_refused_operation *refusal) {
  (void)cookie;
  assert_string_equal(refusal->name, "loss");
  job.refused[rank_of(context)]++;
}

static void on_noted(void *context, uint32_t note) {
  (void)context;
  assert_int_equal(note, 0x01020304);
  job.notes++;
}

static void on_stalled(void *context, const struct by_stall *stall) {
  assert_int_equal(rank_of(context), 0);
  assert_string_equal(stall->name, "bias");
  assert_true(stall->n_ranges == 1 && stall->ranges[0].first == 2 && stall->ranges[0].last == 2);
  job.stalls++;
}

/* ---- the job ---- */

static void begin(const char *name) {
  memset(&job, 0, sizeof job);
  job.name = name;
  job.now = 1;
  for (uint32_t r = 0; r < RANKS; r++) {
    const uint32_t child = r + 1;
    struct by_controller_config config = {.rank = r,
                                          .ranks = RANKS,
                                          .up_parent = r ? r - 1 : 0,
                                          .down_parent = r ? r - 1 : 0,
                                          .n_up_children = child < RANKS,
                                          .n_down_children = child < RANKS,
                                          .up_children = &child,
                                          .down_children = &child,
                                          .fuse = 4096,
                                          .timeout = 100,
                                          .send = on_send,
                                          .start = on_start,
                                          .refused = on_refused,
                                          .noted = on_noted,
                                          .stalled = on_stalled,
                                          .context = &job.started[r]};
    assert_ok(by_controller_create(&config, &job.controllers[r]));
  }
}

static void next(const char *name) {
  job.name = name;
  job.n_named = 0;
}

static void finish(void) {
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(by_controller_counters(job.controllers[r])->malformed, 0);
    by_controller_destroy(job.controllers[r]);
  }
  for (uint32_t i = 0; i < job.n_messages; i++) free(job.messages[i].data);
}

/* Delivers messages until no controller has anything to send. */
static void settle(void) {
  bool more = true;
  while (more) {
    for (uint32_t r = RANKS; r-- > 0;) assert_ok(by_controller_flush(job.controllers[r]));
    more = job.n_taken < job.n_messages;
    for (; job.n_taken < job.n_messages; job.n_taken++) {
      const struct message *message = &job.messages[job.n_taken];
      assert_ok(
          by_controller_take(job.controllers[message->to], message->from, message->data, message->bytes, job.now));
    }
  }
}

static const struct by_operation usual = {.collective = BANYAN_ALLREDUCE,
                                          .dtype = BANYAN_FLOAT16,
                                          .op = BANYAN_MAX,
                                          .count = 256,
                                          .rest = 0x0102030405060708};

static void submit_to(uint32_t rank, const char *name, const struct by_operation *operation) {
  static char cookie;
  assert_ok(by_controller_submit(job.controllers[rank], name, operation, 0, &cookie, job.now));
}

static void submit(const char *name, const struct by_operation *operation) {
  for (uint32_t r = 0; r < RANKS; r++) submit_to(r, name, operation);
}

static void step(uint64_t i) {
  for (uint32_t r = 0; r < RANKS; r++) by_controller_step(job.controllers[r], i);
}

static void check_started(uint32_t operations, uint32_t groups) {
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(job.started[r], operations);
    assert_int_equal(job.groups[r], groups);
  }
}

/* ---- what is negotiated ---- */

static void test_iterations(void **state) {
  struct by_operation sparse = usual, group = usual;
  (void)state;
  sparse.collective = BANYAN_ALLREDUCE + BY_OPERATION_SPARSE;
  sparse.root = 1000;
  group.collective = BY_OPERATION_GROUP;
  group.root = 3;
  begin("first iteration");
  step(0);
  submit("layer1.weight", &usual);
  submit("layer1.bias", &usual);
  submit("embedding", &sparse);
  submit("several calls", &group);
  settle();
  check_started(4, 3);
  next("second iteration");
  step(1);
  settle();
  submit("layer1.weight", &usual);
  submit("layer1.bias", &usual);
  submit("embedding", &sparse);
  submit("several calls", &group);
  settle();
  check_started(8, 6);
  assert_int_equal(job.controllers[2]->n_table, 4);
  next("third iteration");
  step(2);
  submit("layer1.bias", &usual);
  settle();
  check_started(9, 7);
  finish();
}

/* There are more bits than a machine word has. */
static void test_many_bits(void **state) {
  char name[16];
  (void)state;
  begin(NULL);
  for (uint64_t i = 0; i < 2; i++) {
    step(i);
    settle();
    for (int k = 0; k < MANY; k++) {
      snprintf(name, sizeof name, "g%d", k);
      submit(name, &usual);
    }
    settle();
    next("many as bits");
  }
  assert_int_equal(job.controllers[0]->n_table, MANY);
  for (uint32_t r = 0; r < RANKS; r++) assert_int_equal(job.started[r], 2 * MANY);
  finish();
}

static void test_refusals(void **state) {
  struct by_operation other = usual;
  (void)state;
  other.count = 512;
  begin("different shapes");
  submit_to(0, "loss", &usual);
  submit_to(1, "loss", &usual);
  submit_to(2, "loss", &other);
  settle();
  check_started(0, 0);
  for (uint32_t r = 0; r < RANKS; r++) assert_int_equal(job.refused[r], 1);
  finish();
}

/* Ranks 0 and 1 wait, then rank 1 no longer waits. */
static void test_stalls(void **state) {
  (void)state;
  begin("a late rank");
  submit_to(0, "bias", &usual);
  submit_to(1, "bias", &usual);
  settle();
  job.now = 200;
  for (uint32_t r = 0; r < RANKS; r++) by_controller_check(job.controllers[r], job.now);
  settle();
  assert_int_equal(job.stalls, 1);
  next("too late for a rank");
  by_controller_late(job.controllers[1], "bias", &usual, job.now);
  settle();
  assert_int_equal(job.stalls, 2);
  submit_to(2, "bias", &usual);
  next("a late rank comes");
  settle();
  check_started(1, 1);
  finish();
}

/* All go over to a tree with rank 2 at the root, while an operation waits for one rank; what the other two have
 * submitted is announced anew. */
static void test_another_tree(void **state) {
  uint32_t up[RANKS] = {2, 2, 2}, down[RANKS] = {1, 2, 2};
  const struct by_controller_tree tree = {.number = 0x01020304, .ranks = RANKS, .up = up, .down = down};
  (void)state;
  begin("another tree");
  submit_to(0, "bias", &usual);
  submit_to(1, "bias", &usual);
  assert_ok(by_controller_move(job.controllers[0], &tree));
  settle();
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(by_controller_tree_number(job.controllers[r]), tree.number);
    assert_int_equal(by_controller_place(job.controllers[r])->up_parent, 2);
  }
  submit_to(2, "bias", &usual);
  next("after another tree");
  settle();
  check_started(1, 1);
  finish();
}

/* More ranks lack the operation than a list has room for, and some ranks do not answer. */
static void test_lack_of_many(void **state) {
  struct by_stall stall = {.name = "bias",
                           .operation = usual,
                           .top = 0x01020304,
                           .n_ranges = 2,
                           .ranges = {{2, 5}, {7, 7}},
                           .more = 0x11121314,
                           .silent = 0x21222324};
  uint8_t bytes[200], again[200];
  struct by_writer writer;
  struct by_subject subject;
  struct by_stall read;
  struct by_reader reader;
  (void)state;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_write_stall(&writer, &stall);
  size_t length = writer.length;
  golden_bytes("entry, who lacks an operation", bytes, length);
  by_reader_init(&reader, bytes, length);
  by_read_stall(&reader, &subject, &read);
  assert_ok(by_reader_check(&reader, "entry"));
  by_writer_init(&writer, again, sizeof again);
  by_write_stall(&writer, &read);
  assert_int_equal(writer.length, length);
  assert_memory_equal(again, bytes, length);
}

static void test_notes(void **state) {
  (void)state;
  begin("a note");
  by_controller_announce(job.controllers[0], 0x01020304);
  settle();
  assert_int_equal(job.notes, RANKS);
  finish();
}

int golden_negotiation(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_iterations),   cmocka_unit_test(test_many_bits), cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_stalls),       cmocka_unit_test(test_notes),     cmocka_unit_test(test_another_tree),
      cmocka_unit_test(test_lack_of_many), cmocka_unit_test(golden_end),
  };
  golden_begin("negotiation", "Messages between controllers.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
