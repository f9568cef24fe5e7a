#include "topology_csv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

enum { REASON_BYTES = 256 };

void by_csv_init(struct by_csv *csv, const char *source, const char *text, size_t length) {
  static const char mark[] = "\xef\xbb\xbf"; /* that some programs put before UTF-8 */
  if (length >= 3 && memcmp(text, mark, 3) == 0) {
    text += 3;
    length -= 3;
  }
  csv->source = source;
  csv->at = text;
  csv->end = text + length;
  csv->line = csv->n_fields = 0;
  csv->open_end = false;
}

enum banyan_status by_csv_fail(const struct by_csv *csv, const char *format, ...) {
  char all[REASON_BYTES], shown[REASON_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(all, sizeof all, format, args);
  va_end(args);
  by_keep_printable(all, shown, sizeof shown);
  return by_fail(BANYAN_ERR_PARSE, "%s:%zu: %s", csv->source, csv->line, shown);
}

/* The next line into csv->row, without its end. */
static enum banyan_status take_line(struct by_csv *csv) {
  const char *end = memchr(csv->at, '\n', (size_t)(csv->end - csv->at));
  size_t length = (size_t)((end ? end : csv->end) - csv->at);
  csv->line++;
  if (length > BY_CSV_MOST_ROW) return by_csv_fail(csv, "is %zu bytes long, most is %d", length, BY_CSV_MOST_ROW);
  memcpy(csv->row, csv->at, length);
  csv->at += length + (end ? 1 : 0);
  csv->open_end = !end;
  if (memchr(csv->row, '\0', length)) return by_csv_fail(csv, "holds a byte 0; is this a text?");
  if (length && csv->row[length - 1] == '\r') length--;
  csv->row[length] = '\0';
  return BANYAN_OK;
}

/* A field in quotes: what is in them moves to its start; a doubled quote is one. *from: behind the closing one. */
static enum banyan_status take_quoted(struct by_csv *csv, char **from) {
  char *to = *from, *at = *from + 1;
  for (; *at && (*at != '"' || at[1] == '"'); at++) {
    if (*at == '"') at++;
    *to++ = *at;
  }
  if (!*at) return by_csv_fail(csv, "a quote is not closed");
  *to = '\0';
  *from = at + 1;
  return **from && **from != ',' ? by_csv_fail(csv, "text behind a closing quote") : BANYAN_OK;
}

static enum banyan_status split(struct by_csv *csv) {
  char *at = csv->row;
  for (csv->n_fields = 0;; at++) {
    if (csv->n_fields == BY_CSV_MOST_FIELDS) return by_csv_fail(csv, "more than %d fields", BY_CSV_MOST_FIELDS);
    csv->fields[csv->n_fields++] = at;
    if (*at == '"')
      BY_TRY(take_quoted(csv, &at));
    else
      at += strcspn(at, ",");
    if (!*at) return BANYAN_OK;
    *at = '\0';
  }
}

enum banyan_status by_csv_next(struct by_csv *csv, bool *more) {
  for (*more = false; csv->at < csv->end;) {
    BY_TRY(take_line(csv));
    if (!csv->row[0]) continue;
    *more = true;
    return split(csv);
  }
  return BANYAN_OK;
}
