/* Times every algorithm for exchanging sparse rows, on batches of a real text:
 *
 *   banyan run -n 8 --transport tcp -- sparse_bench TEXT [WIDTH [TOKENS [FOLDER]]]
 *
 * Each rank has the gradient of a batch of word vectors (examples/wordvec), from another part of the text. All
 * algorithms take turns in every round, in a new random order, since each finds the caches as the one before left
 * them. The bench prints for each the median over the rounds of the slowest rank's time, and the bytes that all
 * ranks sent. "float" is the time of a dense AllReduce whose table exists already: the same table, without clearing
 * it and searching for rows. With FOLDER each rank writes its batch to batch-RANK there, for sparse_torch.py:
 * count, height and width (64 bits each), rows in their original order (32 bits), values. */
#include <banyan/banyan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../examples/wordvec/model.h"

enum { ROUNDS = 41, WAYS = BANYAN_SPARSE_WAYS + 1, FLOAT = BANYAN_SPARSE_WAYS };

static void check(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "sparse_bench: %s\n", banyan_error_text());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double sum_over_ranks(struct banyan_comm *comm, double value, enum banyan_op op) {
  check(banyan_allreduce(comm, &value, &value, 1, BANYAN_FLOAT64, op));
  return value;
}

struct bench {
  struct banyan_comm *comm;
  struct banyan_sparse merged, out;
  float *table;
  enum banyan_sparse_way taken;
  double seconds[WAYS][ROUNDS], bytes[WAYS];
};

static double sent(struct banyan_comm *comm) {
  struct banyan_counters counters;
  banyan_comm_counters(comm, &counters);
  return (double)counters.bytes_sent;
}

static void once(struct bench *bench, int way) {
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE,
                                    .way = (enum banyan_sparse_way)way,
                                    .in = &bench->merged,
                                    .out = &bench->out,
                                    .taken = way ? NULL : &bench->taken};
  if (way == FLOAT)
    check(banyan_allreduce(bench->comm, bench->table, bench->table, bench->merged.height * bench->merged.width,
                           BANYAN_FLOAT32, BANYAN_SUM));
  else
    check(banyan_sparse_run(bench->comm, &call));
}

static void measure(struct bench *bench, int way, int round) {
  check(banyan_barrier(bench->comm));
  double bytes = sent(bench->comm), start = now();
  once(bench, way);
  double seconds = now() - start;
  bench->bytes[way] = sent(bench->comm) - bytes;
  bench->seconds[way][round] = sum_over_ranks(bench->comm, seconds, BANYAN_MAX);
}

/* The order is the same on all ranks. */
static void shuffle(int *ways, uint64_t *random) {
  for (int i = WAYS - 1; i > 0; i--) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    int j = (int)((*random >> 33) % (uint64_t)(i + 1)), way = ways[i];
    ways[i] = ways[j];
    ways[j] = way;
  }
}

static void measure_all(struct bench *bench) {
  int ways[WAYS];
  uint64_t random = 1;
  for (int way = 0; way < WAYS; way++) ways[way] = way;
  for (int way = 0; way < WAYS; way++) once(bench, way);
  for (int round = 0; round < ROUNDS; round++) {
    shuffle(ways, &random);
    for (int i = 0; i < WAYS; i++) measure(bench, ways[i], round);
  }
}

static void write_batch(const char *folder, int rank, const struct banyan_sparse *batch) {
  uint64_t shape[] = {batch->count, batch->height, batch->width};
  char path[4096];
  snprintf(path, sizeof path, "%s/batch-%d", folder, rank);
  FILE *file = fopen(path, "wb");
  bool good = file && fwrite(shape, sizeof shape, 1, file) == 1 &&
              fwrite(batch->rows, sizeof(int32_t), batch->count, file) == batch->count &&
              fwrite(batch->values, sizeof(float) * batch->width, batch->count, file) == batch->count;
  if ((file && fclose(file)) || !good) {
    perror(path);
    exit(1);
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void print(struct bench *bench) {
  double total = sum_over_ranks(bench->comm, (double)bench->merged.count, BANYAN_SUM), best = 1e9;
  double most = sum_over_ranks(bench->comm, (double)bench->merged.count, BANYAN_MAX);
  int rank = banyan_comm_rank(bench->comm);
  for (int way = 0; way < WAYS; way++) {
    qsort(bench->seconds[way], ROUNDS, sizeof(double), by_size);
    bench->bytes[way] = sum_over_ranks(bench->comm, bench->bytes[way], BANYAN_SUM);
    if (way && bench->seconds[way][ROUNDS / 2] < best) best = bench->seconds[way][ROUNDS / 2];
  }
  if (rank) return;
  printf("%d ranks, width %zu of %zu rows: %.0f rows in all, at most %.0f, union %zu\n", banyan_comm_size(bench->comm),
         bench->merged.width, bench->merged.height, total, most, bench->out.count);
  for (int way = 0; way < WAYS; way++)
    printf("  %-10s %9.0f us (%9.0f at least) %5.2f of the best, %9.3f MB %s\n",
           way == FLOAT ? "float" : banyan_sparse_way_name((enum banyan_sparse_way)way),
           bench->seconds[way][ROUNDS / 2] * 1e6, bench->seconds[way][0] * 1e6, bench->seconds[way][ROUNDS / 2] / best,
           bench->bytes[way] * 1e-6, way ? "" : banyan_sparse_way_name(bench->taken));
}

int main(int argc, char **argv) {
  struct bench bench = {0};
  struct batch batch = {0};
  struct model model;
  struct text text;
  if (argc < 2) {
    fprintf(stderr, "usage: banyan run -n N -- sparse_bench TEXT [WIDTH [TOKENS [FOLDER]]]\n");
    return 2;
  }
  size_t width = argc > 2 ? strtoul(argv[2], NULL, 10) : 64, tokens = argc > 3 ? strtoul(argv[3], NULL, 10) : 512;
  check(banyan_comm_create(NULL, &bench.comm));
  int rank = banyan_comm_rank(bench.comm), ranks = banyan_comm_size(bench.comm);
  text_read(argv[1], 5, &text);
  model_init(&model, &text, width, 1);
  uint64_t random = 77 + (uint64_t)rank;
  model_batch(&model, text.n_tokens / (size_t)ranks * (size_t)rank, tokens, &random, &batch);
  check(banyan_sparse_merge(&batch.gradient, &bench.merged));
  bench.table = model.squares; /* The table contains zeros. */
  if (argc > 4) write_batch(argv[4], rank, &batch.gradient);
  measure_all(&bench);
  print(&bench);
  banyan_sparse_free(&bench.merged);
  banyan_sparse_free(&bench.out);
  batch_free(&batch);
  model_free(&model);
  text_free(&text);
  banyan_comm_destroy(bench.comm);
  return 0;
}
