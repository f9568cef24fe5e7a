/* A thread for long computations, and their states. */
#include "offload.h"

#include "descriptor.h"

void by_offload_init(struct by_offload *offload, void (*done)(void *context), void *context) {
  *offload = (struct by_offload){.done = done, .context = context};
  pthread_mutex_init(&offload->lock, NULL);
  pthread_cond_init(&offload->changed, NULL);
  TAILQ_INIT(&offload->queued);
}

void by_offload_fini(struct by_offload *offload) {
  pthread_mutex_lock(&offload->lock);
  offload->ends = true;
  pthread_cond_broadcast(&offload->changed);
  pthread_mutex_unlock(&offload->lock);
  if (offload->started) pthread_join(offload->thread, NULL);
  pthread_cond_destroy(&offload->changed);
  pthread_mutex_destroy(&offload->lock);
}

static void set_state(struct by_task *task, enum by_task_state state) {
  atomic_store_explicit(&task->state, state, memory_order_release);
}

/* Begins a task, under the lock. */
static void begin_task(struct by_offload *offload, struct by_task *task) {
  set_state(task, BY_TASK_RUNS);
  offload->busy = true;
}

void by_offload_do(struct by_offload *offload, struct by_task *task) {
  task->run(task);
  pthread_mutex_lock(&offload->lock);
  set_state(task, BY_TASK_DONE);
  offload->busy = false;
  offload->ended++;
  pthread_cond_broadcast(&offload->changed);
  pthread_mutex_unlock(&offload->lock);
}

static void *thread_main(void *argument) {
  struct by_offload *offload = argument;
  pthread_mutex_lock(&offload->lock);
  while (!offload->ends) {
    struct by_task *task = TAILQ_FIRST(&offload->queued);
    if (!task || offload->busy) {
      pthread_cond_wait(&offload->changed, &offload->lock);
      continue;
    }
    TAILQ_REMOVE(&offload->queued, task, next);
    begin_task(offload, task);
    pthread_mutex_unlock(&offload->lock);
    by_offload_do(offload, task);
    offload->done(offload->context);
    pthread_mutex_lock(&offload->lock);
  }
  pthread_mutex_unlock(&offload->lock);
  return NULL;
}

bool by_offload_submit(struct by_offload *offload, struct by_task *task) {
  pthread_mutex_lock(&offload->lock);
  if (!offload->started) offload->started = by_thread_start(&offload->thread, thread_main, offload) == 0;
  bool good = offload->started;
  if (good) {
    offload->open++;
    task->submitted = true;
    set_state(task, BY_TASK_QUEUED);
    TAILQ_INSERT_TAIL(&offload->queued, task, next);
    pthread_cond_broadcast(&offload->changed);
  }
  pthread_mutex_unlock(&offload->lock);
  return good;
}

void by_offload_offer(struct by_offload *offload, struct by_task *task) {
  pthread_mutex_lock(&offload->lock);
  set_state(task, BY_TASK_OFFERED);
  pthread_mutex_unlock(&offload->lock);
}

bool by_offload_claim(struct by_offload *offload, struct by_task *task) {
  pthread_mutex_lock(&offload->lock);
  bool claimed = !offload->busy && task->state == BY_TASK_OFFERED;
  if (claimed) begin_task(offload, task);
  pthread_mutex_unlock(&offload->lock);
  return claimed;
}

void by_offload_withdraw(struct by_offload *offload, struct by_task *task) {
  pthread_mutex_lock(&offload->lock);
  while (task->state == BY_TASK_RUNS) pthread_cond_wait(&offload->changed, &offload->lock);
  if (task->state == BY_TASK_QUEUED) TAILQ_REMOVE(&offload->queued, task, next);
  if (task->submitted) offload->open--;
  task->submitted = false;
  set_state(task, BY_TASK_NONE);
  pthread_mutex_unlock(&offload->lock);
}
