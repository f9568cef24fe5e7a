#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_values.h"
#include "check.h"

/* Returns an element as a number, decoded without the code under test. */
static double decode(enum banyan_dtype dtype, const void *element) {
  switch (dtype) {
  case BANYAN_FLOAT32: return *(const float *)element;
  case BANYAN_FLOAT64: return *(const double *)element;
  case BANYAN_FLOAT16: {
    uint16_t bits = *(const uint16_t *)element;
    int exponent = bits >> 10 & 31;
    double value = exponent ? ldexp(1024 + (bits & 1023), exponent - 25) : ldexp(bits & 1023, -24);
    return bits >> 15 ? -value : value;
  }
  case BANYAN_BFLOAT16: {
    uint32_t bits = (uint32_t) * (const uint16_t *)element << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  case BANYAN_INT8: return *(const int8_t *)element;
  case BANYAN_UINT8: return *(const uint8_t *)element;
  case BANYAN_INT32: return *(const int32_t *)element;
  default: return (double)*(const int64_t *)element;
  }
}

static double element(const struct by_bench_case *c, const struct by_pattern *pattern, int j) {
  return decode(c->dtype, pattern->bytes + (size_t)j * pattern->size);
}

/* Returns the greatest number up to which all whole numbers are exact. */
static double exact_up_to(enum banyan_dtype dtype) {
  static const double limits[BANYAN_DTYPES] = {0x1p24, 0x1p53, 0x1p11, 0x1p8, 127, 255, 0x1p31 - 1, 0x1p53};
  return limits[dtype];
}

static double combine(enum banyan_op op, double a, double b) {
  switch (op) {
  case BANYAN_MIN: return fmin(a, b);
  case BANYAN_MAX: return fmax(a, b);
  case BANYAN_PRODUCT: return a * b;
  default: return a + b;
  }
}

/* Sums of a floating type must be exact in any order, so every partial sum of magnitudes must be exact. */
static void check_floating(const struct by_bench_case *c) {
  static struct by_pattern own[600], reduced;
  for (int rank = 0; rank < c->ranks; rank++) by_pattern_of_rank(c, rank, &own[rank]);
  by_pattern_reduced(c, &reduced);
  double varied = 0;
  for (int j = 0; j < BY_PERIOD; j++) {
    double result = element(c, &own[0], j), magnitudes = fabs(result);
    for (int rank = 1; rank < c->ranks; rank++) {
      result = combine(c->op, result, element(c, &own[rank], j));
      magnitudes = combine(c->op, magnitudes, fabs(element(c, &own[rank], j)));
    }
    if (c->op == BANYAN_AVERAGE) result /= c->ranks;
    assert_true(magnitudes <= exact_up_to(c->dtype));
    if (result != element(c, &reduced, j))
      fail_msg("%s %s of %d ranks, element %d: %g, not %g", banyan_dtype_name(c->dtype), banyan_op_name(c->op),
               c->ranks, j, element(c, &reduced, j), result);
    varied += result != element(c, &reduced, (j + 1) % BY_PERIOD);
  }
  if (c->ranks <= 100) assert_true(varied > BY_PERIOD / 4); /* A constant would hide misplaced chunks. */
}

static void test_floating_results_are_exact(void **state) {
  (void)state;
  static const int ranks[] = {1, 2, 3, 4, 7, 8, 64, 100, 128, 300, 600};
  for (int dtype = BANYAN_FLOAT32; dtype <= BANYAN_BFLOAT16; dtype++)
    for (int op = BANYAN_SUM; op <= BANYAN_PRODUCT; op++)
      for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        struct by_bench_case c = {.collective = BANYAN_ALLREDUCE,
                                  .dtype = (enum banyan_dtype)dtype,
                                  .op = (enum banyan_op)op,
                                  .ranks = ranks[i]};
        check_floating(&c);
      }
}

/* The bytes of integers are reduced byte for byte by modular arithmetic. */
static void test_integers_wrap(void **state) {
  (void)state;
  static struct by_pattern own, reduced;
  for (int dtype = BANYAN_INT8; dtype <= BANYAN_INT64; dtype++)
    for (int op = BANYAN_SUM; op <= BANYAN_XOR; op++) {
      struct by_bench_case c = {
          .collective = BANYAN_ALLREDUCE, .dtype = (enum banyan_dtype)dtype, .op = (enum banyan_op)op, .ranks = 5};
      uint64_t all[BY_PERIOD];
      for (int rank = 0; rank < c.ranks; rank++) {
        by_pattern_of_rank(&c, rank, &own);
        for (int j = 0; j < BY_PERIOD; j++) {
          int64_t value = 0;
          memcpy(&value, own.bytes + (size_t)j * own.size, own.size);
          if (dtype == BANYAN_INT8) value = (int8_t)value;
          if (dtype == BANYAN_INT32) value = (int32_t)value;
          uint64_t *a = &all[j];
          if (!rank)
            *a = (uint64_t)value;
          else if (op == BANYAN_SUM || op == BANYAN_AVERAGE)
            *a += (uint64_t)value;
          else if (op == BANYAN_PRODUCT)
            *a *= (uint64_t)value;
          else if (op == BANYAN_AND)
            *a &= (uint64_t)value;
          else if (op == BANYAN_OR)
            *a |= (uint64_t)value;
          else if (op == BANYAN_XOR)
            *a ^= (uint64_t)value;
          else if (op == BANYAN_MIN)
            *a = (int64_t)*a < value ? *a : (uint64_t)value;
          else
            *a = (int64_t)*a > value ? *a : (uint64_t)value;
        }
      }
      by_pattern_reduced(&c, &reduced);
      for (int j = 0; j < BY_PERIOD; j++) {
        if (op == BANYAN_AVERAGE) all[j] = (uint64_t)((int64_t)all[j] / c.ranks);
        assert_memory_equal(reduced.bytes + (size_t)j * reduced.size, &all[j], reduced.size);
      }
    }
}

/* Sums of floats follow the protocol of the other libraries' benchmarks. */
static void test_float_sum_is_the_protocols(void **state) {
  (void)state;
  struct by_bench_case c = {.collective = BANYAN_ALLREDUCE, .ranks = 4};
  struct by_pattern pattern;
  by_pattern_of_rank(&c, 2, &pattern);
  for (int j = 0; j < BY_PERIOD; j++) assert_true(element(&c, &pattern, j) == j + 3);
}

static void test_differences_are_found(void **state) {
  (void)state;
  enum { COUNT = 5000 };
  struct by_bench_case c = {.collective = BANYAN_ALLREDUCE, .dtype = BANYAN_BFLOAT16, .ranks = 4};
  struct by_pattern pattern;
  uint16_t values[COUNT];
  size_t first = 0;
  by_pattern_of_rank(&c, 1, &pattern);
  by_pattern_fill(&pattern, values, COUNT);
  assert_int_equal(by_pattern_compare(&pattern, 0, values, COUNT, &first), 0);
  assert_int_equal(by_pattern_compare(&pattern, 1234, values + 1234, COUNT - 1234, &first), 0);
  for (int at = 1; at < COUNT; at *= 3) {
    values[at] ^= 1;
    assert_int_equal(by_pattern_compare(&pattern, 0, values, COUNT, &first), 1);
    assert_int_equal(first, at);
    values[at] ^= 1;
  }
  /* These are a chunk in a wrong place, and a chunk from another rank. */
  assert_true(by_pattern_compare(&pattern, 0, values + 512, 512, &first) > 200);
  by_pattern_of_rank(&c, 2, &pattern);
  assert_true(by_pattern_compare(&pattern, 0, values, 512, &first) > 200);
}

static struct by_bench_case make(enum banyan_collective collective, int rank, size_t bytes) {
  struct by_bench_case c = {.collective = collective, .dtype = BANYAN_FLOAT16, .root = 1, .rank = rank, .ranks = 4};
  by_bench_resize(&c, bytes);
  return c;
}

static void test_counts(void **state) {
  (void)state;
  static const struct {
    enum banyan_collective collective;
    /* These are for 1003 bytes, 2 bytes an element and 4 ranks. */
    size_t bytes, count, send, recv, root_send, root_recv;
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
      cmocka_unit_test(test_floating_results_are_exact),
      cmocka_unit_test(test_integers_wrap),
      cmocka_unit_test(test_float_sum_is_the_protocols),
      cmocka_unit_test(test_differences_are_found),
      cmocka_unit_test(test_counts),
      cmocka_unit_test(test_least_sizes),
      cmocka_unit_test(test_bus_factors),
      cmocka_unit_test(test_names_and_checks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
