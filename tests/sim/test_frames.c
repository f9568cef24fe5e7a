/* The test plays a peer and sends single frames. If the peer breaks the protocol, the engine must end with
 * BANYAN_ERR_PROTOCOL and must not touch memory outside its buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "describe.h"
#include "engine.h"
#include "simulated_lanes.h"

enum { BYTES = 4096, LONG = 96 << 10, ROOM = 1 << 20, TURNS = 100 };

struct rank {
  struct by_sim *sim;
  struct by_engine *engine;
  struct by_team *team;
  struct by_lane *peer;  /* the other end of the rank's link, */
  struct by_lane *other; /* and of a second lane; NULL: there is none */
  struct by_call *call;
  char *memory, *theirs;
};

static void make_over(struct rank *rank, const struct by_sim_options *net, uint32_t n_lanes) {
  static const uint32_t all[2] = {0, 1};
  struct by_lane *lanes[2];
  struct by_plan *plan;
  assert_ok(by_sim_create(net, &rank->sim));
  assert_ok(by_sim_link(rank->sim, &lanes[0], &rank->peer));
  if (n_lanes > 1) assert_ok(by_sim_link(rank->sim, &lanes[1], &rank->other));
  struct by_engine_options options = {.processes = 2, .clock = by_sim_clock(rank->sim), .locate = by_sim_locate};
  assert_ok(by_engine_create(&options, &rank->engine));
  assert_ok(by_team_create(rank->engine, 0, 0, 2, all, &rank->team));
  assert_ok(by_plan_builtin("star", 2, &plan));
  by_team_set_plan(rank->team, plan);
  by_engine_attach(rank->engine, 1, lanes, n_lanes);
  rank->memory = calloc(1, ROOM);
  rank->theirs = calloc(1, ROOM);
  assert_true(rank->memory && rank->theirs);
}

static void make(struct rank *rank, size_t offer_from) {
  make_over(rank, &(struct by_sim_options){.delay = BY_MICROSECOND, .offer_from = offer_from}, 1);
}

static void finish(struct rank *rank) {
  by_call_release(rank->call);
  by_engine_destroy(rank->engine);
  rank->peer->ops->destroy(rank->peer);
  if (rank->other) rank->other->ops->destroy(rank->other);
  by_sim_destroy(rank->sim);
  free(rank->memory);
  free(rank->theirs);
}

static void start_sized(struct rank *rank, enum banyan_collective what, size_t count) {
  struct banyan_call call = {.collective = what, .dtype = BANYAN_UINT8, .count = count, .root = 1, .op = BANYAN_SUM};
  call.send = call.recv = rank->memory;
  assert_ok(by_engine_start(rank->team, &call, 0, &rank->call));
}

static void start(struct rank *rank, enum banyan_collective what) {
  start_sized(rank, what, BYTES);
}

static void run(struct rank *rank) {
  for (int i = 0; i < TURNS; i++) {
    by_engine_progress(rank->engine);
    by_sim_step(rank->sim);
  }
}

static void send_frame(struct rank *rank, struct by_frame frame, const void *payload) {
  assert_int_equal(rank->peer->ops->send(rank->peer, &frame, payload), BY_LANE_SENT);
}

/* Makes a frame for the only message that the rank receives from its peer. */
static struct by_frame of_receive(enum by_frame_type type, uint64_t offset) {
  return (struct by_frame){.type = (uint8_t)type,
                           .flags = BY_FRAME_PAIR,
                           .dtype_op = BANYAN_UINT8 << 4,
                           .offset = offset,
                           .count = BYTES,
                           .length_check = BYTES};
}

static void offer(struct rank *rank, uint32_t region, uint64_t ready) {
  struct by_offer offer = {.address = (uint64_t)(uintptr_t)rank->theirs, .region = region, .ready = ready};
  struct by_frame frame = of_receive(BY_FRAME_OFFER, 0);
  frame.size = sizeof offer;
  send_frame(rank, frame, &offer);
}

static void test_honest_offer(void **state) {
  (void)state;
  struct rank rank = {0};
  make(&rank, 64);
  memset(rank.theirs, 5, BYTES);
  start(&rank, BANYAN_RECV);
  offer(&rank, 1, 1000);
  send_frame(&rank, of_receive(BY_FRAME_MORE, BYTES), NULL);
  run(&rank);
  assert_true(by_call_ended(rank.call));
  assert_ok(by_call_result(rank.call));
  assert_memory_equal(rank.memory, rank.theirs, BYTES);
  finish(&rank);
}

/* The transport cannot read the peer's memory. */
static void test_unreadable_offer(void **state) {
  (void)state;
  for (uint32_t region = 0; region < 2; region++) {
    struct rank rank = {0};
    make(&rank, 0);
    start(&rank, BANYAN_RECV);
    offer(&rank, region, BYTES);
    run(&rank);
    assert_status(by_engine_status(rank.engine), BANYAN_ERR_PROTOCOL);
    finish(&rank);
  }
}

/* A message is offered a second time after a part of it has been read. */
static void test_second_offer(void **state) {
  (void)state;
  struct rank rank = {0};
  make(&rank, 64);
  start(&rank, BANYAN_RECV);
  offer(&rank, 1, 1000);
  run(&rank);
  send_frame(&rank, of_receive(BY_FRAME_MORE, 2000), NULL);
  offer(&rank, 1, 10);
  run(&rank);
  assert_status(by_engine_status(rank.engine), BANYAN_ERR_PROTOCOL);
  finish(&rank);
}

/* The first half of a sum has arrived. The rank offers this half of the result, and its peer reports that it has
 * everything. */
static void test_early_done(void **state) {
  (void)state;
  struct rank rank = {0};
  make(&rank, 64);
  start(&rank, BANYAN_ALLREDUCE);
  struct by_frame frame = {.type = BY_FRAME_DATA,
                           .size = BYTES / 2,
                           .collective = BANYAN_ALLREDUCE,
                           .dtype_op = BANYAN_UINT8 << 4 | BANYAN_SUM,
                           .count = BYTES,
                           .plan = by_team_plan(rank.team)->version,
                           .length_check = BYTES};
  send_frame(&rank, frame, rank.theirs);
  run(&rank);
  const struct by_frame *received = rank.peer->ops->peek(rank.peer);
  assert_non_null(received);
  assert_int_equal(received->type, BY_FRAME_OFFER);
  assert_ok(by_engine_status(rank.engine));
  frame.type = BY_FRAME_DONE;
  frame.size = 0;
  frame.offset = BYTES;
  send_frame(&rank, frame, NULL);
  run(&rank);
  assert_status(by_engine_status(rank.engine), BANYAN_ERR_PROTOCOL);
  finish(&rank);
}

static uint64_t received(const struct rank *rank) {
  struct banyan_counters counters;
  by_engine_counters(rank->engine, &counters);
  return counters.bytes_received;
}

/* A part of a frame arrives while another call is under way. When the frame's own call is made, this part is added and
 * forwarded before the rest arrives. Returns whether the frame arrived in parts. */
static bool uses_part(uint64_t seed) {
  struct rank rank = {0};
  struct by_call *first;
  make_over(&rank, &(struct by_sim_options){.seed = seed, .split = true, .buffer = ROOM}, 1);
  start(&rank, BANYAN_RECV);
  first = rank.call;
  struct by_frame frame = {.type = BY_FRAME_DATA,
                           .flags = BY_FRAME_EAGER,
                           .size = LONG,
                           .collective = BANYAN_ALLREDUCE,
                           .dtype_op = BANYAN_UINT8 << 4 | BANYAN_SUM,
                           .count = LONG,
                           .plan = by_team_plan(rank.team)->version,
                           .length_check = LONG};
  send_frame(&rank, frame, rank.theirs);
  by_sim_step(rank.sim);
  by_engine_progress(rank.engine);
  uint64_t came = received(&rank);
  start_sized(&rank, BANYAN_ALLREDUCE, LONG);
  by_engine_progress(rank.engine);
  by_sim_step(rank.sim);
  bool in_parts = came > LONG / 4 && received(&rank) < LONG;
  const struct by_frame *received = rank.peer->ops->peek(rank.peer);
  if (in_parts) assert_true(received && received->type == BY_FRAME_DATA);
  run(&rank);
  assert_ok(by_engine_status(rank.engine));
  by_call_release(first);
  finish(&rank);
  return in_parts;
}

static void test_uses_part(void **state) {
  (void)state;
  int in_parts = 0;
  for (uint64_t seed = 1; seed <= check_seeds(100); seed++) in_parts += uses_part(seed);
  assert_true(in_parts > 5);
}

static bool suspect(void *context, uint32_t process, const char *text) {
  char *suspicion = context;
  assert_int_equal(process, 1);
  snprintf(suspicion, 200, "%s", text);
  return true;
}

/* The peer is a helper. Whatever it sends that it must not send costs the job the helper, and not the job. */
static void test_frames_of_helper(void **state) {
  static const struct by_frame wrong[] = {
      {.type = BY_FRAME_TYPES},
      {.type = BY_FRAME_CONTROL, .size = 8, .count = 8},
      {.type = BY_FRAME_CONTROL, .size = 8, .count = 7},
  };
  static const char payload[8] = {0};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char suspicion[200] = "";
    struct rank rank = {0};
    struct by_lane *lane;
    assert_ok(by_sim_create(&(struct by_sim_options){.delay = BY_MICROSECOND}, &rank.sim));
    assert_ok(by_sim_link(rank.sim, &lane, &rank.peer));
    struct by_engine_options options = {
        .processes = 2, .ranks = 1, .clock = by_sim_clock(rank.sim), .suspects = suspect, .context = suspicion};
    assert_ok(by_engine_create(&options, &rank.engine));
    by_engine_attach(rank.engine, 1, &lane, 1);
    by_engine_expect_control_messages(rank.engine, 1);
    send_frame(&rank, wrong[i], payload);
    run(&rank);
    assert_ok(by_engine_status(rank.engine));
    assert_non_null(strstr(suspicion, "it sent "));
    assert_null(by_engine_read(rank.engine));
    by_engine_lost(rank.engine, 1);
    run(&rank);
    assert_true(by_engine_peer(rank.engine, 1).lost);
    by_engine_destroy(rank.engine);
    rank.peer->ops->destroy(rank.peer);
    by_sim_destroy(rank.sim);
  }
}

/* Over two lanes, parts of one byte each come in an order that leaves a gap behind each of them. */
static void test_too_many_parts(void **state) {
  (void)state;
  struct rank rank = {0};
  make_over(&rank, &(struct by_sim_options){.delay = BY_MICROSECOND}, 2);
  start(&rank, BANYAN_RECV);
  uint32_t sent = 0;
  for (; sent < BYTES / 2 - 1 && by_engine_status(rank.engine) == BANYAN_OK; sent++) {
    struct by_frame frame = of_receive(BY_FRAME_DATA, 2 * sent + 1);
    frame.size = 1;
    send_frame(&rank, frame, "x");
    run(&rank);
  }
  assert_status(by_engine_status(rank.engine), BANYAN_ERR_PROTOCOL);
  assert_in_range(sent, BYTES / 64, BYTES / 32);
  finish(&rank);
}

/* The error about two calls says what differs in them, also where that is not printed otherwise. */
static void test_texts_of_differences(void **state) {
  (void)state;
  const struct by_frame usual = {.collective = BANYAN_BARRIER, .dtype_op = BANYAN_UINT8 << 4, .call = 7};
  struct by_frame odd[6] = {usual, usual, usual, usual, usual, usual};
  static const char *const expected[6] = {
      "allgather",
      "x bf16",
      "operation number 2 in place of 0",
      "root number 9 in place of 0",
      "7 x ",
      "divided into other messages",
  };
  odd[0].collective = BANYAN_ALLGATHER;
  odd[1].dtype_op = 3 << 4;
  odd[2].dtype_op |= 2;
  odd[3].root = 9;
  odd[4].count = 7;
  for (int i = 0; i < 6; i++) {
    char text[1024];
    struct by_differing a = {"rank 1", &usual, NULL}, b = {"rank 2", &odd[i], NULL};
    by_engine_differ_text(&a, &b, text, sizeof text);
    if (!strstr(text, expected[i])) fail_msg("%d: %s", i, text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts_of_differences), cmocka_unit_test(test_honest_offer),
      cmocka_unit_test(test_unreadable_offer),     cmocka_unit_test(test_second_offer),
      cmocka_unit_test(test_early_done),           cmocka_unit_test(test_uses_part),
      cmocka_unit_test(test_frames_of_helper),     cmocka_unit_test(test_too_many_parts),
  };
  return cmocka_run_group_tests_name("frames from a peer", tests, NULL, NULL);
}
