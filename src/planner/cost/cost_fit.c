/* A search along one cost after the other: times change in steps with the costs, and no slope says where to go. */
#include "cost_fit.h"

#include <math.h>

enum { FITTED = 4 };
static const double first_step = 2, last_step = 1.02;
/* What is found lies within this times what it began with. */
static const double most_times = 64;

static enum banyan_status find_error(struct by_cost_sample *samples, uint32_t n, const struct by_cost_rates *rates,
                                     double *error) {
  uint32_t times = 0;
  *error = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct by_cost_sample *sample = &samples[i];
    BY_TRY(by_cost_change(&sample->cost, rates));
    for (uint32_t k = 0; k < sample->n; k++, times++) {
      double off = fabs(log(by_cost_time(&sample->cost, sample->bytes[k]) / sample->seconds[k]));
      *error += off < BY_COST_FIT_MOST ? off : BY_COST_FIT_MOST;
    }
  }
  if (times) *error /= times;
  return BANYAN_OK;
}

/* Keeps the first change of one cost that is better. */
static enum banyan_status improve(struct by_cost_sample *samples, uint32_t n, const struct by_cost_rates *first,
                                  struct by_cost_rates *rates, double step, double *error, bool *better) {
  double *const fitted[FITTED] = {&rates->message, &rates->hop, &rates->byte, &rates->call};
  const double begun[FITTED] = {first->message, first->hop, first->byte, first->call};
  *better = false;
  for (int i = 0; i < 2 * FITTED && !*better; i++) {
    double before = *fitted[i / 2], found;
    *fitted[i / 2] *= i % 2 ? 1 / step : step;
    BY_TRY(find_error(samples, n, rates, &found));
    bool allowed = *fitted[i / 2] * most_times >= begun[i / 2] && *fitted[i / 2] <= most_times * begun[i / 2];
    *better = allowed && found < *error;
    if (*better)
      *error = found;
    else
      *fitted[i / 2] = before;
  }
  return BANYAN_OK;
}

enum banyan_status by_cost_fit(struct by_cost_sample *samples, uint32_t n, struct by_cost_rates *rates, double *error) {
  const struct by_cost_rates first = *rates;
  double step = first_step;
  BY_TRY(find_error(samples, n, rates, error));
  while (step > last_step) {
    bool better;
    BY_TRY(improve(samples, n, &first, rates, step, error, &better));
    if (!better) step = sqrt(step);
  }
  return find_error(samples, n, rates, error);
}
