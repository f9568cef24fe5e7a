/* Links that cannot be made, and strangers who get in the way of making them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "handshake.h"
#include "job.h"

static enum banyan_status add_once(struct banyan_comm *world) {
  float in = 1, out = 0;
  enum banyan_status status = banyan_allreduce(world, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM);
  if (status == BANYAN_OK) must_hold(out == (float)banyan_comm_size(world));
  return status;
}

/* ---- what goes wrong behind the handshake */

/* Leaves this process so many descriptors. */
static void take_descriptors(int left) {
  enum { MOST = 128 };
  int fds[MOST], n = 0;
  struct rlimit limit = {.rlim_cur = MOST, .rlim_max = MOST};
  must_hold(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  while ((fds[n] = dup(STDERR_FILENO)) >= 0) n++;
  must_hold(n >= left);
  for (int i = 0; i < left; i++) close(fds[i]);
}

/* The rank in `argument` has a descriptor for the connection, and none for the memory behind it. */
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

static void lacks_descriptors(int who, const char *text) {
  struct job job = {.n = 2, .run = rank_lacks_descriptors, .transport = "shm", .argument = &who};
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

/* ---- options that the machine does not take */

static void rank_untunable(struct job *job, int rank) {
  (void)job, (void)rank;
  setenv("BANYAN_CONGESTION", "nosuch", 1);
  setenv("BANYAN_SOCKET_BUFFER", "64K", 1);
  struct banyan_comm *world = job_join();
  must(add_once(world));
  banyan_comm_destroy(world);
}

/* What cannot be set is said, once for each end, and nothing else fails for it. */
static void test_untunable(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_untunable, .transport = "tcp"};
  job_start(&job);
  job_wait(&job);
  job_check_log(&job, "keeps its default for BANYAN_CONGESTION", 2);
  job_check_log(&job, "keeps its default", 2);
  job_end(&job, true);
}

/* ---- strangers */

enum { UNAUTHENTICATED = 300, MOST_OPEN = 300, FEW = 160 };

static void visit(int port) {
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

/* Rank 1 plays them: they connect to both of rank 0's ports and say nothing. The seed is the number of descriptors that
 * rank 0 may have, unless it is 0. */
static void rank_among_unauthenticated_peers(struct job *job, int rank) {
  int data_port = *(const int *)job->argument, root_port = atoi(strchr(job->root, ':') + 1);
  char ports[16];
  snprintf(ports, sizeof ports, "%d", data_port);
  if (rank == 0) setenv("BANYAN_PORTS", ports, 1);
  if (rank == 0 && job->seed) allow_descriptors((unsigned)job->seed);
  struct banyan_comm *world = job_join();
  for (int i = 0; i < UNAUTHENTICATED && rank == 1; i++) {
    visit(data_port);
    visit(root_port);
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

/* ---- one that is slow */

static int connect_to(int port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct timeval wait = {.tv_sec = 20};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must_hold(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
  must_hold(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0);
  return fd;
}

static void say(int fd, struct by_handshake *handshake) {
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

/* In the middle of its handshake many others come to the port, who say nothing. It is still there when it goes on. */
static void greet_slowly(int port) {
  struct by_handshake handshake;
  struct by_key key;
  uint8_t hello[10] = {0};
  int fd = connect_to(port);
  must(by_key_derive("a secret of this test", &key));
  struct by_handshake_options options = {
      .role = BY_ROLE_CLIENT, .purpose = 'D', .key = &key, .hello = hello, .hello_length = sizeof hello};
  must(by_handshake_init(&handshake, &options));
  say(fd, &handshake);
  receive(fd, &handshake, BY_GREETING_BYTES + BY_MAC_BYTES);
  for (int i = 0; i < UNAUTHENTICATED; i++) visit(port);
  say(fd, &handshake);
  while (!by_handshake_done(&handshake)) receive(fd, &handshake, 1);
  by_handshake_fini(&handshake);
  close(fd);
}

/* It is closed, long before the 30 s for which the job would wait for a link. */
static void send_nothing(int port) {
  char byte;
  int fd = connect_to(port);
  must_hold(recv(fd, &byte, 1, 0) == 0);
  close(fd);
}

static void rank_is_visited(struct job *job, int rank) {
  int port = *(const int *)job->argument;
  char ports[16];
  snprintf(ports, sizeof ports, "%d", port);
  if (rank == 0) setenv("BANYAN_PORTS", ports, 1);
  struct banyan_comm *world = job_join();
  if (rank == 1) {
    greet_slowly(port);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_memory_to_offer),
      cmocka_unit_test(test_no_memory_to_take),
      cmocka_unit_test(test_untunable),
      cmocka_unit_test(test_unauthenticated_peers),
      cmocka_unit_test(test_incoming_connections),
      cmocka_unit_test(test_unauthenticated_peers_with_few_descriptors),
  };
  return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
