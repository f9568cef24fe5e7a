/* Links that cannot be made, unauthenticated peers that disturb a job, and links of several TCP connections. And data
 * that a call leaves in a full link arrives although its rank makes no more calls. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

#include "job_keys.h"
#include "key_ring.h"
#include "net_operations.h"

static enum banyan_status add_once(struct banyan_comm *world) {
  float in = 1, out = 0;
  enum banyan_status status = banyan_allreduce(world, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM);
  if (status == BANYAN_OK) must_hold(out == (float)banyan_comm_size(world));
  return status;
}

/* ---- failures after the handshake */

/* Leaves this many free descriptors to the process. */
static void take_descriptors(int left) {
  enum { MOST = 128 };
  int fds[MOST], n = 0;
  struct rlimit limit = {.rlim_cur = MOST, .rlim_max = MOST};
  must_hold(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while ((fds[n] = dup(STDERR_FILENO)) >= 0) n++;
  must_hold(n >= left);
  for (int i = 0; i < left; i++) close(fds[i]);
}

/* The rank in `argument` has a descriptor for the connection, and none for the shared memory that follows. */
static void rank_lacks_descriptors(struct job *job, int rank) {
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_DEADLINE", "25", 1);
  struct banyan_comm *world = job_join();
  if (rank == *(const int *)job->argument) take_descriptors(1);
  job_set_stage(job, rank, 1);
  for (double until = job_now() + 20; atomic_load(&job->reports[!rank].stage) < 1 && job_now() < until;) usleep(100);
  job_report_status(job, rank, add_once(world));
  banyan_comm_destroy(world);
}

static void lacks_descriptors(int rank, const char *text) {
  struct job job = {.n = 2, .run = rank_lacks_descriptors, .transport = "shm", .argument = &rank};
  job_start(&job);
  job_wait(&job);
  for (int r = 0; r < job.n; r++)
    if (job.reports[r].status != BANYAN_ERR_CONNECT || !strstr(job.reports[r].text, text))
      job_fail(&job, "rank %d ended with %s: %s", r, banyan_status_name(job.reports[r].status), job.reports[r].text);
  job_end(&job, true);
}

static void test_no_memory_to_offer(void **state) {
  (void)state;
  lacks_descriptors(1, "rank 1 (host here) has no link to rank 0 (host here): setting up shared memory failed");
}

static void test_no_memory_to_take(void **state) {
  (void)state;
  lacks_descriptors(0, "rank 0 (host here) has no link to rank 1 (host here): setting up shared memory failed");
}

/* ---- options that the machine does not support */

static void rank_untunable(struct job *job, int rank) {
  (void)job, (void)rank;
  setenv("BANYAN_CONGESTION", "nosuch", 1);
  setenv("BANYAN_SOCKET_BUFFER", "64K", 1);
  struct banyan_comm *world = job_join();
  must(add_once(world));
  banyan_comm_destroy(world);
}

/* An option that cannot be set is reported once for each end, and nothing else fails. */
static void test_untunable(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_untunable, .transport = "tcp"};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "keeps its default for BANYAN_CONGESTION", 2);
  job_check_log(&job, "keeps its default", 2);
  job_end(&job, true);
}

/* ---- unauthenticated peers */

enum { UNAUTHENTICATED = 300, MOST_OPEN = 300, FEW = 160 };

static void connect_silently(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must_hold(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
}

static void allow_descriptors(unsigned most) {
  struct rlimit limit;
  must_hold(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = most;
  must_hold(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* Rank 1 plays the peers: they connect to both of rank 0's ports and send nothing. The seed is the number of
 * descriptors that rank 0 may have, unless it is 0. */
static void rank_among_unauthenticated_peers(struct job *job, int rank) {
  int data_port = *(const int *)job->argument, root_port = atoi(strchr(job->root, ':') + 1);
  char ports[16];
  snprintf(ports, sizeof ports, "%d", data_port);
  if (rank == 0) setenv("BANYAN_PORTS", ports, 1);
  if (rank == 0 && job->seed) allow_descriptors((unsigned)job->seed);
  struct banyan_comm *world = job_join();
  for (int i = 0; i < UNAUTHENTICATED && rank == 1; i++) {
    connect_silently(data_port);
    connect_silently(root_port);
  }
  if (rank == 1) job_set_stage(job, rank, 1);
  for (double until = job_now() + 20; atomic_load(&job->reports[1].stage) < 1 && job_now() < until;) usleep(100);
  must(add_once(world));
  must(add_once(world));
  if (rank == 0) must_hold(job_count_fds() < (job->seed ? (int)job->seed * 3 / 4 : MOST_OPEN));
  banyan_comm_destroy(world);
}

static void test_unauthenticated_peers(void **state) {
  (void)state;
  int port = job_free_port();
  struct job job = {.n = 2, .run = rank_among_unauthenticated_peers, .transport = "tcp", .argument = &port};
  job_run(&job);
}

static void test_unauthenticated_peers_with_few_descriptors(void **state) {
  (void)state;
  int port = job_free_port();
  struct job job = {
      .n = 2, .run = rank_among_unauthenticated_peers, .transport = "tcp", .argument = &port, .seed = FEW};
  job_run(&job);
}

/* ---- a slow peer */

static int connect_to(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct timeval wait = {.tv_sec = 20};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must_hold(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
  must_hold(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
  return fd;
}

static void send_handshake(int fd, struct by_handshake *handshake) {
  size_t length;
  const uint8_t *bytes = by_handshake_output(handshake, &length);
  must_hold(send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length);
  by_handshake_sent(handshake, length);
}

static void receive(int fd, struct by_handshake *handshake, size_t length) {
  uint8_t bytes[100];
  size_t used;
  must_hold(recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length);
  must(by_handshake_feed(handshake, bytes, length, &used));
}

/* In the middle of this peer's handshake, many others connect to the port and send nothing. The connection must still
 * be open when the handshake continues. */
static void greet_slowly(int port) {
  struct by_handshake handshake;
  struct by_key key;
  uint8_t hello[10] = {0};
  int fd = connect_to(port);
  must(by_key_derive(JOB_KEY, &key));
  struct by_handshake_options options = {
      .role = BY_ROLE_CLIENT, .purpose = 'D', .key = &key, .hello = hello, .hello_length = sizeof hello};
  must(by_handshake_init(&handshake, &options));
  send_handshake(fd, &handshake);
  receive(fd, &handshake, BY_GREETING_BYTES + BY_MAC_BYTES);
  for (int i = 0; i < UNAUTHENTICATED; i++) connect_silently(port);
  send_handshake(fd, &handshake);
  while (!by_handshake_done(&handshake)) receive(fd, &handshake, 1);
  by_handshake_fini(&handshake);
  close(fd);
}

/* A ticket of the job is for joining, and opens no links: the link to the rank is made as before. */
static void greet_with_a_ticket(int port) {
  struct by_handshake handshake;
  struct by_job_keys keys;
  uint8_t byte, hello[10] = {[3] = 1, [9] = 1};
  size_t used;
  int fd = connect_to(port);
  must(by_job_keys_derive(JOB_KEY, &(struct by_ticket_subject){BY_TICKET_HELPER, "here"}, &keys));
  struct by_handshake_options options = {.role = BY_ROLE_CLIENT,
                                         .purpose = 'D' | keys.purpose,
                                         .key = &keys.own,
                                         .ticket = keys.ticket,
                                         .hello = hello,
                                         .hello_length = sizeof hello};
  must(by_handshake_init(&handshake, &options));
  send_handshake(fd, &handshake);
  enum banyan_status status = BANYAN_OK;
  while (status == BANYAN_OK && recv(fd, &byte, 1, 0) == 1) status = by_handshake_feed(&handshake, &byte, 1, &used);
  must_hold(status == BANYAN_ERR_AUTH);
  by_handshake_fini(&handshake);
  close(fd);
}

/* A silent connection is closed long before the 30 s for which the job would wait for a link. */
static void send_nothing(int port) {
  char byte;
  int fd = connect_to(port);
  must_hold(recv(fd, &byte, 1, 0) == 0);
  close(fd);
}

static void rank_is_visited(struct job *job, int rank) {
  setenv("BANYAN_ENCRYPT", "auto", 1); /* the connections that are made by hand are in plain text */
  int port = *(const int *)job->argument;
  char ports[16];
  snprintf(ports, sizeof ports, "%d", port);
  if (rank == 0) setenv("BANYAN_PORTS", ports, 1);
  struct banyan_comm *world = job_join();
  if (rank == 1) {
    greet_slowly(port);
    greet_with_a_ticket(port);
    send_nothing(port);
    job_set_stage(job, rank, 1);
  }
  for (double until = job_now() + 50; atomic_load(&job->reports[1].stage) < 1 && job_now() < until;) usleep(1000);
  must(add_once(world));
  banyan_comm_destroy(world);
}

static void test_incoming_connections(void **state) {
  (void)state;
  int port = job_free_port();
  struct job job = {.n = 2, .run = rank_is_visited, .transport = "tcp", .argument = &port};
  job_run(&job);
}

enum { MOST = 20000, LONG = 50000 };

static struct banyan_call message(enum banyan_collective what, void *memory, size_t bytes) {
  return (struct banyan_call){.collective = what,
                              .dtype = BANYAN_UINT8,
                              .root = what == BANYAN_SEND,
                              .send = memory,
                              .recv = memory,
                              .count = bytes};
}

/* Sends until the link takes no more, and gives up the message that was not sent at once. A little later the kernel
 * would take it. */
static void fill(struct job *job, struct banyan_comm *comm, size_t bytes) {
  char memory[512];
  struct banyan_request *request = NULL;
  uint64_t sent = 0;
  for (bool done = true; done; sent += done) {
    must_hold(sent < MOST);
    memset(memory, (int)(sent % 100), bytes);
    struct banyan_call call = message(BANYAN_SEND, memory, bytes);
    must(banyan_start(comm, &call, &request));
    must(banyan_test(request, &done));
  }
  banyan_comm_destroy(comm);
  must_fail(BANYAN_ERR_CLOSED, banyan_wait(request));
  job->reports[0].number = sent;
}

static void empty(struct job *job, struct banyan_comm *comm, size_t bytes) {
  char memory[512];
  for (uint64_t i = 0; i < job->reports[0].number; i++) {
    struct banyan_call call = message(BANYAN_RECV, memory, bytes);
    must(banyan_run(comm, &call));
    for (size_t k = 0; k < bytes; k++) must_hold(memory[k] == (char)(i % 100));
  }
  banyan_comm_destroy(comm);
}

static void await(struct job *job, int rank, int stage) {
  for (int i = 0; i < LONG && atomic_load(&job->reports[rank].stage) < stage; i++) usleep(1000);
}

/* Rank 1 reads nothing before rank 0 has filled the link, and rank 0 does nothing before rank 1 has read everything.
 * The kernel decides where the last message is cut, which is often enough in its middle. */
static void rank_fills(struct job *job, int rank) {
  struct by_rng rng;
  by_rng_init(&rng, job->seed);
  setenv("BANYAN_SOCKET_BUFFER", "32K", 1);
  job_set_engine("credit", "64M");
  setenv("BANYAN_DEADLINE", "20", 1);
  struct banyan_comm *world = job_join();
  for (int round = 1; round <= job_rounds(12); round++) {
    struct banyan_comm *other = NULL;
    size_t bytes = 1 + by_rng_below(&rng, 512);
    must(banyan_comm_duplicate(world, &other));
    must(banyan_barrier(world));
    if (rank == 0) {
      fill(job, other, bytes);
      job_set_stage(job, 0, round);
      await(job, 1, round);
    } else {
      await(job, 0, round);
      empty(job, other, bytes);
      job_set_stage(job, 1, round);
    }
  }
  banyan_comm_destroy(world);
}

static void test_last_message(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_fills, .transport = "tcp", .seed = job_seed(0)};
  job_run(&job);
}

enum { AT_ONCE = 8, MOST_SPREAD = 300000 };

static const char *const plans[] = {NULL, "star", "ring", "chain", "halving", "exchange"};
enum { PLANS = sizeof plans / sizeof *plans };

/* Most calls are large enough to be spread over the connections. Small calls come between them. */
static void choose(struct by_rng *rng, int ranks, int collective, struct operation *operation) {
  operation_choose(rng, ranks, collective, MOST_SPREAD, operation);
  if (collective == BANYAN_BARRIER) return;
  if (by_rng_below(rng, 4)) operation->call.count = MOST_SPREAD / 2 + by_rng_below(rng, MOST_SPREAD / 2);
  for (int r = 0; r < ranks && operation->call.counts; r++) operation->counts[r] = by_rng_below(rng, MOST_SPREAD);
}

static void one_by_one(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_BARRIER; c++) {
    struct operation operation;
    choose(rng, banyan_comm_size(world), c, &operation);
    operation_do(world, &operation, (unsigned)by_rng_below(own, 4));
  }
}

static void many_at_once(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own) {
  struct operation operations[AT_ONCE];
  struct banyan_request *requests[AT_ONCE];
  for (int i = 0; i < AT_ONCE; i++) {
    choose(rng, banyan_comm_size(world), -1, &operations[i]);
    operation_prepare(world, &operations[i], (unsigned)by_rng_below(own, 4));
    must(banyan_start(world, &operations[i].call, &requests[i]));
    job_doze(own, 300);
  }
  must(banyan_wait_all(requests, AT_ONCE));
  for (int i = 0; i < AT_ONCE; i++) {
    operation_check(&operations[i]);
    operation_free(&operations[i]);
  }
}

static void rank_values(struct job *job, int rank) {
  struct by_rng rng, own; /* rng is the same on all ranks, own differs */
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  setenv("BANYAN_CONNECTIONS", job->argument, 1);
  setenv("BANYAN_LOG", "info", 1);
  struct banyan_comm *world = job_join();
  for (int p = 0; p < PLANS; p++) {
    must(banyan_comm_set_plan(world, plans[p]));
    one_by_one(world, &rng, &own);
    for (int i = 0; i < job_rounds(2); i++) many_at_once(world, &rng, &own);
  }
  banyan_comm_destroy(world);
}

/* Both ends of each connection of the links are logged. */
static void values(int n, const char *connections, int ends) {
  struct job job = {.n = n, .run = rank_values, .transport = "tcp", .seed = (uint64_t)n, .argument = connections};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "over TCP", ends);
  job_end(&job, true);
}

static void test_two_ranks(void **state) {
  (void)state;
  values(2, "4", 8);
}

static void test_by_address(void **state) {
  (void)state;
  values(2, "5@10.0.0.0/8,8@127.0.0.0/8,3", 16);
}

static void test_four_ranks(void **state) {
  (void)state;
  values(4, "3", 2 * 6 * 3);
}

/* The higher rank of each pair decides the number of connections. */
static void rank_differs(struct job *job, int rank) {
  setenv("BANYAN_CONNECTIONS", rank == 2 ? "4" : rank == 1 ? "2" : "7", 1);
  setenv("BANYAN_LOG", "info", 1);
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, (uint64_t)rank);
  struct banyan_comm *world = job_join();
  must(banyan_comm_set_plan(world, "exchange")); /* needs all links */
  one_by_one(world, &rng, &own);
  banyan_comm_destroy(world);
}

static void test_ranks_differ(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_differs, .transport = "tcp", .seed = 5};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "over TCP", 2 * (4 + 4 + 2));
  job_end(&job, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_memory_to_offer),
      cmocka_unit_test(test_no_memory_to_take),
      cmocka_unit_test(test_untunable),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_incoming_connections),
      cmocka_unit_test(test_unauthenticated_peers_with_few_descriptors),
      cmocka_unit_test(test_last_message),
      cmocka_unit_test(test_two_ranks),
      cmocka_unit_test(test_by_address),
      cmocka_unit_test(test_four_ranks),
      cmocka_unit_test(test_ranks_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
