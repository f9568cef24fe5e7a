/* Starting calls: checks, the plan's class and its program, and what the caller knows of a call. */
#include "check_call.h"
#include "collective.h"
#include "engine_parts.h"

static bool has_servers(const struct by_plan *plan, const struct by_class *class_) {
  for (uint32_t g = 0; g < class_->n_groups; g++)
    if (by_group_has_server(plan, &class_->groups[g])) return true;
  return false;
}

/* Over a plan with helpers: its groups of ranks alone, with the other groups as parts; or all of it, among ranks. */
static enum banyan_status get_helped(const struct by_helped *helped, uint64_t bytes, enum banyan_collective collective,
                                     uint32_t root, bool helpers, bool in_network, struct by_program **out) {
  const struct by_plan *plan = helped->plan;
  const struct by_class *class_ = by_plan_class(plan, bytes);
  uint32_t index = (uint32_t)(class_ - plan->classes);
  if (!helpers || (!in_network && has_servers(plan, class_)) || plan->n_ranks == 1 || !by_helped_has(helped, index))
    return by_helped_get(helped, true, index, BY_PART_ALL, helped->among->version, collective, root, out);
  return by_helped_get(helped, false, index, BY_PART_PLAIN, plan->version, collective, root, out);
}

static enum banyan_status get_program(struct by_team *team, const struct banyan_call *user, size_t total,
                                      struct by_program **out) {
  const struct by_collective *kind = by_collective(user->collective);
  const struct by_helped *helped = by_helped_current(team);
  enum banyan_collective collective = user->collective;
  if (kind->pair) return by_program_get_pair(team, collective == BANYAN_SEND, (uint32_t)user->root, out);
  bool empty = !total && collective != BANYAN_BARRIER; /* all ranks exchange a byte, without helpers */
  if (empty) collective = BANYAN_BARRIER;
  uint64_t bytes = collective == BANYAN_BARRIER ? 1 : total * banyan_dtype_size(user->dtype);
  uint32_t root = kind->rooted && !empty ? (uint32_t)user->root : 0;
  bool in_network = collective == BANYAN_ALLREDUCE && by_fabric_adds(user->dtype, user->op);
  bool helpers = !empty && by_collective(collective)->helpers;
  if (helped) return get_helped(helped, bytes, collective, root, helpers, in_network, out);
  const struct by_plan *plan = team->plan;
  return by_program_get(team, &team->vertices, plan, by_plan_class(plan, bytes), BY_PART_ALL, plan->version, collective,
                        root, out);
}

static bool is_like_last(const struct by_last *last, const struct banyan_call *user) {
  const struct banyan_call *before = &last->call;
  return last->program && !user->counts && user->collective == before->collective && user->count == before->count &&
         user->dtype == before->dtype && user->op == before->op && user->root == before->root &&
         user->scale == before->scale;
}

/* Checks a call and finds its program. *kind: what calls like it have in common, 0: nothing. */
static enum banyan_status look_up(struct by_team *team, const struct banyan_call *user, struct by_program **program,
                                  uint64_t *kind) {
  struct by_last *last = &team->last;
  if (is_like_last(last, user)) {
    *program = last->program;
    *kind = last->kind;
    return by_check_buffers(team, user, last->total);
  }
  BY_TRY(by_check_kinds(team, user));
  size_t total = by_check_total(team, user);
  BY_TRY(by_check_buffers(team, user, total));
  BY_TRY(get_program(team, user, total, program));
  *kind = 0;
  if (user->counts || by_collective(user->collective)->pair) return BANYAN_OK;
  *kind = last->kind + 1;
  *last = (struct by_last){.program = *program, .call = *user, .total = total, .kind = *kind};
  return BANYAN_OK;
}

enum banyan_status by_engine_check_call(const struct by_team *team, const struct banyan_call *call) {
  BY_TRY(by_check_kinds(team, call));
  return by_check_buffers(team, call, by_check_total(team, call));
}

/* Fills a call; with parts, these too. */
static enum banyan_status fill(struct by_call *call, const struct banyan_call *user, uint64_t kind, uint64_t deadline) {
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
  if (transfer->status != BANYAN_OK) return by_fail(transfer->status, "%s", transfer->error);
  BY_TRY(look_up(team, user, &program, &kind));
  if (by_collective(user->collective)->pair)
    BY_TRY(by_team_pair_number(team, user, &number));
  else
    while (team->window[*number & (team->window_size - 1)]) BY_TRY(by_team_grow_window(team));
  BY_TRY(by_program_take_call(program, &call));
  enum banyan_status status = fill(call, user, kind, deadline);
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
                 alone ? "the communicator was destroyed while the call was under way" : transfer->error);
}

void by_call_release(struct by_call *call) {
  call->released = true;
  by_call_drop(call);
}
