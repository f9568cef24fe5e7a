#include "timeline_message.h"

#include <string.h>

#include "check.h"

static struct by_timeline_message carry(const struct by_timeline_message *word) {
  struct by_timeline_message out;
  struct by_writer writer;
  struct by_reader reader;
  uint8_t bytes[512];
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, word);
  assert_false(writer.failed);
  for (size_t cut = 1; cut <= writer.length; cut++) {
    by_reader_init(&reader, bytes, writer.length - cut);
    assert_int_equal(by_timeline_message_read(&reader, &out), BANYAN_ERR_PROTOCOL);
  }
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_timeline_message_read(&reader, &out));
  return out;
}

static void test_words(void **state) {
  (void)state;
  struct by_timeline_message word = {.kind = BY_TIMELINE_ON, .most = 77};
  assert_int_equal(carry(&word).most, 77);
  word = (struct by_timeline_message){.kind = BY_TIMELINE_PONG, .sent = 1, .now = UINT64_MAX};
  assert_int_equal(carry(&word).now, UINT64_MAX);
  word = (struct by_timeline_message){.kind = BY_TIMELINE_END, .missing = 3, .error = 4};
  word.totals[BY_TRACE_DONE].ns = 9;
  assert_int_equal(carry(&word).totals[BY_TRACE_DONE].ns, 9);
  assert_int_equal(carry(&(struct by_timeline_message){.kind = BY_TIMELINE_TAKEN}).kind, BY_TIMELINE_TAKEN);
}

static void test_strange_kind(void **state) {
  (void)state;
  struct by_timeline_message word;
  struct by_reader reader;
  for (int kind = 0; kind < 256; kind += 255) {
    uint8_t byte = (uint8_t)kind;
    by_reader_init(&reader, &byte, 1);
    assert_int_equal(by_timeline_message_read(&reader, &word), BANYAN_ERR_PROTOCOL);
  }
}

static void test_records(void **state) {
  (void)state;
  struct by_timeline_message word = {.kind = BY_TIMELINE_RECORDS, .n = 2};
  struct by_trace_record record = {
      .id = 5, .bytes = 6, .added = 7, .adding = 8, .team = 9, .call = 10, .has_call = true};
  struct by_trace_record out;
  struct by_writer writer;
  struct by_reader reader;
  uint8_t bytes[1024];
  record.at[BY_TRACE_WIRE] = 11;
  strcpy(record.name, "layer1.weight");
  by_writer_init(&writer, bytes, sizeof bytes);
  by_timeline_message_write(&writer, &word);
  by_timeline_write_record(&writer, &record);
  strcpy(record.name, "a \n in a name");
  by_timeline_write_record(&writer, &record);
  by_reader_init(&reader, bytes, writer.length);
  assert_ok(by_timeline_message_read(&reader, &word));
  assert_int_equal(word.n, 2);
  assert_true(by_timeline_read_record(&reader, &out));
  assert_string_equal(out.name, "layer1.weight");
  assert_int_equal(out.at[BY_TRACE_WIRE], 11);
  assert_int_equal(out.call, 10);
  assert_false(by_timeline_read_record(&reader, &out));
  by_reader_init(&reader, bytes, 40); /* which cannot hold two */
  assert_int_equal(by_timeline_message_read(&reader, &word), BANYAN_ERR_PROTOCOL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_strange_kind),
                                     cmocka_unit_test(test_records)};
  return cmocka_run_group_tests_name("timeline_word", tests, NULL, NULL);
}
