/* What is counted of calls: nothing is lost where calls repeat, and iterations have the times that they had. */
#include "observe.h"

#include "check.h"
#include "clock.h"

enum { STEP_MS = 100 };

static void call(struct by_observation *o, uint64_t count, uint64_t ms) {
  by_observe(o, BANYAN_ALLREDUCE, BANYAN_FLOAT32, count, ms * BY_MILLISECOND);
}

static struct by_observed look(struct by_observation *o) {
  struct by_observed now;
  by_observe_look(o, &now);
  return now;
}

static void test_counts(void **state) {
  (void)state;
  struct by_observation o = {0};
  by_observe_begin(&o);
  assert_int_equal(look(&o).calls, 0);
  for (int i = 0; i < 5; i++) call(&o, 0, 1);
  for (int i = 0; i < 3; i++) call(&o, 256, 1);
  assert_int_equal(look(&o).calls, 8);
  call(&o, 256, 1);
  call(&o, 300, 1);
  by_observe_odd(&o, 1 << 16, 4, 4096, 2 * BY_MILLISECOND);
  call(&o, 300, 1);
  struct by_observed now = look(&o);
  assert_int_equal(now.calls, 12);
  assert_int_equal(now.input, 4 * 1024 + 2 * 1200 + 4096);
  assert_int_equal(o.sizes[0], 5);
  assert_int_equal(o.sizes[10], 6);
  assert_int_equal(o.sizes[12], 1);
}

/* Three calls an iteration, looked at now and then; a pause is no usual one. */
static void test_times(void **state) {
  (void)state;
  struct by_observation o = {0};
  struct by_observed now;
  by_observe_begin(&o);
  uint64_t ms = 1000;
  for (int i = 0; i < 100; i++, ms += STEP_MS) {
    for (uint64_t k = 0; k < 3; k++) call(&o, 100 + k, ms + k);
    if (i == 70) ms += 60000;
    if (i % 4 == 3) now = look(&o);
  }
  assert_in_range(now.iterations, 98, 100);
  assert_true(now.iteration_time > 0.0999 && now.iteration_time < 0.1001);
}

/* Calls that are all alike are iterations as well. */
static void test_alike(void **state) {
  (void)state;
  struct by_observation o = {0};
  struct by_observed now;
  by_observe_begin(&o);
  for (uint64_t i = 0; i < 1000; i++) {
    call(&o, 100, i * STEP_MS);
    if (i % 10 == 9) now = look(&o);
  }
  assert_in_range(now.iterations, 995, 1000);
  assert_true(now.iteration_time > 0.0999 && now.iteration_time < 0.1001);
}

/* Where the program says what an iteration is, nothing else counts. */
static void test_steps(void **state) {
  (void)state;
  struct by_observation o = {0};
  struct by_observed now;
  by_observe_begin(&o);
  for (uint64_t i = 0; i < 50; i++) {
    by_observe_step(&o, i, i * 7 * STEP_MS * BY_MILLISECOND);
    by_observe_step(&o, i, i * 7 * STEP_MS * BY_MILLISECOND); /* of another communicator */
    for (uint64_t k = 0; k < 7; k++) call(&o, 100, (i * 7 + k) * STEP_MS);
    now = look(&o);
    assert_int_equal(now.iterations, i);
  }
  assert_true(now.iteration_time > 0.699 && now.iteration_time < 0.701);
}

static void count_one(void *context) {
  ++*(int *)context;
}

static void test_awake(void **state) {
  (void)state;
  struct by_observation o = {0};
  int woken = 0;
  by_observe_begin(&o);
  call(&o, 1, 1);
  for (int i = 1; i <= 3; i++) {
    o.awake = count_one;
    o.context = &woken;
    call(&o, 1, 1);
    call(&o, 1, 1);
    assert_int_equal(woken, i);
  }
}

/* Known only if all calls are the communicator's. */
static void test_beat(void **state) {
  (void)state;
  struct by_observation o = {0};
  uint64_t began, period, before;
  by_observe_begin(&o);
  assert_false(by_observe_beat(&o, 0, &began, &period));
  for (uint64_t i = 0; i < 160; i++) call(&o, 100 + i % 4, i);
  assert_true(by_observe_beat(&o, 160, &began, &period));
  assert_int_equal(period, 4);
  assert_in_range(began, 157, 160);
  before = began;
  for (uint64_t i = 0; i < 6; i++) call(&o, 100 + i % 4, i);
  assert_true(by_observe_beat(&o, 166, &began, &period));
  assert_int_equal((began - before) % 4, 0);
  assert_false(by_observe_beat(&o, 150, &began, &period));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts), cmocka_unit_test(test_times), cmocka_unit_test(test_alike),
      cmocka_unit_test(test_steps),  cmocka_unit_test(test_awake), cmocka_unit_test(test_beat),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
