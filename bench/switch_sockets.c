#include "switch_sockets.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../tests/net/user_hosts.h"
#include "clock.h"
#include "data_plane.h"

/* MANY fragments fill a datagram. About WAITING datagrams wait when the clock starts. */
enum { LINES = 22, BYTES = BY_FRAGMENT_LINE * (1 + LINES), MANY = 44, WAITING = 16, ROUNDS = 400, BATCHES = 5 };

struct term {
  struct by_fragment head;
  uint64_t pairs[LINES * 8];
};

/* In rounds of queues, BACKLOG times as many datagrams wait, so that what it takes to wake a thread counts less. */
enum { QUEUES = 2, BACKLOG = 4 };

struct sockets {
  struct by_loop *loop;
  struct by_plane user;
  int worker, servers[QUEUES]; /* one UDP port for each queue */
  uint32_t workers;
  uint32_t number; /* the number of the next datagram */
  bool keyed;      /* fragments have MACs */
  struct by_hop_key key;
  struct term terms[MANY];
};

/* The jobs are numbered like the queues. */
static struct by_grant grant_of(const struct sockets *sockets, uint32_t job) {
  return (struct by_grant){.below = 1,
                           .above = 2,
                           .base = job * MANY * WAITING,
                           .count = MANY * WAITING,
                           .job = (uint16_t)job,
                           .dtype = BY_FRAGMENT_PAIRS,
                           .keyed = sockets->keyed};
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void insist(bool well, const char *what) {
  if (well) return;
  fprintf(stderr, "switch_bench: sockets: %s: %s; %s\n", what, strerror(errno), banyan_error_text());
  exit(1);
}

/* Sends a job's datagrams of all workers in turn. With `expected` 0 they are only forwarded. */
static void send_datagram(struct sockets *sockets, uint32_t job, uint32_t expected, bool together) {
  uint32_t turn = sockets->number / sockets->workers;
  uint8_t rank = (uint8_t)(sockets->number++ % sockets->workers);
  for (uint32_t i = 0; i < MANY; i++) {
    struct by_fragment *head = &sockets->terms[i].head;
    by_fragment_begin(head, BY_FRAGMENT_UP, rank);
    head->job = (uint16_t)job;
    head->dtype = BY_FRAGMENT_PAIRS;
    head->lines = LINES;
    head->slot = (uint16_t)(turn % WAITING * MANY + i);
    head->epoch = turn / WAITING + 1;
    insist(by_fragment_push(head, 1, expected), "entry");
    by_fragment_sign(head, sockets->keyed ? &sockets->key : NULL);
  }
  for (uint32_t i = 0; i < MANY; i += together ? MANY : 1)
    insist(send_to(sockets->worker, "10.9.9.1", (uint16_t)(BY_FRAGMENT_PORT + job), &sockets->terms[i],
                   together ? MANY * BYTES : BYTES, together ? BYTES : 0),
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
    for (uint32_t i = 0; i < n; i++) send_datagram(sockets, 0, expected, together);
    uint64_t began = by_clock_now(&by_clock_system);
    before += began - made;
    sent += (uint64_t)n * MANY;
    while (fragments_seen(sockets) - start < sent)
      insist(by_loop_run_once(sockets->loop, BY_SECOND) == BANYAN_OK, "loop");
    spent += by_clock_now(&by_clock_system) - began;
    drain(sockets->servers[0]);
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

static void print_row(const struct sockets *sockets, const char *what, struct cost cost) {
  double ns = cost.here;
  printf("1408 B  user, with sockets and %s, %-22s %6.1f ns %5.2f M/s %5.1f Gbit/s (and %6.1f to send the term)\n",
         sockets->keyed ? "MACs " : "seals", what, ns, 1e3 / ns, 8.0 * 64 * LINES / ns, cost.before);
  fflush(stdout);
}

static void open_ends(struct sockets *sockets) {
  int one = 1, hosts[2];
  insist(become_switch() && (hosts[0] = make_host(0)) >= 0 && (hosts[1] = make_host(1)) >= 0, "namespaces");
  insist((sockets->worker = open_at(hosts[0], "10.7.0.2", BY_FRAGMENT_PORT)) >= 0, "worker");
  for (uint16_t i = 0; i < QUEUES; i++) {
    insist((sockets->servers[i] = open_at(hosts[1], "10.9.9.1", (uint16_t)(BY_FRAGMENT_PORT + i))) >= 0, "server");
    insist(setsockopt(sockets->servers[i], SOL_UDP, UDP_GRO, &one, sizeof one) == 0, "UDP_GRO");
  }
}

static struct by_udp_end end_of(const char *host, uint16_t port) {
  struct by_address address;
  insist(by_address_parse_host(host, port, &address) == BANYAN_OK, "address");
  return by_udp_end_of(&address);
}

/* With 0 queues, it runs on the loop. */
static void start_switch(struct sockets *sockets, uint32_t queues) {
  struct by_plane_options options = {.cells = QUEUES * MANY * WAITING, .queues = queues};
  insist(by_loop_create(&by_clock_system, &sockets->loop) == BANYAN_OK, "loop");
  insist(by_user_open(sockets->loop, &options, &sockets->user) == BANYAN_OK, "switch");
  insist(sockets->user.ops->add_port(sockets->user.self, 0, "p0") == BANYAN_OK, "port 0");
  insist(sockets->user.ops->add_port(sockets->user.self, 1, "p1") == BANYAN_OK, "port 1");
  insist(sockets->user.ops->start(sockets->user.self, 0) == BANYAN_OK, "TUN device");
  for (uint16_t i = 0; i < QUEUES; i++) {
    const struct by_grant grant = grant_of(sockets, i);
    const struct by_plane_ends ends = {.key = &sockets->key,
                                       .server = {1, end_of("10.9.9.1", (uint16_t)(BY_FRAGMENT_PORT + i))},
                                       .n_workers = 1,
                                       .workers = {{0, end_of("10.7.0.2", BY_FRAGMENT_PORT)}}};
    insist(sockets->user.ops->grant(sockets->user.self, &grant, &ends) == BANYAN_OK, "grant");
  }
}

static void stop_switch(struct sockets *sockets) {
  by_plane_close(&sockets->user);
  by_loop_destroy(sockets->loop);
}

/* ---- queues */

static double clock_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

/* Waits for so many bytes of sums, without asking the queues, which would cost each of them time. */
static void await_sums(const struct sockets *sockets, uint64_t bytes) {
  char byte;
  for (uint64_t come = 0; come < bytes; usleep(100))
    for (int i = 0; i < QUEUES; i++) {
      ssize_t n;
      while ((n = recv(sockets->servers[i], &byte, 1, MSG_DONTWAIT | MSG_TRUNC)) > 0) come += (uint64_t)n;
    }
}

/* Nanoseconds of the queues' threads for each fragment: what the process spent, without this thread. */
static double time_queues(struct sockets *sockets, uint32_t queues) {
  uint64_t sent = 0;
  start_switch(sockets, queues);
  sockets->number = 0;
  double began = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
  uint32_t n = BACKLOG * datagrams_of(sockets->workers);
  for (int round = 0; round < ROUNDS / BACKLOG; round++) {
    uint32_t first = sockets->number;
    for (uint32_t job = 0; job < QUEUES; job++) {
      sockets->number = first;
      for (uint32_t i = 0; i < n; i++) send_datagram(sockets, job, sockets->workers, true);
    }
    sent += (uint64_t)QUEUES * n * MANY;
    await_sums(sockets, (uint64_t)QUEUES * n / sockets->workers * MANY * BYTES);
  }
  double spent = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
  struct by_plane_counts counts;
  insist(sockets->user.ops->count(sockets->user.self, &counts) == BANYAN_OK, "counts");
  insist(counts.events[BY_EVENT_COMPLETED] == sent / sockets->workers && counts.unsent == 0, "not what was sent");
  stop_switch(sockets);
  return spent / (double)sent;
}

/* Both in turn, medians. */
void by_bench_queues(uint32_t workers) {
  static struct sockets sockets;
  double ns[QUEUES][BATCHES];
  sockets.workers = workers;
  open_ends(&sockets);
  for (int batch = 0; batch < BATCHES; batch++)
    for (uint32_t i = 0; i < QUEUES; i++) ns[i][batch] = time_queues(&sockets, i + 1);
  for (uint32_t i = 0; i < QUEUES; i++) {
    qsort(ns[i], BATCHES, sizeof ns[i][0], compare);
    double middle = ns[i][BATCHES / 2];
    printf("1408 B  user, with sockets, added, 44 together, %u queue%s %6.1f ns of the threads' time, %5.1f Gbit/s a "
           "core\n",
           i + 1, i ? "s" : " ", middle, 8.0 * 64 * LINES / middle);
  }
}

static void time_sockets(struct sockets *sockets) {
  static const char *names[4] = {"added, 44 together", "added, one by one", "forwarded, 44 together",
                                 "forwarded, one by one"};
  struct cost best[4] = {{0}};
  uint64_t forwarded = 0, completed = 0;
  start_switch(sockets, 0);
  sockets->number = 0;
  for (int i = 0; i < 4 * BATCHES; i++) {
    bool adds = i % 4 < 2;
    struct cost cost = time_rounds(sockets, adds ? sockets->workers : 0, i % 2 == 0);
    *(adds ? &completed : &forwarded) += ROUNDS * MANY * datagrams_of(sockets->workers) / (adds ? sockets->workers : 1);
    if (best[i % 4].here == 0 || cost.here < best[i % 4].here) best[i % 4] = cost;
  }
  check(sockets, forwarded, completed);
  for (int i = 0; i < 4; i++) print_row(sockets, names[i], best[i]);
  stop_switch(sockets);
}

void by_bench_sockets(uint32_t workers) {
  static struct sockets sockets;
  sockets.workers = workers;
  for (int i = 0; i < BY_MAC_WORDS; i++) sockets.key.hash[i] = 0x9e3779b97f4a7c15 * ((uint64_t)i + 1); /* any numbers */
  open_ends(&sockets);
  for (int keyed = 0; keyed < 2; keyed++) {
    sockets.keyed = keyed != 0;
    time_sockets(&sockets);
  }
}
