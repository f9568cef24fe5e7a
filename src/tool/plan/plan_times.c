#include "plan_times.h"

#include <stdlib.h>
#include <string.h>

#include "json_doc.h"

static const struct by_doc_limits limits = {BY_TIMES_MOST_FILE, 100000, 1000000};

void by_times_init(struct by_times *times, const struct by_topology *topology, const struct by_cost_rates *rates) {
  times->topology = topology;
  times->rates = *rates;
  times->n = times->ranks = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) times->ranks += topology->nodes[v].takes_part;
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
