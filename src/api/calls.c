/* The public calls of dense collectives: each is started under the lock, and waited for or not. */
#include <stdlib.h>

#include "plan_switch.h"
#include "request.h"

#define COARSE_FROM BY_SECOND /* what is not shorter may end some milliseconds early */

static enum banyan_status check(const struct banyan_comm *comm, const struct banyan_call *call) {
  BY_TRY(by_comm_check(comm));
  if (!call) return by_fail(BANYAN_ERR_ARGUMENT, "the call is NULL");
  if (call->deadline < 0)
    return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
  return BANYAN_OK;
}

/* Under lock. */
static enum banyan_status begin(struct banyan_comm *comm, const struct banyan_call *call, struct by_call **out) {
  uint64_t lasts = by_comm_lasts(comm, call->deadline);
  uint64_t now = lasts < COARSE_FROM ? by_clock_now(&by_clock_system) : by_clock_coarse(), deadline = now + lasts;
  bool counts = call->collective != BANYAN_SEND && call->collective != BANYAN_RECV;
  if (counts && comm->plans.plan_switch.state != BY_PLAN_SWITCH_NONE) BY_TRY(by_plan_switches_pass(comm, deadline));
  BY_TRY(by_engine_start(comm->team, call, deadline, out));
  if (counts) by_plan_switches_count(comm);
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
    by_progress_wait_call(&context->progress, running);
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
  if (status == BANYAN_OK) by_context_hold(comm->context);
  if (status == BANYAN_OK) by_context_kick(comm->context);
  by_context_unlock(comm->context);
  if (status == BANYAN_OK)
    *out = request;
  else
    free(request);
  return status;
}
