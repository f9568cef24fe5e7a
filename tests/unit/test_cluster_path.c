#include "cluster_message.h"

#include "check.h"

static void test_join(void **state) {
  struct by_cluster_path all = {"b", 5, 0.5, 0, 0};
  (void)state;
  by_cluster_path_join(&all, &(struct by_cluster_path){"b", 7, 0.25, 30, 0.002});
  by_cluster_path_join(&all, &(struct by_cluster_path){"b", 1, 0.75, 20, 0.001});
  by_cluster_path_join(&all, &(struct by_cluster_path){"b", 0, 0, 0, 0});
  assert_string_equal(all.to, "b");
  assert_true(all.sent == 13 && all.busy == 0.75); /* they send beside each other */
  assert_true(all.bandwidth == 30 && all.delay == 0.001);
}

static void check(double a, double b, bool differ) {
  struct by_cluster_path x = {.bandwidth = a}, y = {.bandwidth = b};
  assert_int_equal(by_cluster_path_differs(&x, &y), differ);
  assert_int_equal(by_cluster_path_differs(&y, &x), differ);
}

static void test_differs(void **state) {
  (void)state;
  check(100, 150, false);
  check(100, 151, true);
  check(0, 1e9, false); /* not known */
  check(0, 0, false);
}

/* Between all that was seen of late nothing is news, and for ever nothing is. */
static void test_late(void **state) {
  struct by_path_late late = {0};
  (void)state;
  assert_false(by_path_late_add(&late, 100)); /* the first */
  assert_false(by_path_late_add(&late, 140));
  assert_true(by_path_late_add(&late, 60));
  for (int i = 0; i < 20; i++) assert_false(by_path_late_add(&late, i % 2 ? 60 : 140));
  assert_true(by_path_late_add(&late, 220));
  for (int i = 0; i < BY_PATH_LATE; i++) assert_false(by_path_late_add(&late, 60));
  assert_true(by_path_late_add(&late, 100)); /* what was before is long ago */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_join), cmocka_unit_test(test_differs),
                                     cmocka_unit_test(test_late)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
