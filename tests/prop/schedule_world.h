/* A world that runs all ranks' schedules on real buffers, in one thread and in random order: the meaning of a schedule
 * in its simplest form. It shares nothing with the checker or the executor. Elements have 64 bits, a sum wraps, and
 * "divide" multiplies by an odd number. It is random whether a message is copied on its way or read from the sender's
 * buffer as late as possible, and so is which steps are quick and which are slow. */
#ifndef BY_TESTS_SCHEDULE_WORLD_H
#define BY_TESTS_SCHEDULE_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rng.h"
#include "schedule.h"

enum { WORLD_DIVIDED = 0x10001 };

/* A step in progress; positions are in elements of the layout. */
struct world_step {
  const struct by_step *step;
  uint32_t rank;
  uint64_t at, end;
  /* SEND: the bytes of the message that are on their way, or NULL if they are read from the buffer. */
  uint64_t *carried;
  uint64_t start;           /* SEND: where the message begins. */
  struct world_step **from; /* RECEIVE, REDUCE: the SENDs of the messages. */
  uint32_t one_in;          /* The step advances in one of so many attempts. */
};

struct world {
  struct by_schedule *const *schedules;
  uint32_t n;
  struct by_rng rng;
  uint64_t **bounds;               /* The bounds by rank, in elements. */
  uint64_t *(*memory)[BY_BUFFERS]; /* The buffers by rank; with in-place buffers, RECV lies in SEND or the reverse. */
  struct world_step **steps;       /* The steps by rank. */
  bool in_place;
};

static inline uint64_t world_term(uint32_t rank, uint64_t element) {
  struct by_rng rng;
  by_rng_init(&rng, (uint64_t)rank << 32 | element);
  return by_rng_next(&rng);
}

/* Returns the first and the last element of the layout that a buffer holds. */
static inline void world_extent(const struct world *world, uint32_t rank, enum by_buffer buffer, uint64_t *first,
                                uint64_t *last) {
  const struct by_schedule *schedule = world->schedules[rank];
  const uint64_t *bounds = world->bounds[rank];
  enum banyan_collective c = schedule->collective;
  bool root = rank == schedule->root, sends = buffer == BY_BUFFER_SEND;
  bool own = sends ? c == BANYAN_ALLGATHER || c == BANYAN_GATHER : c == BANYAN_REDUCE_SCATTER || c == BANYAN_SCATTER;
  bool none = sends ? c == BANYAN_BROADCAST || (c == BANYAN_SCATTER && !root)
                    : (c == BANYAN_REDUCE || c == BANYAN_GATHER) && !root;
  if (buffer == BY_BUFFER_TMP) {
    *first = schedule->needs_tmp ? bounds[schedule->origin[buffer]] : 0;
    *last = schedule->needs_tmp ? bounds[schedule->tmp_last] : 0;
    return;
  }
  none |= rank >= schedule->n_ranks;
  *first = own ? bounds[schedule->block[rank]] : 0;
  *last = none ? 0 : own ? bounds[schedule->block[rank + 1]] : bounds[schedule->n_pieces];
}

static inline uint64_t *world_at(const struct world *world, uint32_t rank, uint32_t buffer, uint64_t element) {
  const struct by_schedule *schedule = world->schedules[rank];
  return world->memory[rank][buffer] + (element - world->bounds[rank][schedule->origin[buffer]]);
}

static inline void world_fill_rank(struct world *world, uint32_t rank) {
  uint64_t first[BY_BUFFERS], last[BY_BUFFERS];
  enum banyan_collective c = world->schedules[rank]->collective;
  for (uint32_t b = 0; b < BY_BUFFERS; b++) {
    world_extent(world, rank, (enum by_buffer)b, &first[b], &last[b]);
    world->memory[rank][b] = calloc(last[b] - first[b] + (last[b] == first[b]), sizeof(uint64_t));
    assert_non_null(world->memory[rank][b]);
    for (uint64_t e = first[b]; e < last[b]; e++)
      world->memory[rank][b][e - first[b]] = b == BY_BUFFER_SEND ? world_term(rank, e) : 0xdeadbeef + e;
  }
  if (c == BANYAN_BROADCAST && rank == world->schedules[rank]->root)
    for (uint64_t e = 0; e < last[BY_BUFFER_RECV]; e++) world->memory[rank][BY_BUFFER_RECV][e] = world_term(rank, e);
  if (!world->in_place || last[BY_BUFFER_RECV] == 0) return;
  uint64_t *shared = world->memory[rank][BY_BUFFER_RECV] + first[BY_BUFFER_SEND];
  memcpy(shared, world->memory[rank][BY_BUFFER_SEND], (last[0] - first[0]) * sizeof *shared);
  free(world->memory[rank][BY_BUFFER_SEND]);
  world->memory[rank][BY_BUFFER_SEND] = shared;
}

static inline struct world_step *world_sender(const struct world *world, uint32_t rank, uint32_t in) {
  const struct by_schedule *here = world->schedules[rank];
  uint32_t peer = here->peers[here->incoming[in].peer].rank;
  const struct by_schedule *there = world->schedules[peer];
  for (uint32_t i = 0; i < there->n_steps; i++) {
    const struct by_step *step = &there->steps[i];
    if (step->kind == BY_STEP_SEND && step->tag == here->incoming[in].tag && there->peers[step->peer].rank == rank)
      return &world->steps[peer][i];
  }
  fail();
  return NULL;
}

static inline void world_start_rank(struct world *world, uint32_t rank) {
  const struct by_schedule *schedule = world->schedules[rank];
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    struct world_step *state = &world->steps[rank][i];
    const struct by_step *step = &schedule->steps[i];
    const uint32_t one_in[] = {1, 1, 3, 30};
    *state = (struct world_step){.step = step, .rank = rank, .one_in = one_in[by_rng_below(&world->rng, 4)]};
    state->at = state->start = world->bounds[rank][step->first];
    state->end = world->bounds[rank][step->last];
    if (step->kind == BY_STEP_SEND && (step->copied || by_rng_below(&world->rng, 2))) {
      state->carried = calloc(state->end - state->start + 1, sizeof(uint64_t));
      assert_non_null(state->carried);
    }
  }
}

static inline void world_join_rank(struct world *world, uint32_t rank) {
  const struct by_schedule *schedule = world->schedules[rank];
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (!step->n_in) continue;
    struct world_step **from = calloc(step->n_in, sizeof(struct world_step *));
    assert_non_null(from);
    for (uint32_t k = 0; k < step->n_in; k++) from[k] = world_sender(world, rank, step->in + k);
    world->steps[rank][i].from = from;
  }
}

/* Returns how far the dependencies of a step let it advance. */
static inline uint64_t world_limit(const struct world *world, const struct world_step *state) {
  const struct by_schedule *schedule = world->schedules[state->rank];
  uint64_t limit = state->end;
  for (uint32_t i = 0; i < state->step->n_dep; i++) {
    const struct world_step *before = &world->steps[state->rank][schedule->deps[state->step->dep + i]];
    if (before->at < before->end && before->at < limit) limit = before->at;
  }
  return limit > state->at ? limit : state->at;
}

/* Returns how many elements of a message its receiver can have, from `taken` on. */
static inline uint64_t world_ready(const struct world *world, const struct world_step *send) {
  return (send->carried ? send->at : world_limit(world, send)) - send->start;
}

static inline uint64_t world_element(const struct world *world, const struct world_step *send, uint64_t i) {
  if (send->carried) return send->carried[i];
  return *world_at(world, send->rank, send->step->from, send->start + i);
}

static inline void world_work(struct world *world, struct world_step *state, uint64_t n) {
  const struct by_step *step = state->step;
  uint64_t start = world->bounds[state->rank][step->first];
  for (uint64_t e = state->at; e < state->at + n; e++) {
    if (step->kind == BY_STEP_SEND) {
      state->carried[e - start] = *world_at(world, state->rank, step->from, e);
      continue;
    }
    bool reads = step->kind != BY_STEP_RECEIVE && (step->kind != BY_STEP_REDUCE || step->own != BY_NO_OWN);
    uint64_t value = !reads ? 0 : *world_at(world, state->rank, step->from, e);
    for (uint32_t i = 0; i < step->n_in; i++) value += world_element(world, state->from[i], e - start);
    if (step->divide) value *= WORLD_DIVIDED;
    *world_at(world, state->rank, step->to, e) = value;
  }
  for (uint32_t i = 0; i < step->n_in; i++)
    if (!state->from[i]->carried) state->from[i]->at += n;
  state->at += n;
}

/* Advances one step by some elements, if possible. */
static inline bool world_advance(struct world *world, struct world_step *state) {
  const struct by_step *step = state->step;
  if (step->kind == BY_STEP_SEND && !state->carried) return false; /* The receiver advances this step. */
  uint64_t most = world_limit(world, state) - state->at, done = state->at - world->bounds[state->rank][step->first];
  for (uint32_t i = 0; i < step->n_in; i++) {
    uint64_t ready = world_ready(world, state->from[i]) - done;
    if (ready < most) most = ready;
  }
  if (!most) return false;
  world_work(world, state, by_rng_below(&world->rng, 2) ? most : 1 + by_rng_below(&world->rng, most));
  return true;
}

/* Runs to the end. Returns false on a deadlock. */
static inline bool world_run(struct world *world) {
  for (bool forced = false;;) {
    bool progressed = false, left = false;
    uint32_t from = (uint32_t)by_rng_below(&world->rng, world->n);
    for (uint32_t k = 0; k < world->n; k++) {
      uint32_t rank = (from + k) % world->n, n = world->schedules[rank]->n_steps;
      uint32_t first = (uint32_t)by_rng_below(&world->rng, n);
      for (uint32_t i = 0; i < n; i++) {
        struct world_step *state = &world->steps[rank][(first + i) % n];
        if (state->at == state->end) continue;
        left = true;
        if (!forced && by_rng_below(&world->rng, state->one_in)) continue;
        if (!world_advance(world, state)) continue;
        progressed = true;
        if (forced) break; /* One slow step was forced to advance; now all steps are tried again. */
      }
    }
    if (!left) return true;
    if (!progressed && forced) return false;
    forced = !progressed;
  }
}

static inline uint64_t world_expected(const struct world *world, uint32_t rank, uint64_t element) {
  const struct by_schedule *schedule = world->schedules[rank];
  uint64_t sum = 0;
  uint32_t owner = 0;
  switch (schedule->collective) {
  case BANYAN_BROADCAST:
  case BANYAN_SCATTER: return world_term(schedule->root, element);
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER:
  case BANYAN_ALLTOALL:
    while (world->bounds[rank][schedule->block[owner + 1]] <= element) owner++;
    if (schedule->collective != BANYAN_ALLTOALL) return world_term(owner, element);
    return world_term(owner, element - world->bounds[rank][owner] + world->bounds[rank][rank]);
  default:
    for (uint32_t other = 0; other < schedule->n_ranks; other++) sum += world_term(other, element);
    return schedule->n_ranks > 1 ? sum * WORLD_DIVIDED : sum;
  }
}

static inline bool world_is_right(const struct world *world) {
  for (uint32_t rank = 0; rank < world->n; rank++) {
    uint64_t first, last;
    world_extent(world, rank, BY_BUFFER_RECV, &first, &last);
    for (uint64_t e = first; e < last; e++)
      if (world->memory[rank][BY_BUFFER_RECV][e - first] != world_expected(world, rank, e)) return false;
  }
  return true;
}

static inline bool world_has_in_place(enum banyan_collective collective) {
  return collective == BANYAN_ALLREDUCE || collective == BANYAN_BARRIER || collective == BANYAN_REDUCE ||
         collective == BANYAN_ALLGATHER || collective == BANYAN_GATHER;
}

static inline void world_init(struct world *world, struct by_schedule *const *schedules, uint32_t n, size_t count,
                              const size_t *counts, uint64_t seed) {
  *world = (struct world){.schedules = schedules, .n = n};
  by_rng_init(&world->rng, seed);
  world->in_place = world_has_in_place(schedules[0]->collective) && by_rng_below(&world->rng, 2);
  world->bounds = calloc(n, sizeof(uint64_t *));
  world->memory = calloc(n, sizeof *world->memory);
  world->steps = calloc(n, sizeof(struct world_step *));
  assert_true(world->bounds && world->memory && world->steps);
  for (uint32_t rank = 0; rank < n; rank++) {
    world->bounds[rank] = calloc(schedules[rank]->n_pieces + 1, sizeof(uint64_t));
    world->steps[rank] = calloc(schedules[rank]->n_steps + 1, sizeof(struct world_step));
    assert_true(world->bounds[rank] && world->steps[rank]);
    by_schedule_bounds(schedules[rank], count, counts, sizeof(uint64_t), world->bounds[rank]);
    for (uint32_t i = 0; i <= schedules[rank]->n_pieces; i++) world->bounds[rank][i] /= sizeof(uint64_t);
    world_fill_rank(world, rank);
    world_start_rank(world, rank);
  }
  for (uint32_t rank = 0; rank < n; rank++) world_join_rank(world, rank);
}

static inline void world_fini(struct world *world) {
  for (uint32_t rank = 0; rank < world->n; rank++) {
    uint64_t first, last;
    world_extent(world, rank, BY_BUFFER_RECV, &first, &last);
    bool shared = world->in_place && last > 0;
    for (uint32_t b = shared ? BY_BUFFER_RECV : BY_BUFFER_SEND; b < BY_BUFFERS; b++) free(world->memory[rank][b]);
    for (uint32_t i = 0; i < world->schedules[rank]->n_steps; i++) {
      free(world->steps[rank][i].carried);
      free(world->steps[rank][i].from);
    }
    free(world->bounds[rank]);
    free(world->steps[rank]);
  }
  free(world->bounds);
  free(world->memory);
  free(world->steps);
}

/* Runs once. Returns what went wrong, or NULL. */
static inline const char *world_try(struct by_schedule *const *schedules, uint32_t n, size_t count,
                                    const size_t *counts, uint64_t seed) {
  struct world world;
  world_init(&world, schedules, n, count, counts, seed);
  const char *wrong = !world_run(&world) ? "deadlock" : !world_is_right(&world) ? "wrong result" : NULL;
  world_fini(&world);
  return wrong;
}

#endif
