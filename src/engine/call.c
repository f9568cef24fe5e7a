/* Calls: fills them, starts and ends them, and finds those of frames. */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "deliver.h"
#include "program.h"
#include "work.h"

enum { BARRIER_BYTES = 1 };

const char *by_call_describe(const struct by_frame *descriptor, char *text, size_t capacity) {
  enum banyan_collective collective = (enum banyan_collective)descriptor->collective;
  enum banyan_dtype dtype = (enum banyan_dtype)(descriptor->dtype_op >> 4);
  enum banyan_op op = (enum banyan_op)(descriptor->dtype_op & 15);
  bool adds = by_collective(collective)->adds;
  char root[32] = "", count[40];
  if (by_collective(collective)->rooted) snprintf(root, sizeof root, ", root %u", descriptor->root);
  snprintf(count, sizeof count, descriptor->count >> 63 ? "counts with hash %llx" : "%llu",
           (unsigned long long)descriptor->count);
  snprintf(text, capacity, "%s(%s x %s%s%s%s) under plan %08x", banyan_collective_name(collective), count,
           banyan_dtype_name(dtype), adds ? ", " : "", adds ? banyan_op_name(op) : "", root, descriptor->plan);
  return text;
}

/* The running send or receive that a frame from this rank belongs to. */
static struct by_call *find_pair(const struct by_team *team, const struct by_frame *frame, uint32_t rank) {
  bool answers = frame->type == BY_FRAME_GRANT || frame->type == BY_FRAME_DONE || frame->type == BY_FRAME_REFUSE;
  for (struct by_call *call = LIST_FIRST(&team->pair_calls); call; call = LIST_NEXT(call, listed))
    if (call->exchange.descriptor.call == frame->call && call->exchange.descriptor.tag == frame->tag &&
        call->schedule->root == rank && (call->schedule->collective == BANYAN_SEND) == answers)
      return call;
  return NULL;
}

struct by_call *by_call_find(const struct by_team *team, const struct by_frame *frame, uint32_t rank) {
  if (frame->flags & BY_FRAME_PAIR) return find_pair(team, frame, rank);
  struct by_call *call = team->window[frame->call & (team->window_size - 1)];
  return call && call->exchange.descriptor.call == frame->call ? call : NULL;
}

bool by_call_awaits(const struct by_call *call, const struct by_transfer_link *link,
                    bool (*is_missing)(const struct by_in *in)) {
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++)
    if (call->ins[i].link == link && is_missing(&call->ins[i])) return true;
  for (uint32_t i = 0; i < call->program->n_outs; i++)
    if (call->outs[i].link == link && !call->states[call->outs[i].step].done) return true;
  return false;
}

/* ---- filling a call */

static uint64_t descriptor_count(const struct by_team *team, const struct banyan_call *call) {
  if (!call->counts) return call->count;
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint32_t r = 0; r < team->n; r++) hash = (hash ^ call->counts[r]) * 0x100000001b3ull;
  return hash | 1ull << 63;
}

/* Whether the call is a barrier, or a collective of no elements. For the latter ranks exchange a byte too, so that
 * each of them learns of a rank that calls something else. */
static bool runs_as_barrier(const struct by_call *call) {
  return call->schedule->collective == BANYAN_BARRIER;
}

static void fill_bounds(struct by_call *call, const struct banyan_call *user) {
  size_t count = runs_as_barrier(call) ? BARRIER_BYTES : user->count;
  if (!user->counts && call->bounds_count == count && call->bounds_element == call->exchange.element) return;
  by_schedule_bounds(call->schedule, count, user->counts, call->exchange.element, call->bounds);
  call->bounds_count = user->counts ? SIZE_MAX : count;
  call->bounds_element = call->exchange.element;
}

enum banyan_status by_call_need(struct by_runner *runner, void **memory, size_t *have, size_t bytes) {
  if (*have >= bytes) return BANYAN_OK;
  free(*memory);
  *have = 0;
  *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  if (!*memory) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu bytes of scratch", bytes);
  *have = bytes;
  runner->transfer.counters.allocations++;
  return BANYAN_OK;
}

/* The bytes that the schedule needs of BY_BUFFER_TMP. */
static uint64_t scratch_of(const struct by_call *call) {
  const struct by_schedule *s = call->schedule;
  return s->needs_tmp ? (call->bounds[s->tmp_last] - call->bounds[s->origin[BY_BUFFER_TMP]] + 63) & ~63ull : 0;
}

/* The address that byte 0 of the layout would have in this buffer. It may be outside of the buffer, so it is computed
 * as a number. A buffer of no bytes may be NULL, to which nothing can be added, not even 0. */
static char *origin_of(char *buffer, uint64_t first) {
  static char nothing;
  return (char *)((uintptr_t)(buffer ? buffer : &nothing) - first);
}

/* Scratch holds in this order what the schedule needs of BY_BUFFER_TMP, a scaled copy of the send buffer, and the
 * received block if it would overwrite data that is still to be sent. */
static enum banyan_status set_buffers(struct by_call *call, const struct banyan_call *user) {
  const struct by_schedule *s = call->schedule;
  uint64_t whole = call->bounds[s->n_pieces];
  bool scaled = user->scale != 0 && user->scale != 1 && !runs_as_barrier(call);
  char *send = (char *)(uintptr_t)user->send, *recv = user->recv;
  uint64_t block = 0, tmp = scratch_of(call), copy = 0;
  call->user_bytes = 0;
  if (s->collective == BANYAN_REDUCE_SCATTER) {
    block = call->bounds[s->block[s->rank + 1]] - call->bounds[s->block[s->rank]];
    if (!by_call_overlap(send, whole, recv, block)) block = 0;
  }
  bool into_recv = user->collective == BANYAN_ALLREDUCE;
  if (scaled && !into_recv) copy = (whole + 63) & ~63ull;
  if (tmp + copy + block)
    BY_TRY(by_call_need(by_call_runner(call), &call->scratch, &call->scratch_bytes, tmp + copy + block));
  char *scratch = call->scratch;
  if (scaled) {
    char *to = into_recv ? recv : scratch + tmp;
    by_kernel_scale(user->dtype, to, send, user->scale, whole / call->exchange.element);
    send = to;
  }
  if (block) {
    call->user_recv = recv;
    call->user_bytes = block;
    recv = scratch + tmp + copy;
  }
  if (runs_as_barrier(call)) {
    send = recv = (char *)&call->barrier_byte;
    call->barrier_byte = 0;
  }
  call->buffer[BY_BUFFER_SEND] = origin_of(send, call->bounds[s->origin[BY_BUFFER_SEND]]);
  call->buffer[BY_BUFFER_RECV] = origin_of(recv, call->bounds[s->origin[BY_BUFFER_RECV]]);
  call->buffer[BY_BUFFER_TMP] = origin_of(scratch, call->bounds[s->origin[BY_BUFFER_TMP]]);
  return BANYAN_OK;
}

static inline void reset_messages(struct by_call *call) {
  const struct by_schedule *s = call->schedule;
  bool in_place = call->buffer[BY_BUFFER_SEND] == call->buffer[BY_BUFFER_RECV];
  for (uint32_t i = 0; i < call->program->n_outs; i++) {
    struct by_out *out = &call->outs[i];
    const struct by_step *step = &s->steps[out->step];
    out->base = call->buffer[step->from] + call->bounds[step->from_first];
    out->length = call->bounds[step->last] - call->bounds[step->first];
    out->copied = step->copied && (step->from != BY_BUFFER_SEND || in_place);
    by_out_reset(out);
  }
  for (uint32_t i = 0; i < s->n_incoming; i++) {
    struct by_in *in = &call->ins[i];
    uint64_t first = call->bounds[s->incoming[i].first];
    in->to = call->buffer[s->steps[s->incoming[i].step].to] + first;
    in->length = call->bounds[s->incoming[i].last] - first;
    by_in_reset(in);
  }
}

static inline void reset(struct by_call *call) {
  const struct by_schedule *s = call->schedule;
  call->steps_left = 0;
  call->work_first = call->work_n = 0;
  call->exchange.notes = 0;
  call->released = call->ready = false;
  call->status = BANYAN_OK;
  for (uint32_t i = 0; i < s->n_steps; i++) {
    struct by_state *state = &call->states[i];
    state->at = call->bounds[s->steps[i].first];
    state->end = call->bounds[s->steps[i].last];
    state->queued = false;
    state->done = state->at == state->end;
    if (!state->done) call->steps_left++;
  }
  reset_messages(call);
}

static void set_descriptor(struct by_call *call, const struct banyan_call *user) {
  const struct by_team *team = call->team;
  call->exchange.pair = by_collective(user->collective)->pair;
  bool adds = by_collective(user->collective)->adds;
  call->exchange.descriptor = (struct by_frame){
      .collective = (uint8_t)user->collective,
      .dtype_op = (uint8_t)((unsigned)user->dtype << 4 | (adds ? (unsigned)user->op : 0)),
      .team = team->id,
      .root = by_collective(user->collective)->rooted ? (uint32_t)user->root : 0,
      .count = descriptor_count(team, user),
      .plan = call->exchange.pair ? 0 : call->schedule->plan_version,
      .tag = call->exchange.pair ? user->tag : 0,
      .flags = call->exchange.pair ? BY_FRAME_PAIR : 0,
  };
}

/* ---- start and end */

__attribute__((noinline, cold)) void by_call_log_state(const struct by_call *call, enum by_call_state state) {
  by_debug("executor", "call %u of communicator %u comes from state %d into %d", call->exchange.descriptor.call,
           call->team->id, (int)call->state, (int)state);
}

static inline uint64_t begin_trace(const struct by_call *call, const char *name) {
  struct by_tracer *tracer = call->exchange.transfer->options.tracer;
  if (!atomic_load_explicit(&tracer->on, memory_order_relaxed)) return 0;
  struct by_traced what = {.name = name,
                           .bytes = call->bounds[call->schedule->n_pieces],
                           .team = call->team->id,
                           .call = call->exchange.descriptor.call,
                           .collective = call->exchange.descriptor.collective};
  return by_trace_begin(tracer, &what, BY_TRACE_QUEUED);
}

/* ---- times */

/* Notes the start of a timed call. If a plan has helpers, but not for this size, the version of the call is the
 * plan's own. */
static void begin_time(const struct by_call *call) {
  const struct by_runner *runner = by_call_runner(call);
  struct by_call_times *times = runner->times;
  uint32_t team = call->team->id, plan = call->team->plan ? call->team->plan->version : 0;
  uint64_t bytes = call->exchange.descriptor.count * call->exchange.element;
  if (!runner->transfer.state.pending) {
    times->begun = by_clock_now(times->clock);
    times->counts = true;
    times->team = team;
    times->plan = plan;
    times->bytes = (struct by_call_bytes){0};
  }
  times->counts &= call->exchange.descriptor.collective == BANYAN_ALLREDUCE && !call->relay && !call->exchange.pair &&
                   times->team == team && times->plan == plan;
  times->bytes.all += bytes;
  if (bytes > times->bytes.max) times->bytes.max = bytes;
}

static void end_time(const struct by_call *call, enum banyan_status status) {
  const struct by_runner *runner = by_call_runner(call);
  struct by_call_times *times = runner->times;
  times->counts &= status == BANYAN_OK;
  if (runner->transfer.state.pending || !times->counts) return;
  times->last[times->n++ % BY_CALL_TIMES] = (struct by_call_time){.team = times->team,
                                                                  .plan = times->plan,
                                                                  .bytes = times->bytes,
                                                                  .lasted = by_clock_now(times->clock) - times->begun};
}

/* ---- beginning and end */

void by_call_begin(struct by_call *call, const char *name) {
  const struct by_schedule *s = call->schedule;
  struct by_runner *runner = by_call_runner(call);
  struct by_team *team = call->team;
  by_call_set_state(call, BY_CALL_RUNNING);
  LIST_INSERT_HEAD(&runner->running, call, next);
  if (call->whole) {
    call->exchange.trace = call->whole->exchange.trace;
  } else {
    if (runner->times) begin_time(call);
    runner->transfer.state.pending++;
    runner->transfer.counters.calls++;
    call->exchange.trace = begin_trace(call, name);
  }
  by_transfer_want_stages(&runner->transfer, call->program->n_staged);
  call->exchange.wired = false;
  call->seen = 0;
  for (uint32_t i = 0; i < s->n_peers; i++) call->program->links[i]->running++;
  if (call->exchange.pair)
    LIST_INSERT_HEAD(&team->pair_calls, call, listed);
  else if (!call->whole && !call->relay)
    team->window[call->exchange.descriptor.call & (team->window_size - 1)] = call;
  if (call->steps_left == 0) {
    by_call_done(call);
    return;
  }
  /* All ranks must give a fabric the same messages in the same order, so they are queued before anything of them is
   * ready. */
  for (uint32_t i = 0; call->program->in_network && i < call->program->n_outs; i++)
    if (call->outs[i].link->in_network && call->outs[i].length) by_link_queue(&call->outs[i]);
  for (uint32_t i = 0; i < s->n_steps; i++)
    if (!call->states[i].done) by_work_start(call, i);
  if (call->grants) by_work_grant_ahead(call);
  for (uint32_t i = 0; i < s->n_peers && call->exchange.transfer->status == BANYAN_OK; i++)
    if (!TAILQ_EMPTY(&call->program->links[i]->stored)) by_deliver_stored(call->program->links[i], &call->exchange);
}

/* Fills what depends only on the kind of call. */
static void fill_kind(struct by_call *call, const struct banyan_call *user) {
  bool barrier = runs_as_barrier(call);
  call->exchange.element = barrier ? 1 : banyan_dtype_size(user->dtype);
  call->element_shift = (uint32_t)__builtin_ctzl(call->exchange.element);
  call->reduce = barrier ? by_kernel_reduce(BANYAN_UINT8, BANYAN_OR) : by_kernel_reduce(user->dtype, user->op);
  call->divisor = !barrier && by_collective(user->collective)->adds && user->op == BANYAN_AVERAGE ? call->team->n : 0;
  fill_bounds(call, user);
  set_descriptor(call, user);
  call->grants = by_work_may_grant(call);
}

enum banyan_status by_call_fill(struct by_call *call, const struct banyan_call *user, uint64_t kind,
                                uint64_t deadline) {
  if (!kind || call->kind != kind) fill_kind(call, user);
  call->kind = kind;
  call->deadline = deadline;
  BY_TRY(set_buffers(call, user));
  reset(call);
  return BANYAN_OK;
}

enum banyan_status by_call_fill_part(struct by_call *call, const struct banyan_call *user, char *send, char *recv) {
  const struct by_schedule *s = call->schedule;
  fill_kind(call, user);
  call->kind = 0;
  call->deadline = 0;
  call->user_bytes = 0;
  uint64_t tmp = scratch_of(call);
  if (tmp) BY_TRY(by_call_need(by_call_runner(call), &call->scratch, &call->scratch_bytes, tmp));
  call->buffer[BY_BUFFER_SEND] = origin_of(send, 0);
  call->buffer[BY_BUFFER_RECV] = origin_of(recv, 0);
  call->buffer[BY_BUFFER_TMP] = origin_of(call->scratch, call->bounds[s->origin[BY_BUFFER_TMP]]);
  reset(call);
  return BANYAN_OK;
}

static struct by_history_call describe_ended(const struct by_frame *descriptor, enum by_history_outcome outcome) {
  bool has_counts = descriptor->count >> 63;
  return (struct by_history_call){.number = descriptor->call,
                                  .outcome = outcome,
                                  .collective = descriptor->collective,
                                  .dtype = descriptor->dtype_op >> 4,
                                  .root = descriptor->root,
                                  .count = has_counts ? 0 : descriptor->count};
}

void by_call_report_history(const struct by_team *team, struct by_history *to) {
  uint32_t ended = team->next_call < BY_PAST ? team->next_call : BY_PAST;
  for (uint32_t i = 1; i <= ended; i++) {
    const struct by_frame *descriptor = &team->past[(team->next_call - i) % BY_PAST];
    if (descriptor->call != team->next_call - i) continue; /* It has not ended. */
    struct by_history_call call = describe_ended(descriptor, BY_HISTORY_COMPLETED);
    by_history_add(to, &call);
  }
}

void by_call_end(struct by_call *call, enum banyan_status status) {
  if (call->state != BY_CALL_RUNNING) return;
  struct by_runner *runner = by_call_runner(call);
  struct by_team *team = call->team;
  uint32_t number = call->exchange.descriptor.call;
  by_call_set_state(call, BY_CALL_ENDED);
  call->status = status;
  LIST_REMOVE(call, next);
  if (!call->whole) {
    runner->transfer.state.ended++;
    if (--runner->transfer.state.pending == 0) runner->transfer.yields = true;
  }
  by_transfer_unwant_stages(&runner->transfer, call->program->n_staged);
  runner->transfer.moved = true;
  if (call->exchange.pair) {
    LIST_REMOVE(call, listed);
  } else if (!call->whole && !call->relay) {
    team->window[number & (team->window_size - 1)] = NULL;
    team->past[number % BY_PAST] = call->exchange.descriptor;
    if (status != BANYAN_OK) {
      struct by_history_call failed = describe_ended(&call->exchange.descriptor, BY_HISTORY_FAILED);
      by_history_add(&team->failed, &failed);
    }
  }
  for (uint32_t i = 0; i < call->schedule->n_peers; i++) call->program->links[i]->running--;
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
    struct by_in *in = &call->ins[i];
    if (in->stage) by_transfer_give_stage(&runner->transfer, in->stage);
    in->stage = NULL;
  }
  if (status == BANYAN_OK && call->user_bytes)
    memcpy(call->user_recv, call->buffer[BY_BUFFER_RECV] + call->bounds[call->schedule->origin[BY_BUFFER_RECV]],
           call->user_bytes);
  if (status != BANYAN_OK) {
    for (uint32_t i = 0; i < call->schedule->n_peers; i++) by_link_drop(call->program->links[i], &call->exchange);
    call->exchange.notes = 0;
  }
  if (!call->whole && runner->times) end_time(call, status);
  if (!call->whole && call->exchange.trace)
    by_trace_ended(runner->transfer.options.tracer, call->exchange.trace, status);
  if (call->ops && call->ops->ended) call->ops->ended(call);
}

void by_call_done(struct by_call *call) {
  if (call->ops)
    call->ops->done(call);
  else
    by_call_end(call, BANYAN_OK);
}

void by_call_drop(struct by_call *call) {
  if (!call->program) { /* Its communicator is destroyed. */
    if (call->released) by_call_free(call);
    return;
  }
  bool over = call->state == BY_CALL_ENDED || call->state == BY_CALL_FILLED;
  if (over && call->released && !call->exchange.notes && !call->ready && !call->due) by_program_give_call(call);
}

void by_call_free(struct by_call *call) {
  for (uint32_t i = 0; call->ins && i < call->n_ins; i++) by_byte_ranges_fini(&call->ins[i].ahead);
  if (call->ops && call->ops->freed) call->ops->freed(call);
  by_arena_fini(&call->arena);
  free(call->scratch);
  free(call);
}

/* ---- the end of a team */

void by_calls_end(struct by_team *team) {
  struct by_runner *runner = team->runner;
  for (struct by_call *call = LIST_FIRST(&runner->running); call; call = LIST_NEXT(call, next))
    for (uint32_t i = 0; call->team == team && i < call->schedule->n_incoming; i++) by_link_let_come(&call->ins[i]);
  for (struct by_call *call = LIST_FIRST(&runner->running); call;) { /* Parts end with their call. */
    bool ends = call->team == team;
    if (ends) by_call_end(call, BANYAN_ERR_CLOSED);
    call = ends ? LIST_FIRST(&runner->running) : LIST_NEXT(call, next);
  }
  /* Calls that still have to notify senders, or are on the ready list, refer to the team. */
  for (struct by_program *p = team->programs; p; p = p->next)
    for (uint32_t i = 0; i < p->schedule->n_peers; i++) {
      struct by_transfer_link *link = p->links[i];
      for (const struct by_in *in = TAILQ_FIRST(&link->notes); in; in = TAILQ_NEXT(in, notes))
        if (by_call_of(in->exchange)->program == p && in->send_done) by_link_owe(in);
      for (struct by_in *in = TAILQ_FIRST(&link->notes), *next; in; in = next) {
        bool drops = by_call_of(in->exchange)->program == p;
        if (drops) by_link_drop(link, in->exchange);
        next = drops ? TAILQ_FIRST(&link->notes) : TAILQ_NEXT(in, notes);
      }
    }
  for (struct by_call *call = STAILQ_FIRST(&runner->ready), *next; call; call = next) {
    next = STAILQ_NEXT(call, ready_next);
    if (call->team == team) STAILQ_REMOVE(&runner->ready, call, by_call, ready_next);
  }
}
