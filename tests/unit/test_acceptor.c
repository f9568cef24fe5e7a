/* Tests of accepting connections, and of which connections are closed when many have not authenticated. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acceptor.h"
#include "check.h"
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
  assert_int_equal(owner.taken, 0); /* The acceptor still rests, although descriptors are available again. */
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

/* Returns the seconds until the owner is notified that there are no descriptors. hand_time passes in steps that end
 * each rest. */
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

/* A later shortage begins as the first one does: each rest is logged before the owner is notified of the shortage. */
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
  fds[1] = connect_local(name); /* This is soon after, so it is the same shortage. */
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
  uint32_t most = by_acceptor_max_unauthenticated(1000), enough = by_acceptor_max_unauthenticated(49);
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

/* The tests below check which connection is closed when many have not authenticated. */

enum { MOST = 32, MANY = 500 };

struct peer {
  struct by_admission_entry entry;
  int client, server, evictions;
};

static struct by_admission admission;
static struct peer peers[MANY + 2];
static int listener;

static void on_evicted(void *context) {
  struct peer *peer = context;
  peer->evictions++;
}

/* Makes a connection from the loopback address whose last byte is given. */
static struct peer *come_from(size_t i, uint8_t last) {
  struct peer *peer = &peers[i];
  struct sockaddr_in at, from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u | last)};
  socklen_t length = sizeof at;
  assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &length), 0);
  peer->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(peer->client, (struct sockaddr *)&from, sizeof from), 0);
  assert_int_equal(connect(peer->client, (struct sockaddr *)&at, length), 0);
  peer->server = accept(listener, NULL, NULL);
  assert_true(peer->server >= 0);
  peer->entry = (struct by_admission_entry){.evicted = on_evicted, .context = peer};
  by_admission_enter(&admission, &peer->entry, peer->server);
  return peer;
}

static int set_up(void **state) {
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&any, sizeof any), 0);
  assert_int_equal(listen(listener, 16), 0);
  by_admission_init(&admission, MOST);
  return 0;
}

static int tear_down(void **state) {
  for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
    if (!peers[i].client) continue;
    by_admission_leave(&peers[i].entry);
    close(peers[i].client);
    close(peers[i].server);
    peers[i] = (struct peer){0};
  }
  assert_int_equal(by_admission_count(&admission), 0);
  close(listener);
  return 0;
}

static void test_the_oldest_goes(void **state) {
  for (size_t i = 0; i < MOST + 2; i++) come_from(i, 1);
  assert_int_equal(by_admission_count(&admission), MOST);
  for (size_t i = 0; i < MOST + 2; i++) assert_int_equal(peers[i].evictions, i < 2);
}

static void test_silent_peers_do_not_displace_one_that_has_greeted(void **state) {
  struct peer *slow = come_from(MANY, 1);
  by_admission_greeted(&slow->entry);
  for (size_t i = 0; i < MANY; i++) come_from(i, 1);
  assert_int_equal(slow->evictions, 0);
  assert_int_equal(by_admission_count(&admission), MOST);
}

static void test_greetings_do_not_displace_one_that_is_about_to_greet(void **state) {
  struct peer *slow = come_from(MANY, 1);
  for (size_t i = 0; i < MANY; i++) by_admission_greeted(&come_from(i, 1)->entry);
  assert_int_equal(slow->evictions, 0);
  assert_int_equal(by_admission_count(&admission), MOST);
}

static void test_a_host_displaces_its_own(void **state) {
  uint8_t other = 2; /* Another address may count as the same source; then the next one is tried. */
  struct peer *silent = come_from(MANY, 1);
  while (come_from(MANY + 1, other)->entry.source == silent->entry.source) {
    by_admission_leave(&peers[MANY + 1].entry);
    close(peers[MANY + 1].client);
    close(peers[MANY + 1].server);
    other++;
  }
  for (size_t i = 0; i < MANY; i++) {
    come_from(i, other);
    if (i % 2) by_admission_greeted(&peers[i].entry);
  }
  assert_int_equal(silent->evictions, 0);
  assert_int_equal(peers[MANY + 1].evictions, 1);
}

static void test_authenticated_peers_stay(void **state) {
  struct peer *known = come_from(MANY, 1);
  by_admission_greeted(&known->entry);
  by_admission_leave(&known->entry);
  by_admission_leave(&known->entry);
  by_admission_greeted(&known->entry);
  assert_int_equal(by_admission_count(&admission), 0);
  for (size_t i = 0; i < MANY; i++) come_from(i, 1);
  assert_int_equal(known->evictions, 0);
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
      cmocka_unit_test_setup_teardown(test_the_oldest_goes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_silent_peers_do_not_displace_one_that_has_greeted, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_greetings_do_not_displace_one_that_is_about_to_greet, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_host_displaces_its_own, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_authenticated_peers_stay, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("acceptor", tests, NULL, NULL);
}
