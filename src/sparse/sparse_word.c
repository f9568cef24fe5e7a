#include "sparse_word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64's end: every bit of the row moves every bit of the hash. */
static uint64_t hash(int64_t row) {
  uint64_t x = (uint64_t)row + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/* ---- one rank's */

static int by_hash(const void *a, const void *b) {
  uint64_t x = hash(*(const int64_t *)a), y = hash(*(const int64_t *)b);
  return x < y ? -1 : x > y;
}

/* Those with the smallest hashes; kept twice as many before they are sorted out. */
static uint64_t take_sample(const struct banyan_sparse *rows, int64_t *sample) {
  int64_t kept[2 * BY_SPARSE_SAMPLE] = {0};
  uint64_t limit = UINT64_MAX;
  size_t n = 0;
  for (size_t i = 0; i < rows->count; i++) {
    int64_t row = by_sparse_row_at(rows, i);
    if (hash(row) > limit) continue;
    kept[n++] = row;
    if (n < 2 * BY_SPARSE_SAMPLE) continue;
    qsort(kept, n, sizeof *kept, by_hash);
    n = BY_SPARSE_SAMPLE;
    limit = hash(kept[n - 1]);
  }
  qsort(kept, n, sizeof *kept, by_hash);
  n = n < BY_SPARSE_SAMPLE ? n : BY_SPARSE_SAMPLE;
  memcpy(sample, kept, n * sizeof *kept);
  return n;
}

void by_sparse_word_fill(struct by_sparse_word *word, const struct banyan_sparse_call *call,
                         const struct banyan_sparse *rows) {
  word->collective = (uint64_t)call->collective;
  word->op = call->collective == BANYAN_ALLREDUCE ? (uint64_t)call->op : 0;
  word->way = (uint64_t)call->way;
  word->dtype = (uint64_t)call->in->dtype;
  word->row_dtype = (uint64_t)call->in->row_dtype;
  word->height = call->in->height;
  word->width = call->in->width;
  word->count = rows ? rows->count : call->in->count;
  word->sampled = rows ? take_sample(rows, word->sample) : 0;
}

bool by_sparse_word_scan(struct by_sparse_word *word, const struct banyan_sparse *in, bool *ascending) {
  if (by_sparse_check_shape("", in)) return false;
  if (by_sparse_check_count("", in)) {
    if (in->count <= (size_t)INT64_MAX && (!in->rows || !in->values)) word->fault = BY_SPARSE_NO_POINTER;
    return false;
  }
  struct by_sparse_range range = by_sparse_scan(in);
  *ascending = range.ascending;
  if (range.bad == in->count) return true;
  word->fault = BY_SPARSE_BAD_ROW;
  word->place = range.bad;
  word->row = (uint64_t)by_sparse_row_at(in, range.bad);
  return false;
}

/* ---- all ranks' */

static const char *name_of(const struct by_sparse_word *word) {
  return word->collective == BANYAN_ALLREDUCE ? "sparse allreduce" : "sparse allgather";
}

static enum banyan_status check_kind(const struct by_sparse_word *word) {
  if (word->collective != BANYAN_ALLREDUCE && word->collective != BANYAN_ALLGATHER)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "there is no sparse %s, only allreduce and allgather",
                   banyan_collective_name((enum banyan_collective)word->collective));
  if (word->op != BANYAN_SUM && word->op != BANYAN_AVERAGE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: the operation is %s, must be sum or avg: rows that a rank lacks are 0",
                   name_of(word), banyan_op_name((enum banyan_op)word->op));
  if (word->way >= BANYAN_SPARSE_WAYS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no way number %llu", name_of(word),
                   (unsigned long long)word->way);
  if (word->collective == BANYAN_ALLGATHER && word->way >= BANYAN_SPARSE_MERGE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: the way \"%s\" merges rows, and is for allreduce only", name_of(word),
                   banyan_sparse_way_name((enum banyan_sparse_way)word->way));
  return BANYAN_OK;
}

static enum banyan_status check_one(const struct by_sparse_word *word) {
  static char something;
  struct banyan_sparse shape = {.dtype = (enum banyan_dtype)word->dtype,
                                .row_dtype = (enum banyan_dtype)word->row_dtype,
                                .height = word->height,
                                .width = word->width,
                                .count = word->count,
                                .rows = &something,
                                .values = &something};
  BY_TRY(check_kind(word));
  BY_TRY(by_sparse_check_shape(name_of(word), &shape));
  BY_TRY(by_sparse_check_count(name_of(word), &shape));
  switch ((enum by_sparse_fault)word->fault) {
  case BY_SPARSE_NO_POINTER:
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: rows or values are NULL, though the count is %llu", name_of(word),
                   (unsigned long long)word->count);
  case BY_SPARSE_BAD_ROW:
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: row %lld, at place %llu of %llu, is not from 0 to %llu", name_of(word),
                   (long long)word->row, (unsigned long long)word->place, (unsigned long long)word->count,
                   (unsigned long long)word->height - 1);
  case BY_SPARSE_NO_MEMORY:
    return by_fail(BANYAN_ERR_NO_MEMORY, "%s: out of memory for merging %llu rows", name_of(word),
                   (unsigned long long)word->count);
  default: return BANYAN_OK;
  }
}

static bool alike(const struct by_sparse_word *a, const struct by_sparse_word *b) {
  return a->collective == b->collective && a->op == b->op && a->way == b->way && a->dtype == b->dtype &&
         a->row_dtype == b->row_dtype && a->height == b->height && a->width == b->width;
}

static void describe(const struct by_sparse_word *word, char *text, size_t room) {
  snprintf(text, room, "%s (%s, %s) of %llu rows of %llu x %s, numbered by %s", name_of(word),
           banyan_op_name((enum banyan_op)word->op), banyan_sparse_way_name((enum banyan_sparse_way)word->way),
           (unsigned long long)word->height, (unsigned long long)word->width,
           banyan_dtype_name((enum banyan_dtype)word->dtype), banyan_dtype_name((enum banyan_dtype)word->row_dtype));
}

static enum banyan_status differ(const struct by_sparse_word *words, uint32_t r) {
  char first[160], other[160];
  describe(&words[0], first, sizeof first);
  describe(&words[r], other, sizeof other);
  return by_fail(BANYAN_ERR_MISMATCH, "ranks made different calls: rank 0 %s, rank %u %s", first, r, other);
}

bool by_sparse_dense_fits(const struct by_sparse_word *word, uint64_t memory) {
  uint64_t row = word->width * banyan_dtype_size((enum banyan_dtype)word->dtype) + 1, need;
  return !__builtin_mul_overflow(word->height, row, &need) && need <= memory;
}

static enum banyan_status check_dense(const struct by_sparse_word *words, uint64_t least) {
  if (by_sparse_dense_fits(&words[0], words[least].memory)) return BANYAN_OK;
  return by_fail(BANYAN_ERR_NO_MEMORY,
                 "%s: a dense table of %llu rows is too large for rank %llu, which gives %llu bytes to a call",
                 name_of(words), (unsigned long long)words[0].height, (unsigned long long)least,
                 (unsigned long long)words[least].memory);
}

/* Every rank must be able to hold all rows as they come, and the union. */
static enum banyan_status check_memory(const struct by_sparse_word *words, uint32_t n) {
  uint64_t row = words[0].width * banyan_dtype_size((enum banyan_dtype)words[0].dtype) +
                 banyan_dtype_size((enum banyan_dtype)words[0].row_dtype);
  uint64_t total = 0, need, least = 0, most = 0;
  bool too_many = false;
  for (uint32_t r = 0; r < n; r++) {
    too_many |= __builtin_add_overflow(total, words[r].count, &total);
    if (words[r].memory < words[least].memory) least = r;
    if (words[r].count > words[most].count) most = r;
  }
  too_many |= __builtin_mul_overflow(total, 2 * row, &need);
  if (words[0].way == BANYAN_SPARSE_DENSE) BY_TRY(check_dense(words, least));
  if (!too_many && need <= words[least].memory) return BANYAN_OK;
  return by_fail(
      BANYAN_ERR_NO_MEMORY,
      "%s: the ranks have %llu rows of %llu bytes, rank %llu alone %llu of them: too many for rank %llu, which "
      "gives %llu bytes to a call: give it more (`memory`), or send fewer rows at a time",
      name_of(words), (unsigned long long)total, (unsigned long long)row, (unsigned long long)most,
      (unsigned long long)words[most].count, (unsigned long long)least, (unsigned long long)words[least].memory);
}

enum banyan_status by_sparse_words_check(const struct by_sparse_word *words, uint32_t n) {
  for (uint32_t r = 0; r < n; r++) {
    enum banyan_status status = check_one(&words[r]);
    if (status != BANYAN_OK) return by_fail_within(status, "rank %u", r);
  }
  for (uint32_t r = 1; r < n; r++)
    if (!alike(&words[0], &words[r])) return differ(words, r);
  return check_memory(words, n);
}

/* ---- the union */

/* The largest hash below which all ranks have reported all; UINT64_MAX: everything was reported. */
static uint64_t horizon_of(const struct by_sparse_word *words, uint32_t n) {
  uint64_t horizon = UINT64_MAX;
  for (uint32_t r = 0; r < n; r++) {
    if (words[r].sampled < BY_SPARSE_SAMPLE || words[r].count == BY_SPARSE_SAMPLE) continue;
    uint64_t last = hash(words[r].sample[BY_SPARSE_SAMPLE - 1]);
    if (last < horizon) horizon = last;
  }
  return horizon;
}

struct reported {
  int64_t row;
  uint32_t rank;
};

static int by_row(const void *a, const void *b) {
  const struct reported *x = a, *y = b;
  return x->row < y->row ? -1 : x->row > y->row;
}

static void join(struct by_sparse_union *all, const struct reported *reported, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!i || reported[i].row != reported[i - 1].row) all->sample[all->sampled++] = reported[i].row;
    all->who[(size_t)(all->sampled - 1) * all->words + reported[i].rank / 64] |= (uint64_t)1 << reported[i].rank % 64;
  }
}

static void count(struct by_sparse_union *all, const struct by_sparse_word *words) {
  all->fewest = all->memory = UINT64_MAX;
  for (uint32_t r = 0; r < all->n_ranks; r++) {
    all->total += words[r].count;
    if (words[r].count > all->most) all->most = words[r].count;
    if (words[r].count < all->fewest) all->fewest = words[r].count;
    if (words[r].memory < all->memory) all->memory = words[r].memory;
    all->far |= words[r].far != 0;
    if ((double)words[r].crowd / 256 > all->crowd) all->crowd = (double)words[r].crowd / 256;
  }
}

enum banyan_status by_sparse_union_init(struct by_sparse_union *all, const struct by_sparse_word *words, uint32_t n) {
  *all = (struct by_sparse_union){.n_ranks = n, .words = (n + 63) / 64};
  by_arena_init(&all->arena);
  count(all, words);
  uint64_t horizon = horizon_of(words, n);
  size_t most = 0, n_reported = 0;
  for (uint32_t r = 0; r < n; r++) most += words[r].sampled;
  struct reported *reported = BY_ARENA_ARRAY(&all->arena, struct reported, most);
  all->sample = BY_ARENA_ARRAY(&all->arena, int64_t, most);
  all->who = BY_ARENA_ARRAY(&all->arena, uint64_t, most * all->words);
  if (!reported || !all->sample || !all->who) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %zu rows", most);
  for (uint32_t r = 0; r < n; r++)
    for (size_t i = 0; i < words[r].sampled && i < BY_SPARSE_SAMPLE; i++)
      if (hash(words[r].sample[i]) <= horizon) reported[n_reported++] = (struct reported){words[r].sample[i], r};
  qsort(reported, n_reported, sizeof *reported, by_row);
  join(all, reported, n_reported);
  all->rows = (double)all->sampled;
  if (horizon != UINT64_MAX) all->rows *= 0x1p64 / (double)horizon;
  if (all->rows > (double)all->total) all->rows = (double)all->total;
  if (all->rows < (double)all->most) all->rows = (double)all->most;
  if (all->rows > (double)words[0].height) all->rows = (double)words[0].height;
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
