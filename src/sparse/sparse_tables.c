#include "sparse_tables.h"

#include <stdlib.h>
#include <string.h>

uint64_t by_sparse_tables_heights(const struct banyan_sparse_call *call) {
  uint64_t hash = 0;
  for (size_t t = 0; call->tables > 1 && t < call->tables; t++)
    hash = by_sparse_hash((int64_t)(hash ^ call->in[t].height));
  return hash;
}

void by_sparse_tables_fini(struct by_sparse_tables *tables) {
  free(tables->firsts);
  banyan_sparse_free(&tables->in);
  banyan_sparse_free(&tables->sum);
}

/* ---- joining */

static bool fault(struct by_sparse_word *word, enum by_sparse_fault what, size_t table) {
  word->fault = what;
  word->table = table;
  return false;
}

/* Where the rows of each table begin, and the shape of all of them. */
static bool number_rows(struct by_sparse_tables *tables, const struct banyan_sparse *in, struct by_sparse_word *word) {
  size_t n = tables->n;
  tables->firsts[0] = 0;
  for (size_t t = 0; t < n; t++) {
    if (by_sparse_check_shape("", &in[t]) || in[t].dtype != in->dtype || in[t].row_dtype != in->row_dtype ||
        in[t].width != in->width)
      return fault(word, BY_SPARSE_MIXED, t);
    if (__builtin_add_overflow(tables->firsts[t], in[t].height, &tables->firsts[t + 1]))
      return fault(word, BY_SPARSE_MIXED, t);
  }
  if (tables->firsts[n] > (uint64_t)1 << 63) return fault(word, BY_SPARSE_MIXED, n - 1);
  return true;
}

static bool check_rows(const struct banyan_sparse *in, size_t n, struct by_sparse_word *word, size_t *total) {
  *total = 0;
  for (size_t t = 0; t < n; t++) {
    bool ascending;
    word->table = t;
    if (!by_sparse_word_scan(word, &in[t], &ascending)) {
      if (!word->fault) fault(word, BY_SPARSE_BAD_COUNT, t);
      return false;
    }
    if (__builtin_add_overflow(*total, in[t].count, total)) return fault(word, BY_SPARSE_BAD_COUNT, t);
  }
  word->table = 0;
  return true;
}

static void append(struct banyan_sparse *to, const struct banyan_sparse *from, uint64_t first) {
  struct banyan_sparse part = by_sparse_slice(to, to->count, from->count);
  part.count = from->count;
  for (size_t i = 0; i < from->count; i++)
    by_sparse_put_row(&part, i, (int64_t)(first + (uint64_t)by_sparse_row_at(from, i)));
  by_sparse_copy_values(from, &part);
  to->count += from->count;
}

bool by_sparse_tables_join(struct by_sparse_tables *tables, const struct banyan_sparse_call *call,
                           struct by_sparse_word *word) {
  const struct banyan_sparse *in = call->in;
  size_t total;
  tables->n = call->tables;
  tables->out = call->out;
  if (!BY_ARRAY_GROW(&tables->firsts, &tables->room, tables->n + 1)) return fault(word, BY_SPARSE_NO_MEMORY, 0);
  if (!number_rows(tables, in, word) || !check_rows(in, tables->n, word, &total)) return false;
  struct banyan_sparse shape = *in;
  tables->row_dtype = in->row_dtype;
  shape.height = tables->firsts[tables->n];
  shape.row_dtype = shape.height > (size_t)1 << 31 ? BANYAN_INT64 : in->row_dtype;
  if (by_sparse_make(&shape, total, &tables->in) != BANYAN_OK) return fault(word, BY_SPARSE_NO_MEMORY, 0);
  for (size_t t = 0; t < tables->n; t++) {
    append(&tables->in, &in[t], tables->firsts[t]);
    tables->in.unique &= in[t].unique;
  }
  banyan_sparse_free(&tables->sum);
  tables->sum.memory = tables->out->memory; /* which the caller gets back with the result, or loses */
  tables->sum.room = tables->out->room;
  *tables->out = (struct banyan_sparse){0};
  return true;
}

/* ---- parting */

/* Of a table with n rows. Where numbers get narrower they move together, so each is read before its place is taken. */
static void renumber(void *rows, size_t n, enum banyan_dtype from, enum banyan_dtype to, uint64_t first) {
  char *read = rows, *write = rows;
  for (size_t i = 0; i < n; i++, read += banyan_dtype_size(from), write += banyan_dtype_size(to)) {
    int32_t narrow;
    int64_t row;
    if (from == BANYAN_INT32)
      memcpy(&narrow, read, sizeof narrow), row = narrow;
    else
      memcpy(&row, read, sizeof row);
    row -= (int64_t)first;
    narrow = (int32_t)row;
    memcpy(write, to == BANYAN_INT32 ? (void *)&narrow : (void *)&row, banyan_dtype_size(to));
  }
}

void by_sparse_tables_part(struct by_sparse_tables *tables) {
  struct banyan_sparse *sum = &tables->sum;
  size_t place = 0;
  for (size_t t = 0; t < tables->n; t++) {
    size_t end = by_sparse_place_of(sum, tables->firsts[t + 1]);
    struct banyan_sparse part = by_sparse_slice(sum, place, end - place);
    part.height = tables->firsts[t + 1] - tables->firsts[t];
    part.row_dtype = tables->row_dtype;
    free(tables->out[t].memory);
    tables->out[t] = part;
    place = end;
  }
  for (size_t t = 0; t < tables->n; t++) /* now that no place is looked for any more */
    renumber(tables->out[t].rows, tables->out[t].count, sum->row_dtype, tables->row_dtype, tables->firsts[t]);
  tables->out->memory = sum->memory;
  tables->out->room = sum->room;
  *sum = (struct banyan_sparse){0};
}
