#include "plan_workers.h"

#include <stdlib.h>

#include "thread.h"

enum state { IDLE, GIVEN, RUNS }; /* RUNS until the loop has taken the request back */

struct worker {
  struct by_plan_workers *all;
  pthread_t thread;
  enum state state;
  struct by_plan_request *request;
};

struct by_plan_workers {
  struct by_plan_workers_options options;
  pthread_mutex_t lock;
  pthread_cond_t more;
  bool ending;
  unsigned n;
  struct worker workers[];
};

static void hand_back(void *context) {
  struct worker *worker = context;
  struct by_plan_workers *all = worker->all;
  struct by_plan_request *request = worker->request;
  pthread_mutex_lock(&all->lock);
  worker->request = NULL;
  worker->state = IDLE;
  pthread_mutex_unlock(&all->lock);
  all->options.done(all->options.context, request);
  by_plan_workers_look(all);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  struct by_plan_workers *all = worker->all;
  for (;;) {
    pthread_mutex_lock(&all->lock);
    while (!all->ending && worker->state != GIVEN) pthread_cond_wait(&all->more, &all->lock);
    worker->state = RUNS;
    bool ending = all->ending;
    pthread_mutex_unlock(&all->lock);
    if (ending) return NULL;
    by_plan_request_run(worker->request);
    if (by_loop_post(all->options.loop, hand_back, worker) != BANYAN_OK) return NULL; /* the loop ends */
  }
}

enum banyan_status by_plan_workers_create(const struct by_plan_workers_options *options, struct by_plan_workers **out) {
  struct by_plan_workers *all = calloc(1, sizeof *all + options->n * sizeof *all->workers);
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the planner's threads");
  all->options = *options;
  pthread_mutex_init(&all->lock, NULL);
  pthread_cond_init(&all->more, NULL);
  for (; all->n < options->n; all->n++) {
    struct worker *worker = &all->workers[all->n];
    worker->all = all;
    int error = by_thread_start(&worker->thread, work, worker);
    if (!error) continue;
    by_plan_workers_destroy(all);
    return by_fail_errno(BANYAN_ERR_SYSTEM, error, "a thread for the planner");
  }
  *out = all;
  return BANYAN_OK;
}

void by_plan_workers_look(struct by_plan_workers *all) {
  for (unsigned i = 0; i < all->n; i++) {
    struct by_plan_request *request;
    if (all->workers[i].request) continue; /* only this thread writes it */
    if (!all->options.next(all->options.context, &request)) return;
    pthread_mutex_lock(&all->lock);
    all->workers[i].request = request;
    all->workers[i].state = GIVEN;
    pthread_cond_broadcast(&all->more);
    pthread_mutex_unlock(&all->lock);
  }
}

void by_plan_workers_destroy(struct by_plan_workers *all) {
  if (!all) return;
  pthread_mutex_lock(&all->lock);
  all->ending = true;
  pthread_cond_broadcast(&all->more);
  pthread_mutex_unlock(&all->lock);
  for (unsigned i = 0; i < all->n; i++) {
    pthread_join(all->workers[i].thread, NULL);
  }
  by_loop_close(all->options.loop); /* nothing that was posted is about them any more */
  for (unsigned i = 0; i < all->n; i++) by_plan_request_destroy(all->workers[i].request);
  pthread_cond_destroy(&all->more);
  pthread_mutex_destroy(&all->lock);
  free(all);
}
