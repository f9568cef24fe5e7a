#include "pack_start.h"

#include <math.h>

#include "pack_limit.h"

static const double worth_fewer = 1.001; /* a limit that is so much better is worth having fewer trees */
static const double stray = 0.4;         /* how far from the best shares, as a logarithm, at most */

static void normalise(struct by_start *start) {
  double sum = 0;
  for (uint32_t i = 0; i < start->n; i++) sum += start->share[i];
  for (uint32_t i = 0; i < start->n; i++) start->share[i] /= sum;
}

/* Of how many equal trees most may be expected: of a torus in three dimensions, six use what eight cannot share out. */
static uint32_t best_of_equal(const struct by_graph *graph, uint32_t most, double bound) {
  double best = fmin(by_limit_of_equal_trees(graph, most), bound);
  uint32_t chosen = most;
  for (uint32_t n = most - 1; n > most / 4 && best < bound; n--) {
    double limit = fmin(by_limit_of_equal_trees(graph, n), bound);
    if (limit < best * worth_fewer) continue;
    best = limit;
    chosen = n;
  }
  return chosen;
}

/* Shares far apart suit unequal links, one tree over a wide one and others over narrow ones; equal ones suit equal
 * links. */
void by_start_planned(struct by_start *start, const struct by_graph *graph, uint32_t most, double bound,
                      uint32_t number) {
  static const double powers[BY_START_PLANNED] = {1, 0, 0.5, 0};
  start->n = number == 1 ? best_of_equal(graph, most, bound) : most;
  for (uint32_t i = 0; i < start->n; i++) start->share[i] = pow(i + 1, -powers[number]);
  normalise(start);
}

void by_start_near(struct by_start *start, const struct by_rates *best, uint32_t most, struct by_rng *rng) {
  uint32_t n = 0;
  for (uint32_t t = 0; t < best->pool.n_trees && n < most; t++)
    if (best->rate[t] > 0) start->share[n++] = best->rate[t] / best->throughput;
  while (n < most) start->share[n++] = 1.0 / 4 / most;
  for (uint32_t i = 0; i < most; i++) start->share[i] *= exp(stray * (by_rng_unit(rng) + by_rng_unit(rng) - 1));
  start->n = most;
  normalise(start);
}
