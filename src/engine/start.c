/* Starts calls: checks their arguments, finds the plan's class and the program, and returns results to the caller. */
#include "collective.h"
#include "engine_parts.h"
#include "fabric.h"
#include "log.h"
#include "reduce.h"

/* ---- checks of arguments */

static enum banyan_status check_kinds(const struct by_team *team, const struct banyan_call *call) {
  const char *name = banyan_collective_name(call->collective);
  if ((unsigned)call->collective >= BANYAN_COLLECTIVES)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective number %d", (int)call->collective);
  if (!banyan_dtype_size(call->dtype))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no dtype number %d", name, (int)call->dtype);
  if (by_collective(call->collective)->adds && (unsigned)call->op >= BANYAN_OPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no operation number %d", name, (int)call->op);
  if (by_collective(call->collective)->adds && !by_kernel_reduce(call->dtype, call->op))
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: %s is not defined for %s", name, banyan_op_name(call->op),
                   banyan_dtype_name(call->dtype));
  bool has_peer = by_collective(call->collective)->rooted || by_collective(call->collective)->pair;
  if (has_peer && (call->root < 0 || (uint32_t)call->root >= team->n))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no rank %d among %u", name, call->root, team->n);
  if (by_collective(call->collective)->pair && (uint32_t)call->root == team->vertices.self)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: a rank cannot send to or receive from itself (rank %d)", name, call->root);
  if (call->counts && (!by_collective(call->collective)->blocks || call->collective == BANYAN_ALLTOALL))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s takes no counts", name);
  bool scaled = call->scale != 0 && call->scale != 1;
  if (scaled && (!by_collective(call->collective)->adds || call->dtype > BANYAN_BFLOAT16))
    return by_fail(BANYAN_ERR_ARGUMENT, "%s of %s takes no scale: it is for sums of floating types", name,
                   banyan_dtype_name(call->dtype));
  return BANYAN_OK;
}

/* The elements of the whole layout; SIZE_MAX if their bytes overflow. */
static size_t count_elements(const struct by_team *team, const struct banyan_call *call) {
  size_t max = (SIZE_MAX / 4) / banyan_dtype_size(call->dtype), total = 0;
  if (!by_collective(call->collective)->blocks) return call->count > max ? SIZE_MAX : call->count;
  for (uint32_t r = 0; r < team->n; r++) {
    size_t block = call->counts ? call->counts[r] : call->count;
    if (block > max - total) return SIZE_MAX;
    total += block;
  }
  return total;
}

/* The elements in one of the caller's buffers; `total` are those of the whole layout. */
static size_t extent_count(const struct by_team *team, const struct banyan_call *call, uint8_t extent, size_t total) {
  switch ((enum by_extent)extent) {
  case BY_EXTENT_NOTHING: break;
  case BY_EXTENT_BLOCK: return call->counts ? call->counts[team->vertices.self] : call->count;
  case BY_EXTENT_ALL: return total;
  case BY_EXTENT_ALL_AT_ROOT: return (uint32_t)call->root == team->vertices.self ? total : 0;
  }
  return 0;
}

/* Checks buffers that overlap. In place, both buffers are the same for reductions, or one is this rank's block in the
 * other. */
static enum banyan_status check_in_place(const struct by_team *team, const struct banyan_call *call) {
  const struct by_collective *kind = by_collective(call->collective);
  bool gathers = kind->send == BY_EXTENT_BLOCK, scatters = kind->adds && kind->recv == BY_EXTENT_BLOCK;
  size_t offset = 0;
  for (uint32_t r = 0; kind->blocks && r < team->vertices.self; r++)
    offset += call->counts ? call->counts[r] : call->count;
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

/* Checks the buffers of a call that check_kinds accepted; `total` is the result of count_elements. */
static enum banyan_status check_buffers(const struct by_team *team, const struct banyan_call *call, size_t total) {
  const struct by_collective *kind = by_collective(call->collective);
  if (total == SIZE_MAX) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the count %zu is too large", kind->name, call->count);
  if (call->collective == BANYAN_BARRIER) return BANYAN_OK;
  size_t sends = extent_count(team, call, kind->send, total), receives = extent_count(team, call, kind->recv, total);
  if (sends && !call->send) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the send buffer is NULL", kind->name);
  if (receives && !call->recv) return by_fail(BANYAN_ERR_ARGUMENT, "%s: the receive buffer is NULL", kind->name);
  size_t element = banyan_dtype_size(call->dtype);
  if (!sends || !receives || !by_call_overlap(call->send, sends * element, call->recv, receives * element))
    return BANYAN_OK;
  return check_in_place(team, call);
}

/* ---- programs */

static bool has_servers(const struct by_plan *plan, const struct by_class *class_) {
  for (uint32_t g = 0; g < class_->n_groups; g++)
    if (by_group_has_server(plan, &class_->groups[g])) return true;
  return false;
}

enum { NOTABLE = 4096 /* Bytes of a call from which on its method is worth a message. */ };

/* Logs once per collective, or per type and operation, at the team's first rank. The latter is a warning, since users
 * can change types and operations, but hardly collectives. */
static void log_fallback(struct by_team *team, const struct by_plan *plan, const struct banyan_call *call) {
  struct by_fallbacks *logged = &by_engine_of(&team->runner->transfer)->fallbacks;
  const char *name = banyan_collective_name(call->collective);
  bool adds = call->collective == BANYAN_ALLREDUCE; /* For other collectives the operation was not checked. */
  uint64_t type = adds ? 1ull << (BANYAN_OPS * (unsigned)call->dtype + (unsigned)call->op) : 0;
  if (team->vertices.self) return;
  if (adds && !(logged->types & type)) {
    logged->types |= type;
    by_warn("innetwork",
            "%s(%s, %s) goes among ranks and not over the switches of plan '%s', which would be faster: they add f32, "
            "f16, bf16 and i32, by sum or avg; reduce one of these to use them",
            name, banyan_dtype_name(call->dtype), banyan_op_name(call->op), plan->name);
  } else if (!adds && !(logged->collectives >> call->collective & 1)) {
    logged->collectives |= 1u << call->collective;
    by_info("innetwork", "%s goes among ranks and not over the switches of plan '%s', which are for allreduce alone",
            name, plan->name);
  }
}

/* Whether switches can add the call, if the plan has trees through them. */
static bool is_in_network(const struct banyan_call *call) {
  return call->collective == BANYAN_ALLREDUCE && by_fabric_adds(call->dtype, call->op);
}

/* Whether the call would use trees through switches if they could add it. Barriers and direct exchanges of blocks
 * would not. */
static bool falls_back(const struct banyan_call *call, bool empty) {
  return !empty && !is_in_network(call) && call->collective != BANYAN_BARRIER &&
         !by_collective(call->collective)->direct;
}

/* The program of a call over a plan with helpers: groups of ranks alone, with the other groups as parts; or the whole
 * plan among ranks. */
static enum banyan_status get_helped(const struct by_helped *helped, const struct banyan_call *user, uint64_t bytes,
                                     enum banyan_collective collective, uint32_t root, bool empty,
                                     struct by_program **out) {
  const struct by_plan *plan = helped->plan;
  const struct by_class *class_ = by_plan_class_of(plan, collective, bytes);
  uint32_t index = (uint32_t)(class_ - plan->classes);
  bool servers = has_servers(plan, class_), helpers = !empty && by_collective(collective)->helpers;
  if (helpers && (is_in_network(user) || !servers) && plan->n_ranks > 1 && by_helped_has(helped, index))
    return by_helped_get(helped, plan, index, BY_PART_PLAIN, plan->version, collective, root, out);
  bool ring = servers && (by_collective(collective)->blocks || collective == BANYAN_ALLREDUCE);
  const struct by_plan *among = ring ? helped->rings : helped->among;
  uint32_t part = by_schedule_part(among, &among->classes[index], collective, bytes);
  BY_TRY(by_helped_get(helped, among, index, part, among->version, collective, root, out));
  if (!servers || !falls_back(user, empty)) return BANYAN_OK;
  (*out)->fallback = true;
  if (bytes >= NOTABLE) log_fallback(helped->team, plan, user);
  return BANYAN_OK;
}

static enum banyan_status get_program(struct by_team *team, const struct banyan_call *user, size_t total,
                                      struct by_program **out) {
  const struct by_collective *kind = by_collective(user->collective);
  const struct by_helped *helped = by_helped_current(team);
  enum banyan_collective collective = user->collective;
  if (kind->pair) return by_program_get_pair(team, collective == BANYAN_SEND, (uint32_t)user->root, out);
  bool empty = !total && collective != BANYAN_BARRIER; /* All ranks exchange a byte, without helpers. */
  if (empty) collective = BANYAN_BARRIER;
  uint64_t bytes = collective == BANYAN_BARRIER ? 1 : total * banyan_dtype_size(user->dtype);
  uint32_t root = kind->rooted && !empty ? (uint32_t)user->root : 0;
  if (helped) return get_helped(helped, user, bytes, collective, root, empty, out);
  const struct by_plan *plan = team->plan;
  const struct by_class *class_ = by_plan_class_of(plan, collective, bytes);
  return by_program_get(team, &team->vertices, plan, class_, by_schedule_part(plan, class_, collective, bytes),
                        plan->version, collective, root, out);
}

static bool is_like_last(const struct by_last *last, const struct banyan_call *user) {
  const struct banyan_call *before = &last->call;
  return last->program && !user->counts && user->collective == before->collective && user->count == before->count &&
         user->dtype == before->dtype && user->op == before->op && user->root == before->root &&
         user->scale == before->scale;
}

/* Checks a call and finds its program. *kind is the same for calls like it; 0: it has no kind. */
static enum banyan_status find_program(struct by_team *team, const struct banyan_call *user,
                                       struct by_program **program, uint64_t *kind) {
  struct by_last *last = &team->last;
  if (is_like_last(last, user)) {
    *program = last->program;
    *kind = last->kind;
    return check_buffers(team, user, last->total);
  }
  BY_TRY(check_kinds(team, user));
  size_t total = count_elements(team, user);
  BY_TRY(check_buffers(team, user, total));
  BY_TRY(get_program(team, user, total, program));
  *kind = 0;
  if (user->counts || by_collective(user->collective)->pair) return BANYAN_OK;
  *kind = last->kind + 1;
  *last = (struct by_last){.program = *program, .call = *user, .total = total, .kind = *kind};
  return BANYAN_OK;
}

enum banyan_status by_engine_check_call(const struct by_team *team, const struct banyan_call *call) {
  BY_TRY(check_kinds(team, call));
  return check_buffers(team, call, count_elements(team, call));
}

/* Fills a call, and its parts if it has any. */
static enum banyan_status fill_call(struct by_call *call, const struct banyan_call *user, uint64_t kind,
                                    uint64_t deadline) {
  if (!call->recoverable && call->program->part == BY_PART_PLAIN) BY_TRY(by_recoverable_create(call));
  BY_TRY(by_call_fill(call, user, kind, deadline));
  return call->recoverable ? by_recoverable_prepare(call, user) : BANYAN_OK;
}

enum banyan_status by_engine_start(struct by_team *team, const struct banyan_call *user, uint64_t deadline,
                                   struct by_call **out) {
  const struct by_transfer *transfer = &team->runner->transfer;
  struct by_program *program = NULL;
  uint64_t kind = 0;
  uint32_t *number = &team->next_call;
  struct by_call *call = NULL;
  if (transfer->status != BANYAN_OK && !transfer->state.settles_by)
    return by_fail(transfer->status, "%s", transfer->state.error);
  BY_TRY(find_program(team, user, &program, &kind));
  if (by_collective(user->collective)->pair)
    BY_TRY(by_team_pair_number(team, user, &number));
  else
    while (team->window[*number & (team->window_size - 1)]) BY_TRY(by_team_grow_window(team));
  BY_TRY(by_program_take_call(program, &call));
  enum banyan_status status = fill_call(call, user, kind, deadline);
  if (status != BANYAN_OK) {
    by_program_give_call(call);
    return status;
  }
  call->exchange.descriptor.call = (*number)++;
  by_call_begin(call, user->name);
  if (call->recoverable) by_recoverable_begin(call);
  *out = call;
  return BANYAN_OK;
}

bool by_call_ended(const struct by_call *call) {
  return call->state == BY_CALL_ENDED;
}

uint64_t by_call_trace(const struct by_call *call) {
  return call->exchange.trace;
}

enum banyan_status by_call_result(const struct by_call *call) {
  if (call->status == BANYAN_OK) return BANYAN_OK;
  const struct by_transfer *transfer = call->exchange.transfer;
  bool alone = transfer->status == BANYAN_OK;
  return by_fail(call->status, "%s",
                 alone ? "the communicator was destroyed while the call was under way" : transfer->state.error);
}

void by_call_release(struct by_call *call) {
  call->released = true;
  by_call_drop(call);
}
