/* Checks the counts of calls: repeated calls lose nothing, and iterations keep the times at which they happened. */
#include <string.h>

#include "check.h"
#include "clock.h"
#include "observe.h"
#include "rng.h"

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

/* Each iteration has three calls, and the observation is read now and then. A pause does not count as a usual
 * iteration. */
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

/* Identical calls also form iterations. */
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

/* If the program marks its iterations, nothing else is counted. */
static void test_steps(void **state) {
  (void)state;
  struct by_observation o = {0};
  struct by_observed now;
  by_observe_begin(&o);
  for (uint64_t i = 0; i < 50; i++) {
    by_observe_step(&o, i, i * 7 * STEP_MS * BY_MILLISECOND);
    by_observe_step(&o, i, i * 7 * STEP_MS * BY_MILLISECOND); /* This step belongs to another communicator. */
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
    o.on_next_call = count_one;
    o.context = &woken;
    call(&o, 1, 1);
    call(&o, 1, 1);
    assert_int_equal(woken, i);
  }
}

/* The iteration is known only if all calls belong to the communicator. */
static void test_iteration(void **state) {
  (void)state;
  struct by_observation o = {0};
  uint64_t began, period, before;
  by_observe_begin(&o);
  assert_false(by_observe_iteration(&o, 0, &began, &period));
  for (uint64_t i = 0; i < 160; i++) call(&o, 100 + i % 4, i);
  assert_true(by_observe_iteration(&o, 160, &began, &period));
  assert_int_equal(period, 4);
  assert_in_range(began, 157, 160);
  before = began;
  for (uint64_t i = 0; i < 6; i++) call(&o, 100 + i % 4, i);
  assert_true(by_observe_iteration(&o, 166, &began, &period));
  assert_int_equal((began - before) % 4, 0);
  assert_false(by_observe_iteration(&o, 150, &began, &period));
}

/* Iterations are detected from calls. A letter stands for a call: it is the kind, and the number of bytes follows
 * from it. */
static bool add_call(struct by_iteration_detector *period, char letter) {
  return by_iteration_detector_add(period, by_call_key((uint32_t)letter, (uint64_t)letter * 1000));
}

static uint32_t add_all(struct by_iteration_detector *period, const char *calls) {
  uint32_t turns = 0;
  for (; *calls; calls++) turns += add_call(period, *calls);
  return turns;
}

static void repeat(struct by_iteration_detector *period, const char *calls, int times) {
  for (int i = 0; i < times; i++) add_all(period, calls);
}

static uint64_t count(const struct by_iteration_detector *period) {
  return by_iteration_detector_iterations(period);
}

/* Once an iteration is detected, earlier iterations are counted as well. */
static void check_found(const char *iteration) {
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  repeat(&period, iteration, 300);
  if (period.length != strlen(iteration)) print_error("%s\n", iteration);
  assert_int_equal(period.length, strlen(iteration));
  assert_in_range(count(&period), 298, 300);
  uint64_t before = count(&period);
  repeat(&period, iteration, 10);
  assert_int_equal(count(&period), before + 10);
}

static void test_plain(void **state) {
  (void)state;
  static const char *const iterations[] = {
      "a",      "ab",        "aab",     "aabb",          "abcab",     "aaaaaaab",
      "abbbba", "aaabbbccc", "abababc", "abcdefghijklm", "aabaabaac", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};
  for (size_t i = 0; i < sizeof iterations / sizeof *iterations; i++) check_found(iterations[i]);
}

/* This is the pattern of DDP: the first iteration has other buckets, and parameters are broadcast before it. */
static void test_buckets(void **state) {
  (void)state;
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  add_all(&period, "xyzwv");
  add_all(&period, "bac");
  repeat(&period, "BBBBBC", 40);
  assert_int_equal(period.length, 6);
  assert_in_range(count(&period), 40, 42);
}

static uint64_t large(struct by_iteration_detector *period, uint64_t kinds, int times) {
  for (int i = 0; i < times; i++)
    for (uint64_t k = 0; k < kinds; k++) by_iteration_detector_add(period, by_call_key(1, 64 * k));
  return period->length;
}

/* An iteration has as many calls as a model has tensors. */
static void test_long(void **state) {
  (void)state;
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  assert_int_equal(large(&period, 3000, 12), 3000);
  assert_in_range(count(&period), 11, 12);
}

static void test_odd_calls(void **state) {
  (void)state;
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  repeat(&period, "abcde", 30);
  uint64_t before = count(&period);
  for (int i = 0; i < 20; i++) { /* One call is added, removed or replaced. */
    static const char *const odd[] = {"abxcde", "abde", "abbcde", "xabcde", "abcdx"};
    add_all(&period, odd[i % 5]);
    repeat(&period, "abcde", 4);
  }
  assert_int_equal(period.length, 5);
  assert_in_range(count(&period) - before, 95, 105);
}

/* Calls are alike, except for another one now and then, as in an evaluation. */
static void test_alike_periods(void **state) {
  (void)state;
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  for (int i = 0; i < 10; i++) {
    repeat(&period, "a", 500);
    add_all(&period, "v");
  }
  assert_int_equal(period.length, 1);
  assert_in_range(count(&period), 5000, 5010);
}

static void test_shuffled(void **state) {
  (void)state;
  struct by_iteration_detector period;
  struct by_rng rng;
  by_rng_init(&rng, 7);
  by_iteration_detector_init(&period);
  for (int i = 0; i < 500; i++) {
    char calls[] = "bcdefghi";
    for (uint32_t n = 8; n > 1; n--) {
      uint32_t at = (uint32_t)by_rng_below(&rng, n);
      char last = calls[n - 1];
      calls[n - 1] = calls[at];
      calls[at] = last;
    }
    add_all(&period, "a");
    add_all(&period, calls);
  }
  assert_int_equal(period.length, 9);
  assert_in_range(count(&period), 498, 500);
}

/* Calls without an order form no iteration and do no harm. An iteration that follows them is detected. */
static void test_disorder(void **state) {
  (void)state;
  struct by_iteration_detector period;
  struct by_rng rng;
  by_rng_init(&rng, 11);
  by_iteration_detector_init(&period);
  for (int i = 0; i < 20000; i++) add_call(&period, (char)('a' + by_rng_below(&rng, 20)));
  assert_in_range(count(&period), 0, 200);
  for (int i = 0; i < 30000 && period.length != 6; i++) add_all(&period, "uvwxyz");
  assert_int_equal(period.length, 6);
}

/* For another model, or more buckets, earlier counts remain, and later calls are counted by the new iteration. */
static void test_changes(void **state) {
  (void)state;
  static const char *const models[] = {"abc", "abcd", "xxxxy", "a", "abc"};
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  uint64_t before = 0;
  for (int i = 0; i < 5; i++) {
    repeat(&period, models[i], 1000);
    assert_int_equal(period.length, strlen(models[i]));
    assert_in_range(count(&period) - before, 930, 1100);
    before = count(&period);
  }
}

/* The detector reports a turn at each iteration. */
static void test_turns(void **state) {
  (void)state;
  struct by_iteration_detector period;
  by_iteration_detector_init(&period);
  repeat(&period, "abbc", 50);
  for (int i = 0; i < 20; i++) assert_int_equal(add_all(&period, "abbc"), 1);
}

static void test_never_fewer(void **state) {
  (void)state;
  struct by_iteration_detector period;
  struct by_rng rng;
  for (uint64_t seed = 1; seed <= 30; seed++) {
    uint64_t before = 0;
    by_rng_init(&rng, seed);
    by_iteration_detector_init(&period);
    for (int i = 0; i < 5000; i++) {
      uint32_t kinds = 1 + (uint32_t)(i / 500 % 4);
      add_call(&period, (char)('a' + (by_rng_below(&rng, 20) ? (uint32_t)i % kinds : by_rng_below(&rng, 6))));
      assert_true(count(&period) >= before);
      assert_true(count(&period) <= period.now.calls);
      before = count(&period);
    }
  }
}

/* Several calls in a row are added at once. */
static void test_many(void **state) {
  (void)state;
  struct by_iteration_detector one, many;
  struct by_rng rng;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    by_rng_init(&rng, seed);
    by_iteration_detector_init(&one);
    by_iteration_detector_init(&many);
    for (int i = 0; i < 200; i++) {
      uint64_t n = 1 + by_rng_below(&rng, i % 3 ? 5 : 500), key = by_call_key(1, by_rng_below(&rng, 10) ? 8 : 16);
      bool turned = false;
      for (uint64_t k = 0; k < n; k++) turned |= by_iteration_detector_add(&one, key);
      assert_int_equal(by_iteration_detector_add_many(&many, key, n), turned);
      assert_memory_equal(&one, &many, sizeof one);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts),      cmocka_unit_test(test_times),         cmocka_unit_test(test_alike),
      cmocka_unit_test(test_steps),       cmocka_unit_test(test_awake),         cmocka_unit_test(test_iteration),
      cmocka_unit_test(test_plain),       cmocka_unit_test(test_buckets),       cmocka_unit_test(test_long),
      cmocka_unit_test(test_odd_calls),   cmocka_unit_test(test_alike_periods), cmocka_unit_test(test_shuffled),
      cmocka_unit_test(test_disorder),    cmocka_unit_test(test_changes),       cmocka_unit_test(test_turns),
      cmocka_unit_test(test_never_fewer), cmocka_unit_test(test_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
