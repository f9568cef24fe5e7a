/* Two ranks with two teams. A rank destroys one team while its peer still sends for it. The other team, over the same
 * link, continues. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "engine.h"
#include "plan.h"
#include "simulated_lanes.h"

enum { LARGE = 16 << 20, SMALL = 1000, OTHER = 5, FITS = 400 << 10, TURNS = 200000, FEW = 50 };

struct pair {
  struct by_sim *sim;
  struct by_engine *engines[2];
  struct by_team *worlds[2], *others[2];
  char *memory[2];
};

static void make(struct pair *pair, const struct by_sim_options *net) {
  static const uint32_t all[2] = {0, 1};
  struct by_lane *lanes[2];
  assert_ok(by_sim_create(net, &pair->sim));
  assert_ok(by_sim_link(pair->sim, &lanes[0], &lanes[1]));
  for (uint32_t r = 0; r < 2; r++) {
    struct by_engine_options options = {
        .processes = 2, .self = r, .clock = by_sim_clock(pair->sim), .locate = by_sim_locate};
    assert_ok(by_engine_create(&options, &pair->engines[r]));
    assert_ok(by_team_create(pair->engines[r], 0, r, 2, all, &pair->worlds[r]));
    assert_ok(by_team_create(pair->engines[r], OTHER, r, 2, all, &pair->others[r]));
    by_engine_attach(pair->engines[r], 1 - r, &lanes[r], 1);
    pair->memory[r] = calloc(1, LARGE);
    assert_non_null(pair->memory[r]);
  }
}

static void finish(struct pair *pair) {
  for (int r = 0; r < 2; r++) by_engine_destroy(pair->engines[r]);
  for (int r = 0; r < 2; r++) free(pair->memory[r]);
  by_sim_destroy(pair->sim);
}

static struct by_call *start(struct by_team *team, enum banyan_collective what, char *memory, size_t bytes) {
  struct by_call *started = NULL;
  struct banyan_call call = {.collective = what, .dtype = BANYAN_UINT8, .count = bytes, .send = memory, .recv = memory};
  call.root = 1 - (int)by_team_rank(team);
  assert_ok(by_engine_start(team, &call, 0, &started));
  return started;
}

/* Runs for this many turns, or until both calls have ended. */
static void run(struct pair *pair, const struct by_call *a, const struct by_call *b, int turns) {
  for (int i = 0; i < turns; i++) {
    for (int r = 0; r < 2; r++) {
      by_engine_progress(pair->engines[r]);
      assert_string_equal(by_engine_get_state(pair->engines[r])->error, "");
    }
    if (a && b && by_call_ended(a) && by_call_ended(b)) return;
    by_sim_step(pair->sim);
  }
}

static void exchange(struct pair *pair, int sender) {
  memset(pair->memory[sender], 7, SMALL);
  memset(pair->memory[1 - sender], 0, SMALL);
  struct by_call *send = start(pair->worlds[sender], BANYAN_SEND, pair->memory[sender], SMALL);
  struct by_call *receive = start(pair->worlds[1 - sender], BANYAN_RECV, pair->memory[1 - sender], SMALL);
  run(pair, send, receive, TURNS);
  assert_ok(by_call_result(send));
  assert_ok(by_call_result(receive));
  assert_true(by_call_ended(receive));
  for (int i = 0; i < SMALL; i++) assert_int_equal(pair->memory[1 - sender][i], 7);
  by_call_release(send);
  by_call_release(receive);
}

/* A part of a large message is granted when its receiver gives the call up. Then all of it is granted and discarded on
 * arrival, and its sender finishes after some time. */
static void test_gives_up_granted(void **state) {
  (void)state;
  static const struct by_sim_options nets[] = {{.delay = BY_MICROSECOND},
                                               {.delay = BY_MICROSECOND, .split = true, .keeps = 0.3, .holds = true}};
  for (int i = 0; i < 2; i++) {
    struct pair pair = {0};
    make(&pair, &nets[i]);
    struct by_call *send = start(pair.others[1], BANYAN_SEND, pair.memory[1], LARGE);
    struct by_call *receive = start(pair.others[0], BANYAN_RECV, pair.memory[0], LARGE);
    run(&pair, send, receive, FEW);
    assert_false(by_call_ended(receive));
    by_team_destroy(pair.others[0]);
    assert_true(by_call_ended(receive));
    by_call_release(receive);
    exchange(&pair, 0);
    run(&pair, send, receive = start(pair.worlds[0], BANYAN_RECV, pair.memory[0], SMALL), TURNS / 10);
    assert_true(by_call_ended(send));
    assert_ok(by_call_result(send));
    by_call_release(send);
    by_call_release(receive);
    finish(&pair);
  }
}

/* Calls that the receiver never makes use up the link's credit. The data that came for them is discarded, including the
 * rest of a frame, and the credit is returned. */
static void give_up_stored(int turns) {
  enum { CALLS = 20, MORE = 5, BYTES = 400 << 10 };
  struct pair pair = {0};
  struct by_sim_options net = {.seed = (uint64_t)turns, .delay = BY_MICROSECOND, .split = true};
  struct by_call *sends[CALLS + MORE];
  make(&pair, &net);
  /* Without this call nothing would be kept. */
  struct by_call *receive = start(pair.worlds[0], BANYAN_RECV, pair.memory[0], SMALL);
  for (int i = 0; i < CALLS; i++) sends[i] = start(pair.others[1], BANYAN_SEND, pair.memory[1], BYTES);
  run(&pair, NULL, NULL, turns);
  assert_false(by_call_ended(sends[CALLS - 1]));
  by_team_destroy(pair.others[0]);
  run(&pair, NULL, NULL, TURNS / 100);
  for (int i = CALLS; i < CALLS + MORE; i++) {
    sends[i] = start(pair.others[1], BANYAN_SEND, pair.memory[1], BYTES);
    run(&pair, sends[i], sends[i], TURNS / 100);
    assert_true(by_call_ended(sends[i]));
  }
  struct by_call *send = start(pair.worlds[1], BANYAN_SEND, pair.memory[1], SMALL);
  run(&pair, send, receive, TURNS);
  assert_true(by_call_ended(receive));
  assert_ok(by_call_result(receive));
  by_call_release(send);
  by_call_release(receive);
  by_team_destroy(pair.others[1]);
  for (int i = 0; i < CALLS + MORE; i++) by_call_release(sends[i]);
  finish(&pair);
}

static void test_gives_up_stored(void **state) {
  (void)state;
  for (int turns = 1; turns <= FEW; turns++) give_up_stored(turns);
  give_up_stored(TURNS / 100);
}

/* A message stays in the sender's memory until the receiver reports that it was read. This report has not been sent,
 * behind data that fills the wire, when the receiver's team is destroyed. */
static void test_owes_an_answer(void **state) {
  (void)state;
  enum { BYTES = 4096 };
  struct pair pair = {0};
  struct by_sim_options net = {.delay = BY_MICROSECOND, .buffer = 300, .offer_from = BYTES};
  make(&pair, &net);
  memset(pair.memory[1], 5, BYTES);
  struct by_call *send = start(pair.others[1], BANYAN_SEND, pair.memory[1], BYTES);
  by_engine_progress(pair.engines[1]);
  by_sim_step(pair.sim);
  struct by_call *filler = start(pair.worlds[0], BANYAN_SEND, pair.memory[0] + BYTES, SMALL);
  struct by_call *receive = start(pair.others[0], BANYAN_RECV, pair.memory[0], BYTES);
  for (int i = 0; i < FEW; i++) by_engine_progress(pair.engines[0]);
  assert_true(by_call_ended(receive));
  assert_memory_equal(pair.memory[0], pair.memory[1], BYTES);
  assert_true(by_team_owes(pair.others[0]));
  by_team_destroy(pair.others[0]);
  by_call_release(receive);
  receive = start(pair.worlds[1], BANYAN_RECV, pair.memory[1] + BYTES, SMALL);
  run(&pair, send, receive, TURNS / 10);
  assert_true(by_call_ended(send));
  assert_ok(by_call_result(send));
  by_call_release(send);
  by_call_release(receive);
  by_call_release(filler);
  finish(&pair);
}

/* A message stays in the sender's memory until its receiver has read it, or is sent from there. The receiver gives it
 * up before any of it has come, in the middle of it, or once it has begun. In another case the receiver never makes the
 * call. No call waits for the message, so the sender gets its memory back. */
static void give_up_borrowed(const struct by_sim_options *net, int turns, bool called) {
  struct pair pair = {0};
  make(&pair, net);
  struct by_call *receive =
      called ? start(pair.others[0], BANYAN_RECV, pair.memory[0], LARGE)
             : start(pair.worlds[0], BANYAN_RECV, pair.memory[0], SMALL); /* without this call nothing is kept */
  struct by_call *send = start(pair.others[1], BANYAN_SEND, pair.memory[1], called ? LARGE : FITS);
  run(&pair, NULL, NULL, turns);
  by_team_destroy(pair.others[0]);
  run(&pair, send, send, TURNS / 10);
  assert_true(by_call_ended(send));
  assert_ok(by_call_result(send));
  if (called) exchange(&pair, 1);
  by_call_release(send);
  by_call_release(receive);
  finish(&pair);
}

static void test_gives_up_borrowed(void **state) {
  (void)state;
  static const struct by_sim_options nets[] = {
      {.delay = BY_MICROSECOND, .offer_from = 4096},
      {.delay = BY_MICROSECOND, .offer_from = 4096, .map_fails = 0.1},
      {.delay = BY_MICROSECOND, .in_place_from = 4096},
      {.delay = BY_MICROSECOND, .in_place_from = 4096, .split = true, .keeps = 0.3, .holds = true}};
  for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
    for (int turns = 0; turns < FEW; turns++) {
      give_up_borrowed(&nets[i], turns, true);
      give_up_borrowed(&nets[i], turns, false);
    }
}

/* The receiver has not yet reported that it cannot read the message. */
static void test_owes_a_refusal(void **state) {
  (void)state;
  struct pair pair = {0};
  struct by_sim_options net = {.delay = BY_MICROSECOND, .buffer = 300, .offer_from = LARGE, .map_fails = 1};
  make(&pair, &net);
  struct by_call *send = start(pair.others[1], BANYAN_SEND, pair.memory[1], LARGE);
  by_engine_progress(pair.engines[1]);
  by_sim_step(pair.sim);
  struct by_call *filler = start(pair.worlds[0], BANYAN_SEND, pair.memory[0], SMALL);
  struct by_call *receive = start(pair.others[0], BANYAN_RECV, pair.memory[0], LARGE);
  for (int i = 0; i < FEW; i++) by_engine_progress(pair.engines[0]);
  by_team_destroy(pair.others[0]);
  by_call_release(receive);
  receive = start(pair.worlds[1], BANYAN_RECV, pair.memory[1], SMALL);
  run(&pair, send, send, TURNS);
  assert_true(by_call_ended(send));
  by_call_release(send);
  by_call_release(receive);
  by_call_release(filler);
  finish(&pair);
}

/* ---- three ranks, the last of which never makes the call */

enum { N = 3, BLOCK = 1 << 16 };

struct three {
  struct by_sim *sim;
  struct by_engine *engines[N];
  struct by_team *teams[N], *others[N];
  char memory[N][BLOCK * N];
};

static void make_three(struct three *three, const struct by_sim_options *net) {
  static const uint32_t all[N] = {0, 1, 2};
  struct by_lane *lanes[N][N];
  assert_ok(by_sim_create(net, &three->sim));
  for (uint32_t r = 0; r < N; r++)
    for (uint32_t s = 0; s < r; s++) assert_ok(by_sim_link(three->sim, &lanes[r][s], &lanes[s][r]));
  for (uint32_t r = 0; r < N; r++) {
    struct by_engine_options options = {
        .processes = N, .self = r, .clock = by_sim_clock(three->sim), .locate = by_sim_locate};
    struct by_plan *plan;
    assert_ok(by_engine_create(&options, &three->engines[r]));
    assert_ok(by_team_create(three->engines[r], 0, r, N, all, &three->teams[r]));
    assert_ok(by_team_create(three->engines[r], OTHER, r, N, all, &three->others[r]));
    assert_ok(by_plan_builtin("star", N, &plan));
    by_team_set_plan(three->teams[r], plan);
    for (uint32_t s = 0; s < N; s++)
      if (s != r) by_engine_attach(three->engines[r], s, &lanes[r][s], 1);
  }
}

static void run_three(struct three *three) {
  for (int turn = 0; turn < FEW; turn++) {
    for (uint32_t r = 0; r < N; r++) by_engine_progress(three->engines[r]);
    by_sim_step(three->sim);
  }
}

static struct by_call *start_in_three(struct three *three, uint32_t rank, enum banyan_collective what) {
  struct banyan_call call = {
      .collective = what, .dtype = BANYAN_UINT8, .count = BLOCK, .send = three->memory[rank], .recv = three->memory[2]};
  struct by_call *started;
  assert_ok(by_engine_start(three->teams[rank], &call, 0, &started));
  return started;
}

static void end_three(struct three *three) {
  for (uint32_t r = 0; r < N; r++) by_engine_destroy(three->engines[r]);
  by_sim_destroy(three->sim);
  free(three);
}

/* The root has all of one rank's message and nothing of the other rank's message, which it would add. */
static void test_gives_up_half(void **state) {
  static const struct by_sim_options net = {.delay = BY_MICROSECOND, .offer_from = 4096};
  struct three *three = calloc(1, sizeof *three);
  (void)state;
  assert_non_null(three);
  make_three(three, &net);
  struct by_call *root = start_in_three(three, 0, BANYAN_REDUCE), *leaf = start_in_three(three, 1, BANYAN_REDUCE);
  run_three(three);
  assert_false(by_call_ended(leaf));
  by_team_destroy(three->teams[0]);
  run_three(three);
  assert_true(by_call_ended(leaf));
  assert_ok(by_call_result(leaf));
  by_call_release(root);
  by_call_release(leaf);
  end_three(three);
}

/* The root has read one rank's block and has not reported it, behind data that fills the wire. It waits for the other
 * rank. */
static void test_owes_in_a_call(void **state) {
  static const struct by_sim_options net = {.delay = BY_MICROSECOND, .buffer = 300, .offer_from = BLOCK};
  struct three *three = calloc(1, sizeof *three);
  (void)state;
  assert_non_null(three);
  make_three(three, &net);
  struct by_call *leaf = start_in_three(three, 1, BANYAN_GATHER);
  by_engine_progress(three->engines[1]);
  by_sim_step(three->sim);
  struct banyan_call fills = {.collective = BANYAN_SEND, .dtype = BANYAN_UINT8, .count = SMALL, .root = 1};
  struct by_call *filler;
  fills.send = three->memory[0];
  assert_ok(by_engine_start(three->others[0], &fills, 0, &filler));
  struct by_call *root = start_in_three(three, 0, BANYAN_GATHER);
  for (int i = 0; i < FEW; i++) by_engine_progress(three->engines[0]);
  assert_false(by_call_ended(root));
  by_team_destroy(three->teams[0]);
  fills.collective = BANYAN_RECV;
  fills.root = 0;
  fills.recv = three->memory[1] + BLOCK;
  struct by_call *receive;
  assert_ok(by_engine_start(three->others[1], &fills, 0, &receive));
  for (int i = 0; i < FEW; i++) run_three(three);
  assert_true(by_call_ended(leaf));
  assert_ok(by_call_result(leaf));
  by_call_release(root);
  by_call_release(leaf);
  by_call_release(filler);
  by_call_release(receive);
  end_three(three);
}

static void end_lane(void *context, uint32_t process, struct by_lane *lane) {
  (void)process;
  (void)context;
  by_lane_fail(lane, BANYAN_ERR_PEER_DEAD, "it closed its connection");
}

/* The same report is pending when the rank that waits for it has left. Then nothing is owed. */
static void test_owes_a_rank_that_left(void **state) {
  (void)state;
  enum { BYTES = 4096 };
  struct pair pair = {0};
  struct by_sim_options net = {.delay = BY_MICROSECOND, .buffer = 300, .offer_from = BYTES};
  make(&pair, &net);
  struct by_call *send = start(pair.others[1], BANYAN_SEND, pair.memory[1], BYTES);
  by_engine_progress(pair.engines[1]);
  by_sim_step(pair.sim);
  struct by_call *filler = start(pair.worlds[0], BANYAN_SEND, pair.memory[0] + BYTES, SMALL);
  struct by_call *receive = start(pair.others[0], BANYAN_RECV, pair.memory[0], BYTES);
  for (int i = 0; i < FEW; i++) by_engine_progress(pair.engines[0]);
  by_team_destroy(pair.worlds[0]);
  assert_true(by_team_owes(pair.others[0]));
  by_engine_left(pair.engines[0], 1, false);
  by_engine_visit_lanes(pair.engines[0], end_lane, NULL);
  for (int i = 0; i < FEW; i++) by_engine_progress(pair.engines[0]);
  assert_string_equal(by_engine_get_state(pair.engines[0])->error, "");
  assert_false(by_team_owes(pair.others[0]));
  by_call_release(send);
  by_call_release(filler);
  by_call_release(receive);
  finish(&pair);
}

/* The team's number may be used again. */
static void test_number_again(void **state) {
  (void)state;
  static const uint32_t all[2] = {0, 1};
  struct pair pair = {0};
  struct by_sim_options net = {.delay = BY_MICROSECOND};
  make(&pair, &net);
  for (uint32_t r = 0; r < 2; r++) {
    by_team_destroy(pair.worlds[r]);
    assert_ok(by_team_create(pair.engines[r], 0, r, 2, all, &pair.worlds[r]));
  }
  exchange(&pair, 0);
  finish(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gives_up_granted),  cmocka_unit_test(test_gives_up_stored),
      cmocka_unit_test(test_owes_an_answer),    cmocka_unit_test(test_owes_a_rank_that_left),
      cmocka_unit_test(test_gives_up_borrowed), cmocka_unit_test(test_gives_up_half),
      cmocka_unit_test(test_owes_in_a_call),    cmocka_unit_test(test_owes_a_refusal),
      cmocka_unit_test(test_number_again),
  };
  return cmocka_run_group_tests_name("destroyed teams", tests, NULL, NULL);
}
