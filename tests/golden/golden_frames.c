/* Golden bytes of what crosses a link: the frame header, offers, the record in a shared-memory ring, and the payloads
 * of the library's own calls: descriptions of sparse rows, the rows, and the results of measuring that all ranks
 * receive.
 *
 * Frames come from two real engines over a simulated link, with one conversation for each reason to send a frame; of
 * each conversation the first frame of a kind and direction is kept, with its payload if that is short. The other
 * engine reads them, and the calls must succeed. The address in an offer is replaced by its distance from the
 * beginning of the buffer. */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "golden.h"
#include "lane.h"
#include "measure_parts.h"
#include "simulated_lanes.h"
#include "sparse_exchange.h"
#include "sparse_word.h"

enum { TURNS = 400, ROOM = 512 << 10, SHORT = 64, LONG = 600, REGION = 7, REGION_FD = 9 };

static const char *const type_names[BY_FRAME_TYPES] = {"NONE",   "DATA",  "OFFER",     "MORE",   "DONE",
                                                       "REFUSE", "GRANT", "CREDIT",    "FORGET", "GOODBYE",
                                                       "LETTER", "PROBE", "MEMBERSHIP"};

/* ---- two engines and their conversation ---- */

static struct {
  const char *name;
  struct by_sim *sim;
  struct by_lane *lanes[2];
  const struct by_lane_ops *real;
  struct by_lane_ops tapped;
  struct by_engine *engines[2];
  struct by_team *teams[2];
  struct by_call *calls[2];
  char *memory[2];
  bool keeps_all; /* Every frame is kept, and not only the first one of a kind. */
  unsigned n_kept;
  bool seen[2][BY_FRAME_TYPES][16];
} talk;

static bool types_seen[BY_FRAME_TYPES];

static void print_flags(uint8_t flags, char *out, size_t room) {
  snprintf(out, room, "%s%s%s%s", flags & BY_FRAME_EAGER ? " unasked" : "", flags & BY_FRAME_PAIR ? " pair" : "",
           flags & BY_FRAME_ASK ? " ask" : "", flags & BY_FRAME_HELD ? " held" : "");
}

static void note(int from, const struct by_frame *frame, const void *payload) {
  uint8_t bytes[sizeof *frame + SHORT];
  char name[128], flags[64];
  size_t n = frame->size <= SHORT ? frame->size : 0;
  assert_in_range(frame->type, BY_FRAME_DATA, BY_FRAME_MEMBERSHIP);
  types_seen[frame->type] = true;
  if (talk.seen[from][frame->type][frame->flags] && !talk.keeps_all) return;
  talk.seen[from][frame->type][frame->flags] = true;
  memcpy(bytes, frame, sizeof *frame);
  if (n) memcpy(bytes + sizeof *frame, payload, n);
  if (frame->type == BY_FRAME_OFFER) {
    struct by_offer offer;
    memcpy(&offer, payload, sizeof offer);
    offer.address -= (uint64_t)(uintptr_t)talk.memory[from];
    memcpy(bytes + sizeof *frame, &offer, sizeof offer);
  }
  print_flags(frame->flags, flags, sizeof flags);
  int used = snprintf(name, sizeof name, "%s, ", talk.name);
  if (talk.keeps_all) used += snprintf(name + used, sizeof name - (size_t)used, "frame %u, ", ++talk.n_kept);
  snprintf(name + used, sizeof name - (size_t)used, "%d to %d, %s%s", from, 1 - from, type_names[frame->type], flags);
  golden_bytes(name, bytes, sizeof *frame + n);
}

static enum by_lane_sent noted(enum by_lane_sent sent, const struct by_lane *lane, const struct by_frame *frame,
                               const void *payload) {
  if (sent != BY_LANE_FULL) note(lane == talk.lanes[1], frame, payload);
  return sent;
}

static enum by_lane_sent tap_send(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  return noted(talk.real->send(lane, frame, payload), lane, frame, payload);
}

static enum by_lane_sent tap_send_in_place(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  return noted(talk.real->send_in_place(lane, frame, payload), lane, frame, payload);
}

static void locate(void *context, const void *memory, size_t bytes, struct by_offer *offer) {
  const char *start = context;
  (void)bytes;
  offer->region = REGION;
  offer->region_fd = REGION_FD;
  offer->region_offset = (uint64_t)((const char *)memory - start);
  offer->region_size = ROOM;
}

/* Only process 0 has its buffers in a region. */
static void locate_at_0(void *context, const void *memory, size_t bytes, struct by_offer *offer) {
  if (context == talk.memory[0]) locate(context, memory, bytes, offer);
}

static void make_end(int i, struct by_engine_options options) {
  static const uint32_t all[2] = {0, 1};
  struct by_plan *plan;
  talk.memory[i] = calloc(1, ROOM);
  assert_non_null(talk.memory[i]);
  options.clock = by_sim_clock(talk.sim);
  options.processes = 2;
  options.self = (uint32_t)i;
  options.context = talk.memory[i];
  assert_ok(by_engine_create(&options, &talk.engines[i]));
  assert_ok(by_team_create(talk.engines[i], 0, (uint32_t)i, 2, all, &talk.teams[i]));
  assert_ok(by_plan_builtin("star", 2, &plan));
  by_team_set_plan(talk.teams[i], plan);
}

static void begin(const char *name, const struct by_sim_options *net, const struct by_engine_options *options) {
  memset(&talk, 0, sizeof talk);
  talk.name = name;
  assert_ok(by_sim_create(net, &talk.sim));
  assert_ok(by_sim_link(talk.sim, &talk.lanes[0], &talk.lanes[1]));
  talk.real = talk.lanes[0]->ops;
  talk.tapped = *talk.real;
  talk.tapped.send = tap_send;
  talk.tapped.send_in_place = tap_send_in_place;
  for (int i = 0; i < 2; i++) {
    make_end(i, *options);
    talk.lanes[i]->ops = &talk.tapped;
    by_engine_attach(talk.engines[i], (uint32_t)(1 - i), &talk.lanes[i], 1);
  }
}

static void run(void) {
  for (int i = 0; i < TURNS; i++) {
    for (int k = 0; k < 2; k++) by_engine_progress(talk.engines[k]);
    by_sim_step(talk.sim);
  }
}

static struct by_call *start(int end, enum banyan_collective what, size_t count) {
  struct banyan_call call = {.collective = what, .dtype = BANYAN_FLOAT32, .op = BANYAN_SUM, .count = count};
  struct by_call *out;
  call.root = what == BANYAN_SEND || what == BANYAN_RECV ? 1 - end : 0;
  call.tag = what == BANYAN_SEND || what == BANYAN_RECV ? 0x5555 : 0;
  call.send = talk.memory[end];
  call.recv = what == BANYAN_BROADCAST ? talk.memory[end] : talk.memory[end] + ROOM / 2;
  assert_ok(by_engine_start(talk.teams[end], &call, 0, &out));
  return out;
}

static void end_call(struct by_call *call) {
  assert_true(by_call_ended(call));
  assert_ok(by_call_result(call));
  by_call_release(call);
}

static void finish(void) {
  for (int i = 0; i < 2; i++) {
    assert_ok(by_engine_status(talk.engines[i]));
    by_engine_destroy(talk.engines[i]);
    free(talk.memory[i]);
  }
  by_sim_destroy(talk.sim);
}

static void make_both(enum banyan_collective of_0, enum banyan_collective of_1, size_t count) {
  float one = 1, two = 2;
  for (size_t i = 0; i < count; i++) {
    memcpy(talk.memory[0] + i * sizeof one, &one, sizeof one);
    memcpy(talk.memory[1] + i * sizeof two, &two, sizeof two);
  }
  struct by_call *calls[2] = {start(0, of_0, count), start(1, of_1, count)};
  run();
  end_call(calls[0]);
  end_call(calls[1]);
}

/* ---- conversations ---- */

static const struct by_sim_options plain = {.delay = BY_MICROSECOND};

static void test_small_calls(void **state) {
  (void)state;
  begin("allreduce of 4", &plain, &(struct by_engine_options){0});
  make_both(BANYAN_ALLREDUCE, BANYAN_ALLREDUCE, 4);
  finish();
  begin("broadcast of 4", &plain, &(struct by_engine_options){0});
  make_both(BANYAN_BROADCAST, BANYAN_BROADCAST, 4);
  finish();
  begin("send of 4", &plain, &(struct by_engine_options){0});
  make_both(BANYAN_RECV, BANYAN_SEND, 4);
  finish();
  begin("barrier", &plain, &(struct by_engine_options){0});
  make_both(BANYAN_BARRIER, BANYAN_BARRIER, 0);
  finish();
}

static const struct by_engine_options narrow = {
    .eager_limit = 4096, .window = 4096, .link_credit = 16384, .chunk = 1024, .block = 1024};

static void test_long_calls(void **state) {
  (void)state;
  begin("allreduce of 16384", &plain, &narrow);
  make_both(BANYAN_ALLREDUCE, BANYAN_ALLREDUCE, 16384);
  finish();
  begin("send of 16384", &plain, &narrow);
  make_both(BANYAN_SEND, BANYAN_RECV, 16384);
  finish();
}

/* The receiver makes its calls when the sender has no credit left. */
static void test_late_receiver(void **state) {
  enum { CALLS = 8 };
  struct by_call *sends[CALLS], *receives[CALLS];
  (void)state;
  begin("late receiver", &plain, &narrow);
  for (int i = 0; i < CALLS; i++) sends[i] = start(0, BANYAN_BROADCAST, 1024);
  run();
  for (int i = 0; i < CALLS; i++) receives[i] = start(1, BANYAN_BROADCAST, 1024);
  run();
  for (int i = 0; i < CALLS; i++) end_call(sends[i]);
  for (int i = 0; i < CALLS; i++) end_call(receives[i]);
  finish();
}

static void test_offers(void **state) {
  static const struct by_sim_options shared = {.delay = BY_MICROSECOND, .offer_from = 4096};
  static const struct by_sim_options closed = {.delay = BY_MICROSECOND, .offer_from = 4096, .map_fails = 1};
  (void)state;
  begin("offered region", &shared, &(struct by_engine_options){.locate = locate});
  make_both(BANYAN_ALLREDUCE, BANYAN_ALLREDUCE, 65536);
  assert_true(by_engine_forget_region(talk.engines[0], &(struct by_region){.id = REGION}));
  run();
  finish();
  begin("offer that grows", &shared, &(struct by_engine_options){.locate = locate_at_0});
  make_both(BANYAN_ALLREDUCE, BANYAN_ALLREDUCE, 65536);
  finish();
  begin("refused offer", &closed, &(struct by_engine_options){.locate = locate});
  make_both(BANYAN_SEND, BANYAN_RECV, 16384);
  finish();
}

static void test_held(void **state) {
  static const struct by_sim_options in_place = {.delay = BY_MICROSECOND, .in_place_from = 4096};
  (void)state;
  begin("held message", &in_place, &(struct by_engine_options){0});
  make_both(BANYAN_SEND, BANYAN_RECV, 16384);
  finish();
}

/* Sends the first part of a long message that belongs to no call, and of a short one. */
static void test_messages_beside_calls(void **state) {
  unsigned char bytes[LONG];
  (void)state;
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
  begin("long message", &plain, &(struct by_engine_options){0});
  by_engine_expect_control_messages(talk.engines[1], 0);
  assert_ok(by_engine_write(talk.engines[0], 1, 0x01020304, bytes, sizeof bytes));
  run();
  talk.name = "short message";
  memset(talk.seen, 0, sizeof talk.seen);
  assert_ok(by_engine_write(talk.engines[0], 1, 0x01020304, "update", 6));
  run();
  struct by_control_message *got = by_engine_read(talk.engines[1]);
  assert_non_null(got);
  assert_int_equal(got->bytes, sizeof bytes);
  assert_memory_equal(got->data, bytes, sizeof bytes);
  by_control_message_free(talk.engines[1], got);
  got = by_engine_read(talk.engines[1]);
  assert_non_null(got);
  assert_int_equal(got->team, 0x01020304);
  assert_memory_equal(got->data, "update", 6);
  by_control_message_free(talk.engines[1], got);
  finish();
}

static void test_goodbye(void **state) {
  (void)state;
  begin("goodbye", &plain, &(struct by_engine_options){0});
  assert_true(by_engine_goodbye(talk.engines[0]));
  run();
  finish();
}

static void test_probe(void **state) {
  (void)state;
  begin("probe", &plain, &(struct by_engine_options){0});
  by_engine_probe(talk.engines[0], 1, 40);
  run();
  finish();
}

static void test_membership(void **state) {
  struct by_handover handovers[2];
  struct by_lane *lanes[2];
  bool through[2] = {false, false};
  (void)state;
  begin("change of membership", &plain, &(struct by_engine_options){.keeps_lanes = true});
  for (int i = 0; i < 2; i++) {
    by_engine_fail(talk.engines[i], BANYAN_ERR_CLOSED, UINT32_MAX, "another membership");
    assert_int_equal(by_engine_take_lanes(talk.engines[i], (uint32_t)(1 - i), &lanes[i]), 1);
    by_handover_init(&handovers[i], lanes[i], 0x0123456789abcdef, i);
  }
  for (int i = 0; i < TURNS; i++) {
    for (int k = 0; k < 2; k++) through[k] = by_handover_progress(&handovers[k]);
    by_sim_step(talk.sim);
  }
  for (int i = 0; i < 2; i++) {
    assert_true(through[i]);
    lanes[i]->ops->destroy(lanes[i]);
    by_engine_destroy(talk.engines[i]);
    free(talk.memory[i]);
  }
  by_sim_destroy(talk.sim);
}

static void test_all_types(void **state) {
  (void)state;
  for (int type = BY_FRAME_DATA; type < BY_FRAME_TYPES; type++)
    if (!types_seen[type]) fail_msg("no conversation has a frame %s", type_names[type]);
}

/* ---- layouts ---- */

static void test_layouts(void **state) {
  static const struct by_frame frame = {.size = 0x01020304,
                                        .type = 0x11,
                                        .flags = 0x12,
                                        .collective = 0x13,
                                        .dtype_op = 0x14,
                                        .team = 0x21222324,
                                        .call = 0x31323334,
                                        .tag = 0x41424344,
                                        .root = 0x51525354,
                                        .offset = 0x6162636465666768,
                                        .count = 0x7172737475767778,
                                        .plan = 0x81828384,
                                        .length_check = 0x91929394};
  static const struct by_offer offer = {.address = 0x0102030405060708,
                                        .ready = 0x1112131415161718,
                                        .region_offset = 0x2122232425262728,
                                        .region_size = 0x3132333435363738,
                                        .region = 0x41424344,
                                        .region_fd = 0x51525354};
  static const struct by_experiment experiment = {.n = 0x01020304,
                                                  .max_block = 0x11121314,
                                                  .depth = 0x21222324,
                                                  .first = 0x31323334,
                                                  .one_way = 1,
                                                  .warm_up = 0.5,
                                                  .duration = 1,
                                                  .margin = 0.25,
                                                  .late = 0.125};
  static const struct by_flow_order orders[2] = {{.from = 1, .to = 2, .block = 65536}, {3, 4, 1 << 20}};
  (void)state;
  golden_bytes("layout of a frame", &frame, sizeof frame);
  golden_bytes("layout of an offer", &offer, sizeof offer);
  golden_bytes("layout of an experiment", &experiment, sizeof experiment);
  golden_bytes("layout of flow orders", orders, sizeof orders);
}

/* This is how ranks describe their sparse rows. */
static void test_sparse_description(void **state) {
  static const float values[6] = {1, 2, 3, 4, 5, 6};
  static const int64_t sound[3] = {7, 3, 11}, bad[3] = {7, 3, 1000};
  struct banyan_sparse rows = {.dtype = BANYAN_FLOAT32,
                               .row_dtype = BANYAN_INT64,
                               .height = 1000,
                               .width = 2,
                               .count = 3,
                               .rows = (void *)(uintptr_t)sound,
                               .values = (void *)(uintptr_t)values};
  struct banyan_sparse_call call = {.op = BANYAN_AVERAGE, .way = BANYAN_SPARSE_MERGE, .in = &rows};
  struct by_sparse_words words;
  bool ascending;
  (void)state;
  assert_ok(by_sparse_words_init(&words, 1));
  struct by_sparse_word *word = by_sparse_word_of(&words, 0);
  *word = (struct by_sparse_word){.memory = 1 << 20,
                                  .crowd = 384,
                                  .fixed = 1,
                                  .far = 1,
                                  .delay = 0x01020304,
                                  .ended = 0x0506,
                                  .lasted = 0x0708090a};
  assert_true(by_sparse_word_scan(word, &rows, &ascending));
  by_sparse_word_fill(word, words.sample, &call, &rows);
  golden_bytes("sparse description of 3 rows", word, words.stride * sizeof(uint64_t));
  assert_ok(by_sparse_words_check(&words));
  rows.rows = (void *)(uintptr_t)bad;
  memset(word, 0, words.stride * sizeof(uint64_t));
  word->memory = 1 << 20;
  assert_false(by_sparse_word_scan(word, &rows, &ascending));
  by_sparse_word_fill(word, words.sample, &call, NULL);
  golden_bytes("sparse description of a bad row", word, words.stride * sizeof(uint64_t));
  assert_int_not_equal(by_sparse_words_check(&words), BANYAN_OK);
  by_sparse_words_fini(&words);
}

struct sparse {
  struct by_sparse_queue *queue;
  struct by_sparse_exchange *exchange;
  struct banyan_sparse in, out;
};

static uint64_t stopped(void *context) {
  (void)context;
  return 0;
}

static void start_sparse(struct sparse *sparse, uint32_t end, enum banyan_sparse_way way) {
  static const int64_t rows[2][2] = {{3, 7}, {7, 11}};
  static const float values[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  static const uint32_t all[2] = {0, 1};
  struct by_sparse_options options = {.engine = talk.engines[end],
                                      .team = talk.teams[end],
                                      .id = 7,
                                      .n = 2,
                                      .processes = all,
                                      .memory = 1 << 20,
                                      .crowd = 1,
                                      .fixed = true,
                                      .clock = {.now = stopped}};
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .way = way, .in = &sparse->in, .out = &sparse->out};
  sparse->in = (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                      .row_dtype = BANYAN_INT64,
                                      .height = 12,
                                      .width = 2,
                                      .count = 2,
                                      .rows = (void *)(uintptr_t)rows[end],
                                      .values = (void *)(uintptr_t)values[end]};
  assert_ok(by_sparse_queue_create(&options, &sparse->queue));
  sparse->exchange = by_sparse_take(sparse->queue);
  by_sparse_prepare(sparse->exchange, &call);
  assert_ok(by_sparse_start(sparse->exchange, 0));
}

static void end_sparse(struct sparse *sparse) {
  static const float sums[6] = {1, 2, 8, 10, 7, 8};
  assert_true(by_sparse_ended(sparse->exchange));
  assert_ok(by_sparse_result(sparse->exchange));
  assert_int_equal(sparse->out.count, 3);
  assert_memory_equal(sparse->out.values, sums, sizeof sums);
  by_sparse_release(sparse->exchange);
  by_sparse_queue_destroy(sparse->queue);
  banyan_sparse_free(&sparse->out);
}

/* These are all frames of a sparse call, one direction after the other: the ranks' descriptions of their rows, then
 * the rows. */
static void test_sparse_calls(void **state) {
  (void)state;
  for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++) {
    struct sparse ends[2] = {{0}};
    char name[32];
    snprintf(name, sizeof name, "sparse allreduce, %s", banyan_sparse_way_name((enum banyan_sparse_way)way));
    begin(name, &plain, &(struct by_engine_options){0});
    talk.keeps_all = true;
    for (uint32_t i = 0; i < 2; i++) start_sparse(&ends[i], i, (enum banyan_sparse_way)way);
    for (int turn = 0; turn < TURNS; turn++) {
      for (int i = 0; i < 2; i++) {
        by_engine_progress(talk.engines[i]);
        (void)by_sparse_progress(ends[i].queue);
      }
      by_sim_step(talk.sim);
    }
    for (int i = 0; i < 2; i++) end_sparse(&ends[i]);
    finish();
  }
}

/* ---- shared memory ---- */

static void make_lanes(struct by_lane *lanes[2], int segment) {
  int sockets[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  for (int i = 0; i < 2; i++) {
    struct by_shm_ends ends = {.socket = sockets[i],
                               .segment = dup(segment),
                               .peer_wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                               .peer = getpid(),
                               .first = !i};
    assert_ok(by_shm_create(&ends, &lanes[i]));
  }
}

/* One frame has a payload and one has none: the first record takes two lines. */
static void test_ring(void **state) {
  static const char payload[20] = "twenty bytes of data";
  struct by_frame frame = {.type = BY_FRAME_DATA, .size = sizeof payload, .team = 0x01020304};
  struct by_frame empty = {.type = BY_FRAME_MORE, .offset = 0x1112131415161718};
  struct by_lane *lanes[2];
  char taken[sizeof payload];
  int segment = by_shm_segment(2, 2);
  (void)state;
  assert_true(segment >= 0);
  make_lanes(lanes, segment);
  const uint8_t *ring = mmap(NULL, 4096, PROT_READ, MAP_SHARED, segment, 0);
  assert_ptr_not_equal(ring, MAP_FAILED);
  assert_int_equal(lanes[0]->ops->send(lanes[0], &frame, payload), BY_LANE_SENT);
  assert_int_equal(lanes[0]->ops->send(lanes[0], &empty, NULL), BY_LANE_SENT);
  assert_true(lanes[0]->ops->flush(lanes[0]));
  golden_bytes("ring with two records", ring, 4096);
  assert_non_null(lanes[1]->ops->peek(lanes[1]));
  assert_int_equal(lanes[1]->ops->read(lanes[1], taken, sizeof taken), sizeof taken);
  assert_memory_equal(taken, payload, sizeof taken);
  lanes[1]->ops->next(lanes[1]);
  assert_int_equal(lanes[1]->ops->peek(lanes[1])->offset, empty.offset);
  lanes[1]->ops->next(lanes[1]);
  (void)munmap((void *)(uintptr_t)ring, 4096);
  close(segment);
  for (int i = 0; i < 2; i++) lanes[i]->ops->destroy(lanes[i]);
}

int golden_frames(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_calls),   cmocka_unit_test(test_long_calls),
      cmocka_unit_test(test_late_receiver), cmocka_unit_test(test_offers),
      cmocka_unit_test(test_held),          cmocka_unit_test(test_messages_beside_calls),
      cmocka_unit_test(test_goodbye),       cmocka_unit_test(test_probe),
      cmocka_unit_test(test_membership),    cmocka_unit_test(test_all_types),
      cmocka_unit_test(test_layouts),       cmocka_unit_test(test_sparse_description),
      cmocka_unit_test(test_sparse_calls),  cmocka_unit_test(test_ring),
      cmocka_unit_test(golden_end),
  };
  golden_begin("frames", "What crosses links between ranks: frames, offers, rings in shared memory.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
