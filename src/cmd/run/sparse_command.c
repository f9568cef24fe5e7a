/* `banyan bench sparse`: every method of exchanging sparse rows in turns, forced and chosen. With -n it starts its own
 * ranks, which run it again; otherwise it is a rank of the job that its environment describes.
 *
 * The seed determines the rows of all ranks, so each rank knows the result: a value depends on its row and column only,
 * and is a small integer, so sums are exact in any order. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include <banyan/banyan.h>

#include "bench_values.h"
#include "clock.h"
#include "order.h"
#include "output.h"
#include "process.h"
#include "rng.h"
#include "settings.h"

struct bench {
  struct by_bench_run run;
  long height, width, rows, common, tables, rounds, warm_up, seed;
  const char *way_name;
  bool json;
  /* Of a rank. */
  enum banyan_sparse_way way; /* Without its name all of them take turns. */
  struct banyan_comm *comm;
  int rank, size;
  struct banyan_sparse mine, out;         /* In one table. */
  struct banyan_sparse *mine_of, *out_of; /* In several tables; NULL: there is one. */
  uint32_t *having;                       /* Number of ranks that have each row. */
  size_t n_union;
};

/* All methods, and then the one that is chosen if the rows are in one table instead of several. */
enum { IN_ONE = BANYAN_SPARSE_WAYS, MAX_TIMED };

/* Results of one method. */
struct timed {
  double *seconds; /* Of the slowest rank, for each round. */
  double bytes;    /* Sent by all ranks in the last round. */
  uint64_t wrong;  /* Rows on all ranks. */
  uint32_t taken[BANYAN_SPARSE_WAYS];
};

/* ---- rows */

static float value_at(size_t row, size_t column) {
  return (float)((row * 7 + column * 3) % 11) - 5;
}

/* Marks `n` more different rows at random in `marks`. */
static void mark_random(struct by_rng *rng, size_t height, size_t n, unsigned char *marks) {
  while (n) {
    size_t row = (size_t)by_rng_below(rng, height);
    if (marks[row]) continue;
    marks[row] = 1;
    n--;
  }
}

/* Marks the rows of a rank: some that all ranks have, and others at random. */
static void mark_rows(const struct bench *b, int rank, unsigned char *marks) {
  struct by_rng all, own;
  size_t shared = (size_t)(b->rows * b->common / 100), height = (size_t)b->height;
  by_rng_init(&all, (uint64_t)b->seed);
  by_rng_init(&own, (uint64_t)b->seed + 1 + (uint64_t)rank);
  memset(marks, 0, height);
  mark_random(&all, height, shared, marks);
  mark_random(&own, height, (size_t)b->rows - shared, marks);
}

static void make_rows(struct bench *b) {
  size_t height = (size_t)b->height, width = (size_t)b->width, count = 0;
  unsigned char *marks = by_cli_alloc(NULL, height);
  int32_t *rows = by_cli_alloc(NULL, (size_t)b->rows * sizeof *rows);
  float *values = by_cli_alloc(NULL, (size_t)b->rows * width * sizeof *values);
  b->having = by_cli_alloc(NULL, height * sizeof *b->having);
  memset(b->having, 0, height * sizeof *b->having);
  for (int rank = 0; rank < b->size; rank++) {
    mark_rows(b, rank, marks);
    for (size_t r = 0; r < height; r++) b->having[r] += marks[r];
    for (size_t r = 0; rank == b->rank && r < height; r++)
      if (marks[r]) rows[count++] = (int32_t)r;
  }
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < width; k++) values[i * width + k] = value_at((size_t)rows[i], k);
  for (size_t r = 0; r < height; r++) b->n_union += b->having[r] > 0;
  free(marks);
  b->mine = (struct banyan_sparse){.dtype = BANYAN_FLOAT32,
                                   .row_dtype = BANYAN_INT32,
                                   .height = height,
                                   .width = width,
                                   .count = count,
                                   .rows = rows,
                                   .values = values,
                                   .unique = true};
}

/* Returns the first row of a table. */
static size_t first_row(const struct bench *b, long table) {
  return (size_t)(b->height * table / b->tables);
}

static void cut_tables(struct bench *b) {
  size_t n = (size_t)b->tables, place = 0;
  int32_t *rows = b->mine.rows, *moved = by_cli_alloc(NULL, (b->mine.count + 1) * sizeof *moved);
  b->mine_of = by_cli_alloc(NULL, n * sizeof *b->mine_of);
  b->out_of = by_cli_alloc(NULL, n * sizeof *b->out_of);
  memset(b->out_of, 0, n * sizeof *b->out_of);
  for (size_t t = 0; t < n; t++) {
    size_t first = first_row(b, (long)t), end = first_row(b, (long)t + 1), begin = place;
    for (; place < b->mine.count && (size_t)rows[place] < end; place++) moved[place] = rows[place] - (int32_t)first;
    b->mine_of[t] = b->mine;
    b->mine_of[t].height = end - first;
    b->mine_of[t].count = place - begin;
    b->mine_of[t].rows = moved + begin;
    b->mine_of[t].values = (float *)b->mine.values + begin * (size_t)b->width;
  }
}

/* Joins the results of all tables. */
static void join_tables(struct bench *b) {
  size_t count = 0;
  for (long t = 0; t < b->tables; t++) count += b->out_of[t].count;
  banyan_sparse_free(&b->out);
  int32_t *rows = b->out.memory = by_cli_alloc(NULL, (count + 1) * (sizeof *rows + (size_t)b->width * sizeof(float)));
  float *values = (float *)(void *)(rows + count);
  b->out.rows = rows;
  b->out.values = values;
  for (long t = 0; t < b->tables; t++) {
    const struct banyan_sparse *part = &b->out_of[t];
    for (size_t i = 0; i < part->count; i++) *rows++ = ((const int32_t *)part->rows)[i] + (int32_t)first_row(b, t);
    if (part->count) memcpy(values, part->values, part->count * (size_t)b->width * sizeof *values);
    values += part->count * (size_t)b->width;
  }
  b->out.count = count;
}

/* Counts wrong rows of the result. */
static uint64_t count_wrong(const struct bench *b) {
  const int32_t *rows = b->out.rows;
  const float *values = b->out.values;
  size_t width = (size_t)b->width, next = 0;
  uint64_t wrong = 0;
  for (size_t r = 0; r < (size_t)b->height; r++) {
    if (!b->having[r]) continue;
    bool good = next < b->out.count && rows[next] == (int32_t)r;
    for (size_t k = 0; good && k < width; k++) good = values[next * width + k] == (float)b->having[r] * value_at(r, k);
    wrong += !good;
    next++;
  }
  return wrong + (next < b->out.count ? b->out.count - next : 0);
}

/* ---- timing */

static enum banyan_status make_call(struct bench *b, int way, enum banyan_sparse_way *taken) {
  struct banyan_sparse_call of = {.collective = BANYAN_ALLREDUCE,
                                  .way = way == IN_ONE ? BANYAN_SPARSE_CHOSEN : (enum banyan_sparse_way)way,
                                  .in = &b->mine,
                                  .out = &b->out,
                                  .taken = taken};
  if (b->mine_of && way != IN_ONE) {
    of.in = b->mine_of;
    of.out = b->out_of;
    of.tables = (size_t)b->tables;
  }
  return banyan_sparse_run(b->comm, &of);
}

static double bytes_sent(const struct bench *b) {
  struct banyan_counters counters;
  banyan_comm_counters(b->comm, &counters);
  return (double)counters.bytes_sent;
}

/* Makes a call that all ranks begin at about the same time. */
static enum banyan_status time_once(struct bench *b, int way, long round, struct timed *timed) {
  enum banyan_sparse_way taken = BANYAN_SPARSE_CHOSEN;
  BY_TRY(banyan_barrier(b->comm));
  double bytes = bytes_sent(b);
  uint64_t start = by_clock_now(&by_clock_system);
  BY_TRY(make_call(b, way, &taken));
  double seconds = (double)(by_clock_now(&by_clock_system) - start) * 1e-9;
  if (b->mine_of && way != IN_ONE) join_tables(b);
  double sums[] = {bytes_sent(b) - bytes, (double)count_wrong(b)};
  BY_TRY(banyan_allreduce(b->comm, sums, sums, 2, BANYAN_FLOAT64, BANYAN_SUM));
  BY_TRY(banyan_allreduce(b->comm, &seconds, &timed->seconds[round], 1, BANYAN_FLOAT64, BANYAN_MAX));
  timed->bytes = sums[0];
  timed->wrong += (uint64_t)sums[1];
  timed->taken[taken]++;
  return BANYAN_OK;
}

/* Methods take turns, in an order that changes from round to round, since each finds the caches as the previous one
 * left them. */
static enum banyan_status time_all(struct bench *b, struct timed *timed) {
  int ways[MAX_TIMED], n = 0;
  struct by_rng rng;
  by_rng_init(&rng, (uint64_t)b->seed); /* The same on all ranks. */
  for (int way = 0; way < BANYAN_SPARSE_WAYS; way++)
    if (!b->way_name || (int)b->way == way) ways[n++] = way;
  if (b->mine_of) ways[n++] = IN_ONE;
  for (int i = 0; i < n; i++)
    for (long k = 0; k < b->warm_up; k++) BY_TRY(make_call(b, ways[i], NULL));
  for (long round = 0; round < b->rounds; round++) {
    for (int i = n - 1; i > 0; i--) {
      int j = (int)by_rng_below(&rng, (uint64_t)i + 1);
      int way = ways[i];
      ways[i] = ways[j];
      ways[j] = way;
    }
    for (int i = 0; i < n; i++) BY_TRY(time_once(b, ways[i], round, &timed[ways[i]]));
  }
  return BANYAN_OK;
}

/* ---- results */

static enum banyan_sparse_way taken_mostly(const struct timed *timed) {
  int best = 0;
  for (int way = 0; way < BANYAN_SPARSE_WAYS; way++)
    if (timed->taken[way] > timed->taken[best]) best = way;
  return (enum banyan_sparse_way)best;
}

static const char *name_of(int way) {
  return way == IN_ONE ? "one table" : banyan_sparse_way_name((enum banyan_sparse_way)way);
}

static void print_json(const struct bench *b, int way, const struct timed *timed, double median, double of_best) {
  json_t *object = json_pack(
      "{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I}", "impl", "banyan",
      "collective", "sparse allreduce", "method", name_of(way), "taken", banyan_sparse_way_name(taken_mostly(timed)),
      "ranks", b->size, "height", (json_int_t)b->height, "width", (json_int_t)b->width, "rows", (json_int_t)b->rows,
      "common", (json_int_t)b->common, "tables", (json_int_t)(way == IN_ONE ? 1 : b->tables), "union",
      (json_int_t)b->n_union, "rounds", (json_int_t)b->rounds, "time_us", median * 1e6, "min_us",
      timed->seconds[0] * 1e6, "of_best", of_best, "bytes_sent", timed->bytes, "wrong", (json_int_t)timed->wrong);
  by_bench_print_json(object);
}

static void print_row(const struct bench *b, int way, const struct timed *timed, double best) {
  double median = timed->seconds[b->rounds / 2];
  if (b->json) {
    print_json(b, way, timed, median, median / best);
    return;
  }
  printf("  %-10s %12.1f %12.1f %9.3f %12.3f %7" PRIu64, name_of(way), median * 1e6, timed->seconds[0] * 1e6,
         median / best, timed->bytes * 1e-6, timed->wrong);
  for (int w = 1; (way == BANYAN_SPARSE_CHOSEN || way == IN_ONE) && w < BANYAN_SPARSE_WAYS; w++)
    if (timed->taken[w]) printf("  %s %u", banyan_sparse_way_name((enum banyan_sparse_way)w), timed->taken[w]);
  printf("\n");
}

/* `best`: the lowest median of the forced methods. */
static void print_all(const struct bench *b, struct timed *timed) {
  double best = INFINITY;
  for (int way = 0; way < MAX_TIMED; way++) {
    qsort(timed[way].seconds, (size_t)b->rounds, sizeof(double), by_order_numbers);
    bool counts = way != BANYAN_SPARSE_CHOSEN && way != IN_ONE && timed[way].taken[way];
    if (counts || (b->way_name && (int)b->way == way)) best = MIN(best, timed[way].seconds[b->rounds / 2]);
  }
  if (!b->json) {
    printf("# sparse allreduce, f32; %d ranks; %ld rows of %ld x %ld each, %ld %% of them on all ranks; union %zu; "
           "%ld table%s\n",
           b->size, b->rows, b->height, b->width, b->common, b->n_union, b->tables, b->tables == 1 ? "" : "s");
    printf("# %-10s %12s %12s %9s %12s %7s  taken\n", "method", "median us", "least us", "of best", "MB sent", "wrong");
  }
  for (int way = 0; way < BANYAN_SPARSE_WAYS; way++)
    if (!b->way_name || (int)b->way == way) print_row(b, way, &timed[way], best);
  if (b->mine_of) print_row(b, IN_ONE, &timed[IN_ONE], best);
}

/* ---- command line */

#define VALUES struct bench

static const struct by_option options[] = {
    BY_INT("ranks", 'n', run.ranks, "N", 1, BY_MAX_RANKS,
           "start N ranks here; default: be a rank of the surrounding\njob; if there is none, start one rank for each "
           "core"),
    BY_INT("height", 0, height, "N", 1, INT32_MAX, "rows of the table; default 100000"),
    BY_INT("width", 0, width, "N", 1, 1 << 20, "elements (f32) of a row; default 64"),
    BY_INT("rows", 0, rows, "N", 0, INT32_MAX, "rows that each rank has; default 2000"),
    BY_INT("common", 0, common, "PERCENT", 0, 100, "of them, those that all ranks have; default 50"),
    BY_INT("tables", 0, tables, "N", 1, 65536,
           "cut the table into N, whose rows go in one call; \"one table\"\nis the same rows uncut"),
    BY_TEXT("method", 0, way_name, "NAME",
            "only this one: chosen, padded, gather, broadcast, merge or\ndense; default: all of them in turns"),
    BY_CHOICE("transport", 't', run.transport, BY_TRANSPORT_CHOICES, "how ranks reach each other"),
    BY_TEXT("plan", 'p', run.plan, "PLAN", "a built-in plan's name or a plan file; default: by size"),
    BY_INT("rounds", 0, rounds, "N", 1, 1000000, "timed calls of each method; default 21"),
    BY_INT("warmup", 0, warm_up, "N", 0, 1000000, "calls of each method before them; default 2"),
    BY_INT("seed", 0, seed, "N", 0, 1000000000, "of the random rows; default 1"),
    BY_FLAG("json", 0, json, "print one JSON object a method"),
    BY_FLAG("pin", 0, run.pin, "bind rank r to core r, cyclically"),
    BY_FLAG("as-rank", 0, run.as_rank, NULL),
    {.name = NULL},
};

/* Letters that mean something else in other commands. */
static const struct by_habit habits[] = {
    {"-w", "--width N"},
    {"-r", "--rows N"},
    {"-m", "--method NAME"},
    {NULL, NULL},
};

static const struct by_command command = {
    .name = "banyan bench sparse",
    .usage = "[-n N] [options]",
    .about = "Measures the sum of sparse rows over all ranks by every method in turns, and by\n"
             "the one that Banyan chooses. The time of a call is that of its slowest rank;\n"
             "\"of best\" is the ratio of its median to the lowest one of the forced methods.\n"
             "Every element of every result is compared with what it must be. Rows are random\n"
             "and different on each rank, except for those that all ranks have.\n"
             "\n"
             "Returns 0 if every call succeeded and no row was wrong.",
    .options = options,
    .habits = habits,
};

static enum banyan_status parse_options(struct bench *b) {
  if (b->way_name) BY_TRY(banyan_sparse_way_parse(b->way_name, &b->way));
  if (b->rows > b->height)
    return by_fail(BANYAN_ERR_ARGUMENT, "--rows is %ld, but the table has %ld (--height)", b->rows, b->height);
  if (b->tables > b->height)
    return by_fail(BANYAN_ERR_ARGUMENT, "--tables is %ld, but there are %ld rows (--height)", b->tables, b->height);
  return BANYAN_OK;
}

static enum banyan_status measure_methods(struct by_bench_run *run, const struct by_settings *settings,
                                          struct banyan_comm *comm, uint64_t *wrong) {
  struct bench *b = (struct bench *)run;
  (void)settings;
  b->comm = comm;
  struct timed timed[MAX_TIMED] = {{0}};
  b->rank = banyan_comm_rank(b->comm);
  b->size = banyan_comm_size(b->comm);
  make_rows(b);
  if (b->tables > 1) cut_tables(b);
  for (int way = 0; way < MAX_TIMED; way++) {
    timed[way].seconds = by_cli_alloc(NULL, (size_t)b->rounds * sizeof(double));
    memset(timed[way].seconds, 0, (size_t)b->rounds * sizeof(double));
  }
  enum banyan_status status = time_all(b, timed);
  if (!status && !b->rank) print_all(b, timed);
  for (int way = 0; way < MAX_TIMED; way++) {
    *wrong += timed[way].wrong;
    free(timed[way].seconds);
  }
  for (long t = 0; b->mine_of && t < b->tables; t++) banyan_sparse_free(&b->out_of[t]);
  if (b->mine_of) free(b->mine_of[0].rows);
  free(b->mine_of);
  free(b->out_of);
  free(b->mine.rows);
  free(b->mine.values);
  free(b->having);
  banyan_sparse_free(&b->out);
  return status;
}

int by_cli_bench_sparse(int argc, char **argv) {
  struct bench bench = {.run = {.command = &command, .transport = -1, .measure = measure_methods},
                        .height = 100000,
                        .width = 64,
                        .rows = 2000,
                        .common = 50,
                        .tables = 1,
                        .rounds = 21,
                        .warm_up = 2,
                        .seed = 1};
  char **words = by_bench_words((char *const[]){(char[]){"bench"}, (char[]){"sparse"}, NULL}, argc, argv);
  int exit_code = by_options_parse(&command, argc, argv, &bench, NULL);
  if (exit_code < 0) exit_code = parse_options(&bench) ? by_command_misused(&command) : by_bench_run(&bench.run, words);
  free(words);
  return exit_code;
}
