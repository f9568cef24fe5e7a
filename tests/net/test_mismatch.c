/* Calls that are refused. Ranks make different calls, and every rank's error names two ranks and their calls. Buffers
 * of one call overlap other than in place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "job.h"

#include "net_operations.h"

/* What rank `odd` does differently from the others. */
struct difference {
  const char *name;
  struct banyan_call usual, odd;
  const char *odd_plan;              /* set on rank `odd` only */
  const char *usual_text, *odd_text; /* texts about the calls that the error must contain */
};

#define CALL(what, n, type, how, root_rank)                                                                            \
  { .collective = BANYAN_##what, .count = (n), .dtype = BANYAN_##type, .op = BANYAN_##how, .root = (root_rank) }

static const struct difference differences[] = {
    {"count", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 1001, FLOAT32, SUM, 0), NULL,
     "allreduce(1000 x f32, sum)", "allreduce(1001 x f32, sum)"},
    {"large count", CALL(ALLREDUCE, 100000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 90000, FLOAT32, SUM, 0), NULL,
     "allreduce(100000 x f32, sum)", "allreduce(90000 x f32, sum)"},
    {"count 0", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 0, FLOAT32, SUM, 0), NULL,
     "allreduce(1000 x f32, sum)", "allreduce(0 x f32, sum)"},
    {"dtype", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 1000, INT32, SUM, 0), NULL,
     "allreduce(1000 x f32, sum)", "allreduce(1000 x i32, sum)"},
    {"dtype of another size", CALL(ALLREDUCE, 3000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 3000, FLOAT64, SUM, 0), NULL,
     "allreduce(3000 x f32, sum)", "allreduce(3000 x f64, sum)"},
    {"op", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 1000, FLOAT32, MAX, 0), NULL,
     "allreduce(1000 x f32, sum)", "allreduce(1000 x f32, max)"},
    {"root", CALL(BROADCAST, 1000, FLOAT32, SUM, 0), CALL(BROADCAST, 1000, FLOAT32, SUM, 1), NULL,
     "broadcast(1000 x f32, root 0)", "broadcast(1000 x f32, root 1)"},
    {"root of a reduce", CALL(REDUCE, 100000, FLOAT32, SUM, 0), CALL(REDUCE, 100000, FLOAT32, SUM, 1), NULL,
     "reduce(100000 x f32, sum, root 0)", "reduce(100000 x f32, sum, root 1)"},
    {"collective", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(ALLGATHER, 1000, FLOAT32, SUM, 0), NULL,
     "allreduce(1000 x f32, sum)", "allgather(1000 x f32)"},
    {"collective and barrier", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(BARRIER, 0, UINT8, SUM, 0), NULL,
     "allreduce(1000 x f32, sum)", "barrier"},
    {"plan", CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 1000, FLOAT32, SUM, 0), "ring",
     "allreduce(1000 x f32, sum)", "allreduce(1000 x f32, sum)"},
    {"plan of a large call", CALL(ALLREDUCE, 100000, FLOAT32, SUM, 0), CALL(ALLREDUCE, 100000, FLOAT32, SUM, 0), "star",
     "allreduce(100000 x f32, sum)", "allreduce(100000 x f32, sum)"},
};
enum { DIFFERENCES = sizeof differences / sizeof *differences, BYTES = 4 << 20 };

struct setup {
  const struct difference *difference;
  const char *plan;
  int odd;
};

static void rank_differs(struct job *job, int rank) {
  const struct setup *setup = job->argument;
  struct banyan_call call = rank == setup->odd ? setup->difference->odd : setup->difference->usual;
  setenv("BANYAN_HOST", "here", 1);
  setenv("BANYAN_DEADLINE", "20", 1);
  struct banyan_comm *world = job_join();
  must(banyan_comm_set_plan(world, setup->plan));
  enum banyan_status status = banyan_barrier(world); /* others may have ended already, or have found a mismatch */
  if (rank == setup->odd && setup->difference->odd_plan) must(banyan_comm_set_plan(world, setup->difference->odd_plan));
  char *send = calloc(1, BYTES), *recv = calloc(1, BYTES);
  must_hold(send && recv);
  call.send = send;
  call.recv = recv;
  if (status == BANYAN_OK) status = banyan_run(world, &call);
  /* A rank that only sends may finish before the others notice. Its next call reports the mismatch. */
  for (int i = 0; i < 3 && status == BANYAN_OK; i++) status = banyan_barrier(world);
  job_report_status(job, rank, status);
  must_fail(status, banyan_comm_state(world));
  banyan_comm_destroy(world);
  free(send);
  free(recv);
}

/* All ranks make the same call under different plans. The error must state this and name both ranks' plans. */
static void check_plans(struct job *job, int rank, const struct setup *setup) {
  const struct job_report *report = &job->reports[rank];
  char odd[80], usual[80];
  snprintf(odd, sizeof odd, "rank %d (host here) uses plan '%s' (version ", setup->odd, setup->difference->odd_plan);
  snprintf(usual, sizeof usual, "(host here) uses plan '%s' (version ", setup->plan ? setup->plan : "default");
  bool named = strstr(report->text, "plans differ between ranks in call ") && strstr(report->text, odd) &&
               strstr(report->text, usual) && strstr(report->text, setup->difference->usual_text);
  if (report->status != BANYAN_ERR_MISMATCH || !named)
    job_fail(job, "%s, plan %s, rank %d the odd one: rank %d ended with \"%s\": %s", setup->difference->name,
             setup->plan ? setup->plan : "by size", setup->odd, rank, banyan_status_name(report->status), report->text);
}

static void check_report(struct job *job, int rank, const struct setup *setup) {
  const struct job_report *report = &job->reports[rank];
  char odd[64];
  snprintf(odd, sizeof odd, "rank %d (host here) calls %s", setup->odd, setup->difference->odd_text);
  const char *own = strstr(report->text, odd);
  const char *other = strstr(report->text, setup->difference->usual_text);
  bool named = own && other && (other != strstr(own, setup->difference->usual_text) || strstr(own + 20, "rank "));
  if (report->status != BANYAN_ERR_MISMATCH || !own || !other || !named)
    job_fail(job, "%s, plan %s, rank %d the odd one: rank %d ended with \"%s\": %s", setup->difference->name,
             setup->plan ? setup->plan : "by size", setup->odd, rank, banyan_status_name(report->status), report->text);
}

static void differ(const struct setup *setup, int n, const char *transport) {
  struct job job = {.n = n, .run = rank_differs, .transport = transport, .argument = setup};
  job_start(&job);
  job_wait(&job);
  for (int r = 0; r < n; r++) job_check_exit(&job, r);
  void (*check)(struct job *, int, const struct setup *) = setup->difference->odd_plan ? check_plans : check_report;
  for (int r = 0; r < n; r++) check(&job, r, setup);
  job_end(&job, true);
}

static void test_differences(void **state) {
  (void)state;
  static const char *const plans[] = {NULL, "tree:2", "exchange", "chain", "halving"};
  int turn = 0;
  for (int d = 0; d < DIFFERENCES; d++)
    for (int p = 0; p < 5; p++, turn++) {
      if ((turn + d) % 2 && job_rounds(1) == 1) continue; /* ordinary runs try half of the combinations */
      struct setup setup = {&differences[d], plans[p], turn % 4};
      differ(&setup, 4, turn % 3 ? "shm" : "tcp");
    }
}

/* ---- calls without elements on one rank */

/* Rank `odd` has no elements while the others have some, or no rank has any, which is no mismatch. */
struct nothing {
  enum banyan_collective collective;
  int odd; /* -1: all ranks */
};

static void rank_has_nothing(struct job *job, int rank) {
  const struct nothing *nothing = job->argument;
  static float send[4000], recv[4000];
  bool none = nothing->odd < 0 || rank == nothing->odd;
  struct banyan_call call = {.collective = nothing->collective,
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM,
                             .send = none ? NULL : send,
                             .recv = none ? NULL : recv,
                             .scale = nothing->collective <= BANYAN_REDUCE ? 0.5 : 0,
                             .count = none ? 0 : 1000};
  setenv("BANYAN_HOST", "here", 1);
  struct banyan_comm *world = NULL;
  enum banyan_status status = banyan_comm_create(NULL, &world);
  if (status != BANYAN_OK && nothing->odd >= 0 && rank != nothing->odd) {
    must_fail(BANYAN_ERR_MISMATCH, status); /* the others have found a mismatch already */
    return;
  }
  must(status);
  status = banyan_run(world, &call);
  job_report_status(job, rank, status);
  for (int i = 0; i < 3 && nothing->odd < 0; i++) must(banyan_run(world, &call));
  /* A rank that only sends may finish before its peers notice. */
  while (nothing->odd >= 0 && status == BANYAN_OK) status = banyan_barrier(world);
  must_fail(nothing->odd < 0 ? BANYAN_OK : BANYAN_ERR_MISMATCH, status);
  banyan_comm_destroy(world);
}

/* The rank without elements receives the error in this call, as it may make no other call. */
static void test_nothing_on_one_rank(void **state) {
  (void)state;
  for (int c = BANYAN_ALLREDUCE; c <= BANYAN_ALLTOALL; c++)
    for (int odd = -1; odd < 2; odd++) {
      struct nothing nothing = {(enum banyan_collective)c, odd};
      struct job job = {.n = 3, .run = rank_has_nothing, .transport = c % 2 ? "shm" : "tcp", .argument = &nothing};
      job_start(&job);
      job_wait(&job);
      const struct job_report *report = &job.reports[odd < 0 ? 0 : odd];
      if (report->status != (odd < 0 ? BANYAN_OK : BANYAN_ERR_MISMATCH))
        job_fail(&job, "%s with nothing on rank %d ends there with %s: %s", banyan_collective_name(nothing.collective),
                 odd, banyan_status_name(report->status), report->text);
      job_end(&job, true);
    }
}

enum { RANKS = 3, BLOCK = 4, ALL = RANKS * BLOCK, MARGIN = 2 };

/* Positions in elements. Positions of blocks are relative to this rank's block. */
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

/* Element i of rank q's data. Every rank's data has ALL elements. */
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

/* This rank is the root, where it has both buffers. Calls with overlapping buffers must fail. */
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

/* Tries blocks of different sizes, one of them empty, and calls without elements, which touch no memory. */
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
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_differences),
      cmocka_unit_test(test_nothing_on_one_rank),
      cmocka_unit_test(test_overlap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
