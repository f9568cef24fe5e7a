/* The keys that a process has now: what it takes from a file that was replaced, and until when the one before counts.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "job_keys.h"
#include "key_files.h"
#include "key_ring.h"

static char path[] = "/tmp/banyan-key-ring-XXXXXX";

static void derive(const char *text, struct by_job_keys *out) {
  assert_ok(by_job_keys_derive(text, NULL, out));
}

static void test_replaced_file(void **state) {
  (void)state;
  struct by_key_ring *ring;
  struct by_job_keys keys, first;
  char next[BY_JOB_KEY_MAX], last[BY_JOB_KEY_MAX], helper[BY_TICKET_KEY_TEXT], expected[BY_TICKET_KEY_TEXT];
  int64_t now = time(NULL);
  derive(JOB_KEY, &first);
  write_key_file(path, JOB_KEY "\n");
  assert_ok(by_key_ring_create(JOB_KEY, path, NULL, &ring));
  by_key_ring_get(ring, &keys);
  assert_memory_equal(&keys, &first, sizeof keys);
  assert_ok(by_job_key_rotate(JOB_KEY, now, now + 3600, next));
  write_key_file(path, next);
  by_key_ring_get(ring, &keys);
  assert_memory_not_equal(&keys.own, &first.own, sizeof keys.own);
  assert_memory_equal(&keys.old_own, &first.own, sizeof keys.own);
  assert_memory_equal(&keys.old_tickets, &first.tickets, sizeof keys.own);
  assert_int_equal(keys.until, now + 3600);
  assert_memory_equal(by_key_ring_job(ring), &first.job, sizeof first.job);
  assert_ok(by_key_ring_ticket_text(ring, helper));
  assert_ok(by_ticket_key_derive(next, expected));
  assert_string_equal(helper, expected);
  /* One whose time was over when it was replaced. */
  assert_ok(by_job_key_rotate(next, now + 3600, now - 1, last));
  write_key_file(path, last);
  by_key_ring_get(ring, &keys);
  struct by_handshake_options options = {.role = BY_ROLE_SERVER};
  by_job_keys_use(&keys, true, &options);
  assert_null(options.old_key);
  assert_null(options.old_tickets);
  static const struct by_key none;
  assert_memory_equal(&keys.old_own, &none, sizeof none);
  by_key_ring_destroy(ring);
  unlink(path);
}

/* How often a text is in the ring's pages. */
static int count_in_pages(const struct by_key_ring *ring, const char *text) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int n = 0;
  for (const char *at = (const char *)ring, *end = at + page, *found; /* the keys and their text are at its start */
       (found = memmem(at, (size_t)(end - at), text, strlen(text))); at = found + 1)
    n++;
  return n;
}

/* An old key that ends is wiped with the next use, and nothing else changes. */
static void test_old_key_is_wiped(void **state) {
  (void)state;
  struct by_key_ring *ring;
  struct by_job_keys keys;
  char next[BY_JOB_KEY_MAX], text[BY_JOB_KEY_MAX], old[BY_JOB_KEY_TEXT] = JOB_KEY;
  int64_t until = time(NULL) + 2;
  assert_ok(by_job_key_rotate(JOB_KEY, until - 2, until, next));
  write_key_file(path, next);
  assert_ok(by_key_ring_create(JOB_KEY, path, NULL, &ring));
  by_key_ring_get(ring, &keys);
  if (keys.until) assert_int_equal(count_in_pages(ring, old), 1);
  struct by_key before = keys.own;
  while (time(NULL) < until) usleep(20000);
  by_key_ring_get(ring, &keys);
  assert_int_equal(keys.until, 0);
  assert_int_equal(count_in_pages(ring, old), 0);
  assert_memory_equal(&keys.own, &before, sizeof before);
  by_key_ring_text(ring, text);
  assert_memory_equal(text, next, BY_JOB_KEY_TEXT - 1);
  assert_null(strstr(text, old));
  write_key_file(path, next); /* again, although it has ended */
  by_key_ring_get(ring, &keys);
  assert_int_equal(count_in_pages(ring, old), 0);
  assert_memory_equal(&keys.own, &before, sizeof before);
  by_key_ring_destroy(ring);
  unlink(path);
}

/* The file is replaced between the reading of the key and the ring's beginning. */
static void test_replaced_before(void **state) {
  (void)state;
  static const struct by_ticket_subject subject = {BY_TICKET_HELPER, "alice"};
  struct by_key_ring *ring;
  struct by_job_keys keys, first;
  char next[BY_JOB_KEY_MAX], older[BY_TICKET_TEXT], newer[BY_TICKET_TEXT];
  int64_t now = time(NULL);
  derive(JOB_KEY, &first);
  assert_ok(by_job_key_rotate(JOB_KEY, now, now + 3600, next));
  write_key_file(path, next);
  assert_ok(by_key_ring_create(JOB_KEY, path, NULL, &ring));
  by_key_ring_get(ring, &keys);
  assert_memory_not_equal(&keys.own, &first.own, sizeof keys.own);
  assert_memory_equal(&keys.old_own, &first.own, sizeof keys.own);
  by_key_ring_destroy(ring);
  /* A ticket that came in another way is newer than that of the file. */
  assert_ok(by_ticket_issue(&first.tickets, &subject, BY_TICKET_NEVER, older));
  assert_ok(by_ticket_issue(&first.tickets, &subject, BY_TICKET_NEVER, newer));
  write_key_file(path, older);
  struct by_ticket ticket;
  assert_ok(by_ticket_parse(newer, &ticket));
  assert_ok(by_key_ring_create(newer, path, &subject, &ring));
  by_key_ring_get(ring, &keys);
  assert_memory_equal(keys.ticket, ticket.head, sizeof ticket.head);
  by_key_ring_destroy(ring);
  unlink(path);
}

/* A helper with the job's key keeps the ticket that it has issued itself, so that others know it when the key is
 * replaced; one with a ticket gets the next one. */
static void test_helpers(void **state) {
  (void)state;
  static const struct by_ticket_subject subject = {BY_TICKET_HELPER, "alice"};
  struct by_key_ring *ring;
  struct by_job_keys before, after, rank;
  struct by_key secret;
  char next[BY_JOB_KEY_MAX], ticket[BY_TICKET_TEXT];
  int64_t now = time(NULL);
  write_key_file(path, JOB_KEY);
  assert_ok(by_key_ring_create(JOB_KEY, path, &subject, &ring));
  by_key_ring_get(ring, &before);
  assert_ok(by_job_key_rotate(JOB_KEY, now, now + 3600, next));
  write_key_file(path, next);
  by_key_ring_get(ring, &after);
  assert_memory_equal(before.ticket, after.ticket, sizeof before.ticket);
  assert_memory_equal(&after.old_own, &before.own, sizeof before.own);
  derive(next, &rank);
  assert_ok(by_ticket_prove(&rank.tickets, after.ticket, &secret));
  assert_memory_equal(&secret, &after.own, sizeof secret);
  assert_ok(by_ticket_issue(&rank.tickets, &subject, BY_TICKET_NEVER, ticket));
  by_key_ring_destroy(ring);
  write_key_file(path, ticket);
  assert_ok(by_key_ring_create(ticket, path, &subject, &ring));
  by_key_ring_get(ring, &before);
  assert_ok(by_ticket_issue(&rank.tickets, &subject, BY_TICKET_NEVER, ticket));
  write_key_file(path, ticket);
  by_key_ring_get(ring, &after);
  assert_memory_not_equal(before.ticket, after.ticket, sizeof before.ticket);
  assert_ok(by_ticket_prove(&rank.tickets, after.ticket, &secret));
  assert_memory_equal(&secret, &after.own, sizeof secret);
  by_key_ring_destroy(ring);
  unlink(path);
}

/* Whatever else is there in the place of the file, the process keeps what it has. */
static void test_other_files(void **state) {
  (void)state;
  struct by_key_ring *ring;
  struct by_job_keys keys, first;
  derive(JOB_KEY, &first);
  write_key_file(path, JOB_KEY);
  assert_ok(by_key_ring_create(JOB_KEY, path, NULL, &ring));
  static const char *const others[] = {"", "garbage", OTHER_JOB_KEY, "banyan_key_5a"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    write_key_file(path, others[i]);
    by_key_ring_get(ring, &keys);
    assert_memory_equal(&keys, &first, sizeof keys);
  }
  unlink(path);
  by_key_ring_get(ring, &keys);
  assert_memory_equal(&keys, &first, sizeof keys);
  by_key_ring_destroy(ring);
}

/* The memory of the keys has the flag "dd" (do not dump). */
static void test_core_dumps(void **state) {
  (void)state;
  struct by_key_ring *ring;
  assert_ok(by_key_ring_create(JOB_KEY, NULL, NULL, &ring));
  uintptr_t at = (uintptr_t)ring, from, to;
  char line[512];
  bool inside = false, excluded = false;
  FILE *maps = fopen("/proc/self/smaps", "re");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) inside = from <= at && at < to;
    if (inside && !strncmp(line, "VmFlags:", 8)) excluded = strstr(line, " dd") != NULL;
  }
  fclose(maps);
  assert_true(excluded);
  by_key_ring_destroy(ring);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_replaced_file),   cmocka_unit_test(test_old_key_is_wiped),
                                     cmocka_unit_test(test_replaced_before), cmocka_unit_test(test_helpers),
                                     cmocka_unit_test(test_other_files),     cmocka_unit_test(test_core_dumps)};
  int fd = mkstemp(path);
  if (fd < 0) return 1;
  close(fd);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
