/* Estimates the union of all ranks' rows from the samples in their words. */
#include "sparse_cost.h"

#include "sparse_tensor.h"

/* Returns the largest hash below which all ranks have reported all rows; UINT64_MAX: all rows were reported. */
static uint64_t horizon_of(const struct by_sparse_words *words) {
  uint64_t horizon = UINT64_MAX;
  for (uint32_t r = 0; r < words->n; r++) {
    const struct by_sparse_word *word = by_sparse_word_of(words, r);
    if (word->sampled < words->sample || word->count == words->sample) continue;
    uint64_t last = by_sparse_hash(word->sample[words->sample - 1]);
    if (last < horizon) horizon = last;
  }
  return horizon;
}

static void count(struct by_sparse_union *all, const struct by_sparse_words *words) {
  all->fewest = all->memory = UINT64_MAX;
  for (uint32_t r = 0; r < words->n; r++) {
    const struct by_sparse_word *word = by_sparse_word_of(words, r);
    if (__builtin_add_overflow(all->total, word->count, &all->total)) all->total = UINT64_MAX;
    if (word->count > all->most) all->most = word->count;
    if (word->count < all->fewest) all->fewest = word->count;
    if (word->memory < all->memory) {
      all->memory = word->memory;
      all->least_rank = r;
    }
    all->far |= word->far != 0;
    all->fixed |= word->fixed != 0;
    if ((double)word->crowd / 256 > all->crowd) all->crowd = (double)word->crowd / 256;
    if ((double)word->delay * 1e-9 > all->delay) all->delay = (double)word->delay * 1e-9;
  }
}

/* Collects the reported rows below the horizon, in the order of ranks. */
static uint32_t collect(const struct by_sparse_words *words, uint64_t horizon, int64_t *rows, uint32_t *ranks) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < words->n; r++) {
    const struct by_sparse_word *word = by_sparse_word_of(words, r);
    for (uint32_t i = 0; i < word->sampled; i++) {
      if (by_sparse_hash(word->sample[i]) > horizon) continue;
      rows[n] = word->sample[i];
      ranks[n++] = r;
    }
  }
  return n;
}

static void join(struct by_sparse_union *all, const struct by_sparse_place *places, uint32_t n, const int64_t *rows,
                 const uint32_t *ranks) {
  for (uint32_t i = 0; i < n; i++) {
    if (!i || places[i].key != places[i - 1].key) {
      all->starts[all->sampled] = i;
      all->sample[all->sampled++] = rows[places[i].at];
    }
    all->ranks[i] = ranks[places[i].at];
  }
  all->starts[all->sampled] = n;
}

static enum banyan_status sample(struct by_sparse_union *all, const struct by_sparse_words *words, uint64_t horizon) {
  size_t most = (size_t)words->n * words->sample;
  struct by_arena work;
  by_arena_init(&work);
  int64_t *rows = BY_ARENA_ARRAY(&work, int64_t, most);
  uint32_t *ranks = BY_ARENA_ARRAY(&work, uint32_t, most);
  struct by_sparse_place *places = BY_ARENA_ARRAY(&work, struct by_sparse_place, 2 * most);
  all->sample = BY_ARENA_ARRAY(&all->arena, int64_t, most);
  all->starts = BY_ARENA_ARRAY(&all->arena, uint32_t, most + 1);
  all->ranks = BY_ARENA_ARRAY(&all->arena, uint32_t, most);
  bool good = rows && ranks && places && all->sample && all->starts && all->ranks;
  if (good) {
    uint32_t n = collect(words, horizon, rows, ranks);
    struct banyan_sparse reported = {
        .row_dtype = BANYAN_INT64, .height = (size_t)1 << 63, .count = n, .rows = rows, .values = rows};
    struct by_sparse_range range = by_sparse_scan(&reported);
    by_sparse_sort(&reported, &range, places, places + most);
    join(all, places, n, rows, ranks);
  }
  by_arena_fini(&work);
  return good ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu rows", most);
}

enum banyan_status by_sparse_union_init(struct by_sparse_union *all, const struct by_sparse_words *words) {
  *all = (struct by_sparse_union){.n_ranks = words->n};
  by_arena_init(&all->arena);
  count(all, words);
  if (all->fixed) all->delay = 0;
  uint64_t horizon = horizon_of(words), height = by_sparse_word_of(words, 0)->height;
  BY_TRY(sample(all, words, horizon));
  all->rows = (double)all->sampled;
  if (horizon != UINT64_MAX) all->rows *= 0x1p64 / ((double)horizon + 1);
  if (all->rows > (double)all->total) all->rows = (double)all->total;
  if (all->rows < (double)all->most) all->rows = (double)all->most;
  if (all->rows > (double)height) all->rows = (double)height;
  return BANYAN_OK;
}

void by_sparse_union_fini(struct by_sparse_union *all) {
  by_arena_fini(&all->arena);
  *all = (struct by_sparse_union){0};
}

void by_sparse_union_cut(const struct by_sparse_union *all, uint64_t height, const double *upto, uint32_t n,
                         uint64_t *cuts) {
  cuts[0] = 0;
  for (uint32_t i = 1; i < n; i++) {
    uint32_t at = (uint32_t)(upto[i - 1] * all->sampled + 0.5);
    cuts[i] = at < all->sampled ? (uint64_t)all->sample[at] : height;
  }
  cuts[n] = height;
}
