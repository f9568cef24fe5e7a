/* Requests that are given away: each is told once, with its status, whoever moves the engine, and before its
 * communicator is gone. Receives from any rank, waited for and given away. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

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

/* Every other one is waited for, so that user threads and the progress thread take turns. */
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

/* Called back before destroy returns, though rank 1 never makes the call. */
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
  for (int rank = 0; rank < job.n; rank++) job_wait_stage(&job, rank, 1); /* else the barrier ends as well */
  job_signal(&job, 1, SIGKILL);
  job_wait(&job);
  job_check_killed(&job, 1, SIGKILL);
  job_check_exit(&job, 0);
  job_check_exit(&job, 2);
  job_end(&job, false);
}

/* All ranks but one send to it, some before it receives, some after. */
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed), cmocka_unit_test(test_destroyed),
                                     cmocka_unit_test(test_death), cmocka_unit_test(test_any),
                                     cmocka_unit_test(test_deadline)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
