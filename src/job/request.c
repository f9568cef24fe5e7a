/* Requests of the program: waiting for them, testing them, and calling back those that were given away. */
#include "request.h"
#include "job_state.h"

#include <stdlib.h>

static bool has_ended(const struct banyan_request *request) {
  return request->call ? by_call_ended(request->call) : request->ops->ended(request);
}

static enum banyan_status finish(struct banyan_request *request) {
  struct by_job *job = request->job;
  enum banyan_status status;
  if (request->call) {
    status = by_call_result(request->call);
    by_call_release(request->call);
    free(request);
  } else {
    status = request->ops->finish(request);
  }
  if (job->memory.doomed) by_memory_sweep(job);
  return status;
}

static enum banyan_status finish_and_unlock(struct banyan_request *request) {
  struct by_job *job = request->job;
  enum banyan_status status = finish(request);
  by_job_unlock_and_release(job);
  return status;
}

/* ---- waiting */

struct any_of {
  struct banyan_request *const *requests;
  size_t n;
  size_t ended; /* The index of the first request that has ended. */
};

static bool any_ended(void *argument) {
  struct any_of *any = argument;
  for (any->ended = 0; any->ended < any->n; any->ended++)
    if (any->requests[any->ended] && has_ended(any->requests[any->ended])) return true;
  return false;
}

static void wait_until(struct banyan_request *request, uint64_t until) {
  struct by_job *job = request->job;
  if (request->call)
    by_progress_wait_call_until(job, request->call, until);
  else if (request->ops->wait)
    request->ops->wait(request, until);
  else
    by_progress_wait_until(job, any_ended, &(struct any_of){.requests = &request, .n = 1}, until);
}

enum banyan_status banyan_wait(struct banyan_request *request) {
  if (!request) return by_fail(BANYAN_ERR_ARGUMENT, "the request is NULL");
  BY_TRY(by_job_check_process(request->job));
  by_job_lock(request->job);
  wait_until(request, UINT64_MAX);
  return finish_and_unlock(request);
}

enum banyan_status banyan_wait_for(struct banyan_request *request, double seconds, bool *done) {
  if (!request || !done) return by_fail(BANYAN_ERR_ARGUMENT, "the request or the place for the answer is NULL");
  if (!(seconds >= 0)) return by_fail(BANYAN_ERR_ARGUMENT, "the time to wait is %g seconds, must be >= 0", seconds);
  struct by_job *job = request->job;
  BY_TRY(by_job_check_process(job));
  by_job_lock(job);
  wait_until(request, by_clock_now(&by_clock_system) + by_clock_from_seconds(seconds));
  *done = has_ended(request);
  if (*done) return finish_and_unlock(request);
  by_job_unlock(job);
  return BANYAN_OK;
}

enum banyan_status banyan_test(struct banyan_request *request, bool *done) {
  if (!request || !done) return by_fail(BANYAN_ERR_ARGUMENT, "the request or the place for the answer is NULL");
  struct by_job *job = request->job;
  BY_TRY(by_job_check_process(job));
  by_job_lock(job);
  if (!has_ended(request) && job->progress.driver == BY_DRIVER_NONE) by_progress_advance(job);
  if (!has_ended(request)) by_progress_check_deadlines(job);
  *done = has_ended(request);
  if (*done) return finish_and_unlock(request);
  by_job_unlock(job);
  return BANYAN_OK;
}

enum banyan_status banyan_wait_any(struct banyan_request **requests, size_t n, size_t *index) {
  if ((!requests && n) || !index)
    return by_fail(BANYAN_ERR_ARGUMENT, "the requests or the place for the index are NULL");
  struct by_job *job = NULL;
  for (size_t i = 0; i < n && !job; i++)
    if (requests[i]) job = requests[i]->job;
  *index = n;
  if (!job) return BANYAN_OK;
  BY_TRY(by_job_check_process(job));
  struct any_of any = {.requests = requests, .n = n};
  by_job_lock(job);
  by_progress_wait(job, any_ended, &any);
  *index = any.ended;
  enum banyan_status status = finish_and_unlock(requests[any.ended]);
  requests[any.ended] = NULL;
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

/* ---- given away: the thread that moves the engine when one has ended calls back, without the lock.
 * banyan_comm_destroy waits for all that is being called back, so the last reference never goes while another thread
 * calls back. */

static struct banyan_request *take_ended(struct by_job *job) {
  struct banyan_request **place = &job->given.first;
  while (*place && !has_ended(*place)) place = &(*place)->next;
  struct banyan_request *request = *place;
  if (!request) return NULL;
  *place = request->next;
  if (!*place) job->given.end = place;
  return request;
}

bool by_requests_have_ended(const struct by_job *job) {
  for (const struct banyan_request *request = job->given.first; request; request = request->next)
    if (has_ended(request)) return true;
  return false;
}

static void notify(struct by_job *job, struct banyan_request *request) {
  void (*then)(void *, enum banyan_status, const char *) = request->then;
  void *argument = request->argument;
  enum banyan_status status = finish(request);
  job->given.notifying++;
  by_job_unlock(job);
  then(argument, status, status == BANYAN_OK ? "" : banyan_error_text());
  by_job_lock(job);
  job->given.notifying--;
  job->references--;
  by_progress_changed(job);
}

void by_requests_notify(struct by_job *job) {
  while (job->given.first) {
    struct banyan_request *request = take_ended(job);
    if (!request) return;
    notify(job, request);
  }
}

void by_requests_notify_all(struct by_job *job) {
  by_requests_notify(job);
  while (job->given.notifying) by_progress_idle(job);
}

enum banyan_status banyan_then(struct banyan_request *request,
                               void (*then)(void *argument, enum banyan_status status, const char *text),
                               void *argument) {
  if (!request || !then) return by_fail(BANYAN_ERR_ARGUMENT, "the request or the function to call is NULL");
  struct by_job *job = request->job;
  BY_TRY(by_job_check_process(job));
  by_job_lock(job);
  request->then = then;
  request->argument = argument;
  request->next = NULL;
  job->references++; /* This function uses the job until it returns. */
  if (has_ended(request)) {
    notify(job, request);
  } else {
    *job->given.end = request;
    job->given.end = &request->next;
    by_progress_kick(job);
  }
  by_job_unlock_and_release(job);
  return BANYAN_OK;
}
