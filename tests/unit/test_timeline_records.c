#include "timeline_records.h"

#include <string.h>

#include "check.h"

/* Their clock is 1000 s behind, and the second measurement took less time. */
static void test_best_counts(void **state) {
  (void)state;
  uint64_t behind = 1000 * BY_SECOND, base = 2000 * BY_SECOND;
  struct by_clock_point point = {0};
  by_clock_point_add(&point, base, base - behind + 900, base + 1000);
  assert_int_equal(point.error, 500);
  by_clock_point_add(&point, base + 2000, base - behind + 2010, base + 2020);
  by_clock_point_add(&point, base + 3000, base - behind + 3010, base + 4000);
  assert_int_equal(point.error, 10);
  assert_int_equal(point.offset, 0 - behind);
  struct by_clock_point points[2] = {point, {0}};
  assert_int_equal(by_clock_points_apply(points, base + 7), base - behind + 7);
  by_clock_point_same(&point);
  assert_int_equal(point.offset, 0 - behind);
}

static void test_same_clock(void **state) {
  (void)state;
  for (int off = -3; off <= 3; off++) {
    struct by_clock_point point = {.at = 1, .offset = (uint64_t)(int64_t)off, .error = 2};
    by_clock_point_same(&point);
    bool same = off >= -2 && off <= 2;
    assert_int_equal(point.offset, same ? 0 : (uint64_t)(int64_t)off);
    assert_int_equal(point.error, same ? 0 : 2);
  }
}

/* Between two points the difference changes evenly, also downward, and continues beyond them. */
static void test_drift(void **state) {
  (void)state;
  struct by_clock_point points[2] = {{.at = 1000, .offset = 50, .error = 1}, {.at = 2000, .offset = 30, .error = 1}};
  assert_int_equal(by_clock_points_apply(points, 1000), 1050);
  assert_int_equal(by_clock_points_apply(points, 1500), 1540);
  assert_int_equal(by_clock_points_apply(points, 2000), 2030);
  assert_int_equal(by_clock_points_apply(points, 500), 560);
  points[0].at = 0;
  assert_int_equal(by_clock_points_apply(points, 1500), 1530);
}

/* ---- which records are taken each time, and which of them count as missing */

enum { EACH = 4096 }; /* This is the maximum for each time. */

struct fixture {
  struct by_tracer tracer;
  uint64_t from, unsent;
};

static void init(struct fixture *f) {
  *f = (struct fixture){.from = 0};
  assert_ok(by_tracer_start(&f->tracer));
}

static uint64_t begin(struct fixture *f) {
  return by_trace_begin(&f->tracer, &(struct by_traced){.bytes = 8}, BY_TRACE_QUEUED);
}

static void note_ended(struct fixture *f, int n) {
  for (int i = 0; i < n; i++) by_trace_ended(&f->tracer, begin(f), BANYAN_OK);
}

/* Takes records that have ended, or all of them in *all. */
static int take(struct fixture *f, struct by_timeline_reel *reel, bool at_end, int *all) {
  struct by_trace_record record;
  int ended = 0;
  *all = 0;
  by_timeline_reel_begin(reel, &f->tracer, NULL, f->from, EACH);
  if (at_end) by_timeline_reel_keep_newest(reel, 1 << 19);
  while (by_timeline_reel_next(reel, &record)) {
    ended += record.at[BY_TRACE_DONE] != 0;
    ++*all;
  }
  f->from = by_timeline_reel_resume(reel);
  return ended;
}

/* More records than are taken at a time stay open for long: those behind them are taken nevertheless. */
static void test_unfinished_keep_none_back(void **state) {
  (void)state;
  static struct fixture f;
  struct by_timeline_reel reel;
  int all;
  init(&f);
  uint64_t first = begin(&f);
  for (int i = 0; i < EACH + 10; i++) (void)begin(&f);
  note_ended(&f, EACH + 100);
  assert_int_equal(take(&f, &reel, false, &all), EACH);
  assert_int_equal(all, 2 * EACH);
  assert_int_equal(f.from, first);
  note_ended(&f, 5);
  assert_int_equal(take(&f, &reel, false, &all), 105);
  by_trace_ended(&f.tracer, first, BANYAN_OK);
  assert_int_equal(take(&f, &reel, false, &all), 1);
  assert_int_equal(take(&f, &reel, true, &all), 0);
  assert_int_equal(all, EACH + 10);
  assert_int_equal(reel.missing, 0);
  by_tracer_fini(&f.tracer);
}

/* A record that cannot be sent is lost if it has ended. The others are taken again, but not after the end. */
static void test_unsent_are_missing(void **state) {
  (void)state;
  static struct fixture f;
  struct by_timeline_reel reel;
  int all;
  init(&f);
  note_ended(&f, 7);
  for (int i = 0; i < 3; i++) (void)begin(&f);
  assert_int_equal(take(&f, &reel, false, &all), 7);
  f.unsent += by_timeline_reel_lose(&reel);
  assert_int_equal(f.unsent, 7);
  note_ended(&f, 2);
  assert_int_equal(take(&f, &reel, false, &all), 2);
  assert_int_equal(all, 5);
  assert_int_equal(f.unsent, 7);
  assert_int_equal(take(&f, &reel, true, &all), 0);
  f.unsent += by_timeline_reel_lose(&reel);
  assert_int_equal(f.unsent, 7);
  assert_int_equal(reel.missing, 3);
  by_tracer_fini(&f.tracer);
}

/* ---- messages */

static struct by_timeline_message carry(const struct by_timeline_message *message) {
  struct by_timeline_message out;
  struct by_writer writer;
  struct by_reader reader;
  uint8_t bytes[512];
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, message);
  assert_false(writer.failed);
  for (size_t cut = 1; cut <= writer.length; cut++) {
    by_reader_init(&reader, bytes, writer.length - cut);
    assert_int_equal(by_timeline_message_read(&reader, &out), BANYAN_ERR_PROTOCOL);
  }
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_timeline_message_read(&reader, &out));
  return out;
}

static void test_messages(void **state) {
  (void)state;
  struct by_timeline_message message = {.kind = BY_TIMELINE_ON, .most = 77};
  assert_int_equal(carry(&message).most, 77);
  message = (struct by_timeline_message){.kind = BY_TIMELINE_PONG, .sent = 1, .now = UINT64_MAX};
  assert_int_equal(carry(&message).now, UINT64_MAX);
  message = (struct by_timeline_message){.kind = BY_TIMELINE_END, .missing = 3, .error = 4};
  message.totals[BY_TRACE_DONE].ns = 9;
  assert_int_equal(carry(&message).totals[BY_TRACE_DONE].ns, 9);
  assert_int_equal(carry(&(struct by_timeline_message){.kind = BY_TIMELINE_TAKEN}).kind, BY_TIMELINE_TAKEN);
}

static void test_strange_kind(void **state) {
  (void)state;
  struct by_timeline_message message;
  struct by_reader reader;
  for (int kind = 0; kind < 256; kind += 255) {
    uint8_t byte = (uint8_t)kind;
    by_reader_init(&reader, &byte, 1);
    assert_int_equal(by_timeline_message_read(&reader, &message), BANYAN_ERR_PROTOCOL);
  }
}

static void test_records(void **state) {
  (void)state;
  struct by_timeline_message message = {.kind = BY_TIMELINE_RECORDS, .n = 2};
  struct by_trace_record record = {
      .id = 5, .bytes = 6, .added = 7, .adding = 8, .team = 9, .call = 10, .has_call = true};
  struct by_trace_record out;
  struct by_writer writer;
  struct by_reader reader;
  uint8_t bytes[1024];
  record.at[BY_TRACE_WIRE] = 11;
  strcpy(record.name, "layer1.weight");
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, &message);
  by_timeline_write_record(&writer, &record);
  strcpy(record.name, "a \n in a name");
  by_timeline_write_record(&writer, &record);
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_timeline_message_read(&reader, &message));
  assert_int_equal(message.n, 2);
  assert_true(by_timeline_read_record(&reader, &out));
  assert_string_equal(out.name, "layer1.weight");
  assert_int_equal(out.at[BY_TRACE_WIRE], 11);
  assert_int_equal(out.call, 10);
  assert_false(by_timeline_read_record(&reader, &out));
  by_reader_init(&reader, bytes, 40); /* The space does not suffice for two. */
  assert_int_equal(by_timeline_message_read(&reader, &message), BANYAN_ERR_PROTOCOL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_best_counts),
      cmocka_unit_test(test_same_clock),
      cmocka_unit_test(test_drift),
      cmocka_unit_test(test_unfinished_keep_none_back),
      cmocka_unit_test(test_unsent_are_missing),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_strange_kind),
      cmocka_unit_test(test_records),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
