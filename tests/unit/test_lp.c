/* Linear programs: optima and duals that are known, columns that come and go, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "lp.h"

static const double ones[] = {1, 1, 1};

static void assert_near(double got, double wanted) {
  if (fabs(got - wanted) > 1e-7) fail_msg("%.12g, not %.12g", got, wanted);
}

/* Three edges of a triangle, whose three trees are any two of them: half of each, and all edges are full. */
static struct by_lp *triangle(void) {
  static const uint32_t rows[3][2] = {{0, 1}, {1, 2}, {0, 2}};
  struct by_lp *lp;
  assert_ok(by_lp_create(3, ones, &lp));
  assert_ok(by_lp_solve(lp));
  assert_near(by_lp_objective(lp), 0);
  for (uint32_t t = 0; t < 3; t++) {
    assert_int_equal(by_lp_columns(lp), t);
    assert_ok(by_lp_add(lp, 1, 2, rows[t], ones));
    assert_ok(by_lp_solve(lp));
    assert_near(by_lp_objective(lp), t < 2 ? 1 : 1.5);
  }
  return lp;
}

static void test_triangle(void **state) {
  (void)state;
  struct by_lp *lp = triangle();
  for (int i = 0; i < 3; i++) {
    assert_near(by_lp_values(lp)[i], 0.5);
    assert_near(by_lp_duals(lp)[i], 0.5);
  }
  by_lp_destroy(lp);
  by_lp_destroy(NULL);
}

static void test_columns_go_and_come_back(void **state) {
  (void)state;
  struct by_lp *lp = triangle();
  by_lp_allow(lp, 1, 0);
  assert_ok(by_lp_solve(lp));
  assert_near(by_lp_objective(lp), 1);
  assert_near(by_lp_values(lp)[1], 0);
  by_lp_allow(lp, 1, 1);
  assert_ok(by_lp_solve(lp));
  assert_near(by_lp_objective(lp), 1.5);
  by_lp_destroy(lp);
}

static void test_weights(void **state) {
  (void)state;
  struct by_lp *lp;
  const double upper[] = {4, 6}, values[] = {2, 1};
  const uint32_t both[] = {1, 0}, second[] = {1};
  assert_ok(by_lp_create(2, upper, &lp));
  assert_ok(by_lp_add(lp, 3, 2, both, values)); /* loads row 1 by 2 and row 0 by 1 */
  assert_ok(by_lp_add(lp, 2, 1, second, ones));
  assert_ok(by_lp_solve(lp));
  assert_near(by_lp_objective(lp), 12); /* the second one alone: 2 a unit of row 1, the first one only 1.5 */
  assert_near(by_lp_values(lp)[1], 6);
  assert_near(by_lp_duals(lp)[1], 2);
  assert_near(by_lp_duals(lp)[0], 0);
  by_lp_destroy(lp);
}

static void test_refusals(void **state) {
  (void)state;
  const double negative[] = {1, -1}, endless[] = {INFINITY};
  struct by_lp *lp = NULL;
  assert_status(by_lp_create(2, negative, &lp), BANYAN_ERR_ARGUMENT);
  assert_string_equal(banyan_error_text(), "the limit of row 1 is -1; it must be finite and >= 0");
  assert_status(by_lp_create(1, endless, &lp), BANYAN_ERR_ARGUMENT);
  assert_ok(by_lp_create(1, ones, &lp));
  assert_ok(by_lp_add(lp, 1, 0, NULL, NULL));
  assert_status(by_lp_solve(lp), BANYAN_ERR_PLAN);
  assert_non_null(strstr(banyan_error_text(), "a column has no limit"));
  by_lp_destroy(lp);
}

/* Nothing reaches standard output, not even where the program has no limit. */
static void test_silence(void **state) {
  (void)state;
  int ends[2], kept = dup(STDOUT_FILENO);
  char byte;
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  assert_int_not_equal(dup2(ends[1], STDOUT_FILENO), -1);
  struct by_lp *lp = triangle();
  enum banyan_status added = by_lp_add(lp, 1, 0, NULL, NULL), solved = by_lp_solve(lp);
  by_lp_destroy(lp);
  fflush(stdout);
  assert_int_not_equal(dup2(kept, STDOUT_FILENO), -1);
  close(ends[1]);
  close(kept);
  assert_ok(added);
  assert_status(solved, BANYAN_ERR_PLAN);
  assert_int_equal(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_triangle), cmocka_unit_test(test_columns_go_and_come_back),
      cmocka_unit_test(test_weights),  cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_silence),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
