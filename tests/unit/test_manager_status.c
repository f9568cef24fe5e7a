#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "output.h"
#include "status_print.h"

/* ---- tables ---- */

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
  check_print(0, 1, "name    n\ncaf\xc3\xa9     \nb?[2J  22\n"); /* Columns that are required are shown. */
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
  assert_int_equal(out.length, strlen("name\n") + BY_MAX_CELL + 1);
  by_text_fini(&out);
  by_columns_fini(&table);
}

/* ---- the state of a manager ---- */

/* Prints the state. The caller frees the result. */
static char *print(const json_t *state, unsigned width, unsigned height) {
  struct by_text out;
  by_text_init(&out);
  by_manager_status_print(state, (struct by_screen){width, height}, &out);
  assert_false(out.failed);
  char *text = strdup(by_text_get(&out));
  assert_non_null(text);
  by_text_fini(&out);
  return text;
}

static json_t *example(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/tests/data/manager_state.json", getenv("BANYAN_SOURCE"));
  json_t *state = json_load_file(path, 0, NULL);
  assert_non_null(state);
  return state;
}

static void check_shown(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("no \"%s\" in:\n%s", part, text);
}

static void shows_jobs_links_and_hosts(void **state) {
  json_t *manager = example();
  char *text = print(manager, 0, 0);
  check_shown(text, ": 7 of 8 hosts connected; 2 jobs run, 0 wait, 1 switching\n");
  check_shown(
      text,
      "  train  running        0      4          12        -        1 s  5.36 GiB   240M     8     461M        2  "
      "00000000000000000000000000000001\n");
  check_shown(text, "\n  leaf0   spine0    86 %  857M       0        1G\n");
  check_shown(text, "\n  r1h3  no agent   ");
  assert_true(strstr(text, "  running  ") < strstr(text, "  left  "));
  free(text);
  json_decref(manager);
}

static void check_left(double expected, const json_t *left, const json_t *limit, const char *wanted) {
  json_t *manager = example(), *job = json_array_get(json_object_get(manager, "jobs"), 0);
  json_object_set_new(job, "expected", json_real(expected));
  json_object_set_new(job, "seconds_left", json_deep_copy(left));
  json_object_set_new(job, "ends_in", json_deep_copy(limit));
  char *text = print(manager, 0, 0);
  check_shown(text, wanted);
  free(text);
  json_decref(manager);
}

static void shows_how_long_jobs_go_on(void **state) {
  static const struct {
    double expected, left;
    const char *wanted;
  } cases[] = {
      {500, 720, "  12 of 500   12 min  "}, {12, 0, "  12 of 12      0 s  "}, {500, 59.4, "     59 s  "},
      {500, 59.6, "    1 min  "},           {500, 12000, "  3 h 20 min  "},   {500, 191000, "  2 d 5 h  "},
      {9e18, 9e18, "  11574 d 1 h  "},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    json_t *left = json_real(cases[i].left);
    check_left(cases[i].expected, left, json_null(), cases[i].wanted);
    json_decref(left);
  }
  check_left(500, json_null(), json_null(), "  12 of 500        -  ");
  json_t *limit = json_real(5400);
  check_left(0, json_null(), limit, "          12  < 1 h 30 min  ");
  json_decref(limit);
}

static void check_certificates(const double days[3], const char *wanted) {
  json_t *manager = example(), *certificates = json_array();
  double now = json_number_value(json_object_get(manager, "time"));
  static const char *const names[] = {"h1", "h2", "h3"};
  for (int i = 0; i < 3; i++)
    json_array_append_new(certificates,
                          json_pack("{sssssf}", "role", "agent", "name", names[i], "expires", now + days[i] * 86400));
  json_object_set_new(manager, "certificates", certificates);
  char *text = print(manager, 0, 0);
  check_shown(text, wanted);
  free(text);
  json_decref(manager);
}

static void warns_of_certificates(void **state) {
  (void)state;
  check_certificates((const double[]){100, 9.5, 29}, "\n2 certificates end within 30 days, agent h2's in 9\n");
  check_certificates((const double[]){100, 200, 0.5}, "\n1 certificate ends within 30 days, agent h3's in 0\n");
  check_certificates((const double[]){-2.5, 9.5, 29}, "\n3 certificates end within 30 days, agent h1's HAS EXPIRED\n");
}

static void shows_switches(void **state) {
  json_t *manager = json_loads(
      "{\"switches\":[{\"name\":\"s1\",\"memory\":400000,\"given\":300000,\"jobs\":["
      "{\"name\":\"big\",\"slots\":300,\"requested\":512},{\"name\":\"late\",\"slots\":0,\"requested\":512}]},"
      "{\"name\":\"s2\",\"memory\":0,\"given\":4096,\"jobs\":[{\"name\":\"big\",\"slots\":512,\"requested\":512}]},"
      "{\"name\":\"s3\",\"jobs\":[]}],"
      "\"jobs\":[{\"name\":\"big\",\"plan\":{\"plan\":{\"vertices\":{\"h0/0\":{\"kind\":\"server\"},"
      "\"s1\":{\"kind\":\"switch\"},\"s2\":{\"kind\":\"switch\"}},\"classes\":[{\"trees\":[]},{\"trees\":["
      "{\"share\":0.6,\"root\":\"h0/0\",\"up\":{\"s1\":\"h0/0\",\"s2\":\"s1\",\"0\":\"s2\"},\"forwards\":[\"s2\"]},"
      "{\"share\":0.4,\"root\":\"0\"}]}]}},\"cells\":[{\"switch\":\"s1\",\"slots\":300,\"requested\":512},"
      "{\"switch\":\"s2\",\"slots\":512,\"requested\":512}]},"
      "{\"name\":\"late\",\"cells\":[{\"switch\":\"s1\",\"slots\":0,\"requested\":512}]}]}",
      0, NULL);
  assert_non_null(manager);
  char *text = print(manager, 0, 0);
  check_shown(text, "\n  s1      391 KiB  293 KiB    75 %      2  big 300/512, late 0/512\n");
  check_shown(text, "\n  s2      unknown    4 KiB     0 %      1  big 512\n");
  check_shown(text, "     0 %      0  -\n");
  check_shown(text, "\n  big: 60 % through s1, s2 (forwards), server h0/0\n");
  assert_null(strstr(text, "big: 40 %"));
  check_shown(text, "\n  big requested 512 slots at s1 and has 300: others have the rest");
  check_shown(text, "\n  late requested 512 slots at s1 and has 0: that switch only forwards for it\n");
  assert_null(strstr(text, "at s2"));
  free(text);
  text = print(manager, 80, 24);
  check_shown(text, "  s1  ");
  assert_null(strstr(text, "requested"));
  free(text);
  json_decref(manager);
}

static void keeps_to_the_screen(void **state) {
  json_t *manager = example(), *jobs = json_object_get(manager, "jobs");
  for (int i = 0; i < 200; i++) json_array_append(jobs, json_array_get(jobs, 0));
  char *text = print(manager, 80, 30), *rest, *line = strtok_r(text, "\n", &rest);
  unsigned lines = 0;
  for (; line; line = strtok_r(NULL, "\n", &rest), lines++) assert_true(strlen(line) <= 80);
  assert_in_range(lines, 20, 30);
  free(text);
  json_decref(manager);
}

/* This holds for tables; other lines are cut by callers that write to a terminal. */
static void keeps_to_narrow_terminals(void **state) {
  (void)state;
  json_t *manager = example();
  for (unsigned width = 42; width <= 80; width++) {
    char *text = print(manager, width, 0), *rest, *line = strtok_r(text, "\n", &rest);
    for (; line; line = strtok_r(NULL, "\n", &rest))
      if (line[0] == ' ' && strlen(line) > width) fail_msg("at %u: %s", width, line);
    free(text);
  }
  json_decref(manager);
}

/* The state comes from another program, so it may contain anything. */
static void lives_with_anything(void **state) {
  static const char *const texts[] = {
      "{}",
      "[]",
      "{\"jobs\":7,\"hosts\":{\"a\":1},\"links\":null,\"version\":[]}",
      "{\"jobs\":[1,null,{\"name\":7,\"plan\":[],\"sent\":-1e300,\"class\":\"x\"}],\"links\":[{},{\"capacity\":-1}]}",
      "{\"hosts\":[{\"interfaces\":4}]}",
      "{\"jobs\":[{\"name\":\"\\u001b[2Jevil\",\"state\":\"\\n\\n\"}]}",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    json_t *manager = json_loads(texts[i], 0, NULL);
    assert_non_null(manager);
    char *text = print(manager, 80, 24);
    assert_null(strchr(text, '\033'));
    free(text);
    json_decref(manager);
  }
}

static void shows_contradictions(void **state) {
  json_t *manager =
      json_loads("{\"discovered\":true,\"contradictions\":[\"x lies\",\"\\u001b[2J\",7,\"y\",\"z\",\"w\"]}", 0, NULL);
  char *text = print(manager, 80, 0);
  assert_non_null(strstr(text, "agents contradict each other: x lies\n"));
  assert_non_null(strstr(text, "agents contradict each other: y\n... and 2 more contradictions\n"));
  assert_null(strchr(text, '\033'));
  free(text);
  json_object_set_new(manager, "discovered", json_false());
  text = print(manager, 80, 0);
  assert_non_null(strstr(text, "an agent contradicts the topology: x lies\n"));
  free(text);
  json_decref(manager);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(aligns_characters_not_bytes),
      cmocka_unit_test(leaves_out_what_is_least_wanted),
      cmocka_unit_test(cuts_long_cells),
      cmocka_unit_test(shows_jobs_links_and_hosts),
      cmocka_unit_test(shows_how_long_jobs_go_on),
      cmocka_unit_test(warns_of_certificates),
      cmocka_unit_test(shows_switches),
      cmocka_unit_test(keeps_to_the_screen),
      cmocka_unit_test(keeps_to_narrow_terminals),
      cmocka_unit_test(lives_with_anything),
      cmocka_unit_test(shows_contradictions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
