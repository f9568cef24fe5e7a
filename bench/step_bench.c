/* Trains a model step by step, as far as the network is concerned: every rank has its gradients ready one after the
 * other, in the reverse order of the layers except for some that change places, differently on each rank and in
 * each step. There are three ways:
 *
 *   submit  each gradient as soon as it is ready, by name
 *   fixed   each gradient in the order of the layers, by a blocking call
 *   one     all gradients at the end, as one buffer
 *
 *   banyan run -n 4 --transport tcp -- build/step_bench resnet50|bert|single [STEPS [SECONDS [WAY]]]
 *
 * SECONDS is the computing time of a step. Prints a line for each way: milliseconds per step, the median over the
 * steps of the slowest rank's time. */
#include <banyan/banyan.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* NEAR is how many places a gradient may be displaced. */
enum { MOST_GRADIENTS = 256, NAME = 24, WARM_UP = 3, NEAR = 8 };

struct model {
  size_t n, total, count[MOST_GRADIENTS], offset[MOST_GRADIENTS]; /* The arrays are in the order of the layers. */
  char name[MOST_GRADIENTS][NAME];
};

static struct banyan_comm *world;

static void check(enum banyan_status status, const char *what) {
  if (status == BANYAN_OK) return;
  fprintf(stderr, "step_bench: %s: %s\n", what, banyan_error_text());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The last microseconds are spent spinning, since waking up costs some 60 us. */
static void sleep_until(double when) {
  if (when <= now()) return;
  struct timespec t = {(time_t)when, (long)((when - (double)(time_t)when) * 1e9)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* --- models --- */

static void add(struct model *m, size_t count) {
  m->offset[m->n] = m->total;
  m->count[m->n] = count;
  snprintf(m->name[m->n], NAME, "gradient %zu", m->n);
  m->total += count;
  m->n++;
}

static void add_convolution(struct model *m, size_t in, size_t out, size_t kernel) {
  add(m, in * out * kernel * kernel);
  add(m, out);
  add(m, out);
}

static void make_resnet50(struct model *m) {
  static const size_t blocks[] = {3, 4, 6, 3};
  size_t in = 64;
  add_convolution(m, 3, 64, 7);
  for (size_t stage = 0; stage < 4; stage++) {
    size_t width = (size_t)64 << stage;
    for (size_t b = 0; b < blocks[stage]; b++) {
      add_convolution(m, in, width, 1);
      add_convolution(m, width, width, 3);
      add_convolution(m, width, 4 * width, 1);
      if (b == 0) add_convolution(m, in, 4 * width, 1);
      in = 4 * width;
    }
  }
  add(m, 2048 * 1000);
  add(m, 1000);
}

static void add_dense(struct model *m, size_t in, size_t out) {
  add(m, in * out);
  add(m, out);
}

static void add_norm(struct model *m) {
  add(m, 768);
  add(m, 768);
}

static void make_bert(struct model *m) {
  add(m, 30522 * 768);
  add(m, 512 * 768);
  add(m, 2 * 768);
  add_norm(m);
  for (int layer = 0; layer < 12; layer++) {
    for (int i = 0; i < 4; i++) add_dense(m, 768, 768);
    add_norm(m);
    add_dense(m, 768, 3072);
    add_dense(m, 3072, 768);
    add_norm(m);
  }
  add_dense(m, 768, 768);
}

/* --- a step --- */

struct step {
  size_t order[MOST_GRADIENTS]; /* the order in which gradients are ready here */
  double ready[MOST_GRADIENTS]; /* the seconds from the step's beginning, for each */
};

static uint64_t state;

static size_t below(size_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(state >> 33) % n;
}

static void shuffle(const struct model *m, double seconds, struct step *step) {
  for (size_t i = 0; i < m->n; i++) step->order[i] = m->n - 1 - i;
  for (size_t i = 0; i + 1 < m->n; i++) {
    size_t room = m->n - i < NEAR ? m->n - i : NEAR, j = i + below(room), last = step->order[i];
    step->order[i] = step->order[j];
    step->order[j] = last;
  }
  for (size_t i = 0; i < m->n; i++) step->ready[step->order[i]] = seconds * (double)(i + 1) / (double)m->n;
}

static void run_submit(const struct model *m, const struct step *step, float *values, double began) {
  struct banyan_request *requests[MOST_GRADIENTS];
  for (size_t i = 0; i < m->n; i++) {
    size_t g = step->order[i];
    sleep_until(began + step->ready[g]);
    check(banyan_submit_allreduce(world, m->name[g], values + m->offset[g], values + m->offset[g], m->count[g],
                                  BANYAN_FLOAT32, BANYAN_AVERAGE, &requests[i]),
          "submitting");
  }
  check(banyan_wait_all(requests, m->n), "waiting");
}

static void run_fixed(const struct model *m, const struct step *step, float *values, double began) {
  for (size_t g = m->n; g-- > 0;) {
    sleep_until(began + step->ready[g]);
    check(banyan_allreduce(world, values + m->offset[g], values + m->offset[g], m->count[g], BANYAN_FLOAT32,
                           BANYAN_AVERAGE),
          "calling");
  }
}

static void run_one(const struct model *m, const struct step *step, float *values, double began) {
  sleep_until(began + step->ready[step->order[m->n - 1]]);
  check(banyan_allreduce(world, values, values, m->total, BANYAN_FLOAT32, BANYAN_AVERAGE), "calling");
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double time_way(const struct model *m, int way, int steps, double seconds, float *values) {
  static void (*const ways[])(const struct model *, const struct step *, float *, double) = {run_submit, run_fixed,
                                                                                             run_one};
  double *times = calloc((size_t)steps, sizeof *times);
  struct step step;
  if (!times) exit(1);
  state = (uint64_t)banyan_comm_rank(world) + 1;
  for (int i = -WARM_UP; i < steps; i++) {
    shuffle(m, seconds, &step);
    if (way == 0) check(banyan_step(world, (uint64_t)(i + WARM_UP)), "beginning a step");
    check(banyan_barrier(world), "barrier");
    double began = now(), took;
    ways[way](m, &step, values, began);
    took = now() - began;
    check(banyan_allreduce(world, &took, &took, 1, BANYAN_FLOAT64, BANYAN_MAX), "telling times");
    if (i >= 0) times[i] = took;
  }
  qsort(times, (size_t)steps, sizeof *times, by_size);
  double median = times[steps / 2];
  free(times);
  return median;
}

int main(int argc, char **argv) {
  static const char *const names[] = {"submit", "fixed", "one"};
  static struct model model;
  int steps = argc > 2 ? atoi(argv[2]) : 10;
  double seconds = argc > 3 ? atof(argv[3]) : 0.1;
  if (argc > 1 && !strcmp(argv[1], "resnet50")) make_resnet50(&model);
  if (argc > 1 && !strcmp(argv[1], "bert")) make_bert(&model);
  /* There is almost nothing to add, so the time is that of the negotiation. */
  if (argc > 1 && !strcmp(argv[1], "single")) add(&model, 1);
  if (!model.n || steps < 1 || !(seconds >= 0)) {
    fprintf(stderr, "step_bench resnet50|bert|single [STEPS [SECONDS [WAY]]]\n");
    return 2;
  }
  check(banyan_comm_create(NULL, &world), "joining");
  float *values = calloc(model.total, sizeof *values);
  if (!values) return 1;
  bool reports = banyan_comm_rank(world) == 0;
  if (reports)
    printf("# %s: %zu gradients, %.1f MB, %d ranks, %g ms of computing a step\n", argv[1], model.n,
           (double)model.total * 4e-6, banyan_comm_size(world), seconds * 1e3);
  for (int way = 0; way < 3; way++) {
    if (argc > 4 && strcmp(argv[4], names[way]) != 0) continue;
    double took = time_way(&model, way, steps, seconds, values);
    if (reports) printf("%-8s %10.4f ms\n", names[way], took * 1e3);
  }
  struct banyan_negotiation n;
  banyan_comm_negotiation(world, &n);
  if (reports)
    printf("# submitted %llu, calls %llu, messages %llu sent %llu taken at rank 0, copied %.1f MB\n",
           (unsigned long long)n.submitted, (unsigned long long)n.calls, (unsigned long long)n.messages,
           (unsigned long long)n.taken, (double)n.copied * 1e-6);
  free(values);
  banyan_comm_destroy(world);
  return 0;
}
