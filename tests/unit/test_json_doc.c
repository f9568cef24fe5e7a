/* Tests of values of each kind and of the positions in errors. The tests of the readers of plans and topologies cover
 * the rest. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json_doc.h"

static const struct by_doc_limits limits = {.bytes = 1000, .containers = 5, .elements = 10};

static void test_values(void **state) {
  (void)state;
  static const char text[] =
      "{\"t\": true, \"n\": -2.5, \"s\": \"20ms\", \"r\": \"10g\", \"a\": [1, null], \"b\": \"4K\"}";
  json_t *root;
  double number;
  bool flag;
  uint64_t bytes;
  const struct by_doc_path top = {.field = "d.json"}, at = {.above = &top, .field = "a"},
                           one = {.above = &at, .index = 1};
  assert_ok(by_doc_load("d.json", text, strlen(text), &limits, &root));
  assert_ok(by_doc_bool(&top, json_object_get(root, "t"), &flag));
  assert_true(flag);
  assert_ok(by_doc_number(&top, json_object_get(root, "n"), &number));
  assert_true(number == -2.5);
  assert_ok(by_doc_seconds(&top, json_object_get(root, "s"), &number));
  assert_true(number == 0.02);
  assert_ok(by_doc_rate(&top, json_object_get(root, "r"), &number));
  assert_true(number == 1e10);
  assert_ok(by_doc_bytes(&top, json_object_get(root, "b"), 4096, &bytes));
  assert_int_equal(bytes, 4096);
  json_t *null = json_array_get(json_object_get(root, "a"), 1);
  assert_status(by_doc_bool(&one, null, &flag), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "d.json: a[1]: must be true or false, is null");
  assert_status(by_doc_number(&one, null, &number), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "d.json: a[1]: must be a number, is null");
  assert_status(by_doc_seconds(&one, json_object_get(root, "r"), &number), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "d.json: a[1]: \"10g\" is not a time such as 20ms, 3us, 1.5s or 2min");
  assert_status(by_doc_seconds(&at, json_object_get(root, "n"), &number), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "d.json: a: is -2.5, must be 0 or more");
  json_decref(root);
}

static void test_limits(void **state) {
  (void)state;
  static const char *const texts[] = {"[[[[[[]]]]]]", "[1,2,3,4,5,6,7,8,9,10,11,12]"};
  json_t *root;
  char spaces[1001];
  for (size_t i = 0; i < 2; i++)
    assert_status(by_doc_load("d", texts[i], strlen(texts[i]), &limits, &root), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "d: too large: at most 1000 bytes, 5 objects and arrays, 10 elements");
  memset(spaces, ' ', sizeof spaces);
  assert_status(by_doc_load("d", spaces, sizeof spaces, &limits, &root), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "too large"));
  assert_status(by_doc_load("d", "{\n \"a\" 1}", 9, &limits, &root), BANYAN_ERR_PARSE);
  assert_non_null(strstr(banyan_error_text(), "d:2:6: "));
  assert_status(by_doc_load("d", "{\"a\": 1, \"a\": 1}", 16, &limits, &root), BANYAN_ERR_PARSE);
}

static void test_printed(void **state) {
  (void)state;
  static const double numbers[] = {0,        -1,       1e10, 0.1,   1.0 / 3,           1e300,       5e-324,
                                   1e15 - 1, 1 - 1e15, 1e15, -1e15, 9007199254740992., -1234567.25, 123456789.125};
  struct by_text text;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    by_text_init(&text);
    by_json_add_real(&text, numbers[i]);
    assert_true(strtod(by_text_get(&text), NULL) == numbers[i]);
    by_text_fini(&text);
  }
  by_text_init(&text);
  by_json_add_string(&text, "a\"b\\c\xc3\xa9");
  by_json_add_real(&text, 1e10);
  by_json_add_real(&text, -0.0);
  by_json_add_real(&text, -120);
  assert_string_equal(by_text_get(&text), "\"a\\\"b\\\\c\xc3\xa9\"100000000000-120");
  by_text_fini(&text);
}

static void test_several(void **state) {
  (void)state;
  static const char text[] = " {\"a\": 1}\n[2] {\n\"b\" 3}";
  size_t at = 0, length = strlen(text);
  json_t *document;
  assert_ok(by_doc_load_next("s", text, length, &limits, &at, &document));
  assert_true(json_is_object(document));
  json_decref(document);
  assert_int_equal(text[at], '[');
  assert_ok(by_doc_load_next("s", text, length, &limits, &at, &document));
  assert_true(json_is_array(document));
  json_decref(document);
  assert_status(by_doc_load_next("s", text, length, &limits, &at, &document), BANYAN_ERR_PARSE);
  assert_memory_equal(banyan_error_text(), "s:3:", 4); /* Lines are counted from the beginning. */
  at = 0;
  assert_status(by_doc_load_next("s", "[[[[[[[[[[[]", 12, &limits, &at, &document), BANYAN_ERR_PARSE);
  assert_memory_equal(banyan_error_text(), "s: too large", 12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_printed),
      cmocka_unit_test(test_several),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
