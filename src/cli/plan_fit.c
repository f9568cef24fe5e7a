#include "plan_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost_fit.h"
#include "file.h"
#include "json_doc.h"
#include "text.h"
#include "topology_named.h"

enum { MOST_BYTES = 4 << 20, MOST_SAMPLES = 256, MOST_TIMES = 256 };
static const struct by_doc_limits limits = {MOST_BYTES, 100000, 1000000};

struct fitting {
  const struct by_topology *topology;
  struct by_cost_rates rates;
  uint32_t n, ranks; /* of the topology's hosts take part */
  struct by_cost_sample samples[MOST_SAMPLES];
  char names[MOST_SAMPLES][64];
  uint64_t up_to[MOST_SAMPLES]; /* of the class */
};

/* --- reading --- */

static enum banyan_status add_sample(struct fitting *f, const char *name, const struct by_plan *plan,
                                     const struct by_class *class_) {
  struct by_cost_sample *sample = &f->samples[f->n];
  BY_TRY(by_cost_init(&sample->cost, plan, class_, f->topology, &f->rates));
  snprintf(f->names[f->n], sizeof f->names[0], "%s", name);
  f->up_to[f->n++] = class_->up_to;
  sample->bytes = calloc(2 * (size_t)MOST_TIMES, sizeof *sample->bytes);
  if (!sample->bytes) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for measured times");
  sample->seconds = sample->bytes + MOST_TIMES;
  return BANYAN_OK;
}

static enum banyan_status find_sample(struct fitting *f, const struct by_place *place, const char *name, uint64_t bytes,
                                      struct by_cost_sample **out) {
  struct by_plan *plan;
  uint32_t i = 0;
  enum banyan_status status = by_plan_named(name, f->ranks, &plan);
  if (status != BANYAN_OK) return by_doc_fail(place, "plan: %s", banyan_error_text());
  const struct by_class *class_ = by_plan_class(plan, bytes);
  while (i < f->n && (strcmp(f->names[i], name) != 0 || f->up_to[i] != class_->up_to)) i++;
  if (i == MOST_SAMPLES)
    status = by_doc_fail(place, "more than %d plans", MOST_SAMPLES);
  else if (i == f->n)
    status = add_sample(f, name, plan, class_);
  by_plan_destroy(plan);
  *out = &f->samples[i];
  return status;
}

/* One line; what is no AllReduce is passed over. */
static enum banyan_status read_time(struct fitting *f, const struct by_place *place, const json_t *line) {
  const char *collective = json_string_value(json_object_get(line, "collective")), *name;
  struct by_cost_sample *sample = NULL;
  uint64_t bytes;
  double micros;
  json_t *member;
  if (!collective || strcmp(collective, "allreduce") != 0) return BANYAN_OK;
  BY_TRY(by_doc_need(place, line, "plan", &member));
  BY_TRY(by_doc_string(place, member, &name));
  BY_TRY(by_doc_need(place, line, "bytes", &member));
  BY_TRY(by_doc_int(place, member, 1, UINT64_MAX / 2, &bytes));
  BY_TRY(by_doc_need(place, line, "time_us", &member));
  BY_TRY(by_doc_real(place, member, &micros));
  if (micros <= 0) return by_doc_fail(place, "time_us: must be more than 0");
  BY_TRY(find_sample(f, place, name, bytes, &sample));
  if (sample->n == MOST_TIMES) return by_doc_fail(place, "more than %d times of plan %s", MOST_TIMES, name);
  sample->bytes[sample->n] = (double)bytes;
  sample->seconds[sample->n++] = micros * 1e-6;
  return BANYAN_OK;
}

static enum banyan_status read_times(struct fitting *f, const char *path, const char *text, size_t length) {
  const struct by_place file = {.field = path};
  size_t at = 0;
  for (size_t i = 0; at < length; i++) {
    const struct by_place place = {.above = &file, .index = i};
    json_t *line;
    BY_TRY(by_doc_load_next(path, text, length, &limits, &at, &line));
    enum banyan_status status = read_time(f, &place, line);
    json_decref(line);
    if (status != BANYAN_OK) return status;
  }
  return f->n ? BANYAN_OK
              : by_fail(BANYAN_ERR_PARSE, "%s: has no time of an allreduce as `banyan bench --json` prints it", path);
}

static enum banyan_status read_file(struct fitting *f, const char *path) {
  char *text;
  size_t length;
  BY_TRY(by_read_file("times", path, MOST_BYTES, &text, &length));
  enum banyan_status status = read_times(f, path, text, length);
  free(text);
  return status;
}

/* --- printing --- */

static void print_times(const struct fitting *f, double error) {
  fprintf(stderr, "%-16s %10s %12s %12s\n", "plan", "bytes", "measured, us", "predicted");
  for (uint32_t i = 0; i < f->n; i++) {
    const struct by_cost_sample *sample = &f->samples[i];
    for (uint32_t k = 0; k < sample->n; k++) {
      double predicted = by_cost_time(&sample->cost, sample->bytes[k]);
      fprintf(stderr, "%-16.64s %10.0f %12.0f %12.0f  %+.0f %%\n", f->names[i], sample->bytes[k],
              1e6 * sample->seconds[k], 1e6 * predicted, 100 * (predicted / sample->seconds[k] - 1));
    }
  }
  fprintf(stderr, "mean error %.0f %%\n", 100 * expm1(error));
}

static enum banyan_status fit(struct fitting *f, const char *cost, const char *path) {
  double error;
  if (cost) BY_TRY(by_cost_parse(cost, &f->rates));
  BY_TRY(read_file(f, path));
  BY_TRY(by_cost_fit(f->samples, f->n, &f->rates, &error));
  print_times(f, error);
  printf("%s%scall=%.3gus,hop=%.3gus,message=%.3gus,byte=%.3gns\n", cost ? cost : "", cost ? "," : "",
         1e6 * f->rates.call, 1e6 * f->rates.hop, 1e6 * f->rates.message, 1e9 * f->rates.byte);
  return BANYAN_OK;
}

static uint32_t count_ranks(const struct by_topology *topology) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) n += topology->nodes[v].takes_part;
  return n;
}

enum banyan_status by_plan_show_fit(const char *topology_text, const char *cost, const char *path) {
  struct by_topology *topology;
  struct fitting *f = calloc(1, sizeof *f);
  if (!f) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for measured times");
  enum banyan_status status = by_topology_named(topology_text, &topology);
  if (status == BANYAN_OK) {
    f->topology = topology;
    f->rates = by_cost_defaults();
    f->ranks = count_ranks(topology);
    status = fit(f, cost, path);
    by_topology_destroy(topology);
  }
  for (uint32_t i = 0; i < f->n; i++) {
    by_cost_fini(&f->samples[i].cost);
    free(f->samples[i].bytes);
  }
  free(f);
  return status;
}
