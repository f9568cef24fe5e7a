/* One thread that does long computations, so that the thread that made them need not hold its lock meanwhile. The
 * thread starts with the first task. A task may also be done by a thread that waits for it. Whoever does them, they are
 * done one after the other. */
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

/* Zero-initialise it. Its memory must stay where it is until the task has been withdrawn. */
struct by_task {
  void (*run)(struct by_task *task); /* may not use the offload */
  _Atomic int state;                 /* enum by_task_state; changed by these functions only */
  bool submitted;
  TAILQ_ENTRY(by_task) next; /* of those queued */
};

struct by_offload {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* tasks were queued or have been done, or the thread is to end */
  TAILQ_HEAD(, by_task) queued;
  pthread_t thread;
  bool started, ends;
  void (*done)(void *context); /* on the offload's thread, after each task */
  void *context;
  _Atomic bool busy;      /* a task runs */
  _Atomic uint32_t open;  /* submitted, and not withdrawn */
  _Atomic uint64_t ended; /* tasks that have been done, by any thread */
};

void by_offload_init(struct by_offload *offload, void (*done)(void *context), void *context);
/* Ends the thread; no task may be open. */
void by_offload_fini(struct by_offload *offload);

/* To be run on the offload's thread. False: the system refuses a thread, and nothing is to be run. */
bool by_offload_submit(struct by_offload *offload, struct by_task *task);
/* To be claimed by a thread that waits for it. */
void by_offload_offer(struct by_offload *offload, struct by_task *task);
/* True: the task was offered, and this thread must run it by by_offload_do. False also while another task runs. */
bool by_offload_claim(struct by_offload *offload, struct by_task *task);
void by_offload_do(struct by_offload *offload, struct by_task *task);
/* Takes a task back that is done or has not begun; waits for one that runs. */
void by_offload_withdraw(struct by_offload *offload, struct by_task *task);

static inline enum by_task_state by_task_state(const struct by_task *task) {
  return (enum by_task_state)atomic_load_explicit(&task->state, memory_order_acquire);
}

#endif
