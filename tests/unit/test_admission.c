/* Which connection is closed when many have not authenticated. */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#include "acceptor.h"

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

/* A connection from this loopback address, the last byte of which is given. */
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
  uint8_t other = 2; /* another address may count as the same source: then the next one is tried */
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

static void test_who_has_authenticated_stays(void **state) {
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
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_the_oldest_goes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_silent_peers_do_not_displace_one_that_has_greeted, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_greetings_do_not_displace_one_that_is_about_to_greet, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_host_displaces_its_own, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_who_has_authenticated_stays, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
