/* The public calls: dense collectives, each of which is started under the lock, and waited for or not; and receives
 * from any rank. Until a message that no other call receives is there, such a receive is only a request of the
 * communicator; then it becomes an ordinary call of the executor. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "job_state.h"
#include "plan_switch.h"
#include "request.h"

#define COARSE_FROM BY_SECOND /* Deadlines from this length on may end some milliseconds early. */

static enum banyan_status check(const struct banyan_comm *comm, const struct banyan_call *call) {
  BY_TRY(by_comm_check(comm));
  if (!call) return by_fail(BANYAN_ERR_ARGUMENT, "the call is NULL");
  if (!(call->deadline >= 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
  return BANYAN_OK;
}

/* Starts a call. Under lock. */
static enum banyan_status begin(struct banyan_comm *comm, const struct banyan_call *call, struct by_call **out) {
  uint64_t lasts = by_comm_lasts(comm, call->deadline);
  uint64_t now = lasts < COARSE_FROM ? by_clock_now(&by_clock_system) : by_clock_coarse(), deadline = now + lasts;
  bool counts = call->collective != BANYAN_SEND && call->collective != BANYAN_RECV;
  if (counts && comm->plans.plan_switch.state != BY_PLAN_SWITCH_NONE) BY_TRY(by_plan_switches_pass(comm, deadline));
  BY_TRY(by_engine_start(comm->team, call, deadline, out));
  if (counts) by_plan_switches_count(comm);
  if (counts && comm->job->observed.on)
    by_observe(&comm->job->observed, call->collective, call->dtype, call->count, now);
  else if (comm->job->observed.on_next_call)
    by_observe_wake(&comm->job->observed); /* The bytes sent count even if the call fails. */
  return BANYAN_OK;
}

static enum banyan_status end_call(struct by_job *job, struct by_call *call) {
  enum banyan_status status = by_call_result(call);
  by_call_release(call);
  if (job->memory.doomed) by_memory_sweep(job);
  return status;
}

/* Makes a call and waits for its end. `poll` may be NULL. */
static inline enum banyan_status run(struct banyan_comm *comm, const struct banyan_call *call,
                                     void (*poll)(void *argument), void *argument) {
  BY_TRY(check(comm, call));
  struct by_job *job = comm->job;
  struct by_call *running = NULL;
  by_job_lock(job);
  enum banyan_status status = begin(comm, call, &running);
  if (status == BANYAN_OK) {
    if (poll)
      by_progress_wait_call_polling(job, running, poll, argument);
    else
      by_progress_wait_call(job, running);
    status = end_call(job, running);
  }
  by_job_unlock(job);
  return status;
}

enum banyan_status banyan_run(struct banyan_comm *comm, const struct banyan_call *call) {
  return run(comm, call, NULL, NULL);
}

enum banyan_status banyan_run_polling(struct banyan_comm *comm, const struct banyan_call *call,
                                      void (*poll)(void *argument), void *argument) {
  if (!poll) return by_fail(BANYAN_ERR_ARGUMENT, "the function to call while waiting is NULL");
  return run(comm, call, poll, argument);
}

/* Makes a request of a call in progress. NULL: out of memory. */
static struct banyan_request *request_of(struct by_job *job, struct by_call *call) {
  struct banyan_request *request = malloc(sizeof *request);
  if (!request) return NULL;
  *request = (struct banyan_request){.job = job, .call = call};
  by_job_hold(job);
  by_progress_kick(job);
  return request;
}

enum banyan_status banyan_run_for(struct banyan_comm *comm, const struct banyan_call *call, double seconds,
                                  struct banyan_request **rest) {
  BY_TRY(check(comm, call));
  if (!rest || !(seconds >= 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "the place for the request is NULL, or the time to wait below 0");
  struct by_job *job = comm->job;
  struct by_call *running = NULL;
  *rest = NULL;
  by_job_lock(job);
  enum banyan_status status = begin(comm, call, &running);
  if (status == BANYAN_OK) {
    uint64_t until = by_clock_coarse() + by_clock_from_seconds(seconds);
    by_progress_wait_call_until(job, running, until);
    if (!by_call_ended(running)) *rest = request_of(job, running);
    if (!*rest) {
      by_progress_wait_call(job, running);
      status = end_call(job, running);
    }
  }
  by_job_unlock(job);
  return status;
}

enum banyan_status banyan_start(struct banyan_comm *comm, const struct banyan_call *call, struct banyan_request **out) {
  BY_TRY(check(comm, call));
  if (!out) return by_fail(BANYAN_ERR_ARGUMENT, "the place for the request is NULL");
  struct banyan_request *request = malloc(sizeof *request);
  if (!request) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  *request = (struct banyan_request){.job = comm->job};
  by_job_lock(comm->job);
  enum banyan_status status = begin(comm, call, &request->call);
  if (status == BANYAN_OK) by_job_hold(comm->job);
  if (status == BANYAN_OK) by_progress_kick(comm->job);
  by_job_unlock(comm->job);
  if (status == BANYAN_OK)
    *out = request;
  else
    free(request);
  return status;
}

/* ---- receives from any rank */

struct by_any {
  struct by_any *next;
  struct banyan_request *request;
  struct by_team *team;
  struct banyan_call call;
  int *source;
  uint64_t deadline;
  enum banyan_status status; /* BANYAN_OK: the receive still waits. */
};

/* Tries to give the receive a call. True: it has a call or a failed status, and waits no longer. */
static bool settle(struct by_job *job, struct by_any *any) {
  uint32_t rank;
  if (by_engine_status(job->engine) == BANYAN_OK && by_clock_coarse() > any->deadline) {
    char text[200];
    snprintf(text, sizeof text, "recv from any rank on %s: no rank sent a message with tag %u by the deadline",
             by_job_name(job, job->rank), any->call.tag);
    by_engine_fail(job->engine, BANYAN_ERR_TIMEOUT, job->rank, text);
  }
  any->status = by_engine_status(job->engine);
  if (any->status != BANYAN_OK) return true;
  if (!by_team_probe(any->team, any->call.tag, &rank)) return false;
  any->call.root = (int)rank;
  any->status = by_engine_start(any->team, &any->call, any->deadline, &any->request->call);
  if (any->status != BANYAN_OK) return true;
  *any->source = (int)rank;
  free(any);
  return true;
}

bool by_any_advance(struct by_job *job) {
  bool moved = false;
  for (struct by_any **place = &job->anys; *place;) {
    struct by_any *any = *place, *next = any->next;
    const struct by_team *team = any->team;
    if (settle(job, any)) {
      by_team_expect(team, -1);
      *place = next;
      moved = true;
    } else {
      place = &any->next;
    }
  }
  return moved;
}

void by_any_forget(struct banyan_comm *comm) {
  for (struct by_any **place = &comm->job->anys; *place;) {
    struct by_any *any = *place;
    if (any->team == comm->team) {
      by_team_expect(any->team, -1);
      any->status = BANYAN_ERR_CLOSED;
      *place = any->next;
    } else {
      place = &any->next;
    }
  }
}

static bool has_ended(const struct banyan_request *request) {
  return ((const struct by_any *)request->of)->status != BANYAN_OK;
}

static enum banyan_status finish(struct banyan_request *request) {
  struct by_any *any = request->of;
  enum banyan_status status = any->status;
  const struct by_engine *engine = request->job->engine;
  free(any);
  free(request);
  if (by_engine_status(engine) != BANYAN_OK) return by_fail(status, "%s", by_engine_get_state(engine)->error);
  if (status != BANYAN_ERR_CLOSED) return status; /* by_engine_start has made the text. */
  return by_fail(status, "the communicator was destroyed while the call was under way");
}

static const struct by_request_ops ops = {.ended = has_ended, .finish = finish};

static enum banyan_status check_any(const struct banyan_comm *comm, const struct banyan_call *call, const int *source,
                                    struct banyan_request *const *out) {
  BY_TRY(by_comm_check(comm));
  if (!call || !source || !out)
    return by_fail(BANYAN_ERR_ARGUMENT, "the call, the place for the rank or the request is NULL");
  if (call->collective != BANYAN_RECV || !banyan_dtype_size(call->dtype) || !call->recv)
    return by_fail(BANYAN_ERR_ARGUMENT, "recv from any rank: the call must be a recv of a dtype into a buffer");
  if (!call->count)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "recv from any rank: a message of no elements is never sent; name the rank");
  if (!(call->deadline >= 0))
    return by_fail(BANYAN_ERR_ARGUMENT, "the deadline is %g seconds, must be > 0", call->deadline);
  return BANYAN_OK;
}

enum banyan_status banyan_recv_any(struct banyan_comm *comm, const struct banyan_call *call, int *source,
                                   struct banyan_request **out) {
  BY_TRY(check_any(comm, call, source, out));
  struct by_job *job = comm->job;
  struct banyan_request *request = malloc(sizeof *request);
  struct by_any *any = malloc(sizeof *any);
  if (!request || !any) {
    free(request);
    free(any);
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a request");
  }
  *request = (struct banyan_request){.job = job, .ops = &ops, .of = any};
  by_job_lock(job);
  *any = (struct by_any){.request = request, .team = comm->team, .call = *call, .source = source};
  any->call.name = NULL; /* The name is only valid during this function. */
  any->deadline = by_clock_now(&by_clock_system) + by_comm_lasts(comm, call->deadline);
  struct by_any **place = &job->anys;
  while (*place) place = &(*place)->next;
  *place = any;
  by_job_hold(job);
  by_team_expect(comm->team, 1);
  by_progress_kick(job);
  by_job_unlock(job);
  *out = request;
  return BANYAN_OK;
}
