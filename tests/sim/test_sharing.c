/* How the messages of one link share it. The test plays the peer and reads, frame by frame, what an engine sends. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine.h"
#include "simulated_lanes.h"

enum { BYTES = 1 << 16, CHUNK = 512, TREES = 3, CALLS = 2 };

/* The trees' shares of the buffer. All trees have their root at the peer, so this rank sends everything at once. */
static const double shares[TREES] = {0.125, 0.625, 0.25};

static struct by_plan *make_plan(void) {
  static const char text[] = "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"trees\": ["
                             "{\"share\": 0.125, \"root\": \"1\", \"up\": {\"0\": \"1\"}},"
                             "{\"share\": 0.625, \"root\": \"1\", \"up\": {\"0\": \"1\"}},"
                             "{\"share\": 0.25, \"root\": \"1\", \"up\": {\"0\": \"1\"}}]}";
  struct by_plan *plan;
  assert_ok(by_plan_parse("test", text, strlen(text), &plan));
  return plan;
}

struct rank {
  struct by_sim *sim;
  struct by_engine *engine;
  struct by_team *team;
  struct by_lane *peer;
  struct by_call *calls[CALLS];
  char *memory;
  uint64_t sent[CALLS][TREES]; /* bytes that have arrived at the peer */
};

static void make(struct rank *rank) {
  static const uint32_t all[2] = {0, 1};
  struct by_sim_options net = {.delay = BY_MICROSECOND, .buffer = 2 * CHUNK};
  struct by_lane *lane;
  *rank = (struct rank){0};
  assert_ok(by_sim_create(&net, &rank->sim));
  assert_ok(by_sim_link(rank->sim, &lane, &rank->peer));
  struct by_engine_options options = {.processes = 2, .clock = by_sim_clock(rank->sim), .chunk = CHUNK};
  assert_ok(by_engine_create(&options, &rank->engine));
  assert_ok(by_team_create(rank->engine, 0, 0, 2, all, &rank->team));
  by_team_set_plan(rank->team, make_plan());
  by_engine_attach(rank->engine, 1, &lane, 1);
  rank->memory = calloc(CALLS, BYTES);
  assert_non_null(rank->memory);
}

static void start(struct rank *rank, int call) {
  struct banyan_call what = {.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_UINT8, .count = BYTES, .op = BANYAN_SUM};
  what.send = what.recv = rank->memory + (size_t)call * BYTES;
  assert_ok(by_engine_start(rank->team, &what, 0, &rank->calls[call]));
}

static void finish(struct rank *rank) {
  for (int i = 0; i < CALLS; i++)
    if (rank->calls[i]) by_call_release(rank->calls[i]);
  by_engine_destroy(rank->engine);
  rank->peer->ops->destroy(rank->peer);
  by_sim_destroy(rank->sim);
  free(rank->memory);
}

/* Reads and counts the next frame with data at the peer. Returns false if there is none. */
static bool receive(struct rank *rank, struct by_frame *out) {
  struct by_lane *peer = rank->peer;
  for (int turn = 0; turn < 1000; turn++) {
    const struct by_frame *frame = peer->ops->peek(peer);
    if (!frame) {
      by_engine_progress(rank->engine);
      by_sim_step(rank->sim);
      continue;
    }
    char payload[CHUNK];
    *out = *frame;
    assert_true(frame->size <= CHUNK);
    assert_int_equal(peer->ops->read(peer, payload, frame->size), frame->size);
    peer->ops->next(peer);
    if (out->type != BY_FRAME_DATA) continue;
    assert_true(out->call < CALLS && out->tag < TREES);
    assert_int_equal(out->offset, rank->sent[out->call][out->tag]);
    rank->sent[out->call][out->tag] += out->size;
    return true;
  }
  return false;
}

/* Checks that all messages of a call have made the same progress, except for one frame. */
static void check_pace(const struct rank *rank, int call) {
  double least = 1, most = 0, frame = 0;
  for (int t = 0; t < TREES; t++) {
    double part = (double)rank->sent[call][t] / (shares[t] * BYTES);
    if (part < least) least = part;
    if (part > most) most = part;
    if (CHUNK / (shares[t] * BYTES) > frame) frame = CHUNK / (shares[t] * BYTES);
  }
  if (most - least > 1.01 * frame) fail_msg("one tree has sent %.3f of its share, another one %.3f", most, least);
}

static void check_whole(const struct rank *rank, int call) {
  for (int t = 0; t < TREES; t++) assert_int_equal(rank->sent[call][t], (uint64_t)(shares[t] * BYTES));
}

static void test_trees_keep_pace(void **state) {
  (void)state;
  struct rank rank;
  struct by_frame frame;
  make(&rank);
  start(&rank, 0);
  while (receive(&rank, &frame)) check_pace(&rank, 0);
  check_whole(&rank, 0);
  finish(&rank);
}

/* A call is not delayed by an earlier call, though the earlier call has many messages. */
static void test_calls_take_turns(void **state) {
  (void)state;
  struct rank rank;
  struct by_frame frame;
  uint32_t in_a_row = 0, most = 0, last = 0;
  make(&rank);
  start(&rank, 0);
  start(&rank, 1);
  for (int i = 0; i < BYTES / CHUNK; i++) { /* half of what both calls send */
    assert_true(receive(&rank, &frame));
    in_a_row = frame.call == last ? in_a_row + 1 : 1;
    last = frame.call;
    if (in_a_row > most) most = in_a_row;
    check_pace(&rank, 0);
    check_pace(&rank, 1);
  }
  assert_true(most <= 2 * TREES);
  while (receive(&rank, &frame)) {
  }
  for (int call = 0; call < CALLS; call++) check_whole(&rank, call);
  finish(&rank);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees_keep_pace),
      cmocka_unit_test(test_calls_take_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
