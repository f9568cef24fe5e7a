#include "moves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/comm.h>

#include "control.h"
#include "log.h"

static struct banyan_comm *find(const struct by_context *context, uint32_t id) {
  struct banyan_comm *comm = context->comms;
  while (comm && by_domain_id(comm->domain) != id) comm = comm->next;
  return comm;
}

static void forget_next(struct banyan_comm *comm) {
  by_plan_destroy(comm->next_plan.plan);
  comm->next_plan = (struct by_kept_plan){0};
}

void by_moves_forget(struct banyan_comm *comm) {
  forget_next(comm);
  by_moves_let_all_go(comm);
}

/* ---- changing */

/* A manager's plan comes behind one that the user has set meanwhile, at the same place on all ranks, so that all keep
 * that. */
static void keep_users_plan(struct banyan_comm *comm, const struct by_kept_plan *next) {
  by_info("plan", "the manager's plan is not used: the user has set plan '%s'", by_domain_plan(comm->domain)->name);
  by_moves_let_go(comm, next->number);
  if (comm->moved == next->number) comm->moved = 0;
  if (!comm->moved) comm->announces = false;
  by_plan_destroy(next->plan);
}

static enum banyan_status set_plan(struct banyan_comm *comm) {
  struct by_kept_plan next = comm->next_plan;
  comm->next_plan = (struct by_kept_plan){0};
  by_move_end(&comm->move);
  if (by_plans_is_pinned(by_domain_plan(comm->domain), next.plan)) {
    keep_users_plan(comm, &next);
    return BANYAN_OK;
  }
  enum banyan_status status = by_moves_keep_before(comm);
  if (status != BANYAN_OK) {
    by_plan_destroy(next.plan);
    return status;
  }
  BY_TRY(by_plans_set(comm->context, comm->domain, comm->size, comm->processes, next.plan, next.helpers));
  comm->context->moves++;
  char when[48];
  snprintf(when, sizeof when, " from call %llu on", (unsigned long long)comm->started);
  by_plans_log(comm->context, by_domain_plan(comm->domain), when);
  return BANYAN_OK;
}

/* The others have it, so that going on with the old plan cannot end well. */
static enum banyan_status change(struct banyan_comm *comm) {
  enum banyan_status status = set_plan(comm);
  if (status != BANYAN_OK)
    by_engine_fail(comm->context->job.engine, status, comm->context->job.rank, banyan_error_text());
  return status;
}

struct wait {
  struct banyan_comm *comm;
  uint64_t deadline;
};

static enum by_move_next next(const struct banyan_comm *comm) {
  return by_move_next(&comm->move, comm->started);
}

static bool is_over(void *argument) {
  const struct wait *wait = argument;
  return next(wait->comm) != BY_MOVE_WAITS || by_engine_status(wait->comm->context->job.engine) != BANYAN_OK ||
         by_clock_now(&by_clock_system) > wait->deadline;
}

enum banyan_status by_moves_pass(struct banyan_comm *comm, uint64_t deadline) {
  struct wait wait = {comm, deadline};
  struct by_engine *engine = comm->context->job.engine;
  if (next(comm) == BY_MOVE_WAITS) by_context_wait_until(comm->context, is_over, &wait);
  if (next(comm) == BY_MOVE_CHANGES) return change(comm);
  if (next(comm) == BY_MOVE_GOES_ON) return BANYAN_OK;
  if (by_engine_status(engine) != BANYAN_OK) return by_fail(by_engine_status(engine), "%s", by_engine_error(engine));
  return by_fail(BANYAN_ERR_TIMEOUT,
                 "call %llu waited in vain for rank 0's word whether it is made under another plan: is rank 0 stopped?",
                 (unsigned long long)comm->started);
}

void by_moves_started_one(struct banyan_comm *comm) {
  if (next(comm) == BY_MOVE_CHANGES) (void)!change(comm);
}

/* ---- words */

static enum banyan_status read_helpers(struct by_context *context, const struct by_move_word *word,
                                       struct by_kept_plan *kept) {
  kept->helpers = BY_ARENA_ARRAY(&kept->plan->arena, uint32_t, word->n_processes + 1);
  if (!kept->helpers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (size_t i = 0; i < word->n_processes; i++) kept->helpers[i] = by_move_word_process(word, i);
  by_context_lock(context);
  enum banyan_status status = by_plans_check_helpers(context, kept->plan, kept->helpers, word->n_processes);
  by_context_unlock(context);
  return status;
}

static enum banyan_status read_plan(struct by_context *context, uint32_t n, const uint32_t *processes,
                                    const struct by_move_word *word, struct by_plan **out) {
  char *text = strndup(word->text ? word->text : "", word->length);
  if (!text) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  enum banyan_status status = by_plans_named(context, n, processes, text, out);
  free(text);
  if (status == BANYAN_OK) (*out)->origin = word->origin;
  return status;
}

/* Without the lock: reading a large plan takes a while, and the communicator may go meanwhile. */
static enum banyan_status make_plan(struct by_context *context, uint32_t n, const uint32_t *processes,
                                    const struct by_move_word *word, struct by_kept_plan *out) {
  out->number = word->number;
  if (word->plan)
    BY_TRY(by_plan_copy(word->plan, &out->plan));
  else
    BY_TRY(read_plan(context, n, processes, word, &out->plan));
  BY_TRY(by_plans_check(out->plan));
  return read_helpers(context, word, out);
}

/* The members, copied. */
static enum banyan_status get_members(struct by_context *context, uint32_t id, uint32_t *n, uint32_t **processes) {
  *n = 0;
  *processes = NULL;
  if (!context->job.engine) return BANYAN_OK;
  by_context_lock(context);
  const struct banyan_comm *comm = find(context, id);
  *processes = comm ? calloc(comm->size, sizeof **processes) : NULL;
  if (*processes) memcpy(*processes, comm->processes, comm->size * sizeof **processes);
  if (comm) *n = comm->size;
  by_context_unlock(context);
  return !*n || *processes ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
}

struct plans {
  struct by_kept_plan own, submitted; /* one for the communicator, one for what is submitted */
};

static void drop_plans(struct plans *plans) {
  by_plan_destroy(plans->own.plan);
  by_plan_destroy(plans->submitted.plan);
}

/* NULL, or why it cannot be kept yet. Under lock. */
static const char *keep(struct banyan_comm *comm, uint32_t number, struct plans *plans) {
  if (comm->move.state == BY_MOVE_IS_TAKEN)
    return "the plan that was agreed on before is not in use yet: its first call has not been made";
  if (!by_moves_keep(comm, &plans->submitted))
    return "several plans were agreed on that submitted operations do not use yet: the iteration in which they were "
           "has not ended";
  (void)by_move_prepare(&comm->move, number);
  by_plan_destroy(comm->next_plan.plan);
  comm->next_plan = plans->own;
  *plans = (struct plans){0};
  return NULL;
}

static enum banyan_status make_plans(struct by_context *context, const struct by_move_word *word, bool *present,
                                     struct plans *out) {
  uint32_t n, *processes;
  BY_TRY(get_members(context, word->comm, &n, &processes));
  *present = n > 0;
  if (!n) return BANYAN_OK;
  struct by_move_word again = *word;
  enum banyan_status status = make_plan(context, n, processes, word, &out->own);
  again.plan = out->own.plan;
  if (status == BANYAN_OK) status = make_plan(context, n, processes, &again, &out->submitted);
  free(processes);
  return status;
}

static void say_started(const struct banyan_comm *comm, struct by_move_word *answer) {
  struct by_beat *beat = &answer->beat;
  answer->at = comm->started;
  *beat = by_marks_beat(&comm->marks, comm->started);
  if (comm->marks.n) return;
  uint64_t calls = comm->started - comm->set_by_hand;
  if (by_observe_beat(&comm->context->observed, calls, &beat->began, &beat->period)) beat->began += comm->set_by_hand;
}

static void try_to_keep(struct banyan_comm *comm, uint32_t number, struct plans *plans, struct by_move_word *answer) {
  answer->text = keep(comm, number, plans);
  answer->length = answer->text ? strlen(answer->text) : 0;
  answer->kind = answer->text ? BY_MOVE_NOT_YET : BY_MOVE_PREPARED;
  say_started(comm, answer);
}

/* A failure's text becomes the answer's. */
static enum banyan_status prepare(struct by_context *context, const struct by_move_word *word,
                                  struct by_move_word *answer) {
  struct plans plans = {0};
  bool present = false;
  enum banyan_status status = make_plans(context, word, &present, &plans);
  answer->kind = BY_MOVE_NOT_YET;
  if (status == BANYAN_OK && present) {
    by_context_lock(context);
    struct banyan_comm *comm = find(context, word->comm);
    if (comm) try_to_keep(comm, word->number, &plans, answer);
    by_context_unlock(context);
  }
  drop_plans(&plans);
  return status;
}

static void refuse(const struct by_context *context, struct by_move_word *answer, char *text, size_t room) {
  snprintf(text, room, "%s: %s", context->job.names[context->job.rank], banyan_error_text());
  answer->kind = BY_MOVE_REFUSED;
  answer->text = text;
  answer->length = strlen(text);
}

/* Of one that waits for this word, too. */
static void decide(struct by_context *context, struct banyan_comm *comm, const struct by_move_word *word) {
  if (word->kind == BY_MOVE_DROP && by_move_drop(&comm->move, word->number)) {
    forget_next(comm);
    by_moves_let_go(comm, word->number);
  }
  if (word->kind == BY_MOVE_TAKE && by_move_take(&comm->move, word->number)) {
    by_moves_decided(comm, word->number);
    if (next(comm) == BY_MOVE_CHANGES) (void)!change(comm);
  }
}

/* FIX, TAKE and DROP; all may let go on who waits. A communicator of the same number may have been made anew since it
 * was asked, and has no such move: it is absent too. */
static bool follow(struct by_context *context, const struct by_move_word *word, struct by_move_word *answer) {
  if (!context->job.engine) return false;
  by_context_lock(context);
  struct banyan_comm *comm = find(context, word->comm);
  bool fixed = comm && word->kind == BY_MOVE_FIX && by_move_fix(&comm->move, word->number, word->at);
  if (fixed) say_started(comm, answer);
  if (comm && word->kind != BY_MOVE_FIX) decide(context, comm, word);
  pthread_cond_broadcast(&context->job.changed);
  by_context_unlock(context);
  by_context_wake(context);
  answer->kind = fixed ? BY_MOVE_FIXED : BY_MOVE_NOT_YET;
  return word->kind == BY_MOVE_FIX;
}

bool by_moves_hear(struct by_context *context, const struct by_move_word *word, struct by_move_word *answer, char *text,
                   size_t room) {
  *answer = (struct by_move_word){.comm = word->comm, .number = word->number};
  if (word->kind != BY_MOVE_PROPOSE) return follow(context, word, answer);
  if (prepare(context, word, answer) != BANYAN_OK) refuse(context, answer, text, room);
  return true;
}

/* ---- the caller */

/* Fitted to the communicator, so that all read the same. */
static enum banyan_status make_proposal(struct by_context *context, struct by_plan *plan, struct by_proposal *out) {
  BY_TRY(by_plans_fit(context, out->n, out->processes, plan, &out->plan));
  BY_TRY(by_plans_check(out->plan));
  out->helpers = BY_ARENA_ARRAY(&out->plan->arena, uint32_t, out->plan->n_vertices);
  if (!out->helpers) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  by_context_lock(context);
  enum banyan_status status = by_plans_find_helpers(context, out->plan, out->helpers);
  by_context_unlock(context);
  return status;
}

enum banyan_status by_moves_propose(struct by_context *context, uint32_t id, uint32_t n, const uint32_t *processes,
                                    struct by_plan *plan, const struct by_told_move *tell) {
  struct by_proposal proposal = {.comm = id, .n = n, .processes = processes};
  if (tell) proposal.tell = *tell;
  enum banyan_status status = make_proposal(context, plan, &proposal);
  if (status == BANYAN_OK) status = by_control_propose(context->control, &proposal);
  if (status != BANYAN_OK) by_plan_destroy(proposal.plan);
  return status;
}

/* Nobody else is there; what is submitted by one rank goes nowhere. */
static enum banyan_status set_alone(struct banyan_comm *comm, const char *name) {
  struct by_plan *plan = NULL;
  BY_TRY(by_plans_named(comm->context, comm->size, comm->processes, name, &plan));
  by_context_lock(comm->context);
  enum banyan_status status = by_plans_set(comm->context, comm->domain, comm->size, comm->processes, plan, NULL);
  by_context_unlock(comm->context);
  return status;
}

enum banyan_status banyan_comm_propose_plan(struct banyan_comm *comm, const char *plan) {
  BY_TRY(by_comm_check(comm));
  const struct by_context *context = comm->context;
  if (context->job.rank != 0)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "only rank 0 of the job can propose a plan; this is rank %u",
                   context->job.rank);
  if (context->job.size == 1) return set_alone(comm, plan);
  struct by_plan *read = NULL;
  BY_TRY(by_plans_named(comm->context, comm->size, comm->processes, plan, &read));
  return by_moves_propose(comm->context, by_domain_id(comm->domain), comm->size, comm->processes, read, NULL);
}

struct by_moves_view by_moves_view(struct by_context *context, uint32_t id) {
  struct by_moves_view view = {0};
  by_context_lock(context);
  const struct banyan_comm *comm = find(context, id);
  if (comm) {
    const struct by_plan *plan = by_domain_plan(comm->domain);
    view = (struct by_moves_view){.started = comm->started,
                                  .last = comm->moved,
                                  .taken = comm->move.state == BY_MOVE_IS_TAKEN,
                                  .supplied = plan->origin.supplied};
    snprintf(view.plan, sizeof view.plan, "%s", plan->name);
  }
  by_context_unlock(context);
  return view;
}
