/* The UDP endpoint of in-network trees, over the loopback interface: fragments arrive unchanged at their
 * destinations, and workers and a server compute their sums over it. */
#include <arpa/inet.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "clock.h"
#include "rng.h"
#include "server.h"
#include "udp.h"

enum { WORKERS = 3, SLOTS = 64, LINES = 4 };

struct packet {
  struct by_fragment head;
  unsigned char payload[BY_FRAGMENT_LINES * BY_FRAGMENT_LINE];
};

/* Fragments in the order of arrival. */
struct seen {
  uint32_t n, bytes, marked;
  uint32_t epochs[4096];
  unsigned char last;
};

static void see(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  struct seen *seen = context;
  assert_int_equal(now, 7);
  assert_int_equal((uintptr_t)packet % 64, 0);
  assert_int_equal(by_fragment_check(packet, (uint32_t)bytes), BY_FRAGMENT_SOUND);
  assert_true(seen->n < 4096);
  seen->epochs[seen->n++] = packet->epoch;
  seen->bytes += (uint32_t)bytes;
  seen->marked += (packet->flags & BY_FRAGMENT_CE) != 0;
  seen->last = ((const unsigned char *)packet)[bytes - 1];
}

static const char *loopback = "127.0.0.1";

static struct by_udp *open_udp(struct by_address *address) {
  struct by_udp *udp = NULL;
  assert_ok(by_udp_create((struct by_port_range){0}, &udp));
  assert_ok(by_address_parse_host(loopback, by_udp_port(udp), address));
  return udp;
}

static void wait_for(struct by_udp *udp) {
  struct pollfd poll_fd = {.fd = by_udp_fd(udp), .events = POLLIN};
  assert_int_equal(poll(&poll_fd, 1, 10000), 1);
}

static void send_packet(struct by_udp_peer *peer, uint16_t job, uint32_t epoch, uint8_t lines) {
  struct packet packet;
  by_fragment_begin(&packet.head, BY_FRAGMENT_UP, 1);
  packet.head.job = job;
  packet.head.epoch = epoch;
  packet.head.dtype = BY_FRAGMENT_PAIRS;
  packet.head.lines = lines;
  memset(packet.payload, (int)epoch & 255, (size_t)lines * BY_FRAGMENT_LINE);
  by_fragment_seal(&packet.head);
  by_udp_send(peer, &packet.head);
}

static void see_all(struct by_udp *udp, const struct seen *seen, uint32_t n) {
  while (seen->n < n) {
    wait_for(udp);
    assert_true(by_udp_progress(udp, 7));
  }
  assert_int_equal(seen->n, n);
  assert_false(by_udp_progress(udp, 7));
}

static void test_order(void **state) {
  (void)state;
  struct by_address here, there;
  struct by_udp *a = open_udp(&here), *b = open_udp(&there);
  struct by_udp_peer *peer;
  struct by_udp_counters counters;
  static struct seen seen;
  struct by_rng rng;
  uint32_t bytes = 0;
  by_rng_init(&rng, 5);
  seen = (struct seen){0};
  assert_ok(by_udp_peer_create(a, &there, &peer));
  assert_ok(by_udp_listen(b, 9, see, &seen));
  for (uint32_t i = 0; i < 500; i++) { /* The sizes are equal first, and then different. */
    uint8_t lines = i < 200 ? 22 : (uint8_t)by_rng_below(&rng, 12);
    bytes += 64 * (1u + lines);
    send_packet(peer, 9, i, lines);
    if (i % 64 == 63) see_all(b, &seen, by_udp_flush(a) ? i + 1 : 0);
  }
  assert_true(by_udp_flush(a));
  see_all(b, &seen, 500);
  for (uint32_t i = 0; i < 500; i++) assert_int_equal(seen.epochs[i], i);
  assert_int_equal(seen.bytes, bytes);
  by_udp_count(a, &counters);
  assert_int_equal(counters.sent, 500);
  assert_int_equal(counters.unsent, 0);
  by_udp_peer_destroy(peer);
  by_udp_destroy(a);
  by_udp_destroy(b);
}

/* Runs leave in the order in which they began, whatever their destinations are. */
static void test_order_of_peers(void **state) {
  (void)state;
  struct by_address here;
  struct by_udp *udp = open_udp(&here);
  struct by_udp_peer *peers[5];
  static struct seen seen;
  seen = (struct seen){0};
  assert_ok(by_udp_listen(udp, 0, see, &seen));
  for (int i = 0; i < 5; i++) assert_ok(by_udp_peer_create(udp, &here, &peers[i]));
  for (uint32_t i = 0; i < 10; i++) send_packet(peers[i % 5], 0, i % 5 * 2 + i / 5, 1);
  send_packet(peers[1], 0, 10, 2); /* The packet is longer: the rest of its run goes first. */
  send_packet(peers[3], 0, 11, 2);
  assert_true(by_udp_flush(udp));
  see_all(udp, &seen, 12);
  static const uint32_t order[12] = {2, 3, 6, 7, 0, 1, 4, 5, 8, 9, 10, 11};
  assert_memory_equal(seen.epochs, order, sizeof order);
  for (int i = 0; i < 5; i++) by_udp_peer_destroy(peers[i]);
  by_udp_destroy(udp);
}

/* Lent packets are sent from their own memory with their content at that time, in order with copied ones. */
static void test_lent(void **state) {
  (void)state;
  struct by_address here;
  struct by_udp *udp = open_udp(&here);
  struct by_udp_peer *peer;
  static struct seen seen;
  static struct {
    struct by_fragment head;
    unsigned char payload[2 * BY_FRAGMENT_LINE];
  } packets[40];
  seen = (struct seen){0};
  assert_ok(by_udp_peer_create(udp, &here, &peer));
  assert_ok(by_udp_listen(udp, 0, see, &seen));
  for (uint32_t i = 0; i < 40; i++) {
    by_fragment_begin(&packets[i].head, BY_FRAGMENT_UP, 1);
    packets[i].head.dtype = BY_FRAGMENT_PAIRS;
    packets[i].head.lines = 2;
    packets[i].head.epoch = i;
    by_fragment_seal(&packets[i].head);
    if (i % 8 == 5)
      send_packet(peer, 0, 100 + i, 2);
    else
      by_udp_lend(peer, &packets[i].head);
  }
  packets[39].head.epoch = 77;
  by_fragment_seal(&packets[39].head);
  assert_true(by_udp_flush(udp));
  see_all(udp, &seen, 40);
  assert_int_equal(seen.bytes, 40 * 192);
  for (uint32_t i = 0; i < 39; i++) assert_int_equal(seen.epochs[i], i % 8 == 5 ? 100 + i : i);
  assert_int_equal(seen.epochs[39], 77);
  by_udp_peer_destroy(peer);
  by_udp_destroy(udp);
}

static void test_jobs(void **state) {
  (void)state;
  struct by_address here;
  struct by_udp *udp = open_udp(&here);
  struct by_udp_peer *peer, *other;
  struct by_udp_counters counters;
  static struct seen first, second;
  first = second = (struct seen){0};
  assert_ok(by_udp_peer_create(udp, &here, &peer));
  assert_ok(by_udp_peer_create(udp, &here, &other));
  assert_ok(by_udp_listen(udp, 1, see, &first));
  assert_ok(by_udp_listen(udp, 2, see, &second));
  assert_status(by_udp_listen(udp, 1, see, &second), BANYAN_ERR_ARGUMENT);
  assert_non_null(strstr(banyan_error_text(), "takes job 1 already"));
  for (uint32_t i = 0; i < 30; i++) send_packet(i % 2 ? peer : other, (uint16_t)(i % 3), i, (uint8_t)(i % 2));
  assert_true(by_udp_flush(udp));
  see_all(udp, &first, 10);
  assert_int_equal(second.n, 10);
  by_udp_forget(udp, 1);
  send_packet(peer, 1, 99, 0);
  by_udp_peer_destroy(peer); /* Collected packets are still sent. */
  assert_true(by_udp_flush(udp));
  wait_for(udp);
  assert_true(by_udp_progress(udp, 7));
  assert_int_equal(first.n, 10);
  by_udp_count(udp, &counters);
  assert_int_equal(counters.strange, 11);
  by_udp_peer_destroy(other);
  by_udp_destroy(udp);
}

/* Receives the ToS byte of one datagram. */
static int receive_tos(int fd) {
  char byte, room[256];
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&poll_fd, 1, 10000), 1);
  assert_true(recvmsg(fd, &message, 0) > 0);
  const struct cmsghdr *first = CMSG_FIRSTHDR(&message);
  assert_non_null(first);
  assert_int_equal(first->cmsg_type, IP_TOS);
  return *CMSG_DATA(first);
}

/* Marks change from one fragment to the next, and keep the bits with which switches report that queues fill. */
static void test_marks(void **state) {
  (void)state;
  struct by_address here, there;
  struct by_udp *udp = open_udp(&here);
  struct by_udp_peer *peer;
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof local;
  int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
  assert_int_equal(bind(fd, (struct sockaddr *)&local, length), 0);
  assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof on), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &length), 0);
  by_address_set(&there, (struct sockaddr *)&local, length);
  assert_ok(by_udp_peer_create(udp, &there, &peer));
  static const int tos[] = {-1, 0x60, -1, 0x23};
  static const int wanted[] = {2, 0x62, 0x62, 0x22};
  for (uint32_t i = 0; i < 4; i++) {
    by_udp_set_mark(udp, &(struct by_mark){tos[i], 6});
    send_packet(peer, 0, i, 1);
    assert_true(by_udp_flush(udp));
    assert_int_equal(receive_tos(fd), wanted[i]);
  }
  close(fd);
  by_udp_peer_destroy(peer);
  by_udp_destroy(udp);
}

/* From that of the host's addresses which others expect, and not the one that the kernel prefers. */
static void test_source(void **state) {
  (void)state;
  struct by_address here, there, source;
  struct by_udp *udp = open_udp(&here);
  struct by_udp_peer *peer;
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from = {0};
  socklen_t length = sizeof local;
  unsigned char bytes[512];
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&local, length), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&local, &length), 0);
  by_address_set(&there, (struct sockaddr *)&local, length);
  assert_ok(by_udp_peer_create(udp, &there, &peer));
  for (int given = 0; given < 2; given++) {
    assert_ok(by_address_parse_host(given ? "127.0.0.7" : "127.0.0.1", 0, &source));
    if (given) by_udp_peer_set_source(peer, &source);
    send_packet(peer, 0, 1, 1);
    assert_true(by_udp_flush(udp));
    assert_true(recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length) > 0);
    assert_int_equal(from.sin_addr.s_addr, ((struct sockaddr_in *)&source.storage)->sin_addr.s_addr);
  }
  close(fd);
  by_udp_peer_destroy(peer);
  by_udp_destroy(udp);
}

/* Anything but a row of whole lines is dropped, and fragments of other peers still arrive. */
static void test_unauthenticated_peers(void **state) {
  (void)state;
  struct by_address here;
  struct by_udp *udp = open_udp(&here);
  struct by_udp_peer *peer;
  struct by_udp_counters counters;
  static struct seen seen;
  static char junk[3000];
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  seen = (struct seen){0};
  assert_ok(by_udp_peer_create(udp, &here, &peer));
  assert_ok(by_udp_listen(udp, 0, see, &seen));
  for (size_t n = 0; n < sizeof junk; n = 2 * n + 1)
    if (n % 64) assert_int_equal(sendto(fd, junk, n, 0, (struct sockaddr *)&here.storage, here.length), (ssize_t)n);
  send_packet(peer, 0, 3, 1);
  assert_true(by_udp_flush(udp));
  see_all(udp, &seen, 1);
  by_udp_count(udp, &counters);
  assert_true(counters.strange >= 10);
  close(fd);
  by_udp_peer_destroy(peer);
  by_udp_destroy(udp);
}

static void test_taken_port(void **state) {
  (void)state;
  struct by_address here;
  struct by_udp *a = open_udp(&here), *b = NULL;
  int taken = by_udp_port(a);
  assert_status(by_udp_create((struct by_port_range){taken, taken}, &b), BANYAN_ERR_SYSTEM);
  assert_non_null(strstr(banyan_error_text(), "UDP port"));
  assert_ok(by_udp_create((struct by_port_range){taken, UINT16_MAX}, &b));
  assert_true(by_udp_port(b) > taken);
  by_udp_destroy(a);
  by_udp_destroy(b);
}

/* --- a whole tree without switches --- */

static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";

struct tree {
  struct by_udp *at_server, *at_workers; /* Two workers share a socket. */
  struct by_server *server;
  struct by_udp_peer *peers[WORKERS];
  struct by_fabric *fabrics[WORKERS];
};

static void from_server(void *context, const struct by_fragment *packet, int to) {
  const struct tree *tree = context;
  by_udp_send(tree->peers[to], packet);
}

static void to_server(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  const struct tree *tree = context;
  (void)now;
  by_server_take(tree->server, packet, bytes);
}

static void make_tree(struct tree *tree, struct by_udp **sockets) {
  struct by_server_path ways[WORKERS] = {{0}};
  struct by_address server, at;
  tree->at_server = open_udp(&server);
  struct by_server_config config = {.job = 4,
                                    .key = 1,
                                    .groups = by_one_group(WORKERS),
                                    .slots = SLOTS,
                                    .lines = LINES,
                                    .secret = secret,
                                    .secret_bytes = sizeof secret,
                                    .paths = ways,
                                    .emit = from_server,
                                    .context = tree};
  assert_ok(by_server_create(&config, &tree->server));
  assert_ok(by_udp_listen(tree->at_server, 4, to_server, tree));
  for (unsigned w = 0; w < WORKERS; w++) {
    struct by_worker_config worker = {.job = 4,
                                      .key = 1,
                                      .rank = w,
                                      .groups = by_one_group(WORKERS),
                                      .slots = SLOTS,
                                      .lines = LINES,
                                      .timeout = 20 * BY_SECOND};
    memcpy(worker.secret, secret, sizeof secret);
    sockets[w] = open_udp(&at);
    assert_ok(by_udp_peer_create(tree->at_server, &at, &tree->peers[w]));
    assert_ok(by_udp_fabric_create(sockets[w], &(struct by_udp_path){.server = server}, &worker, &by_clock_system,
                                   &tree->fabrics[w]));
    assert_int_equal(tree->fabrics[w]->poll_fd, by_udp_fd(sockets[w]));
  }
}

static float value(unsigned worker, size_t i) {
  if (i % 1000 == 17) return worker == i / 1000 % WORKERS ? INFINITY : 1;
  if (i % 1000 == 18) return worker == 1 ? NAN : 2;
  return (float)(i % 1021 + worker);
}

static void check_sums(float *const *sums, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float wanted = 0;
    for (unsigned w = 0; w < WORKERS; w++) wanted += value(w, i);
    for (unsigned w = 0; w < WORKERS; w++)
      if (isnan(wanted) ? !isnan(sums[w][i]) : sums[w][i] != wanted)
        fail_msg("worker %u, element %zu: %g instead of %g", w, i, (double)sums[w][i], (double)wanted);
  }
}

static void test_sums(void **state) {
  (void)state;
  enum { COUNT = 100000 };
  struct tree tree = {0};
  struct by_udp *sockets[WORKERS];
  float *values[WORKERS];
  uint32_t numbers[WORKERS], done = 0;
  struct by_frame descriptor = {.dtype_op = BANYAN_FLOAT32 << 4 | BANYAN_SUM};
  make_tree(&tree, sockets);
  for (unsigned w = 0; w < WORKERS; w++) {
    values[w] = malloc(COUNT * sizeof(float));
    for (size_t i = 0; i < COUNT; i++) values[w][i] = value(w, i);
    const struct by_fabric_ops *ops = tree.fabrics[w]->ops;
    assert_true(ops->begin(tree.fabrics[w], &descriptor, values[w], values[w], COUNT * sizeof(float), &numbers[w]));
    ops->advance(tree.fabrics[w], numbers[w], COUNT * sizeof(float));
  }
  while (done != (1u << WORKERS) - 1) {
    for (unsigned w = 0; w < WORKERS; w++) {
      struct by_fabric *fabric = tree.fabrics[w];
      (void)fabric->ops->progress(fabric);
      assert_int_equal(fabric->status, BANYAN_OK);
      if (!(done >> w & 1) && fabric->ops->done(fabric, numbers[w]) == COUNT * sizeof(float)) done |= 1u << w;
    }
    (void)by_udp_progress(tree.at_server, 0);
  }
  check_sums(values, COUNT);
  for (unsigned w = 0; w < WORKERS; w++) {
    tree.fabrics[w]->ops->destroy(tree.fabrics[w]);
    by_udp_peer_destroy(tree.peers[w]);
    by_udp_destroy(sockets[w]);
    free(values[w]);
  }
  by_udp_destroy(tree.at_server);
  by_server_destroy(tree.server);
}

static bool has_ipv6(void) {
  struct by_address any;
  int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_ok(by_address_parse("[::1]:0", &any));
  bool has = fd >= 0 && bind(fd, (struct sockaddr *)&any.storage, any.length) == 0;
  if (fd >= 0) close(fd);
  return has;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_order_of_peers),
      cmocka_unit_test(test_lent),
      cmocka_unit_test(test_jobs),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_taken_port),
      cmocka_unit_test(test_marks),
      cmocka_unit_test(test_source),
      cmocka_unit_test(test_sums),
  };
  const struct CMUnitTest of_ipv6[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_order_of_peers),
                                       cmocka_unit_test(test_lent), cmocka_unit_test(test_sums)};
  int failed = cmocka_run_group_tests_name("udp", tests, NULL, NULL);
  loopback = "::1";
  return failed + (has_ipv6() ? cmocka_run_group_tests_name("udp over IPv6", of_ipv6, NULL, NULL) : 0);
}
