/* Ranks that leave, and communicators that are destroyed while calls are under way on them. The memory of such calls
 * belongs to the caller again. The links, which other communicators use too, go on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "net_operations.h"

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

/* Rank 0 sends more than the socket takes while rank 1 does not read, and leaves. A frame that has begun arrives
 * completely, though its memory has been released. */
static void rank_leaves(struct job *job, int rank) {
  size_t bytes = *(const size_t *)job->argument;
  setenv("BANYAN_SOCKET_BUFFER", "256K", 1); /* with a smaller buffer, loopback becomes very slow */
  job_set_engine("chunk", "4M");
  job_set_engine("eager-limit", "4M");
  job_set_engine("credit", "16M");
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
    if (bytes <= 4 << 20) {
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

/* Tests messages that are copied into the socket, and one whose pages are attached to it. */
static void test_leaves(void **state) {
  (void)state;
  static const size_t sizes[] = {3 << 20, 4 << 20, 16 << 20};
  for (int i = 0; i < 3; i++) {
    struct job job = {.n = 2, .run = rank_leaves, .transport = "tcp", .argument = &sizes[i]};
    job_run(&job);
  }
}

/* ---- whole ranks */

struct leaver {
  int rank;
  const char *plan;
};

/* One rank leaves before its first call, when there are no links yet. The others are notified long before their
 * deadline of 50 s. */
static void rank_leaves_first(struct job *job, int rank) {
  const struct leaver *leaver = job->argument;
  float in = 1, out = 0;
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_PLAN", leaver->plan, 1);
  struct banyan_comm *world = NULL;
  enum banyan_status status =
      banyan_comm_create(NULL, &world); /* It fails if that rank left before this one had joined. */
  if (rank == leaver->rank)
    must(status);
  else if (status == BANYAN_OK)
    status = banyan_allreduce(world, &in, &out, 1, BANYAN_FLOAT32, BANYAN_SUM);
  if (rank != leaver->rank) job_report_status(job, rank, status);
  banyan_comm_destroy(world);
}

static void check_received(struct job *job, int rank) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "rank %d (host here) left", rank);
  job->limit = 40;
  job_wait(job);
  for (int r = 0; r < job->n; r++)
    if (r != rank && (job->reports[r].status != BANYAN_ERR_PEER_DEAD || !strstr(job->reports[r].text, wanted)))
      job_fail(job, "rank %d received \"%s\", not that %s", r, job->reports[r].text, wanted);
}

static void test_leaves_first(void **state) {
  (void)state;
  static const char *const plans[] = {"exchange", "chain", "star"};
  for (int rank = 0; rank < 4; rank++)
    for (int i = 0; i < 2; i++) {
      struct leaver leaver = {.rank = rank, .plan = plans[rank ? (rank + i) % 3 : 0]};
      struct job job = {.n = 4, .run = rank_leaves_first, .transport = i ? "shm" : "tcp", .argument = &leaver};
      job_start(&job);
      check_received(&job, rank);
      job_end(&job, true);
    }
}

/* One rank has done its part and leaves. The others work on without it. Some never had a link to it, though they
 * requested one, because a call of no elements needs none. */
static void rank_works_on(struct job *job, int rank) {
  const struct leaver *leaver = job->argument;
  struct banyan_comm *world = job_join(), *part = NULL;
  struct by_rng rng;
  float nothing = 0;
  by_rng_init(&rng, job->seed);
  must(banyan_comm_set_plan(world, "chain"));
  must(banyan_comm_split(world, rank == leaver->rank, 0, &part));
  must(banyan_comm_set_plan(world, leaver->plan));
  must(banyan_allreduce(world, &nothing, &nothing, 0, BANYAN_FLOAT32, BANYAN_SUM));
  for (int i = 0; i < 200 && rank != leaver->rank; i++) {
    struct operation operation;
    operation_choose(&rng, job->n - 1, BANYAN_ALLREDUCE, 3000, &operation);
    operation_do(part, &operation, 0);
    usleep(8000);
  }
  banyan_comm_destroy(part);
  banyan_comm_destroy(world);
}

static void test_works_on(void **state) {
  (void)state;
  for (int rank = 0; rank < 4; rank++) {
    struct leaver leaver = {.rank = rank, .plan = "exchange"};
    struct job job = {.n = 4, .run = rank_works_on, .transport = rank % 2 ? "shm" : "tcp", .argument = &leaver};
    job_run(&job);
  }
}

/* All ranks make the same few calls, and come and leave at different times. A rank that has finished has sent
 * everything that the others still need. */
static void rank_ends_in_order(struct job *job, int rank) {
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  struct banyan_comm *world = job_join();
  must(banyan_comm_set_plan(world, job->argument));
  for (uint64_t left = 1 + by_rng_below(&rng, 3); left; left--) {
    struct operation operation;
    operation_choose(&rng, job->n, -1, 100000, &operation);
    if (by_rng_below(&own, 2)) job_doze(&own, 150000);
    operation_do(world, &operation, (unsigned)by_rng_below(&own, 4));
  }
  if (by_rng_below(&own, 2)) job_doze(&own, 150000);
  banyan_comm_destroy(world);
}

static void test_ends_in_order(void **state) {
  (void)state;
  static const char *const plans[] = {"chain", "star", "ring", "double-tree", "exchange"};
  for (int i = 0; i < job_rounds(20); i++) {
    struct job job = {.n = 2 + i % 4,
                      .run = rank_ends_in_order,
                      .transport = i % 2 ? "shm" : "tcp",
                      .argument = plans[i % 5],
                      .seed = job_seed(i)};
    job_run(&job);
  }
}

/* Data of one rank waits at rank 0 for late data of another rank, after the sender has left. */
static void rank_brings_late(struct job *job, int rank) {
  enum { COUNT = 30000 };
  const struct leaver *leaver = job->argument;
  static double in[COUNT], out[COUNT];
  struct banyan_comm *world = job_join();
  must(banyan_comm_set_plan(world, leaver->plan));
  must(banyan_barrier(world));
  for (int i = 0; i < COUNT; i++) in[i] = i;
  if (rank && rank != leaver->rank) usleep(900000);
  struct banyan_call call = {
      .collective = BANYAN_REDUCE, .dtype = BANYAN_FLOAT64, .send = in, .recv = out, .count = COUNT};
  must(banyan_run(world, &call));
  for (int i = 0; i < COUNT && rank == 0; i++) must_hold(out[i] == 3.0 * i);
  banyan_comm_destroy(world);
}

static void test_brings_late(void **state) {
  (void)state;
  static const char *const plans[] = {"star", "exchange"};
  for (int i = 0; i < 8; i++) {
    struct leaver leaver = {.rank = 1 + i % 2, .plan = plans[i / 2 % 2]};
    struct job job = {.n = 3, .run = rank_brings_late, .transport = i / 4 ? "shm" : "tcp", .argument = &leaver};
    job_run(&job);
  }
}

/* ---- rank 0 leaves, and stays in its shutdown while rank 1 does not read */

static void set_small_buffers(void) {
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_SOCKET_BUFFER", "256K", 1);
  job_set_engine("chunk", "4M");
  job_set_engine("eager-limit", "4M");
  job_set_engine("credit", "16M");
}

/* Makes a link between the two ranks. */
static void pass_byte(struct banyan_comm *world, int from, int to) {
  char byte = 0;
  int rank = banyan_comm_rank(world);
  struct banyan_call call = message(rank == from ? BANYAN_SEND : BANYAN_RECV, rank == from ? to : from, &byte, 1);
  if (rank == from || rank == to) must(banyan_run(world, &call));
}

static void leave_slowly(struct job *job, struct banyan_comm *world) {
  size_t bytes = 4 << 20;
  unsigned char *memory = map_filled(bytes, 7);
  struct banyan_call send = message(BANYAN_SEND, 1, memory, bytes);
  struct banyan_request *request = NULL;
  must(banyan_start(world, &send, &request));
  banyan_comm_destroy(world);
  job_set_stage(job, 0, 1);
  must_fail(BANYAN_ERR_CLOSED, banyan_wait(request)); /* this request is the last object of the job, which ends here */
}

/* Waits for a message that rank `from` never sends. */
static void receive(struct job *job, int rank, struct banyan_comm *world, int from) {
  char byte;
  struct banyan_call call = message(BANYAN_RECV, from, &byte, 1);
  job_report_status(job, rank, banyan_run(world, &call));
}

static void wait_for_stage(struct job *job, int rank, int stage) {
  while (atomic_load(&job->reports[rank].stage) < stage) usleep(500);
}

/* Rank 3 is killed meanwhile. Rank 2, which never had a link to it, waits for it. */
static void rank_learns_of_death(struct job *job, int rank) {
  set_small_buffers();
  struct banyan_comm *world = job_join();
  pass_byte(world, 1, 0);
  job_set_stage(job, rank, rank ? 1 : 0);
  if (rank == 0) {
    leave_slowly(job, world);
    return;
  }
  if (rank == 1) wait_for_stage(job, 2, 1000);
  if (rank == 2) receive(job, rank, world, 3);
  if (rank == 3) pause();
  banyan_comm_destroy(world);
}

static void test_death_while_root_leaves(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_learns_of_death, .transport = "tcp"};
  job_start(&job);
  for (int r = 0; r < job.n; r++) job_wait_stage(&job, r, 1);
  usleep(300000); /* until rank 0 has announced that it leaves; if that takes longer, less is tested */
  job_signal(&job, 3, SIGKILL);
  job.limit = 40;
  job_wait(&job);
  job_check_killed(&job, 3, SIGKILL);
  const struct job_report *received = &job.reports[2];
  if (received->status != BANYAN_ERR_PEER_DEAD || !strstr(received->text, "rank 3 (host here) is gone"))
    job_fail(&job, "rank 2 received \"%s\"", received->text);
  job_end(&job, false);
}

/* Rank 2 leaves meanwhile. At that moment rank 1 reads, so that rank 0 ends. Rank 1 waits for rank 2, to which it never
 * had a link. No rank could notify it later. */
static void rank_learns_of_leaving(struct job *job, int rank) {
  set_small_buffers();
  struct banyan_comm *world = job_join();
  pass_byte(world, 1, 0);
  if (rank == 0) {
    leave_slowly(job, world);
    return;
  }
  wait_for_stage(job, rank == 1 ? 2 : 0, 1);
  if (rank == 1) receive(job, rank, world, 2);
  if (rank == 2) usleep(300000); /* waits for the same reason as above */
  banyan_comm_destroy(world);
  if (rank == 2) job_set_stage(job, rank, 1);
}

static void test_leaves_while_root_leaves(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_learns_of_leaving, .transport = "tcp", .limit = 40};
  job_start(&job);
  job_wait(&job);
  const struct job_report *received = &job.reports[1];
  if (received->status != BANYAN_ERR_PEER_DEAD || !strstr(received->text, "rank 2 (host here) left"))
    job_fail(&job, "rank 1 received \"%s\"", received->text);
  job_end(&job, true);
}

/* ---- the next job at the same root address */

static void check_sum(struct banyan_comm *comm) {
  float one = 1, sum = 0;
  must(banyan_allreduce(comm, &one, &sum, 1, BANYAN_FLOAT32, BANYAN_SUM));
  must_hold((int)sum == banyan_comm_size(comm));
}

/* Rank 1 comes back while the others are still in the job that it left. That job neither accepts it nor notices it. */
static void rank_comes_back(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *part = NULL;
  must(banyan_comm_split(world, rank == 1, 0, &part));
  if (rank == 1) {
    banyan_comm_destroy(part);
    banyan_comm_destroy(world);
    world = NULL;
    setenv("BANYAN_JOIN_DEADLINE", "1", 1);
    must_fail(BANYAN_ERR_TIMEOUT, banyan_comm_create(NULL, &world));
    setenv("BANYAN_JOIN_DEADLINE", "50", 1);
    job_set_stage(job, rank, 1);
  } else {
    wait_for_stage(job, 1, 1);
    for (int i = 0; i < 50; i++) check_sum(part);
    banyan_comm_destroy(part);
    banyan_comm_destroy(world);
  }
  world = job_join();
  check_sum(world);
  banyan_comm_destroy(world);
}

static void test_comes_back(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = 3, .run = rank_comes_back, .transport = i ? "shm" : "tcp"};
    job_run(&job);
  }
}

/* The same processes run job after job. Some of them are slower than others to leave and to join again. */
static void rank_joins_often(struct job *job, int rank) {
  struct by_rng own;
  by_rng_init(&own, job->seed * 100 + (uint64_t)rank);
  for (int i = 0; i < 8; i++) {
    struct banyan_comm *world = job_join();
    check_sum(world);
    if (by_rng_below(&own, 2)) job_doze(&own, rank ? 10000 : 80000);
    banyan_comm_destroy(world);
    if (by_rng_below(&own, 2)) job_doze(&own, 40000);
  }
}

static void test_joins_often(void **state) {
  (void)state;
  for (int i = 0; i < job_rounds(4); i++) {
    struct job job = {.n = 2 + i % 3, .run = rank_joins_often, .transport = i % 2 ? "shm" : "tcp", .seed = job_seed(i)};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_leaves),
      cmocka_unit_test(test_leaves_first),
      cmocka_unit_test(test_works_on),
      cmocka_unit_test(test_ends_in_order),
      cmocka_unit_test(test_brings_late),
      cmocka_unit_test(test_death_while_root_leaves),
      cmocka_unit_test(test_leaves_while_root_leaves),
      cmocka_unit_test(test_comes_back),
      cmocka_unit_test(test_joins_often),
  };
  return cmocka_run_group_tests_name("leaving", tests, NULL, NULL);
}
