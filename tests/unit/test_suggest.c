#include "check.h"
#include "text.h"

static const char *const names[] = {"run", "plan", "bench", "doctor", "version", "transport", "timeout", "help"};

static const char *suggest(const char *word) {
  const char *found = by_suggest(word, names, sizeof names / sizeof *names);
  return found ? found : "-";
}

static void test_near_names(void **state) {
  (void)state;
  assert_string_equal(suggest("rum"), "run");
  assert_string_equal(suggest("urn"), "run"); /* two letters swapped are one mistake */
  assert_string_equal(suggest("transprot"), "transport");
  assert_string_equal(suggest("tiemuot"), "timeout");
  assert_string_equal(suggest("vers"), "version"); /* the start of it */
  assert_string_equal(suggest("bnch"), "bench");
  assert_string_equal(suggest("doctorr"), "doctor");
}

static void test_far_names(void **state) {
  (void)state;
  assert_string_equal(suggest("xyzzy"), "-");
  assert_string_equal(suggest(""), "-");
  assert_string_equal(suggest("a very long word that is no name of anything at all"), "-");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_near_names),
      cmocka_unit_test(test_far_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
