#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#include "clock.h"
#include "launch_io.h"

/* What run-host or ssh may do in the end. */
static struct by_link start(int exit_code) {
  pid_t pid = fork();
  if (pid == 0) {
    if (exit_code >= 0) _exit(exit_code);
    for (;;) pause();
  }
  assert_true(pid > 0);
  return (struct by_link){.pid = pid};
}

static void test_what_ends_is_waited_for(void **state) {
  (void)state;
  struct by_link link = start(7);
  int status = by_link_wait(&link, by_clock_now(&by_clock_system) + 60 * BY_SECOND);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 7);
  assert_int_equal(link.pid, 0);
  assert_int_equal(by_link_wait(&link, UINT64_MAX), 0); /* once */
}

/* One time for all hosts: those that come after it are not waited for. */
static void test_what_stays_is_killed_in_time(void **state) {
  (void)state;
  struct by_link links[3];
  for (int i = 0; i < 3; i++) links[i] = start(-1);
  uint64_t until = by_clock_now(&by_clock_system) + 50 * BY_MILLISECOND;
  for (int i = 0; i < 3; i++) {
    int status = by_link_wait(&links[i], until);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_true(by_clock_now(&by_clock_system) >= until);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_ends_is_waited_for),
      cmocka_unit_test(test_what_stays_is_killed_in_time),
  };
  return cmocka_run_group_tests_name("launch_link", tests, NULL, NULL);
}
