/* Starting and ending calls. */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective.h"

enum { BARRIER_BYTES = 1 };

const char *by_call_describe(const struct by_frame *stamp, char *text, size_t room) {
  enum banyan_collective collective = (enum banyan_collective)stamp->collective;
  enum banyan_dtype dtype = (enum banyan_dtype)(stamp->dtype_op >> 4);
  enum banyan_op op = (enum banyan_op)(stamp->dtype_op & 15);
  bool adds = by_collective(collective)->adds;
  char root[32] = "";
  if (by_collective(collective)->rooted) snprintf(root, sizeof root, ", root %u", stamp->root);
  snprintf(text, room, "%s(%llu x %s%s%s%s) under plan %08x", banyan_collective_name(collective),
           (unsigned long long)stamp->count, banyan_dtype_name(dtype), adds ? ", " : "", adds ? banyan_op_name(op) : "",
           root, stamp->plan);
  return text;
}

struct by_call *by_domain_find(const struct by_domain *domain, const struct by_frame *frame, uint32_t rank) {
  if (!(frame->flags & BY_FRAME_PAIR)) {
    struct by_call *call = domain->window[frame->call & (domain->window_size - 1)];
    if (!call || call->stamp.call != frame->call) return domain->aids ? by_aid_find(domain, frame) : NULL;
    return call->joint ? by_joint_find(call, frame) : call;
  }
  bool answers = frame->type == BY_FRAME_GRANT || frame->type == BY_FRAME_DONE || frame->type == BY_FRAME_REFUSE;
  for (struct by_call *call = domain->pair_calls; call; call = call->ready_next_pair)
    if (call->stamp.call == frame->call && call->stamp.tag == frame->tag && call->schedule->root == rank &&
        (call->schedule->collective == BANYAN_SEND) == answers)
      return call;
  return NULL;
}

/* ---- checking what the caller gave */

static enum banyan_status check_kinds(const struct by_domain *domain, const struct banyan_call *call) {
  const char *name = banyan_collective_name(call->collective);
  if ((unsigned)call->collective >= BANYAN_COLLECTIVES)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective number %d", (int)call->collective);
  if (!banyan_dtype_size(call->dtype))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no dtype number %d", name, (int)call->dtype);
  if (by_collective(call->collective)->adds && !by_kernel_reduce(call->dtype, call->op))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: %s is not defined for %s", name, banyan_op_name(call->op),
                   banyan_dtype_name(call->dtype));
  bool has_peer = by_collective(call->collective)->rooted || by_collective(call->collective)->pair;
  if (has_peer && (call->root < 0 || (uint32_t)call->root >= domain->n))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no rank %d among %u", name, call->root, domain->n);
  if (by_collective(call->collective)->pair && (uint32_t)call->root == domain->rank)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: a rank cannot send to or receive from itself (rank %d)", name, call->root);
  if (call->counts && (!by_collective(call->collective)->blocks || call->collective == BANYAN_ALLTOALL))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s takes no counts", name);
  bool scaled = call->scale != 0 && call->scale != 1;
  if (scaled && (!by_collective(call->collective)->adds || call->dtype > BANYAN_BFLOAT16))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s of %s takes no scale: it is for sums of floating types", name,
                   banyan_dtype_name(call->dtype));
  return BANYAN_OK;
}

/* Elements of the whole layout; SIZE_MAX if their bytes overflow. */
static size_t total_count(const struct by_domain *domain, const struct banyan_call *call) {
  size_t most = (SIZE_MAX / 4) / banyan_dtype_size(call->dtype), total = 0;
  if (!by_collective(call->collective)->blocks) return call->count > most ? SIZE_MAX : call->count;
  for (uint32_t r = 0; r < domain->n; r++) {
    size_t block = call->counts ? call->counts[r] : call->count;
    if (block > most - total) return SIZE_MAX;
    total += block;
  }
  return total;
}

/* Elements in one of the caller's buffers, of `total` in the whole layout. */
static size_t extent_count(const struct by_domain *domain, const struct banyan_call *call, uint8_t extent,
                           size_t total) {
  switch ((enum by_extent)extent) {
  case BY_EXTENT_NOTHING: break;
  case BY_EXTENT_BLOCK: return call->counts ? call->counts[domain->rank] : call->count;
  case BY_EXTENT_ALL: return total;
  case BY_EXTENT_ALL_AT_ROOT: return (uint32_t)call->root == domain->rank ? total : 0;
  }
  return 0;
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
  return (const char *)a < (const char *)b + b_bytes && (const char *)b < (const char *)a + a_bytes;
}

/* In place the two buffers are the same where terms are added, or one is this rank's block in the other. */
static enum banyan_status check_in_place(const struct by_domain *domain, const struct banyan_call *call) {
  const struct by_collective *kind = by_collective(call->collective);
  bool gathers = kind->send == BY_EXTENT_BLOCK, scatters = kind->adds && kind->recv == BY_EXTENT_BLOCK;
  size_t offset = 0;
  for (uint32_t r = 0; kind->blocks && r < domain->rank; r++) offset += call->counts ? call->counts[r] : call->count;
  const char *send = call->send, *recv = call->recv;
  offset *= banyan_dtype_size(call->dtype);
  if ((gathers && send == recv + offset) || (scatters && recv == send + offset) || (kind->adds && send == recv))
    return BANYAN_OK;
  return by_fail(BANYAN_ERR_ARGUMENT, "%s: the send buffer at %p and the receive buffer at %p overlap%s", kind->name,
                 call->send, call->recv,
                 gathers ? "; in place, the send buffer is this rank's block in the receive buffer"
                 : scatters
                     ? "; in place, the receive buffer is the start of the send buffer or this rank's block in it"
                 : kind->adds ? "; in place, both are the same"
                              : ", and it cannot be done in place");
}

static enum banyan_status check_buffers(const struct by_domain *domain, const struct banyan_call *call, size_t total) {
  const struct by_collective *kind = by_collective(call->collective);
  if (total == SIZE_MAX) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the count %zu is too large", kind->name, call->count);
  if (call->collective == BANYAN_BARRIER) return BANYAN_OK;
  size_t sends = extent_count(domain, call, kind->send, total),
         receives = extent_count(domain, call, kind->recv, total);
  if (sends && !call->send) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the send buffer is NULL", kind->name);
  if (receives && !call->recv) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the receive buffer is NULL", kind->name);
  size_t element = banyan_dtype_size(call->dtype);
  if (!sends || !receives || !overlap(call->send, sends * element, call->recv, receives * element)) return BANYAN_OK;
  return check_in_place(domain, call);
}

enum banyan_status by_engine_check_call(const struct by_domain *domain, const struct banyan_call *call) {
  BY_TRY(check_kinds(domain, call));
  return check_buffers(domain, call, total_count(domain, call));
}

/* ---- filling a call */

static uint64_t descriptor_count(const struct by_domain *domain, const struct banyan_call *call) {
  if (!call->counts) return call->count;
  uint64_t hash = 0xcbf29ce484222325ull;
  for (uint32_t r = 0; r < domain->n; r++) hash = (hash ^ call->counts[r]) * 0x100000001b3ull;
  return hash | 1ull << 63;
}

/* A barrier, or a collective of no elements. Ranks exchange a byte in the latter too, so that each of them learns of a
 * rank that calls something else. */
static bool runs_as_barrier(const struct by_call *call) {
  return call->schedule->collective == BANYAN_BARRIER;
}

static void fill_bounds(struct by_call *call, const struct banyan_call *user) {
  size_t count = runs_as_barrier(call) ? BARRIER_BYTES : user->count;
  if (!user->counts && call->bounds_count == count && call->bounds_element == call->element) return;
  by_schedule_bounds(call->schedule, count, user->counts, call->element, call->bounds);
  call->bounds_count = user->counts ? SIZE_MAX : count;
  call->bounds_element = call->element;
}

enum banyan_status by_call_need(struct by_engine *engine, void **memory, size_t *have, size_t bytes) {
  if (*have >= bytes) return BANYAN_OK;
  free(*memory);
  *have = 0;
  *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
  if (!*memory) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu bytes of scratch", bytes);
  *have = bytes;
  by_engine_count_allocation(engine);
  return BANYAN_OK;
}

/* What the schedule's TMP needs. */
static uint64_t scratch_of(const struct by_call *call) {
  const struct by_schedule *s = call->schedule;
  return s->needs_tmp ? (call->bounds[s->tmp_last] - call->bounds[s->origin[BY_BUFFER_TMP]] + 63) & ~63ull : 0;
}

/* Where byte 0 of the layout would be, if it were in this buffer: a place that may be outside of it, so it is reckoned
 * as a number. A buffer of no bytes may be NULL, to which nothing can be added, not even 0. */
static char *origin_of(char *buffer, uint64_t first) {
  static char nothing;
  return (char *)((uintptr_t)(buffer ? buffer : &nothing) - first);
}

/* Scratch holds, one after the other, what the schedule's TMP needs, a scaled copy of the send buffer, and the
 * received block where it would overwrite what is still to be sent. */
static enum banyan_status set_buffers(struct by_call *call, const struct banyan_call *user) {
  const struct by_schedule *s = call->schedule;
  uint64_t whole = call->bounds[s->n_pieces];
  bool scaled = user->scale != 0 && user->scale != 1 && !runs_as_barrier(call);
  char *send = (char *)(uintptr_t)user->send, *recv = user->recv;
  uint64_t block = 0, tmp = scratch_of(call), copy = 0;
  call->user_bytes = 0;
  if (s->collective == BANYAN_REDUCE_SCATTER) {
    block = call->bounds[(s->rank + 1) * s->per_block] - call->bounds[s->rank * s->per_block];
    if (!overlap(send, whole, recv, block)) block = 0;
  }
  bool into_recv = user->collective == BANYAN_ALLREDUCE;
  if (scaled && !into_recv) copy = (whole + 63) & ~63ull;
  if (tmp + copy + block) BY_TRY(by_call_need(call->engine, &call->scratch, &call->scratch_bytes, tmp + copy + block));
  char *scratch = call->scratch;
  if (scaled) {
    char *to = into_recv ? recv : scratch + tmp;
    by_kernel_scale(user->dtype, to, send, user->scale, whole / call->element);
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
    out->ready = out->sent = out->settled = out->granted = out->announced = 0;
    out->queued = out->offered = out->asked = out->decided = out->held = out->begun = false;
  }
  for (uint32_t i = 0; i < s->n_incoming; i++) {
    struct by_in *in = &call->ins[i];
    in->length = call->bounds[s->incoming[i].last] - call->bounds[s->incoming[i].first];
    in->arrived = in->consumed = in->granted = 0;
    in->ahead.n = 0; /* a call that was given up may have left some */
    in->source = BY_IN_NOTHING;
    in->asked = in->held = in->noted = in->tell_done = in->tell_refuse = in->tell_grant = false;
  }
}

static inline void reset(struct by_call *call) {
  const struct by_schedule *s = call->schedule;
  call->steps_left = 0;
  call->work_first = call->work_n = 0;
  call->notes = 0;
  call->ended = call->released = call->ready = false;
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

static void set_stamp(struct by_call *call, const struct banyan_call *user) {
  const struct by_domain *domain = call->domain;
  call->pair = by_collective(user->collective)->pair;
  bool adds = by_collective(user->collective)->adds;
  call->stamp = (struct by_frame){
      .collective = (uint8_t)user->collective,
      .dtype_op = (uint8_t)((unsigned)user->dtype << 4 | (adds ? (unsigned)user->op : 0)),
      .domain = domain->id,
      .root = by_collective(user->collective)->rooted ? (uint32_t)user->root : 0,
      .count = descriptor_count(domain, user),
      .plan = call->pair ? 0 : call->schedule->plan_version,
      .tag = call->pair ? user->tag : 0,
      .flags = call->pair ? BY_FRAME_PAIR : 0,
  };
}

/* ---- numbers */

static enum banyan_status grow_window(struct by_domain *domain) {
  uint32_t size = domain->window_size * 2;
  struct by_call **window = calloc(size, sizeof(struct by_call *));
  if (!window) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %u calls under way", size);
  for (uint32_t i = 0; i < domain->window_size; i++)
    if (domain->window[i]) window[domain->window[i]->stamp.call & (size - 1)] = domain->window[i];
  free(domain->window);
  domain->window = window;
  domain->window_size = size;
  by_engine_count_allocation(domain->engine);
  return BANYAN_OK;
}

static enum banyan_status pair_number(struct by_domain *domain, const struct banyan_call *user, uint32_t **out) {
  bool sends = user->collective == BANYAN_SEND;
  for (struct by_pair *p = domain->pairs; p; p = p->next)
    if (p->peer == (uint32_t)user->root && p->tag == user->tag && p->sends == sends) {
      *out = &p->number;
      return BANYAN_OK;
    }
  struct by_pair *pair = calloc(1, sizeof *pair);
  if (!pair) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a tag");
  *pair = (struct by_pair){.next = domain->pairs, .peer = (uint32_t)user->root, .tag = user->tag, .sends = sends};
  domain->pairs = pair;
  *out = &pair->number;
  return BANYAN_OK;
}

/* ---- start and end */

static inline void list_running(struct by_call *call) {
  struct by_engine *engine = call->engine;
  call->next = engine->running;
  call->back = &engine->running;
  if (call->next) call->next->back = &call->next;
  engine->running = call;
  if (!call->whole) engine->pending++;
  if (!call->whole) engine->counters.calls++;
  engine->stages_wanted += call->program->n_staged;
  if (engine->stages_wanted > engine->stages_made) by_engine_reserve_stages(engine);
}

static inline uint64_t begin_trace(const struct by_call *call, const char *name) {
  if (call->whole) return call->whole->trace;
  struct by_traced what = {.name = name,
                           .bytes = call->bounds[call->schedule->n_pieces],
                           .domain = call->domain->id,
                           .call = call->stamp.call,
                           .collective = call->stamp.collective};
  return by_trace_begin(call->engine->options.tracer, &what, BY_TRACE_QUEUED);
}

void by_call_begin(struct by_call *call, const char *name) {
  const struct by_schedule *s = call->schedule;
  list_running(call);
  call->trace = begin_trace(call, name);
  call->wired = false;
  for (uint32_t i = 0; i < s->n_peers; i++) call->program->links[i]->running++;
  if (call->pair) {
    call->ready_next_pair = call->domain->pair_calls;
    call->domain->pair_calls = call;
  } else if (call->aid) {
    call->ready_next_pair = call->domain->aids;
    call->domain->aids = call;
  } else if (!call->whole) {
    call->domain->window[call->stamp.call & (call->domain->window_size - 1)] = call;
  }
  if (call->steps_left == 0) {
    by_call_done(call);
    return;
  }
  if (call->program->through) by_through_begin(call);
  for (uint32_t i = 0; i < s->n_steps; i++)
    if (!call->states[i].done) by_work_start(call, i);
  if (call->grants) by_work_grant_ahead(call);
  for (uint32_t i = 0; i < s->n_peers && call->engine->status == BANYAN_OK; i++)
    if (call->program->links[i]->stored) by_deliver_stored(call, call->program->links[i]);
}

static enum banyan_status get_program(struct by_domain *domain, const struct banyan_call *user, size_t total,
                                      struct by_program **out) {
  if (by_collective(user->collective)->pair)
    return by_program_get_pair(domain, user->collective == BANYAN_SEND, (uint32_t)user->root, out);
  if (!total && user->collective != BANYAN_BARRIER) return by_program_get_empty(domain, out);
  uint64_t bytes = user->collective == BANYAN_BARRIER ? BARRIER_BYTES : total * banyan_dtype_size(user->dtype);
  uint32_t root = by_collective(user->collective)->rooted ? (uint32_t)user->root : 0;
  bool through = user->collective == BANYAN_ALLREDUCE && by_fabric_adds(user->dtype, user->op);
  return by_program_get(domain, bytes, user->collective, root, through, out);
}

/* What depends on nothing but the kind of call. */
static void fill_kind(struct by_call *call, const struct banyan_call *user) {
  bool barrier = runs_as_barrier(call);
  call->element = barrier ? 1 : banyan_dtype_size(user->dtype);
  call->element_shift = (uint32_t)__builtin_ctzl(call->element);
  call->reduce = barrier ? by_kernel_reduce(BANYAN_UINT8, BANYAN_OR) : by_kernel_reduce(user->dtype, user->op);
  call->divisor = !barrier && by_collective(user->collective)->adds && user->op == BANYAN_AVERAGE ? call->domain->n : 0;
  fill_bounds(call, user);
  set_stamp(call, user);
  call->grants = by_work_may_grant(call);
}

static enum banyan_status fill(struct by_call *call, const struct banyan_call *user, uint64_t kind, uint64_t deadline) {
  if (!kind || call->kind != kind) fill_kind(call, user);
  call->kind = kind;
  call->deadline = deadline;
  BY_TRY(set_buffers(call, user));
  reset(call);
  return BANYAN_OK;
}

enum banyan_status by_call_prepare(struct by_call *call, const struct banyan_call *user, char *send, char *recv) {
  const struct by_schedule *s = call->schedule;
  fill_kind(call, user);
  call->kind = 0;
  call->deadline = 0;
  call->user_bytes = 0;
  uint64_t tmp = scratch_of(call);
  if (tmp) BY_TRY(by_call_need(call->engine, &call->scratch, &call->scratch_bytes, tmp));
  call->buffer[BY_BUFFER_SEND] = origin_of(send, 0);
  call->buffer[BY_BUFFER_RECV] = origin_of(recv, 0);
  call->buffer[BY_BUFFER_TMP] = origin_of(call->scratch, call->bounds[s->origin[BY_BUFFER_TMP]]);
  reset(call);
  return BANYAN_OK;
}

static bool is_like_last(const struct by_last *last, const struct banyan_call *user) {
  const struct banyan_call *before = &last->call;
  return last->program && !user->counts && user->collective == before->collective && user->count == before->count &&
         user->dtype == before->dtype && user->op == before->op && user->root == before->root &&
         user->scale == before->scale;
}

/* Checks a call and finds its program. *kind: what calls like it have in common, 0: nothing. */
static enum banyan_status look_up(struct by_domain *domain, const struct banyan_call *user, struct by_program **program,
                                  uint64_t *kind) {
  struct by_last *last = &domain->last;
  if (is_like_last(last, user)) {
    *program = last->program;
    *kind = last->kind;
    return check_buffers(domain, user, last->total);
  }
  BY_TRY(check_kinds(domain, user));
  size_t total = total_count(domain, user);
  BY_TRY(check_buffers(domain, user, total));
  BY_TRY(get_program(domain, user, total, program));
  *kind = 0;
  if (user->counts || by_collective(user->collective)->pair) return BANYAN_OK;
  *kind = last->kind + 1;
  *last = (struct by_last){.program = *program, .call = *user, .total = total, .kind = *kind};
  return BANYAN_OK;
}

enum banyan_status by_engine_start(struct by_domain *domain, const struct banyan_call *user, uint64_t deadline,
                                   struct by_call **out) {
  struct by_engine *engine = domain->engine;
  struct by_program *program = NULL;
  uint64_t kind = 0;
  if (engine->status != BANYAN_OK) return by_fail(engine->status, "%s", engine->error);
  BY_TRY(look_up(domain, user, &program, &kind));
  uint32_t *number = &domain->next_call;
  if (by_collective(user->collective)->pair)
    BY_TRY(pair_number(domain, user, &number));
  else
    while (domain->window[*number & (domain->window_size - 1)]) BY_TRY(grow_window(domain));
  struct by_call *call = NULL;
  BY_TRY(by_program_take_call(program, &call));
  enum banyan_status status = fill(call, user, kind, deadline);
  if (status == BANYAN_OK && call->joint) status = by_joint_prepare(call, user);
  if (status != BANYAN_OK) {
    by_program_give_call(call);
    return status;
  }
  call->stamp.call = (*number)++;
  by_call_begin(call, user->name);
  if (call->joint) by_joint_begin(call);
  *out = call;
  return BANYAN_OK;
}

static void forget(struct by_call *call) {
  struct by_domain *domain = call->domain;
  if (call->whole) return;
  if (call->aid) {
    by_aid_forget(call);
    return;
  }
  if (!call->pair) {
    domain->window[call->stamp.call & (domain->window_size - 1)] = NULL;
    domain->past[call->stamp.call % BY_PAST] = call->stamp;
    return;
  }
  struct by_call **place = &domain->pair_calls;
  while (*place != call) place = &(*place)->ready_next_pair;
  *place = call->ready_next_pair;
}

static void drop_from_links(struct by_call *call) {
  for (uint32_t i = 0; i < call->schedule->n_peers; i++) by_link_drop_call(call->program->links[i], call);
  call->notes = 0;
}

void by_call_end(struct by_call *call, enum banyan_status status) {
  if (call->ended) return;
  call->ended = true;
  call->status = status;
  *call->back = call->next;
  if (call->next) call->next->back = call->back;
  if (!call->whole) call->engine->pending--;
  call->engine->stages_wanted -= call->program->n_staged;
  call->engine->moved = true;
  forget(call);
  for (uint32_t i = 0; i < call->schedule->n_peers; i++) call->program->links[i]->running--;
  for (uint32_t i = 0; i < call->schedule->n_incoming; i++) {
    struct by_in *in = &call->ins[i];
    if (in->stage) by_engine_give_stage(call->engine, in->stage);
    in->stage = NULL;
  }
  if (status == BANYAN_OK && call->user_bytes)
    memcpy(call->user_recv, call->buffer[BY_BUFFER_RECV] + call->bounds[call->schedule->origin[BY_BUFFER_RECV]],
           call->user_bytes);
  if (status != BANYAN_OK) drop_from_links(call);
  if (!call->whole) by_trace_ended(call->engine->options.tracer, call->trace, status);
  if (call->joint) by_joint_end(call);
}

void by_call_done(struct by_call *call) {
  if (call->joint || call->whole || call->aid)
    by_due_add(call);
  else
    by_call_end(call, BANYAN_OK);
}

/* Gives the object back once nobody refers to it. */
void by_call_drop(struct by_call *call) {
  if (!call->program) { /* its communicator is gone */
    if (call->released) by_call_free(call);
    return;
  }
  if (call->ended && call->released && !call->notes && !call->ready && !call->due) by_program_give_call(call);
}

bool by_call_ended(const struct by_call *call) {
  return call->ended;
}

uint64_t by_call_trace(const struct by_call *call) {
  return call->trace;
}

enum banyan_status by_call_result(const struct by_call *call) {
  if (call->status == BANYAN_OK) return BANYAN_OK;
  const struct by_engine *engine = call->engine;
  bool alone = engine->status == BANYAN_OK;
  return by_fail(call->status, "%s",
                 alone ? "the communicator was destroyed while the call was under way" : engine->error);
}

void by_call_release(struct by_call *call) {
  call->released = true;
  by_call_drop(call);
}
