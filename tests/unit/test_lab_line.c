/* Delay lines: order, time, loss, and what is held. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "lab_line.h"

static void packets_come_out_in_order_when_due(void **state) {
  (void)state;
  struct by_delay_line line;
  by_delay_line_init(&line, 100, 0, 1);
  assert_true(by_delay_line_due(&line) == UINT64_MAX);
  assert_true(by_delay_line_put(&line, "one", 3, 1000));
  assert_true(by_delay_line_put(&line, "three", 5, 1040));
  assert_true(by_delay_line_due(&line) == 1100);
  assert_int_equal(line.held, 8);
  assert_null(by_delay_line_take(&line, 1099));
  struct by_line_packet *packet = by_delay_line_take(&line, 1100);
  assert_non_null(packet);
  assert_int_equal(packet->length, 3);
  assert_memory_equal(packet->bytes, "one", 3);
  free(packet);
  assert_null(by_delay_line_take(&line, 1139));
  packet = by_delay_line_take(&line, 5000);
  assert_non_null(packet);
  assert_memory_equal(packet->bytes, "three", 5);
  free(packet);
  assert_int_equal(line.held, 0);
  assert_true(by_delay_line_put(&line, "again", 5, 6000)); /* an emptied line is as a new one */
  assert_true(by_delay_line_due(&line) == 6100);
  by_delay_line_fini(&line);
}

static void loss_is_of_packets(void **state) {
  (void)state;
  struct by_delay_line line;
  int lost = 0;
  by_delay_line_init(&line, 0, 0.25, 7);
  for (int i = 0; i < 4000; i++) {
    lost += !by_delay_line_put(&line, "x", 1, (uint64_t)i);
    free(by_delay_line_take(&line, (uint64_t)i));
  }
  assert_in_range(lost, 800, 1200);
  by_delay_line_fini(&line);
  by_delay_line_init(&line, 0, 1, 7);
  for (int i = 0; i < 100; i++) assert_false(by_delay_line_put(&line, "x", 1, 0));
  by_delay_line_fini(&line);
}

static void a_line_holds_only_so_much(void **state) {
  (void)state;
  struct by_delay_line line;
  char packet[16] = {0};
  by_delay_line_init(&line, 1, 0, 1);
  line.held = BY_LINE_MOST_BYTES - 8;
  assert_false(by_delay_line_put(&line, packet, 9, 0));
  assert_true(by_delay_line_put(&line, packet, 8, 0));
  by_delay_line_fini(&line);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(packets_come_out_in_order_when_due),
                                     cmocka_unit_test(loss_is_of_packets), cmocka_unit_test(a_line_holds_only_so_much)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
