/* Advancing steps. Every step has a position in the layout's bytes; a step may
 * go as far as all unfinished steps it depends on have come:
 *
 *   REDUCE  ====>------      position 5 of 10
 *   SEND    ==>--------      may go to 5: what has been added may already be sent
 *
 * A unit of work is one block of one step, so that sending, adding and
 * receiving alternate even in one thread. */
#include "call.h"

#include <string.h>

enum { STREAM_FROM = 4 << 10, PART = 4 << 10, LARGE = 4 << 20 };
enum { AHEAD_CALLS = 64, AHEAD_PART = 8, LEAD = 2 }; /* calls under way; parts and multiples of unasked */

void by_work_queue(struct by_call *call, uint32_t step) {
  struct by_state *state = &call->states[step];
  if (state->queued || state->done) return;
  state->queued = true;
  uint32_t slot = call->work_first + call->work_n, room = call->schedule->n_steps;
  call->work[slot < room ? slot : slot - room] = step;
  call->work_n++;
  if (call->ready) return;
  call->ready = true;
  call->ready_next = NULL;
  *call->engine->ready_end = call;
  call->engine->ready_end = &call->ready_next;
}

static inline uint64_t limit_of(const struct by_call *call, const struct by_step *step, const struct by_state *state) {
  uint64_t limit = state->end;
  for (uint32_t i = 0; i < step->n_dep; i++) {
    const struct by_state *before = &call->states[call->schedule->deps[step->dep + i]];
    if (!before->done && before->at < limit) limit = before->at;
  }
  if (limit < state->at) limit = state->at; /* a step before it works on lower bytes still */
  return limit;
}

static inline void queue_dependents(struct by_call *call, const struct by_step *step) {
  for (uint32_t i = 0; i < step->n_next; i++) by_work_queue(call, call->schedule->nexts[step->next + i]);
}

/* Moves a step's position; queues what depends on it; ends the call with its last step. */
static inline void move_to(struct by_call *call, uint32_t index, uint64_t at) {
  struct by_state *state = &call->states[index];
  state->at = at;
  call->engine->moved = true;
  bool ends = at == state->end && !state->done;
  if (ends) {
    state->done = true;
    call->steps_left--;
  }
  queue_dependents(call, &call->schedule->steps[index]);
  if (ends && call->steps_left == 0) by_call_done(call);
}

static uint64_t start_of(const struct by_call *call, const struct by_in *in) {
  return call->bounds[call->schedule->incoming[in->incoming].first];
}

static void tell(struct by_in *in) {
  by_link_note(in);
}

bool by_work_runs_free(const struct by_in *in) {
  const struct by_step *step = &in->call->schedule->steps[in->call->schedule->incoming[in->incoming].step];
  bool at_once = step->n_in == 1 && step->n_dep == 0 && in->link->n_ends == 1; /* what runs ahead would have to wait */
  return step->kind == BY_STEP_RECEIVE || at_once;
}

/* How far the sender may be ahead of what is consumed. What needs no room here waits in the lane: were it to fill a
 * socket's buffer, the kernel would drop some of it and wait 200 ms to have it sent again. */
static uint64_t room_of(const struct by_in *in) {
  const struct by_engine_options *options = &in->call->engine->options;
  uint64_t lead = LEAD * options->unasked;
  return by_work_runs_free(in) && lead > options->window ? lead : options->window;
}

/* After bytes were consumed: more may be sent to us, or the sender may have its memory back. */
static inline void after_consuming(struct by_in *in) {
  struct by_call *call = in->call;
  if (in->source == BY_IN_MAPPED || in->source == BY_IN_PULLED) {
    if (in->consumed < in->length) return;
    in->tell_done = true;
    tell(in);
    return;
  }
  if (in->held && in->consumed == in->length) {
    in->tell_done = true;
    tell(in);
  }
  if (in->stage && in->arrived == in->consumed && in->arrived == in->length) {
    by_engine_give_stage(call->engine, in->stage);
    in->stage = NULL;
  }
  if (in->granted >= in->length || (in->length <= call->engine->options.unasked && !in->asked)) return;
  uint64_t room = room_of(in), target = in->consumed + room;
  if (target > in->length) target = in->length;
  if (target <= in->granted || (target < in->length && target - in->granted < room / 2)) return;
  in->granted = target;
  in->tell_grant = true;
  tell(in);
}

void by_work_granting(struct by_in *in) {
  after_consuming(in);
}

bool by_work_may_grant(const struct by_call *call) {
  for (uint32_t i = 0; i < call->schedule->n_incoming && !call->pair; i++) {
    const struct by_incoming *in = &call->schedule->incoming[i];
    if (call->bounds[in->last] - call->bounds[in->first] >= call->engine->options.unasked / AHEAD_PART) return true;
  }
  return false;
}

void by_work_grant_ahead(struct by_call *call) {
  if (call->engine->pending > AHEAD_CALLS) return;
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
    struct by_in *in = &call->ins[i];
    const struct by_lane *lane = in->link->lane;
    if (in->length < call->engine->options.unasked / AHEAD_PART || !lane || lane->ops->reads_memory ||
        !by_work_runs_free(in))
      continue;
    if (by_is_aid(call->engine, in->link->process)) continue; /* it has no call before there is data for it */
    uint64_t room = room_of(in);
    in->granted = in->length < room ? in->length : room;
    in->tell_grant = true;
    tell(in);
  }
}

/* What was read so far stays; the rest comes as data. It has to be granted: so far on, the sender does not ask. */
static void refuse(struct by_in *in) {
  in->source = BY_IN_NOTHING;
  in->arrived = in->consumed;
  in->tell_refuse = true;
  tell(in);
  after_consuming(in);
}

/* Bytes of a message that can be used in one piece at `at`. */
static inline uint64_t usable(const struct by_in *in, uint64_t at) {
  uint64_t n = in->arrived - at;
  if (in->source != BY_IN_DATA) return n;
  uint64_t ring = in->call->engine->options.window, to_edge = ring - (at & (ring - 1));
  return n < to_edge ? n : to_edge;
}

/* Bytes at .. at + n of a message where they can be read; NULL after a refusal. */
static inline const char *operand(struct by_in *in, uint32_t index, uint64_t at, size_t n) {
  if (in->source == BY_IN_DATA) return in->stage + (at & (in->call->engine->options.window - 1));
  if (in->source == BY_IN_MAPPED) return in->mapped + at;
  struct by_lane *lane = in->link->lane;
  char *block = by_engine_block(in->call->engine, index);
  if (block && lane && lane->ops->pull(lane, &in->offer, at, block, n)) return block;
  refuse(in);
  return NULL;
}

/* Whether what was just read in the sender's memory may have been overwritten meanwhile: then the job has failed, and
 * the call waits for the word why. */
static inline bool is_withdrawn(const struct by_in *in) {
  const struct by_lane *lane = in->link->lane;
  return in->source != BY_IN_DATA && lane->ops->withdrawn && lane->ops->withdrawn(lane);
}

static void divide(struct by_call *call, char *bytes, size_t n) {
  enum banyan_dtype dtype = (enum banyan_dtype)(call->stamp.dtype_op >> 4);
  by_kernel_divide(dtype, bytes, bytes, call->divisor, n >> call->element_shift);
}

/* Whether a peer far away reads what this step writes straight from here. */
static bool is_read_from_far(struct by_call *call, const struct by_step *step) {
  for (uint32_t i = 0; i < step->n_next; i++) {
    uint32_t next = call->schedule->nexts[step->next + i];
    if (call->schedule->steps[next].kind != BY_STEP_SEND) continue;
    struct by_out *out = &call->outs[call->program->out_of_step[next]];
    if (out->link->lane && out->link->lane->far && by_link_offers(out)) return true;
  }
  return false;
}

/* What nobody here needs again and would not fit the cache anyway need not be fetched to be overwritten. */
static bool is_large_result(const struct by_call *call, const struct by_step *step) {
  return step->n_next == 0 && call->bounds[step->last] - call->bounds[step->first] >= LARGE;
}

/* dst = fold of the engine's operands; past the cache if a far peer will read it, in parts that stay in the first
 * level. */
static inline void add_all(struct by_call *call, const struct by_step *step, char *to, uint32_t n_sources, size_t n) {
  const void **sources = call->engine->sources;
  bool divides = step->divide && call->divisor;
  bool past_cache = n >= STREAM_FROM && (is_read_from_far(call, step) || is_large_result(call, step));
  if (!past_cache) {
    call->reduce(to, sources, n_sources, n >> call->element_shift);
    if (divides) divide(call, to, n);
    return;
  }
  _Alignas(64) char part[PART];
  for (size_t done = 0; done < n; done += PART) {
    size_t bytes = n - done < PART ? n - done : PART;
    call->reduce(part, sources, n_sources, bytes >> call->element_shift);
    if (divides) divide(call, part, bytes);
    by_kernel_copy_streaming(to + done, part, bytes);
    for (uint32_t i = 0; i < n_sources; i++) sources[i] = (const char *)sources[i] + bytes;
  }
}

static __attribute__((noinline)) void add_traced(struct by_call *call, const struct by_step *step, char *to,
                                                 uint32_t n_sources, size_t n) {
  uint64_t since = by_clock_now(&by_clock_system);
  by_call_wire(call);
  add_all(call, step, to, n_sources, n);
  by_trace_added(call->engine->options.tracer, call->trace, since);
}

static inline void add(struct by_call *call, const struct by_step *step, char *to, uint32_t n_sources, size_t n) {
  if (call->trace)
    add_traced(call, step, to, n_sources, n);
  else
    add_all(call, step, to, n_sources, n);
}

/* Adds one block; `direct` (may be NULL) is a message whose next bytes lie at `bytes`. Returns how many bytes. */
static size_t reduce_block(struct by_call *call, uint32_t index, struct by_in *direct, const char *bytes, size_t have) {
  const struct by_step *step = &call->schedule->steps[index];
  struct by_state *state = &call->states[index];
  uint64_t at = state->at, start = call->bounds[step->first], n = limit_of(call, step, state) - at;
  if (n > call->engine->options.block) n = call->engine->options.block;
  for (uint32_t i = 0; i < step->n_in && n; i++) {
    struct by_in *in = &call->ins[step->in + i];
    uint64_t can = in == direct ? have : usable(in, at - start);
    if (can < n) n = can;
  }
  n &= ~(uint64_t)(call->element - 1);
  if (!n) return 0;
  const void **sources = call->engine->sources;
  uint32_t n_sources = 0;
  char *own = call->buffer[step->from] + at, *to = call->buffer[step->to] + at;
  for (uint32_t i = 0; i < step->n_in; i++) {
    if (n_sources == step->own) sources[n_sources++] = own;
    struct by_in *in = &call->ins[step->in + i];
    const char *source = in == direct ? bytes : operand(in, i, at - start, n);
    if (!source) return 0;
    sources[n_sources++] = source;
  }
  if (step->own == step->n_in) sources[n_sources++] = own;
  add(call, step, to, n_sources, n);
  for (uint32_t i = 0; i < step->n_in; i++)
    if (is_withdrawn(&call->ins[step->in + i])) return 0;
  for (uint32_t i = 0; i < step->n_in; i++) {
    struct by_in *in = &call->ins[step->in + i];
    in->consumed += n;
    if (in == direct) in->arrived += n;
    after_consuming(in);
  }
  move_to(call, index, at + n);
  return n;
}

static bool copy_block(struct by_call *call, uint32_t index) {
  const struct by_step *step = &call->schedule->steps[index];
  struct by_state *state = &call->states[index];
  uint64_t at = state->at, n = limit_of(call, step, state) - at, most = 4 * call->engine->options.block;
  if (n > most) n = most;
  if (!n) return false;
  char *to = call->buffer[step->to] + at;
  const char *from = call->buffer[step->from] + at - call->bounds[step->first] + call->bounds[step->from_first];
  if (to != from) memmove(to, from, n);
  if (step->divide && call->divisor) divide(call, to, n);
  move_to(call, index, at + n);
  return true;
}

/* An offered message whose bytes only have to be copied. */
static bool receive_block(struct by_call *call, uint32_t index) {
  const struct by_step *step = &call->schedule->steps[index];
  struct by_in *in = &call->ins[step->in];
  if (in->source != BY_IN_MAPPED && in->source != BY_IN_PULLED) return false;
  uint64_t n = in->arrived - in->consumed, most = 4 * call->engine->options.block;
  if (n > most) n = most;
  if (!n) return false;
  char *to = call->buffer[step->to] + start_of(call, in) + in->consumed;
  struct by_lane *lane = in->link->lane;
  if (in->source == BY_IN_MAPPED && in->length >= LARGE)
    by_kernel_copy_streaming(to, in->mapped + in->consumed, n);
  else if (in->source == BY_IN_MAPPED)
    by_kernel_copy(to, in->mapped + in->consumed, n);
  else if (!lane || !lane->ops->pull(lane, &in->offer, in->consumed, to, n)) {
    refuse(in);
    return false;
  }
  if (is_withdrawn(in)) return false;
  in->consumed += n;
  after_consuming(in);
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
    by_work_queue(call, index);
}

static void advance(struct by_call *call, uint32_t index) {
  bool more = false;
  switch (call->schedule->steps[index].kind) {
  case BY_STEP_SEND: ready_to_send(call, index); break;
  case BY_STEP_RECEIVE: more = receive_block(call, index); break;
  case BY_STEP_REDUCE: more = reduce_block(call, index, NULL, NULL, 0) > 0; break;
  case BY_STEP_COPY: more = copy_block(call, index); break;
  }
  if (more && !call->states[index].done) by_work_queue(call, index);
}

bool by_work_run(struct by_call *call, uint32_t most) {
  while (call->work_n && most && !call->ended) {
    uint32_t step = call->work[call->work_first];
    if (++call->work_first == call->schedule->n_steps) call->work_first = 0;
    call->work_n--;
    most--;
    call->states[step].queued = false;
    if (!call->states[step].done) advance(call, step);
  }
  return call->work_n > 0 && !call->ended;
}

size_t by_work_direct(struct by_in *in, const char *bytes, size_t n) {
  struct by_call *call = in->call;
  uint32_t step = call->schedule->incoming[in->incoming].step;
  if (in->arrived != in->consumed) return 0;
  return reduce_block(call, step, in, bytes, n);
}

bool by_work_streams(const struct by_in *in) {
  const struct by_schedule *s = in->call->schedule;
  return in->length >= LARGE && s->steps[s->incoming[in->incoming].step].kind == BY_STEP_RECEIVE;
}

char *by_work_target(struct by_in *in, uint64_t at, size_t *n) {
  struct by_call *call = in->call;
  const struct by_step *step = &call->schedule->steps[call->schedule->incoming[in->incoming].step];
  if (step->kind == BY_STEP_RECEIVE) {
    if (*n > in->length - at) *n = in->length - at;
    return call->buffer[step->to] + start_of(call, in) + at;
  }
  uint64_t ring = call->engine->options.window, room = ring - (at - in->consumed);
  uint64_t to_edge = ring - (at & (ring - 1));
  if (to_edge < room) room = to_edge;
  if (!in->stage) in->stage = by_engine_take_stage(call->engine);
  if (*n > room) *n = room;
  return in->stage ? in->stage + (at & (ring - 1)) : NULL;
}

void by_work_arrived(struct by_in *in, size_t n) {
  struct by_call *call = in->call;
  uint32_t index = call->schedule->incoming[in->incoming].step;
  in->arrived += n;
  by_call_wire(call);
  if (call->schedule->steps[index].kind == BY_STEP_REDUCE) {
    by_work_queue(call, index);
    return;
  }
  in->consumed = in->arrived;
  after_consuming(in);
  move_to(call, index, start_of(call, in) + in->arrived);
}

void by_work_sent(struct by_out *out) {
  struct by_call *call = out->call;
  const struct by_step *step = &call->schedule->steps[out->step];
  uint64_t at = call->bounds[step->first] + out->settled;
  if (call->ended) return;
  if (!out->held) {
    move_to(call, out->step, at);
    return;
  }
  call->states[out->step].at = at; /* others may go on, but the memory is still being read */
  queue_dependents(call, step);
}
