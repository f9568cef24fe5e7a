/* The choice of a sparse algorithm: predictions for cases with an obvious best choice, from inputs that ranks could
 * send. */
#include "sparse_cost.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "plan.h"

enum { RANKS = 8, HEIGHT = 100000 };

static struct by_sparse_words words;
static struct by_sparse_union all;
static struct by_sparse_trees *trees;
static int64_t rows[HEIGHT];
static float value[1];

static const struct by_sparse_rates rates = {
    .call = 15e-6, .hop = 25e-6, .message = 3e-6, .byte = 0.4e-9, .merge = 0.12e-9, .clear = 0.1e-9, .link = 1.25e9};

/* Rank r has `count` rows from r * apart on, `step` apart from each other. */
static void make_words(uint32_t n, size_t count, size_t apart, size_t step) {
  assert_ok(by_sparse_words_init(&words, n));
  for (uint32_t r = 0; r < n; r++) {
    struct banyan_sparse in = {.dtype = BANYAN_FLOAT32,
                               .row_dtype = BANYAN_INT64,
                               .height = HEIGHT,
                               .width = 64,
                               .count = count,
                               .rows = rows,
                               .values = value};
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in};
    struct by_sparse_word *word = by_sparse_word_of(&words, r);
    for (size_t i = 0; i < count; i++) rows[i] = (int64_t)((r * apart + i * step) % HEIGHT);
    word->memory = (uint64_t)1 << 33;
    word->crowd = 256;
    word->far = 1;
    by_sparse_word_fill(word, words.sample, &call, &in);
  }
  assert_ok(by_sparse_words_check(&words));
}

static void make_trees(const char *name, uint32_t n) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin(name, n, &plan));
  assert_ok(by_sparse_trees_create(plan, plan->classes, &trees));
  by_plan_destroy(plan);
}

static void make_ranks(uint32_t n, size_t count, size_t apart, size_t step) {
  make_words(n, count, apart, step);
  assert_ok(by_sparse_union_init(&all, &words));
  make_trees("sharded", n);
}

static void done(void) {
  by_sparse_union_fini(&all);
  by_sparse_trees_destroy(trees);
  by_sparse_words_fini(&words);
}

static struct by_sparse_prediction predict(enum banyan_sparse_way way) {
  struct by_sparse_case of = {
      .words = &words, .all = &all, .trees = trees, .gather = trees, .dense = trees, .rates = rates};
  struct by_sparse_prediction prediction;
  by_sparse_predict(&of, way, &prediction);
  assert_true(prediction.seconds > 0);
  return prediction;
}

static enum banyan_sparse_way best(void) {
  enum banyan_sparse_way way = BANYAN_SPARSE_CHOSEN;
  double least = INFINITY;
  for (int w = BANYAN_SPARSE_PADDED; w < BANYAN_SPARSE_WAYS; w++) {
    double seconds = predict((enum banyan_sparse_way)w).seconds;
    if (seconds < least) least = seconds, way = (enum banyan_sparse_way)w;
  }
  return way;
}

static void test_union(void **state) {
  (void)state;
  make_ranks(RANKS, 5000, 0, 7);
  assert_true(fabs(all.rows / 5000 - 1) < 0.5); /* All ranks have the same rows. */
  assert_int_equal(all.sampled, BY_SPARSE_MOST_SAMPLE);
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

/* Links that are slow or far decide for the way with the fewest bytes, or the fewest steps. */
static void test_links(void **state) {
  (void)state;
  make_ranks(RANKS, 2000, 1000, 1); /* A rank shares half of its rows with the next. */
  double merged = predict(BANYAN_SPARSE_MERGE).bytes, gathered = predict(BANYAN_SPARSE_GATHER).bytes;
  assert_true(merged < gathered);
  double row = 64 * 4 + 8, own = 2000 * row;
  assert_true(fabs(gathered / ((RANKS - 1) * own) - 1) < 0.01); /* to each of the others */
  all.delay = 0.02;
  assert_true(best() == BANYAN_SPARSE_GATHER || best() == BANYAN_SPARSE_PADDED);
  assert_true(predict(BANYAN_SPARSE_MERGE).fixed > 3 * 0.02);
  all.delay = 0;
  done();
}

/* What is known of the trees of built-in plans. */
static void test_trees(void **state) {
  (void)state;
  static const struct {
    const char *plan;
    uint32_t trees, height, steps;
    double load; /* bytes that a rank with an average share sends, of those of all ranks */
  } of[] = {{"sharded", 8, 1, 1, 7.0 / 8},
            {"ring", 8, 7, 7, 7.0 / 8},
            {"star", 1, 1, 2, 6 + 1.0 / 8},
            {"chain", 1, 7, 14, 1 + 1.0 / 8},
            {"exchange", 8, 1, 1, 7.0 / 8}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    make_trees(of[i].plan, 8);
    double most = 0, sum = 0;
    for (uint32_t r = 0; r < 8; r++) most = fmax(most, trees->gather[r].all + trees->gather[r].own / 8);
    assert_int_equal(trees->n, of[i].trees);
    assert_int_equal(trees->height, of[i].height);
    assert_int_equal(trees->gather_steps, of[i].steps);
    assert_true(fabs(most - of[i].load) < 1e-9);
    for (uint32_t t = 0; t < trees->n; t++) {
      uint32_t below[8], edges = 0;
      sum += trees->trees[t].share;
      for (uint32_t r = 0; r < 8; r++) { /* children and parents are the same edges */
        uint32_t n = by_sparse_tree_below(trees, &trees->trees[t], r, below);
        for (uint32_t k = 0; k < n; k++) assert_int_equal(by_sparse_tree_up(trees, &trees->trees[t], below[k]), r);
        edges += n;
      }
      assert_int_equal(edges, 7);
      assert_int_equal(by_sparse_tree_up(trees, &trees->trees[t], trees->trees[t].root), trees->trees[t].root);
      assert_true(!t || trees->trees[t - 1].root <= trees->trees[t].root);
    }
    assert_true(fabs(sum - 1) < 1e-9);
    by_sparse_trees_destroy(trees);
  }
}

/* The bytes of merging, counted row by row where all rows are reported. */
static void test_merged(void **state) {
  (void)state;
  make_words(RANKS, 24, 12, 1); /* Rank r has rows 12 r to 12 r + 23. */
  assert_ok(by_sparse_union_init(&all, &words));
  assert_int_equal(all.sampled, 108);
  make_trees("chain", RANKS);
  /* The rank next to the root sends rows 12 to 107, after six others have sent theirs, and all ranks get 108. */
  double row = 64 * 4 + 8, path = 1 + 6, up = 96 * row, down = 108 * row;
  assert_true(fabs(predict(BANYAN_SPARSE_MERGE).bytes / (path * up + down) - 1) < 1e-9);
  done();
}

/* One exchange that took so many seconds on all ranks. */
static void take(struct by_sparse_record *record, uint64_t number, enum banyan_sparse_way way,
                 const struct by_sparse_prediction *prediction, double seconds) {
  by_sparse_record_note(record, number, way, 1e6, true, prediction);
  for (uint32_t r = 0; r < words.n; r++) {
    by_sparse_word_of(&words, r)->ended = number;
    by_sparse_word_of(&words, r)->lasted = (uint64_t)(seconds * 1e9);
  }
  by_sparse_record_learn(record, &words);
}

/* Ways that are predicted to be nearly as good are tried a few times each; then what was measured decides. */
static void test_trials(void **state) {
  (void)state;
  static const double truth[] = {[BANYAN_SPARSE_PADDED] = 2e-3,
                                 [BANYAN_SPARSE_GATHER] = 1.9e-3,
                                 [BANYAN_SPARSE_BROADCAST] = 9e-3,
                                 [BANYAN_SPARSE_MERGE] = 1.2e-3,
                                 [BANYAN_SPARSE_DENSE] = 1e-9}; /* never tried: it is said to take far longer */
  static const double said[] = {[BANYAN_SPARSE_PADDED] = 1.1e-3,
                                [BANYAN_SPARSE_GATHER] = 1e-3,
                                [BANYAN_SPARSE_BROADCAST] = 1.3e-3,
                                [BANYAN_SPARSE_MERGE] = 1.4e-3,
                                [BANYAN_SPARSE_DENSE] = 10e-3};
  struct by_sparse_prediction predictions[BANYAN_SPARSE_WAYS] = {{0}};
  static struct by_sparse_record record;
  uint32_t taken[BANYAN_SPARSE_WAYS] = {0};
  enum banyan_sparse_way way = BANYAN_SPARSE_CHOSEN;
  make_ranks(3, 10, 10, 1);
  for (int w = 1; w < BANYAN_SPARSE_WAYS; w++)
    predictions[w] = (struct by_sparse_prediction){.seconds = said[w], .work = said[w], .memory = 100};
  memset(&record, 0, sizeof record);
  by_sparse_record_begin(&record, 7);
  for (uint64_t number = 1; number <= 40; number++) {
    way = by_sparse_record_choose(&record, predictions, 1e6, 1000);
    taken[way]++;
    take(&record, number, way, &predictions[way], truth[way] * (number % 7 ? 1 : 3)); /* some are disturbed */
  }
  assert_int_equal(way, BANYAN_SPARSE_MERGE);
  assert_int_equal(taken[BANYAN_SPARSE_DENSE], 0);
  for (int w = BANYAN_SPARSE_PADDED; w <= BANYAN_SPARSE_BROADCAST; w++)
    assert_true(taken[w] > 0 && taken[w] <= BY_SPARSE_TRIALS);
  /* Of another size nothing is known. */
  assert_int_equal(by_sparse_record_choose(&record, predictions, 1e9, 1000), BANYAN_SPARSE_GATHER);
  /* Where the link of that way gets slow, another is taken after a while. */
  for (uint64_t number = 41; number <= 60; number++) {
    way = by_sparse_record_choose(&record, predictions, 1e6, 1000);
    take(&record, number, way, &predictions[way], truth[way] * (way == BANYAN_SPARSE_MERGE ? 4 : 1));
  }
  assert_int_equal(way, BANYAN_SPARSE_GATHER);
  /* What does not fit is not taken, and with another plan nothing is known any more. */
  predictions[BANYAN_SPARSE_GATHER].memory = 2000;
  assert_int_equal(by_sparse_record_choose(&record, predictions, 1e6, 1000), BANYAN_SPARSE_PADDED);
  assert_int_equal(by_sparse_record_choose(&record, predictions, 1e6, 10), BANYAN_SPARSE_CHOSEN);
  by_sparse_record_begin(&record, 8);
  predictions[BANYAN_SPARSE_GATHER].memory = 100;
  assert_int_equal(by_sparse_record_choose(&record, predictions, 1e6, 1000), BANYAN_SPARSE_GATHER);
  /* Ranks that report different exchanges, or one that was not noted, count for nothing. */
  by_sparse_word_of(&words, 1)->ended = 1000;
  by_sparse_record_learn(&record, &words);
  assert_true(record.ways[9][BANYAN_SPARSE_GATHER].n == 0);
  done();
}

/* Slow links show in what exchanges took, also for the other ways. */
static void test_link(void **state) {
  (void)state;
  static struct by_sparse_record record;
  struct by_sparse_prediction one = {.seconds = 2e-3, .fixed = 1e-3, .work = 0.5e-3, .bytes = 1e6};
  make_ranks(2, 10, 10, 1);
  memset(&record, 0, sizeof record);
  take(&record, 1, BANYAN_SPARSE_GATHER, &one, 101e-3);
  assert_true(fabs(record.link / 1e7 - 1) < 1e-6);
  take(&record, 2, BANYAN_SPARSE_GATHER, &one, 51e-3);
  assert_true(fabs(record.link / 2e7 - 1) < 1e-6);
  one.bytes = 100; /* too few to tell */
  take(&record, 3, BANYAN_SPARSE_GATHER, &one, 1);
  assert_true(fabs(record.link / 2e7 - 1) < 1e-6);
  done();
}

static void test_impossible(void **state) {
  (void)state;
  make_ranks(2, 10, 10, 1);
  struct by_sparse_prediction prediction;
  struct by_sparse_case of = {.words = &words, .all = &all, .rates = rates};
  by_sparse_predict(&of, BANYAN_SPARSE_MERGE, &prediction);
  assert_true(isinf(prediction.seconds));
  assert_true(predict(BANYAN_SPARSE_DENSE).memory > HEIGHT * 64.0 * 4);
  assert_true(predict(BANYAN_SPARSE_GATHER).memory < 20 * (64 * 4 + 8 + 16) * 2.0);
  done();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_union),  cmocka_unit_test(test_cuts),  cmocka_unit_test(test_choices),
      cmocka_unit_test(test_links),  cmocka_unit_test(test_trees), cmocka_unit_test(test_merged),
      cmocka_unit_test(test_trials), cmocka_unit_test(test_link),  cmocka_unit_test(test_impossible),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
