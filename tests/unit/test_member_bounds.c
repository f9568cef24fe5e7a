/* What a member's service keeps of other processes is bounded, and nothing is lost below the bound. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "check.h"
#include "member_records.h"

static struct by_fingerprint process(uint32_t i) {
  struct by_fingerprint fingerprint = {{0}};
  by_put_u64(fingerprint.bytes, 1 + i);
  return fingerprint;
}

/* Each proof is remembered until more than any membership has members have come since. */
static void test_facts(void **state) {
  (void)state;
  struct by_facts facts = {0};
  for (uint32_t i = 0; i < BY_FACTS_MOST; i++) {
    struct by_fingerprint fingerprint = process(i);
    by_facts_note(&facts, &fingerprint, "processes of a test");
    by_facts_note(&facts, &fingerprint, "processes of a test");
  }
  for (uint32_t i = 0; i < BY_FACTS_MOST; i++) {
    struct by_fingerprint fingerprint = process(i);
    assert_true(by_facts_has(&facts, &fingerprint));
  }
  struct by_fingerprint first = process(0), second = process(1), last = process(BY_FACTS_MOST);
  by_facts_note(&facts, &last, "processes of a test");
  assert_false(by_facts_has(&facts, &first));
  assert_true(by_facts_has(&facts, &second));
  assert_true(by_facts_has(&facts, &last));
  by_facts_fini(&facts);
  assert_false(by_facts_has(&facts, &last));
}

static void test_newcomers(void **state) {
  (void)state;
  struct by_newcomers newcomers = {0};
  for (uint32_t i = 0; i < BY_NEWCOMERS_MOST; i++) {
    struct by_fingerprint fingerprint = process(i);
    assert_ok(by_newcomers_add(&newcomers, &fingerprint));
  }
  struct by_fingerprint more = process(BY_NEWCOMERS_MOST), some = process(17);
  assert_status(by_newcomers_add(&newcomers, &more), BANYAN_ERR_CLOSED);
  assert_non_null(strstr(banyan_error_text(), "ask another member"));
  assert_true(by_newcomers_remove(&newcomers, &some));
  assert_false(by_newcomers_remove(&newcomers, &some));
  assert_ok(by_newcomers_add(&newcomers, &more));
  assert_true(by_newcomers_has(&newcomers, &more));
  assert_false(by_newcomers_has(&newcomers, &some));
  by_newcomers_fini(&newcomers);
  assert_int_equal(newcomers.n, 0);
}

struct taken {
  uint32_t n;
  struct by_report last[8];
};

static void take(void *context, const struct by_report *report) {
  struct taken *taken = context;
  if (taken->n < 8) taken->last[taken->n] = *report;
  taken->n++;
}

/* Reports that are repeated while they wait are one, with the last time; different ones come in their order. */
static void test_repeated_reports(void **state) {
  (void)state;
  struct by_reports reports;
  struct taken taken = {0};
  struct by_report dead = {.kind = BY_REPORT_DEAD, .process = process(1)};
  struct by_report suspected = {.kind = BY_REPORT_SUSPECTED, .process = process(1)};
  struct by_report awaited = {.kind = BY_REPORT_AWAITED, .number = 5, .rank = 3, .since = 10};
  by_reports_init(&reports);
  assert_true(by_reports_add(&reports, &dead));
  assert_false(by_reports_add(&reports, &suspected));
  for (int i = 0; i < 5000; i++) {
    assert_false(by_reports_add(&reports, &dead));
    awaited.since++;
    assert_false(by_reports_add(&reports, &awaited));
  }
  by_reports_take(&reports, take, &taken);
  assert_int_equal(taken.n, 3);
  assert_int_equal(taken.last[0].kind, BY_REPORT_DEAD);
  assert_int_equal(taken.last[1].kind, BY_REPORT_SUSPECTED);
  assert_int_equal(taken.last[2].kind, BY_REPORT_AWAITED);
  assert_int_equal(taken.last[2].since, 5010);
  assert_true(by_reports_add(&reports, &dead)); /* the taker is told anew, */
  by_reports_retry(&reports);                   /* but could not be */
  assert_true(by_reports_add(&reports, &dead));
  by_reports_fini(&reports);
}

/* Far more reports than an event loop takes tasks wait without loss, and beyond the bound there is an end. */
static void test_many_reports(void **state) {
  (void)state;
  struct by_reports reports;
  struct taken taken = {0};
  by_reports_init(&reports);
  for (uint32_t i = 0; i <= BY_REPORTS_MOST; i++) {
    struct by_report dead = {.kind = BY_REPORT_DEAD, .process = process(i)};
    assert_int_equal(by_reports_add(&reports, &dead), i == 0);
  }
  by_reports_take(&reports, take, &taken);
  assert_int_equal(taken.n, BY_REPORTS_MOST);
  by_reports_fini(&reports);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_facts),
      cmocka_unit_test(test_newcomers),
      cmocka_unit_test(test_repeated_reports),
      cmocka_unit_test(test_many_reports),
  };
  return cmocka_run_group_tests_name("member bounds", tests, NULL, NULL);
}
