/* A call over a plan with helpers has parts: every group with helpers runs on its own, so that it can be given up and
 * repeated among ranks alone when one of its helpers is lost. The call itself runs the other groups.
 *
 *    its own steps  =========|
 *    part 0         ======================|          confirm: which result each rank has
 *    part 1         ====x (a helper is lost)         of each part, OR over all
 *      again             =========================|  ==|
 *
 * A rank whose call ends may change its buffers, and then other ranks could not repeat a part. So all ranks first
 * confirm to each other that they have results. For each part a rank votes 0 if it has the result through helpers,
 * and 1 if it has only the repeated one. If all vote 0, all use the first result, and ranks that began to repeat the
 * part give that up. Otherwise all use the repeated result: a rank with the first one still takes part, since its
 * call has not ended, and overwrites its result. So all ranks have the same bits, whenever they learn of the loss. */
#include "recovery.h"

#include <stdlib.h>
#include <string.h>

#include "deliver.h"

/* One group of a call, which runs on its own so that it can be repeated. */
struct by_recoverable_part {
  const struct by_helped_group *group;
  struct by_call *call, *again; /* Through helpers, and among ranks alone; NULL: not begun, or given up. */
  bool in, in_again;            /* The results of `call` and `again` are complete. */
  bool direct;                  /* Only `again` was begun. It works in the caller's buffers. */
};

struct by_recoverable {
  struct by_helped *helped;
  uint32_t n;
  struct by_recoverable_part *parts;
  struct banyan_call user;
  struct by_call *confirm;
  bool confirmed;
  uint8_t *votes, *verdict; /* For each part, 1 if this rank, or any rank, has only the result of `again`. */
  void *kept, *results;     /* Terms that adding in place would overwrite; the results of `again`. */
  size_t kept_bytes, results_bytes;
};

static struct by_call *if_running(struct by_call *call) {
  return call && call->state == BY_CALL_RUNNING ? call : NULL;
}

struct by_call *by_recoverable_find(const struct by_call *whole, const struct by_frame *frame) {
  const struct by_recoverable *recoverable = whole->recoverable;
  for (uint32_t p = 0; p < recoverable->n; p++) {
    const struct by_recoverable_part *part = &recoverable->parts[p];
    const struct by_helped_group *group = part->group;
    if (frame->plan == group->version) return if_running(part->call);
    if (frame->plan == group->again) return if_running(part->again);
  }
  if (frame->plan == recoverable->helped->confirm_version) return if_running(recoverable->confirm);
  return (struct by_call *)whole;
}

const struct by_call *by_recoverable_part(const struct by_call *whole, uint32_t i) {
  const struct by_recoverable *recoverable = whole->recoverable;
  for (uint32_t p = 0; recoverable && p < 2 * recoverable->n + 1; p++) {
    struct by_call *call = recoverable->confirm;
    if (p < 2 * recoverable->n) call = p % 2 ? recoverable->parts[p / 2].again : recoverable->parts[p / 2].call;
    if (if_running(call) && !i--) return call;
  }
  return NULL;
}

static bool has_version(const struct by_helped *helped, uint32_t version) {
  return helped->confirm_version == version || by_helped_find(helped, version);
}

static enum by_unmatched classify_part(const struct by_recoverable *recoverable, uint32_t version) {
  if (version == recoverable->helped->confirm_version)
    return recoverable->confirm ? BY_UNMATCHED_HANDLED : BY_UNMATCHED_KEEP;
  for (uint32_t p = 0; p < recoverable->n; p++) {
    const struct by_recoverable_part *part = &recoverable->parts[p];
    const struct by_helped_group *group = part->group;
    if (version == group->version) return BY_UNMATCHED_HANDLED;
    if (version != group->again) continue;
    /* This rank may not have learnt of the loss yet. */
    bool unknown = !part->again && !(recoverable->confirmed && !recoverable->verdict[p]);
    return unknown ? BY_UNMATCHED_KEEP : BY_UNMATCHED_HANDLED;
  }
  return BY_UNMATCHED_FOUND;
}

/* Finds the call by its plan: the team may have the same plan twice, and a call may use the older one. */
enum by_unmatched by_recoverable_classify(const struct by_team *team, const struct by_frame *frame) {
  const struct by_call *whole = team->window[frame->call & (team->window_size - 1)];
  if (whole && whole->exchange.descriptor.call == frame->call)
    return whole->recoverable && has_version(whole->recoverable->helped, frame->plan)
               ? classify_part(whole->recoverable, frame->plan)
               : BY_UNMATCHED_FOUND;
  bool past = (int32_t)(frame->call - team->next_call) < 0;
  const struct by_helped *helped = past ? team->recovery.helped : NULL;
  while (helped && !has_version(helped, frame->plan)) helped = helped->next;
  return helped ? BY_UNMATCHED_HANDLED : BY_UNMATCHED_FOUND;
}

/* ---- parts */

static void give_back(struct by_call **slot, enum banyan_status status) {
  struct by_call *call = *slot;
  *slot = NULL;
  if (!call) return;
  by_call_end(call, status == BANYAN_OK ? BANYAN_ERR_CLOSED : status);
  call->released = true;
  by_call_drop(call);
}

static void give_back_parts(struct by_recoverable *recoverable, enum banyan_status status) {
  for (uint32_t p = 0; p < recoverable->n; p++) {
    give_back(&recoverable->parts[p].call, status);
    give_back(&recoverable->parts[p].again, status);
  }
}

/* Takes a call object for a part of the whole, and fills it. */
static enum banyan_status take_part(struct by_call *whole, struct by_program *program, const struct banyan_call *user,
                                    char *send, char *recv, struct by_call **out) {
  static const struct by_call_ops ops = {.done = by_due_add};
  struct by_call *call = NULL;
  BY_TRY(by_program_take_call(program, &call));
  call->whole = whole;
  call->ops = &ops;
  call->exchange.family = whole;
  enum banyan_status status = by_call_fill_part(call, user, send, recv);
  if (status != BANYAN_OK) {
    by_program_give_call(call);
    return status;
  }
  *out = call;
  return BANYAN_OK;
}

static void begin_part(const struct by_call *whole, struct by_call *call) {
  if (whole->state != BY_CALL_RUNNING) return; /* The job has failed. */
  call->exchange.descriptor.call = whole->exchange.descriptor.call;
  by_call_begin(call, NULL);
}

static enum banyan_status program_of(const struct by_call *whole, const struct by_recoverable_part *part, bool again,
                                     struct by_program **out) {
  const struct by_recoverable *recoverable = whole->recoverable;
  const struct by_helped_group *group = part->group;
  const struct by_helped *helped = recoverable->helped;
  return by_helped_get(helped, again ? helped->among : helped->plan, group->class_, group->group,
                       again ? group->again : group->version, recoverable->user.collective, whole->schedule->root, out);
}

/* The bytes of a part, whose group has one piece. */
static void get_extent(const struct by_call *part, uint64_t *first, uint64_t *n) {
  const struct by_schedule *s = part->schedule;
  *first = s->n_steps ? part->bounds[s->steps[0].first] : 0;
  *n = s->n_steps ? part->bounds[s->steps[0].last] - *first : 0;
}

/* Keeps this rank's term if adding in place overwrites it. */
static enum banyan_status keep_term(struct by_call *whole, const struct by_call *part) {
  struct by_recoverable *recoverable = whole->recoverable;
  uint64_t first, n;
  get_extent(part, &first, &n);
  if (whole->schedule->collective == BANYAN_BROADCAST || whole->buffer[BY_BUFFER_SEND] != whole->buffer[BY_BUFFER_RECV])
    return BANYAN_OK;
  BY_TRY(by_call_need(by_call_runner(whole), &recoverable->kept, &recoverable->kept_bytes,
                      whole->bounds[whole->schedule->n_pieces]));
  if (n) memcpy((char *)recoverable->kept + first, whole->buffer[BY_BUFFER_SEND] + first, n);
  return BANYAN_OK;
}

static enum banyan_status prepare_part(struct by_call *whole, struct by_recoverable_part *part) {
  struct by_recoverable *recoverable = whole->recoverable;
  struct by_program *program = NULL;
  part->direct = part->group->lost;
  part->in = part->in_again = false;
  BY_TRY(program_of(whole, part, part->direct, &program));
  BY_TRY(take_part(whole, program, &recoverable->user, whole->buffer[BY_BUFFER_SEND], whole->buffer[BY_BUFFER_RECV],
                   part->direct ? &part->again : &part->call));
  return part->direct ? BANYAN_OK : keep_term(whole, part->call);
}

enum banyan_status by_recoverable_prepare(struct by_call *whole, const struct banyan_call *user) {
  struct by_recoverable *recoverable = whole->recoverable;
  enum banyan_status status = BANYAN_OK;
  recoverable->user = *user;
  recoverable->confirmed = false;
  for (uint32_t p = 0; p < recoverable->n && status == BANYAN_OK; p++)
    status = prepare_part(whole, &recoverable->parts[p]);
  if (status == BANYAN_OK) {
    recoverable->helped->users++;
    return BANYAN_OK;
  }
  give_back_parts(recoverable, BANYAN_OK);
  return status;
}

void by_recoverable_begin(struct by_call *whole) {
  struct by_recoverable *recoverable = whole->recoverable;
  bool in_network = false;
  for (uint32_t p = 0; p < recoverable->n; p++)
    in_network |= recoverable->parts[p].group->in_network && !recoverable->parts[p].direct;
  by_call_runner(whole)->transfer.counters.in_network += in_network;
  for (uint32_t p = 0; p < recoverable->n && whole->state == BY_CALL_RUNNING; p++)
    begin_part(whole, recoverable->parts[p].direct ? recoverable->parts[p].again : recoverable->parts[p].call);
}

static void end_parts(struct by_call *whole) {
  struct by_recoverable *recoverable = whole->recoverable;
  const struct by_transfer *transfer = whole->exchange.transfer;
  give_back_parts(recoverable, whole->status);
  give_back(&recoverable->confirm, whole->status);
  recoverable->helped->users--;
  for (uint32_t i = 0; transfer->status == BANYAN_OK && i < transfer->processes; i++)
    by_deliver_forget(transfer->links[i], whole->team->id, &whole->exchange.descriptor.call, 0);
}

/* ---- creating parts */

static void free_parts(struct by_call *call) {
  struct by_recoverable *recoverable = call->recoverable;
  free(recoverable->parts);
  free(recoverable->votes);
  free(recoverable->verdict);
  free(recoverable->kept);
  free(recoverable->results);
  free(recoverable);
}

enum banyan_status by_recoverable_create(struct by_call *call) {
  static const struct by_call_ops ops = {.done = by_due_add, .ended = end_parts, .freed = free_parts};
  struct by_helped *helped = (struct by_helped *)(uintptr_t)call->program->vertices;
  const struct by_class *class_ = call->program->class_;
  uint32_t n = class_->n_groups;
  struct by_recoverable *recoverable = calloc(1, sizeof *recoverable);
  if (!recoverable) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a call of %u parts", n);
  recoverable->helped = helped;
  recoverable->parts = calloc(n, sizeof *recoverable->parts);
  recoverable->votes = calloc(n, 1);
  recoverable->verdict = calloc(n, 1);
  call->recoverable = recoverable;
  if (!recoverable->parts || !recoverable->votes || !recoverable->verdict) {
    free_parts(call);
    call->recoverable = NULL;
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a call of %u parts", n);
  }
  for (uint32_t i = 0; i < helped->n_groups; i++)
    if (helped->groups[i].class_ == class_ - helped->plan->classes)
      recoverable->parts[recoverable->n++].group = &helped->groups[i];
  call->ops = &ops;
  return BANYAN_OK;
}

/* ---- repeating */

/* Whether this rank has a buffer for results. */
static bool has_results(const struct by_call *whole) {
  const struct by_schedule *s = whole->schedule;
  if (s->collective == BANYAN_REDUCE) return s->rank == s->root;
  return s->collective != BANYAN_BROADCAST || s->rank != s->root;
}

static enum banyan_status repeat_part(struct by_call *whole, struct by_recoverable_part *part) {
  struct by_recoverable *recoverable = whole->recoverable;
  struct by_program *program = NULL;
  char *send = whole->buffer[BY_BUFFER_SEND], *recv = whole->buffer[BY_BUFFER_RECV];
  if (recoverable->kept_bytes && send == recv) send = recoverable->kept;
  BY_TRY(program_of(whole, part, true, &program));
  if (has_results(whole)) {
    size_t bytes = whole->bounds[whole->schedule->n_pieces];
    BY_TRY(by_call_need(by_call_runner(whole), &recoverable->results, &recoverable->results_bytes, bytes));
    recv = recoverable->results;
  }
  BY_TRY(take_part(whole, program, &recoverable->user, send, recv, &part->again));
  begin_part(whole, part->again);
  return BANYAN_OK;
}

static void note_end(struct by_call *call, bool *in) {
  if (*in || !if_running(call) || call->steps_left) return;
  *in = true;
  by_call_end(call, BANYAN_OK);
}

void by_recoverable_lost(struct by_call *whole) {
  struct by_recoverable *recoverable = whole->recoverable;
  enum banyan_status status = BANYAN_OK;
  for (uint32_t p = 0; p < recoverable->n && whole->state == BY_CALL_RUNNING && status == BANYAN_OK; p++) {
    struct by_recoverable_part *part = &recoverable->parts[p];
    if (!part->group->lost || part->again) continue;
    note_end(part->call, &part->in);
    if (!part->in) give_back(&part->call, BANYAN_ERR_CLOSED);
    if (recoverable->confirmed && !recoverable->verdict[p]) continue;
    status = repeat_part(whole, part);
  }
  if (status != BANYAN_OK) by_transfer_fail(whole->exchange.transfer, status, UINT32_MAX, banyan_error_text());
  if (whole->state == BY_CALL_RUNNING) by_due_add(whole);
}

/* ---- confirming */

static enum banyan_status confirm_results(struct by_call *whole) {
  struct by_recoverable *recoverable = whole->recoverable;
  struct by_helped *helped = recoverable->helped;
  struct by_program *program = NULL;
  struct banyan_call user = {
      .collective = BANYAN_ALLREDUCE, .count = recoverable->n, .dtype = BANYAN_UINT8, .op = BANYAN_OR};
  for (uint32_t p = 0; p < recoverable->n; p++) recoverable->votes[p] = !recoverable->parts[p].in;
  BY_TRY(by_program_get(whole->team, &helped->vertices, helped->confirm, helped->confirm->classes, BY_PART_ALL,
                        helped->confirm_version, BANYAN_ALLREDUCE, 0, &program));
  BY_TRY(take_part(whole, program, &user, (char *)recoverable->votes, (char *)recoverable->verdict,
                   &recoverable->confirm));
  begin_part(whole, recoverable->confirm);
  return BANYAN_OK;
}

static void take_result(const struct by_call *whole, const struct by_recoverable_part *part) {
  uint64_t first, n;
  if (part->direct || !has_results(whole)) return;
  get_extent(part->again, &first, &n);
  if (n) memcpy(whole->buffer[BY_BUFFER_RECV] + first, (const char *)whole->recoverable->results + first, n);
}

static void finish_call(struct by_call *whole) {
  const struct by_recoverable *recoverable = whole->recoverable;
  for (uint32_t p = 0; p < recoverable->n; p++)
    if (recoverable->verdict[p] && !recoverable->parts[p].in_again) return;
  for (uint32_t p = 0; p < recoverable->n; p++)
    if (recoverable->verdict[p]) take_result(whole, &recoverable->parts[p]);
  by_call_end(whole, BANYAN_OK);
}

static enum banyan_status advance_call(struct by_call *whole) {
  struct by_recoverable *recoverable = whole->recoverable;
  bool all = whole->steps_left == 0;
  for (uint32_t p = 0; p < recoverable->n; p++) {
    struct by_recoverable_part *part = &recoverable->parts[p];
    note_end(part->call, &part->in);
    note_end(part->again, &part->in_again);
    all &= part->in || part->in_again;
  }
  if (all && !recoverable->confirm) return confirm_results(whole);
  if (recoverable->confirm) note_end(recoverable->confirm, &recoverable->confirmed);
  if (recoverable->confirmed) finish_call(whole);
  return BANYAN_OK;
}

/* ---- calls with all steps done */

void by_due_add(struct by_call *call) {
  struct by_recovery *recovery = by_recovery_of(call->team);
  struct by_call *due = call->whole ? call->whole : call;
  recovery->runner.transfer.moved = true;
  if (due->due) return;
  due->due = true;
  LIST_INSERT_HEAD(&recovery->due, due, due_next);
}

void by_due_run(struct by_recovery *recovery) {
  struct by_transfer *transfer = &recovery->runner.transfer;
  for (struct by_call *call; (call = LIST_FIRST(&recovery->due));) {
    struct by_team *team = call->team;
    LIST_REMOVE(call, due_next);
    call->due = false;
    enum banyan_status status = BANYAN_OK;
    if (transfer->status == BANYAN_OK && call->state == BY_CALL_RUNNING) {
      if (call->relay)
        by_call_end(call, BANYAN_OK);
      else
        status = advance_call(call);
    }
    if (status != BANYAN_OK) by_transfer_fail(transfer, status, UINT32_MAX, banyan_error_text());
    by_call_drop(call);
    if (team->recovery.helped && (team->recovery.helped->next || !by_helped_current(team))) by_helped_sweep(team);
  }
  transfer->moved = true;
}

void by_due_forget(const struct by_team *team) {
  for (struct by_call *call = LIST_FIRST(&by_recovery_of(team)->due), *next; call; call = next) {
    next = LIST_NEXT(call, due_next);
    if (call->team != team) continue;
    call->due = false;
    LIST_REMOVE(call, due_next);
  }
}
