#include "use_log.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_WIDTH 1e-6 /* seconds */
#define NEARLY 1e-9      /* relative: what rounding leaves of a rate */

enum banyan_status by_use_log_init(struct by_use_log *log, uint32_t n_resources) {
  size_t n = (size_t)n_resources + 1;
  *log = (struct by_use_log){.n_resources = n_resources,
                             .width = FIRST_WIDTH,
                             .units = calloc(n * BY_USE_SLOTS, sizeof *log->units),
                             .rate = calloc(n, sizeof *log->rate),
                             .since = calloc(n, sizeof *log->since)};
  if (log->units && log->rate && log->since) return BANYAN_OK;
  by_use_log_fini(log);
  return by_fail(BANYAN_ERR_NO_MEMORY, "no memory for the use of links over time");
}

void by_use_log_fini(struct by_use_log *log) {
  free(log->units);
  free(log->rate);
  free(log->since);
  *log = (struct by_use_log){0};
}

static void widen(struct by_use_log *log) {
  for (uint32_t r = 0; r < log->n_resources; r++) {
    float *units = log->units + (size_t)r * BY_USE_SLOTS;
    for (uint32_t i = 0; i < BY_USE_SLOTS / 2; i++) units[i] = units[2 * i] + units[2 * i + 1];
    memset(units + BY_USE_SLOTS / 2, 0, BY_USE_SLOTS / 2 * sizeof *units);
  }
  log->width *= 2;
}

/* Adds what was used from `from` to `to`. */
static void add(struct by_use_log *log, uint32_t resource, double from, double to) {
  float *units = log->units + (size_t)resource * BY_USE_SLOTS;
  while (to > log->width * BY_USE_SLOTS) widen(log);
  for (uint32_t i = (uint32_t)(from / log->width); i < BY_USE_SLOTS && from < to; i++) {
    double end = (i + 1) * log->width;
    if (end > to || i + 1 == BY_USE_SLOTS) end = to;
    if (end <= from) continue;
    units[i] += (float)(log->rate[resource] * (end - from));
    from = end;
  }
}

void by_use_log_change(struct by_use_log *log, uint32_t resource, double now, double change) {
  if (log->rate[resource] > 0 && now > log->since[resource]) add(log, resource, log->since[resource], now);
  double before = log->rate[resource], after = before + change;
  log->rate[resource] = after > before * NEARLY ? after : 0;
  log->since[resource] = now;
}

void by_use_log_read(const struct by_use_log *log, uint32_t resource, double seconds, uint32_t n, double *out) {
  const float *units = log->units + (size_t)resource * BY_USE_SLOTS;
  double wide = seconds / n;
  for (uint32_t i = 0; i < n; i++) out[i] = 0;
  if (!(wide > 0)) return;
  for (uint32_t i = 0; i < BY_USE_SLOTS; i++) {
    double from = i * log->width, to = from + log->width;
    if (to > seconds) to = seconds; /* nothing happens later */
    for (uint32_t k = (uint32_t)(from / wide); from < to && k < n; k++) {
      double end = (k + 1) * wide < to && k + 1 < n ? (k + 1) * wide : to;
      out[k] += units[i] * (end - from) / (to - i * log->width);
      from = end > from ? end : from;
    }
  }
}
