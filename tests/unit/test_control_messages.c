#include "control_messages.h"

#include <stdlib.h>
#include <string.h>

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

/* A job with more helpers than the plan has: the engine of one that is left out learns of no communicator. */
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_plans_that_cannot_be),
      cmocka_unit_test(test_plan_of_others),
      cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
