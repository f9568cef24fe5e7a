/* Several threads in each rank, and calls that go on while no thread waits for them. ThreadSanitizer checks them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

enum { THREADS = 4 };

struct worker {
  struct job *job;
  struct banyan_comm *comm;
  int rank, index, calls;
  pthread_t thread;
};

static void start_workers(struct worker *workers, int n, void *(*work)(void *worker)) {
  for (int i = 0; i < n; i++) must_hold(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
}

static void join_workers(const struct worker *workers, int n) {
  for (int i = 0; i < n; i++) must_hold(pthread_join(workers[i].thread, NULL) == 0);
}

/* ---- a communicator for each thread */

static void *run_calls(void *argument) {
  struct worker *w = argument;
  struct by_rng rng, own;
  by_rng_init(&rng, w->job->seed * 10 + (uint64_t)w->index);
  by_rng_init(&own, w->job->seed * 1000 + (uint64_t)(w->index * 10 + w->rank));
  for (int i = 0; i < w->calls; i++) {
    struct operation operation;
    operation_choose(&rng, banyan_comm_size(w->comm), -1, by_rng_below(&rng, 10) ? 3000 : 60000, &operation);
    if (by_rng_below(&own, 8) == 0) job_doze(&own, 300);
    if (by_rng_below(&own, 2)) {
      operation_do(w->comm, &operation, (unsigned)by_rng_below(&own, 4));
      continue;
    }
    struct banyan_request *request = NULL;
    operation_prepare(w->comm, &operation, (unsigned)by_rng_below(&own, 4));
    must(banyan_start(w->comm, &operation.call, &request));
    for (bool done = false; !done && by_rng_below(&own, 20); request = done ? NULL : request)
      must(banyan_test(request, &done));
    if (request) must(banyan_wait(request));
    operation_check(&operation);
    operation_free(&operation);
  }
  return NULL;
}

static void rank_own_communicators(struct job *job, int rank) {
  struct worker workers[THREADS] = {{0}};
  struct banyan_comm *world = job_join();
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (struct worker){.job = job, .rank = rank, .index = i, .calls = job_rounds(30)};
    if (i % 2)
      must(banyan_comm_split(world, rank % 2, -rank, &workers[i].comm));
    else
      must(banyan_comm_duplicate(world, &workers[i].comm));
  }
  start_workers(workers, THREADS, run_calls);
  struct worker own = {.job = job, .comm = world, .rank = rank, .index = THREADS, .calls = job_rounds(30)};
  run_calls(&own);
  join_workers(workers, THREADS);
  for (int i = 0; i < THREADS; i++) banyan_comm_destroy(workers[i].comm);
  banyan_comm_destroy(world);
}

static void test_own_communicators(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {
        .n = 2 + i, .run = rank_own_communicators, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i)};
    job_run(&job);
  }
}

/* ---- one communicator for all: one thread starts calls, and other threads wait for them */

struct hand_over {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct banyan_request *requests[512];
  struct operation *operations[512];
  int filled, taken, all;
};

static struct hand_over queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int take_one(void) {
  pthread_mutex_lock(&queue.lock);
  while (queue.taken == queue.filled && queue.taken < queue.all) pthread_cond_wait(&queue.changed, &queue.lock);
  int i = queue.taken < queue.all ? queue.taken++ : -1;
  pthread_mutex_unlock(&queue.lock);
  return i;
}

static void *wait_for_calls(void *argument) {
  struct worker *w = argument;
  for (int i; (i = take_one()) >= 0;) {
    bool done = false;
    if (w->index % 2) must(banyan_test(queue.requests[i], &done));
    if (!done) must(banyan_wait(queue.requests[i]));
    operation_check(queue.operations[i]);
    operation_free(queue.operations[i]);
    free(queue.operations[i]);
  }
  return NULL;
}

static void start_one(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own, int i) {
  struct operation *operation = malloc(sizeof *operation);
  must_hold(operation != NULL);
  operation_choose(rng, banyan_comm_size(world), -1, 3000, operation);
  operation_prepare(world, operation, (unsigned)by_rng_below(own, 4));
  queue.operations[i] = operation;
  must(banyan_start(world, &operation->call, &queue.requests[i]));
  pthread_mutex_lock(&queue.lock);
  queue.filled = i + 1;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.lock);
}

static void rank_one_communicator(struct job *job, int rank) {
  struct worker workers[THREADS] = {{0}};
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  queue.all = 150;
  for (int i = 0; i < THREADS; i++) workers[i] = (struct worker){.job = job, .rank = rank, .index = i};
  start_workers(workers, THREADS, wait_for_calls);
  for (int i = 0; i < queue.all; i++) start_one(world, &rng, &own, i);
  join_workers(workers, THREADS);
  banyan_comm_destroy(world);
}

static void test_one_communicator(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(3); i++) {
    struct job job = {
        .n = 2 + i % 3, .run = rank_one_communicator, .transport = i % 2 ? "shm" : "tcp", .seed = job_seed(i)};
    job_run(&job);
  }
}

/* ---- all other functions that any thread may call meanwhile */

static _Atomic bool enough;

static void *look_around(void *argument) {
  struct worker *w = argument;
  struct by_rng rng;
  by_rng_init(&rng, (uint64_t)w->index);
  while (!atomic_load(&enough)) {
    struct banyan_counters counters;
    banyan_comm_counters(w->comm, &counters);
    must(banyan_comm_state(w->comm));
    must(banyan_comm_set_tos(w->comm, (int)by_rng_below(&rng, 2) * 32));
    must(banyan_comm_set_deadline(w->comm, 40 + by_rng_unit(&rng)));
    must_hold(banyan_comm_host(w->comm, w->job->n - 1) && !banyan_comm_host(w->comm, w->job->n));
    void *memory = NULL;
    must(banyan_alloc(w->comm, 1 + by_rng_below(&rng, 100000), &memory));
    banyan_free(w->comm, memory);
    job_doze(&rng, 200);
  }
  return NULL;
}

static void rank_looks(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct worker watcher = {.job = job, .comm = world, .rank = rank, .index = 1};
  struct worker caller = {.job = job, .comm = world, .rank = rank, .index = 2, .calls = 100};
  start_workers(&watcher, 1, look_around);
  run_calls(&caller);
  atomic_store(&enough, true);
  join_workers(&watcher, 1);
  banyan_comm_destroy(world);
}

static void test_looks(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_looks, .transport = i ? "shm" : "tcp", .seed = job_seed(i)};
    job_run(&job);
  }
}

/* ---- a thread that waits for long must not delay the calls of others */

static void *wait_long(void *argument) {
  struct worker *w = argument;
  char byte = 0;
  struct banyan_call call = {
      .collective = BANYAN_RECV, .dtype = BANYAN_UINT8, .root = 1, .recv = &byte, .count = 1, .tag = 9};
  if (w->rank == 0) must(banyan_run(w->comm, &call));
  return NULL;
}

/* Rank 0's second thread waits for a message that rank 1 sends when the calls have ended. Each call would last as long
 * as a sleep of the first thread if this thread did not send the data that the second thread receives. */
static void rank_beside(struct job *job, int rank) {
  enum { CALLS = 200 };
  struct banyan_comm *world = job_join(), *other = NULL;
  must(banyan_comm_duplicate(world, &other));
  struct worker waiter = {.job = job, .comm = other, .rank = rank};
  start_workers(&waiter, 1, wait_long);
  usleep(20000);
  double since = job_now();
  for (int i = 0; i < CALLS; i++) {
    if (rank == 1) usleep(1000); /* so that the waiting thread sleeps */
    must(banyan_barrier(world));
  }
  job->reports[rank].number = (uint64_t)(1e3 * (job_now() - since));
  char byte = 1;
  struct banyan_call call = {.collective = BANYAN_SEND, .dtype = BANYAN_UINT8, .send = &byte, .count = 1, .tag = 9};
  if (rank == 1) must(banyan_run(other, &call));
  join_workers(&waiter, 1);
  banyan_comm_destroy(other);
  banyan_comm_destroy(world);
}

static void test_beside(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 2, .run = rank_beside, .transport = i ? "shm" : "tcp"};
    job_start(&job);
    job_wait(&job);
    print_message("200 barriers beside a waiting thread over %s: %d ms\n", job.transport, (int)job.reports[0].number);
    assert_in_range(job.reports[0].number, 0, 15000); /* with one sleep for each call: 20 s */
    job_end(&job, true);
  }
}

/* ---- calls that continue without the program */

static const size_t sizes[] = {1, 1000, 300000};

/* Rank 0 starts calls and then computes. The other ranks must finish their calls, and report this, before rank 0 calls
 * the library again. */
static void rank_computes(struct job *job, int rank) {
  enum { CALLS = 3 };
  struct banyan_comm *world = job_join();
  struct banyan_request *requests[CALLS] = {NULL};
  struct operation operations[CALLS] = {{.call = {.collective = BANYAN_ALLREDUCE}}};
  for (int i = 0; i < CALLS; i++) {
    operations[i] =
        (struct operation){.call = {.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .count = sizes[i]}};
    operation_prepare(world, &operations[i], 0);
    must(banyan_start(world, &operations[i].call, &requests[i]));
  }
  for (int r = 1; r < job->n && rank == 0; r++) {
    double until = job_now() + 30;
    while (atomic_load(&job->reports[r].stage) < 1 && job_now() < until) {
    } /* stands for a computation */
    must_hold(atomic_load(&job->reports[r].stage) == 1);
  }
  must(banyan_wait_all(requests, CALLS));
  job_set_stage(job, rank, 1);
  for (int i = 0; i < CALLS; i++) {
    operation_check(&operations[i]);
    operation_free(&operations[i]);
  }
  banyan_comm_destroy(world);
}

static void test_computes(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    struct job job = {.n = 2 + i / 2, .run = rank_computes, .transport = i % 2 ? "shm" : "tcp"};
    job_run(&job);
  }
}

/* The last bytes of blocking calls may still be on their way when the calls end. The peer receives them though this
 * rank does not call the library again before the peer has reported it. */
static void rank_goes_away(struct job *job, int rank) {
  setenv("BANYAN_SOCKET_BUFFER", "64K", 1);
  job_set_engine("credit", "4K");
  job_set_engine("eager-limit", "4K");
  struct banyan_comm *world = job_join();
  struct by_rng rng;
  by_rng_init(&rng, job->seed);
  for (int round = 1; round <= job_rounds(20); round++) {
    struct operation operation;
    operation_choose(&rng, job->n, round % 2 ? BANYAN_BROADCAST : BANYAN_ALLREDUCE, 30000, &operation);
    operation.call.root = 0;
    if (rank && round % 3 == 0) usleep(2000);
    operation_do(world, &operation, rank % 2 ? 3 : 0);
    job_set_stage(job, rank, round);
    double until = job_now() + 30;
    for (int r = 1; r < job->n && rank == 0; r++)
      while (atomic_load(&job->reports[r].stage) < round && job_now() < until) usleep(100);
    must_hold(job_now() < until);
  }
  banyan_comm_destroy(world);
}

/* The messages are so small that a lane accepts the last one though the socket has room for only half of it. */
static void rank_sends(struct job *job, int rank) {
  enum { BURST = 24, MOST = 500 };
  setenv("BANYAN_SOCKET_BUFFER", "4K", 1);
  struct banyan_comm *world = job_join();
  struct by_rng rng;
  by_rng_init(&rng, job->seed);
  for (int round = 1; round <= job_rounds(60); round++) {
    unsigned char bytes[BURST][MOST];
    struct banyan_request *requests[BURST];
    size_t n = 8 + by_rng_below(&rng, BURST - 8);
    memset(bytes, rank ? 0 : round, sizeof bytes);
    unsigned late = (unsigned)by_rng_below(&rng, 3) * 1000;
    if (rank) usleep(late);
    for (size_t i = 0; i < n; i++) {
      struct banyan_call call = {.collective = rank ? BANYAN_RECV : BANYAN_SEND,
                                 .dtype = BANYAN_UINT8,
                                 .root = !rank,
                                 .send = bytes[i],
                                 .recv = bytes[i],
                                 .count = MOST - by_rng_below(&rng, 99)};
      must(banyan_start(world, &call, &requests[i]));
    }
    must(banyan_wait_all(requests, n));
    job_set_stage(job, rank, round);
    for (double until = job_now() + 20; !rank && atomic_load(&job->reports[1].stage) < round; usleep(100))
      must_hold(job_now() < until);
    for (size_t i = 0; i < n; i++) must_hold(bytes[i][0] == (unsigned char)round);
  }
  banyan_comm_destroy(world);
}

static void test_last_bytes(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct job job = {.n = 2, .run = rank_sends, .transport = i ? "tcp" : "shm", .seed = job_seed(i)};
    job_run(&job);
  }
}

static void test_goes_away(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {.n = 2 + i, .run = rank_goes_away, .transport = i % 2 ? "shm" : "tcp", .seed = job_seed(i)};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_own_communicators),
      cmocka_unit_test(test_one_communicator),
      cmocka_unit_test(test_looks),
      cmocka_unit_test(test_beside),
      cmocka_unit_test(test_computes),
      cmocka_unit_test(test_goes_away),
      cmocka_unit_test(test_last_bytes),
  };
  return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
