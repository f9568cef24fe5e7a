/* `banyan plan TOPOLOGY --fit FILE`: what hosts cost, from measured times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_doc.h"
#include "plan_topology.h"
#include "text.h"
#include "topology_synth.h"

static const struct by_doc_limits limits = {BY_TIMES_MOST_FILE, 100000, 1000000};

void by_times_init(struct by_times *times, const struct by_topology *topology, const struct by_cost_rates *rates) {
  times->topology = topology;
  times->rates = *rates;
  times->n = 0;
  times->ranks = by_plan_count_ranks(topology);
}

void by_times_fini(struct by_times *times) {
  for (uint32_t i = 0; i < times->n; i++) {
    by_cost_fini(&times->samples[i].cost);
    free(times->samples[i].bytes);
    free(times->names[i]);
  }
}

static enum banyan_status add_sample(struct by_times *times, const char *name, const struct by_plan *plan,
                                     const struct by_class *class_) {
  struct by_cost_sample *sample = &times->samples[times->n];
  BY_TRY(by_cost_init(&sample->cost, plan, class_, times->topology, &times->rates));
  times->names[times->n] = strdup(name);
  sample->bytes = calloc(2 * (size_t)BY_TIMES_MOST, sizeof *sample->bytes);
  times->up_to[times->n] = class_->up_to;
  if (!times->names[times->n++] || !sample->bytes)
    return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for measured times");
  sample->seconds = sample->bytes + BY_TIMES_MOST;
  return BANYAN_OK;
}

static enum banyan_status find_sample(struct by_times *times, const struct by_place *place, const char *name,
                                      uint64_t bytes, uint32_t *out) {
  struct by_plan *plan;
  uint32_t i = 0;
  enum banyan_status status = by_plan_named(name, times->ranks, &plan);
  if (status != BANYAN_OK) return by_doc_fail(place, "plan: %s", banyan_error_text());
  const struct by_class *class_ = by_plan_class(plan, bytes);
  while (i < times->n && (strcmp(times->names[i], name) != 0 || times->up_to[i] != class_->up_to)) i++;
  if (i == BY_TIMES_MOST_PLANS)
    status = by_doc_fail(place, "more than %d plans", BY_TIMES_MOST_PLANS);
  else if (i == times->n)
    status = add_sample(times, name, plan, class_);
  by_plan_destroy(plan);
  *out = i;
  return status;
}

/* One line; what is no AllReduce is passed over. */
static enum banyan_status read_time(struct by_times *times, const struct by_place *place, const json_t *line) {
  const char *collective = json_string_value(json_object_get(line, "collective")), *name;
  uint32_t at = 0;
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
  if (micros * 1e-6 <= 0) return by_doc_fail(place, "time_us: must be more than 0");
  BY_TRY(find_sample(times, place, name, bytes, &at));
  struct by_cost_sample *sample = &times->samples[at];
  if (sample->n == BY_TIMES_MOST) return by_doc_fail(place, "more than %d times of plan %s", BY_TIMES_MOST, name);
  sample->bytes[sample->n] = (double)bytes;
  sample->seconds[sample->n++] = micros * 1e-6;
  return BANYAN_OK;
}

enum banyan_status by_times_read(struct by_times *times, const char *source, const char *text, size_t length) {
  const struct by_place file = {.field = source};
  size_t at = 0;
  for (size_t i = 0; at < length; i++) {
    const struct by_place place = {.above = &file, .index = i};
    json_t *line;
    BY_TRY(by_doc_load_next(source, text, length, &limits, &at, &line));
    enum banyan_status status = read_time(times, &place, line);
    json_decref(line);
    if (status != BANYAN_OK) return status;
  }
  return times->n
             ? BANYAN_OK
             : by_fail(BANYAN_ERR_PARSE, "%s: has no time of an allreduce as `banyan bench --json` prints it", source);
}

static void print_times(const struct by_times *times, double error) {
  fprintf(stderr, "%-16s %10s %12s %12s\n", "plan", "bytes", "measured, us", "predicted");
  for (uint32_t i = 0; i < times->n; i++) {
    const struct by_cost_sample *sample = &times->samples[i];
    for (uint32_t k = 0; k < sample->n; k++) {
      double predicted = by_cost_time(&sample->cost, sample->bytes[k]);
      fprintf(stderr, "%-16.64s %10.0f %12.0f %12.0f  %+.0f %%\n", times->names[i], sample->bytes[k],
              1e6 * sample->seconds[k], 1e6 * predicted, 100 * (predicted / sample->seconds[k] - 1));
    }
  }
  fprintf(stderr, "mean error %.0f %%\n", 100 * expm1(error));
}

static enum banyan_status fit(struct by_times *times, const char *cost, const char *path) {
  char *text;
  size_t length;
  double error;
  BY_TRY(by_read_file("times", path, BY_TIMES_MOST_FILE, &text, &length));
  enum banyan_status status = by_times_read(times, path, text, length);
  free(text);
  BY_TRY(status);
  BY_TRY(by_cost_fit(times->samples, times->n, &times->rates, &error));
  print_times(times, error);
  printf("%s%scall=%.3gus,hop=%.3gus,message=%.3gus,byte=%.3gns\n", cost ? cost : "", cost ? "," : "",
         1e6 * times->rates.call, 1e6 * times->rates.hop, 1e6 * times->rates.message, 1e9 * times->rates.byte);
  return BANYAN_OK;
}

enum banyan_status by_plan_show_fit(const char *name, const char *cost, const char *path) {
  static struct by_times times; /* too large for a stack */
  struct by_cost_rates rates = by_cost_defaults();
  struct by_topology *topology;
  BY_TRY(by_topology_named(name, &topology));
  enum banyan_status status = cost ? by_cost_parse(cost, &rates) : BANYAN_OK;
  by_times_init(&times, topology, &rates);
  if (status == BANYAN_OK) status = fit(&times, cost, path);
  by_times_fini(&times);
  by_topology_destroy(topology);
  return status;
}
