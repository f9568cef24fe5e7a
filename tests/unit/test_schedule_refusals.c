/* Errors of the schedule checker: each test damages one schedule in one way and checks the message. */
#include "check.h"

#include <string.h>

#include "schedule_check.h"

enum { N = 4 };

static struct by_schedule *schedules[N];

static void compile(const char *name, enum banyan_collective collective) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin(name, N, &plan));
  for (uint32_t rank = 0; rank < N; rank++)
    assert_ok(by_schedule_compile(plan, &plan->classes[0], collective, 0, rank, &schedules[rank]));
  by_plan_destroy(plan);
  assert_ok(by_schedule_check_all(schedules, N));
}

static void refused(const char *words) {
  assert_status(by_schedule_check_all(schedules, N), BANYAN_ERR_PLAN);
  if (!strstr(banyan_error_text(), words)) fail_msg("\"%s\" does not contain \"%s\"", banyan_error_text(), words);
  for (uint32_t rank = 0; rank < N; rank++) by_schedule_destroy(schedules[rank]);
}

static struct by_step *find(uint32_t rank, enum by_step_kind kind, uint32_t which) {
  for (uint32_t i = 0; i < schedules[rank]->n_steps; i++)
    if (schedules[rank]->steps[i].kind == kind && which-- == 0) return &schedules[rank]->steps[i];
  fail();
  return NULL;
}

/* Every rank waits until every rank has used what it is about to overwrite. */
static void test_deadlock(void **state) {
  (void)state;
  compile("doubling", BANYAN_ALLREDUCE);
  for (uint32_t rank = 0; rank < N; rank++)
    for (uint32_t i = 0; i < schedules[rank]->n_steps; i++) schedules[rank]->steps[i].copied = 0;
  refused("deadlock");
}

/* The exchange is the only place where a write must wait for a read. */
static void test_write_after_read(void **state) {
  (void)state;
  compile("doubling", BANYAN_ALLREDUCE);
  struct by_step *reduce = find(2, BY_STEP_REDUCE, 1);
  assert_int_equal(reduce->n_dep, 2);
  reduce->n_dep = 1; /* The first is the REDUCE before it, and the second is its own SEND. */
  refused("allreduce, rank 2, step 3: piece 0: may write while step 2 still reads it");
}

static void test_read_before_write(void **state) {
  (void)state;
  compile("chain", BANYAN_ALLREDUCE);
  find(1, BY_STEP_SEND, 0)->n_dep = 0;
  refused("allreduce, rank 1, step 0: piece 0: may write while step");
}

static void test_unwritten(void **state) {
  (void)state;
  compile("chain", BANYAN_ALLREDUCE);
  find(3, BY_STEP_SEND, 0)->from = BY_BUFFER_RECV;
  refused("rank 3, step 0: piece 0: reads what nobody has written");
}

static void test_terms(void **state) {
  (void)state;
  compile("doubling", BANYAN_ALLREDUCE);
  struct by_schedule *s = schedules[0]; /* It takes the second round's message in the first round and the reverse. */
  s->incoming[0].peer = s->lookup[0] = 1;
  s->incoming[1].peer = s->lookup[1] = 0;
  refused("rank 2, step 3: piece 0: adds the term of rank 2 twice");
  compile("doubling", BANYAN_ALLREDUCE);
  find(3, BY_STEP_SEND, 1)->from = BY_BUFFER_SEND; /* It sends its own term instead of its partial sum. */
  refused("lacks the term of rank 2");
  compile("chain", BANYAN_ALLREDUCE);
  find(1, BY_STEP_SEND, 1)->from = BY_BUFFER_SEND; /* The way down carries only the term of rank 1. */
  refused("lacks the term of rank 0");
}

static void test_order_of_adding(void **state) {
  (void)state;
  compile("doubling", BANYAN_ALLREDUCE);
  struct by_step *reduce = find(3, BY_STEP_REDUCE, 0);
  reduce->own = !reduce->own;
  refused("is added in another order");
}

static void test_division(void **state) {
  (void)state;
  compile("star", BANYAN_ALLREDUCE);
  find(0, BY_STEP_REDUCE, 0)->divide = 0;
  refused("rank 0, piece 0: the result is not divided");
  compile("ring", BANYAN_ALLREDUCE);
  find(2, BY_STEP_REDUCE, 0)->divide = 1;
  refused("adds what is divided already");
}

static void test_two_ends(void **state) {
  (void)state;
  compile("ring", BANYAN_ALLREDUCE);
  find(1, BY_STEP_SEND, 0)->tag = 4; /* The message has the same piece, on its way down. */
  refused("rank 1, step 8: sends message 4 to rank 2 again");
  compile("ring", BANYAN_ALLREDUCE);
  find(1, BY_STEP_SEND, 0)->peer = 0;
  refused("rank 1, step 0: sends message 0 to peer 0, which is not announced");
  compile("ring", BANYAN_ALLGATHER);
  schedules[3]->peers[0].n_out++;
  refused("rank 3: messages are announced");
  compile("ring", BANYAN_ALLREDUCE);
  struct by_step *send = find(1, BY_STEP_SEND, 0);
  send->first = send->from_first = 1;
  send->last = 2;
  refused("sends pieces to rank 2 that are others there");
}

static void test_layouts(void **state) {
  (void)state;
  compile("ring", BANYAN_ALLREDUCE);
  schedules[2]->cut[1] = 0.3;
  refused("rank 2: the layout is not that of rank 0");
  compile("ring", BANYAN_REDUCE_SCATTER);
  schedules[2]->origin[BY_BUFFER_RECV] = 1;
  refused("rank 2: a buffer's origin");
  compile("ring", BANYAN_REDUCE_SCATTER);
  find(2, BY_STEP_REDUCE, 0)->to = BY_BUFFER_RECV; /* The buffer holds only the rank's own block. */
  refused("writes outside of the buffer");
  compile("ring", BANYAN_ALLREDUCE);
  schedules[2]->plan_version++;
  refused("of another rank, call or plan");
}

static void test_wrong_block(void **state) {
  (void)state;
  compile("ring", BANYAN_ALLTOALL);
  struct by_schedule *s = schedules[1];
  struct by_step *first = find(1, BY_STEP_SEND, 0), *second = find(1, BY_STEP_SEND, 1);
  uint32_t peer = first->peer;
  first->peer = second->peer;
  second->peer = peer;
  assert_true(s->peers[peer].rank != 1);
  refused("that are others there");
  compile("ring", BANYAN_ALLGATHER);
  find(2, BY_STEP_COPY, 0)->divide = 1;
  refused("the result is another block");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_deadlock),
      cmocka_unit_test(test_write_after_read),
      cmocka_unit_test(test_read_before_write),
      cmocka_unit_test(test_unwritten),
      cmocka_unit_test(test_terms),
      cmocka_unit_test(test_order_of_adding),
      cmocka_unit_test(test_division),
      cmocka_unit_test(test_two_ends),
      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_wrong_block),
  };
  return cmocka_run_group_tests_name("schedule_refusals", tests, NULL, NULL);
}
