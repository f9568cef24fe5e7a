/* Advances the steps of calls, block by block, and their messages. */
#include "work.h"

#include <string.h>

#include "deliver.h"
#include "program.h"

enum { STREAM_FROM = 4 << 10, PART = 4 << 10, LARGE = 4 << 20 };
enum { WORK_A_TURN = 64, AHEAD_CALLS = 64 /* Running calls. */ };

static void queue_step(struct by_call *call, uint32_t step) {
  struct by_state *state = &call->states[step];
  if (state->queued || state->done) return;
  state->queued = true;
  uint32_t slot = call->work_first + call->work_n, capacity = call->schedule->n_steps;
  call->work[slot < capacity ? slot : slot - capacity] = step;
  call->work_n++;
  if (call->ready) return;
  call->ready = true;
  STAILQ_INSERT_TAIL(&by_call_runner(call)->ready, call, ready_next);
}

static inline uint64_t limit_of(const struct by_call *call, const struct by_step *step, const struct by_state *state) {
  uint64_t limit = state->end;
  for (uint32_t i = 0; i < step->n_dep; i++) {
    const struct by_state *before = &call->states[call->schedule->deps[step->dep + i]];
    if (!before->done && before->at < limit) limit = before->at;
  }
  if (limit < state->at) limit = state->at; /* A step before it still works on lower bytes. */
  return limit;
}

static inline void queue_dependents(struct by_call *call, const struct by_step *step) {
  for (uint32_t i = 0; i < step->n_next; i++) queue_step(call, call->schedule->nexts[step->next + i]);
}

/* Moves a step's position and queues the steps that depend on it. The last step ends the call. */
static inline void move_to(struct by_call *call, uint32_t index, uint64_t at) {
  struct by_state *state = &call->states[index];
  state->at = at;
  call->exchange.transfer->moved = true;
  bool ends = at == state->end && !state->done;
  if (ends) {
    state->done = true;
    call->steps_left--;
  }
  queue_dependents(call, &call->schedule->steps[index]);
  if (ends && call->steps_left == 0) by_call_done(call);
}

static uint64_t start_of(const struct by_call *call, const struct by_in *in) {
  return call->bounds[call->schedule->steps[in->step].first];
}

bool by_work_may_grant(const struct by_call *call) {
  for (uint32_t i = 0; i < call->schedule->n_incoming && !call->exchange.pair; i++) {
    const struct by_incoming *in = &call->schedule->incoming[i];
    if (by_in_is_worth_granting_ahead(call->exchange.transfer, call->bounds[in->last] - call->bounds[in->first]))
      return true;
  }
  return false;
}

void by_work_grant_ahead(struct by_call *call) {
  if (by_call_runner(call)->transfer.state.pending > AHEAD_CALLS) return;
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++) by_in_grant_ahead(&call->ins[i]);
}

static void divide_sum(struct by_call *call, char *bytes, size_t n) {
  enum banyan_dtype dtype = (enum banyan_dtype)(call->exchange.descriptor.dtype_op >> 4);
  by_kernel_divide(dtype, bytes, bytes, call->divisor, n >> call->element_shift);
}

/* Whether a peer whose core has another cache reads what this step writes. */
static bool is_read_from_far(struct by_call *call, const struct by_step *step) {
  for (uint32_t i = 0; i < step->n_next; i++) {
    uint32_t next = call->schedule->nexts[step->next + i];
    if (call->schedule->steps[next].kind != BY_STEP_SEND) continue;
    struct by_out *out = &call->outs[call->program->out_of_step[next]];
    if (out->link->lane && out->link->lane->far && by_link_offers(out)) return true;
  }
  return false;
}

/* Whether the step writes results that nobody here reads again and that exceed the cache, so that fetching the lines
 * before overwriting them is useless. */
static bool is_large_result(const struct by_call *call, const struct by_step *step) {
  return step->n_next == 0 && call->bounds[step->last] - call->bounds[step->first] >= LARGE;
}

/* Combines the engine's operands into `to`. Writes past the cache if a far peer will read the result, in parts that
 * stay in the first level. */
static inline void add_all(struct by_call *call, const struct by_step *step, char *to, uint32_t n_sources, size_t n) {
  const void **sources = by_call_runner(call)->sources;
  bool divides = step->divide && call->divisor;
  bool past_cache = n >= STREAM_FROM && (is_read_from_far(call, step) || is_large_result(call, step));
  if (!past_cache) {
    call->reduce(to, sources, n_sources, n >> call->element_shift);
    if (divides) divide_sum(call, to, n);
    return;
  }
  _Alignas(64) char part[PART];
  for (size_t done = 0; done < n; done += PART) {
    size_t bytes = n - done < PART ? n - done : PART;
    call->reduce(part, sources, n_sources, bytes >> call->element_shift);
    if (divides) divide_sum(call, part, bytes);
    by_kernel_copy_streaming(to + done, part, bytes);
    for (uint32_t i = 0; i < n_sources; i++) sources[i] = (const char *)sources[i] + bytes;
  }
}

static __attribute__((noinline)) void add_traced(struct by_call *call, const struct by_step *step, char *to,
                                                 uint32_t n_sources, size_t n) {
  uint64_t since = by_clock_now(&by_clock_system);
  by_exchange_wire(&call->exchange);
  add_all(call, step, to, n_sources, n);
  by_trace_added(call->exchange.transfer->options.tracer, call->exchange.trace, since);
}

static inline void add_block(struct by_call *call, const struct by_step *step, char *to, uint32_t n_sources, size_t n) {
  if (call->exchange.trace)
    add_traced(call, step, to, n_sources, n);
  else
    add_all(call, step, to, n_sources, n);
}

/* Adds one block. `direct` (may be NULL) is a message whose next bytes lie at `bytes`. Returns the number of bytes. */
static size_t reduce_block(struct by_call *call, uint32_t index, struct by_in *direct, const char *bytes, size_t have) {
  const struct by_step *step = &call->schedule->steps[index];
  struct by_state *state = &call->states[index];
  uint64_t at = state->at, start = call->bounds[step->first], n = limit_of(call, step, state) - at;
  if (n > call->exchange.transfer->options.block) n = call->exchange.transfer->options.block;
  for (uint32_t i = 0; i < step->n_in && n; i++) {
    struct by_in *in = &call->ins[step->in + i];
    uint64_t can = in == direct ? have : by_in_usable(in, at - start);
    if (can < n) n = can;
  }
  n &= ~(uint64_t)(call->exchange.element - 1);
  if (!n) return 0;
  const void **sources = by_call_runner(call)->sources;
  uint32_t n_sources = 0;
  char *own = call->buffer[step->from] + at, *to = call->buffer[step->to] + at;
  for (uint32_t i = 0; i < step->n_in; i++) {
    if (n_sources == step->own) sources[n_sources++] = own;
    struct by_in *in = &call->ins[step->in + i];
    sources[n_sources++] = in == direct ? bytes : by_in_operand(in, at - start);
  }
  if (step->own == step->n_in) sources[n_sources++] = own;
  add_block(call, step, to, n_sources, n);
  for (uint32_t i = 0; i < step->n_in; i++)
    if (by_in_is_withdrawn(&call->ins[step->in + i])) return 0;
  for (uint32_t i = 0; i < step->n_in; i++) {
    struct by_in *in = &call->ins[step->in + i];
    in->consumed += n;
    if (in == direct) in->arrived += n;
    by_in_consumed(in);
  }
  move_to(call, index, at + n);
  return n;
}

static bool copy_block(struct by_call *call, uint32_t index) {
  const struct by_step *step = &call->schedule->steps[index];
  struct by_state *state = &call->states[index];
  uint64_t at = state->at, n = limit_of(call, step, state) - at, max = 4 * call->exchange.transfer->options.block;
  if (n > max) n = max;
  if (!n) return false;
  char *to = call->buffer[step->to] + at;
  const char *from = call->buffer[step->from] + at - call->bounds[step->first] + call->bounds[step->from_first];
  if (to != from) memmove(to, from, n);
  if (step->divide && call->divisor) divide_sum(call, to, n);
  move_to(call, index, at + n);
  return true;
}

/* Copies a block of an offered message. */
static bool receive_block(struct by_call *call, uint32_t index) {
  const struct by_step *step = &call->schedule->steps[index];
  struct by_in *in = &call->ins[step->in];
  if (!by_in_is_offered(in)) return false;
  uint64_t n = in->arrived - in->consumed, max = 4 * call->exchange.transfer->options.block;
  if (n > max) n = max;
  if (!n) return false;
  char *to = in->to + in->consumed;
  if (in->length >= LARGE)
    by_kernel_copy_streaming(to, in->mapped + in->consumed, n);
  else
    /* The bytes are read again soon, so they should stay in the cache. No other copy was measured to be faster on one
     * core. */
    memcpy(to, in->mapped + in->consumed, n);
  if (by_in_is_withdrawn(in)) return false;
  in->consumed += n;
  by_in_consumed(in);
  move_to(call, index, start_of(call, in) + in->consumed);
  return true;
}

static inline void ready_to_send(struct by_call *call, uint32_t index) {
  struct by_out *out = &call->outs[call->program->out_of_step[index]];
  const struct by_step *step = &call->schedule->steps[index];
  uint64_t ready = limit_of(call, step, &call->states[index]) - call->bounds[step->first];
  if (ready <= out->ready) return;
  out->ready = ready;
  by_link_queue(out);
}

void by_work_start(struct by_call *call, uint32_t index) {
  const struct by_step *step = &call->schedule->steps[index];
  if (step->kind == BY_STEP_SEND && step->n_dep == 0)
    ready_to_send(call, index);
  else if (step->kind == BY_STEP_SEND || step->kind == BY_STEP_COPY)
    queue_step(call, index);
}

static void advance_step(struct by_call *call, uint32_t index) {
  bool more = false;
  switch (call->schedule->steps[index].kind) {
  case BY_STEP_SEND: ready_to_send(call, index); break;
  case BY_STEP_RECEIVE: more = receive_block(call, index); break;
  case BY_STEP_REDUCE: more = reduce_block(call, index, NULL, NULL, 0) > 0; break;
  case BY_STEP_COPY: more = copy_block(call, index); break;
  }
  if (more && !call->states[index].done) queue_step(call, index);
}

/* Removes the next step from the call's queue. */
static uint32_t unqueue_step(struct by_call *call) {
  uint32_t step = call->work[call->work_first];
  if (++call->work_first == call->schedule->n_steps) call->work_first = 0;
  call->work_n--;
  call->states[step].queued = false;
  return step;
}

void by_work_run(struct by_runner *runner) {
  STAILQ_HEAD(, by_call) ready = STAILQ_HEAD_INITIALIZER(ready);
  STAILQ_CONCAT(&ready, &runner->ready);
  for (struct by_call *call; (call = STAILQ_FIRST(&ready));) {
    STAILQ_REMOVE_HEAD(&ready, ready_next);
    call->ready = false;
    for (int i = 0; i < WORK_A_TURN && call->work_n && call->state == BY_CALL_RUNNING; i++) {
      uint32_t step = unqueue_step(call);
      if (!call->states[step].done) advance_step(call, step);
    }
    if (call->work_n && call->state == BY_CALL_RUNNING)
      queue_step(call, unqueue_step(call)); /* Appends the call to the list again. */
    by_call_drop(call);
  }
}

/* ---- events of messages */

size_t by_work_add(struct by_in *in, const char *bytes, size_t n) {
  struct by_call *call = by_call_of(in->exchange);
  return in->arrived == in->consumed ? reduce_block(call, in->step, in, bytes, n) : 0;
}

void by_work_offered(struct by_in *in) {
  queue_step(by_call_of(in->exchange), in->step);
}

void by_work_arrived(struct by_in *in, size_t n) {
  struct by_call *call = by_call_of(in->exchange);
  in->arrived += n;
  by_exchange_wire(&call->exchange);
  if (in->adds) {
    queue_step(call, in->step);
    return;
  }
  in->consumed = in->arrived;
  by_in_consumed(in);
  move_to(call, in->step, start_of(call, in) + in->arrived);
}

void by_work_summed(struct by_in *in, uint64_t from, uint64_t n) {
  struct by_call *call = by_call_of(in->exchange);
  if (call->divisor) divide_sum(call, in->to + from, n);
}

void by_work_sent(struct by_out *out) {
  struct by_call *call = by_call_of(out->exchange);
  const struct by_step *step = &call->schedule->steps[out->step];
  uint64_t at = call->bounds[step->first] + out->settled;
  if (call->state != BY_CALL_RUNNING) return;
  if (!out->held) {
    move_to(call, out->step, at);
    return;
  }
  call->states[out->step].at = at; /* Others may go on, but the memory is still being read. */
  queue_dependents(call, step);
}
