#include "simulated_lanes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "fail.h"
#include "rng.h"

enum { HELD_MOST = 8 };

struct packet {
  STAILQ_ENTRY(packet) link;
  uint64_t arrives;
  struct by_frame frame;
  size_t visible;       /* bytes of the payload that may be seen */
  const char *in_place; /* the payload lies in the sender's memory; NULL: it follows */
  char payload[];
};

/* What every poll reads is together and comes first: there are many lanes, on most of which nothing arrives. */
struct sim_lane {
  struct by_lane lane;
  _Alignas(64) struct by_sim *sim;
  struct sim_lane *peer;
  uint64_t arrives; /* When the first packet arrives; UINT64_MAX: there is none. */
  bool kept_in_place, in_frame;
  bool dead, peer_died;          /* This end died; the other one did. */
  STAILQ_HEAD(, packet) packets; /* packets on the way to this end */
  LIST_ENTRY(sim_lane) link;
  size_t under_way;             /* bytes on the way to this end */
  uint64_t wire_free, in_order; /* when the wire to this end is free; time of the last arrival */
  uint64_t delay;
  double bandwidth;
  uint32_t n_held;
  struct by_frame kept; /* a frame whose payload has not been copied yet; size 0: none */
  const void *kept_payload;
  void *own; /* a copy of a kept payload whose source is gone */
  bool no_map;
  struct held {
    struct by_frame frame;
    char payload[BY_LANE_SMALL];
  } held[HELD_MOST]; /* frames that were accepted and are not on the wire; while there are any, nothing is kept */
};

struct by_sim {
  struct by_sim_options options;
  struct by_lane_ops ops;
  struct by_rng rng;
  uint64_t now;
  LIST_HEAD(, sim_lane) lanes;
};

static struct sim_lane *sim_of(const struct by_lane *lane) {
  return (struct sim_lane *)(uintptr_t)lane;
}

static uint64_t now_of(void *context) {
  return ((struct by_sim *)context)->now;
}

struct by_clock by_sim_clock(struct by_sim *sim) {
  return (struct by_clock){now_of, sim};
}

static uint64_t arrival(struct by_sim *sim, struct sim_lane *to, size_t bytes) {
  const struct by_sim_options *o = &sim->options;
  uint64_t start = to->wire_free > sim->now ? to->wire_free : sim->now;
  uint64_t lasts = to->bandwidth > 0 ? (uint64_t)((double)bytes * 8e9 / to->bandwidth) : 0;
  to->wire_free = start + lasts;
  uint64_t at = start + lasts + to->delay + (o->jitter ? by_rng_below(&sim->rng, o->jitter) : 0);
  if (o->loss > 0 && by_rng_unit(&sim->rng) < o->loss) at += o->retransmit;
  if (at < to->in_order) at = to->in_order;
  to->in_order = at;
  return at;
}

static enum by_lane_sent put(struct sim_lane *end, const struct by_frame *frame, const void *payload, bool in_place) {
  struct sim_lane *to = end->peer;
  struct by_sim *sim = end->sim;
  size_t bytes = sizeof *frame + frame->size;
  if (to->under_way && to->under_way + bytes > sim->options.buffer) return BY_LANE_FULL;
  struct packet *packet = malloc(sizeof *packet + frame->size);
  if (!packet) return BY_LANE_FULL;
  *packet = (struct packet){.frame = *frame, .arrives = arrival(sim, to, bytes)};
  if (in_place) packet->in_place = payload;
  if (frame->size && !in_place) memcpy(packet->payload, payload, frame->size);
  packet->visible = sim->options.split ? by_rng_below(&sim->rng, frame->size + 1) : frame->size;
  to->under_way += bytes;
  if (STAILQ_EMPTY(&to->packets)) to->arrives = packet->arrives;
  STAILQ_INSERT_TAIL(&to->packets, packet, link);
  return BY_LANE_SENT;
}

/* Whether a frame waits for others. As over TCP, frames without payload wait, and small frames of which only a part was
 * sent. */
static bool hold(struct sim_lane *end, const struct by_frame *frame, const void *payload) {
  bool holds = end->sim->options.holds && end->n_held < HELD_MOST && frame->size <= BY_LANE_SMALL;
  if (!holds || (frame->size && by_rng_below(&end->sim->rng, 4))) return false;
  struct held *held = &end->held[end->n_held++];
  held->frame = *frame;
  if (frame->size) memcpy(held->payload, payload, frame->size);
  return true;
}

/* Sends the frames that are held back. Returns false if the wire is full and some frames are still held. */
static bool put_held(struct sim_lane *end) {
  uint32_t n = 0;
  while (n < end->n_held && put(end, &end->held[n].frame, end->held[n].payload, false) != BY_LANE_FULL) n++;
  end->n_held -= n;
  memmove(end->held, end->held + n, end->n_held * sizeof *end->held);
  return end->n_held == 0;
}

static enum by_lane_sent keep_or_put(struct by_lane *lane, const struct by_frame *frame, const void *payload,
                                     bool in_place) {
  struct sim_lane *end = sim_of(lane);
  struct by_sim *sim = end->sim;
  if (lane->status != BANYAN_OK || end->dead || end->kept.size) return BY_LANE_FULL;
  if (!end->peer) return BY_LANE_SENT; /* the failure shows when receiving */
  if (!in_place && hold(end, frame, payload)) return frame->size ? BY_LANE_REST : BY_LANE_SENT;
  if (!put_held(end)) return BY_LANE_FULL;
  bool keeps = frame->size > BY_LANE_SMALL && sim->options.keeps > 0 && by_rng_unit(&sim->rng) < sim->options.keeps;
  if (!keeps) return put(end, frame, payload, in_place);
  end->kept = *frame;
  end->kept_payload = payload;
  end->kept_in_place = in_place;
  return BY_LANE_KEPT;
}

static enum by_lane_sent sim_send(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  return keep_or_put(lane, frame, payload, false);
}

static enum by_lane_sent sim_send_in_place(struct by_lane *lane, const struct by_frame *frame, const void *payload) {
  return keep_or_put(lane, frame, payload, true);
}

static bool sim_flush(struct by_lane *lane) {
  struct sim_lane *end = sim_of(lane);
  if ((!end->kept.size && !end->n_held) || !end->peer) return true;
  if (end->dead || !put_held(end)) return false;
  if (!end->kept.size) return true;
  if (by_rng_below(&end->sim->rng, 2)) return false;
  if (put(end, &end->kept, end->kept_payload, end->kept_in_place) == BY_LANE_FULL) return false;
  end->kept.size = 0;
  return true;
}

static void sim_let_go(struct by_lane *lane) {
  struct sim_lane *end = sim_of(lane);
  if (!end->kept.size) return;
  free(end->own);
  end->own = malloc(end->kept.size);
  if (!end->own) {
    by_lane_fail(lane, BANYAN_ERR_NO_MEMORY, "out of memory");
    return;
  }
  memcpy(end->own, end->kept_payload, end->kept.size);
  end->kept_payload = end->own;
  end->kept_in_place = false;
}

static const struct by_frame *sim_peek(struct by_lane *lane) {
  struct sim_lane *end = sim_of(lane);
  if (end->arrives > end->sim->now) {
    bool ended = end->arrives == UINT64_MAX && (!end->peer || end->peer_died) && !end->dead;
    if (ended) by_lane_fail(lane, BANYAN_ERR_PEER_DEAD, "it closed its connection");
    return NULL;
  }
  if (end->dead || lane->status != BANYAN_OK) return NULL;
  struct packet *first = STAILQ_FIRST(&end->packets);
  if (!end->in_frame) lane->left = first->frame.size;
  end->in_frame = true;
  return &first->frame;
}

static size_t sim_view(struct by_lane *lane, const void **payload) {
  struct sim_lane *end = sim_of(lane);
  struct packet *packet = STAILQ_FIRST(&end->packets);
  size_t taken = packet->frame.size - lane->left, n = packet->visible - taken;
  *payload = (packet->in_place ? packet->in_place : packet->payload) + taken;
  bool more = packet->visible < packet->frame.size && (!n || by_rng_below(&end->sim->rng, 2));
  if (more) packet->visible += 1 + by_rng_below(&end->sim->rng, packet->frame.size - packet->visible);
  return n;
}

static void sim_take(struct by_lane *lane, size_t bytes) {
  lane->left -= bytes;
}

static size_t sim_read(struct by_lane *lane, void *to, size_t most) {
  const void *payload;
  size_t n = sim_view(lane, &payload);
  if (n > most) n = most;
  memcpy(to, payload, n);
  sim_take(lane, n);
  return n;
}

static void sim_next(struct by_lane *lane) {
  struct sim_lane *end = sim_of(lane);
  struct packet *packet = STAILQ_FIRST(&end->packets);
  STAILQ_REMOVE_HEAD(&end->packets, link);
  end->arrives = STAILQ_EMPTY(&end->packets) ? UINT64_MAX : STAILQ_FIRST(&end->packets)->arrives;
  end->under_way -= sizeof packet->frame + packet->frame.size;
  lane->left = 0;
  end->in_frame = false;
  free(packet);
}

/* All simulated ranks share this process, so offered memory can be read directly. */
static const char *sim_map(struct by_lane *lane, const struct by_offer *offer, uint64_t length) {
  struct sim_lane *end = sim_of(lane);
  double fails = end->sim->options.map_fails;
  (void)length;
  if (fails > 0 && by_rng_unit(&end->sim->rng) < fails) end->no_map = true;
  return end->no_map ? NULL : (const char *)(uintptr_t)offer->address;
}

void by_sim_locate(void *context, const void *memory, size_t bytes, struct by_offer *offer) {
  (void)context;
  (void)memory;
  offer->region = 1;
  offer->region_size = bytes;
}

static void sim_destroy(struct by_lane *lane) {
  struct sim_lane *end = sim_of(lane);
  LIST_REMOVE(end, link);
  if (end->peer) end->peer->peer = NULL;
  while (!STAILQ_EMPTY(&end->packets)) sim_next(lane);
  free(end->own);
  free(end);
}

static const struct by_lane_ops sim_ops = {
    .name = "sim",
    .send = sim_send,
    .send_in_place = sim_send_in_place,
    .flush = sim_flush,
    .let_go = sim_let_go,
    .peek = sim_peek,
    .view = sim_view,
    .take = sim_take,
    .read = sim_read,
    .next = sim_next,
    .map = sim_map,
    .destroy = sim_destroy,
};

enum banyan_status by_sim_create(const struct by_sim_options *options, struct by_sim **out) {
  struct by_sim *sim = calloc(1, sizeof *sim);
  if (!sim) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a simulated network");
  sim->options = *options;
  if (!sim->options.buffer) sim->options.buffer = 64 << 10;
  if (!sim->options.retransmit) sim->options.retransmit = 200 * BY_MILLISECOND;
  sim->ops = sim_ops;
  sim->ops.frame_bytes = options->frame_bytes ? options->frame_bytes : 16 << 10;
  sim->ops.reads_memory = options->offer_from > 0;
  if (!sim->ops.reads_memory) sim->ops.map = NULL;
  sim->ops.offer_from = options->offer_from;
  sim->ops.in_place_from = options->in_place_from ? options->in_place_from : SIZE_MAX;
  by_rng_init(&sim->rng, options->seed);
  *out = sim;
  return BANYAN_OK;
}

void by_sim_destroy(struct by_sim *sim) {
  free(sim);
}

static struct sim_lane *new_end(struct by_sim *sim) {
  struct sim_lane *end = aligned_alloc(_Alignof(struct sim_lane), sizeof *end);
  if (!end) return NULL;
  *end = (struct sim_lane){.lane = {.ops = &sim->ops, .poll_fd = -1},
                           .sim = sim,
                           .arrives = UINT64_MAX,
                           .delay = sim->options.delay,
                           .bandwidth = sim->options.bandwidth};
  STAILQ_INIT(&end->packets);
  LIST_INSERT_HEAD(&sim->lanes, end, link);
  return end;
}

enum banyan_status by_sim_link(struct by_sim *sim, struct by_lane **a, struct by_lane **b) {
  struct sim_lane *one = new_end(sim), *two = one ? new_end(sim) : NULL;
  if (!two) {
    if (one) sim_destroy(&one->lane);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a simulated link");
  }
  one->peer = two;
  two->peer = one;
  *a = &one->lane;
  *b = &two->lane;
  return BANYAN_OK;
}

void by_sim_shape(struct by_lane *lane, uint64_t delay, double bandwidth) {
  struct sim_lane *end = sim_of(lane);
  end->delay = end->peer->delay = delay;
  end->bandwidth = end->peer->bandwidth = bandwidth;
}

bool by_sim_step(struct by_sim *sim) {
  return by_sim_step_to(sim, UINT64_MAX);
}

bool by_sim_step_to(struct by_sim *sim, uint64_t most) {
  uint64_t next = most > sim->now ? most : UINT64_MAX;
  const struct sim_lane *lane;
  LIST_FOREACH(lane, &sim->lanes, link) {
    if (!lane->dead && lane->arrives > sim->now && lane->arrives < next) next = lane->arrives;
  }
  if (next == UINT64_MAX) return false;
  sim->now = next;
  return true;
}

void by_sim_kill(struct by_lane *lane) {
  struct sim_lane *end = sim_of(lane);
  end->dead = true;
  if (end->peer) end->peer->peer_died = true;
}
