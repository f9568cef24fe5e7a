#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#include "socket.h"

static const struct by_port_range any_port = {0, 0};

static struct by_address address_of(const char *text) {
  struct by_address address;
  assert_ok(by_address_parse(text, &address));
  return address;
}

static void wait_for(int fd, short events) {
  struct pollfd poll_fd = {.fd = fd, .events = events};
  assert_int_equal(poll(&poll_fd, 1, 10000), 1);
}

static int accept_one(int listener, struct by_address *peer) {
  int fd;
  wait_for(listener, POLLIN);
  assert_ok(by_socket_accept(listener, &fd, peer));
  assert_true(fd >= 0);
  return fd;
}

static int connect_to(const struct by_address *to) {
  int fd;
  bool done;
  assert_ok(by_socket_connect_start(to, &fd));
  wait_for(fd, POLLOUT);
  assert_ok(by_socket_connect_finish(fd, to, &done));
  assert_true(done);
  return fd;
}

struct pair {
  int listener, near, far;
  struct by_address bound;
};

static void open_pair(struct pair *pair, const char *text) {
  struct by_address at = address_of(text);
  assert_ok(by_socket_listen(&at, any_port, &pair->listener, &pair->bound));
  pair->near = connect_to(&pair->bound);
  pair->far = accept_one(pair->listener, NULL);
}

static void close_all(struct pair *pair) {
  close(pair->listener);
  close(pair->near);
  close(pair->far);
}

static void check_flags(int fd) {
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static bool has_ipv6(void) {
  struct by_address at = address_of("[::1]:0"), bound;
  int fd;
  if (by_socket_listen(&at, any_port, &fd, &bound) != BANYAN_OK) return false;
  close(fd);
  return true;
}

static void check_family(const char *text) {
  struct pair pair;
  open_pair(&pair, text);
  check_flags(pair.listener);
  check_flags(pair.near);
  check_flags(pair.far);
  assert_int_not_equal(by_address_port(&pair.bound), 0);
  struct by_address a, b;
  assert_ok(by_socket_get_local(pair.near, &a));
  assert_ok(by_socket_get_peer(pair.far, &b));
  assert_int_equal(by_address_compare(&a, &b), 0);
  char byte = 0;
  assert_int_equal(write(pair.near, "x", 1), 1);
  wait_for(pair.far, POLLIN);
  assert_int_equal(read(pair.far, &byte, 1), 1);
  assert_int_equal(byte, 'x');
  int none;
  assert_ok(by_socket_accept(pair.listener, &none, NULL));
  assert_int_equal(none, -1);
  close_all(&pair);
}

static void test_connect_and_accept(void **state) {
  (void)state;
  check_family("127.0.0.1:0");
  if (has_ipv6()) check_family("[::1]:0");
}

static void test_any_address_takes_both_families(void **state) {
  (void)state;
  int listener, fd;
  struct by_address bound, peer, to = address_of("127.0.0.1:1");
  assert_ok(by_socket_listen(NULL, any_port, &listener, &bound));
  assert_true(by_address_is_any(&bound));
  by_address_set_port(&to, by_address_port(&bound));
  int near = connect_to(&to);
  fd = accept_one(listener, &peer);
  assert_int_equal(by_address_family(&peer), AF_INET); /* The address is not ::ffff:127.0.0.1. */
  assert_ok(by_socket_set_tos(fd, 0x20));              /* The IPv6 socket carries IPv4. */
  close(near);
  close(fd);
  if (by_address_family(&bound) == AF_INET6) {
    to = address_of("[::1]:1");
    by_address_set_port(&to, by_address_port(&bound));
    near = connect_to(&to);
    fd = accept_one(listener, &peer);
    assert_int_equal(by_address_family(&peer), AF_INET6);
    close(near);
    close(fd);
  }
  close(listener);
}

static void test_no_listener(void **state) {
  (void)state;
  struct by_address at = address_of("127.0.0.1:0"), bound;
  int fd;
  bool done;
  assert_ok(by_socket_listen(&at, any_port, &fd, &bound));
  close(fd); /* Now the port is known to be free. */
  enum banyan_status status = by_socket_connect_start(&bound, &fd);
  if (status == BANYAN_OK) {
    wait_for(fd, POLLOUT);
    status = by_socket_connect_finish(fd, &bound, &done);
    close(fd);
  }
  assert_status(status, BANYAN_ERR_CONNECT);
  assert_non_null(strstr(banyan_error_text(), "127.0.0.1"));
  assert_non_null(strstr(banyan_error_text(), "nobody listens"));
}

/* A socket that is bound to a free port and connects to this port is connected to itself. */
static void test_connected_to_oneself(void **state) {
  (void)state;
  struct by_address at = address_of("127.0.0.1:0"), bound;
  bool done = true;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&at.storage, at.length), 0);
  assert_ok(by_socket_get_local(fd, &bound));
  assert_int_equal(connect(fd, (struct sockaddr *)&bound.storage, bound.length), 0);
  assert_status(by_socket_connect_finish(fd, &bound, &done), BANYAN_ERR_CONNECT);
  assert_false(done);
  close(fd);
}

static void test_unfinished_is_not_done(void **state) {
  (void)state;
  struct by_address to = address_of("127.0.0.1:9");
  bool done = true;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  assert_ok(by_socket_connect_finish(fd, &to, &done));
  assert_false(done);
  close(fd);
}

static void test_port_ranges(void **state) {
  (void)state;
  enum { PORTS = 4 };
  struct by_address at = address_of("127.0.0.1:0"), bound;
  int first, fd[PORTS], one_too_many;
  assert_ok(by_socket_listen(&at, any_port, &first, &bound));
  struct by_port_range range = {by_address_port(&bound), by_address_port(&bound) + 1000};
  if (range.high > 65535) range = (struct by_port_range){range.low - 1000, range.low};
  for (int i = 0; i < PORTS; i++) {
    assert_ok(by_socket_listen(&at, range, &fd[i], &bound));
    assert_in_range(by_address_port(&bound), range.low, range.high);
  }
  int taken = by_address_port(&bound);
  struct by_port_range narrow = {taken, taken};
  assert_status(by_socket_listen(&at, narrow, &one_too_many, &bound), BANYAN_ERR_SYSTEM);
  struct by_address foreign = address_of("192.0.2.77:0");
  assert_status(by_socket_listen(&foreign, any_port, &one_too_many, &bound), BANYAN_ERR_SYSTEM);
  for (int i = 0; i < PORTS; i++) close(fd[i]);
  close(first);
  /* The port was closed a moment ago, and does not wait for old connections to time out. */
  assert_ok(by_socket_listen(&at, narrow, &first, &bound));
  assert_int_equal(by_address_port(&bound), taken);
  close(first);
}

/* A listener with a choice gets another port. A listener with a fixed port gets it, and is then the only one. */
static void test_held_ports(void **state) {
  (void)state;
  struct by_address bound;
  int held, another, named, one_too_many;
  assert_ok(by_socket_hold(any_port, NULL, &held, &bound));
  int port = by_address_port(&bound);
  struct by_port_range range = port < 65000 ? (struct by_port_range){port, port + 500}
                                            : (struct by_port_range){port - 500, port},
                       only = {port, port};
  for (int i = 0; i < 2; i++) {
    assert_ok(by_socket_hold(range, NULL, &another, &bound));
    assert_int_not_equal(by_address_port(&bound), port);
    close(another);
    assert_ok(by_socket_listen(NULL, range, &another, &bound));
    assert_int_not_equal(by_address_port(&bound), port);
    close(another);
  }
  assert_ok(by_socket_hold(range, NULL, &another, &bound));
  struct by_port_range that = {by_address_port(&bound), by_address_port(&bound)};
  assert_ok(by_socket_listen(NULL, that, &named, &bound));
  close(named);
  close(another);
  assert_ok(by_socket_listen(NULL, only, &named, &bound));
  assert_int_equal(by_address_port(&bound), port);
  assert_status(by_socket_listen(NULL, only, &one_too_many, &bound), BANYAN_ERR_SYSTEM);
  close(named);
  close(held);
}

/* Leaves a connection on the port that nobody can use, as the end of a job does: the end that accepted it closes first.
 * False if somebody else has the port. */
static bool leave_old_connection(int port) {
  struct by_address bound;
  int listener;
  char byte;
  if (by_socket_listen(NULL, (struct by_port_range){port, port}, &listener, &bound) != BANYAN_OK) return false;
  int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  assert_int_equal(connect(one, (struct sockaddr *)&to, sizeof to), 0);
  close(accept_one(listener, NULL));
  assert_int_equal(read(one, &byte, 1), 0);
  close(one);
  close(listener);
  return true;
}

static struct by_port_range find_used_range(int n) {
  for (int first = 20000 + getpid() % 10000;; first += n) {
    int port = first;
    while (port < first + n && leave_old_connection(port)) port++;
    if (port == first + n) return (struct by_port_range){first, port - 1};
    assert_true(first < 60000);
  }
}

/* Where every port of a range has old connections, the ones that others wait for still come last. */
static void test_spared_ports(void **state) {
  (void)state;
  struct by_address bound;
  int root, store, listens[2];
  struct by_port_range range = find_used_range(4);
  for (int i = 0; i < 10; i++) {
    assert_ok(by_socket_hold(range, NULL, &root, &bound));
    int spared[BY_SPARED_PORTS] = {by_address_port(&bound)};
    assert_ok(by_socket_hold(range, spared, &store, &bound));
    assert_int_not_equal(by_address_port(&bound), spared[0]);
    spared[1] = by_address_port(&bound);
    for (int k = 0; k < 2; k++) {
      assert_ok(by_socket_listen_sparing(range, spared, &listens[k], &bound));
      assert_int_not_equal(by_address_port(&bound), spared[0]);
      assert_int_not_equal(by_address_port(&bound), spared[1]);
    }
    close(store);
    assert_ok(by_socket_listen_sparing(range, spared, &store, &bound)); /* There is no other. */
    for (int k = 0; k < 2; k++) close(listens[k]);
    close(store);
    close(root);
  }
}

static void test_parse_port_ranges(void **state) {
  (void)state;
  struct by_port_range range;
  assert_ok(by_port_range_parse("29500-29600", &range));
  assert_int_equal(range.low, 29500);
  assert_int_equal(range.high, 29600);
  assert_ok(by_port_range_parse("29500", &range));
  assert_int_equal(range.high, 29500);
  assert_ok(by_port_range_parse("0", &range));
  assert_int_equal(range.low + range.high, 0);
  static const char *const bad[] = {"", "-", "5-", "-5", "6-5", "0-10", "1-65536", "70000", "5-6-7", "111111111-2"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (by_port_range_parse(bad[i], &range) != BANYAN_ERR_PARSE) fail_msg("\"%s\" was taken", bad[i]);
}

static int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
  return value;
}

/* Returns 0 if the kernel has no limit. */
static int most_retry(int fd) {
  int value = 0;
  socklen_t length = sizeof value;
  return getsockopt(fd, IPPROTO_TCP, 44, &value, &length) ? 0 : value; /* The option is TCP_RTO_MAX_MS. */
}

static void test_options_on_a_live_connection(void **state) {
  (void)state;
  struct pair pair;
  open_pair(&pair, "127.0.0.1:0");
  assert_ok(by_socket_set(pair.near, BY_SOCKET_NODELAY, 1));
  assert_int_equal(option(pair.near, IPPROTO_TCP, TCP_NODELAY), 1);
  assert_ok(by_socket_set_tos(pair.near, 0xb8));
  assert_int_equal(option(pair.near, IPPROTO_IP, IP_TOS), 0xb8);
  assert_ok(by_socket_set(pair.near, BY_SOCKET_PRIORITY, 5));
  assert_int_equal(option(pair.near, SOL_SOCKET, SO_PRIORITY), 5);
  assert_ok(by_socket_set(pair.near, BY_SOCKET_USER_TIMEOUT, 7000));
  assert_int_equal(option(pair.near, IPPROTO_TCP, TCP_USER_TIMEOUT), 7000);
  assert_ok(by_socket_set_max_retry(pair.far, 1000));
  assert_true(most_retry(pair.far) == 0 || most_retry(pair.far) == 1000);
  assert_int_equal(option(pair.far, IPPROTO_TCP, TCP_USER_TIMEOUT), most_retry(pair.far) ? 24 * 60 * 60 * 1000 : 0);
  assert_ok(by_socket_set_keepalive(pair.near, 11, 3, 4));
  assert_int_equal(option(pair.near, SOL_SOCKET, SO_KEEPALIVE), 1);
  assert_int_equal(option(pair.near, IPPROTO_TCP, TCP_KEEPIDLE), 11);
  assert_int_equal(option(pair.near, IPPROTO_TCP, TCP_KEEPINTVL), 3);
  assert_int_equal(option(pair.near, IPPROTO_TCP, TCP_KEEPCNT), 4);
  close_all(&pair);
  if (!has_ipv6()) return;
  open_pair(&pair, "[::1]:0");
  assert_ok(by_socket_set_tos(pair.far, 0x48));
  assert_int_equal(option(pair.far, IPPROTO_IPV6, IPV6_TCLASS), 0x48);
  close_all(&pair);
}

/* The sizes do not include what the kernel adds for its own use, which is the same amount again. */
static void get_buffers(int fd, int *send, int *receive) {
  socklen_t length = sizeof *send;
  assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, send, &length), 0);
  assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, receive, &length), 0);
  *send /= 2;
  *receive /= 2;
}

static void test_buffers(void **state) {
  (void)state;
  struct pair pair;
  int send, receive, kept;
  open_pair(&pair, "127.0.0.1:0");
  get_buffers(pair.near, &kept, &receive);
  assert_ok(by_socket_set_buffers(pair.near, 0, 100000));
  get_buffers(pair.near, &send, &receive);
  assert_int_equal(send, kept);
  assert_int_equal(receive, 100000);
  assert_ok(by_socket_set_buffers(pair.near, 50000, 0));
  get_buffers(pair.near, &send, &receive);
  assert_int_equal(send, 50000);
  close_all(&pair);
}

static void test_congestion_control(void **state) {
  (void)state;
  struct pair pair;
  char name[BY_CONGESTION_TEXT];
  open_pair(&pair, "127.0.0.1:0");
  assert_ok(by_socket_set_congestion(pair.near, "reno")); /* Every kernel has it. */
  assert_ok(by_socket_get_congestion(pair.near, name));
  assert_string_equal(name, "reno");
  assert_status(by_socket_set_congestion(pair.near, "nosuchcc"), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "reno")); /* The error lists the available values. */
  close_all(&pair);
}

static void test_connections_within_a_host(void **state) {
  (void)state;
  struct pair pair;
  int ends[2];
  char name[BY_CONGESTION_TEXT];
  open_pair(&pair, "127.0.0.1:0");
  assert_true(by_socket_is_within_host(pair.near));
  assert_true(by_socket_is_within_host(pair.far));
  assert_ok(by_socket_get_congestion(pair.near, name));
  assert_string_equal(name, BY_CONGESTION_WITHIN_HOST);
  close_all(&pair);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  assert_true(by_socket_is_within_host(ends[0]));
  close(ends[0]);
  assert_false(by_socket_is_within_host(ends[0]));
  close(ends[1]);
}

static void test_errors_of_bad_descriptors(void **state) {
  (void)state;
  struct by_address address;
  int fd;
  char name[BY_CONGESTION_TEXT];
  assert_status(by_socket_accept(-1, &fd, NULL), BANYAN_ERR_SYSTEM);
  assert_status(by_socket_get_local(-1, &address), BANYAN_ERR_SYSTEM);
  assert_status(by_socket_get_peer(-1, &address), BANYAN_ERR_SYSTEM);
  assert_status(by_socket_set(-1, BY_SOCKET_NODELAY, 1), BANYAN_ERR_SYSTEM);
  assert_status(by_socket_set_tos(-1, 0), BANYAN_ERR_SYSTEM);
  assert_status(by_socket_set_buffers(-1, 1, 1), BANYAN_ERR_SYSTEM);
  assert_status(by_socket_get_congestion(-1, name), BANYAN_ERR_SYSTEM);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_connect_and_accept),
      cmocka_unit_test(test_any_address_takes_both_families),
      cmocka_unit_test(test_no_listener),
      cmocka_unit_test(test_connected_to_oneself),
      cmocka_unit_test(test_unfinished_is_not_done),
      cmocka_unit_test(test_port_ranges),
      cmocka_unit_test(test_held_ports),
      cmocka_unit_test(test_spared_ports),
      cmocka_unit_test(test_parse_port_ranges),
      cmocka_unit_test(test_options_on_a_live_connection),
      cmocka_unit_test(test_buffers),
      cmocka_unit_test(test_congestion_control),
      cmocka_unit_test(test_connections_within_a_host),
      cmocka_unit_test(test_errors_of_bad_descriptors),
  };
  return cmocka_run_group_tests_name("socket", tests, NULL, NULL);
}
