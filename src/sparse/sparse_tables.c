/* Joins the rows of several tables of a sparse call into one table, and divides the result among them again. */
#include "sparse_tables.h"

#include <stdlib.h>
#include <string.h>

uint64_t by_sparse_tables_shapes(const struct banyan_sparse_call *call) {
  uint64_t hash = 0;
  for (size_t t = 0; call->tables > 1 && t < call->tables; t++) {
    hash = by_sparse_hash((int64_t)(hash ^ call->in[t].height));
    hash = by_sparse_hash((int64_t)(hash ^ call->in[t].width));
  }
  return hash;
}

void by_sparse_tables_fini(struct by_sparse_tables *tables) {
  for (size_t t = 0; t < tables->room; t++) banyan_sparse_free(&tables->tables[t].merged);
  free(tables->tables);
  banyan_sparse_free(&tables->in);
  banyan_sparse_free(&tables->sum);
  by_sparse_scratch_fini(&tables->scratch);
}

/* ---- joining */

static bool fault(struct by_sparse_word *word, enum by_sparse_fault what, size_t table) {
  word->fault = what;
  word->table = table;
  return false;
}

static bool make_room(struct by_sparse_tables *tables, size_t n) {
  size_t before = tables->room;
  if (!BY_ARRAY_GROW(&tables->tables, &tables->room, n)) return false;
  memset(tables->tables + before, 0, (tables->room - before) * sizeof *tables->tables);
  return true;
}

static size_t common_divisor(size_t a, size_t b) {
  while (b) {
    size_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Where the rows of each table begin, and the shape of all of them. */
static bool number_tables(struct by_sparse_tables *tables, const struct banyan_sparse *in, struct by_sparse_word *word,
                          struct banyan_sparse *shape) {
  uint64_t next = 0, rows;
  *shape = *in;
  for (size_t t = 0; t < tables->n; t++) {
    if (by_sparse_check_shape("", &in[t]) || in[t].dtype != in->dtype || in[t].row_dtype != in->row_dtype)
      return fault(word, BY_SPARSE_MIXED, t);
    shape->width = common_divisor(shape->width, in[t].width);
  }
  for (size_t t = 0; t < tables->n; t++) {
    struct by_sparse_table *table = &tables->tables[t];
    table->first = next;
    table->times = in[t].width / shape->width;
    if (__builtin_mul_overflow(in[t].height, table->times, &rows) || __builtin_add_overflow(next, rows, &next) ||
        next > (uint64_t)1 << 63)
      return fault(word, BY_SPARSE_MIXED, t);
  }
  shape->height = next;
  shape->row_dtype = next > (uint64_t)1 << 31 ? BANYAN_INT64 : in->row_dtype;
  shape->unique = true;
  return true;
}

/* Looks at the rows of a table, and merges them unless they are unique or in order. `total`: rows of the joined table.
 */
static bool take_table(struct by_sparse_tables *tables, size_t t, const struct banyan_sparse *in,
                       struct by_sparse_word *word, bool *ascending, size_t *total) {
  struct by_sparse_table *table = &tables->tables[t];
  size_t rows;
  word->table = t;
  if (!by_sparse_word_scan(word, in, ascending)) return word->fault ? false : fault(word, BY_SPARSE_BAD_COUNT, t);
  table->rows = *in;
  if (!in->unique && !*ascending) {
    if (by_sparse_merge(in, &tables->scratch, &table->merged) != BANYAN_OK) return fault(word, BY_SPARSE_NO_MEMORY, t);
    table->rows = table->merged;
    *ascending = true;
  }
  if (__builtin_mul_overflow(table->rows.count, table->times, &rows) || __builtin_add_overflow(*total, rows, total))
    return fault(word, BY_SPARSE_BAD_COUNT, t);
  return true;
}

/* Appends the numbers of a table's rows. */
#define NUMBER(name, from_type, to_type)                                                                               \
  static void name(const struct by_sparse_table *table, void *place) {                                                 \
    const from_type *from = table->rows.rows;                                                                          \
    to_type *to = place;                                                                                               \
    size_t times = table->times;                                                                                       \
    if (times == 1) {                                                                                                  \
      for (size_t i = 0; i < table->rows.count; i++) to[i] = (to_type)(table->first + (uint64_t)from[i]);              \
      return;                                                                                                          \
    }                                                                                                                  \
    for (size_t i = 0; i < table->rows.count; i++)                                                                     \
      for (size_t k = 0; k < times; k++) *to++ = (to_type)(table->first + (uint64_t)from[i] * times + k);              \
  }

NUMBER(number_narrow, int32_t, int32_t)
NUMBER(number_wider, int32_t, int64_t)
NUMBER(number_wide, int64_t, int64_t)

static void number_rows(struct by_sparse_tables *tables) {
  struct banyan_sparse *in = &tables->in;
  bool narrow = tables->row_dtype == BANYAN_INT32, wide = in->row_dtype == BANYAN_INT64;
  for (size_t t = 0; t < tables->n; t++) {
    const struct by_sparse_table *table = &tables->tables[t];
    void *place = (char *)in->rows + in->count * banyan_dtype_size(in->row_dtype);
    (!narrow ? number_wide : wide ? number_wider : number_narrow)(table, place);
    in->count += table->rows.count * table->times;
  }
}

bool by_sparse_tables_join(struct by_sparse_tables *tables, const struct banyan_sparse_call *call,
                           struct by_sparse_word *word, bool *ascending) {
  struct banyan_sparse shape;
  size_t total = 0;
  tables->n = call->tables;
  tables->out = call->out;
  tables->row_dtype = call->in->row_dtype;
  tables->has_values = false;
  if (!make_room(tables, tables->n)) return fault(word, BY_SPARSE_NO_MEMORY, 0);
  if (!number_tables(tables, call->in, word, &shape)) return false;
  *ascending = true;
  for (size_t t = 0; t < tables->n; t++) {
    bool in_order;
    if (!take_table(tables, t, &call->in[t], word, &in_order, &total)) return false;
    *ascending &= in_order;
  }
  word->table = 0;
  if (by_sparse_make(&shape, total, &tables->in) != BANYAN_OK) return fault(word, BY_SPARSE_NO_MEMORY, 0);
  number_rows(tables);
  banyan_sparse_free(&tables->sum);
  tables->sum.memory =
      tables->out->memory; /* The caller gets this memory back with the result, or loses it on failure. */
  tables->sum.room = tables->out->room;
  *tables->out = (struct banyan_sparse){0};
  return true;
}

void by_sparse_tables_copy_values(const struct by_sparse_tables *tables, void *to) {
  for (size_t t = 0; t < tables->n; t++) {
    const struct banyan_sparse *rows = &tables->tables[t].rows;
    size_t bytes = rows->count * rows->width * banyan_dtype_size(rows->dtype);
    if (bytes) memcpy(to, rows->values, bytes);
    to = (char *)to + bytes;
  }
}

/* ---- parting */

/* Row numbers of a table from those of the joined one. They move together, so each is read before its place is taken.
 */
#define RENUMBER(name, from_type, to_type)                                                                             \
  static void name(void *rows, size_t n, const struct by_sparse_table *table) {                                        \
    const from_type *from = rows;                                                                                      \
    size_t times = table->times;                                                                                       \
    char *to = rows;                                                                                                   \
    for (size_t i = 0; i < n; i++, to += sizeof(to_type)) {                                                            \
      uint64_t row = (uint64_t)from[i * times] - table->first;                                                         \
      to_type number = (to_type)(times == 1 ? row : row / times);                                                      \
      memcpy(to, &number, sizeof number);                                                                              \
    }                                                                                                                  \
  }

RENUMBER(renumber_narrow, int32_t, int32_t)
RENUMBER(renumber_narrower, int64_t, int32_t)
RENUMBER(renumber_wide, int64_t, int64_t)

void by_sparse_tables_part(struct by_sparse_tables *tables) {
  struct banyan_sparse *sum = &tables->sum;
  size_t place = 0;
  bool narrow = tables->row_dtype == BANYAN_INT32, wide = sum->row_dtype == BANYAN_INT64;
  for (size_t t = 0; t < tables->n; t++) { /* Each table's range is found before any row is renumbered. */
    const struct by_sparse_table *table = &tables->tables[t];
    uint64_t next = t + 1 < tables->n ? table[1].first : sum->height;
    size_t end = by_sparse_place_of(sum, next);
    struct banyan_sparse part = by_sparse_slice(sum, place, (end - place) / table->times);
    part.height = (next - table->first) / table->times;
    part.width = sum->width * table->times;
    part.row_dtype = tables->row_dtype;
    free(tables->out[t].memory);
    tables->out[t] = part;
    place = end;
  }
  for (size_t t = 0; t < tables->n; t++)
    (!narrow ? renumber_wide
     : wide  ? renumber_narrower
             : renumber_narrow)(tables->out[t].rows, tables->out[t].count, &tables->tables[t]);
  tables->out->memory = sum->memory;
  tables->out->room = sum->room;
  *sum = (struct banyan_sparse){0};
}
