/* Named operations between processes, submitted in another order on every rank. They start on all ranks with the right
 * results, and are fused where possible. Several threads submit to several communicators at once while another thread
 * makes direct calls. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

#include "net_operations.h"

enum { OPERATIONS = 40, STEPS = 4 };

struct order {
  struct operation operations[OPERATIONS];
  struct banyan_request *requests[OPERATIONS];
  uint32_t todo[OPERATIONS];
};

static void shuffle(struct by_rng *rng, uint32_t *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) list[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = (uint32_t)by_rng_below(rng, i), last = list[i - 1];
    list[i - 1] = list[j];
    list[j] = last;
  }
}

/* Chooses an operation, the same on all ranks except for point-to-point messages. */
static void choose(struct by_rng *rng, int ranks, struct operation *operation) {
  do {
    operation_choose(rng, ranks, by_rng_below(rng, 2) ? BANYAN_ALLREDUCE : -1, by_rng_below(rng, 8) ? 3000 : 200000,
                     operation);
  } while (operation->call.collective == BANYAN_SEND || operation->call.collective == BANYAN_RECV);
}

static void submit_one(struct banyan_comm *comm, struct order *order, uint32_t k) {
  char name[32];
  snprintf(name, sizeof name, "gradient %u", k);
  struct banyan_submission what = {.calls = &order->operations[k].call, .n_calls = 1, .priority = (int)k % 3};
  must(banyan_submit(comm, name, &what, &order->requests[k]));
}

/* Ends all operations in random ways. */
static void end_all(struct by_rng *own, struct order *order, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    bool done = false;
    if (by_rng_below(own, 3) || !order->requests[k]) continue;
    must(banyan_test(order->requests[k], &done));
    if (done) order->requests[k] = NULL;
  }
  for (size_t left = by_rng_below(own, n), at; left; left--) must(banyan_wait_any(order->requests, n, &at));
  must(banyan_wait_all(order->requests, n));
  for (uint32_t k = 0; k < n; k++) {
    operation_check(&order->operations[k]);
    operation_free(&order->operations[k]);
  }
}

static void run_step(struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own) {
  struct order order = {.requests = {NULL}};
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    choose(rng, banyan_comm_size(comm), &order.operations[k]);
    operation_prepare(comm, &order.operations[k], (unsigned)by_rng_below(own, 4));
  }
  shuffle(own, order.todo, OPERATIONS);
  for (uint32_t i = 0; i < OPERATIONS; i++) {
    submit_one(comm, &order, order.todo[i]);
    if (by_rng_below(own, 10) == 0) job_doze(own, 2000);
  }
  end_all(own, &order, OPERATIONS);
}

static void rank_shuffles(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_negotiation counts;
  struct by_rng own;
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  for (uint64_t step = 0; step < STEPS; step++) {
    struct by_rng rng; /* the same operations in each step, so that they have bits from the third step on */
    by_rng_init(&rng, job->seed);
    if (job->seed % 2) must(banyan_step(world, step));
    run_step(world, &rng, &own);
  }
  banyan_comm_negotiation(world, &counts);
  must_hold(counts.submitted == STEPS * OPERATIONS && counts.started == counts.submitted);
  must_hold(counts.malformed == 0 && counts.refused == 0);
  if (job->seed % 2) must_hold(counts.by_bit >= (STEPS - 2) * OPERATIONS);
  banyan_comm_destroy(world);
}

static void test_orders(void **state) {
  (void)state;
  static const char *const shapes[] = {"control=auto", "control=ring", "control=star", "control=tree:1"};
  for (int i = 0; i < job_rounds(12); i++) {
    struct job job = {.n = 1 + i % 6, .run = rank_shuffles, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i)};
    setenv("BANYAN_ENGINE", shapes[i / 2 % 4], 1);
    job_run(&job);
  }
  unsetenv("BANYAN_ENGINE");
}

/* Controllers form the tree that the topology suggests. */
static void test_topology(void **state) {
  (void)state;
  setenv("BANYAN_TOPOLOGY", "clos:racks=2,hosts=3", 1);
  struct job job = {.n = 6, .run = rank_shuffles, .transport = "tcp", .seed = 1};
  job_run(&job);
  unsetenv("BANYAN_TOPOLOGY");
}

/* ---- several calls of one name */

/* Calls of all kinds start together. The operation ends with the last of them. */
static void rank_groups(struct job *job, int rank) {
  enum { GROUPS = 6, MEMBERS = 7 };
  struct banyan_comm *world = job_join();
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  for (int round = 0; round < 3; round++) {
    struct operation operations[GROUPS][MEMBERS];
    struct banyan_request *requests[GROUPS] = {NULL};
    uint32_t order[GROUPS];
    for (int g = 0; g < GROUPS; g++)
      for (int k = 0; k < MEMBERS; k++) {
        if (g % 2)
          operations[g][k] = (struct operation){.call = {.collective = BANYAN_ALLREDUCE,
                                                         .dtype = BANYAN_FLOAT32,
                                                         .count = (size_t)k * 1000 * (g == 3 ? 200 : 1)}};
        else
          choose(&rng, job->n, &operations[g][k]);
        operation_prepare(world, &operations[g][k], (unsigned)by_rng_below(&own, 4));
      }
    shuffle(&own, order, GROUPS);
    for (int i = 0; i < GROUPS; i++) {
      struct banyan_call calls[MEMBERS];
      char name[32];
      for (int k = 0; k < MEMBERS; k++) calls[k] = operations[order[i]][k].call;
      snprintf(name, sizeof name, "group %u", order[i]);
      struct banyan_submission what = {.size_of_struct = sizeof what, .calls = calls, .n_calls = MEMBERS};
      must(banyan_submit(world, name, &what, &requests[order[i]]));
    }
    must(banyan_wait_all(requests, GROUPS));
    for (int g = 0; g < GROUPS; g++)
      for (int k = 0; k < MEMBERS; k++) {
        operation_check(&operations[g][k]);
        operation_free(&operations[g][k]);
      }
  }
  banyan_comm_destroy(world);
}

static void test_groups(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) {
    struct job job = {.n = 1 + i, .run = rank_groups, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i)};
    job_run(&job);
  }
}

/* A group in which one call differs has not been submitted by all ranks. */
static void rank_groups_differ(struct job *job, int rank) {
  float values[4][10] = {{0}};
  struct banyan_call calls[4];
  struct banyan_request *request = NULL;
  struct banyan_comm *world = job_join();
  for (int k = 0; k < 4; k++)
    calls[k] = (struct banyan_call){
        .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .send = values[k], .recv = values[k], .count = 5};
  if (rank == 1) calls[1].count = 6, calls[2].count = 4; /* as many elements in total */
  struct banyan_submission what = {.calls = calls, .n_calls = 4};
  enum banyan_status status = banyan_submit(world, "group", &what, &request);
  must_fail(BANYAN_ERR_MISMATCH, status == BANYAN_OK ? banyan_wait(request) : status);
  calls[1].count = calls[2].count = 5;
  must(banyan_submit(world, "group", &what, &request));
  must(banyan_wait(request));
  banyan_comm_destroy(world);
  (void)job;
}

static void test_groups_differ(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_groups_differ};
  job_run(&job);
}

/* ---- operations that are fused into one call */

enum { PARTS = 30, PART = 100 };

/* All parts are ready at once, as one group that the root may fuse with nothing else. So they become one call. */
static void sum_parts(struct banyan_comm *world, float *const *send, float *const *recv,
                      struct banyan_negotiation *out) {
  struct banyan_negotiation before;
  struct banyan_call calls[PARTS];
  struct banyan_request *request = NULL;
  int n = banyan_comm_size(world), rank = banyan_comm_rank(world);
  banyan_comm_negotiation(world, &before);
  for (int k = 0; k < PARTS; k++) {
    for (int i = 0; i < PART; i++) send[k][i] = (float)(rank + k * i);
    calls[k] = (struct banyan_call){.collective = BANYAN_ALLREDUCE,
                                    .dtype = BANYAN_FLOAT32,
                                    .send = send[k],
                                    .recv = recv[k],
                                    .scale = k % 2 && send[k] != recv[k] ? 2 : 0,
                                    .count = PART};
  }
  struct banyan_submission what = {.calls = calls, .n_calls = PARTS};
  must(banyan_submit(world, "parts", &what, &request));
  must(banyan_wait(request));
  for (int k = 0; k < PARTS; k++)
    for (int i = 0; i < PART; i++) {
      int sum_of_ranks = n * (n - 1) / 2;
      float sum = (float)(sum_of_ranks + n * k * i);
      must_hold(recv[k][i] == (k % 2 && send[k] != recv[k] ? 2 * sum : sum));
    }
  banyan_comm_negotiation(world, out);
  out->calls -= before.calls;
  out->copied -= before.copied;
}

/* Small operations come before and after one that is better not fused. */
static void sum_unlike(struct banyan_comm *world) {
  enum { LARGE = 20000, SMALL = 50 };
  static float values[LARGE + 4 * SMALL];
  static const size_t counts[] = {SMALL, SMALL, LARGE, SMALL, SMALL};
  struct banyan_call calls[5];
  struct banyan_negotiation before, after;
  struct banyan_request *request = NULL;
  float *at = values;
  banyan_comm_negotiation(world, &before);
  for (int k = 0; k < 5; at += counts[k++])
    calls[k] = (struct banyan_call){
        .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .send = at, .recv = at, .count = counts[k]};
  for (int i = 0; i < LARGE + 4 * SMALL; i++) values[i] = (float)i;
  struct banyan_submission what = {.calls = calls, .n_calls = 5};
  must(banyan_submit(world, "unlike", &what, &request));
  must(banyan_wait(request));
  for (int i = 0; i < LARGE + 4 * SMALL; i++) must_hold(values[i] == (float)(i * banyan_comm_size(world)));
  banyan_comm_negotiation(world, &after);
  must_hold(after.calls - before.calls == 3);
}

static void rank_fuses(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_negotiation counts;
  float *memory = calloc(4 * PARTS * PART, sizeof *memory), *together[PARTS], *apart[PARTS], *other[PARTS];
  must_hold(memory != NULL);
  for (int k = 0; k < PARTS; k++) {
    together[k] = memory + (ptrdiff_t)k * PART;
    apart[k] = memory + (ptrdiff_t)PARTS * PART + (ptrdiff_t)2 * (PARTS - 1 - k) * PART;
    other[k] = memory + (ptrdiff_t)3 * PARTS * PART + (ptrdiff_t)k * PART;
  }
  sum_parts(world, together, together, &counts);
  must_hold(counts.calls == 1 && counts.copied == 0);
  sum_parts(world, apart, apart, &counts); /* data is copied to a fusion buffer and back */
  must_hold(counts.calls == 1 && counts.copied == 2 * PARTS * PART * sizeof *memory);
  sum_parts(world, apart, other, &counts); /* data is copied to where the results belong */
  must_hold(counts.calls == 1 && counts.copied == PARTS * PART * sizeof *memory);
  sum_parts(world, rank ? together : apart, rank ? apart : other, &counts); /* each rank copies differently */
  must_hold(counts.calls == 1);
  sum_unlike(world);
  free(memory);
  banyan_comm_destroy(world);
  (void)job;
}

static void test_fusion(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {.n = 1 + i, .run = rank_fuses, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* ---- sparse rows */

/* Row r of rank q has the value q + r. In table t, a rank has every row except the multiples of rank + 2 + t. */
static void rank_submits_rows(struct job *job, int rank) {
  enum { ROWS = 50, WIDTH = 3, TABLES = 5 };
  struct banyan_comm *world = job_join();
  for (int round = 0; round < 3; round++) {
    int32_t rows[TABLES][ROWS];
    float values[TABLES][ROWS][WIDTH];
    struct banyan_sparse in[TABLES], out[TABLES] = {{.dtype = BANYAN_FLOAT32}};
    struct banyan_request *requests[TABLES + 1] = {NULL};
    float dense[10] = {1, 1, 1};
    for (int t = 0; t < TABLES; t++) {
      size_t count = 0;
      for (int r = 0; r < ROWS; r++) {
        if (r % (rank + 2 + t) == 0) continue;
        for (int i = 0; i < WIDTH; i++) values[t][count][i] = (float)(rank + r);
        rows[t][count++] = r;
      }
      in[t] = (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                     .row_dtype = BANYAN_INT32,
                                     .height = ROWS,
                                     .width = WIDTH,
                                     .count = count,
                                     .rows = rows[t],
                                     .values = values[t]};
    }
    must(banyan_submit_allreduce(world, "dense", dense, dense, 10, BANYAN_FLOAT32, BANYAN_SUM, &requests[TABLES]));
    for (int i = 0; i < TABLES; i++) {
      int t = (i + rank) % TABLES;
      char name[32];
      snprintf(name, sizeof name, "table %d", t);
      struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .op = BANYAN_SUM, .in = &in[t], .out = &out[t]};
      struct banyan_submission what = {.sparse = &call, .n_sparse = 1};
      must(banyan_submit(world, name, &what, &requests[t]));
    }
    must(banyan_wait_all(requests, TABLES + 1));
    must_hold(dense[0] == (float)job->n);
    for (int t = 0; t < TABLES; t++) {
      for (size_t k = 0; k < out[t].count; k++) {
        int32_t r = ((const int32_t *)out[t].rows)[k];
        float sum = 0;
        for (int q = 0; q < job->n; q++) sum += r % (q + 2 + t) ? (float)(q + r) : 0;
        must_hold(((const float *)out[t].values)[k * WIDTH] == sum);
      }
      must_hold(out[t].count > 0 || job->n == 0);
      banyan_sparse_free(&out[t]);
    }
  }
  banyan_comm_destroy(world);
}

static void test_sparse(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    struct job job = {.n = 1 + i, .run = rank_submits_rows, .transport = i % 2 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* ---- names */

/* An invalid name is reported where it is submitted. A name in any script works. */
static void rank_submits_names(struct job *job, int rank) {
  static const struct {
    const char *name, *error;
  } wrong[] = {
      {"caf\xe9", "byte 3 of it, counted from 0, is 0xe9"},      {"\xff", "byte 0 of it, counted from 0, is 0xff"},
      {"a\xc0\x80z", "byte 1 of it, counted from 0, is 0xc0"},   /* an overlong encoding */
      {"na\xc3", "byte 2 of it, counted from 0, is 0xc3"},       /* a truncated character */
      {"\xed\xa0\x80", "byte 0 of it, counted from 0, is 0xed"}, /* a surrogate */
      {"one\ntwo", "byte 3 of it, counted from 0, is 0x0a"},     {"", "1 to 255 bytes, not 0"}};
  struct banyan_comm *world = job_join();
  struct banyan_request *request = NULL;
  float value = 1;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    must_fail(BANYAN_ERR_ARGUMENT,
              banyan_submit_allreduce(world, wrong[i].name, &value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM, &request));
    if (!strstr(banyan_error_text(), wrong[i].error)) rank_fail("name %zu: %s", i, banyan_error_text());
  }
  must(banyan_submit_allreduce(world, "Größe \xe6\xa2\xaf\xe5\xba\xa6", &value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM,
                               &request));
  must(banyan_wait(request));
  must_hold(value == (float)job->n);
  (void)rank;
  banyan_comm_destroy(world);
}

static void test_names(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_submits_names};
  job_run(&job);
}

/* ---- memory */

static uint64_t allocations(const struct banyan_comm *comm) {
  struct banyan_counters counters;
  struct banyan_negotiation counts;
  banyan_comm_counters(comm, &counters);
  banyan_comm_negotiation(comm, &counts);
  return counters.allocations + counts.allocations;
}

/* Each rank submits the same operations in every step, in its own order. From some step on, nothing is allocated for
 * operations, control messages or calls. The only remaining allocations are for frames that come before their call,
 * whose sizes depend on what was fused. */
static void rank_repeats(struct job *job, int rank) {
  enum { N = 60, WARM = 30, ROUNDS = 30 };
  static float values[N][300];
  struct banyan_comm *world = job_join();
  struct by_rng own;
  uint64_t warm = 0, late = 0;
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  for (uint64_t step = 0; step < WARM + ROUNDS; step++) {
    struct banyan_request *requests[N] = {NULL};
    uint32_t order[N];
    must(banyan_step(world, step));
    shuffle(&own, order, N);
    for (int i = 0; i < N; i++) {
      char name[32];
      uint32_t k = order[i];
      snprintf(name, sizeof name, "gradient %u", k);
      must(banyan_submit_allreduce(world, name, values[k], values[k], 3 + 4 * k, BANYAN_FLOAT32, BANYAN_SUM,
                                   &requests[k]));
    }
    must(banyan_wait_all(requests, N));
    if (step + 1 == WARM) warm = allocations(world);
  }
  late = allocations(world) - warm;
  if (late > N) rank_fail("%d allocations in %d warm operations", (int)late, N * ROUNDS);
  banyan_comm_destroy(world);
}

static void test_memory(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 2, .run = rank_repeats, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i)};
    job_run(&job);
  }
}

enum { THREADS = 3, COMMS = 2, THREAD_OPERATIONS = 8, MOST = 3000 };

struct worker {
  struct job *job;
  struct banyan_comm *comms[COMMS];
  int rank, index, rounds;
  pthread_t thread;
  int32_t values[COMMS][THREAD_OPERATIONS][MOST];
  struct banyan_request *requests[COMMS * THREAD_OPERATIONS];
};

static size_t count_of(int k) {
  return k % 4 ? (size_t)k * 10 : MOST;
}

static void submit_by_thread(struct worker *w, int c, int k, int round) {
  char name[40];
  int32_t *at = w->values[c][k];
  snprintf(name, sizeof name, "of thread %d: %d", w->index, k);
  for (size_t i = 0; i < count_of(k); i++) at[i] = (int32_t)i + k + round + w->index * 100 + w->rank;
  must(banyan_submit_allreduce(w->comms[c], name, at, at, count_of(k), BANYAN_INT32, BANYAN_SUM,
                               &w->requests[c * THREAD_OPERATIONS + k]));
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
    int shift = (int)by_rng_below(&own, COMMS * THREAD_OPERATIONS);
    for (int i = 0; i < COMMS * THREAD_OPERATIONS; i++) {
      int at = (i * 5 + shift) % (COMMS * THREAD_OPERATIONS);
      submit_by_thread(w, at / THREAD_OPERATIONS, at % THREAD_OPERATIONS, round);
      if (by_rng_below(&own, 10) == 0) job_doze(&own, 300);
    }
    for (size_t i = 0, at; i < by_rng_below(&own, 5); i++)
      must(banyan_wait_any(w->requests, COMMS * THREAD_OPERATIONS, &at));
    bool done = false;
    if (w->requests[3]) must(banyan_test(w->requests[3], &done));
    if (done) w->requests[3] = NULL;
    must(banyan_wait_all(w->requests, COMMS * THREAD_OPERATIONS));
    for (int at = 0; at < COMMS * THREAD_OPERATIONS; at++)
      check_one(w, at / THREAD_OPERATIONS, at % THREAD_OPERATIONS, round);
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
      cmocka_unit_test(test_orders),        cmocka_unit_test(test_topology), cmocka_unit_test(test_groups),
      cmocka_unit_test(test_groups_differ), cmocka_unit_test(test_fusion),   cmocka_unit_test(test_sparse),
      cmocka_unit_test(test_names),         cmocka_unit_test(test_memory),   cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
