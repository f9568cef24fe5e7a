#include "check.h"

#include <string.h>

#include "schedule.h"
#include "schedule_check.h"

static struct by_schedule *compile(const char *name, uint32_t n, enum banyan_collective collective, uint32_t root,
                                   uint32_t rank) {
  struct by_plan *plan;
  struct by_schedule *schedule;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_ok(by_schedule_compile(plan, &plan->classes[0], collective, root, rank, &schedule));
  by_plan_destroy(plan);
  return schedule;
}

static uint32_t messages_out(const struct by_schedule *schedule) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < schedule->n_peers; i++) n += schedule->peers[i].n_out;
  return n;
}

static void expect_messages(const char *name, uint32_t n, enum banyan_collective collective, uint32_t wanted) {
  for (uint32_t rank = 0; rank < n; rank++) {
    struct by_schedule *schedule = compile(name, n, collective, 0, rank);
    assert_int_equal(messages_out(schedule), wanted);
    assert_int_equal(schedule->n_incoming, wanted);
    by_schedule_destroy(schedule);
  }
}

/* What goes between two ranks in one round is one message: halving takes log2 n of them each way. */
static void test_messages(void **state) {
  (void)state;
  for (uint32_t k = 1; k <= 6; k++) {
    uint32_t n = (uint32_t)1 << k;
    expect_messages("halving", n, BANYAN_ALLREDUCE, 2 * k);
    expect_messages("halving", n, BANYAN_REDUCE_SCATTER, k);
    expect_messages("halving", n, BANYAN_ALLGATHER, k);
    expect_messages("doubling", n, BANYAN_ALLREDUCE, k);
    expect_messages("doubling", n, BANYAN_REDUCE_SCATTER, k);
  }
  for (uint32_t n = 2; n < 12; n++) {
    expect_messages("ring", n, BANYAN_ALLREDUCE, 2 * (n - 1));
    expect_messages("ring", n, BANYAN_ALLGATHER, n - 1);
    expect_messages("sharded", n, BANYAN_ALLREDUCE, 2 * (n - 1));
    expect_messages("sharded", n, BANYAN_REDUCE_SCATTER, n - 1);
    expect_messages("exchange", n, BANYAN_ALLREDUCE, n - 1);
    expect_messages("ring", n, BANYAN_ALLTOALL, n - 1);
  }
}

/* Rooted elsewhere the same trees come to a reduce-scatter and a gather, or a scatter and an allgather. */
static void test_rooted_messages(void **state) {
  (void)state;
  for (uint32_t k = 2; k <= 6; k++)
    for (uint32_t rank = 0; rank < (uint32_t)1 << k; rank++) {
      struct by_schedule *reduce = compile("halving", (uint32_t)1 << k, BANYAN_REDUCE, 3, rank);
      struct by_schedule *broadcast = compile("halving", (uint32_t)1 << k, BANYAN_BROADCAST, 3, rank);
      assert_int_equal(messages_out(reduce) + reduce->n_incoming, 2 * k);
      assert_int_equal(messages_out(broadcast) + broadcast->n_incoming, 2 * k);
      by_schedule_destroy(reduce);
      by_schedule_destroy(broadcast);
    }
}

/* Not a power of two: ceil(log2 n) rounds; one message may go round the end of the order and be two. */
static void test_circulant_messages(void **state) {
  (void)state;
  for (uint32_t n = 3; n < 70; n++) {
    uint32_t rounds = 0;
    while ((uint32_t)1 << rounds < n) rounds++;
    for (uint32_t rank = 0; rank < n; rank++) {
      struct by_schedule *schedule = compile("halving", n, BANYAN_REDUCE_SCATTER, 0, rank);
      assert_in_range(schedule->n_peers, 1, 2 * rounds);
      assert_in_range(messages_out(schedule), rounds, 2 * rounds);
      by_schedule_destroy(schedule);
    }
  }
}

static void test_print_ring(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("ring", 4, BANYAN_ALLREDUCE, 0, 1);
  struct by_text text;
  by_text_init(&text);
  by_schedule_print(schedule, &text);
  assert_string_equal(by_text_get(&text), "allreduce, rank 1 of 4: 4 pieces, 2 peers, 6 messages in, 12 steps\n"
                                          "step level\n"
                                          "   0     0  send    send[0] to rank 2 #0\n"
                                          "   1     0  reduce  recv[3] = send[3] + rank 0 #0\n"
                                          "   2     1  send    recv[3] to rank 2 #1, after 1\n"
                                          "   3     1  reduce  recv[2] = send[2] + rank 0 #1\n"
                                          "   4     2  send    recv[2] to rank 2 #2, after 3\n"
                                          "   5     2  reduce  recv[1] = send[1] + rank 0 #2, divide\n"
                                          "   6     3  send    recv[1] to rank 2 #3, after 5\n"
                                          "   7     3  receive recv[0] = rank 0 #3\n"
                                          "   8     4  send    recv[0] to rank 2 #4, after 7\n"
                                          "   9     4  receive recv[3] = rank 0 #4\n"
                                          "  10     5  send    recv[3] to rank 2 #5, after 9\n"
                                          "  11     5  receive recv[2] = rank 0 #5\n");
  by_text_fini(&text);
  by_schedule_destroy(schedule);
}

static void expect_lines(const char *name, uint32_t n, enum banyan_collective collective, uint32_t root, uint32_t rank,
                         const char *wanted) {
  struct by_schedule *schedule = compile(name, n, collective, root, rank);
  struct by_text text;
  by_text_init(&text);
  by_schedule_print(schedule, &text);
  const char *lines = strstr(by_text_get(&text), "level\n");
  assert_non_null(lines);
  assert_string_equal(lines + strlen("level\n"), wanted);
  by_text_fini(&text);
  by_schedule_destroy(schedule);
}

static void test_print_others(void **state) {
  (void)state;
  expect_lines("doubling", 3, BANYAN_ALLREDUCE, 0, 0, /* rank 2 is a twig of rank 0 */
               "   0     0  reduce  recv[0] = send[0] + rank 2 #0\n"
               "   1     1  send    recv[0] to rank 1 #0, copied, after 0\n"
               "   2     1  reduce  recv[0] = recv[0] + rank 1 #0, divide, after 0, 1\n"
               "   3     2  send    recv[0] to rank 2 #0, after 2\n");
  expect_lines("chain", 4, BANYAN_REDUCE, 2, 1, /* 3 -> 2 <- 1 <- 0: the edges above rank 2 are turned round */
               "   0     3  reduce  tmp[0] = send[0] + rank 0 #0\n"
               "   1     4  send    tmp[0] to rank 2 #0, after 0\n");
  expect_lines("star", 4, BANYAN_REDUCE_SCATTER, 0, 0,
               "   0     0  reduce  tmp[0..2] = send[0..2] + rank 3 #0\n"
               "   1     0  reduce  tmp[0..1] = tmp[0..1] + rank 2 #0, after 0\n"
               "   2     0  copy    tmp[3] = send[3]\n"
               "   3     0  reduce  tmp[2..3] = tmp[2..3] + rank 1 #1, after 0, 2\n"
               "   4     0  reduce  recv[0] = tmp[0] + rank 1 #0, divide, after 1\n"
               "   5     0  reduce  tmp[3] = tmp[3] + rank 2 #1, after 3\n"
               "   6     1  send    tmp[1] to rank 1 #0, after 1\n"
               "   7     1  send    tmp[2] to rank 2 #0, after 3\n"
               "   8     1  send    tmp[3] to rank 3 #0, after 5\n");
  expect_lines("ring", 3, BANYAN_ALLTOALL, 0, 1, /* begins behind itself */
               "   0     0  copy    recv[1] = send[1]\n"
               "   1     0  send    send[2] to rank 2 #0\n"
               "   2     0  send    send[0] to rank 0 #0\n"
               "   3     0  receive recv[0] = rank 0 #0\n"
               "   4     0  receive recv[2] = rank 2 #0\n");
  expect_lines("ring", 1, BANYAN_ALLREDUCE, 0, 0, "   0     0  copy    recv[0] = send[0]\n");
  expect_lines("ring", 1, BANYAN_BROADCAST, 0, 0, "");
  expect_lines("ring", 1, BANYAN_REDUCE_SCATTER, 0, 0, "   0     0  copy    recv[0] = send[0]\n");
}

/* More children than a REDUCE can fold: in parts, one after the other. */
static void test_many_children(void **state) {
  (void)state;
  struct by_schedule *schedule = compile("star", 150, BANYAN_ALLREDUCE, 0, 0);
  uint32_t folded = 0;
  for (uint32_t i = 0; i < schedule->n_steps; i++) {
    const struct by_step *step = &schedule->steps[i];
    if (step->kind != BY_STEP_REDUCE) continue;
    assert_in_range(step->n_in, 1, BY_SCHEDULE_MOST_IN);
    folded += step->n_in;
    assert_int_equal(step->divide, folded == 149);
  }
  assert_int_equal(folded, 149);
  by_schedule_destroy(schedule);
}

/* An exchange that is too wide to be folded at once runs as trees. */
static void test_wide_exchange(void **state) {
  (void)state;
  struct by_schedule *narrow = compile("exchange", BY_SCHEDULE_MOST_IN + 1, BANYAN_ALLREDUCE, 0, 3);
  struct by_schedule *wide = compile("exchange", BY_SCHEDULE_MOST_IN + 2, BANYAN_ALLREDUCE, 0, 3);
  assert_int_equal(narrow->n_pieces, 1);
  assert_int_equal(wide->n_pieces, BY_SCHEDULE_MOST_IN + 2);
  by_schedule_destroy(narrow);
  by_schedule_destroy(wide);
}

static void expect_linear(const char *name, enum banyan_collective collective) {
  struct by_schedule *small = compile(name, 512, collective, 0, 0), *large = compile(name, 2048, collective, 0, 0);
  assert_in_range(large->arena.bytes, 1, 6 * small->arena.bytes + 65536);
  assert_in_range(large->n_steps, 1, 5 * small->n_steps);
  assert_in_range(large->n_deps, 0, 5 * small->n_deps + 64);
  by_schedule_destroy(small);
  by_schedule_destroy(large);
}

/* A rank's schedule grows with n, also at the centre of a star, where everything meets. */
static void test_grows_with_n(void **state) {
  (void)state;
  const char *const names[] = {"ring", "star", "sharded", "halving", "chain", "exchange"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) expect_linear(names[i], (enum banyan_collective)c);
}

static void test_same_every_time(void **state) {
  (void)state;
  struct by_schedule *a = compile("double-tree", 13, BANYAN_ALLGATHER, 0, 5);
  struct by_schedule *b = compile("double-tree", 13, BANYAN_ALLGATHER, 0, 5);
  assert_int_equal(a->n_steps, b->n_steps);
  assert_int_equal(a->n_deps, b->n_deps);
  assert_memory_equal(a->steps, b->steps, a->n_steps * sizeof *a->steps);
  assert_memory_equal(a->deps, b->deps, a->n_deps * sizeof *a->deps);
  assert_memory_equal(a->incoming, b->incoming, a->n_incoming * sizeof *a->incoming);
  by_schedule_destroy(a);
  by_schedule_destroy(b);
}

static const char with_helper[] =
    "{\"format\": \"banyan-plan 1\", \"ranks\": 2, \"vertices\": {\"h0\": {\"kind\": \"helper\"}},"
    "\"classes\": [{\"trees\": [{\"share\": 1, \"root\": \"h0\", \"up\": {\"0\": \"h0\", \"1\": \"h0\"}}]}]}";

static void test_refuses(void **state) {
  (void)state;
  struct by_plan *plan;
  struct by_schedule *schedule = NULL;
  assert_ok(by_plan_builtin("ring", 4, &plan));
  const struct by_class *class_ = &plan->classes[0];
  assert_status(by_schedule_compile(plan, class_, BANYAN_ALLREDUCE, 0, 4, &schedule), BANYAN_ERR_ARGUMENT);
  assert_status(by_schedule_compile(plan, class_, BANYAN_REDUCE, 4, 0, &schedule), BANYAN_ERR_ARGUMENT);
  assert_status(by_schedule_compile(plan, class_, BANYAN_SEND, 0, 0, &schedule), BANYAN_ERR_ARGUMENT);
  assert_ok(by_schedule_compile(plan, class_, BANYAN_ALLREDUCE, 99, 0, &schedule)); /* no root: not looked at */
  by_schedule_destroy(schedule);
  by_plan_destroy(plan);
  schedule = NULL;
  assert_ok(by_plan_parse("helper", with_helper, strlen(with_helper), &plan));
  assert_status(by_schedule_compile(plan, &plan->classes[0], BANYAN_REDUCE_SCATTER, 0, 0, &schedule),
                BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "\"h0\""));
  assert_ok(by_schedule_check(plan, &plan->classes[0], BANYAN_ALLTOALL, 0)); /* takes no tree */
  by_plan_destroy(plan);
  assert_null(schedule);
  by_schedule_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_messages),           cmocka_unit_test(test_rooted_messages),
      cmocka_unit_test(test_circulant_messages), cmocka_unit_test(test_print_ring),
      cmocka_unit_test(test_print_others),       cmocka_unit_test(test_many_children),
      cmocka_unit_test(test_wide_exchange),      cmocka_unit_test(test_grows_with_n),
      cmocka_unit_test(test_same_every_time),    cmocka_unit_test(test_refuses),
  };
  return cmocka_run_group_tests_name("schedule_compile", tests, NULL, NULL);
}
