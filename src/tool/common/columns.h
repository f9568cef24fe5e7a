/* A table for a terminal: columns as wide as what is in them, and the least
 * wanted ones left out where it is too narrow. */
#ifndef BY_CLI_COLUMNS_H
#define BY_CLI_COLUMNS_H

#include <stdbool.h>

#include "text.h"

enum { BY_MOST_COLUMNS = 16, BY_MOST_CELL = 40 };

struct by_column {
  const char *name;
  bool number; /* right-aligned */
  int spare;   /* 0: always there; else the highest is left out first */
};

struct by_columns {
  const struct by_column *columns;
  unsigned n;
  struct by_text cells; /* each with a NUL behind */
  unsigned n_cells;
};

void by_columns_init(struct by_columns *table, const struct by_column *columns, unsigned n);
void by_columns_fini(struct by_columns *table);
/* The next cell, row by row. What cannot be shown of it is '?'; it is cut to BY_MOST_CELL bytes. */
void by_columns_add(struct by_columns *table, const char *format, ...) BY_PRINTF(2, 3);
/* A line of names and one for each row, indented by `indent`, of `width` characters at most if that is possible; 0: no
 * limit. */
void by_columns_print(const struct by_columns *table, unsigned indent, unsigned width, struct by_text *out);

#endif
