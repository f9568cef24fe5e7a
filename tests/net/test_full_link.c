/* What a call leaves in a link that is full when it ends arrives all the same, though its rank makes no more calls. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

enum { MOST = 20000, LONG = 50000 };

static struct banyan_call message(enum banyan_collective what, void *memory, size_t bytes) {
  return (struct banyan_call){.collective = what,
                              .dtype = BANYAN_UINT8,
                              .root = what == BANYAN_SEND,
                              .send = memory,
                              .recv = memory,
                              .count = bytes};
}

/* Sends until the link takes no more, and gives up the letter that did not go at once. A little later the kernel would
 * take it. */
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

/* Rank 1 reads nothing before rank 0 has filled the link, and rank 0 does nothing before rank 1 has all. Where the
 * last letter was cut is up to the kernel: often enough somewhere. */
static void rank_fills(struct job *job, int rank) {
  struct by_rng rng;
  by_rng_init(&rng, job->seed);
  setenv("BANYAN_SOCKET_BUFFER", "32K", 1);
  setenv("BANYAN_CREDIT", "64M", 1);
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

static void test_last_control_message(void **state) {
  (void)state;
  struct job job = {.n = 2, .run = rank_fills, .transport = "tcp", .seed = job_seed(0)};
  job_run(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_last_control_message),
  };
  return cmocka_run_group_tests_name("full links", tests, NULL, NULL);
}
