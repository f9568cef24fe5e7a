/* Each threshold of planning from measurement names the tests that show its effect, and these exist. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "thresholds.h"

/* Reads a file of the source tree; NULL: there is none. The caller frees it. */
static char *read_source(const char *path) {
  char name[512], *text = NULL;
  snprintf(name, sizeof name, "%s/%s", getenv("BANYAN_SOURCE"), path);
  FILE *file = fopen(name, "r");
  if (!file) return NULL;
  if (fseek(file, 0, SEEK_END) == 0) {
    long length = ftell(file);
    rewind(file);
    text = calloc(1, (size_t)length + 1);
    assert_true(text && fread(text, 1, (size_t)length, file) == (size_t)length);
  }
  fclose(file);
  return text;
}

/* Checks "unit/test_x: test_a, test_b" at the end of a comment: tests/unit/test_x.c or .sh has all of these words. */
static void check_tests(const char *row, const char *comment) {
  char file[64], path[128], word[64];
  const char *at = NULL;
  for (const char *next = comment; (next = strstr(next, "/test_")); next++) at = next;
  if (!at) fail_msg("%s names no test", row);
  while (at > comment && at[-1] != ' ' && at[-1] != '\n') at--;
  int n = 0;
  assert_int_equal(sscanf(at, "%63[^:]: %n", file, &n), 1);
  snprintf(path, sizeof path, "tests/%s.c", file);
  char *text = read_source(path);
  if (!text) {
    snprintf(path, sizeof path, "tests/%s.sh", file);
    text = read_source(path);
  }
  if (!text) fail_msg("%s: there is no %s", row, path);
  for (at += n; sscanf(at, " %63[a-z0-9_]%n", word, &n) == 1; at += at[n] == ',' ? n + 1 : n)
    if (!strstr(text, word)) fail_msg("%s: %s has no %s", row, path, word);
  free(text);
}

static void test_rows(void **state) {
  char *table = read_source("src/topology/thresholds.h"), *comment = NULL;
  uint32_t rows = 0;
  (void)state;
  assert_non_null(table);
  for (char *line = strtok(table, "\n"); line; line = strtok(NULL, "\n")) {
    if (!strncmp(line, "/*", 2)) {
      free(comment);
      comment = strdup(line);
    } else if (!strncmp(line, " * ", 3) && comment) {
      size_t room = strlen(comment) + strlen(line) + 1;
      comment = realloc(comment, room);
      strncat(comment, line + 2, strlen(line));
    } else if (!strncmp(line, "static const double ", 20)) {
      check_tests(line, comment);
      rows++;
    }
  }
  free(comment);
  free(table);
  assert_in_range(rows, 1, 70);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
