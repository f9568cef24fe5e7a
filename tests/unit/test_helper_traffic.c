/* Tests that bytes that this process sends to itself over the loopback count at the loopback's address, and at no
 * other. */
#include "agent_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "socket.h"

enum { BYTES = 300000 };

static struct by_netlink sockets;
static int ends[2]; /* The two ends of a connection. */

static void make_connection(const char *listen_at, const char *to) {
  struct by_address at, bound, target;
  int listener;
  bool done = false;
  assert_ok(by_address_parse(listen_at, &at));
  assert_ok(by_socket_listen(&at, (struct by_port_range){0, 0}, &listener, &bound));
  assert_ok(by_address_parse(to, &target));
  by_address_set_port(&target, by_address_port(&bound));
  assert_ok(by_socket_connect_start(&target, &ends[0]));
  for (ends[1] = -1; ends[1] < 0; usleep(1000)) assert_ok(by_socket_accept(listener, &ends[1], NULL));
  while (!done) assert_ok(by_socket_connect_finish(ends[0], &target, &done));
  close(listener);
}

static void send_bytes(void) {
  static char bytes[BYTES];
  for (size_t sent = 0, received = 0; received < BYTES;) {
    ssize_t n = sent < BYTES ? write(ends[0], bytes, BYTES - sent) : 0;
    sent += n > 0 ? (size_t)n : 0;
    n = read(ends[1], bytes, sizeof bytes);
    received += n > 0 ? (size_t)n : 0;
  }
}

static void check_connection(const char *listen_at, const char *to, const char *address) {
  struct by_agent_counter counters[2] = {{.name = "other", .address = "10.1.2.3"}, {.name = "lo"}};
  snprintf(counters[1].address, sizeof counters[1].address, "%s", address);
  make_connection(listen_at, to);
  by_helper_process_add_traffic(&sockets, getpid(), counters, 2);
  assert_true(counters[1].helped_sent <= 2); /* The kernel counts the connection's beginning. */
  counters[1].helped_sent = counters[1].helped_received = 0;
  send_bytes();
  for (int i = 0; i < 200 && counters[1].helped_sent < BYTES; i++) { /* Wait until all bytes are acknowledged. */
    counters[1].helped_sent = counters[1].helped_received = 0;
    by_helper_process_add_traffic(&sockets, getpid(), counters, 2);
    usleep(5000);
  }
  assert_in_range(counters[1].helped_sent, BYTES, BYTES + 2);
  assert_int_equal(counters[1].helped_received, BYTES);
  assert_int_equal(counters[0].helped_sent + counters[0].helped_received, 0);
  close(ends[0]);
  close(ends[1]);
}

static void test_counts(void **state) {
  (void)state;
  check_connection("127.0.0.1:0", "127.0.0.1:1", "127.0.0.1");
  check_connection("[::]:0", "127.0.0.1:1", "127.0.0.1"); /* This is an IPv4 connection to an IPv6 socket. */
}

static void test_no_such_process(void **state) {
  struct by_agent_counter counter = {.address = "127.0.0.1"};
  (void)state;
  by_helper_process_add_traffic(&sockets, 0, &counter, 1);
  by_helper_process_add_traffic(&sockets, 1 << 30, &counter, 1);
  assert_int_equal(counter.helped_sent + counter.helped_received, 0);
}

static int open_sockets(void **state) {
  struct by_agent_counter counter = {.address = "127.0.0.1"};
  (void)state;
  if (by_netlink_open_protocol(&sockets, NETLINK_SOCK_DIAG, 0) != BANYAN_OK) {
    printf("skipped: %s\n", banyan_error_text());
    exit(77);
  }
  make_connection("127.0.0.1:0", "127.0.0.1:1");
  send_bytes();
  by_helper_process_add_traffic(&sockets, getpid(), &counter, 1);
  close(ends[0]);
  close(ends[1]);
  if (counter.helped_received == BYTES) return 0;
  printf("skipped: this kernel does not report the traffic of sockets (CONFIG_INET_TCP_DIAG)\n");
  exit(77);
}

static int close_sockets(void **state) {
  (void)state;
  by_netlink_close(&sockets);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_no_such_process)};
  return cmocka_run_group_tests(tests, open_sockets, close_sockets);
}
