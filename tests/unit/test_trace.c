#include "trace.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static struct by_trace_record read_record(struct by_tracer *tracer, uint64_t id) {
  struct by_trace_record record;
  assert_true(by_tracer_take(tracer, id, &record));
  return record;
}

static void test_off(void **state) {
  (void)state;
  struct by_tracer tracer = {0};
  uint64_t first, next, dropped;
  assert_int_equal(by_trace_begin(&tracer, &(struct by_traced){.name = "a"}, BY_TRACE_SUBMITTED), 0);
  by_trace(&tracer, 0, BY_TRACE_NEGOTIATED);
  by_trace_ended(&tracer, 0, BANYAN_OK);
  by_tracer_range(&tracer, &first, &next, &dropped);
  assert_int_equal(first, next);
  assert_ok(by_tracer_start(&tracer));
  by_tracer_stop(&tracer);
  assert_int_equal(by_trace_begin(&tracer, &(struct by_traced){.name = "a"}, BY_TRACE_SUBMITTED), 0);
  by_tracer_fini(&tracer);
}

/* A call has two operations: each gets the call's times, and the call itself is not reported. */
static void test_operations_of_a_call(void **state) {
  (void)state;
  struct by_tracer tracer = {0};
  struct by_trace_record record;
  assert_ok(by_tracer_start(&tracer));
  uint64_t a = by_trace_begin(&tracer, &(struct by_traced){.name = "a", .bytes = 8}, BY_TRACE_SUBMITTED);
  uint64_t b = by_trace_begin(&tracer, &(struct by_traced){.name = "b", .bytes = 4}, BY_TRACE_SUBMITTED);
  by_trace(&tracer, b, BY_TRACE_NEGOTIATED);
  by_trace(&tracer, a, BY_TRACE_NEGOTIATED);
  uint64_t call = by_trace_begin(&tracer, &(struct by_traced){.bytes = 12, .team = 3, .call = 7}, BY_TRACE_QUEUED);
  by_trace_through(&tracer, a, call);
  by_trace_through(&tracer, b, call);
  by_trace(&tracer, call, BY_TRACE_WIRE);
  uint64_t since = by_clock_now(&by_clock_system);
  by_trace_added(&tracer, call, since);
  assert_int_equal(read_record(&tracer, a).at[BY_TRACE_DONE], 0);
  by_trace_ended(&tracer, call, BANYAN_ERR_PEER_DEAD);
  assert_false(by_tracer_take(&tracer, call, &record));
  struct by_trace_record ra = read_record(&tracer, a), rb = read_record(&tracer, b);
  assert_string_equal(ra.name, "a");
  assert_string_equal(rb.name, "b");
  assert_int_equal(ra.bytes, 8);
  assert_true(ra.has_call && rb.has_call);
  assert_int_equal(rb.call, 7);
  assert_int_equal(rb.team, 3);
  assert_int_equal(rb.status, BANYAN_ERR_PEER_DEAD);
  for (int s = 0; s < BY_TRACE_DONE; s++) assert_true(ra.at[s] && ra.at[s] <= ra.at[s + 1]);
  assert_memory_equal(ra.at + BY_TRACE_QUEUED, rb.at + BY_TRACE_QUEUED, 4 * sizeof *ra.at);
  assert_int_equal(ra.at[BY_TRACE_ADDING], since);
  assert_true(ra.adding <= ra.added - since);
  struct by_trace_totals totals[BY_TRACE_STATES];
  by_tracer_totals(&tracer, totals);
  assert_int_equal(totals[BY_TRACE_SUBMITTED].n, 2);
  assert_int_equal(totals[BY_TRACE_NEGOTIATED].bytes, 12);
  assert_int_equal(totals[BY_TRACE_WIRE].n, 1);
  assert_int_equal(totals[BY_TRACE_DONE].bytes, 12);
  by_tracer_fini(&tracer);
}

/* The first time counts. */
static void test_marked_twice(void **state) {
  (void)state;
  struct by_tracer tracer = {0};
  assert_ok(by_tracer_start(&tracer));
  uint64_t id = by_trace_begin(&tracer, &(struct by_traced){.call = 1}, BY_TRACE_QUEUED);
  by_trace(&tracer, id, BY_TRACE_WIRE);
  uint64_t first = read_record(&tracer, id).at[BY_TRACE_WIRE], now;
  do now = by_clock_now(&by_clock_system);
  while (now == first);
  by_trace(&tracer, id, BY_TRACE_WIRE);
  assert_int_equal(read_record(&tracer, id).at[BY_TRACE_WIRE], first);
  by_tracer_fini(&tracer);
}

/* The newest records remain, and the number of lost ones is known. A new start discards all records and the ids of
 * others. */
static void test_more_than_fit(void **state) {
  (void)state;
  enum { MORE = 100 };
  struct by_tracer tracer = {0};
  struct by_trace_record record;
  uint64_t first, next, dropped, oldest = 0, id = 0;
  assert_ok(by_tracer_start(&tracer));
  for (uint32_t i = 0; i < BY_TRACE_RECORDS + MORE; i++) {
    id = by_trace_begin(&tracer, &(struct by_traced){.call = i}, BY_TRACE_QUEUED);
    if (!oldest) oldest = id;
  }
  by_trace_ended(&tracer, oldest, BANYAN_OK); /* Another record is in this place now. */
  by_tracer_range(&tracer, &first, &next, &dropped);
  assert_int_equal(dropped, MORE);
  assert_int_equal(next - first, BY_TRACE_RECORDS);
  assert_false(by_tracer_take(&tracer, oldest, &record));
  assert_int_equal(read_record(&tracer, first).call, MORE);
  assert_int_equal(read_record(&tracer, first).at[BY_TRACE_DONE], 0);
  by_tracer_stop(&tracer);
  assert_ok(by_tracer_start(&tracer));
  by_tracer_range(&tracer, &first, &next, &dropped);
  assert_int_equal(first, next);
  assert_int_equal(dropped, 0);
  by_trace_ended(&tracer, id, BANYAN_OK);
  assert_false(by_tracer_take(&tracer, id, &record));
  by_tracer_fini(&tracer);
}

/* The timeline is valid JSON, and other ranks reject names that are not printable. */
static void test_odd_names(void **state) {
  struct by_tracer tracer = {0};
  (void)state;
  assert_ok(by_tracer_start(&tracer));
  uint64_t line = by_trace_begin(&tracer, &(struct by_traced){.name = "layer 1\nweights"}, BY_TRACE_SUBMITTED);
  uint64_t again = by_trace_begin(&tracer, &(struct by_traced){.name = "layer 1\nweights"}, BY_TRACE_SUBMITTED);
  assert_string_equal(read_record(&tracer, line).name, "layer 1?weights");
  assert_string_equal(read_record(&tracer, again).name, "layer 1?weights");
  by_tracer_fini(&tracer);
}

static void test_many_names(void **state) {
  (void)state;
  struct by_tracer tracer = {0};
  char name[BY_TRACE_NAME + 40];
  assert_ok(by_tracer_start(&tracer));
  uint64_t once = by_trace_begin(&tracer, &(struct by_traced){.name = "once"}, BY_TRACE_SUBMITTED), last = 0;
  for (int i = 0; i < 20000; i++) {
    snprintf(name, sizeof name, "layer%d", i);
    last = by_trace_begin(&tracer, &(struct by_traced){.name = name}, BY_TRACE_SUBMITTED);
  }
  assert_string_equal(read_record(&tracer, once).name, "once");
  assert_string_equal(read_record(&tracer, once + 20).name, "layer19");
  assert_string_equal(read_record(&tracer, last).name, "(a name too many)");
  by_tracer_stop(&tracer);
  assert_ok(by_tracer_start(&tracer));
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  last = by_trace_begin(&tracer, &(struct by_traced){.name = name}, BY_TRACE_SUBMITTED);
  assert_int_equal(strlen(read_record(&tracer, last).name), BY_TRACE_NAME);
  by_tracer_fini(&tracer);
}

static void *note_many(void *argument) {
  struct by_tracer *tracer = argument;
  for (uint32_t i = 0; i < 2000; i++) {
    uint64_t id = by_trace_begin(tracer, &(struct by_traced){.name = i % 2 ? "odd" : "even"}, BY_TRACE_SUBMITTED);
    by_trace(tracer, id, BY_TRACE_NEGOTIATED);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  struct by_tracer tracer = {0};
  pthread_t threads[4];
  uint64_t first, next, dropped;
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, note_many, &tracer);
  assert_ok(by_tracer_start(&tracer));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  by_tracer_stop(&tracer);
  by_tracer_range(&tracer, &first, &next, &dropped);
  for (uint64_t id = first; id < next; id++) assert_true(read_record(&tracer, id).at[BY_TRACE_NEGOTIATED] > 0);
  by_tracer_fini(&tracer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_off),          cmocka_unit_test(test_operations_of_a_call),
      cmocka_unit_test(test_marked_twice), cmocka_unit_test(test_more_than_fit),
      cmocka_unit_test(test_odd_names),    cmocka_unit_test(test_many_names),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
