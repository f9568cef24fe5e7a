#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

#include "acceptor.h"
#include "localsocket.h"
#include "socket.h"

static uint64_t hand_time = 1;

static int times_exhausted;

static uint64_t read_hand(void *context) {
  (void)context;
  return hand_time;
}

static const struct by_clock hand_clock = {read_hand, NULL};

struct owner {
  struct by_acceptor *acceptor;
  int taken;
  bool destroy;
};

static void on_accepted(void *context, int fd) {
  struct owner *owner = context;
  assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
  close(fd);
  owner->taken++;
  if (!owner->destroy) return;
  by_acceptor_destroy(owner->acceptor);
  owner->acceptor = NULL;
}

static struct by_loop *make_loop(void) {
  struct by_loop *loop;
  assert_ok(by_loop_create(&hand_clock, &loop));
  return loop;
}

static int listen_local(char *name, size_t room) {
  int fd;
  snprintf(name, room, "banyan-test-acceptor-%d", (int)getpid());
  assert_ok(by_local_listen(name, &fd));
  return fd;
}

static int connect_local(const char *name) {
  int fd;
  assert_ok(by_local_connect(name, &fd));
  return fd;
}

static void test_tcp(void **state) {
  (void)state;
  struct by_loop *loop = make_loop();
  struct by_address at, bound;
  struct by_port_range any = {0, 0};
  struct owner owner = {0};
  int listener, fd[3];
  assert_ok(by_address_parse("127.0.0.1:0", &at));
  assert_ok(by_socket_listen(&at, any, &listener, &bound));
  assert_ok(by_acceptor_create(loop, listener, on_accepted, &owner, &owner.acceptor));
  for (int i = 0; i < 3; i++) assert_ok(by_socket_connect_start(&bound, &fd[i]));
  for (int i = 0; i < 10000 && owner.taken < 3; i++) assert_ok(by_loop_run_once(loop, BY_MILLISECOND));
  assert_int_equal(owner.taken, 3);
  by_acceptor_destroy(owner.acceptor);
  by_acceptor_destroy(NULL);
  assert_int_equal(fcntl(listener, F_GETFD), -1);
  for (int i = 0; i < 3; i++) close(fd[i]);
  by_loop_destroy(loop);
}

static void test_destroyed_by_its_callback(void **state) {
  (void)state;
  char name[64];
  struct by_loop *loop = make_loop();
  struct owner owner = {.destroy = true};
  assert_ok(by_acceptor_create(loop, listen_local(name, sizeof name), on_accepted, &owner, &owner.acceptor));
  int a = connect_local(name), b = connect_local(name);
  assert_ok(by_loop_run_once(loop, 0));
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(owner.taken, 1);
  close(a);
  close(b);
  by_loop_destroy(loop);
}

static void test_out_of_descriptors(void **state) {
  (void)state;
  char name[64];
  struct by_loop *loop = make_loop();
  struct owner owner = {0};
  struct rlimit kept, none;
  assert_ok(by_acceptor_create(loop, listen_local(name, sizeof name), on_accepted, &owner, &owner.acceptor));
  int fd = connect_local(name);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
  none = kept;
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  enum banyan_status status = by_loop_run_once(loop, 0);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
  assert_ok(status);
  assert_int_equal(owner.taken, 0);
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(owner.taken, 0); /* rests, although there are descriptors again */
  hand_time += BY_SECOND;
  assert_ok(by_loop_run_once(loop, 0));
  assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(owner.taken, 1);
  by_acceptor_destroy(owner.acceptor);
  close(fd);
  by_loop_destroy(loop);
}

static struct rlimit limit_descriptors(rlim_t most) {
  struct rlimit kept, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
  few = kept;
  few.rlim_cur = most;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  return kept;
}

static void on_exhausted(void *context) {
  (void)context;
  times_exhausted++;
}

/* Seconds until the owner hears that there are no descriptors; hand_time passes in steps that end each rest. */
static int run_short(struct by_loop *loop, int seconds) {
  struct rlimit kept = limit_descriptors(0);
  int at = -1, before = times_exhausted;
  for (int s = 0; s < seconds; s++) {
    enum banyan_status status = by_loop_run_once(loop, 0);
    if (status == BANYAN_OK) status = by_loop_run_once(loop, 0);
    if (at < 0 && times_exhausted > before) at = s;
    if (status != BANYAN_OK) fail();
    hand_time += BY_SECOND;
  }
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
  return at;
}

/* A later shortage begins as the first one does: with a word in the log for each rest, before the owner hears of it. */
static void test_shortages_are_apart(void **state) {
  (void)state;
  char name[64];
  struct by_loop *loop = make_loop();
  struct owner owner = {0};
  assert_ok(by_acceptor_create(loop, listen_local(name, sizeof name), on_accepted, &owner, &owner.acceptor));
  by_acceptor_on_exhaustion(owner.acceptor, on_exhausted);
  int fds[4];
  fds[0] = connect_local(name);
  int first = run_short(loop, 8);
  assert_true(first >= 4);
  for (int i = 0; i < 3; i++) assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(owner.taken, 1);
  fds[1] = connect_local(name); /* soon after: the same shortage */
  assert_int_equal(run_short(loop, 2), 0);
  hand_time += 5 * BY_SECOND;
  for (int i = 0; i < 3; i++) assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(owner.taken, 2);
  fds[2] = connect_local(name);
  for (int i = 0; i < 3; i++) assert_ok(by_loop_run_once(loop, 0));
  assert_int_equal(owner.taken, 3);
  fds[3] = connect_local(name);
  assert_int_equal(run_short(loop, 8), first);
  by_acceptor_destroy(owner.acceptor);
  for (int i = 0; i < 4; i++) close(fds[i]);
  by_loop_destroy(loop);
}

static void test_unauthenticated_peers_leave_descriptors(void **state) {
  (void)state;
  struct rlimit kept, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
  few = kept;
  few.rlim_cur = 200;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  uint32_t most = by_acceptor_most_unauthenticated(1000), enough = by_acceptor_most_unauthenticated(49);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
  assert_int_equal(most, 50);
  assert_int_equal(enough, 49);
}

static void test_a_bad_listener(void **state) {
  (void)state;
  struct by_loop *loop = make_loop();
  struct by_acceptor *acceptor;
  assert_status(by_acceptor_create(loop, -1, on_accepted, NULL, &acceptor), BANYAN_ERR_SYSTEM);
  by_loop_destroy(loop);
}

int main(void) {
  setenv("BANYAN_LOG", "error", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tcp),
      cmocka_unit_test(test_destroyed_by_its_callback),
      cmocka_unit_test(test_out_of_descriptors),
      cmocka_unit_test(test_shortages_are_apart),
      cmocka_unit_test(test_unauthenticated_peers_leave_descriptors),
      cmocka_unit_test(test_a_bad_listener),
  };
  return cmocka_run_group_tests_name("acceptor", tests, NULL, NULL);
}
