/* Sparse calls between real processes: every kind of rows by every algorithm, over shared memory and TCP, with and
 * without waiting, and calls that do not match. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <banyan/submit.h>

#include "check.h"
#include "job.h"
#include "sparse_case.h"

struct setup {
  const char *plan;
  int rounds;
};

static void check_out(const struct sparse_case *c, const struct banyan_sparse *out) {
  const char *wrong = sparse_case_check(c, out);
  if (wrong) rank_fail("%s", wrong);
}

/* Checks that the result is the same on all ranks, bit by bit. */
static void check_bits(struct banyan_comm *comm, const struct banyan_sparse *out) {
  uint64_t hash[2] = {0xcbf29ce484222325ull, out->count}, most[2];
  const unsigned char *bytes = out->values;
  for (size_t i = 0; i < out->count * out->width * banyan_dtype_size(out->dtype); i++)
    hash[0] = (hash[0] ^ bytes[i]) * 0x100000001b3ull;
  hash[0] >>= 1;
  must(banyan_allreduce(comm, hash, most, 2, BANYAN_INT64, BANYAN_MAX));
  must_hold(most[0] == hash[0] && most[1] == hash[1]);
}

static void do_case(struct banyan_comm *comm, const struct sparse_case *c, struct banyan_sparse *out) {
  struct banyan_sparse in = sparse_case_input(c, (uint32_t)banyan_comm_rank(comm));
  struct banyan_sparse_call call = sparse_case_call(c, &in, out);
  enum banyan_sparse_way taken = BANYAN_SPARSE_CHOSEN;
  size_t counts[JOB_RANKS];
  call.taken = &taken;
  call.counts = counts;
  must(banyan_sparse_run(comm, &call));
  must_hold(taken != BANYAN_SPARSE_CHOSEN && (c->way == BANYAN_SPARSE_CHOSEN || taken == c->way));
  if (c->collective == BANYAN_ALLGATHER) must_hold(counts[banyan_comm_rank(comm)] == in.count);
  check_out(c, out);
  check_bits(comm, out);
  free(in.rows);
  free(in.values);
}

static void rank_cases(struct job *job, int rank) {
  const struct setup *setup = job->argument;
  struct banyan_comm *world = job_join();
  struct banyan_sparse out = {0};
  struct by_rng rng;
  must(banyan_comm_set_plan(world, setup->plan));
  by_rng_init(&rng, job->seed);
  for (int i = 0; i < setup->rounds; i++) {
    struct sparse_case c;
    sparse_case_choose(&rng, (uint32_t)job->n, (enum sparse_case_kind)(i % (SPARSE_CASE_KINDS + 1)), &c);
    do_case(world, &c, &out);
  }
  banyan_sparse_free(&out);
  banyan_comm_destroy(world);
}

static void run_cases(const char *transport, int n, const char *plan, int rounds) {
  struct setup setup = {.plan = plan, .rounds = job_rounds(rounds)};
  struct job job = {.n = n, .run = rank_cases, .transport = transport, .argument = &setup, .seed = job_seed(n)};
  job_run(&job);
}

static void test_values_shm(void **state) {
  (void)state;
  run_cases("shm", 1, NULL, 60);
  run_cases("shm", 2, NULL, 200);
  run_cases("shm", 5, NULL, 150);
  run_cases("shm", 8, NULL, 60);
}

static void test_values_tcp(void **state) {
  (void)state;
  run_cases("tcp", 3, NULL, 150);
  run_cases("tcp", 4, "ring", 100);
}

static void test_plans(void **state) {
  (void)state;
  static const char *const plans[] = {"star", "sharded", "tree:2", "ring", "halving", "doubling"};
  for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++) run_cases(NULL, 4, plans[p], 60);
}

/* ---- the way that is chosen */

/* The same call again and again; floats that are added in another order are other floats. */
static void rank_same(struct job *job, int rank) {
  const int *deterministic = job->argument; /* ranks that are to be so */
  if (rank < *deterministic) setenv("BANYAN_DETERMINISTIC", "1", 1);
  struct banyan_comm *world = job_join();
  struct banyan_sparse out = {0};
  const struct sparse_case c = {.seed = 1,
                                .n = (uint32_t)job->n,
                                .kind = SPARSE_CASE_ANY,
                                .collective = BANYAN_ALLREDUCE,
                                .dtype = BANYAN_FLOAT32,
                                .row_dtype = BANYAN_INT64,
                                .range = 100,
                                .height = 1000,
                                .width = 8};
  enum banyan_sparse_way first = BANYAN_SPARSE_CHOSEN, taken;
  for (int i = 0; i < 30; i++) {
    struct banyan_sparse in = sparse_case_input(&c, (uint32_t)rank);
    struct banyan_sparse_call call = sparse_case_call(&c, &in, &out);
    call.taken = &taken;
    must(banyan_sparse_run(world, &call));
    check_out(&c, &out);
    check_bits(world, &out);
    if (!first) first = taken;
    must_hold(taken == first || *deterministic < job->n);
    free(in.rows);
    free(in.values);
  }
  banyan_sparse_free(&out);
  banyan_comm_destroy(world);
}

/* Of all ranks, and of some: then they still choose the same. */
static void test_deterministic(void **state) {
  (void)state;
  for (int deterministic = 4; deterministic > 0; deterministic -= 3) {
    struct job job = {
        .n = 4, .run = rank_same, .transport = "tcp", .argument = &deterministic, .seed = job_seed(deterministic)};
    job_run(&job);
  }
}

/* ---- several tables in one call */

enum { TABLES = 7 };

static float table_value(size_t row, size_t table, size_t column) {
  return (float)((row * 5 + table * 3 + column) % 9) - 4;
}

/* Table t has 3 + 10 t rows, of which rank r has those for which row % ranks <= r, some of them twice. */
static size_t fill_table(struct banyan_sparse *in, size_t t, int rank, int ranks, bool wide) {
  size_t n = 0, width = in->width;
  for (size_t i = 0; i < 2 * in->height; i++) {
    size_t row = in->height - 1 - i % in->height;
    if ((int)(row % (size_t)ranks) > rank || (i >= in->height && row % 4)) continue;
    if (wide)
      ((int64_t *)in->rows)[n] = (int64_t)row;
    else
      ((int32_t *)in->rows)[n] = (int32_t)row;
    for (size_t k = 0; k < width; k++) ((float *)in->values)[n * width + k] = table_value(row, t, k);
    n++;
  }
  return n;
}

static void check_table(const struct banyan_sparse *out, size_t t, int ranks, bool wide) {
  must_hold(out->count == out->height && out->height == 3 + 10 * t && out->unique);
  must_hold(out->row_dtype == (wide ? BANYAN_INT64 : BANYAN_INT32));
  for (size_t i = 0; i < out->count; i++) {
    size_t having = (size_t)ranks - i % (size_t)ranks, times = i % 4 ? having : 2 * having;
    must_hold((wide ? ((int64_t *)out->rows)[i] : ((int32_t *)out->rows)[i]) == (int64_t)i);
    for (size_t k = 0; k < out->width; k++)
      must_hold(((float *)out->values)[i * out->width + k] == (float)times * table_value(i, t, k));
  }
}

/* Widths are equal, have a common divisor, or have none. Table 3 is so high that the rows of all tables together need
 * 64 bits, and nobody has a row of it. */
static void rank_tables(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  static int64_t rows[TABLES][200];
  static float values[TABLES][200 * 12];
  static const size_t widths[][TABLES] = {{4, 4, 4, 4, 4, 4, 4}, {8, 4, 12, 4, 8, 8, 12}, {3, 8, 1, 5, 12, 2, 7}};
  struct banyan_sparse in[TABLES], out[TABLES] = {{0}};
  for (int round = 0; round < 2 * BANYAN_SPARSE_WAYS; round++) {
    bool wide = round % 4 == 1, named = round % 3 == 2;
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE,
                                      .way = (enum banyan_sparse_way)(round % BANYAN_SPARSE_WAYS),
                                      .in = in,
                                      .out = out,
                                      .tables = TABLES};
    bool high = round > BANYAN_SPARSE_WAYS && call.way != BANYAN_SPARSE_DENSE;
    for (size_t t = 0; t < TABLES; t++) {
      in[t] = (struct banyan_sparse){.row_dtype = wide ? BANYAN_INT64 : BANYAN_INT32,
                                     .height = 3 + 10 * t,
                                     .width = widths[round / 2 % 3][t],
                                     .rows = rows[t],
                                     .values = values[t]};
      if (high && t == 3)
        in[t].height = (size_t)1 << 31;
      else
        in[t].count = fill_table(&in[t], t, rank, job->n, wide);
    }
    if (named) {
      struct banyan_submission submission = {.sparse = &call, .n_sparse = 1};
      struct banyan_request *request;
      must(banyan_submit(world, "tables", &submission, &request));
      must(banyan_wait(request));
    } else {
      must(banyan_sparse_run(world, &call));
    }
    for (size_t t = 0; t < TABLES; t++)
      if (high && t == 3)
        must_hold(out[t].count == 0 && out[t].height == (size_t)1 << 31);
      else
        check_table(&out[t], t, job->n, wide);
    for (size_t t = 0; t < TABLES; t++) must_hold(out[t].width == in[t].width && out[t].height == in[t].height);
  }
  for (size_t t = 0; t < TABLES; t++) banyan_sparse_free(&out[t]);
  banyan_comm_destroy(world);
}

static void test_tables(void **state) {
  (void)state;
  for (int n = 1; n <= 4; n++) {
    struct job job = {.n = n, .run = rank_tables, .transport = n == 3 ? "tcp" : "shm"};
    job_run(&job);
  }
}

/* What is wrong with one table of one rank is an error on all ranks, and the job goes on. */
static void rank_bad_tables(struct job *job, int rank) {
  static const struct {
    const char *text;
    enum banyan_status status;
  } errors[] = {
      {"rank 1: sparse allreduce: row 10 of table 1, at place 1 of 2, is not from 0 to 9", BANYAN_ERR_ARGUMENT},
      {"ranks made different calls: rank 0 sparse allreduce", BANYAN_ERR_MISMATCH},
      {"rank 1: sparse allreduce: table 1 of 3 has another type", BANYAN_ERR_ARGUMENT},
      {"rank 1: sparse allreduce: the count of table 2 of 3 is negative", BANYAN_ERR_ARGUMENT},
      {"rank 1: sparse allreduce: rows or values are NULL", BANYAN_ERR_ARGUMENT},
      {"30 rows of 1 x f32 in 3 tables, numbered by i32; their tables have different heights or widths",
       BANYAN_ERR_MISMATCH},
      {"30 rows of 1 x f32 in 3 tables, numbered by i32, rank 1 sparse allreduce (sum, chosen) of 30 rows of 1 x f32 "
       "in "
       "2 tables",
       BANYAN_ERR_MISMATCH},
      {"several are for allreduce only", BANYAN_ERR_UNSUPPORTED},
  };
  struct banyan_comm *world = job_join();
  struct banyan_sparse out[3] = {{0}};
  for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
    int32_t rows[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    float values[2] = {1, 2};
    struct banyan_sparse in[3];
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = in, .out = out, .tables = 3};
    for (int t = 0; t < 3; t++)
      in[t] = (struct banyan_sparse){
          .row_dtype = BANYAN_INT32, .height = 10, .width = 1, .count = 2, .rows = rows[t], .values = values};
    if (rank == 1 && e == 0) rows[1][1] = 10;
    if (rank == 1 && e == 1) in[2].width = 2;
    if (rank == 1 && e == 2) in[1].dtype = (enum banyan_dtype)99;
    if (rank == 1 && e == 3) in[2].count = (size_t)-1;
    if (rank == 1 && e == 4) in[0].values = NULL;
    if (rank == 1 && e == 5) in[0].height = 9, in[1].height = 11; /* the same together */
    if (rank == 1 && e == 6) call.tables = 2, in[1].height = 20;
    if (e == 7) call.collective = BANYAN_ALLGATHER;
    must_fail(errors[e].status, banyan_sparse_run(world, &call));
    if (!strstr(banyan_error_text(), errors[e].text)) rank_fail("%zu: the error is \"%s\"", e, banyan_error_text());
    must(banyan_comm_state(world));
  }
  struct banyan_sparse_call call = {.in = out, .out = out + 1, .tables = (size_t)1 << 40};
  must_fail(BANYAN_ERR_ARGUMENT, banyan_sparse_run(world, &call));
  banyan_comm_destroy(world);
}

static void test_bad_tables(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_bad_tables};
  job_run(&job);
}

/* ---- several calls at once, among other calls */

enum { AT_ONCE = 12 };

static void rank_at_once(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *other;
  struct sparse_case cases[AT_ONCE];
  struct banyan_sparse ins[AT_ONCE], outs[AT_ONCE] = {{0}};
  struct banyan_request *requests[2 * AT_ONCE];
  struct by_rng rng, own;
  static float sums[AT_ONCE][100];
  must(banyan_comm_duplicate(world, &other));
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed + 100 + (uint64_t)rank);
  for (int round = 0; round < job_rounds(20); round++) {
    if (round % 5 == 2) must(banyan_comm_set_plan(world, round % 2 ? "ring" : "tree:2"));
    for (int i = 0; i < AT_ONCE; i++) {
      sparse_case_choose(&rng, (uint32_t)job->n, SPARSE_CASE_KINDS, &cases[i]);
      if (i == 6 && round % 4 == 1) must(banyan_comm_set_plan(world, NULL));
      ins[i] = sparse_case_input(&cases[i], (uint32_t)rank);
      struct banyan_sparse_call call = sparse_case_call(&cases[i], &ins[i], &outs[i]);
      for (int k = 0; k < 100; k++) sums[i][k] = (float)(i + k);
      struct banyan_call dense = {
          .collective = BANYAN_ALLREDUCE, .dtype = BANYAN_FLOAT32, .send = sums[i], .recv = sums[i], .count = 100};
      must(banyan_sparse_start(i % 3 ? world : other, &call, &requests[2 * i]));
      must(banyan_start(world, &dense, &requests[2 * i + 1]));
      job_doze(&own, 300);
    }
    for (size_t left = 2 * AT_ONCE; left; left--) {
      size_t index;
      bool done = false;
      if (left % 3 == 0 && requests[0]) {
        while (!done) must(banyan_test(requests[0], &done));
        requests[0] = NULL;
        continue;
      }
      must(banyan_wait_any(requests, 2 * AT_ONCE, &index));
    }
    for (int i = 0; i < AT_ONCE; i++) {
      check_out(&cases[i], &outs[i]);
      for (int k = 0; k < 100; k++) must_hold(sums[i][k] == (float)(job->n * (i + k)));
      free(ins[i].rows);
      free(ins[i].values);
    }
  }
  for (int i = 0; i < AT_ONCE; i++) banyan_sparse_free(&outs[i]);
  banyan_comm_destroy(other);
  banyan_comm_destroy(world);
}

static void test_at_once(void **state) {
  (void)state;
  for (int n = 2; n <= 4; n++) {
    struct job job = {.n = n, .run = rank_at_once, .transport = n == 3 ? "tcp" : "shm", .seed = job_seed(n)};
    job_run(&job);
  }
}

/* ---- named operations, submitted by each rank in its own order */

static void shuffle(struct by_rng *rng, int *order) {
  for (int i = 0; i < AT_ONCE; i++) order[i] = i;
  for (int i = AT_ONCE - 1; i > 0; i--) {
    int j = (int)by_rng_below(rng, (uint64_t)i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}

/* Submits every third sparse call together with a dense call, as one operation. */
static void submit_case(struct banyan_comm *world, int i, const struct banyan_sparse_call *call, float *sum,
                        struct banyan_request **out) {
  char name[32];
  struct banyan_call dense = {.collective = BANYAN_ALLREDUCE, .send = sum, .recv = sum, .count = 1};
  struct banyan_submission submission = {.calls = &dense, .n_calls = i % 3 == 0, .sparse = call, .n_sparse = 1};
  *sum = (float)i;
  snprintf(name, sizeof name, "table %d", i);
  must(banyan_submit(world, name, &submission, out));
}

static void rank_named(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct sparse_case cases[AT_ONCE];
  struct banyan_sparse ins[AT_ONCE], outs[AT_ONCE] = {{0}};
  struct banyan_request *requests[AT_ONCE];
  float sums[AT_ONCE];
  struct by_rng rng, own;
  by_rng_init(&rng, job->seed);
  by_rng_init(&own, job->seed + 100 + (uint64_t)rank);
  for (int round = 0; round < job_rounds(15); round++) {
    int order[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
      sparse_case_choose(&rng, (uint32_t)job->n, SPARSE_CASE_KINDS, &cases[i]);
      ins[i] = sparse_case_input(&cases[i], (uint32_t)rank);
    }
    shuffle(&own, order);
    for (int k = 0; k < AT_ONCE; k++) {
      int i = order[k];
      struct banyan_sparse_call call = sparse_case_call(&cases[i], &ins[i], &outs[i]);
      submit_case(world, i, &call, &sums[i], &requests[i]);
      job_doze(&own, 200);
    }
    must(banyan_wait_all(requests, AT_ONCE));
    for (int i = 0; i < AT_ONCE; i++) {
      check_out(&cases[i], &outs[i]);
      must_hold(sums[i] == (float)(i % 3 ? i : i * job->n));
      free(ins[i].rows);
      free(ins[i].values);
    }
  }
  for (int i = 0; i < AT_ONCE; i++) banyan_sparse_free(&outs[i]);
  banyan_comm_destroy(world);
}

static void test_named(void **state) {
  (void)state;
  for (int n = 1; n <= 4; n++) {
    struct job job = {.n = n, .run = rank_named, .transport = n == 3 ? "tcp" : "shm", .seed = job_seed(n)};
    job_run(&job);
  }
}

/* ---- calls that do not match */

enum { ODD = 1 }; /* the rank that differs */

struct mistake {
  const char *name, *text; /* text: what the error must contain on all ranks */
  enum banyan_status status;
  void (*make)(struct banyan_sparse_call *call, struct banyan_sparse *in);
};

static void row_out_of_range(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  ((int32_t *)in->rows)[2] = 10;
}
static void negative_row(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  ((int32_t *)in->rows)[0] = -7;
}
static void negative_count(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  in->count = (size_t)-4;
}
static void other_width(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  in->width = 1;
}
static void other_height(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  in->height = 11;
}
static void other_way(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  call->way = BANYAN_SPARSE_MERGE;
}
static void other_op(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  call->op = BANYAN_AVERAGE;
}
static void no_values(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  in->values = NULL;
}
static void bad_dtype(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  in->dtype = (enum banyan_dtype)55;
}
static void op_of_no_name(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  call->op = (enum banyan_op)55;
}

static void no_such_op(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  call->op = BANYAN_MAX;
}
static void too_little_memory(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  call->memory = 100;
}
static void merged_allgather(struct banyan_sparse_call *call, struct banyan_sparse *in) {
  call->collective = BANYAN_ALLGATHER;
  call->way = BANYAN_SPARSE_DENSE;
}

static const struct mistake mistakes[] = {
    {"row out of range", "rank 1: sparse allreduce: row 10, at place 2 of 3, is not from 0 to 9", BANYAN_ERR_ARGUMENT,
     row_out_of_range},
    {"negative row", "rank 1: sparse allreduce: row -7, at place 0 of 3", BANYAN_ERR_ARGUMENT, negative_row},
    {"negative count", "rank 1: sparse allreduce: the count is -4, must not be negative", BANYAN_ERR_ARGUMENT,
     negative_count},
    {"width", "rank 1 sparse allreduce (sum, chosen) of 10 rows of 1 x f32", BANYAN_ERR_MISMATCH, other_width},
    {"height", "rank 0 sparse allreduce (sum, chosen) of 10 rows of 2 x f32", BANYAN_ERR_MISMATCH, other_height},
    {"way", "rank 1 sparse allreduce (sum, merge)", BANYAN_ERR_MISMATCH, other_way},
    {"operation", "rank 1 sparse allreduce (avg, chosen)", BANYAN_ERR_MISMATCH, other_op},
    {"NULL", "rank 1: sparse allreduce: rows or values are NULL, though the count is 3", BANYAN_ERR_ARGUMENT,
     no_values},
    {"dtype", "rank 1: sparse allreduce: there is no dtype number 55", BANYAN_ERR_ARGUMENT, bad_dtype},
    {"max", "rank 1: sparse allreduce: the operation is max", BANYAN_ERR_UNSUPPORTED, no_such_op},
    {"operation 55", "rank 1: sparse allreduce: there is no operation number 55", BANYAN_ERR_ARGUMENT, op_of_no_name},
    {"memory", "rank 0 alone 3 of them: too many for rank 1, which gives 100 bytes", BANYAN_ERR_NO_MEMORY,
     too_little_memory},
    {"merged allgather", "rank 1: sparse allgather: the way \"dense\" merges rows", BANYAN_ERR_UNSUPPORTED,
     merged_allgather},
};

/* Whether the mistake is found only when rows are exchanged. Otherwise the ranks' calls are the same. */
static bool is_late(const struct mistake *mistake) {
  return mistake->make == row_out_of_range || mistake->make == negative_row || mistake->make == too_little_memory;
}

/* The same with named operations. The ranks' submissions are compared before an operation starts, and the error text of
 * that comparison is not tested here. */
static void submit_mistake(struct banyan_comm *world, const struct mistake *mistake,
                           const struct banyan_sparse_call *call) {
  struct banyan_submission submission = {.sparse = call, .n_sparse = 1};
  struct banyan_request *request;
  if (mistake->status != BANYAN_ERR_MISMATCH && !is_late(mistake)) return;
  enum banyan_status status = banyan_submit(world, "mistake", &submission, &request);
  if (status == BANYAN_OK) status = banyan_wait(request); /* else the other ranks' submissions are known to differ */
  must_fail(mistake->status, status);
  if (is_late(mistake) && !strstr(banyan_error_text(), mistake->text))
    rank_fail("%s, named: the error is \"%s\", not \"%s\"", mistake->name, banyan_error_text(), mistake->text);
}

static void rank_mistakes(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_sparse out = {0};
  for (size_t m = 0; m < sizeof mistakes / sizeof mistakes[0]; m++) {
    int32_t rows[] = {4, 1, 4};
    float values[6] = {1, 2, 3, 4, 5, 6};
    struct banyan_sparse in = {.dtype = BANYAN_FLOAT32,
                               .row_dtype = BANYAN_INT32,
                               .height = 10,
                               .width = 2,
                               .count = 3,
                               .rows = rows,
                               .values = values};
    in.unique = mistakes[m].make == too_little_memory; /* so that three ranks receive the error */
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in, .out = &out};
    if (rank == ODD) mistakes[m].make(&call, &in);
    must_fail(mistakes[m].status, banyan_sparse_run(world, &call));
    if (!strstr(banyan_error_text(), mistakes[m].text))
      rank_fail("%s: the error is \"%s\", not \"%s\"", mistakes[m].name, banyan_error_text(), mistakes[m].text);
    must(banyan_comm_state(world)); /* the job goes on */
    submit_mistake(world, &mistakes[m], &call);
    must(banyan_comm_state(world));
  }
  banyan_sparse_free(&out);
  banyan_comm_destroy(world);
}

static void test_mistakes(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_mistakes};
  job_run(&job);
}

/* ---- memory */

/* Rows that all ranks have, and those that each has alone, of a table. */
struct memory_case {
  int32_t height, common, own;
};

enum { MEMORY_WIDTH = 16, MEMORY_ROWS = 300 };

/* Runs the call with so much memory on one rank, and as much as there is on the others. Returns how much the way may
 * need where that is too little, which is the same on all ranks; 0: it is enough, and the sum is right. */
static unsigned long long try_memory(struct banyan_comm *world, const struct memory_case *m, size_t memory,
                                     enum banyan_sparse_way way, enum banyan_sparse_way *taken) {
  int rank = banyan_comm_rank(world), n = banyan_comm_size(world);
  int32_t rows[MEMORY_ROWS];
  float ones[MEMORY_ROWS * MEMORY_WIDTH];
  struct banyan_sparse out = {0}, in = {.dtype = BANYAN_FLOAT32,
                                        .row_dtype = BANYAN_INT32,
                                        .height = (size_t)m->height,
                                        .width = MEMORY_WIDTH,
                                        .rows = rows,
                                        .values = ones};
  for (int i = 0; i < MEMORY_ROWS * MEMORY_WIDTH; i++) ones[i] = 1;
  for (int32_t i = 0; i < m->common; i++) rows[in.count++] = i;
  for (int32_t i = 0; i < m->own; i++) rows[in.count++] = m->common + rank * m->own + i;
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .way = way, .in = &in, .out = &out, .taken = taken};
  if (rank == ODD) call.memory = memory;
  enum banyan_status status = banyan_sparse_run(world, &call);
  must(banyan_comm_state(world));
  unsigned long long needed = 0;
  if (status == BANYAN_OK) {
    must_hold(out.count == (size_t)(m->common + n * m->own) && out.room <= memory);
    for (size_t i = 0; i < out.count * MEMORY_WIDTH; i++)
      must_hold(((const float *)out.values)[i] == (i / MEMORY_WIDTH < (size_t)m->common ? (float)n : 1));
  } else {
    char name[60];
    snprintf(name, sizeof name, "where the way \"%s\" may need ", banyan_sparse_way_name(way));
    const char *text = banyan_error_text(), *at = strstr(text, way ? name : "may need ");
    if (status != BANYAN_ERR_NO_MEMORY || !at) rank_fail("with %zu bytes: the error is \"%s\"", memory, text);
    needed = strtoull(strstr(at, "need ") + 5, NULL, 10);
    if (needed <= memory || out.memory) rank_fail("with %zu bytes: the error is \"%s\"", memory, text);
  }
  banyan_sparse_free(&out);
  return needed;
}

/* Each way that is forced gets by with what the error says that it needs, and with less it is refused. The one that
 * is chosen is one that fits, and if none does, the error names the way that needs least. */
static void rank_memory(struct job *job, int rank) {
  static const struct memory_case cases[] = {{100000, 0, 200}, {100000, 250, 10}, {100000, 1, 1}, {300, 20, 50}};
  struct banyan_comm *world = job_join();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct memory_case *m = &cases[i];
    unsigned long long least = ULLONG_MAX, none, needed[BANYAN_SPARSE_WAYS] = {0};
    enum banyan_sparse_way taken;
    for (int way = BANYAN_SPARSE_PADDED; way < BANYAN_SPARSE_WAYS; way++) {
      needed[way] = try_memory(world, m, 100, (enum banyan_sparse_way)way, &taken);
      if (!needed[way]) rank_fail("case %zu, way %d: 100 bytes are enough", i, way);
      must_hold(!try_memory(world, m, needed[way], (enum banyan_sparse_way)way, &taken) && (int)taken == way);
      must_hold(try_memory(world, m, needed[way] - 1, (enum banyan_sparse_way)way, &taken) == needed[way]);
      if (needed[way] < least) least = needed[way];
    }
    must_hold(!try_memory(world, m, least, BANYAN_SPARSE_CHOSEN, &taken) && needed[taken] == least);
    none = try_memory(world, m, least - 1, BANYAN_SPARSE_CHOSEN, &taken);
    if (none != least) rank_fail("case %zu: the error says %llu, the least is %llu", i, none, least);
  }
  banyan_comm_destroy(world);
}

static void test_memory(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_memory};
  job_run(&job);
}

/* A row count that exceeds addressable memory is refused on all ranks before any memory is allocated. */
static void rank_claims_too_many_rows(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_sparse out = {0};
  static const size_t counts[] = {(size_t)1 << 40, (size_t)1 << 58, SIZE_MAX / 2};
  static const char *const texts[] = {"too many for rank", "fit in no memory", "fit in no memory"};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    struct banyan_sparse in = {
        .dtype = BANYAN_FLOAT64, .row_dtype = BANYAN_INT64, .height = (size_t)1 << 62, .width = 8, .unique = true};
    struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in, .out = &out};
    int64_t row = 1;
    double values[8] = {0};
    in.rows = &row, in.values = values, in.count = 1;
    if (i == 0)
      call.memory = 200;
    else if (rank == ODD)
      in.count = counts[i];
    must_fail(i ? BANYAN_ERR_ARGUMENT : BANYAN_ERR_NO_MEMORY, banyan_sparse_run(world, &call));
    if (!strstr(banyan_error_text(), texts[i])) rank_fail("the error is \"%s\"", banyan_error_text());
    must_hold(out.room == 0);
  }
  banyan_comm_destroy(world);
}

static void test_too_many_rows(void **state) {
  (void)state;
  struct job job = {.n = 4, .run = rank_claims_too_many_rows};
  job_run(&job);
}

/* ---- ranks that leave and deadlines that pass early */

static struct banyan_sparse one_row(int32_t *row, float *value) {
  return (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                .row_dtype = BANYAN_INT32,
                                .height = 10,
                                .width = 1,
                                .count = 1,
                                .rows = row,
                                .values = value};
}

static void rank_leaves(struct job *job, int rank) {
  struct banyan_comm *world = job_join(), *part;
  struct banyan_sparse out = {0};
  struct banyan_request *request;
  int32_t row = 3;
  float value = 1;
  struct banyan_sparse in = one_row(&row, &value);
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in, .out = &out};
  must(banyan_comm_duplicate(world, &part));
  if (rank == 0) { /* no other rank makes this call */
    must(banyan_sparse_start(part, &call, &request));
    banyan_comm_destroy(part);
    must_fail(BANYAN_ERR_CLOSED, banyan_wait(request));
  } else {
    banyan_comm_destroy(part);
  }
  must(banyan_sparse_run(world, &call));
  must_hold(out.count == 1 && *(float *)out.values == (float)job->n);
  banyan_sparse_free(&out);
  banyan_comm_destroy(world);
}

static void test_leaving(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_leaves};
  job_run(&job);
}

static void rank_misses(struct job *job, int rank) {
  struct banyan_comm *world = job_join();
  struct banyan_sparse out = {0};
  int32_t row = 3;
  float value = 1;
  struct banyan_sparse in = one_row(&row, &value);
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE, .in = &in, .out = &out, .deadline = 0.5};
  if (rank) must_fail(BANYAN_ERR_TIMEOUT, banyan_sparse_run(world, &call));
  if (rank) must_hold(strstr(banyan_error_text(), "deadline") != NULL);
  if (rank) must_hold(banyan_comm_state(world) == BANYAN_ERR_TIMEOUT);
  while (!rank && banyan_comm_state(world) == BANYAN_OK) job_doze(&(struct by_rng){{1, 2, 3, 4}}, 1000);
  banyan_comm_destroy(world);
}

static void test_deadline(void **state) {
  (void)state;
  struct job job = {.n = 3, .run = rank_misses};
  job_run(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_shm),    cmocka_unit_test(test_values_tcp), cmocka_unit_test(test_plans),
      cmocka_unit_test(test_at_once),       cmocka_unit_test(test_named),      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_too_many_rows), cmocka_unit_test(test_leaving),    cmocka_unit_test(test_deadline),
      cmocka_unit_test(test_deterministic), cmocka_unit_test(test_tables),     cmocka_unit_test(test_bad_tables),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
