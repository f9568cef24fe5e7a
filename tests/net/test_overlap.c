/* Buffers of one call that overlap: as they may in place, or else the call is refused and the job goes on. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "job.h"

enum { RANKS = 3, BLOCK = 4, ALL = RANKS * BLOCK, MARGIN = 2 };

/* Positions in elements; those of blocks count from this rank's block on. */
struct layout {
  enum banyan_collective collective;
  int send, recv;
  bool send_from_block, recv_from_block, fits;
};

static const struct layout layouts[] = {
    {.collective = BANYAN_ALLREDUCE, .send = 0, .recv = 0, .fits = true},
    {.collective = BANYAN_ALLREDUCE, .send = 0, .recv = ALL, .fits = true},
    {.collective = BANYAN_ALLREDUCE, .send = 0, .recv = 1},
    {.collective = BANYAN_ALLREDUCE, .send = 1, .recv = 0},
    {.collective = BANYAN_ALLREDUCE, .send = 0, .recv = ALL - 1},
    {.collective = BANYAN_REDUCE, .send = 0, .recv = 0, .fits = true},
    {.collective = BANYAN_REDUCE, .send = 1, .recv = 0},
    {.collective = BANYAN_REDUCE_SCATTER, .send = 0, .recv = 0, .fits = true},
    {.collective = BANYAN_REDUCE_SCATTER, .send = 0, .recv = 0, .recv_from_block = true, .fits = true},
    {.collective = BANYAN_REDUCE_SCATTER, .send = 0, .recv = ALL, .fits = true},
    {.collective = BANYAN_REDUCE_SCATTER, .send = 0, .recv = 1},
    {.collective = BANYAN_REDUCE_SCATTER, .send = 0, .recv = ALL - 1},
    {.collective = BANYAN_ALLGATHER, .send = 0, .recv = 0, .send_from_block = true, .fits = true},
    {.collective = BANYAN_ALLGATHER, .send = ALL, .recv = 0, .fits = true},
    {.collective = BANYAN_ALLGATHER, .send = 1, .recv = 0, .send_from_block = true},
    {.collective = BANYAN_ALLGATHER, .send = -1, .recv = 0, .send_from_block = true},
    {.collective = BANYAN_ALLGATHER, .send = ALL - 1, .recv = 0},
    {.collective = BANYAN_GATHER, .send = 0, .recv = 0, .send_from_block = true, .fits = true},
    {.collective = BANYAN_GATHER, .send = 1, .recv = 0, .send_from_block = true},
    {.collective = BANYAN_SCATTER, .send = 0, .recv = ALL, .fits = true},
    {.collective = BANYAN_SCATTER, .send = 0, .recv = 0, .recv_from_block = true},
    {.collective = BANYAN_SCATTER, .send = 0, .recv = 1, .recv_from_block = true},
    {.collective = BANYAN_ALLTOALL, .send = 0, .recv = ALL, .fits = true},
    {.collective = BANYAN_ALLTOALL, .send = 0, .recv = 0},
    {.collective = BANYAN_ALLTOALL, .send = 0, .recv = 5},
};

static bool has_blocks(enum banyan_collective collective) {
  return collective >= BANYAN_REDUCE_SCATTER && collective <= BANYAN_ALLTOALL;
}

/* Element i of rank q's data, of which all ranks have ALL. */
static float value(int q, int i) {
  return (float)(100 * q + i);
}

/* The first element that the call leaves on this rank. */
static float expected(enum banyan_collective collective, int rank) {
  float sum = 0;
  for (int q = 0; q < RANKS; q++) sum += value(q, collective == BANYAN_REDUCE_SCATTER ? rank * BLOCK : 0);
  switch (collective) {
  case BANYAN_ALLGATHER:
  case BANYAN_GATHER: return value(0, 0);
  case BANYAN_SCATTER:
  case BANYAN_ALLTOALL: return value(0, rank * BLOCK);
  default: return sum;
  }
}

/* A call that does not fit is one with this rank as the root, where it has both buffers. */
static void try_layout(struct banyan_comm *world, const struct layout *layout, int rank) {
  float memory[MARGIN + 2 * ALL + MARGIN] = {0}, *base = memory + MARGIN;
  float *send = base + layout->send + (layout->send_from_block ? rank * BLOCK : 0);
  float *recv = base + layout->recv + (layout->recv_from_block ? rank * BLOCK : 0);
  bool one_block = layout->collective == BANYAN_ALLGATHER || layout->collective == BANYAN_GATHER;
  struct banyan_call call = {.collective = layout->collective,
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM,
                             .root = layout->fits ? 0 : rank,
                             .send = send,
                             .recv = recv,
                             .count = has_blocks(layout->collective) ? BLOCK : ALL};
  for (int i = 0; i < (one_block ? BLOCK : ALL); i++) send[i] = value(rank, i);
  enum banyan_status status = banyan_run(world, &call);
  bool rooted = layout->collective == BANYAN_REDUCE || layout->collective == BANYAN_GATHER;
  if (layout->fits ? status != BANYAN_OK : status != BANYAN_ERR_ARGUMENT || !strstr(banyan_error_text(), "overlap"))
    rank_fail("%s with send at %d, receive at %d ends with %s: %s", banyan_collective_name(layout->collective),
              layout->send, layout->recv, banyan_status_name(status), banyan_error_text());
  if (layout->fits && (rank == 0 || !rooted) && recv[0] != expected(layout->collective, rank))
    rank_fail("%s in place leaves %g", banyan_collective_name(layout->collective), (double)recv[0]);
}

/* Blocks of different sizes, one of them empty; and calls of nothing, which touch nothing. */
static void try_sizes(struct banyan_comm *world, int rank) {
  static const size_t counts[RANKS] = {1, 0, 3};
  static const int starts[RANKS] = {0, 1, 1};
  float memory[8] = {0};
  struct banyan_call call = {.collective = BANYAN_ALLGATHER,
                             .dtype = BANYAN_FLOAT32,
                             .send = memory + starts[rank],
                             .recv = memory,
                             .counts = counts};
  for (size_t i = 0; i < counts[rank]; i++) memory[starts[rank] + (int)i] = (float)(rank + 1);
  must(banyan_run(world, &call));
  must_hold(memory[0] == 1 && memory[1] == 3 && memory[3] == 3);
  call.counts = NULL;
  call.collective = BANYAN_ALLTOALL;
  must(banyan_run(world, &call));
}

static void rank_overlaps(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) try_layout(world, &layouts[i], rank);
  try_sizes(world, rank);
  banyan_comm_destroy(world);
  (void)job;
}

static void test_overlap(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct job job = {.n = RANKS, .run = rank_overlaps, .transport = i ? "tcp" : "shm"};
    job_run(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_overlap)};
  return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
