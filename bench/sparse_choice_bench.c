/* Measures how long a rank takes to choose the way of sparse rows, by the number of ranks:
 *
 *   sparse_choice_bench
 *
 * "words" is checking and joining what all ranks report, "predict" the times of all ways, both in every call; "trees"
 * is done once for a plan. Microseconds, the least of several rounds. Ranks have 2000 rows each, half of them in
 * common. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "rng.h"
#include "sparse_record.h"

enum { HEIGHT = 1 << 20, ROWS = 2000, ROUNDS = 20 };

static void check(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "sparse_choice_bench: %s\n", banyan_error_text());
  exit(1);
}

static void fill(struct by_sparse_words *words, uint32_t n) {
  static int64_t rows[ROWS];
  static float value;
  check(by_sparse_words_init(words, n));
  for (uint32_t r = 0; r < n; r++) {
    struct by_rng rng;
    by_rng_init(&rng, 7);
    for (int i = 0; i < ROWS; i++) {
      if (i == ROWS / 2) by_rng_init(&rng, 8 + r);
      rows[i] = (int64_t)by_rng_below(&rng, HEIGHT);
    }
    struct banyan_sparse in = {
        .row_dtype = BANYAN_INT64, .height = HEIGHT, .width = 64, .count = ROWS, .rows = rows, .values = &value};
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in};
    struct by_sparse_word *word = by_sparse_word_of(words, r);
    word->memory = (uint64_t)1 << 33;
    word->crowd = 256;
    word->far = 1;
    by_sparse_word_fill(word, words->sample, &call, &in);
  }
}

static double since(uint64_t start) {
  return (double)(by_clock_now(&by_clock_system) - start) * 1e-3;
}

static void measure(const char *name, const struct by_sparse_words *words) {
  double least[3] = {INFINITY, INFINITY, INFINITY};
  struct by_plan *plan;
  check(by_plan_builtin(name, words->n, &plan));
  for (int round = 0; round < ROUNDS; round++) {
    struct by_sparse_trees *trees;
    struct by_sparse_union all;
    struct by_sparse_prediction predictions[BANYAN_SPARSE_WAYS] = {{0}};
    uint64_t start = by_clock_now(&by_clock_system);
    check(by_sparse_trees_create(plan, plan->classes, &trees));
    least[0] = fmin(least[0], since(start));
    start = by_clock_now(&by_clock_system);
    check(by_sparse_words_check(words));
    check(by_sparse_union_init(&all, words));
    least[1] = fmin(least[1], since(start));
    start = by_clock_now(&by_clock_system);
    struct by_sparse_case of = {.words = words,
                                .all = &all,
                                .trees = trees,
                                .gather = trees,
                                .dense = trees,
                                .rates = by_sparse_default_rates(true)};
    for (int way = 1; way < BANYAN_SPARSE_WAYS; way++)
      by_sparse_predict(&of, (enum banyan_sparse_way)way, &predictions[way]);
    least[2] = fmin(least[2], since(start));
    by_sparse_union_fini(&all);
    by_sparse_trees_destroy(trees);
  }
  by_plan_destroy(plan);
  printf("%8u %-10s %9.1f %9.1f %9.1f\n", words->n, name, least[0], least[1], least[2]);
}

int main(void) {
  static const char *const plans[] = {"sharded", "ring", "tree:2", "double-tree"};
  printf("%8s %-10s %9s %9s %9s\n", "ranks", "plan", "trees", "words", "predict");
  for (uint32_t n = 16; n <= 4096; n *= 4) {
    struct by_sparse_words words;
    fill(&words, n);
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) measure(plans[p], &words);
    by_sparse_words_fini(&words);
  }
  return 0;
}
