#include <stdlib.h>
#include <string.h>

#include "sparse_exchange.h"
#include "submitter.h"

enum { MOST_CALLS = 65536, SUBMITTED = 1 << 16 /* a kind of call of its own */ };

/* ---- the inner communicator */

static enum banyan_status need_inner(struct by_submitter *owner) {
  const struct banyan_comm *comm = owner->comm;
  struct banyan_comm *inner;
  if (owner->log.inner) return BANYAN_OK;
  BY_TRY(by_comm_make(owner->context, owner->id, comm->rank, comm->size, comm->processes, &inner));
  inner->hidden = true;
  enum banyan_status status = by_plan_switches_set_first_inner(owner->comm, inner);
  if (status == BANYAN_OK)
    owner->log.inner = inner;
  else
    by_comm_end(inner);
  return status;
}

/* ---- submitting */

/* A program that was built against an earlier version knows fewer members. */
static enum banyan_status copy_submission(const struct banyan_submission *from, struct banyan_submission *to) {
  size_t bytes = from->size_of_struct ? from->size_of_struct : sizeof *to;
  if (bytes > sizeof *to)
    return by_fail(BANYAN_ERR_UNSUPPORTED,
                   "struct banyan_submission has %zu bytes, this library knows %zu: the program was built for a later "
                   "one",
                   bytes, sizeof *to);
  *to = (struct banyan_submission){0};
  memcpy(to, from, bytes);
  size_t n = to->n_calls + to->n_sparse;
  if (n == 0 || to->n_calls > MOST_CALLS || to->n_sparse > MOST_CALLS || (to->n_calls && !to->calls) ||
      (to->n_sparse && !to->sparse))
    return by_fail(BANYAN_ERR_ARGUMENT, "an operation has 1 to %d calls; %zu and %zu sparse ones are given", MOST_CALLS,
                   to->n_calls, to->n_sparse);
  return BANYAN_OK;
}

static enum banyan_status begin(struct banyan_comm *comm, const char *name, const struct banyan_submission *what,
                                struct by_submitted **out) {
  struct by_submitter *owner;
  BY_TRY(by_submitter_need(comm, &owner));
  BY_TRY(need_inner(owner));
  *out = by_submitted_take(owner);
  if (!*out) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for an operation");
  return by_submitted_fill(*out, name, what);
}

/* What can be merged is merged now, without the lock, since all ranks wait for the last one. */
static void prepare(struct by_submitted *s, const struct banyan_submission *what) {
  if (!what->n_sparse) return;
  by_context_unlock(s->request.context);
  for (size_t i = 0; i < what->n_sparse; i++) by_sparse_prepare(s->exchanges[i], &what->sparse[i]);
  by_context_lock(s->request.context);
}

static void observe(struct by_observation *observed, const struct by_operation *operation, uint64_t now) {
  uint64_t bytes = by_operation_bytes(operation);
  by_observe_odd(observed, SUBMITTED + operation->collective, bytes, bytes, now);
}

static enum banyan_status offer(struct by_submitted *s, const char *name, int priority) {
  struct by_context *context = s->request.context;
  BY_TRY(by_context_status(context));
  uint64_t now = by_clock_now(&by_clock_system);
  BY_TRY(by_controller_submit(s->owner->controller, name, &s->operation, priority, s, now));
  if (context->observed.on) observe(&context->observed, &s->operation, now);
  struct by_traced traced = {.name = s->name,
                             .bytes = by_operation_bytes(&s->operation),
                             .team = s->owner->id,
                             .collective = s->operation.collective};
  s->trace = by_trace_begin(&context->job.tracer, &traced, BY_TRACE_SUBMITTED);
  by_submitted_open(s);
  by_plan_switches_submitted(s->owner->comm);
  by_context_kick(context);
  return BANYAN_OK;
}

enum banyan_status banyan_submit(struct banyan_comm *comm, const char *name, const struct banyan_submission *submission,
                                 struct banyan_request **out) {
  struct banyan_submission what;
  struct by_submitted *s = NULL;
  BY_TRY(by_comm_check(comm));
  if (!name || !submission || !out)
    return by_fail(BANYAN_ERR_ARGUMENT, "the name, the operation or the place for the request is NULL");
  BY_TRY(copy_submission(submission, &what));
  by_context_lock(comm->context);
  enum banyan_status status = begin(comm, name, &what, &s);
  if (status == BANYAN_OK) {
    prepare(s, &what);
    status = offer(s, name, what.priority);
  }
  if (status == BANYAN_OK)
    *out = &s->request;
  else if (s)
    by_submitted_release(s);
  by_context_unlock(comm->context);
  return status;
}

enum banyan_status banyan_step(struct banyan_comm *comm, uint64_t i) {
  struct by_submitter *owner;
  BY_TRY(by_comm_check(comm));
  by_context_lock(comm->context);
  enum banyan_status status = by_submitter_need(comm, &owner);
  if (status == BANYAN_OK) {
    by_controller_step(owner->controller, i);
    by_observe_step(&comm->context->observed, i, by_clock_now(&by_clock_system));
    by_plan_switches_mark(comm->context);
    owner->dirty = true;
    by_context_kick(comm->context);
  }
  by_context_unlock(comm->context);
  return status;
}

void banyan_comm_negotiation(const struct banyan_comm *comm, struct banyan_negotiation *out) {
  *out = (struct banyan_negotiation){0};
  if (!comm || by_context_is_of_parent(comm->context)) return;
  by_context_lock(comm->context);
  const struct by_submitter *owner = comm->submitter;
  if (owner) {
    const struct by_controller_counters *c = by_controller_counters(owner->controller);
    *out = owner->counts;
    out->submitted = c->by_name + c->by_bit;
    out->by_bit = c->by_bit;
    out->refused = c->refused;
    out->messages = c->messages_up + c->messages_down;
    out->taken = c->taken;
    out->bytes = c->bytes;
    out->malformed = c->malformed;
  }
  by_context_unlock(comm->context);
}
