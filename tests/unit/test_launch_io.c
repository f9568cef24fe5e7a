#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "launch_io.h"
#include "rng.h"

/* Frames of all sizes through a pipe, in whatever pieces it takes them. */
static void test_frames_come_through(void **state) {
  (void)state;
  enum { FRAMES = 400, MOST = 300000 };
  int ends[2];
  char *bytes = malloc(MOST);
  struct by_rng rng, again;
  struct by_outbox out;
  struct by_inbox in = {0};
  struct by_launch_frame frame;
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  by_rng_init(&rng, 5);
  by_rng_init(&again, 5);
  by_outbox_init(&out, ends[1], SIZE_MAX);
  int sent = 0, got = 0;
  while (got < FRAMES) {
    if (sent < FRAMES) {
      size_t length = (size_t)by_rng_below(&rng, by_rng_below(&rng, 4) ? 100 : MOST);
      memset(bytes, 'a' + sent % 26, length);
      by_outbox_frame(&out, BY_LAUNCH_STDOUT, (uint32_t)sent++, bytes, length);
    }
    by_outbox_flush(&out);
    assert_true(by_inbox_fill(&in, ends[0]));
    int found;
    while ((found = by_inbox_next(&in, &frame)) > 0) {
      size_t length = (size_t)by_rng_below(&again, by_rng_below(&again, 4) ? 100 : MOST);
      assert_int_equal(frame.type, BY_LAUNCH_STDOUT);
      assert_int_equal(frame.number, got);
      assert_int_equal(frame.length, length);
      assert_int_equal(strlen(frame.payload), length); /* NUL behind it */
      for (size_t i = 0; i < length; i++) assert_int_equal(frame.payload[i], 'a' + got % 26);
      got++;
    }
    assert_int_equal(found, 0);
  }
  assert_int_equal(by_outbox_waiting(&out), 0);
  close(ends[1]);
  assert_false(by_inbox_fill(&in, ends[0]));
  close(ends[0]);
  by_outbox_fini(&out);
  by_inbox_fini(&in);
  free(bytes);
}

static int next_of(const char *bytes, size_t length) {
  int ends[2];
  struct by_inbox in = {0};
  struct by_launch_frame frame;
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(write(ends[1], bytes, length), length);
  assert_true(by_inbox_fill(&in, ends[0]));
  int found = by_inbox_next(&in, &frame);
  by_inbox_fini(&in);
  close(ends[0]);
  close(ends[1]);
  return found;
}

static void test_what_is_no_frame(void **state) {
  (void)state;
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\1\0\0", 11), 0);   /* half a header */
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\1\0\0\0", 12), 0); /* no payload yet */
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\1\0\0\0x", 13), 1);
  assert_int_equal(next_of("\0\0\0\0\0\0\0\0\0\0\0\0", 12), -1);         /* no such type */
  assert_int_equal(next_of("\2\0\0\0\0\0\0\0\377\377\377\177", 12), -1); /* too long */
  assert_int_equal(next_of("Permission denied, please try again", 35), -1);
}

static void test_reader_gone(void **state) {
  (void)state;
  int ends[2];
  struct by_outbox out;
  signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  by_outbox_init(&out, ends[1], SIZE_MAX);
  close(ends[0]);
  by_outbox_add(&out, "x", 1);
  by_outbox_flush(&out);
  assert_true(out.closed);
  by_outbox_add(&out, "y", 1); /* dropped */
  assert_int_equal(by_outbox_waiting(&out), 0);
  close(ends[1]);
  by_outbox_fini(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_frames_come_through),
      cmocka_unit_test(test_what_is_no_frame),
      cmocka_unit_test(test_reader_gone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
