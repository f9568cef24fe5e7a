/* Measures the UDP endpoints of in-network trees: one worker and one server, on a core each, compared with the same
 * number of bytes in plain datagrams (UDP_SEGMENT, UDP_GRO), on the loopback interface, in turn, in one run.
 *
 *   plain, one way          one thread sends, the other receives
 *   plain, there and back   the other sends as much back: the least cost of a sum, with a term up and a result down
 *   the same, 32 MB         the first thread's bytes cover as much memory as the worker's, in both directions
 *   worker and server       float32 into fixed point, sent, checked and summed by the server, sent back and stored
 *
 * `udp_bench N` runs N rounds of worker and server only, for profiles of the two threads.
 *
 * The figures are Gbit/s of payload one way: the median of all rounds, and the worst and the best. A round is the
 * median of a few transfers of each kind, one kind after the other. Ratios are those of one round, since a virtual
 * machine's host moves its cores. Other plain transfers read a few megabytes and write to the space of one
 * datagram, as in other programs that time them. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"
#include "udp.h"

enum {
  LINES = 22,
  PIECE = BY_FRAGMENT_LINE * (1 + LINES),
  PAYLOAD = BY_FRAGMENT_LINE * LINES,
  MANY = 65507 / PIECE,
  FRAGMENTS = MANY * 512, /* fragments of a round: 32 MB */
  AHEAD = 8,              /* maximum number of datagrams in transit */
  SLOTS = 512,            /* the number that jobs use */
  ROUNDS = 30,
  BATCH = 5
};

static _Atomic bool stop;
static const unsigned char secret[BY_WORKER_SECRET] = "a secret of the job";

static void insist(bool well, const char *what) {
  if (well) return;
  fprintf(stderr, "udp_bench: %s: %s; %s\n", what, strerror(errno), banyan_error_text());
  exit(1);
}

static void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)sched_setaffinity(0, sizeof set, &set); /* Where this is not permitted, times vary more. */
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *numbers, size_t n) {
  qsort(numbers, n, sizeof *numbers, compare);
  return numbers[n / 2];
}

static double seconds(void) {
  return (double)by_clock_now(&by_clock_system) * 1e-9;
}

/* --- plain datagrams --- */

struct plain {
  int fd, other; /* this end's and the other end's */
  struct sockaddr_in to;
  _Atomic uint64_t received; /* bytes at the other end */
  bool back;
  const unsigned char *from; /* this end's memory, used cyclically */
  unsigned char *into;
  uint64_t from_bytes, into_bytes;
};

static int open_plain(struct sockaddr_in *address) {
  int one = 1, room = 8 << 20, fd = socket(AF_INET, SOCK_DGRAM, 0);
  socklen_t length = sizeof *address;
  *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  insist(fd >= 0 && bind(fd, (struct sockaddr *)address, length) == 0, "a socket");
  insist(getsockname(fd, (struct sockaddr *)address, &length) == 0, "its port");
  insist(setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one) == 0, "UDP_GRO");
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  return fd;
}

static void send_plain(int fd, const void *bytes) {
  union {
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr align;
  } control = {{0}};
  struct iovec piece = {(void *)(uintptr_t)bytes, MANY * PIECE};
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  uint16_t size = PIECE;
  *head = (struct cmsghdr){.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof size)};
  memcpy(CMSG_DATA(head), &size, sizeof size);
  insist(sendmsg(fd, &message, 0) == MANY * PIECE, "sendmsg");
}

/* Receives up to one datagram. */
static size_t receive_plain(int fd, void *room) {
  ssize_t n = recv(fd, room, 1 << 16, MSG_DONTWAIT);
  return n > 0 ? (size_t)n : 0;
}

static void *plain_main(void *argument) {
  struct plain *plain = argument;
  unsigned char *room = malloc(1 << 16);
  insist(room != NULL, "memory");
  pin(1);
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    size_t n = receive_plain(plain->other, room);
    if (n && plain->back) send_plain(plain->other, room);
    if (n) atomic_fetch_add(&plain->received, n);
  }
  free(room);
  return NULL;
}

static double transfer_plain(struct plain *plain) {
  uint64_t sent = 0, came = 0, all = (uint64_t)FRAGMENTS * PIECE, start = atomic_load(&plain->received);
  double began = seconds();
  while (came < all) {
    if (sent < all && sent - came < (uint64_t)AHEAD * MANY * PIECE) {
      send_plain(plain->fd, plain->from + sent % plain->from_bytes);
      sent += (uint64_t)MANY * PIECE;
    }
    if (plain->back)
      came += receive_plain(plain->fd, plain->into + came % plain->into_bytes);
    else
      came = atomic_load(&plain->received) - start;
  }
  return 8e-9 * FRAGMENTS * PAYLOAD / (seconds() - began);
}

static double time_plain(struct plain plain) {
  double rates[BATCH];
  struct sockaddr_in here, there;
  pthread_t thread;
  plain.fd = open_plain(&here);
  plain.other = open_plain(&there);
  insist(connect(plain.fd, (struct sockaddr *)&there, sizeof there) == 0, "connect");
  insist(connect(plain.other, (struct sockaddr *)&here, sizeof here) == 0, "connect");
  atomic_store(&stop, false);
  insist(pthread_create(&thread, NULL, plain_main, &plain) == 0, "a thread");
  (void)transfer_plain(&plain);
  for (int i = 0; i < BATCH; i++) rates[i] = transfer_plain(&plain);
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  close(plain.fd);
  close(plain.other);
  return median(rates, BATCH);
}

/* --- worker and server --- */

struct tree {
  struct by_udp *at_server, *at_worker;
  struct by_udp_peer *worker;
  struct by_server *server;
  struct by_fabric *fabric;
};

static void emit(void *context, const struct by_fragment *packet, int to) {
  const struct tree *tree = context;
  if (to == BY_SERVER_ALL)
    by_udp_lend(tree->worker, packet);
  else
    by_udp_send(tree->worker, packet);
}

static void take(void *context, const struct by_fragment *packet, size_t bytes, uint64_t now) {
  const struct tree *tree = context;
  (void)now;
  by_server_take(tree->server, packet, bytes);
}

static void *server_main(void *argument) {
  const struct tree *tree = argument;
  pin(1);
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) (void)by_udp_progress(tree->at_server, 0);
  return NULL;
}

static void make_tree(struct tree *tree) {
  struct by_address server, worker;
  struct by_server_way down = {0};
  insist(by_udp_create((struct by_port_range){0}, &tree->at_server) == BANYAN_OK, "server's socket");
  insist(by_udp_create((struct by_port_range){0}, &tree->at_worker) == BANYAN_OK, "worker's socket");
  insist(by_address_parse_host("127.0.0.1", by_udp_port(tree->at_server), &server) == BANYAN_OK, "address");
  insist(by_address_parse_host("127.0.0.1", by_udp_port(tree->at_worker), &worker) == BANYAN_OK, "address");
  insist(by_udp_peer_create(tree->at_server, &worker, &tree->worker) == BANYAN_OK, "peer");
  struct by_server_config at_server = {.groups = by_one_group(1),
                                       .slots = SLOTS,
                                       .lines = LINES,
                                       .multicast = true,
                                       .secret = secret,
                                       .secret_bytes = sizeof secret,
                                       .ways = &down,
                                       .emit = emit,
                                       .context = tree};
  insist(by_server_create(&at_server, &tree->server) == BANYAN_OK, "server");
  insist(by_udp_listen(tree->at_server, 0, take, tree) == BANYAN_OK, "listen");
  struct by_worker_config at_worker = {
      .groups = by_one_group(1), .slots = SLOTS, .lines = LINES, .timeout = 5 * BY_SECOND};
  memcpy(at_worker.secret, secret, sizeof secret);
  struct by_udp_way way = {.server = server};
  insist(by_udp_fabric_create(tree->at_worker, &way, &at_worker, &by_clock_system, &tree->fabric) == BANYAN_OK,
         "worker");
}

static double transfer_tree(struct tree *tree, const float *src, float *dst) {
  const struct by_frame descriptor = {.dtype_op = BANYAN_FLOAT32 << 4 | BANYAN_SUM};
  const uint64_t bytes = (uint64_t)FRAGMENTS * PAYLOAD;
  const struct by_fabric_ops *ops = tree->fabric->ops;
  uint32_t number;
  double began = seconds();
  insist(ops->begin(tree->fabric, &descriptor, src, dst, bytes, &number), "begin");
  ops->advance(tree->fabric, number, bytes);
  do (void)ops->progress(tree->fabric);
  while (tree->fabric->status == BANYAN_OK && ops->done(tree->fabric, number) < bytes);
  insist(tree->fabric->status == BANYAN_OK, tree->fabric->error);
  double rate = 8e-9 * (double)bytes / (seconds() - began);
  for (size_t i = 0; i < bytes / sizeof *dst; i++) insist(dst[i] == src[i], "a wrong sum");
  return rate;
}

static double time_tree(const float *src, float *dst) {
  struct tree tree = {0};
  pthread_t thread;
  double rates[BATCH];
  make_tree(&tree);
  atomic_store(&stop, false);
  insist(pthread_create(&thread, NULL, server_main, &tree) == 0, "a thread");
  (void)pthread_setname_np(thread, "server");
  (void)transfer_tree(&tree, src, dst);
  for (int i = 0; i < BATCH; i++) rates[i] = transfer_tree(&tree, src, dst);
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  tree.fabric->ops->destroy(tree.fabric);
  by_udp_peer_destroy(tree.worker);
  by_server_destroy(tree.server);
  by_udp_destroy(tree.at_server);
  by_udp_destroy(tree.at_worker);
  return median(rates, BATCH);
}

/* --- */

static void print_row(const char *what, const char *unit, double *numbers, int rounds) {
  double middle = median(numbers, rounds);
  printf("%-52s %6.2f%s (%.2f to %.2f)\n", what, middle, unit, numbers[0], numbers[rounds - 1]);
}

int main(int argc, char **argv) {
  static double one_way[ROUNDS], back[ROUNDS], whole[ROUNDS], tree[ROUNDS];
  static double of_one_way[ROUNDS], of_back[ROUNDS], of_whole[ROUNDS];
  const size_t bytes = (size_t)FRAGMENTS * PIECE, datagram = (size_t)MANY * PIECE;
  float *src = aligned_alloc(64, bytes), *dst = aligned_alloc(64, bytes + (1 << 16));
  insist(src && dst, "memory");
  for (size_t i = 0; i < bytes / sizeof *src; i++) src[i] = (float)(i % 1021) - 500;
  struct plain small = {
      .from = (unsigned char *)src, .from_bytes = 64 * datagram, .into = (unsigned char *)dst, .into_bytes = datagram};
  struct plain large = {.from = small.from, .from_bytes = bytes, .into = small.into, .into_bytes = bytes, .back = true};
  int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS; /* NOLINT: a bench's own argument */
  insist(rounds >= 1 && rounds <= ROUNDS, "there may be 1 to 30 rounds");
  pin(0);
  for (int i = 0; argc > 1 && i < rounds; i++) tree[i] = time_tree(src, dst);
  for (int i = 0; argc == 1 && i < ROUNDS; i++) {
    small.back = false;
    one_way[i] = time_plain(small);
    small.back = true;
    back[i] = time_plain(small);
    whole[i] = time_plain(large);
    tree[i] = time_tree(src, dst);
    of_one_way[i] = tree[i] / one_way[i];
    of_back[i] = tree[i] / back[i];
    of_whole[i] = tree[i] / whole[i];
  }
  print_row("worker and server", " Gbit/s", tree, rounds);
  if (argc > 1) return 0;
  print_row("plain, one way", " Gbit/s", one_way, rounds);
  print_row("plain, there and back", " Gbit/s", back, rounds);
  print_row("plain, there and back, 32 MB", " Gbit/s", whole, rounds);
  print_row("worker and server / plain one way", "", of_one_way, rounds);
  print_row("worker and server / plain there and back", "", of_back, rounds);
  print_row("worker and server / plain there and back, 32 MB", "", of_whole, rounds);
  free(src);
  free(dst);
  return 0;
}
