/* Rows of comma-separated values out of a text, one at a time, with the line
 * numbers that errors need. Fields may stand in double quotes. */
#ifndef BY_TOPOLOGY_TOPOLOGY_CSV_H
#define BY_TOPOLOGY_TOPOLOGY_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "fail.h"

enum { BY_CSV_MOST_ROW = 16384, BY_CSV_MOST_FIELDS = 64 };

struct by_csv {
  const char *source, *at, *end;
  size_t line; /* of the row, from 1 */
  size_t n_fields;
  bool open_end;                          /* the text ends in this row, without a line's end */
  const char *fields[BY_CSV_MOST_FIELDS]; /* into the row; valid until the next one */
  char row[BY_CSV_MOST_ROW + 1];
};

/* Source and text are borrowed. */
void by_csv_init(struct by_csv *csv, const char *source, const char *text, size_t length);
/* The next row that is not empty; *more is false at the end. */
BANYAN_CHECK enum banyan_status by_csv_next(struct by_csv *csv, bool *more);
/* "SOURCE:LINE: text", as BANYAN_ERR_PARSE. */
enum banyan_status by_csv_fail(const struct by_csv *csv, const char *format, ...) BY_PRINTF(2, 3);

#endif
