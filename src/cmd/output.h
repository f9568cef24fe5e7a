/* Prints and writes texts, files, JSON, and tables for a terminal. */
#ifndef BY_CMD_OUTPUT_H
#define BY_CMD_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "text.h"

struct by_draw_options;
struct by_topology;

/* Prints a text if `status` is BANYAN_OK, and frees it. Returns `status`, or BANYAN_ERR_NO_MEMORY if the text has
 * failed. */
BANYAN_CHECK enum banyan_status by_print_text(struct by_text *text, enum banyan_status status, FILE *to);
/* Prints one line on standard output; returns false if memory is exhausted, or the value is NULL. */
bool by_print_json(const json_t *value);
/* Writes a file; "-" is the standard output. BANYAN_ERR_NO_MEMORY: the text has failed; BANYAN_ERR_SYSTEM: it cannot be
 * written. */
BANYAN_CHECK enum banyan_status by_write_text(const char *path, const struct by_text *text);
/* Closes a file unless it is the standard output. BANYAN_ERR_SYSTEM: not everything was written. */
BANYAN_CHECK enum banyan_status by_close_file(FILE *file, const char *path);
BANYAN_CHECK enum banyan_status by_write_svg(const char *path, const struct by_topology *topology,
                                             const struct by_draw_options *options);

/* A table for a terminal: its columns are as wide as their content, and if the terminal is too narrow, the least
 * important columns are omitted. */

enum { BY_MAX_COLUMNS = 16, BY_MAX_CELL = 40 };

struct by_column {
  const char *name;
  bool number; /* Right-aligned. */
  int spare;   /* 0: never omitted; otherwise the highest is omitted first. */
};

struct by_columns {
  const struct by_column *columns;
  unsigned n;
  struct by_text cells; /* Each followed by a NUL. */
  unsigned n_cells;
};

void by_columns_init(struct by_columns *table, const struct by_column *columns, unsigned n);
void by_columns_fini(struct by_columns *table);
/* Adds the next cell, row by row. Unprintable characters become '?', and it is cut to BY_MAX_CELL bytes. */
void by_columns_add(struct by_columns *table, const char *format, ...) BY_PRINTF(2, 3);
/* Prints a line of names and one for each row, indented by `indent`, in at most `width` characters if possible; 0: no
 * limit. */
void by_columns_print(const struct by_columns *table, unsigned indent, unsigned width, struct by_text *out);

#endif
