/* Data-parallel training with Banyan: every rank computes the gradient of its
 * share of each batch, the gradients are summed over the ranks, and every rank
 * takes the same step. See examples/README.md. */
#include <banyan/banyan.h>

#include <cblas.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "model.h"
#include "optimiser.h"
#include "options.h"
#include "report.h"

struct trainer {
  struct banyan_comm *comm;
  int rank, ranks;
  struct options options;
  struct report report;
  struct data training, test;
  struct model model;
  struct optimiser optimiser;
  uint32_t *order; /* of the training images, in this epoch */
  float *images;   /* this rank's share of one batch, ready for the model */
  uint8_t *labels;
  struct banyan_request *requests[MODEL_LAYERS]; /* one for each layer's gradient */
  int steps;                                     /* of one epoch */
  double waiting;                                /* seconds in Banyan, this epoch */
};

/* What an epoch's ranks add up: the losses of all steps, and behind them these. */
enum { SUM_CORRECT, SUM_WAITING, SUM_SECONDS, SUMS };

/* Ends this rank. The others learn of it and end too. */
__attribute__((noreturn, format(printf, 2, 3))) static void die(struct trainer *t, const char *format, ...) {
  char text[DATA_ERROR];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "fashion: rank %d: %s\n", t->rank, text);
  banyan_comm_abort(t->comm, text);
  exit(1);
}

/* A training run cannot go on without its other ranks, so every error of the library ends it. */
static void check(const struct trainer *t, enum banyan_status status) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "fashion: rank %d: %s\n", t->rank, banyan_error_text());
  exit(1);
}

/* Ends this rank where all ranks have seen that they cannot go on, and said why. */
__attribute__((noreturn)) static void give_up(struct trainer *t) {
  banyan_comm_destroy(t->comm);
  exit(1);
}

static void *allocate(struct trainer *t, size_t n, size_t size) {
  void *memory = calloc(n, size);
  if (!memory) die(t, "no memory for %zu bytes", n * size);
  return memory;
}

/* Where rank r's share of n things begins; shares differ by at most one. */
static int share_begin(int n, int rank, int ranks) {
  return (int)((int64_t)n * rank / ranks);
}

static int share_size(const struct trainer *t, int n) {
  return share_begin(n, t->rank + 1, t->ranks) - share_begin(n, t->rank, t->ranks);
}

/* --- one step ----------------------------------------------------------- */

/* Sums a layer's gradient over the ranks while the layers below it are still
 * being computed. The gradients are sums over samples, so that ranks with
 * shares of unequal size count right; `scale` makes the mean of the batch. */
static void start_sum(struct trainer *t, int index, int batch) {
  const struct layer *layer = &t->model.layer[index];
  float *gradient = t->model.gradients + layer->begin;
  struct banyan_call call = {.collective = BANYAN_ALLREDUCE,
                             .dtype = BANYAN_FLOAT32,
                             .op = BANYAN_SUM,
                             .send = gradient,
                             .recv = gradient,
                             .count = layer->count,
                             .scale = 1.0 / batch};
  double started = report_clock();
  check(t, banyan_start(t->comm, &call, &t->requests[index]));
  t->waiting += report_clock() - started;
}

static void wait_sum(struct trainer *t, int index) {
  double started = report_clock();
  check(t, banyan_wait(t->requests[index]));
  t->waiting += report_clock() - started;
}

static double learning_rate(const struct trainer *t, int epoch, int step) {
  double done = (double)(epoch * (int64_t)t->steps + step) / ((double)t->options.epochs * t->steps);
  return t->options.rate * (1 - done);
}

/* One batch of the n images at `order`, shared by all ranks. Returns the sum
 * of the losses of this rank's share. */
static double take_step(struct trainer *t, const uint32_t *order, int n, double rate, int64_t *correct) {
  struct model *model = &t->model;
  int mine = share_size(t, n);
  data_gather(&t->training, order + share_begin(n, t->rank, t->ranks), mine, t->images, t->labels);
  model_forward(model, t->images, mine);
  double loss = model_loss(model, t->labels, mine, correct);
  for (int i = model->layers - 1; i >= 0; i--) {
    model_backward(model, i, mine);
    start_sum(t, i, n);
  }
  for (int i = model->layers - 1; i >= 0; i--) {
    wait_sum(t, i);
    optimiser_step(&t->optimiser, model->parameters, model->gradients, model->layer[i].begin, model->layer[i].count,
                   rate);
  }
  return loss;
}

/* --- epochs ------------------------------------------------------------- */

/* While an epoch runs, rank 0 tells of its own share only: to ask the others would cost time. */
static void print_progress(struct trainer *t, int epoch, int step, double loss, int64_t correct, double seconds) {
  int64_t images = (int64_t)(step + 1) * t->options.batch;
  double mine = (double)images / t->ranks;
  struct epoch so_far = {.number = epoch + 1,
                         .loss = loss / mine,
                         .accuracy = (double)correct / mine,
                         .seconds = seconds,
                         .waiting = t->waiting,
                         .images = (double)images};
  report_progress(&t->report, &so_far, step + 1, t->steps);
}

static int batch_size(const struct trainer *t, int step) {
  int left = t->training.count - step * t->options.batch;
  return left < t->options.batch ? left : t->options.batch;
}

/* This rank's part of an epoch; fills the losses and sums behind them. */
static void run_epoch(struct trainer *t, int epoch, double *sums) {
  double started = report_clock(), loss = 0;
  int64_t correct = 0;
  t->waiting = 0;
  data_shuffle(t->options.seed, epoch, t->order, t->training.count);
  for (int step = 0; step < t->steps; step++) {
    check(t, banyan_step(t->comm, (uint64_t)epoch * (uint64_t)t->steps + (uint64_t)step)); /* for who manages jobs */
    const uint32_t *order = t->order + (size_t)step * (size_t)t->options.batch;
    sums[step] = take_step(t, order, batch_size(t, step), learning_rate(t, epoch, step), &correct);
    loss += sums[step];
    print_progress(t, epoch, step, loss, correct, report_clock() - started);
  }
  sums[t->steps + SUM_CORRECT] = (double)correct;
  sums[t->steps + SUM_WAITING] = t->waiting;
  sums[t->steps + SUM_SECONDS] = report_clock() - started;
}

/* Turns the sums over all ranks into means; the losses into each step's mean loss. */
static struct epoch summarise_epoch(const struct trainer *t, int number, double *sums) {
  const double *more = sums + t->steps;
  double images = t->training.count;
  struct epoch epoch = {.number = number,
                        .accuracy = more[SUM_CORRECT] / images,
                        .waiting = more[SUM_WAITING] / t->ranks,
                        .seconds = more[SUM_SECONDS] / t->ranks,
                        .images = images};
  for (int step = 0; step < t->steps; step++) {
    epoch.loss += sums[step] / images;
    sums[step] /= batch_size(t, step);
  }
  return epoch;
}

static void train(struct trainer *t, struct summary *summary) {
  size_t count = (size_t)t->steps + SUMS;
  double *sums = allocate(t, count, sizeof *sums), started = report_clock();
  check(t, banyan_comm_expect(t->comm, (uint64_t)t->options.epochs * (uint64_t)t->steps));
  for (int i = 0; i < t->options.epochs; i++) {
    run_epoch(t, i, sums);
    check(t, banyan_allreduce(t->comm, sums, sums, count, BANYAN_FLOAT64, BANYAN_SUM));
    struct epoch epoch = summarise_epoch(t, i + 1, sums);
    if (!isfinite(epoch.loss)) die(t, "the loss of epoch %d is not a number; try a smaller --lr", i + 1);
    report_epoch(&t->report, &epoch, sums, t->steps);
    summary->waiting += epoch.waiting;
    summary->trained += epoch.images;
  }
  summary->seconds = report_clock() - started;
  summary->steps = (int64_t)t->options.epochs * t->steps;
  free(sums);
}

/* --- after training ----------------------------------------------------- */

/* Each rank tests its share of the test images, a batch at a time. */
static double test_accuracy(struct trainer *t) {
  int begin = share_begin(t->test.count, t->rank, t->ranks), end = begin + share_size(t, t->test.count);
  int64_t correct = 0;
  for (int i = begin; i < end; i += t->model.batch) {
    int n = end - i < t->model.batch ? end - i : t->model.batch;
    for (int j = 0; j < n; j++) t->order[j] = (uint32_t)(i + j);
    data_gather(&t->test, t->order, n, t->images, t->labels);
    model_forward(&t->model, t->images, n);
    model_loss(&t->model, t->labels, n, &correct);
  }
  check(t, banyan_allreduce(t->comm, &correct, &correct, 1, BANYAN_INT64, BANYAN_SUM));
  return (double)correct / t->test.count;
}

/* Every rank must hold the same bits; returns their checksum, or ends the process and names who differs. */
static uint64_t agree_on_checksum(struct trainer *t) {
  uint64_t mine = model_checksum(&t->model), *all = allocate(t, (size_t)t->ranks, sizeof *all);
  check(t, banyan_allgather(t->comm, &mine, all, 1, BANYAN_INT64));
  uint64_t first = all[0];
  int differ = 0;
  for (int i = 1; i < t->ranks; i++) {
    if (all[i] == first) continue;
    differ++;
    if (t->rank == 0)
      fprintf(stderr,
              "fashion: the parameters of rank %d on %s differ: checksum %016" PRIx64 ", rank 0 has %016" PRIx64 "\n",
              i, banyan_comm_host(t->comm, i), all[i], first);
  }
  free(all);
  if (differ) give_up(t);
  return first;
}

/* --- before training ---------------------------------------------------- */

/* Loads the data. If that fails anywhere, one rank of each host concerned says why and all end. */
static void load_data(struct trainer *t) {
  char error[DATA_ERROR] = "";
  int32_t loaded = data_load(t->options.data, "train", &t->training, error) == 0 &&
                   data_load(t->options.data, "t10k", &t->test, error) == 0;
  if (loaded && t->test.width != t->training.width) {
    snprintf(error, sizeof error, "%s: training images have %d pixels and test images %d", t->options.data,
             t->training.width, t->test.width);
    loaded = 0;
  }
  if (!loaded && banyan_comm_local_rank(t->comm) == 0) fprintf(stderr, "fashion: %s\n", error);
  check(t, banyan_allreduce(t->comm, &loaded, &loaded, 1, BANYAN_INT32, BANYAN_MIN));
  if (!loaded) give_up(t);
  if (t->options.limit > 0 && t->options.limit < t->training.count) t->training.count = t->options.limit;
  t->steps = (t->training.count + t->options.batch - 1) / t->options.batch;
}

/* Gradients lie in memory from banyan_alloc, where ranks of one host add them without a copy. */
static void build_model(struct trainer *t) {
  int layers = t->options.hidden_layers + 1, widths[OPTIONS_HIDDEN + 2] = {t->training.width};
  memcpy(widths + 1, t->options.hidden, (size_t)t->options.hidden_layers * sizeof *widths);
  widths[layers] = DATA_CLASSES;
  int batch = (t->options.batch + t->ranks - 1) / t->ranks;
  if (model_init(&t->model, widths, layers, batch) || optimiser_init(&t->optimiser, t->model.count))
    die(t, "no memory for the model");
  void *gradients;
  check(t, banyan_alloc(t->comm, t->model.count * sizeof(float), &gradients));
  t->model.gradients = gradients;
  t->order = allocate(t, (size_t)(t->training.count > batch ? t->training.count : batch), sizeof *t->order);
  t->images = allocate(t, (size_t)batch * (size_t)t->training.width, sizeof *t->images);
  t->labels = allocate(t, (size_t)batch, sizeof *t->labels);
}

/* All ranks begin with rank 0's parameters. */
static void share_parameters(struct trainer *t) {
  if (t->rank == 0) model_randomise(&t->model, t->options.seed);
  check(t, banyan_broadcast(t->comm, t->model.parameters, t->model.count, BANYAN_FLOAT32, 0));
}

static void join(struct trainer *t) {
  if (banyan_comm_create(NULL, &t->comm)) {
    fprintf(stderr, "fashion: %s\n", banyan_error_text());
    exit(1);
  }
  t->rank = banyan_comm_rank(t->comm);
  t->ranks = banyan_comm_size(t->comm);
  if (report_init(&t->report, &t->options, t->rank == 0))
    die(t, "cannot write %s: %s", t->options.loss_log, strerror(errno));
}

static void leave(struct trainer *t) {
  if (report_fini(&t->report)) die(t, "cannot write %s: %s", t->options.loss_log, strerror(errno));
  free(t->order);
  free(t->images);
  free(t->labels);
  banyan_free(t->comm, t->model.gradients);
  optimiser_fini(&t->optimiser);
  model_fini(&t->model);
  data_free(&t->training);
  data_free(&t->test);
  banyan_comm_destroy(t->comm);
}

int main(int argc, char **argv) {
  struct trainer t = {0};
  options_parse(argc, argv, &t.options);
  openblas_set_num_threads(1); /* the ranks are the parallelism; and one thread always adds in the same order */
  join(&t);
  load_data(&t);
  build_model(&t);
  share_parameters(&t);
  struct summary summary = {
      .ranks = t.ranks, .parameters = (int64_t)model_parameters(&t.model), .images = t.test.count};
  report_start(&t.report, &summary, t.training.count, (double)t.model.count * sizeof(float) / 1e6);
  train(&t, &summary);
  summary.accuracy = test_accuracy(&t);
  summary.checksum = agree_on_checksum(&t);
  report_summary(&t.report, &summary);
  leave(&t);
  return 0;
}
