/* Word vectors, trained by all ranks together on one text:
 *
 *   banyan run -n 4 -- ./wordvec TEXT
 *
 * Each rank takes a part of the text, batch by batch; the gradients touch some
 * thousand rows of a large table, and only those are exchanged. All ranks do
 * the same step on the same table. */
#include <banyan/banyan.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"

struct options {
  size_t width, batch, tokens; /* batch: tokens of a rank's step; tokens: of all ranks in all; 0: the text once */
  uint64_t least, seed;
  double rate;
  enum banyan_sparse_way way;
  const char *text, *words;
};

struct run {
  struct options options;
  struct text text;
  struct model model;
  struct banyan_comm *comm;
  int rank, ranks;
  uint64_t random;
  struct batch batch;
  struct banyan_sparse sum;
  double began;           /* seconds */
  double loss, pairs;     /* since the last line */
  uint64_t tokens, steps; /* of all ranks; so far */
  uint64_t rows;          /* of all unions */
};

static void check(enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "wordvec: %s\n", banyan_error_text());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char help[] = "usage: wordvec [OPTION...] TEXT\n"
                           "Trains word vectors on a text, with as many ranks as `banyan run -n N --` starts.\n\n"
                           "  --width N       elements of a vector (64)\n"
                           "  --batch N       tokens of a rank's step (512)\n"
                           "  --tokens N      tokens to train on, all ranks together (the text once)\n"
                           "  --least N       leave out words that stand fewer times in the text (5)\n"
                           "  --rate X        step of Adagrad (0.1)\n"
                           "  --seed N        of everything that is random (1)\n"
                           "  --way WAY       how rows are exchanged: chosen, padded, gather, broadcast, merge, dense\n"
                           "  --words A,B,... whose neighbours to show at the end\n"
                           "  --help\n";

static const struct option long_options[] = {
    {"width", required_argument, NULL, 'w'},  {"batch", required_argument, NULL, 'b'},
    {"tokens", required_argument, NULL, 't'}, {"least", required_argument, NULL, 'l'},
    {"rate", required_argument, NULL, 'r'},   {"seed", required_argument, NULL, 's'},
    {"way", required_argument, NULL, 'y'},    {"words", required_argument, NULL, 'n'},
    {"help", no_argument, NULL, 'h'},         {0},
};

static size_t number(const char *option, const char *text) {
  char *end;
  unsigned long long value = strtoull(text, &end, 10);
  if (*end || !value || *text == '-') {
    fprintf(stderr, "wordvec: --%s is \"%s\", must be a number from 1 on\n", option, text);
    exit(2);
  }
  return (size_t)value;
}

static void parse(int argc, char **argv, struct options *o) {
  *o = (struct options){
      .width = 64, .batch = 512, .least = 5, .seed = 1, .rate = 0.1, .words = "memory,file,cpu,driver,network,lock"};
  for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) switch (c) {
    case 'w': o->width = number("width", optarg); break;
    case 'b': o->batch = number("batch", optarg); break;
    case 't': o->tokens = number("tokens", optarg); break;
    case 'l': o->least = number("least", optarg); break;
    case 's': o->seed = number("seed", optarg); break;
    case 'r': o->rate = atof(optarg); break;
    case 'y': check(banyan_sparse_way_parse(optarg, &o->way)); break;
    case 'n': o->words = optarg; break;
    case 'h': fputs(help, stdout); exit(0);
    default: exit(2);
    }
  if (optind + 1 != argc || !(o->rate > 0)) {
    fputs(help, stderr);
    exit(2);
  }
  o->text = argv[optind];
}

/* ---- training */

/* Rank r's part of the text is the r-th of as many as there are ranks. */
static size_t place_of(const struct run *run) {
  size_t part = run->text.n_tokens / (size_t)run->ranks;
  return part * (size_t)run->rank + run->steps * run->options.batch % (part ? part : 1);
}

static void step(struct run *run) {
  struct banyan_sparse_call call = {.collective = BANYAN_ALLREDUCE,
                                    .op = BANYAN_SUM,
                                    .way = run->options.way,
                                    .in = &run->batch.gradient,
                                    .out = &run->sum};
  model_batch(&run->model, place_of(run), run->options.batch, &run->random, &run->batch);
  check(banyan_sparse_run(run->comm, &call));
  check(banyan_sparse_apply_adagrad(&run->sum, run->model.table, run->model.squares, run->options.rate, 1e-6));
  run->loss += run->batch.loss;
  run->pairs += (double)run->batch.pairs;
  run->tokens += run->options.batch * (size_t)run->ranks;
  run->rows += run->sum.count;
  run->steps++;
}

/* What all ranks sent, and what the dense table would have taken along a ring, in MB for each step. */
static void tell(struct run *run) {
  struct banyan_counters counters;
  banyan_comm_counters(run->comm, &counters);
  double sums[3] = {run->loss, run->pairs, (double)counters.bytes_sent};
  check(banyan_allreduce(run->comm, sums, sums, 3, BANYAN_FLOAT64, BANYAN_SUM));
  double seconds = now() - run->began,
         dense = 2.0 * (run->ranks - 1) * (double)(run->model.height * run->model.width) * 4;
  run->loss = run->pairs = 0;
  if (run->rank) return;
  printf("%9llu words, loss %.4f, %8.0f words/s, %6.0f rows a step, %.2f MB a step instead of %.1f dense\n",
         (unsigned long long)run->tokens, sums[0] / (sums[1] > 0 ? sums[1] : 1), (double)run->tokens / seconds,
         (double)run->rows / (double)run->steps, sums[2] / (double)run->steps * 1e-6, dense * 1e-6);
  fflush(stdout);
}

static void train(struct run *run) {
  uint64_t tokens = run->options.tokens ? run->options.tokens : run->text.n_tokens, told = 0;
  uint64_t in_step = run->options.batch * (size_t)run->ranks;
  run->began = now();
  check(banyan_comm_expect(run->comm, (tokens + in_step - 1) / in_step)); /* for who manages jobs, as */
  while (run->tokens < tokens) {
    check(banyan_step(run->comm, run->steps)); /* this */
    step(run);
    uint64_t part = run->tokens * 10 / tokens; /* the same on all ranks, as the clock is not */
    if (part > told) tell(run);
    told = part;
  }
}

/* ---- the end */

static void show_neighbours(const struct run *run, const char *word) {
  enum { SHOWN = 8 };
  int32_t near[SHOWN] = {0}, number = text_find(&run->text, word);
  if (number < 0) {
    printf("  %-10s is not in the text often enough\n", word);
    return;
  }
  model_neighbours(&run->model, number, SHOWN, near);
  printf("  %-10s", word);
  for (int i = 0; i < SHOWN && i + 1 < (int)run->text.n_words; i++) printf(" %s", run->text.words[near[i]]);
  printf("\n");
}

static void show(const struct run *run) {
  char *words = strdup(run->options.words), *rest = words;
  printf("nearest words:\n");
  for (const char *word; words && (word = strsep(&rest, ",")) != NULL;) show_neighbours(run, word);
  free(words);
}

/* All ranks have taken the same steps. */
static void compare(const struct run *run) {
  uint64_t hash = 0xcbf29ce484222325ull, pair[2];
  const unsigned char *bytes = (const unsigned char *)run->model.table;
  for (size_t i = 0; i < run->model.height * run->model.width * sizeof(float); i++)
    hash = (hash ^ bytes[i]) * 0x100000001b3ull;
  pair[0] = hash >> 1, pair[1] = ~pair[0] & INT64_MAX;
  check(banyan_allreduce(run->comm, pair, pair, 2, BANYAN_INT64, BANYAN_MAX));
  if (pair[0] == (~pair[1] & INT64_MAX)) return;
  fprintf(stderr, "wordvec: the ranks' tables differ\n");
  exit(1);
}

int main(int argc, char **argv) {
  struct run run = {0};
  parse(argc, argv, &run.options);
  check(banyan_comm_create(NULL, &run.comm));
  run.rank = banyan_comm_rank(run.comm), run.ranks = banyan_comm_size(run.comm);
  text_read(run.options.text, run.options.least, &run.text);
  model_init(&run.model, &run.text, run.options.width, run.options.seed * 0x9e3779b97f4a7c15ull);
  run.random = (run.options.seed + (uint64_t)run.rank) * 0xbf58476d1ce4e5b9ull;
  if (run.rank == 0)
    printf("%zu words, %zu of them different, a table of %zu x %zu, %d ranks\n", run.text.n_tokens, run.text.n_words,
           run.model.height, run.model.width, run.ranks);
  train(&run);
  compare(&run);
  if (run.rank == 0) show(&run);
  banyan_sparse_free(&run.sum);
  batch_free(&run.batch);
  model_free(&run.model);
  text_free(&run.text);
  banyan_comm_destroy(run.comm);
  return 0;
}
