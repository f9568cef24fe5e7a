/* Predicts whether a plan for a measured network is faster than the built-in one, and how to try both. */
#include "forecast.h"

#include <math.h>
#include <stdlib.h>

#include "plan_make.h"

enum { LARGE = 16 << 20, LEAST_TRIAL = 64 << 10, MOST_TRIAL = 16 << 20 };

static const double wrong_by = 1.1;     /* Factor by which measurements and predictions may be wrong. */
static const double trial_time = 0.02;  /* Minimum seconds of a call in a trial. */
static const double close_time = 0.045; /* The same if both plans are predicted to take nearly the same time. */
static const double trial_step = 1.25;  /* Factor between the sizes that are compared. */
static const double equal_rates = 1.1;  /* Maximum factor between rates that count as equal. */

/* Returns whether all hosts are at one switch, by links of one rate in both directions. There the built-in plan fills
 * all links, and no plan is faster. */
static bool is_even(const struct by_topology *topology) {
  double least = INFINITY, most = 0;
  uint32_t hosts = 0;
  for (uint32_t v = 0; v < topology->n_nodes; v++) hosts += topology->nodes[v].takes_part;
  if (hosts > 2 && (topology->n_nodes != hosts + 1 || topology->n_links != hosts)) return false;
  for (uint32_t i = 0; i < topology->n_links; i++) {
    const struct by_link *link = &topology->links[i];
    if (topology->nodes[link->a].takes_part && topology->nodes[link->b].takes_part && hosts > 2) return false;
    for (int way = 0; way < 2; way++) {
      least = fmin(least, by_residual(link->capacity[way]));
      most = fmax(most, by_residual(link->capacity[way]));
    }
  }
  return most <= equal_rates * least;
}

/* Makes the built-in plan, with the names of the other plan's ranks. */
static enum banyan_status make_builtin(const struct by_plan *names, bool crowded, struct by_plan **out) {
  uint32_t n = names->n_ranks, *all = calloc(n, sizeof *all);
  struct by_plan *builtin = NULL;
  if (!all) return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for a plan");
  for (uint32_t r = 0; r < n; r++) all[r] = r;
  enum banyan_status status = by_plan_default(n, all, crowded, &builtin);
  if (status == BANYAN_OK) status = by_plan_reorder(builtin, all, names, out);
  by_plan_destroy(builtin);
  free(all);
  return status;
}

/* Initialises the costs of the class for the largest buffers. */
static enum banyan_status init_cost(struct by_cost *cost, const struct by_plan *plan,
                                    const struct by_topology *topology, const struct by_cost_rates *rates) {
  return by_cost_init(cost, plan, &plan->classes[plan->n_classes - 1], topology, rates);
}

/* Returns the least size of the plan's last class. */
static double begin_of_last(const struct by_plan *plan) {
  return plan->n_classes > 1 ? (double)plan->classes[plan->n_classes - 2].up_to + 1 : 1;
}

static enum banyan_status compare(const struct by_cost *builtin, const struct by_cost *ours, double least,
                                  struct by_forecast *out) {
  double bytes = fmax(LEAST_TRIAL, trial_step * least), seconds[2];
  out->gain = by_cost_time(builtin, LARGE) / by_cost_time(ours, LARGE);
  out->sure = out->gain >= wrong_by;
  for (;; bytes *= trial_step) {
    seconds[0] = by_cost_time(builtin, bytes);
    seconds[1] = by_cost_time(ours, bytes);
    if (isnan(out->gain + seconds[0] + seconds[1]))
      return by_fail(BANYAN_ERR_NO_MEMORY, "out of memory for predicting times of a plan");
    if (fmin(seconds[0], seconds[1]) >= (out->sure ? trial_time : close_time) || trial_step * bytes > MOST_TRIAL) break;
  }
  out->bytes = (uint64_t)bytes;
  out->seconds = fmax(seconds[0], seconds[1]);
  return BANYAN_OK;
}

enum banyan_status by_forecast_make(const struct by_topology *topology, const struct by_plan *plan,
                                    const struct by_cost_rates *rates, bool crowded, struct by_forecast *out) {
  struct by_plan *builtin = NULL;
  struct by_cost costs[2] = {{0}, {0}};
  *out = (struct by_forecast){0};
  BY_TRY(make_builtin(plan, crowded, &builtin));
  enum banyan_status status = init_cost(&costs[0], builtin, topology, rates);
  if (status == BANYAN_OK) status = init_cost(&costs[1], plan, topology, rates);
  if (status == BANYAN_OK)
    status = compare(&costs[0], &costs[1], fmax(begin_of_last(builtin), begin_of_last(plan)), out);
  out->hopeful = out->sure || (out->gain * wrong_by >= 1 && !is_even(topology));
  by_cost_fini(&costs[0]);
  by_cost_fini(&costs[1]);
  by_plan_destroy(builtin);
  return status;
}
