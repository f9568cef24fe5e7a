/* Requests. A request whose ownership the program has given up is reported once, with its status, whichever thread
 * makes progress, and before its communicator is destroyed. Many requests are outstanding at once and waited for in any
 * order, together with tagged messages, on ranks that come late, with the smallest buffers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

#include "net_operations.h"

enum { CALLS = 40, COUNT = 20000 };

struct notified {
  _Atomic int times;
  enum banyan_status status;
  char text[JOB_TEXT];
};

static void notify(void *argument, enum banyan_status status, const char *text) {
  struct notified *notified = argument;
  notified->status = status;
  snprintf(notified->text, sizeof notified->text, "%s", text);
  atomic_fetch_add(&notified->times, 1);
}

static void until_notified(const struct notified *notified) {
  for (int i = 0; i < 20000 && !atomic_load(&notified->times); i++) usleep(1000);
  must_hold(atomic_load(&notified->times) == 1);
}

static struct banyan_request *sum(struct banyan_comm *comm, float *values, size_t count) {
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM,
                             .send = values,
                             .recv = values,
                             .count = count};
  struct banyan_request *request = NULL;
  must(banyan_start(comm, &call, &request));
  return request;
}

/* Waits for every other call, so that user threads and the progress thread take turns. */
static void mix(struct job *job, int rank) {
  struct banyan_comm *comm = job_join();
  struct notified *notified = calloc(CALLS, sizeof *notified);
  float *values = malloc((size_t)CALLS * COUNT * sizeof *values);
  struct banyan_request *requests[CALLS];
  must_hold(notified && values);
  for (size_t i = 0; i < (size_t)CALLS * COUNT; i++) values[i] = (float)(rank + 1);
  for (int i = 0; i < CALLS; i++) requests[i] = sum(comm, values + (size_t)i * COUNT, i % 7 ? COUNT : 1);
  for (int i = 0; i < CALLS; i += 2) must(banyan_then(requests[i], notify, &notified[i]));
  for (int i = 1; i < CALLS; i += 2) must(banyan_wait(requests[i]));
  for (int i = 0; i < CALLS; i += 2) {
    until_notified(&notified[i]);
    must_hold(notified[i].status == BANYAN_OK && !*notified[i].text);
    must_hold(values[(size_t)i * COUNT] == (float)(job->n * (job->n + 1)) / 2);
  }
  banyan_comm_destroy(comm);
  free(values);
  free(notified);
}

static void test_mixed(void **state) {
  for (int tcp = 0; tcp < 2; tcp++) {
    struct job job = {.n = 3, .run = mix, .transport = tcp ? "tcp" : NULL};
    job_run(&job);
  }
}

/* ---- calls that are none */

static void call_wrongly(struct job *job, int rank) {
  static const struct {
    struct banyan_call call;
    const char *error;
  } wrong[] = {
      {{.collective = (enum banyan_collective)99}, "there is no collective number 99"},
      {{.collective = BANYAN_ALLREDUCE, .dtype = (enum banyan_dtype)99}, "allreduce: there is no dtype number 99"},
      {{.collective = BANYAN_ALLREDUCE, .op = (enum banyan_op)99}, "allreduce: there is no operation number 99"},
      {{.collective = BANYAN_ALLREDUCE, .op = BANYAN_AND}, "allreduce: and is not defined for f32"},
  };
  struct banyan_comm *comm = job_join();
  float value = 1;
  (void)job;
  (void)rank;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct banyan_call call = wrong[i].call;
    call.send = call.recv = &value;
    call.count = 1;
    must_hold(banyan_run(comm, &call) != BANYAN_OK);
    must_hold(strstr(banyan_error_text(), wrong[i].error));
  }
  banyan_comm_destroy(comm);
}

static void test_wrong(void **state) {
  struct job job = {.n = 2, .run = call_wrongly};
  (void)state;
  job_run(&job);
}

/* ---- calls that poll */

static int polled[2]; /* a pipe from the rank that polls to the one that waits for it */

static void write_once(void *argument) {
  int *times = argument;
  if (!(*times)++) must_hold(write(polled[1], "p", 1) == 1);
}

/* Rank 1 makes its call when rank 0 has polled. */
static void poll_until_all_call(struct job *job, int rank) {
  (void)job;
  struct banyan_comm *comm = job_join();
  float value = 1;
  int times = 0;
  char byte;
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE, .send = &value, .recv = &value, .count = 1};
  must_hold(banyan_run_polling(comm, &call, NULL, NULL) == BANYAN_ERR_ARGUMENT);
  if (rank == 1) must_hold(read(polled[0], &byte, 1) == 1);
  if (rank == 0)
    must(banyan_run_polling(comm, &call, write_once, &times));
  else
    must(banyan_run(comm, &call));
  must_hold(value == 2 && (rank == 1 || times > 0));
  banyan_comm_destroy(comm);
}

static void test_polling(void **state) {
  for (int tcp = 0; tcp < 2; tcp++) {
    struct job job = {.n = 2, .run = poll_until_all_call, .transport = tcp ? "tcp" : NULL};
    must_hold(pipe(polled) == 0);
    job_run(&job);
    close(polled[0]);
    close(polled[1]);
  }
}

/* The callback runs before destroy returns, though rank 1 never makes the call. */
static void destroy_pending(struct job *job, int rank) {
  (void)job;
  struct banyan_comm *comm = job_join(), *other = NULL;
  struct notified notified = {0};
  float value = 1;
  must(banyan_comm_duplicate(comm, &other));
  if (rank == 0) {
    struct banyan_request *late = sum(other, &value, 1), *given = sum(other, &value, 1);
    must(banyan_then(given, notify, &notified));
    banyan_comm_destroy(other);
    must_hold(notified.times == 1 && notified.status == BANYAN_ERR_CLOSED);
    struct notified after = {0};
    must(banyan_then(late, notify, &after));
    must_hold(after.times == 1 && after.status == BANYAN_ERR_CLOSED);
  } else {
    banyan_comm_destroy(other);
  }
  must(banyan_barrier(comm));
  banyan_comm_destroy(comm);
}

static void test_destroyed(void **state) {
  struct job job = {.n = 2, .run = destroy_pending};
  job_run(&job);
}

static void die(struct job *job, int rank) {
  struct banyan_comm *comm = job_join();
  struct notified notified[2] = {0};
  float value = 1;
  int source = -1;
  must(banyan_barrier(comm));
  job_set_stage(job, rank, 1);
  while (rank == 1) pause();
  struct banyan_call call = {.collective = BANYAN_RECV, .dtype = BANYAN_FLOAT32, .recv = &value, .count = 1};
  struct banyan_request *any = NULL;
  enum banyan_status status = banyan_recv_any(comm, &call, &source, &any);
  if (status == BANYAN_OK) {
    must(banyan_then(any, notify, &notified[0]));
    until_notified(&notified[0]);
    must_hold(notified[0].status == BANYAN_ERR_PEER_DEAD && strstr(notified[0].text, "rank 1"));
  }
  must_fail(BANYAN_ERR_PEER_DEAD, banyan_barrier(comm));
  banyan_comm_destroy(comm);
}

static void test_death(void **state) {
  struct job job = {.n = 3, .run = die};
  job_start(&job);
  for (int rank = 0; rank < job.n; rank++) job_wait_stage(&job, rank, 1); /* otherwise the barrier would end as well */
  job_signal(&job, 1, SIGKILL);
  job_wait(&job);
  job_check_killed(&job, 1, SIGKILL);
  job_check_exit(&job, 0);
  job_check_exit(&job, 2);
  job_end(&job, false);
}

/* All other ranks send to this rank, some before it receives, some after. */
static void receive_any(struct job *job, int rank) {
  struct banyan_comm *comm = job_join();
  int from[JOB_RANKS] = {0}, source = -1, value = 0, last = job->n - 1;
  struct banyan_request *request = NULL;
  struct banyan_call call = {.collective = BANYAN_RECV, .dtype = BANYAN_INT32, .recv = &value, .count = 1, .tag = 5};
  if (rank != last) {
    value = 100 + rank;
    struct banyan_call send = call;
    send.collective = BANYAN_SEND;
    send.send = &value;
    send.root = last;
    usleep((unsigned)(job->n - rank) % 3 * 20000);
    for (int i = 0; i < 2; i++) must(banyan_run(comm, &send));
  } else {
    for (int i = 0; i < 2 * last; i++) {
      must(banyan_recv_any(comm, &call, &source, &request));
      must(banyan_wait(request));
      must_hold(source >= 0 && source < last && value == 100 + source && ++from[source] <= 2);
    }
    call.count = 0;
    must_fail(BANYAN_ERR_UNSUPPORTED, banyan_recv_any(comm, &call, &source, &request));
    call.count = 1;
    call.deadline = -1;
    must_fail(BANYAN_ERR_ARGUMENT, banyan_recv_any(comm, &call, &source, &request));
  }
  must(banyan_barrier(comm));
  banyan_comm_destroy(comm);
}

static void test_any(void **state) {
  for (int tcp = 0; tcp < 2; tcp++) {
    struct job job = {.n = 4, .run = receive_any, .transport = tcp ? "tcp" : NULL};
    job_run(&job);
  }
}

static void wait_in_vain(struct job *job, int rank) {
  struct banyan_comm *comm = job_join();
  if (rank == 0) {
    int source = -1, value = 0;
    struct banyan_request *request = NULL;
    struct banyan_call call = {
        .collective = BANYAN_RECV, .dtype = BANYAN_INT32, .recv = &value, .count = 1, .deadline = 0.2};
    must(banyan_recv_any(comm, &call, &source, &request));
    must_fail(BANYAN_ERR_TIMEOUT, banyan_wait(request));
    must_hold(strstr(banyan_error_text(), "from any rank"));
  } else {
    must_fail(BANYAN_ERR_TIMEOUT, banyan_barrier(comm));
  }
  banyan_comm_destroy(comm);
  job_set_stage(job, rank, 1);
}

static void test_deadline(void **state) {
  struct job job = {.n = 2, .run = wait_in_vain};
  job_run(&job);
}

enum { AT_ONCE = 64, MESSAGES = 24, MESSAGE_BYTES = 30000 };

/* ---- collectives */

static void wait_one_by_one(struct by_rng *own, struct banyan_request **requests, int n) {
  for (int left = n; left;) {
    int i = (int)by_rng_below(own, (uint64_t)n);
    if (!requests[i]) continue;
    must(banyan_wait(requests[i]));
    requests[i] = NULL;
    left--;
  }
}

static void wait_by_testing(struct by_rng *own, struct banyan_request **requests, int n) {
  for (int left = n; left;) {
    int i = (int)by_rng_below(own, (uint64_t)n);
    bool done = false;
    if (requests[i]) must(banyan_test(requests[i], &done));
    if (!done) continue;
    requests[i] = NULL;
    left--;
  }
}

static void wait_for_any(struct banyan_request **requests, int n) {
  for (int left = n; left; left--) {
    size_t index = 0;
    must(banyan_wait_any(requests, (size_t)n, &index));
    must_hold(index < (size_t)n && !requests[index]);
  }
  size_t index = 0;
  must(banyan_wait_any(requests, (size_t)n, &index));
  must_hold(index == (size_t)n);
}

static void wait_somehow(struct by_rng *own, struct banyan_request **requests, int n) {
  switch (by_rng_below(own, 4)) {
  case 0: wait_one_by_one(own, requests, n); break;
  case 1: wait_by_testing(own, requests, n); break;
  case 2: wait_for_any(requests, n); break;
  default: must(banyan_wait_all(requests, (size_t)n));
  }
}

/* ---- Messages between two ranks with a tag. Messages with the same ends and tag keep their order. */

struct message {
  int from, to;
  uint32_t tag;
  size_t bytes;
  unsigned char fill;
  unsigned char *memory;
};

static void choose_messages(struct by_rng *rng, int ranks, size_t most, struct message *all) {
  for (int i = 0; i < MESSAGES; i++) {
    int from = (int)by_rng_below(rng, (uint64_t)ranks), step = 1 + (int)by_rng_below(rng, (uint64_t)ranks - 1);
    all[i] = (struct message){.from = from,
                              .to = (from + step) % ranks,
                              .tag = (uint32_t)by_rng_below(rng, 3),
                              .bytes = by_rng_below(rng, most),
                              .fill = (unsigned char)i};
  }
}

/* Chooses the next message in this rank's own order, which keeps the order within each pair and tag. */
static int next_message(struct by_rng *own, const struct message *all, bool *begun) {
  int i = (int)by_rng_below(own, MESSAGES);
  while (begun[i]) i = (i + 1) % MESSAGES;
  for (int j = 0; j < i; j++)
    if (!begun[j] && all[j].from == all[i].from && all[j].to == all[i].to && all[j].tag == all[i].tag) i = j;
  begun[i] = true;
  return i;
}

static int start_messages(struct banyan_comm *world, struct by_rng *own, struct message *all,
                          struct banyan_request **requests) {
  int rank = banyan_comm_rank(world), n = 0;
  bool begun[MESSAGES] = {false};
  for (int k = 0; k < MESSAGES; k++) {
    struct message *m = &all[next_message(own, all, begun)];
    bool sends = m->from == rank;
    if (!sends && m->to != rank) continue;
    m->memory = malloc(m->bytes + 1);
    must_hold(m->memory != NULL);
    memset(m->memory, sends ? m->fill : 0xee, m->bytes + 1);
    struct banyan_call call = {.collective = sends ? BANYAN_SEND : BANYAN_RECV,
                               .dtype = BANYAN_UINT8,
                               .root = sends ? m->to : m->from,
                               .send = m->memory,
                               .recv = m->memory,
                               .count = m->bytes,
                               .tag = m->tag};
    must(banyan_start(world, &call, &requests[n++]));
  }
  return n;
}

static void check_messages(struct message *all, int rank) {
  for (int i = 0; i < MESSAGES; i++) {
    if (!all[i].memory) continue;
    for (size_t b = 0; b < all[i].bytes && all[i].to == rank; b++)
      if (all[i].memory[b] != all[i].fill) rank_fail("message %d: byte %zu is %d", i, b, all[i].memory[b]);
    must_hold(all[i].memory[all[i].bytes] == (all[i].to == rank ? 0xee : all[i].fill));
    free(all[i].memory);
    all[i].memory = NULL;
  }
}

/* ---- rounds of random calls */

static void one_round(struct banyan_comm *world, struct by_rng *rng, struct by_rng *own, int calls, unsigned doze,
                      bool tiny) {
  static struct operation operations[AT_ONCE];
  struct banyan_request *requests[AT_ONCE + MESSAGES] = {NULL};
  struct message messages[MESSAGES];
  int n = banyan_comm_size(world), messages_at = (int)by_rng_below(own, (uint64_t)calls), started = 0;
  size_t most = tiny ? 60 : by_rng_below(rng, 3) ? 2000 : 40000;
  choose_messages(rng, n, tiny ? 300 : MESSAGE_BYTES, messages);
  for (int i = 0; i < calls; i++) {
    operation_choose(rng, n, -1, most, &operations[i]);
    operation_prepare(world, &operations[i], (unsigned)by_rng_below(own, 4));
  }
  for (int i = 0; i < calls; i++) {
    if (doze && by_rng_below(own, 4) == 0) job_doze(own, doze);
    if (i == messages_at) started += start_messages(world, own, messages, requests + started);
    must(banyan_start(world, &operations[i].call, &requests[started++]));
  }
  if (doze) job_doze(own, 4 * doze);
  wait_somehow(own, requests, started);
  for (int i = 0; i < calls; i++) {
    operation_check(&operations[i]);
    operation_free(&operations[i]);
  }
  check_messages(messages, banyan_comm_rank(world));
}

static const char *const plans[] = {"", "ring", "star", "halving", "double-tree", "exchange", "chain"};

static void rank_storm(struct job *job, int rank) {
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 1000 + (uint64_t)rank);
  /* With a buffer below 64K, loopback takes 200 ms for 8 KiB because its segments are larger. So the calls are small
   * then. */
  bool tiny = by_rng_below(&rng, 4) == 0;
  if (by_rng_below(&rng, 2)) {
    setenv("BANYAN_SOCKET_BUFFER", tiny ? "4K" : "64K", 1);
    job_set_engine("eager-limit", "4K");
    job_set_engine("credit", by_rng_below(&rng, 2) ? "4K" : "16K");
    job_set_engine("block", "4K");
  }
  if (by_rng_below(&rng, 3) == 0) job_set_engine("chunk", "5000");
  if (by_rng_below(&rng, 3) == 0) job_set_engine("spin", "0");
  setenv("BANYAN_PLAN", plans[by_rng_below(&rng, sizeof plans / sizeof *plans)], 1);
  struct banyan_comm *world = job_join();
  for (int round = 0; round < 3; round++)
    one_round(world, &rng, &own, 1 + (int)by_rng_below(&rng, AT_ONCE), by_rng_below(&rng, 2) ? 500 : 0, tiny);
  one_round(world, &rng, &own, AT_ONCE, 0, tiny);
  banyan_comm_destroy(world);
}

static void storms(const char *transport, int usual) {
  for (int i = 0; i < job_rounds(usual); i++) {
    struct job job = {.n = 2 + (int)(job_seed(i) % 4), .run = rank_storm, .transport = transport, .seed = job_seed(i)};
    job_run(&job);
  }
}

static void test_shm(void **state) {
  (void)state;
  storms("shm", 16);
}

static void test_tcp(void **state) {
  (void)state;
  storms("tcp", 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mixed),     cmocka_unit_test(test_wrong), cmocka_unit_test(test_polling),
      cmocka_unit_test(test_destroyed), cmocka_unit_test(test_death), cmocka_unit_test(test_any),
      cmocka_unit_test(test_deadline),  cmocka_unit_test(test_shm),   cmocka_unit_test(test_tcp),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
