/* The choice of a sparse algorithm: predictions for cases with an obvious best choice, from inputs that ranks could
 * send. */
#include "sparse_cost.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "plan.h"

enum { RANKS = 8, HEIGHT = 100000 };

static struct by_sparse_word words[RANKS];
static struct by_sparse_union all;
static struct by_sparse_trees *trees;
static int64_t rows[HEIGHT];
static float value[1];

static const struct by_sparse_rates rates = {
    .call = 40e-6, .hop = 30e-6, .message = 3e-6, .byte = 0.4e-9, .merge = 0.12e-9, .clear = 0.1e-9};

/* Rank r has `count` rows from r * apart on, `step` apart from each other. */
static void make_ranks(uint32_t n, size_t count, size_t apart, size_t step) {
  struct by_plan *plan;
  for (uint32_t r = 0; r < n; r++) {
    struct banyan_sparse in = {.dtype = BANYAN_FLOAT32,
                               .row_dtype = BANYAN_INT64,
                               .height = HEIGHT,
                               .width = 64,
                               .count = count,
                               .rows = rows,
                               .values = value};
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in};
    for (size_t i = 0; i < count; i++) rows[i] = (int64_t)((r * apart + i * step) % HEIGHT);
    memset(&words[r], 0, sizeof words[r]);
    words[r].memory = (uint64_t)1 << 33;
    words[r].crowd = 256;
    by_sparse_word_fill(&words[r], &call, &in);
  }
  assert_ok(by_sparse_words_check(words, n));
  assert_ok(by_sparse_union_init(&all, words, n));
  assert_ok(by_plan_builtin("sharded", n, &plan));
  assert_ok(by_sparse_trees_create(plan, plan->classes, &trees));
  by_plan_destroy(plan);
}

static void done(void) {
  by_sparse_union_fini(&all);
  by_sparse_trees_destroy(trees);
}

static enum banyan_sparse_way best(void) {
  struct by_sparse_case of = {.words = words, .all = &all, .trees = trees, .rates = rates};
  enum banyan_sparse_way way = BANYAN_SPARSE_CHOSEN;
  double least = INFINITY;
  for (int w = BANYAN_SPARSE_PADDED; w < BANYAN_SPARSE_WAYS; w++) {
    double seconds = by_sparse_cost(&of, (enum banyan_sparse_way)w);
    assert_true(seconds > 0);
    if (seconds < least) least = seconds, way = (enum banyan_sparse_way)w;
  }
  return way;
}

static void test_union(void **state) {
  (void)state;
  make_ranks(RANKS, 5000, 0, 7);
  assert_true(fabs(all.rows / 5000 - 1) < 0.5); /* All ranks have the same rows. */
  assert_int_equal(all.sampled, BY_SPARSE_SAMPLE);
  done();
  make_ranks(RANKS, 5000, 5000, 1);
  assert_true(fabs(all.rows / 40000 - 1) < 0.2); /* No two ranks share rows. */
  done();
  make_ranks(RANKS, 20, 10, 1);
  assert_true(all.rows == 90); /* All rows were sent. */
  done();
}

static void test_cuts(void **state) {
  (void)state;
  make_ranks(RANKS, 5000, 5000, 1); /* These are rows 0 to 39999 of 100000. */
  static const double upto[] = {0.25, 0.5, 0.75, 1};
  uint64_t cuts[5];
  by_sparse_union_cut(&all, HEIGHT, upto, 4, cuts);
  assert_int_equal(cuts[0], 0);
  assert_int_equal(cuts[4], HEIGHT);
  for (int i = 1; i < 4; i++) assert_true(fabs((double)cuts[i] - i * 10000) < 3000);
  done();
}

static void test_choices(void **state) {
  (void)state;
  make_ranks(RANKS, 10, 10, 1); /* There are few rows, so consecutive steps cost too much. */
  assert_true(best() == BANYAN_SPARSE_GATHER || best() == BANYAN_SPARSE_PADDED);
  done();
  make_ranks(RANKS, 10000, 0, 3); /* All ranks have the same rows. */
  assert_int_equal(best(), BANYAN_SPARSE_MERGE);
  done();
  make_ranks(RANKS, HEIGHT, 0, 1); /* Every rank has all rows. */
  assert_int_equal(best(), BANYAN_SPARSE_DENSE);
  done();
  make_ranks(2, 10000, 1, 2); /* Two ranks share no rows, so merging saves nothing. */
  assert_true(best() == BANYAN_SPARSE_GATHER || best() == BANYAN_SPARSE_PADDED);
  done();
}

static void test_impossible(void **state) {
  (void)state;
  make_ranks(2, 10, 10, 1);
  struct by_sparse_case of = {.words = words, .all = &all, .rates = rates};
  assert_true(isinf(by_sparse_cost(&of, BANYAN_SPARSE_MERGE)));
  all.memory = 1000;
  assert_true(isinf(by_sparse_cost(&of, BANYAN_SPARSE_DENSE)));
  done();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_union),
      cmocka_unit_test(test_cuts),
      cmocka_unit_test(test_choices),
      cmocka_unit_test(test_impossible),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
