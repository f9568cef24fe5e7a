/* Memberships, their successors, and quorums, as values. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "paxos_message.h"

enum { MEMBERS = 6 };

static struct by_membership *make(uint64_t tag, const char *name, const char *members, uint32_t n_excluded) {
  struct by_membership_member list[64] = {{.flags = 0}};
  struct by_membership from = {.tag = tag, .rule = BY_QUORUM_SURVIVORS, .members = list, .n_excluded = n_excluded};
  struct by_membership *made;
  from.n = (uint32_t)strlen(members) - n_excluded;
  strcpy(from.name, name);
  for (uint32_t i = 0; members[i]; i++) {
    list[i].fingerprint.bytes[31] = (uint8_t)members[i];
    list[i].flags = i < 2 && i < from.n ? BY_MEMBER_FOUNDER : 0;
  }
  enum banyan_status status = by_membership_create(&from, &made);
  if (status == BANYAN_OK) return made;
  assert_int_equal(status, BANYAN_ERR_ARGUMENT);
  return NULL;
}

/* Another job, name, order or list makes another number. */
static void test_numbers(void **state) {
  (void)state;
  static const struct {
    uint64_t tag;
    const char *name, *members;
  } cases[] = {{1, "a", "xyz"}, {2, "a", "xyz"}, {1, "b", "xyz"}, {1, "a", "xzy"}, {1, "a", "xy"}, {1, "ax", "yz"}};
  enum { CASES = sizeof cases / sizeof *cases };
  struct by_membership *made[CASES];
  for (int i = 0; i < CASES; i++) {
    made[i] = make(cases[i].tag, cases[i].name, cases[i].members, 0);
    assert_non_null(made[i]);
    for (int k = 0; k < i; k++) {
      assert_true(made[i]->number != made[k]->number);
      assert_false(by_membership_equal(made[i], made[k]));
    }
  }
  struct by_membership *same = make(1, "a", "xyz", 0);
  assert_true(same->number == made[0]->number && by_membership_equal(same, made[0]));
  by_membership_destroy(same);
  for (int i = 0; i < CASES; i++) by_membership_destroy(made[i]);
}

static void test_bad_memberships(void **state) {
  (void)state;
  assert_null(make(1, "", "xyz", 0));
  assert_null(make(1, "a\nb", "xyz", 0));
  assert_null(make(1, "a", "xyx", 0));
  assert_null(make(1, "a", "xyx", 1));
  assert_null(make(1, "a", "", 0));
  assert_non_null(strstr(banyan_error_text(), "0 members"));
}

static void test_used_names(void **state) {
  (void)state;
  struct by_used_names names = {0};
  char name[32];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "name %d", i * 7 % 1000);
    assert_ok(by_used_names_add(&names, name));
  }
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "name %d", i);
    assert_status(by_used_names_add(&names, name), BANYAN_ERR_ARGUMENT);
  }
  assert_non_null(strstr(banyan_error_text(), "\"name 999\" was already used"));
  assert_ok(by_used_names_add(&names, "another"));
  by_used_names_fini(&names);
}

/* ---- quorums */

static struct by_rank_set set_of(uint32_t n, uint64_t ranks) {
  struct by_rank_set set;
  assert_ok(by_rank_set_init(&set, n));
  set.words[0] = ranks;
  return set;
}

static bool holds(enum by_quorum_rule rule, uint32_t n, uint64_t votes, uint64_t dead) {
  struct by_rank_set voters = set_of(n, votes), gone = set_of(n, dead);
  bool well = by_quorum_holds(rule, &voters, &gone);
  by_rank_set_fini(&voters);
  by_rank_set_fini(&gone);
  return well;
}

/* Any two quorums by majority share a member; of two halves one is a quorum; and any two by proof share every member
 * that is alive at both. */
static void test_quorums(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= MEMBERS; n++)
    for (uint64_t a = 0; a < 1ull << n; a++) {
      uint64_t all = (1ull << n) - 1;
      bool quorum = holds(BY_QUORUM_MAJORITY, n, a, 0);
      assert_true(quorum != holds(BY_QUORUM_MAJORITY, n, all & ~a, 0));
      assert_int_equal(quorum, holds(BY_QUORUM_SURVIVORS, n, a, 0));
      assert_int_equal(holds(BY_QUORUM_NONE, n, a, 0), a != 0);
      for (uint64_t b = 0; b < 1ull << n; b++) {
        if (quorum && holds(BY_QUORUM_MAJORITY, n, b, 0)) assert_true(a & b);
        assert_int_equal(holds(BY_QUORUM_MAJORITY, n, a, b), quorum);
        assert_int_equal(holds(BY_QUORUM_SURVIVORS, n, a, b), quorum || (a && (a | b) == all));
      }
    }
}

static void test_quorum_texts(void **state) {
  (void)state;
  char text[BY_QUORUM_TEXT];
  enum by_quorum_rule rule;
  struct by_rank_set votes = set_of(6, 1 << 5), dead = set_of(6, 1 << 2);
  assert_string_equal(by_quorum_explain(BY_QUORUM_SURVIVORS, &votes, &dead, text),
                      "1 of 6 members answer and 1 are proven dead, but to go on takes 4, or half of them with rank 0, "
                      "or all that are not proven dead; ranks 0-1, 3-4 do not answer and may be alive");
  by_rank_set_fini(&votes);
  by_rank_set_fini(&dead);
  for (int i = 0; i < BY_QUORUM_RULES; i++) {
    assert_ok(by_quorum_rule_parse(by_quorum_rule_name((enum by_quorum_rule)i), &rule));
    assert_int_equal(rule, i);
  }
  assert_status(by_quorum_rule_parse("most", &rule), BANYAN_ERR_ARGUMENT);
}

/* ---- successors */

static enum banyan_status check(const char *members, uint32_t n_excluded, uint64_t kept, uint64_t excluded,
                                const char *added, bool settled, struct by_membership **out) {
  struct by_membership *before = make(1, "before", members, n_excluded);
  struct by_successor successor;
  assert_ok(by_successor_init(&successor, before));
  strcpy(successor.name, "after");
  successor.settled = settled;
  successor.kept.words[0] = kept;
  successor.excluded.words[0] = excluded;
  for (; *added; added++) {
    struct by_fingerprint fingerprint = {{0}};
    fingerprint.bytes[31] = (uint8_t)*added;
    assert_ok(by_successor_add(&successor, &fingerprint));
  }
  enum banyan_status status = by_successor_apply(&successor, before, out);
  by_successor_fini(&successor);
  by_membership_destroy(before);
  return status;
}

static void expect_members(const struct by_membership *membership, const char *members, const char *founders) {
  assert_int_equal(membership->n, strlen(members));
  for (uint32_t i = 0; i < membership->n; i++) {
    assert_int_equal(membership->members[i].fingerprint.bytes[31], members[i]);
    assert_int_equal(membership->members[i].flags, founders[i] == '1' ? BY_MEMBER_FOUNDER : 0);
  }
}

static void test_successors(void **state) {
  (void)state;
  struct by_membership *after;
  /* Of "abcd" only a and b are founders, unless it is settled. */
  assert_ok(check("abcd", 0, 0xb, 0x4, "ez", false, &after));
  expect_members(after, "abdez", "11000");
  assert_true(after->generation == 1 && after->n_excluded == 1 && after->members[5].fingerprint.bytes[31] == 'c');
  by_membership_destroy(after);
  assert_ok(check("abcd", 0, 0xc, 0, "e", true, &after));
  expect_members(after, "cde", "110");
  by_membership_destroy(after);
  assert_ok(check("abcd", 0, 0, 0, "daz", false, &after)); /* in another order */
  expect_members(after, "daz", "010");
  by_membership_destroy(after);
  /* Those excluded before stay so. */
  assert_ok(check("abcx", 1, 0x3, 0x8, "", false, &after));
  assert_true(after->n == 2 && after->n_excluded == 1 && after->members[2].fingerprint.bytes[31] == 'x');
  by_membership_destroy(after);
}

static void test_bad_successors(void **state) {
  (void)state;
  struct by_membership *after;
  assert_status(check("abcd", 0, 0, 0, "", false, &after), BANYAN_ERR_ARGUMENT);
  assert_status(check("abcd", 0, 0xc, 0, "e", false, &after), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "no founder"));
  assert_status(check("abcd", 0, 0x3, 0x2, "", false, &after), BANYAN_ERR_ARGUMENT);
  assert_status(check("abcd", 0, 0x3, 0, "ee", false, &after), BANYAN_ERR_ARGUMENT);
  assert_status(check("abcd", 0, 0x3, 0, "b", false, &after), BANYAN_ERR_ARGUMENT);
  assert_status(check("abcx", 1, 0x3, 0, "x", false, &after), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "excluded"));
  assert_status(check("abcd", 0, 0x3, 0x4, "c", false, &after), BANYAN_ERR_ARGUMENT);
}

/* Bits beyond the last rank, and messages about another membership. */
static void test_bad_bytes(void **state) {
  (void)state;
  struct by_membership *membership = make(1, "a", "abcde", 0), *other = make(1, "b", "abcde", 0);
  struct by_paxos_message message = {.kind = BY_PAXOS_PREPARE, .number = membership->number, .ballot = 5}, read;
  struct by_writer writer;
  uint8_t bytes[64];
  assert_ok(by_paxos_view_init(&message.view, membership));
  by_writer_init(&writer, bytes, sizeof bytes);
  by_paxos_message_write(&writer, &message);
  assert_ok(by_paxos_message_read(bytes, writer.length, membership, &read));
  by_paxos_view_fini(&read.view);
  assert_status(by_paxos_message_read(bytes, writer.length, other, &read), BANYAN_ERR_PROTOCOL);
  assert_non_null(strstr(banyan_error_text(), "is about membership"));
  assert_status(by_paxos_message_read(bytes, writer.length - 1, membership, &read), BANYAN_ERR_PROTOCOL);
  bytes[writer.length - 1] = 1 << 5;
  assert_status(by_paxos_message_read(bytes, writer.length, membership, &read), BANYAN_ERR_PROTOCOL);
  by_paxos_view_fini(&message.view);
  by_membership_destroy(membership);
  by_membership_destroy(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),        cmocka_unit_test(test_bad_memberships),
                                     cmocka_unit_test(test_used_names),     cmocka_unit_test(test_quorums),
                                     cmocka_unit_test(test_quorum_texts),   cmocka_unit_test(test_successors),
                                     cmocka_unit_test(test_bad_successors), cmocka_unit_test(test_bad_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
