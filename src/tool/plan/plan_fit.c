#include "plan_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "file.h"
#include "plan_times.h"
#include "topology_named.h"

static enum banyan_status read_file(struct by_times *times, const char *path) {
  char *text;
  size_t length;
  BY_TRY(by_read_file("times", path, BY_TIMES_MOST_FILE, &text, &length));
  enum banyan_status status = by_times_read(times, path, text, length);
  free(text);
  return status;
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
  double error;
  BY_TRY(read_file(times, path));
  BY_TRY(by_cost_fit(times->samples, times->n, &times->rates, &error));
  print_times(times, error);
  printf("%s%scall=%.3gus,hop=%.3gus,message=%.3gus,byte=%.3gns\n", cost ? cost : "", cost ? "," : "",
         1e6 * times->rates.call, 1e6 * times->rates.hop, 1e6 * times->rates.message, 1e9 * times->rates.byte);
  return BANYAN_OK;
}

static enum banyan_status fit_to(const struct by_topology *topology, const char *cost, const char *path) {
  struct by_cost_rates rates = by_cost_defaults();
  if (cost) BY_TRY(by_cost_parse(cost, &rates));
  struct by_times *times = calloc(1, sizeof *times);
  if (!times) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for measured times");
  by_times_init(times, topology, &rates);
  enum banyan_status status = fit(times, cost, path);
  by_times_fini(times);
  free(times);
  return status;
}

enum banyan_status by_plan_show_fit(const char *topology_text, const char *cost, const char *path) {
  struct by_topology *topology;
  BY_TRY(by_topology_named(topology_text, &topology));
  enum banyan_status status = fit_to(topology, cost, path);
  by_topology_destroy(topology);
  return status;
}
