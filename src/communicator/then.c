/* Requests that were given away: the thread that moves the engine when one has ended calls back, without the lock.
 * A request holds a reference to the job until it has been told, and banyan_comm_destroy() waits for all tellings: so
 * the last reference never goes while another thread calls back. */
#include "context.h"

static struct banyan_request *take_ended(struct by_context *context) {
  struct banyan_request **place = &context->given;
  while (*place && !by_request_ended(*place)) place = &(*place)->next;
  struct banyan_request *request = *place;
  if (!request) return NULL;
  *place = request->next;
  if (!*place) context->given_end = place;
  return request;
}

bool by_context_has_to_tell(const struct by_context *context) {
  for (const struct banyan_request *request = context->given; request; request = request->next)
    if (by_request_ended(request)) return true;
  return false;
}

static void tell(struct by_context *context, struct banyan_request *request) {
  void (*then)(void *, enum banyan_status, const char *) = request->then;
  void *argument = request->argument;
  enum banyan_status status = by_request_finish(request);
  context->telling++;
  by_context_unlock(context);
  then(argument, status, status == BANYAN_OK ? "" : banyan_error_text());
  by_context_lock(context);
  context->telling--;
  context->references--;
  if (context->idlers) pthread_cond_broadcast(&context->job.changed);
}

void by_context_tell(struct by_context *context) {
  struct banyan_request *request;
  while ((request = take_ended(context))) tell(context, request);
}

void by_context_tell_all(struct by_context *context) {
  by_context_tell(context);
  context->idlers++;
  while (context->telling) pthread_cond_wait(&context->job.changed, &context->job.lock);
  context->idlers--;
}

enum banyan_status banyan_then(struct banyan_request *request,
                               void (*then)(void *argument, enum banyan_status status, const char *text),
                               void *argument) {
  if (!request || !then) return by_fail(BANYAN_ERR_ARGUMENT, "the request or the function to call is NULL");
  struct by_context *context = request->context;
  BY_TRY(by_context_check_process(context));
  by_context_lock(context);
  request->then = then;
  request->argument = argument;
  request->next = NULL;
  if (by_request_ended(request)) {
    tell(context, request);
  } else {
    *context->given_end = request;
    context->given_end = &request->next;
    by_context_kick(context);
  }
  bool last = context->references == 0;
  by_context_unlock(context);
  if (last) by_context_release(context);
  return BANYAN_OK;
}
