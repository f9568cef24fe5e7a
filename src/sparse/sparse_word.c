/* The report of a rank about its rows, its sample of them, and the check of all ranks' reports. */
#include "sparse_word.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The finaliser of splitmix64: every bit of the row affects every bit of the hash. */
uint64_t by_sparse_hash(int64_t row) {
  uint64_t x = (uint64_t)row + 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/* ---- their memory */

enum banyan_status by_sparse_words_init(struct by_sparse_words *words, uint32_t n) {
  uint32_t sample = BY_SPARSE_SAMPLE_OF_ALL / n;
  if (sample > BY_SPARSE_MOST_SAMPLE) sample = BY_SPARSE_MOST_SAMPLE;
  if (sample < BY_SPARSE_LEAST_SAMPLE) sample = BY_SPARSE_LEAST_SAMPLE;
  *words = (struct by_sparse_words){.n = n, .sample = sample};
  words->stride = (uint32_t)(sizeof(struct by_sparse_word) / sizeof(uint64_t)) + sample;
  words->memory = calloc(((size_t)n + 1) * words->stride, sizeof *words->memory);
  return words->memory ? BANYAN_OK : by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the words of %u ranks", n);
}

void by_sparse_words_fini(struct by_sparse_words *words) {
  free(words->memory);
  *words = (struct by_sparse_words){0};
}

/* ---- one rank's */

static int by_hash(const void *a, const void *b) {
  uint64_t x = by_sparse_hash(*(const int64_t *)a), y = by_sparse_hash(*(const int64_t *)b);
  return x < y ? -1 : x > y;
}

/* Samples the rows with the smallest hashes; twice as many are kept before they are sorted out. */
static uint64_t take_sample(const struct banyan_sparse *rows, uint32_t most, int64_t *sample) {
  int64_t kept[2 * BY_SPARSE_MOST_SAMPLE] = {0};
  uint64_t limit = UINT64_MAX;
  size_t n = 0;
  for (size_t i = 0; i < rows->count; i++) {
    int64_t row = by_sparse_row_at(rows, i);
    uint64_t hash = by_sparse_hash(row);
    if (hash > limit) continue;
    kept[n++] = row;
    if (n < 2 * (size_t)most) continue;
    qsort(kept, n, sizeof *kept, by_hash);
    n = most;
    limit = by_sparse_hash(kept[n - 1]);
  }
  qsort(kept, n, sizeof *kept, by_hash);
  n = n < most ? n : most;
  memcpy(sample, kept, n * sizeof *kept);
  return n;
}

void by_sparse_word_fill(struct by_sparse_word *word, uint32_t sample, const struct banyan_sparse_call *call,
                         const struct banyan_sparse *rows) {
  word->collective = (uint64_t)call->collective;
  word->op = call->collective == BANYAN_ALLREDUCE ? (uint64_t)call->op : 0;
  word->way = (uint64_t)call->way;
  word->dtype = (uint64_t)call->in->dtype;
  word->row_dtype = (uint64_t)call->in->row_dtype;
  word->height = call->in->height;
  word->width = call->in->width;
  word->tables = call->tables > 1 ? call->tables : 1;
  word->count = rows ? rows->count : call->in->count;
  word->sampled = rows ? take_sample(rows, sample, word->sample) : 0;
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
  word->of = in->count;
  word->below = in->height;
  return false;
}

/* ---- all ranks' */

static const char *name_of(const struct by_sparse_word *word) {
  return word->collective == BANYAN_ALLREDUCE ? "sparse allreduce" : "sparse allgather";
}

static enum banyan_status check_kind(const struct by_sparse_word *word) {
  if (word->collective >= BANYAN_COLLECTIVES)
    return by_fail(BANYAN_ERR_ARGUMENT, "there is no collective number %llu", (unsigned long long)word->collective);
  if (word->collective != BANYAN_ALLREDUCE && word->collective != BANYAN_ALLGATHER)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "there is no sparse %s, only allreduce and allgather",
                   banyan_collective_name((enum banyan_collective)word->collective));
  if (word->op >= BANYAN_OPS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no operation number %llu", name_of(word),
                   (unsigned long long)word->op);
  if (word->op != BANYAN_SUM && word->op != BANYAN_AVERAGE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: the operation is %s, must be sum or avg: rows that a rank lacks are 0",
                   name_of(word), banyan_op_name((enum banyan_op)word->op));
  if (word->way >= BANYAN_SPARSE_WAYS)
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: there is no way number %llu", name_of(word),
                   (unsigned long long)word->way);
  if (word->collective == BANYAN_ALLGATHER && word->tables > 1)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: there are %llu tables: several are for allreduce only", name_of(word),
                   (unsigned long long)word->tables);
  if (word->collective == BANYAN_ALLGATHER && word->way >= BANYAN_SPARSE_MERGE)
    return by_fail(BANYAN_ERR_UNSUPPORTED, "%s: the way \"%s\" merges rows, and is for allreduce only", name_of(word),
                   banyan_sparse_way_name((enum banyan_sparse_way)word->way));
  return BANYAN_OK;
}

static enum banyan_status check_one(const struct by_sparse_word *word, uint32_t most) {
  static char something;
  char table[40] = "";
  struct banyan_sparse shape = {.dtype = (enum banyan_dtype)word->dtype,
                                .row_dtype = (enum banyan_dtype)word->row_dtype,
                                .height = word->height,
                                .width = word->width,
                                .count = word->count,
                                .rows = &something,
                                .values = &something};
  BY_TRY(check_kind(word));
  if (word->fault != BY_SPARSE_MIXED) BY_TRY(by_sparse_check_shape(name_of(word), &shape));
  if (word->fault != BY_SPARSE_MIXED) BY_TRY(by_sparse_check_count(name_of(word), &shape));
  if (word->sampled > most)
    return by_fail(BANYAN_ERR_PROTOCOL, "%s: %llu rows reported, at most %u are possible", name_of(word),
                   (unsigned long long)word->sampled, most);
  for (uint64_t i = 0; i < word->sampled; i++) /* Ranges are cut at sampled rows. */
    if (word->sample[i] < 0 || (uint64_t)word->sample[i] >= word->height)
      return by_fail(BANYAN_ERR_PROTOCOL, "%s: a reported row is %lld, must be from 0 to %llu", name_of(word),
                     (long long)word->sample[i], (unsigned long long)word->height - 1);
  switch ((enum by_sparse_fault)word->fault) {
  case BY_SPARSE_NO_POINTER:
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: rows or values are NULL, though the count is %llu", name_of(word),
                   (unsigned long long)word->count);
  case BY_SPARSE_BAD_ROW:
    if (word->tables > 1) snprintf(table, sizeof table, " of table %llu", (unsigned long long)word->table);
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: row %lld%s, at place %llu of %llu, is not from 0 to %llu", name_of(word),
                   (long long)word->row, table, (unsigned long long)word->place, (unsigned long long)word->of,
                   (unsigned long long)word->below - 1);
  case BY_SPARSE_NO_MEMORY:
    return by_fail(BANYAN_ERR_NO_MEMORY, "%s: out of memory for merging %llu rows", name_of(word),
                   (unsigned long long)word->count);
  case BY_SPARSE_MIXED:
    return by_fail(
        BANYAN_ERR_ARGUMENT,
        "%s: table %llu of %llu has another type than table 0, or no valid shape, or the heights of all tables are too "
        "much: make a call for those of each type",
        name_of(word), (unsigned long long)word->table, (unsigned long long)word->tables);
  case BY_SPARSE_BAD_COUNT:
    return by_fail(BANYAN_ERR_ARGUMENT, "%s: the count of table %llu of %llu is negative or exceeds addressable memory",
                   name_of(word), (unsigned long long)word->table, (unsigned long long)word->tables);
  default: return BANYAN_OK;
  }
}

static bool alike(const struct by_sparse_word *a, const struct by_sparse_word *b) {
  return a->collective == b->collective && a->op == b->op && a->way == b->way && a->dtype == b->dtype &&
         a->row_dtype == b->row_dtype && a->height == b->height && a->width == b->width && a->tables == b->tables &&
         a->shapes == b->shapes;
}

static void describe(const struct by_sparse_word *word, char *text, size_t room) {
  char tables[40] = "";
  if (word->tables > 1) snprintf(tables, sizeof tables, " in %llu tables", (unsigned long long)word->tables);
  snprintf(text, room, "%s (%s, %s) of %llu rows of %llu x %s%s, numbered by %s", name_of(word),
           banyan_op_name((enum banyan_op)word->op), banyan_sparse_way_name((enum banyan_sparse_way)word->way),
           (unsigned long long)word->height, (unsigned long long)word->width,
           banyan_dtype_name((enum banyan_dtype)word->dtype), tables,
           banyan_dtype_name((enum banyan_dtype)word->row_dtype));
}

static enum banyan_status differ(const struct by_sparse_words *words, uint32_t r) {
  char first[160], other[160];
  describe(by_sparse_word_of(words, 0), first, sizeof first);
  describe(by_sparse_word_of(words, r), other, sizeof other);
  bool shapes = by_sparse_word_of(words, 0)->shapes != by_sparse_word_of(words, r)->shapes;
  return by_fail(
      BANYAN_ERR_MISMATCH,
      "ranks made different calls: rank 0 %s, rank %u %s%s; make the same calls with tables of the same sizes "
      "and types on all ranks",
      first, r, other, shapes ? "; their tables have different heights or widths" : "");
}

enum banyan_status by_sparse_words_check(const struct by_sparse_words *words) {
  for (uint32_t r = 0; r < words->n; r++) {
    enum banyan_status status = check_one(by_sparse_word_of(words, r), words->sample);
    if (status != BANYAN_OK) return by_fail_within(status, "rank %u", r);
  }
  for (uint32_t r = 1; r < words->n; r++)
    if (!alike(by_sparse_word_of(words, 0), by_sparse_word_of(words, r))) return differ(words, r);
  return BANYAN_OK;
}
