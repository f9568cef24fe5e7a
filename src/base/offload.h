/* A thread for long computations, so that the thread that needs them does not hold its lock meanwhile. The thread
 * starts with the first task. A thread that waits for a task may also run it. Tasks run one after the other. */
#ifndef BY_BASE_OFFLOAD_H
#define BY_BASE_OFFLOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/*   from      to
 *   NONE      QUEUED   by_offload_submit
 *   NONE      OFFERED  by_offload_offer
 *   QUEUED    RUNS     on the offload's thread
 *   OFFERED   RUNS     by_offload_claim
 *   RUNS      DONE
 *   any       NONE     by_offload_withdraw */
enum by_task_state { BY_TASK_NONE, BY_TASK_QUEUED, BY_TASK_OFFERED, BY_TASK_RUNS, BY_TASK_DONE };

/* Initialise it with zeros. Its memory must stay until the task has been withdrawn. */
struct by_task {
  void (*run)(struct by_task *task); /* Must not use the offload. */
  _Atomic int state;                 /* A value of enum by_task_state, which only these functions change. */
  bool submitted;
  TAILQ_ENTRY(by_task) next; /* In the list of queued tasks. */
};

struct by_offload {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* Signals that tasks were queued or have ended, or the thread is to end. */
  TAILQ_HEAD(, by_task) queued;
  pthread_t thread;
  bool started, ends;
  void (*done)(void *context); /* Called on the offload's thread after each task. */
  void *context;
  _Atomic bool busy;      /* A task runs. */
  _Atomic uint32_t open;  /* Tasks that were submitted or offered, and not withdrawn. */
  _Atomic uint64_t ended; /* Tasks that have ended, on any thread. */
};

void by_offload_init(struct by_offload *offload, void (*done)(void *context), void *context);
/* Ends the thread; no task may be open. */
void by_offload_fini(struct by_offload *offload);

/* Queues a task for the offload's thread. Returns false if the system refuses a thread; then no task runs. */
bool by_offload_submit(struct by_offload *offload, struct by_task *task);
/* Offers a task to a thread that waits for it. */
void by_offload_offer(struct by_offload *offload, struct by_task *task);
/* Returns true if the task was offered: this thread must then run it by by_offload_do. Returns false also while
 * another task runs. */
bool by_offload_claim(struct by_offload *offload, struct by_task *task);
void by_offload_do(struct by_offload *offload, struct by_task *task);
/* Takes back a task that has ended or not begun; waits for one that runs. */
void by_offload_withdraw(struct by_offload *offload, struct by_task *task);

static inline enum by_task_state by_task_state(const struct by_task *task) {
  return (enum by_task_state)atomic_load_explicit(&task->state, memory_order_acquire);
}

#endif
