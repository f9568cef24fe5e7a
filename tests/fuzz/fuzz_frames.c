/* Frames on links. Three ranks make real calls over the simulated network. The input determines how the frames that
 * reach rank 0 are altered, repeated, or deprived of their payload. The first bytes select plan, call, sizes and
 * transport. Each edit then has four bytes: how many frames to leave unchanged, what to alter, and a value. Without
 * changes the calls must succeed; with changes they may fail, but nothing else may happen. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "simulated_lanes.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANKS = 3, MOST_CALLS = 3, SETUP = 6, EDIT = 4, TURNS = 2000, IDLE = 32, HEADER = sizeof(struct by_frame) };
/* What to alter: a byte of the header below HEADER, or one of these. */
enum { REPEAT = HEADER, FORGE, KINDS };

struct input {
  const uint8_t *at, *end;
  uint32_t skipped;
  bool altered; /* a frame has been altered */
};

/* A lane in front of the lane from which rank 0 receives. */
struct tap {
  struct by_lane lane;
  struct by_lane *inner;
  struct input *input;
  struct by_frame frame;
  bool in_frame, forged, again; /* forged: the payload is zeros; again: the inner frame is still to be delivered */
};

static struct tap *tap_of(const struct by_lane *lane) {
  return (struct tap *)(uintptr_t)lane;
}

/* Returns the inner lane. When it has ended, the tap's lane ends too. */
static struct by_lane *inner_of(struct by_lane *lane) {
  struct by_lane *inner = tap_of(lane)->inner;
  if (inner->status != BANYAN_OK && lane->status == BANYAN_OK) by_lane_fail(lane, inner->status, "%s", inner->error);
  return inner;
}

static void alter(struct tap *tap) {
  struct input *input = tap->input;
  if (input->end - input->at < EDIT || input->skipped++ < input->at[0]) return;
  uint32_t what = input->at[1] % KINDS, value = input->at[2] | (uint32_t)input->at[3] << 8;
  input->at += EDIT;
  input->skipped = 0;
  if (!value) return;
  input->altered = true;
  tap->again = what == REPEAT;
  tap->forged = what >= REPEAT;
  if (what == FORGE) tap->frame.size = value;
  if (what < HEADER) ((uint8_t *)&tap->frame)[what] ^= (uint8_t)value;
  if (tap->frame.size != tap->lane.left) tap->forged = true;
  tap->lane.left = tap->frame.size;
}

static const struct by_frame *tap_peek(struct by_lane *lane) {
  struct tap *tap = tap_of(lane);
  if (tap->in_frame) return &tap->frame;
  const struct by_frame *frame = tap->inner->ops->peek(tap->inner);
  if (!inner_of(lane) || !frame) return NULL;
  tap->frame = *frame;
  tap->in_frame = true;
  tap->forged = tap->again = false;
  tap->lane.left = frame->size;
  alter(tap);
  return &tap->frame;
}

static size_t tap_view(struct by_lane *lane, const void **payload) {
  static const char zeros[1000];
  struct tap *tap = tap_of(lane);
  *payload = zeros;
  if (tap->forged) return tap->lane.left < sizeof zeros ? tap->lane.left : sizeof zeros;
  return tap->inner->ops->view(tap->inner, payload);
}

static void tap_take(struct by_lane *lane, size_t bytes) {
  struct tap *tap = tap_of(lane);
  assert(bytes <= tap->lane.left);
  if (!tap->forged) tap->inner->ops->take(tap->inner, bytes);
  tap->lane.left -= bytes;
}

static size_t tap_read(struct by_lane *lane, void *to, size_t most) {
  const void *payload;
  size_t n = tap_view(lane, &payload);
  if (n > most) n = most;
  memcpy(to, payload, n);
  tap_take(lane, n);
  return n;
}

static void tap_next(struct by_lane *lane) {
  struct tap *tap = tap_of(lane);
  const struct by_lane_ops *ops = tap->inner->ops;
  const void *payload;
  tap->in_frame = false;
  lane->left = 0;
  if (tap->again) return;
  for (size_t n; tap->inner->left; ops->take(tap->inner, n)) n = ops->view(tap->inner, &payload);
  ops->next(tap->inner);
}

static enum by_lane_sent tap_send(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  struct by_lane *inner = inner_of(lane);
  return inner->ops->send(inner, frame, payload);
}

static enum by_lane_sent tap_send_in_place(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  struct by_lane *inner = inner_of(lane);
  return inner->ops->send_in_place(inner, frame, payload);
}

static bool tap_flush(struct by_lane *lane) {
  struct by_lane *inner = inner_of(lane);
  return inner->ops->flush(inner);
}

static void tap_let_go(struct by_lane *lane) {
  struct by_lane *inner = inner_of(lane);
  inner->ops->let_go(inner);
}

/* The memory of an altered offer does not exist. Transports detect this; here nothing is read any more. */
static const char *tap_map(struct by_lane *lane, const struct by_offer *offer, uint64_t length) {
  struct tap *tap = tap_of(lane);
  return tap->input->altered ? NULL : tap->inner->ops->map(tap->inner, offer, length);
}

static void tap_destroy(struct by_lane *lane) {
  struct tap *tap = tap_of(lane);
  tap->inner->ops->destroy(tap->inner);
  free(tap);
}

static struct by_lane_ops tap_ops = {.name = "tap",
                                     .send = tap_send,
                                     .send_in_place = tap_send_in_place,
                                     .flush = tap_flush,
                                     .let_go = tap_let_go,
                                     .peek = tap_peek,
                                     .view = tap_view,
                                     .take = tap_take,
                                     .read = tap_read,
                                     .next = tap_next,
                                     .destroy = tap_destroy};

static struct by_lane *tap(struct by_lane *inner, struct input *input) {
  struct tap *tap = calloc(1, sizeof *tap);
  assert(tap);
  tap_ops.frame_bytes = inner->ops->frame_bytes;
  tap_ops.reads_memory = inner->ops->reads_memory;
  tap_ops.offer_from = inner->ops->offer_from;
  tap_ops.in_place_from = inner->ops->in_place_from;
  tap_ops.map = inner->ops->map ? tap_map : NULL;
  *tap = (struct tap){.lane = {.ops = &tap_ops, .poll_fd = -1}, .inner = inner, .input = input};
  return &tap->lane;
}

struct world {
  struct input input;
  struct by_sim *sim;
  struct by_engine *engines[RANKS];
  struct by_team *teams[RANKS];
  struct by_call *calls[RANKS][MOST_CALLS];
  struct banyan_call call;
  uint32_t n_calls, lanes;
  char *buffers[RANKS][MOST_CALLS][2];
};

static void link_all(struct world *world) {
  for (uint32_t a = 0; a < RANKS; a++)
    for (uint32_t b = a + 1; b < RANKS; b++) {
      struct by_lane *here[BY_LANES], *there[BY_LANES];
      for (uint32_t i = 0; i < world->lanes; i++) {
        assert(by_sim_link(world->sim, &here[i], &there[i]) == BANYAN_OK);
        if (a == 0) here[i] = tap(here[i], &world->input);
      }
      by_engine_attach(world->engines[a], b, here, world->lanes);
      by_engine_attach(world->engines[b], a, there, world->lanes);
    }
}

static void open_world(struct world *world, const uint8_t *setup) {
  static const char *const plans[] = {"ring", "star:1", "sharded", "exchange", "halving", "tree", "chain", "doubling"};
  static const uint32_t all[RANKS] = {0, 1, 2};
  bool offers = setup[3] & 1, in_place = setup[3] & 2;
  struct by_sim_options net = {.seed = setup[4],
                               .delay = BY_MICROSECOND,
                               .buffer = setup[3] & 4 ? 300 : 0,
                               .frame_bytes = setup[3] & 8 ? 96 : 0,
                               .split = setup[3] & 16,
                               .holds = setup[3] & 64,
                               .offer_from = offers ? 64 : 0,
                               .in_place_from = in_place ? 64 : 0};
  struct by_engine_options options = {
      .processes = RANKS, .eager_limit = 128, .link_credit = 512, .block = 64, .spread = 64, .locate = by_sim_locate};
  assert(by_sim_create(&net, &world->sim) == BANYAN_OK);
  options.clock = by_sim_clock(world->sim);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    struct by_plan *plan;
    options.self = rank;
    assert(by_engine_create(&options, &world->engines[rank]) == BANYAN_OK);
    assert(by_team_create(world->engines[rank], 7, rank, RANKS, all, &world->teams[rank]) == BANYAN_OK);
    assert(by_plan_builtin(plans[setup[0] % 8], RANKS, &plan) == BANYAN_OK);
    by_team_set_plan(world->teams[rank], plan);
  }
  world->lanes = setup[3] & 32 ? 2 : 1;
  world->n_calls = 1 + setup[5] % MOST_CALLS;
  world->call = (struct banyan_call){.collective = (enum banyan_collective)(setup[1] % (BANYAN_BARRIER + 1)),
                                     .dtype = BANYAN_FLOAT32,
                                     .op = BANYAN_SUM,
                                     .count = (size_t)setup[2] * 2};
  link_all(world);
}

static void start(struct world *world, uint32_t rank, uint32_t number) {
  char **buffers = world->buffers[rank][number];
  struct banyan_call call = world->call;
  for (int i = 0; i < 2; i++) assert((buffers[i] = calloc(RANKS * call.count + 1, sizeof(float))));
  call.send = buffers[0];
  call.recv = buffers[1];
  enum banyan_status status = by_engine_start(world->teams[rank], &call, 0, &world->calls[rank][number]);
  assert(status == BANYAN_OK || by_engine_status(world->engines[rank]) != BANYAN_OK);
}

/* Runs the calls. Rank 0 may start late, so that frames arrive for calls that it has not made. More of a payload that
 * arrives in parts arrives only when it is read, hence IDLE. */
static void run(struct world *world, uint32_t late) {
  uint32_t started[RANKS] = {0};
  for (uint32_t turn = 0, idle = 0; turn < TURNS && idle < IDLE; turn++) {
    bool progressed = turn < late;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      bool due = started[rank] < world->n_calls && (rank || turn >= late);
      if (due) start(world, rank, started[rank]++);
      progressed |= by_engine_progress(world->engines[rank]) || due;
    }
    idle = by_sim_step(world->sim) || progressed ? 0 : idle + 1;
  }
}

static void check(const struct world *world) {
  for (uint32_t rank = 0; rank < RANKS && !world->input.altered; rank++) {
    assert(by_engine_status(world->engines[rank]) == BANYAN_OK);
    for (uint32_t i = 0; i < world->n_calls; i++) assert(by_call_ended(world->calls[rank][i]));
  }
}

static void close_world(struct world *world) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    by_engine_fail(world->engines[rank], BANYAN_ERR_CLOSED, UINT32_MAX, "the end");
    for (uint32_t i = 0; i < MOST_CALLS; i++)
      if (world->calls[rank][i]) by_call_release(world->calls[rank][i]);
  }
  for (uint32_t rank = 0; rank < RANKS; rank++) by_engine_destroy(world->engines[rank]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
      free(world->buffers[rank][i][0]);
      free(world->buffers[rank][i][1]);
    }
  by_sim_destroy(world->sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct world world = {0};
  if (size < SETUP) return 0;
  world.input = (struct input){.at = data + SETUP, .end = data + size};
  open_world(&world, data);
  run(&world, data[5] >> 4);
  check(&world);
  close_world(&world);
  return 0;
}
