/* Groups of operations that start become calls of the engine, and calls that end, ends of operations. Several
 * AllReduces become one call. The engine sends from, and adds to, memory that lies together. Gradients often do: then
 * nothing is copied, as the root puts neighbours in its memory next to each other. What does not is copied into a
 * buffer of the library's, or, where only the results lie together, to where these belong. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "reduce.h"
#include "region.h"
#include "sparse_exchange.h"
#include "submitter.h"

enum { SOME_PIECES = 8 };

/* ---- fusing */

static size_t bytes_of(const struct banyan_call *call) {
  return call->count * banyan_dtype_size(call->dtype);
}

static bool fuses(const struct banyan_call *call, const struct banyan_call *first) {
  return call->collective == BANYAN_ALLREDUCE && call->dtype == first->dtype && call->op == first->op &&
         bytes_of(call) <= BY_FUSE_EACH;
}

static double scale_of(const struct banyan_call *call) {
  return call->scale == 0 ? 1 : call->scale;
}

/* Returns how many calls of an operation, from `first` on, may start as one call of at most `most` bytes. */
static size_t count_fused(const struct by_submitted *s, size_t first, uint64_t most) {
  const struct banyan_call *calls = &s->calls[first];
  uint64_t bytes = bytes_of(&calls[0]);
  size_t n = 1;
  if (!fuses(&calls[0], &calls[0])) return 1;
  for (; first + n < s->n_calls && fuses(&calls[n], &calls[0]); n++) {
    bytes += bytes_of(&calls[n]);
    if (bytes > most) break;
  }
  return n;
}

/* ---- what lies together */

static bool lie_together(const struct by_flight *flight, bool sends) {
  const struct by_piece *p = flight->pieces;
  for (size_t i = 1; i < flight->n; i++) {
    const struct banyan_call *before = p[i - 1].call, *call = p[i].call;
    const char *end = (const char *)(sends ? before->send : before->recv) + bytes_of(before);
    if (end != (sends ? call->send : call->recv) || (sends && scale_of(call) != scale_of(p[0].call))) return false;
  }
  return true;
}

/* ---- buffers */

static struct by_fuse_buffer *take_buffer(struct by_submitter *owner, size_t bytes) {
  struct by_fuse_buffer *buffer;
  LIST_FOREACH(buffer, &owner->flights.buffers, entry) {
    if (buffer->region->bytes < bytes) continue;
    LIST_REMOVE(buffer, entry);
    return buffer;
  }
  buffer = calloc(1, sizeof *buffer);
  uint64_t most = by_job_settings(owner->job)->fusion;
  if (!buffer) {
    (void)by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for fusing operations");
    return NULL;
  }
  if (by_region_create(MAX(bytes, most), &buffer->region) != BANYAN_OK) {
    free(buffer);
    return NULL;
  }
  by_memory_add(owner->job, buffer->region);
  owner->counts.allocations++;
  return buffer;
}

void by_flights_fini(struct by_submitter *owner) {
  for (struct by_fuse_buffer *buffer; (buffer = LIST_FIRST(&owner->flights.buffers));) {
    LIST_REMOVE(buffer, entry);
    by_memory_doom(owner->job, buffer->region);
    free(buffer);
  }
  for (struct by_flight *flight; (flight = LIST_FIRST(&owner->flights.spare));) {
    LIST_REMOVE(flight, entry);
    free(flight->pieces);
    free(flight);
  }
}

/* ---- copying */

static void copy_in(struct by_submitter *owner, const struct by_flight *flight, char *to) {
  for (size_t i = 0; i < flight->n; i++) {
    const struct banyan_call *call = flight->pieces[i].call;
    size_t bytes = bytes_of(call);
    if (scale_of(call) != 1)
      by_kernel_scale(call->dtype, to, call->send, call->scale, call->count);
    else if (bytes && to != call->send)
      memcpy(to, call->send, bytes);
    if (to != call->send) owner->counts.copied += bytes;
    to += bytes;
  }
}

/* Makes one call of a flight's AllReduces, which have the same type and operation. If they are contiguous in memory,
 * the call works in place; otherwise in a buffer into which they are copied. */
static enum banyan_status fuse(struct by_submitter *owner, struct by_flight *flight, struct banyan_call *out) {
  assert(flight->n > 0);
  *out = *flight->pieces[0].call;
  if (flight->n == 1) return BANYAN_OK;
  out->count = 0;
  for (size_t i = 0; i < flight->n; i++) out->count += flight->pieces[i].call->count;
  if (!lie_together(flight, false)) {
    flight->buffer = take_buffer(owner, bytes_of(out));
    if (!flight->buffer) return BANYAN_ERR_NO_MEMORY;
    out->recv = flight->buffer->region->base;
  }
  if (lie_together(flight, true)) return BANYAN_OK;
  copy_in(owner, flight, out->recv);
  out->send = out->recv;
  out->scale = 0;
  return BANYAN_OK;
}

/* Releases a flight's buffer after its call has ended. If the call succeeded, copies the results to their places first.
 */
static void unfuse(struct by_submitter *owner, struct by_flight *flight, bool well) {
  if (!flight->buffer) return;
  const char *from = flight->buffer->region->base;
  for (size_t i = 0; i < flight->n && well; i++) {
    const struct banyan_call *call = flight->pieces[i].call;
    size_t bytes = bytes_of(call);
    if (bytes) memcpy(call->recv, from, bytes);
    owner->counts.copied += bytes;
    from += bytes;
  }
  LIST_INSERT_HEAD(&owner->flights.buffers, flight->buffer, entry);
  flight->buffer = NULL;
}

/* ---- flights */

static struct by_flight *take_flight(struct by_submitter *owner, size_t pieces) {
  struct by_flight *flight = LIST_FIRST(&owner->flights.spare);
  enum banyan_status status = BANYAN_OK;
  if (flight) {
    LIST_REMOVE(flight, entry);
  } else {
    flight = calloc(1, sizeof *flight);
    owner->counts.allocations++;
  }
  if (!flight) {
    (void)by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a call");
    return NULL;
  }
  flight->n = 0;
  if (!flight->pieces || flight->room < pieces)
    status = by_submitter_make_room(owner, (void **)&flight->pieces, &flight->room, pieces + SOME_PIECES,
                                    sizeof *flight->pieces);
  if (status == BANYAN_OK) return flight;
  LIST_INSERT_HEAD(&owner->flights.spare, flight, entry);
  return NULL;
}

/* Fails the job if an operation cannot be started here: it cannot end on the other ranks. */
static void cannot_start(struct by_submitter *owner, const struct by_submitted *s, enum banyan_status status) {
  char text[BY_OPERATION_NAME + 64];
  snprintf(text, sizeof text, "operation \"%s\" could not be started", s->name);
  by_submitter_fail(owner, status, text);
}

static void launch(struct by_submitter *owner, struct by_flight *flight, uint64_t deadline) {
  struct banyan_call call;
  enum banyan_status status = fuse(owner, flight, &call);
  call.name = NULL; /* The copied name may be freed already; the submitted operation has its own. */
  if (status == BANYAN_OK) status = by_engine_start(owner->log.inner->team, &call, deadline, &flight->call);
  if (status != BANYAN_OK) {
    cannot_start(owner, flight->pieces[0].submitted, status);
    unfuse(owner, flight, false);
    LIST_INSERT_HEAD(&owner->flights.spare, flight, entry);
    return;
  }
  for (size_t i = 0; i < flight->n; i++) {
    struct by_submitted *s = flight->pieces[i].submitted;
    s->left++;
    by_trace_through(by_job_tracer(owner->job), s->trace, by_call_trace(flight->call));
  }
  owner->counts.calls++;
  by_plan_switches_call_of_operations(owner->comm, &call);
  LIST_INSERT_HEAD(&owner->flights.running, flight, entry);
}

/* ---- groups */

static void start_exchanges(struct by_submitter *owner, struct by_submitted *s) {
  for (size_t i = 0; i < s->n_sparse; i++) {
    struct by_sparse_exchange *exchange = s->exchanges[i];
    s->exchanges[i] = NULL; /* A failed start releases the exchange. */
    enum banyan_status status = by_sparse_start(exchange, s->deadline);
    if (status != BANYAN_OK) {
      cannot_start(owner, s, status);
      continue;
    }
    s->exchanges[i] = exchange;
    s->left++;
    owner->flights.exchanges++;
    owner->counts.calls++;
  }
}

/* Starts one call of the engine for calls of n operations: of each, up to `most` calls from `first` on. */
static void start_calls(struct by_submitter *owner, void *const *operations, uint32_t n, size_t first, size_t most) {
  size_t pieces = 0;
  uint64_t deadline = UINT64_MAX;
  for (uint32_t i = 0; i < n; i++) pieces += MIN(((struct by_submitted *)operations[i])->n_calls - first, most);
  struct by_flight *flight = take_flight(owner, pieces);
  if (!flight) {
    cannot_start(owner, operations[0], BANYAN_ERR_NO_MEMORY);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    struct by_submitted *s = operations[i];
    for (size_t k = first; k < s->n_calls && k - first < most; k++)
      flight->pieces[flight->n++] = (struct by_piece){s, &s->calls[k]};
    deadline = MIN(deadline, s->deadline);
  }
  launch(owner, flight, deadline);
}

void by_submit_start(void *submitter, void *const *operations, uint32_t n) {
  struct by_submitter *owner = submitter;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct by_submitted *s = operations[i];
    by_submitted_set_state(s, BY_SUBMITTED_RUNS);
    s->number = owner->started++;
    by_trace(by_job_tracer(owner->job), s->trace, BY_TRACE_NEGOTIATED);
    s->left = 1; /* Keeps the operation from ending before all its parts have started. */
    bytes += by_operation_bytes(&s->operation);
  }
  struct by_submitted *first = operations[0];
  first->group = bytes;
  owner->counts.started += n;
  if (owner->still.at != UINT64_MAX) by_submitter_note_start(owner, by_clock_now(&by_clock_system));
  /* Several operations in a group are AllReduces that fuse. */
  if (n > 1) start_calls(owner, operations, n, 0, SIZE_MAX);
  for (size_t i = 0, fused; n == 1 && i < first->n_calls; i += fused) {
    fused = count_fused(first, i, by_job_settings(owner->job)->fusion);
    start_calls(owner, operations, 1, i, fused);
  }
  if (n == 1) start_exchanges(owner, first);
  for (uint32_t i = 0; i < n; i++) by_submitted_part_ended(operations[i], by_job_status(owner->job));
}

/* ---- ends */

static bool collect_exchanges(struct by_submitter *owner) {
  bool any = false;
  for (struct by_submitted *s = LIST_FIRST(&owner->operations.open), *next; s; s = next) {
    next = LIST_NEXT(s, entry);
    for (size_t i = 0; i < s->n_sparse && s->state == BY_SUBMITTED_RUNS; i++) {
      struct by_sparse_exchange *exchange = s->exchanges[i];
      if (!exchange || !by_sparse_ended(exchange)) continue;
      enum banyan_status status = by_sparse_result(exchange);
      s->exchanges[i] = NULL;
      by_sparse_release(exchange);
      owner->flights.exchanges--;
      by_submitted_part_ended(s, status);
      any = true;
    }
  }
  return any;
}

bool by_submit_collect(struct by_submitter *owner) {
  bool any = owner->flights.exchanges && collect_exchanges(owner);
  for (struct by_flight *flight = LIST_FIRST(&owner->flights.running), *next; flight; flight = next) {
    next = LIST_NEXT(flight, entry);
    if (!by_call_ended(flight->call)) continue;
    LIST_REMOVE(flight, entry);
    enum banyan_status status = by_call_result(flight->call);
    unfuse(owner, flight, status == BANYAN_OK);
    by_call_release(flight->call);
    for (size_t i = 0; i < flight->n; i++) by_submitted_part_ended(flight->pieces[i].submitted, status);
    LIST_INSERT_HEAD(&owner->flights.spare, flight, entry);
    any = true;
  }
  return any;
}
