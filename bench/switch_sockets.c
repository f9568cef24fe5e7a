#include "switch_sockets.h"

#include <string.h>

#include "../tests/net/user_hosts.h"
#include "clock.h"
#include "data_plane.h"

/* MANY fragments fill a datagram. About WAITING datagrams wait when the clock starts. */
enum { LINES = 22, BYTES = BY_FRAGMENT_LINE * (1 + LINES), MANY = 44, WAITING = 16, ROUNDS = 400, BATCHES = 5 };

struct term {
  struct by_fragment head;
  uint64_t pairs[LINES * 8];
};

struct sockets {
  struct by_loop *loop;
  struct by_plane user;
  int worker, server;
  uint32_t workers;
  uint32_t number; /* the number of the next datagram */
  struct term terms[MANY];
};

static const struct by_grant grant = {.below = 1, .above = 2, .count = MANY * WAITING, .dtype = BY_FRAGMENT_PAIRS};

static void insist(bool well, const char *what) {
  if (well) return;
  fprintf(stderr, "switch_bench: sockets: %s: %s; %s\n", what, strerror(errno), banyan_error_text());
  exit(1);
}

/* Sends datagrams of all workers in turn. With `expected` 0 they are only forwarded. */
static void send_datagram(struct sockets *sockets, uint32_t expected, bool together) {
  uint32_t turn = sockets->number / sockets->workers;
  uint8_t rank = (uint8_t)(sockets->number++ % sockets->workers);
  for (uint32_t i = 0; i < MANY; i++) {
    struct by_fragment *head = &sockets->terms[i].head;
    by_fragment_begin(head, BY_FRAGMENT_UP, rank);
    head->dtype = BY_FRAGMENT_PAIRS;
    head->lines = LINES;
    head->slot = (uint16_t)(turn % WAITING * MANY + i);
    head->epoch = turn / WAITING + 1;
    insist(by_fragment_push(head, 1, expected), "entry");
    by_fragment_seal(head);
  }
  for (uint32_t i = 0; i < MANY; i += together ? MANY : 1)
    insist(send_to(sockets->worker, "10.9.9.1", BY_FRAGMENT_PORT, &sockets->terms[i], together ? MANY * BYTES : BYTES,
                   together ? BYTES : 0),
           "send");
}

/* Returns the number of datagrams, equally many from each worker. */
static uint32_t datagrams_of(uint32_t workers) {
  return workers * (workers < WAITING ? WAITING / workers : 1);
}

static uint64_t fragments_seen(const struct sockets *sockets) {
  uint64_t all = 0;
  struct by_plane_counts counts;
  sockets->user.ops->count(sockets->user.self, &counts);
  for (int i = 0; i < BY_EVENTS; i++) all += counts.events[i];
  return all;
}

static void drain(int fd) {
  char byte;
  while (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0) {
  }
}

/* Nanoseconds for each fragment. */
struct cost {
  double before; /* generating, sending, and the kernel's work until the datagram waits at the switch's socket */
  double here;   /* the path from there to the server's socket */
};

static struct cost time_rounds(struct sockets *sockets, uint32_t expected, bool together) {
  uint64_t before = 0, spent = 0, start = fragments_seen(sockets), sent = 0;
  uint32_t n = datagrams_of(sockets->workers);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t made = by_clock_now(&by_clock_system);
    for (uint32_t i = 0; i < n; i++) send_datagram(sockets, expected, together);
    uint64_t began = by_clock_now(&by_clock_system);
    before += began - made;
    sent += (uint64_t)n * MANY;
    while (fragments_seen(sockets) - start < sent)
      insist(by_loop_run_once(sockets->loop, BY_SECOND) == BANYAN_OK, "loop");
    spent += by_clock_now(&by_clock_system) - began;
    drain(sockets->server);
  }
  return (struct cost){(double)before / (double)sent, (double)spent / (double)sent};
}

/* Checks that each fragment was processed as intended, and left. */
static void check(const struct sockets *sockets, uint64_t forwarded, uint64_t completed) {
  struct by_plane_counts counts;
  sockets->user.ops->count(sockets->user.self, &counts);
  insist(counts.events[BY_EVENT_FORWARDED] == forwarded && counts.events[BY_EVENT_COMPLETED] == completed,
         "not what was sent");
  insist(counts.unsent == 0 && counts.sent == forwarded + completed, "something could not be sent");
}

static void print_row(const char *what, struct cost cost) {
  double ns = cost.here;
  printf("1408 B  user, with sockets, %-22s %6.1f ns %5.2f M/s %5.1f Gbit/s (and %6.1f to send the term)\n", what, ns,
         1e3 / ns, 8.0 * 64 * LINES / ns, cost.before);
  fflush(stdout);
}

static void set_up(struct sockets *sockets) {
  struct by_plane_options options = {.cells = MANY * WAITING};
  const struct by_plane_ends ends = {.server = {1, {inet_addr("10.9.9.1"), htons(BY_FRAGMENT_PORT)}},
                                     .n_workers = 1,
                                     .workers = {{0, {inet_addr("10.7.0.2"), htons(BY_FRAGMENT_PORT)}}}};
  int one = 1, hosts[2];
  insist(become_switch() && (hosts[0] = make_host(0)) >= 0 && (hosts[1] = make_host(1)) >= 0, "namespaces");
  insist((sockets->worker = open_at(hosts[0], "10.7.0.2", BY_FRAGMENT_PORT)) >= 0, "worker");
  insist((sockets->server = open_at(hosts[1], "10.9.9.1", BY_FRAGMENT_PORT)) >= 0, "server");
  insist(setsockopt(sockets->server, SOL_UDP, UDP_GRO, &one, sizeof one) == 0, "UDP_GRO");
  insist(by_loop_create(&by_clock_system, &sockets->loop) == BANYAN_OK, "loop");
  insist(by_user_open(sockets->loop, &options, &sockets->user) == BANYAN_OK, "switch");
  insist(sockets->user.ops->add_port(sockets->user.self, 0, "p0") == BANYAN_OK, "port 0");
  insist(sockets->user.ops->add_port(sockets->user.self, 1, "p1") == BANYAN_OK, "port 1");
  insist(sockets->user.ops->start(sockets->user.self, 0) == BANYAN_OK, "TUN device");
  insist(sockets->user.ops->grant(sockets->user.self, &grant, &ends) == BANYAN_OK, "grant");
}

void by_bench_sockets(uint32_t workers) {
  static struct sockets sockets;
  static const char *names[4] = {"added, 44 together", "added, one by one", "forwarded, 44 together",
                                 "forwarded, one by one"};
  struct cost best[4] = {{0}};
  uint64_t forwarded = 0, completed = 0;
  sockets.workers = workers;
  set_up(&sockets);
  for (int i = 0; i < 4 * BATCHES; i++) {
    bool adds = i % 4 < 2;
    struct cost cost = time_rounds(&sockets, adds ? workers : 0, i % 2 == 0);
    *(adds ? &completed : &forwarded) += ROUNDS * MANY * datagrams_of(workers) / (adds ? workers : 1);
    if (best[i % 4].here == 0 || cost.here < best[i % 4].here) best[i % 4] = cost;
  }
  check(&sockets, forwarded, completed);
  for (int i = 0; i < 4; i++) print_row(names[i], best[i]);
  by_plane_close(&sockets.user);
  by_loop_destroy(sockets.loop);
}
