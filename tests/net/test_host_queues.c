/* Queues of a host's interface, in a separate network namespace. Marked packets leave by their class, queues of other
 * programs stay unchanged, and nothing is left behind. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "host_links.h"

enum { PAYLOAD = 1000, HEADERS4 = 14 + 20 + 8, HEADERS6 = 14 + 40 + 8 };

static const struct by_host_queues usual = {.rate = 1e9, .guarantee = 0.05};

static bool run(const char *command) {
  return system(command) == 0; /* NOLINT: the test's own command */
}

static int make_interfaces(void **state) {
  (void)state;
  if (unshare(CLONE_NEWNET)) {
    printf("skipped: no network namespace: %s\n", strerror(errno));
    exit(77);
  }
  return !run("ip link add p type veth peer name q && ip link set p up && ip link set q up && "
              "ip addr add 10.9.0.1/24 dev p && ip -6 addr add fd09::1/64 dev p nodad && "
              "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev p && "
              "ip neigh add fd09::2 lladdr 02:00:00:00:00:02 dev p");
}

static void send_marked(bool six, int tos, int packets) {
  static const char payload[PAYLOAD];
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(9)};
  struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
  assert_int_equal(inet_pton(AF_INET, "10.9.0.2", &four.sin_addr), 1);
  assert_int_equal(inet_pton(AF_INET6, "fd09::2", &to.sin6_addr), 1);
  int fd = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_TCLASS : IP_TOS, &tos, sizeof tos), 0);
  const struct sockaddr *where = six ? (const struct sockaddr *)&to : (const struct sockaddr *)&four;
  for (int i = 0; i < packets; i++)
    assert_int_equal(sendto(fd, payload, sizeof payload, 0, where, six ? sizeof to : sizeof four), PAYLOAD);
  close(fd);
}

static void open_both(struct by_netlink *netlink, unsigned *interface) {
  assert_ok(by_netlink_open(netlink));
  *interface = if_nametoindex("p");
  assert_true(*interface > 0);
}

/* Packets that the kernel itself sends are unmarked. A packet may wait up to a second for its class's turn. */
static void wait_for_class(struct by_netlink *netlink, unsigned interface, uint32_t class_, uint64_t bytes) {
  struct by_host_queues_sent sent;
  for (int i = 0; i < 200; i++) {
    assert_ok(by_host_queues_read(netlink, interface, &sent));
    if (sent.bytes[class_] >= bytes) break;
    usleep(5000);
  }
  assert_int_equal(sent.bytes[class_], bytes);
  assert_int_equal(sent.drops[class_], 0);
}

static void test_sorted(void **state) {
  struct by_netlink netlink;
  struct by_host_queues_sent sent;
  unsigned interface;
  (void)state;
  open_both(&netlink, &interface);
  assert_status(by_host_queues_read(&netlink, interface, &sent), BANYAN_ERR_UNSUPPORTED); /* not set yet */
  assert_int_equal(sent.bytes[0], 0);
  assert_ok(by_host_queues_set(&netlink, interface, &usual));
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++) {
    send_marked(false, by_priority_tos(c), (int)c + 1);
    send_marked(true, by_priority_tos(c) | 2, 10 + (int)c); /* the lower two bits are not part of the mark */
  }
  for (uint32_t c = 0; c < BY_PRIORITY_CLASSES; c++)
    wait_for_class(&netlink, interface, c, (c + 1) * (PAYLOAD + HEADERS4) + (10 + c) * (PAYLOAD + HEADERS6));
  assert_ok(by_host_queues_read(&netlink, interface, &sent));
  uint64_t before = sent.bytes[BY_PRIORITY_CLASSES];
  send_marked(false, 0, 3);
  send_marked(false, 0x48, 3); /* a mark of other programs */
  for (int i = 0; i < 200 && sent.bytes[BY_PRIORITY_CLASSES] < before + 6 * (PAYLOAD + HEADERS4); i++) {
    assert_ok(by_host_queues_read(&netlink, interface, &sent));
    usleep(5000);
  }
  assert_true(sent.bytes[BY_PRIORITY_CLASSES] >= before + 6 * (PAYLOAD + HEADERS4));
  assert_ok(by_host_queues_remove(&netlink, interface));
  by_netlink_close(&netlink);
}

/* Queues are set again, as by the successor of an agent that was killed, and removed, as by an agent that ends. */
static void test_again(void **state) {
  struct by_netlink netlink;
  unsigned interface;
  (void)state;
  open_both(&netlink, &interface);
  assert_ok(by_host_queues_remove(&netlink, interface));
  assert_ok(by_host_queues_set(&netlink, interface, &usual));
  struct by_host_queues fast = {.rate = 100e9, .guarantee = 0.15};
  assert_ok(by_host_queues_set(&netlink, interface, &fast));
  assert_true(run("tc class show dev p | grep -q 'ceil 100Gbit'"));
  assert_ok(by_host_queues_remove(&netlink, interface));
  assert_ok(by_host_queues_remove(&netlink, interface));
  assert_false(run("tc qdisc show dev p | grep -q htb"));
  by_netlink_close(&netlink);
}

static void test_of_others(void **state) {
  struct by_netlink netlink;
  unsigned interface;
  (void)state;
  open_both(&netlink, &interface);
  assert_true(run("tc qdisc add dev p root handle 5: pfifo"));
  assert_int_equal(by_host_queues_set(&netlink, interface, &usual), BANYAN_ERR_UNSUPPORTED);
  assert_non_null(strstr(banyan_error_text(), "pfifo 5:"));
  assert_ok(by_host_queues_remove(&netlink, interface));
  assert_true(run("tc qdisc show dev p | grep -q 'pfifo 5:'"));
  assert_true(run("tc qdisc del dev p root"));
  assert_int_equal(by_host_queues_set(&netlink, 9999, &usual), BANYAN_ERR_SYSTEM);
  by_netlink_close(&netlink);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorted), cmocka_unit_test(test_again),
                                     cmocka_unit_test(test_of_others)};
  return cmocka_run_group_tests(tests, make_interfaces, NULL);
}
