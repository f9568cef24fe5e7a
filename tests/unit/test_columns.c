#include "check.h"

#include <string.h>

#include "output.h"

static const struct by_column columns[] = {{"name", false, 0}, {"spare", true, 2}, {"n", true, 0}, {"rare", false, 3}};

static void fill(struct by_columns *table) {
  by_columns_init(table, columns, 4);
  by_columns_add(table, "caf\xc3\xa9");
  by_columns_add(table, "%d", 1);
  by_columns_add(table, "%s", "");
  by_columns_add(table, "x");
  by_columns_add(table, "b\033[2J");
  by_columns_add(table, "%d", 123456);
  by_columns_add(table, "22");
  by_columns_add(table, "yy");
}

static void check_print(unsigned indent, unsigned width, const char *wanted) {
  struct by_columns table;
  struct by_text out;
  fill(&table);
  by_text_init(&out);
  by_columns_print(&table, indent, width, &out);
  assert_string_equal(by_text_get(&out), wanted);
  by_text_fini(&out);
  by_columns_fini(&table);
}

static void aligns_characters_not_bytes(void **state) {
  check_print(0, 0,
              "name    spare   n  rare\n"
              "caf\xc3\xa9        1      x\n"
              "b?[2J  123456  22  yy\n");
}

static void leaves_out_what_is_least_wanted(void **state) {
  check_print(1, 24,
              " name    spare   n  rare\n"
              " caf\xc3\xa9        1      x\n"
              " b?[2J  123456  22  yy\n");
  check_print(1, 23,
              " name    spare   n\n"
              " caf\xc3\xa9        1    \n"
              " b?[2J  123456  22\n");
  check_print(1, 12,
              " name    n\n"
              " caf\xc3\xa9     \n"
              " b?[2J  22\n");
  check_print(0, 1, "name    n\ncaf\xc3\xa9     \nb?[2J  22\n"); /* what must be there is */
}

static void cuts_long_cells(void **state) {
  struct by_columns table;
  struct by_text out;
  char text[100];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  by_columns_init(&table, columns, 1);
  by_columns_add(&table, "%s", text);
  by_text_init(&out);
  by_columns_print(&table, 0, 0, &out);
  assert_int_equal(out.length, strlen("name\n") + BY_MOST_CELL + 1);
  by_text_fini(&out);
  by_columns_fini(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligns_characters_not_bytes),
      cmocka_unit_test(leaves_out_what_is_least_wanted),
      cmocka_unit_test(cuts_long_cells),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
