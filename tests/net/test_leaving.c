/* Communicators that are destroyed while calls are under way on them: their memory is the caller's again, and the
 * links, which other communicators use too, go on. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "job.h"

static unsigned char *map_filled(size_t bytes, int value) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must_hold(memory != MAP_FAILED);
  memset(memory, value, bytes);
  return memory;
}

static struct banyan_call message(enum banyan_collective collective, int peer, void *memory, size_t bytes) {
  return (struct banyan_call){
      .collective = collective, .dtype = BANYAN_UINT8, .root = peer, .send = memory, .recv = memory, .count = bytes};
}

static void check_world(struct banyan_comm *world) {
  enum { COUNT = 100000 };
  int *values = malloc(COUNT * sizeof *values);
  must_hold(values != NULL);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) values[i] = i;
    must(banyan_allreduce(world, values, values, COUNT, BANYAN_INT32, BANYAN_SUM));
    for (int i = 0; i < COUNT; i++) must_hold(values[i] == 2 * i);
  }
  free(values);
}

/* Rank 0 sends more than the socket takes while rank 1 does not read, and leaves. What it sent without being asked
 * arrives all the same, from memory that is gone. */
static void rank_leaves(struct job *job, int rank) {
  size_t bytes = *(const size_t *)job->argument;
  setenv("BANYAN_SOCKET_BUFFER", "64K", 1);
  struct banyan_comm *world = job_join(), *other = NULL;
  must(banyan_comm_duplicate(world, &other));
  check_world(world);
  if (rank == 0) {
    unsigned char *memory = map_filled(bytes, 7);
    struct banyan_call send = message(BANYAN_SEND, 1, memory, bytes);
    struct banyan_request *request = NULL;
    must(banyan_start(other, &send, &request));
    banyan_comm_destroy(other);
    must_fail(BANYAN_ERR_CLOSED, banyan_wait(request));
    munmap(memory, bytes);
    job_set_stage(job, 0, 1);
  } else {
    while (atomic_load(&job->reports[0].stage) < 1) usleep(1000);
    if (bytes < 256 << 10) {
      unsigned char *memory = map_filled(bytes, 0);
      struct banyan_call receive = message(BANYAN_RECV, 0, memory, bytes);
      must(banyan_run(other, &receive));
      for (size_t i = 0; i < bytes; i++) must_hold(memory[i] == 7);
      munmap(memory, bytes);
    }
    banyan_comm_destroy(other);
  }
  check_world(world);
  banyan_comm_destroy(world);
}

/* Messages that are copied into the socket, and one whose pages are put there. */
static void test_leaves(void **state) {
  (void)state;
  static const size_t sizes[] = {250 << 10, 1 << 20, 8 << 20};
  for (int i = 0; i < 3; i++) {
    struct job job = {.n = 2, .run = rank_leaves, .transport = "tcp", .argument = &sizes[i]};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_leaves),
  };
  return cmocka_run_group_tests_name("leaving", tests, NULL, NULL);
}
