/* Runs requests to the planner on threads. */
#include "plan_request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "descriptor.h"

struct worker {
  struct by_plan_threads *threads;
  pthread_t thread;
  bool has_thread;
  struct by_plan_request *request; /* NULL: idle. */
};

struct by_plan_threads {
  struct by_plan_threads_options options;
  struct worker workers[];
};

static void join_thread(struct worker *worker) {
  if (worker->has_thread) pthread_join(worker->thread, NULL);
  worker->has_thread = false;
}

static void finish_request(void *context) {
  struct worker *worker = context;
  const struct by_plan_threads_options *o = &worker->threads->options;
  struct by_plan_request *request = worker->request;
  join_thread(worker);
  worker->request = NULL;
  o->done(o->context, request);
}

static void *run_request(void *argument) {
  struct worker *worker = argument;
  by_plan_request_run(worker->request);
  (void)!by_loop_post(worker->threads->options.loop, finish_request, worker); /* It fails only if the loop ends. */
  return NULL;
}

void by_plan_threads_start(struct by_plan_threads *threads) {
  const struct by_plan_threads_options *o = &threads->options;
  for (unsigned i = 0; i < o->n; i++) {
    struct worker *worker = &threads->workers[i];
    if (worker->has_thread) continue;
    if (!worker->request && !o->next(o->context, &worker->request)) return;
    int error = by_thread_start(&worker->thread, run_request, worker);
    worker->has_thread = !error;
    if (error) o->failed(o->context, strerror(error));
  }
}

bool by_plan_threads_are_busy(const struct by_plan_threads *threads) {
  unsigned i = 0;
  while (i < threads->options.n && !threads->workers[i].has_thread) i++;
  return i < threads->options.n;
}

void by_plan_threads_discard(struct by_plan_threads *threads) {
  for (unsigned i = 0; i < threads->options.n; i++) {
    struct worker *worker = &threads->workers[i];
    if (worker->has_thread) continue;
    by_plan_request_destroy(worker->request);
    worker->request = NULL;
  }
}

enum banyan_status by_plan_threads_create(const struct by_plan_threads_options *options, struct by_plan_threads **out) {
  struct by_plan_threads *threads = calloc(1, sizeof *threads + options->n * sizeof threads->workers[0]);
  if (!threads) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the planner's threads");
  threads->options = *options;
  for (unsigned i = 0; i < options->n; i++) threads->workers[i].threads = threads;
  *out = threads;
  return BANYAN_OK;
}

void by_plan_threads_destroy(struct by_plan_threads *threads) {
  if (!threads) return;
  for (unsigned i = 0; i < threads->options.n; i++) join_thread(&threads->workers[i]);
  by_loop_close(threads->options.loop); /* Nothing that was posted refers to the threads any more. */
  by_plan_threads_discard(threads);
  free(threads);
}
