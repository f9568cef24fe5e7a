#include "control_messages.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "check.h"
#include "plan.h"

static const struct by_roster roster = {.ranks = 2, .processes = 4};
static const char text[] = "{\"format\": \"banyan-plan 1\", \"name\": \"p\", \"ranks\": 2, "
                           "\"vertices\": {\"h\": {\"kind\": \"helper\"}}, "
                           "\"trees\": [{\"share\": 1, \"root\": \"h\", \"up\": {\"0\": \"h\", \"1\": \"h\"}}]}";

static enum banyan_status carry(const uint32_t *processes, const uint32_t *helpers, size_t cut,
                                struct by_plan_message *out) {
  struct by_plan *plan;
  uint8_t *bytes;
  size_t length;
  assert_ok(by_plan_parse("it", text, strlen(text), &plan));
  assert_ok(by_plan_message_write(7, processes, helpers, plan, &bytes, &length));
  by_plan_destroy(plan);
  enum banyan_status status = by_plan_message_read(bytes, length - cut, roster, out);
  free(bytes);
  return status;
}

static void test_plan(void **state) {
  (void)state;
  struct by_plan_message message;
  assert_ok(carry((uint32_t[]){1, 0}, (uint32_t[]){3}, 0, &message));
  assert_int_equal(message.id, 7);
  assert_int_equal(message.n, 2);
  assert_int_equal(message.processes[0], 1);
  assert_int_equal(message.n_helpers, 1);
  assert_int_equal(message.helpers[0], 3);
  assert_int_equal(message.plan->n_vertices, 3);
  by_plan_message_fini(&message);
  assert_ok(carry((uint32_t[]){1, 0}, (uint32_t[]){UINT32_MAX}, 0, &message));
  by_plan_message_fini(&message);
}

static void check_refused(const uint32_t *processes, const uint32_t *helpers, size_t cut) {
  struct by_plan_message message;
  assert_int_equal(carry(processes, helpers, cut, &message), BANYAN_ERR_PROTOCOL);
  assert_null(message.plan);
  assert_null(message.processes);
}

static void test_plans_that_cannot_be(void **state) {
  (void)state;
  check_refused((uint32_t[]){0, 1}, (uint32_t[]){2}, 1);
  check_refused((uint32_t[]){0, 0}, (uint32_t[]){2}, 0);
  check_refused((uint32_t[]){0, 2}, (uint32_t[]){3}, 0);
  check_refused((uint32_t[]){0, UINT32_MAX}, (uint32_t[]){2}, 0);
  check_refused((uint32_t[]){0, 1}, (uint32_t[]){1}, 0);
  check_refused((uint32_t[]){0, 1}, (uint32_t[]){4}, 0);
}

/* The job has more helpers than the plan: the engine of a helper outside the plan is not notified of the
 * communicator. */
static void test_plan_of_others(void **state) {
  (void)state;
  struct by_engine_options options = {.clock = by_clock_system, .processes = 4, .ranks = 2, .self = 3};
  struct by_engine *engine;
  struct by_plan_message message;
  assert_ok(by_engine_create(&options, &engine));
  assert_ok(carry((uint32_t[]){0, 1}, (uint32_t[]){2}, 0, &message));
  assert_ok(by_plan_message_set(&message, engine, options.self));
  assert_null(by_engine_team(engine, message.id));
  by_plan_message_fini(&message);
  assert_ok(carry((uint32_t[]){0, 1}, (uint32_t[]){3}, 0, &message));
  assert_ok(by_plan_message_set(&message, engine, options.self));
  assert_non_null(by_engine_team(engine, message.id));
  by_plan_message_fini(&message);
  by_engine_destroy(engine);
}

static void test_text(void **state) {
  (void)state;
  uint8_t bytes[64];
  struct by_writer writer;
  struct by_text_message message;
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_message_write(&writer, BANYAN_ERR_PEER_DEAD, 3, "it left");
  assert_ok(by_text_message_read(bytes, writer.length, &message));
  assert_int_equal(message.status, BANYAN_ERR_PEER_DEAD);
  assert_int_equal(message.process, 3);
  assert_string_equal(message.text, "it left");
  assert_int_equal(by_text_message_read(bytes, writer.length - 1, &message), BANYAN_ERR_PROTOCOL);
  by_writer_init(&writer, bytes, sizeof bytes);
  by_text_message_write(&writer, BANYAN_OK, 3, "it left");
  assert_int_equal(by_text_message_read(bytes, writer.length, &message), BANYAN_ERR_PROTOCOL);
}

/* Members have a narrower type than their fields on the wire. */
struct sample {
  uint8_t small;
  bool flag;
  uint16_t narrow;
  uint64_t wide;
  uint8_t bytes[3];
  char text[4];
};

static const struct by_field sample_fields[] = {
    BY_FIELD(sample, small, BY_FIELD_U8, .min = 1, .max = 9),
    BY_FIELD(sample, flag, BY_FIELD_U8, .flag = true, .max = UINT8_MAX),
    BY_FIELD(sample, narrow, BY_FIELD_U32, .max = UINT16_MAX),
    BY_FIELD(sample, wide, BY_FIELD_U64, .max = UINT64_MAX),
    BY_FIELD(sample, bytes, BY_FIELD_BYTES),
    BY_FIELD(sample, text, BY_FIELD_STRING),
};

static enum banyan_status read_sample(const uint8_t *bytes, size_t length, struct sample *out) {
  struct by_reader reader;
  by_reader_init(&reader, bytes, length);
  return by_fields_read(&reader, NULL, BY_FIELDS(sample_fields), "a sample", out);
}

static void test_fields(void **state) {
  (void)state;
  const struct sample sample = {9, true, UINT16_MAX, UINT64_MAX, {1, 2, 3}, "abc"};
  uint8_t bytes[64];
  struct by_writer writer;
  struct sample read = {0};
  by_writer_init(&writer, bytes, sizeof bytes);
  by_fields_write(&writer, BY_FIELDS(sample_fields), &sample);
  assert_int_equal(writer.length, 1 + 1 + 4 + 8 + 3 + 4 + 3);
  assert_ok(read_sample(bytes, writer.length, &read));
  assert_int_equal(read.small, 9);
  assert_true(read.flag);
  assert_int_equal(read.narrow, UINT16_MAX);
  assert_true(read.wide == UINT64_MAX);
  assert_memory_equal(read.bytes, sample.bytes, sizeof sample.bytes);
  assert_string_equal(read.text, "abc");
  for (size_t cut = 0; cut < writer.length; cut++)
    assert_int_equal(read_sample(bytes, cut, &read), BANYAN_ERR_PROTOCOL);
  bytes[1] = 7;
  assert_ok(read_sample(bytes, writer.length, &read));
  assert_true(read.flag);
  bytes[4] = 1; /* This is 65536 more than fits. */
  assert_int_equal(read_sample(bytes, writer.length, &read), BANYAN_ERR_PROTOCOL);
  assert_string_equal(banyan_error_text(), "a sample: narrow is 131071, but must be 0 to 65535");
  bytes[0] = 0;
  assert_int_equal(read_sample(bytes, writer.length, &read), BANYAN_ERR_PROTOCOL);
  assert_string_equal(banyan_error_text(), "a sample: small is 0, but must be 1 to 9");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plan),           cmocka_unit_test(test_plans_that_cannot_be),
      cmocka_unit_test(test_plan_of_others), cmocka_unit_test(test_text),
      cmocka_unit_test(test_fields),
  };
  return cmocka_run_group_tests_name("control messages", tests, NULL, NULL);
}
