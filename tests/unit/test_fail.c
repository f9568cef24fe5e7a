#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "fail.h"

static void text_and_status_are_kept(void **state) {
  assert_status(by_fail(BANYAN_ERR_PARSE, "%s:%d: share is %g", "plan.json", 3, 0.5), BANYAN_ERR_PARSE);
  assert_string_equal(banyan_error_text(), "plan.json:3: share is 0.5");
}

static void errno_reason_is_appended(void **state) {
  assert_status(by_fail_errno(BANYAN_ERR_SYSTEM, ENOENT, "open %s", "x"), BANYAN_ERR_SYSTEM);
  assert_string_equal(banyan_error_text(), "open x: No such file or directory");
}

static void context_comes_first(void **state) {
  assert_status(by_fail(BANYAN_ERR_CONNECT, "refused"), BANYAN_ERR_CONNECT);
  assert_status(by_fail_within(BANYAN_ERR_CONNECT, "rank %d", 2), BANYAN_ERR_CONNECT);
  assert_string_equal(banyan_error_text(), "rank 2: refused");
}

static void own_text_may_be_an_argument(void **state) {
  assert_status(by_fail(BANYAN_ERR_PLAN, "inner"), BANYAN_ERR_PLAN);
  assert_status(by_fail(BANYAN_ERR_PLAN, "outer (%s)", banyan_error_text()), BANYAN_ERR_PLAN);
  assert_string_equal(banyan_error_text(), "outer (inner)");
}

static void long_texts_are_cut(void **state) {
  char much[4000];
  memset(much, 'x', sizeof much - 1);
  much[sizeof much - 1] = 0;
  assert_status(by_fail(BANYAN_ERR_PARSE, "%s", much), BANYAN_ERR_PARSE);
  size_t length = strlen(banyan_error_text());
  assert_in_range(length, 500, sizeof much - 1);
  for (int i = 0; i < 10; i++) assert_status(by_fail_within(BANYAN_ERR_PARSE, "y"), BANYAN_ERR_PARSE);
  assert_memory_equal(banyan_error_text(), "y: y: ", 6);
  assert_int_equal(strlen(banyan_error_text()), length);
  assert_string_equal(banyan_error_text() + length - 6, "xxx...");
}

static void *fail_elsewhere(void *unused) {
  (void)!by_fail(BANYAN_ERR_TIMEOUT, "another thread's");
  return NULL;
}

static void each_thread_has_its_own(void **state) {
  pthread_t thread;
  assert_status(by_fail(BANYAN_ERR_AUTH, "mine"), BANYAN_ERR_AUTH);
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(banyan_error_text(), "mine");
}

static enum banyan_status tries(enum banyan_status inner, int *reached) {
  BY_TRY(inner);
  *reached = 1;
  return BANYAN_OK;
}

static void try_returns_on_failure_only(void **state) {
  int reached = 0;
  assert_status(tries(BANYAN_ERR_TIMEOUT, &reached), BANYAN_ERR_TIMEOUT);
  assert_int_equal(reached, 0);
  assert_ok(tries(BANYAN_OK, &reached));
  assert_int_equal(reached, 1);
}

static void every_status_has_a_name_of_its_own(void **state) {
  const enum banyan_status all[] = {
      BANYAN_OK,           BANYAN_ERR_ARGUMENT, BANYAN_ERR_UNSUPPORTED, BANYAN_ERR_NO_MEMORY,
      BANYAN_ERR_SYSTEM,   BANYAN_ERR_PARSE,    BANYAN_ERR_PLAN,        BANYAN_ERR_CONNECT,
      BANYAN_ERR_AUTH,     BANYAN_ERR_PROTOCOL, BANYAN_ERR_PEER_DEAD,   BANYAN_ERR_TIMEOUT,
      BANYAN_ERR_MISMATCH, BANYAN_ERR_ABORTED,  BANYAN_ERR_CLOSED,      BANYAN_ERR_TOPOLOGY};
  size_t n = sizeof all / sizeof *all;
  for (size_t i = 0; i < n; i++) {
    assert_string_not_equal(banyan_status_name(all[i]), "unknown status");
    for (size_t j = 0; j < i; j++) assert_string_not_equal(banyan_status_name(all[i]), banyan_status_name(all[j]));
  }
  assert_string_equal(banyan_status_name((enum banyan_status)12345), "unknown status");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_and_status_are_kept),    cmocka_unit_test(errno_reason_is_appended),
      cmocka_unit_test(context_comes_first),         cmocka_unit_test(own_text_may_be_an_argument),
      cmocka_unit_test(long_texts_are_cut),          cmocka_unit_test(each_thread_has_its_own),
      cmocka_unit_test(try_returns_on_failure_only), cmocka_unit_test(every_status_has_a_name_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
