/* Prints texts, JSON and tables, and writes files. */
#include "output.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "topology_draw.h"

enum banyan_status by_close_file(FILE *file, const char *path) {
  bool wrote = !ferror(file);
  int why = errno;
  if (file != stdout && fclose(file) != 0) {
    wrote = false;
    why = errno;
  }
  return wrote ? BANYAN_OK : by_fail_errno(BANYAN_ERR_SYSTEM, why, "cannot write %s", path);
}

enum banyan_status by_write_text(const char *path, const struct by_text *text) {
  if (text->failed) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for %s", path);
  FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
  if (!file) return by_fail_errno(BANYAN_ERR_SYSTEM, errno, "cannot open %s for writing", path);
  (void)!fwrite(by_text_get(text), 1, text->length, file);
  return by_close_file(file, path);
}

enum banyan_status by_write_svg(const char *path, const struct by_topology *topology,
                                const struct by_draw_options *options) {
  struct by_text text = {0};
  enum banyan_status status = by_topology_svg(topology, options, &text);
  if (status == BANYAN_OK) status = by_write_text(path, &text);
  by_text_fini(&text);
  return status;
}

enum banyan_status by_print_text(struct by_text *text, enum banyan_status status, FILE *to) {
  if (status == BANYAN_OK && text->failed) status = by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for the text");
  if (status == BANYAN_OK) fputs(by_text_get(text), to);
  by_text_fini(text);
  return status;
}

bool by_print_json(const json_t *value) {
  char *text = json_dumps(value, JSON_COMPACT | JSON_PRESERVE_ORDER);
  if (text) puts(text);
  free(text);
  return text != NULL;
}

/* ---- tables */

enum { GAP = 2 };

void by_columns_init(struct by_columns *table, const struct by_column *columns, unsigned n) {
  *table = (struct by_columns){.columns = columns, .n = n};
  by_text_init(&table->cells);
}

void by_columns_fini(struct by_columns *table) {
  by_text_fini(&table->cells);
}

void by_columns_add(struct by_columns *table, const char *format, ...) {
  char text[256], shown[BY_MAX_CELL + 1];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  by_keep_printable(text, shown, sizeof shown);
  by_text_add(&table->cells, "%s%c", shown, '\0');
  table->n_cells++;
}

static unsigned sum_of(const unsigned *widths, unsigned n) {
  unsigned sum = 0;
  for (unsigned c = 0; c < n; c++) sum += widths[c] ? widths[c] + GAP : 0;
  return sum ? sum - GAP : 0;
}

/* Columns that are omitted have width 0. */
static void omit_columns(const struct by_columns *table, unsigned *widths, unsigned capacity) {
  while (sum_of(widths, table->n) > capacity) {
    unsigned min = table->n;
    for (unsigned c = 0; c < table->n; c++)
      if (widths[c] && table->columns[c].spare &&
          (min == table->n || table->columns[c].spare > table->columns[min].spare))
        min = c;
    if (min == table->n) return;
    widths[min] = 0;
  }
}

static void add_cell(const struct by_column *column, const char *text, unsigned width, bool last, struct by_text *out) {
  int blank = (int)width - (int)by_columns_of(text);
  if (column->number)
    by_text_add(out, "%*s%s", blank, "", text);
  else
    by_text_add(out, "%s%*s", text, last ? 0 : blank, "");
  by_text_add(out, "%s", last ? "\n" : "  ");
}

void by_columns_print(const struct by_columns *table, unsigned indent, unsigned width, struct by_text *out) {
  unsigned widths[BY_MAX_COLUMNS], last = 0;
  const char *cell = by_text_get(&table->cells);
  if (table->cells.failed) return;
  assert(table->n > 0 && table->n <= BY_MAX_COLUMNS);
  for (unsigned c = 0; c < table->n; c++) widths[c] = (unsigned)by_columns_of(table->columns[c].name);
  for (unsigned i = 0; i < table->n_cells; i++, cell += strlen(cell) + 1)
    widths[i % table->n] = MAX(widths[i % table->n], (unsigned)by_columns_of(cell));
  cell = by_text_get(&table->cells);
  if (width) omit_columns(table, widths, width > indent ? width - indent : 0);
  for (unsigned c = 0; c < table->n; c++)
    if (widths[c]) last = c;
  for (unsigned i = 0; i < table->n + table->n_cells; i++) {
    unsigned c = i % table->n;
    if (c == 0) by_text_add(out, "%*s", (int)indent, "");
    if (widths[c])
      add_cell(&table->columns[c], i < table->n ? table->columns[c].name : cell, widths[c], c == last, out);
    if (i >= table->n) cell += strlen(cell) + 1;
  }
}
