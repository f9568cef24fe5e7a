#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "launch_io.h"

static char sh[] = "sh", c[] = "-c", empty[] = "", spaces[] = "a  b\n", a[] = "A=1", b[] = "B=";
static char *command[] = {sh, c, empty, spaces, NULL};
static char *environment[] = {a, b, NULL};
static const struct by_host_job sample = {
    .first = 3, .ranks = 2, .size = 9, .pin = -1, .directory = "/a b", .command = command, .environment = environment};

/* The payload of the frame, with a NUL behind it; the caller frees it. */
static char *send_sample(size_t *length) {
  struct by_outbox box;
  by_outbox_init(&box, -1, 0);
  by_host_job_send(&box, &sample);
  *length = box.end - 12;
  char *payload = calloc(1, *length + 1);
  memcpy(payload, box.data + 12, *length);
  by_outbox_fini(&box);
  return payload;
}

static void test_round_trip(void **state) {
  (void)state;
  size_t length;
  char *payload = send_sample(&length);
  struct by_host_job job;
  assert_ok(by_host_job_parse(payload, length, &job));
  assert_int_equal(job.first, 3);
  assert_int_equal(job.ranks, 2);
  assert_int_equal(job.size, 9);
  assert_int_equal(job.pin, -1);
  assert_string_equal(job.directory, "/a b");
  for (int i = 0; i < 4; i++) assert_string_equal(job.command[i], command[i]);
  assert_null(job.command[4]);
  for (int i = 0; i < 2; i++) assert_string_equal(job.environment[i], environment[i]);
  assert_null(job.environment[2]);
  by_host_job_fini(&job);
  free(payload);
}

/* No prefix is a job. */
static void test_cut_short(void **state) {
  (void)state;
  size_t length;
  char *payload = send_sample(&length);
  for (size_t n = 0; n < length; n++) {
    char *part = calloc(1, n + 1);
    struct by_host_job job;
    memcpy(part, payload, n);
    assert_int_not_equal(by_host_job_parse(part, n, &job), BANYAN_OK);
    free(part);
  }
  free(payload);
}

static void test_nonsense(void **state) {
  (void)state;
  static const char no_command[] = "0\0001\0001\0-1\0/\0000\0000";
  static const char no_ranks[] = "0\0000\0001\0-1\0/\0001\0x\0000";
  static const char endless[] = "0\0001\0001\0-1\0/\000999999999999";
  static const struct {
    const char *bytes;
    size_t length;
  } bad[] = {{no_command, sizeof no_command}, {no_ranks, sizeof no_ranks}, {endless, sizeof endless}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *payload = calloc(1, bad[i].length + 1);
    struct by_host_job job;
    memcpy(payload, bad[i].bytes, bad[i].length);
    assert_int_not_equal(by_host_job_parse(payload, bad[i].length, &job), BANYAN_OK);
    free(payload);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),
      cmocka_unit_test(test_cut_short),
      cmocka_unit_test(test_nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
