/* Golden bytes of what members send each other before and while they synchronise a state. */
#include <string.h>

#include "golden.h"
#include "state_contents.h"
#include "state_message.h"

static void test_fixed(void **state) {
  (void)state;
  const struct by_state_summary summary = {.version = 7,
                                           .layout = 0x1111111111111111,
                                           .copy_layout = 0x2222222222222222,
                                           .digest = 0x3333333333333333,
                                           .values = 17,
                                           .layout_bytes = 60};
  struct by_state_summary read;
  const struct by_state_outcome outcome = {BANYAN_ERR_MISMATCH, "buffer \"w\" differs"};
  struct by_state_outcome other;
  uint8_t bytes[BY_STATE_OUTCOME_BYTES], again[BY_STATE_SUMMARY_BYTES];
  uint32_t chunk;
  by_state_summary_write(bytes, &summary);
  golden_bytes("summary", bytes, BY_STATE_SUMMARY_BYTES);
  assert_ok(by_state_summary_read(bytes, &read));
  by_state_summary_write(again, &read);
  assert_memory_equal(again, bytes, sizeof again);
  by_state_outcome_write(bytes, &outcome);
  golden_bytes("outcome", bytes, BY_STATE_OUTCOME_BYTES);
  assert_ok(by_state_outcome_read(bytes, &other));
  assert_int_equal(other.status, BANYAN_ERR_MISMATCH);
  assert_string_equal(other.text, outcome.text);
  by_state_request_write(bytes, 5, summary.digest);
  golden_bytes("request", bytes, BY_STATE_REQUEST_BYTES);
  assert_ok(by_state_request_read(bytes, 6, summary.digest, &chunk));
  assert_int_equal(chunk, 5);
  assert_status(by_state_request_read(bytes, 5, summary.digest, &chunk), BANYAN_ERR_PROTOCOL);
}

static void test_lists(void **state) {
  (void)state;
  const struct banyan_state_buffer buffers[] = {{"weights", NULL, 1000, BANYAN_BFLOAT16},
                                                {"step", NULL, 1, BANYAN_INT64}};
  struct by_state_layout *layout, *read;
  struct by_state_values values = {0}, again = {0};
  struct by_writer writer;
  uint8_t bytes[200];
  assert_ok(by_state_layout_create(buffers, 2, false, &layout));
  by_writer_init(&writer, bytes, sizeof bytes);
  by_state_layout_write(&writer, layout);
  golden_bytes("layout", bytes, writer.length);
  assert_ok(by_state_layout_read(bytes, writer.length, &read));
  assert_true(read->hash == layout->hash && read->n == 2);
  by_state_layout_release(read);
  by_state_layout_release(layout);
  assert_ok(by_state_values_set(&values, "epoch", "3", 1));
  assert_ok(by_state_values_set(&values, "nothing", NULL, 0));
  by_writer_init(&writer, bytes, sizeof bytes);
  by_state_values_write(&writer, &values);
  golden_bytes("values", bytes, writer.length);
  assert_ok(by_state_values_read(bytes, writer.length, &again));
  assert_int_equal(by_state_values_find(&again, "epoch")->bytes[0], '3');
  by_state_values_fini(&again);
  by_state_values_fini(&values);
}

int golden_state(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_fixed), cmocka_unit_test(test_lists),
                                     cmocka_unit_test(golden_end)};
  golden_begin("state", "What members exchange to synchronise a state.");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
