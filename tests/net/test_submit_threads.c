/* Several threads submit to several communicators at once, each in an order of its own, while another makes direct
 * calls: all ends well, and ThreadSanitizer finds nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

enum { THREADS = 3, COMMS = 2, OPERATIONS = 8, MOST = 3000 };

struct worker {
  struct job *job;
  struct banyan_comm *comms[COMMS];
  int rank, index, rounds;
  pthread_t thread;
  int32_t values[COMMS][OPERATIONS][MOST];
  struct banyan_request *requests[COMMS * OPERATIONS];
};

static size_t count_of(int k) {
  return k % 4 ? (size_t)k * 10 : MOST;
}

static void submit_one(struct worker *w, int c, int k, int round) {
  char name[40];
  int32_t *at = w->values[c][k];
  snprintf(name, sizeof name, "of thread %d: %d", w->index, k);
  for (size_t i = 0; i < count_of(k); i++) at[i] = (int32_t)i + k + round + w->index * 100 + w->rank;
  must(banyan_submit_allreduce(w->comms[c], name, at, at, count_of(k), BANYAN_INT32, BANYAN_SUM,
                               &w->requests[c * OPERATIONS + k]));
}

static void check_one(const struct worker *w, int c, int k, int round) {
  int n = banyan_comm_size(w->comms[c]), ranks = n * (n - 1) / 2;
  for (size_t i = 0; i < count_of(k); i++)
    if (w->values[c][k][i] != n * ((int32_t)i + k + round + w->index * 100) + ranks)
      rank_fail("thread %d, communicator %d, operation %d: a wrong result", w->index, c, k);
}

static void *submit_all(void *argument) {
  struct worker *w = argument;
  struct by_rng own;
  by_rng_init(&own, w->job->seed * 100 + (uint64_t)(w->index * 10 + w->rank));
  for (int round = 0; round < w->rounds; round++) {
    int shift = (int)by_rng_below(&own, COMMS * OPERATIONS);
    for (int i = 0; i < COMMS * OPERATIONS; i++) {
      int at = (i * 5 + shift) % (COMMS * OPERATIONS);
      submit_one(w, at / OPERATIONS, at % OPERATIONS, round);
      if (by_rng_below(&own, 10) == 0) job_doze(&own, 300);
    }
    for (size_t i = 0, at; i < by_rng_below(&own, 5); i++) must(banyan_wait_any(w->requests, COMMS * OPERATIONS, &at));
    bool done = false;
    if (w->requests[3]) must(banyan_test(w->requests[3], &done));
    if (done) w->requests[3] = NULL;
    must(banyan_wait_all(w->requests, COMMS * OPERATIONS));
    for (int at = 0; at < COMMS * OPERATIONS; at++) check_one(w, at / OPERATIONS, at % OPERATIONS, round);
  }
  return NULL;
}

static void *call_directly(void *argument) {
  struct worker *w = argument;
  for (int round = 0; round < w->rounds * 5; round++) {
    struct banyan_negotiation counts;
    int32_t value = w->rank, n = banyan_comm_size(w->comms[0]);
    must(banyan_allreduce(w->comms[0], &value, &value, 1, BANYAN_INT32, BANYAN_SUM));
    must_hold(value == n * (n - 1) / 2);
    must(banyan_step(w->comms[1], (uint64_t)round));
    banyan_comm_negotiation(w->comms[0], &counts);
  }
  return NULL;
}

static void rank_submits(struct job *job, int rank) {
  struct worker *workers = calloc(THREADS + 1, sizeof *workers);
  struct banyan_comm *world = job_join(), *other = NULL;
  must_hold(workers != NULL);
  must(banyan_comm_duplicate(world, &other));
  for (int i = 0; i <= THREADS; i++) {
    workers[i].job = job;
    workers[i].comms[0] = world;
    workers[i].comms[1] = other;
    workers[i].rank = rank;
    workers[i].index = i;
    workers[i].rounds = job_rounds(10);
    must_hold(pthread_create(&workers[i].thread, NULL, i == THREADS ? call_directly : submit_all, &workers[i]) == 0);
  }
  for (int i = 0; i <= THREADS; i++) must_hold(pthread_join(workers[i].thread, NULL) == 0);
  banyan_comm_destroy(other);
  banyan_comm_destroy(world);
  free(workers);
}

static void test_threads(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) {
    struct job job = {.n = 2 + i % 3, .run = rank_submits, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i)};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests_name("threads that submit", tests, NULL, NULL);
}
