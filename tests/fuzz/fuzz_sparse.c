/* What ranks report of their sparse rows: words of others decide how much memory is taken, which way rows go and where
 * ranges of rows are cut. The first byte selects the number of ranks and the plan; the rest are the words. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "plan.h"
#include "sparse_cost.h"

#undef NDEBUG
#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_cuts(const struct by_sparse_union *all, const struct by_sparse_trees *trees, uint64_t height) {
  uint64_t cuts[17];
  assert(trees->n <= 16);
  by_sparse_union_cut(all, height, trees->upto, trees->n, cuts);
  for (uint32_t i = 0; i < trees->n; i++) assert(cuts[i] <= cuts[i + 1]);
  assert(cuts[0] == 0 && cuts[trees->n] == height);
}

/* All that follows from words that fit together. */
static void choose(const struct by_sparse_words *words, const struct by_sparse_trees *trees) {
  static struct by_sparse_record record;
  struct by_sparse_prediction predictions[BANYAN_SPARSE_WAYS] = {{0}};
  struct by_sparse_union all;
  assert(by_sparse_union_init(&all, words) == BANYAN_OK);
  assert(all.sampled <= words->n * words->sample && all.rows >= 0 && all.rows <= (double)UINT64_MAX);
  check_cuts(&all, trees, by_sparse_word_of(words, 0)->height);
  struct by_sparse_case of = {.words = words,
                              .all = &all,
                              .trees = trees,
                              .gather = trees,
                              .dense = trees,
                              .rates = by_sparse_default_rates(all.far)};
  uint32_t pieces = by_sparse_pieces(&all, trees, by_sparse_case_row_bytes(&of));
  assert(pieces >= 1 && pieces <= 16);
  for (int way = 1; way < BANYAN_SPARSE_WAYS; way++) {
    by_sparse_predict(&of, (enum banyan_sparse_way)way, &predictions[way]);
    assert(predictions[way].seconds >= 0);
  }
  memset(&record, 0, sizeof record);
  by_sparse_record_begin(&record, 1);
  for (uint64_t number = 1; number < 4; number++) {
    by_sparse_record_learn(&record, words);
    enum banyan_sparse_way way = by_sparse_record_choose(&record, predictions, (double)all.total, (double)all.memory);
    assert(!way || (predictions[way].seconds < INFINITY && predictions[way].memory <= (double)all.memory));
    if (way) by_sparse_record_note(&record, number, way, (double)all.total, all.far, &predictions[way]);
  }
  by_sparse_union_fini(&all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const plans[] = {"sharded", "ring", "chain", "tree:2"};
  struct by_sparse_words words;
  struct by_sparse_trees *trees;
  struct by_plan *plan;
  if (!size) return 0;
  uint32_t n = 1 + data[0] % 16;
  assert(by_sparse_words_init(&words, n) == BANYAN_OK);
  assert(by_plan_builtin(plans[data[0] / 16 % 4], n, &plan) == BANYAN_OK);
  assert(by_sparse_trees_create(plan, plan->classes, &trees) == BANYAN_OK);
  size_t room = (size_t)n * words.stride * sizeof(uint64_t), used = size - 1 < room ? size - 1 : room;
  memcpy(words.memory, data + 1, used);
  for (uint32_t r = 1; used < room && r < n; r++) /* the words that are not there are like the first one */
    if (used <= r * words.stride * sizeof(uint64_t))
      memcpy(by_sparse_word_of(&words, r), words.memory, words.stride * sizeof(uint64_t));
  if (by_sparse_words_check(&words) == BANYAN_OK) choose(&words, trees);
  by_sparse_trees_destroy(trees);
  by_plan_destroy(plan);
  by_sparse_words_fini(&words);
  return 0;
}
