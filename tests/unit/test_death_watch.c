/* Tests of the kernel's proofs that processes have ended: which ends are reported, and what proves nothing. */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "death_watch.h"

enum { WAIT_MS = 20000, MOMENT_MS = 100 };

struct fixture {
  struct by_loop *loop;
  struct by_death_watch *watch;
  uint8_t id[BY_DEATH_ID], reported[BY_DEATH_ID];
  int reports;
};

static void dead(void *context, const uint8_t *id) {
  struct fixture *f = context;
  memcpy(f->reported, id, sizeof f->reported);
  f->reports++;
}

/* An identity that no process of another run has. */
static void make_id(uint8_t *id, uint8_t number) {
  int pid = (int)getpid();
  memset(id, number, BY_DEATH_ID);
  memcpy(id, &pid, sizeof pid);
}

static int set_up(void **state) {
  static struct fixture f;
  f = (struct fixture){.reports = 0};
  uint8_t self[BY_DEATH_ID];
  make_id(self, 0);
  make_id(f.id, 1);
  assert_ok(by_loop_create(&by_clock_system, &f.loop));
  assert_ok(by_death_watch_create(
      &(struct by_death_watch_options){.loop = f.loop, .self = self, .dead = dead, .context = &f}, &f.watch));
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  by_death_watch_destroy(f->watch);
  by_loop_destroy(f->loop);
  return 0;
}

static void run(struct fixture *f, int milliseconds, int until_reports) {
  uint64_t end = by_clock_now(&by_clock_system) + (uint64_t)milliseconds * BY_MILLISECOND;
  while (f->reports < until_reports && by_clock_now(&by_clock_system) < end)
    assert_ok(by_loop_run_once(f->loop, 10 * BY_MILLISECOND));
}

/* What a process that is watched does: listens, and answers visitors until it is killed. */
static void be_watched(const uint8_t *id, int ready) {
  struct by_loop *loop;
  struct by_death_watch *watch;
  bool well = by_loop_create(&by_clock_system, &loop) == BANYAN_OK &&
              by_death_watch_create(&(struct by_death_watch_options){.loop = loop, .self = id, .dead = dead}, &watch) ==
                  BANYAN_OK;
  (void)!write(ready, well ? "y" : "n", 1);
  if (well) (void)!by_loop_run(loop);
  _exit(1);
}

/* `flags`: namespaces for the process, made with clone() so that no handler of fork() runs. */
static pid_t start(const uint8_t *id, unsigned long flags) {
  int ready[2];
  char answer = 'n';
  assert_int_equal(pipe(ready), 0);
  pid_t child = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
  if (child == 0) be_watched(id, ready[1]);
  close(ready[1]);
  ssize_t n = child > 0 ? read(ready[0], &answer, 1) : 0;
  close(ready[0]);
  if (child > 0) assert_true(n == 1 && answer == 'y');
  return child;
}

static void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

/* Killed processes count once they have ended, not when somebody has waited for them. */
static void test_end_is_reported(void **state) {
  struct fixture *f = *state;
  pid_t child = start(f->id, 0);
  assert_ok(by_death_watch_add(f->watch, f->id));
  assert_ok(by_death_watch_add(f->watch, f->id)); /* Once more: no second report. */
  run(f, MOMENT_MS, 1);
  assert_int_equal(f->reports, 0);
  kill(child, SIGKILL);
  run(f, WAIT_MS, 1);
  assert_int_equal(f->reports, 1);
  assert_memory_equal(f->reported, f->id, sizeof f->id);
  run(f, MOMENT_MS, 2);
  assert_int_equal(f->reports, 1);
  waitpid(child, NULL, 0);
}

static void test_stopped_process_lives(void **state) {
  struct fixture *f = *state;
  pid_t child = start(f->id, 0);
  kill(child, SIGSTOP);
  assert_ok(by_death_watch_add(f->watch, f->id)); /* It need not answer for that. */
  run(f, MOMENT_MS, 1);
  assert_int_equal(f->reports, 0);
  end(child);
  run(f, WAIT_MS, 1);
  assert_int_equal(f->reports, 1);
}

/* A process of which only the name is known may be on another host that is a copy of this one. */
static void test_unknown_process_proves_nothing(void **state) {
  struct fixture *f = *state;
  assert_status(by_death_watch_add(f->watch, f->id), BANYAN_ERR_CONNECT);
  pid_t child = start(f->id, 0);
  end(child);
  assert_status(by_death_watch_add(f->watch, f->id), BANYAN_ERR_CONNECT);
  run(f, MOMENT_MS, 1);
  assert_int_equal(f->reports, 0);
}

static bool is_other(void *context, const uint8_t *id) {
  return memcmp(context, id, BY_DEATH_ID) != 0;
}

static void test_removed_process_is_not_reported(void **state) {
  struct fixture *f = *state;
  pid_t child = start(f->id, 0);
  assert_ok(by_death_watch_add(f->watch, f->id));
  by_death_watch_prune(f->watch, is_other, f->id);
  end(child);
  run(f, MOMENT_MS, 1);
  assert_int_equal(f->reports, 0);
}

/* Of two processes the right one is reported. */
static void test_right_one_is_reported(void **state) {
  struct fixture *f = *state;
  uint8_t other[BY_DEATH_ID];
  make_id(other, 2);
  pid_t first = start(f->id, 0), second = start(other, 0);
  assert_ok(by_death_watch_add(f->watch, f->id));
  assert_ok(by_death_watch_add(f->watch, other));
  end(second);
  run(f, WAIT_MS, 1);
  assert_memory_equal(f->reported, other, sizeof other);
  end(first);
  run(f, WAIT_MS, 2);
  assert_memory_equal(f->reported, f->id, sizeof f->id);
}

/* In a namespace of its own, the process has the number of another one here. */
static void test_process_of_another_namespace(void **state) {
  struct fixture *f = *state;
  pid_t child = start(f->id, CLONE_NEWPID);
  if (child < 0) skip();
  enum banyan_status status = by_death_watch_add(f->watch, f->id);
  run(f, MOMENT_MS, 1);
  assert_int_equal(f->reports, 0);
  end(child);
  run(f, MOMENT_MS, 1);
  if (status == BANYAN_ERR_UNSUPPORTED) skip(); /* A kernel that knows it by number only. */
  assert_ok(status);
  run(f, WAIT_MS, 1);
  assert_int_equal(f->reports, 1);
}

/* Others cannot connect to it here, nor is it known to have ended. */
static void test_process_of_another_network(void **state) {
  struct fixture *f = *state;
  pid_t child = start(f->id, CLONE_NEWNET);
  if (child < 0) skip();
  assert_status(by_death_watch_add(f->watch, f->id), BANYAN_ERR_CONNECT);
  end(child);
}

static void test_identity_is_used_once(void **state) {
  struct fixture *f = *state;
  struct by_death_watch *second;
  pid_t child = start(f->id, 0);
  assert_status(
      by_death_watch_create(
          &(struct by_death_watch_options){.loop = f->loop, .self = f->id, .dead = dead, .context = f}, &second),
      BANYAN_ERR_SYSTEM);
  end(child);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_end_is_reported),
      TEST(test_stopped_process_lives),
      TEST(test_unknown_process_proves_nothing),
      TEST(test_removed_process_is_not_reported),
      TEST(test_right_one_is_reported),
      TEST(test_process_of_another_namespace),
      TEST(test_process_of_another_network),
      TEST(test_identity_is_used_once),
  };
  return cmocka_run_group_tests_name("death_watch", tests, NULL, NULL);
}
