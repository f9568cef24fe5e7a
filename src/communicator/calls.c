/* The public calls: each is started under the lock, and waited for or not. */
#include <stdlib.h>

#include "context.h"
#include "moves.h"
#include "sparse_exchange.h"
#include "submitter.h"

#define COARSE_FROM BY_SECOND /* what is not shorter may end some milliseconds early */

static uint64_t deadline_of(const struct banyan_comm *comm, const struct banyan_call *call, uint64_t *now) {
  uint64_t lasts = call->deadline > 0 ? by_clock_from_seconds(call->deadline) : comm->deadline;
  *now = lasts < COARSE_FROM ? by_clock_now(&by_clock_system) : by_clock_coarse();
  return *now + lasts;
}

static enum banyan_status check(const struct banyan_comm *comm, const struct banyan_call *call) {
  BY_TRY(by_comm_check(comm));
  if (!call) return by_fail(BANYAN_ERR_ARGUMENT, "the call is NULL");
  if (call->deadline < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
  return BANYAN_OK;
}

/* Under lock. */
static enum banyan_status begin(struct banyan_comm *comm, const struct banyan_call *call, struct by_call **out) {
  uint64_t now, deadline = deadline_of(comm, call, &now);
  bool counts = call->collective != BANYAN_SEND && call->collective != BANYAN_RECV;
  if (counts && comm->move.state != BY_MOVE_NONE) BY_TRY(by_moves_pass(comm, deadline));
  BY_TRY(by_engine_start(comm->domain, call, deadline, out));
  if (counts) by_moves_count(comm);
  if (counts && comm->context->observed.on)
    by_observe(&comm->context->observed, call->collective, call->dtype, call->count, now);
  else if (comm->context->observed.awake)
    by_observe_wake(&comm->context->observed); /* what is sent counts all the same */
  return BANYAN_OK;
}

enum banyan_status banyan_run(struct banyan_comm *comm, const struct banyan_call *call) {
  BY_TRY(check(comm, call));
  struct by_context *context = comm->context;
  struct by_call *running = NULL;
  by_context_lock(context);
  enum banyan_status status = begin(comm, call, &running);
  if (status == BANYAN_OK) {
    by_context_wait(context, running);
    status = by_call_result(running);
    by_call_release(running);
    if (context->doomed) by_memory_sweep(context);
  }
  by_context_unlock(context);
  return status;
}

enum banyan_status banyan_start(struct banyan_comm *comm, const struct banyan_call *call, struct banyan_request **out) {
  BY_TRY(check(comm, call));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the request is NULL");
  struct banyan_request *request = malloc(sizeof *request);
  if (!request) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  *request = (struct banyan_request){.context = comm->context};
  by_context_lock(comm->context);
  enum banyan_status status = begin(comm, call, &request->call);
  if (status == BANYAN_OK) comm->context->references++;
  if (status == BANYAN_OK) by_context_kick(comm->context);
  by_context_unlock(comm->context);
  if (status == BANYAN_OK)
    *out = request;
  else
    free(request);
  return status;
}

bool by_request_ended(const struct banyan_request *request) {
  if (request->call) return by_call_ended(request->call);
  if (request->submitted) return request->submitted->state == BY_SUBMITTED_ENDED;
  return request->any ? by_any_ended(request->any) : by_sparse_ended(request->sparse);
}

enum banyan_status by_request_finish(struct banyan_request *request) {
  struct by_context *context = request->context;
  enum banyan_status status;
  if (request->submitted) {
    status = by_submitted_result(request->submitted);
    by_submitted_release(request->submitted);
    request = NULL; /* it lies in that */
  } else if (request->any) {
    status = by_any_finish(context, request->any);
  } else if (request->call) {
    status = by_call_result(request->call);
    by_call_release(request->call);
  } else {
    status = by_sparse_result(request->sparse);
    by_sparse_release(request->sparse);
  }
  free(request);
  if (context->doomed) by_memory_sweep(context);
  return status;
}

/* A request keeps the job alive, as a communicator does: the last of them ends it. */
static enum banyan_status finish_and_unlock(struct banyan_request *request) {
  struct by_context *context = request->context;
  enum banyan_status status = by_request_finish(request);
  bool last = --context->references == 0;
  by_context_unlock(context);
  if (last) by_context_release(context);
  return status;
}

enum banyan_status banyan_wait(struct banyan_request *request) {
  if (!request) return by_fail(BANYAN_ERR_ARGUMENT, "the request is NULL");
  struct by_context *context = request->context;
  BY_TRY(by_context_check_process(context));
  by_context_lock(context);
  by_context_wait_any(context, &request, 1);
  return finish_and_unlock(request);
}

enum banyan_status banyan_test(struct banyan_request *request, bool *done) {
  if (!request || !done) return by_fail(BANYAN_ERR_ARGUMENT, "the request or the place for the answer is NULL");
  struct by_context *context = request->context;
  BY_TRY(by_context_check_process(context));
  by_context_lock(context);
  if (!by_request_ended(request) && context->driver == BY_DRIVER_NONE) by_context_progress(context);
  if (!by_request_ended(request)) by_context_check_deadlines(context);
  *done = by_request_ended(request);
  if (*done) return finish_and_unlock(request);
  by_context_unlock(context);
  return BANYAN_OK;
}

enum banyan_status banyan_wait_any(struct banyan_request **requests, size_t n, size_t *index) {
  if ((!requests && n) || !index)
    return by_fail(BANYAN_ERR_ARGUMENT, "the requests or the place for the index are NULL");
  struct by_context *context = NULL;
  for (size_t i = 0; i < n && !context; i++)
    if (requests[i]) context = requests[i]->context;
  *index = n;
  if (!context) return BANYAN_OK;
  BY_TRY(by_context_check_process(context));
  by_context_lock(context);
  *index = by_context_wait_any(context, requests, n);
  enum banyan_status status = finish_and_unlock(requests[*index]);
  requests[*index] = NULL;
  return status;
}

enum banyan_status banyan_wait_all(struct banyan_request **requests, size_t n) {
  if (!requests && n) return by_fail(BANYAN_ERR_ARGUMENT, "the requests are NULL");
  enum banyan_status first = BANYAN_OK;
  for (size_t i = 0; i < n; i++) {
    if (!requests[i]) continue;
    enum banyan_status status = banyan_wait(requests[i]);
    if (first == BANYAN_OK) first = status;
    requests[i] = NULL;
  }
  return first;
}
