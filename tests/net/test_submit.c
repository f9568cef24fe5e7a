/* Named operations between processes: submitted in other orders on every rank, they start everywhere, with the right
 * results, and start together where they can. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "deeds.h"
#include "job.h"

enum { OPERATIONS = 40, STEPS = 4 };

struct order {
  struct deed deeds[OPERATIONS];
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

/* The same on all ranks, but for pairs. */
static void choose(struct by_rng *rng, int ranks, struct deed *deed) {
  do {
    deed_choose(rng, ranks, by_rng_below(rng, 2) ? BANYAN_ALLREDUCE : -1, by_rng_below(rng, 8) ? 3000 : 200000, deed);
  } while (deed->call.collective == BANYAN_SEND || deed->call.collective == BANYAN_RECV);
}

static void submit_one(struct banyan_comm *comm, struct order *order, uint32_t k) {
  char name[32];
  snprintf(name, sizeof name, "gradient %u", k);
  struct banyan_submission what = {.calls = &order->deeds[k].call, .n_calls = 1, .priority = (int)k % 3};
  must(banyan_submit(comm, name, &what, &order->requests[k]));
}

/* In any way that there is. */
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
    deed_check(&order->deeds[k]);
    deed_free(&order->deeds[k]);
  }
}

static void run_step(struct banyan_comm *comm, struct by_rng *rng, struct by_rng *own) {
  struct order order = {.requests = {NULL}};
  for (uint32_t k = 0; k < OPERATIONS; k++) {
    choose(rng, banyan_comm_size(comm), &order.deeds[k]);
    deed_prepare(comm, &order.deeds[k], (unsigned)by_rng_below(own, 4));
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
    struct by_rng rng; /* the same operations in each step, so that they have bits from the third on */
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
  static const char *const controls[] = {"auto", "ring", "star", "tree:1"};
  for (int i = 0; i < job_rounds(12); i++) {
    struct job job = {.n = 1 + i % 6, .run = rank_shuffles, .transport = i % 2 ? "tcp" : "shm", .seed = job_seed(i)};
    setenv("BANYAN_CONTROL", controls[i / 2 % 4], 1);
    job_run(&job);
  }
  unsetenv("BANYAN_CONTROL");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders),
  };
  return cmocka_run_group_tests_name("submit", tests, NULL, NULL);
}
