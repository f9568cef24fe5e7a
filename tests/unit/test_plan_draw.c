#include <string.h>

#include "check.h"
#include "plan.h"
#include "text.h"

static void assert_drawn(struct by_plan *plan, const char *wanted) {
  struct by_text text;
  by_text_init(&text);
  assert_ok(by_plan_draw(plan, &text));
  const char *body = strchr(by_text_get(&text), '\n'); /* the first line ends with the version */
  assert_non_null(body);
  assert_string_equal(body + 1, wanted);
  by_text_fini(&text);
  by_plan_destroy(plan);
}

static struct by_plan *builtin(const char *name, uint32_t n) {
  struct by_plan *plan;
  assert_ok(by_plan_builtin(name, n, &plan));
  return plan;
}

static struct by_plan *parsed(const char *text) {
  struct by_plan *plan;
  assert_ok(by_plan_parse("p", text, strlen(text), &plan));
  return plan;
}

static void test_ring(void **state) {
  (void)state;
  assert_drawn(builtin("ring", 4), "\n"
                                   "all buffers\n"
                                   "  tree 0: 100 %, height 3, rotated over 4 positions, 25 % each; the first is\n"
                                   "    up:   0 ─── 3 ─── 2 ─── 1\n"
                                   "    down: 0 ─── 1 ─── 2 ─── 3\n");
}

static void test_branches(void **state) {
  (void)state;
  assert_drawn(builtin("double-tree", 6), "\n"
                                          "all buffers\n"
                                          "  tree 0: 50 %, height 2\n"
                                          "    3 ─┬─ 1 ─┬─ 0\n"
                                          "       │     └─ 2\n"
                                          "       └─ 5 ─── 4\n"
                                          "  tree 1: 50 %, height 2\n"
                                          "    2 ─┬─ 0 ─── 1\n"
                                          "       └─ 4 ─┬─ 3\n"
                                          "             └─ 5\n");
}

static void test_exchange(void **state) {
  (void)state;
  assert_drawn(builtin("exchange:3", 7), "\n"
                                         "all buffers\n"
                                         "  tree 0: 100 %, exchange among 6 in 2 steps\n"
                                         "    step 1: { 0 1 2 } { 3 4 5 }\n"
                                         "    step 2: { 0 3 } { 1 4 } { 2 5 }\n"
                                         "    first up and last down: 6→0\n");
}

static void test_names_kinds_and_classes(void **state) {
  (void)state;
  assert_drawn(parsed("{\"format\": \"banyan-plan 1\", \"vertices\": {\"é\": {\"kind\": \"rank\", \"rank\": 0},"
                      "\"b\": {\"kind\": \"rank\", \"rank\": 1}, \"sw\": {\"kind\": \"switch\"}},"
                      "\"classes\": [{\"up_to\": 1024, \"trees\": [{\"share\": 1, \"root\": \"é\", \"up\": "
                      "{\"b\": \"é\"}}]}, {\"trees\": [{\"share\": 1, \"rate\": 2e9, \"root\": \"sw\","
                      "\"up\": {\"é\": \"sw\", \"b\": \"sw\"}, \"down\": {\"é\": \"b\", \"b\": \"sw\"}}]}]}"),
               "    ranks: é=0 b=1\n"
               "\n"
               "buffers up to 1 KiB\n"
               "  tree 0: 100 %, height 1\n"
               "    é ─── b\n"
               "\n"
               "larger buffers\n"
               "  tree 0: 100 %, 2 Gbit/s, height 1 (down 2)\n"
               "    up:   sw (switch) ─┬─ é\n"
               "                       └─ b\n"
               "    down: sw (switch) ─── b ─── é\n");
}

/* Whatever the plan, lines stay short and few. */
static void test_large_plans_are_cut(void **state) {
  (void)state;
  const char *names[] = {"star", "chain", "ring", "tree:3", "halving", "doubling", "exchange", "exchange:7"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct by_plan *plan = builtin(names[i], 3000);
    struct by_text text;
    by_text_init(&text);
    assert_ok(by_plan_draw(plan, &text));
    size_t lines = 0, columns = 0;
    for (const char *c = by_text_get(&text); *c; c++) {
      columns = *c == '\n' ? 0 : columns + (((unsigned char)*c & 0xc0) != 0x80);
      lines += *c == '\n';
      assert_true(columns <= 110);
    }
    assert_true(lines < 120);
    assert_non_null(strstr(by_text_get(&text), "…"));
    by_text_fini(&text);
    by_plan_destroy(plan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ring),
      cmocka_unit_test(test_branches),
      cmocka_unit_test(test_exchange),
      cmocka_unit_test(test_names_kinds_and_classes),
      cmocka_unit_test(test_large_plans_are_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
