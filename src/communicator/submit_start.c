#include <stdio.h>
#include <stdlib.h>

#include "sparse_exchange.h"
#include "submitter.h"

enum { SOME_PIECES = 8 };

/* ---- flights */

static void give_flight(struct by_submitter *owner, struct by_flight *flight) {
  flight->next = owner->spare_flights;
  owner->spare_flights = flight;
}

static bool make_room(struct by_submitter *owner, struct by_flight *flight, size_t pieces) {
  if (flight->pieces && flight->room >= pieces) return true;
  size_t room = pieces + SOME_PIECES;
  struct by_piece *more = realloc(flight->pieces, room * sizeof *more);
  if (!more) return false;
  flight->pieces = more;
  flight->room = room;
  owner->counts.allocations++;
  return true;
}

static struct by_flight *take_flight(struct by_submitter *owner, size_t pieces) {
  struct by_flight *flight = owner->spare_flights;
  if (flight) owner->spare_flights = flight->next;
  if (!flight) {
    flight = calloc(1, sizeof *flight);
    owner->counts.allocations++;
  }
  if (flight && !make_room(owner, flight, pieces)) {
    give_flight(owner, flight);
    flight = NULL;
  }
  if (flight)
    flight->n = 0;
  else
    (void)by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a call of %zu pieces", pieces);
  return flight;
}

/* An operation that started everywhere but here cannot end on the other ranks. */
static void cannot_start(struct by_submitter *owner, const struct by_submitted *s, enum banyan_status status) {
  char text[BY_OPERATION_NAME + 64];
  snprintf(text, sizeof text, "operation \"%s\" could not be started", s->name);
  by_submitter_fail(owner, status, text);
}

static void launch(struct by_submitter *owner, struct by_flight *flight, uint64_t deadline) {
  struct banyan_call call;
  enum banyan_status status = by_fuse(owner, flight, &call);
  call.name = NULL; /* a copy's, of what may be gone; the submitted operation has a name of its own */
  if (status == BANYAN_OK) status = by_engine_start(owner->inner->domain, &call, deadline, &flight->call);
  if (status != BANYAN_OK) {
    cannot_start(owner, flight->pieces[0].submitted, status);
    by_unfuse(owner, flight, false);
    give_flight(owner, flight);
    return;
  }
  for (size_t i = 0; i < flight->n; i++) {
    struct by_submitted *s = flight->pieces[i].submitted;
    s->left++;
    by_trace_through(&owner->context->job.tracer, s->trace, by_call_trace(flight->call));
  }
  owner->counts.calls++;
  flight->next = owner->flights;
  owner->flights = flight;
}

/* ---- groups */

static void start_exchanges(struct by_submitter *owner, struct by_submitted *s) {
  for (size_t i = 0; i < s->n_sparse; i++) {
    struct by_sparse_exchange *exchange = s->exchanges[i];
    s->exchanges[i] = NULL; /* on failure it has been given back */
    enum banyan_status status = by_sparse_start(exchange, s->deadline);
    if (status != BANYAN_OK) {
      cannot_start(owner, s, status);
      continue;
    }
    s->exchanges[i] = exchange;
    s->left++;
    owner->sparse_running++;
    owner->counts.calls++;
  }
}

/* One operation, maybe of several calls. */
static void start_alone(struct by_submitter *owner, struct by_submitted *s) {
  uint64_t most = owner->context->job.settings.fusion;
  for (size_t i = 0, n; i < s->n_calls; i += n) {
    n = by_fuse_run(s, i, most);
    struct by_flight *flight = take_flight(owner, n);
    if (!flight) {
      cannot_start(owner, s, BANYAN_ERR_NO_MEMORY);
      return;
    }
    for (size_t k = 0; k < n; k++) flight->pieces[flight->n++] = (struct by_piece){s, &s->calls[i + k]};
    launch(owner, flight, s->deadline);
  }
  start_exchanges(owner, s);
}

/* Several, of AllReduces that fuse. */
static void start_together(struct by_submitter *owner, void *const *operations, uint32_t n) {
  size_t pieces = 0;
  uint64_t deadline = UINT64_MAX;
  for (uint32_t i = 0; i < n; i++) pieces += ((struct by_submitted *)operations[i])->n_calls;
  struct by_flight *flight = take_flight(owner, pieces);
  if (!flight) {
    cannot_start(owner, operations[0], BANYAN_ERR_NO_MEMORY);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    struct by_submitted *s = operations[i];
    for (size_t k = 0; k < s->n_calls; k++) flight->pieces[flight->n++] = (struct by_piece){s, &s->calls[k]};
    if (s->deadline < deadline) deadline = s->deadline;
  }
  launch(owner, flight, deadline);
}

static enum banyan_status state_of_job(const struct by_submitter *owner) {
  const struct by_engine *engine = owner->context->job.engine;
  enum banyan_status status = by_engine_status(engine);
  return status == BANYAN_OK ? status : by_fail(status, "%s", by_engine_error(engine));
}

void by_submit_start(struct by_submitter *owner, void *const *operations, uint32_t n) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct by_submitted *s = operations[i];
    s->state = BY_SUBMITTED_RUNS;
    by_trace(&owner->context->job.tracer, s->trace, BY_TRACE_NEGOTIATED);
    s->left = 1; /* until all of it has been started */
    bytes += by_operation_bytes(&s->operation);
  }
  ((struct by_submitted *)operations[0])->group = bytes;
  owner->counts.started += n;
  if (n == 1)
    start_alone(owner, operations[0]);
  else
    start_together(owner, operations, n);
  for (uint32_t i = 0; i < n; i++) by_submitted_part_ended(operations[i], state_of_job(owner));
}

/* ---- ends */

static void land(struct by_submitter *owner, struct by_flight *flight) {
  enum banyan_status status = by_call_result(flight->call);
  by_unfuse(owner, flight, status == BANYAN_OK);
  by_call_release(flight->call);
  for (size_t i = 0; i < flight->n; i++) by_submitted_part_ended(flight->pieces[i].submitted, status);
  give_flight(owner, flight);
}

static bool collect_exchanges(struct by_submitter *owner) {
  bool any = false;
  for (struct by_submitted *s = owner->open, *next; s; s = next) {
    next = s->next;
    for (size_t i = 0; i < s->n_sparse && s->state == BY_SUBMITTED_RUNS; i++) {
      struct by_sparse_exchange *exchange = s->exchanges[i];
      if (!exchange || !by_sparse_ended(exchange)) continue;
      enum banyan_status status = by_sparse_result(exchange);
      s->exchanges[i] = NULL;
      by_sparse_release(exchange);
      owner->sparse_running--;
      by_submitted_part_ended(s, status);
      any = true;
    }
  }
  return any;
}

bool by_submit_collect(struct by_submitter *owner) {
  bool any = owner->sparse_running && collect_exchanges(owner);
  for (struct by_flight **place = &owner->flights; *place;) {
    struct by_flight *flight = *place;
    if (!by_call_ended(flight->call)) {
      place = &flight->next;
      continue;
    }
    *place = flight->next;
    land(owner, flight);
    any = true;
  }
  return any;
}
