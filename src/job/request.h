/* A request: a call under way that the program may wait for, or give away. It keeps the context alive, as a
 * communicator does, until it has ended and been finished. Under the context's lock. */
#ifndef BY_JOB_REQUEST_H
#define BY_JOB_REQUEST_H

#include "job_life.h"

/* Of a request that is no call of the engine, or not yet. */
struct by_request_ops {
  bool (*ended)(const struct banyan_request *request);
  /* Its status; frees it. */
  enum banyan_status (*finish)(struct banyan_request *request);
  /* Waits until it has ended, at most until about that time, and does work of it meanwhile, without the lock. NULL:
   * there is nothing to do. */
  void (*wait)(struct banyan_request *request, uint64_t until);
};

struct banyan_request {
  struct by_call *call; /* The engine's call; NULL: the request is of another kind, with `ops`. */
  const struct by_request_ops *ops;
  void *of; /* The first argument of the functions in `ops`. */
  struct by_job *job;
  void (*then)(void *argument, enum banyan_status status,
               const char *text); /* The callback of banyan_then; NULL: the caller waits for the request. */
  void *argument;
  struct banyan_request *next;
};

/* Calls back for given requests that have ended, without the lock meanwhile. */
void by_requests_notify(struct by_job *job);
/* Like it, until all that other threads do so for have been notified. */
void by_requests_notify_all(struct by_job *job);
/* Whether a given one has ended. */
bool by_requests_have_ended(const struct by_job *job);

#endif
