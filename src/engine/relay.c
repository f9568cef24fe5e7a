/* The calls of a helper, which makes none itself but takes part in those of ranks. The first frame of a part that
 * arrives here identifies the call, its kind, its size, and by its version the tree. The helper's part of the call is
 * made then, and ends when everything has been passed on.
 *
 * Frames of a plan that is not known yet, and those for which there is no memory now, are kept within the credit of
 * their link. */
#include "recovery.h"

#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "deliver.h"

enum { PAST = 1024, MAX_RELAYS = 1 << 15 };

struct by_call *by_relay_find(const struct by_team *team, const struct by_frame *frame) {
  for (struct by_call *call = LIST_FIRST(&team->recovery.relays); call; call = LIST_NEXT(call, listed))
    if (call->exchange.descriptor.call == frame->call && call->exchange.descriptor.plan == frame->plan) return call;
  return NULL;
}

static uint64_t key_of(const struct by_frame *frame) {
  return (uint64_t)frame->plan << 32 | frame->call;
}

static uint32_t past_slot(const struct by_frame *frame) {
  return (frame->call ^ frame->plan) % PAST;
}

static struct by_helped *helped_of(const struct by_call *call) {
  return (struct by_helped *)(uintptr_t)call->program->vertices;
}

static void end_relayed(struct by_call *call) {
  struct by_team *team = call->team;
  struct by_recovery *recovery = by_recovery_of(team);
  const struct by_frame *descriptor = &call->exchange.descriptor;
  LIST_REMOVE(call, listed);
  /* Identifies late answers to calls that have ended, and requests that other frames have overtaken. */
  if (!team->recovery.relayed_past) team->recovery.relayed_past = calloc(PAST, sizeof *team->recovery.relayed_past);
  if (team->recovery.relayed_past) team->recovery.relayed_past[past_slot(descriptor)] = key_of(descriptor);
  recovery->relay_bytes -= call->scratch_bytes;
  recovery->n_relays--;
  recovery->retry = true;
  helped_of(call)->users--;
}

void by_relay_lost(struct by_team *team) {
  for (struct by_call *call = LIST_FIRST(&team->recovery.relays), *next; call; call = next) {
    next = LIST_NEXT(call, listed);
    const struct by_helped_group *group = by_helped_find(helped_of(call), call->exchange.descriptor.plan);
    if (group && group->lost) {
      by_call_end(call, BANYAN_ERR_CLOSED);
      by_call_drop(call);
    }
  }
}

/* ---- creating a relayed call */

static struct banyan_call call_of(const struct by_frame *frame) {
  return (struct banyan_call){.collective = (enum banyan_collective)frame->collective,
                              .count = frame->count,
                              .dtype = (enum banyan_dtype)(frame->dtype_op >> 4),
                              .op = (enum banyan_op)(frame->dtype_op & 15),
                              .root = (int)frame->root};
}

static bool is_sound(const struct by_team *team, const struct by_frame *frame) {
  struct banyan_call call = call_of(frame);
  if (!by_collective(call.collective)->helpers || frame->root >= team->n) return false;
  bool adds = call.collective == BANYAN_ALLREDUCE || call.collective == BANYAN_REDUCE;
  size_t element = banyan_dtype_size(call.dtype);
  return element && frame->count <= SIZE_MAX / 4 / element && (!adds || by_kernel_reduce(call.dtype, call.op));
}

/* Frees the scratch of idle calls. */
static void free_idle(const struct by_runner *runner) {
  for (struct by_team *d = runner->teams; d; d = d->next)
    for (struct by_program *p = d->programs; p; p = p->next)
      for (struct by_call *call = LIST_FIRST(&p->idle); call; call = LIST_NEXT(call, next)) {
        free(call->scratch);
        call->scratch = NULL;
        call->scratch_bytes = 0;
      }
}

static enum banyan_status begin_relayed(struct by_team *team, struct by_helped *helped, struct by_program *program,
                                        const struct by_frame *frame, struct by_call **out) {
  static const struct by_call_ops ops = {.done = by_due_add, .ended = end_relayed};
  struct banyan_call user = call_of(frame);
  struct by_call *call = NULL;
  BY_TRY(by_program_take_call(program, &call));
  enum banyan_status status = by_call_fill_part(call, &user, NULL, NULL);
  if (status != BANYAN_OK) {
    by_program_give_call(call);
    return status;
  }
  call->relay = call->released = true; /* No user waits for it. */
  call->exchange.descriptor.call = frame->call;
  call->ops = &ops;
  LIST_INSERT_HEAD(&team->recovery.relays, call, listed);
  by_recovery_of(team)->relay_bytes += call->scratch_bytes;
  by_recovery_of(team)->n_relays++;
  helped->users++;
  *out = call;
  by_call_begin(call, NULL);
  return BANYAN_OK;
}

/* Whether there is memory for one more call. A call only waits for earlier ones: ranks may not make later ones before
 * it has ended. */
static bool has_capacity(const struct by_team *team, const struct by_frame *frame) {
  const struct by_recovery *recovery = by_recovery_of(team);
  size_t bytes = frame->count * banyan_dtype_size((enum banyan_dtype)(frame->dtype_op >> 4));
  if (recovery->n_relays == MAX_RELAYS) return false;
  if (recovery->relay_bytes + bytes <= recovery->relay_memory) return true;
  free_idle(team->runner);
  for (const struct by_call *call = LIST_FIRST(&team->recovery.relays); call; call = LIST_NEXT(call, listed))
    if ((int32_t)(call->exchange.descriptor.call - frame->call) < 0) return false;
  return true;
}

/* Whether an offer that is kept precedes this frame, which only reports how much of it is ready. Such a frame makes
 * no call, but is kept behind the offer. */
static bool follows_kept(const struct by_transfer_link *link, const struct by_frame *frame) {
  const struct by_stored *stored = frame->type == BY_FRAME_MORE ? TAILQ_FIRST(&link->stored) : NULL;
  while (stored &&
         (stored->frame.team != frame->team || stored->frame.call != frame->call || stored->frame.plan != frame->plan))
    stored = TAILQ_NEXT(stored, next);
  return stored != NULL;
}

enum banyan_status by_relay_take(struct by_recovery *recovery, struct by_transfer_link *link,
                                 const struct by_frame *frame, struct by_call **call, bool *keep) {
  struct by_team *team = by_team_of(&recovery->runner, frame->team);
  struct by_helped *helped = team ? team->recovery.helped : NULL;
  const struct by_helped_group *group = NULL;
  const uint64_t *past = team ? team->recovery.relayed_past : NULL;
  bool begins = frame->type == BY_FRAME_DATA || frame->type == BY_FRAME_OFFER;
  while (helped && !(group = by_helped_find(helped, frame->plan))) helped = helped->next;
  *keep = follows_kept(link, frame);
  if (*keep) return BANYAN_OK;
  if (helped && (!begins || (past && past[past_slot(frame)] == key_of(frame)) || group->lost)) return BANYAN_OK;
  if (frame->flags & BY_FRAME_PAIR || (helped && (group->again == frame->plan || !is_sound(team, frame))))
    return by_fail(BANYAN_ERR_PROTOCOL, "a frame of a call in which helpers have no part");
  *keep = !helped || !has_capacity(team, frame);
  if (*keep) return BANYAN_OK;
  struct by_program *program = NULL;
  BY_TRY(by_helped_get(helped, helped->plan, group->class_, group->group, frame->plan,
                       (enum banyan_collective)frame->collective, frame->root, &program));
  return begin_relayed(team, helped, program, frame, call);
}

/* ---- retrying kept frames */

static bool retry_link(struct by_recovery *recovery, struct by_transfer_link *link) {
  for (struct by_stored *stored = TAILQ_FIRST(&link->stored); stored; stored = TAILQ_NEXT(stored, next)) {
    struct by_call *call = NULL;
    bool keep = false;
    if (stored->filled < stored->frame.size) continue;
    struct by_team *team = by_team_of(&recovery->runner, stored->frame.team);
    if (team) call = by_relay_find(team, &stored->frame);
    if (!call && by_relay_take(recovery, link, &stored->frame, &call, &keep) != BANYAN_OK) {
      return by_deliver_broken(link, banyan_error_text());
    }
    if (keep) continue;
    struct by_frame frame = stored->frame; /* by_deliver_forget frees `stored`. */
    if (call)
      by_deliver_stored(link, &call->exchange);
    else
      by_deliver_forget(link, frame.team, &frame.call, frame.plan);
    return true; /* The list has changed. */
  }
  return false;
}

void by_relay_retry(struct by_recovery *recovery) {
  const struct by_transfer *transfer = &recovery->runner.transfer;
  recovery->retry = false;
  for (uint32_t i = 0; i < transfer->processes && transfer->status == BANYAN_OK; i++)
    while (transfer->status == BANYAN_OK && retry_link(recovery, transfer->links[i])) {
    }
}
