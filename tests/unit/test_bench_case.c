#include "bench_case.h"
#include "check.h"

static struct by_bench_case make(enum banyan_collective collective, int rank, size_t bytes) {
  struct by_bench_case c = {.collective = collective, .dtype = BANYAN_FLOAT16, .root = 1, .rank = rank, .ranks = 4};
  by_bench_resize(&c, bytes);
  return c;
}

static void test_counts(void **state) {
  (void)state;
  static const struct {
    enum banyan_collective collective;
    size_t bytes, count, send, recv, root_send, root_recv; /* of 1003 bytes, 2 each, 4 ranks */
  } wanted[] = {
      {BANYAN_ALLREDUCE, 1002, 501, 501, 501, 501, 501},
      {BANYAN_REDUCE, 1002, 501, 501, 501, 501, 501},
      {BANYAN_BROADCAST, 1002, 501, 0, 501, 0, 501},
      {BANYAN_REDUCE_SCATTER, 1000, 125, 500, 125, 500, 125},
      {BANYAN_ALLGATHER, 1000, 125, 125, 500, 125, 500},
      {BANYAN_GATHER, 1000, 125, 125, 0, 125, 500},
      {BANYAN_SCATTER, 1000, 125, 0, 125, 500, 125},
      {BANYAN_ALLTOALL, 1000, 125, 500, 500, 500, 500},
      {BANYAN_BARRIER, 0, 0, 0, 0, 0, 0},
      {BANYAN_SEND, 1002, 501, 501, 501, 501, 501},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    struct by_bench_case other = make(wanted[i].collective, 2, 1003), root = make(wanted[i].collective, 1, 1003);
    assert_int_equal(other.bytes, wanted[i].bytes);
    assert_int_equal(other.count, wanted[i].count);
    assert_int_equal(other.send_count, wanted[i].send);
    assert_int_equal(other.recv_count, wanted[i].recv);
    assert_int_equal(root.bytes, wanted[i].bytes);
    assert_int_equal(root.send_count, wanted[i].root_send);
    assert_int_equal(root.recv_count, wanted[i].root_recv);
  }
}

static void test_least_sizes(void **state) {
  (void)state;
  assert_int_equal(make(BANYAN_ALLREDUCE, 0, 1).bytes, 2);
  assert_int_equal(make(BANYAN_ALLTOALL, 0, 1).bytes, 8);
}

static void test_bus_factors(void **state) {
  (void)state;
  assert_true(by_bench_bus_factor(&(struct by_bench_case){.collective = BANYAN_ALLREDUCE, .ranks = 4}) == 1.5);
  assert_true(by_bench_bus_factor(&(struct by_bench_case){.collective = BANYAN_ALLGATHER, .ranks = 4}) == 0.75);
  assert_true(by_bench_bus_factor(&(struct by_bench_case){.collective = BANYAN_BROADCAST, .ranks = 4}) == 1);
}

static void test_names_and_checks(void **state) {
  (void)state;
  struct by_bench_case c = {.ranks = 2};
  for (int i = 0; i < BANYAN_SEND; i++) {
    assert_ok(by_bench_parse_collective(banyan_collective_name((enum banyan_collective)i), &c));
    assert_int_equal(c.collective, i);
  }
  assert_ok(by_bench_parse_collective("sendrecv", &c));
  assert_string_equal(by_bench_collective_name(&c), "sendrecv");
  assert_status(by_bench_parse_collective("send", &c), BANYAN_ERR_ARGUMENT);
  assert_status(by_bench_parse_collective("alreduce", &c), BANYAN_ERR_ARGUMENT);
  c = (struct by_bench_case){.collective = BANYAN_ALLREDUCE, .op = BANYAN_XOR, .ranks = 2};
  assert_status(by_bench_check(&c), BANYAN_ERR_ARGUMENT);
  c.dtype = BANYAN_INT8;
  assert_ok(by_bench_check(&c));
  c = (struct by_bench_case){.collective = BANYAN_SCATTER, .in_place = true, .ranks = 2};
  assert_status(by_bench_check(&c), BANYAN_ERR_ARGUMENT);
  c = (struct by_bench_case){.collective = BANYAN_SCATTER, .root = 2, .ranks = 2};
  assert_status(by_bench_check(&c), BANYAN_ERR_ARGUMENT);
  c = (struct by_bench_case){.collective = BANYAN_SEND, .ranks = 1};
  assert_status(by_bench_check(&c), BANYAN_ERR_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_least_sizes),
      cmocka_unit_test(test_bus_factors),
      cmocka_unit_test(test_names_and_checks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
